/* The errors found by the verifier, each in a minimal program, written by hand. */
#include <stdio.h>
#include <string.h>
#include "sched/verify.h"
#include "support/unit.h"

#define RANKS 3
#define STEPS 12

/* A program in memory of the test. */
struct hand {
    struct tt_program p;
    struct tt_coll coll[RANKS];
    struct tt_step steps[RANKS][STEPS], *step_of[RANKS];
    uint64_t nsteps[RANKS], work_bytes[RANKS];
    struct tt_sched s[RANKS];
};

static void begin(struct hand *h, enum tt_coll_kind kind, uint32_t nranks, uint64_t bytes,
                  bool in_place)
{
    memset(h, 0, sizeof *h);
    for (uint32_t r = 0; r < nranks; r++) {
        h->coll[r] = (struct tt_coll){
            .kind = kind,
            .rank = r,
            .nranks = nranks,
            .elem_bytes = 4,
            .bytes = bytes,
            .in_place = in_place,
        };
        h->work_bytes[r] = 64;
        h->step_of[r] = h->steps[r];
        h->s[r] = (struct tt_sched){ .steps = h->steps[r], .cap = STEPS };
    }
    h->p = (struct tt_program){
        .nranks = nranks,
        .coll = h->coll,
        .steps = h->step_of,
        .nsteps = h->nsteps,
        .work_bytes = h->work_bytes,
    };
}

/* Returns "" if it is proven, else the error. Static storage. */
static const char *finding(struct hand *h)
{
    static char why[1024];

    for (uint32_t r = 0; r < h->p.nranks; r++)
        h->nsteps[r] = h->s[r].n;
    why[0] = '\0';
    if (tt_verify(&h->p, why, sizeof why) == TUTTI_OK)
        return "";
    assert_true(why[0]);
    return why;
}

static void finds(struct hand *h, const char *what)
{
    const char *why = finding(h);

    if (!strstr(why, what))
        print_error("wanted \"%s\", got \"%s\"\n", what, why);
    assert_non_null(strstr(why, what));
}

/* Two ranks exchange blocks of 8 B: steps put, wait, copy. */
static void begin_allgather(struct hand *h)
{
    begin(h, TT_ALLGATHER, 2, 8, false);
    for (uint32_t r = 0; r < 2; r++) {
        tt_sched_put(&h->s[r], 1 - r, tt_src(0), tt_dst(8 * r), 8, 5);
        tt_sched_wait(&h->s[r], 1 - r, tt_dst(8 * (1 - r)), 8, 5);
        tt_sched_copy(&h->s[r], tt_dst(8 * r), tt_src(0), 8);
    }
}

/* Two ranks exchange vectors of 8 B, and both reduce them: steps put, wait, reduce. */
static void begin_allreduce(struct hand *h)
{
    begin(h, TT_ALLREDUCE, 2, 8, false);
    for (uint32_t r = 0; r < 2; r++) {
        tt_sched_put(&h->s[r], 1 - r, tt_src(0), tt_pipe(1), 8, 0);
        tt_sched_wait(&h->s[r], 1 - r, tt_pipe(1), 8, 0);
        tt_sched_reduce(&h->s[r], tt_dst(0), r == 0 ? tt_src(0) : tt_pipe(1),
                        r == 0 ? tt_pipe(1) : tt_src(0), 8, true);
    }
}

static void right_programs_are_proven(void **state)
{
    struct hand h;

    (void)state;
    begin_allgather(&h);
    finds(&h, "");
    assert_string_equal(finding(&h), "");
    begin_allreduce(&h);
    assert_string_equal(finding(&h), "");
}

static void puts_and_waits_must_match(void **state)
{
    struct hand h;

    (void)state;
    begin_allgather(&h);
    h.s[0].n = 0;
    finds(&h, "no matching");
    begin_allgather(&h);
    h.steps[1][1].opcode = TT_COPY;
    h.steps[1][1].a = tt_src(0);
    finds(&h, "no matching wait");
    begin_allgather(&h);
    h.steps[1][0].opcode = TT_COPY;
    h.steps[1][0].out = tt_dst(8);
    finds(&h, "no matching put");
    begin_allgather(&h);
    h.steps[1][1].tag = 6;
    finds(&h, "has tag 5");
    begin_allgather(&h);
    h.steps[1][1].bytes = 4;
    finds(&h, "the matching put has 8 B");
    begin_allgather(&h);
    h.steps[1][1].round = 1;
    finds(&h, "waits in round 1, but the matching put is in round 0");
    begin_allgather(&h);
    h.steps[1][1].out = tt_dst(4);
    finds(&h, "another destination");
    begin_allgather(&h);
    h.steps[1][0].peer = 1;
    finds(&h, "invalid peer");
    begin_allgather(&h);
    h.steps[1][0].peer = 2;
    finds(&h, "invalid peer");
}

