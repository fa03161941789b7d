/* Put with signal, for each type. */
#include "move.h"

#define DEF SHMEM_CTX_DEFAULT

/* clang-format off */
#define SIGNAL(PUT, T, bytes)                                                                  \
    void shmem_##PUT##_signal(T *dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, \
                              int sig_op, int pe)                                              \
    {                                                                                          \
        const struct sh_signal s = { sig_addr, signal, sig_op };                               \
                                                                                               \
        sh_put(__func__, DEF, dest, source, sh_bytes(__func__, nelems, bytes), pe, false, &s); \
    }                                                                                          \
    void shmem_ctx_##PUT##_signal(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, uint64_t *sig_addr, \
                                  uint64_t signal, int sig_op, int pe)                         \
    {                                                                                          \
        const struct sh_signal s = { sig_addr, signal, sig_op };                               \
                                                                                               \
        sh_put(__func__, ctx, dest, source, sh_bytes(__func__, nelems, bytes), pe, false, &s); \
    }                                                                                          \
    void shmem_##PUT##_signal_nbi(T *dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, \
                                  int sig_op, int pe)                                          \
    {                                                                                          \
        const struct sh_signal s = { sig_addr, signal, sig_op };                               \
                                                                                               \
        sh_put(__func__, DEF, dest, source, sh_bytes(__func__, nelems, bytes), pe, true, &s);  \
    }                                                                                          \
    void shmem_ctx_##PUT##_signal_nbi(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, uint64_t *sig_addr, \
                                      uint64_t signal, int sig_op, int pe)                     \
    {                                                                                          \
        const struct sh_signal s = { sig_addr, signal, sig_op };                               \
                                                                                               \
        sh_put(__func__, ctx, dest, source, sh_bytes(__func__, nelems, bytes), pe, true, &s);  \
    }

#define TYPED(NAME, T) SIGNAL(NAME##_put, T, sizeof(T))
#define SIZED(BITS, BYTES) SIGNAL(put##BITS, void, (size_t)BYTES)
SHMEMI_RMA_TYPES(TYPED)
SHMEMI_SIZES(SIZED)
SIGNAL(putmem, void, (size_t)1)

uint64_t shmem_signal_fetch(const uint64_t *sig_addr)
{
    sh_place_of(__func__, "sig_addr", sig_addr, sizeof *sig_addr);
    return __atomic_load_n(sig_addr, __ATOMIC_ACQUIRE);
}
