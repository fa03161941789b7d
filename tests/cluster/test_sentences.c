/* Every INVALID of the calls of windows, devices and layers of experts sets a message that begins
 * with the call's name. */
#include <stdlib.h>
#include <string.h>
#include "job.h"
#include "support/unit.h"
#include "tutti/device.h"
#include "tutti/moe.h"
#include "tutti/moe_device.h"
#include "tutti/rma.h"

#define SEED 20261128
#define BYTES 64u

#define CHECK_TOLD(r, name, call) check_message(r, __LINE__, name, call)

static void check_message(struct rank *r, int line, const char *name, tutti_status got)
{
    if (got != TUTTI_ERR_INVALID)
        job_fail(r, __FILE__, line, "%s returned %s, not INVALID", name, tutti_status_name(got));
    if (strncmp(tutti_last_error(), name, strlen(name)) != 0 ||
        tutti_last_error()[strlen(name)] != ':')
        job_fail(r, __FILE__, line, "%s left \"%s\"", name, tutti_last_error());
}

static void check_windows(struct rank *r, tutti_window *w)
{
    const tutti_rma bad_op = { .size = sizeof bad_op, .signal_op = (tutti_signal_op)9 };
    const tutti_rma bad_word = { .size = sizeof bad_word,
                                 .signal_op = TUTTI_SIGNAL_SET,
                                 .signal_offset = BYTES };
    const tutti_rma small = { .size = 3 };
    const tutti_rows rows = { 2, 8, 8, 4 };
    const tutti_piece piece = { 0, NULL, 8 };
    uint64_t word[2] = { 0 };
    void *mem;
    size_t bytes, offset = 1;

    CHECK_TOLD(r, "tutti_window_create", tutti_window_create(r->comm, NULL, 8, NULL));
    CHECK_TOLD(r, "tutti_window_memory", tutti_window_memory(NULL, &mem, &bytes));
    CHECK_TOLD(r, "tutti_window_bytes", tutti_window_bytes(w, 7, &bytes));
    CHECK_TOLD(r, "tutti_window_bytes", tutti_window_bytes(w, 0, NULL));
    CHECK_TOLD(r, "tutti_window_pointer", tutti_window_pointer(w, 0, NULL));
    CHECK_TOLD(r, "tutti_window_put", tutti_window_put(NULL, 0, 0, word, 8, NULL));
    CHECK_TOLD(r, "tutti_window_put", tutti_window_put(w, -2, 0, word, 8, NULL));
    CHECK_TOLD(r, "tutti_window_put", tutti_window_put(w, 0, BYTES, word, 8, NULL));
    CHECK_TOLD(r, "tutti_window_put", tutti_window_put(w, 0, 0, NULL, 8, NULL));
    CHECK_TOLD(r, "tutti_window_put", tutti_window_put(w, 0, 0, word, 8, &bad_op));
    CHECK_TOLD(r, "tutti_window_put", tutti_window_put(w, 0, 0, word, 8, &bad_word));
    CHECK_TOLD(r, "tutti_window_put", tutti_window_put(w, 0, 0, word, 8, &small));
    CHECK_TOLD(r, "tutti_window_put_rows", tutti_window_put_rows(w, 0, 0, word, &rows, NULL));
    CHECK_TOLD(r, "tutti_window_put_rows", tutti_window_put_rows(w, 0, 0, word, NULL, NULL));
    CHECK_TOLD(r, "tutti_window_put_pieces", tutti_window_put_pieces(w, 0, NULL, 1, NULL));
    CHECK_TOLD(r, "tutti_window_put_pieces", tutti_window_put_pieces(w, 0, &piece, 1, NULL));
    CHECK_TOLD(r, "tutti_window_get", tutti_window_get(w, 0, BYTES, word, 8, NULL));
    CHECK_TOLD(r, "tutti_window_get", tutti_window_get(w, 0, 0, NULL, 8, NULL));
    CHECK_TOLD(r, "tutti_window_wait_counter", tutti_window_wait_counter(w, NULL, 1, 0));
    CHECK_TOLD(r, "tutti_window_test_counter_for", tutti_window_test_counter_for(w, NULL, 1, 0));
    CHECK_TOLD(r, "tutti_window_fence", tutti_window_fence(w, 7));
    CHECK_TOLD(r, "tutti_window_quiet", tutti_window_quiet(w, 7, 0));
    CHECK_TOLD(r, "tutti_window_signal", tutti_window_signal(w, 0, 0, TUTTI_SIGNAL_NONE, 1));
    CHECK_TOLD(r, "tutti_window_wait", tutti_window_wait(w, 4, TUTTI_EQUAL, 1, 0, NULL));
    CHECK_TOLD(r, "tutti_window_wait", tutti_window_wait(w, 0, (tutti_compare)9, 1, 0, NULL));
    CHECK_TOLD(r, "tutti_window_wait_any",
               tutti_window_wait_any(w, &offset, 1, TUTTI_EQUAL, 1, 0, &bytes, NULL));
    CHECK_TOLD(r, "tutti_window_wait_any",
               tutti_window_wait_any(w, &offset, 0, TUTTI_EQUAL, 1, 0, &bytes, NULL));
    CHECK_TOLD(r, "tutti_window_test_for",
               tutti_window_test_for(w, BYTES, TUTTI_EQUAL, 1, 0, NULL));
    CHECK_TOLD(r, "tutti_window_wait_until", tutti_window_wait_until(w, NULL, NULL, 0));
    CHECK_TOLD(r, "tutti_window_test", tutti_window_test(w, BYTES, TUTTI_EQUAL, 1, NULL));
    CHECK_TOLD(r, "tutti_window_atomic",
               tutti_window_atomic(w, 0, 0, 3, TUTTI_ATOMIC_ADD, 1, 0, NULL));
    CHECK_TOLD(r, "tutti_window_atomic",
               tutti_window_atomic(w, 0, 0, 8, (tutti_atomic_op)99, 1, 0, NULL));
}

