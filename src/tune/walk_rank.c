/* One rank of a walk: the time that its steps take its thread, and when their inputs and outputs
 * are available. */
#include <string.h>

#include "tune/walk_state.h"

#define CREDITS 4u          /* credits per stream depth, as in the executor */
/* rounds examined for a first window of steps; a rank without steps in these is not expected to
 * have any later */
#define BEGIN_ROUNDS 64u
/* minimum parts of a fetched message: its receiver may forward the first before the last has
 * arrived */
#define FETCHED_PARTS 4u

/* Returns the table entry of a rank, or the free one for it. */
uint32_t *walk_rank_slot(struct tt_critical_path *w, uint32_t rank)
{
    uint32_t at = (rank * WALK_PRIME >> 16) % WALK_PLACES;

    while (w->place[at] && w->rank[w->place[at] - 1].coll.rank != rank)
        at = (at + 1) % WALK_PLACES;
    return &w->place[at];
}

struct walk_rank *walk_find(struct tt_critical_path *w, uint32_t rank)
{
    uint32_t at;

    if (w->all)
        return &w->rank[rank];
    at = *walk_rank_slot(w, rank);
    return at ? &w->rank[at - 1] : NULL;
}

static double later_of(double a, double b) { return a > b ? a : b; }

/* ---- the thread ---- */

/* Returns whether work of this length fits into an idle time of the thread, preferably the
 * earliest, and sets its start. */
static bool fits_in(struct walk_calendar *c, double ready_ns, double takes_ns, double *from_ns)
{
    struct walk_when *best = NULL;

    for (uint32_t i = 0; i < WALK_IDLE; i++) {
        const double from = later_of(ready_ns, c->idle[i].first_ns);

        if (from + takes_ns > c->idle[i].last_ns || (best && from >= *from_ns))
            continue;
        best = &c->idle[i];
        *from_ns = from;
    }
    if (best)
        best->first_ns = *from_ns + takes_ns;
    return best != NULL;
}

/* The part of an idle time from floor_ns on. */
static double idle_left(const struct walk_when *idle, double floor_ns)
{
    return later_of(0, idle->last_ns - later_of(idle->first_ns, floor_ns));
}

/* Appends work at the end. Remembers the longest earlier idle times that end after floor_ns. */
static void calendar_append(struct walk_calendar *c, double from_ns, double takes_ns,
                            double floor_ns)
{
    const struct walk_when idle = { .first_ns = c->free_ns, .last_ns = from_ns, .made = false };
    uint32_t least = 0;

    for (uint32_t i = 1; i < WALK_IDLE; i++)
        if (idle_left(&c->idle[i], floor_ns) < idle_left(&c->idle[least], floor_ns))
            least = i;
    if (from_ns > c->free_ns) {
        c->busy_from_ns = from_ns;
        if (idle_left(&idle, floor_ns) > idle_left(&c->idle[least], floor_ns))
            c->idle[least] = idle;
    }
    c->free_ns = from_ns + takes_ns;
}

/* Earliest start within the work since the last idle time: after work that was ready before. */
static double turn_of(const struct walk_rank *r, double ready_ns)
{
    const uint32_t n = r->njobs < WALK_JOBS ? r->njobs : WALK_JOBS;
    double next = n < WALK_JOBS ? r->thread.busy_from_ns : 0;

    for (uint32_t i = 1; i <= n; i++) {
        const struct walk_job *job = &r->job[(r->njobs - i) % WALK_JOBS];

        next = i == WALK_JOBS || job->ready_ns <= ready_ns ? job->next_ns : next;
        if (job->ready_ns <= ready_ns)
            break;
    }
    return later_of(later_of(ready_ns, next), r->between_ns);
}

/* Schedules `work`, not before `ready`: in an idle time if there is space; or within the work since
 * the last idle time, which delays the rest of that work unless there is spare time; or at the end.
 * Returns when the work is done. */
