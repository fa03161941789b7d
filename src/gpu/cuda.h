/* The functions of CUDA's driver library, loaded at run time. Their types are declared here, so
 * that neither a build nor a program needs CUDA.
 * Source: CUDA driver API 13 (values and names of the ABI). */
#ifndef TT_GPU_CUDA_H
#define TT_GPU_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef int tt_cuda_result;             /* CUresult; 0: success */
typedef uint64_t tt_cuda_address;       /* CUdeviceptr */
typedef struct CUctx_st *tt_cuda_context;
typedef struct CUstream_st *tt_cuda_stream;
typedef struct CUevent_st *tt_cuda_event;
typedef struct CUgraph_st *tt_cuda_graph;
typedef struct CUuserObject_st *tt_cuda_object;
typedef struct {
    char bytes[64];
} tt_cuda_ipc;                          /* CUipcMemHandle */

#define TT_CUDA_NOT_READY 600

/* CUpointer_attribute */
enum {
    TT_CUDA_POINTER_MEMORY = 2,
    TT_CUDA_POINTER_BUFFER = 7,
    TT_CUDA_POINTER_DEVICE = 9,
    TT_CUDA_POINTER_IPC = 10,               /* IS_LEGACY_CUDA_IPC_CAPABLE */
    TT_CUDA_POINTER_RANGE_START = 11,
    TT_CUDA_POINTER_RANGE_SIZE = 12
};
/* CUmemorytype */
enum { TT_CUDA_MEMORY_HOST = 1, TT_CUDA_MEMORY_DEVICE = 2 };
enum { TT_CUDA_CAPTURE_NONE = 0, TT_CUDA_CAPTURE_ACTIVE = 1 };
#define TT_CUDA_HOST_PORTABLE 1u        /* of cuMemHostAlloc and cuMemHostRegister */
#define TT_CUDA_HOST_DEVICE_MAP 2u
#define TT_CUDA_STREAM_NON_BLOCKING 1u
#define TT_CUDA_EVENT_BLOCKING_SYNC 1u
#define TT_CUDA_EVENT_NO_TIMING 2u
#define TT_CUDA_IPC_LAZY_PEER 1u        /* of cuIpcOpenMemHandle */
#define TT_CUDA_CAPTURE_RELAXED 2               /* CUstreamCaptureMode */
#define TT_CUDA_OBJECT_NO_SYNC 1u               /* of cuUserObjectCreate */
#define TT_CUDA_OBJECT_MOVE 1u                  /* of cuGraphRetainUserObject */

