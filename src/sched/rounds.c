#include "sched/rounds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"

/* Marks the peers of a rank in met[nranks]; returns their number. */
static uint32_t mark_peers(const struct tt_algo *algo, const struct tt_coll *c, bool *met)
{
    const uint64_t nrounds = algo->nrounds(c);
    uint32_t n = 0;

    memset(met, 0, c->nranks * sizeof *met);
    for (uint64_t k = 0; k < nrounds; k++) {
        struct tt_step step[TT_ROUND_STEPS_MAX];
        struct tt_sched s = { .steps = step, .cap = TT_ROUND_STEPS_MAX };

        algo->round(&s, c, k);
        for (uint32_t i = 0; i < s.n; i++)
            if ((step[i].opcode == TT_PUT || step[i].opcode == TT_WAIT) && !met[step[i].peer]) {
                met[step[i].peer] = true;
                n++;
            }
    }
    return n;
}

tutti_status tt_rounds_check(const struct tt_algo *algo, const struct tt_coll *coll,
                             uint32_t nranks, char *why, size_t why_bytes)
{
    const uint64_t nrounds = algo->nrounds(&coll[0]);
    bool *met = calloc(nranks, sizeof *met);
    tutti_status st = TUTTI_OK;

    if (!met) {
        snprintf(why, why_bytes, "out of memory for the check of %u ranks", nranks);
        return TUTTI_ERR_NOMEM;
    }
    for (uint32_t r = 0; r < nranks && st == TUTTI_OK; r++) {
        const uint64_t rounds = algo->nrounds(&coll[r]);
        const uint32_t said = algo->npeers(&coll[r]), n = mark_peers(algo, &coll[r], met);

        if (rounds != nrounds)
            snprintf(why, why_bytes, "rank 0 has %" PRIu64 " round%s, but rank %u has %" PRIu64,
                     nrounds, TT_PLURAL(nrounds), r, rounds);
        else if (n > said)
            snprintf(why, why_bytes,
                     "rank %u exchanges data with %u rank%s, but declares at most %u", r, n,
                     TT_PLURAL(n), said);
        else
            continue;
        st = TUTTI_ERR_INVALID;
    }
    free(met);
    return st;
}
