/* OpenSHMEM: collectives of teams. All PEs of the team call them. dest and source are symmetric.
 * Counts are in elements; in the mem forms in bytes. The calls return 0 when dest is complete and
 * source can be reused. dest and source must be equal or must not overlap; alltoalls requires that
 * they do not overlap.
 *
 *     broadcast   dest[nelems] on all PEs = source[nelems] of PE_root, a PE of the team
 *     collect     dest = the sources of all PEs, concatenated in PE order; nelems may differ
 *     fcollect    dest[npes][nelems] = the sources of all PEs; nelems must be equal on all PEs
 *     alltoall    dest[i] = source[me] of PE i; dest[npes][nelems], source[npes][nelems]
 *     alltoalls   like alltoall, with strides of dst elements in dest and sst elements in source;
 *                 blocks start every dst * nelems and sst * nelems elements
 *     reduce      dest[i] = op over all PEs of source[i]; dest[nreduce], source[nreduce]. Results
 *                 are bitwise identical on all PEs */
#ifndef TUTTI_SHMEM_COLLECTIVES_H
#define TUTTI_SHMEM_COLLECTIVES_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shmemi_team *shmem_team_t;

#define SHMEMI_DECLARE_COLLECTIVES(PRE, POST, T)                                                   \
    SHMEM_API int PRE##broadcast##POST(shmem_team_t team, T *dest, const T *source, size_t nelems, \
                                       int PE_root);                                               \
    SHMEM_API int PRE##collect##POST(shmem_team_t team, T *dest, const T *source, size_t nelems);  \
    SHMEM_API int PRE##fcollect##POST(shmem_team_t team, T *dest, const T *source, size_t nelems); \
    SHMEM_API int PRE##alltoall##POST(shmem_team_t team, T *dest, const T *source, size_t nelems); \
    SHMEM_API int PRE##alltoalls##POST(shmem_team_t team, T *dest, const T *source, ptrdiff_t dst, \
                                       ptrdiff_t sst, size_t nelems);
#define SHMEMI_DECLARE_TYPED_COLLECTIVES(NAME, T) SHMEMI_DECLARE_COLLECTIVES(shmem_##NAME##_, , T)
SHMEMI_RMA_TYPES(SHMEMI_DECLARE_TYPED_COLLECTIVES)
SHMEMI_DECLARE_COLLECTIVES(shmem_, mem, void)
#undef SHMEMI_DECLARE_TYPED_COLLECTIVES
#undef SHMEMI_DECLARE_COLLECTIVES

#define SHMEMI_DECLARE_REDUCE(NAME, OP, T)                                                  \
    SHMEM_API int shmem_##NAME##_##OP##_reduce(shmem_team_t team, T *dest, const T *source, \
                                               size_t nreduce);
#define SHMEMI_DECLARE_BITS(NAME, T)    \
    SHMEMI_DECLARE_REDUCE(NAME, and, T) \
    SHMEMI_DECLARE_REDUCE(NAME, or, T) SHMEMI_DECLARE_REDUCE(NAME, xor, T)
#define SHMEMI_DECLARE_ORDER(NAME, T) \
    SHMEMI_DECLARE_REDUCE(NAME, max, T) SHMEMI_DECLARE_REDUCE(NAME, min, T)
#define SHMEMI_DECLARE_SUM(NAME, T) \
    SHMEMI_DECLARE_REDUCE(NAME, sum, T) SHMEMI_DECLARE_REDUCE(NAME, prod, T)
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
