/* The ring of events: its contents, and the consistency of events of many threads. */
#include "support/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "trace/trace.h"

#define THREADS 4u
#define EVENTS 20000u       /* per thread */

/* An event whose fields determine each other. */
static struct tt_trace_event event_of(uint32_t thread, uint32_t i)
{
    return (struct tt_trace_event){ .at_ns = i,
                                    .wire = "wire",
                                    .bytes = i * 3ull,
                                    .peer = thread,
                                    .number = i,
                                    .part = ~i,
                                    .queue = i ^ thread,
                                    .kind = TT_TRACE_POSTED,
                                    .lane = (uint8_t)thread,
                                    .rail = (uint8_t)i };
}

static bool is_whole(const struct tt_trace_event *e)
{
    const struct tt_trace_event wanted = event_of(e->peer, e->number);

    return e->peer < THREADS && e->number < EVENTS && memcmp(e, &wanted, sizeof wanted) == 0;
}

static void newest_events_are_kept_in_order(void **state)
{
    struct tt_trace_ring r;
    struct tt_trace_event out[8];
    uint64_t lost = 99;

    (void)state;
    assert_int_equal(tt_trace_ring_init(&r, 8), TUTTI_OK);
    assert_int_equal(tt_trace_ring_read(&r, out, &lost), 0);
    assert_int_equal(lost, 0);
    for (uint32_t i = 0; i < 20; i++) {
        const struct tt_trace_event e = event_of(1, i);
        const uint32_t kept = i < 8 ? i + 1 : 8;

        tt_trace_ring_add(&r, &e);
        assert_int_equal(tt_trace_ring_read(&r, out, &lost), kept);
        assert_int_equal(lost, i + 1 - kept);
        for (uint32_t k = 0; k < kept; k++) {
            assert_true(is_whole(&out[k]));
            assert_int_equal(out[k].number, i + 1 - kept + k);
        }
    }
    tt_trace_ring_fini(&r);
}

struct adder {
    struct tt_trace_ring *ring;
    uint32_t thread;
};

static void *add_all(void *arg)
{
    const struct adder *a = arg;

    for (uint32_t i = 0; i < EVENTS; i++) {
        const struct tt_trace_event e = event_of(a->thread, i);

        tt_trace_ring_add(a->ring, &e);
    }
    return NULL;
}

/* A reader runs while threads add, in a ring so short that they overtake it constantly. */
static void threads_keep_whole_ordered_events(void **state)
{
    struct tt_trace_ring r;
    struct tt_trace_event out[64];
    struct adder adders[THREADS];
    pthread_t threads[THREADS];
    uint32_t next[THREADS], n;
    uint64_t lost, seen = 0;

    (void)state;
    assert_int_equal(tt_trace_ring_init(&r, 64), TUTTI_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        adders[i] = (struct adder){ .ring = &r, .thread = i };
        assert_int_equal(pthread_create(&threads[i], NULL, add_all, &adders[i]), 0);
    }
    do {
        n = tt_trace_ring_read(&r, out, &lost);
        seen = n + lost;
        memset(next, 0, sizeof next);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(is_whole(&out[i]));
            assert_true(out[i].number >= next[out[i].peer]);
            next[out[i].peer] = out[i].number + 1;
        }
    } while (seen < THREADS * EVENTS);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    n = tt_trace_ring_read(&r, out, &lost);
    assert_true(n > 0 && n + lost == THREADS * EVENTS);
    tt_trace_ring_fini(&r);
}

static void events_are_recorded_on_demand(void **state)
{
    struct tt_trace_event out[16];
    uint64_t lost, before_ns;
    struct tt_trace_event e = event_of(2, 7);

    (void)state;
    assert_false(tt_trace_is_enabled());
    assert_int_equal(tt_trace_start(16), TUTTI_OK);
    assert_true(tt_trace_is_enabled());
    before_ns = tt_now_ns();
    e.at_ns = 0;
    tt_trace_add(&e);
    tt_trace_stop();
    assert_false(tt_trace_is_enabled());
    assert_int_equal(tt_trace_read(out, &lost), 1);
    assert_int_equal(lost, 0);
    assert_true(out[0].at_ns >= before_ns && out[0].at_ns <= tt_now_ns());
    e.at_ns = out[0].at_ns;
    assert_memory_equal(&out[0], &e, sizeof e);
    assert_int_equal(tt_trace_start(16), TUTTI_ERR_INVALID);
    assert_false(tt_trace_is_enabled());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_events_are_kept_in_order),
        cmocka_unit_test(threads_keep_whole_ordered_events),
        cmocka_unit_test(events_are_recorded_on_demand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
