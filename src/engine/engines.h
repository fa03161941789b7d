/* The list of this process's engines, and a query whether they use a memory range. */
#ifndef TT_ENGINE_ENGINES_H
#define TT_ENGINE_ENGINES_H

#include "engine/engine.h"

/* Add an engine that is ready for calls, or remove it before it is destroyed. One that was never
 * added may be removed, too. The caller must not hold a progress lock. */
void tt_engines_add(struct tt_engine *e);
void tt_engines_remove(struct tt_engine *e);
/* Returns whether mem[bytes] overlaps a buffer of an incomplete operation, or memory in use by
 * an engine's client (windows). Takes the progress lock of each engine in turn, so the caller
 * must hold none. Any thread. */
bool tt_engines_use(const void *mem, size_t bytes);

#endif
