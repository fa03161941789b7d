#include "topo/layout.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/rle_array.h"

static const char *const names[TT_DISTANCES] = {
    [TT_NEAR_SELF] = "self",     [TT_NEAR_SOCKET] = "socket", [TT_NEAR_HOST] = "host",
    [TT_NEAR_RACK] = "rack",     [TT_NEAR_ZONE] = "zone",     [TT_NEAR_BUILDING] = "building",
    [TT_NEAR_FABRIC] = "fabric", [TT_NEAR_WAN] = "wan",
};

const char *tt_distance_name(enum tt_distance d)
{
    return (unsigned)d < TT_DISTANCES ? names[d] : "?";
}

bool tt_distance_parse(const char *name, enum tt_distance *out)
{
    for (unsigned d = 0; d < TT_DISTANCES; d++)
        if (strcmp(name, names[d]) == 0) {
            *out = (enum tt_distance)d;
            return true;
        }
    return false;
}

void tt_layout_regular(struct tt_layout *l, uint32_t nranks, uint32_t host_ranks, uint32_t sockets,
                       uint32_t nrails, enum tt_node_kind node)
{
    *l = (struct tt_layout){
        .nranks = nranks,
        .nhosts = (nranks + host_ranks - 1) / host_ranks,
        .node = node,
        .nrails = nrails,
    };
    l->group_ranks[TT_NEAR_SOCKET] = host_ranks / sockets;
    l->group_ranks[TT_NEAR_HOST] = host_ranks;
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
        l->group_ranks[d] = nranks;
}

/* ---- tables ---- */

enum column {
    HOST_OF, SOCKET_OF, LOCAL_OF, RAIL_OF,          /* by rank */
    FIRST_OF,                                       /* by host, and one past the last: start of
                                                       its ranks in RANK_AT */
    RANK_AT,                                        /* all ranks, host by host */
    ABOVE,                                          /* up to FABRIC, from RACK on: by group of
                                                       the level below */
    COLUMNS = ABOVE + TT_NEAR_WAN
};

struct tt_layout_table {
    _Atomic uint32_t shares;
    bool fills;                                     /* result of tt_layout_fills */
    uint32_t widest, narrowest;                     /* maximum and minimum ranks of a host */
    uint32_t ngroups[TT_NEAR_WAN];
    struct tt_rle_array column[COLUMNS];
};

static uint32_t table_at(const struct tt_layout_table *t, unsigned column, uint32_t i)
{
    return tt_rle_array_at(&t->column[column], i);
}

/* Sized for the maximum count of a layout: ranks, or hosts plus one. */
struct scratch {
    uint32_t *numbers, *more, *first;
};

static bool keep_column(struct tt_layout_table *t, unsigned column, const uint32_t *numbers,
                        uint32_t n, struct scratch *x)
{
    return tt_rle_array_init(&t->column[column], numbers, n, x->more);
}

static bool keep_seats(struct tt_layout_table *t, const struct tt_layout_seat *seats,
                       uint32_t nranks, struct scratch *x)
{
    bool ok;

    for (uint32_t r = 0; r < nranks; r++)
        x->numbers[r] = seats[r].group[TT_NEAR_HOST];
    ok = keep_column(t, HOST_OF, x->numbers, nranks, x);
    for (uint32_t r = 0; r < nranks; r++)
        x->numbers[r] = seats[r].group[TT_NEAR_SOCKET];
    ok = ok && keep_column(t, SOCKET_OF, x->numbers, nranks, x);
    for (uint32_t r = 0; r < nranks; r++)
        x->numbers[r] = seats[r].rail;
    return ok && keep_column(t, RAIL_OF, x->numbers, nranks, x);
}

static bool keep_levels(struct tt_layout_table *t, const struct tt_layout_seat *seats,
                        uint32_t nranks, struct scratch *x)
{
    bool ok = true;

    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN && ok; d++) {
        for (uint32_t r = 0; r < nranks; r++)
            x->numbers[seats[r].group[d - 1]] = seats[r].group[d];
        ok = keep_column(t, ABOVE + (unsigned)d, x->numbers, t->ngroups[d - 1], x);
    }
    return ok;
}

/* Numbers the ranks of each host, and lists them host by host. */
static bool keep_hosts(struct tt_layout_table *t, const struct tt_layout_seat *seats,
                       uint32_t nranks, struct scratch *x)
{
    const uint32_t nhosts = t->ngroups[TT_NEAR_HOST];
    bool ok;

    memset(x->first, 0, (nhosts + 1u) * sizeof *x->first);
    for (uint32_t r = 0; r < nranks; r++)
        x->numbers[r] = x->first[seats[r].group[TT_NEAR_HOST] + 1]++;
    ok = keep_column(t, LOCAL_OF, x->numbers, nranks, x);
    t->narrowest = nranks;
    t->fills = true;
    for (uint32_t h = 0; h < nhosts; h++) {
        const uint32_t n = x->first[h + 1];

        t->widest = n > t->widest ? n : t->widest;
        t->narrowest = n < t->narrowest ? n : t->narrowest;
        x->first[h + 1] += x->first[h];
    }
    for (uint32_t r = 0; r < nranks; r++)
        t->fills = t->fills && seats[r].group[TT_NEAR_HOST] == r / t->widest;
    ok = ok && keep_column(t, FIRST_OF, x->first, nhosts + 1, x);
    for (uint32_t r = 0; r < nranks; r++)
        x->numbers[x->first[seats[r].group[TT_NEAR_HOST]]++] = r;
    return ok && keep_column(t, RANK_AT, x->numbers, nranks, x);
}

