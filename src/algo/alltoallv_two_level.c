/* Two-level alltoallv. Shapes: src[nranks][send_bytes], dst[nranks][recv_bytes], rows of any size,
 * anywhere.
 * As in the two-level alltoall (alltoall_two_level.c), ranks pass their rows to the serving rank of
 * their host, which sends each rank that it serves one message for the whole host: H - 1 messages
 * between hosts per rank instead of (H - 1) g. The forwarding rank does not have the size of a row;
 * only its two ends have it. Therefore each row has a slot of slot_bytes. It begins with the row's
 * length, which the receiver compares with the expected length. A row that fits into the rest is
 * sent there; the unused bytes are not part of any result. Longer rows are sent directly, as in the
 * direct algorithm; both ends can identify these. For short rows, whose cost is the number of
 * messages. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/levels.h"
#include "algo/phases.h"

#define SLOT_MAX 512    /* bytes: a longer row justifies a separate message */
#define SLOT_MIN 16
#define LENGTH 8        /* bytes at the start of a slot for the row's length */
#define PACKED 15       /* rows that a round packs or unpacks; the first also copies */
#define MEETS 7         /* mates with which a rank exchanges in a round */
/* exchanges of long rows in a round: put, wait, copy each; the first also copies */
#define LONG 5

/* Upper bound of the slots in WORK: a slot received from each rank of other hosts, host by host;
 * from each rank of this host, in order, a slot for each rank that this one serves; and the packed
 * slots for the other ranks of this host. */
static uint64_t slots_max(const struct tt_levels *v)
{
    return 3ull * v->layout->nranks + (uint64_t)v->widest * v->hosts;
}

/* Equal on all ranks. 0: too many slots for WORK; then all rows count as long. */
static uint64_t slot_bytes(const struct tt_levels *v)
{
    const uint64_t room = tt_work_max(v->c) / slots_max(v);
    uint64_t slot = SLOT_MAX;

    while (slot > room)
        slot /= 2;
    return slot < SLOT_MIN ? 0 : slot;
}

/* Maximum length of a row in a slot. */
static uint64_t alltoallv_two_level_room_of(uint64_t slot) { return slot ? slot - LENGTH : 0; }

static uint64_t brought_slot(const struct tt_levels *v, uint32_t from)
{
    return v->layout->nranks + (uint64_t)from * tt_levels_served(v, v->me);
}

static uint64_t packed_slot(const struct tt_levels *v, uint32_t m)
{
    uint64_t before = brought_slot(v, v->n);

    for (uint32_t i = 0; i < m; i++)
        before += i == v->me ? 0 : tt_levels_served(v, i);
    return before;
}

/* The slot from which the row for `rank` is sent: where it is packed for the mate that serves it;
 * if this rank serves it, its final slot. */
static uint64_t slot_to(const struct tt_levels *v, uint32_t rank)
{
    const uint32_t host = tt_layout_host(v->layout, rank), local = tt_layout_local(v->layout, rank),
                   m = local % v->n;

    return (m == v->me ? brought_slot(v, m) : packed_slot(v, m)) +
           tt_levels_served_before(v, host, m) + local / v->n;
}

/* The final slot of the row from `rank`. */
static uint64_t slot_from(const struct tt_levels *v, uint32_t rank)
{
    const uint32_t host = tt_layout_host(v->layout, rank), local = tt_layout_local(v->layout, rank);

    if (host != v->host)
        return (uint64_t)tt_levels_ranks_before(v, host) + local;
    return brought_slot(v, local) + tt_levels_served_before(v, v->host, v->me);
}

/* ---- rounds ---- */

/* Number of rounds of each phase, in order. */
struct parts {
    uint64_t pack, meet, exchange, unpack, straight;
};

static struct parts alltoallv_two_level_parts_of(const struct tt_levels *v, uint64_t slot)
{
    const uint32_t n = v->layout->nranks;
    struct parts p = { .straight = tt_phase_rounds(n, LONG) };

    if (!slot)
        return p;
    p.pack = p.unpack = tt_phase_rounds(n, PACKED);
    p.meet = tt_phase_rounds(v->widest - 1, MEETS);
    p.exchange = (uint64_t)(v->hosts - 1) * tt_levels_served_max(v);
    return p;
}

