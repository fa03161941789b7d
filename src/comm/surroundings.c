#include "comm/surroundings.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "wire/ifaddr.h"

/* Reads the given description of this host and of the links between hosts. */
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
    *node = TT_NODE_AUTOMATIC;
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
        return tt_fail(TUTTI_ERR_INVALID,
                       "invalid TUTTI_TOPO_LABELS \"%s\" (at \"%s\"): must be like "
                       "\"rack=r1,zone=a\" (rack, zone, "
                       "building, fabric)",
                       text, text + bad_at);
    return TUTTI_OK;
}

/* Returns the GPU assigned to this process: by its bus id, or the only one that its launcher makes
 * visible. HIP's indices refer to the GPUs that ROCR leaves visible. NULL: unknown. */
static const struct tt_gpu *find_gpu(const struct tt_machine *m)
{
    static const char *const visible[] = { "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                           "HIP_VISIBLE_DEVICES" };
    const char *order = getenv("CUDA_DEVICE_ORDER");
    int gpu = tt_machine_gpu(m, getenv("TUTTI_GPU"), NULL, false);

    for (size_t i = 0; i < sizeof visible / sizeof *visible && gpu == TT_UNKNOWN; i++)
        gpu = tt_machine_gpu(m, getenv("TUTTI_GPU"), getenv(visible[i]),
                             order && strcmp(order, "PCI_BUS_ID") == 0);
    if (gpu == TT_UNKNOWN && getenv("TUTTI_GPU") && *getenv("TUTTI_GPU"))
        tt_log(TT_LOG_WARN, "TUTTI_GPU \"%s\" is not a visible GPU of this host",
               getenv("TUTTI_GPU"));
    return gpu == TT_UNKNOWN ? NULL : &m->gpu[gpu];
}

void tt_surroundings_seat_of(const struct tt_machine *m, const struct tt_rails *rails,
                             const cpu_set_t *own, struct tt_surroundings_seat_found *out)
{
    const struct tt_gpu *gpu = find_gpu(m);

    *out = (struct tt_surroundings_seat_found){ .socket = tt_machine_socket(m, own) };
    out->near = tt_rails_nearest(rails, out->socket, tt_machine_numa(m, own), gpu);
    if (gpu)
        memcpy(out->gpu, gpu->bus, sizeof out->gpu);
}

/* Determines the nearest of several rails. This needs hwloc and takes time, so it is skipped if
 * there is only one. */
static void find_nearness(const char *interfaces, const cpu_set_t *own, struct tt_rails *rails,
                          struct tt_surroundings_seat_found *out)
{
    struct tt_machine *m = malloc(sizeof *m);

    if (m && tt_machine_discover(m) == TUTTI_OK) {
        tt_rails_find(rails, m->nic, m->nnics, tt_ifaddr_allows, interfaces);
        tt_surroundings_seat_of(m, rails, own, out);
    }
    free(m);
}

static void find_surroundings(const char *interfaces, struct tt_rails *rails,
                              struct tt_surroundings_seat_found *out)
{
    struct tt_nic nics[TT_NICS_MAX];
    const uint32_t nnics = tt_nics_list(nics, TT_NICS_MAX);
    cpu_set_t own;

    tt_rails_find(rails, nics, nnics, tt_ifaddr_allows, interfaces);
    if (sched_getaffinity(0, sizeof own, &own) != 0)
        CPU_ZERO(&own);
    *out = (struct tt_surroundings_seat_found){ .socket = TT_UNKNOWN };
    if (rails->n > 1)
        find_nearness(interfaces, &own, rails, out);
    else
        out->socket = tt_socket_of(&own);
}

/* Returns whether the text is a PCI address: "0000:3b:00.0", or without the domain. */
static bool is_bus(const char *text)
{
    unsigned domain, bus, device, function;
    char more;

    return sscanf(text, "%8x:%2x:%2x.%1x%c", &domain, &bus, &device, &function, &more) == 4 ||
           sscanf(text, "%2x:%2x.%1x%c", &bus, &device, &function, &more) == 3;
}

tutti_status tt_surroundings_seat_find(const char *interfaces, struct tt_surroundings *out,
                                       struct tt_rank_location *place)
{
    struct tt_rails *rails = &out->rails;
    uint8_t node;
    const tutti_status st = read_description(out, &node);
    const char *gpu = getenv("TUTTI_GPU");
    struct tt_surroundings_seat_found seat;

    if (st)
        return st;
    if (gpu && *gpu && !is_bus(gpu))
        return tt_fail(
            TUTTI_ERR_INVALID,
            "invalid TUTTI_GPU \"%s\": must be the PCI address of a GPU, like \"0000:3b:00.0\"",
            gpu);
    find_surroundings(interfaces, rails, &seat);
    tt_rank_location_init(place, tt_host_hash(), seat.socket, rails->n, seat.near, &out->labels,
                          node);
    for (uint32_t i = 0; i < rails->n; i++)
        tt_log(TT_LOG_DEBUG, "rail %u is %s (socket %d, NUMA node %d%s)", i, rails->rail[i].name,
               rails->rail[i].socket, rails->rail[i].numa, seat.near.set >> i & 1 ? ", near" : "");
    if (*seat.gpu)
        tt_log(TT_LOG_DEBUG, "the GPU is %s", seat.gpu);
    return TUTTI_OK;
}
