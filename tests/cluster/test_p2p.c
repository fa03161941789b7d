/* Sends and receives between real ranks: sizes, tags, groups, and requests in any order. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/comm.h"
#include "engine/progress.h"
#include "job.h"
#include "support/pattern.h"
#include "support/unit.h"

#define SEED 20260402
#define MIB ((size_t)1 << 20)

static const char *const wires[] = { "shm", "tcp" };

static void over_wires(uint32_t nranks, void (*role)(struct rank *))
{
    for (size_t w = 0; w < sizeof wires / sizeof *wires; w++) {
        const struct job job = { .wires = wires[w], .nranks = nranks, .seed = job_seed(SEED) };

        job_run(&job, role);
    }
}

static void check_filled(struct rank *r, const uint8_t *at, size_t bytes, uint64_t salt)
{
    const uint64_t wrong = pattern_differs(at, bytes, salt);

    if (wrong < bytes)
        job_fail(r, __FILE__, __LINE__, "byte %llu of %zu is wrong", (unsigned long long)wrong,
                 bytes);
}

static uint8_t *room(struct rank *r, size_t bytes)
{
    uint8_t *mem = malloc(bytes + 1);

    CHECK(r, mem);
    memset(mem, 0x5a, bytes + 1);
    return mem;
}

/* ---- sizes ---- */

static void sizes_role(struct rank *r)
{
    static const size_t sizes[] = { 0,    1,    7,     24,    25,     64,      1000,   4096,
                                    4097, 8191, 65536, 65537, 262144, 1000003, 8 * MIB };
    uint8_t *buf = room(r, 8 * MIB);

    job_open(r);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t way = 0; way < 2; way++) {
            job_step(r, "%zu bytes from rank %u", sizes[i], way);
            memset(buf, 0x5a, sizes[i] + 1);
            if (r->rank == way) {
                pattern_fill(buf, sizes[i], i + 1);
                CHECK_OK(r, tutti_send(buf, sizes[i], TUTTI_U8, (int)!r->rank, r->comm, NULL));
                continue;
            }
            CHECK_OK(r, tutti_recv(buf, sizes[i], TUTTI_U8, (int)!r->rank, r->comm, NULL));
            check_filled(r, buf, sizes[i], i + 1);
            CHECK(r, buf[sizes[i]] == 0x5a);
        }
    free(buf);
}

static void messages_of_any_size_arrive_whole(void **state)
{
    (void)state;
    over_wires(2, sizes_role);
}

/* ---- tags ---- */

#define TAGS 12

static size_t size_of_tag(uint32_t tag)
{
    return tag % 3 == 0 ? 0 : tag % 3 == 1 ? 600 * tag : 40000 * tag;
}

/* Rank 0 starts sends with tags 0, 1, ...; rank 1 receives them in another order. */
static void tags_role(struct rank *r)
{
    uint8_t *buf[TAGS];
    tutti_request *sent[TAGS];
    uint32_t order[TAGS];

    job_open(r);
    for (uint32_t i = 0; i < TAGS; i++) {
        const uint32_t j = (uint32_t)tt_prng_below(&r->prng, i + 1);

        buf[i] = room(r, size_of_tag(i));
        order[i] = order[j];
        order[j] = i;
    }
    for (uint32_t i = 0; i < TAGS && r->rank == 0; i++) {
        const tutti_call how = { .size = sizeof how, .request = &sent[i], .tag = 7000 + i };

        job_step(r, "send tag %u", i);
        pattern_fill(buf[i], size_of_tag(i), i);
        CHECK_OK(r, tutti_send(buf[i], size_of_tag(i), TUTTI_I8, 1, r->comm, &how));
    }
    for (uint32_t k = 0; k < TAGS && r->rank == 1; k++) {
        const uint32_t i = order[k];
        const tutti_call how = { .size = sizeof how, .tag = 7000 + i };

        job_step(r, "receive tag %u as number %u", i, k);
        CHECK_OK(r, tutti_recv(buf[i], size_of_tag(i), TUTTI_I8, 0, r->comm, &how));
        check_filled(r, buf[i], size_of_tag(i), i);
    }
    if (r->rank == 0)
        CHECK_OK(r, tutti_wait_all(sent, TAGS));
    for (uint32_t i = 0; i < TAGS; i++)
        free(buf[i]);
}

static void tags_match_in_any_order(void **state)
{
    (void)state;
    over_wires(2, tags_role);
}

/* Messages of one tag, alternately small and large: a small one must not overtake. */
static void order_role(struct rank *r)
{
    enum { N = 60 };
    tutti_request *request[N];
    uint8_t *buf[N];

    job_open(r);
    for (uint32_t i = 0; i < N; i++) {
        const size_t bytes = i % 4 == 3 ? 300000 : 8 * i;
        const tutti_call how = { .size = sizeof how, .request = &request[i], .tag = 5 };

        job_step(r, "number %u", i);
        buf[i] = room(r, bytes);
        if (r->rank == 0) {
            pattern_fill(buf[i], bytes, i);
            CHECK_OK(r, tutti_send(buf[i], bytes, TUTTI_U8, 1, r->comm, &how));
        } else {
            CHECK_OK(r, tutti_recv(buf[i], bytes, TUTTI_U8, 0, r->comm, &how));
        }
    }
    CHECK_OK(r, tutti_wait_all(request, N));
    for (uint32_t i = 0; i < N; i++) {
        if (r->rank == 1)
            check_filled(r, buf[i], i % 4 == 3 ? 300000 : 8 * i, i);
        free(buf[i]);
    }
}

static void messages_of_one_tag_stay_ordered(void **state)
{
    (void)state;
    over_wires(2, order_role);
}

/* Rank 1 sends messages with two tags, all of one size. Then a barrier makes rank 0 keep them as
 * unexpected, before it receives them in another order of tags. Finally, a message has another size
 * than its receive, whose shape was used before. */
static void early_role(struct rank *r)
{
    enum { N = 6, CALLS = 50 };
    uint32_t words[4] = { 0 };

    job_open(r);
    for (uint32_t call = 0; call < CALLS; call++) {
        for (uint32_t i = 0; i < N && r->rank == 1; i++) {
            const tutti_call how = { .size = sizeof how, .tag = i % 2 };

            words[0] = call * N + i;
            CHECK_OK(r, tutti_send(words, 4, TUTTI_U32, 0, r->comm, &how));
        }
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        for (uint32_t i = 0; i < N && r->rank == 0; i++) {
            const uint32_t tag = i < N / 2;
            const tutti_call how = { .size = sizeof how, .tag = tag };

            CHECK_OK(r, tutti_recv(words, 4, TUTTI_U32, 1, r->comm, &how));
            CHECK(r, words[0] == call * N + 2 * (i % (N / 2)) + tag);
        }
    }
    job_step(r, "another size");
    if (r->rank == 1)
        CHECK_OK(r, tutti_send(words, 3, TUTTI_U32, 0, r->comm, NULL));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank == 0)
        CHECK_STATUS(r, tutti_recv(words, 4, TUTTI_U32, 1, r->comm, NULL), TUTTI_ERR_MISMATCH);
}

