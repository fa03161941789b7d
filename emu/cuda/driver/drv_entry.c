/* Entry points by name. The loader finds them: this library exports each under its full name. */
#include "drv.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>

static void *symbol(const char *name, const char *suffix)
{
    char full[160];
    Dl_info self;
    void *library, *found;

    if (snprintf(full, sizeof(full), "%s%s", name, suffix) >= (int)sizeof(full))
        return NULL;
    if (!dladdr((const void *)(uintptr_t)cuInit, &self))
        return NULL;
    library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return NULL;
    found = dlsym(library, full);
    dlclose(library);
    return found;
}

/* The newest version of a call: "cuMemAlloc" returns cuMemAlloc_v2. */
CUresult CUDAAPI cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *result)
{
    static const char *const suffixes[] = { "_v4", "_v3", "_v2", "" };
    static const char *const thread_suffixes[] = { "_v3_ptsz",
                                                   "_v2_ptsz", "_ptsz", "_v2_ptds",
                                                   "_ptds" };
    void *found = NULL;

    if (!name || !out || version < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        for (unsigned i = 0; i < sizeof(thread_suffixes) / sizeof(thread_suffixes[0]) && !found;
             i++)
            found = symbol(name, thread_suffixes[i]);
    for (unsigned i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]) && !found; i++)
        found = symbol(name, suffixes[i]);
    *out = found;
    if (result)
        *result = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return found || result ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* Private tables of the driver are not emulated: NVIDIA's own runtime cannot run on this
 * library. */
CUresult CUDAAPI cuGetExportTable(const void **table, const CUuuid *id)
{
    (void)id;
    if (table)
        *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
