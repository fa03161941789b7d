/* Stream capture: work of a stream that is being captured becomes nodes of a graph. Other streams
 * join when they wait for an event of the capture. All calls take tt_emu_graph_lock. */
#ifndef TT_EMU_CAPTURE_H
#define TT_EMU_CAPTURE_H

#include "event.h"
#include "graph.h"
#include "stream.h"

struct tt_emu_capture;

/* Where an event was recorded in a capture. */
struct tt_emu_capture_point {
    uint64_t capture_id;
    struct tt_emu_nodes nodes;
};

/* ---- what streams and events call ---- */

/* Makes a node of `work`, which it then owns, if the stream is being captured (*captured). Fails
 * for work of the legacy stream while a blocking stream is being captured, which ends that
 * capture. */
CUresult tt_emu_capture_work(CUstream s, struct tt_emu_work *work, bool *captured);

/* Fails if the stream is being captured (or is the legacy stream while a blocking one is): the
 * calling operation cannot be captured, and the capture becomes invalid. */
CUresult tt_emu_capture_unsupported(CUstream s);

/* As tt_emu_capture_unsupported, for all streams of a device. */
CUresult tt_emu_capture_unsupported_device(int device);

/* Calls that may disturb a capture (allocations, queries of events): fail according to the modes of
 * the captures and of the thread, and make the captures invalid. */
CUresult tt_emu_capture_unsafe(void);

/* Before a stream ends. */
void tt_emu_capture_forget(CUstream s);

bool tt_emu_stream_captures(CUstream s);

/* Records an event in a capture, or waits for one; *captured is false if that is ordinary work. */
CUresult tt_emu_capture_record(CUstream s, CUevent e, unsigned flags, bool *captured);
CUresult tt_emu_capture_wait(CUstream s, CUevent e, unsigned flags, bool *captured);

/* CUDA_ERROR_CAPTURED_EVENT if the event was last recorded in a capture. */
CUresult tt_emu_capture_event_unsupported(CUevent e);

void tt_emu_capture_point_put(struct tt_emu_capture_point *p);

/* ---- what programs call ---- */

/* Starts a capture into a new graph, or (graph not NULL) into an existing one after some nodes. */
CUresult tt_emu_capture_begin(CUstream s, CUstreamCaptureMode mode, CUgraph graph,
                              const CUgraphNode *before, size_t n);

/* Ends it; *graph is NULL on error. */
CUresult tt_emu_capture_end(CUstream s, CUgraph *graph);

/* The dependencies are valid until the next call for the stream. NULL outputs are allowed. */
CUresult tt_emu_capture_info(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                             CUgraph *graph, const CUgraphNode **before, size_t *n);
CUresult tt_emu_capture_update(CUstream s, const CUgraphNode *before, size_t n, unsigned flags);

/* Exchanges the mode of the thread. */
CUresult tt_emu_capture_mode(CUstreamCaptureMode *mode);

#endif