static void table_free(struct tt_layout_table *t)
{
    for (int i = 0; i < COLUMNS; i++)
        tt_rle_array_fini(&t->column[i]);
    free(t);
}

static void count_groups(struct tt_layout_table *t, const struct tt_layout_seat *seats,
                         uint32_t nranks)
{
    for (uint32_t r = 0; r < nranks; r++)
        for (int d = TT_NEAR_SOCKET; d < TT_NEAR_WAN; d++) {
            tt_assert(seats[r].group[d] < nranks);
            if (seats[r].group[d] >= t->ngroups[d])
                t->ngroups[d] = seats[r].group[d] + 1;
        }
}

/* Returns NULL if out of memory. */
static struct tt_layout_table *table_of(const struct tt_layout_seat *seats, uint32_t nranks)
{
    struct tt_layout_table *t = calloc(1, sizeof *t);
    uint32_t *mem = calloc(3 * (nranks + 1ull), sizeof *mem);
    struct scratch x = { mem, mem + nranks + 1, mem + 2 * (nranks + 1ull) };
    bool ok = t && mem;

    if (ok) {
        t->shares = 1;
        count_groups(t, seats, nranks);
        ok = keep_seats(t, seats, nranks, &x) && keep_levels(t, seats, nranks, &x) &&
             keep_hosts(t, seats, nranks, &x);
    }
    free(mem);
    if (ok)
        return t;
    if (t)
        table_free(t);
    return NULL;
}

/* ---- creation and release ---- */

/* Returns whether the regular layout l has every rank at its seat. */
static bool agrees(const struct tt_layout *l, const struct tt_layout_seat *seats)
{
    for (uint32_t r = 0; r < l->nranks; r++) {
        for (int d = TT_NEAR_SOCKET; d < TT_NEAR_WAN; d++)
            if (tt_layout_group(l, r, (enum tt_distance)d) != seats[r].group[d])
                return false;
        if (tt_layout_rail(l, r) != seats[r].rail)
            return false;
    }
    return true;
}

/* Sets l to the only regular layout that can match the seats: groups as long as the first of each
 * level. Returns false if there is none. */
static bool regular_of(struct tt_layout *l, const struct tt_layout_seat *seats)
{
    uint32_t *const host = &l->group_ranks[TT_NEAR_HOST], socket;

    for (int d = TT_NEAR_SOCKET; d < TT_NEAR_WAN; d++) {
        uint32_t n = 1;

        while (n < l->nranks && seats[n].group[d] == seats[0].group[d])
            n++;
        l->group_ranks[d] = n;
    }
    socket = l->group_ranks[TT_NEAR_SOCKET];
    l->nhosts = (l->nranks + *host - 1) / *host;
    if (l->nhosts == 1)     /* the host's last socket may have fewer ranks */
        *host += (socket - *host % socket) % socket;
    return *host % socket == 0 && agrees(l, seats);
}

bool tt_layout_init(struct tt_layout *l, const struct tt_layout_seat *seats, uint32_t nranks,
                    enum tt_node_kind node, uint32_t nrails)
{
    struct tt_layout made = { .nranks = nranks, .node = node, .nrails = nrails };

    tt_assert(nranks > 0);
    if (!regular_of(&made, seats)) {
        made = (struct tt_layout){ .nranks = nranks, .node = node, .nrails = nrails };
        made.table = table_of(seats, nranks);
        if (!made.table)
            return false;
        made.nhosts = made.table->ngroups[TT_NEAR_HOST];
    }
    *l = made;
    return true;
}

void tt_layout_share(struct tt_layout *out, const struct tt_layout *l)
{
    if (l->table)
        atomic_fetch_add(&l->table->shares, 1);
    *out = *l;
}

void tt_layout_fini(struct tt_layout *l)
{
    if (l->table && atomic_fetch_sub(&l->table->shares, 1) == 1)
        table_free(l->table);
    *l = (struct tt_layout){ 0 };
}

bool tt_layout_is_regular(const struct tt_layout *l)
{
    return !l->table;
}

uint64_t tt_layout_bytes(const struct tt_layout *l)
{
    uint64_t bytes = l->table ? sizeof *l->table : 0;

    for (int i = 0; l->table && i < COLUMNS; i++)
        bytes += tt_rle_array_bytes(&l->table->column[i]);
    return bytes;
}