/* The effective length of such a wait is that of its put. */
static void bounded_wait_accepts_shorter_messages(void **state)
{
    struct hand h;

    (void)state;
    begin_allgather(&h);
    h.steps[1][1].bytes = 12;           /* the later copy overwrites the missing part */
    finds(&h, "the matching put has 8 B");
    h.steps[1][1].at_most = true;
    assert_string_equal(finding(&h), "");
    h.steps[1][1].bytes = 20;
    finds(&h, "out of bounds");
    h.steps[1][1].bytes = 4;
    finds(&h, "the matching put has 8 B");
    begin_allgather(&h);
    h.steps[1][1].at_most = true;
    h.steps[0][0].bytes = 4;
    finds(&h, "[4, 8) of its result is not written");
}

/* Rank 0 sends two stretches of a block to rank 1, at 4 and 12. */
static void stretches_match_their_lists(void **state)
{
    static const struct tt_stretch list[] = { { 4, 4 }, { 12, 8 } };
    static const uint64_t none[] = { 0, 0, 0 }, sends[] = { 0, 0, 2 }, recvs[] = { 0, 2, 2 };
    static const uint64_t bytes[] = { 20, 20 }, src[] = { 0, 20 }, dst[] = { 20, 0 };
    const struct tt_stretches x[2] = {
        { .send = list, .recv = list, .send_first = sends, .recv_first = none, .most = 2 },
        { .send = list, .recv = list, .send_first = none, .recv_first = recvs, .most = 2 },
    };
    /* Changes of the second one: its source, the destinations in its put and in its wait, and its
     * length (0: missing). */
    static const struct {
        int64_t src, put, wait;
        uint64_t bytes;
        const char *finding;
    } cases[] = {
        { 0, 0, 0, 8, "" },
        { 0, 4, 0, 8, "the matching wait has another destination" },
        { 0, 0, -4, 8, "the matching wait has another destination" },
        { -4, -4, -4, 12, "[28, 32) of DST is written, but is not part of the result" },
        { 0, 0, 0, 0, "[32, 40) of its result is not written" },
        { -4, 0, 0, 8, "comes from 28, not from 32" },
    };
    struct hand h;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_ref first = tt_there(), second = tt_there();

        first.offset = 4;
        second.offset = (uint64_t)(12 + cases[i].put);
        begin(&h, TT_ALLTOALLV, 2, 0, false);
        for (uint32_t r = 0; r < 2; r++) {
            h.coll[r].send_bytes = h.coll[r].recv_bytes = bytes;
            h.coll[r].send_displs = src;
            h.coll[r].recv_displs = dst;
            h.coll[r].stretches = &x[r];
        }
        tt_sched_put(&h.s[0], 1, tt_src(24), first, 4, 0);
        tt_sched_wait(&h.s[1], 0, tt_dst(24), 4, 0);
        if (cases[i].bytes) {
            tt_sched_put(&h.s[0], 1, tt_src((uint64_t)(32 + cases[i].src)), second, cases[i].bytes,
                         1);
            tt_sched_wait(&h.s[1], 0, tt_dst((uint64_t)(32 + cases[i].wait)), cases[i].bytes, 1);
        }
        if (*cases[i].finding)
            finds(&h, cases[i].finding);
        else
            assert_string_equal(finding(&h), "");
    }
}

static void tags_match_once_in_order(void **state)
{
    struct hand h;

    (void)state;
    begin(&h, TT_BROADCAST, 2, 8, true);
    for (uint32_t tag = 0; tag < 2; tag++) {
        tt_sched_put(&h.s[0], 1, tt_src(4 * tag), tt_dst(4 * tag), 4, tag);
        tt_sched_wait(&h.s[1], 0, tt_dst(4 * tag), 4, tag);
    }
    assert_string_equal(finding(&h), "");
    h.steps[0][1].tag = h.steps[1][1].tag = 0;
    finds(&h, "duplicate tag");
    h.steps[0][1].tag = 1;
    h.steps[1][1].tag = 2;
    finds(&h, "has tag 1");
    h.steps[1][1].tag = 1;
    h.steps[0][0].out = h.steps[0][1].out = tt_there();
    finds(&h, "only put");
}

