/* Operations on device memory have the same results as on host memory. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"

#define SEED 12345

/* One collective on all ranks of a world. */
struct scenario {
    struct world *w;
    tutti_gpu_kind kind;
    tutti_dtype type;
    tutti_redop op;
    int root;
    size_t count;
    bool in_place;
};

static const char *const kinds[] = { "allreduce", "reduce", "reduce_scatter", "allgather",
                                     "broadcast", "gather", "scatter", "alltoall" };

/* Returns the number of blocks of `count` elements in a source or destination buffer. */
static size_t rows_of(const struct scenario *s, bool dst)
{
    const size_t n = (size_t)s->w->n;

    switch (s->kind) {
    case TUTTI_GPU_REDUCE_SCATTER:
    case TUTTI_GPU_SCATTER:
        return dst ? 1 : n;
    case TUTTI_GPU_ALLGATHER:
    case TUTTI_GPU_GATHER:
        return dst ? n : 1;
    case TUTTI_GPU_ALLTOALL:
        return n;
    default:
        return 1;
    }
}

/* Writes 1 or 2 as a value of the type: sums and products of four ranks are exact in every type. */
static void put_number(void *at, tutti_dtype type, unsigned value)
{
    static const uint16_t f16[] = { 0, 0x3c00, 0x4000 }, bf16[] = { 0, 0x3f80, 0x4000 };
    static const uint8_t e4m3[] = { 0, 0x38, 0x40 }, e5m2[] = { 0, 0x3c, 0x40 };
    const float f32 = (float)value;
    const double f64 = value;
    const uint64_t integer = value;         /* little endian */
    const void *from = &integer;

    if (type == TUTTI_F16 || type == TUTTI_BF16)
        from = type == TUTTI_F16 ? &f16[value] : &bf16[value];
    else if (type == TUTTI_F8E4M3 || type == TUTTI_F8E5M2)
        from = type == TUTTI_F8E4M3 ? &e4m3[value] : &e5m2[value];
    else if (type == TUTTI_F32 || type == TUTTI_F64)
        from = type == TUTTI_F32 ? (const void *)&f32 : (const void *)&f64;
    memcpy(at, from, tutti_dtype_bytes(type));
}

static void fill(char *buf, size_t count, tutti_dtype type, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1103515245u + 12345u;
        put_number(buf + i * tutti_dtype_bytes(type), type, 1 + (seed >> 16) % 2);
    }
}

static tutti_status call_host(const struct scenario *s, int r, void *src, void *dst,
                              tutti_request **request)
{
    const tutti_call call = { .size = sizeof call, .request = request, .scale = 2.0 };
    tutti_comm *comm = s->w->host[r];

    switch (s->kind) {
    case TUTTI_GPU_ALLREDUCE:
        return tutti_allreduce(src, dst, s->count, s->type, s->op, comm, &call);
    case TUTTI_GPU_REDUCE:
        return tutti_reduce(src, dst, s->count, s->type, s->op, s->root, comm, &call);
    case TUTTI_GPU_REDUCE_SCATTER:
        return tutti_reduce_scatter(src, dst, s->count, s->type, s->op, comm, &call);
    case TUTTI_GPU_ALLGATHER:
        return tutti_allgather(src, dst, s->count, s->type, comm, &call);
    case TUTTI_GPU_BROADCAST:
        return tutti_broadcast(src, dst, s->count, s->type, s->root, comm, &call);
    case TUTTI_GPU_GATHER:
        return tutti_gather(src, dst, s->count, s->type, s->root, comm, &call);
    case TUTTI_GPU_SCATTER:
        return tutti_scatter(src, dst, s->count, s->type, s->root, comm, &call);
    default:
        return tutti_alltoall(src, dst, s->count, s->type, comm, &call);
    }
}

/* Buffers of all ranks: inputs, reference results, results; on the host and on the devices. */
struct buffers {
    size_t src_bytes, dst_bytes;
    char *src[WORLD_RANKS], *expected[WORLD_RANKS], *got;
    char *device_src[WORLD_RANKS], *device_dst[WORLD_RANKS];
};

