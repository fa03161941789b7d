#include "topo/rails.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* Interfaces of container and machine managers: often up, often with the same address on every
 * host. */
static bool nic_is_virtual(const char *name)
{
    static const char *const prefixes[] = { "docker",  "br-", "virbr", "veth", "vmnet", "cni",
                                            "flannel", "tun", "tap",   "ifb",  "dummy" };

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static bool is_candidate(const struct tt_nic *nic, bool (*allows)(const char *, const char *),
                         const char *rule)
{
    if (!nic->up || !nic->addressed || nic->loopback || !allows(rule, nic->name))
        return false;
    return (rule && *rule) || !nic_is_virtual(nic->name);
}

static int rail_by_name(const void *a, const void *b)
{
    const struct tt_nic *const *x = a, *const *y = b;

    return strverscmp((*x)->name, (*y)->name);
}

void tt_rails_find(struct tt_rails *out, const struct tt_nic *nic, uint32_t n,
                   bool (*allows)(const char *rule, const char *name), const char *rule)
{
    const struct tt_nic *found[TT_NICS_MAX];
    int64_t fastest = 0, wired;
    size_t nfound = 0;

    for (uint32_t i = 0; i < n && nfound < TT_NICS_MAX; i++)
        if (is_candidate(&nic[i], allows, rule)) {
            found[nfound++] = &nic[i];
            if (nic[i].bit_s > fastest)
                fastest = nic[i].bit_s;
        }
    qsort(found, nfound, sizeof *found, rail_by_name);
    *out = (struct tt_rails){ .n = 0 };
    for (size_t i = 0; i < nfound && out->n < TT_RAILS_MAX; i++) {
        if (!(rule && *rule) && found[i]->bit_s != fastest)
            continue;
        strcpy(out->rail[out->n].name, found[i]->name);
        out->rail[out->n].socket = found[i]->socket;
        out->rail[out->n].numa = found[i]->numa;
        wired = found[i]->wired ? found[i]->bit_s : 0;
        out->bit_s = out->n == 0 || wired < out->bit_s ? wired : out->bit_s;
        out->rail[out->n++].pci = found[i]->pci;
    }
}

/* Number of common bridges. */
static int bridges(const struct tt_pci_path *a, const struct tt_pci_path *b)
{
    uint32_t n = 0;

    while (n < a->depth && n < b->depth && a->bridge[n] == b->bridge[n])
        n++;
    return (int)n;
}

/* Returns the bit set with the highest positive score, if others score less; else 0. */
static uint16_t best_rails(const int *score, uint32_t n)
{
    uint32_t set = 0;
    int best = 0;

    for (uint32_t i = 0; i < n; i++)
        best = score[i] > best ? score[i] : best;
    for (uint32_t i = 0; i < n; i++)
        set |= (uint32_t)(best > 0 && score[i] == best) << i;
    return set == (1u << n) - 1 ? 0 : (uint16_t)set;
}

struct tt_rails_near tt_rails_nearest(const struct tt_rails *rails, int socket, int numa,
                                      const struct tt_gpu *gpu)
{
    int score[3][TT_RAILS_MAX];

    if (gpu && gpu->numa != TT_UNKNOWN)
        numa = gpu->numa;
    if (gpu && gpu->socket != TT_UNKNOWN)
        socket = gpu->socket;
    for (uint32_t i = 0; i < rails->n; i++) {
        score[0][i] = gpu ? bridges(&rails->rail[i].pci, &gpu->pci) : 0;
        score[1][i] = numa != TT_UNKNOWN && rails->rail[i].numa == numa;
        score[2][i] = socket != TT_UNKNOWN && rails->rail[i].socket == socket;
    }
    for (int by = 0; by < 3; by++) {
        const uint16_t set = best_rails(score[by], rails->n);

        if (set)
            return (struct tt_rails_near){ .set = set, .by = (uint8_t)(TT_RAIL_PCI + by) };
    }
    return (struct tt_rails_near){ 0 };
}

void tt_rails_deal(const struct tt_rails_near *near, uint32_t nlocal, uint32_t nrails,
                   uint32_t *rail)
{
    uint32_t taken[TT_RAILS_MAX] = { 0 };

    tt_assert(nrails <= TT_RAILS_MAX);
    for (uint32_t r = 0; r < nlocal; r++) {
        const uint32_t all = (1u << nrails) - 1, set = near[r].set & all ? near[r].set & all : all;
        uint32_t least = UINT32_MAX;

        rail[r] = 0;
        for (uint32_t i = 0; i < nrails; i++)
            if (set >> i & 1 && taken[i] < least) {
                least = taken[i];
                rail[r] = i;
            }
        taken[rail[r]]++;
    }
}

enum tt_rail_why tt_rail_why(struct tt_rails_near near, uint32_t nlocal, uint32_t nrails)
{
    if (nrails < 2)
        return nrails ? TT_RAIL_ONLY : TT_RAIL_NONE;
    return nlocal == 1 ? TT_RAIL_ALL : (enum tt_rail_why)near.by;
}

const char *tt_rail_why_text(enum tt_rail_why why)
{
    static const char *const texts[] = {
        [TT_RAIL_NONE] = "no rail here: any interface that connects",
        [TT_RAIL_ONLY] = "the only rail",
        [TT_RAIL_IN_TURN] = "assigned in turn: no rail is known to be nearer",
        [TT_RAIL_PCI] = "nearest: below the same PCI bridge as its GPU",
        [TT_RAIL_NUMA] = "nearest: on the same NUMA node",
        [TT_RAIL_SOCKET] = "nearest: on the same socket",
        [TT_RAIL_ALL] = "all: alone on its host",
    };

    return (unsigned)why < sizeof texts / sizeof *texts ? texts[why] : "?";
}
