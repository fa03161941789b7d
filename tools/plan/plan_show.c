/* tutti plan show: the program of one rank as text, or those of all ranks as JSON. */
#include "tools/plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "comm/planread.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "sched/json.h"

/* maximum number of ranks for which origins of data are shown, which requires all programs */
#define RANKS_TRACED_MAX 128u
#define RANKS_JSON_MAX 1024u
#define RANKS_MAX 131072u
#define ROUNDS_DEFAULT 1000u

struct show_options {
    struct plan_options plan;
    uint32_t rank;
    uint64_t rounds_max;
    const char *name;           /* name of the JSON plan; NULL: the algorithm's name */
    bool has_rank, json;
};

static void take_rank(void *options, struct argp_state *state, char *arg)
{
    struct show_options *o = options;

    o->rank = (uint32_t)option_number(state, "--rank", arg, 0, RANKS_MAX - 1);
    o->has_rank = true;
}

static void check_options(void *options, struct argp_state *state)
{
    struct show_options *o = options;

    if (o->json && o->has_rank)
        argp_error(state, "conflicting options: --json prints all ranks and excludes --rank");
    if (o->name && !o->json)
        argp_error(state, "missing option: --name needs --json");
}

static const struct option_row option_rows[] = {
    { "rank", 'r', "RANK", 3, OPTION_CALL(take_rank), "show the program of this rank (default 0)" },
    { "rounds", 0, "N", 3, OPTION_INTEGER(struct show_options, rounds_max, 1, UINT32_MAX),
      "show the first N rounds (default 1000)" },
    { "json", 0, NULL, 3, OPTION_FLAG(struct show_options, json),
      "print the programs of all ranks as a JSON plan (docs/plan-format.md)" },
    { "name", 0, "NAME", 3, OPTION_TEXT(struct show_options, name),
      "with --json: name of the plan, e.g. \"allgather_mine\"; must be unique if the plan will be "
      "loaded" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .check = check_options,
    .args_doc = PLAN_ARGS_DOC,
    .common = &plan_command_line,
    .common_at = offsetof(struct show_options, plan),
    .doc =
        "Prints the program of a rank, round by round.\vA step runs as soon as the bytes that it "
        "uses are available. It does not wait for other steps of the same or earlier rounds. The "
        "end of a put or wait line shows the ranks whose data the message contains.\n\n"
        "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti plan show allreduce ring -n 4 --rank 1\n"
        "  tutti plan show allgather ring -n 4 --json --name allgather_mine > mine.json\n",
};

/* ---- lines ---- */

#define REF_BYTES 80

static const char *ref_text(const struct tt_ref *ref, uint64_t bytes, char *out)
{
    static const char *const names[] = { "SRC", "DST", "WORK", "PIPE", "THERE" };
    uint64_t begin, end;

    tt_ref_extent(ref, bytes, &begin, &end);
    if (ref->buf == TT_BUF_THERE)
        snprintf(out, REF_BYTES, "see matching wait");
    else if (ref->buf == TT_BUF_PIPE)
        snprintf(out, REF_BYTES, "PIPE %" PRIu64, ref->offset);
    else if (ref->block == 0)
        snprintf(out, REF_BYTES, "%s[%" PRIu64 ", %" PRIu64 ")", names[ref->buf], begin, end);
    else
        snprintf(out, REF_BYTES, "%s[%" PRIu64 ", %" PRIu64 ") by %" PRIu64 " every %" PRIu64,
                 names[ref->buf], begin, end, ref->block, ref->stride);
    return out;
}

/* Columns: operation, local memory, peer, memory of the peer, bytes; then `carried`. */
static void print_step(const struct tt_step *s, const char *carried)
{
    char out[REF_BYTES], a[REF_BYTES], b[REF_BYTES], peer[16], right[2 * REF_BYTES + 16];

    ref_text(&s->out, s->bytes, out);
    ref_text(&s->a, s->bytes, a);
    ref_text(&s->b, s->bytes, b);
    snprintf(peer, sizeof peer, "%u", s->peer);
    switch (s->opcode) {
    case TT_PUT:
        printf("  put     %-20s -> %4s  %-20s %8" PRIu64 " B  tag %-4u %s\n", s->bytes ? a : "",
               peer, s->bytes ? out : "", s->bytes, s->tag, carried);
        break;
    case TT_WAIT:
        printf("  wait    %-20s <- %4s  %-20s %8" PRIu64 " B  tag %-4u %s\n", s->bytes ? out : "",
               peer, "", s->bytes, s->tag, carried);
        break;
    case TT_REDUCE_STEP:
        snprintf(right, sizeof right, "%s op %s", a, b);
        printf("  reduce  %-20s =  %-26s %8" PRIu64 " B%s\n", out, right, s->bytes,
               s->finish ? "  finish" : "");
        break;
    default:
        printf("  copy    %-20s =  %-26s %8" PRIu64 " B\n", out, a, s->bytes);
    }
}

/* The transfer of a put or wait; NULL if it has no bytes. */
static const struct tt_transfer *transfer_of(const struct tt_traffic *t, const struct tt_step *s,
                                             uint32_t rank)
{
    const uint32_t from = s->opcode == TT_PUT ? rank : s->peer,
                   to = s->opcode == TT_PUT ? s->peer : rank;

    for (uint32_t i = 0; i < t->ntransfers; i++)
        if (t->transfer[i].from == from && t->transfer[i].to == to && t->transfer[i].tag == s->tag)
            return &t->transfer[i];
    return NULL;
}

static void print_round(const struct tt_sched *s, uint64_t k, uint32_t rank,
                        const struct tt_traffic *t)
{
    printf("\nround %" PRIu64 "%s\n", k, s->n ? "" : ": no steps");
    for (uint32_t i = 0; i < s->n; i++) {
        const struct tt_step *step = &s->steps[i];
        const bool message = step->opcode == TT_PUT || step->opcode == TT_WAIT;
        const struct tt_transfer *x = message && t ? transfer_of(t, step, rank) : NULL;
        char carried[128] = "";

        print_step(step, x ? plan_carried(t, x, carried, sizeof carried) : "");
    }
}

/* ---- totals ---- */

struct sums {
    uint64_t puts, put_bytes, waits, wait_bytes, reduces, reduced_bytes, copies, copied_bytes;
};

static void add(struct sums *sums, const struct tt_step *s)
{
    uint64_t *const n[] = { &sums->puts, &sums->waits, &sums->reduces, &sums->copies };
    uint64_t *const bytes[] = { &sums->put_bytes, &sums->wait_bytes, &sums->reduced_bytes,
                                &sums->copied_bytes };

    *n[s->opcode] += 1;
    *bytes[s->opcode] += s->bytes;
}

static void print_program(const struct plan *p, const struct show_options *o,
                          const struct tt_traffic *t)
{
    const struct tt_coll *c = &p->coll[o->rank];
    const uint64_t nrounds = p->algo->nrounds(c);
    struct tt_step steps[TT_ROUND_STEPS_MAX];
    struct sums sums = { 0 };
    char title[160];

    printf("%s: program of rank %u\n%s; WORK %" PRIu64 " B\n", plan_title(p, title, sizeof title),
           o->rank, p->algo->summary, p->algo->work_bytes(c));
    if (p->algo->needs)
        printf("needs %s%s\n", p->algo->needs, tt_algo_if_named(p->algo));
    for (uint64_t k = 0; k < nrounds && k < o->rounds_max; k++) {
        struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };

        p->algo->round(&s, c, k);
        print_round(&s, k, o->rank, t);
        for (uint32_t i = 0; i < s.n; i++)
            add(&sums, &steps[i]);
    }
    if (nrounds > o->rounds_max)
        printf("\n... %" PRIu64 " of %" PRIu64 " rounds are not shown; the totals exclude them\n",
               nrounds - o->rounds_max, nrounds);
    printf("\ntotal: sends %" PRIu64 " B in %" PRIu64 ", receives %" PRIu64 " B in %" PRIu64
           ", reduces %" PRIu64 " B in %" PRIu64 ", copies %" PRIu64 " B in %" PRIu64 " steps\n",
           sums.put_bytes, sums.puts, sums.wait_bytes, sums.waits, sums.reduced_bytes, sums.reduces,
           sums.copied_bytes, sums.copies);
}

