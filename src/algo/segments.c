#include "algo/segments.h"

#include "algo/algos.h"
#include "topo/layout.h"

/* maximum segment received over TCP and then reduced, so that it is still in the cache */
#define REDUCED_MAX (256u << 10)
/* maximum bytes in slots of one operation, for all peers, before segments shrink */
#define LANDING_MAX (8ull << 20)
/* minimum segment that is forwarded within its host after arrival from another one */
#define PASSED_ON_MIN (32u << 10)
/* number of segments of a very long message between two ranks of a host; more with more ranks */
#define LONG_PARTS 64u
#define LONG_TIMES 8u                   /* maximum segment length, in multiples of the wire's */
/* longer segments than the wire's only if their slots take at most this fraction of the cache */
#define CACHE_PART 4u
#define ROUNDS_MAX 64u                  /* maximum rounds of a program that are examined */

static uint64_t floor_power(uint64_t x)
{
    uint64_t p = 1;

    while (p * 2 <= x)
        p *= 2;
    return p;
}

static uint64_t ceiling_power(uint64_t x)
{
    const uint64_t p = floor_power(x);

    return p < x ? 2 * p : p;
}

/* ---- exchanges of a program ---- */

struct exchange {
    uint64_t longest;           /* message, in bytes */
    uint32_t nsenders;          /* peers that send a rank non-eager messages */
};

struct senders {
    uint32_t n;
    uint32_t rank[ROUNDS_MAX * TT_ROUND_STEPS_MAX];
};

static void add_sender(struct senders *from, uint32_t peer)
{
    for (uint32_t i = 0; i < from->n; i++)
        if (from->rank[i] == peer)
            return;
    from->rank[from->n++] = peer;
}

static void add_round(struct exchange *e, struct senders *from, const struct tt_sched *s,
                      uint64_t eager_bytes)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct tt_step *t = &s->steps[i];

        if (t->opcode != TT_PUT && t->opcode != TT_WAIT)
            continue;
        if (t->bytes > e->longest)
            e->longest = t->bytes;
        if (t->opcode == TT_WAIT && t->bytes > eager_bytes)
            add_sender(from, t->peer);
    }
    if (from->n > e->nsenders)
        e->nsenders = from->n;
}

/* Returns whether every rank can compute the exchanges of all ranks, and the rounds are few. */
static bool segments_is_known(const struct tt_algo *algo, const struct tt_coll *c)
{
    switch (c->kind) {
    case TT_ALLGATHERV:
    case TT_ALLTOALLV:
    case TT_GATHERV:
    case TT_SCATTERV:
    case TT_REDUCE_SCATTERV:
    case TT_SEND:
    case TT_RECV:
        return false;
    default: return tt_algo_fits_named(algo, c) && algo->nrounds(c) <= ROUNDS_MAX;
    }
}

static void segments_add_rank(struct exchange *e, const struct tt_algo *algo,
                              const struct tt_coll *c, uint64_t eager_bytes)
{
    const uint64_t n = algo->nrounds(c);
    struct tt_step steps[TT_ROUND_STEPS_MAX];
    struct senders from;

    from.n = 0;
    for (uint64_t k = 0; k < n; k++) {
        struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };

        algo->round(&s, c, k);
        add_round(e, &from, &s, eager_bytes);
    }
}

/* Examines the root, or rank 0 without one, and the next rank. If ranks differ, the first one has
 * the most exchanges, and the second one is typical; a few ranks have one or two more senders.
 * Segments must be equal on all ranks. Returns false if the exchanges are unknown, or the program
 * is too long. */
static bool segments_look_at(struct exchange *e, const struct tt_algo *algo,
                             const struct tt_coll *c, uint64_t eager_bytes)
{
    struct tt_coll there = *c;

    there.in_place = false;
    e->longest = e->nsenders = 0;
    for (uint32_t i = 0; i < 2; i++) {
        there.rank = (c->root + i) % c->nranks;
        if (!segments_is_known(algo, &there))
            return false;
        segments_add_rank(e, algo, &there, eager_bytes);
    }
    if (e->longest > eager_bytes && e->nsenders == 0)
        e->nsenders = 1;
    return true;
}

/* A program too long to be examined has many rounds of one block each. */
static uint64_t typical_message(const struct tt_coll *c)
{
    switch (c->kind) {
    case TT_ALLREDUCE:
        return c->bytes / c->nranks;
    case TT_ALLGATHERV:
    case TT_ALLTOALLV:
    case TT_GATHERV:
    case TT_SCATTERV:
    case TT_REDUCE_SCATTERV:
        return UINT64_MAX;      /* ranks may not have the same sizes */
    default: return c->bytes;
    }
}

/* Maximum number of peers over all ranks. */
static uint32_t most_peers(const struct tt_algo *algo, const struct tt_coll *c)
{
    struct tt_coll there = *c;

    there.rank = c->root;
    return algo->npeers(&there);
}

