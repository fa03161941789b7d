/* The traffic of plans and its congestion, on a host of four ranks: 0 and 1 on one socket, 2 and 3
 * on the other. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sched/traffic.h"
#include "support/cases.h"
#include "support/unit.h"

#define RANKS 4
#define STEPS_MAX 16
#define BLOCK 8

/* One transfer of an allgather, and its expected label: F, S, I or D. */
struct line {
    uint32_t step, from, to, block;
    char label;
};

static const char *const names = "FSID";        /* by enum tt_congestion */

/* A plan with the transfers of the lines, in memory of the test. */
struct hand {
    struct tt_program p;
    struct tt_coll coll[RANKS];
    struct tt_step steps[RANKS][STEPS_MAX], *step_of[RANKS];
    uint64_t nsteps[RANKS], work_bytes[RANKS];
};

static struct tt_sched tail(struct hand *h, uint32_t rank)
{
    return (struct tt_sched){ .steps = h->steps[rank],
                              .n = (uint32_t)h->nsteps[rank],
                              .cap = STEPS_MAX };
}

static void append(struct hand *h, uint32_t rank, const struct tt_sched *s, uint32_t round)
{
    h->steps[rank][s->n - 1].round = round;
    h->nsteps[rank] = s->n;
}

static void write_out(struct hand *h, const struct line *lines, size_t n)
{
    memset(h, 0, sizeof *h);
    h->p = (struct tt_program){
        .nranks = RANKS,
        .nrounds = lines[n - 1].step + 1,
        .coll = h->coll,
        .steps = h->step_of,
        .nsteps = h->nsteps,
        .work_bytes = h->work_bytes,
    };
    for (uint32_t r = 0; r < RANKS; r++) {
        struct tt_sched s = tail(h, r);

        h->coll[r] = (struct tt_coll){
            .kind = TT_ALLGATHER, .rank = r, .nranks = RANKS, .elem_bytes = 4, .bytes = BLOCK
        };
        h->step_of[r] = h->steps[r];
        tt_sched_copy(&s, tt_dst(r * BLOCK), tt_src(0), BLOCK);
        append(h, r, &s, 0);
    }
    for (size_t i = 0; i < n; i++) {
        const struct tt_ref at = tt_dst(lines[i].block * BLOCK);
        struct tt_sched s = tail(h, lines[i].from);

        tt_sched_put(&s, lines[i].to, lines[i].block == lines[i].from ? tt_src(0) : at, at, BLOCK,
                     (uint32_t)i);
        append(h, lines[i].from, &s, lines[i].step);
        s = tail(h, lines[i].to);
        tt_sched_wait(&s, lines[i].from, at, BLOCK, (uint32_t)i);
        append(h, lines[i].to, &s, lines[i].step);
    }
}

/* Checks that the transfers and their labels are exactly those of the lines. */
static void check_lines(const struct tt_program *p, const struct line *lines, size_t n)
{
    struct tt_traffic t;
    struct tt_layout l;
    char why[512] = "";

    tt_layout_regular(&l, RANKS, RANKS, 2, 1, TT_NODE_SOCKETS);
    if (tt_traffic_init(&t, p, &l, why, sizeof why) != TUTTI_OK)
        fail_msg("%s", why);
    assert_int_equal(t.ntransfers, n);
    for (size_t i = 0; i < n; i++) {
        const struct line *want = &lines[i];
        bool found = false;

        for (uint32_t j = 0; j < t.ntransfers && !found; j++) {
            const struct tt_transfer *x = &t.transfer[j];

            found = x->round == want->step && x->from == want->from && x->to == want->to;
            if (found && names[x->congestion] != want->label)
                fail_msg("step %u, %u -> %u is %s, not %c", want->step, want->from, want->to,
                         tt_congestion_name((enum tt_congestion)x->congestion), want->label);
        }
        if (!found)
            fail_msg("step %u: there is no transfer %u -> %u", want->step, want->from, want->to);
    }
    tt_traffic_fini(&t);
}

