/* The simulated network: what a message passes on its way from one rank to another.
 *
 * Model. A network is a set of servers, each with a rate, that serve what comes to them first in, first out. A message is cut through:
 * its head goes on to the next server as soon as this one begins with it, and its tail follows when the slowest server of the way has
 * let it pass. So a message of b bytes takes latency + b / (lowest rate) on an empty way, however many servers there are, and a server
 * is busy for b / (its own rate).
 *
 *   same socket, or same host where each pair has a link    the link of the ordered pair
 *   other socket of the host (TT_NODE_SOCKETS)              the link between the two sockets, one each way, shared by their ranks
 *   other host                                              the sender's rail; the uplink of each group that is left, from the rack
 *                                                           up; the downlink of each that is entered; the receiver's rail
 *
 * An uplink is one server with the rate of the whole group: traffic is spread over its cables perfectly (packet spraying), so a flow
 * never collides with another by a hash. A layer that is not over-subscribed passes all that its rails can send, and is left out: it
 * could only queue for what arrives in one instant. The latency of a pair is that of its distance; it is spent at the top of the way. */
#ifndef TT_SIM_NET_H
#define TT_SIM_NET_H

#include "topo/layout.h"
#include "tutti/tutti.h"

#define TT_NET_HOPS_MAX 10      /* two rails, up and down four levels */
#define TT_PS_PER_NS 1000.0
#define TT_NET_TIME_MAX_PS (1ull << 62) /* 53 days: times that would be later stop there, and nothing is simulated beyond */

/* Together, the faults of one thing make it take from the least to the most times as long. */
#define TT_FAULT_FACTOR_MIN 1e-6
#define TT_FAULT_FACTOR_MAX 1e6

struct tt_net_conf {
    const struct tt_layout *layout;     /* the caller's, alive as long as the network */
    struct {
        double latency_ns;              /* one way */
        double bytes_per_s;             /* SOCKET, HOST: of a link as above; RACK: of a rail; above: bounds one pair, 0 does not */
    } link[TT_DISTANCES];
    double uplink_bytes_per_s[TT_DISTANCES];    /* ZONE: what a rack has towards its zone, each way; ...; 0: as much as its rails */
    bool lanes_apart;                   /* the rails of a rank that is alone on its host are servers of their own, and each message goes over one
                                           (tt_net_lane_path); else they are as one, with the rate of all */
};

/* What is out of order. Hosts, groups and ranks are numbered as in the layout. */
enum tt_fault_kind {
    TT_FAULT_SLOW_RAIL,     /* both directions of rail `index` of host `where` take `factor` times as long */
    TT_FAULT_DEAD_RAIL,     /* its ranks use the host's next rail; without one, nothing gets out or in */
    TT_FAULT_SLOW_UPLINK,   /* the uplink of group `where` of level `index` (RACK to FABRIC), both directions */
    TT_FAULT_SLOW_RANK,     /* rank `where` takes `factor` times as long for all that it does itself */
    TT_FAULT_LATE_RANK      /* rank `where` comes `factor` nanoseconds late */
};

struct tt_fault {
    enum tt_fault_kind kind;
    uint32_t where, index;
    double factor;
};

/* Takes `factor` into what one thing takes times as long already (0: it is dead, and stays so). False: that is beyond the bounds, and *slow as
 * it was. */
bool tt_fault_slow(float *slow, double factor);

struct tt_server {
    uint64_t free_ps, busy_ps;
    float slow;             /* times as long; 0: dead */
};

/* The link of an ordered pair of one host, by its number. */
struct tt_net_pair {
    uint64_t key;           /* from * pair_stride + to within its host + 1; 0: none */
    uint32_t server;
};

struct tt_net {
    const struct tt_layout *layout;
    uint64_t latency_ps[TT_DISTANCES];
    double byte_ps[TT_DISTANCES];       /* by class of server: SOCKET and HOST links, RACK rails, ZONE and above uplinks */
    double pair_byte_ps[TT_DISTANCES];  /* above RACK: bound of one pair; 0: none */
    bool shared_up[TT_DISTANCES];       /* whether leaving a group below that level is a server */
    struct tt_server *server;           /* [servers_cap] */
    uint32_t nservers, servers_cap;
    struct tt_net_pair *pair;           /* [pairs_cap], a power of two, at most half full: where the hash of the key is, or after it */
    uint64_t *pair_key;                 /* [servers_cap - pair_from] */
    uint32_t npairs, pairs_cap;
    uint32_t pair_from, pair_stride;    /* first server of each kind; pairs are the last, and come when they are used */
    uint32_t socket_from, socket_stride;
    uint32_t rail_from[2], nrails;      /* out, in */
    uint32_t up_from[TT_DISTANCES][2];  /* up, down */
    uint8_t *rail_ranks;                /* [hosts][nrails]: ranks bound to it, up to 255 */
    bool has_dead;
    bool lanes_apart;                   /* and some rank is alone on its host */
    uint64_t peak_bytes[TT_DISTANCES];  /* most that waited for one server of a class */
};

/* The way of a message. */
struct tt_net_path {
    uint64_t latency_ps;
    enum tt_distance distance;
    uint8_t nhops, nup;                 /* the latency comes after hop nup - 1 */
    bool first_is_private;              /* only one rank uses the first server: it needs no arbitration */
    uint8_t class_of[TT_NET_HOPS_MAX];  /* enum tt_distance */
    uint32_t server[TT_NET_HOPS_MAX];
};

/* A time `ps` after from_ps, rounded; TT_NET_TIME_MAX_PS if it is later than that. */
static inline uint64_t tt_net_after(uint64_t from_ps, double ps)
{
    return from_ps < TT_NET_TIME_MAX_PS && ps < (double)(TT_NET_TIME_MAX_PS - from_ps) ? from_ps + (uint64_t)(ps + 0.5)
                                                                                       : TT_NET_TIME_MAX_PS;
}

/* Bytes of memory that a network takes, of which at most npairs ordered pairs exchange something: as much as its tables come to have room
 * for, which they double. */
uint64_t tt_net_memory(const struct tt_net_conf *conf, uint64_t npairs);

/* Builds a network. INVALID (logged): a rate or latency that is needed is missing, a fault names what is not there or is out of bounds, or
 * there are too many links. NOMEM (logged). */
tutti_status tt_net_init(struct tt_net *net, const struct tt_net_conf *conf, const struct tt_fault *faults,
                         uint32_t nfaults);
void tt_net_fini(struct tt_net *net);

/* The way from `from` to another rank. False: a dead NIC is on it. Pointers into net->server may move. Aborts when there is no memory. */
bool tt_net_path(struct tt_net *net, uint32_t from, uint32_t to, struct tt_net_path *out);
/* The same over one of the lanes of the pair, which go over one rail after the other where both ranks are alone on their hosts; tt_net_path: over the first. */
bool tt_net_lane_path(struct tt_net *net, uint32_t from, uint32_t to, uint32_t lane, struct tt_net_path *out);
/* How many rails that is: 1 where it is not so, or lanes are not told apart. */
uint32_t tt_net_rails(const struct tt_net *net, uint32_t from, uint32_t to);
/* A server of class `c` serves `bytes` that come at `at_ps`: when it begins and ends. */
void tt_net_serve(struct tt_net *net, uint32_t server, enum tt_distance c, uint64_t at_ps, uint64_t bytes,
                  uint64_t *begin_ps, uint64_t *end_ps);

/* The class of a server. */
enum tt_distance tt_net_class(const struct tt_net *net, uint32_t server);

#endif
