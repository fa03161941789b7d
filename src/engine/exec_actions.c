/* Performs the executor's actions on real memory and wires. */
#include "engine/exec_actions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "engine/connect.h"
#include "engine/context.h"
#include "engine/context_end.h"
#include "engine/op_trace.h"
#include "engine/peers.h"
#include "engine/quantized.h"
#include "wire/registry.h"

/* Cookie of a put, returned on local completion: slot, generation, step, seq. */
#define COOKIE_STEP_SHIFT 32
#define COOKIE_GEN_SHIFT 38
#define COOKIE_GEN_BITS 13
#define COOKIE_SLOT_SHIFT 51
/* bits that are equal for all puts of an operation */
#define COOKIE_OF_OP (~0ull << COOKIE_GEN_SHIFT)
_Static_assert(TT_OPS_MAX <= 1u << (64 - COOKIE_SLOT_SHIFT), "a slot fits");
_Static_assert(TT_EXEC_STEPS <= 1 << (COOKIE_GEN_SHIFT - COOKIE_STEP_SHIFT), "a step fits");
_Static_assert(COOKIE_GEN_SHIFT + COOKIE_GEN_BITS == COOKIE_SLOT_SHIFT, "a generation fits");

/* maximum gap between two buffers that are registered as one */
#define GAP_BYTES_MAX 8192u
/* rate that the slots of a flow over a long link allow (1 Gbit/s) */
#define FAR_BYTES_PER_US 125ull
/* maximum receive memory of all flows of an operation with such slots; only the used part is
 * touched */
#define FAR_LANDING_MAX (64ull << 20)
#define FAR_DEPTH_MAX 128u
/* maximum total size of all ranks' buffers for which messages are read from several pages at
 * once */
#define FROM_FAR_BYTES_MAX (512u << 10)

static uint64_t cookie_gen(uint64_t generation)
{
    return generation & ((1u << COOKIE_GEN_BITS) - 1);
}

/* Returns the common bits of the cookies of all puts of the operation. */
static uint64_t cookie_of(const struct tt_op *op)
{
    return (uint64_t)op->slot << COOKIE_SLOT_SHIFT | cookie_gen(op->generation) << COOKIE_GEN_SHIFT;
}

/* ---- addresses ------------------------------------------------------------------------------- */

uint8_t *tt_op_buffer(const struct tt_op *op, uint8_t buf)
{
    switch (buf) {
    case TT_BUF_SRC: return (uint8_t *)(uintptr_t)op->conf.src;
    case TT_BUF_DST: return op->conf.dst;
    default: return op->work;
    }
}

static uint64_t slot_offset(const struct tt_op *op, const struct tt_place *at)
{
    const struct tt_exec_peer *p = &op->exec_peers[at->peer];
    const uint64_t depth = at->kind == TT_AT_SLOT ? p->in_depth : p->out_depth;

    return (at->stream * depth + at->slot) * op->conf.segment_bytes;
}

uint64_t tt_op_landing_bytes(const struct tt_op *op, uint32_t depth)
{
    return (uint64_t)op->conf.streams * depth * op->conf.segment_bytes;
}

/* Returns the number of slots per stream from a peer. A released slot is filled again after one
 * round trip. The sender would wait if the slots held less than FAR_BYTES_PER_US sends in that
 * time. Near peers use the plan's depth, because few slots stay in the cache. */
static uint8_t depth_for(const struct tt_op *op, const struct tt_peer *p)
{
    const uint64_t far_bytes = p->round_trip_ns / 1000 * FAR_BYTES_PER_US;
    uint32_t depth = op->conf.depth;

    while (depth * op->conf.segment_bytes < far_bytes && depth < FAR_DEPTH_MAX &&
           op->exec.peers_max * tt_op_landing_bytes(op, 2 * depth) <= FAR_LANDING_MAX)
        depth *= 2;
    return (uint8_t)depth;
}

/* Returns the staging memory. All of it is reserved at once, and only the used part is touched.
 * NULL: out of memory. */
