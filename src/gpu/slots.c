#include "gpu/slots.h"

#include "tutti/gpu.h"

#define ALIGN 64u
#define PIECE_BYTES_MAX (256u << 10)
#define PIECE_BYTES_MIN (4u << 10)
#define RINGS_BYTES_MAX ((size_t)64 << 20)      /* of all rings; exceeded at the minimum piece */

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

struct tt_gpu_layout tt_gpu_layout_of(uint32_t nranks)
{
    const size_t word = sizeof(uint64_t);
    struct tt_gpu_layout l = { .nranks = nranks, .piece_bytes = PIECE_BYTES_MAX };

    while (l.piece_bytes > PIECE_BYTES_MIN &&
           l.piece_bytes * TT_GPU_RING_DEPTH * nranks > RINGS_BYTES_MAX)
        l.piece_bytes /= 2;
    l.tails = l.heads + aligned(nranks * word);
    l.counts = l.tails + aligned(nranks * word);
    l.wake = l.counts + aligned((size_t)nranks * TUTTI_GPU_SIGNALS * word);
    l.left = l.wake + word;
    l.replied = l.left + word;
    l.slots = l.wake + ALIGN;
    l.slot_bytes = sizeof(struct tt_gpu_piece) + l.piece_bytes;
    l.replies = l.slots + l.slot_bytes * TT_GPU_RING_DEPTH * nranks;
    l.bytes = l.replies + l.piece_bytes * TT_GPU_REPLIES;
    return l;
}

size_t tt_gpu_layout_count(const struct tt_gpu_layout *l, uint32_t rank, uint32_t signal)
{
    return l->counts + ((size_t)rank * TUTTI_GPU_SIGNALS + signal) * sizeof(uint64_t);
}

size_t tt_gpu_layout_slot(const struct tt_gpu_layout *l, uint32_t rank, uint64_t piece)
{
    return l->slots +
           ((size_t)rank * TT_GPU_RING_DEPTH + piece % TT_GPU_RING_DEPTH) * l->slot_bytes;
}

size_t tt_gpu_layout_reply(const struct tt_gpu_layout *l, uint32_t index)
{
    return l->replies + index * l->piece_bytes;
}

/* Checks the fields of a get or an atomic. */
static tutti_status check_request(const struct tt_gpu_layout *l, const struct tt_gpu_piece *p,
                                  uint32_t rank)
{
    const int is_get = p->kind == TT_GPU_PIECE_GET;
    const int fits = is_get ? p->length <= l->piece_bytes && p->reply
                            : (p->length == 4 || p->length == 8) && !(p->offset % p->length) &&
                                  p->op <= TUTTI_ATOMIC_XOR;

    if (fits && p->reply <= TT_GPU_REPLIES && !p->bytes && !p->is_last)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_PROTOCOL,
                   "protocol error: rank %u sent an invalid %s of %u bytes at offset %llu", rank,
                   is_get ? "get" : "atomic", p->length, (unsigned long long)p->offset);
}

tutti_status tt_gpu_piece_check(const struct tt_gpu_layout *l, const struct tt_gpu_piece *p,
                                uint32_t rank, int known, size_t window_bytes)
{
    const uint32_t bytes = p->kind == TT_GPU_PIECE_PUT ? p->bytes : p->length;
    tutti_status st;

    if (p->is_last > 1 || p->signal >= TUTTI_GPU_SIGNALS || p->bytes > l->piece_bytes ||
        p->kind > TT_GPU_PIECE_ATOMIC)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "protocol error: rank %u sent a piece of kind %u and %u bytes with signal "
                       "%u",
                       rank, p->kind, p->bytes, p->signal);
    st = p->kind == TT_GPU_PIECE_PUT ? TUTTI_OK : check_request(l, p, rank);
    if (st || (p->window == TT_GPU_NO_WINDOW && !bytes))
        return st;
    if (!known)
        return tt_fail(TUTTI_ERR_INVALID, "gpu: rank %u accessed a window that was freed", rank);
    if (p->offset > window_bytes || bytes > window_bytes - p->offset)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "protocol error: rank %u accessed %u bytes at offset %llu of a window of "
                       "%zu",
                       rank, bytes, (unsigned long long)p->offset, window_bytes);
    return TUTTI_OK;
}
