/* Receives from any rank, between real ranks: the matching of messages and receives, for any size
 * and order. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/comm.h"
#include "engine/context.h"
#include "engine/progress.h"
#include "job.h"
#include "support/pattern.h"
#include "support/unit.h"

#define SEED 20260611
#define MIB ((size_t)1 << 20)
#define WAIT_MS 50000   /* reached only if an RTS is missing; probes are sent later */

static const char *const wires[] = { "shm", "tcp" };

static void over_wires(uint32_t nranks, void (*role)(struct rank *))
{
    for (size_t w = 0; w < sizeof wires / sizeof *wires; w++) {
        const struct job job = { .wires = wires[w], .nranks = nranks, .seed = job_seed(SEED) };

        job_run(&job, role);
    }
}

/* A communicator without probes: only the initial RTS can announce a send. */
static void open_without_probes(struct rank *r)
{
    setenv("TUTTI_NUDGE_MS", "60000", 1);
    job_open(r);
}

static uint8_t *room(struct rank *r, size_t bytes)
{
    uint8_t *mem = malloc(bytes + 1);

    CHECK(r, mem);
    memset(mem, 0x5a, bytes + 1);
    return mem;
}

/* The salt of message number n of rank `from`. */
static uint64_t salt_of(uint32_t from, uint64_t n) { return 1000 * n + from; }

static void check_filled(struct rank *r, const uint8_t *at, size_t bytes, uint64_t salt)
{
    const uint64_t wrong = pattern_differs(at, bytes, salt);

    if (wrong < bytes)
        job_fail(r, __FILE__, __LINE__, "byte %llu of %zu is wrong", (unsigned long long)wrong,
                 bytes);
}

static tutti_request *start_send(struct rank *r, const void *buf, size_t bytes, int to,
                                 uint32_t tag)
{
    tutti_request *request;
    const tutti_call how = {
        .size = sizeof how, .request = &request, .tag = tag, .timeout_ms = WAIT_MS
    };

    CHECK_OK(r, tutti_send(buf, bytes, TUTTI_U8, to, r->comm, &how));
    return request;
}

static tutti_request *start_recv(struct rank *r, void *buf, size_t bytes, int from, uint32_t tag,
                                 int *source)
{
    tutti_request *request;
    const tutti_call how = {
        .size = sizeof how, .request = &request, .tag = tag, .timeout_ms = WAIT_MS, .source = source
    };

    CHECK_OK(r, tutti_recv(buf, bytes, TUTTI_U8, from, r->comm, &how));
    return request;
}

static void send_word(struct rank *r, uint64_t word, int to, uint32_t tag)
{
    const tutti_call how = { .size = sizeof how, .tag = tag, .timeout_ms = WAIT_MS };

    CHECK_OK(r, tutti_send(&word, 1, TUTTI_U64, to, r->comm, &how));
}

static uint64_t recv_word(struct rank *r, int from, uint32_t tag, int *source)
{
    const tutti_call how = {
        .size = sizeof how, .tag = tag, .timeout_ms = WAIT_MS, .source = source
    };
    uint64_t word = 0;

    CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U64, from, r->comm, &how));
    return word;
}

/* Makes progress until rank 0 has n unexpected messages with this tag from each other rank. */
static void await_untaken(struct rank *r, uint32_t tag, uint32_t n)
{
    struct tt_context *c = r->comm->context;

    for (uint32_t from = 1; from < r->nranks;) {
        const struct tt_context_peer *cp;
        const struct tt_tag_counter *t;

        tt_progress_lock(c->engine);
        tt_engine_progress(c->engine);
        cp = tt_sparse_get(&c->peers, from);
        t = cp ? tt_context_counter_find(cp, tag, true) : NULL;
        from += t && t->untaken == n;
        tt_progress_unlock(c->engine);
        if (!t || t->untaken != n)
            usleep(100);        /* a rank that hangs is reported and killed */
    }
}

