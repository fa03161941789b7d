/* The conversions of convert.h as functions for tests and tools. */
#include "reduce/convert.h"
#include "reduce/float_env.h"
#include "reduce/reduce.h"

/* Defines `name`: `function` of x in the default floating-point environment, regardless of the
 * calling thread's settings. */
#define CONVERSION(to, name, from, function) \
    to name(from x) \
    { \
        const tt_float_env kept = tt_float_env_enter(); \
        to result; \
        TT_FLOAT_PIN(x); \
        result = function(x); \
        TT_FLOAT_PIN(result); \
        tt_float_env_leave(kept); \
        return result; \
    }

CONVERSION(float, tt_f16_to_f32, uint16_t, tt_f16_widen)
CONVERSION(uint16_t, tt_f32_to_f16, float, tt_f16_narrow)
CONVERSION(float, tt_bf16_to_f32, uint16_t, tt_bf16_widen)
CONVERSION(uint16_t, tt_f32_to_bf16, float, tt_bf16_narrow)
CONVERSION(float, tt_e4m3_to_f32, uint8_t, tt_e4m3_widen)
CONVERSION(uint8_t, tt_f32_to_e4m3, float, tt_e4m3_narrow)
CONVERSION(float, tt_e5m2_to_f32, uint8_t, tt_e5m2_widen)
CONVERSION(uint8_t, tt_f32_to_e5m2, float, tt_e5m2_narrow)
