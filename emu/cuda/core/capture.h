/* Stream capture: work of a stream that is being captured becomes nodes of a graph. Other streams
 * join when they wait for an event of the capture. All calls take tt_emu_graph_lock. */
#ifndef TT_EMU_CAPTURE_H
#define TT_EMU_CAPTURE_H

#include "event.h"
#include "graph.h"
#include "stream.h"

struct tt_emu_capture;

/* The point of a capture at which an event was recorded. */
struct tt_emu_capture_point {
    uint64_t capture_id;
    struct tt_emu_nodes nodes;
};

/* ---- calls of streams and events ---- */

/* If the stream is being captured (*captured), makes a node of `work`, which the node then owns.
 * Work of the legacy stream fails while a blocking stream is being captured, and invalidates that
 * capture. */
CUresult tt_emu_capture_work(CUstream s, struct tt_emu_work *work, bool *captured);

/* Fails if the stream is being captured (or is the legacy stream while a blocking one is): the
 * calling operation cannot be captured, and the capture becomes invalid. */
CUresult tt_emu_capture_unsupported(CUstream s);

/* As tt_emu_capture_unsupported, for all streams of a device. */
CUresult tt_emu_capture_unsupported_device(int device);

/* Checks a call that may disturb captures (an allocation, an event query). Fails according to the
 * modes of the captures and of the thread, and then makes the captures invalid. */
CUresult tt_emu_capture_unsafe(void);

/* Called before a stream is destroyed. */
void tt_emu_capture_forget(CUstream s);

bool tt_emu_stream_captures(CUstream s);

/* Record an event in a capture, or wait for one; *captured is false if no capture is affected. */
CUresult tt_emu_capture_record(CUstream s, CUevent e, unsigned flags, bool *captured);
CUresult tt_emu_capture_wait(CUstream s, CUevent e, unsigned flags, bool *captured);

/* CUDA_ERROR_CAPTURED_EVENT if the event was last recorded in a capture. */
CUresult tt_emu_capture_event_unsupported(CUevent e);

void tt_emu_capture_point_put(struct tt_emu_capture_point *p);

/* ---- calls of programs ---- */

/* Starts a capture into a new graph, or (graph not NULL) into an existing one after some nodes. */
CUresult tt_emu_capture_begin(CUstream s, CUstreamCaptureMode mode, CUgraph graph,
                              const CUgraphNode *before, size_t n);

/* Ends the capture; *graph is NULL on error. */
CUresult tt_emu_capture_end(CUstream s, CUgraph *graph);

/* The dependencies are valid until the next call for the stream. NULL outputs are allowed. */
CUresult tt_emu_capture_info(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                             CUgraph *graph, const CUgraphNode **before, size_t *n);
CUresult tt_emu_capture_update(CUstream s, const CUgraphNode *before, size_t n, unsigned flags);

/* Exchanges the capture mode of the thread with *mode. */
CUresult tt_emu_capture_mode(CUstreamCaptureMode *mode);

#endif