static double thread_spend(const struct tt_critical_path *w, struct walk_rank *r, double ready_ns,
                           double work_ns)
{
    const double work = work_ns * w->crowd, ready = later_of(ready_ns, r->floor_ns);
    double start;

    r->busy.work_ns += work;
    if (!r->straight && fits_in(&r->thread, ready, work, &start))
        return start + work;
    start = ready >= r->thread.free_ns ? ready
            : r->straight              ? r->thread.free_ns
                                       : turn_of(r, ready);
    if (start < r->thread.free_ns) {
        r->thread.free_ns += later_of(0, work - r->spare_ns);
        r->spare_ns = later_of(0, r->spare_ns - work);
        r->between_ns = start + work;
        return start + work;
    }
    if (start > r->thread.free_ns) {
        r->spare_ns = r->between_ns = 0;
        r->njobs = 0;
    }
    calendar_append(&r->thread, start, work, r->floor_ns);
    r->job[r->njobs++ % WALK_JOBS] =
        (struct walk_job){ .ready_ns = ready, .next_ns = r->thread.free_ns };
    return r->thread.free_ns;
}

/* As thread_spend, in `parts` parts, the last one not before all data is available; the thread does
 * other work in between. */
static struct walk_when spend_on(const struct tt_critical_path *w, struct walk_rank *r,
                                 struct walk_when there, uint32_t parts, double work_ns)
{
    const double part = work_ns * w->crowd / parts,
                 end = thread_spend(w, r, there.first_ns, work_ns);
    struct walk_when done = { .first_ns = end - work_ns * w->crowd + part,
                              .last_ns = later_of(end, there.last_ns + part),
                              .made = false };

    if (parts == 1 || end <= r->thread.busy_from_ns)
        return done;
    if (end >= r->thread.free_ns)
        r->job[(r->njobs - 1) % WALK_JOBS].next_ns = done.first_ns;
    else
        r->between_ns = done.first_ns;
    if (r->spare_ns <= 0)       /* interleaved work completes together */
        done.last_ns = later_of(done.last_ns, r->thread.free_ns);
    r->spare_ns += later_of(0, done.last_ns - r->thread.free_ns);
    r->thread.free_ns = later_of(r->thread.free_ns, done.last_ns);
    return done;
}

/* A step is complete: the one WALK_WINDOW later may begin if all before it are. */
static void step_complete(struct walk_rank *r, double ns)
{
    double *at = &r->over_ns[r->nover++ % WALK_WINDOW];

    r->floor_ns = later_of(r->floor_ns, *at);
    *at = ns;
    r->end_ns = later_of(r->end_ns, ns);
}

/* ---- inputs and outputs ---- */

static bool same_ref_range(const struct tt_ref *a, const struct tt_ref *b)
{
    return a->offset == b->offset && a->block == b->block && a->stride == b->stride;
}

/* Returns when `bytes` at ref are available. The search ends at the step that wrote exactly these
 * bytes, since that step waited for all earlier steps. */
static struct walk_when when_there(const struct walk_rank *r, const struct tt_ref *ref,
                                   uint64_t bytes)
{
    const uint32_t n = r->nwritten < WALK_WRITTEN ? r->nwritten : WALK_WRITTEN;
    struct walk_when there = { .first_ns = 0, .last_ns = 0, .made = false };

    if (ref->buf == TT_BUF_SRC)
        return there;
    for (uint32_t i = 1; i <= n; i++) {
        const struct walk_written *x = &r->written[(r->nwritten - i) % WALK_WRITTEN];
        const bool same = x->ref.buf == ref->buf && same_ref_range(&x->ref, ref);

        if (!same && (ref->buf == TT_BUF_PIPE || !tt_ref_overlap(&x->ref, x->bytes, ref, bytes)))
            continue;
        there.first_ns = later_of(there.first_ns, x->first_ns);
        there.last_ns = later_of(there.last_ns, x->last_ns);
        if (same && x->bytes >= bytes) {
            there.made = i == 1 || there.last_ns == x->last_ns ? x->made : false;
            there.came = x->came;
            break;
        }
    }
    return there;
}

static void note_written(struct walk_rank *r, const struct tt_ref *ref, uint64_t bytes,
                         struct walk_when when, bool made, bool came)
{
    r->written[r->nwritten++ % WALK_WRITTEN] = (struct walk_written){ .ref = *ref,
                                                                      .bytes = bytes,
                                                                      .first_ns = when.first_ns,
                                                                      .last_ns = when.last_ns,
                                                                      .made = made,
                                                                      .came = came };
}

