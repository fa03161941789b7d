/* Strongly connected components of the graph of waits. */
#ifndef TT_ANALYZE_COMPONENTS_H
#define TT_ANALYZE_COMPONENTS_H

#include "analyze/waits.h"

/* Sets component, ncomponents, end_of and is_end of *w. Time and memory: linear in nodes and edges.
 * Returns false without memory. */
bool tt_waits_components(struct tt_waits *w);

#endif