static void early_messages_match_repeated_receives(void **state)
{
    (void)state;
    over_wires(2, early_role);
}

/* ---- groups ---- */

/* Runs a group, blocking or by request. */
static tutti_status run_group(const tutti_p2p *ops, size_t n, tutti_comm *comm, bool by_request)
{
    tutti_request *request = NULL;
    const tutti_call how = { .size = sizeof how, .request = by_request ? &request : NULL };
    const tutti_status st = tutti_group(ops, n, comm, &how);

    return st || !by_request ? st : tutti_wait(request);
}

/* All ranks send to all, including themselves. All sends are listed first; some are so large that
 * they cannot complete before their receives are posted. */
static void group_role(struct rank *r)
{
    static const size_t sizes[] = { 0, 100, 4096, 700000, 100, 700000 };
    tutti_p2p ops[4 * JOB_RANKS_MAX];

    job_open(r);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *out = room(r, sizes[i]);
        uint8_t *in[JOB_RANKS_MAX] = { 0 };
        size_t n = 0;

        job_step(r, "groups of %zu bytes", sizes[i]);
        pattern_fill(out, sizes[i], r->rank);
        for (uint32_t peer = 0; peer < r->nranks; peer++)
            ops[n++] = (tutti_p2p){
                .peer = (int)peer, .buf = out, .count = sizes[i], .type = TUTTI_U8, .tag = 3
            };
        for (uint32_t peer = 0; peer < r->nranks; peer++) {
            in[peer] = room(r, sizes[i]);
            ops[n++] = (tutti_p2p){
                .is_recv = 1,
                .peer = (int)peer,
                .buf = in[peer],
                .count = sizes[i],
                .type = TUTTI_U8,
                .tag = 3,
            };
        }
        CHECK_OK(r, run_group(ops, n, r->comm, i >= 3));
        for (uint32_t peer = 0; peer < r->nranks; peer++)
            check_filled(r, in[peer], sizes[i], peer);
        for (uint32_t peer = 0; peer < r->nranks; peer++)
            free(in[peer]);
        free(out);
    }
    CHECK_OK(r, run_group(NULL, 0, r->comm, false));
    CHECK_OK(r, run_group(NULL, 0, r->comm, true));
}

static void group_avoids_the_sequential_deadlock(void **state)
{
    (void)state;
    over_wires(4, group_role);
}

/* Like a halo exchange of many blocks: the first receive is listed after more large sends than
 * peers can see at once. */
static void long_group_role(struct rank *r)
{
    enum { N = 40, BYTES = 100000 };
    uint8_t *buf = room(r, 2 * N * BYTES);
    tutti_p2p ops[2 * N];

    job_open(r);
    for (uint32_t i = 0; i < 2 * N; i++)
        ops[i] = (tutti_p2p){
            .is_recv = i >= N,
            .peer = (int)!r->rank,
            .buf = buf + i * BYTES,
            .count = BYTES,
            .type = TUTTI_U8,
            .tag = i % N,
        };
    for (uint32_t i = 0; i < N; i++)
        pattern_fill(buf + i * BYTES, BYTES, 100 * r->rank + i);
    job_step(r, "a group of %d", 2 * N);
    CHECK_OK(r, tutti_group(ops, 2 * N, r->comm, NULL));
    for (uint32_t i = 0; i < N; i++)
        check_filled(r, buf + (N + i) * BYTES, BYTES, 100 * !r->rank + i);
    free(buf);
}

static void group_may_list_large_sends_first(void **state)
{
    (void)state;
    over_wires(2, long_group_role);
}

/* Groups by request, several at a time and among other requests: each completes when its last
 * member completes, not before. */
static void requested_groups_role(struct rank *r)
{
    enum { N = 6, BYTES = 50000 };
    const int peer = (int)!r->rank;
    tutti_request *request[N + 1];
    uint8_t *buf = room(r, 2 * N * BYTES);
    uint32_t late = 0, left = N;

    job_open(r);
    for (uint32_t i = 0; i < N; i++) {
        const tutti_call how = { .size = sizeof how, .request = &request[i] };
        const tutti_p2p ops[] = {
            { .peer = peer, .buf = buf + i * BYTES, .count = BYTES, .type = TUTTI_U8, .tag = i },
            { .is_recv = 1,
              .peer = peer,
              .buf = buf + (N + i) * BYTES,
              .count = BYTES,
              .type = TUTTI_U8,
              .tag = i },
            { .is_recv = 1,
              .peer = peer,
              .buf = &late,
              .count = 1,
              .type = TUTTI_U32,
              .tag = 1000 },
        };

        job_step(r, "group %u", i);
        pattern_fill(buf + i * BYTES, BYTES, 100 * r->rank + i);
        /* only the first group has the third member, which completes last */
        CHECK_OK(r, tutti_group(ops, i ? 2 : 3, r->comm, &how));
    }
    request[N] = NULL;
    while (left > 1) {
        size_t index = SIZE_MAX;

        CHECK_OK(r, tutti_wait_any(request, N + 1, &index));
        CHECK(r, index > 0 && index < N && !request[index]);
        check_filled(r, buf + (N + index) * BYTES, BYTES, 100 * !r->rank + index);
        left--;
    }
    job_meet(r);
    CHECK(r, tutti_test(request[0]) == TUTTI_PENDING);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    CHECK_OK(r, tutti_send(&(uint32_t){ 77 }, 1, TUTTI_U32, peer, r->comm,
                           &(tutti_call){ .size = sizeof(tutti_call), .tag = 1000 }));
    CHECK_OK(r, tutti_wait_all(request, N + 1));
    CHECK(r, late == 77);
    check_filled(r, buf + (size_t)N * BYTES, BYTES, 100 * !r->rank);
    free(buf);
}

static void group_request_ends_with_last_member(void **state)
{
    (void)state;
    over_wires(2, requested_groups_role);
}

/* The second member's sizes differ between the ranks. A third member, which no rank matches, fails
 * with the group. So does a group whose communicator is destroyed. */
