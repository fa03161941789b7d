/* The ranks' use of buffers, requests and memory is bounded, and they are released. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "calls.h"
#include "job.h"
#include "support/unit.h"

#define SEED 20260403
#define MIB ((size_t)1 << 20)

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

#define AHEAD 150

/* Rank 0 first makes all calls of one communicator, rank 1 all of the other; both are many
 * operations ahead. */
static void opposite_role(struct rank *r)
{
    const size_t count = 20000;
    tutti_request *request[2][AHEAD];
    float *room = job_have(r, calloc(2 * AHEAD * count, sizeof *room));
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
            CHECK_OK(r, tutti_allreduce(at, at, i % 3 ? count : 100, TUTTI_F32, TUTTI_SUM,
                                        comm[which], &how));
        }
        if (r->job->seed % 2) { /* the ranks meet before they start the other communicator: only
                                   probes of the peer help then */
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

static void opposite_order_does_not_deadlock(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES * 4; i++) {
        const struct job job = { .wires = wires[i % NWIRES],
                                 .nranks = 2 + i / NWIRES / 2,
                                 .seed = i / NWIRES };

        job_run(&job, opposite_role);
    }
}

/* with 16 flows each: twice the number of handles */
#define MANY_COMMS (UNIT_SHARE > 1 ? 40 : 260)
#define MANY_AHEAD 16
#define MANY_COUNT 5000

/* The same with many communicators, which the two ranks start in opposite orders. */
static void opposite_many_role(struct rank *r)
{
    static tutti_comm *comm[260];
    static tutti_request *request[260][MANY_AHEAD];
    float *room = job_have(r, calloc((size_t)MANY_COMMS * MANY_AHEAD * MANY_COUNT, sizeof *room));

    job_open(r);
    for (uint32_t i = 0; i < MANY_COMMS; i++)
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm[i]));
    for (uint32_t k = 0; k < MANY_COMMS; k++) {
        const uint32_t which = r->rank ? MANY_COMMS - 1 - k : k;

        for (uint32_t i = 0; i < MANY_AHEAD; i++) {
            const tutti_call how = { .size = sizeof how, .request = &request[which][i] };
            float *at = room + ((size_t)which * MANY_AHEAD + i) * MANY_COUNT;

            at[i] = (float)(r->rank + 1 + which);
            CHECK_OK(r,
                     tutti_allreduce(at, at, MANY_COUNT, TUTTI_F32, TUTTI_SUM, comm[which], &how));
        }
        if (k == MANY_COMMS / 2 - 1)
            job_meet(r);        /* no communicator has calls of both ranks yet */
    }
    for (uint32_t k = 0; k < MANY_COMMS; k++) {
        const uint32_t which = r->rank ? MANY_COMMS - 1 - k : k;

        job_step(r, "wait for communicator %u", which);
        CHECK_OK(r, tutti_wait_all(request[which], MANY_AHEAD));
        for (uint32_t i = 0; i < MANY_AHEAD; i++)
            CHECK(r, room[((size_t)which * MANY_AHEAD + i) * MANY_COUNT + i] ==
                         (float)(3 + 2 * which));
        tutti_comm_destroy(comm[which]);
    }
    free(room);
}

static void opposite_order_of_many_works(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED };

    (void)state;
    job_run(&job, opposite_many_role);
}

#define AHEAD_SENDS (UNIT_SHARE > 1 ? 1000 : 5000)
#if defined(__SANITIZE_THREAD__)        /* the sanitizer's shadow memory takes several bytes for
                                           each byte */
#define AHEAD_BYTES_MAX (1024 * MIB)
#else
#define AHEAD_BYTES_MAX (128 * MIB)      /* includes requests */
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

/* Rank 0 sends as much as permitted while rank 1 is stopped. */
static void ahead_role(struct rank *r)
{
    const size_t bytes = r->job->seed % 2 ? 2000 : 100000;
    tutti_request **request = job_have(r, calloc(AHEAD_SENDS, sizeof *request));
    uint8_t *buf = job_have(r, calloc(1, bytes));
    uint64_t before;

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    before = job_resident_bytes();
    if (r->rank == 1) {
        kill(getpid(), SIGSTOP);
        for (uint32_t i = 0; i < AHEAD_SENDS; i++) {
            job_step(r, "receive %u", i);
            CHECK_OK(r, tutti_recv(buf, bytes, TUTTI_U8, 0, r->comm, NULL));
            job_check_all(r, buf, bytes, 7);
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
        job_fail(r, __FILE__, __LINE__, "memory grew from %llu to %llu MiB",
                 (unsigned long long)(before / MIB),
                 (unsigned long long)(job_resident_bytes() / MIB));
    free(buf);
    free(request);
}

static void stopped_receiver_bounds_sender_memory(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES * 2; i++) {
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = 2, .seed = i / NWIRES, .direct = resume_receiver
        };

        job_run(&job, ahead_role);
    }
}

