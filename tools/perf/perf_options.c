#include "tools/perf/perf_options.h"

#include <argp.h>
#include <string.h>
#include "base/names.h"
#include "comm/call.h"
#include "tools/option_values.h"
#include "reduce/reduce.h"

enum {
    OPT_WIRE = 256,
    OPT_ALGO,
    OPT_MIN,
    OPT_MAX,
    OPT_FACTOR,
    OPT_DTYPE,
    OPT_OP,
    OPT_QUANT,
    OPT_ROOT,
    OPT_ITERS,
    OPT_WARMUP,
    OPT_IN_PLACE,
    OPT_OUT_OF_PLACE,
    OPT_CHECK,
    OPT_JSON,
    OPT_MEM,
    OPT_INTERACTIVE,
    OPT_SPOIL,
    OPT_TIMERS,
    OPT_TRACE
};

static const struct argp_option argp_options[] = {
    { "ranks", 'n', "N", 0,
      "number of ranks to start on this host (default 2). In a job, the job's ranks are used, and "
      "N must equal their number",
      1 },
    { "wire", OPT_WIRE, "shm,tcp", 0,
      "allowed transports (default: all usable ones except verbs and ofi)", 1 },
    { "algo", OPT_ALGO, "NAME", 0, "use this algorithm (`tutti info --algos` lists them)", 1 },
    { "min", OPT_MIN, "SIZE", 0,
      "smallest size in bytes, with an optional K, M, G or T (default 8)", 2 },
    { "max", OPT_MAX, "SIZE", 0, "largest size (default 128M)", 2 },
    { "factor", OPT_FACTOR, "F", 0, "ratio of successive sizes (default 4)", 2 },
    { "dtype", OPT_DTYPE, "TYPE", 0, "element type (default f32)", 2 },
    { "op", OPT_OP, "OP", 0, "reduction operation (default sum)", 2 },
    { "quant", OPT_QUANT, "HOW", 0,
      "quantized transfer: minmax8, minmax4, zero8, zero4, e4m3 or e5m2 (default none). "
      "--check then allows the error bound of tutti.h",
      2 },
    { "root", OPT_ROOT, "RANK", 0, "root of rooted collectives (default 0)", 2 },
    { "iters", OPT_ITERS, "N", 0,
      "measured iterations (default: as many as fit into 0.1 s, at least 5)", 3 },
    { "warmup", OPT_WARMUP, "N", 0,
      "unmeasured iterations before the measured ones (default: at least 16, including those that "
      "determine --iters; with --iters: 5)",
      3 },
    { "in-place", OPT_IN_PLACE, NULL, 0,
      "measure only in place (default: in place and out of place)", 3 },
    { "out-of-place", OPT_OUT_OF_PLACE, NULL, 0, "measure only out of place", 3 },
    { "mem", OPT_MEM, "malloc|mem_alloc", 0,
      "memory of the buffers: malloc (default), or tutti_mem_alloc, which peers can map", 3 },
    { "check", OPT_CHECK, NULL, 0, "compare every element with the definition of the collective",
      4 },
    { "timers", OPT_TIMERS, NULL, 0,
      "print the time that a call spends in each phase (mean over ranks and calls). Very short "
      "calls are not timed",
      4 },
    { "trace", OPT_TRACE, "FILE", 0,
      "write a timeline of every segment on every lane (TCP connection or queue pair) of all "
      "ranks: JSON for ui.perfetto.dev, or a picture if FILE ends in .svg",
      4 },
    { "json", OPT_JSON, NULL, 0, "print one JSON object per line", 4 },
    { "interactive", OPT_INTERACTIVE, "DIR", 0,
      "read commands from named pipes in DIR (bench/peers/PROTOCOL.md)", 4 },
    { "spoil", OPT_SPOIL, "N", OPTION_HIDDEN,
      "corrupt N elements of each rank before the check, which must detect them", 4 },
    { 0 },
};

