/* Chooses the transfer method of long messages within a host: one copy from the sender's memory
 * by the receiver, or two copies through slots. Slots stay in the cache, and both ends work at
 * the same time. The better method depends on the machine, because the costs of cache transfers
 * and of the kernel's copy differ. For 1 MiB, 2 cores of an AMD EPYC take 80 us through slots
 * and 170 us with a single copy; those of an Intel Xeon take 130 and 95 us. It also changes
 * within seconds, when a hypervisor migrates virtual CPUs. Therefore both methods are tried
 * (base/autotune.h), for each kind of operation and size class.
 *
 * Slots are filled with ordinary or non-temporal stores. The writer can measure only its own
 * side (copy_timed in wire/shm/shm.c). Where all ranks wait for each other, the operation's time
 * covers both sides, so both kinds of stores are tried, as for eager messages (eager_stores.c).
 * Example: an all-to-all of 1 MiB on a first-generation AMD EPYC. If the cores share a cache, it
 * takes 76 us with ordinary stores, 102 us with non-temporal stores, and 100 us with a single
 * copy; else 180, 105 and 98 us.
 *
 * Ranks call collectives in the same order, so they try the same method at the same time. The
 * ranks that exchange data agree on the method in use; mixed methods would falsify the
 * measurement. Each rank announces in its CTS the method for the next operation of the same kind
 * and class. A rank adopts the announcement of the lowest rank on its host from which it
 * receives one. (In a unidirectional ring a rank receives CTS only from the next rank; there
 * each rank decides alone.) */
#include "engine/exec_actions.h"

#include <stdlib.h>
#include "base/clock.h"
#include "engine/quantized.h"

#define SINGLE_COPY_BYTES_MIN (256u << 10)      /* if forced by TUTTI_CMA=2 */
/* from this size on, caches need several operations to settle after a change of method */
#define LONG_COPY_BYTES (1u << 20)
/* consecutive operations per try for such sizes (an all-reduce of 16 MiB took 3.2, 2.9, 2.6, 2.3
 * and finally 1.8 ms) */
#define LONG_COPY_RUN 4u
/* below this size, both kinds of stores are tried. Above it, a try takes too long, and data
 * outside of the slots comes from memory anyway */
#define STORES_BYTES_MAX (4u << 20)

bool tt_op_is_mutual(const struct tt_op *op)
{
    switch (op->conf.coll.kind) {
    case TT_ALLREDUCE: case TT_REDUCE_SCATTER: case TT_ALLGATHER: case TT_ALLTOALL: return !op->p2p;
    default: return false;
    }
}

/* Returns the size class: powers of two from TT_COPIES_BYTES_MIN. */
static uint32_t copy_size_class(uint64_t bytes)
{
    const uint32_t c = 63 - (uint32_t)__builtin_clzll(bytes / TT_COPIES_BYTES_MIN);

    return c < TT_COPIES_CLASSES ? c : TT_COPIES_CLASSES - 1;
}

/* Returns the measurements of operations of this kind and class, or NULL if out of memory. */
static struct tt_copy_method *copies_of(const struct tt_op *op, uint64_t bytes)
{
    struct tt_context *c = op->context;

    if (!c->copies)
        c->copies = calloc(TT_COLL_KINDS, sizeof *c->copies);
    return c->copies ? &c->copies[op->conf.coll.kind][copy_size_class(bytes)] : NULL;
}

static void choose_copies(struct tt_op *op, struct tt_copy_method *copies, uint64_t bytes)
{
    const bool stores = tt_op_is_mutual(op) && bytes < STORES_BYTES_MAX;

    op->copies = copies;
    op->copies_bytes = bytes;
    op->copies_begin_ns = tt_now_ns();
    op->copies_way = tt_autotune_runs_next(
        &copies->runs, stores ? TT_COPIES_WAYS : TT_COPIES_NONTEMPORAL,
        bytes < LONG_COPY_BYTES ? 1 : LONG_COPY_RUN, copies->in_use, &op->copies_timed);
    op->copies_announced =
        (uint8_t)(1 + copy_size_class(bytes) * TT_COPIES_WAYS +
                  (copies->follows ? copies->in_use : copies->runs.chooser.best));
    if (stores && op->copies_way != TT_COPIES_SINGLE)
        op->slot_stores =
            op->copies_way == TT_COPIES_SLOTS ? TT_STORES_ORDINARY : TT_STORES_NONTEMPORAL;
}

/* The first wait of an operation decides; its other messages use the same method, so that its
 * time measures one method. If ranks are oversubscribed, a single copy is less work; this pays
 * from about TT_SINGLE_COPY_BYTES. */
bool tt_op_single_copy_is_faster(struct tt_op *op, const struct tt_exec_step *wait)
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
        struct tt_copy_method *copies = copies_of(op, wait->s.bytes);

        if (!copies)
            return false;
        choose_copies(op, copies, wait->s.bytes);
    }
    return op->copies_way == TT_COPIES_SINGLE;
}

bool tt_op_is_in_single_copies(const struct tt_op *op)
{
    return op->context->engine->single_copies || (op->copies && op->copies_way == TT_COPIES_SINGLE);
}

void tt_op_copy_method_receive(struct tt_op *op, uint32_t rank, uint8_t says)
{
    if (says == 0 || rank > op->conf.coll.rank ||
        (op->copies_received != 0 && rank > op->copies_received_from))
        return;
    op->copies_received = says;
    op->copies_received_from = rank;
}

void tt_op_copy_method_end(struct tt_op *op, bool well)
{
    static const uint8_t margins[TT_COPIES_WAYS] = { 1, 1, 1 };
    struct tt_copy_method *copies = op->copies;

    if (copies && well) {
        copies->follows = op->copies_received != 0 && (op->copies_received - 1u) / TT_COPIES_WAYS ==
                                                          copy_size_class(op->copies_bytes);
        copies->in_use =
            ((copies->follows ? op->copies_received : op->copies_announced) - 1) % TT_COPIES_WAYS;
        if (op->copies_timed)
            tt_autotune_learn(&copies->runs.chooser, op->copies_way,
                              (tt_now_ns() - op->copies_begin_ns) * 1000 / op->copies_bytes,
                              margins);
    }
    op->copies = NULL;
    op->copies_received = 0;
    op->slot_stores = TT_STORES_TIMED;
}
