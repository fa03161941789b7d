/* The participants of an operation, and their ranks. Ranks are those of the program's view,
 * returned by its last tutti_run_epoch. If repeated operations have shrunk the view since, the
 * remaining members have other ranks, and blocks of lost members are omitted. */
#include <inttypes.h>
#include <stdlib.h>

#include "session/run.h"

/* ---- members of a scope ---- */

static bool member_is_in_scope(const tutti_run *run, const tutti_member *m, tutti_scope scope)
{
    const tutti_member *own = &run->members[run->space.rank];

    switch (scope) {
    case TUTTI_SCOPE_ROLE:
        return m->role == own->role;
    case TUTTI_SCOPE_GROUP:
        return m->group == own->group;
    default:
        return true;
    }
}

static uint32_t scope_count(const tutti_run *run, const tutti_member *members, uint32_t n,
                            tutti_scope scope)
{
    uint32_t in = 0;

    for (uint32_t i = 0; i < n; i++)
        in += member_is_in_scope(run, &members[i], scope);
    return in;
}

/* Returns the member with rank k of the scope among members[n]. */
static const tutti_member *member_of(const tutti_run *run, const tutti_member *members,
                                     tutti_scope scope, uint32_t k)
{
    uint32_t i = 0;

    while (!member_is_in_scope(run, &members[i], scope) || k-- > 0)
        i++;
    return &members[i];
}

/* Returns a member's rank in the scope among members[n], or an invalid rank if it is not in it. */
static uint32_t scope_rank(const tutti_run *run, const tutti_member *members, uint32_t n,
                           tutti_scope scope, uint64_t id)
{
    uint32_t rank = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (members[i].id == id)
            return rank;
        rank += member_is_in_scope(run, &members[i], scope);
    }
    return UINT32_MAX;
}

/* ---- mapping to current ranks ---------------------------------------------------------------- */

static bool coll_has_root(tutti_coll coll)
{
    return coll == TUTTI_REDUCE || coll == TUTTI_BROADCAST || coll == TUTTI_GATHER ||
           coll == TUTTI_SCATTER || coll == TUTTI_GATHERV || coll == TUTTI_SCATTERV;
}

static tutti_status find_root(const tutti_run *run, struct tt_operation *o, uint32_t nasked)
{
    const int32_t asked = o->op->root;
    const tutti_member *root;
    uint32_t rank;

    o->root = 0;
    if (!coll_has_root(o->op->coll))
        return TUTTI_OK;
    if (asked < 0 || (uint32_t)asked >= nasked)
        return tt_fail(TUTTI_ERR_INVALID, "%s: rank %d is out of range: the view has %u ranks",
                       tt_operation_call(), asked, nasked);
    root = member_of(run, run->asked, o->op->scope, (uint32_t)asked);
    rank = scope_rank(run, run->members, run->space.nranks, o->op->scope, root->id);
    if (rank >= o->nscope)
        return tt_fail(TUTTI_ERR_ABORTED, "%s: the root, member %" PRIu64 ", was lost",
                       tt_operation_call(), root->id);
    o->root = (int)rank;
    return TUTTI_OK;
}

/* A member may have joined with a view that no tutti_run_epoch has returned, because that failed
 * here. Then the program has no counts for it. */
static tutti_status check_known(const tutti_run *run, tutti_scope scope)
{
    for (uint32_t i = 0; i < run->space.nranks; i++)
        if (member_is_in_scope(run, &run->members[i], scope) &&
            scope_rank(run, run->asked, run->nasked, scope, run->members[i].id) == UINT32_MAX)
            return tt_fail(TUTTI_ERR_ABORTED,
                           "%s: member %" PRIu64
                           " has joined (call tutti_run_epoch for the next view)",
                           tt_operation_call(), run->members[i].id);
    return TUTTI_OK;
}

/* Maps counts and displacements to the remaining members: o->mapped[0..nscope) and [nscope..2
 * nscope). */
static tutti_status map_counts(const tutti_run *run, struct tt_operation *o, uint32_t nasked)
{
    const tutti_elastic *op = o->op;
    size_t packed = 0;
    uint32_t asked = 0;

    o->mapped = malloc(2 * (size_t)nasked * sizeof *o->mapped);
    if (!o->mapped)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for the counts of %u members",
                       tt_operation_call(), nasked);
    for (uint32_t i = 0; i < run->nasked; i++) {
        const tutti_member *m = &run->asked[i];
        uint32_t now;

        if (!member_is_in_scope(run, m, op->scope))
            continue;
        now = scope_rank(run, run->members, run->space.nranks, op->scope, m->id);
        if (now < o->nscope) {
            o->mapped[now] = op->counts[asked];
            o->mapped[o->nscope + now] = op->displs ? op->displs[asked] : packed;
        }
        packed += op->counts[asked++];
    }
    o->counts = o->mapped;
    o->displs = o->mapped + o->nscope;
    return TUTTI_OK;
}

tutti_status tt_subgroup_take(const tutti_run *run, struct tt_operation *o)
{
    const tutti_elastic *op = o->op;
    const uint32_t nasked = scope_count(run, run->asked, run->nasked, op->scope);
    tutti_comm *const *comms = op->scope == TUTTI_SCOPE_ROLE    ? run->space.roles
                               : op->scope == TUTTI_SCOPE_GROUP ? run->space.groups
                                                                : NULL;
    tutti_status st;

    o->scope = comms ? comms[o->tag] : run->space.tags[o->tag];
    o->nscope = scope_count(run, run->members, run->space.nranks, op->scope);
    o->counts = op->counts;
    o->displs = op->displs;
    st = op->counts || coll_has_root(op->coll) ? check_known(run, op->scope) : TUTTI_OK;
    if (!st)
        st = find_root(run, o, nasked);
    if (st || !op->counts || o->nscope == nasked)
        return st;
    if (op->coll == TUTTI_ALLGATHERV || op->coll == TUTTI_GATHERV)
        return map_counts(run, o, nasked);
    return tt_fail(TUTTI_ERR_ABORTED,
                   "%s: only %u of %u members remain: blocks for lost members cannot be delivered "
                   "(call tutti_run_epoch for the next view)",
                   tt_operation_call(), o->nscope, nasked);
}

void tt_subgroup_drop(struct tt_operation *o)
{
    free(o->mapped);
    o->mapped = NULL;
}
