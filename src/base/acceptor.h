/* A listening socket in an epoll set, for a process that may run out of descriptors. Whoever calls then waits in the kernel's queue; the
 * listener would be readable all that time, and its owner would spin. So it is left alone for a moment, and tried again.
 * Needs no descriptor beyond the two it has from the beginning. One thread at a time. */
#ifndef TT_BASE_ACCEPTOR_H
#define TT_BASE_ACCEPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include "tutti/tutti.h"

struct tt_acceptor {
    const char *what;       /* begins the sentence that is logged: "tcp" */
    int listener;           /* -1: none */
    int near;               /* its second one (base/near.h), or -1 */
    int timer;              /* fires when a listener that was left alone is to be tried again */
    int epoll;
    epoll_data_t data;
    bool paused, told;
    uint64_t starved_ns;    /* since when no descriptor has been free; 0: there was one */
};

/* Watches `listener`, which must not block, in `epoll`; entries of it have `data`. On success *a owns the listener, on error it is
 * the caller's still. `what` and `epoll` must outlive *a. */
tutti_status tt_acceptor_init(struct tt_acceptor *a, const char *what, int listener, int epoll, epoll_data_t data);
/* Closes the listener; also good for one that has { .listener = -1 }. */
void tt_acceptor_fini(struct tt_acceptor *a);
/* Whether no descriptor has been free for a caller for two seconds. What a connection holds while it is being made is
 * closed long before, so then nothing will be. */
bool tt_acceptor_is_starved(const struct tt_acceptor *a);
/* Takes a connection, if there is one and a descriptor for it: non-blocking, closed on exec; the caller's. Else -1. When descriptors have
 * run out it says so, the first time (warn). */
int tt_acceptor_take(struct tt_acceptor *a);

#endif
