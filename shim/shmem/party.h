/* A party is the set of PEs of a collective: a team or an active set. Collectives of a team use its
 * communicator; those of an active set use sends and receives, because only its members call them.
 * src and dest may be the same memory. */
#ifndef TUTTI_SHIM_SHMEM_PARTY_H
#define TUTTI_SHIM_SHMEM_PARTY_H

#include "job.h"

struct sh_party {
    const char *call;
    tutti_comm *comm;
    bool whole;                 /* all ranks of comm; else start, start + stride, ... */
    int start, stride;
    int me, n;
};

/* Returns the party of a team; calls sh_die if the team is invalid. */
struct sh_party sh_party_of_team(const char *call, shmem_team_t team);
/* Returns the party of an active set; calls sh_die if the set is invalid or does not contain this
 * PE. */
struct sh_party sh_party_of_set(const char *call, int start, int log_stride, int size);
/* Calls sh_die unless dest[dest_blocks][bytes] and source[source_blocks][bytes] are symmetric. */
void sh_party_buffers(const struct sh_party *p, const void *dest, int dest_blocks,
                      const void *source, int source_blocks, size_t bytes);

void sh_party_sync(const struct sh_party *p);
/* dest[bytes] = src[bytes] of the root, on all PEs; if to_root is false, on all PEs except the
 * root. */
void sh_party_broadcast(const struct sh_party *p, void *dest, const void *src, size_t bytes,
                        int root, bool to_root);
/* dest[n][bytes] = src[bytes] of all PEs. */
void sh_party_fcollect(const struct sh_party *p, void *dest, const void *src, size_t bytes);
/* dest = src of all PEs, concatenated in PE order; `bytes` may differ between PEs. Checks that the
 * buffers are symmetric. */
void sh_party_collect(const struct sh_party *p, void *dest, const void *src, size_t bytes);
/* dest[i] = src[me] of PE i. Shapes: dest[n][bytes], src[n][bytes]. */
void sh_party_alltoall(const struct sh_party *p, void *dest, const void *src, size_t bytes);
/* The same for blocks of nelems elements of `bytes`, with strides of dst and sst elements. Checks
 * that the buffers are symmetric. */
void sh_party_alltoalls(const struct sh_party *p, void *dest, const void *src, ptrdiff_t dst,
                        ptrdiff_t sst, size_t nelems, size_t bytes);

#endif
