#include "engine/failure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/any.h"
#include "engine/context.h"
#include "engine/context_end.h"
#include "engine/describe.h"
#include "engine/connect.h"
#include "engine/op.h"
#include "engine/op_trace.h"
#include "engine/receive.h"
#include "engine/progress_lock.h"
#include "engine/wait_report.h"

/* A report from another thread. */
struct tt_failure {
    struct tt_failure *next;
    bool is_context;
    uint32_t id;                /* context id, or job rank */
    uint32_t from;              /* job rank that reported it */
    tutti_status status;
    char sentence[TT_ERROR_BYTES];
};

#define LEFT_GRACE_NS (250 * TT_MS)
/* time before a deadline at which queries begin: enough to follow a chain of waiting ranks to one
 * that does not respond */
#define QUERY_BEFORE_NS (2 * TT_SECOND)
/* maximum time after a deadline for responses of queried ranks: on a busy machine each response
 * takes a while, and a chain of ranks is queried */
#define QUERY_AFTER_NS (5 * TT_SECOND)
#define LATE_NS (2 * TT_MS)             /* interval between checks for responses after a deadline */
/* shortest stop that is detected; longer than any sleep */
#define STOP_NS_MIN (2 * TT_SECOND)

/* A rank whose communicator fails sends the reason over the control overlay before it disconnects,
 * but the disconnect may arrive first. This function therefore allows LEFT_GRACE_NS for the reason,
 * and reads the reports that have arrived by then. */
bool tt_peer_is_gone(struct tt_engine *e, const struct tt_peer *p)
{
    if (p->state != TT_PEER_LEFT || tt_now_ns() < p->left_ns + LEFT_GRACE_NS)
        return false;
    tt_engine_read_reports(e);
    return atomic_load(&e->ntrouble) == e->trouble_seen;
}

/* Returns whether all other ranks have closed the communicator. Then no message can arrive. */
static bool all_have_closed(const struct tt_op *op)
{
    const struct tt_context *c = op->context;

    if (!op->unmatched || !tt_op_is_from_any(op) || c->nranks == 1)
        return false;
    for (uint32_t i = 0; i < c->nranks; i++) {
        const struct tt_peer *p = i == c->rank ? NULL : tt_peer_get(c->engine, c->ranks[i]);

        if (i != c->rank && (!p || !tt_peer_is_gone(c->engine, p)))
            return false;
    }
    return true;
}

/* Fails the operations that wait for a rank that has left; the others continue. */
static void check_left(struct tt_engine *e)
{
    for (struct tt_context *c = e->contexts, *next; c; c = next) {
        next = c->next;
        for (const struct tt_op *op = c->active; op; op = op->next) {
            const uint32_t r = tt_op_waits_for(op);
            const struct tt_peer *p = r == UINT32_MAX ? NULL : tt_peer_get(e, r);
            char who[TT_RANK_TEXT_BYTES], why[128 + TT_REPORT_TEXT_BYTES],
                told[TT_REPORT_TEXT_BYTES];

            if (all_have_closed(op)) {
                tt_context_fail_here(c, TUTTI_ERR_PEER_LOST,
                                     "all other ranks have closed the communicator, but a receive "
                                     "from any rank is pending",
                                     true);
                break;
            }
            if (!p || !tt_peer_is_gone(e, p))
                continue;
            snprintf(why, sizeof why,
                     "%s has closed its communicator, but an operation still waits for it%s",
                     tt_rank_text(e, r, who), tt_report_text(e, r, told));
            tt_context_fail_here(c, TUTTI_ERR_PEER_LOST, why, true);
            break;
        }
    }
}

static void queue_report(struct tt_engine *e, bool is_context, uint32_t from, uint32_t id,
                         tutti_status st, const char *sentence)
{
    struct tt_failure *t = calloc(1, sizeof *t);
    const uint64_t one = 1;

    if (t) {
        t->is_context = is_context;
        t->from = from;
        t->id = id;
        t->status = st;
        snprintf(t->sentence, sizeof t->sentence, "%s", sentence);
    }
    pthread_mutex_lock(&e->trouble_lock);
    if (t) {
        t->next = e->trouble;
        e->trouble = t;
    } else {
        e->trouble_missed = true;
    }
    pthread_mutex_unlock(&e->trouble_lock);
    atomic_fetch_add(&e->ntrouble, 1);
    if (write(e->kick_fd, &one, sizeof one) < 0)
        return;                 /* a full eventfd wakes as well */
}