static void failed_group_role(struct rank *r)
{
    uint32_t in[2] = { 0 }, out[2] = { 0 };
    tutti_request *request, *other;
    const tutti_call how = { .size = sizeof how, .request = &request },
                     too = { .size = sizeof too, .request = &other };
    const tutti_p2p ops[] = {
        { .is_recv = r->rank,
          .peer = (int)!r->rank,
          .buf = r->rank ? in : out,
          .count = 1,
          .type = TUTTI_U32,
          .tag = 1 },
        { .is_recv = r->rank,
          .peer = (int)!r->rank,
          .buf = r->rank ? in : out,
          .count = 1 + r->rank,
          .type = TUTTI_U32,
          .tag = 2 },
        { .is_recv = 1,
          .peer = (int)!r->rank,
          .buf = &in[1],
          .count = 1,
          .type = TUTTI_U32,
          .tag = 3 },
    };
    tutti_comm *dup;
    tutti_status st;

    job_open(r);
    CHECK_OK(r, tutti_comm_dup(r->comm, &dup));
    CHECK_OK(r, tutti_group(ops + 2, 1, dup, &too));
    st = tutti_group(ops, 3, r->comm, &how);    /* detected at once if the other rank called
                                                   before */
    CHECK_SAYS(r, st ? st : tutti_wait(request), TUTTI_ERR_MISMATCH, "(8 bytes, type u32)");
    CHECK_STATUS(r, tutti_group(ops, 3, r->comm, &how), TUTTI_ERR_MISMATCH);
    tutti_comm_destroy(dup);
    CHECK(r, tutti_test(other) != TUTTI_PENDING);
    CHECK(r, tutti_wait(other) != TUTTI_OK);    /* aborted, or failed by the other rank's exit */
}

static void group_request_fails_with_first_error(void **state)
{
    (void)state;
    over_wires(2, failed_group_role);
}

/* ---- repeated groups ---- */

/* A group of nsends sends to the next rank and as many receives from the previous one. Content and
 * addresses differ in each call. */
struct ring_group {
    size_t bytes, nsends;
    tutti_dtype type;
    bool receives_first, by_request;
};

static uint64_t ring_salt(uint32_t rank, uint32_t call, size_t i)
{
    return 1000003ull * rank + 1009ull * call + i;
}

static void ring_group_run(struct rank *r, const struct ring_group *g, uint32_t call)
{
    const uint32_t right = (r->rank + 1) % r->nranks, left = (r->rank + r->nranks - 1) % r->nranks;
    const size_t shift = call % 5, n = g->nsends;
    uint8_t *out[4], *in[4];
    tutti_p2p ops[8];

    for (size_t i = 0; i < n; i++) {
        tutti_p2p send = { .peer = (int)right,
                           .count = g->bytes / tutti_dtype_bytes(g->type),
                           .type = g->type,
                           .tag = 5 },
                  recv = send;

        out[i] = room(r, g->bytes + shift);
        in[i] = room(r, g->bytes + shift);
        pattern_fill(out[i] + shift, g->bytes, ring_salt(r->rank, call, i));
        send.buf = out[i] + shift;
        recv.buf = in[i] + shift;
        recv.is_recv = 1;
        recv.peer = (int)left;
        ops[g->receives_first ? n + i : i] = send;
        ops[g->receives_first ? i : n + i] = recv;
    }
    CHECK_OK(r, run_group(ops, 2 * n, r->comm, g->by_request));
    for (size_t i = 0; i < n; i++) {
        check_filled(r, in[i] + shift, g->bytes, ring_salt(left, call, i));
        CHECK(r, in[i][g->bytes + shift] == 0x5a);
        free(out[i]);
        free(in[i]);
    }
}

/* Repeated groups reuse their operations. Several members may have one shape; shapes change between
 * calls; and single calls and requests of the same shapes are in between. */
static void repeated_groups_role(struct rank *r)
{
    static const size_t sizes[] = { 0,    8,    24,   32,    216,   224,   1024,
                                    1032, 8184, 8192, 16384, 32768, 32776, 200000 };
    uint32_t call = 0;

    job_open(r);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t k = 0; k < 24; k++) {
            const struct ring_group g = { .bytes = sizes[i],
                                          .nsends = k < 12 ? 1 : 1 + k % 4,
                                          .type = k % 7 == 6 ? TUTTI_F32 : TUTTI_U32,
                                          .receives_first = k % 2,
                                          .by_request = k == 9 || k == 17 };

            job_step(r, "call %u: %zu times %zu bytes", k, g.nsends, g.bytes);
            ring_group_run(r, &g, ++call);
            if (k % 8 == 7)
                CHECK_OK(r, tutti_barrier(r->comm, NULL));
        }
}

static void repeated_groups_deliver_each_call(void **state)
{
    (void)state;
    over_wires(2, repeated_groups_role);
    over_wires(3, repeated_groups_role);
}

/* One rank sends far ahead, more than its credits allow: its groups wait for the other rank. */
static void sends_ahead_role(struct rank *r)
{
    enum { CALLS = 20, N = 8, BYTES = 20000 };
    uint8_t *buf = room(r, N * BYTES);
    tutti_p2p ops[N];

    job_open(r);
    for (uint32_t call = 0; call < CALLS; call++) {
        job_step(r, "call %u", call);
        for (uint32_t i = 0; i < N; i++) {
            ops[i] = (tutti_p2p){ .is_recv = r->rank,
                                  .peer = (int)!r->rank,
                                  .buf = buf + i * BYTES,
                                  .count = BYTES,
                                  .type = TUTTI_U8,
                                  .tag = i % 3 };
            if (r->rank == 0)
                pattern_fill(buf + i * BYTES, BYTES, call * N + i);
        }
        for (uint32_t i = 0; i < N && r->rank == 1 && call % 2; i++)
            CHECK_OK(r, tutti_recv(ops[i].buf, BYTES, TUTTI_U8, 0, r->comm,
                                   &(tutti_call){ .size = sizeof(tutti_call), .tag = i % 3 }));
        if (r->rank == 0 || call % 2 == 0)
            CHECK_OK(r, tutti_group(ops, N, r->comm, NULL));
        for (uint32_t i = 0; i < N && r->rank == 1; i++)
            check_filled(r, buf + i * BYTES, BYTES, call * N + i);
    }
    free(buf);
}

static void groups_of_sends_wait_for_credit(void **state)
{
    (void)state;
    over_wires(2, sends_ahead_role);
}

enum broken { BROKEN_DIFFERS, BROKEN_MISSING, BROKEN_DIES, BROKEN };

