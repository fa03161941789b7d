/* The user's choice of address, port and partition of an RDMA device, and of the marking of its
 * packets. Pure except for reading the environment. */
#ifndef TT_WIRE_VERBS_FILTER_H
#define TT_WIRE_VERBS_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

#define TT_VERBS_GIDS_MAX 256

struct tt_verbs_filter {
    enum { TT_VERBS_GID_BEST, TT_VERBS_GID_INDEX, TT_VERBS_GID_NETWORK } gid_by;
    uint32_t gid_index;             /* for INDEX */
    uint8_t gid[16];                /* for NETWORK: its first gid_bits bits; an IPv4 address is
                                       ::ffff:a.b.c.d */
    uint32_t gid_bits;
    uint8_t port;                   /* 0: any */
    bool has_pkey;
    uint16_t pkey;
    uint8_t service_level, traffic_class;
};

/* gid: value of TUTTI_RDMA_GID, NULL or "": unset. The other settings are read from the
 * environment. INVALID names the invalid one and the valid values. */
tutti_status tt_verbs_filter_read(struct tt_verbs_filter *out, const char *gid);
/* Returns whether the choice allows that GID. */
bool tt_verbs_filter_allows(const struct tt_verbs_filter *c, uint32_t index, const uint8_t gid[16]);
/* Returns the index of the chosen partition in the port's table[n] (host byte order), preferably
 * with full membership; the first one without a choice. Negative: the port is not in the
 * partition. */
int tt_verbs_filter_pkey(const struct tt_verbs_filter *c, const uint16_t *table, size_t n);

#endif
