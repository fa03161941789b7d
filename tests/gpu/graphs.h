/* CUDA graphs of a world's ranks, by calls of the driver library. */
#ifndef TESTS_GPU_GRAPHS_H
#define TESTS_GPU_GRAPHS_H

#include "world.h"

typedef void *graph_t;
typedef void *exec_t;

enum { CAPTURE_GLOBAL = 0, CAPTURE_THREAD = 1 };    /* CUstreamCaptureMode */

/* Starts to capture the stream of a rank; capture_end asserts success. */
void capture_begin(struct world *w, int rank, int mode);
graph_t capture_end(struct world *w, int rank);
/* As capture_end, but returns the error of CUDA. */
tt_cuda_result capture_end_error(struct world *w, int rank, graph_t *graph);

exec_t graph_instantiate(struct world *w, int rank, graph_t graph);
void graph_destroy(graph_t graph);
void exec_destroy(exec_t exec);
tt_cuda_result exec_update(exec_t exec, graph_t graph);
/* Launches on the rank's stream, or on another one. */
void exec_launch(struct world *w, int rank, exec_t exec);
void exec_launch_on(struct world *w, int rank, exec_t exec, tt_cuda_stream stream);

void device_reset(int device);
/* Causes an error of the rank's device that persists until its reset, and returns true. Returns
 * false if the device is not emulated. */
bool device_break(struct world *w, int rank);

/* Ends a capture and instantiates it; the graph is destroyed. */
exec_t capture_end_exec(struct world *w, int rank);

#endif
