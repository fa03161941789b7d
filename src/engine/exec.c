#include "engine/exec.h"

#include <string.h>

#include "base/status.h"

_Static_assert(TT_EXEC_STEPS == 64, "bitmaps of steps have 64 bits");
_Static_assert(TT_EXEC_STEPS >= 2 * TT_ROUND_STEPS_MAX,
               "a pipe's writer and reader may be a round apart");
_Static_assert(sizeof(struct tt_exec) + 17 * sizeof(struct tt_exec_peer) <= 16384,
               "an executor with 17 peers fits 16 KiB");

#define NO_STAGE 0xff
#define NO_GRAIN 64
#define ANY_GRAIN UINT64_MAX
#define IN_FLIGHT_MAX 32        /* bits of out_of_order */
/* maximum batch written to slots, so that the data is still in the receiver's cache */
#define SLOT_BATCH_BYTES (128u << 10)
/* minimum size of a copy that may be deferred until nothing else can run: the time of a few
 * messages */
#define DEFERRED_BYTES_MIN (64u << 10)
/* minimum number of parts of a message sent in longer puts, so that a receiver can forward the
 * first part sooner */
#define PARTS_MIN 4

static uint32_t index_of(uint32_t n) { return n % TT_EXEC_STEPS; }

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

uint32_t tt_exec_segments(uint64_t bytes, uint64_t segment_bytes)
{
    return bytes ? (uint32_t)((bytes + segment_bytes - 1) / segment_bytes) : 1;
}

/* Returns the length of the segment of step t that begins at `pos`. */
static uint64_t segment_at(const struct tt_exec *x, const struct tt_exec_step *t, uint64_t pos)
{
    return min_u64(x->conf.segment_bytes, t->s.bytes - pos);
}

static uint32_t segment_index(const struct tt_exec *x, uint64_t pos)
{
    return (uint32_t)(pos >> x->segment_shift);
}

/* Returns the slot of segment `seq` in a stream with `depth` slots. */
static uint32_t stream_slot(uint32_t depth, uint32_t seq) { return seq & (depth - 1u); }

/* ---- which steps are tried ------------------------------------------------------------------- */

#define NO_FLOW UINT32_MAX
#define EAGER_FLOW (1u << 30)
/* bit of consumed_of shared by all peers with this index or a higher one */
#define LAST_CREDIT_BIT 63u
#define FETCH_MAX 8             /* maximum number of steps that tt_exec_prefetch fetches */
/* number of steps around the end of the window that are fetched if a round may be loaded */
#define FETCH_NEXT 10
#define ANY_STREAM 3u

/* Returns the flow key of a streamed put or wait: peer, direction and stream. */
static uint32_t stream_flow(uint32_t peer, bool put, uint32_t stream)
{
    return peer << 3 | (uint32_t)put << 2 | stream;
}

/* Returns the flow key of an eager wait: peer and tag. It differs from all streamed keys, but
 * two eager waits may collide. */
static uint32_t eager_flow(uint32_t peer, uint32_t tag)
{
    return EAGER_FLOW | ((peer << 20 ^ tag) & (EAGER_FLOW - 1));
}

/* Returns the bitmap of the window's steps with this flow key; some may be over. */
static uint64_t steps_of_flow(const struct tt_exec *x, uint32_t flow)
{
    uint64_t found = 0;

    for (uint32_t n = x->head; n != x->tail; n++)
        found |= (uint64_t)(x->flow[index_of(n)] == flow) << index_of(n);
    return found;
}

/* Wakes the sleeping steps of a flow after an event. any: ANY_STREAM for all streams of the
 * peer, else 0. */
static void wake_flow(struct tt_exec *x, uint32_t flow, uint32_t any)
{
    for (uint64_t left = x->asleep; left; left &= left - 1)
        if ((x->flow[__builtin_ctzll(left)] | any) == (flow | any))
            x->asleep &= ~(left & -left);
}

/* ---- loading steps --------------------------------------------------------------------------- */

static bool is_memory(const struct tt_ref *r)
{
    return r->buf == TT_BUF_SRC || r->buf == TT_BUF_DST || r->buf == TT_BUF_WORK;
}

/* Returns the refs that a step reads (up to 2) or writes (up to 1) in this rank's memory,
 * without pipes. */
static int reads_of(const struct tt_step *s, const struct tt_ref *out[2])
{
    int n = 0;

    if (s->opcode != TT_WAIT && is_memory(&s->a))
        out[n++] = &s->a;
    if (s->opcode == TT_REDUCE_STEP && is_memory(&s->b))
        out[n++] = &s->b;
    return n;
}

static const struct tt_ref *write_of(const struct tt_step *s)
{
    return s->opcode != TT_PUT && is_memory(&s->out) ? &s->out : NULL;
}

static inline bool overlap(const struct tt_ref *r, uint64_t rbytes, const struct tt_ref *q,
                           uint64_t qbytes)
{
    if (r->buf != q->buf || rbytes == 0 || qbytes == 0)
        return false;
    if (!r->block && !q->block)
        return r->offset < q->offset + qbytes && q->offset < r->offset + rbytes;
    return tt_ref_overlap(r, rbytes, q, qbytes);
}

/* Two refs with equal blocks on one grid share whole pieces or nothing. If one stride is a multiple
 * of the other, returns the end of the last shared piece in `then`, at most `end`. Returns 0 if no
 * shared piece follows `pos`, and `end` if no stride is a multiple of the other. */
static uint64_t last_shared(const struct tt_ref *first, uint64_t fbytes, const struct tt_ref *then,
                            uint64_t pos, uint64_t end)
{
    const int64_t block = (int64_t)then->block, fs = (int64_t)first->stride,
                  ts = (int64_t)then->stride;
    /* from then's first piece to first's */
    const int64_t ahead = (int64_t)(first->offset - then->offset);
    int64_t least, most, last, step;

    if (!block || first->block != then->block || !fs || !ts || ahead % block || fs % block ||
        ts % block)
        return end;
    least = (int64_t)(pos / then->block);
    most = (int64_t)((end - 1) / then->block);
    if (ts % fs == 0) {     /* all pieces of `then` are on the grid of `first`, or none */
        if (ahead % fs)
            return 0;
        step = 1;
        last = ahead + ((int64_t)fbytes - 1) / block * fs;
        last = last < 0 ? -1 : last / ts;
        if (ahead > 0 && (ahead + ts - 1) / ts > least)
            least = (ahead + ts - 1) / ts;
    } else if (fs % ts == 0) {      /* some pieces of `then` are on the grid of `first`, or none */
        if (ahead % ts)
            return 0;
        step = fs / ts;
        last = ahead / ts + ((int64_t)fbytes - 1) / block * step;
        if (ahead / ts > least)
            least = ahead / ts;
    } else {
        return end;
    }
    if (last > most)
        last -= (last - most + step - 1) / step * step;
    return last < least ? 0 : last == most ? end : (uint64_t)(last + 1) * then->block;
}

/* `first` is a ref of an earlier step of fbytes, `then` one of a later step of tbytes. Returns
 * the position that `first` must reach before `then` may touch [pos, pos + len). This is the end
 * of the last shared byte. Bytes in a gap of `then` are excluded: tt_segments_check does not
 * model such a wait, and it could close a cycle. */
static uint64_t needed_progress(const struct tt_ref *first, uint64_t fbytes,
                                const struct tt_ref *then, uint64_t tbytes, uint64_t pos,
                                uint64_t len)
{
    uint64_t end = pos + len;

    if (!tt_ref_overlap(first, fbytes, then, tbytes))
        return 0;
    if (first->block && first->offset == then->offset && first->block == then->block &&
        first->stride == then->stride)
        return min_u64(fbytes, end);        /* equal pieces in equal order */
    end = last_shared(first, fbytes, then, pos, end);
    while (end > pos) {     /* piece by piece, from the last one */
        const uint64_t piece = then->block ? (end - 1) / then->block : 0,
                       begin = piece * then->block;
        const uint64_t from = begin > pos ? begin : pos,
                       at = then->offset + piece * then->stride - begin;
        const uint64_t done = tt_ref_before(first, fbytes, at + end);

        if (done > tt_ref_before(first, fbytes, at + from))
            return done;
        if (done == 0)
            return 0;
        end = from;
    }
    return 0;
}