static uint8_t *stage_of(struct tt_op *op)
{
    if (op->stage && op->stage_bytes < TT_EXEC_STAGES * op->conf.segment_bytes) {
        munmap(op->stage, op->stage_bytes);
        op->stage = NULL;
    }
    if (!op->stage) {
        op->stage_bytes = TT_EXEC_STAGES * op->conf.segment_bytes;
        op->stage = mmap(NULL, op->stage_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (op->stage == MAP_FAILED)
            op->stage = NULL;
    }
    return op->stage;
}

static struct tt_unexpected *unexpected_of(const struct tt_op *op, uint16_t peer, uint32_t tag)
{
    struct tt_context_peer *cp = op->flow[peer].cp;
    struct tt_unexpected *m;
    uint32_t at = 0;

    while ((m = tt_unexpected_find(cp, &at, op->seq, op->p2p, op->desc.kind, TT_CELL_EAGER))) {
        if (m->tag == tag && m->claimed)
            return m;
        at++;
    }
    return NULL;
}

const uint8_t *tt_op_eager_payload(const struct tt_op *op, uint16_t peer, uint32_t tag)
{
    const struct tt_unexpected *m;

    if (op->now && op->now_from == op->flow[peer].cp && op->now->cell.tag == tag)
        return op->now->payload;
    m = unexpected_of(op, peer, tag);
    tt_assert(m);
    return m->payload;
}

/* Returns the address of a contiguous place. */
static uint8_t *place_address(struct tt_op *op, const struct tt_place *at)
{
    const struct tt_flow *f;

    switch (at->kind) {
    case TT_AT_BUF:
        return tt_op_buffer(op, at->ref.buf) + at->ref.offset + at->skip;
    case TT_AT_SLOT:
        f = &op->flow[at->peer];
        return (uint8_t *)f->landing.region->mem + f->landing.offset + slot_offset(op, at);
    case TT_AT_REMOTE:
        f = &op->flow[at->peer];
        return (uint8_t *)f->landing_key.mapped + f->landing_offset + slot_offset(op, at);
    case TT_AT_STAGE:
        return stage_of(op) + at->slot * op->conf.segment_bytes;
    case TT_AT_EAGER:
        return (uint8_t *)(uintptr_t)tt_op_eager_payload(op, at->peer, at->slot) + at->skip;
    default:
        return NULL;
    }
}

static bool place_is_strided(const struct tt_place *at)
{
    return at->kind == TT_AT_BUF && at->ref.block;
}

/* Returns the address of the piece of a strided place at byte `pos` of its sequence, and its
 * remaining length. */
static uint8_t *place_piece(struct tt_op *op, const struct tt_place *at, uint64_t pos,
                            uint64_t *len)
{
    const uint64_t i = (at->skip + pos) / at->ref.block, in = (at->skip + pos) % at->ref.block;

    *len = at->ref.block - in;
    return tt_op_buffer(op, at->ref.buf) + at->ref.offset + i * at->ref.stride + in;
}

/* Copies if one or both sides are strided. */
static void copy_strided(struct tt_op *op, const struct tt_place *to, const struct tt_place *from,
                         uint64_t bytes)
{
    for (uint64_t pos = 0; pos < bytes;) {
        uint64_t n = bytes - pos, m = bytes - pos;
        uint8_t *d =
            place_is_strided(to) ? place_piece(op, to, pos, &n) : place_address(op, to) + pos;
        const uint8_t *s =
            place_is_strided(from) ? place_piece(op, from, pos, &m) : place_address(op, from) + pos;
        uint64_t len = n < m ? n : m;

        if (len > bytes - pos)
            len = bytes - pos;
        tt_copy(d, NULL, s, len, false);
        pos += len;
    }
}

static void gather_place(struct tt_op *op, const struct tt_place *from, uint64_t skip, uint8_t *out,
                         uint64_t bytes)
{
    for (uint64_t pos = 0; pos < bytes;) {
        uint64_t n;
        const uint8_t *s = place_piece(op, from, skip + pos, &n);

        if (n > bytes - pos)
            n = bytes - pos;
        tt_copy(out + pos, NULL, s, n, false);
        pos += n;
    }
}

/* ---- resources of an action ------------------------------------------------------------------ */

/* Looks up the flows with the peer of an action on first use; connects if necessary. NULL: out
 * of memory (the context has failed). */
struct tt_flow *tt_op_flow(struct tt_op *op, uint16_t i)
{
    struct tt_flow *f = &op->flow[i];

    if (f->cp)
        return f;
    f->in_handle = -1;
    f->ready = f->probe_sent = f->probe_received = false;
    f->direct = NULL;
    memset(f->gathered, 0, sizeof f->gathered);
    f->trace = (struct tt_dump_flow){ 0 };
    f->cp = tt_context_peer_of(op->context, op->context->ranks[op->exec_peers[i].rank]);
    if (!f->cp) {
        tt_context_fail_here(op->context, TUTTI_ERR_NOMEM, "out of memory for the state of a peer",
                             true);
        return NULL;
    }
    if (f->cp->peer->state == TT_PEER_NONE)
        tt_peer_connect(op->context->engine, f->cp->peer);
    return f->cp ? f : NULL;    /* the context may have failed meanwhile */
}

static struct tt_cell cell_of(const struct tt_op *op, uint32_t tag)
{
    return (struct tt_cell){
        .context = op->context->id, .tag = tag, .opseq = op->seq, .desc = op->desc
    };
}

static uint8_t take_credits_due(struct tt_context_peer *cp)
{
    const uint8_t n = cp->credits_due > 255 ? 255 : (uint8_t)cp->credits_due;

    return n;
}

bool tt_op_send_cell(struct tt_op *op, struct tt_flow *f, enum tt_cell_type type, uint32_t tag,
                     const void *payload, uint32_t bytes)
{
    struct tt_cell cell = cell_of(op, tag);
    const uint8_t owed = take_credits_due(f->cp);
    struct tt_mailbox *mail = &f->cp->peer->mail;
    bool sent;

    if (op->eager.tried)
        mail->stores = op->eager.stores;
    sent = tt_mail_send(mail, &cell, type, owed, payload, bytes);
    mail->stores = TT_COPY_UNDECIDED;
    if (!sent)
        return false;
    f->cp->credits_due -= owed;
    return true;
}

/* Deregisters the operation's memory from a wire. settled: all data from peers has arrived. */
static void drop_wire_regions(struct tt_wire *w, struct tt_op_regions *r, bool settled)
{
    struct tt_region *const all[] = { r->src, r->dst, r->stage, r->work };

    if (r->dst)
        r->dst->settled = settled;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k])
            w->ops->dereg(all[k]);
    *r = (struct tt_op_regions){ .made = false };
}

