/* Converts options to a call, its programs and its traffic. */
#include "tools/plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "comm/chunks.h"
#include "comm/plugin.h"
#include "comm/plugins.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "topo/topo.h"

#define RANKS_DEFAULT 4u
#define BYTES_DEFAULT 1024u
#define BYTES_MAX (1ull << 40)

/* ---- options ---- */

static uint64_t read_size(struct argp_state *state, const char *what, const char *arg)
{
    const uint64_t bytes = option_size(state, what, arg);

    if (bytes > BYTES_MAX)
        argp_error(state, "%s %s: the maximum is 1024G", what, arg);
    return bytes;
}

static void take_bytes(void *options, struct argp_state *state, char *arg)
{
    struct plan_options *o = options;

    o->bytes = read_size(state, "--bytes", arg);
}

static void take_argument(void *options, struct argp_state *state, char *arg)
{
    struct plan_options *o = options;

    if (o->any_algo && o->coll && !o->bytes) {
        o->bytes = read_size(state, "SIZE", arg);
        return;
    }
    if (o->algo || (o->any_algo && o->coll))
        argp_error(state, "unexpected argument \"%s\" (the arguments are a collective and %s)", arg,
                   o->any_algo ? "a size" : "an algorithm");
    *(o->coll ? &o->algo : &o->coll) = arg;
}

static void check_options(void *options, struct argp_state *state)
{
    struct plan_options *o = options;

    if (o->any_algo && !o->coll)
        argp_error(state,
                   "missing argument: a collective and a size are needed, e.g. allreduce 1M");
    if (!o->any_algo && !o->algo)
        argp_error(
            state,
            "missing argument: a collective and an algorithm are needed, e.g. allgather ring");
    if (o->elem_bytes & (o->elem_bytes - 1))
        argp_error(state, "--elem-bytes %u: must be 1, 2, 4 or 8", o->elem_bytes);
    if (o->topo && (o->hosts || o->host_ranks || o->sockets))
        argp_error(state,
                   "conflicting options: --topo excludes --hosts, --ranks-per-host and --sockets");
}

static const struct option_row option_rows[] = {
    { "ranks", 'n', "N", 1, OPTION_INTEGER(struct plan_options, nranks, 1, TT_TOPO_RANKS_MAX),
      "number of ranks (default: all ranks of --topo, or --hosts times --ranks-per-host, or 4)" },
    { "bytes", 'b', "SIZE", 1, OPTION_CALL(take_bytes),
      "bytes of the call's `count` elements (see tutti.h): 4096, 64K, 1M (default 1K)" },
    { "root", 0, "RANK", 1, OPTION_INTEGER(struct plan_options, root, 0, TT_TOPO_RANKS_MAX),
      "root of rooted collectives (default 0)" },
    { "elem-bytes", 0, "N", 1, OPTION_INTEGER(struct plan_options, elem_bytes, 1, 8),
      "bytes per element: 1, 2, 4 or 8 (default 4, or 1 if SIZE is not a multiple of 4)" },
    { "in-place", 0, NULL, 1, OPTION_FLAG(struct plan_options, in_place),
      "use the in-place form of the call" },
    { "topo", 0, "NAME|FILE", 2, OPTION_TEXT(struct plan_options, topo),
      "topology: a built-in name or a file, as for `tutti topo`" },
    { "hosts", 0, "N", 2, OPTION_INTEGER(struct plan_options, hosts, 1, TT_TOPO_RANKS_MAX),
      "number of hosts (default 1)" },
    { "ranks-per-host", 0, "N", 2, OPTION_INTEGER(struct plan_options, host_ranks, 1, 1u << 16),
      "consecutive ranks per host (default: all ranks on one host)" },
    { "sockets", 0, "N", 2, OPTION_INTEGER(struct plan_options, sockets, 1, 256),
      "sockets per host, with one link between each pair of them (default 1)" },
    { 0 },
};

const struct command_line plan_command_line = {
    .rows = option_rows, .argument = take_argument, .check = check_options,
};

/* ---- the layout ---- */

#define COMPLAIN(...) (fprintf(stderr, "tutti plan: " __VA_ARGS__), fputc('\n', stderr), false)

