/* A whole elastic run in one process under one seed: a coordinator with its journal, members with a program, connections, time, and
 * faults. The machines are the real ones; everything around them is played here. After each event the invariants are checked; the first
 * one that is broken ends the history with a sentence.
 *
 * Each member's program: `epoch`, with or without newcomers and a largest size; `sync`, after which all have one state; then steps, and now and then
 * a sync again. A step begins one or two operations (their contributions travel from each to each, and then, in half of the histories, that all parts are done,
 * as sessions bring it together; in the others the machines say so by messages of their own), waits for
 * all of them, adds what became final to a state that must be the same on all members, and asks the news that came with the operations
 * whether to call `epoch`; some steps end with `agree`, `commit` or `optimize`, some begin with links that were measured in the background. Some
 * operations are tentative: the step does not wait for their verdict, but goes on once they are complete. With replica groups some are among the members of each
 * role or of each group, and now and then those of one leave out what the others do. What a program does depends on what all
 * members are told alike, so any
 * difference between members shows as a call that differs. Some stray, once: they call where the others begin an operation, or begin one where these call. */
#ifndef TESTS_ELASTIC_RUN_H
#define TESTS_ELASTIC_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was played, summed up over histories. */
struct run_sum {
    uint64_t histories, events, faults, finals, restored, views, rounds, covered, rounds_covered, syncs_covered,
        ops_covered;
    uint64_t settled, given;        /* small operations that were settled; of these, with a result that came with a verdict */
    uint64_t voted;                 /* operations that are final as sessions make them, and not by the machines' messages */
    uint64_t tentative_finals, tentative_restored;
    uint64_t scoped_finals, scoped_restored;    /* of these, among a role or a group */
    uint64_t few_faults;            /* histories that went well with fewer than two faults, though there were processes for more */
    uint64_t used_up;               /* the same, and there were none: these are no proof, and few */
    uint64_t left_out;              /* operations that members of a role or a group did not make, and others did */
    uint64_t parted, kept_for;      /* members that left in order; operations that others had begun, and kept by their word alone */
    uint64_t gone, shrunk, bounded; /* words that a process has ended; members that entered views after calls that admit nobody, or of as many as were wanted at most */
    uint64_t received;              /* members that received the shared state */
    uint64_t backs, revokers;       /* calls that were taken back as others synced; words of who revoked */
    uint64_t backs_again;           /* calls that were taken back, and came again as the word of it was lost */
    uint64_t strayed, aparts;       /* programs that did what others did not; words that some call where others are in an operation */
    uint64_t orders;                /* members that entered a view whose ranks follow a ring that was found */
    uint64_t outcomes;              /* bit of enum tt_round_status: a sync came to it */
    uint64_t killed_between;        /* members killed between two of their actions */
    uint64_t parted_ways;           /* times that nothing got from one member to another for a while */
    uint64_t disk_errors;           /* records that the coordinator's disk refused */
    uint64_t conn_bytes_most, peer_bytes_most;  /* most that waited at once: in one direction of a connection, from members for one */
    uint32_t *event_counts;         /* [histories_max], of each history; NULL: not wanted */
    uint64_t histories_max;
    uint64_t *trace;                /* [trace_max], of the last history: a hash of all that has happened up to each event; NULL: not wanted */
    uint64_t trace_max;
};

/* Which faults a history draws from. A seed that is kept was found with those that there were then, and is another history with others. */
enum run_faults { RUN_FAULTS_FIRST, RUN_FAULTS_ALL };

/* Plays the history of `seed`. True if all held; else why[bytes] says what did not, and when. */
bool run_play(uint64_t seed, enum run_faults faults, struct run_sum *sum, char *why, size_t bytes);

#endif
