/* Registered memory of a network transport: the table of regions, their keys, and how arriving puts
 * and signals find their memory. For all transports whose peers name memory by region and offset.
 *
 * A region has an id, reused after it is deregistered, and a generation, which is not. Id 0 is the
 * link region. A *source* is a region whose key peers do not get. Threads: as for the wire. */
#ifndef TT_WIRE_RPUT_RPUT_REGION_H
#define TT_WIRE_RPUT_RPUT_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/registry.h"
#include "wire/rput/rput_frame.h"
#include "wire/wire.h"

#define TT_RPUT_REGIONS_MAX (1u << 24)

/* The transport's struct of a region begins with this. */
struct tt_rput_region {
    struct tt_region public;
    struct tt_rput_regions *table;
    void *handle;                   /* the registrar's, for all of the memory; NULL: it is not
                                       registered */
    struct tt_reg *pin;             /* the registration of the caller's memory that has this handle;
                                       NULL: none, or the region owns the handle */
    uint32_t id, generation;
    bool owned;                     /* the wire has allocated the memory */
    bool exposed;                   /* peers may have its key */
    bool device;                    /* device memory: the CPU must not access it */
};

struct tt_rput_slot {
    struct tt_rput_region *region;  /* NULL: free */
    uint32_t next_free;
};

struct tt_rput_regions {
    /* set by the transport before tt_rput_regions_open */
    struct tt_wire *wire;
    size_t region_bytes;            /* size of the transport's region struct */
    struct tt_registrar registrar;  /* pin NULL: memory needs no registration */
    uint16_t key_magic;             /* of its keys (rput_frame.h) */
    void (*key)(const struct tt_rput_region *r, struct tt_blob *out);   /* NULL: the format of
                                                                           rput_frame.h */
    /* Ends all use of the region's memory by this process and its peers. The region is not in the
     * table any more, and its memory is still registered. */
    void (*withdraw)(struct tt_rput_region *r);

    struct tt_domain *domain;       /* of the registry, for the caller's memory; NULL: none */
    struct tt_rput_slot *slots;     /* [nslots]; the first is never used */
    uint32_t nslots, free_slot, next_generation;
    struct tt_rput_region *last_source;
};

/* Joins the registry, which caches registrations of the caller's memory, if there is a
 * registrar. */
tutti_status tt_rput_regions_open(struct tt_rput_regions *t);
/* Deregisters all regions. Does nothing for a table that is zero. */
void tt_rput_regions_close(struct tt_rput_regions *t);
/* Bytes of the table and the regions' structs. */
uint64_t tt_rput_regions_bytes(const struct tt_rput_regions *t);

/* Creates a region of mem[bytes], registered as a whole; mem NULL: of new memory, zeroed. exposed:
 * it gets a key. *out is the caller's, and is released by tt_rput_dereg. Errors are logged. */
tutti_status tt_rput_reg(struct tt_rput_regions *t, void *mem, size_t bytes, bool exposed,
                         struct tt_region **out);
/* tt_wire_ops.dereg. */
void tt_rput_dereg(struct tt_region *public);
/* tt_wire_ops.import, for keys in the format of rput_frame.h: handle { region, generation }. */
tutti_status tt_rput_import(const struct tt_rput_regions *t, uint32_t peer,
                            const struct tt_blob *key, struct tt_rkey *out);
/* Returns PROTOCOL, after logging that the peer's key is not one of this transport. */
tutti_status tt_rput_refuse_key(const struct tt_rput_regions *t, uint32_t peer,
                                const struct tt_blob *key);
/* Registers the caller's memory again, for a region whose registration was revoked: sets pin and
 * handle. The caller must put the earlier pin. */
tutti_status tt_rput_region_pin(struct tt_rput_region *r);

