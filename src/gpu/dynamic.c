#include "gpu/dynamic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/options.h"
#include "gpu/check.h"
#include "gpu/staged.h"

#define CALL "tutti_gpu_alltoallv_dynamic"
#define SPLITS_MAX 65536u
#define LENGTH_MAX ((size_t)1 << 40)
#define ALIGN 64u

/* ---- arguments ---- */

/* If only one rank rejected the algorithm later, the other ranks would wait. */
static tutti_status check_algo(const char *algo)
{
    if (!algo || strcmp(algo, "heads_direct") == 0 || strcmp(algo, "heads_gathered") == 0)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID,
                   CALL ": unknown algorithm \"%.80s\" (use heads_direct or heads_gathered)", algo);
}

static tutti_status check_values(const tutti_dynamic *what, size_t elem, size_t nranks)
{
    const char *missing = !what->split_lengths      ? "split_lengths"
                          : !what->index_block_lens ? "index_block_lens"
                          : !what->recvbuffs        ? "recvbuffs"
                                                    : NULL;
    uint64_t bytes;

    if (missing)
        return tt_fail(TUTTI_ERR_INVALID, CALL ": %s is NULL", missing);
    if (what->start || what->over)
        return tt_fail(TUTTI_ERR_INVALID,
                       CALL ": %s is %p: must be NULL (the stream defines start and end)",
                       what->start ? "start" : "over",
                       what->start ? (const void *)what->start : (const void *)what->over);
    if (what->nsplits < 1 || what->nsplits > SPLITS_MAX)
        return tt_fail(TUTTI_ERR_INVALID, CALL ": nsplits is %zu: must be 1 to %u", what->nsplits,
                       SPLITS_MAX);
    if (what->max_length > LENGTH_MAX)
        return tt_fail(TUTTI_ERR_INVALID, CALL ": max_length is %zu: the maximum is 2^40",
                       what->max_length);
    if (!tt_bytes_of(what->max_total, (uint64_t)elem * (nranks + 1), &bytes))
        return tt_fail(TUTTI_ERR_INVALID,
                       CALL ": max_total of %zu elements does not fit in the address space",
                       what->max_total);
    return TUTTI_OK;
}

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

    return (x > y) - (x < y);
}

/* Checks that the receive buffers, of `bytes` each, do not overlap each other or the beginning of
 * sendbuff. */
static tutti_status check_apart(const tutti_dynamic *what, size_t nranks, size_t bytes)
{
    uintptr_t *sorted = calloc(nranks, sizeof *sorted);
    tutti_status st = TUTTI_OK;

    if (!sorted)
        return tt_fail(TUTTI_ERR_NOMEM, CALL ": out of memory");
    for (size_t r = 0; r < nranks; r++)
        sorted[r] = (uintptr_t)what->recvbuffs[r];
    qsort(sorted, nranks, sizeof *sorted, by_address);
    for (size_t r = 0; r < nranks && !st && bytes; r++) {
        if (r && sorted[r] - sorted[r - 1] < bytes)
            st = tt_fail(TUTTI_ERR_INVALID,
                         CALL ": the receive buffers at %p and %p overlap: each has %zu bytes "
                              "(max_total)",
                         (void *)sorted[r - 1], (void *)sorted[r], bytes);
        else if (tt_overlap(what->sendbuff, 1, (void *)sorted[r], bytes))
            st = tt_fail(TUTTI_ERR_INVALID, CALL ": sendbuff %p overlaps the receive buffer at %p",
                         what->sendbuff, (void *)sorted[r]);
    }
    free(sorted);
    return st;
}

/* Checks the memory. The sizes of indices and sendbuff are in the lists, so only the first bytes
 * are checked. NULL is checked by tutti_alltoallv_dynamic, because it may be valid. */
