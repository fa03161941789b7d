#include "status/collect.h"

#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "boot/flood.h"

enum { QUERY = 1, TAKEN, ROWS, MORE, END, BUSY };

#define HEAD_BYTES 13u                  /* type, root, number */
#define QUERY_BYTES_MAX (HEAD_BYTES + 1 + 4 + 4 + 4 + 4 + 2 + TT_COLLECT_DIR_BYTES)
#define ROWS_BYTES (TT_OVERLAY_BYTES - HEAD_BYTES)
#define LEVELS 64u                      /* each level's deadline is 1/LEVELS of the time earlier */
#define ACK_MS_MIN 20u
#define NO_PARENT UINT32_MAX

_Static_assert(ROWS_BYTES >= TT_STATUS_ROWS_MIN, "a frame has room for every row");
_Static_assert(QUERY_BYTES_MAX <= TT_OVERLAY_BYTES, "a frame has room for every query");

/* State of a neighbour in a collection. */
enum link_state {
    LINK_ASKED,                         /* no sign of life yet */
    LINK_TAKEN,                         /* its report is awaited */
    LINK_DONE,                          /* it has reported, or has another parent */
    LINK_BUSY,
    LINK_SILENT                         /* no sign of life before ack_due_ns */
};

struct link {
    uint32_t peer;
    uint8_t state;
    uint32_t nrows;                     /* number of frames with rows */
};

struct tt_collection {
    uint32_t root, parent;
    uint64_t number;
    struct tt_collect_query query;
    uint32_t ack_ms, step_ms;
    uint64_t ack_due_ns, due_ns;
    uint32_t nlinks;
    struct link link[TT_OVERLAY_LINKS_MAX];
    struct tt_status_report report;
    bool drains;                        /* this rank is sending its report */
    struct tt_status_cursor at;
    uint32_t window;                    /* frames that this rank may send */
};

bool tt_collect_query_is_valid(const struct tt_collect_query *q)
{
    if (q->what >= TT_COLLECT_WHATS || !memchr(q->dir, 0, sizeof q->dir))
        return false;
    return !*q->dir || (q->what == TT_COLLECT_DUMP && *q->dir == '/');
}

void tt_collect_init(struct tt_collect *c, uint32_t rank, uint32_t nranks,
                     const struct tt_collect_ops *ops, void *arg)
{
    *c = (struct tt_collect){ .rank = rank, .nranks = nranks, .ops = ops, .arg = arg };
}

/* ---- the table ---- */

static struct tt_collection **find_collection(struct tt_collect *c, uint32_t root, uint64_t number)
{
    for (uint32_t i = 0; i < TT_COLLECT_MAX; i++)
        if (c->open[i] && c->open[i]->root == root && c->open[i]->number == number)
            return &c->open[i];
    return NULL;
}

static bool is_over(const struct tt_collect *c, uint32_t root, uint64_t number)
{
    for (uint32_t i = 0; i < TT_COLLECT_DONE_MAX; i++)
        if (c->over[i].number == number && c->over[i].root == root)
            return true;
    return false;
}

static struct tt_collection **add_collection(struct tt_collect *c, uint32_t root, uint64_t number)
{
    for (uint32_t i = 0; i < TT_COLLECT_MAX; i++) {
        if (c->open[i])
            continue;
        c->open[i] = calloc(1, sizeof *c->open[i]);
        if (!c->open[i])
            return NULL;
        c->open[i]->root = root;
        c->open[i]->number = number;
        tt_status_report_init(&c->open[i]->report);
        return &c->open[i];
    }
    return NULL;
}

static void end_collection(struct tt_collect *c, struct tt_collection **at)
{
    struct tt_collection *x = *at;

    *at = NULL;
    c->over[c->nover % TT_COLLECT_DONE_MAX].root = x->root;
    c->over[c->nover++ % TT_COLLECT_DONE_MAX].number = x->number;
    tt_status_report_fini(&x->report);
    free(x);
}

void tt_collect_fini(struct tt_collect *c)
{
    for (uint32_t i = 0; i < TT_COLLECT_MAX; i++)
        if (c->open[i])
            end_collection(c, &c->open[i]);
}

