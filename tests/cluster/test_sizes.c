/* Sizes, counts and offsets that no memory has, in each public call that takes one: the call fails with a sentence, nothing is
 * started, and the communicator works. */
#include <stdlib.h>
#include "job.h"
#include "support/unit.h"
#include "tutti/rma.h"

#define SEED 20261130
#define WINDOW_BYTES 4096

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

static const size_t sizes[] = {
    SIZE_MAX,     SIZE_MAX - 1,     SIZE_MAX - 4095,  SIZE_MAX / 2 + 1,
    SIZE_MAX / 2, SIZE_MAX / 4 + 1, SIZE_MAX / 8 + 1, (size_t)1 << 60,
};

struct given {
    struct rank *r;
    tutti_comm *comm;
    tutti_window *window;
    tutti_dtype type;
    size_t n;                   /* the size */
    double src[64], dst[64];
};

static tutti_status go_allreduce(struct given *g)
{
    return tutti_allreduce(g->src, g->dst, g->n, g->type, TUTTI_SUM, g->comm, NULL);
}
static tutti_status go_reduce(struct given *g)
{
    return tutti_reduce(g->src, g->dst, g->n, g->type, TUTTI_SUM, 0, g->comm, NULL);
}
static tutti_status go_reduce_scatter(struct given *g)
{
    return tutti_reduce_scatter(g->src, g->dst, g->n, g->type, TUTTI_SUM, g->comm, NULL);
}
static tutti_status go_allgather(struct given *g)
{
    return tutti_allgather(g->src, g->dst, g->n, g->type, g->comm, NULL);
}
static tutti_status go_broadcast(struct given *g)
{
    return tutti_broadcast(g->src, g->dst, g->n, g->type, 1, g->comm, NULL);
}
static tutti_status go_gather(struct given *g)
{
    return tutti_gather(g->src, g->dst, g->n, g->type, 0, g->comm, NULL);
}
static tutti_status go_scatter(struct given *g)
{
    return tutti_scatter(g->src, g->dst, g->n, g->type, 0, g->comm, NULL);
}
static tutti_status go_alltoall(struct given *g)
{
    return tutti_alltoall(g->src, g->dst, g->n, g->type, g->comm, NULL);
}
static tutti_status go_send(struct given *g)
{
    return tutti_send(g->src, g->n, g->type, 1 - (int)g->r->rank, g->comm, NULL);
}
static tutti_status go_recv(struct given *g)
{
    return tutti_recv(g->dst, g->n, g->type, 1 - (int)g->r->rank, g->comm, NULL);
}
static tutti_status go_member(struct given *g)
{
    const tutti_p2p op = { .peer = 0, .buf = g->src, .count = g->n, .type = g->type };

    return tutti_group(&op, 1, g->comm, NULL);
}
static tutti_status go_group(struct given *g)
{
    const tutti_p2p op = { .peer = 0, .buf = g->src, .count = 1, .type = g->type };

    return tutti_group(&op, g->n, g->comm, NULL);
}
static tutti_status go_allgatherv(struct given *g)
{
    const size_t counts[2] = { g->n, g->n };

    return tutti_allgatherv(g->src, g->dst, counts, NULL, g->type, g->comm, NULL);
}
static tutti_status go_allgatherv_far(struct given *g)
{
    const size_t counts[2] = { 1, 1 }, displs[2] = { 0, g->n };

    return tutti_allgatherv(g->src, g->dst, counts, displs, g->type, g->comm, NULL);
}
static tutti_status go_reduce_scatterv(struct given *g)
{
    const size_t counts[2] = { g->n, 1 };

    return tutti_reduce_scatterv(g->src, g->dst, counts, g->type, TUTTI_SUM, g->comm, NULL);
}
static tutti_status go_alltoallv(struct given *g)
{
    const size_t counts[2] = { 1, 1 }, displs[2] = { g->n, 0 };

    return tutti_alltoallv(g->src, counts, displs, g->dst, counts, displs, g->type, g->comm, NULL);
}
static tutti_status go_register(struct given *g)
{
    return tutti_mem_register(g->comm, g->src, g->n);
}
static tutti_status go_window(struct given *g)
{
    tutti_window *w;

    return tutti_window_create(g->comm, g->src, g->n, &w);
}
static tutti_status go_put(struct given *g)
{
    return tutti_window_put(g->window, 0, 8, g->src, g->n, NULL);
}
static tutti_status go_put_far(struct given *g)
{
    return tutti_window_put(g->window, 0, g->n, g->src, 8, NULL);
}
static tutti_status go_get(struct given *g)
{
    return tutti_window_get(g->window, 0, 8, g->dst, g->n, NULL);
}
static tutti_status go_get_far(struct given *g)
{
    return tutti_window_get(g->window, 0, g->n, g->dst, 8, NULL);
}
static tutti_status put_rows(struct given *g, size_t rows, size_t row_bytes, size_t src_stride, size_t stride)
{
    const tutti_rows of = { .rows = rows, .row_bytes = row_bytes, .src_stride = src_stride, .stride = stride };

    return tutti_window_put_rows(g->window, 0, 0, g->src, &of, NULL);
}
static tutti_status go_rows(struct given *g) { return put_rows(g, g->n, 8, 8, 8); }
static tutti_status go_row(struct given *g) { return put_rows(g, 1, g->n, g->n, g->n); }
static tutti_status go_src_stride(struct given *g) { return put_rows(g, 2, 8, g->n, 8); }
static tutti_status go_stride(struct given *g) { return put_rows(g, 2, 8, 8, g->n); }
static tutti_status go_pieces(struct given *g)
{
    const tutti_piece piece = { .src = g->src, .bytes = 8 };

    return tutti_window_put_pieces(g->window, 0, &piece, g->n, NULL);
}
static tutti_status go_piece(struct given *g)
{
    const tutti_piece piece = { .offset = 8, .src = g->src, .bytes = g->n };

    return tutti_window_put_pieces(g->window, 0, &piece, 1, NULL);
}
static tutti_status go_signal(struct given *g)
{
    return tutti_window_signal(g->window, 0, g->n & ~(size_t)7, TUTTI_SIGNAL_ADD, 1);
}
static tutti_status go_put_signal(struct given *g)
{
    const tutti_rma rma = { .size = sizeof rma, .signal_op = TUTTI_SIGNAL_ADD, .signal_offset = g->n & ~(size_t)7 };

    return tutti_window_put(g->window, 0, 0, g->src, 8, &rma);
}
static tutti_status go_atomic(struct given *g)
{
    return tutti_window_atomic(g->window, 0, g->n & ~(size_t)7, 8, TUTTI_ATOMIC_ADD, 1, 0, NULL);
}
static tutti_status go_word(struct given *g)
{
    return tutti_window_test(g->window, g->n & ~(size_t)7, TUTTI_EQUAL, 1, NULL);
}
static tutti_status go_words(struct given *g)
{
    const size_t offset = 0;
    size_t index;

    return tutti_window_wait_any(g->window, &offset, g->n, TUTTI_EQUAL, 1, 1, &index, NULL);
}
static tutti_status go_wait_all(struct given *g)
{
    tutti_request *none = NULL;

    return tutti_wait_all(&none, g->n);
}
static tutti_status go_wait_any(struct given *g)
{
    tutti_request *none = NULL;
    size_t index;

    return tutti_wait_any(&none, g->n, &index);
}

