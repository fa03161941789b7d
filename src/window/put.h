/* A put in steps, for callers that must not wait for room: the proxies of devices. */
#ifndef TT_WINDOW_PUT_H
#define TT_WINDOW_PUT_H

#include "base/checked.h"
#include "window/transfer.h"

/* The shape of the data: rows or pieces. */
struct tt_window_shape {
    const uint8_t *src;
    size_t n, bytes, src_stride, stride, offset;
    const tutti_piece *pieces;  /* NULL: rows */
};

struct tt_window_put {
    struct tt_call_check attempt;
    struct tt_window_shape shape;
    tutti_rma rma;
    struct tt_window *signals;  /* the window of the signal */
    struct tt_window_message atomic;    /* an atomic without its old value; verb 0: a put */
    struct tt_window_peer *peer;
    struct tt_window_way *way, *signal_way;
    struct tt_engine_client_link link;
    uint8_t lane;               /* see tt_desc */
    tutti_status *failed;       /* stores a failure for the caller's quiet; NULL: for the host's */
    bool begun, by_mail;
    bool direct;                /* source or target is device memory, which no processor may
                                   access */
    bool split;                 /* data was sent without the signal */
    bool signalled;             /* signal sent, or none requested */
    bool queued;                /* the call has returned; the put is in the queue (queue.h) */
    bool full;                  /* no room in the queue, and the caller does not wait */
    uint64_t tick;              /* of a queued put: tick of its call */
    uint64_t fence_tick;        /* of a device's put or an atomic: tick of the last fence before it;
                                   0: none */
    size_t at;                  /* index of the current piece */
    uint64_t within;            /* offset in that piece: all before it was taken */
    struct tt_window_transfer *transfer;    /* NULL: nothing outlasts the call */
};

/* Returns a row or piece. */
static inline tutti_piece tt_window_piece_of(const struct tt_window_shape *s, size_t i)
{
    if (s->pieces)
        return s->pieces[i];
    return (tutti_piece){ .offset = s->offset + i * s->stride,
                          .src = s->src + i * s->src_stride,
                          .bytes = s->bytes };
}

/* Returns whether the put will read some of mem[bytes]. */
static inline bool tt_window_put_uses(const struct tt_window_put *p, const void *mem, size_t bytes)
{
    for (size_t i = p->at; i < p->shape.n; i++) {
        const tutti_piece piece = tt_window_piece_of(&p->shape, i);

        if (tt_overlap(piece.src, piece.bytes, mem, bytes))
            return true;
    }
    return false;
}

/* Abandons a put that was begun. The caller holds the progress lock. */
static inline void tt_window_put_leave(struct tt_window_put *p)
{
    if (!p->transfer)
        return;
    p->transfer->counter = NULL;
    tt_transfer_leave(p->transfer);
    p->transfer = NULL;
}

/* Initializes a put of src[bytes] to the part of `rank` (not this one) at `offset`, with the
 * signal in `rma`, in this window; at least one of them. rma->counter: as in tutti_rma, not
 * NULL. *failed receives the failure if the rank has freed its window, for tt_window_quiet_rank.
 * The arguments must be checked; src belongs to the caller, and must stay valid until the
 * counter is incremented. */
void tt_window_put_init(struct tt_window_put *p, struct tt_window *w, uint32_t rank,
                        uint64_t offset, const void *src, uint64_t bytes, const tutti_rma *rma,
                        uint8_t lane, tutti_status *failed, const char *call);
/* Continues while there is room. OK: everything was taken; PENDING: call again; other errors
 * (with a message) end it completely. The caller holds the progress lock. */
tutti_status tt_window_put_step(struct tt_window_put *p);
/* As tt_window_put_step, for the queue: does not check the communicator, nor count puts without a
 * transfer. */
tutti_status tt_window_put_go_on(struct tt_window_put *p);
/* Sets a signal in a word of this rank, and wakes waiters. The caller holds the progress lock. */
void tt_window_raise_own(struct tt_window *w, uint64_t offset, uint8_t op, uint64_t value);
/* Detaches the counter and the failure status from the puts to `rank` in progress, so that both
 * may be freed. Failures are then reported to the host. The caller holds the progress lock. */
void tt_window_disown(struct tt_window *w, uint32_t rank, const uint64_t *counter,
                      const tutti_status *failed);

#endif