/* ---- sizes ---- */

static const size_t sizes[] = { 4 * MIB, 0, 1, 24, 25, 600, 4096, 4097, 65537, 262144, MIB };

/* Rank 0 receives a message from each other rank; its receives start before or after the sends. */
static void receive_all(struct rank *r, size_t bytes, uint32_t n, bool late)
{
    uint8_t *buf[JOB_RANKS_MAX];
    int source[JOB_RANKS_MAX];
    tutti_request *request[JOB_RANKS_MAX];
    uint32_t seen = 0;

    if (late)
        job_meet(r);
    for (uint32_t i = 0; i + 1 < r->nranks; i++) {
        source[i] = -5;
        buf[i] = room(r, bytes);
        request[i] = start_recv(r, buf[i], bytes, TUTTI_ANY_RANK, 2 * n + late, &source[i]);
    }
    if (!late)
        job_meet(r);
    CHECK_OK(r, tutti_wait_all(request, r->nranks - 1));
    for (uint32_t i = 0; i + 1 < r->nranks; i++) {
        CHECK(r, source[i] > 0 && source[i] < (int)r->nranks && !(seen & 1u << source[i]));
        seen |= 1u << source[i];
        check_filled(r, buf[i], bytes, salt_of((uint32_t)source[i], n));
        CHECK(r, buf[i][bytes] == 0x5a);
        free(buf[i]);
    }
}

static void sizes_role(struct rank *r)
{
    open_without_probes(r);
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t late = 0; late < 2; late++) {
            uint8_t *buf;
            tutti_request *request;

            job_step(r, "%zu bytes, %s", sizes[i], late ? "sent first" : "received first");
            if (r->rank == 0) {
                receive_all(r, sizes[i], i, late);
                continue;
            }
            buf = room(r, sizes[i]);
            pattern_fill(buf, sizes[i], salt_of(r->rank, i));
            if (!late)
                job_meet(r);
            request = start_send(r, buf, sizes[i], 0, 2 * i + late);
            if (late)
                job_meet(r);
            CHECK_OK(r, tutti_wait(request));
            free(buf);
        }
}

static void any_rank_receives_every_size(void **state)
{
    (void)state;
    over_wires(4, sizes_role);
}

/* ---- order and fairness ---- */

static void order_role(struct rank *r)
{
    enum { N = 30 };
    static const size_t lengths[] = { 8, 200000 };

    open_without_probes(r);
    for (uint32_t k = 0; k < 2; k++) {
        uint8_t *buf = room(r, N * lengths[k]);
        tutti_request *request[N];
        uint32_t next[JOB_RANKS_MAX] = { 0 };

        job_step(r, "%zu bytes", lengths[k]);
        for (uint32_t i = 0; i < N && r->rank; i++) {
            pattern_fill(buf + i * lengths[k], lengths[k], salt_of(r->rank, i));
            request[i] = start_send(r, buf + i * lengths[k], lengths[k], 0, k);
        }
        if (r->rank)
            CHECK_OK(r, tutti_wait_all(request, N));
        for (uint32_t i = 0; i < N * (r->nranks - 1) && r->rank == 0; i++) {
            int source = -1;

            if (i % 3 == 0)     /* some by request, two at a time */
                CHECK_OK(r, tutti_wait(start_recv(r, buf, lengths[k], TUTTI_ANY_RANK, k, &source)));
            else
                CHECK_OK(r,
                         tutti_recv(buf, lengths[k], TUTTI_U8, TUTTI_ANY_RANK, r->comm,
                                    &(tutti_call){
                                        .size = sizeof(tutti_call), .tag = k, .source = &source }));
            CHECK(r, source > 0 && source < (int)r->nranks);
            check_filled(r, buf, lengths[k], salt_of((uint32_t)source, next[source]++));
        }
        free(buf);
    }
}

static void messages_of_each_sender_stay_ordered(void **state)
{
    (void)state;
    over_wires(3, order_role);
}

