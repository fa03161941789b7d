/* Segment sizes: equal on all ranks, within the bounce buffers of each rank, and as defined by the
 * rule. */
#include "algo/segments.h"
#include "rounds.h"
#include "support/cases.h"
#include "support/unit.h"
#include "topo/layout.h"

#define NRANKS 24
#define ROUNDS_MAX 64              /* longer programs are not checked */
#define LANDING_MAX (8ull << 20)
#define ELEM_BYTES 4
#define KIB 1024ull
#define MIB (1024 * KIB)

static const struct tt_segment_limits between_hosts = { .segment_bytes = 512 * KIB,
                                                        .eager_bytes = 4096 };
static const struct tt_segment_limits in_memory = { .segment_bytes = 64 * KIB,
                                                    .eager_bytes = 4096,
                                                    .all_local = true };

/* The messages of a rank, found by running its whole program. */
struct seen {
    uint64_t longest;
    uint32_t nsenders;      /* senders of messages that are not eager */
};

static struct seen see(const struct tt_algo *algo, const struct tt_coll *c, uint64_t eager_bytes)
{
    bool sends[CASE_RANKS_MAX] = { false };
    struct seen seen = { 0 };

    for (uint64_t k = 0; k < algo->nrounds(c); k++) {
        struct round_steps round;

        round_emit(&round, algo, c, k);
        for (uint32_t i = 0; i < round.s.n; i++) {
            const struct tt_step *t = &round.step[i];

            if (t->opcode != TT_PUT && t->opcode != TT_WAIT)
                continue;
            seen.longest = t->bytes > seen.longest ? t->bytes : seen.longest;
            if (t->opcode == TT_WAIT && t->bytes > eager_bytes && !sends[t->peer]) {
                sends[t->peer] = true;
                seen.nsenders++;
            }
        }
    }
    return seen;
}

static uint64_t landing_of(const struct tt_segments *s, uint32_t nsenders)
{
    return nsenders * s->segment_bytes * s->streams * s->depth;
}

/* ---- of every algorithm ---- */

static bool is_shortest(const struct tt_segments *s) { return s->segment_bytes == TT_SEGMENT_MIN; }

/* Returns the maximum number of senders of a rank, and the longest message of all. */
static struct seen see_all(const struct case_spec *spec, const struct case_calls *calls)
{
    struct seen all = { 0 };

    for (uint32_t r = 0; r < spec->nranks; r++) {
        const struct seen one = see(spec->algo, &calls->coll[r], between_hosts.eager_bytes);

        all.longest = one.longest > all.longest ? one.longest : all.longest;
        all.nsenders = one.nsenders > all.nsenders ? one.nsenders : all.nsenders;
    }
    return all;
}

/* Some ranks are not checked: none has more than twice the memory. */
static void check_landing(const struct case_spec *spec, const struct tt_segments *s,
                          const struct seen *seen)
{
    if (!is_shortest(s) && landing_of(s, seen->nsenders) > 2 * LANDING_MAX)
        case_fail(spec, "segments of %llu bytes, %u streams of %u, from %u senders",
                  (unsigned long long)s->segment_bytes, s->streams, s->depth, seen->nsenders);
}

/* The longest message has at least two segments (eight if it may be forwarded within a host), and
 * no more unless another limit applies. */
static void check_rule(const struct case_spec *spec, const struct tt_coll *c,
                       const struct tt_segments *s, const struct seen *seen)
{
    const bool passed_on = (c->kind == TT_ALLGATHER || c->kind == TT_REDUCE_SCATTER) && c->layout &&
                           tt_layout_widest(c->layout) > 1 &&
                           tt_layout_groups(c->layout, TT_NEAR_HOST) > 1;
    const uint64_t bound =
        tt_coll_reduces(spec->algo->kind) ? 256 * KIB : between_hosts.segment_bytes;

    if (s->segment_bytes > bound || (2 * s->segment_bytes > seen->longest && !is_shortest(s)))
        case_fail(spec, "segments of %llu bytes, and at most %llu",
                  (unsigned long long)s->segment_bytes, (unsigned long long)seen->longest);
    if ((passed_on ? 16 : 4) * s->segment_bytes <= seen->longest && s->segment_bytes < bound &&
        2 * landing_of(s, seen->nsenders) <= LANDING_MAX)
        case_fail(spec, "segments of %llu bytes, where %llu come from one of %u senders",
                  (unsigned long long)s->segment_bytes, (unsigned long long)seen->longest,
                  seen->nsenders);
}

