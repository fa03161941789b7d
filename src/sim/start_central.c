#include "sim/start_central.h"

#include <stdlib.h>
#include "base/clock.h"
#include "base/status.h"
#include "sim/queue.h"

#define SERVED UINT32_MAX           /* event: the server has handled a rank */

struct central {
    const struct tt_central_conf *conf;
    struct tt_central_result *out;
    struct tt_prng prng;
    struct tt_queue events;         /* arrival of the rank `what`, or SERVED */
    uint8_t *ntries;                /* [nranks] */
    uint64_t now_ns;
    uint32_t nserved, nwaiting;
    bool busy;
};

static void plan(struct central *c, uint64_t at_ns, uint32_t what)
{
    tt_queue_push(&c->events, (struct tt_queue_item){ at_ns, what });
}

static uint64_t latency(struct central *c)
{
    return c->conf->latency_min_ns + tt_prng_below(&c->prng, c->conf->latency_ns + 1);
}

static uint64_t mean_latency(const struct tt_central_conf *conf)
{
    return conf->latency_min_ns + conf->latency_ns / 2;
}

/* As in start_net.c: a message takes message_ns where it is received, its bytes take their time at
 * both ends. */
static uint64_t send_ns(const struct tt_central_conf *conf, uint64_t bytes)
{
    return (uint64_t)((double)bytes * conf->byte_ns);
}

static uint64_t receive_ns(const struct tt_central_conf *conf, uint64_t bytes)
{
    return conf->message_ns + send_ns(conf, bytes);
}

/* ---- collect ---- */

static void serve(struct central *c)
{
    c->busy = true;
    c->nwaiting--;
    plan(c, c->now_ns + receive_ns(c->conf, 0) + receive_ns(c->conf, c->conf->record_bytes),
         SERVED);
}

static void drop(struct central *c, uint32_t rank)
{
    c->out->dropped++;
    if (c->conf->no_retries) {
        c->out->nlost++;
        return;
    }
    plan(c, c->now_ns + (TT_SECOND << c->ntries[rank]), rank);
    c->ntries[rank] = (uint8_t)((c->ntries[rank] + 1) % (TT_CENTRAL_RETRIES + 1));
}

static void arrive(struct central *c, uint32_t rank)
{
    if (c->nwaiting >= c->conf->backlog) {
        drop(c, rank);
        return;
    }
    c->nwaiting++;
    if (c->nwaiting > c->out->queued_most)
        c->out->queued_most = c->nwaiting;
    if (!c->busy)
        serve(c);
}

static void collect(struct central *c)
{
    struct tt_queue_item item;

    for (uint32_t r = 0; r < c->conf->nranks; r++)
        plan(c, tt_prng_below(&c->prng, c->conf->start_ns) + latency(c), r);
    while (tt_queue_pop(&c->events, &item)) {
        c->now_ns = item.time_ps;
        if (item.what != SERVED) {
            arrive(c, item.what);
            continue;
        }
        c->nserved++;
        c->busy = false;
        if (c->nwaiting)
            serve(c);
    }
}

/* ---- ring and all-gathers ---- */

static bool is_local_hop(const struct tt_central_conf *conf, uint32_t rank)
{
    const uint32_t per_host = conf->per_host ? conf->per_host : 1;

    return rank / per_host == (rank + 1) % conf->nranks / per_host;
}

/* The part of the latency from a rank to the next one that is not random. */
static double hop_min_ns(const struct tt_central_conf *conf, uint32_t rank)
{
    enum tt_distance d;

    if (!conf->net)
        return (double)conf->latency_min_ns;
    d = tt_layout_distance(conf->net->layout, rank, (rank + 1) % conf->nranks);
    if (d < TT_NEAR_SOCKET)
        d = TT_NEAR_SOCKET;
    return conf->net->link[d].latency_ns +
           (conf->net->link[d].bytes_per_s > 0
                ? 1e9 * conf->record_bytes / conf->net->link[d].bytes_per_s
                : 0);
}

static double mean_hop_ns(const struct tt_central_conf *conf)
{
    double sum_ns = 0;

    for (uint32_t r = 0; r < conf->nranks; r++)
        sum_ns += hop_min_ns(conf, r) + (is_local_hop(conf, r) ? 0 : (double)conf->latency_ns / 2);
    return sum_ns / conf->nranks;
}

static uint64_t step_ns(const struct tt_central_conf *conf)
{
    return receive_ns(conf, conf->record_bytes) + send_ns(conf, conf->record_bytes);
}

uint64_t tt_central_gather_ns(const struct tt_central_conf *conf, uint64_t began_ns)
{
    return began_ns +
           (uint64_t)((double)(conf->nranks - 1) * (mean_hop_ns(conf) + (double)step_ns(conf)));
}

uint64_t tt_central_gather_steps(const struct tt_central_conf *conf, const uint64_t *began_ns,
                                 struct tt_prng *prng)
{
    const uint32_t n = conf->nranks;
    uint64_t *at = malloc(n * sizeof *at), *next = malloc(n * sizeof *next), end_ns = 0;

    tt_assert(at && next);
    for (uint32_t r = 0; r < n; r++)
        at[r] = began_ns[r];
    for (uint32_t k = 1; k < n; k++) {
        uint64_t *swap = at;

        for (uint32_t r = 0; r < n; r++) {
            const uint32_t from = (r + n - 1) % n;
            const uint64_t arrives_ns =
                at[from] + (uint64_t)hop_min_ns(conf, from) +
                (is_local_hop(conf, from) ? 0 : tt_prng_below(prng, conf->latency_ns + 1));

            next[r] = (arrives_ns > at[r] ? arrives_ns : at[r]) + step_ns(conf);
        }
        at = next;
        next = swap;
    }
    for (uint32_t r = 0; r < n; r++)
        end_ns = at[r] > end_ns ? at[r] : end_ns;
    free(at);
    free(next);
    return end_ns;
}

void tt_central_run(const struct tt_central_conf *conf, struct tt_central_result *out)
{
    const uint64_t n = conf->nranks;
    struct central c = { .conf = conf, .out = out };

    *out = (struct tt_central_result){ .server_bytes = 2 * n * conf->record_bytes };
    out->rank_bytes = 2 * (n - 1) * conf->record_bytes * conf->ngathers + 2ull * conf->record_bytes;
    tt_prng_init(&c.prng, conf->seed);
    tt_queue_init(&c.events);
    c.ntries = calloc(n, sizeof *c.ntries);
    tt_assert(c.ntries);
    collect(&c);
    if (c.nserved == conf->nranks) {
        out->collected_ns = c.now_ns;
        out->ring_ns = c.now_ns + n * (receive_ns(conf, 0) + send_ns(conf, conf->record_bytes));
        out->gathered_ns = out->ring_ns + mean_latency(conf) + conf->message_ns;
        for (uint32_t k = 0; k < conf->ngathers; k++)
            out->gathered_ns = tt_central_gather_ns(conf, out->gathered_ns);
    }
    free(c.ntries);
    tt_queue_fini(&c.events);
}
