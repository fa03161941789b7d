/* What ranks see when something goes wrong: ranks that call different things, die, stop, abort, or are late. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "calls.h"
#include "job.h"
#include "support/unit.h"

#define SEED 20260403
#define SOON_NS (5 * TT_SECOND) /* what takes well under a second on a machine of one's own */
#define MIB ((size_t)1 << 20)

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

static void *start_of(struct rank *r, void *mem)
{
    CHECK(r, mem);
    return mem;
}

/* Every byte has that value. By memcmp: fast, and seen by a sanitizer. */
static void check_all(struct rank *r, const uint8_t *mem, size_t bytes, uint8_t value)
{
    if (mem[0] == value && memcmp(mem, mem + 1, bytes - 1) == 0)
        return;
    for (size_t i = 0; i < bytes; i++)
        if (mem[i] != value)
            job_fail(r, __FILE__, __LINE__, "byte %zu of %zu is %02x, not %02x", i, bytes, mem[i], value);
}

/* Whether the sentence names that rank. */
static bool names(const char *sentence, uint32_t rank)
{
    char text[16];

    snprintf(text, sizeof text, "rank %u", rank);
    for (const char *at = strstr(sentence, text); at; at = strstr(at + 1, text))
        if (at[strlen(text)] < '0' || at[strlen(text)] > '9')
            return true;
    return false;
}

/* ---- mismatches ---- */

enum differ { DIFFER_KIND, DIFFER_COUNT, DIFFER_TYPE, DIFFER_OP, DIFFER_ROOT, DIFFER_ALGO, DIFFERS };

static const struct {
    enum tt_coll_kind kind;
    const char *common, *odd;   /* what the sentence must show */
} differs[DIFFERS] = {
    [DIFFER_KIND] = { TT_ALLREDUCE, "allreduce", "broadcast" },
    [DIFFER_COUNT] = { TT_ALLREDUCE, "count 40", "count 39" },
    [DIFFER_TYPE] = { TT_ALLREDUCE, "type f32", "type i32" },
    [DIFFER_OP] = { TT_REDUCE, "op sum", "op max" },
    [DIFFER_ROOT] = { TT_BROADCAST, "root 0", "root 1" },
    [DIFFER_ALGO] = { TT_ALLREDUCE, "allreduce_ring", "allreduce_doubling" },
};

struct mismatch {
    enum differ differ;
    uint32_t odd;               /* the rank that calls something else */
    bool brief;                 /* the messages are short, and the call was made in the same way before */
};

static struct call mismatched(const struct mismatch *m, uint32_t rank, uint32_t nranks)
{
    struct call c = {
        .kind = differs[m->differ].kind, .type = TUTTI_F32, .op = TUTTI_SUM, .count = m->brief ? 40 : 40000,
        .nranks = nranks, .algo = m->differ == DIFFER_ALGO ? "ring" : NULL, .salt = 3,
    };

    if (rank != m->odd)
        return c;
    switch (m->differ) {
    case DIFFER_KIND:
        c.kind = TT_BROADCAST;
        break;
    case DIFFER_COUNT:
        c.count--;
        break;
    case DIFFER_TYPE:
        c.type = TUTTI_I32;
        break;
    case DIFFER_OP:
        c.op = TUTTI_MAX;
        break;
    case DIFFER_ROOT:
        c.root = 1;
        break;
    default:
        c.algo = "doubling";
        break;
    }
    return c;
}

static void mismatch_role(struct rank *r)
{
    const struct mismatch *m = r->job->arg;
    const struct call c = mismatched(m, r->rank, r->nranks), common = mismatched(m, UINT32_MAX, r->nranks);
    uint64_t begin_ns;
    const char *sentence;
    uint32_t named = 0;
    struct call_side s;
    tutti_status st;

    job_open(r);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
    call_init(&s, &common, r->rank);
    for (uint32_t i = 0; m->brief && i < 5; i++)
        CHECK_OK(r, call_go(&s, r->comm, false));
    call_fini(&s);
    job_meet(r);
    job_step(r, "difference %d, rank %u is the odd one", (int)m->differ, m->odd);
    call_init(&s, &c, r->rank);
    begin_ns = tt_now_ns();
    st = call_go(&s, r->comm, false);
    if (st == TUTTI_OK)         /* its part was over before anybody could know */
        st = tutti_barrier(r->comm, NULL);
    CHECK_STATUS(r, st, TUTTI_ERR_MISMATCH);
    CHECK(r, tt_now_ns() - begin_ns < SOON_NS);
    sentence = tutti_last_error();
    for (uint32_t i = 0; i < r->nranks; i++)
        named += names(sentence, i);
    CHECK(r, named == 2 && names(sentence, m->odd));
    CHECK(r, strstr(sentence, differs[m->differ].common) && strstr(sentence, differs[m->differ].odd));
    CHECK(r, differs[m->differ].kind != TT_ALLREDUCE || m->differ == DIFFER_KIND || !strstr(sentence, "root "));
    CHECK_STATUS(r, tutti_barrier(r->comm, NULL), TUTTI_ERR_MISMATCH);
    CHECK_STATUS(r, tutti_comm_status(r->comm), TUTTI_ERR_MISMATCH);
    call_fini(&s);
}

static void ranks_that_call_different_things_all_learn_both_values(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * NWIRES * DIFFERS * (UNIT_SHARE > 1 ? 1 : 3); i++) {
        const struct mismatch m = {
            .differ = (enum differ)(i / NWIRES % DIFFERS), .odd = i % (2 + i % 3), .brief = i / NWIRES / DIFFERS % 2,
        };
        const struct job job = { .wires = wires[i % NWIRES], .nranks = 2 + i % 3, .seed = job_seed(SEED), .arg = &m };

        job_run(&job, mismatch_role);
    }
}

/* Sizes of a message that differ are named, too; and counts of a v call, whose values are too many. */
static void sizes_role(struct rank *r)
{
    const size_t bytes = r->job->seed % 2 ? 100 : 200000, mine = r->rank ? bytes : bytes + 4;
    const size_t counts[2] = { 5, mine };
    uint8_t *buf = start_of(r, calloc(2, bytes + 5));
    char text[32];
    tutti_status st;

    job_open(r);
    job_step(r, "%zu bytes", mine);
    if (r->job->arg)
        st = tutti_allgatherv(buf + 5 * r->rank, buf, counts, NULL, TUTTI_U8, r->comm, NULL);
    else if (r->rank)
        st = tutti_recv(buf, mine, TUTTI_U8, 0, r->comm, NULL);
    else
        st = tutti_send(buf, mine, TUTTI_U8, 1, r->comm, NULL);
    if (st == TUTTI_OK)
        st = tutti_barrier(r->comm, NULL);
    CHECK_STATUS(r, st, TUTTI_ERR_MISMATCH);
    CHECK(r, names(tutti_last_error(), 0) && names(tutti_last_error(), 1));
    snprintf(text, sizeof text, "%zu bytes", mine);
    CHECK(r, r->job->arg || strstr(tutti_last_error(), text));
    CHECK(r, !r->job->arg || (strstr(tutti_last_error(), "counts differ") && !strstr(tutti_last_error(), "count ")));
    free(buf);
}

