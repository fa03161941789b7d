/* A described machine, as text and as JSON. The JSON is a valid description. */
#include "tools/topo/topo.h"

#include <string.h>

void topo_count(uint64_t n, char out[32])
{
    char digits[24];
    size_t k = 0;
    const int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);

    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = '\0';
}

void topo_rate(double bytes_per_s, char out[32])
{
    const double gbit_s = bytes_per_s * 8 / 1e9;

    if (gbit_s <= 0)
        strcpy(out, "unknown");
    else if (gbit_s >= 1e6)
        snprintf(out, 32, "%.4g Pbit/s", gbit_s / 1e6);
    else if (gbit_s >= 1000)
        snprintf(out, 32, "%.4g Tbit/s", gbit_s / 1000);
    else if (gbit_s >= 1)
        snprintf(out, 32, "%.4g Gbit/s", gbit_s);
    else
        snprintf(out, 32, "%.4g Mbit/s", gbit_s * 1000);
}

void topo_latency(uint64_t ns, char out[32])
{
    if (ns == 0)
        strcpy(out, "unknown");
    else if (ns < 1000)
        snprintf(out, 32, "%llu ns", (unsigned long long)ns);
    else if (ns < 1000000)
        snprintf(out, 32, "%.4g us", (double)ns / 1e3);
    else
        snprintf(out, 32, "%.4g ms", (double)ns / 1e6);
}

/* Rounds to six significant digits, which suffice for measurements. */
static struct json_object *real_json(double v)
{
    struct json_object *o = json_object_new_double(v);

    json_object_set_serializer(o, json_object_double_to_json_string, (void *)(uintptr_t) "%.6g",
                               NULL);
    return o;
}

struct json_object *topo_link_json(const struct tt_topo_link *l, bool above)
{
    struct json_object *o = json_object_new_object();

    if (l->latency_ns)
        json_object_object_add(o, "latency_ns", json_object_new_int64((int64_t)l->latency_ns));
    if (l->bytes_per_s > 0)
        json_object_object_add(o, "gbit_s", real_json(l->bytes_per_s * 8 / 1e9));
    if (above)
        json_object_object_add(o, "oversubscription", real_json(l->oversubscription));
    return o;
}

static struct json_object *rules_json(const struct tt_topo *t)
{
    struct json_object *all = json_object_new_array();

    for (uint32_t i = 0; i < t->nrules; i++) {
        struct json_object *o = json_object_new_object();

        json_object_object_add(o, "host", json_object_new_string(t->rules[i].host));
        if (t->rules[i].slots)
            json_object_object_add(o, "slots", json_object_new_int64(t->rules[i].slots));
        for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
            if (t->rules[i].label[d][0])
                json_object_object_add(o, tt_distance_name((enum tt_distance)d),
                                       json_object_new_string(t->rules[i].label[d]));
        json_object_array_add(all, o);
    }
    return all;
}

static struct json_object *shape_json(const struct tt_topo *t)
{
    const struct {
        const char *key;
        uint32_t value;
    } shape[] = {
        { "ranks_per_host", t->host_ranks },         { "sockets_per_host", t->host_sockets },
        { "hosts_per_rack", t->rack_hosts },         { "racks_per_zone", t->zone_racks },
        { "zones_per_building", t->building_zones }, { "buildings", t->buildings }
    };
    struct json_object *o = json_object_new_object();

    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        json_object_object_add(o, shape[i].key, json_object_new_int64(shape[i].value));
    return o;
}

struct json_object *topo_machine_json(const struct tt_topo *t)
{
    struct json_object *o = json_object_new_object(), *links = json_object_new_object();

    json_object_object_add(o, "name", json_object_new_string(t->name));
    json_object_object_add(o, "node",
                           json_object_new_string(t->node == TT_NODE_MESH ? "mesh" : "sockets"));
    json_object_object_add(o, "rails", json_object_new_int64(t->nrails));
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++)
        if (t->link[d].latency_ns || t->link[d].bytes_per_s > 0 || t->link[d].oversubscription > 1)
            json_object_object_add(links, tt_distance_name((enum tt_distance)d),
                                   topo_link_json(&t->link[d], d > TT_NEAR_RACK));
    json_object_object_add(o, "links", links);
    if (t->has_shape)
        json_object_object_add(o, "machine", shape_json(t));
    if (t->nrules)
        json_object_object_add(o, "hosts", rules_json(t));
    return o;
}

/* Whether some ranks of the machine are at distance d. */
static bool spans(const struct tt_topo *t, int d)
{
    const uint32_t below =
        d > TT_NEAR_SOCKET ? tt_topo_group_ranks(t, (enum tt_distance)(d - 1)) : 1;

    return t->has_shape && d < TT_NEAR_WAN && tt_topo_group_ranks(t, (enum tt_distance)d) > below;
}

static void print_links(const struct tt_topo *t)
{
    printf("\n  %-10s %12s %12s %14s %16s\n", "distance", "ranks", "latency", "rate",
           "subgroup uplink");
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        const struct tt_topo_link *l = &t->link[d];
        char ranks[32] = "", latency[32], rate[32], uplink[32] = "", over[48] = "";

        if (l->latency_ns == 0 && l->bytes_per_s <= 0 && !spans(t, d))
            continue;
        if (d < TT_NEAR_WAN && t->has_shape)
            topo_count(tt_topo_group_ranks(t, (enum tt_distance)d), ranks);
        topo_latency(l->latency_ns, latency);
        topo_rate(l->bytes_per_s, rate);
        if (d > TT_NEAR_RACK && l->bytes_per_s <= 0)
            strcpy(rate, "rail rate");
        if (d > TT_NEAR_RACK && t->has_shape)
            topo_rate(tt_topo_uplink(t, (enum tt_distance)d), uplink);
        if (l->oversubscription > 1)
            snprintf(over, sizeof over, "  over-subscribed 1:%.4g", l->oversubscription);
        printf("  %-10s %12s %12s %14s %16s%s\n", tt_distance_name((enum tt_distance)d), ranks,
               latency, rate, uplink, over);
    }
}

void topo_machine_print(const struct tt_topo *t)
{
    char ranks[32];

    printf("%s\n", t->name);
    if (t->has_shape) {
        topo_count(tt_topo_nranks(t), ranks);
        printf("  %s ranks; per host %u, sockets %u (%s), rails %u; hosts per rack %u, racks per "
               "zone %u, zones per building %u, buildings %u\n",
               ranks, t->host_ranks, t->host_sockets,
               t->node == TT_NODE_MESH ? "one link per pair of ranks"
                                       : "one link per pair of sockets",
               t->nrails, t->rack_hosts, t->zone_racks, t->building_zones, t->buildings);
    }
    print_links(t);
    if (t->nrules)
        printf("\n  hosts\n");
    for (uint32_t i = 0; i < t->nrules; i++) {
        printf("    %-24s", t->rules[i].host);
        for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
            if (t->rules[i].label[d][0])
                printf(" %s=%s", tt_distance_name((enum tt_distance)d), t->rules[i].label[d]);
        if (t->rules[i].slots)
            printf(" slots=%u", t->rules[i].slots);
        printf("\n");
    }
}
