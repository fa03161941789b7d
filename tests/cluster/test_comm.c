/* Communicators: creation, splits and destruction; shared and separate resources. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/param.h"
#include "comm/comm.h"
#include "job.h"
#include "support/unit.h"

#define SEED 20260404
#define MIB ((uint64_t)1 << 20)

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1             /* sanitizers keep freed memory and shadow memory */
#else
#define SANITIZED 0
#endif

static void over_wires(uint32_t nranks, const void *arg, void (*role)(struct rank *))
{
    for (size_t w = 0; w < NWIRES; w++) {
        const struct job job = {
            .wires = wires[w], .nranks = nranks, .seed = job_seed(SEED), .arg = arg
        };

        job_run(&job, role);
    }
}

/* Checks the ranks of comm, in its order. */
static void check_members(struct rank *r, tutti_comm *comm, const uint32_t *expected, uint32_t n)
{
    uint32_t got[JOB_RANKS_MAX];

    CHECK(r, tutti_comm_size(comm) == (int)n);
    CHECK(r, expected[tutti_comm_rank(comm)] == r->rank);
    CHECK_OK(r, tutti_allgather(&r->rank, got, 1, TUTTI_U32, comm, NULL));
    CHECK(r, memcmp(got, expected, n * sizeof *got) == 0);
}

static void check_sum(struct rank *r, tutti_comm *comm)
{
    const uint32_t n = (uint32_t)tutti_comm_size(comm);
    uint32_t mine = r->rank + 1, sum = 0;

    CHECK_OK(r, tutti_allreduce(&mine, &sum, 1, TUTTI_U32, TUTTI_SUM, comm, NULL));
    CHECK(r, sum == n * (n + 1) / 2);
}

/* ---- split ---- */

#define SPLIT_RANKS 5

struct division {
    int colour[SPLIT_RANKS], key[SPLIT_RANKS];
};

static const struct division divisions[] = {
    { { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 } },
    { { 1, 1, 1, 1, 1 }, { 4, 3, 2, 1, 0 } },
    { { 0, 1, 0, 1, 0 }, { 5, 5, -5, 5, 5 } },
    { { 7, 7, INT_MAX, 7, INT_MAX }, { INT_MAX, INT_MIN, 0, -1, -1 } },
    { { 2, -1, 2, INT_MIN, 2 }, { INT_MIN, 0, INT_MAX, 0, INT_MIN } },
    { { 4, 3, 2, 1, 0 }, { 0, 0, 0, 0, 0 } },
    { { -1, -2, -3, -4, -5 }, { 0, 0, 0, 0, 0 } },
};

/* The ranks of `rank`'s colour by key, then by rank: each is inserted before the first that must
 * follow it. */
static uint32_t part_of(const struct division *d, uint32_t rank, uint32_t out[SPLIT_RANKS])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < SPLIT_RANKS; i++) {
        uint32_t at = 0;

        if (d->colour[i] != d->colour[rank])
            continue;
        while (at < n && d->key[out[at]] <= d->key[i])
            at++;
        memmove(&out[at + 1], &out[at], (n - at) * sizeof *out);
        out[at] = i;
        n++;
    }
    return n;
}

static void split_role(struct rank *r)
{
    uint32_t expected[SPLIT_RANKS];
    tutti_comm *part;

    job_open(r);
    for (size_t i = 0; i < sizeof divisions / sizeof *divisions; i++) {
        const struct division *d = &divisions[i];
        const uint32_t n = part_of(d, r->rank, expected);

        job_step(r, "division %zu", i);
        part = r->comm;
        CHECK_OK(r, tutti_comm_split(r->comm, d->colour[r->rank], d->key[r->rank], &part));
        CHECK(r, (part == NULL) == (d->colour[r->rank] < 0));
        if (part)
            check_members(r, part, expected, n);
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        tutti_comm_destroy(part);
    }
}

static void split_groups_by_colour_and_key(void **state)
{
    (void)state;
    over_wires(SPLIT_RANKS, NULL, split_role);
}

/* ---- groups of some ranks ---- */

struct list {
    int n, ranks[SPLIT_RANKS];
};

static const struct list lists[] = {
    { 3, { 3, 1, 4 } },       { 2, { 2, 0 } },       { 1, { 4 } },
    { 5, { 4, 3, 2, 1, 0 } }, { 4, { 0, 1, 2, 4 } }, { 2, { 0, 3 } },
};
#define NLISTS (sizeof lists / sizeof *lists)

static bool lists_rank(const struct list *l, uint32_t rank)
{
    for (int i = 0; i < l->n; i++)
        if (l->ranks[i] == (int)rank)
            return true;
    return false;
}

/* Each rank creates the groups that contain it, and uses them when all are created. */
static void some_role(struct rank *r)
{
    tutti_comm *part[NLISTS] = { NULL };
    uint32_t expected[SPLIT_RANKS];

    job_open(r);
    for (size_t i = 0; i < NLISTS; i++) {
        if (!lists_rank(&lists[i], r->rank))
            continue;
        job_step(r, "list %zu", i);
        CHECK_OK(r, tutti_comm_create_group(r->comm, lists[i].ranks, lists[i].n, 7, &part[i]));
    }
    for (size_t i = 0; i < NLISTS; i++) {
        if (!part[i])
            continue;
        for (int k = 0; k < lists[i].n; k++)
            expected[k] = (uint32_t)lists[i].ranks[k];
        check_members(r, part[i], expected, (uint32_t)lists[i].n);
        tutti_comm_destroy(part[i]);
    }
    check_sum(r, r->comm);
}

static void only_listed_ranks_create_a_group(void **state)
{
    (void)state;
    over_wires(SPLIT_RANKS, NULL, some_role);
}

/* Two groups of the same ranks, in opposite orders. */
static void tags_role(struct rank *r)
{
    static const int both[] = { 0, 1 }, turned[] = { 1, 0 };
    tutti_comm *first, *second;

    job_open(r);
    CHECK_OK(r, tutti_comm_create_group(r->comm, both, 2, 1, &first));
    CHECK_OK(r, tutti_comm_create_group(r->comm, turned, 2, 2, &second));
    CHECK(r, tutti_comm_rank(first) == (int)r->rank && tutti_comm_rank(second) == 1 - (int)r->rank);
    check_sum(r, first);
    check_sum(r, second);
    tutti_comm_destroy(first);
    tutti_comm_destroy(second);
}

