/* Where the ranks of a communicator are, as far as all of them agree on it: what algorithms, lane limits and the tuner see of
 * the topology. Pure data; identical on every rank.
 *
 * Two forms behind one set of questions: `regular`, where consecutive ranks fill one group of each level after another
 * (131,072 ranks cost nothing), and a table, for everything else: it keeps what repeats once, and is shared by its copies. */
#ifndef TT_TOPO_LAYOUT_H
#define TT_TOPO_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* How far two ranks are from each other: the nearest level that holds both. Ordered: nearer is less. */
enum tt_distance {
    TT_NEAR_SELF,
    TT_NEAR_SOCKET,     /* same host and socket */
    TT_NEAR_HOST,
    TT_NEAR_RACK,
    TT_NEAR_ZONE,
    TT_NEAR_BUILDING,
    TT_NEAR_FABRIC,     /* another building of the same fabric */
    TT_NEAR_WAN,
    TT_DISTANCES
};

/* "socket", "rack", ...; "?" for none. tt_distance_parse: false for no such name. */
const char *tt_distance_name(enum tt_distance d);
bool tt_distance_parse(const char *name, enum tt_distance *out);

/* How the ranks of one host reach each other. */
enum tt_node_kind {
    TT_NODE_MESH,       /* each pair has a link of its own (or all share memory): any exchange at once is fine */
    TT_NODE_SOCKETS     /* ranks of a socket have links, sockets share one: what crosses should cross once */
};

/* One rank's seat: the number of its group at each level, counted over the whole communicator from 0 in order of first appearance.
 * group[TT_NEAR_HOST] is its host, group[TT_NEAR_SOCKET] its socket (over all hosts), group[TT_NEAR_RACK] its rack, ...;
 * group[TT_NEAR_SELF] is not read. Groups nest: ranks that share one share those of all levels above. */
struct tt_layout_seat {
    uint32_t group[TT_NEAR_WAN];
    uint32_t rail;      /* the NIC of its host that it binds to */
};

struct tt_layout_table;

struct tt_layout {
    uint32_t nranks, nhosts;
    enum tt_node_kind node;
    uint32_t nrails;            /* of the host that has the fewest; at least 1 */
    /* Regular: ranks in one group of each level; ranks r and s share a level's group iff r / size == s / size. A level that is not told
     * apart has the size of the one above it. Index as enum tt_distance; SELF is not read. */
    uint32_t group_ranks[TT_NEAR_WAN];
    struct tt_layout_table *table;      /* NULL when regular; the layout's own share of it */
};

/* A regular layout: nranks in hosts of `host_ranks`, each of `sockets` sockets (host_ranks a multiple of it), on `nrails` NICs. All hosts
 * in one rack; the caller may widen group_ranks of the levels above. The last host may be short. */
void tt_layout_regular(struct tt_layout *l, uint32_t nranks, uint32_t host_ranks, uint32_t sockets, uint32_t nrails,
                       enum tt_node_kind node);

/* A layout from seats[nranks], which are not kept: a regular one if it can be, else a table. False: out of memory. Ends with
 * tt_layout_fini (which does nothing for a regular one). */
bool tt_layout_init(struct tt_layout *l, const struct tt_layout_seat *seats, uint32_t nranks, enum tt_node_kind node,
                    uint32_t nrails);
/* The same layout once more, to be ended likewise. Shares may be made and ended in any threads. */
void tt_layout_share(struct tt_layout *out, const struct tt_layout *l);
void tt_layout_fini(struct tt_layout *l);

bool tt_layout_is_regular(const struct tt_layout *l);
/* That its table takes, and whether both have one table. */
uint64_t tt_layout_bytes(const struct tt_layout *l);
bool tt_layout_is_shared(const struct tt_layout *a, const struct tt_layout *b);

/* The number of the rank's group at a level from SOCKET to FABRIC, and how many groups there are. */
uint32_t tt_layout_group(const struct tt_layout *l, uint32_t rank, enum tt_distance level);
uint32_t tt_layout_groups(const struct tt_layout *l, enum tt_distance level);

uint32_t tt_layout_host(const struct tt_layout *l, uint32_t rank);
uint32_t tt_layout_socket(const struct tt_layout *l, uint32_t rank);
/* The rank's number among those of its host, and how many its host has. */
uint32_t tt_layout_local(const struct tt_layout *l, uint32_t rank);
uint32_t tt_layout_host_ranks(const struct tt_layout *l, uint32_t host);
/* Ranks of the host that has most, and of the one that has fewest. Constant time. */
uint32_t tt_layout_widest(const struct tt_layout *l);
uint32_t tt_layout_narrowest(const struct tt_layout *l);
/* The rank that is number `local` of a host. */
uint32_t tt_layout_rank(const struct tt_layout *l, uint32_t host, uint32_t local);
uint32_t tt_layout_rail(const struct tt_layout *l, uint32_t rank);
enum tt_distance tt_layout_distance(const struct tt_layout *l, uint32_t a, uint32_t b);

/* How far the two ranks are from each other that are farthest; SELF for one rank. */
enum tt_distance tt_layout_farthest(const struct tt_layout *l);

/* Whether consecutive ranks fill one host after another: all have as many, but for the last one, which may have fewer. Constant time. */
bool tt_layout_fills(const struct tt_layout *l);
/* Whether they do, and the last one is full too: every host has `*host_ranks` ranks. Constant time. */
bool tt_layout_is_even(const struct tt_layout *l, uint32_t *host_ranks);

#endif