/* All messages arrive before rank 0 receives. It receives one from each sender in turn, for short
 * messages and for RTS. */
static void turns_role(struct rank *r)
{
    enum { N = 10, BYTES = 100000 };
    static const size_t lengths[] = { 8, BYTES };
    uint8_t *buf = room(r, BYTES);

    open_without_probes(r);
    if (r->rank == 0)
        for (uint32_t i = 1; i < r->nranks; i++)
            recv_word(r, TUTTI_ANY_RANK, 99, NULL);
    else
        send_word(r, 1, 0, 99);
    for (uint32_t k = 0; k < 2; k++) {
        tutti_request *request[N];
        int source[N * JOB_RANKS_MAX] = { 0 };

        job_step(r, "%zu bytes", lengths[k]);
        for (uint32_t i = 0; i < N && r->rank; i++)
            request[i] = start_send(r, buf, lengths[k], 0, k);
        if (r->rank) {
            CHECK_OK(r, tutti_wait_all(request, N));
            continue;
        }
        await_untaken(r, k, N);
        for (uint32_t i = 0; i < N * (r->nranks - 1); i++)
            CHECK_OK(r, tutti_wait(start_recv(r, buf, lengths[k], TUTTI_ANY_RANK, k, &source[i])));
        for (uint32_t i = 0; i + r->nranks - 1 < N * (r->nranks - 1); i++)
            CHECK(r, source[i] == source[i + r->nranks - 1]);
        for (uint32_t i = 1; i + 1 < r->nranks; i++)
            CHECK(r, source[i] != source[0]);
    }
    free(buf);
}

static void senders_take_turns(void **state)
{
    (void)state;
    over_wires(4, turns_role);
}

/* ---- mixed with receives from named ranks ---- */

struct posted {
    int from;
    uint32_t expects;           /* the expected sender, */
    uint64_t n;                 /* and the number of its message */
};

/* Rank 0 starts the receives in this order. Then rank 1 sends n[0] messages, and when they (or
 * their RTS) have arrived, rank 2 sends n[1]; or in the opposite order. */
static void check_posted(struct rank *r, const struct posted *posted, uint32_t nposted,
                         const uint32_t n[2], uint32_t first, size_t bytes, uint32_t tag)
{
    uint8_t *buf = room(r, 8 * bytes);
    tutti_request *request[8];
    int source[8];

    for (uint32_t i = 0; i < nposted && r->rank == 0; i++)
        request[i] = start_recv(r, buf + i * bytes, bytes, posted[i].from, tag, &source[i]);
    job_meet(r);
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t turn = k ? 3 - first : first;

        for (uint32_t i = 0; i < n[turn - 1] && r->rank == turn; i++) {
            pattern_fill(buf, bytes, salt_of(turn, i));
            /* completes, because its receive is posted */
            CHECK_OK(r, tutti_wait(start_send(r, buf, bytes, 0, tag)));
        }
        if (r->rank == turn)
            send_word(r, k, 0, 1000 + tag);
        if (r->rank == 0)
            CHECK(r, recv_word(r, (int)turn, 1000 + tag, NULL) == k);
        job_meet(r);
    }
    for (uint32_t i = 0; i < nposted && r->rank == 0; i++) {
        CHECK_OK(r, tutti_wait(request[i]));
        CHECK(r, source[i] == (int)posted[i].expects);
        check_filled(r, buf + i * bytes, bytes, salt_of(posted[i].expects, posted[i].n));
    }
    free(buf);
}

