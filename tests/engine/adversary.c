#include "adversary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "base/status.h"

#define EAGER_CREDIT 16         /* messages of a pair that are sent but not consumed */

/* The possible next events: a rank acts, or a message of a pair is delivered. */
enum turn {
    SEE_READY,
    SEE_EAGER,
    SEE_ARRIVED,
    SEE_CREDIT,
    SEE_SENT,
    SEE_USED,
    MESSAGES,
    ACT = MESSAGES,
    TURNS
};

/* How the adversary chooses. */
enum rule { ANY, FIRST, LAST, FAVOURITES, RULES };

enum often { NEVER, SOMETIMES, ALWAYS, OFTENS };

/* An eager message. */
struct letter {
    uint32_t tag;
    uint64_t bytes;
    bool offered;           /* it was offered to the receiver; the receiver has consumed it */
};

/* A put in progress. */
struct begun {
    uint16_t step;
    uint32_t seq;
};

/* State from one rank to another. */
struct pair {
    bool mapped, ready, ready_seen, ready_direct;
    uint8_t ready_depth;
    /* number of segments */
    uint32_t put[TT_EXEC_STREAMS_MAX], put_seen[TT_EXEC_STREAMS_MAX];
    /* credit for the same segments, in the opposite direction */
    uint32_t credit[TT_EXEC_STREAMS_MAX], credit_seen[TT_EXEC_STREAMS_MAX];
    struct letter *letter;
    uint32_t nletters, letters_cap, nseen;
    struct begun *begun;
    uint32_t nbegun, begun_cap;
    uint32_t eager_out, nused;  /* eager messages not known to be consumed; consumed, but not
                                   acknowledged */
    bool queued[MESSAGES];
};

struct player {
    struct tt_exec exec;
    struct tt_exec_peer peers[ADVERSARY_RANKS_MAX];
    uint32_t loaded;        /* exec.loaded when unexpected messages were last offered */
    bool queued, refused, done;
};

/* Behaviour drawn from the seed. */
struct manner {
    enum rule rule;
    enum often mapped, direct, late;
    uint32_t refuse_of_16, keep_of_16;  /* of 16 sends, the number of refused ones; of 16 events,
                                           the number that affects the same rank or pair again */
    uint32_t redraw;        /* approximate number of events between changes of favourites */
    bool patient;           /* executors may delay what could be fused soon */
    bool sparing;           /* arrivals are delivered one at a time */
    uint32_t bias[TURNS];   /* of favourites: 0 last, 1, 2 first */
    uint32_t slow;          /* bitmap of ranks that run only if no other can */
};

struct world {
    const struct adversary_conf *conf;
    struct manner m;
    struct tt_prng prng;
    struct player player[ADVERSARY_RANKS_MAX];
    struct pair pair[ADVERSARY_RANKS_MAX][ADVERSARY_RANKS_MAX];         /* [from][to] */
    /* possible events */
    uint32_t queue[ADVERSARY_RANKS_MAX * (ADVERSARY_RANKS_MAX * MESSAGES + 1)];
    uint32_t nqueue, last;
    uint64_t favour;        /* favourites are determined by a hash with this value */
    uint32_t ndone;
    bool calm;              /* nothing is refused */
    char *why;
    size_t why_bytes;
    tutti_status status;
};

/* ---- choices of the adversary ---- */

static struct manner manner_of(const struct adversary_conf *c)
{
    static const uint32_t redraws[] = { 8, 64, 512, UINT32_MAX };
    struct tt_prng p;
    struct manner m;

    tt_prng_init(&p, c->seed);
    m = (struct manner){
        .rule = (enum rule)(tt_prng_below(&p, 2) ? FAVOURITES : tt_prng_below(&p, RULES)),
        .mapped = (enum often)tt_prng_below(&p, OFTENS),
        .direct = (enum often)tt_prng_below(&p, OFTENS),
        .late = (enum often)tt_prng_below(&p, OFTENS),
        .refuse_of_16 = tt_prng_below(&p, 2) ? 0 : (uint32_t)tt_prng_below(&p, 15),
        .keep_of_16 = tt_prng_below(&p, 2) ? 0 : (uint32_t)tt_prng_below(&p, 17),
        .redraw = redraws[tt_prng_below(&p, 4)],
        .patient = tt_prng_below(&p, 2),
        .sparing = tt_prng_below(&p, 2),
    };
    for (uint32_t i = 0; i < TURNS; i++)
        m.bias[i] = (uint32_t)tt_prng_below(&p, 3);
    switch (tt_prng_below(&p, 4)) {
    case 0:
        m.slow = 0x55555555;
        break;
    case 1:
        m.slow = 1u << tt_prng_below(&p, c->nranks);
        break;
    case 2:
        m.slow = (uint32_t)tt_prng_u64(&p);
        break;
    default:
        break;
    }
    return m;
}

