#include "trace/dump_write.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "trace/comms.h"
#include "trace/departures.h"
#include "trace/dump_store.h"
#include "trace/notes.h"
#include "trace/oplog.h"
#include "trace/stages.h"
#include "trace/view.h"

#define BUFFER_BYTES (64u << 10)
#define LINE_BYTES_MAX 1024u        /* of one file_print, without texts */

/* ---- output ---- */

struct dump_file {
    int fd, err;                /* err: of the first failed write */
    uint32_t used;
    uint64_t lines;
    char buffer[BUFFER_BYTES];
};

static void file_flush(struct dump_file *f)
{
    uint32_t at = 0;

    while (at < f->used && !f->err) {
        const ssize_t n = write(f->fd, f->buffer + at, f->used - at);

        if (n > 0)
            at += (uint32_t)n;
        else if (n < 0 && errno != EINTR)
            f->err = errno;
        else if (n == 0)
            f->err = EIO;
    }
    f->used = 0;
}

static void file_print(struct dump_file *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void file_print(struct dump_file *f, const char *fmt, ...)
{
    va_list ap;
    int n;

    if (BUFFER_BYTES - f->used < LINE_BYTES_MAX)
        file_flush(f);
    va_start(ap, fmt);
    n = vsnprintf(f->buffer + f->used, LINE_BYTES_MAX, fmt, ap);
    va_end(ap);
    if (n > 0)
        f->used += n < (int)LINE_BYTES_MAX ? (uint32_t)n : LINE_BYTES_MAX - 1;
}

static void file_put(struct dump_file *f, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const size_t room = BUFFER_BYTES - f->used, n = bytes < room ? bytes : room;

        memcpy(f->buffer + f->used, text, n);
        f->used += (uint32_t)n;
        text += n;
        bytes -= n;
        if (f->used == BUFFER_BYTES)
            file_flush(f);
    }
}

static void file_end_line(struct dump_file *f)
{
    file_put(f, "}\n", 2);
    f->lines++;
}