/* ---- segments ---- */

/* Limits slots to the data that may be in flight. */
static struct tt_segments segments_bound(struct tt_segments s, const struct tt_coll *c)
{
    const uint64_t chunk = tt_coll_chunk_bytes(c), most = chunk * tt_coll_chunks(c);

    while (s.segment_bytes > TT_SEGMENT_MIN && s.segment_bytes > chunk)
        s.segment_bytes /= 2;
    while (s.depth > 1 && s.streams * s.depth * s.segment_bytes > most)
        s.depth /= 2;
    while (s.streams > 1 && s.streams * s.segment_bytes > most)
        s.streams--;
    return s;
}

static struct tt_segments fit(struct tt_segments s, const struct tt_segment_limits *limits,
                              uint32_t nsenders)
{
    while (s.segment_bytes > TT_SEGMENT_MIN &&
           nsenders * s.streams * s.depth * s.segment_bytes > LANDING_MAX)
        s.segment_bytes /= 2;
    while (s.segment_bytes < limits->eager_bytes)
        s.segment_bytes *= 2;
    return s;
}

/* The unit of reduction may be configured for all bounded algorithms. Longer units have fewer
 * slots. */
static struct tt_segments or_as_told(struct tt_segments s, const struct tt_algo *algo,
                                     const struct tt_coll *c, uint32_t nsenders)
{
    if (!algo->bounded || !c->reduce_bytes)
        return s;
    s.segment_bytes = c->reduce_bytes;
    while (s.depth > 1 && nsenders * s.streams * s.depth * s.segment_bytes > LANDING_MAX)
        s.depth /= 2;
    while (s.streams > 1 && nsenders * s.streams * s.segment_bytes > LANDING_MAX)
        s.streams--;
    return s;
}

struct tt_segments tt_segments_fit(const struct tt_algo *algo, const struct tt_coll *c,
                                   const struct tt_segment_limits *limits, struct tt_segments s)
{
    struct exchange e;
    const uint32_t nsenders =
        segments_look_at(&e, algo, c, limits->eager_bytes) ? e.nsenders : most_peers(algo, c);

    s = fit(or_as_told(s, algo, c, nsenders), limits, nsenders);
    return algo->bounded ? segments_bound(s, c) : s;
}

/* Returns the minimum useful segment of blocks that are received from other hosts and forwarded
 * within the host, or the reverse; 0: there are none. With shorter segments the end of a block is
 * forwarded earlier. A segment that is reduced must be longer. */
static uint64_t least_passed_on(const struct tt_coll *c)
{
    if (!c->layout || tt_layout_widest(c->layout) == 1 ||
        tt_layout_groups(c->layout, TT_NEAR_HOST) == 1)
        return 0;
    return c->kind == TT_ALLGATHER        ? PASSED_ON_MIN
           : c->kind == TT_REDUCE_SCATTER ? 2 * PASSED_ON_MIN
                                          : 0;
}

/* Messages of a rank in the examined rounds, in bytes. */
struct passing {
    double far_in, far_out, near;
    bool slots;         /* some messages from other hosts arrive in slots, so each of their segments
                           needs a credit message */
};

static void add_passing(struct passing *p, const struct tt_sched *s, const struct tt_coll *c)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct tt_step *t = &s->steps[i];

        if (t->opcode != TT_PUT && t->opcode != TT_WAIT)
            continue;
        if (tt_layout_distance(c->layout, c->rank, t->peer) <= TT_NEAR_HOST) {
            p->near += (double)t->bytes;
        } else if (t->opcode == TT_PUT) {
            p->far_out += (double)t->bytes;
        } else {
            p->far_in += (double)t->bytes;
            p->slots |= t->out.block != 0 || t->out.buf == TT_BUF_PIPE;
        }
    }
}

static void look_at_passing(struct passing *p, const struct tt_algo *algo, const struct tt_coll *c)
{
    const uint64_t n = algo->nrounds(c) < ROUNDS_MAX ? algo->nrounds(c) : ROUNDS_MAX;
    struct tt_step steps[TT_ROUND_STEPS_MAX];

    *p = (struct passing){ .slots = false };
    for (uint64_t k = 0; k < n; k++) {
        struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };

        algo->round(&s, c, k);
        add_passing(p, &s, c);
    }
}

/* The minimum useful segments, in bytes; 0: unknown or irrelevant. */
struct least {
    double software;    /* with this segment, the rank's thread spends as much time on the program's
                           messages as the rail */
    double window;      /* with this segment, a flow's slots together hold the bytes that the rail
                           carries in a round trip */
};