const char *adversary_text(const struct adversary_conf *c)
{
    static const char *const rules[] = { "any", "the first", "the last", "favourites" };
    static const char *const oftens[] = { "never", "sometimes", "always" };
    const struct manner m = manner_of(c);
    static char text[384];

    snprintf(text, sizeof text,
             "segments of %" PRIu64 ", eager up to %" PRIu64
             ", %u streams, depth %u; adversary %" PRIu64
             ": takes %s, mapped %s, direct %s, late %s, refuses %u of 16, keeps %u of 16, slow "
             "ranks %x",
             c->segment_bytes, c->eager_bytes, c->streams, c->depth, c->seed, rules[m.rule],
             oftens[m.mapped], oftens[m.direct], oftens[m.late], m.refuse_of_16, m.keep_of_16,
             m.slow & ((1u << c->nranks) - 1));
    return text;
}

static bool drawn(struct world *w, enum often often)
{
    return often == ALWAYS || (often == SOMETIMES && tt_prng_below(&w->prng, 2));
}

/* ---- queue of possible events ---- */

static uint32_t turn_of(uint32_t from, uint32_t to, enum turn turn)
{
    return (from * ADVERSARY_RANKS_MAX + to) * TURNS + (uint32_t)turn;
}

static void enqueue(struct world *w, uint32_t from, uint32_t to, enum turn turn)
{
    bool *queued = turn == ACT ? &w->player[from].queued : &w->pair[from][to].queued[turn];

    if (!*queued)
        w->queue[w->nqueue++] = turn_of(from, to, turn);
    *queued = true;
}

static void wake(struct world *w, uint32_t rank) { enqueue(w, rank, rank, ACT); }

static void dequeue(struct world *w, uint32_t i)
{
    const uint32_t id = w->queue[i], pair = id / TURNS, from = pair / ADVERSARY_RANKS_MAX,
                   to = pair % ADVERSARY_RANKS_MAX;

    *(id % TURNS == ACT ? &w->player[from].queued : &w->pair[from][to].queued[id % TURNS]) = false;
    memmove(&w->queue[i], &w->queue[i + 1], (--w->nqueue - i) * sizeof w->queue[0]);
}

/* A higher value comes first. */
static uint64_t favour_of(const struct world *w, uint32_t id)
{
    const uint64_t slow = id % TURNS == ACT && w->m.slow >> (id / TURNS % ADVERSARY_RANKS_MAX) & 1;

    return (slow ? 0 : (uint64_t)(1 + w->m.bias[id % TURNS]) << 60) | tt_mix64(w->favour ^ id) >> 4;
}

static uint32_t choose(struct world *w)
{
    uint32_t best = 0;

    if (w->m.keep_of_16 && tt_prng_below(&w->prng, 16) < w->m.keep_of_16)
        for (uint32_t i = 0; i < w->nqueue; i++)
            if (w->queue[i] == w->last)
                return i;
    switch (w->m.rule) {
    case ANY: return (uint32_t)tt_prng_below(&w->prng, w->nqueue);
    case FIRST: return 0;
    case LAST: return w->nqueue - 1;
    default: break;
    }
    if (w->m.redraw != UINT32_MAX && tt_prng_below(&w->prng, w->m.redraw) == 0)
        w->favour = tt_prng_u64(&w->prng);
    for (uint32_t i = 1; i < w->nqueue; i++)
        if (favour_of(w, w->queue[i]) > favour_of(w, w->queue[best]))
            best = i;
    return best;
}

/* ---- actions of ranks ---- */

static void wrong(struct world *w, uint32_t rank, const char *what)
{
    w->status = TUTTI_ERR_INVALID;
    snprintf(w->why, w->why_bytes, "rank %u %s", rank, what);
}

static void *grown(void *array, uint32_t n, uint32_t *cap, size_t bytes)
{
    if (n == *cap) {
        *cap = *cap ? 2 * *cap : 16;
        array = realloc(array, *cap * bytes);
        tt_assert(array);
    }
    return array;
}

static void send_eager(struct world *w, uint32_t me, uint32_t to, const struct tt_action *a)
{
    struct pair *p = &w->pair[me][to];

    p->letter = grown(p->letter, p->nletters, &p->letters_cap, sizeof *p->letter);
    p->letter[p->nletters++] = (struct letter){ .tag = a->tag, .bytes = a->bytes };
    p->eager_out++;
    enqueue(w, me, to, SEE_EAGER);
}