/* After equal groups, rank 1 calls one of another size, makes no further call, or dies. */
static void broken_group_role(struct rank *r)
{
    static const tutti_status expected[BROKEN] = { TUTTI_ERR_MISMATCH, TUTTI_ERR_TIMEOUT,
                                                   TUTTI_ERR_PEER_LOST };
    const enum broken how = *(const enum broken *)r->job->arg;
    const tutti_call limited = { .size = sizeof limited, .timeout_ms = 300 };
    uint32_t out[8] = { 0 }, in[8];
    tutti_p2p ops[2] = {
        { .peer = (int)!r->rank, .buf = out, .count = 4, .type = TUTTI_U32 },
        { .is_recv = 1, .peer = (int)!r->rank, .buf = in, .count = 4, .type = TUTTI_U32 }
    };
    tutti_status st;

    job_open(r);
    for (uint32_t call = 0; call < 5; call++)
        CHECK_OK(r, tutti_group(ops, 2, r->comm, NULL));
    job_meet(r);
    if (r->rank == 1 && how == BROKEN_DIES) {
        r->board->dies[r->rank] = 1;
        raise(SIGKILL);
    }
    if (r->rank == 1 && how == BROKEN_DIFFERS)
        ops[0].count = 5;
    if (r->rank == 0 || how == BROKEN_DIFFERS) {
        st = tutti_group(ops, 2, r->comm, how == BROKEN_MISSING ? &limited : NULL);
        if (how == BROKEN_DIFFERS && !st)   /* this rank's part completed before the mismatch was
                                               detected */
            st = tutti_barrier(r->comm, NULL);
        CHECK_STATUS(r, st, expected[how]);
        CHECK_STATUS(r, tutti_group(ops, 2, r->comm, NULL), expected[how]);
    }
    if (how == BROKEN_MISSING)
        job_meet(r);
    if (how == BROKEN_DIES)
        job_close(r);
}

static void repeated_group_fails_with_its_error(void **state)
{
    (void)state;
    for (enum broken how = 0; how < BROKEN; how++)
        for (size_t w = 0; w < sizeof wires / sizeof *wires; w++) {
            const struct job job = {
                .wires = wires[w], .nranks = 2, .seed = job_seed(SEED), .arg = &how
            };

            job_run(&job, broken_group_role);
        }
}

/* ---- self ---- */

/* Each rank exchanges messages with itself and, at the same time and with the same tags, with its
 * neighbours. They match by order and tag, whichever arrives first. */
static void oneself_role(struct rank *r)
{
    enum { N = 24 };
    const int me = (int)r->rank, right = (int)((r->rank + 1) % r->nranks),
              left = (int)((r->rank + r->nranks - 1) % r->nranks);
    tutti_request *request[4 * N];
    uint32_t n = 0, in[N] = { 0 }, out[N], from_left[N] = { 0 };

    job_open(r);
    for (uint32_t i = 0; i < N; i++) {
        const bool recv_first = tt_prng_below(&r->prng, 2);

        out[i] = 1000 * r->rank + i;
        for (uint32_t k = 0; k < 2; k++) {
            const tutti_call how = { .size = sizeof how, .request = &request[n++], .tag = i % 3 };

            if ((k == 0) == recv_first)
                CHECK_OK(r, tutti_recv(&in[i], 1, TUTTI_U32, me, r->comm, &how));
            else
                CHECK_OK(r, tutti_send(&out[i], 1, TUTTI_U32, me, r->comm, &how));
            CHECK(r, (tutti_test(request[n - 1]) == TUTTI_PENDING) == (k == 0));
        }
        CHECK(r, in[i] == out[i]);
        if (r->nranks == 1)
            continue;
        CHECK_OK(r, tutti_recv(&from_left[i], 1, TUTTI_U32, left, r->comm,
                               &(tutti_call){ .size = sizeof(tutti_call),
                                              .request = &request[n++],
                                              .tag = i % 3 }));
        CHECK_OK(r, tutti_send(&out[i], 1, TUTTI_U32, right, r->comm,
                               &(tutti_call){ .size = sizeof(tutti_call),
                                              .request = &request[n++],
                                              .tag = i % 3 }));
    }
    CHECK_OK(r, tutti_wait_all(request, n));
    for (uint32_t i = 0; i < N && r->nranks > 1; i++)
        CHECK(r, from_left[i] == 1000 * (uint32_t)left + i);
}

static void send_to_self_works(void **state)
{
    (void)state;
    over_wires(1, oneself_role);
    over_wires(3, oneself_role);
}

/* Sends to self with one tag, then their receives: in order, for all sizes. */
static void oneself_order_role(struct rank *r)
{
    static const size_t sizes[] = { 4, 300000, 0, 70000, 1 };
    enum { N = sizeof sizes / sizeof *sizes };
    tutti_request *request[N];
    uint8_t *out[N], *in = room(r, 300000);

    job_open(r);
    for (uint32_t i = 0; i < N; i++) {
        out[i] = room(r, sizes[i]);
        pattern_fill(out[i], sizes[i], i);
        CHECK_OK(r, tutti_send(out[i], sizes[i], TUTTI_U8, (int)r->rank, r->comm,
                               &(tutti_call){
                                   .size = sizeof(tutti_call), .request = &request[i], .tag = 9 }));
    }
    for (uint32_t i = 0; i < N; i++) {      /* these block, but their messages are available */
        job_step(r, "receive %u", i);
        CHECK_OK(r, tutti_recv(in, sizes[i], TUTTI_U8, (int)r->rank, r->comm,
                               &(tutti_call){ .size = sizeof(tutti_call), .tag = 9 }));
        check_filled(r, in, sizes[i], i);
        CHECK_OK(r, tutti_wait(request[i]));
        free(out[i]);
    }
    CHECK_SAYS(r,
               tutti_recv(in, 1, TUTTI_U8, (int)r->rank, r->comm,
                          &(tutti_call){ .size = sizeof(tutti_call), .tag = 9 }),
               TUTTI_ERR_INVALID,
               "is the calling rank: it has not started the matching send with tag 9");
    CHECK_SAYS(r, tutti_send(in, 1, TUTTI_U8, (int)r->rank, r->comm, NULL), TUTTI_ERR_INVALID,
               "has not started the matching receive with tag 0");
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    free(in);
}

static void messages_to_self_stay_ordered(void **state)
{
    (void)state;
    over_wires(2, oneself_order_role);
}

static void oneself_differs_role(struct rank *r)
{
    uint32_t in[2] = { 0 }, out = 5;
    const tutti_p2p ops[] = {
        { .peer = (int)r->rank, .buf = &out, .count = 1, .type = TUTTI_U32 },
        { .is_recv = 1, .peer = (int)r->rank, .buf = in, .count = 2, .type = TUTTI_U32 },
    };
    tutti_comm *dup;

    job_open(r);
    CHECK_OK(r, tutti_comm_dup(r->comm, &dup));
    job_meet(r);
    if (r->rank == 0)
        CHECK_SAYS(
            r, tutti_group(ops, 2, r->comm, NULL), TUTTI_ERR_MISMATCH,
            "rank 0 called send(4 bytes, type u32) where rank 0 called recv(8 bytes, type u32)");
    else
        CHECK_SAYS(
            r, tutti_barrier(r->comm, NULL), TUTTI_ERR_MISMATCH,
            "rank 0 called send(4 bytes, type u32) where rank 0 called recv(8 bytes, type u32)");
    CHECK(r, in[0] == 0);
    CHECK_SAYS(
        r, tutti_group(ops, 1, dup, &(tutti_call){ .size = sizeof(tutti_call), .timeout_ms = 50 }),
        TUTTI_ERR_TIMEOUT, "waiting for its own recv");
    tutti_comm_destroy(dup);
}

