#include "errors.h"

#include <stddef.h>

struct error {
    CUresult code;
    const char *driver, *runtime, *text;
};

#define E(driver, runtime, text) { driver, #driver, #runtime, text }

static const struct error errors[] = {
    E(CUDA_SUCCESS, cudaSuccess,
      "no error"),
    E(CUDA_ERROR_INVALID_VALUE, cudaErrorInvalidValue,
      "invalid argument"),
    E(CUDA_ERROR_OUT_OF_MEMORY, cudaErrorMemoryAllocation,
      "out of memory"),
    E(CUDA_ERROR_NOT_INITIALIZED, cudaErrorInitializationError,
      "initialization error"),
    E(CUDA_ERROR_DEINITIALIZED, cudaErrorCudartUnloading,
      "driver shutting down"),
    E(CUDA_ERROR_STUB_LIBRARY, cudaErrorStubLibrary,
      "CUDA driver is a stub library"),
    E(CUDA_ERROR_DEVICE_UNAVAILABLE, cudaErrorDevicesUnavailable,
      "CUDA-capable device(s) is/are busy or unavailable"),
    E(CUDA_ERROR_NO_DEVICE, cudaErrorNoDevice,
      "no CUDA-capable device is detected"),
    E(CUDA_ERROR_INVALID_DEVICE, cudaErrorInvalidDevice,
      "invalid device ordinal"),
    E(CUDA_ERROR_INVALID_IMAGE, cudaErrorInvalidKernelImage,
      "device kernel image is invalid"),
    E(CUDA_ERROR_INVALID_CONTEXT, cudaErrorDeviceUninitialized,
      "invalid device context"),
    E(CUDA_ERROR_MAP_FAILED, cudaErrorMapBufferObjectFailed,
      "mapping of buffer object failed"),
    E(CUDA_ERROR_UNMAP_FAILED, cudaErrorUnmapBufferObjectFailed,
      "unmapping of buffer object failed"),
    E(CUDA_ERROR_ALREADY_MAPPED, cudaErrorAlreadyMapped,
      "resource already mapped"),
    E(CUDA_ERROR_NO_BINARY_FOR_GPU, cudaErrorNoKernelImageForDevice,
      "no kernel image is available for execution on the device"),
    E(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cudaErrorPeerAccessUnsupported,
      "peer access is not supported between these two devices"),
    E(CUDA_ERROR_INVALID_PTX, cudaErrorInvalidPtx,
      "a PTX JIT compilation failed"),
    E(CUDA_ERROR_INVALID_SOURCE, cudaErrorInvalidSource,
      "device kernel image is invalid"),
    E(CUDA_ERROR_FILE_NOT_FOUND, cudaErrorFileNotFound,
      "file not found"),
    E(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, cudaErrorSharedObjectSymbolNotFound,
      "shared object symbol not found"),
    E(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, cudaErrorSharedObjectInitFailed,
      "shared object initialization failed"),
    E(CUDA_ERROR_OPERATING_SYSTEM, cudaErrorOperatingSystem,
      "OS call failed or operation not supported on this OS"),
    E(CUDA_ERROR_INVALID_HANDLE, cudaErrorInvalidResourceHandle,
      "invalid resource handle"),
    E(CUDA_ERROR_ILLEGAL_STATE, cudaErrorIllegalState,
      "the operation cannot be performed in the present state"),
    E(CUDA_ERROR_NOT_FOUND, cudaErrorSymbolNotFound,
      "named symbol not found"),
    E(CUDA_ERROR_NOT_READY, cudaErrorNotReady,
      "device not ready"),
    E(CUDA_ERROR_ILLEGAL_ADDRESS, cudaErrorIllegalAddress,
      "an illegal memory access was encountered"),
    E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cudaErrorLaunchOutOfResources,
      "too many resources requested for launch"),
    E(CUDA_ERROR_LAUNCH_TIMEOUT, cudaErrorLaunchTimeout,
      "the launch timed out and was terminated"),
    E(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cudaErrorPeerAccessAlreadyEnabled,
      "peer access is already enabled"),
    E(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cudaErrorPeerAccessNotEnabled,
      "peer access has not been enabled"),
    E(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, cudaErrorSetOnActiveProcess,
      "cannot set while device is active in this process"),
    E(CUDA_ERROR_CONTEXT_IS_DESTROYED, cudaErrorContextIsDestroyed,
      "context is destroyed"),
    E(CUDA_ERROR_ASSERT, cudaErrorAssert,
      "device-side assert triggered"),
    E(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cudaErrorHostMemoryAlreadyRegistered,
      "part or all of the requested memory range is already mapped"),
    E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cudaErrorHostMemoryNotRegistered,
      "pointer does not correspond to a registered memory region"),
    E(CUDA_ERROR_HARDWARE_STACK_ERROR, cudaErrorHardwareStackError,
      "hardware stack error"),
    E(CUDA_ERROR_ILLEGAL_INSTRUCTION, cudaErrorIllegalInstruction,
      "an illegal instruction was encountered"),
    E(CUDA_ERROR_MISALIGNED_ADDRESS, cudaErrorMisalignedAddress,
      "misaligned address"),
    E(CUDA_ERROR_INVALID_ADDRESS_SPACE, cudaErrorInvalidAddressSpace,
      "operation not supported on global/shared address space"),
    E(CUDA_ERROR_INVALID_PC, cudaErrorInvalidPc,
      "invalid program counter"),
    E(CUDA_ERROR_LAUNCH_FAILED, cudaErrorLaunchFailure,
      "unspecified launch failure"),
    E(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cudaErrorCooperativeLaunchTooLarge,
      "too many blocks in cooperative launch"),
    E(CUDA_ERROR_NOT_PERMITTED, cudaErrorNotPermitted,
      "operation not permitted"),
    E(CUDA_ERROR_NOT_SUPPORTED, cudaErrorNotSupported,
      "operation not supported"),
    E(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, cudaErrorSystemDriverMismatch,
      "system has unsupported display driver / cuda driver combination"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cudaErrorStreamCaptureUnsupported,
      "operation not permitted when stream is capturing"),
    E(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cudaErrorStreamCaptureInvalidated,
      "operation failed due to a previous error during capture"),
    E(CUDA_ERROR_STREAM_CAPTURE_MERGE, cudaErrorStreamCaptureMerge,
      "operation would result in a merge of separate capture sequences"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cudaErrorStreamCaptureUnmatched,
      "capture was not ended in the same stream as it began"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cudaErrorStreamCaptureUnjoined,
      "capturing stream has unjoined work"),
    E(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cudaErrorStreamCaptureIsolation,
      "dependency created on uncaptured work in another stream"),
    E(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cudaErrorStreamCaptureImplicit,
      "operation would make the legacy stream depend on a capturing blocking stream"),
    E(CUDA_ERROR_CAPTURED_EVENT, cudaErrorCapturedEvent,
      "operation not permitted on an event last recorded in a capturing stream"),
    E(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cudaErrorStreamCaptureWrongThread,
      "attempt to terminate a thread-local capture sequence from another thread"),
    E(CUDA_ERROR_TIMEOUT, cudaErrorTimeout,
      "wrong type argument"),
    E(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cudaErrorGraphExecUpdateFailure,
      "the graph update was not performed because it included changes which violated "
      "constraints specific to instantiated graph update"),
    E(CUDA_ERROR_EXTERNAL_DEVICE, cudaErrorExternalDevice,
      "an async error has occured in external entity outside of CUDA"),
    E(CUDA_ERROR_INVALID_CLUSTER_SIZE, cudaErrorInvalidClusterSize,
      "a kernel launch error has occurred due to cluster misconfiguration"),
    E(CUDA_ERROR_UNKNOWN, cudaErrorUnknown,
      "unknown error"),
};

#undef E

static const struct error *find(CUresult code)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == code)
            return &errors[i];
    return NULL;
}

CUresult tt_emu_error_name(CUresult error, bool runtime, const char **out)
{
    const struct error *e = find(error);

    *out = e ? (runtime ? e->runtime : e->driver) : NULL;
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult tt_emu_error_string(CUresult error, const char **out)
{
    const struct error *e = find(error);

    *out = e ? e->text : NULL;
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
