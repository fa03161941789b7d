#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/log.h"
#include "base/pages.h"
#include "base/status.h"
#include "wire/verbs/verbs.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* Registers memory; NULL and errno if the device refuses. *writable: peers may write to it. device:
 * memory of another device, or NULL for host memory. Without a dma-buf it is registered by address,
 * which needs a kernel module (nvidia-peermem). */
static struct ibv_mr *try_pin(struct tt_verbs_rail *rail, void *mem, size_t bytes, int access,
                              const struct tt_device_memory *device, bool *writable)
{
    struct ibv_mr *mr;

    if (device && device->dmabuf >= 0)
        mr = ibv_reg_dmabuf_mr(rail->pd, device->dmabuf_offset, bytes, (uintptr_t)mem,
                               device->dmabuf, access);
    else
        mr = ibv_reg_mr(rail->pd, mem, bytes, access);
    *writable = mr && access & IBV_ACCESS_REMOTE_WRITE;
    if (!mr && errno == EFAULT && access && !device)
        mr = ibv_reg_mr(rail->pd, mem, bytes, 0);   /* read-only memory: source only */
    return mr;
}

struct ibv_mr *tt_verbs_pin(struct tt_verbs_rail *rail, void *mem, size_t bytes, int access)
{
    bool writable;
    struct ibv_mr *mr = try_pin(rail, mem, bytes, access, NULL, &writable);

    if (!mr && errno == ENOMEM)
        tt_fail(TUTTI_ERR_NOMEM,
                "verbs: %s cannot register %zu bytes: out of memory, or above the limit of locked "
                "memory (ulimit -l)",
                rail->name, bytes);
    else if (!mr)
        tt_fail_errno(errno, "verbs: cannot register %zu bytes with %s", bytes, rail->name);
    return mr;
}

void tt_verbs_unpin(struct ibv_mr *mr)
{
    if (mr)
        ibv_dereg_mr(mr);
}

static void unpin_all(struct tt_verbs_mrs *mrs)
{
    for (uint32_t i = 0; i < TT_VERBS_RAILS; i++)
        tt_verbs_unpin(mrs->rail[i]);
    free(mrs);
}

/* ---- registrar ---- */

static int verbs_pin_memory(void *arg, void *mem, size_t bytes,
                            const struct tt_device_memory *device, void **handle, bool *writable)
{
    struct tt_verbs *v = arg;
    struct tt_verbs_mrs *mrs = calloc(1, sizeof *mrs);

    if (!mrs)
        return ENOMEM;
    *writable = true;
    for (uint32_t i = 0; i < v->nrails; i++) {
        bool by_this;

        mrs->rail[i] = try_pin(&v->rail[i], mem, bytes, ACCESS, device, &by_this);
        if (!mrs->rail[i]) {
            const int err = errno;

            unpin_all(mrs);
            return err;
        }
        *writable &= by_this;
    }
    *handle = mrs;
    return 0;
}

static void verbs_unpin_memory(void *arg, void *handle)
{
    (void)arg;
    unpin_all(handle);
}

tutti_status tt_verbs_regions_open(struct tt_verbs *v)
{
    const struct tt_registrar registrar = {
        .name = "verbs", .arg = v, .pin = verbs_pin_memory, .unpin = verbs_unpin_memory
    };

    return tt_registry_join(&v->domain, &registrar);
}

/* ---- regions ---- */

/* Takes a free id, from a table that grows. 0: out of memory. */
static uint32_t verbs_region_id(struct tt_verbs *v)
{
    const uint32_t before = v->nregions, n = before ? 2 * before : 64;
    struct tt_verbs_region **grown;

    for (uint32_t i = 1; i < before; i++)
        if (!v->regions[i])
            return i;
    grown = n > TT_VERBS_REGIONS_MAX ? NULL : realloc(v->regions, n * sizeof *grown);
    if (!grown)
        return 0;
    memset(grown + before, 0, (n - before) * sizeof *grown);
    v->regions = grown;
    v->nregions = n;
    return before ? before : 1;
}

