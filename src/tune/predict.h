/* What a call would take with one algorithm, as the simulator sees it. Pure. */
#ifndef TT_TUNE_PREDICT_H
#define TT_TUNE_PREDICT_H

#include "algo/algos.h"
#include "algo/segments.h"
#include "sim/des.h"
#include "topo/topo.h"

/* What the work of a rank costs, measured once and agreed by all ranks, nanoseconds. */
struct tt_tune_costs {
    struct tt_des_way far, near;        /* messages between hosts, and within one: its single copies only where ranks outnumber cores */
    struct tt_des_way fetched;          /* within one in single copies, where each rank has a core: used where that takes less than near without
                                           them, as the engine tries both; single_bytes 0: it does not */
    double far_latency_ns, near_latency_ns;     /* from when a message is sent until it can be seen, where no link tells */
    double far_byte_ns;                 /* of a rail, where no link tells */
    double reduce_byte_ns, copy_byte_ns;
    struct tt_tune_bytes {
        double send_byte_ns, copy_byte_ns, reduce_byte_ns;
    } apart, own;                       /* within a host where each rank has a core, in place of those of near and above: through slots; and of what is in the
                                           rank's own caches, as after a single copy. All 0: these hold there, too */
    double plan_ns, step_ns;            /* software of calls that are no straight programs: once, and for each step */
    double wake_ns, idle_ns;            /* a core turns from one rank to another: in any case, and for each that waits */
    uint32_t cores;                     /* of each host */
};

/* All that a prediction depends on beside the call: identical on all ranks. */
struct tt_tune_conf {
    const struct tt_layout *layout;
    const struct tt_topo_link *links;   /* [TT_DISTANCES] as described or measured; NULL: nothing is known */
    uint32_t lanes;                     /* to a peer of another host; 0 and 1: there is no choice */
    const uint64_t *lane_bytes;         /* [TT_DISTANCES] that each may have under way; NULL: any number */
    struct tt_tune_costs costs;
    struct tt_cost_model model;         /* of the closed forms */
    struct tt_segment_limits limits;
};

/* What bounds a predicted time. */
enum tt_tune_bound {
    TT_BOUND_LATENCY,       /* messages that wait for one another */
    TT_BOUND_RANK,          /* the work of one rank */
    TT_BOUND_CORES,         /* the work of all ranks of a host, on its cores */
    TT_BOUND_LINK           /* a link, of `link` */
};

struct tt_prediction {
    double time_ns;
    uint64_t events, messages;
    bool cut;               /* it takes longer than that, or more events than were allowed */
    bool fetched;           /* by the ways `fetched`: that takes less */
    enum tt_tune_bound bound;
    enum tt_distance link;
    double busy;            /* share of the time that what bounds it was busy */
};

/* Whether ranks of a host share its cores. */
bool tt_predict_crowded(const struct tt_tune_conf *conf);

/* Whether calls of that kind can be simulated at all. */
bool tt_predict_knows(enum tt_coll_kind kind);

/* The network between the layout's ranks, by what is told or measured of its links. */
void tt_predict_net(const struct tt_tune_conf *conf, struct tt_net_conf *net);
/* The lanes to a peer that a call's segments go over, and what each may have under way at a distance, where that bounds it; 0: it does not. */
uint32_t tt_predict_lanes(const struct tt_tune_conf *conf, const struct tt_segments *segments);
uint64_t tt_predict_lane_bytes(const struct tt_tune_conf *conf, const struct tt_net_conf *net, enum tt_distance d);
/* What messages within a host cost where each rank has its core, or not, and what bytes do: in slots, or in single copies. */
struct tt_predict_near {
    bool tries;             /* the engine tries single copies as well as slots */
    struct tt_des_way slots, fetched;
    struct tt_tune_bytes work, came;    /* of what is in a rank's own cache, or anywhere; and of what others have just written. 0: no other */
};
void tt_predict_near(const struct tt_tune_conf *conf, const struct tt_coll *coll, struct tt_predict_near *out);
/* Both were tried: what takes less counts, and the events of both. */
void tt_predict_sooner(struct tt_prediction *slots, const struct tt_prediction *fetched);

/* Simulates at most events_max events (0: any number), or until time_max_ns (0: any time). Errors as tt_des_run (TIMEOUT: the simulated
 * ranks are stuck, which is told in the log's debug lines only); *out on OK only. */
tutti_status tt_predict(const struct tt_tune_conf *conf, const struct tt_coll *coll, const struct tt_algo *algo,
                        const struct tt_segments *segments, uint64_t events_max, double time_max_ns,
                        struct tt_prediction *out);

#endif