static void steps_respect_bounds_and_input(void **state)
{
    struct hand h;

    (void)state;
    begin_allgather(&h);
    h.steps[0][0].a = tt_src(4);
    finds(&h, "out of bounds");
    begin_allgather(&h);
    h.steps[0][2].out = tt_strided(tt_dst(0), 4, 16);
    finds(&h, "out of bounds");
    begin_allgather(&h);
    h.steps[0][2].out = tt_strided(tt_dst(0), 4, UINT64_MAX);
    finds(&h, "a value is out of range");
    begin_allgather(&h);
    h.steps[0][2].bytes = UINT64_MAX;
    finds(&h, "a value is out of range");
    begin_allgather(&h);
    h.steps[0][2].out = tt_src(0);
    finds(&h, "writes SRC");
    begin_allgather(&h);
    h.steps[0][2].a = tt_there();
    finds(&h, "invalid buffer");
    begin_allgather(&h);
    h.steps[0][2].opcode = 77;
    finds(&h, "invalid opcode");
    begin_allreduce(&h);
    h.steps[0][2].out = tt_dst(2);
    h.steps[0][2].bytes = 6;
    finds(&h, "splits an element");
    begin_allgather(&h);
    h.steps[0][2].out = tt_dst(4);
    h.steps[0][2].a = tt_dst(0);
    finds(&h, "operands overlap");
}

static void pipe_is_written_and_read_once(void **state)
{
    struct hand h;

    (void)state;
    begin_allreduce(&h);
    h.steps[0][2].b = tt_pipe(2);
    finds(&h, "pipe");
    begin_allreduce(&h);
    h.steps[0][2].bytes = 4;
    finds(&h, "8 B were written to the pipe");
    begin_allreduce(&h);
    tt_sched_copy(&h.s[0], tt_work(0), tt_pipe(1), 8);
    finds(&h, "the pipe is used a second time");
    begin_allreduce(&h);
    h.steps[0][2].b = tt_src(0);
    finds(&h, "the pipe is not read");
    begin_allreduce(&h);
    tt_sched_copy(&h.s[0], tt_work(0), tt_pipe(7), 8);
    finds(&h, "reads a pipe before it is written");
    begin_allreduce(&h);
    h.steps[0][2].round = 1;
    finds(&h, "the pipe was written in another round, 0");
    begin_allreduce(&h);
    h.steps[0][1].out = h.steps[1][0].out = tt_strided(tt_pipe(1), 4, 8);
    finds(&h, "cannot be strided");
}

static void every_byte_needs_its_origin(void **state)
{
    struct hand h;

    (void)state;
    begin_allgather(&h);
    h.s[1].n = 2;
    finds(&h, "[8, 16) of its result is not written");
    begin_allgather(&h);
    h.steps[1][2].bytes = 4;
    finds(&h, "[12, 16) of its result is not written");
    begin_allgather(&h);
    h.steps[1][2].a = tt_dst(0);
    finds(&h, "comes from rank 0, not from rank 1");
    begin_allgather(&h);
    h.steps[1][2].a = tt_strided(tt_src(4), 4, -4ull);
    finds(&h, "a value is out of range");
    begin_allgather(&h);
    h.steps[1][2].a = tt_work(0);
    finds(&h, "reads unwritten bytes");
    begin(&h, TT_BROADCAST, 2, 8, true);
    for (uint32_t i = 0; i < 2; i++) {
        tt_sched_put(&h.s[0], 1, tt_src(4 * i), tt_dst(4 - 4 * i), 4, i);
        tt_sched_wait(&h.s[1], 0, tt_dst(4 - 4 * i), 4, i);
    }
    finds(&h, "comes from 4, not from 0");
}

static void bytes_outside_result_stay_unwritten(void **state)
{
    static const uint64_t bytes[] = { 8, 8 }, displs[] = { 0, 16 };
    struct hand h;

    (void)state;
    begin_allgather(&h);
    for (uint32_t r = 0; r < 2; r++) {
        h.coll[r].kind = TT_ALLGATHERV;
        h.coll[r].recv_bytes = bytes;
        h.coll[r].recv_displs = displs;
        h.steps[r][r == 0 ? 1 : 0].out = h.steps[r][r == 0 ? 1 : 2].out = tt_dst(16);
    }
    assert_string_equal(finding(&h), "");
    tt_sched_copy(&h.s[0], tt_dst(8), tt_src(0), 4);
    finds(&h, "[8, 12) of DST is written, but is not part of the result");
}