static void size_mismatch_with_self_is_reported(void **state)
{
    (void)state;
    over_wires(2, oneself_differs_role);
}

/* ---- requests ---- */

#define MANY 200

/* More pending requests than peers can see at once; rank 1 starts its receives in the same order,
 * before or after the sends. */
static void many_role(struct rank *r)
{
    tutti_request *request[2 * MANY];
    uint32_t *buf = calloc(2 * MANY, sizeof *buf);
    bool seen[2 * MANY] = { false };
    const int peer = (int)!r->rank;

    CHECK(r, buf);
    job_open(r);
    for (uint32_t i = 0; i < MANY; i++) {
        const tutti_call send = { .size = sizeof send, .request = &request[i], .tag = i % 3 };
        const tutti_call recv = { .size = sizeof recv,
                                  .request = &request[MANY + i],
                                  .tag = i % 3 };

        job_step(r, "start %u", i);
        buf[i] = 1000 * r->rank + i;
        CHECK_OK(r, tutti_recv(&buf[MANY + i], 1, TUTTI_U32, peer, r->comm, &recv));
        CHECK_OK(r, tutti_send(&buf[i], 1, TUTTI_U32, peer, r->comm, &send));
    }
    for (uint32_t n = 0; n < 2 * MANY; n++) {
        size_t index = SIZE_MAX;

        job_step(r, "wait for any, %u over", n);
        CHECK_OK(r, tutti_wait_any(request, 2 * MANY, &index));
        CHECK(r, index < 2 * MANY && !request[index] && !seen[index]);
        seen[index] = true;
        if (index >= MANY)
            CHECK(r, buf[index] == 1000 * !r->rank + index - MANY);
    }
    CHECK_STATUS(r, tutti_wait_any(request, 2 * MANY, &(size_t){ 0 }), TUTTI_ERR_INVALID);
    CHECK_OK(r, tutti_wait_all(request, 2 * MANY));
    free(buf);
}

static void wait_any_returns_each_request_once(void **state)
{
    (void)state;
    over_wires(2, many_role);
}

#define PASSES 100u

/* Rank 1 posts receives before anything is sent. Progress passes after the first one check only a
 * few of them. */
static void sparse_polling_role(struct rank *r)
{
    enum { N = 1000 };
    tutti_request *request[N];
    uint32_t in[N];
    struct tt_engine *e;
    uint64_t looks;

    job_open(r);
    e = r->comm->context->engine;
    for (uint32_t i = 0; i < N && r->rank == 1; i++) {
        const tutti_call how = { .size = sizeof how, .request = &request[i], .tag = i % 3 };

        CHECK_OK(r, tutti_recv(&in[i], 1, TUTTI_U32, 0, r->comm, &how));
    }
    if (r->rank == 1) {
        tt_progress_lock(e);
        tt_engine_progress(e);
        looks = e->looks;
        for (uint32_t i = 0; i < PASSES; i++)
            tt_engine_progress(e);
        looks = e->looks - looks;
        tt_progress_unlock(e);
        if (looks >= PASSES * N / 10)
            job_fail(r, __FILE__, __LINE__, "%u passes looked at operations %llu times", PASSES,
                     (unsigned long long)looks);
    }
    job_meet(r);
    for (uint32_t i = 0; i < N && r->rank == 0; i++) {
        const tutti_call how = { .size = sizeof how, .tag = i % 3 };

        CHECK_OK(r, tutti_send(&i, 1, TUTTI_U32, 1, r->comm, &how));
    }
    for (uint32_t i = N; i-- > 0 && r->rank == 1;)      /* receives complete in the order of the
                                                           sends */
        CHECK_OK(r, tutti_wait(request[i]));
    for (uint32_t i = 0; i < N && r->rank == 1; i++)
        CHECK(r, in[i] == i);
}

static void progress_skips_receives_without_data(void **state)
{
    (void)state;
    over_wires(2, sparse_polling_role);
}

#define REFUSED_BY 20000

/* Rank 1 posts receives until one is refused. The refused call consumes nothing: repeated, it gets
 * its message. */
static void refused_role(struct rank *r)
{
    tutti_request **request = calloc(REFUSED_BY, sizeof *request);
    uint32_t *in = calloc(REFUSED_BY, sizeof *in), n = 0, sum = 0;
    tutti_status st = TUTTI_OK;

    CHECK(r, request && in);
    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    while (r->rank == 1 && n < REFUSED_BY) {
        const tutti_call how = { .size = sizeof how, .request = &request[n] };

        job_step(r, "start %u", n);
        st = tutti_recv(&in[n], 1, TUTTI_U32, 0, r->comm, &how);
        if (st)
            break;
        n++;
    }
    if (r->rank == 1) {
        const tutti_call how = { .size = sizeof how, .request = &request[n] };

        CHECK_SAYS(r, st, TUTTI_ERR_NOMEM, "too many running or waiting operations");
        CHECK_STATUS(r, tutti_allreduce(&n, &sum, 1, TUTTI_U32, TUTTI_MAX, r->comm, &how),
                     TUTTI_ERR_NOMEM);
        CHECK_OK(r, tutti_comm_status(r->comm));
        r->board->word[1][0] = n;
    }
    job_meet(r);
    if (r->rank == 0) {
        n = (uint32_t)r->board->word[1][0];
        for (uint32_t i = 0; i <= n; i++) {
            job_step(r, "send %u of %u", i, n);
            CHECK_OK(r, tutti_send(&i, 1, TUTTI_U32, 1, r->comm, NULL));
        }
    } else {
        job_step(r, "wait for %u", n);
        CHECK_OK(r, tutti_wait_all(request, n));
        CHECK_OK(r, tutti_recv(&in[n], 1, TUTTI_U32, 0, r->comm, NULL));
        for (uint32_t i = 0; i <= n; i++)
            CHECK(r, in[i] == i);
    }
    CHECK_OK(r, tutti_allreduce(&n, &sum, 1, TUTTI_U32, TUTTI_SUM, r->comm, NULL));
    CHECK(r, sum == 2 * n);
    free(in);
    free(request);
}

static void refused_operation_can_be_retried(void **state)
{
    (void)state;
    over_wires(2, refused_role);
}

/* A request is pending until its peer calls, and tutti_test alone is enough to complete it. */
static void test_role(struct rank *r)
{
    uint8_t *buf = room(r, MIB);
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request };
    tutti_status st;

    job_open(r);
    for (uint32_t i = 0; i < 5; i++) {
        job_step(r, "round %u", i);
        if (r->rank == 0) {
            pattern_fill(buf, MIB, i);
            CHECK_OK(r, tutti_send(buf, MIB, TUTTI_U8, 1, r->comm, &how));
            CHECK(r, tutti_test(request) == TUTTI_PENDING);     /* rank 1 has not started to
                                                                   receive */
            job_raise(r->board, 0);
        } else {
            CHECK(r, job_await(r->board, 0, i + 1));
            CHECK_OK(r, tutti_recv(buf, MIB, TUTTI_U8, 0, r->comm, &how));
        }
        while ((st = tutti_test(request)) == TUTTI_PENDING)
            ;
        CHECK_OK(r, st);
        CHECK_OK(r, tutti_test(request));
        CHECK_OK(r, tutti_wait(request));
        if (r->rank == 1)
            check_filled(r, buf, MIB, i);
    }
    free(buf);
}