static void sizes_of_a_message_or_of_blocks_that_differ_are_a_mismatch(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES * 4; i++) {
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = 2, .seed = i / NWIRES % 2, .arg = i < NWIRES * 2 ? NULL : "v",
        };

        job_run(&job, sizes_role);
    }
}

/* A short message that came before its call, and is not as long as that expects. */
static void early_role(struct rank *r)
{
    const size_t send[2] = { 3, r->rank ? 3 : 5 }, recv[2] = { 3, 3 }, displs[2] = { 0, 8 };
    uint8_t src[16] = { 0 }, dst[16];
    tutti_status st;

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank)
        CHECK(r, job_await(r->board, 0, 1));
    job_step(r, "alltoallv");
    if (r->rank == 0) {
        tutti_request *request;
        const tutti_call how = { .size = sizeof how, .request = &request };

        CHECK_OK(r, tutti_alltoallv(src, send, displs, dst, recv, displs, TUTTI_U8, r->comm, &how));
        for (uint64_t until_ns = tt_now_ns() + 50 * TT_MS; tt_now_ns() < until_ns;)
            tutti_test(request);
        job_raise(r->board, 0);
        st = tutti_wait(request);
    } else {
        st = tutti_alltoallv(src, send, displs, dst, recv, displs, TUTTI_U8, r->comm, NULL);
    }
    if (st == TUTTI_OK)
        st = tutti_barrier(r->comm, NULL);
    CHECK_SAYS(r, st, TUTTI_ERR_MISMATCH, "rank 0 sends 5 bytes to rank 1, which expects 3");
}

static void an_early_message_of_another_size_is_a_mismatch(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES; i++) {
        const struct job job = { .wires = wires[i], .nranks = 2, .seed = SEED };

        job_run(&job, early_role);
    }
}

/* One block of an alltoallv. */
struct block {
    size_t sent, expected;      /* bytes */
    uint32_t sender;
    size_t others;              /* bytes of all other blocks */
};

/* The sender or the receiver may be through with its part, and learn of the difference later. */
static void block_role(struct rank *r)
{
    const struct block *b = r->job->arg;
    const uint32_t receiver = (b->sender + 1) % r->nranks;
    const size_t most = b->others + (b->sent > b->expected ? b->sent : b->expected);
    size_t out[JOB_RANKS_MAX], in[JOB_RANKS_MAX];
    uint8_t *src = start_of(r, calloc(r->nranks, most)), *dst = start_of(r, calloc(r->nranks, most));
    char sent[32], expected[32];
    uint64_t begin_ns;
    tutti_status st;

    for (uint32_t i = 0; i < r->nranks; i++)
        out[i] = in[i] = b->others;
    if (r->rank == b->sender)
        out[receiver] = b->sent;
    if (r->rank == receiver)
        in[b->sender] = b->expected;
    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    job_step(r, "rank %u sends %zu bytes where %zu are expected, others %zu", b->sender, b->sent, b->expected, b->others);
    begin_ns = tt_now_ns();
    st = tutti_alltoallv(src, out, NULL, dst, in, NULL, TUTTI_U8, r->comm, NULL);
    if (st == TUTTI_OK)
        st = tutti_barrier(r->comm, NULL);
    CHECK_STATUS(r, st, TUTTI_ERR_MISMATCH);
    CHECK(r, tt_now_ns() - begin_ns < SOON_NS);
    snprintf(sent, sizeof sent, "sends %zu bytes", b->sent);
    snprintf(expected, sizeof expected, "expects %zu ", b->expected);
    CHECK(r, names(tutti_last_error(), b->sender) && names(tutti_last_error(), receiver));
    CHECK(r, strstr(tutti_last_error(), sent) && strstr(tutti_last_error(), expected));
    free(src);
    free(dst);
}

static void a_block_of_alltoallv_that_is_not_as_long_as_expected_is_a_mismatch(void **state)
{
    static const size_t sizes[][2] = {
        { 100, 104 }, { 0, 4 }, { 100, 200000 }, { 0, 200000 }, { 200000, 200004 }, { 200000, 5000000 },
    };
    const uint32_t nsizes = sizeof sizes / sizeof *sizes;

    (void)state;
    for (uint32_t i = 0; i < NWIRES * nsizes * 4; i++) {
        const size_t *s = sizes[i / NWIRES % nsizes];
        const uint32_t turn = i / NWIRES / nsizes, nranks = 2 + (i / NWIRES + turn) % 2;
        const struct block block = {
            .sent = s[turn % 2], .expected = s[1 - turn % 2], .sender = (i + turn / 2) % nranks,
            .others = turn < 2 ? 8 : 300000,
        };
        const struct job job = { .wires = wires[i % NWIRES], .nranks = nranks, .seed = SEED, .arg = &block };

        if (UNIT_SHARE == 1 || (turn ^ turn >> 1 ^ i / NWIRES) % 2 == 0)    /* else each size either way, and among either others */
            job_run(&job, block_role);
    }
}

/* ---- deaths ---- */

struct death {
    uint32_t victim;
    enum tt_coll_kind kind;
    const char *algo;
    size_t count;
    bool enters;                /* the victim begins the call that it dies in */
    tutti_redop op;
};

#define WORD_DIED 0             /* of the victim: when */

static void die(struct rank *r, int sig)
{
    r->board->dies[r->rank] = 1;
    r->board->word[r->rank][WORD_DIED] = tt_now_ns();
    kill(getpid(), sig);
}

/* Checks what a survivor was left with. */
static void check_survivor(struct rank *r, struct call_side *s, tutti_status st, uint32_t victim)
{
    char why[CALL_TEXT_BYTES];

    if (st == TUTTI_OK && !call_is_right(s, why))
        job_fail(r, __FILE__, __LINE__, "returned OK, but %s", why);
    if (st == TUTTI_OK)
        return;
    CHECK_STATUS(r, st, TUTTI_ERR_PEER_LOST);
    CHECK(r, names(tutti_last_error(), victim));
    if (!call_is_restored(s, why))
        job_fail(r, __FILE__, __LINE__, "not restored: %s", why);
}

