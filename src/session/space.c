/* Worlds and the communicators of a view. A world is one engine with its connections. A view that only shrinks lives on in the world it has: its
 * communicators are new ones, of fewer ranks, over the connections that are there, so that what a loss interrupted is tried again at once. Each
 * tag has a communicator of its own, so that operations of different tags match in whatever order they are called; and where there are replica groups, one
 * more among the members of a role, and one among those of a group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "session/run.h"

#define SCOPES 3            /* enum tutti_scope */
#define CONTEXTS_BITS 10    /* a view's communicators are numbered below 1 << this: the program's, and for each tag one in each scope */
#define EPOCHS_BITS 21

_Static_assert(SCOPES *TT_ELASTIC_TAGS + 1 <= 1u << CONTEXTS_BITS, "each has an id");
_Static_assert(CONTEXTS_BITS + EPOCHS_BITS == 31, "ids from TT_ENGINE_CONTEXTS_OWN on");

static uint32_t first_context(uint64_t epoch)
{
    return TT_ENGINE_CONTEXTS_OWN + ((uint32_t)(epoch & ((1u << EPOCHS_BITS) - 1)) << CONTEXTS_BITS);
}

/* The same number at all members of a scope; other roles, or groups, have others of that number, in which this one is not. */
static uint32_t context_of(uint64_t epoch, tutti_scope scope, uint32_t tag)
{
    return first_context(epoch) + 1 + (uint32_t)scope * TT_ELASTIC_TAGS + tag;
}

bool tt_space_has(uint64_t epoch, uint32_t context)
{
    return epoch > 0 && context >= first_context(epoch) && context - first_context(epoch) < 1u << CONTEXTS_BITS;
}

/* ---- the world ---- */

const struct tt_constants *tt_space_constants(void)
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

static uint32_t job_rank(const struct tt_home *h, uint64_t id)
{
    uint32_t r = 0;

    while (r < h->n && h->ids[r] != id)
        r++;
    return r;
}

static bool has_lost(const struct tt_home *h, uint32_t r)
{
    return r < h->n && r != h->world->rank && tt_engine_has_lost(h->world->engine, r);
}

bool tt_home_fits(tutti_run *run)
{
    const struct tt_home *h = &run->home;

    if (!h->world)
        return false;
    for (uint32_t i = 0; i < run->m.nranks; i++) {
        const uint32_t r = job_rank(h, run->m.view[i].id);

        if (r == h->n || has_lost(h, r))
            return false;
    }
    return true;
}

uint64_t tt_home_lost(tutti_run *run)
{
    const struct tt_home *h = &run->home;

    for (uint32_t i = 0; h->world && i < run->m.nranks; i++)
        if (has_lost(h, job_rank(h, run->m.view[i].id)))
            return run->m.view[i].id;
    return 0;
}

/* The world ends with its last communicator, which the program may have; until then it is alone. */
void tt_home_leave(struct tt_home *h)
{
    if (h->world)
        tt_engine_set_hooks(h->world->engine, &(struct tt_engine_hooks){ .arg = NULL });
    free(h->ids);
    *h = (struct tt_home){ .world = NULL };
}

/* ---- communicators ---- */

static tutti_status open_one(tutti_comm **out, struct tt_world *world, const struct tt_home *h, const uint64_t *ids,
                             uint32_t nranks, uint32_t rank, uint32_t context, int64_t timeout_ms, bool restore)
{
    uint32_t *ranks = malloc(nranks * sizeof *ranks);
    tutti_status st;

    if (!ranks)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a view of %u members", nranks);
    for (uint32_t i = 0; i < nranks; i++) {
        ranks[i] = job_rank(h, ids[i]);
        tt_assert(ranks[i] < h->n);
    }
    st = tt_comm_open(out, world, context, ranks, nranks, rank, timeout_ms, restore);
    free(ranks);
    return st;
}

tutti_status tt_space_open(struct tt_space *s, struct tt_world *world, const struct tt_home *home, const uint64_t *ids,
                           uint32_t nranks, uint32_t rank, uint64_t epoch, uint32_t ntags, int64_t timeout_ms)
{
    struct tt_space made = { .epoch = epoch, .rank = rank, .nranks = nranks };
    tutti_status st = TUTTI_OK;

    made.tags = calloc(ntags, sizeof *made.tags);
    if (!made.tags)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u tags", ntags);
    for (uint32_t tag = ntags; tag > 0 && !st; tag--) /* the engine finds the last ones fastest */
        st = open_one(&made.tags[tag - 1], world, home, ids, nranks, rank, context_of(epoch, TUTTI_SCOPE_ALL, tag - 1),
                      timeout_ms, false);
    if (!st)
        st = open_one(&made.comm, world, home, ids, nranks, rank, first_context(epoch), timeout_ms, true);
    if (!st)
        tt_comm_guard(made.comm); /* the program's threads call on it, and one of them ends it */
    if (st) {
        tt_space_close(&made, ntags);
        return st;
    }
    *s = made;
    return TUTTI_OK;
}

/* One for each tag, of the members of this one's role or group. */
static tutti_status open_scope(tutti_comm ***out, const struct tt_space *s, struct tt_world *world,
                               const struct tt_home *home, const tutti_member *members, tutti_scope scope,
                               uint32_t ntags, int64_t timeout_ms)
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
        st = open_one(&(*out)[tag - 1], world, home, ids, n, rank, context_of(s->epoch, scope, tag - 1), timeout_ms,
                      false);
    free(ids);
    return st;
}