static void wrong_list_role(struct rank *r)
{
    static const int good[] = { 0, 1, 2 }, other[] = { 0, 2, 1 }, twice[] = { 0, 1, 0 },
                     beyond[] = { 0, 3 }, below[] = { -1, 0 };
    const int mine[] = { (int)r->rank }, next[] = { ((int)r->rank + 1) % 3 };
    tutti_comm *out = (tutti_comm *)(uintptr_t)1;

    job_open(r);
    CHECK(r, tutti_comm_create_group(NULL, good, 3, 0, &out) == TUTTI_ERR_INVALID);
    CHECK(r, tutti_comm_create_group(r->comm, NULL, 3, 0, &out) == TUTTI_ERR_INVALID);
    CHECK(r, tutti_comm_create_group(r->comm, good, 3, 0, NULL) == TUTTI_ERR_INVALID);
    CHECK(r, tutti_comm_create_group(r->comm, good, 0, 0, &out) == TUTTI_ERR_INVALID);
    CHECK(r, tutti_comm_create_group(r->comm, good, 4, 0, &out) == TUTTI_ERR_INVALID);
    CHECK(r, strstr(tutti_last_error(), "n is 4: must be 1 to 3"));
    CHECK(r, tutti_comm_create_group(r->comm, twice, 3, 0, &out) == TUTTI_ERR_INVALID);
    CHECK(r, strstr(tutti_last_error(), "ranks[2] is 0: this rank is listed twice"));
    CHECK(r, tutti_comm_create_group(r->comm, beyond, 2, 0, &out) == TUTTI_ERR_INVALID);
    CHECK(r, tutti_comm_create_group(r->comm, below, 2, 0, &out) == TUTTI_ERR_INVALID);
    CHECK(r, tutti_comm_create_group(r->comm, next, 1, 0, &out) == TUTTI_ERR_INVALID);
    CHECK(r, strstr(tutti_last_error(), "the calling rank, is not listed"));
    CHECK(r, out == (tutti_comm *)(uintptr_t)1);
    CHECK_OK(r, tutti_comm_create_group(r->comm, mine, 1, 0, &out));
    tutti_comm_destroy(out);
    job_step(r, "lists that differ");
    CHECK(r, tutti_comm_create_group(r->comm, r->rank == 2 ? other : good, 3, 5, &out) ==
                 TUTTI_ERR_MISMATCH);
    CHECK(r, strstr(tutti_last_error(), "rank 2"));
    CHECK_OK(r, tutti_comm_create_group(r->comm, good, 3, 5, &out));
    check_sum(r, out);
    tutti_comm_destroy(out);
}

static void invalid_rank_list_creates_nothing(void **state)
{
    (void)state;
    over_wires(3, NULL, wrong_list_role);
    over_wires(2, NULL, tags_role);
}

/* Ranks of one host with different labels: those of its first rank apply to all, so that all are at
 * one location. */
static void layout_role(struct rank *r)
{
    const struct tt_layout *l;
    tutti_comm *part = NULL;

    setenv("TUTTI_TOPO_LABELS", r->rank == 0 ? "rack=r1,zone=a" : "rack=r2", 1);
    job_open(r);
    l = &r->comm->layout;
    CHECK(r, l->nranks == r->nranks && l->nhosts == 1 && l->nrails >= 1);
    for (uint32_t q = 0; q < r->nranks; q++) {
        CHECK(r, tt_layout_local(l, q) == q);
        CHECK(r, tt_layout_distance(l, r->rank, q) <= TT_NEAR_HOST);
    }
    CHECK_OK(r, tutti_comm_split(r->comm, (int)r->rank % 2, -(int)r->rank, &part));
    l = &part->layout;
    CHECK(r, l->nranks == (uint32_t)tutti_comm_size(part) && l->nhosts == 1);
    CHECK(r,
          tt_layout_rank(l, 0, (uint32_t)tutti_comm_rank(part)) == (uint32_t)tutti_comm_rank(part));
    CHECK(r, tt_layout_rail(l, part->rank) == tt_layout_rail(&r->comm->layout, r->rank));
    tutti_comm_destroy(part);
}

static void every_communicator_has_a_layout(void **state)
{
    (void)state;
    over_wires(5, NULL, layout_role);
}

static void wrong_labels_role(struct rank *r)
{
    tutti_comm *comm;

    setenv("TUTTI_TOPO_LABELS", "rack=r1,shelf=3", 1);
    CHECK_SAYS(r, tutti_comm_create(&comm, NULL), TUTTI_ERR_INVALID, "\"shelf=3\"");
    unsetenv("TUTTI_TOPO_LABELS");
    setenv("TUTTI_TOPO", "/no/such/topology", 1);
    CHECK(r, tutti_comm_create(&comm, NULL) != TUTTI_OK &&
                 strstr(tutti_last_error(), "/no/such/topology"));
    unsetenv("TUTTI_TOPO");
    setenv("TUTTI_GPU", "0000:3b:00", 1);
    CHECK_SAYS(r, tutti_comm_create(&comm, NULL), TUTTI_ERR_INVALID, "\"0000:3b:00\"");
    unsetenv("TUTTI_GPU");
    setenv("TUTTI_LANE_BYTES", "rack=12", 1);
    CHECK_SAYS(r, tutti_comm_create(&comm, NULL), TUTTI_ERR_INVALID, "\"rack=12\"");
}

static void topology_errors_are_reported_early(void **state)
{
    const struct job job = { .wires = "tcp", .nranks = 1, .seed = SEED };

    (void)state;
    job_run(&job, wrong_labels_role);
}

/* World, its reversed halves, copies of the halves, and single ranks. Each rank starts their
 * operations in a different order. */
#define FAMILY 5