static void posted_role(struct rank *r)
{
    static const size_t lengths[] = { 8, 5000, 300000 };
    static const struct posted any_first[] = {
        { TUTTI_ANY_RANK, 1, 0 }, { 1, 1, 1 }, { TUTTI_ANY_RANK, 2, 0 }, { 2, 2, 1 }
    };
    static const struct posted any_last[] = { { 1, 1, 0 }, { TUTTI_ANY_RANK, 1, 1 }, { 2, 2, 0 } };
    static const struct posted passed_by[] = { { 1, 1, 0 },
                                               { TUTTI_ANY_RANK, 2, 0 },
                                               { TUTTI_ANY_RANK, 1, 1 } };
    uint32_t tag = 0;

    open_without_probes(r);
    for (uint32_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        job_step(r, "%zu bytes: from any rank first", lengths[k]);
        check_posted(r, any_first, 4, (const uint32_t[]){ 2, 2 }, 1, lengths[k], tag++);
        job_step(r, "%zu bytes: from a named rank first", lengths[k]);
        check_posted(r, any_last, 3, (const uint32_t[]){ 2, 1 }, 1, lengths[k], tag++);
        job_step(r, "%zu bytes: the named rank comes second", lengths[k]);
        check_posted(r, passed_by, 3, (const uint32_t[]){ 2, 1 }, 2, lengths[k], tag++);
    }
}

static void message_matches_the_oldest_receive(void **state)
{
    (void)state;
    over_wires(3, posted_role);
}

/* A blocking receive whose shape was used before, so that its operation is cached, waits in order
 * like others. */
static void kept_role(struct rank *r)
{
    tutti_call how = { .size = sizeof how };
    uint64_t word = 0;
    int source = -1;

    job_open(r);
    for (uint64_t i = 0; i < 8; i++) {
        job_step(r, "round %u", (unsigned)i);
        if (r->rank) {
            send_word(r, 3 * i, 0, 0);
            job_meet(r);
            send_word(r, 3 * i + 1, 0, 0);
            send_word(r, 3 * i + 2, 0, 0);
        } else {
            tutti_request *request;

            how.source = &source;
            CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U64, 1, r->comm, &how));
            CHECK(r, word == 3 * i && source == 1);
            source = -1;
            request = start_recv(r, &word, 8, TUTTI_ANY_RANK, 0, &source);
            job_meet(r);
            CHECK(r, recv_word(r, 1, 0, NULL) == 3 * i + 2);
            CHECK_OK(r, tutti_wait(request));
            CHECK(r, word == 3 * i + 1 && source == 1);
        }
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
}

static void blocking_receive_queues_behind_any_rank(void **state)
{
    (void)state;
    over_wires(2, kept_role);
}

/* All ranks send to all, including themselves, with three tags and different lengths. Some messages
 * of each sender and tag are received by a named receive; those receives start first. */