static void reductions_include_ranks_once_in_order(void **state)
{
    struct hand h;

    (void)state;
    begin_allreduce(&h);
    h.steps[1][2].a = tt_src(0);
    h.steps[1][2].b = tt_pipe(1);
    finds(&h, "right operand has the lowest rank");
    begin_allreduce(&h);
    h.steps[1][2].finish = false;
    finds(&h, "not finished");
    begin_allreduce(&h);
    tt_sched_copy(&h.s[1], tt_work(0), tt_src(0), 8);
    tt_sched_reduce(&h.s[1], tt_work(0), tt_src(0), tt_work(0), 8, false);
    finds(&h, "reduces a contribution twice");
    begin_allreduce(&h);
    tt_sched_reduce(&h.s[1], tt_dst(0), tt_dst(0), tt_src(0), 8, false);
    finds(&h, "finished result");
    begin_allreduce(&h);
    h.steps[1][2].opcode = TT_COPY;
    finds(&h, "lacks the contribution of rank 1");
    begin_allreduce(&h);
    h.steps[1][2].bytes = h.steps[1][1].bytes = h.steps[0][0].bytes = 4;
    tt_sched_reduce(&h.s[1], tt_dst(4), tt_dst(0), tt_src(4), 4, true);
    h.steps[1][2].finish = false;
    finds(&h, "different elements");
    begin_allgather(&h);
    tt_sched_reduce(&h.s[0], tt_dst(0), tt_dst(0), tt_dst(8), 8, false);
    finds(&h, "without reduction");
}

static void early_finish_is_noticed(void **state)
{
    struct hand h;

    (void)state;
    begin(&h, TT_REDUCE, 3, 8, false);
    for (uint32_t r = 1; r < 3; r++) {
        tt_sched_put(&h.s[r], 0, tt_src(0), tt_pipe(r), 8, 0);
        tt_sched_wait(&h.s[0], r, tt_pipe(r), 8, 0);
        tt_sched_reduce(&h.s[0], tt_dst(0), r == 1 ? tt_src(0) : tt_dst(0), tt_pipe(r), 8, r == 2);
    }
    assert_string_equal(finding(&h), "");
    h.steps[0][1].finish = true;
    finds(&h, "finishes before all contributions are reduced");
}

/* Each waits for the other's message before it sends its own. */
static void circular_wait_is_a_deadlock(void **state)
{
    struct hand h;

    (void)state;
    begin(&h, TT_BARRIER, 2, 0, false);
    for (uint32_t r = 0; r < 2; r++) {
        tt_sched_wait(&h.s[r], 1 - r, tt_work(0), 1, 0);
        tt_sched_put(&h.s[r], 1 - r, tt_work(0), tt_work(0), 1, 0);
    }
    finds(&h, "deadlock");
}

/* With buffers for a message in either direction no step waits for another; but in sequence, all
 * ranks wait before any puts. */
static void universal_wait_before_put_is_found(void **state)
{
    static const uint32_t right[] = { 1, 2, 0 }, left[] = { 2, 0, 1 };
    struct hand h;

    (void)state;
    begin_allgather(&h);
    for (uint32_t r = 0; r < 2; r++) {
        const struct tt_step put = h.steps[r][0];

        h.steps[r][0] = h.steps[r][1];
        h.steps[r][1] = put;
        finds(&h, r == 0 ? "" : "deadlock in program order: circular wait");
        if (r == 0)
            assert_string_equal(finding(&h), "");       /* rank 1 still puts first */
    }

    begin(&h, TT_ALLGATHER, 3, 4, false);
    for (uint32_t r = 0; r < 3; r++) {
        tt_sched_copy(&h.s[r], tt_dst(4 * r), tt_src(0), 4);
        tt_sched_wait(&h.s[r], left[r], tt_dst(4 * left[r]), 4, 0);
        tt_sched_put(&h.s[r], right[r], tt_src(0), tt_dst(4 * r), 4, 0);
        tt_sched_wait(&h.s[r], right[r], tt_dst(4 * right[r]), 4, 0);
        tt_sched_put(&h.s[r], left[r], tt_src(0), tt_dst(4 * r), 4, 0);
    }
    finds(&h, "step 1 (");
    finds(&h, "deadlock in program order: circular wait");
    h.s[2].n = 1;
    for (uint32_t i = 0; i < 2; i++)    /* one rank that puts first lets all others continue */
        tt_sched_put(&h.s[2], i, tt_src(0), tt_dst(8), 4, 0);
    for (uint32_t i = 0; i < 2; i++)
        tt_sched_wait(&h.s[2], i, tt_dst(4 * i), 4, 0);
    assert_string_equal(finding(&h), "");
}

