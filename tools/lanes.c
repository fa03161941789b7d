/* tutti lanes: simulates the effect of limits on outstanding segments per lane on throughput and on
 * switch queues. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "sim/lanes.h"
#include "tools/tool.h"
#include "tutti/tutti.h"
#include "wire/lane_limits.h"
#include "wire/verbs/verbs_frame.h"

#define LIST_MAX 32

struct options {
    struct tt_lanes_case base;
    uint32_t outstanding[LIST_MAX], noutstanding;
    double slow[LIST_MAX];
    uint32_t nslow;
    enum tt_distance distance; /* use its limits; SELF: not given */
    bool bound;                /* --lanes, --segment, --window or --outstanding was given */
    bool described, json;
};

/* Reads a comma-separated list of numbers. Returns its length. */
static uint32_t list_of(struct argp_state *state, const char *option, char *arg, double min,
                        double max, double *out)
{
    uint32_t n = 0;
    char *rest;

    for (char *word = strtok_r(arg, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (n == LIST_MAX)
            argp_error(state, "%s: too many numbers (the maximum is %d)", option, LIST_MAX);
        out[n++] = option_real(state, option, word, min, max);
    }
    if (n == 0)
        argp_error(state, "%s: must be a list of numbers separated by commas", option);
    return n;
}

/* Uses the limits of the verbs transport, one of which is the limit on outstanding segments. */
static void take_limits(struct options *o)
{
    struct tt_lanes_case *c = &o->base;
    struct tt_topo_link links[TT_DISTANCES] = { 0 };

    links[TT_NEAR_RACK].bytes_per_s = c->nic_bytes_per_s;
    links[o->distance].latency_ns = c->latency_ns;
    links[TT_NEAR_RACK].latency_ns = c->latency_ns;
    c->limits = tt_lane_limits_queues(&tt_lane_limits_default, o->distance,
                                      tt_dqplb_lane_count(o->distance), TT_VERBS_WINDOW,
                                      o->described ? links : NULL, 1);
    o->outstanding[0] = c->limits.outstanding;
    o->noutstanding = 1;
}

static void check_options(void *options, struct argp_state *state)
{
    struct options *o = options;
    struct tt_lanes_case *c = &o->base;

    if (o->described && o->distance == TT_NEAR_SELF)
        argp_error(state, "missing option: --described needs --distance");
    if (o->distance != TT_NEAR_SELF && o->bound)
        argp_error(state, "conflicting options: --distance excludes --lanes, --segment, --window "
                          "and --outstanding");
    if (o->distance != TT_NEAR_SELF)
        take_limits(o);
    if (c->limits.window & (c->limits.window - 1))
        argp_error(state, "--window %u: must be a power of two", c->limits.window);
    if (c->slow_ways > c->ways)
        argp_error(state, "--slow-paths %u exceeds --paths %u", c->slow_ways, c->ways);
    if (c->way_bytes_per_s == 0)
        c->way_bytes_per_s = c->nic_bytes_per_s * c->senders / c->ways;
}

static void take_lanes(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->base.limits.lanes = (uint32_t)option_number(state, "--lanes", arg, 1, TT_DQPLB_LANES_MAX);
    o->bound = true;
}

static void take_outstanding(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;
    double numbers[LIST_MAX];

    o->noutstanding = list_of(state, "--outstanding", arg, 1, TT_DQPLB_WINDOW_MAX, numbers);
    o->bound = true;
    for (uint32_t i = 0; i < o->noutstanding; i++)
        o->outstanding[i] = (uint32_t)numbers[i];
}

static void take_window(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->base.limits.window = (uint32_t)option_number(state, "--window", arg, 1, TT_DQPLB_WINDOW_MAX);
    o->bound = true;
}

static void take_segment(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->base.limits.segment_bytes = option_size(state, "--segment", arg);
    o->bound = true;
}

static void take_distance(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    if (!tt_distance_parse(arg, &o->distance) || o->distance == TT_NEAR_SELF)
        argp_error(
            state,
            "--distance %s: unknown distance (use socket, host, rack, zone, building, fabric or "
            "wan)",
            arg);
}

static void take_slow(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->nslow = list_of(state, "--slow", arg, 0.001, 1, o->slow);
}

static void take_nic(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->base.nic_bytes_per_s = 1e9 * option_real(state, "--nic", arg, 1e-3, 1e4);
}

static void take_path_rate(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->base.way_bytes_per_s = 1e9 * option_real(state, "--path-rate", arg, 1e-3, 1e6);
}

static void take_latency(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->base.latency_ns = (uint64_t)(1e3 * option_real(state, "--latency", arg, 0, 1e6));
}

static const struct option_row option_rows[] = {
    { "lanes", 'l', "N", 0, OPTION_CALL(take_lanes), "lanes per connection, 1 to 16 (default 16)" },
    { "outstanding", 'm', "LIST", 0, OPTION_CALL(take_outstanding),
      "limits on outstanding segments per lane; each of them is simulated (default 1,2,4,8,16)" },
    { "window", 'w', "N", 0, OPTION_CALL(take_window),
      "maximum number of segments in flight on all lanes together, a power of two up to 4096 "
      "(default: 8 * --lanes * --outstanding, rounded up to a power of two)" },
    { "segment", 's', "SIZE", 0, OPTION_CALL(take_segment),
      "segment size in bytes, with an optional K, M, G or T (default 128K)" },
    { "distance", 'D', "LEVEL", 0, OPTION_CALL(take_distance),
      "use the lane count, the segment size and the limit on outstanding segments of the verbs "
      "transport for a peer at this distance: socket, host, rack, zone, building, fabric or wan" },
    { "described", 'T', NULL, 0, OPTION_FLAG(struct options, described),
      "with --distance: compute these values from --nic and --latency, as from the rate and "
      "latency in a topology description (TUTTI_TOPO)" },
    { "told", 0, NULL, 0, { 0 }, NULL },
    { "senders", 'n', "N", 0, OPTION_INTEGER(struct options, base.senders, 1, TT_LANES_SENDERS_MAX),
      "senders, each connected to its own receiver (default 1)" },
    { "paths", 'p', "N", 0, OPTION_INTEGER(struct options, base.ways, 1, TT_LANES_WAYS_MAX),
      "paths through the network, assigned to lanes round-robin (default 16)" },
    { "ways", 0, NULL, 0, { 0 }, NULL },
    { "slow-paths", 'k', "N", 0,
      OPTION_INTEGER(struct options, base.slow_ways, 0, TT_LANES_WAYS_MAX),
      "number of slow paths (default 1)" },
    { "slow-ways", 0, NULL, 0, { 0 }, NULL },
    { "slow", 'r', "LIST", 0, OPTION_CALL(take_slow),
      "rates of a slow path relative to the others; each of them is simulated (default "
      "1,0.5,0.25)" },
    { "nic", 'g', "GBYTES/S", 0, OPTION_CALL(take_nic),
      "rate of a sender's NIC, GB/s (default 50)" },
    { "path-rate", 'y', "GBYTES/S", 0, OPTION_CALL(take_path_rate),
      "rate of a path, GB/s (default: rate of all NICs / number of paths)" },
    { "way", 0, NULL, 0, { 0 }, NULL },
    { "latency", 'd', "US", 0, OPTION_CALL(take_latency), "one-way latency, us (default 5)" },
    { "bytes", 'b', "SIZE", 0, OPTION_SIZE(struct options, base.message_bytes, 1),
      "bytes per message, with an optional K, M, G or T (default 16M)" },
    { "messages", 'c', "N", 0, OPTION_INTEGER(struct options, base.messages, 1, 1000000),
      "messages per sender (default 100)" },
    { "depth", 'q', "N", 0, OPTION_INTEGER(struct options, base.depth, 1, 1000000),
      "messages that a sender keeps posted (default 4)" },
    { "emptiest", 'e', NULL, 0, OPTION_VALUE(struct options, base.choice, TT_DQPLB_EMPTIEST),
      "send each segment on the lane with the fewest outstanding bytes, instead of round-robin" },
    { "json", 'j', NULL, 0, OPTION_FLAG(struct options, json), "print one JSON document" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .check = check_options,
    .doc = "Simulates connections with several lanes through a network with several paths.\v"
           "Three methods distribute the segments over lanes: dynamic load balancing (DQPLB, as "
           "in NCCLX) with each limit of --outstanding, the same without a limit, and one fixed "
           "stripe per lane. The tool prints the achieved share of the capacity of NICs and "
           "paths, and the queue lengths of the paths (docs/lanes.md).\n\n"
           "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
           "Examples:\n"
           "  tutti lanes --distance zone --slow 0.5\n"
           "  tutti lanes --outstanding 1,4 --paths 8 --json\n",
};

static const char *const how_names[] = {
    [TT_LANES_DQPLB] = "dqplb", [TT_LANES_UNLIMITED] = "unlimited", [TT_LANES_STATIC] = "static"
};

static void print_result(const struct options *o, const struct tt_lanes_case *c,
                         const struct tt_lanes_result *r, json_object *rows)
{
    const struct tt_dqplb_limits *l = &c->limits;
    const uint32_t outstanding =
        l->lane_bytes ? (uint32_t)(l->lane_bytes / l->segment_bytes) : l->outstanding;
    json_object *row;
    char bound[16] = "-";

    if (!o->json) {
        if (c->how == TT_LANES_DQPLB)
            snprintf(bound, sizeof bound, "%u", outstanding);
        printf("%8.3f  %-10s %11s  %10.2f  %7.3f  %14.3f  %14.3f\n", c->slow_share,
               how_names[c->how], bound, r->bytes_per_s / 1e9, r->share, r->queue_mean / 1e6,
               r->queue_most / 1e6);
        return;
    }
    row = json_object_new_object();
    json_object_object_add(row, "slow", json_object_new_double(c->slow_share));
    json_object_object_add(row, "how", json_object_new_string(how_names[c->how]));
    if (c->how == TT_LANES_DQPLB)
        json_object_object_add(row, "outstanding", json_object_new_int64(outstanding));
    json_object_object_add(row, "lanes", json_object_new_int64(l->lanes));
    json_object_object_add(row, "segment_bytes", json_object_new_int64((int64_t)l->segment_bytes));
    json_object_object_add(row, "bytes_per_s", json_object_new_double(r->bytes_per_s));
    json_object_object_add(row, "share", json_object_new_double(r->share));
    json_object_object_add(row, "queue_mean_bytes", json_object_new_double(r->queue_mean));
    json_object_object_add(row, "queue_most_bytes", json_object_new_double(r->queue_most));
    json_object_array_add(rows, row);
}

static bool run_one(const struct options *o, struct tt_lanes_case *c, json_object *rows)
{
    struct tt_lanes_result r;

    if (!tt_lanes_run(c, &r)) {
        fprintf(stderr, "tutti lanes: %s\n", tutti_last_error());
        return false;
    }
    print_result(o, c, &r, rows);
    return true;
}

static bool run_all(const struct options *o, json_object *rows)
{
    bool ok = true;

    for (uint32_t i = 0; i < o->nslow && ok; i++) {
        struct tt_lanes_case c = o->base;

        c.slow_share = o->slow[i];
        for (uint32_t k = 0; k < o->noutstanding && ok; k++) {
            c.limits.outstanding = o->outstanding[k];
            c.limits.window = o->base.limits.window
                                  ? o->base.limits.window
                                  : tt_dqplb_window_of(c.limits.lanes, c.limits.outstanding);
            ok = run_one(o, &c, rows);
        }
        for (c.how = TT_LANES_UNLIMITED; c.how <= TT_LANES_STATIC && ok; c.how++)
            ok = run_one(o, &c, rows);
    }
    return ok;
}

int tool_lanes_main(int argc, char **argv)
{
    struct options o = {
        .base = {
            .limits = { .lanes = 16, .segment_bytes = 128 << 10 },
            .senders = 1, .ways = 16, .slow_ways = 1, .nic_bytes_per_s = 50e9,
            .latency_ns = 5000, .message_bytes = 16 << 20, .messages = 100, .depth = 4,
        },
        .outstanding = { 1, 2, 4, 8, 16 }, .noutstanding = 5,
        .slow = { 1, 0.5, 0.25 }, .nslow = 3,
    };
    json_object *rows;
    bool ok;

    command_line_read(&command, &o, argc, argv);
    rows = json_object_new_array();
    if (!o.json)
        printf("%8s  %-10s %11s  %10s  %7s  %14s  %14s\n", "slow", "how", "outstanding", "GB/s",
               "share", "queue mean MB", "queue max. MB");
    ok = run_all(&o, rows);
    if (ok && o.json)
        puts(json_object_to_json_string_ext(rows, JSON_C_TO_STRING_PRETTY));
    json_object_put(rows);
    return ok ? 0 : 1;
}
