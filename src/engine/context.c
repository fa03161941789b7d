#include "engine/context.h"

#include <stdlib.h>

#include "base/status.h"
#include "engine/peers.h"

struct tt_context *tt_context_find(struct tt_engine *e, uint32_t id)
{
    struct tt_context *c = e->contexts;

    while (c && c->id != id)
        c = c->next;
    return c;
}

struct tt_context_peer *tt_context_peer_of(struct tt_context *c, uint32_t rank)
{
    struct tt_context_peer *cp = tt_sparse_get(&c->peers, rank);

    if (cp)
        return cp;
    cp = calloc(1, sizeof *cp);
    if (!cp)
        return NULL;
    cp->peer = tt_peer_of(c->engine, rank);
    cp->context = c;
    cp->index = UINT32_MAX;
    if (!cp->peer || !tt_sparse_set(&c->peers, rank, cp)) {
        free(cp);
        return NULL;
    }
    return cp;
}

uint32_t tt_context_index_of(const struct tt_context *c, struct tt_context_peer *cp)
{
    for (uint32_t i = 0; cp->index == UINT32_MAX && i < c->nranks; i++)
        if (c->ranks[i] == cp->peer->rank)
            cp->index = i;
    return cp->index;
}

/* Returns the slot of this counter in a hash table, or the free slot in which to insert it. */
static struct tt_tag_counter *counter_slot(struct tt_tag_counter *tags, uint32_t cap, uint32_t tag,
                                           bool is_recv)
{
    uint32_t i =
        (uint32_t)(((uint64_t)tag << 1 | is_recv) * 0x9e3779b97f4a7c15ull >> 32) & (cap - 1);

    while (tags[i].used && (tags[i].tag != tag || tags[i].is_recv != is_recv))
        i = (i + 1) & (cap - 1);
    return &tags[i];
}

static bool grow_tags(struct tt_context_peer *cp)
{
    const uint32_t cap = cp->tags_cap ? 2 * cp->tags_cap : 8;
    struct tt_tag_counter *more = cap ? calloc(cap, sizeof *more) : NULL;

    if (!more)
        return false;
    for (uint32_t i = 0; i < cp->tags_cap; i++)
        if (cp->tags[i].used)
            *counter_slot(more, cap, cp->tags[i].tag, cp->tags[i].is_recv) = cp->tags[i];
    free(cp->tags);
    cp->tags = more;
    cp->tags_cap = cap;
    return true;
}

const struct tt_tag_counter *tt_context_counter_find(const struct tt_context_peer *cp, uint32_t tag,
                                                     bool is_recv)
{
    const struct tt_tag_counter *t =
        cp->tags_cap ? counter_slot(cp->tags, cp->tags_cap, tag, is_recv) : NULL;

    return t && t->used ? t : NULL;
}

struct tt_tag_counter *tt_context_counter(struct tt_context_peer *cp, uint32_t tag, bool is_recv)
{
    struct tt_tag_counter *t =
        cp->tags_cap ? counter_slot(cp->tags, cp->tags_cap, tag, is_recv) : NULL;

    if (t && t->used)
        return t;
    if (2 * (cp->ntags + 1) > cp->tags_cap) {
        if (!grow_tags(cp)) {
            tt_fail(TUTTI_ERR_NOMEM, "out of memory for the counters of tag %u", tag);
            return NULL;
        }
        t = counter_slot(cp->tags, cp->tags_cap, tag, is_recv);
    }
    cp->ntags++;
    *t = (struct tt_tag_counter){ .tag = tag, .is_recv = is_recv, .used = true };
    return t;
}

/* ---- unexpected messages --------------------------------------------------------------------- */

/* Returns a block from the engine's free list, or a new one. NULL: out of memory. */
static struct tt_unexpected_block *take_block(struct tt_engine *e)
{
    struct tt_unexpected_block *block = e->free_unexpected;

    if (!block)
        return calloc(1, sizeof *block);
    e->free_unexpected = block->next;
    return block;
}

/* Returns the list pointer to the peer's block whose first record is `first`, or the one at the end
 * of the list. */
static struct tt_unexpected_block **block_link(struct tt_context_peer *cp, uint32_t first)
{
    struct tt_unexpected_block **at = &cp->early;

    while (*at && (*at)->first != first)
        at = &(*at)->next;
    return at;
}

/* Returns a peer's block to the engine. Its buffers are kept for later messages. */
static void give_block(struct tt_engine *e, struct tt_unexpected_block **at)
{
    struct tt_unexpected_block *block = *at;

    *at = block->next;
    block->next = e->free_unexpected;
    e->free_unexpected = block;
}

