#include "comm/seat.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "wire/ifaddr.h"

/* What is told of this host, and of what joins hosts. */
static tutti_status read_description(struct tt_surroundings *out, uint8_t *node)
{
    const char *file = getenv("TUTTI_TOPO"), *text = getenv("TUTTI_TOPO_LABELS");
    char host[256] = "";
    struct tt_topo t;
    tutti_status st;
    size_t bad_at;

    out->labels = (struct tt_labels){ 0 };
    for (int d = 0; d < TT_DISTANCES; d++)
        out->links[d] = (struct tt_topo_link){ .oversubscription = 1 };
    *node = TT_NODE_AS_FOUND;
    if (file && *file) {
        st = tt_topo_load(&t, file);
        if (st)
            return st;
        gethostname(host, sizeof host - 1);
        tt_labels_of(&out->labels, &t, host);
        memcpy(out->links, t.link, sizeof out->links);
        if (t.node_told)
            *node = (uint8_t)t.node;
        tt_topo_fini(&t);
    }
    if (text && !tt_labels_parse(&out->labels, text, &bad_at))
        return tt_fail(
            TUTTI_ERR_INVALID,
            "TUTTI_TOPO_LABELS is \"%s\", which is not understood from \"%s\" on; it must be like \"rack=r1,zone=a\" "
            "(rack, zone, building, fabric)",
            text, text + bad_at);
    return TUTTI_OK;
}

/* Which of several rails is near takes hwloc to tell, and so much time that nobody pays it who has no choice. */
static int find_nearness(const char *interfaces, const cpu_set_t *own, struct tt_rails *rails)
{
    struct tt_machine *m = malloc(sizeof *m);
    int socket = TT_UNKNOWN;

    if (m && tt_machine_discover(m) == TUTTI_OK) {
        tt_rails_find(rails, m->nic, m->nnics, tt_ifaddr_allows, interfaces);
        socket = tt_machine_socket(m, own);
    }
    free(m);
    return socket;
}

/* The rails; returns our socket. */
static int look_around(const char *interfaces, struct tt_rails *rails)
{
    struct tt_nic nics[TT_NICS_MAX];
    const uint32_t nnics = tt_nics_list(nics, TT_NICS_MAX);
    cpu_set_t own;

    tt_rails_find(rails, nics, nnics, tt_ifaddr_allows, interfaces);
    if (sched_getaffinity(0, sizeof own, &own) != 0)
        CPU_ZERO(&own);
    return rails->n > 1 ? find_nearness(interfaces, &own, rails) : tt_socket_of(&own);
}

tutti_status tt_seat_find(const char *interfaces, struct tt_surroundings *out, struct tt_told *place)
{
    struct tt_rails *rails = &out->rails;
    uint8_t node;
    const tutti_status st = read_description(out, &node);
    int socket;

    if (st)
        return st;
    socket = look_around(interfaces, rails);
    tt_told_init(place, tt_host_hash(), socket, rails, &out->labels, node);
    for (uint32_t i = 0; i < rails->n; i++)
        tt_log(TT_LOG_DEBUG, "rail %u is %s (socket %d)", i, rails->rail[i].name, rails->rail[i].socket);
    return TUTTI_OK;
}
