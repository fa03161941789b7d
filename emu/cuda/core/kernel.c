#include "kernel.h"

#include "fail.h"
#include "handles.h"
#include "machine.h"
#include "space.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SHARED_MAX (227 << 10)   /* dynamic shared memory of a block, bytes */
#define THREADS_MAX 1024        /* concurrent blocks of a launch */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUfunction *functions;   /* sorted by key; never freed, because launches refer to them */
static size_t nfunctions, functions_max;
static _Thread_local CUresult failure;

/* ---- registration ---- */

static size_t index_of(const void *key)
{
    size_t low = 0, high = nfunctions;

    while (low < high) {
        const size_t mid = (low + high) / 2;

        if (functions[mid]->key < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

CUfunction tt_emu_kernel_find(const void *key)
{
    CUfunction f = NULL;
    size_t i;

    pthread_mutex_lock(&lock);
    i = index_of(key);
    if (i < nfunctions && functions[i]->key == key)
        f = functions[i];
    pthread_mutex_unlock(&lock);
    return f;
}

/* The new function replaces an older one of its key. The older one stays allocated. */
static void add(CUfunction f)
{
    size_t i;

    f->attribute[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
    f->attribute[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32;
    f->attribute[CU_FUNC_ATTRIBUTE_PTX_VERSION] = 90;
    f->attribute[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90;
    f->attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 48 << 10;
    tt_emu_handle_add(f, TT_EMU_FUNCTION);
    pthread_mutex_lock(&lock);
    i = index_of(f->key);
    if (i == nfunctions || functions[i]->key != f->key) {
        if (nfunctions == functions_max) {
            functions_max = functions_max ? 2 * functions_max : 64;
            functions = realloc(functions, functions_max * sizeof(*functions));
            if (!functions)
                abort();
        }
        memmove(&functions[i + 1], &functions[i], (nfunctions - i) * sizeof(*functions));
        nfunctions++;
    }
    functions[i] = f;
    pthread_mutex_unlock(&lock);
}

void tt_emu_kernel_add_foreign(const void *key, const char *name)
{
    CUfunction f;

    if (tt_emu_kernel_find(key))
        return;
    f = tt_emu_alloc(sizeof(*f));
    f->key = key;
    strncpy(f->name, name ? name : "", sizeof(f->name) - 1);
    add(f);
}

int tutti_emu_kernel_register(const void *key, tutti_emu_kernel_fn fn, const char *name,
                              unsigned narguments, const size_t *size, unsigned flags)
{
    CUfunction f;

    if (!key || !fn || narguments > TT_EMU_ARGUMENTS_MAX ||
        flags > (TUTTI_EMU_PER_BLOCK | TUTTI_EMU_CONCURRENT))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < narguments; i++)
        if (!size[i] || size[i] > 4096)
            return CUDA_ERROR_INVALID_VALUE;
    f = tt_emu_alloc(sizeof(*f));
    f->key = key;
    f->fn = fn;
    f->narguments = narguments;
    f->flags = flags;
    strncpy(f->name, name ? name : "", sizeof(f->name) - 1);
    for (unsigned i = 0; i < narguments; i++) {
        f->size[i] = size[i];
        f->offset[i] = f->bytes;
        f->bytes += (size[i] + 15) & ~(size_t)15;
    }
    add(f);
    return CUDA_SUCCESS;
}

CUresult tt_emu_kernel_set(CUfunction f, CUfunction_attribute which, int value)
{
    switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > SHARED_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    f->attribute[which] = value;
    return CUDA_SUCCESS;
}

int tt_emu_kernel_occupancy(int block_threads, size_t shared)
{
    const int warps = (block_threads + 31) / 32;
    int blocks = 64 / warps;

    if (blocks > 32)
        blocks = 32;
    if (shared && (size_t)blocks > (228u << 10) / (shared + 1024))
        blocks = (int)((228u << 10) / (shared + 1024));
    return blocks;
}

/* ---- launches ---- */

static bool dimensions_valid(const unsigned grid[3], const unsigned block[3])
{
    static const unsigned grid_max[3] = { 0x7fffffff, 65535, 65535 };
    static const unsigned block_max[3] = { 1024, 1024, 64 };

    for (int i = 0; i < 3; i++)
        if (!grid[i] || !block[i] || grid[i] > grid_max[i] || block[i] > block_max[i])
            return false;
    return block[0] * block[1] * block[2] <= 1024;
}

CUresult tt_emu_kernel_work(CUfunction f, const unsigned grid[3], const unsigned block[3],
                            unsigned shared, void **arguments, struct tt_emu_work *out)
{
    static _Atomic bool noted;
    char *copy;

    if (!f->fn) {
        if (!atomic_exchange(&noted, true))
            tt_emu_note(
                "launch of \"%s\" failed: code of nvcc needs a GPU (register a host function "
                "by tutti_emu_kernel_register)",
                f->name);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (!dimensions_valid(grid, block) ||
        shared > (unsigned)f->attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES])
        return CUDA_ERROR_INVALID_VALUE;
    if (f->narguments && !arguments)
        return CUDA_ERROR_INVALID_VALUE;
    if (f->flags & TUTTI_EMU_CONCURRENT && (uint64_t)grid[0] * grid[1] * grid[2] > THREADS_MAX)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    copy = tt_emu_alloc(f->bytes);
    for (unsigned i = 0; i < f->narguments; i++)
        memcpy(copy + f->offset[i], arguments[i], f->size[i]);
    *out = (struct tt_emu_work){ .kind = TT_EMU_KERNEL };
    out->kernel = (struct tt_emu_kernel){
        f, { grid[0], grid[1], grid[2] }, { block[0], block[1], block[2] }, shared, copy
    };
    return CUDA_SUCCESS;
}

/* A block of a launch. */
struct call {
    tutti_emu_kernel_fn fn;
    struct tutti_emu_launch launch;
    void **arguments;
    CUresult failure;
    pthread_t thread;
};

static void *call_run(void *arg)
{
    struct call *c = arg;

    c->launch.shared = c->launch.shared_bytes ? tt_emu_alloc(c->launch.shared_bytes) : NULL;
    failure = CUDA_SUCCESS;
    c->fn(&c->launch, c->arguments);
    c->failure = failure;
    free(c->launch.shared);
    return NULL;
}

static void set_block(struct tutti_emu_launch *l, size_t i)
{
    l->block_index[0] = (unsigned)(i % l->grid[0]);
    l->block_index[1] = (unsigned)(i / l->grid[0] % l->grid[1]);
    l->block_index[2] = (unsigned)(i / l->grid[0] / l->grid[1]);
}

static CUresult run_in_order(struct call *c, size_t nblocks)
{
    CUresult st = CUDA_SUCCESS;

    for (size_t i = 0; i < nblocks && !st; i++) {
        set_block(&c->launch, i);
        call_run(c);
        st = c->failure;
    }
    return st;
}

/* Each block has a thread, so blocks may wait for each other. */
static CUresult run_together(const struct call *c, size_t nblocks)
{
    struct call *calls = tt_emu_alloc(nblocks * sizeof(*calls));
    CUresult st = CUDA_SUCCESS;

    for (size_t i = 0; i < nblocks; i++) {
        calls[i] = *c;
        set_block(&calls[i].launch, i);
        if (pthread_create(&calls[i].thread, NULL, call_run, &calls[i])) {
            tt_emu_note("cannot create the thread of a block");
            abort();
        }
    }
    for (size_t i = 0; i < nblocks; i++) {
        pthread_join(calls[i].thread, NULL);
        if (!st)
            st = calls[i].failure;
    }
    free(calls);
    return st;
}

CUresult tt_emu_kernel_run(const struct tt_emu_kernel *k, int device)
{
    const CUfunction f = k->function;
    void *arguments[TT_EMU_ARGUMENTS_MAX];
    struct call c = { .fn = f->fn, .arguments = arguments };
    const size_t nblocks = (size_t)k->grid[0] * k->grid[1] * k->grid[2];
    CUresult st;

    for (unsigned i = 0; i < f->narguments; i++)
        arguments[i] = (char *)k->arguments + f->offset[i];
    memcpy(c.launch.grid, k->grid, sizeof(k->grid));
    memcpy(c.launch.block, k->block, sizeof(k->block));
    c.launch.shared_bytes = k->shared;
    c.launch.device = device;
    tt_emu_space_open();
    if (!(f->flags & TUTTI_EMU_PER_BLOCK))
        st = run_in_order(&c, 1);
    else if (!(f->flags & TUTTI_EMU_CONCURRENT))
        st = run_in_order(&c, nblocks);
    else
        st = run_together(&c, nblocks);
    tt_emu_space_close();
    return st;
}

void tutti_emu_kernel_fail(int error)
{
    failure = error ? (CUresult)error : CUDA_ERROR_LAUNCH_FAILED;
}

void *tutti_emu_host_alias(const void *pointer)
{
    return tt_emu_space_alias((uintptr_t)pointer);
}