/* The maximum over the ranks that segments_look_at examines. */
static struct least least_that_pay(const struct tt_algo *algo, const struct tt_coll *c,
                                   const struct tt_segment_limits *limits, uint32_t nslots)
{
    const double round_trip_ns = 2 * (limits->far_latency_ns + limits->far_message_ns);
    struct least least = { 0, 0 };
    struct tt_coll there = *c;

    if (limits->rail_byte_ns <= 0 || !tt_algo_fits_named(algo, c))
        return least;
    there.in_place = false;
    for (uint32_t i = 0; i < 2; i++) {
        struct passing p;
        double software_ns, rail_ns;

        there.rank = (c->root + i) % c->nranks;
        look_at_passing(&p, algo, &there);
        rail_ns = (p.far_in > p.far_out ? p.far_in : p.far_out) * limits->rail_byte_ns;
        software_ns =
            ((p.far_in + p.far_out) * limits->far_message_ns + p.near * limits->near_message_ns) /
            2;
        if (p.slots)
            software_ns *= 2;
        if (rail_ns > 0 && software_ns / rail_ns > least.software)
            least.software = software_ns / rail_ns;
        if (p.slots)
            least.window = round_trip_ns / limits->rail_byte_ns / nslots;
    }
    return least;
}

/* Returns a power of two above `bytes`, limited to `most`. */
static uint64_t power_for(double bytes, uint64_t most)
{
    return bytes < (double)most ? ceiling_power((uint64_t)bytes + 1) : most;
}

/* Maximum bytes of a rank's slots such that written data is still in the cache when it is read. */
static uint64_t cached_slots(const struct tt_segment_limits *limits, uint32_t nranks)
{
    const uint32_t sharers = nranks < limits->cache_cpus ? nranks : limits->cache_cpus;

    return limits->cache_bytes && sharers ? limits->cache_bytes / CACHE_PART / sharers
                                          : LANDING_MAX;
}

/* Data longer than the caches streams through memory. Longer segments are faster as long as the
 * slots stay in the cache: an all-reduce of 128 MiB between two cores that share 8 MiB takes 44 ms
 * with slots of 8 MiB in total, 30 with 4 or 2, and 33 with 1. The more ranks the data passes
 * through, the less of it may wait in each. */
static uint64_t lengthened(const struct tt_segments *s, const struct tt_algo *algo,
                           const struct tt_coll *c, const struct tt_segment_limits *limits,
                           uint64_t message, uint32_t nsenders)
{
    const uint64_t most =
        cached_slots(limits, c->nranks) / (nsenders ? nsenders : 1) / s->streams / s->depth;
    uint64_t longer = s->segment_bytes;

    if (algo->bounded || c->kind == TT_SEND || c->kind == TT_RECV || message == UINT64_MAX)
        return longer;
    while (longer < LONG_TIMES * s->segment_bytes &&
           message / (LONG_PARTS / 2) / c->nranks >= 2 * longer && 2 * longer <= most)
        longer *= 2;
    return longer;
}

/* Segment of a message forwarded within a host: an eighth of the usual one, but at least the
 * minimum useful segment. */
static uint64_t part_passed_on(uint64_t message, uint64_t part, uint64_t passed_on,
                               const struct least *least)
{
    const uint64_t window = power_for(least->window, part);
    const uint64_t software = power_for(least->software, ceiling_power(message));

    if (part > passed_on)
        part = message / 8 > passed_on ? message / 8 : passed_on;
    if (part < window)
        part = window;
    return part < software ? software : part;
}

struct tt_segments tt_segments_choose(const struct tt_algo *algo, const struct tt_coll *c,
                                      const struct tt_segment_limits *limits)
{
    const uint32_t npeers = most_peers(algo, c);
    struct tt_segments s = { .segment_bytes = floor_power(limits->segment_bytes),
                             .streams = algo->bounded ? 4 : npeers <= 2 ? 2 : 1,
                             .depth = 4 };
    struct exchange e;
    const bool seen = segments_look_at(&e, algo, c, limits->eager_bytes);
    const uint64_t message = seen && !limits->all_local ? e.longest : typical_message(c);
    const uint32_t nsenders = seen ? e.nsenders : npeers;
    const uint64_t passed_on = least_passed_on(c);
    uint64_t part = message / (limits->all_local ? 4 : 2);

    if (passed_on > 0) {
        const struct least least = least_that_pay(algo, c, limits, (uint32_t)s.streams * s.depth);

        part = part_passed_on(message, part, passed_on, &least);
    }
    if (limits->all_local)
        s.segment_bytes = lengthened(&s, algo, c, limits, message, nsenders);
    if (tt_coll_reduces(c->kind) && !limits->all_local && s.segment_bytes > REDUCED_MAX)
        s.segment_bytes = REDUCED_MAX;
    if (part < s.segment_bytes)
        s.segment_bytes = part < TT_SEGMENT_MIN ? TT_SEGMENT_MIN : floor_power(part);
    s = fit(or_as_told(s, algo, c, nsenders), limits, nsenders);
    return algo->bounded ? segments_bound(s, c) : s;
}