static void family_role(struct rank *r)
{
    const uint32_t half = r->rank / 2;
    tutti_comm *comm[FAMILY];
    tutti_request *request[FAMILY];
    uint64_t in[FAMILY], sum[FAMILY], expected[FAMILY];
    uint32_t order[FAMILY];

    job_open(r);
    comm[0] = r->comm;
    CHECK_OK(r, tutti_comm_split(comm[0], (int)half, -(int)r->rank, &comm[1]));
    CHECK_OK(r, tutti_comm_dup(comm[1], &comm[2]));
    CHECK_OK(r, tutti_comm_split(comm[2], (int)r->rank, 0, &comm[3]));
    CHECK_OK(r, tutti_comm_dup(comm[0], &comm[4]));
    CHECK(r, tutti_comm_rank(comm[1]) == (int)!(r->rank % 2) &&
                 tutti_comm_rank(comm[2]) == tutti_comm_rank(comm[1]));
    for (uint64_t round = 0; round < 30; round++) {
        for (uint32_t i = 0; i < FAMILY; i++) {
            const uint32_t j = (uint32_t)tt_prng_below(&r->prng, i + 1);

            order[i] = order[j];
            order[j] = i;
        }
        for (uint32_t k = 0; k < FAMILY; k++) {
            const uint32_t i = order[k];
            const tutti_call how = { .size = sizeof how, .request = &request[i] };

            in[i] = 1000 * round + 100 * i + r->rank;
            job_step(r, "round %d: start %u", (int)round, i);
            CHECK_OK(r, tutti_allreduce(&in[i], &sum[i], 1, TUTTI_U64, TUTTI_SUM, comm[i], &how));
        }
        CHECK_OK(r, tutti_wait_all(request, FAMILY));
        for (uint32_t i = 0; i < FAMILY; i++) {
            const uint64_t n = (uint64_t)tutti_comm_size(comm[i]);

            expected[i] = n * (1000 * round + 100 * i);
            expected[i] += n == 4 ? 6 : n == 2 ? 4 * half + 1 : r->rank;
            CHECK(r, sum[i] == expected[i]);
        }
    }
    for (uint32_t i = 1; i < FAMILY; i++)
        tutti_comm_destroy(comm[i]);
}

static void parent_and_parts_run_concurrently(void **state)
{
    (void)state;
    over_wires(4, NULL, family_role);
}

/* Messages of two ranks with one tag on three communicators: rank 1 receives in another order than
 * rank 0 sends. */
static void apart_role(struct rank *r)
{
    tutti_comm *comm[3];
    tutti_request *request[3];
    uint32_t word[3];

    job_open(r);
    comm[0] = r->comm;
    CHECK_OK(r, tutti_comm_dup(comm[0], &comm[1]));
    CHECK_OK(r, tutti_comm_split(comm[1], 0, -(int)r->rank, &comm[2]));
    for (uint32_t k = 0; k < 3; k++) {
        const uint32_t i = r->rank ? 2 - k : k;
        const tutti_call how = { .size = sizeof how, .request = &request[i], .tag = 9 };

        job_step(r, "communicator %u", i);
        word[i] = 50 + i;
        if (r->rank == 0)
            CHECK_OK(r, tutti_send(&word[i], 1, TUTTI_U32, i == 2 ? 0 : 1, comm[i], &how));
        else
            CHECK_OK(r, tutti_recv(&word[i], 1, TUTTI_U32, i == 2 ? 1 : 0, comm[i],
                                   &(tutti_call){ .size = sizeof how, .tag = 9 }));
        CHECK(r, word[i] == 50 + i);
    }
    if (r->rank == 0)
        CHECK_OK(r, tutti_wait_all(request, 3));
    tutti_comm_destroy(comm[1]);
    tutti_comm_destroy(comm[2]);
}

static void dup_has_separate_message_matching(void **state)
{
    (void)state;
    over_wires(2, NULL, apart_role);
}

/* Two threads of each rank create, use and destroy copies of two communicators, independently. */
#define THREAD_ROUNDS 40

struct thread_work {
    struct rank *rank;
    tutti_comm *comm;
    uint32_t which;
};

static void *copy_often(void *arg)
{
    const struct thread_work *work = arg;
    struct rank *r = work->rank;

    for (uint32_t i = 0; i < THREAD_ROUNDS; i++) {
        uint32_t word[2] = { 1000 * work->which + i, r->rank }, all[2 * JOB_RANKS_MAX];
        tutti_comm *copy;

        CHECK_OK(r, tutti_comm_dup(work->comm, &copy));
        CHECK_OK(r, tutti_allgather(word, all, 2, TUTTI_U32, copy, NULL));
        for (uint32_t k = 0; k < r->nranks; k++)
            CHECK(r, all[2 * k] == word[0] && all[2 * k + 1] == k);
        tutti_comm_destroy(copy);
    }
    return NULL;
}

static void threads_role(struct rank *r)
{
    struct thread_work work[2];
    pthread_t thread[2];

    job_open(r);
    job_step(r, "two threads");
    for (uint32_t i = 0; i < 2; i++) {
        work[i] = (struct thread_work){ .rank = r, .which = i };
        CHECK_OK(r, tutti_comm_dup(r->comm, &work[i].comm));
    }
    for (uint32_t i = 0; i < 2; i++)
        CHECK(r, pthread_create(&thread[i], NULL, copy_often, &work[(i + r->rank) % 2]) == 0);
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < 2; i++)
        tutti_comm_destroy(work[i].comm);
}

static void threads_copy_different_communicators_concurrently(void **state)
{
    (void)state;
    over_wires(3, NULL, threads_role);
}

/* ---- isolation of failures ---- */

/* Each half duplicates its communicator. One of the copies is aborted, then a communicator of all
 * ranks. A rank that has received the second abort has also received the first. */
