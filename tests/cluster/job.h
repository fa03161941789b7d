/* Jobs of real ranks, for tests of the public calls. Each rank is a fork of the test that runs the
 * same role; the ranks read the rendezvous from the environment, like a user's ranks. They share a
 * board for communication outside Tutti: progress and results. A rank that finds an error reports
 * it and exits, and the test fails. If a rank hangs, the test prints its last step and stacks, and
 * kills it. */
#ifndef TESTS_CLUSTER_JOB_H
#define TESTS_CLUSTER_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/clock.h"
#include "base/prng.h"
#include "tutti/tutti.h"

#define JOB_RANKS_MAX 8
#define JOB_FLAGS 16
#define JOB_WORDS 64
#define JOB_STEP_BYTES 256

struct job_board;

/* Parameters of a test job. */
struct job {
    const char *wires;          /* TUTTI_WIRES of the ranks */
    uint32_t nranks;
    uint64_t seed;
    const void *arg;            /* argument for the roles */
    /* NULL, or a function that runs in the test process beside the ranks */
    void (*direct)(const struct job *job, struct job_board *board);
};

/* Shared by the ranks of one run and the test. */
struct job_board {
    pid_t pid[JOB_RANKS_MAX];
    _Atomic uint32_t dies[JOB_RANKS_MAX];       /* this rank is expected to be killed (by
                                                   SIGKILL, or the signal of that number) */
    _Atomic uint32_t flag[JOB_FLAGS];           /* counters to wait for; the last one belongs to
                                                   job_meet */
    _Atomic uint64_t word[JOB_RANKS_MAX][JOB_WORDS];    /* data exchanged by ranks */
    char step[JOB_RANKS_MAX][JOB_STEP_BYTES];
};

/* One rank. */
struct rank {
    uint32_t rank, nranks;
    const struct job *job;
    struct job_board *board;
    struct tt_prng prng;        /* seeded by the seed and the rank */
    struct tt_prng common;      /* seeded by the seed only: equal on all ranks */
    tutti_comm *comm;           /* of all ranks, created by job_open */
    uint32_t meetings;
};

/* Runs role in job->nranks processes. Fails the test unless all exit with success (or die as
 * expected) and leave no resources behind. If TUTTI_TEST_IN_PLACE_OF_TCP names a transport, jobs
 * with only tcp use that one, and other jobs do not run. */
void job_run(const struct job *job, void (*role)(struct rank *));
/* Returns whether tests with random cases must try only a few: under sanitizers, and if
 * TUTTI_TEST_FEW is set, e.g. for slow transports. */
bool job_tries_few(void);
/* TUTTI_TEST_SEED, or `seed`. */
uint64_t job_seed(uint64_t seed);

/* ---- in a rank ---- */

void job_open(struct rank *r);          /* creates r->comm from the environment */
void job_open_restoring(struct rank *r);        /* the same, with conf.restore */
void job_close(struct rank *r);         /* otherwise all ranks close it together after the role */
/* Records the next step of this rank, which is printed if it hangs or fails. */
void job_step(struct rank *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Waits, without Tutti, until every rank of the job has called it. */
void job_meet(struct rank *r);
/* Return the number of open descriptors and threads of this process, and its resident memory. */
uint32_t job_descriptors(void);
uint32_t job_threads(void);
uint64_t job_resident_bytes(void);
/* Waits until no thread of this process remains except the initial ones; a joined thread may be
 * visible for a moment. Returns false if one remains. */
bool job_await_no_thread(void);
/* Waits until this process has at most so many descriptors: those shared by a peer are received and
 * closed soon. Returns false if more remain. */
bool job_await_descriptors(uint32_t most);

/* Returns mem, which must not be NULL. */
void *job_have(struct rank *r, void *mem);
/* Checks that every byte has that value. */
void job_check_all(struct rank *r, const uint8_t *mem, size_t bytes, uint8_t value);
/* Returns whether the message names that rank. */
bool job_names(const char *sentence, uint32_t rank);

/* ---- in a rank or in `direct` ---- */

void job_raise(struct job_board *board, uint32_t flag);
/* Waits until the flag has been raised `times` times in total. Returns false at the limit. */
bool job_await(struct job_board *board, uint32_t flag, uint32_t times);
/* Waits until that rank has stopped or exited. Only for `direct`. */
bool job_await_stop(const struct job_board *board, uint32_t rank);
/* A job's `direct`: when rank 1 has stopped itself, raises flag 0; continues it when flag 1 is
 * raised. */
void job_go_on_after(const struct job *job, struct job_board *board);
bool job_await_end(const struct job_board *board, uint32_t rank);

/* Exits the rank, and fails the test. */
_Noreturn void job_fail(const struct rank *r, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define CHECK(r, cond) \
    do { \
        if (!(cond)) \
            job_fail(r, __FILE__, __LINE__, "%s does not hold", #cond); \
    } while (0)

/* The call must return exactly this status, and set an error message on errors. */
#define CHECK_STATUS(r, call, expected) \
    do { \
        const tutti_status got_ = (call); \
        if (got_ != (expected) || (got_ > TUTTI_PENDING && !tutti_last_error()[0])) \
            job_fail(r, __FILE__, __LINE__, "%s is %s, not %s", #call, tutti_status_name(got_), \
                     tutti_status_name(expected)); \
    } while (0)
#define CHECK_OK(r, call) CHECK_STATUS(r, call, TUTTI_OK)

/* The call must fail with this status, and its message must contain that text. */
#define CHECK_SAYS(r, call, expected, text) \
    job_check_says(r, __FILE__, __LINE__, call, expected, text)
void job_check_says(const struct rank *r, const char *file, int line, tutti_status got,
                    tutti_status expected, const char *text);

#endif