static uint64_t max_needed_progress(const struct tt_step *first, const struct tt_step *then,
                                    uint64_t pos, uint64_t len)
{
    const struct tt_ref *fr[2], *tr[2];
    const struct tt_ref *fw = write_of(first), *tw = write_of(then);
    const int nfr = reads_of(first, fr), ntr = reads_of(then, tr);
    uint64_t most = 0, n;

    if (fw && tw && (n = needed_progress(fw, first->bytes, tw, then->bytes, pos, len)) > most)
        most = n;
    for (int i = 0; fw && i < ntr; i++)
        if ((n = needed_progress(fw, first->bytes, tr[i], then->bytes, pos, len)) > most)
            most = n;
    for (int i = 0; tw && i < nfr; i++)
        if ((n = needed_progress(fr[i], first->bytes, tw, then->bytes, pos, len)) > most)
            most = n;
    return most;
}

/* Returns whether two steps access a common byte that one of them writes. */
static bool conflict(const struct tt_step *first, const struct tt_step *then)
{
    const struct tt_ref *fr[2], *tr[2];
    const struct tt_ref *fw = write_of(first), *tw = write_of(then);
    const int nfr = tw ? reads_of(first, fr) : 0, ntr = fw ? reads_of(then, tr) : 0;

    if (fw && tw && overlap(fw, first->bytes, tw, then->bytes))
        return true;
    for (int i = 0; i < ntr; i++)
        if (overlap(fw, first->bytes, tr[i], then->bytes))
            return true;
    for (int i = 0; i < nfr; i++)
        if (overlap(fr[i], first->bytes, tw, then->bytes))
            return true;
    return false;
}

int tt_exec_peer_of(const struct tt_exec *x, uint32_t rank)
{
    const uint32_t near = x->npeers < TT_EXEC_NEAR_PEERS ? x->npeers : TT_EXEC_NEAR_PEERS;

    for (uint32_t i = x->npeers; i-- > near;)
        if (x->peer[i].rank == rank)
            return (int)i;
    for (uint32_t i = near; i-- > 0;)
        if (x->peer_rank[i] == rank)
            return (int)i;
    return -1;
}

static uint16_t peer_index(struct tt_exec *x, uint32_t rank)
{
    const int found = tt_exec_peer_of(x, rank);

    if (found >= 0)
        return (uint16_t)found;
    tt_assert(x->npeers < x->peers_max);
    memset(&x->peer[x->npeers], 0, sizeof x->peer[0]);
    x->peer[x->npeers].rank = rank;
    x->peer[x->npeers].in_depth = x->peer[x->npeers].out_depth = x->conf.depth;
    if (x->npeers < TT_EXEC_NEAR_PEERS)
        x->peer_rank[x->npeers] = rank;
    return (uint16_t)x->npeers++;
}

static uint32_t credit_bit(uint32_t peer)
{
    return peer < LAST_CREDIT_BIT ? peer : LAST_CREDIT_BIT;
}

/* Marks a peer that may need a credit update. */
static void mark_credit(struct tt_exec *x, uint32_t peer)
{
    x->consumed_of |= 1ull << credit_bit(peer);
    x->credit_due = true;
}

/* Assigns segment numbers to a streamed put or wait. */
static void assign_stream(struct tt_exec *x, struct tt_exec_step *t)
{
    struct tt_exec_peer *p = &x->peer[t->peer];
    const bool put = t->s.opcode == TT_PUT;
    const uint32_t i = put ? p->nputs++ : p->nwaits++;
    struct tt_exec_stream *st;
    uint32_t *loaded;

    t->stream = (uint8_t)(i % x->conf.streams);
    st = &p->stream[t->stream];
    loaded = put ? &st->out_loaded : &st->in_loaded;
    t->seq0 = *loaded;
    *loaded += tt_exec_segments(t->s.bytes, x->conf.segment_bytes);
    x->flow[t - x->step] = stream_flow(t->peer, put, t->stream);
    if (!put && st->consumed != st->reported)
        mark_credit(x, t->peer);        /* its sender may need credit for earlier segments */
}

static bool same_bytes(const struct tt_step *writer, const struct tt_ref *ref, uint64_t bytes)
{
    return writer->opcode != TT_PUT && writer->out.buf == ref->buf &&
           writer->out.offset == ref->offset && writer->bytes == bytes && !writer->out.block &&
           !ref->block;
}

/* Returns whether `earlier` writes any of these bytes, in memory or as a pipe. */
static bool writes_into(const struct tt_step *earlier, const struct tt_ref *ref, uint64_t bytes)
{
    const struct tt_ref *w = write_of(earlier);

    return w ? tt_ref_overlap(w, earlier->bytes, ref, bytes) : same_bytes(earlier, ref, bytes);
}

/* The bits are rotated by ROTATION every ROTATE_EVERY grains, because algorithms place their
 * running values at power-of-two distances. */
#define ROTATE_EVERY 1024
#define ROTATION 21

static uint64_t rotated(uint64_t ones, uint32_t turn)
{
    turn %= 64;
    return turn ? ones << turn | ones >> (64 - turn) : ones;
}

/* Returns the bits of n grains from `first`, all within one ROTATE_EVERY block. */
static uint64_t grain_bits(uint8_t buf, uint64_t first, uint64_t n)
{
    return rotated((1ull << n) - 1,
                   (uint32_t)(first + first / ROTATE_EVERY * ROTATION + 16u * buf));
}

/* Returns the grains of a byte range, as bits mod 64. A pipe is a single grain, identified by
 * its name. */
static uint64_t grains_of(const struct tt_exec *x, const struct tt_ref *ref, uint64_t bytes)
{
    const uint64_t extent = !ref->block || bytes <= ref->block
                                ? bytes
                                : (bytes - 1) / ref->block * ref->stride + ref->block;
    const uint64_t first = ref->offset >> x->grain_shift,
                   last = (ref->offset + (extent ? extent - 1 : 0)) >> x->grain_shift;
    const uint64_t turn_at = (first / ROTATE_EVERY + 1) * ROTATE_EVERY;

    if (ref->buf == TT_BUF_PIPE)
        return grain_bits(ref->buf, ref->offset, 1);
    if (last - first >= 63)
        return ANY_GRAIN;
    if (last < turn_at)
        return grain_bits(ref->buf, first, last - first + 1);
    return grain_bits(ref->buf, first, turn_at - first) |
           grain_bits(ref->buf, turn_at, last - turn_at + 1);
}

/* The memory that a step touches: up to two refs that it reads, and the one that it writes. */
struct refs {
    uint64_t grains[3];     /* 0: no ref, or all its conflicts were found */
    const struct tt_ref *ref[3];
};

static void refs_of(struct tt_exec *x, const struct tt_step *s, struct refs *out)
{
    *out = (struct refs){ .ref = { &s->a, &s->b, &s->out } };
    if (s->bytes == 0)
        return;             /* uses no memory */
    if (x->grain_shift == NO_GRAIN)
        x->grain_shift = (uint8_t)(63 - __builtin_clzll(s->bytes));
    if (s->opcode != TT_WAIT)
        out->grains[0] = grains_of(x, &s->a, s->bytes);
    if (s->opcode == TT_REDUCE_STEP)
        out->grains[1] = grains_of(x, &s->b, s->bytes);
    if (s->opcode != TT_PUT)
        out->grains[2] = grains_of(x, &s->out, s->bytes);
}

static uint64_t all_grains(const struct refs *r)
{
    return r->grains[0] | r->grains[1] | r->grains[2];
}

/* Adds step i to the users of these grains, or removes it. */
static void grains_add(struct tt_exec *x, uint32_t i, uint64_t grains)
{
    if (grains == ANY_GRAIN) {
        x->touching_all |= 1ull << i;
        return;
    }
    for (; grains; grains &= grains - 1)
        x->touching[__builtin_ctzll(grains)] |= 1ull << i;
}

static void grains_remove(struct tt_exec *x, uint32_t i, uint64_t grains)
{
    x->touching_all &= ~(1ull << i);
    if (grains == ANY_GRAIN)
        return;
    for (; grains; grains &= grains - 1)
        x->touching[__builtin_ctzll(grains)] &= ~(1ull << i);
}

/* Returns the steps of the window (bit 0: the first one) that may share memory with these grains.
 * This excludes most steps without a cache miss: with thousands of ranks in one process, the
 * windows do not fit in the caches. */
