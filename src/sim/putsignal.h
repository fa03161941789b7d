/* What put-with-signal through a CPU proxy takes on a simulated network, in each mode of the proxy (include/tutti/device.h).
 *
 * Model of a sender. One proxy takes what its device has published, one thing after another; each descriptor that it gives to the network
 * takes it op_ns. A burst is published at once: `transfers` puts of `bytes`, the i-th to the i-th rank of the other hosts (the next host's
 * first, then in turn), and what the mode makes of their signals:
 *
 *   put-only    the puts, and no signal: what the others are compared with
 *   coupled     of each transfer: put, drain, signal
 *   decoupled   all puts; then for each group one fence of each of its destinations, kept by a drain, and the signals of its transfers
 *   ordered     of each transfer: put, fence, signal; the fence is a mark that travels with the signal
 *   full        all puts; then for each group such fences and its signals
 *
 * A group is the transfers to one destination, or `group` of them in the order of destinations: those to the first, then those to the second, ...
 * A drain stands still until all that the proxy has sent is acknowledged. A sender's burst is over when all is.
 *
 * Model of the network. net.h's: links with a rate and a latency, which serve in order. A descriptor travels as its bytes and a header, a signal
 * as a header alone. It has landed when it has come whole, and its sender knows one latency later: acknowledgements take no room. Nothing is
 * lost, and receivers take no time. The same configuration gives the same result, to the last bit. */
#ifndef TT_SIM_PUTSIGNAL_H
#define TT_SIM_PUTSIGNAL_H

#include "sim/net.h"

#define TT_PUTSIGNAL_MESSAGES_MAX (1u << 22)    /* of one burst of all senders */

enum tt_putsignal_mode {
    TT_PUTSIGNAL_PUT_ONLY,
    TT_PUTSIGNAL_COUPLED,
    TT_PUTSIGNAL_DECOUPLED,
    TT_PUTSIGNAL_ORDERED,
    TT_PUTSIGNAL_FULL,
    TT_PUTSIGNAL_MODES
};

/* "put-only", "coupled", ...; "?" for none. */
const char *tt_putsignal_mode_name(enum tt_putsignal_mode mode);

struct tt_putsignal_conf {
    const struct tt_net_conf *net;
    enum tt_putsignal_mode mode;
    uint32_t senders;           /* the first so many ranks send at once; at least 1 */
    uint32_t transfers;         /* of each sender; at least 1 */
    uint32_t group;             /* transfers of a group, which divides them; 0: those to one destination */
    uint64_t bytes;             /* of a put */
    uint64_t header_bytes;      /* of a message */
    double op_ns;
};

struct tt_putsignal_result {
    double time_ns;             /* of the slowest sender */
    uint64_t drains, fences, signals;   /* of the first; fences: marks that no drain kept */
    uint64_t destinations;      /* ranks that it sent to */
};

/* Runs a burst. INVALID (logged): no rank of another host, more senders than ranks, nothing to send, groups that are not all alike, more than
 * TT_PUTSIGNAL_MESSAGES_MAX messages, or a network that cannot be. NOMEM (logged). *out is written on OK only. Any thread. */
tutti_status tt_putsignal_run(const struct tt_putsignal_conf *conf, struct tt_putsignal_result *out);

#endif
