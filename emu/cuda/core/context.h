/* Contexts, and the device of the calling thread. */
#ifndef TT_EMU_CONTEXT_H
#define TT_EMU_CONTEXT_H

#include <cuda.h>
#include <stdbool.h>

struct CUctx_st {
    int      device;
    unsigned flags;
    bool     primary;
    unsigned long long id;
};

/* The primary context of a device, created at first use. The device must exist. */
CUcontext tt_emu_context_primary(int device);

CUresult tt_emu_context_create(int device, unsigned flags, CUcontext *out);
CUresult tt_emu_context_destroy(CUcontext c);

/* The current context of the calling thread, or NULL. */
CUcontext tt_emu_context_current(void);
CUresult tt_emu_context_set(CUcontext c);       /* replaces the top of the stack; NULL empties it */
CUresult tt_emu_context_push(CUcontext c);
CUresult tt_emu_context_pop(CUcontext *out);

/* The device of the current context. Without one, makes the primary context of device 0 current,
 * as the runtime does. CUDA_ERROR_NOT_PERMITTED in a host function, or the sticky error of the
 * device. */
CUresult tt_emu_context_device(int *device);

/* Ends the work of a device, frees its memory, and clears its error. Streams and events stay. */
void tt_emu_device_reset(int device);

/* The current context, made current as by tt_emu_context_device. */
CUresult tt_emu_context_get(CUcontext *out);

#endif