static void death_role(struct rank *r)
{
    const struct death *d = r->job->arg;
    struct call c = {
        .kind = d->kind, .type = TUTTI_F32, .op = d->op, .count = d->count, .nranks = r->nranks,
        .root = r->nranks - 1, .in_place = true, .algo = d->algo, .salt = r->job->seed,
    };
    struct call_side s;
    uint64_t late_ns;
    tutti_status st;

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    call_init(&s, &c, r->rank);
    job_step(r, "%s, rank %u dies", tt_coll_name(d->kind), d->victim);
    if (r->rank == d->victim) {
        if (d->enters)
            CHECK_OK(r, call_go(&s, r->comm, true));
        for (uint64_t polls = tt_prng_below(&r->prng, 60); d->enters && polls > 0; polls--)
            tutti_test(s.request);
        die(r, SIGKILL);
    }
    st = call_go(&s, r->comm, tt_prng_below(&r->prng, 2));
    if (st == TUTTI_OK && s.request)
        st = tutti_wait(s.request);
    check_survivor(r, &s, st, d->victim);
    for (int i = 0; st == TUTTI_OK && i < 1000; i++)
        st = tutti_barrier(r->comm, NULL);      /* nobody can say that the victim came to all of them */
    CHECK_STATUS(r, st, TUTTI_ERR_PEER_LOST);
    CHECK(r, names(tutti_last_error(), d->victim));
    late_ns = tt_now_ns() - r->board->word[d->victim][WORD_DIED];
    if (late_ns > TT_SECOND / 2)
        print_message("rank %u returned %.2f s after the death\n", r->rank, (double)late_ns / 1e9);
    CHECK(r, late_ns < SOON_NS);
    call_fini(&s);
    job_close(r);
}

static void survivors_of_a_killed_rank_have_their_result_or_their_input(void **state)
{
    static const struct death deaths[] = {
        { 0, TT_ALLREDUCE, NULL, 1000000, true, TUTTI_SUM }, { 1, TT_ALLREDUCE, "ring", 1000000, true, TUTTI_SUM },
        { 2, TT_ALLREDUCE, "ring", 300000, true, TUTTI_SUM },
        { 1, TT_ALLREDUCE, "rabenseifner", 1000000, true, TUTTI_SUM },
        { 2, TT_ALLREDUCE, "ring", 1000000, false, TUTTI_SUM }, { 0, TT_ALLREDUCE, NULL, 10, false, TUTTI_SUM },
        { 2, TT_ALLREDUCE, "ring", 1000000, false, TUTTI_PREMUL_SUM },
        { 1, TT_ALLREDUCE, "rabenseifner", 1000000, true, TUTTI_PREMUL_SUM },
        { 0, TT_REDUCE, "chain", 1000000, true, TUTTI_PREMUL_SUM },
        { 1, TT_REDUCE_SCATTER, NULL, 200000, true, TUTTI_SUM }, { 0, TT_ALLTOALL, NULL, 200000, true, TUTTI_SUM },
        { 1, TT_ALLGATHER, "ring", 200000, true, TUTTI_SUM }, { 0, TT_BROADCAST, "chain", 1000000, true, TUTTI_SUM },
        { 0, TT_REDUCE, "chain", 1000000, true, TUTTI_SUM }, { 1, TT_GATHER, NULL, 300000, true, TUTTI_SUM },
        { 1, TT_BARRIER, NULL, 0, false, TUTTI_SUM }, { 0, TT_SCATTER, NULL, 100000, false, TUTTI_SUM },
    };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * 2 * sizeof deaths / sizeof *deaths; i++) {
        const struct death *d = &deaths[i / NWIRES / 2];
        const uint32_t nranks = 2 + (i / NWIRES + i / 4) % 4;
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = nranks > d->victim ? nranks : d->victim + 1,
            .seed = job_seed(SEED) + i, .arg = d,
        };

        if (UNIT_SHARE == 1 || i / NWIRES % 2 == 0)
            job_run(&job, death_role);
    }
}

/* ---- stopped ranks ---- */

#define STOP_TIMEOUT_MS 1500

/* Only a neighbour waits for the stopped rank itself; who else is late waits for the neighbour. */
static void stop_role(struct rank *r)
{
    const uint32_t victim = (uint32_t)(r->job->seed % r->nranks);
    struct call c = {
        .kind = TT_ALLREDUCE, .type = TUTTI_F32, .op = TUTTI_SUM, .count = 500000, .nranks = r->nranks,
        .in_place = true, .algo = "ring", .timeout_ms = STOP_TIMEOUT_MS, .salt = r->job->seed,
    };
    char why[CALL_TEXT_BYTES];
    struct call_side s;
    uint64_t begin_ns;
    tutti_status st;

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    call_init(&s, &c, r->rank);
    job_step(r, "rank %u stops", victim);
    if (r->rank == victim)
        die(r, SIGSTOP);
    begin_ns = tt_now_ns();
    st = call_go(&s, r->comm, false);
    if (st != TUTTI_ERR_TIMEOUT)
        CHECK_STATUS(r, st, TUTTI_ERR_PEER_LOST);
    CHECK(r, tt_now_ns() - begin_ns < STOP_TIMEOUT_MS * TT_MS + SOON_NS);
    CHECK(r, names(tutti_last_error(), victim));
    if (!call_is_restored(&s, why))
        job_fail(r, __FILE__, __LINE__, "not restored: %s", why);
    job_step(r, "destroy, rank %u stopped", victim);
    job_close(r);
    call_fini(&s);
}

static void a_stopped_rank_is_named_at_the_deadline_by_all_others(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES * 3; i++) {
        const struct job job = { .wires = wires[i % NWIRES], .nranks = 2 + i / NWIRES * 3 / 2, .seed = i / NWIRES };

        job_run(&job, stop_role);
    }
}

/* ---- deadlines ---- */

static void deadline_role(struct rank *r)
{
    float x = 1, y;
    const tutti_call how = { .size = sizeof how, .timeout_ms = 300 };
    const uint64_t begin_ns = tt_now_ns();
    const char *sentence;
    tutti_status st = TUTTI_OK;

    job_open(r);
    for (uint32_t i = 0; i < 7; i++)
        CHECK_OK(r, tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
    if (r->rank == 1) {
        CHECK(r, job_await(r->board, 0, 1));
        for (int i = 0; i < 3 && !st; i++)  /* the first may still find all it needs */
            st = tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, r->comm, NULL);
        CHECK_STATUS(r, st, TUTTI_ERR_TIMEOUT);
        job_close(r);
        return;
    }
    CHECK_STATUS(r, tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, r->comm, &how), TUTTI_ERR_TIMEOUT);
    CHECK(r, tt_now_ns() - begin_ns >= 300 * TT_MS && tt_now_ns() - begin_ns < SOON_NS);
    sentence = tutti_last_error();
    CHECK(r, strstr(sentence, "allreduce") && strstr(sentence, "operation 7"));
    CHECK(r, strstr(sentence, "round") && (strstr(sentence, "wait") || strstr(sentence, "put")));
    CHECK(r, names(sentence, 0) && names(sentence, 1));
    job_raise(r->board, 0);
    job_close(r);
}

static void a_deadline_reports_the_collective_its_number_its_step_and_the_peer(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWIRES; w++) {
        const struct job job = { .wires = wires[w], .nranks = 2, .seed = SEED };

        job_run(&job, deadline_role);
    }
}

/* ---- aborts ---- */

#define ABORTS (UNIT_SHARE > 1 ? 30 : 100)
#define IN_FLIGHT 16

static void *abort_there(void *comm)
{
    return (void *)(intptr_t)tutti_comm_abort(comm);
}