static void sibling_role(struct rank *r)
{
    const bool first = r->rank < 2;
    tutti_comm *half, *copy, *signal;
    uint32_t one = 1, sum;

    job_open(r);
    CHECK_OK(r, tutti_comm_split(r->comm, (int)r->rank / 2, 0, &half));
    CHECK_OK(r, tutti_comm_dup(half, &copy));
    CHECK_OK(r, tutti_comm_dup(r->comm, &signal));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank == 0) {
        CHECK_OK(r, tutti_comm_abort(copy));
        CHECK_OK(r, tutti_comm_abort(signal));
    }
    job_step(r, "wait for the signal");
    CHECK_STATUS(r, tutti_recv(&one, 1, TUTTI_U32, (int)(r->rank + 1) % 4, signal, NULL),
                 TUTTI_ERR_ABORTED);
    CHECK(r, strstr(tutti_last_error(), "rank 0"));
    job_step(r, "after the signal");
    CHECK_STATUS(r, tutti_comm_status(copy), first ? TUTTI_ERR_ABORTED : TUTTI_OK);
    CHECK_STATUS(r, tutti_barrier(copy, NULL), first ? TUTTI_ERR_ABORTED : TUTTI_OK);
    CHECK_OK(r, tutti_comm_status(half));
    CHECK_OK(r, tutti_allreduce(&one, &sum, 1, TUTTI_U32, TUTTI_SUM, half, NULL));
    CHECK(r, sum == 2);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    tutti_comm_destroy(copy);
    tutti_comm_destroy(half);
    tutti_comm_destroy(signal);
}

static void abort_spares_parents_and_siblings(void **state)
{
    (void)state;
    over_wires(4, NULL, sibling_role);
}

/* Rank 0 aborts immediately after creating its copy; the others may still be creating theirs. */
static void at_once_role(struct rank *r)
{
    job_open(r);
    for (uint32_t i = 0; i < 100; i++) {
        tutti_comm *copy;

        job_step(r, "round %u", i);
        CHECK_OK(r, tutti_comm_dup(r->comm, &copy));
        if (r->rank == i % r->nranks)
            CHECK_OK(r, tutti_comm_abort(copy));
        CHECK_STATUS(r, tutti_barrier(copy, NULL), TUTTI_ERR_ABORTED);
        tutti_comm_destroy(copy);
    }
}

static void abort_after_dup_reaches_all(void **state)
{
    (void)state;
    over_wires(3, NULL, at_once_role);
}

/* ---- leaks ---- */

static uint32_t links_of(const struct rank *r)
{
    tutti_memory m = { .size = sizeof m };

    return tutti_comm_memory(r->comm, &m) == TUTTI_OK ? m.connected : UINT32_MAX;
}

struct possessions {
    uint32_t descriptors, threads, links;
    uint64_t resident_bytes;
};

static struct possessions possessions_of(const struct rank *r)
{
    return (struct possessions){ .descriptors = job_descriptors(), .threads = job_threads(),
                                 .links = links_of(r),
                                 .resident_bytes = job_resident_bytes() };
}

static void check_possessions(struct rank *r, const struct possessions *before, uint64_t growth_max)
{
    const struct possessions now = possessions_of(r);

    CHECK(r, now.descriptors == before->descriptors);
    CHECK(r, now.threads == before->threads);
    CHECK(r, now.links == before->links);
    if (!SANITIZED && now.resident_bytes > before->resident_bytes + growth_max)
        job_fail(r, __FILE__, __LINE__, "memory grew from %llu to %llu bytes",
                 (unsigned long long)before->resident_bytes,
                 (unsigned long long)now.resident_bytes);
}

/* more than the concurrent maximum (TT_CONTEXTS_MAX) */
#define COPIES (UNIT_SHARE > 1 ? 1100 : 1500)
#define COPIES_WARM 50

/* Rank 0 sends so much on `copy` that the receiver must reply, and destroys `copy` before rank 1
 * receives and replies. */
static void leave_early(struct rank *r, tutti_comm *copy, uint32_t round)
{
    uint32_t word = round;

    for (uint32_t i = 0; i < 12; i++)
        CHECK_OK(r, tutti_send(&word, 1, TUTTI_U32, 1, copy, NULL));
    tutti_comm_destroy(copy);
    job_raise(r->board, 0);
    CHECK(r, job_await(r->board, 1, round + 1));
    CHECK_OK(r, tutti_send(&word, 1, TUTTI_U32, 1, r->comm, NULL));
}

static void stay_longer(struct rank *r, tutti_comm *copy, uint32_t round)
{
    uint32_t word;
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request };

    CHECK(r, job_await(r->board, 0, round + 1));
    for (uint32_t i = 0; i < 12; i++) {
        CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U32, 0, copy, NULL));
        CHECK(r, word == round);
    }
    CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U32, 0, r->comm, &how));
    CHECK(r, tutti_test(request) == TUTTI_PENDING);     /* progress: sends the reply */
    job_raise(r->board, 1);
    CHECK_OK(r, tutti_wait(request));
    tutti_comm_destroy(copy);
}

static void copies_role(struct rank *r)
{
    enum { COUNT = 20000 };
    float *room = calloc(2 * COUNT, sizeof *room);
    struct possessions before = { 0 };
    tutti_comm *copy;

    CHECK(r, room);
    job_open(r);
    for (uint32_t i = 0; i < COPIES; i++) {
        const size_t count = i % 10 ? 10 : COUNT;

        job_step(r, "copy %u", i);
        CHECK_OK(r, tutti_comm_dup(r->comm, &copy));
        room[count - 1] = (float)(i + r->rank);
        CHECK_OK(r, tutti_allreduce(room, room + COUNT, count, TUTTI_F32, TUTTI_SUM, copy, NULL));
        CHECK(r, room[COUNT + count - 1] == (float)(2 * i + 1));
        (r->rank ? stay_longer : leave_early)(r, copy, i);
        if (i == COPIES_WARM)
            before = possessions_of(r);
    }
    check_possessions(r, &before, 4 * MIB);
    free(room);
}

static void sequence_of_communicators_leaks_nothing(void **state)
{
    (void)state;
    over_wires(2, NULL, copies_role);
}

#define ABORTS (UNIT_SHARE > 1 ? 40 : 100)
#define ABORTED_AT_ONCE 4

/* Split communicators are aborted with large operations in flight. Memory that these have opened to
 * peers stays open, because late writes are possible; so descriptors are not counted. */
