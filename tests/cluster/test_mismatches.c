/* Ranks that make different calls all get an error with both values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "calls.h"
#include "job.h"
#include "support/unit.h"

#define SEED 20260403
/* far longer than necessary, and long before the deadline */
#define SOON_NS (60 * TT_SECOND)

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

enum differ {
    DIFFER_KIND,
    DIFFER_COUNT,
    DIFFER_TYPE,
    DIFFER_OP,
    DIFFER_DIVISOR,
    DIFFER_ROOT,
    DIFFER_ALGO,
    DIFFER_PASSED_ON,
    DIFFERS
};

static const struct {
    enum tt_coll_kind kind;
    const char *common, *odd;   /* texts in the message */
} differs[DIFFERS] = {
    [DIFFER_KIND] = { TT_ALLREDUCE, "allreduce", "broadcast" },
    [DIFFER_COUNT] = { TT_ALLREDUCE, "count 40", "count 39" },
    [DIFFER_TYPE] = { TT_ALLREDUCE, "type f32", "type i32" },
    [DIFFER_OP] = { TT_REDUCE, "op sum", "op max" },
    [DIFFER_DIVISOR] = { TT_ALLREDUCE, "op avg, divisor 2", "op avg, divisor 3" },
    [DIFFER_ROOT] = { TT_BROADCAST, "root 0", "root 1" },
    [DIFFER_ALGO] = { TT_ALLREDUCE, "allreduce_ring", "allreduce_doubling" },
    [DIFFER_PASSED_ON] = { TT_ALLTOALLV, "alltoallv_two_level", "allreduce" },
};

struct mismatch {
    enum differ differ;
    uint32_t odd;               /* the rank with the different call */
    bool brief;                 /* the messages are short, and the same call was made before */
};

static struct call mismatched(const struct mismatch *m, uint32_t rank, uint32_t nranks)
{
    struct call c = {
        .kind = differs[m->differ].kind,
        .type = TUTTI_F32,
        .op = m->differ == DIFFER_DIVISOR ? TUTTI_AVG : TUTTI_SUM,
        .count = m->brief ? 40 : 40000,
        .nranks = nranks,
        .salt = 3,
        .algo = m->differ == DIFFER_ALGO        ? "ring"
                : m->differ == DIFFER_PASSED_ON ? "two_level"
                                                : NULL,
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
    case DIFFER_DIVISOR:
        c.salt = 6;             /* selects a divisor in calls.c */
        break;
    case DIFFER_ROOT:
        c.root = 1;
        break;
    case DIFFER_PASSED_ON:
        c.kind = TT_ALLREDUCE;
        c.algo = NULL;
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
    const struct call c = mismatched(m, r->rank, r->nranks),
                      common = mismatched(m, UINT32_MAX, r->nranks);
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
    if (st == TUTTI_OK)         /* this rank's part completed before the mismatch could be
                                   detected */
        st = tutti_barrier(r->comm, NULL);
    CHECK_STATUS(r, st, TUTTI_ERR_MISMATCH);
    CHECK(r, tt_now_ns() - begin_ns < SOON_NS);
    sentence = tutti_last_error();
    for (uint32_t i = 0; i < r->nranks; i++)
        named += job_names(sentence, i);
    CHECK(r, named == 2 && job_names(sentence, m->odd));
    CHECK(r,
          strstr(sentence, differs[m->differ].common) && strstr(sentence, differs[m->differ].odd));
    CHECK(r, differs[m->differ].kind != TT_ALLREDUCE || m->differ == DIFFER_KIND ||
                 !strstr(sentence, "root "));
    CHECK_STATUS(r, tutti_barrier(r->comm, NULL), TUTTI_ERR_MISMATCH);
    CHECK_STATUS(r, tutti_comm_status(r->comm), TUTTI_ERR_MISMATCH);
    call_fini(&s);
}

static void mismatch_reports_both_values_everywhere(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * NWIRES * DIFFERS * (UNIT_SHARE > 1 ? 1 : 3); i++) {
        const struct mismatch m = {
            .differ = (enum differ)(i / NWIRES % DIFFERS),
            .odd = i % (2 + i % 3),
            .brief = i / NWIRES / DIFFERS % 2,
        };
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = 2 + i % 3, .seed = job_seed(SEED), .arg = &m
        };

        job_run(&job, mismatch_role);
    }
}

/* Different sizes of a message are reported, too. So are different counts of a v call, although its
 * values are too many to list. */