/* The last rank calls none of them, so none can end but by the abort. */
static void abort_once(struct rank *r, uint32_t round, float *room, size_t count)
{
    tutti_request *request[IN_FLIGHT] = { NULL };
    const bool aborts = r->rank == round % r->nranks;
    const bool calls = r->rank + 1 < r->nranks;
    uint64_t begin_ns;
    pthread_t thread;

    job_step(r, "round %u: open", round);
    job_open(r);
    job_step(r, "round %u: start", round);
    for (uint32_t i = 0; i < IN_FLIGHT && calls; i++) {
        const tutti_call how = { .size = sizeof how, .request = &request[i] };

        CHECK_OK(r, tutti_allreduce(room + i * count, room + i * count, i % 2 ? 10 : count, TUTTI_F32, TUTTI_SUM,
                                    r->comm, &how));
    }
    job_meet(r);
    begin_ns = tt_now_ns();
    job_step(r, "round %u: abort", round);
    if (aborts)
        CHECK(r, pthread_create(&thread, NULL, abort_there, r->comm) == 0);
    job_step(r, "round %u: wait", round);
    if (round % 2)
        for (uint32_t i = 0; i < IN_FLIGHT && calls; i++)
            CHECK_STATUS(r, tutti_wait(request[i]), TUTTI_ERR_ABORTED);
    while (tutti_comm_status(r->comm) == TUTTI_OK)  /* who calls nothing hears of it too */
        CHECK(r, tt_now_ns() - begin_ns < SOON_NS);
    CHECK_STATUS(r, tutti_comm_status(r->comm), TUTTI_ERR_ABORTED);
    if (aborts)
        CHECK(r, pthread_join(thread, NULL) == 0);
    job_meet(r);
    job_step(r, "round %u: destroy", round);
    job_close(r);
    if (round % 2 == 0)
        for (uint32_t i = 0; i < IN_FLIGHT && calls; i++)
            CHECK_STATUS(r, tutti_wait(request[i]), TUTTI_ERR_ABORTED);
    CHECK(r, tt_now_ns() - begin_ns < SOON_NS);
}

static void abort_role(struct rank *r)
{
    const size_t count = 100000;
    float *room = start_of(r, calloc(IN_FLIGHT * count, sizeof *room));
    uint32_t descriptors = 0;

    for (uint32_t round = 0; round < ABORTS; round++) {
        abort_once(r, round, room, count);
        if (round == 0)
            descriptors = job_descriptors();
        CHECK(r, job_descriptors() == descriptors);
        CHECK(r, job_await_no_thread());
        check_all(r, (const uint8_t *)room, IN_FLIGHT * count * sizeof *room, 0);
    }
    free(room);
}

static void an_abort_ends_all_requests_and_leaves_no_thread_or_descriptor_a_hundred_times(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWIRES; w++) {
        const struct job job = { .wires = wires[w], .nranks = 2 + (uint32_t)w, .seed = SEED };

        job_run(&job, abort_role);
    }
}

/* ---- aborts within one start-up ---- */

#define LONG_ROUNDS (UNIT_SHARE > 1 ? 50 : 100)
#define LONG_OPS 8              /* of a round; half of them make two flows with each peer */
#define LONG_COUNT 100000
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)   /* freed memory stays mapped for a while */
#define LONG_GROWS_MAX (320 * MIB)
#else
#define LONG_GROWS_MAX (64 * MIB)       /* the operations of a round take some 8 MiB to land in */
#endif

struct aborts {
    const char *wires, *cma, *lanes;
};

static uint64_t mapped_bytes(struct rank *r)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    CHECK(r, f && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* In every other round the last rank calls nothing, so that what the others have opened stays open. */
static void abort_long(struct rank *r, uint32_t round, float *room)
{
    const bool calls = round % 2 || r->rank + 1 < r->nranks;
    tutti_request *request[LONG_OPS] = { NULL };
    tutti_comm *comm;
    tutti_status st;

    if (round % 3)
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm));
    else
        CHECK_OK(r, tutti_comm_split(r->comm, 0, -(int)r->rank, &comm));
    for (uint32_t i = 0; i < LONG_OPS && calls; i++) {
        const tutti_call how = { .size = sizeof how, .request = &request[i] };
        float *src = room + (size_t)i * 2 * r->nranks * LONG_COUNT, *dst = src + (size_t)r->nranks * LONG_COUNT;

        if (i % 2)
            st = tutti_allreduce(src, dst, LONG_COUNT, TUTTI_F32, TUTTI_SUM, comm, &how);
        else
            st = tutti_alltoall(src, dst, LONG_COUNT, TUTTI_F32, comm, &how);
        if (st != TUTTI_ERR_ABORTED)
            CHECK_OK(r, st);
    }
    for (uint64_t polls = tt_prng_below(&r->prng, 100); polls > 0 && calls; polls--)
        tutti_test(request[0]);
    if (r->rank == round % r->nranks)
        CHECK_OK(r, tutti_comm_abort(comm));
    for (uint32_t i = 0; i < LONG_OPS; i++) {
        st = request[i] ? tutti_wait(request[i]) : TUTTI_OK;
        CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_ABORTED);
    }
    tutti_comm_destroy(comm);
}

