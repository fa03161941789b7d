/* The ring of operations (trace/oplog.h). */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/unit.h"
#include "trace/oplog.h"
#include "tutti/elastic.h"

#define THREADS 4
#define RECORDS_PER_THREAD 40000u

/* All fields of a record follow from its number, so that a mixture of two records is detected. */
static struct tt_oplog_call call_of(uint32_t thread, uint32_t i)
{
    return (struct tt_oplog_call){
        .seq = i,
        .count = (uint64_t)i * 3 + thread,
        .peer = i ^ 0x5555,
        .tag = i + thread,
        .comm = (uint16_t)(thread + 1),
        .kind = (uint8_t)(i % 16),
        .type = (uint8_t)(i % 14),
        .redop = (uint8_t)(i % 9),
        .algo = (uint8_t)(i % 200),
        .flags = TT_OPLOG_STARTED,
    };
}

static bool is_whole_record(const struct tt_oplog_record *r)
{
    const struct tt_oplog_call c = call_of(r->call.comm - 1u, (uint32_t)r->call.seq);

    return c.count == r->call.count && c.peer == r->call.peer && c.tag == r->call.tag &&
           c.kind == r->call.kind && c.type == r->call.type && c.redop == r->call.redop &&
           c.algo == r->call.algo && c.flags == r->call.flags && r->note == (uint16_t)r->call.seq;
}

static uint64_t record(struct tt_oplog_ring *r, struct tt_oplog_writer *w, uint32_t thread,
                       uint32_t i)
{
    const struct tt_oplog_call c = call_of(thread, i);

    return tt_oplog_ring_begin(r, w, &c, tt_tick_now(), (uint16_t)i);
}

static void newest_records_are_kept_in_order(void **state)
{
    static struct tt_oplog_record out[64];
    struct tt_oplog_writer w = { 0 };
    struct tt_oplog_ring r;
    uint64_t lost;
    uint32_t n;

    (void)state;
    assert_int_equal(tt_oplog_ring_init(&r, 64), TUTTI_OK);
    assert_int_equal(tt_oplog_ring_read(&r, out, &lost), 0);
    assert_int_equal(lost, 0);
    for (uint32_t i = 0; i < 1000; i++) {
        tt_oplog_ring_end(&r, record(&r, &w, 0, i), i % 3 ? TUTTI_OK : TUTTI_ERR_RANGE);
        n = tt_oplog_ring_read(&r, out, &lost);
        assert_int_equal(n + lost, i + 1);
        assert_true(i < 64 ? lost == 0 : n > 64 - TT_OPLOG_BLOCK);
        for (uint32_t k = 0; k < n; k++) {
            assert_int_equal(out[k].call.seq, i + 1 - n + k);
            assert_true(is_whole_record(&out[k]));
            assert_int_equal(out[k].status, out[k].call.seq % 3 ? TUTTI_OK : TUTTI_ERR_RANGE);
            assert_true(out[k].called && out[k].started == out[k].called);
            assert_true(out[k].ended >= out[k].started);
            assert_true(k == 0 || out[k].called >= out[k - 1].called);
        }
    }
    tt_oplog_ring_fini(&r);
}

static void late_ends_do_not_reach_newer_records(void **state)
{
    static struct tt_oplog_record out[32];
    struct tt_oplog_writer w = { 0 };
    struct tt_oplog_record one;
    struct tt_oplog_ring r;
    uint64_t first, last = 0, lost;

    (void)state;
    assert_int_equal(tt_oplog_ring_init(&r, 32), TUTTI_OK);
    first = record(&r, &w, 0, 0);
    assert_true(tt_oplog_ring_find(&r, first, &one));
    assert_int_equal(one.status, TUTTI_PENDING);
    assert_int_equal(one.ended, 0);
    for (uint32_t i = 1; i < 200; i++)
        last = record(&r, &w, 0, i);
    assert_false(tt_oplog_ring_find(&r, first, &one));
    tt_oplog_ring_end(&r, first, TUTTI_ERR_ABORTED);
    tt_oplog_ring_start(&r, first);
    for (uint32_t k = tt_oplog_ring_read(&r, out, &lost); k-- > 0;)
        assert_int_equal(out[k].status, TUTTI_PENDING);
    tt_oplog_ring_end(&r, last, TUTTI_ERR_ABORTED);
    assert_true(tt_oplog_ring_find(&r, last, &one));
    assert_int_equal(one.status, TUTTI_ERR_ABORTED);
    tt_oplog_ring_fini(&r);
}

