#include "tools/perf/perf_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operations that only commands can select. */
static const struct perf_coll computing[] = {
    { "overlap", PERF_OVERLAP, PERF_TWICE, .reduces = true },
    { "compute", PERF_COMPUTE, PERF_WHOLE, .reduces = false },
};

static const struct perf_coll *coll_of(const char *name)
{
    static const char *const known[] = { "allreduce", "reduce",  "reduce_scatter", "allgather",
                                         "broadcast", "gather",  "scatter",        "alltoall",
                                         "barrier",   "pingpong", "sendrecv" };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], name) == 0)
            return perf_coll_find(name);
    for (size_t i = 0; i < sizeof computing / sizeof *computing; i++)
        if (strcmp(computing[i].name, name) == 0)
            return &computing[i];
    return NULL;
}

/* In "overlap/1000", the amount of work is in place of the algorithm: moves it from `algo` to
 * `work`. Returns NULL or the error message. */
static const char *take_work(struct perf_command *c)
{
    const size_t digits = strspn(c->algo, "0123456789");

    if (c->coll->kind != PERF_OVERLAP && c->coll->kind != PERF_COMPUTE)
        return NULL;
    if (digits == 0 || digits > PERF_COMMAND_WORK_DIGITS || c->algo[digits])
        return "invalid work (must be a number of at most 9 digits, as in overlap/1000)";
    c->work = strtoul(c->algo, NULL, 10);
    c->algo[0] = 0;
    return NULL;
}

const char *perf_command_parse(const char *line, int nranks, struct perf_command *out)
{
    char coll[96], memory[16], *slash;

    *out = (struct perf_command){ .bytes = 0 };
    if (sscanf(line, "%95s %zu %ld %ld %ld %15s", coll, &out->bytes, &out->effort.iters,
               &out->effort.warmup, &out->effort.loops, memory) != 6)
        return "invalid command (must be six words: coll[/algo] bytes iters warmup loops memory)";
    if (out->effort.iters < 1 || out->effort.iters > PERF_COMMAND_ITERS_MAX ||
        out->effort.warmup < 0 || out->effort.loops < 0)
        return "invalid counts (iters must be 1 to 10000000, warmup and loops at least 0)";
    slash = strchr(coll, '/');
    if (slash) {
        *slash = '\0';
        snprintf(out->algo, sizeof out->algo, "%s", slash + 1);
    }
    out->coll = coll_of(coll);
    if (!out->coll)
        return "unknown collective";
    if (out->coll->kind == PERF_PINGPONG && nranks < 2)
        return "pingpong needs at least 2 ranks";
    out->mem_alloc = strcmp(memory, "mem_alloc") == 0;
    out->in_place = strcmp(memory, "in_place") == 0;
    if (!out->mem_alloc && !out->in_place && strcmp(memory, "malloc") != 0)
        return "unknown memory (must be malloc, mem_alloc or in_place)";
    if (out->in_place && !out->coll->in_place)
        return "this operation has no in-place form";
    return take_work(out);
}
