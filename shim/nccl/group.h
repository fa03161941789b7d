/* Groups: the calls of a thread between ncclGroupStart and ncclGroupEnd. */
#ifndef TUTTI_NCCL_GROUP_H
#define TUTTI_NCCL_GROUP_H

#include "comm.h"

/* Whether the thread is in a group. */
bool nccl_group_is_open(void);
/* Adds an operation of c to the thread's group; starts it at once if there is none. `value` is the
 * factor of a premultiplied sum on the host, or NULL. */
ncclResult_t nccl_group_add(struct ncclComm *c, const tutti_gpu_op *op, const void *value);
/* Returns `result`, an error of a call that was not added. It becomes that of the open group, which
 * then starts nothing. */
ncclResult_t nccl_group_refuse(ncclResult_t result);
/* Adds the start of a communicator to the open group, which owns it then. */
ncclResult_t nccl_group_add_start(struct nccl_start *s);

#endif
