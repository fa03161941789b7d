/* Which address, port and partition of an RDMA device the user wants, and how its packets are marked. Pure but for reading the environment. */
#ifndef TT_WIRE_VERBS_CHOICE_H
#define TT_WIRE_VERBS_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

#define TT_VERBS_GIDS_MAX 256

struct tt_verbs_choice {
    enum { TT_VERBS_GID_BEST, TT_VERBS_GID_INDEX, TT_VERBS_GID_NETWORK } gid_by;
    uint32_t gid_index;             /* INDEX */
    uint8_t gid[16];                /* NETWORK: its first gid_bits bits; an IPv4 address is ::ffff:a.b.c.d there */
    uint32_t gid_bits;
    uint8_t port;                   /* 0: any */
    bool has_pkey;
    uint16_t pkey;
    uint8_t service_level, traffic_class;
};

/* gid: what TUTTI_RDMA_GID is, NULL or "": not set; the others are read from the environment. INVALID says which is wrong, and how it must be. */
tutti_status tt_verbs_choice_read(struct tt_verbs_choice *out, const char *gid);
/* Whether that GID is among those that are wanted. */
bool tt_verbs_choice_allows(const struct tt_verbs_choice *c, uint32_t index, const uint8_t gid[16]);
/* The index in the port's table[n], in the order of bits of this machine, of the partition that is wanted: that with full membership, if there are both;
 * the first where none is wanted. Less than 0: the port is not in it. */
int tt_verbs_choice_pkey(const struct tt_verbs_choice *c, const uint16_t *table, size_t n);

#endif
