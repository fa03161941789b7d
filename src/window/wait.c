/* Waiting for words of this rank's memory, and for counters. */
#include "base/checked.h"
#include "base/clock.h"
#include "base/status.h"
#include "window/window.h"
#include "window/handle.h"

struct wait {
    struct tt_window_waiter waiter;     /* must be first */
    const struct tt_window *window;
    const size_t *offsets;
    size_t n;
    tutti_compare compare;
    uint64_t value;
    int (*is_there)(const void *arg);   /* NULL: compare words */
    const void *arg;
    uint64_t deadline_ns;
    bool is_test;               /* PENDING at the deadline */
    bool there;                 /* the condition was true at the last check; it may be false
                                   again */
    size_t index;               /* index of the matching word, and its value then */
    uint64_t seen;
};

static bool condition_holds(uint64_t word, tutti_compare compare, uint64_t value)
{
    switch (compare) {
    case TUTTI_EQUAL:
        return word == value;
    case TUTTI_AT_LEAST:
        return word >= value;
    default:
        return word != value;
    }
}

const char *tt_compare_prefix(tutti_compare compare)
{
    return compare == TUTTI_EQUAL ? "" : compare == TUTTI_AT_LEAST ? "at least " : "other than ";
}

/* Finds the first word that matches; false: none. */
static bool find_match(const struct wait *w, size_t *index, uint64_t *seen)
{
    if (w->is_there)
        return w->is_there(w->arg) != 0;
    for (size_t i = 0; i < w->n; i++) {
        const uint64_t word =
            __atomic_load_n((uint64_t *)(void *)(w->window->mem + w->offsets[i]), __ATOMIC_ACQUIRE);

        if (!condition_holds(word, w->compare, w->value))
            continue;
        *index = i;
        *seen = word;
        return true;
    }
    return false;
}

/* Returns whether the condition can never become true. */
static bool cannot_match(const struct wait *w)
{
    return tt_context_status(w->window->comm->context, NULL, 0) ||
           (!w->is_there && tt_window_all_closed(w->window));
}

static bool wait_is_ready(const struct tt_window_waiter *waiter)
{
    const struct wait *w = (const struct wait *)waiter;
    uint64_t seen = 0;
    size_t index = 0;

    return find_match(w, &index, &seen) || cannot_match(w);
}

static tutti_status fail_deserted(const struct wait *w, const char *call)
{
    return tt_fail(TUTTI_ERR_PEER_LOST,
                   "%s: all other ranks have called tutti_window_free, so no signal can arrive at "
                   "offset %zu%s of rank %u",
                   call, w->offsets[0], w->n > 1 ? " (or others)" : "", w->window->comm->rank);
}

static bool wait_is_over(void *arg)
{
    struct wait *w = arg;

    w->there = find_match(w, &w->index, &w->seen);
    tt_engine_client_due(w->window->home->engine, w->deadline_ns);
    return w->there || cannot_match(w) || tt_now_ns() >= w->deadline_ns;
}

/* Waits with the waiter in the list, which is checked before a thread falls asleep, so that no
 * change is missed. The event that ended the wait may have arrived together with the word: checks
 * once more. */
static void wait_listed(struct wait *w, struct tt_windows *home)
{
    struct tt_window_waiter **at = &home->waiters;

    tt_engine_client_enter(home->engine);
    w->waiter.next = home->waiters;
    home->waiters = &w->waiter;
    tt_engine_client_leave(home->engine);
    tt_engine_client_wait(home->engine, wait_is_over, w);
    tt_engine_client_enter(home->engine);
    while (*at != &w->waiter)
        at = &(*at)->next;
    *at = w->waiter.next;
    tt_engine_client_leave(home->engine);
    if (!w->there)
        w->there = find_match(w, &w->index, &w->seen);
}

/* Checks the words, which must be in this rank's part. */
static tutti_status wait_check(const struct tt_window *w, const size_t *offsets, size_t n,
                               tutti_compare compare, const char *call)
{
    tutti_status st = TUTTI_OK;

    if ((int)compare < TUTTI_EQUAL || compare > TUTTI_NOT_EQUAL)
        return tt_fail(TUTTI_ERR_INVALID, "%s: compare is %d: must be %d to %d", call, (int)compare,
                       TUTTI_EQUAL, TUTTI_NOT_EQUAL);
    if (!offsets || n == 0)
        return tt_fail(TUTTI_ERR_INVALID, "%s: no word to wait for: offsets is NULL or n is 0",
                       call);
    if (!tt_array_can_be(offsets, n, sizeof *offsets))
        return tt_fail(TUTTI_ERR_INVALID, "%s: %zu offsets do not fit in the address space", call,
                       n);
    for (size_t i = 0; i < n && !st; i++)
        st = tt_window_check_word(w, w->comm->rank, offsets[i], sizeof(uint64_t), call);
    return st;
}