static uint64_t may_conflict(const struct tt_exec *x, uint64_t grains)
{
    const uint32_t turn = index_of(x->head), n = x->tail - x->head;
    uint64_t met = grains == ANY_GRAIN ? UINT64_MAX : grains ? x->touching_all : 0;

    for (; grains && grains != ANY_GRAIN; grains &= grains - 1)
        met |= x->touching[__builtin_ctzll(grains)];
    met = turn ? met >> turn | met << (64 - turn) : met;
    return n < 64 ? met & ((1ull << n) - 1) : met;
}

/* Returns whether `earlier` writes exactly the bytes of `ref`, and only after its own dependencies.
 * A step that waits for it also waits for all earlier users of these bytes, so the search can stop.
 * Arrivals are excluded, because they may land at any time. */
static bool covers_earlier(const struct tt_step *earlier, const struct tt_ref *ref, uint64_t bytes)
{
    return (earlier->opcode == TT_REDUCE_STEP || earlier->opcode == TT_COPY) && bytes &&
           same_bytes(earlier, ref, bytes);
}

/* If `earlier` writes the pipe of operand `ref`, links it as the writer and returns true. */
static bool link_pipe(struct tt_exec *x, uint32_t i, uint32_t earlier, const struct tt_ref *ref,
                      int8_t *writer)
{
    if (ref->buf != TT_BUF_PIPE || !same_bytes(&x->step[earlier].s, ref, x->step[i].s.bytes))
        return false;
    *writer = (int8_t)earlier;
    x->step[earlier].reader = (int8_t)i;
    x->dependents[earlier] |= 1ull << i;
    return true;
}

/* Removes the refs of step i whose conflicts are all covered by `earlier`. Returns whether it
 * removed any. */
static bool drop_covered_refs(struct tt_exec *x, uint32_t i, uint32_t earlier, struct refs *refs)
{
    struct tt_exec_step *t = &x->step[i];
    const uint64_t before = all_grains(refs);

    if (t->s.opcode != TT_WAIT && link_pipe(x, i, earlier, &t->s.a, &t->writer_a))
        refs->grains[0] = 0;
    if (t->s.opcode == TT_REDUCE_STEP && link_pipe(x, i, earlier, &t->s.b, &t->writer_b))
        refs->grains[1] = 0;
    for (uint32_t r = 0; r < 3; r++)
        if (refs->grains[r] && covers_earlier(&x->step[earlier].s, refs->ref[r], t->s.bytes))
            refs->grains[r] = 0;
    return all_grains(refs) != before;
}

/* Links step i with the earlier steps of the window, from the last one: conflicts, pipes, and
 * forwarding. */
static void link_dependencies(struct tt_exec *x, uint32_t i)
{
    struct tt_exec_step *t = &x->step[i];
    struct tt_exec_step *last = NULL;   /* last step that writes this put's source */
    struct refs refs;
    uint64_t grains, met;

    _Static_assert(TT_EXEC_STEPS == 64, "bitmaps of steps have 64 bits");
    refs_of(x, &t->s, &refs);
    grains = all_grains(&refs);
    met = may_conflict(x, grains);
    while (met) {
        const uint32_t n = 63 - (uint32_t)__builtin_clzll(met), e = index_of(x->head + n);
        struct tt_exec_step *earlier = &x->step[e];

        met &= ~(1ull << n);
        if (!earlier->over && conflict(&earlier->s, &t->s)) {
            t->deps |= 1ull << e;
            x->dependents[e] |= 1ull << i;
            x->asleep &= ~(x->deferred & 1ull << e);    /* a step depends on it now: no longer
                                                           deferred */
            x->deferred &= ~(1ull << e);
        }
        if (t->s.opcode == TT_PUT && !t->eager && !last &&
            writes_into(&earlier->s, &t->s.a, t->s.bytes))
            last = earlier;
        if (drop_covered_refs(x, i, e, &refs))
            met &= may_conflict(x, all_grains(&refs));
    }
    grains_add(x, i, grains);
    if (last && !last->over && last->forward < 0 && same_bytes(&last->s, &t->s.a, t->s.bytes))
        last->forward = (int8_t)i;
    tt_assert(t->s.opcode == TT_WAIT || t->s.a.buf != TT_BUF_PIPE || t->writer_a >= 0);
    tt_assert(t->s.opcode != TT_REDUCE_STEP || t->s.b.buf != TT_BUF_PIPE || t->writer_b >= 0);
}

/* Returns whether the data may be written directly to its destination. The result is the same for a
 * put and its wait. */
static bool for_destination(const struct tt_ref *to)
{
    return (to->buf == TT_BUF_DST || to->buf == TT_BUF_THERE) && !to->block;
}

/* Returns whether a step writes a pipe that may need staging. */
static bool may_need_stage(const struct tt_exec_step *t)
{
    return (t->s.opcode == TT_REDUCE_STEP || t->s.opcode == TT_COPY) && t->s.out.buf == TT_BUF_PIPE;
}

static void window_add(struct tt_exec *x, const struct tt_step *s)
{
    const uint32_t i = index_of(x->tail);
    struct tt_exec_step *t = &x->step[i];
    const struct tt_coll *c = x->conf.coll;

    *t = (struct tt_exec_step){
        .s = *s,
        .to_dst = for_destination(&s->out),
        .round = (uint32_t)x->round,
        .writer_a = -1,
        .writer_b = -1,
        .reader = -1,
        .forward = -1,
        .stage = NO_STAGE,
    };
    x->dependents[i] = 0;
    x->flow[i] = NO_FLOW;
    x->asleep &= ~(1ull << i);
    x->deferred &= ~(1ull << i);
    if (s->opcode != TT_WAIT)
        t->s.a = tt_coll_canonical(c, s->a);
    if (s->opcode == TT_REDUCE_STEP)
        t->s.b = tt_coll_canonical(c, s->b);
    if (s->opcode != TT_PUT)
        t->s.out = tt_coll_canonical(c, s->out);
    if (s->opcode == TT_PUT || s->opcode == TT_WAIT) {
        t->peer = peer_index(x, s->peer);
        t->eager = s->bytes <= x->conf.eager_bytes;
        if (!t->eager)
            assign_stream(x, t);
        else if (s->opcode == TT_WAIT)
            x->flow[i] = eager_flow(t->peer, s->tag);
        if (!t->eager && s->opcode == TT_WAIT && !x->peer[t->peer].opened)
            x->unopened |= 1ull << i;
    }
    link_dependencies(x, i);
    x->unstaged += may_need_stage(t);
    x->tail++;
    x->loaded++;
}

static uint32_t free_stages_of(const struct tt_exec *x)
{
    return TT_EXEC_STAGES - (uint32_t)__builtin_popcountll(x->stages);
}

/* Loads rounds while the window has room for the longest round, and there is staging for each pipe
 * that the round may have. */
static void load_rounds(struct tt_exec *x)
{
    struct tt_step steps[TT_ROUND_STEPS_MAX];

    while (x->round < x->nrounds && x->tail - x->head + TT_ROUND_STEPS_MAX <= TT_EXEC_STEPS &&
           x->unstaged + TT_ROUND_STEPS_MAX <= free_stages_of(x)) {
        struct tt_sched s = { .steps = steps, .n = 0, .cap = TT_ROUND_STEPS_MAX };

        x->conf.algo->round(&s, x->conf.coll, x->round++);
        for (uint32_t i = 0; i < s.n; i++)
            window_add(x, &steps[i]);
        x->progress = true;
    }
}

/* Computes the limit on segments in flight per stream of a bounded algorithm. Reduces the number of
 * streams so that each may send at least one segment. */
static void bound_flight(struct tt_exec *x)
{
    const struct tt_coll *c = x->conf.coll;
    const uint64_t chunk =
        tt_coll_chunk_bytes(c) > c->elem_bytes ? tt_coll_chunk_bytes(c) : c->elem_bytes;
    uint64_t segments;

    x->flight = 0;
    x->flight_bytes = x->most_in_flight = 0;
    if (!x->conf.algo->bounded)
        return;
    x->conf.eager_bytes = 0;
    x->flight_bytes = min_u64(x->conf.segment_bytes, chunk);
    segments = chunk * tt_coll_chunks(c) / x->flight_bytes;
    x->conf.streams = (uint8_t)min_u64(x->conf.streams, segments);
    x->flight = (uint32_t)min_u64(segments / x->conf.streams, UINT16_MAX);
}

