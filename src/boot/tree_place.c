/* The places of ranks: the contents of DOWN. */
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "boot/tree_state.h"

#define ENTRY_RUN_BYTES_MAX (4u + 2 * (1 + TT_ENDPOINT_BYTES))

size_t tt_tree_body_max(uint32_t nranks)
{
    const size_t rank = TT_TREE_LAYOUT_RANK_BYTES + 12 + 2 * (1 + TT_ENDPOINT_BYTES) +   /* entry */
                        TT_RECORD_OVERHEAD + TT_TREE_CARD_MAX;

    return TT_TREE_LAYOUT_HEAD_BYTES + 2 * TT_MAC_BYTES + TT_TREE_SECRET_BYTES + 21 +
           TT_TREE_CONSTANTS_MAX + TT_TREE_SENTENCE_BYTES + nranks * rank;
}

size_t tt_tree_up_bytes_max(uint32_t nranks)
{
    return (1u << 20) + tt_tree_body_max(nranks) + (size_t)nranks * TT_TREE_SETTINGS_MAX;
}

bool tt_tree_shares_with(const struct tt_tree *t, const struct tt_tree_conn *c)
{
    return t->conf.shares_table && c->kind == TT_TREE_LOCAL && t->place.table_bytes > 0;
}

struct tt_tree_seat *tt_tree_find_seat(const struct tt_tree *t, uint32_t rank)
{
    for (uint32_t i = 0; i < t->nseats; i++)
        if (t->seats[i].rank == rank)
            return &t->seats[i];
    return NULL;
}

bool tt_tree_has_claim(const struct tt_tree_report *report, const struct tt_tree_conn *c)
{
    for (uint32_t i = 0; i < report->nclaims; i++)
        if (report->claims[i] == c)
            return true;
    return false;
}

bool tt_tree_has_place(const struct tt_tree *t, const struct tt_tree_conn *c)
{
    const struct tt_tree_report *report = tt_sparse_get(&t->reports, c->rank);

    return report && tt_tree_has_claim(report, c) &&
           (t->conf.root || tt_sparse_get(&t->entries, c->rank));
}

/* ---- sending ---- */

/* Reads the entry of DOWN at `at`: finds the addresses around `rank`, which is in one of its
 * runs. */
static bool entry_around(const struct tt_tree *t, uint32_t reporter, uint32_t rank,
                         struct tt_tree_address *before, struct tt_tree_address *after)
{
    const uint8_t *at = tt_sparse_get(&t->entries, reporter);
    struct tt_tree_address a, b;
    struct tt_reader r;
    uint32_t nruns;
    bool found = false;

    if (!at)
        return false;
    tt_reader_init(&r, at, (size_t)(t->down + t->down_bytes - at));
    (void)tt_read_u32(&r);
    nruns = tt_read_u32(&r);
    for (uint32_t i = 0; i < nruns; i++) {
        const uint32_t first = tt_read_u32(&r);

        tt_tree_read_address(&r, &a);
        tt_tree_read_address(&r, &b);
        if (r.bad || first > rank)
            break;
        if (first == rank)
            *before = a;
        *after = b;
        found = true;
    }
    return found;
}

bool tt_tree_around(const struct tt_tree *t, uint32_t rank, struct tt_tree_address *before,
                    struct tt_tree_address *after)
{
    const uint32_t n = t->conf.nranks;
    const struct tt_tree_seat *down = tt_tree_find_seat(t, (rank + n - 1) % n),
                              *up = tt_tree_find_seat(t, (rank + 1) % n);

    *before = *after = (struct tt_tree_address){ .bytes = 0 };
    if (!entry_around(t, t->conf.rank, rank, before, after))
        return false;
    if (down)
        *before = down->address;
    if (up)
        *after = up->address;
    return true;
}

static void write_entry_of(const struct tt_tree *t, const struct tt_tree_report *report,
                           struct tt_writer *w)
{
    const uint8_t *at = tt_sparse_get(&t->entries, report->reporter);
    struct tt_tree_address skip;
    struct tt_reader r;

    if (!at)
        return;
    tt_reader_init(&r, at, (size_t)(t->down + t->down_bytes - at));
    (void)tt_read_u32(&r);
    for (uint32_t nruns = tt_read_u32(&r); nruns > 0; nruns--) {
        (void)tt_read_u32(&r);
        tt_tree_read_address(&r, &skip);
        tt_tree_read_address(&r, &skip);
    }
    tt_write_bytes(w, at, (size_t)(r.at - at));
}

