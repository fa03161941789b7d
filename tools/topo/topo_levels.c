/* The hosts of a job: their groups, the links between them, and their description for later
 * jobs. */
#include "tools/topo/topo.h"

#include <stdlib.h>
#include <string.h>
#include "base/prng.h"

static uint32_t host_group(const struct tt_layout *l, uint32_t host, int level)
{
    return tt_layout_group(l, tt_layout_rank(l, host, 0), (enum tt_distance)level);
}

/* Order of hosts: hosts of a group are adjacent; within a group, by rank. */
static const struct tt_layout *sorted_by;

static int by_groups(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    for (int level = TT_NEAR_WAN - 1; level >= TT_NEAR_HOST; level--) {
        const uint32_t gx = host_group(sorted_by, x, level), gy = host_group(sorted_by, y, level);

        if (gx != gy)
            return gx < gy ? -1 : 1;
    }
    return 0;
}

uint32_t *topo_hosts_sorted(const struct topo_here *h)
{
    uint32_t *hosts = calloc(h->layout.nhosts + 1u, sizeof *hosts);

    if (!hosts)
        abort();
    for (uint32_t i = 0; i < h->layout.nhosts; i++)
        hosts[i] = i;
    sorted_by = &h->layout;
    qsort(hosts, h->layout.nhosts, sizeof *hosts, by_groups);
    return hosts;
}

const struct topo_rank *topo_host_first(const struct topo_here *h, uint32_t host)
{
    return &h->ranks[tt_layout_rank(&h->layout, host, 0)];
}

bool topo_same_group(const struct topo_here *h, uint32_t a, uint32_t b, int level)
{
    return host_group(&h->layout, a, level) == host_group(&h->layout, b, level);
}

bool topo_level_joins(const struct topo_here *h, int level)
{
    return tt_layout_groups(&h->layout, (enum tt_distance)level) <
           tt_layout_groups(&h->layout, (enum tt_distance)(level - 1));
}

void topo_group_name(const struct topo_here *h, uint32_t host, int level, char out[96])
{
    const struct topo_rank *first = topo_host_first(h, host);

    if (*first->labels.label[level])
        snprintf(out, 96, "%s %s", tt_distance_name((enum tt_distance)level),
                 first->labels.label[level]);
    else
        snprintf(out, 96, "%s", tt_distance_name((enum tt_distance)level));
}

void topo_host_ranks_text(const struct topo_here *h, uint32_t host, char out[64])
{
    const struct tt_layout *l = &h->layout;
    const uint32_t n = tt_layout_host_ranks(l, host), first = tt_layout_rank(l, host, 0),
                   last = tt_layout_rank(l, host, n - 1);

    if (n == 1)
        snprintf(out, 64, "rank %u", first);
    else if (last - first == n - 1)
        snprintf(out, 64, "ranks %u to %u", first, last);
    else
        snprintf(out, 64, "%u ranks, %u to %u", n, first, last);
}

/* ---- hosts of a description ---- */

static bool is_named(const struct tt_topo_rule *r)
{
    return !strpbrk(r->host, "*?");
}

static uint32_t slots_of(const struct tt_topo_rule *r)
{
    return r->slots ? r->slots : 1;
}

/* Creates one rank per slot of the named hosts, with numbered rails. */
static void fill_ranks(struct topo_here *h, const struct tt_topo *t,
                       struct tt_rank_location *places)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->nrules; i++)
        for (uint32_t k = 0; is_named(&t->rules[i]) && k < slots_of(&t->rules[i]); k++, n++) {
            struct topo_rank *rank = &h->ranks[n];

            tt_labels_of(&rank->labels, t, t->rules[i].host);
            tt_rank_location_init(
                &rank->place, tt_hash_bytes(t->rules[i].host, strlen(t->rules[i].host), 0),
                TT_UNKNOWN, h->rails.n, (struct tt_rails_near){ 0 }, &rank->labels, t->node);
            strcpy(rank->host, t->rules[i].host);
            for (uint32_t r = 0; r < h->rails.n; r++)
                strcpy(rank->rail[r], h->rails.rail[r].name);
            places[n] = rank->place;
        }
}

