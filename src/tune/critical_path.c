#include "tune/critical_path.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tune/walk_state.h"

#define RANKS_SOME 512u     /* maximum ranks that are walked if not all are */
#define SPREAD 64u          /* number of these ranks that are spread over all ranks */
#define PARTNERS_ROUNDS 32u /* rounds that are searched for the ranks that these wait for */
#define STRETCHES 4u        /* stretches of a program of which only some rounds are walked */
#define ROUNDS_MIN 2u       /* minimum rounds of each stretch */
/* programs of at most this number of rounds are walked completely: each round differs */
#define ROUNDS_FEW 5u
#define BUSY 0.75           /* utilization above which a resource counts as the bottleneck */

static double larger_of(double a, double b) { return a > b ? a : b; }

/* ---- common to all walks ---- */

/* Finds the borders: each rank that is farther from rank 0 than all ranks before it, and the rank
 * before it. */
static void find_borders(struct tt_critical_path *w)
{
    const struct tt_layout *l = w->conf->layout;
    enum tt_distance farthest = TT_NEAR_SELF;

    for (uint32_t r = 1; r < l->nranks; r++) {
        const enum tt_distance d = tt_layout_distance(l, 0, r);

        if (d <= farthest)
            continue;
        farthest = d;
        w->border[w->nborder++] = r - 1;
        w->border[w->nborder++] = r;
    }
}

/* Determines which ranks share links. */
static void find_shares(struct tt_critical_path *w)
{
    const struct tt_layout *l = w->conf->layout;
    const struct tt_tune_costs *c = &w->conf->costs;
    const double widest = tt_layout_widest(l),
                 sockets = (double)tt_layout_groups(l, TT_NEAR_SOCKET) / l->nhosts;

    w->rail_ranks = l->nrails ? widest / l->nrails : widest;
    if (l->node == TT_NODE_SOCKETS && sockets > 1)
        w->socket_ranks = widest / sockets / (sockets - 1);
    w->crowd = tt_predict_oversubscribed(w->conf) ? widest / c->cores : 1;
    if (w->crowd > 1)
        w->turn_ns = c->wake_ns + c->idle_ns * (widest - c->cores) / c->cores;
}

struct tt_critical_path *tt_critical_path_open(const struct tt_tune_conf *conf)
{
    const uint32_t n = conf->layout->nranks, most = n <= TT_WALK_RANKS ? n : RANKS_SOME;
    struct tt_critical_path *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    *w = (struct tt_critical_path){ .conf = conf, .all = n <= TT_WALK_RANKS, .nranks_max = most };
    w->rank = malloc(most * sizeof *w->rank);
    if (!w->rank) {
        free(w);
        return NULL;
    }
    tt_predict_net(conf, &w->net);
    find_shares(w);
    find_borders(w);
    return w;
}

void tt_critical_path_close(struct tt_critical_path *w)
{
    if (!w)
        return;
    free(w->rank);
    free(w);
}

/* ---- walked ranks ---- */

/* Adds a rank unless it is present or there is no space. */
static void walk_add_rank(struct tt_critical_path *w, const struct tt_coll *coll, uint32_t rank,
                          bool spread)
{
    struct walk_rank *r = &w->rank[w->nranks];

    if (w->nranks == w->nranks_max || (!w->all && *walk_rank_slot(w, rank)))
        return;
    memset(r, 0, offsetof(struct walk_rank, written));
    r->coll = *coll;
    r->coll.rank = rank;
    r->spread = spread;
    w->nranks++;
    if (!w->all)
        *walk_rank_slot(w, rank) = w->nranks;
}

/* Adds the ranks that the walked ranks wait for, transitively. */
static void add_partners(struct tt_critical_path *w, const struct tt_coll *coll)
{
    struct tt_step steps[TT_ROUND_STEPS_MAX];

    for (uint32_t i = 0; i < w->nranks && w->nranks < w->nranks_max; i++) {
        const struct tt_coll there = w->rank[i].coll;
        const uint64_t n = w->algo->nrounds(&there);

        for (uint64_t k = 0; k < n && k < PARTNERS_ROUNDS; k++) {
            struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };

            w->algo->round(&s, &there, k);
            w->steps += s.n;
            for (uint32_t j = 0; j < s.n; j++)
                if (steps[j].opcode == TT_WAIT)
                    walk_add_rank(w, coll, steps[j].peer, false);
        }
    }
}

