#include "tune/predict.h"

#include <stdlib.h>

#include "base/log.h"

/* rate of paths whose only cost is the work of the ranks at their ends */
#define INSTANT_BYTES_PER_S 1e14
#define BUSY 0.75                /* utilization above which a resource counts as the bottleneck */

bool tt_predict_supports(enum tt_coll_kind kind)
{
    switch (kind) {
    case TT_SEND:
    case TT_RECV:
    case TT_BARRIER:
        return false;
    case TT_ALLGATHERV:
    case TT_ALLTOALLV:
    case TT_GATHERV:
    case TT_SCATTERV:
    case TT_REDUCE_SCATTERV:
        return false;
    default:
        return true;
    }
}

bool tt_predict_oversubscribed(const struct tt_tune_conf *conf)
{
    return conf->costs.cores && conf->costs.cores < tt_layout_widest(conf->layout);
}

/* Links as described, otherwise as measured. Within a host copies are work of the ranks; only a
 * described link limits them in addition. */
static void make_net(const struct tt_tune_conf *conf, struct tt_net_conf *net)
{
    const struct tt_tune_costs *c = &conf->costs;

    *net = (struct tt_net_conf){ .layout = conf->layout };
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        const bool near = d <= TT_NEAR_HOST;
        const struct tt_topo_link *stated = conf->links ? &conf->links[d] : NULL;

        net->link[d].latency_ns = near ? c->near_latency_ns : c->far_latency_ns;
        if (near)
            net->link[d].bytes_per_s = INSTANT_BYTES_PER_S;
        else if (d == TT_NEAR_RACK)
            net->link[d].bytes_per_s =
                c->far_byte_ns > 0 ? 1e9 / c->far_byte_ns : INSTANT_BYTES_PER_S;
        if (!stated)
            continue;
        if (stated->latency_ns)
            net->link[d].latency_ns = (double)stated->latency_ns;
        if (stated->bytes_per_s > 0)
            net->link[d].bytes_per_s = stated->bytes_per_s;
    }
}

uint32_t tt_predict_lanes(const struct tt_tune_conf *conf, const struct tt_segments *segments)
{
    return segments->lanes ? segments->lanes : conf->lanes;
}

/* A lane is limited if its maximum outstanding bytes do not cover the round trip at the rate of a
 * rail, or of a sending rank. */
uint64_t tt_predict_lane_bytes(const struct tt_tune_conf *conf, const struct tt_net_conf *net,
                               enum tt_distance d)
{
    const double own =
        conf->costs.far.send_byte_ns > 0 ? 1e9 / conf->costs.far.send_byte_ns : INSTANT_BYTES_PER_S;
    const double rail = net->link[TT_NEAR_RACK].bytes_per_s;
    const double round_trip_ns =
        2 * (net->link[d].latency_ns + conf->costs.far.send_ns + conf->costs.far.receive_ns);
    const double covers = 1e-9 * round_trip_ns * (rail < own ? rail : own);

    return conf->lane_bytes && d >= TT_NEAR_RACK && (double)conf->lane_bytes[d] < covers
               ? conf->lane_bytes[d]
               : 0;
}

/* Hosts of the largest group of a level; all hosts if there is no memory for the counts. */
static uint32_t most_hosts(const struct tt_layout *l, enum tt_distance level)
{
    uint32_t *hosts = calloc(tt_layout_groups(l, level), sizeof *hosts), most = 1;

    if (!hosts)
        return l->nhosts;
    for (uint32_t h = 0; h < l->nhosts; h++) {
        const uint32_t n = ++hosts[tt_layout_group(l, tt_layout_rank(l, h, 0), level)];

        most = n > most ? n : most;
    }
    free(hosts);
    return most;
}

/* An over-subscribed layer is one uplink for each group below it, with the rate that the largest
 * group needs. */
static void make_uplinks(const struct tt_tune_conf *conf, struct tt_net_conf *net)
{
    const struct tt_layout *l = conf->layout;

    for (int d = TT_NEAR_ZONE; conf->links && d < TT_DISTANCES; d++) {
        const double over = conf->links[d].oversubscription;

        if (over > 1)
            net->uplink_bytes_per_s[d] = net->link[TT_NEAR_RACK].bytes_per_s * (double)l->nrails *
                                         (double)most_hosts(l, (enum tt_distance)(d - 1)) / over;
    }
}

void tt_predict_net(const struct tt_tune_conf *conf, struct tt_net_conf *net)
{
    make_net(conf, net);
    make_uplinks(conf, net);
}

/* Finds the resource that was busy most of the time. */
static void find_bottleneck(const struct tt_des_result *r, struct tt_prediction *out)
{
    const double own = r->work_ns / r->time_ns;

    out->bound = TT_BOUND_LATENCY;
    out->busy = 0;
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++)
        if (r->busiest[d] > BUSY && r->busiest[d] > out->busy) {
            out->bound = TT_BOUND_LINK;
            out->link = (enum tt_distance)d;
            out->busy = r->busiest[d];
        }
    if (r->cores_busy > BUSY && r->cores_busy > out->busy) {
        out->bound = TT_BOUND_CORES;
        out->busy = r->cores_busy;
    }
    if (own > BUSY && own > out->busy) {
        out->bound = TT_BOUND_RANK;
        out->busy = own;
    }
}

