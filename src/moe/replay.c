/* The persistent form: an exchange that is repeated. It uses one window. Each rank's part contains
 * a block and a word for each set and each sender. The word is the number of the block's run.
 *
 *     words    [depth][nranks], a cache line each: number of the last run of that set whose message
 *              from that rank has arrived
 *     blocks   [depth][nranks]: a slot for the head with packed pieces, then max_total elements
 *
 * A run puts the pieces and the head to each rank, and waits for the words of its set. No
 * barrier is needed: a rank that starts run k + depth has received the messages of run k + depth
 * - 1 from all ranks. They were sent by ranks that had completed run k + depth - 2. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/options.h"
#include "base/status.h"
#include "moe/alike.h"
#include "moe/pieces.h"
#include "window/window.h"
#include "window/handle.h"

#define LINE 64u
#define DEPTH_MAX 8u
#define PACKED_MAPPED_MAX 1024u
#define WITHOUT_ALL (TUTTI_REPLAY_NO_HANDLES | TUTTI_REPLAY_NO_BYPASS | TUTTI_REPLAY_NO_CHAIN)

struct tutti_replay {
    tutti_comm *comm;
    tutti_window *handle;
    uint8_t *mem;               /* this rank's part of the window */
    struct tt_pieces_shape shape;
    uint32_t rank, depth, without;
    uint64_t slot_bytes, block_bytes;
    uint64_t run;               /* last started run, from 1 */
    bool started;               /* the caller has not waited for the run yet */
    tutti_status broken;        /* error after which the replay can only be freed */
    struct tt_head own;
    uint64_t *lengths;          /* [nranks][nsplits] of the run */
    uint8_t *wanted;            /* [nranks][tt_pieces_requested_bytes] */
    uint8_t *out;               /* [nranks][slot_bytes] */
    uint8_t *head;              /* [tt_pieces_head_bytes]: private copy of a sender's head */
    bool *packed;               /* [nranks] */
    struct tt_stretch *list;    /* [(nsplits + 1) / 2] */
    tutti_piece *pieces;        /* [(nsplits + 1) / 2 + 1] */
    struct tt_window_short *puts;   /* [nranks] */
    void **recvbuffs;           /* [depth][nranks] */
    size_t *all_lengths;        /* [depth][nranks][nsplits] */
};

