#include <string.h>
#include "base/status.h"
#include "wire/ofi/ofi.h"

#define ACK_EVERY (TT_OFI_SLOTS / 4)

/* ---- memory ---- */

/* Returns the memory of region + offset [bytes]. NULL: the region does not exist (any more), or is
 * device memory that the CPU would have to access. */
static uint8_t *ofi_target_memory(struct tt_ofi_link *link, uint32_t region, uint32_t generation,
                                  uint64_t offset, uint64_t bytes, bool by_processor)
{
    const struct tt_ofi_region *r =
        region ? tt_ofi_region_find(link->ofi, region, generation) : NULL;
    const uint64_t size = r ? r->public.bytes : link->ofi->conf.link_bytes;
    uint8_t *mem = link->mine;

    if (region)
        mem = r ? r->public.mem : NULL;
    if (r && r->device && by_processor)
        return NULL;
    return mem && offset <= size && bytes <= size - offset ? mem + offset : NULL;
}

static void ofi_raise_signal(struct tt_ofi_link *link, const struct tt_ofi_record *r)
{
    uint64_t *word = (uint64_t *)(void *)ofi_target_memory(
        link, r->signal_region, r->signal_generation, r->signal_offset, sizeof *word, true);

    if (!word)
        return;
    if (r->signal_op == TT_SIGNAL_SET)
        __atomic_store_n(word, r->signal_value, __ATOMIC_RELEASE);
    else
        __atomic_fetch_add(word, r->signal_value, __ATOMIC_ACQ_REL);
}

/* ---- RTS ---- */

static struct tt_ofi_rts *find_rts(struct tt_ofi_lane *lane, uint32_t number)
{
    for (uint32_t i = 0; i < TT_OFI_RTS_MAX; i++)
        if (lane->in[i].state != TT_OFI_RTS_NONE && lane->in[i].number == number)
            return &lane->in[i];
    return NULL;
}

bool tt_ofi_target_is_open(const struct tt_ofi_lane *lane, const struct tt_ofi_region *r)
{
    for (uint32_t i = 0; i < TT_OFI_RTS_MAX; i++)
        if (lane->in[i].state == TT_OFI_RTS_GRANTED && lane->in[i].region == r->id &&
            lane->in[i].generation == r->generation)
            return true;
    return false;
}

static bool handle_rts(struct tt_ofi_lane *lane, const struct tt_ofi_record *r)
{
    if (find_rts(lane, r->number))
        return false;
    for (uint32_t i = 0; i < TT_OFI_RTS_MAX; i++)
        if (lane->in[i].state == TT_OFI_RTS_NONE) {
            lane->in[i] = (struct tt_ofi_rts){ .state = TT_OFI_RTS_RECEIVED,
                                               .number = r->number,
                                               .region = r->region,
                                               .generation = r->generation,
                                               .offset = r->offset,
                                               .bytes = r->bytes };
            lane->nrts_unanswered++;
            return true;
        }
    return false;       /* more RTS than allowed */
}

/* Sends an acknowledgement or CTS on the control lane. Returns false if not possible now. */
static bool note_send(struct tt_ofi_link *link, const struct tt_ofi_record *r)
{
    struct tt_ofi_lane *control = &link->lanes[TT_OFI_CONTROL];
    struct tt_ofi_op *op = tt_ofi_op_take(control, 0);
    uint8_t *note;

    if (!op)
        return false;
    if (!tt_ofi_buffer_take(&control->notes_used, TT_OFI_NOTES, &op->buffer_index)) {
        tt_ofi_op_give(op);
        return false;
    }
    op->kind = TT_OFI_OP_NOTE;
    note = control->notes + op->buffer_index * (size_t)TT_OFI_RECORD_BYTES;
    tt_ofi_record_write(r, note);
    tt_ofi_stamp(link, note);
    if (tt_ofi_post_record(op, note, TT_OFI_RECORD_BYTES))
        return true;
    control->notes_used &= ~(1u << op->buffer_index);
    return false;
}

/* Sends a CTS with the address, or a refusal. Returns false if not possible now. */
static bool send_cts(struct tt_ofi_lane *lane, struct tt_ofi_rts *a)
{
    struct tt_ofi_link *link = lane->link;
    struct tt_ofi_region *region = tt_ofi_region_find(link->ofi, a->region, a->generation);
    struct fid_mr *mr = NULL;
    struct tt_ofi_record r = { .kind = TT_OFI_CTS,
                               .lane = (uint8_t)lane->index,
                               .number = a->number };

    if (region && a->bytes > 0 &&
        ofi_target_memory(link, a->region, a->generation, a->offset, a->bytes, false))
        mr = tt_ofi_region_grant(lane, region);
    if (mr) {
        r.flags = TT_OFI_YES;
        r.offset = tt_ofi_region_address(link->ofi, region, a->offset);
        r.bytes = fi_mr_key(mr);
    }
    if (!note_send(link, &r))
        return false;
    a->state = mr ? TT_OFI_RTS_GRANTED : TT_OFI_RTS_REFUSED;
    lane->nrts_unanswered--;
    return true;
}

