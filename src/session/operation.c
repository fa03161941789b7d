/* Elastic operations. A collective on the tag's communicator is followed by an all-reduce of the
 * members' latest update on the same communicator. Its completion proves that all members have
 * completed the collective: the operation is FINAL. The all-reduce takes log2 n exchanges of a few
 * bytes over existing connections, and distributes the update.
 *
 * Small operations with the same result on all members omit this all-reduce, unless the tag has
 * had no update for some time. A member that completes one has SETTLED it. When the epoch ends,
 * the coordinator sends the result to members without it.
 *
 * If anything fails, the epoch ends, and the coordinator decides the outcome
 * (elastic/coord_loss.c). Until then the input must be preserved: an in-place operation copies
 * it first. Tentative operations omit the all-reduce (deferred_commit.c). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/names.h"
#include "base/options.h"
#include "comm/tuner.h"
#include "session/run.h"

#define MEASURED_BYTES_MIN (1u << 20)   /* as documented in tutti/elastic.h */
#define SAME_TIME_NS (20 * TT_MS)
/* also documented there: of the operations of a tag that could be settled, the first one and every
 * UPDATE_EVERY-th exchange updates instead */
#define UPDATE_EVERY 8u

/* ---- arguments ---- */

/* Returns whether the result keeps its meaning if members are lost: buffers keep their shapes,
 * and no part belonged to the lost members. */
static bool can_shrink(tutti_coll coll)
{
    return coll == TUTTI_ALLREDUCE || coll == TUTTI_REDUCE || coll == TUTTI_BROADCAST ||
           coll == TUTTI_BARRIER || coll == TUTTI_ALLGATHERV || coll == TUTTI_GATHERV;
}

static bool has_counts(tutti_coll coll)
{
    return coll >= TUTTI_REDUCE_SCATTERV && coll <= TUTTI_ALLTOALLV;
}

/* Checks the fields that the collectives read from their tutti_call. */
static tutti_status check_reduction(const tutti_elastic *op, const char *name)
{
    const bool reduces = op->coll == TUTTI_ALLREDUCE || op->coll == TUTTI_REDUCE ||
                         op->coll == TUTTI_REDUCE_SCATTER || op->coll == TUTTI_REDUCE_SCATTERV;

    if (!reduces || (unsigned)op->op >= TUTTI_REDOP_COUNT)
        return TUTTI_OK;
    if (op->op == TUTTI_PREMUL_SUM && tt_reduce_scale_is_zero(op->scale))
        return tt_fail(TUTTI_ERR_INVALID, "%s: TUTTI_PREMUL_SUM requires op.scale: it is 0", name);
    if (op->divisor && (op->op != TUTTI_AVG || op->divisor > UINT32_MAX))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: op.divisor is %" PRIu64
                       " with op.op %s: it must be at most 2^32 - 1, and 0 unless op.op is avg",
                       name, op->divisor, tutti_redop_name(op->op));
    return TUTTI_OK;
}

static tutti_status check_partial(const tutti_elastic *op, const char *name)
{
    if (op->mode != TUTTI_PARTIAL)
        return op->withholds ? tt_fail(TUTTI_ERR_INVALID,
                                       "%s: op.withholds requires op.mode TUTTI_PARTIAL", name)
                             : TUTTI_OK;
    if (op->error_feedback)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: op.error_feedback cannot be combined with TUTTI_PARTIAL: a member "
                       "that withholds its input would still contribute its stored error",
                       name);
    if (op->coll != TUTTI_ALLREDUCE || (op->op != TUTTI_SUM && op->op != TUTTI_AVG))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: TUTTI_PARTIAL requires an allreduce with sum or avg, not %s%s%s", name,
                       tt_collective_name(op->coll), op->coll == TUTTI_ALLREDUCE ? " with " : "",
                       op->coll == TUTTI_ALLREDUCE ? tutti_redop_name(op->op) : "");
    return TUTTI_OK;
}