static void take_coll(struct perf_options *o, struct argp_state *state, const char *arg)
{
    if (state->arg_num > 0)
        argp_error(state, "unexpected argument \"%s\" (give one collective)", arg);
    o->coll = perf_coll_find(arg);
    if (!o->coll && strcmp(arg, "all") != 0)
        argp_error(state, "unknown collective \"%s\" (`%s --help` lists them)", arg, state->name);
}

static void check_quant(const struct perf_options *o, struct argp_state *state)
{
    const bool is_sum = o->op == TUTTI_SUM || o->op == TUTTI_AVG;
    struct tt_packed packed;

    if (!o->quant)
        return;
    if (!o->coll || o->coll->kind >= TT_COLL_KINDS ||
        !tt_call_check_can_quantize((enum tt_coll_kind)o->coll->kind))
        argp_error(state,
                   "--quant %s: only allreduce, reduce, reduce_scatter, allgather and broadcast "
                   "can be quantized",
                   tutti_quant_name(o->quant));
    if (!tt_packed_init(&packed, (enum tt_quant_codec)(o->quant - 1), o->dtype) || !is_sum)
        argp_error(state,
                   "--quant %s: requires --dtype f16, bf16, f32 or f64 and --op sum or avg (not "
                   "--dtype %s --op %s)",
                   tutti_quant_name(o->quant), tutti_dtype_name(o->dtype), tutti_redop_name(o->op));
    if (o->interactive)
        argp_error(state, "conflicting options: --quant excludes --interactive");
}