static tutti_status check_memory(const tutti_gpu_op *op, const tutti_dynamic *what, size_t nranks)
{
    const size_t word = sizeof(size_t), elem = tutti_dtype_bytes(op->type);
    const size_t bytes = what->max_total * elem;
    tutti_status st =
        tt_gpu_check_buffer(op, "split_lengths", what->split_lengths, what->nsplits * word);

    if (!st)
        st = tt_gpu_check_buffer(op, "index_block_lens", what->index_block_lens, nranks * word);
    if (!st && what->indices)
        st = tt_gpu_check_buffer(op, "indices", what->indices, word);
    if (!st && what->sendbuff)
        st = tt_gpu_check_buffer(op, "sendbuff", what->sendbuff, bytes ? elem : 0);
    if (!st && what->nindices)
        st = tt_gpu_check_buffer(op, "nindices", what->nindices, word);
    if (!st && what->recv_all_split_lengths)
        st = tt_gpu_check_buffer(op, "recv_all_split_lengths", what->recv_all_split_lengths,
                                 nranks * what->nsplits * word);
    for (size_t r = 0; r < nranks && !st; r++)
        st = tt_gpu_check_buffer(op, "recvbuffs", what->recvbuffs[r], bytes);
    return st ? st : check_apart(what, nranks, bytes);
}

tutti_status tt_gpu_dynamic_take(struct tt_gpu_item *item, const tutti_gpu_op *op)
{
    const size_t nranks = (size_t)tutti_comm_size(op->gpu->comm);
    const size_t elem = tutti_dtype_bytes(op->type);
    tutti_dynamic mine = { .size = sizeof mine };
    tutti_status st = TUTTI_OK;
    void **recvbuffs;

    if (!op->dynamic)
        return tt_fail(TUTTI_ERR_INVALID, CALL ": what is NULL");
    st = tt_options_take(&mine, sizeof mine, sizeof mine, op->dynamic, CALL, "what",
                         "tutti_dynamic");
    if (!st)
        st = check_algo(op->algo);
    if (!st && !mine.max_total && mine.nsplits <= SPLITS_MAX && mine.max_length <= LENGTH_MAX)
        mine.max_total = mine.nsplits * mine.max_length;
    if (!st)
        st = check_values(&mine, elem, nranks);
    if (!st)
        st = check_memory(op, &mine, nranks);
    if (st)
        return st;
    item->dynamic = malloc(sizeof *item->dynamic + nranks * sizeof *recvbuffs);
    if (!item->dynamic)
        return tt_fail(TUTTI_ERR_NOMEM, CALL ": out of memory");
    recvbuffs = (void **)(void *)(item->dynamic + 1);
    memcpy(recvbuffs, mine.recvbuffs, nranks * sizeof *recvbuffs);
    *item->dynamic = mine;
    item->dynamic->recvbuffs = recvbuffs;
    return TUTTI_OK;
}

/* ---- an exchange ---- */

struct exchange {
    tutti_gpu *gpu;
    const struct tt_gpu_item *item;
    const tutti_dynamic *on_device;
    size_t nranks, nsplits, elem, set_bytes;    /* set: a bit per piece */
    /* pinned memory */
    size_t *lengths, *block_lens, *nindices, *indices;      /* [nsplits], [nranks], 1,
                                                               [nranks * nsplits] */
    size_t *all_lengths;                        /* [nranks][nsplits] */
    uint8_t *listed, *coming;                   /* [nranks][set_bytes] to and from each rank */
    char *send, **recv;                         /* [max_total]; [nranks] pointers to such buffers */
    uint64_t began_ns;
};

/* Returns the memory at the offset *at, and advances it. mem may be NULL. */
static void *take(char *mem, size_t *at, size_t bytes)
{
    char *taken = mem ? mem + *at : NULL;

    *at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return taken;
}

/* Divides mem, and returns the number of used bytes. If mem is NULL, returns only the number. */
static size_t place(struct exchange *x, char *mem)
{
    size_t at = 0;
    const size_t word = sizeof(size_t), pieces = x->nranks * x->nsplits;
    const size_t bytes = x->on_device->max_total * x->elem;

    x->lengths = take(mem, &at, x->nsplits * word);
    x->block_lens = take(mem, &at, x->nranks * word);
    x->nindices = take(mem, &at, word);
    x->indices = take(mem, &at, pieces * word);
    x->all_lengths = take(mem, &at, pieces * word);
    x->listed = take(mem, &at, x->nranks * x->set_bytes);
    x->coming = take(mem, &at, x->nranks * x->set_bytes);
    x->recv = take(mem, &at, x->nranks * sizeof(char *));
    x->send = take(mem, &at, bytes);
    return at;
}

static struct exchange exchange_of(const struct tt_gpu_item *item)
{
    return (struct exchange){ .gpu = item->op.gpu,
                              .item = item,
                              .on_device = item->dynamic,
                              .nranks = (size_t)tutti_comm_size(item->op.gpu->comm),
                              .nsplits = item->dynamic->nsplits,
                              .elem = tutti_dtype_bytes(item->op.type),
                              .set_bytes = (item->dynamic->nsplits + 7) / 8 };
}

