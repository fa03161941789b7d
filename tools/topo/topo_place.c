/* tutti topo place: orders hosts, for `tutti run --hostfile`, so that groups of ranks stay
 * together. */
#include "tools/topo/topo.h"

#include <stdlib.h>
#include <string.h>
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "tools/run/run_place.h"
#include "topo/order.h"

struct options {
    const char *topo, *hosts, *hostfile;
    uint32_t nranks;
    struct tt_order_rule rules[TT_ORDER_RULES_MAX];
    uint32_t nrules;
    bool group_open;            /* a --group still lacks its --within */
    bool reorder;
};

static void take_within(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;
    enum tt_distance d = TT_NEAR_SELF;

    if (!o->group_open)
        argp_error(state, "--within %s: no preceding --group", arg);
    if (!tt_distance_parse(arg, &d) || d < TT_NEAR_HOST || d >= TT_NEAR_WAN)
        argp_error(state, "--within %s: must be host, rack, zone, building or fabric", arg);
    o->rules[o->nrules++].within = d;
    o->group_open = false;
}

static void take_group(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    if (o->group_open || o->nrules == TT_ORDER_RULES_MAX)
        argp_error(state, "--group %s: %s", arg,
                   o->group_open ? "the preceding --group has no --within" : "too many groups");
    o->rules[o->nrules].ranks = (uint32_t)option_number(state, "--group", arg, 1, RANKS_MAX);
    o->group_open = true;
}

static void check_options(void *options, struct argp_state *state)
{
    struct options *o = options;

    if (o->group_open)
        argp_error(state, "--group %u has no --within", o->rules[o->nrules].ranks);
    if (o->hosts && o->hostfile)
        argp_error(state, "conflicting options: --hosts excludes --hostfile");
}

static const struct option_row option_rows[] = {
    { "ranks", 'n', "N", 0, OPTION_INTEGER(struct options, nranks, 1, RANKS_MAX),
      "number of ranks (default: the number of slots)" },
    { "hosts", 0, "LIST", 0, OPTION_TEXT(struct options, hosts),
      "hosts in their order, each with its number of slots: a:4,b:4" },
    { "hostfile", 0, "FILE", 0, OPTION_TEXT(struct options, hostfile),
      "hosts as in --hosts, from a file with lines \"host slots=4\"" },
    { "topo", 0, "NAME|FILE", 0, OPTION_TEXT(struct options, topo),
      "topology description with labels of the hosts (default: TUTTI_TOPO). Without --hosts and "
      "--hostfile, the hosts are the entries of the description without wildcards" },
    { "group", 0, "G", 1, OPTION_CALL(take_group),
      "place each group of G consecutive ranks (from rank 0) within a single host, rack, ... (the "
      "LEVEL of --within)" },
    { "within", 0, "LEVEL", 1, OPTION_CALL(take_within),
      "LEVEL of the preceding --group: host, rack, zone, building or fabric. Both options may be "
      "repeated, as a pair" },
    { "reorder", 0, NULL, 1, OPTION_FLAG(struct options, reorder),
      "allow a different order of the hosts. Without this option, the command fails if the given "
      "order does not satisfy --group" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .check = check_options,
    .doc =
        "Orders hosts so that groups of consecutive ranks stay together.\vPrints a host file for "
        "`tutti run --hostfile`.\n\n"
        "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti topo place --topo lab.json --group 8 --within rack > placed\n",
};

/* Lists the hosts of the options, or else of the description. */
static bool list_hosts(const struct options *o, const struct tt_topo *t, struct hosts *out)
{
    char *list = NULL;
    size_t bytes;
    bool ok;
    FILE *f;

    if (o->hosts)
        return hosts_parse(out, "tutti topo place", o->hosts);
    if (o->hostfile)
        return hosts_read(out, "tutti topo place", o->hostfile);
    f = open_memstream(&list, &bytes);
    for (uint32_t i = 0; f && t && i < t->nrules; i++)
        if (!strpbrk(t->rules[i].host, "*?"))
            fprintf(f, "%s%s", ftell(f) ? "," : "", t->rules[i].host);
    if (f)
        fclose(f);
    ok = list && *list && hosts_parse(out, "tutti topo place", list);
    if (!ok && !(list && *list))
        fprintf(stderr, "tutti topo place: no hosts given (use --hosts, --hostfile, or --topo with "
                        "a description of hosts)\n");
    free(list);
    return ok;
}

static bool find_slots(struct hosts *h, const struct tt_topo *t)
{
    struct tt_pattern_stars stars;

    for (uint32_t i = 0; i < h->n; i++) {
        for (uint32_t k = 0; t && k < t->nrules && h->at[i].slots == 0; k++)
            if (tt_pattern_match(t->rules[k].host, h->at[i].name, &stars)) {
                h->at[i].slots = t->rules[k].slots;
                break;
            }
        if (h->at[i].slots == 0 && t && t->has_shape)
            h->at[i].slots = t->host_ranks;
        if (h->at[i].slots == 0) {
            fprintf(stderr,
                    "tutti topo place: no slots given for host %s (use \"%s:4\", or \"slots\" in "
                    "the description)\n",
                    h->at[i].name, h->at[i].name);
            return false;
        }
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(h->at[k].name, h->at[i].name) == 0) {
                fprintf(stderr, "tutti topo place: duplicate host %s\n", h->at[i].name);
                return false;
            }
    }
    return true;
}

