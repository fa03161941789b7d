/* See dqplb_walk.h. */
#include "dqplb_walk.h"

#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "base/status.h"

#define SEGMENT_BYTES 10u

void walk_init(struct walk *w, const struct walk_case *of)
{
    memset(w, 0, sizeof *w);        /* states are compared as bytes */
    w->of = of;
    tt_dqplb_sender_init(&w->sender, &of->limits, of->first, w->segment);
    w->sender.lanes.choice = of->choice;
    if (of->lane_bytes > 0)
        w->sender.lanes.bytes_max = of->lane_bytes;
    tt_dqplb_receiver_init(&w->receiver, of->limits.window, of->first, w->words);
}

void walk_copy(struct walk *to, const struct walk *from)
{
    memcpy(to, from, sizeof *to);
    to->sender.segment = to->segment;
    to->receiver.came = to->words;
    to->receiver.notify = to->words + TT_DQPLB_WORDS(from->receiver.window);
}

bool walk_is_done(const struct walk *w)
{
    return w->told == w->of->nmessages && w->over == w->of->nmessages;
}

static uint64_t bytes_of(const struct walk *w, uint32_t message)
{
    /* the last segment is shorter, some are empty */
    return w->of->segments[message] * SEGMENT_BYTES - message % SEGMENT_BYTES;
}

static bool can_post(const struct walk *w)
{
    struct tt_dqplb_segment g;
    struct walk *try = malloc(sizeof *try);
    bool can;

    tt_assert(try);
    walk_copy(try, w);
    can = tt_dqplb_next(&try->sender, &g);
    free(try);
    return can;
}

uint32_t walk_moves(const struct walk *w, struct walk_move *out)
{
    uint32_t n = 0;

    if (!w->sender.cutting && w->begun < w->of->nmessages)
        out[n++] = (struct walk_move){ WALK_BEGIN, 0 };
    if (can_post(w))
        out[n++] = (struct walk_move){ WALK_POST, 0 };
    for (uint32_t i = 0; i < w->of->limits.lanes; i++) {
        const struct walk_lane *l = &w->lane[i];

        if (!l->down && l->narrived < l->nposted)
            out[n++] = (struct walk_move){ WALK_ARRIVE, i };
        if (!l->down && l->ncompleted < l->narrived)
            out[n++] = (struct walk_move){ WALK_COMPLETE, i };
        if (!l->down && w->failures < w->of->failures)
            out[n++] = (struct walk_move){ WALK_FAIL, i };
        if (l->down)
            out[n++] = (struct walk_move){ l->resolved ? WALK_UP : WALK_RESOLVE, i };
    }
    return n;
}

static void note(struct walk *w, bool good, const char *what)
{
    if (!good && !w->wrong)
        w->wrong = what;
}

static uint64_t bytes_on(const struct walk_lane *l)
{
    uint64_t bytes = 0;

    for (uint32_t i = l->ncompleted; i < l->nposted; i++)
        bytes += l->posted[i].bytes;
    return bytes;
}

/* Checks byte limits: a lane stays within its limit, or has a single segment; and if lanes are
 * selected by bytes, no other lane with space has fewer. */
static void check_bytes(struct walk *w, const struct tt_dqplb_segment *g)
{
    const uint64_t had = bytes_on(&w->lane[g->lane]);

    note(w, !w->of->lane_bytes || !had || had + g->bytes <= w->of->lane_bytes,
         "more bytes are outstanding on a lane than may be");
    for (uint32_t i = 0; i < w->of->limits.lanes && w->of->choice == TT_DQPLB_EMPTIEST; i++) {
        const struct walk_lane *l = &w->lane[i];
        const bool full = l->nposted - l->ncompleted >= (int)w->of->limits.outstanding;

        note(w, l->down || full || bytes_on(l) >= had || g->word & TT_DQPLB_FAST,
             "there is a lane that is emptier");
    }
}