bool tt_layout_is_shared(const struct tt_layout *a, const struct tt_layout *b)
{
    return a->table && a->table == b->table;
}

/* ---- queries ---- */

uint32_t tt_layout_group(const struct tt_layout *l, uint32_t rank, enum tt_distance level)
{
    uint32_t group;

    if (!l->table)
        return rank / l->group_ranks[level];
    if (level == TT_NEAR_SOCKET)
        return table_at(l->table, SOCKET_OF, rank);
    group = table_at(l->table, HOST_OF, rank);
    for (int d = TT_NEAR_RACK; d <= (int)level; d++)
        group = table_at(l->table, ABOVE + (unsigned)d, group);
    return group;
}

uint32_t tt_layout_groups(const struct tt_layout *l, enum tt_distance level)
{
    return l->table ? l->table->ngroups[level]
                    : (l->nranks + l->group_ranks[level] - 1) / l->group_ranks[level];
}

uint32_t tt_layout_host(const struct tt_layout *l, uint32_t rank)
{
    return l->table ? table_at(l->table, HOST_OF, rank) : rank / l->group_ranks[TT_NEAR_HOST];
}

uint32_t tt_layout_socket(const struct tt_layout *l, uint32_t rank)
{
    return l->table ? table_at(l->table, SOCKET_OF, rank) : rank / l->group_ranks[TT_NEAR_SOCKET];
}

uint32_t tt_layout_local(const struct tt_layout *l, uint32_t rank)
{
    return l->table ? table_at(l->table, LOCAL_OF, rank) : rank % l->group_ranks[TT_NEAR_HOST];
}

uint32_t tt_layout_host_ranks(const struct tt_layout *l, uint32_t host)
{
    const uint32_t full = l->group_ranks[TT_NEAR_HOST];

    if (l->table)
        return table_at(l->table, FIRST_OF, host + 1) - table_at(l->table, FIRST_OF, host);
    return host + 1 < l->nhosts ? full : l->nranks - host * full;
}

uint32_t tt_layout_widest(const struct tt_layout *l)
{
    return l->table ? l->table->widest : tt_layout_host_ranks(l, 0);
}

uint32_t tt_layout_narrowest(const struct tt_layout *l)
{
    return l->table ? l->table->narrowest : tt_layout_host_ranks(l, l->nhosts - 1);
}

uint32_t tt_layout_rank(const struct tt_layout *l, uint32_t host, uint32_t local)
{
    const struct tt_layout_table *t = l->table;

    return t ? table_at(t, RANK_AT, table_at(t, FIRST_OF, host) + local)
             : host * l->group_ranks[TT_NEAR_HOST] + local;
}

uint32_t tt_layout_rail(const struct tt_layout *l, uint32_t rank)
{
    return l->table ? table_at(l->table, RAIL_OF, rank) : tt_layout_local(l, rank) % l->nrails;
}

/* Like tt_layout_distance, for different ranks. */
static enum tt_distance distance_in(const struct tt_layout_table *t, uint32_t a, uint32_t b)
{
    int d = TT_NEAR_HOST;

    if (table_at(t, SOCKET_OF, a) == table_at(t, SOCKET_OF, b))
        return TT_NEAR_SOCKET;
    a = table_at(t, HOST_OF, a);
    b = table_at(t, HOST_OF, b);
    while (a != b && ++d < TT_NEAR_WAN) {
        a = table_at(t, ABOVE + (unsigned)d, a);
        b = table_at(t, ABOVE + (unsigned)d, b);
    }
    return (enum tt_distance)d;
}

enum tt_distance tt_layout_distance(const struct tt_layout *l, uint32_t a, uint32_t b)
{
    if (a == b)
        return TT_NEAR_SELF;
    if (l->table)
        return distance_in(l->table, a, b);
    for (int d = TT_NEAR_SOCKET; d < TT_NEAR_WAN; d++)
        if (a / l->group_ranks[d] == b / l->group_ranks[d])
            return (enum tt_distance)d;
    return TT_NEAR_WAN;
}

enum tt_distance tt_layout_farthest(const struct tt_layout *l)
{
    enum tt_distance farthest = TT_NEAR_SELF;

    /* Groups nest: the rank farthest from any rank is also farthest from rank 0. In a regular
     * layout that is the last rank. */
    if (!l->table)
        return tt_layout_distance(l, 0, l->nranks - 1);
    for (uint32_t r = 1; r < l->nranks && farthest < TT_NEAR_WAN; r++) {
        const enum tt_distance d = tt_layout_distance(l, 0, r);

        farthest = d > farthest ? d : farthest;
    }
    return farthest;
}

bool tt_layout_fills(const struct tt_layout *l)
{
    return !l->table || l->table->fills;
}

bool tt_layout_is_even(const struct tt_layout *l, uint32_t *host_ranks)
{
    if (!tt_layout_fills(l) || tt_layout_widest(l) != tt_layout_narrowest(l))
        return false;
    *host_ranks = tt_layout_widest(l);
    return true;
}
