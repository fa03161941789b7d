/* Sums of a simulated start-up by level of the tree. */
#include "sim/start_levels.h"

#include <math.h>
#include <string.h>
#include "base/clock.h"

#define DEPTH_MAX (TT_START_LEVELS_MAX - 2)
#define GROWTH_MAX 1.5              /* exponent */
#define GROWTH_NS (5 * TT_MS)       /* shorter times are no finding */
#define COST_FACTOR 10.0
#define LOOP_PER_S 1000.0

const char *tt_start_phase_name(enum tt_start_phase phase)
{
    static const char *const names[TT_START_PHASES] = {
        [TT_START_PHASE_START] = "start",       [TT_START_PHASE_JOINED] = "joined",
        [TT_START_PHASE_REPORTED] = "reported", [TT_START_PHASE_PLACED] = "placed",
        [TT_START_PHASE_DONE] = "done",
    };

    return (unsigned)phase < TT_START_PHASES ? names[phase] : "?";
}

/* ---- levels ---- */

static bool is_leader(const struct tt_start_process *p)
{
    return p->tree.conf.leader == p->tree.conf.rank || p->tree.alone;
}

/* Number of connections to the root; a process that never joined counts as its child. */
static uint32_t depth_of(const struct tt_start *s, uint32_t index)
{
    uint32_t depth = 0;

    while (index != s->root && index != TT_START_NONE && depth < DEPTH_MAX) {
        index = s->processes[index].parent;
        depth++;
    }
    return depth;
}

/* Index in a table of all levels. */
static uint32_t slot_of(const struct tt_start *s, uint32_t index)
{
    if (index == s->root)
        return 0;
    return is_leader(&s->processes[index]) ? depth_of(s, index) : TT_START_LEVELS_MAX - 1;
}

static void take_u64(uint64_t *most, uint64_t value)
{
    if (value > *most)
        *most = value;
}

static void take_u32(uint32_t *most, uint32_t value)
{
    if (value > *most)
        *most = value;
}

static void add_phase(struct tt_start_level *l, enum tt_start_phase phase, uint64_t ns)
{
    if (!ns)
        return;
    if (!l->nreached[phase]++ || ns < l->first_ns[phase])
        l->first_ns[phase] = ns;
    take_u64(&l->last_ns[phase], ns);
}

static void add_phases(struct tt_start_level *l, const struct tt_start_process *p)
{
    const bool placed = p->tree.state == TT_TREE_PLACED;

    add_phase(l, TT_START_PHASE_START, p->started ? p->start_ns : 0);
    add_phase(l, TT_START_PHASE_JOINED, p->joined_ns);
    add_phase(l, TT_START_PHASE_REPORTED, p->reported_ns);
    add_phase(l, TT_START_PHASE_PLACED, placed ? p->ended_ns : 0);
    add_phase(l, TT_START_PHASE_DONE, p->done_ns);
}

static void add_work(struct tt_start_level *l, const struct tt_start_process *p)
{
    uint64_t busy_ns = 0;

    for (int k = 0; k < TT_START_STEPS; k++) {
        l->work[k].n += p->work[k].n;
        l->work[k].ns += p->work[k].ns;
        take_u64(&l->work_most_ns[k], p->work[k].ns);
        l->messages += k == TT_START_TICK ? 0 : p->work[k].n;
        busy_ns += p->work[k].ns;
    }
    take_u64(&l->busy_most_ns, busy_ns);
}

static void add_process(const struct tt_start *s, struct tt_start_level *l,
                        const struct tt_start_process *p)
{
    const uint64_t until_ns = p->ended_ns ? p->ended_ns : s->now_ns;
    const double life_s = (double)(until_ns - p->start_ns) / 1e9;

    l->nprocesses++;
    add_phases(l, p);
    add_work(l, p);
    l->bytes += p->sent + p->received;
    take_u64(&l->bytes_most, p->sent + p->received);
    take_u64(&l->received_most, p->received);
    take_u32(&l->queued_most, p->nqueued_most);
    take_u32(&l->opening_most, p->nopening_most);
    l->attempts += p->nattempts;
    l->dropped += p->ndropped;
    if (life_s > 0.01)
        l->wakeups_most = fmax(l->wakeups_most, p->nidle / life_s);
}