/* Returns whether the result consists of distant buffers (in an exchange of stretches). The memory
 * between them must not be registered. */
static bool is_scattered(const struct tt_coll *c)
{
    uint64_t own = 0;

    if (!c->stretches)
        return false;
    for (uint32_t r = 0; r < c->nranks; r++)
        own += c->recv_bytes[r] + GAP_BYTES_MAX;
    return tt_coll_dst_bytes(c) > own;
}

/* Checks that the caller's buffers may be registered with the wire. */
static tutti_status registry_admits(const struct tt_op *op, const struct tt_wire *w)
{
    const struct tt_coll *c = &op->conf.coll;
    tutti_status st = TUTTI_OK;

    if (!(w->caps & TT_WIRE_CAP_PINS))
        return TUTTI_OK;
    if (op->conf.src && tt_coll_src_bytes(c))
        st = tt_registry_check_use(op->conf.src, tt_coll_src_bytes(c));
    if (!st && op->conf.dst && tt_coll_dst_bytes(c) && !is_scattered(c))
        st = tt_registry_check_use(op->conf.dst, tt_coll_dst_bytes(c));
    return st;
}

/* Registers the operation's memory with a wire that accesses it asynchronously. On an error, the
 * context fails. */
static tutti_status need_regions(struct tt_op *op, struct tt_wire *w)
{
    struct tt_engine *e = op->context->engine;
    struct tt_op_regions *r = &op->regions[tt_op_wire_index(e, w)];
    const struct tt_coll *c = &op->conf.coll;
    char why[TT_ERROR_BYTES];
    tutti_status st;
    uint64_t began;

    if (r->made)
        return TUTTI_OK;
    began = tt_tick_now();
    st = stage_of(op) ? registry_admits(op, w)
                      : tt_fail(TUTTI_ERR_NOMEM, "out of memory for the buffers of an operation");
    if (!st && op->conf.src && tt_coll_src_bytes(c))
        st = tt_wire_source(w, (void *)(uintptr_t)op->conf.src, tt_coll_src_bytes(c), &r->src);
    if (!st && op->conf.dst && tt_coll_dst_bytes(c) && !is_scattered(c))
        st = w->ops->reg(w, op->conf.dst, tt_coll_dst_bytes(c), &r->dst);
    if (!st)
        st = tt_wire_source(w, stage_of(op), op->stage_bytes, &r->stage);
    if (!st && op->work)
        st = tt_wire_source(w, op->work, op->conf.algo->work_bytes(c), &r->work);
    if (st) {
        drop_wire_regions(w, r, true);
        snprintf(why, sizeof why, "%s", tutti_last_error());
        tt_context_fail_here(op->context, st, why, true);
        return st;
    }
    r->made = true;
    began = tt_tick_now() - began;
    op->stages.of[TT_STAGE_REGISTER] += began;
    op->stages.nested += began;
    e->nregistered[tt_op_wire_index(e, w)]++;
    return TUTTI_OK;
}

void tt_op_take_back_puts(struct tt_op *op)
{
    const struct tt_engine *e = op->context->engine;

    for (uint32_t i = 0; i < e->nwires; i++)
        if (e->wire[i]->ops->take_back)
            e->wire[i]->ops->take_back(e->wire[i], cookie_of(op), COOKIE_OF_OP);
}

void tt_op_drop_regions(struct tt_op *op, bool settled)
{
    struct tt_engine *e = op->context->engine;

    for (uint32_t i = 0; i < e->nwires; i++) {
        if (!op->regions[i].made)
            continue;
        drop_wire_regions(e->wire[i], &op->regions[i], settled);
        e->nregistered[i]--;
    }
}

bool tt_op_is_registered(const struct tt_op *op, const struct tt_region *r)
{
    for (uint32_t i = 0; i < TT_ENGINE_WIRES_MAX; i++)
        if (r == op->regions[i].dst)
            return true;
    return false;
}

/* Returns whether this is the oldest active collective of its context. Other operations must leave
 * it the resources that it needs to complete. */
static bool is_oldest_collective(const struct tt_op *op)
{
    const struct tt_op *o = op->p2p ? NULL : op->context->active;

    while (o && o->p2p)
        o = o->next;
    return !op->p2p && (!o || o == op);
}

/* Returns a handle for a flow to this operation, or -1. A share is reserved for the oldest
 * collective of each context, because ranks may use communicators in different orders. Messages
 * whose sender already waits may use it too, since they complete without further resources. */