tutti_status tt_operation_check(const tutti_run *run, const tutti_elastic *op, uint32_t tag)
{
    const char *name = tt_operation_call();
    uint64_t bytes;
    tutti_status st;
    static const char *const modes[] = { "TUTTI_ABORT", "TUTTI_RETRY", "TUTTI_PARTIAL" };

    if (op->size != sizeof *op)
        return tt_fail(TUTTI_ERR_INVALID, "%s: op.size is %zu: must be sizeof(tutti_elastic), %zu",
                       name, op->size, sizeof *op);
    if ((unsigned)op->coll >= TUTTI_COLL_COUNT)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: op.coll is %d: must be from TUTTI_ALLREDUCE (0) to TUTTI_ALLTOALLV "
                       "(%d)",
                       name, (int)op->coll, TUTTI_COLL_COUNT - 1);
    if (!tt_bytes_of(op->count, sizeof(uint64_t), &bytes))
        return tt_fail(TUTTI_ERR_INVALID, "%s: op.count %zu does not fit in the address space",
                       name, op->count);
    bytes = op->count * tutti_dtype_bytes(op->type);
    if (!tt_memory_can_be(op->src, bytes) || !tt_memory_can_be(op->dst, bytes))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: op.count %zu: op.src at %p or op.dst at %p does not fit in the address "
                       "space",
                       name, op->count, op->src, op->dst);
    if ((unsigned)op->mode > TUTTI_PARTIAL)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: op.mode of %s is %d: must be TUTTI_ABORT (%d), TUTTI_RETRY (%d) or "
                       "TUTTI_PARTIAL (%d)",
                       name, tt_collective_name(op->coll), (int)op->mode, TUTTI_ABORT, TUTTI_RETRY,
                       TUTTI_PARTIAL);
    st = tt_options_flag(name, "op.withholds", op->withholds);
    if (!st)
        st = tt_options_flag(name, "op.tentative", op->tentative);
    if (!st)
        st = tt_options_enum(name, "op.quant", (int)op->quant, TUTTI_QUANT_COUNT - 1);
    if (st)
        return st;
    if (tag >= run->ntags)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: tag is %u: must be 0 to %u (tutti_run_conf.tags is %u)", name, tag,
                       run->ntags - 1, run->ntags);
    if (op->tentative && !tt_deferred_fits(op))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: %s in mode %s cannot be tentative: only allreduce, reduce_scatter, "
                       "allgather, alltoall and barrier in mode TUTTI_ABORT can",
                       name, tt_collective_name(op->coll), modes[op->mode]);
    if ((unsigned)op->scope > TUTTI_SCOPE_GROUP)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: op.scope is %d: must be TUTTI_SCOPE_ALL (%d), TUTTI_SCOPE_ROLE (%d) "
                       "or TUTTI_SCOPE_GROUP (%d)",
                       name, (int)op->scope, TUTTI_SCOPE_ALL, TUTTI_SCOPE_ROLE, TUTTI_SCOPE_GROUP);
    if (op->scope == TUTTI_SCOPE_GROUP && run->m.conf.nroles <= 1)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: TUTTI_SCOPE_GROUP requires replica groups, but the run has none (set "
                       "tutti_run_conf.nroles)",
                       name);
    if (has_counts(op->coll) && (!op->counts || (op->coll == TUTTI_ALLTOALLV && !op->recv_counts)))
        return tt_fail(TUTTI_ERR_INVALID, "%s: op.%s is NULL", name,
                       op->counts ? "recv_counts" : "counts");
    if (op->mode == TUTTI_RETRY && op->scope != TUTTI_SCOPE_GROUP && !can_shrink(op->coll))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: op.mode is TUTTI_RETRY: %s cannot be retried with fewer ranks, because "
                       "its buffer sizes "
                       "depend on the number of ranks",
                       name, tt_collective_name(op->coll));
    st = check_reduction(op, name);
    return st ? st : check_partial(op, name);
}

/* ---- steps ---- */

static tutti_status may_begin(tutti_run *run, uint32_t tag)
{
    const tutti_status st = tt_run_check(run);

    if (st)
        return st;
    if (run->space.epoch == 0)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: this member is not in a view (call tutti_run_epoch to join one)",
                       tt_operation_call());
    if (run->tags[tag].in_use)
        return tt_fail(TUTTI_ERR_INVALID, "%s: an operation with tag %u is already in progress",
                       tt_operation_call(), tag);
    if (run->calling)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: a group call of the run (epoch, commit, sync, ...) is in progress",
                       tt_operation_call());
    return TUTTI_OK;
}

