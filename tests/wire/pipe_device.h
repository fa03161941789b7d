/* A device that registers memory without being one: its registrations hold pages of this process in a pipe (vmsplice), as an RDMA device's hold
 * them. It reads what is in those pages, whatever is mapped at their addresses by then: with a stale registration, stale bytes. */
#ifndef TESTS_WIRE_PIPE_DEVICE_H
#define TESTS_WIRE_PIPE_DEVICE_H

#include <stdatomic.h>
#include "wire/registry.h"

#define PIPE_DEVICE_BYTES_MAX (1u << 20)        /* of a registration */

struct pipe_device {
    struct tt_domain *domain;
    atomic_uint pins, unpins;       /* calls */
    atomic_ullong bytes;            /* pinned now */
    unsigned long long bytes_max;   /* more is ENOMEM; 0: no bound */
    bool readonly;                  /* peers may write nowhere */
    bool hosts_only;                /* it cannot register memory of devices */
    unsigned device_pins;           /* of the pins, those of such memory */
    struct tt_device_memory device; /* what the last of them was told */
    unsigned unpin_after;           /* unpin begins, and goes on a while after so many calls of pin; 0: at once */
    atomic_uint unpinning;          /* threads in unpin */
};

/* Joins the registry. False: it could not, tutti_last_error says why. */
bool pipe_device_open(struct pipe_device *d);
void pipe_device_close(struct pipe_device *d);
/* Reads mem[bytes], which r has, from the pages that r holds. */
void pipe_device_read(const struct tt_reg *r, const void *mem, size_t bytes, void *out);

/* The ways in which memory can become other memory at the same address; a name for each, NULL at the end. */
extern const char *const remap_ways[];
/* Fills a buffer, has the device read it, changes what is mapped there in that way, fills it anew, and has the device read that. NULL if it
 * reads what is there; else what went wrong. *seen: the memory came to lie at the same address, so that there was something to see. */
const char *remap_between_uses(struct pipe_device *d, size_t way, bool *seen);

#endif
