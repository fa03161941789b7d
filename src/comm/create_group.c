/* A communicator of some ranks of another one; the other ranks make no call. Source: MPI 4.0,
 * section 7.4.2 (MPI_Comm_create_group).
 *
 * The listed ranks form a binomial tree by their positions in the list; its edges are sends and
 * receives on the parent. An offer is sent down the tree; each rank opens its part; the statuses
 * are sent up, and then the outcome is sent down. No rank uses the communicator before it has the
 * outcome.
 *
 * A thread enters the parent only while it starts a message, and leaves it before it waits.
 * Otherwise two processes whose threads create the same two groups in opposite orders would wait
 * for each other. */
#include <pthread.h>
#include <stdlib.h>

#include "base/prng.h"
#include "base/status.h"
#include "comm/comm_trace.h"
#include "comm/comm.h"

/* Sent from the first rank of the list to all: the new context, and the hash and length of the
 * list, which the others compare with their own. */
struct offer {
    uint64_t list;              /* hash */
    uint32_t n, context;        /* context 0: none is free */
};

/* The status of a subtree: OK, or the error of one of its ranks (rank in the parent). */
struct report {
    uint32_t status, rank;
};

struct group {
    tutti_comm *parent;
    const int *ranks;           /* [n] */
    uint32_t n, at;             /* this rank's position */
    uint32_t tag;
    uint32_t *job_ranks;        /* [n] */
};

static const char name[] = "tutti_comm_create_group";

/* Returns the parent in the tree of a position other than 0. */
static uint32_t above(uint32_t at)
{
    return at & (at - 1);
}

/* Returns whether this rank has a k-th child: at + 2^k, if 2^k is less than the lowest set bit of
 * `at`. */
static bool has_below(const struct group *g, uint32_t k)
{
    const uint32_t step = 1u << k;

    return (g->at == 0 || step < (g->at & -g->at)) && step < g->n - g->at;
}

/* Starts a message of this rank to or from a position, and waits for it. */
static tutti_status transfer(const struct group *g, uint32_t at, const void *src, void *dst,
                             size_t bytes)
{
    tutti_comm *parent = g->parent;
    tutti_request *request = NULL;
    const tutti_call call = { .size = sizeof call, .tag = g->tag, .request = &request };
    const int peer = g->ranks[at];
    tutti_status st;

    pthread_mutex_lock(&parent->world->group_lock);
    st = tt_comm_enter(parent, name);
    if (!st) {
        st = src ? tutti_send(src, bytes, TUTTI_U8, peer, parent, &call)
                 : tutti_recv(dst, bytes, TUTTI_U8, peer, parent, &call);
        tt_comm_leave(parent);
    }
    pthread_mutex_unlock(&parent->world->group_lock);
    return st ? st : tutti_wait(request);
}

static tutti_status to(const struct group *g, uint32_t at, const void *data, size_t bytes)
{
    return transfer(g, at, data, NULL, bytes);
}

static tutti_status from(const struct group *g, uint32_t at, void *data, size_t bytes)
{
    return transfer(g, at, NULL, data, bytes);
}

/* Broadcasts *data of the first rank to all. */
static tutti_status spread(const struct group *g, void *data, size_t bytes)
{
    tutti_status st = g->at ? from(g, above(g->at), data, bytes) : TUTTI_OK;

    for (uint32_t k = 31; k-- > 0 && !st;)
        if (has_below(g, k))
            st = to(g, g->at + (1u << k), data, bytes);
    return st;
}

/* Collects the statuses; on the first rank, *worst is an error if any rank has one. */
static tutti_status collect(const struct group *g, struct report *worst)
{
    tutti_status st = TUTTI_OK;

    for (uint32_t k = 0; k < 31 && !st; k++) {
        struct report theirs;

        if (!has_below(g, k))
            continue;
        st = from(g, g->at + (1u << k), &theirs, sizeof theirs);
        if (!st && !worst->status)
            *worst = theirs;
    }
    return st || !g->at ? st : to(g, above(g->at), worst, sizeof *worst);
}

