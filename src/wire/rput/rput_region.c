#include "wire/rput/rput_region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/pages.h"
#include "base/status.h"

/* ---- the table ---- */

tutti_status tt_rput_regions_open(struct tt_rput_regions *t)
{
    return t->registrar.pin ? tt_registry_join(&t->domain, &t->registrar) : TUTTI_OK;
}

void tt_rput_regions_close(struct tt_rput_regions *t)
{
    struct tt_rput_region *r;
    uint32_t at = 0;

    while ((r = tt_rput_region_next(t, &at)))
        tt_rput_dereg(&r->public);
    free(t->slots);
    t->slots = NULL;
    t->nslots = t->free_slot = 0;
    tt_registry_leave(t->domain);
    t->domain = NULL;
}

uint64_t tt_rput_regions_bytes(const struct tt_rput_regions *t)
{
    uint64_t bytes = t->nslots * sizeof *t->slots;
    uint32_t at = 0;

    while (tt_rput_region_next(t, &at))
        bytes += t->region_bytes;
    return bytes;
}

/* Takes a free id, and grows the table if needed. 0: out of memory. */
static uint32_t region_id_take(struct tt_rput_regions *t)
{
    const uint32_t before = t->nslots, nslots = before ? 2 * before : 64;
    struct tt_rput_slot *grown;
    uint32_t id;

    if (t->free_slot == 0) {
        grown = nslots > TT_RPUT_REGIONS_MAX ? NULL : realloc(t->slots, nslots * sizeof *grown);
        if (!grown)
            return 0;
        t->slots = grown;
        t->nslots = nslots;
        grown[0].region = NULL;
        for (uint32_t i = nslots - 1; i >= before && i > 0; i--) {
            grown[i] = (struct tt_rput_slot){ .next_free = t->free_slot };
            t->free_slot = i;
        }
    }
    id = t->free_slot;
    t->free_slot = t->slots[id].next_free;
    return id;
}

static void region_id_give(struct tt_rput_regions *t, uint32_t id)
{
    t->slots[id] = (struct tt_rput_slot){ .next_free = t->free_slot };
    t->free_slot = id;
}

struct tt_rput_region *tt_rput_region_next(const struct tt_rput_regions *t, uint32_t *at)
{
    while (++*at < t->nslots)
        if (t->slots[*at].region)
            return t->slots[*at].region;
    return NULL;
}

bool tt_rput_region_covers(const struct tt_rput_region *r, const void *mem, uint64_t bytes)
{
    const uint64_t at = (uintptr_t)mem - (uintptr_t)r->public.mem;

    return (uintptr_t)mem >= (uintptr_t)r->public.mem && at <= r->public.bytes &&
           bytes <= r->public.bytes - at;
}

bool tt_rput_covers(const struct tt_rput_regions *t, const void *mem, uint64_t bytes)
{
    const struct tt_rput_region *r;
    uint32_t at = 0;

    while ((r = tt_rput_region_next(t, &at)))
        if (tt_rput_region_covers(r, mem, bytes))
            return true;
    return false;
}

struct tt_rput_region *tt_rput_source(struct tt_rput_regions *t, const void *mem, uint64_t bytes)
{
    struct tt_rput_region *r;
    uint32_t at = 0;

    if (t->last_source && tt_rput_region_covers(t->last_source, mem, bytes))
        return t->last_source;
    while ((r = tt_rput_region_next(t, &at)))
        if ((r->handle || !t->registrar.pin) && tt_rput_region_covers(r, mem, bytes))
            return t->last_source = r;
    return NULL;
}

/* ---- memory ---- */

static const char *name_of(const struct tt_rput_regions *t)
{
    return t->wire->ops->name;
}