static uint64_t whole_lines(uint64_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* ---- layout, equal on all ranks -------------------------------------------------------------- */

static uint32_t current_set(const struct tutti_replay *y)
{
    return (uint32_t)(y->run % y->depth);
}

static uint64_t arrival_offset(const struct tutti_replay *y, uint32_t sender)
{
    return ((uint64_t)current_set(y) * y->shape.nranks + sender) * LINE;
}

static uint64_t sender_slot(const struct tutti_replay *y, uint32_t set, uint32_t sender)
{
    const uint64_t n = y->shape.nranks;

    return y->depth * n * LINE + (set * n + sender) * y->block_bytes;
}

static uint64_t data_at(const struct tutti_replay *y, uint32_t set, uint32_t sender)
{
    return sender_slot(y, set, sender) + y->slot_bytes;
}

/* ---- creation and destruction ---------------------------------------------------------------- */

static void replay_free(struct tutti_replay *y)
{
    free(y->lengths);
    free(y->wanted);
    free(y->out);
    free(y->head);
    free(y->packed);
    free(y->list);
    free(y->pieces);
    free(y->puts);
    free(y->recvbuffs);
    free(y->all_lengths);
    free(y);
}

static struct tutti_replay *replay_make(tutti_comm *comm, const struct tt_pieces_shape *s,
                                        const tutti_replay_conf *conf)
{
    const size_t n = s->nranks, head_bytes = tt_pieces_head_bytes(s);
    struct tutti_replay *y = calloc(1, sizeof *y);

    if (!y)
        return NULL;
    *y = (struct tutti_replay){
        .comm = comm,
        .shape = *s,
        .rank = comm->rank,
        .depth = conf->depth ? conf->depth : 2,
        .without = conf->without,
    };
    y->slot_bytes = whole_lines(head_bytes > TT_INLINE_BYTES ? head_bytes : TT_INLINE_BYTES);
    y->block_bytes = y->slot_bytes + whole_lines(s->max_total * s->elem_bytes);
    y->lengths = calloc(n * s->nsplits, sizeof *y->lengths);
    y->wanted = calloc(n, tt_pieces_requested_bytes(s));
    y->out = calloc(n, y->slot_bytes);
    y->head = calloc(1, head_bytes);
    y->packed = calloc(n, sizeof *y->packed);
    y->list = calloc((s->nsplits + 1) / 2, sizeof *y->list);
    y->pieces = calloc((s->nsplits + 1) / 2 + 1, sizeof *y->pieces);
    y->puts = calloc(n, sizeof *y->puts);
    y->recvbuffs = calloc(y->depth * n, sizeof *y->recvbuffs);
    y->all_lengths = calloc(y->depth * n * s->nsplits, sizeof *y->all_lengths);
    if (y->lengths && y->wanted && y->out && y->head && y->packed && y->list && y->pieces &&
        y->puts && y->recvbuffs && y->all_lengths)
        return y;
    replay_free(y);
    return NULL;
}

/* Values that must be equal on all ranks; and the status of each rank. */
struct declared {
    uint64_t nsplits, max_length, max_total;
    uint32_t type, depth, without, status;
};

static tutti_status replay_compare_with(const struct declared *mine, const struct declared *theirs,
                                        uint32_t own_rank, uint32_t rank)
{
    const struct tt_alike fields[] = {
        { "nsplits", mine->nsplits, theirs->nsplits, NULL },
        { "max_length", mine->max_length, theirs->max_length, NULL },
        { "max_total", mine->max_total, theirs->max_total, NULL },
        { "type", mine->type, theirs->type, tt_alike_dtype },
        { "depth", mine->depth, theirs->depth, NULL },
        { "without", mine->without, theirs->without, NULL },
    };

    return tt_alike_check("tutti_replay_create", fields, sizeof fields / sizeof *fields, own_rank,
                          rank);
}

/* Compares the declarations of all ranks; equal result on all. `st` is the previous status of
 * this rank. */
static tutti_status replay_compare(tutti_comm *comm, const tutti_replay_conf *conf, tutti_status st)
{
    struct declared mine = {
        .nsplits = conf->nsplits,
        .max_length = conf->max_length,
        .max_total = conf->max_total,
        .type = (uint32_t)conf->type,
        .depth = conf->depth,
        .without = conf->without,
        .status = (uint32_t)st,
    };
    struct declared *all = calloc(comm->nranks, sizeof *all);
    tutti_status got;

    if (!all)
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_replay_create: out of memory for %u ranks",
                       comm->nranks);
    got = tutti_allgather(&mine, all, sizeof mine, TUTTI_U8, comm, NULL);
    st = st ? st : got;
    mine.status = TUTTI_OK;
    for (uint32_t r = 0; r < comm->nranks && !st; r++) {
        if (all[r].status)
            st = tt_fail(
                all[r].status < TUTTI_STATUS_COUNT ? (tutti_status)all[r].status
                                                   : TUTTI_ERR_PROTOCOL,
                "tutti_replay_create: rank %u failed to create its part (see the log of that rank)",
                r);
        else
            st = replay_compare_with(&mine, &all[r], comm->rank, r);
    }
    free(all);
    return st;
}

static tutti_status replay_check_conf(const tutti_replay_conf *conf)
{
    if (conf->depth == 1 || conf->depth > DEPTH_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_replay_create: conf.depth is %u: must be 2 to %u",
                       conf->depth, DEPTH_MAX);
    if (conf->without & ~(uint32_t)WITHOUT_ALL)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_replay_create: unknown bits in conf.without = %u (valid bits: %u)",
                       conf->without, (unsigned)WITHOUT_ALL);
    return TUTTI_OK;
}