/* Returns the length of the valid UTF-8 character at s, or 0. */
static size_t utf8_length(const unsigned char *s)
{
    const size_t n = s[0] < 0x80                    ? 1
                     : s[0] >= 0xc2 && s[0] < 0xe0  ? 2
                     : s[0] >= 0xe0 && s[0] < 0xf0  ? 3
                     : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                    : 0;

    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* Prints a JSON string. Bytes that are not UTF-8 become "?". NULL: null. */
static void file_string(struct dump_file *f, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    if (!text) {
        file_put(f, "null", 4);
        return;
    }
    file_put(f, "\"", 1);
    for (size_t n; *s; s += n ? n : 1) {
        n = utf8_length(s);
        if (*s == '"' || *s == '\\')
            file_print(f, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            file_print(f, "\\u%04x", *s);
        else if (n == 0)
            file_put(f, "?", 1);
        else
            file_put(f, (const char *)s, n);
    }
    file_put(f, "\"", 1);
}

static void file_key(struct dump_file *f, const char *key, const char *text)
{
    file_print(f, ",\"%s\":", key);
    file_string(f, text);
}

/* Prints a number of at least 0, or null. */
static void file_number(struct dump_file *f, const char *key, int64_t value)
{
    if (value < 0)
        file_print(f, ",\"%s\":null", key);
    else
        file_print(f, ",\"%s\":%" PRId64, key, value);
}

/* Prints a time in nanoseconds; 0: null. */
static void file_time(struct dump_file *f, const char *key, uint64_t ns)
{
    if (ns)
        file_print(f, ",\"%s\":%" PRIu64, key, ns);
    else
        file_print(f, ",\"%s\":null", key);
}

static void file_hash(struct dump_file *f, const char *key, uint64_t hash)
{
    if (hash)
        file_print(f, "\"%s\":\"%016" PRIx64 "\"", key, hash);
    else
        file_print(f, "\"%s\":null", key);
}

/* ---- lines ---- */

static uint64_t unix_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * TT_SECOND + (uint64_t)ts.tv_nsec;
}

static void write_head(struct dump_file *f, const struct tt_dump_head *h,
                       const struct tt_dump_state *s, uint64_t lost)
{
    char host[HOST_NAME_MAX + 1] = "";

    gethostname(host, sizeof host - 1);
    file_print(f, "{\"tutti_trace\":1,\"version\":\"%s\",", tutti_version());
    file_hash(f, "job", h->job);
    file_print(f, ",\"rank\":%" PRIu64 ",\"ranks\":%u", h->rank, h->nranks);
    file_key(f, "host", host);
    file_print(f, ",\"pid\":%d", (int)getpid());
    file_key(f, "reason", h->reason);
    file_key(f, "message", h->message);
    file_print(f, ",\"now\":%" PRIu64 ",\"wall_ns\":%" PRIu64, tt_now_ns(), unix_ns());
    file_time(f, "failed", h->failed_ns);
    file_print(f, ",\"clock\":{");
    if (s->clock_known)
        file_print(f, "\"offset_ns\":%" PRId64 ",\"error_ns\":%" PRIu64 "}", s->offset_ns,
                   s->error_ns);
    else
        file_print(f, "\"offset_ns\":null,\"error_ns\":null}");
    file_print(f, ",\"records\":%u,\"lost\":%" PRIu64, tt_oplog_depth(), lost);
    file_end_line(f);
}

static void write_comm(struct dump_file *f, const struct tt_comms_entry *e)
{
    static const char *const of[] = {
        [TT_COMMS_COMM] = "comm", [TT_COMMS_WINDOW] = "window", [TT_COMMS_RUN] = "run"
    };

    file_print(f, "{");
    file_hash(f, "comm", e->hash);
    file_key(f, "name", e->name);
    file_print(f, ",\"of\":\"%s\",\"rank\":%u,\"ranks\":%u,\"open\":%s", of[e->of], e->rank,
               e->nranks, e->open ? "true" : "false");
    file_key(f, "members", e->members);
    file_end_line(f);
}

/* Writes the open communicators, and those to which a record refers. */
static void write_comms(struct dump_file *f, const struct tt_oplog_record *records, uint32_t n)
{
    uint8_t *used = calloc(TT_COMMS_MAX, 1);
    struct tt_comms_entry e;

    for (uint32_t i = 0; i < n && used; i++)
        used[records[i].call.comm % TT_COMMS_MAX] = 1;
    for (uint32_t i = 1; i < TT_COMMS_MAX && tt_comms_get((uint16_t)i, true, &e); i++) {
        if (e.open || !used || used[i])
            write_comm(f, &e);
        free(e.members);
    }
    free(used);
}

static void write_notes(struct dump_file *f)
{
    struct tt_note *notes = malloc(TT_NOTES_MAX * sizeof *notes);
    const uint32_t n = notes ? tt_note_read(notes) : 0;

    for (uint32_t i = 0; i < n; i++) {
        file_print(f, "{\"note\":%" PRIu64 ",\"at\":%" PRIu64, notes[i].number,
                   tt_tick_to_ns(notes[i].at));
        file_key(f, "text", notes[i].text);
        file_end_line(f);
    }
    free(notes);
}

static void write_departures(struct dump_file *f)
{
    struct tt_departure *list = malloc(TT_DEPARTURES_MAX * sizeof *list);
    const uint32_t n = list ? tt_departures_read(list) : 0;

    for (uint32_t i = 0; i < n; i++) {
        file_print(f, "{\"departed\":%" PRIu64 ",", list[i].member);
        file_hash(f, "run", list[i].run);
        file_print(f, ",\"epoch\":%" PRIu64 ",\"why\":\"%s\",\"at\":%" PRIu64, list[i].epoch,
                   tt_departure_why_name(list[i].why), list[i].at_ns);
        file_time(f, "replaced", list[i].replaced_ns);
        file_end_line(f);
    }
    free(list);
}

static void write_flow(struct dump_file *f, const struct tt_dump_flow *w, const char *comma)
{
    const struct {
        const char *key;
        uint64_t tick, bytes;   /* bytes: 0: none, or only the last time is known */
    } times[] = { { "first_out", w->first_out, 0 },
                  { "last_out", w->last_out, w->sent },
                  { "first_in", w->first_in, 0 },
                  { "last_in", w->last_in, w->received } };

    file_print(f, "%s{\"rank\":%u,\"sent\":%" PRIu64 ",\"received\":%" PRIu64, comma, w->rank,
               w->sent, w->received);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        const bool is_moved = !times[i].tick && times[i].bytes > 0;

        file_time(f, times[i].key,
                  times[i].tick ? tt_tick_to_ns(times[i].tick)
                  : is_moved    ? w->moved
                                : 0);
    }
    file_print(f, "}");
}

static const char *waits_name(enum tt_dump_waits w)
{
    static const char *const names[] = {
        [TT_DUMP_WAITS_NONE] = NULL,
        [TT_DUMP_WAITS_START] = "start",
        [TT_DUMP_WAITS_DATA] = "data",
        [TT_DUMP_WAITS_CREDIT] = "credit",
        [TT_DUMP_WAITS_CTS] = "cts",
        [TT_DUMP_WAITS_COMPLETION] = "completion",
        [TT_DUMP_WAITS_MATCH] = "match",
    };

    return names[w];
}

