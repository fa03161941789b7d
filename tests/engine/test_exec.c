/* The executor, event by event: the actions that it offers, when, and what it reports to wait
 * for. */
#include <string.h>

#include "base/prng.h"
#include "engine/exec.h"
#include "support/unit.h"

#define LOG_MAX 4096

/* Rank 0 of 4, which runs a program written by a test. */
struct rig {
    struct tt_algo algo;
    struct tt_coll coll;
    struct tt_exec_conf conf;
    struct tt_exec x;
    struct tt_exec_peer peers[4];
    bool direct;            /* whether waits open for direct puts */
    bool late;              /* puts are only started: the test calls tt_exec_sent */
    struct tt_action log[LOG_MAX];      /* actions since the start of the last go() */
    uint32_t n;
};

static uint64_t one_round(const struct tt_coll *c)
{
    (void)c;
    return 1;
}

static uint64_t five_rounds(const struct tt_coll *c)
{
    (void)c;
    return 5;
}

static struct rig *rig_init(void (*round)(struct tt_sched *, const struct tt_coll *, uint64_t),
                            uint64_t segment_bytes, uint64_t eager_bytes, uint8_t streams,
                            uint8_t depth)
{
    static struct rig g;

    g = (struct rig){
        .algo = { .name = "program", .kind = TT_ALLREDUCE, .nrounds = one_round, .round = round },
        .coll = { .kind = TT_ALLREDUCE, .rank = 0, .nranks = 4, .elem_bytes = 1, .bytes = 1 << 20 },
        .conf = { .segment_bytes = segment_bytes,
                  .eager_bytes = eager_bytes,
                  .streams = streams,
                  .depth = depth },
    };
    g.conf.algo = &g.algo;
    g.conf.coll = &g.coll;
    tt_exec_init(&g.x, &g.conf, g.peers, 4);
    return &g;
}

static void perform(struct rig *g, const struct tt_action *a)
{
    if (a->kind == TT_ACT_OPEN)
        tt_exec_opened(&g->x, a->peer, g->direct);
    else
        tt_exec_taken(&g->x, a, !g->late);
}

/* Executes all possible actions. Returns their number; g->log contains them. */
static uint32_t go(struct rig *g)
{
    g->n = 0;
    while (g->n < LOG_MAX && tt_exec_next(&g->x, &g->log[g->n]))
        perform(g, &g->log[g->n++]);
    assert_in_range(g->n, 0, LOG_MAX - 1);
    return g->n;
}

static uint32_t count_of(const struct rig *g, enum tt_action_kind kind)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->n; i++)
        n += g->log[i].kind == kind;
    return n;
}

/* Returns the first one of that kind. */
static const struct tt_action *find(const struct rig *g, enum tt_action_kind kind)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->log[i].kind == kind)
            return &g->log[i];
    fail_msg("no action of kind %d", (int)kind);
    return NULL;
}

static uint16_t peer(const struct rig *g, uint32_t rank)
{
    const int i = tt_exec_peer_of(&g->x, rank);

    assert_in_range(i, 0, 3);
    return (uint16_t)i;
}

static void ready(struct rig *g, uint32_t rank, bool direct, bool mapped)
{
    tt_exec_ready(&g->x, peer(g, rank), direct, mapped);
}

static bool arrived(struct rig *g, uint32_t rank, uint32_t n)
{
    return tt_exec_arrived(&g->x, peer(g, rank), 0, n);
}

static bool credit(struct rig *g, uint32_t rank, uint32_t n)
{
    return tt_exec_credit(&g->x, peer(g, rank), 0, n);
}

/* ---- sending ---- */

static void send_100(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_put(s, 1, tt_src(0), tt_dst(0), 100, 0);
}

static void sends_wait_for_the_open(void **state)
{
    struct rig *g = rig_init(send_100, 8, 0, 1, 2);

    (void)state;
    assert_int_equal(go(g), 0);
    assert_int_equal(tt_exec_waits_for(&g->x), 1);
    ready(g, 1, false, false);
    assert_int_equal(go(g), 2);
    assert_int_equal(g->log[0].kind, TT_ACT_PUT);
    assert_int_equal(g->log[0].bytes, 8);
    assert_int_equal(g->log[0].a.kind, TT_AT_BUF);
    assert_int_equal(g->log[0].out.kind, TT_AT_REMOTE);
    assert_false(g->log[0].direct);
}

static void send_to_three(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    for (uint32_t i = 0; i < 15; i++)
        tt_sched_put(s, 1 + i % 3, tt_src(i), tt_dst(i), 10 + 31 * i % 97, i);
}

/* For any sequence of credits, no stream is ahead of its credit by more than its slots, whose
 * number may differ per peer, and no slot is used twice. */
static void sender_stays_within_its_depth(void **state)
{
    uint32_t consumed[3][TT_EXEC_STREAMS_MAX], issued[3][TT_EXEC_STREAMS_MAX];
    struct tt_prng p;

    (void)state;
    for (uint64_t seed = 0; seed < 64; seed++) {
        const uint8_t streams = (uint8_t)(1 + seed % 4), planned = (uint8_t)(1u << seed / 4 % 4);
        struct rig *g = rig_init(send_to_three, 8, 0, streams, planned);
        uint8_t depths[3];
        uint32_t rounds = 0;

        tt_prng_init(&p, seed);
        memset(consumed, 0, sizeof consumed);
        memset(issued, 0, sizeof issued);
        for (uint32_t r = 1; r < 4; r++) {
            depths[peer(g, r)] = (uint8_t)(1u << (seed / 4 + seed / 16 * r) % 4);
            if (depths[peer(g, r)] != planned)
                tt_exec_deepen(&g->x, peer(g, r), false, depths[peer(g, r)]);
            ready(g, r, false, false);
        }
        for (; !tt_exec_finished(&g->x) && rounds < 10000; rounds++) {
            go(g);
            for (uint32_t i = 0; i < g->n; i++) {
                const struct tt_action *a = &g->log[i];
                const uint32_t depth = depths[a->peer];

                assert_int_equal(a->kind, TT_ACT_PUT);
                assert_int_equal(a->seq, issued[a->peer][a->stream]++);
                assert_int_equal(a->out.slot, a->seq % depth);
                if (a->seq >= consumed[a->peer][a->stream] + depth)
                    fail_msg("segment %u is sent after credit for %u, depth %u (seed %u)", a->seq,
                             consumed[a->peer][a->stream], depth, (unsigned)seed);
            }
            const uint32_t r = (uint32_t)tt_prng_below(&p, 3),
                           s = (uint32_t)tt_prng_below(&p, streams);

            consumed[r][s] += (uint32_t)tt_prng_below(&p, issued[r][s] - consumed[r][s] + 1);
            tt_exec_credit(&g->x, (uint16_t)r, (uint8_t)s, consumed[r][s]);
        }
        assert_true(tt_exec_finished(&g->x));
        assert_in_range(rounds, 10, 9999);
    }
}