static void post(struct walk *w)
{
    const uint64_t head = w->sender.head;
    struct tt_dqplb_segment g;
    struct walk_lane *l;
    uint32_t kept;

    note(w, tt_dqplb_next(&w->sender, &g), "nothing to post all of a sudden");
    if (w->wrong)
        return;
    note(w, g.lane < w->of->limits.lanes && !w->lane[g.lane].down, "posted on a lane that is down");
    note(w, g.message < w->begun && g.offset + g.bytes <= bytes_of(w, (uint32_t)g.message),
         "posted past the message's end");
    kept = g.message < w->begun ? w->of->keeps_to[g.message] : 0;
    if (kept && head != w->sender.head)         /* not retransmitted */
        note(w, g.lane == kept - 1 || w->lane[kept - 1].down,
             "a message leaves the lane that it keeps to");
    else
        check_bytes(w, &g);
    l = &w->lane[g.lane];
    if (l->ncompleted > 0) {            /* drop completed ones */
        memmove(l->posted, l->posted + l->ncompleted,
                (l->nposted - l->ncompleted) * sizeof *l->posted);
        l->nposted -= l->ncompleted;
        l->narrived -= l->ncompleted;
        l->ncompleted = 0;
        memset(l->posted + l->nposted, 0, (WALK_OUTSTANDING_MAX - l->nposted) * sizeof *l->posted);
    }
    note(w, l->nposted < w->of->limits.outstanding, "more is outstanding on a lane than may be");
    if (!w->wrong)
        l->posted[l->nposted++] = g;
}

/* Delivers bytes into the receiver's buffer; after the notification, the owner may reuse it. */
static void arrive(struct walk *w, uint32_t lane)
{
    struct walk_lane *l = &w->lane[lane];
    const struct tt_dqplb_segment *g = &l->posted[l->narrived++];
    const uint64_t at = g->offset / SEGMENT_BYTES;
    int whole;

    note(w, g->message >= w->told, "bytes arrive after their message has been told of");
    note(w, !w->here[g->message][at], "bytes arrive twice");
    w->here[g->message][at] = true;
    w->arrived[g->message]++;
    whole = tt_dqplb_received(&w->receiver, lane, g->word);
    note(w, whole >= 0, "the receiver refuses a segment");
    for (; whole > 0 && !w->wrong; whole--, w->told++)
        note(w, w->told < w->begun && w->arrived[w->told] == w->of->segments[w->told],
             "a message is told of before all of it is there");
}

static void sweep(struct walk *w)
{
    uint64_t message;

    while (!w->wrong && tt_dqplb_over(&w->sender, &message)) {
        note(w, message == w->over, "messages are over in another order");
        note(w, w->arrived[w->over] == w->of->segments[w->over],
             "a message is over before all of it has arrived");
        w->over++;
    }
}

void walk_do(struct walk *w, struct walk_move m)
{
    struct walk_lane *l = &w->lane[m.lane];

    switch (m.kind) {
    case WALK_BEGIN:
        note(w, tt_dqplb_begin(&w->sender, w->begun, bytes_of(w, w->begun), w->of->fast[w->begun]),
             "a message cannot begin");
        if (w->of->keeps_to[w->begun])
            tt_dqplb_keep_to(&w->sender, w->of->keeps_to[w->begun] - 1u);
        w->begun++;
        break;
    case WALK_POST:
        post(w);
        break;
    case WALK_ARRIVE:
        arrive(w, m.lane);
        break;
    case WALK_COMPLETE:
        l->ncompleted++;
        note(w, tt_dqplb_completed(&w->sender, m.lane, 1), "a completion is refused");
        break;
    case WALK_FAIL:
        w->failures++;
        memset(l, 0, sizeof *l);
        l->down = true;
        tt_dqplb_lane_down(&w->sender, m.lane);
        tt_dqplb_report(&w->receiver, l->report);
        break;
    case WALK_RESOLVE:
        note(w,
             tt_dqplb_resolve(&w->sender, m.lane, l->report,
                              TT_DQPLB_REPORT_BYTES(w->receiver.window)),
             "a report is refused");
        l->resolved = true;
        break;
    case WALK_UP:
        memset(l, 0, sizeof *l);
        tt_dqplb_lane_up(&w->sender, m.lane);
        break;
    default:
        break;
    }
    sweep(w);
}

/* ---- random walks ---- */

