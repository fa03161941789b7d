#include "engine/profile.h"

#include "base/clock.h"
#include "engine/exec_actions.h"
#include "engine/progress_lock.h"

#define LOOK_NS \
    2000 /* a poll without events that takes at most this long has transferred no
                           data */

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
    if (!op->exec.straight)
        op->stages = (struct tt_stage_times){ .nested = 0 };
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

/* ---- stages ---- */

static int stage_of(const struct tt_action *a)
{
    switch (a->kind) {
    case TT_ACT_REDUCE: return TT_STAGE_REDUCE;
    case TT_ACT_COPY: return TT_STAGE_COPY;
    case TT_ACT_EAGER:
    case TT_ACT_PUT: return TT_STAGE_SEND;
    default: return TT_STAGES;
    }
}

/* Performs an action of an operation that is in the trace. Registration within it has its own
 * stage. */
static bool perform_traced(struct tt_op *op, const struct tt_action *a)
{
    const int stage = stage_of(a);
    uint64_t began;
    bool done;

    if (!op->record || op->exec.straight || stage == TT_STAGES)
        return tt_op_perform(op, a);
    op->stages.nested = 0;
    began = tt_tick_now();
    done = tt_op_perform(op, a);
    op->stages.of[stage] += tt_tick_now() - began - op->stages.nested;
    return done;
}

/* Returns the tick of the first data of a peer; 0: unknown. */
static uint64_t first_data_of(const struct tt_flow *f)
{
    const uint64_t out = f->trace.first_out, in = f->trace.first_in;

    return !f->cp ? 0 : !out || (in && in < out) ? in : out;
}

void tt_profile_trace_stages(struct tt_op *op)
{
    uint64_t first = 0, message = 0;

    if (!op->record || op->exec.straight)
        return;
    for (uint32_t i = 0; i < op->exec.npeers; i++) {
        const uint64_t t = first_data_of(&op->flow[i]);

        if (t && (!first || t < first)) {
            first = t;
            message = op->flow[i].trace.first_message;
        }
    }
    if (op->called_tick && first > op->called_tick)
        op->stages.first_data = first - op->called_tick;
    if (op->called_tick && message > op->called_tick)
        op->stages.first_message = message - op->called_tick;
    tt_stages_set(op->record, &op->stages);
}

/* ---- timers ---- */

bool tt_profile_perform(struct tt_op *op, const struct tt_action *a)
{
    struct tt_engine *e = op->context->engine;
    uint64_t began_ns;
    bool done;

    if (!op->began_ns)
        return perform_traced(op, a);
    began_ns = tt_now_ns();
    done = perform_traced(op, a);
    *timer_of(&e->timers, a) += tt_now_ns() - began_ns;
    return done;
}

void tt_profile_polled(struct tt_engine *e, uint64_t ns, bool any)
{
    if (any || ns > LOOK_NS)
        e->timers.wire_ns += ns;
}