size_t tt_collect_bytes(const struct tt_collect *c)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < TT_COLLECT_MAX; i++)
        if (c->open[i])
            bytes += sizeof *c->open[i] - sizeof c->open[i]->report +
                     tt_status_report_bytes(&c->open[i]->report);
    return bytes;
}

/* ---- frames ---- */

static void write_frame_head(struct tt_writer *w, uint8_t *frame, size_t cap, uint8_t type,
                             uint32_t root, uint64_t number)
{
    tt_writer_init(w, frame, cap);
    tt_write_u8(w, type);
    tt_write_u32(w, root);
    tt_write_u64(w, number);
}

static bool send_short(struct tt_collect *c, uint32_t to, uint8_t type, uint32_t root,
                       uint64_t number)
{
    uint8_t frame[HEAD_BYTES];
    struct tt_writer w;

    write_frame_head(&w, frame, sizeof frame, type, root, number);
    return c->ops->send(c->arg, to, frame, HEAD_BYTES);
}

/* The receiver's deadlines are relative to the receipt, and one level earlier. */
static bool send_query(struct tt_collect *c, const struct tt_collection *x, uint32_t to,
                       uint64_t now_ns)
{
    const uint64_t left_ns = x->due_ns > now_ns ? x->due_ns - now_ns : 0;
    const uint64_t left_ms = left_ns / TT_MS;
    uint8_t frame[QUERY_BYTES_MAX];
    struct tt_writer w;

    write_frame_head(&w, frame, sizeof frame, QUERY, x->root, x->number);
    tt_write_u8(&w, x->query.what);
    tt_write_u32(&w, x->query.target);
    tt_write_u32(&w, x->ack_ms);
    tt_write_u32(&w, x->step_ms);
    tt_write_u32(&w, left_ms > x->step_ms ? (uint32_t)(left_ms - x->step_ms) : 0);
    tt_write_string(&w, x->query.dir);
    tt_assert(!w.bad);
    return c->ops->send(c->arg, to, frame, (uint16_t)tt_writer_bytes(&w));
}

/* ---- completion of a rank's part ---- */

static bool is_waiting(const struct tt_collection *x)
{
    for (uint32_t i = 0; i < x->nlinks; i++)
        if (x->link[i].state == LINK_ASKED || x->link[i].state == LINK_TAKEN)
            return true;
    return false;
}

/* Adds the states of this rank's neighbours. */
static void report_neighbours(struct tt_collect *c, struct tt_collection *x)
{
    for (uint32_t i = 0; i < x->nlinks; i++) {
        const struct link *l = &x->link[i];

        if (l->state == LINK_SILENT || l->state == LINK_ASKED)
            tt_status_add_rank(&x->report, TT_STATUS_SILENT, l->peer, 1);
        else if (l->state != LINK_DONE)
            tt_status_add_rank(&x->report, TT_STATUS_LATE, l->peer, 1);
    }
    for (uint32_t i = 0, all[TT_FLOOD_LINKS_MAX], n = tt_flood_neighbours(c->rank, c->nranks, all);
         i < n; i++) {
        bool up = all[i] == x->parent || c->ops->is_lost(c->arg, all[i]);

        for (uint32_t k = 0; k < x->nlinks && !up; k++)
            up = x->link[k].peer == all[i];
        if (!up)
            tt_status_add_rank(&x->report, TT_STATUS_LEFT, all[i], 1);
    }
}

static bool is_listed(const struct tt_status_report *r, uint32_t rank)
{
    for (uint32_t list = 0; list < TT_STATUS_LISTS; list++)
        if (tt_status_has_rank(r, (enum tt_status_list)list, rank))
            return true;
    return false;
}

/* Returns whether a rank is silent: all its neighbours that can report list it as such. Otherwise
 * it has answered one of them. */
static bool is_silent(const struct tt_collect *c, const struct tt_status_report *r, uint32_t i)
{
    const struct tt_status_ranks *silent = &r->lists[TT_STATUS_SILENT];
    uint32_t all[TT_FLOOD_LINKS_MAX], unable = 0;
    const uint32_t n = tt_flood_neighbours(silent->rank[i], c->nranks, all);

    for (uint32_t k = 0; k < n; k++)
        unable += is_listed(r, all[k]);
    return silent->reports[i] + unable >= n;
}

