/* The baton: whoever holds it makes progress for everybody. A blocking caller takes it and works in its own thread, without a
 * hand-off; the progress thread takes it when nobody has for a while. See docs/architecture.md, "A call, from the top". */
#include "engine/progress.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "engine/any.h"
#include "engine/context.h"
#include "engine/ended.h"
#include "engine/op.h"
#include "engine/stream.h"
#include "engine/timers.h"
#include "engine/trouble.h"
#include "reduce/float_env.h"

#define TIMER_NS (5 * TT_MS)            /* between looks at deadlines */
#define CLOCK_EVERY 256                 /* idle polls, or busy ones, between looks at the clock */
#define PAY_EVERY 4096                  /* the same between payments of the little that we owe: whoever we wait for may need it, but seldom
                                           does, and it wakes who sleeps */
#define SHARE_BYTES (128u << 10)        /* moved in memory by a rank that others wait behind, before it offers them the core */
#define WAIT_NS (20 * TT_MS)            /* a safety net, too, for who waits without the baton */
#define FIRST_MS 2                      /* so the first sleep of a wait is short */
#define YIELDS 400                      /* of a waiter, after spinning, before it blocks */
#define YIELDS_CROWDED 20                /* the same where ranks outnumber cores and a look at the wires costs system calls */
#define YIELDS_LOOK 8                   /* between looks at the clock: where others want the core, each takes a slice of theirs, milliseconds */
#define NAP_MS 1                        /* of a holder with something that it could not do yet */
#define BLOCK_MS_MAX 50                 /* a safety net: whoever blocks looks again after this */
#define HEAR_EVERY 1024                 /* passes of the progress thread between looks at the control overlay */
#define THREAD_MS 2                     /* how long callers are left alone before the thread takes over */
#define CROWD 4                         /* ranks a core up to which these hold; where there are more, all of them yield and look around for each other */
#define DONE_MAX 32
#define MAIL_AT_ONCE 256                 /* messages of a peer before others are looked at */
#define LOOKS 16                        /* at memory, between full passes */
#define QUIET_EVERY 16                  /* passes between polls of a wire that has little to say */

/* ---- the baton --------------------------------------------------------------------------------------- */

/* How long a thread may sleep until due_ns, and most_ns at most; a little where that has passed, as what it ends is being looked at. */
static uint64_t sleep_ns(uint64_t now_ns, uint64_t due_ns, uint64_t most_ns)
{
    const uint64_t left_ns = due_ns > now_ns ? due_ns - now_ns : TT_MS;

    return left_ns < most_ns ? left_ns : most_ns;
}

/* When the first wait of the guest ends. Once that has passed, those that are left name theirs again. */
static uint64_t guest_due_ns(struct tt_engine *e, uint64_t now_ns)
{
    uint64_t due_ns = atomic_load_explicit(&e->guest_due_ns, memory_order_relaxed), due = due_ns;

    if (due_ns <= now_ns)
        atomic_compare_exchange_strong(&e->guest_due_ns, &due, TT_NEVER);
    return due_ns;
}

static void futex_wait(atomic_uint *word, uint32_t seen, uint64_t timeout_ns)
{
    const struct timespec ts = { .tv_sec = (time_t)(timeout_ns / TT_SECOND),
                                 .tv_nsec = (long)(timeout_ns % TT_SECOND) };

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
}

/* A thread that is about to sleep counts itself, then looks once more; whoever ends an operation or gives the baton back does so, then
 * looks for sleepers. One of the two must see the other. The sleeper pays for that, with a barrier on all
 * processors; where the kernel has none, the other one does. */
