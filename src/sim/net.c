#include "sim/net.h"

#include <stdlib.h>

#include "base/pages.h"
#include "base/status.h"

#define PS_PER_S 1e12

static uint32_t rails_of(const struct tt_layout *l)
{
    uint32_t most = l->nrails ? l->nrails : 1;

    for (uint32_t r = 0; !tt_layout_is_regular(l) && r < l->nranks; r++)
        if (tt_layout_rail(l, r) >= most)
            most = tt_layout_rail(l, r) + 1;
    return most;
}

/* ---- construction ---- */

/* Numbers all servers but those of pairs, and returns their count. Above UINT32_MAX the network
 * cannot be built, and the numbers are meaningless. */
static uint64_t number_servers(struct tt_net *net, const struct tt_net_conf *conf)
{
    const struct tt_layout *l = conf->layout;
    uint64_t n = 0;

    net->pair_stride = tt_layout_widest(l);
    net->socket_from = 0;
    net->socket_stride = 0;
    if (l->node == TT_NODE_SOCKETS) {
        net->socket_stride = tt_layout_is_regular(l)
                                 ? l->group_ranks[TT_NEAR_HOST] / l->group_ranks[TT_NEAR_SOCKET]
                                 : tt_layout_groups(l, TT_NEAR_SOCKET);
        n += (uint64_t)tt_layout_groups(l, TT_NEAR_SOCKET) * net->socket_stride;
    }
    net->nrails = rails_of(l);
    for (int way = 0; way < 2; way++) {
        net->rail_from[way] = (uint32_t)n;
        n += (uint64_t)l->nhosts * net->nrails;
    }
    for (int d = TT_NEAR_ZONE; d < TT_DISTANCES; d++)
        for (int way = 0; net->shared_up[d] && way < 2; way++) {
            net->up_from[d][way] = (uint32_t)n;
            n += tt_layout_groups(l, (enum tt_distance)(d - 1));
        }
    net->pair_from = (uint32_t)n;
    return n;
}

static tutti_status need_link(const struct tt_net_conf *conf, enum tt_distance d)
{
    if (conf->link[d].bytes_per_s > 0)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID,
                   "invalid link rate at distance \"%s\": %g bytes per second (must be positive)",
                   tt_distance_name(d), conf->link[d].bytes_per_s);
}

/* Finds the distances that occur in the layout. Those from rank 0, and from the first rank of each
 * rank's host, include all. */
static void find_distances(const struct tt_layout *l, bool *there)
{
    for (uint32_t r = 0; r < l->nranks; r++) {
        there[tt_layout_distance(l, 0, r)] = true;
        there[tt_layout_distance(l, tt_layout_rank(l, tt_layout_host(l, r), 0), r)] = true;
    }
}

static tutti_status take_rates(struct tt_net *net, const struct tt_net_conf *conf)
{
    bool there[TT_DISTANCES] = { false };
    int far = TT_NEAR_WAN;
    tutti_status st;

    find_distances(conf->layout, there);
    while (far > TT_NEAR_SELF && !there[far])
        far--;
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        const bool needed = d == TT_NEAR_RACK ? far >= TT_NEAR_RACK : d < TT_NEAR_RACK && there[d];
        const double up = d > TT_NEAR_RACK ? conf->uplink_bytes_per_s[d] : 0;

        if (needed && (st = need_link(conf, (enum tt_distance)d)))
            return st;
        net->latency_ps[d] = (uint64_t)(conf->link[d].latency_ns * TT_PS_PER_NS + 0.5);
        if (d <= TT_NEAR_RACK)
            net->byte_ps[d] =
                conf->link[d].bytes_per_s > 0 ? PS_PER_S / conf->link[d].bytes_per_s : 0;
        else if (conf->link[d].bytes_per_s > 0)
            net->pair_byte_ps[d] = PS_PER_S / conf->link[d].bytes_per_s;
        net->shared_up[d] = up > 0 && d <= far;
        if (up > 0)
            net->byte_ps[d] = PS_PER_S / up;
    }
    return TUTTI_OK;
}

