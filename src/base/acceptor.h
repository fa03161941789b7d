/* A listening socket in an epoll set, for a process that may run out of descriptors. Without a free
 * descriptor, incoming connections stay in the kernel's queue. The listener would then remain
 * readable and its owner would spin. The acceptor therefore removes it from the epoll set for a
 * short time and retries. It needs no descriptors beyond the two of its initialization. One thread
 * at a time. */
#ifndef TT_BASE_ACCEPTOR_H
#define TT_BASE_ACCEPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include "tutti/tutti.h"

struct tt_acceptor {
    const char *what;       /* prefix of log messages: "tcp" */
    int listener;           /* -1 if not open */
    int near;               /* second listener (base/near.h), or -1 */
    int timer;              /* fires when a paused listener is retried */
    int epoll;
    epoll_data_t data;
    bool paused, logged;
    uint64_t starved_ns;    /* time since when no descriptor has been free; 0: a descriptor was
                               free */
};

/* Adds the non-blocking `listener` to `epoll`; its events carry `data`. On success *a owns the
 * listener; on error the caller keeps it. `what` and `epoll` must outlive *a. */
tutti_status tt_acceptor_init(struct tt_acceptor *a, const char *what, int listener, int epoll,
                              epoll_data_t data);
/* Closes the listener. A struct with { .listener = -1 } is valid. */
void tt_acceptor_fini(struct tt_acceptor *a);
/* Returns whether no descriptor has been free for two seconds. Descriptors that a connection holds
 * only during its setup are closed long before that, so waiting longer is useless. */
bool tt_acceptor_is_starved(const struct tt_acceptor *a);
/* Accepts a pending connection if a descriptor is free. Returns a non-blocking, close-on-exec
 * descriptor that the caller owns, or -1. Logs a warning the first time that descriptors have run
 * out. */
int tt_acceptor_take(struct tt_acceptor *a);

#endif
