#include "tools/perf/perf_options.h"

#include <string.h>
#include "base/names.h"
#include "comm/call.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "reduce/reduce.h"

static void take_coll(void *options, struct argp_state *state, char *arg)
{
    struct perf_options *o = options;
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
static void check_together(void *options, struct argp_state *state)
{
    const struct perf_options *o = options;
    bool algo_exists = false;

    if (!o->in_place && !o->out_of_place)
        argp_error(state, "conflicting options: --in-place excludes --out-of-place");
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

static void take_dtype(void *options, struct argp_state *state, char *arg)
{
    struct perf_options *o = options;

    if (!tt_dtype_parse(arg, &o->dtype))
        argp_error(state,
                   "--dtype %s: unknown type (use one of i8 u8 i16 u16 i32 u32 i64 u64 f16 "
                   "bf16 f32 f64 f8e4m3 f8e5m2)",
                   arg);
}

static void take_op(void *options, struct argp_state *state, char *arg)
{
    struct perf_options *o = options;

    if (!tt_redop_parse(arg, &o->op))
        argp_error(state,
                   "--op %s: unknown operation (use one of sum prod min max avg band bor bxor "
                   "premul_sum)",
                   arg);
}

static void take_quant(void *options, struct argp_state *state, char *arg)
{
    struct perf_options *o = options;

    if (!tt_quant_parse(arg, &o->quant))
        argp_error(state,
                   "--quant %s: unknown quantization (use one of none minmax8 minmax4 zero8 "
                   "zero4 e4m3 e5m2)",
                   arg);
}

static void take_mem(void *options, struct argp_state *state, char *arg)
{
    struct perf_options *o = options;

    if (strcmp(arg, "malloc") != 0 && strcmp(arg, "mem_alloc") != 0)
        argp_error(state, "--mem %s: must be malloc or mem_alloc", arg);
    o->mem_alloc = strcmp(arg, "mem_alloc") == 0;
}

static const struct option_row option_rows[] = {
    { "ranks", 'n', "N", 1, OPTION_INTEGER(struct perf_options, nranks, 1, 65536),
      "number of ranks to start on this host (default 2). In a job, the job's ranks are used, and "
      "N must equal their number" },
    { "wire", 0, "shm,tcp", 1, OPTION_WIRES(struct perf_options, wire),
      "allowed transports (default: all usable ones except verbs and ofi)" },
    { "algo", 0, "NAME", 1, OPTION_TEXT(struct perf_options, algo),
      "use this algorithm (`tutti info --algos` lists them)" },
    { "min", 0, "SIZE", 2, OPTION_SIZE(struct perf_options, min_bytes, 1),
      "smallest size in bytes, with an optional K, M, G or T (default 8)" },
    { "max", 0, "SIZE", 2, OPTION_SIZE(struct perf_options, max_bytes, 1),
      "largest size (default 128M)" },
    { "factor", 0, "F", 2, OPTION_INTEGER(struct perf_options, factor, 2, 1u << 30),
      "ratio of successive sizes (default 4)" },
    { "dtype", 0, "TYPE", 2, OPTION_CALL(take_dtype), "element type (default f32)" },
    { "op", 0, "OP", 2, OPTION_CALL(take_op), "reduction operation (default sum)" },
    { "quant", 0, "HOW", 2, OPTION_CALL(take_quant),
      "quantized transfer: minmax8, minmax4, zero8, zero4, e4m3 or e5m2 (default none). "
      "--check then accepts errors up to the bound in tutti.h" },
    { "root", 0, "RANK", 2, OPTION_INTEGER(struct perf_options, root, 0, 65535),
      "root of rooted collectives (default 0)" },
    { "iters", 0, "N", 3, OPTION_INTEGER(struct perf_options, effort.iters, 1, 10000000),
      "measured iterations (default: as many as fit into 0.1 s, at least 5)" },
    { "warmup", 0, "N", 3, OPTION_INTEGER(struct perf_options, effort.warmup, 0, 10000000),
      "unmeasured iterations before the measured ones (default: at least 16, including those that "
      "determine --iters; with --iters: 5)" },
    { "in-place", 0, NULL, 3, OPTION_CLEAR(struct perf_options, out_of_place),
      "measure only in place (default: in place and out of place)" },
    { "out-of-place", 0, NULL, 3, OPTION_CLEAR(struct perf_options, in_place),
      "measure only out of place" },
    { "mem", 0, "malloc|mem_alloc", 3, OPTION_CALL(take_mem),
      "memory of the buffers: malloc (default), or tutti_mem_alloc, which peers can map" },
    { "check", 0, NULL, 4, OPTION_FLAG(struct perf_options, check),
      "compare every element with the definition of the collective" },
    { "timers", 0, NULL, 4, OPTION_FLAG(struct perf_options, timers),
      "print the time that a call spends in each phase (mean over ranks and calls). Very short "
      "calls are not timed" },
    { "trace", 0, "FILE", 4, OPTION_TEXT(struct perf_options, trace),
      "write a timeline of every segment on every lane (TCP connection or queue pair) of all "
      "ranks: JSON for ui.perfetto.dev, or a picture if FILE ends in .svg" },
    { "json", 0, NULL, 4, OPTION_FLAG(struct perf_options, json),
      "print one JSON object per line" },
    { "interactive", 0, "DIR", 4, OPTION_TEXT(struct perf_options, interactive),
      "read commands from named pipes in DIR (bench/peers/PROTOCOL.md)" },
    { "spoil", 0, "N", 4, OPTION_INTEGER(struct perf_options, spoil, 0, SIZE_MAX >> 8), NULL },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .argument = take_coll,
    .check = check_together,
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
    command_line_read(&command, o, argc, argv);
}
