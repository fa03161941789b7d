#include "topo/rank_location.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/status.h"

#define SOCKETS_MAX 1024

void tt_rank_location_init(struct tt_rank_location *out, uint64_t host, int socket, uint32_t nrails,
                           struct tt_rails_near near, const struct tt_labels *labels, uint8_t node)
{
    *out = (struct tt_rank_location){
        .host = host, .socket = TT_UNKNOWN, .node = node, .nrails = (uint8_t)nrails, .near = near
    };
    if (socket >= 0 && socket < SOCKETS_MAX)
        out->socket = (int16_t)socket;
    tt_rank_location_label(out, labels);
}

void tt_rank_location_label(struct tt_rank_location *p, const struct tt_labels *labels)
{
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++) {
        const char *label = labels->label[d];

        p->label[d] = *label ? tt_hash_bytes(label, strlen(label), 0) | 1 : 0;
    }
}

bool tt_rank_location_is_labelled(const struct tt_rank_location *p)
{
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
        if (p->label[d])
            return true;
    return false;
}

void tt_rank_location_write(const struct tt_rank_location *p, struct tt_writer *w)
{
    tt_write_u64(w, p->host);
    tt_write_u16(w, (uint16_t)p->socket);
    tt_write_u8(w, p->node);
    tt_write_u8(w, p->nrails);
    tt_write_u16(w, p->near.set);
    tt_write_u8(w, p->near.by);
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
        tt_write_u64(w, p->label[d]);
}

static int16_t read_socket(struct tt_reader *r)
{
    const int16_t s = (int16_t)tt_read_u16(r);

    if (s < TT_UNKNOWN || s >= SOCKETS_MAX)
        r->bad = true;
    return s;
}

void tt_rank_location_read(struct tt_rank_location *out, struct tt_reader *r)
{
    *out = (struct tt_rank_location){ .host = tt_read_u64(r) };
    out->socket = read_socket(r);
    out->node = tt_read_u8(r);
    out->nrails = tt_read_u8(r);
    if (out->nrails > TT_RAILS_MAX ||
        (out->node > TT_NODE_SOCKETS && out->node != TT_NODE_AUTOMATIC))
        r->bad = true;
    out->near.set = tt_read_u16(r);
    out->near.by = tt_read_u8(r);
    if (out->near.by > TT_RAIL_SOCKET || out->near.set >> out->nrails % 32 ||
        (out->near.by == TT_RAIL_IN_TURN) != (out->near.set == 0))
        r->bad = true;
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
        out->label[d] = tt_read_u64(r);
}

/* ---- group numbers ---- */

struct key {
    uint64_t key;
    uint32_t rank, number;
};

