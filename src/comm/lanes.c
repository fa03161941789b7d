#include "comm/lanes.h"

#include <inttypes.h>
#include <stdio.h>

#include "wire/lane_limits.h"
#include "wire/verbs/verbs_frame.h"
#include "wire/wires.h"

/* Returns the third number of a line like "4096 16384 4194304": the maximum size of a socket
 * buffer. 0: unknown. */
static uint64_t buffer_max(const char *path)
{
    uint64_t most = 0;
    FILE *f = fopen(path, "re");

    if (!f)
        return 0;
    if (fscanf(f, "%*u %*u %" SCNu64, &most) != 1)
        most = 0;
    fclose(f);
    return most;
}

/* Returns the bytes that a connection may have in flight: limited by the sender's buffer, and by
 * the receiver's window, which is half of its buffer. */
static uint64_t kernel_bytes(void)
{
    const uint64_t out = buffer_max("/proc/sys/net/ipv4/tcp_wmem"),
                   in = buffer_max("/proc/sys/net/ipv4/tcp_rmem") / 2;

    return !out ? in : !in || out < in ? out : in;
}

tutti_status tt_lane_facts_get(struct tt_lane_facts *out, uint32_t lanes, const char *wires)
{
    const bool queue_pairs = wires && *wires && tt_wire_is_listed(wires, &tt_wire_verbs);
    const uint64_t most = queue_pairs ? 0 : kernel_bytes();
    struct tt_lane_limits limits;
    const tutti_status st = tt_lane_limits_get(&limits);

    if (st)
        return st;
    *out = (struct tt_lane_facts){
        .asked = (uint8_t)(lanes > TT_DQPLB_LANES_MAX ? TT_DQPLB_LANES_MAX
                           : lanes                    ? lanes
                           : queue_pairs              ? TT_LANES_BY_DISTANCE
                                                      : TT_LANES_FREE),
    };
    for (int d = TT_NEAR_RACK; d < TT_DISTANCES; d++) {
        out->bytes[d] = most && most < limits.bytes[d] ? most : limits.bytes[d];
        out->by_link |= (uint8_t)((queue_pairs && !limits.user_set[d]) << d);
    }
    tt_lane_facts_set_links(out, NULL, 1);
    return TUTTI_OK;
}

void tt_lane_facts_set_links(struct tt_lane_facts *f, const struct tt_topo_link *links,
                             uint32_t nrails)
{
    const uint32_t used = nrails < TT_VERBS_RAILS ? nrails : TT_VERBS_RAILS;

    for (int d = TT_NEAR_RACK; d < TT_DISTANCES; d++) {
        const uint32_t suit = tt_dqplb_lane_count(d), lanes = f->asked != TT_LANES_BY_DISTANCE
                                                                  ? f->asked
                                                              : suit > used                    ? suit
                                                                            : used;

        if (f->by_link >> d & 1)
            f->bytes[d] = tt_lane_limits_queues(&tt_lane_limits_default, d, lanes, TT_VERBS_WINDOW,
                                                links, used)
                              .lane_bytes;
    }
}

void tt_lane_facts_write(const struct tt_lane_facts *f, struct tt_writer *w)
{
    tt_write_u8(w, f->asked);
    tt_write_u8(w, f->by_link);
    for (int d = TT_NEAR_RACK; d < TT_DISTANCES; d++)
        tt_write_u64(w, f->bytes[d]);
}

void tt_lane_facts_read(struct tt_lane_facts *f, struct tt_reader *r)
{
    *f = (struct tt_lane_facts){ 0 };
    f->asked = tt_read_u8(r);
    f->by_link = tt_read_u8(r);
    for (int d = TT_NEAR_RACK; d < TT_DISTANCES; d++) {
        f->bytes[d] = tt_read_u64(r);
        r->bad |= f->bytes[d] == 0 || f->bytes[d] > TT_LANE_BYTES_MAX;
    }
    r->bad |= f->asked > TT_DQPLB_LANES_MAX && f->asked != TT_LANES_BY_DISTANCE;
    r->bad |= f->by_link && f->asked == TT_LANES_FREE;
}

uint32_t tt_lane_facts_count(const struct tt_lane_facts *f, const struct tt_layout *l)
{
    const uint32_t rails = l->nrails < TT_DQPLB_LANES_MAX ? l->nrails : TT_DQPLB_LANES_MAX;
    uint32_t suit;

    if (l->nranks < 2 || f->asked == 1)
        return 1;
    if (f->asked == TT_LANES_FREE)
        return tt_layout_widest(l) == 1 ? rails : 1;
    if (f->asked != TT_LANES_BY_DISTANCE)
        return f->asked;
    suit = tt_dqplb_lane_count(tt_layout_farthest(l));
    return suit > rails ? suit : rails;
}
