/* Errors for invalid arguments, without starting anything; and the lifetime of requests and
 * memory. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "job.h"
#include "support/unit.h"

#define SEED 20260405
#define RANKS 3

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

static void over_wires(uint32_t nranks, void (*role)(struct rank *))
{
    for (size_t w = 0; w < NWIRES; w++) {
        const struct job job = { .wires = wires[w], .nranks = nranks, .seed = job_seed(SEED) };

        job_run(&job, role);
    }
}

#define CHECK_INVALID(r, call, text) CHECK_SAYS(r, call, TUTTI_ERR_INVALID, text)

/* The ranks' sequence numbers are still equal, and the communicator works. */
static void check_works(struct rank *r, tutti_comm *comm)
{
    const uint32_t n = (uint32_t)tutti_comm_size(comm);
    uint32_t mine = (uint32_t)tutti_comm_rank(comm) + 1, sum = 0;

    CHECK_OK(r, tutti_comm_status(comm));
    CHECK_OK(r, tutti_allreduce(&mine, &sum, 1, TUTTI_U32, TUTTI_SUM, comm, NULL));
    CHECK(r, sum == n * (n + 1) / 2);
}

/* ---- every data call, in one form ---- */

/* Arguments of a call; a test makes one of them invalid. */
struct given {
    const void *src;
    void *dst;
    size_t count;
    const size_t *counts, *displs;
    tutti_dtype type;
    tutti_redop op;
    int root;
    tutti_comm *comm;
    const tutti_call *call;
};

static tutti_status go_allreduce(const struct given *g)
{
    return tutti_allreduce(g->src, g->dst, g->count, g->type, g->op, g->comm, g->call);
}
static tutti_status go_reduce(const struct given *g)
{
    return tutti_reduce(g->src, g->dst, g->count, g->type, g->op, g->root, g->comm, g->call);
}
static tutti_status go_reduce_scatter(const struct given *g)
{
    return tutti_reduce_scatter(g->src, g->dst, g->count, g->type, g->op, g->comm, g->call);
}
static tutti_status go_reduce_scatterv(const struct given *g)
{
    return tutti_reduce_scatterv(g->src, g->dst, g->counts, g->type, g->op, g->comm, g->call);
}
static tutti_status go_allgather(const struct given *g)
{
    return tutti_allgather(g->src, g->dst, g->count, g->type, g->comm, g->call);
}
static tutti_status go_allgatherv(const struct given *g)
{
    return tutti_allgatherv(g->src, g->dst, g->counts, g->displs, g->type, g->comm, g->call);
}
static tutti_status go_broadcast(const struct given *g)
{
    return tutti_broadcast(g->src, g->dst, g->count, g->type, g->root, g->comm, g->call);
}
static tutti_status go_gather(const struct given *g)
{
    return tutti_gather(g->src, g->dst, g->count, g->type, g->root, g->comm, g->call);
}
static tutti_status go_gatherv(const struct given *g)
{
    return tutti_gatherv(g->src, g->dst, g->counts, g->displs, g->type, g->root, g->comm, g->call);
}
static tutti_status go_scatter(const struct given *g)
{
    return tutti_scatter(g->src, g->dst, g->count, g->type, g->root, g->comm, g->call);
}
static tutti_status go_scatterv(const struct given *g)
{
    return tutti_scatterv(g->src, g->dst, g->counts, g->displs, g->type, g->root, g->comm, g->call);
}
static tutti_status go_alltoall(const struct given *g)
{
    return tutti_alltoall(g->src, g->dst, g->count, g->type, g->comm, g->call);
}
static tutti_status go_alltoallv(const struct given *g)
{
    return tutti_alltoallv(g->src, g->counts, g->displs, g->dst, g->counts, g->displs, g->type,
                           g->comm, g->call);
}
static tutti_status go_barrier(const struct given *g)
{
    return tutti_barrier(g->comm, g->call);
}
static tutti_status go_send(const struct given *g)
{
    return tutti_send(g->src, g->count, g->type, g->root, g->comm, g->call);
}
static tutti_status go_recv(const struct given *g)
{
    return tutti_recv(g->dst, g->count, g->type, g->root, g->comm, g->call);
}
static tutti_status go_group(const struct given *g)
{
    const tutti_p2p op = { .peer = g->root, .buf = g->dst, .count = g->count, .type = g->type };

    return tutti_group(&op, 1, g->comm, g->call);
}

enum { SRC = 1, DST = 2, OP = 4, ROOT = 8, V = 16, DISPLS = 32, TYPE = 64, P2P = 128 };