/* Finds the groups of hosts at each level, as for ranks. False, after an error message: out of
 * memory, or no host has a label for the level of a rule. */
static bool find_groups(const struct options *o, const struct tt_topo *t, const struct hosts *h,
                        struct tt_order_host *out)
{
    struct tt_rank_location *places = calloc(h->n, sizeof *places);
    bool told[TT_NEAR_WAN] = { [TT_NEAR_HOST] = true };
    struct tt_layout l;

    for (uint32_t i = 0; places && i < h->n; i++) {
        struct tt_labels labels = { 0 };

        if (t)
            tt_labels_of(&labels, t, h->at[i].name);
        for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
            told[d] |= *labels.label[d] != '\0';
        tt_rank_location_init(&places[i], i, TT_UNKNOWN, 0, (struct tt_rails_near){ 0 }, &labels,
                              TT_NODE_MESH);
    }
    for (uint32_t i = 0; i < o->nrules; i++)
        if (!told[o->rules[i].within]) {
            fprintf(stderr,
                    "tutti topo place: no host has a label for \"%s\" (use --topo with a "
                    "description that contains labels)\n",
                    tt_distance_name(o->rules[i].within));
            free(places);
            return false;
        }
    if (!places || !tt_layout_derive(&l, places, h->n)) {
        fprintf(stderr, "tutti topo place: out of memory for %u hosts\n", h->n);
        free(places);
        return false;
    }
    for (uint32_t i = 0; i < h->n; i++) {
        out[i] = (struct tt_order_host){ .name = h->at[i].name, .slots = h->at[i].slots };
        for (int d = TT_NEAR_HOST; d < TT_NEAR_WAN; d++)
            out[i].group[d] = tt_layout_group(&l, i, (enum tt_distance)d);
    }
    tt_layout_fini(&l);
    free(places);
    return true;
}

static void print_hosts(const struct tt_topo *t, const struct tt_order_host *hosts,
                        const uint32_t *order, const uint32_t *take, uint32_t used)
{
    uint32_t rank = 0;

    for (uint32_t i = 0; i < used; i++) {
        printf("%s slots=%u    # ranks %u to %u", hosts[order[i]].name, take[i], rank,
               rank + take[i] - 1);
        for (int d = TT_NEAR_RACK; t && d < TT_NEAR_WAN; d++) {
            char label[TT_TOPO_LABEL_BYTES];

            tt_topo_label(t, hosts[order[i]].name, (enum tt_distance)d, label);
            if (*label)
                printf(" %s=%s", tt_distance_name((enum tt_distance)d), label);
        }
        printf("\n");
        rank += take[i];
    }
}

static int place(const struct options *o, const struct tt_topo *t, struct hosts *h)
{
    struct tt_order_host *hosts = calloc(h->n + 1, sizeof *hosts);
    uint32_t *order = calloc(h->n + 1, sizeof *order), *take = calloc(h->n + 1, sizeof *take),
             used = 0;
    uint64_t nranks = o->nranks;
    bool ok = hosts && order && take && find_slots(h, t) && find_groups(o, t, h, hosts);

    for (uint32_t i = 0; ok && !o->nranks && i < h->n; i++)
        nranks += h->at[i].slots;
    ok = ok && nranks <= UINT32_MAX &&
         tt_order_ranks(hosts, h->n, (uint32_t)nranks, o->rules, o->nrules, o->reorder, order, take,
                        &used) == TUTTI_OK;
    if (ok)
        print_hosts(t, hosts, order, take, used);
    free(hosts);
    free(order);
    free(take);
    return ok ? 0 : 1;
}

int topo_place_main(int argc, char **argv)
{
    struct options o = { .topo = NULL };
    struct hosts h = { .at = NULL };
    struct tt_topo t = { 0 };
    int rc = 1;

    command_line_read(&command, &o, argc, argv);
    if (!o.topo)
        o.topo = getenv("TUTTI_TOPO");
    if (o.topo && *o.topo == '\0')
        o.topo = NULL;
    if (o.topo && tt_topo_load(&t, o.topo) != TUTTI_OK)
        return 1;
    if (list_hosts(&o, o.topo ? &t : NULL, &h))
        rc = place(&o, o.topo ? &t : NULL, &h);
    free(h.at);
    tt_topo_fini(&t);
    return rc;
}
