/* Forwarding while receiving: recursive doubling forwards arriving data segment by segment, in any
 * order, without explicit steps for it. A put waits for bytes, not for the step that receives them,
 * also if they are strided. */
#include <string.h>

#include "algo/algos.h"
#include "engine/exec.h"
#include "support/unit.h"

#define RANKS 4u
#define SEGMENT 64u
#define BLOCK_SEGMENTS 8u

/* Executes all possible actions at once. Returns the number of bytes sent to `peer`. */
static uint64_t drain(struct tt_exec *x, uint32_t peer)
{
    struct tt_action a;
    uint64_t bytes = 0;

    while (tt_exec_next(x, &a)) {
        if (a.kind == TT_ACT_OPEN) {
            tt_exec_opened(x, a.peer, false);
            continue;
        }
        if (a.kind == TT_ACT_PUT && x->peer[a.peer].rank == peer)
            bytes += a.bytes;
        tt_exec_taken(x, &a, true);
    }
    return bytes;
}

/* Checks `rank`: its second round sends the block that its first round gets from `from` first, to
 * `to`. */
static void check(const char *name, uint32_t rank, uint32_t from, uint32_t to)
{
    const struct tt_coll c = {
        .kind = TT_ALLGATHER,
        .rank = rank,
        .nranks = RANKS,
        .elem_bytes = 1,
        .bytes = BLOCK_SEGMENTS * SEGMENT,
    };
    const struct tt_exec_conf conf = {
        .algo = tt_algo_find(&c, name),
        .coll = &c,
        .segment_bytes = SEGMENT,
        .streams = 1,
        .depth = 16,
    };
    struct tt_exec_peer peers[8];
    struct tt_exec x;
    uint64_t sent;

    assert_non_null(conf.algo);
    tt_exec_init(&x, &conf, peers, 8);
    assert_int_equal(drain(&x, to), 0);
    tt_exec_ready(&x, (uint16_t)tt_exec_peer_of(&x, from), false, false);
    tt_exec_ready(&x, (uint16_t)tt_exec_peer_of(&x, to), false, false);
    sent = drain(&x, to);
    if (sent != 0)
        fail_msg("%s: %u bytes are sent on that have not come", name, (unsigned)sent);
    for (uint32_t n = 1; n <= BLOCK_SEGMENTS; n++) {
        const uint64_t expected = (n < BLOCK_SEGMENTS ? n : 2 * BLOCK_SEGMENTS) * SEGMENT;

        assert_true(tt_exec_arrived(&x, (uint16_t)tt_exec_peer_of(&x, from), 0, n));
        sent += drain(&x, to);
        if (sent != expected)
            fail_msg("%s: %u segments have come, and %u bytes were sent on, not %u", name, n,
                     (unsigned)sent, (unsigned)expected);
    }
    assert_false(tt_exec_finished(&x));     /* the second round's data has not arrived */
}

static void segments_are_forwarded_on_arrival(void **state)
{
    (void)state;
    check("doubling", 1, 0, 3);
    check("hybrid", 1, 0, 3);
    check("far", 2, 0, 3);
    check("pat", 2, 0, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_forwarded_on_arrival),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
