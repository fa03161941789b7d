/* The mailbox of a peer that writes anything to our link region, while it is read: no message
 * extends past the region, and reading always makes progress. The input: the position of the reader
 * (the lowest bit of its units selects a mapped mailbox), then cells, each after a byte that
 * selects whether it gets the expected number, because otherwise it would hardly ever be read. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/status.h"
#include "engine/link.h"

static uint32_t read_u32(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, sizeof v);
    return v;
}

/* Reads the payload like an operation: one byte of each cache line, and the last byte. */
static void look(const struct tt_mailbox *box, const struct tt_mail *m)
{
    const uint8_t *at = m->payload;
    volatile uint8_t sum = 0;

    tt_assert(at == m->cell.data
                  ? m->bytes <= TT_CELL_INLINE
                  : at >= box->mine + TT_LINK_CELLS && at + m->bytes <= box->mine + TT_LINK_BYTES);
    for (uint32_t i = 0; i < m->bytes; i += TT_UNIT)
        sum = (uint8_t)(sum + at[i]);
    if (m->bytes)
        sum = (uint8_t)(sum + at[m->bytes - 1]);
}

static void read_cells(struct tt_mailbox *box, const uint8_t *data, size_t bytes)
{
    while (bytes > 1) {
        const size_t n = bytes - 1 < TT_UNIT ? bytes - 1 : TT_UNIT;
        const uint32_t got = box->got.cells, next = got + 1;
        uint8_t *cell = box->mine + tt_mail_place(box, got);
        struct tt_mail m;
        tutti_status st;

        memcpy(cell, data + 1, n);
        if (data[0] % 4)
            memcpy(cell + 4, &next, sizeof next);
        st = tt_mail_next(box, &m);
        tt_assert(st == TUTTI_OK || st == TUTTI_PENDING || st == TUTTI_ERR_PROTOCOL);
        if (st == TUTTI_OK) {
            look(box, &m);
            memset(cell, data[0], TT_UNIT);     /* the peer continues to write */
            look(box, &m);
            tt_mail_drop(box, &m);
            tt_assert(box->got.cells == next);
        } else {
            box->got.cells = next;
        }
        data += 1 + n;
        bytes -= 1 + n;
    }
}

static int post(struct tt_wire *w, const struct tt_desc *d, int n)
{
    (void)w;
    for (int i = 0; i < n; i++)
        tt_assert(d[i].signal_offset + 8 <= TT_LINK_BYTES);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct tt_wire_ops ops = { .name = "fuzz", .post = post };
    static struct tt_wire wire = { .ops = &ops };
    static uint8_t *region;     /* on the heap, where sanitizers detect overruns; not cleared,
                                   because the peer may write to it */
    struct tt_mailbox box;
    struct tt_link link = { .theirs = { .wire = &wire, .bytes = TT_LINK_BYTES } };

    if (bytes < 8)
        return 0;
    tt_log_set(TT_LOG_NONE);
    if (!region)
        region = aligned_alloc(TT_UNIT, TT_LINK_BYTES);
    tt_assert(region);
    link.mine = region;
    link.theirs.mapped = data[4] & 1 ? region : NULL;
    tt_mailbox_init(&box, &link);
    box.got.cells = read_u32(data);
    box.got.units[TT_MAIL_SHORT] = box.got.units[TT_MAIL_LONG] = read_u32(data + 4);
    box.reported = box.got;
    read_cells(&box, data + 8, bytes - 8);
    return 0;
}
