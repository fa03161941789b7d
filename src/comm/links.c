#include "comm/links.h"

#include <stdio.h>

#define LATENCY_NS_MAX 100000000000ull      /* maximum in descriptions */
#define RATE_MAX 1.25e17
#define OVERSUBSCRIPTION_MAX 1e6
#define PER_UNIT 1000                       /* over-subscription is sent in thousandths */

static bool is_given(const struct tt_topo_link *l)
{
    return l->latency_ns || l->bytes_per_s > 0 || l->oversubscription > 1;
}

void tt_links_write(const struct tt_topo_link *links, struct tt_writer *w)
{
    uint8_t told = 0;

    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++)
        told |= (uint8_t)(is_given(&links[d]) << d);
    tt_write_u8(w, told);
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++)
        if (told >> d & 1) {
            tt_write_u64(w, links[d].latency_ns);
            tt_write_u64(w, (uint64_t)links[d].bytes_per_s);
            tt_write_u32(w, (uint32_t)(links[d].oversubscription * PER_UNIT + 0.5));
        }
}

void tt_links_read(struct tt_topo_link *links, struct tt_reader *r)
{
    const uint8_t told = tt_read_u8(r);

    for (int d = 0; d < TT_DISTANCES; d++)
        links[d] = (struct tt_topo_link){ .oversubscription = 1 };
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        struct tt_topo_link *l = &links[d];

        if (!(told >> d & 1))
            continue;
        l->latency_ns = tt_read_u64(r);
        l->bytes_per_s = (double)tt_read_u64(r);
        l->oversubscription = (double)tt_read_u32(r) / PER_UNIT;
        if (l->latency_ns > LATENCY_NS_MAX || l->bytes_per_s > RATE_MAX ||
            l->oversubscription < 1 || l->oversubscription > OVERSUBSCRIPTION_MAX)
            r->bad = true;
    }
}

void tt_links_complete(struct tt_topo_link *links, const struct tt_topo_link *measured)
{
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        if (links[d].latency_ns == 0)
            links[d].latency_ns = measured[d].latency_ns;
        if (links[d].bytes_per_s <= 0)
            links[d].bytes_per_s = measured[d].bytes_per_s;
    }
}

static double max_double(double a, double b) { return a > b ? a : b; }

/* Sets the constants of messages within a host: as measured, or as limited by a slower link. */
static void model_near(const struct tt_topo_link *l, double ends_ns, double *message_ns,
                       double *byte_ns)
{
    if (l->latency_ns)
        *message_ns = max_double(*message_ns, (double)l->latency_ns + ends_ns);
    if (l->bytes_per_s > 0)
        *byte_ns = max_double(*byte_ns, 1e9 / l->bytes_per_s);
}

void tt_links_model(const struct tt_topo_link *links, enum tt_distance farthest,
                    const struct tt_ends *ends, struct tt_cost_model *m)
{
    double bytes_per_s = links[TT_NEAR_RACK].bytes_per_s;   /* of the rail that all data uses */

    if (farthest < TT_NEAR_RACK) {
        model_near(&links[farthest], ends->near_ns, &m->message_ns, &m->byte_ns);
        return;
    }
    model_near(&links[TT_NEAR_HOST], ends->near_ns, &m->near_message_ns, &m->near_byte_ns);
    if (links[farthest].latency_ns)
        m->message_ns = (double)links[farthest].latency_ns + ends->far_ns;
    if (links[farthest].bytes_per_s > 0 &&
        (bytes_per_s <= 0 || links[farthest].bytes_per_s < bytes_per_s))
        bytes_per_s = links[farthest].bytes_per_s;
    if (bytes_per_s > 0)
        m->byte_ns = 1e9 / bytes_per_s;
}

void tt_links_describe(const struct tt_topo_link *links, char *out, size_t cap)
{
    size_t n = 0;

    *out = '\0';
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES && n < cap; d++) {
        const struct tt_topo_link *l = &links[d];

        if (!is_given(l))
            continue;
        n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? ", " : "",
                              tt_distance_name((enum tt_distance)d));
        if (n < cap && l->latency_ns)
            n += (size_t)snprintf(out + n, cap - n, " %.4g us", (double)l->latency_ns / 1e3);
        if (n < cap && l->bytes_per_s > 0)
            n += (size_t)snprintf(out + n, cap - n, " %.4g Gbit/s", l->bytes_per_s * 8 / 1e9);
        if (n < cap && l->oversubscription > 1)
            n += (size_t)snprintf(out + n, cap - n, " 1:%.4g", l->oversubscription);
    }
}