static void abort_long_role(struct rank *r)
{
    const struct aborts *a = r->job->arg;
    float *room = start_of(r, calloc((size_t)LONG_OPS * 2 * r->nranks * LONG_COUNT, sizeof *room));
    uint64_t before = 0;

    setenv("TUTTI_CMA", a->cma, 1);
    setenv("TUTTI_LANES", a->lanes, 1);
    job_open(r);
    for (uint32_t round = 0; round < LONG_ROUNDS; round++) {
        job_step(r, "round %u", round);
        abort_long(r, round, room);
        if (round == LONG_ROUNDS / 5)
            before = mapped_bytes(r);
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (mapped_bytes(r) > before + LONG_GROWS_MAX)
        job_fail(r, __FILE__, __LINE__, "memory grew from %llu to %llu MiB", (unsigned long long)(before / MIB),
                 (unsigned long long)(mapped_bytes(r) / MIB));
    for (uint32_t i = 0; i < LONG_OPS; i++) {
        float *src = room + (size_t)i * 2 * LONG_COUNT, *dst = src + LONG_COUNT;

        job_step(r, "long operation %u", i);
        for (size_t k = 0; k < LONG_COUNT; k++)
            src[k] = (float)(r->rank + k % 100);
        CHECK_OK(r, tutti_allreduce(src, dst, LONG_COUNT, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
        for (size_t k = 0; k < LONG_COUNT; k++)
            CHECK(r, dst[k] == (float)(r->nranks * (r->nranks - 1) / 2 + r->nranks * (k % 100)));
    }
    free(room);
}

static void aborted_operations_give_back_what_they_took_once_their_peers_have_heard(void **state)
{
    static const struct aborts how[] = {
        { "shm", "0", "1" }, { "shm", "2", "1" }, { "tcp", "0", "1" }, { "tcp", "0", "4" },
    };

    (void)state;
    for (uint32_t i = 0; i < 2 * sizeof how / sizeof *how; i++) {
        const struct aborts *a = &how[i / 2];
        const struct job job = { .wires = a->wires, .nranks = 2 + i % 2, .seed = job_seed(SEED) + i, .arg = a };

        job_run(&job, abort_long_role);
    }
}

/* ---- nothing writes after return ---- */

#define LATE_ROUNDS (UNIT_SHARE > 1 ? 4 : 12)   /* fewer where each is slow */
#define LATE_BYTES (24 * MIB)
#define LATE_FEWER_BYTES (3 * MIB)      /* fetched in a single copy where that is possible */

struct late {
    bool allocated;
    size_t bytes;
};

enum { FLAG_BEGUN, FLAG_STOPPED, FLAG_REUSED, FLAG_RESUMED, FLAG_CHECKED };

/* Stops rank 1, the writer, somewhere in its transfer, and lets it go on when rank 0 has the buffer back. */
static void stop_and_go(const struct job *job, struct job_board *board)
{
    (void)job;
    for (uint32_t i = 1; i <= LATE_ROUNDS; i++) {
        if (!job_await(board, FLAG_BEGUN, i))
            return;
        kill(board->pid[1], SIGSTOP);
        if (!job_await_stop(board, 1))
            return;
        job_raise(board, FLAG_STOPPED);
        if (!job_await(board, FLAG_REUSED, i))
            return;
        kill(board->pid[1], SIGCONT);
        job_raise(board, FLAG_RESUMED);
    }
}

static void writer(struct rank *r, tutti_comm *comm, uint8_t *buf, uint32_t round)
{
    const struct late *l = r->job->arg;
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request };
    tutti_status st = tutti_send(buf, l->bytes, TUTTI_U8, 0, comm, &how);
    uint64_t polls = 3 * round;

    CHECK_OK(r, st);
    while ((st = tutti_test(request)) == TUTTI_PENDING)
        if (polls-- == 0)
            job_raise(r->board, FLAG_BEGUN);
    if (polls < UINT64_MAX / 2)
        job_raise(r->board, FLAG_BEGUN);
    tutti_wait(request);
    CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_ABORTED);
    CHECK(r, job_await(r->board, FLAG_RESUMED, round));
    CHECK(r, tutti_comm_status(comm) == TUTTI_OK || tutti_comm_status(comm) == TUTTI_ERR_ABORTED);
}

static void reader(struct rank *r, tutti_comm *comm, uint8_t *buf, uint32_t round)
{
    const struct late *l = r->job->arg;
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request };
    tutti_status st;

    CHECK_OK(r, tutti_recv(buf, l->bytes, TUTTI_U8, 1, comm, &how));
    CHECK(r, job_await(r->board, FLAG_STOPPED, round));
    CHECK_OK(r, tutti_comm_abort(comm));
    st = tutti_wait(request);
    CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_ABORTED);
    memset(buf, 0xee, l->bytes);
    job_raise(r->board, FLAG_REUSED);
}

static void late_role(struct rank *r)
{
    const struct late *l = r->job->arg;
    uint8_t *buf = NULL;

    if (l->bytes == LATE_FEWER_BYTES)
        setenv("TUTTI_CMA", "2", 1);
    job_open(r);
    if (l->allocated)
        CHECK_OK(r, tutti_mem_alloc(r->comm, l->bytes, (void **)&buf));
    else
        buf = start_of(r, malloc(l->bytes));
    for (uint32_t round = 1; round <= LATE_ROUNDS; round++) {
        tutti_comm *comm;

        job_step(r, "round %u", round);
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm));
        memset(buf, 0x11, l->bytes);
        if (r->rank == 0)
            reader(r, comm, buf, round);
        else
            writer(r, comm, buf, round);
        job_meet(r);            /* the writer has had its time */
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        if (r->rank == 0)
            check_all(r, buf, l->bytes, 0xee);
        tutti_comm_destroy(comm);
    }
    if (l->allocated)
        CHECK_OK(r, tutti_mem_free(r->comm, buf));
    else
        free(buf);
}

static void a_delayed_writer_does_not_touch_a_buffer_that_an_abort_gave_back(void **state)
{
    static const struct late how[] = { { false, LATE_BYTES }, { true, LATE_BYTES }, { false, LATE_FEWER_BYTES } };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * 3; i++) {
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = 2, .seed = SEED, .arg = &how[i / NWIRES], .direct = stop_and_go,
        };

        job_run(&job, late_role);
    }
}

#define STANDSTILL_MS 4000      /* the deadline; it stands still for longer */

/* Rank 0 is stopped while it waits: that time is not rank 1's fault. */
static void standstill_role(struct rank *r)
{
    uint8_t buf[100000] = { 0 };
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request, .timeout_ms = STANDSTILL_MS };

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank == 0) {
        CHECK_OK(r, tutti_recv(buf, sizeof buf, TUTTI_U8, 1, r->comm, &how));
        for (uint64_t until_ns = tt_now_ns() + 100 * TT_MS; tt_now_ns() < until_ns;)
            CHECK(r, tutti_test(request) == TUTTI_PENDING);
        kill(getpid(), SIGSTOP);
        CHECK_OK(r, tutti_wait(request));
    } else {
        CHECK(r, job_await(r->board, 0, 1));
        CHECK_OK(r, tutti_send(buf, sizeof buf, TUTTI_U8, 0, r->comm, NULL));
    }
}

static void resume_late(const struct job *job, struct job_board *board)
{
    (void)job;
    if (!job_await_stop(board, 0))
        return;
    usleep((STANDSTILL_MS + 500) * 1000);
    kill(board->pid[0], SIGCONT);
    usleep(200000);             /* in which it looks at the clock */
    job_raise(board, 0);
}

static void a_rank_that_stood_still_itself_blames_nobody(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED, .direct = resume_late };

    (void)state;
    job_run(&job, standstill_role);
}

/* ---- two halves of one allocation ---- */

#define HALF_BYTES MIB

struct halves {
    size_t at;                  /* where the second one begins; at least HALF_BYTES */
};