static int key_by_value(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int by_rank(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Numbers equal keys alike, from 0, in order of first appearance. Each number is first the index of
 * the group's first rank, then the count of first ranks before it. */
static void number_keys(struct key *keys, uint32_t n)
{
    uint32_t groups = 0;

    qsort(keys, n, sizeof *keys, key_by_value);
    for (uint32_t i = 0; i < n; i++)
        keys[i].number =
            i > 0 && keys[i].key == keys[i - 1].key ? keys[i - 1].number : keys[i].rank;
    qsort(keys, n, sizeof *keys, by_rank);
    for (uint32_t r = 0; r < n; r++)
        keys[r].number = keys[r].number == r ? groups++ : keys[keys[r].number].number;
}

/* ---- layout from locations ---- */

struct derivation {
    const struct tt_rank_location *places;
    uint32_t n;
    struct tt_layout_seat *seats;
    struct key *keys;
    uint32_t *first;                    /* [n], by host: its first rank */
    bool labeled[TT_NEAR_WAN];
};

/* Numbers the ranks' groups at a level by keys[].key. */
static void assign(struct derivation *d, enum tt_distance level)
{
    for (uint32_t r = 0; r < d->n; r++)
        d->keys[r].rank = r;
    number_keys(d->keys, d->n);
    for (uint32_t r = 0; r < d->n; r++)
        d->seats[r].group[level] = d->keys[r].number;
}

static const struct tt_rank_location *first_of_host(const struct derivation *d, uint32_t rank)
{
    return &d->places[d->first[d->seats[rank].group[TT_NEAR_HOST]]];
}

static void derive_hosts(struct derivation *d)
{
    for (uint32_t r = 0; r < d->n; r++)
        d->keys[r].key = d->places[r].host;
    assign(d, TT_NEAR_HOST);
    for (uint32_t r = d->n; r-- > 0;)
        d->first[d->seats[r].group[TT_NEAR_HOST]] = r;
    for (uint32_t r = 0; r < d->n; r++)
        for (int level = TT_NEAR_RACK; level < TT_NEAR_WAN; level++)
            d->labeled[level] |= first_of_host(d, r)->label[level] != 0;
}

/* Name of a host's group at a labelled level: its labels there and above. If one of them is
 * missing, the host itself is included, since it is alone at that level, and so at those below. */
static uint64_t group_name(const struct derivation *d, uint32_t rank, int level)
{
    const struct tt_rank_location *p = first_of_host(d, rank);
    uint64_t name = 0;

    for (int above = TT_NEAR_WAN - 1; above >= level; above--)
        name =
            tt_mix64(name ^ (d->labeled[above] && !p->label[above] ? p->host : p->label[above])) +
            (uint64_t)above;
    return name;
}

static void derive_levels(struct derivation *d)
{
    int highest = TT_NEAR_WAN - 1;

    while (highest >= TT_NEAR_RACK && !d->labeled[highest])
        highest--;
    for (int level = TT_NEAR_RACK; level < TT_NEAR_WAN; level++) {
        if (level <= highest && !d->labeled[level]) {
            for (uint32_t r = 0; r < d->n; r++)
                d->seats[r].group[level] = d->seats[r].group[level - 1];
            continue;
        }
        for (uint32_t r = 0; r < d->n; r++)
            d->keys[r].key = level > highest ? 0 : group_name(d, r, level);
        assign(d, (enum tt_distance)level);
    }
}

/* Numbers the sockets of each host; unknown[host]: the socket of some rank there is unknown. */
static void derive_sockets(struct derivation *d, bool *unknown)
{
    for (uint32_t r = 0; r < d->n; r++)
        unknown[d->seats[r].group[TT_NEAR_HOST]] |= d->places[r].socket == TT_UNKNOWN;
    for (uint32_t r = 0; r < d->n; r++) {
        const uint32_t host = d->seats[r].group[TT_NEAR_HOST];

        d->keys[r].key = (uint64_t)host << 16 | (unknown[host] ? 0 : (uint64_t)d->places[r].socket);
    }
    assign(d, TT_NEAR_SOCKET);
}

/* Links among the ranks of a host, once hosts and sockets are numbered: as rank 0 has configured,
 * otherwise by sockets if a host has ranks on several. */
static enum tt_node_kind node_of(const struct derivation *d)
{
    uint32_t hosts = 0, sockets = 0;

    if (d->places[0].node != TT_NODE_AUTOMATIC)
        return (enum tt_node_kind)d->places[0].node;
    for (uint32_t r = 0; r < d->n; r++) {
        hosts =
            d->seats[r].group[TT_NEAR_HOST] < hosts ? hosts : d->seats[r].group[TT_NEAR_HOST] + 1;
        sockets = d->seats[r].group[TT_NEAR_SOCKET] < sockets
                      ? sockets
                      : d->seats[r].group[TT_NEAR_SOCKET] + 1;
    }
    return sockets > hosts ? TT_NODE_SOCKETS : TT_NODE_MESH;
}

/* Assigns each rank's rail, using a layout with the ranks of each host, and sets *nrails. The first
 * rank of a host determines its rails. */
static bool derive_rails(struct derivation *d, const struct tt_layout *l, uint32_t *nrails)
{
    struct tt_rails_near *near = malloc((l->nranks + 1u) * sizeof *near);
    uint32_t *rail = malloc((l->nranks + 1u) * sizeof *rail);
    bool ok;

    *nrails = TT_RAILS_MAX;
    for (uint32_t h = 0; near && rail && h < l->nhosts; h++) {
        const uint32_t nlocal = tt_layout_host_ranks(l, h);
        const struct tt_rank_location *host = &d->places[tt_layout_rank(l, h, 0)];

        for (uint32_t i = 0; i < nlocal; i++)
            near[i] = d->places[tt_layout_rank(l, h, i)].near;
        tt_rails_deal(near, nlocal, host->nrails, rail);
        for (uint32_t i = 0; i < nlocal; i++)
            d->seats[tt_layout_rank(l, h, i)].rail = rail[i];
        if (host->nrails < *nrails)
            *nrails = host->nrails ? host->nrails : 1;
    }
    ok = near && rail;
    free(rail);
    free(near);
    return ok;
}

bool tt_layout_derive(struct tt_layout *out, const struct tt_rank_location *places, uint32_t nranks)
{
    enum tt_node_kind node = TT_NODE_MESH;
    struct derivation d = { .places = places, .n = nranks };
    struct tt_layout hosts;     /* without rails, which are assigned host by host */
    uint32_t nrails = 1;
    bool *unknown = calloc(nranks + 1u, sizeof *unknown), ok;

    d.seats = calloc(nranks + 1u, sizeof *d.seats);
    d.keys = calloc(nranks + 1u, sizeof *d.keys);
    d.first = calloc(nranks + 1u, sizeof *d.first);
    ok = unknown && d.seats && d.keys && d.first;
    if (ok) {
        derive_hosts(&d);
        derive_sockets(&d, unknown);
        derive_levels(&d);
        node = node_of(&d);
        ok = tt_layout_init(&hosts, d.seats, nranks, node, 1);
    }
    if (ok) {
        ok =
            derive_rails(&d, &hosts, &nrails) && tt_layout_init(out, d.seats, nranks, node, nrails);
        tt_layout_fini(&hosts);
    }
    free(unknown);
    free(d.seats);
    free(d.keys);
    free(d.first);
    return ok;
}

/* ---- subsets ---- */

/* Returns whether ranks[n] are all ranks of the layout, in order. */
static bool is_whole(const struct tt_layout *l, const uint32_t *ranks, uint32_t n)
{
    uint32_t r = 0;

    while (r < n && ranks[r] == r)
        r++;
    return r == l->nranks;
}

bool tt_layout_part(struct tt_layout *out, const struct tt_layout *whole, const uint32_t *ranks,
                    uint32_t n)
{
    struct tt_layout_seat *seats;
    struct key *keys;
    bool ok;

    if (is_whole(whole, ranks, n)) {
        tt_layout_share(out, whole);
        return true;
    }
    seats = calloc(n + 1u, sizeof *seats);
    keys = calloc(n + 1u, sizeof *keys);
    ok = seats && keys;
    for (int level = TT_NEAR_SOCKET; ok && level < TT_NEAR_WAN; level++) {
        for (uint32_t r = 0; r < n; r++)
            keys[r] =
                (struct key){ .key = tt_layout_group(whole, ranks[r], (enum tt_distance)level),
                              .rank = r };
        number_keys(keys, n);
        for (uint32_t r = 0; r < n; r++)
            seats[r].group[level] = keys[r].number;
    }
    for (uint32_t r = 0; ok && r < n; r++)
        seats[r].rail = tt_layout_rail(whole, ranks[r]);
    ok = ok && tt_layout_init(out, seats, n, whole->node, whole->nrails);
    free(seats);
    free(keys);
    return ok;
}

void tt_layout_describe(const struct tt_layout *l, char *out, size_t cap)
{
    static const char *const plural[] = { [TT_NEAR_RACK] = "racks",
                                          [TT_NEAR_ZONE] = "zones",
                                          [TT_NEAR_BUILDING] = "buildings",
                                          [TT_NEAR_FABRIC] = "fabrics" };
    uint32_t below = l->nhosts;
    size_t n;

    n = (size_t)snprintf(out, cap, "%u rank%s on %u host%s, %u rail%s each", l->nranks,
                         l->nranks == 1 ? "" : "s", l->nhosts, l->nhosts == 1 ? "" : "s", l->nrails,
                         l->nrails == 1 ? "" : "s");
    for (int level = TT_NEAR_RACK; level < TT_NEAR_WAN && n < cap; level++) {
        const uint32_t groups = tt_layout_groups(l, (enum tt_distance)level);

        if (groups > 1 && groups != below)
            n += (size_t)snprintf(out + n, cap - n, ", %u %s", groups, plural[level]);
        below = groups;
    }
}