static const struct {
    const char *name;
    tutti_status (*go)(const struct given *);
    unsigned has;
} calls[] = {
    { "tutti_allreduce", go_allreduce, SRC | DST | OP | TYPE },
    { "tutti_reduce", go_reduce, SRC | DST | OP | ROOT | TYPE },
    { "tutti_reduce_scatter", go_reduce_scatter, SRC | DST | OP | TYPE },
    { "tutti_reduce_scatterv", go_reduce_scatterv, SRC | DST | OP | V | TYPE },
    { "tutti_allgather", go_allgather, SRC | DST | TYPE },
    { "tutti_allgatherv", go_allgatherv, SRC | DST | V | DISPLS | TYPE },
    { "tutti_broadcast", go_broadcast, SRC | DST | ROOT | TYPE },
    { "tutti_gather", go_gather, SRC | DST | ROOT | TYPE },
    { "tutti_gatherv", go_gatherv, SRC | DST | ROOT | V | DISPLS | TYPE },
    { "tutti_scatter", go_scatter, SRC | DST | ROOT | TYPE },
    { "tutti_scatterv", go_scatterv, SRC | DST | ROOT | V | DISPLS | TYPE },
    { "tutti_alltoall", go_alltoall, SRC | DST | TYPE },
    { "tutti_alltoallv", go_alltoallv, SRC | DST | V | DISPLS | TYPE },
    { "tutti_barrier", go_barrier, 0 },
    { "tutti_send", go_send, SRC | ROOT | P2P | TYPE },
    { "tutti_recv", go_recv, DST | ROOT | P2P | TYPE },
    { "tutti_group: ops[0]", go_group, SRC | DST | ROOT | P2P | TYPE },
};
#define NCALLS (sizeof calls / sizeof *calls)

/* Attempts of one rank at one call: each starts from valid arguments, and makes one of them
 * invalid. */
struct attempts {
    struct rank *r;
    size_t which;
    struct given right;
};

static void check_spoiled(const struct attempts *a, int line, const struct given *g,
                          const char *text)
{
    const tutti_status st = calls[a->which].go(g);

    if (st != TUTTI_ERR_INVALID || !strstr(tutti_last_error(), text) ||
        !strstr(tutti_last_error(), calls[a->which].name))
        job_fail(a->r, __FILE__, line, "%s: %s, not INVALID with its name and \"%s\"",
                 calls[a->which].name, tutti_status_name(st), text);
}
#define SPOILED(a, text, ...) \
    do { \
        struct given g = (a)->right; \
        __VA_ARGS__; \
        check_spoiled(a, __LINE__, &g, text); \
    } while (0)

/* Options of a call in a later release. */
struct newer {
    tutti_call known;
    uint64_t more;
};

static void spoil_common(const struct attempts *a)
{
    const size_t right = sizeof(tutti_call);
    char sizes[64];

    snprintf(sizes, sizeof sizes, "not %zu", right);
    if (!(calls[a->which].has & P2P) || calls[a->which].go != go_group)
        SPOILED(a, "the communicator is NULL", g.comm = NULL);
    SPOILED(a, "call.size is 0", g.call = &(tutti_call){ .size = 0 });
    /* smaller than the struct of release 0.1 */
    SPOILED(a, sizes, g.call = &(tutti_call){ .size = offsetof(tutti_call, scale) });
    SPOILED(a, sizes, g.call = &(tutti_call){ .size = SIZE_MAX });
    SPOILED(a, "is not zero",
            g.call = &(const struct newer){ .known.size = sizeof(struct newer), .more = 1 }.known);
}

static void spoil_values(const struct attempts *a)
{
    const unsigned has = calls[a->which].has;
    const tutti_call unscaled = { .size = sizeof unscaled };
    const tutti_call divided = { .size = sizeof divided, .divisor = 4 },
                     too_far = { .size = sizeof too_far, .divisor = 1ull << 32 };

    if (has & TYPE) {
        SPOILED(a, "unknown type 14", g.type = TUTTI_DTYPE_COUNT);
        SPOILED(a, "unknown type -1", g.type = (tutti_dtype)-1);
    }
    if (has & OP) {
        SPOILED(a, "unknown reduction operation 9", g.op = TUTTI_REDOP_COUNT);
        SPOILED(a, "unknown reduction operation -1", g.op = (tutti_redop)-1);
        SPOILED(a, "bor is not defined for type f32", {
            g.op = TUTTI_BOR;
            g.type = TUTTI_F32;
        });
        SPOILED(a, "premul_sum requires tutti_call.scale: call is NULL", g.op = TUTTI_PREMUL_SUM);
        SPOILED(a, "premul_sum requires tutti_call.scale: it is 0", {
            g.op = TUTTI_PREMUL_SUM;
            g.call = &unscaled;
        });
        SPOILED(a, "premul_sum requires tutti_call.scale: it is 0", {
            g.op = TUTTI_PREMUL_SUM;
            g.count = 0;
            g.call = &unscaled;
        });
        SPOILED(a,
                "tutti_call.divisor is 4 with op sum: it must be at most 2^32 - 1, and 0 unless op "
                "is avg",
                g.call = &divided);
        SPOILED(a, "tutti_call.divisor is 4294967296 with op avg: it must be at most 2^32 - 1", {
            g.op = TUTTI_AVG;
            g.call = &too_far;
        });
    }
    if (has & ROOT) {
        SPOILED(a, "rank 3 is out of range: the communicator has 3 ranks", g.root = RANKS);
        /* -1 is TUTTI_ANY_RANK of a receive */
        SPOILED(a, "rank -2 is out of range: the communicator has 3 ranks", g.root = -2);
    }
    if (has & P2P && calls[a->which].go != go_group)
        SPOILED(a, "is the calling rank", g.root = (int)a->r->rank);
}

