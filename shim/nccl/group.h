/* Groups: the calls of a thread between ncclGroupStart and ncclGroupEnd. */
#ifndef TUTTI_NCCL_GROUP_H
#define TUTTI_NCCL_GROUP_H

#include "comm.h"

/* Whether the thread is in a group. */
bool nccl_group_is_open(void);
/* Adds an operation of c to the thread's open group; starts it at once if no group is open. `value`
 * is the factor of a premultiplied sum on the host, or NULL. */
ncclResult_t nccl_group_add(struct ncclComm *c, const tutti_gpu_op *op, const void *value);
/* The same, for a put into a window, which may be registered by the same group. */
ncclResult_t nccl_group_add_put(struct ncclComm *c, const tutti_gpu_op *op, struct ncclWindow *w);
/* Adds a collective call of c that is no operation to the open group. It runs in a thread when the
 * group ends, before operations; calls of one communicator run in their order. */
ncclResult_t nccl_group_add_job(struct ncclComm *c, ncclResult_t (*run)(void *arg), void *arg);
/* Returns `result`, an error of a call that was not added. It becomes the result of the open group,
 * which then starts nothing. */
ncclResult_t nccl_group_refuse(ncclResult_t result);
/* Adds the start of a communicator to the open group, which owns it then. */
ncclResult_t nccl_group_add_start(struct nccl_start *s);

/* Begin and end a group, as ncclGroupStart and ncclGroupEnd; groups nest. */
void nccl_group_begin(void);
ncclResult_t nccl_group_end(void);

#endif
