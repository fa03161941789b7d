/* Kernels of the tests. In the emulation they are host functions. */
#ifndef TESTS_EMU_KERNELS_H
#define TESTS_EMU_KERNELS_H

/* The keys by which cudaLaunchKernel starts them, after kernels_register. */
extern const char kernel_add, kernel_blocks, kernel_fail;

/* kernel_add(int *p, int n, int value): p[i] += value
 * kernel_blocks(int *p): p[block] is incremented by every block; all blocks wait for each other
 * kernel_fail(): fails with CUDA_ERROR_ASSERT */
void kernels_register(void);

#endif
