#include "sched/json.h"

#include <inttypes.h>
#include "base/status.h"

bool tt_plan_has_json(enum tt_coll_kind kind)
{
    switch (kind) {
    case TT_ALLREDUCE:
    case TT_REDUCE:
    case TT_REDUCE_SCATTER:
    case TT_ALLGATHER:
    case TT_BROADCAST:
    case TT_GATHER:
    case TT_SCATTER:
    case TT_ALLTOALL:
    case TT_BARRIER:
        return true;
    default:
        return false;
    }
}

static void write_ref(FILE *to, const char *member, const struct tt_ref *ref)
{
    static const char *const names[] = {
        [TT_BUF_SRC] = "SRC", [TT_BUF_DST] = "DST", [TT_BUF_WORK] = "WORK", [TT_BUF_PIPE] = "PIPE",
        [TT_BUF_THERE] = "THERE",
    };

    tt_assert(ref->buf <= TT_BUF_THERE);
    fprintf(to, ", \"%s\": { \"buf\": \"%s\"", member, names[ref->buf]);
    if (ref->buf != TT_BUF_THERE)
        fprintf(to, ", \"offset\": %" PRIu64, ref->offset);
    if (ref->block)
        fprintf(to, ", \"block\": %" PRIu64 ", \"stride\": %" PRIu64, ref->block, ref->stride);
    fputs(" }", to);
}

static void write_step(FILE *to, const struct tt_step *s)
{
    static const char *const names[] = {
        [TT_PUT] = "put", [TT_WAIT] = "wait", [TT_REDUCE_STEP] = "reduce", [TT_COPY] = "copy",
    };

    tt_assert(s->opcode <= TT_COPY);
    fprintf(to, "{ \"op\": \"%s\"", names[s->opcode]);
    if (s->opcode == TT_PUT || s->opcode == TT_WAIT)
        fprintf(to, ", \"peer\": %u, \"tag\": %u", s->peer, s->tag);
    fprintf(to, ", \"bytes\": %" PRIu64, s->bytes);
    if (s->opcode == TT_PUT || s->opcode == TT_COPY)
        write_ref(to, "from", &s->a);
    write_ref(to, "to", &s->out);
    if (s->opcode == TT_REDUCE_STEP) {
        write_ref(to, "a", &s->a);
        write_ref(to, "b", &s->b);
        fprintf(to, ", \"finish\": %s", s->finish ? "true" : "false");
    }
    fputs(" }", to);
}

/* Writes the steps of a rank, which are ordered by round. */
static void write_rank(FILE *to, const struct tt_program *p, uint32_t rank)
{
    uint64_t i = 0;

    fprintf(to, "    { \"rank\": %u, \"work_bytes\": %" PRIu64 ", \"rounds\": [", rank,
            p->work_bytes[rank]);
    for (uint64_t k = 0; k < p->nrounds; k++) {
        const char *between = "";

        fprintf(to, "%s\n      [", k ? "," : "");
        for (; i < p->nsteps[rank] && p->steps[rank][i].round == k; i++) {
            fprintf(to, "%s ", between);
            write_step(to, &p->steps[rank][i]);
            between = ",\n       ";
        }
        fputs(" ]", to);
    }
    fprintf(to, " ] }%s\n", rank + 1 < p->nranks ? "," : "");
}

void tt_plan_write_json(FILE *to, const struct tt_program *p, const char *name)
{
    const struct tt_coll *c = &p->coll[0];

    fprintf(to, "{\n  \"format\": \"%s\",\n  \"name\": \"%s\",\n  \"coll\": \"%s\",\n",
            TT_PLAN_FORMAT, name, tt_coll_name(c->kind));
    fprintf(to,
            "  \"nranks\": %u,\n  \"root\": %u,\n  \"elem_bytes\": %u,\n  \"bytes\": %" PRIu64
            ",\n",
            p->nranks, c->root, c->elem_bytes, c->bytes);
    fprintf(to, "  \"in_place\": %s,\n  \"ranks\": [\n", c->in_place ? "true" : "false");
    for (uint32_t r = 0; r < p->nranks; r++)
        write_rank(to, p, r);
    fputs("  ]\n}\n", to);
}
