/* Subscribers to the trace: callbacks at the beginning and end of operations. */
#include <pthread.h>
#include <stddef.h>
#include "base/options.h"
#include "base/status.h"
#include "trace/oplog.h"
#include "trace/view.h"

#define SUBSCRIBERS_MAX 8

/* Callbacks run under the read lock, so that a subscription ends when no callback is running. */
static struct {
    pthread_rwlock_t lock;
    tutti_trace_subscriber one[SUBSCRIBERS_MAX];
    bool used[SUBSCRIBERS_MAX];
    int n;
} subscribers = { .lock = PTHREAD_RWLOCK_INITIALIZER };

static void notify(uint64_t number, bool ended)
{
    struct tt_oplog_record record;
    struct tt_view view;

    if (!tt_oplog_ring_find(&tt_oplog_ring, number, &record))
        return;
    tt_view_fill(&record, &view);
    pthread_rwlock_rdlock(&subscribers.lock);
    for (int i = 0; i < SUBSCRIBERS_MAX; i++) {
        const tutti_trace_subscriber *s = &subscribers.one[i];

        if (subscribers.used[i] && (ended ? s->ended : s->began))
            (ended ? s->ended : s->began)(s->arg, &view.op);
    }
    pthread_rwlock_unlock(&subscribers.lock);
}

static int free_place(void)
{
    int i = 0;

    while (i < SUBSCRIBERS_MAX && subscribers.used[i])
        i++;
    return i;
}

tutti_status tutti_trace_subscribe(const tutti_trace_subscriber *subscriber, int *id)
{
    tutti_trace_subscriber mine;
    tutti_status st;
    int i;

    if (!subscriber || !id)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_trace_subscribe: %s is NULL",
                       subscriber ? "id" : "subscriber");
    st = tt_options_take(&mine, sizeof mine, sizeof mine, subscriber, "tutti_trace_subscribe",
                         "subscriber", "tutti_trace_subscriber");
    if (st)
        return st;
    if (!tt_oplog_depth())
        return tt_fail(TUTTI_ERR_UNSUPPORTED, "tutti_trace_subscribe: no operations are recorded "
                                              "(TUTTI_TRACE is 0, or there is no communicator)");
    tt_tick_refresh();
    pthread_rwlock_wrlock(&subscribers.lock);
    i = free_place();
    if (i < SUBSCRIBERS_MAX) {
        subscribers.one[i] = mine;
        subscribers.used[i] = true;
        subscribers.n++;
        atomic_store(&tt_oplog_notify, notify);
        atomic_fetch_or(&tt_oplog_state, TT_OPLOG_SUBSCRIBED);
    }
    pthread_rwlock_unlock(&subscribers.lock);
    if (i == SUBSCRIBERS_MAX)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "tutti_trace_subscribe: too many subscribers: the maximum is %d", i);
    *id = i;
    return TUTTI_OK;
}

tutti_status tutti_trace_unsubscribe(int id)
{
    bool was = false;

    pthread_rwlock_wrlock(&subscribers.lock);
    if (id >= 0 && id < SUBSCRIBERS_MAX) {
        was = subscribers.used[id];
        subscribers.used[id] = false;
        subscribers.n -= was;
    }
    if (was && subscribers.n == 0)
        atomic_fetch_and(&tt_oplog_state, ~(uint32_t)TT_OPLOG_SUBSCRIBED);
    pthread_rwlock_unlock(&subscribers.lock);
    return was ? TUTTI_OK
               : tt_fail(TUTTI_ERR_INVALID, "tutti_trace_unsubscribe: unknown subscription %d", id);
}
