/* The verbs transport in a build without libibverbs: listed, but unsupported. */
#include "base/status.h"
#include "wire/wires.h"

static tutti_status verbs_none_open(struct tt_wire **out, const struct tt_wire_conf *conf)
{
    (void)out;
    (void)conf;
    return tt_fail_again(TUTTI_ERR_UNSUPPORTED, "verbs: this build has no libibverbs (install the "
                                                "package libibverbs-dev and configure again)");
}

const struct tt_wire_ops tt_wire_verbs = {
    .name = "verbs",
    .summary = "RDMA devices (not in this build)",
    .by_name = true,
    .open = verbs_none_open,      /* always fails, so no other function is called */
};
