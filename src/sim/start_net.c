/* The network of a simulated start-up, and how its processes handle messages. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/status.h"
#include "boot/tree_state.h"
#include "sim/start_state.h"

#define RESETS_NS (10 * TT_SECOND)      /* the network is reliable afterwards */
#define LOOP_NS 100000u                 /* of TT_START_PLANT_LOOP */
#define COMPARE_BYTES_PER_NS 1u         /* of TT_START_PLANT_QUADRATIC */
#define PROGRESS_EVENTS 65536u

/* Events of a connection, at its parent or at its child. */
enum { PARENT_OPEN, PARENT_FRAME, PARENT_END, CHILD_OPEN, CHILD_FRAME, CHILD_END };

/* ---- events ---- */

static uint32_t event_take(struct tt_start *s)
{
    uint32_t index = s->events_free;

    if (index != TT_START_NONE) {
        s->events_free = (uint32_t)s->events[index].a;
        return index;
    }
    index = s->events_cap;
    s->events_cap = s->events_cap ? 2 * s->events_cap : 1024;
    s->events = realloc(s->events, s->events_cap * sizeof *s->events);
    tt_assert(s->events);
    for (uint32_t i = index + 1; i < s->events_cap; i++) {
        s->events[i].a = (int)s->events_free;
        s->events[i].data = NULL;
        s->events_free = i;
    }
    return index;
}

void tt_start_schedule(struct tt_start *s, uint64_t at_ns, enum tt_start_event_kind kind, int a,
                       int b, uint8_t *data, size_t bytes)
{
    const uint32_t index = event_take(s);

    s->events[index] = (struct tt_start_event){
        .kind = (uint8_t)kind, .a = a, .b = b, .data = data, .bytes = bytes
    };
    tt_queue_push(&s->queue,
                  (struct tt_queue_item){ at_ns > s->now_ns ? at_ns : s->now_ns, index });
}

void tt_start_plan(struct tt_start *s, uint64_t at_ns, enum tt_start_fault fault, uint32_t index)
{
    static const enum tt_start_event_kind kinds[] = {
        [TT_START_KILL] = TT_START_EV_KILL,
        [TT_START_RESET] = TT_START_EV_RESET,
        [TT_START_STRANGER] = TT_START_EV_STRANGER,
    };

    tt_start_schedule(s, at_ns, kinds[fault], (int)index, 0, NULL, 0);
}

/* ---- network ---- */

static uint8_t *copy_of(const void *data, size_t bytes)
{
    uint8_t *copy = bytes ? malloc(bytes) : NULL;

    tt_assert(copy || !bytes);
    if (bytes)
        memcpy(copy, data, bytes);
    return copy;
}

/* Extra processes and the root are on the host of rank 0. */
static uint32_t rank_near(const struct tt_start *s, uint32_t process)
{
    return process < s->nranks ? process : 0;
}

/* The part of the latency that is not random. */
static uint64_t link_ns(const struct tt_start *s, const struct tt_start_conn *c, size_t bytes)
{
    const struct tt_net_conf *net = s->conf.net;
    enum tt_distance d;

    if (!net)
        return TT_START_LATENCY_NS;
    d = tt_layout_distance(net->layout, rank_near(s, c->child), rank_near(s, c->parent));
    if (d < TT_NEAR_SOCKET)
        d = TT_NEAR_SOCKET;
    return (uint64_t)(net->link[d].latency_ns +
                      (net->link[d].bytes_per_s > 0 ? 1e9 * (double)bytes / net->link[d].bytes_per_s
                                                    : 0));
}

static uint64_t loss_ns(struct tt_start *s, int what)
{
    uint64_t ns = 0;

    if (!(s->conf.loss > 0))
        return 0;
    while ((double)(tt_prng_u64(&s->prng) >> 11) / (double)(1ull << 53) < s->conf.loss) {
        ns += what == PARENT_OPEN ? TT_START_DROPPED_NS : TT_START_LOST_NS;
        s->nlost++;
    }
    return ns;
}

