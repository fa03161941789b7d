/* Sizes, counts and offsets that exceed any memory, in each public call that takes one: the call
 * fails with a message, nothing is started, and the communicator still works. */
#include <stdlib.h>
#include <string.h>
#include "job.h"
#include "support/unit.h"
#include "tutti/coordinator.h"
#include "tutti/elastic.h"
#include "tutti/hash_device.h"
#include "tutti/moe.h"

#define SEED 20261130
#define WINDOW_BYTES 4096

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

static const size_t sizes[] = {
    SIZE_MAX,     SIZE_MAX - 1,     SIZE_MAX - 4095,  SIZE_MAX / 2 + 1,
    SIZE_MAX / 2, SIZE_MAX / 4 + 1, SIZE_MAX / 8 + 1, (size_t)1 << 60,
};
/* A size that fits into a 57-bit address space, but exceeds this program's memory. It is used only
 * for buffers of the program: if the library had to allocate them, it would return NOMEM. */
#define BEYOND_MEMORY ((size_t)1 << 53)

struct given {
    struct rank *r;
    tutti_comm *comm;
    tutti_window *window;
    tutti_device *device;       /* of the window */
    tutti_moe *moe;
    tutti_run *run;             /* of this rank only */
    tutti_dtype type;
    size_t n;                   /* the size under test */
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
static tutti_status go_gatherv(struct given *g)
{
    const size_t counts[2] = { g->n, g->n };

    return tutti_gatherv(g->src, g->dst, counts, NULL, g->type, 0, g->comm, NULL);
}
static tutti_status go_scatterv(struct given *g)
{
    const size_t counts[2] = { g->n, g->n };

    return tutti_scatterv(g->src, g->dst, counts, NULL, g->type, 0, g->comm, NULL);
}
static tutti_status go_alltoallv_counts(struct given *g)
{
    const size_t counts[2] = { g->n, g->n };

    return tutti_alltoallv(g->src, counts, NULL, g->dst, counts, NULL, g->type, g->comm, NULL);
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
static tutti_status put_rows(struct given *g, size_t rows, size_t row_bytes, size_t src_stride,
                             size_t stride)
{
    const tutti_rows of = {
        .rows = rows, .row_bytes = row_bytes, .src_stride = src_stride, .stride = stride
    };

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
    const tutti_rma rma = { .size = sizeof rma,
                            .signal_op = TUTTI_SIGNAL_ADD,
                            .signal_offset = g->n & ~(size_t)7 };

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

/* Addresses at the end of the address space, with valid sizes. */
static void *far_away(const struct given *g) { return (void *)(uintptr_t)(SIZE_MAX - g->n % 1024); }
static tutti_status go_put_from_far(struct given *g)
{
    return tutti_window_put(g->window, 0, 0, far_away(g), WINDOW_BYTES, NULL);
}
static tutti_status go_get_to_far(struct given *g)
{
    return tutti_window_get(g->window, 0, 0, far_away(g), WINDOW_BYTES, NULL);
}
static tutti_status go_piece_from_far(struct given *g)
{
    const tutti_piece piece = { .src = far_away(g), .bytes = WINDOW_BYTES };

    return tutti_window_put_pieces(g->window, 0, &piece, 1, NULL);
}
static tutti_status go_register_far(struct given *g)
{
    return tutti_mem_register(g->comm, far_away(g), 1025);
}

/* Page-aligned sizes and addresses, as the call requires. */
static tutti_status register_device(struct given *g, uintptr_t mem, size_t bytes, size_t offset)
{
    const size_t page = 4096;
    const tutti_mem_device what = { .size = sizeof what,
                                    .has_dmabuf = offset != 0,
                                    .dmabuf_offset = offset & ~(page - 1) };

    return tutti_mem_register_device(g->comm, (void *)mem, bytes & ~(page - 1), &what);
}
static tutti_status go_register_device(struct given *g)
{
    return register_device(g, 8192, g->n, 0);
}
static tutti_status go_register_device_far(struct given *g)
{
    return register_device(g, SIZE_MAX - 4095, 4096 * (1 + g->n % 2), 0);
}

/* ---- elastic runs ---- */

static tutti_status run_one(struct given *g, tutti_elastic op)
{
    op.size = sizeof op;
    op.src = op.src ? op.src : g->src;
    op.dst = op.dst ? op.dst : g->dst;
    op.type = g->type;
    return tutti_run_collective(g->run, &op);
}
static tutti_status go_run_count(struct given *g)
{
    return run_one(g, (tutti_elastic){ .count = g->n });
}
static tutti_status go_run_in_place(struct given *g)    /* the run copies the input */
{
    return run_one(g, (tutti_elastic){ .count = g->n, .dst = g->src });
}
static tutti_status go_run_withheld(struct given *g)    /* the run writes zeros to dst */
{
    return run_one(
        g, (tutti_elastic){ .count = g->n, .mode = TUTTI_PARTIAL, .dst = g->src, .withholds = 1 });
}
static tutti_status go_run_all_to_all(struct given *g)
{
    return run_one(g, (tutti_elastic){ .coll = TUTTI_ALLTOALL, .count = g->n, .dst = g->src });
}
static tutti_status go_run_counts(struct given *g)
{
    return run_one(g, (tutti_elastic){ .coll = TUTTI_ALLGATHERV, .counts = &g->n });
}
static tutti_status go_run_scattered(struct given *g)
{
    return run_one(
        g, (tutti_elastic){ .coll = TUTTI_REDUCE_SCATTERV, .counts = &g->n, .dst = g->src });
}
static tutti_status go_run_displs(struct given *g)
{
    static const size_t one = 1;

    return run_one(g, (tutti_elastic){ .coll = TUTTI_ALLGATHERV, .counts = &one, .displs = &g->n });
}
static tutti_status go_run_allreduce(struct given *g)
{
    return tutti_run_allreduce(g->run, g->src, g->dst, g->n, g->type, TUTTI_SUM, 0);
}
static tutti_status go_run_batch(struct given *g)
{
    tutti_elastic op = {
        .size = sizeof op, .src = g->src, .dst = g->dst, .count = 1, .type = g->type
    };

    return tutti_run_batch(g->run, &op, g->n, 0, 1);
}
static tutti_status go_run_batch_count(struct given *g)
{
    tutti_elastic op = {
        .size = sizeof op, .src = g->src, .dst = g->dst, .count = g->n, .type = g->type
    };

    return tutti_run_batch(g->run, &op, 1, 0, 1);
}

/* ---- exchanges and layers ---- */

static tutti_status dynamic(struct given *g, const tutti_dynamic *what)
{
    static const size_t length = 1, indices[2] = { 0, 0 }, lens[2] = { 1, 1 };
    void *const recvbuffs[2] = { g->dst, g->dst + 32 };
    tutti_dynamic mine = *what;

    mine.size = sizeof mine;
    mine.sendbuff = what->sendbuff ? what->sendbuff : g->src;
    mine.split_lengths = what->split_lengths ? what->split_lengths : &length;
    mine.nsplits = what->nsplits ? what->nsplits : 1;
    mine.indices = indices;
    mine.index_block_lens = what->index_block_lens ? what->index_block_lens : lens;
    mine.recvbuffs = what->recvbuffs ? what->recvbuffs : recvbuffs;
    mine.max_length = what->max_length ? what->max_length : 1;
    return tutti_alltoallv_dynamic(&mine, g->type, g->comm, NULL);
}
static tutti_status go_nsplits(struct given *g)
{
    return dynamic(g, &(tutti_dynamic){ .nsplits = g->n });
}
static tutti_status go_max_length(struct given *g)
{
    return dynamic(g, &(tutti_dynamic){ .max_length = g->n });
}
static tutti_status go_max_total(struct given *g)
{
    return dynamic(g, &(tutti_dynamic){ .max_total = g->n });
}
static tutti_status go_index_lens(struct given *g)
{
    const size_t lens[2] = { g->n, 1 };

    return dynamic(g, &(tutti_dynamic){ .index_block_lens = lens });
}
static tutti_status go_far_recvbuff(struct given *g)
{
    void *const recvbuffs[2] = { g->dst, far_away(g) };

    return dynamic(g, &(tutti_dynamic){ .recvbuffs = recvbuffs, .max_length = 1025 });
}
static tutti_status go_far_sendbuff(struct given *g)
{
    static double room[2][1025];
    static const size_t length = 1025;
    void *const recvbuffs[2] = { room[0], room[1] };

    return dynamic(g, &(tutti_dynamic){ .sendbuff = far_away(g),
                                        .split_lengths = &length,
                                        .recvbuffs = recvbuffs,
                                        .max_length = 1025 });
}

static tutti_status replay(struct given *g, size_t nsplits, size_t max_length, size_t max_total)
{
    const tutti_replay_conf conf = {
        .size = sizeof conf,
        .nsplits = nsplits,
        .max_length = max_length,
        .max_total = max_total,
        .type = g->type,
        .depth = 8,
    };
    tutti_replay *out;

    return tutti_replay_create(g->comm, &conf, &out);
}
static tutti_status go_replay_nsplits(struct given *g) { return replay(g, g->n, 1, 0); }
static tutti_status go_replay_length(struct given *g) { return replay(g, 1, g->n, 0); }
static tutti_status go_replay_total(struct given *g) { return replay(g, 1, 1, g->n); }
static tutti_status go_replay_sets(struct given *g)     /* one set fits */
{
    return replay(g, 1, 1, ((size_t)1 << 57) / tutti_dtype_bytes(g->type) / 2 / (1 + g->n % 4));
}

/* ---- devices ---- */

struct device_call {
    const struct given *g;
    int which;
};

static tutti_status device_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                                  void *arg)
{
    const struct device_call *c = arg;
    const uint64_t n = c->g->n, word = n & ~7ull;
    uint32_t sum[4] = { 0 };

    switch (c->which) {
    case 0:
        return tutti_device_put(v, 0, 8, c->g->src, n);
    case 1:
        return tutti_device_put(v, 0, n, c->g->src, 8);
    case 2:
        return tutti_device_put_signal(v, 0, 0, c->g->src, 8, TUTTI_SIGNAL_ADD, word, 1);
    case 3:
        return tutti_device_put_signal(v, 0, n, c->g->src, 8, TUTTI_SIGNAL_ADD, 0, 1);
    case 4:
        return tutti_device_signal(v, 0, TUTTI_SIGNAL_ADD, word, 1);
    case 5:
        return tutti_device_poll(v, word, TUTTI_EQUAL, 1, NULL);
    case 6:
        return tutti_device_wait(v, word, TUTTI_EQUAL, 1, NULL);
    case 7:
        return tutti_device_group_publish(v, (uint32_t)(n | 1));
    case 8:
        return tutti_device_raise_flag(v, (uint32_t)(n | 1), 1);
    case 9:
        return tutti_hash_blocks(block, nblocks, (const void *)UINTPTR_MAX, n, 0, sum);
    default:
        return tutti_hash_blocks(0, 0, c->g->src, 64, 0, sum);
    }
}
static tutti_status device(struct given *g, int which)
{
    struct device_call c = { .g = g, .which = which };

    return tutti_device_run(g->device, 1, device_kernel, &c);
}
static tutti_status go_device_put(struct given *g) { return device(g, 0); }
static tutti_status go_device_put_far(struct given *g) { return device(g, 1); }
static tutti_status go_device_put_word(struct given *g) { return device(g, 2); }
static tutti_status go_device_put_signal(struct given *g) { return device(g, 3); }
static tutti_status go_device_signal(struct given *g) { return device(g, 4); }
static tutti_status go_device_poll(struct given *g) { return device(g, 5); }
static tutti_status go_device_wait(struct given *g) { return device(g, 6); }
static tutti_status go_device_group(struct given *g) { return device(g, 7); }
static tutti_status go_device_raise(struct given *g) { return device(g, 8); }
static tutti_status go_hash_far(struct given *g) { return device(g, 9); }
static tutti_status go_hash_no_blocks(struct given *g) { return device(g, 10); }

static uint32_t beyond(const struct given *g) { return (uint32_t)g->n | 1u << 31; }
static tutti_status go_device_run(struct given *g)
{
    return tutti_device_run(g->device, beyond(g), device_kernel, NULL);
}
static tutti_status go_device_flag(struct given *g)
{
    uint64_t *flag;

    return tutti_device_flag(g->device, beyond(g), &flag);
}
static tutti_status open_device(struct given *g, tutti_device_conf conf)
{
    tutti_device *out;

    conf.size = sizeof conf;
    return tutti_device_create(g->window, &conf, &out);
}
static tutti_status go_fifo(struct given *g)
{
    return open_device(g, (tutti_device_conf){ .fifo_slots = beyond(g) & 1u << 31 });
}
static tutti_status go_groups(struct given *g)
{
    return open_device(g, (tutti_device_conf){ .groups = beyond(g) });
}
static tutti_status go_flags(struct given *g)
{
    return open_device(g, (tutti_device_conf){ .flags = beyond(g) });
}
static tutti_status go_pending(struct given *g)
{
    return open_device(g, (tutti_device_conf){ .pending = beyond(g) });
}

static tutti_status layer(struct given *g, tutti_moe_conf change)
{
    const tutti_moe_conf conf = {
        .size = sizeof conf,
        .hidden = change.hidden ? change.hidden : 4,
        .experts = change.experts ? change.experts : 4,
        .top_k = change.top_k ? change.top_k : 1,
        .max_tokens = change.max_tokens ? change.max_tokens : 4,
        .tile_tokens = change.tile_tokens,
        .nheld = change.nheld,
        .held = (const uint32_t *)(const void *)g->src,
        .type = TUTTI_F32,
        .there = TUTTI_F32,
        .back = TUTTI_F32,
    };
    tutti_moe *out;

    return tutti_moe_create(g->comm, &conf, &out);
}
static tutti_status go_hidden(struct given *g)
{
    return layer(g, (tutti_moe_conf){ .hidden = beyond(g) });
}
static tutti_status go_experts(struct given *g)
{
    return layer(g, (tutti_moe_conf){ .experts = beyond(g) });
}
static tutti_status go_top_k(struct given *g)
{
    return layer(g, (tutti_moe_conf){ .top_k = beyond(g) });
}
static tutti_status go_max_tokens(struct given *g)
{
    return layer(g, (tutti_moe_conf){ .max_tokens = beyond(g) });
}
static tutti_status go_tile_tokens(struct given *g)
{
    return layer(g, (tutti_moe_conf){ .tile_tokens = beyond(g) });
}
static tutti_status go_nheld(struct given *g)
{
    return layer(g, (tutti_moe_conf){ .nheld = beyond(g) });
}
static tutti_status go_tokens(struct given *g)          /* on all ranks; the layer remains usable */
{
    const tutti_moe_routing routing = {
        .size = sizeof routing,
        .tokens = g->src,
        .ntokens = g->n,
        .experts = (const uint32_t *)(const void *)g->src,
        .weights = (const float *)(const void *)g->src,
    };

    return tutti_moe_dispatch(g->moe, &routing, 0);
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
    { "gatherv", go_gatherv },
    { "scatterv", go_scatterv },
    { "alltoallv", go_alltoallv_counts },
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
    { "put: src", go_put_from_far },
    { "get: dst", go_get_to_far },
    { "put_pieces: src", go_piece_from_far },
    { "mem_register: mem", go_register_far },
    { "mem_register_device: bytes", go_register_device },
    { "mem_register_device: mem", go_register_device_far },
    { "run_collective: count", go_run_count },
    { "run_collective: count in place", go_run_in_place },
    { "run_collective: count withheld", go_run_withheld },
    { "run_collective: count of alltoall", go_run_all_to_all },
    { "run_collective: counts", go_run_counts },
    { "run_collective: counts of reduce_scatterv", go_run_scattered },
    { "run_collective: displs", go_run_displs },
    { "run_allreduce: count", go_run_allreduce },
    { "run_batch: n", go_run_batch },
    { "run_batch: count", go_run_batch_count },
    { "dynamic: nsplits", go_nsplits },
    { "dynamic: max_length", go_max_length },
    { "dynamic: max_total", go_max_total },
    { "dynamic: index_block_lens", go_index_lens },
    { "dynamic: recvbuffs", go_far_recvbuff },
    { "dynamic: sendbuff", go_far_sendbuff },
    { "replay: nsplits", go_replay_nsplits },
    { "replay: max_length", go_replay_length },
    { "replay: max_total", go_replay_total },
    { "replay: depth", go_replay_sets },
    { "device_put: bytes", go_device_put },
    { "device_put: offset", go_device_put_far },
    { "device_put_signal: word", go_device_put_word },
    { "device_put_signal: offset", go_device_put_signal },
    { "device_signal", go_device_signal },
    { "device_poll", go_device_poll },
    { "device_wait", go_device_wait },
    { "device_group_publish", go_device_group },
    { "device_raise_flag", go_device_raise },
    { "device_flag", go_device_flag },
    { "device_run: nblocks", go_device_run },
    { "hash_blocks: data", go_hash_far },
    { "hash_blocks: nblocks", go_hash_no_blocks },
    { "device: fifo_slots", go_fifo },
    { "device: groups", go_groups },
    { "device: flags", go_flags },
    { "device: pending", go_pending },
    { "moe: hidden", go_hidden },
    { "moe: experts", go_experts },
    { "moe: top_k", go_top_k },
    { "moe: max_tokens", go_max_tokens },
    { "moe: tile_tokens", go_tile_tokens },
    { "moe: nheld", go_nheld },
    { "moe_dispatch: ntokens", go_tokens },
};

static void check_call(struct given *g, size_t call, size_t n, tutti_dtype type)
{
    g->n = n;
    g->type = type;
    job_step(g->r, "%s of %zx, type %s", calls[call].name, n, tutti_dtype_name(type));
    CHECK_STATUS(g->r, calls[call].go(g), TUTTI_ERR_INVALID);
    CHECK(g->r, tutti_last_error()[0]);
}

/* A run of this rank alone, with its coordinator. */
static void open_run(struct given *g, tutti_coordinator **coordinator)
{
    const tutti_coordinator_conf open = { .size = sizeof open, .insecure = 1 };
    tutti_run_conf conf = { .size = sizeof conf, .insecure = 1 };
    tutti_view view = { .size = sizeof view };

    /* insecure: data over libfabric cannot be encrypted */
    CHECK_OK(g->r, tutti_coordinator_create(coordinator, &open));
    conf.coordinators = tutti_coordinator_address(*coordinator, 0);
    CHECK_OK(g->r, tutti_run_join(&g->run, &conf));
    CHECK_OK(g->r, tutti_run_epoch(g->run, TUTTI_ADMIT, 1, 1, 0, &view));
}

static void sizes_role(struct rank *r)
{
    static const tutti_dtype types[] = { TUTTI_U8, TUTTI_F64 };
    const tutti_moe_conf layer_conf = {
        .size = sizeof layer_conf,
        .form = TUTTI_MOE_COLLECTIVE,
        .hidden = 4,
        .experts = 4,
        .top_k = 1,
        .max_tokens = 4,
        .type = TUTTI_F32,
        .there = TUTTI_F32,
        .back = TUTTI_F32,
    };
    struct given g = { .r = r };
    uint32_t mine = 1, sum = 0;
    tutti_coordinator *coordinator;
    void *mem;

    setenv("TUTTI_LOG", "none", 1);
    job_open(r);
    g.comm = r->comm;
    CHECK_OK(r, tutti_window_create(r->comm, NULL, WINDOW_BYTES, &g.window));
    CHECK_OK(r, tutti_device_create(g.window, NULL, &g.device));
    CHECK_OK(r, tutti_moe_create(r->comm, &layer_conf, &g.moe));
    open_run(&g, &coordinator);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (size_t t = 0; t < 2; t++)
                check_call(&g, i, sizes[k], types[t]);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strncmp(calls[i].name, "run_", 4) && calls[i].go != go_run_batch)
            check_call(&g, i, BEYOND_MEMORY, TUTTI_U8);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        job_step(r, "memory of %zx", sizes[k]);
        CHECK_STATUS(r, tutti_mem_alloc(r->comm, sizes[k], &mem), TUTTI_ERR_NOMEM);
    }
    CHECK_OK(r, tutti_allreduce(&mine, &sum, 1, TUTTI_U32, TUTTI_SUM, r->comm, NULL));
    CHECK(r, sum == r->nranks);
    CHECK_OK(r, tutti_run_allreduce(g.run, &mine, &sum, 1, TUTTI_U32, TUTTI_SUM, 0));
    CHECK(r, sum == 1);
    tutti_run_destroy(g.run);
    tutti_coordinator_destroy(coordinator);
    CHECK_OK(r, tutti_moe_free(g.moe));
    CHECK_OK(r, tutti_device_destroy(g.device));
    CHECK_OK(r, tutti_window_free(g.window));
    job_close(r);
}

static void impossible_sizes_are_invalid_everywhere(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES; i++) {
        const struct job job = { .wires = wires[i], .nranks = 2, .seed = SEED };

        job_run(&job, sizes_role);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(impossible_sizes_are_invalid_everywhere) };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
