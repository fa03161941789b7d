/* Option structs of the public calls. They begin with `size_t size`, and grow at their end only (not into padding either), from release
 * to release. */
#ifndef TT_BASE_OPTIONS_H
#define TT_BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

#define TT_OPTIONS_BYTES_MAX 4096u      /* a larger size is none */

/* Options of a program that may have been built for another release: out[bytes] gets what this one knows of `given`, with its own
 * size; what `given` is too short for is zero. INVALID: it is smaller than bytes_first, the size of the first release, or has
 * something behind out's bytes that is not zero. `call`, `what` ("conf") and its type ("tutti_conf") name it in the sentence. */
tutti_status tt_options_take(void *out, size_t bytes, size_t bytes_first, const void *given, const char *call,
                             const char *what, const char *type);

/* INVALID with a sentence if `value`, of the flag `field` ("conf.no_restore") of `call`, is neither 0 nor 1. */
tutti_status tt_options_flag(const char *call, const char *field, int64_t value);
/* INVALID with a sentence if `value`, of the enumeration `field`, is not 0 to `last`. */
tutti_status tt_options_enum(const char *call, const char *field, int64_t value, int64_t last);

#endif