bool topo_hosts_described(struct topo_here *out, const struct tt_topo *t)
{
    struct tt_rank_location *places;
    uint64_t nranks = 0;
    bool ok;

    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < t->nrules; i++)
        nranks += is_named(&t->rules[i]) ? slots_of(&t->rules[i]) : 0;
    if (nranks == 0 || nranks > TOPO_RANKS_MAX)
        return false;
    out->nranks = (uint32_t)nranks;
    memcpy(out->links, t->link, sizeof out->links);
    out->rails.n = t->nrails < TT_RAILS_MAX ? t->nrails : TT_RAILS_MAX;
    for (uint32_t r = 0; r < out->rails.n; r++) {
        snprintf(out->rails.rail[r].name, sizeof out->rails.rail[r].name, "rail %u", r);
        out->rails.rail[r].socket = out->rails.rail[r].numa = TT_UNKNOWN;
    }
    out->ranks = calloc(nranks, sizeof *out->ranks);
    places = calloc(nranks, sizeof *places);
    ok = out->ranks && places;
    if (ok) {
        fill_ranks(out, t, places);
        ok = tt_layout_derive(&out->layout, places, out->nranks);
    }
    free(places);
    if (!ok)
        topo_here_free(out);
    return ok;
}

/* ---- text ---- */

static void print_measured(const struct topo_here *h)
{
    const struct tt_levels *l = &h->between.levels;

    if (h->between.nhosts < 2) {
        printf("\none host, so no latencies between hosts were measured\n");
        return;
    }
    printf("\nlatencies between %u hosts: measured for %u pair%s in %.3g s\n", h->between.nhosts,
           h->between.npairs, h->between.npairs == 1 ? "" : "s", (double)h->between.took_ns / 1e9);
    for (uint32_t i = 0; i < l->n; i++) {
        char low[32], typical[32], high[32];

        topo_latency(l->level[i].least_ns, low);
        topo_latency(l->level[i].typical_ns, typical);
        topo_latency(l->level[i].most_ns, high);
        printf("  %4u pair%s %s (%s to %s): distance %s\n", l->level[i].npairs,
               l->level[i].npairs == 1 ? " " : "s", typical, low, high,
               tt_distance_name(l->level[i].distance));
    }
    if (l->n == 1 && h->between.nhosts > 2)
        printf("  all latencies are similar, so all hosts have the same distance\n");
    if (h->labelled && l->n)
        printf("  hosts have labels, which take precedence\n");
}

static void print_links(const struct topo_here *h)
{
    bool any = false;

    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        const struct tt_topo_link *l = &h->links[d];
        char latency[32], rate[32], over[48] = "";

        if (l->latency_ns == 0 && l->bytes_per_s <= 0 && l->oversubscription <= 1)
            continue;
        if (!any)
            printf("\n%-10s %12s %14s\n", "distance", "latency", "rate");
        any = true;
        topo_latency(l->latency_ns, latency);
        topo_rate(l->bytes_per_s, rate);
        if (l->oversubscription > 1)
            snprintf(over, sizeof over, "  over-subscribed 1:%.4g", l->oversubscription);
        printf("%-10s %12s %14s%s\n", tt_distance_name((enum tt_distance)d), latency,
               d > TT_NEAR_RACK && l->bytes_per_s <= 0 ? "rail rate" : rate, over);
    }
}

static void print_hosts(const struct topo_here *h)
{
    uint32_t *hosts = topo_hosts_sorted(h);

    printf("\nhosts\n");
    for (uint32_t i = 0; i < h->layout.nhosts; i++) {
        int depth = 1;
        char text[96];

        for (int level = TT_NEAR_WAN - 1; level >= TT_NEAR_RACK; level--) {
            if (!topo_level_joins(h, level))
                continue;
            if (i == 0 || !topo_same_group(h, hosts[i], hosts[i - 1], level)) {
                topo_group_name(h, hosts[i], level, text);
                printf("%*s%s\n", 2 * depth, "", text);
            }
            depth++;
        }
        topo_host_ranks_text(h, hosts[i], text);
        printf("%*s%-20s %s\n", 2 * depth, "", topo_host_first(h, hosts[i])->host, text);
    }
    free(hosts);
}

void topo_levels_print(const struct topo_here *h)
{
    if (h->layout.nhosts > 1)
        print_hosts(h);
    if (h->measured)
        print_measured(h);
    print_links(h);
}

/* ---- JSON ---- */

static struct json_object *labels_json(const struct tt_labels *labels)
{
    struct json_object *o = json_object_new_object();

    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
        if (*labels->label[d])
            json_object_object_add(o, tt_distance_name((enum tt_distance)d),
                                   json_object_new_string(labels->label[d]));
    return o;
}