/* Nanoseconds per byte of a copy or reduction. */
static double walk_work_byte_ns(const struct tt_critical_path *w, bool reduces, bool came)
{
    const double own = reduces ? w->work.reduce_byte_ns : w->work.copy_byte_ns;
    const double other = reduces ? w->came.reduce_byte_ns : w->came.copy_byte_ns;

    return came && other > 0 ? other : own;
}

/* ---- messages ---- */

static enum tt_distance peer_distance(const struct tt_critical_path *w, const struct walk_rank *r,
                                      uint32_t peer)
{
    return tt_layout_distance(w->conf->layout, r->coll.rank, peer);
}

static bool message_is_eager(const struct tt_critical_path *w, uint64_t bytes)
{
    return bytes <= w->conf->limits.eager_bytes;
}

static uint32_t parts_of_bytes(const struct tt_critical_path *w, uint64_t bytes)
{
    return message_is_eager(w, bytes) ? 1 : tt_exec_segments(bytes, w->segments.segment_bytes);
}

/* Returns whether the bytes are for their final place, as one contiguous piece. */
static bool is_for_result(const struct tt_ref *to)
{
    return (to->buf == TT_BUF_DST || to->buf == TT_BUF_THERE) && !to->block;
}

/* Returns whether a message is fetched by its receiver (single copy). */
static bool message_is_fetched(const struct tt_critical_path *w, enum tt_distance d,
                               const struct tt_ref *to, uint64_t bytes)
{
    const struct tt_des_way *way = walk_way(w, d);

    return way->single_bytes && bytes >= way->single_bytes && !message_is_eager(w, bytes) &&
           (tt_coll_reduces(w->algo->kind) ? !way->mapped : is_for_result(to));
}

/* The number of parts of a message; fetched messages have longer parts if they arrive directly in
 * their destination, as in the executor. */
static uint32_t parts_of_message(const struct tt_critical_path *w, enum tt_distance d,
                                 const struct tt_ref *to, uint64_t bytes)
{
    const uint64_t segment = w->segments.segment_bytes, whole = w->near.whole_bytes;
    uint64_t part = bytes / FETCHED_PARTS;

    if (!message_is_fetched(w, d, to, bytes) || !is_for_result(to))
        return parts_of_bytes(w, bytes);
    part = part < whole ? part / segment * segment : whole;
    return tt_exec_segments(bytes, part > segment ? part : segment);
}

static double step_ns(const struct tt_critical_path *w, const struct walk_rank *r)
{
    return r->straight ? 0 : w->conf->costs.step_ns;
}

/* Returns whether data arrives directly in its final place. */
static bool arrives_direct(const struct tt_critical_path *w, enum tt_distance d,
                           const struct tt_ref *to, uint64_t bytes)
{
    return walk_way(w, d)->direct && !message_is_eager(w, bytes) && !w->algo->direct_unsafe &&
           is_for_result(to);
}

static bool is_in_slots(const struct tt_critical_path *w, enum tt_distance d,
                        const struct tt_ref *to, uint64_t bytes)
{
    return !message_is_eager(w, bytes) && !arrives_direct(w, d, to, bytes) &&
           !(message_is_fetched(w, d, to, bytes) && is_for_result(to));
}

static double credits_of(const struct tt_critical_path *w, uint32_t parts)
{
    const uint32_t each = w->segments.depth > CREDITS ? w->segments.depth / CREDITS : 1;

    return parts / each;
}

/* Returns whether this is the first recent streamed message between r and the peer in that
 * direction. */
static bool opens(struct walk_rank *r, uint32_t peer, bool out)
{
    const uint32_t n = r->nopened[out] < WALK_OPENED ? r->nopened[out] : WALK_OPENED;

    for (uint32_t i = 0; i < n; i++)
        if (r->opened[out][i] == peer)
            return false;
    r->opened[out][r->nopened[out]++ % WALK_OPENED] = peer;
    return true;
}

