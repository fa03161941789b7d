/* tutti sim: simulates a collective on a machine given by a description. */
#include "tools/tool.h"

#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "algo/segments.h"
#include "base/clock.h"
#include "base/param.h"
#include "base/status.h"
#include "comm/chunks.h"
#include "comm/measure.h"
#include "comm/plugin.h"
#include "comm/plugins.h"
#include "tools/option_values.h"
#include "sim/net_topo.h"
#include "tools/sim/sim_options.h"
#include "tools/sim/sim_plot.h"
#include "tools/sim/sim_putsignal.h"
#include "tools/sim/sim_start.h"

#define ELEM_BYTES 4u
#define SIZES_MAX 64    /* of a sweep from 1 byte in steps of factor 2 */
#define NAME_BYTES 128

/* State shared by all cases of a run. */
struct sim_run {
    struct sim_options o;
    struct tt_topo topo;
    struct tt_layout layout;
    struct tt_chunks chunks;
    struct tt_net_conf net;
    struct sim_point *points;
    uint32_t npoints;
    uint64_t memory_bytes;      /* memory of this machine */
    bool shown;                 /* the progress bar is visible */
    bool headed;                /* the table's head was printed */
    uint64_t began_ns, printed_ns;
    const char *algo_name;
};

/* One algorithm at one size. */
struct sim_case {
    struct tt_coll coll;
    const struct tt_algo *algo;
    struct tt_segments segments;
    uint64_t bytes;             /* of the larger buffer */
    struct tt_des_result r;
    double wall_s;
};

/* ---- progress ---- */

static void clear_bar(struct sim_run *run)
{
    if (run->shown)
        fputs("\r\033[K", stderr);
    run->shown = false;
}

#define MANY_RANKS 16384        /* progress is shown at once, because the start takes seconds */

static void print_progress(struct sim_run *run, double share)
{
    static const char full[] = "##############################";
    const double s = (double)(tt_now_ns() - run->began_ns) / 1e9;
    const bool terminal = isatty(STDERR_FILENO);
    const uint32_t n = run->layout.nranks;

    if (terminal)
        fprintf(stderr, "\r\033[K%s on %u rank%s [%-30.*s] %3.0f %%  %.0f s", run->algo_name, n,
                TT_PLURAL(n), (int)(share * 30), full, share * 100, s);
    else
        fprintf(stderr, "%s on %u rank%s: %.0f %% after %.0f s\n", run->algo_name, n, TT_PLURAL(n),
                share * 100, s);
    run->shown = terminal;
}

/* Shows a bar on a terminal, and a line every ten seconds elsewhere. */
static void show_progress(void *arg, double share)
{
    struct sim_run *run = arg;
    const uint64_t now = tt_now_ns();

    if (now - run->printed_ns < (isatty(STDERR_FILENO) ? 200 * TT_MS : 10000 * TT_MS))
        return;
    run->printed_ns = now;
    print_progress(run, share);
}

/* ---- results ---- */

static double peak_rss_bytes(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss * 1024;
}

static double algbw_gbs(const struct sim_case *c)
{
    return c->r.time_ns > 0 ? (double)c->bytes / c->r.time_ns : 0;
}

static double events_per_s(const struct sim_case *c)
{
    return c->wall_s > 0 ? (double)c->r.events / c->wall_s : 0;
}

static void add(struct json_object *o, const char *key, double value)
{
    json_object_object_add(o, key,
                           value == floor(value) && fabs(value) < 9e15
                               ? json_object_new_int64((int64_t)value)
                               : json_object_new_double(value));
}

static struct json_object *json_links(const struct tt_des_result *r)
{
    struct json_object *links = json_object_new_object();

    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        struct json_object *o;

        if (!r->puts[d] && r->busiest[d] <= 0)
            continue;
        o = json_object_new_object();
        add(o, "bytes", (double)r->bytes[d]);
        add(o, "puts", (double)r->puts[d]);
        if (r->queues[d]) {
            add(o, "peak_queue_bytes", (double)r->peak_queue_bytes[d]);
            add(o, "busiest", r->busiest[d]);
        }
        json_object_object_add(links, tt_distance_name((enum tt_distance)d), o);
    }
    return links;
}