static void use_letter(struct world *w, uint32_t me, const struct tt_place *at)
{
    uint32_t from;

    if (at->kind != TT_AT_EAGER)
        return;
    from = w->player[me].peers[at->peer].rank;
    w->pair[from][me].nused++;
    enqueue(w, from, me, SEE_USED);
}

/* Returns true if the send is complete, false if it was only started. */
static bool send_segment(struct world *w, uint32_t me, uint32_t to, const struct tt_action *a)
{
    struct pair *p = &w->pair[me][to];
    const struct tt_exec *there = &w->player[to].exec;
    const int peer = tt_exec_peer_of(there, me);
    const uint32_t n = tt_exec_segments(a->bytes, w->player[me].exec.conf.segment_bytes);

    if (p->put[a->stream] + n - 1 != a->seq)
        wrong(w, me, "sends a segment out of its turn");
    if (peer >= 0 && !a->direct && n > 1 &&
        (p->mapped || a->out.slot != (a->seq - (n - 1)) % there->peer[peer].in_depth ||
         a->out.slot + n > there->peer[peer].in_depth))
        wrong(w, me, "sends segments beyond the last slot");
    if (peer < 0 || (!a->direct && a->seq - there->peer[peer].stream[a->stream].consumed >=
                                       there->peer[peer].in_depth))
        wrong(w, me, "writes into a slot that is in use");
    p->put[a->stream] = a->seq + 1;
    enqueue(w, me, to, SEE_ARRIVED);
    if (a->a.kind == TT_AT_REMOTE || !drawn(w, w->m.late))
        return true;
    p->begun = grown(p->begun, p->nbegun, &p->begun_cap, sizeof *p->begun);
    p->begun[p->nbegun++] = (struct begun){ a->step, a->seq };
    enqueue(w, me, to, SEE_SENT);
    return false;
}

/* Returns whether a wait opens its buffer for direct puts, like the shell. */
static bool opens_direct(struct world *w, uint32_t me, const struct tt_action *a)
{
    const enum tt_coll_kind kind = w->conf->algo->kind;
    const struct tt_exec_step *wait = &w->player[me].exec.step[a->step];

    if (w->conf->algo->direct_unsafe)
        return false;
    if ((kind == TT_ALLTOALL || kind == TT_ALLTOALLV) &&
        (!wait->to_dst || wait->s.out.buf != TT_BUF_DST))
        return false;
    return drawn(w, w->m.direct);
}

static bool refuses(struct world *w, uint32_t me, uint32_t to, const struct tt_action *a)
{
    if (a->kind == TT_ACT_REDUCE || a->kind == TT_ACT_COPY)
        return false;
    if (a->kind == TT_ACT_EAGER && w->pair[me][to].eager_out == EAGER_CREDIT)
        return true;            /* offered again with SEE_USED */
    if (w->calm || tt_prng_below(&w->prng, 16) >= w->m.refuse_of_16)
        return false;
    w->player[me].refused = true;
    return true;
}

static void perform(struct world *w, uint32_t me, const struct tt_action *a)
{
    struct player *p = &w->player[me];
    const uint32_t peer = p->peers[a->peer].rank;
    bool instant = true;

    switch (a->kind) {
    case TT_ACT_OPEN:
        w->pair[peer][me].ready = true;
        w->pair[peer][me].ready_direct = opens_direct(w, me, a);
        /* some peers are distant */
        w->pair[peer][me].ready_depth =
            (uint8_t)(w->conf->depth << (w->conf->seed + me + 2 * peer) % 3);
        tt_exec_deepen(&p->exec, a->peer, true, w->pair[peer][me].ready_depth);
        tt_exec_opened(&p->exec, a->peer, w->pair[peer][me].ready_direct);
        enqueue(w, peer, me, SEE_READY);
        return;
    case TT_ACT_CREDIT:
        w->pair[peer][me].credit[a->stream] = a->seq;
        enqueue(w, peer, me, SEE_CREDIT);
        break;
    case TT_ACT_EAGER:
        send_eager(w, me, peer, a);
        break;
    case TT_ACT_PUT:
        instant = send_segment(w, me, peer, a);
        break;
    default:
        use_letter(w, me, &a->b);
    }
    use_letter(w, me, &a->a);
    tt_exec_taken(&p->exec, a, instant);
}

