#include "engine/lane_board.h"

#include <string.h>
#include "base/clock.h"
#include "engine/progress_lock.h"
#include "engine/state.h"

void tt_lane_board_init(struct tt_lane_board *b)
{
    pthread_mutex_init(&b->lock, NULL);
}

void tt_lane_board_fini(struct tt_lane_board *b)
{
    pthread_mutex_destroy(&b->lock);
}

struct sampling {
    struct tt_lane_kind *kind;
    uint64_t since_ns;          /* time of the last sample */
    uint64_t posts, posted_bytes;
};

static void sample_lane(void *arg, const struct tt_wire_lane *l)
{
    struct sampling *s = arg;

    s->kind->lanes++;
    s->kind->up += l->is_up;
    s->kind->idle += s->kind->has_rates && l->is_up && !l->posted && l->last_post_ns < s->since_ns;
    s->kind->outstanding += l->outstanding;
    s->kind->outstanding_bytes += l->outstanding_bytes;
    if (s->kind->has_rates && l->depth > s->kind->depth)
        s->kind->depth = l->depth;
    s->posts += l->posts;
    s->posted_bytes += l->posted_bytes;
}

/* Returns the rate of a counter, or 0 if it is smaller than before: the counters of closed lanes
 * are no longer in the sum. */
static uint64_t rate_of(uint64_t now, uint64_t before, double interval_s)
{
    return now > before ? (uint64_t)((double)(now - before) / interval_s) : 0;
}

void tt_lane_board_sample(struct tt_engine *e, uint64_t now_ns)
{
    struct tt_lane_board *b = &e->lane_board;
    struct tt_lane_kind kind[TT_LANE_KINDS];
    const double interval_s = (double)(now_ns - b->sampled_ns) / TT_SECOND;
    const bool has_last = now_ns - b->sampled_ns < TT_LANE_VALID_NS;
    uint32_t n = 0;

    for (uint32_t i = 0; i < e->nwires && n < TT_LANE_KINDS; i++) {
        struct sampling s = { .kind = &kind[n], .since_ns = b->sampled_ns };

        if (!e->wire[i]->ops->lanes)
            continue;
        kind[n] = (struct tt_lane_kind){ .wire = e->wire[i]->ops->name, .has_rates = has_last };
        e->wire[i]->ops->lanes(e->wire[i], true, sample_lane, &s);
        if (has_last) {
            kind[n].posts_per_s = rate_of(s.posts, b->posts[n], interval_s);
            kind[n].bytes_per_s = rate_of(s.posted_bytes, b->posted_bytes[n], interval_s);
        }
        b->posts[n] = s.posts;
        b->posted_bytes[n++] = s.posted_bytes;
    }
    b->sampled_ns = now_ns;
    pthread_mutex_lock(&b->lock);
    memcpy(b->kind, kind, n * sizeof *kind);
    b->nkinds = n;
    b->shown_ns = now_ns;
    pthread_mutex_unlock(&b->lock);
}

uint32_t tt_engine_lanes(struct tt_engine *e, struct tt_lane_kind *out)
{
    struct tt_lane_board *b = &e->lane_board;
    const uint64_t now_ns = tt_now_ns();
    uint32_t n = 0;

    atomic_store_explicit(&b->wanted_ns, now_ns + TT_LANE_WANTED_NS, memory_order_relaxed);
    pthread_mutex_lock(&b->lock);
    if (b->shown_ns && now_ns < b->shown_ns + TT_LANE_VALID_NS) {
        n = b->nkinds;
        memcpy(out, b->kind, n * sizeof *out);
    }
    pthread_mutex_unlock(&b->lock);
    if (n == 0)
        tt_progress_kick(e);
    return n;
}
