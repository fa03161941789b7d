/* Which algorithm and segments a call uses: a pure function of the call's arguments and of constants that all ranks agreed
 * on when the communicator was made, so that all choose alike. Remembered per shape. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/plugin.h"

#define PLAN_WAYS 4u
#define SEGMENT_MIN 8192u
#define REDUCED_MAX (256u << 10)        /* of a segment that arrives over TCP and is added to something: it is still in the cache then */
#define LANDING_MAX (8ull << 20)        /* of one operation, all peers together, before segments shrink */

static uint64_t floor_power(uint64_t x)
{
    uint64_t p = 1;

    while (p * 2 <= x)
        p *= 2;
    return p;
}

/* The longest put of the call, about: what segments are cut from. */
static uint64_t typical_put(const struct tt_coll *c)
{
    switch (c->kind) {
    case TT_ALLREDUCE: return c->bytes / c->nranks;
    case TT_ALLGATHERV: case TT_ALLTOALLV: case TT_GATHERV: case TT_SCATTERV: case TT_REDUCE_SCATTERV:
        return UINT64_MAX;      /* not known alike on all ranks */
    default: return c->bytes;
    }
}

/* Peers of the rank that has most: the root, where there is one. Segments must be alike on all ranks. */
static uint32_t most_peers(const struct tt_algo *algo, const struct tt_coll *c)
{
    struct tt_coll there = *c;

    there.rank = c->root;
    return algo->npeers(&there);
}

/* A put becomes several segments, so that its ends overlap, within [SEGMENT_MIN, the wire's]: four in shared memory; two over TCP, where
 * the kernel lets them overlap too and each costs system calls. */
static void choose_segments(const tutti_comm *comm, const struct tt_coll *c, struct tt_plan *p)
{
    const uint64_t part = typical_put(c) / (comm->all_local ? 4 : 2);
    const uint32_t npeers = most_peers(p->algo, c);
    uint64_t segment = floor_power(comm->sizes.segment_bytes);

    p->streams = npeers <= 2 ? 2 : 1;
    p->depth = 4;
    if (tt_coll_reduces(c->kind) && !comm->all_local && segment > REDUCED_MAX)
        segment = REDUCED_MAX;
    if (part < segment)
        segment = part < SEGMENT_MIN ? SEGMENT_MIN : floor_power(part);
    while (segment > SEGMENT_MIN && npeers * p->streams * p->depth * segment > LANDING_MAX)
        segment /= 2;
    while (segment < comm->sizes.eager_bytes)
        segment *= 2;
    p->segment_bytes = segment;
}

static uint64_t key_of(const struct tt_coll *c, const char *force)
{
    uint64_t h = c->bytes * 0x9e3779b97f4a7c15ull ^
                 ((uint64_t)c->kind << 40 | (uint64_t)c->elem_bytes << 33 | (uint64_t)c->in_place << 32 | c->root);

    if (force)
        h ^= tt_hash_bytes(force, strlen(force), 1);
    return tt_mix64(h) | 1;
}

static uint8_t index_of(const struct tt_algo *algo)
{
    size_t i = 0;

    while (tt_algos[i] != algo)
        i++;
    return (uint8_t)i;
}

/* One line for each shape of call, as long as its plan is remembered. v calls are planned each time, and told once. */
static void log_plan(tutti_comm *comm, const struct tt_coll *c, const struct tt_plan *p)
{
    const bool uneven = c->send_bytes || c->recv_bytes;
    const bool p2p = c->kind == TT_SEND || c->kind == TT_RECV;
    char size[32] = "counts of its own";

    if (uneven && comm->kinds_told & 1u << c->kind)
        return;
    if (uneven)
        comm->kinds_told |= 1u << c->kind;
    else
        snprintf(size, sizeof size, "%llu bytes", (unsigned long long)c->bytes);
    tt_log(p2p ? TT_LOG_DEBUG : TT_LOG_INFO, "%s of %s on %u ranks (%s): %s%s, segments of %llu bytes",
           tt_coll_name(c->kind), size, c->nranks, comm->all_local ? "in shared memory" : "over TCP, or some of them",
           p->algo->name, p->forced ? " as asked for" : "", (unsigned long long)p->segment_bytes);
}

/* Why an algorithm that was asked for by name cannot be had. */
static tutti_status tell_why_not(const struct tt_coll *c, const char *name)
{
    const struct tt_algo *algo = tt_algo_named(c->kind, name);
    const char *coll = tt_coll_name(c->kind);

    if (!algo)
        return tt_fail(TUTTI_ERR_INVALID, "%s: there is no algorithm \"%s\" (`tutti info --algos %s` lists them)", coll,
                       name, coll);
    return tt_fail(TUTTI_ERR_INVALID, "%s of %llu bytes on %u ranks: algorithm \"%s\" cannot do it, as it needs %s",
                   coll, (unsigned long long)c->bytes, c->nranks, algo->name,
                   algo->needs ? algo->needs : "another call");
}

static tutti_status make_plan(tutti_comm *comm, const struct tt_coll *c, const char *force, struct tt_plan *p)
{
    tutti_status st;

    tt_op_drop(p->kept);
    *p = (struct tt_plan){ .key = 0 };
    p->algo = force ? tt_algo_find(c, force) : tt_algo_choose(c, &comm->model);
    if (!p->algo)
        return tell_why_not(c, force);
    st = tt_plugin_check(p->algo, c);
    if (st)
        return st;
    p->algo_id = index_of(p->algo);
    p->forced = force != NULL;
    choose_segments(comm, c, p);
    if (tt_log_on(TT_LOG_INFO))
        log_plan(comm, c, p);
    p->keeps = c->bytes <= comm->sizes.eager_bytes && !c->send_bytes && !c->recv_bytes;
    return TUTTI_OK;
}

/* Where the plan of a key is, or is to be made: in one of PLAN_WAYS neighbours, so that the few shapes that a loop uses in
 * turn do not push each other out. */
static struct tt_plan *place_of(tutti_comm *comm, uint64_t key)
{
    struct tt_plan *set = &comm->plans[key / 2 % (TT_PLANS / PLAN_WAYS) * PLAN_WAYS];

    for (uint32_t i = 0; i < PLAN_WAYS; i++)
        if (set[i].key == key)
            return &set[i];
    for (uint32_t i = 0; i < PLAN_WAYS; i++)
        if (!set[i].key)
            return &set[i];
    return &set[comm->plans_made++ % PLAN_WAYS];
}

tutti_status tt_plan_of(tutti_comm *comm, const struct tt_coll *c, const char *force, struct tt_plan **out)
{
    const uint64_t key = key_of(c, force);
    struct tt_plan *p = place_of(comm, key);
    tutti_status st;

    if (p->key != key || c->send_bytes || c->recv_bytes) {  /* the key knows nothing of counts and displacements */
        st = make_plan(comm, c, force, p);
        if (st)
            return st;
        p->key = key;
    }
    *out = p;
    return TUTTI_OK;
}
