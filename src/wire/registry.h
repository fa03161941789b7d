/* Registered memory of this process, for all wires and communicators. Memory is registered at its
 * first use, and the registration is kept while the memory does not change. regcache.h decides what
 * is kept, and memwatch.h detects changes. This file has the lock, the threads, the settings and
 * the counters.
 *
 * A wire joins with a *registrar*, which registers memory with its device. Such registrations are
 * valid in the wire's *domain*. The limits hold for all domains together.
 *
 *  TUTTI_REGISTER  none: registered only while in use; lazy (default): at first use, and kept;
 *  eager: user ranges (tutti_mem_register, tutti_mem_alloc) at once; async: the same, in the
 *  background
 *  TUTTI_REGISTER_BYTES  limit of registered bytes; TUTTI_REGISTER_COUNT: of registrations
 *  TUTTI_REGISTER_DYNAMIC  0: calls may use only memory in user ranges
 *
 * A user range is memory that the application has registered. A buffer may span several user ranges
 * of host memory. A wire has one key per buffer. The first use of such a buffer therefore registers
 * the union of its ranges, which replaces the registrations of the ranges until one of them is
 * removed. Each user range of device memory has its own registration, and a buffer must lie in one.
 *
 * Without users, a registration is kept only if changes of its memory would be detected
 * (memwatch.h), or if it is in a user range.
 *
 * Threads: any, unless stated otherwise. The registry has two threads, from the first domain that
 * keeps registrations to the end of the process. One reads the kernel's events and does nothing
 * else. The other undoes registrations whose memory is gone, and registers in the background. A
 * forked child has its own, empty registry. */
#ifndef TT_WIRE_REGISTRY_H
#define TT_WIRE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"
#include "wire/regcache.h"

/* Device memory, as in tutti_mem_device. */
struct tt_device_memory {
    tutti_mem_kind kind;
    int device;
    int dmabuf;                     /* a descriptor; -1: only the address is known */
    uint64_t dmabuf_offset;         /* offset of the memory in the dma-buf */
};

/* Registers memory with a device. Both calls may come from any thread, concurrently, and may
 * block. */
struct tt_registrar {
    const char *name;               /* "verbs" and the device's name, for errors; valid until
                                       leave */
    void *arg;
    /* Registers mem[bytes], whole pages, for reads by the device and, if possible (*writable),
     * for writes of peers. Returns 0 or an errno, without logging. device: description of device
     * memory, which the CPU must not access, or NULL. EOPNOTSUPP: device memory is not
     * supported. */
    int (*pin)(void *arg, void *mem, size_t bytes, const struct tt_device_memory *device,
               void **handle, bool *writable);
    void (*unpin)(void *arg, void *handle);
};

struct tt_domain;

/* Returns OK, or INVALID with the invalid setting. Starts nothing. */
tutti_status tt_registry_check(void);
/* Creates a domain for the registrar, which is copied. The first domain reads the settings; INVALID
 * names an invalid one. The caller owns *out until leave. */
tutti_status tt_registry_join(struct tt_domain **out, const struct tt_registrar *registrar);
/* Undoes all registrations of the domain, which must be unused, and frees it. NULL is allowed. */
void tt_registry_leave(struct tt_domain *d);

/* Returns a registration that covers mem[bytes], bytes > 0. expose: its key is for peers, and no
 * other user exposes it meanwhile. The caller owns *out until put; its handle is the registrar's.
 * One thread at a time per domain. */
tutti_status tt_registry_get(struct tt_domain *d, void *mem, size_t bytes, bool expose,
                             struct tt_reg **out);
/* Ends the caller's use; `exposed` as in get. The registration may be kept. */
void tt_registry_put(struct tt_domain *d, struct tt_reg *r, bool exposed);
/* Revokes r: it is not found any more, and the put of its last user undoes it before it returns.
 * Peers must not reach it afterwards. */
void tt_registry_revoke(struct tt_reg *r);

/* Adds a user range mem[bytes], which is registered as a whole until it is removed. TUTTI_REGISTER
 * determines whether it is registered now (NOMEM on failure), in the background or at first use.
 * The same memory may be added several times, and must be removed as often. */
tutti_status tt_registry_add(void *mem, size_t bytes);
/* As tt_registry_add, for device memory, which is registered now, whatever the setting. UNSUPPORTED
 * or NOMEM if no domain can register it. mem and bytes are whole pages. The caller keeps the
 * descriptor. Freeing of the memory is not detected: call tt_registry_remove first. */
tutti_status tt_registry_add_device(void *mem, size_t bytes, const struct tt_device_memory *what);
/* Returns whether mem[bytes] overlaps a user range of device memory. Fast if there are none. */
bool tt_registry_is_device(const void *mem, size_t bytes);
/* Removes the newest user range that begins at mem. Afterwards the memory is not registered, except
 * for registrations in use, which last until their put. Returns false if no user range begins there
 * (its memory may have been unmapped). */
bool tt_registry_remove(const void *mem);
/* Returns the bytes of the newest user range that begins at mem; 0: none. */
size_t tt_registry_user_bytes(const void *mem);
/* Returns OK, or INVALID if calls may use only user ranges, and part of mem[bytes] is in none.
 * Adjacent ranges count together. */
tutti_status tt_registry_check_use(const void *mem, size_t bytes);

struct tt_registry_counts {
    uint64_t hits, misses;          /* hits: gets that found a registration; misses:
                                       registrations made, by gets and for user ranges */
    uint64_t dynamic;               /* misses for memory outside of user ranges */
    uint64_t evicted;               /* registrations undone because of the limits */
    uint64_t invalidated;           /* registrations undone because their memory changed */
    uint64_t registered_bytes, registrations;       /* current values */
    uint64_t registered_bytes_most;
    uint64_t explicit_bytes;
    uint64_t registering_ns, undoing_ns;            /* time spent in registrars */
};
void tt_registry_counts(struct tt_registry_counts *out);

/* Settings, and whether memory can be watched; for `tutti info`. why_not: "" or the reason, in
 * static storage. Starts nothing. */
struct tt_registry_setting {
    const char *mode;               /* "lazy" */
    uint64_t bytes_max, count_max;
    bool dynamic, watches;
    const char *why_not;
};
tutti_status tt_registry_setting(struct tt_registry_setting *out);

#endif
