/* Conversion of factors. */
#include "gpu/scalar.h"

#include <string.h>

#include "reduce/convert.h"
#include "reduce/float_env.h"

/* Returns the element at `from`; 64-bit integers are rounded to 53 bits. */
static double value_of(const void *from, tutti_dtype type)
{
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f32;
        double f64;
    } v = { 0 };

    memcpy(&v, from, tutti_dtype_bytes(type));
    switch (type) {
    case TUTTI_I8: return v.i8;
    case TUTTI_U8: return v.u8;
    case TUTTI_I16: return v.i16;
    case TUTTI_U16: return v.u16;
    case TUTTI_I32: return v.i32;
    case TUTTI_U32: return v.u32;
    case TUTTI_I64: return (double)v.i64;
    case TUTTI_U64: return (double)v.u64;
    case TUTTI_F16: return (double)tt_f16_widen(v.u16);
    case TUTTI_BF16: return (double)tt_bf16_widen(v.u16);
    case TUTTI_F32: return (double)v.f32;
    case TUTTI_F8E4M3: return (double)tt_e4m3_widen(v.u8);
    case TUTTI_F8E5M2: return (double)tt_e5m2_widen(v.u8);
    case TUTTI_F64:
    case TUTTI_DTYPE_COUNT: break;
    }
    return v.f64;
}

/* Sets the scale, independent of the caller's floating-point environment. */
static void set_scale(tutti_gpu_op *op, const void *from)
{
    const tt_float_env kept = tt_float_env_enter();

    op->scale = value_of(from, op->type);
    tt_float_env_leave(kept);
}

void tt_gpu_scalar_take(tutti_gpu_op *op)
{
    set_scale(op, op->scale_from);
    op->scale_from = NULL;
}

tutti_status tt_gpu_scalar_read(tutti_gpu *gpu, tutti_gpu_op *op)
{
    void *pinned = tt_gpu_arena(gpu);
    tt_cuda_result error;

    if (!op->scale_from)
        return TUTTI_OK;
    error = gpu->cu->copy(tt_cuda_address_of(pinned), tt_cuda_address_of(op->scale_from),
                          tutti_dtype_bytes(op->type), gpu->in);
    if (!error)
        error = gpu->cu->stream_synchronize(gpu->in);
    if (error) {
        tutti_comm_abort(gpu->comm);        /* other ranks must not wait */
        return tt_cuda_fail(gpu->cu, error,
                            "gpu: cannot copy the factor of premul_sum from device %d",
                            gpu->device);
    }
    set_scale(op, pinned);
    return TUTTI_OK;
}
