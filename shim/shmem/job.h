/* What a process has from shmem_init to shmem_finalize: the job, its symmetric memory, and how mistakes end it. */
#ifndef TUTTI_SHIM_SHMEM_JOB_H
#define TUTTI_SHIM_SHMEM_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "shmem.h"
#include "tutti/rma.h"

/* Memory that every PE has, as large on all of them. */
struct sh_segment {
    tutti_window *window;       /* NULL: there is none */
    char *base;
    size_t bytes;
};

struct sh_job {
    bool up;
    int me, n, thread_level;
    tutti_comm *comm;           /* of all PEs */
    struct sh_segment heap;     /* begins with a struct sh_head */
    struct sh_segment globals;
    char **heap_at;             /* [n]: where the heap of a PE is mapped here; NULL: it is not */
    uint64_t nbi;               /* counts local completions, of which nobody wants to know */
};
extern struct sh_job sh_job;

/* What others tell this PE, before what is allocated. */
#define SH_HEAD_BYTES 4096u
struct sh_head {
    uint64_t exit;              /* not 0: shmem_global_exit was called; the low byte is the status */
};

/* Tells what is wrong, with the call's name and this PE's number before it, and ends the process. */
SHMEM_NORETURN void sh_die(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a status that is not OK, by its name: its sentence was printed already, unless TUTTI_LOG is none: then with it. If another PE has called shmem_global_exit this ends as that says. */
void sh_check(const char *call, tutti_status status);
/* Dies unless shmem_init was called. */
void sh_need(const char *call);
/* Ends the process if shmem_global_exit was called somewhere. */
void sh_heed_exit(void);
/* Memory of this process's own; dies if there is none. */
void *sh_alloc(const char *call, size_t bytes);

#endif