/* Checks combinations of options. */
static void check_together(const struct perf_options *o, struct argp_state *state)
{
    bool algo_exists = false;

    if (state->arg_num == 0 && !o->interactive)
        argp_error(state, "missing argument: a collective, or all (`%s --help` lists them)",
                   state->name);
    if (o->min_bytes > o->max_bytes)
        argp_error(state, "--min %zu exceeds --max %zu", o->min_bytes, o->max_bytes);
    if (!tt_reduce_defined(o->dtype, o->op))
        argp_error(state, "--op %s is not defined for --dtype %s", tutti_redop_name(o->op),
                   tutti_dtype_name(o->dtype));
    if (o->coll && o->in_place && !o->out_of_place && !o->coll->in_place)
        argp_error(state, "--in-place: %s has no in-place form", o->coll->name);
    if (o->trace && o->interactive)
        argp_error(state, "conflicting options: --trace excludes --interactive");
    check_quant(o, state);
    for (size_t i = 0; o->algo && i < perf_ncolls; i++)
        algo_exists |=
            (!o->coll || o->coll == &perf_colls[i]) && perf_algo_exists(&perf_colls[i], o->algo);
    if (o->algo && !algo_exists)
        argp_error(state, "--algo %s: unknown algorithm%s%s (`tutti info --algos` lists them)",
                   o->algo, o->coll ? " of " : "", o->coll ? o->coll->name : "");
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct perf_options *o = state->input;

    switch (key) {
    case 'n':
        o->nranks = (uint32_t)option_number(state, "--ranks", arg, 1, 65536);
        return 0;
    case OPT_WIRE:
        option_check_wires(state, arg);
        o->wire = arg;
        return 0;
    case OPT_ALGO:
        o->algo = arg;
        return 0;
    case OPT_MIN:
        o->min_bytes = option_size(state, "--min", arg);
        return 0;
    case OPT_MAX:
        o->max_bytes = option_size(state, "--max", arg);
        return 0;
    case OPT_FACTOR:
        o->factor = option_number(state, "--factor", arg, 2, 1u << 30);
        return 0;
    case OPT_DTYPE:
        if (!tt_dtype_parse(arg, &o->dtype))
            argp_error(state,
                       "--dtype %s: unknown type (use one of i8 u8 i16 u16 i32 u32 i64 u64 f16 "
                       "bf16 f32 f64 f8e4m3 f8e5m2)",
                       arg);
        return 0;
    case OPT_OP:
        if (!tt_redop_parse(arg, &o->op))
            argp_error(state,
                       "--op %s: unknown operation (use one of sum prod min max avg band bor bxor "
                       "premul_sum)",
                       arg);
        return 0;
    case OPT_QUANT:
        if (!tt_quant_parse(arg, &o->quant))
            argp_error(state,
                       "--quant %s: unknown quantization (use one of none minmax8 minmax4 zero8 "
                       "zero4 e4m3 e5m2)",
                       arg);
        return 0;
    case OPT_ROOT:
        o->root = (uint32_t)option_number(state, "--root", arg, 0, 65535);
        return 0;
    case OPT_ITERS:
        o->effort.iters = (long)option_number(state, "--iters", arg, 1, 10000000);
        return 0;
    case OPT_WARMUP:
        o->effort.warmup = (long)option_number(state, "--warmup", arg, 0, 10000000);
        return 0;
    case OPT_IN_PLACE:
        o->out_of_place = false;
        return 0;
    case OPT_OUT_OF_PLACE:
        o->in_place = false;
        return 0;
    case OPT_CHECK:
        o->check = true;
        return 0;
    case OPT_TIMERS:
        o->timers = true;
        return 0;
    case OPT_TRACE:
        o->trace = arg;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case OPT_MEM:
        if (strcmp(arg, "malloc") != 0 && strcmp(arg, "mem_alloc") != 0)
            argp_error(state, "--mem %s: must be malloc or mem_alloc", arg);
        o->mem_alloc = strcmp(arg, "mem_alloc") == 0;
        return 0;
    case OPT_INTERACTIVE:
        o->interactive = arg;
        return 0;
    case OPT_SPOIL:
        o->spoil = option_number(state, "--spoil", arg, 0, SIZE_MAX >> 8);
        return 0;
    case ARGP_KEY_ARG:
        take_coll(o, state, arg);
        return 0;
    case ARGP_KEY_END:
        if (!o->in_place && !o->out_of_place)
            argp_error(state, "conflicting options: --in-place excludes --out-of-place");
        check_together(o, state);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .args_doc = "COLLECTIVE|all|sendrecv|pingpong",
    .doc =
        "Measures and checks collectives, on new ranks or on the ranks of the current job.\v"
        "Collectives: allreduce reduce reduce_scatter reduce_scatterv allgather allgatherv "
        "broadcast gather gatherv scatter scatterv alltoall alltoallv barrier.\n\n"
        "The size of a call is the size of its larger buffer. An iteration is a barrier followed "
        "by one call. Its time is the time of the call on the slowest rank; the tool prints the "
        "median over all iterations. algbw is size / time. As in nccl-tests, busbw is algbw times "
        "2(n-1)/n for allreduce, (n-1)/n for collectives with one block per rank, and 1 for "
        "others. The time of a pingpong is half of the round trip. In collectives with counts per "
        "rank (allgatherv, ...), the block sizes alternate between 0.5 and 1.5 times the "
        "mean.\n\n"
        "See also `tutti perf putsignal --help` (puts with signals from devices) and `tutti perf "
        "a2av --help` (all-to-all exchange of a mixture of experts).\n\n"
        "Exit status: 0 on success, 1 if a call failed, an element was wrong or nothing was "
        "measured, 2 on a usage error. If a rank was killed, the exit status is that of `tutti "
        "run`.\n\n"
        "Examples:\n"
        "  tutti perf allreduce -n 4 --check\n"
        "  tutti perf all -n 4 --wire tcp --max 16M --json\n",
};

void perf_options_parse(struct perf_options *o, int argc, char **argv)
{
    *o = (struct perf_options){
        .min_bytes = 8, .max_bytes = 128u << 20, .factor = 4, .dtype = TUTTI_F32, .op = TUTTI_SUM,
        .effort = { .warmup = -1 }, .out_of_place = true, .in_place = true,
    };
    argp_parse(&argp, argc, argv, 0, NULL, o);
}