static void keep_levels(struct tt_start_report *r, const struct tt_start_level *all)
{
    for (uint32_t k = 0; k < TT_START_LEVELS_MAX; k++) {
        struct tt_start_level *l = &r->level[r->nlevels];

        if (!all[k].nprocesses)
            continue;
        *l = all[k];
        l->kind = k == 0                         ? TT_START_LEVEL_ROOT
                  : k == TT_START_LEVELS_MAX - 1 ? TT_START_LEVEL_RANKS
                                                 : TT_START_LEVEL_LEADERS;
        l->depth = l->kind == TT_START_LEVEL_LEADERS ? k : 0;
        if (l->bytes_most > r->busiest_bytes) {
            r->busiest_bytes = l->bytes_most;
            r->busiest = r->nlevels;
        }
        if (l->kind != TT_START_LEVEL_ROOT)
            take_u64(&r->received_most, l->received_most);
        r->nlevels++;
    }
}

static double mean_ns(const struct tt_start_report *r)
{
    uint64_t ns = 0, n = 0;

    for (uint32_t i = 0; i < r->nlevels; i++)
        for (int k = 0; k < TT_START_TICK; k++) {
            ns += r->level[i].work[k].ns;
            n += r->level[i].work[k].n;
        }
    return n ? (double)ns / (double)n : 0;
}

void tt_start_report_of(const struct tt_start *s, struct tt_start_report *out)
{
    struct tt_start_level all[TT_START_LEVELS_MAX];
    uint64_t end_ns = 0;

    memset(all, 0, sizeof all);
    *out = (struct tt_start_report){
        .nranks = s->nranks, .nplaced = s->nplaced, .dropped = s->ndropped, .lost = s->nlost
    };
    out->messages = s->nmessages;
    for (uint32_t i = 0; i <= s->nranks; i++) {
        const struct tt_start_process *p = &s->processes[i];

        add_process(s, &all[slot_of(s, i)], p);
        take_u64(&end_ns, p->ended_ns);
        out->ndropped_ranks += p->dropped;
    }
    out->time_ns = s->nplaced == s->nranks ? end_ns : 0;
    keep_levels(out, all);
    out->message_ns = mean_ns(out);
}

/* ---- findings ---- */

struct findings {
    struct tt_start_finding *out;
    uint32_t n;
};

static void find(struct findings *f, struct tt_start_finding one)
{
    if (f->n < TT_START_FINDINGS_MAX)
        f->out[f->n++] = one;
}

static const struct tt_start_level *level_like(const struct tt_start_report *r,
                                               const struct tt_start_level *other)
{
    for (uint32_t i = 0; i < r->nlevels; i++)
        if (r->level[i].kind == other->kind && r->level[i].depth == other->depth)
            return &r->level[i];
    return NULL;
}

/* The exponent of a step's time in its busiest process. Times below GROWTH_NS count as that, so
 * that a step of few messages at first is no finding. */
static double exponent_of(const struct tt_start_report *whole, const struct tt_start_report *less,
                          const struct tt_start_level *l, int step)
{
    const struct tt_start_level *before = level_like(less, l);
    const double ns = (double)l->work_most_ns[step];
    const double before_ns = before ? (double)before->work_most_ns[step] : 0;

    return log(fmax(ns, GROWTH_NS) / fmax(before_ns, GROWTH_NS)) /
           log((double)whole->nranks / less->nranks);
}

static void find_steps(struct findings *f, const struct tt_start_report *whole,
                       const struct tt_start_report *less, uint32_t index)
{
    const struct tt_start_level *l = &whole->level[index];

    for (int k = 0; k < TT_START_STEPS; k++) {
        const double each_ns = l->work[k].n ? (double)l->work[k].ns / l->work[k].n : 0;
        const double growth = less ? exponent_of(whole, less, l, k) : 0;
        struct tt_start_finding one = { .level = index,
                                        .step = (enum tt_start_step)k,
                                        .seconds = (double)l->work_most_ns[k] / 1e9 };

        if (growth > GROWTH_MAX) {
            one.kind = TT_START_FINDING_GROWTH;
            one.value = growth;
            find(f, one);
        } else if (each_ns > COST_FACTOR * whole->message_ns && l->work_most_ns[k] > GROWTH_NS) {
            one.kind = TT_START_FINDING_COST;
            one.value = each_ns;
            find(f, one);
        }
    }
}

uint32_t tt_start_findings(const struct tt_start_report *whole, const struct tt_start_report *less,
                           struct tt_start_finding *out)
{
    struct findings f = { .out = out };

    for (uint32_t i = 0; i < whole->nlevels; i++) {
        const struct tt_start_level *l = &whole->level[i];

        find_steps(&f, whole, less, i);
        if (l->wakeups_most > LOOP_PER_S)
            find(&f, (struct tt_start_finding){
                         .kind = TT_START_FINDING_LOOP, .level = i, .value = l->wakeups_most });
        if (l->dropped)
            find(&f, (struct tt_start_finding){ .kind = TT_START_FINDING_DROPPED,
                                                .level = i,
                                                .value = (double)l->dropped });
    }
    return f.n;
}
