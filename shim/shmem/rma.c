/* Remote memory access, for each type. */
#include "move.h"

#define DEF SHMEM_CTX_DEFAULT

/* clang-format off */
/* Calls that transfer contiguous elements of `bytes`. */
#define MOVES(PUT, GET, T, bytes)                                                                \
    void shmem_##PUT(T *dest, const T *source, size_t nelems, int pe)                            \
    {                                                                                            \
        sh_put(__func__, DEF, dest, source, sh_bytes(__func__, nelems, bytes), pe, false, NULL); \
    }                                                                                            \
    void shmem_ctx_##PUT(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, int pe)       \
    {                                                                                            \
        sh_put(__func__, ctx, dest, source, sh_bytes(__func__, nelems, bytes), pe, false, NULL); \
    }                                                                                            \
    void shmem_##PUT##_nbi(T *dest, const T *source, size_t nelems, int pe)                      \
    {                                                                                            \
        sh_put(__func__, DEF, dest, source, sh_bytes(__func__, nelems, bytes), pe, true, NULL);  \
    }                                                                                            \
    void shmem_ctx_##PUT##_nbi(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, int pe) \
    {                                                                                            \
        sh_put(__func__, ctx, dest, source, sh_bytes(__func__, nelems, bytes), pe, true, NULL);  \
    }                                                                                            \
    void shmem_##GET(T *dest, const T *source, size_t nelems, int pe)                            \
    {                                                                                            \
        sh_get(__func__, DEF, dest, source, sh_bytes(__func__, nelems, bytes), pe, false);       \
    }                                                                                            \
    void shmem_ctx_##GET(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, int pe)       \
    {                                                                                            \
        sh_get(__func__, ctx, dest, source, sh_bytes(__func__, nelems, bytes), pe, false);       \
    }                                                                                            \
    void shmem_##GET##_nbi(T *dest, const T *source, size_t nelems, int pe)                      \
    {                                                                                            \
        sh_get(__func__, DEF, dest, source, sh_bytes(__func__, nelems, bytes), pe, true);        \
    }                                                                                            \
    void shmem_ctx_##GET##_nbi(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, int pe) \
    {                                                                                            \
        sh_get(__func__, ctx, dest, source, sh_bytes(__func__, nelems, bytes), pe, true);        \
    }

#define STRIDED(IPUT, IGET, T, bytes)                                                             \
    void shmem_##IPUT(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) \
    {                                                                                             \
        sh_iput(__func__, DEF, dest, source, &(struct sh_stride){ nelems, bytes, dst, sst }, pe); \
    }                                                                                             \
    void shmem_ctx_##IPUT(shmem_ctx_t ctx, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                          int pe)                                                                 \
    {                                                                                             \
        sh_iput(__func__, ctx, dest, source, &(struct sh_stride){ nelems, bytes, dst, sst }, pe); \
    }                                                                                             \
    void shmem_##IGET(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) \
    {                                                                                             \
        sh_iget(__func__, DEF, dest, source, &(struct sh_stride){ nelems, bytes, dst, sst }, pe); \
    }                                                                                             \
    void shmem_ctx_##IGET(shmem_ctx_t ctx, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                          int pe)                                                                 \
    {                                                                                             \
        sh_iget(__func__, ctx, dest, source, &(struct sh_stride){ nelems, bytes, dst, sst }, pe); \
    }

#define ONE(NAME, T)                                                        \
    void shmem_##NAME##_p(T *dest, T value, int pe)                         \
    {                                                                       \
        sh_put(__func__, DEF, dest, &value, sizeof value, pe, false, NULL); \
    }                                                                       \
    void shmem_ctx_##NAME##_p(shmem_ctx_t ctx, T *dest, T value, int pe)    \
    {                                                                       \
        sh_put(__func__, ctx, dest, &value, sizeof value, pe, false, NULL); \
    }                                                                       \
    T shmem_##NAME##_g(const T *source, int pe)                             \
    {                                                                       \
        T value;                                                            \
                                                                            \
        sh_get(__func__, DEF, &value, source, sizeof value, pe, false);     \
        return value;                                                       \
    }                                                                       \
    T shmem_ctx_##NAME##_g(shmem_ctx_t ctx, const T *source, int pe)        \
    {                                                                       \
        T value;                                                            \
                                                                            \
        sh_get(__func__, ctx, &value, source, sizeof value, pe, false);     \
        return value;                                                       \
    }

#define TYPED(NAME, T) \
    MOVES(NAME##_put, NAME##_get, T, sizeof(T)) STRIDED(NAME##_iput, NAME##_iget, T, sizeof(T)) ONE(NAME, T)
#define SIZED(BITS, BYTES) \
    MOVES(put##BITS, get##BITS, void, (size_t)BYTES) STRIDED(iput##BITS, iget##BITS, void, (size_t)BYTES)

SHMEMI_RMA_TYPES(TYPED)
SHMEMI_SIZES(SIZED)
MOVES(putmem, getmem, void, (size_t)1)