/* Invalid buffers; those that only the root uses are tested on the root. */
static void spoil_buffers(const struct attempts *a)
{
    static const size_t huge[RANKS] = { 1, SIZE_MAX / 2, 1 }, apart[RANKS] = { 0, 4, 9 };
    const unsigned has = calls[a->which].has;
    const bool root = (int)a->r->rank == a->right.root;
    const bool reads = (has & SRC) && (root || (calls[a->which].go != go_broadcast &&
                                                calls[a->which].go != go_scatter &&
                                                calls[a->which].go != go_scatterv));
    const bool writes = (has & DST) && (root || (calls[a->which].go != go_reduce &&
                                                 calls[a->which].go != go_gather &&
                                                 calls[a->which].go != go_gatherv));

    if (reads && calls[a->which].go != go_group)
        SPOILED(a, "is NULL", g.src = NULL);
    if (writes)
        SPOILED(a, "is NULL", g.dst = NULL);
    if (has & V)
        SPOILED(a, "counts is NULL", g.counts = NULL);
    if (has & V)
        SPOILED(a, "counts[1] = 9223372036854775807", g.counts = huge);
    if (has & DISPLS)
        SPOILED(a, "counts[1]", g.displs = huge);
    if ((has & TYPE) && !(has & V))
        SPOILED(a, "count 4611686018427387904 does not fit in the address space",
                g.count = (size_t)1 << 62);
    /* blocks of dst may be in any order; empty blocks may be anywhere */
    if ((has & DISPLS) && calls[a->which].go != go_scatterv) {
        static const size_t some[RANKS] = { 3, 0, 2 }, all[RANKS] = { 1, 2, 1 };
        static const size_t over[RANKS] = { 5, 6, 4 }, same[RANKS] = { 8, 9, 8 };

        SPOILED(a, "blocks of dst overlap: rank 0 has elements 5 to 7, rank 2 has elements 4 to 5",
                g.counts = some, g.displs = over);
        SPOILED(a, "blocks of dst overlap: rank 0 has elements 8 to 8, rank 2 has elements 8 to 8",
                g.counts = all, g.displs = same);
    }
    if (reads && writes && !(has & P2P))
        SPOILED(a, "overlap", g.src = (const uint8_t *)g.dst + 1);
    if (calls[a->which].go == go_alltoallv)     /* in place, sent and received blocks must match */
        CHECK_INVALID(a->r,
                      tutti_alltoallv(a->right.dst, a->right.counts, apart, a->right.dst,
                                      a->right.counts, NULL, a->right.type, a->right.comm, NULL),
                      "overlap, but are not in place");
}

/* An unknown algorithm; one of another collective; one that does not support this order of
 * blocks. */
static void spoil_algo(const struct attempts *a)
{
    static const char *const names[] = { "none_such", "", "broadcast_binomial ", "scan_ring",
                                         "bruck" };
    static const size_t backwards[RANKS] = { 8, 4, 0 };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const tutti_call how = { .size = sizeof how, .algo = names[i] };
        struct given g = a->right;
        char text[64];

        if (calls[a->which].go == go_group ||
            (strcmp(names[i], "bruck") == 0 && calls[a->which].go != go_allgatherv))
            continue;
        g.call = &how;
        g.displs = backwards;
        snprintf(text, sizeof text, "unknown algorithm \"%s\"", names[i]);
        CHECK_INVALID(a->r, calls[a->which].go(&g),
                      strcmp(names[i], "bruck") == 0
                          ? "\"allgatherv_bruck\" does not support this call: "
                            "it needs packed blocks"
                          : text);
    }
}

/* Repeats the valid call until its operation is cached; a send or receive with its counterpart. */
static void repeat(const struct attempts *a)
{
    const struct given *g = &a->right;
    /* the neighbour on the other side */
    const int n = RANKS, me = (int)a->r->rank, other = (2 * me - g->root + n) % n;
    uint32_t room[4];

    for (int i = 0; i < 4; i++) {
        if (calls[a->which].go == go_recv)
            CHECK_OK(a->r, tutti_send(g->src, g->count, g->type, other, g->comm, NULL));
        CHECK_OK(a->r, calls[a->which].go(g));
        if (calls[a->which].go == go_send)
            CHECK_OK(a->r, tutti_recv(room, g->count, g->type, other, g->comm, NULL));
    }
}

