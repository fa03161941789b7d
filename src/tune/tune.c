#include "tune/tune.h"

#include "base/status.h"
#include "tune/program_features.h"
#include "tune/critical_path.h"

/* candidates whose closed form is this many times the best are not simulated */
#define FACTOR 8.0
#define SIMULATED_MAX 12u /* maximum number of simulated candidates */
/* maximum segments of the wire in the larger buffer: longer calls behave alike, and take longer to
 * simulate */
#define SEGMENTS_MAX 64u
#define RANK_EVENTS 4u /* setting up a rank takes as long as this number of events */
/* predicted times within this fraction are equal: the first in the registry wins */
#define ALIKE 0.01
/* bytes reduced in the time to unpack, add and pack a block: bench/micro_codec.c sums */
#define QUANTIZED_BLOCK 6500.0
#define WALKS 10u /* the limit for all candidates, in multiples of one candidate's */

void tt_tune_set_limits(struct tt_tune_conf *conf)
{
    const double bytes_per_s = conf->links ? conf->links[TT_NEAR_RACK].bytes_per_s : 0;
    const uint64_t told_ns =
        conf->links ? conf->links[tt_layout_farthest(conf->layout)].latency_ns : 0;
    const struct tt_des_way *far = &conf->costs.far, *near = &conf->costs.near;

    conf->limits.far_message_ns = far->send_ns + far->receive_ns;
    conf->limits.near_message_ns = near->send_ns + near->receive_ns;
    conf->limits.far_latency_ns = told_ns ? (double)told_ns : conf->costs.far_latency_ns;
    conf->limits.rail_byte_ns = bytes_per_s > 0 ? 1e9 / bytes_per_s : conf->costs.far_byte_ns;
}

void tt_tune_quantized(struct tt_tune_conf *conf, uint32_t block_bytes)
{
    const double times = QUANTIZED_BLOCK / block_bytes;

    conf->costs.reduce_byte_ns *= times;
    conf->costs.apart.reduce_byte_ns *= times;
    conf->costs.own.reduce_byte_ns *= times;
    conf->model.reduce_byte_ns *= times;
}

uint64_t tt_tune_class(uint64_t bytes, uint32_t elem_bytes)
{
    uint64_t quarter = 1, top;

    if (bytes <= 64)
        return bytes ? 64 / elem_bytes * elem_bytes : 0;
    while (quarter * 8 < bytes)
        quarter *= 2; /* bytes are in (4, 8] quarters */
    top = (bytes + quarter - 1) / quarter * quarter;
    return top / elem_bytes * elem_bytes;
}

/* ---- candidates ---- */

static void add_candidate(struct tt_tune_report *r, const struct tt_candidate *c)
{
    uint32_t at = r->ncandidates;

    if (at == TT_TUNE_CANDIDATES)
        return;
    for (; at > 0 && r->candidate[at - 1].model_ns > c->model_ns; at--)
        r->candidate[at] = r->candidate[at - 1];
    r->candidate[at] = *c;
    r->ncandidates++;
}

/* Lists all candidates that fit a call of the class and need not be named; or only the forced one.
 * Those that do not fit the simulated call are last. */
static void list_candidates(const struct tt_tune_conf *conf, const struct tt_coll *call,
                            const struct tt_coll *like, const struct tt_algo *forced,
                            struct tt_tune_report *r)
{
    for (size_t i = 0; i < tt_nalgos; i++) {
        const struct tt_algo *algo = tt_algos[i];
        struct tt_candidate c = { .algo = algo, .state = TT_NO_SIMULATION };
        struct tt_cost cost;

        if (algo->kind != call->kind ||
            (forced ? algo != forced : algo->by_name || !tt_algo_fits(algo, call)))
            continue;
        cost = algo->cost(call);
        c.model_ns = tt_cost_ns(&cost, &conf->model);
        c.segments = tt_segments_choose(algo, call, &conf->limits);
        if (!(forced ? tt_algo_fits_named(algo, like) : algo->fits(like)))
            c.state = TT_DOES_NOT_FIT;
        add_candidate(r, &c);
    }
    tt_assert(r->ncandidates);
}