/* Checks the size of all sets of receive buffers together. */
static tutti_status check_sets(const struct tt_pieces_shape *s, uint32_t depth)
{
    uint64_t bytes;

    if (tt_bytes_of(s->max_total, (uint64_t)s->elem_bytes * s->nranks * (depth ? depth : 2),
                    &bytes))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID,
                   "tutti_replay_create: conf.max_total of %llu elements with conf.depth %u does "
                   "not fit in the address space",
                   (unsigned long long)s->max_total, depth);
}

/* Creates the window, and locates the receive buffers in it. */
static tutti_status open_window(struct tutti_replay *y)
{
    const uint64_t bytes = sender_slot(y, y->depth, 0);
    void *mem = NULL;
    tutti_status st = tutti_window_create(y->comm, NULL, bytes, &y->handle);

    if (!st)
        st = tutti_window_memory(y->handle, &mem, NULL);
    y->mem = mem;
    for (uint32_t i = 0; !st && i < y->depth * y->shape.nranks; i++)
        y->recvbuffs[i] = y->mem + data_at(y, i / y->shape.nranks, i % y->shape.nranks);
    return st;
}

tutti_status tutti_replay_create(tutti_comm *comm, const tutti_replay_conf *conf,
                                 tutti_replay **out)
{
    tutti_replay_conf mine = { .size = sizeof mine };
    struct tutti_replay *y = NULL;
    struct tt_pieces_shape shape;
    tutti_status st = tt_comm_check(comm, "tutti_replay_create");

    if (!st && (!conf || !out))
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_replay_create: %s is NULL", conf ? "out" : "conf");
    if (!st)
        st = tt_options_take(&mine, sizeof mine, sizeof mine, conf, "tutti_replay_create", "conf",
                             "tutti_replay_conf");
    if (!st)
        st = replay_check_conf(&mine);
    if (!st)
        st = tt_pieces_shape_take(&shape, comm->nranks, mine.type, mine.nsplits, mine.max_length,
                                  mine.max_total, "tutti_replay_create");
    if (!st)
        st = check_sets(&shape, mine.depth);
    if (st)
        return st;
    y = replay_make(comm, &shape, &mine);
    if (!y)
        st = tt_fail(TUTTI_ERR_NOMEM,
                     "tutti_replay_create: out of memory for %u ranks and %u pieces", shape.nranks,
                     shape.nsplits);
    st = replay_compare(comm, &mine, st);
    if (!st)
        st = open_window(y);
    if (st) {
        if (y)
            replay_free(y);
        return st;
    }
    *out = y;
    return TUTTI_OK;
}

tutti_status tutti_replay_free(tutti_replay *y)
{
    tutti_status st;

    if (!y)
        return TUTTI_OK;
    st = tutti_window_free(y->handle);
    if (st == TUTTI_ERR_FORKED)
        return st;
    replay_free(y);
    return st;
}

/* ---- sending a run --------------------------------------------------------------------------- */

struct await_start {
    struct tt_call_check attempt;
    const tutti_dynamic *what;
};

static tutti_status look_for_start(struct tt_call_check *a)
{
    const tutti_dynamic *w = ((struct await_start *)a)->what;

    return __atomic_load_n(w->start, __ATOMIC_ACQUIRE) >= w->start_value ? TUTTI_OK : TUTTI_PENDING;
}

static tutti_status await_start(struct tt_window *w, const tutti_dynamic *what, int64_t timeout_ms)
{
    struct await_start s = {
        .attempt = { .window = w,
                     .call = "tutti_replay_start",
                     .rank = UINT32_MAX,
                     .timeout_ms = timeout_ms,
                     .step = look_for_start },
        .what = what,
    };

    return what->start ? tt_call_check_run(&s.attempt) : TUTTI_OK;
}

/* Returns the maximum size of a head with packed pieces for rank r. Packing costs a copy at each
 * end. For mapped memory, where the wire makes no other copy, it pays only for small sizes. */
static uint64_t packed_max(const struct tutti_replay *y, const struct tt_window *w, uint32_t r)
{
    const struct tt_window_way *way = &w->ways[r];
    const uint64_t little = tt_pieces_head_bytes(&y->shape) + PACKED_MAPPED_MAX;

    if (r == y->rank || (way->known && !way->by_mail && way->key.mapped))
        return little < TT_INLINE_BYTES ? little : TT_INLINE_BYTES;
    return TT_INLINE_BYTES;
}