static struct json_object *links_json(const struct topo_here *h)
{
    struct json_object *o = json_object_new_object();

    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++)
        if (h->links[d].latency_ns || h->links[d].bytes_per_s > 0 ||
            h->links[d].oversubscription > 1)
            json_object_object_add(o, tt_distance_name((enum tt_distance)d),
                                   topo_link_json(&h->links[d], d > TT_NEAR_RACK));
    return o;
}

static struct json_object *measured_json(const struct topo_here *h)
{
    struct json_object *o = json_object_new_object(), *all = json_object_new_array();

    json_object_object_add(o, "pairs", json_object_new_int64(h->between.npairs));
    json_object_object_add(o, "seconds", json_object_new_double((double)h->between.took_ns / 1e9));
    for (uint32_t i = 0; i < h->between.levels.n; i++) {
        const struct tt_level *l = &h->between.levels.level[i];
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, "distance",
                               json_object_new_string(tt_distance_name(l->distance)));
        json_object_object_add(one, "pairs", json_object_new_int64(l->npairs));
        json_object_object_add(one, "least_ns", json_object_new_int64(l->least_ns));
        json_object_object_add(one, "typical_ns", json_object_new_int64(l->typical_ns));
        json_object_object_add(one, "most_ns", json_object_new_int64(l->most_ns));
        json_object_array_add(all, one);
    }
    json_object_object_add(o, "levels", all);
    return o;
}

void topo_levels_json(const struct topo_here *h, struct json_object *out)
{
    struct json_object *hosts = json_object_new_array();

    for (uint32_t i = 0; i < h->layout.nhosts; i++) {
        struct json_object *o = json_object_new_object();

        json_object_object_add(o, "host", json_object_new_string(topo_host_first(h, i)->host));
        json_object_object_add(o, "ranks",
                               json_object_new_int64(tt_layout_host_ranks(&h->layout, i)));
        json_object_object_add(o, "labels", labels_json(&topo_host_first(h, i)->labels));
        json_object_array_add(hosts, o);
    }
    json_object_object_add(out, "hosts", hosts);
    json_object_object_add(out, "links", links_json(h));
    if (h->measured)
        json_object_object_add(out, "measured", measured_json(h));
}

/* ---- a description ---- */

static bool names_differ(const struct topo_here *h)
{
    for (uint32_t a = 0; a < h->layout.nhosts; a++)
        for (uint32_t b = 0; b < a; b++)
            if (strcmp(topo_host_first(h, a)->host, topo_host_first(h, b)->host) == 0) {
                fprintf(stderr,
                        "tutti topo: cannot write a description: two hosts have the name %s\n",
                        topo_host_first(h, a)->host);
                return false;
            }
    return true;
}

struct json_object *topo_levels_description(const struct topo_here *h)
{
    struct json_object *o = json_object_new_object(), *hosts = json_object_new_array();

    if (h->layout.nhosts > TT_TOPO_HOSTS_MAX)
        fprintf(stderr,
                "tutti topo: cannot write a description: too many hosts: %u (the maximum is %u; "
                "use patterns)\n",
                h->layout.nhosts, TT_TOPO_HOSTS_MAX);
    if (h->layout.nhosts > TT_TOPO_HOSTS_MAX || !names_differ(h)) {
        json_object_put(o);
        json_object_put(hosts);
        return NULL;
    }
    for (uint32_t i = 0; i < h->layout.nhosts; i++) {
        const struct topo_rank *first = topo_host_first(h, i);
        struct json_object *one = labels_json(&first->labels);

        json_object_object_add(one, "host", json_object_new_string(first->host));
        json_object_object_add(one, "slots",
                               json_object_new_int64(tt_layout_host_ranks(&h->layout, i)));
        json_object_array_add(hosts, one);
    }
    json_object_object_add(o, "about",
                           json_object_new_string(h->measured ? "measured by tutti topo --measure"
                                                              : "written by tutti topo --write"));
    json_object_object_add(
        o, "node", json_object_new_string(h->layout.node == TT_NODE_MESH ? "mesh" : "sockets"));
    json_object_object_add(o, "rails", json_object_new_int64(h->layout.nrails));
    json_object_object_add(o, "links", links_json(h));
    json_object_object_add(o, "hosts", hosts);
    return o;
}
