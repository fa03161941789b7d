/* The simulated network: the path of a message between two ranks.
 *
 * Model. A network is a set of servers, each with a rate, that serve first in, first out. Messages
 * are cut through: the head continues to the next server as soon as service begins, and the tail
 * follows when the slowest server of the path has passed it. A message of b bytes thus takes
 * latency + b / (lowest rate) on an idle path of any number of servers, and a server is busy for
 * b / (its own rate). Servers by location of the two ranks:
 *
 *   same socket, or same host if each pair has a link   the link of the ordered pair
 *   other socket of the host (TT_NODE_SOCKETS)          the link between the two sockets, one each
 *                                                       way, shared by their ranks
 *   other host                                          the sender's rail; the uplink of each group
 *                                                       left, from the rack up; the downlink of
 *                                                       each group entered; the receiver's rail
 *
 * An uplink is one server with the rate of the whole group: traffic is spread over its cables
 * perfectly (packet spraying), without hash collisions of flows. A layer that is not
 * over-subscribed passes all that its rails can send, and is not simulated: it could only queue
 * simultaneous arrivals. The latency of a pair is that of its distance, added at the top of the
 * path. */
#ifndef TT_SIM_NET_H
#define TT_SIM_NET_H

#include "topo/layout.h"
#include "tutti/tutti.h"

#define TT_NET_HOPS_MAX 10      /* two rails, up and down four levels */
#define TT_PS_PER_NS 1000.0
/* 53 days: later times are limited to this, and the simulation ends there */
#define TT_NET_TIME_MAX_PS (1ull << 62)

/* Limits of the combined slowdown by all faults of one object. */
#define TT_FAULT_FACTOR_MIN 1e-6
#define TT_FAULT_FACTOR_MAX 1e6

struct tt_net_conf {
    const struct tt_layout *layout;     /* the caller's, valid as long as the network */
    struct {
        double latency_ns;              /* one way */
        double bytes_per_s;             /* SOCKET, HOST: of a link as above; RACK: of a rail;
                                           above: limit of one pair, 0: none */
    } link[TT_DISTANCES];
    double uplink_bytes_per_s[TT_DISTANCES];    /* ZONE: of a rack towards its zone, each way;
                                                   ...; 0: not over-subscribed */
    bool lanes_apart;                   /* the rails of a rank that is alone on its host are
                                           separate servers, and each message uses one
                                           (tt_net_lane_path); otherwise they are one server,
                                           with the rate of all */
};

/* Kinds of faults. Hosts, groups and ranks are numbered as in the layout. */
enum tt_fault_kind {
    TT_FAULT_SLOW_RAIL,     /* both directions of rail `index` of host `where` take `factor`
                               times as long */
    TT_FAULT_DEAD_RAIL,     /* the rail's ranks use the host's next rail; without one, the host is
                               unreachable */
    TT_FAULT_SLOW_UPLINK,   /* the uplink of group `where` of level `index` (RACK to FABRIC),
                               both directions */
    TT_FAULT_SLOW_RANK,     /* rank `where` takes `factor` times as long for all its own work */
    TT_FAULT_LATE_RANK      /* rank `where` starts `factor` nanoseconds late */
};

struct tt_fault {
    enum tt_fault_kind kind;
    uint32_t where, index;
    double factor;
};

/* Multiplies a slowdown by `factor` (0: dead, which is final). Returns false, with *slow unchanged,
 * if the result is beyond the limits. */
bool tt_fault_slow(float *slow, double factor);

struct tt_server {
    uint64_t free_ps, busy_ps;
    float slow;             /* slowdown factor; 0: dead */
};

/* The link of an ordered pair of one host, by its key. */
struct tt_net_pair {
    uint64_t key;           /* from * pair_stride + index of `to` on its host + 1; 0: free */
    uint32_t server;
};