/* Size of a receive buffer in pinned memory. */
static size_t pitch_of(const struct exchange *x)
{
    return (x->on_device->max_total * x->elem + ALIGN - 1) / ALIGN * ALIGN;
}

size_t tt_gpu_dynamic_bytes(const struct tt_gpu_item *item)
{
    struct exchange x = exchange_of(item);

    return place(&x, NULL) + x.nranks * pitch_of(&x);
}

static tt_cuda_result copy(const struct exchange *x, void *to, const void *from, size_t bytes,
                           tt_cuda_stream stream)
{
    return bytes ? x->gpu->cu->copy(tt_cuda_address_of(to), tt_cuda_address_of(from), bytes, stream)
                 : 0;
}

/* Reads the lists, except the indices. */
static tt_cuda_result read_lists(const struct exchange *x)
{
    const tutti_dynamic *d = x->on_device;
    const tt_cuda_stream in = x->gpu->in;
    const size_t word = sizeof(size_t);
    tt_cuda_result error = copy(x, x->lengths, d->split_lengths, x->nsplits * word, in);

    if (!error)
        error = copy(x, x->block_lens, d->index_block_lens, x->nranks * word, in);
    if (!error && d->nindices)
        error = copy(x, x->nindices, d->nindices, word, in);
    return error ? error : x->gpu->cu->stream_synchronize(in);
}

/* Reads the indices, and records which pieces are listed for each rank. If the indices do not fit,
 * a wrong count is passed to tutti_alltoallv_dynamic, so that all ranks return an error. It also
 * checks the indices themselves. */
static tt_cuda_result read_indices(const struct exchange *x, bool *fits)
{
    const size_t most = x->nranks * x->nsplits;
    size_t n = 0, at = 0;
    tt_cuda_result error;

    for (size_t r = 0; r < x->nranks && n <= most; r++)
        n = x->block_lens[r] > most ? most + 1 : n + x->block_lens[r];
    *fits = n <= most;
    memset(x->listed, 0, x->nranks * x->set_bytes);
    if (!*fits || !x->on_device->nindices)
        *x->nindices = *fits ? n : most;
    if (!*fits || !x->on_device->indices)
        return 0;
    error = copy(x, x->indices, x->on_device->indices, n * sizeof(size_t), x->gpu->in);
    if (!error)
        error = x->gpu->cu->stream_synchronize(x->gpu->in);
    for (size_t r = 0; r < x->nranks && !error; r++)
        for (const size_t end = at + x->block_lens[r]; at < end; at++)
            if (x->indices[at] < x->nsplits)
                x->listed[r * x->set_bytes + x->indices[at] / 8] |=
                    (uint8_t)(1u << x->indices[at] % 8);
    return error;
}

/* Whether the lengths are within the declared maxima. */
static bool lengths_fit(const struct exchange *x)
{
    size_t total = 0;

    for (size_t i = 0; i < x->nsplits; i++) {
        if (x->lengths[i] > x->on_device->max_length)
            return false;
        total += x->lengths[i];
    }
    return total <= x->on_device->max_total;
}

/* Copies the pieces of a set between buffers with the same offsets; adjacent ones in one copy. */
static tt_cuda_result copy_pieces(const struct exchange *x, char *to, const char *from,
                                  const size_t *lengths, const uint8_t *set, tt_cuda_stream stream)
{
    size_t at = 0, begin = 0;
    tt_cuda_result error = 0;

    for (size_t i = 0; i < x->nsplits && !error; i++) {
        if (!(set[i / 8] >> i % 8 & 1)) {
            error = copy(x, to + begin, from + begin, at - begin, stream);
            begin = at + lengths[i] * x->elem;
        }
        at += lengths[i] * x->elem;
    }
    return error ? error : copy(x, to + begin, from + begin, at - begin, stream);
}

