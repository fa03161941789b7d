/* Option structs of the public calls. They begin with `size_t size`. New releases add fields only
 * at the end, and never in padding. */
#ifndef TT_BASE_OPTIONS_H
#define TT_BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

#define TT_OPTIONS_BYTES_MAX 4096u      /* upper bound of a valid size */

/* Reads an option struct of a program that may be built for another release. out[bytes] gets the
 * known fields of `given`; fields beyond its size are zero; out's size is its own. INVALID: the
 * struct is smaller than bytes_first, the size of the first release, or has unknown fields that are
 * not zero. `call`, `what` ("conf") and its type ("tutti_conf") appear in the error message. */
tutti_status tt_options_take(void *out, size_t bytes, size_t bytes_first, const void *given,
                             const char *call, const char *what, const char *type);

/* Returns INVALID (logged) if `value` of the flag `field` ("conf.restore") of `call` is neither
 * 0 nor 1. */
tutti_status tt_options_flag(const char *call, const char *field, int64_t value);
/* Returns INVALID (logged) if `value` of the enumeration `field` is not in 0 to `last`. */
tutti_status tt_options_enum(const char *call, const char *field, int64_t value, int64_t last);

#endif