/* Handles a passed deadline: no word matched. The last check, for the message, may find a match. */
static tutti_status end_late(const struct wait *w, size_t *index, uint64_t *seen, const char *call)
{
    const uint64_t first =
        __atomic_load_n((uint64_t *)(void *)(w->window->mem + w->offsets[0]), __ATOMIC_ACQUIRE);
    const uint32_t rank = w->window->comm->rank;
    const char *const prefix = tt_compare_prefix(w->compare);

    if (condition_holds(first, w->compare, w->value)) {
        *index = 0;
        *seen = first;
        return TUTTI_OK;
    }
    if (w->n == 1)
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "%s: the word at offset %zu of rank %u had the value %llu at the deadline, "
                       "expected %s%llu",
                       call, w->offsets[0], rank, (unsigned long long)first, prefix,
                       (unsigned long long)w->value);
    return tt_fail(TUTTI_ERR_TIMEOUT,
                   "%s: none of %zu words of rank %u matched at the deadline: expected %s%llu "
                   "(the first word, at offset %zu, had the value %llu)",
                   call, w->n, rank, prefix, (unsigned long long)w->value, w->offsets[0],
                   (unsigned long long)first);
}

/* Returns the status of a wait that has ended. */
static tutti_status wait_result(struct wait *w, size_t *index, uint64_t *seen, const char *call)
{
    tutti_status st;

    if (w->there) {
        *index = w->index;
        *seen = w->seen;
        return TUTTI_OK;
    }
    st = tt_window_status(w->window);
    if (st)
        return st;
    if (tt_window_all_closed(w->window))
        return fail_deserted(w, call);
    return w->is_test ? TUTTI_PENDING : end_late(w, index, seen, call);
}

/* Waits for the words in *w. Only waits that do not end at once are recorded. */
static tutti_status wait_any(struct wait *w, tutti_window *window, int64_t timeout_ms,
                             size_t *index, uint64_t *seen, const char *call)
{
    struct tt_window *of = NULL;
    uint64_t record;
    tutti_status st = tt_window_take(window, call, &of);

    if (!st)
        st = wait_check(of, w->offsets, w->n, w->compare, call);
    if (st)
        return st;
    w->waiter.is_ready = wait_is_ready;
    w->window = of;
    if (find_match(w, index, seen))
        return TUTTI_OK;
    w->deadline_ns = tt_window_deadline_ns(of, timeout_ms);
    record = tt_window_trace_begin(of, TT_OPLOG_WAIT_SIGNAL, UINT32_MAX, 0);
    wait_listed(w, of->home);
    st = wait_result(w, index, seen, call);
    tt_oplog_end(record, st == TUTTI_PENDING ? TUTTI_OK : st);
    return st;
}

static tutti_status wait_word(struct wait *w, tutti_window *window, int64_t timeout_ms,
                              uint64_t *seen, const char *call)
{
    uint64_t was = 0;
    size_t index = 0;
    const tutti_status st = wait_any(w, window, timeout_ms, &index, &was, call);

    if (!st && seen)
        *seen = was;
    return st;
}

tutti_status tutti_window_wait(tutti_window *window, size_t offset, tutti_compare compare,
                               uint64_t value, int64_t timeout_ms, uint64_t *seen)
{
    struct wait w = { .offsets = &offset, .n = 1, .compare = compare, .value = value };

    return wait_word(&w, window, timeout_ms, seen, "tutti_window_wait");
}

tutti_status tutti_window_test_for(tutti_window *window, size_t offset, tutti_compare compare,
                                   uint64_t value, int64_t timeout_ms, uint64_t *seen)
{
    struct wait w = {
        .offsets = &offset, .n = 1, .compare = compare, .value = value, .is_test = true
    };

    return wait_word(&w, window, timeout_ms, seen, "tutti_window_test_for");
}

