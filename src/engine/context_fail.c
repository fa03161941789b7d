/* Failure of contexts. */
#include "engine/context_fail.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "engine/context_teardown.h"
#include "engine/op_trace.h"
#include "engine/progress_lock.h"

const char *tt_context_why(const struct tt_context *c)
{
    return c->why ? c->why : "out of memory for the message of this failure";
}

/* Logs the failure of a communicator. A loss that fails many communicators is logged once. In
 * elastic runs a loss is a warning, because each call returns its outcome. */
static void log_failure(struct tt_engine *e, tutti_status status, const char *sentence)
{
    if (status == TUTTI_ERR_ABORTED ||
        (status == TUTTI_ERR_PEER_LOST && strcmp(sentence, e->loss_logged) == 0))
        return;
    if (status == TUTTI_ERR_PEER_LOST)
        snprintf(e->loss_logged, sizeof e->loss_logged, "%s", sentence);
    tt_log(status == TUTTI_ERR_PEER_LOST && e->members ? TT_LOG_WARN : TT_LOG_ERROR, "%s: %s",
           tutti_status_name(status), sentence);
}

void tt_context_fail_here(struct tt_context *c, tutti_status status, const char *sentence,
                          bool notify)
{
    if (atomic_load(&c->status) == TUTTI_OK) {
        c->why = strdup(sentence);
        atomic_store(&c->status, (int)status);
        log_failure(c->engine, status, sentence);
        tt_context_trace_failure(c, status, sentence);
        if (notify && c->engine->hooks.failed)
            c->engine->hooks.failed(c->engine->hooks.arg, c->id, status, sentence);
    }
    c->engine->end_operations(c);
    tt_context_ended(c);
}

void tt_context_fail(struct tt_context *c, tutti_status status, const char *sentence)
{
    tt_progress_lock(c->engine);
    tt_context_fail_here(c, status, sentence, true);
    tt_progress_unlock(c->engine);
}

tutti_status tt_context_status(const struct tt_context *c, char *why, size_t why_bytes)
{
    const tutti_status st = (tutti_status)atomic_load(&((struct tt_context *)(uintptr_t)c)->status);

    if (why)
        snprintf(why, why_bytes, "%s", st ? tt_context_why(c) : "");
    return st;
}