/* Registers memory of the wire, which is not shared. */
static tutti_status register_own_memory(struct tt_verbs *v, struct tt_verbs_region *r)
{
    struct tt_verbs_mrs *mrs;
    void *mem;

    if (r->public.bytes == 0)
        return TUTTI_OK;
    mem = tt_pages_map_aligned(r->public.bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (mem == MAP_FAILED)
        return tt_fail_errno(errno, "verbs: cannot map %zu bytes of memory for a region",
                             r->public.bytes);
    mrs = calloc(1, sizeof *mrs);
    for (uint32_t i = 0; mrs && i < v->nrails; i++) {
        mrs->rail[i] = tt_verbs_pin(&v->rail[i], mem, r->public.bytes, ACCESS);
        if (!mrs->rail[i]) {
            unpin_all(mrs);
            mrs = NULL;
        }
    }
    if (!mrs) {
        munmap(mem, r->public.bytes);
        return TUTTI_ERR_NOMEM;
    }
    r->mrs = mrs;
    r->owned = true;
    r->public.mem = mem;
    return TUTTI_OK;
}

/* Registers the caller's memory through the registry. */
static tutti_status register_caller_memory(struct tt_verbs *v, struct tt_verbs_region *r)
{
    tutti_status st = TUTTI_OK;

    r->pin = NULL;
    if (r->public.bytes > 0)
        st = tt_registry_get(v->domain, r->public.mem, r->public.bytes, r->exposed, &r->pin);
    r->mrs = r->pin ? r->pin->handle : NULL;
    return st;
}

static tutti_status verbs_make_region(struct tt_verbs *v, void *mem, size_t bytes, bool exposed,
                                      struct tt_region **out)
{
    struct tt_verbs_region *r = calloc(1, sizeof *r);
    tutti_status st = TUTTI_ERR_NOMEM;
    struct tt_verbs_key key;

    if (!r)
        return tt_fail(st, "verbs: out of memory for a region");
    r->id = verbs_region_id(v);
    if (r->id == 0) {
        tt_fail(st,
                "verbs: cannot create more than %u regions: out of memory, or the maximum of %u is "
                "reached",
                v->nregions, TT_VERBS_REGIONS_MAX);
        goto free;
    }
    r->public = (struct tt_region){ .wire = &v->wire, .mem = mem, .bytes = bytes };
    r->exposed = exposed;
    r->device = tt_registry_is_device(mem, bytes);
    st = mem ? register_caller_memory(v, r) : register_own_memory(v, r);
    if (st)
        goto free;
    r->generation = ++v->next_generation;
    v->regions[r->id] = r;
    key = (struct tt_verbs_key){ .region = r->id,
                                 .generation = r->generation,
                                 .address = (uintptr_t)r->public.mem,
                                 .bytes = bytes };
    for (uint32_t i = 0; r->mrs && i < v->nrails; i++)
        key.rkey[i] = r->mrs->rail[i]->rkey;
    if (exposed)
        tt_verbs_key_write(&key, &r->public.key);
    *out = &r->public;
    return TUTTI_OK;

free:
    free(r);
    return st;
}

tutti_status tt_verbs_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    return verbs_make_region(tt_verbs_of(w), mem, bytes, true, out);
}

tutti_status tt_verbs_source(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    return verbs_make_region(tt_verbs_of(w), mem, bytes, false, out);
}

/* Regions that share r's registration continue with another one of their memory, or without one if
 * there is none. */
static void part_with(struct tt_verbs *v, const struct tt_verbs_region *r)
{
    tt_registry_revoke(r->pin);
    v->last_source = NULL;
    for (uint32_t i = 1; i < v->nregions; i++) {
        struct tt_verbs_region *other = v->regions[i];
        struct tt_reg *shared = r->pin;

        if (!other || other == r || other->pin != shared)
            continue;
        if (register_caller_memory(v, other))
            tt_log(TT_LOG_WARN, "verbs: cannot register the source of a transfer again: links that "
                                "still send from this memory will fail");
        tt_registry_put(v->domain, shared, false);
    }
}

static void region_release(struct tt_verbs *v, struct tt_verbs_region *r)
{
    if (r->owned) {
        unpin_all(r->mrs);
        munmap(r->public.mem, r->public.bytes);
    } else if (r->pin) {
        tt_registry_put(v->domain, r->pin, r->exposed);
    }
}

/* Queue pairs that read it are stopped first. If peers may still write, its registration ends:
 * writes in flight then fail and break their queue pairs, and the sender makes them void. */
