/* A complete elastic run in one process under one seed: a coordinator with its journal, members
 * with a program, connections, time, and faults. The state machines are the library's; their
 * environment is simulated. The invariants are checked after each event; the history stops at the
 * first violation, with a message.
 *
 * Each member's program: `epoch`, with or without newcomers and a maximum size; `sync`, after which
 * all have the same state; then steps, and sometimes another sync. A step starts one or two
 * operations. Each member sends its contribution to all others. In half of the histories, members
 * then exchange completions as votes, like the library's all-reduces; in the other half by messages
 * of the state machines. The step waits for all of its operations, adds final results to a state
 * that must be equal on all members, and decides from the news delivered with the operations
 * whether to call `epoch`. Some steps end with `agree`, `commit` or `optimize`, some start with
 * links measured in the background. Some operations are tentative: the step does not wait for their
 * outcome, but continues after completion. With replica groups, the scope of some operations is a
 * role or a group, and sometimes the members of one role or group omit operations that others
 * start. Programs depend only on information that is equal on all members, so any difference
 * between members becomes visible as a different call. Some programs stray once: they call while
 * the others start an operation, or vice versa. */
#ifndef TESTS_ELASTIC_RUN_H
#define TESTS_ELASTIC_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Totals over histories. */
struct run_sum {
    uint64_t histories, events, faults, finals, restored, views, rounds, covered, rounds_covered,
        syncs_covered, ops_covered;
    uint64_t settled, given;        /* small operations that were settled; of these, with a
                                       result delivered by an outcome */
    uint64_t voted;                 /* operations that became final by votes, and not by messages of
                                       the state machines */
    uint64_t tentative_finals, tentative_restored;
    uint64_t scoped_finals, scoped_restored;    /* of the finals and restored, in the scope of a
                                                   role or a group */
    uint64_t few_faults;            /* successful histories with fewer than two faults, although
                                       there were processes for more */
    uint64_t used_up;               /* the same without spare processes: these prove nothing, and
                                       must be few */
    uint64_t left_out;              /* operations omitted by members of a role or a group, but
                                       started by others */
    uint64_t parted, kept_for;      /* members that left in order; operations started by others
                                       and kept only because of their report */
    uint64_t gone, shrunk, bounded; /* reports that a process has ended; members that entered
                                       views after calls without newcomers, or with a maximum
                                       size */
    uint64_t received;              /* members that received the shared state */
    uint64_t backs, revokers;       /* calls taken back because others synced; reports of
                                       revoking members */
    uint64_t backs_again;           /* calls taken back and repeated because the notification was
                                       lost */
    uint64_t strayed, aparts;       /* programs that strayed; reports that some members call while
                                       others are in an operation */
    uint64_t orders;                /* members that entered a view whose ranks follow a found
                                       ring */
    uint64_t outcomes;              /* bit i: some sync ended with tt_round_status i */
    uint64_t killed_between;        /* members killed between two of their actions */
    uint64_t parted_ways;           /* number of partitions between two members */
    uint64_t disk_errors;           /* records refused by the coordinator's disk */
    uint64_t conn_bytes_most, peer_bytes_most;  /* maximum of bytes waiting at one time: in one
                                                   direction of a connection; from all members to
                                                   one member */
    uint32_t *event_counts;         /* [histories_max], per history; NULL: not recorded */
    uint64_t histories_max;
    uint64_t *trace;                /* [trace_max], of the last history: a hash of all events up
                                       to each event; NULL: not recorded */
    uint64_t trace_max;
};

/* The set of faults of a history. A recorded seed refers to the faults that existed when it was
 * recorded; with other faults it gives another history. */
enum run_faults { RUN_FAULTS_FIRST, RUN_FAULTS_ALL };

/* Runs the history of `seed`. Returns true on success; otherwise writes the violation and its time
 * to why[bytes]. */
bool run_play(uint64_t seed, enum run_faults faults, struct run_sum *sum, char *why, size_t bytes);

#endif