static bool layout_of_topo(struct plan *p, const struct plan_options *o)
{
    struct tt_topo topo;
    bool fine;

    if (tt_topo_load(&topo, o->topo) != TUTTI_OK)
        return false;       /* the library has logged the error */
    p->nranks = o->nranks ? o->nranks : tt_topo_nranks(&topo);
    fine = tt_topo_layout(&topo, p->nranks, &p->layout) == TUTTI_OK;
    tt_topo_fini(&topo);
    return fine;
}

static bool layout_of_options(struct plan *p, const struct plan_options *o)
{
    const uint32_t sockets = o->sockets ? o->sockets : 1;
    uint32_t each = o->host_ranks;

    if (o->nranks)
        p->nranks = o->nranks;
    else if (o->hosts && (uint64_t)o->hosts * (each ? each : 1) > TT_TOPO_RANKS_MAX)
        return COMPLAIN("too many ranks: %u hosts with %u rank%s each (the maximum is %u in all)",
                        o->hosts, each ? each : 1, TT_PLURAL(each ? each : 1), TT_TOPO_RANKS_MAX);
    else
        p->nranks = o->hosts ? o->hosts * (each ? each : 1) : each ? each : RANKS_DEFAULT;
    if (!each)
        each = o->hosts ? (p->nranks + o->hosts - 1) / o->hosts : p->nranks;
    if (o->hosts && (p->nranks + each - 1) / each != o->hosts)
        return COMPLAIN("invalid number of hosts: %u (%u rank%s with %u per host use%s %u host%s)",
                        o->hosts, p->nranks, TT_PLURAL(p->nranks), each, p->nranks == 1 ? "s" : "",
                        (p->nranks + each - 1) / each, TT_PLURAL((p->nranks + each - 1) / each));
    if (each % sockets)
        return COMPLAIN(
            "invalid number of ranks per host: %u (must be a multiple of the number of sockets, "
            "%u)",
            each, sockets);
    tt_layout_regular(&p->layout, p->nranks, each, sockets, 1,
                      sockets > 1 ? TT_NODE_SOCKETS : TT_NODE_MESH);
    return true;
}

/* ---- the call ---- */

static bool find_algo(struct plan *p, const struct plan_options *o)
{
    enum tt_coll_kind kind;

    if (!tt_coll_parse(o->coll, &kind))
        return COMPLAIN("unknown collective \"%s\" (`tutti perf --help` lists them)", o->coll);
    p->algo = tt_algo_named(kind, o->algo);
    if (p->algo)
        return true;
    fprintf(stderr, "tutti plan: %s: unknown algorithm \"%s\" (available:", o->coll, o->algo);
    for (size_t i = 0, n = 0; i < tt_nalgos; i++)
        if (tt_algos[i]->kind == kind)
            fprintf(stderr, "%s %s", n++ ? "," : "", tt_algos[i]->name + strlen(o->coll) + 1);
    fputs(")\n", stderr);
    return false;
}

static bool has_counts(enum tt_coll_kind kind)
{
    return kind == TT_ALLGATHERV || kind == TT_GATHERV || kind == TT_SCATTERV ||
           kind == TT_REDUCE_SCATTERV || kind == TT_ALLTOALLV;
}

static bool is_one_way(enum tt_coll_kind kind)
{
    return kind == TT_SEND || kind == TT_RECV;
}

/* Each block is sent without its middle third. All blocks are alike, so all pairs of ranks share
 * one list of stretches. A rank's received stretches begin at the indices 0, 2, 4, ...; the index
 * is repeated at the rank itself, which receives nothing from itself. One row with the repeated
 * index in its middle therefore serves every rank, at a different offset. */
