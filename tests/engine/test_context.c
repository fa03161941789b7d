/* Who is inside a guarded context, and what a seal waits for. The engine is a real one, of a job of one rank. */
#include <string.h>

#include "base/status.h"
#include "engine/op.h"
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

static void a_call_on_a_sealed_context_is_refused_with_the_reason(void **state)
{
    struct scene s = scene_open();

    (void)state;
    assert_int_equal(tt_context_enter(s.c, "a_call"), TUTTI_OK);
    assert_false(tt_context_seal(s.c));
    tt_context_leave(s.c);
    assert_true(tt_context_seal(s.c));
    assert_int_equal(tt_context_enter(s.c, "a_call"), TUTTI_ERR_INVALID);
    assert_string_equal(tutti_last_error(), "a_call: a call that changes the communicator's view is under way");
    tt_context_unseal(s.c);
    assert_int_equal(tt_context_enter(s.c, "a_call"), TUTTI_OK);
    tt_context_leave(s.c);
    assert_true(tt_context_seal(s.c));
    tt_context_fail(s.c, TUTTI_ERR_PEER_LOST, "rank 2 was lost");
    assert_int_equal(tt_context_enter(s.c, "a_call"), TUTTI_ERR_PEER_LOST);
    assert_string_equal(tutti_last_error(), "rank 2 was lost");
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_on_a_sealed_context_is_refused_with_the_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
