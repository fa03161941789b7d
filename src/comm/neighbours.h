/* The neighbours of a rank in the control overlay: which of them respond, and the offsets of their
 * clocks (trace/job_clock.h). A neighbour that has a connection but does not respond is silent: its
 * process is stopped, or its host cannot be reached. The progress thread of a rank responds, also
 * while the application computes. A pure state machine; roll_call.c sends its frames. */
#ifndef TT_COMM_NEIGHBOURS_H
#define TT_COMM_NEIGHBOURS_H

#include "comm/response_time.h"
#include "trace/job_clock.h"

#define TT_NEIGHBOURS_SAMPLES 4u            /* exchanges with each neighbour for a dump */
#define TT_NEIGHBOURS_SILENCE_NS_MAX 2500000000ull  /* limit of tt_response_time_silence_ns */

struct tt_neighbour {
    uint32_t rank;
    bool is_here;               /* on the same host */
    bool is_connected;          /* set by the caller before each call */
    uint32_t nanswers;          /* since the last roll call began */
    uint64_t asked_ns;          /* time of the newest query: its ID; 0: none */
    uint64_t first_ns;          /* time of the oldest query without response; 0: none */
    uint64_t answered_ns;       /* time of the last response; 0: none */
    struct tt_clock_pair clock;
};

struct tt_neighbours {
    uint32_t rank, n;
    struct tt_response_time times;
    uint64_t roll_ns;           /* begin of the last roll call; 0: none */
    struct tt_neighbour list[];
};

enum tt_neighbour_life { TT_NEIGHBOUR_UNKNOWN, TT_NEIGHBOUR_RESPONDS, TT_NEIGHBOUR_SILENT };

/* Returns zeroed neighbours ranks[n] of `rank`; the caller frees it. NULL: out of memory. */
struct tt_neighbours *tt_neighbours_create(uint32_t rank, const uint32_t *ranks, uint32_t n);
/* Begins a new dump: only later responses count as signs of life, and the clocks are compared
 * again. */
void tt_neighbours_begin_roll(struct tt_neighbours *s, uint64_t now_ns);
/* Returns whether to query neighbour i now, during a roll call; the query then counts as sent. */
bool tt_neighbours_is_due(struct tt_neighbours *s, uint32_t i, uint64_t now_ns);
/* As tt_neighbours_is_due, without a roll call: at most one query every every_ns. */
bool tt_neighbours_is_due_every(struct tt_neighbours *s, uint32_t i, uint64_t every_ns,
                                uint64_t now_ns);
/* Handles the response of a rank; ignores ranks that are not neighbours. */
void tt_neighbours_answer(struct tt_neighbours *s, uint32_t rank, const struct tt_clock_exchange *x,
                          const struct tt_clock_offset *told);
/* Returns whether the roll call has its result: each connected neighbour has responded or is
 * silent. */
bool tt_neighbours_is_complete(const struct tt_neighbours *s, uint64_t now_ns);
enum tt_neighbour_life tt_neighbours_life(const struct tt_neighbours *s, uint32_t i,
                                          uint64_t now_ns);
/* Returns the offset from this rank's clock to that of the job. */
struct tt_clock_offset tt_neighbours_clock(const struct tt_neighbours *s, uint64_t now_ns);

#endif
