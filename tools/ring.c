/* tutti ring order: finds the fastest order of peers in a ring, and the fastest all-reduce shape,
 * from measured links. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "ringorder/ring_file.h"
#include "ringorder/ring_order.h"
#include "ringorder/ring_predict.h"
#include "ringorder/ring_svg.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "tools/tool.h"

#define SLICE_STEPS 20000u
#define HANDSHAKE_ROUND_TRIPS 3u    /* one of TCP, and two of TLS with name and token */
#define GAIN_PERCENT 5u

struct options {
    const char *matrix, *svg;
    struct tt_ring_load load;
    uint64_t steps, seed, expected;
    bool json, quiet;
};

static void check_options(void *options, struct argp_state *state)
{
    struct options *o = options;

    if (!o->matrix)
        argp_error(state, "missing option: --matrix FILE");
}

static const struct option_row option_rows[] = {
    { "matrix", 0, "FILE", 0, OPTION_TEXT(struct options, matrix),
      "latencies and rates between the peers, in JSON (docs/ring-order.md); \"-\": standard "
      "input" },
    { "bytes", 'b', "SIZE", 0, OPTION_SIZE(struct options, load.bytes, 1),
      "bytes of one all-reduce, with an optional K, M, G or T (default 64M)" },
    { "segment", 0, "SIZE", 0, OPTION_SIZE(struct options, load.segment_bytes, 0),
      "segment size within a block; 0: whole blocks (default 1M)" },
    { "steps", 0, "N", 0, OPTION_INTEGER(struct options, steps, 1, 1ull << 40),
      "steps of the search (default: depends on the number of peers)" },
    { "seed", 0, "N", 0, OPTION_INTEGER(struct options, seed, 0, UINT64_MAX >> 1),
      "seed of the search (default 1); the same seed finds the same order" },
    { "expected", 0, "N", 0, OPTION_INTEGER(struct options, expected, 0, 1ull << 40),
      "expected number of all-reduces in the new order, to decide whether the change pays off "
      "(default 1000)" },
    { "json", 0, NULL, 0, OPTION_FLAG(struct options, json), "print one JSON document" },
    { "svg", 0, "FILE", 0, OPTION_TEXT(struct options, svg),
      "write an SVG picture of the matrix with the ring" },
    { "quiet", 'q', NULL, 0, OPTION_FLAG(struct options, quiet),
      "print no progress on standard error" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .check = check_options,
    .doc = "Finds the order of peers for which a ring all-reduce is predicted to be fastest.\v"
           "The search first minimizes the time of the slowest link, then the sum over all links. "
           "The tool also predicts the time of two alternatives: two rings of half the size in "
           "opposite directions, and two trees. It reports whether a change from the order in the "
           "file pays off.\n\n"
           "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
           "Examples:\n"
           "  tutti ring order --matrix links.json --svg ring.svg\n",
};

/* ---- search ---- */

struct result {
    struct tt_ring_file file;
    uint32_t *order, *now;      /* [n] */
    struct tt_ring_ordered first;
    uint64_t shape_ns[TT_RING_SHAPES], now_ns, reconnect_ns;
    bool worth;
    double search_s;
};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool find_order(const struct options *o, const struct tt_ring_matrix *m, const uint32_t *now,
                       uint32_t *order, struct tt_ring_ordered *out)
{
    const uint64_t all = o->steps ? o->steps : tt_ring_order_enough(m->n);
    void *memory = malloc(tt_ring_order_bytes(m->n));
    struct tt_ring_order *search;
    double printed = seconds();

    if (!memory) {
        fprintf(stderr, "tutti ring order: out of memory for %u peers\n", m->n);
        return false;
    }
    search = tt_ring_order_init(memory, m, &o->load, now, o->seed);
    for (uint64_t left = all, slice; left > 0; left -= slice) {
        slice = left < SLICE_STEPS ? left : SLICE_STEPS;
        if (!tt_ring_order_step(search, slice))
            break;
        if (!o->quiet && seconds() > printed + 1) {
            printed = seconds();
            fprintf(stderr, "tutti ring order: %.0f %% of %llu steps\n",
                    100.0 * (double)(all - left + slice) / (double)all, (unsigned long long)all);
        }
    }
    *out = tt_ring_order_found(search, order);
    free(memory);
    return true;
}

static bool find_all(const struct options *o, struct result *r)
{
    const struct tt_ring_matrix *m = &r->file.m;
    const double begin = seconds();

    if (!find_order(o, m, r->now, r->order, &r->first))
        return false;
    r->search_s = seconds() - begin;
    if (!r->first.any) {
        fprintf(stderr, "tutti ring order: %s: %s\n", o->matrix,
                r->first.none ? "no ring exists over the given links"
                              : "no ring was found over the given links (increase --steps)");
        return false;
    }
    for (int shape = TT_RING_ONE; shape < TT_RING_SHAPES; shape++)
        r->shape_ns[shape] = tt_ring_predict_as((enum tt_ring_shape)shape, m, &o->load, r->order);
    r->now_ns = tt_ring_predict(m, &o->load, r->now);
    r->reconnect_ns = tt_ring_reconnect_ns(m, r->now_ns == TT_RING_NONE ? NULL : r->now, r->order,
                                           HANDSHAKE_ROUND_TRIPS);
    r->worth = tt_ring_is_worth(
        &(struct tt_ring_change){ .now_ns = r->now_ns,
                                  .then_ns = r->shape_ns[tt_ring_fastest(r->shape_ns)],
                                  .reconnect_ns = r->reconnect_ns,
                                  .steps = o->expected,
                                  .gain_percent = GAIN_PERCENT });
    return true;
}

/* ---- output ---- */

static uint32_t slowest_link(const struct result *r)
{
    const struct tt_ring_matrix *m = &r->file.m;
    uint32_t at = 0;
    uint64_t least = UINT64_MAX;

    for (uint32_t k = 0; k < m->n; k++) {
        const uint64_t rate = tt_ring_rate(m, r->order[k], r->order[(k + 1) % m->n]);

        if (rate < least) {
            least = rate;
            at = k;
        }
    }
    return at;
}

static void print_order(const struct result *r)
{
    printf("order:");
    for (uint32_t k = 0; k < r->file.m.n; k++)
        printf(" %s", r->file.name[r->order[k]]);
    printf("\n");
}

static void print_shape(const char *name, uint64_t ns, bool fastest)
{
    if (ns == TT_RING_NONE)
        printf("  %-10s not possible\n", name);
    else
        printf("  %-10s %10.3f ms%s\n", name, (double)ns / 1e6, fastest ? "   <- fastest" : "");
}

static void print_text(const struct options *o, const struct result *r)
{
    const struct tt_ring_matrix *m = &r->file.m;
    const enum tt_ring_shape fastest = tt_ring_fastest(r->shape_ns);
    const uint32_t at = slowest_link(r), a = r->order[at], b = r->order[(at + 1) % m->n];

    print_order(r);
    if (m->n > 1)
        printf("slowest link: %s to %s, %.3f Mbit/s, %.3f ms\n", r->file.name[a], r->file.name[b],
               (double)tt_ring_rate(m, a, b) / 125000,
               (double)m->latency[(size_t)a * m->n + b] / 1e6);
    printf("predicted for %llu bytes:\n", (unsigned long long)o->load.bytes);
    for (int k = 0; k < TT_RING_SHAPES; k++)
        print_shape(tt_ring_shape_name((enum tt_ring_shape)k), r->shape_ns[k], k == (int)fastest);
    printf("lower bound of a single ring: %.3f ms%s\n", (double)r->first.bound_ns / 1e6,
           r->first.best ? "; this order is proven optimal" : "");
    print_shape("as listed", r->now_ns, false);
    printf("change of the order: %s (reconnection takes %.1f ms; %llu all-reduces are expected)\n",
           r->worth ? "pays off" : "does not pay off", (double)r->reconnect_ns / 1e6,
           (unsigned long long)o->expected);
}

static struct json_object *json_order(const struct result *r, const uint32_t *order)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t k = 0; k < r->file.m.n; k++)
        json_object_array_add(list, json_object_new_uint64(order[k]));
    return list;
}