static void aborts_role(struct rank *r)
{
    enum { COUNT = 100000 };
    float *room = calloc(2 * ABORTED_AT_ONCE * COUNT, sizeof *room);
    struct possessions before = { 0 };

    CHECK(r, room);
    job_open(r);
    /* afterwards all links are established */
    CHECK_OK(r, tutti_allreduce(room, room + COUNT, COUNT, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
    for (uint32_t i = 0; i < ABORTS; i++) {
        tutti_request *request[ABORTED_AT_ONCE] = { 0 };
        tutti_status st = TUTTI_OK, waited;
        tutti_comm *part;

        job_step(r, "part %u", i);
        CHECK_OK(r, tutti_comm_split(r->comm, r->rank == i % r->nranks ? -1 : 1, 0, &part));
        for (uint32_t k = 0; part && k < ABORTED_AT_ONCE; k++) {
            const tutti_call how = { .size = sizeof how, .request = &request[k] };
            float *in = room + k * COUNT, *out = in + ABORTED_AT_ONCE * COUNT;

            if (tutti_comm_rank(part) == 0 && k == ABORTED_AT_ONCE - 1)
                break;          /* so that the last operation cannot complete */
            st = tutti_allreduce(in, out, COUNT, TUTTI_F32, TUTTI_SUM, part, &how);
            CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_ABORTED);
        }
        if (part && tutti_comm_rank(part) == 0)
            CHECK_OK(r, tutti_comm_abort(part));
        waited = tutti_wait_all(request, ABORTED_AT_ONCE);
        CHECK(r, waited == TUTTI_OK || waited == TUTTI_ERR_ABORTED);
        CHECK(r, !part || tutti_comm_rank(part) == 0 || st == TUTTI_ERR_ABORTED ||
                     waited == TUTTI_ERR_ABORTED);
        tutti_comm_destroy(part);
        if (i == ABORTS / 10)
            before = possessions_of(r);
    }
    CHECK(r, job_threads() == before.threads && links_of(r) == before.links);
    job_step(r, "a large operation of all");
    CHECK_OK(r, tutti_allreduce(room, room + COUNT, COUNT, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
    free(room);
}

static void aborted_parts_leave_their_parent_usable(void **state)
{
    (void)state;
    over_wires(3, NULL, aborts_role);
}

/* ---- connections ---- */

/* Returns the number of links while no rank makes calls. */
static uint32_t links_at_rest(struct rank *r)
{
    uint32_t n;

    job_meet(r);
    n = links_of(r);
    job_meet(r);
    return n;
}

static void links_role(struct rank *r)
{
    const tutti_call ring = { .size = sizeof ring, .algo = "ring" };
    uint64_t word = 7, all[JOB_RANKS_MAX];
    tutti_comm *half, *copy;
    uint32_t before;

    job_open(r);
    CHECK(r, links_at_rest(r) == 0);
    job_step(r, "one message");
    if (r->rank == 0)
        CHECK_OK(r, tutti_send(&word, 1, TUTTI_U64, 1, r->comm, NULL));
    else if (r->rank == 1)
        CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U64, 0, r->comm, NULL));
    CHECK(r, links_at_rest(r) == (r->rank < 2));
    job_step(r, "a ring");
    CHECK_OK(r, tutti_allgather(&word, all, 1, TUTTI_U64, r->comm, &ring));
    CHECK(r, links_at_rest(r) == 2);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));      /* opens as many connections, with the
                                                       all-gather, as a split may need */
    CHECK_OK(r, tutti_allgather(&word, all, sizeof word, TUTTI_U8, r->comm, NULL));
    CHECK_OK(r, tutti_allreduce(&word, all, 1, TUTTI_U64, TUTTI_MAX, r->comm, NULL));
    before = links_at_rest(r);
    job_step(r, "copies and parts");
    CHECK_OK(r, tutti_comm_dup(r->comm, &copy));
    CHECK_OK(r, tutti_comm_split(r->comm, (int)r->rank % 2, 0, &half));
    CHECK_OK(r, tutti_allgather(&word, all, 1, TUTTI_U64, copy, &ring));
    CHECK_OK(r, tutti_barrier(half, NULL));
    CHECK(r, links_at_rest(r) <= before + 1);       /* one more to the other rank of the half, if
                                                       there was none */
    tutti_comm_destroy(copy);
    tutti_comm_destroy(half);
}

static void connections_are_lazy_and_shared(void **state)
{
    (void)state;
    over_wires(5, NULL, links_role);
}

/* ---- rendezvous ---- */

#define PIPE_IDS 2

static void id_role(struct rank *r)
{
    const int(*const pipes)[2] = r->job->arg;
    const uint32_t maker = r->nranks - 1;
    const int n = (int)r->nranks, mine = n - 1 - (int)r->rank;
    const uint32_t descriptors = job_descriptors();
    tutti_comm *comm[PIPE_IDS], *alone;
    tutti_id id;

    clearenv();     /* an id contains everything that a rank needs */
    setenv("TUTTI_WIRES", r->job->wires, 1);
    for (uint32_t i = 0; i < PIPE_IDS && r->rank == maker; i++) {
        CHECK_OK(r, tutti_id_create(&id, NULL));
        for (uint32_t k = 0; k < r->nranks; k++)
            CHECK(r, write(pipes[k][1], &id, sizeof id) == sizeof id);
    }
    for (uint32_t i = 0; i < PIPE_IDS; i++) {
        job_step(r, "id %u", i);
        CHECK(r, read(pipes[r->rank][0], &id, sizeof id) == sizeof id);
        CHECK_OK(r, tutti_comm_create_id(&comm[i], &id, n, mine, NULL));
        CHECK(r, tutti_comm_rank(comm[i]) == mine && tutti_comm_size(comm[i]) == n);
        check_sum(r, comm[i]);
    }
    job_meet(r);
    for (uint32_t i = 0; i < PIPE_IDS; i++)
        tutti_comm_destroy(comm[i]);
    CHECK(r, job_await_no_thread());    /* the thread that served an id ends by itself */
    CHECK(r, job_descriptors() == descriptors);

    job_step(r, "an id for one rank");
    CHECK_OK(r, tutti_id_create(&id, NULL));
    CHECK_OK(r, tutti_comm_create_id(&alone, &id, 1, 0, NULL));
    CHECK(r, tutti_comm_rank(alone) == 0 && tutti_comm_size(alone) == 1);
    CHECK_OK(r, tutti_barrier(alone, NULL));
    tutti_comm_destroy(alone);
    CHECK(r, job_await_no_thread() && job_descriptors() == descriptors);
}

