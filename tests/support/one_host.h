/* Simulated runs of one call on one host, to test the cost of a rank's own work. */
#ifndef TESTS_SUPPORT_ONE_HOST_H
#define TESTS_SUPPORT_ONE_HOST_H

#include "sim/des.h"

struct one_host {
    struct tt_layout layout;
    struct tt_net_conf net;
    struct tt_coll coll;
    struct tt_des_conf conf;
};

/* Sets up n ranks of one host, whose links cost nothing. The caller sets the rest of r->conf. */
void one_host_make(struct one_host *r, const char *algo, enum tt_coll_kind kind, uint32_t n,
                   uint64_t bytes);
struct tt_des_result one_host_run(const struct one_host *r);

#endif
