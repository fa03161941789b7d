#include "engine/link.h"

#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "reduce/reduce.h"

#define FAR_BYTES 8192              /* payloads from here on are looked after */
#define FAR_PS_BYTE 200             /* a peer is far if ordinary stores take longer, ... */
#define FAR_PS_BYTE_AMD 110         /* where stores past the cache are cheap */
#define FAR_TIMES 2                 /* ... so many times in a row of those that are timed: */
#define TIME_EVERY 4                /* one of so many */
#define FAR_COPIES 64               /* that then go past the cache, before it is tried again */

static uint32_t units_of(uint32_t bytes)
{
    return bytes <= TT_CELL_INLINE ? 0 : (bytes + TT_UNIT - 1) / TT_UNIT;
}

/* Units to skip so that a payload does not wrap around the ring's end. */
static uint32_t skip_of(uint32_t at, uint32_t units)
{
    const uint32_t left = TT_DATA_UNITS - at % TT_DATA_UNITS;

    return units > left ? left : 0;
}

void tt_mailbox_init(struct tt_mailbox *m, const struct tt_link *link)
{
    *m = (struct tt_mailbox){ .mine = link->mine, .theirs = link->theirs };
}

static uint64_t head_word(const struct tt_mailbox *m)
{
    return atomic_load_explicit((_Atomic uint64_t *)(void *)(m->mine + TT_LINK_HEAD), memory_order_acquire);
}