/* A message passes the servers of a level in one direction. Other messages that share a server in
 * this round occupy it, too. */
static void mail_pass(struct walk_calendar share[TT_DISTANCES], double busy_ns[TT_DISTANCES],
                      struct walk_mail *m, int level, double floor_ns)
{
    const double takes = m->takes_ns[level];
    double begin;

    if (takes <= 0)
        return;
    if (!fits_in(&share[level], m->head_ns, takes, &begin)) {
        begin = later_of(m->head_ns, share[level].free_ns);
        calendar_append(&share[level], begin, takes, floor_ns);
    }
    m->head_ns = begin;
    m->tail_ns = later_of(m->tail_ns, m->head_ns + takes);
    busy_ns[level] += takes;
}

/* Factor by which a rank's data takes longer at a server that other ranks share in this round. */
static double shared(const struct tt_critical_path *w, const struct walk_rank *r, int level,
                     double ranks)
{
    const double own = (double)r->own_bytes[level];

    return own > 0 ? later_of(1, w->mean_bytes[level] * ranks / own) : 1;
}

static double byte_ns(double bytes_per_s) { return bytes_per_s > 0 ? 1e9 / bytes_per_s : 0; }

/* Time of the message at the servers of each level of its path. */
static void take_at_levels(const struct tt_critical_path *w, const struct walk_rank *r,
                           struct walk_mail *m)
{
    const double rail = byte_ns(w->net.link[TT_NEAR_RACK].bytes_per_s), bytes = (double)m->bytes;
    const int d = (int)m->distance;

    memset(m->takes_ns, 0, sizeof m->takes_ns);
    if (d <= TT_NEAR_HOST) {
        m->takes_ns[d] = bytes * byte_ns(w->net.link[d].bytes_per_s);
        if (d == TT_NEAR_HOST && w->socket_ranks > 0)
            m->takes_ns[d] *= shared(w, r, d, w->socket_ranks);
        return;
    }
    m->takes_ns[TT_NEAR_RACK] = bytes * rail / w->rails * shared(w, r, TT_NEAR_RACK, w->rail_ranks);
    for (int u = TT_NEAR_ZONE; u <= d; u++) {
        const double up = w->net.uplink_bytes_per_s[u];
        const double all = up > 0 ? rail * w->rail_ranks * w->conf->links[u].oversubscription : 0;

        m->takes_ns[u] =
            bytes * later_of(byte_ns(up), u == d ? byte_ns(w->net.link[u].bytes_per_s) : 0);
        if (all > 0 && r->own_bytes[u])
            m->takes_ns[u] =
                later_of(m->takes_ns[u], bytes * all * w->mean_bytes[u] / (double)r->own_bytes[u]);
    }
    m->takes_ns[d] = later_of(m->takes_ns[d], bytes * w->lane_byte_ns[d]);
}

/* Minimum time of a message received in slots: its stream's slots fill repeatedly, until the sender
 * receives their credits. */
static double slots_ns(const struct tt_critical_path *w, const struct walk_mail *m)
{
    const struct tt_des_way *way = walk_way(w, m->distance);
    const double round_trip_ns =
        2 * w->net.link[m->distance].latency_ns + way->send_ns + way->receive_ns;

    return m->in_slots ? (m->parts - 1) / w->segments.depth * round_trip_ns : 0;
}

/* Sends a message of r, or of a rank in step with it; its first segment is ready at left.first_ns,
 * and the last at left.last_ns. */
static void mail_leave(const struct tt_critical_path *w, const struct walk_rank *r,
                       struct walk_when left, struct walk_calendar out[TT_DISTANCES],
                       double busy_ns[TT_DISTANCES], struct walk_mail *m)
{
    const int d = (int)m->distance;

    take_at_levels(w, r, m);
    m->head_ns = left.first_ns;
    m->tail_ns = left.last_ns;
    if (d <= TT_NEAR_HOST && !(d == TT_NEAR_HOST && w->socket_ranks > 0))
        m->tail_ns = later_of(m->tail_ns, m->head_ns + m->takes_ns[d]);
    else
        for (int u = d <= TT_NEAR_HOST ? d : TT_NEAR_RACK; u <= d; u++)
            mail_pass(out, busy_ns, m, u, r->floor_ns);
    m->tail_ns = later_of(
        m->tail_ns, left.last_ns + m->takes_ns[d <= TT_NEAR_HOST ? d : TT_NEAR_RACK] / m->parts);
    m->tail_ns = later_of(m->tail_ns, m->head_ns + slots_ns(w, m));
    m->head_ns += w->net.link[d].latency_ns;
    m->tail_ns += w->net.link[d].latency_ns;
}