/* ---- simulation ---- */

struct race {
    const struct tt_tune_conf *conf;
    struct tt_coll like;
    struct tt_critical_path *walk;   /* NULL: candidates are simulated */
    uint64_t times_shorter; /* the class's size divided by the simulated size; a walk uses the
                               class's size */
    uint64_t events_left;   /* events (steps, if walked) left for one candidate */
    double limit_ns; /* slower candidates are stopped; 0: no limit */
    struct tt_tune_report *report;
    const struct tt_candidate *best;
};

static bool has_time(const struct tt_candidate *c)
{
    return c->state == TT_SIMULATED || c->state == TT_WALKED;
}

static bool has_finished(const struct tt_candidate *c) { return has_time(c) && !c->prediction.cut; }

/* Walks a candidate, unless earlier candidates have used up the steps. */
static void walk_candidate(struct race *race, struct tt_candidate *c)
{
    struct tt_tune_report *r = race->report;
    tutti_status st;

    if (r->events > WALKS * race->events_left) {
        c->state = TT_TOO_LONG;
        return;
    }
    st = tt_critical_path_run(race->walk, &race->like, c->algo, &c->segments, race->events_left,
                              race->limit_ns, &c->prediction);
    c->state = st ? TT_NOT_WALKED : TT_WALKED;
    r->events += st ? race->events_left : c->prediction.events;
}

/* If segments are longer than the wire's because of very long messages, the shorter simulated call
 * gets the same number of segments. */
static struct tt_segments in_proportion(const struct race *race, const struct tt_algo *algo,
                                        struct tt_segments s)
{
    uint64_t times = race->times_shorter;

    for (; !algo->bounded && times > 1 && s.segment_bytes / 2 >= race->conf->limits.segment_bytes;
         times /= 2)
        s.segment_bytes /= 2;
    return s;
}

static tutti_status predict_candidate(struct race *race, struct tt_candidate *c,
                                      uint64_t events_max, double limit_ns)
{
    const struct tt_segments s = in_proportion(race, c->algo, c->segments);

    return tt_predict(race->conf, &race->like, c->algo, &s, events_max, limit_ns, &c->prediction);
}

static void run_candidate(struct race *race, struct tt_candidate *c)
{
    uint64_t spent;

    if (race->walk) {
        walk_candidate(race, c);
        return;
    }
    if (!race->events_left) {
        c->state = TT_TOO_LONG;
        return;
    }
    if (predict_candidate(race, c, race->events_left, race->limit_ns)) {
        c->state = TT_NO_SIMULATION;
        return;
    }
    c->state =
        c->prediction.cut && c->prediction.events >= race->events_left ? TT_TOO_LONG : TT_SIMULATED;
    race->report->events += c->prediction.events;
    spent = c->prediction.events + RANK_EVENTS * race->like.nranks;
    race->events_left -= spent < race->events_left ? spent : race->events_left;
}

/* Orders the candidates to simulate, the cheapest simulations first: their times limit the later
 * ones, which cannot use up the events before them. Returns their number. */
static uint32_t order_candidates(const struct race *race, uint32_t order[SIMULATED_MAX])
{
    struct tt_tune_report *r = race->report;
    struct tt_program_features seen[SIMULATED_MAX];
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->ncandidates; i++) {
        struct tt_candidate *c = &r->candidate[i];
        struct tt_program_features g;
        uint32_t at;

        if (c->state == TT_DOES_NOT_FIT)
            continue;
        if (c->model_ns > FACTOR * r->candidate[0].model_ns || n == SIMULATED_MAX) {
            c->state = TT_TOO_FAR;
            continue;
        }
        tt_program_features(&g, c->algo, &race->like,
                            in_proportion(race, c->algo, c->segments).segment_bytes);
        for (at = 0; at < n && !tt_program_features_same(&seen[at], &g); at++)
            continue;
        if (at < n) {
            c->state = TT_SAME;
            continue;
        }
        for (at = n++; at > 0 && seen[at - 1].messages > g.messages; at--) {
            seen[at] = seen[at - 1];
            order[at] = order[at - 1];
        }
        seen[at] = g;
        order[at] = i;
    }
    return n;
}

