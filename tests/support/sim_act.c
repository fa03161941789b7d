/* Effects of actions on data, and their messages. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "support/sim_state.h"

/* ---- addresses ---- */

static uint8_t *slots_of(const struct tt_sim *s, uint32_t rank, uint32_t peer)
{
    struct tt_sim_landing *l = &s->rank[rank].landing[peer];

    if (!l->slots)
        l->slots =
            tt_sim_must(malloc((size_t)s->conf->streams * s->conf->depth * s->conf->segment_bytes));
    return l->slots;
}

static struct tt_sim_letter **letter_of(struct tt_sim_rank *r, uint32_t from, uint32_t tag)
{
    struct tt_sim_letter **at = &r->letters;

    while (*at && !((*at)->from == from && (*at)->tag == tag))
        at = &(*at)->next;
    return at;
}

static uint8_t *buffer_of(struct tt_sim_rank *r, uint8_t buf)
{
    return buf == TT_BUF_SRC ? r->src : buf == TT_BUF_DST ? r->dst : r->work;
}

/* The address of byte `pos` of a place of rank me. */
static uint8_t *byte_at(struct tt_sim *s, uint32_t me, const struct tt_place *at, uint64_t pos)
{
    struct tt_sim_rank *r = &s->rank[me];
    const uint64_t slot =
        ((uint64_t)at->stream * s->conf->depth + at->slot) * s->conf->segment_bytes;
    uint32_t there;

    switch (at->kind) {
    case TT_AT_BUF:
        pos += at->skip;
        if (at->ref.block)
            pos = pos / at->ref.block * at->ref.stride + pos % at->ref.block;
        return buffer_of(r, at->ref.buf) + at->ref.offset + pos;
    case TT_AT_SLOT:
        return slots_of(s, me, at->peer) + slot + pos;
    case TT_AT_REMOTE:
        there = r->peers[at->peer].rank;
        return slots_of(s, there, (uint32_t)tt_exec_peer_of(&s->rank[there].exec, me)) + slot + pos;
    case TT_AT_STAGE:
        if (!r->stage)
            r->stage = tt_sim_must(malloc(TT_EXEC_STAGES * s->conf->segment_bytes));
        return r->stage + at->slot * s->conf->segment_bytes + pos;
    default:
        return (*letter_of(r, r->peers[at->peer].rank, at->slot))->data + at->skip + pos;
    }
}

void tt_sim_move(struct tt_sim *s, uint32_t to_rank, const struct tt_place *to, uint32_t from_rank,
                 const struct tt_place *from, uint64_t bytes)
{
    const bool strided =
        (to->kind == TT_AT_BUF && to->ref.block) || (from->kind == TT_AT_BUF && from->ref.block);

    if (!strided && bytes)
        memcpy(byte_at(s, to_rank, to, 0), byte_at(s, from_rank, from, 0), bytes);
    for (uint64_t i = 0; strided && i < bytes; i++)
        *byte_at(s, to_rank, to, i) = *byte_at(s, from_rank, from, i);
}

/* ---- actions ---- */

static void read_letter(struct tt_sim_rank *r, const struct tt_place *at)
{
    struct tt_sim_letter **l, *gone;

    if (at->kind != TT_AT_EAGER)
        return;
    l = letter_of(r, r->peers[at->peer].rank, at->slot);
    gone = *l;
    *l = gone->next;
    free(gone->data);
    free(gone);
}

static void sim_send_eager(struct tt_sim *s, uint32_t me, const struct tt_action *a)
{
    struct tt_sim_event ev = { .kind = EV_EAGER,
                               .to = s->rank[me].peers[a->peer].rank,
                               .from = me,
                               .seq = a->tag,
                               .bytes = a->bytes };

    ev.data = tt_sim_must(malloc(a->bytes + 1));
    for (uint64_t i = 0; i < a->bytes; i++)
        ev.data[i] = *byte_at(s, me, &a->a, i);
    ev.time_ns = tt_sim_arrival_ns(s, me, a->bytes);
    tt_sim_push(s, ev);
}

/* Returns the destination of the wait for (rank, tag). The wait is loaded, because it has opened
 * the flow. */
static struct tt_ref where_it_waits(const struct tt_exec *x, uint32_t rank, uint32_t tag)
{
    for (uint32_t n = x->head; n != x->tail; n++) {
        const struct tt_step *t = &x->step[n % TT_EXEC_STEPS].s;

        if (t->opcode == TT_WAIT && t->peer == rank && t->tag == tag)
            return t->out;
    }
    tt_assert(false);
    return tt_dst(0);
}

/* Returns the destination of this rank's put in the receiver's final buffer. A stretch has an
 * offset from the beginning of its block. */
