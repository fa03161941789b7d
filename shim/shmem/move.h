/* Puts, gets and atomics without their types: addresses to windows and offsets, PEs of teams to those of the job. */
#ifndef TUTTI_SHIM_SHMEM_MOVE_H
#define TUTTI_SHIM_SHMEM_MOVE_H

#include "job.h"

/* ---- where ---- */

struct sh_place {
    const struct sh_segment *segment;
    size_t offset;
};

/* Where addr[bytes] is in symmetric memory. False: it is not, or not as a whole. */
bool sh_find(const void *addr, size_t bytes, struct sh_place *out);
/* The same; dies where it is not. `what` names the argument. */
struct sh_place sh_place_of(const char *call, const char *what, const void *addr, size_t bytes);
/* nelems * bytes; dies if no memory has so much. */
size_t sh_bytes(const char *call, size_t nelems, size_t bytes);

/* ---- what is done ---- */

/* A signal behind a put. */
struct sh_signal {
    uint64_t *addr;
    uint64_t value;
    int op;                     /* SHMEM_SIGNAL_* */
};

/* src[bytes] to dest of the PE of the context; signal NULL: none. nbi: the source stays until quiet. */
void sh_put(const char *call, shmem_ctx_t ctx, void *dest, const void *src, size_t bytes, int pe, bool nbi,
            const struct sh_signal *signal);
void sh_get(const char *call, shmem_ctx_t ctx, void *dest, const void *src, size_t bytes, int pe, bool nbi);

/* nelems elements of `bytes`, whose strides are elements. */
struct sh_stride {
    size_t nelems, bytes;
    ptrdiff_t dst, sst;
};
void sh_iput(const char *call, shmem_ctx_t ctx, void *dest, const void *src, const struct sh_stride *s, int pe);
void sh_iget(const char *call, shmem_ctx_t ctx, void *dest, const void *src, const struct sh_stride *s, int pe);

/* The word of `bytes` (4 or 8) at dest of that PE: returns what it was. Of 4 bytes the lower half of the values counts. */
uint64_t sh_fetch(const char *call, shmem_ctx_t ctx, const void *dest, size_t bytes, tutti_atomic_op op,
                  uint64_t operand, uint64_t compare, int pe);
/* The same without a result. */
void sh_change(const char *call, shmem_ctx_t ctx, void *dest, size_t bytes, tutti_atomic_op op, uint64_t operand,
               int pe);

#endif
