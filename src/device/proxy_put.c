#include "device/proxy_put.h"

#include <stdlib.h>

#include "base/status.h"
#include "window/order.h"
#include "window/handle.h"
#include "window/put.h"
#include "window/transfer.h"

#define LANES 240               /* number of lane values: a multiple of most lane counts */

/* State of the puts to a rank. */
struct tt_proxy_put_peer {
    bool begun;                 /* a put is partially taken */
    struct tt_window_put put;
    uint64_t quiet_tick;        /* of the quiet in progress: see tt_window_quiet_rank */
    tutti_status failed;        /* first failure of this device's puts */
};

tutti_status tt_proxy_put_init(struct tt_proxy_put *s, struct tt_window *window,
                               tutti_device_lanes lanes)
{
    *s = (struct tt_proxy_put){ .window = window, .lanes = lanes };
    s->peers = calloc(window->comm->nranks, sizeof(struct tt_proxy_put_peer *));
    if (!s->peers)
        return tt_fail(TUTTI_ERR_NOMEM, "device: out of memory for puts to %u ranks",
                       window->comm->nranks);
    return TUTTI_OK;
}

void tt_proxy_put_fini(struct tt_proxy_put *s, const struct tt_proxy *proxy)
{
    for (uint32_t r = 0; s->peers && r < s->window->comm->nranks; r++) {
        struct tt_proxy_put_peer *p = s->peers[r];

        if (!p)
            continue;
        if (p->begun)
            tt_window_put_leave(&p->put);
        tt_window_disown(s->window, r, &proxy->peers[r]->done, &p->failed);
        free(p);
    }
    free(s->peers);
    s->peers = NULL;
}

/* Returns the lane as in tt_desc. */
static uint8_t desc_lane(struct tt_proxy_put *s, uint32_t peer)
{
    switch (s->lanes) {
    case TUTTI_DEVICE_PINNED:
        return (uint8_t)(1 + peer % LANES);
    case TUTTI_DEVICE_ROUND_ROBIN:
        return (uint8_t)(1 + s->next_lane++ % LANES);
    default:
        return 0;
    }
}

static tutti_status sink_put(void *arg, const struct tt_command *c, bool ordered, uint64_t *done)
{
    struct tt_proxy_put *s = arg;
    struct tt_proxy_put_peer *p = s->peers[c->peer];
    tutti_status st = TUTTI_OK;

    if (c->peer == s->window->comm->rank) {
        tt_window_raise_own(s->window, c->word, (uint8_t)c->op, c->value);
        tt_window_count(done);
        return TUTTI_OK;
    }
    if (!p)
        p = s->peers[c->peer] = calloc(1, sizeof *p);
    if (!p)
        return tt_fail(TUTTI_ERR_NOMEM, "device: out of memory for puts to rank %u", c->peer);
    if (!p->begun) {
        const tutti_rma rma = {
            .size = sizeof rma, .signal_op = (tutti_signal_op)c->op, .signal_offset = c->word,
            .signal_value = c->value, .counter = done,
        };

        if (ordered)
            st = tt_window_fence_rank(s->window, c->peer);
        if (st)
            return st;
        tt_window_put_init(&p->put, s->window, c->peer, c->offset, c->src, c->bytes, &rma,
                           desc_lane(s, c->peer), &p->failed, "device put");
        p->begun = true;
    }
    st = tt_window_put_step(&p->put);
    p->begun = st == TUTTI_PENDING;
    return st;
}

/* Adds a message to a loss, as the window's functions require of their callers. */
static tutti_status with_message(tutti_status st, uint32_t peer)
{
    if (st == TUTTI_ERR_PEER_LOST)
        return tt_fail(st, "device: rank %u has destroyed its communicator", peer);
    return st;
}

static tutti_status sink_quiet(void *arg, uint32_t peer)
{
    const struct tt_proxy_put *s = arg;
    const tutti_status st = tt_window_status(s->window);

    if (st || !s->peers[peer])      /* nothing was put */
        return st;
    return with_message(
        tt_window_quiet_rank(s->window, peer, &s->peers[peer]->quiet_tick, &s->peers[peer]->failed),
        peer);
}

static tutti_status sink_wake(void *arg, uint32_t peer)
{
    const struct tt_proxy_put *s = arg;
    const tutti_status st = tt_window_status(s->window);

    return st ? st : with_message(tt_window_wake_rank(s->window, peer), peer);
}

struct tt_proxy_putter tt_proxy_put_of(struct tt_proxy_put *s)
{
    return (struct tt_proxy_putter){
        .arg = s, .put = sink_put, .quiet = sink_quiet, .wake = sink_wake
    };
}