void tt_ofi_notes_pump(struct tt_ofi_link *link)
{
    const struct tt_ofi_record ack = { .kind = TT_OFI_ACK };

    for (uint32_t i = 0; i < TT_OFI_LANES; i++) {
        struct tt_ofi_lane *lane = &link->lanes[i];

        for (uint32_t k = 0; k < TT_OFI_RTS_MAX && lane->nrts_unanswered > 0; k++)
            if (lane->in[k].state == TT_OFI_RTS_RECEIVED && !send_cts(lane, &lane->in[k]))
                return;
    }
    for (uint32_t i = 0; i < TT_OFI_LANES; i++)
        if (link->lanes[i].ack_due && !note_send(link, &ack)) {
            link->lanes[i].ack_due = true;
            return;
        }
}

/* ---- records ---- */

/* A put whose target is deregistered is dropped with its signal. */
static void ofi_apply_record(struct tt_ofi_lane *lane, const struct tt_ofi_record *r,
                             const uint8_t *payload)
{
    struct tt_ofi_link *link = lane->link;
    uint8_t *to = r->bytes ? ofi_target_memory(link, r->region, r->generation, r->offset, r->bytes,
                                               r->payload > 0)
                           : NULL;
    struct tt_ofi_rts *a = find_rts(lane, r->number);
    const bool allowed = a && a->state == TT_OFI_RTS_GRANTED && a->region == r->region &&
                         a->generation == r->generation && a->offset == r->offset &&
                         a->bytes == r->bytes;

    if (a) {
        lane->nrts_unanswered -= a->state == TT_OFI_RTS_RECEIVED;
        a->state = TT_OFI_RTS_NONE;
    }
    if (r->kind == TT_OFI_VOID || (r->bytes && !to))
        return;
    if (r->payload)
        memcpy(to, payload, r->payload);
    else if (r->bytes && r->region && !allowed)
        return;
    if (r->signal_op != TT_SIGNAL_NONE)
        ofi_raise_signal(link, r);
}

/* Processes the end of a message. Returns false if a correct peer cannot have sent it. */
static bool ofi_message_arrived(struct tt_ofi_lane *lane, const struct tt_ofi_record *r,
                                const uint8_t *payload)
{
    if (r->number != (uint32_t)lane->applied)
        return false;
    if (tt_trace_is_enabled())
        tt_ofi_trace(lane, 0, TT_TRACE_ARRIVED, r->number, 0, 0, 0);
    ofi_apply_record(lane, r, payload);
    lane->applied++;
    lane->ack_due |= r->flags & TT_OFI_WANT_ACK || lane->applied - lane->applied_sent >= ACK_EVERY;
    return true;
}

/* Processes the applied counts: low bits of numbers close to the known ones. */
static bool ofi_handle_applied(struct tt_ofi_link *link, const struct tt_ofi_record *r)
{
    for (uint32_t i = 0; i < TT_OFI_LANES; i++) {
        const uint32_t ahead = r->applied[i] - (uint32_t)link->lanes[i].acked;

        if (ahead == 0 || ahead > UINT32_MAX / 2)   /* already known from another lane */
            continue;
        if (!tt_ofi_acked(&link->lanes[i], link->lanes[i].acked + ahead))
            return false;
        link->setbacks = 0;
    }
    return true;
}

static bool record_arrived(struct tt_ofi_lane *lane, const struct tt_ofi_record *r,
                           const uint8_t *payload)
{
    if (!ofi_handle_applied(lane->link, r))
        return false;
    switch (r->kind) {
    case TT_OFI_RTS:
        return handle_rts(lane, r);
    case TT_OFI_CTS:
        return tt_ofi_cts_received(&lane->link->lanes[r->lane], r);
    case TT_OFI_ACK:
        return true;
    default:
        return ofi_message_arrived(lane, r, payload);
    }
}

/* Any process can send to the endpoint: data without the token is not from the peer. */
bool tt_ofi_is_ours(const struct tt_ofi_link *link, const uint8_t *record, size_t bytes)
{
    struct tt_reader r;

    tt_reader_init(&r, record, bytes);
    return tt_read_u64(&r) == link->token && !r.bad;
}

void tt_ofi_arrived(struct tt_ofi_lane *lane, const uint8_t *record, size_t bytes)
{
    struct tt_ofi_link *link = lane->link;
    struct tt_ofi_record r;

    if (link->status || link->state == TT_OFI_LOST || !tt_ofi_is_ours(link, record, bytes))
        return;
    lane->met = true;
    if (tt_ofi_record_read(&r, record, bytes) &&
        record_arrived(lane, &r, record + TT_OFI_RECORD_BYTES))
        return;
    link->status = TUTTI_ERR_PROTOCOL;
    link->broken = true;
}