/* Returns the offset of the smaller buffer in the larger one, for calls in place. */
static size_t own_block(const struct scenario *s, int r)
{
    return (size_t)r * s->count * tutti_dtype_bytes(s->type);
}

static void place_on_device(const struct scenario *s, struct buffers *b, int r)
{
    const bool dst_larger = b->dst_bytes > b->src_bytes;
    char *whole;

    if (!s->in_place) {
        b->device_src[r] = world_alloc(s->w, r, b->src_bytes + 1, 0);
        b->device_dst[r] = world_alloc(s->w, r, b->dst_bytes + 1, 0x5a);
        world_write(s->w, r, b->device_src[r], b->src[r], b->src_bytes);
        return;
    }
    whole = world_alloc(s->w, r, (dst_larger ? b->dst_bytes : b->src_bytes) + 1, 0x5a);
    b->device_src[r] = whole + (dst_larger ? own_block(s, r) : 0);
    b->device_dst[r] = whole + (b->dst_bytes < b->src_bytes ? own_block(s, r) : 0);
    world_write(s->w, r, b->device_src[r], b->src[r], b->src_bytes);
}

static void open_buffers(const struct scenario *s, struct buffers *b)
{
    const size_t elem = tutti_dtype_bytes(s->type);

    b->src_bytes = rows_of(s, false) * s->count * elem;
    b->dst_bytes = rows_of(s, true) * s->count * elem;
    b->got = malloc(b->dst_bytes + 1);
    for (int r = 0; r < s->w->n; r++) {
        b->src[r] = malloc(b->src_bytes + 1);
        b->expected[r] = malloc(b->dst_bytes + 1);
        fill(b->src[r], b->src_bytes / elem, s->type, SEED + (unsigned)r);
        memset(b->expected[r], 0x5a, b->dst_bytes + 1);
        place_on_device(s, b, r);
    }
}

static void close_buffers(const struct scenario *s, struct buffers *b)
{
    for (int r = 0; r < s->w->n; r++) {
        free(b->src[r]);
        free(b->expected[r]);
        if (!s->in_place)
            world_free(s->w, r, b->device_src[r]);
        world_free(s->w, r,
                   s->in_place && b->device_src[r] < b->device_dst[r] ? b->device_src[r]
                                                                      : b->device_dst[r]);
    }
    free(b->got);
}

static void run_on_host(const struct scenario *s, struct buffers *b)
{
    tutti_request *requests[WORLD_RANKS];

    for (int r = 0; r < s->w->n; r++)
        assert_ok(call_host(s, r, b->src[r], b->expected[r], &requests[r]));
    assert_ok(tutti_wait_all(requests, (size_t)s->w->n));
}

static bool has_result(const struct scenario *s, int r)
{
    return (s->kind != TUTTI_GPU_REDUCE && s->kind != TUTTI_GPU_GATHER) || r == s->root;
}

static void run_on_devices(const struct scenario *s, struct buffers *b)
{
    tutti_gpu_op ops[WORLD_RANKS];

    for (int r = 0; r < s->w->n; r++)
        ops[r] = (tutti_gpu_op){ .size = sizeof *ops,
                                 .kind = s->kind,
                                 .gpu = s->w->gpu[r],
                                 .stream = s->w->stream[r],
                                 .src = b->device_src[r],
                                 .dst = b->device_dst[r],
                                 .count = s->count,
                                 .type = s->type,
                                 .op = s->op,
                                 .root = s->root,
                                 .scale = 2.0 };
    assert_ok(tutti_gpu_group(ops, (size_t)s->w->n));
    for (int r = 0; r < s->w->n; r++) {
        if (!has_result(s, r))
            continue;
        world_read(s->w, r, b->got, b->device_dst[r], b->dst_bytes);
        assert_ok(tutti_gpu_status(s->w->gpu[r]));
        if (memcmp(b->got, b->expected[r], b->dst_bytes))
            fail_msg("%s of %zu %s (%s), root %d, in place %d, %d ranks: rank %d differs, seed %d",
                     kinds[s->kind], s->count, tutti_dtype_name(s->type), tutti_redop_name(s->op),
                     s->root, s->in_place, s->w->n, r, SEED);
    }
    for (int r = 0; r < s->w->n; r++)
        world_sync(s->w, r);
}