static void exec_begin(struct tt_exec *x, const struct tt_exec_conf *conf,
                       struct tt_exec_peer *peers, uint32_t peers_max)
{
    tt_assert(conf->streams >= 1 && conf->streams <= TT_EXEC_STREAMS_MAX);
    tt_assert(conf->depth >= 1 && conf->depth <= TT_EXEC_DEPTH_MAX);
    tt_assert((conf->depth & (conf->depth - 1)) == 0);
    tt_assert(conf->segment_bytes >= conf->eager_bytes && conf->segment_bytes >= 8);
    tt_assert((conf->segment_bytes & (conf->segment_bytes - 1)) == 0);

    x->conf = *conf;
    bound_flight(x);
    x->segment_shift = (uint8_t)__builtin_ctzll(conf->segment_bytes);
    x->round = 0;
    x->grain_shift = NO_GRAIN;
    x->stages = 0;
    x->unstaged = 0;
    x->touching_all = 0;
    x->asleep = x->deferred = x->unopened = 0;
    x->head = x->tail = x->cursor = 0;
    x->npeers = 0;
    x->peers_max = peers_max;
    x->loaded = 0;
    x->progress = true;
    x->credit_due = x->straight = false;
    x->consumed_of = 0;
    for (uint32_t i = 0; i < TT_EXEC_STEPS; i++) {
        x->flow[i] = NO_FLOW;
        x->touching[i] = 0;
    }
    x->credit_from = 0;
    x->peer = peers;
}

static bool is_straight(const struct tt_exec *x)
{
    if (x->round < x->nrounds)
        return false;
    for (uint32_t n = x->head; n != x->tail; n++) {
        const struct tt_exec_step *t = &x->step[index_of(n)];

        if (t->s.at_most || t->s.bytes > x->conf.eager_bytes || t->s.a.block || t->s.b.block ||
            t->s.out.block || (t->writer_a >= 0 && x->step[t->writer_a].s.opcode != TT_WAIT) ||
            (t->writer_b >= 0 && x->step[t->writer_b].s.opcode != TT_WAIT))
            return false;
    }
    return true;
}

void tt_exec_init(struct tt_exec *x, const struct tt_exec_conf *conf, struct tt_exec_peer *peers,
                  uint32_t peers_max)
{
    exec_begin(x, conf, peers, peers_max);
    x->nrounds = conf->algo->nrounds(conf->coll);
    load_rounds(x);
    x->straight = is_straight(x);
}

void tt_exec_restart(struct tt_exec *x)
{
    tt_assert(x->straight);
    x->head = 0;
    x->asleep = 0;
    x->progress = true;
    for (uint32_t i = 0; i < x->tail; i++)
        x->step[i].arrived = x->step[i].over = false;
}

size_t tt_exec_straight_bytes(const struct tt_exec *x)
{
    tt_assert(x->straight && x->tail <= TT_EXEC_STEPS);
    return offsetof(struct tt_exec, step) + x->tail * sizeof *x->step;
}

struct tt_exec_step *tt_exec_meanwhile(struct tt_exec *x)
{
    uint64_t before = 1ull << x->head;      /* unfinished steps */

    tt_assert(x->straight);
    for (uint32_t i = x->head + 1; i < x->tail; i++) {
        struct tt_exec_step *t = &x->step[i];

        if (t->over)
            continue;
        if (t->s.opcode == TT_COPY && t->writer_a < 0 && !(t->deps & before))
            return t;
        before |= 1ull << i;
    }
    return NULL;
}

/* ---- completion of steps --------------------------------------------------------------------- */

static void free_stages(struct tt_exec *x, struct tt_exec_step *t)
{
    if (t->stage == NO_STAGE)
        return;
    x->stages &= ~(((1ull << t->nstages) - 1) << t->stage);
    t->stage = NO_STAGE;
}

/* Returns whether a step may leave the window. The writer of a pipe stays until its reader is over,
 * because the reader locates the bytes through the writer. */
static bool can_retire(const struct tt_exec *x, const struct tt_exec_step *t)
{
    if (!t->over)
        return false;
    if (t->s.opcode == TT_PUT || t->s.out.buf != TT_BUF_PIPE)
        return true;
    return t->reader >= 0 && x->step[t->reader].over;
}

/* Removes the first step from the window. */
static void retire_first(struct tt_exec *x)
{
    const uint32_t i = index_of(x->head++);
    struct refs refs;

    refs_of(x, &x->step[i].s, &refs);
    grains_remove(x, i, all_grains(&refs));
}

/* Called when step i has advanced. Wakes its dependents; if the step is over, also removes the
 * dependencies. */
static void step_advanced(struct tt_exec *x, uint32_t i)
{
    struct tt_exec_step *t = &x->step[i];

    if (t->over)
        return;
    x->asleep &= ~x->dependents[i];
    if (t->done < t->s.bytes)
        return;
    t->over = true;
    x->deferred &= ~(1ull << i);
    x->unstaged -= may_need_stage(t) && t->stage == NO_STAGE;
    for (uint64_t left = x->dependents[i]; left; left &= left - 1)
        x->step[__builtin_ctzll(left)].deps &= ~(1ull << i);
    if (t->writer_a >= 0)
        free_stages(x, &x->step[t->writer_a]);
    if (t->writer_b >= 0)
        free_stages(x, &x->step[t->writer_b]);
    while (x->head != x->tail && can_retire(x, &x->step[index_of(x->head)]))
        retire_first(x);
    if ((int32_t)(x->cursor - x->head) < 0)
        x->cursor = x->head;
}

/* Called when the reader of a pipe has consumed the next segment of `writer`. Frees the receive
 * slot. */
static void release_slot(struct tt_exec *x, int8_t writer)
{
    const struct tt_exec_step *w;

    if (writer < 0)
        return;
    w = &x->step[writer];
    if (w->s.opcode != TT_WAIT || w->eager)
        return;
    x->peer[w->peer].stream[w->stream].consumed++;
    mark_credit(x, w->peer);
}

/* ---- whether a segment can go ---------------------------------------------------------------- */

static bool deps_met(const struct tt_exec *x, const struct tt_exec_step *t, uint64_t pos,
                     uint64_t len)
{
    for (uint64_t left = t->deps; left; left &= left - 1) {
        const struct tt_exec_step *e = &x->step[__builtin_ctzll(left)];

        if (e->done < max_needed_progress(&e->s, &t->s, pos, len))
            return false;
    }
    return true;
}

static bool pipe_has(const struct tt_exec *x, int8_t writer, uint64_t end)
{
    return writer < 0 || x->step[writer].done >= end;
}

/* Returns whether the dependencies of t permit access to [pos, pos + len). If not, t sleeps
 * until one of them advances. */
static bool inputs_ready(struct tt_exec *x, const struct tt_exec_step *t, uint64_t pos,
                         uint64_t len)
{
    if (pipe_has(x, t->writer_a, pos + len) && pipe_has(x, t->writer_b, pos + len) &&
        deps_met(x, t, pos, len))
        return true;
    x->asleep |= 1ull << (t - x->step);
    return false;
}

/* Finds the location of [pos, pos + len) of an operand, if it can be read now. `writer` is its
 * pipe's writer or -1. `consumed_pos` is the reader's position: slots are consumed in order. */
static bool source_at(const struct tt_exec *x, const struct tt_ref *ref, int8_t writer,
                      uint64_t pos, uint64_t len, uint64_t consumed_pos, struct tt_place *out)
{
    const struct tt_exec_step *w;
    const struct tt_exec_peer *p;
    uint32_t j;

    if (writer < 0) {
        *out = (struct tt_place){ .kind = TT_AT_BUF, .ref = *ref, .skip = pos };
        return true;
    }
    w = &x->step[writer];
    if (w->done < pos + len)
        return false;
    j = segment_index(x, pos);
    if (w->s.opcode == TT_WAIT && w->eager) {
        *out = (struct tt_place){
            .kind = TT_AT_EAGER, .peer = w->peer, .slot = w->s.tag, .skip = pos
        };
        return true;
    }
    if (w->s.opcode == TT_WAIT) {
        p = &x->peer[w->peer];
        if (p->stream[w->stream].consumed != w->seq0 + segment_index(x, consumed_pos))
            return false;
        *out = (struct tt_place){
            .kind = TT_AT_SLOT,
            .peer = w->peer,
            .stream = w->stream,
            .slot = stream_slot(p->in_depth, w->seq0 + j),
        };
        return true;
    }
    if (w->stage == NO_STAGE) {
        /* already in the peer's slot (see `fused`) */
        *out = (struct tt_place){ .kind = TT_AT_NONE };
        return true;
    }
    *out = (struct tt_place){ .kind = TT_AT_STAGE, .slot = w->stage + (j & (w->nstages - 1u)) };
    return true;
}

