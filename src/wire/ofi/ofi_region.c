#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/pages.h"
#include "base/status.h"
#include "wire/ofi/ofi.h"

#define REGIONS_MAX (1u << 24)

/* Takes a free id, from a table that grows. 0: out of memory. */
static uint32_t ofi_region_id(struct tt_ofi *o)
{
    const uint32_t n = o->nregions ? 2 * o->nregions : 64;
    struct tt_ofi_region **grown;
    uint32_t id = 1;

    while (id < o->nregions && o->regions[id])
        id++;
    if (id < o->nregions)
        return id;
    grown = n > REGIONS_MAX ? NULL : realloc(o->regions, n * sizeof *grown);
    if (!grown)
        return 0;
    memset(grown + o->nregions, 0, (n - o->nregions) * sizeof *grown);
    o->regions = grown;
    o->nregions = n;
    return id;
}

/* Sets the region's memory; allocates it if the caller passes none. */
static tutti_status region_map(struct tt_ofi_region *r, void *mem, size_t bytes)
{
    if (!mem && bytes > 0) {
        mem = tt_pages_map_aligned(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (mem == MAP_FAILED)
            return tt_fail_errno(errno, "ofi: cannot map %zu bytes of memory for a region", bytes);
        r->owned = true;
    }
    r->public.mem = mem;
    r->public.bytes = bytes;
    return TUTTI_OK;
}

static void region_free(struct tt_ofi_region *r)
{
    if (r->owned)
        munmap(r->public.mem, r->public.bytes);
    free(r);
}

/* ---- registrar ---- */

/* Converts a libfabric error to an errno. Its own errors, and "try again", count as lack of memory:
 * idle registrations are then evicted, and memory that still cannot be registered is accessed in
 * another way. */
static int errno_of(int err)
{
    return -err < FI_ERRNO_OFFSET && err != -FI_EAGAIN ? -err : ENOMEM;
}

static int ofi_pin(void *arg, void *mem, size_t bytes, const struct tt_device_memory *device,
                   void **handle, bool *writable)
{
    struct tt_ofi *o = arg;
    struct fid_mr *mr = NULL;
    int err;

    pthread_mutex_lock(&o->lock);
    err = tt_ofi_mr_pin(&o->provider, mem, bytes, device, &mr, writable);
    pthread_mutex_unlock(&o->lock);
    *handle = mr;
    return err ? errno_of(err) : 0;
}

static void ofi_unpin(void *arg, void *handle)
{
    struct tt_ofi *o = arg;
    struct fid_mr *mr = handle;

    pthread_mutex_lock(&o->lock);
    tt_ofi_close(&mr->fid);
    pthread_mutex_unlock(&o->lock);
}

tutti_status tt_ofi_regions_open(struct tt_ofi *o)
{
    const struct tt_registrar registrar = {
        .name = "ofi", .arg = o, .pin = ofi_pin, .unpin = ofi_unpin
    };
    tutti_status st;

    if (o->provider.per_endpoint)
        return TUTTI_OK;
    st = tt_registry_join(&o->domain, &registrar);
    if (!st)
        o->wire.caps |= TT_WIRE_CAP_PINS | (o->provider.copies ? 0 : TT_WIRE_CAP_DEVICE);
    return st;
}

/* ---- regions ---- */

/* Registers the region, if a registration serves all endpoints. */
static tutti_status region_register(struct tt_ofi *o, struct tt_ofi_region *r)
{
    tutti_status st = TUTTI_OK;

    if (r->public.bytes == 0 || o->provider.per_endpoint)
        return TUTTI_OK;
    if (r->owned) {
        pthread_mutex_lock(&o->lock);
        r->mr = tt_ofi_mr_open(&o->provider, r->public.mem, r->public.bytes,
                               FI_WRITE | FI_REMOTE_WRITE, NULL);
        pthread_mutex_unlock(&o->lock);
        return r->mr ? TUTTI_OK : TUTTI_ERR_NOMEM;
    }
    st = tt_registry_get(o->domain, r->public.mem, r->public.bytes, r->exposed, &r->pin);
    r->mr = st ? NULL : r->pin->handle;
    return st;
}

static tutti_status ofi_make_region(struct tt_wire *w, void *mem, size_t bytes, bool exposed,
                                    struct tt_region **out)
{
    struct tt_ofi *o = tt_ofi_of(w);
    struct tt_ofi_region *r = calloc(1, sizeof *r);
    struct tt_ofi_key key;
    tutti_status st;

    if (!r)
        return tt_fail(TUTTI_ERR_NOMEM, "ofi: out of memory for a region");
    r->public.wire = w;
    r->exposed = exposed;
    r->device = tt_registry_is_device(mem, bytes);
    st = region_map(r, mem, bytes);
    if (st)
        goto free;
    st = TUTTI_ERR_NOMEM;
    r->id = ofi_region_id(o);
    if (r->id == 0) {
        tt_fail(st,
                "ofi: cannot create more than %u regions: out of memory, or the maximum of %u is "
                "reached",
                o->nregions, REGIONS_MAX);
        goto free;
    }
    st = region_register(o, r);
    if (st)
        goto free;
    r->generation = ++o->next_generation;
    o->regions[r->id] = r;
    key = (struct tt_ofi_key){ .region = r->id, .generation = r->generation, .bytes = bytes };
    if (exposed)
        tt_ofi_key_write(&key, &r->public.key);
    *out = &r->public;
    return TUTTI_OK;

free:
    region_free(r);
    return st;
}

tutti_status tt_ofi_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    return ofi_make_region(w, mem, bytes, true, out);
}

tutti_status tt_ofi_source(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    return ofi_make_region(w, mem, bytes, false, out);
}