bool tt_fault_slow(float *slow, double factor)
{
    const double now = (double)*slow * factor;

    if (*slow > 0 && !(now >= TT_FAULT_FACTOR_MIN && now <= TT_FAULT_FACTOR_MAX))
        return false;
    *slow = (float)now;
    return true;
}

static tutti_status too_much(const struct tt_fault *f)
{
    return tt_fail(
        TUTTI_ERR_INVALID,
        "invalid fault: factor %g: the product of the factors of one rail, uplink or rank must "
        "be %g to %g",
        f->factor, TT_FAULT_FACTOR_MIN, TT_FAULT_FACTOR_MAX);
}

static tutti_status slow_rail(struct tt_net *net, const struct tt_fault *f)
{
    const bool dead = f->kind == TT_FAULT_DEAD_RAIL;

    if (f->where >= net->layout->nhosts || f->index >= net->nrails)
        return tt_fail(TUTTI_ERR_INVALID,
                       "invalid fault: rail %u of host %u, but there %s %u host%s with %u rail%s",
                       f->index, f->where, net->layout->nhosts == 1 ? "is" : "are",
                       net->layout->nhosts, TT_PLURAL(net->layout->nhosts), net->nrails,
                       TT_PLURAL(net->nrails));
    for (int way = 0; way < 2; way++) {
        struct tt_server *s = &net->server[net->rail_from[way] + f->where * net->nrails + f->index];

        if (dead)
            s->slow = 0;
        else if (!tt_fault_slow(&s->slow, f->factor))
            return too_much(f);
    }
    net->has_dead |= dead;
    return TUTTI_OK;
}

static tutti_status slow_uplink(struct tt_net *net, const struct tt_fault *f)
{
    const enum tt_distance d = (enum tt_distance)(f->index + 1);

    if (f->index < TT_NEAR_RACK || f->index > TT_NEAR_FABRIC || !net->shared_up[d])
        return tt_fail(TUTTI_ERR_INVALID,
                       "invalid fault: the uplink of a %s is not oversubscribed in this network, "
                       "or not used",
                       tt_distance_name((enum tt_distance)f->index));
    if (f->where >= tt_layout_groups(net->layout, (enum tt_distance)f->index))
        return tt_fail(TUTTI_ERR_INVALID, "invalid fault: uplink of %s %u: must be 0 to %u",
                       tt_distance_name((enum tt_distance)f->index), f->where,
                       tt_layout_groups(net->layout, (enum tt_distance)f->index) - 1);
    for (int way = 0; way < 2; way++)
        if (!tt_fault_slow(&net->server[net->up_from[d][way] + f->where].slow, f->factor))
            return too_much(f);
    return TUTTI_OK;
}

/* Checks the faults of rank `where`; the simulator applies them. */
static tutti_status slow_rank(const struct tt_net *net, const struct tt_fault *faults, uint32_t i)
{
    const struct tt_fault *f = &faults[i];
    float slow = 1;

    if (f->where >= net->layout->nranks)
        return tt_fail(TUTTI_ERR_INVALID, "invalid fault: rank %u: must be 0 to %u", f->where,
                       net->layout->nranks - 1);
    for (uint32_t k = 0; f->kind == TT_FAULT_SLOW_RANK && k <= i; k++)
        if (faults[k].kind == f->kind && faults[k].where == f->where &&
            !tt_fault_slow(&slow, faults[k].factor))
            return too_much(f);
    return TUTTI_OK;
}

static tutti_status break_things(struct tt_net *net, const struct tt_fault *faults,
                                 uint32_t nfaults)
{
    tutti_status st = TUTTI_OK;

    for (uint32_t i = 0; i < nfaults && !st; i++) {
        if (!(faults[i].factor >= 0) ||
            (faults[i].kind != TT_FAULT_DEAD_RAIL && faults[i].kind != TT_FAULT_LATE_RANK &&
             faults[i].factor <= 0))
            return tt_fail(TUTTI_ERR_INVALID,
                           "invalid fault %u: factor %g (must be positive, or at least 0 for dead "
                           "rails and late ranks)",
                           i, faults[i].factor);
        if (faults[i].kind == TT_FAULT_SLOW_RAIL || faults[i].kind == TT_FAULT_DEAD_RAIL)
            st = slow_rail(net, &faults[i]);
        else if (faults[i].kind == TT_FAULT_SLOW_UPLINK)
            st = slow_uplink(net, &faults[i]);
        else
            st = slow_rank(net, faults, i);
    }
    return st;
}

