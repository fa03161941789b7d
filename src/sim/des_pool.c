/* The pool of messages of a discrete-event simulation. */
#include <stdlib.h>

#include "base/pages.h"
#include "base/status.h"
#include "sim/des_state.h"

void des_pool_grow(struct des *s)
{
    s->msgs_cap = s->msgs_cap ? s->msgs_cap + s->msgs_cap / 2 : 4096;
    s->msg = realloc(s->msg, (size_t)s->msgs_cap * sizeof *s->msg);
    tt_assert(s->msg);
    tt_pages_huge(s->msg, (size_t)s->msgs_cap * sizeof *s->msg);
}
