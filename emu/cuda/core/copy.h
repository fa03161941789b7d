/* Copies and fills: checks of their addresses when they are called, and their execution. */
#ifndef TT_EMU_COPY_H
#define TT_EMU_COPY_H

#include "work.h"

#include <stdbool.h>

/* The side that a call states for an address. */
enum tt_emu_side {
    TT_EMU_SIDE_ANY,            /* determined from the address */
    TT_EMU_SIDE_HOST,
    TT_EMU_SIDE_DEVICE,
};

/* Copies within or between host and devices. CUDA_ERROR_INVALID_VALUE if a stated side is wrong, a
 * range of device memory is not allocated as a whole, or a pitch is too small.
 * Without `async` it returns when the copy is done, except copies within devices, which may
 * still run; with it, copies of pageable memory are synchronous, too. */
CUresult tt_emu_copy(struct tt_emu_copy copy, enum tt_emu_side to, enum tt_emu_side from,
                     CUstream stream, bool async);

/* As tt_emu_copy for `bytes` consecutive bytes. */
CUresult tt_emu_copy_bytes(uintptr_t to, uintptr_t from, size_t bytes, enum tt_emu_side to_side,
                           enum tt_emu_side from_side, CUstream stream, bool async);

/* Fills device memory or memory that devices can access. */
CUresult tt_emu_fill(struct tt_emu_fill fill, CUstream stream, bool async);

/* Execute the work; CUDA_ERROR_ILLEGAL_ADDRESS if device memory is no longer allocated. */
CUresult tt_emu_copy_run(const struct tt_emu_copy *copy);
CUresult tt_emu_fill_run(const struct tt_emu_fill *fill);

/* Return the minimum time of the work on the described device. */
uint64_t tt_emu_copy_ns(const struct tt_emu_copy *copy);
uint64_t tt_emu_fill_ns(const struct tt_emu_fill *fill);

#endif