static void check_all_ranks(const struct case_spec *spec, const struct case_calls *calls)
{
    static const struct tt_segments asked = { .segment_bytes = 16 * MIB,
                                              .streams = 4,
                                              .depth = 16 };
    struct tt_segments chosen[3], first[3];
    struct seen seen;

    if (case_is_v(spec->algo->kind) || spec->algo->kind == TT_SEND || spec->algo->kind == TT_RECV ||
        !unit_draw())
        return;
    for (uint32_t r = 0; r < spec->nranks; r++) {
        chosen[0] = tt_segments_choose(spec->algo, &calls->coll[r], &between_hosts);
        chosen[1] = tt_segments_choose(spec->algo, &calls->coll[r], &in_memory);
        chosen[2] = tt_segments_fit(spec->algo, &calls->coll[r], &between_hosts, asked);
        for (int i = 0; i < 3; i++) {
            if (r == 0)
                first[i] = chosen[i];
            if (chosen[i].segment_bytes != first[i].segment_bytes ||
                chosen[i].streams != first[i].streams || chosen[i].depth != first[i].depth)
                case_fail(spec, "ranks 0 and %u cut differently", r);
        }
    }
    seen = see_all(spec, calls);
    for (int i = 0; i < 3; i++)
        check_landing(spec, &first[i], &seen);
    if (spec->algo->nrounds(&calls->coll[0]) <= ROUNDS_MAX)
        check_rule(spec, &calls->coll[0], &first[0], &seen);
}

static void ranks_agree_and_fit_their_buffers(void **state)
{
    static const uint64_t counts[] = { 1, 5000, 300000, 20 << 20 };

    (void)state;
    assert_true(case_for_some(2, NRANKS, counts, sizeof counts / sizeof *counts, 1,
                              check_all_ranks) > 1000);
}

/* ---- of some algorithms ---- */