void tt_engine_lost(struct tt_engine *e, uint32_t rank, const char *sentence)
{
    queue_report(e, false, rank, rank, TUTTI_ERR_PEER_LOST, sentence);
}

void tt_engine_fail_context(struct tt_engine *e, uint32_t from, uint32_t id, tutti_status status,
                            const char *sentence)
{
    queue_report(e, true, from, id, status, sentence);
}

bool tt_engine_has_lost(struct tt_engine *e, uint32_t rank)
{
    const struct tt_peer *p;
    bool lost;

    tt_progress_lock(e);
    p = tt_peer_get(e, rank);
    lost = p && (p->state == TT_PEER_LOST || p->state == TT_PEER_LEFT);
    tt_progress_unlock(e);
    return lost;
}

void tt_take_failures(struct tt_engine *e)
{
    struct tt_failure *list = NULL, *t;
    bool missed;

    e->trouble_seen = atomic_load(&e->ntrouble);
    pthread_mutex_lock(&e->trouble_lock);
    while ((t = e->trouble)) {      /* reverse the list: the oldest report gives the reason */
        e->trouble = t->next;
        t->next = list;
        list = t;
    }
    missed = e->trouble_missed;
    e->trouble_missed = false;
    pthread_mutex_unlock(&e->trouble_lock);
    for (struct tt_context *c = e->contexts, *next; missed && c; c = next) {
        next = c->next;
        tt_context_fail_here(c, TUTTI_ERR_NOMEM, "out of memory for a failure report", true);
    }
    while ((t = list)) {
        list = t->next;
        if (t->is_context) {
            struct tt_context *c = tt_context_find(e, t->id);

            tt_report_keep(e, t->from, t->sentence);
            if (c && !atomic_load(&c->status))
                c->failed_by = t->from;
            if (c)              /* else this rank is not a member, or has closed it */
                tt_context_fail_here(c, t->status, t->sentence, false);
        } else {
            tt_peer_lost(e, t->id, t->sentence);
        }
        free(t);
    }
}

/* Fails the contexts at once, so that contexts opened later are not affected. */
bool tt_engine_fail_all(struct tt_engine *e, tutti_status status, const char *sentence)
{
    bool ends_some = false;

    tt_progress_lock(e);
    tt_take_failures(e);
    for (struct tt_context *c = e->contexts, *next; c; c = next) {
        next = c->next;
        if (atomic_load(&c->status) == TUTTI_OK) { /* logged once, by the caller */
            if (c->active || c->waiting) {      /* otherwise the view ends in order, without a
                                                   failure */
                ends_some = true;
                tt_context_trace_failure(c, status, sentence);
            }
            c->why = strdup(sentence);
            atomic_store(&c->status, (int)status);
        }
        tt_context_fail_here(c, status, sentence, false);
    }
    tt_progress_unlock(e);
    return ends_some;
}

/* Finds the rank that op waits for. If op has not begun, finds the rank that the oldest blocked
 * operation waits for. Returns false if there is none. */
static bool find_waited_for(const struct tt_op *op, struct tt_waiting *out)
{
    const struct tt_op *at = op->exposed ? op : op->context->active;
    uint32_t rank = UINT32_MAX;

    while (at && (rank = tt_op_waits_for(at)) == UINT32_MAX && !op->exposed)
        at = at->next;
    if (rank == UINT32_MAX)
        return false;
    *out = (struct tt_waiting){ .context = op->context->id,
                                .rank = rank,
                                .op = at->p2p ? UINT64_MAX : at->seq };
    return true;
}

/* Finds the rank that caused op to miss its deadline. Reports that have arrived are processed
 * first, because this process itself may have been stopped. *w: what op waits for. */
