/* Helpers of all calls of the driver. */
#ifndef TT_EMU_DRV_H
#define TT_EMU_DRV_H

#include <cuda.h>

/* CUDA_ERROR_NOT_INITIALIZED before cuInit. */
CUresult tt_emu_drv_ready(void);

/* As tt_emu_drv_ready; CUDA_ERROR_INVALID_DEVICE if there is no such device. */
CUresult tt_emu_drv_device_exists(CUdevice device);

/* The device of the current context; CUDA_ERROR_INVALID_CONTEXT if there is no context. Unlike the
 * runtime, the driver creates none. */
CUresult tt_emu_drv_device(int *device);

/* The stream of a handle, with the same errors. */
CUresult tt_emu_drv_stream(CUstream handle, CUstream *out);

#endif
