#include "tools/sim/sim_putsignal.h"

#include <stdlib.h>
#include "base/status.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "tools/perf/putsignal_options.h"

#define HOSTS_MAX 4096u
#define HOST_RANKS_MAX 64u

struct options {
    struct putsignal_options common;
    uint64_t hosts[PUTSIGNAL_LIST_MAX];
    uint32_t nhosts, host_ranks;
    uint64_t header_bytes;
    double latency_us, gbit_s, op_ns;
};

static void take_hosts(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->nhosts =
        option_list(state, "--hosts", arg, false, 2, 2, HOSTS_MAX, o->hosts, PUTSIGNAL_LIST_MAX);
}

static const struct option_row option_rows[] = {
    { "hosts", 0, "LIST", 2, OPTION_CALL(take_hosts),
      "numbers of hosts: 8, or 2..16 (doubling: 2, 4, 8, 16; default 2..16)" },
    { "nodes", 0, NULL, 2, { 0 }, NULL },
    { "ranks-per-host", 0, "N", 2, OPTION_INTEGER(struct options, host_ranks, 1, HOST_RANKS_MAX),
      "ranks per host, which share its link (default 4)" },
    { "per-node", 0, NULL, 2, { 0 }, NULL },
    { "latency-us", 0, "T", 2, OPTION_REAL(struct options, latency_us, 0, 1e7),
      "one-way latency between hosts, us (default 1000)" },
    { "gbit-s", 0, "R", 2, OPTION_REAL(struct options, gbit_s, 1e-6, 1e6),
      "rate of a host's link in each direction, Gbit/s (default 0.4)" },
    { "op-ns", 0, "T", 2, OPTION_REAL(struct options, op_ns, 0, 1e9),
      "time of the proxy per descriptor, ns (default 1000)" },
    { "header", 0, "SIZE", 2, OPTION_SIZE(struct options, header_bytes, 1),
      "header bytes per message; a signal is one header (default 64)" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .common = &putsignal_command_line,
    .common_at = offsetof(struct options, common),
    .doc =
        "Simulates bursts of puts with signals to other hosts through a CPU proxy, in each "
        "mode.\vColumns are those of `tutti perf putsignal`. The model includes the proxy's time "
        "per descriptor, links with a rate and a latency, and drains, which block until all sent "
        "data is acknowledged. docs/one-sided.md explains the modes.\n\n"
        "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti sim putsignal --hosts 2..16 --mode full\n",
};

static tutti_status run_mode(const struct options *o, const struct tt_putsignal_conf *conf,
                             double only_us, struct putsignal_row *row)
{
    const uint32_t nranks = conf->net->layout->nranks;
    struct tt_putsignal_result r;
    const tutti_status st = tt_putsignal_run(conf, &r);

    if (st)
        return st;
    *row = (struct putsignal_row){
        .c = { .nranks = nranks,
               .nhosts = nranks / o->host_ranks,
               .nsources = conf->senders,
               .ndestinations = (uint32_t)r.destinations,
               .transfers = conf->transfers,
               .group = conf->group,
               .bytes = conf->bytes },
        .mode = tt_putsignal_mode_name(conf->mode),
        .nrounds = 1,
        .us = { r.time_ns / 1e3 },
        .only_us = { conf->mode == TT_PUTSIGNAL_PUT_ONLY ? r.time_ns / 1e3 : only_us },
        .drains = (double)r.drains,
        .fences = (double)r.fences,
        .signals = (double)r.signals,
    };
    putsignal_print_row(stdout, row, o->common.json);
    return TUTTI_OK;
}

/* Runs all modes for one number of hosts, number of transfers and size. The first mode is
 * put-only. */
static tutti_status run_case(const struct options *o, struct tt_putsignal_conf *conf,
                             struct putsignal_row *rows, uint32_t *nrows)
{
    tutti_status st = TUTTI_OK;
    double only_us = 0;

    for (int m = 0; m < TT_PUTSIGNAL_MODES && !st; m++) {
        if (!o->common.modes[m])
            continue;
        conf->mode = (enum tt_putsignal_mode)m;
        st = run_mode(o, conf, only_us, &rows[*nrows]);
        if (!st && m == TT_PUTSIGNAL_PUT_ONLY)
            only_us = rows[*nrows].us[0];
        *nrows += !st;
    }
    return st;
}

static tutti_status run_hosts(const struct options *o, uint32_t nhosts, struct putsignal_row *rows,
                              uint32_t *nrows)
{
    const uint32_t nranks = nhosts * o->host_ranks;
    struct tt_putsignal_conf conf = {
        .senders = o->common.nsources ? o->common.nsources : nranks, .group = o->common.group,
        .header_bytes = o->header_bytes, .op_ns = o->op_ns,
    };
    struct tt_net_conf net = { 0 };
    struct tt_layout layout;
    tutti_status st = TUTTI_OK;

    tt_layout_regular(&layout, nranks, o->host_ranks, 1, 1, TT_NODE_MESH);
    net.layout = &layout;
    for (int d = TT_NEAR_SOCKET; d <= TT_NEAR_RACK; d++) {      /* links within a host are not
                                                                   used */
        net.link[d].latency_ns = o->latency_us * 1e3;
        net.link[d].bytes_per_s = o->gbit_s * 1e9 / 8;
    }
    conf.net = &net;
    for (uint32_t t = 0; t < o->common.ntransfers && !st; t++)
        for (uint32_t b = 0; b < o->common.nbytes && !st; b++) {
            conf.transfers = (uint32_t)o->common.transfers[t];
            conf.bytes = o->common.bytes[b];
            st = run_case(o, &conf, rows, nrows);
        }
    return st;
}

int sim_putsignal_main(int argc, char **argv)
{
    struct options o = { .common = putsignal_defaults(),
                         .hosts = { 2, 4, 8, 16 },
                         .nhosts = 4,
                         .host_ranks = 4,
                         .header_bytes = 64,
                         .latency_us = 1000,
                         .gbit_s = 0.4,
                         .op_ns = 1000 };
    struct putsignal_row *rows;
    uint32_t nrows = 0;
    tutti_status st = TUTTI_OK;

    command_line_read(&command, &o, argc, argv);
    rows = calloc((size_t)o.nhosts * o.common.ntransfers * o.common.nbytes * TT_PUTSIGNAL_MODES,
                  sizeof *rows);
    if (!rows) {
        tt_fail(TUTTI_ERR_NOMEM, "tutti sim putsignal: out of memory for the rows");
        return 1;
    }
    if (!o.common.json) {
        printf("# tutti sim putsignal: %u rank%s per host, one-way latency %g us, %g Gbit/s per "
               "host, %g ns per descriptor\n",
               o.host_ranks, TT_PLURAL(o.host_ranks), o.latency_us, o.gbit_s, o.op_ns);
        putsignal_print_columns(stdout);
    }
    for (uint32_t i = 0; i < o.nhosts && !st; i++)
        st = run_hosts(&o, (uint32_t)o.hosts[i], rows, &nrows);
    if (!st)
        putsignal_print_fits(stdout, rows, nrows, o.common.json);
    free(rows);
    return st ? 1 : 0;
}
