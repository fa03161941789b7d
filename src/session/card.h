/* A member's card: where other members reach it. Pure. */
#ifndef TT_SESSION_CARD_H
#define TT_SESSION_CARD_H

#include "boot/endpoint.h"
#include "boot/mark.h"

#define TT_CARD_ADDRESSES (TT_ENDPOINT_ADDRS + 2)

struct tt_member_card {
    struct tt_endpoint inside;      /* its own addresses, with the port of its listener */
    bool has_outside;
    struct tt_address outside;      /* announced: a forwarded port; IPv4 or IPv6 */
    uint64_t mark;                  /* number of its mark (boot/mark.h), which proves who shares its host; 0: none */
};

void tt_member_card_write(const struct tt_member_card *c, struct tt_blob *out);
/* False if the blob is none. */
bool tt_member_card_read(struct tt_member_card *c, const struct tt_blob *blob);
/* In which order `own` had better try to reach `peer`: addresses that look like a neighbour's, then the announced one, as who announces one is
 * behind an address translation, where only neighbours reach it at others; that one first if both announce different addresses, for then they are
 * no neighbours, whatever it looks like. place: where the peer's mark was found. A host that only looks like this one may be another: then loopback is
 * the first address, and not the only one. Into out[TT_CARD_ADDRESSES]; how many. */
size_t tt_member_card_candidates(const struct tt_member_card *own, const struct tt_member_card *peer,
                                 enum tt_mark_place place, struct tt_address *out);
/* Whether the peer is on this host: proven, or, where that is impossible, inferred. */
bool tt_member_card_is_here(const struct tt_member_card *own, const struct tt_member_card *peer,
                            enum tt_mark_place place);

#endif