/* Completes the lists of the whole job. */
static void report_job(struct tt_collect *c, struct tt_status_report *r)
{
    struct tt_status_ranks *silent = &r->lists[TT_STATUS_SILENT];
    bool answers[TT_STATUS_RANKS_MAX];
    uint32_t kept = 0;

    for (uint32_t rank = 0; rank < c->nranks; rank++)
        if (c->ops->is_lost(c->arg, rank))
            tt_status_add_rank(r, TT_STATUS_LOST, rank, 1);
    for (uint32_t i = 0; i < silent->n; i++)
        answers[i] = !is_silent(c, r, i);
    for (uint32_t i = 0; i < silent->n; i++) {
        if (answers[i])
            tt_status_add_rank(r, TT_STATUS_LATE, silent->rank[i], 1);
        else
            silent->rank[kept++] = silent->rank[i];
    }
    silent->n = kept;
    /* all ranks have responded after all: some reports took another path */
    if (r->nreported >= c->nranks)
        silent->n = r->lists[TT_STATUS_LATE].n = 0;
}

/* Sends rows while the window permits. Returns whether the report is complete, or cannot be
 * sent. */
static bool drain(struct tt_collect *c, struct tt_collection *x)
{
    uint8_t frame[TT_OVERLAY_BYTES];
    struct tt_writer w;

    while (x->window > 0) {
        size_t bytes;

        write_frame_head(&w, frame, sizeof frame, ROWS, x->root, x->number);
        bytes = tt_status_write(&x->report, &x->at, frame + HEAD_BYTES, ROWS_BYTES);
        if (bytes == 0) {
            send_short(c, x->parent, END, x->root, x->number);
            return true;
        }
        if (!c->ops->send(c->arg, x->parent, frame, (uint16_t)(HEAD_BYTES + bytes)))
            return true;
        x->window--;
    }
    return false;
}

/* Completes this rank's part if it awaits nothing any more. */
static void settle(struct tt_collect *c, struct tt_collection **at)
{
    struct tt_collection *x = *at;

    if (x->drains || is_waiting(x))
        return;
    report_neighbours(c, x);
    if (x->parent == NO_PARENT) {
        report_job(c, &x->report);
        *at = NULL;             /* `done` may begin another collection */
        c->ops->done(c->arg, &x->report);
        *at = x;
        end_collection(c, at);
        return;
    }
    x->drains = true;
    x->window = TT_COLLECT_WINDOW;
    if (drain(c, x))
        end_collection(c, at);
}

/* ---- beginning ---- */

static void query_neighbours(struct tt_collect *c, struct tt_collection *x, uint64_t now_ns)
{
    uint32_t peers[TT_OVERLAY_LINKS_MAX];
    const uint32_t n = c->ops->neighbours(c->arg, peers);

    for (uint32_t i = 0; i < n; i++) {
        struct link *l = &x->link[x->nlinks];

        if (peers[i] == x->parent)
            continue;
        *l = (struct link){ .peer = peers[i], .state = LINK_ASKED };
        x->nlinks++;
        if (!send_query(c, x, peers[i], now_ns))
            l->state = LINK_DONE;
    }
    x->report.nreported = 1;
    x->query.number = x->number * c->nranks + x->root;
    c->ops->snapshot(c->arg, &x->query, &x->report);
}

bool tt_collect_begin(struct tt_collect *c, const struct tt_collect_query *q, uint64_t now_ns)
{
    struct tt_collection **at, *x;

    tt_assert(q->timeout_ms > 0 && q->timeout_ms <= TT_COLLECT_MS_MAX);
    for (uint32_t i = 0; i < TT_COLLECT_MAX; i++)
        if (c->open[i] && c->open[i]->root == c->rank)
            return false;
    at = add_collection(c, c->rank, c->number + 1);
    if (!at)
        return false;
    x = *at;
    c->number++;
    x->parent = NO_PARENT;
    x->query = *q;
    x->step_ms = q->timeout_ms / LEVELS;
    x->ack_ms = q->timeout_ms / 4 > ACK_MS_MIN ? q->timeout_ms / 4 : ACK_MS_MIN;
    x->due_ns = now_ns + q->timeout_ms * TT_MS;
    x->ack_due_ns = now_ns + x->ack_ms * TT_MS;
    query_neighbours(c, x, now_ns);
    settle(c, at);
    return true;
}