static struct json_object *json_ns(uint64_t ns)
{
    return ns == TT_RING_NONE ? NULL : json_object_new_uint64(ns);
}

static void print_json(const struct options *o, const struct result *r)
{
    static const char *const keys[] = { "one_ring_ns", "two_rings_ns", "two_trees_ns" };
    struct json_object *all = json_object_new_object(), *names = json_object_new_array();

    for (uint32_t k = 0; k < r->file.m.n; k++)
        json_object_array_add(names, json_object_new_string(r->file.name[r->order[k]]));
    json_object_object_add(all, "peers", json_object_new_uint64(r->file.m.n));
    json_object_object_add(all, "bytes", json_object_new_uint64(o->load.bytes));
    json_object_object_add(all, "order", json_order(r, r->order));
    json_object_object_add(all, "names", names);
    for (int k = 0; k < TT_RING_SHAPES; k++)
        json_object_object_add(all, keys[k], json_ns(r->shape_ns[k]));
    json_object_object_add(
        all, "fastest", json_object_new_string(tt_ring_shape_name(tt_ring_fastest(r->shape_ns))));
    json_object_object_add(all, "bound_ns", json_ns(r->first.bound_ns));
    json_object_object_add(all, "proven_best", json_object_new_boolean(r->first.best));
    json_object_object_add(all, "floor_ns", json_ns(r->first.floor_ns));
    json_object_object_add(all, "slowest_block_ns", json_ns(r->first.value.slow));
    json_object_object_add(all, "slowest_block_bound_ns", json_ns(r->first.slow_bound));
    json_object_object_add(all, "sum_ns", json_ns(r->first.value.sum));
    json_object_object_add(all, "listed_ns", json_ns(r->now_ns));
    json_object_object_add(all, "reconnect_ns", json_ns(r->reconnect_ns));
    json_object_object_add(all, "worth_changing", json_object_new_boolean(r->worth));
    json_object_object_add(all, "search_steps", json_object_new_uint64(r->first.steps));
    json_object_object_add(all, "search_s", json_object_new_double(r->search_s));
    printf("%s\n", json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY |
                                                           JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(all);
}

static bool draw(const char *path, const struct result *r)
{
    FILE *f = fopen(path, "we");
    bool ok = f;

    if (f) {
        tt_ring_svg_draw(&(struct tt_ring_picture){ &r->file.m, r->file.name, r->order }, f);
        ok = !ferror(f);
        ok = fclose(f) == 0 && ok;
    }
    if (!ok)
        fprintf(stderr, "tutti ring order: cannot write %s: %s\n", path, strerror(errno));
    return ok;
}

static int order_main(int argc, char **argv)
{
    struct options o = { .load = { 64u << 20, 1u << 20 }, .seed = 1, .expected = 1000 };
    struct result r = { .now_ns = 0 };
    bool ok;

    command_line_read(&command, &o, argc, argv);
    if (tt_ring_file_load(&r.file, o.matrix) != TUTTI_OK)
        return 1;
    r.order = malloc(2 * r.file.m.n * sizeof *r.order);
    ok = r.order;
    if (ok) {
        r.now = r.order + r.file.m.n;
        for (uint32_t k = 0; k < r.file.m.n; k++)
            r.now[k] = k;
        ok = find_all(&o, &r);
    } else {
        fprintf(stderr, "tutti ring order: out of memory for %u peers\n", r.file.m.n);
    }
    if (ok && o.json)
        print_json(&o, &r);
    else if (ok)
        print_text(&o, &r);
    ok = ok && (!o.svg || draw(o.svg, &r));
    free(r.order);
    tt_ring_file_fini(&r.file);
    return ok ? 0 : 1;
}

static void usage(FILE *to)
{
    fprintf(to, "Usage: tutti ring SUBCOMMAND [OPTION...]\nArranges peers in a ring, from "
                "measurements of the links between them.\n\nSubcommands:\n"
                "  order    find the fastest order of the peers\n\n"
                "`tutti ring SUBCOMMAND --help` describes a subcommand.\n");
}

int tool_ring_main(int argc, char **argv)
{
    static char name[] = "tutti ring order";
    const char *subcommand = argc > 1 ? argv[1] : "";

    if (strcmp(subcommand, "order") == 0) {
        argv[1] = name;
        return order_main(argc - 1, argv + 1);
    }
    if (strcmp(subcommand, "--help") == 0 || strcmp(subcommand, "-?") == 0 ||
        strcmp(subcommand, "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (*subcommand)
        fprintf(stderr, "tutti ring: unknown subcommand \"%s\"\n\n", subcommand);
    usage(stderr);
    return 2;
}
