/* Threads in a guarded context, and what a seal waits for. The engine is real, in a job of one
 * rank. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "algo/algos.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/context.h"
#include "engine/op.h"
#include "engine/op_end.h"
#include "engine/progress.h"
#include "support/unit.h"

enum { CONTEXT = 7 };

struct scene {
    struct tt_engine *e;
    struct tt_context *c;
};

static struct scene scene_open(void)
{
    static const struct tt_engine_conf conf = { .nranks = 1, .wires = "tcp", .interfaces = "=lo" };
    static const uint32_t ranks[] = { 0 };
    struct scene s;

    assert_int_equal(tt_engine_create(&s.e, &conf), TUTTI_OK);
    assert_int_equal(tt_context_open(s.e, CONTEXT, ranks, 1, 0, &s.c), TUTTI_OK);
    tt_context_guard(s.c);
    return s;
}

static void scene_close(struct scene *s)
{
    tt_context_clear(s->c);
    tt_context_close(s->c);
    tt_engine_destroy(s->e);
}

static void sealed_context_refuses_calls_with_reason(void **state)
{
    struct scene s = scene_open();

    (void)state;
    assert_int_equal(tt_context_enter(s.c, "a_call"), TUTTI_OK);
    assert_false(tt_context_seal(s.c));
    tt_context_leave(s.c);
    assert_true(tt_context_seal(s.c));
    assert_int_equal(tt_context_enter(s.c, "a_call"), TUTTI_ERR_INVALID);
    assert_string_equal(
        tutti_last_error(),
        "a_call: a call that changes the communicator's view is already in progress");
    tt_context_unseal(s.c);
    assert_int_equal(tt_context_enter(s.c, "a_call"), TUTTI_OK);
    tt_context_leave(s.c);
    assert_true(tt_context_seal(s.c));
    tt_context_fail(s.c, TUTTI_ERR_PEER_LOST, "rank 2 was lost");
    assert_int_equal(tt_context_enter(s.c, "a_call"), TUTTI_ERR_PEER_LOST);
    assert_string_equal(tutti_last_error(), "rank 2 was lost");
    scene_close(&s);
}

/* Returns the completed request of a barrier of one rank. */
static struct tt_op *request_that_is_over(const struct scene *s)
{
    struct tt_op_conf conf = {
        .coll = { .kind = TT_BARRIER, .nranks = 1, .elem_bytes = 1 },
        .segment_bytes = 2048, .eager_bytes = 512, .streams = 1, .depth = 2,
    };
    struct tt_op *op;

    conf.algo = tt_algo_named(TT_BARRIER, "dissemination");
    conf.algo_id = tt_algo_index(conf.algo);
    assert_int_equal(tt_op_start(s->c, &conf, &op), TUTTI_OK);
    tt_op_wait(op);
    assert_int_equal(tt_op_status(op), TUTTI_OK);
    return op;
}

static void *free_it(void *op)
{
    tt_op_free(op);
    return NULL;
}

struct sealing {
    struct tt_context *c;
    bool done;
    atomic_bool over;
};

static void *seal_it(void *arg)
{
    struct sealing *s = arg;

    s->done = tt_context_seal(s->c);
    atomic_store(&s->over, true);
    return NULL;
}

static bool has_begun(struct sealing *s)
{
    return atomic_load(&s->over) || atomic_load(&s->c->inside) & TT_CONTEXT_SEALED;
}

/* The freeing thread is between the completion and the end of the request, and waits for the
 * progress lock, while another thread seals. */
static void freeing_requests_does_not_block_seal(void **state)
{
    const uint64_t deadline_ns = tt_now_ns() + 60 * TT_SECOND;
    struct scene s = scene_open();
    struct tt_op *op = request_that_is_over(&s);
    struct sealing sealing = { .c = s.c };
    pthread_t frees, seals;

    (void)state;
    tt_progress_lock(s.e);
    assert_int_equal(pthread_create(&frees, NULL, free_it, op), 0);
    while (!tt_context_is_used(s.c) && tt_now_ns() < deadline_ns)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    assert_true(tt_context_is_used(s.c));
    assert_int_equal(pthread_create(&seals, NULL, seal_it, &sealing), 0);
    while (!has_begun(&sealing) && tt_now_ns() < deadline_ns)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    tt_progress_unlock(s.e);
    pthread_join(seals, NULL);
    pthread_join(frees, NULL);
    assert_true(sealing.done);
    assert_false(tt_context_is_used(s.c));
    scene_close(&s);
}

/* Collectives may be recorded with gaps: exchanges take two numbers. */
static void history_keeps_all_records_when_it_grows(void **state)
{
    struct tt_context c = { .history = NULL };
    struct tt_op op = { .context = &c };

    (void)state;
    for (op.seq = 0; op.seq < 8; op.seq += 2) {
        op.desc.count = 100 + op.seq;
        tt_op_record_history(&op);
    }
    for (uint64_t seq = 0; seq < 8; seq += 2) {
        const struct tt_history *h = &c.history[seq & (c.history_cap - 1)];

        assert_true(h->used && h->opseq == seq && h->desc.count == 100 + seq);
    }
    free(c.history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealed_context_refuses_calls_with_reason),
        cmocka_unit_test(freeing_requests_does_not_block_seal),
        cmocka_unit_test(history_keeps_all_records_when_it_grows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