static tutti_status epoch_is_over(const tutti_run *run)
{
    char why[TT_ERROR_BYTES];

    snprintf(why, sizeof why,
             "epoch %" PRIu64 " is over%s%s (call tutti_run_epoch for the next view)",
             run->space.epoch, *run->stop_why ? ": " : "", run->stop_why);
    return tt_fail_again(TUTTI_ERR_PEER_LOST, why);
}

/* Returns the algorithm. If the order of ranks was optimized for one or two rings or for trees, a
 * long all-reduce uses the corresponding algorithm. With replica groups the order is that of one
 * role. */
static const char *operation_algo(const tutti_run *run, const tutti_elastic *op)
{
    if (run->m.conf.nroles > 1 && op->scope != TUTTI_SCOPE_ROLE)
        return op->algo;
    if (op->algo || op->coll != TUTTI_ALLREDUCE ||
        op->count * tutti_dtype_bytes(op->type) < MEASURED_BYTES_MIN)
        return op->algo;
    switch (run->m.plan) {
    case TT_RING_AS_RING:
        return "allreduce_ring";
    case TT_RING_AS_TWO_RINGS:
        return "allreduce_two_rings";
    case TT_RING_AS_TREES: /* trees do not attribute quantization errors to ranks */
        return op->error_feedback ? NULL : "allreduce_dtree";
    default:
        return NULL;
    }
}

/* Returns the mode in the descriptor, which must be equal on all ranks. */
static enum tt_op_mode operation_mode(const struct tt_operation *o)
{
    return o->tentative                   ? TT_MODE_TENTATIVE
           : o->op->mode == TUTTI_RETRY   ? TT_MODE_RETRY
           : o->op->mode == TUTTI_PARTIAL ? TT_MODE_PARTIAL
                                          : TT_MODE_ABORT;
}

/* Returns the size of a small result that is equal on all members, and that none has before all
 * have begun. A barrier counts as one byte. 0: another collective, or a result that is too
 * large. */
static size_t small_result(const struct tt_operation *o)
{
    const tutti_elastic *op = o->op;
    const size_t element = tutti_dtype_bytes(op->type),
                 each = op->coll == TUTTI_ALLGATHER ? o->nranks * element : element;

    if (op->coll == TUTTI_BARRIER)
        return 1;
    if ((op->coll != TUTTI_ALLREDUCE && op->coll != TUTTI_ALLGATHER) ||
        op->quant != TUTTI_QUANT_NONE || each == 0)
        return 0;
    return op->count <= TT_SETTLED_BYTES / each ? op->count * each : 0;
}

/* Returns whether the first member with the result settles the operation. Equal on all members: it
 * depends only on the compared descriptors, and on earlier operations of the tag. */
static bool is_settled(const tutti_run *run, const struct tt_operation *o, uint64_t n)
{
    return o->op->mode != TUTTI_PARTIAL && !o->tentative && run->m.conf.nroles == 1 &&
           o->nranks > 1 && small_result(o) > 0 && o->kept->told_epoch == o->epoch &&
           n - o->kept->told_n < UPDATE_EVERY;
}

/* Waits until no other thread forms the next view. *deadline_ns: see tt_run_wait_awake. */
static tutti_status await_recovery(tutti_run *run, uint64_t *deadline_ns)
{
    while (run->recovering && !run->over)
        if (!tt_run_wait_awake(run, deadline_ns) && run->recovering && !run->over)
            return tt_fail(TUTTI_ERR_TIMEOUT,
                           "%s: another thread did not form the next view before the deadline",
                           tt_operation_call());
    return TUTTI_OK;
}