/* ---- received frames ---- */

static struct link *link_of(struct tt_collection *x, uint32_t peer)
{
    for (uint32_t i = 0; i < x->nlinks; i++)
        if (x->link[i].peer == peer)
            return &x->link[i];
    return NULL;
}

/* Handles a query for a collection in which this rank already takes part: the sender has another
 * parent. If the sender was busy when this rank queried it, it does not know that this rank takes
 * part, and gets END. */
static void handle_crossing(struct tt_collect *c, struct tt_collection **at, uint32_t from)
{
    struct link *l = link_of(*at, from);

    if (l && l->state == LINK_BUSY)
        send_short(c, from, END, (*at)->root, (*at)->number);
    if (l && l->state != LINK_TAKEN)
        l->state = LINK_DONE;
    settle(c, at);
}

/* A root has one collection at a time, so a newer one ends the older ones. */
static void end_older(struct tt_collect *c, uint32_t root, uint64_t number)
{
    for (uint32_t i = 0; i < TT_COLLECT_MAX; i++)
        if (c->open[i] && c->open[i]->root == root && c->open[i]->number < number)
            end_collection(c, &c->open[i]);
}

static bool handle_query(struct tt_collect *c, uint32_t from, uint32_t root, uint64_t number,
                         struct tt_reader *r, uint64_t now_ns)
{
    struct tt_collect_query q = { .what = tt_read_u8(r) };
    struct tt_collection **at = find_collection(c, root, number), *x;
    uint32_t ack_ms, step_ms, left_ms;

    q.target = tt_read_u32(r);
    ack_ms = tt_read_u32(r);
    step_ms = tt_read_u32(r);
    left_ms = tt_read_u32(r);
    tt_read_string(r, q.dir, sizeof q.dir);
    q.timeout_ms = left_ms;
    if (r->bad || r->at != r->end || !tt_collect_query_is_valid(&q) || root >= c->nranks ||
        number == 0 || left_ms > TT_COLLECT_MS_MAX || ack_ms > TT_COLLECT_MS_MAX ||
        step_ms > TT_COLLECT_MS_MAX)
        return false;
    if (at)
        handle_crossing(c, at, from);
    if (!at && (is_over(c, root, number) || root == c->rank))
        send_short(c, from, END, root, number);
    if (at || is_over(c, root, number) || root == c->rank)
        return true;
    end_older(c, root, number);
    at = add_collection(c, root, number);
    if (!at) {
        send_short(c, from, BUSY, root, number);
        return true;
    }
    x = *at;
    x->parent = from;
    x->query = q;
    x->ack_ms = ack_ms;
    x->step_ms = step_ms;
    x->due_ns = now_ns + left_ms * TT_MS;
    x->ack_due_ns = now_ns + ack_ms * TT_MS;
    send_short(c, from, TAKEN, root, number);
    query_neighbours(c, x, now_ns);
    settle(c, at);
    return true;
}

/* Returns false if the rows are invalid. */
static bool handle_rows(struct tt_collect *c, struct tt_collection *x, struct link *l,
                        struct tt_reader *r)
{
    if (!tt_status_merge(&x->report, r->at, (size_t)(r->end - r->at)))
        return false;
    if (++l->nrows % TT_COLLECT_WINDOW == 0)
        send_short(c, l->peer, MORE, x->root, x->number);
    return true;
}