/* Returns rail `wanted` of a rank's host, or the next that is not dead. False: there is none. */
static bool live_rail(const struct tt_net *net, uint32_t rank, uint32_t wanted, uint32_t *out)
{
    const uint32_t host = tt_layout_host(net->layout, rank);

    *out = host * net->nrails + wanted;
    for (uint32_t i = 0; net->has_dead && i < net->nrails; i++) {
        const uint32_t rail = (wanted + i) % net->nrails;

        if (net->server[net->rail_from[0] + host * net->nrails + rail].slow > 0) {
            *out = host * net->nrails + rail;
            return true;
        }
    }
    return !net->has_dead;
}

/* The rail of a rank. */
static bool bound_rail(const struct tt_net *net, uint32_t rank, uint32_t *out)
{
    return live_rail(net, rank, tt_layout_rail(net->layout, rank), out);
}

/* Returns whether the rank has its host, and all its rails, to itself. */
static bool rank_is_alone(const struct tt_net *net, uint32_t rank)
{
    return net->nrails > 1 &&
           tt_layout_host_ranks(net->layout, tt_layout_host(net->layout, rank)) == 1;
}

/* Marks the rails of a host as used by one rank only. */
static void own_rails(struct tt_net *net, uint32_t host)
{
    for (uint32_t i = 0; i < net->nrails; i++)
        net->rail_ranks[host * net->nrails + i] = 1;
}

/* Determines which ranks share rails. A rank alone on its host stripes over all live rails, which
 * count as one unless lanes are separate. */
static void bind_rails(struct tt_net *net)
{
    const struct tt_layout *l = net->layout;
    uint32_t rail;

    for (uint32_t r = 0; r < l->nranks; r++)
        if (bound_rail(net, r, &rail) && net->rail_ranks[rail] < 255)
            net->rail_ranks[rail]++;
    for (uint32_t h = 0; net->nrails > 1 && h < l->nhosts; h++) {
        float rate = 0;

        if (tt_layout_host_ranks(l, h) != 1 || !bound_rail(net, tt_layout_rank(l, h, 0), &rail))
            continue;
        if (net->lanes_apart) {
            own_rails(net, h);
            continue;
        }
        for (uint32_t i = 0; i < net->nrails; i++) {
            const float slow = net->server[net->rail_from[0] + h * net->nrails + i].slow;

            rate += slow > 0 ? 1 / slow : 0;
        }
        for (int way = 0; way < 2; way++)
            net->server[net->rail_from[way] + rail].slow = 1 / rate;
    }
}

uint64_t tt_net_memory(const struct tt_net_conf *conf, uint64_t npairs)
{
    const struct tt_layout *l = conf->layout;
    const uint64_t there = (uint64_t)l->nranks * (tt_layout_widest(l) - 1u);
    struct tt_net net = { .layout = l };

    for (int d = TT_NEAR_ZONE; d < TT_DISTANCES; d++)
        net.shared_up[d] = conf->uplink_bytes_per_s[d] > 0;
    return number_servers(&net, conf) * sizeof *net.server + (uint64_t)l->nhosts * rails_of(l) +
           (npairs < there ? npairs : there) *
               (2 * (sizeof *net.server + sizeof *net.pair_key) + 4 * sizeof *net.pair);
}