tutti_status tt_operation_begin(tutti_run *run, struct tt_operation *o, tutti_elastic *op,
                                uint32_t tag, uint64_t deadline_ns)
{
    struct tt_tag *t = &run->tags[tag];
    tutti_status st = await_recovery(run, &deadline_ns);

    if (!st)
        st = may_begin(run, tag);
    if (!st)
        st = tt_deferred_refuse(run, op, "tutti_run_collective");
    if (st) {
        if (run->over && !t->in_use)
            tt_deferred_deliver(run, tag);
        return st;
    }
    if (run->m.stopped || run->m.epoch != run->space.epoch) {
        if (tt_deferred_is(run, op))
            tt_deferred_set_pending(run, tag);
        t->in_use = true;
        run->noperations++;
        tt_deferred_await(run, tag, tt_run_deadline(run, 0));
        run->noperations--;
        t->in_use = false;
        return run->over ? tt_run_check(run) : epoch_is_over(run);
    }
    st = tt_deferred_follows(run, op, tag);
    if (st)
        return st;
    *o = (struct tt_operation){ .op = op,
                                .tag = tag,
                                .epoch = run->space.epoch,
                                .deadline_ns = deadline_ns,
                                .nranks = run->space.nranks,
                                .comm = run->space.tags[tag],
                                .kept = t,
                                .tentative = tt_deferred_is(run, op) };
    o->call = (tutti_call){ .size = sizeof o->call,
                            .algo = operation_algo(run, op),
                            .scale = op->scale,
                            .quant = op->quant,
                            .error_feedback = op->error_feedback,
                            .divisor = op->divisor };
    st = tt_subgroup_take(run, o);
    if (st == TUTTI_ERR_NOMEM || (st == TUTTI_ERR_ABORTED && op->scope != TUTTI_SCOPE_ALL))
        /* other members may have begun: they must not wait for this one */
        tt_run_end_epoch(run, st);
    if (st)
        return st;
    o->contributors = o->nscope;
    o->seen_ns = tt_now_ns();
    st = tt_member_begin(&run->m, tag, o->seen_ns);
    if (st) {
        tt_subgroup_drop(o);
        return tt_fail(
            st, "tutti_run_collective: cannot start an operation with tag %u in this view", tag);
    }
    tt_context_set_operation(o->comm->context, operation_mode(o), tag, run->m.ops[tag].n);
    tt_context_set_operation(o->scope->context, operation_mode(o), tag, run->m.ops[tag].n);
    if (o->tentative)
        tt_deferred_set_pending(run, tag);
    t->in_use = true;
    t->done = false;
    t->n = run->m.ops[tag].n;
    o->settles = is_settled(run, o, t->n);
    if (o->settles)
        tt_member_may_settle(&run->m, tag, (uint32_t)small_result(o));
    t->inside = o;
    t->inside_ns = o->seen_ns + run->m.lease_ns / 2;
    run->noperations++;
    run->ninside++;
    o->record = tt_run_trace_operation(run, o);
    return TUTTI_OK;
}

/* A member that withholds contributes zeros. */
static void clear_contribution(const tutti_elastic *op)
{
    const size_t bytes = tutti_dtype_bytes(op->type);

    if (op->dst && bytes && op->count <= (SIZE_MAX >> 1) / bytes) /* else the call is refused */
        memset(op->dst, 0, op->count * bytes);
}