static void mixed_role(struct rank *r)
{
    enum { TAGS = 3, MOST = 4, ALL = TAGS * MOST * JOB_RANKS_MAX };
    static const size_t lengths[TAGS] = { 8, 3000, 150000 };
    const uint32_t rounds = job_tries_few() ? 2 : 6;

    job_open(r);
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t count[JOB_RANKS_MAX][JOB_RANKS_MAX][TAGS], named[JOB_RANKS_MAX][TAGS],
            next[JOB_RANKS_MAX][TAGS] = { 0 };
        tutti_request *request[2 * ALL];
        uint8_t *buf[2 * ALL];
        int source[ALL], from[ALL];
        uint32_t tag[ALL], n = 0, nrecv;

        job_step(r, "round %u", round);
        for (uint32_t a = 0; a < r->nranks; a++)
            for (uint32_t b = 0; b < r->nranks; b++)
                for (uint32_t t = 0; t < TAGS; t++)
                    count[a][b][t] = (uint32_t)tt_prng_below(&r->common, MOST + 1);
        for (uint32_t pass = 0; pass < 2; pass++)       /* receives from named ranks, then those
                                                           from any rank */
            for (uint32_t a = 0; a < r->nranks; a++)
                for (uint32_t t = 0; t < TAGS; t++) {
                    const uint32_t all = count[a][r->rank][t];

                    if (pass == 0)
                        named[a][t] = (uint32_t)tt_prng_below(&r->prng, all + 1);
                    for (uint32_t i = pass ? named[a][t] : 0; i < (pass ? all : named[a][t]);
                         i++, n++) {
                        from[n] = pass ? TUTTI_ANY_RANK : (int)a;
                        tag[n] = t;
                        source[n] = -1;
                        buf[n] = room(r, lengths[t]);
                        request[n] = start_recv(r, buf[n], lengths[t], from[n], t, &source[n]);
                    }
                }
        nrecv = n;
        for (uint32_t i = 0; i < MOST; i++)
            for (uint32_t k = 0; k < r->nranks; k++)
                for (uint32_t t = 0; t < TAGS; t++) {
                    const uint32_t b = (r->rank + k) % r->nranks;

                    if (i >= count[r->rank][b][t])
                        continue;
                    buf[n] = room(r, lengths[t]);
                    pattern_fill(buf[n], lengths[t], salt_of(r->rank, 10 * round + i));
                    request[n] = start_send(r, buf[n], lengths[t], (int)b, t);
                    n++;
                }
        CHECK_OK(r, tutti_wait_all(request, n));
        for (uint32_t i = 0; i < nrecv; i++) {
            CHECK(r, source[i] >= 0 && source[i] < (int)r->nranks &&
                         (from[i] < 0 || from[i] == source[i]));
            check_filled(r, buf[i], lengths[tag[i]],
                         salt_of((uint32_t)source[i], 10 * round + next[source[i]][tag[i]]++));
        }
        for (uint32_t i = 0; i < n; i++)
            free(buf[i]);
        CHECK_OK(r, tutti_barrier(r->comm, NULL));      /* otherwise a message of the next round
                                                           might match here */
    }
}

static void any_and_named_receives_share_messages(void **state)
{
    (void)state;
    over_wires(4, mixed_role);
}

/* ---- self, groups, options ---- */

static void oneself_role(struct rank *r)
{
    const int me = (int)r->rank;
    uint64_t in = 0, out = 77;
    int source = -1;
    tutti_request *request;
    const tutti_p2p both[] = {
        { .is_recv = 1,
          .peer = TUTTI_ANY_RANK,
          .buf = &in,
          .count = 1,
          .type = TUTTI_U64,
          .tag = 2 },
        { .peer = me, .buf = &out, .count = 1, .type = TUTTI_U64, .tag = 2 },
    };

    job_open(r);
    job_step(r, "the receive first");
    request = start_recv(r, &in, 8, TUTTI_ANY_RANK, 1, &source);
    CHECK(r, tutti_test(request) == TUTTI_PENDING && source == -1);
    send_word(r, 77, me, 1);
    CHECK_OK(r, tutti_wait(request));
    CHECK(r, in == 77 && source == me);
    job_step(r, "the send first");
    out = 78;
    request = start_send(r, &out, 8, me, 1);
    source = -1;
    CHECK(r, tutti_test(request) == TUTTI_PENDING);
    CHECK(r, recv_word(r, TUTTI_ANY_RANK, 1, &source) == 78 && source == me);
    CHECK_OK(r, tutti_wait(request));
    job_step(r, "in a group");
    CHECK_OK(r, tutti_group(both, 2, r->comm, NULL));
    CHECK(r, in == 78);
    if (r->nranks == 1)
        CHECK_SAYS(r, tutti_recv(&in, 1, TUTTI_U64, TUTTI_ANY_RANK, r->comm, NULL),
                   TUTTI_ERR_INVALID,
                   "rank 0 is the calling rank: it has not started the matching send with tag 0");
}

static void any_rank_includes_self(void **state)
{
    (void)state;
    over_wires(1, oneself_role);
    over_wires(2, oneself_role);
}