/* In step k, each rank sends to the k-th rank after it. */
static void linear_broadcast_floods_one_receiver(void **state)
{
    static const struct line lines[] = {
        { 0, 0, 1, 0, 'F' }, { 0, 1, 0, 1, 'F' }, { 0, 2, 0, 2, 'I' }, { 0, 3, 0, 3, 'I' },
        { 1, 0, 2, 0, 'I' }, { 1, 1, 2, 1, 'I' }, { 1, 2, 1, 2, 'I' }, { 1, 3, 1, 3, 'I' },
        { 2, 0, 3, 0, 'I' }, { 2, 1, 3, 1, 'I' }, { 2, 2, 3, 2, 'F' }, { 2, 3, 2, 3, 'F' },
    };
    struct hand h;

    (void)state;
    write_out(&h, lines, sizeof lines / sizeof *lines);
    check_lines(&h.p, lines, sizeof lines / sizeof *lines);
}

/* The registered algorithm: both ranks of a socket send the same two blocks across. */
static void recursive_doubling_takes_blocks_across_twice(void **state)
{
    static const struct line lines[] = {
        { 0, 0, 1, 0, 'F' }, { 0, 1, 0, 1, 'F' }, { 0, 2, 3, 2, 'F' }, { 0, 3, 2, 3, 'F' },
        { 1, 0, 2, 0, 'D' }, { 1, 1, 3, 1, 'D' }, { 1, 2, 0, 2, 'D' }, { 1, 3, 1, 3, 'D' },
    };
    const struct case_spec spec = {
        .algo =
            tt_algo_find(&(struct tt_coll){ .kind = TT_ALLGATHER, .nranks = RANKS }, "doubling"),
        .nranks = RANKS,
        .elem_bytes = 4,
        .count = 2,
        .packed = true,
    };
    static struct case_calls calls;
    struct tt_program p;

    (void)state;
    case_make(&calls, &spec);
    assert_int_equal(tt_program_init(&p, spec.algo, calls.coll, RANKS), TUTTI_OK);
    check_lines(&p, lines, sizeof lines / sizeof *lines);
    tt_program_fini(&p);
}

/* Own block to the neighbour; own block around the ring 0, 2, 1, 3, which alternates between
 * sockets; received blocks to the neighbour. */
static const struct line three_phases[] = {
    { 0, 0, 1, 0, 'F' }, { 0, 1, 0, 1, 'F' }, { 0, 2, 3, 2, 'F' }, { 0, 3, 2, 3, 'F' },
    { 1, 0, 2, 0, 'F' }, { 1, 2, 1, 2, 'F' }, { 1, 1, 3, 1, 'F' }, { 1, 3, 0, 3, 'F' },
    { 2, 0, 1, 3, 'F' }, { 2, 1, 0, 2, 'F' }, { 2, 2, 3, 0, 'F' }, { 2, 3, 2, 1, 'F' },
};
#define THREE_PHASES (sizeof three_phases / sizeof *three_phases)

static void three_phases_are_free_of_congestion(void **state)
{
    struct hand h;

    (void)state;
    write_out(&h, three_phases, THREE_PHASES);
    check_lines(&h.p, three_phases, THREE_PHASES);
}

/* Builds the programs of a registered algorithm on equal hosts. */
static void build(struct tt_program *p, const char *name, const struct tt_layout *l)
{
    static struct case_calls calls;
    struct case_spec spec = { .nranks = l->nranks, .elem_bytes = 4, .count = 2, .packed = true };

    for (size_t i = 0; i < tt_nalgos; i++)
        if (strcmp(tt_algos[i]->name, name) == 0)
            spec.algo = tt_algos[i];
    assert_non_null(spec.algo);
    case_make(&calls, &spec);
    for (uint32_t r = 0; r < l->nranks; r++)
        calls.coll[r].layout = l;
    assert_int_equal(tt_program_init(p, spec.algo, calls.coll, l->nranks), TUTTI_OK);
}