static void choose_ranks(struct tt_critical_path *w, const struct tt_coll *coll)
{
    const uint32_t n = coll->nranks, each = n / SPREAD;

    w->nranks = 0;
    for (uint32_t r = 0; w->all && r < n; r++)
        walk_add_rank(w, coll, r, true);
    if (w->all)
        return;
    memset(w->place, 0, sizeof w->place);
    for (uint32_t i = 0; i < SPREAD; i++)
        walk_add_rank(w, coll, i * each + i * WALK_PRIME % each, true);
    walk_add_rank(w, coll, coll->root, false);
    for (uint32_t i = 0; i < w->nborder; i++)
        walk_add_rank(w, coll, w->border[i], false);
    add_partners(w, coll);
}

/* ---- rounds ---- */

/* Emits a rank's steps of a round; adds the data of representative ranks to `sum`, by distance. */
static void walk_emit_round(struct tt_critical_path *w, struct walk_rank *r, uint64_t k,
                            double sum[TT_DISTANCES])
{
    struct tt_sched s = { .steps = r->step, .cap = TT_ROUND_STEPS_MAX };

    w->algo->round(&s, &r->coll, k);
    r->nsteps = s.n;
    r->at = r->nmail = 0;
    r->left = (struct walk_when){ .first_ns = 0 };
    memset(r->own_bytes, 0, sizeof r->own_bytes);
    w->steps += s.n + 1;
    for (uint32_t i = 0; i < s.n; i++) {
        enum tt_distance d;

        if (s.steps[i].opcode != TT_PUT)
            continue;
        d = tt_layout_distance(w->conf->layout, r->coll.rank, s.steps[i].peer);
        for (int u = d <= TT_NEAR_HOST ? (int)d : TT_NEAR_RACK; u <= (int)d; u++)
            r->own_bytes[u] += s.steps[i].bytes;
    }
    for (int u = 0; r->spread && u < TT_DISTANCES; u++)
        sum[u] += (double)r->own_bytes[u];
}

/* Emits the round for all walked ranks, and computes the mean data per rank. */
static void load_all(struct tt_critical_path *w, uint64_t k)
{
    double sum[TT_DISTANCES] = { 0 };
    uint32_t nspread = 0;

    for (uint32_t i = 0; i < w->nranks; i++) {
        walk_emit_round(w, &w->rank[i], k, sum);
        nspread += w->rank[i].spread;
    }
    for (int u = 0; u < TT_DISTANCES; u++)
        w->mean_bytes[u] = sum[u] / nspread;
}

/* Each rank advances as far as the messages of other ranks allow. */
static void walk_round(struct tt_critical_path *w, uint64_t k)
{
    uint32_t n = 0;

    load_all(w, k);
    for (uint32_t i = w->nranks; i > 0; i--)
        w->todo[n++] = &w->rank[i - 1];
    while (n > 0) {
        struct walk_rank *woken[TT_ROUND_STEPS_MAX];
        const uint32_t nwoken = walk_rank_go_on(w, w->todo[--n], k, woken);

        for (uint32_t i = 0; i < nwoken; i++)
            w->todo[n++] = woken[i];
    }
    for (uint32_t i = 0; i < w->nranks; i++)
        w->is_lost |= w->rank[i].at < w->rank[i].nsteps;
}

/* ---- stretches ---- */

static void walk_mark(struct tt_critical_path *w)
{
    for (uint32_t i = 0; i < w->nranks; i++) {
        w->rank[i].marked_end_ns = w->rank[i].end_ns;
        w->rank[i].marked = w->rank[i].busy;
    }
}

/* Increase of a rank's busy time since the mark, of its thread or of its share of a server; the
 * maximum. */
static double busier(const struct walk_rank *r)
{
    double most = r->busy.work_ns - r->marked.work_ns;

    for (int u = 0; u < TT_DISTANCES; u++)
        most = larger_of(most, larger_of(r->busy.out_ns[u] - r->marked.out_ns[u],
                                         r->busy.in_ns[u] - r->marked.in_ns[u]));
    return most;
}

