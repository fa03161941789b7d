#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "wire/ofi/ofi.h"

/* ---- parts ---- */

struct fid_cq *tt_ofi_cq_open(const struct tt_ofi_provider *p, int *fd)
{
    struct fi_cq_attr attr = {
        .size = TT_RPUT_STREAMS * (TT_OFI_RECEIVES + TT_OFI_SENDS) + TT_OFI_ENDS_MAX,
        .format = FI_CQ_FORMAT_MSG,
        .wait_obj = p->unwoken ? FI_WAIT_NONE : FI_WAIT_FD,
    };
    struct fid_cq *cq;
    int err = fi_cq_open(p->domain, &attr, &cq, NULL);

    *fd = -1;
    if (err && !p->unwoken) {
        attr.wait_obj = FI_WAIT_NONE;
        err = fi_cq_open(p->domain, &attr, &cq, NULL);
    }
    if (err) {
        tt_log(TT_LOG_INFO, "ofi: %s: cannot open a completion queue: %s", p->name,
               tt_ofi_strerror(err));
        return NULL;
    }
    if (attr.wait_obj == FI_WAIT_FD && fi_control(&cq->fid, FI_GETWAIT, fd) != 0)
        *fd = -1;
    return cq;
}

struct fid_ep *tt_ofi_ep_open(const struct tt_ofi_provider *p, struct fid_cq *cq)
{
    struct fid_ep *ep = NULL;
    int err = fi_endpoint(p->domain, p->info, &ep, NULL);

    if (!err)
        err = fi_ep_bind(ep, &p->av->fid, 0);
    if (!err)
        err = fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV);
    if (!err)
        err = fi_enable(ep);
    if (!err)
        return ep;
    tt_log(TT_LOG_INFO, "ofi: %s: cannot open an endpoint: %s", p->name, tt_ofi_strerror(err));
    tt_ofi_close(ep ? &ep->fid : NULL);
    return NULL;
}

uint16_t tt_ofi_ep_name(struct fid_ep *ep, uint8_t name[TT_OFI_NAME_BYTES])
{
    size_t bytes = TT_OFI_NAME_BYTES;

    return fi_getname(&ep->fid, name, &bytes) == 0 && bytes <= TT_OFI_NAME_BYTES ? (uint16_t)bytes
                                                                                 : 0;
}

/* Returns the flags of an operation. Explicit flags replace the endpoint's default flags, so these
 * are added. */
static uint64_t flags_with(const struct tt_ofi_provider *p, uint64_t flags)
{
    return FI_COMPLETION | p->info->tx_attr->op_flags | flags;
}

ssize_t tt_ofi_ep_write(const struct tt_ofi_provider *p, struct fid_ep *ep, fi_addr_t to,
                        const struct tt_ofi_write *w, struct fid_mr *mr, uint64_t flags,
                        void *context)
{
    const struct iovec iov = { .iov_base = (void *)(uintptr_t)w->data, .iov_len = w->bytes };
    const struct fi_rma_iov rma = { .addr = w->target, .len = w->bytes, .key = w->key };
    void *desc = tt_ofi_mr_desc(mr);
    const struct fi_msg_rma msg = {
        .msg_iov = &iov,
        .desc = &desc,
        .iov_count = 1,
        .addr = to,
        .rma_iov = &rma,
        .rma_iov_count = 1,
        .context = context,
    };

    return fi_writemsg(ep, &msg, flags_with(p, flags));
}

ssize_t tt_ofi_ep_send(const struct tt_ofi_provider *p, struct fid_ep *ep, fi_addr_t to,
                       const void *data, size_t bytes, struct fid_mr *mr, uint64_t flags,
                       void *context)
{
    const struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = bytes };
    void *desc = tt_ofi_mr_desc(mr);
    const struct fi_msg msg = {
        .msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = to, .context = context
    };

    return fi_sendmsg(ep, &msg, flags_with(p, flags));
}

/* ---- endpoints of a link ---- */

static void lane_open(struct tt_ofi_lane *lane)
{
    for (uint16_t i = 0; i < TT_OFI_RECEIVES; i++)
        lane->unposted[i] = i;
    lane->nunposted = TT_OFI_RECEIVES;
    for (uint16_t i = 0; i < TT_OFI_SENDS; i++)
        lane->sends[i] =
            (struct tt_ofi_op){ .lane = lane,
                                .next_free = i + 1 < TT_OFI_SENDS ? i + 1 : TT_OFI_NO_OP };
    lane->free_send = 0;
    lane->nfree_sends = TT_OFI_SENDS;
    lane->stuck = lane->met = false;
}

bool tt_ofi_connect_receive(struct tt_ofi_lane *lane, struct tt_ofi_end *end)
{
    const ssize_t err =
        fi_recv(end->ep, end->met.buffer, TT_OFI_SLOT_BYTES, tt_ofi_mr_desc(lane->link->local_mr),
                FI_ADDR_UNSPEC, &end->met.context);

    end->unposted = err == -FI_EAGAIN;
    return err == 0 || end->unposted;
}

