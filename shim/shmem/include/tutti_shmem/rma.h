/* OpenSHMEM: remote memory access. `dest` of a put and `source` of a get are symmetric. `pe` is a
 * PE of the context's team, or without a context, of SHMEM_TEAM_WORLD. Counts are in elements.
 *
 * put, iput and p return when the source can be reused; get, iget and g when the data has arrived.
 * The nbi forms return at once; source and dest must not be accessed before shmem_quiet returns. */
#ifndef TUTTI_SHMEM_RMA_H
#define TUTTI_SHMEM_RMA_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shmemi_ctx *shmem_ctx_t;

/* Contiguous transfers of elements of type T; PUT and GET are the names. */
#define SHMEMI_DECLARE_MOVES(PUT, GET, T)                                                          \
    SHMEM_API void shmem_##PUT(T *dest, const T *source, size_t nelems, int pe);                   \
    SHMEM_API void shmem_ctx_##PUT(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems,       \
                                   int pe);                                                        \
    SHMEM_API void shmem_##PUT##_nbi(T *dest, const T *source, size_t nelems, int pe);             \
    SHMEM_API void shmem_ctx_##PUT##_nbi(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, \
                                         int pe);                                                  \
    SHMEM_API void shmem_##GET(T *dest, const T *source, size_t nelems, int pe);                   \
    SHMEM_API void shmem_ctx_##GET(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems,       \
                                   int pe);                                                        \
    SHMEM_API void shmem_##GET##_nbi(T *dest, const T *source, size_t nelems, int pe);             \
    SHMEM_API void shmem_ctx_##GET##_nbi(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, \
                                         int pe);

/* Strided transfers copy source[i * sst] to dest[i * dst]. Strides must be at least 1. */
#define SHMEMI_DECLARE_STRIDED(IPUT, IGET, T)                                                 \
    SHMEM_API void shmem_##IPUT(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,       \
                                size_t nelems, int pe);                                       \
    SHMEM_API void shmem_ctx_##IPUT(shmem_ctx_t ctx, T *dest, const T *source, ptrdiff_t dst, \
                                    ptrdiff_t sst, size_t nelems, int pe);                    \
    SHMEM_API void shmem_##IGET(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,       \
                                size_t nelems, int pe);                                       \
    SHMEM_API void shmem_ctx_##IGET(shmem_ctx_t ctx, T *dest, const T *source, ptrdiff_t dst, \
                                    ptrdiff_t sst, size_t nelems, int pe);

/* All transfers of one type; p and g transfer a single element. */
#define SHMEMI_DECLARE_TYPED_RMA(NAME, T)                                           \
    SHMEMI_DECLARE_MOVES(NAME##_put, NAME##_get, T)                                 \
    SHMEMI_DECLARE_STRIDED(NAME##_iput, NAME##_iget, T)                             \
    SHMEM_API void shmem_##NAME##_p(T *dest, T value, int pe);                      \
    SHMEM_API void shmem_ctx_##NAME##_p(shmem_ctx_t ctx, T *dest, T value, int pe); \
    SHMEM_API T shmem_##NAME##_g(const T *source, int pe);                          \
    SHMEM_API T shmem_ctx_##NAME##_g(shmem_ctx_t ctx, const T *source, int pe);
SHMEMI_RMA_TYPES(SHMEMI_DECLARE_TYPED_RMA)
#undef SHMEMI_DECLARE_TYPED_RMA

/* Transfers of elements of BITS bits. The mem forms transfer bytes. */
#define SHMEMI_DECLARE_SIZED_RMA(BITS, BYTES)        \
    SHMEMI_DECLARE_MOVES(put##BITS, get##BITS, void) \
    SHMEMI_DECLARE_STRIDED(iput##BITS, iget##BITS, void)
SHMEMI_SIZES(SHMEMI_DECLARE_SIZED_RMA)
SHMEMI_DECLARE_MOVES(putmem, getmem, void)
#undef SHMEMI_DECLARE_SIZED_RMA
#undef SHMEMI_DECLARE_STRIDED
#undef SHMEMI_DECLARE_MOVES

/* ---- put with signal ---- */

#define SHMEM_SIGNAL_SET 1
#define SHMEM_SIGNAL_ADD 2

/* Puts the elements, then sets or adds to the signal at sig_addr of the same PE. When the target
 * observes the new value, all elements of the put are visible. */
#define SHMEMI_DECLARE_SIGNAL(PUT, T)                                                             \
    SHMEM_API void shmem_##PUT##_signal(T *dest, const T *source, size_t nelems,                  \
                                        uint64_t *sig_addr, uint64_t signal, int sig_op, int pe); \
    SHMEM_API void shmem_ctx_##PUT##_signal(shmem_ctx_t ctx, T *dest, const T *source,            \
                                            size_t nelems, uint64_t *sig_addr, uint64_t signal,   \
                                            int sig_op, int pe);                                  \
    SHMEM_API void shmem_##PUT##_signal_nbi(T *dest, const T *source, size_t nelems,              \
                                            uint64_t *sig_addr, uint64_t signal, int sig_op,      \
                                            int pe);                                              \
    SHMEM_API void shmem_ctx_##PUT##_signal_nbi(shmem_ctx_t ctx, T *dest, const T *source,        \
                                                size_t nelems, uint64_t *sig_addr,                \
                                                uint64_t signal, int sig_op, int pe);
#define SHMEMI_DECLARE_TYPED_SIGNAL(NAME, T) SHMEMI_DECLARE_SIGNAL(NAME##_put, T)
#define SHMEMI_DECLARE_SIZED_SIGNAL(BITS, BYTES) SHMEMI_DECLARE_SIGNAL(put##BITS, void)
SHMEMI_RMA_TYPES(SHMEMI_DECLARE_TYPED_SIGNAL)
SHMEMI_SIZES(SHMEMI_DECLARE_SIZED_SIGNAL)
SHMEMI_DECLARE_SIGNAL(putmem, void)
#undef SHMEMI_DECLARE_SIZED_SIGNAL
#undef SHMEMI_DECLARE_TYPED_SIGNAL
#undef SHMEMI_DECLARE_SIGNAL

/* Returns the current value of this PE's signal. */
SHMEM_API uint64_t shmem_signal_fetch(const uint64_t *sig_addr);

#ifdef __cplusplus
}
#endif
#endif