static void print_json(const struct sim_run *run, const struct sim_case *c)
{
    struct json_object *o = json_object_new_object();

    json_object_object_add(o, "coll", json_object_new_string(tt_coll_name(c->coll.kind)));
    json_object_object_add(o, "algo", json_object_new_string(c->algo->name));
    json_object_object_add(o, "topo", json_object_new_string(run->topo.name));
    add(o, "ranks", c->coll.nranks);
    add(o, "bytes", (double)c->bytes);
    add(o, "time_us", c->r.time_ns / 1e3);
    add(o, "first_us", c->r.first_ns / 1e3);
    add(o, "algbw_gbs", algbw_gbs(c));
    add(o, "busbw_gbs", algbw_gbs(c) * perf_bus_factor(run->o.coll, c->coll.nranks));
    add(o, "segment_bytes", (double)c->segments.segment_bytes);
    add(o, "messages", (double)c->r.messages);
    add(o, "segments", (double)c->r.segments);
    json_object_object_add(o, "links", json_links(&c->r));
    add(o, "events", (double)c->r.events);
    add(o, "events_waiting", (double)c->r.queue_most);
    add(o, "wall_s", c->wall_s);
    add(o, "events_per_s", floor(events_per_s(c)));
    add(o, "memory_bytes", peak_rss_bytes());
    printf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
    fflush(stdout);
    json_object_put(o);
}

/* Prints the head of the table, once. */
static void print_head(struct sim_run *run)
{
    const struct sim_options *o = &run->o;

    if (run->headed)
        return;
    run->headed = true;
    printf("# tutti sim: %s, %u rank%s of %s; software %g + %g ns per message, reduces at %g GB/s, "
           "copies at %g GB/s\n",
           o->coll->name, run->layout.nranks, TT_PLURAL(run->layout.nranks), run->topo.name,
           o->send_ns, o->receive_ns, o->reduce_gbs, o->copy_gbs);
    printf("#%13s %-32s %14s %9s %9s %9s %11s %11s %8s\n", "bytes", "algorithm", "time us", "algbw",
           "busbw", "segment", "messages", "events", "M ev/s");
}

/* Layers without over-subscription have no links in the model, so "-" replaces their load. */
static void print_links(const struct tt_des_result *r)
{
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        if (!r->puts[d] && r->busiest[d] <= 0)
            continue;
        printf("#   %-9s %15llu bytes in %11llu messages; links: ",
               tt_distance_name((enum tt_distance)d), (unsigned long long)r->bytes[d],
               (unsigned long long)r->puts[d]);
        if (r->queues[d])
            printf("busiest %5.1f %%, at most %llu bytes queued\n", 100 * r->busiest[d],
                   (unsigned long long)r->peak_queue_bytes[d]);
        else
            printf("-\n");
    }
}

static void print_text(struct sim_run *run, const struct sim_case *c)
{
    print_head(run);
    printf("%14llu %-32s %14.3f %9.3f %9.3f %9llu %11llu %11llu %8.2f\n",
           (unsigned long long)c->bytes, c->algo->name, c->r.time_ns / 1e3, algbw_gbs(c),
           algbw_gbs(c) * perf_bus_factor(run->o.coll, c->coll.nranks),
           (unsigned long long)c->segments.segment_bytes, (unsigned long long)c->r.messages,
           (unsigned long long)c->r.events, events_per_s(c) / 1e6);
    if (!run->o.sweeps)
        print_links(&c->r);
    fflush(stdout);
}

/* ---- cases ---- */

static void set_segments(const struct sim_run *run, struct sim_case *c)
{
    const struct sim_options *o = &run->o;
    const double rail_bytes_per_s = run->net.link[TT_NEAR_RACK].bytes_per_s;
    const struct tt_segment_limits limits = {
        .segment_bytes = (uint64_t)tt_params[TT_PARAM_TCP_SEGMENT_BYTES].value_default,
        .eager_bytes = o->eager_bytes,
        .far_message_ns = o->send_ns + o->receive_ns,
        .near_message_ns = o->send_ns + o->receive_ns,
        .far_latency_ns = run->net.link[tt_layout_farthest(&run->layout)].latency_ns,
        .rail_byte_ns = rail_bytes_per_s > 0 ? 1e9 / rail_bytes_per_s : 0,
    };

    c->segments = tt_segments_choose(c->algo, &c->coll, &limits);
    if (o->segment_bytes)
        c->segments.segment_bytes = o->segment_bytes;
    if (o->streams)
        c->segments.streams = (uint8_t)o->streams;
    if (o->depth)
        c->segments.depth = (uint8_t)o->depth;
}