tutti_status tt_net_init(struct tt_net *out, const struct tt_net_conf *conf,
                         const struct tt_fault *faults, uint32_t nfaults)
{
    struct tt_net net = { .layout = conf->layout,
                          .lanes_apart =
                              conf->lanes_apart && tt_layout_narrowest(conf->layout) == 1 };
    tutti_status st = take_rates(&net, conf);
    uint64_t nservers;

    if (st)
        return st;
    nservers = number_servers(&net, conf);
    if (nservers >= UINT32_MAX)
        return tt_fail(
            TUTTI_ERR_INVALID,
            "too many links: %u ranks on %u hosts have %llu links besides those between pairs: the "
            "maximum is %u",
            conf->layout->nranks, conf->layout->nhosts, (unsigned long long)nservers,
            UINT32_MAX - 1);
    net.nservers = net.servers_cap = (uint32_t)nservers;
    net.server = malloc(((size_t)net.nservers + 1) * sizeof *net.server);
    net.rail_ranks = calloc((size_t)conf->layout->nhosts * net.nrails, 1);
    if (!net.server || !net.rail_ranks) {
        tt_net_fini(&net);
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a simulated network of %u servers",
                       net.nservers);
    }
    tt_pages_huge(net.server, net.nservers * sizeof *net.server);
    for (uint32_t i = 0; i < net.nservers; i++)
        net.server[i] = (struct tt_server){ .slow = 1 };
    st = break_things(&net, faults, nfaults);
    if (st) {
        tt_net_fini(&net);
        return st;
    }
    bind_rails(&net);
    *out = net;
    return TUTTI_OK;
}

void tt_net_fini(struct tt_net *net)
{
    free(net->server);
    free(net->rail_ranks);
    free(net->pair);
    free(net->pair_key);
    net->server = NULL;
    net->pair = NULL;
    net->pair_key = NULL;
    net->rail_ranks = NULL;
}

/* ---- links of pairs ---- */

/* Returns the entry of a pair, or the free one for it. */
static struct tt_net_pair *find_pair(struct tt_net_pair *pair, uint32_t cap, uint64_t key)
{
    uint32_t at = (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 32) & (cap - 1);

    while (pair[at].key && pair[at].key != key)
        at = (at + 1) & (cap - 1);
    return &pair[at];
}

static void grow_pairs(struct tt_net *net)
{
    const uint32_t cap = net->pairs_cap ? 2 * net->pairs_cap : 1024;
    struct tt_net_pair *grown = calloc(cap, sizeof *grown);

    tt_assert(grown);
    tt_pages_huge(grown, cap * sizeof *grown);
    for (uint32_t i = 0; i < net->pairs_cap; i++)
        if (net->pair[i].key)
            *find_pair(grown, cap, net->pair[i].key) = net->pair[i];
    free(net->pair);
    net->pair = grown;
    net->pairs_cap = cap;
}

static uint32_t new_pair_server(struct tt_net *net, uint64_t key)
{
    if (net->nservers == net->servers_cap) {
        const uint64_t cap = (uint64_t)net->servers_cap + net->npairs + 1024;

        tt_assert(cap < UINT32_MAX);
        net->server = realloc(net->server, cap * sizeof *net->server);
        net->pair_key = realloc(net->pair_key, (cap - net->pair_from) * sizeof *net->pair_key);
        tt_assert(net->server && net->pair_key);
        tt_pages_huge(net->server, cap * sizeof *net->server);
        net->servers_cap = (uint32_t)cap;
    }
    net->server[net->nservers] = (struct tt_server){ .slow = 1 };
    net->pair_key[net->nservers - net->pair_from] = key;
    return net->nservers++;
}

/* The link from a rank to number `local` of its host, created at first use. */
static uint32_t pair_server(struct tt_net *net, uint32_t from, uint32_t local)
{
    const uint64_t key = (uint64_t)from * net->pair_stride + local + 1;
    struct tt_net_pair *pair;

    if (2 * net->npairs >= net->pairs_cap)
        grow_pairs(net);
    pair = find_pair(net->pair, net->pairs_cap, key);
    if (!pair->key) {
        *pair = (struct tt_net_pair){ .key = key, .server = new_pair_server(net, key) };
        net->npairs++;
    }
    return pair->server;
}

/* ---- paths ---- */

static void path_add_hop(struct tt_net_path *p, uint32_t server, enum tt_distance c)
{
    tt_assert(p->nhops < TT_NET_HOPS_MAX);
    p->class_of[p->nhops] = (uint8_t)c;
    p->server[p->nhops++] = server;
}

/* The rail of `rank` for a lane to or from another rank, as in the tcp transport
 * (wire/tcp_rail.c). */
static bool lane_rail(const struct tt_net *net, uint32_t rank, uint32_t other, uint32_t lane,
                      uint32_t *out)
{
    if (net->lanes_apart && rank_is_alone(net, rank))
        return live_rail(net, rank, (rank + other + lane) % net->nrails, out);
    return bound_rail(net, rank, out);
}