static void write_progress(struct dump_file *f, const struct tt_dump_op *p,
                           const struct tt_dump_state *s)
{
    if (p && p->waits_known)
        file_time(f, "waited", p->waited);
    if (p && p->steps)
        file_print(f, ",\"step\":%" PRIu64 ",\"steps\":%" PRIu64, p->step, p->steps);
    else
        file_print(f, ",\"step\":null,\"steps\":null");
    if (p && (p->waits != TT_DUMP_WAITS_NONE || p->waits_rank != TT_DUMP_NOBODY)) {
        file_print(f, ",\"waits\":{\"rank\":");
        if (p->waits_rank == TT_DUMP_NOBODY)
            file_print(f, "null");
        else
            file_print(f, "%u", p->waits_rank);
        file_key(f, "for", waits_name(p->waits));
        file_print(f, "}");
    } else {
        file_print(f, ",\"waits\":null");
    }
    if (!p || !p->nflows)
        return;
    file_print(f, ",\"peers\":[");
    for (uint32_t i = 0; i < p->nflows; i++)
        write_flow(f, &s->flows[p->first_flow + i], i ? "," : "");
    file_print(f, "]");
}

/* Sets the wait of an operation on a window: for the peer of the call. The engine knows only the
 * progress of its own operations. */
static bool window_waits(const struct tt_oplog_record *r, struct tt_dump_op *out)
{
    const uint8_t kind = r->call.kind;

    if (r->status != TUTTI_PENDING || kind < TT_OPLOG_PUT || kind > TT_OPLOG_QUIET)
        return false;
    *out = (struct tt_dump_op){ .waits_rank = r->call.peer,
                                .waits = kind == TT_OPLOG_WAIT_SIGNAL ? TT_DUMP_WAITS_DATA
                                                                      : TT_DUMP_WAITS_COMPLETION };
    return true;
}

/* Writes the stages of a long operation that has ended. */
static void write_stages(struct dump_file *f, const struct tt_oplog_record *r)
{
    static const char *const keys[] = { [TT_STAGE_REGISTER] = "register",
                                        [TT_STAGE_SEND] = "send",
                                        [TT_STAGE_REDUCE] = "reduce",
                                        [TT_STAGE_COPY] = "copy" };
    const uint64_t called_ns = tt_tick_to_ns(r->called);
    struct tt_stage_times t;

    if (!r->ended || !tt_stages_get(r->number, &t))
        return;
    file_print(f, ",\"stages\":{");
    for (int i = 0; i < TT_STAGES; i++)
        file_print(f, "%s\"%s\":%" PRIu64, i ? "," : "", keys[i],
                   tt_tick_to_ns(r->called + t.of[i]) - called_ns);
    file_time(f, "first_data", t.first_data ? tt_tick_to_ns(r->called + t.first_data) : 0);
    file_print(f, "}");
}

static void write_op(struct dump_file *f, const struct tt_oplog_record *r,
                     const struct tt_dump_state *s)
{
    const struct tt_dump_op *p = tt_dump_find_op(s, r->number);
    const tutti_trace_op *op;
    struct tt_dump_op own;
    struct tt_view v;

    if (!p && window_waits(r, &own))
        p = &own;
    tt_view_fill(r, &v);
    op = &v.op;
    file_print(f, "{\"op\":%" PRIu64 ",", op->number);
    file_hash(f, "comm", op->comm);
    file_print(f, ",\"seq\":%" PRIu64 ",\"kind\":\"%s\"", op->seq, op->kind);
    file_key(f, "algo", op->algo);
    file_print(f, ",\"count\":%" PRIu64, op->count);
    file_key(f, "type", op->type < 0 ? NULL : tutti_dtype_name((tutti_dtype)op->type));
    file_key(f, "redop", op->redop < 0 ? NULL : tutti_redop_name((tutti_redop)op->redop));
    file_number(f, "root", op->root);
    file_number(f, "peer", op->peer);
    file_number(f, "tag", op->tag);
    file_print(f, ",\"bytes\":%" PRIu64, op->bytes);
    file_time(f, "called", op->called_ns);
    file_time(f, "started", op->started_ns);
    file_time(f, "ended", op->ended_ns);
    file_key(f, "status", op->status == TUTTI_STATUS_COUNT ? NULL : tutti_status_name(op->status));
    write_progress(f, p, s);
    write_stages(f, r);
    if (v.has_note)
        file_print(f, ",\"note\":%" PRIu64, v.note.number);
    else
        file_print(f, ",\"note\":null");
    if (r->call.flags & TT_OPLOG_LATE)
        file_print(f, ",\"late\":true");
    file_end_line(f);
}

