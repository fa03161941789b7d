#include "elastic/states.h"

#include "base/log.h"
#include "base/status.h"

uint32_t tt_states_change(const struct tt_states *s, uint8_t from, uint8_t to)
{
    for (uint32_t i = 0; i < s->nchanges; i++)
        if (s->changes[i].from == from && s->changes[i].to == to)
            return i;
    tt_log(TT_LOG_ERROR, "%s: illegal state change from %s to %s", s->of,
           from < s->nstates ? s->states[from] : "?", to < s->nstates ? s->states[to] : "?");
    tt_assert(!"a change of state that is not in the table");
    return 0;
}
