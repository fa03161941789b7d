/* Calls on streams that are being captured: they add nodes to the graph instead of starting a unit.
 *
 *     [copies from the device] -> host function: arrive -> wait for the end word ->
 *     [host function: depart] -> [copies to it]
 *
 * The copies are nodes if the unit is direct (gpu/direct.h). Otherwise the worker copies, as for
 * other units. gpu/captured.h describes what happens at a launch. */
#ifndef TT_GPU_CAPTURE_H
#define TT_GPU_CAPTURE_H

#include "gpu/gpu.h"

/* Checks a further stream of a unit, and sets the unit's capture. Returns an error if the stream
 * was invalidated, or is not in the same capture as the other streams of the unit. */
tutti_status tt_gpu_capture_stream(struct tt_gpu_unit *u, const struct tt_cuda *cu,
                                   tt_cuda_stream stream);

/* Adds unit[n] of gpu[n] to the graphs of their captures, which own them. On error the units are
 * freed, or never run. */
tutti_status tt_gpu_capture_add(struct tt_gpu_unit **unit, tutti_gpu **gpu, size_t n);

#endif