/* Each call is tried with every invalid argument before its first use, and after. */
static void arguments_role(struct rank *r)
{
    static const size_t counts[RANKS] = { 4, 4, 4 };
    uint32_t src[4 * RANKS] = { 0 }, dst[4 * RANKS];

    job_open(r);
    for (size_t k = 0; k < 2 * NCALLS; k++) {
        const size_t i = k / 2;
        const struct attempts a = {
            .r = r,
            .which = i,
            .right = { .src = src,
                       .dst = dst,
                       .count = 4,
                       .counts = counts,
                       .type = TUTTI_U32,
                       .op = TUTTI_SUM,
                       .root = calls[i].has & P2P ? (int)(r->rank + 1) % RANKS : 1,
                       .comm = r->comm },
        };

        job_step(r, "%s%s", calls[i].name, k % 2 ? " again" : "");
        if (k % 2 && calls[i].go != go_group)
            repeat(&a);
        memset(dst, 0x5a, sizeof dst);
        spoil_common(&a);
        spoil_values(&a);
        spoil_buffers(&a);
        spoil_algo(&a);
        for (size_t at = 0; at < sizeof dst / sizeof *dst; at++)
            CHECK(r, dst[at] == 0x5a5a5a5a);
        check_works(r, r->comm);
    }
}

static void invalid_argument_is_named_nothing_starts(void **state)
{
    (void)state;
    over_wires(RANKS, arguments_role);
}

/* Unused arguments may have any value; empty buffers may have any address. */
static void unused_role(struct rank *r)
{
    static const size_t none[RANKS] = { 0 };
    uint32_t word = 7, room[RANKS];

    job_open(r);
    for (size_t i = 0; i < NCALLS; i++) {
        const struct given g = { .count = 0, .counts = none, .type = TUTTI_U32, .comm = r->comm };

        job_step(r, "%s of nothing", calls[i].name);
        if (!(calls[i].has & P2P))
            CHECK_OK(r, calls[i].go(&g));
    }
    CHECK_OK(r, tutti_broadcast(r->rank == 1 ? &word : NULL, room, 1, TUTTI_U32, 1, r->comm, NULL));
    CHECK_OK(r, tutti_reduce(&word, r->rank == 1 ? room : NULL, 1, TUTTI_U32, TUTTI_MAX, 1, r->comm,
                             NULL));
    CHECK_OK(r, tutti_gather(&word, r->rank == 1 ? room : NULL, 1, TUTTI_U32, 1, r->comm, NULL));
    CHECK_OK(r, tutti_scatter(r->rank == 1 ? room : NULL, &word, 1, TUTTI_U32, 1, r->comm, NULL));
    CHECK(r, word == 7 && room[0] == 7);
    CHECK_OK(r, tutti_group(NULL, 0, r->comm, NULL));
}

static void unused_buffers_may_be_null(void **state)
{
    (void)state;
    over_wires(RANKS, unused_role);
}

/* ---- groups ---- */

/* The last member is invalid. The members before it must not be started; otherwise the valid group
 * would not match. */
static void group_role(struct rank *r)
{
    const int right = (int)(r->rank + 1) % RANKS, left = (int)(r->rank + RANKS - 1) % RANKS;
    uint32_t out = 40 + r->rank, in = 0;
    tutti_request *request = NULL;
    tutti_p2p ops[3] = {
        { .peer = right, .buf = &out, .count = 1, .type = TUTTI_U32, .tag = 3 },
        { .is_recv = 1, .peer = left, .buf = &in, .count = 1, .type = TUTTI_U32, .tag = 3 },
        { .peer = 9, .buf = &out, .count = 1, .type = TUTTI_U32 },
    };

    job_open(r);
    CHECK_INVALID(r, tutti_group(ops, 3, r->comm, NULL),
                  "ops[2]: rank 9 is out of range: the communicator has 3 ranks");
    ops[2] = (tutti_p2p){ .peer = right, .buf = NULL, .count = 1, .type = TUTTI_U32 };
    CHECK_INVALID(r, tutti_group(ops, 3, r->comm, NULL), "ops[2]: buf is NULL");
    CHECK_INVALID(r, tutti_group(NULL, 1, r->comm, NULL), "ops is NULL");
    ops[2] = (tutti_p2p){ .peer = -1, .buf = &out, .count = 1, .type = TUTTI_U32 };
    CHECK_INVALID(r,
                  tutti_group(ops, 3, r->comm,
                              &(tutti_call){ .size = sizeof(tutti_call), .request = &request }),
                  "ops[2]: rank -1 is out of range: the communicator has 3 ranks");
    CHECK(r, !request);
    ops[2] = (tutti_p2p){ .is_recv = 2, .peer = right, .buf = &out, .count = 1, .type = TUTTI_U32 };
    CHECK_INVALID(r, tutti_group(ops, 3, r->comm, NULL),
                  "tutti_group: ops[2].is_recv is 2: must be 0 or 1");
    ops[2].is_recv = -1;
    CHECK_INVALID(r, tutti_group(ops, 3, r->comm, NULL),
                  "tutti_group: ops[2].is_recv is -1: must be 0 or 1");
    CHECK_INVALID(r, tutti_group(ops, 2, NULL, NULL), "the communicator is NULL");
    check_works(r, r->comm);
    for (uint32_t i = 0; i < 3; i++) {
        out = 50 + 10 * i + r->rank;
        job_step(r, "good group %u", i);
        CHECK_OK(r, tutti_group(ops, 2, r->comm, NULL));
        CHECK(r, in == 50 + 10 * i + (uint32_t)left);
    }
}

