/* How many lanes a link gets where descriptors are few. A lane is one, and all of them come from the limit of the process
 * (RLIMIT_NOFILE), as do control connections, files of the program and the first lanes of peers that are not connected yet. So
 * those have a reserve, and what is free beyond it is shared by the peers that are still to be connected. Each end offers what it
 * can have in its HELLO or WELCOME, and the lower offer holds. */
#include "wire/tcp.h"

#include "base/descriptors.h"
#include "base/log.h"

#define RESERVE 32u     /* control connections, their handshakes, another communicator, files of the program */

void tt_tcp_promise(struct tt_tcp_link *link, uint32_t lanes)
{
    link->tcp->promised += lanes - link->promised;
    link->promised = lanes;
}

/* Further lanes for one of `peers` peers that are to be connected. */
static uint32_t share(const struct tt_tcp *t, uint32_t peers)
{
    const uint32_t most = t->conf.lanes - 1, kept = RESERVE + t->promised + peers;
    const uint32_t free = tt_descriptors_free(kept + most * peers), spare = free > kept ? free - kept : 0;

    return spare / peers < most ? spare / peers : most;
}

/* The connection over which it is said has its descriptor already. */
uint32_t tt_tcp_offer(struct tt_tcp_link *link)
{
    struct tt_tcp *t = link->tcp;

    if (t->conf.lanes == 1 || link->offer)
        return link->offer ? link->offer : 1;
    link->offer = 1 + share(t, t->conf.nranks - 1 > t->noffers ? t->conf.nranks - 1 - t->noffers : 1);
    t->noffers++;
    if (link->offer < t->conf.lanes)
        tt_log(TT_LOG_INFO, "tcp: %u of %u lanes to rank %u: few descriptors are free (raise RLIMIT_NOFILE with ulimit -n)",
               link->offer, t->conf.lanes, link->peer);
    tt_tcp_promise(link, link->offer - 1);
    return link->offer;
}

bool tt_tcp_may_have_lane(void)
{
    return tt_descriptors_free(RESERVE) == RESERVE;
}