/* A writer may stop in its block, while others go around the ring many times. */
static void a_resting_writer_keeps_its_block(void **state)
{
    static struct tt_oplog_record out[64];
    struct tt_oplog_writer rests = { 0 }, goes_on = { 0 }, third = { 0 };
    struct tt_oplog_record one;
    struct tt_oplog_ring r;
    uint64_t first, lost;

    (void)state;
    assert_int_equal(tt_oplog_ring_init(&r, 2 * TT_OPLOG_BLOCK), TUTTI_OK);
    first = record(&r, &rests, 1, 0);
    for (uint32_t i = 0; i < 500; i++)
        assert_true(record(&r, &goes_on, 0, i) != 0);
    assert_true(tt_oplog_ring_find(&r, first, &one) && is_whole_record(&one));
    assert_int_equal(record(&r, &third, 2, 0), 0);      /* each block is in use by a writer */
    tt_oplog_ring_leave(&r, &rests);
    for (uint32_t i = 0; i < TT_OPLOG_BLOCK; i++)
        assert_true(record(&r, &third, 2, i) != 0);
    assert_false(tt_oplog_ring_find(&r, first, &one));
    assert_int_equal(tt_oplog_ring_read(&r, out, &lost) + lost, 501 + TT_OPLOG_BLOCK);
    tt_oplog_ring_fini(&r);
}

struct recorder {
    struct tt_oplog_ring *ring;
    uint32_t thread;
};

static void *record_all(void *arg)
{
    const struct recorder *a = arg;
    struct tt_oplog_writer w = { 0 };

    for (uint32_t i = 0; i < RECORDS_PER_THREAD; i++)
        tt_oplog_ring_end(a->ring, record(a->ring, &w, a->thread, i), TUTTI_OK);
    tt_oplog_ring_leave(a->ring, &w);
    return NULL;
}

/* A reader runs while threads record, in a ring so short that they go around it constantly. */
static void threads_keep_whole_records(void **state)
{
    static struct tt_oplog_record out[256];
    struct recorder recorders[THREADS];
    uint64_t next[THREADS], lost, seen = 0;
    pthread_t threads[THREADS];
    struct tt_oplog_ring r;
    uint32_t n;

    (void)state;
    assert_int_equal(tt_oplog_ring_init(&r, 256), TUTTI_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        recorders[i] = (struct recorder){ .ring = &r, .thread = i };
        assert_int_equal(pthread_create(&threads[i], NULL, record_all, &recorders[i]), 0);
    }
    do {
        n = tt_oplog_ring_read(&r, out, &lost);
        seen = atomic_load(&r.filled);
        memset(next, 0, sizeof next);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(is_whole_record(&out[i]));
            assert_true(out[i].call.seq >= next[out[i].call.comm - 1]);
            next[out[i].call.comm - 1] = out[i].call.seq + 1;
        }
    } while (seen < (uint64_t)THREADS * RECORDS_PER_THREAD);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    n = tt_oplog_ring_read(&r, out, &lost);
    assert_true(n > 0 && n + lost == (uint64_t)THREADS * RECORDS_PER_THREAD);
    tt_oplog_ring_fini(&r);
}

static void every_kind_has_a_name(void **state)
{
    (void)state;
    for (uint32_t k = TT_OPLOG_CALLS; k < TT_OPLOG_CALLS_END; k++)
        assert_string_not_equal(tt_oplog_kind_name((uint8_t)k), "?");
    for (uint32_t k = 0; k < TUTTI_COLL_COUNT; k++)
        assert_string_not_equal(tt_oplog_kind_name((uint8_t)(TT_OPLOG_RUN + k)), "?");
    assert_string_equal(tt_oplog_kind_name(TT_OPLOG_RUN), "run_allreduce");
    assert_string_equal(tt_oplog_kind_name(31), "?");
    assert_string_equal(tt_oplog_kind_name(255), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_records_are_kept_in_order),
        cmocka_unit_test(late_ends_do_not_reach_newer_records),
        cmocka_unit_test(a_resting_writer_keeps_its_block),
        cmocka_unit_test(threads_keep_whole_records),
        cmocka_unit_test(every_kind_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
