/* What this machine allows, as far as Tutti cares: read from the kernel, or tried. */
#ifndef TUTTI_TOOLS_INFO_MACHINE_H
#define TUTTI_TOOLS_INFO_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define INFO_TEXT_BYTES 160

struct info_machine {
    char host[65], kernel[196];
    int cores_allowed, cores_online;
    int64_t memlock_bytes, nofile;          /* soft limits; -1: none */
    char huge_pages[INFO_TEXT_BYTES];       /* transparent ones: what the kernel says, "always [madvise] never" */
    char huge_pages_shm[INFO_TEXT_BYTES];   /* the same for shared memory */
    int64_t huge_pages_reserved;
    char congestion[INFO_TEXT_BYTES];       /* TCP congestion control: the default … */
    char congestion_allowed[INFO_TEXT_BYTES];   /* … and what a process may choose */
    bool cma;                               /* one rank may read another's memory (process_vm_readv) … */
    char cma_why[INFO_TEXT_BYTES];          /* … or why not */
};

/* Starts and reaps two short-lived children (for cma). What cannot be read is "?" or -1. */
void info_machine_read(struct info_machine *m);

#endif
