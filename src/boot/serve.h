/* The rendezvous server: the root of the start-up tree. It logs (warn) refusals, and after some
 * time the missing ranks. The owner polls tt_serve_fd and calls tt_serve_step. One thread at a
 * time. */
#ifndef TT_BOOT_SERVE_H
#define TT_BOOT_SERVE_H

#include <stdbool.h>
#include <stdint.h>
#include "tutti/tutti.h"

struct tt_serve;

struct tt_serve_conf {
    int listener;               /* taken over on success only */
    const char *token;
    uint32_t nranks;            /* 0: set by the first member */
    uint64_t began_ns, deadline_ns;
    bool again;                 /* start again when all have joined or the deadline has passed: a
                                   launcher serves as long as its job runs */
};

/* On success the caller owns *out and closes it with tt_serve_close. */
tutti_status tt_serve_open(struct tt_serve **out, const struct tt_serve_conf *conf);
void tt_serve_close(struct tt_serve *s);
/* Returns an epoll descriptor that is readable when tt_serve_step has work. */
int tt_serve_fd(const struct tt_serve *s);
/* Returns the time at which tt_serve_step must be called even without events. */
uint64_t tt_serve_wake_ns(const struct tt_serve *s);
void tt_serve_step(struct tt_serve *s, uint64_t now_ns);
/* Returns a connection of this process to the server, which needs no network; or -1 and errno. The
 * caller owns the descriptor. */
int tt_serve_connect(struct tt_serve *s);
/* Returns the number of joined ranks. */
uint32_t tt_serve_ncame(const struct tt_serve *s);
/* Returns whether ranks are waiting for others, including `rank`, in a gathering of nranks. */
bool tt_serve_waits_for(const struct tt_serve *s, uint32_t nranks, uint32_t rank);
/* Fails the start-up: all waiting ranks get PEER_LOST with `sentence`. */
void tt_serve_give_up(struct tt_serve *s, const char *sentence, uint64_t now_ns);
/* Returns whether every rank that joined has its result (never, with `again`). */
bool tt_serve_is_done(const struct tt_serve *s);

/* Serves in a separate thread until done. On success the thread owns *s, and closes it. */
tutti_status tt_serve_in_background(struct tt_serve *s);

#endif
