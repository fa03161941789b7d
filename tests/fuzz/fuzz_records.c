/* Address records on demand with arbitrary neighbours: any frames over any link, links that end,
 * and requests of this rank. No read goes past an end (sanitizers), each request has one result,
 * and the number of copies is bounded. Input: {what u8, rank u8, bytes u16, data}. If the first
 * byte is below 128, all links are up at first; otherwise they are connecting. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/bytes.h"
#include "base/status.h"
#include "boot/records.h"

#define NRANKS 40u
#define KEPT_MAX 4u

static uint32_t nresults;

static void on_act(void *context, const struct tt_records_act *act)
{
    const struct tt_records *s = context;
    volatile uint8_t sum = 0;

    for (size_t i = 0; i < act->bytes; i++)     /* all of it is readable */
        sum = (uint8_t)(sum + ((const uint8_t *)act->data)[i]);
    if (act->kind == TT_RECORDS_ACT_SEND)
        tt_assert(s->open >> act->link & 1);
    else
        nresults++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_records_event ev = { .kind = TT_RECORDS_EV_UP };
    uint64_t wanted = 0;
    struct tt_records s;
    struct tt_reader r;

    nresults = 0;
    tt_assert(tt_records_init(&s, 7, NRANKS, "record", 6, KEPT_MAX) == TUTTI_OK);
    s.emit = on_act;
    s.context = &s;
    for (ev.link = 0; ev.link < s.nlinks && (bytes == 0 || data[0] < 128); ev.link++)
        tt_assert(tt_records_step(&s, &ev));
    tt_reader_init(&r, data, bytes);
    while (r.at < r.end) {
        const uint8_t what = tt_read_u8(&r), rank = tt_read_u8(&r);
        const size_t n = tt_read_u16(&r), left = (size_t)(r.end - r.at);

        if (r.bad)
            break;
        ev = (struct tt_records_event){ .link = (what >> 3) % s.nlinks, .rank = rank % NRANKS };
        ev.frame = (struct tt_frame){ .type = what & 1 ? TT_RECORDS_REQUEST : TT_RECORDS_RESPONSE,
                                      .body = r.at,
                                      .bytes = n < left ? n : left };
        ev.kind = (what & 7) == 0   ? TT_RECORDS_EV_WANTED
                  : (what & 7) == 6 ? TT_RECORDS_EV_ENDED
                  : (what & 7) == 4 ? TT_RECORDS_EV_UP
                                    : TT_RECORDS_EV_FRAME;
        if (ev.kind == TT_RECORDS_EV_FRAME && !(s.open >> ev.link & 1))
            continue;
        if (ev.kind == TT_RECORDS_EV_UP && !(s.connecting >> ev.link & 1))
            continue;
        if (ev.kind == TT_RECORDS_EV_WANTED)
            wanted |= 1ull << ev.rank;
        if (ev.kind == TT_RECORDS_EV_FRAME)
            r.at += ev.frame.bytes;
        (void)tt_records_step(&s, &ev);
        tt_assert(s.nkept <= KEPT_MAX);
    }
    for (ev = (struct tt_records_event){ .kind = TT_RECORDS_EV_ENDED }; ev.link < s.nlinks;
         ev.link++)
        tt_records_step(&s, &ev);
    tt_assert(s.wanted.n == 0);
    tt_assert(nresults >= (uint32_t)__builtin_popcountll(wanted));
    tt_records_fini(&s);
    return 0;
}