static bool make_stretches(struct plan *p, uint64_t bytes, uint32_t elem_bytes)
{
    const uint64_t n = p->nranks, third = bytes / elem_bytes / 3 * elem_bytes;
    const struct tt_stretch first = { 0, third ? third : bytes },
                            last = { 2 * third, third ? bytes - 2 * third : 0 };

    p->stretches = calloc(n, sizeof *p->stretches);
    p->stretch = calloc(4 * n, sizeof *p->stretch);
    p->first = calloc(3 * n + 2, sizeof *p->first);
    if (!p->stretches || !p->stretch || !p->first)
        return false;
    for (uint64_t i = 0; i < 4 * n; i++)
        p->stretch[i] = i % 2 ? last : first;
    for (uint64_t i = 0; i <= 2 * n; i++)
        p->first[i] = 2 * (i > n ? i - 1 : i);
    for (uint64_t i = 0; i <= n; i++)
        p->first[2 * n + 1 + i] = 2 * i;
    for (uint64_t r = 0; r < n; r++) {
        p->stretches[r] = (struct tt_stretches){
            .send = p->stretch,
            .recv = p->stretch,
            .send_first = p->first + 2 * n + 1,
            .recv_first = p->first + n - r,
            .most = 2,
        };
        p->coll[r].stretches = &p->stretches[r];
    }
    return true;
}

static void make_coll(struct plan *p, const struct plan_options *o, const struct tt_chunks *chunks,
                      uint32_t rank, uint64_t bytes, uint32_t elem_bytes)
{
    const enum tt_coll_kind kind = p->algo->kind;
    struct tt_coll *c = &p->coll[rank];

    *c = (struct tt_coll){
        .kind = kind, .rank = rank, .nranks = p->nranks, .root = o->root, .elem_bytes = elem_bytes,
        .in_place = o->in_place, .layout = &p->layout,
        .bytes = has_counts(kind) || kind == TT_BARRIER ? 0 : bytes,
    };
    if (is_one_way(kind)) {
        c->kind = rank == 0 ? TT_SEND : TT_RECV;
        c->root = 1 - rank;
    }
    tt_chunks_apply(chunks, c);
    p->counts[rank] = bytes;
    p->displs[rank] = rank * bytes;
    if (has_counts(kind)) {
        c->send_bytes = c->recv_bytes = p->counts;
        c->send_displs = c->recv_displs = p->displs;
    }
}

/* Checks that the call is valid, and that the algorithm supports it. */
static bool check_call(const struct plan *p, const struct plan_options *o, uint64_t bytes,
                       uint32_t elem_bytes)
{
    const enum tt_coll_kind kind = p->algo->kind;

    if (is_one_way(kind) && p->nranks != 2)
        return COMPLAIN("invalid number of ranks: %u (%s needs 2 ranks)", p->nranks, o->coll);
    if (o->root >= p->nranks)
        return COMPLAIN("invalid root: %u (must be a rank from 0 to %u)", o->root, p->nranks - 1);
    if (o->in_place && (kind == TT_BARRIER || is_one_way(kind)))
        return COMPLAIN("--in-place: %s has no in-place form", o->coll);
    if (bytes % elem_bytes)
        return COMPLAIN("invalid size: %" PRIu64
                        " B (must be a multiple of the element size, %u B)",
                        bytes, elem_bytes);
    if (!tt_algo_fits_named(p->algo, &p->coll[0]))
        return COMPLAIN("%s does not support this call of %" PRIu64 " B on %u rank%s (it needs %s)",
                        p->algo->name, bytes, p->nranks, TT_PLURAL(p->nranks),
                        p->algo->needs ? p->algo->needs : "a different call");
    /* the library has logged the error */
    return tt_plugin_check(p->algo, &p->coll[0]) == TUTTI_OK;
}

bool plan_place(struct plan *p, const struct plan_options *o, uint32_t nranks_max)
{
    if (!(o->topo ? layout_of_topo(p, o) : layout_of_options(p, o)))
        return false;
    if (p->nranks <= nranks_max)
        return true;
    tt_layout_fini(&p->layout);
    return COMPLAIN("too many ranks: %u (the maximum is %u)", p->nranks, nranks_max);
}

