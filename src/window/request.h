/* Operations by message: requests to other ranks, and the replies to theirs. All functions require
 * the progress lock. */
#ifndef TT_WINDOW_REQUEST_H
#define TT_WINDOW_REQUEST_H

#include "window/window.h"

/* Returns whether another request may be sent to the peer. */
static inline bool tt_window_may_request(const struct tt_window_peer *p)
{
    return !p->asked[p->next_token % TT_WINDOW_REQUESTS_MAX].busy;
}
/* Sends a request with its payload[m->bytes] (of a put), and sets its token. `to`: destination
 * of a get. *failed as in a transfer. False: no room now. */
bool tt_window_send_request(struct tt_windows *home, struct tt_window_peer *p,
                            struct tt_window_message *m, const void *payload, void *to,
                            struct tt_window_transfer *t, tutti_status *failed);
/* Sends a message without a reply. False: no room now. */
bool tt_window_send_message(struct tt_windows *home, uint32_t rank,
                            const struct tt_window_message *m);
/* Handles a message of another rank. False: protocol error (logged). */
bool tt_window_receive(struct tt_windows *home, uint32_t from, const void *payload, uint32_t bytes);
/* Sends pending replies for which there is room now. Returns whether any was sent. */
bool tt_window_send_replies(struct tt_windows *home);

#endif