tutti_status tt_operation_perform(struct tt_operation *o, tutti_request **request)
{
    const tutti_elastic *op = o->op;
    const void *src = op->withholds ? op->dst : op->src;
    tutti_call *call = &o->call;
    const tutti_status st = tt_saved_take(o); /* copied without the lock, since a large copy would
                                                 delay other threads */

    if (st)
        return st;
    if (op->withholds)
        clear_contribution(op);
    call->request = request;
    call->timeout_ms = tt_operation_left_ms(o);
    switch (op->coll) {
    case TUTTI_ALLREDUCE:
        return tutti_allreduce(src, op->dst, op->count, op->type, op->op, o->scope, call);
    case TUTTI_REDUCE:
        return tutti_reduce(src, op->dst, op->count, op->type, op->op, o->root, o->scope, call);
    case TUTTI_REDUCE_SCATTER:
        return tutti_reduce_scatter(src, op->dst, op->count, op->type, op->op, o->scope, call);
    case TUTTI_ALLGATHER:
        return tutti_allgather(src, op->dst, op->count, op->type, o->scope, call);
    case TUTTI_BROADCAST:
        return tutti_broadcast(src, op->dst, op->count, op->type, o->root, o->scope, call);
    case TUTTI_GATHER:
        return tutti_gather(src, op->dst, op->count, op->type, o->root, o->scope, call);
    case TUTTI_SCATTER:
        return tutti_scatter(src, op->dst, op->count, op->type, o->root, o->scope, call);
    case TUTTI_ALLTOALL:
        return tutti_alltoall(src, op->dst, op->count, op->type, o->scope, call);
    case TUTTI_REDUCE_SCATTERV:
        return tutti_reduce_scatterv(src, op->dst, o->counts, op->type, op->op, o->scope, call);
    case TUTTI_ALLGATHERV:
        return tutti_allgatherv(src, op->dst, o->counts, o->displs, op->type, o->scope, call);
    case TUTTI_GATHERV:
        return tutti_gatherv(src, op->dst, o->counts, o->displs, op->type, o->root, o->scope, call);
    case TUTTI_SCATTERV:
        return tutti_scatterv(src, op->dst, o->counts, o->displs, op->type, o->root, o->scope,
                              call);
    case TUTTI_ALLTOALLV:
        return tutti_alltoallv(src, o->counts, o->displs, op->dst, op->recv_counts, op->recv_displs,
                               op->type, o->scope, call);
    default:
        return tutti_barrier(o->scope, call);
    }
}

bool tt_operation_complete(tutti_run *run, struct tt_operation *o)
{
    o->seen_ns = tt_now_ns();
    if (o->settles) {
        if (!run->over)
            tt_member_settle(&run->m, o->tag, o->op->coll == TUTTI_BARRIER ? "" : o->op->dst,
                             o->seen_ns);
        return false;
    }
    if (run->over || !tt_member_complete_alone(&run->m, o->tag, &o->mine, o->seen_ns))
        return false;
    if (o->nranks == 1) {
        tt_member_all_complete(&run->m, o->tag, &o->mine, o->seen_ns);
        return false;
    }
    tt_membership_write(&o->mine, o->news);
    return true;
}

tutti_status tt_operation_vote(struct tt_operation *o, tutti_request **request)
{
    o->call = (tutti_call){ .size = sizeof o->call,
                            .timeout_ms = tt_operation_left_ms(o),
                            .request = request,
                            .algo = tt_comm_shares_cores(o->comm) ? "allreduce_doubling" : NULL };
    tt_context_set_operation(o->comm->context, TT_MODE_OUTCOME, o->tag, o->kept->n);
    return tutti_allreduce(o->news, o->newest, TT_MEMBERSHIP_WORDS, TUTTI_U64, TUTTI_MAX, o->comm,
                           &o->call);
}

void tt_operation_voted(tutti_run *run, struct tt_operation *o)
{
    const struct tt_membership latest = tt_membership_read(o->newest, o->mine.number);

    if (!run->over)
        tt_member_all_complete(&run->m, o->tag, &latest, tt_now_ns());
}

/* Returns whether another member's deadline passed. If this member's deadline passes at the same
 * time, the timeout counts as this member's, unless this process was suspended. */
static bool is_other_deadline(const struct tt_operation *o, tutti_status st)
{
    const uint64_t now_ns = tt_now_ns();

    if (st != TUTTI_ERR_TIMEOUT || o->kept->late_here == o->epoch)
        return false;
    return o->deadline_ns == TT_NEVER || now_ns + SAME_TIME_NS < o->deadline_ns ||
           tt_run_was_stalled(o->deadline_ns, now_ns);
}

