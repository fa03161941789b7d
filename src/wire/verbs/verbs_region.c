#include <errno.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- regions ---- */

static void verbs_region_key(const struct tt_rput_region *r, struct tt_blob *out)
{
    const struct tt_verbs *v = tt_verbs_of(r->public.wire);
    const struct tt_verbs_mrs *mrs = r->handle;
    struct tt_verbs_key key = { .region = r->id,
                                .generation = r->generation,
                                .address = (uintptr_t)r->public.mem,
                                .bytes = r->public.bytes };

    for (uint32_t i = 0; mrs && i < v->nrails; i++)
        key.rkey[i] = mrs->rail[i]->rkey;
    tt_verbs_key_write(&key, out);
}

tutti_status tt_verbs_regions_open(struct tt_verbs *v)
{
    struct tt_rput_regions *t = &v->base.regions;

    t->region_bytes = sizeof(struct tt_rput_region);
    t->registrar = (struct tt_registrar){
        .name = "verbs", .arg = v, .pin = verbs_pin_memory, .unpin = verbs_unpin_memory
    };
    t->key = verbs_region_key;
    return tt_rput_regions_open(t);
}

tutti_status tt_verbs_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key,
                             struct tt_rkey *out)
{
    struct tt_verbs_key k;

    if (!tt_verbs_key_read(&k, key) || k.region == 0)
        return tt_rput_refuse_key(&tt_verbs_of(w)->base.regions, peer, key);
    *out = (struct tt_rkey){
        .wire = w,
        .peer = peer,
        .bytes = k.bytes,
        .handle = { k.region, k.generation, k.address, k.rkey[0] | (uint64_t)k.rkey[1] << 32 },
    };
    return TUTTI_OK;
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
    const struct tt_rput_region *r = tt_rput_source(&v->base.regions, mem, bytes);
    const uint8_t *at = mem;

    if (r) {
        lkeys_of(v, ((const struct tt_verbs_mrs *)r->handle)->rail, lkey);
        return true;
    }
    for (uint32_t i = 0; i < v->base.nactive; i++) {
        const uint8_t *mine = tt_verbs_link_at(v, i)->base.mine;

        if (at >= mine && at + bytes <= mine + v->base.conf.link_bytes) {
            lkeys_of(v, tt_verbs_link_at(v, i)->mine_mr, lkey);
            return true;
        }
    }
    return false;
}

bool tt_verbs_has_lkey(const struct tt_verbs *v, const void *mem, uint64_t bytes, uint32_t lkey)
{
    const struct tt_rput_region *r;
    uint32_t at = 0;

    while ((r = tt_rput_region_next(&v->base.regions, &at))) {
        const struct tt_verbs_mrs *mrs = r->handle;

        if (mrs && mrs->rail[0]->lkey == lkey && tt_rput_region_covers(r, mem, bytes))
            return true;
    }
    return false;
}
