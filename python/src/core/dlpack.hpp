// The parts of DLPack 1.x that Python objects are read through.
// Source: dlpack.h of github.com/dmlc/dlpack, version 1.2.
#pragma once

#include <cstdint>

namespace tutti_core::dlpack
{

enum Device : int32_t { CPU = 1, CUDA_HOST = 3, ROCM_HOST = 11 };

enum Code : uint8_t {
    INT = 0,
    UINT = 1,
    FLOAT = 2,
    OPAQUE = 3,
    BFLOAT = 4,
    COMPLEX = 5,
    BOOL = 6,
    F8_E4M3FN = 10,
    F8_E5M2 = 12,
};

constexpr uint64_t READ_ONLY = 1;

struct Version {
    uint32_t major, minor;
};

struct Tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; // strides in items; NULL: contiguous
    uint64_t byte_offset;
};

struct Managed {
    Tensor tensor;
    void *context;
    void (*deleter)(Managed *self);
};

struct ManagedVersioned {
    Version version;
    void *context;
    void (*deleter)(ManagedVersioned *self);
    uint64_t flags;
    Tensor tensor;
};

// What the capsule type(object).__dlpack_c_exchange_api__ has: tensors without a Python call.
struct ExchangeApi {
    Version version;
    ExchangeApi *previous;
    void *allocate;
    int (*managed_of_object)(void *object, ManagedVersioned **out);
    void *object_of_managed;
    int (*tensor_of_object)(void *object, Tensor *out); // may be NULL
    void *current_stream;
};

} // namespace tutti_core::dlpack