void tt_operation_fail(tutti_run *run, struct tt_operation *o, tutti_status st)
{
    bool theirs;

    snprintf(o->kept->why, sizeof o->kept->why, "%s", tutti_last_error());
    if (!run->over)
        /* otherwise the other members would receive only the coordinator's message, without the
         * details */
        tt_view_comms_read_reports(run);
    theirs = is_other_deadline(o, st);
    /* for this member the epoch has ended, whichever report arrives first */
    o->failed = theirs ? TUTTI_ERR_PEER_LOST : st;
    if (run->over || run->m.stopped)
        return;
    if ((st == TUTTI_ERR_INVALID || st == TUTTI_ERR_UNSUPPORTED) &&
        run->m.ops[o->tag].state == TT_OP_PENDING &&
        /* not started; otherwise others may have a result that cannot be restored */
        !(o->tentative && tt_subgroup_is_part(run, o->op))) {
        tt_member_take_back(&run->m, o->tag, tt_now_ns());
        tt_deferred_refused(run, o);
        run->tags[o->tag].done = true;
        run->tags[o->tag].state = TT_OP_NONE;
        return;
    }
    if (!*run->stop_why)
        snprintf(run->stop_why, sizeof run->stop_why, "%.*s", (int)sizeof run->stop_why - 1,
                 o->kept->why);
    tt_run_end_epoch(run, theirs ? TUTTI_PENDING : st);
}

/* ---- detection of members in different calls ------------------------------------------------- */

/* An operation in the engine is never cancelled here; the coordinator compares the reports.
 * Heartbeats wake the thread at least every quarter of a lease. */
void tt_operation_tick(tutti_run *run, uint64_t now_ns)
{
    for (uint32_t tag = 0; run->ninside > 0 && tag < run->ntags; tag++) {
        struct tt_tag *t = &run->tags[tag];
        const struct tt_operation *o = t->inside;
        struct tt_op_name name = { .tag = (uint16_t)tag };

        if (!o || now_ns < t->inside_ns)
            continue;
        t->inside_ns = now_ns + run->m.lease_ns / 2;
        if (!tt_context_is_busy(o->scope->context) && !tt_context_is_busy(o->comm->context))
            continue;
        name.coll = (uint8_t)o->op->coll;
        name.type = (uint8_t)o->op->type;
        name.count = o->op->count;
        if (o->tentative && tt_subgroup_is_part(run, o->op))
            name.needs = o->op->scope == TUTTI_SCOPE_ROLE ? TT_OP_NEEDS_ROLE : TT_OP_NEEDS_GROUP;
        tt_member_report_wait(&run->m, &name, now_ns);
    }
}

/* ---- the outcome ---- */

static tutti_status lost_status(tutti_run *run, const struct tt_operation *o)
{
    const tutti_status st = run->over ? tt_run_check(run) : TUTTI_OK;

    if (st)
        return st;
    return o->failed ? tt_fail_again(o->failed, o->kept->why) : epoch_is_over(run);
}

/* Keeps the update of the first operation, by number and tag, that had the latest update. This does
 * not depend on the order of threads. */
static void keep_update(tutti_run *run, const struct tt_operation *o)
{
    const struct tt_tag *t = &run->tags[o->tag];
    const bool later = t->news.number > run->heard.number,
               again = t->news.number == run->heard.number;
    const bool first = t->n < run->heard_n || (t->n == run->heard_n && o->tag < run->heard_tag);

    if (o->epoch != run->space.epoch || t->news.number == 0 || !(later || (again && first)))
        return;
    run->heard = t->news;
    run->heard_n = t->n;
    run->heard_tag = o->tag;
}

/* Waits for the outcome. If no coordinator decides it within the timeout of a call, the member must
 * leave, because its state would differ from the others'. The operation's own deadline may pass
 * earlier; then the operation is not repeated. */
static void wait_outcome(tutti_run *run, const struct tt_operation *o)
{
    uint64_t deadline_ns;
    char what[64];

    if (run->tags[o->tag].done)
        return;
    deadline_ns = tt_run_deadline(run, 0);
    snprintf(what, sizeof what, "an operation in epoch %" PRIu64, o->epoch);
    while (!run->tags[o->tag].done && !run->over) {
        if (o->deadline_ns < deadline_ns && tt_now_ns() < o->deadline_ns) {
            if (!tt_run_wait(run, o->deadline_ns) &&
                !tt_run_was_stalled(o->deadline_ns, tt_now_ns()))
                o->kept->late_in = o->epoch;
        } else if (!tt_run_wait_awake(run, &deadline_ns) && !run->tags[o->tag].done && !run->over) {
            tt_run_give_up(run, what);
        }
    }
}