static struct tt_ref lands_at(const struct tt_sim *s, uint32_t me, uint32_t to,
                              const struct tt_action *a)
{
    const struct tt_coll *c = &s->conf->coll[to];

    if (a->out.ref.buf != TT_BUF_THERE)
        return tt_coll_canonical(c, a->out.ref);
    if (c->stretches)
        return tt_dst(c->recv_displs[me] + a->out.ref.offset);
    return where_it_waits(&s->rank[to].exec, me, a->tag);
}

/* Returns whether a rank gives access to its final buffer for the data of `step`, by the same rule
 * as op.c. */
static bool sim_opens_direct(const struct tt_sim_conf *c, const struct tt_exec *x, uint16_t step)
{
    const enum tt_coll_kind kind = c->algo->kind;

    if (!c->direct || c->algo->direct_unsafe)
        return false;
    return (kind != TT_ALLTOALL && kind != TT_ALLTOALLV) || x->step[step].to_dst;
}

static void send_segment(struct tt_sim *s, uint32_t me, const struct tt_action *a, bool instant)
{
    struct tt_sim_event ev = {
        .kind = EV_ARRIVED,
        .to = s->rank[me].peers[a->peer].rank,
        .from = me,
        .stream = a->stream,
        .seq = a->seq,
        .bytes = a->bytes,
        .step = a->step,
        .source = a->a,
        .target = a->out,
        .direct = a->direct,
    };

    if (a->direct)
        ev.target.ref = lands_at(s, me, ev.to, a);
    if (instant && a->a.kind != TT_AT_REMOTE)
        tt_sim_move(s, a->direct ? ev.to : me, &ev.target, me, &a->a, a->bytes);
    if (instant)
        ev.bytes = 0;           /* the data has already been copied; only the signal is sent */
    ev.time_ns = tt_sim_arrival_ns(s, me, a->bytes);
    tt_sim_push(s, ev);
}

static bool place_is_strided(const struct tt_place *at)
{
    return at->kind == TT_AT_BUF && at->ref.block;
}

/* Reduces element by element if an operand or the output is strided. */
static void reduce(struct tt_sim *s, uint32_t me, const struct tt_action *a, uint8_t *out2)
{
    const struct tt_sim_conf *c = s->conf;
    const uint64_t elem = c->coll[me].elem_bytes;
    const bool strided =
        place_is_strided(&a->out) || place_is_strided(&a->a) || place_is_strided(&a->b);
    const uint64_t piece = strided ? elem : a->bytes;

    for (uint64_t pos = 0; pos < a->bytes; pos += piece)
        (a->finish ? c->kernel_finish : c->kernel)(
            byte_at(s, me, &a->out, pos), out2 ? out2 + pos : NULL, byte_at(s, me, &a->a, pos),
            byte_at(s, me, &a->b, pos), piece / elem, false, c->nranks);
}

void tt_sim_do_at_once(struct tt_sim *s, uint32_t me, const struct tt_action *a)
{
    struct tt_sim_rank *r = &s->rank[me];
    uint8_t *out2 = a->out2.kind ? byte_at(s, me, &a->out2, 0) : NULL;

    switch (a->kind) {
    case TT_ACT_EAGER:
        sim_send_eager(s, me, a);
        break;
    case TT_ACT_COPY:
        tt_sim_move(s, me, &a->out, me, &a->a, a->bytes);
        if (out2)
            tt_sim_move(s, me, &a->out2, me, &a->a, a->bytes);
        break;
    default:
        reduce(s, me, a, out2);
        read_letter(r, &a->b);
    }
    read_letter(r, &a->a);
}

void tt_sim_do_action(struct tt_sim *s, uint32_t me, const struct tt_action *a)
{
    struct tt_sim_rank *r = &s->rank[me];
    const struct tt_sim_conf *c = s->conf;
    const uint32_t peer = r->peers[a->peer].rank;
    bool instant = true;

    switch (a->kind) {
    case TT_ACT_OPEN:
        tt_sim_push(s, (struct tt_sim_event){ .kind = EV_READY,
                                              .to = peer,
                                              .from = me,
                                              .direct = sim_opens_direct(c, &r->exec, a->step),
                                              .time_ns = tt_sim_arrival_ns(s, me, 64) });
        tt_exec_opened(&r->exec, a->peer, sim_opens_direct(c, &r->exec, a->step));
        return;
    case TT_ACT_CREDIT:
        tt_sim_push(s, (struct tt_sim_event){ .kind = EV_CREDIT,
                                              .to = peer,
                                              .from = me,
                                              .stream = a->stream,
                                              .seq = a->seq,
                                              .time_ns = tt_sim_arrival_ns(s, me, 8) });
        break;
    case TT_ACT_PUT:
        /* a transport that reads sources late still copies some at once: strided or short ones */
        instant = c->mapped || a->a.kind == TT_AT_REMOTE || tt_prng_below(&s->prng, 4) == 0;
        send_segment(s, me, a, instant);
        break;
    default:
        tt_sim_do_at_once(s, me, a);
    }
    tt_exec_taken(&r->exec, a, instant);
}
