#include "topo/rails.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* Of container and machine managers: often up, often with the same address on every host. */
static bool is_virtual(const char *name)
{
    static const char *const prefixes[] = { "docker", "br-", "virbr", "veth", "vmnet", "cni", "flannel", "tun", "tap", "ifb", "dummy" };

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static bool is_candidate(const struct tt_nic *nic, bool (*allows)(const char *, const char *), const char *rule)
{
    if (!nic->up || !nic->addressed || nic->loopback || !allows(rule, nic->name))
        return false;
    return (rule && *rule) || !is_virtual(nic->name);
}

static int by_name(const void *a, const void *b)
{
    const struct tt_nic *const *x = a, *const *y = b;

    return strverscmp((*x)->name, (*y)->name);
}

void tt_rails_find(struct tt_rails *out, const struct tt_nic *nic, uint32_t n,
                   bool (*allows)(const char *rule, const char *name), const char *rule)
{
    const struct tt_nic *found[TT_NICS_MAX];
    int64_t fastest = 0;
    size_t nfound = 0;

    for (uint32_t i = 0; i < n && nfound < TT_NICS_MAX; i++)
        if (is_candidate(&nic[i], allows, rule)) {
            found[nfound++] = &nic[i];
            if (nic[i].bit_s > fastest)
                fastest = nic[i].bit_s;
        }
    qsort(found, nfound, sizeof *found, by_name);
    *out = (struct tt_rails){ .n = 0 };
    for (size_t i = 0; i < nfound && out->n < TT_RAILS_MAX; i++) {
        if (!(rule && *rule) && found[i]->bit_s != fastest)
            continue;
        strcpy(out->rail[out->n].name, found[i]->name);
        out->rail[out->n++].socket = found[i]->socket;
    }
}

uint32_t tt_rail_choose(const int16_t *rail_socket, uint32_t nrails, const int16_t *socket, uint32_t nlocal,
                        uint32_t local, enum tt_rail_why *why)
{
    enum tt_rail_why ignored;
    uint32_t near = 0, turn = 0;

    tt_assert(local < nlocal);
    if (!why)
        why = &ignored;
    *why = nrails == 0 ? TT_RAIL_NONE : nrails == 1 ? TT_RAIL_ONLY : nlocal == 1 ? TT_RAIL_ALL : TT_RAIL_IN_TURN;
    if (nrails < 2)
        return 0;
    for (uint32_t i = 0; i < nrails; i++)
        near += socket[local] != TT_UNKNOWN && rail_socket[i] == socket[local];
    if (near == 0)
        return local % nrails;
    if (nlocal > 1)
        *why = TT_RAIL_NEAREST;
    for (uint32_t i = 0; i < local; i++)
        turn += socket[i] == socket[local];
    turn %= near;
    for (uint32_t i = 0; i < nrails; i++)
        if (rail_socket[i] == socket[local] && turn-- == 0)
            return i;
    return 0;
}

const char *tt_rail_why_text(enum tt_rail_why why)
{
    static const char *const texts[] = {
        [TT_RAIL_NONE] = "no rail here: whatever connects",
        [TT_RAIL_ONLY] = "the only rail",
        [TT_RAIL_NEAREST] = "nearest: on the same socket",
        [TT_RAIL_IN_TURN] = "in turn: no rail is known to be nearer",
        [TT_RAIL_ALL] = "all: alone on its host",
    };

    return (unsigned)why < sizeof texts / sizeof *texts ? texts[why] : "?";
}
