/* How long messages of this host come: fetched from their sender's memory in one copy, or through slots in two. Slots stay in the cache, and
 * both ends fill and empty them at the same time; what a core pays for lines that another one has written, and for the kernel's copy,
 * differs from machine to machine (on 2 cores of an AMD EPYC 1 MiB one way takes 80 us through slots and 170 us in a single copy; of an Intel Xeon
 * 130 us and 95 us), and within seconds, as a host moves its guests. So both are tried (base/chooser.h), for each kind of operation and class of lengths.
 *
 * Slots are filled with ordinary stores or with those past the cache. Who writes sees its own end alone (copy_long in wire/shm.c), so where all wait for one another both are
 * tried, as is done for eager messages (stores.c): an all-to-all of 1 MiB on an AMD EPYC of the first generation, us, while its cores share a cache: 76 and 102, fetched 100; while they do not: 180 and 105, 98.
 *
 * Ranks call collectives in the same order, so they try the same thing at the same time. What is in use those agree on that exchange: if one took slots where the other fetches, it would learn what
 * that takes. Each says in READY what it uses in the next operation of the kind and class, and who hears it from a lower rank of its host does the same. (Around a ring that goes one way a rank hears only of
 * the next one, and each finds out for itself.) */
#include "engine/perform.h"

#include <stdlib.h>
#include "base/clock.h"
#include "engine/quantized.h"

#define SINGLE_COPY_BYTES_MIN (256u << 10)      /* if they are asked for */
#define LONG_COPY_BYTES (1u << 20)      /* from here on caches take some operations to settle, as slots are used with stores past them, */
#define LONG_COPY_RUN 4u                /* and so many are tried in a row (an all-reduce of 16 MiB: 3.2, 2.9, 2.6, 2.3 and by and by 1.8 ms) */
#define STORES_BYTES_MAX (4u << 20)     /* of shorter ones both kinds of stores are tried: of longer ones a try takes long, and what is not in slots goes through memory anyway */

bool tt_op_is_mutual(const struct tt_op *op)
{
    switch (op->conf.coll.kind) {
    case TT_ALLREDUCE: case TT_REDUCE_SCATTER: case TT_ALLGATHER: case TT_ALLTOALL: return !op->p2p;
    default: return false;
    }
}

/* By powers of two from TT_COPIES_BYTES_MIN on. */
static uint32_t class_of(uint64_t bytes)
{
    const uint32_t c = 63 - (uint32_t)__builtin_clzll(bytes / TT_COPIES_BYTES_MIN);

    return c < TT_COPIES_CLASSES ? c : TT_COPIES_CLASSES - 1;
}

/* What operations like this one have learnt; NULL: no memory for it. */
static struct tt_copies *copies_of(const struct tt_op *op, uint64_t bytes)
{
    struct tt_context *c = op->context;

    if (!c->copies)
        c->copies = calloc(TT_COLL_KINDS, sizeof *c->copies);
    return c->copies ? &c->copies[op->conf.coll.kind][class_of(bytes)] : NULL;
}

static void decide(struct tt_op *op, struct tt_copies *copies, uint64_t bytes)
{
    const bool stores = tt_op_is_mutual(op) && bytes < STORES_BYTES_MAX;

    op->copies = copies;
    op->copies_bytes = bytes;
    op->copies_begin_ns = tt_now_ns();
    op->copies_way =
        tt_chooser_runs_next(&copies->runs, stores ? TT_COPIES_WAYS : TT_COPIES_PAST_CACHE,
                             bytes < LONG_COPY_BYTES ? 1 : LONG_COPY_RUN, copies->in_use, &op->copies_timed);
    op->copies_says = (uint8_t)(1 + class_of(bytes) * TT_COPIES_WAYS +
                                (copies->follows ? copies->in_use : copies->runs.chooser.best));
    if (stores && op->copies_way != TT_COPIES_SINGLE)
        op->slot_stores = op->copies_way == TT_COPIES_SLOTS ? TT_STORES_ORDINARY : TT_STORES_PAST_CACHE;
}

/* What else an operation's messages are, they come in the same way, so that its time tells of one way. Where ranks wait for cores, a single copy is less work, which shows
 * from about TT_SINGLE_COPY_BYTES on. */
bool tt_op_pays_single_copy(struct tt_op *op, const struct tt_exec_step *wait)
{
    const struct tt_engine *e = op->context->engine;
    const bool reduces = tt_coll_reduces(op->conf.coll.kind);

    if (reduces ? tt_op_is_quantized(op) : !wait->to_dst)
        return false;
    if (e->single_copies)
        return wait->s.bytes >= SINGLE_COPY_BYTES_MIN;
    if (e->spins == 0)
        return !reduces && wait->s.bytes >= TT_SINGLE_COPY_BYTES;
    if (wait->s.bytes < TT_COPIES_BYTES_MIN)
        return false;
    if (!op->copies) {
        struct tt_copies *copies = copies_of(op, wait->s.bytes);

        if (!copies)
            return false;
        decide(op, copies, wait->s.bytes);
    }
    return op->copies_way == TT_COPIES_SINGLE;
}

bool tt_op_is_in_single_copies(const struct tt_op *op)
{
    return op->context->engine->single_copies || (op->copies && op->copies_way == TT_COPIES_SINGLE);
}

void tt_op_copies_hear(struct tt_op *op, uint32_t rank, uint8_t says)
{
    if (says == 0 || rank > op->conf.coll.rank || (op->copies_told != 0 && rank > op->copies_told_by))
        return;
    op->copies_told = says;
    op->copies_told_by = rank;
}

void tt_op_copies_end(struct tt_op *op, bool well)
{
    static const uint8_t margins[TT_COPIES_WAYS] = { 1, 1, 1 };
    struct tt_copies *copies = op->copies;

    if (copies && well) {
        copies->follows = op->copies_told != 0 && (op->copies_told - 1u) / TT_COPIES_WAYS == class_of(op->copies_bytes);
        copies->in_use = ((copies->follows ? op->copies_told : op->copies_says) - 1) % TT_COPIES_WAYS;
        if (op->copies_timed)
            tt_chooser_learn(&copies->runs.chooser, op->copies_way,
                             (tt_now_ns() - op->copies_begin_ns) * 1000 / op->copies_bytes, margins);
    }
    op->copies = NULL;
    op->copies_told = 0;
    op->slot_stores = TT_STORES_TIMED;
}
