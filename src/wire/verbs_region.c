#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/status.h"
#include "wire/verbs.h"

struct ibv_mr *tt_verbs_pin_rail(struct tt_verbs_rail *rail, void *mem, size_t bytes, int access)
{
    struct ibv_mr *mr = ibv_reg_mr(rail->pd, mem, bytes, access);

    if (!mr && errno == EFAULT && access)
        mr = ibv_reg_mr(rail->pd, mem, bytes, 0);   /* a source that may only be read */
    if (!mr && errno == ENOMEM)
        tt_fail(TUTTI_ERR_NOMEM,
                "verbs: %s cannot register %zu bytes: no memory, or more than may be locked (ulimit -l)", rail->name,
                bytes);
    else if (!mr)
        tt_fail_errno(errno, "verbs: register %zu bytes with %s", bytes, rail->name);
    return mr;
}

struct ibv_mr *tt_verbs_pin(struct tt_verbs *v, void *mem, size_t bytes, int access)
{
    return tt_verbs_pin_rail(&v->rail[0], mem, bytes, access);
}

void tt_verbs_unpin(struct ibv_mr *mr)
{
    if (mr)
        ibv_dereg_mr(mr);
}

/* A free id, from a table that grows. 0: no memory. */
static uint32_t id_take(struct tt_verbs *v)
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

/* With each rail. False: one refuses. */
static bool pin_all(struct tt_verbs *v, struct tt_verbs_region *r, void *mem, size_t bytes)
{
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

    r->mr[0] = tt_verbs_pin(v, mem, bytes, access);
    for (uint32_t i = 1; i < v->nrails && r->mr[i - 1]; i++)
        r->mr[i] = tt_verbs_pin_rail(&v->rail[i], mem, bytes, access);
    return r->mr[v->nrails - 1];
}

static void unpin_all(struct tt_verbs_region *r)
{
    for (uint32_t i = 0; i < TT_VERBS_RAILS; i++)
        tt_verbs_unpin(r->mr[i]);
}

tutti_status tt_verbs_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    struct tt_verbs *v = tt_verbs_of(w);
    struct tt_verbs_region *r = calloc(1, sizeof *r);
    tutti_status st = TUTTI_ERR_NOMEM;
    struct tt_verbs_key key;

    if (!r)
        return tt_fail(st, "verbs: no memory to register a region");
    if (!mem && bytes > 0) {
        mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mem == MAP_FAILED) {
            st = tt_fail_errno(errno, "verbs: map a region of %zu bytes", bytes);
            goto free;
        }
        r->owned = true;
    }
    r->id = id_take(v);
    if (r->id == 0) {
        tt_fail(st, "verbs: no memory for more than %u regions", v->nregions);
        goto unmap;
    }
    if (bytes > 0 && !pin_all(v, r, mem, bytes))
        goto unpin;
    r->generation = ++v->next_generation;
    v->regions[r->id] = r;
    r->public = (struct tt_region){ .wire = w, .mem = mem, .bytes = bytes };
    key = (struct tt_verbs_key){
        .region = r->id, .generation = r->generation, .address = (uintptr_t)mem, .bytes = bytes
    };
    for (uint32_t i = 0; i < v->nrails; i++)
        key.rkey[i] = r->mr[i] ? r->mr[i]->rkey : 0;
    tt_verbs_key_write(&key, &r->public.key);
    *out = &r->public;
    return TUTTI_OK;

unpin:
    unpin_all(r);
unmap:
    if (r->owned)
        munmap(mem, bytes);
free:
    free(r);
    return st;
}

/* Queue pairs that read it are stopped first. Writes into it that are on their way find no registration: they break their queue
 * pairs, and the sender makes them void. */
void tt_verbs_dereg(struct tt_region *public)
{
    struct tt_verbs_region *r = (struct tt_verbs_region *)public;
    struct tt_verbs *v = tt_verbs_of(public->wire);

    tt_assert(v->regions[r->id] == r);
    v->regions[r->id] = NULL;       /* so that other registrations of the same memory are found */
    if (v->last_source == r)
        v->last_source = NULL;
    for (uint32_t i = r->mr[0] ? v->nactive : 0; i-- > 0;)
        for (uint32_t k = 0; k < TT_VERBS_STREAMS; k++)
            tt_verbs_source_gone(&v->active[i]->streams[k], r->mr[0]->lkey);
    if (v->any_broken)
        tt_verbs_links_break(v);
    unpin_all(r);
    if (r->owned)
        munmap(public->mem, public->bytes);
    free(r);
}

tutti_status tt_verbs_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key, struct tt_rkey *out)
{
    struct tt_verbs_key k;

    if (!tt_verbs_key_read(&k, key) || k.region == 0)
        return tt_fail(TUTTI_ERR_PROTOCOL, "verbs: rank %u sent a key of %u bytes that is none of this wire's", peer,
                       key->bytes);
    *out = (struct tt_rkey){
        .wire = w,
        .peer = peer,
        .bytes = k.bytes,
        .handle = { k.address, k.region, k.generation, k.rkey[0] | (uint64_t)k.rkey[1] << 32 },
    };
    return TUTTI_OK;
}

struct tt_verbs_region *tt_verbs_region_find(const struct tt_verbs *v, uint32_t id, uint32_t generation)
{
    struct tt_verbs_region *r = id < v->nregions ? v->regions[id] : NULL;

    return r && r->generation == generation ? r : NULL;
}

static bool covers(const void *all, uint64_t all_bytes, const void *mem, uint64_t bytes)
{
    const uintptr_t first = (uintptr_t)all, begin = (uintptr_t)mem;

    return begin >= first && begin - first <= all_bytes && bytes <= all_bytes - (begin - first);
}

static void lkeys_of(const struct tt_verbs *v, struct ibv_mr *const mr[TT_VERBS_RAILS], uint32_t lkey[TT_VERBS_RAILS])
{
    for (uint32_t i = 0; i < v->nrails; i++)
        lkey[i] = mr[i]->lkey;
}

bool tt_verbs_lkey(struct tt_verbs *v, const void *mem, uint64_t bytes, uint32_t lkey[TT_VERBS_RAILS])
{
    struct tt_verbs_region *r = v->last_source;

    if (r && covers(r->public.mem, r->public.bytes, mem, bytes)) {
        lkeys_of(v, r->mr, lkey);
        return true;
    }
    for (uint32_t i = 1; i < v->nregions; i++) {
        r = v->regions[i];
        if (!r || !r->mr[0] || !covers(r->public.mem, r->public.bytes, mem, bytes))
            continue;
        v->last_source = r;
        lkeys_of(v, r->mr, lkey);
        return true;
    }
    for (uint32_t i = 0; i < v->nactive; i++)
        if (covers(v->active[i]->mine, v->conf.link_bytes, mem, bytes)) {
            lkeys_of(v, v->active[i]->mine_mr, lkey);
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
}
