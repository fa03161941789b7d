/* Windows: device memory that other ranks put data into. */
#ifndef TUTTI_NCCL_WINDOW_H
#define TUTTI_NCCL_WINDOW_H

#include "comm.h"

typedef struct ncclWindow *ncclWindow_t;

/* Returns Tutti's window, or NULL if w is not of comm, was deregistered, or was registered in a
 * group that has not ended. */
tutti_gpu_window *nccl_window_of(struct ncclComm *comm, const struct ncclWindow *w);
/* Frees all windows of a communicator. */
void nccl_windows_free(struct ncclComm *comm);

#endif
