/* Time of put-with-signal through a CPU proxy on a simulated network, for each mode of the proxy
 * (include/tutti/device.h).
 *
 * Model of a sender. One proxy processes its device's descriptors sequentially; passing one to the
 * network takes op_ns. A burst is published at once: `transfers` puts of `bytes`, the i-th to the
 * i-th rank of the other hosts (the next host's first, then in turn), and the signals by mode:
 *
 *   put-only   the puts, without signals: the reference
 *   coupled    for each transfer: put, drain, signal
 *   decoupled  all puts; then for each group one fence of each of its destinations, implemented
 *   by a drain, and its signals
 *   ordered    for each transfer: put, fence, signal; the fence is a mark sent with the signal
 *   full       all puts; then for each group such fences and its signals
 *
 * A group is the transfers to one destination, or `group` of them in the order of destinations:
 * those to the first, then those to the second, ... A drain waits until everything that the proxy
 * has sent is acknowledged. A sender's burst ends when everything is acknowledged.
 *
 * Model of the network: that of net.h, links with a rate and a latency, which serve in order. A
 * descriptor is sent as a header and its bytes, a signal as a header. It has arrived when it is
 * complete, and its sender is notified one latency later: acknowledgements take no bandwidth.
 * Nothing is lost, and receivers take no time. The same configuration gives the same result, to the
 * last bit. */
#ifndef TT_SIM_PUTSIGNAL_H
#define TT_SIM_PUTSIGNAL_H

#include "sim/net.h"

#define TT_PUTSIGNAL_MESSAGES_MAX (1u << 22)    /* maximum messages of one burst of all senders */

enum tt_putsignal_mode {
    TT_PUTSIGNAL_PUT_ONLY,
    TT_PUTSIGNAL_COUPLED,
    TT_PUTSIGNAL_DECOUPLED,
    TT_PUTSIGNAL_ORDERED,
    TT_PUTSIGNAL_FULL,
    TT_PUTSIGNAL_MODES
};

/* Returns "put-only", "coupled", ...; "?" for an invalid value. */
const char *tt_putsignal_mode_name(enum tt_putsignal_mode mode);

struct tt_putsignal_conf {
    const struct tt_net_conf *net;
    enum tt_putsignal_mode mode;
    uint32_t senders;           /* number of ranks, from rank 0, that send at once; at least 1 */
    uint32_t transfers;         /* per sender; at least 1 */
    uint32_t group;             /* transfers per group; must divide `transfers`. 0: a group per
                                   destination */
    uint64_t bytes;             /* of a put */
    uint64_t header_bytes;      /* of a message */
    double op_ns;
};

struct tt_putsignal_result {
    double time_ns;             /* of the slowest sender */
    uint64_t drains, fences, signals;   /* of the first sender; fences: marks without a drain */
    uint64_t destinations;      /* number of its target ranks */
};

/* Simulates a burst. INVALID (logged): no rank of another host, more senders than ranks, nothing to
 * send, unequal groups, more than TT_PUTSIGNAL_MESSAGES_MAX messages, or an invalid network. NOMEM
 * (logged). *out is written on OK only. Any thread. */
tutti_status tt_putsignal_run(const struct tt_putsignal_conf *conf,
                              struct tt_putsignal_result *out);

#endif