/* Returns the arrival of a message's first segment, and of the whole. */
static struct walk_when mail_arrive(struct walk_rank *r, struct walk_mail *m)
{
    double most = 0;

    for (int u = (int)m->distance; u >= TT_NEAR_RACK; u--)
        mail_pass(r->in, r->busy.in_ns, m, u, r->floor_ns);
    for (int u = 0; u < TT_DISTANCES; u++)
        most = later_of(most, m->takes_ns[u]);
    return (struct walk_when){ .first_ns = m->parts > 1 ? m->head_ns + most / m->parts : m->tail_ns,
                               .last_ns = m->tail_ns };
}

/* ---- steps ---- */

static struct walk_fan *find_fan(struct walk_rank *r, const struct tt_step *put)
{
    for (uint32_t i = 0; i < r->nfans; i++)
        if (r->fan[i].from.buf == put->a.buf && same_ref_range(&r->fan[i].from, &put->a) &&
            r->fan[i].bytes == put->bytes)
            return &r->fan[i];
    return NULL;
}

/* Interleaves a put, whose parts take the thread `part_ns` each, with other puts of the same
 * bytes. */
static void interleave_puts(struct walk_rank *r, const struct tt_step *put, uint32_t parts,
                            double part_ns, struct walk_when *left)
{
    struct walk_fan *f = find_fan(r, put);

    if (!f || f->nputs < 2)
        return;
    if (f->nsent++ == 0)
        f->began_ns = left->first_ns - part_ns;
    left->first_ns = f->began_ns + f->nsent * part_ns;
    left->last_ns = later_of(left->last_ns, left->first_ns + f->nputs * (parts - 1) * part_ns);
}

static struct walk_rank *walk_put(struct tt_critical_path *w, struct walk_rank *r,
                                  const struct tt_step *t)
{
    const enum tt_distance d = peer_distance(w, r, t->peer);
    const struct tt_des_way *way = walk_way(w, d);
    const uint32_t parts = parts_of_message(w, d, &t->out, t->bytes);
    const bool eager = message_is_eager(w, t->bytes),
               fetched = message_is_fetched(w, d, &t->out, t->bytes);
    double work = parts * (way->send_ns + step_ns(w, r));
    struct walk_when there = when_there(r, &t->a, t->bytes);
    struct walk_mail m = {
        .from = r->coll.rank, .tag = t->tag, .parts = parts, .bytes = t->bytes, .distance = d
    };
    struct walk_rank *to = walk_find(w, t->peer);

    /* data is written to the peer's slots while it is produced */
    if (!fetched && !(way->mapped && there.made && !eager))
        work += (double)t->bytes * way->send_byte_ns;
    if (!eager && opens(r, t->peer, true))
        there.first_ns = later_of(
            there.first_ns,
            thread_spend(w, r, later_of(r->began_ns, r->floor_ns) + w->net.link[d].latency_ns,
                         way->receive_ns));
    m.in_slots = is_in_slots(w, d, &t->out, t->bytes);
    if (m.in_slots)
        work += credits_of(w, parts) * way->receive_ns;
    r->left = spend_on(w, r, there, parts, work);
    if (parts > 1)
        interleave_puts(r, t, parts, work * w->crowd / parts, &r->left);
    mail_leave(w, r, r->left, r->out, r->busy.out_ns, &m);
    step_complete(r, later_of(r->left.last_ns, m.tail_ns - w->net.link[d].latency_ns));
    if (to && to->nmail < TT_ROUND_STEPS_MAX)
        to->mail[to->nmail++] = m;
    return to && to->waits ? to : NULL;
}