const char *walk_drawn(uint64_t seed)
{
    struct walk_case of = { 0 };
    struct walk *w = malloc(sizeof *w);
    struct walk_move moves[WALK_MOVES_MAX];
    struct tt_prng p;
    const char *wrong;
    uint32_t slow, n;

    tt_assert(w);
    tt_prng_init(&p, seed);
    of.limits = (struct tt_dqplb_limits){
        .lanes = 1 + (uint32_t)tt_prng_below(&p, TT_DQPLB_LANES_MAX),
        .outstanding = 1 + (uint32_t)tt_prng_below(&p, WALK_OUTSTANDING_MAX),
        .window = 1u << tt_prng_below(&p, 7),
        .segment_bytes = SEGMENT_BYTES,
    };
    of.choice = tt_prng_below(&p, 2) ? TT_DQPLB_EMPTIEST : TT_DQPLB_IN_TURN;
    of.lane_bytes =
        (uint32_t)(tt_prng_below(&p, 2) * tt_prng_below(&p, WALK_OUTSTANDING_MAX * SEGMENT_BYTES));
    of.first = (uint32_t)(tt_prng_below(&p, 2) ? TT_DQPLB_SEQ_MASK - tt_prng_below(&p, 100)
                                               : tt_prng_below(&p, 5));
    of.nmessages = 1 + (uint32_t)tt_prng_below(&p, WALK_MESSAGES_MAX);
    of.failures = (uint32_t)tt_prng_below(&p, 2) * (uint32_t)tt_prng_below(&p, 10);
    for (uint32_t i = 0; i < of.nmessages; i++) {
        of.segments[i] = (uint8_t)(1 + tt_prng_below(&p, 1 + tt_prng_below(&p, WALK_SEGMENTS_MAX)));
        of.fast[i] = tt_prng_below(&p, 3) == 0;
        of.keeps_to[i] =
            tt_prng_below(&p, 4) ? 0 : (uint8_t)(1 + tt_prng_below(&p, of.limits.lanes));
    }
    slow = (uint32_t)tt_prng_below(&p, of.limits.lanes);        /* one lane pauses occasionally */
    walk_init(w, &of);
    while (!w->wrong && (n = walk_moves(w, moves)) > 0) {
        const struct walk_move m = moves[tt_prng_below(&p, n)];

        if (walk_is_done(w) && m.kind != WALK_COMPLETE)
            break;
        if (m.kind == WALK_ARRIVE && m.lane == slow && tt_prng_below(&p, 20))
            continue;
        if (m.kind == WALK_FAIL && tt_prng_below(&p, 10))
            continue;
        walk_do(w, m);
    }
    note(w, walk_is_done(w), "nothing can happen any more, and not all is over");
    wrong = w->wrong;
    free(w);
    return wrong;
}

/* ---- all states ---- */

/* Visited states, as hashes of their bytes. Collisions of 64-bit hashes are negligible. */
struct seen {
    uint64_t *hash;
    uint64_t n, room;
};

static bool is_new(struct seen *s, uint64_t hash)
{
    uint64_t at;

    hash += hash == 0;
    if (2 * (s->n + 1) > s->room) {
        const struct seen old = *s;

        s->room = old.room ? 2 * old.room : 1 << 16;
        s->hash = calloc(s->room, sizeof *s->hash);
        tt_assert(s->hash);
        s->n = 0;
        for (uint64_t i = 0; i < old.room; i++)
            if (old.hash[i])
                is_new(s, old.hash[i]);
        free(old.hash);
    }
    for (at = hash % s->room; s->hash[at] && s->hash[at] != hash; at = (at + 1) % s->room)
        ;
    if (s->hash[at])
        return false;
    s->hash[at] = hash;
    s->n++;
    return true;
}

/* Excludes pointers, which differ between copies, and counts of completed segments, which have no
 * effect. */
static uint64_t hash_of(const struct walk *w)
{
    struct walk *plain = malloc(sizeof *plain);
    uint64_t hash;

    tt_assert(plain);
    memcpy(plain, w, sizeof *plain);
    plain->sender.segment = NULL;
    plain->receiver.came = plain->receiver.notify = NULL;
    hash = tt_hash_bytes(plain, sizeof *plain, 0);
    free(plain);
    return hash;
}

static const char *walk_on(struct seen *seen, const struct walk *w)
{
    struct walk_move moves[WALK_MOVES_MAX];
    const uint32_t n = walk_moves(w, moves);
    struct walk *next;
    const char *wrong = w->wrong;
    bool stuck = true;

    if (wrong || !is_new(seen, hash_of(w)))
        return wrong;
    next = malloc(sizeof *next);
    tt_assert(next);
    for (uint32_t i = 0; i < n && !wrong; i++) {
        stuck &= moves[i].kind == WALK_FAIL;
        walk_copy(next, w);
        walk_do(next, moves[i]);
        wrong = walk_on(seen, next);
    }
    free(next);
    if (!wrong && stuck && !walk_is_done(w))
        wrong = "nothing can happen any more, and not all is over";
    return wrong;
}

const char *walk_all(const struct walk_case *of, uint64_t *states)
{
    struct seen seen = { 0 };
    struct walk *w = malloc(sizeof *w);
    const char *wrong;

    tt_assert(w);
    walk_init(w, of);
    wrong = walk_on(&seen, w);
    *states = seen.n;
    free(seen.hash);
    free(w);
    return wrong;
}
