/* The conversions of convert.h as functions that tests and tools can call. */
#include "reduce/convert.h"
#include "reduce/reduce.h"

float tt_f16_to_f32(uint16_t h)
{
    return tt_f16_widen(h);
}

uint16_t tt_f32_to_f16(float f)
{
    return tt_f16_narrow(f);
}

float tt_bf16_to_f32(uint16_t h)
{
    return tt_bf16_widen(h);
}

uint16_t tt_f32_to_bf16(float f)
{
    return tt_bf16_narrow(f);
}

float tt_e4m3_to_f32(uint8_t v)
{
    return tt_e4m3_widen(v);
}

uint8_t tt_f32_to_e4m3(float f)
{
    return tt_e4m3_narrow(f);
}

float tt_e5m2_to_f32(uint8_t v)
{
    return tt_e5m2_widen(v);
}

uint8_t tt_f32_to_e5m2(float f)
{
    return tt_e5m2_narrow(f);
}
