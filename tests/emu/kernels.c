#include "kernels.h"

#include <cuda.h>
#include <sched.h>

#include "support/unit.h"
#include "tutti_emu.h"

const char kernel_add, kernel_blocks, kernel_fail;

static void add(const struct tutti_emu_launch *l, void **a)
{
    int *const p = *(int **)a[0];
    const int n = *(int *)a[1], value = *(int *)a[2];

    (void)l;
    for (int i = 0; i < n; i++)
        p[i] += value;
}

/* Each block increments the words of all blocks, then waits until its own word is complete. */
static void blocks(const struct tutti_emu_launch *l, void **a)
{
    int *const p = *(int **)a[0];
    const int n = (int)l->grid[0];

    for (int i = 0; i < n; i++)
        __atomic_fetch_add(&p[i], 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&p[l->block_index[0]], __ATOMIC_ACQUIRE) < n)
        sched_yield();
}

static void fail_now(const struct tutti_emu_launch *l, void **a)
{
    (void)l;
    (void)a;
    tutti_emu_kernel_fail(CUDA_ERROR_ASSERT);
}

void kernels_register(void)
{
    static const size_t add_sizes[] = { sizeof(int *), sizeof(int), sizeof(int) };
    static const size_t blocks_sizes[] = { sizeof(int *) };
    const unsigned concurrent = TUTTI_EMU_PER_BLOCK | TUTTI_EMU_CONCURRENT;

    assert_int_equal(tutti_emu_kernel_register(&kernel_add, add, "add", 3, add_sizes, 0), 0);
    assert_int_equal(
        tutti_emu_kernel_register(&kernel_blocks, blocks, "blocks", 1, blocks_sizes, concurrent),
        0);
    assert_int_equal(tutti_emu_kernel_register(&kernel_fail, fail_now, "fail", 0, NULL, 0), 0);
    assert_int_not_equal(tutti_emu_kernel_register(NULL, fail_now, "null", 0, NULL, 0), 0);
}