/* Offers messages that arrived before their step was loaded. */
static void offer_early(struct world *w, uint32_t me)
{
    struct player *p = &w->player[me];

    if (p->loaded == p->exec.loaded)
        return;
    p->loaded = p->exec.loaded;
    for (uint32_t other = 0; other < w->conf->nranks; other++) {
        if (w->pair[me][other].ready && !w->pair[me][other].ready_seen)
            enqueue(w, me, other, SEE_READY);
        if (w->pair[other][me].nseen < w->pair[other][me].nletters)
            enqueue(w, other, me, SEE_EAGER);
    }
}

/* Executes one action of a rank. Returns false if there is none. */
static bool act(struct world *w, uint32_t me)
{
    struct player *p = &w->player[me];
    struct tt_action a = { .kind = TT_ACT_OPEN };
    const bool can = tt_exec_next(&p->exec, &a);

    if (!can && p->exec.patient && p->exec.held) {      /* it must be polled again, and must not
                                                           be delayed for long */
        p->exec.patient = tt_prng_below(&w->prng, 4);
        return true;
    }
    if (can && refuses(w, me, p->peers[a.peer].rank, &a))
        tt_exec_left(&p->exec, &a);
    else if (can)
        perform(w, me, &a);
    offer_early(w, me);
    if (!p->done && tt_exec_finished(&p->exec)) {
        p->done = true;
        w->ndone++;
    }
    return can;
}

/* ---- deliveries ---- */

/* Returns how many of the arrivals are delivered now. */
static uint32_t seen_of(struct world *w, uint32_t seen, uint32_t all)
{
    return w->m.sparing || seen == all ? seen + (seen < all)
                                       : seen + 1 + (uint32_t)tt_prng_below(&w->prng, all - seen);
}

/* Returns whether more remain to be delivered. */
static bool see_letters(struct world *w, struct pair *p, uint32_t to, int peer)
{
    for (uint32_t i = 0; i < p->nletters; i++) {
        struct letter *l = &p->letter[i];

        if (l->offered || peer < 0)
            continue;
        switch (tt_exec_eager(&w->player[to].exec, (uint16_t)peer, l->tag, l->bytes)) {
        case TUTTI_OK:
            l->offered = true;
            p->nseen++;
            if (w->m.sparing)
                return p->nseen < p->nletters;
            break;
        case TUTTI_ERR_INVALID:
            break;
        default:
            wrong(w, to, "expects an eager message of another length");
        }
    }
    return false;               /* the remaining ones are offered again when more steps are
                                   loaded */
}

static bool see_counts(struct world *w, struct pair *p, struct tt_exec *x, int peer, bool credit)
{
    bool more = false;

    for (uint8_t s = 0; s < w->conf->streams; s++) {
        const uint32_t all = credit ? p->credit[s] : p->put[s];
        uint32_t *seen = credit ? &p->credit_seen[s] : &p->put_seen[s];

        if (*seen == all)
            continue;
        *seen = seen_of(w, *seen, all);
        more |= *seen < all;
        if (credit)
            tt_exec_credit(x, (uint16_t)peer, s, *seen);
        else
            tt_exec_arrived(x, (uint16_t)peer, s, *seen);
    }
    return more;
}

static bool see_sent(struct world *w, struct pair *p, struct tt_exec *x, uint32_t from)
{
    const uint32_t i = (uint32_t)tt_prng_below(&w->prng, p->nbegun);
    const struct begun b = p->begun[i];

    p->begun[i] = p->begun[--p->nbegun];
    if (!tt_exec_sent(x, b.step, b.seq))
        wrong(w, from, "does not know of a put that it began");
    return p->nbegun > 0;
}

/* Returns whether more of the kind remain. */
static bool see(struct world *w, uint32_t from, uint32_t to, enum turn turn)
{
    const uint32_t who = turn == SEE_EAGER || turn == SEE_ARRIVED ? to : from,
                   other = who == to ? from : to;
    struct tt_exec *x = &w->player[who].exec;
    const int peer = tt_exec_peer_of(x, other);
    struct pair *p = &w->pair[from][to];

    wake(w, who);
    x->patient = w->m.patient && tt_prng_below(&w->prng, 2);
    switch (turn) {
    case SEE_READY:
        p->ready_seen = peer >= 0;
        if (peer >= 0) {
            tt_exec_deepen(x, (uint16_t)peer, false, p->ready_depth);
            if ((p->ready_direct || !p->mapped) && tt_prng_below(&w->prng, 2))
                tt_exec_lengthen(x, (uint16_t)peer,
                                 tt_prng_below(&w->prng, 8) * (uint32_t)x->conf.segment_bytes);
            tt_exec_ready(x, (uint16_t)peer, p->ready_direct, p->mapped);
        }
        return false;
    case SEE_EAGER: return see_letters(w, p, to, peer);
    case SEE_ARRIVED: return see_counts(w, p, x, peer, false);
    case SEE_CREDIT: return see_counts(w, p, x, peer, true);
    case SEE_SENT: return see_sent(w, p, x, from);
    default:
        p->eager_out -= p->nused;
        p->nused = 0;
        return false;
    }
}