/* Allocates the region's memory and registers it without the registry, as it is not shared. */
static tutti_status own_memory(struct tt_rput_region *r)
{
    const struct tt_rput_regions *t = r->table;
    void *mem = tt_pages_map_aligned(r->public.bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    bool writable;
    int err;

    if (mem == MAP_FAILED)
        return tt_fail_errno(errno, "%s: cannot map %zu bytes of memory for a region", name_of(t),
                             r->public.bytes);
    err = t->registrar.pin ? t->registrar.pin(t->registrar.arg, mem, r->public.bytes, NULL,
                                              &r->handle, &writable)
                           : 0;
    if (err) {
        munmap(mem, r->public.bytes);
        r->handle = NULL;
        return tt_fail(TUTTI_ERR_NOMEM, "%s: cannot register %zu bytes: %s%s", name_of(t),
                       r->public.bytes, strerror(err),
                       err == ENOMEM ? " (or above the limit of locked memory: ulimit -l)" : "");
    }
    r->public.mem = mem;
    r->owned = true;
    return TUTTI_OK;
}

tutti_status tt_rput_region_pin(struct tt_rput_region *r)
{
    struct tt_rput_regions *t = r->table;
    tutti_status st = TUTTI_OK;

    r->pin = NULL;
    if (t->domain && r->public.bytes > 0)
        st = tt_registry_get(t->domain, r->public.mem, r->public.bytes, r->exposed, &r->pin);
    r->handle = r->pin ? r->pin->handle : NULL;
    return st;
}

/* Ends the region's registration, and frees its memory if the wire owns it. */
static void region_release(struct tt_rput_region *r)
{
    struct tt_rput_regions *t = r->table;

    if (r->pin)
        tt_registry_put(t->domain, r->pin, r->exposed);
    else if (r->handle)
        t->registrar.unpin(t->registrar.arg, r->handle);
    if (r->owned)
        munmap(r->public.mem, r->public.bytes);
}

static void region_key(const struct tt_rput_region *r, struct tt_blob *out)
{
    const struct tt_rput_key key = { .region = r->id,
                                     .generation = r->generation,
                                     .bytes = r->public.bytes };

    if (r->table->key)
        r->table->key(r, out);
    else
        tt_rput_key_write(&key, r->table->key_magic, out);
}

tutti_status tt_rput_reg(struct tt_rput_regions *t, void *mem, size_t bytes, bool exposed,
                         struct tt_region **out)
{
    struct tt_rput_region *r = calloc(1, t->region_bytes);
    tutti_status st = TUTTI_ERR_NOMEM;

    if (!r)
        return tt_fail(st, "%s: out of memory for a region", name_of(t));
    r->public = (struct tt_region){ .wire = t->wire, .mem = mem, .bytes = bytes };
    r->table = t;
    r->exposed = exposed;
    r->device = t->registrar.pin && tt_registry_is_device(mem, bytes);
    r->id = region_id_take(t);
    if (r->id == 0) {
        tt_fail(st,
                "%s: cannot create more than %u regions: out of memory, or the maximum of %u is "
                "reached",
                name_of(t), t->nslots, TT_RPUT_REGIONS_MAX);
        goto free;
    }
    st = mem || bytes == 0 ? tt_rput_region_pin(r) : own_memory(r);
    if (st)
        goto give;
    r->generation = ++t->next_generation;
    t->slots[r->id].region = r;
    if (exposed)
        region_key(r, &r->public.key);
    *out = &r->public;
    return TUTTI_OK;

give:
    region_id_give(t, r->id);
free:
    free(r);
    return st;
}

void tt_rput_dereg(struct tt_region *public)
{
    struct tt_rput_region *r = (struct tt_rput_region *)public;
    struct tt_rput_regions *t = r->table;

    tt_assert(t->slots[r->id].region == r);
    region_id_give(t, r->id);       /* late arrivals do not find it, and searches find other
                                       registrations of the same memory */
    if (t->last_source == r)
        t->last_source = NULL;
    t->withdraw(r);
    region_release(r);
    free(r);
}

tutti_status tt_rput_refuse_key(const struct tt_rput_regions *t, uint32_t peer,
                                const struct tt_blob *key)
{
    return tt_fail(TUTTI_ERR_PROTOCOL,
                   "%s: protocol error: rank %u sent an invalid key of %u bytes", name_of(t), peer,
                   key->bytes);
}

tutti_status tt_rput_import(const struct tt_rput_regions *t, uint32_t peer,
                            const struct tt_blob *key, struct tt_rkey *out)
{
    struct tt_rput_key k;

    if (!tt_rput_key_read(&k, t->key_magic, key) || k.region == 0)
        return tt_rput_refuse_key(t, peer, key);
    *out = (struct tt_rkey){
        .wire = t->wire, .peer = peer, .bytes = k.bytes, .handle = { k.region, k.generation }
    };
    return TUTTI_OK;
}

/* ---- arrivals ---- */

bool tt_rput_apply(const struct tt_rput_regions *t, void *link, uint64_t link_bytes,
                   const struct tt_rput_record *r, const uint8_t *payload)
{
    const struct tt_rput_target word_at = { r->signal_region, r->signal_generation,
                                            r->signal_offset, 0 };
    uint64_t *word;
    uint8_t *to = NULL;
    enum tt_rput_found found = TT_RPUT_FOUND;

    if (r->kind == TT_RPUT_VOID)
        return true;
    if (r->data.bytes)
        found = tt_rput_find(t, link, link_bytes, &r->data, r->payload > 0, &to, NULL);
    if (found != TT_RPUT_FOUND)
        return found != TT_RPUT_BROKEN;
    if (r->payload)
        memcpy(to, payload, r->payload);
    if (r->signal_op == TT_SIGNAL_NONE)
        return true;
    found = tt_rput_find_word(t, link, link_bytes, &word_at, &word);
    if (found == TT_RPUT_FOUND)
        tt_rput_raise(word, r->signal_op, r->signal_value);
    return found != TT_RPUT_BROKEN;
}