static void grow_busy(double *busy_ns, double marked_ns, double times)
{
    *busy_ns += times * (*busy_ns - marked_ns);
}

static void grow_all(struct walk_busy *b, const struct walk_busy *marked, double times)
{
    grow_busy(&b->work_ns, marked->work_ns, times);
    for (int u = 0; u < TT_DISTANCES; u++) {
        grow_busy(&b->out_ns[u], marked->out_ns[u], times);
        grow_busy(&b->in_ns[u], marked->in_ns[u], times);
    }
}

static void shift_calendar(struct walk_calendar *c, double ns)
{
    c->busy_from_ns += ns;
    c->free_ns += ns;
    for (uint32_t i = 0; i < WALK_IDLE; i++) {
        c->idle[i].first_ns += ns;
        c->idle[i].last_ns += ns;
    }
}

/* Delays everything that a rank is doing. */
static void delay_rank(struct walk_rank *r, double ns)
{
    r->end_ns += ns;
    r->between_ns += ns;
    shift_calendar(&r->thread, ns);
    r->floor_ns += ns;
    for (uint32_t i = 0; i < WALK_WINDOW; i++)
        r->over_ns[i] += ns;
    for (uint32_t i = 0; i < WALK_JOBS; i++) {
        r->job[i].ready_ns += ns;
        r->job[i].next_ns += ns;
    }
    for (uint32_t i = 0; i < WALK_WRITTEN && i < r->nwritten; i++) {
        r->written[i].first_ns += ns;
        r->written[i].last_ns += ns;
    }
    for (int u = 0; u < TT_DISTANCES; u++) {
        shift_calendar(&r->out[u], ns);
        shift_calendar(&r->in[u], ns);
    }
}

/* Skips `times` times the rounds since the mark. Their time is the mean progress of the ranks,
 * since the ranks wait for a slow path in turn, but at least the busy time of the busiest rank. */
static void skip_rounds(struct tt_critical_path *w, double times)
{
    double mean = 0, most = 0;
    uint32_t nspread = 0;

    for (uint32_t i = 0; i < w->nranks; i++) {
        const struct walk_rank *r = &w->rank[i];

        if (r->spread)
            mean += r->end_ns - r->marked_end_ns;
        nspread += r->spread;
        most = larger_of(most, busier(r));
    }
    most = times * larger_of(most, mean / nspread);
    for (uint32_t i = 0; i < w->nranks; i++) {
        delay_rank(&w->rank[i], most);
        grow_all(&w->rank[i].busy, &w->rank[i].marked, times);
    }
}

static double latest(const struct tt_critical_path *w)
{
    double latest = 0;

    for (uint32_t i = 0; i < w->nranks; i++)
        latest = larger_of(latest, w->rank[i].end_ns);
    return latest;
}

/* Walks rounds [from, to), or only some if all would exceed steps_max steps in total. Returns false
 * if the call takes longer than time_max_ns. */
static bool walk_stretch(struct tt_critical_path *w, uint64_t from, uint64_t to, uint64_t steps_max,
                         double time_max_ns)
{
    const uint64_t before = w->steps;
    uint64_t rounds = to - from, marked = 0;

    walk_mark(w);
    for (uint64_t i = 0; i < rounds; i++) {
        walk_round(w, from + i);
        if (time_max_ns > 0 && latest(w) > time_max_ns)
            return false;
        if (i == 0 && to - from > ROUNDS_FEW) {
            const uint64_t room =
                steps_max > w->steps ? (steps_max - w->steps) / (w->steps - before) + 1 : 0;

            rounds = room < ROUNDS_MIN ? ROUNDS_MIN : room < rounds ? room : rounds;
        }
        if (from == 0 && i + 1 == rounds / 2) {     /* the first half is the start-up phase */
            walk_mark(w);
            marked = rounds / 2;
        }
    }
    if (rounds < to - from)
        skip_rounds(w, (double)(to - from - rounds) / (double)(rounds - marked));
    return true;
}

/* ---- the walk ---- */

