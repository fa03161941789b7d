#include "wire/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/pages.h"
#include "base/status.h"

#define SLOTS_MAX (1u << 24)

/* Takes a free slot, and grows the table if needed. 0: out of memory. */
static uint32_t region_slot_take(struct tt_tcp *t)
{
    const uint32_t before = t->nslots, nslots = before ? 2 * before : 64;
    struct tt_tcp_slot *grown;
    uint32_t id;

    if (t->free_slot == 0) {
        grown = nslots > SLOTS_MAX ? NULL : realloc(t->slots, nslots * sizeof *grown);
        if (!grown)
            return 0;
        t->slots = grown;
        t->nslots = nslots;
        for (uint32_t i = nslots - 1; i >= before && i > 0; i--) {
            grown[i] = (struct tt_tcp_slot){ .next_free = t->free_slot };
            t->free_slot = i;
        }
    }
    id = t->free_slot;
    t->free_slot = t->slots[id].next_free;
    return id;
}

tutti_status tt_tcp_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    struct tt_tcp *t = tt_tcp_of(w);
    struct tt_tcp_region *r = calloc(1, sizeof *r);
    struct tt_tcp_key key;

    if (!r)
        return tt_fail(TUTTI_ERR_NOMEM, "tcp: out of memory for a region");
    if (!mem && bytes > 0) {
        mem = tt_pages_map_aligned(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (mem == MAP_FAILED) {
            free(r);
            return tt_fail_errno(errno, "tcp: cannot map %zu bytes of memory for a region", bytes);
        }
        r->owned = true;
    }
    r->id = region_slot_take(t);
    if (r->id == 0) {
        if (r->owned)
            munmap(mem, bytes);
        free(r);
        return tt_fail(TUTTI_ERR_NOMEM,
                       "tcp: cannot create more than %u regions: out of memory, or the maximum of "
                       "%u is reached",
                       t->nslots, SLOTS_MAX);
    }
    r->generation = t->slots[r->id].generation;
    t->slots[r->id].region = r;

    r->public = (struct tt_region){ .wire = w, .mem = mem, .bytes = bytes };
    key = (struct tt_tcp_key){ .region = r->id, .generation = r->generation, .bytes = bytes };
    tt_tcp_key_write(&key, &r->public.key);
    *out = &r->public;
    return TUTTI_OK;
}

void tt_tcp_dereg(struct tt_region *public)
{
    struct tt_tcp_region *r = (struct tt_tcp_region *)public;
    struct tt_tcp *t = tt_tcp_of(public->wire);

    tt_assert(t->slots[r->id].region == r);
    t->slots[r->id].region = NULL;
    t->slots[r->id].generation++; /* late frames do not find it from here on */
    t->slots[r->id].next_free = t->free_slot;
    t->free_slot = r->id;
    tt_tcp_targets_gone(t, r);
    tt_tcp_sources_gone(t, public->mem, public->bytes);
    if (r->owned)
        munmap(public->mem, public->bytes);
    free(r);
}

struct tt_tcp_region *tt_tcp_region_find(const struct tt_tcp *t, uint32_t id, uint32_t generation)
{
    if (id >= t->nslots || t->slots[id].generation != generation)
        return NULL;
    return t->slots[id].region;
}

bool tt_tcp_region_covers(const struct tt_tcp *t, const void *mem, uint64_t bytes)
{
    const uintptr_t begin = (uintptr_t)mem;

    for (uint32_t i = 1; i < t->nslots; i++) {
        const struct tt_tcp_region *r = t->slots[i].region;
        const uintptr_t first = r ? (uintptr_t)r->public.mem : 0;

        if (r && begin >= first && begin + bytes <= first + r->public.bytes)
            return true;
    }
    return false;
}

void tt_tcp_regions_close(struct tt_tcp *t)
{
    for (uint32_t i = 1; i < t->nslots; i++)
        if (t->slots[i].region)
            tt_tcp_dereg(&t->slots[i].region->public);
    free(t->slots);
    t->slots = NULL;
    t->nslots = 0;
}