static void show_others(const struct tt_engine *e)
{
    if (e->barrier)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

static void count_in(struct tt_engine *e)
{
    atomic_fetch_add(&e->sleepers, 1);
    show_others(e);
}

static void count_out(struct tt_engine *e) { atomic_fetch_sub(&e->sleepers, 1); }

void tt_engine_wake(struct tt_engine *e)
{
    if (e->barrier)
        atomic_signal_fence(memory_order_seq_cst);
    else
        __sync_synchronize();
    if (atomic_load_explicit(&e->sleepers, memory_order_relaxed) == 0)
        return;
    atomic_fetch_add(&e->events, 1);
    syscall(SYS_futex, &e->events, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void kick(struct tt_engine *e)
{
    const uint64_t one = 1;

    if (write(e->kick_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        tt_fail_errno(errno, "cannot wake the progress thread");
}

bool tt_baton_try(struct tt_engine *e)
{
    int free = 0;

    if (atomic_load_explicit(&e->baton, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&e->baton, &free, 1, memory_order_acquire, memory_order_relaxed))
        return false;
    atomic_store_explicit(&e->uses, atomic_load_explicit(&e->uses, memory_order_relaxed) + 1, memory_order_relaxed);
    return true;
}

void tt_baton_take(struct tt_engine *e)
{
    if (tt_baton_try(e))
        return;
    atomic_fetch_add(&e->urgent, 1);
    for (;;) {
        uint32_t seen;

        if (atomic_load(&e->blocked))
            kick(e);
        if (tt_baton_try(e))
            break;
        count_in(e);
        seen = atomic_load(&e->events);
        if (atomic_load(&e->baton))
            futex_wait(&e->events, seen, TT_MS);
        count_out(e);
    }
    atomic_fetch_sub(&e->urgent, 1);
}

/* Whether something may come of which a sleeper does not hear. */
static bool is_unheard(const struct tt_engine *e)
{
    for (uint32_t i = 0; i < e->nwires; i++)
        if (e->wire[i]->unheard)
            return true;
    return false;
}

/* Peers need not ring any more once somebody has looked at the wires; then the progress thread would sleep on. */
void tt_baton_give(struct tt_engine *e)
{
    const bool parked = atomic_load_explicit(&e->parked, memory_order_relaxed);
    const bool busy = e->nexposed > 0 || e->nunbegun > 0 || e->unfinished || (e->expected > 0 && !e->armed) ||
                      (parked && is_unheard(e));

    atomic_store_explicit(&e->baton, 0, memory_order_release);
    tt_engine_wake(e);
    if (busy && atomic_load_explicit(&e->parked, memory_order_relaxed) && atomic_exchange(&e->parked, false))
        kick(e);
}

/* ---- one round of progress ---------------------------------------------------------------------------- */

static void add_name(char *list, size_t cap, const char *name)
{
    const size_t n = strlen(list);

    snprintf(list + n, cap - n, "%s%s", n ? ", " : "", name);
}

/* No wire of ours could take the address of one of theirs. why: what the wires say of it, which may be nothing. */
static void say_unreachable(struct tt_engine *e, const struct tt_peer *p, const char *theirs, const char *why)
{
    char ours[64] = "", how[384], own[TT_RANK_TEXT_BYTES], other[TT_RANK_TEXT_BYTES];

    for (uint32_t i = 0; i < e->nwires; i++)
        add_name(ours, sizeof ours, e->wire[i]->ops->name);
    snprintf(how, sizeof how, "no transport of this process reaches it: %s has %s, %s has %s%s%s",
             tt_rank_text(e, e->rank, own), ours, tt_rank_text(e, p->rank, other), *theirs ? theirs : "none",
             *why ? ": " : "", why);
    tt_peer_lost(e, p->rank, how);
}

/* A wire that may be used, and was perhaps asked for by name, is not: once on each host, and there once in a process, however many communicators or views
 * of an elastic run it makes. */
static void tell_unusable(struct tt_engine *e)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    char ours[64] = "";
    bool first;

    if (!e->unusable)
        return;
    for (uint32_t i = 0; i < e->nwires; i++)
        add_name(ours, sizeof ours, e->wire[i]->ops->name);
    first = e->rank == e->first_here && !atomic_flag_test_and_set(&told);
    tt_log(first ? TT_LOG_WARN : TT_LOG_INFO,
           "of the allowed transports (TUTTI_WIRES), only %s can be used on this host: %s", ours, e->unusable);
    free(e->unusable);
    e->unusable = NULL;
}

void tt_peer_connect(struct tt_engine *e, struct tt_peer *p)
{
    uint8_t card[TT_ENGINE_CARD_BYTES];
    char theirs[64] = "", why[192] = "";
    struct tt_reader r;

    tt_reader_init(&r, card, tt_cards_get(&e->cards, p->rank, card));
    tt_read_u64(&r);            /* the host */
    p->state = TT_PEER_CONNECTING;
    for (uint32_t n = tt_read_u8(&r); n > 0; n--) {
        struct tt_blob address = { 0 };
        char name[16];

        tt_read_string(&r, name, sizeof name);
        address.bytes = tt_read_u16(&r);
        if (r.bad || address.bytes > TT_BLOB_BYTES)
            break;
        tt_read_bytes(&r, address.data, address.bytes);
        add_name(theirs, sizeof theirs, name);
        for (uint32_t i = 0; i < e->nwires; i++) {
            if (strcmp(e->wire[i]->ops->name, name) != 0)
                continue;
            if (e->wire[i]->ops->connect(e->wire[i], p->rank, &address) == TUTTI_OK) {
                p->wire = e->wire[i];
                e->passes = 0;
                return;
            }
            if (e->wire[i]->unreached) {
                tt_log(TT_LOG_INFO, "rank %u is not reachable over %s: %s", p->rank, name, e->wire[i]->unreached);
                add_name(why, sizeof why, e->wire[i]->unreached);
            }
        }
    }
    say_unreachable(e, p, theirs, why);
}

static void link_up(struct tt_engine *e, struct tt_wire *w, const struct tt_done *d)
{
    struct tt_peer *p = tt_peer_of(e, d->peer);

    if (!p)
        tt_peer_lost(e, d->peer, "out of memory for this peer");
    if (!p || (p->state != TT_PEER_NONE && p->state != TT_PEER_CONNECTING))
        return;
    if (d->link.theirs.bytes != TT_LINK_BYTES) {
        tt_peer_lost(e, d->peer, "it runs another build of Tutti with a different link layout");
        return;
    }
    p->wire = w;
    p->state = TT_PEER_UP;
    p->anymem = d->link.anymem;
    p->round_trip_ns = d->link.round_trip_ns;
    if (p->round_trip_ns >= TT_MS)
        tt_log(TT_LOG_INFO, "rank %u has a round-trip time of %.3f ms", p->rank, (double)p->round_trip_ns / 1e6);
    for (uint32_t i = 0; i < e->nwires; i++)
        e->nlinks[i] += e->wire[i] == w;
    tt_mailbox_init(&p->mail, &d->link);
    p->next_up = e->up;
    e->up = p;
    tt_any_connected(e);
}

/* Reads what a peer has sent; bounded, so that one peer cannot keep the others waiting. */
static bool read_mail(struct tt_engine *e, struct tt_peer *p)
{
    struct tt_mail mail;
    bool any = false;

    for (uint32_t n = 0; n < MAIL_AT_ONCE; n++) {
        const tutti_status st = tt_mail_next(&p->mail, &mail);

        if (st == TUTTI_PENDING)
            break;
        if (st || !tt_deliver(e, p, &mail)) {
            tt_peer_lost(e, p->rank, "a message from it was rejected");
            return true;
        }
        tt_mail_drop(&p->mail, &mail);
        any = true;
    }
    tt_mail_tell(&p->mail);
    return any;
}

static bool run_ops(struct tt_engine *e)
{
    bool any = false;

    for (struct tt_context *c = e->contexts, *next; c; c = next) {
        next = c->next;
        if (e->nunbegun)
            tt_ops_expose(c);
        for (struct tt_op *op = c->awake, *after; op; op = after) {
            const bool ran = tt_op_run(op);

            any |= ran;
            e->looks++;
            if (atomic_load_explicit(&c->status, memory_order_relaxed))
                break;          /* the list is gone */
            after = op->next_awake;
            if (!ran && !tt_op_is_over(op))
                tt_op_doze(op);
        }
    }
    return any;
}

static void link_ended(struct tt_engine *e, const struct tt_done *d)
{
    struct tt_peer *p = tt_peer_of(e, d->peer);

    if (!p) {
        tt_peer_lost(e, d->peer, "out of memory for this peer");
        return;
    }
    if (p->state == TT_PEER_UP) {
        while (read_mail(e, p))     /* what it sent before it went */
            ;
        run_ops(e);
    }
    if (p->state == TT_PEER_LEFT || p->state == TT_PEER_LOST)
        return;
    if (d->status == TUTTI_OK) {        /* perhaps before the link was up: why it goes may be on its way all the same */
        p->state = TT_PEER_LEFT;
        tt_peer_left(e, p);
    } else {
        tt_engine_hear(e);      /* if it has said why it goes, that is the reason */
        tt_take_trouble(e);
        tt_peer_lost(e, p->rank, "its connection closed");
    }
}

/* Wires whose arrivals show in memory, and those without a link, have little to say; unless memory is registered there, into which
 * it is poll that brings the bytes. */
static bool is_quiet(const struct tt_engine *e, uint32_t i)
{
    return (e->wire[i]->caps & TT_WIRE_CAP_INSTANT && !e->nregistered[i]) || e->nlinks[i] == 0;
}

/* Operations never ask for remote completion. */
static void completed(struct tt_engine *e, const struct tt_done *d)
{
    if (d->cookie >= TT_GUEST_COOKIE)
        e->guest->done(e->guest->arg, d);
    else if (d->kind == TT_DONE_LOCAL)
        tt_op_sent(e, d->cookie);
}

static bool poll_wires(struct tt_engine *e)
{
    struct tt_done done[DONE_MAX];
    const bool look = e->passes++ % QUIET_EVERY == 0 || e->armed;
    bool any = false;

    e->armed = e->unfinished = false;
    for (uint32_t i = 0; i < e->nwires; i++) {
        struct tt_wire *w = e->wire[i];
        uint64_t began_ns;
        int n;

        if (!look && is_quiet(e, i))
            continue;
        began_ns = e->ntimed ? tt_now_ns() : 0;
        w->busy = e->busy;
        w->crowded = e->spins == 0;
        n = w->ops->poll(w, done, DONE_MAX);
        if (e->ntimed)
            tt_timers_polled(e, tt_now_ns() - began_ns, n > 0);
        for (int k = 0; k < n; k++)
            switch (done[k].kind) {
            case TT_DONE_LOCAL:
            case TT_DONE_REMOTE:
                completed(e, &done[k]);
                break;
            case TT_DONE_LINK_UP:
                link_up(e, w, &done[k]);
                break;
            case TT_DONE_LINK_LOST:
                link_ended(e, &done[k]);
                break;
            default:
                break;
            }
        any |= n > 0;
    }
    return any;
}

static void pay_credit(struct tt_engine *e, uint32_t least)
{
    e->credit_due = false;
    for (struct tt_context *c = e->contexts; c; c = c->next)
        tt_context_pay(c, least);
}

static void look_at_timers(struct tt_engine *e)
{
    e->now_ns = tt_now_ns();
    if (e->now_ns < e->timer_ns)
        return;
    e->timer_ns = e->now_ns + TIMER_NS;
    tt_check_deadlines(e);
}

bool tt_engine_progress(struct tt_engine *e)
{
    bool any = poll_wires(e);

    if (atomic_load_explicit(&e->ntrouble, memory_order_relaxed) != e->trouble_seen)
        tt_take_trouble(e);
    for (struct tt_peer *p = e->up, *next; p; p = next) {
        next = p->next_up;
        if (p->state == TT_PEER_UP)
            any |= read_mail(e, p);
    }
    any |= run_ops(e);
    if (e->guest)
        any |= e->guest->run(e->guest->arg);
    if (e->credit_due)
        pay_credit(e, TT_EAGER_CREDIT / 2);
    if (e->any_due)
        tt_any_send_due(e);
    if (e->endings_due)
        tt_tell_ended_again(e);
    e->busy = any;
    return any;
}

/* ---- waiting --------------------------------------------------------------------------------------------- */

/* Whether memory holds what a peer has written there. */
static bool has_arrivals(const struct tt_engine *e)
{
    for (const struct tt_peer *p = e->up; p; p = p->next_up)
        if (p->state == TT_PEER_UP && tt_mail_waits(&p->mail))
            return true;
    for (const struct tt_context *c = e->contexts; c; c = c->next)
        for (const struct tt_op *op = c->awake; op; op = op->next_awake)
            if (tt_op_has_news(op))
                return true;
    return e->guest && e->guest->has_news(e->guest->arg);
}

/* Whether there is news that poll would not show: looked at after arming. */
static bool has_news(const struct tt_engine *e)
{
    return has_arrivals(e) || atomic_load(&e->ntrouble) != e->trouble_seen || e->credit_due;
}

static bool arm(struct tt_engine *e)
{
    bool quiet = true;

    e->armed = true;

    for (uint32_t i = 0; i < e->nwires; i++)
        quiet &= e->wire[i]->ops->arm(e->wire[i]) >= 0;
    return quiet && !has_news(e);
}

static void drain_kick(struct tt_engine *e)
{
    uint64_t n;

    if (read(e->kick_fd, &n, sizeof n) < 0 && errno != EAGAIN)
        tt_fail_errno(errno, "cannot read the wake-up descriptor");
}

/* How many times as many ranks as CROWD share a core. */
static uint32_t crowding(const struct tt_engine *e)
{
    return e->crowd > CROWD ? e->crowd / CROWD : 1;
}

/* A sleep of `ms` where few ranks share a core. */
static int nap_ms(const struct tt_engine *e, int ms)
{
    const uint32_t all = (uint32_t)ms * crowding(e);

    return all < BLOCK_MS_MAX ? (int)all : BLOCK_MS_MAX;
}

/* How long a sleeper may sleep apart from deadlines: what an operation could not do (no credit, no room in a mailbox) becomes possible without a
 * sign that wakes, if seldom. */
static int undisturbed_ms(const struct tt_engine *e, bool first)
{
    for (const struct tt_context *c = e->contexts; c; c = c->next)
        for (const struct tt_op *op = c->awake; op; op = op->next_awake)
            if (op->retry)
                return NAP_MS;
    if (e->nunbegun || e->any_due || (e->guest && e->guest->is_stuck(e->guest->arg)))
        return NAP_MS;
    if (e->endings_due)
        return e->endings_nap_ms;
    return first ? nap_ms(e, FIRST_MS) : BLOCK_MS_MAX;
}

/* The same until the next deadline at most, at which they are then looked at. */
static int patience_ms(struct tt_engine *e, bool first)
{
    const uint64_t most_ns = (uint64_t)undisturbed_ms(e, first) * TT_MS, now_ns = tt_now_ns();
    const uint64_t op_ns = tt_next_deadline_ns(e, now_ns), guest_ns = guest_due_ns(e, now_ns);

    if (op_ns < e->timer_ns)
        e->timer_ns = op_ns;
    return (int)((sleep_ns(now_ns, op_ns < guest_ns ? op_ns : guest_ns, most_ns) + TT_MS - 1) / TT_MS);
}

/* Sleeps, with the baton, until a wire, another thread or time calls. first: nothing has been paid yet of the little that we owe. */
static void block(struct tt_engine *e, bool first)
{
    struct epoll_event ev[4];
    int n = 0;

    atomic_store(&e->blocked, true);
    if (arm(e) && !atomic_load(&e->urgent))
        n = epoll_wait(e->all_epoll, ev, 4, patience_ms(e, first));
    atomic_store(&e->blocked, false);
    for (int i = 0; i < n; i++)
        if (ev[i].data.fd == e->watch_fd) {
            e->alerted = true;
            e->timer_ns = 0;    /* it may be the answer that a late operation waits for */
        }
    drain_kick(e);
}

/* Whether what peers send shows in memory alone. */
static bool memory_tells(const struct tt_engine *e)
{
    for (uint32_t i = 0; i < e->nwires; i++)
        if (!is_quiet(e, i))
            return false;
    return true;
}

/* Whether a look at the wires costs system calls. */
static bool looks_are_dear(const struct tt_engine *e)
{
    for (uint32_t i = 0; i < e->nwires; i++)
        if (e->nlinks[i] && !(e->wire[i]->caps & TT_WIRE_CAP_INSTANT))
            return true;
    return false;
}

/* Where ranks outnumber cores, what one has to send may wait for a core while another moves bytes in memory that nobody needs yet; and a
 * network that stands still meanwhile has lost that time. So work in memory goes in slices, and whoever has something to send comes in
 * between. Where there is only memory, taking turns gains nothing. */
bool tt_engine_worked(struct tt_engine *e, uint64_t bytes)
{
    if (e->spins || !looks_are_dear(e))
        return false;
    e->worked += bytes;
    if (e->worked < SHARE_BYTES)
        return false;
    e->worked = 0;
    e->tired = true;
    return true;
}

/* Looks at what peers write here and at nothing else, for a while: the shortest way to see an answer. Returns how many
 * polls that took the time of. */
static uint32_t look_out(const struct tt_engine *e)
{
    if (!memory_tells(e)) {
        tt_relax();
        return 1;
    }
    for (uint32_t i = 0; i < LOOKS && !has_arrivals(e); i++)
        tt_relax();
    return LOOKS / 2;
}

/* One idle step of a holder that has been idle for the time of n polls. Returns of how many this was. */
static uint32_t idle(struct tt_engine *e, uint32_t n)
{
    const uint32_t yields = (e->spins || !looks_are_dear(e) ? YIELDS : YIELDS_CROWDED) / crowding(e);
    const uint32_t awake = e->spins + (yields ? yields : 1);
    uint32_t took = 1;

    if (n < e->spins) {
        took = look_out(e);
    } else if (n < awake) {
        sched_yield();
        if (n % YIELDS_LOOK == 0)
            look_at_timers(e);
    } else {
        if (n > awake)
            pay_credit(e, 1);
        block(e, n == awake);
        look_at_timers(e);
    }
    if ((n + took) / CLOCK_EVERY != n / CLOCK_EVERY)
        look_at_timers(e);
    if ((n + took) / PAY_EVERY != n / PAY_EVERY)
        pay_credit(e, 1);
    return took;
}

bool tt_engine_work(struct tt_engine *e, bool (*done)(void *arg), void *arg)
{
    uint32_t idles = 0, busy = 0;

    while (!done(arg)) {
        if (tt_engine_progress(e)) {
            idles = 0;
            if (++busy % CLOCK_EVERY == 0)
                look_at_timers(e);
            if (e->tired) {
                e->tired = false;
                sched_yield();
            }
            continue;
        }
        if (atomic_load_explicit(&e->urgent, memory_order_relaxed))
            return false;
        idles += idle(e, idles);
    }
    return true;
}

/* How long a waiter sleeps that does not hold the baton; deadlines of operations are the holder's affair. */
static uint64_t wait_ns(struct tt_engine *e)
{
    const uint64_t now_ns = tt_now_ns();

    return sleep_ns(now_ns, guest_due_ns(e, now_ns), WAIT_NS);
}

void tt_engine_wait(struct tt_engine *e, bool (*done)(void *arg), void *arg)
{
    while (!done(arg)) {
        if (tt_baton_try(e)) {
            const bool over = tt_engine_work(e, done, arg);

            tt_baton_give(e);
            if (over)
                return;
            while (atomic_load(&e->urgent))
                sched_yield();
            continue;
        }
        count_in(e);
        const uint32_t seen = atomic_load(&e->events);

        if (!done(arg) && atomic_load(&e->baton))
            futex_wait(&e->events, seen, wait_ns(e));
        count_out(e);
    }
}

/* ---- the progress thread ------------------------------------------------------------------------------------ */

static bool any_active(const struct tt_engine *e)
{
    if (e->nunbegun)
        return true;
    for (const struct tt_context *c = e->contexts; c; c = c->next)
        if (c->active)
            return true;
    return false;
}

void tt_engine_hear(struct tt_engine *e)
{
    if (e->alert)
        e->alert(e->alert_arg);
}

/* While the progress thread guards operations, nobody else listens to the control overlay. */
static bool nobody_waits(void *arg)
{
    struct tt_engine *e = arg;

    if (e->alerted || ++e->heard % HEAR_EVERY == 0) {
        e->alerted = false;
        tt_engine_hear(e);
    }
    return atomic_load(&e->stop) || !any_active(e);
}

#define ARMINGS_MAX 4               /* tries to fall asleep, each after another pass */

/* What came while the wires were being armed is taken before a sleep is given up: who uses the memory of this process waits for it. */
static bool arm_in_the_end(struct tt_engine *e)
{
    for (int i = 0; i < ARMINGS_MAX; i++) {
        if (arm(e))
            return true;
        if (!e->expected)
            return false;
        tt_engine_progress(e);
    }
    return false;
}

/* Holds the baton while operations run that nobody waits for; otherwise arms the wires, gives the baton back, and sleeps until
 * a peer calls. True: one has called that uses this process' memory, and is to be answered at once. */
static bool guard(struct tt_engine *e)
{
    struct epoll_event ev[4];
    uint32_t uses;
    int patience, n = 0;
    bool quiet, expected, called = false;

    if (!tt_baton_try(e))
        return false;
    while (!tt_engine_work(e, nobody_waits, e) && atomic_load(&e->urgent)) {
        tt_baton_give(e);
        sched_yield();
        if (!tt_baton_try(e))
            return false;
    }
    tt_engine_progress(e);
    e->timer_ns = 0;            /* who asks whom we wait for shall not hear of what is over */
    look_at_timers(e);
    quiet = arm_in_the_end(e);
    uses = atomic_load(&e->uses);
    patience = e->endings_due ? e->endings_nap_ms : 1000;
    if (e->guest && e->guest->is_stuck(e->guest->arg))
        patience = NAP_MS;
    expected = e->expected > 0;
    tt_baton_give(e);
    atomic_store(&e->parked, true);
    show_others(e);
    if (quiet && uses == atomic_load(&e->uses))
        n = epoll_wait(e->all_epoll, ev, 4, atomic_load(&e->stop) ? 0 : patience);
    atomic_store(&e->parked, false);
    for (int i = 0; i < n; i++)
        called |= expected && ev[i].data.fd != e->kick_fd && ev[i].data.fd != e->watch_fd;
    return called;
}

static void *progress_thread(void *arg)
{
    struct tt_engine *e = arg;
    uint32_t seen = atomic_load(&e->uses);
    bool called = false;

    (void)tt_float_env_enter();     /* not that of the thread that created this one */
    while (!atomic_load(&e->stop)) {
        struct epoll_event ev[4];

        tt_engine_hear(e);
        if (epoll_wait(e->control_epoll, ev, 4, called ? 0 : nap_ms(e, THREAD_MS)) > 0)
            tt_engine_hear(e);
        if (atomic_load(&e->uses) == seen && !atomic_load(&e->baton)) {
            called = guard(e);
            if (!atomic_load(&e->baton))
                drain_kick(e);
        } else {
            called = false;
        }
        seen = atomic_load(&e->uses);
    }
    return NULL;
}

static bool watch(int epoll, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

    return fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

uint32_t tt_engine_cores(void)
{
    cpu_set_t set;
    uint32_t cores = 1;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores = (uint32_t)CPU_COUNT(&set);
    if (cores < (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) && cores == 1)
        cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);        /* bound to one core each */
    return cores;
}

/* Spins are worth it only where every local rank has a core of its own. */
static void choose_patience(struct tt_engine *e)
{
    const uint32_t cores = e->cores ? e->cores : tt_engine_cores();

    if (e->local_ranks > cores)
        e->spins = 0;
    e->crowd = e->local_ranks / cores;
}

void tt_engine_set_cores(struct tt_engine *e, uint32_t cores)
{
    e->cores = cores;
}

void tt_engine_set_cache(struct tt_engine *e, uint64_t bytes, uint32_t sharing)
{
    e->stream_least = tt_stream_least(bytes, sharing, e->cores, e->local_ranks);
}

tutti_status tt_engine_start(struct tt_engine *e, int watch_fd, void (*alert)(void *arg), void *arg)
{
    sigset_t all, before;
    int err;

    tt_cards_settle(&e->cards);
    choose_patience(e);
    tell_unusable(e);
    e->watch_fd = watch_fd;
    e->alert = alert;
    e->alert_arg = arg;
    if (!watch(e->control_epoll, watch_fd) || !watch(e->all_epoll, watch_fd))
        return tt_fail_errno(errno, "cannot watch the control overlay");
    for (uint32_t i = 0; i < e->nwires; i++) {
        struct tt_done done[1];
        int fd;

        fd = e->wire[i]->ops->arm(e->wire[i]);
        if (fd < 0) {
            e->wire[i]->ops->poll(e->wire[i], done, 0);
            fd = e->wire[i]->ops->arm(e->wire[i]);
        }
        if (fd < 0)
            return tt_fail(TUTTI_ERR_SYSTEM, "transport %s still reports events before the progress thread has started",
                           e->wire[i]->ops->name);
        if (!watch(e->all_epoll, fd))
            return tt_fail_errno(errno, "transport %s: cannot add its descriptor to epoll", e->wire[i]->ops->name);
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);        /* signals are the application's */
    err = pthread_create(&e->thread, NULL, progress_thread, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err == EPERM)
        return tt_fail(TUTTI_ERR_SYSTEM,
                       "cannot start the progress thread: clone3 failed: Operation not permitted (the sandbox must "
                       "return ENOSYS for clone3, so that the C library falls back to clone)");
    if (err)
        return tt_fail_errno(err, "cannot start the progress thread");
    e->thread_runs = true;
    return TUTTI_OK;
}

tutti_status tt_progress_init(struct tt_engine *e)
{
    int64_t nudge_ms = 0, spin_us = 0;
    tutti_status st;

    e->barrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    e->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    e->all_epoll = epoll_create1(EPOLL_CLOEXEC);
    e->control_epoll = epoll_create1(EPOLL_CLOEXEC);
    if (e->kick_fd < 0 || e->all_epoll < 0 || e->control_epoll < 0 || !watch(e->all_epoll, e->kick_fd))
        return tt_fail_call(errno, "progress", e->kick_fd < 0 ? "eventfd" : "epoll_create1");
    st = tt_param_get(TT_PARAM_NUDGE_MS, &nudge_ms);
    if (!st)
        st = tt_param_get(TT_PARAM_SPIN_US, &spin_us);
    if (st)
        return st;
    e->nudge_ns = (uint64_t)nudge_ms * TT_MS;
    e->spins = (uint32_t)spin_us * 20;      /* a poll takes about 50 ns */
    e->now_ns = tt_now_ns();
    atomic_store(&e->guest_due_ns, TT_NEVER);
    return TUTTI_OK;
}

void tt_progress_fini(struct tt_engine *e)
{
    if (e->thread_runs) {
        atomic_store(&e->stop, true);
        kick(e);
        pthread_join(e->thread, NULL);
    }
    if (e->kick_fd >= 0)
        close(e->kick_fd);
    if (e->all_epoll >= 0)
        close(e->all_epoll);
    if (e->control_epoll >= 0)
        close(e->control_epoll);
}
