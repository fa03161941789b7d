/* Annotations, peers, lanes and departures of a dump. */
#include <string.h>

#include "analyze/dump_reading.h"
#include "analyze/grow.h"

#define LANES_MAX (1u << 20)            /* per dump */
#define NOTE_BYTES 104

void tt_read_note(struct tt_reading *g, struct tt_line *l)
{
    struct tt_line_text key;
    uint64_t number;
    uint32_t text = TT_INTERN_EMPTY;
    int64_t at = TT_DUMPS_NEVER;

    if (!tt_line_u64(l, &number))
        return;
    while (tt_line_key(l, &key))
        if (tt_line_is(&key, "at"))
            at = tt_reading_time(g, l);
        else if (tt_line_is(&key, "text"))
            text = tt_reading_text_of(g, l, NOTE_BYTES);
        else
            tt_line_skip(l);
    if (!tt_line_end(l))
        return;
    g->notes[g->nnotes % TT_READING_NOTES].number = number;
    g->notes[g->nnotes++ % TT_READING_NOTES].text = text;
    g->rank->note = text;
    g->rank->note_at = at;
}

static uint8_t state_of(struct tt_line *l)
{
    struct tt_line_text t;

    if (tt_line_null(l) || !tt_line_string(l, &t))
        return TT_PEER_UNKNOWN;
    return tt_line_is(&t, "alive")    ? TT_PEER_ALIVE
           : tt_line_is(&t, "silent") ? TT_PEER_SILENT
           : tt_line_is(&t, "lost")   ? TT_PEER_LOST
                                      : TT_PEER_UNKNOWN;
}

/* Keeps reports of silent and lost peers; only counts reports of other peers. */
static void keep_report(struct tt_reading *g, const struct tt_dumps_report *p)
{
    struct tt_dumps *d = g->d;
    struct tt_dumps_rank *about = tt_reading_rank(g, p->about);

    if (g->rank->has_clock && p->last_heard != TT_DUMPS_NEVER && p->last_heard > about->heard)
        about->heard = p->last_heard;
    about->nalive += p->state == TT_PEER_ALIVE;
    if (p->state != TT_PEER_SILENT && p->state != TT_PEER_LOST)
        return;
    if (d->nreports - g->reports_first > d->nranks)
        return;
    if (tt_grow(&d->reports, &d->cap_reports, d->nreports, sizeof *d->reports))
        d->reports[d->nreports++] = *p;
    else
        tt_reading_no_memory(g);
}

void tt_read_peer(struct tt_reading *g, struct tt_line *l)
{
    struct tt_dumps_report p = {
        .by = g->number,
        .last_heard = TT_DUMPS_NEVER,
        .last_progress = TT_DUMPS_NEVER,
        .state = TT_PEER_UNKNOWN,
    };
    struct tt_line_text key;

    p.about = tt_reading_rank_number(g, l);
    while (tt_line_key(l, &key))
        if (tt_line_is(&key, "wire"))
            p.wire = tt_reading_text(g, l);
        else if (tt_line_is(&key, "state"))
            p.state = state_of(l);
        else if (tt_line_is(&key, "last_heard"))
            p.last_heard = tt_reading_time(g, l);
        else if (tt_line_is(&key, "last_progress"))
            p.last_progress = tt_reading_time(g, l);
        else
            tt_line_skip(l);
    if (tt_line_end(l) && p.about != TT_DUMPS_NONE && p.about != g->number)
        keep_report(g, &p);
}

static void lane_member(struct tt_reading *g, struct tt_line *l, const struct tt_line_text *key,
                        struct tt_dumps_lane *p)
{
    if (tt_line_is(key, "peer"))
        p->peer = tt_reading_rank_number(g, l);
    else if (tt_line_is(key, "wire"))
        p->wire = tt_reading_text(g, l);
    else if (tt_line_is(key, "state"))
        p->state = tt_reading_text(g, l);
    else if (tt_line_is(key, "posts"))
        p->posts = tt_reading_u64(l);
    else if (tt_line_is(key, "completions"))
        p->completions = tt_reading_u64(l);
    else if (tt_line_is(key, "posted_bytes"))
        p->posted_bytes = tt_reading_u64(l);
    else if (tt_line_is(key, "completed_bytes"))
        p->completed_bytes = tt_reading_u64(l);
    else if (tt_line_is(key, "last_post"))
        p->last_post = tt_reading_time(g, l);
    else if (tt_line_is(key, "last_completion"))
        p->last_completion = tt_reading_time(g, l);
    else
        tt_line_skip(l);
}