static bool put_is_direct(const struct tt_exec_step *put, const struct tt_exec_peer *p)
{
    return p->out_direct && put->to_dst;
}

/* Returns the number of segments that a stream with `depth` slots may be ahead of its receiver's
 * consumption. */
static uint32_t stream_room(const struct tt_exec *x, uint32_t depth)
{
    return x->flight && x->flight < depth ? x->flight : depth;
}

static bool has_credit(const struct tt_exec *x, const struct tt_exec_peer *p, uint32_t stream,
                       uint32_t seq)
{
    return (int32_t)(seq - p->stream[stream].credit) < (int32_t)stream_room(x, p->out_depth);
}

/* As has_credit, for segments that are written to their destination. */
static bool has_flight_room(const struct tt_exec *x, const struct tt_exec_stream *st, uint32_t seq)
{
    return !x->flight || (int32_t)(seq - st->credit) < (int32_t)x->flight;
}

/* Returns the segments in flight; 0 if the peer reports more consumed segments than were sent. */
static uint32_t in_flight(const struct tt_exec_stream *st)
{
    return (int32_t)(st->flown - st->credit) > 0 ? st->flown - st->credit : 0;
}

/* Records that segment `seq` of a stream is in flight. */
static void note_flight(struct tt_exec *x, struct tt_exec_peer *p, uint32_t stream, uint32_t seq)
{
    uint64_t segments = 0;

    if (!x->flight)
        return;
    if ((int32_t)(seq + 1 - p->stream[stream].flown) > 0)
        p->stream[stream].flown = seq + 1;
    tt_assert(in_flight(&p->stream[stream]) <= x->flight);
    for (uint32_t s = 0; s < x->conf.streams; s++)
        segments += in_flight(&p->stream[s]);
    if (segments * x->flight_bytes > x->most_in_flight)
        x->most_in_flight = segments * x->flight_bytes;
}

/* Returns whether the step that produces segment `pos` of `put` can write it directly into the
 * peer's slot now. */
static bool can_fuse(const struct tt_exec *x, const struct tt_exec_step *put, uint64_t pos,
                     struct tt_place *out)
{
    const struct tt_exec_peer *p = &x->peer[put->peer];
    const struct tt_exec_stream *st = &p->stream[put->stream];
    const uint32_t seq = put->seq0 + segment_index(x, pos);

    if (put->eager || !p->ready || !p->out_mapped || put_is_direct(put, p))
        return false;
    if (st->issued != put->seq0 + segment_index(x, put->issued) || pos < put->issued)
        return false;
    if (pos != (put->fused > put->issued ? put->fused : put->issued) ||
        !has_credit(x, p, put->stream, seq))
        return false;
    *out = (struct tt_place){
        .kind = TT_AT_REMOTE,
        .peer = put->peer,
        .stream = put->stream,
        .slot = stream_slot(p->out_depth, seq),
    };
    return true;
}

/* Returns whether only missing room at the peer prevents `put` from being fused with its
 * producer. */
static bool may_fuse_soon(const struct tt_exec *x, const struct tt_exec_step *put)
{
    const struct tt_exec_peer *p = &x->peer[put->peer];

    return !put->eager && p->ready && p->out_mapped && !put_is_direct(put, p);
}

/* Allots as much staging to a pipe as it can use. Reserves one segment for each other pipe of
 * the window without staging (see exec.h). */
static void allot_stages(struct tt_exec *x, struct tt_exec_step *w)
{
    const uint32_t most = free_stages_of(x) - (x->unstaged - 1),
                   segments = tt_exec_segments(w->s.bytes, x->conf.segment_bytes);
    uint32_t n = x->conf.depth;

    tt_assert(most >= 1 && most <= TT_EXEC_STAGES);
    while (n > 1 && (n > most || n / 2 >= segments))
        n /= 2;
    for (; w->stage == NO_STAGE; n /= 2)
        for (uint32_t i = 0; w->stage == NO_STAGE && i + n <= TT_EXEC_STAGES; i++)
            if (!(x->stages >> i & ((1ull << n) - 1))) {
                x->stages |= ((1ull << n) - 1) << i;
                w->stage = (uint8_t)i;
                w->nstages = (uint8_t)n;
            }
    x->unstaged--;
}

/* Finds staging for segment `pos` of a pipe that is not written directly into a peer's slot.
 * Staging is allotted at the first segment. */
static bool stage_at(struct tt_exec *x, struct tt_exec_step *w, uint64_t pos, struct tt_place *out)
{
    const struct tt_exec_step *reader = &x->step[w->reader];
    const uint32_t j = segment_index(x, pos);

    if (w->stage == NO_STAGE)
        allot_stages(x, w);
    if (j >= segment_index(x, reader->done) + w->nstages)
        return false;
    *out = (struct tt_place){ .kind = TT_AT_STAGE, .slot = w->stage + (j & (w->nstages - 1u)) };
    return true;
}

/* Finds where a reduce, copy or arrival writes segment `pos`. *out2: the peer's slot, if the
 * result is fused with the put that forwards it. */
static bool target_at(struct tt_exec *x, struct tt_exec_step *t, uint64_t pos, struct tt_place *out,
                      struct tt_place *out2)
{
    const struct tt_exec_step *put = t->forward >= 0 ? &x->step[t->forward] : NULL;

    out2->kind = TT_AT_NONE;
    if (t->s.out.buf != TT_BUF_PIPE) {
        *out = (struct tt_place){ .kind = TT_AT_BUF, .ref = t->s.out, .skip = pos };
        if (put && !put->over && !can_fuse(x, put, pos, out2) && x->patient &&
            may_fuse_soon(x, put)) {
            x->held = true;
            return false;
        }
        return true;
    }
    if (t->reader < 0)
        return false;           /* the reader's round is not loaded yet */
    if (put && !put->eager && t->stage == NO_STAGE) {
        const struct tt_exec_peer *p = &x->peer[put->peer];

        if (!p->ready)
            return false;       /* the CTS will show whether the peer's slots are mapped */
        if (p->out_mapped && !put_is_direct(put, p))
            return can_fuse(x, put, pos, out);
    }
    return stage_at(x, t, pos, out);
}

/* Returns the number of bytes of a put that are sent at once from pos: one segment, or more if the
 * wire prefers that and all of them are ready. */
static uint64_t put_bytes_at(const struct tt_exec *x, const struct tt_exec_step *t,
                             const struct tt_exec_peer *p, uint64_t pos)
{
    const uint64_t segment = segment_at(x, t, pos),
                   room = (IN_FLIGHT_MAX - 1) * x->conf.segment_bytes - (pos - t->done);
    uint64_t whole = p->whole_bytes;

    if (whole <= segment || x->flight || t->writer_a >= 0 || pos < t->fused || t->s.a.block ||
        t->s.out.block)
        return segment;
    if (x->conf.coll->nranks > 2)       /* with two ranks, the receiver does not forward */
        whole = min_u64(whole, t->s.bytes / PARTS_MIN);
    whole = min_u64(whole, room) & ~(x->conf.segment_bytes - 1);
    whole = min_u64(whole, t->s.bytes - pos);
    return whole > segment && deps_met(x, t, pos, whole) ? whole : segment;
}

/* As put_bytes_at, for a put to slots: limited to adjacent free slots. */
static uint64_t put_bytes_in_slots(const struct tt_exec *x, const struct tt_exec_step *t,
                                   const struct tt_exec_peer *p, uint64_t pos, uint32_t seq)
{
    const uint64_t whole = put_bytes_at(x, t, p, pos);
    const uint32_t slots = p->out_depth - stream_slot(p->out_depth, seq);
    uint32_t n = tt_exec_segments(min_u64(whole, SLOT_BATCH_BYTES), x->conf.segment_bytes);

    n = n < slots ? n : slots;
    while (n > 1 && !has_credit(x, p, t->stream, seq + n - 1))
        n--;
    return min_u64(whole, n * x->conf.segment_bytes);
}

/* ---- the four steps -------------------------------------------------------------------------- */

