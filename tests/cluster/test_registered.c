/* Memory of tutti_mem_register. Buffers may span adjacent registrations. tutti_mem_deregister
 * refuses memory that is in use, equally on every transport: by operations, windows, puts and gets,
 * started by any thread or communicator, in any of its registrations. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "support/pattern.h"
#include "support/unit.h"
#include "windows.h"

/* size of a registration: more than the connection to a stopped peer accepts */
#define PART ((size_t)16 << 20)
#define GIVE_UP_NS 60000000000u /* limit for detecting another thread's call */
#define FLAG_GO 1               /* job_go_on_after waits for it */

#define CHECK_USED(r, mem) \
    CHECK_SAYS(r, tutti_mem_deregister((r)->comm, mem), TUTTI_ERR_INVALID, \
               "an operation or a window uses part of")
#define CHECK_NONE(r, mem) \
    CHECK_SAYS(r, tutti_mem_deregister((r)->comm, mem), TUTTI_ERR_INVALID, \
               "no registered memory begins at")

/* Page-aligned memory in two adjacent registrations. */
struct halves {
    uint8_t *mem, *second;
};

static void halves_init(struct rank *r, struct halves *h)
{
    h->mem = job_have(r, aligned_alloc(4096, 2 * PART));
    h->second = h->mem + PART;
    memset(h->mem, 0, 2 * PART);
    CHECK_OK(r, tutti_mem_register(r->comm, h->mem, PART));
    CHECK_OK(r, tutti_mem_register(r->comm, h->second, PART));
}

/* ---- buffers that span registrations ---- */

/* Only registered memory may be used. */
static void across_role(struct rank *r)
{
    enum { BYTES = 131072 };
    struct halves h;
    uint8_t *across;

    setenv("TUTTI_REGISTER_DYNAMIC", "0", 1);
    window_job_open(r);
    halves_init(r, &h);
    across = h.second - BYTES / 2;
    memset(across, 1 + (int)r->rank, BYTES);
    CHECK_OK(r, tutti_allreduce(across, across, BYTES, TUTTI_U8, TUTTI_SUM, r->comm, NULL));
    job_check_all(r, across, BYTES, 3);
    if (r->rank == 0)
        CHECK_OK(r, tutti_send(across, BYTES, TUTTI_U8, 1, r->comm, NULL));
    else
        CHECK_OK(r, tutti_recv(across - 1, BYTES, TUTTI_U8, 0, r->comm, NULL));
    job_check_all(r, across, BYTES - 1, 3);
    CHECK_OK(r, tutti_mem_deregister(r->comm, h.second));
    CHECK_OK(r, tutti_mem_deregister(r->comm, h.mem));
    free(h.mem);
}

static void buffer_may_span_adjacent_registrations(void **state)
{
    (void)state;
    over_all_ways(across_role, 2, NULL);
}

/* ---- windows ---- */

static void window_role(struct rank *r)
{
    struct halves h;
    tutti_window *window;

    window_job_open(r);
    halves_init(r, &h);
    CHECK_OK(r, tutti_window_create(r->comm, h.second + PART - 64, 64, &window));
    CHECK_USED(r, h.second);
    CHECK_OK(r, tutti_mem_deregister(r->comm, h.mem));
    CHECK_OK(r, tutti_window_free(window));
    CHECK_OK(r, tutti_mem_deregister(r->comm, h.second));
    CHECK_NONE(r, h.second);
    free(h.mem);
}

static void an_open_window_uses_its_memory(void **state)
{
    (void)state;
    over_all_ways(window_role, 2, NULL);
}

/* ---- puts and gets to a stopped rank ---- */

/* Makes the first put whose source spans both registrations. */
static void use_both(struct rank *r, const struct halves *h, tutti_window *window)
{
    CHECK_OK(r, tutti_window_put(window, 1, 0, h->second - 65536, 2 * 65536, NULL));
    CHECK_OK(r, tutti_window_quiet(window, 1, 0));
}

static void stand_still(struct rank *r)
{
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    if (r->rank == 1) {
        job_step(r, "stand still");
        kill(getpid(), SIGSTOP);
        return;
    }
    CHECK(r, job_await(r->board, 0, 1));
}

