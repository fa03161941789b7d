/* Edges of the graph of waits, one by one. */
#include "analyze/waits.h"

uint32_t tt_waits_edge(const struct tt_waits *w, uint32_t node, uint32_t k)
{
    const struct tt_waits_instance *o;

    if (tt_waits_is_rank(w, node)) {
        const uint32_t n = w->nwaited[node];

        if (k < n)
            return tt_waits_node_of_record(w, w->rank_first[node] + k);
        return k == n && w->seen_in[node] != TT_DUMPS_NONE &&
                       w->instances[w->seen_in[node]].is_proven
                   ? tt_waits_node_of_instance(w, w->seen_in[node])
                   : TT_DUMPS_NONE;
    }
    if (tt_waits_is_record(w, node))
        return k == 0 ? w->records[node - w->d->nranks].target : TT_DUMPS_NONE;
    o = &w->instances[node - w->d->nranks - w->nrecords];
    if (o->differs)
        return TT_DUMPS_NONE;
    if (k < o->nmissing)
        return w->missing[o->missing_first + k];
    return k == o->nmissing && o->previous != TT_DUMPS_NONE
               ? tt_waits_node_of_instance(w, o->previous)
               : TT_DUMPS_NONE;
}
