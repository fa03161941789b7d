#include "engine/engines.h"

#include <pthread.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/engine_client.h"
#include "engine/op_trace.h"
#include "engine/progress_lock.h"
#include "engine/quantized.h"
#include "engine/state.h"

/* Never locked while holding a progress lock. */
static struct {
    pthread_mutex_t lock;
    struct tt_engine *first;
} engines = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Runs in the child of a fork: discards the parent's engines, whose progress locks may be held. */
static void reset_after_fork(void)
{
    pthread_mutex_init(&engines.lock, NULL);
    engines.first = NULL;
}

#define COLLECT_NS (TT_SECOND / 2)      /* wait for one engine's progress lock */

#define ROLL_NS (3 * TT_SECOND)         /* wait for the responses of other ranks */
#define ROLL_EVERY_NS (2 * TT_MS)

/* Performs one step of each engine's roll call. Returns whether all are complete. */
static bool call_roll(bool begins)
{
    bool complete = true;

    for (struct tt_engine *e = engines.first; e; e = e->next_here) {
        if (!tt_progress_lock_until(e, tt_now_ns() + COLLECT_NS))
            continue;
        if (e->hooks.call_roll)
            complete &= e->hooks.call_roll(e->hooks.arg, begins);
        tt_progress_unlock(e);
    }
    return complete;
}

/* Performs the roll calls, for at most ROLL_NS. Releases the lock between two steps. */
static void await_roll(void)
{
    const uint64_t end_ns = tt_now_ns() + ROLL_NS;
    bool complete = false;

    for (bool begins = true; !complete && tt_now_ns() < end_ns; begins = false) {
        if (!begins)
            nanosleep(&(struct timespec){ .tv_nsec = ROLL_EVERY_NS }, NULL);
        pthread_mutex_lock(&engines.lock);
        complete = call_roll(begins);
        pthread_mutex_unlock(&engines.lock);
    }
}

/* Adds the state of all engines to a dump, except of those whose progress lock is not free within
 * COLLECT_NS. Called by the thread that writes dumps. */
static void engines_collect(struct tt_dump_state *s)
{
    s->roll_ns = tt_now_ns();
    await_roll();
    pthread_mutex_lock(&engines.lock);
    for (struct tt_engine *e = engines.first; e; e = e->next_here) {
        if (!tt_progress_lock_until(e, tt_now_ns() + COLLECT_NS)) {
            s->left_out++;
            continue;
        }
        tt_engine_dump(e, s);
        if (e->hooks.add_roll)
            e->hooks.add_roll(e->hooks.arg, s);
        tt_progress_unlock(e);
    }
    pthread_mutex_unlock(&engines.lock);
}

static void register_handlers(void)
{
    pthread_atfork(NULL, NULL, reset_after_fork);
    tt_dump_set_source(engines_collect);
}

void tt_engines_add(struct tt_engine *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_handlers);
    pthread_mutex_lock(&engines.lock);
    e->next_here = engines.first;
    engines.first = e;
    pthread_mutex_unlock(&engines.lock);
}

void tt_engines_remove(struct tt_engine *e)
{
    struct tt_engine **at = &engines.first;

    pthread_mutex_lock(&engines.lock);
    while (*at && *at != e)
        at = &(*at)->next_here;
    if (*at)
        *at = e->next_here;
    pthread_mutex_unlock(&engines.lock);
}

/* The conf of a quantized operation refers to internal packed buffers; own_src and own_dst are
 * the caller's. */
static bool op_uses(const struct tt_op *op, const void *mem, size_t bytes)
{
    const struct tt_coll *c = &op->conf.coll;
    const uint64_t row = op->conf.quant.count * tutti_dtype_bytes(op->conf.dtype);

    if (!tt_op_is_quantized(op))
        return tt_overlap(op->conf.src, tt_coll_src_bytes(c), mem, bytes) ||
               tt_overlap(op->conf.dst, tt_coll_dst_bytes(c), mem, bytes);
    return tt_overlap(op->own_src, c->kind == TT_REDUCE_SCATTER ? c->nranks * row : row, mem,
                      bytes) ||
           tt_overlap(op->own_dst, c->kind == TT_ALLGATHER ? c->nranks * row : row, mem, bytes);
}

static bool list_uses(const struct tt_op *op, const void *mem, size_t bytes)
{
    while (op && !op_uses(op, mem, bytes))
        op = op->next;
    return op;
}

static bool engine_uses(struct tt_engine *e, const void *mem, size_t bytes)
{
    bool uses;

    tt_progress_lock(e);
    uses = e->guest && e->guest->uses(e->guest->arg, mem, bytes);
    for (const struct tt_context *c = e->contexts; c && !uses; c = c->next)
        uses = list_uses(c->active, mem, bytes) || list_uses(c->waiting, mem, bytes);
    tt_progress_unlock(e);
    return uses;
}

bool tt_engines_use(const void *mem, size_t bytes)
{
    bool uses = false;

    pthread_mutex_lock(&engines.lock);
    for (struct tt_engine *e = engines.first; e && !uses; e = e->next_here)
        uses = engine_uses(e, mem, bytes);
    pthread_mutex_unlock(&engines.lock);
    return uses;
}
