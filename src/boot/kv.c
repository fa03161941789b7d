#include "boot/kv.h"

#include "base/status.h"

tutti_status tt_kv_meet(struct tt_launch *launch, int *listener, uint64_t deadline_ns)
{
    (void)listener;
    (void)deadline_ns;
    return tt_fail(TUTTI_ERR_UNSUPPORTED, "rank %u of %u does not know where to meet the others: set TUTTI_RENDEZVOUS",
                   launch->rank, launch->nranks);
}
