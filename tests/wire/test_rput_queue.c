#include "support/unit.h"

#include "wire/rput/rput_queue.h"

#define DEPTH 8

struct message {
    struct tt_rput_out base;
    uint64_t transport;         /* makes the struct longer than its base */
};

/* Adds a put with this cookie and these flags. */
static void queue_add(struct tt_rput_queue *q, uint64_t cookie, uint32_t flags)
{
    const struct tt_desc d = { .flags = (uint16_t)flags, .cookie = cookie };

    ((struct message *)q->out)[q->tail++ % DEPTH] =
        (struct message){ .base = tt_rput_out_of(&d), .transport = UINT64_MAX };
}

static void queue_make(struct tt_rput_queue *q)
{
    assert_true(tt_rput_queue_init(q, 7, DEPTH, sizeof(struct message)));
    assert_int_equal(tt_rput_queue_bytes(q), DEPTH * sizeof(struct message));
}

/* Local completion is reported when the source may be reused, remote completion when the receiver
 * has applied the put; each only if requested. */
static void completions_are_reported_once(void **state)
{
    struct tt_rput_queue q;
    struct tt_done done[8];

    (void)state;
    queue_make(&q);
    queue_add(&q, 100, 0);
    queue_add(&q, 101, TT_DESC_INLINE);
    queue_add(&q, 102, TT_DESC_REMOTE);
    queue_add(&q, 103, TT_DESC_INLINE | TT_DESC_REMOTE);
    assert_false(tt_rput_queue_has_reports(&q));
    q.done = 3;
    assert_true(tt_rput_queue_has_reports(&q));
    assert_int_equal(tt_rput_queue_report(&q, done, 8), 2);
    assert_true(done[0].kind == TT_DONE_LOCAL && done[0].cookie == 100 && done[0].peer == 7);
    assert_true(done[1].kind == TT_DONE_LOCAL && done[1].cookie == 102);
    assert_false(tt_rput_queue_has_reports(&q));
    q.acked = q.done = 4;
    assert_int_equal(tt_rput_queue_report(&q, done, 8), 2);
    assert_true(done[0].kind == TT_DONE_REMOTE && done[0].cookie == 102);
    assert_true(done[1].kind == TT_DONE_REMOTE && done[1].cookie == 103);
    assert_int_equal(tt_rput_queue_report(&q, done, 8), 0);
    assert_int_equal(q.remote, 4);
    tt_rput_queue_fini(&q);
    assert_int_equal(tt_rput_queue_bytes(&q), 0);
}

/* Over several turns of the ring, with one entry per call: every completion is reported, local
 * before remote. */
static void full_report_array_loses_nothing(void **state)
{
    struct tt_rput_queue q;
    uint64_t nlocal = 0, nremote = 0;
    struct tt_done done;

    (void)state;
    queue_make(&q);
    for (uint64_t i = 0; i < 5 * DEPTH; i++) {
        while (q.tail - q.remote == DEPTH) {
            assert_int_equal(tt_rput_queue_report(&q, &done, 1), 1);
            if (done.kind == TT_DONE_LOCAL)
                assert_int_equal(done.cookie, nlocal++);
            else
                assert_int_equal(done.cookie, nremote++);
            assert_true(nremote <= nlocal);
        }
        queue_add(&q, i, TT_DESC_REMOTE);
        q.done = q.acked = q.tail;
    }
    assert_true(nremote >= 4 * DEPTH);
    assert_int_equal(tt_rput_queue_report(&q, &done, 0), 0);
    tt_rput_queue_fini(&q);
}

static void low_bits_extend_a_count(void **state)
{
    const uint64_t high = 5ull << 32;

    (void)state;
    assert_int_equal(tt_rput_later(10, 12), 12);
    assert_int_equal(tt_rput_later(12, 10), 12);                /* older */
    assert_int_equal(tt_rput_later(high - 2, 3), high + 3);     /* wraps */
    assert_int_equal(tt_rput_later(high + 3, UINT32_MAX), high + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_are_reported_once),
        cmocka_unit_test(full_report_array_loses_nothing),
        cmocka_unit_test(low_bits_extend_a_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
