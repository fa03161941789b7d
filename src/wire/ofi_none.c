/* The ofi wire of a build without libfabric: it is listed, and says why it cannot be used. */
#include "base/status.h"
#include "wire/wires.h"

static tutti_status none_open(struct tt_wire **out, const struct tt_wire_conf *conf)
{
    (void)out;
    (void)conf;
    return tt_fail_again(TUTTI_ERR_UNSUPPORTED, "ofi: this build has no libfabric (install the "
                                                "package libfabric-dev and configure again)");
}

const struct tt_wire_ops tt_wire_ofi = {
    .name = "ofi",
    .summary = "networks by libfabric (not in this build)",
    .by_name = true,
    .open = none_open,      /* always fails, so nothing else is ever called */
};