static void distributed_ids_create_communicators(void **state)
{
    int pipes[3][2];

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(pipe(pipes[i]), 0);
    over_wires(3, pipes, id_role);
    for (uint32_t i = 0; i < 3; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
}

/* The conf is complete; the contradicting environment is ignored. */
static void conf_role(struct rank *r)
{
    const char *rendezvous = r->job->arg;
    const tutti_conf conf = {
        .size = sizeof conf,
        .rendezvous = rendezvous,
        .nranks = (int32_t)r->nranks,
        .rank = (int32_t)(r->rank + 1) % 3,
        .token = "of this job",
        .timeout_ms = 60000,
        .wires = r->job->wires,
        .interfaces = "=lo",
        .lanes = 2,
        .restore = 1,
    };
    tutti_comm *comm[2];

    setenv("TUTTI_RANK", "one", 1);
    setenv("TUTTI_SIZE", "-3", 1);
    setenv("TUTTI_RENDEZVOUS", "tcp://", 1);
    setenv("TUTTI_TOKEN", "of another", 1);
    setenv("TUTTI_WIRES", "pigeon", 1);
    setenv("TUTTI_LANES", "100", 1);
    setenv("TUTTI_INTERFACES", "=nosuch0", 1);
    for (uint32_t i = 0; i < 2; i++) {      /* again at the same rendezvous */
        job_step(r, "%s, time %u", rendezvous, i);
        CHECK_OK(r, tutti_comm_create(&comm[i], &conf));
        CHECK(r, tutti_comm_rank(comm[i]) == conf.rank && tutti_comm_size(comm[i]) == conf.nranks);
        check_sum(r, comm[i]);
        job_meet(r);
        CHECK(r, strncmp(rendezvous, "file", 4) != 0 ||
                     access(rendezvous + strlen("file://"), F_OK) != 0);
    }
    check_sum(r, comm[0]);
    tutti_comm_destroy(comm[0]);
    check_sum(r, comm[1]);
    job_meet(r);
    tutti_comm_destroy(comm[1]);
}

static void conf_names_a_port_or_file(void **state)
{
    char place[] = "/tmp/tutti-test-XXXXXX", rendezvous[64];

    (void)state;
    assert_non_null(mkdtemp(place));
    snprintf(rendezvous, sizeof rendezvous, "file://%s/meet", place);
    over_wires(3, rendezvous, conf_role);
    assert_int_equal(rmdir(place), 0);
    snprintf(rendezvous, sizeof rendezvous, "tcp://127.0.0.1:%u", unit_free_port());
    over_wires(3, rendezvous, conf_role);
}

/* ---- invalid confs ---- */

static const char long_text[] = "012345678901234567890123456789012345678901234567890123456789012345"
                                "6789012345678901234567890123456789012345678901234567890123456789";

static const struct {
    const char *what;           /* text in the message */
    tutti_conf conf;
    const char *name, *value;   /* NULL, or an environment variable */
} bad_confs[] = {
    { "conf.size is 0", { .size = 0 }, NULL, NULL },
    { "conf.size is 8", { .size = 8 }, NULL, NULL },
    { "sizeof(tutti_conf)", { .size = offsetof(tutti_conf, restore) }, NULL, NULL },
    { "sizeof(tutti_conf)", { .size = SIZE_MAX }, NULL, NULL },
    { "conf.rendezvous is \"http://here\"", { .rendezvous = "http://here" }, NULL, NULL },
    { "conf.rendezvous is \"tcp://nowhere\"",
      { .rendezvous = "tcp://nowhere", .nranks = 2 },
      NULL,
      NULL },
    { "the port must be 0 to 65535",
      { .rendezvous = "tcp://here:66000", .nranks = 2 },
      NULL,
      NULL },
    { "conf.rendezvous is \"file://meet\"",
      { .rendezvous = "file://meet", .nranks = 2 },
      NULL,
      NULL },
    { "conf.nranks is -1", { .nranks = -1 }, NULL, NULL },
    { "conf.rank is 2 and conf.nranks is 2", { .nranks = 2, .rank = 2 }, NULL, NULL },
    { "conf.rank is -1 and conf.nranks is 2", { .nranks = 2, .rank = -1 }, NULL, NULL },
    { "the token is too long: 130 characters", { .token = long_text }, NULL, NULL },
    { "the list of transports is too long: 130 characters", { .wires = long_text }, NULL, NULL },
    { "unknown transport \"pigeon\" in the list", { .wires = "shm,pigeon" }, NULL, NULL },
    { "nosuch0", { .wires = "tcp", .interfaces = "=nosuch0" }, NULL, NULL },
    { "conf.lanes is -1", { .lanes = -1 }, NULL, NULL },
    { "conf.lanes is 17", { .lanes = 17 }, NULL, NULL },
    { "conf.restore is 2", { .restore = 2 }, NULL, NULL },
    { "conf.restore is -1", { .restore = -1 }, NULL, NULL },
    { "TUTTI_LANES is \"17\"", { .nranks = 0 }, "TUTTI_LANES", "17" },
    { "TUTTI_TIMEOUT_MS is \"soon\"", { .nranks = 0 }, "TUTTI_TIMEOUT_MS", "soon" },
    { "TUTTI_EAGER_BYTES is \"9999999\"", { .nranks = 0 }, "TUTTI_EAGER_BYTES", "9999999" },
    { "TUTTI_RDMA_GID is \"10.77\"", { .nranks = 0 }, "TUTTI_RDMA_GID", "10.77" },
    { "TUTTI_RDMA_PKEY is \"0x8000\"", { .nranks = 0 }, "TUTTI_RDMA_PKEY", "0x8000" },
    { "TUTTI_RANK is \"7\", but TUTTI_SIZE is not set", { .nranks = 0 }, "TUTTI_SIZE", "" },
    { "unknown transport \"pigeon\" in the list", { .nranks = 0 }, "TUTTI_WIRES", "pigeon" },
};

static void bad_conf_role(struct rank *r)
{
    tutti_comm *const untouched = (tutti_comm *)(uintptr_t)1;
    const struct {
        tutti_conf known;
        uint64_t more;
    } newer = { .known.size = sizeof newer, .more = 1 };
    tutti_comm *comm = untouched;
    tutti_id id;

    for (size_t i = 0; i < sizeof bad_confs / sizeof *bad_confs; i++) {
        tutti_conf conf = bad_confs[i].conf;
        const char *name = bad_confs[i].name;
        tutti_status st;

        if (!conf.size && i > 0)
            conf.size = sizeof conf;
        setenv("TUTTI_RANK", name && strcmp(name, "TUTTI_SIZE") == 0 ? "7" : "0", 1);
        setenv("TUTTI_SIZE", "1", 1);
        if (name)
            setenv(name, bad_confs[i].value, 1);
        job_step(r, "bad conf %zu: %s", i, bad_confs[i].what);
        st = tutti_comm_create(&comm, &conf);
        CHECK(r, comm == untouched);
        CHECK(r, st == TUTTI_ERR_INVALID ||
                     (st == TUTTI_ERR_UNSUPPORTED && strcmp(bad_confs[i].what, "nosuch0") == 0));
        CHECK(r, strstr(tutti_last_error(), bad_confs[i].what));
        if (name)
            unsetenv(name);
    }
    setenv("TUTTI_SIZE", "1", 1);
    setenv("TUTTI_WIRES", r->job->wires, 1);
    for (int i = 0; i < TT_PARAM_COUNT; i++) {
        job_step(r, "%s is no number", tt_params[i].name);
        setenv(tt_params[i].name, "4x", 1);
        CHECK_SAYS(r, tutti_comm_create(&comm, NULL), TUTTI_ERR_INVALID, tt_params[i].name);
        unsetenv(tt_params[i].name);
    }
    job_step(r, "NULL");
    CHECK_SAYS(r, tutti_comm_create(NULL, NULL), TUTTI_ERR_INVALID, "out is NULL");
    CHECK_SAYS(r, tutti_comm_create(&comm, &newer.known), TUTTI_ERR_INVALID, "is not zero");
    CHECK_SAYS(r, tutti_id_create(NULL, NULL), TUTTI_ERR_INVALID, "out is NULL");
    CHECK_SAYS(r, tutti_id_create(&id, &(tutti_conf){ .size = 1 }), TUTTI_ERR_INVALID,
               "conf.size is 1");
    memset(&id, 0x5a, sizeof id);
    CHECK_SAYS(r, tutti_comm_create_id(NULL, &id, 1, 0, NULL), TUTTI_ERR_INVALID, "out is NULL");
    CHECK_SAYS(r, tutti_comm_create_id(&comm, NULL, 1, 0, NULL), TUTTI_ERR_INVALID, "id is NULL");
    CHECK_SAYS(r, tutti_comm_create_id(&comm, &id, 2, 2, NULL), TUTTI_ERR_INVALID,
               "rank 2 is out of range: nranks is 2");
    CHECK_SAYS(r, tutti_comm_create_id(&comm, &id, 0, 0, NULL), TUTTI_ERR_INVALID,
               "rank 0 is out of range: nranks is 0");
    CHECK_SAYS(r, tutti_comm_create_id(&comm, &id, 1, 0, NULL), TUTTI_ERR_INVALID,
               "invalid id: pass the bytes");
    CHECK(r, comm == untouched);
    for (int32_t lanes = 0; lanes <= 16; lanes += 4) {
        const tutti_conf conf = { .size = sizeof conf,
                                  .lanes = lanes,
                                  .timeout_ms = lanes % 8 ? INT64_MAX : -1 };

        job_step(r, "%d lanes", lanes);
        CHECK_OK(r, tutti_comm_create(&comm, &conf));
        CHECK_OK(r, tutti_barrier(comm, NULL));
        tutti_comm_destroy(comm);
    }
}

static void invalid_conf_names_field_and_value(void **state)
{
    (void)state;
    over_wires(1, NULL, bad_conf_role);
}

static void mismatched_wires_role(struct rank *r)
{
    tutti_comm *comm;

    setenv("TUTTI_WIRES", r->rank ? "tcp" : "shm", 1);
    CHECK_OK(r, tutti_comm_create(&comm, NULL));
    CHECK_SAYS(r, tutti_barrier(comm, NULL), TUTTI_ERR_PEER_LOST, "rank 0 has shm");
    CHECK(r, strstr(tutti_last_error(), "rank 1 has tcp"));
    job_meet(r);
    tutti_comm_destroy(comm);
}

static void missing_common_transport_is_reported(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED };

    (void)state;
    job_run(&job, mismatched_wires_role);
}

