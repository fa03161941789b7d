/* State of a process from shmem_init to shmem_finalize: the job and its symmetric memory. Also the
 * handling of errors. */
#ifndef TUTTI_SHIM_SHMEM_JOB_H
#define TUTTI_SHIM_SHMEM_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "shmem.h"
#include "tutti/rma.h"

/* Symmetric memory: every PE exposes a window of the same size. */
struct sh_segment {
    tutti_window *window;       /* NULL: no such memory */
    char *base;
    size_t bytes;
};

struct sh_job {
    bool up;
    int me, n, thread_level;
    tutti_comm *comm;           /* of all PEs */
    struct sh_segment heap;     /* begins with a struct sh_head */
    struct sh_segment globals;
    char **heap_at;             /* [n]: local address of the heap of each PE; NULL: not mapped */
    uint64_t nbi;               /* counter of local completions for nbi calls; never read */
};
extern struct sh_job sh_job;

/* Start of the heap, before the allocated blocks. Other PEs write to it. */
#define SH_HEAD_BYTES 4096u
struct sh_head {
    uint64_t exit;              /* nonzero after shmem_global_exit; the low byte is the status */
};

/* Logs the error, prefixed with this PE's number and the call, and exits. */
SHMEM_NORETURN void sh_die(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Calls sh_die with the name of the status if it is an error. Tutti has already logged the error
 * message, except with TUTTI_LOG=none; then it is included. If a PE has called shmem_global_exit,
 * exits with its status instead. */
void sh_check(const char *call, tutti_status status);
/* Calls sh_die unless the library is initialized. */
void sh_need(const char *call);
/* Exits if a PE has called shmem_global_exit. */
void sh_check_exit(void);
/* Allocates zeroed private memory; calls sh_die if out of memory. */
void *sh_alloc(const char *call, size_t bytes);

#endif
