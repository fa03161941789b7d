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

static uint64_t message_ns(const struct tt_central_conf *conf, uint64_t bytes)
{
    return conf->message_ns + (uint64_t)((double)bytes * conf->byte_ns);
}

/* ---- collect ---- */

static void serve(struct central *c)
{
    c->busy = true;
    c->nwaiting--;
    plan(c, c->now_ns + message_ns(c->conf, 0) + message_ns(c->conf, c->conf->record_bytes),
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

uint64_t tt_central_gather_ns(const struct tt_central_conf *conf, uint64_t began_ns)
{
    return began_ns + (uint64_t)(conf->nranks - 1) *
                          (mean_latency(conf) + message_ns(conf, conf->record_bytes));
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
            const uint64_t arrives_ns = at[(r + n - 1) % n] + conf->latency_min_ns +
                                        tt_prng_below(prng, conf->latency_ns + 1);

            next[r] =
                (arrives_ns > at[r] ? arrives_ns : at[r]) + message_ns(conf, conf->record_bytes);
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
        out->ring_ns = c.now_ns + n * (message_ns(conf, 0) + message_ns(conf, conf->record_bytes));
        out->gathered_ns = out->ring_ns + mean_latency(conf) + conf->message_ns;
        for (uint32_t k = 0; k < conf->ngathers; k++)
            out->gathered_ns = tt_central_gather_ns(conf, out->gathered_ns);
    }
    free(c.ntries);
    tt_queue_fini(&c.events);
}