static void outdated_credit_is_ignored(void **state)
{
    struct rig *g = rig_init(send_100, 8, 0, 1, 4);

    (void)state;
    ready(g, 1, false, false);
    assert_int_equal(go(g), 4);
    assert_true(credit(g, 1, 3));
    assert_int_equal(go(g), 3);
    assert_false(credit(g, 1, 3));
    assert_false(credit(g, 1, 1));
    assert_false(credit(g, 1, 0));
    assert_int_equal(go(g), 0);
    assert_int_equal(tt_exec_waits_for(&g->x), 1);
}

static void direct_data_needs_no_credit(void **state)
{
    struct rig *g = rig_init(send_100, 8, 0, 1, 1);

    (void)state;
    ready(g, 1, true, false);
    assert_int_equal(go(g), 13);
    assert_true(g->log[12].direct);
    assert_int_equal(g->log[12].out.kind, TT_AT_BUF);
    assert_int_equal(g->log[12].out.skip, 96);
    assert_int_equal(g->log[12].bytes, 4);
    assert_true(tt_exec_finished(&g->x));
}

static void direct_data_may_use_longer_puts(void **state)
{
    struct rig *g = rig_init(send_100, 8, 0, 1, 1);
    static const uint32_t last[] = { 2, 5, 8, 11, 12 };

    (void)state;
    g->late = true;
    tt_exec_lengthen(&g->x, peer(g, 1), 31);    /* whole segments, and at most a quarter of the
                                                   message if others may forward it */
    ready(g, 1, true, false);
    assert_int_equal(go(g), 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(g->log[i].seq, last[i]);
        assert_int_equal(g->log[i].out.skip, 24 * i);
        assert_int_equal(g->log[i].bytes, i < 4 ? 24 : 4);
    }
    for (uint32_t i = 0; i < 5; i++) {
        assert_false(tt_exec_finished(&g->x));
        assert_true(tt_exec_sent(&g->x, 0, last[4 - i]));
        assert_false(tt_exec_sent(&g->x, 0, last[4 - i]));      /* duplicate */
    }
    assert_true(tt_exec_finished(&g->x));

    g = rig_init(send_100, 8, 0, 1, 1);
    g->coll.nranks = 2;         /* no rank can forward it */
    tt_exec_lengthen(&g->x, peer(g, 1), 80);
    ready(g, 1, true, false);
    assert_int_equal(go(g), 2);
    assert_int_equal(g->log[0].bytes, 80);
    assert_int_equal(g->log[1].bytes, 20);
    assert_true(tt_exec_finished(&g->x));
}

/* With four slots, puts have three segments (a quarter of the message), one (only the fourth slot
 * is left), and two (as much as the credit permits). */
static void slot_data_may_use_longer_puts(void **state)
{
    struct rig *g = rig_init(send_100, 8, 0, 1, 4);

    (void)state;
    tt_exec_lengthen(&g->x, peer(g, 1), 80);
    ready(g, 1, false, false);
    assert_int_equal(go(g), 2);
    assert_int_equal(g->log[0].out.slot, 0);
    assert_int_equal(g->log[0].seq, 2);
    assert_int_equal(g->log[0].bytes, 24);
    assert_int_equal(g->log[1].out.slot, 3);
    assert_int_equal(g->log[1].seq, 3);
    assert_int_equal(g->log[1].bytes, 8);
    tt_exec_credit(&g->x, peer(g, 1), 0, 2);
    assert_int_equal(go(g), 1);
    assert_int_equal(g->log[0].out.slot, 0);
    assert_int_equal(g->log[0].seq, 5);
    assert_int_equal(g->log[0].bytes, 16);

    g = rig_init(send_100, 8, 0, 1, 4);
    tt_exec_lengthen(&g->x, peer(g, 1), 80);
    ready(g, 1, false, true);           /* stores reach the slots: a put costs nothing */
    assert_int_equal(go(g), 4);
}

static void send_then_overwrite(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_put(s, 1, tt_dst(0), tt_dst(0), 800, 0);
    tt_sched_copy(s, tt_dst(0), tt_src(0), 800);
}

/* Puts complete in any order; a source counts as free only up to the first incomplete one. */
static void check_overwriting(uint32_t together)
{
    struct rig *g = rig_init(send_then_overwrite, 8, 0, 1, 16);
    uint32_t order[100], length[100], sent[100] = { 0 }, nout = 0, nsegments = 0, ncopied = 0,
                                      longest = 0;
    struct tt_prng p;

    tt_prng_init(&p, 3);
    g->late = true;
    tt_exec_lengthen(&g->x, peer(g, 1), 8 * together);
    ready(g, 1, true, false);
    do {
        go(g);
        for (uint32_t i = 0; i < g->n; i++) {
            if (g->log[i].kind == TT_ACT_PUT) {
                const uint32_t n = (uint32_t)g->log[i].bytes / 8;

                order[nout++] = g->log[i].seq;
                length[g->log[i].seq] = n;
                nsegments += n;
                longest = n > longest ? n : longest;
                continue;
            }
            assert_int_equal(g->log[i].kind, TT_ACT_COPY);
            assert_int_equal(g->log[i].out.skip, 8 * ncopied);
            assert_true(sent[ncopied]);
            ncopied++;
        }
        assert_in_range(nout, 1, 31);
        const uint32_t i = (uint32_t)tt_prng_below(&p, nout), seq = order[i];

        order[i] = order[--nout];
        for (uint32_t j = 0; j < length[seq]; j++)
            sent[seq - j] = 1;
        tt_exec_sent(&g->x, 0, seq);
    } while (nsegments < 100 || nout);
    go(g);
    assert_int_equal(ncopied + g->n, 100);
    assert_true(tt_exec_finished(&g->x));
    assert_int_equal(longest, together);
}

