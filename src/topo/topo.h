/* A machine as a file or a built-in name describes it: its shape, what joins its parts, and labels of hosts by name. Pure data;
 * docs/topology.md has the format of the file. */
#ifndef TT_TOPO_TOPO_H
#define TT_TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "topo/layout.h"
#include "tutti/tutti.h"

#define TT_TOPO_NAME_BYTES 64
#define TT_TOPO_LABEL_BYTES 48
#define TT_TOPO_RANKS_MAX (1u << 24)
#define TT_TOPO_HOSTS_MAX 4096u         /* entries of "hosts" */

/* What two ranks have between them whose nearest common group is of one level (index: enum tt_distance). 0: not told.
 *
 * SOCKET   one link per pair of ranks of a socket.
 * HOST     TT_NODE_MESH: one link per pair of ranks of the host. TT_NODE_SOCKETS: one link, each way, per pair of sockets, for all.
 * RACK     one rail: a NIC and its cable to the rack's switch. What any rank sends to another host goes through its rail.
 * above    what leaves a group of the level below shares its uplink: tt_topo_uplink. bytes_per_s bounds one pair of ranks more
 *          closely than its rails do (a WAN path, say); 0: it does not. */
struct tt_topo_link {
    uint64_t latency_ns;            /* one way, the least message, without what the ranks at its ends do */
    double bytes_per_s;             /* each way */
    double oversubscription;        /* levels above RACK: rails below the uplink, over the uplink; at least 1 once read */
};

/* Labels of the hosts whose name matches a pattern. '*' stands for any text, '?' for one character; "$1" in a label is what the first
 * '*' stood for. */
struct tt_topo_rule {
    char host[TT_TOPO_NAME_BYTES];
    uint32_t slots;                                     /* 0: not told */
    char label[TT_NEAR_WAN][TT_TOPO_LABEL_BYTES];       /* RACK to FABRIC; "": not told */
};

struct tt_topo {
    char name[TT_TOPO_NAME_BYTES];
    enum tt_node_kind node;         /* where it is not told, by sockets if the shape has several to a host */
    bool node_told;
    uint32_t nrails;                /* per host; at least 1 */
    struct tt_topo_link link[TT_DISTANCES];     /* SOCKET to WAN */
    /* The shape, where the file describes a whole machine; else has_shape is false and these are 1. Ranks fill sockets, hosts, racks,
     * zones and buildings in their order. */
    bool has_shape;
    uint32_t host_ranks, host_sockets;          /* host_ranks is a multiple of host_sockets */
    uint32_t rack_hosts, zone_racks, building_zones, buildings;
    struct tt_topo_rule *rules;     /* [nrules], the first that matches holds; owned */
    uint32_t nrules;
};

/* Reads a description: the built-in of that name, else the file at that path. INVALID (logged) with the path, the place or key, and what
 * was expected. On success the caller ends *out with tt_topo_fini. Any thread. */
tutti_status tt_topo_load(struct tt_topo *out, const char *name_or_path);
/* The same for text[bytes]; `from` names it in sentences. */
tutti_status tt_topo_parse(struct tt_topo *out, const char *text, size_t bytes, const char *from);
void tt_topo_fini(struct tt_topo *t);

/* Built-in descriptions, by number from 0: name, one sentence; false past the last. */
bool tt_topo_builtin(size_t i, const char **name, const char **summary);
/* The text of the built-in of that name, as a file would have it; NULL: there is none. */
const char *tt_topo_builtin_text(const char *name);

/* Ranks of the whole machine; 1 where it has no shape. */
uint32_t tt_topo_nranks(const struct tt_topo *t);
/* Ranks in one full group of a level, SOCKET to FABRIC. */
uint32_t tt_topo_group_ranks(const struct tt_topo *t, enum tt_distance level);
/* The layout of the first nranks ranks of the machine; regular: needs no fini. INVALID (logged): it has no shape, or fewer ranks. */
tutti_status tt_topo_layout(const struct tt_topo *t, uint32_t nranks, struct tt_layout *out);
/* What one full group of the level below `level` has towards the rest of `level`, each way, in bytes per second: its hosts' rails over the
 * oversubscription of `level`. level: ZONE (the uplink of a rack) to WAN (of a fabric). 0: a rail's rate is not told. */
double tt_topo_uplink(const struct tt_topo *t, enum tt_distance level);
/* Whether times can be computed for nranks of its ranks: it has a shape, and latency and rate of every level that they span. INVALID (logged)
 * with the key that is missing. */
tutti_status tt_topo_is_complete(const struct tt_topo *t, uint32_t nranks);

/* The label of a host at a level, RACK to FABRIC: out[TT_TOPO_LABEL_BYTES]; "" if no rule tells it. */
void tt_topo_label(const struct tt_topo *t, const char *host, enum tt_distance level, char *out);

#endif
