/* Several lanes to a peer: a segment uses the rail that is free first, and segments count in the
 * order of their puts.
 *
 * Ranks that are alone on their hosts have a lane on each rail, and a segment uses one of them as a
 * whole. The engine fences each put if lanes are unordered: its signal waits for all earlier puts
 * to that peer, on any lane. */
#include "sim/des_state.h"

/* The rails that the pair's lanes use. */
static uint32_t rails_used(const struct des *s, uint32_t me, uint32_t to)
{
    const uint32_t rails = tt_net_rails(&s->net, me, to);

    return s->conf->lanes && s->conf->lanes < rails ? s->conf->lanes : rails;
}

bool des_lanes_stripe(const struct des *s, uint32_t me, uint32_t to)
{
    return rails_used(s, me, to) > 1;
}

uint64_t des_lanes_bytes(const struct des *s, uint32_t me, uint32_t to)
{
    const uint64_t lane_bytes =
        s->conf->lane_bytes[tt_layout_distance(s->conf->net->layout, me, to)];

    return lane_bytes * (s->conf->lanes ? s->conf->lanes : tt_net_rails(&s->net, me, to));
}

bool des_lanes_path(struct des *s, uint32_t me, uint16_t peer, uint32_t to, bool segment,
                    struct tt_net_path *out)
{
    const uint32_t n = segment ? rails_used(s, me, to) : 1;
    struct des_flow *f = &s->rank[me].flow[peer];
    struct tt_net_path p;
    uint64_t least = UINT64_MAX;

    if (n < 2)
        return tt_net_path(&s->net, me, to, out);
    for (uint32_t i = 0; i < n; i++) {
        if (!tt_net_lane_path(&s->net, me, to, (f->posted + i) % n, &p))
            return false;
        if (s->net.server[p.server[0]].free_ps < least) {
            least = s->net.server[p.server[0]].free_ps;
            *out = p;
        }
    }
    return true;
}

static struct des_flow *flow_of_msg(struct des *s, const struct des_msg *m)
{
    struct des_rank *from = &s->rank[m->from];

    return &from->flow[tt_exec_peer_of(&from->exec, m->to)];
}

/* Removes the parked segment with that sequence number, if present, and delivers it now. */
static void release_parked(struct des *s, struct des_flow *f, uint32_t number)
{
    uint32_t before = DES_NONE, i = f->parked ? f->parked - 1 : DES_NONE;

    while (i != DES_NONE && s->msg[i].number != number) {
        before = i;
        i = s->msg[i].next;
    }
    if (i == DES_NONE)
        return;
    if (before != DES_NONE)
        s->msg[before].next = s->msg[i].next;
    else
        f->parked = s->msg[i].next == DES_NONE ? 0 : s->msg[i].next + 1;
    des_at(s, s->now_ps, i);
}

bool des_lanes_in_order(struct des *s, uint32_t i)
{
    struct des_msg *m = &s->msg[i];
    struct des_flow *f = flow_of_msg(s, m);

    if (m->number != f->landed + 1) {
        m->next = f->parked ? f->parked - 1 : DES_NONE;
        f->parked = i + 1;
        return false;
    }
    f->landed++;
    m->number = 0;
    release_parked(s, f, f->landed + 1);
    return true;
}