void tt_unexpected_free_all(struct tt_engine *e)
{
    while (e->free_unexpected) {
        struct tt_unexpected_block *block = e->free_unexpected;

        e->free_unexpected = block->next;
        for (uint32_t i = 0; i < TT_UNEXPECTED_BLOCK; i++)
            free(block->record[i].payload);
        free(block);
    }
}

/* Returns a free record, whose bit in `kept` is 0. NULL: out of memory. */
static struct tt_unexpected *free_record(struct tt_context_peer *cp)
{
    const uint32_t at = (uint32_t)__builtin_ctzll(~cp->kept), first = at - at % TT_UNEXPECTED_BLOCK;
    struct tt_unexpected_block *block = *block_link(cp, first);
    struct tt_unexpected *m;

    if (!block) {
        block = take_block(cp->context->engine);
        if (!block)
            return NULL;
        block->first = first;
        block->next = cp->early;
        cp->early = block;
    }
    m = &block->record[at - first];
    m->at = (uint8_t)at;
    return m;
}

tutti_status tt_unexpected_keep(struct tt_context_peer *cp, const struct tt_mail *mail,
                                bool claimed)
{
    struct tt_unexpected *m;

    if (!~cp->kept)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "protocol error: rank %u exceeded its credit for unexpected messages",
                       cp->peer->rank);
    m = free_record(cp);
    if (!m)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for unexpected messages of rank %u",
                       cp->peer->rank);
    if (mail->bytes > m->payload_cap) {
        /* happens rarely, because the buffer is kept for later messages */
        uint8_t *more = realloc(m->payload, mail->bytes);

        if (!more)
            return tt_fail(TUTTI_ERR_NOMEM, "out of memory for an unexpected message of %u bytes",
                           mail->bytes);
        m->payload = more;
        m->payload_cap = mail->bytes;
    }
    if (mail->bytes)
        tt_copy(m->payload, NULL, mail->payload, mail->bytes, false);
    m->opseq = mail->cell.opseq;
    m->desc = mail->cell.desc;
    m->tag = mail->cell.tag;
    m->bytes = mail->bytes;
    m->type = mail->type;
    m->claimed = claimed;
    cp->kept |= 1ull << m->at;
    cp->context->nunexpected++;
    return TUTTI_OK;
}

struct tt_unexpected *tt_unexpected_find(struct tt_context_peer *cp, uint32_t *at, uint64_t opseq,
                                         bool p2p, uint8_t kind, uint8_t type)
{
    for (uint64_t left = *at < 64 ? cp->kept >> *at << *at : 0; left; left &= left - 1) {
        struct tt_unexpected *m = tt_unexpected_at(cp, (uint32_t)__builtin_ctzll(left));

        *at = m->at;
        if (m->type == type && m->opseq == opseq && tt_is_p2p(m->desc.kind) == p2p &&
            (!p2p || m->desc.kind != kind))
            return m;
    }
    return NULL;
}

void tt_unexpected_drop(struct tt_context_peer *cp, struct tt_unexpected *m)
{
    const uint32_t first = m->at - m->at % TT_UNEXPECTED_BLOCK;

    cp->kept &= ~(1ull << m->at);
    cp->context->nunexpected--;
    if (!(cp->kept >> first & ((1u << TT_UNEXPECTED_BLOCK) - 1)))
        give_block(cp->context->engine, block_link(cp, first));
}

void tt_context_add_credit(struct tt_context *c, struct tt_context_peer *cp)
{
    cp->credits_due++;
    if (cp->credits_due >= TT_EAGER_CREDIT / 2)
        c->engine->credit_due = true;
}

void tt_context_send_credits(struct tt_context *c, uint32_t least)
{
    for (struct tt_peer *p = c->engine->up; p; p = p->next_up) {
        struct tt_context_peer *cp = tt_sparse_get(&c->peers, p->rank);
        struct tt_cell cell = { .context = c->id };

        if (!cp || cp->credits_due < least)
            continue;
        if (tt_mail_send(&p->mail, &cell, TT_CELL_CREDIT, (uint8_t)cp->credits_due, NULL, 0))
            cp->credits_due = 0;
        else
            c->engine->credit_due = true;
    }
}

void tt_context_free_peer(struct tt_context_peer *cp)
{
    while (cp->early)
        give_block(cp->context->engine, &cp->early);
    free(cp->tags);
    free(cp);
}