static void tutti_test_completes_a_pending_request(void **state)
{
    (void)state;
    over_wires(2, test_role);
}

/* Rank 1 makes no calls while rank 0's large message is in flight: the progress thread receives
 * it. */
static void background_role(struct rank *r)
{
    uint8_t *buf = room(r, 4 * MIB);
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request };

    job_open(r);
    if (r->rank == 1) {
        CHECK_OK(r, tutti_recv(buf, 4 * MIB, TUTTI_U8, 0, r->comm, &how));
        CHECK(r, job_await(r->board, 0, 1));
        CHECK_OK(r, tutti_wait(request));
        check_filled(r, buf, 4 * MIB, 9);
    } else {
        pattern_fill(buf, 4 * MIB, 9);
        CHECK_OK(r, tutti_send(buf, 4 * MIB, TUTTI_U8, 1, r->comm, NULL));
        job_raise(r->board, 0);
    }
    free(buf);
}

static void progress_thread_completes_a_receive(void **state)
{
    (void)state;
    over_wires(2, background_role);
}

/* The progress thread sleeps while a call polls the transports in its place, so peers need not wake
 * it. An operation that is started then must wake it. */
static void asleep_role(struct rank *r)
{
    struct tt_engine *e;
    uint8_t *buf = room(r, MIB);

    job_open(r);
    e = r->comm->context->engine;
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    for (uint32_t round = 1; round <= 4; round++) {
        tutti_request *request;
        const tutti_call how = { .size = sizeof how, .request = &request };
        useconds_t pause_us = 1000;

        if (r->rank == 1) {
            CHECK(r, job_await(r->board, 0, round));
            CHECK_OK(r, tutti_send(buf, MIB, TUTTI_U8, 0, r->comm, NULL));
            continue;
        }
        do {
            usleep(pause_us); /* the receiver falls asleep meanwhile, even on a busy machine */
            pause_us = pause_us < 500000 ? 2 * pause_us : pause_us;
            tt_progress_lock(e);
            tt_engine_progress(e);
            tt_progress_unlock(e);
        } while (!atomic_load(&e->parked));
        CHECK_OK(r, tutti_recv(buf, MIB, TUTTI_U8, 1, r->comm, &how));
        CHECK(r, !atomic_load(&e->parked));
        job_raise(r->board, 0);
        CHECK_OK(r, tutti_wait(request));
    }
    free(buf);
}

static void new_receive_wakes_the_progress_thread(void **state)
{
    (void)state;
    over_wires(2, asleep_role);
}

/* Returns whether rank 1 has probed rank 0 for an operation that has not started here. */
static bool has_probed(struct rank *r)
{
    struct tt_context *c = r->comm->context;
    const struct tt_context_peer *cp;
    bool asked;

    tt_progress_lock(c->engine);
    cp = tt_sparse_get(&c->peers, 1);
    asked = cp && cp->kept;
    tt_progress_unlock(c->engine);
    return asked;
}

/* Rank 1 waits until it has sent a probe; only then rank 0 sends, although the message is eager. */
static void probed_role(struct rank *r)
{
    static const size_t sizes[] = { 4, 1, 4096, 4, 0, 24, 4 };
    uint8_t *buf = room(r, 4096);

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t give_up_ns = tt_now_ns() + 60 * TT_SECOND;
        tutti_request *request;
        const tutti_call how = { .size = sizeof how, .request = i % 3 == 2 ? &request : NULL };

        job_step(r, "number %zu, %zu bytes", i, sizes[i]);
        if (r->rank == 0) {
            pattern_fill(buf, sizes[i], i);
            while (!has_probed(r))
                CHECK(r, tt_now_ns() < give_up_ns && usleep(1000) == 0);
            CHECK_OK(r, tutti_send(buf, sizes[i], TUTTI_U8, 1, r->comm, &how));
        } else {
            CHECK_OK(r, tutti_recv(buf, sizes[i], TUTTI_U8, 0, r->comm, &how));
        }
        if (how.request)
            CHECK_OK(r, tutti_wait(request));
        if (r->rank == 1)
            check_filled(r, buf, sizes[i], i);
    }
    free(buf);
}

static void short_message_after_long_wait_arrives(void **state)
{
    (void)state;
    over_wires(2, probed_role);
}

/* Returns whether a probe of rank 1 is among the unexpected messages. */
static bool has_kept_probe(struct rank *r)
{
    struct tt_context *c = r->comm->context;
    const struct tt_context_peer *cp;
    bool found = false;

    tt_progress_lock(c->engine);
    cp = tt_sparse_get(&c->peers, 1);
    for (uint64_t left = cp ? cp->kept : 0; left; left &= left - 1)
        found |= tt_unexpected_at(cp, (uint32_t)__builtin_ctzll(left))->type == TT_CELL_PROBE;
    tt_progress_unlock(c->engine);
    return found;
}

/* Repeated groups after a probe: their cached operations use streams, and are cached no longer.
 * Rank 0 waits for the probe in every fourth call. */
static void probed_group_role(struct rank *r)
{
    enum { CALLS = 13, N = 2 };
    uint32_t out[N], in[N];
    tutti_p2p ops[2 * N];

    setenv("TUTTI_NUDGE_MS", "1", 1);
    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    for (uint32_t call = 0; call < CALLS; call++) {
        const uint64_t give_up_ns = tt_now_ns() + 60 * TT_SECOND;

        job_step(r, "call %u", call);
        for (uint32_t i = 0; i < N; i++) {
            out[i] = 100 * call + 10 * r->rank + i;
            ops[i] =
                (tutti_p2p){ .peer = (int)!r->rank, .buf = &out[i], .count = 1, .type = TUTTI_U32 };
            ops[N + i] = (tutti_p2p){
                .is_recv = 1, .peer = (int)!r->rank, .buf = &in[i], .count = 1, .type = TUTTI_U32
            };
        }
        while (r->rank == 0 && call % 4 == 3 && !has_kept_probe(r))
            CHECK(r, tt_now_ns() < give_up_ns && usleep(1000) == 0);
        CHECK_OK(r, tutti_group(ops, 2 * N, r->comm, NULL));
        for (uint32_t i = 0; i < N; i++)
            CHECK(r, in[i] == 100 * call + 10 * !r->rank + i);
    }
}

