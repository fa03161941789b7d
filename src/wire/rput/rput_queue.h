/* A stream's messages at their sender, and what all streams have in common: the loop of post,
 * reports of completion, and counts of which a peer returns the low bits.
 *
 * Messages are numbered from 0: remote <= reported <= done, and remote <= acked <= done <= tail. */
#ifndef TT_WIRE_RPUT_RPUT_QUEUE_H
#define TT_WIRE_RPUT_RPUT_QUEUE_H

#include "base/status.h"
#include "wire/rput/rput.h"

/* A message; the transport's struct begins with this. */
struct tt_rput_out {
    const uint8_t *data;            /* data to send or write before the record; NULL: none */
    uint64_t bytes;                 /* of the data */
    uint64_t cookie;
    uint32_t slot_bytes;            /* of the record and its payload, if it is staged */
    bool report_local, report_remote;
    uint8_t lane;                   /* as in tt_desc */
    bool few_lanes;                 /* `lane` is a limit */
};

struct tt_rput_queue {
    uint32_t peer;
    uint32_t depth;                 /* a power of two */
    size_t out_bytes;               /* size of the transport's message struct */
    void *out;                      /* [depth], indexed by number modulo depth; NULL: none */
    uint64_t tail;                  /* the next message */
    uint64_t acked;                 /* the receiver has applied all messages before it */
    uint64_t done;                  /* the sources of all messages before it are reusable */
    uint64_t reported, remote;      /* local and remote completions reported */
};

/* Allocates an empty queue. Returns false if out of memory. */
bool tt_rput_queue_init(struct tt_rput_queue *q, uint32_t peer, uint32_t depth, size_t out_bytes);
void tt_rput_queue_fini(struct tt_rput_queue *q);
/* Bytes of the messages' structs. */
uint64_t tt_rput_queue_bytes(const struct tt_rput_queue *q);
/* Reports completions, local ones first. Returns the number of entries. */
int tt_rput_queue_report(struct tt_rput_queue *q, struct tt_done *done, int max);

static inline bool tt_rput_queue_has_reports(const struct tt_rput_queue *q)
{
    return q->reported < q->done || q->remote < q->acked;
}

/* Returns a message without data for a put. */
static inline struct tt_rput_out tt_rput_out_of(const struct tt_desc *d)
{
    return (struct tt_rput_out){
        .cookie = d->cookie,
        .report_local = !(d->flags & TT_DESC_INLINE),
        .report_remote = d->flags & TT_DESC_REMOTE,
        .lane = d->lane,
        .few_lanes = d->lane && d->flags & TT_DESC_FEW_LANES,
    };
}

/* Returns the number with these low bits, if it is after `known` and less than 2^31 beyond it;
 * otherwise known: an old count, which a newer one has overtaken. */
static inline uint64_t tt_rput_later(uint64_t known, uint32_t low)
{
    const uint32_t ahead = low - (uint32_t)known;

    return ahead < UINT32_MAX / 2 ? known + ahead : known;
}

/* tt_wire_ops.post of a wire whose streams are ordered, so fences are free. enter: queues a put, or
 * returns false if there is no space; pump: sends what is queued in the stream. Both are called
 * with one link and stream after the other. */
static inline int tt_rput_post(struct tt_rput *r, const struct tt_desc *desc, int n,
                               bool (*enter)(struct tt_rput_link *link, uint32_t stream,
                                             const struct tt_desc *d),
                               void (*pump)(struct tt_rput_link *link, uint32_t stream))
{
    struct tt_rput_link *last = NULL;
    uint32_t last_stream = 0;
    int taken;

    for (taken = 0; taken < n; taken++) {
        const struct tt_desc *d = &desc[taken];
        const uint32_t stream = d->flags & TT_DESC_URGENT ? TT_RPUT_CONTROL : TT_RPUT_DATA;
        struct tt_rput_link *link;

        tt_assert(d->kind == TT_DESC_PUT || d->kind == TT_DESC_FENCE);
        if (d->kind == TT_DESC_FENCE)
            continue;
        link = tt_sparse_get(&r->links, d->key->peer);
        tt_assert(link);
        if (link->state == TT_RPUT_LOST)
            continue;
        if (last && (last != link || last_stream != stream))
            pump(last, last_stream);
        last = link;
        last_stream = stream;
        if (!enter(link, stream, d))
            break;
    }
    if (last)
        pump(last, last_stream);
    return taken;
}

#endif
