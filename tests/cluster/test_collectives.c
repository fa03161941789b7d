/* Every collective on real ranks, compared with its definition for all transports, numbers of
 * ranks, sizes, types, operations and algorithms. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "algo/algos.h"
#include "calls.h"
#include "job.h"
#include "reduce/reduce.h"
#include "support/unit.h"

#define RANKS_MAX 5
#define SEED 20260401

static const char *const wires[] = { "shm", "tcp" };
static const size_t sizes[] = { 0, 1, 3, 1000, 65537 };
#define NWIRES (sizeof wires / sizeof *wires)
#define NSIZES (sizeof sizes / sizeof *sizes)

/* Runs role on every transport with first..last ranks. */
static void over_jobs(uint32_t first, uint32_t last, void (*role)(struct rank *))
{
    for (size_t w = 0; w < NWIRES; w++)
        for (uint32_t n = first; n <= last; n++) {
            const struct job job = { .wires = wires[w], .nranks = n, .seed = job_seed(SEED) + n };

            job_run(&job, role);
        }
}

/* Index for unit_has_turn: jobs with other transports or numbers of ranks try other cases. */
static uint32_t job_number(const struct rank *r)
{
    return r->nranks + (strcmp(r->job->wires, wires[0]) ? 1 : 0);
}

/* Makes and checks one call; each rank chooses at random whether it blocks or polls a request. */
static uint64_t check_call(struct rank *r, const struct call *c)
{
    char text[CALL_TEXT_BYTES], why[CALL_TEXT_BYTES];
    const bool with_request = tt_prng_below(&r->prng, 2);
    struct call_side s;
    uint64_t hash;

    call_print(c, text);
    job_step(r, "%s, %s", text, with_request ? "request" : "blocking");
    call_init(&s, c, r->rank);
    CHECK_OK(r, call_go(&s, r->comm, with_request));
    if (with_request) {
        for (uint64_t polls = tt_prng_below(&r->prng, 20);
             polls > 0 && tutti_test(s.request) == TUTTI_PENDING; polls--)
            ;
        CHECK_OK(r, tutti_wait(s.request));
    }
    if (!call_is_right(&s, why))
        job_fail(r, __FILE__, __LINE__, "%s", why);
    hash = call_result_hash(&s);
    call_fini(&s);
    return hash;
}

/* ---- kinds and sizes ---- */

static void kinds_role(struct rank *r)
{
    job_open(r);
    for (uint32_t round = 0; round < (UNIT_SHARE > 1 ? 1 : 3); round++)
        for (uint32_t kind = 0; kind < CALL_KINDS; kind++)
            for (size_t i = 0; i < NSIZES; i++) {
                const struct call c =
                    call_draw(&r->common, (enum tt_coll_kind)kind, sizes[i], r->nranks);

                check_call(r, &c);
            }
}

static void every_collective_matches_its_definition(void **state)
{
    (void)state;
    over_jobs(1, RANKS_MAX, kinds_role);
}

/* ---- types and operations ---- */

static void types_role(struct rank *r)
{
    static const enum tt_coll_kind kinds[] = { TT_ALLREDUCE, TT_REDUCE, TT_REDUCE_SCATTER,
                                               TT_REDUCE_SCATTERV };
    static const size_t counts[] = { 1, 1000, 20001 };
    uint32_t i = 0;

    job_open(r);
    for (uint32_t type = 0; type < TUTTI_DTYPE_COUNT; type++)
        for (uint32_t op = 0; op < TUTTI_REDOP_COUNT; op++)
            for (size_t k = 0; k < 3; k++, i++) {
                struct call c =
                    call_draw(&r->common, kinds[k == 0 ? 0 : i % 4], counts[k], r->nranks);

                c.type = (tutti_dtype)type;
                c.op = (tutti_redop)op;
                if (!unit_has_turn(type + op + k + job_number(r), 3))
                    continue;
                if (call_exists(&c))
                    check_call(r, &c);
                else
                    CHECK_STATUS(r, tutti_allreduce(&i, &i, 1, c.type, c.op, r->comm, NULL),
                                 TUTTI_ERR_INVALID);
            }
}

static void every_operation_supports_its_types(void **state)
{
    (void)state;
    over_jobs(2, 3, types_role);
}