static const struct {
    const char *name;
    tutti_status (*go)(struct given *g);
} calls[] = {
    { "allreduce", go_allreduce },
    { "reduce", go_reduce },
    { "reduce_scatter", go_reduce_scatter },
    { "allgather", go_allgather },
    { "broadcast", go_broadcast },
    { "gather", go_gather },
    { "scatter", go_scatter },
    { "alltoall", go_alltoall },
    { "send", go_send },
    { "recv", go_recv },
    { "group: count", go_member },
    { "group: n", go_group },
    { "allgatherv", go_allgatherv },
    { "allgatherv: displs", go_allgatherv_far },
    { "reduce_scatterv", go_reduce_scatterv },
    { "alltoallv: displs", go_alltoallv },
    { "mem_register", go_register },
    { "window_create", go_window },
    { "put", go_put },
    { "put: offset", go_put_far },
    { "get", go_get },
    { "get: offset", go_get_far },
    { "put_rows: rows", go_rows },
    { "put_rows: row_bytes", go_row },
    { "put_rows: src_stride", go_src_stride },
    { "put_rows: stride", go_stride },
    { "put_pieces: n", go_pieces },
    { "put_pieces: bytes", go_piece },
    { "signal: offset", go_signal },
    { "put: signal_offset", go_put_signal },
    { "atomic: offset", go_atomic },
    { "test: offset", go_word },
    { "wait_any: n", go_words },
    { "tutti_wait_all: n", go_wait_all },
    { "tutti_wait_any: n", go_wait_any },
};

static void sizes_role(struct rank *r)
{
    static const tutti_dtype types[] = { TUTTI_U8, TUTTI_F64 };
    struct given g = { .r = r };
    uint32_t mine = 1, sum = 0;
    void *mem;

    setenv("TUTTI_LOG", "none", 1);
    job_open(r);
    g.comm = r->comm;
    CHECK_OK(r, tutti_window_create(r->comm, NULL, WINDOW_BYTES, &g.window));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (size_t t = 0; t < 2; t++) {
                g.n = sizes[k];
                g.type = types[t];
                job_step(r, "%s of %zx, type %s", calls[i].name, g.n, tutti_dtype_name(g.type));
                CHECK_STATUS(r, calls[i].go(&g), TUTTI_ERR_INVALID);
                CHECK(r, tutti_last_error()[0]);
            }
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        job_step(r, "memory of %zx", sizes[k]);
        CHECK_STATUS(r, tutti_mem_alloc(r->comm, sizes[k], &mem), TUTTI_ERR_NOMEM);
    }
    CHECK_OK(r, tutti_allreduce(&mine, &sum, 1, TUTTI_U32, TUTTI_SUM, r->comm, NULL));
    CHECK(r, sum == r->nranks);
    CHECK_OK(r, tutti_window_free(g.window));
    job_close(r);
}

static void sizes_that_no_memory_has_are_invalid_in_every_call(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES; i++) {
        const struct job job = { .wires = wires[i], .nranks = 2, .seed = SEED };

        job_run(&job, sizes_role);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes_that_no_memory_has_are_invalid_in_every_call) };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
