/* A bounded algorithm never has more than chunks times chunk_bytes in flight to a peer, wherever
 * data lands. The test counts the actions of the executor, and does not use its own counters. */
#include <string.h>

#include "algo/algos.h"
#include "engine/exec.h"
#include "support/unit.h"

#define RANKS 4u
#define ELEM 4u
#define VECTOR (1024u * ELEM)

struct side {
    struct tt_coll coll;
    struct tt_exec x;
    struct tt_exec_peer peers[2];
    bool direct;
    uint64_t sent;              /* bytes sent to the right neighbour, including empty puts */
    uint32_t segments;          /* in this number of segments, over all streams */
    uint32_t credited[TT_EXEC_STREAMS_MAX];
};

static void begin(struct side *s, const struct tt_coll *c, uint64_t segment, uint8_t streams,
                  uint8_t depth)
{
    const struct tt_exec_conf conf = {
        .algo = tt_algo_named(TT_ALLREDUCE, "ftar"),
        .coll = &s->coll,
        .segment_bytes = segment,
        .eager_bytes = 0,
        .streams = streams,
        .depth = depth,
    };

    s->coll = *c;
    s->sent = s->segments = 0;
    memset(s->credited, 0, sizeof s->credited);
    tt_exec_init(&s->x, &conf, s->peers, 2);
}

static uint16_t peer(const struct side *s, uint32_t rank)
{
    const int found = tt_exec_peer_of(&s->x, rank % RANKS);

    assert_true(found >= 0);
    return (uint16_t)found;
}

/* Executes all possible actions at once. */
static void drain(struct side *s)
{
    struct tt_action a;

    while (tt_exec_next(&s->x, &a)) {
        if (a.kind == TT_ACT_OPEN) {
            tt_exec_opened(&s->x, a.peer, s->direct);
            continue;
        }
        if (a.kind == TT_ACT_PUT) {
            s->sent += a.bytes;
            s->segments++;
        }
        tt_exec_taken(&s->x, &a, true);
    }
}

/* All data that the left neighbour may have sent has arrived, and slots are never missing. */
static void let_arrive(struct side *s)
{
    const uint16_t left = peer(s, s->coll.rank + RANKS - 1);

    for (;;) {
        const uint64_t before = s->sent;
        bool news = false;

        for (uint8_t k = 0; k < s->x.conf.streams; k++) {
            const struct tt_exec_stream *st = &s->peers[left].stream[k];

            news |=
                st->arrived != st->in_loaded && tt_exec_arrived(&s->x, left, k, st->arrived + 1);
        }
        drain(s);
        if (!news && s->sent == before)
            return;
    }
}

static void check(const struct tt_coll *c, uint64_t segment, uint8_t streams, uint8_t depth,
                  bool direct, bool mapped)
{
    const uint64_t most = tt_coll_chunk_bytes(c) * tt_coll_chunks(c);
    struct side s = { .direct = direct };
    uint64_t acknowledged = 0;

    begin(&s, c, segment, streams, depth);
    drain(&s);
    tt_exec_ready(&s.x, peer(&s, c->rank + 1), direct, mapped);
    for (;;) {
        const uint16_t right = peer(&s, c->rank + 1);
        uint32_t credits = 0;

        let_arrive(&s);
        if (s.sent - acknowledged > most || s.x.most_in_flight > most)
            fail_msg("chunks of %llu, %u of them, segments of %llu: %llu bytes are on their way, "
                     "it says %llu",
                     (unsigned long long)c->chunk_bytes, c->chunks, (unsigned long long)segment,
                     (unsigned long long)(s.sent - acknowledged),
                     (unsigned long long)s.x.most_in_flight);
        if (tt_exec_finished(&s.x))
            break;
        acknowledged = s.sent;      /* the peer has consumed all of it */
        for (uint8_t k = 0; k < s.x.conf.streams; k++)
            credits += tt_exec_credit(&s.x, right, k, s.peers[right].stream[k].issued);
        if (!credits)
            fail_msg("it is stuck after %llu bytes", (unsigned long long)s.sent);
    }
    assert_true(s.sent > VECTOR);       /* 2 (n - 1) / n of it */
    assert_true(s.x.most_in_flight > 0);
}

static void bytes_in_flight_are_bounded(void **state)
{
    static const uint64_t chunk_bytes[] = { 16, 64, 512, 1000, 4096 };
    uint32_t ncases = 0;

    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        for (uint32_t chunks = 1; chunks <= 4; chunks++)
            for (uint64_t segment = 8; segment <= 1024; segment *= 8)
                for (uint8_t streams = 1; streams <= 4; streams++)
                    for (uint32_t how = 0; how < 6; how++, ncases++) {
                        const struct tt_coll c = {
                            .kind = TT_ALLREDUCE,
                            .rank = how % RANKS,
                            .nranks = RANKS,
                            .elem_bytes = ELEM,
                            .bytes = VECTOR,
                            .chunk_bytes = chunk_bytes[i],
                            .chunks = chunks,
                            .piece_bytes = how < 3 ? 0 : 128,
                        };

                        check(&c, segment, streams, how % 2 ? 4 : 16, how % 3 == 1, how % 3 == 2);
                    }
    assert_int_equal(ncases, 5 * 4 * 3 * 4 * 6);
}

/* A plain ring sends everything that lands in place. */
static void unbounded_algorithm_exceeds_the_bound(void **state)
{
    const struct tt_coll c = {
        .kind = TT_ALLGATHER,
        .rank = 0,
        .nranks = RANKS,
        .elem_bytes = ELEM,
        .bytes = VECTOR,
        .chunk_bytes = 64,
        .chunks = 1,
    };
    const struct tt_exec_conf conf = {
        .algo = tt_algo_named(TT_ALLGATHER, "ring"),
        .coll = &c,
        .segment_bytes = 64,
        .streams = 1,
        .depth = 4,
    };
    struct side s = { .coll = c, .direct = true };

    (void)state;
    tt_exec_init(&s.x, &conf, s.peers, 2);
    drain(&s);
    tt_exec_ready(&s.x, peer(&s, 1), true, false);
    drain(&s);
    assert_int_equal(s.sent, VECTOR);
    assert_int_equal(s.x.most_in_flight, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_in_flight_are_bounded),
        cmocka_unit_test(unbounded_algorithm_exceeds_the_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