/* Rank 1 never starts, and rank 0 waits for nothing else. */
static void absent_role(struct rank *r)
{
    const tutti_conf conf = { .size = sizeof conf, .nranks = 2, .timeout_ms = 1500 };
    const uint32_t descriptors = job_descriptors();
    tutti_comm *comm = NULL;

    CHECK_STATUS(r, tutti_comm_create(&comm, &conf), TUTTI_ERR_TIMEOUT);
    CHECK(r, !comm && strstr(tutti_last_error(), "1 of 2 ranks") &&
                 strstr(tutti_last_error(), "missing: 1"));
    CHECK(r, job_await_no_thread() && job_descriptors() == descriptors);
}

static void missing_rank_is_named_at_deadline(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 1, .seed = SEED };

    (void)state;
    job_run(&job, absent_role);
}

/* ---- deadlines ---- */

#define DEFAULT_MS 200

/* The conf's timeout applies to every call, also of copies. A communicator without a timeout waits
 * longer. */
static void deadline_role(struct rank *r)
{
    const tutti_conf conf = { .size = sizeof conf, .timeout_ms = 60000 };
    const tutti_call forever = { .size = sizeof forever, .timeout_ms = -1 },
                     shortly = { .size = sizeof shortly, .timeout_ms = DEFAULT_MS };
    const uint64_t begin_ns = tt_now_ns();
    tutti_comm *short_timeout, *copy;

    CHECK_OK(r, tutti_comm_create(&r->comm, &conf));
    job_meet(r);
    setenv("TUTTI_TIMEOUT_MS", "60000", 1);
    CHECK_OK(r, tutti_comm_create(&short_timeout, NULL));
    short_timeout->timeout_ms = DEFAULT_MS;     /* as if created with it, but without limiting
                                                   start-up */
    CHECK_OK(r, tutti_comm_dup(r->comm, &copy));
    copy->timeout_ms = DEFAULT_MS;
    if (r->rank == 1) {
        while (tt_now_ns() - begin_ns < 3 * DEFAULT_MS * TT_MS)
            usleep(10000);      /* longer than rank 0's timeout */
        CHECK_OK(r, tutti_barrier(copy, &forever));
        CHECK(r, job_await(r->board, 0, 1));
    } else {
        CHECK_OK(r, tutti_barrier(copy, &forever));
        CHECK_SAYS(r, tutti_barrier(short_timeout, NULL), TUTTI_ERR_TIMEOUT, "rank 1");
        CHECK_SAYS(r, tutti_barrier(copy, &shortly), TUTTI_ERR_TIMEOUT, "rank 1");
        job_raise(r->board, 0);
    }
    tutti_comm_destroy(short_timeout);
    tutti_comm_destroy(copy);
}

