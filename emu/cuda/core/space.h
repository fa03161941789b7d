/* Address ranges of device memory. Each is mapped twice: at the address that the program gets,
 * where loads and stores of the host fault, and at an alias, which copies use. While kernels run
 * (or with TUTTI_EMU_HOST_ACCESS=1) the address of the program is accessible, too, for all
 * threads. */
#ifndef TT_EMU_SPACE_H
#define TT_EMU_SPACE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Part of a memory file. */
struct tt_emu_backing {
    int    fd;
    size_t offset, bytes;
};

/* Reserves addresses twice, without memory. *base is a multiple of `align` (a power of two).
 * CUDA_ERROR_OUT_OF_MEMORY if there are no addresses. */
CUresult tt_emu_space_reserve(size_t bytes, size_t align, uintptr_t hint, uintptr_t *base);

/* Ends a reservation of exactly this range, including what is mapped in it. */
CUresult tt_emu_space_release(uintptr_t base, size_t bytes);

/* Maps memory into a reserved range, or removes it again (backing NULL). Offsets and sizes are
 * multiples of the page size. The host may not access it. */
CUresult tt_emu_space_map(uintptr_t at, const struct tt_emu_backing *backing, size_t bytes);

/* The accessible alias of a device address, or NULL if it is in no space. */
void *tt_emu_space_alias(uintptr_t address);

/* Between open and close, the program's addresses are accessible. Calls nest. Any thread. */
void tt_emu_space_open(void);
void tt_emu_space_close(void);

/* A memory file of `bytes`, without memory until it is used; its name contains the device. */
CUresult tt_emu_file_create(int device, size_t bytes, int *fd);

/* The device of a memory file of any process, or -1 if `fd` is not such a file or the device is not
 * visible in this process. */
int tt_emu_file_device(int fd);

/* The same for the path of a descriptor, e.g. /proc/self/fd/5, without opening it. */
int tt_emu_path_device(const char *path);

#endif