static bool try_put(struct tt_exec *x, struct tt_exec_step *t, struct tt_action *a)
{
    const struct tt_exec_peer *p = &x->peer[t->peer];
    const struct tt_exec_stream *st = &p->stream[t->stream];
    const uint64_t pos = t->issued;
    struct tt_place slot;
    uint64_t len;
    uint32_t seq;

    if (t->eager) {
        if (!inputs_ready(x, t, 0, t->s.bytes) ||
            !source_at(x, &t->s.a, t->writer_a, 0, t->s.bytes, 0, &a->a))
            return false;
        a->kind = TT_ACT_EAGER;
        a->tag = t->s.tag;
        a->bytes = t->s.bytes;
        return true;
    }
    if (pos == t->s.bytes || !p->ready)
        return false;
    seq = t->seq0 + segment_index(x, pos);
    len = segment_at(x, t, pos);
    a->direct = put_is_direct(t, p);
    if (st->issued != seq ||
        (a->direct ? !has_flight_room(x, st, seq) : !has_credit(x, p, t->stream, seq)))
        return false;
    if (pos - t->done >= (IN_FLIGHT_MAX - 1) * x->conf.segment_bytes)
        return false;
    slot = (struct tt_place){
        .kind = TT_AT_REMOTE,
        .peer = t->peer,
        .stream = t->stream,
        .slot = stream_slot(p->out_depth, seq),
    };
    if (a->direct)
        len = put_bytes_at(x, t, p, pos);
    else if (!p->out_mapped)
        len = put_bytes_in_slots(x, t, p, pos, seq);
    seq += tt_exec_segments(len, x->conf.segment_bytes) - 1;
    if (pos < t->fused)
        a->a = slot;
    else if (!inputs_ready(x, t, pos, len) ||
             !source_at(x, &t->s.a, t->writer_a, pos, len, t->done, &a->a))
        return false;
    if (a->a.kind == TT_AT_NONE)
        return false;
    a->kind = TT_ACT_PUT;
    a->seq = seq;
    a->stream = t->stream;
    a->tag = t->s.tag;
    a->bytes = len;
    if (a->direct)
        a->out = (struct tt_place){ .kind = TT_AT_BUF, .ref = t->s.out, .skip = pos };
    else
        a->out = slot;
    return true;
}

/* Handles arrived segments that need no copy: those at their destination, and those in slots that a
 * pipe's reader will read. */
static bool take_arrivals(struct tt_exec *x, struct tt_exec_step *t)
{
    struct tt_exec_peer *p = &x->peer[t->peer];
    struct tt_exec_stream *st = &p->stream[t->stream];
    const bool pipe = t->s.out.buf == TT_BUF_PIPE;
    bool seen = false;

    while (t->done < t->s.bytes) {
        const uint32_t seq = t->seq0 + segment_index(x, t->done);

        if ((int32_t)(st->arrived - seq) <= 0 || (!pipe && st->consumed != seq))
            break;
        t->done += segment_at(x, t, t->done);
        seen = true;
        if (!pipe) {
            st->consumed++;
            mark_credit(x, t->peer);
        }
    }
    return seen;
}

static bool try_wait(struct tt_exec *x, struct tt_exec_step *t, uint32_t i, struct tt_action *a)
{
    const struct tt_exec_peer *p = &x->peer[t->peer];
    const struct tt_exec_stream *st = &p->stream[t->stream];
    const bool pipe = t->s.out.buf == TT_BUF_PIPE;
    uint32_t seq;
    uint64_t len;

    if (t->eager) {
        if (!t->arrived)
            return false;
        if (pipe && t->s.bytes > 0) {
            if (t->done == 0) {
                t->done = t->s.bytes;
                x->progress = true;
                step_advanced(x, i);
            }
            return false;
        }
        if (!inputs_ready(x, t, 0, t->s.bytes))
            return false;
        a->kind = TT_ACT_COPY;
        a->bytes = t->s.bytes;
        a->a = (struct tt_place){ .kind = TT_AT_EAGER, .peer = t->peer, .slot = t->s.tag };
        a->out = (struct tt_place){ .kind = TT_AT_BUF, .ref = t->s.out };
        return true;
    }
    if (!p->opened) {
        a->kind = TT_ACT_OPEN;
        return true;
    }
    if (pipe || (p->in_direct && t->to_dst)) {
        if (take_arrivals(x, t)) {
            x->progress = true;
            step_advanced(x, i);
        }
        return false;
    }
    seq = t->seq0 + segment_index(x, t->done);
    len = segment_at(x, t, t->done);
    if ((int32_t)(st->arrived - seq) <= 0 || st->consumed != seq ||
        !inputs_ready(x, t, t->done, len))
        return false;
    a->kind = TT_ACT_COPY;
    a->bytes = len;
    a->a = (struct tt_place){
        .kind = TT_AT_SLOT,
        .peer = t->peer,
        .stream = t->stream,
        .slot = stream_slot(p->in_depth, seq),
    };
    return target_at(x, t, t->done, &a->out, &a->out2);
}

static bool try_local(struct tt_exec *x, struct tt_exec_step *t, struct tt_action *a)
{
    const uint64_t pos = t->done, len = segment_at(x, t, pos);
    const bool reduce = t->s.opcode == TT_REDUCE_STEP;

    if (!inputs_ready(x, t, pos, len) || !source_at(x, &t->s.a, t->writer_a, pos, len, pos, &a->a))
        return false;
    if (reduce && !source_at(x, &t->s.b, t->writer_b, pos, len, pos, &a->b))
        return false;
    a->kind = reduce ? TT_ACT_REDUCE : TT_ACT_COPY;
    a->finish = t->s.finish;
    a->bytes = len;
    return target_at(x, t, pos, &a->out, &a->out2);
}

static bool try_step(struct tt_exec *x, uint32_t i, struct tt_action *a)
{
    struct tt_exec_step *t = &x->step[i];

    a->step = (uint16_t)i;
    a->peer = t->peer;
    a->direct = a->finish = false;
    a->out2.kind = TT_AT_NONE;
    switch (t->s.opcode) {
    case TT_PUT: return try_put(x, t, a);
    case TT_WAIT: return try_wait(x, t, i, a);
    default: return try_local(x, t, a);
    }
}

/* Returns whether the sender of a stream needs credit now or may need it later. Segments that
 * land at their destination need none. Neither do the last segments, if enough credit was sent
 * for them. */
static bool needs_credit(const struct tt_exec *x, uint32_t peer, uint8_t stream)
{
    const struct tt_exec_peer *p = &x->peer[peer];
    const uint32_t granted = p->stream[stream].reported + p->in_depth;

    if (x->flight || (!p->in_direct && x->round < x->nrounds))
        return true;
    for (uint64_t left = steps_of_flow(x, stream_flow(peer, false, stream)); left;
         left &= left - 1) {
        const struct tt_exec_step *t = &x->step[__builtin_ctzll(left)];
        const uint32_t end = t->seq0 + tt_exec_segments(t->s.bytes, x->conf.segment_bytes);

        if (!t->over && !(p->in_direct && t->to_dst) &&
            (x->round < x->nrounds || (int32_t)(end - granted) > 0))
            return true;
    }
    return false;
}

/* Finds a stream whose sender must get a credit update, i.e. after a quarter of its depth. A peer
 * whose credit could not be sent is skipped until the next pass. */
static bool next_credit(struct tt_exec *x, struct tt_action *a)
{
    for (uint32_t p = x->credit_from; p < x->npeers; p++) {
        const uint32_t room = stream_room(x, x->peer[p].in_depth),
                       enough = room >= 4 ? room / 4u : 1;

        if (!(x->consumed_of >> credit_bit(p) & 1))
            continue;
        for (uint8_t s = 0; s < x->conf.streams; s++) {
            const struct tt_exec_stream *st = &x->peer[p].stream[s];

            if (st->consumed - st->reported < enough || !needs_credit(x, p, s))
                continue;
            a->kind = TT_ACT_CREDIT;
            a->peer = (uint16_t)p;
            a->stream = s;
            a->seq = st->consumed;
            return true;
        }
        if (p < LAST_CREDIT_BIT)
            x->consumed_of &= ~(1ull << p);
    }
    x->credit_due = x->credit_from > 0;
    x->credit_from = 0;
    return false;
}

/* Opens flows as soon as their steps are loaded, before any put. A sender may be waiting only for
 * the CTS, which would otherwise queue behind this rank's puts, at least in the NIC (100 KiB at 100
 * Mbit/s take 8 ms). An open that fails is retried with its step. */