tutti_status tt_operation_judge(tutti_run *run, struct tt_operation *o)
{
    struct tt_tag *t = &run->tags[o->tag];
    tutti_status st;
    bool final;

    wait_outcome(run, o);
    /* the thread that forms the next view waits for outcomes: until then the machine accepts no
     * call */
    tt_operation_leave_engine(run, o);
    final = t->done && t->state != TT_OP_RESTORED && t->state != TT_OP_NONE;
    if (final) {
        if (t->given && o->op->coll != TUTTI_BARRIER)
            memcpy(o->op->dst, run->results[o->tag], run->m.ops[o->tag].nresult);
        keep_update(run, o);
        st = TUTTI_OK;
        run->stats.final++;
        o->op->contributors = o->contributors;
        if (!o->tentative)
            tt_deferred_clear_pending(run, o->tag);
        if (!o->tentative && !o->settles) {
            t->told_epoch = o->epoch;
            t->told_n = t->n;
        }
    } else {
        st = lost_status(run, o);
        run->stats.restored += !t->done || t->state == TT_OP_RESTORED; /* else it was refused */
        tt_saved_restore(run, t, &o->saved);
    }
    tt_deferred_deliver(run, o->tag); /* after this one, since both may use the same memory */
    o->op->status = st;
    o->op->epoch = o->epoch;
    tt_subgroup_drop(o);
    t->in_use = false;
    run->noperations--;
    tt_run_trace_end(o->record, st);
    return st;
}

/* ---- repetition ------------------------------------------------------------------------------ */

/* Waits until all threads' operations of the ended epoch have left the engine. */
static tutti_status await_others(tutti_run *run, uint64_t *deadline_ns)
{
    while (run->ninside > 0 && !run->over)
        if (!tt_run_wait_awake(run, deadline_ns) && run->ninside > 0 && !run->over)
            return tt_fail(TUTTI_ERR_TIMEOUT,
                           "%s: operations of other threads did not complete before the deadline",
                           tt_operation_call());
    return TUTTI_OK;
}

bool tt_operation_is_late(const tutti_run *run, uint32_t tag, uint64_t epoch)
{
    return run->tags[tag].late_in == epoch && epoch > 0;
}

tutti_status tt_operation_too_late(void)
{
    return tt_fail(TUTTI_ERR_TIMEOUT,
                   "%s: the outcome arrived after the deadline; the input was restored "
                   "(call tutti_run_epoch for the next view)",
                   tt_operation_call());
}

tutti_status tt_operation_recover(tutti_run *run, const tutti_elastic *op, uint64_t epoch,
                                  uint64_t deadline_ns)
{
    struct tt_view_result result = { .changed = false };
    tutti_status st = await_recovery(run, &deadline_ns);
    bool final;

    if (st)
        return st;
    if (run->over)
        return tt_run_check(run);
    /* another thread has formed the view, for operations with another `least` */
    if (run->space.epoch > epoch && !run->m.stopped) {
        st = tt_view_suffices(run, op->least, tt_operation_call());
        return st ? tt_fail_again(TUTTI_ERR_ABORTED, tutti_last_error()) : TUTTI_OK;
    }
    if (run->calling)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: a group call of the run (epoch, commit, sync, ...) is in progress",
                       tt_operation_call());
    if (tt_deferred_tried(run))
        /* another thread has tentative operations: this one must not form the next view */
        return epoch_is_over(run);
    if (run->m.epoch == 0)
        return tt_fail(TUTTI_ERR_ABORTED,
                       "%s: this member is not in a view (call tutti_run_epoch to join one)",
                       tt_operation_call());
    run->dropped = false;
    run->recovering = run->calling = true;
    st = await_others(run, &deadline_ns);
    if (!st)
        st = tt_view_again(run, op->least, deadline_ns, tt_operation_call(), &result);
    if (st == TUTTI_ERR_MISMATCH) /* the deadlines of the other members may have passed first */
        st = tt_run_epoch_over(run, tt_operation_call(),
                               "; other members did not retry, and called other operations (call "
                               "tutti_run_epoch for the next view)");
    run->recovering = run->calling = false;
    run->stats.retries += !st;
    final = result.too_few || run->dropped;
    run->dropped = false;
    pthread_cond_broadcast(&run->changed);
    return final ? tt_fail_again(TUTTI_ERR_ABORTED, tutti_last_error()) : st;
}

