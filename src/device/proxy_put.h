/* Executes a proxy's commands: puts to a window, without waiting. All functions except
 * tt_proxy_put_init require the progress lock. */
#ifndef TT_DEVICE_PROXY_PUT_H
#define TT_DEVICE_PROXY_PUT_H

#include "device/proxy.h"
#include "window/put.h"

struct tt_proxy_put_peer;

struct tt_proxy_put {
    struct tt_window *window;
    tutti_device_lanes lanes;
    uint32_t next_lane;
    struct tt_proxy_put_peer **peers;    /* [nranks]; NULL: not used yet */
};

/* NOMEM (logged). */
tutti_status tt_proxy_put_init(struct tt_proxy_put *s, struct tt_window *window,
                               tutti_device_lanes lanes);
/* Puts in progress continue, but do not increment counters of `proxy` any more. */
void tt_proxy_put_fini(struct tt_proxy_put *s, const struct tt_proxy *proxy);
/* Returns the sink for a proxy; s is its arg. */
struct tt_proxy_putter tt_proxy_put_of(struct tt_proxy_put *s);

#endif