/* Returns the live region of that id and generation, or NULL. */
static inline struct tt_rput_region *tt_rput_region_find(const struct tt_rput_regions *t,
                                                         uint32_t id, uint32_t generation)
{
    struct tt_rput_region *r = id < t->nslots ? t->slots[id].region : NULL;

    return r && r->generation == generation ? r : NULL;
}

/* Iterates over the live regions: start with *at = 0. NULL: no more. */
struct tt_rput_region *tt_rput_region_next(const struct tt_rput_regions *t, uint32_t *at);
/* Returns whether the region contains mem[bytes]. */
bool tt_rput_region_covers(const struct tt_rput_region *r, const void *mem, uint64_t bytes);
/* Returns whether a live region contains mem[bytes], registered or not. */
bool tt_rput_covers(const struct tt_rput_regions *t, const void *mem, uint64_t bytes);
/* Returns a usable region that contains mem[bytes], preferably the one found last. NULL: none. */
struct tt_rput_region *tt_rput_source(struct tt_rput_regions *t, const void *mem, uint64_t bytes);

/* ---- arrivals ---- */

enum tt_rput_found {
    TT_RPUT_FOUND,
    TT_RPUT_GONE,                   /* deregistered: a late arrival, to be dropped */
    TT_RPUT_BROKEN                  /* out of bounds: a faulty peer */
};

/* Finds the memory of a target in the table or in link[link_bytes]. by_cpu: the CPU will access it,
 * so device memory counts as gone. *region, if region is not NULL: NULL for the link region. */
static inline enum tt_rput_found tt_rput_find(const struct tt_rput_regions *t, void *link,
                                              uint64_t link_bytes, const struct tt_rput_target *at,
                                              bool by_cpu, uint8_t **mem,
                                              struct tt_rput_region **region)
{
    struct tt_rput_region *r = NULL;
    uint64_t bound = link_bytes;
    uint8_t *base = link;

    if (at->region != 0) {
        r = tt_rput_region_find(t, at->region, at->generation);
        if (!r || !r->exposed || (r->device && by_cpu))
            return TT_RPUT_GONE;
        base = r->public.mem;
        bound = r->public.bytes;
    }
    if (at->offset > bound || at->bytes > bound - at->offset)
        return TT_RPUT_BROKEN;
    *mem = base + at->offset;
    if (region)
        *region = r;
    return TT_RPUT_FOUND;
}

/* Finds a 64-bit word that can be accessed atomically; at->bytes is ignored. */
static inline enum tt_rput_found tt_rput_find_word(const struct tt_rput_regions *t, void *link,
                                                   uint64_t link_bytes,
                                                   const struct tt_rput_target *at, uint64_t **word)
{
    const struct tt_rput_target here = { .region = at->region,
                                         .generation = at->generation,
                                         .offset = at->offset,
                                         .bytes = sizeof **word };
    uint8_t *mem;
    const enum tt_rput_found found = tt_rput_find(t, link, link_bytes, &here, true, &mem, NULL);

    if (found == TT_RPUT_FOUND && (uintptr_t)mem % sizeof **word)
        return TT_RPUT_BROKEN;
    if (found == TT_RPUT_FOUND)
        *word = (uint64_t *)(void *)mem;
    return found;
}

/* Raises a signal (enum tt_signal_op). Earlier stores of this thread are visible to a reader that
 * observes it. */
static inline void tt_rput_raise(uint64_t *word, uint8_t op, uint64_t value)
{
    if (op == TT_SIGNAL_SET)
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    else if (op == TT_SIGNAL_ADD)
        __atomic_fetch_add(word, value, __ATOMIC_RELEASE);
}

/* Applies a record of kind PUT or VOID: copies its payload, if any, then raises its signal. A put
 * whose target is deregistered is dropped with its signal, as is one that is VOID. Returns false if
 * a correct peer cannot have sent it. */
bool tt_rput_apply(const struct tt_rput_regions *t, void *link, uint64_t link_bytes,
                   const struct tt_rput_record *r, const uint8_t *payload);

#endif
