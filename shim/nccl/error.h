/* Errors of the NCCL interface. */
#ifndef TUTTI_NCCL_ERROR_H
#define TUTTI_NCCL_ERROR_H

#include "nccl_abi.h"
#include "tutti/tutti.h"

/* Records a message as the thread's last error, and returns `result`. */
ncclResult_t nccl_fail(ncclResult_t result, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Converts a status; an error's message is the thread's last error of Tutti. */
ncclResult_t nccl_result(tutti_status status);
/* The thread's last error. */
const char *nccl_last_error(void);

#endif
