#include "engine/profile.h"

#include "base/clock.h"
#include "engine/exec_actions.h"
#include "engine/progress.h"

#define LOOK_NS 2000    /* a poll without events that takes at most this long has moved no data */

void tt_engine_time(struct tt_engine *e, bool on)
{
    tt_progress_lock(e);
    e->timed = on;
    e->timers = (struct tt_profile){ .calls = 0 };
    tt_progress_unlock(e);
}

void tt_engine_profile(struct tt_engine *e, struct tt_profile *out)
{
    tt_progress_lock(e);
    *out = e->timers;
    tt_progress_unlock(e);
}

void tt_profile_begin(struct tt_op *op)
{
    struct tt_engine *e = op->context->engine;

    op->began_ns = 0;
    if (!e->timed || op->exec.straight)
        return;
    op->began_ns = tt_now_ns();
    e->ntimed++;
}

void tt_profile_end(struct tt_op *op)
{
    struct tt_engine *e = op->context->engine;

    if (!op->began_ns)
        return;
    e->ntimed--;
    e->timers.calls++;
    e->timers.call_ns += tt_now_ns() - op->began_ns;
    if (op->exec.most_in_flight > e->timers.most_in_flight)
        e->timers.most_in_flight = op->exec.most_in_flight;
    op->began_ns = 0;
}

static bool is_forwarded(const struct tt_place *p)
{
    return p->kind == TT_AT_REMOTE || p->kind == TT_AT_STAGE;
}

static uint64_t *timer_of(struct tt_profile *t, const struct tt_action *a)
{
    switch (a->kind) {
    case TT_ACT_REDUCE:
        return is_forwarded(&a->out) && (a->out2.kind == TT_AT_NONE || is_forwarded(&a->out2))
                   ? &t->forward_ns
                   : &t->reduce_ns;
    case TT_ACT_COPY:
        return &t->copy_ns;
    default:
        return &t->send_ns;
    }
}

bool tt_profile_perform(struct tt_op *op, const struct tt_action *a)
{
    struct tt_engine *e = op->context->engine;
    uint64_t began_ns;
    bool done;

    if (!op->began_ns)
        return tt_op_perform(op, a);
    began_ns = tt_now_ns();
    done = tt_op_perform(op, a);
    *timer_of(&e->timers, a) += tt_now_ns() - began_ns;
    return done;
}

void tt_profile_polled(struct tt_engine *e, uint64_t ns, bool any)
{
    if (any || ns > LOOK_NS)
        e->timers.wire_ns += ns;
}