static int take_handle(struct tt_peer *p, const struct tt_op *op, const struct tt_flow *f)
{
    const bool first = op->p2p ? f->probe_received : is_oldest_collective(op);
    struct tt_handles *h = p->handles;

    if (!h)
        p->handles = h = calloc(1, sizeof *h);
    if (!h || (h->nused >= TT_HANDLES_SHARED && !first))
        return -1;
    for (uint32_t i = 0; i < TT_HANDLES / 64; i++)
        if (~h->used[i]) {
            const uint32_t b = (uint32_t)__builtin_ctzll(~h->used[i]);

            h->used[i] |= 1ull << b;
            h->nused++;
            return (int)(i * 64 + b);
        }
    return -1;
}

/* Returns the region of tutti_mem_alloc that contains the final buffer, or NULL. */
static struct tt_region *allocated_region(const struct tt_op *op, const struct tt_wire *w,
                                          uint64_t *offset)
{
    struct tt_engine *e = op->context->engine;

    for (uint32_t i = 0; i < e->nallocated; i++) {
        struct tt_region *r = e->allocated[i];
        const uint8_t *dst = op->conf.dst;

        if (r->wire != w || dst < (uint8_t *)r->mem || dst >= (uint8_t *)r->mem + r->bytes)
            continue;
        if (!r->key.bytes ||
            tt_coll_dst_bytes(&op->conf.coll) > r->bytes - (uint64_t)(dst - (uint8_t *)r->mem))
            return NULL;
        *offset = (uint64_t)(dst - (uint8_t *)r->mem);
        return r;
    }
    return NULL;
}

/* Returns whether the receiver determines the destination of a flow's puts (tt_there), because the
 * sender may not have that information. Such a flow is a single put, or the stretches of one
 * block. */
static bool receiver_places(enum tt_coll_kind kind)
{
    return kind == TT_ALLTOALL || kind == TT_ALLTOALLV;
}

/* Returns whether a put of such a flow has no offset of its own, because it begins at the start of
 * the flow. */
static bool is_placed(const struct tt_op *op, const struct tt_ref *to)
{
    return to->buf == TT_BUF_THERE && !op->conf.coll.stretches;
}

/* Returns the position of the block of such a flow, to which its puts' offsets are relative. */
static uint64_t placed_at(const struct tt_op *op, const struct tt_exec_step *wait)
{
    const struct tt_coll *c = &op->conf.coll;

    if (!receiver_places(op->conf.coll.kind))
        return 0;
    return c->stretches ? c->recv_displs[wait->s.peer] : wait->s.out.offset;
}

/* Describes a copy that the operation performs, to choose its method. */
static struct tt_copy_case copy_case(struct tt_op *op, enum tt_copy_what what, uint64_t bytes)
{
    const struct tt_engine *e = op->context->engine;

    return (struct tt_copy_case){
        .what = what, .crowded = e->spins == 0, .single_only = e->single_copies,
        .beyond_cache = op->beyond_cache, .bytes = bytes, .coll = &op->conf.coll,
        .trial = &op->copies, .tuners = &op->context->copies,
    };
}

/* Returns the copy method for the data of a wait. A single copy writes to the destination or, if
 * the data will be reduced, to this process's own memory. */
static enum tt_copy_way way_of_message(struct tt_op *op, const struct tt_exec_step *wait)
{
    struct tt_copy_case c = copy_case(op, TT_COPY_MESSAGE, wait->s.bytes);

    c.fetchable = tt_coll_reduces(op->conf.coll.kind) ? !tt_op_is_quantized(op) : wait->to_dst;
    return tt_copy_choose(&c);
}

/* Returns the copy method of a put. */
static enum tt_copy_way way_of_put(struct tt_op *op, const struct tt_action *a)
{
    struct tt_copy_case c = copy_case(op, a->direct ? TT_COPY_PUT : TT_COPY_SEGMENT, a->bytes);

    c.mapped = op->flow[a->peer].direct_key.mapped;
    return tt_copy_choose(&c);
}

/* Returns the copy method of a local step that writes to a place. */
static enum tt_copy_way way_of_local(struct tt_op *op, const struct tt_place *at, uint64_t bytes)
{
    struct tt_copy_case c =
        copy_case(op, at->kind == TT_AT_REMOTE ? TT_COPY_FUSED : TT_COPY_OUTPUT, bytes);

    if (at->kind == TT_AT_REMOTE)
        c.past_cache = op->flow[at->peer].landing_key.past_cache;
    else if (at->kind != TT_AT_BUF)
        return TT_COPY_ORDINARY;
    return tt_copy_choose(&c);
}

/* Finds the region in which the peer's data can go directly to the final buffer: memory that the
 * application allocated here, or the wire's registration. *out NULL: none. */
