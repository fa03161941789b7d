/* Predicted time of a call with one algorithm, by simulation. Pure. */
#ifndef TT_TUNE_PREDICT_H
#define TT_TUNE_PREDICT_H

#include "algo/algos.h"
#include "algo/segments.h"
#include "sim/des.h"
#include "topo/topo.h"

/* Costs of a rank's work, measured once and agreed on by all ranks, in nanoseconds. */
struct tt_tune_costs {
    struct tt_des_way far, near;        /* messages between hosts, and within a host; near includes
                                           single copies only if the host is oversubscribed */
    struct tt_des_way fetched;          /* messages within a host by single copies, if the host is
                                           not oversubscribed: used if they take less time than near
                                           without single copies, as the engine tries both;
                                           single_bytes 0: not available */
    double far_latency_ns, near_latency_ns;     /* time from sending a message to its visibility,
                                                   for links without a description */
    double far_byte_ns;                 /* time per byte of a rail, for links without a
                                           description */
    double reduce_byte_ns, copy_byte_ns;
    struct tt_tune_bytes {
        double send_byte_ns, copy_byte_ns, reduce_byte_ns;
    } apart, own;                       /* costs per byte within a host that is not oversubscribed,
                                           which replace those of near and those above. apart:
                                           through slots; own: for data in the rank's own caches, as
                                           after a single copy. All 0: no difference */
    double plan_ns, step_ns;            /* software cost of calls that are not straight-line
                                           programs: once, and for each step */
    double wake_ns, idle_ns;            /* time that a core needs to switch from one rank to
                                           another: fixed, and per waiting rank */
    uint32_t cores;                     /* number of cores of each host */
};

/* Inputs of a prediction besides the call: identical on all ranks. */
struct tt_tune_conf {
    const struct tt_layout *layout;
    const struct tt_topo_link *links;   /* [TT_DISTANCES], as described or measured; NULL:
                                           unknown */
    uint32_t lanes;                     /* to a peer of another host; 0 and 1: no choice */
    const uint64_t *lane_bytes;         /* [TT_DISTANCES], maximum outstanding bytes of each;
                                           NULL: no limit */
    struct tt_tune_costs costs;
    struct tt_cost_model model;         /* of the closed forms */
    struct tt_segment_limits limits;
};

/* Bottleneck of a predicted time. */
enum tt_tune_bound {
    TT_BOUND_LATENCY,       /* messages that wait for one another */
    TT_BOUND_RANK,          /* the work of one rank */
    TT_BOUND_CORES,         /* the work of all ranks of a host, on its cores */
    TT_BOUND_LINK           /* a link, of `link` */
};

struct tt_prediction {
    double time_ns;
    uint64_t events, messages;
    bool cut;               /* the simulation takes longer than the limit, or more events than
                               allowed */
    bool fetched;           /* with `fetched`, which takes less time */
    enum tt_tune_bound bound;
    enum tt_distance link;
    double busy;            /* utilization of the bottleneck */
};

/* Returns whether ranks of a host share cores (oversubscribed). */
bool tt_predict_oversubscribed(const struct tt_tune_conf *conf);

/* Returns whether calls of that kind can be simulated. */
bool tt_predict_supports(enum tt_coll_kind kind);

/* Configures the network between the layout's ranks, by the described or measured links. */
void tt_predict_net(const struct tt_tune_conf *conf, struct tt_net_conf *net);
/* Number of lanes to a peer that a call's segments use; and the maximum outstanding bytes of each
 * at a distance, if that is a limit; 0: none. */
uint32_t tt_predict_lanes(const struct tt_tune_conf *conf, const struct tt_segments *segments);
uint64_t tt_predict_lane_bytes(const struct tt_tune_conf *conf, const struct tt_net_conf *net,
                               enum tt_distance d);
/* Costs of messages and bytes within a host, oversubscribed or not: in slots, or by single
 * copies. */
struct tt_predict_near {
    bool tries;             /* the engine tries single copies as well as slots */
    struct tt_des_way slots, fetched;
    struct tt_tune_bytes work, came;    /* work: for data in a rank's own cache, or for all data;
                                           came: for data that other ranks have just written. 0: no
                                           difference */
};
void tt_predict_near(const struct tt_tune_conf *conf, const struct tt_coll *coll,
                     struct tt_predict_near *out);
/* Combines two predictions: the lesser time, and the events of both. */
void tt_predict_sooner(struct tt_prediction *slots, const struct tt_prediction *fetched);

/* Simulates at most events_max events (0: no limit), or until time_max_ns (0: no limit). Errors as
 * tt_des_run (TIMEOUT: the simulated ranks are stuck, which only the log's debug lines report);
 * *out on OK only. */
tutti_status tt_predict(const struct tt_tune_conf *conf, const struct tt_coll *coll,
                        const struct tt_algo *algo, const struct tt_segments *segments,
                        uint64_t events_max, double time_max_ns, struct tt_prediction *out);

#endif
