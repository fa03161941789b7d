/* Handles of windows, checks of arguments, and ways to reach the part of a rank. */
#ifndef TT_WINDOW_HANDLE_H
#define TT_WINDOW_HANDLE_H

#include "window/window.h"

/* Assigns a handle. NOMEM (logged): this process has too many windows. Any thread. */
tutti_status tt_window_assign_handle(struct tt_window *w);
/* Returns the window of a handle, regardless of its communicator's state. */
tutti_status tt_window_find_handle(tutti_window *handle, const char *call, struct tt_window **out);
/* Returns the window of a handle. INVALID: no such handle, or freed; FORKED; or the error that
 * ended the communicator. Any thread; the caller must not hold the progress lock. */
tutti_status tt_window_take(tutti_window *handle, const char *call, struct tt_window **out);
/* As tt_window_take, but also checks a peer's rank. */
tutti_status tt_window_take_rank(tutti_window *handle, int rank, const char *call,
                                 struct tt_window **out);
/* Returns the error that ended the communicator, with its message as the thread's last error; or
 * OK. Any thread; the caller must not hold the progress lock. */
tutti_status tt_window_status(const struct tt_window *w);
/* INVALID (logged) unless the part of `rank` contains the bytes. */
tutti_status tt_window_check(const struct tt_window *w, uint32_t rank, uint64_t offset,
                             uint64_t bytes, const char *call);
/* INVALID (logged) unless mem[bytes] is a valid range; `what` names the call and its argument. */
tutti_status tt_window_check_own(const void *mem, uint64_t bytes, const char *what);
/* INVALID (logged) unless there is a word of `width` bytes. */
tutti_status tt_window_check_word(const struct tt_window *w, uint32_t rank, uint64_t offset,
                                  uint64_t width, const char *call);
/* Returns the way to the part of `rank` (not this one). PENDING: the way is not known yet.
 * PEER_LOST is not logged. */
tutti_status tt_window_reach(struct tt_window *w, uint32_t rank, struct tt_window_way **way,
                             struct tt_engine_client_link *link);
/* Invalidates the handle, because the engine is being destroyed. Any thread. */
void tt_window_invalidate(struct tt_window *w);
/* Frees the window and its registrations. */
void tt_window_destroy(struct tt_window *w);

#endif
