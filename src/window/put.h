/* A put that is made step by step, by who may not wait for room as calls do: the proxies of devices. */
#ifndef TT_WINDOW_PUT_H
#define TT_WINDOW_PUT_H

#include "window/window.h"

/* What is put: rows, or pieces. */
struct tt_window_shape {
    const uint8_t *src;
    size_t n, bytes, src_stride, stride, offset;
    const tutti_piece *pieces;  /* NULL: rows */
};

struct tt_window_put {
    struct tt_attempt attempt;
    struct tt_window_shape shape;
    tutti_rma rma;
    struct tt_window *signals;  /* the window of the signal */
    struct tt_window_peer *peer;
    struct tt_window_way *way, *signal_way;
    struct tt_guest_link link;
    uint8_t lane;               /* as tt_desc has it */
    tutti_status *failed;       /* whose quiet tells of a failure; NULL: the host's */
    bool begun, by_mail;
    bool direct;                /* its source or its target is memory of a device: no processor may touch the bytes */
    bool split;                 /* some bytes went without the signal */
    bool signalled;             /* or there is none */
    bool queued;                /* its caller has gone on (queue.h) */
    bool full;                  /* there was no room, and the caller does not wait */
    uint64_t tick;              /* of a queued one: in which it was called */
    uint64_t fence_tick;        /* of a device's: that of the last fence before it; 0: none */
    size_t at;                  /* piece, … */
    uint64_t within;            /* … and byte of it: all before has been taken */
    struct tt_window_transfer *transfer;    /* NULL: nothing of it outlasts the call */
};

/* src[bytes] to the part of `rank` (not this one) at `offset`, and the signal that `rma` says, in this window; one of the two is there. rma->counter: as
 * tutti_rma has it, not NULL. *failed is what it comes to if the rank has taken its window back, for tt_window_quiet_rank. Arguments were checked; src is the
 * caller's, until the counter grows. */
void tt_window_put_init(struct tt_window_put *p, struct tt_window *w, uint32_t rank, uint64_t offset, const void *src,
                        uint64_t bytes, const tutti_rma *rma, uint8_t lane, tutti_status *failed, const char *call);
/* As far as there is room. OK: all has been taken; PENDING: call again; else (with a sentence) it has failed, and leaves nothing behind. Under the baton. */
tutti_status tt_window_put_step(struct tt_window_put *p);
/* The same without looking at the communicator, and without counting what has no transfer: for the queue. */
tutti_status tt_window_put_go_on(struct tt_window_put *p);
/* Whether it will read some of mem[bytes]. */
bool tt_window_put_uses(const struct tt_window_put *p, const void *mem, size_t bytes);
tutti_piece tt_window_piece_of(const struct tt_window_shape *s, size_t i);
/* One that was begun is not stepped any more. Under the baton. */
void tt_window_put_leave(struct tt_window_put *p);
/* A signal to a word of this rank's own; who waits for it looks. Under the baton. */
void tt_window_raise_own(struct tt_window *w, uint64_t offset, uint8_t op, uint64_t value);
/* Both may go: nobody counts there the puts to `rank` that are under way, and what fails of them, or has failed, is the host's to hear. Under the baton. */
void tt_window_disown(struct tt_window *w, uint32_t rank, const uint64_t *counter, const tutti_status *failed);

#endif