static void post(struct tt_start *s, int what, struct tt_start_conn *c, const void *data,
                 size_t bytes, uint64_t extra_ns)
{
    uint64_t *arrives_ns = &c->arrives_ns[what >= CHILD_OPEN];
    const uint64_t at_ns = s->now_ns + link_ns(s, c, bytes) +
                           tt_prng_below(&s->prng, s->conf.latency_ns) + loss_ns(s, what) +
                           extra_ns;

    if (at_ns > *arrives_ns)
        *arrives_ns = at_ns;
    s->nmessages++;
    tt_start_schedule(s, *arrives_ns, TT_START_EV_DELIVER, what, (int)c->id, copy_of(data, bytes),
                      bytes);
}

static struct tt_start_conn *conn_create(struct tt_start *s, uint32_t child, uint32_t parent)
{
    struct tt_start_conn *c = calloc(1, sizeof *c);

    if (s->nconns == s->conns_cap) {
        s->conns_cap = s->conns_cap ? 2 * s->conns_cap : 1024;
        s->conns = realloc(s->conns, s->conns_cap * sizeof *s->conns);
    }
    tt_assert(c && s->conns);
    *c = (struct tt_start_conn){ .id = s->nconns, .child = child, .parent = parent, .there = true };
    s->conns[s->nconns++] = c;
    s->processes[parent].nconns++;
    post(s, PARENT_OPEN, c, NULL, 0, 0);
    return c;
}

static void connect_to(struct tt_start_process *p, const struct tt_tree_act *act)
{
    const struct tt_start *s = p->sim;
    uint32_t to = s->root;

    if (act->where == TT_TREE_TO_LEADER)
        to = p->tree.conf.leader;
    else if (act->where == TT_TREE_TO_SERVER)
        memcpy(&to, act->address->data, sizeof to);
    tt_assert(!p->up && to < s->nprocesses);
    tt_assert(act->where != TT_TREE_TO_SERVER ||
              act->port == s->processes[to].tree.conf.serve_port);
    p->nattempts++;
    p->up = conn_create(p->sim, p->index, to);
}

static void send_frame(struct tt_start_process *p, const struct tt_tree_act *act)
{
    struct tt_start_conn *c = (struct tt_start_conn *)act->conn;
    const uint8_t *frame = act->data;

    tt_assert(c ? c->here : p->up && p->up->there);
    p->sent += act->bytes;
    p->spent_ns += (uint64_t)((double)act->bytes * p->sim->conf.byte_ns);
    if (!c && frame[2] == TT_TREE_UP)
        p->reported_ns = p->sim->now_ns;
    if (!c && frame[2] == TT_TREE_DONE && !p->done_ns)
        p->done_ns = p->sim->now_ns;
    post(p->sim, c ? CHILD_FRAME : PARENT_FRAME, c ? c : p->up, act->data, act->bytes, p->spent_ns);
}

void tt_start_on_act(void *context, const struct tt_tree_act *act)
{
    struct tt_start_process *p = context;
    struct tt_start_conn *c = (struct tt_start_conn *)act->conn;

    p->nacts++;
    switch ((enum tt_tree_act_kind)act->kind) {
    case TT_TREE_ACT_CONNECT:
        connect_to(p, act);
        break;
    case TT_TREE_ACT_SEND:
        send_frame(p, act);
        break;
    case TT_TREE_ACT_CLOSE:
        tt_assert(c || p->up);
        *(c ? &c->here : &p->up->there) = false;
        post(p->sim, c ? CHILD_END : PARENT_END, c ? c : p->up, NULL, 0, p->spent_ns);
        if (!c)
            p->up = NULL;
        break;
    }
}

/* ---- steps ---- */

static uint64_t thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * TT_SECOND + (uint64_t)t.tv_nsec;
}

static bool loops(const struct tt_start_process *p)
{
    return p->sim->conf.plant == TT_START_PLANT_LOOP && p->tree.nleaders > 0 &&
           p->tree.state == TT_TREE_GATHERING;
}

/* The planted quadratic step: the cost of this frame. */
static uint64_t compare_ns(const struct tt_start_process *p, const struct tt_tree_event *ev)
{
    if (p->sim->conf.plant != TT_START_PLANT_QUADRATIC || p->index != p->sim->root ||
        ev->kind != TT_TREE_EV_FRAME || ev->frame.type != TT_TREE_UP)
        return 0;
    return ev->frame.bytes * p->tree.reports.n / COMPARE_BYTES_PER_NS;
}