/* The registered algorithm has the same pattern. */
static void parallel_rings_are_three_phases(void **state)
{
    static const char *const algos[] = { "allgather_parallel_rings_sockets",
                                         "allgather_parallel_rings" };
    struct tt_program p;
    struct tt_layout l;

    (void)state;
    tt_layout_regular(&l, RANKS, RANKS, 2, 1, TT_NODE_SOCKETS);
    for (int i = 0; i < 2; i++) {
        build(&p, algos[i], &l);
        check_lines(&p, three_phases, THREE_PHASES);
        tt_program_fini(&p);
    }
}

/* The reduce_scatter has the phases in reverse order, but each rank sums the data of its socket
 * before it receives data from the other. */
static void reversed_rings_are_three_phases(void **state)
{
    static const struct line lines[] = {
        { 0, 0, 1, 0, 'F' }, { 0, 1, 0, 0, 'F' }, { 0, 2, 3, 0, 'F' }, { 0, 3, 2, 0, 'F' },
        { 1, 0, 1, 0, 'F' }, { 1, 1, 0, 0, 'F' }, { 1, 2, 3, 0, 'F' }, { 1, 3, 2, 0, 'F' },
        { 2, 2, 0, 0, 'F' }, { 2, 1, 2, 0, 'F' }, { 2, 3, 1, 0, 'F' }, { 2, 0, 3, 0, 'F' },
    };
    struct tt_program p;
    struct tt_layout l;

    (void)state;
    tt_layout_regular(&l, RANKS, RANKS, 2, 1, TT_NODE_SOCKETS);
    build(&p, "reduce_scatter_parallel_rings", &l);
    check_lines(&p, lines, sizeof lines / sizeof *lines);
    tt_program_fini(&p);
}

/* Returns the number of congested transfers in a run; *n: the number of all transfers. */
static uint32_t congested(const char *name, const struct tt_layout *l, uint32_t *n)
{
    struct tt_program p;
    struct tt_traffic t;
    uint32_t found = 0;
    char why[512] = "";

    build(&p, name, l);
    if (tt_traffic_init(&t, &p, l, why, sizeof why) != TUTTI_OK)
        fail_msg("%s: %s", name, why);
    for (uint32_t i = 0; i < t.ntransfers; i++)
        found += t.transfer[i].congestion != TT_FREE;
    *n = t.ntransfers;
    tt_traffic_fini(&t);
    tt_program_fini(&p);
    return found;
}

/* Also while data of several steps is forwarded concurrently, and with other numbers of sockets and
 * ranks. */
static void socket_rings_are_never_congested(void **state)
{
    static const struct {
        uint32_t ranks, sockets, hosts_max;
    } hosts[] = { { 4, 2, 16 }, { 2, 2, 5 }, { 8, 2, 5 }, { 6, 3, 5 }, { 8, 4, 5 } };
    static const char *const algos[] = {
        "allgather_parallel_rings_sockets", "allgather_parallel_rings",
        "allgatherv_parallel_rings",        "reduce_scatter_parallel_rings",
        "reduce_scatterv_parallel_rings",   "allreduce_parallel_rings",
    };
    struct tt_layout l;
    uint32_t n;

    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        for (uint32_t h = 1; h <= hosts[i].hosts_max; h += h < 5 ? 1 : 11)
            for (size_t a = 0; a < sizeof algos / sizeof *algos; a++) {
                tt_layout_regular(&l, h * hosts[i].ranks, hosts[i].ranks, hosts[i].sockets,
                                  hosts[i].ranks, TT_NODE_SOCKETS);
                if (congested(algos[a], &l, &n) > 0)
                    fail_msg("%s is congested on %u hosts of %u ranks and %u sockets", algos[a], h,
                             hosts[i].ranks, hosts[i].sockets);
                assert_in_range(n, 1, 100000);
            }
}

/* Checks the test above: on the same hosts other forms are congested. */
static void rings_ignoring_sockets_are_congested(void **state)
{
    static const char *const algos[] = {
        "allgather_parallel_rings_linear",
        "allgather_parallel_rings_doubling",
        "allgather_parallel_rings_halving",
        "allgather_parallel_rings_knomial",
    };
    struct tt_layout l;
    uint32_t n;

    (void)state;
    tt_layout_regular(&l, 16, 4, 2, 4, TT_NODE_SOCKETS);
    for (size_t a = 0; a < sizeof algos / sizeof *algos; a++)
        assert_in_range(congested(algos[a], &l, &n), 16, 240);
}