/* Rank 0 receives into both, for two communicators; one of them fails. */
static void halves_role(struct rank *r)
{
    const struct halves *h = r->job->arg;
    tutti_comm *comm[2];
    tutti_request *request[2];
    uint8_t *buf;

    job_open(r);
    CHECK_OK(r, tutti_mem_alloc(r->comm, h->at + HALF_BYTES, (void **)&buf));
    memset(buf, r->rank ? 0x77 : 0x11, h->at + HALF_BYTES);
    for (int i = 0; i < 2; i++)
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm[i]));
    for (int i = 0; i < 2 && r->rank == 0; i++) {
        const tutti_call how = { .size = sizeof how, .request = &request[i] };

        CHECK_OK(r, tutti_recv(buf + (i ? h->at : 0), HALF_BYTES, TUTTI_U8, 1, comm[i], &how));
    }
    for (int i = 0; i < 40; i++)
        CHECK_OK(r, tutti_barrier(r->comm, NULL));      /* both are open by now */
    if (r->rank == 0) {
        CHECK_OK(r, tutti_comm_abort(comm[0]));
        CHECK_STATUS(r, tutti_wait(request[0]), TUTTI_ERR_ABORTED);
        check_all(r, buf, HALF_BYTES, 0x11);
    }
    job_meet(r);
    if (r->rank == 0) {
        const tutti_status st = tutti_wait(request[1]);

        CHECK(r, st == TUTTI_OK || (st == TUTTI_ERR_ABORTED && h->at % 4096));
        if (st == TUTTI_OK)
            check_all(r, buf + h->at, HALF_BYTES, 0x77);
    } else {
        const tutti_status st = tutti_send(buf + h->at, HALF_BYTES, TUTTI_U8, 0, comm[1], NULL);

        CHECK(r, st == TUTTI_OK || (st == TUTTI_ERR_ABORTED && h->at % 4096));
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    for (int i = 0; i < 2; i++)
        tutti_comm_destroy(comm[i]);
    CHECK_OK(r, tutti_mem_free(r->comm, buf));
}

static void what_an_abort_takes_back_is_missed_by_no_other_communicator(void **state)
{
    static const struct halves where[] = { { HALF_BYTES }, { HALF_BYTES + 65536 }, { HALF_BYTES + 100 } };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * 3; i++) {
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = 2, .seed = job_seed(SEED), .arg = &where[i / NWIRES],
        };

        job_run(&job, halves_role);
    }
}

#define NEXT_COUNT ((1u << 17) + 100)   /* the next one begins in the page where this ends */
#define NEXT_OPS 4u
#define NEXT_ROUNDS (UNIT_SHARE > 1 ? 5 : 25)

/* Several operations of one communicator in adjacent memory, in place, aborted somewhere. */
static void adjacent_role(struct rank *r)
{
    float *buf;

    job_open(r);
    CHECK_OK(r, tutti_mem_alloc(r->comm, NEXT_OPS * NEXT_COUNT * sizeof *buf, (void **)&buf));
    for (uint32_t round = 0; round < NEXT_ROUNDS; round++) {
        tutti_request *request[NEXT_OPS];
        tutti_comm *comm;

        job_step(r, "round %u", round);
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm));
        for (uint32_t i = 0; i < NEXT_OPS * NEXT_COUNT; i++)
            buf[i] = 1;
        job_meet(r);
        for (uint32_t i = 0; i < NEXT_OPS; i++) {
            const tutti_call how = { .size = sizeof how, .request = &request[i], .algo = "ring" };
            float *at = buf + i * NEXT_COUNT;
            const tutti_status st = tutti_allreduce(at, at, NEXT_COUNT, TUTTI_F32, TUTTI_SUM, comm, &how);

            CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_ABORTED);
            if (st)
                request[i] = NULL;
        }
        for (uint32_t polls = r->rank ? 0 : 2 * round; polls > 0; polls--)
            if (request[NEXT_OPS - 1])
                tutti_test(request[NEXT_OPS - 1]);
        if (r->rank == 0)
            CHECK_OK(r, tutti_comm_abort(comm));
        for (uint32_t i = 0; i < NEXT_OPS; i++) {
            const tutti_status st = request[i] ? tutti_wait(request[i]) : TUTTI_ERR_ABORTED;
            const float right = st ? 1 : 2;

            CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_ABORTED);
            for (uint32_t k = 0; k < NEXT_COUNT; k++)
                if (buf[i * NEXT_COUNT + k] != right)
                    job_fail(r, __FILE__, __LINE__, "element %u of operation %u (%s) is %g", k, i, tutti_status_name(st), (double)buf[i * NEXT_COUNT + k]);
        }
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        tutti_comm_destroy(comm);
        if (round % 5 == 4) {       /* what was taken back is not offered again: only new memory is */
            CHECK_OK(r, tutti_mem_free(r->comm, buf));
            CHECK_OK(r, tutti_mem_alloc(r->comm, NEXT_OPS * NEXT_COUNT * sizeof *buf, (void **)&buf));
        }
    }
    CHECK_OK(r, tutti_mem_free(r->comm, buf));
}

static void adjacent_operations_that_are_aborted_restore_their_input(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED };

    (void)state;
    job_run(&job, adjacent_role);
}

/* No wire is common to the two: the first call says so. */
static void no_wire_role(struct rank *r)
{
    uint8_t byte = 0;

    setenv("TUTTI_WIRES", r->rank ? "tcp" : "shm", 1);
    job_open(r);
    CHECK_SAYS(r, tutti_broadcast(&byte, &byte, 1, TUTTI_U8, 0, r->comm, NULL), TUTTI_ERR_PEER_LOST, "no wire");
}

static void ranks_without_a_common_wire_are_told(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED };

    (void)state;
    job_run(&job, no_wire_role);
}

/* ---- bounds ---- */

#define AHEAD 150

/* Rank 0 calls all of one communicator first, rank 1 all of the other; both are many operations ahead. */
static void opposite_role(struct rank *r)
{
    const size_t count = 20000;
    tutti_request *request[2][AHEAD];
    float *room = start_of(r, calloc(2 * AHEAD * count, sizeof *room));
    tutti_comm *comm[2];

    job_open(r);
    comm[0] = r->comm;
    CHECK_OK(r, tutti_comm_dup(r->comm, &comm[1]));
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t which = k ^ (r->rank & 1);

        for (uint32_t i = 0; i < AHEAD; i++) {
            const tutti_call how = { .size = sizeof how, .request = &request[which][i] };
            float *at = room + (which * AHEAD + i) * count;

            job_step(r, "start %u of communicator %u", i, which);
            at[i] = (float)(r->rank + 1 + which);
            CHECK_OK(r, tutti_allreduce(at, at, i % 3 ? count : 100, TUTTI_F32, TUTTI_SUM, comm[which], &how));
        }
        if (r->job->seed % 2) { /* and wait before the other is begun here: only its peer's requests can help */
            job_step(r, "wait for communicator %u", which);
            job_meet(r);
        }
    }
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t which = k ^ (r->rank & 1);

        job_step(r, "wait for communicator %u", which);
        CHECK_OK(r, tutti_wait_all(request[which], AHEAD));
        for (uint32_t i = 0; i < AHEAD; i++) {
            const uint32_t n = r->nranks, right = n * (n + 1) / 2 + n * which;

            if (i % 3 || i < 100)
                CHECK(r, room[(which * AHEAD + i) * count + i] == (float)right);
        }
    }
    tutti_comm_destroy(comm[1]);
    free(room);
}

static void two_communicators_used_in_opposite_order_do_not_deadlock(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES * 4; i++) {
        const struct job job = { .wires = wires[i % NWIRES], .nranks = 2 + i / NWIRES / 2, .seed = i / NWIRES };

        job_run(&job, opposite_role);
    }
}

#define MANY_COMMS (UNIT_SHARE > 1 ? 40 : 260)  /* with 16 flows each: twice as many as there are handles */
#define MANY_AHEAD 16
#define MANY_COUNT 5000