/* Opens another endpoint of the lane. Returns false on failure, or if its name exceeds the space
 * *room left in the hello. */
static bool end_open(struct tt_ofi_lane *lane, size_t *room)
{
    struct tt_ofi_end *end = &lane->end[lane->nopen];
    uint8_t name[TT_OFI_NAME_BYTES];
    size_t bytes;

    end->to = FI_ADDR_UNSPEC;
    end->ep = tt_ofi_ep_open(&lane->link->ofi->provider, lane->link->cq);
    if (!end->ep || lane->nopen == 0)
        return end->ep;
    end->met = (struct tt_ofi_op){ .kind = TT_OFI_OP_PROBE_RECEIVE,
                                   .lane = lane,
                                   .end = (uint8_t)lane->nopen,
                                   .buffer = end->meeting };
    bytes = sizeof(uint16_t) + tt_ofi_ep_name(end->ep, name);
    if (bytes > sizeof(uint16_t) && bytes <= *room && tt_ofi_connect_receive(lane, end)) {
        *room -= bytes;
        return true;
    }
    tt_ofi_close(&end->ep->fid);
    end->ep = NULL;
    return false;
}

/* The first endpoint of a lane is required; others are used if they can be opened. On failure
 * tt_ofi_ends_close cleans up. */
static bool lane_ends_open(struct tt_ofi_lane *lane)
{
    struct tt_ofi_link *link = lane->link;
    const struct tt_ofi_provider *p = &link->ofi->provider;
    size_t room = TT_OFI_MORE_BYTES;

    for (lane->nopen = 0; lane->nopen < lane->nends && end_open(lane, &room);)
        lane->nopen++;
    if (lane->nopen > 0 && p->per_endpoint)
        lane->mine_mr = tt_ofi_mr_open(p, link->base.mine, link->ofi->base.conf.link_bytes,
                                       FI_REMOTE_WRITE, lane->end[0].ep);
    return lane->nopen > 0 && (lane->mine_mr || !p->per_endpoint);
}

tutti_status tt_ofi_ends_open(struct tt_ofi_link *link)
{
    const struct tt_ofi_provider *p = &link->ofi->provider;
    bool good;

    tt_random_bytes(&link->token, sizeof link->token);
    link->cq = tt_ofi_cq_open(p, &link->cq_fd);
    good = link->cq;
    for (uint32_t i = 0; good && i < TT_RPUT_STREAMS; i++) {
        good = lane_ends_open(&link->lanes[i]);
        if (!good)
            break;
        lane_open(&link->lanes[i]);
        tt_ofi_post_receives(&link->lanes[i]);
    }
    if (good && !link->broken)
        return TUTTI_OK;
    tt_ofi_ends_close(link);
    return tt_fail(TUTTI_ERR_NOMEM, "ofi: %s: cannot open endpoints for the link to rank %u",
                   p->name, link->base.peer);
}

void tt_ofi_ends_close(struct tt_ofi_link *link)
{
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        struct tt_ofi_lane *lane = &link->lanes[i];

        if (lane->nopen == 0)
            continue;
        tt_ofi_grants_end(lane);
        tt_ofi_close(lane->mine_mr ? &lane->mine_mr->fid : NULL);
        lane->mine_mr = NULL;
        while (lane->nopen > 0) {
            struct tt_ofi_end *end = &lane->end[--lane->nopen];

            tt_ofi_close(&end->ep->fid);
            if (end->to != FI_ADDR_UNSPEC)
                fi_av_remove(link->ofi->provider.av, &end->to, 1, 0);
            end->ep = NULL;
            end->to = FI_ADDR_UNSPEC;
        }
    }
    tt_ofi_close(link->cq ? &link->cq->fid : NULL);
    link->cq = NULL;
    link->cq_fd = -1;
}

static bool end_connect(struct tt_ofi_lane *lane, uint32_t index, const struct tt_ofi_name *name)
{
    struct tt_ofi_end *end = &lane->end[index];

    if (fi_av_insert(lane->link->ofi->provider.av, name->data, 1, &end->to, 0, NULL) == 1)
        return true;
    end->to = FI_ADDR_UNSPEC;
    return false;
}

bool tt_ofi_ends_connect(struct tt_ofi_link *link, const struct tt_ofi_hello *theirs)
{
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        struct tt_ofi_lane *lane = &link->lanes[i];
        const uint32_t more = i == TT_RPUT_DATA ? theirs->nmore : 0;

        lane->nboth = lane->nopen - 1 < more ? lane->nopen : 1 + more;
        tt_dqplb_lanes_init(&lane->load, lane->nboth, TT_OFI_SENDS);
        if (!end_connect(lane, 0, &theirs->lanes[i].name))
            return false;
        for (uint32_t k = 1; k < lane->nboth; k++) {
            tt_dqplb_lanes_down(&lane->load, k);
            if (!end_connect(lane, k, &theirs->more[k - 1]))
                return false;
        }
    }
    return true;
}