/* Of candidates with equal times, the one with the lower closed form wins. A slightly slower
 * candidate must therefore not be stopped. */
static void run_candidates(struct race *race)
{
    struct tt_tune_report *r = race->report;
    uint32_t order[SIMULATED_MAX];
    const uint32_t n = order_candidates(race, order);
    double least_ns = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct tt_candidate *c = &r->candidate[order[i]];

        run_candidate(race, c);
        if (has_finished(c) && (least_ns <= 0 || c->prediction.time_ns < least_ns)) {
            least_ns = c->prediction.time_ns;
            race->limit_ns = least_ns / (1 - ALIKE);
        }
    }
    for (uint32_t i = 0; i < r->ncandidates; i++) {
        const struct tt_candidate *c = &r->candidate[i];

        if (has_finished(c) &&
            (!race->best || c->prediction.time_ns < race->best->prediction.time_ns * (1 - ALIKE)))
            race->best = c;
    }
}

/* Completes the candidates that were stopped. */
static void run_to_the_end(struct race *race)
{
    struct tt_tune_report *r = race->report;
    const uint64_t events = r->events;

    race->limit_ns = 0;
    for (uint32_t i = 0; i < r->ncandidates; i++) {
        struct tt_candidate *c = &r->candidate[i];

        if (!has_time(c) || !c->prediction.cut)
            continue;
        r->events = 0;
        if (race->walk)
            walk_candidate(race, c);
        else if (predict_candidate(race, c, 0, 0))
            c->state = TT_NO_SIMULATION;
    }
    r->events = events;
}

/* ---- segments and lanes of the winner ---- */

/* Tries only valid segments, which tt_segments_fit does not change. */
static void try_variant(struct race *race, const struct tt_candidate *of, struct tt_segments s)
{
    struct tt_tune_report *r = race->report;
    struct tt_candidate *c;

    if (s.segment_bytes < TT_SEGMENT_MIN || r->ncandidates == TT_TUNE_CANDIDATES ||
        tt_segments_fit(of->algo, &race->like, &race->conf->limits, s).segment_bytes !=
            s.segment_bytes)
        return;
    c = &r->candidate[r->ncandidates++];
    *c = *of;
    c->segments = s;
    c->variant = true;
    run_candidate(race, c);
    if (has_finished(c) &&
        c->prediction.time_ns < race->best->prediction.time_ns * (1 - TT_TUNE_WORTH))
        race->best = c;
}

static void try_length(struct race *race, const struct tt_candidate *of, uint64_t segment_bytes)
{
    struct tt_segments s = of->segments;

    s.segment_bytes = segment_bytes;
    if (in_proportion(race, of->algo, s).segment_bytes !=
        in_proportion(race, of->algo, of->segments).segment_bytes)
        try_variant(race, of, s);       /* otherwise it would be the same simulation */
}

static void try_streams(struct race *race, const struct tt_candidate *of, uint8_t streams)
{
    struct tt_segments s = of->segments;

    s.streams = streams;
    try_variant(race, of, s);
}

/* Tries fewer lanes, down to one; not within a host, where the number of lanes does not matter. */
static void try_lanes(struct race *race, const struct tt_candidate *of)
{
    struct tt_segments s = of->segments;

    for (uint32_t n = race->conf->layout->nhosts > 1 ? race->conf->lanes / 2 : 0; n > 0; n /= 2) {
        s.lanes = (uint8_t)n;
        try_variant(race, of, s);
    }
}

/* Tries variants if messages have several segments. Between hosts, segments longer than the default
 * are not tried: a put of one segment cannot be forwarded before it has arrived completely. The
 * simulation overrates the saved work of cores, since no simulated rank is late, and links may be
 * slower than known. */