static void note_progress(struct tt_start_process *p)
{
    struct tt_start *s = p->sim;

    if (p->index != s->root && p->up && tt_tree_is_joined(&p->tree)) {
        p->parent = p->up->parent;
        if (!p->joined_ns)
            p->joined_ns = s->now_ns;
    }
    if (p->tree.state == TT_TREE_GATHERING || p->ended_ns)
        return;
    p->ended_ns = s->now_ns;
    s->nplaced += p->tree.state == TT_TREE_PLACED && p->index < s->nranks;
}

static void step(struct tt_start_process *p, struct tt_tree_event ev)
{
    struct tt_start *s = p->sim;
    const uint64_t began_ns = s->conf.measured ? thread_ns() : 0;
    uint64_t wake_ns;

    p->spent_ns += compare_ns(p, &ev);
    tt_tree_step(&p->tree, &ev, s->now_ns);
    if (s->conf.measured)
        p->spent_ns += thread_ns() - began_ns;
    note_progress(p);
    wake_ns = loops(p) ? s->now_ns + LOOP_NS : tt_tree_wake_ns(&p->tree);
    if (wake_ns != TT_NEVER && (p->tick_ns <= s->now_ns || wake_ns < p->tick_ns)) {
        p->tick_ns = wake_ns > s->now_ns ? wake_ns : s->now_ns + 1;
        tt_start_schedule(s, p->tick_ns, TT_START_EV_TICK, (int)p->index, 0, NULL, 0);
    }
}

/* Counts the cost of a step, which began with spent_ns 0. */
static void account(struct tt_start_process *p, enum tt_start_step what, uint64_t ns)
{
    p->work[what].n++;
    p->work[what].ns += ns;
}

static void tick(struct tt_start_process *p)
{
    const uint32_t nacts = p->nacts;

    p->spent_ns = 0;
    step(p, (struct tt_tree_event){ .kind = TT_TREE_EV_TICK });
    p->nidle += p->nacts == nacts;
    account(p, TT_START_TICK, p->spent_ns);
    if (p->spent_ns)
        p->busy_ns = (p->busy_ns > p->sim->now_ns ? p->busy_ns : p->sim->now_ns) + p->spent_ns;
}

static void fill_nonce(struct tt_start *s, struct tt_tree_event *ev)
{
    for (size_t i = 0; i < sizeof ev->nonce; i += 8) {
        const uint64_t v = tt_prng_u64(&s->prng);

        memcpy(ev->nonce + i, &v, 8);
    }
}

static bool read_frame(const struct tt_start_message *m, size_t body_max, struct tt_frame *out)
{
    if (m->bytes < TT_FRAME_HEADER_BYTES)
        return false;
    *out = (struct tt_frame){ .type = m->data[2],
                              .body = m->data + TT_FRAME_HEADER_BYTES,
                              .bytes = m->bytes - TT_FRAME_HEADER_BYTES };
    return out->bytes <= body_max;
}

static void end_at_parent(struct tt_start_conn *c, struct tt_start_process *p)
{
    if (!c->here)
        return;
    c->here = false;
    step(p, (struct tt_tree_event){ .kind = TT_TREE_EV_CLOSED, .conn = &c->machine });
}

static void end_at_child(struct tt_start_conn *c, struct tt_start_process *p)
{
    if (!c->there)
        return;
    c->there = false;
    p->up = NULL;
    step(p, (struct tt_tree_event){ .kind = TT_TREE_EV_CLOSED });
}

static void break_conn(struct tt_start *s, struct tt_start_conn *c)
{
    post(s, PARENT_END, c, NULL, 0, 0);
    post(s, CHILD_END, c, NULL, 0, 0);
}

static void handle_frame(struct tt_start_process *p, const struct tt_start_message *m)
{
    struct tt_start_conn *c = m->conn;
    struct tt_tree_event ev = { .kind = TT_TREE_EV_FRAME };

    p->received += m->bytes;
    ev.conn = m->what == PARENT_FRAME ? &c->machine : NULL;
    if (!(ev.conn ? c->here : c->there))
        return;
    if (read_frame(m, ev.conn ? c->machine.body_max : tt_tree_body_max(p->tree.conf.nranks),
                   &ev.frame)) {
        step(p, ev);
    } else {
        tt_assert(ev.conn);     /* no parent sends such a frame */
        end_at_parent(c, p);
        post(p->sim, CHILD_END, c, NULL, 0, 0);
    }
}