static void overwrite_waits_for_pending_puts(void **state)
{
    (void)state;
    check_overwriting(1);
    check_overwriting(5);
}

static void send_400(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_put(s, 1, tt_src(0), tt_dst(0), 400, 0);
}

/* The completion of a put matters only to a step that overwrites its source, and to the limit of
 * segments in flight. */
static void completion_matters_only_to_waiting_steps(void **state)
{
    struct rig *g = rig_init(send_then_overwrite, 8, 0, 1, 16);

    (void)state;
    g->late = true;
    ready(g, 1, true, false);
    go(g);
    assert_true(tt_exec_sent_matters(&g->x, 0));
    assert_false(tt_exec_only_unsent(&g->x));

    g = rig_init(send_400, 8, 0, 1, 16);
    g->late = true;
    ready(g, 1, true, false);
    for (uint32_t sent = 0; sent < 50; sent++) {
        assert_int_equal(go(g), sent == 0 ? 31 : sent < 20);
        assert_int_equal(tt_exec_sent_matters(&g->x, 0), sent < 19);
        assert_int_equal(tt_exec_only_unsent(&g->x), sent >= 19);
        assert_false(tt_exec_finished(&g->x));
        assert_true(tt_exec_sent(&g->x, 0, sent));
    }
    assert_true(tt_exec_finished(&g->x));
}

/* ---- receiving ---- */

static void receive_two(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_put(s, 2, tt_dst(0), tt_dst(0), 16, 0);
    tt_sched_wait(s, 1, tt_dst(0), 16, 0);
    tt_sched_wait(s, 1, tt_dst(100), 16, 1);
}

static void stream_segments_are_consumed_in_order(void **state)
{
    struct rig *g = rig_init(receive_two, 8, 0, 1, 8);

    (void)state;
    assert_int_equal(go(g), 1);
    assert_int_equal(g->log[0].kind, TT_ACT_OPEN);
    assert_true(arrived(g, 1, 4));
    assert_int_equal(go(g), 0);         /* the first wait would overwrite data to be sent; the
                                           second is behind it */
    ready(g, 2, false, false);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_PUT), 2);
    assert_int_equal(count_of(g, TT_ACT_COPY), 4);
    for (uint32_t i = 0, slot = 0; i < g->n; i++)
        if (g->log[i].kind == TT_ACT_COPY) {
            assert_int_equal(g->log[i].a.kind, TT_AT_SLOT);
            assert_int_equal(g->log[i].a.slot, slot);
            assert_int_equal(g->log[i].out.ref.offset + g->log[i].out.skip,
                             slot < 2 ? 8 * slot : 100 + 8 * (slot - 2));
            slot++;
        }
    assert_true(tt_exec_finished(&g->x));
}

static void exchange_with_three(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_copy(s, tt_dst(500), tt_src(0), 16);
    for (uint32_t peer = 1; peer < 4; peer++)
        tt_sched_put(s, peer, tt_src(0), tt_dst(0), 16, 0);
    for (uint32_t peer = 1; peer < 4; peer++)
        tt_sched_wait(s, peer, tt_dst(100 * peer), 16, 0);
}

static void flows_open_before_puts_and_copies(void **state)
{
    struct rig *g = rig_init(exchange_with_three, 8, 0, 1, 8);

    (void)state;
    g->n = 0;
    assert_true(tt_exec_next(&g->x, &g->log[0]));   /* before any peer is ready; then all are */
    perform(g, &g->log[0]);
    for (uint32_t peer = 1; peer < 4; peer++)
        ready(g, peer, false, false);
    for (uint32_t n = 1; n < 3; n++) {
        assert_true(tt_exec_next(&g->x, &g->log[n]));
        perform(g, &g->log[n]);
    }
    for (uint32_t n = 0; n < 3; n++)
        assert_int_equal(g->log[n].kind, TT_ACT_OPEN);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_OPEN), 0);
    assert_int_equal(count_of(g, TT_ACT_PUT), 6);
}

#define OWN_BYTES (128u << 10)
#define OWN_SEGMENT (32u << 10)

/* Its own part first, as some algorithms emit it, then that of another rank. */
static void keep_and_send(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_copy(s, tt_dst(0), tt_src(0), OWN_BYTES);
    tt_sched_put(s, 1, tt_src(OWN_BYTES), tt_dst(0), OWN_BYTES, 0);
}

static void long_own_copy_has_lowest_priority(void **state)
{
    struct rig *g = rig_init(keep_and_send, OWN_SEGMENT, 0, 1, 8);

    (void)state;
    assert_true(tt_exec_next(&g->x, &g->log[0]));   /* the peer is not ready */
    assert_true(g->log[0].kind == TT_ACT_COPY && g->log[0].idle);
    perform(g, &g->log[0]);
    ready(g, 1, false, false);
    go(g);
    for (uint32_t n = 0; n < 4; n++)
        assert_true(g->log[n].kind == TT_ACT_PUT && !g->log[n].idle);
    for (uint32_t n = 4; n < 7; n++)
        assert_true(g->log[n].kind == TT_ACT_COPY && g->log[n].idle);
    assert_true(g->n == 7 && tt_exec_finished(&g->x));
}

