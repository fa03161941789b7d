#include "engine/bounce_buffer.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/status.h"

#define CLASS_MIN 12            /* 4 KiB */
#define CLASSES 28              /* up to 4 GiB */
#define REGION_BYTES (8ull << 20)

struct block {
    struct tt_bounce at;
    struct block *next;
};

/* Memory of this process, kept until the wire is closed. */
struct own {
    void *mem;
    uint64_t bytes;
    struct own *next;
};

struct tt_bounce_pool {
    struct tt_wire *wire;
    struct block *free[2][CLASSES];     /* first index: `own` */
    struct block *spare;        /* block records without memory */
    struct tt_bounce rest[2];  /* by `own`: the unused rest of the newest region */
    struct own *owns;
    uint64_t region_bytes;      /* total size of all regions */
};

struct tt_bounce_pool *tt_bounce_pool_create(struct tt_wire *wire)
{
    struct tt_bounce_pool *p = calloc(1, sizeof *p);

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

void tt_bounce_pool_destroy(struct tt_bounce_pool *p)
{
    if (!p)
        return;
    for (int i = 0; i < 2 * CLASSES; i++)
        free_list(p->free[i / CLASSES][i % CLASSES]);
    free_list(p->spare);
    for (struct own *o = p->owns, *next; o; o = next) {
        next = o->next;
        munmap(o->mem, o->bytes);
        free(o);
    }
    free(p);
}

static int landing_size_class(uint64_t bytes)
{
    int c = 0;

    while (c < CLASSES - 1 && (1ull << (c + CLASS_MIN)) < bytes)
        c++;
    return c;
}

/* Adds a region of this process's memory (own), or of memory that the wire allocates. */
static tutti_status landing_add_region(struct tt_bounce_pool *p, uint64_t bytes, bool own)
{
    struct tt_region *region;
    struct own *o = NULL;
    tutti_status st;

    if (own) {
        o = calloc(1, sizeof *o);
        if (!o)
            return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a receive region");
        o->bytes = bytes;
        o->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (o->mem == MAP_FAILED) {
            free(o);
            return tt_fail(TUTTI_ERR_NOMEM,
                           "out of address space for %llu bytes of receive regions",
                           (unsigned long long)bytes);
        }
    }
    st = p->wire->ops->reg(p->wire, own ? o->mem : NULL, bytes, &region);
    if (st) {
        if (own)
            munmap(o->mem, bytes);
        free(o);
        return st;
    }
    if (own) {
        o->next = p->owns;
        p->owns = o;
    }
    p->region_bytes += region->bytes;
    p->rest[own] = (struct tt_bounce){ .region = region, .offset = 0, .bytes = region->bytes };
    return TUTTI_OK;
}

tutti_status tt_bounce_get(struct tt_bounce_pool *p, uint64_t bytes, bool own,
                           struct tt_bounce *out)
{
    const int c = landing_size_class(bytes);
    const uint64_t size = 1ull << (c + CLASS_MIN);
    struct block *b = p->free[own][c];
    struct tt_bounce *rest = &p->rest[own];
    tutti_status st;

    if (b) {
        p->free[own][c] = b->next;
        b->next = p->spare;
        p->spare = b;
        *out = b->at;
        return TUTTI_OK;
    }
    if (rest->bytes < size) {
        st = landing_add_region(p, size > REGION_BYTES ? size : REGION_BYTES, own);
        if (st)
            return st;
    }
    *out = (struct tt_bounce){
        .region = rest->region, .offset = rest->offset, .bytes = size, .own = own
    };
    rest->offset += size;
    rest->bytes -= size;
    return TUTTI_OK;
}

void tt_bounce_put(struct tt_bounce_pool *p, const struct tt_bounce *l)
{
    const int c = landing_size_class(l->bytes);
    struct block *b = p->spare;

    if (b)
        p->spare = b->next;
    else
        b = malloc(sizeof *b);
    if (!b)
        return;                 /* the memory is lost until the wire is closed */
    *b = (struct block){ .at = *l, .next = p->free[l->own][c] };
    p->free[l->own][c] = b;
}

uint64_t tt_bounce_pool_bytes(const struct tt_bounce_pool *p)
{
    return p ? p->region_bytes : 0;
}