/* An exchange in place, directly into memory that is being sent: it would complete only with
 * buffers. */
static void exchange_over_own_source_deadlocks(void **state)
{
    struct hand h;

    (void)state;
    begin(&h, TT_ALLTOALL, 2, 8, true);
    for (uint32_t r = 0; r < 2; r++) {
        tt_sched_put(&h.s[r], 1 - r, tt_src(8 * (1 - r)), tt_there(), 8, 0);
        tt_sched_wait(&h.s[r], 1 - r, tt_dst(8 * (1 - r)), 8, 0);
    }
    finds(&h, "deadlock");
    for (uint32_t r = 0; r < 2; r++) {
        h.steps[r][1].out = tt_pipe(0);
        tt_sched_copy(&h.s[r], tt_dst(8 * (1 - r)), tt_pipe(0), 8);
    }
    assert_string_equal(finding(&h), "");
}

/* Each rank forwards a sum through pipes. The next rank has space for it only after it has
 * forwarded its own sum. */
static void segmented_ring_of_pipes_deadlocks(void **state)
{
    struct hand h;

    (void)state;
    begin(&h, TT_ALLREDUCE, 3, 8, false);
    for (uint32_t r = 0; r < 3; r++) {
        tt_sched_put(&h.s[r], (r + 1) % 3, tt_src(0), tt_pipe(0), 8, 0);
        tt_sched_wait(&h.s[r], (r + 2) % 3, tt_pipe(0), 8, 0);
        tt_sched_reduce(&h.s[r], tt_pipe(1), tt_pipe(0), tt_src(0), 8, false);
        tt_sched_put(&h.s[r], (r + 1) % 3, tt_pipe(1), tt_pipe(2), 8, 1);
        tt_sched_wait(&h.s[r], (r + 2) % 3, tt_pipe(2), 8, 1);
        tt_sched_reduce(&h.s[r], tt_dst(0), tt_pipe(2), tt_src(0), 8, true);
    }
    finds(&h, "deadlock with segments");
}

/* The first half of each rank's message is its own data, the second the first half of the other's:
 * ordered byte by byte, but as whole messages they wait for each other. */
static void unsegmented_half_exchange_deadlocks(void **state)
{
    struct hand h;

    (void)state;
    begin(&h, TT_ALLREDUCE, 2, 8, false);
    for (uint32_t r = 0; r < 2; r++) {
        tt_sched_wait(&h.s[r], 1 - r, tt_work(16), 16, 0);
        tt_sched_copy(&h.s[r], tt_work(0), tt_src(0), 8);
        tt_sched_copy(&h.s[r], tt_work(8), tt_work(16), 8);
        tt_sched_put(&h.s[r], 1 - r, tt_work(0), tt_work(16), 16, 0);
    }
    finds(&h, "deadlock without segments");
}

/* Rank 1 uses DST as scratch where rank 0's block will arrive; no message notifies rank 0 of the
 * end of that use. */
static void landing_on_scratch_is_noticed(void **state)
{
    struct tt_early early;
    struct hand h;
    char why[256];

    (void)state;
    begin_allgather(&h);
    h.s[1].n = 0;
    tt_sched_put(&h.s[1], 0, tt_src(0), tt_dst(8), 8, 5);
    tt_sched_copy(&h.s[1], tt_dst(0), tt_src(0), 8);
    tt_sched_copy(&h.s[1], tt_dst(8), tt_dst(0), 8);
    tt_sched_wait(&h.s[1], 0, tt_dst(0), 8, 5);
    finds(&h, "may arrive while earlier steps");
    assert_int_equal(tt_verify_early(&h.p, &early, why, sizeof why), TUTTI_OK);
    assert_int_equal(early.unsafe, 1);
    assert_int_equal(early.rank, 1);
    assert_int_equal(early.step, 3);
    h.p.direct_unsafe = true;
    assert_string_equal(finding(&h), "");
}

/* Rank 1's vector returns reduced to its origin: rank 0 can only have computed it after reading
 * it. */
