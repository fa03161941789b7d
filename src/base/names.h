/* Names of types and operations, as the tools print and accept them. The functions for the other
 * direction (tutti_dtype_name, tutti_redop_name, tutti_status_name) are public. */
#ifndef TT_BASE_NAMES_H
#define TT_BASE_NAMES_H

#include <stdbool.h>
#include "tutti/elastic.h"
#include "tutti/tutti.h"

/* "f32" -> TUTTI_F32. Returns false and leaves *out unchanged for NULL or an unknown name. Any
 * thread. */
bool tt_dtype_parse(const char *name, tutti_dtype *out);
/* "sum" -> TUTTI_SUM. Likewise. */
bool tt_redop_parse(const char *name, tutti_redop *out);
/* "minmax8" -> TUTTI_QUANT_MINMAX_U8. Likewise. */
bool tt_quant_parse(const char *name, tutti_quant *out);

/* Returns e.g. "allreduce", or "?" for an unknown value. Any thread. */
const char *tt_collective_name(tutti_coll coll);

#endif