static tutti_status choose_direct(struct tt_op *op, const struct tt_peer *p,
                                  const struct tt_exec_step *wait, struct tt_region **out,
                                  uint64_t *offset)
{
    struct tt_wire *w = p->wire;
    const bool slots = w->caps & TT_WIRE_CAP_INSTANT;   /* slots are fast on this wire */
    enum tt_copy_way way = TT_COPY_UNDECIDED;
    tutti_status st;

    *out = NULL;
    *offset = 0;
    if (op->conf.algo->direct_unsafe || !op->conf.dst || !tt_coll_dst_bytes(&op->conf.coll) ||
        is_scattered(&op->conf.coll))
        return TUTTI_OK;
    /* For puts to THERE, the single wait of the pair determines whether and where they land. In an
     * in-place call, they arrive in a pipe. */
    if (receiver_places(op->conf.coll.kind) && (!wait->to_dst || wait->s.out.buf != TT_BUF_DST))
        return TUTTI_OK;
    if (slots)
        *out = allocated_region(op, w, offset);
    if (*out || !p->anymem)
        return TUTTI_OK;
    if (slots)
        way = way_of_message(op, wait);
    if (slots && !tt_copy_is_single(way))
        return TUTTI_OK;
    st = need_regions(op, w);
    if (st)
        return st;
    *out = op->regions[tt_op_wire_index(op->context->engine, w)].dst;
    if (way == TT_COPY_PUSH && !(w->ops->admit && w->ops->admit(*out, p->rank)) && wait->to_dst)
        /* use slots, or a fetch if the flow's memory is this process's own */
        *out = NULL;
    return TUTTI_OK;
}

/* ---- the actions ----------------------------------------------------------------------------- */

/* Opens a flow: allocates a handle and receive memory, and sends the CTS. */
static bool perform_open(struct tt_op *op, const struct tt_action *a)
{
    struct tt_flow *f = tt_op_flow(op, a->peer);
    struct tt_engine *e = op->context->engine;
    const struct tt_exec_step *t = &op->exec.step[a->step];
    struct tt_cts_msg msg = { .landing = 1 };
    struct tt_region *direct;
    struct tt_peer *p;
    uint64_t offset;
    uint8_t depth;
    bool own;
    int handle;

    if (!f || f->cp->peer->state != TT_PEER_UP || !tt_mail_room(&f->cp->peer->mail, sizeof msg))
        return false;
    p = f->cp->peer;
    if (f->in_handle < 0) {
        if (op->p2p && !f->probe_received && f->cp->opened >= TT_OPENED_UNPROBED)
            return false;
        handle = take_handle(p, op, f);
        if (handle < 0)
            return false;
        own = p->anymem && p->wire->caps & TT_WIRE_CAP_INSTANT &&
              tt_coll_reduces(op->conf.coll.kind) &&
              !(t->to_dst && tt_copy_is_hot(&op->conf.coll)) &&
              tt_copy_is_single(way_of_message(op, t));
        /* registered, so that each pass polls the wire, which performs the fetch here */
        if (own && need_regions(op, p->wire)) {
            tt_peer_free_handle(p, handle);
            return false;
        }
        depth =
            own ? tt_exec_depth_of(&op->exec, t->s.bytes, p->wire->whole_bytes) : depth_for(op, p);
        if (tt_bounce_get(e->pool[tt_op_wire_index(e, p->wire)], tt_op_landing_bytes(op, depth),
                          own, &f->landing)) {
            tt_peer_free_handle(p, handle);
            tt_context_fail_here(op->context, TUTTI_ERR_NOMEM,
                                 "out of memory for arriving segments", true);
            return false;
        }
        f->in_handle = (int16_t)handle;
        tt_exec_deepen(&op->exec, a->peer, true, depth);
        f->cp->opened += op->p2p;
        f->in_gen = p->handles->gen[handle] + 1;
        tt_link_clear(&p->mail, TT_LINK_ARRIVED, (uint32_t)handle, op->conf.streams);
    }
    if (choose_direct(op, p, t, &direct, &offset))
        return false;
    msg.handle = (uint16_t)f->in_handle;
    msg.depth = op->exec_peers[a->peer].in_depth;
    msg.gen = f->in_gen;
    msg.bytes = t->s.bytes;
    msg.copies = op->copies.announced;
    msg.landing_offset = f->landing.offset;
    msg.landing_bytes = (uint8_t)f->landing.region->key.bytes;
    memcpy(msg.landing_key, f->landing.region->key.data, TT_KEY_BYTES);
    if (direct) {
        msg.direct = 1;
        msg.direct_offset = offset + placed_at(op, t);
        msg.direct_bytes = (uint8_t)direct->key.bytes;
        memcpy(msg.direct_key, direct->key.data, TT_KEY_BYTES);
    }
    if (!tt_op_send_cell(op, f, TT_CELL_CTS, 0, &msg, sizeof msg))
        return false;
    f->direct = direct;
    tt_exec_opened(&op->exec, a->peer, direct != NULL);
    return true;
}

/* Returns whether an older send to the same rank with the same tag is blocked. Messages are
 * received in this order. If later ones consumed all credits, the older one could never be sent,
 * and the receiver would wait for it forever. */