struct tt_net {
    const struct tt_layout *layout;
    uint64_t latency_ps[TT_DISTANCES];
    double byte_ps[TT_DISTANCES];       /* by class of server: SOCKET and HOST links, RACK rails,
                                           ZONE and above uplinks */
    double pair_byte_ps[TT_DISTANCES];  /* above RACK: limit of one pair; 0: none */
    bool shared_up[TT_DISTANCES];       /* whether leaving a group below that level uses a server */
    struct tt_server *server;           /* [servers_cap] */
    uint32_t nservers, servers_cap;
    struct tt_net_pair *pair;           /* [pairs_cap], a power of two, at most half full: open
                                           addressing by the hash of the key */
    uint64_t *pair_key;                 /* [servers_cap - pair_from] */
    uint32_t npairs, pairs_cap;
    uint32_t pair_from, pair_stride;    /* *_from: first server of a kind. The servers of pairs are
                                           last, created at first use */
    uint32_t socket_from, socket_stride;
    uint32_t rail_from[2], nrails;      /* out, in */
    uint32_t up_from[TT_DISTANCES][2];  /* up, down */
    uint8_t *rail_ranks;                /* [hosts][nrails]: number of ranks that use the rail, up to
                                           255 */
    bool has_dead;
    bool lanes_apart;                   /* conf.lanes_apart, and a rank is alone on its host */
    uint64_t peak_bytes[TT_DISTANCES];  /* maximum queue of one server of each class */
};

/* The path of a message. */
struct tt_net_path {
    uint64_t latency_ps;
    enum tt_distance distance;
    uint8_t nhops, nup;                 /* the latency follows hop nup - 1 */
    bool first_is_private;              /* only one rank uses the first server: no arbitration
                                           needed */
    uint8_t class_of[TT_NET_HOPS_MAX];  /* enum tt_distance */
    uint32_t server[TT_NET_HOPS_MAX];
};

/* Returns the time `ps` after from_ps, rounded; at most TT_NET_TIME_MAX_PS. */
static inline uint64_t tt_net_after(uint64_t from_ps, double ps)
{
    return from_ps < TT_NET_TIME_MAX_PS && ps < (double)(TT_NET_TIME_MAX_PS - from_ps)
               ? from_ps + (uint64_t)(ps + 0.5)
               : TT_NET_TIME_MAX_PS;
}

/* Returns the memory of a network in bytes, with at most npairs ordered pairs that communicate,
 * including the growth of its tables by doubling. */
uint64_t tt_net_memory(const struct tt_net_conf *conf, uint64_t npairs);

/* Builds a network. INVALID (logged): a required rate or latency is missing, a fault refers to an
 * unknown object or is out of bounds, or there are too many links. NOMEM (logged). */
tutti_status tt_net_init(struct tt_net *net, const struct tt_net_conf *conf,
                         const struct tt_fault *faults, uint32_t nfaults);
void tt_net_fini(struct tt_net *net);

/* Computes the path to another rank. Returns false if the path has a dead NIC. Pointers into
 * net->server may change. Aborts if out of memory. */
bool tt_net_path(struct tt_net *net, uint32_t from, uint32_t to, struct tt_net_path *out);
/* Like tt_net_path, for one of the pair's lanes, which use the rails round-robin if both ranks are
 * alone on their hosts; tt_net_path uses the first lane. */
bool tt_net_lane_path(struct tt_net *net, uint32_t from, uint32_t to, uint32_t lane,
                      struct tt_net_path *out);
/* Returns the number of rails that the lanes of a pair use; 1 unless both ranks are alone on their
 * hosts and lanes are separate. */
uint32_t tt_net_rails(const struct tt_net *net, uint32_t from, uint32_t to);
/* A server of class `c` serves `bytes` that arrive at `at_ps`; returns begin and end of the
 * service. */
void tt_net_serve(struct tt_net *net, uint32_t server, enum tt_distance c, uint64_t at_ps,
                  uint64_t bytes, uint64_t *begin_ps, uint64_t *end_ps);

/* Returns the class of a server. */
enum tt_distance tt_net_class(const struct tt_net *net, uint32_t server);

#endif
