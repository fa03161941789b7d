/* Worlds, and the communicators of a view. A world is one engine with its connections. If a view
 * only shrinks, its world is kept. Its new communicators have fewer ranks and use the existing
 * connections, so that an interrupted operation can be repeated at once. Each tag has its own
 * communicator, so that operations of different tags match in any order. With replica groups
 * there are two more per tag: for the members of a role, and for those of a group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "session/run.h"

#define SCOPES 3            /* enum tutti_scope */
/* the communicators of a view have indices below 1 << this: the program's, and one per tag and
 * scope */
#define CONTEXTS_BITS 10
#define EPOCHS_BITS 21

_Static_assert(SCOPES *TT_ELASTIC_TAGS + 1 <= 1u << CONTEXTS_BITS, "each communicator has an id");
_Static_assert(CONTEXTS_BITS + EPOCHS_BITS == 31, "ids begin at TT_ENGINE_CONTEXTS_OWN");

static uint32_t first_context(uint64_t epoch)
{
    return TT_ENGINE_CONTEXTS_OWN +
           ((uint32_t)(epoch & ((1u << EPOCHS_BITS) - 1)) << CONTEXTS_BITS);
}

/* Returns the context id, which is equal on all members of a scope. Other roles or groups have
 * separate contexts with the same id. */
static uint32_t context_of(uint64_t epoch, tutti_scope scope, uint32_t tag)
{
    return first_context(epoch) + 1 + (uint32_t)scope * TT_ELASTIC_TAGS + tag;
}

/* Returns whether a context id belongs to this epoch. */
static bool epoch_has_context(uint64_t epoch, uint32_t context)
{
    return epoch > 0 && context >= first_context(epoch) &&
           context - first_context(epoch) < 1u << CONTEXTS_BITS;
}

const struct tt_constants *tt_view_comms_constants(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct tt_constants constants;
    static bool measured;

    pthread_mutex_lock(&lock);
    if (!measured)
        tt_constants_measure(&constants);
    measured = true;
    pthread_mutex_unlock(&lock);
    return &constants;
}

/* ---- communicators ---- */

static tutti_status open_communicator(tutti_comm **out, struct tt_world *world,
                                      const struct tt_run_home *h, const uint64_t *ids,
                                      uint32_t nranks, uint32_t rank, uint32_t context,
                                      int64_t timeout_ms, bool restore)
{
    uint32_t *ranks = malloc(nranks * sizeof *ranks);
    tutti_status st;

    if (!ranks)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a view of %u members", nranks);
    for (uint32_t i = 0; i < nranks; i++) {
        ranks[i] = tt_run_home_rank(h, ids[i]);
        tt_assert(ranks[i] < h->n);
    }
    st = tt_comm_open(out, world, context, ranks, nranks, rank, timeout_ms, restore);
    free(ranks);
    return st;
}

tutti_status tt_view_comms_open(struct tt_view_comms *s, struct tt_world *world,
                                const struct tt_run_home *home, const uint64_t *ids,
                                uint32_t nranks, uint32_t rank, uint64_t epoch, uint32_t ntags,
                                int64_t timeout_ms)
{
    struct tt_view_comms made = { .epoch = epoch, .rank = rank, .nranks = nranks };
    tutti_status st = TUTTI_OK;

    made.tags = calloc(ntags, sizeof *made.tags);
    if (!made.tags)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u tags", ntags);
    /* the engine looks up the most recently opened communicators fastest */
    for (uint32_t tag = ntags; tag > 0 && !st; tag--)
        st = open_communicator(&made.tags[tag - 1], world, home, ids, nranks, rank,
                               context_of(epoch, TUTTI_SCOPE_ALL, tag - 1), timeout_ms, false);
    if (!st)
        st = open_communicator(&made.comm, world, home, ids, nranks, rank, first_context(epoch),
                               timeout_ms, true);
    if (!st)
        /* the program's threads use it, while another thread may close it */
        tt_comm_guard(made.comm);
    if (st) {
        tt_view_comms_close(&made, ntags);
        return st;
    }
    *s = made;
    return TUTTI_OK;
}

/* Opens one communicator per tag, for the members of this member's role or group. */
static tutti_status open_scope(tutti_comm ***out, const struct tt_view_comms *s,
                               struct tt_world *world, const struct tt_run_home *home,
                               const tutti_member *members, tutti_scope scope, uint32_t ntags,
                               int64_t timeout_ms)
{
    const tutti_member *own = &members[s->rank];
    uint64_t *ids = malloc(s->nranks * sizeof *ids);
    uint32_t n = 0, rank = 0;
    tutti_status st = TUTTI_OK;

    *out = calloc(ntags, sizeof **out);
    if (!ids || !*out) {
        free(ids);
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u tags", ntags);
    }
    for (const tutti_member *m = members; m < members + s->nranks; m++) {
        if (scope == TUTTI_SCOPE_ROLE ? m->role != own->role : m->group != own->group)
            continue;
        if (m == own)
            rank = n;
        ids[n++] = m->id;
    }
    for (uint32_t tag = ntags; tag > 0 && !st; tag--)
        st = open_communicator(&(*out)[tag - 1], world, home, ids, n, rank,
                               context_of(s->epoch, scope, tag - 1), timeout_ms, false);
    free(ids);
    return st;
}

