/* Jobs of real ranks, for tests of the public calls. Each rank is a fork of the test that runs the same role; the ranks know each
 * other as a user's ranks do, from the environment. They share a board for what a test must know beside Tutti: who has come how
 * far, and what a rank found. A rank that finds something wrong says so and exits, and the test fails; a rank that does not end
 * is shown with its last step and its stacks, and killed. */
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

/* What is under test. */
struct job {
    const char *wires;          /* TUTTI_WIRES of the ranks */
    uint32_t nranks;
    uint64_t seed;
    const void *arg;            /* the test's own, for its roles */
    void (*direct)(const struct job *job, struct job_board *board); /* NULL, or runs in the test itself beside the ranks */
};

/* Shared by the ranks of one run and the test. */
struct job_board {
    pid_t pid[JOB_RANKS_MAX];
    _Atomic uint32_t dies[JOB_RANKS_MAX];       /* this rank will be killed (by SIGKILL, or the signal of that number), and that is right */
    _Atomic uint32_t flag[JOB_FLAGS];           /* counters to wait on; the last belongs to job_meet */
    _Atomic uint64_t word[JOB_RANKS_MAX][JOB_WORDS];    /* what ranks show each other */
    char step[JOB_RANKS_MAX][JOB_STEP_BYTES];
};

/* One rank. */
struct rank {
    uint32_t rank, nranks;
    const struct job *job;
    struct job_board *board;
    struct tt_prng prng;        /* of the seed and the rank */
    struct tt_prng common;      /* of the seed only: all ranks draw alike */
    tutti_comm *comm;           /* of all ranks, once job_open made it */
    uint32_t meetings;
};

/* Runs role in job->nranks processes, and fails the test unless all end well (or die as announced), leaving nothing behind. Where
 * TUTTI_TEST_IN_PLACE_OF_TCP names a wire, jobs on tcp alone run on that one, and others not at all. */
void job_run(const struct job *job, void (*role)(struct rank *));
/* Whether tests that draw their cases shall try few: under sanitizers, and where TUTTI_TEST_FEW is set, as over wires that are slow here. */
bool job_tries_few(void);
/* TUTTI_TEST_SEED, or `seed`. */
uint64_t job_seed(uint64_t seed);

/* ---- in a rank ---- */

void job_open(struct rank *r);          /* r->comm, from the environment */
void job_close(struct rank *r);         /* else all ranks close theirs together, after the role */
/* What this rank is about to do: shown if it hangs or fails. */
void job_step(struct rank *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Waits, without Tutti, until every rank of the job has come here. */
void job_meet(struct rank *r);
/* Open descriptors and threads of this process, and its resident memory. */
uint32_t job_descriptors(void);
uint32_t job_threads(void);
uint64_t job_resident_bytes(void);
/* Until no thread is left that was started here; one that was joined can be seen for a moment still. False: one stays. */
bool job_await_no_thread(void);
/* Until this process has so many descriptors at most: what a peer shares comes as one that is soon closed. False: more stay. */
bool job_await_descriptors(uint32_t most);

/* mem, which is there. */
void *job_have(struct rank *r, void *mem);
/* Every byte has that value. */
void job_check_all(struct rank *r, const uint8_t *mem, size_t bytes, uint8_t value);
/* Whether the sentence names that rank. */
bool job_names(const char *sentence, uint32_t rank);

/* ---- in a rank or in direct ---- */

void job_raise(struct job_board *board, uint32_t flag);
/* Until the flag has been raised `times` times in all. False: nobody waits that long. */
bool job_await(struct job_board *board, uint32_t flag, uint32_t times);
/* Until that rank has stopped, or has ended. For direct only. */
bool job_await_stop(const struct job_board *board, uint32_t rank);
/* As a job's direct: once rank 1 has stopped itself, raises flag 0; lets it go on when flag 1 is raised. */
void job_go_on_after(const struct job *job, struct job_board *board);
bool job_await_end(const struct job_board *board, uint32_t rank);

/* Ends the rank, and with it the test. */
_Noreturn void job_fail(const struct rank *r, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define CHECK(r, cond) \
    do { \
        if (!(cond)) \
            job_fail(r, __FILE__, __LINE__, "%s does not hold", #cond); \
    } while (0)

/* The call returns exactly this status, and an error leaves a sentence. */
#define CHECK_STATUS(r, call, expected) \
    do { \
        const tutti_status got_ = (call); \
        if (got_ != (expected) || (got_ > TUTTI_PENDING && !tutti_last_error()[0])) \
            job_fail(r, __FILE__, __LINE__, "%s is %s, not %s", #call, tutti_status_name(got_), \
                     tutti_status_name(expected)); \
    } while (0)
#define CHECK_OK(r, call) CHECK_STATUS(r, call, TUTTI_OK)

/* The call fails like this, and its sentence has that text. */
#define CHECK_SAYS(r, call, expected, text) job_check_says(r, __FILE__, __LINE__, call, expected, text)
void job_check_says(const struct rank *r, const char *file, int line, tutti_status got, tutti_status expected,
                    const char *text);

#endif
