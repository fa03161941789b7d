/* Helpers of all calls of the runtime. */
#ifndef TT_EMU_RT_H
#define TT_EMU_RT_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <stdbool.h>

/* Ends a call: an error becomes the last error of the thread. The error codes of the driver and of
 * the runtime have the same values. */
cudaError_t tt_emu_rt_done(CUresult st);

/* As tt_emu_rt_done, for an error code that only the runtime has. */
cudaError_t tt_emu_rt_error(cudaError_t error);

/* The stream of a handle. */
CUresult tt_emu_rt_stream(cudaStream_t handle, CUstream *out);

#endif
