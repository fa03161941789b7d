/* Responses of neighbours in the control overlay (comm/neighbours.h), with untrusted times. Any
 * times must leave bounds that are numbers, and queries must stay bounded. Input: per step a byte
 * of neighbour, a byte of how much time passes, and the times of the response. */
#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/status.h"
#include "comm/neighbours.h"

#define N 3u
#define STEPS_MAX 200u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const struct tt_neighbours *s, uint64_t now_ns)
{
    const struct tt_clock_offset clock = tt_neighbours_clock(s, now_ns);

    if (!clock.known)
        return;
    tt_assert(clock.error_ns < 2 * TT_CLOCK_MOST_NS);
    tt_assert(clock.offset_ns < 2 * (int64_t)TT_CLOCK_MOST_NS);
    tt_assert(clock.offset_ns > -2 * (int64_t)TT_CLOCK_MOST_NS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const uint32_t ranks[N] = { 2, 4, 1 };
    struct tt_neighbours *s = tt_neighbours_create(3, ranks, N);
    uint64_t now_ns = 1000000000, queries = 0;
    struct tt_reader r;

    tt_assert(s);
    tt_reader_init(&r, data, bytes);
    for (uint32_t i = 0; i < N; i++) {
        s->list[i].is_connected = true;
        s->list[i].is_here = i == 0;
    }
    tt_neighbours_begin_roll(s, now_ns);
    for (uint32_t step = 0; r.at < r.end && step < STEPS_MAX; step++) {
        struct tt_clock_exchange x;
        struct tt_clock_offset told;
        const uint32_t rank = tt_read_u8(&r);

        for (uint32_t i = 0; i < N; i++)
            queries += tt_neighbours_is_due(s, i, now_ns);
        now_ns += (uint64_t)tt_read_u8(&r) << 20;
        x.sent_ns = now_ns - tt_read_u8(&r);
        x.arrived_ns = tt_read_u64(&r);
        x.replied_ns = tt_read_u64(&r);
        x.received_ns = now_ns;
        told.known = tt_read_u8(&r) & 1;
        told.offset_ns = (int64_t)tt_read_u64(&r);
        told.error_ns = tt_read_u64(&r);
        if (!r.bad)
            tt_neighbours_answer(s, rank, &x, &told);
        check(s, now_ns);
        for (uint32_t i = 0; i < N; i++)
            tt_neighbours_life(s, i, now_ns);
    }
    tt_assert(queries <= N * (TT_NEIGHBOURS_SAMPLES + STEPS_MAX));
    free(s);
    return 0;
}
