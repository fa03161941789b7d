/* Names of types and operations, as the tools print and read them. The other direction (tutti_dtype_name,
 * tutti_redop_name, tutti_status_name) is public. */
#ifndef TT_BASE_NAMES_H
#define TT_BASE_NAMES_H

#include <stdbool.h>
#include "tutti/elastic.h"
#include "tutti/tutti.h"

/* "f32" -> TUTTI_F32. False, and *out untouched, for NULL or no such name. Any thread. */
bool tt_dtype_parse(const char *name, tutti_dtype *out);
/* "sum" -> TUTTI_SUM. Likewise. */
bool tt_redop_parse(const char *name, tutti_redop *out);
/* "minmax8" -> TUTTI_QUANT_MINMAX_U8. Likewise. */
bool tt_quant_parse(const char *name, tutti_quant *out);

/* "allreduce"; "?" for none. Any thread. */
const char *tt_collective_name(tutti_coll coll);

#endif
