/* The operations as a Chrome trace ("Trace Event Format"), which ui.perfetto.dev reads.
 *
 * Each rank is a process, whose first track has its operations as complete events ("X"). An
 * operation that begins before an earlier one has ended is on a further track, so that the slices
 * of a track nest. Slices within an operation show how long it was queued, and how long it waited
 * for the last caller. Flows ("s", "t", "f") lead from a send to its receive, and through the ranks
 * of a collective in the order of their calls. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/failed.h"
#include "tools/profile/profile.h"

#define TRACKS_MAX 256u             /* tracks of a rank */
#define DEPTH_MAX 4u                /* nested operations */
#define NOT_WRITTEN UINT16_MAX
#define LONGEST_NS ((int64_t)1 << 60)

struct track {
    int64_t ends[DEPTH_MAX];        /* ends of the open operations, the outermost first */
    uint32_t depth;
    bool has_room;                  /* operations may begin within the innermost one */
};

struct writer {
    const struct profiled *p;
    FILE *to;
    int64_t begin;                  /* time 0 of the trace */
    uint16_t *track;                /* [nops] track of an operation, or NOT_WRITTEN */
    uint32_t *order;                /* [nops] scratch */
    uint64_t nleft_out;             /* operations without a track */
    uint32_t nclocks;               /* ranks without a comparable clock */
    bool has_event;
};

/* ---- values ---- */

/* Strings in dumps are valid UTF-8 without control characters. */
static void put_string(FILE *to, const char *text)
{
    putc('"', to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putc('\\', to);
        putc(*text, to);
    }
    putc('"', to);
}

static void put_text(const struct writer *w, const char *key, uint32_t text)
{
    if (text == TT_INTERN_EMPTY)
        return;
    fprintf(w->to, ",\"%s\":", key);
    put_string(w->to, tt_dumps_text(&w->p->dumps, text));
}