static void group_with_invalid_member_starts_nothing(void **state)
{
    (void)state;
    over_wires(RANKS, group_role);
}

/* ---- NULL ---- */

static void null_role(struct rank *r)
{
    tutti_comm *comm = NULL;
    size_t index = 77;
    uint32_t word;
    void *mem = NULL;
    tutti_request *none[2] = { NULL, NULL };

    CHECK_INVALID(r, tutti_comm_split(NULL, 0, 0, &comm),
                  "tutti_comm_split: the communicator is NULL");
    CHECK_INVALID(r, tutti_comm_dup(NULL, &comm), "tutti_comm_dup: the communicator is NULL");
    CHECK_INVALID(r, tutti_comm_status(NULL), "tutti_comm_status");
    CHECK_INVALID(r, tutti_comm_abort(NULL), "tutti_comm_abort");
    CHECK_INVALID(r, tutti_mem_alloc(NULL, 1, &mem), "tutti_mem_alloc");
    CHECK_INVALID(r, tutti_mem_free(NULL, &word), "tutti_mem_free");
    CHECK_INVALID(r, tutti_mem_register(NULL, &word, 4), "tutti_mem_register");
    CHECK_INVALID(r, tutti_mem_deregister(NULL, &word), "tutti_mem_deregister");
    CHECK(r, tutti_comm_rank(NULL) == -1 && tutti_comm_size(NULL) == -1);
    tutti_comm_destroy(NULL);
    CHECK_INVALID(r, tutti_test(NULL), "tutti_test: the request is NULL");
    CHECK_INVALID(r, tutti_wait(NULL), "tutti_wait: the request is NULL");
    CHECK_INVALID(r, tutti_wait_all(NULL, 1), "requests is NULL");
    CHECK_INVALID(r, tutti_wait_any(NULL, 1, &index), "requests is NULL");
    CHECK_INVALID(r, tutti_wait_any(none, 2, NULL), "index is NULL");
    CHECK_INVALID(r, tutti_wait_any(none, 2, &index), "all requests are NULL");
    CHECK_INVALID(r, tutti_wait_any(none, 0, &index), "all requests are NULL");
    CHECK_OK(r, tutti_wait_all(NULL, 0));
    CHECK_OK(r, tutti_wait_all(none, 2));
    job_open(r);
    CHECK_INVALID(r, tutti_comm_split(r->comm, 0, 0, NULL), "tutti_comm_split: out is NULL");
    CHECK_INVALID(r, tutti_comm_dup(r->comm, NULL), "tutti_comm_dup: out is NULL");
    CHECK_INVALID(r, tutti_mem_alloc(r->comm, 1, NULL), "out is NULL");
    CHECK(r, !comm && !mem && index == 77);
    check_works(r, r->comm);
}

static void null_error_names_the_call(void **state)
{
    (void)state;
    over_wires(2, null_role);
}

/* ---- requests ---- */

#define FAILING 4

/* The failure with the lowest index is reported, although it is the last in time. Requests of a
 * destroyed communicator can still be waited for. */