static void run_variants(struct race *race)
{
    const struct tt_candidate *winner = race->best;
    const uint64_t segment = winner->segments.segment_bytes;

    if (race->like.bytes <= race->conf->limits.eager_bytes)
        return;
    try_length(race, winner, segment / 2);
    if (race->conf->layout->nhosts == 1)
        try_length(race, winner, segment * 2);
    try_streams(race, winner, winner->segments.streams == 1 ? 2 : 1);
    try_lanes(race, race->best);
}

/* ---- selection ---- */

static uint64_t larger_buffer(const struct tt_coll *c)
{
    switch (c->kind) {
    case TT_ALLREDUCE:
    case TT_REDUCE:
    case TT_BROADCAST:
        return c->bytes;
    default:
        return c->bytes * c->nranks;
    }
}

/* The call that represents the class. On one host the root does not matter. in_place is a property
 * of one rank alone, as only the root of a broadcast has a source. */
static struct tt_coll representative_call(const struct tt_tune_conf *conf,
                                          const struct tt_coll *call)
{
    struct tt_coll like = *call;

    like.bytes = tt_tune_class(call->bytes, call->elem_bytes);
    like.rank = 0;
    like.in_place = false;
    like.layout = conf->layout;
    if (conf->layout->nhosts == 1)
        like.root = 0;
    return like;
}

/* The call that is simulated for the class. */
static struct tt_coll shortened(const struct tt_tune_conf *conf, const struct tt_coll *of_class)
{
    struct tt_coll like = *of_class;

    while (larger_buffer(&like) > SEGMENTS_MAX * conf->limits.segment_bytes &&
           like.bytes / 2 >= like.elem_bytes)
        like.bytes = like.bytes / 2 / like.elem_bytes * like.elem_bytes;
    return like;
}

static const char *why_not_simulated(const struct tt_tune_conf *conf, const struct tt_coll *call,
                                     bool simulate)
{
    if (!simulate)
        return "simulation is turned off";
    if (!tt_predict_supports(call->kind))
        return "calls of this kind are not simulated";
    if (call->nranks < 2 || !call->bytes)
        return "no data is sent";
    if (conf->layout->nranks != call->nranks)
        return "the placement of the ranks is unknown";
    if (call->nranks > TT_TUNE_RANKS_MAX && conf->layout->nhosts == 1 &&
        tt_predict_oversubscribed(conf))
        return "too many ranks on one host with shared cores for a simulation before the call";
    return NULL;
}

/* Events that may be simulated before a call: more for longer calls, and for more messages between
 * ranks. All ranks of a host simulate, which takes longer if they have few cores. */
static uint64_t events_for(const struct tt_tune_conf *conf, const struct tt_coll *like)
{
    const uint64_t n = like->nranks, ranks = tt_layout_widest(conf->layout);
    const uint64_t cores =
        conf->costs.cores && conf->costs.cores < ranks ? conf->costs.cores : ranks;
    const uint64_t times = n * n * cores / (8 * 8 * ranks),
                   times_most = n * n * cores / (12 * 12 * ranks);
    const uint64_t events =
        (TT_TUNE_EVENTS_MIN + larger_buffer(like) / 64) * (times > 1 ? times : 1);
    const uint64_t most = TT_TUNE_EVENTS_MAX * (times_most > 1 ? times_most : 1);

    return events < most ? events : most;
}

/* The shortened call uses single copies if the call itself would. */
static struct tt_tune_conf conf_for(const struct tt_tune_conf *conf, const struct tt_coll *of_class,
                                    const struct tt_coll *like)
{
    struct tt_tune_conf out = *conf;

    for (uint64_t bytes = of_class->bytes; bytes / 2 >= like->bytes; bytes /= 2) {
        out.costs.near.single_bytes /= 2;
        out.costs.fetched.single_bytes /= 2;
        out.costs.fetched.shared_bytes /= 2;
    }
    return out;
}