static void give_turn(struct world *w, uint32_t i)
{
    const uint32_t id = w->queue[i], from = id / TURNS / ADVERSARY_RANKS_MAX,
                   to = id / TURNS % ADVERSARY_RANKS_MAX;
    const enum turn turn = (enum turn)(id % TURNS);
    bool more;

    dequeue(w, i);
    w->last = id;
    more = turn == ACT ? act(w, from) : see(w, from, to, turn);
    if (more)
        enqueue(w, from, to, turn);
}

/* ---- the run ---- */

static void begin(struct world *w)
{
    const struct adversary_conf *c = w->conf;

    w->m = manner_of(c);
    w->nqueue = w->ndone = 0;
    w->last = UINT32_MAX;
    w->status = TUTTI_OK;
    w->calm = false;
    tt_prng_init(&w->prng, c->seed + 1);
    w->favour = tt_prng_u64(&w->prng);
    for (uint32_t r = 0; r < c->nranks; r++) {
        struct player *p = &w->player[r];
        const struct tt_exec_conf ec = {
            .algo = c->algo,
            .coll = &c->coll[r],
            .segment_bytes = c->segment_bytes,
            .eager_bytes = c->eager_bytes,
            .streams = c->streams,
            .depth = c->depth,
        };

        p->queued = p->refused = p->done = false;
        p->loaded = 0;
        tt_exec_init(&p->exec, &ec, p->peers, ADVERSARY_RANKS_MAX);
        for (uint32_t to = 0; to < c->nranks; to++) {
            struct pair *q = &w->pair[r][to];

            *q = (struct pair){
                .mapped = drawn(w, w->m.mapped),
                .letter = q->letter,
                .letters_cap = q->letters_cap,
                .begun = q->begun,
                .begun_cap = q->begun_cap,
            };
        }
        wake(w, r);
    }
}

/* Call only if no event is possible. Ranks with refused sends try again; then all are polled once
 * more, in case an executor has missed an event. Returns false if all are deadlocked. */
static bool look_again(struct world *w)
{
    bool any = false;

    for (uint32_t r = 0; r < w->conf->nranks; r++) {
        if (!w->player[r].refused)
            continue;
        w->player[r].refused = false;
        wake(w, r);
        any = true;
    }
    w->calm = !any;
    for (uint32_t r = 0; r < w->conf->nranks && !any && w->status == TUTTI_OK; r++)
        if (!w->player[r].done && act(w, r))
            wrong(w, r, "had given up, though it could go on");
    return any && w->status == TUTTI_OK;
}

static void stuck(struct world *w)
{
    static const char *const opcodes[] = { "put", "wait", "reduction", "copy" };
    size_t at = 0;

    if (w->status != TUTTI_OK)
        return;
    w->status = TUTTI_ERR_TIMEOUT;
    for (uint32_t r = 0; r < w->conf->nranks && at < w->why_bytes; r++) {
        const struct tt_exec *x = &w->player[r].exec;
        const struct tt_step *s = tt_exec_at(x);

        if (s)
            at += (size_t)snprintf(w->why + at, w->why_bytes - at,
                                   "%srank %u: %s with tag %u, peer %u, waits for %d",
                                   at ? "; " : "stuck: ", r, opcodes[s->opcode], s->tag, s->peer,
                                   (int)tt_exec_waits_for(x));
    }
}

tutti_status adversary_run(const struct adversary_conf *conf, uint64_t *states, char *why,
                           size_t why_bytes)
{
    static struct world w;

    tt_assert(conf->nranks <= ADVERSARY_RANKS_MAX);
    w.conf = conf;
    w.why = why;
    w.why_bytes = why_bytes;
    begin(&w);
    while (w.ndone < conf->nranks && w.status == TUTTI_OK) {
        if (w.nqueue == 0 && !look_again(&w)) {
            stuck(&w);
            break;
        }
        give_turn(&w, choose(&w));
        ++*states;
    }
    return w.status;
}
