/* Loading of CUDA's driver library. */
#include "gpu/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"
#define FUNCTION(member, symbol) { symbol, offsetof(struct tt_cuda, member) }

static const struct {
    const char *symbol;
    size_t offset;
} names[] = {
    FUNCTION(init, "cuInit"),
    FUNCTION(driver_version, "cuDriverGetVersion"),
    FUNCTION(error_string, "cuGetErrorString"),
    FUNCTION(error_name, "cuGetErrorName"),
    FUNCTION(device_count, "cuDeviceGetCount"),
    FUNCTION(device_get, "cuDeviceGet"),
    FUNCTION(primary_retain, "cuDevicePrimaryCtxRetain"),
    FUNCTION(primary_release, "cuDevicePrimaryCtxRelease_v2"),
    FUNCTION(context_current, "cuCtxGetCurrent"),
    FUNCTION(context_push, "cuCtxPushCurrent_v2"),
    FUNCTION(context_pop, "cuCtxPopCurrent_v2"),
    FUNCTION(context_device, "cuCtxGetDevice"),
    FUNCTION(mem_alloc, "cuMemAlloc_v2"),
    FUNCTION(mem_free, "cuMemFree_v2"),
    FUNCTION(host_alloc, "cuMemHostAlloc"),
    FUNCTION(host_free, "cuMemFreeHost"),
    FUNCTION(host_register, "cuMemHostRegister_v2"),
    FUNCTION(host_unregister, "cuMemHostUnregister"),
    FUNCTION(host_address, "cuMemHostGetDevicePointer_v2"),
    FUNCTION(pointer_attribute, "cuPointerGetAttribute"),
    FUNCTION(pointer_attributes, "cuPointerGetAttributes"),
    FUNCTION(ipc_get, "cuIpcGetMemHandle"),
    FUNCTION(ipc_open, "cuIpcOpenMemHandle_v2"),
    FUNCTION(ipc_close, "cuIpcCloseMemHandle"),
    FUNCTION(copy, "cuMemcpyAsync"),
    FUNCTION(stream_create, "cuStreamCreate"),
    FUNCTION(stream_destroy, "cuStreamDestroy_v2"),
    FUNCTION(stream_synchronize, "cuStreamSynchronize"),
    FUNCTION(stream_query, "cuStreamQuery"),
    FUNCTION(stream_wait_event, "cuStreamWaitEvent"),
    FUNCTION(stream_context, "cuStreamGetCtx"),
    FUNCTION(stream_capturing, "cuStreamIsCapturing"),
    FUNCTION(stream_wait_value, "cuStreamWaitValue32_v2"),
    FUNCTION(stream_write_value, "cuStreamWriteValue32_v2"),
    FUNCTION(event_create, "cuEventCreate"),
    FUNCTION(event_destroy, "cuEventDestroy_v2"),
    FUNCTION(event_record, "cuEventRecord"),
    FUNCTION(event_query, "cuEventQuery"),
    FUNCTION(event_synchronize, "cuEventSynchronize"),
    /* An older driver may lack the following ones. */
    FUNCTION(capture_info, "cuStreamGetCaptureInfo_v3"),
    FUNCTION(capture_mode, "cuThreadExchangeStreamCaptureMode"),
    FUNCTION(launch_host, "cuLaunchHostFunc"),
    FUNCTION(object_create, "cuUserObjectCreate"),
    FUNCTION(object_release, "cuUserObjectRelease"),
    FUNCTION(graph_retain, "cuGraphRetainUserObject"),
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct tt_cuda table;
static char why[TT_ERROR_BYTES];        /* empty: loaded */

tutti_status tt_cuda_fail(const struct tt_cuda *cu, tt_cuda_result error, const char *fmt, ...)
{
    const char *name = NULL, *text = NULL;
    char what[TT_ERROR_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    cu->error_name(error, &name);
    cu->error_string(error, &text);
    return tt_fail(TUTTI_ERR_SYSTEM, "%.800s: CUDA error %d (%s: %s)", what, error,
                   name ? name : "?", text ? text : "unknown error");
}

/* Looks up the functions of the library; `why` names the first missing one. */
static void find_functions(void *library)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *function = dlsym(library, names[i].symbol);

        if (!function && names[i].offset >= offsetof(struct tt_cuda, capture_info)) {
            memset(&table.capture_info, 0, sizeof table - offsetof(struct tt_cuda, capture_info));
            return;
        }
        if (!function) {
            snprintf(why, sizeof why,
                     "the CUDA driver is too old: " LIBRARY " has no %s (Tutti "
                     "needs a driver for CUDA 12 or newer)",
                     names[i].symbol);
            return;
        }
        memcpy((char *)&table + names[i].offset, &function, sizeof function);
    }
    table.has_graphs = true;
}

static void find_devices(void)
{
    const char *text = NULL;
    tt_cuda_result error;
    int count = 0;

    error = table.init(0);
    if (!error)
        error = table.device_count(&count);
    if (error) {
        table.error_string(error, &text);
        snprintf(why, sizeof why, "cannot initialize the CUDA driver: %s (error %d)",
                 text ? text : "unknown error", error);
    } else if (!count) {
        snprintf(why, sizeof why, "the CUDA driver has no device (see CUDA_VISIBLE_DEVICES)");
    }
}

static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        snprintf(why, sizeof why, "there is no CUDA driver: %.900s", dlerror());
        return;
    }
    find_functions(library);
    if (!why[0])
        find_devices();
}

tutti_status tt_cuda_load(const struct tt_cuda **out)
{
    pthread_once(&once, load);
    if (why[0])
        return tt_fail(TUTTI_ERR_UNSUPPORTED, "cannot use a GPU: %s", why);
    *out = &table;
    return TUTTI_OK;
}

int tt_cuda_capture_relax(const struct tt_cuda *cu)
{
    int mode = TT_CUDA_CAPTURE_RELAXED;

    if (cu->has_graphs)
        cu->capture_mode(&mode);
    return mode;
}

void tt_cuda_capture_restore(const struct tt_cuda *cu, int mode)
{
    if (cu->has_graphs)
        cu->capture_mode(&mode);
}
