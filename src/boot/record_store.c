#include "boot/record_store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"

#define ENTRY_BYTES_MAX (TT_RECORD_OVERHEAD + TT_TREE_CARD_MAX)
#define FIRST_BYTES 1024u

static uint32_t ngroups(uint32_t nranks)
{
    return nranks / TT_RECORD_GROUP + (nranks % TT_RECORD_GROUP != 0);
}

static tutti_status fail_memory(const struct tt_record_store *s)
{
    return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the address records of %u ranks", s->nranks);
}

tutti_status tt_record_store_init(struct tt_record_store *s, uint32_t nranks)
{
    *s = (struct tt_record_store){ .nranks = nranks };
    s->groups = calloc(ngroups(nranks) + 1u, sizeof *s->groups);
    return s->groups ? TUTTI_OK : fail_memory(s);
}

tutti_status tt_record_store_use(struct tt_record_store *s, uint32_t nranks, void *bytes, size_t n,
                                 bool shared)
{
    const tutti_status st = tt_record_store_init(s, nranks);
    struct tt_reader r;

    s->bytes = bytes;
    s->used = s->cap = n;
    s->shared = shared;
    if (st || n > UINT32_MAX)
        return st ? st : fail_memory(s);
    tt_reader_init(&r, bytes, n);
    for (; s->n < nranks; s->n++) {
        if (s->n % TT_RECORD_GROUP == 0)
            s->groups[s->n / TT_RECORD_GROUP] = (uint32_t)(r.at - s->bytes);
        tt_record_read(&s->written, &r);
    }
    tt_assert(!r.bad && r.at == r.end);
    return TUTTI_OK;
}

void tt_record_store_fini(struct tt_record_store *s)
{
    if (s->shared && s->bytes)
        munmap(s->bytes, s->used);
    else
        free(s->bytes);
    free(s->groups);
    *s = (struct tt_record_store){ .n = 0 };
}

static bool store_reserve(struct tt_record_store *s, size_t more)
{
    const size_t need = s->used + more, cap = need + need / 2 + FIRST_BYTES;
    uint8_t *bytes;

    if (need <= s->cap)
        return true;
    bytes = cap <= UINT32_MAX ? realloc(s->bytes, cap) : NULL;
    if (!bytes)
        return false;
    s->bytes = bytes;
    s->cap = cap;
    return true;
}

tutti_status tt_record_store_add(struct tt_record_store *s, uint32_t holder, const void *record,
                                 uint16_t bytes)
{
    struct tt_writer w;

    tt_assert(s->n < s->nranks && !s->shared && bytes <= TT_TREE_CARD_MAX);
    if (!store_reserve(s, ENTRY_BYTES_MAX))
        return fail_memory(s);
    if (s->n % TT_RECORD_GROUP == 0)
        s->groups[s->n / TT_RECORD_GROUP] = (uint32_t)s->used;
    tt_writer_init(&w, s->bytes + s->used, s->cap - s->used);
    tt_record_write(&s->written, &w, holder, record, bytes);
    tt_assert(!w.bad);
    s->used += tt_writer_bytes(&w);
    s->n++;
    return TUTTI_OK;
}

void tt_record_store_settle(struct tt_record_store *s)
{
    uint8_t *bytes = s->shared || s->used == 0 ? NULL : realloc(s->bytes, s->used);

    if (!bytes)
        return;
    s->bytes = bytes;
    s->cap = s->used;
}

/* Reads the next record. */
static void store_read(struct tt_record_store *s)
{
    struct tt_reader r;

    tt_reader_init(&r, s->bytes + s->read_at, s->used - s->read_at);
    tt_record_read(&s->read, &r);
    tt_assert(!r.bad);
    s->read_at = (size_t)(r.at - s->bytes);
}

/* Moves to the first record of the rank's group, unless the last read record is in this group and
 * before the rank. */
static void store_seek(struct tt_record_store *s, uint32_t rank)
{
    const uint32_t group = rank / TT_RECORD_GROUP;

    if (s->read.n > 0 && s->read.n <= rank && s->read.n / TT_RECORD_GROUP == group)
        return;
    if (s->read.n == 0 || group == 0) {
        s->read.n = 0;
        memset(&s->read.entry, 0, sizeof s->read.entry);
        s->read_at = 0;
    }
    if (group == 0)
        return;
    if (s->read.n == 0)
        store_read(s);      /* every group is packed relative to the first record */
    s->read.n = group * TT_RECORD_GROUP;
    s->read_at = s->groups[group];
}

const struct tt_record_entry *tt_record_store_get(struct tt_record_store *s, uint32_t rank)
{
    if (rank >= s->n)
        return NULL;
    if (s->read.n != rank + 1)
        store_seek(s, rank);
    while (s->read.n <= rank)
        store_read(s);
    return &s->read.entry;
}

uint64_t tt_record_store_bytes(const struct tt_record_store *s, uint32_t nsharing)
{
    const uint64_t part = s->shared && nsharing ? s->used / nsharing : s->cap;

    return ngroups(s->nranks) * sizeof *s->groups + part;
}