/* Each member is the function of the driver library that tt_cuda_names lists. */
struct tt_cuda {
    tt_cuda_result (*init)(unsigned flags);
    tt_cuda_result (*driver_version)(int *out);
    tt_cuda_result (*error_string)(tt_cuda_result error, const char **out);
    tt_cuda_result (*error_name)(tt_cuda_result error, const char **out);
    tt_cuda_result (*device_count)(int *out);
    tt_cuda_result (*device_get)(int *out, int ordinal);
    tt_cuda_result (*primary_retain)(tt_cuda_context *out, int device);
    tt_cuda_result (*primary_release)(int device);
    tt_cuda_result (*context_current)(tt_cuda_context *out);
    tt_cuda_result (*context_push)(tt_cuda_context context);
    tt_cuda_result (*context_pop)(tt_cuda_context *out);
    tt_cuda_result (*context_device)(int *out);
    tt_cuda_result (*mem_alloc)(tt_cuda_address *out, size_t bytes);
    tt_cuda_result (*mem_free)(tt_cuda_address mem);
    tt_cuda_result (*host_alloc)(void **out, size_t bytes, unsigned flags);
    tt_cuda_result (*host_free)(void *mem);
    tt_cuda_result (*host_register)(void *mem, size_t bytes, unsigned flags);
    tt_cuda_result (*host_unregister)(void *mem);
    tt_cuda_result (*host_address)(tt_cuda_address *out, void *mem, unsigned flags);
    tt_cuda_result (*pointer_attribute)(void *out, int attribute, tt_cuda_address pointer);
    tt_cuda_result (*pointer_attributes)(unsigned n, const int *attributes, void **out,
                                         tt_cuda_address pointer);
    tt_cuda_result (*ipc_get)(tt_cuda_ipc *out, tt_cuda_address mem);
    tt_cuda_result (*ipc_open)(tt_cuda_address *out, tt_cuda_ipc handle, unsigned flags);
    tt_cuda_result (*ipc_close)(tt_cuda_address mem);
    tt_cuda_result (*copy)(tt_cuda_address dst, tt_cuda_address src, size_t bytes,
                           tt_cuda_stream stream);
    tt_cuda_result (*stream_create)(tt_cuda_stream *out, unsigned flags);
    tt_cuda_result (*stream_destroy)(tt_cuda_stream stream);
    tt_cuda_result (*stream_synchronize)(tt_cuda_stream stream);
    tt_cuda_result (*stream_query)(tt_cuda_stream stream);
    tt_cuda_result (*stream_wait_event)(tt_cuda_stream stream, tt_cuda_event event, unsigned flags);
    tt_cuda_result (*stream_context)(tt_cuda_stream stream, tt_cuda_context *out);
    tt_cuda_result (*stream_capturing)(tt_cuda_stream stream, int *out);
    tt_cuda_result (*stream_wait_value)(tt_cuda_stream stream, tt_cuda_address word, uint32_t value,
                                        unsigned flags);
    tt_cuda_result (*stream_write_value)(tt_cuda_stream stream, tt_cuda_address word,
                                         uint32_t value, unsigned flags);
    tt_cuda_result (*event_create)(tt_cuda_event *out, unsigned flags);
    tt_cuda_result (*event_destroy)(tt_cuda_event event);
    tt_cuda_result (*event_record)(tt_cuda_event event, tt_cuda_stream stream);
    tt_cuda_result (*event_query)(tt_cuda_event event);
    tt_cuda_result (*event_synchronize)(tt_cuda_event event);

    /* For CUDA graphs; all are NULL if the driver lacks one of them (`has_graphs`). */
    tt_cuda_result (*capture_info)(tt_cuda_stream stream, int *status, uint64_t *id,
                                   tt_cuda_graph *graph, const void **nodes, const void **edges,
                                   size_t *n);
    tt_cuda_result (*capture_mode)(int *mode);
    tt_cuda_result (*launch_host)(tt_cuda_stream stream, void (*function)(void *), void *arg);
    tt_cuda_result (*object_create)(tt_cuda_object *out, void *arg, void (*destroy)(void *),
                                    unsigned references, unsigned flags);
    tt_cuda_result (*object_release)(tt_cuda_object object, unsigned references);
    tt_cuda_result (*graph_retain)(tt_cuda_graph graph, tt_cuda_object object, unsigned references,
                                   unsigned flags);
    bool has_graphs;
};

/* Loads and initializes the driver library once per process. On success *out is the table, which
 * stays valid. UNSUPPORTED: there is no driver library, a function is missing, or there is no
 * device. Any thread; every failed call logs. */
tutti_status tt_cuda_load(const struct tt_cuda **out);

/* Returns a failure of `what`, with the driver's message for `error`. */
tutti_status tt_cuda_fail(const struct tt_cuda *cu, tt_cuda_result error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Permits the calling thread to use CUDA while other threads capture. Returns the mode that
 * tt_cuda_capture_restore sets again. */
int tt_cuda_capture_relax(const struct tt_cuda *cu);
void tt_cuda_capture_restore(const struct tt_cuda *cu, int mode);

static inline tt_cuda_address tt_cuda_address_of(const void *pointer)
{
    return (tt_cuda_address)(uintptr_t)pointer;
}

#endif