tutti_status tutti_window_wait_any(tutti_window *window, const size_t *offsets, size_t n,
                                   tutti_compare compare, uint64_t value, int64_t timeout_ms,
                                   size_t *index, uint64_t *seen)
{
    struct wait w = { .offsets = offsets, .n = n, .compare = compare, .value = value };
    uint64_t was = 0;
    size_t which = 0;
    tutti_status st;

    if (!index)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_window_wait_any: index is NULL");
    st = wait_any(&w, window, timeout_ms, &which, &was, "tutti_window_wait_any");
    if (st)
        return st;
    *index = which;
    if (seen)
        *seen = was;
    return TUTTI_OK;
}

tutti_status tutti_window_test(tutti_window *window, size_t offset, tutti_compare compare,
                               uint64_t value, uint64_t *seen)
{
    struct wait w = { .offsets = &offset, .n = 1, .compare = compare, .value = value };
    struct tt_window *of = NULL;
    uint64_t was = 0;
    size_t index = 0;
    tutti_status st = tt_window_take(window, "tutti_window_test", &of);

    if (!st)
        st = wait_check(of, &offset, 1, compare, "tutti_window_test");
    if (st)
        return st;
    w.window = of;
    if (!find_match(&w, &index, &was)) {
        const bool deserted = tt_window_all_closed(of);

        tt_engine_client_progress(of->home->engine);
        if (!find_match(&w, &index, &was))
            return deserted ? fail_deserted(&w, "tutti_window_test") : TUTTI_PENDING;
    }
    if (seen)
        *seen = was;
    return TUTTI_OK;
}

tutti_status tutti_window_wait_until(tutti_window *window, int (*is_there)(const void *arg),
                                     const void *arg, int64_t timeout_ms)
{
    const char *call = "tutti_window_wait_until";
    struct wait w = { .waiter = { .is_ready = wait_is_ready }, .is_there = is_there, .arg = arg };
    struct tt_window *of = NULL;
    uint64_t record;
    tutti_status st = tt_window_take(window, call, &of);

    if (!st && !is_there)
        st = tt_fail(TUTTI_ERR_INVALID, "%s: is_there is NULL", call);
    if (st || is_there(arg))
        return st;
    w.window = of;
    w.deadline_ns = tt_window_deadline_ns(of, timeout_ms);
    record = tt_window_trace_begin(of, TT_OPLOG_WAIT_SIGNAL, UINT32_MAX, 0);
    wait_listed(&w, of->home);
    st = w.there ? TUTTI_OK : tt_window_status(of);
    if (!st && !w.there)
        st = tt_fail(TUTTI_ERR_TIMEOUT, "%s: the condition of rank %u did not hold at the deadline",
                     call, of->comm->rank);
    tt_oplog_end(record, st);
    return st;
}

/* ---- counters ---- */

struct count {
    struct tt_call_check attempt;
    const uint64_t *counter;
    uint64_t value;
};

static tutti_status count_step(struct tt_call_check *a)
{
    const struct count *c = (const struct count *)a;

    return __atomic_load_n(c->counter, __ATOMIC_ACQUIRE) >= c->value ? TUTTI_OK : TUTTI_PENDING;
}

static tutti_status wait_counter(struct count *c, tutti_window *window, int64_t timeout_ms)
{
    tutti_status st = tt_window_take(window, c->attempt.call, &c->attempt.window);

    if (!st && (!c->counter || (uintptr_t)c->counter % sizeof *c->counter))
        st = tt_fail(TUTTI_ERR_INVALID,
                     "%s: invalid counter %p: must be non-NULL and 8-byte aligned", c->attempt.call,
                     (const void *)c->counter);
    if (st)
        return st;
    c->attempt.rank = UINT32_MAX;
    c->attempt.timeout_ms = timeout_ms;
    c->attempt.step = count_step;
    tt_call_check_trace(&c->attempt, TT_OPLOG_WAIT_SIGNAL, 0);
    return tt_call_check_run(&c->attempt);
}

tutti_status tutti_window_wait_counter(tutti_window *window, const uint64_t *counter,
                                       uint64_t value, int64_t timeout_ms)
{
    struct count c = { .attempt = { .call = "tutti_window_wait_counter" },
                       .counter = counter,
                       .value = value };

    return wait_counter(&c, window, timeout_ms);
}

tutti_status tutti_window_test_counter_for(tutti_window *window, const uint64_t *counter,
                                           uint64_t value, int64_t timeout_ms)
{
    struct count c = { .attempt = { .call = "tutti_window_test_counter_for", .is_test = true },
                       .counter = counter,
                       .value = value };

    return wait_counter(&c, window, timeout_ms);
}
