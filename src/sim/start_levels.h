/* Statistics of a simulated start-up by level of the tree, and findings: steps whose cost is
 * unusual. */
#ifndef TT_SIM_START_LEVELS_H
#define TT_SIM_START_LEVELS_H

#include "sim/start.h"

#define TT_START_LEVELS_MAX 16u     /* deeper leaders are in the last level of leaders */
#define TT_START_FINDINGS_MAX 16u

enum tt_start_level_kind {
    TT_START_LEVEL_ROOT,
    TT_START_LEVEL_LEADERS,         /* connected to the root over depth - 1 other leaders */
    TT_START_LEVEL_RANKS            /* the other ranks of the hosts */
};

/* The phases that a process reaches, in this order. */
enum tt_start_phase {
    TT_START_PHASE_START,
    TT_START_PHASE_JOINED,          /* accepted by its parent */
    TT_START_PHASE_REPORTED,        /* its last report is sent */
    TT_START_PHASE_PLACED,          /* it has its result */
    TT_START_PHASE_DONE,            /* all processes below have their results */
    TT_START_PHASES
};

/* Returns "start", "joined", ...; "?" for an invalid value. */
const char *tt_start_phase_name(enum tt_start_phase phase);

/* Statistics of the processes of a level. */
struct tt_start_level {
    enum tt_start_level_kind kind;
    uint32_t depth;                 /* of leaders, from 1; 0: not a leader */
    uint32_t nprocesses;
    uint32_t nreached[TT_START_PHASES];         /* processes that reached the phase */
    uint64_t first_ns[TT_START_PHASES], last_ns[TT_START_PHASES];
    uint64_t messages, bytes;       /* handled; sent and received */
    uint64_t bytes_most, received_most;         /* of one process */
    uint32_t queued_most, opening_most;         /* messages, and connections in a backlog */
    uint64_t attempts, dropped;     /* connection requests sent; dropped by the level's backlogs */
    uint64_t busy_most_ns;          /* of one process */
    double wakeups_most;            /* timers without an action, per second, of one process */
    struct tt_start_work work[TT_START_STEPS];          /* sums */
    uint64_t work_most_ns[TT_START_STEPS];              /* of one process */
};

struct tt_start_report {
    uint32_t nranks, nplaced, nlevels;
    uint64_t time_ns;               /* until all have the result; 0: some have none */
    uint64_t messages, dropped, lost;
    uint64_t received_most;         /* of one rank */
    uint64_t busiest_bytes;         /* of one process */
    uint32_t busiest;               /* its level */
    uint32_t ndropped_ranks;        /* dropped without a retry */
    double message_ns;              /* mean time per message */
    struct tt_start_level level[TT_START_LEVELS_MAX];   /* those with processes: the root, leaders
                                                           by depth, ranks */
};

/* Fills the report, at any time after the start of the simulation. Extra processes are not
 * counted. */
void tt_start_report_of(const struct tt_start *s, struct tt_start_report *out);

enum tt_start_finding_kind {
    TT_START_FINDING_GROWTH,        /* the busiest process's time in a step grows with an exponent
                                       above 1.5 */
    TT_START_FINDING_COST,          /* a step takes 10 times the mean time of a message */
    TT_START_FINDING_LOOP,          /* a process wakes up 1,000 times a second without an action */
    TT_START_FINDING_DROPPED        /* a backlog has dropped connections */
};

struct tt_start_finding {
    enum tt_start_finding_kind kind;
    uint32_t level;                 /* index in the report */
    enum tt_start_step step;        /* of GROWTH and COST */
    double value;                   /* exponent; ns per message; wake-ups per second; connections */
    double seconds;                 /* GROWTH, COST: of the busiest process in the step */
};

/* Writes the findings about `whole` to out[TT_START_FINDINGS_MAX], and returns their number. `less`
 * is a simulation with fewer ranks, for GROWTH, or NULL. */
uint32_t tt_start_findings(const struct tt_start_report *whole, const struct tt_start_report *less,
                           struct tt_start_finding *out);

#endif