/* Two runs of each case must have bitwise identical results, on all ranks. */
static void rough_role(struct rank *r)
{
    static const tutti_dtype types[] = { TUTTI_F16, TUTTI_BF16,   TUTTI_F32,
                                         TUTTI_F64, TUTTI_F8E4M3, TUTTI_F8E5M2 };
    uint32_t n = 0;

    job_open(r);
    for (size_t a = 0; a < tt_nalgos; a++)
        for (size_t t = 0; t < sizeof types / sizeof *types && tt_algos[a]->kind == TT_ALLREDUCE;
             t++) {
            struct call c = call_draw(&r->common, TT_ALLREDUCE, t % 2 ? 1000 : 30011, r->nranks);
            const uint32_t word = n++ % 2;      /* other ranks may still read the previous one */
            struct tt_coll coll = { .kind = TT_ALLREDUCE, .nranks = r->nranks };
            uint64_t hash;

            c.type = types[t];
            c.op = TUTTI_SUM;
            c.rough = true;
            c.algo = tt_algos[a]->name;
            coll.rank = r->rank;
            coll.elem_bytes = (uint32_t)tutti_dtype_bytes(c.type);
            coll.bytes = c.count * coll.elem_bytes;
            if (!tt_algos[a]->fits(&coll) || !unit_has_turn(a + t + t / 2 + job_number(r), 2))
                continue;
            hash = check_call(r, &c);
            CHECK(r, check_call(r, &c) == hash);
            r->board->word[r->rank][word] = hash;
            job_meet(r);
            for (uint32_t peer = 0; peer < r->nranks; peer++)
                CHECK(r, r->board->word[peer][word] == hash);
        }
    CHECK(r, n > 0);
}

static void rounding_sums_are_bounded_and_identical(void **state)
{
    (void)state;
    over_jobs(2, RANKS_MAX, rough_role);
}

/* ---- algorithms ---- */

static void force(struct rank *r, const struct tt_algo *algo, size_t count)
{
    struct call c = call_draw(&r->common, algo->kind, count, r->nranks);
    uint64_t arrays[4 * CALL_RANKS_MAX];
    struct call_side s;
    struct tt_layout here;      /* as seen by the library: one host */
    struct tt_coll coll;
    bool fits;

    c.algo = algo->name;
    call_init(&s, &c, r->rank);
    coll = call_coll(&s, arrays);
    tt_layout_regular(&here, r->nranks, r->nranks, 1, 1, TT_NODE_MESH);
    coll.layout = &here;
    fits = tt_algo_fits_named(algo, &coll);
    if (!fits) {
        job_step(r, "%s, which does not fit", algo->name);
        CHECK_STATUS(r, call_go(&s, r->comm, false), TUTTI_ERR_INVALID);
        CHECK(r, strstr(tutti_last_error(), algo->name));
    }
    call_fini(&s);
    if (fits)
        check_call(r, &c);
}

static void algos_role(struct rank *r)
{
    static const size_t counts[] = { 1, 1000, 5000, 65537 };

    job_open(r);
    for (size_t a = 0; a < tt_nalgos; a++)
        for (size_t i = 0; i < 4 && tt_algos[a]->kind < CALL_KINDS; i++)
            if (unit_has_turn(a + i + job_number(r), 4))
                force(r, tt_algos[a], counts[i]);
}

static void every_algorithm_can_be_forced(void **state)
{
    (void)state;
    over_jobs(2, RANKS_MAX, algos_role);
}

/* ---- transfer methods ---- */

/* Sizes that are long enough for direct copies by process_vm_readv. All ranks, all but one, or none
 * may use these; or one rank is not reached by shared memory; or settings differ between ranks, and
 * those of rank 0 apply. */
static void ways_role(struct rank *r)
{
    static const size_t counts[] = { 1000, 40000, 90001, 262145 };
    const char *odd = r->job->arg;

    setenv("TUTTI_CMA", "2", 1);
    if (odd && strcmp(odd, "none") == 0)
        setenv("TUTTI_CMA", "0", 1);
    else if (odd && strcmp(odd, "far") == 0)
        setenv("TUTTI_WIRES", r->rank == 1 ? "tcp" : "shm,tcp", 1);
    else if (odd && strcmp(odd, "sizes") == 0)
        setenv("TUTTI_EAGER_BYTES", r->rank == 0 ? "32768" : "0", 1);
    else if (odd && r->rank == 1)
        setenv("TUTTI_CMA", "0", 1);
    job_open(r);
    for (uint32_t kind = 0; kind < CALL_KINDS; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            struct call c = call_draw(&r->common, (enum tt_coll_kind)kind, counts[i], r->nranks);

            if (!unit_has_turn(kind + i + r->job->seed, 4))
                continue;       /* each call is slow */
            c.in_place = c.in_place && i == 0;
            check_call(r, &c);
        }
}

