/* Requests of operations on device memory. */
#ifndef TT_GPU_REQUEST_H
#define TT_GPU_REQUEST_H

#include "gpu/gpu.h"

/* Creates a request with two references: the caller's, and the unit's. NULL: out of memory. */
struct tutti_gpu_request *tt_gpu_request_create(void);
/* Completes the request with a status, and the calling thread's last error as the message; drops
 * the unit's reference. */
void tt_gpu_request_complete(struct tutti_gpu_request *r, tutti_status status);
/* Frees a request that the caller has not received. */
void tt_gpu_request_cancel(struct tutti_gpu_request *r);

#endif