/* Returns a message that has arrived for this wait, or NULL. */
static struct walk_mail *find_mail(struct walk_rank *r, const struct tt_step *t)
{
    for (uint32_t i = 0; i < r->nmail; i++)
        if (r->mail[i].from == t->peer && r->mail[i].tag == t->tag)
            return &r->mail[i];
    return NULL;
}

/* Returns whether the message of `peer`, which is not walked, to r in this round depends on a
 * message for which `peer` waits in the same round. Then `peer` cannot be in step. */
static bool passes_on(const struct tt_critical_path *w, const struct walk_rank *r,
                      const struct tt_step *wait, uint64_t round)
{
    struct tt_step steps[TT_ROUND_STEPS_MAX];
    struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };
    struct tt_coll there = r->coll;
    uint32_t at = 0;

    there.rank = wait->peer;
    w->algo->round(&s, &there, round);
    while (at < s.n && !(steps[at].opcode == TT_PUT && steps[at].peer == r->coll.rank &&
                         steps[at].tag == wait->tag))
        at++;
    for (uint32_t i = 0; i < at && at < s.n; i++)
        if (steps[i].opcode == TT_WAIT &&
            tt_ref_overlap(&steps[i].out, steps[i].bytes, &steps[at].a, steps[at].bytes))
            return true;
    return false;
}

/* Sends the message of a rank that is not walked, and is assumed to be in step. */
static void send_in_step(struct tt_critical_path *w, const struct walk_rank *r,
                         const struct tt_step *t, struct walk_mail *m)
{
    struct walk_calendar out[TT_DISTANCES] = { { .free_ns = 0 } };
    double busy_ns[TT_DISTANCES] = { 0 };
    const struct walk_when now = { .first_ns = r->thread.free_ns,
                                   .last_ns = r->thread.free_ns,
                                   .made = false };

    *m = (struct walk_mail){
        .from = t->peer, .tag = t->tag, .bytes = t->bytes, .distance = peer_distance(w, r, t->peer)
    };
    m->parts = parts_of_message(w, m->distance, &t->out, t->bytes);
    m->in_slots = is_in_slots(w, m->distance, &t->out, t->bytes);
    mail_leave(w, r, r->left.last_ns > 0 ? r->left : now, out, busy_ns, m);
}

static void walk_take(struct tt_critical_path *w, struct walk_rank *r, const struct tt_step *t,
                      struct walk_mail *m)
{
    const struct tt_des_way *way = walk_way(w, m->distance);
    const uint32_t parts = m->parts;
    const bool eager = message_is_eager(w, t->bytes),
               fetched = message_is_fetched(w, m->distance, &t->out, t->bytes);
    const bool direct = arrives_direct(w, m->distance, &t->out, t->bytes) || fetched;
    const double bytes = (double)t->bytes;
    const bool came = m->distance <= TT_NEAR_HOST && !direct, pipe = t->out.buf == TT_BUF_PIPE;
    double work = parts * way->receive_ns + bytes * way->receive_byte_ns;
    struct walk_when there = mail_arrive(r, m), done;

    if (fetched)
        work += parts * way->single_ns + bytes * way->single_byte_ns;
    if (!direct && !pipe)
        work += parts * step_ns(w, r) + bytes * walk_work_byte_ns(w, false, came);
    if (!direct && !eager)
        work += credits_of(w, parts) * (way->send_ns + step_ns(w, r));
    if (there.first_ns > r->thread.free_ns)
        work += w->turn_ns;
    if (!eager && r->nover >= WALK_WINDOW && opens(r, t->peer, false))
        work += way->send_ns + step_ns(w, r);
    done = spend_on(w, r, there, parts, work);
    note_written(r, &t->out, t->bytes, done, !direct && !eager && !pipe, came && pipe);
    step_complete(r, done.last_ns);
}

