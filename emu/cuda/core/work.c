#include "work.h"

#include "copy.h"
#include "fail.h"
#include "graph.h"
#include "ipc_event.h"
#include "kernel.h"
#include "machine.h"
#include "memory.h"
#include "space.h"
#include "value.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Extends the work to the time that it would take on the described device. */
static void last_until(uint64_t end_ns)
{
    const struct timespec end = { (time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL))
        ;
}

static CUresult perform(struct tt_emu_work *w, int device)
{
    switch (w->kind) {
    case TT_EMU_COPY:
        return tt_emu_copy_run(&w->copy);
    case TT_EMU_FILL:
        return tt_emu_fill_run(&w->fill);
    case TT_EMU_KERNEL:
        return tt_emu_kernel_run(&w->kernel, device);
    case TT_EMU_HOST:
        w->host.fn(w->host.arg);
        return CUDA_SUCCESS;
    case TT_EMU_CALLBACK:
        w->callback.fn(w->callback.stream, tt_emu_device_ready(device), w->callback.arg);
        return CUDA_SUCCESS;
    case TT_EMU_MARK:
        tt_emu_mark_done(w->mark);
        return CUDA_SUCCESS;
    case TT_EMU_WAIT:
        tt_emu_mark_wait(w->mark);
        return CUDA_SUCCESS;
    case TT_EMU_VALUE_WAIT:
        return tt_emu_value_wait(w->value.at, w->value.value, w->value.flags, w->value.bytes,
                                 device);
    case TT_EMU_VALUE_WRITE:
        return tt_emu_value_write(w->value.at, w->value.value, w->value.bytes);
    case TT_EMU_FREE:
        return tt_emu_memory_free(w->freed);
    case TT_EMU_IPC_MARK:
        tt_emu_ipc_counters_complete(w->ipc.counters, w->ipc.count);
        return CUDA_SUCCESS;
    case TT_EMU_IPC_WAIT:
        tt_emu_ipc_counters_wait(w->ipc.counters, w->ipc.count, device);
        return CUDA_SUCCESS;
    case TT_EMU_HELD:
    case TT_EMU_EMPTY:
        break;
    }
    return CUDA_SUCCESS;
}

static uint64_t duration_ns(const struct tt_emu_work *w)
{
    const uint64_t launch = tt_emu_machine()->launch_ns;

    switch (w->kind) {
    case TT_EMU_COPY:
        return launch + tt_emu_copy_ns(&w->copy);
    case TT_EMU_FILL:
        return launch + tt_emu_fill_ns(&w->fill);
    case TT_EMU_KERNEL:
        return launch;
    default:
        return 0;
    }
}

CUresult tt_emu_work_run(struct tt_emu_work *w, int device)
{
    const uint64_t duration = duration_ns(w);
    const uint64_t start = duration ? tt_emu_now_ns() : 0;
    const CUresult st = perform(w, device);

    if (duration)
        last_until(start + duration);
    return st;
}

void tt_emu_work_copy(struct tt_emu_work *to, const struct tt_emu_work *from)
{
    *to = *from;
    if (from->kind == TT_EMU_KERNEL) {
        to->kernel.arguments = tt_emu_alloc(from->kernel.function->bytes);
        memcpy(to->kernel.arguments, from->kernel.arguments, from->kernel.function->bytes);
    } else if (from->kind == TT_EMU_COPY && from->copy.staged) {
        const size_t bytes = from->copy.width * from->copy.height * from->copy.depth;

        to->copy.staged = tt_emu_alloc(bytes);
        memcpy(to->copy.staged, from->copy.staged, bytes);
        to->copy.from = (uintptr_t)to->copy.staged;
    } else if (from->kind == TT_EMU_MARK || from->kind == TT_EMU_WAIT) {
        tt_emu_mark_get(to->mark);
    } else if (from->kind == TT_EMU_IPC_MARK || from->kind == TT_EMU_IPC_WAIT) {
        tt_emu_ipc_counters_get(to->ipc.counters);
    } else if (from->kind == TT_EMU_HELD) {
        to->held = tt_emu_held_copy(from->held);
    }
}

void tt_emu_work_fini(struct tt_emu_work *w)
{
    if (w->kind == TT_EMU_KERNEL)
        free(w->kernel.arguments);
    else if (w->kind == TT_EMU_COPY)
        free(w->copy.staged);
    else if (w->kind == TT_EMU_MARK || w->kind == TT_EMU_WAIT)
        tt_emu_mark_put(w->mark);
    else if (w->kind == TT_EMU_IPC_MARK || w->kind == TT_EMU_IPC_WAIT)
        tt_emu_ipc_counters_put(w->ipc.counters);
    else if (w->kind == TT_EMU_HELD)
        tt_emu_held_release(w->held);
    w->kind = TT_EMU_EMPTY;
}