bool tt_mail_room(const struct tt_mailbox *m, uint32_t bytes)
{
    const uint64_t head = head_word(m);
    const uint32_t units = units_of(bytes);
    const uint32_t used = m->sent_units + skip_of(m->sent_units, units) + units - (uint32_t)head;

    return m->sent - (uint32_t)(head >> 32) < TT_CELLS && used <= TT_DATA_UNITS;
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
 * it changes within a second. So ordinary stores are timed now and then. */
static void copy_long(struct tt_mailbox *m, void *to, const void *from, uint32_t bytes)
{
    uint64_t began_ns;

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

/* Into a mapped link region: the cell is written where it goes, and the wire only signals. */
static bool send_mapped(struct tt_mailbox *m, struct tt_cell *cell, uint8_t flags, const void *payload, uint32_t bytes,
                        uint32_t unit)
{
    const uint32_t at = TT_LINK_CELLS + m->sent % TT_CELLS * TT_UNIT;
    struct tt_cell *there = (void *)((uint8_t *)m->theirs.mapped + at);
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

    there->context = cell->context;
    there->tag = cell->tag;
    there->opseq = cell->opseq;
    there->desc = cell->desc;
    if (bytes >= FAR_BYTES)
        copy_long(m, (uint8_t *)m->theirs.mapped + TT_LINK_DATA + unit * TT_UNIT, payload, bytes);
    else if (bytes > TT_CELL_INLINE)
        tt_copy((uint8_t *)m->theirs.mapped + TT_LINK_DATA + unit * TT_UNIT, NULL, payload, bytes, false);
    else if (bytes)
        memcpy(there->data, payload, bytes);
    return m->theirs.wire->ops->post(m->theirs.wire, &d, 1) == 1;
}

/* Through the wire. */
static bool send_posted(struct tt_mailbox *m, struct tt_cell *cell, uint8_t flags, const void *payload, uint32_t bytes,
                        uint32_t unit)
{
    const uint32_t at = TT_LINK_CELLS + m->sent % TT_CELLS * TT_UNIT;
    struct tt_wire *w = m->theirs.wire;
    struct tt_desc d[3];
    int n = 0;

    if (bytes > TT_CELL_INLINE) {
        d[n++] = (struct tt_desc){
            .kind = TT_DESC_PUT,
            .flags = TT_DESC_INLINE | TT_DESC_URGENT,
            .peer = m->theirs.peer,
            .local = (void *)payload,
            .bytes = bytes,
            .key = &m->theirs,
            .offset = TT_LINK_DATA + unit * TT_UNIT,
        };
    } else if (bytes) {
        memcpy(cell->data, payload, bytes);
    }
    if (!(w->caps & TT_WIRE_CAP_ORDERED) && (bytes > TT_CELL_INLINE || !(flags & TT_DESC_URGENT)))
        d[n++] = (struct tt_desc){ .kind = TT_DESC_FENCE, .peer = m->theirs.peer };
    d[n++] = (struct tt_desc){
        .kind = TT_DESC_PUT,
        .flags = flags,
        .peer = m->theirs.peer,
        .local = (uint8_t *)cell + sizeof cell->state,
        .bytes = sizeof *cell - sizeof cell->state,
        .key = &m->theirs,
        .offset = at + sizeof cell->state,
        .signal_op = TT_SIGNAL_SET,
        .signal_key = &m->theirs,
        .signal_offset = at,
        .signal_value = cell->state,
    };
    return w->ops->post(w, d, n) == n;      /* a payload without its cell is never looked at, and is sent again */
}

bool tt_mail_send(struct tt_mailbox *m, struct tt_cell *cell, enum tt_cell_type type, uint8_t credits,
                  const void *payload, uint32_t bytes)
{
    const uint32_t units = units_of(bytes), skip = skip_of(m->sent_units, units);
    const uint32_t unit = (m->sent_units + skip) % TT_DATA_UNITS;
    const bool behind = type == TT_CELL_ENDED || type == TT_CELL_FENCE;
    const uint8_t flags = TT_DESC_INLINE | (behind ? 0 : TT_DESC_URGENT);

    if (!tt_mail_room(m, bytes))
        return false;
    cell->state = (uint64_t)(m->sent + 1) << 32 | bytes << 16 | (uint32_t)type << 8 | credits;
    if (!(m->theirs.mapped ? send_mapped : send_posted)(m, cell, flags, payload, bytes, unit))
        return false;
    m->sent++;
    m->sent_units += skip + units;
    return true;
}

tutti_status tt_mail_next(const struct tt_mailbox *m, struct tt_mail *out)
{
    const uint8_t *at = m->mine + TT_LINK_CELLS + m->got % TT_CELLS * TT_UNIT;
    const uint64_t state = atomic_load_explicit((_Atomic uint64_t *)(void *)(uintptr_t)at, memory_order_acquire);
    uint32_t units;

    if ((uint32_t)(state >> 32) != m->got + 1)
        return TUTTI_PENDING;
    memcpy(&out->cell, at, sizeof out->cell);
    out->bytes = (uint16_t)(state >> 16);
    out->type = (uint8_t)(state >> 8);
    out->credits = (uint8_t)state;
    units = units_of(out->bytes);
    if (units > TT_DATA_UNITS)
        return tt_fail(TUTTI_ERR_PROTOCOL, "rank %u sent a message of %u bytes", m->theirs.peer, out->bytes);
    if (units)
        out->payload =
            m->mine + TT_LINK_DATA + (size_t)((m->got_units + skip_of(m->got_units, units)) % TT_DATA_UNITS) * TT_UNIT;
    else
        out->payload = out->cell.data;
    return TUTTI_OK;
}

void tt_mail_tell(struct tt_mailbox *m)
{
    struct tt_wire *w = m->theirs.wire;
    struct tt_desc d;

    if (m->got - m->told < TT_CELLS / 8 && m->got_units - m->told_units < TT_DATA_UNITS / 4)
        return;
    d = (struct tt_desc){
        .kind = TT_DESC_PUT,
        .flags = TT_DESC_INLINE | TT_DESC_URGENT,
        .peer = m->theirs.peer,
        .key = &m->theirs,
        .signal_op = TT_SIGNAL_SET,
        .signal_key = &m->theirs,
        .signal_offset = TT_LINK_HEAD,
        .signal_value = (uint64_t)m->got << 32 | m->got_units,
    };
    if (w->ops->post(w, &d, 1) != 1)
        return;
    m->told = m->got;
    m->told_units = m->got_units;
}

void tt_mail_drop(struct tt_mailbox *m, const struct tt_mail *mail)
{
    const uint32_t units = units_of(mail->bytes);

    m->got++;
    m->got_units += skip_of(m->got_units, units) + units;
    tt_mail_tell(m);
}