static void check(const struct scenario *s)
{
    struct buffers b = { 0 };

    open_buffers(s, &b);
    run_on_host(s, &b);
    run_on_devices(s, &b);
    close_buffers(s, &b);
}

static bool is_reduction(tutti_gpu_kind kind)
{
    return kind <= TUTTI_GPU_REDUCE_SCATTER;
}

static bool is_defined(tutti_dtype type, tutti_redop op)
{
    return type < TUTTI_F16 || op < TUTTI_BAND || op == TUTTI_PREMUL_SUM;
}

static void all_types_and_operations_give_the_results_of_host_memory(void **state)
{
    struct world w;

    (void)state;
    world_open(&w, 4, NULL);
    for (unsigned kind = 0; kind <= TUTTI_GPU_ALLTOALL; kind++)
        for (unsigned type = 0; type < TUTTI_DTYPE_COUNT; type++)
            for (unsigned op = 0; op < (is_reduction(kind) ? TUTTI_REDOP_COUNT : 1u); op++) {
                const struct scenario s = { .w = &w, .kind = kind, .type = type, .op = op,
                                            .root = (int)(type % 4), .count = 100 + type,
                                            .in_place = (type + op) % 2 };

                if (is_defined(type, op) && unit_draw())
                    check(&s);
            }
    world_close(&w);
}

/* Chunks of 4096 bytes: 20,000 elements take at least 20 chunks; other sizes are near the end of a
 * chunk. */
static void check_chunks(int n, bool pulled)
{
    static const size_t counts[] = { 0, 1, 1023, 1024, 1025, 20000 };
    const tutti_gpu_conf conf = { .chunk_bytes = 4096, .chunks = 3 };
    struct world w;

    world_open(&w, n, &conf);
    for (int r = 0; r < n; r++)
        w.gpu[r]->no_pull = !pulled;
    for (unsigned kind = 0; kind <= TUTTI_GPU_ALLTOALL; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            for (int in_place = 0; in_place < 2; in_place++) {
                const struct scenario s = { .w = &w,
                                            .kind = kind,
                                            .type = TUTTI_F32,
                                            .op = TUTTI_SUM,
                                            .root = n - 1,
                                            .count = counts[i],
                                            .in_place = in_place };
                const bool must_be_pulled = pulled && n > 1 && counts[i] == 20000 &&
                                            !is_reduction(kind) &&
                                            !(kind == TUTTI_GPU_ALLTOALL && in_place);
                const uint64_t before = atomic_load(&w.gpu[0]->npulled);

                if (!unit_draw())
                    continue;
                check(&s);
                if (counts[i] == 20000)
                    assert_int_equal(atomic_load(&w.gpu[0]->npulled) - before, must_be_pulled);
            }
    world_close(&w);
}

static void chunks_of_all_sizes_are_put_together(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++)
        check_chunks(n, false);
}

static void long_collectives_are_copied_between_devices(void **state)
{
    (void)state;
    setenv("TUTTI_GPU_PEER_COPIES", "1", 1);
    for (int n = 1; n <= 3; n++)
        check_chunks(n, true);
    unsetenv("TUTTI_GPU_PEER_COPIES");
}

static void eight_ranks_are_driven_by_one_thread(void **state)
{
    struct world w;

    (void)state;
    world_open(&w, 8, NULL);
    for (unsigned kind = 0; kind <= TUTTI_GPU_ALLTOALL; kind++) {
        const struct scenario s = {
            .w = &w, .kind = kind, .type = TUTTI_I64, .op = TUTTI_MAX, .root = 5, .count = 4000
        };

        check(&s);
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_types_and_operations_give_the_results_of_host_memory),
        cmocka_unit_test(chunks_of_all_sizes_are_put_together),
        cmocka_unit_test(long_collectives_are_copied_between_devices),
        cmocka_unit_test(eight_ranks_are_driven_by_one_thread),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
