/* A member's card: the addresses where other members reach it. Pure. */
#ifndef TT_SESSION_CARD_H
#define TT_SESSION_CARD_H

#include "boot/endpoint.h"
#include "boot/mark.h"

#define TT_CARD_ADDRESSES (TT_ENDPOINT_ADDRS + 2)

struct tt_member_card {
    struct tt_endpoint inside;      /* its own addresses, with the port of its listener */
    bool has_outside;
    struct tt_address outside;      /* announced, e.g. a forwarded port; IPv4 or IPv6 */
    uint64_t mark;                  /* ID of its mark (boot/mark.h), which proves that members share
                                       a host; 0: none */
};

void tt_member_card_write(const struct tt_member_card *c, struct tt_blob *out);
/* Returns false if the blob is not a valid card. */
bool tt_member_card_read(struct tt_member_card *c, const struct tt_blob *blob);
/* Lists the addresses at which `own` should try to reach `peer`, in order, in
 * out[TT_CARD_ADDRESSES]; returns their number. Addresses that look local come first, then the
 * announced one: only members in the same network reach a member behind NAT at its own addresses.
 * If both announce different addresses, they are in different networks, and the announced address
 * comes first. place: where the peer's mark was found. If the host is only assumed to be the same,
 * loopback is the first address, but not the only one. */
size_t tt_member_card_candidates(const struct tt_member_card *own,
                                 const struct tt_member_card *peer, enum tt_mark_place place,
                                 struct tt_address *out);
/* Returns whether the peer is on this host: proven by its mark, or inferred if that is not
 * possible. */
bool tt_member_card_is_here(const struct tt_member_card *own, const struct tt_member_card *peer,
                            enum tt_mark_place place);

#endif