static void landing_on_read_source_is_safe(void **state)
{
    struct hand h;

    (void)state;
    begin(&h, TT_ALLREDUCE, 2, 8, true);
    tt_sched_put(&h.s[1], 0, tt_src(0), tt_pipe(0), 8, 0);
    tt_sched_wait(&h.s[0], 1, tt_pipe(0), 8, 0);
    tt_sched_reduce(&h.s[0], tt_dst(0), tt_src(0), tt_pipe(0), 8, true);
    tt_sched_put(&h.s[0], 1, tt_dst(0), tt_dst(0), 8, 0);
    tt_sched_wait(&h.s[1], 0, tt_dst(0), 8, 0);
    assert_string_equal(finding(&h), "");
}

/* Safe for the half that rank 0 computed from rank 1's, but not for the other, which it could send
 * at once: order is per byte, not per step. */
static void order_is_per_byte(void **state)
{
    struct tt_early early;
    struct hand h;
    char why[256];

    (void)state;
    begin(&h, TT_ALLGATHER, 2, 8, true);
    tt_sched_put(&h.s[1], 0, tt_src(0), tt_dst(8), 8, 0);
    tt_sched_wait(&h.s[0], 1, tt_dst(8), 8, 0);
    tt_sched_put(&h.s[0], 1, tt_dst(0), tt_dst(0), 16, 0);
    tt_sched_wait(&h.s[1], 0, tt_dst(0), 16, 0);
    h.nsteps[0] = h.s[0].n;
    h.nsteps[1] = h.s[1].n;
    assert_int_equal(tt_verify_early(&h.p, &early, why, sizeof why), TUTTI_OK);
    assert_int_equal(early.unsafe, 0);

    begin(&h, TT_ALLGATHER, 2, 8, false);
    tt_sched_put(&h.s[1], 0, tt_src(0), tt_dst(8), 8, 0);
    tt_sched_copy(&h.s[1], tt_dst(0), tt_src(0), 8);
    tt_sched_copy(&h.s[1], tt_dst(8), tt_dst(0), 8);
    tt_sched_wait(&h.s[0], 1, tt_dst(8), 8, 0);
    tt_sched_copy(&h.s[0], tt_dst(0), tt_src(0), 8);
    tt_sched_put(&h.s[0], 1, tt_dst(0), tt_dst(0), 16, 0);
    tt_sched_wait(&h.s[1], 0, tt_dst(0), 16, 0);
    finds(&h, "may arrive while earlier steps");
}

static void barrier_needs_every_rank(void **state)
{
    struct hand h;

    (void)state;
    begin(&h, TT_BARRIER, 3, 0, false);
    for (uint32_t r = 0; r < 3; r++) {
        tt_sched_put(&h.s[r], (r + 1) % 3, tt_work(0), tt_work(1), 1, 0);
        tt_sched_wait(&h.s[r], (r + 2) % 3, tt_work(1), 1, 0);
    }
    finds(&h, "may end before rank 1 has started");
    for (uint32_t r = 0; r < 3; r++) {
        tt_sched_put(&h.s[r], (r + 1) % 3, tt_work(1), tt_work(2), 1, 1);
        tt_sched_wait(&h.s[r], (r + 2) % 3, tt_work(2), 1, 1);
    }
    assert_string_equal(finding(&h), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_programs_are_proven),
        cmocka_unit_test(puts_and_waits_must_match),
        cmocka_unit_test(bounded_wait_accepts_shorter_messages),
        cmocka_unit_test(stretches_match_their_lists),
        cmocka_unit_test(tags_match_once_in_order),
        cmocka_unit_test(steps_respect_bounds_and_input),
        cmocka_unit_test(pipe_is_written_and_read_once),
        cmocka_unit_test(every_byte_needs_its_origin),
        cmocka_unit_test(bytes_outside_result_stay_unwritten),
        cmocka_unit_test(reductions_include_ranks_once_in_order),
        cmocka_unit_test(early_finish_is_noticed),
        cmocka_unit_test(circular_wait_is_a_deadlock),
        cmocka_unit_test(universal_wait_before_put_is_found),
        cmocka_unit_test(exchange_over_own_source_deadlocks),
        cmocka_unit_test(segmented_ring_of_pipes_deadlocks),
        cmocka_unit_test(unsegmented_half_exchange_deadlocks),
        cmocka_unit_test(landing_on_scratch_is_noticed),
        cmocka_unit_test(landing_on_read_source_is_safe),
        cmocka_unit_test(order_is_per_byte),
        cmocka_unit_test(barrier_needs_every_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