/* Returns the state of a peer: "alive" or "silent" if this is known of a connected peer, otherwise
 * its recorded state. */
static const char *peer_state(const struct tt_dump_peer *p, const struct tt_dump_life *life,
                              uint64_t roll_ns)
{
    if (strcmp(p->state, "left") == 0 || strcmp(p->state, "lost") == 0)
        return p->state;
    if ((life && !life->is_silent) || (roll_ns && p->last_heard >= roll_ns))
        return "alive";
    return life ? "silent" : p->state;
}

static void write_peer(struct dump_file *f, const struct tt_dump_peer *p,
                       const struct tt_dump_state *s)
{
    const struct tt_dump_life *life = tt_dump_find_life(s, p->rank);
    const uint64_t heard = life && life->last_ns > p->last_heard ? life->last_ns : p->last_heard;

    file_print(f, "{\"peer\":%u", p->rank);
    file_key(f, "wire", *p->wire ? p->wire : NULL);
    file_print(f, ",\"state\":\"%s\"", peer_state(p, life, s->roll_ns));
    file_time(f, "last_heard", heard);
    file_time(f, "last_progress", p->last_progress);
    file_end_line(f);
}

static bool has_peer(const struct tt_dump_state *s, uint32_t rank)
{
    for (uint32_t i = 0; i < s->npeers; i++)
        if (s->peers[i].rank == rank)
            return true;
    return false;
}

static void write_lane(struct dump_file *f, const struct tt_dump_lane *l)
{
    file_print(f, "{\"lane\":%u,\"peer\":%u", l->lane, l->rank);
    file_key(f, "wire", l->wire);
    file_print(f, ",\"state\":\"%s\",\"posts\":%" PRIu64 ",\"completions\":%" PRIu64,
               l->is_up ? "up" : "down", l->posts, l->completions);
    file_print(f, ",\"posted_bytes\":%" PRIu64 ",\"completed_bytes\":%" PRIu64, l->posted_bytes,
               l->completed_bytes);
    file_time(f, "last_post", l->last_post);
    file_time(f, "last_completion", l->last_completion);
    file_end_line(f);
}

/* Writes the connected peers, and the ranks with only a control connection. */
static void write_peers(struct dump_file *f, const struct tt_dump_state *s)
{
    for (uint32_t i = 0; i < s->npeers; i++)
        write_peer(f, &s->peers[i], s);
    for (uint32_t i = 0; i < s->nlives; i++)
        if (!has_peer(s, s->lives[i].rank))
            write_peer(f, &(struct tt_dump_peer){ .rank = s->lives[i].rank, .state = "unknown" },
                       s);
}

static void write_all(struct dump_file *f, const struct tt_dump_head *head,
                      const struct tt_dump_state *s)
{
    const uint32_t depth = tt_oplog_depth();
    struct tt_oplog_record *records = depth ? malloc(depth * sizeof *records) : NULL;
    uint64_t lost = 0;
    uint32_t n = 0;

    tt_tick_refresh();
    if (records)
        n = tt_oplog_read(records, &lost);
    write_head(f, head, s, lost);
    write_comms(f, records, n);
    write_departures(f);
    write_notes(f);
    for (uint32_t i = 0; i < n && !f->err; i++)
        write_op(f, &records[i], s);
    write_peers(f, s);
    for (uint32_t i = 0; i < s->nlanes; i++)
        write_lane(f, &s->lanes[i]);
    file_print(f, "{\"end\":%" PRIu64 "}\n", f->lines);
    file_flush(f);
    free(records);
}

/* ---- the file ---- */

tutti_status tt_dump_write(const char *path, const struct tt_dump_head *head,
                           const struct tt_dump_state *s, char *why, size_t why_bytes)
{
    struct dump_file *f = malloc(sizeof *f);
    tutti_status st = TUTTI_ERR_SYSTEM;

    if (!f) {
        snprintf(why, why_bytes, "cannot write trace dump %s: out of memory", path);
        return TUTTI_ERR_SYSTEM;
    }
    *f = (struct dump_file){ .fd = memfd_create("tutti-dump", MFD_CLOEXEC) };
    if (f->fd >= 0)
        write_all(f, head, s);
    else
        f->err = errno;
    if (f->err)
        snprintf(why, why_bytes, "cannot write trace dump %s: memory for it: %s", path,
                 strerror(f->err));
    else
        st = tt_dump_store(path, f->fd, why, why_bytes);
    if (f->fd >= 0)
        close(f->fd);
    free(f);
    return st;
}