static void explicit_timeout_overrides_the_default(void **state)
{
    (void)state;
    over_wires(2, NULL, deadline_role);
}

/* ---- forks ---- */

/* TSan does not support threads in the child of a process with threads. ASan's allocator stays
 * locked there if another thread was in it. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
static void check_alone(struct rank *r)
{
    const tutti_conf conf = { .size = sizeof conf, .nranks = 1 };
    uint32_t word = 6;
    tutti_comm *comm;

    CHECK_OK(r, tutti_comm_create(&comm, &conf));
    CHECK_OK(r, tutti_allreduce(&word, &word, 1, TUTTI_U32, TUTTI_SUM, comm, NULL));
    CHECK(r, word == 6 && tutti_comm_rank(comm) == 0 && tutti_comm_size(comm) == 1);
    tutti_comm_destroy(comm);
}
#else
static void check_alone(struct rank *r) { (void)r; }
#endif

/* In the child: objects of the parent cannot be used; new ones can. */
static int in_child(struct rank *r, tutti_request *request)
{
    uint32_t word = 1, sum = 0;
    void *mem = &word;
    tutti_comm *comm = NULL;
    tutti_request *list[2] = { NULL, request };
    size_t index;
    const tutti_p2p op = { .peer = 1, .buf = &word, .count = 1, .type = TUTTI_U32 };

    CHECK_STATUS(r, tutti_comm_status(r->comm), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_comm_abort(r->comm), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_comm_dup(r->comm, &comm), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_comm_split(r->comm, 0, 0, &comm), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_barrier(r->comm, NULL), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_allreduce(&word, &sum, 1, TUTTI_U32, TUTTI_SUM, r->comm, NULL),
                 TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_send(&word, 1, TUTTI_U32, 1, r->comm, NULL), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_recv(&word, 1, TUTTI_U32, 1, r->comm, NULL), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_group(&op, 1, r->comm, NULL), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_mem_alloc(r->comm, 1, &mem), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_mem_free(r->comm, mem), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_mem_register(r->comm, mem, 4), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_mem_deregister(r->comm, mem), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_test(request), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_wait(request), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_wait_any(list, 2, &index), TUTTI_ERR_FORKED);
    CHECK_STATUS(r, tutti_wait_all(list, 2), TUTTI_ERR_FORKED);
    tutti_comm_destroy(r->comm);
    check_alone(r);
    return 0;
}

/* Every rank forks with a pending receive, and waits for the child's exit. */
static void fork_role(struct rank *r)
{
    const int peer = (int)!r->rank;
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request };
    uint32_t in = 0, out = 70 + r->rank;
    int status = -1;
    pid_t pid;

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    CHECK_OK(r, tutti_recv(&in, 1, TUTTI_U32, peer, r->comm, &how));
    job_step(r, "fork");
    pid = fork();
    if (pid == 0)
        _exit(in_child(r, request));
    CHECK(r, pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(r, status == 0);
    job_step(r, "after the child");
    CHECK_OK(r, tutti_comm_status(r->comm));
    CHECK_OK(r, tutti_send(&out, 1, TUTTI_U32, peer, r->comm, NULL));
    CHECK_OK(r, tutti_wait(request));
    CHECK(r, in == 70 + (uint32_t)peer);
    check_sum(r, r->comm);
}

static void forked_child_uses_only_new_objects(void **state)
{
    (void)state;
    over_wires(2, NULL, fork_role);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_groups_by_colour_and_key),
        cmocka_unit_test(only_listed_ranks_create_a_group),
        cmocka_unit_test(invalid_rank_list_creates_nothing),
        cmocka_unit_test(every_communicator_has_a_layout),
        cmocka_unit_test(topology_errors_are_reported_early),
        cmocka_unit_test(parent_and_parts_run_concurrently),
        cmocka_unit_test(dup_has_separate_message_matching),
        cmocka_unit_test(threads_copy_different_communicators_concurrently),
        cmocka_unit_test(abort_spares_parents_and_siblings),
        cmocka_unit_test(abort_after_dup_reaches_all),
        cmocka_unit_test(sequence_of_communicators_leaks_nothing),
        cmocka_unit_test(aborted_parts_leave_their_parent_usable),
        cmocka_unit_test(connections_are_lazy_and_shared),
        cmocka_unit_test(distributed_ids_create_communicators),
        cmocka_unit_test(conf_names_a_port_or_file),
        cmocka_unit_test(invalid_conf_names_field_and_value),
        cmocka_unit_test(missing_common_transport_is_reported),
        cmocka_unit_test(missing_rank_is_named_at_deadline),
        cmocka_unit_test(explicit_timeout_overrides_the_default),
        cmocka_unit_test(forked_child_uses_only_new_objects),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