static uint64_t alltoallv_two_level_nrounds(const struct tt_coll *c)
{
    struct tt_levels v;
    struct parts p;

    tt_levels_init(&v, c);
    p = alltoallv_two_level_parts_of(&v, slot_bytes(&v));
    return p.pack + p.meet + p.exchange + p.unpack + p.straight;
}

static bool is_short(uint64_t bytes, uint64_t slot)
{
    return bytes > 0 && bytes <= alltoallv_two_level_room_of(slot);
}

static struct tt_ref row_in(uint64_t at, uint64_t slot) { return tt_work(at * slot + LENGTH); }

/* Copies short rows to the slots from which they are sent. */
static void alltoallv_two_level_pack(struct tt_sched *s, const struct tt_levels *v, uint64_t slot,
                                     uint64_t k)
{
    const struct tt_coll *c = v->c;

    for (uint32_t rank = (uint32_t)k * PACKED; rank < c->nranks && rank < (k + 1) * PACKED; rank++)
        if (rank != c->rank && is_short(c->send_bytes[rank], slot))
            tt_sched_copy(s, row_in(slot_to(v, rank), slot), tt_src(c->send_displs[rank]),
                          c->send_bytes[rank]);
}

static void alltoallv_two_level_meet(struct tt_sched *s, const struct tt_levels *v, uint64_t slot,
                                     uint64_t k)
{
    const uint32_t first = (uint32_t)k * MEETS + 1, mine = tt_levels_served(v, v->me);

    for (uint32_t i = first; i < v->n && i < first + MEETS; i++) {
        const uint32_t m = (v->me + i) % v->n, served = tt_levels_served(v, m);

        tt_sched_put(s, tt_layout_rank(v->layout, v->host, m), tt_work(packed_slot(v, m) * slot),
                     tt_work((v->layout->nranks + (uint64_t)v->me * served) * slot), served * slot,
                     0);
    }
    for (uint32_t i = first; i < v->n && i < first + MEETS; i++) {
        const uint32_t m = (v->me + v->n - i) % v->n;

        tt_sched_wait(s, tt_layout_rank(v->layout, v->host, m), tt_work(brought_slot(v, m) * slot),
                      mine * slot, 0);
    }
}

/* Sends to the z-th rank that this one serves on the host `far` higher, and receives from the rank
 * that serves this one on the host `far` lower. */
static void alltoallv_two_level_exchange(struct tt_sched *s, const struct tt_levels *v,
                                         uint64_t slot, uint32_t far, uint32_t z)
{
    const uint32_t to = (v->host + far) % v->hosts, from = (v->host + v->hosts - far) % v->hosts;
    const uint32_t local = z * v->n + v->me, theirs = tt_layout_host_ranks(v->layout, from);
    const uint64_t place = tt_levels_served_before(v, to, v->me) + z,
                   served = tt_levels_served(v, v->me);

    if (local < tt_layout_host_ranks(v->layout, to))
        tt_sched_put(s, tt_layout_rank(v->layout, to, local),
                     tt_strided(tt_work((brought_slot(v, 0) + place) * slot), slot, served * slot),
                     tt_work(tt_levels_ranks_before(v, v->host) * slot), v->n * slot, 0);
    if (v->me / theirs == z)
        tt_sched_wait(s, tt_layout_rank(v->layout, from, v->me % theirs),
                      tt_work(tt_levels_ranks_before(v, from) * slot), theirs * slot, 0);
}

/* Copies this rank's rows out of the slots. */
static void alltoallv_two_level_unpack(struct tt_sched *s, const struct tt_levels *v, uint64_t slot,
                                       uint64_t k)
{
    const struct tt_coll *c = v->c;

    for (uint32_t rank = (uint32_t)k * PACKED; rank < c->nranks && rank < (k + 1) * PACKED; rank++)
        if (rank != c->rank && is_short(c->recv_bytes[rank], slot))
            tt_sched_copy(s, tt_dst(c->recv_displs[rank]), row_in(slot_from(v, rank), slot),
                          c->recv_bytes[rank]);
}

static struct tt_ref pipe_of(const struct tt_coll *c, uint32_t from, uint32_t to)
{
    return tt_pipe((uint64_t)from * c->nranks + to);
}

