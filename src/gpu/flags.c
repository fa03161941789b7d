/* Sets of pinned words, kept for the process. */
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

tutti_status tt_gpu_flags_open(struct tt_gpu_flags **out, const struct tt_cuda *cu,
                               tt_cuda_context context)
{
    struct tt_gpu_flags *f = take_unused(context);
    tt_cuda_result error;

    if (!f) {
        f = calloc(1, sizeof *f);
        if (!f)
            return tt_fail(TUTTI_ERR_NOMEM, "gpu: out of memory");
        error = cu->host_alloc((void **)&f->words, BYTES,
                               TT_CUDA_HOST_PORTABLE | TT_CUDA_HOST_DEVICE_MAP);
        if (!error) {
            memset(f->words, 0, BYTES);
            error = cu->host_address(&f->address, f->words, 0);
        }
        if (error) {
            if (f->words)
                cu->host_free(f->words);
            free(f);
            return tt_cuda_fail(cu, error, "gpu: cannot allocate flags in pinned memory");
        }
        f->context = context;
    }
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
