#include "boot/flood.h"

#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/status.h"

static uint32_t add_once(uint32_t *peers, uint32_t n, uint32_t peer)
{
    for (uint32_t i = 0; i < n; i++)
        if (peers[i] == peer)
            return n;
    tt_assert(n < TT_FLOOD_LINKS_MAX);
    peers[n] = peer;
    return n + 1;
}

uint32_t tt_flood_neighbours(uint32_t rank, uint32_t nranks, uint32_t *peers)
{
    uint32_t n = 0;

    for (uint32_t step = 1; step < nranks; step *= 2) {
        n = add_once(peers, n, (rank + step) % nranks);
        n = add_once(peers, n, (rank + nranks - step) % nranks);
    }
    return n;
}

tutti_status tt_flood_init(struct tt_flood *f, uint32_t rank, uint32_t nranks)
{
    *f = (struct tt_flood){ .rank = rank, .nranks = nranks };
    f->nlinks = tt_flood_neighbours(rank, nranks, f->peers);
    f->open = (1ull << f->nlinks) - 1;
    f->seen = calloc(nranks, sizeof *f->seen);
    f->lost = calloc(nranks, sizeof *f->lost);
    if (!f->seen || !f->lost) {
        tt_flood_fini(f);
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the control overlay of %u ranks",
                       nranks);
    }
    return TUTTI_OK;
}

void tt_flood_fini(struct tt_flood *f)
{
    free(f->seen);
    free(f->lost);
    f->seen = NULL;
    f->lost = NULL;
}

static void write_data(struct tt_flood_act *out, uint32_t origin, uint64_t sequence,
                       const void *payload, uint16_t bytes)
{
    struct tt_writer w;

    tt_frame_header(out->out, TT_FLOOD_DATA, 12u + bytes);
    tt_writer_init(&w, out->out + TT_FRAME_HEADER_BYTES, sizeof out->out - TT_FRAME_HEADER_BYTES);
    tt_write_u32(&w, origin);
    tt_write_u64(&w, sequence);
    tt_write_bytes(&w, payload, bytes);
    tt_assert(!w.bad);
    out->out_bytes = TT_FRAME_HEADER_BYTES + tt_writer_bytes(&w);
}

/* Handles the loss of a rank, once: notifies all links except those in the mask `from`, drops the
 * rank's link, and delivers the event. */
static void flood_lose_rank(struct tt_flood *f, uint32_t rank, uint64_t from,
                            struct tt_flood_act *out)
{
    struct tt_writer w;

    if (f->lost[rank])
        return;
    f->lost[rank] = true;
    for (uint32_t i = 0; i < f->nlinks; i++)
        if (f->peers[i] == rank && f->open & 1ull << i) {
            f->open &= ~(1ull << i);
            out->drop |= 1ull << i;
        }
    tt_frame_header(out->out, TT_FLOOD_LOST, 4);
    tt_writer_init(&w, out->out + TT_FRAME_HEADER_BYTES, 4);
    tt_write_u32(&w, rank);
    out->out_bytes = TT_FRAME_HEADER_BYTES + 4;
    out->send = f->open & ~from;
    out->deliver = true;
    out->event.kind = TT_OVERLAY_LOST;
    out->event.origin = rank;
}

static void flood_end_link(struct tt_flood *f, uint32_t link, struct tt_flood_act *out)
{
    if (!(f->open & 1ull << link))
        return;     /* the rank has sent GOODBYE, or is known to be lost */
    f->open &= ~(1ull << link);
    out->drop |= 1ull << link;
    flood_lose_rank(f, f->peers[link], 0, out);
}

static void flood_handle_data(struct tt_flood *f, uint32_t link, struct tt_reader *r,
                              struct tt_flood_act *out)
{
    const uint32_t origin = tt_read_u32(r);
    const uint64_t sequence = tt_read_u64(r);
    const size_t bytes = (size_t)(r->end - r->at);