/* The same transfers as in linear, all in one step: those to the other socket are queued at their
 * sender. */
static void concurrent_transfers_queue_at_sender(void **state)
{
    static const struct line lines[] = {
        { 0, 0, 1, 0, 'F' }, { 0, 0, 2, 0, 'S' }, { 0, 0, 3, 0, 'S' }, { 0, 1, 0, 1, 'F' },
        { 0, 1, 2, 1, 'S' }, { 0, 1, 3, 1, 'S' }, { 0, 2, 0, 2, 'S' }, { 0, 2, 1, 2, 'S' },
        { 0, 2, 3, 2, 'F' }, { 0, 3, 0, 3, 'S' }, { 0, 3, 1, 3, 'S' }, { 0, 3, 2, 3, 'F' },
    };
    const struct case_spec spec = {
        .algo = tt_algo_find(&(struct tt_coll){ .kind = TT_ALLGATHER, .nranks = RANKS }, "direct"),
        .nranks = RANKS,
        .elem_bytes = 4,
        .count = 2,
        .packed = true,
    };
    static struct case_calls calls;
    struct tt_program p;

    (void)state;
    case_make(&calls, &spec);
    assert_int_equal(tt_program_init(&p, spec.algo, calls.coll, RANKS), TUTTI_OK);
    check_lines(&p, lines, sizeof lines / sizeof *lines);
    tt_program_fini(&p);
}

/* ---- any plan ---- */

static bool same_load(const struct tt_traffic *t, const struct tt_load *a, const struct tt_load *b)
{
    bool empty = true;      /* space in a message without data */

    for (size_t k = 0; k < t->words; k++)
        empty = empty && t->set[a->set * t->words + k] == 0;
    return !empty && a->offset == b->offset && a->bytes == b->bytes &&
           memcmp(t->set + a->set * t->words, t->set + b->set * t->words,
                  t->words * sizeof *t->set) == 0;
}

/* Returns whether x carries data into a socket that `other`, not later, also carries into it. */
static bool repeats(const struct tt_traffic *t, const struct tt_layout *l,
                    const struct tt_transfer *x, const struct tt_transfer *other)
{
    if (x == other || other->round > x->round || x->over < TT_NEAR_HOST ||
        other->over < TT_NEAR_HOST || tt_layout_socket(l, x->to) != tt_layout_socket(l, other->to))
        return false;
    for (uint32_t i = 0; i < x->nloads; i++)
        for (uint32_t j = 0; j < other->nloads; j++)
            if (same_load(t, &t->load[x->first + i], &t->load[other->first + j]))
                return true;
    return false;
}

/* By the definition, in quadratic time. */
static enum tt_congestion defined(const struct tt_traffic *t, const struct tt_layout *l,
                                  const struct tt_transfer *x)
{
    bool serialized = false, incast = false, duplicate = false;

    for (uint32_t i = 0; i < t->ntransfers; i++) {
        const struct tt_transfer *other = &t->transfer[i];

        if (other == x)
            continue;
        serialized = serialized ||
                     (other->round == x->round && other->from == x->from && other->over == x->over);
        incast = incast || (other->round == x->round && other->to == x->to &&
                            other->over == TT_NEAR_HOST && x->over == TT_NEAR_HOST);
        duplicate = duplicate || repeats(t, l, x, other);
    }
    return serialized ? TT_SERIALIZED : incast ? TT_INCAST : duplicate ? TT_DUPLICATE : TT_FREE;
}

static uint64_t labelled[TT_CONGESTIONS];