/* Steps of each candidate that may be walked: all ranks of a host walk, which takes longer if they
 * have few cores. */
static uint64_t steps_for(const struct tt_tune_conf *conf)
{
    const uint64_t ranks = tt_layout_widest(conf->layout);
    const uint64_t cores =
        conf->costs.cores && conf->costs.cores < ranks ? conf->costs.cores : ranks;
    const uint64_t steps = TT_TUNE_STEPS_MAX * cores / ranks;

    return steps > TT_TUNE_STEPS_MIN ? steps : TT_TUNE_STEPS_MIN;
}

/* Candidates that cannot be walked, or without steps left, are compared with the best by closed
 * forms. */
static void compare_unwalked(struct race *race)
{
    struct tt_tune_report *r = race->report;

    for (uint32_t i = 0; i < r->ncandidates; i++) {
        const struct tt_candidate *c = &r->candidate[i];

        if ((c->state == TT_NOT_WALKED || c->state == TT_TOO_LONG) &&
            c->model_ns < race->best->model_ns)
            race->best = c;
    }
}

static void walk_candidates(const struct tt_tune_conf *conf, const struct tt_coll *of_class,
                            bool whole, struct tt_tune_report *r)
{
    struct race race = { .conf = conf,
                         .like = *of_class,
                         .walk = tt_critical_path_open(conf),
                         .events_left = steps_for(conf),
                         .report = r };

    r->walked = true;
    r->events_max = race.events_left;
    if (race.walk)
        run_candidates(&race);
    if (race.best)
        compare_unwalked(&race);
    if (whole && race.walk)
        run_to_the_end(&race);
    tt_critical_path_close(race.walk);
    if (race.best)
        r->chosen = (uint32_t)(race.best - r->candidate);
    else
        r->why_model = "no candidate could be estimated";
}

static void race_all(const struct tt_tune_conf *conf, const struct tt_coll *of_class,
                     const struct tt_coll *like, bool whole, struct tt_tune_report *r)
{
    const struct tt_tune_conf there = conf_for(conf, of_class, like);
    struct race race = {
        .conf = &there, .like = *like, .events_left = events_for(conf, like), .report = r
    };

    race.times_shorter = like->bytes ? of_class->bytes / like->bytes : 1;
    r->events_max = race.events_left;
    run_candidates(&race);
    if (race.best)
        run_variants(&race);
    if (whole)
        run_to_the_end(&race);
    if (race.best)
        r->chosen = (uint32_t)(race.best - r->candidate);
    else
        r->why_model = "no candidate could be simulated in time";
}

struct tt_tune_choice tt_tune_choose(const struct tt_tune_conf *conf, const struct tt_coll *call,
                                     const struct tt_algo *forced, bool simulate,
                                     struct tt_tune_report *report)
{
    const char *why = why_not_simulated(conf, call, simulate);
    const bool walks = !why && call->nranks > TT_TUNE_RANKS_MAX;
    const struct tt_coll of_class = why ? *call : representative_call(conf, call);
    const struct tt_coll like = why || walks ? of_class : shortened(conf, &of_class);
    struct tt_tune_report mine, *r = report ? report : &mine;
    const struct tt_candidate *c;

    r->ncandidates = r->chosen = 0;
    r->events = r->events_max = 0;
    r->class_bytes = of_class.bytes;
    r->bytes = like.bytes;
    r->why_model = why;
    r->walked = false;
    list_candidates(conf, &of_class, &like, forced, r);
    if (walks)
        walk_candidates(conf, &of_class, report != NULL, r);
    else if (!why)
        race_all(conf, &of_class, &like, report != NULL, r);
    c = &r->candidate[r->chosen];
    return (struct tt_tune_choice){
        .algo = c->algo,
        .segments = c->segments,
        .by = forced         ? TT_BY_NAME
              : r->why_model ? TT_BY_MODEL
              : walks        ? TT_BY_WALK
                             : TT_BY_SIMULATION,
    };
}
