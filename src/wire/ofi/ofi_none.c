/* The ofi transport in a build without libfabric: listed, but unsupported. */
#include "base/status.h"
#include "wire/wires.h"

static tutti_status ofi_none_open(struct tt_wire **out, const struct tt_wire_conf *conf)
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
    .open = ofi_none_open,      /* always fails, so no other function is called */
};