static enum tt_blame find_blamed(struct tt_engine *e, const struct tt_op *op, struct tt_waiting *w,
                                 struct tt_blamed *out)
{
    *out = (struct tt_blamed){
        .silent = UINT32_MAX, .idle = UINT32_MAX, .gone = UINT32_MAX, .next = UINT32_MAX
    };
    if (!e->hooks.blame || !find_waited_for(op, w))
        return TT_BLAME_NOBODY;
    tt_engine_read_reports(e);
    if (atomic_load(&e->ntrouble) != e->trouble_seen)
        return TT_BLAME_OPEN;   /* a report gives the reason */
    return e->hooks.blame(e->hooks.arg, w, op->deadline_ns, out);
}

#define BLAME_TEXT_BYTES (TT_REPORT_TEXT_BYTES + 160)

/* If all queried ranks respond, prints the likely cause: a rank that is in no operation, a rank
 * that has failed and left, or else the rank that the waited-for rank waits for. */
static void print_blamed(struct tt_engine *e, uint32_t waits_for, const struct tt_blamed *b,
                         char out[BLAME_TEXT_BYTES])
{
    char who[TT_RANK_TEXT_BYTES], whom[TT_RANK_TEXT_BYTES], report[TT_REPORT_TEXT_BYTES];

    out[0] = 0;
    if (b->idle != UINT32_MAX) {
        snprintf(out, BLAME_TEXT_BYTES, "; %s responds, but was in no collective, send or receive",
                 tt_rank_text(e, b->idle, who));
    } else if (b->gone != UINT32_MAX) {
        snprintf(out, BLAME_TEXT_BYTES, "; %s no longer responds%s", tt_rank_text(e, b->gone, who),
                 tt_report_text(e, b->gone, report));
    } else if (b->next_ended && b->next == UINT32_MAX) {
        snprintf(out, BLAME_TEXT_BYTES, "; the last call of %s failed",
                 tt_rank_text(e, waits_for, who));
    } else if (b->next != UINT32_MAX) {
        snprintf(out, BLAME_TEXT_BYTES,
                 b->next_ended ? "; the last call of %s failed while waiting for %s"
                               : "; %s waits for %s",
                 tt_rank_text(e, waits_for, who), tt_rank_text(e, b->next, whom));
    }
}

/* Handles a passed deadline of op. Blames the rank that does not respond, not the neighbour that
 * waits for it. Returns false if a query is pending; op then continues until the response. */
static bool handle_timeout(struct tt_engine *e, struct tt_op *op)
{
    char what[512], why[TT_ERROR_BYTES], own[TT_RANK_TEXT_BYTES], other[TT_RANK_TEXT_BYTES],
        blamed[BLAME_TEXT_BYTES];
    struct tt_waiting w = { .rank = UINT32_MAX };
    struct tt_blamed b;
    const enum tt_blame blame = find_blamed(e, op, &w, &b);

    if (blame == TT_BLAME_OPEN && e->now_ns < op->deadline_ns + QUERY_AFTER_NS)
        return false;
    tt_op_describe(op, what, sizeof what);
    tt_rank_text(e, e->rank, own);
    if (blame == TT_BLAME_RANK) {
        snprintf(why, sizeof why, "%s does not respond: %s reached its deadline in %s",
                 tt_rank_text(e, b.silent, other), own, what);
    } else {
        print_blamed(e, w.rank, &b, blamed);
        snprintf(why, sizeof why, "%s reached its deadline in %.*s%s", own,
                 TT_ERROR_BYTES - BLAME_TEXT_BYTES - 60, what, blamed);
    }
    tt_context_fail_here(
        op->context, blame == TT_BLAME_RANK ? TUTTI_ERR_PEER_LOST : TUTTI_ERR_TIMEOUT, why, true);
    return true;
}

/* Returns whether the deadline has passed. The timeout starts at the first clock reading after
 * the start, so that short operations need none. */
static bool deadline_passed(const struct tt_engine *e, struct tt_op *op)
{
    if (!op->deadline_ns)
        op->deadline_ns = tt_deadline_ns(e->now_ns, op->conf.timeout_ms);
    return e->now_ns >= op->deadline_ns;
}

static uint64_t earlier_of(struct tt_engine *e, struct tt_op *op, uint64_t due_ns, uint64_t now_ns)
{
    const uint64_t soon_ns = now_ns + LATE_NS;

    e->now_ns = now_ns;
    if (deadline_passed(e, op))
        return soon_ns < due_ns ? soon_ns : due_ns;
    return op->deadline_ns < due_ns ? op->deadline_ns : due_ns;
}

