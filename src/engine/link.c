#include "engine/link.h"

#include <string.h>

#include "base/status.h"
#include "reduce/reduce.h"

#define IN_LONG 0x8000u         /* flag in a cell's state */

static const struct ring {
    uint32_t at, units;         /* at: offset in the link region; units: a power of two */
} rings[TT_MAIL_RINGS] = { [TT_MAIL_SHORT] = { TT_LINK_SHORT, TT_SHORT_UNITS },
                           [TT_MAIL_LONG] = { TT_LINK_LONG, TT_LONG_UNITS } };

/* The part of a ring that a payload uses. */
struct taken {
    enum tt_mail_ring ring;
    uint32_t units;             /* 0: the payload is in its cell's place */
    uint32_t skip;              /* units skipped before it, so that it does not wrap around the
                                   ring's end */
    uint32_t at;                /* offset in the link region */
};

static struct taken ring_place(const struct tt_mailbox *m, const struct tt_mail_count *from,
                               uint32_t bytes, bool in_long)
{
    struct taken t = { .ring = !in_long && bytes <= m->short_bytes ? TT_MAIL_SHORT : TT_MAIL_LONG };
    const struct ring *r = &rings[t.ring];
    const uint32_t begin = from->units[t.ring] & (r->units - 1);

    if (bytes <= m->inline_bytes)
        return t;
    t.units = (bytes + TT_UNIT - 1) / TT_UNIT;
    if (t.units > r->units - begin)
        t.skip = r->units - begin;
    t.at = r->at + (t.skip ? 0 : begin) * TT_UNIT;
    return t;
}

static void mail_count_add(struct tt_mail_count *c, const struct taken *t)
{
    c->cells++;
    c->units[t->ring] += t->skip + t->units;
}

static uint64_t head_word(const struct tt_mail_count *c)
{
    return (uint64_t)(uint16_t)c->cells << 48 | (uint64_t)(uint16_t)c->units[TT_MAIL_SHORT] << 32 |
           c->units[TT_MAIL_LONG];
}

void tt_mailbox_init(struct tt_mailbox *m, const struct tt_link *link)
{
    *m = (struct tt_mailbox){ .mine = link->mine, .theirs = link->theirs };
    if (link->theirs.mapped) {
        m->places = TT_CELLS_MAPPED;
        m->place_bytes = TT_PLACE_MAPPED;
        m->short_bytes = TT_SHORT_BYTES;
    } else {
        m->places = TT_CELLS_POSTED;
        m->place_bytes = TT_PLACE_POSTED;
    }
    m->inline_bytes = (uint16_t)(m->place_bytes - offsetof(struct tt_cell, data));
}

static bool mail_fits(const struct tt_mailbox *m, const struct taken *t)
{
    const uint64_t head = m->head;
    uint32_t used;

    if ((uint16_t)(m->sent.cells - (head >> 48)) >= m->places)
        return false;
    used = m->sent.units[t->ring] + t->skip + t->units;
    used = t->ring == TT_MAIL_SHORT ? (uint16_t)(used - (uint32_t)(head >> 32))
                                    : used - (uint32_t)head;
    return !t->units || used <= rings[t->ring].units;
}

/* Finds room for a message of `bytes`. The head word is in a cache line that the peer writes, so
 * it is read only if the local copy shows no room. False: no room. */
static bool find_room(struct tt_mailbox *m, uint32_t bytes, struct taken *t, bool *in_long)
{
    *t = ring_place(m, &m->sent, bytes, *in_long = false);
    if (mail_fits(m, t))
        return true;
    m->head = atomic_load_explicit((_Atomic uint64_t *)(void *)(m->mine + TT_LINK_HEAD),
                                   memory_order_acquire);
    if (mail_fits(m, t))
        return true;
    if (t->ring == TT_MAIL_LONG || !t->units)
        return false;
    *t = ring_place(m, &m->sent, bytes, *in_long = true);
    return mail_fits(m, t);
}

bool tt_mail_room(struct tt_mailbox *m, uint32_t bytes)
{
    struct taken t;
    bool in_long;

    return find_room(m, bytes, &t, &in_long);
}

/* Requests ownership of a cache line that will be written soon, so that the store does not wait for
 * the other core. */