static void handle(struct tt_start_process *p, const struct tt_start_message *m)
{
    struct tt_tree_event ev = { .kind = TT_TREE_EV_OPEN };
    struct tt_start_conn *c = m->conn;

    switch (m->what) {
    case PARENT_OPEN:
        p->nopening--;
        c->here = true;
        fill_nonce(p->sim, &ev);
        ev.conn = &c->machine;
        step(p, ev);
        break;
    case CHILD_OPEN:
        fill_nonce(p->sim, &ev);
        if (c->there)
            step(p, ev);
        break;
    case PARENT_FRAME:
    case CHILD_FRAME:
        handle_frame(p, m);
        break;
    case PARENT_END:
        end_at_parent(c, p);
        break;
    case CHILD_END:
        end_at_child(c, p);
        break;
    }
}

static enum tt_start_step step_of(const struct tt_start_message *m)
{
    static const uint8_t frames[] = {
        [TT_TREE_CHALLENGE] = TT_START_CHALLENGE, [TT_TREE_JOIN] = TT_START_JOIN,
        [TT_TREE_WELCOME] = TT_START_WELCOME,     [TT_TREE_REDIRECT] = TT_START_REDIRECT,
        [TT_TREE_UP] = TT_START_UP,               [TT_TREE_DOWN] = TT_START_DOWN,
        [TT_TREE_DONE] = TT_START_DONE,
    };
    uint8_t type;

    if (m->what == PARENT_OPEN || m->what == CHILD_OPEN)
        return m->what == PARENT_OPEN ? TT_START_ACCEPT : TT_START_CONNECT;
    if (m->what == PARENT_END || m->what == CHILD_END)
        return TT_START_CLOSED;
    type = m->bytes < TT_FRAME_HEADER_BYTES ? 0 : m->data[2];
    return type < sizeof frames && frames[type] ? (enum tt_start_step)frames[type]
                                                : TT_START_REFUSED;
}

/* ---- processes ---- */

/* Handles the first message, and plans the next one. */
static void process_next(struct tt_start_process *p)
{
    struct tt_start_message *m = p->first;
    const struct tt_start *s = p->sim;
    uint64_t ns;

    if (!m)
        return;
    p->first = m->next;
    if (!p->first)
        p->last = &p->first;
    p->nqueued--;
    ns = s->conf.message_ns + (uint64_t)((double)m->bytes * s->conf.byte_ns);
    p->spent_ns = 0;
    if (!p->dead)
        handle(p, m);
    ns += p->spent_ns;
    account(p, step_of(m), ns);
    p->busy_ns = s->now_ns + ns;
    free(m->data);
    free(m);
    if (p->first)
        tt_start_schedule(p->sim, p->busy_ns, TT_START_EV_PROCESS, (int)p->index, 0, NULL, 0);
}

/* Takes over the data of the event. */
static void enqueue(struct tt_start_process *p, int what, struct tt_start_conn *c,
                    struct tt_start_event *e)
{
    struct tt_start_message *m = calloc(1, sizeof *m);
    const uint64_t now_ns = p->sim->now_ns;
    const bool idle = !p->first;

    tt_assert(m);
    *m = (struct tt_start_message){ .what = what, .conn = c, .data = e->data, .bytes = e->bytes };
    e->data = NULL;
    *p->last = m;
    p->last = &m->next;
    p->nqueued++;
    if (p->nqueued > p->nqueued_most)
        p->nqueued_most = p->nqueued;
    if (idle && now_ns >= p->busy_ns)
        process_next(p);
    else if (idle)
        tt_start_schedule(p->sim, p->busy_ns, TT_START_EV_PROCESS, (int)p->index, 0, NULL, 0);
}

static void drop(struct tt_start *s, struct tt_start_process *parent, struct tt_start_conn *c)
{
    s->ndropped++;
    parent->ndropped++;
    if (s->conf.no_retries && c->child != TT_START_NONE) {
        s->processes[c->child].dead = s->processes[c->child].dropped = true;
        return;
    }
    post(s, CHILD_END, c, NULL, 0, TT_START_DROPPED_NS);
}

