/* The state of a simulated job; shared by job.c, job_fault.c and job_dump.c. */
#ifndef TESTS_ANALYZE_JOB_STATE_H
#define TESTS_ANALYZE_JOB_STATE_H

#include "analyze/job.h"
#include "base/prng.h"

#define STEPS_MAX 64
#define STAGES_MAX 8
#define JOB_OPEN INT64_MAX              /* a time that is never reached */
#define JOB_NONE UINT32_MAX
#define JOB_TIMEOUT_NS 60000000000

enum job_group {
    GROUP_WORLD,
    GROUP_TENSOR,
    GROUP_GATHER,
    GROUP_SCATTER,
    GROUP_EXPERT,
    GROUP_PIPELINE,
    GROUPS
};
enum job_kind {
    KIND_ALLREDUCE,
    KIND_ALLGATHER,
    KIND_REDUCE_SCATTER,
    KIND_ALLTOALLV,
    KIND_BROADCAST,
    KIND_SEND,
    KIND_RECV,
    KIND_WAIT
};

struct job_step {
    enum job_kind kind;
    enum job_group group;
    uint64_t count;
    uint32_t tag, peer_stage;
    bool is_async;                      /* a later KIND_WAIT waits for it */
};

struct job_program {
    struct job_step steps[STEPS_MAX];
    uint32_t n;
};

struct job_record {
    enum job_kind kind;
    uint32_t comm, number, peer, tag, note;
    uint64_t seq, count;
    const char *type;
    int64_t called, waited, ended;      /* JOB_OPEN: not yet */
    bool at_fault;                      /* the fault is in this call */
};

struct job_instance {
    uint32_t *number;                   /* [n] records of the members, or JOB_NONE */
    uint32_t ncalled;
    uint32_t stalled_at;                /* index of the member at fault */
    int64_t complete_at;                /* time of the last call */
    bool at_fault, differs;
};

struct job_comm {
    uint32_t first, stride, n, cap;
    enum job_group group;
    uint64_t *ncalled;                  /* [n] */
    struct job_instance *instances;     /* [cap] by sequence number */
};

struct job_rank {
    int64_t now, offset, note_at, dumped_at;
    uint32_t pc, note, nrecords, cap, blocked_on;
    struct job_record *records;
    bool blocked, halted, queued;
    bool lost, late, cut;               /* state of the rank's dump */
};

struct job {
    struct job_conf conf;
    struct tt_prng prng;
    uint32_t nranks, ncomms, nqueue;
    struct job_program programs[STAGES_MAX];
    struct job_rank *ranks;
    struct job_comm *comms;
    uint32_t *queue;
    struct {
        uint32_t rank, other, pc, steps;
        bool hit, in_call, by_status, silent;
        int64_t at, failed_at;          /* failed_at: time of the first failure of an operation */
        uint32_t failed_rank;
    } fault;
};

uint32_t job_index(const struct job_comm *c, uint32_t rank);
uint32_t job_member(const struct job_comm *c, uint32_t index);
const struct job_step *job_step_at(const struct job *j, uint32_t rank, uint32_t pc);
uint32_t job_group_of(const struct job *j, uint32_t rank, enum job_group group);
const struct job_record *job_record_of(const struct job *j, const struct job_comm *c,
                                       const struct job_instance *o, uint32_t index);

/* job_fault.c. Before the run: draws the location of the fault. */
void job_choose_fault(struct job *j);
/* Returns the step that a rank executes instead of s; NULL: none. */
const struct job_step *job_change_step(struct job *j, uint32_t rank, const struct job_step *s);
void job_change_call(struct job *j, uint32_t rank, struct job_record *rec);
/* The number of steps in the transfer of an instance, and how many of them a member completes in
 * spite of the fault. */
uint32_t job_steps(const struct job *j, const struct job_comm *c, const struct job_instance *o);
uint32_t job_steps_done(const struct job *j, const struct job_comm *c, const struct job_instance *o,
                        uint32_t index);
/* After the run: draws the time of the failure, and the dumps that are lost, late or cut. */
void job_choose_dumps(struct job *j);

#endif