static bool next_open(struct tt_exec *x, struct tt_action *a)
{
    while (x->unopened) {
        const uint32_t i = (uint32_t)__builtin_ctzll(x->unopened);

        x->unopened &= x->unopened - 1;
        if (!x->peer[x->step[i].peer].opened && try_step(x, i, a))
            return true;
    }
    return false;
}

/* Like must_sleep, for a streamed put or wait. */
static bool streamed_must_sleep(const struct tt_exec *x, const struct tt_exec_step *t)
{
    const struct tt_exec_peer *p = &x->peer[t->peer];
    const struct tt_exec_stream *st = &p->stream[t->stream];

    if (t->s.opcode == TT_WAIT)
        return p->opened && (int32_t)(st->arrived - t->seq0 - segment_index(x, t->done)) <= 0;
    return !p->ready || t->issued == t->s.bytes ||
           t->issued - t->done >= (IN_FLIGHT_MAX - 1) * x->conf.segment_bytes;
}

/* Returns whether step t cannot advance before an event. Most steps in the window of a long program
 * sleep. Events that wake a step: progress of a step in its deps (end_step), a message
 * (tt_exec_eager, _arrived, _ready), or a reusable source (tt_exec_sent). */
static bool must_sleep(const struct tt_exec *x, const struct tt_exec_step *t)
{
    const bool remote = t->s.opcode == TT_PUT || t->s.opcode == TT_WAIT;

    if (t->over)
        return true;
    if (remote && !t->eager)
        return t->s.bytes && streamed_must_sleep(x, t);
    if (t->s.opcode == TT_WAIT && !t->arrived)
        return true;
    if (!remote && t->s.bytes > x->conf.segment_bytes)
        return false;
    for (uint64_t left = t->deps; left; left &= left - 1)
        if (x->step[__builtin_ctzll(left)].done == 0)
            return true;
    return false;
}

/* Returns whether step i is a long copy from input to output (e.g. the rank's own block) without
 * dependents. It is deferred until nothing else can run, so that it delays no other rank. */
static bool is_deferred(const struct tt_exec *x, uint32_t i)
{
    const struct tt_exec_step *t = &x->step[i];

    return t->s.opcode == TT_COPY && t->s.bytes >= DEFERRED_BYTES_MIN && t->s.a.buf == TT_BUF_SRC &&
           t->s.out.buf == TT_BUF_DST && !x->dependents[i];
}

/* Finds a segment of a deferred copy. */
static bool next_deferred(struct tt_exec *x, struct tt_action *a)
{
    for (uint64_t left = x->deferred; left; left &= left - 1)
        if (try_step(x, (uint32_t)__builtin_ctzll(left), a)) {
            a->idle = true;
            return true;
        }
    return false;
}

/* Moves the cursor to the next step that is awake. Returns false at the end of the window. */
static bool find_awake(struct tt_exec *x)
{
    const uint32_t at = index_of(x->cursor), left = x->tail - x->cursor;
    const uint64_t awake = at ? ~x->asleep >> at | ~x->asleep << (TT_EXEC_STEPS - at) : ~x->asleep;
    const uint32_t skip = awake ? (uint32_t)__builtin_ctzll(awake) : TT_EXEC_STEPS;

    x->cursor += skip < left ? skip : left;
    return skip < left;
}

bool tt_exec_next(struct tt_exec *x, struct tt_action *a)
{
    a->idle = false;
    if (x->head == x->tail && x->round == x->nrounds)
        return false;           /* finished: no peer needs the pending credit */
    for (;;) {
        if (x->unopened && next_open(x, a))
            return true;
        while (find_awake(x)) {
            const uint32_t i = index_of(x->cursor++);

            if (is_deferred(x, i))
                x->deferred |= 1ull << i;
            if (x->deferred >> i & 1 || must_sleep(x, &x->step[i]))
                x->asleep |= 1ull << i;
            else if (try_step(x, i, a))
                return true;
        }
        if (x->credit_due && next_credit(x, a))
            return true;
        x->cursor = x->head;
        if (x->round < x->nrounds)
            load_rounds(x);
        if (!x->progress)
            return next_deferred(x, a);
        x->progress = false;
        x->held = false;
    }
}

/* Completes segment [pos, pos + len) of a local step: advances the fused put, and frees the
 * consumed input. */
static void local_complete(struct tt_exec *x, const struct tt_action *a)
{
    struct tt_exec_step *t = &x->step[a->step];
    const bool remote = a->out.kind == TT_AT_REMOTE || a->out2.kind == TT_AT_REMOTE;

    t->done += a->bytes;
    t->issued = t->done;
    if (remote) {
        struct tt_exec_step *put = &x->step[t->forward];

        put->fused = t->done;
        note_flight(x, &x->peer[put->peer], put->stream,
                    put->seq0 + segment_index(x, t->done - a->bytes));
    }
    if (t->s.opcode == TT_WAIT && !t->eager) {
        x->peer[t->peer].stream[t->stream].consumed++;
        mark_credit(x, t->peer);
    } else if (t->s.opcode != TT_WAIT) {
        release_slot(x, t->writer_a);
        release_slot(x, t->writer_b);
    }
    step_advanced(x, a->step);
}

/* Marks the segments in the next `bytes` of a put as one transfer. */
static void mark_joined(const struct tt_exec *x, struct tt_exec_step *t, uint64_t bytes)
{
    const uint32_t first = segment_index(x, t->issued - t->done),
                   n = tt_exec_segments(bytes, x->conf.segment_bytes);

    t->joined |= (uint32_t)(((1ull << (n - 1)) - 1) << first);
}

void tt_exec_taken(struct tt_exec *x, const struct tt_action *a, bool instant)
{
    struct tt_exec_step *t;

    x->progress = true;
    if (a->kind == TT_ACT_CREDIT) {     /* belongs to no step */
        x->peer[a->peer].stream[a->stream].reported = a->seq;
        return;
    }
    t = &x->step[a->step];
    switch (a->kind) {
    case TT_ACT_EAGER:
        t->issued = t->done = t->s.bytes;
        release_slot(x, t->writer_a);
        step_advanced(x, a->step);
        break;
    case TT_ACT_PUT:
        mark_joined(x, t, a->bytes);
        x->peer[t->peer].stream[t->stream].issued +=
            tt_exec_segments(a->bytes, x->conf.segment_bytes);
        t->issued += a->bytes;
        note_flight(x, &x->peer[t->peer], t->stream, a->seq);
        if (instant)
            tt_exec_sent(x, a->step, a->seq);
        break;
    default:
        local_complete(x, a);
    }
}

void tt_exec_left(struct tt_exec *x, const struct tt_action *a)
{
    if (a->kind == TT_ACT_CREDIT)
        x->credit_from = a->peer + 1u;
}

bool tt_exec_sent(struct tt_exec *x, uint16_t step, uint32_t seq)
{
    struct tt_exec_step *t = &x->step[step];
    const uint32_t bit = seq - t->seq0 - segment_index(x, t->done);

    x->asleep &= ~(1ull << step);
    if (t->s.opcode != TT_PUT || t->eager || t->over ||
        t->done + ((uint64_t)bit << x->segment_shift) >= t->issued || t->out_of_order >> bit & 1)
        return false;
    tt_assert(bit < IN_FLIGHT_MAX);
    t->out_of_order |= 1u << bit;
    for (uint32_t j = bit; j > 0 && t->joined >> (j - 1) & 1; j--)
        t->out_of_order |= 1u << (j - 1);
    while (t->out_of_order & 1) {
        t->out_of_order >>= 1;
        t->joined >>= 1;
        t->done += segment_at(x, t, t->done);
        release_slot(x, t->writer_a);
    }
    x->progress = true;
    step_advanced(x, step);
    return true;
}

/* Steps that are not loaded yet may depend on this one, or need its place in the window. */
bool tt_exec_sent_matters(const struct tt_exec *x, uint16_t step)
{
    const struct tt_exec_step *t = &x->step[step];

    return x->round < x->nrounds || x->dependents[step] || t->writer_a >= 0 ||
           (t->issued < t->s.bytes &&
            t->issued - t->done >= (IN_FLIGHT_MAX - 1) * x->conf.segment_bytes);
}

bool tt_exec_only_unsent(const struct tt_exec *x)
{
    for (uint32_t n = x->head; n != x->tail; n++) {
        const struct tt_exec_step *t = &x->step[index_of(n)];

        if (!t->over && (t->s.opcode != TT_PUT || t->eager || t->issued < t->s.bytes))
            return false;
    }
    return x->round == x->nrounds;
}