/* A connection request reaches the parent's listener. */
static void arrive(struct tt_start *s, struct tt_start_conn *c, struct tt_start_event *e)
{
    struct tt_start_process *p = &s->processes[c->parent];

    if (!p->started || p->dead || tt_tree_is_over(&p->tree)) {
        post(s, CHILD_END, c, NULL, 0, 0);
        return;
    }
    if (p->nopening >= s->conf.backlog) {
        drop(s, p, c);
        return;
    }
    p->nopening++;
    if (p->nopening > p->nopening_most)
        p->nopening_most = p->nopening;
    post(s, CHILD_OPEN, c, NULL, 0, 0);
    enqueue(p, PARENT_OPEN, c, e);
}

static void deliver(struct tt_start *s, struct tt_start_event *e)
{
    struct tt_start_conn *c = s->conns[e->b];
    const bool to_parent = e->a < CHILD_OPEN;
    const uint32_t to = to_parent ? c->parent : c->child;

    if (to == TT_START_NONE)
        return;
    if (e->a == PARENT_OPEN) {
        arrive(s, c, e);
        return;
    }
    if (s->resets_in && s->now_ns < RESETS_NS && (e->a == PARENT_FRAME || e->a == CHILD_FRAME) &&
        tt_prng_below(&s->prng, s->resets_in) == 0) {
        break_conn(s, c);
        return;
    }
    if (!s->processes[to].dead)
        enqueue(&s->processes[to], e->a, c, e);
}

void tt_start_kill(struct tt_start *s, uint32_t index)
{
    struct tt_start_process *p = &s->processes[index];

    p->dead = true;
    for (uint32_t i = 0; i < s->nconns; i++) {
        struct tt_start_conn *c = s->conns[i];

        if (c->child == index && c->there)
            post(s, PARENT_END, c, NULL, 0, 0);
        if (c->parent == index && (c->here || !c->machine.opened_ns))
            post(s, CHILD_END, c, NULL, 0, 0);
    }
}

/* A process without the token connects, and sends arbitrary data or nothing. */
static void stranger_connect(struct tt_start *s, uint32_t parent)
{
    struct tt_start_conn *c = conn_create(s, TT_START_NONE, parent);
    uint8_t junk[900];
    const size_t bytes = tt_prng_below(&s->prng, sizeof junk);

    for (size_t i = 0; i < bytes; i++)
        junk[i] = (uint8_t)tt_prng_u64(&s->prng);
    if (bytes > 2 && tt_prng_below(&s->prng, 2))
        junk[2] = TT_TREE_JOIN;
    post(s, PARENT_FRAME, c, junk, bytes, 0);
    if (tt_prng_below(&s->prng, 2))
        post(s, PARENT_END, c, NULL, 0, tt_prng_below(&s->prng, TT_SECOND));
}

static void happen(struct tt_start *s, struct tt_start_event *e)
{
    struct tt_start_process *p = &s->processes[e->a];

    switch ((enum tt_start_event_kind)e->kind) {
    case TT_START_EV_START:
        if (s->now_ns < p->start_ns)        /* a test has postponed it */
            break;
        p->started = true;
        if (!p->dead)
            tick(p);
        break;
    case TT_START_EV_DELIVER:
        deliver(s, e);
        break;
    case TT_START_EV_PROCESS:
        process_next(p);
        break;
    case TT_START_EV_TICK:
        if (!p->dead && p->tick_ns == s->now_ns)
            tick(p);
        break;
    case TT_START_EV_KILL:
        tt_start_kill(s, (uint32_t)e->a);
        break;
    case TT_START_EV_RESET:
        if (s->nconns > 0)
            break_conn(s, s->conns[tt_prng_below(&s->prng, s->nconns)]);
        break;
    case TT_START_EV_STRANGER:
        stranger_connect(s, (uint32_t)e->a);
        break;
    }
}

bool tt_start_next(struct tt_start *s)
{
    struct tt_queue_item item;
    struct tt_start_event e;

    if (!tt_queue_pop(&s->queue, &item))
        return false;
    s->now_ns = item.time_ps;
    e = s->events[item.what];
    s->events[item.what] = (struct tt_start_event){ .a = (int)s->events_free };
    s->events_free = item.what;
    if (s->now_ns < s->conf.end_ns)
        happen(s, &e);
    free(e.data);
    if (s->conf.progress && s->nevents++ % PROGRESS_EVENTS == 0)
        s->conf.progress(s->conf.arg, s->now_ns, s->nplaced);
    return s->now_ns < s->conf.end_ns;
}