/* Checks that the first registration is unused, and that the second is in use if `used`. */
static void check_second(struct rank *r, const struct halves *h, bool used)
{
    if (used)
        CHECK_USED(r, h->second);
    CHECK_OK(r, tutti_mem_deregister(r->comm, h->mem));
    CHECK_NONE(r, h->mem);
    if (used)
        CHECK_USED(r, h->second);
}

static void put_role(struct rank *r)
{
    uint64_t done = 0;
    const tutti_rma rma = { .size = sizeof rma, .counter = &done };
    struct window_side s;
    struct halves h;

    window_job_open(r);
    halves_init(r, &h);
    window_side_init(r, &s, PART);
    if (r->rank == 0)
        use_both(r, &h, s.window);
    stand_still(r);
    if (r->rank == 0) {
        pattern_fill(h.second, PART, 3);
        CHECK_OK(r, tutti_window_put(s.window, 1, 0, h.second, PART, &rma));
        CHECK(r, window_is_mapped(r) == (done == 1));
        check_second(r, &h, !window_is_mapped(r));
        job_raise(r->board, FLAG_GO);
        CHECK_OK(r, tutti_window_wait_counter(s.window, &done, 1, 0));
        CHECK_OK(r, tutti_window_quiet(s.window, 1, 0));
        CHECK_OK(r, tutti_mem_deregister(r->comm, h.second));
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank == 1)
        window_check_pattern(r, s.mem, PART, 3, "put");
    window_side_fini(r, &s);
    free(h.mem);
}

static void pending_put_uses_its_source(void **state)
{
    (void)state;
    over_all_ways(put_role, 2, job_go_on_after);
}

/* Puts from the second registration are queued behind puts of other memory, as a piece after
 * another one. */
static void queued_role(struct rank *r)
{
    uint64_t done = 0;
    const tutti_rma rma = { .size = sizeof rma, .counter = &done };
    uint8_t *other = job_have(r, calloc(1, PART));
    struct window_side s;
    struct halves h;

    window_job_open(r);
    halves_init(r, &h);
    window_side_init(r, &s, PART);
    if (r->rank == 0)
        use_both(r, &h, s.window);
    stand_still(r);
    if (r->rank == 0) {
        const tutti_piece pieces[2] = { { 0, other, PART - 100000 },
                                        { PART - 100000, h.second + 8, 100000 } };

        CHECK_OK(r, tutti_window_put(s.window, 1, 0, other, PART, &rma));
        CHECK_OK(r, tutti_window_put_pieces(s.window, 1, pieces, 2, &rma));
        check_second(r, &h, !window_is_mapped(r));
        job_raise(r->board, FLAG_GO);
        CHECK_OK(r, tutti_window_wait_counter(s.window, &done, 2, 0));
        CHECK_OK(r, tutti_mem_deregister(r->comm, h.second));
    }
    window_side_fini(r, &s);
    free(h.mem);
    free(other);
}

static void a_queued_put_uses_its_sources(void **state)
{
    (void)state;
    over_all_ways(queued_role, 2, job_go_on_after);
}

/* A get that has reached its deadline continues until a quiet. */
static void get_role(struct rank *r)
{
    const tutti_rma brief = { .size = sizeof brief, .timeout_ms = 10 };
    struct window_side s;
    struct halves h;
    tutti_status st;

    window_job_open(r);
    halves_init(r, &h);
    window_side_init(r, &s, PART);
    memset(s.mem, 7, PART);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));      /* before puts change it */
    if (r->rank == 0)
        use_both(r, &h, s.window);
    stand_still(r);
    if (r->rank == 0) {
        st = tutti_window_get(s.window, 1, 0, h.second, PART, &brief);
        CHECK(r, st == (window_is_mapped(r) ? TUTTI_OK : TUTTI_ERR_TIMEOUT));
        check_second(r, &h, !window_is_mapped(r));
        job_raise(r->board, FLAG_GO);
        CHECK_OK(r, tutti_window_quiet(s.window, 1, 0));
        CHECK_OK(r, tutti_mem_deregister(r->comm, h.second));
    }
    window_side_fini(r, &s);
    free(h.mem);
}