tutti_status tt_space_open_scopes(struct tt_space *s, struct tt_world *world, const struct tt_home *home,
                                  const tutti_member *members, uint32_t ntags, int64_t timeout_ms)
{
    tutti_status st = open_scope(&s->roles, s, world, home, members, TUTTI_SCOPE_ROLE, ntags, timeout_ms);

    if (!st)
        st = open_scope(&s->groups, s, world, home, members, TUTTI_SCOPE_GROUP, ntags, timeout_ms);
    return st;
}

static void close_all(tutti_comm **comms, uint32_t n)
{
    for (uint32_t i = 0; comms && i < n; i++)
        tutti_comm_destroy(comms[i]);
    free(comms);
}

void tt_space_close(struct tt_space *s, uint32_t ntags)
{
    close_all(s->tags, ntags);
    close_all(s->roles, ntags);
    close_all(s->groups, ntags);
    tutti_comm_destroy(s->comm);
    *s = (struct tt_space){ .epoch = 0 };
}

bool tt_space_seal(tutti_run *run)
{
    if (!run->space.comm || run->over || run->m.stopped || run->m.epoch != run->space.epoch)
        return true; /* what was under way has failed, and is waited for */
    return tt_context_seal(run->space.comm->context);
}

void tt_space_unseal(tutti_run *run)
{
    if (run->space.comm)
        tt_context_unseal(run->space.comm->context);
}

/* ---- what fails ---- */

static void failed_here(void *arg, uint32_t context, tutti_status status, const char *sentence)
{
    tutti_run *run = arg;

    pthread_mutex_lock(&run->trouble_lock);
    if (run->ntroubles < TT_RUN_TROUBLES) {
        struct tt_run_trouble *t = &run->troubles[run->ntroubles++];

        t->context = context;
        t->status = status;
        snprintf(t->sentence, sizeof t->sentence, "%s", sentence);
    }
    pthread_mutex_unlock(&run->trouble_lock);
    tt_run_wake(run);
}

struct tt_engine_hooks tt_space_hooks(tutti_run *run)
{
    return (struct tt_engine_hooks){ .arg = run, .failed = failed_here };
}

/* Why the epoch is over. What ends a communicator that this member has is in the log; ABORTED is not: the program knows that itself. */
static void keep_why(tutti_run *run, uint32_t context, tutti_status status, const char *sentence)
{
    const uint32_t at = context - first_context(run->space.epoch);

    run->stop_logged |= status != TUTTI_ERR_ABORTED && (at == 0 || (at - 1) % TT_ELASTIC_TAGS < run->ntags);
    if (!*run->stop_why)
        snprintf(run->stop_why, sizeof run->stop_why, "%s", sentence);
}

/* A deadline passed in this communicator, at this member. */
static void note_late(tutti_run *run, uint32_t context)
{
    const uint32_t at = context - first_context(run->space.epoch);

    if (at > 0 && (at - 1) % TT_ELASTIC_TAGS < run->ntags)
        run->tags[(at - 1) % TT_ELASTIC_TAGS].late_here = run->space.epoch;
}

/* A communicator of the view failed: the others hear why, and the epoch ends for all, for nothing more can be done in it. A lost member the
 * coordinator will tell of in any case; a connection that was cut between two that live it would not hear of otherwise. */
static void told(tutti_run *run, const struct tt_run_trouble *t)
{
    struct tt_said s = {
        .kind = TT_SAID_FAILED, .epoch = run->space.epoch, .context = t->context, .status = (uint32_t)t->status
    };
    const bool own = tt_space_has(run->space.epoch, t->context);

    if (run->space.epoch == 0 || run->space.epoch != run->m.epoch || (t->context >= TT_ENGINE_CONTEXTS_OWN && !own))
        return;
    snprintf(s.text, sizeof s.text, "%s", t->sentence);
    tt_peers_say(run, &s);
    if (own && t->status == TUTTI_ERR_TIMEOUT)
        note_late(run, t->context);
    if (!own || run->m.stopped)
        return;
    keep_why(run, t->context, t->status, t->sentence);
    tt_run_end_epoch(run, t->status);
}

void tt_space_hear(tutti_run *run)
{
    struct tt_run_trouble troubles[TT_RUN_TROUBLES];
    uint32_t n;

    pthread_mutex_lock(&run->trouble_lock);
    n = run->ntroubles;
    memcpy(troubles, run->troubles, n * sizeof *troubles);
    run->ntroubles = 0;
    pthread_mutex_unlock(&run->trouble_lock);
    for (uint32_t i = 0; i < n; i++)
        told(run, &troubles[i]);
}

void tt_space_failed(tutti_run *run, const struct tt_said *s)
{
    const tutti_status st = s->status == TUTTI_ERR_INVALID ? TUTTI_ERR_PROTOCOL : (tutti_status)s->status;

    if (s->epoch != run->space.epoch || !run->home.world)
        return;
    if (tt_space_has(s->epoch, s->context) && s->epoch == run->m.epoch && !run->m.stopped)
        keep_why(run, s->context, st, s->text);
    tt_engine_fail_context(run->home.world->engine, UINT32_MAX, s->context, st, s->text); /* INVALID is what was never started */
}