void tt_read_lane(struct tt_reading *g, struct tt_line *l)
{
    struct tt_dumps *d = g->d;
    struct tt_dumps_lane p = { .rank = g->number,
                               .peer = TT_DUMPS_NONE,
                               .last_post = TT_DUMPS_NEVER,
                               .last_completion = TT_DUMPS_NEVER };
    struct tt_line_text key;

    p.lane = tt_reading_u32(l);
    while (tt_line_key(l, &key))
        lane_member(g, l, &key, &p);
    if (!tt_line_end(l) || p.peer == TT_DUMPS_NONE || p.peer == g->number ||
        (p.posts <= p.completions && strcmp(tt_dumps_text(d, p.state), "up") == 0) ||
        d->nlanes - g->lanes_first > LANES_MAX)
        return;
    if (tt_grow(&d->lanes, &d->cap_lanes, d->nlanes, sizeof *d->lanes))
        d->lanes[d->nlanes++] = p;
    else
        tt_reading_no_memory(g);
}

/* ---- departures ---- */

struct departure {
    uint32_t about;
    uint64_t epoch;
    int64_t at, replaced;
    uint8_t why;                /* enum tt_departed */
    bool has_left;              /* in an orderly way */
    bool is_away;               /* the next view is without it */
    bool is_of_job;             /* of the run from which the dumps are */
};

static void departure_why(struct tt_line *l, struct departure *x)
{
    struct tt_line_text t;

    if (tt_line_null(l) || !tt_line_string(l, &t))
        return;
    x->has_left = tt_line_is(&t, "left");
    x->is_away = tt_line_is(&t, "view");
    for (uint8_t i = TT_DEPARTED_DIED; i < TT_DEPARTED_OTHER; i++)
        if (tt_line_is(&t, tt_dumps_departed_word(i)))
            x->why = i;
}

static bool is_job(const struct tt_dumps *d, struct tt_line *l)
{
    struct tt_line_text t;
    char run[sizeof d->job];

    if (tt_line_null(l) || !tt_line_string(l, &t))
        return false;
    tt_line_copy(&t, run, sizeof run);
    return strcmp(run, d->job) == 0;
}

/* Returns whether the departure can be the cause of the failure that this dump shows: it happened
 * before the failure, and no view without the member was in use yet. All times are of one
 * process. */
static bool is_before_failure(const struct tt_reading *g, const struct departure *x)
{
    if (g->rank->failed == TT_DUMPS_NEVER)
        return x->replaced == TT_DUMPS_NEVER;
    return x->at != TT_DUMPS_NEVER && x->at <= g->rank->failed &&
           (x->replaced == TT_DUMPS_NEVER || x->replaced >= g->rank->failed);
}

/* Records an absence. A member of an incomplete replica group may return with the same ID, so only
 * the latest view is used. */
static void keep_absence(const struct tt_reading *g, const struct departure *x,
                         struct tt_dumps_rank *about)
{
    about->away_by = g->number + 1;
    if (x->epoch < about->away_epoch)
        return;
    if (x->epoch > about->away_epoch)
        about->has_left = about->is_away = false;
    about->away_epoch = x->epoch;
    about->has_left |= x->has_left;
    about->is_away |= x->is_away;
}

static void keep_departure(struct tt_reading *g, const struct departure *x)
{
    struct tt_dumps_rank *about = tt_reading_rank(g, x->about);

    if (x->has_left || x->is_away) {
        keep_absence(g, x, about);
        return;
    }
    if (x->epoch > about->lost_epoch)
        about->lost_epoch = x->epoch;
    if (!is_before_failure(g, x))
        return;
    about->departed = about->departed == TT_DEPARTED_NOT || about->departed == x->why
                          ? x->why
                          : TT_DEPARTED_OTHER;
    about->departed_epoch = x->epoch;
    about->ndeparted++;
}

void tt_read_departure(struct tt_reading *g, struct tt_line *l)
{
    struct departure x = { .at = TT_DUMPS_NEVER,
                           .replaced = TT_DUMPS_NEVER,
                           .why = TT_DEPARTED_OTHER };
    struct tt_line_text key;

    x.about = tt_reading_rank_number(g, l);
    while (tt_line_key(l, &key))
        if (tt_line_is(&key, "run"))
            x.is_of_job = is_job(g->d, l);
        else if (tt_line_is(&key, "epoch"))
            x.epoch = tt_reading_u64(l);
        else if (tt_line_is(&key, "why"))
            departure_why(l, &x);
        else if (tt_line_is(&key, "at"))
            x.at = tt_reading_time(g, l);
        else if (tt_line_is(&key, "replaced"))
            x.replaced = tt_reading_time(g, l);
        else
            tt_line_skip(l);
    if (tt_line_end(l) && g->d->is_elastic && x.is_of_job && x.about != TT_DUMPS_NONE &&
        x.about != g->number)
        keep_departure(g, &x);
}
