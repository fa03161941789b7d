#include "topo/layout.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[TT_DISTANCES] = {
    [TT_NEAR_SELF] = "self",     [TT_NEAR_SOCKET] = "socket",     [TT_NEAR_HOST] = "host",     [TT_NEAR_RACK] = "rack",
    [TT_NEAR_ZONE] = "zone",     [TT_NEAR_BUILDING] = "building", [TT_NEAR_FABRIC] = "fabric", [TT_NEAR_WAN] = "wan",
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

void tt_layout_regular(struct tt_layout *l, uint32_t nranks, uint32_t host_ranks, uint32_t sockets, uint32_t nrails,
                       enum tt_node_kind node)
{
    *l = (struct tt_layout){
        .nranks = nranks, .nhosts = (nranks + host_ranks - 1) / host_ranks, .node = node, .nrails = nrails,
    };
    l->group_ranks[TT_NEAR_SOCKET] = host_ranks / sockets;
    l->group_ranks[TT_NEAR_HOST] = host_ranks;
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
        l->group_ranks[d] = nranks;
}

/* Numbers the ranks of each host, and lists them host by host. */
static void list_hosts(struct tt_layout *l)
{
    for (uint32_t r = 0; r < l->nranks; r++) {
        const uint32_t h = l->seat[r].group[TT_NEAR_HOST];

        l->seat[r].local = l->host_first[h + 1]++;
    }
    l->narrowest = l->nranks;
    for (uint32_t h = 0; h < l->nhosts; h++) {
        const uint32_t n = l->host_first[h + 1];

        l->widest = n > l->widest ? n : l->widest;
        l->narrowest = n < l->narrowest ? n : l->narrowest;
        l->host_first[h + 1] += l->host_first[h];
    }
    for (uint32_t r = 0; r < l->nranks; r++)
        l->host_ranks[l->host_first[l->seat[r].group[TT_NEAR_HOST]] + l->seat[r].local] = r;
}

bool tt_layout_init(struct tt_layout *l, const struct tt_layout_seat *seats, uint32_t nranks, enum tt_node_kind node,
                    uint32_t nrails)
{
    struct tt_layout made = { .nranks = nranks, .node = node, .nrails = nrails };

    for (uint32_t r = 0; r < nranks; r++)
        if (seats[r].group[TT_NEAR_HOST] >= made.nhosts)
            made.nhosts = seats[r].group[TT_NEAR_HOST] + 1;
    made.seat = malloc((nranks + 1u) * sizeof *made.seat);
    made.host_first = calloc(made.nhosts + 1u, sizeof *made.host_first);
    made.host_ranks = malloc((nranks + 1u) * sizeof *made.host_ranks);
    if (!made.seat || !made.host_first || !made.host_ranks) {
        tt_layout_fini(&made);
        return false;
    }
    memcpy(made.seat, seats, nranks * sizeof *seats);
    list_hosts(&made);
    *l = made;
    return true;
}

uint64_t tt_layout_bytes(const struct tt_layout *l)
{
    if (!l->seat)
        return 0;
    return (l->nranks + 1ull) * (sizeof *l->seat + sizeof *l->host_ranks) + (l->nhosts + 1ull) * sizeof *l->host_first;
}

void tt_layout_fini(struct tt_layout *l)
{
    free(l->seat);
    free(l->host_first);
    free(l->host_ranks);
    *l = (struct tt_layout){ 0 };
}

static uint32_t group_of(const struct tt_layout *l, uint32_t rank, enum tt_distance level)
{
    return l->seat ? l->seat[rank].group[level] : rank / l->group_ranks[level];
}

uint32_t tt_layout_host(const struct tt_layout *l, uint32_t rank)
{
    return group_of(l, rank, TT_NEAR_HOST);
}

uint32_t tt_layout_socket(const struct tt_layout *l, uint32_t rank)
{
    return group_of(l, rank, TT_NEAR_SOCKET);
}

uint32_t tt_layout_local(const struct tt_layout *l, uint32_t rank)
{
    return l->seat ? l->seat[rank].local : rank % l->group_ranks[TT_NEAR_HOST];
}

uint32_t tt_layout_host_ranks(const struct tt_layout *l, uint32_t host)
{
    const uint32_t full = l->group_ranks[TT_NEAR_HOST];

    if (l->seat)
        return l->host_first[host + 1] - l->host_first[host];
    return host + 1 < l->nhosts ? full : l->nranks - host * full;
}

uint32_t tt_layout_widest(const struct tt_layout *l)
{
    return l->seat ? l->widest : tt_layout_host_ranks(l, 0);
}

uint32_t tt_layout_narrowest(const struct tt_layout *l)
{
    return l->seat ? l->narrowest : tt_layout_host_ranks(l, l->nhosts - 1);
}

uint32_t tt_layout_rank(const struct tt_layout *l, uint32_t host, uint32_t local)
{
    return l->seat ? l->host_ranks[l->host_first[host] + local] : host * l->group_ranks[TT_NEAR_HOST] + local;
}

uint32_t tt_layout_rail(const struct tt_layout *l, uint32_t rank)
{
    return l->seat ? l->seat[rank].rail : tt_layout_local(l, rank) % l->nrails;
}

enum tt_distance tt_layout_distance(const struct tt_layout *l, uint32_t a, uint32_t b)
{
    if (a == b)
        return TT_NEAR_SELF;
    for (int d = TT_NEAR_SOCKET; d < TT_NEAR_WAN; d++)
        if (group_of(l, a, (enum tt_distance)d) == group_of(l, b, (enum tt_distance)d))
            return (enum tt_distance)d;
    return TT_NEAR_WAN;
}

enum tt_distance tt_layout_farthest(const struct tt_layout *l)
{
    enum tt_distance farthest = TT_NEAR_SELF;

    /* Groups nest: who is farthest from anybody is so from rank 0. In a regular layout that is the last rank. */
    if (!l->seat)
        return tt_layout_distance(l, 0, l->nranks - 1);
    for (uint32_t r = 1; r < l->nranks && farthest < TT_NEAR_WAN; r++) {
        const enum tt_distance d = tt_layout_distance(l, 0, r);

        farthest = d > farthest ? d : farthest;
    }
    return farthest;
}

bool tt_layout_is_even(const struct tt_layout *l, uint32_t *host_ranks)
{
    const uint32_t g = tt_layout_host_ranks(l, 0);

    if (l->nranks % g != 0 || l->nranks / g != l->nhosts)
        return false;
    for (uint32_t r = 0; l->seat && r < l->nranks; r++)
        if (l->seat[r].group[TT_NEAR_HOST] != r / g)
            return false;
    *host_ranks = g;
    return true;
}