/* The same with many communicators: each rank begins those first that the other begins last. */
static void opposite_many_role(struct rank *r)
{
    static tutti_comm *comm[260];
    static tutti_request *request[260][MANY_AHEAD];
    float *room = start_of(r, calloc((size_t)MANY_COMMS * MANY_AHEAD * MANY_COUNT, sizeof *room));

    job_open(r);
    for (uint32_t i = 0; i < MANY_COMMS; i++)
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm[i]));
    for (uint32_t k = 0; k < MANY_COMMS; k++) {
        const uint32_t which = r->rank ? MANY_COMMS - 1 - k : k;

        for (uint32_t i = 0; i < MANY_AHEAD; i++) {
            const tutti_call how = { .size = sizeof how, .request = &request[which][i] };
            float *at = room + ((size_t)which * MANY_AHEAD + i) * MANY_COUNT;

            at[i] = (float)(r->rank + 1 + which);
            CHECK_OK(r, tutti_allreduce(at, at, MANY_COUNT, TUTTI_F32, TUTTI_SUM, comm[which], &how));
        }
        if (k == MANY_COMMS / 2 - 1)
            job_meet(r);        /* what was begun here has not been begun there */
    }
    for (uint32_t k = 0; k < MANY_COMMS; k++) {
        const uint32_t which = r->rank ? MANY_COMMS - 1 - k : k;

        job_step(r, "wait for communicator %u", which);
        CHECK_OK(r, tutti_wait_all(request[which], MANY_AHEAD));
        for (uint32_t i = 0; i < MANY_AHEAD; i++)
            CHECK(r, room[((size_t)which * MANY_AHEAD + i) * MANY_COUNT + i] == (float)(3 + 2 * which));
        tutti_comm_destroy(comm[which]);
    }
    free(room);
}

static void many_communicators_used_in_opposite_order_do_not_deadlock(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED };

    (void)state;
    job_run(&job, opposite_many_role);
}

#define AHEAD_SENDS (UNIT_SHARE > 1 ? 1000 : 5000)
#if defined(__SANITIZE_THREAD__)        /* its shadow takes several bytes for each of ours */
#define AHEAD_BYTES_MAX (1024 * MIB)
#else
#define AHEAD_BYTES_MAX (128 * MIB)      /* requests take room too */
#endif

static void resume_receiver(const struct job *job, struct job_board *board)
{
    (void)job;
    if (job_await_stop(board, 1)) {
        job_raise(board, 1);
        job_await(board, 0, 1);
        kill(board->pid[1], SIGCONT);
    }
}

/* Rank 0 sends while rank 1 is stopped, as much as it is let. */
static void ahead_role(struct rank *r)
{
    const size_t bytes = r->job->seed % 2 ? 2000 : 100000;
    tutti_request **request = start_of(r, calloc(AHEAD_SENDS, sizeof *request));
    uint8_t *buf = start_of(r, calloc(1, bytes));
    uint64_t before;

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    before = job_resident_bytes();
    if (r->rank == 1) {
        kill(getpid(), SIGSTOP);
        for (uint32_t i = 0; i < AHEAD_SENDS; i++) {
            job_step(r, "receive %u", i);
            CHECK_OK(r, tutti_recv(buf, bytes, TUTTI_U8, 0, r->comm, NULL));
            check_all(r, buf, bytes, 7);
        }
    } else {
        memset(buf, 7, bytes);
        CHECK(r, job_await(r->board, 1, 1));
        for (uint32_t i = 0; i < AHEAD_SENDS; i++) {
            const tutti_call how = { .size = sizeof how, .request = &request[i] };

            job_step(r, "send %u", i);
            CHECK_OK(r, tutti_send(buf, bytes, TUTTI_U8, 1, r->comm, &how));
        }
        job_raise(r->board, 0);
        job_step(r, "wait for all");
        CHECK_OK(r, tutti_wait_all(request, AHEAD_SENDS));
    }
    if (job_resident_bytes() > before + AHEAD_BYTES_MAX)
        job_fail(r, __FILE__, __LINE__, "memory grew from %llu to %llu MiB", (unsigned long long)(before / MIB),
                 (unsigned long long)(job_resident_bytes() / MIB));
    free(buf);
    free(request);
}

static void memory_stays_bounded_with_a_fast_sender_and_a_stopped_receiver(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES * 2; i++) {
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = 2, .seed = i / NWIRES, .direct = resume_receiver
        };

        job_run(&job, ahead_role);
    }
}

/* ---- memory that comes and goes ---- */

#define PAIRS 10000
#define USES (UNIT_SHARE > 1 ? 20 : 200)
#define USE_BYTES (MIB / 2)

static uint32_t mappings(struct rank *r)
{
    FILE *f = fopen("/proc/self/maps", "r");
    uint32_t lines = 0;
    int c;

    CHECK(r, f);
    while ((c = fgetc(f)) != EOF)
        lines += c == '\n';
    fclose(f);
    return lines;
}

/* Rank 1 wakes when rank 0, which has asked for a message, has stopped in turn; and that when rank 1 has looked. */
static void stop_in_turn(const struct job *job, struct job_board *board)
{
    (void)job;
    if (!job_await_stop(board, 1))
        return;
    job_raise(board, 1);
    if (!job_await_stop(board, 0))
        return;
    kill(board->pid[1], SIGCONT);
    job_await(board, 0, 1);
    kill(board->pid[0], SIGCONT);
}

/* Memory of rank 0 that rank 1 writes to. in_turn: rank 1 hears that it should before it hears of the memory. */
static void use(struct rank *r, uint8_t value, bool in_turn)
{
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request };
    uint8_t *mem;

    CHECK_OK(r, tutti_mem_alloc(r->comm, USE_BYTES, (void **)&mem));
    if (r->rank == 0) {
        CHECK_OK(r, tutti_recv(mem, USE_BYTES, TUTTI_U8, 1, r->comm, &how));
        for (int i = 0; i < 100; i++)
            tutti_test(request);
        if (in_turn)
            kill(getpid(), SIGSTOP);
        CHECK_OK(r, tutti_wait(request));
        check_all(r, mem, USE_BYTES, value);
    } else {
        memset(mem, value, USE_BYTES);
        CHECK_OK(r, tutti_send(mem, USE_BYTES, TUTTI_U8, 0, r->comm, &how));
        for (int i = 0; i < 1000; i++)
            tutti_test(request);
        if (in_turn)
            job_raise(r->board, 0);
        CHECK_OK(r, tutti_wait(request));
    }
    CHECK_OK(r, tutti_mem_free(r->comm, mem));
}