/* A later round sends what the first has copied. */
static void keep_and_send_that(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_copy(s, tt_dst(0), tt_src(0), OWN_BYTES);
    tt_sched_put(s, 1, tt_src(OWN_BYTES), tt_dst(0), OWN_BYTES, 0);
    tt_sched_put(s, 2, tt_dst(0), tt_dst(0), OWN_BYTES, 0);
}

static void forwarded_copy_does_not_wait(void **state)
{
    struct rig *g = rig_init(keep_and_send_that, OWN_SEGMENT, 0, 1, 8);

    (void)state;
    ready(g, 1, false, false);
    ready(g, 2, false, false);
    go(g);
    assert_true(g->log[0].kind == TT_ACT_COPY && !g->log[0].idle);
    assert_int_equal(count_of(g, TT_ACT_PUT), 8);
    assert_true(tt_exec_finished(&g->x));
}

static void receive_two_pipes(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_put(s, 2, tt_dst(0), tt_dst(0), 16, 0);
    tt_sched_wait(s, 1, tt_pipe(0), 16, 0);
    tt_sched_wait(s, 1, tt_pipe(1), 16, 1);
    tt_sched_reduce(s, tt_dst(0), tt_pipe(0), tt_src(0), 16, false);
    tt_sched_reduce(s, tt_dst(100), tt_pipe(1), tt_src(0), 16, false);
}

static void slots_are_read_in_freeing_order(void **state)
{
    struct rig *g = rig_init(receive_two_pipes, 8, 0, 1, 8);

    (void)state;
    go(g);
    arrived(g, 1, 4);
    assert_int_equal(go(g), 0);         /* the second could run, but the slots of the first must
                                           be freed before */
    ready(g, 2, false, false);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_REDUCE), 4);
    assert_int_equal(find(g, TT_ACT_REDUCE)->a.slot, 0);
    assert_true(tt_exec_finished(&g->x));
}

/* 49 steps, then 16: the last step may replace the first one in the window only when that one is
 * no longer needed. */
static void a_full_window(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    if (k == 0) {
        tt_sched_wait(s, 1, tt_pipe(0), 16, 0);
        tt_sched_put(s, 2, tt_pipe(0), tt_dst(0), 16, 0);
    }
    while (s->n < (k == 3 ? 1u : 16u))
        tt_sched_put(s, 3, tt_src(0), tt_dst(0), 4, 100 * (uint32_t)k + s->n);
}

static void pipe_is_readable_with_full_window(void **state)
{
    struct rig *g = rig_init(a_full_window, 8, 4, 1, 4);

    (void)state;
    g->algo.nrounds = five_rounds;
    tt_exec_init(&g->x, &g->conf, g->peers, 4);
    go(g);
    arrived(g, 1, 2);
    go(g);
    ready(g, 2, false, false);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_PUT), 2);
    assert_int_equal(find(g, TT_ACT_PUT)->a.kind, TT_AT_SLOT);
    assert_int_equal(find(g, TT_ACT_PUT)->a.slot, 0);
    assert_true(tt_exec_finished(&g->x));
}

static void receive_300(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_wait(s, 1, tt_dst(0), 300, 0);
}

static void outdated_arrivals_are_ignored(void **state)
{
    struct rig *g = rig_init(receive_300, 8, 0, 1, 8);

    (void)state;
    go(g);
    assert_false(arrived(g, 1, 0));
    assert_true(arrived(g, 1, 3));
    assert_false(arrived(g, 1, 3));
    assert_false(arrived(g, 1, 2));
    go(g);
    assert_int_equal(count_of(g, TT_ACT_COPY), 3);
    assert_false(arrived(g, 1, 1));
    assert_int_equal(go(g), 0);
    assert_true(arrived(g, 1, 4));
    go(g);
    assert_int_equal(count_of(g, TT_ACT_COPY), 1);
}

/* The sender gets credit for every quarter of its slots, never for more than is consumed, and none
 * that it will not use. */
static void credit_is_sent_per_quarter(void **state)
{
    (void)state;
    for (uint8_t depth = 1; depth <= 16; depth = (uint8_t)(2 * depth)) {
        struct rig *g = rig_init(receive_300, 8, 0, 1, depth);
        uint32_t told = 0;

        go(g);
        for (uint32_t n = 1; n < 38; n++) {
            assert_true(arrived(g, 1, n));
            go(g);
            assert_int_equal(count_of(g, TT_ACT_COPY), 1);
            if (told + depth >= 38) {
                assert_int_equal(count_of(g, TT_ACT_CREDIT), 0);
                continue;
            }
            if (count_of(g, TT_ACT_CREDIT))
                told = find(g, TT_ACT_CREDIT)->seq;
            assert_in_range(n - told, 0, depth > 4 ? depth / 4 - 1 : 0);
        }
    }
}

static void receive_from_two(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_wait(s, 1, tt_dst(0), 300, 0);
    tt_sched_wait(s, 2, tt_dst(300), 300, 0);
}

/* ---- unexecuted actions are offered again ---- */

static void refused_credit_is_offered_again(void **state)
{
    struct rig *g = rig_init(receive_from_two, 8, 0, 1, 1);
    struct tt_action a;

    (void)state;
    go(g);
    arrived(g, 1, 1);
    arrived(g, 2, 1);
    for (int i = 0; i < 2; i++) {
        assert_true(tt_exec_next(&g->x, &a));
        assert_int_equal(a.kind, TT_ACT_COPY);
        tt_exec_taken(&g->x, &a, true);
    }
    for (uint32_t left_to = 0; left_to < 2; left_to++) {        /* a peer that accepts none does not
                                                            block others */
        assert_true(tt_exec_next(&g->x, &a));
        assert_int_equal(a.kind, TT_ACT_CREDIT);
        assert_int_equal(a.peer, left_to);
        tt_exec_left(&g->x, &a);
    }
    while (tt_exec_next(&g->x, &a)) {
        assert_int_equal(a.kind, TT_ACT_CREDIT);        /* at most once more: something else had
                                                           changed before */
        tt_exec_left(&g->x, &a);
    }
    assert_true(g->x.credit_due);       /* the shell calls again */
    assert_int_equal(go(g), 2);         /* without any event */
    assert_int_equal(g->log[0].kind, TT_ACT_CREDIT);
    assert_int_equal(g->log[0].seq, 1);
    assert_int_equal(g->log[1].kind, TT_ACT_CREDIT);
    assert_false(g->x.credit_due);
}

