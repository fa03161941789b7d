#include <errno.h>
#include <stdlib.h>
#include "base/prng.h"
#include "base/status.h"
#include "wire/ofi/ofi.h"

#define KEY_TRIES 8         /* attempts, if keys are in use */

/* ---- registrations ---- */

/* Returns an unpredictable key of the provider's key size. */
static uint64_t random_key(const struct tt_ofi_provider *p)
{
    const size_t bytes = p->info->domain_attr->mr_key_size;
    uint64_t key;

    tt_random_bytes(&key, sizeof key);
    return bytes > 0 && bytes < sizeof key ? key & ((1ull << (8 * bytes)) - 1) : key;
}

/* Sets the kind of device memory. Returns false if the provider does not support it. */
static bool set_device(struct fi_mr_attr *attr, const struct tt_device_memory *what,
                       const struct tt_ofi_provider *p)
{
    static const enum fi_hmem_iface ifaces[] = {
        [TUTTI_MEM_MAPPED] = FI_HMEM_SYSTEM,
        [TUTTI_MEM_CUDA] = FI_HMEM_CUDA,
        [TUTTI_MEM_ROCM] = FI_HMEM_ROCR,
        [TUTTI_MEM_LEVEL_ZERO] = FI_HMEM_ZE,
    };

    attr->iface = ifaces[what->kind];
    attr->device.reserved = (uint64_t)what->device;
    return attr->iface == FI_HMEM_SYSTEM || p->hmem;
}

/* device: NULL for host memory. The provider selects the method of access to device memory; a
 * dma-buf is not used here. */
static int mr_register(const struct tt_ofi_provider *p, void *mem, size_t bytes, uint64_t access,
                       const struct tt_device_memory *device, struct fid_mr **mr)
{
    const struct iovec iov = { .iov_base = mem, .iov_len = bytes };
    struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = access };
    const bool chosen = !(p->info->domain_attr->mr_mode & FI_MR_PROV_KEY);
    int err = -FI_ENOKEY;

    if (device && !set_device(&attr, device, p))
        return -FI_EOPNOTSUPP;
    for (uint32_t i = 0; i < KEY_TRIES && err == -FI_ENOKEY; i++) {
        attr.requested_key = chosen ? random_key(p) : 0;
        err = fi_mr_regattr(p->domain, &attr, 0, mr);
    }
    return err;
}

/* As tt_ofi_mr_open, for the registry, for sources and targets. Returns 0 or libfabric's error,
 * which is not logged. *writable: peers may write to it. */
static int mr_pin(const struct tt_ofi_provider *p, void *mem, size_t bytes,
                  const struct tt_device_memory *device, struct fid_mr **out, bool *writable)
{
    const int err = mr_register(p, mem, bytes, FI_WRITE | FI_REMOTE_WRITE, device, out);

    *writable = !err;
    if (!err || device)
        return err;
    return mr_register(p, mem, bytes, FI_WRITE, NULL, out);     /* read-only memory: source only */
}

struct fid_mr *tt_ofi_mr_open(const struct tt_ofi_provider *p, void *mem, size_t bytes,
                              uint64_t access, struct fid_ep *ep)
{
    struct fid_mr *mr = NULL;
    int err = mr_register(p, mem, bytes, access, NULL, &mr);

    if (err && access & FI_REMOTE_WRITE)    /* read-only memory: source only */
        err = mr_register(p, mem, bytes, access & ~FI_REMOTE_WRITE, NULL, &mr);
    if (!err && ep) {
        err = fi_mr_bind(mr, &ep->fid, 0);
        if (!err)
            err = fi_mr_enable(mr);
        if (err)
            tt_ofi_close(&mr->fid);
    }
    if (err)
        tt_fail(TUTTI_ERR_NOMEM, "ofi: %s: cannot register %zu bytes: %s%s", p->name, bytes,
                tt_ofi_strerror(err),
                err == -FI_ENOMEM ? " (out of memory, or above the limit of locked "
                                    "memory: ulimit -l)"
                                  : "");
    return err ? NULL : mr;
}

uint64_t tt_ofi_mr_address(const struct tt_ofi_provider *p, const void *begin, uint64_t offset)
{
    return (p->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)begin : 0) + offset;
}

void *tt_ofi_mr_desc(struct fid_mr *mr)
{
    return mr ? fi_mr_desc(mr) : NULL;
}

/* ---- registrar ---- */

/* Converts a libfabric error to an errno. Its own errors, and "try again", count as lack of memory:
 * idle registrations are then evicted, and memory that still cannot be registered is accessed by
 * another method. */
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
    err = mr_pin(&o->provider, mem, bytes, device, &mr, writable);
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

/* ---- regions ---- */

void tt_ofi_grant_end(struct tt_ofi_region *r, const struct tt_ofi_lane *lane)
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

tutti_status tt_ofi_regions_open(struct tt_ofi *o)
{
    struct tt_rput_regions *t = &o->base.regions;
    tutti_status st;

    t->region_bytes = sizeof(struct tt_ofi_region);
    t->key_magic = TT_OFI_KEY_MAGIC;
    if (!o->provider.ordered)
        o->base.wire.caps |= TT_WIRE_CAP_AWAITS;
    if (o->provider.per_endpoint)
        return TUTTI_OK;
    t->registrar =
        (struct tt_registrar){ .name = "ofi", .arg = o, .pin = ofi_pin, .unpin = ofi_unpin };
    st = tt_rput_regions_open(t);
    if (!st)
        o->base.wire.caps |= TT_WIRE_CAP_PINS | (o->provider.copies ? 0 : TT_WIRE_CAP_DEVICE);
    return st;
}

tutti_status tt_ofi_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key,
                           struct tt_rkey *out)
{
    return tt_rput_import(&tt_ofi_of(w)->base.regions, peer, key, out);
}

struct fid_mr *tt_ofi_region_grant(const struct tt_ofi_lane *lane, struct tt_ofi_region *r)
{
    const struct tt_ofi_provider *p = &lane->link->ofi->provider;
    struct tt_ofi_grant *g = r->grants;

    if (!p->per_endpoint)
        return r->base.handle;
    while (g && g->lane != lane)
        g = g->next;
    if (g)
        return g->mr;
    g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->mr = tt_ofi_mr_open(p, r->base.public.mem, r->base.public.bytes, FI_REMOTE_WRITE,
                           lane->end[0].ep);
    if (!g->mr) {
        free(g);
        return NULL;
    }
    g->lane = lane;
    g->next = r->grants;
    r->grants = g;
    return g->mr;
}

uint64_t tt_ofi_region_address(const struct tt_ofi *o, const struct tt_rput_region *r,
                               uint64_t offset)
{
    const uintptr_t mem = (uintptr_t)r->public.mem, begin = r->pin ? r->pin->span.begin : mem;

    return tt_ofi_mr_address(&o->provider, (const void *)begin, mem - begin + offset);
}

void tt_ofi_grants_end(const struct tt_ofi_lane *lane)
{
    const struct tt_ofi *o = lane->link->ofi;
    struct tt_rput_region *r;
    uint32_t at = 0;

    while (o->provider.per_endpoint && (r = tt_rput_region_next(&o->base.regions, &at)))
        tt_ofi_grant_end((struct tt_ofi_region *)r, lane);
}