/* Closes the region's registration for the lane's endpoint, if any. */
static void grant_end(struct tt_ofi_region *r, const struct tt_ofi_lane *lane)
{
    struct tt_ofi_grant **at = &r->grants, *g;

    while (*at && (*at)->lane != lane)
        at = &(*at)->next;
    g = *at;
    if (!g)
        return;
    *at = g->next;
    tt_ofi_close(&g->mr->fid);
    free(g);
}

/* Afterwards no endpoint accesses the region's memory: endpoints that read it, or whose peers may
 * write it, are closed. */
static void region_withdraw(struct tt_ofi *o, struct tt_ofi_region *r)
{
    for (uint32_t i = o->nactive; i-- > 0;) {
        bool touched = false;

        for (uint32_t k = 0; k < TT_OFI_LANES; k++) {
            touched |= tt_ofi_source_gone(&o->active[i]->lanes[k], r);
            touched |= tt_ofi_target_is_open(&o->active[i]->lanes[k], r);
        }
        if (!touched)
            continue;
        for (uint32_t k = 0; k < TT_OFI_LANES; k++)     /* an endpoint with registrations cannot
                                                           be closed, and the region is not in
                                                           the table any more */
            grant_end(r, &o->active[i]->lanes[k]);
        tt_ofi_link_break(o->active[i]);
    }
    while (r->grants) {
        struct tt_ofi_grant *g = r->grants;

        r->grants = g->next;
        tt_ofi_close(&g->mr->fid);
        free(g);
    }
    if (!r->pin)
        tt_ofi_close(r->mr ? &r->mr->fid : NULL);
}

/* The registration may remain, even if peers have the key. Peers write only after a CTS, and the
 * endpoints of granted ones are closed. */
void tt_ofi_dereg(struct tt_region *public)
{
    struct tt_ofi_region *r = (struct tt_ofi_region *)public;
    struct tt_ofi *o = tt_ofi_of(public->wire);

    tt_assert(o->regions[r->id] == r);
    o->regions[r->id] = NULL;       /* lets searches find other registrations of the same memory */
    if (o->last_source == r)
        o->last_source = NULL;
    pthread_mutex_lock(&o->lock);
    region_withdraw(o, r);
    pthread_mutex_unlock(&o->lock);
    if (r->pin)
        tt_registry_put(o->domain, r->pin, r->exposed);
    region_free(r);
}

struct fid_mr *tt_ofi_region_grant(const struct tt_ofi_lane *lane, struct tt_ofi_region *r)
{
    const struct tt_ofi_provider *p = &lane->link->ofi->provider;
    struct tt_ofi_grant *g = r->grants;

    if (!p->per_endpoint)
        return r->mr;
    while (g && g->lane != lane)
        g = g->next;
    if (g)
        return g->mr;
    g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->mr = tt_ofi_mr_open(p, r->public.mem, r->public.bytes, FI_REMOTE_WRITE, lane->end[0].ep);
    if (!g->mr) {
        free(g);
        return NULL;
    }
    g->lane = lane;
    g->next = r->grants;
    r->grants = g;
    return g->mr;
}

uint64_t tt_ofi_region_address(const struct tt_ofi *o, const struct tt_ofi_region *r,
                               uint64_t offset)
{
    const uintptr_t mem = (uintptr_t)r->public.mem, begin = r->pin ? r->pin->span.begin : mem;

    return tt_ofi_mr_address(&o->provider, (const void *)begin, mem - begin + offset);
}

void tt_ofi_grants_end(const struct tt_ofi_lane *lane)
{
    const struct tt_ofi *o = lane->link->ofi;

    for (uint32_t i = 1; o->provider.per_endpoint && i < o->nregions; i++)
        if (o->regions[i])
            grant_end(o->regions[i], lane);
}

tutti_status tt_ofi_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key,
                           struct tt_rkey *out)
{
    struct tt_ofi_key k;

    if (!tt_ofi_key_read(&k, key) || k.region == 0)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "ofi: protocol error: rank %u sent an invalid key of %u bytes", peer,
                       key->bytes);
    *out = (struct tt_rkey){
        .wire = w, .peer = peer, .bytes = k.bytes, .handle = { k.region, k.generation }
    };
    return TUTTI_OK;
}

struct tt_ofi_region *tt_ofi_region_find(const struct tt_ofi *o, uint32_t id, uint32_t generation)
{
    struct tt_ofi_region *r = id < o->nregions ? o->regions[id] : NULL;

    return r && r->generation == generation ? r : NULL;
}

static bool ofi_region_covers(const struct tt_ofi_region *r, const void *mem, uint64_t bytes)
{
    const uint64_t at = (uintptr_t)mem - (uintptr_t)r->public.mem;

    return (uintptr_t)mem >= (uintptr_t)r->public.mem && at <= r->public.bytes &&
           bytes <= r->public.bytes - at;
}

struct tt_ofi_region *tt_ofi_region_covering(struct tt_ofi *o, const void *mem, uint64_t bytes)
{
    if (o->last_source && ofi_region_covers(o->last_source, mem, bytes))
        return o->last_source;
    for (uint32_t i = 1; i < o->nregions; i++)
        if (o->regions[i] && ofi_region_covers(o->regions[i], mem, bytes))
            return o->last_source = o->regions[i];
    return NULL;
}

void tt_ofi_regions_close(struct tt_ofi *o)
{
    for (uint32_t i = 1; i < o->nregions; i++)
        if (o->regions[i])
            tt_ofi_dereg(&o->regions[i]->public);
    free(o->regions);
    o->regions = NULL;
    o->nregions = 0;
    tt_registry_leave(o->domain);
    o->domain = NULL;
}