static void all_kinds(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_put(s, 1, tt_src(0), tt_dst(0), 4, 0);
    tt_sched_put(s, 2, tt_src(0), tt_dst(0), 20, 0);
    tt_sched_wait(s, 3, tt_dst(0), 20, 0);
}

static void refused_action_is_offered_again(void **state)
{
    static const enum tt_action_kind kinds[] = { TT_ACT_EAGER, TT_ACT_PUT, TT_ACT_OPEN };

    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        struct rig *g = rig_init(all_kinds, 16, 4, 1, 4);
        uint32_t offers = 0;
        struct tt_action a;

        ready(g, 2, false, false);
        while (tt_exec_next(&g->x, &a)) {
            if (a.kind != kinds[k]) {
                perform(g, &a);
                continue;
            }
            tt_exec_left(&g->x, &a);
            assert_in_range(++offers, 1, 5);
        }
        assert_in_range(offers, 1, 5);
        assert_true(go(g) > 0);         /* no event was needed */
        assert_int_equal(g->log[0].kind, kinds[k]);
    }
}

/* ---- fusing ---- */

static void pass_on(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_wait(s, 1, tt_pipe(0), 100, 0);
    tt_sched_reduce(s, tt_pipe(1), tt_pipe(0), tt_src(0), 100, false);
    tt_sched_put(s, 2, tt_pipe(1), tt_dst(0), 100, 0);
}

static void pass_on_and_keep(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_wait(s, 1, tt_pipe(0), 100, 0);
    tt_sched_reduce(s, tt_dst(0), tt_pipe(0), tt_src(0), 100, false);
    tt_sched_put(s, 2, tt_dst(0), tt_dst(0), 100, 0);
}

static void pipe_reduces_directly_into_mapped_slots(void **state)
{
    struct rig *g = rig_init(pass_on, 8, 0, 1, 2);

    (void)state;
    go(g);
    arrived(g, 1, 2);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_REDUCE), 0);    /* the destination is not known yet */
    ready(g, 2, false, true);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_REDUCE), 2);
    assert_int_equal(count_of(g, TT_ACT_PUT), 2);
    assert_int_equal(find(g, TT_ACT_REDUCE)->a.kind, TT_AT_SLOT);
    assert_int_equal(find(g, TT_ACT_REDUCE)->b.kind, TT_AT_BUF);
    assert_int_equal(find(g, TT_ACT_REDUCE)->out.kind, TT_AT_REMOTE);
    assert_int_equal(find(g, TT_ACT_REDUCE)->out2.kind, TT_AT_NONE);
    assert_int_equal(find(g, TT_ACT_PUT)->a.kind, TT_AT_REMOTE);
    arrived(g, 1, 4);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_REDUCE), 0);    /* those slots are full */
    credit(g, 2, 1);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_REDUCE), 1);
    assert_int_equal(find(g, TT_ACT_REDUCE)->out.slot, 0);
    assert_int_equal(find(g, TT_ACT_REDUCE)->a.slot, 0);
}

static void pipe_is_staged_without_mapped_slots(void **state)
{
    (void)state;
    for (int direct = 0; direct < 2; direct++) {
        struct rig *g = rig_init(pass_on, 8, 0, 1, 4);

        g->late = true;
        go(g);
        arrived(g, 1, 13);
        ready(g, 2, direct, direct);
        go(g);
        assert_int_equal(count_of(g, TT_ACT_REDUCE), 4);        /* as many as there are staging
                                                                   segments */
        assert_int_equal(find(g, TT_ACT_REDUCE)->out.kind, TT_AT_STAGE);
        assert_int_equal(count_of(g, TT_ACT_PUT), 4);
        assert_int_equal(find(g, TT_ACT_PUT)->a.kind, TT_AT_STAGE);
        assert_int_equal(find(g, TT_ACT_PUT)->direct, direct);
        credit(g, 2, 4);
        assert_true(tt_exec_sent(&g->x, find(g, TT_ACT_PUT)->step, 1));
        assert_int_equal(go(g), 0);     /* the first is still being read */
        for (uint32_t seq = 0; seq < 200; seq++)    /* reported before, not started, or of another
                                                       step than a put */
            if (seq == 1 || seq >= 4)
                assert_false(tt_exec_sent(&g->x, 2, seq));
        assert_false(tt_exec_sent(&g->x, 2, UINT32_MAX) || tt_exec_sent(&g->x, 0, 0) ||
                     tt_exec_sent(&g->x, 1, 0));
        assert_int_equal(go(g), 0);
        assert_true(tt_exec_sent(&g->x, 2, 0));
        assert_false(tt_exec_sent(&g->x, 2, 0));
        go(g);
        assert_int_equal(count_of(g, TT_ACT_REDUCE), 2);
        assert_int_equal(g->log[0].out.slot, 0);
    }
}

static void kept_result_also_fills_free_slot(void **state)
{
    struct rig *g = rig_init(pass_on_and_keep, 8, 0, 1, 2);

    (void)state;
    go(g);
    arrived(g, 1, 1);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_REDUCE), 1);    /* no wait */
    assert_int_equal(find(g, TT_ACT_REDUCE)->out.kind, TT_AT_BUF);
    assert_int_equal(find(g, TT_ACT_REDUCE)->out2.kind, TT_AT_NONE);
    ready(g, 2, false, true);
    go(g);
    assert_int_equal(find(g, TT_ACT_PUT)->a.kind, TT_AT_BUF);
    arrived(g, 1, 3);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_REDUCE), 2);
    assert_int_equal(find(g, TT_ACT_REDUCE)->out.kind, TT_AT_BUF);
    assert_int_equal(find(g, TT_ACT_REDUCE)->out2.kind, TT_AT_REMOTE);
    assert_int_equal(find(g, TT_ACT_REDUCE)->out2.slot, 1);
    assert_int_equal(count_of(g, TT_ACT_PUT), 1);       /* segment 1; there was no slot for 2 */
    assert_int_equal(find(g, TT_ACT_PUT)->a.kind, TT_AT_REMOTE);
    credit(g, 2, 2);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_PUT), 1);
    assert_int_equal(find(g, TT_ACT_PUT)->a.kind, TT_AT_BUF);
    assert_int_equal(find(g, TT_ACT_PUT)->a.skip, 16);
}