static tutti_status check_memory(const struct sim_run *run, const struct sim_case *c)
{
    const uint64_t needs = tt_des_memory(c->algo, &c->coll, &run->net);

    if (needs <= run->memory_bytes)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_NOMEM,
                   "out of memory: the simulation of %s on %u ranks needs %.1f GiB (this machine "
                   "has %.1f GiB)",
                   c->algo->name, c->coll.nranks, (double)needs / (1 << 30),
                   (double)run->memory_bytes / (1 << 30));
}

static tutti_status simulate(struct sim_run *run, struct sim_case *c)
{
    const struct sim_options *o = &run->o;
    struct tt_des_conf conf = {
        .algo = c->algo,
        .coll = &c->coll,
        .net = &run->net,
        .faults = o->faults,
        .nfaults = o->nfaults,
        .segment_bytes = c->segments.segment_bytes,
        .eager_bytes = o->eager_bytes,
        .streams = c->segments.streams,
        .depth = c->segments.depth,
        .way = { .send_ns = o->send_ns, .receive_ns = o->receive_ns, .direct = !o->slots },
        .lanes = o->lanes,
        .reduce_byte_ns = 1 / o->reduce_gbs,
        .copy_byte_ns = 1 / o->copy_gbs,
        .jitter_ns = o->jitter_ns,
        .skew_ns = o->skew_ns,
        .seed = o->seed,
        .whole = o->whole,
        .progress = o->quiet ? NULL : show_progress,
        .arg = run,
    };
    char why[512] = "";
    tutti_status st = check_memory(run, c);

    if (st)
        return st;
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++)
        conf.lane_bytes[d] = o->lane_bytes;
    run->began_ns = run->printed_ns = tt_now_ns();
    run->algo_name = c->algo->name;
    if (!o->quiet && run->layout.nranks >= MANY_RANKS)
        print_progress(run, 0);
    st = tt_des_run(&conf, &c->r, why, sizeof why);
    c->wall_s = (double)(tt_now_ns() - run->began_ns) / 1e9;
    clear_bar(run);
    if (st == TUTTI_ERR_TIMEOUT)
        return tt_fail(st, "%s: %s", c->algo->name, why);
    return st;
}

static tutti_status run_case(struct sim_run *run, const struct tt_algo *algo,
                             const struct tt_coll *coll, uint64_t bytes)
{
    struct sim_case c = { .coll = *coll, .algo = algo, .bytes = bytes };
    struct sim_point *grown;
    tutti_status st;

    set_segments(run, &c);
    st = simulate(run, &c);
    if (st)
        return st;
    if (run->o.json)
        print_json(run, &c);
    else
        print_text(run, &c);
    grown = realloc(run->points, (run->npoints + 1) * sizeof *grown);
    tt_assert(grown);
    run->points = grown;
    run->points[run->npoints++] = (struct sim_point){ algo->name, bytes, c.r.time_ns / 1e3 };
    return TUTTI_OK;
}

/* The call of rank 0 at a size. *bytes: size of the larger buffer, which is rounded down to whole
 * elements and equal blocks. */
static struct tt_coll coll_of(const struct sim_run *run, uint64_t *bytes, uint64_t block)
{
    const struct sim_options *o = &run->o;
    const uint32_t n = run->layout.nranks;
    struct tt_coll c = { .kind = (enum tt_coll_kind)o->coll->kind,
                         .nranks = n,
                         .root = o->root,
                         .elem_bytes = ELEM_BYTES,
                         .layout = &run->layout };

    tt_chunks_apply(&run->chunks, &c);
    if (c.kind == TT_BARRIER) {
        *bytes = 0;
        return c;
    }
    if (!block)
        block = o->coll->cut ? *bytes / n : *bytes;
    block = block < ELEM_BYTES ? ELEM_BYTES : block / ELEM_BYTES * ELEM_BYTES;
    c.bytes = block;
    *bytes = o->coll->cut ? block * n : block;
    return c;
}

/* Finds the highest latency, and the longest time of a byte, of the links from `nearest` to
 * `farthest`. */
