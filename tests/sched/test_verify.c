/* What the verifier finds, each in a program small enough to see it. Programs are written by hand. */
#include <stdio.h>
#include <string.h>
#include "sched/verify.h"
#include "support/unit.h"

#define RANKS 3
#define STEPS 12

/* A program on the test's own memory. */
struct hand {
    struct tt_program p;
    struct tt_coll coll[RANKS];
    struct tt_step steps[RANKS][STEPS], *step_of[RANKS];
    uint64_t nsteps[RANKS], work_bytes[RANKS];
    struct tt_sched s[RANKS];
};

static void begin(struct hand *h, enum tt_coll_kind kind, uint32_t nranks, uint64_t bytes, bool in_place)
{
    memset(h, 0, sizeof *h);
    for (uint32_t r = 0; r < nranks; r++) {
        h->coll[r] = (struct tt_coll){
            .kind = kind, .rank = r, .nranks = nranks, .elem_bytes = 4, .bytes = bytes, .in_place = in_place,
        };
        h->work_bytes[r] = 64;
        h->step_of[r] = h->steps[r];
        h->s[r] = (struct tt_sched){ .steps = h->steps[r], .cap = STEPS };
    }
    h->p = (struct tt_program){
        .nranks = nranks, .coll = h->coll, .steps = h->step_of, .nsteps = h->nsteps, .work_bytes = h->work_bytes,
    };
}

/* "" if it is proven, else the finding. Static storage. */
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

/* Two ranks exchange vectors of 8 B and both reduce them: steps put, wait, reduce. */
static void begin_allreduce(struct hand *h)
{
    begin(h, TT_ALLREDUCE, 2, 8, false);
    for (uint32_t r = 0; r < 2; r++) {
        tt_sched_put(&h->s[r], 1 - r, tt_src(0), tt_pipe(1), 8, 0);
        tt_sched_wait(&h->s[r], 1 - r, tt_pipe(1), 8, 0);
        tt_sched_reduce(&h->s[r], tt_dst(0), r == 0 ? tt_src(0) : tt_pipe(1), r == 0 ? tt_pipe(1) : tt_src(0), 8, true);
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

/* It stands for what its put has. */
static void a_wait_for_at_most_so_much_takes_less_and_no_more(void **state)
{
    struct hand h;

    (void)state;
    begin_allgather(&h);
    h.steps[1][1].bytes = 12;           /* of which the copy behind it overwrites what does not come */
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

/* Rank 0 sends rank 1 two stretches of a block, at 4 and 12. */
static void stretches_lie_where_their_lists_say(void **state)
{
    static const struct tt_stretch list[] = { { 4, 4 }, { 12, 8 } };
    static const uint64_t none[] = { 0, 0, 0 }, sends[] = { 0, 0, 2 }, recvs[] = { 0, 2, 2 };
    static const uint64_t bytes[] = { 20, 20 }, src[] = { 0, 20 }, dst[] = { 20, 0 };
    const struct tt_stretches x[2] = {
        { .send = list, .recv = list, .send_first = sends, .recv_first = none, .most = 2 },
        { .send = list, .recv = list, .send_first = none, .recv_first = recvs, .most = 2 },
    };
    /* What is other with the second: where it is taken from, where its put and its wait say that it goes, and how long it is (0: it is not there). */
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
            tt_sched_put(&h.s[0], 1, tt_src((uint64_t)(32 + cases[i].src)), second, cases[i].bytes, 1);
            tt_sched_wait(&h.s[1], 0, tt_dst((uint64_t)(32 + cases[i].wait)), cases[i].bytes, 1);
        }
        if (*cases[i].finding)
            finds(&h, cases[i].finding);
        else
            assert_string_equal(finding(&h), "");
    }
}

static void a_pair_uses_a_tag_once_and_in_the_same_order(void **state)
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

static void steps_stay_in_bounds_and_off_the_input(void **state)
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

static void a_pipe_is_written_once_and_then_read_once_as_a_whole(void **state)
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

static void every_byte_must_come_from_where_it_should(void **state)
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

static void what_is_not_of_the_result_is_not_written(void **state)
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

static void reductions_take_each_rank_once_lower_left_and_finish_once(void **state)
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

static void finishing_before_everybody_is_in_is_noticed(void **state)
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
static void waiting_in_a_circle_is_a_deadlock(void **state)
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

/* With room for a message in either direction no step waits for another; but one after another, all wait before anybody puts. */
static void waiting_before_putting_is_found_if_all_do_it(void **state)
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
    for (uint32_t i = 0; i < 2; i++)    /* one that puts first lets all others through */
        tt_sched_put(&h.s[2], i, tt_src(0), tt_dst(8), 4, 0);
    for (uint32_t i = 0; i < 2; i++)
        tt_sched_wait(&h.s[2], i, tt_dst(4 * i), 4, 0);
    assert_string_equal(finding(&h), "");
}

/* An exchange in place, straight into what is being sent: only with room for it elsewhere would it get through. */
static void an_exchange_over_its_own_source_is_a_deadlock(void **state)
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

/* Each rank passes on, through pipes, a sum that the next one has room for only when its own has gone on. */
static void a_ring_of_pipes_is_a_deadlock_once_it_is_cut(void **state)
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

/* The first half of what each rank sends is its own, the second is the first half of what the other sends: byte by byte in order, but
 * a message as a whole waits for the other one. */
static void messages_that_wait_for_each_others_halves_are_a_deadlock_unless_they_are_cut(void **state)
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

/* Rank 1 uses DST as scratch where rank 0's block will come; nothing tells rank 0 when it is done with that. */
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

/* Rank 1's vector comes back reduced to where it was sent from: rank 0 can only have made it after it had read it. */
static void landing_on_what_the_sender_has_read_is_safe(void **state)
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

/* Safe for the half that rank 0 made out of rank 1's, but not for the other, which it could send at once: order is by
 * bytes, not by steps. */
static void order_is_told_by_bytes_and_not_by_steps(void **state)
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

static void a_barrier_must_hear_of_everybody(void **state)
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
        cmocka_unit_test(a_wait_for_at_most_so_much_takes_less_and_no_more),
        cmocka_unit_test(stretches_lie_where_their_lists_say),
        cmocka_unit_test(a_pair_uses_a_tag_once_and_in_the_same_order),
        cmocka_unit_test(steps_stay_in_bounds_and_off_the_input),
        cmocka_unit_test(a_pipe_is_written_once_and_then_read_once_as_a_whole),
        cmocka_unit_test(every_byte_must_come_from_where_it_should),
        cmocka_unit_test(what_is_not_of_the_result_is_not_written),
        cmocka_unit_test(reductions_take_each_rank_once_lower_left_and_finish_once),
        cmocka_unit_test(finishing_before_everybody_is_in_is_noticed),
        cmocka_unit_test(waiting_in_a_circle_is_a_deadlock),
        cmocka_unit_test(waiting_before_putting_is_found_if_all_do_it),
        cmocka_unit_test(an_exchange_over_its_own_source_is_a_deadlock),
        cmocka_unit_test(a_ring_of_pipes_is_a_deadlock_once_it_is_cut),
        cmocka_unit_test(messages_that_wait_for_each_others_halves_are_a_deadlock_unless_they_are_cut),
        cmocka_unit_test(landing_on_scratch_is_noticed),
        cmocka_unit_test(landing_on_what_the_sender_has_read_is_safe),
        cmocka_unit_test(order_is_told_by_bytes_and_not_by_steps),
        cmocka_unit_test(a_barrier_must_hear_of_everybody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
