/* Selects algorithm and segment size of a call: a pure function of the call's arguments and of
 * constants that all ranks have agreed on, so that all ranks make the same choice. Cached per
 * shape. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/plugin.h"
#include "comm/tuner.h"
#include "reduce/float_env.h"

/* A name takes precedence over measurements, and these over the simulation. False: the named
 * algorithm does not exist or does not fit. */
static bool choose_plan(tutti_comm *comm, const struct tt_coll *c, const char *force,
                        struct tt_plan *p)
{
    const struct tt_algo *forced = force ? tt_algo_find(c, force) : NULL;
    struct tt_tuned measured;
    struct tt_tune_choice choice;
    struct tt_tune_conf conf;
    tt_float_env kept;

    if (force && !forced)
        return false;
    kept = tt_float_env_enter();        /* all ranks must compute the same times */
    tt_comm_tune_conf(comm, &conf);
    if (c->quantized)
        tt_tune_quantized(&conf, c->elem_bytes);
    if (!force && !c->quantized && tt_tunefile_find(comm->tune, c, &conf.limits, &measured)) {
        p->tuned = measured.row;
        choice = (struct tt_tune_choice){ .algo = measured.algo, .segments = measured.segments };
    } else {
        choice = tt_tune_recall(&comm->choices, &conf, c, forced, comm->world->simulates);
    }
    tt_float_env_leave(kept);
    p->algo = choice.algo;
    p->segment_bytes = choice.segments.segment_bytes;
    p->streams = choice.segments.streams;
    p->depth = choice.segments.depth;
    p->lanes = choice.segments.lanes;
    return true;
}

static uint64_t plan_key(const struct tt_coll *c, const char *force)
{
    uint64_t h = c->bytes * 0x9e3779b97f4a7c15ull ^
                 ((uint64_t)c->kind << 48 | (uint64_t)c->quantized << 44 |
                  (uint64_t)c->elem_bytes << 33 | (uint64_t)c->in_place << 32 | c->root);

    if (force)
        h ^= tt_hash_bytes(force, strlen(force), 1);
    return tt_mix64(h) | 1;
}

/* Logs each shape of call once, while its plan is cached. Variable collectives are planned each
 * time, but logged once. */
static void log_plan(tutti_comm *comm, const struct tt_coll *c, const struct tt_plan *p)
{
    const bool uneven = c->send_bytes || c->recv_bytes;
    const bool p2p = c->kind == TT_SEND || c->kind == TT_RECV;
    char size[32] = "per-rank counts", lanes[32] = "";

    if (uneven && comm->kinds_told & 1u << c->kind)
        return;
    if (uneven)
        comm->kinds_told |= 1u << c->kind;
    else
        snprintf(size, sizeof size, "%llu bytes", (unsigned long long)c->bytes);
    if (p->lanes)
        snprintf(lanes, sizeof lanes, " over %u lane%s", p->lanes, p->lanes == 1 ? "" : "s");
    tt_log(p2p ? TT_LOG_DEBUG : TT_LOG_INFO,
           "%s of %s%s on %u rank%s (%s): %s%s, segments of %llu bytes%s", tt_coll_name(c->kind),
           size, c->quantized ? ", quantized," : "", c->nranks, TT_PLURAL(c->nranks),
           comm->all_local ? "in shared memory" : "partly over the network", p->algo->name,
           p->forced  ? " as requested"
           : p->tuned ? " as measured"
                      : "",
           (unsigned long long)p->segment_bytes, lanes);
}

static tutti_status make_plan(tutti_comm *comm, const struct tt_coll *c, const char *force,
                              struct tt_plan *p)
{
    tutti_status st;

    tt_op_drop(comm->context, &p->kept);
    *p = (struct tt_plan){ .next = p->next };
    if (!choose_plan(comm, c, force, p))
        return tt_algo_refuse(c, force);
    st = tt_plugin_check(p->algo, c);
    if (st)
        return st;
    p->algo_id = tt_algo_index(p->algo);
    p->forced = force != NULL;
    if (tt_log_on(TT_LOG_INFO))
        log_plan(comm, c, p);
    p->keeps = c->bytes <= comm->sizes.eager_bytes && !c->send_bytes && !c->recv_bytes;
    return TUTTI_OK;
}

/* Returns the cache entry for a key's plan. A set has TT_PLAN_WAYS entries, so that the few shapes
 * of a loop do not evict each other. NULL: out of memory. */
static struct tt_plan *plan_place(tutti_comm *comm, uint64_t key)
{
    struct tt_plan **set = &comm->plans[key / 2 % TT_PLAN_SETS], **end = set, *p;
    uint32_t n = 0;

    for (p = *set; p; p = p->next, n++) {
        if (p->key == key)
            return p;
        end = &p->next;
    }
    for (p = *set; p; p = p->next)
        if (!p->key)            /* the choice of this plan failed */
            return p;
    if (n < TT_PLAN_WAYS)
        return *end = calloc(1, sizeof **end);
    p = *set;
    for (n = comm->plans_made++ % TT_PLAN_WAYS; n; n--)
        p = p->next;
    return p;
}

void tt_plans_discard(tutti_comm *comm)
{
    for (uint32_t s = 0; s < TT_PLAN_SETS; s++) {
        while (comm->plans[s]) {
            struct tt_plan *p = comm->plans[s];

            comm->plans[s] = p->next;
            tt_op_drop(comm->context, &p->kept);
            free(p);
        }
    }
    memset(comm->recent, 0, sizeof comm->recent);
    tt_tune_forget(&comm->choices);
}

uint64_t tt_plans_bytes(const tutti_comm *comm)
{
    uint64_t bytes = tt_tune_memory_bytes(&comm->choices);

    for (uint32_t s = 0; s < TT_PLAN_SETS; s++)
        for (const struct tt_plan *p = comm->plans[s]; p; p = p->next)
            bytes += sizeof *p + tt_op_kept_bytes(comm->context, &p->kept);
    return bytes;
}

tutti_status tt_plan_of(tutti_comm *comm, const struct tt_coll *c, const char *force,
                        struct tt_plan **out)
{
    const uint64_t key = plan_key(c, force);
    struct tt_plan *p = plan_place(comm, key);
    tutti_status st;

    if (!p)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the plan of a call");
    /* the key does not include counts and displacements */
    if (p->key != key || c->send_bytes || c->recv_bytes) {
        st = make_plan(comm, c, force, p);
        if (st)
            return st;
        p->key = key;
    }
    *out = p;
    return TUTTI_OK;
}