    if (r->bad || origin >= f->nranks || bytes > TT_OVERLAY_BYTES) {
        flood_end_link(f, link, out);
        return;
    }
    if (origin == f->rank || sequence <= f->seen[origin])
        return;
    f->seen[origin] = sequence;
    write_data(out, origin, sequence, r->at, (uint16_t)bytes);
    out->send = f->open & ~(1ull << link);
    out->deliver = true;
    out->event.kind = TT_OVERLAY_FRAME;
    out->event.origin = origin;
    out->event.bytes = (uint16_t)bytes;
    memcpy(out->event.data, r->at, bytes);
}

static void flood_send_direct(const struct tt_flood *f, const struct tt_flood_event *ev,
                              struct tt_flood_act *out)
{
    tt_assert(ev->link < f->nlinks && ev->bytes <= TT_OVERLAY_BYTES &&
              ev->topic < TT_OVERLAY_TOPICS);
    tt_frame_header(out->out, (uint8_t)(TT_FLOOD_DIRECT + ev->topic), ev->bytes);
    memcpy(out->out + TT_FRAME_HEADER_BYTES, ev->payload, ev->bytes);
    out->out_bytes = TT_FRAME_HEADER_BYTES + ev->bytes;
    out->send = f->open & 1ull << ev->link;
}

static void flood_handle_direct(struct tt_flood *f, uint32_t link, const struct tt_frame *frame,
                                struct tt_flood_act *out)
{
    if (frame->bytes > TT_OVERLAY_BYTES) {
        flood_end_link(f, link, out);
        return;
    }
    out->deliver = true;
    out->event.kind = TT_OVERLAY_DIRECT;
    out->event.topic = (uint8_t)(frame->type - TT_FLOOD_DIRECT);
    out->event.origin = f->peers[link];
    out->event.bytes = (uint16_t)frame->bytes;
    memcpy(out->event.data, frame->body, frame->bytes);
}

/* An invalid frame ends the link, and the peer then counts as lost. */
static void flood_handle_frame(struct tt_flood *f, uint32_t link, const struct tt_frame *frame,
                               struct tt_flood_act *out)
{
    struct tt_reader r;
    uint32_t rank;

    if (!(f->open & 1ull << link))
        return;
    tt_reader_init(&r, frame->body, frame->bytes);
    switch (frame->type) {
    case TT_FLOOD_DATA:
        flood_handle_data(f, link, &r, out);
        break;
    case TT_FLOOD_LOST:
        rank = tt_read_u32(&r);
        if (r.bad || rank >= f->nranks)
            flood_end_link(f, link, out);
        else
            flood_lose_rank(f, rank, 1ull << link, out);
        break;
    case TT_FLOOD_GOODBYE:
        f->open &= ~(1ull << link);
        out->drop |= 1ull << link;
        break;
    case TT_FLOOD_DIRECT + TT_OVERLAY_STATUS:
    case TT_FLOOD_DIRECT + TT_OVERLAY_ROLL_CALL:
        flood_handle_direct(f, link, frame, out);
        break;
    default:
        flood_end_link(f, link, out);
        break;
    }
}

void tt_flood_step(struct tt_flood *f, const struct tt_flood_event *ev, struct tt_flood_act *out)
{
    out->send = out->drop = 0;
    out->out_bytes = 0;
    out->deliver = false;
    out->event.bytes = 0;

    switch ((enum tt_flood_event_kind)ev->kind) {
    case TT_FLOOD_EV_ORIGINATE:
        tt_assert(ev->bytes <= TT_OVERLAY_BYTES);
        write_data(out, f->rank, ++f->sequence, ev->payload, ev->bytes);
        out->send = f->open;
        break;
    case TT_FLOOD_EV_DIRECT:
        flood_send_direct(f, ev, out);
        break;
    case TT_FLOOD_EV_FRAME:
        tt_assert(ev->link < f->nlinks);
        flood_handle_frame(f, ev->link, &ev->frame, out);
        break;
    case TT_FLOOD_EV_ENDED:
        tt_assert(ev->link < f->nlinks);
        flood_end_link(f, ev->link, out);
        break;
    }
}
