/* A machine as described by a file or a built-in name: its shape, the links between its parts, and
 * labels of hosts by name. Pure data; docs/topology.md describes the file format. */
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

/* The link between two ranks whose nearest common group is of one level (indexed by enum
 * tt_distance). 0: unknown.
 *
 *  SOCKET  one link per pair of ranks of a socket.
 *  HOST    TT_NODE_MESH: one link per pair of ranks of the host. TT_NODE_SOCKETS: one link, each
 *  way, per pair of sockets, shared by all.
 *  RACK    one rail: a NIC and its cable to the rack's switch. All data to other hosts uses the
 *  rail.
 *  above   data that leaves a group of the level below shares its uplink: tt_topo_uplink.
 *  bytes_per_s limits one pair of ranks more than its rails do (e.g. a WAN path); 0: no limit. */
struct tt_topo_link {
    uint64_t latency_ns;            /* one way, for the shortest message, excluding the overhead
                                       of the ranks */
    double bytes_per_s;             /* each way */
    double oversubscription;        /* levels above RACK: rate of the rails below the uplink divided
                                       by the uplink's rate; at least 1 after reading */
};

/* Labels of the hosts whose name matches a pattern. '*' matches any text, '?' one character; "$1"
 * in a label is the text of the first '*'. */
struct tt_topo_rule {
    char host[TT_TOPO_NAME_BYTES];
    uint32_t slots;                                     /* 0: unknown */
    char label[TT_NEAR_WAN][TT_TOPO_LABEL_BYTES];       /* RACK to FABRIC; "": not set */
};

struct tt_topo {
    char name[TT_TOPO_NAME_BYTES];
    enum tt_node_kind node;         /* if not set: by sockets if the shape has several per host */
    bool node_told;
    uint32_t nrails;                /* number of rails per host; at least 1 */
    struct tt_topo_link link[TT_DISTANCES];     /* SOCKET to WAN */
    /* The shape, if the file describes a whole machine; otherwise has_shape is false and these are
     * 1. Ranks fill sockets, hosts, racks, zones and buildings in order. */
    bool has_shape;
    uint32_t host_ranks, host_sockets;          /* host_ranks is a multiple of host_sockets */
    uint32_t rack_hosts, zone_racks, building_zones, buildings;
    struct tt_topo_rule *rules;     /* [nrules], the first match is used; owned */
    uint32_t nrules;
};

/* Reads a description: the built-in of that name, else the file at that path. INVALID (logged) has
 * the path, the position or key, and what was expected. On success the caller releases *out with
 * tt_topo_fini. Any thread. */
tutti_status tt_topo_load(struct tt_topo *out, const char *name_or_path);
/* As tt_topo_load, for text[bytes]; `from` is the name of the text in errors. */
tutti_status tt_topo_parse(struct tt_topo *out, const char *text, size_t bytes, const char *from);
void tt_topo_fini(struct tt_topo *t);

/* Returns the name and summary of the i-th built-in description, from 0. False past the last. */
bool tt_topo_builtin(size_t i, const char **name, const char **summary);
/* Returns the text of the built-in description of that name, in file format, or NULL. */
const char *tt_topo_builtin_text(const char *name);

/* Ranks of the whole machine; 1 without a shape. */
uint32_t tt_topo_nranks(const struct tt_topo *t);
/* Ranks of a full group of a level, SOCKET to FABRIC. */
uint32_t tt_topo_group_ranks(const struct tt_topo *t, enum tt_distance level);
/* Returns the layout of the first nranks ranks of the machine; regular, so it needs no fini.
 * INVALID (logged): there is no shape, or too few ranks. */
tutti_status tt_topo_layout(const struct tt_topo *t, uint32_t nranks, struct tt_layout *out);
/* Returns the bandwidth, in bytes per second each way, of a full group of the level below `level`
 * towards the rest of `level`: its hosts' rails divided by the oversubscription of `level`. level:
 * ZONE (the uplink of a rack) to WAN (of a fabric). 0: the rate of a rail is unknown. */
double tt_topo_uplink(const struct tt_topo *t, enum tt_distance level);
/* Checks whether times can be computed for nranks ranks: there is a shape, and latency and rate of
 * every level that they span. INVALID (logged) names the missing key. */
tutti_status tt_topo_is_complete(const struct tt_topo *t, uint32_t nranks);

/* Writes the label of a host at a level, RACK to FABRIC, to out[TT_TOPO_LABEL_BYTES]; "" if no rule
 * sets it. */
void tt_topo_label(const struct tt_topo *t, const char *host, enum tt_distance level, char *out);

#endif
