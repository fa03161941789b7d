/* Rails: the NICs of a host that carry data, and which rank uses which. Pure. */
#ifndef TT_TOPO_RAILS_H
#define TT_TOPO_RAILS_H

#include "topo/machine.h"

#define TT_RAILS_MAX 16

struct tt_rails {
    uint32_t n;
    struct {
        char name[TT_NIC_NAME_BYTES];
        int socket;             /* or TT_UNKNOWN */
    } rail[TT_RAILS_MAX];
};

/* The rails among nic[n]: up, with an address, no loopback, and let through by allows(rule, name). Where nobody has said which (rule NULL or
 * ""), bridges and tunnels of container and machine managers are none, and of NICs of different speed only the fastest are. In
 * order of name, numbers as numbers, so that hosts that are alike number them alike. */
void tt_rails_find(struct tt_rails *out, const struct tt_nic *nic, uint32_t n,
                   bool (*allows)(const char *rule, const char *name), const char *rule);

/* Why a rank uses its rail. */
enum tt_rail_why {
    TT_RAIL_NONE,               /* there is no rail: whatever connects */
    TT_RAIL_ONLY,
    TT_RAIL_NEAREST,            /* on its socket; those of a socket in turn, by the ranks that are there */
    TT_RAIL_IN_TURN,            /* nearness is not known, or none is near: by its number among the host's ranks */
    TT_RAIL_ALL                 /* alone on its host: its lanes go over all */
};

/* The rail of rank `local` of a host whose nlocal ranks are on socket[nlocal] (or TT_UNKNOWN), of rails on rail_socket[nrails]; 0 without
 * rails. *why may be NULL. */
uint32_t tt_rail_choose(const int16_t *rail_socket, uint32_t nrails, const int16_t *socket, uint32_t nlocal,
                        uint32_t local, enum tt_rail_why *why);
/* As one says it: "nearest: same socket". */
const char *tt_rail_why_text(enum tt_rail_why why);

#endif
