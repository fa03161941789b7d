/* Limits and settings of this machine that affect Tutti: read from the kernel, or tried. */
#ifndef TUTTI_TOOLS_INFO_MACHINE_H
#define TUTTI_TOOLS_INFO_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define INFO_TEXT_BYTES 160

struct info_machine {
    char host[65], kernel[196];
    int cores_allowed, cores_online;
    int64_t memlock_bytes, nofile;          /* soft limits; -1: none */
    char huge_pages[INFO_TEXT_BYTES];       /* transparent huge pages, as the kernel prints them:
                                               "always [madvise] never" */
    char huge_pages_shm[INFO_TEXT_BYTES];   /* the same for shared memory */
    int64_t huge_pages_reserved;
    char congestion[INFO_TEXT_BYTES];       /* TCP congestion control: the default, */
    char congestion_allowed[INFO_TEXT_BYTES];   /* and the ones that a process may select */
    bool cma;                               /* a rank may read another rank's memory
                                               (process_vm_readv) */
    char cma_why[INFO_TEXT_BYTES];          /* cause if it may not */
};

/* Reads all values. Starts and reaps two short-lived children (for cma). Unknown values are "?" or
 * -1. */
void info_machine_read(struct info_machine *m);

#endif