/* Writes ns as a number of microseconds. */
static void put_us(const struct writer *w, const char *key, int64_t ns)
{
    fprintf(w->to, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

/* Begins an event of a rank. The caller writes further keys and "}". */
static void begin_event(struct writer *w, const char *phase, uint32_t rank, uint32_t track)
{
    fprintf(w->to, "%s{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", w->has_event ? ",\n" : "", phase,
            rank + 1, track + 1);
    w->has_event = true;
}

/* ---- slices ---- */

/* Returns the end of the slice of an operation, at least 1 ns after its call. */
static int64_t end_of(const struct writer *w, const struct tt_dumps_op *op)
{
    const int64_t end = op->ended == TT_DUMPS_NEVER ? w->p->dumps.ranks[op->rank].now : op->ended;

    return end > op->called ? end : op->called + 1;
}

static bool is_drawn(const struct writer *w, const struct tt_dumps_op *op)
{
    return w->p->dumps.ranks[op->rank].has_clock && op->called > -LONGEST_NS &&
           op->called < LONGEST_NS && end_of(w, op) < LONGEST_NS;
}

/* Writes the stages of a long operation as arguments. */
static void put_stage_times(struct writer *w, uint32_t i)
{
    double ns[TT_PROFILE_STAGES];
    char key[32];

    if (!tt_profile_stages_of(&w->p->instances, i, ns))
        return;
    for (int k = 0; k < TT_PROFILE_STAGES; k++) {
        snprintf(key, sizeof key, "%s_us", tt_profile_stage_name((enum tt_profile_stage)k));
        put_us(w, key, profile_ns(ns[k]));
    }
}

static void put_arguments(struct writer *w, uint32_t i)
{
    const struct tt_dumps *d = &w->p->dumps;
    const struct tt_dumps_op *op = &d->ops[i];
    char name[32];

    fprintf(w->to, ",\"args\":{\"comm\":");
    put_string(w->to, tt_dumps_comm_name(d, op->comm, name));
    fprintf(w->to, ",\"seq\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"count\":%" PRIu64, op->seq,
            op->bytes, op->count);
    put_text(w, "type", op->type);
    put_text(w, "redop", op->redop);
    put_text(w, "algorithm", op->algo);
    put_text(w, "status", op->status);
    put_text(w, "note", op->note);
    if (op->root != TT_DUMPS_NONE)
        fprintf(w->to, ",\"root\":%u", op->root);
    if (op->peer != TT_DUMPS_NONE)
        fprintf(w->to, ",\"peer\":%u", op->peer);
    if (op->class == TT_OP_P2P)
        fprintf(w->to, ",\"tag\":%" PRId64, op->tag);
    put_stage_times(w, i);
    fprintf(w->to, "}");
}

static void put_slice(struct writer *w, const struct tt_dumps_op *op, const char *name,
                      const char *category, int64_t ns)
{
    begin_event(w, "X", op->rank, w->track[op - w->p->dumps.ops]);
    put_us(w, "ts", op->called - w->begin);
    put_us(w, "dur", ns);
    fprintf(w->to, ",\"cat\":\"%s\",\"name\":", category);
    put_string(w->to, name);
}

/* Writes the stages, which begin with the operation: the longer one first, so that the other one
 * is within it. */
static void put_stages(struct writer *w, uint32_t i)
{
    const struct tt_dumps *d = &w->p->dumps;
    const struct tt_dumps_op *op = &d->ops[i];
    const int64_t whole = end_of(w, op) - op->called;
    int64_t waited = tt_instances_waited(&w->p->instances, i), queued = 0;
    char name[48] = "";

    if (op->started > op->called && op->started < LONGEST_NS)
        queued = op->started - op->called < whole ? op->started - op->called : whole;
    waited = waited < whole ? waited : whole;
    if (waited > 0)
        snprintf(name, sizeof name, "waits for rank %u",
                 d->ops[w->p->instances.list[w->p->instances.of[i]].last].rank);
    for (int turn = 0; turn < 2; turn++)
        if ((turn == 0) == (queued > waited) && queued > 0) {
            put_slice(w, op, "queued", "stage", queued);
            fprintf(w->to, "}");
        } else if ((turn == 0) == (queued <= waited) && waited > 0) {
            put_slice(w, op, name, "stage", waited);
            fprintf(w->to, "}");
        }
}

static void put_op(struct writer *w, uint32_t i)
{
    static const char *const categories[] = { [TT_OP_COLLECTIVE] = "collective",
                                              [TT_OP_P2P] = "p2p",
                                              [TT_OP_ONE_SIDED] = "one-sided",
                                              [TT_OP_SETUP] = "setup" };
    const struct tt_dumps_op *op = &w->p->dumps.ops[i];

    put_slice(w, op, tt_dumps_text(&w->p->dumps, op->kind), categories[op->class],
              end_of(w, op) - op->called);
    put_arguments(w, i);
    fprintf(w->to, "}");
    if (op->class != TT_OP_SETUP)
        put_stages(w, i);
}

/* ---- tracks ---- */

/* Finds a track on which an operation can begin. Only calls that make other operations, e.g.
 * comm_split, contain others. */
static uint32_t choose_track(struct track *tracks, uint32_t *ntracks, int64_t called, int64_t end,
                             bool has_room)
{
    for (uint32_t k = 0; k < TRACKS_MAX; k++) {
        struct track *t = &tracks[k];

        if (k == *ntracks)
            tracks[(*ntracks)++] = (struct track){ .depth = 0 };
        while (t->depth > 0 && t->ends[t->depth - 1] <= called) {
            t->depth--;
            t->has_room = true;     /* enclosing operations may contain others */
        }
        if (t->depth > 0 && (!t->has_room || t->depth == DEPTH_MAX || t->ends[t->depth - 1] < end))
            continue;
        t->ends[t->depth++] = end;
        t->has_room = has_room;
        return k;
    }
    return NOT_WRITTEN;
}

static int by_call(const void *x, const void *y, void *arg)
{
    const struct writer *w = arg;
    const struct tt_dumps_op *a = &w->p->dumps.ops[*(const uint32_t *)x];
    const struct tt_dumps_op *b = &w->p->dumps.ops[*(const uint32_t *)y];

    if (a->called != b->called)
        return a->called < b->called ? -1 : 1;
    if (end_of(w, a) != end_of(w, b))
        return end_of(w, a) > end_of(w, b) ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void put_name(struct writer *w, uint32_t rank, uint32_t track)
{
    begin_event(w, "M", rank, track);
    fprintf(w->to, ",\"name\":\"thread_name\",\"args\":{\"name\":\"operations%s", track ? " " : "");
    if (track)
        fprintf(w->to, "%u", track + 1);
    fprintf(w->to, "\"}}");
}

/* Names the process of a rank. */
static void put_process(struct writer *w, uint32_t rank)
{
    const struct tt_dumps *d = &w->p->dumps;

    begin_event(w, "M", rank, 0);
    fprintf(w->to, ",\"name\":\"process_name\",\"args\":{\"name\":\"rank %u\"}}", rank);
    begin_event(w, "M", rank, 0);
    fprintf(w->to, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}}", rank);
    begin_event(w, "M", rank, 0);
    fprintf(w->to, ",\"name\":\"process_labels\",\"args\":{\"labels\":");
    put_string(w->to, tt_dumps_text(d, d->ranks[rank].host));
    fprintf(w->to, "}}");
}

static void put_rank(struct writer *w, uint32_t rank)
{
    const struct tt_dumps_rank *r = &w->p->dumps.ranks[rank];
    struct track tracks[TRACKS_MAX];
    uint32_t ntracks = 0, n = 0;

    for (uint32_t k = 0; k < r->nops; k++)
        if (is_drawn(w, &w->p->dumps.ops[r->ops_first + k]))
            w->order[n++] = (uint32_t)r->ops_first + k;
    w->nleft_out += r->has_clock ? r->nops - n : 0;
    qsort_r(w->order, n, sizeof *w->order, by_call, w);
    put_process(w, rank);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = w->order[k], before = ntracks;
        const struct tt_dumps_op *op = &w->p->dumps.ops[i];

        w->track[i] = (uint16_t)choose_track(tracks, &ntracks, op->called, end_of(w, op),
                                             op->class == TT_OP_SETUP);
        if (ntracks > before)
            put_name(w, rank, before);
        if (w->track[i] == NOT_WRITTEN)
            w->nleft_out++;
        else
            put_op(w, i);
    }
}

/* ---- flows ---- */

static void put_flow(struct writer *w, const char *phase, uint32_t instance, uint32_t i, int64_t at)
{
    const struct tt_dumps_op *op = &w->p->dumps.ops[i];

    begin_event(w, phase, op->rank, w->track[i]);
    put_us(w, "ts", at - w->begin);
    fprintf(w->to, ",\"cat\":\"%s\",\"name\":\"%s\",\"id\":%u%s}",
            op->class == TT_OP_P2P ? "p2p" : "collective",
            op->class == TT_OP_P2P ? "message" : "collective", instance + 1,
            *phase == 'f' ? ",\"bp\":\"e\"" : "");
}

/* Writes the flow from a send to its receive, unless the receive ended before the send was
 * called. */
static void put_message(struct writer *w, uint32_t instance, uint32_t from, uint32_t to)
{
    const struct tt_dumps_op *send = &w->p->dumps.ops[from], *recv = &w->p->dumps.ops[to];
    const int64_t at = recv->called > send->called ? recv->called : send->called;

    if (at >= end_of(w, recv))
        return;
    put_flow(w, "s", instance, from, send->called);
    put_flow(w, "f", instance, to, at);
}

static void put_flows(struct writer *w, uint32_t instance)
{
    const struct tt_instance *x = &w->p->instances.list[instance];
    uint32_t n = 0;

    for (uint32_t k = 0; k < x->n; k++) {
        const uint32_t i = w->p->instances.order[x->first + k];

        if (w->track[i] != NOT_WRITTEN)
            w->order[n++] = i;
    }
    if (n < 2)
        return;
    if (x->is_message) {
        put_message(w, instance, w->order[0], w->order[1]);
        return;
    }
    qsort_r(w->order, n, sizeof *w->order, by_call, w);
    for (uint32_t k = 0; k < n; k++)
        put_flow(w,
                 k == 0      ? "s"
                 : k + 1 < n ? "t"
                             : "f",
                 instance, w->order[k], w->p->dumps.ops[w->order[k]].called);
}

/* ---- the file ---- */

static void find_begin(struct writer *w)
{
    const struct tt_dumps *d = &w->p->dumps;

    w->begin = INT64_MAX;
    for (size_t i = 0; i < d->nops; i++) {
        w->track[i] = NOT_WRITTEN;
        if (is_drawn(w, &d->ops[i]) && d->ops[i].called < w->begin)
            w->begin = d->ops[i].called;
    }
    for (uint32_t r = 0; r < d->nranks; r++)
        w->nclocks += d->ranks[r].has_dump && !d->ranks[r].has_clock;
}

static void put_all(struct writer *w)
{
    const struct tt_dumps *d = &w->p->dumps;

    find_begin(w);
    fprintf(w->to, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for (uint32_t r = 0; r < d->nranks; r++)
        if (d->ranks[r].has_dump && d->ranks[r].has_clock)
            put_rank(w, r);
    for (uint32_t i = 0; i < w->p->instances.n; i++)
        put_flows(w, i);
    fprintf(w->to, "\n],\"otherData\":{\"job\":");
    put_string(w->to, d->job);
    fprintf(w->to, ",\"tutti\":");
    put_string(w->to, d->version);
    fprintf(w->to, "}}\n");
}

static void print_left_out(const struct writer *w, const char *path)
{
    if (w->nclocks > 0)
        fprintf(stderr, "tutti profile: %s: %u ranks left out: their clocks are not comparable\n",
                path, w->nclocks);
    if (w->nleft_out > 0)
        fprintf(stderr,
                "tutti profile: %s: %" PRIu64
                " operations left out: no valid time, or more than %u at once\n",
                path, w->nleft_out, TRACKS_MAX);
}

bool profile_write_perfetto(const struct profiled *p, const char *path)
{
    struct writer w = { .p = p };
    bool failed;

    w.track = malloc((p->dumps.nops + 1) * sizeof *w.track);
    w.order = malloc((p->dumps.nops + 1) * sizeof *w.order);
    w.to = w.track && w.order ? fopen(path, "we") : NULL;
    failed = w.to == NULL;
    if (w.to) {
        put_all(&w);
        failed = ferror(w.to) != 0;
        failed |= fclose(w.to) != 0;
    }
    if (failed)
        fprintf(stderr, "tutti profile: cannot write %s: %s%s\n", path, strerror(errno),
                errno == EFBIG ? FILE_SIZE_HINT : "");
    else
        print_left_out(&w, path);
    free(w.track);
    free(w.order);
    return !failed;
}