/* Reads the lists, and decides which pieces are packed. */
static void read_lists(struct tutti_replay *y, const struct tt_window *w, const tutti_dynamic *what)
{
    const struct tt_pieces_shape *s = &y->shape;
    uint64_t *lengths = y->lengths + (size_t)y->rank * s->nsplits;
    const uint64_t head_bytes = tt_pieces_head_bytes(s);
    uint64_t most = 0;

    tt_pieces_read(s, what, lengths, y->wanted, &y->own);
    if (!y->own.flaw)
        tt_pieces_read_src(s, what, lengths, &y->own);
    for (uint32_t r = 0; r < s->nranks && !y->own.flaw; r++) {
        const uint8_t *wanted = y->wanted + r * tt_pieces_requested_bytes(s);
        uint64_t n;

        y->packed[r] =
            !(y->without & TUTTI_REPLAY_NO_BYPASS) &&
            head_bytes + tt_pieces_total(s, lengths, wanted) * s->elem_bytes <= packed_max(y, w, r);
        n = y->packed[r] ? 0 : tt_pieces_stretches(s, lengths, wanted, NULL);
        most = n > most ? n : most;
    }
    y->own.most = (uint32_t)most;
}

/* Writes the head for rank r, with its packed pieces. Returns the size. */
static uint64_t write_head(struct tutti_replay *y, const tutti_dynamic *what, uint32_t r)
{
    const struct tt_pieces_shape *s = &y->shape;
    struct tt_head h = y->own;

    h.packed = !h.flaw && y->packed[r];
    return tt_head_write(s, &h, y->lengths + (size_t)y->rank * s->nsplits,
                         y->wanted + r * tt_pieces_requested_bytes(s), what->sendbuff,
                         y->out + r * y->slot_bytes);
}

/* Lists the pieces for rank r: stretches, then the head. Returns their number. */
static size_t list_pieces(struct tutti_replay *y, const tutti_dynamic *what, uint32_t r)
{
    const struct tt_pieces_shape *s = &y->shape;
    const uint64_t *lengths = y->lengths + (size_t)y->rank * s->nsplits;
    size_t n = 0;

    if (!y->own.flaw && !y->packed[r])
        n = tt_pieces_stretches(s, lengths, y->wanted + r * tt_pieces_requested_bytes(s), y->list);
    for (size_t i = 0; i < n; i++)
        y->pieces[i] = (tutti_piece){
            .offset = data_at(y, current_set(y), y->rank) + y->list[i].offset,
            .src = (const uint8_t *)what->sendbuff + y->list[i].offset, .bytes = y->list[i].bytes,
        };
    y->pieces[n] = (tutti_piece){
        .offset = sender_slot(y, current_set(y), y->rank),
        .src = y->out + r * y->slot_bytes,
        .bytes = write_head(y, what, r),
    };
    return n + 1;
}

/* Puts the pieces for one rank, with one doorbell, or (TUTTI_REPLAY_NO_CHAIN) one by one. */
static tutti_status put_pieces(struct tutti_replay *y, const tutti_dynamic *what, uint32_t r,
                               int64_t timeout_ms)
{
    const size_t n = list_pieces(y, what, r);
    const tutti_piece *last = &y->pieces[n - 1];
    const tutti_rma plain = { .size = sizeof plain, .timeout_ms = timeout_ms };
    tutti_rma signal = plain;
    tutti_status st = TUTTI_OK;

    signal.signal_op = TUTTI_SIGNAL_SET;
    signal.signal_value = y->run;
    signal.signal_offset = arrival_offset(y, y->rank);
    if (!(y->without & TUTTI_REPLAY_NO_CHAIN))
        return tutti_window_put_pieces(y->handle, (int)r, y->pieces, n, &signal);
    for (size_t i = 0; i + 1 < n && !st; i++)
        st = tutti_window_put(y->handle, (int)r, y->pieces[i].offset, y->pieces[i].src,
                              y->pieces[i].bytes, &plain);
    if (!st && n > 1)
        st = tutti_window_fence(y->handle, (int)r);
    return st ? st
              : tutti_window_put(y->handle, (int)r, last->offset, last->src, last->bytes, &signal);
}