uint64_t tt_next_deadline_ns(struct tt_engine *e, uint64_t now_ns)
{
    uint64_t due_ns = TT_NEVER;

    for (const struct tt_context *c = e->contexts; c; c = c->next) {
        for (struct tt_op *op = c->active; op; op = op->next)
            due_ns = earlier_of(e, op, due_ns, now_ns);
        for (struct tt_op *op = c->waiting; op; op = op->next)
            due_ns = earlier_of(e, op, due_ns, now_ns);
    }
    return due_ns;
}

/* Returns whether the cause of the delay must be determined now. Earlier queries for all long
 * operations would flood the network, because a query and its response are sent to all ranks. */
static bool deadline_is_near(const struct tt_engine *e, const struct tt_op *op)
{
    return op->deadline_ns != TT_NEVER && e->now_ns + QUERY_BEFORE_NS >= op->deadline_ns;
}

/* Records for dumps since when the application has waited for an operation, and when the operation
 * last made progress. Recording this in the calls would cost a clock reading. */
static void observe(const struct tt_engine *e, struct tt_op *op)
{
    const struct tt_op *held = op->group ? op->group : op;
    const unsigned waited = atomic_load_explicit(&held->waited, memory_order_relaxed);
    const uint32_t step = op->exec.head;

    if (!op->probe_ns || op->moved_step != step) {
        op->moved_step = step;
        op->moved_ns = e->now_ns;
    }
    if (!op->probe_ns || waited == TT_OP_UNWAITED)
        op->waited_ns = 0;
    if (!op->waited_ns && waited != TT_OP_UNWAITED)
        op->waited_ns = e->now_ns;
}

/* Checks the deadline of op, and sends its probes. Returns false if the context has failed; then
 * its list is freed. */
static bool check_op(struct tt_engine *e, struct tt_op *op)
{
    struct tt_waiting w;

    observe(e, op);
    if (deadline_passed(e, op) && handle_timeout(e, op))
        return false;
    if (!op->probe_ns)
        op->probe_ns = e->now_ns + e->probe_ns;
    else if (e->now_ns >= op->probe_ns) {
        op->probe_ns = e->now_ns + e->probe_ns;
        tt_op_send_probe(op);
        if (tt_op_is_over(op))
            return false;
        if (e->hooks.slow && deadline_is_near(e, op) && find_waited_for(op, &w))
            e->hooks.slow(e->hooks.arg, &w);
    }
    return true;
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * TT_SECOND + (uint64_t)ts.tv_nsec;
}

static void extend_deadline(struct tt_op *op, uint64_t ns)
{
    if (op->deadline_ns && op->deadline_ns != TT_NEVER)
        op->deadline_ns += ns;
    if (op->probe_ns)
        op->probe_ns += ns;
}

/* Detects that this process was stopped, or its machine suspended: there was no check for a long
 * time, and little CPU time was used. Extends all deadlines by that time. */
static void extend_after_stop(struct tt_engine *e)
{
    const uint64_t cpu = cpu_ns(), stood_ns = e->now_ns - e->looked_ns;

    if (e->looked_ns && stood_ns > STOP_NS_MIN && cpu - e->looked_cpu_ns < stood_ns / 2)
        for (struct tt_context *c = e->contexts; c; c = c->next) {
            for (struct tt_op *op = c->active; op; op = op->next)
                extend_deadline(op, stood_ns);
            for (struct tt_op *op = c->waiting; op; op = op->next)
                extend_deadline(op, stood_ns);
        }
    e->looked_ns = e->now_ns;
    e->looked_cpu_ns = cpu;
}

void tt_check_deadlines(struct tt_engine *e)
{
    extend_after_stop(e);
    check_left(e);
    tt_waits_publish(e);
    for (struct tt_context *c = e->contexts, *next; c; c = next) {
        bool going = true;

        next = c->next;
        for (struct tt_op *op = c->active; going && op; op = op->next)
            going = check_op(e, op);
        for (struct tt_op *op = c->waiting; going && op; op = op->next)
            going = !deadline_passed(e, op) || !handle_timeout(e, op);
    }
}