/* Finds the resource that the slowest rank used most of the time. */
static void walk_find_bottleneck(const struct tt_critical_path *w, struct tt_prediction *out)
{
    const struct walk_rank *slowest = &w->rank[0];

    for (uint32_t i = 0; i < w->nranks; i++)
        if (w->rank[i].end_ns > slowest->end_ns)
            slowest = &w->rank[i];
    out->bound = TT_BOUND_LATENCY;
    out->busy = 0;
    for (int u = 0; u < TT_DISTANCES; u++) {
        const double busy =
            larger_of(slowest->busy.out_ns[u], slowest->busy.in_ns[u]) / out->time_ns;

        if (busy > BUSY && busy > out->busy) {
            out->bound = TT_BOUND_LINK;
            out->link = (enum tt_distance)u;
            out->busy = busy;
        }
    }
    if (slowest->busy.work_ns > BUSY * out->time_ns &&
        slowest->busy.work_ns > out->busy * out->time_ns) {
        out->bound = w->crowd > 1 ? TT_BOUND_CORES : TT_BOUND_RANK;
        out->busy = slowest->busy.work_ns / out->time_ns;
    }
}

/* Sets the costs of this call's messages, with or without single copies, by its kind and lanes. */
static void take_costs(struct tt_critical_path *w, const struct tt_predict_near *near, bool fetches)
{
    const struct tt_layout *l = w->conf->layout;
    const uint32_t lanes = tt_predict_lanes(w->conf, &w->segments);

    w->near = fetches ? near->fetched : near->slots;
    w->work = near->work;
    w->came = near->came;
    w->rails = tt_layout_widest(l) == 1 && l->nrails > 1
                   ? (lanes && lanes < l->nrails ? lanes : l->nrails)
                   : 1;
    for (int d = 0; d < TT_DISTANCES; d++) {
        const double bytes = (double)tt_predict_lane_bytes(w->conf, &w->net, (enum tt_distance)d) *
                             (lanes ? lanes : w->rails);

        w->lane_byte_ns[d] = bytes > 0 ? 2 * w->net.link[d].latency_ns / bytes : 0;
    }
}

/* Walks all rounds, or stops when the call is known to take longer than time_max_ns. */
static tutti_status walk_rounds(struct tt_critical_path *w, const struct tt_coll *coll,
                                uint64_t steps_max, double time_max_ns, struct tt_prediction *out)
{
    const uint64_t rounds = w->algo->nrounds(coll);
    bool whole = true;

    w->steps = 0;
    w->is_lost = false;
    choose_ranks(w, coll);
    for (uint32_t i = 0; i < w->nranks; i++)
        walk_rank_begin(w, &w->rank[i]);
    for (uint32_t i = 0; i < STRETCHES && whole; i++)
        whole = walk_stretch(w, rounds * i / STRETCHES, rounds * (i + 1) / STRETCHES,
                             steps_max * (i + 1) / STRETCHES, time_max_ns);
    if (w->is_lost)
        return TUTTI_ERR_UNSUPPORTED;
    *out = (struct tt_prediction){ .time_ns = latest(w), .events = w->steps, .cut = !whole };
    if (out->time_ns > 0)
        walk_find_bottleneck(w, out);
    return TUTTI_OK;
}

tutti_status tt_critical_path_run(struct tt_critical_path *w, const struct tt_coll *coll,
                                  const struct tt_algo *algo, const struct tt_segments *segments,
                                  uint64_t steps_max, double time_max_ns, struct tt_prediction *out)
{
    struct tt_prediction first, second;
    struct tt_predict_near near;
    tutti_status st;

    w->algo = algo;
    w->segments = *segments;
    tt_predict_near(w->conf, coll, &near);
    if (near.tries)
        steps_max /= 2;
    take_costs(w, &near, false);
    st = walk_rounds(w, coll, steps_max, time_max_ns, &first);
    if (st)
        return st;
    *out = first;
    if (!near.tries)
        return TUTTI_OK;
    take_costs(w, &near, true);
    st = walk_rounds(w, coll, steps_max, first.cut ? time_max_ns : first.time_ns, &second);
    if (st)
        return st;
    tt_predict_sooner(out, &second);
    return TUTTI_OK;
}