/* ---- events ---------------------------------------------------------------------------------- */

uint8_t tt_exec_depth_of(const struct tt_exec *x, uint64_t bytes, uint32_t whole_bytes)
{
    const uint64_t most = min_u64(bytes, min_u64(whole_bytes, SLOT_BATCH_BYTES));
    uint8_t depth = x->conf.depth;

    while (!x->flight && depth < IN_FLIGHT_MAX && depth * x->conf.segment_bytes < 2 * most)
        depth = (uint8_t)(2 * depth);
    return depth;
}

void tt_exec_deepen(struct tt_exec *x, uint16_t peer, bool in, uint8_t depth)
{
    struct tt_exec_peer *p = &x->peer[peer];

    tt_assert(depth >= 1 && (depth & (depth - 1)) == 0 && !(in ? p->opened : p->ready));
    *(in ? &p->in_depth : &p->out_depth) = depth;
}

void tt_exec_lengthen(struct tt_exec *x, uint16_t peer, uint32_t bytes)
{
    tt_assert(!x->peer[peer].ready);
    x->peer[peer].whole_bytes = bytes;
}

void tt_exec_opened(struct tt_exec *x, uint16_t peer, bool direct)
{
    x->peer[peer].opened = true;
    x->peer[peer].in_direct = direct;
    x->progress = true;
}

void tt_exec_ready(struct tt_exec *x, uint16_t peer, bool direct, bool mapped)
{
    struct tt_exec_peer *p = &x->peer[peer];

    wake_flow(x, stream_flow(peer, true, 0), ANY_STREAM);
    p->ready = true;
    p->out_direct = direct;
    p->out_mapped = mapped;
    x->progress = true;
}

bool tt_exec_arrived(struct tt_exec *x, uint16_t peer, uint8_t stream, uint32_t arrived)
{
    struct tt_exec_stream *st = &x->peer[peer].stream[stream];

    if ((int32_t)(arrived - st->arrived) <= 0)
        return false;
    st->arrived = arrived;
    wake_flow(x, stream_flow(peer, false, stream), 0);
    x->progress = true;
    return true;
}

bool tt_exec_credit(struct tt_exec *x, uint16_t peer, uint8_t stream, uint32_t consumed)
{
    struct tt_exec_stream *st = &x->peer[peer].stream[stream];

    if ((int32_t)(consumed - st->credit) <= 0)
        return false;
    st->credit = consumed;
    x->progress = true;
    return true;
}

/* Returns the wait for a message from `peer`, or NULL if none is in the window. Only steps with
 * this flow key are searched; NO_FLOW: all. */
static struct tt_exec_step *find_wait(struct tt_exec *x, uint32_t flow, uint16_t peer, uint32_t tag)
{
    for (uint32_t n = x->head; n != x->tail; n++) {
        const uint32_t i = index_of(n);
        struct tt_exec_step *t = &x->step[i];

        if ((flow == NO_FLOW || x->flow[i] == flow) && t->s.opcode == TT_WAIT && !t->over &&
            t->peer == peer && t->s.tag == tag)
            return t;
    }
    return NULL;
}

tutti_status tt_exec_eager(struct tt_exec *x, uint16_t peer, uint32_t tag, uint64_t bytes)
{
    struct tt_exec_step *t = x->straight ? NULL : find_wait(x, eager_flow(peer, tag), peer, tag);

    if (!t)
        t = find_wait(x, NO_FLOW, peer, tag);       /* also waits that are not eager */
    if (!t)
        return TUTTI_ERR_INVALID;
    if (!t->eager || t->arrived || (t->s.at_most ? t->s.bytes < bytes : t->s.bytes != bytes))
        return TUTTI_ERR_MISMATCH;
    t->s.bytes = bytes;
    t->arrived = true;
    x->asleep &= ~(1ull << (t - x->step));
    x->progress = true;
    return TUTTI_OK;
}

static void prefetch_bytes(const void *at, size_t bytes)
{
    for (size_t b = 0; b < bytes + 63; b += 64)
        __builtin_prefetch((const char *)at + (b < bytes ? b : bytes - 1));
}

/* Prefetches what loading a round accesses: the last steps, which conflict most often, and the
 * places of the new ones. */
static void prefetch_round(const struct tt_exec *x)
{
    prefetch_bytes(x->touching, sizeof x->touching);
    for (uint32_t n = 0; n < FETCH_NEXT; n++)
        prefetch_bytes(&x->step[index_of(x->tail + n - FETCH_NEXT / 2)], sizeof x->step[0]);
}

void tt_exec_prefetch(const struct tt_exec *x, int peer, uint64_t also)
{
    const uint32_t head = index_of(x->head), left = x->tail - x->head;
    const uint64_t window = left < TT_EXEC_STEPS ? (1ull << left) - 1 : UINT64_MAX;
    uint64_t steps =
        ~x->asleep & (head ? window << head | window >> (TT_EXEC_STEPS - head) : window);

    if (peer >= 0)
        prefetch_bytes(&x->peer[peer], sizeof x->peer[peer]);
    if (x->round < x->nrounds)
        prefetch_round(x);
    steps |= also;
    for (int i = 0; steps && i < FETCH_MAX; i++, steps &= steps - 1) {
        const uint32_t at = (uint32_t)__builtin_ctzll(steps);

        prefetch_bytes(&x->step[at], sizeof x->step[0]);
        __builtin_prefetch(&x->dependents[at]);
    }
}

void tt_exec_stream(struct tt_exec *x)
{
    struct tt_exec_step *t = &x->step[index_of(x->head)];

    if (x->head == x->tail || !t->eager || t->arrived || t->issued || !t->s.bytes)
        return;
    t->eager = false;
    x->asleep = 0;
    x->straight = false;
    assign_stream(x, t);
    x->progress = true;
}

bool tt_exec_finished(const struct tt_exec *x)
{
    return x->head == x->tail && x->round == x->nrounds;
}

bool tt_exec_has_reached(const struct tt_exec *x, uint64_t rounds, uint32_t tag)
{
    for (uint32_t n = x->head; n != x->tail; n++) {
        const struct tt_exec_step *t = &x->step[index_of(n)];

        if (!t->over && t->s.opcode == TT_WAIT && t->s.tag == tag)
            return false;
    }
    return x->round >= rounds;
}

/* Returns whether a wait lacks data that flow control allows its peer to send. */
static bool lacks_arrivals(const struct tt_exec *x, const struct tt_exec_step *t)
{
    const struct tt_exec_peer *p = &x->peer[t->peer];
    const struct tt_exec_stream *st = &p->stream[t->stream];

    if (t->eager)
        return !t->arrived;
    if (!p->opened)
        return true;
    if ((int32_t)(st->arrived - t->seq0 - segment_index(x, t->done)) > 0)
        return false;
    return (p->in_direct && t->to_dst) || st->arrived - st->consumed < stream_room(x, p->in_depth);
}

/* Returns the oldest unfinished step that waits for a peer, or NULL. A put waits for its peer
 * unless an earlier local step blocks it. */
static const struct tt_exec_step *find_waiting_step(const struct tt_exec *x)
{
    for (uint32_t n = x->head; n != x->tail; n++) {
        const struct tt_exec_step *t = &x->step[index_of(n)];

        if (!t->over && (t->s.opcode == TT_PUT || (t->s.opcode == TT_WAIT && lacks_arrivals(x, t))))
            return t;
    }
    return NULL;
}

uint32_t tt_exec_waits_for(const struct tt_exec *x)
{
    const struct tt_exec_step *t = find_waiting_step(x);

    return t ? x->peer[t->peer].rank : UINT32_MAX;
}

static const struct tt_exec_step *find_current(const struct tt_exec *x)
{
    const struct tt_exec_step *t = find_waiting_step(x);

    for (uint32_t n = x->head; !t && n != x->tail; n++)
        if (!x->step[index_of(n)].over)
            t = &x->step[index_of(n)];
    return t;
}

const struct tt_step *tt_exec_at(const struct tt_exec *x)
{
    const struct tt_exec_step *t = find_current(x);

    return t ? &t->s : NULL;
}

uint64_t tt_exec_round_at(const struct tt_exec *x)
{
    const struct tt_exec_step *t = find_current(x);

    return t ? t->round : x->nrounds;
}