static void segment_is_a_part_of_message(void **state)
{
    static const struct {
        const char *algo;
        uint32_t kind, nranks;
        bool local;
        uint64_t bytes, segment_bytes;
        uint8_t streams;
    } cases[] = {
        { "ring", TT_ALLGATHER, 8, false, 128 * KIB, 64 * KIB, 2 },         /* half a block, */
        /* or of the four blocks that the last round sends; */
        { "doubling", TT_ALLGATHER, 8, false, 128 * KIB, 256 * KIB, 1 },
        /* at most the transport's segment size; */
        { "doubling", TT_ALLGATHER, 8, false, MIB, 512 * KIB, 1 },
        /* reduced data stays in the cache */
        { "ring", TT_ALLREDUCE, 8, false, 64 * MIB, 256 * KIB, 2 },
        /* 8 senders, 4 slots each: 8 MiB; */
        { "flat", TT_REDUCE, 9, false, 64 * MIB, 256 * KIB, 1 },
        { "flat", TT_REDUCE, 17, false, 64 * MIB, 128 * KIB, 1 },           /* 16 are too many */
        { "flat", TT_BROADCAST, 17, false, 64 * MIB, 512 * KIB, 1 },        /* one sender each */
        /* in memory a quarter of a block */
        { "ring", TT_ALLGATHER, 8, true, 128 * KIB, 32 * KIB, 2 },
        { "doubling", TT_ALLGATHER, 8, true, 128 * KIB, 32 * KIB, 1 },
        { "ring", TT_ALLGATHER, 8, true, 128, TT_SEGMENT_MIN, 2 },
        /* of very long blocks a 64th, */
        { "ring", TT_ALLREDUCE, 2, true, 16 * MIB - 8, 64 * KIB, 2 },
        { "ring", TT_ALLREDUCE, 2, true, 16 * MIB, 128 * KIB, 2 },
        /* but at most eight times the transport's segment size; */
        { "ring", TT_ALLREDUCE, 2, true, 1024 * MIB, 512 * KIB, 2 },
        /* more parts with more ranks, */
        { "ring", TT_ALLREDUCE, 8, true, 256 * MIB, 128 * KIB, 2 },
        /* limited by the bounce buffers */
        { "direct", TT_ALLGATHER, 5, true, 128 * MIB, 512 * KIB, 1 },
        { "direct", TT_ALLGATHER, 9, true, 256 * MIB, 256 * KIB, 1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_coll c = { .kind = (enum tt_coll_kind)cases[i].kind,
                                   .nranks = cases[i].nranks,
                                   .elem_bytes = ELEM_BYTES,
                                   .bytes = cases[i].bytes };
        const struct tt_segments s = tt_segments_choose(
            tt_algo_find(&c, cases[i].algo), &c, cases[i].local ? &in_memory : &between_hosts);

        if (s.segment_bytes != cases[i].segment_bytes || s.streams != cases[i].streams ||
            s.depth != 4)
            fail_msg("case %zu: %llu bytes, %u streams of %u", i,
                     (unsigned long long)s.segment_bytes, s.streams, s.depth);
    }
}

static void long_segments_leave_cache_space(void **state)
{
    static const struct {
        const char *algo;
        uint32_t kind, nranks;
        uint64_t cache_bytes;
        uint32_t cache_cpus;
        uint64_t segment_bytes;
    } cases[] = {
        { "ring", TT_ALLREDUCE, 2, 0, 0, 512 * KIB },        /* unknown cache */
        { "ring", TT_ALLREDUCE, 2, 32 * MIB, 2, 512 * KIB }, /* two ranks, 8 slots each: 8
                                                                   MiB, */
        { "ring", TT_ALLREDUCE, 2, 32 * MIB - 1, 2, 256 * KIB },
        { "ring", TT_ALLREDUCE, 2, 8 * MIB, 2, 128 * KIB }, /* 2 MiB, */
        { "ring", TT_ALLREDUCE, 2, 8 * MIB, 1, 256 * KIB }, /* with a separate cache for each
                                                               rank, 4 MiB, */
        { "ring", TT_ALLREDUCE, 2, MIB, 2, 64 * KIB }, /* but never shorter than the transport's
                                                          segments */
        { "ring", TT_ALLREDUCE, 2, 8 * MIB, 64, 128 * KIB }, /* two of 64 processors use it */
        { "direct", TT_ALLGATHER, 5, 8 * MIB, 2, 64 * KIB }, /* 4 senders */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_coll c = { .kind = (enum tt_coll_kind)cases[i].kind,
                                   .nranks = cases[i].nranks,
                                   .elem_bytes = ELEM_BYTES,
                                   .bytes = 1024 * MIB };
        struct tt_segment_limits limits = in_memory;
        struct tt_segments s;

        limits.cache_bytes = cases[i].cache_bytes;
        limits.cache_cpus = cases[i].cache_cpus;
        s = tt_segments_choose(tt_algo_find(&c, cases[i].algo), &c, &limits);
        if (s.segment_bytes != cases[i].segment_bytes)
            fail_msg("case %zu: %llu bytes", i, (unsigned long long)s.segment_bytes);
    }
}

static void forwarded_messages_have_shorter_segments(void **state)
{
    static const struct {
        uint32_t kind, hosts;
        uint64_t bytes, segment_bytes;
    } cases[] = {
        { TT_ALLGATHER, 4, 256 * KIB, 32 * KIB },       /* an eighth */
        { TT_ALLGATHER, 4, 128 * KIB, 32 * KIB },       /* not below 32 KiB, */
        { TT_ALLGATHER, 4, 32 * KIB, 16 * KIB },        /* except if it would be shorter anyway */
        { TT_ALLGATHER, 16, 256 * KIB, 128 * KIB },     /* one rank per host: not forwarded */
        { TT_ALLGATHER, 1, 256 * KIB, 128 * KIB },
        { TT_REDUCE_SCATTER, 4, 256 * KIB, 64 * KIB },
        { TT_ALLREDUCE, 4, 16 * 256 * KIB, 128 * KIB },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_layout layout;
        struct tt_coll c = { .kind = (enum tt_coll_kind)cases[i].kind,
                             .nranks = 16,
                             .elem_bytes = ELEM_BYTES,
                             .bytes = cases[i].bytes,
                             .layout = &layout };
        struct tt_segments s;

        tt_layout_regular(&layout, 16, 16 / cases[i].hosts, 1, 1, TT_NODE_MESH);
        s = tt_segments_choose(tt_algo_find(&c, "ring"), &c, &between_hosts);
        if (s.segment_bytes != cases[i].segment_bytes)
            fail_msg("case %zu: %llu bytes", i, (unsigned long long)s.segment_bytes);
    }
}

/* 4 ranks on each of 8 hosts, 4 rails of 100 Mbit/s or 200 Gbit/s, 2 us of CPU time per message. A
 * rank of parallel rings receives and forwards a segment four times: 8 us, or 200 KB on the fast
 * rail. A ring: 2 us, or 50 KB. */
static void segment_covers_its_software_cost(void **state)
{
    static const struct {
        const char *algo;
        uint32_t kind;
        double rail_byte_ns;
        uint64_t bytes, segment_bytes;
    } cases[] = {
        /* unknown: an eighth, */
        { "parallel_rings", TT_ALLGATHER, 0, 512 * KIB, 64 * KIB },
        { "parallel_rings", TT_ALLGATHER, 80, 512 * KIB, 64 * KIB },
        /* or 32 KiB, as with slow links */
        { "parallel_rings", TT_ALLGATHER, 80, 128 * KIB, 32 * KIB },
        { "parallel_rings", TT_ALLGATHER, 0.04, 512 * KIB, 256 * KIB },     /* balanced, */
        /* but not longer than the block */
        { "parallel_rings", TT_ALLGATHER, 0.04, 128 * KIB, 128 * KIB },
        { "parallel_rings", TT_ALLGATHER, 0.04, 100 * KIB, 128 * KIB },
        /* or than the transport's segments */
        { "parallel_rings", TT_ALLGATHER, 0.0001, 4 * MIB, 512 * KIB },
        { "ring", TT_ALLGATHER, 0.04, 512 * KIB, 64 * KIB },
        { "ring", TT_ALLGATHER, 0.04, 128 * KIB, 64 * KIB },
        /* each is acknowledged by credit */
        { "ring", TT_REDUCE_SCATTER, 0.04, 512 * KIB, 128 * KIB },
        { "parallel_rings", TT_REDUCE_SCATTER, 0.04, 512 * KIB, 256 * KIB },
        { "parallel_rings", TT_REDUCE_SCATTER, 80, 128 * KIB, 64 * KIB },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_segment_limits limits = { .segment_bytes = 512 * KIB,
                                                  .eager_bytes = 4096,
                                                  .far_message_ns = 2000,
                                                  .near_message_ns = 2000,
                                                  .rail_byte_ns = cases[i].rail_byte_ns };
        struct tt_layout layout;
        const struct tt_coll c = { .kind = (enum tt_coll_kind)cases[i].kind,
                                   .nranks = 32,
                                   .elem_bytes = ELEM_BYTES,
                                   .bytes = cases[i].bytes,
                                   .layout = &layout };
        struct tt_segments s;

        tt_layout_regular(&layout, 32, 4, 1, 4, TT_NODE_MESH);
        s = tt_segments_choose(tt_algo_find(&c, cases[i].algo), &c, &limits);
        if (s.segment_bytes != cases[i].segment_bytes)
            fail_msg("case %zu: %llu bytes", i, (unsigned long long)s.segment_bytes);
    }
}

/* The same hosts with fast rails and 0.5 us of CPU time. A flow of a ring has eight slots: with 10
 * us one-way latency they must hold 525 KB if received data is reduced. Data that lands in place
 * needs no slots. */
static void slots_cover_a_round_trip(void **state)
{
    static const struct {
        enum tt_coll_kind kind;
        double latency_ns;
        uint64_t segment_bytes;
    } cases[] = {
        { TT_REDUCE_SCATTER, 0, 64 * KIB },
        { TT_REDUCE_SCATTER, 10000, 128 * KIB },
        { TT_REDUCE_SCATTER, 1e6, 128 * KIB },      /* limited by the maximum for reduced data */
        { TT_ALLGATHER, 0, 64 * KIB },
        { TT_ALLGATHER, 10000, 64 * KIB },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_segment_limits limits = { .segment_bytes = 512 * KIB,
                                                  .eager_bytes = 4096,
                                                  .far_message_ns = 500,
                                                  .near_message_ns = 500,
                                                  .far_latency_ns = cases[i].latency_ns,
                                                  .rail_byte_ns = 0.04 };
        struct tt_layout layout;
        const struct tt_coll c = { .kind = cases[i].kind,
                                   .nranks = 32,
                                   .elem_bytes = ELEM_BYTES,
                                   .bytes = 512 * KIB,
                                   .layout = &layout };
        struct tt_segments s;

        tt_layout_regular(&layout, 32, 4, 1, 4, TT_NODE_MESH);
        s = tt_segments_choose(tt_algo_find(&c, "ring"), &c, &limits);
        if (s.segment_bytes != cases[i].segment_bytes)
            fail_msg("case %zu: %llu bytes", i, (unsigned long long)s.segment_bytes);
    }
}

/* A table may request sizes for which only a few senders have space. */
static void requested_segments_fit_bounce_buffers(void **state)
{
    static const struct tt_segments asked = { .segment_bytes = 16 * MIB,
                                              .streams = 4,
                                              .depth = 16 };
    static const struct {
        const char *algo;
        uint32_t kind;
        uint64_t segment_bytes;
    } cases[] = {
        { "flat", TT_BROADCAST, 128 * KIB },
        { "chain", TT_BROADCAST, 128 * KIB },
        { "flat", TT_SCATTER, 128 * KIB },
        { "flat", TT_GATHER, 16 * KIB },
        { "ring", TT_ALLGATHER, 128 * KIB },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_coll c = { .kind = (enum tt_coll_kind)cases[i].kind,
                                   .nranks = 9,
                                   .elem_bytes = ELEM_BYTES,
                                   .bytes = MIB };
        const struct tt_segments s =
            tt_segments_fit(tt_algo_find(&c, cases[i].algo), &c, &between_hosts, asked);

        if (s.segment_bytes != cases[i].segment_bytes || s.streams != asked.streams ||
            s.depth != asked.depth)
            fail_msg("%s: %llu bytes, %u streams of %u", cases[i].algo,
                     (unsigned long long)s.segment_bytes, s.streams, s.depth);
    }
}

/* The ring with bounded bytes in flight: a message is a piece, its segments are the units of
 * reduction, and each has a separate size. */
static void transfer_and_reduction_are_tuned_apart(void **state)
{
    static const struct {
        uint64_t chunk_bytes, piece_bytes, reduce_bytes, longest, segment_bytes;
    } cases[] = {
        { 0, 0, 0, MIB, 256 * KIB },                        /* the defaults; */
        { 0, 256 * KIB, 0, 256 * KIB, 256 * KIB },
        { 0, 256 * KIB, 64 * KIB, 256 * KIB, 64 * KIB },
        { 0, 4 * MIB, 64 * KIB, 4 * MIB, 64 * KIB },
        { 0, 4 * MIB, 8 * KIB, 4 * MIB, 8 * KIB },
        { 0, 64 * KIB, 512 * KIB, 64 * KIB, 512 * KIB },    /* a segment is at most a piece */
        { MIB, 4 * MIB, 256 * KIB, MIB, 256 * KIB },        /* no message is longer than a chunk, */
        { 256 * KIB, 0, MIB, 256 * KIB, 256 * KIB },        /* and no segment */
        { 0, 0, 4 * MIB, MIB, 4 * MIB },                    /* received data is limited to its
                                                               memory by fewer slots */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_coll c = { .kind = TT_ALLREDUCE,
                                   .nranks = 4,
                                   .elem_bytes = ELEM_BYTES,
                                   .bytes = 64 * MIB,
                                   .chunk_bytes = cases[i].chunk_bytes,
                                   .piece_bytes = cases[i].piece_bytes,
                                   .reduce_bytes = cases[i].reduce_bytes };
        const struct tt_algo *ftar = tt_algo_find(&c, "ftar");
        const struct tt_segments chosen = tt_segments_choose(ftar, &c, &between_hosts),
                                 fitted = tt_segments_fit(ftar, &c, &between_hosts, chosen);
        const struct seen seen = see(ftar, &c, between_hosts.eager_bytes);

        if (seen.longest != cases[i].longest || landing_of(&chosen, 2) > LANDING_MAX ||
            chosen.segment_bytes != cases[i].segment_bytes ||
            fitted.segment_bytes != cases[i].segment_bytes)
            fail_msg("case %zu: messages of %llu bytes, segments of %llu and %llu", i,
                     (unsigned long long)seen.longest, (unsigned long long)chosen.segment_bytes,
                     (unsigned long long)fitted.segment_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segment_is_a_part_of_message),
        cmocka_unit_test(long_segments_leave_cache_space),
        cmocka_unit_test(forwarded_messages_have_shorter_segments),
        cmocka_unit_test(segment_covers_its_software_cost),
        cmocka_unit_test(slots_cover_a_round_trip),
        cmocka_unit_test(requested_segments_fit_bounce_buffers),
        cmocka_unit_test(transfer_and_reduction_are_tuned_apart),
        cmocka_unit_test(ranks_agree_and_fit_their_buffers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
