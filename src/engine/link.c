#include "engine/link.h"

#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "reduce/reduce.h"

#define FAR_PS_BYTE 200             /* a peer is far if ordinary stores take longer, ... */
#define FAR_PS_BYTE_AMD 60          /* where stores past the cache are cheap, and what they wrote is read fast (TT_FROM_FAR) */
#define FAR_TIMES 2                 /* ... so many times in a row of those that are timed: */
#define TIME_EVERY 4                /* one of so many */
#define FAR_COPIES 64               /* that then go past the cache, before it is tried again */

#define IN_LONG 0x8000u             /* in a cell's state */

static const struct ring {
    uint32_t at, units;         /* in the link region; a power of two */
} rings[TT_MAIL_RINGS] = {
    [TT_MAIL_SHORT] = { TT_LINK_SHORT, TT_SHORT_UNITS }, [TT_MAIL_LONG] = { TT_LINK_LONG, TT_LONG_UNITS }
};

/* What a payload takes of the ring that is for its length. */
struct taken {
    enum tt_mail_ring ring;
    uint32_t units;             /* 0: it shares its cell's place */
    uint32_t skip;              /* units before it, so that it does not wrap around the ring's end */
    uint32_t at;                /* in the link region */
};

static struct taken take(const struct tt_mailbox *m, const struct tt_mail_count *from, uint32_t bytes, bool in_long)
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

static void count(struct tt_mail_count *c, const struct taken *t)
{
    c->cells++;
    c->units[t->ring] += t->skip + t->units;
}

static uint64_t word_of(const struct tt_mail_count *c)
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

static bool fits(const struct tt_mailbox *m, const struct taken *t)
{
    const uint64_t head = m->head;
    uint32_t used;

    if ((uint16_t)(m->sent.cells - (head >> 48)) >= m->places)
        return false;
    used = m->sent.units[t->ring] + t->skip + t->units;
    used = t->ring == TT_MAIL_SHORT ? (uint16_t)(used - (uint32_t)(head >> 32)) : used - (uint32_t)head;
    return !t->units || used <= rings[t->ring].units;
}

/* Where a message of `bytes` goes. The peer's word is in a line that the peer writes: it is looked at only where what we know of it is not enough. False: there is no room. */
static bool find_room(struct tt_mailbox *m, uint32_t bytes, struct taken *t, bool *in_long)
{
    *t = take(m, &m->sent, bytes, *in_long = false);
    if (fits(m, t))
        return true;
    m->head = atomic_load_explicit((_Atomic uint64_t *)(void *)(m->mine + TT_LINK_HEAD), memory_order_acquire);
    if (fits(m, t))
        return true;
    if (t->ring == TT_MAIL_LONG || !t->units)
        return false;
    *t = take(m, &m->sent, bytes, *in_long = true);
    return fits(m, t);
}

bool tt_mail_room(struct tt_mailbox *m, uint32_t bytes)
{
    struct taken t;
    bool in_long;

    return find_room(m, bytes, &t, &in_long);
}

static uint64_t far_ps_byte(void)
{
#ifdef __x86_64__
    return __builtin_cpu_is("amd") ? FAR_PS_BYTE_AMD : FAR_PS_BYTE;
#else
    return FAR_PS_BYTE;
#endif
}

/* Where the two processes share no cache, each line is first taken from the other's, and one waits for the other: 17 us for 32 KiB on an AMD EPYC whose cores have different L3 caches. Stores past the
 * cache take 1 us there, and the reader 2 more. Where they do share one these are no gain, or a loss, which the reader pays; so what the two take cannot be compared here. In a virtual machine
 * it changes within a second. So ordinary stores are timed now and then, where nobody knows better (TT_STORES_TIMED). */
static void copy_long(struct tt_mailbox *m, void *to, const void *from, uint32_t bytes)
{
    uint64_t began_ns;

    if (m->stores != TT_STORES_TIMED) {
        tt_copy(to, NULL, from, bytes, m->stores == TT_STORES_PAST_CACHE ? TT_STREAM_DST : 0);
        return;
    }
    if (m->far_copies > 0) {
        tt_copy(to, NULL, from, bytes, TT_STREAM_DST);
        m->far_copies--;
        return;
    }
    if (m->slow == 0 && ++m->untimed < TIME_EVERY) {
        tt_copy(to, NULL, from, bytes, false);
        return;
    }
    began_ns = tt_now_ns();
    tt_copy(to, NULL, from, bytes, false);
    m->untimed = 0;
    m->slow = (tt_now_ns() - began_ns) * 1000 > (uint64_t)bytes * far_ps_byte() ? m->slow + 1 : 0;
    if (m->slow < FAR_TIMES)
        return;
    m->slow = FAR_TIMES - 1;        /* one tells then */
    m->far_copies = FAR_COPIES;
}

/* So that who writes there soon need not wait for the other core to give the line up. */
static void prefetch_to_write(const void *line)
{
#ifdef __x86_64__
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));      /* gcc's own would only read */
#else
    __builtin_prefetch(line, 1);
#endif
}

/* The lines that the next message will be written to if it is as long as this one; but for the cell's, which the peer looks at, and unless it is still to read what is there. */
static void prefetch_next(const struct tt_mailbox *m, uint32_t bytes)
{
    const uint8_t *region = m->theirs.mapped, *at = region + tt_mail_place(m, m->sent.cells);
    const struct taken t = take(m, &m->sent, bytes, false);
    uint32_t end = offsetof(struct tt_cell, data) + bytes;

    if (!fits(m, &t))
        return;
    if (t.units) {
        at = region + t.at;
        end = bytes;
    }
    for (uint32_t line = t.units ? 0 : TT_UNIT; line < end; line += TT_UNIT)
        prefetch_to_write(at + line);
}