static void prefetch_to_write(const void *line)
{
#ifdef __x86_64__
    /* __builtin_prefetch would fetch it for reading only */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/* Prefetches the cache lines of the next message, assuming the same size, except for the cell's
 * first line, which the peer polls. Does nothing if there is no free room. */
static void prefetch_next(const struct tt_mailbox *m, uint32_t bytes)
{
    const uint8_t *region = m->theirs.mapped, *at = region + tt_mail_place(m, m->sent.cells);
    const struct taken t = ring_place(m, &m->sent, bytes, false);
    uint32_t end = offsetof(struct tt_cell, data) + bytes;

    if (!mail_fits(m, &t))
        return;
    if (t.units) {
        at = region + t.at;
        end = bytes;
    }
    for (uint32_t line = t.units ? 0 : TT_UNIT; line < end; line += TT_UNIT)
        prefetch_to_write(at + line);
}

/* Sends through a mapped link region: writes the message in place; the wire only signals. The
 * cell's cache line is written last, because the peer polls it and would fetch it between two
 * stores. */
static bool send_mapped(struct tt_mailbox *m, struct tt_cell *cell, uint8_t flags,
                        const void *payload, uint32_t bytes, uint32_t unit_at)
{
    const uint32_t at = tt_mail_place(m, m->sent.cells);
    uint8_t *region = m->theirs.mapped;
    struct tt_cell *there = (void *)(region + at);
    const struct tt_desc d = {
        .kind = TT_DESC_PUT,
        .flags = flags,
        .peer = m->theirs.peer,
        .key = &m->theirs,
        .signal_op = TT_SIGNAL_SET,
        .signal_key = &m->theirs,
        .signal_offset = at,
        .signal_value = cell->state,
        .operand = bytes,
    };
    uint32_t here = 0;          /* payload bytes in the cell's cache line */

    if (bytes >= TT_COPY_EAGER_MIN) {
        tt_copy_to_mailbox(&m->measured, m->stores, region + unit_at, payload, bytes);
    } else if (bytes > m->inline_bytes) {
        tt_copy(region + unit_at, NULL, payload, bytes, false);
    } else if (bytes > TT_CELL_INLINE) {
        here = TT_CELL_INLINE;
        memcpy(there + 1, (const uint8_t *)payload + here, bytes - here);
    } else {
        here = bytes;
    }
    there->context = cell->context;
    there->tag = cell->tag;
    there->opseq = cell->opseq;
    there->desc = cell->desc;
    if (here)
        memcpy(there->data, payload, here);
    return m->theirs.wire->ops->post(m->theirs.wire, &d, 1) == 1;
}

/* Returns whether the unreported consumption is at least 1/n of the places or of a ring. */
static bool head_update_due(const struct tt_mailbox *m, uint32_t n)
{
    if (m->got.cells - m->reported.cells >= m->places / n)
        return true;
    for (int r = 0; r < TT_MAIL_RINGS; r++)
        if (m->got.units[r] - m->reported.units[r] >= rings[r].units / n)
            return true;
    return false;
}

/* Returns the descriptor that sets the peer's head to this rank's consumption. */
static struct tt_desc head_update(const struct tt_mailbox *m)
{
    return (struct tt_desc){
        .kind = TT_DESC_PUT,
        .flags = TT_DESC_INLINE | TT_DESC_URGENT,
        .peer = m->theirs.peer,
        .key = &m->theirs,
        .signal_op = TT_SIGNAL_SET,
        .signal_key = &m->theirs,
        .signal_offset = TT_LINK_HEAD,
        .signal_value = head_word(&m->got),
    };
}

/* Sends through the wire. A due update of the peer's head is posted with it. */
static bool send_posted(struct tt_mailbox *m, struct tt_cell *cell, uint8_t flags,
                        const void *payload, uint32_t bytes, uint32_t unit_at)
{
    const uint32_t at = tt_mail_place(m, m->sent.cells);
    const bool apart = bytes > m->inline_bytes;
    struct tt_wire *w = m->theirs.wire;
    const bool reports_head = head_update_due(m, 8);
    uint8_t together[TT_PLACE_POSTED];
    struct tt_desc d[4];
    uint32_t cell_bytes = sizeof *cell;
    int n = 0, taken;

    if (apart) {
        d[n++] = (struct tt_desc){
            .kind = TT_DESC_PUT,
            .flags = TT_DESC_INLINE | TT_DESC_URGENT,
            .peer = m->theirs.peer,
            .local = (void *)payload,
            .bytes = bytes,
            .key = &m->theirs,
            .offset = unit_at,
        };
    } else if (bytes > TT_CELL_INLINE) {
        memcpy(together, cell, offsetof(struct tt_cell, data));
        memcpy(together + offsetof(struct tt_cell, data), payload, bytes);
        cell_bytes = (uint32_t)offsetof(struct tt_cell, data) + bytes;
    } else if (bytes) {
        memcpy(cell->data, payload, bytes);
    }
    if (!(w->caps & TT_WIRE_CAP_ORDERED) && (apart || !(flags & TT_DESC_URGENT)))
        d[n++] = (struct tt_desc){ .kind = TT_DESC_FENCE, .peer = m->theirs.peer };
    d[n++] = (struct tt_desc){
        .kind = TT_DESC_PUT,
        .flags = flags,
        .peer = m->theirs.peer,
        .local = (cell_bytes > sizeof *cell ? together : (uint8_t *)cell) + sizeof cell->state,
        .bytes = cell_bytes - sizeof cell->state,
        .key = &m->theirs,
        .offset = at + sizeof cell->state,
        .signal_op = TT_SIGNAL_SET,
        .signal_key = &m->theirs,
        .signal_offset = at,
        .signal_value = cell->state,
    };
    if (reports_head)
        d[n] = head_update(m);
    taken = w->ops->post(w, d, n + reports_head);
    if (taken > n)
        m->reported = m->got;
    return taken >= n;          /* without its cell, a payload is ignored, and sent again later */
}

bool tt_mail_send(struct tt_mailbox *m, struct tt_cell *cell, enum tt_cell_type type,
                  uint8_t credits, const void *payload, uint32_t bytes)
{
    const bool behind = type == TT_CELL_ENDED || type == TT_CELL_FENCE;
    const uint8_t flags = TT_DESC_INLINE | (behind ? 0 : TT_DESC_URGENT);
    struct taken t;
    bool in_long;

    if (!find_room(m, bytes, &t, &in_long))
        return false;
    cell->state = (uint64_t)(m->sent.cells + 1) << 32 | bytes << 16 | (in_long ? IN_LONG : 0) |
                  (uint32_t)type << 8 | credits;
    if (!(m->theirs.mapped ? send_mapped : send_posted)(m, cell, flags, payload, bytes, t.at))
        return false;
    mail_count_add(&m->sent, &t);
    if (m->theirs.mapped && bytes > TT_CELL_INLINE && bytes <= TT_SHORT_BYTES)
        prefetch_next(m, bytes);
    return true;
}

tutti_status tt_mail_next(const struct tt_mailbox *m, struct tt_mail *out)
{
    const uint8_t *at = m->mine + tt_mail_place(m, m->got.cells);
    const uint64_t state =
        atomic_load_explicit((_Atomic uint64_t *)(void *)(uintptr_t)at, memory_order_acquire);
    struct taken t;

    if ((uint32_t)(state >> 32) != m->got.cells + 1)
        return TUTTI_PENDING;
    memcpy(&out->cell, at, sizeof out->cell);
    out->bytes = (uint16_t)(state >> 16);
    out->type = (uint8_t)((state & ~IN_LONG) >> 8);
    out->credits = (uint8_t)state;
    out->in_long = state & IN_LONG;
    t = ring_place(m, &m->got, out->bytes, out->in_long);
    if (out->bytes > TT_INLINE_BYTES)       /* exceeds the maximum inline size of all wires */
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "protocol error: rank %u sent a message of %u bytes: the maximum is %u",
                       m->theirs.peer, out->bytes, (unsigned)TT_INLINE_BYTES);
    if (t.units)
        out->payload = m->mine + t.at;
    else
        out->payload =
            out->bytes <= TT_CELL_INLINE ? out->cell.data : at + offsetof(struct tt_cell, data);
    return TUTTI_OK;
}

void tt_mail_ack(struct tt_mailbox *m)
{
    struct tt_wire *w = m->theirs.wire;
    struct tt_desc d;

    /* otherwise it may be sent with another message */
    if (!head_update_due(m, m->theirs.mapped ? 4 : 2))
        return;
    d = head_update(m);
    if (w->ops->post(w, &d, 1) != 1)
        return;
    m->reported = m->got;
}

void tt_mail_drop(struct tt_mailbox *m, const struct tt_mail *mail)
{
    const struct taken t = ring_place(m, &m->got, mail->bytes, mail->in_long);

    mail_count_add(&m->got, &t);
    tt_mail_ack(m);
}
