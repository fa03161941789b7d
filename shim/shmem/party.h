/* The PEs of a collective, and collectives of bytes among them: a team's own communicator, or sends and receives among the PEs of an active set, who
 * alone know of it. Sources and destinations may be the same memory. */
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

/* The PEs of a team; dies if it is none. */
struct sh_party sh_party_of_team(const char *call, shmem_team_t team);
/* An active set, which has this PE; dies if it is none. */
struct sh_party sh_party_of_set(const char *call, int start, int log_stride, int size);
/* Dies unless dest[dest_blocks][bytes] and source[source_blocks][bytes] are symmetric. */
void sh_party_buffers(const struct sh_party *p, const void *dest, int dest_blocks, const void *source,
                      int source_blocks, size_t bytes);

void sh_party_sync(const struct sh_party *p);
/* dest[bytes] = src[bytes] of the root. Everywhere; or, to_root false, not at the root itself. */
void sh_party_broadcast(const struct sh_party *p, void *dest, const void *src, size_t bytes, int root, bool to_root);
/* dest[n][bytes]. */
void sh_party_fcollect(const struct sh_party *p, void *dest, const void *src, size_t bytes);
/* dest = one after the other, each of its own `bytes`; symmetric. */
void sh_party_collect(const struct sh_party *p, void *dest, const void *src, size_t bytes);
/* dest[n][bytes], src[n][bytes]. */
void sh_party_alltoall(const struct sh_party *p, void *dest, const void *src, size_t bytes);
/* The same of nelems elements of `bytes` in each block, dst and sst elements apart; symmetric. */
void sh_party_alltoalls(const struct sh_party *p, void *dest, const void *src, ptrdiff_t dst, ptrdiff_t sst,
                        size_t nelems, size_t bytes);

#endif