static void check_devices(struct rank *r, tutti_window *w)
{
    tutti_device_conf conf = { .size = sizeof conf, .pending = 1u << 30 };
    tutti_device_counters counters = { .size = 1 };
    tutti_device_view view;
    tutti_device *d = NULL;
    uint64_t *flag;

    CHECK_TOLD(r, "tutti_device_create", tutti_device_create(NULL, NULL, &d));
    CHECK_TOLD(r, "tutti_device_create", tutti_device_create(w, NULL, NULL));
    CHECK_TOLD(r, "tutti_device_create", tutti_device_create(w, &conf, &d));
    CHECK_TOLD(r, "tutti_device_status", tutti_device_status(NULL));
    CHECK_TOLD(r, "tutti_device_abort", tutti_device_abort(NULL));
    CHECK_TOLD(r, "tutti_device_run", tutti_device_run(NULL, 1, NULL, NULL));
    CHECK_TOLD(r, "tutti_device_view_of", tutti_device_view_of(NULL, &view));
    CHECK_OK(r, tutti_device_create(w, NULL, &d));
    CHECK_TOLD(r, "tutti_device_view_of", tutti_device_view_of(d, NULL));
    CHECK_TOLD(r, "tutti_device_flag", tutti_device_flag(d, 0, &flag));
    CHECK_TOLD(r, "tutti_device_set_mode",
               tutti_device_set_mode(d, TUTTI_DEVICE_MODES, TUTTI_DEVICE_SEQUENCED));
    CHECK_TOLD(r, "tutti_device_read_counters", tutti_device_read_counters(d, &counters));
    CHECK_TOLD(r, "tutti_device_counters_reset", tutti_device_counters_reset(NULL));
    CHECK_TOLD(r, "tutti_window_free", tutti_window_free(w));
    CHECK_OK(r, tutti_device_destroy(d));
}

/* A kernel that detects an invalid routing also gets a message; the end of the run names the
 * token. */
static tutti_status look_kernel(const tutti_device_view *device, uint32_t block, uint32_t nblocks,
                                void *arg)
{
    const tutti_moe_view *v = arg;
    uint32_t ntiles = 0;
    tutti_status st = TUTTI_OK;

    (void)device, (void)block, (void)nblocks;
    for (uint32_t i = 0; i < v->nsends && !st; i++)
        st = tutti_moe_send(v, i);
    if (!st)
        st = TUTTI_PENDING;
    while (st == TUTTI_PENDING)
        st = tutti_moe_poll(v, 0, 0, &ntiles);
    if (!st)
        st = tutti_moe_check(v, tutti_moe_tile_at(v, 0, 0), ntiles);
    return tutti_moe_close(v, st);
}

static void check_layers(struct rank *r)
{
    tutti_moe_conf conf = { .size = sizeof conf,
                            .hidden = 4,
                            .experts = 2,
                            .top_k = 1,
                            .max_tokens = 1,
                            .type = TUTTI_F32,
                            .there = TUTTI_F32,
                            .back = TUTTI_F32 };
    const float token[4] = { 0 }, weight = 1;
    const uint32_t expert = r->rank == 0 ? 99 : 0;
    const tutti_moe_routing routing = { .size = sizeof routing,
                                        .tokens = token,
                                        .ntokens = 1,
                                        .experts = &expert,
                                        .weights = &weight };
    float out[4];
    tutti_moe_view view;
    tutti_moe_tile tile = { .size = sizeof tile };
    tutti_moe *m = NULL;

    CHECK_TOLD(r, "tutti_moe_create", tutti_moe_create(r->comm, &conf, NULL));
    CHECK_OK(r, tutti_moe_create(r->comm, &conf, &m));
    CHECK_TOLD(r, "tutti_moe_dispatch", tutti_moe_dispatch(m, NULL, 0));
    CHECK_TOLD(r, "tutti_moe_next", tutti_moe_next(m, &tile, 0));
    CHECK_TOLD(r, "tutti_moe_combine", tutti_moe_combine(m, out, 0));
    CHECK_TOLD(r, "tutti_moe_begin", tutti_moe_begin(m, &routing, out, NULL, 0));
    CHECK_TOLD(r, "tutti_moe_end", tutti_moe_end(m, TUTTI_OK, 0));
    if (r->rank == 0) {
        CHECK_TOLD(r, "tutti_moe_begin", tutti_moe_begin(m, &routing, out, &view, 0));
    } else {
        CHECK_OK(r, tutti_moe_begin(m, &routing, out, &view, 0));
        CHECK_SAYS(
            r, tutti_device_run(tutti_moe_device(m), 1, look_kernel, &view), TUTTI_ERR_INVALID,
            "block 0 of 1 returned INVALID: tutti_moe_check: the routing of rank 0 is invalid");
        CHECK_TOLD(r, "tutti_moe_end", tutti_moe_end(m, TUTTI_ERR_INVALID, 0));
    }
    CHECK_OK(r, tutti_moe_free(m));
}

static void role(struct rank *r)
{
    tutti_window *w;

    job_open(r);
    CHECK_OK(r, tutti_window_create(r->comm, NULL, BYTES, &w));
    job_step(r, "windows");
    check_windows(r, w);
    job_step(r, "devices");
    check_devices(r, w);
    job_step(r, "layers");
    check_layers(r);
    CHECK_OK(r, tutti_window_free(w));
}

static void every_invalid_call_is_named(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = job_seed(SEED) };

    (void)state;
    job_run(&job, role);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_invalid_call_is_named) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