static void group_role(struct rank *r)
{
    const uint32_t left = (r->rank + r->nranks - 1) % r->nranks;
    const size_t bytes = 200000;
    uint8_t *in = room(r, bytes), *out = room(r, bytes);
    const tutti_p2p ops[] = {
        { .peer = (int)((r->rank + 1) % r->nranks), .buf = out, .count = bytes, .type = TUTTI_U8 },
        { .is_recv = 1, .peer = TUTTI_ANY_RANK, .buf = in, .count = bytes, .type = TUTTI_U8 },
    };

    open_without_probes(r);
    pattern_fill(out, bytes, r->rank);
    CHECK_OK(r, tutti_group(ops, 2, r->comm,
                            &(tutti_call){ .size = sizeof(tutti_call), .timeout_ms = WAIT_MS }));
    check_filled(r, in, bytes, left);
    free(in);
    free(out);
}

static void group_members_receive_from_any_rank(void **state)
{
    (void)state;
    over_wires(3, group_role);
}

/* Waits until rank 0 has n unexpected messages of rank 1. */
static void await_kept(struct rank *r, int n)
{
    struct tt_context *c = r->comm->context;
    int kept = 0;

    while (kept < n) {
        const struct tt_context_peer *cp;

        tt_progress_lock(c->engine);
        tt_engine_progress(c->engine);
        cp = tt_sparse_get(&c->peers, 1);
        kept = cp ? __builtin_popcountll(cp->kept) : 0;
        tt_progress_unlock(c->engine);
        usleep(100);
    }
}

static void options_role(struct rank *r)
{
    int source = -5;
    uint64_t word = 5;
    tutti_call how = { .size = offsetof(tutti_call, source), .source = &source };

    job_open(r);
    if (r->rank) {
        CHECK_SAYS(r, tutti_send(&word, 1, TUTTI_U64, TUTTI_ANY_RANK, r->comm, NULL),
                   TUTTI_ERR_INVALID, "rank -1 is out of range");
        for (uint32_t i = 0; i < 4; i++)
            send_word(r, i, 0, 0);
        return;
    }
    CHECK_SAYS(r, tutti_recv(&word, 1, TUTTI_U64, -2, r->comm, NULL), TUTTI_ERR_INVALID,
               "rank -2 is out of range");
    /* call options as an older program passes them */
    CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U64, 1, r->comm, &how));
    await_kept(r, 3);           /* these messages arrived before the first receive from any rank */
    CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U64, TUTTI_ANY_RANK, r->comm, &how));
    CHECK(r, word == 1 && source == -5);
    how.size = sizeof how;
    CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U64, 1, r->comm, &how));
    CHECK(r, word == 2 && source == 1);
    source = -5;
    how.source = NULL;
    CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U64, 1, r->comm, &how));
    CHECK(r, word == 3 && source == -5);
}

static void source_is_returned_in_the_call(void **state)
{
    (void)state;
    over_wires(2, options_role);
}

/* The sender has used up its eager credit with messages that are not received yet. */
static void credit_role(struct rank *r)
{
    enum { N = 40 };
    tutti_request *request[N];
    uint64_t word[N], in;
    int source = -1;

    job_open(r);
    for (uint32_t i = 0; i < N && r->rank; i++) {
        word[i] = i;
        request[i] = start_send(r, &word[i], 8, 0, i);
    }
    for (uint32_t i = N; i-- > 0 && r->rank == 0;) {
        job_step(r, "tag %u", i);
        CHECK_OK(r, tutti_wait(start_recv(r, &in, 8, TUTTI_ANY_RANK, i, &source)));
        CHECK(r, in == i && source == 1);
    }
    if (r->rank)
        CHECK_OK(r, tutti_wait_all(request, N));
}

static void message_behind_unexpected_ones_is_found(void **state)
{
    (void)state;
    over_wires(2, credit_role);
}

/* ---- errors ---- */