void tt_verbs_dereg(struct tt_region *public)
{
    struct tt_verbs_region *r = (struct tt_verbs_region *)public;
    struct tt_verbs *v = tt_verbs_of(public->wire);

    tt_assert(v->regions[r->id] == r);
    v->regions[r->id] = NULL;       /* lets searches find other registrations of the same memory */
    if (v->last_source == r)
        v->last_source = NULL;
    if (r->pin && r->exposed && !public->settled)
        part_with(v, r);
    for (uint32_t i = r->mrs ? v->nactive : 0; i-- > 0;)
        for (uint32_t k = 0; k < TT_VERBS_STREAMS; k++)
            tt_verbs_source_gone(&v->active[i]->streams[k], r->mrs->rail[0]->lkey);
    if (v->any_broken)
        tt_verbs_links_break(v);
    region_release(v, r);
    free(r);
}

tutti_status tt_verbs_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key,
                             struct tt_rkey *out)
{
    struct tt_verbs_key k;

    if (!tt_verbs_key_read(&k, key) || k.region == 0)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "verbs: protocol error: rank %u sent an invalid key of %u bytes", peer,
                       key->bytes);
    *out = (struct tt_rkey){
        .wire = w,
        .peer = peer,
        .bytes = k.bytes,
        .handle = { k.address, k.region, k.generation, k.rkey[0] | (uint64_t)k.rkey[1] << 32 },
    };
    return TUTTI_OK;
}

struct tt_verbs_region *tt_verbs_region_find(const struct tt_verbs *v, uint32_t id,
                                             uint32_t generation)
{
    struct tt_verbs_region *r = id < v->nregions ? v->regions[id] : NULL;

    return r && r->generation == generation ? r : NULL;
}

static bool verbs_range_covers(const void *all, uint64_t all_bytes, const void *mem, uint64_t bytes)
{
    const uintptr_t first = (uintptr_t)all, begin = (uintptr_t)mem;

    return begin >= first && begin - first <= all_bytes && bytes <= all_bytes - (begin - first);
}

static void lkeys_of(const struct tt_verbs *v, struct ibv_mr *const mr[TT_VERBS_RAILS],
                     uint32_t lkey[TT_VERBS_RAILS])
{
    for (uint32_t i = 0; i < v->nrails; i++)
        lkey[i] = mr[i]->lkey;
}

bool tt_verbs_lkey(struct tt_verbs *v, const void *mem, uint64_t bytes,
                   uint32_t lkey[TT_VERBS_RAILS])
{
    struct tt_verbs_region *r = v->last_source;

    if (r && verbs_range_covers(r->public.mem, r->public.bytes, mem, bytes)) {
        lkeys_of(v, r->mrs->rail, lkey);
        return true;
    }
    for (uint32_t i = 1; i < v->nregions; i++) {
        r = v->regions[i];
        if (!r || !r->mrs || !verbs_range_covers(r->public.mem, r->public.bytes, mem, bytes))
            continue;
        v->last_source = r;
        lkeys_of(v, r->mrs->rail, lkey);
        return true;
    }
    for (uint32_t i = 0; i < v->nactive; i++)
        if (verbs_range_covers(v->active[i]->mine, v->conf.link_bytes, mem, bytes)) {
            lkeys_of(v, v->active[i]->mine_mr, lkey);
            return true;
        }
    return false;
}

bool tt_verbs_is_source(const struct tt_verbs *v, const void *mem, uint64_t bytes)
{
    for (uint32_t i = 1; i < v->nregions; i++) {
        const struct tt_verbs_region *r = v->regions[i];

        if (r && verbs_range_covers(r->public.mem, r->public.bytes, mem, bytes))
            return true;
    }
    return false;
}

bool tt_verbs_has_lkey(const struct tt_verbs *v, const void *mem, uint64_t bytes, uint32_t lkey)
{
    for (uint32_t i = 1; i < v->nregions; i++) {
        const struct tt_verbs_region *r = v->regions[i];

        if (r && r->mrs && r->mrs->rail[0]->lkey == lkey &&
            verbs_range_covers(r->public.mem, r->public.bytes, mem, bytes))
            return true;
    }
    return false;
}

void tt_verbs_regions_close(struct tt_verbs *v)
{
    for (uint32_t i = 1; i < v->nregions; i++)
        if (v->regions[i])
            tt_verbs_dereg(&v->regions[i]->public);
    free(v->regions);
    v->regions = NULL;
    v->nregions = 0;
    tt_registry_leave(v->domain);
    v->domain = NULL;
}