static void every_transfer_method_is_correct(void **state)
{
    static const char *const odd[] = { NULL, "one", "none", "far", "sizes" };

    (void)state;
    for (uint32_t i = 0; i < (UNIT_SHARE > 1 ? 5 : 15); i++) {
        const struct job job = {
            .wires = "shm", .nranks = 2 + i % 3, .seed = job_seed(SEED) + i, .arg = odd[i % 5]
        };

        job_run(&job, ways_role);
    }
}

/* ---- lanes ---- */

#define LANES 4
#define UNTIL_S 60

/* Makes calls until this process, like every other, has that many descriptors: lanes are opened
 * gradually. */
static void await_descriptors(struct rank *r, uint32_t wanted)
{
    const uint64_t deadline_ns = tt_now_ns() + UNTIL_S * TT_SECOND;
    int32_t good;

    job_step(r, "wait for %u descriptors", wanted);
    do {
        good = job_descriptors() == wanted;
        CHECK_OK(r, tutti_allreduce(&good, &good, 1, TUTTI_I32, TUTTI_MIN, r->comm, NULL));
        CHECK(r, good || tt_now_ns() < deadline_ns);
    } while (!good);
}

/* Each link has TUTTI_LANES connections, and every kind of call works over them. */
static void lanes_role(struct rank *r)
{
    static const size_t counts[] = { 3, 1000, 65537, 300007 };
    uint8_t all_to_all[2 * CALL_RANKS_MAX] = { 0 };
    uint32_t with_one;

    setenv("TUTTI_LANES", "1", 1);
    job_open(r);
    CHECK_OK(r,
             tutti_alltoall(all_to_all, all_to_all + CALL_RANKS_MAX, 1, TUTTI_U8, r->comm, NULL));
    with_one = UINT32_MAX;
    for (int i = 0; i < 100; i++) {     /* ignores descriptors that start-up has not closed yet */
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        with_one = job_descriptors() < with_one ? job_descriptors() : with_one;
    }
    job_meet(r);
    job_close(r);
    job_meet(r);
    setenv("TUTTI_LANES", "4", 1);
    job_open(r);
    CHECK_OK(r,
             tutti_alltoall(all_to_all, all_to_all + CALL_RANKS_MAX, 1, TUTTI_U8, r->comm, NULL));
    await_descriptors(r, with_one + (LANES - 1) * (r->nranks - 1));
    for (uint32_t kind = 0; kind < CALL_KINDS; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            const struct call c =
                call_draw(&r->common, (enum tt_coll_kind)kind, counts[i], r->nranks);

            if (unit_has_turn(kind + i, 3))
                check_call(r, &c);
        }
}

static void collectives_are_right_over_several_lanes(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= (UNIT_SHARE > 1 ? 2 : 4); n++) {
        const struct job job = { .wires = "tcp", .nranks = n, .seed = job_seed(SEED) + n };

        job_run(&job, lanes_role);
    }
}

/* ---- alignment ---- */

static void skews_role(struct rank *r)
{
    job_open(r);
    for (uint32_t src = 0; src < 8; src++)
        for (uint32_t dst = 0; dst < 8; dst++) {
            const enum tt_coll_kind kind = (enum tt_coll_kind)((src + 3 * dst) % TT_BARRIER);
            struct call c = call_draw(&r->common, kind, dst % 2 ? 700 : 12345, r->nranks);

            c.src_skew = src;
            c.dst_skew = dst;
            c.in_place = false;
            if (unit_has_turn(src + dst + job_number(r), 2))
                check_call(r, &c);
        }
}

static void buffers_may_begin_at_any_address(void **state)
{
    (void)state;
    over_jobs(3, 3, skews_role);
}

/* ---- many concurrent calls ---- */

#define AT_ONCE 40              /* more operations of one communicator than peers can see at once */