/* One simulation; messages within a host cost `way`. */
static tutti_status simulate_call(const struct tt_tune_conf *conf, const struct tt_coll *coll,
                                  const struct tt_algo *algo, const struct tt_segments *segments,
                                  const struct tt_predict_near *near, const struct tt_des_way *way,
                                  uint64_t events_max, double time_max_ns,
                                  struct tt_prediction *out)
{
    const struct tt_tune_costs *costs = &conf->costs;
    struct tt_coll first = *coll;
    struct tt_net_conf net;
    struct tt_des_conf des = {
        .algo = algo,
        .coll = &first,
        .net = &net,
        .segment_bytes = segments->segment_bytes,
        .eager_bytes = conf->limits.eager_bytes,
        .streams = segments->streams,
        .depth = segments->depth,
        .way = costs->far,
        .near = way,
        .reduce_byte_ns = near->work.reduce_byte_ns,
        .copy_byte_ns = near->work.copy_byte_ns,
        .came_reduce_byte_ns = near->came.reduce_byte_ns,
        .came_copy_byte_ns = near->came.copy_byte_ns,
        .plan_ns = costs->plan_ns,
        .step_ns = costs->step_ns,
        .cores = costs->cores,
        .wake_ns = costs->wake_ns,
        .idle_ns = costs->idle_ns,
        .events_max = events_max,
        .time_max_ns = time_max_ns,
    };
    struct tt_des_result r;
    tutti_status st;
    char why[256];

    first.rank = 0;
    tt_predict_net(conf, &net);
    des.lanes = tt_predict_lanes(conf, segments);
    for (int d = TT_NEAR_RACK; d < TT_DISTANCES; d++)
        des.lane_bytes[d] = tt_predict_lane_bytes(conf, &net, (enum tt_distance)d);
    st = tt_des_run(&des, &r, why, sizeof why);
    if (st == TUTTI_ERR_TIMEOUT)
        tt_log(TT_LOG_DEBUG, "%s cannot be simulated: %s", algo->name, why);
    if (st)
        return st;
    *out = (struct tt_prediction){
        .time_ns = r.time_ns, .events = r.events, .messages = r.messages, .cut = r.cut
    };
    if (r.time_ns > 0)
        find_bottleneck(&r, out);
    return TUTTI_OK;
}

/* Returns whether messages may be long enough for the engine to try single copies: none is longer
 * than the data of all ranks. */
static bool tries_fetching(const struct tt_tune_conf *conf, const struct tt_coll *coll)
{
    const uint64_t bytes = conf->costs.fetched.single_bytes;

    return bytes && !(coll->quantized && tt_coll_reduces(coll->kind)) &&
           tt_layout_widest(conf->layout) > 1 && coll->bytes * coll->nranks >= bytes;
}

static bool is_rooted(enum tt_coll_kind kind)
{
    return kind == TT_BROADCAST || kind == TT_REDUCE || kind == TT_GATHER || kind == TT_SCATTER;
}

void tt_predict_near(const struct tt_tune_conf *conf, const struct tt_coll *coll,
                     struct tt_predict_near *out)
{
    const struct tt_tune_costs *costs = &conf->costs;
    const bool crowded = tt_predict_oversubscribed(conf);
    const bool apart = !crowded && costs->apart.copy_byte_ns > 0 && costs->near.mapped;

    *out = (struct tt_predict_near){
        .tries = !crowded && tries_fetching(conf, coll),
        .slots = costs->near,
        .fetched = costs->fetched,
        .work = { costs->near.send_byte_ns, costs->copy_byte_ns, costs->reduce_byte_ns },
    };
    if (!crowded)
        out->slots.single_bytes = 0;
    if (apart) {
        out->work = costs->own;
        out->came = costs->apart;
        out->slots.send_byte_ns = out->fetched.send_byte_ns = costs->apart.send_byte_ns;
    }
    if (!is_rooted(coll->kind))
        out->fetched.shared_bytes = 0;  /* both ends have data to fetch */
    out->fetched.mapped &= !tt_coll_reduces(coll->kind);    /* data to be reduced is fetched to
                                                               slots of the receiver */
}

void tt_predict_sooner(struct tt_prediction *slots, const struct tt_prediction *fetched)
{
    const uint64_t events = slots->events + fetched->events;

    if (!fetched->cut && (slots->cut || fetched->time_ns < slots->time_ns)) {
        *slots = *fetched;
        slots->fetched = true;
    }
    slots->events = events;
}

tutti_status tt_predict(const struct tt_tune_conf *conf, const struct tt_coll *coll,
                        const struct tt_algo *algo, const struct tt_segments *segments,
                        uint64_t events_max, double time_max_ns, struct tt_prediction *out)
{
    struct tt_prediction first, second;
    struct tt_predict_near near;
    double limit_ns;
    tutti_status st;

    tt_predict_near(conf, coll, &near);
    st = simulate_call(conf, coll, algo, segments, &near, &near.slots, events_max, time_max_ns,
                       &first);
    if (st)
        return st;
    *out = first;
    if (!near.tries || (events_max && first.events >= events_max))
        return TUTTI_OK;
    limit_ns = first.cut ? time_max_ns : first.time_ns;
    st = simulate_call(conf, coll, algo, segments, &near, &near.fetched,
                       events_max ? events_max - first.events : 0, limit_ns, &second);
    if (st)
        return st;
    tt_predict_sooner(out, &second);
    return TUTTI_OK;
}