uint32_t tt_net_rails(const struct tt_net *net, uint32_t from, uint32_t to)
{
    return net->lanes_apart && rank_is_alone(net, from) && rank_is_alone(net, to) ? net->nrails : 1;
}

/* Paths between hosts. */
static bool path_outside(const struct tt_net *net, uint32_t from, uint32_t to, uint32_t lane,
                         struct tt_net_path *p)
{
    const struct tt_layout *l = net->layout;
    uint32_t out, in;

    if (!lane_rail(net, from, to, lane, &out) || !lane_rail(net, to, from, lane, &in))
        return false;
    p->first_is_private = net->rail_ranks[out] == 1;
    path_add_hop(p, net->rail_from[0] + out, TT_NEAR_RACK);
    for (int d = TT_NEAR_ZONE; d <= (int)p->distance; d++)
        if (net->shared_up[d])
            path_add_hop(p,
                         net->up_from[d][0] + tt_layout_group(l, from, (enum tt_distance)(d - 1)),
                         (enum tt_distance)d);
    p->nup = p->nhops;
    for (int d = (int)p->distance; d >= TT_NEAR_ZONE; d--)
        if (net->shared_up[d])
            path_add_hop(p, net->up_from[d][1] + tt_layout_group(l, to, (enum tt_distance)(d - 1)),
                         (enum tt_distance)d);
    path_add_hop(p, net->rail_from[1] + in, TT_NEAR_RACK);
    return true;
}

bool tt_net_path(struct tt_net *net, uint32_t from, uint32_t to, struct tt_net_path *p)
{
    return tt_net_lane_path(net, from, to, 0, p);
}

bool tt_net_lane_path(struct tt_net *net, uint32_t from, uint32_t to, uint32_t lane,
                      struct tt_net_path *p)
{
    const struct tt_layout *l = net->layout;

    p->distance = tt_layout_distance(l, from, to);
    p->latency_ps = net->latency_ps[p->distance];
    p->nhops = 0;
    if (p->distance > TT_NEAR_HOST)
        return path_outside(net, from, to, lane, p);
    p->first_is_private = p->distance == TT_NEAR_SOCKET || l->node == TT_NODE_MESH;
    if (p->first_is_private)
        path_add_hop(p, pair_server(net, from, tt_layout_local(l, to)), p->distance);
    else
        path_add_hop(p,
                     net->socket_from + tt_layout_socket(l, from) * net->socket_stride +
                         tt_layout_socket(l, to) % net->socket_stride,
                     p->distance);
    p->nup = p->nhops;
    return true;
}

void tt_net_serve(struct tt_net *net, uint32_t server, enum tt_distance c, uint64_t at_ps,
                  uint64_t bytes, uint64_t *begin_ps, uint64_t *end_ps)
{
    struct tt_server *s = &net->server[server];
    const double byte_ps = net->byte_ps[c] * (double)s->slow;

    *begin_ps = at_ps;
    if (s->free_ps > at_ps) {
        const uint64_t waiting = (uint64_t)((double)(s->free_ps - at_ps) / byte_ps) + bytes;

        *begin_ps = s->free_ps;
        if (waiting > net->peak_bytes[c])
            net->peak_bytes[c] = waiting;
    }
    *end_ps = s->free_ps = tt_net_after(*begin_ps, (double)bytes * byte_ps);
    s->busy_ps += *end_ps - *begin_ps;
}

enum tt_distance tt_net_class(const struct tt_net *net, uint32_t server)
{
    if (server >= net->pair_from) {
        const uint64_t key = net->pair_key[server - net->pair_from] - 1;
        const uint32_t from = (uint32_t)(key / net->pair_stride),
                       local = (uint32_t)(key % net->pair_stride);

        return tt_layout_distance(
            net->layout, from,
            tt_layout_rank(net->layout, tt_layout_host(net->layout, from), local));
    }
    if (server < net->rail_from[0])
        return TT_NEAR_HOST;
    for (int d = TT_NEAR_WAN; d >= TT_NEAR_ZONE; d--)
        if (net->shared_up[d] && server >= net->up_from[d][0])
            return (enum tt_distance)d;
    return TT_NEAR_RACK;
}
