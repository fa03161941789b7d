/* tutti plan why: the algorithm that the library selects for a call, and the reasons. */
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "tools/plan/plan.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "base/status.h"
#include "comm/chunks.h"
#include "comm/cores.h"
#include "comm/tuner.h"
#include "tools/perf/perf_launch.h"
#include "topo/machine.h"
#include "topo/topo.h"
#include "tune/memory.h"

#define RANKS_MAX 131072u
#define REASON_BYTES 4352u      /* includes a path */

struct why_options {
    struct plan_options plan;
    const char *wire;
    bool json;
    bool simulates;             /* also simulate walked candidates */
    uint32_t cores;             /* 0: not given */
};

/* The call, and the inputs of the selection. */
struct why {
    struct tt_tune_conf conf;
    struct tt_coll coll;
    bool simulates;
    struct tt_tune_report report;
    struct tt_tune_choice choice;
    bool also_simulated;                        /* walked candidates were also simulated */
    double simulated_ns[TT_TUNE_CANDIDATES];    /* 0: not simulated */
    const struct tt_tunefile *tune;     /* the tune file for these ranks; NULL: there is no such
                                           file */
    struct tt_tuned tuned;              /* the tune file's entry for the call; row NULL: no entry */
    const char *unused;             /* why no given tune file matches these ranks; NULL: one
                                       matches, or none is given */
};

