/* Who does not answer? When an operation's deadline is near, the rank that it waits for is asked over the control overlay, whose thread
 * answers also while the application computes; it tells whom it waits for itself, and that one is asked next. When a deadline passes,
 * the chain is followed to a rank that has stopped answering: it is to blame, not the neighbours that wait for it. A pure state
 * machine. */
#ifndef TT_COMM_PROBE_H
#define TT_COMM_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#define TT_PROBE_SILENCE_NS 500000000ull    /* without an answer for so long, though asked: silent */
#define TT_PROBE_EVERY_NS 100000000ull      /* between questions to one rank */

struct tt_probe_rank {
    uint64_t first_ns;          /* of the oldest question that has no answer; 0: none is open */
    uint64_t asked_ns;          /* of the newest question */
    uint32_t waits_for;         /* as it last said; UINT32_MAX: nobody */
    bool answered;              /* ever */
};

struct tt_probe {
    uint32_t nranks;
    struct tt_probe_rank *rank; /* [nranks], the caller's */
};

void tt_probe_init(struct tt_probe *p, struct tt_probe_rank *ranks, uint32_t nranks);
/* Somebody waits for `rank`: true if it should be asked now. */
bool tt_probe_ask(struct tt_probe *p, uint32_t rank, uint64_t now_ns);
/* It answered. True if the rank that it waits for should be asked now. */
bool tt_probe_answer(struct tt_probe *p, uint32_t rank, uint32_t waits_for, uint64_t now_ns);
/* From the rank that is waited for along the answers to one that is silent; UINT32_MAX: all answer. */
uint32_t tt_probe_blame(const struct tt_probe *p, uint32_t rank, uint64_t now_ns);

#endif
