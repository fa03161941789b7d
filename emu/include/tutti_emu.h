/* Programs on emulated CUDA: kernels that a host compiler compiled, and control of the emulation.
 * docs/emulation.md describes it. These calls are in libcuda.so.1 of the emulation only. */
#ifndef TUTTI_EMU_H
#define TUTTI_EMU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A launch, as passed to the kernel. */
struct tutti_emu_launch {
    unsigned grid[3], block[3];     /* dimensions: x, y, z */
    unsigned shared_bytes;          /* dynamic shared memory of each block */
    int      device;
    unsigned block_index[3];        /* of this call, with TUTTI_EMU_PER_BLOCK; otherwise 0 */
    void    *shared;                /* shared_bytes of zeros, with TUTTI_EMU_PER_BLOCK */
};

/* A kernel: called by the thread of a stream. arguments[i] points to a copy of argument i of the
 * launch. Pointers to device memory can be dereferenced. CUDA calls fail in it. */
typedef void (*tutti_emu_kernel_fn)(const struct tutti_emu_launch *launch, void **arguments);

enum {
    TUTTI_EMU_PER_LAUNCH = 0,       /* one call for the whole grid */
    TUTTI_EMU_PER_BLOCK = 1,        /* one call per block, in order */
    TUTTI_EMU_CONCURRENT = 2,       /* with PER_BLOCK: all blocks at the same time, in threads */
};

/* Registers `fn` as the kernel that cudaLaunchKernel(key, ...) starts; `key` is the address of any
 * function or object of the program. size[i] is the size of argument i in bytes. `name` is copied.
 * Returns 0, or the value of CUDA_ERROR_INVALID_VALUE (more than 64 arguments, an argument of more
 * than 4 KiB, key or fn NULL). Registering a key again replaces its kernel for later launches. */
int tutti_emu_kernel_register(const void *key, tutti_emu_kernel_fn fn, const char *name,
                              unsigned narguments, const size_t *size, unsigned flags);

/* Within a kernel: ends it with an error, like a trap or an invalid address on a GPU. The error (a
 * value of CUresult, not 0) then sticks to the device. Takes effect when the kernel returns. */
void tutti_emu_kernel_fail(int error);

/* The address at which the host can access device memory, or NULL if `pointer` is not a device
 * address. For tests and debuggers; it stays valid until the memory is freed. */
void *tutti_emu_host_alias(const void *pointer);

#ifdef __cplusplus
}
#endif

#endif