bool plan_open(struct plan *p, const struct plan_options *o, uint32_t nranks_max)
{
    const uint64_t bytes = o->bytes ? o->bytes : BYTES_DEFAULT;
    const uint32_t elem_bytes = o->elem_bytes ? o->elem_bytes : bytes % 4 ? 1 : 4;

    struct tt_chunks chunks;

    *p = (struct plan){ .algo = NULL };
    if (tt_chunks_get(&chunks) || tt_plugins_load() != TUTTI_OK || !find_algo(p, o) ||
        !plan_place(p, o, nranks_max))
        return false;
    p->coll = calloc(p->nranks, sizeof *p->coll);
    p->counts = calloc(p->nranks, sizeof *p->counts);
    p->displs = calloc(p->nranks, sizeof *p->displs);
    if (!p->coll || !p->counts || !p->displs) {
        plan_close(p);
        return COMPLAIN("out of memory for %u ranks", p->nranks);
    }
    for (uint32_t r = 0; r < p->nranks; r++)
        make_coll(p, o, &chunks, r, bytes, elem_bytes);
    if (p->algo->by_stretches && !make_stretches(p, bytes, elem_bytes)) {
        plan_close(p);
        return COMPLAIN("out of memory for %u ranks", p->nranks);
    }
    if (!check_call(p, o, bytes, elem_bytes)) {
        plan_close(p);
        return false;
    }
    return true;
}

void plan_close(struct plan *p)
{
    tt_layout_fini(&p->layout);
    free(p->coll);
    free(p->counts);
    free(p->displs);
    free(p->stretches);
    free(p->stretch);
    free(p->first);
}

bool plan_program(const struct plan *p, struct tt_program *program)
{
    return tt_program_init(program, p->algo, p->coll, p->nranks) == TUTTI_OK;
}

bool plan_traffic(const struct plan *p, const struct tt_program *program,
                  struct tt_traffic *traffic)
{
    char why[1024] = "";

    if (tt_traffic_init(traffic, program, &p->layout, why, sizeof why) == TUTTI_OK)
        return true;
    return COMPLAIN("%s: %s", p->algo->name, why);
}

/* ---- words ---- */

const char *plan_title(const struct plan *p, char *text, size_t bytes)
{
    const struct tt_coll *c = &p->coll[0];
    const char *ranks = p->nranks == 1 ? "rank" : "ranks";

    if (c->kind == TT_BARRIER)
        snprintf(text, bytes, "%s: %u %s", p->algo->name, p->nranks, ranks);
    else
        snprintf(text, bytes, "%s: %u %s, %" PRIu64 " B%s", p->algo->name, p->nranks, ranks,
                 p->counts[0],
                 c->kind == TT_ALLREDUCE || c->kind == TT_REDUCE || c->kind == TT_BROADCAST ||
                         is_one_way(c->kind)
                     ? ""
                     : " per block");
    return text;
}

const char *plan_link_name(enum tt_distance d)
{
    static const char *const names[TT_DISTANCES] = {
        [TT_NEAR_SELF] = "within a rank",       [TT_NEAR_SOCKET] = "within a socket",
        [TT_NEAR_HOST] = "between sockets",     [TT_NEAR_RACK] = "between hosts",
        [TT_NEAR_ZONE] = "between racks",       [TT_NEAR_BUILDING] = "between zones",
        [TT_NEAR_FABRIC] = "between buildings", [TT_NEAR_WAN] = "over the WAN",
    };

    return (unsigned)d < TT_DISTANCES ? names[d] : "?";
}

const char *plan_carried(const struct tt_traffic *t, const struct tt_transfer *transfer, char *text,
                         size_t bytes)
{
    char origins[96];
    bool reduced;

    tt_traffic_origins(t, transfer, origins, sizeof origins, &reduced);
    snprintf(text, bytes, reduced ? "sum of %s" : "from %s", *origins ? origins : "no rank");
    return text;
}

int plan_with_traffic(const struct plan_options *o, uint32_t nranks_max,
                      int (*use)(const void *arg, const struct plan *p,
                                 const struct tt_program *program,
                                 const struct tt_traffic *traffic),
                      const void *arg)
{
    struct tt_program program;
    struct tt_traffic traffic;
    struct plan plan;
    int status = 1;

    if (!plan_open(&plan, o, nranks_max))
        return 1;
    if (!plan_program(&plan, &program))
        goto close_plan;
    if (plan_traffic(&plan, &program, &traffic)) {
        status = use(arg, &plan, &program, &traffic);
        tt_traffic_fini(&traffic);
    }
    tt_program_fini(&program);
close_plan:
    plan_close(&plan);
    return status;
}