tutti_status tt_operation_caller_status(tutti_run *run, tutti_status st)
{
    bool over;

    if (st != TUTTI_ERR_ABORTED)
        return st;
    tt_run_lock(run);
    over = run->over;
    tt_run_unlock(run);
    return over ? st : tt_fail_again(TUTTI_ERR_PEER_LOST, tutti_last_error());
}

/* Makes one attempt, from begin to outcome. */
static tutti_status operation_attempt(tutti_run *run, tutti_elastic *op, uint64_t *epoch,
                                      uint64_t deadline_ns)
{
    struct tt_operation o;
    tutti_status st;
    bool votes;

    tt_run_lock(run);
    *epoch = run->space.epoch;
    st = tt_operation_begin(run, &o, op, op->tag, deadline_ns);
    tt_run_unlock(run);
    if (st)
        return st;
    *epoch = o.epoch;
    st = op->mode == TUTTI_PARTIAL ? tt_partial_exchange(&o, NULL) : TUTTI_OK;
    if (!st && op->mode == TUTTI_PARTIAL)
        tt_partial_apply(&o);
    if (!st)
        st = tt_operation_perform(&o, NULL);
    tt_run_lock(run);
    if (!st && o.tentative && tt_deferred_keep(run, &o)) {
        tt_run_unlock(run);
        return TUTTI_OK;
    }
    votes = !st && tt_operation_complete(run, &o);
    if (votes) {
        tt_run_unlock(run);
        st = tt_operation_vote(&o, NULL);
        tt_run_lock(run);
        if (!st)
            tt_operation_voted(run, &o);
    }
    if (st)
        tt_operation_fail(run, &o, st);
    st = tt_operation_judge(run, &o);
    tt_run_unlock(run);
    return st;
}

void tt_operation_refused(tutti_elastic *op, tutti_status st)
{
    /* the descriptor of a pending tentative operation was passed again */
    const bool is_pending = op->status == TUTTI_PENDING && st == TUTTI_ERR_INVALID;

    if (op->size == sizeof *op && !is_pending)
        op->status = st;
}

tutti_status tutti_run_collective(tutti_run *run, tutti_elastic *op)
{
    uint64_t epoch, deadline_ns;
    tutti_status st;

    st = tt_run_check_call(run, op, "op", tt_operation_call());
    if (st)
        return st;
    st = tt_operation_check(run, op, op->tag);
    if (st) {
        tt_operation_refused(op, st);
        return st;
    }
    op->attempts = 0;
    deadline_ns = tt_run_deadline(run, op->timeout_ms);
    do {
        op->attempts++;
        st = operation_attempt(run, op, &epoch, deadline_ns);
        if (st != TUTTI_ERR_PEER_LOST || !tt_operation_retries(op))
            break;
        tt_run_lock(run);
        st = tt_operation_is_late(run, op->tag, epoch)
                 ? tt_operation_too_late()
                 : tt_operation_recover(run, op, epoch, deadline_ns);
        if (tt_run_was_stalled(deadline_ns, tt_now_ns()))
            deadline_ns = tt_run_deadline(run, op->timeout_ms);
        tt_run_unlock(run);
    } while (!st);
    st = tt_operation_caller_status(run, st);
    if (st)
        tt_operation_refused(op, st);
    return st;
}

tutti_status tutti_run_allreduce(tutti_run *run, const void *src, void *dst, size_t count,
                                 tutti_dtype type, tutti_redop op, uint32_t tag)
{
    tutti_elastic e = { .size = sizeof e,
                        .coll = TUTTI_ALLREDUCE,
                        .src = src,
                        .dst = dst,
                        .count = count,
                        .type = type,
                        .op = op,
                        .tag = tag,
                        .mode = TUTTI_RETRY };
    tutti_status st;

    tt_operation_enter_call("tutti_run_allreduce");
    st = tutti_run_collective(run, &e);
    tt_operation_enter_call(NULL);
    return st;
}