/* Handles a frame from a neighbour that this rank has queried. */
static bool handle_answer(struct tt_collect *c, struct tt_collection **at, uint32_t from,
                          uint8_t type, struct tt_reader *r)
{
    struct tt_collection *x = *at;
    struct link *l = x->drains ? NULL : link_of(x, from);

    if (!l)
        return true;            /* too late */
    if (type == TAKEN && (l->state == LINK_ASKED || l->state == LINK_SILENT))
        l->state = LINK_TAKEN;
    else if (type == END && (l->state == LINK_ASKED || l->state == LINK_SILENT))
        l->state = LINK_DONE;   /* it already takes part, with another parent */
    else if (type == BUSY && l->state != LINK_TAKEN)
        l->state = LINK_BUSY;
    else if (l->state != LINK_TAKEN || type == TAKEN || type == BUSY)
        return type == BUSY || type == TAKEN;
    else if (type == END)
        l->state = LINK_DONE;
    else if (!handle_rows(c, x, l, r))
        return false;
    settle(c, at);
    return true;
}

bool tt_collect_receive(struct tt_collect *c, uint32_t from, const void *data, size_t bytes,
                        uint64_t now_ns)
{
    struct tt_collection **at;
    struct tt_reader r;
    uint64_t number;
    uint32_t root;
    uint8_t type;

    tt_reader_init(&r, data, bytes);
    type = tt_read_u8(&r);
    root = tt_read_u32(&r);
    number = tt_read_u64(&r);
    if (r.bad || type < QUERY || type > BUSY || (type != QUERY && type != ROWS && r.at != r.end))
        return false;
    if (type == QUERY)
        return handle_query(c, from, root, number, &r, now_ns);
    at = find_collection(c, root, number);
    if (!at)
        return true;            /* the collection is over here */
    if (type != MORE)
        return handle_answer(c, at, from, type, &r);
    if (!(*at)->drains || (*at)->parent != from)
        return false;
    (*at)->window = TT_COLLECT_WINDOW;
    if (drain(c, *at))
        end_collection(c, at);
    return true;
}

void tt_collect_lose(struct tt_collect *c, uint32_t rank)
{
    for (uint32_t i = 0; i < TT_COLLECT_MAX; i++) {
        struct tt_collection *x = c->open[i];
        struct link *l = x ? link_of(x, rank) : NULL;

        if (x && x->parent == rank) {
            end_collection(c, &c->open[i]);
        } else if (l) {
            l->state = LINK_DONE;
            settle(c, &c->open[i]);
        }
    }
}

/* ---- time ---- */

/* Returns the time at which the state of a collection changes without a frame. */
static uint64_t collection_due(const struct tt_collection *x)
{
    if (x->drains)              /* the parent is gone, or waits for its own deadline */
        return x->due_ns + TT_COLLECT_WINDOW * x->step_ms * TT_MS + TT_SECOND;
    for (uint32_t i = 0; i < x->nlinks; i++)
        if (x->link[i].state == LINK_ASKED)
            return x->ack_due_ns < x->due_ns ? x->ack_due_ns : x->due_ns;
    return x->due_ns;
}

/* Handles deadlines: neighbours without a sign of life are silent, and missing reports are no
 * longer awaited. */
static void expire(struct tt_collection *x, uint64_t now_ns)
{
    for (uint32_t i = 0; i < x->nlinks; i++) {
        struct link *l = &x->link[i];

        if (l->state == LINK_ASKED && (now_ns >= x->ack_due_ns || now_ns >= x->due_ns))
            l->state = LINK_SILENT;
        else if (l->state == LINK_TAKEN && now_ns >= x->due_ns)
            l->state = LINK_BUSY;
    }
}

void tt_collect_tick(struct tt_collect *c, uint64_t now_ns)
{
    for (uint32_t i = 0; i < TT_COLLECT_MAX; i++) {
        struct tt_collection *x = c->open[i];

        if (!x || now_ns < collection_due(x))
            continue;
        if (x->drains) {
            end_collection(c, &c->open[i]);
            continue;
        }
        expire(x, now_ns);
        settle(c, &c->open[i]);
    }
}

uint64_t tt_collect_due(const struct tt_collect *c)
{
    uint64_t due_ns = TT_COLLECT_NEVER;

    for (uint32_t i = 0; i < TT_COLLECT_MAX; i++)
        if (c->open[i] && collection_due(c->open[i]) < due_ns)
            due_ns = collection_due(c->open[i]);
    return due_ns;
}
