/* Untyped puts, gets and atomics. Translates addresses to windows and offsets, and PEs of a team to
 * PEs of the job. */
#ifndef TUTTI_SHIM_SHMEM_MOVE_H
#define TUTTI_SHIM_SHMEM_MOVE_H

#include "job.h"

/* ---- symmetric addresses ---- */

struct sh_place {
    const struct sh_segment *segment;
    size_t offset;
};

/* Finds addr[bytes] in symmetric memory. Returns false if it is not entirely in one segment. */
bool sh_find(const void *addr, size_t bytes, struct sh_place *out);
/* The same, but calls sh_die if it is not found. `what` is the argument's name for the error
 * message. */
struct sh_place sh_place_of(const char *call, const char *what, const void *addr, size_t bytes);
/* Returns nelems * bytes; calls sh_die on overflow. */
size_t sh_bytes(const char *call, size_t nelems, size_t bytes);

/* ---- operations ---- */

/* The signal of a put. */
struct sh_signal {
    uint64_t *addr;
    uint64_t value;
    int op;                     /* SHMEM_SIGNAL_* */
};

/* Puts src[bytes] to dest on PE `pe` of the context's team. signal may be NULL. With nbi, src must
 * stay valid until quiet. */
void sh_put(const char *call, shmem_ctx_t ctx, void *dest, const void *src, size_t bytes, int pe,
            bool nbi, const struct sh_signal *signal);
void sh_get(const char *call, shmem_ctx_t ctx, void *dest, const void *src, size_t bytes, int pe,
            bool nbi);

/* nelems elements of `bytes` each. Strides are in elements. */
struct sh_stride {
    size_t nelems, bytes;
    ptrdiff_t dst, sst;
};
void sh_iput(const char *call, shmem_ctx_t ctx, void *dest, const void *src,
             const struct sh_stride *s, int pe);
void sh_iget(const char *call, shmem_ctx_t ctx, void *dest, const void *src,
             const struct sh_stride *s, int pe);

/* Updates the word of `bytes` (4 or 8) at dest on `pe` and returns its previous value. With 4
 * bytes, the lower halves of operand and compare are used. */
uint64_t sh_fetch(const char *call, shmem_ctx_t ctx, const void *dest, size_t bytes,
                  tutti_atomic_op op, uint64_t operand, uint64_t compare, int pe);
/* The same without a result; does not wait for completion. */
void sh_change(const char *call, shmem_ctx_t ctx, void *dest, size_t bytes, tutti_atomic_op op,
               uint64_t operand, int pe);

#endif
