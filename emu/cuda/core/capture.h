/* Work of a stream that is being captured becomes nodes of a graph. Until graphs exist, no
 * stream is being captured. */
#ifndef TT_EMU_CAPTURE_H
#define TT_EMU_CAPTURE_H

#include "event.h"
#include "stream.h"

static inline CUresult tt_emu_capture_work(CUstream s, struct tt_emu_work *w, bool *captured)
{
    (void)s;
    (void)w;
    (void)captured;
    return CUDA_SUCCESS;
}
static inline CUresult tt_emu_capture_unsupported(CUstream s)
{
    (void)s;
    return CUDA_SUCCESS;
}
static inline void tt_emu_capture_forget(CUstream s)
{
    (void)s;
}
static inline bool tt_emu_stream_captures(CUstream s)
{
    (void)s;
    return false;
}
static inline CUresult tt_emu_capture_record(CUstream s, CUevent e, unsigned f, bool *captured)
{
    (void)s;
    (void)e;
    (void)f;
    (void)captured;
    return CUDA_SUCCESS;
}
static inline CUresult tt_emu_capture_wait(CUstream s, CUevent e, unsigned f, bool *captured)
{
    return tt_emu_capture_record(s, e, f, captured);
}
static inline CUresult tt_emu_capture_event_unsupported(CUevent e)
{
    (void)e;
    return CUDA_SUCCESS;
}
static inline void tt_emu_capture_point_put(struct tt_emu_capture_point *p)
{
    (void)p;
}

#endif
