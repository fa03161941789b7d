/* Backup of the input and residuals that an operation overwrites, until its outcome. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "session/run.h"

/* Returns the size of counts[n] elements, or 0 if no memory can hold them: then the call is
 * refused. */
static size_t bytes_of_all(const size_t *counts, uint32_t n, size_t elem_bytes)
{
    uint64_t sum = 0, bytes;

    for (uint32_t i = 0; i < n; i++)
        if (__builtin_add_overflow(sum, counts[i], &sum))
            return 0;
    return tt_bytes_of(sum, elem_bytes, &bytes) ? bytes : 0;
}

/* Returns the size of the input that the operation overwrites. */
static size_t overwrites(const struct tt_operation *o)
{
    const tutti_elastic *op = o->op;
    const uint32_t nranks = o->nscope;
    const size_t bytes = op->count * tutti_dtype_bytes(op->type);
    const uintptr_t s = (uintptr_t)op->src, d = (uintptr_t)op->dst;

    switch (op->coll) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE:
        return s == d && !op->withholds ? bytes : 0;
    case TUTTI_ALLTOALL:
        return s == d ? nranks * bytes : 0;
    case TUTTI_REDUCE_SCATTER:
        return d >= s && d < s + nranks * bytes ? nranks * bytes : 0;
    case TUTTI_REDUCE_SCATTERV: {
        const size_t all = bytes_of_all(o->counts, nranks, tutti_dtype_bytes(op->type));

        return d >= s && d < s + all && tt_memory_can_be(op->src, all) ? all : 0;
    }
    case TUTTI_BROADCAST: /* quantized: all get the same values, including the root */
        return op->quant && s == d && tutti_comm_rank(o->scope) == o->root ? bytes : 0;
    case TUTTI_ALLGATHER:
        return op->quant && s == d + (uintptr_t)tutti_comm_rank(o->scope) * bytes ? bytes : 0;
    default:
        return 0;
    }
}

/* Returns the size of the residuals for error feedback: one per element of this rank's src. */
static size_t feedback_bytes(const struct tt_operation *o)
{
    const tutti_elastic *op = o->op;
    const size_t bytes = op->count * sizeof *op->error_feedback;

    if (!op->error_feedback)
        return 0;
    if (op->coll == TUTTI_BROADCAST && tutti_comm_rank(o->scope) != o->root)
        return 0;
    return op->coll == TUTTI_REDUCE_SCATTER ? o->nscope * bytes : bytes;
}

tutti_status tt_saved_take(struct tt_operation *o)
{
    struct tt_tag *t = o->kept;
    const uint32_t at =
        t->tentative.op && tt_is_saved(&t->tentative.saved) && t->tentative.saved.copy == 0;
    const size_t input_bytes = o->op->src ? overwrites(o) : 0, more_bytes = feedback_bytes(o),
                 bytes = input_bytes + more_bytes;

    if (bytes == 0)
        return TUTTI_OK;
    if (bytes > t->copy_cap[at]) {
        free(t->copy[at]);
        t->copy[at] = malloc(bytes);
        t->copy_cap[at] = t->copy[at] ? bytes : 0;
        if (!t->copy[at])
            return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for a copy of the input (%zu bytes)",
                           tt_operation_call(), bytes);
    }
    if (input_bytes)
        memcpy(t->copy[at], o->op->src, input_bytes);
    if (more_bytes)
        memcpy((uint8_t *)t->copy[at] + input_bytes, o->op->error_feedback, more_bytes);
    o->saved = (struct tt_saved){ .input = (void *)(uintptr_t)o->op->src,
                                  .input_bytes = input_bytes,
                                  .feedback = o->op->error_feedback,
                                  .feedback_bytes = more_bytes,
                                  .copy = at };
    return TUTTI_OK;
}

/* The tag and its copies belong to the operation until tt_operation_judge has returned. */
void tt_saved_restore(tutti_run *run, const struct tt_tag *t, const struct tt_saved *saved)
{
    if (!tt_is_saved(saved))
        return;
    tt_run_unlock(run);
    if (saved->input_bytes)
        memcpy(saved->input, t->copy[saved->copy], saved->input_bytes);
    if (saved->feedback_bytes)
        memcpy(saved->feedback, (uint8_t *)t->copy[saved->copy] + saved->input_bytes,
               saved->feedback_bytes);
    tt_run_lock(run);
}