static bool is_behind_send(const struct tt_op *op, struct tt_context_peer *cp)
{
    bool is_older = true, is_behind = false;

    if (!cp->sends_blocked)
        return false;
    cp->sends_blocked = false;
    for (const struct tt_op *o = op->context->active; o; o = o->next) {
        if (o == op) {
            is_older = false;
            continue;
        }
        if (!o->p2p || o->desc.kind != TT_SEND || !o->retry ||
            o->conf.coll.root != op->conf.coll.root)
            continue;
        cp->sends_blocked = true;
        is_behind |= is_older && o->conf.tag == op->conf.tag;
    }
    return is_behind;
}

static bool has_eager_credit(const struct tt_op *op, const struct tt_context_peer *cp)
{
    return cp->eager_out < TT_EAGER_CREDIT - 1 ||
           (cp->eager_out < TT_EAGER_CREDIT && is_oldest_collective(op));
}

bool tt_op_send_eager(struct tt_op *op, struct tt_flow *f, uint32_t tag, const void *payload,
                      uint32_t bytes)
{
    struct tt_context_peer *cp = f->cp;
    const bool sent = cp->peer->state == TT_PEER_UP && has_eager_credit(op, cp) &&
                      !(op->p2p && is_behind_send(op, cp)) &&
                      tt_op_send_cell(op, f, TT_CELL_EAGER, tag, payload, bytes);

    cp->eager_out += sent;
    cp->sends_blocked |= op->p2p && !sent;
    return sent;
}

/* Releases the eager message (peer, tag). */
void tt_op_eager_consumed(struct tt_op *op, uint16_t peer, uint32_t tag)
{
    struct tt_context_peer *cp = op->flow[peer].cp;
    struct tt_unexpected *m;

    if (op->now && op->now_from == cp && op->now->cell.tag == tag) {
        op->now = NULL;
    } else {
        m = unexpected_of(op, peer, tag);
        tt_assert(m);
        tt_unexpected_drop(cp, m);
    }
    tt_context_add_credit(op->context, cp);
}

/* Releases the eager message that the place refers to, if any. */
static void place_consumed(struct tt_op *op, const struct tt_place *at)
{
    if (at->kind == TT_AT_EAGER)
        tt_op_eager_consumed(op, at->peer, at->slot);
}

static bool perform_eager(struct tt_op *op, const struct tt_action *a)
{
    struct tt_flow *f = tt_op_flow(op, a->peer);
    uint8_t room[TT_INLINE_BYTES];
    const uint8_t *from = NULL;

    if (!f)
        return false;
    if (a->bytes && place_is_strided(&a->a)) {
        gather_place(op, &a->a, 0, room, a->bytes);
        from = room;
    } else if (a->bytes) {
        from = place_address(op, &a->a);
    }
    if (!tt_op_send_eager(op, f, a->tag, from, (uint32_t)a->bytes))
        return false;
    place_consumed(op, &a->a);
    tt_op_trace_sent(f, a->bytes);
    tt_exec_taken(&op->exec, a, true);
    return true;
}

static uint64_t word_value(uint32_t gen, uint32_t count) { return (uint64_t)gen << 32 | count; }

/* Posts a descriptor, with a fence if the wire does not order signals. */
static bool post_fenced(struct tt_wire *w, const struct tt_desc *d)
{
    const struct tt_desc fenced[2] = { { .kind = TT_DESC_FENCE, .peer = d->signal_key->peer }, *d };

    if (w->caps & TT_WIRE_CAP_ORDERED)
        return w->ops->post(w, d, 1) == 1;
    return w->ops->post(w, fenced, 2) == 2;
}

/* Sends a strided source inline, in pieces, for a wire that would otherwise keep a reference to it.
 * The last piece carries the signal. If the wire has no room for all of them, returns false, and
 * the next call continues. Until the put is fully sent, it is the only one of its stream. */
static bool put_gathered(struct tt_op *op, const struct tt_action *a, struct tt_desc d)
{
    uint8_t room[TT_INLINE_BYTES];
    const struct tt_desc whole = d;
    uint64_t *gone = &op->flow[a->peer].gathered[a->stream];

    tt_assert(*gone < a->bytes);
    while (*gone < a->bytes) {
        const uint64_t pos = *gone, n = a->bytes - pos < sizeof room ? a->bytes - pos : sizeof room;

        gather_place(op, &a->a, pos, room, n);
        d.flags |= TT_DESC_INLINE;
        d.local = room;
        d.bytes = n;
        d.offset = whole.offset + pos;
        d.signal_op = pos + n == a->bytes ? TT_SIGNAL_SET : TT_SIGNAL_NONE;
        if (!post_fenced(d.key->wire, &d))
            return false;
        *gone += n;
    }
    *gone = 0;
    return true;
}