static void pairs_role(struct rank *r)
{
    uint32_t descriptors, maps;
    void *mem[3];

    job_open(r);
    use(r, 1, false);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    descriptors = job_descriptors();
    maps = mappings(r);
    if (r->rank == 1)
        kill(getpid(), SIGSTOP);
    else
        CHECK(r, job_await(r->board, 1, 1));
    CHECK_OK(r, tutti_mem_alloc(r->comm, 1, &mem[0]));
    for (uint32_t i = 0; i < PAIRS && r->rank == 0; i++) {
        CHECK_OK(r, tutti_mem_alloc(r->comm, 4096 * (1 + i % 3), &mem[1]));
        CHECK_OK(r, tutti_mem_alloc(r->comm, 1, &mem[2]));
        CHECK(r, *(uint8_t *)mem[1] == 0);
        memset(mem[1], 0xff, 4096);
        CHECK_OK(r, tutti_mem_free(r->comm, mem[2 - i % 2]));
        CHECK_OK(r, tutti_mem_free(r->comm, mem[1 + i % 2]));
    }
    job_step(r, "after the pairs");
    use(r, 2, true);
    for (uint32_t i = 0; i < USES; i++) {
        job_step(r, "use %u", i);
        for (uint32_t k = 0; k < 20; k++) {
            CHECK_OK(r, tutti_mem_alloc(r->comm, USE_BYTES, &mem[1]));
            CHECK_OK(r, tutti_mem_free(r->comm, mem[1]));
        }
        use(r, (uint8_t)(3 + i % 100), false);
    }
    CHECK_OK(r, tutti_mem_free(r->comm, mem[0]));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    for (uint64_t until_ns = tt_now_ns() + SOON_NS; job_descriptors() > descriptors && tt_now_ns() < until_ns;)
        usleep(1000);           /* the peer may have to hear of the last ones */
    CHECK(r, job_descriptors() <= descriptors);
    if (UNIT_SHARE == 1 && mappings(r) > maps + 500)    /* the thread sanitizer maps some with each */
        job_fail(r, __FILE__, __LINE__, "%u mappings became %u", maps, mappings(r));
    job_meet(r);
}

static void memory_may_be_allocated_and_freed_without_end(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWIRES; w++) {
        const struct job job = { .wires = wires[w], .nranks = 2, .seed = SEED, .direct = stop_in_turn };

        job_run(&job, pairs_role);
    }
}

#define TOLD_SEGMENTS 1000      /* more than a socket holds */

/* Rank 1 tells the stopped rank 0 of so many segments that there is no room to tell of those that its receive needs. */
static void untold_role(struct rank *r)
{
    uint8_t *buf = start_of(r, calloc(1, MIB));
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request };

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank == 0) {
        memset(buf, 7, MIB);
        kill(getpid(), SIGSTOP);
        CHECK_OK(r, tutti_send(buf, MIB, TUTTI_U8, 1, r->comm, NULL));
    } else {
        CHECK(r, job_await(r->board, 1, 1));
        for (uint32_t i = 0; i < TOLD_SEGMENTS; i++) {
            void *mem;

            CHECK_OK(r, tutti_mem_alloc(r->comm, 1, &mem));
            CHECK_OK(r, tutti_mem_free(r->comm, mem));
        }
        CHECK_OK(r, tutti_recv(buf, MIB, TUTTI_U8, 0, r->comm, &how));
        job_raise(r->board, 0);
        job_step(r, "wait");
        CHECK_OK(r, tutti_wait(request));
        check_all(r, buf, MIB, 7);
    }
    free(buf);
}

static void resume_sender(const struct job *job, struct job_board *board)
{
    (void)job;
    if (job_await_stop(board, 0)) {
        job_raise(board, 1);
        job_await(board, 0, 1);
        kill(board->pid[1], SIGSTOP);
        job_await_stop(board, 1);
        kill(board->pid[0], SIGCONT);
        usleep(200000);         /* in which rank 0 has the offer, and not the memory */
        kill(board->pid[1], SIGCONT);
    }
}

static void an_offer_of_memory_that_is_not_known_yet_is_taken_later(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED, .direct = resume_sender };

    (void)state;
    job_run(&job, untold_role);
}

/* ---- the ordinary end ---- */

/* Each leaves when its own part is over; nobody waits for the others, which may still be in their last call. */
static void leave_role(struct rank *r)
{
    for (uint32_t round = 0; round < 15; round++) {
        const struct call c = {
            .kind = round % 3 ? TT_BROADCAST : TT_ALLREDUCE, .type = TUTTI_I32, .count = round % 2 ? 10 : 300000,
            .nranks = r->nranks, .salt = round,
        };
        char why[CALL_TEXT_BYTES];
        struct call_side s;

        job_step(r, "round %u: open", round);
        job_open(r);
        job_step(r, "round %u: %s", round, tt_coll_name(c.kind));
        call_init(&s, &c, r->rank);
        CHECK_OK(r, call_go(&s, r->comm, false));
        if (!call_is_right(&s, why))
            job_fail(r, __FILE__, __LINE__, "%s", why);
        call_fini(&s);
        job_step(r, "round %u: destroy", round);
        job_close(r);
        job_meet(r);            /* one start-up at a time at one rendezvous */
    }
}

static void ranks_that_leave_early_are_no_error_to_the_others(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES * 3; i++) {
        const struct job job = { .wires = wires[i % NWIRES], .nranks = 2 + i / NWIRES, .seed = SEED };

        job_run(&job, leave_role);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_call_different_things_all_learn_both_values),
        cmocka_unit_test(sizes_of_a_message_or_of_blocks_that_differ_are_a_mismatch),
        cmocka_unit_test(an_early_message_of_another_size_is_a_mismatch),
        cmocka_unit_test(a_block_of_alltoallv_that_is_not_as_long_as_expected_is_a_mismatch),
        cmocka_unit_test(survivors_of_a_killed_rank_have_their_result_or_their_input),
        cmocka_unit_test(a_stopped_rank_is_named_at_the_deadline_by_all_others),
        cmocka_unit_test(a_deadline_reports_the_collective_its_number_its_step_and_the_peer),
        cmocka_unit_test(an_abort_ends_all_requests_and_leaves_no_thread_or_descriptor_a_hundred_times),
        cmocka_unit_test(aborted_operations_give_back_what_they_took_once_their_peers_have_heard),
        cmocka_unit_test(a_rank_that_stood_still_itself_blames_nobody),
        cmocka_unit_test(what_an_abort_takes_back_is_missed_by_no_other_communicator),
        cmocka_unit_test(adjacent_operations_that_are_aborted_restore_their_input),
        cmocka_unit_test(ranks_without_a_common_wire_are_told),
        cmocka_unit_test(a_delayed_writer_does_not_touch_a_buffer_that_an_abort_gave_back),
        cmocka_unit_test(two_communicators_used_in_opposite_order_do_not_deadlock),
        cmocka_unit_test(many_communicators_used_in_opposite_order_do_not_deadlock),
        cmocka_unit_test(memory_stays_bounded_with_a_fast_sender_and_a_stopped_receiver),
        cmocka_unit_test(memory_may_be_allocated_and_freed_without_end),
        cmocka_unit_test(an_offer_of_memory_that_is_not_known_yet_is_taken_later),
        cmocka_unit_test(ranks_that_leave_early_are_no_error_to_the_others),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
