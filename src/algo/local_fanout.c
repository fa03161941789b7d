#include "algo/local_fanout.h"

#include "algo/blocks.h"
#include "base/status.h"

#define BRANCHES 4      /* radix of the k-nomial tree */

/* ---- sockets ---- */

/* Returns false if the host's sockets do not have equally many ranks. */
static bool seat_sockets(struct tt_local_fanout *m, const struct tt_layout *l, uint32_t host)
{
    uint32_t id[TT_MATES_MAX], count[TT_MATES_MAX];

    if (m->n > TT_MATES_MAX)
        return false;
    m->sockets = 0;
    for (uint32_t a = 0; a < m->n; a++) {
        const uint32_t socket = tt_layout_socket(l, tt_layout_rank(l, host, a));
        uint32_t u = 0;

        while (u < m->sockets && id[u] != socket)
            u++;
        if (u == m->sockets) {
            id[u] = socket;
            count[u] = 0;
            m->sockets++;
        }
        m->socket[a] = (uint16_t)u;
        m->place[a] = (uint16_t)count[u]++;
    }
    m->each = m->n / m->sockets;
    for (uint32_t u = 0; u < m->sockets; u++)
        if (count[u] != m->each)
            return false;
    for (uint32_t a = 0; a < m->n; a++)
        m->at[m->socket[a] * m->each + m->place[a]] = (uint16_t)a;
    return true;
}

void tt_local_fanout_init(struct tt_local_fanout *m, const struct tt_layout *l, uint32_t rank,
                          enum tt_form form)
{
    const uint32_t host = tt_layout_host(l, rank);

    m->form = form;
    m->n = tt_layout_host_ranks(l, host);
    m->me = tt_layout_local(l, rank);
    if (form == TT_FORM_SOCKETS && !seat_sockets(m, l, host))
        m->form = TT_FORM_LINEAR;
}

/* The three phases as ranges of hops: within the own socket; across sockets; and within the own
 * socket, for blocks received from other sockets. */
enum phase { OWN, ACROSS, ONWARD };

/* near (OWN, ONWARD): distance within the socket; far (ACROSS, ONWARD): number of sockets that the
 * block has crossed. */
struct leg {
    enum phase phase;
    uint32_t near, far;
};

static struct leg leg_of(const struct tt_local_fanout *m, uint32_t e)
{
    const uint32_t mates = m->each - 1, others = m->sockets - 1;

    if (e < mates)
        return (struct leg){ .phase = OWN, .near = e + 1 };
    e -= mates;
    if (e < others)
        return (struct leg){ .phase = ACROSS, .far = e + 1 };
    e -= others;
    return (struct leg){ .phase = ONWARD, .near = e % mates + 1, .far = e / mates + 1 };
}

static uint32_t local_at(const struct tt_local_fanout *m, uint32_t socket, uint32_t place)
{
    return m->at[socket * m->each + place];
}

/* The local rank `places` further within the own socket. */
static uint32_t beside(const struct tt_local_fanout *m, uint32_t local, uint32_t places)
{
    return local_at(m, m->socket[local], (m->place[local] + places) % m->each);
}

/* The rank to which a local rank sends its block, `far` sockets further: the one at the same place,
 * or at the next place after a wrap of the socket number. With two sockets of two ranks that is the
 * ring 0 -> 2 -> 1 -> 3 -> 0. */
static uint32_t mates_across(const struct tt_local_fanout *m, uint32_t local, uint32_t far)
{
    const uint32_t to = m->socket[local] + far, wraps = to >= m->sockets;

    return local_at(m, to % m->sockets, (m->place[local] + wraps) % m->each);
}

/* The rank whose block a local rank receives from `far` sockets back. */
static uint32_t from_across(const struct tt_local_fanout *m, uint32_t local, uint32_t far)
{
    const uint32_t wraps = m->socket[local] < far;
    const uint32_t from = m->socket[local] + (wraps ? m->sockets : 0) - far;

    return local_at(m, from, (m->place[local] + m->each - wraps) % m->each);
}

static struct tt_hop give_by_sockets(const struct tt_local_fanout *m, uint32_t e)
{
    const struct leg leg = leg_of(m, e);

    if (leg.phase == OWN)
        return (struct tt_hop){ .carrier = m->me, .peer = beside(m, m->me, leg.near) };
    if (leg.phase == ACROSS)
        return (struct tt_hop){ .carrier = m->me, .peer = mates_across(m, m->me, leg.far) };
    return (struct tt_hop){
        .carrier = from_across(m, m->me, leg.far), .peer = beside(m, m->me, leg.near), .level = 1,
    };
}

static struct tt_hop take_by_sockets(const struct tt_local_fanout *m, uint32_t e)
{
    const struct leg leg = leg_of(m, e);
    uint32_t from;