static void fusable_work_waits_for_space(void **state)
{
    struct rig *g = rig_init(pass_on_and_keep, 8, 0, 1, 2);

    (void)state;
    g->x.patient = true;
    go(g);
    arrived(g, 1, 1);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_REDUCE), 1);    /* its peer is not ready: that may take
                                                           long */
    assert_false(g->x.held);
    ready(g, 2, false, true);
    arrived(g, 1, 4);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_REDUCE), 1);    /* the first was sent by an ordinary put,
                                                           this one goes to the second slot */
    assert_int_equal(find(g, TT_ACT_REDUCE)->out2.kind, TT_AT_REMOTE);
    assert_true(g->x.held);
    credit(g, 2, 1);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_REDUCE), 1);
    assert_int_equal(find(g, TT_ACT_REDUCE)->out2.kind, TT_AT_REMOTE);
    assert_true(g->x.held);
    g->x.patient = false;
    go(g);
    assert_int_equal(count_of(g, TT_ACT_REDUCE), 1);
    assert_int_equal(find(g, TT_ACT_REDUCE)->out2.kind, TT_AT_NONE);
    assert_false(g->x.held);
}

static void eager_and_direct_puts_never_fuse(void **state)
{
    struct rig *g = rig_init(pass_on_and_keep, 128, 128, 1, 2);

    (void)state;
    assert_int_equal(tt_exec_eager(&g->x, peer(g, 1), 0, 100), TUTTI_OK);
    ready(g, 2, false, true);
    go(g);
    assert_int_equal(find(g, TT_ACT_REDUCE)->out2.kind, TT_AT_NONE);
    assert_int_equal(find(g, TT_ACT_REDUCE)->a.kind, TT_AT_EAGER);
    assert_int_equal(count_of(g, TT_ACT_EAGER), 1);

    g = rig_init(pass_on_and_keep, 128, 0, 1, 2);
    ready(g, 2, true, true);
    go(g);
    arrived(g, 1, 1);
    go(g);
    assert_int_equal(find(g, TT_ACT_REDUCE)->out2.kind, TT_AT_NONE);
    assert_int_equal(find(g, TT_ACT_PUT)->a.kind, TT_AT_BUF);
    assert_true(find(g, TT_ACT_PUT)->direct);
}

/* ---- staging ---- */

static void five_pipes(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    for (uint32_t i = 0; i < 5; i++) {
        tt_sched_wait(s, 1, tt_pipe(i), 128, i);
        tt_sched_reduce(s, tt_pipe(10 + i), tt_pipe(i), tt_src(0), 128, false);
        tt_sched_put(s, 2, tt_pipe(10 + i), tt_dst(128 * i), 128, i);
    }
}

/* Checks the actions: no reduction writes to staging in use. slot_of: location of the sent
 * segments. */
static uint32_t check_stages(const struct rig *g, bool used[TT_EXEC_STAGES], uint32_t slot_of[80])
{
    for (uint32_t i = 0; i < g->n; i++) {
        const struct tt_action *a = &g->log[i];

        if (a->kind == TT_ACT_REDUCE) {
            assert_int_equal(a->out.kind, TT_AT_STAGE);
            assert_in_range(a->out.slot, 0, TT_EXEC_STAGES - 1);
            assert_false(used[a->out.slot]);
            used[a->out.slot] = true;
        } else if (a->kind == TT_ACT_PUT) {
            assert_int_equal(a->a.kind, TT_AT_STAGE);
            slot_of[a->seq] = a->a.slot;
        }
    }
    return count_of(g, TT_ACT_REDUCE);
}

/* Three pipes get all the staging that they can use. The fourth leaves some for the fifth: in any
 * order, all get some. */
static void staging_is_shared_by_all_pipes(void **state)
{
    struct rig *g = rig_init(five_pipes, 8, 0, 1, 16);
    bool used[TT_EXEC_STAGES] = { false };
    uint32_t slot_of[80], n;

    (void)state;
    g->late = true;
    go(g);
    arrived(g, 1, 80);
    ready(g, 2, false, false);
    go(g);
    n = check_stages(g, used, slot_of);
    assert_int_equal(n, 16 + 16 + 16 + 8);
    assert_int_equal(count_of(g, TT_ACT_PUT), 16);
    for (uint32_t seq = 0; seq < 80; seq++) {
        assert_true(tt_exec_sent(&g->x, (uint16_t)(seq / 16 * 3 + 2), seq));
        used[slot_of[seq]] = false;
        credit(g, 2, seq + 1);
        go(g);
        n += check_stages(g, used, slot_of);
    }
    assert_int_equal(n, 80);
    assert_true(tt_exec_finished(&g->x));
}

/* ---- eager messages ---- */

static void receive_short(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_wait(s, 1, tt_dst(0), 4, 7);
    tt_sched_wait(s, 1, tt_dst(4), 40, 8);
    tt_sched_wait(s, 1, tt_dst(44), 0, 9);
}

