/* Rails: the NICs of a host that carry data, and which rank uses which. Pure. */
#ifndef TT_TOPO_RAILS_H
#define TT_TOPO_RAILS_H

#include "topo/machine.h"

#define TT_RAILS_MAX 16

struct tt_rails {
    uint32_t n;
    int64_t bit_s;              /* of the slowest; 0: not told of each, or by interfaces that no wire is behind */
    struct {
        char name[TT_NIC_NAME_BYTES];
        int socket, numa;       /* or TT_UNKNOWN */
        struct tt_pci_path pci;
    } rail[TT_RAILS_MAX];
};

/* The rails among nic[n]: up, with an address, no loopback, and let through by allows(rule, name). Where nobody has said which (rule NULL or
 * ""), bridges and tunnels of container and machine managers are none, and of NICs of different speed only the fastest are. In
 * order of name, numbers as numbers, so that hosts that are alike number them alike. */
void tt_rails_find(struct tt_rails *out, const struct tt_nic *nic, uint32_t n,
                   bool (*allows)(const char *rule, const char *name), const char *rule);

/* Why a rank uses its rail. */
enum tt_rail_why {
    TT_RAIL_IN_TURN,            /* nearness is not known, or all are as near */
    TT_RAIL_PCI,                /* nearest: it shares a PCI bridge with the rank's GPU that is further down than what others share */
    TT_RAIL_NUMA,               /* nearest: on its NUMA node */
    TT_RAIL_SOCKET,             /* nearest: on its socket */
    TT_RAIL_NONE,               /* there is no rail: whatever connects */
    TT_RAIL_ONLY,
    TT_RAIL_ALL                 /* alone on its host: its lanes go over all */
};

/* The rails of a host that are nearer to a rank than others. */
struct tt_rails_near {
    uint16_t set;               /* a bit for each; 0: all are as near, as far as is known */
    uint8_t by;                 /* TT_RAIL_PCI, NUMA or SOCKET; IN_TURN where set is 0 */
};

/* Those nearest to a rank whose processors are on that socket and NUMA node (or TT_UNKNOWN), and to its GPU (NULL: it has none, or nobody says). What
 * first tells rails apart decides: the nearest PCI bridge that rail and GPU have in common; the NUMA node of the GPU, or of the processors; their socket. */
struct tt_rails_near tt_rails_nearest(const struct tt_rails *rails, int socket, int numa, const struct tt_gpu *gpu);

/* Gives each of the nlocal ranks of a host with nrails rails (at most TT_RAILS_MAX) its rail[nlocal], by near[nlocal] as each tells: of its nearest, or of all
 * where none is nearer, the one that fewest ranks before it have, the first of these. 0 without rails. */
void tt_rails_deal(const struct tt_rails_near *near, uint32_t nlocal, uint32_t nrails, uint32_t *rail);
/* Why it is that one, for a rank that tells `near`. */
enum tt_rail_why tt_rail_why(struct tt_rails_near near, uint32_t nlocal, uint32_t nrails);
/* As one says it: "nearest: on the same socket". */
const char *tt_rail_why_text(enum tt_rail_why why);

#endif