static void walk_change(const struct tt_critical_path *w, struct walk_rank *r,
                        const struct tt_step *t)
{
    const bool reduces = t->opcode == TT_REDUCE_STEP;
    const uint32_t parts = parts_of_bytes(w, t->bytes);
    struct walk_when there = when_there(r, &t->a, t->bytes),
                     other = { .first_ns = 0, .last_ns = 0, .made = false }, done;
    double work = parts * step_ns(w, r);

    if (reduces)
        other = when_there(r, &t->b, t->bytes);
    work += (double)t->bytes * walk_work_byte_ns(w, reduces, there.came || other.came);
    there.first_ns = later_of(there.first_ns, other.first_ns);
    there.last_ns = later_of(there.last_ns, other.last_ns);
    done = spend_on(w, r, there, parts, work);
    note_written(r, &t->out, t->bytes, done, true, false);
    step_complete(r, done.last_ns);
}

/* ---- the round ---- */

uint32_t walk_rank_go_on(struct tt_critical_path *w, struct walk_rank *r, uint64_t round,
                         struct walk_rank *woken[TT_ROUND_STEPS_MAX])
{
    uint32_t n = 0;

    r->waits = false;
    for (; r->at < r->nsteps; r->at++) {
        const struct tt_step *t = &r->step[r->at];
        struct walk_mail *m, unseen;

        if (t->opcode == TT_PUT) {
            struct walk_rank *to = walk_put(w, r, t);

            if (to) {
                to->waits = false;
                woken[n++] = to;
            }
        } else if (t->opcode == TT_WAIT) {
            m = find_mail(r, t);
            if (!m && walk_find(w, t->peer)) {
                r->waits = true;
                return n;
            }
            if (!m) {
                w->is_lost |= passes_on(w, r, t, round);
                m = &unseen;
                send_in_step(w, r, t, m);
            }
            walk_take(w, r, t, m);
        } else {
            walk_change(w, r, t);
        }
    }
    return n;
}

/* ---- start ---- */

/* As in the executor: the steps of straight-line programs run in order, except that copies may run
 * while the rank waits. */
static bool is_simple(const struct tt_critical_path *w, const struct tt_step *t)
{
    const bool makes = t->opcode == TT_REDUCE_STEP || t->opcode == TT_COPY;

    return !t->at_most && message_is_eager(w, t->bytes) && !t->a.block && !t->b.block &&
           !t->out.block && !(makes && t->out.buf == TT_BUF_PIPE);
}

static void note_fan(struct walk_rank *r, const struct tt_step *put)
{
    struct walk_fan *f = find_fan(r, put);

    if (f)
        f->nputs++;
    else if (r->nfans < WALK_FANS)
        r->fan[r->nfans++] = (struct walk_fan){ .from = put->a, .bytes = put->bytes, .nputs = 1 };
}

/* Examines the first window of steps: whether it holds the whole program, of short steps, so that
 * the program is straight; and the number of peers that get a CTS. */
void walk_rank_begin(struct tt_critical_path *w, struct walk_rank *r)
{
    const uint64_t rounds = w->algo->nrounds(&r->coll);
    struct tt_step steps[TT_ROUND_STEPS_MAX];
    uint32_t nsteps = 0;
    double opening = 0;
    uint64_t k = 0;

    r->straight = true;
    for (; k < rounds && k < BEGIN_ROUNDS && nsteps + TT_ROUND_STEPS_MAX <= WALK_WINDOW; k++) {
        struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };

        w->algo->round(&s, &r->coll, k);
        w->steps += s.n + 1;
        for (uint32_t i = 0; i < s.n; i++) {
            r->straight &= is_simple(w, &steps[i]);
            if (steps[i].opcode == TT_WAIT && !message_is_eager(w, steps[i].bytes) &&
                opens(r, steps[i].peer, false))
                opening += walk_way(w, peer_distance(w, r, steps[i].peer))->send_ns +
                           w->conf->costs.step_ns;
            if (steps[i].opcode == TT_PUT && r->coll.kind == TT_BROADCAST)
                note_fan(r, &steps[i]);
        }
        nsteps += s.n;
    }
    r->straight &= k == rounds || k == BEGIN_ROUNDS;
    if (!r->straight)
        thread_spend(w, r, 0, w->conf->costs.plan_ns + opening);
    r->began_ns = r->thread.free_ns;
}
