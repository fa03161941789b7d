/* This host and the placement of ranks on it: the N ranks of --ranks, or those of the current
 * job. */
#include "tools/topo/topo.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "base/host.h"
#include "comm/comm.h"
#include "comm/surroundings.h"
#include "tools/perf/perf_launch.h"
#include "tools/run/run_bind.h"
#include "tutti/tutti.h"
#include "wire/ifaddr.h"

static bool read_labels(struct topo_here *h, const struct tt_topo *description)
{
    const char *text = getenv("TUTTI_TOPO_LABELS");
    size_t bad_at;

    if (description)
        tt_labels_of(&h->labels, description, h->machine.host);
    if (!text || tt_labels_parse(&h->labels, text, &bad_at))
        return true;
    fprintf(stderr,
            "tutti topo: invalid TUTTI_TOPO_LABELS \"%s\" (at \"%s\"): must be like "
            "\"rack=r1,zone=a\"\n",
            text, text + bad_at);
    return false;
}

/* Describes a rank that may use the CPUs of the set (NULL: not bound, or unknown). `ours`: it uses
 * the GPU of this process. */
static void describe_rank(const struct topo_here *h, const cpu_set_t *set, bool ours,
                          enum tt_node_kind node, struct topo_rank *out)
{
    struct tt_surroundings_seat_found seat = { .socket = TT_UNKNOWN };

    memset(out, 0, sizeof *out);
    if (set && ours) {
        tt_surroundings_seat_of(&h->machine, &h->rails, set, &seat);
    } else if (set) {
        seat.socket = tt_machine_socket(&h->machine, set);
        seat.near =
            tt_rails_nearest(&h->rails, seat.socket, tt_machine_numa(&h->machine, set), NULL);
    }
    tt_rank_location_init(&out->place, tt_host_hash(), seat.socket, h->rails.n, seat.near,
                          &h->labels, node);
    snprintf(out->host, sizeof out->host, "%.63s", h->machine.host);
    memcpy(out->gpu, seat.gpu, sizeof out->gpu);
    if (set)
        tt_cpus_print(set, out->cpus, sizeof out->cpus);
    for (uint32_t i = 0; i < h->rails.n; i++)
        strcpy(out->rail[i], h->rails.rail[i].name);
    out->labels = h->labels;
}

/* Assumes ranks bound as by `tutti run`. Unbound ranks may use the CPUs of this process. */
static void assume_ranks(struct topo_here *h, enum tt_node_kind node)
{
    for (uint32_t i = 0; i < h->nranks; i++) {
        cpu_set_t set;
        const bool known = bind_mask(BIND_SHARE, i, h->nranks, &set) ||
                           sched_getaffinity(0, sizeof set, &set) == 0;

        describe_rank(h, known ? &set : NULL, false, node, &h->ranks[i]);
    }
}

static void out_of_memory(uint32_t nranks)
{
    fprintf(stderr, "tutti topo: out of memory for the layout of %u rank%s\n", nranks,
            TT_PLURAL(nranks));
}

/* Gathers the ranks of the job. Returns false after an error message. */
static bool gather_ranks(struct topo_here *h, enum tt_node_kind node)
{
    const struct tt_world *w;
    struct topo_rank mine;
    tutti_comm *comm;
    cpu_set_t set;
    const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    bool ok;

    if (tutti_comm_create(&comm, NULL) != TUTTI_OK)
        return false;
    w = comm->world;
    h->rank = w->rank;
    h->labels = w->here.labels;
    memcpy(h->links, w->here.links, sizeof h->links);
    h->measured = w->measures == TT_MEASURE_ALL;
    h->labelled = w->labelled;
    h->between = w->between;
    h->between.groups = NULL;
    h->between.core_ns = NULL;
    describe_rank(h, known ? &set : NULL, true, node, &mine);
    h->nranks = (uint32_t)tutti_comm_size(comm);
    h->ranks = calloc(h->nranks, sizeof *h->ranks);
    if (!h->ranks)
        out_of_memory(h->nranks);
    ok =
        h->ranks && tutti_allgather(&mine, h->ranks, sizeof mine, TUTTI_U8, comm, NULL) == TUTTI_OK;
    tutti_comm_destroy(comm);
    return ok;
}

