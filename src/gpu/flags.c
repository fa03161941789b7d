/* Sets of pinned words, kept for the lifetime of the process. */
#include "gpu/flags.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BYTES ((TT_GPU_STARTS + 1 + TT_GPU_SLOTS) * sizeof(uint32_t))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tt_gpu_flags *unused;     /* protected by lock */

static struct tt_gpu_flags *take_unused(tt_cuda_context context)
{
    struct tt_gpu_flags **at, *f;

    pthread_mutex_lock(&lock);
    for (at = &unused; *at && (*at)->context != context;)
        at = &(*at)->next;
    f = *at;
    if (f)
        *at = f->next;
    pthread_mutex_unlock(&lock);
    return f;
}

static tutti_status create(struct tt_gpu_flags **out, const struct tt_cuda *cu,
                           tt_cuda_context context)
{
    struct tt_gpu_flags *f = calloc(1, sizeof *f);
    tutti_status st;

    if (!f)
        return tt_fail(TUTTI_ERR_NOMEM, "gpu: out of memory");
    st = tt_gpu_pinned_take(&f->memory, cu, context, BYTES);
    if (st) {
        free(f);
        return st;
    }
    f->words = (uint32_t *)(void *)f->memory->mem;
    memset(f->words, 0, BYTES);
    f->context = context;
    *out = f;
    return TUTTI_OK;
}

/* Makes a closed set usable again, after a possible device reset. Streams that used its slots ended
 * with the reset. */
static tutti_status check(struct tt_gpu_flags *f, const struct tt_cuda *cu)
{
    bool again;
    tutti_status st = tt_gpu_pinned_check(f->memory, cu, &again);

    for (uint32_t i = 0; i < TT_GPU_SLOTS; i++) {
        struct tt_gpu_slot *slot = &f->slots[i];

        if (again)
            f->words[TT_GPU_STARTS + 1 + i] = slot->sequence;
        if (!st && slot->memory)
            st = tt_gpu_pinned_check(slot->memory, cu, &(bool){ false });
    }
    return st;
}

tutti_status tt_gpu_flags_open(struct tt_gpu_flags **out, const struct tt_cuda *cu,
                               tt_cuda_context context)
{
    struct tt_gpu_flags *f = take_unused(context);
    tutti_status st = f ? check(f, cu) : create(&f, cu, context);

    if (st) {
        if (f)
            tt_gpu_flags_close(f);
        return st;
    }
    f->address = f->memory->address;
    f->starts_free = TT_GPU_STARTS;
    *out = f;
    return TUTTI_OK;
}

void tt_gpu_flags_close(struct tt_gpu_flags *f)
{
    pthread_mutex_lock(&lock);
    f->next = unused;
    unused = f;
    pthread_mutex_unlock(&lock);
}

tt_cuda_result tt_gpu_flags_add_start(const struct tt_gpu_flags *f, const struct tt_cuda *cu,
                                      tt_cuda_stream stream, uint32_t start, uint32_t sequence)
{
    return cu->stream_write_value(stream, f->address + start * sizeof(uint32_t), sequence, 0);
}

tt_cuda_result tt_gpu_flags_add_end(const struct tt_gpu_flags *f, const struct tt_cuda *cu,
                                    tt_cuda_stream stream, uint32_t sequence)
{
    return cu->stream_wait_value(stream, f->address + TT_GPU_STARTS * sizeof(uint32_t), sequence,
                                 0 /* until (int32_t)(word - sequence) >= 0 */);
}

tt_cuda_result tt_gpu_flags_add_free(const struct tt_gpu_flags *f, const struct tt_cuda *cu,
                                     tt_cuda_stream stream, uint32_t slot, uint32_t sequence)
{
    return cu->stream_write_value(
        stream, f->address + (TT_GPU_STARTS + 1 + slot) * sizeof(uint32_t), sequence, 0);
}