static void slowest_link(const struct sim_run *run, enum tt_distance nearest,
                         enum tt_distance farthest, double *latency_ns, double *byte_ns)
{
    *latency_ns = *byte_ns = 0;
    for (int d = (int)nearest; d <= (int)farthest; d++) {
        *latency_ns = fmax(*latency_ns, run->net.link[d].latency_ns);
        if (run->net.link[d].bytes_per_s > 0)
            *byte_ns = fmax(*byte_ns, 1e9 / run->net.link[d].bytes_per_s);
    }
}

/* Returns the cheapest algorithm by cost formulas. For messages within hosts, they use the links
 * within hosts. */
static const struct tt_algo *cheapest(const struct sim_run *run, const struct tt_coll *c)
{
    const double software_ns = run->o.send_ns + run->o.receive_ns;
    const enum tt_distance farthest = tt_layout_farthest(&run->layout);
    const enum tt_distance inside =
        tt_layout_distance(&run->layout, 0, tt_layout_host_ranks(&run->layout, 0) - 1);
    struct tt_cost_model m = { .reduce_byte_ns = 1 / run->o.reduce_gbs,
                               .copy_byte_ns = 1 / run->o.copy_gbs };

    slowest_link(run, TT_NEAR_SOCKET, inside, &m.near_message_ns, &m.near_byte_ns);
    slowest_link(run, farthest > inside ? TT_NEAR_RACK : TT_NEAR_SOCKET, farthest, &m.message_ns,
                 &m.byte_ns);
    m.near_message_ns += software_ns;
    m.message_ns += software_ns;
    return tt_algo_choose(c, &m);
}

/* Reports an algorithm of "all" that does not support the call. */
static void report_unsupported(struct sim_run *run, const struct tt_coll *c, uint64_t bytes,
                               const char *name)
{
    const struct tt_algo *algo = tt_algo_named(c->kind, name);

    if (run->o.json)
        return;
    print_head(run);
    printf("# %llu bytes: %s is omitted (it needs %s%s)\n", (unsigned long long)bytes, name,
           algo && algo->needs ? algo->needs : "a different call",
           algo ? tt_algo_if_named(algo) : "");
}

/* Lists the calls of the run, one per size, at most SIZES_MAX; bytes[]: sizes of their larger
 * buffers. Sizes of a sweep that are rounded to the same call are listed once. Returns their
 * number. */
static uint32_t calls_of(const struct sim_run *run, struct tt_coll calls[SIZES_MAX],
                         uint64_t bytes[SIZES_MAX])
{
    const struct sim_options *o = &run->o;
    uint64_t size = o->sweeps ? o->min : o->bytes;
    uint32_t n = 0;

    for (bool more = true; more; size *= o->factor) {
        bytes[n] = size;
        calls[n] = coll_of(run, &bytes[n], o->sweeps ? 0 : o->block);
        if (n == 0 || bytes[n] != bytes[n - 1])
            n++;
        more = o->sweeps && size <= o->max / o->factor;
    }
    return n;
}

/* Returns the algorithm of that name, or the cheapest one if `name` is NULL. Returns NULL if it
 * does not support the call; with "all", also if it is only used by name. */
static const struct tt_algo *algo_of(const struct sim_run *run, const struct tt_coll *c,
                                     const char *name)
{
    const struct tt_algo *algo = name ? tt_algo_find(c, name) : cheapest(run, c);

    return algo && run->o.algos && strcmp(run->o.algos, "all") == 0 && !tt_algo_fits(algo, c)
               ? NULL
               : algo;
}

/* Runs all sizes of one algorithm, or of the cheapest one of each size if `name` is NULL. Omits
 * calls that are not supported. */
static tutti_status run_sizes(struct sim_run *run, const char *name)
{
    struct tt_coll calls[SIZES_MAX];
    uint64_t bytes[SIZES_MAX];
    const uint32_t n = calls_of(run, calls, bytes);
    tutti_status st = TUTTI_OK;

    for (uint32_t i = 0; i < n && !st; i++) {
        const struct tt_algo *algo = algo_of(run, &calls[i], name);

        if (!algo) {
            report_unsupported(run, &calls[i], bytes[i], name);
            continue;
        }
        st = tt_plugin_check(algo, &calls[i]);
        if (!st)
            st = run_case(run, algo, &calls[i], bytes[i]);
    }
    return st;
}

