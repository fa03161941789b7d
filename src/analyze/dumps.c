#include "analyze/dumps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define MARKED_MAX (1ull << 28)          /* marked members of all communicators: bounds the time */

tutti_status tt_dumps_init(struct tt_dumps *d)
{
    *d = (struct tt_dumps){ .kept_max = TT_DUMPS_KEPT };
    if (tt_intern_init(&d->texts))
        return tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory");
    return TUTTI_OK;
}

void tt_dumps_fini(struct tt_dumps *d)
{
    for (uint32_t c = 0; c < d->ncomms; c++)
        tt_members_fini(&d->comms[c].members);
    tt_intern_fini(&d->texts);
    free(d->ranks);
    free(d->ops);
    free(d->peers);
    free(d->reports);
    free(d->lanes);
    free(d->locals);
    free(d->comms);
    free(d->p2p);
    free(d->comm_slots);
    free(d->by_comm);
    *d = (struct tt_dumps){ .nranks = 0 };
}

/* ---- index ---- */

/* Counts the reports of other ranks about each rank. */
static void index_reports(struct tt_dumps *d)
{
    for (size_t i = 0; i < d->nreports; i++) {
        const struct tt_dumps_report *p = &d->reports[i];
        struct tt_dumps_rank *r = &d->ranks[p->about];

        if (p->is_expected)
            continue;
        r->nlost += p->state == TT_PEER_LOST;
        r->nsilent += p->state == TT_PEER_SILENT;
        if (d->ranks[p->by].has_clock && p->last_heard != TT_DUMPS_NEVER &&
            (r->gone == TT_DUMPS_NEVER || p->last_heard < r->gone))
            r->gone = p->last_heard;
    }
}

/* Marks the members of open communicators of an elastic run. */
static void mark_members(struct tt_dumps *d)
{
    uint64_t visited = 0;

    for (uint32_t c = 0; c < d->ncomms && visited < MARKED_MAX; c++) {
        uint32_t range = 0, i = 0, rank;

        while (d->comms[c].is_open && tt_members_next(&d->comms[c].members, &range, &i, &rank)) {
            d->ranks[rank].is_member = true;
            visited++;
        }
    }
}

/* Updates is_member: lost members still belong to the job; those that have left do not. An absence
 * is ignored if the member has returned since. */
static void mark_departed(struct tt_dumps *d)
{
    for (uint32_t r = 0; r < d->nranks; r++) {
        struct tt_dumps_rank *x = &d->ranks[r];

        if (x->away_epoch < x->lost_epoch)
            x->has_left = x->is_away = false;
        if (x->nlost + x->nsilent + x->ndeparted > 0)
            x->is_away = false;
        if (!x->has_dump && (x->ndeparted > 0 || x->has_left || x->is_away))
            x->is_member = x->ndeparted > 0;
    }
}

/* Sets which ranks are members of the job. For an elastic run, shrinks the array from all possible
 * member IDs to those that occur. */
static void index_ranks(struct tt_dumps *d)
{
    if (d->is_elastic) {
        struct tt_dumps_rank *fewer = realloc(d->ranks, (d->nmentioned + 1ul) * sizeof *fewer);

        d->ranks = fewer ? fewer : d->ranks;
        d->nranks = d->nmentioned;
    }
    for (uint32_t r = 0; r < d->nranks; r++) {
        if (!d->ranks[r].is_used)
            d->ranks[r] = (struct tt_dumps_rank){ TT_DUMPS_RANK_UNUSED };
        d->ranks[r].is_member = !d->is_elastic || d->ranks[r].has_dump;
    }
    if (d->is_elastic) {
        mark_members(d);
        mark_departed(d);
    }
    d->nmembers = 0;
    for (uint32_t r = 0; r < d->nranks; r++)
        d->nmembers += d->ranks[r].is_member;
}

/* Sorts the entries of each communicator by rank, because ranks are visited in ascending order. */
tutti_status tt_dumps_index(struct tt_dumps *d)
{
    size_t first = 0;

    index_reports(d);
    index_ranks(d);
    free(d->by_comm);
    d->by_comm = calloc(d->nlocals + 1, sizeof *d->by_comm);
    if (!d->by_comm)
        return tt_fail(TUTTI_ERR_NOMEM, "analyze: out of memory for %zu entries", d->nlocals);
    for (uint32_t c = 0; c < d->ncomms; c++)
        d->comms[c].nlocals = 0;
    for (size_t i = 0; i < d->nlocals; i++)
        d->comms[d->locals[i].comm].nlocals++;
    for (uint32_t c = 0; c < d->ncomms; c++) {
        d->comms[c].locals_first = first;
        first += d->comms[c].nlocals;
        d->comms[c].nlocals = 0;
    }
    for (uint32_t r = 0; r < d->nranks; r++)
        for (uint32_t k = 0; k < d->ranks[r].nlocals; k++) {
            const size_t i = d->ranks[r].locals_first + k;
            struct tt_dumps_comm *c = &d->comms[d->locals[i].comm];

            d->by_comm[c->locals_first + c->nlocals++] = (uint32_t)i;
        }
    return TUTTI_OK;
}

/* ---- look-ups ---- */

const struct tt_dumps_local *tt_dumps_local_of(const struct tt_dumps *d, uint32_t comm,
                                               uint32_t rank)
{
    const struct tt_dumps_comm *c = &d->comms[comm];
    size_t low = c->locals_first, high = low + c->nlocals;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct tt_dumps_local *l = &d->locals[d->by_comm[middle]];

        if (l->rank == rank)
            return l;
        if (l->rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *tt_dumps_text(const struct tt_dumps *d, uint32_t text)
{
    return tt_intern_text(&d->texts, text);
}

const char *tt_dumps_departed_word(enum tt_departed departed)
{
    static const char *const words[] = {
        [TT_DEPARTED_NOT] = "",
        [TT_DEPARTED_DIED] = "died",
        [TT_DEPARTED_SILENT] = "silent",
        [TT_DEPARTED_UNREACHABLE] = "unreachable",
        [TT_DEPARTED_PROTOCOL] = "protocol",
        [TT_DEPARTED_STATE] = "state",
        [TT_DEPARTED_OTHER] = "unknown",
    };

    return words[departed];
}

const char *tt_dumps_comm_name(const struct tt_dumps *d, uint32_t comm, char out[32])
{
    const struct tt_dumps_comm *c = &d->comms[comm];

    if (c->name != TT_INTERN_EMPTY)
        return tt_dumps_text(d, c->name);
    if (c->hash >> 32)
        snprintf(out, 32, "%08" PRIx64, c->hash >> 32);
    else
        snprintf(out, 32, "%" PRIx64, c->hash);
    return out;
}

bool tt_dumps_failed(const struct tt_dumps *d, const struct tt_dumps_op *op)
{
    const char *status = tt_dumps_text(d, op->status);

    return *status && strcmp(status, "OK") != 0 && strcmp(status, "PENDING") != 0;
}