static void eager_message_is_consumed_once(void **state)
{
    struct rig *g = rig_init(receive_short, 8, 8, 1, 2);

    (void)state;
    assert_int_equal(tt_exec_eager(&g->x, 0, 6, 4), TUTTI_ERR_INVALID);
    assert_int_equal(tt_exec_eager(&g->x, 1, 7, 4), TUTTI_ERR_INVALID);
    assert_int_equal(tt_exec_eager(&g->x, 0, 7, 3), TUTTI_ERR_MISMATCH);
    /* it must be streamed */
    assert_int_equal(tt_exec_eager(&g->x, 0, 8, 40), TUTTI_ERR_MISMATCH);
    assert_int_equal(tt_exec_eager(&g->x, 0, 7, 4), TUTTI_OK);
    assert_int_equal(tt_exec_eager(&g->x, 0, 7, 4), TUTTI_ERR_MISMATCH);
    assert_int_equal(tt_exec_eager(&g->x, 0, 9, 0), TUTTI_OK);
    go(g);
    assert_int_equal(count_of(g, TT_ACT_COPY), 2);
    assert_int_equal(find(g, TT_ACT_COPY)->a.kind, TT_AT_EAGER);
    assert_int_equal(find(g, TT_ACT_COPY)->a.slot, 7);
    assert_int_equal(tt_exec_eager(&g->x, 0, 7, 4), TUTTI_ERR_INVALID);
    assert_false(tt_exec_finished(&g->x));
}

/* ---- straight-line programs ---- */

static void exchange(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    const uint32_t other = 1 + (uint32_t)k;

    (void)c;
    tt_sched_put(s, other, tt_src(0), tt_dst(0), 8, 0);
    tt_sched_wait(s, other, tt_pipe(k), 8, 0);
    tt_sched_reduce(s, tt_dst(0), tt_src(0), tt_pipe(k), 8, true);
}

static void strided(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_copy(s, tt_dst(0), tt_strided(tt_src(0), 2, 4), 8);
}

static uint64_t hundred_rounds(const struct tt_coll *c)
{
    (void)c;
    return 100;
}

static void short_eager_programs_are_straight(void **state)
{
    struct rig *g = rig_init(exchange, 8, 8, 1, 1);

    (void)state;
    assert_true(g->x.straight);
    assert_false(rig_init(exchange, 8, 4, 1, 1)->x.straight);
    assert_false(rig_init(strided, 8, 8, 1, 1)->x.straight);
    /* a pipe between two steps of this rank */
    assert_false(rig_init(pass_on, 128, 128, 1, 1)->x.straight);
    g = rig_init(send_100, 128, 128, 1, 1);
    assert_true(g->x.straight);
    g->algo.nrounds = hundred_rounds;
    tt_exec_init(&g->x, &g->conf, g->peers, 4);
    assert_false(g->x.straight);        /* only partly loaded */
}

static void straight_program_restarts_unchanged(void **state)
{
    static struct rig once;
    struct rig *g = rig_init(exchange, 8, 8, 1, 1);

    (void)state;
    once = *g;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tt_exec_at(&g->x)->opcode, TT_PUT);
        assert_int_equal(tt_exec_waits_for(&g->x), 1);
        assert_int_equal(tt_exec_eager(&g->x, 0, 0, 8), TUTTI_OK);
        assert_int_equal(tt_exec_eager(&g->x, 0, 0, 8), TUTTI_ERR_MISMATCH);
        g->x.head = 1;                  /* as counted by the shell */
        assert_int_equal(tt_exec_at(&g->x)->opcode, TT_WAIT);
        assert_int_equal(tt_exec_waits_for(&g->x), UINT32_MAX);
        g->x.head = g->x.tail;
        assert_true(tt_exec_finished(&g->x));
        assert_null(tt_exec_at(&g->x));
        assert_int_equal(tt_exec_waits_for(&g->x), UINT32_MAX);
        tt_exec_restart(&g->x);
        assert_false(tt_exec_finished(&g->x));
        assert_memory_equal(g->x.step, once.x.step, g->x.tail * sizeof g->x.step[0]);
        assert_memory_equal(g->peers, once.peers, sizeof g->peers);
        assert_int_equal(g->x.progress, once.x.progress);
    }
}

static void exchange_and_copy(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    (void)k;
    tt_sched_put(s, 1, tt_src(0), tt_dst(0), 8, 0);
    tt_sched_wait(s, 1, tt_dst(8), 8, 0);
    tt_sched_copy(s, tt_dst(0), tt_dst(8), 8);      /* of received data */
    tt_sched_wait(s, 2, tt_pipe(0), 8, 0);
    tt_sched_copy(s, tt_dst(16), tt_pipe(0), 8);    /* of received data */
    tt_sched_copy(s, tt_dst(24), tt_src(0), 8);
    tt_sched_copy(s, tt_src(0), tt_dst(24), 8);     /* of copied data, and to a buffer that was
                                                       sent */
}

/* Only steps may run that depend on no pending step. */
static void waiting_straight_program_may_copy(void **state)
{
    struct rig *g = rig_init(exchange_and_copy, 8, 8, 1, 1);
    struct tt_exec_step *t;

    (void)state;
    assert_true(g->x.straight);
    t = tt_exec_meanwhile(&g->x);
    assert_ptr_equal(t, &g->x.step[5]);         /* the put is pending, but only reads the same
                                                   buffer */
    g->x.head = 1;
    assert_ptr_equal(tt_exec_meanwhile(&g->x), t);
    t->over = true;
    t = tt_exec_meanwhile(&g->x);
    assert_ptr_equal(t, &g->x.step[6]);
    t->over = true;
    assert_null(tt_exec_meanwhile(&g->x));
    g->x.head = 3;
    assert_null(tt_exec_meanwhile(&g->x));
    tt_exec_restart(&g->x);
    assert_ptr_equal(tt_exec_meanwhile(&g->x), &g->x.step[5]);
}

static uint64_t two_rounds(const struct tt_coll *c)
{
    (void)c;
    return 2;
}

static void wait_twice(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)c;
    tt_sched_put(s, 1, tt_src(0), tt_dst(0), 8, (uint32_t)k);
    tt_sched_wait(s, 1, tt_dst(8 * k), 8, (uint32_t)k);
}

