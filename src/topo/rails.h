/* Rails: the NICs of a host that carry data, and their assignment to ranks. Pure. */
#ifndef TT_TOPO_RAILS_H
#define TT_TOPO_RAILS_H

#include "topo/machine.h"

#define TT_RAILS_MAX 16

struct tt_rails {
    uint32_t n;
    int64_t bit_s;              /* rate of the slowest rail; 0: unknown for some rails, or there are
                                   virtual interfaces */
    struct {
        char name[TT_NIC_NAME_BYTES];
        int socket, numa;       /* or TT_UNKNOWN */
        struct tt_pci_path pci;
    } rail[TT_RAILS_MAX];
};

/* Selects the rails among nic[n]: up, with an address, not loopback, and allowed by allows(rule,
 * name). Without a rule (NULL or ""), bridges and tunnels of container and machine managers are
 * excluded. Of NICs with different speeds only the fastest are used. Ordered by name, with numbers
 * compared as numbers, so identical hosts number them alike. */
void tt_rails_find(struct tt_rails *out, const struct tt_nic *nic, uint32_t n,
                   bool (*allows)(const char *rule, const char *name), const char *rule);

/* Why a rank uses its rail. */
enum tt_rail_why {
    TT_RAIL_IN_TURN,            /* nearness is unknown or equal: round-robin */
    TT_RAIL_PCI,                /* nearest: it shares a deeper PCI bridge with the rank's GPU
                                   than other rails */
    TT_RAIL_NUMA,               /* nearest: on its NUMA node */
    TT_RAIL_SOCKET,             /* nearest: on its socket */
    TT_RAIL_NONE,               /* there is no rail: any interface that connects */
    TT_RAIL_ONLY,
    TT_RAIL_ALL                 /* alone on its host: its lanes use all rails */
};

/* The rails of a host that are nearer to a rank than others. */
struct tt_rails_near {
    uint16_t set;               /* bit set; 0: equal or unknown distances */
    uint8_t by;                 /* TT_RAIL_PCI, NUMA or SOCKET; IN_TURN if set is 0 */
};

/* Returns the rails nearest to a rank with CPUs on that socket and NUMA node (or TT_UNKNOWN), and
 * to its GPU (NULL: none or unknown). The first criterion that distinguishes rails decides: the
 * deepest common PCI bridge of rail and GPU; the NUMA node of the GPU, or of the CPUs; their
 * socket. */
struct tt_rails_near tt_rails_nearest(const struct tt_rails *rails, int socket, int numa,
                                      const struct tt_gpu *gpu);

/* Assigns rail[nlocal] to the nlocal ranks of a host with nrails rails (at most TT_RAILS_MAX), by
 * near[nlocal]. Each rank gets one of its nearest rails, or of all rails if none is nearer: the
 * first one among those that the fewest earlier ranks use. Without rails, all get 0. */
void tt_rails_deal(const struct tt_rails_near *near, uint32_t nlocal, uint32_t nrails,
                   uint32_t *rail);
/* Returns the reason for the assignment, for a rank with `near`. */
enum tt_rail_why tt_rail_why(struct tt_rails_near near, uint32_t nlocal, uint32_t nrails);
/* Returns the reason as text: "nearest: on the same socket". */
const char *tt_rail_why_text(enum tt_rail_why why);

#endif