static uint32_t report_nruns(const struct tt_tree *t, const struct tt_tree_report *report)
{
    struct tt_tree_report_head head;
    struct tt_reader r;

    tt_reader_init(&r, report->encoded, report->bytes);
    tt_tree_read_report(&r, t->conf.nranks, &head);
    return head.nruns;
}

/* Writes the entries for a leader; returns their number. */
static uint32_t write_entries(const struct tt_tree *t, const struct tt_tree_conn *c,
                              struct tt_writer *w)
{
    const struct tt_tree_report *report;
    uint32_t n = 0, at = 0;

    while ((report = tt_sparse_next(&t->reports, &at))) {
        const uint8_t *begin = w->at;

        if (!tt_tree_has_claim(report, c))
            continue;
        if (t->conf.root)
            tt_tree_root_write_entry(t, report, w);
        else
            write_entry_of(t, report, w);
        n += w->at > begin;
    }
    return n;
}

static uint32_t write_local_entry(const struct tt_tree *t, uint32_t rank, struct tt_writer *w)
{
    struct tt_tree_address before, after;

    if (!tt_tree_around(t, rank, &before, &after))
        return 0;
    tt_write_u32(w, rank);
    tt_write_u32(w, 1);
    tt_write_u32(w, rank);
    tt_tree_write_address(w, &before);
    tt_tree_write_address(w, &after);
    return 1;
}

static size_t down_bytes_max(const struct tt_tree *t, const struct tt_tree_conn *c,
                             const struct tt_tree_place *p)
{
    size_t bytes = TT_TREE_SECRET_BYTES + 14u + p->constants_bytes + p->layout_bytes;
    const struct tt_tree_report *report;
    uint32_t at = 0;

    bytes += 5 + TT_MAC_BYTES + p->table_bytes;
    if (c->kind == TT_TREE_LOCAL)
        return bytes + 8 + ENTRY_RUN_BYTES_MAX;
    while ((report = tt_sparse_next(&t->reports, &at)))
        if (tt_tree_has_claim(report, c))
            bytes += 8 + report_nruns(t, report) * ENTRY_RUN_BYTES_MAX;
    return bytes;
}

static void write_table(const struct tt_tree *t, const struct tt_tree_conn *c,
                        const struct tt_tree_place *p, struct tt_writer *w)
{
    const bool shared = tt_tree_shares_with(t, c);

    if (p->table_bytes == 0)
        return;
    tt_write_u8(w, shared);
    tt_write_u32(w, (uint32_t)p->table_bytes);
    if (shared)
        tt_write_bytes(w, p->table_digest, sizeof p->table_digest);
    else
        tt_write_bytes(w, p->table, p->table_bytes);
}

uint8_t *tt_tree_encode_place(const struct tt_tree *t, const struct tt_tree_conn *c, size_t *bytes)
{
    struct tt_tree_place p = t->place;
    uint8_t *said, *count_at;
    struct tt_writer w, count;
    uint32_t n;
    size_t cap;

    if (t->conf.root) {
        memcpy(p.secret, t->conf.secret, sizeof p.secret);
        p.constants = t->ranks->constants;
        p.constants_bytes = t->ranks->constants_bytes;
        p.layout = t->ranks->layout;
        p.layout_bytes = t->ranks->layout_bytes;
        p.table = t->ranks->table;
        p.table_bytes = t->ranks->table_bytes;
    }
    tt_tree_mask(p.secret, t->conf.token, c->server_nonce, c->client_nonce);
    cap = down_bytes_max(t, c, &p);
    said = malloc(cap);
    if (!said)
        return NULL;
    tt_writer_init(&w, said, cap);
    tt_write_bytes(&w, p.secret, sizeof p.secret);
    tt_write_u32(&w, t->conf.nranks);
    tt_write_u16(&w, p.constants_bytes);
    tt_write_bytes(&w, p.constants, p.constants_bytes);
    tt_write_u32(&w, (uint32_t)p.layout_bytes);
    tt_write_bytes(&w, p.layout, p.layout_bytes);
    count_at = w.at;
    tt_write_u32(&w, 0);
    n = c->kind == TT_TREE_LOCAL ? write_local_entry(t, c->rank, &w) : write_entries(t, c, &w);
    write_table(t, c, &p, &w);
    tt_assert(!w.bad);
    tt_writer_init(&count, count_at, 4);
    tt_write_u32(&count, n);
    *bytes = n > 0 ? tt_writer_bytes(&w) : 0;
    return said;
}