static bool perform_put(struct tt_op *op, const struct tt_action *a)
{
    struct tt_flow *f = &op->flow[a->peer];
    struct tt_peer *p = f->cp->peer;
    struct tt_wire *w = p->wire;
    bool instant;
    struct tt_desc d = {
        .kind = TT_DESC_PUT, .peer = p->rank, .bytes = a->bytes,
        .signal_op = TT_SIGNAL_SET, .signal_key = &p->mail.theirs,
        .signal_offset = tt_link_offset(TT_LINK_ARRIVED, f->out_handle, a->stream),
        .signal_value = word_value(f->out_gen, a->seq + 1),
        .cookie = cookie_of(op) | (uint64_t)a->step << COOKIE_STEP_SHIFT | a->seq,
    };

    if (p->state != TT_PEER_UP)
        return false;
    if (op->conf.lanes) {
        d.flags |= TT_DESC_FEW_LANES;
        d.lane = op->conf.lanes;
    }
    if (a->direct) {
        d.key = &f->direct_key;
        d.offset =
            f->direct_offset + (is_placed(op, &a->out.ref) ? 0 : a->out.ref.offset) + a->out.skip;
        if (d.offset > f->direct_key.bytes || a->bytes > f->direct_key.bytes - d.offset) {
            tt_context_fail_here(op->context, TUTTI_ERR_MISMATCH,
                                 "the buffer of a peer is smaller than the data sent to it", true);
            return false;
        }
    } else {
        d.key = &f->landing_key;
        d.offset = f->landing_offset + slot_offset(op, &a->out);
    }
    d.copy = (uint8_t)way_of_put(op, a);
    if (a->a.kind == TT_AT_REMOTE) {
        d.bytes = 0;
        d.operand = a->bytes;
    } else if (place_is_strided(&a->a)) {
        if (!put_gathered(op, a, d))
            return false;
        tt_op_trace_sent(f, a->bytes);
        tt_exec_taken(&op->exec, a, true);
        return true;
    } else {
        d.local = place_address(op, &a->a);
    }
    instant = d.bytes == 0 || tt_put_is_instant(w, d.key);
    if (instant)
        d.flags |= TT_DESC_INLINE;
    else if (need_regions(op, w))
        return false;
    w->together |= !instant && !w->crowded;     /* the executor's next action may be another put */
    if (!post_fenced(w, &d))
        return false;
    op->in_flight += !instant;
    tt_op_trace_sent(f, a->bytes);
    place_consumed(op, &a->a);
    tt_exec_taken(&op->exec, a, instant);
    return true;
}

void tt_op_reduce(struct tt_op *op, uint8_t *out, uint8_t *out2, const uint8_t *a, const uint8_t *b,
                  uint64_t bytes, uint32_t stream, bool finish)
{
    if (tt_op_is_quantized(op))
        tt_op_quantized_reduce(op, out, out2, a, b, bytes, finish);
    else
        (finish ? op->kernel_finish : op->kernel)(out, out2, a, b, bytes >> op->elem_shift, stream,
                                                  tt_op_divisor(op));
}

/* Reduces if an operand or the output is strided. Pieces consist of whole elements. */
static void reduce_strided(struct tt_op *op, const struct tt_action *a, uint8_t *out2)
{
    const struct tt_place *const at[] = { &a->out, &a->a, &a->b };
    uint8_t *p[3];

    for (uint64_t pos = 0, n; pos < a->bytes; pos += n) {
        n = a->bytes - pos;
        for (int i = 0; i < 3; i++) {
            uint64_t len = n;

            p[i] = place_is_strided(at[i]) ? place_piece(op, at[i], pos, &len)
                                           : place_address(op, at[i]) + pos;
            n = len < n ? len : n;
        }
        tt_op_reduce(op, p[0], out2 ? out2 + pos : NULL, p[1], p[2], n, 0, a->finish);
    }
}

/* Returns 0 for long operations: the caller's buffers are not in the cache either, and sequential
 * access is faster. Also returns 0 for v kinds, which may be as long. */
uint32_t tt_op_remote_cache_flag(const struct tt_op *op, uint16_t peer)
{
    const struct tt_coll *c = &op->conf.coll;
    const uint64_t all = c->bytes * (op->p2p ? 1 : c->nranks);

    if (!(op->flow[peer].cp->peer->wire->caps & TT_WIRE_CAP_INSTANT) || all == 0 ||
        all > FROM_FAR_BYTES_MAX)
        return 0;
    return tt_other_core_flag();
}

/* Like tt_op_remote_cache_flag, for a place. Data fetched into this process's own slots is in this
 * core's cache. */
static uint32_t place_from_far(const struct tt_op *op, const struct tt_place *at)
{
    const bool sent =
        at->kind == TT_AT_EAGER || (at->kind == TT_AT_SLOT && !op->flow[at->peer].landing.own);

    return sent ? tt_op_remote_cache_flag(op, at->peer) : 0;
}