/* Puts the packed messages to other ranks, with one doorbell per wire. */
static tutti_status put_packed(struct tutti_replay *y, struct tt_window *w,
                               const tutti_dynamic *what, int64_t timeout_ms)
{
    uint32_t n = 0;
    tutti_status st;

    for (uint32_t i = 1; i < y->shape.nranks; i++) {
        const uint32_t r = (y->rank + i) % y->shape.nranks;

        if (y->own.flaw ? tt_pieces_head_bytes(&y->shape) > TT_INLINE_BYTES : !y->packed[r])
            continue;
        y->puts[n++] = (struct tt_window_short){
            .rank = r,
            .src = y->out + r * y->slot_bytes,
            .offset = sender_slot(y, current_set(y), y->rank),
            .bytes = write_head(y, what, r),
            .signal_offset = arrival_offset(y, y->rank),
            .signal_value = y->run,
        };
    }
    st = tt_window_put_several(w, y->puts, n, timeout_ms, "tutti_replay_start");
    for (uint32_t i = 0; i < n && !st; i++)
        if (!y->puts[i].gone)
            st = put_pieces(y, what, y->puts[i].rank, timeout_ms);
    return st;
}

static tutti_status put_all(struct tutti_replay *y, struct tt_window *w, const tutti_dynamic *what,
                            int64_t timeout_ms)
{
    const bool together = !(y->without & (TUTTI_REPLAY_NO_CHAIN | TUTTI_REPLAY_NO_BYPASS));
    const bool all_short = y->own.flaw && tt_pieces_head_bytes(&y->shape) <= TT_INLINE_BYTES;
    tutti_status st = together ? put_packed(y, w, what, timeout_ms) : TUTTI_OK;

    for (uint32_t i = 1; i <= y->shape.nranks && !st; i++) {
        const uint32_t r = (y->rank + i) % y->shape.nranks;

        if (!together || r == y->rank || !(all_short || y->packed[r]))
            st = put_pieces(y, what, r, timeout_ms);
    }
    return st;
}

/* Checks the arguments in *what that are specific to a replay. */
static tutti_status replay_check(const struct tutti_replay *y, const tutti_dynamic *what)
{
    if (y->started)
        return tt_fail(
            TUTTI_ERR_INVALID,
            "tutti_replay_start: run %llu is not complete (call tutti_replay_wait first)",
            (unsigned long long)y->run);
    if (!what->split_lengths || !what->index_block_lens)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_replay_start: %s is NULL",
                       what->split_lengths ? "index_block_lens" : "split_lengths");
    if (what->nsplits || what->recvbuffs || what->recv_all_split_lengths || what->max_length ||
        what->max_total || what->over)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_replay_start: %s must be zero: the replay defines it",
                       what->nsplits                  ? "nsplits"
                       : what->recvbuffs              ? "recvbuffs"
                       : what->recv_all_split_lengths ? "recv_all_split_lengths"
                       : what->max_length             ? "max_length"
                       : what->max_total              ? "max_total"
                                                      : "over");
    if (what->start && (uintptr_t)what->start % sizeof *what->start)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_replay_start: start = %p is misaligned: must be 8-byte aligned",
                       (const void *)what->start);
    return TUTTI_OK;
}

/* Marks the replay as unusable, because possibly only some ranks were sent data. */
static tutti_status replay_broken(struct tutti_replay *y, tutti_status st)
{
    if (st)
        y->broken = st;
    return st;
}