static void sizes_role(struct rank *r)
{
    const size_t bytes = r->job->seed % 2 ? 100 : 200000, mine = r->rank ? bytes : bytes + 4;
    const size_t counts[2] = { 5, mine };
    uint8_t *buf = job_have(r, calloc(2, bytes + 5));
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
    CHECK(r, job_names(tutti_last_error(), 0) && job_names(tutti_last_error(), 1));
    snprintf(text, sizeof text, "%zu bytes", mine);
    CHECK(r, r->job->arg || strstr(tutti_last_error(), text));
    CHECK(r, !r->job->arg || (strstr(tutti_last_error(), "counts differ") &&
                              !strstr(tutti_last_error(), "count ")));
    free(buf);
}

static void different_sizes_are_a_mismatch(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES * 4; i++) {
        const struct job job = {
            .wires = wires[i % NWIRES],
            .nranks = 2,
            .seed = i / NWIRES % 2,
            .arg = i < NWIRES * 2 ? NULL : "v",
        };

        job_run(&job, sizes_role);
    }
}

/* ---- types of a message ---- */

struct types {
    tutti_dtype sent, expected;
    size_t bytes;
    bool grouped, differ;
};

static tutti_status p2p(const struct types *t, void *buf, bool is_recv, int peer, tutti_comm *comm)
{
    const tutti_dtype type = is_recv ? t->expected : t->sent;
    const size_t count = t->bytes / tutti_dtype_bytes(type);
    const tutti_p2p op = {
        .is_recv = is_recv, .peer = peer, .buf = buf, .count = count, .type = type
    };

    if (t->grouped)
        return tutti_group(&op, 1, comm, NULL);
    return is_recv ? tutti_recv(buf, count, type, peer, comm, NULL)
                   : tutti_send(buf, count, type, peer, comm, NULL);
}

/* Rank 2 is not involved, and gets the error in its next call. */
static void types_role(struct rank *r)
{
    const struct types *t = r->job->arg;
    uint8_t *buf = job_have(r, malloc(t->bytes));
    char sent[64], expected[64];
    tutti_status st = TUTTI_OK;

    job_open(r);
    job_step(r, "%s to %s", tutti_dtype_name(t->sent), tutti_dtype_name(t->expected));
    memset(buf, r->rank ? 0 : 7, t->bytes);
    if (r->rank < 2)
        st = p2p(t, buf, r->rank, (int)!r->rank, r->comm);
    if (!t->differ) {
        CHECK_OK(r, st);
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        job_check_all(r, buf, t->bytes, r->rank < 2 ? 7 : 0);
    } else {
        st = st ? st : tutti_barrier(r->comm, NULL);    /* a short message may be sent before the
                                                           other rank calls */
        CHECK_STATUS(r, st, TUTTI_ERR_MISMATCH);
        CHECK(r, job_names(tutti_last_error(), 0) && job_names(tutti_last_error(), 1));
        snprintf(sent, sizeof sent, "send(%zu bytes, type %s)", t->bytes,
                 tutti_dtype_name(t->sent));
        snprintf(expected, sizeof expected, "recv(%zu bytes, type %s)", t->bytes,
                 tutti_dtype_name(t->expected));
        CHECK(r, strstr(tutti_last_error(), sent) && strstr(tutti_last_error(), expected));
        /* short data is not delivered to a failed call */
        CHECK(r, r->rank != 1 || buf[0] == 0 || t->bytes > 16);
    }
    free(buf);
}

/* Also if both have the same size in bytes; only I8 and U8 match any type. */
static void different_types_mismatch_unless_bytes(void **state)
{
    static const struct {
        tutti_dtype sent, expected;
        bool differ;
    } pairs[] = {
        { TUTTI_F32, TUTTI_I32, true },  { TUTTI_F64, TUTTI_F32, true },
        { TUTTI_BF16, TUTTI_F16, true }, { TUTTI_F8E4M3, TUTTI_F8E5M2, true },
        { TUTTI_F32, TUTTI_U8, false },  { TUTTI_I8, TUTTI_F64, false },
        { TUTTI_I8, TUTTI_U8, false }, { TUTTI_F16, TUTTI_F16, false },
    };
    static const size_t sizes[] = { 16, 400000 };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * 4 * sizeof pairs / sizeof *pairs; i++) {
        const struct types t = {
            .sent = pairs[i / NWIRES / 4].sent,
            .expected = pairs[i / NWIRES / 4].expected,
            .differ = pairs[i / NWIRES / 4].differ,
            .bytes = sizes[i / NWIRES % 2],
            .grouped = i / NWIRES / 2 % 2,
        };
        const struct job job = { .wires = wires[i % NWIRES], .nranks = 3, .seed = SEED, .arg = &t };

        if (unit_has_turn(i + i / NWIRES / 4, 4))
            job_run(&job, types_role);
    }
}