static void pending_get_uses_its_destination(void **state)
{
    (void)state;
    over_all_ways(get_role, 2, job_go_on_after);
}

struct getter {
    struct rank *r;
    tutti_window *window;
    uint8_t *dst;
};

static void *get_it(void *arg)
{
    const struct getter *g = arg;

    CHECK_OK(g->r, tutti_window_get(g->window, 1, 0, g->dst, 64, NULL));
    return NULL;
}

/* A get in another thread waits behind a fence, so no part of it has started. */
static void waiting_role(struct rank *r)
{
    uint8_t *src = job_have(r, calloc(1, PART));
    const tutti_rma rma = { .size = sizeof rma, .counter = &(uint64_t){ 0 } };
    const uint64_t give_up_ns = tt_now_ns() + GIVE_UP_NS;
    struct window_side s;
    struct halves h;
    struct getter g;
    pthread_t thread;

    window_job_open(r);
    halves_init(r, &h);
    window_side_init(r, &s, PART);
    if (r->rank == 0)
        use_both(r, &h, s.window);
    stand_still(r);
    if (r->rank == 0) {
        g = (struct getter){ .r = r, .window = s.window, .dst = h.second };
        CHECK_OK(r, tutti_window_put(s.window, 1, 0, src, PART, &rma));
        CHECK_OK(r, tutti_window_fence(s.window, 1));
        CHECK(r, pthread_create(&thread, NULL, get_it, &g) == 0);
        job_step(r, "wait for the other thread's call");
        while (!window_is_mapped(r) && tt_now_ns() < give_up_ns &&
               tutti_mem_deregister(r->comm, h.second) == TUTTI_OK)
            CHECK_OK(r, tutti_mem_register(r->comm, h.second, PART));
        check_second(r, &h, !window_is_mapped(r));
        job_raise(r->board, FLAG_GO);
        CHECK(r, pthread_join(thread, NULL) == 0);
        CHECK_OK(r, tutti_mem_deregister(r->comm, h.second));
        CHECK_OK(r, tutti_window_quiet(s.window, 1, 0));
    }
    window_side_fini(r, &s);
    free(h.mem);
    free(src);
}

static void waiting_call_uses_its_memory(void **state)
{
    (void)state;
    over_all_ways(waiting_role, 2, job_go_on_after);
}

/* ---- operations ---- */

/* The memory is used by an independent communicator: only its last byte, by a receive. The adjacent
 * registration is unused. */
static void another_job_role(struct rank *r)
{
    const tutti_conf alone = {
        .size = sizeof alone, .nranks = 1, .rank = 0, .wires = r->job->wires
    };
    tutti_request *request = NULL;
    const tutti_call later = { .size = sizeof later, .request = &request };
    tutti_comm *other = NULL;
    uint8_t byte = 1;
    struct halves h;

    window_job_open(r);
    halves_init(r, &h);
    CHECK_OK(r, tutti_comm_create(&other, &alone));
    CHECK_OK(r, tutti_recv(h.second + PART - 1, 1, TUTTI_U8, 0, other, &later));
    CHECK_USED(r, h.second);
    CHECK_OK(r, tutti_mem_deregister(r->comm, h.mem));
    CHECK_OK(r, tutti_send(&byte, 1, TUTTI_U8, 0, other, NULL));
    CHECK_OK(r, tutti_wait(request));
    CHECK_OK(r, tutti_mem_deregister(r->comm, h.second));
    tutti_comm_destroy(other);
    free(h.mem);
}

static void operations_use_their_buffers(void **state)
{
    (void)state;
    over_all_ways(another_job_role, 2, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_may_span_adjacent_registrations),
        cmocka_unit_test(an_open_window_uses_its_memory),
        cmocka_unit_test(pending_put_uses_its_source),
        cmocka_unit_test(a_queued_put_uses_its_sources),
        cmocka_unit_test(pending_get_uses_its_destination),
        cmocka_unit_test(waiting_call_uses_its_memory),
        cmocka_unit_test(operations_use_their_buffers),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