/* Checks that a named algorithm supports all sizes. */
static tutti_status check_named(struct sim_run *run, const char *name)
{
    struct tt_coll calls[SIZES_MAX];
    uint64_t bytes[SIZES_MAX];
    const uint32_t n = calls_of(run, calls, bytes);

    for (uint32_t i = 0; i < n; i++) {
        if (!tt_algo_find(&calls[i], name))
            return tt_algo_refuse(&calls[i], name);
    }
    return TUTTI_OK;
}

/* Calls `what` for each name of the list. */
static tutti_status each_named(struct sim_run *run,
                               tutti_status (*what)(struct sim_run *, const char *))
{
    tutti_status st = TUTTI_OK;
    char name[NAME_BYTES];

    for (const char *at = run->o.algos; !st; at++) {
        const size_t n = strcspn(at, ",");

        snprintf(name, sizeof name, "%.*s", (int)n, at);
        st = what(run, name);
        at += n;
        if (!*at)
            break;
    }
    return st;
}

/* Checks all names before the first simulation. */
static tutti_status run_named(struct sim_run *run)
{
    const tutti_status st = each_named(run, check_named);

    return st ? st : each_named(run, run_sizes);
}

static tutti_status run_all(struct sim_run *run)
{
    tutti_status st = TUTTI_OK;

    for (size_t i = 0; i < tt_nalgos && !st; i++)
        if (tt_algos[i]->kind == (enum tt_coll_kind)run->o.coll->kind)
            st = run_sizes(run, tt_algos[i]->name);
    return st;
}

static tutti_status draw(const struct sim_run *run)
{
    char title[160], subtitle[200];

    snprintf(title, sizeof title, "%s on %u rank%s of %s, simulated", run->o.coll->name,
             run->layout.nranks, TT_PLURAL(run->layout.nranks), run->topo.name);
    snprintf(subtitle, sizeof subtitle,
             "time by size of the larger buffer; software %g + %g ns per message", run->o.send_ns,
             run->o.receive_ns);
    return sim_plot(run->o.plot, title, subtitle, run->points, run->npoints);
}

static tutti_status prepare(struct sim_run *run)
{
    const uint32_t most = tt_topo_nranks(&run->topo);
    const uint32_t n = run->o.nranks ? run->o.nranks : most;
    tutti_status st = tt_chunks_get(&run->chunks);

    if (!st)
        st = tt_topo_layout(&run->topo, n, &run->layout);
    if (!st)
        st = tt_net_of_topo(&run->net, &run->topo, &run->layout);
    if (!st && run->o.block > OPTION_SIZE_MAX / n)
        st = tt_fail(TUTTI_ERR_INVALID,
                     "--block %llu on %u ranks: the larger buffer would exceed %llu bytes",
                     (unsigned long long)run->o.block, n, OPTION_SIZE_MAX);
    if (!st && run->o.root >= n)
        st = tt_fail(TUTTI_ERR_INVALID, "--root %u: must be a rank from 0 to %u", run->o.root,
                     n - 1);
    run->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return st;
}

int tool_sim_main(int argc, char **argv)
{
    static char putsignal_name[] = "tutti sim putsignal", start_name[] = "tutti sim start";
    struct sim_run run = { .npoints = 0 };
    tutti_status st;

    if (argc > 1 && strcmp(argv[1], "putsignal") == 0) {
        argv[1] = putsignal_name;
        return sim_putsignal_main(argc - 1, argv + 1);
    }
    if (argc > 1 && strcmp(argv[1], "start") == 0) {
        argv[1] = start_name;
        return sim_start_main(argc - 1, argv + 1);
    }
    sim_options_parse(&run.o, argc, argv);
    if (tt_plugins_load())
        return 2;
    if (tt_topo_load(&run.topo, run.o.topo))
        return 2;
    st = prepare(&run);
    if (!st && !run.o.algos)
        st = run_sizes(&run, NULL);
    else if (!st)
        st = strcmp(run.o.algos, "all") == 0 ? run_all(&run) : run_named(&run);
    if (!st && run.o.sweeps && run.npoints)
        st = draw(&run);
    free(run.points);
    tt_topo_fini(&run.topo);
    return st ? 1 : 0;
}