tutti_status tutti_replay_start(tutti_replay *y, const tutti_dynamic *what, int64_t timeout_ms)
{
    tutti_dynamic mine = { .size = sizeof mine };
    struct tt_window *w = NULL;
    tutti_status st;

    if (!y || !what)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_replay_start: %s is NULL", y ? "what" : "replay");
    st = tt_window_take(y->handle, "tutti_replay_start", &w);
    if (!st && y->broken)
        st = tt_fail(y->broken, "tutti_replay_start: run %llu of this replay has failed",
                     (unsigned long long)y->run);
    if (!st)
        st = tt_options_take(&mine, sizeof mine, sizeof mine, what, "tutti_replay_start", "what",
                             "tutti_dynamic");
    if (!st)
        st = replay_check(y, &mine);
    if (!st)
        st = await_start(w, &mine, timeout_ms);
    if (st)
        return st;
    y->run++;
    y->started = true;
    read_lists(y, w, &mine);
    if (y->without & TUTTI_REPLAY_NO_HANDLES)
        st = tt_window_exchange_keys(w);
    return replay_broken(y, st ? st : put_all(y, w, &mine, timeout_ms));
}

/* ---- receiving a run ------------------------------------------------------------------------- */

/* Reads the head of one sender into *h, and finds its packed pieces. */
static tutti_status read_sender_head(struct tutti_replay *y, uint32_t sender, struct tt_head *h,
                                     const uint8_t **wanted, const uint8_t **pieces)
{
    const struct tt_pieces_shape *s = &y->shape;
    const uint8_t *slot = y->mem + sender_slot(y, current_set(y), sender);
    const size_t head_bytes = tt_pieces_head_bytes(s);

    memcpy(y->head, slot, head_bytes);
    if (tt_head_read(s, y->head, y->slot_bytes, h, y->lengths + (size_t)sender * s->nsplits, wanted,
                     pieces)) {
        *pieces = slot + head_bytes;
        return TUTTI_OK;
    }
    return tt_fail(TUTTI_ERR_PROTOCOL,
                   "tutti_replay_wait: protocol error: rank %u sent an invalid header", sender);
}

/* Reads all heads. If all are valid, copies the packed pieces to their places. */
static tutti_status read_all_heads(struct tutti_replay *y, bool unpack)
{
    const struct tt_pieces_shape *s = &y->shape;
    const uint8_t *wanted, *pieces;
    struct tt_head h;
    tutti_status st = TUTTI_OK;

    for (uint32_t r = 0; r < s->nranks && !st; r++) {
        st = replay_broken(y, read_sender_head(y, r, &h, &wanted, &pieces));
        if (!st && unpack && h.packed)
            tt_pieces_unpack(s, y->lengths + (size_t)r * s->nsplits, wanted, pieces,
                             y->mem + data_at(y, current_set(y), r));
        if (!st && !unpack)
            st = tt_head_status(s, &h, r, "tutti_replay_wait");
    }
    return st;
}

tutti_status tutti_replay_wait(tutti_replay *y, tutti_arrived *out, int64_t timeout_ms)
{
    tutti_status st = TUTTI_OK;
    size_t *lengths;

    if (!y || !out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_replay_wait: %s is NULL", y ? "out" : "replay");
    if (out->size != sizeof *out)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_replay_wait: out.size is %zu: must be sizeof(tutti_arrived), %zu",
                       out->size, sizeof *out);
    if (y->broken)
        return tt_fail(y->broken, "tutti_replay_wait: run %llu of this replay has failed",
                       (unsigned long long)y->run);
    if (!y->started)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_replay_wait: no run is in progress (call tutti_replay_start first)");
    for (uint32_t r = 0; r < y->shape.nranks && !st; r++)
        st = replay_broken(y, tutti_window_wait(y->handle, arrival_offset(y, r), TUTTI_EQUAL,
                                                y->run, timeout_ms, NULL));
    if (st)
        return st;
    y->started = false;
    st = read_all_heads(y, false);
    if (!st)
        st = read_all_heads(y, true);
    if (st)
        return st;
    lengths = y->all_lengths + (size_t)current_set(y) * y->shape.nranks * y->shape.nsplits;
    for (size_t i = 0; i < (size_t)y->shape.nranks * y->shape.nsplits; i++)
        lengths[i] = y->lengths[i];
    out->recvbuffs = y->recvbuffs + (size_t)current_set(y) * y->shape.nranks;
    out->recv_all_split_lengths = lengths;
    return TUTTI_OK;
}
