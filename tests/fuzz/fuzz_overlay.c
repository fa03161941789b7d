/* The flood state machine with neighbours that send anything: {link u8, bytes u8, data}, where the
 * data goes to that link's stream. Deliveries are possible ones, a rank is lost once, and nothing
 * is sent over a dropped link. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/bytes.h"
#include "base/status.h"
#include "boot/flood.h"

#define NRANKS 11u

static void step(struct tt_flood *f, const struct tt_flood_event *ev, bool *lost)
{
    static struct tt_flood_act act;

    tt_flood_step(f, ev, &act);
    tt_assert(act.out_bytes <= sizeof act.out);
    tt_assert((act.send & ~f->open) == 0);
    tt_assert((act.drop & f->open) == 0);
    if (!act.deliver)
        return;
    tt_assert(act.event.origin < NRANKS && act.event.bytes <= TT_OVERLAY_BYTES);
    if (act.event.kind == TT_OVERLAY_LOST) {
        tt_assert(!lost[act.event.origin]);
        lost[act.event.origin] = true;
    } else {
        tt_assert(act.event.origin != f->rank);
    }
}

/* Bytes arrive on a link; complete frames go to the state machine. */
static void come(struct tt_flood *f, struct tt_framer *in, uint32_t link, const uint8_t *data,
                 size_t bytes, bool *lost)
{
    struct tt_flood_event ev = { .kind = TT_FLOOD_EV_FRAME, .link = link };
    size_t room;
    uint8_t *at;

    while (bytes > 0 && !in->bad) {
        size_t n;

        at = tt_framer_space(in, &room);
        n = bytes < room ? bytes : room;
        memcpy(at, data, n);
        tt_framer_added(in, n);
        data += n;
        bytes -= n;
        while (tt_framer_next(in, &ev.frame))
            step(f, &ev, lost);
    }
    if (in->bad) {
        ev.kind = TT_FLOOD_EV_ENDED;
        step(f, &ev, lost);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_framer in[TT_FLOOD_LINKS_MAX];
    bool lost[NRANKS] = { false };
    struct tt_flood f;
    struct tt_reader r;

    tt_assert(tt_flood_init(&f, 3, NRANKS) == TUTTI_OK);
    for (uint32_t i = 0; i < f.nlinks; i++)
        tt_framer_init(&in[i], TT_FLOOD_BODY_BYTES);
    tt_reader_init(&r, data, bytes);
    while (r.at < r.end) {
        const uint8_t link = tt_read_u8(&r);
        const size_t n = tt_read_u8(&r), left = (size_t)(r.end - r.at), some = n < left ? n : left;

        if (link == 255)
            step(&f,
                 &(struct tt_flood_event){
                     .kind = TT_FLOOD_EV_ORIGINATE, .payload = r.at, .bytes = (uint16_t)some },
                 lost);
        else
            come(&f, &in[link % f.nlinks], link % f.nlinks, r.at, some, lost);
        r.at += some;
    }
    for (uint32_t i = 0; i < f.nlinks; i++)
        tt_framer_fini(&in[i]);
    tt_flood_fini(&f);
    return 0;
}
