/* A simulated training job, with one fault, that leaves trace dumps. Tensor, data, expert and
 * pipeline groups run iterations of real calls in virtual time. The model is a data flow: a
 * collective ends after all its members have called; each kind of transfer (ring, direct, tree) has
 * its own closed form of who waits for whom. It shares no code with src/analyze.
 *
 * All is a pure function of the seed. */
#ifndef TESTS_ANALYZE_JOB_H
#define TESTS_ANALYZE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum job_fault {
    JOB_NEVER_CALLED,           /* a rank computes forever and never makes its next call */
    JOB_OUTSIDE,                /* the same, with an annotation */
    JOB_SKIPPED,                /* a rank omits one collective and continues */
    JOB_DIED,
    JOB_STOPPED,
    JOB_ORDER,                  /* a rank swaps two calls on two communicators */
    JOB_MISMATCH,
    JOB_LINK,                   /* no data passes one direction of one link */
    JOB_NIC,                    /* one rank can neither send nor receive, in one operation */
    JOB_SLOW_LINK,
    JOB_SLOW_RANK,
    JOB_DEADLINE,
    JOB_FAULTS
};

struct job_conf {
    uint32_t tensor, data, expert, stages;      /* expert is a divisor of data */
    uint32_t iterations, microbatches;
    enum job_fault fault;
    uint32_t lost_percent, late_percent, cut_percent;   /* of the dumps */
    bool by_command;            /* dumps show open operations, not failed ones */
    uint64_t seed;
};

struct job;

/* Draws a configuration of at most ranks_max ranks. */
struct job_conf job_draw(uint64_t seed, uint32_t ranks_max);
/* Runs the job until no rank makes progress. NULL: out of memory. The caller calls job_destroy. */
struct job *job_create(const struct job_conf *conf);
void job_destroy(struct job *j);

uint32_t job_nranks(const struct job *j);
/* The rank at fault. */
uint32_t job_culprit(const struct job *j);
/* The other end of a failed or slow link; UINT32_MAX: none. */
uint32_t job_other_end(const struct job *j);
/* Neighbours of the rank at fault in the ring of its communicator. */
uint32_t job_left(const struct job *j);
uint32_t job_right(const struct job *j);
/* Members of the communicator of the fault that leave a complete dump. */
uint32_t job_group_dumps(const struct job *j);
/* Returns whether the fault hit an operation: in a small job, no operation may fit the fault. */
bool job_has_fault(const struct job *j);
bool job_has_whole_dump(const struct job *j, uint32_t rank);
/* Returns the dump of a rank as text, or NULL if it is lost. The caller frees it. */
char *job_dump(const struct job *j, uint32_t rank, size_t *bytes);
const char *job_fault_name(enum job_fault fault);

#endif
