/* The rendezvous server's sockets. It logs (warn) whom it refuses, and after a while for whom it waits. Driven by its owner: poll tt_serve_fd, then call tt_serve_step. One thread at a time. */
#ifndef TT_BOOT_SERVE_H
#define TT_BOOT_SERVE_H

#include <stdbool.h>
#include <stdint.h>
#include "boot/rendezvous.h"

struct tt_serve;

struct tt_serve_conf {
    int listener;               /* taken over, on success only */
    const char *token;
    uint32_t nranks;            /* 0: learned from the first that comes */
    uint64_t began_ns, deadline_ns;
    bool again;                 /* when all came or time was up, begin anew: a launcher serves as long as its job runs */
};

/* On success the caller owns *out and ends it with tt_serve_close. */
tutti_status tt_serve_open(struct tt_serve **out, const struct tt_serve_conf *conf);
void tt_serve_close(struct tt_serve *s);
/* An epoll descriptor: readable when tt_serve_step has something to do. */
int tt_serve_fd(const struct tt_serve *s);
/* When tt_serve_step must be called even if nothing is readable. */
uint64_t tt_serve_wake_ns(const struct tt_serve *s);
void tt_serve_step(struct tt_serve *s, uint64_t now_ns);
/* A connection of this process to the server, which needs no network; -1 and errno. The caller owns the descriptor. */
int tt_serve_connect(struct tt_serve *s);
/* How many ranks are here now. */
uint32_t tt_serve_ncame(const struct tt_serve *s);
/* Whether ranks wait there for others, `rank` among them, and agree that they are nranks. */
bool tt_serve_waits_for(const struct tt_serve *s, uint32_t nranks, uint32_t rank);
/* Tells those who wait that they wait in vain, as PEER_LOST. */
void tt_serve_give_up(struct tt_serve *s, const char *sentence, uint64_t now_ns);
/* Whether the verdict is with every rank that came (never, with `again`). */
bool tt_serve_is_done(const struct tt_serve *s);

/* Serves in a thread of its own until it is done. On success the thread owns *s, and closes it. */
tutti_status tt_serve_in_background(struct tt_serve *s);

#endif
