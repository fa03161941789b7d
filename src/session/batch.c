/* Batches: several operations at once. A window moves over the list, and each of its slots uses
 * one tag. When the epoch ends, the operations in flight get their outcomes. Those that are not
 * FINAL, which are the same on all members, are repeated if their mode permits it. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "session/run.h"

#define IN_FLIGHT 4u

enum phase { IDLE, ASKS, PERFORMS, VOTES };    /* ASKS: the all-gather before a PARTIAL operation */

struct slot {
    enum phase phase;
    size_t index;               /* of its operation in the list */
    struct tt_operation o;
};

struct batch {
    tutti_run *run;
    tutti_elastic *ops;
    size_t n;
    uint32_t first_tag, nslots;
    struct slot *slots;         /* [nslots] */
    tutti_request **requests;   /* [nslots]; NULL where the slot is idle */
    size_t *left;               /* [nleft] indices of the operations that are not final, in order */
    size_t nleft, at;           /* position of the next one to begin */
    uint64_t epoch;             /* of the operations in flight */
    uint64_t deadline_ns;       /* of the whole call */
    bool over;                  /* an operation failed: no further one begins */
    tutti_status failed;        /* error of an operation that could not begin */
};

/* Handles the completion of slot s's operation in the engine, with status st. */
static void slot_end(struct batch *b, struct slot *s, tutti_status st)
{
    tt_run_lock(b->run);
    if (st)
        tt_operation_fail(b->run, &s->o, st);
    b->over |= tt_operation_judge(b->run, &s->o) != TUTTI_OK;
    tt_run_unlock(b->run);
    s->phase = IDLE;
}

/* Continues after a request of the slot has completed. */
static void slot_advance(struct batch *b, struct slot *s, tutti_status st)
{
    const size_t i = (size_t)(s - b->slots);
    bool votes = false;

    b->requests[i] = NULL;
    if (!st && s->phase == ASKS) {
        s->phase = PERFORMS;
        tt_partial_apply(&s->o);
        st = tt_operation_perform(&s->o, &b->requests[i]);
        if (st)
            slot_end(b, s, st);
        return;
    }
    tt_run_lock(b->run);
    if (!st && s->phase == PERFORMS)
        votes = tt_operation_complete(b->run, &s->o);
    else if (!st)
        tt_operation_voted(b->run, &s->o);
    tt_run_unlock(b->run);
    if (votes) {
        s->phase = VOTES;
        st = tt_operation_vote(&s->o, &b->requests[i]);
        if (!st)
            return;
    }
    slot_end(b, s, st);
}

static bool batch_is_idle(const struct batch *b)
{
    for (uint32_t i = 0; i < b->nslots; i++)
        if (b->slots[i].phase != IDLE)
            return false;
    return true;
}

static void slot_begin(struct batch *b, struct slot *s)
{
    const size_t i = (size_t)(s - b->slots), index = b->left[b->at];
    tutti_status st;

    tt_run_lock(b->run);
    /* The thread that forms the next view waits for operations in the engine. */
    if (b->run->recovering && !batch_is_idle(b))
        st = tt_fail_again(TUTTI_ERR_PEER_LOST,
                           "tutti_run_batch: the epoch has ended; another thread is forming the "
                           "next view");
    else
        st = tt_operation_begin(b->run, &s->o, &b->ops[index], b->first_tag + (uint32_t)i,
                                b->deadline_ns);
    tt_run_unlock(b->run);
    b->ops[index].attempts++;
    b->ops[index].status = st;
    b->at++;
    if (st) {
        b->over = true;
        b->failed = st;
        return;
    }
    s->index = index;
    s->phase = b->ops[index].mode == TUTTI_PARTIAL ? ASKS : PERFORMS;
    b->epoch = s->o.epoch;
    st = s->phase == ASKS ? tt_partial_exchange(&s->o, &b->requests[i])
                          : tt_operation_perform(&s->o, &b->requests[i]);
    if (st)
        slot_end(b, s, st);
}

/* Starts operations: the k-th remaining one uses slot k mod nslots on all members, when that is
 * free. */
static void start_operations(struct batch *b)
{
    while (!b->over && b->at < b->nleft && b->slots[b->at % b->nslots].phase == IDLE)
        slot_begin(b, &b->slots[b->at % b->nslots]);
}

/* Runs the remaining operations until all have ended, or one has failed. */
static void batch_pass(struct batch *b)
{
    b->at = 0;
    b->over = false;
    b->failed = TUTTI_OK;
    for (start_operations(b); !batch_is_idle(b); start_operations(b)) {
        size_t i = 0;
        const tutti_status st = tutti_wait_any(b->requests, b->nslots, &i);

        slot_advance(b, &b->slots[i], st);
    }
}

static void count_left(struct batch *b)
{
    size_t n = 0;

    for (size_t k = 0; k < b->nleft; k++)
        if (k >= b->at || b->ops[b->left[k]].status != TUTTI_OK)
            b->left[n++] = b->left[k];
    b->nleft = n;
}

static tutti_status first_error(const struct batch *b)
{
    for (size_t k = 0; k < b->nleft; k++)
        if (b->ops[b->left[k]].status != TUTTI_OK)
            return b->ops[b->left[k]].status;
    return b->failed ? b->failed : TUTTI_OK;
}

/* Returns the latest of the operations' deadlines. It applies to all of them, in flight or waiting
 * for a slot. */
