/* Puts and gets that complete after their descriptors have been taken. All functions require the
 * progress lock. */
#ifndef TT_WINDOW_TRANSFER_H
#define TT_WINDOW_TRANSFER_H

#include "window/window.h"

/* Creates an open transfer without parts, of that tick. *failed and *counter must stay valid
 * until it is over, or until tt_window_disown. NULL: too many transfers now, or out of memory
 * (NOMEM in *st, logged). */
struct tt_window_transfer *tt_transfer_begin(struct tt_window *w, struct tt_window_peer *peer,
                                             tutti_status *failed, uint64_t *counter, uint64_t tick,
                                             tutti_status *st);
/* Registers mem[bytes] with the wire, for the transfer. */
tutti_status tt_transfer_register(struct tt_window_transfer *t, struct tt_wire *wire,
                                  const void *mem, uint64_t bytes);
/* Returns the cookie of the transfer's descriptors. */
uint64_t tt_transfer_cookie(const struct tt_window_transfer *t);
/* Closes the transfer: no parts are added. It is complete when all parts are, and is then freed
 * unless a call waits for it. */
void tt_transfer_close(struct tt_window_transfer *t);
/* Records that a part of the transfer is complete. */
void tt_transfer_part(struct tt_window_transfer *t, tutti_status status);
/* Ends the wait for a transfer. An incomplete one is freed on completion. */
void tt_transfer_leave(struct tt_window_transfer *t);
/* Handles the completion of a descriptor of a transfer. */
void tt_transfer_done(struct tt_windows *home, const struct tt_done *d);
/* Frees the transfers of the window, whose queued puts were dropped (tt_window_queue_drop), and
 * detaches its requests from their callers' memory. */
void tt_transfers_drop(struct tt_window *w);
/* Increments the counter, at local completion. */
void tt_window_count(uint64_t *counter);

#endif