/* Copies the pieces that are listed for any rank to pinned memory. x->coming is scratch memory. */
static tt_cuda_result copy_in(const struct exchange *x)
{
    tt_cuda_result error;

    if (!x->on_device->sendbuff)
        return 0;
    memset(x->coming, 0, x->set_bytes);
    for (size_t i = 0; i < x->nranks * x->set_bytes; i++)
        x->coming[i % x->set_bytes] |= x->listed[i];
    error = copy_pieces(x, x->send, x->on_device->sendbuff, x->lengths, x->coming, x->gpu->in);
    return error ? error : x->gpu->cu->stream_synchronize(x->gpu->in);
}

static tt_cuda_result copy_out(const struct exchange *x)
{
    const tutti_dynamic *d = x->on_device;
    tt_cuda_result error = 0;

    for (size_t r = 0; r < x->nranks && !error; r++)
        error = copy_pieces(x, d->recvbuffs[r], x->recv[r], x->all_lengths + r * x->nsplits,
                            x->coming + r * x->set_bytes, x->gpu->out);
    if (!error && d->recv_all_split_lengths)
        error = copy(x, d->recv_all_split_lengths, x->all_lengths,
                     x->nranks * x->nsplits * sizeof(size_t), x->gpu->out);
    return error ? error : x->gpu->cu->stream_synchronize(x->gpu->out);
}

/* Aborts the communicator after a failure that other ranks may not notice, so that none waits. */
static tutti_status abandon(const tutti_gpu *gpu, tutti_status st)
{
    char why[TT_ERROR_BYTES];

    snprintf(why, sizeof why, "%s", tutti_last_error());
    if (!tutti_comm_status(gpu->comm))
        tutti_comm_abort(gpu->comm);
    gpu->cu->stream_synchronize(gpu->in);
    gpu->cu->stream_synchronize(gpu->out);
    return tt_fail_again(st, why);
}

/* Runs the exchange in pinned memory. */
static tutti_status send_pieces(const struct exchange *x)
{
    const struct tt_gpu_item *item = x->item;
    const tutti_call call = { .size = sizeof call,
                              .algo = item->algo[0] ? item->algo : NULL,
                              .timeout_ms = tt_gpu_timeout_left(x->gpu, x->began_ns) };
    tutti_dynamic what = *x->on_device;

    what.sendbuff = what.sendbuff ? x->send : NULL;
    what.split_lengths = x->lengths;
    what.indices = what.indices ? x->indices : NULL;
    what.index_block_lens = x->block_lens;
    what.nindices = x->nindices;
    what.recvbuffs = (void *const *)x->recv;
    what.recv_all_split_lengths = x->all_lengths;
    return tutti_alltoallv_dynamic(&what, item->op.type, x->gpu->comm, &call);
}

/* Sends the sets of listed pieces. */
static tutti_status send_sets(const struct exchange *x)
{
    const tutti_call call = { .size = sizeof call,
                              .timeout_ms = tt_gpu_timeout_left(x->gpu, x->began_ns) };

    return tutti_alltoall(x->listed, x->coming, x->set_bytes, TUTTI_U8, x->gpu->comm, &call);
}

/* Sends the pieces, and then their sets. The arguments were checked at the call, so RANGE and
 * INVALID mean an invalid list, and all ranks return them. */
static tutti_status transfer(const struct exchange *x)
{
    tutti_status st = send_pieces(x);

    if (st == TUTTI_ERR_RANGE || st == TUTTI_ERR_INVALID)
        return st;
    if (!st)
        st = send_sets(x);
    return st ? abandon(x->gpu, st) : TUTTI_OK;
}

static tutti_status fail_copy(const struct exchange *x, tt_cuda_result error)
{
    const tutti_status st =
        tt_cuda_fail(x->gpu->cu, error, CALL ": cannot access the lists or buffers on device %d",
                     x->gpu->device);

    return abandon(x->gpu, st);
}

tutti_status tt_gpu_dynamic_run(const struct tt_gpu_item *item, char *arena)
{
    struct exchange x = exchange_of(item);
    char *at = arena + place(&x, arena);
    tt_cuda_result error;
    tutti_status st;
    bool fits;

    x.began_ns = tt_now_ns();
    for (size_t r = 0; r < x.nranks; r++)
        x.recv[r] = at + r * pitch_of(&x);
    error = read_lists(&x);
    if (!error)
        error = read_indices(&x, &fits);
    if (!error && fits && lengths_fit(&x))
        error = copy_in(&x);
    if (error)
        return fail_copy(&x, error);
    st = transfer(&x);
    error = st ? 0 : copy_out(&x);
    return error ? fail_copy(&x, error) : st;
}
