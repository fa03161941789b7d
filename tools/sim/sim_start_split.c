/* The cost of a split in a job that has just started: the collectives of tutti_comm_split, in the
 * simulator of collectives, and its sort, on this machine. */
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "algo/algos.h"
#include "algo/segments.h"
#include "base/status.h"
#include "comm/chunks.h"
#include "comm/ticket.h"
#include "sim/des.h"
#include "tools/sim/sim_start.h"

#define SEGMENT_BYTES (512u << 10)
#define EAGER_BYTES (32u << 10)
#define BYTE_NS 0.08            /* of copies and reductions: 12.5 GB/s */

struct split_sim {
    struct tt_layout layout;
    struct tt_net_conf net;
    double message_ns, byte_ns, latency_ns;
};

static void split_sim_init(struct split_sim *s, const struct sim_start_options *o)
{
    s->message_ns = o->message_us * 1e3;
    s->byte_ns = o->byte_ns > 0 ? o->byte_ns : BYTE_NS;
    s->latency_ns = TT_START_LATENCY_NS + o->latency_us * 1e3 / 2;
    tt_layout_regular(&s->layout, o->nranks, o->per_host, 1, 1, TT_NODE_MESH);
    s->net = (struct tt_net_conf){ .layout = &s->layout };
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        s->net.link[d].latency_ns = s->latency_ns;
        s->net.link[d].bytes_per_s = 1e9 / s->byte_ns;
    }
}

static const struct tt_algo *algo_of(const struct split_sim *s, const struct tt_coll *c)
{
    const struct tt_cost_model m = { .message_ns = s->latency_ns + s->message_ns,
                                     .near_message_ns = s->latency_ns + s->message_ns,
                                     .byte_ns = s->byte_ns,
                                     .near_byte_ns = s->byte_ns,
                                     .reduce_byte_ns = BYTE_NS,
                                     .copy_byte_ns = BYTE_NS };

    return tt_algo_choose(c, &m);
}

static uint64_t machine_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Simulates one call with the cheapest algorithm by formulas. */
static tutti_status simulate(const struct split_sim *s, enum tt_coll_kind kind, uint32_t elem_bytes,
                             uint64_t bytes, double *time_ns)
{
    const struct tt_segment_limits limits = { .segment_bytes = SEGMENT_BYTES,
                                              .eager_bytes = EAGER_BYTES,
                                              .far_message_ns = s->message_ns,
                                              .near_message_ns = s->message_ns,
                                              .far_latency_ns = s->latency_ns,
                                              .rail_byte_ns = s->byte_ns };
    struct tt_coll coll = { .kind = kind,
                            .nranks = s->layout.nranks,
                            .elem_bytes = elem_bytes,
                            .layout = &s->layout,
                            .bytes = bytes };
    struct tt_des_conf conf = { .coll = &coll,
                                .net = &s->net,
                                .eager_bytes = EAGER_BYTES,
                                .way = { .receive_ns = s->message_ns, .direct = true },
                                .reduce_byte_ns = BYTE_NS,
                                .copy_byte_ns = BYTE_NS };
    struct tt_segments segments;
    struct tt_des_result r;
    struct tt_chunks chunks;
    char why[512] = "";
    tutti_status st = tt_chunks_get(&chunks);

    if (st)
        return st;
    tt_chunks_apply(&chunks, &coll);
    conf.algo = algo_of(s, &coll);
    if (tt_des_memory(conf.algo, &coll, &s->net) > machine_bytes())
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory: the split of %u ranks needs %.1f GiB",
                       coll.nranks, (double)tt_des_memory(conf.algo, &coll, &s->net) / (1 << 30));
    segments = tt_segments_choose(conf.algo, &coll, &limits);
    conf.segment_bytes = segments.segment_bytes;
    conf.streams = segments.streams;
    conf.depth = segments.depth;
    st = tt_des_run(&conf, &r, why, sizeof why);
    if (st == TUTTI_ERR_TIMEOUT)
        tt_fail(st, "the split: %s", why);
    *time_ns = r.time_ns;
    return st;
}

static double thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Measures the processor time in which rank 0 sorts the tickets of all ranks. Groups alternate in
 * the input, so that it is not already sorted. */
static tutti_status measure_sort(const struct sim_start_options *o, double *ns)
{
    struct tt_ticket *tickets = calloc(o->nranks, sizeof *tickets);
    uint32_t *members = calloc(o->nranks, sizeof *members), rank, id;
    const double began_ns = thread_ns();

    if (!tickets || !members) {
        free(tickets);
        free(members);
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u tickets", o->nranks);
    }
    for (uint32_t r = 0; r < o->nranks; r++)
        tickets[r] =
            (struct tt_ticket){ .colour = (int32_t)(r % o->ngroups), .id = r + 1, .index = r };
    tt_tickets_sort(tickets, o->nranks);
    tt_tickets_part(tickets, o->nranks, 0, 0, members, &rank, &id);
    *ns = thread_ns() - began_ns;
    free(tickets);
    free(members);
    return TUTTI_OK;
}

tutti_status sim_start_split(const struct sim_start_options *o, struct sim_start_split *out)
{
    const double npeers = 2 * ceil(log2(o->nranks));
    struct split_sim s;
    tutti_status st;

    split_sim_init(&s, o);
    *out = (struct sim_start_split){ .connect_ns = npeers * 2 * (s.latency_ns + s.message_ns) };
    st = simulate(&s, TT_ALLGATHER, 1, sizeof(struct tt_ticket), &out->gather_ns);
    if (!st)
        st = simulate(&s, TT_ALLREDUCE, sizeof(uint64_t), sizeof(uint64_t), &out->agree_ns);
    if (!st)
        st = measure_sort(o, &out->sort_ns);
    out->total_ns = out->connect_ns + out->gather_ns + out->sort_ns + out->agree_ns;
    return st;
}