static void failing_role(struct rank *r)
{
    const int peer = (int)!r->rank;
    tutti_comm *comm[FAILING];
    tutti_request *request[FAILING + 1] = { NULL }, *untouched = (tutti_request *)(uintptr_t)1;
    tutti_call how = { .size = sizeof how };
    uint32_t word[FAILING] = { 0 }, mine = 9;

    job_open(r);
    for (uint32_t i = 0; i < FAILING; i++) {
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm[i]));
        how.request = &request[i + 1];
        CHECK_OK(r, tutti_recv(&word[i], 1, TUTTI_U32, peer, comm[i], &how));
        CHECK(r, tutti_test(request[i + 1]) == TUTTI_PENDING);
    }
    job_meet(r);
    how.request = &untouched;
    CHECK_INVALID(r, tutti_recv(&word[0], 1, TUTTI_U32, 5, comm[0], &how), "rank 5");
    CHECK(r, untouched == (tutti_request *)(uintptr_t)1);
    CHECK_OK(r, tutti_send(&mine, 1, TUTTI_U32, peer, comm[0], NULL));
    if (r->rank == 0)
        CHECK_OK(r, tutti_comm_abort(comm[3]));
    while (tutti_test(request[4]) == TUTTI_PENDING)
        ;
    CHECK_SAYS(r, tutti_test(request[4]), TUTTI_ERR_ABORTED, "rank 0 aborted");
    job_step(r, "destroy with a request");
    tutti_comm_destroy(comm[2]);
    CHECK_SAYS(r, tutti_test(request[3]), TUTTI_ERR_ABORTED, "destroyed");
    job_meet(r);
    if (r->rank == 1)
        CHECK_OK(r, tutti_comm_abort(comm[1]));
    job_step(r, "wait for all");
    CHECK_SAYS(r, tutti_wait_all(request, FAILING + 1), TUTTI_ERR_ABORTED, "rank 1 aborted");
    for (uint32_t i = 0; i <= FAILING; i++)
        CHECK(r, !request[i]);
    CHECK(r, word[0] == 9 && word[1] == 0 && word[2] == 0 && word[3] == 0);
    CHECK_SAYS(r, tutti_recv(&word[1], 1, TUTTI_U32, peer, comm[1], &how), TUTTI_ERR_ABORTED,
               "rank 1 aborted");
    CHECK(r, untouched == (tutti_request *)(uintptr_t)1);
    check_works(r, comm[0]);
    tutti_comm_destroy(comm[0]);
    tutti_comm_destroy(comm[1]);
    tutti_comm_destroy(comm[3]);
}

static void wait_all_returns_the_first_error(void **state)
{
    (void)state;
    over_wires(2, failing_role);
}

/* Requests of two jobs in one list. The completed one is returned first, whichever it is; then the
 * other. */
static void worlds_role(struct rank *r)
{
    const int peer = (int)!r->rank;
    tutti_comm *other;
    uint32_t in[2], out[2] = { 5, 6 };

    job_open(r);
    job_meet(r);
    CHECK_OK(r, tutti_comm_create(&other, NULL));
    for (uint32_t i = 0; i < 10; i++) {
        const uint32_t first = i % 2;
        tutti_comm *const comm[2] = { r->comm, other };
        tutti_request *request[4] = { NULL };
        size_t index = 99;

        job_step(r, "round %u", i);
        for (uint32_t k = 0; k < 2; k++) {
            const tutti_call how = { .size = sizeof how, .request = &request[2 * k] };

            CHECK_OK(r, tutti_recv(&in[k], 1, TUTTI_U32, peer, comm[k], &how));
        }
        job_meet(r);
        CHECK_OK(r, tutti_send(&out[first], 1, TUTTI_U32, peer, comm[first], NULL));
        CHECK_OK(r, tutti_wait_any(request, 4, &index));
        CHECK(r, index == 2 * first && !request[index] && in[first] == out[first]);
        CHECK(r, tutti_test(request[2 * !first]) == TUTTI_PENDING);
        job_meet(r);
        CHECK_OK(r, tutti_send(&out[!first], 1, TUTTI_U32, peer, comm[!first], NULL));
        CHECK_OK(r, tutti_wait_any(request, 4, &index));
        CHECK(r, index == 2 * !first && in[!first] == out[!first]);
    }
    job_meet(r);
    tutti_comm_destroy(other);
    check_works(r, r->comm);
}

static void wait_any_accepts_requests_across_jobs(void **state)
{
    (void)state;
    over_wires(2, worlds_role);
}

/* ---- memory ---- */

#define ALLOCATED_MAX 256
#define CYCLES 300

