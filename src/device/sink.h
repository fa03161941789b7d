/* Executes a proxy's commands: puts to a window, without waiting. All functions except
 * tt_sink_init require the progress lock. */
#ifndef TT_DEVICE_SINK_H
#define TT_DEVICE_SINK_H

#include "device/proxy.h"
#include "window/put.h"

struct tt_sink_peer;

struct tt_sink {
    struct tt_window *window;
    tutti_device_lanes lanes;
    uint32_t next_lane;
    struct tt_sink_peer **peers;    /* [nranks]; NULL: not used yet */
};

/* NOMEM (logged). */
tutti_status tt_sink_init(struct tt_sink *s, struct tt_window *window, tutti_device_lanes lanes);
/* Puts in progress continue, but do not increment counters of `proxy` any more. */
void tt_sink_fini(struct tt_sink *s, const struct tt_proxy *proxy);
/* Returns the sink for a proxy; s is its arg. */
struct tt_proxy_sink tt_sink_of(struct tt_sink *s);

#endif
