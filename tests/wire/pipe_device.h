/* An emulated device that registers memory: its registrations pin pages of this process in a pipe
 * (vmsplice), like those of an RDMA device. It reads these pages, whatever is mapped at their
 * addresses later: with a stale registration, it reads stale bytes. */
#ifndef TESTS_WIRE_PIPE_DEVICE_H
#define TESTS_WIRE_PIPE_DEVICE_H

#include <stdatomic.h>
#include "wire/registry.h"

#define PIPE_DEVICE_BYTES_MAX (1u << 20)        /* maximum size of a registration */

struct pipe_device {
    struct tt_domain *domain;
    atomic_uint pins, unpins;       /* number of calls */
    atomic_ullong bytes;            /* currently pinned */
    unsigned long long bytes_max;   /* limit, beyond which it returns ENOMEM; 0: unlimited */
    bool readonly;                  /* the memory is not writable by peers */
    bool hosts_only;                /* the device cannot register device memory */
    unsigned device_pins;           /* number of pins of device memory */
    struct tt_device_memory device; /* description in the last of these calls */
    unsigned unpin_after;           /* unpin waits until pin was called this number of times, and
                                       then a while; 0: returns at once */
    atomic_uint unpinning;          /* number of threads in unpin */
};

/* Adds the device to the registry. Returns false on error, with the cause in tutti_last_error. */
bool pipe_device_open(struct pipe_device *d);
void pipe_device_close(struct pipe_device *d);
/* Reads mem[bytes], which r contains, from the pages held by r. */
void pipe_device_read(const struct tt_reg *r, const void *mem, size_t bytes, void *out);

/* Names of the methods to replace the memory at an address, NULL-terminated. */
extern const char *const remap_ways[];
/* Fills a buffer, lets the device read it, replaces the memory by that method, fills it again, and
 * lets the device read it again. Returns NULL if it reads the new contents, otherwise an error
 * message. *seen: the new memory had the same address, so that stale contents were possible. */
const char *remap_between_uses(struct pipe_device *d, size_t way, bool *seen);

#endif