static void repeated_groups_continue_after_a_long_wait(void **state)
{
    (void)state;
    over_wires(2, probed_group_role);
}

/* Like a server: a tag per request, used once or a few times. */
static void each_tag_role(struct rank *r)
{
    const uint32_t ntags = UNIT_SHARE > 1 ? 2000 : 20000;

    job_open(r);
    for (uint32_t i = 0; i < 2 * ntags; i++) {
        const uint32_t tag = (i < ntags ? i : 2 * ntags - 1 - i) * 0x10001;
        const tutti_call how = { .size = sizeof how, .tag = tag };
        uint32_t word = i;

        job_step(r, "tag %u, message %u", tag, i);
        if (r->rank == i % 2)
            CHECK_OK(r, tutti_send(&word, 1, TUTTI_U32, 1 - (int)r->rank, r->comm, &how));
        else
            CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U32, 1 - (int)r->rank, r->comm, &how));
        CHECK(r, word == i);
    }
}

static void one_tag_per_message_leaks_nothing(void **state)
{
    (void)state;
    over_wires(2, each_tag_role);
}

/* Returns whether a probe of rank 1 has arrived but was not processed; processes other messages. */
static bool has_unread_probe(struct rank *r)
{
    struct tt_engine *e = r->comm->context->engine;
    struct tt_mail mail;
    bool unread;

    tt_progress_lock(e);
    unread =
        tt_mail_next(&tt_peer_get(e, 1)->mail, &mail) == TUTTI_OK && mail.type == TT_CELL_PROBE;
    if (!unread)
        tt_engine_progress(e);
    tt_progress_unlock(e);
    return unread;
}

static void read_all(struct rank *r)
{
    struct tt_engine *e = r->comm->context->engine;
    struct tt_mail mail;

    tt_progress_lock(e);
    while (tt_mail_next(&tt_peer_get(e, 1)->mail, &mail) == TUTTI_OK)
        tt_engine_progress(e);
    tt_progress_unlock(e);
}

/* Rank 0 sends the message that rank 1 has probed for, and processes the probe afterwards. */
static void crossed_role(struct rank *r)
{
    setenv("TUTTI_NUDGE_MS", "1", 1);
    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    for (uint32_t i = 0; i < 20; i++) {
        const uint64_t give_up_ns = tt_now_ns() + 60 * TT_SECOND;
        uint32_t word = i;

        job_step(r, "number %u", i);
        if (r->rank == 0) {
            while (!has_unread_probe(r) && !has_probed(r))
                CHECK(r, tt_now_ns() < give_up_ns);
            CHECK_OK(r, tutti_send(&word, 1, TUTTI_U32, 1, r->comm, NULL));
            read_all(r);
        } else {
            CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U32, 0, r->comm, NULL));
        }
        job_meet(r);
        CHECK(r, word == i && (r->rank || !has_probed(r)));
        job_meet(r);
    }
}

static void probe_crossed_by_data_is_dropped(void **state)
{
    (void)state;
    over_wires(2, crossed_role);
}

/* Both ranks receive before they send: each RTS first matches against the other's receive with the
 * same tag and number. */
static void crossing_role(struct rank *r)
{
    const int peer = (int)!r->rank;

    job_open(r);
    for (uint32_t i = 0; i < 6; i++) {
        const size_t bytes = i % 2 ? 64 : 200000;
        uint8_t *in = room(r, bytes), *out = room(r, bytes);
        tutti_request *request;
        const tutti_call how = { .size = sizeof how, .request = &request };

        job_step(r, "round %u", i);
        pattern_fill(out, bytes, 100 * i + r->rank);
        CHECK_OK(r, tutti_recv(in, bytes, TUTTI_U8, peer, r->comm, &how));
        job_meet(r);
        CHECK(r, tutti_test(request) == TUTTI_PENDING);
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        CHECK_OK(r, tutti_send(out, bytes, TUTTI_U8, peer, r->comm, NULL));
        CHECK_OK(r, tutti_wait(request));
        check_filled(r, in, bytes, 100 * i + !r->rank);
        free(in);
        free(out);
    }
}

static void both_directions_count_separately(void **state)
{
    (void)state;
    over_wires(2, crossing_role);
}

/* More messages of one tag than eager credit permits, then one of another tag, which is received
 * first. */
static void behind_role(struct rank *r)
{
    enum { N = 50 };
    tutti_request *request[N + 1];
    uint64_t word[N + 1];

    job_open(r);
    for (uint32_t i = 0; i <= N; i++) {
        const uint32_t k = r->rank ? N - i : i;
        const tutti_call how = { .size = sizeof how,
                                 .request = r->rank ? NULL : &request[k],
                                 .tag = k };

        job_step(r, "tag %u", k);
        word[k] = r->rank ? 0 : 1000 + k;
        if (r->rank == 0)
            CHECK_OK(r, tutti_send(&word[k], 1, TUTTI_U64, 1, r->comm, &how));
        else
            CHECK_OK(r, tutti_recv(&word[k], 1, TUTTI_U64, 0, r->comm, &how));
        CHECK(r, word[k] == 1000 + k);
    }
    if (r->rank == 0)
        CHECK_OK(r, tutti_wait_all(request, N + 1));
}

static void message_passes_unreceived_ones(void **state)
{
    (void)state;
    over_wires(2, behind_role);
}

/* Sends and receives among collectives: their sequence numbers are independent. */
static void mixed_role(struct rank *r)
{
    const uint32_t right = (r->rank + 1) % r->nranks, left = (r->rank + r->nranks - 1) % r->nranks;

    job_open(r);
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t out = i * 10 + r->rank, in = 0, sum = 0;
        tutti_request *request[2];
        const tutti_call send = { .size = sizeof send, .request = &request[0], .tag = i % 2 };
        const tutti_call recv = { .size = sizeof recv, .request = &request[1], .tag = i % 2 };

        job_step(r, "round %u", i);
        CHECK_OK(r, tutti_send(&out, 1, TUTTI_U64, (int)right, r->comm, &send));
        CHECK_OK(r, tutti_allreduce(&out, &sum, 1, TUTTI_U64, TUTTI_SUM, r->comm, NULL));
        CHECK_OK(r, tutti_recv(&in, 1, TUTTI_U64, (int)left, r->comm, &recv));
        CHECK_OK(r, tutti_wait_all(request, 2));
        CHECK(r,
              in == i * 10 + left && sum == r->nranks * i * 10 + r->nranks * (r->nranks - 1) / 2);
    }
}

static void messages_and_collectives_are_independent(void **state)
{
    (void)state;
    over_wires(3, mixed_role);
}

/* ---- notifications ---- */

static atomic_uint notified;

static void count_up(void *arg)
{
    atomic_fetch_add(&notified, *(const uint32_t *)arg);
}

