#include "boot/record_table.h"

#include <string.h>

#include "base/delta.h"

#define HAS_HOLDER 1u
#define HAS_SIZE 2u
#define IS_WHOLE 4u

/* Makes s->entry the base of the next entry. */
static void stream_set_base(struct tt_record_stream *s)
{
    if (s->n > 0 && s->n % TT_RECORD_GROUP == 0)
        s->entry = s->first;
}

static void stream_advance(struct tt_record_stream *s)
{
    if (s->n++ == 0)
        s->first = s->entry;
}

void tt_record_write(struct tt_record_stream *s, struct tt_writer *w, uint32_t holder,
                     const void *record, uint16_t bytes)
{
    uint8_t next[TT_TREE_CARD_MAX] = { 0 }, back[TT_TREE_CARD_MAX],
            packed[TT_DELTA_MAX(TT_TREE_CARD_MAX)];
    struct tt_record_entry *base = &s->entry;
    uint8_t flags = 0;
    size_t n;

    stream_set_base(s);
    if (bytes)
        memcpy(next, record, bytes);
    tt_delta_repeats(next, bytes, back);
    n = tt_delta_pack(next, bytes, back, base->record, packed);
    if (holder != base->holder)
        flags |= HAS_HOLDER;
    if (bytes != base->bytes)
        flags |= HAS_SIZE;
    if (n > bytes)
        flags |= IS_WHOLE;
    tt_write_u8(w, flags);
    if (flags & HAS_HOLDER)
        tt_write_u32(w, holder);
    if (flags & HAS_SIZE)
        tt_write_u16(w, bytes);
    tt_write_bytes(w, flags & IS_WHOLE ? next : packed, flags & IS_WHOLE ? bytes : n);
    base->holder = holder;
    base->bytes = bytes;
    memcpy(base->record, next, sizeof next);
    stream_advance(s);
}

void tt_record_read(struct tt_record_stream *s, struct tt_reader *r)
{
    const uint8_t flags = tt_read_u8(r);
    struct tt_record_entry *e = &s->entry;

    stream_set_base(s);
    if (flags & HAS_HOLDER)
        e->holder = tt_read_u32(r);
    if (flags & HAS_SIZE)
        e->bytes = tt_read_u16(r);
    if (flags > (HAS_HOLDER | HAS_SIZE | IS_WHOLE) || e->bytes > TT_TREE_CARD_MAX) {
        r->bad = true;
        e->bytes = 0;
        return;
    }
    if (flags & IS_WHOLE)
        tt_read_bytes(r, e->record, e->bytes);
    else
        tt_delta_unpack(r, e->record, e->bytes);
    memset(e->record + e->bytes, 0, sizeof e->record - e->bytes);
    stream_advance(s);
}