static bool perform_local(struct tt_op *op, const struct tt_action *a)
{
    uint8_t *out2 = place_address(op, &a->out2);
    const bool bypasses = way_of_local(op, &a->out2, a->bytes) == TT_COPY_NONTEMPORAL;
    const uint32_t stream = tt_copy_flag(way_of_local(op, &a->out, a->bytes)) |
                            (bypasses ? TT_STREAM_DST2 : 0) | place_from_far(op, &a->a) |
                            (a->kind == TT_ACT_REDUCE ? place_from_far(op, &a->b) : 0);

    if (a->kind == TT_ACT_REDUCE &&
        (place_is_strided(&a->out) || place_is_strided(&a->a) || place_is_strided(&a->b))) {
        reduce_strided(op, a, out2);
    } else if (place_is_strided(&a->out) || place_is_strided(&a->a)) {
        tt_assert(!out2);
        copy_strided(op, &a->out, &a->a, a->bytes);
    } else if (a->kind == TT_ACT_COPY) {
        tt_copy(place_address(op, &a->out), out2, a->bytes ? place_address(op, &a->a) : NULL,
                a->bytes, stream);
    } else {
        tt_op_reduce(op, place_address(op, &a->out), out2, place_address(op, &a->a),
                     place_address(op, &a->b), a->bytes, stream, a->finish);
    }
    place_consumed(op, &a->a);
    if (a->kind == TT_ACT_REDUCE)
        place_consumed(op, &a->b);
    tt_exec_taken(&op->exec, a, true);
    return true;
}

static bool perform_credit(struct tt_op *op, const struct tt_action *a)
{
    struct tt_flow *f = &op->flow[a->peer];
    struct tt_peer *p = f->cp->peer;
    const struct tt_desc d = {
        .kind = TT_DESC_PUT,
        .flags = TT_DESC_INLINE | TT_DESC_URGENT,
        .peer = p->rank,
        .key = &p->mail.theirs,
        .signal_op = TT_SIGNAL_SET,
        .signal_key = &p->mail.theirs,
        .signal_offset = tt_link_offset(TT_LINK_CREDIT, (uint32_t)f->in_handle, a->stream),
        .signal_value = word_value(f->in_gen, a->seq),
    };

    if (p->state == TT_PEER_UP && p->wire->ops->post(p->wire, &d, 1) != 1)
        return false;
    tt_exec_taken(&op->exec, a, true);
    return true;
}

static bool uses_stage(const struct tt_action *a)
{
    switch (a->kind) {
    case TT_ACT_EAGER:
    case TT_ACT_PUT:
        return a->a.kind == TT_AT_STAGE;
    case TT_ACT_COPY:
        return a->out.kind == TT_AT_STAGE || a->a.kind == TT_AT_STAGE;
    case TT_ACT_REDUCE:
        return a->out.kind == TT_AT_STAGE || a->a.kind == TT_AT_STAGE || a->b.kind == TT_AT_STAGE;
    default:
        return false;
    }
}

/* Packs the input of a quantized operation before it is sent or copied. */
static void pack_source(struct tt_op *op, const struct tt_action *a)
{
    const bool moves = a->kind == TT_ACT_EAGER || a->kind == TT_ACT_PUT || a->kind == TT_ACT_COPY;

    if (!moves || !a->bytes || a->a.kind != TT_AT_BUF || a->a.ref.buf != TT_BUF_SRC)
        return;
    if (!place_is_strided(&a->a)) {
        tt_op_quantized_need(op, place_address(op, &a->a), a->bytes);
        return;
    }
    for (uint64_t pos = 0, n; pos < a->bytes; pos += n) {
        const uint8_t *at = place_piece(op, &a->a, pos, &n);

        n = n < a->bytes - pos ? n : a->bytes - pos;
        tt_op_quantized_need(op, at, n);
    }
}

bool tt_op_perform(struct tt_op *op, const struct tt_action *a)
{
    if (tt_op_is_quantized(op))
        pack_source(op, a);
    if (uses_stage(a) && !stage_of(op)) {
        tt_context_fail_here(op->context, TUTTI_ERR_NOMEM, "out of memory for segments in transit",
                             true);
        return false;
    }
    switch (a->kind) {
    case TT_ACT_OPEN: return perform_open(op, a);
    case TT_ACT_EAGER: return perform_eager(op, a);
    case TT_ACT_PUT: return perform_put(op, a);
    case TT_ACT_CREDIT: return perform_credit(op, a);
    default: return perform_local(op, a);
    }
}

void tt_ops_send_off(struct tt_engine *e)
{
    for (uint32_t i = 0; i < e->nwires; i++)
        if (e->wire[i]->together) {
            e->wire[i]->together = false;
            e->wire[i]->ops->post(e->wire[i], NULL, 0);
        }
}

void tt_op_sent(struct tt_engine *e, uint64_t cookie)
{
    const uint32_t slot = (uint32_t)(cookie >> COOKIE_SLOT_SHIFT);
    struct tt_op *op = slot < e->ops_cap ? e->ops[slot] : NULL;

    if (!op || cookie_gen(op->generation) != cookie_gen(cookie >> COOKIE_GEN_SHIFT) ||
        !op->in_flight)
        return;                 /* the operation is over */
    op->in_flight -= tt_exec_sent(&op->exec, cookie >> COOKIE_STEP_SHIFT & (TT_EXEC_STEPS - 1),
                                  (uint32_t)cookie);
}
