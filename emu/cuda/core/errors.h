/* Names and texts of error codes, for driver and runtime. */
#ifndef TT_EMU_ERRORS_H
#define TT_EMU_ERRORS_H

#include <cuda.h>
#include <stdbool.h>

/* CUDA_ERROR_INVALID_VALUE, and *out NULL, for an unknown code. */
CUresult tt_emu_error_name(CUresult error, bool runtime, const char **out);
CUresult tt_emu_error_string(CUresult error, const char **out);

#endif
