/* A peer that leaves while the link to it is being established. The engine is real; its transport
 * does not connect, and behaves as the test requires. */
#include <string.h>

#include "algo/algos.h"
#include "engine/op.h"
#include "engine/progress.h"
#include "support/unit.h"

enum { NRANKS = 3, CONTEXT = 7, TIMEOUT_MS = 60000 };

static struct tt_wire_ops ops;      /* those of tcp, except the calls below */
static uint32_t nconnects;
static bool says_goodbye;

static tutti_status connect_to_nobody(struct tt_wire *w, uint32_t peer,
                                      const struct tt_blob *address)
{
    (void)w, (void)address;
    assert_int_equal(peer, 1);
    nconnects++;
    return TUTTI_OK;
}

static int poll_for_goodbye(struct tt_wire *w, struct tt_done *done, int max)
{
    (void)w;
    if (!says_goodbye || max < 1)
        return 0;
    says_goodbye = false;
    *done = (struct tt_done){ .kind = TT_DONE_LINK_LOST, .peer = 1, .status = TUTTI_OK };
    return 1;
}

struct scene {
    struct tt_engine *e;
    struct tt_context *c;
    struct tt_op *op;           /* receives from rank 1, to which it starts to connect */
    uint64_t dst;
};

static void begin_to_receive(struct scene *s)
{
    struct tt_op_conf conf = {
        .coll = { .kind = TT_RECV,
                  .nranks = NRANKS,
                  .root = 1,
                  .elem_bytes = 1,
                  .bytes = sizeof s->dst },
        .dtype = TUTTI_U8,
        .count = sizeof s->dst,
        .dst = &s->dst,
        .segment_bytes = 2048,
        .eager_bytes = 512,
        .streams = 1,
        .depth = 2,
        .timeout_ms = TIMEOUT_MS,
    };

    for (size_t i = 0; i < tt_nalgos; i++)
        if (tt_algos[i]->kind == TT_RECV)
            conf.algo = tt_algos[conf.algo_id = (uint8_t)i];
    assert_non_null(conf.algo);
    assert_int_equal(tt_op_start(s->c, &conf, &s->op), TUTTI_OK);
}

static void progress(struct scene *s)
{
    tt_progress_lock(s->e);
    tt_engine_progress(s->e);
    tt_progress_unlock(s->e);
}

/* All ranks have the card of this one. */
static size_t read_own_card(void *arg, uint32_t rank, uint8_t *card)
{
    size_t bytes;

    (void)rank;
    assert_int_equal(tt_engine_card(arg, card, TT_ENGINE_CARD_BYTES, &bytes), TUTTI_OK);
    return bytes;
}

static struct scene scene_open(void)
{
    static const struct tt_engine_conf conf = { .nranks = NRANKS,
                                                .wires = "tcp",
                                                .interfaces = "=lo" };
    static const uint32_t ranks[] = { 0, 1, 2 };
    struct scene s = { .dst = 0 };

    nconnects = 0;
    says_goodbye = false;
    assert_int_equal(tt_engine_create(&s.e, &conf), TUTTI_OK);
    ops = *s.e->wire[0]->ops;
    ops.connect = connect_to_nobody;
    ops.poll = poll_for_goodbye;
    s.e->wire[0]->ops = &ops;
    tt_engine_set_cards(
        s.e, &(struct tt_engine_cards){ .read = read_own_card, .arg = s.e, .nlocal = NRANKS });
    assert_int_equal(tt_context_open(s.e, CONTEXT, ranks, NRANKS, 0, &s.c), TUTTI_OK);
    begin_to_receive(&s);
    progress(&s);
    assert_int_equal(nconnects, 1);
    assert_int_equal(tt_op_status(s.op), TUTTI_PENDING);
    says_goodbye = true;
    while (says_goodbye)        /* a transport without links is not polled each time */
        progress(&s);
    return s;
}

static void scene_close(struct scene *s)
{
    tt_op_free(s->op);
    tt_context_close(s->c);
    tt_engine_destroy(s->e);
}

/* The notification of rank 1 over the control overlay arrives after its goodbye. */
static void goodbye_may_precede_its_reason(void **state)
{
    struct scene s = scene_open();

    (void)state;
    assert_int_equal(tt_op_status(s.op), TUTTI_PENDING);
    tt_engine_fail_context(s.e, 1, CONTEXT, TUTTI_ERR_PEER_LOST,
                           "rank 2 was lost: its process ended");
    progress(&s);
    assert_int_equal(tt_op_status(s.op), TUTTI_ERR_PEER_LOST);
    assert_non_null(strstr(tutti_last_error(), "rank 2 was lost"));
    scene_close(&s);
}

static void early_leaver_is_reported_if_needed(void **state)
{
    struct scene s = scene_open();

    (void)state;
    tt_op_wait(s.op);
    assert_int_equal(tt_op_status(s.op), TUTTI_ERR_PEER_LOST);
    assert_non_null(
        strstr(tutti_last_error(),
               "rank 1 has closed its communicator, but an operation still waits for it"));
    assert_int_equal(nconnects, 1);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goodbye_may_precede_its_reason),
        cmocka_unit_test(early_leaver_is_reported_if_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