/* The report has the current round, not the number of loaded rounds, which is 2 from the
 * beginning. */
static void waiting_round_is_reported(void **state)
{
    struct rig *g = rig_init(wait_twice, 8, 8, 1, 1);

    (void)state;
    g->algo.nrounds = two_rounds;
    tt_exec_init(&g->x, &g->conf, g->peers, 4);
    assert_int_equal(g->x.round, 2);
    for (uint32_t step = 0; step < 4; step++) {
        g->x.head = step;
        assert_int_equal(tt_exec_round_at(&g->x), 1 + step / 2);
    }
    g->x.head = g->x.tail;
    assert_int_equal(tt_exec_round_at(&g->x), 2);
}

/* ---- reports ---- */

static void wait_blames_sender_without_data(void **state)
{
    struct rig *g = rig_init(pass_on, 8, 0, 1, 2);

    (void)state;
    assert_int_equal(tt_exec_at(&g->x)->opcode, TT_WAIT);
    assert_int_equal(tt_exec_waits_for(&g->x), 1);      /* for it to open */
    go(g);
    assert_int_equal(tt_exec_waits_for(&g->x), 1);      /* for it to send */
    arrived(g, 1, 1);
    go(g);
    assert_int_equal(tt_exec_waits_for(&g->x), 1);      /* there is space for one more */
    arrived(g, 1, 2);
    go(g);
    assert_int_equal(tt_exec_waits_for(&g->x), 2);      /* rank 1 may send no more; rank 2 has
                                                           not opened */
    assert_int_equal(tt_exec_at(&g->x)->opcode, TT_PUT);
    ready(g, 2, false, true);
    go(g);
    assert_int_equal(tt_exec_waits_for(&g->x), 1);
    arrived(g, 1, 4);
    go(g);
    assert_int_equal(tt_exec_waits_for(&g->x), 2);      /* it does not consume */
}

/* A chain whose third rank has stopped: the blame moves along the chain, not back and forth. */
static void stalled_chain_points_downstream(void **state)
{
    struct rig *g;

    (void)state;
    for (int mapped = 0; mapped < 2; mapped++) {
        g = rig_init(pass_on_and_keep, 8, 0, 1, 2);
        ready(g, 2, false, mapped);
        go(g);
        arrived(g, 1, 13);
        go(g);
        assert_int_equal(count_of(g, TT_ACT_REDUCE), 13);       /* all have arrived; two were sent, the
                                                             others have no slot */
        assert_int_equal(tt_exec_at(&g->x)->opcode, TT_PUT);
        assert_int_equal(tt_exec_waits_for(&g->x), 2);
    }
}

static void own_pending_work_blames_no_rank(void **state)
{
    struct rig *g = rig_init(receive_short, 8, 8, 1, 2);

    (void)state;
    go(g);
    assert_int_equal(tt_exec_waits_for(&g->x), 1);
    tt_exec_eager(&g->x, 0, 7, 4);
    tt_exec_eager(&g->x, 0, 9, 0);
    assert_int_equal(tt_exec_waits_for(&g->x), 1);
    arrived(g, 1, 5);
    assert_int_equal(tt_exec_waits_for(&g->x), UINT32_MAX);
    assert_int_equal(tt_exec_at(&g->x)->tag, 7);
    go(g);
    assert_true(tt_exec_finished(&g->x));
    assert_null(tt_exec_at(&g->x));
    assert_int_equal(tt_exec_waits_for(&g->x), UINT32_MAX);
}

static void bytes_make_segments(void **state)
{
    (void)state;
    assert_int_equal(tt_exec_segments(0, 8), 1);
    assert_int_equal(tt_exec_segments(1, 8), 1);
    assert_int_equal(tt_exec_segments(8, 8), 1);
    assert_int_equal(tt_exec_segments(9, 8), 2);
    assert_int_equal(tt_exec_segments(1ull << 40, 1 << 20), 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_wait_for_the_open),
        cmocka_unit_test(sender_stays_within_its_depth),
        cmocka_unit_test(outdated_credit_is_ignored),
        cmocka_unit_test(direct_data_needs_no_credit),
        cmocka_unit_test(direct_data_may_use_longer_puts),
        cmocka_unit_test(slot_data_may_use_longer_puts),
        cmocka_unit_test(overwrite_waits_for_pending_puts),
        cmocka_unit_test(completion_matters_only_to_waiting_steps),
        cmocka_unit_test(stream_segments_are_consumed_in_order),
        cmocka_unit_test(flows_open_before_puts_and_copies),
        cmocka_unit_test(long_own_copy_has_lowest_priority),
        cmocka_unit_test(forwarded_copy_does_not_wait),
        cmocka_unit_test(slots_are_read_in_freeing_order),
        cmocka_unit_test(pipe_is_readable_with_full_window),
        cmocka_unit_test(outdated_arrivals_are_ignored),
        cmocka_unit_test(credit_is_sent_per_quarter),
        cmocka_unit_test(refused_credit_is_offered_again),
        cmocka_unit_test(refused_action_is_offered_again),
        cmocka_unit_test(pipe_reduces_directly_into_mapped_slots),
        cmocka_unit_test(pipe_is_staged_without_mapped_slots),
        cmocka_unit_test(kept_result_also_fills_free_slot),
        cmocka_unit_test(fusable_work_waits_for_space),
        cmocka_unit_test(eager_and_direct_puts_never_fuse),
        cmocka_unit_test(staging_is_shared_by_all_pipes),
        cmocka_unit_test(eager_message_is_consumed_once),
        cmocka_unit_test(short_eager_programs_are_straight),
        cmocka_unit_test(straight_program_restarts_unchanged),
        cmocka_unit_test(waiting_straight_program_may_copy),
        cmocka_unit_test(waiting_round_is_reported),
        cmocka_unit_test(wait_blames_sender_without_data),
        cmocka_unit_test(stalled_chain_points_downstream),
        cmocka_unit_test(own_pending_work_blames_no_rank),
        cmocka_unit_test(bytes_make_segments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
