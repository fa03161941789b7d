/* The locations of a communicator's ranks, as agreed on by all ranks: the topology as algorithms,
 * lane limits and the tuner see it. Pure data; identical on every rank.
 *
 * There are two forms with the same interface. `regular`: consecutive ranks fill one group of each
 * level after another (131,072 ranks take no memory). A table for all other layouts, in which
 * repetitions are stored once; copies share it. */
#ifndef TT_TOPO_LAYOUT_H
#define TT_TOPO_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* Distance class of two ranks: the nearest level that contains both. Ordered: nearer is less. */
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

/* Returns "socket", "rack", ...; "?" for an invalid value. tt_distance_parse returns false for an
 * unknown name. */
const char *tt_distance_name(enum tt_distance d);
bool tt_distance_parse(const char *name, enum tt_distance *out);

/* Links among the ranks of a host. */
enum tt_node_kind {
    TT_NODE_MESH,       /* each pair has its own link (or all share memory): any exchange may be
                           concurrent */
    TT_NODE_SOCKETS     /* ranks of a socket have links, sockets share one: data should cross it
                           only once */
};

/* Location of one rank: the number of its group at each level, counted over the whole communicator
 * from 0 in order of first appearance. group[TT_NEAR_HOST] is its host, group[TT_NEAR_SOCKET] its
 * socket (over all hosts), group[TT_NEAR_RACK] its rack, ...; group[TT_NEAR_SELF] is not read.
 * Groups nest: ranks in a common group share those of all levels above. */
struct tt_layout_seat {
    uint32_t group[TT_NEAR_WAN];
    uint32_t rail;      /* index of its NIC on its host */
};

struct tt_layout_table;

struct tt_layout {
    uint32_t nranks, nhosts;
    enum tt_node_kind node;
    uint32_t nrails;            /* minimum over all hosts; at least 1 */
    /* Regular: ranks per group of each level; ranks r and s share a group iff r / size == s / size.
     * A level that is not distinguished has the size of the one above. Indexed by enum tt_distance;
     * SELF is not read. */
    uint32_t group_ranks[TT_NEAR_WAN];
    struct tt_layout_table *table;      /* NULL if regular; a counted reference */
};

/* Creates a regular layout: nranks in hosts of `host_ranks`, each with `sockets` sockets
 * (host_ranks is a multiple), on `nrails` NICs. All hosts are in one rack; the caller may enlarge
 * group_ranks of the levels above. The last host may be short. */
void tt_layout_regular(struct tt_layout *l, uint32_t nranks, uint32_t host_ranks, uint32_t sockets,
                       uint32_t nrails, enum tt_node_kind node);

/* Creates a layout from seats[nranks], which are copied: regular if possible, else a table. Returns
 * false if out of memory. Release with tt_layout_fini (which does nothing for a regular layout). */
bool tt_layout_init(struct tt_layout *l, const struct tt_layout_seat *seats, uint32_t nranks,
                    enum tt_node_kind node, uint32_t nrails);
/* Adds a reference to the layout, which is released with tt_layout_fini, too. Any thread. */
void tt_layout_share(struct tt_layout *out, const struct tt_layout *l);
void tt_layout_fini(struct tt_layout *l);

bool tt_layout_is_regular(const struct tt_layout *l);
/* Bytes of its table; and whether both share a table. */
uint64_t tt_layout_bytes(const struct tt_layout *l);
bool tt_layout_is_shared(const struct tt_layout *a, const struct tt_layout *b);

/* The number of the rank's group at a level from SOCKET to FABRIC; and the number of groups. */
uint32_t tt_layout_group(const struct tt_layout *l, uint32_t rank, enum tt_distance level);
uint32_t tt_layout_groups(const struct tt_layout *l, enum tt_distance level);

uint32_t tt_layout_host(const struct tt_layout *l, uint32_t rank);
uint32_t tt_layout_socket(const struct tt_layout *l, uint32_t rank);
/* The rank's index on its host; and the number of ranks of a host. */
uint32_t tt_layout_local(const struct tt_layout *l, uint32_t rank);
uint32_t tt_layout_host_ranks(const struct tt_layout *l, uint32_t host);
/* Maximum and minimum number of ranks of a host. Constant time. */
uint32_t tt_layout_widest(const struct tt_layout *l);
uint32_t tt_layout_narrowest(const struct tt_layout *l);
/* The rank with index `local` on a host. */
uint32_t tt_layout_rank(const struct tt_layout *l, uint32_t host, uint32_t local);
uint32_t tt_layout_rail(const struct tt_layout *l, uint32_t rank);
enum tt_distance tt_layout_distance(const struct tt_layout *l, uint32_t a, uint32_t b);

/* The maximum distance of two ranks; SELF for one rank. */
enum tt_distance tt_layout_farthest(const struct tt_layout *l);

/* Returns whether consecutive ranks fill one host after another: all have equally many, but the
 * last may have fewer. Constant time. */
bool tt_layout_fills(const struct tt_layout *l);
/* Returns whether, in addition, the last host is full: every host has `*host_ranks` ranks. Constant
 * time. */
bool tt_layout_is_even(const struct tt_layout *l, uint32_t *host_ranks);

#endif
