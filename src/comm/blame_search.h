/* Finds the rank that does not respond. Shortly before an operation's deadline, the rank that it
 * waits for is queried over the control overlay. The overlay's thread responds even while the
 * application computes. The response lists the operations of that rank and the ranks that it
 * waits for, which are queried next. When a deadline has passed, the chain is followed to a rank
 * that does not respond. This rank is to blame, not the neighbours that wait for it. Responses
 * from before the deadline are ignored: ranks not queried since are queried again. A pure state
 * machine. */
#ifndef TT_COMM_BLAME_SEARCH_H
#define TT_COMM_BLAME_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/response_time.h"
#include "engine/engine.h"

#define TT_PROBE_SILENCE_NS_MAX 4000000000ull   /* limit of tt_response_time_silence_ns */
#define TT_PROBE_EVERY_NS 100000000ull      /* minimum interval between queries of one rank */

struct tt_blame_search_rank {
    uint64_t first_ns;          /* time of the oldest unanswered query; 0: none */
    uint64_t asked_ns;          /* time of the newest query; also its ID */
    struct tt_waiting waits[TT_WAITINGS];   /* from its last response */
    uint8_t nwaits;
    bool failed;                /* it has reported a failure, and has not responded since */
    uint8_t due, done;          /* tt_blame_search_blame: bitmaps over waits, of entries to follow
                                   and entries already followed; for search number `search` */
    bool queued;
    uint32_t search, next;      /* next: in the queue of a search */
};

struct tt_blame_search {
    uint32_t nranks;
    uint32_t searches;
    struct tt_response_time times;  /* of responses, from query to handling */
    struct tt_blame_search_rank *rank; /* [nranks], owned by the caller */
};

/* Initializes the machine. ranks[nranks] must be zero. */
void tt_blame_search_init(struct tt_blame_search *p, struct tt_blame_search_rank *ranks,
                          uint32_t nranks);
/* Called when an operation waits for `rank`. Returns whether to query it now; now_ns is the query's
 * ID. */
bool tt_blame_search_should_query(struct tt_blame_search *p, uint32_t rank, uint64_t now_ns);
/* Handles a response to query asked_ns about *of: waits[n], at most TT_WAITINGS. A newer query
 * stays open. Returns the number of ranks in ask[] to query now. If the rank is in the operation
 * *of, only its entry is followed; otherwise any of its operations may block it. */
uint32_t tt_blame_search_answer(struct tt_blame_search *p, uint32_t rank,
                                const struct tt_waiting *of, const struct tt_waiting *waits,
                                uint32_t n, uint64_t asked_ns, uint64_t now_ns,
                                struct tt_waiting ask[TT_WAITINGS]);
/* The rank has reported a failure. If it stops responding, it has ended because of this failure,
 * and is not to blame. */
void tt_blame_search_failed(struct tt_blame_search *p, uint32_t rank);
/* Follows the responses from the rank that *w waits for, including operations that failed there,
 * and returns the findings in *out. If several ranks are in no operation, none is returned, because
 * only one may be to blame. since_ns: the deadline. ask->rank: a rank to query now, with ID now_ns;
 * the query then counts as sent, and there may be more: call again. UINT32_MAX: none. */
enum tt_blame tt_blame_search_blame(struct tt_blame_search *p, const struct tt_waiting *w,
                                    uint64_t since_ns, uint64_t now_ns, struct tt_blamed *out,
                                    struct tt_waiting *ask);

#endif