/* ---- receiving ---- */

/* Indexes the entries of DOWN by reporter. */
static bool read_entries(struct tt_tree *t, struct tt_reader *r)
{
    const uint32_t n = tt_read_u32(r);
    struct tt_tree_address skip;

    for (uint32_t i = 0; i < n && !r->bad; i++) {
        uint8_t *at = t->down + (r->at - t->down);
        const uint32_t reporter = tt_read_u32(r), nruns = tt_read_u32(r);

        for (uint32_t k = 0; k < nruns && !r->bad; k++) {
            if (tt_read_u32(r) >= t->conf.nranks)
                r->bad = true;
            tt_tree_read_address(r, &skip);
            tt_tree_read_address(r, &skip);
        }
        if (reporter >= t->conf.nranks || nruns == 0 || nruns > t->conf.nranks)
            r->bad = true;
        if (!r->bad && !tt_sparse_set(&t->entries, reporter, at))
            return false;
    }
    return !r->bad && tt_sparse_get(&t->entries, t->conf.rank);
}

/* Checks the number of records of a table, and their format. */
static bool table_is_valid(const uint8_t *table, size_t bytes, uint32_t nranks)
{
    struct tt_record_stream records = { .n = 0 };
    struct tt_reader r;

    tt_reader_init(&r, table, bytes);
    for (uint32_t i = 0; i < nranks && !r.bad; i++) {
        tt_record_read(&records, &r);
        if (records.entry.holder >= nranks)
            return false;
    }
    return !r.bad && r.at == r.end;
}

/* Reads the table, or the digest of a shared one, which only the leader of this host can send. */
static bool read_table(struct tt_tree *t, struct tt_reader *r)
{
    struct tt_tree_place *p = &t->place;
    uint8_t shared;

    if (r->at == r->end)        /* no table */
        return !r->bad;
    shared = tt_read_u8(r);
    p->table_bytes = tt_read_u32(r);
    if (shared)
        tt_read_bytes(r, p->table_digest, sizeof p->table_digest);
    else
        p->table = tt_reader_take(r, p->table_bytes);
    if (r->bad || r->at != r->end || shared > 1 || p->table_bytes == 0)
        return false;
    if (shared)
        return t->where == TT_TREE_TO_LEADER;
    return table_is_valid(p->table, p->table_bytes, t->conf.nranks);
}

bool tt_tree_use_table(struct tt_tree *t, const uint8_t *table, size_t bytes)
{
    uint8_t digest[TT_MAC_BYTES];

    if (t->state != TT_TREE_PLACED || t->place.table || bytes != t->place.table_bytes)
        return false;
    tt_digest(digest, table, bytes);
    if (!tt_mac_equal(digest, t->place.table_digest) ||
        !table_is_valid(table, bytes, t->conf.nranks))
        return false;
    t->place.table = table;
    return true;
}

bool tt_tree_read_place(struct tt_tree *t)
{
    struct tt_tree_place *p = &t->place;
    struct tt_reader r;
    uint32_t nranks;

    tt_reader_init(&r, t->down, t->down_bytes);
    tt_read_bytes(&r, p->secret, sizeof p->secret);
    nranks = tt_read_u32(&r);
    p->constants_bytes = tt_read_u16(&r);
    p->constants = tt_reader_take(&r, p->constants_bytes);
    p->layout_bytes = tt_read_u32(&r);
    p->layout = tt_reader_take(&r, p->layout_bytes);
    if (r.bad || nranks != t->conf.nranks || p->constants_bytes > TT_TREE_CONSTANTS_MAX ||
        !tt_tree_layout_is_valid(p->layout, p->layout_bytes, nranks))
        return false;
    tt_tree_mask(p->secret, t->conf.token, t->up.server_nonce, t->up.client_nonce);
    if (!read_entries(t, &r) || !read_table(t, &r))
        return false;
    if (p->table && t->conf.shares_table)
        tt_digest(p->table_digest, p->table, p->table_bytes);
    return true;
}
