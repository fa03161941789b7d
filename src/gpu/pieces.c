#include "gpu/pieces.h"

#include <stdlib.h>

struct piece {
    tt_cuda_address begin, end;
    unsigned long long number;      /* buffer ID of the allocation; 0: the driver assigned none */
};

struct tt_gpu_pieces {
    size_t n;
    struct piece piece[];           /* without gaps */
};

/* Returns the part of the allocation at `at` that begins there and ends at most at `end`. */
static struct piece piece_at(const struct tt_cuda *cu, tt_cuda_address at, tt_cuda_address end)
{
    struct piece p = { .begin = at, .end = end };
    tt_cuda_address start = 0;
    size_t bytes = 0;

    if (cu->pointer_attribute(&p.number, TT_CUDA_POINTER_BUFFER, at))
        p.number = 0;
    if (!cu->pointer_attribute(&start, TT_CUDA_POINTER_RANGE_START, at) &&
        !cu->pointer_attribute(&bytes, TT_CUDA_POINTER_RANGE_SIZE, at) && start <= at &&
        bytes > at - start && bytes < end - start)
        p.end = start + bytes;
    return p;
}

tutti_status tt_gpu_pieces_create(struct tt_gpu_pieces **out, const struct tt_cuda *cu,
                                  const void *mem, size_t bytes)
{
    const tt_cuda_address begin = tt_cuda_address_of(mem), end = begin + bytes;
    struct tt_gpu_pieces *p = calloc(1, sizeof *p), *more;

    if (!p)
        goto nomem;
    for (tt_cuda_address at = begin; at < end; at = p->piece[p->n++].end) {
        more = realloc(p, sizeof *p + (p->n + 1) * sizeof *p->piece);
        if (!more)
            goto nomem;
        p = more;
        p->piece[p->n] = piece_at(cu, at, end);
    }
    *out = p;
    return TUTTI_OK;
nomem:
    free(p);
    return tt_fail(TUTTI_ERR_NOMEM, "tutti_gpu_window_create: out of memory");
}

bool tt_gpu_pieces_are_same(const struct tt_gpu_pieces *p, const struct tt_cuda *cu,
                            tt_cuda_address at, size_t bytes)
{
    const tt_cuda_address end = at + bytes;
    bool same = true;

    for (size_t i = 0; i < p->n && same; i++) {
        const struct piece *one = &p->piece[i];
        const tt_cuda_address from = at > one->begin ? at : one->begin;

        if (from < one->end && from < end)
            same = piece_at(cu, from, one->end).number == one->number;
    }
    return same;
}
