/* Waits for values in memory, and writes of values, by streams. */
#ifndef TT_EMU_VALUE_H
#define TT_EMU_VALUE_H

#include <cuda.h>
#include <stdint.h>

/* Waits until the `bytes` (4 or 8) at an address satisfy the condition in `flags`
 * (CU_STREAM_WAIT_VALUE_*), or the device has an error. */
CUresult tt_emu_value_wait(uintptr_t at, uint64_t value, unsigned flags, unsigned bytes,
                           int device);

/* Stores a value with release order. */
CUresult tt_emu_value_write(uintptr_t at, uint64_t value, unsigned bytes);

#endif