static const struct option_row option_rows[] = {
    { "wire", 0, "shm|tcp", 3, OPTION_TEXT(struct why_options, wire),
      "transport between ranks of one host (default shm; in a job: the allowed transports)" },
    { "cores", 0, "N", 3, OPTION_INTEGER(struct why_options, cores, 1, 1 << 20),
      "cores per host (default: those of this host; with --topo: one per rank)" },
    { "simulate", 0, NULL, 3, OPTION_FLAG(struct why_options, simulates),
      "simulate the candidates even if the library would not, because of the number of ranks; can "
      "take minutes" },
    { "json", 0, NULL, 3, OPTION_FLAG(struct why_options, json), "print one JSON document" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .args_doc = "COLL SIZE",
    .common = &plan_command_line,
    .common_at = offsetof(struct why_options, plan),
    .doc =
        "Shows which algorithm the library selects for a call of SIZE bytes, and why.\vAll "
        "candidates are listed with their predicted times and their bottlenecks. In a job, without "
        "--ranks, --hosts or --topo, the selection is that of the job's communicator. Otherwise "
        "the tool measures the cost parameters on this host, or takes those of the machine that "
        "--topo describes. docs/tuning.md explains the output.\n\n"
        "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti plan why allreduce 1M -n 4\n"
        "  tutti run -n 4 -- tutti plan why allreduce 64K\n",
};

/* ---- inputs of the selection ---- */

#define COMPLAIN(...) (fprintf(stderr, "tutti plan why: " __VA_ARGS__), fputc('\n', stderr), false)

static bool get_sizes(struct tt_segment_limits *limits, bool all_local)
{
    int64_t segment = 0, eager = 0;
    struct tt_cache cache;
    cpu_set_t own;

    if (tt_param_get(all_local ? TT_PARAM_SEGMENT_BYTES : TT_PARAM_TCP_SEGMENT_BYTES, &segment) ||
        tt_param_get(all_local ? TT_PARAM_EAGER_BYTES : TT_PARAM_TCP_EAGER_BYTES, &eager))
        return false;
    tt_cores_own(&own);
    cache = tt_last_cache_of(&own, NULL);
    *limits = (struct tt_segment_limits){ .segment_bytes = (uint64_t)segment,
                                          .eager_bytes = (uint64_t)eager,
                                          .all_local = all_local,
                                          .cache_bytes = cache.bytes,
                                          .cache_cpus = cache.cpus };
    return true;
}

static bool get_lanes(struct tt_lane_facts *out)
{
    int64_t lanes = 0;

    return !tt_param_get(TT_PARAM_LANES, &lanes) &&
           !tt_lane_facts_get(out, (uint32_t)lanes, getenv("TUTTI_WIRES"));
}

static bool make_coll(struct why *w, const struct plan_options *o, const struct tt_layout *layout)
{
    const uint64_t bytes = o->bytes ? o->bytes : 1024;
    struct tt_chunks chunks;
    enum tt_coll_kind kind;

    if (tt_chunks_get(&chunks))
        return false;       /* the library has logged the error */
    if (!tt_coll_parse(o->coll, &kind))
        return COMPLAIN("unknown collective \"%s\" (`tutti perf --help` lists them)", o->coll);
    if (!tt_predict_supports(kind) && kind != TT_BARRIER)
        return COMPLAIN(
            "%s is not supported: its algorithm is selected for each call by cost formulas",
            o->coll);
    if (o->root >= layout->nranks)
        return COMPLAIN("invalid root: %u (must be a rank from 0 to %u)", o->root,
                        layout->nranks - 1);
    w->coll = (struct tt_coll){
        .kind = kind,
        .nranks = layout->nranks,
        .root = o->root,
        .layout = layout,
        .in_place = o->in_place,
        .elem_bytes = o->elem_bytes ? o->elem_bytes
                      : bytes % 4   ? 1
                                    : 4,
        .bytes = kind == TT_BARRIER ? 0 : bytes,
    };
    tt_chunks_apply(&chunks, &w->coll);
    if (w->coll.bytes % w->coll.elem_bytes)
        return COMPLAIN("invalid size: %" PRIu64
                        " B (must be a multiple of the element size, %u B)",
                        bytes, w->coll.elem_bytes);
    return true;
}

static void choose(struct why *w)
{
    static struct tt_tune_memory memory;

    w->choice = tt_tune_choose(&w->conf, &w->coll, NULL, w->simulates, &w->report);
    if (!w->choice.algo->fits(&w->coll)) {
        w->choice = tt_tune_recall(&memory, &w->conf, &w->coll, NULL, w->simulates);
        w->report.why_model = "the best algorithm of its class does not support this call";
        for (uint32_t i = 0; i < w->report.ncandidates; i++)
            if (w->report.candidate[i].algo == w->choice.algo)
                w->report.chosen = i;
    }
    if (tt_tunefile_find(w->tune, &w->coll, &w->conf.limits, &w->tuned))
        w->choice = (struct tt_tune_choice){ .algo = w->tuned.algo, .segments = w->tuned.segments };
}

/* Simulates the walked candidates. */
static void simulate_walked(struct why *w)
{
    struct tt_coll of_class = w->coll;

    w->also_simulated = true;
    of_class.bytes = w->report.class_bytes;
    for (uint32_t i = 0; i < w->report.ncandidates; i++) {
        const struct tt_candidate *c = &w->report.candidate[i];
        struct tt_prediction p;

        if (c->state == TT_WALKED &&
            !tt_predict(&w->conf, &of_class, c->algo, &c->segments, 0, 0, &p))
            w->simulated_ns[i] = p.time_ns;
    }
}

/* Whether a candidate is the selected one. With a tune file, only the algorithm is compared,
 * because the file contains the segments. */
static bool is_chosen(const struct why *w, uint32_t i)
{
    return w->tuned.row ? w->report.candidate[i].algo == w->choice.algo : i == w->report.chosen;
}

static int print_reasons(const struct why *w, const struct why_options *o);

/* Finds the first file of TUTTI_TUNE_FILE that matches these ranks. The caller calls
 * tt_tunes_fini in any case. False: a file is invalid. */
static bool find_tune(struct why *w, struct tt_tunes *t, bool shm)
{
    static char why[160];
    const struct tt_layout *l = w->conf.layout;
    const char *wires = !shm                     ? "tcp"
                        : l->nhosts == 1         ? "shm"
                        : l->nhosts == l->nranks ? "tcp"
                                                 : "shm+tcp";
    char ignored[160];

    if (tt_tunes_load(t, getenv("TUTTI_TUNE_FILE")))
        return false;
    for (uint32_t i = 0; i < t->n && !w->tune; i++)
        if (tt_tunefile_is_for(t->file[i], l, wires, i == 0 ? why : ignored, sizeof why))
            w->tune = t->file[i];
    w->unused = t->n > 0 && !w->tune ? why : NULL;
    return true;
}

/* Outside a job: uses the measured constants of this machine. */
static int why_planned(const struct why_options *o)
{
    static struct tt_constants constants;
    static struct tt_tunes tunes;
    static struct tt_lane_facts lanes;
    static struct why w;
    struct tt_ends ends;
    struct plan p = { .algo = NULL };
    struct tt_topo topo = { .nrules = 0 };
    const bool shm = !o->wire || strcmp(o->wire, "shm") == 0,
               fine = shm || strcmp(o->wire, "tcp") == 0;
    bool all_local;
    int status = 1;

    if (!fine) {
        fprintf(stderr, "tutti plan why: --wire %s: must be shm or tcp outside a job\n", o->wire);
        return 2;
    }
    if (!plan_place(&p, &o->plan, RANKS_MAX))
        return 1;
    if (!make_coll(&w, &o->plan, &p.layout) || tt_tune_mode(&w.simulates))
        goto end;
    all_local = shm && p.layout.nhosts == 1;
    if (o->plan.topo && tt_topo_load(&topo, o->plan.topo))
        goto end;
    if (!get_lanes(&lanes))
        goto end;
    tt_constants_measure(&constants);
    w.conf = (struct tt_tune_conf){ .layout = &p.layout,
                                    .links = o->plan.topo ? topo.link : NULL,
                                    .lanes = all_local ? 1 : tt_lane_facts_count(&lanes, &p.layout),
                                    .lane_bytes = lanes.bytes };
    tt_constants_model(&constants, all_local, tt_layout_farthest(&p.layout), &w.conf.model);
    tt_constants_ends(&constants, shm, &ends);
    if (w.conf.links)
        tt_links_model(w.conf.links, tt_layout_farthest(&p.layout), &ends, &w.conf.model);
    tt_constants_costs(&constants, shm,
                       o->cores       ? o->cores
                       : o->plan.topo ? 0
                                      : tt_engine_cores(),
                       &w.conf.costs);
    if (get_sizes(&w.conf.limits, all_local) && find_tune(&w, &tunes, shm)) {
        tt_tune_set_limits(&w.conf);
        choose(&w);
        if (o->simulates && w.report.walked)
            simulate_walked(&w);
        status = print_reasons(&w, o);
    }
    tt_tunes_fini(&tunes);
    tt_topo_fini(&topo);
end:
    tt_layout_fini(&p.layout);
    return status;
}

/* In a job: all ranks create the communicator, rank 0 prints. */
static int why_in_job(const struct why_options *o)
{
    const tutti_conf conf = { .size = sizeof conf, .wires = o->wire };
    static struct why w;
    tutti_comm *comm;
    int status = 1;

    if (tutti_comm_create(&comm, &conf))
        return 1;           /* the library has logged the error */
    w.simulates = comm->world->simulates;
    w.tune = comm->tune;
    tt_comm_tune_conf(comm, &w.conf);
    if (make_coll(&w, &o->plan, &comm->layout)) {
        choose(&w);
        if (o->simulates && w.report.walked && comm->rank == 0)
            simulate_walked(&w);
        status = comm->rank == 0 ? print_reasons(&w, o) : 0;
    }
    if (tutti_barrier(comm, NULL))
        status = 1;
    tutti_comm_destroy(comm);
    return status;
}

/* ---- words ---- */

static const char *bound_text(const struct tt_prediction *p, char *text, size_t bytes)
{
    switch (p->bound) {
    case TT_BOUND_RANK:
        snprintf(text, bytes, "the work of one rank, %.0f %% of the time", 100 * p->busy);
        break;
    case TT_BOUND_CORES:
        snprintf(text, bytes, "the cores of a host, %.0f %% of the time", 100 * p->busy);
        break;
    case TT_BOUND_LINK:
        snprintf(text, bytes, "links %s, %.0f %% of the time", plan_link_name(p->link),
                 100 * p->busy);
        break;
    default:
        snprintf(text, bytes, "dependencies between messages");
    }
    return text;
}

/* How the candidate was evaluated, or why not. */
static const char *state_text(const struct why *w, enum tt_candidate_state state, char *text,
                              size_t bytes)
{
    static const char *const texts[] = {
        [TT_SAME] = ": its program equals that of another candidate",
        [TT_TOO_FAR] = ": its cost formula gives a much longer time",
        [TT_TOO_LONG] = ": this would take too long",
        [TT_NOT_WALKED] = ": it depends on ranks that are not walked",
        [TT_DOES_NOT_FIT] = ": it does not support the shorter call that is simulated",
        [TT_NO_SIMULATION] = "",
    };
    const char *how = w->report.walked ? "walked" : "simulated";

    if (state == TT_SIMULATED || state == TT_WALKED)
        snprintf(text, bytes, "%s", how);
    else
        snprintf(text, bytes, "not %s%s", how, texts[state]);
    return text;
}

static const char *name_of(const struct tt_candidate *c)
{
    return c->algo->name + strlen(tt_coll_name(c->algo->kind)) + 1;
}

/* Whether it was simulated or walked. */
static bool has_time(const struct tt_candidate *c)
{
    return c->state == TT_SIMULATED || c->state == TT_WALKED;
}

static int by_time(const void *a, const void *b)
{
    const struct tt_candidate *x = *(const struct tt_candidate *const *)a,
                              *y = *(const struct tt_candidate *const *)b;
    const bool xs = has_time(x), ys = has_time(y);
    const double xt = xs ? x->prediction.time_ns : x->model_ns,
                 yt = ys ? y->prediction.time_ns : y->model_ns;

    if (xs != ys)
        return xs ? -1 : 1;
    return xt < yt ? -1 : xt > yt ? 1 : x < y ? -1 : x > y;
}

static void reason_text(const struct why *w, char *text, size_t bytes)
{
    const struct tt_tune_report *r = &w->report;
    const struct tt_candidate *c = &r->candidate[r->chosen];
    const char *how = r->walked ? "walked" : "simulated";
    double next = 0;

    if (w->tuned.row) {
        snprintf(text, bytes,
                 "selected by row %u of the tune file %s: %.2f us at %" PRIu64
                 " B, the median of %u round%s%s",
                 w->tuned.row->index + 1, w->tune->path, w->tuned.row->median_us,
                 w->tuned.row->bytes, w->tuned.row->rounds, TT_PLURAL(w->tuned.row->rounds),
                 w->tune->complete ? "" : " (it is incomplete)");
        return;
    }
    if (r->why_model) {
        snprintf(text, bytes, "selected by cost formulas: %s", r->why_model);
        return;
    }
    if (c->state == TT_NOT_WALKED || (r->walked && c->state == TT_TOO_LONG)) {
        snprintf(text, bytes,
                 "its time by cost formula is below that of the algorithm with the shortest walked "
                 "time, and it %s",
                 c->state == TT_NOT_WALKED ? "cannot be walked" : "would take too long to walk");
        return;
    }
    for (uint32_t i = 0; i < r->ncandidates; i++) {
        const struct tt_candidate *other = &r->candidate[i];

        if (other->algo != c->algo && has_time(other) &&
            (next == 0 || other->prediction.time_ns < next))
            next = other->prediction.time_ns;
    }
    if (next > c->prediction.time_ns)
        snprintf(text, bytes, "the shortest %s time; the next algorithm takes %.0f %% longer", how,
                 100 * (next / c->prediction.time_ns - 1));
    else if (next > 0)
        snprintf(text, bytes,
                 "the shortest %s time, shared with other algorithms; the first of them in `tutti "
                 "info --algos`",
                 how);
    else
        snprintf(text, bytes, "no other algorithm was %s", how);
}

/* The number of lanes to a peer that segments use. */
static uint32_t lanes_of(const struct why *w, const struct tt_segments *s)
{
    return s->lanes ? s->lanes : w->conf.lanes ? w->conf.lanes : 1;
}

/* Why these segments, streams and lanes were selected. */
static void segments_text(const struct why *w, char *text, size_t bytes)
{
    const struct tt_tune_report *r = &w->report;
    const struct tt_candidate *c = &r->candidate[r->chosen], *ruled = c, *other = NULL;

    for (uint32_t i = 0; i < r->ncandidates; i++) {
        const struct tt_candidate *same = &r->candidate[i];

        if (same->algo == c->algo && !same->variant)
            ruled = same;
        else if (same->algo == c->algo && has_time(same) &&
                 (!other || same->prediction.time_ns < other->prediction.time_ns))
            other = same;
    }
    if (w->tuned.row)
        snprintf(text, bytes, "as measured");
    else if (c->variant)
        snprintf(text, bytes,
                 "%.0f %% less time than with the defaults (%" PRIu64 " B, %u stream%s, lanes: %u)",
                 100 * (1 - c->prediction.time_ns / ruled->prediction.time_ns),
                 ruled->segments.segment_bytes, ruled->segments.streams,
                 TT_PLURAL(ruled->segments.streams), lanes_of(w, &ruled->segments));
    else if (!other)
        snprintf(text, bytes, "the defaults; no alternatives were tried");
    else if (other->prediction.time_ns < c->prediction.time_ns)
        snprintf(
            text, bytes,
            "the defaults; the best alternative takes %.1f %% less time (must be at least %.0f %%)",
            100 * (1 - other->prediction.time_ns / c->prediction.time_ns), 100 * TT_TUNE_WORTH);
    else
        snprintf(text, bytes, "the defaults; no alternative that was tried is faster");
}

/* Prints the latency and rate between hosts, as described or measured. */
static void print_far(const struct why *w)
{
    const struct tt_segment_limits *l = &w->conf.limits;

    if (w->conf.layout->nhosts == 1)
        return;
    printf("network between hosts: latency %.2f us", l->far_latency_ns / 1000);
    if (l->rail_byte_ns > 0)
        printf(", rate of a rail %.4g Gbit/s\n", 8 / l->rail_byte_ns);
    else
        printf("; the rate of a rail is not a limit\n");
}

/* Prints the walked or simulated time, and both if the candidate was also simulated. */
static void print_times(const struct why *w, const struct tt_candidate *c)
{
    const double simulated_ns = w->simulated_ns[c - w->report.candidate];

    if (has_time(c))
        printf(" %12.2f", c->prediction.time_ns / 1000);
    else
        printf(" %12s", "-");
    if (w->also_simulated && simulated_ns > 0)
        printf(" %12.2f", simulated_ns / 1000);
    else if (w->also_simulated)
        printf(" %12s", "-");
}

static void print_candidate(const struct why *w, const struct tt_candidate *c, bool chosen)
{
    char bound[96];

    printf("%c %-24s %7" PRIu64 " %7u %5u %12.2f", chosen ? '*' : ' ', name_of(c),
           c->segments.segment_bytes, c->segments.streams, lanes_of(w, &c->segments),
           c->model_ns / 1000);
    print_times(w, c);
    if (has_time(c))
        printf("  %s%s\n", bound_text(&c->prediction, bound, sizeof bound),
               c->prediction.fetched ? "; with single copies" : "");
    else
        printf("  %s\n", state_text(w, c->state, bound, sizeof bound));
}

static void print_costs(const struct tt_tune_costs *c)
{
    printf("costs in ns:\n"
           "  message within a host: send %.0f + %.3f per byte, receive %.0f + %.3f per byte\n"
           "  message between hosts: send %.0f + %.3f per byte, receive %.0f + %.3f per byte\n"
           "  per byte: copy %.3f, reduce %.3f\n"
           "  executor (calls without a straight-line program): %.0f per call, %.0f per step\n",
           c->near.send_ns, c->near.send_byte_ns, c->near.receive_ns, c->near.receive_byte_ns,
           c->far.send_ns, c->far.send_byte_ns, c->far.receive_ns, c->far.receive_byte_ns,
           c->copy_byte_ns, c->reduce_byte_ns, c->plan_ns, c->step_ns);
    if (c->apart.copy_byte_ns > 0)
        printf(
            "  slots, if each rank has a core, per byte: fill %.3f, copy out %.3f, reduce %.3f\n",
            c->apart.send_byte_ns, c->apart.copy_byte_ns, c->apart.reduce_byte_ns);
    if (c->cores && c->near.single_bytes)
        printf("  single copies from %" PRIu64
               " KiB, if ranks outnumber cores: %.0f + %.3f per byte\n",
               c->near.single_bytes >> 10, c->near.single_ns, c->near.single_byte_ns);
    if (c->fetched.single_bytes)
        printf("  single copies from %" PRIu64
               " KiB, if each rank has a core and they are faster: %.0f + %.3f per byte\n",
               c->fetched.single_bytes >> 10, c->fetched.single_ns, c->fetched.single_byte_ns);
    if (c->cores)
        printf("  %u core%s per host; a switch to another rank takes %.0f, plus %.0f per waiting "
               "rank\n",
               c->cores, TT_PLURAL(c->cores), c->wake_ns, c->idle_ns);
    else
        printf("  one core per rank\n");
}

static void print_text(const struct why *w)
{
    const struct tt_tune_report *r = &w->report;
    const struct tt_candidate *sorted[TT_TUNE_CANDIDATES];
    char reason[REASON_BYTES], segments[160];

    for (uint32_t i = 0; i < r->ncandidates; i++)
        sorted[i] = &r->candidate[i];
    qsort(sorted, r->ncandidates, sizeof *sorted, by_time);
    reason_text(w, reason, sizeof reason);
    segments_text(w, segments, sizeof segments);
    printf("%s of %" PRIu64 " B by %u rank%s on %u host%s: %s\n", tt_coll_name(w->coll.kind),
           w->coll.bytes, w->coll.nranks, TT_PLURAL(w->coll.nranks), w->conf.layout->nhosts,
           w->conf.layout->nhosts == 1 ? "" : "s", w->choice.algo->name);
    printf("because: %s\n", reason);
    if (w->unused)
        printf("no tune file of TUTTI_TUNE_FILE matches these ranks: %s\n", w->unused);
    printf("segments of %" PRIu64 " B, %u stream%s", w->choice.segments.segment_bytes,
           w->choice.segments.streams, TT_PLURAL(w->choice.segments.streams));
    if (w->conf.lanes > 1)
        printf(", over %u of %u lanes to a peer", lanes_of(w, &w->choice.segments), w->conf.lanes);
    printf(": %s\n", segments);
    if (w->tuned.row)
        printf("without the tune file: %s, ", r->candidate[r->chosen].algo->name);
    printf("selected for the size class up to %" PRIu64 " B", r->class_bytes);
    if (!r->why_model)
        printf("; %s with %" PRIu64 " B", r->walked ? "walked" : "simulated", r->bytes);
    putchar('\n');
    print_costs(&w->conf.costs);
    print_far(w);
    printf("\n  %-24s %7s %7s %5s %12s %12s%s  %s\n", "candidate", "segment", "streams", "lanes",
           "formula us", r->walked ? "walked us" : "simulated us",
           w->also_simulated ? " simulated us" : "", "bound by");
    for (uint32_t i = 0; i < r->ncandidates; i++)
        print_candidate(w, sorted[i], is_chosen(w, (uint32_t)(sorted[i] - r->candidate)));
}

/* ---- JSON ---- */

static void add_number(struct json_object *o, const char *key, double v)
{
    json_object_object_add(o, key, json_object_new_double(v));
}
static void add_count(struct json_object *o, const char *key, uint64_t v)
{
    json_object_object_add(o, key, json_object_new_int64((int64_t)v));
}
static void add_text(struct json_object *o, const char *key, const char *v)
{
    json_object_object_add(o, key, json_object_new_string(v));
}

static struct json_object *candidate_json(const struct why *w, const struct tt_candidate *c,
                                          bool chosen)
{
    struct json_object *o = json_object_new_object();
    char bound[96];

    add_text(o, "algo", c->algo->name);
    json_object_object_add(o, "chosen", json_object_new_boolean(chosen));
    add_count(o, "segment_bytes", c->segments.segment_bytes);
    add_count(o, "streams", c->segments.streams);
    add_count(o, "lanes", lanes_of(w, &c->segments));
    add_number(o, "formula_us", c->model_ns / 1000);
    add_text(o, "state", state_text(w, c->state, bound, sizeof bound));
    if (w->simulated_ns[c - w->report.candidate] > 0)
        add_number(o, "simulated_us", w->simulated_ns[c - w->report.candidate] / 1000);
    if (!has_time(c))
        return o;
    add_number(o, c->state == TT_WALKED ? "walked_us" : "simulated_us",
               c->prediction.time_ns / 1000);
    json_object_object_add(o, "single_copies", json_object_new_boolean(c->prediction.fetched));
    add_count(o, c->state == TT_WALKED ? "steps" : "events", c->prediction.events);
    add_text(o, "bound", bound_text(&c->prediction, bound, sizeof bound));
    add_number(o, "busy", c->prediction.busy);
    return o;
}

static void print_json(const struct why *w)
{
    const struct tt_tune_report *r = &w->report;
    struct json_object *o = json_object_new_object(), *candidates = json_object_new_array();
    char reason[REASON_BYTES], segments[160];

    reason_text(w, reason, sizeof reason);
    segments_text(w, segments, sizeof segments);
    add_text(o, "coll", tt_coll_name(w->coll.kind));
    add_count(o, "bytes", w->coll.bytes);
    add_count(o, "ranks", w->coll.nranks);
    add_count(o, "hosts", w->conf.layout->nhosts);
    add_count(o, "cores", w->conf.costs.cores);
    add_number(o, "far_latency_ns", w->conf.limits.far_latency_ns);
    add_number(o, "rail_byte_ns", w->conf.limits.rail_byte_ns);
    add_text(o, "algo", w->choice.algo->name);
    add_count(o, "segment_bytes", w->choice.segments.segment_bytes);
    add_count(o, "streams", w->choice.segments.streams);
    add_count(o, "lanes", lanes_of(w, &w->choice.segments));
    add_text(o, "by",
             w->tuned.row          ? "measurement"
             : w->report.why_model ? "formula"
             : w->report.walked    ? "walk"
                                   : "simulation");
    add_text(o, "reason", reason);
    add_text(o, "segments_reason", segments);
    if (w->tuned.row) {
        add_text(o, "tune_file", w->tune->path);
        add_count(o, "tune_row", w->tuned.row->index + 1);
    }
    add_count(o, "class_bytes", r->class_bytes);
    add_count(o, "simulated_bytes", r->bytes);
    for (uint32_t i = 0; i < r->ncandidates; i++)
        json_object_array_add(candidates, candidate_json(w, &r->candidate[i], is_chosen(w, i)));
    json_object_object_add(o, "candidates", candidates);
    printf("%s\n",
           json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
    json_object_put(o);
}

static int print_reasons(const struct why *w, const struct why_options *o)
{
    if (o->json)
        print_json(w);
    else
        print_text(w);
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}

int plan_why_main(int argc, char **argv)
{
    struct why_options o = { .plan = { .any_algo = true } };

    command_line_read(&command, &o, argc, argv);
    if (perf_job_ranks() && !o.plan.topo && !o.plan.nranks && !o.plan.hosts)
        return why_in_job(&o);
    return perf_job_speaks() ? why_planned(&o) : 0;     /* the output of all ranks would be the
                                                           same */
}