static void memory_role(struct rank *r)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    static void *mem[ALLOCATED_MAX + 1];
    uint32_t descriptors;
    uint8_t *bytes;

    job_open(r);
    check_works(r, r->comm);
    descriptors = job_descriptors();
    job_step(r, "misuse");
    CHECK_OK(r, tutti_mem_alloc(r->comm, 3 * page + 5, &mem[0]));
    bytes = mem[0];
    CHECK(r, (uintptr_t)bytes % page == 0 && bytes[0] == 0 &&
                 memcmp(bytes, bytes + 1, 3 * page + 4) == 0);
    memset(bytes, 1, 3 * page + 5);
    CHECK_INVALID(r, tutti_mem_free(r->comm, bytes + page), "was not allocated by tutti_mem_alloc");
    CHECK_INVALID(r, tutti_mem_free(r->comm, mem), "was not allocated by tutti_mem_alloc");
    CHECK_INVALID(r, tutti_mem_free(r->comm, NULL), "tutti_mem_free");
    CHECK_OK(r, tutti_mem_free(r->comm, bytes));
    CHECK_INVALID(r, tutti_mem_free(r->comm, bytes), "was not allocated by tutti_mem_alloc");
    CHECK_OK(r, tutti_mem_alloc(r->comm, 0, &mem[0]));
    CHECK_OK(r, tutti_mem_free(r->comm, mem[0]));
    mem[0] = NULL;
    CHECK_SAYS(r, tutti_mem_alloc(r->comm, (size_t)1 << 50, &mem[0]), TUTTI_ERR_NOMEM,
               "1125899906842624 bytes");
    CHECK_SAYS(r, tutti_mem_alloc(r->comm, SIZE_MAX, &mem[0]), TUTTI_ERR_NOMEM,
               "18446744073709551615 bytes");
    if (strcmp(r->job->wires, "shm") == 0)      /* populated, so it would use all available
                                                   memory first */
        CHECK_SAYS(r, tutti_mem_alloc(r->comm, (size_t)1 << 42, &mem[0]), TUTTI_ERR_NOMEM,
                   "4398046511104 bytes");
    CHECK(r, !mem[0]);
    job_step(r, "too many");
    for (size_t i = 0; i < ALLOCATED_MAX; i++)
        CHECK_OK(r, tutti_mem_alloc(r->comm, 1, &mem[i]));
    CHECK_SAYS(r, tutti_mem_alloc(r->comm, 1, &mem[ALLOCATED_MAX]), TUTTI_ERR_NOMEM, "256");
    for (size_t i = 0; i < ALLOCATED_MAX; i++)
        CHECK_OK(r, tutti_mem_free(r->comm, mem[i]));
    for (size_t i = 0; i < CYCLES; i++) {
        CHECK_OK(r, tutti_mem_alloc(r->comm, page, &mem[0]));
        CHECK_OK(r, tutti_mem_free(r->comm, mem[0]));
    }
    CHECK(r, job_await_descriptors(descriptors));
    job_step(r, "registration");
    CHECK_INVALID(r, tutti_mem_register(r->comm, NULL, 10), "10 bytes");
    CHECK_INVALID(r, tutti_mem_register(r->comm, mem, 0), "0 bytes");
#if defined(__x86_64__)
    CHECK_INVALID(r, tutti_mem_register(r->comm, mem, (size_t)1 << 47), "140737488355328 bytes");
#elif defined(__aarch64__)
    CHECK_INVALID(r, tutti_mem_register(r->comm, mem, (size_t)1 << 48), "281474976710656 bytes");
#endif
    CHECK_INVALID(r, tutti_mem_deregister(r->comm, NULL), "mem is NULL");
    CHECK_OK(r, tutti_mem_register(r->comm, mem, sizeof mem));
    CHECK_OK(r, tutti_mem_deregister(r->comm, mem));
    check_works(r, r->comm);
}

/* A call, a conf and a tag of a program built for a newer Tutti that uses no new field. */
static void newer_role(struct rank *r)
{
    const struct {
        tutti_conf known;
        uint64_t more[3];
    } conf = { .known.size = sizeof conf, .known.restore = 1 };
    tutti_request *request;
    const struct newer asks = { .known.size = sizeof asks, .known.request = &request };
    const struct newer tagged = { .known.size = sizeof tagged, .known.tag = 7 };
    uint32_t x = r->rank, y = 0;

    CHECK_OK(r, tutti_comm_create(&r->comm, &conf.known));
    CHECK_OK(r, tutti_allreduce(&x, &y, 1, TUTTI_U32, TUTTI_SUM, r->comm, &asks.known));
    CHECK_OK(r, tutti_wait(request));
    CHECK(r, y == 1);
    if (r->rank)
        CHECK_OK(r, tutti_send(&x, 1, TUTTI_U32, 0, r->comm, &tagged.known));
    else
        CHECK_OK(r, tutti_recv(&y, 1, TUTTI_U32, 1, r->comm,
                               &(tutti_call){ .size = sizeof(tutti_call), .tag = 7 }));
    CHECK(r, y == 1);
}

static void zero_fields_of_newer_options_pass(void **state)
{
    (void)state;
    over_wires(2, newer_role);
}

static void invalid_allocations_fail_and_free_works(void **state)
{
    (void)state;
    over_wires(2, memory_role);
}

/* Buffers of large operations: memory of tutti_mem_alloc from before and after the first link;
 * other memory, registered and not. */
