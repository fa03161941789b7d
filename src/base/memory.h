/* Counting memory by purpose: rooms say what they have, comm adds it up. */
#ifndef TT_BASE_MEMORY_H
#define TT_BASE_MEMORY_H

#include "tutti/tutti.h"

/* Adds a part, or to the one of that purpose. */
void tt_memory_add(tutti_memory *m, const tutti_memory_part *part);

#endif
