/* Several operations at once: a window over a list, each slot of it a tag. Where the epoch ends, those in flight come to their verdicts; what is
 * not FINAL then, which is the same on all members, is run again if it may be. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "session/run.h"

#define IN_FLIGHT 4u

enum phase { IDLE, ASKS, PERFORMS, VOTES };    /* ASKS: of a PARTIAL one */

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
    size_t *left;               /* [nleft] indices of what is not final, in order */
    size_t nleft, at;           /* the next of these to begin */
    uint64_t epoch;             /* of the operations in flight */
    uint64_t deadline_ns;       /* of the whole call */
    bool over;                  /* something failed: nothing more begins */
    tutti_status failed;        /* why nothing could be begun */
};

/* The operation in slot s has left the engine, with status st. */
static void leave(struct batch *b, struct slot *s, tutti_status st)
{
    tt_run_lock(b->run);
    if (st)
        tt_operation_fail(b->run, &s->o, st);
    b->over |= tt_operation_judge(b->run, &s->o) != TUTTI_OK;
    tt_run_unlock(b->run);
    s->phase = IDLE;
}

/* Its request has ended: what comes next. */
static void advance(struct batch *b, struct slot *s, tutti_status st)
{
    const size_t i = (size_t)(s - b->slots);
    bool votes = false;

    b->requests[i] = NULL;
    if (!st && s->phase == ASKS) {
        s->phase = PERFORMS;
        tt_partial_heard(&s->o);
        st = tt_operation_perform(&s->o, &b->requests[i]);
        if (st)
            leave(b, s, st);
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
    leave(b, s, st);
}

static bool is_idle(const struct batch *b)
{
    for (uint32_t i = 0; i < b->nslots; i++)
        if (b->slots[i].phase != IDLE)
            return false;
    return true;
}

static void begin(struct batch *b, struct slot *s)
{
    const size_t i = (size_t)(s - b->slots), index = b->left[b->at];
    tutti_status st;

    tt_run_lock(b->run);
    /* Who makes the next view waits for what we have in the engine. */
    if (b->run->recovering && !is_idle(b))
        st = tt_fail_again(TUTTI_ERR_PEER_LOST, "tutti_run_batch: the epoch has ended; another thread is forming the "
                                                "next view");
    else
        st = tt_operation_begin(b->run, &s->o, &b->ops[index], b->first_tag + (uint32_t)i, b->deadline_ns);
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
    st = s->phase == ASKS ? tt_partial_ask(&s->o, &b->requests[i]) : tt_operation_perform(&s->o, &b->requests[i]);
    if (st)
        leave(b, s, st);
}

/* Operation k of what is left goes to slot k mod nslots, on all members; it begins when that is free. */
static void fill(struct batch *b)
{
    while (!b->over && b->at < b->nleft && b->slots[b->at % b->nslots].phase == IDLE)
        begin(b, &b->slots[b->at % b->nslots]);
}

/* Runs what is left, as far as it goes. */
static void pass(struct batch *b)
{
    b->at = 0;
    b->over = false;
    b->failed = TUTTI_OK;
    for (fill(b); !is_idle(b); fill(b)) {
        size_t i = 0;
        const tutti_status st = tutti_wait_any(b->requests, b->nslots, &i);

        advance(b, &b->slots[i], st);
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

/* The latest that any of the operations would have alone: those in flight have one, and whoever waits in line has no other. */
static uint64_t deadline_from_now(const struct batch *b)
{
    uint64_t deadline_ns = 0;

    for (size_t i = 0; i < b->n; i++) {
        const uint64_t own_ns = tt_run_deadline(b->run, b->ops[i].timeout_ms);

        deadline_ns = own_ns > deadline_ns ? own_ns : deadline_ns;
    }
    return deadline_ns;
}

static bool is_late(const struct batch *b)
{
    for (uint32_t i = 0; i < b->nslots; i++)
        if (tt_operation_is_late(b->run, b->first_tag + i, b->epoch))
            return true;
    return false;
}

/* Of what is left, that which is not to be tried again with the most: what holds for it holds for all. */
static const tutti_elastic *most_wanting(const struct batch *b)
{
    const tutti_elastic *most = &b->ops[b->left[0]];

    for (size_t k = 1; k < b->nleft; k++)
        if (b->ops[b->left[k]].least > most->least)
            most = &b->ops[b->left[k]];
    return most;
}

/* What may be retried is, until it is final or fails for another reason than a loss. */
static tutti_status run_all(struct batch *b)
{
    b->deadline_ns = deadline_from_now(b);
    for (;;) {
        tutti_status st;

        tt_run_lock(b->run);
        b->epoch = b->run->space.epoch;
        tt_run_unlock(b->run);
        pass(b);
        count_left(b);
        if (b->nleft == 0)
            return TUTTI_OK;
        st = first_error(b);
        if (st != TUTTI_ERR_PEER_LOST || !tt_operation_retries(&b->ops[b->left[0]]))
            return tt_operation_told(b->run, st);
        tt_run_lock(b->run);
        st = is_late(b) ? tt_operation_too_late()
                        : tt_operation_recover(b->run, most_wanting(b), b->epoch, b->deadline_ns);
        if (tt_run_stood_still(b->deadline_ns, tt_now_ns()))
            b->deadline_ns = deadline_from_now(b);
        tt_run_unlock(b->run);
        if (st)
            return tt_operation_told(b->run, st);
    }
}

static tutti_status check(struct batch *b)
{
    if (b->nslots > TT_ELASTIC_TAGS || b->first_tag > TT_ELASTIC_TAGS)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_batch: invalid tags: %u tags from tag %u exceed the maximum of %u",
                       b->nslots, b->first_tag, TT_ELASTIC_TAGS);
    for (size_t i = 0; i < b->n; i++) {
        const tutti_status st = tt_operation_check(b->run, &b->ops[i], b->first_tag + b->nslots - 1);

        if (st)
            return st;
        if (b->ops[i].mode != b->ops[0].mode)
            return tt_fail(TUTTI_ERR_INVALID, "tutti_run_batch: operation %zu has a different mode than operation 0", i);
        if (b->ops[i].tentative)
            return tt_fail(TUTTI_ERR_INVALID,
                           "tutti_run_batch: operation %zu is tentative, but operations of a batch must be final "
                           "when the call returns",
                           i);
    }
    return TUTTI_OK;
}

static tutti_status run_batch(tutti_run *run, tutti_elastic *ops, size_t n, uint32_t first_tag, uint32_t most)
{
    struct batch b = {
        .run = run, .ops = ops, .n = n, .nleft = n, .first_tag = first_tag, .nslots = most ? most : IN_FLIGHT
    };
    tutti_status st = tt_run_check_call(run, n > 0 ? ops : (const void *)run, "ops", "tutti_run_batch");

    if (!st && !tt_array_can_be(ops, n, sizeof *ops))
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_run_batch: %zu operations exceed the address space", n);
    if (st)
        return st;
    st = check(&b);
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
        st = run_all(&b);
        for (size_t i = 0; st && i < n; i++)    /* not tried, or what could not be tried again */
            if (ops[i].status == TUTTI_PENDING || ops[i].status == TUTTI_ERR_ABORTED ||
                (ops[i].status == TUTTI_ERR_PEER_LOST && tt_operation_retries(&ops[i])))
                ops[i].status = st;
    }
    free(b.slots);
    free(b.requests);
    free(b.left);
    return st;
}

tutti_status tutti_run_batch(tutti_run *run, tutti_elastic *ops, size_t n, uint32_t first_tag, uint32_t most)
{
    tutti_status st;

    tt_operation_enter_call("tutti_run_batch");
    st = run_batch(run, ops, n, first_tag, most);
    tt_operation_enter_call(NULL);
    return st;
}
