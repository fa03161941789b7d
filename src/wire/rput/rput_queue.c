#include "wire/rput/rput_queue.h"

#include <stdlib.h>

bool tt_rput_queue_init(struct tt_rput_queue *q, uint32_t peer, uint32_t depth, size_t out_bytes)
{
    *q = (struct tt_rput_queue){ .peer = peer, .depth = depth, .out_bytes = out_bytes };
    q->out = calloc(depth, out_bytes);
    return q->out;
}

void tt_rput_queue_fini(struct tt_rput_queue *q)
{
    free(q->out);
    q->out = NULL;
}

uint64_t tt_rput_queue_bytes(const struct tt_rput_queue *q)
{
    return q->out ? q->depth * q->out_bytes : 0;
}

static const struct tt_rput_out *out_of(const struct tt_rput_queue *q, uint64_t message)
{
    const uint8_t *all = q->out;

    return (const void *)(all + (message & (q->depth - 1)) * q->out_bytes);
}

/* Advances *at to `end`, and reports the messages that it passes. */
static int report(const struct tt_rput_queue *q, uint64_t *at, uint64_t end, uint8_t kind,
                  struct tt_done *done, int max)
{
    int n = 0;

    for (; *at < end; ++*at) {
        const struct tt_rput_out *m = out_of(q, *at);

        if (!(kind == TT_DONE_LOCAL ? m->report_local : m->report_remote))
            continue;
        if (n == max)
            break;
        done[n++] = (struct tt_done){ .kind = kind, .peer = q->peer, .cookie = m->cookie };
    }
    return n;
}

int tt_rput_queue_report(struct tt_rput_queue *q, struct tt_done *done, int max)
{
    const int n = report(q, &q->reported, q->done, TT_DONE_LOCAL, done, max);

    return n + report(q, &q->remote, q->acked < q->reported ? q->acked : q->reported,
                      TT_DONE_REMOTE, done + n, max - n);
}