tutti_status tt_view_comms_open_scopes(struct tt_view_comms *s, struct tt_world *world,
                                       const struct tt_run_home *home, const tutti_member *members,
                                       uint32_t ntags, int64_t timeout_ms)
{
    tutti_status st =
        open_scope(&s->roles, s, world, home, members, TUTTI_SCOPE_ROLE, ntags, timeout_ms);

    if (!st)
        st = open_scope(&s->groups, s, world, home, members, TUTTI_SCOPE_GROUP, ntags, timeout_ms);
    return st;
}

static void close_communicators(tutti_comm **comms, uint32_t n)
{
    for (uint32_t i = 0; comms && i < n; i++)
        tutti_comm_destroy(comms[i]);
    free(comms);
}

void tt_view_comms_close(struct tt_view_comms *s, uint32_t ntags)
{
    close_communicators(s->tags, ntags);
    close_communicators(s->roles, ntags);
    close_communicators(s->groups, ntags);
    tutti_comm_destroy(s->comm);
    *s = (struct tt_view_comms){ .epoch = 0 };
}

bool tt_view_comms_seal(tutti_run *run)
{
    if (!run->space.comm || run->over || run->m.stopped || run->m.epoch != run->space.epoch)
        return true; /* the calls in progress have failed, and will be waited for */
    return tt_context_seal(run->space.comm->context);
}

void tt_view_comms_unseal(tutti_run *run)
{
    if (run->space.comm)
        tt_context_unseal(run->space.comm->context);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void failed_here(void *arg, uint32_t context, tutti_status status, const char *sentence)
{
    tutti_run *run = arg;

    pthread_mutex_lock(&run->trouble_lock);
    if (run->ntroubles < TT_RUN_TROUBLES) {
        struct tt_run_failure *t = &run->troubles[run->ntroubles++];

        t->context = context;
        t->status = status;
        snprintf(t->sentence, sizeof t->sentence, "%s", sentence);
    }
    pthread_mutex_unlock(&run->trouble_lock);
    tt_run_wake(run);
}

struct tt_engine_hooks tt_view_comms_hooks(tutti_run *run)
{
    return (struct tt_engine_hooks){ .arg = run, .failed = failed_here };
}

/* Records why the epoch is over. A failure of a communicator that this member has was logged,
 * except ABORTED, which the program caused itself. */
static void keep_why(tutti_run *run, uint32_t context, tutti_status status, const char *sentence)
{
    const uint32_t at = context - first_context(run->space.epoch);

    run->stop_logged |=
        status != TUTTI_ERR_ABORTED && (at == 0 || (at - 1) % TT_ELASTIC_TAGS < run->ntags);
    if (!*run->stop_why)
        snprintf(run->stop_why, sizeof run->stop_why, "%s", sentence);
}

/* Records that a deadline passed in this communicator, on this member. */
static void note_late(tutti_run *run, uint32_t context)
{
    const uint32_t at = context - first_context(run->space.epoch);

    if (at > 0 && (at - 1) % TT_ELASTIC_TAGS < run->ntags)
        run->tags[(at - 1) % TT_ELASTIC_TAGS].late_here = run->space.epoch;
}

/* Handles the failure of a communicator of the view: notifies the other members of the reason,
 * and ends the epoch for all, because no operation can complete any more. The coordinator
 * detects a lost member itself, but not a lost connection between two live ones. */
static void space_handle_failure(tutti_run *run, const struct tt_run_failure *t)
{
    struct tt_message s = { .kind = TT_MESSAGE_FAILED,
                            .epoch = run->space.epoch,
                            .context = t->context,
                            .status = (uint32_t)t->status };
    const bool own = epoch_has_context(run->space.epoch, t->context);

    if (run->space.epoch == 0 || run->space.epoch != run->m.epoch ||
        (t->context >= TT_ENGINE_CONTEXTS_OWN && !own))
        return;
    snprintf(s.text, sizeof s.text, "%s", t->sentence);
    tt_peers_broadcast(run, &s);
    if (own && t->status == TUTTI_ERR_TIMEOUT)
        note_late(run, t->context);
    if (!own || run->m.stopped)
        return;
    keep_why(run, t->context, t->status, t->sentence);
    tt_run_end_epoch(run, t->status);
}

void tt_view_comms_read_reports(tutti_run *run)
{
    struct tt_run_failure troubles[TT_RUN_TROUBLES];
    uint32_t n;

    pthread_mutex_lock(&run->trouble_lock);
    n = run->ntroubles;
    memcpy(troubles, run->troubles, n * sizeof *troubles);
    run->ntroubles = 0;
    pthread_mutex_unlock(&run->trouble_lock);
    for (uint32_t i = 0; i < n; i++)
        space_handle_failure(run, &troubles[i]);
}

void tt_view_comms_failed(tutti_run *run, const struct tt_message *s)
{
    const tutti_status st =
        s->status == TUTTI_ERR_INVALID ? TUTTI_ERR_PROTOCOL : (tutti_status)s->status;

    if (s->epoch != run->space.epoch || !run->home.world)
        return;
    if (epoch_has_context(s->epoch, s->context) && s->epoch == run->m.epoch && !run->m.stopped)
        keep_why(run, s->context, st, s->text);
    /* INVALID: the call was never started */
    tt_engine_fail_context(run->home.world->engine, UINT32_MAX, s->context, st, s->text);
}