static void await_notified(struct rank *r, uint32_t count)
{
    while (atomic_load(&notified) < count)      /* a rank that hangs is reported and killed */
        usleep(100);
    CHECK(r, atomic_load(&notified) == count);
}

/* Rank 1 makes no call until each of its requests has sent a notification. */
static void notify_role(struct rank *r)
{
    const int peer = 1 - (int)r->rank;
    const uint32_t one = 1, ten = 10, hundred = 100;
    tutti_request *request = NULL;
    const tutti_call how = { .size = sizeof how, .request = &request };
    uint32_t in = 0, out = 40 + r->rank;
    const tutti_p2p both[] = {
        { .peer = peer, .buf = &out, .count = 1, .type = TUTTI_U32 },
        { .is_recv = 1, .peer = peer, .buf = &in, .count = 1, .type = TUTTI_U32 }
    };

    job_open(r);
    CHECK(r, tutti_request_notify(NULL, count_up, NULL) == TUTTI_ERR_INVALID);
    job_step(r, "a receive");
    if (r->rank == 1) {
        CHECK_OK(r, tutti_recv(&in, 1, TUTTI_U32, peer, r->comm, &how));
        CHECK(r, tutti_request_notify(request, NULL, NULL) == TUTTI_ERR_INVALID);
        CHECK_OK(r, tutti_request_notify(request, count_up, (void *)&one));
        CHECK(r, tutti_request_notify(request, count_up, (void *)&one) == TUTTI_ERR_INVALID);
        CHECK(r, atomic_load(&notified) == 0);
    }
    job_meet(r);
    if (r->rank == 1) {
        await_notified(r, 1);
        CHECK_OK(r, tutti_wait(request));
        CHECK(r, in == 40);
    } else {
        CHECK_OK(r, tutti_send(&out, 1, TUTTI_U32, peer, r->comm, NULL));
        atomic_store(&notified, 1);
    }
    job_step(r, "a group, and a request that is over");
    CHECK_OK(r, tutti_group(both, 2, r->comm, &how));
    CHECK_OK(r, tutti_request_notify(request, count_up, (void *)&ten));
    await_notified(r, 11);
    CHECK_OK(r, tutti_wait(request));
    CHECK_OK(r, tutti_allreduce(&out, &in, 1, TUTTI_U32, TUTTI_MAX, r->comm, &how));
    while (tutti_test(request) == TUTTI_PENDING)
        usleep(100);
    CHECK_OK(r, tutti_request_notify(request, count_up, (void *)&hundred));
    CHECK(r, atomic_load(&notified) == 111);
    CHECK_OK(r, tutti_wait(request));
    job_step(r, "a request that is aborted");
    job_meet(r);
    CHECK_OK(r, tutti_recv(&in, 1, TUTTI_U32, peer, r->comm, &how));
    CHECK_OK(r, tutti_request_notify(request, count_up, (void *)&one));
    job_meet(r);
    CHECK_OK(r, tutti_comm_abort(r->comm));
    await_notified(r, 112);
    CHECK(r, tutti_wait(request) == TUTTI_ERR_ABORTED);
}

static void request_notifies_exactly_once(void **state)
{
    (void)state;
    over_wires(2, notify_role);
}

/* Rank 0 sends only after rank 1's timed waits, so these must return PENDING. */
static void timed_role(struct rank *r)
{
    const int peer = 1 - (int)r->rank;
    tutti_request *request = NULL;
    const tutti_call how = { .size = sizeof how, .request = &request };
    uint32_t in = 0, out = 7;

    job_open(r);
    CHECK(r, tutti_test_for(NULL, 1) == TUTTI_ERR_INVALID);
    job_step(r, "a receive");
    if (r->rank == 1) {
        const uint64_t begin_ns = tt_now_ns();

        CHECK_OK(r, tutti_recv(&in, 1, TUTTI_U32, peer, r->comm, &how));
        CHECK(r, tutti_test_for(request, 0) == TUTTI_PENDING);
        CHECK(r, tutti_test_for(request, 30) == TUTTI_PENDING);
        CHECK(r, tt_now_ns() - begin_ns >= 30 * TT_MS);
        job_meet(r);
        CHECK_OK(r, tutti_test_for(request, -1));
        CHECK_OK(r, tutti_test_for(request, 30));
        CHECK_OK(r, tutti_wait(request));
        CHECK(r, in == 7);
    } else {
        job_meet(r);
        CHECK_OK(r, tutti_send(&out, 1, TUTTI_U32, peer, r->comm, NULL));
    }
    job_step(r, "a request that is aborted");
    job_meet(r);
    CHECK_OK(r, tutti_recv(&in, 1, TUTTI_U32, peer, r->comm, &how));
    job_meet(r);
    CHECK_OK(r, tutti_comm_abort(r->comm));
    CHECK(r, tutti_test_for(request, -1) == TUTTI_ERR_ABORTED);
    CHECK(r, tutti_wait(request) == TUTTI_ERR_ABORTED);
}

static void a_timed_wait_returns_pending_before_completion(void **state)
{
    (void)state;
    over_wires(2, timed_role);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timed_wait_returns_pending_before_completion),
        cmocka_unit_test(messages_of_any_size_arrive_whole),
        cmocka_unit_test(tags_match_in_any_order),
        cmocka_unit_test(messages_of_one_tag_stay_ordered),
        cmocka_unit_test(early_messages_match_repeated_receives),
        cmocka_unit_test(group_avoids_the_sequential_deadlock),
        cmocka_unit_test(group_may_list_large_sends_first),
        cmocka_unit_test(group_request_ends_with_last_member),
        cmocka_unit_test(group_request_fails_with_first_error),
        cmocka_unit_test(repeated_groups_deliver_each_call),
        cmocka_unit_test(groups_of_sends_wait_for_credit),
        cmocka_unit_test(repeated_group_fails_with_its_error),
        cmocka_unit_test(send_to_self_works),
        cmocka_unit_test(messages_to_self_stay_ordered),
        cmocka_unit_test(size_mismatch_with_self_is_reported),
        cmocka_unit_test(wait_any_returns_each_request_once),
        cmocka_unit_test(progress_skips_receives_without_data),
        cmocka_unit_test(refused_operation_can_be_retried),
        cmocka_unit_test(tutti_test_completes_a_pending_request),
        cmocka_unit_test(progress_thread_completes_a_receive),
        cmocka_unit_test(new_receive_wakes_the_progress_thread),
        cmocka_unit_test(short_message_after_long_wait_arrives),
        cmocka_unit_test(repeated_groups_continue_after_a_long_wait),
        cmocka_unit_test(one_tag_per_message_leaks_nothing),
        cmocka_unit_test(probe_crossed_by_data_is_dropped),
        cmocka_unit_test(both_directions_count_separately),
        cmocka_unit_test(message_passes_unreceived_ones),
        cmocka_unit_test(messages_and_collectives_are_independent),
        cmocka_unit_test(request_notifies_exactly_once),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