static void many_role(struct rank *r)
{
    struct call_side *s = calloc(AT_ONCE, sizeof *s);
    char why[CALL_TEXT_BYTES];
    uint32_t order[AT_ONCE];

    CHECK(r, s);
    job_open(r);
    for (uint32_t round = 0; round < 4; round++) {
        job_step(r, "round %u: start", round);
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t kind = (uint32_t)tt_prng_below(&r->common, CALL_KINDS);
            const struct call c = call_draw(&r->common, (enum tt_coll_kind)kind,
                                            sizes[tt_prng_below(&r->common, NSIZES)], r->nranks);
            const uint32_t j = (uint32_t)tt_prng_below(&r->prng, i + 1);

            call_init(&s[i], &c, r->rank);
            CHECK_OK(r, call_go(&s[i], r->comm, true));
            order[i] = order[j];
            order[j] = i;
        }
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            struct call_side *one = &s[order[k]];
            char text[CALL_TEXT_BYTES];

            call_print(&one->call, text);
            job_step(r, "round %u: wait for number %u, %s", round, order[k], text);
            CHECK_OK(r, tutti_wait(one->request));
            if (!call_is_right(one, why))
                job_fail(r, __FILE__, __LINE__, "%s", why);
            call_fini(one);
        }
    }
    free(s);
}

static void concurrent_calls_complete_in_any_order(void **state)
{
    (void)state;
    over_jobs(1, 4, many_role);
}

/* ---- sequences ---- */

#define IN_A_ROW (4000 / UNIT_SHARE)
#define FIFTY 50                /* elements: too many for the inline payload of a cell */

/* Contribution of a rank to call i: small, so that sums are exact. */
static uint32_t brought(uint32_t i, uint32_t rank) { return i % 1000 * 7 + rank; }

static uint32_t brought_by_all(uint32_t i, uint32_t nranks)
{
    return i % 1000 * 7 * nranks + nranks * (nranks - 1) / 2;
}

/* Makes one short call of a random kind, equal on all ranks. Returns the expected result; the
 * actual one is in got[0] and got[n - 1]. */
static uint32_t short_call(struct rank *r, uint32_t i, uint32_t *mine, uint32_t *got)
{
    const uint32_t kind = (uint32_t)tt_prng_below(&r->common, 5), root = i % r->nranks;
    const size_t n = tt_prng_below(&r->common, 2) ? FIFTY : 1;
    uint32_t want = brought_by_all(i, r->nranks);

    got[0] = got[FIFTY - 1] = UINT32_MAX;
    if (kind == 0) {
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        got[0] = want;
    } else if (kind == 1) {
        want = brought(i, root);
        got[0] = got[n - 1] = brought(i, r->rank);
        CHECK_OK(r, tutti_broadcast(got, got, n, TUTTI_U32, (int)root, r->comm, NULL));
    } else if (kind == 2) {
        CHECK_OK(r, tutti_allgather(mine, got, 1, TUTTI_U32, r->comm, NULL));
        for (uint32_t k = 1; k < r->nranks; k++)
            got[0] += got[k];
    } else {
        CHECK_OK(r, tutti_allreduce(mine, got, n, TUTTI_U32, TUTTI_SUM, r->comm, NULL));
    }
    if (kind == 0 || kind == 2 || n == 1)
        got[FIFTY - 1] = got[0];
    return want;
}

static void row_role(struct rank *r)
{
    uint32_t mine[FIFTY], got[FIFTY] = { 0 };

    job_open(r);
    for (uint32_t i = 0; i < IN_A_ROW; i++) {
        uint32_t want;

        for (uint64_t late = tt_prng_below(&r->prng, 8) ? 0 : tt_prng_below(&r->prng, 30); late > 0;
             late--)
            sched_yield();      /* lets other ranks run some calls ahead */
        for (uint32_t k = 0; k < FIFTY; k++)
            mine[k] = brought(i, r->rank);
        job_step(r, "call %u", i);
        want = short_call(r, i, mine, got);
        if (got[0] != want || got[FIFTY - 1] != want)
            job_fail(r, __FILE__, __LINE__, "call %u gave %u and %u, and not %u", i, got[0],
                     got[FIFTY - 1], want);
    }
}

