/* The engines of this process, and which memory they use. */
#ifndef TT_ENGINE_ENGINES_H
#define TT_ENGINE_ENGINES_H

#include "engine/engine.h"

/* Lists an engine that is ready for calls; removes it before it is destroyed (also one that was never listed). Without any
 * baton. */
void tt_engines_add(struct tt_engine *e);
void tt_engines_remove(struct tt_engine *e);
/* Whether some of mem[bytes] is a buffer of an operation that is not complete, or is used by an engine's guest (windows).
 * Takes the baton of each engine in turn, so the caller must hold none. Any thread. */
bool tt_engines_use(const void *mem, size_t bytes);

#endif