/* A short unexpected message whose size differs from that of its receive. */
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

static void unexpected_message_size_is_a_mismatch(void **state)
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
    size_t others;              /* bytes of each other block */
    const char *algo;
};

/* The sender or the receiver may have completed its part; it then gets the error in its next
 * call. */
static void block_role(struct rank *r)
{
    const struct block *b = r->job->arg;
    const tutti_call how = { .size = sizeof how, .algo = b->algo };
    const uint32_t receiver = (b->sender + 1) % r->nranks;
    const size_t most = b->others + (b->sent > b->expected ? b->sent : b->expected);
    size_t out[JOB_RANKS_MAX], in[JOB_RANKS_MAX];
    uint8_t *src = job_have(r, calloc(r->nranks, most)),
            *dst = job_have(r, calloc(r->nranks, most));
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
    job_step(r, "rank %u sends %zu bytes where %zu are expected, others %zu", b->sender, b->sent,
             b->expected, b->others);
    begin_ns = tt_now_ns();
    st = tutti_alltoallv(src, out, NULL, dst, in, NULL, TUTTI_U8, r->comm, &how);
    if (st == TUTTI_OK)
        st = tutti_barrier(r->comm, NULL);
    CHECK_STATUS(r, st, TUTTI_ERR_MISMATCH);
    CHECK(r, tt_now_ns() - begin_ns < SOON_NS);
    snprintf(sent, sizeof sent, "sends %zu bytes", b->sent);
    snprintf(expected, sizeof expected, "expects %zu ", b->expected);
    CHECK(r, job_names(tutti_last_error(), b->sender) && job_names(tutti_last_error(), receiver));
    CHECK(r, strstr(tutti_last_error(), sent) && strstr(tutti_last_error(), expected));
    free(src);
    free(dst);
}

static void alltoallv_block_size_is_a_mismatch(void **state)
{
    static const size_t sizes[][2] = {
        { 100, 104 },  { 0, 4 },           { 100, 200000 },
        { 0, 200000 }, { 200000, 200004 }, { 200000, 5000000 },
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
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = nranks, .seed = SEED, .arg = &block
        };

        /* a short run tests each size in one direction only; the sizes of the other blocks
         * alternate */
        if (UNIT_SHARE == 1 || (turn ^ turn >> 1 ^ i / NWIRES) % 2 == 0)
            job_run(&job, block_role);
    }
}

/* A rank that forwards rows does not know their sizes; sender and receiver do, because the size is
 * sent with the row. Sizes are below, at and above that of a slot, which holds a short row. */
static void forwarded_row_size_is_a_mismatch(void **state)
{
    static const size_t sizes[][2] = {
        { 100, 104 },  { 0, 4 },         { 504, 505 },       { 100, 20000 },
        { 0, 200000 }, { 20000, 20004 }, { 200000, 200004 }, { 200000, 5000000 },
    };
    const uint32_t nsizes = sizeof sizes / sizeof *sizes;

    (void)state;
    for (uint32_t i = 0; i < NWIRES * nsizes * 4; i++) {
        const size_t *s = sizes[i / NWIRES % nsizes];
        const uint32_t turn = i / NWIRES / nsizes, nranks = 2 + (i / NWIRES + turn) % 3;
        const struct block block = {
            .sent = s[turn % 2], .expected = s[1 - turn % 2], .sender = (i + turn / 2) % nranks,
            .others = turn < 2 ? 8 : 300000, .algo = "two_level",
        };
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = nranks, .seed = SEED, .arg = &block
        };

        if ((turn ^ turn >> 1 ^ i / NWIRES) % 2 == 0)       /* each size in one direction only; the
                                                               sizes of the other blocks
                                                               alternate */
            job_run(&job, block_role);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mismatch_reports_both_values_everywhere),
        cmocka_unit_test(different_sizes_are_a_mismatch),
        cmocka_unit_test(different_types_mismatch_unless_bytes),
        cmocka_unit_test(unexpected_message_size_is_a_mismatch),
        cmocka_unit_test(alltoallv_block_size_is_a_mismatch),
        cmocka_unit_test(forwarded_row_size_is_a_mismatch),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
