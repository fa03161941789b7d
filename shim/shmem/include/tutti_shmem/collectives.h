/* OpenSHMEM: collectives of teams. All PEs of the team call them, with symmetric dest and source; counts are elements, for mem bytes. dest is ready, and
 * source may be used again, when the call returns, with 0. dest may be source, or must not overlap it; alltoalls has no form in place.
 *
 *     broadcast   dest[nelems] everywhere = source[nelems] of PE_root, a PE of the team
 *     collect     dest = the sources of all PEs in their order, each of its own nelems
 *     fcollect    dest[npes][nelems], nelems alike everywhere
 *     alltoall    dest[i] = source[me] of PE i; dest[npes][nelems], source[npes][nelems]
 *     alltoalls   the same with elements dst apart in dest and sst apart in source; blocks dst * nelems and sst * nelems
 *     reduce      dest[i] = op over the PEs of source[i]; dest[nreduce], source[nreduce]. All PEs get the same bits */
#ifndef TUTTI_SHMEM_COLLECTIVES_H
#define TUTTI_SHMEM_COLLECTIVES_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shmemi_team *shmem_team_t;

#define SHMEMI_DECLARE_COLLECTIVES(PRE, POST, T)                                                                       \
    SHMEM_API int PRE##broadcast##POST(shmem_team_t team, T *dest, const T *source, size_t nelems, int PE_root);       \
    SHMEM_API int PRE##collect##POST(shmem_team_t team, T *dest, const T *source, size_t nelems);                      \
    SHMEM_API int PRE##fcollect##POST(shmem_team_t team, T *dest, const T *source, size_t nelems);                     \
    SHMEM_API int PRE##alltoall##POST(shmem_team_t team, T *dest, const T *source, size_t nelems);                     \
    SHMEM_API int PRE##alltoalls##POST(shmem_team_t team, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,      \
                                       size_t nelems);
#define SHMEMI_DECLARE_TYPED_COLLECTIVES(NAME, T) SHMEMI_DECLARE_COLLECTIVES(shmem_##NAME##_, , T)
SHMEMI_RMA_TYPES(SHMEMI_DECLARE_TYPED_COLLECTIVES)
SHMEMI_DECLARE_COLLECTIVES(shmem_, mem, void)
#undef SHMEMI_DECLARE_TYPED_COLLECTIVES
#undef SHMEMI_DECLARE_COLLECTIVES

#define SHMEMI_DECLARE_REDUCE(NAME, OP, T)                                                                             \
    SHMEM_API int shmem_##NAME##_##OP##_reduce(shmem_team_t team, T *dest, const T *source, size_t nreduce);
#define SHMEMI_DECLARE_BITS(NAME, T)                                                                                   \
    SHMEMI_DECLARE_REDUCE(NAME, and, T) SHMEMI_DECLARE_REDUCE(NAME, or, T) SHMEMI_DECLARE_REDUCE(NAME, xor, T)
#define SHMEMI_DECLARE_ORDER(NAME, T) SHMEMI_DECLARE_REDUCE(NAME, max, T) SHMEMI_DECLARE_REDUCE(NAME, min, T)
#define SHMEMI_DECLARE_SUM(NAME, T) SHMEMI_DECLARE_REDUCE(NAME, sum, T) SHMEMI_DECLARE_REDUCE(NAME, prod, T)
SHMEMI_REDUCE_BITS_TYPES(SHMEMI_DECLARE_BITS)
SHMEMI_REDUCE_ORDER_TYPES(SHMEMI_DECLARE_ORDER)
SHMEMI_REDUCE_SUM_TYPES(SHMEMI_DECLARE_SUM)
#undef SHMEMI_DECLARE_SUM
#undef SHMEMI_DECLARE_ORDER
#undef SHMEMI_DECLARE_BITS
#undef SHMEMI_DECLARE_REDUCE

#ifdef __cplusplus
}
#endif
#endif