bool topo_here_find(struct topo_here *out, const struct tt_topo *description, uint32_t nranks,
                    bool measure)
{
    const enum tt_node_kind node = description ? description->node : TT_NODE_MESH;
    struct topo_here *h = out;
    bool ok = true;

    *h = (struct topo_here){ .nranks = nranks, .in_job = nranks == 0 && perf_job_ranks() > 0 };
    if (measure)
        setenv("TUTTI_TOPO_MEASURE", "1", 1);
    if (tt_machine_discover(&h->machine) != TUTTI_OK || !read_labels(h, description))
        return false;
    tt_rails_find(&h->rails, h->machine.nic, h->machine.nnics, tt_ifaddr_allows,
                  getenv("TUTTI_INTERFACES"));
    if (h->in_job) {
        ok = gather_ranks(h, node);
    } else if (nranks) {
        h->ranks = calloc(nranks, sizeof *h->ranks);
        ok = h->ranks;
        if (ok)
            assume_ranks(h, node);
        else
            out_of_memory(nranks);
    }
    if (ok && h->nranks) {
        struct tt_rank_location *places = calloc(h->nranks, sizeof *places);

        for (uint32_t r = 0; places && r < h->nranks; r++)
            places[r] = h->ranks[r].place;
        ok = places && tt_layout_derive(&h->layout, places, h->nranks);
        free(places);
        if (!ok)
            out_of_memory(h->nranks);
    }
    if (!ok)
        topo_here_free(h);
    return ok;
}

void topo_here_free(struct topo_here *h)
{
    free(h->ranks);
    h->ranks = NULL;
    tt_layout_fini(&h->layout);
}

uint32_t topo_rail_of(const struct topo_here *h, uint32_t rank, const char **name,
                      enum tt_rail_why *why)
{
    const struct tt_layout *l = &h->layout;
    const uint32_t host = tt_layout_host(l, rank), n = tt_layout_host_ranks(l, host);
    const struct topo_rank *first = &h->ranks[tt_layout_rank(l, host, 0)];
    const uint32_t rail = tt_layout_rail(l, rank);

    *why = tt_rail_why(h->ranks[rank].place.near, n, first->place.nrails);
    *name = first->place.nrails ? first->rail[rail] : "none";
    return rail;
}

/* ---- JSON; unknown values are null ---- */

static struct json_object *number(int64_t v, bool known)
{
    return known ? json_object_new_int64(v) : NULL;
}

static struct json_object *nics_json(const struct topo_here *h)
{
    struct json_object *all = json_object_new_array();

    for (uint32_t i = 0; i < h->machine.nnics; i++) {
        const struct tt_nic *n = &h->machine.nic[i];
        struct json_object *o = json_object_new_object();
        bool rail = false;

        for (uint32_t k = 0; k < h->rails.n; k++)
            rail |= strcmp(h->rails.rail[k].name, n->name) == 0;
        json_object_object_add(o, "name", json_object_new_string(n->name));
        json_object_object_add(o, "rail", json_object_new_boolean(rail));
        json_object_object_add(o, "up", json_object_new_boolean(n->up));
        json_object_object_add(o, "socket", number(n->socket, n->socket != TT_UNKNOWN));
        json_object_object_add(o, "numa", number(n->numa, n->numa != TT_UNKNOWN));
        json_object_object_add(o, "bit_s", number(n->bit_s, n->bit_s > 0));
        json_object_array_add(all, o);
    }
    return all;
}

static struct json_object *gpus_json(const struct tt_machine *m)
{
    struct json_object *all = json_object_new_array();

    for (uint32_t i = 0; i < m->ngpus; i++) {
        struct json_object *o = json_object_new_object();

        json_object_object_add(o, "bus", json_object_new_string(m->gpu[i].bus));
        json_object_object_add(o, "name",
                               *m->gpu[i].name ? json_object_new_string(m->gpu[i].name) : NULL);
        json_object_object_add(o, "socket",
                               number(m->gpu[i].socket, m->gpu[i].socket != TT_UNKNOWN));
        json_object_object_add(o, "numa", number(m->gpu[i].numa, m->gpu[i].numa != TT_UNKNOWN));
        json_object_array_add(all, o);
    }
    return all;
}

static struct json_object *ranks_json(const struct topo_here *h)
{
    struct json_object *all = json_object_new_array();

    for (uint32_t r = 0; r < h->nranks; r++) {
        const struct topo_rank *k = &h->ranks[r];
        struct json_object *o = json_object_new_object();
        enum tt_rail_why why;
        const char *name;

        topo_rail_of(h, r, &name, &why);
        json_object_object_add(o, "rank", json_object_new_int64(r));
        json_object_object_add(o, "host", json_object_new_string(k->host));
        json_object_object_add(o, "host_number",
                               json_object_new_int64(tt_layout_host(&h->layout, r)));
        json_object_object_add(o, "socket", number(k->place.socket, k->place.socket != TT_UNKNOWN));
        json_object_object_add(o, "cpus", *k->cpus ? json_object_new_string(k->cpus) : NULL);
        json_object_object_add(o, "gpu", *k->gpu ? json_object_new_string(k->gpu) : NULL);
        json_object_object_add(o, "rail",
                               json_object_new_string(why == TT_RAIL_ALL ? "all" : name));
        json_object_object_add(o, "why", json_object_new_string(tt_rail_why_text(why)));
        json_object_array_add(all, o);
    }
    return all;
}