/* Into a mapped link region: the message is written where it goes, and the wire only signals. The cell's line comes last: the peer looks at it all the time, and
 * would take it away between two stores. */
static bool send_mapped(struct tt_mailbox *m, struct tt_cell *cell, uint8_t flags, const void *payload, uint32_t bytes,
                        uint32_t unit_at)
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
    };
    uint32_t here = 0;          /* bytes in the cell's line */

    if (bytes >= TT_MAIL_LONG_BYTES) {
        copy_long(m, region + unit_at, payload, bytes);
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

/* Whether the peer has not been told of an n-th or more of its places or of a ring. */
static bool is_worth_telling(const struct tt_mailbox *m, uint32_t n)
{
    if (m->got.cells - m->told.cells >= m->places / n)
        return true;
    for (int r = 0; r < TT_MAIL_RINGS; r++)
        if (m->got.units[r] - m->told.units[r] >= rings[r].units / n)
            return true;
    return false;
}

/* Sets the peer's head to what we have consumed. */
static struct tt_desc what_is_told(const struct tt_mailbox *m)
{
    return (struct tt_desc){
        .kind = TT_DESC_PUT,
        .flags = TT_DESC_INLINE | TT_DESC_URGENT,
        .peer = m->theirs.peer,
        .key = &m->theirs,
        .signal_op = TT_SIGNAL_SET,
        .signal_key = &m->theirs,
        .signal_offset = TT_LINK_HEAD,
        .signal_value = word_of(&m->got),
    };
}

/* Through the wire; and with it what the peer is to be told anyway. */
static bool send_posted(struct tt_mailbox *m, struct tt_cell *cell, uint8_t flags, const void *payload, uint32_t bytes,
                        uint32_t unit_at)
{
    const uint32_t at = tt_mail_place(m, m->sent.cells);
    const bool apart = bytes > m->inline_bytes;
    struct tt_wire *w = m->theirs.wire;
    const bool tells = is_worth_telling(m, 8);
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
    if (tells)
        d[n] = what_is_told(m);
    taken = w->ops->post(w, d, n + tells);
    if (taken > n)
        m->told = m->got;
    return taken >= n;          /* a payload without its cell is never looked at, and is sent again */
}

bool tt_mail_send(struct tt_mailbox *m, struct tt_cell *cell, enum tt_cell_type type, uint8_t credits,
                  const void *payload, uint32_t bytes)
{
    const bool behind = type == TT_CELL_ENDED || type == TT_CELL_FENCE;
    const uint8_t flags = TT_DESC_INLINE | (behind ? 0 : TT_DESC_URGENT);
    struct taken t;
    bool in_long;

    if (!find_room(m, bytes, &t, &in_long))
        return false;
    cell->state =
        (uint64_t)(m->sent.cells + 1) << 32 | bytes << 16 | (in_long ? IN_LONG : 0) | (uint32_t)type << 8 | credits;
    if (!(m->theirs.mapped ? send_mapped : send_posted)(m, cell, flags, payload, bytes, t.at))
        return false;
    count(&m->sent, &t);
    if (m->theirs.mapped && bytes > TT_CELL_INLINE && bytes <= TT_SHORT_BYTES)
        prefetch_next(m, bytes);
    return true;
}

tutti_status tt_mail_next(const struct tt_mailbox *m, struct tt_mail *out)
{
    const uint8_t *at = m->mine + tt_mail_place(m, m->got.cells);
    const uint64_t state = atomic_load_explicit((_Atomic uint64_t *)(void *)(uintptr_t)at, memory_order_acquire);
    struct taken t;

    if ((uint32_t)(state >> 32) != m->got.cells + 1)
        return TUTTI_PENDING;
    memcpy(&out->cell, at, sizeof out->cell);
    out->bytes = (uint16_t)(state >> 16);
    out->type = (uint8_t)((state & ~IN_LONG) >> 8);
    out->credits = (uint8_t)state;
    out->in_long = state & IN_LONG;
    t = take(m, &m->got, out->bytes, out->in_long);
    if (out->bytes > TT_INLINE_BYTES)       /* no wire takes that */
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "protocol error: rank %u sent a message of %u bytes: the maximum is %u",
                       m->theirs.peer, out->bytes, (unsigned)TT_INLINE_BYTES);
    if (t.units)
        out->payload = m->mine + t.at;
    else
        out->payload = out->bytes <= TT_CELL_INLINE ? out->cell.data : at + offsetof(struct tt_cell, data);
    return TUTTI_OK;
}

void tt_mail_tell(struct tt_mailbox *m)
{
    struct tt_wire *w = m->theirs.wire;
    struct tt_desc d;

    if (!is_worth_telling(m, m->theirs.mapped ? 4 : 2))     /* else it may go along with a message of ours */
        return;
    d = what_is_told(m);
    if (w->ops->post(w, &d, 1) != 1)
        return;
    m->told = m->got;
}

void tt_mail_drop(struct tt_mailbox *m, const struct tt_mail *mail)
{
    const struct taken t = take(m, &m->got, mail->bytes, mail->in_long);

    count(&m->got, &t);
    tt_mail_tell(m);
}