/* The sizes differ: both ranks report both calls, in any order, for eager and rendezvous. */
static void differs_role(struct rank *r)
{
    static const size_t lengths[][2] = { { 16, 8 }, { MIB, 8 }, { 8, MIB }, { MIB, MIB / 2 } };
    uint8_t *buf = room(r, MIB);

    job_open(r);
    for (uint32_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
        for (uint32_t late = 0; late < 2; late++) {
            char send[64], recv[64];
            tutti_request *request;
            const tutti_call how = { .size = sizeof how, .request = &request };
            tutti_comm *dup;
            tutti_status st = TUTTI_OK;

            job_step(r, "%zu bytes sent, %zu received, %s first", lengths[k][0], lengths[k][1],
                     late ? "sent" : "received");
            CHECK_OK(r, tutti_comm_dup(r->comm, &dup));
            snprintf(send, sizeof send, "send(%zu bytes, type u8)", lengths[k][0]);
            snprintf(recv, sizeof recv, "recv(%zu bytes, type u8)", lengths[k][1]);
            if (r->rank != late)
                job_meet(r);
            if (r->rank)
                st = tutti_send(buf, lengths[k][0], TUTTI_U8, 0, dup, &how);
            else
                st = tutti_recv(buf, lengths[k][1], TUTTI_U8, TUTTI_ANY_RANK, dup, &how);
            if (r->rank == late)
                job_meet(r);
            st = st ? st : tutti_wait(request);
            if (r->rank == 0 || st != TUTTI_OK) {       /* a short send may complete before the
                                                           mismatch is detected */
                CHECK_STATUS(r, st, TUTTI_ERR_MISMATCH);
                CHECK(r, strstr(tutti_last_error(), send) && strstr(tutti_last_error(), recv));
            }
            job_meet(r);
            tutti_comm_destroy(dup);
        }
    free(buf);
}

static void different_sizes_are_a_mismatch(void **state)
{
    (void)state;
    over_wires(2, differs_role);
}

static void timeout_role(struct rank *r)
{
    uint64_t word;
    tutti_comm *dup;

    job_open(r);
    CHECK_OK(r, tutti_comm_dup(r->comm, &dup));
    if (r->rank == 0) {
        CHECK_SAYS(
            r,
            tutti_recv(&word, 1, TUTTI_U64, TUTTI_ANY_RANK, dup,
                       &(tutti_call){ .size = sizeof(tutti_call), .tag = 12, .timeout_ms = 50 }),
            TUTTI_ERR_TIMEOUT,
            "recv(8 bytes, type u64) from any rank, tag 12: no rank has sent a message with this "
            "tag");
        CHECK_STATUS(r, tutti_recv(&word, 1, TUTTI_U64, TUTTI_ANY_RANK, dup, NULL),
                     TUTTI_ERR_TIMEOUT);
    }
    job_meet(r);
    tutti_comm_destroy(dup);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
}

static void deadline_message_names_missing_sends(void **state)
{
    (void)state;
    over_wires(2, timeout_role);
}

/* An abort fails the pending receives of its communicator: those from any rank, and one that is
 * queued behind them. */
static void abort_role(struct rank *r)
{
    uint64_t word[3];
    tutti_request *request[3];

    job_open(r);
    if (r->rank == 0) {
        int source = -5;

        for (uint32_t i = 0; i < 3; i++)
            request[i] = start_recv(r, &word[i], 8, i == 1 ? 1 : TUTTI_ANY_RANK, 0, &source);
        job_meet(r);
        for (uint32_t i = 0; i < 3; i++)
            CHECK_STATUS(r, tutti_wait(request[i]), TUTTI_ERR_ABORTED);
        CHECK(r, source == -5);
        CHECK_STATUS(r, tutti_recv(word, 1, TUTTI_U64, TUTTI_ANY_RANK, r->comm, NULL),
                     TUTTI_ERR_ABORTED);
    } else {
        job_meet(r);
        if (r->rank == 1)
            CHECK_OK(r, tutti_comm_abort(r->comm));
    }
    job_meet(r);
}

static void abort_ends_receives_from_any_rank(void **state)
{
    (void)state;
    over_wires(3, abort_role);
}

/* Requests that are pending when their communicator is destroyed fail. */
static void destroyed_role(struct rank *r)
{
    uint64_t word[2];
    tutti_request *request[2];
    tutti_comm *dup;

    job_open(r);
    CHECK_OK(r, tutti_comm_dup(r->comm, &dup));
    for (uint32_t i = 0; i < 2; i++)
        CHECK_OK(r,
                 tutti_recv(&word[i], 1, TUTTI_U64, i ? 1 - (int)r->rank : TUTTI_ANY_RANK, dup,
                            &(tutti_call){ .size = sizeof(tutti_call), .request = &request[i] }));
    job_meet(r);
    tutti_comm_destroy(dup);
    for (uint32_t i = 0; i < 2; i++)
        CHECK_STATUS(r, tutti_wait(request[i]), TUTTI_ERR_ABORTED);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
}

static void destroying_a_communicator_ends_its_receives(void **state)
{
    (void)state;
    over_wires(2, destroyed_role);
}

static void lost_role(struct rank *r)
{
    uint64_t word;
    tutti_request *request;

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    if (r->rank == 2) {
        CHECK(r, job_await(r->board, 0, 2));
        r->board->dies[2] = 1;
        kill(getpid(), SIGKILL);
    }
    request = start_recv(r, &word, 8, TUTTI_ANY_RANK, 0, NULL);
    job_raise(r->board, 0);
    CHECK_STATUS(r, tutti_wait(request), TUTTI_ERR_PEER_LOST);
    CHECK(r, job_names(tutti_last_error(), 2));
    job_close(r);
}

static void lost_rank_ends_any_rank_receives(void **state)
{
    (void)state;
    over_wires(3, lost_role);
}

/* The other ranks close the communicator one after another. Until the last one has closed it, a
 * message may still arrive. */
static void deserted_role(struct rank *r)
{
    uint64_t word;
    tutti_request *request;

    job_open(r);
    if (r->rank) {
        send_word(r, r->rank, 0, 0);
        CHECK(r, job_await(r->board, 0, r->rank));
        if (r->rank == 2)
            send_word(r, 22, 0, 0);
        job_close(r);
        job_raise(r->board, 0);
        return;
    }
    CHECK(r, recv_word(r, TUTTI_ANY_RANK, 0, NULL) + recv_word(r, TUTTI_ANY_RANK, 0, NULL) == 3);
    job_raise(r->board, 0);
    CHECK(r, recv_word(r, TUTTI_ANY_RANK, 0, NULL) == 22);
    request = start_recv(r, &word, 8, TUTTI_ANY_RANK, 0, NULL);
    CHECK_SAYS(r, tutti_wait(request), TUTTI_ERR_PEER_LOST,
               "all other ranks have closed the communicator");
    job_close(r);
}

static void any_rank_fails_without_remaining_senders(void **state)
{
    (void)state;
    over_wires(3, deserted_role);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_rank_receives_every_size),
        cmocka_unit_test(messages_of_each_sender_stay_ordered),
        cmocka_unit_test(senders_take_turns),
        cmocka_unit_test(message_matches_the_oldest_receive),
        cmocka_unit_test(blocking_receive_queues_behind_any_rank),
        cmocka_unit_test(any_and_named_receives_share_messages),
        cmocka_unit_test(any_rank_includes_self),
        cmocka_unit_test(group_members_receive_from_any_rank),
        cmocka_unit_test(source_is_returned_in_the_call),
        cmocka_unit_test(message_behind_unexpected_ones_is_found),
        cmocka_unit_test(different_sizes_are_a_mismatch),
        cmocka_unit_test(deadline_message_names_missing_sends),
        cmocka_unit_test(abort_ends_receives_from_any_rank),
        cmocka_unit_test(destroying_a_communicator_ends_its_receives),
        cmocka_unit_test(lost_rank_ends_any_rank_receives),
        cmocka_unit_test(any_rank_fails_without_remaining_senders),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
