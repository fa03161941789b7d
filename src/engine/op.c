/* Operations: performs the executor's actions, and feeds it what arrives. */
#include "engine/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "algo/algos.h"
#include "base/names.h"
#include "engine/context.h"
#include "engine/progress.h"

#define STREAM_BYTES (4ull << 20)       /* outputs from here on are written past the cache */
#define COOKIE_STEP_SHIFT 32
#define COOKIE_GEN_SHIFT 40
#define COOKIE_SLOT_SHIFT 48

/* ---- addresses ------------------------------------------------------------------------------------- */

static uint8_t *buffer_of(const struct tt_op *op, uint8_t buf)
{
    switch (buf) {
    case TT_BUF_SRC: return (uint8_t *)(uintptr_t)op->conf.src;
    case TT_BUF_DST: return op->conf.dst;
    default: return op->work;
    }
}

static uint64_t slot_offset(const struct tt_op *op, const struct tt_place *at)
{
    return ((uint64_t)at->stream * op->conf.depth + at->slot) * op->conf.segment_bytes;
}

/* Staging is reserved whole and touched as far as it is used. */
static uint8_t *stage_of(struct tt_op *op)
{
    if (op->stage && op->stage_bytes < TT_EXEC_STAGES * op->conf.segment_bytes) {
        munmap(op->stage, op->stage_bytes);
        op->stage = NULL;
    }
    if (!op->stage) {
        op->stage_bytes = TT_EXEC_STAGES * op->conf.segment_bytes;
        op->stage = mmap(NULL, op->stage_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        tt_assert(op->stage != MAP_FAILED);
    }
    return op->stage;
}

static struct tt_early *early_of(const struct tt_op *op, uint16_t peer, uint32_t tag)
{
    struct tt_context_peer *cp = op->flow[peer].cp;
    struct tt_early *m;
    uint32_t at = 0;

    while ((m = tt_early_find(cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_EAGER))) {
        if (m->tag == tag && m->claimed)
            return m;
        at++;
    }
    return NULL;
}

static const uint8_t *eager_payload(const struct tt_op *op, uint16_t peer, uint32_t tag)
{
    const struct tt_early *m;

    if (op->now && op->now_from == op->flow[peer].cp && op->now->cell.tag == tag)
        return op->now->payload;
    m = early_of(op, peer, tag);
    tt_assert(m);
    return m->payload;
}

/* The address of a place whose bytes are contiguous. */
static uint8_t *address_of(struct tt_op *op, const struct tt_place *at)
{
    const struct tt_flow *f;

    switch (at->kind) {
    case TT_AT_BUF:
        return buffer_of(op, at->ref.buf) + at->ref.offset + at->skip;
    case TT_AT_SLOT:
        f = &op->flow[at->peer];
        return (uint8_t *)f->landing.region->mem + f->landing.offset + slot_offset(op, at);
    case TT_AT_REMOTE:
        f = &op->flow[at->peer];
        return (uint8_t *)f->landing_key.mapped + f->landing_offset + slot_offset(op, at);
    case TT_AT_STAGE:
        return stage_of(op) + at->slot * op->conf.segment_bytes;
    case TT_AT_EAGER:
        return (uint8_t *)(uintptr_t)eager_payload(op, at->peer, at->slot) + at->skip;
    default:
        return NULL;
    }
}

static bool is_strided(const struct tt_place *at) { return at->kind == TT_AT_BUF && at->ref.block; }

/* Piece of a strided place at byte `pos` of its sequence: its address, and how long it goes on. */
static uint8_t *piece_of(struct tt_op *op, const struct tt_place *at, uint64_t pos, uint64_t *len)
{
    const uint64_t i = (at->skip + pos) / at->ref.block, in = (at->skip + pos) % at->ref.block;

    *len = at->ref.block - in;
    return buffer_of(op, at->ref.buf) + at->ref.offset + i * at->ref.stride + in;
}

/* Copies where one side or both are strided. */
static void copy_strided(struct tt_op *op, const struct tt_place *to, const struct tt_place *from, uint64_t bytes)
{
    for (uint64_t pos = 0; pos < bytes;) {
        uint64_t n = bytes - pos, m = bytes - pos;
        uint8_t *d = is_strided(to) ? piece_of(op, to, pos, &n) : address_of(op, to) + pos;
        const uint8_t *s = is_strided(from) ? piece_of(op, from, pos, &m) : address_of(op, from) + pos;
        uint64_t len = n < m ? n : m;

        if (len > bytes - pos)
            len = bytes - pos;
        memcpy(d, s, len);
        pos += len;
    }
}

static void gather(struct tt_op *op, const struct tt_place *from, uint64_t skip, uint8_t *out, uint64_t bytes)
{
    for (uint64_t pos = 0; pos < bytes;) {
        uint64_t n;
        const uint8_t *s = piece_of(op, from, skip + pos, &n);

        if (n > bytes - pos)
            n = bytes - pos;
        memcpy(out + pos, s, n);
        pos += n;
    }
}

/* ---- what an action needs of the wire ------------------------------------------------------------------ */

/* The peer of an action, looked up at its first use; connects if need be. NULL: no memory (the context fails). */
static struct tt_flow *flow_of(struct tt_op *op, uint16_t i)
{
    struct tt_flow *f = &op->flow[i];

    if (f->cp)
        return f;
    f->in_handle = -1;
    f->ready = f->nudged = false;
    f->cp = tt_context_peer_of(op->context, op->context->ranks[op->exec_peers[i].rank]);
    if (!f->cp) {
        tt_context_fail_here(op->context, TUTTI_ERR_NOMEM, "no memory for a peer", true);
        return NULL;
    }
    if (f->cp->peer->state == TT_PEER_NONE)
        tt_peer_connect(op->context->engine, f->cp->peer);
    return f;
}

static struct tt_cell cell_of(const struct tt_op *op, uint32_t tag)
{
    return (struct tt_cell){ .context = op->context->id, .tag = tag, .opseq = op->seq, .desc = op->desc };
}

static uint8_t take_owed(struct tt_context_peer *cp)
{
    const uint8_t n = cp->owed > 255 ? 255 : (uint8_t)cp->owed;

    return n;
}

static bool send_cell(struct tt_op *op, struct tt_flow *f, enum tt_cell_type type, uint32_t tag, const void *payload, uint32_t bytes)
{
    struct tt_cell cell = cell_of(op, tag);
    const uint8_t owed = take_owed(f->cp);

    if (!tt_mail_send(&f->cp->peer->mail, &cell, type, owed, payload, bytes))
        return false;
    f->cp->owed -= owed;
    return true;
}

/* Registers the operation's memory with a wire that does not copy inside post: sources must lie in a region. */
static tutti_status need_regions(struct tt_op *op, struct tt_wire *w)
{
    const struct tt_coll *c = &op->conf.coll;
    tutti_status st = TUTTI_OK;

    if (op->region_wire == w)
        return TUTTI_OK;
    tt_assert(!op->region_wire);
    op->region_wire = w;
    if (op->conf.src && tt_coll_src_bytes(c))
        st = w->ops->reg(w, (void *)(uintptr_t)op->conf.src, tt_coll_src_bytes(c), &op->src_region);
    if (!st && op->conf.dst && tt_coll_dst_bytes(c))
        st = w->ops->reg(w, op->conf.dst, tt_coll_dst_bytes(c), &op->dst_region);
    if (!st)
        st = w->ops->reg(w, stage_of(op), op->stage_bytes, &op->stage_region);
    if (!st && op->work)
        st = w->ops->reg(w, op->work, op->conf.algo->work_bytes(c), &op->work_region);
    return st;
}

static void drop_regions(struct tt_op *op)
{
    struct tt_region **all[] = { &op->src_region, &op->dst_region, &op->stage_region, &op->work_region };

    for (size_t i = 0; op->region_wire && i < sizeof all / sizeof *all; i++)
        if (*all[i]) {
            op->region_wire->ops->dereg(*all[i]);
            *all[i] = NULL;
        }
    op->region_wire = NULL;
}

static int take_handle(struct tt_peer *p)
{
    for (uint32_t i = 0; i < TT_HANDLES / 64; i++)
        if (~p->handles[i]) {
            const uint32_t b = (uint32_t)__builtin_ctzll(~p->handles[i]);

            p->handles[i] |= 1ull << b;
            return (int)(i * 64 + b);
        }
    return -1;
}

static void give_handle(struct tt_peer *p, int handle)
{
    p->handles[handle / 64] &= ~(1ull << (handle % 64));
    p->handle_gen[handle]++;
}

static uint32_t wire_index(const struct tt_engine *e, const struct tt_wire *w)
{
    uint32_t i = 0;

    while (e->wire[i] != w)
        i++;
    return i;
}

/* Where the final buffer of this operation can be written by the peer directly: through the wire's registration, or because the
 * application allocated it here. NULL: it cannot. */
static struct tt_region *direct_region(struct tt_op *op, struct tt_wire *w, uint64_t *offset)
{
    struct tt_engine *e = op->context->engine;

    *offset = 0;
    if (op->conf.algo->direct_unsafe || !op->conf.dst || !tt_coll_dst_bytes(&op->conf.coll))
        return NULL;
    if (w->caps & TT_WIRE_CAP_ANYMEM)
        return op->dst_region;
    for (uint32_t i = 0; i < e->nallocated; i++) {
        struct tt_region *r = e->allocated[i];
        const uint8_t *dst = op->conf.dst;

        if (r->wire != w || dst < (uint8_t *)r->mem || dst >= (uint8_t *)r->mem + r->bytes)
            continue;
        *offset = (uint64_t)(dst - (uint8_t *)r->mem);
        return tt_coll_dst_bytes(&op->conf.coll) <= r->bytes - *offset ? r : NULL;
    }
    return NULL;
}

/* ---- the actions --------------------------------------------------------------------------------------------- */

/* Whether a sender leaves it to the receiver where its only put of the flow goes (tt_there), as it may not know. */
static bool receiver_places(uint8_t kind) { return kind == TT_ALLTOALL || kind == TT_ALLTOALLV; }

/* Opens a flow: takes a handle and landing memory, and tells the peer. */
static bool do_open(struct tt_op *op, const struct tt_action *a)
{
    struct tt_flow *f = flow_of(op, a->peer);
    struct tt_engine *e = op->context->engine;
    const struct tt_exec_step *t = &op->exec.step[a->step];
    /* Their puts say THERE: the one wait of the pair decides whether and where they land. */
    const bool one_wait = op->desc.kind == TT_ALLTOALL || op->desc.kind == TT_ALLTOALLV;
    struct tt_ready_msg msg = { .landing = 1 };
    struct tt_region *direct;
    struct tt_peer *p;
    uint64_t offset;
    int handle;

    if (!f || f->cp->peer->state != TT_PEER_UP || !tt_mail_room(&f->cp->peer->mail, sizeof msg))
        return false;
    p = f->cp->peer;
    if (f->in_handle < 0) {
        handle = take_handle(p);
        if (handle < 0)
            return false;
        if (tt_landing_get(e->pool[wire_index(e, p->wire)],
                           (uint64_t)op->conf.streams * op->conf.depth * op->conf.segment_bytes, &f->landing)) {
            give_handle(p, handle);
            tt_context_fail_here(op->context, TUTTI_ERR_NOMEM, "no memory for arriving segments", true);
            return false;
        }
        f->in_handle = (int16_t)handle;
        f->in_gen = p->handle_gen[handle] + 1u;
    }
    if (!(p->wire->caps & TT_WIRE_CAP_INSTANT) && need_regions(op, p->wire)) {
        tt_context_fail_here(op->context, TUTTI_ERR_NOMEM, "a buffer could not be registered", true);
        return false;
    }
    direct = one_wait && !t->to_dst ? NULL : direct_region(op, p->wire, &offset);
    if (receiver_places(op->desc.kind) && t->s.out.buf != TT_BUF_DST)
        direct = NULL;          /* in place: it arrives in a pipe */
    msg.handle = (uint16_t)f->in_handle;
    msg.gen = f->in_gen;
    msg.bytes = t->s.bytes;
    msg.landing_offset = f->landing.offset;
    msg.landing_bytes = (uint8_t)f->landing.region->key.bytes;
    memcpy(msg.landing_key, f->landing.region->key.data, TT_KEY_BYTES);
    if (direct) {
        msg.direct = 1;
        msg.direct_offset = offset + (receiver_places(op->desc.kind) ? t->s.out.offset : 0);
        msg.direct_bytes = (uint8_t)direct->key.bytes;
        memcpy(msg.direct_key, direct->key.data, TT_KEY_BYTES);
    }
    if (!send_cell(op, f, TT_CELL_READY, 0, &msg, sizeof msg))
        return false;
    tt_exec_opened(&op->exec, a->peer, direct != NULL);
    return true;
}

/* An eager message may go while there is credit; the last one is kept for the context's oldest operation, so that later ones
 * cannot starve it. */
static bool has_eager_credit(const struct tt_op *op, const struct tt_flow *f)
{
    const uint32_t max = op->context->active == op ? TT_EAGER_CREDIT : TT_EAGER_CREDIT - 1;

    return f->cp->eager_out < max;
}

/* The eager message (peer, tag) is not needed any more. */
static void eager_consumed(struct tt_op *op, uint16_t peer, uint32_t tag)
{
    struct tt_context_peer *cp = op->flow[peer].cp;
    struct tt_early *m;

    if (op->now && op->now_from == cp && op->now->cell.tag == tag) {
        op->now = NULL;
    } else {
        m = early_of(op, peer, tag);
        tt_assert(m);
        tt_early_drop(cp, m);
    }
    tt_context_owe(op->context, cp);
}

/* The same, if that is what was read from. */
static void place_consumed(struct tt_op *op, const struct tt_place *at)
{
    if (at->kind == TT_AT_EAGER)
        eager_consumed(op, at->peer, at->slot);
}

static bool do_eager(struct tt_op *op, const struct tt_action *a)
{
    struct tt_flow *f = flow_of(op, a->peer);
    uint8_t room[8192];
    const uint8_t *from = NULL;

    if (!f || f->cp->peer->state != TT_PEER_UP || !has_eager_credit(op, f))
        return false;
    if (a->bytes && is_strided(&a->a)) {
        gather(op, &a->a, 0, room, a->bytes);
        from = room;
    } else if (a->bytes) {
        from = address_of(op, &a->a);
    }
    if (!send_cell(op, f, TT_CELL_EAGER, a->tag, from, (uint32_t)a->bytes))
        return false;
    f->cp->eager_out++;
    place_consumed(op, &a->a);
    tt_exec_taken(&op->exec, a, true);
    return true;
}

static uint64_t word_value(uint32_t gen, uint32_t count) { return (uint64_t)gen << 32 | count; }

/* Posts a descriptor, fenced where the wire does not order signals by itself. */
static bool post_one(struct tt_wire *w, const struct tt_desc *d)
{
    const struct tt_desc fenced[2] = { { .kind = TT_DESC_FENCE, .peer = d->signal_key->peer }, *d };

    if (w->caps & TT_WIRE_CAP_ORDERED)
        return w->ops->post(w, d, 1) == 1;
    return w->ops->post(w, fenced, 2) == 2;
}

/* A strided source that the wire would have to keep: sent inline, piece by piece; the last carries the signal. */
static bool put_gathered(struct tt_op *op, const struct tt_action *a, struct tt_desc d)
{
    uint8_t room[TT_INLINE_BYTES];
    const struct tt_desc whole = d;

    for (uint64_t pos = 0; pos < a->bytes;) {
        const uint64_t n = a->bytes - pos < sizeof room ? a->bytes - pos : sizeof room;

        gather(op, &a->a, pos, room, n);
        d.flags |= TT_DESC_INLINE;
        d.local = room;
        d.bytes = n;
        d.offset = whole.offset + pos;
        pos += n;
        d.signal_op = pos == a->bytes ? TT_SIGNAL_SET : TT_SIGNAL_NONE;
        if (!post_one(d.key->wire, &d))
            return false;       /* the pieces that went will be sent again */
    }
    return true;
}

static bool do_put(struct tt_op *op, const struct tt_action *a)
{
    struct tt_flow *f = &op->flow[a->peer];
    struct tt_peer *p = f->cp->peer;
    struct tt_wire *w = p->wire;
    bool instant = w->caps & TT_WIRE_CAP_INSTANT;
    struct tt_desc d = {
        .kind = TT_DESC_PUT, .peer = p->rank, .bytes = a->bytes,
        .signal_op = TT_SIGNAL_SET, .signal_key = &p->mail.theirs,
        .signal_offset = tt_link_offset(TT_LINK_ARRIVED, f->out_handle, a->stream),
        .signal_value = word_value(f->out_gen, a->seq + 1),
        .cookie = (uint64_t)op->slot << COOKIE_SLOT_SHIFT | (uint64_t)op->generation << COOKIE_GEN_SHIFT |
                  (uint64_t)a->step << COOKIE_STEP_SHIFT | a->seq,
    };

    if (p->state != TT_PEER_UP)
        return false;
    if (!instant && need_regions(op, w))
        return false;
    if (a->direct) {
        d.key = &f->direct_key;
        d.offset = f->direct_offset + (a->out.ref.buf == TT_BUF_THERE ? 0 : a->out.ref.offset) + a->out.skip;
        if (d.offset > f->direct_key.bytes || a->bytes > f->direct_key.bytes - d.offset) {
            tt_context_fail_here(op->context, TUTTI_ERR_MISMATCH, "a peer's buffer is smaller than what is sent to it", true);
            return false;
        }
        if (a->bytes >= (64 << 10))
            d.flags |= op->stream_dst ? TT_DESC_STREAM : 0;
    } else {
        d.key = &f->landing_key;
        d.offset = f->landing_offset + slot_offset(op, &a->out);
    }
    if (a->a.kind == TT_AT_REMOTE) {
        d.bytes = 0;
    } else if (is_strided(&a->a)) {
        if (!put_gathered(op, a, d))
            return false;
        tt_exec_taken(&op->exec, a, true);
        return true;
    } else {
        d.local = address_of(op, &a->a);
    }
    if (d.bytes == 0)
        instant = true;
    if (instant)
        d.flags |= TT_DESC_INLINE;
    if (!post_one(w, &d))
        return false;
    op->in_flight += !instant;
    place_consumed(op, &a->a);
    tt_exec_taken(&op->exec, a, instant);
    return true;
}

static bool do_local(struct tt_op *op, const struct tt_action *a)
{
    uint8_t *out2 = address_of(op, &a->out2);
    const bool stream = op->stream_dst && a->out.kind == TT_AT_BUF;
    tt_reduce_fn *kernel;

    if (is_strided(&a->out) || is_strided(&a->a)) {
        tt_assert(a->kind == TT_ACT_COPY && !out2);
        copy_strided(op, &a->out, &a->a, a->bytes);
    } else if (a->kind == TT_ACT_COPY) {
        tt_copy(address_of(op, &a->out), out2, a->bytes ? address_of(op, &a->a) : NULL, a->bytes, stream);
    } else {
        kernel = a->finish ? op->kernel_finish : op->kernel;
        kernel(address_of(op, &a->out), out2, address_of(op, &a->a), address_of(op, &a->b),
               a->bytes / op->conf.coll.elem_bytes, stream, op->conf.coll.nranks);
    }
    place_consumed(op, &a->a);
    if (a->kind == TT_ACT_REDUCE)
        place_consumed(op, &a->b);
    tt_exec_taken(&op->exec, a, true);
    return true;
}

static bool do_credit(struct tt_op *op, const struct tt_action *a)
{
    struct tt_flow *f = &op->flow[a->peer];
    struct tt_peer *p = f->cp->peer;
    const struct tt_desc d = {
        .kind = TT_DESC_PUT, .flags = TT_DESC_INLINE, .peer = p->rank, .key = &p->mail.theirs,
        .signal_op = TT_SIGNAL_SET, .signal_key = &p->mail.theirs,
        .signal_offset = tt_link_offset(TT_LINK_CREDIT, (uint32_t)f->in_handle, a->stream),
        .signal_value = word_value(f->in_gen, a->seq),
    };

    if (p->state == TT_PEER_UP && p->wire->ops->post(p->wire, &d, 1) != 1)
        return false;
    tt_exec_taken(&op->exec, a, true);
    return true;
}

static bool perform(struct tt_op *op, const struct tt_action *a)
{
    switch (a->kind) {
    case TT_ACT_OPEN: return do_open(op, a);
    case TT_ACT_EAGER: return do_eager(op, a);
    case TT_ACT_PUT: return do_put(op, a);
    case TT_ACT_CREDIT: return do_credit(op, a);
    default: return do_local(op, a);
    }
}

/* ---- what arrives --------------------------------------------------------------------------------------------- */

static void mismatch(struct tt_context *c, uint32_t peer, const struct tt_opdesc *theirs, const struct tt_opdesc *ours,
                     uint64_t opseq, const char *more)
{
    char a[160], b[160], why[TT_ERROR_BYTES];

    tt_opdesc_print(theirs, a, sizeof a);
    tt_opdesc_print(ours, b, sizeof b);
    snprintf(why, sizeof why, "rank %u called %s where rank %u called %s (operation %llu of the communicator)%s", peer, a, c->rank, b,
             (unsigned long long)(tt_is_p2p(ours->kind) ? opseq & 0xffffffff : opseq), more);
    tt_context_fail_here(c, TUTTI_ERR_MISMATCH, why, true);
}

/* The peer's rank in the context; UINT32_MAX if it is none of it, or the communicator does not exist here yet. */
static uint32_t index_in(const struct tt_context *c, struct tt_context_peer *cp)
{
    for (uint32_t i = 0; cp->index == UINT32_MAX && c->ranks && i < c->nranks; i++)
        if (c->ranks[i] == cp->peer->rank)
            cp->index = i;
    return cp->index;
}

static bool same_desc(const struct tt_opdesc *a, const struct tt_opdesc *b)
{
    if (tt_is_p2p(a->kind))
        return tt_is_p2p(b->kind) && a->count == b->count;
    return a->kind == b->kind && a->dtype == b->dtype && a->redop == b->redop && a->algo == b->algo && a->root == b->root &&
           a->count == b->count;
}

/* The peer has opened a flow to us. */
static bool take_ready(struct tt_op *op, uint16_t i, const uint8_t *payload, uint32_t bytes)
{
    struct tt_flow *f = flow_of(op, i);
    const uint64_t need = (uint64_t)op->conf.streams * op->conf.depth * op->conf.segment_bytes;
    struct tt_blob key = { 0 };
    struct tt_ready_msg msg;
    struct tt_wire *w;
    tutti_status st;

    if (!f || bytes != sizeof msg)
        return false;
    memcpy(&msg, payload, sizeof msg);
    if (f->ready)
        return true;
    if (msg.handle >= TT_HANDLES || msg.landing_bytes > TT_KEY_BYTES || msg.direct_bytes > TT_KEY_BYTES)
        return false;
    w = f->cp->peer->wire;
    key.bytes = msg.landing_bytes;
    memcpy(key.data, msg.landing_key, TT_KEY_BYTES);
    st = w->ops->import(w, f->cp->peer->rank, &key, &f->landing_key);
    if (!st && (f->landing_key.bytes < need || msg.landing_offset > f->landing_key.bytes - need))
        return false;
    if (!st && msg.direct) {
        key.bytes = msg.direct_bytes;
        memcpy(key.data, msg.direct_key, TT_KEY_BYTES);
        st = w->ops->import(w, f->cp->peer->rank, &key, &f->direct_key);
    }
    if (st == TUTTI_ERR_PEER_LOST)
        return true;
    if (st)
        return false;
    f->ready = true;
    f->out_handle = msg.handle;
    f->out_gen = msg.gen;
    f->landing_offset = msg.landing_offset;
    f->direct_offset = msg.direct_offset;
    tt_exec_ready(&op->exec, i, msg.direct, f->landing_key.mapped != NULL);
    return true;
}

/* Looks through the kept messages for what this operation can use now. */
static void take_early(struct tt_op *op)
{
    op->scanned = op->exec.loaded;
    for (uint32_t i = 0; i < op->exec.npeers; i++) {
        struct tt_flow *f = flow_of(op, (uint16_t)i);
        struct tt_early *m;
        uint32_t at = 0;

        if (!f)
            return;
        for (; (m = tt_early_find(f->cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_READY)); at++) {
            const bool good = take_ready(op, (uint16_t)i, m->payload, m->bytes);

            tt_early_drop(f->cp, m);
            if (!good)
                mismatch(op->context, op->exec_peers[i].rank, &m->desc, &op->desc, op->seq, ": its offer of memory is not valid");
        }
        for (at = 0; (m = tt_early_find(f->cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_NUDGE)); at++)
            tt_early_drop(f->cp, m);        /* it has been compared */
        for (at = 0; (m = tt_early_find(f->cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_EAGER)); at++) {
            tutti_status st;

            if (m->claimed)
                continue;
            st = tt_exec_eager(&op->exec, (uint16_t)i, m->tag, m->bytes);
            m->claimed = st == TUTTI_OK;
            if (st == TUTTI_ERR_MISMATCH)
                mismatch(op->context, op->exec_peers[i].rank, &m->desc, &op->desc, op->seq, ": the sizes between the two differ");
        }
    }
}

/* Reads the flow words: segments landed here, segments consumed there. */
static void look_at_flows(struct tt_op *op)
{
    for (uint32_t i = 0; i < op->exec.npeers; i++) {
        const struct tt_flow *f = &op->flow[i];
        const struct tt_mailbox *m;

        if (!f->cp || (!f->ready && f->in_handle < 0))
            continue;
        m = &f->cp->peer->mail;
        for (uint8_t s = 0; s < op->conf.streams; s++) {
            uint64_t v;

            if (f->in_handle >= 0) {
                v = atomic_load_explicit(tt_link_word(m, TT_LINK_ARRIVED, (uint32_t)f->in_handle, s), memory_order_acquire);
                if ((uint32_t)(v >> 32) == f->in_gen)
                    tt_exec_arrived(&op->exec, (uint16_t)i, s, (uint32_t)v);
            }
            if (f->ready) {
                v = atomic_load_explicit(tt_link_word(m, TT_LINK_CREDIT, f->out_handle, s), memory_order_acquire);
                if ((uint32_t)(v >> 32) == f->out_gen)
                    tt_exec_credit(&op->exec, (uint16_t)i, s, (uint32_t)v);
            }
        }
    }
}

bool tt_op_has_news(const struct tt_op *op)
{
    for (uint32_t i = 0; i < op->exec.npeers; i++) {
        const struct tt_flow *f = &op->flow[i];
        const struct tt_mailbox *m;

        if (!f->cp || (!f->ready && f->in_handle < 0))
            continue;
        m = &f->cp->peer->mail;
        for (uint8_t s = 0; s < op->conf.streams; s++) {
            const struct tt_exec_stream *st = &op->exec_peers[i].stream[s];

            if (f->in_handle >= 0) {
                const uint64_t v = atomic_load_explicit(tt_link_word(m, TT_LINK_ARRIVED, (uint32_t)f->in_handle, s), memory_order_acquire);

                if ((uint32_t)(v >> 32) == f->in_gen && (uint32_t)v != st->arrived)
                    return true;
            }
            if (f->ready) {
                const uint64_t v = atomic_load_explicit(tt_link_word(m, TT_LINK_CREDIT, f->out_handle, s), memory_order_acquire);

                if ((uint32_t)(v >> 32) == f->out_gen && (uint32_t)v != st->credit)
                    return true;
            }
        }
    }
    return false;
}

/* ---- life ------------------------------------------------------------------------------------------------------------ */

static void restore_input(struct tt_op *op)
{
    if (op->backup_bytes)
        memcpy(op->backup_of, op->backup, op->backup_bytes);
    op->backup_bytes = 0;
}

/* Gives back what the operation holds. Memory that peers may still write into after a failure stays out of use. */
static void release(struct tt_op *op, bool failed)
{
    struct tt_engine *e = op->context->engine;

    drop_regions(op);
    for (uint32_t i = 0; i < op->exec.npeers; i++) {
        struct tt_flow *f = &op->flow[i];

        if (f->cp && f->in_handle >= 0 && !failed) {
            give_handle(f->cp->peer, f->in_handle);
            tt_landing_put(e->pool[wire_index(e, f->cp->peer->wire)], &f->landing);
        }
        f->cp = NULL;           /* flow_of makes it new */
    }
    e->ops[op->slot] = NULL;
}

static void unlink_op(struct tt_op **at, struct tt_op *op)
{
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
}

/* Ends an exposed or waiting operation. Its memory stays until the application frees the request. */
static void end_op(struct tt_op *op, tutti_status status, const char *why)
{
    struct tt_context *c = op->context;

    if (op->exposed) {
        unlink_op(&c->active, op);
        c->nactive--;
        if (status)
            restore_input(op);
        if (!op->kept)
            release(op, status != TUTTI_OK);
    }
    if (!op->p2p) {
        struct tt_history *h = &c->history[op->seq % TT_HISTORY];

        *h = (struct tt_history){ .opseq = op->seq, .desc = op->desc, .used = true };
    }
    if (status)
        snprintf(op->why, sizeof op->why, "%s", why);
    atomic_store_explicit(&op->status, (int)status, memory_order_release);
    tt_engine_wake(c->engine);
}

/* ---- straight programs: eager steps in program order ---------------------------------------------------- */

/* Where a step reads: memory, or the eager message that the pipe's writer waited for. */
static const uint8_t *operand(const struct tt_op *op, const struct tt_ref *ref, int8_t writer)
{
    const struct tt_exec_step *w;

    if (writer < 0)
        return buffer_of(op, ref->buf) + ref->offset;
    w = &op->exec.step[writer];
    return eager_payload(op, w->peer, w->s.tag);
}

static void operand_consumed(struct tt_op *op, int8_t writer)
{
    if (writer >= 0)
        eager_consumed(op, op->exec.step[writer].peer, op->exec.step[writer].s.tag);
}

static bool straight_put(struct tt_op *op, const struct tt_exec_step *t)
{
    struct tt_flow *f = flow_of(op, t->peer);

    if (!f || f->cp->peer->state != TT_PEER_UP || !has_eager_credit(op, f) ||
        !send_cell(op, f, TT_CELL_EAGER, t->s.tag, t->s.bytes ? operand(op, &t->s.a, t->writer_a) : NULL, (uint32_t)t->s.bytes))
        return false;
    f->cp->eager_out++;
    return true;
}

/* False: the step cannot go yet. */
static bool straight_step(struct tt_op *op, const struct tt_exec_step *t)
{
    switch (t->s.opcode) {
    case TT_PUT:
        if (!straight_put(op, t))
            return false;
        break;
    case TT_WAIT:
        if (!t->arrived)
            return false;
        if (t->s.out.buf == TT_BUF_PIPE && t->s.bytes)
            return true;        /* its reader finds it */
        if (t->s.bytes)
            memcpy(buffer_of(op, t->s.out.buf) + t->s.out.offset, eager_payload(op, t->peer, t->s.tag), t->s.bytes);
        eager_consumed(op, t->peer, t->s.tag);
        return true;
    case TT_COPY:
        memcpy(buffer_of(op, t->s.out.buf) + t->s.out.offset, operand(op, &t->s.a, t->writer_a), t->s.bytes);
        break;
    default:
        (t->s.finish ? op->kernel_finish : op->kernel)(
            buffer_of(op, t->s.out.buf) + t->s.out.offset, NULL, operand(op, &t->s.a, t->writer_a),
            operand(op, &t->s.b, t->writer_b), t->s.bytes >> op->elem_shift, false, op->conf.coll.nranks);
        operand_consumed(op, t->writer_b);
    }
    operand_consumed(op, t->writer_a);
    return true;
}

static bool run_straight(struct tt_op *op)
{
    struct tt_exec *x = &op->exec;
    const uint32_t before = x->head;

    x->progress = false;
    while (x->head != x->tail && straight_step(op, &x->step[x->head]))
        x->head++;
    if (x->head != x->tail && x->step[x->head].s.opcode == TT_PUT)
        op->retry = true;
    return x->head != before;
}

/* ---- running ----------------------------------------------------------------------------------------------- */

static bool failed(const struct tt_op *op)
{
    return atomic_load_explicit(&((struct tt_op *)(uintptr_t)op)->status, memory_order_relaxed) != TUTTI_PENDING;
}

/* Performs what the executor finds to do, until it finds nothing. */
static bool run_actions(struct tt_op *op)
{
    struct tt_exec *x = &op->exec;
    struct tt_action a;
    bool any = false;

    for (;;) {
        if (op->scanned != x->loaded)
            take_early(op);
        if (failed(op) || !tt_exec_next(x, &a))
            return any;
        if (perform(op, &a)) {
            any = true;
        } else {
            tt_exec_left(x, &a);
            op->retry = true;
        }
    }
}

bool tt_op_run(struct tt_op *op)
{
    struct tt_exec *x = &op->exec;
    bool any;

    if (!x->straight)
        look_at_flows(op);
    if (!x->progress && !x->credit_due && !op->retry)
        return false;
    op->retry = false;
    if (x->straight) {
        if (op->scanned != x->loaded)
            take_early(op);
        any = !failed(op) && run_straight(op);
    } else {
        any = run_actions(op);
    }
    if (failed(op))
        return true;
    if (tt_exec_finished(x) && !op->in_flight) {
        end_op(op, TUTTI_OK, "");
        tt_ops_expose(op->context);
        return true;
    }
    return any;
}

void tt_op_sent(struct tt_engine *e, uint64_t cookie)
{
    const uint32_t slot = (uint32_t)(cookie >> COOKIE_SLOT_SHIFT);
    struct tt_op *op = slot < e->ops_cap ? e->ops[slot] : NULL;

    if (!op || op->generation != (uint8_t)(cookie >> COOKIE_GEN_SHIFT))
        return;
    op->in_flight--;
    tt_exec_sent(&op->exec, (uint8_t)(cookie >> COOKIE_STEP_SHIFT), (uint32_t)cookie);
}

static bool take_slot(struct tt_engine *e, struct tt_op *op)
{
    for (uint32_t i = 0; i < e->ops_cap; i++)
        if (!e->ops[i]) {
            e->ops[i] = op;
            op->slot = (uint16_t)i;
            op->generation = ++e->ops_generation;
            return true;
        }
    return false;
}

/* Keeps a copy of what this call will overwrite of its own input. */
static void back_up(struct tt_op *op)
{
    const struct tt_coll *c = &op->conf.coll;

    op->backup_bytes = 0;
    if (!op->conf.restore || !c->in_place)
        return;
    op->backup_of = op->conf.dst;
    switch (c->kind) {
    case TT_ALLREDUCE: op->backup_bytes = c->bytes; break;
    case TT_REDUCE: op->backup_bytes = c->rank == c->root ? c->bytes : 0; break;
    case TT_REDUCE_SCATTER: op->backup_bytes = c->bytes; break;
    case TT_REDUCE_SCATTERV: op->backup_bytes = c->send_bytes[c->rank]; break;
    case TT_ALLTOALL: op->backup_bytes = c->bytes * c->nranks; break;
    default: break;             /* the others do not overwrite their input */
    }
    if (op->backup_bytes > op->backup_cap) {
        free(op->backup);
        op->backup = malloc(op->backup_bytes);
        op->backup_cap = op->backup ? op->backup_bytes : 0;
        if (!op->backup) {
            tt_log(TT_LOG_WARN, "no memory to keep %llu bytes of in-place input: a failure will not restore it",
                   (unsigned long long)op->backup_bytes);
            op->backup_bytes = 0;
        }
    }
    if (op->backup_bytes)
        memcpy(op->backup, op->backup_of, op->backup_bytes);
}

/* Whether a rank that was here before has called something else as this operation: then the context has failed. */
static bool contradicted(struct tt_op *op)
{
    struct tt_context *c = op->context;

    for (struct tt_peer *p = c->engine->up; p; p = p->next_up) {
        struct tt_context_peer *cp = c->peers[p->rank];

        if (cp && op->p2p && index_in(c, cp) != op->conf.coll.root)
            continue;           /* each pair counts for itself */
        for (uint64_t left = cp ? cp->kept : 0; left; left &= left - 1) {
            const struct tt_early *m = &cp->early[__builtin_ctzll(left)];

            if (m->opseq != op->seq || tt_is_p2p(m->desc.kind) != op->p2p || (op->p2p && m->desc.kind == op->desc.kind))
                continue;
            if (!same_desc(&m->desc, &op->desc)) {
                mismatch(c, index_in(c, cp), &m->desc, &op->desc, op->seq, "");
                return true;
            }
        }
    }
    return false;
}

/* From here on peers can meet it. */
static void join_active(struct tt_op *op)
{
    struct tt_context *c = op->context;
    struct tt_op **at = &c->active;

    op->exposed = true;
    op->scanned = UINT32_MAX;
    op->now = NULL;
    op->retry = true;
    op->next = NULL;
    while (*at)
        at = &(*at)->next;
    *at = op;
    c->nactive++;
    back_up(op);
}

static void expose(struct tt_op *op)
{
    struct tt_context *c = op->context;
    const struct tt_exec_conf conf = {
        .algo = op->conf.algo, .coll = &op->conf.coll, .segment_bytes = op->conf.segment_bytes,
        .eager_bytes = op->conf.eager_bytes, .streams = op->conf.streams, .depth = op->conf.depth,
    };

    if (!take_slot(c->engine, op)) {
        end_op(op, TUTTI_ERR_NOMEM, "too many operations run at once");
        return;
    }
    op->in_flight = 0;
    join_active(op);
    tt_exec_init(&op->exec, &conf, op->exec_peers, op->peers_max);
    if (!contradicted(op))
        tt_op_run(op);
}

void tt_ops_expose(struct tt_context *c)
{
    while (c->waiting && c->nactive < TT_OPS_EXPOSED) {
        struct tt_op *op = c->waiting;

        c->waiting = op->next;
        if (!c->waiting)
            c->waiting_end = &c->waiting;
        c->nwaiting--;
        expose(op);
    }
}

void tt_ops_fail(struct tt_context *c)
{
    const tutti_status st = (tutti_status)atomic_load(&c->status);

    while (c->active)
        end_op(c->active, st, c->why);
    while (c->waiting) {
        struct tt_op *op = c->waiting;

        c->waiting = op->next;
        c->nwaiting--;
        end_op(op, st, c->why);
    }
    c->waiting_end = &c->waiting;
}

static void free_op(struct tt_op *op)
{
    if (op->stage)
        munmap(op->stage, op->stage_bytes);
    free(op->backup);
    free(op->work);
    free(op->arrays);
    free(op->flow);
    free(op->exec_peers);
    free(op);
}

void tt_ops_free_all(struct tt_engine *e)
{
    while (e->free_ops) {
        struct tt_op *op = e->free_ops;

        e->free_ops = op->next;
        free_op(op);
    }
}

/* An operation with room for its peers and work memory, from those that ended before if one is there. */
static struct tt_op *get_op(struct tt_engine *e, uint32_t peers_max, uint64_t work_bytes)
{
    struct tt_op *op = e->free_ops;

    if (op)
        e->free_ops = op->next;
    else
        op = calloc(1, sizeof *op);
    if (!op)
        return NULL;
    if (peers_max > op->peers_cap) {
        free(op->flow);
        free(op->exec_peers);
        op->flow = calloc(peers_max, sizeof *op->flow);
        op->exec_peers = calloc(peers_max, sizeof *op->exec_peers);
        op->peers_cap = op->flow && op->exec_peers ? peers_max : 0;
        if (!op->peers_cap)
            goto put;
    }
    op->peers_max = peers_max;
    if (work_bytes > op->work_cap) {
        free(op->work);
        op->work = malloc(work_bytes);
        op->work_cap = op->work ? work_bytes : 0;
        if (!op->work)
            goto put;
    }
    if (work_bytes)
        memset(op->work, 0, work_bytes);
    return op;

put:
    op->next = e->free_ops;
    e->free_ops = op;
    return NULL;
}

/* Takes copies of the v arrays, which belong to the caller. */
static bool copy_arrays(struct tt_op *op)
{
    struct tt_coll *c = &op->conf.coll;
    const uint64_t **all[] = { &c->send_bytes, &c->send_displs, &c->recv_bytes, &c->recv_displs };
    const size_t n = c->nranks;

    if (!c->send_bytes && !c->recv_bytes)
        return true;
    if (n > op->arrays_cap) {
        free(op->arrays);
        op->arrays = malloc(4 * n * sizeof *op->arrays);
        op->arrays_cap = op->arrays ? n : 0;
        if (!op->arrays)
            return false;
    }
    for (size_t i = 0; i < 4; i++)
        if (*all[i]) {
            memcpy(op->arrays + i * n, *all[i], n * sizeof **all[i]);
            *all[i] = op->arrays + i * n;
        }
    return true;
}

static tutti_status assign_key(struct tt_op *op)
{
    struct tt_context *c = op->context;
    struct tt_context_peer *cp;

    op->p2p = tt_is_p2p((uint8_t)op->conf.coll.kind);
    if (!op->p2p) {
        op->seq = c->next_seq++;
        return TUTTI_OK;
    }
    cp = tt_context_peer_of(c, c->ranks[op->conf.coll.root]);
    if (!cp)
        return tt_fail(TUTTI_ERR_NOMEM, "no memory for a peer");
    return tt_context_next_key(cp, op->conf.tag, op->conf.coll.kind == TT_RECV, &op->seq);
}

static tutti_status start_here(struct tt_context *c, const struct tt_op_conf *conf, struct tt_op **out)
{
    struct tt_op *op;
    tutti_status st = (tutti_status)atomic_load(&c->status);

    if (st)
        return tt_fail_again(st, c->why);
    if (c->nwaiting >= TT_OPS_WAITING)
        return tt_fail(TUTTI_ERR_NOMEM, "%u operations of one communicator are waiting already", TT_OPS_WAITING);
    op = get_op(c->engine, conf->algo->npeers(&conf->coll), conf->algo->work_bytes(&conf->coll));
    if (!op)
        return tt_fail(TUTTI_ERR_NOMEM, "no memory for an operation");
    op->context = c;
    op->conf = *conf;
    op->kept = false;
    op->exposed = false;
    if (!copy_arrays(op) || assign_key(op)) {
        op->conf.owned = NULL;
        op->next = c->engine->free_ops;
        c->engine->free_ops = op;
        return TUTTI_ERR_NOMEM;
    }
    op->desc = (struct tt_opdesc){
        .kind = (uint8_t)conf->coll.kind, .dtype = (uint8_t)conf->dtype, .redop = (uint8_t)conf->redop, .algo = conf->algo_id,
        .root = conf->coll.root, .count = conf->count,
    };
    op->elem_shift = (uint8_t)__builtin_ctz(conf->coll.elem_bytes);
    op->kernel = tt_reduce_kernel(conf->dtype, conf->redop, false);
    op->kernel_finish = tt_reduce_kernel(conf->dtype, conf->redop, true);
    op->stream_dst = tt_coll_dst_bytes(&conf->coll) >= STREAM_BYTES;
    op->why[0] = 0;
    op->deadline_ns = op->nudge_ns = 0;
    atomic_store_explicit(&op->status, TUTTI_PENDING, memory_order_relaxed);
    c->nrequests++;
    *out = op;
    if (c->nactive < TT_OPS_EXPOSED && !c->waiting) {
        expose(op);
        return TUTTI_OK;
    }
    op->next = NULL;
    *c->waiting_end = op;
    c->waiting_end = &op->next;
    c->nwaiting++;
    return TUTTI_OK;
}

static bool is_over(const struct tt_op *op)
{
    return atomic_load_explicit(&((struct tt_op *)(uintptr_t)op)->status, memory_order_acquire) != TUTTI_PENDING;
}

static bool op_done(void *arg) { return is_over(arg); }

static void free_here(struct tt_op *op)
{
    struct tt_context *c = op->context;
    struct tt_engine *e = c->engine;

    free(op->conf.owned);
    op->next = e->free_ops;
    e->free_ops = op;
    c->nrequests--;
    if (c->closed && !c->nrequests)
        tt_context_free(c);
}

/* Begins a kept operation again, if nothing is in its way. */
static bool begin_again(struct tt_op *op, const struct tt_op_conf *conf)
{
    struct tt_context *c = op->context;

    if (atomic_load_explicit(&c->status, memory_order_relaxed) || c->nactive == TT_OPS_EXPOSED || c->waiting ||
        conf->dtype != op->conf.dtype || conf->redop != op->conf.redop || conf->count != op->conf.count)
        return false;
    op->conf.tag = conf->tag;
    if (assign_key(op))
        return false;
    op->conf.src = conf->src;
    op->conf.dst = conf->dst;
    op->conf.timeout_ms = conf->timeout_ms;
    op->conf.restore = conf->restore;
    op->deadline_ns = op->nudge_ns = 0;
    atomic_store_explicit(&op->status, TUTTI_PENDING, memory_order_relaxed);
    c->nrequests++;
    tt_exec_restart(&op->exec);
    join_active(op);
    if (!contradicted(op))
        tt_op_run(op);
    return true;
}

/* After its end: keeps it for the next call, or frees it. */
static void keep_or_free(struct tt_op *op, struct tt_op **kept, tutti_status st)
{
    if (op->kept || (kept && !*kept && !st && op->exec.straight && !op->conf.owned)) {
        if (!op->kept) {
            op->context->engine->ops[op->slot] = NULL;
            *kept = op;
        }
        op->kept = true;
        op->context->nrequests--;
        return;
    }
    free_here(op);
}

tutti_status tt_op_blocking(struct tt_context *c, const struct tt_op_conf *conf)
{
    struct tt_engine *e = c->engine;
    struct tt_op *op = conf->kept ? *conf->kept : NULL;
    tutti_status st = TUTTI_OK;

    tt_baton_take(e);
    if (!op || conf->owned || !begin_again(op, conf))
        st = start_here(c, conf, &op);
    if (st) {
        free(conf->owned);
        tt_baton_give(e);
        return st;
    }
    if (!tt_engine_work(e, op_done, op)) {
        tt_baton_give(e);
        tt_engine_wait(e, op_done, op);
        tt_baton_take(e);
    }
    st = tt_op_status(op);
    keep_or_free(op, conf->kept, st);
    tt_baton_give(e);
    return st;
}

void tt_op_drop(struct tt_op *op)
{
    struct tt_engine *e;

    if (!op)
        return;
    e = op->context->engine;
    tt_baton_take(e);
    for (uint32_t i = 0; i < op->exec.npeers; i++)
        op->flow[i].cp = NULL;
    op->next = e->free_ops;
    e->free_ops = op;
    tt_baton_give(e);
}

tutti_status tt_op_start(struct tt_context *c, const struct tt_op_conf *conf, struct tt_op **out)
{
    tutti_status st;

    tt_baton_take(c->engine);
    st = start_here(c, conf, out);
    if (st)
        free(conf->owned);
    tt_baton_give(c->engine);
    return st;
}

bool tt_op_test(struct tt_op *op)
{
    struct tt_engine *e = op->context->engine;

    if (!is_over(op) && tt_baton_try(e)) {
        tt_engine_progress(e);
        tt_baton_give(e);
    }
    return is_over(op);
}

void tt_op_wait(struct tt_op *op)
{
    if (!is_over(op))
        tt_engine_wait(op->context->engine, op_done, op);
}

struct any {
    struct tt_op **ops;
    size_t n, index;
};

static bool any_done(void *arg)
{
    struct any *any = arg;

    for (size_t i = 0; i < any->n; i++)
        if (any->ops[i] && is_over(any->ops[i])) {
            any->index = i;
            return true;
        }
    return false;
}

size_t tt_op_wait_any(struct tt_op **ops, size_t n)
{
    struct any any = { .ops = ops, .n = n };
    size_t first = 0;

    while (!ops[first])
        first++;
    if (!any_done(&any))
        tt_engine_wait(ops[first]->context->engine, any_done, &any);
    return any.index;
}

tutti_status tt_op_status(struct tt_op *op)
{
    const tutti_status st = (tutti_status)atomic_load_explicit(&op->status, memory_order_acquire);

    if (st > TUTTI_PENDING)
        tt_fail_again(st, op->why);
    return st;
}

void tt_op_free(struct tt_op *op)
{
    struct tt_engine *e = op->context->engine;

    tt_baton_take(e);
    if (!is_over(op))
        tt_context_fail_here(op->context, TUTTI_ERR_ABORTED, "an operation was cancelled while it ran", true);
    free_here(op);
    tt_baton_give(e);
}

/* ---- delivery ---------------------------------------------------------------------------------------------------------- */

struct tt_op *tt_op_find(struct tt_context *c, uint32_t from, uint64_t opseq, bool p2p, uint8_t kind)
{
    for (struct tt_op *op = c->active; op; op = op->next)
        if (op->seq == opseq && op->p2p == p2p && (!p2p || (op->desc.kind != kind && op->conf.coll.root == from)))
            return op;
    return NULL;
}

/* A message for a collective that is over here: its descriptor must have been the same. */
static void check_history(struct tt_context *c, uint32_t index, const struct tt_mail *mail)
{
    const struct tt_history *h = &c->history[mail->cell.opseq % TT_HISTORY];

    if (h->used && h->opseq == mail->cell.opseq && !same_desc(&mail->cell.desc, &h->desc))
        mismatch(c, index, &mail->cell.desc, &h->desc, mail->cell.opseq, "");
}

static bool deliver_eager(struct tt_op *op, struct tt_context_peer *cp, uint32_t index, const struct tt_mail *mail)
{
    const int i = tt_exec_peer_of(&op->exec, index);
    tutti_status st = TUTTI_ERR_INVALID;

    if (i >= 0 && flow_of(op, (uint16_t)i))
        st = tt_exec_eager(&op->exec, (uint16_t)i, mail->cell.tag, mail->bytes);
    if (st == TUTTI_ERR_MISMATCH) {
        mismatch(op->context, index, &mail->cell.desc, &op->desc, op->seq, ": the sizes between the two differ");
        return true;
    }
    if (st == TUTTI_OK) {
        op->now = mail;
        op->now_from = cp;
        tt_op_run(op);
        if (is_over(op) || !op->now)
            return true;
        op->now = NULL;
    }
    return tt_early_keep(cp, mail, st == TUTTI_OK) == TUTTI_OK;
}

static bool deliver_ready(struct tt_op *op, uint32_t index, struct tt_context_peer *cp, const struct tt_mail *mail)
{
    const int i = tt_exec_peer_of(&op->exec, index);

    if (i < 0)
        return tt_early_keep(cp, mail, false) == TUTTI_OK;
    if (!take_ready(op, (uint16_t)i, mail->payload, mail->bytes))
        return false;
    tt_op_run(op);
    return true;
}

/* Whether the collective with this number has been called and waits to be exposed. */
static bool is_waiting(const struct tt_context *c, uint64_t opseq)
{
    for (const struct tt_op *op = c->waiting; op; op = op->next)
        if (!op->p2p && op->seq == opseq)
            return true;
    return false;
}

bool tt_deliver(struct tt_engine *e, struct tt_peer *p, const struct tt_mail *mail)
{
    struct tt_context *c = tt_context_of(e, mail->cell.context);
    struct tt_context_peer *cp = c ? tt_context_peer_of(c, p->rank) : NULL;
    const bool p2p = tt_is_p2p(mail->cell.desc.kind);
    struct tt_op *op;
    uint32_t index;

    if (!cp) {
        tt_fail(TUTTI_ERR_PROTOCOL, "rank %u uses more communicators than there can be", p->rank);
        return false;
    }
    cp->eager_out -= mail->credits < cp->eager_out ? mail->credits : cp->eager_out;
    if (mail->type == TT_CELL_CREDIT || atomic_load(&c->status))
        return true;
    if (mail->type < TT_CELL_EAGER || mail->type > TT_CELL_NUDGE || mail->cell.desc.kind >= TT_COLL_KINDS) {
        tt_fail(TUTTI_ERR_PROTOCOL, "rank %u sent a message of unknown type %u", p->rank, mail->type);
        return false;
    }
    index = index_in(c, cp);
    op = c->ranks ? tt_op_find(c, index, mail->cell.opseq, p2p, mail->cell.desc.kind) : NULL;
    if (op && index != UINT32_MAX) {
        if (!same_desc(&mail->cell.desc, &op->desc))
            mismatch(c, index, &mail->cell.desc, &op->desc, op->seq, "");
        else if (mail->type == TT_CELL_EAGER)
            return deliver_eager(op, cp, index, mail);
        else if (mail->type == TT_CELL_READY)
            return deliver_ready(op, index, cp, mail);
        return true;
    }
    if (c->ranks && !p2p && mail->cell.opseq < c->next_seq && !is_waiting(c, mail->cell.opseq)) {
        check_history(c, index, mail);
        return true;
    }
    return tt_early_keep(cp, mail, false) == TUTTI_OK;
}

/* ---- reports --------------------------------------------------------------------------------------------------------------- */

uint32_t tt_op_waits_for(const struct tt_op *op)
{
    const uint32_t r = op->exposed ? tt_exec_waits_for(&op->exec) : UINT32_MAX;

    return r == UINT32_MAX ? r : op->context->ranks[r];
}

void tt_opdesc_print(const struct tt_opdesc *d, char *out, size_t cap)
{
    const char *algo = d->algo < tt_nalgos ? tt_algos[d->algo]->name : "?";

    if (tt_is_p2p(d->kind))
        snprintf(out, cap, "%s(%llu bytes)", tt_coll_name((enum tt_coll_kind)d->kind), (unsigned long long)d->count);
    else if (d->kind == TT_BARRIER)
        snprintf(out, cap, "barrier()");
    else
        snprintf(out, cap, "%s(count %llu, type %s, op %s, root %u, algorithm %s)", tt_coll_name((enum tt_coll_kind)d->kind),
                 (unsigned long long)d->count, tutti_dtype_name((tutti_dtype)d->dtype), tutti_redop_name((tutti_redop)d->redop),
                 d->root, algo);
}

void tt_op_describe(const struct tt_op *op, char *out, size_t cap)
{
    const struct tt_step *t = op->exposed ? tt_exec_oldest(&op->exec) : NULL;
    const uint32_t peer = tt_op_waits_for(op);
    char what[160], step[96] = "not begun", whom[48] = "nobody";

    tt_opdesc_print(&op->desc, what, sizeof what);
    if (t)
        snprintf(step, sizeof step, "%s of %llu bytes, round %llu of %llu", t->opcode == TT_PUT ? "put" : t->opcode == TT_WAIT ? "wait" : "local work",
                 (unsigned long long)t->bytes, (unsigned long long)op->exec.round, (unsigned long long)op->exec.nrounds);
    if (peer != UINT32_MAX)
        snprintf(whom, sizeof whom, "rank %u", peer);
    snprintf(out, cap, "%s, operation %llu, in %s, waiting for %s", what, (unsigned long long)(op->p2p ? op->seq & 0xffffffff : op->seq),
             step, whom);
}

void tt_op_nudge(struct tt_op *op)
{
    const uint32_t r = op->exposed ? tt_exec_waits_for(&op->exec) : UINT32_MAX;
    const int i = r == UINT32_MAX ? -1 : tt_exec_peer_of(&op->exec, r);
    struct tt_flow *f = i < 0 ? NULL : flow_of(op, (uint16_t)i);

    if (f && !f->nudged && f->cp->peer->state == TT_PEER_UP)
        f->nudged = send_cell(op, f, TT_CELL_NUDGE, 0, NULL, 0);
}