/* ---- the subcommand ---- */

/* Shows the program of a rank; with few enough ranks, also the origins of the data in its
 * messages. */
static bool show_rank(const struct plan *p, const struct show_options *o)
{
    struct tt_program program;
    struct tt_traffic traffic;
    bool fine;

    if (o->rank >= p->nranks) {
        fprintf(stderr, "tutti plan: invalid rank: %u (must be 0 to %u)\n", o->rank, p->nranks - 1);
        return false;
    }
    if (p->nranks > RANKS_TRACED_MAX) {
        print_program(p, o, NULL);
        return true;
    }
    if (!plan_program(p, &program))
        return false;
    fine = plan_traffic(p, &program, &traffic);
    if (fine) {
        print_program(p, o, &traffic);
        tt_traffic_fini(&traffic);
    }
    tt_program_fini(&program);
    return fine;
}

static bool show_json(const struct plan *p, const char *name)
{
    struct tt_program program;

    if (!tt_plan_has_json(p->algo->kind)) {
        fprintf(stderr,
                "tutti plan: cannot print %s as JSON: calls with counts per rank, and send/recv, "
                "have no JSON form\n",
                tt_coll_name(p->algo->kind));
        return false;
    }
    if (name && !tt_plan_name_is_fine(name, p->algo->kind)) {
        fprintf(stderr,
                "tutti plan: --name %s: must be \"%s_\" followed by letters, digits and _, with "
                "fewer than %u characters in all\n",
                name, tt_coll_name(p->algo->kind), TT_PLAN_NAME_BYTES);
        return false;
    }
    if (!plan_program(p, &program))
        return false;
    tt_plan_write_json(stdout, &program, name ? name : p->algo->name);
    tt_program_fini(&program);
    return true;
}

int plan_show_main(int argc, char **argv)
{
    struct show_options o = { .rounds_max = ROUNDS_DEFAULT };
    struct plan plan;
    bool fine;

    command_line_read(&command, &o, argc, argv);
    if (!plan_open(&plan, &o.plan, o.json ? RANKS_JSON_MAX : RANKS_MAX))
        return 1;
    fine = o.json ? show_json(&plan, o.name) : show_rank(&plan, &o);
    plan_close(&plan);
    return fine && fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
