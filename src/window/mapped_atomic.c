/* Atomics on mapped memory, performed by the processor. */
#include "window/window.h"

uint64_t tt_window_change_mapped(const struct tt_window_message *m, uint8_t *mem,
                                 const struct tt_engine_client_link *link)
{
    const struct tt_desc wake = {
        .kind = TT_DESC_PUT,
        .flags = TT_DESC_INLINE | TT_DESC_URGENT,
        .peer = link->theirs->peer,
        .key = link->theirs,
        .signal_op = TT_SIGNAL_ADD,
        .signal_key = link->theirs,
        .signal_offset = link->word,
        .cookie = TT_CLIENT_COOKIE,
    };
    const uint64_t old =
        tt_window_change(mem + m->offset, m->width, m->verb, m->operand, m->compare);

    link->wire->ops->post(link->wire, &wake, 1);    /* urgent and mapped: needs no room */
    return old;
}
