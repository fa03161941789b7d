#include "engine/landing.h"

#include <stdlib.h>

#include "base/status.h"

#define CLASS_MIN 12            /* 4 KiB */
#define CLASSES 28              /* up to 4 GiB */
#define REGION_BYTES (8ull << 20)

struct block {
    struct tt_landing at;
    struct block *next;
};

struct tt_landing_pool {
    struct tt_wire *wire;
    struct block *free[CLASSES];
    struct block *spare;        /* block records without memory */
    struct tt_landing rest;     /* the uncut end of the newest region */
    uint64_t region_bytes;      /* of all */
};

struct tt_landing_pool *tt_landing_pool_create(struct tt_wire *wire)
{
    struct tt_landing_pool *p = calloc(1, sizeof *p);

    if (p)
        p->wire = wire;
    return p;
}

static void free_list(struct block *b)
{
    while (b) {
        struct block *next = b->next;

        free(b);
        b = next;
    }
}

void tt_landing_pool_destroy(struct tt_landing_pool *p)
{
    if (!p)
        return;
    for (int i = 0; i < CLASSES; i++)
        free_list(p->free[i]);
    free_list(p->spare);
    free(p);
}

static int class_of(uint64_t bytes)
{
    int c = 0;

    while (c < CLASSES - 1 && (1ull << (c + CLASS_MIN)) < bytes)
        c++;
    return c;
}

tutti_status tt_landing_get(struct tt_landing_pool *p, uint64_t bytes, struct tt_landing *out)
{
    const int c = class_of(bytes);
    const uint64_t size = 1ull << (c + CLASS_MIN);
    struct block *b = p->free[c];
    tutti_status st;

    if (b) {
        p->free[c] = b->next;
        b->next = p->spare;
        p->spare = b;
        *out = b->at;
        return TUTTI_OK;
    }
    if (p->rest.bytes < size) {
        struct tt_region *region;

        st = p->wire->ops->reg(p->wire, NULL, size > REGION_BYTES ? size : REGION_BYTES, &region);
        if (st)
            return st;
        p->region_bytes += region->bytes;
        p->rest = (struct tt_landing){ .region = region, .offset = 0, .bytes = region->bytes };
    }
    *out = (struct tt_landing){ .region = p->rest.region, .offset = p->rest.offset, .bytes = size };
    p->rest.offset += size;
    p->rest.bytes -= size;
    return TUTTI_OK;
}

void tt_landing_put(struct tt_landing_pool *p, const struct tt_landing *l)
{
    const int c = class_of(l->bytes);
    struct block *b = p->spare;

    if (b)
        p->spare = b->next;
    else
        b = malloc(sizeof *b);
    if (!b)
        return;                 /* this piece is lost until the wire closes */
    *b = (struct block){ .at = *l, .next = p->free[c] };
    p->free[c] = b;
}

uint64_t tt_landing_pool_bytes(const struct tt_landing_pool *p)
{
    return p ? p->region_bytes : 0;
}
