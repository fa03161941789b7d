/* One mutex protects the board. Snapshots are reference-counted, so that publishing a newer one
 * never waits for a slow reader. */
#include "coordinator/snapshot.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include "base/clock.h"
#include "base/status.h"

const uint64_t tt_snapshot_bucket_ns[TT_SNAPSHOT_BUCKETS] = { 100000,    300000,    1000000,
                                                              3000000,   10000000,  100000000,
                                                              300000000, 1000000000 };

struct counted {
    struct tt_snapshot s; /* first: readers have a pointer to it */
    uint32_t readers;
    bool hangs;
};

struct tt_board {
    pthread_mutex_t lock;
    pthread_cond_t newer;
    void (*wake)(void *context);
    void *context;
    struct counted *latest;
    uint64_t hung_ns;
    bool wanted, ended;
};

struct tt_snapshot *tt_snapshot_create(uint32_t nmembers, uint32_t nevents)
{
    struct counted *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->s.members = calloc((size_t)nmembers + 1, sizeof *c->s.members);
    c->s.events = calloc((size_t)nevents + 1, sizeof *c->s.events);
    c->s.nmembers = nmembers;
    c->s.nevents = nevents;
    if (c->s.members && c->s.events)
        return &c->s;
    tt_snapshot_destroy(&c->s);
    return NULL;
}

void tt_snapshot_destroy(struct tt_snapshot *s)
{
    if (!s)
        return;
    free(s->members);
    free(s->events);
    free(s->links.ids);
    free(s->links.bytes_per_s);
    free(s->links.order);
    free(s->links.latency_s);
    free((struct counted *)s);
}

tutti_status tt_board_create(struct tt_board **out, void (*wake)(void *context), void *context)
{
    struct tt_board *b = calloc(1, sizeof *b);
    pthread_condattr_t attr;

    if (!b)
        return tt_fail(TUTTI_ERR_NOMEM, "coordinator: out of memory for the status snapshot");
    b->wake = wake;
    b->context = context;
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&b->newer, &attr);
    pthread_condattr_destroy(&attr);
    *out = b;
    return TUTTI_OK;
}

void tt_board_destroy(struct tt_board *b)
{
    if (!b)
        return;
    tt_assert(!b->latest || b->latest->readers == 0);
    if (b->latest)
        tt_snapshot_destroy(&b->latest->s);
    pthread_cond_destroy(&b->newer);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

bool tt_board_has_waiters(struct tt_board *b)
{
    bool wanted;

    pthread_mutex_lock(&b->lock);
    wanted = b->wanted;
    pthread_mutex_unlock(&b->lock);
    return wanted;
}

void tt_board_hang(struct tt_board *b, struct tt_snapshot *s)
{
    struct counted *old;

    pthread_mutex_lock(&b->lock);
    old = b->latest;
    b->latest = (struct counted *)s;
    b->latest->hangs = true;
    b->hung_ns = tt_now_ns();
    b->wanted = false;
    if (old) {
        old->hangs = false;
        if (old->readers > 0)
            old = NULL; /* the last reader frees the old snapshot */
    }
    pthread_cond_broadcast(&b->newer);
    pthread_mutex_unlock(&b->lock);
    if (old)
        tt_snapshot_destroy(&old->s);
}

void tt_board_end(struct tt_board *b)
{
    pthread_mutex_lock(&b->lock);
    b->ended = true;
    pthread_cond_broadcast(&b->newer);
    pthread_mutex_unlock(&b->lock);
}

static bool is_fresh(const struct tt_board *b, uint64_t now_ns)
{
    return b->latest && b->hung_ns + TT_SNAPSHOT_EVERY_NS > now_ns;
}

const struct tt_snapshot *tt_board_get(struct tt_board *b, uint64_t timeout_ns)
{
    const uint64_t now_ns = tt_now_ns(),
                   end_ns = timeout_ns > TT_NEVER - now_ns ? TT_NEVER / 2 : now_ns + timeout_ns;
    const struct timespec end = { .tv_sec = (time_t)(end_ns / TT_SECOND),
                                  .tv_nsec = (long)(end_ns % TT_SECOND) };
    const struct tt_snapshot *s = NULL;
    bool wake;

    pthread_mutex_lock(&b->lock);
    wake = b->wake && !b->ended && !is_fresh(b, now_ns);
    b->wanted |= wake;
    pthread_mutex_unlock(&b->lock);
    if (wake)
        b->wake(b->context);
    pthread_mutex_lock(&b->lock);
    while (wake && !b->ended && !is_fresh(b, now_ns))
        if (pthread_cond_timedwait(&b->newer, &b->lock, &end) == ETIMEDOUT)
            break;
    if (b->latest) {
        b->latest->readers++;
        s = &b->latest->s;
    }
    pthread_mutex_unlock(&b->lock);
    return s;
}

void tt_board_put(struct tt_board *b, const struct tt_snapshot *s)
{
    struct counted *c = (struct counted *)s;
    bool last;

    if (!s)
        return;
    pthread_mutex_lock(&b->lock);
    last = --c->readers == 0 && !c->hangs;
    pthread_mutex_unlock(&b->lock);
    if (last)
        tt_snapshot_destroy(&c->s);
}
