/* Who does not answer? When an operation's deadline is near, the rank that it waits for is asked over the control overlay, whose thread
 * answers also while the application computes; it tells what it is in and whom it waits for itself, and these are asked next. When a deadline passes,
 * the chain is followed to a rank that has stopped answering: it is to blame, not the neighbours that wait for it. Nobody is acquitted by what was said before
 * the deadline: who was not asked since is asked once more. A pure state machine. */
#ifndef TT_COMM_PROBE_H
#define TT_COMM_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

#define TT_PROBE_SILENCE_NS 500000000ull    /* without an answer for so long, though asked: silent */
#define TT_PROBE_EVERY_NS 100000000ull      /* between questions to one rank */

struct tt_probe_rank {
    uint64_t first_ns;          /* of the oldest question that has no answer; 0: none is open */
    uint64_t asked_ns;          /* of the newest question: its number, too */
    struct tt_waiting waits[TT_WAITINGS];   /* as it last said */
    uint8_t nwaits;
    bool failed;                /* it has reported a failure of its own, and has not answered since */
    uint8_t due, done;          /* tt_probe_blame: of waits, those that are to be followed, and those that were; in search number `search` */
    bool queued;
    uint32_t search, next;      /* next in the queue of a search */
};

struct tt_probe {
    uint32_t nranks;
    uint32_t searches;
    struct tt_probe_rank *rank; /* [nranks], the caller's */
};

/* ranks[nranks] are zero. */
void tt_probe_init(struct tt_probe *p, struct tt_probe_rank *ranks, uint32_t nranks);
/* Somebody waits for `rank`: true if it should be asked now; the question's number is now_ns. */
bool tt_probe_ask(struct tt_probe *p, uint32_t rank, uint64_t now_ns);
/* It answered question asked_ns, about what *of says, with what it is in: waits[n], n at most TT_WAITINGS. Where a newer question is open it stays so. Returns how many of the ranks that it waits for should be
 * asked now: ask[]. In the operation that it was asked about it waits for one; if it is not in that, any of its operations may keep it from it. */
uint32_t tt_probe_answer(struct tt_probe *p, uint32_t rank, const struct tt_waiting *of, const struct tt_waiting *waits,
                         uint32_t n, uint64_t asked_ns, uint64_t now_ns, struct tt_waiting ask[TT_WAITINGS]);
/* It has reported a failure of its own. If it does not answer from here on, it has ended for that, and is not to blame. */
void tt_probe_failed(struct tt_probe *p, uint32_t rank);
/* From the rank that *w waits for along the answers, also by operations that failed there, to what *out says. Of several ranks that are in no operation
 * none is named, as one alone may be to blame. since_ns: when the deadline was. ask->rank: who should be asked now, in question now_ns, which
 * then counts as done, and there may be more: call again. UINT32_MAX: nobody. */
enum tt_blame tt_probe_blame(struct tt_probe *p, const struct tt_waiting *w, uint64_t since_ns, uint64_t now_ns,
                             struct tt_blamed *out, struct tt_waiting *ask);

#endif