struct json_object *topo_here_json(const struct topo_here *h)
{
    const struct tt_machine *m = &h->machine;
    struct json_object *o = json_object_new_object(), *labels = json_object_new_object();

    json_object_object_add(o, "host", json_object_new_string(m->host));
    json_object_object_add(o, "sockets", number(m->nsockets, m->nsockets > 0));
    json_object_object_add(o, "cores", number(m->ncores, m->ncores > 0));
    json_object_object_add(o, "cpus", number(m->ncpus, m->ncpus > 0));
    json_object_object_add(o, "numa_nodes", number(m->nnuma, m->nnuma > 0));
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
        json_object_object_add(labels, tt_distance_name((enum tt_distance)d),
                               *h->labels.label[d] ? json_object_new_string(h->labels.label[d])
                                                   : NULL);
    json_object_object_add(o, "labels", labels);
    json_object_object_add(o, "nics", nics_json(h));
    json_object_object_add(o, "gpus", gpus_json(m));
    if (h->nranks)
        json_object_object_add(o, "ranks", ranks_json(h));
    if (h->in_job)
        topo_levels_json(h, o);
    return o;
}

/* ---- text ---- */

static const char *count_or_unknown(uint32_t n, char out[32])
{
    snprintf(out, 32, n ? "%u" : "unknown", n);
    return out;
}

static const char *socket_text(int socket, char out[32])
{
    snprintf(out, 32, socket == TT_UNKNOWN ? "socket unknown" : "socket %d", socket);
    return out;
}

static void print_nics(const struct topo_here *h)
{
    printf("\nnetwork interfaces\n");
    for (uint32_t i = 0; i < h->machine.nnics; i++) {
        const struct tt_nic *n = &h->machine.nic[i];
        char what[32], rate[32], socket[32];
        uint32_t rail = 0;

        while (rail < h->rails.n && strcmp(h->rails.rail[rail].name, n->name) != 0)
            rail++;
        snprintf(what, sizeof what, "rail %u", rail);
        topo_rate((double)n->bit_s / 8, rate);
        printf("  %-16s %-10s %-14s %-16s%s\n", n->name,
               n->loopback         ? "loopback"
               : rail < h->rails.n ? what
                                   : "no rail",
               n->loopback ? "" : rate, n->loopback ? "" : socket_text(n->socket, socket),
               n->up ? "" : " down");
    }
}

static void print_ranks(const struct topo_here *h)
{
    char text[160];

    tt_layout_describe(&h->layout, text, sizeof text);
    printf("\n%s%s\n", text, h->in_job ? "" : ", with the binding of tutti run");
    for (uint32_t r = 0; r < h->nranks; r++) {
        const struct topo_rank *k = &h->ranks[r];
        enum tt_rail_why why;
        const char *name;
        char socket[32];

        topo_rail_of(h, r, &name, &why);
        printf("  rank %-5u %-20s %-16s cpus %-10s %s%s%s%-10s (%s)\n", r, k->host,
               socket_text(k->place.socket, socket), *k->cpus ? k->cpus : "unknown",
               *k->gpu ? "GPU " : "", k->gpu, *k->gpu ? "  " : "",
               why == TT_RAIL_ALL ? "all rails" : name, tt_rail_why_text(why));
    }
}

void topo_here_print(const struct topo_here *h)
{
    const struct tt_machine *m = &h->machine;
    char a[32], b[32], c[32], d[32];
    bool labelled = false;

    printf("%s\n", m->host);
    printf("  sockets %s, cores %s, cpus %s, NUMA nodes %s\n", count_or_unknown(m->nsockets, a),
           count_or_unknown(m->ncores, b), count_or_unknown(m->ncpus, c),
           count_or_unknown(m->nnuma, d));
    printf("  labels");
    for (int i = TT_NEAR_RACK; i < TT_NEAR_WAN; i++)
        if (*h->labels.label[i]) {
            printf(" %s=%s", tt_distance_name((enum tt_distance)i), h->labels.label[i]);
            labelled = true;
        }
    printf("%s\n", labelled ? "" : " none (TUTTI_TOPO, TUTTI_TOPO_LABELS)");
    print_nics(h);
    printf("\nGPUs\n%s", m->ngpus ? "" : "  none found\n");
    for (uint32_t i = 0; i < m->ngpus; i++)
        printf("  %-16s %-16s %s\n", m->gpu[i].bus, socket_text(m->gpu[i].socket, a),
               m->gpu[i].name);
    if (h->nranks)
        print_ranks(h);
    if (h->in_job)
        topo_levels_print(h);
}
