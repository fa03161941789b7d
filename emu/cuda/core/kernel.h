/* Kernels that the program registers (tutti_emu.h). Runtime and driver name them differently: by
 * the address of the host function, and by a CUfunction. */
#ifndef TT_EMU_KERNEL_H
#define TT_EMU_KERNEL_H

#include "work.h"

#include "tutti_emu.h"

#define TT_EMU_ARGUMENTS_MAX 64

struct CUfunc_st {
    const void *key;            /* the argument of cudaLaunchKernel */
    char        name[128];
    tutti_emu_kernel_fn fn;     /* NULL: code for a GPU only */
    unsigned    narguments;
    size_t      size[TT_EMU_ARGUMENTS_MAX], offset[TT_EMU_ARGUMENTS_MAX];
    size_t      bytes;          /* of all arguments */
    unsigned    flags;
    int         attribute[CU_FUNC_ATTRIBUTE_MAX];
};

/* The function that was registered for `key`, or NULL. */
CUfunction tt_emu_kernel_find(const void *key);

/* Registers `key` as code that only a GPU can run, so that a launch returns the right error. */
void tt_emu_kernel_add_foreign(const void *key, const char *name);

/* Describes a launch as work. `arguments` points to one pointer per argument. */
CUresult tt_emu_kernel_work(CUfunction f, const unsigned grid[3], const unsigned block[3],
                            unsigned shared, void **arguments, struct tt_emu_work *out);

/* Sets an attribute that a program may set. CUDA_ERROR_INVALID_VALUE: another attribute, or an
 * invalid value. */
CUresult tt_emu_kernel_set(CUfunction f, CUfunction_attribute which, int value);

/* Blocks that a multiprocessor of the described device can run concurrently. */
int tt_emu_kernel_occupancy(int block_threads, size_t shared);

/* Performs a launch in the calling thread. */
CUresult tt_emu_kernel_run(const struct tt_emu_kernel *k, int device);

#endif