/* ---- operations ---- */

struct tt_ofi_op *tt_ofi_op_take(struct tt_ofi_lane *lane, uint32_t reserved)
{
    struct tt_ofi_op *op;

    if (lane->nfree_sends <= reserved)
        return NULL;
    op = &lane->sends[lane->free_send];
    lane->free_send = op->next_free;
    lane->nfree_sends--;
    op->buffer_index = 0;
    op->end = 0;
    op->more = false;
    op->bytes = 0;
    return op;
}

void tt_ofi_op_give(struct tt_ofi_op *op)
{
    struct tt_ofi_lane *lane = op->lane;

    op->next_free = lane->free_send;
    lane->free_send = (uint16_t)(op - lane->sends);
    lane->nfree_sends++;
}

/* Handles the result of posting an operation. */
static bool op_posted(struct tt_ofi_op *op, ssize_t err)
{
    struct tt_ofi_lane *lane = op->lane;

    if (err == 0)
        return true;
    tt_ofi_op_give(op);
    if (err == -FI_EAGAIN) {
        lane->stuck = true;
        return false;
    }
    tt_log(TT_LOG_DEBUG, "ofi: an endpoint for rank %u failed: %s", lane->link->base.peer,
           tt_ofi_strerror(err));
    lane->link->setbacks += !lane->link->broken;
    lane->link->broken = true;
    return false;
}

bool tt_ofi_post_record(struct tt_ofi_op *op, const uint8_t *record, uint32_t bytes)
{
    struct tt_ofi_lane *lane = op->lane;
    const struct tt_ofi_end *end = &lane->end[op->end];

    return op_posted(op,
                     tt_ofi_ep_send(&lane->link->ofi->provider, end->ep, end->to, record, bytes,
                                    lane->link->local_mr, op->more ? FI_MORE : 0, &op->context));
}

bool tt_ofi_post_write(struct tt_ofi_op *op, const void *data, struct fid_mr *mr, uint64_t target,
                       uint64_t key)
{
    const struct tt_ofi_end *end = &op->lane->end[op->end];
    const struct tt_ofi_write w = {
        .data = data, .bytes = op->bytes, .target = target, .key = key
    };
    const uint64_t flags = (op->more ? FI_MORE : 0) | (op->end > 0 ? FI_DELIVERY_COMPLETE : 0);

    return op_posted(op, tt_ofi_ep_write(&op->lane->link->ofi->provider, end->ep, end->to, &w, mr,
                                         flags, &op->context));
}

/* The lower rank sends first, so the two ends do not connect simultaneously. The other end uses the
 * endpoint after a receive. */
void tt_ofi_connect_endpoints(struct tt_ofi_lane *lane)
{
    static const uint64_t applied[TT_RPUT_STREAMS];     /* the contents are ignored */
    const struct tt_ofi_record r = { .put.kind = TT_RPUT_ACK };
    const struct tt_ofi_link *link = lane->link;

    for (uint32_t k = 1;
         k < lane->nboth && link->ofi->base.conf.rank < link->base.peer && !link->broken; k++) {
        uint8_t *record = lane->end[k].meeting + TT_OFI_SLOT_BYTES;
        struct tt_ofi_op *op =
            lane->load.lane[k].down ? tt_ofi_op_take(lane, TT_OFI_SENDS_RESERVED) : NULL;

        if (!op)
            continue;
        op->kind = TT_OFI_OP_PROBE;
        op->end = (uint8_t)k;
        tt_ofi_record_write(&r, record);
        tt_ofi_record_stamp(record, link->theirs_token, applied);
        if (tt_ofi_post_record(op, record, TT_OFI_RECORD_BYTES))
            tt_dqplb_lanes_up(&lane->load, k);
    }
}

bool tt_ofi_ends_wait(const struct tt_ofi_lane *lane)
{
    for (uint32_t k = 1; k < lane->nboth; k++)
        if (lane->load.lane[k].down)
            return true;
    return false;
}

void tt_ofi_post_receives(struct tt_ofi_lane *lane)
{
    while (lane->nunposted > 0) {
        struct tt_ofi_op *op = &lane->receives[lane->unposted[lane->nunposted - 1]];
        const ssize_t err =
            fi_recv(lane->end[0].ep, op->buffer, TT_OFI_SLOT_BYTES,
                    tt_ofi_mr_desc(lane->link->local_mr), FI_ADDR_UNSPEC, &op->context);

        if (err == -FI_EAGAIN)
            return;
        if (err) {
            lane->link->broken = true;
            return;
        }
        lane->nunposted--;
    }
    for (uint32_t k = 1; k < lane->nopen; k++)
        if (lane->end[k].unposted && !tt_ofi_connect_receive(lane, &lane->end[k]))
            lane->link->broken = true;
}