static void check_traffic(const struct case_spec *spec, const struct case_calls *calls)
{
    const struct tt_layout *l =
        case_layout(spec->seed % 2 ? LAYOUT_ONE_HOST : LAYOUT_DRAWN, spec->nranks);
    uint64_t put = 0, told = 0;
    struct tt_program p;
    struct tt_traffic t;
    char why[512] = "";

    assert_int_equal(tt_program_init(&p, spec->algo, calls->coll, spec->nranks), TUTTI_OK);
    if (tt_traffic_init(&t, &p, l, why, sizeof why) != TUTTI_OK)
        case_fail(spec, "%s", why);
    for (uint32_t r = 0; r < spec->nranks; r++)
        for (uint64_t i = 0; i < p.nsteps[r]; i++)
            put += p.steps[r][i].opcode == TT_PUT ? p.steps[r][i].bytes : 0;
    for (uint32_t i = 0; i < t.ntransfers; i++) {
        const struct tt_transfer *x = &t.transfer[i];
        uint64_t loads = 0;

        for (uint32_t j = 0; j < x->nloads; j++)
            loads += t.load[x->first + j].bytes;
        if (loads != x->bytes)
            case_fail(spec, "transfer %u of %" PRIu64 " B carries %" PRIu64 " B", i, x->bytes,
                      loads);
        if (x->congestion != defined(&t, l, x))
            case_fail(spec, "step %u, %u -> %u is %s, not %s", x->round, x->from, x->to,
                      tt_congestion_name((enum tt_congestion)x->congestion),
                      tt_congestion_name(defined(&t, l, x)));
        labelled[x->congestion]++;
        told += x->bytes;
    }
    if (told != put)
        case_fail(spec, "%" PRIu64 " B are put, %" PRIu64 " B told", put, told);
    tt_traffic_fini(&t);
    tt_program_fini(&p);
}

static void labels_match_the_definition(void **state)
{
    static const uint64_t counts[] = { 6, 40 };

    (void)state;
    assert_in_range(case_for_some(1, 13, counts, 2, 1, check_traffic), 100, 100000);
    for (int i = 0; i < TT_CONGESTIONS; i++)
        assert_in_range(labelled[i], 100, 10000000);
}

static void origins_are_printed_as_ranges(void **state)
{
    uint64_t set[] = { 0x27 };
    struct tt_load load = { .bytes = 1 };
    struct tt_traffic t = { .nranks = 40, .load = &load, .nloads = 1, .set = set, .words = 1 };
    const struct tt_transfer x = { .nloads = 1 };
    char text[32];
    bool reduced;

    (void)state;
    assert_string_equal(tt_traffic_origins(&t, &x, text, sizeof text, &reduced), "0-2, 5");
    assert_true(reduced);
    assert_string_equal(tt_traffic_origins(&t, &x, text, 10, &reduced), "0-2, ...");
    assert_string_equal(tt_traffic_origins(&t, &x, text, 6, &reduced), "...");
    set[0] = 1;
    assert_string_equal(tt_traffic_origins(&t, &x, text, sizeof text, &reduced), "0");
    assert_false(reduced);
}

static void a_wrong_plan_has_no_traffic(void **state)
{
    static const struct line lines[] = { { 0, 0, 1, 0, 'F' } };
    struct tt_traffic t;
    struct tt_layout l;
    struct hand h;
    char why[512] = "";

    (void)state;
    tt_layout_regular(&l, RANKS, RANKS, 2, 1, TT_NODE_SOCKETS);
    write_out(&h, lines, 1);
    assert_int_equal(tt_traffic_init(&t, &h.p, &l, why, sizeof why), TUTTI_ERR_INVALID);
    assert_non_null(strstr(why, "is not written"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_broadcast_floods_one_receiver),
        cmocka_unit_test(recursive_doubling_takes_blocks_across_twice),
        cmocka_unit_test(three_phases_are_free_of_congestion),
        cmocka_unit_test(parallel_rings_are_three_phases),
        cmocka_unit_test(reversed_rings_are_three_phases),
        cmocka_unit_test(socket_rings_are_never_congested),
        cmocka_unit_test(rings_ignoring_sockets_are_congested),
        cmocka_unit_test(concurrent_transfers_queue_at_sender),
        cmocka_unit_test(labels_match_the_definition),
        cmocka_unit_test(origins_are_printed_as_ranges),
        cmocka_unit_test(a_wrong_plan_has_no_traffic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