static tutti_status open_offered(const struct group *g, const struct offer *mine,
                                 const struct offer *theirs, tutti_comm **out)
{
    tutti_comm *parent = g->parent;

    if (theirs->n != mine->n || theirs->list != mine->list)
        return tt_fail(
            TUTTI_ERR_MISMATCH,
            "%s: rank %d and rank %d passed different lists of ranks (the latter has %u ranks)",
            name, (int)parent->rank, g->ranks[0], theirs->n);
    if (!theirs->context)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "too many communicators: all communicator numbers are in use");
    return tt_comm_open(out, parent->world, theirs->context, g->job_ranks, g->n, g->at,
                        parent->timeout_ms, parent->restore);
}

static tutti_status outcome_of(const struct group *g, const struct report *worst, tutti_status mine)
{
    if (mine)
        return mine;
    return worst->status ? tt_fail((tutti_status)worst->status,
                                   "%s: rank %u failed to create its communicator (tag %u)", name,
                                   worst->rank, g->tag)
                         : TUTTI_OK;
}

static tutti_status create(const struct group *g, tutti_comm **out)
{
    struct offer mine = { .n = g->n,
                          .list = tt_hash_bytes(g->ranks, g->n * sizeof *g->ranks, g->tag) },
                 offer;
    struct report worst;
    tutti_comm *comm = NULL;
    tutti_status st, opened;

    if (!g->at)
        mine.context = tt_engine_new_context(g->parent->world->engine);
    offer = mine;
    st = spread(g, &offer, sizeof offer);
    if (st)
        return st;
    opened = open_offered(g, &mine, &offer, &comm);
    worst = (struct report){ .status = (uint32_t)opened, .rank = g->parent->rank };
    st = collect(g, &worst);
    st = st ? st : spread(g, &worst, sizeof worst);
    st = st ? st : outcome_of(g, &worst, opened);
    if (!st) {
        *out = comm;
    } else if (comm) {          /* others may not have the outcome yet */
        tt_context_fail(comm->context, st, tutti_last_error());
        tutti_comm_destroy(comm);
    }
    return st;
}

/* Checks the list. Sets the job ranks, and the position of this rank. */
static tutti_status check_list(struct group *g)
{
    tutti_comm *parent = g->parent;
    uint8_t *listed = calloc(parent->nranks, 1);
    bool found = false;
    tutti_status st = TUTTI_OK;

    if (!listed)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for %u ranks", name, parent->nranks);
    for (uint32_t i = 0; i < g->n && !st; i++) {
        const int r = g->ranks[i];

        if (r < 0 || (uint32_t)r >= parent->nranks) {
            st = tt_fail(TUTTI_ERR_INVALID, "%s: ranks[%u] is %d: must be 0 to %u", name, i, r,
                         parent->nranks - 1);
        } else if (listed[r]++) {
            st = tt_fail(TUTTI_ERR_INVALID, "%s: ranks[%u] is %d: this rank is listed twice", name,
                         i, r);
        } else {
            g->job_ranks[i] = parent->ranks[r];
            if ((uint32_t)r == parent->rank) {
                g->at = i;
                found = true;
            }
        }
    }
    free(listed);
    if (!st && !found)
        st = tt_fail(TUTTI_ERR_INVALID, "%s: rank %u, the calling rank, is not listed", name,
                     parent->rank);
    return st;
}

static tutti_status checked(tutti_comm *parent, const int *ranks, int n, uint32_t tag,
                            tutti_comm **out)
{
    struct group g = { .parent = parent, .ranks = ranks, .n = (uint32_t)n, .tag = tag };
    tutti_status st = tt_comm_check(parent, name);

    if (st)
        return st;
    if (!out || !ranks)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL", name, out ? "ranks" : "out");
    if (n < 1 || (uint32_t)n > parent->nranks)
        return tt_fail(TUTTI_ERR_INVALID, "%s: n is %d: must be 1 to %u", name, n, parent->nranks);
    g.job_ranks = malloc(g.n * sizeof *g.job_ranks);
    if (!g.job_ranks)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for %d ranks", name, n);
    st = check_list(&g);
    st = st ? st : create(&g, out);
    free(g.job_ranks);
    return st;
}

tutti_status tutti_comm_create_group(tutti_comm *parent, const int *ranks, int n, uint32_t tag,
                                     tutti_comm **out)
{
    tutti_status st = tt_comm_hold(parent, name);

    uint64_t record;

    if (st)
        return st;
    record = parent ? tt_comm_trace_begin(TT_OPLOG_COMM_CREATE_GROUP, parent, 0) : 0;
    st = checked(parent, ranks, n, tag, out);
    tt_oplog_end(record, st);
    tt_comm_unhold(parent);
    return st;
}