static void sequences_of_short_calls_are_correct(void **state)
{
    (void)state;
    over_jobs(2, RANKS_MAX, row_role);
}

/* ---- short calls with requests ---- */

#define PENDING 6

struct pending {
    tutti_request *request;     /* NULL: none */
    uint32_t i;                 /* index of the call */
    size_t n;
    uint32_t src[FIFTY], dst[FIFTY];
};

static void check_sum(struct rank *r, const struct pending *p, tutti_status st)
{
    const uint32_t want = brought_by_all(p->i, r->nranks);

    CHECK_OK(r, st);
    if (p->dst[0] != want || p->dst[p->n - 1] != want)
        job_fail(r, __FILE__, __LINE__, "call %u gave %u and %u, and not %u", p->i, p->dst[0],
                 p->dst[p->n - 1], want);
}

static void start_sum(struct rank *r, struct pending *p, uint32_t i, bool in_place, size_t n)
{
    const tutti_call how = { .size = sizeof how, .request = &p->request };
    uint32_t *src = in_place ? p->dst : p->src;

    p->i = i;
    p->n = n;
    for (size_t k = 0; k < n; k++)
        src[k] = brought(i, r->rank);
    CHECK_OK(r, tutti_allreduce(src, p->dst, n, TUTTI_U32, TUTTI_SUM, r->comm, &how));
}

static void finish_sum(struct rank *r, struct pending *p)
{
    tutti_request *request = p->request;

    p->request = NULL;
    check_sum(r, p, tutti_wait(request));
}

/* Calls of few shapes, so that several of a shape are pending at once and operations are reused;
 * with blocking calls between them. */
static void mixed_role(struct rank *r)
{
    static const size_t counts[] = { 1, 2, FIFTY };
    struct pending all[PENDING] = { { .request = NULL } };

    job_open(r);
    for (uint32_t i = 0; i < IN_A_ROW; i++) {
        struct pending *p = &all[tt_prng_below(&r->prng, PENDING)];
        const size_t n = counts[tt_prng_below(&r->common, 3)];
        const bool in_place = tt_prng_below(&r->common, 2),
                   blocks = tt_prng_below(&r->common, 4) == 0;

        job_step(r, "call %u", i);
        if (p->request)
            finish_sum(r, p);
        start_sum(r, p, i, in_place, n);
        if (blocks) {
            finish_sum(r, p);
            CHECK_OK(r, tutti_allreduce(p->src, p->dst, n, TUTTI_U32, TUTTI_MAX, r->comm, NULL));
        }
    }
    for (size_t k = 0; k < PENDING; k++)
        if (all[k].request)
            finish_sum(r, &all[k]);
}

static void short_requests_complete_in_any_order(void **state)
{
    (void)state;
    over_jobs(2, RANKS_MAX, mixed_role);
}

/* Each second request reuses an operation, which belongs to the communicator. */
static void outlive_role(struct rank *r)
{
    struct pending all[3] = { { .request = NULL } };

    job_open(r);
    for (uint32_t i = 0; i < 6; i++) {
        struct pending *p = &all[i % 3];

        if (p->request)
            finish_sum(r, p);
        start_sum(r, p, i, false, i % 3 == 2 ? FIFTY : 1);
    }
    for (size_t k = 0; k < 3; k++)
        while (tutti_test(all[k].request) == TUTTI_PENDING)
            sched_yield();
    job_meet(r);
    job_close(r);
    for (size_t k = 0; k < 3; k++)
        finish_sum(r, &all[k]);
}

static void short_requests_outlive_their_communicator(void **state)
{
    (void)state;
    over_jobs(2, 3, outlive_role);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_matches_its_definition),
        cmocka_unit_test(every_operation_supports_its_types),
        cmocka_unit_test(rounding_sums_are_bounded_and_identical),
        cmocka_unit_test(every_algorithm_can_be_forced),
        cmocka_unit_test(every_transfer_method_is_correct),
        cmocka_unit_test(collectives_are_right_over_several_lanes),
        cmocka_unit_test(buffers_may_begin_at_any_address),
        cmocka_unit_test(concurrent_calls_complete_in_any_order),
        cmocka_unit_test(sequences_of_short_calls_are_correct),
        cmocka_unit_test(short_requests_complete_in_any_order),
        cmocka_unit_test(short_requests_outlive_their_communicator),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
