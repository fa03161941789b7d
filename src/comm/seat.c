#include "comm/seat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "wire/ifaddr.h"

static tutti_status read_labels(struct tt_labels *out, enum tt_node_kind *node)
{
    const char *file = getenv("TUTTI_TOPO"), *text = getenv("TUTTI_TOPO_LABELS");
    char host[256] = "";
    struct tt_topo t;
    tutti_status st;
    size_t bad_at;

    *out = (struct tt_labels){ 0 };
    *node = TT_NODE_MESH;
    if (file && *file) {
        st = tt_topo_load(&t, file);
        if (st)
            return st;
        gethostname(host, sizeof host - 1);
        tt_labels_of(out, &t, host);
        *node = t.node;
        tt_topo_fini(&t);
    }
    if (text && !tt_labels_parse(out, text, &bad_at))
        return tt_fail(TUTTI_ERR_INVALID, "TUTTI_TOPO_LABELS is \"%s\", which is not understood from \"%s\" on; it must be like \"rack=r1,zone=a\" "
                       "(rack, zone, building, fabric)", text, text + bad_at);
    return TUTTI_OK;
}

/* The buses are asked only where there are several rails to choose from. */
static int look_around(const char *interfaces, struct tt_rails *rails)
{
    struct tt_machine *m = calloc(1, sizeof *m);
    int socket = TT_UNKNOWN;
    cpu_set_t own;

    *rails = (struct tt_rails){ .n = 0 };
    if (!m)
        return TT_UNKNOWN;
    m->nnics = tt_nics_list(m->nic, TT_NICS_MAX);
    tt_rails_find(rails, m->nic, m->nnics, tt_ifaddr_allows, interfaces);
    if (tt_machine_discover(m, rails->n > 1 ? TT_DISCOVER_ALL : TT_DISCOVER_CPUS) == TUTTI_OK) {
        tt_rails_find(rails, m->nic, m->nnics, tt_ifaddr_allows, interfaces);
        if (sched_getaffinity(0, sizeof own, &own) == 0)
            socket = tt_machine_socket(m, &own);
    }
    free(m);
    return socket;
}

tutti_status tt_seat_find(const char *interfaces, struct tt_rails *rails, struct tt_told *place)
{
    struct tt_labels labels;
    enum tt_node_kind node;
    const tutti_status st = read_labels(&labels, &node);
    int socket;

    if (st)
        return st;
    socket = look_around(interfaces, rails);
    tt_told_init(place, tt_host_hash(), socket, rails, &labels, node);
    for (uint32_t i = 0; i < rails->n; i++)
        tt_log(TT_LOG_DEBUG, "rail %u is %s (socket %d)", i, rails->rail[i].name, rails->rail[i].socket);
    return TUTTI_OK;
}