    if (leg.phase == ACROSS) {
        from = from_across(m, m->me, leg.far);
        return (struct tt_hop){ .carrier = from, .peer = from };
    }
    from = beside(m, m->me, m->each - leg.near);
    if (leg.phase == OWN)
        return (struct tt_hop){ .carrier = from, .peer = from };
    return (struct tt_hop){ .carrier = from_across(m, from, leg.far), .peer = from, .level = 1 };
}

/* ---- trees by distance from the carrier ---- */

/* The hop that brings a block to the rank at distance `to` from its carrier. */
struct branch {
    uint32_t from, to, level;
};

static struct branch branch_of(const struct tt_local_fanout *m, uint32_t e)
{
    const uint32_t to = e + 1;
    struct branch b = { .to = to };
    uint32_t reach = 1;

    switch (m->form) {
    case TT_FORM_DOUBLING:
        b.level = 31 - (uint32_t)__builtin_clz(to);
        b.from = to - (1u << b.level);
        break;
    case TT_FORM_HALVING:
        b.level = tt_log2_up(m->n) - 1 - (uint32_t)__builtin_ctz(to);
        b.from = to & (to - 1);
        break;
    case TT_FORM_KNOMIAL:
        for (; to / reach >= BRANCHES; b.level++)
            reach *= BRANCHES;
        b.from = to % reach;
        break;
    case TT_FORM_LINEAR: case TT_FORM_SOCKETS:
        break;
    }
    return b;
}

struct tt_hop tt_local_fanout_give(const struct tt_local_fanout *m, uint32_t e)
{
    tt_assert(e + 1 < m->n);
    if (m->form == TT_FORM_SOCKETS)
        return give_by_sockets(m, e);

    const struct branch b = branch_of(m, e);

    return (struct tt_hop){
        .carrier = (m->me + m->n - b.from) % m->n,
        .peer = (m->me + b.to - b.from) % m->n,
        .level = b.level,
    };
}

struct tt_hop tt_local_fanout_take(const struct tt_local_fanout *m, uint32_t e)
{
    tt_assert(e + 1 < m->n);
    if (m->form == TT_FORM_SOCKETS)
        return take_by_sockets(m, e);

    const struct branch b = branch_of(m, e);

    return (struct tt_hop){
        .carrier = (m->me + m->n - b.to) % m->n,
        .peer = (m->me + m->n + b.from - b.to) % m->n,
        .level = b.level,
    };
}

uint32_t tt_form_levels(enum tt_form form, uint32_t widest)
{
    if (widest == 1)
        return 0;
    switch (form) {
    case TT_FORM_DOUBLING: case TT_FORM_HALVING:
        return tt_log2_up(widest);
    case TT_FORM_KNOMIAL:
        return (tt_log2_up(widest) + 1) / 2;
    case TT_FORM_SOCKETS:
        return 2;
    case TT_FORM_LINEAR:
        break;
    }
    return 1;
}

uint32_t tt_local_fanout_first_hops(const struct tt_local_fanout *m)
{
    tt_assert(m->form == TT_FORM_SOCKETS || m->form == TT_FORM_LINEAR);
    return m->form == TT_FORM_SOCKETS ? m->each - 1 + m->sockets - 1 : m->n - 1;
}

/* ---- reversed: reduction ---- */

struct tt_add tt_local_fanout_add(const struct tt_local_fanout *m, uint32_t e)
{
    const struct tt_hop hop = tt_local_fanout_give(m, e);

    if (m->form != TT_FORM_SOCKETS) {
        tt_assert(m->form == TT_FORM_LINEAR);
        return (struct tt_add){ e == 0, e + 2 == m->n, tt_lowest(m->me, e + 1, m->n), hop.peer };
    }
    const struct leg leg = leg_of(m, e);
    const uint32_t socket = m->socket[m->me];
    const bool last = e + 2 == m->each + m->sockets - 1;

    if (leg.phase == ACROSS)    /* the received value is a whole socket's, and this socket's is
                                   complete */
        return (struct tt_add){
            e == 0, last, local_at(m, tt_lowest(socket, leg.far, m->sockets), 0),
            local_at(m, m->socket[hop.peer], 0),
        };
    return (struct tt_add){
        leg.near == 1,
        last,
        local_at(m, socket, tt_lowest(m->place[m->me], leg.near, m->each)),
        hop.peer,
    };
}

bool tt_local_fanout_relays(const struct tt_local_fanout *m, uint32_t e)
{
    return m->form == TT_FORM_SOCKETS && m->each > 1 && leg_of(m, e).phase == ACROSS;
}

uint32_t tt_local_fanout_relay(const struct tt_local_fanout *m, uint32_t e)
{
    return leg_of(m, e).far - 1;
}