static void kinds_role(struct rank *r)
{
    enum { COUNT = 100000 };
    float *kind[3] = { NULL };
    const uint32_t descriptors = job_descriptors();

    job_open(r);
    CHECK_OK(r, tutti_mem_alloc(r->comm, COUNT * sizeof(float), (void **)&kind[0]));
    check_works(r, r->comm);
    CHECK_OK(r, tutti_mem_alloc(r->comm, COUNT * sizeof(float), (void **)&kind[1]));
    kind[2] = calloc(COUNT, sizeof(float));
    CHECK(r, kind[2]);
    CHECK_OK(r, tutti_mem_register(r->comm, kind[2], COUNT * sizeof(float)));
    for (uint32_t i = 0; i < 9; i++) {
        float *in = kind[i / 3], *out = kind[i % 3];

        job_step(r, "from kind %u to %u", i / 3, i % 3);
        for (uint32_t k = 0; k < COUNT; k++)
            in[k] = (float)(r->rank + k % 100);
        CHECK_OK(r, tutti_allreduce(in, out, COUNT, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
        for (uint32_t k = 0; k < COUNT; k++)
            CHECK(r, out[k] == (float)(r->nranks * (k % 100) + r->nranks * (r->nranks - 1) / 2));
    }
    CHECK_OK(r, tutti_mem_deregister(r->comm, kind[2]));
    for (uint32_t k = 0; k < COUNT; k++)        /* the buffer is ordinary memory again */
        kind[2][k] = (float)(r->rank * k % 97);
    CHECK_OK(r, tutti_broadcast(kind[2], kind[2], COUNT, TUTTI_F32, 1, r->comm, NULL));
    for (uint32_t k = 0; k < COUNT; k++)
        CHECK(r, kind[2][k] == (float)(k % 97));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    free(kind[2]);
    CHECK_OK(r, tutti_mem_free(r->comm, kind[0]));
    job_meet(r);
    job_close(r);               /* kind 1 is not freed: it is released with the communicator */
    CHECK(r, job_descriptors() == descriptors);
}

static void all_kinds_of_memory_are_usable(void **state)
{
    (void)state;
    over_wires(RANKS, kinds_role);
}

/* ---- registered memory ---- */

/* A receive into the memory is pending. */
static void deregister_role(struct rank *r)
{
    enum { BYTES = 8192 };
    uint8_t *mem = job_have(r, calloc(2, BYTES)), byte = (uint8_t)r->rank;
    tutti_request *request;
    const tutti_call later = { .size = sizeof later, .request = &request };
    const int left = (int)((r->rank + r->nranks - 1) % r->nranks),
              right = (int)((r->rank + 1) % r->nranks);

    setenv("TUTTI_LOG", "none", 1);
    job_open(r);
    CHECK_INVALID(r, tutti_mem_deregister(r->comm, mem), "no registered memory begins at");
    CHECK_OK(r, tutti_mem_register(r->comm, mem, BYTES));
    CHECK_INVALID(r, tutti_mem_deregister(r->comm, mem + 64), "no registered memory begins at");
    CHECK_OK(r, tutti_recv(mem + BYTES - 1, 1, TUTTI_U8, left, r->comm, &later));
    CHECK_INVALID(r, tutti_mem_deregister(r->comm, mem), "an operation or a window uses");
    job_meet(r);
    CHECK_OK(r, tutti_send(&byte, 1, TUTTI_U8, right, r->comm, NULL));
    CHECK_OK(r, tutti_wait(request));
    CHECK(r, mem[BYTES - 1] == (uint8_t)left);
    /* adjacent to the registered memory */
    CHECK_OK(r, tutti_recv(mem + BYTES, 1, TUTTI_U8, left, r->comm, &later));
    CHECK_OK(r, tutti_mem_deregister(r->comm, mem));
    CHECK_INVALID(r, tutti_mem_deregister(r->comm, mem), "no registered memory begins at");
    CHECK_OK(r, tutti_send(&byte, 1, TUTTI_U8, right, r->comm, NULL));
    CHECK_OK(r, tutti_wait(request));
    check_works(r, r->comm);
    job_close(r);
    free(mem);
}

static void deregister_refuses_wrong_or_used_memory(void **state)
{
    (void)state;
    over_wires(RANKS, deregister_role);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_argument_is_named_nothing_starts),
        cmocka_unit_test(unused_buffers_may_be_null),
        cmocka_unit_test(group_with_invalid_member_starts_nothing),
        cmocka_unit_test(null_error_names_the_call),
        cmocka_unit_test(wait_all_returns_the_first_error),
        cmocka_unit_test(wait_any_accepts_requests_across_jobs),
        cmocka_unit_test(zero_fields_of_newer_options_pass),
        cmocka_unit_test(invalid_allocations_fail_and_free_works),
        cmocka_unit_test(all_kinds_of_memory_are_usable),
        cmocka_unit_test(deregister_refuses_wrong_or_used_memory),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
