/* Registered memory of this process, of all wires and communicators: registered when it is first used, and kept for the next time, as long as
 * the memory stays what it is. regcache.h says what is kept, memwatch.h how a change of the memory is noticed; here are the lock,
 * the threads, the settings and the counters.
 *
 * A wire joins with a *registrar*, which can register memory with its device; what that registers is good in the wire's *domain*. The bounds hold
 * for all domains together.
 *
 *   TUTTI_REGISTER           none: while it is in use only; lazy (the default): when it is first used, and kept; eager: what the application tells of
 *                            (tutti_mem_register, tutti_mem_alloc) when it tells; async: that likewise, in the background
 *   TUTTI_REGISTER_BYTES     how much is kept registered, TUTTI_REGISTER_COUNT in how many registrations
 *   TUTTI_REGISTER_DYNAMIC   0: a call may use only memory that the application has told of
 *
 * A buffer that lies in several tells of the host's memory is covered by them. A wire has one key for a buffer: so the first such use registers
 * all of these tells as one, which takes the place of their own registrations, until one of them ends. Memory of a device has a registration
 * for each tell, and a buffer lies in one.
 *
 * What is not in use is kept only if a change of it would be noticed (memwatch.h), or the application vouches for it (it told of it).
 *
 * Threads: any, unless said otherwise. Two of the registry's own, from the first domain that keeps anything: one reads what the kernel tells, and
 * does nothing else; one undoes registrations whose memory is gone, and registers in the background. They stay till the process ends.
 * After a fork the child has a registry of its own, empty. */
#ifndef TT_WIRE_REGISTRY_H
#define TT_WIRE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"
#include "wire/regcache.h"

/* What memory of a device is; as tutti_mem_device has it. */
struct tt_device_memory {
    tutti_mem_kind kind;
    int device;
    int dmabuf;                     /* a descriptor; -1: the memory's address is all there is */
    uint64_t dmabuf_offset;         /* at which the memory begins there */
};

/* What can register memory. Both calls come from any thread, several at a time; they may block. */
struct tt_registrar {
    const char *name;               /* "verbs" and the device's, for sentences; alive until leave */
    void *arg;
    /* Registers mem[bytes], whole pages, for reading by the device and, if it may be written at all (*writable), for writes of peers. 0, or an
     * errno, of which it does not tell. device: whose memory it is, if it is a device's, which no processor may touch; else NULL. EOPNOTSUPP: it cannot
     * register such. */
    int (*pin)(void *arg, void *mem, size_t bytes, const struct tt_device_memory *device, void **handle,
               bool *writable);
    void (*unpin)(void *arg, void *handle);
};

struct tt_domain;

/* OK, or INVALID with what is wrong with a setting. Starts nothing. */
tutti_status tt_registry_check(void);
/* A domain for that registrar (copied); the first reads the settings, and INVALID says what is wrong with one. The caller's, until leave. */
tutti_status tt_registry_join(struct tt_domain **out, const struct tt_registrar *registrar);
/* Undoes all registrations of the domain, which nobody uses any more, and ends it. NULL is fine. */
void tt_registry_leave(struct tt_domain *d);

/* A registration that has all of mem[bytes], bytes > 0. expose: peers will get its key; nobody else has it exposed meanwhile. *out is the
 * caller's until put; its handle is the registrar's. One caller at a time per domain. */
tutti_status tt_registry_get(struct tt_domain *d, void *mem, size_t bytes, bool expose, struct tt_reg **out);
/* The caller's use is over; exposed as in get. What is kept stays registered. */
void tt_registry_put(struct tt_domain *d, struct tt_reg *r, bool exposed);
/* Peers must not reach it any more: from here on nobody gets it, and the put of its last user undoes it before it returns. */
void tt_registry_revoke(struct tt_reg *r);

/* The application has told of mem[bytes]: it is registered as a whole, and stays so until untell. By the setting now (then NOMEM if that fails),
 * in the background or when it is first used. Several tells of the same place count. */
tutti_status tt_registry_tell(void *mem, size_t bytes);
/* The same of memory of a device: it is registered now, whatever the setting, and UNSUPPORTED or NOMEM if no domain can; mem and bytes are whole pages. The
 * descriptor stays the caller's. Nothing notices its end but untell. */
tutti_status tt_registry_tell_device(void *mem, size_t bytes, const struct tt_device_memory *what);
/* Whether some of mem[bytes] was told to be of a device. Costs next to nothing where nothing was. */
bool tt_registry_is_device(const void *mem, size_t bytes);
/* Ends the newest tell of a place that begins there. The memory is not registered any more when it returns; what still uses a registration
 * keeps that until its put. False: no tell begins there (its memory may have been unmapped). */
bool tt_registry_untell(const void *mem);
/* Bytes of the newest tell that begins there; 0: none does. */
size_t tt_registry_told_bytes(const void *mem);
/* OK, or INVALID where calls may use only what was told of, and some of that memory was not. Adjacent tells count together. */
tutti_status tt_registry_admits(const void *mem, size_t bytes);

struct tt_registry_counts {
    uint64_t hits, misses;          /* gets that found a registration; registrations that were made, by gets and by tells */
    uint64_t dynamic;               /* of the misses, those of memory that had not been told of */
    uint64_t evicted;               /* registrations that were undone for the bounds' sake */
    uint64_t invalidated;           /* that went because their memory did */
    uint64_t registered_bytes, registrations;       /* now */
    uint64_t registered_bytes_most;
    uint64_t told_bytes;
    uint64_t registering_ns, undoing_ns;            /* spent in registrars */
};
void tt_registry_counts(struct tt_registry_counts *out);

/* What is set, and whether memory can be watched; for `tutti info`. why_not: "" or why it cannot, in static storage. Starts nothing. */
struct tt_registry_setting {
    const char *mode;               /* "lazy" */
    uint64_t bytes_max, count_max;
    bool dynamic, watches;
    const char *why_not;
};
tutti_status tt_registry_setting(struct tt_registry_setting *out);

#endif
