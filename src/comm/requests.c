/* Requests of non-blocking calls: test, wait, free. */
#include <stdio.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"
#include "trace/dump.h"

static tutti_status check_request(const tutti_request *request, const char *call)
{
    if (!request)
        return tt_fail(TUTTI_ERR_INVALID, "%s: the request is NULL", call);
    if (tt_op_is_inherited((const struct tt_op *)request))
        return tt_fail(TUTTI_ERR_FORKED,
                       "%s: this process is a forked child; the request belongs to its parent",
                       call);
    return TUTTI_OK;
}

tutti_status tutti_test(tutti_request *request)
{
    struct tt_op *op = (struct tt_op *)request;
    const tutti_status st = check_request(request, "tutti_test");

    if (st)
        return st;
    return tt_op_test(op) ? tt_op_status(op) : TUTTI_PENDING;
}

tutti_status tutti_test_for(tutti_request *request, int64_t timeout_ms)
{
    struct tt_op *op = (struct tt_op *)request;
    const tutti_status st = check_request(request, "tutti_test_for");

    if (st)
        return st;
    return tt_op_wait_until(op, tt_deadline_ns(tt_now_ns(), timeout_ms)) ? tt_op_status(op)
                                                                         : TUTTI_PENDING;
}

tutti_status tutti_wait(tutti_request *request)
{
    struct tt_op *op = (struct tt_op *)request;
    tutti_status st = check_request(request, "tutti_wait");

    if (st)
        return st;
    tt_op_wait(op);
    st = tt_op_status(op);
    tt_op_free(op);
    if (st)
        tt_dump_await();        /* the caller may end the process now */
    return st;
}

tutti_status tutti_request_notify(tutti_request *request, void (*notify)(void *arg), void *arg)
{
    const tutti_status st = check_request(request, "tutti_request_notify");

    if (st)
        return st;
    if (!notify)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_request_notify: notify is NULL");
    if (!tt_op_notify((struct tt_op *)request, notify, arg))
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_request_notify: the request already has a callback");
    return TUTTI_OK;
}

tutti_status tutti_wait_all(tutti_request **requests, size_t n)
{
    char why[TT_ERROR_BYTES];
    tutti_status first = TUTTI_OK;

    if (!requests && n)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_wait_all: requests is NULL");
    if (!tt_array_can_be(requests, n, sizeof(tutti_request *)))
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_wait_all: %zu requests do not fit in the address space", n);
    for (size_t i = 0; i < n; i++) {
        tutti_status st;

        if (!requests[i])
            continue;
        st = tutti_wait(requests[i]);
        requests[i] = NULL;
        if (st && !first) {
            first = st;
            snprintf(why, sizeof why, "%s", tutti_last_error());
        }
    }
    return first ? tt_fail_again(first, why) : TUTTI_OK;
}

tutti_status tutti_wait_any(tutti_request **requests, size_t n, size_t *index)
{
    tutti_request *over;
    bool any = false;
    size_t i;

    if (!requests || !index)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_wait_any: %s is NULL",
                       requests ? "index" : "requests");
    if (!tt_array_can_be(requests, n, sizeof(tutti_request *)))
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_wait_any: %zu requests do not fit in the address space", n);
    for (i = 0; i < n; i++) {
        const tutti_status st =
            requests[i] ? check_request(requests[i], "tutti_wait_any") : TUTTI_OK;

        if (st)
            return st;
        any |= requests[i] != NULL;
    }
    if (!any)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_wait_any: all requests are NULL");
    i = tt_op_wait_any((struct tt_op **)requests, n);
    *index = i;
    over = requests[i];
    requests[i] = NULL;
    return tutti_wait(over);
}
