/* Memory statistics by purpose: each room adds its parts, comm returns the sum. */
#ifndef TT_BASE_MEMORY_H
#define TT_BASE_MEMORY_H

#include "tutti/tutti.h"

/* Adds a part to the entry of the same purpose, or as a new entry. */
void tt_memory_add(tutti_memory *m, const tutti_memory_part *part);

#endif