/* ---- temporary memory ---- */

#define PAIRS (UNIT_SHARE > 1 ? 3000 : 10000)
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

/* Rank 1 continues when rank 0, which has requested a message, has stopped in turn; rank 0
 * continues when rank 1 has read it. */
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

/* Rank 1 writes to memory of rank 0. in_turn: rank 1 receives the request before the memory. */
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
        job_check_all(r, mem, USE_BYTES, value);
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
    CHECK(r, job_await_descriptors(descriptors));       /* the peer may not have processed the last
                                                           ones yet */
    if (UNIT_SHARE == 1 && mappings(r) > maps + 500)    /* TSan maps some with each */
        job_fail(r, __FILE__, __LINE__, "%u mappings became %u", maps, mappings(r));
    job_meet(r);
}

static void repeated_allocation_leaks_nothing(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWIRES; w++) {
        const struct job job = {
            .wires = wires[w], .nranks = 2, .seed = SEED, .direct = stop_in_turn
        };

        job_run(&job, pairs_role);
    }
}

#define TOLD_SEGMENTS 1000      /* more than fit into a socket buffer */

/* Rank 1 announces so many segments to the stopped rank 0 that there is no space to announce those
 * of its receive. */
static void untold_role(struct rank *r)
{
    uint8_t *buf = job_have(r, calloc(1, MIB));
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
        job_check_all(r, buf, MIB, 7);
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
        usleep(200000);         /* meanwhile rank 0 has the RTS, but not the memory */
        kill(board->pid[1], SIGCONT);
    }
}

static void rts_waits_for_unknown_memory(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED, .direct = resume_sender };

    (void)state;
    job_run(&job, untold_role);
}

/* ---- memory of communicators ---- */

#define SMALL_COMMS 100
/* with four ranks and two or three peers; the second is added if an operation is cached */
#define SMALL_COMM_BYTES 4000
#define SMALL_KEPT_BYTES 4500

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_IS_KNOWN false     /* their allocators do not report it */
#else
#define HEAP_IS_KNOWN true
#endif

static size_t heap_bytes(void)
{
    const struct mallinfo2 heap = mallinfo2();

    return heap.uordblks + heap.hblkhd;
}

/* Creates communicators, and makes one or three equal short calls on each. The first communicator
 * also allocates what all share. */
static void small_comms_role(struct rank *r)
{
    static tutti_comm *comm[1 + SMALL_COMMS];
    const uint32_t ncalls = r->job->seed % 2 ? 3 : 1;
    size_t before = 0, bytes;

    job_open(r);
    for (uint32_t i = 0; i <= SMALL_COMMS; i++) {
        if (i == 1)
            before = heap_bytes();
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm[i]));
        for (uint32_t call = 0; call < ncalls; call++) {
            tutti_request *request = NULL;
            const tutti_call how = { .size = sizeof how, .request = &request };
            float x = 1;

            CHECK_OK(
                r, tutti_allreduce(&x, &x, 1, TUTTI_F32, TUTTI_SUM, comm[i], i % 2 ? &how : NULL));
            if (i % 2)
                CHECK_OK(r, tutti_wait(request));
            CHECK(r, x == (float)r->nranks);
        }
    }
    bytes = (heap_bytes() - before) / SMALL_COMMS;
    job_step(r, "%zu bytes per communicator", bytes);
    CHECK(r, !HEAP_IS_KNOWN ||
                 (bytes > 0 && bytes <= SMALL_COMM_BYTES + (ncalls > 1 ? SMALL_KEPT_BYTES : 0)));
    job_meet(r);
    for (uint32_t i = 0; i <= SMALL_COMMS; i++)
        tutti_comm_destroy(comm[i]);
}

static void many_communicators_take_little_memory(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * NWIRES; i++)
        job_run(&(struct job){ .wires = wires[i / 2], .nranks = 4, .seed = i }, small_comms_role);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opposite_order_does_not_deadlock),
        cmocka_unit_test(opposite_order_of_many_works),
        cmocka_unit_test(stopped_receiver_bounds_sender_memory),
        cmocka_unit_test(repeated_allocation_leaks_nothing),
        cmocka_unit_test(rts_waits_for_unknown_memory),
        cmocka_unit_test(many_communicators_take_little_memory),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