static uint64_t deadline_from_now(const struct batch *b)
{
    uint64_t deadline_ns = 0;

    for (size_t i = 0; i < b->n; i++) {
        const uint64_t own_ns = tt_run_deadline(b->run, b->ops[i].timeout_ms);

        deadline_ns = own_ns > deadline_ns ? own_ns : deadline_ns;
    }
    return deadline_ns;
}

static bool batch_is_late(const struct batch *b)
{
    for (uint32_t i = 0; i < b->nslots; i++)
        if (tt_operation_is_late(b->run, b->first_tag + i, b->epoch))
            return true;
    return false;
}

/* Returns the remaining operation with the largest `least`. A view that satisfies it satisfies
 * all. */
static const tutti_elastic *largest_least(const struct batch *b)
{
    const tutti_elastic *most = &b->ops[b->left[0]];

    for (size_t k = 1; k < b->nleft; k++)
        if (b->ops[b->left[k]].least > most->least)
            most = &b->ops[b->left[k]];
    return most;
}

/* Repeats the remaining operations, if permitted, until they are final or fail for another
 * reason than a loss. */
static tutti_status batch_run_all(struct batch *b)
{
    b->deadline_ns = deadline_from_now(b);
    for (;;) {
        tutti_status st;

        tt_run_lock(b->run);
        b->epoch = b->run->space.epoch;
        tt_run_unlock(b->run);
        batch_pass(b);
        count_left(b);
        if (b->nleft == 0)
            return TUTTI_OK;
        st = first_error(b);
        if (st != TUTTI_ERR_PEER_LOST || !tt_operation_retries(&b->ops[b->left[0]]))
            return tt_operation_caller_status(b->run, st);
        tt_run_lock(b->run);
        st = batch_is_late(b)
                 ? tt_operation_too_late()
                 : tt_operation_recover(b->run, largest_least(b), b->epoch, b->deadline_ns);
        if (tt_run_was_stalled(b->deadline_ns, tt_now_ns()))
            b->deadline_ns = deadline_from_now(b);
        tt_run_unlock(b->run);
        if (st)
            return tt_operation_caller_status(b->run, st);
    }
}

static tutti_status batch_check(struct batch *b)
{
    if (b->nslots > TT_ELASTIC_TAGS || b->first_tag > TT_ELASTIC_TAGS)
        return tt_fail(
            TUTTI_ERR_INVALID,
            "tutti_run_batch: invalid tags: %u tags from tag %u exceed the maximum of %u",
            b->nslots, b->first_tag, TT_ELASTIC_TAGS);
    for (size_t i = 0; i < b->n; i++) {
        const tutti_status st =
            tt_operation_check(b->run, &b->ops[i], b->first_tag + b->nslots - 1);

        if (st)
            return st;
        if (b->ops[i].mode != b->ops[0].mode)
            return tt_fail(TUTTI_ERR_INVALID,
                           "tutti_run_batch: operation %zu has a different mode than operation 0",
                           i);
        if (b->ops[i].tentative)
            return tt_fail(TUTTI_ERR_INVALID,
                           "tutti_run_batch: operation %zu is tentative, but operations of a batch "
                           "must be final "
                           "when the call returns",
                           i);
    }
    return TUTTI_OK;
}

static tutti_status run_batch(tutti_run *run, tutti_elastic *ops, size_t n, uint32_t first_tag,
                              uint32_t most)
{
    struct batch b = { .run = run,
                       .ops = ops,
                       .n = n,
                       .nleft = n,
                       .first_tag = first_tag,
                       .nslots = most ? most : IN_FLIGHT };
    tutti_status st =
        tt_run_check_call(run, n > 0 ? ops : (const void *)run, "ops", "tutti_run_batch");

    if (!st && !tt_array_can_be(ops, n, sizeof *ops))
        st = tt_fail(TUTTI_ERR_INVALID,
                     "tutti_run_batch: %zu operations do not fit in the address space", n);
    if (st)
        return st;
    st = batch_check(&b);
    for (size_t i = 0; st && i < n; i++)
        tt_operation_refused(&ops[i], st);
    if (st || n == 0)
        return st;
    b.slots = calloc(b.nslots, sizeof *b.slots);
    b.requests = calloc(b.nslots, sizeof *b.requests);
    b.left = malloc(n * sizeof *b.left);
    if (!b.slots || !b.requests || !b.left) {
        st = tt_fail(TUTTI_ERR_NOMEM, "tutti_run_batch: out of memory for %zu operations", n);
    } else {
        for (size_t i = 0; i < n; i++) {
            b.left[i] = i;
            ops[i].attempts = 0;
            ops[i].status = TUTTI_PENDING;
        }
        st = batch_run_all(&b);
        for (size_t i = 0; st && i < n; i++)    /* not tried, or not repeated */
            if (ops[i].status == TUTTI_PENDING || ops[i].status == TUTTI_ERR_ABORTED ||
                (ops[i].status == TUTTI_ERR_PEER_LOST && tt_operation_retries(&ops[i])))
                ops[i].status = st;
    }
    free(b.slots);
    free(b.requests);
    free(b.left);
    return st;
}

tutti_status tutti_run_batch(tutti_run *run, tutti_elastic *ops, size_t n, uint32_t first_tag,
                             uint32_t most)
{
    tutti_status st;

    tt_operation_enter_call("tutti_run_batch");
    st = run_batch(run, ops, n, first_tag, most);
    tt_operation_enter_call(NULL);
    return st;
}