/* Long rows, in pairs as in the direct algorithm: in place, rows are read before they are
 * overwritten. A pair may exchange both slots and long rows. The destination is therefore not
 * THERE, which must be that of the only put of a pair. */
static void straight(struct tt_sched *s, const struct tt_coll *c, uint64_t slot, uint64_t k)
{
    const uint32_t n = c->nranks, r = c->rank, first = (uint32_t)k * LONG;

    for (uint32_t i = first; i < n && i < first + LONG; i++) {
        const uint32_t to = (i + n - r) % n;

        if (to != r && c->send_bytes[to] > alltoallv_two_level_room_of(slot))
            tt_sched_put(s, to, tt_src(c->send_displs[to]), pipe_of(c, r, to), c->send_bytes[to],
                         1);
    }
    for (uint32_t i = first; i < n && i < first + LONG; i++) {
        const uint32_t from = (i + n - r) % n;

        if (from == r || c->recv_bytes[from] <= alltoallv_two_level_room_of(slot))
            continue;
        tt_sched_wait(s, from, pipe_of(c, from, r), c->recv_bytes[from], 1);
        tt_sched_copy(s, tt_dst(c->recv_displs[from]), pipe_of(c, from, r), c->recv_bytes[from]);
    }
}

static void alltoallv_two_level_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    struct tt_levels v;
    struct parts p;
    uint64_t slot;
    uint32_t most;

    tt_levels_init(&v, c);
    slot = slot_bytes(&v);
    most = tt_levels_served_max(&v);
    p = alltoallv_two_level_parts_of(&v, slot);
    if (k == 0)
        tt_sched_own(s, c);
    if (k < p.pack)
        alltoallv_two_level_pack(s, &v, slot, k);
    else if ((k -= p.pack) < p.meet)
        alltoallv_two_level_meet(s, &v, slot, k);
    else if ((k -= p.meet) < p.exchange)
        alltoallv_two_level_exchange(s, &v, slot, (uint32_t)(k / most) + 1, (uint32_t)(k % most));
    else if ((k -= p.exchange) < p.unpack)
        alltoallv_two_level_unpack(s, &v, slot, k);
    else
        straight(s, c, slot, k - p.unpack);
}

/* ---- lengths ---- */

static uint64_t length_at(const struct tt_coll *c, uint32_t rank, bool sent)
{
    struct tt_levels v;

    tt_levels_init(&v, c);
    return (sent ? slot_to(&v, rank) : slot_from(&v, rank)) * slot_bytes(&v);
}

static uint64_t length_rounds(const struct tt_coll *c)
{
    struct tt_levels v;
    struct parts p;

    tt_levels_init(&v, c);
    p = alltoallv_two_level_parts_of(&v, slot_bytes(&v));
    return p.pack + p.meet + p.exchange;
}

/* ---- requirements and cost ---- */

static uint64_t alltoallv_two_level_work_bytes(const struct tt_coll *c)
{
    struct tt_levels v;
    uint64_t slot;

    tt_levels_init(&v, c);
    slot = slot_bytes(&v);
    return slot ? packed_slot(&v, v.n) * slot : 0;
}

/* All ranks must choose equally, so the cost must not depend on the sizes, which differ by rank: as
 * if all rows were short. */
static struct tt_cost alltoallv_two_level_cost(const struct tt_coll *c)
{
    struct tt_levels v;
    double all;

    tt_levels_init(&v, c);
    all = (double)slot_bytes(&v) * c->nranks;
    return (struct tt_cost){
        .messages = tt_cost_burst(tt_levels_served_max(&v) * (v.hosts - 1)), .bytes = all,
        .near_messages = tt_cost_burst(v.widest - 1), .near_bytes = all,
    };
}

const struct tt_algo tt_algo_alltoallv_two_level = {
    .name = "alltoallv_two_level",
    .summary = "short rows, several ranks per host",
    .kind = TT_ALLTOALLV,
    .fits = tt_fits_always,
    .nrounds = alltoallv_two_level_nrounds,
    .round = alltoallv_two_level_round,
    .work_bytes = alltoallv_two_level_work_bytes,
    .npeers = tt_npeers_all,
    .cost = alltoallv_two_level_cost,
    .by_name = true,
    .pads = true,
    .length_at = length_at,
    .length_rounds = length_rounds,
};
