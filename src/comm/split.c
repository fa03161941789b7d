/* tutti_comm_split and tutti_comm_dup. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/comm.h"
#include "comm/comm_trace.h"
#include "comm/ticket.h"

/* Opens this rank's part of a split, from the tickets of all ranks, sorted. The id is that of
 * the part's first rank. */
static tutti_status open_part(tutti_comm *parent, const struct tt_ticket *tickets, int32_t colour,
                              tutti_comm **out)
{
    uint32_t id, n, rank, *ranks = malloc(parent->nranks * sizeof *ranks);
    tutti_status st;

    if (!ranks)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a communicator of %u ranks",
                       parent->nranks);
    n = tt_tickets_part(tickets, parent->nranks, colour, parent->rank, ranks, &rank, &id);
    for (uint32_t i = 0; i < n; i++)
        ranks[i] = parent->ranks[ranks[i]];
    if (id)
        st = tt_comm_open(out, parent->world, id, ranks, n, rank, parent->timeout_ms,
                          parent->restore);
    else
        st =
            tt_fail(TUTTI_ERR_NOMEM, "too many communicators: all communicator numbers are in use");
    free(ranks);
    return st;
}

/* No rank uses a part before all ranks have opened theirs. If one failed (`mine` is its status),
 * all ranks get its error. */
static tutti_status comm_agree(tutti_comm *parent, tutti_status mine, const char *call)
{
    const uint64_t outcome = (uint64_t)mine << 32 | parent->rank;
    uint64_t worst = 0;
    const tutti_status st =
        tutti_allreduce(&outcome, &worst, 1, TUTTI_U64, TUTTI_MAX, parent, NULL);
    const tutti_status failed = (tutti_status)(worst >> 32);

    if (st || mine)
        return st ? st : mine;
    return failed ? tt_fail(failed, "%s: rank %u failed to create its communicator", call,
                            (uint32_t)worst)
                  : TUTTI_OK;
}

static tutti_status comm_split(tutti_comm *parent, int32_t colour, int32_t key, tutti_comm **out,
                               const char *call)
{
    struct tt_ticket mine = { .colour = colour, .key = key }, *tickets;
    tutti_comm *part = NULL;
    tutti_status st = tt_comm_check(parent, call);

    if (st)
        return st;
    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "%s: out is NULL", call);
    tickets = malloc(parent->nranks * sizeof *tickets);
    if (!tickets)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for %u ranks", call, parent->nranks);
    mine.id = tt_engine_new_context(parent->world->engine);
    mine.index = parent->rank;
    st = tutti_allgather(&mine, tickets, sizeof mine, TUTTI_U8, parent, NULL);
    if (!st) {
        tt_tickets_sort(tickets, parent->nranks);
        st = colour < 0 ? TUTTI_OK : open_part(parent, tickets, colour, &part);
        st = comm_agree(parent, st, call);
    }
    free(tickets);
    if (!st) {
        *out = part;
    } else if (part) {          /* others may not have received the result yet */
        tt_context_fail(part->context, st, tutti_last_error());
        tutti_comm_destroy(part);
    }
    return st;
}

static tutti_status split_guarded(tutti_comm *parent, int32_t colour, int32_t key, tutti_comm **out,
                                  enum tt_comm_creation how, const char *call)
{
    tutti_status st = tt_comm_enter(parent, call);
    uint64_t record;

    if (st)
        return st;
    record = tt_comm_trace_creation(parent, how);
    st = comm_split(parent, colour, key, out, call);
    tt_oplog_end(record, st);
    tt_comm_leave(parent);
    return st;
}

tutti_status tutti_comm_split(tutti_comm *parent, int colour, int key, tutti_comm **out)
{
    return split_guarded(parent, colour < 0 ? -1 : colour, key, out, TT_COMM_SPLIT,
                         "tutti_comm_split");
}

tutti_status tutti_comm_dup(tutti_comm *parent, tutti_comm **out)
{
    return split_guarded(parent, 0, 0, out, TT_COMM_DUP, "tutti_comm_dup");
}
