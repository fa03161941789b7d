/* Reads dumps into struct tt_dumps, line by line. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/dump_reading.h"

#define READ_BYTES (256u << 10)

static void read_end(struct tt_reading *g, struct tt_line *l)
{
    struct tt_line_text key;
    uint64_t lines;

    if (!tt_line_u64(l, &lines))
        return;
    while (tt_line_key(l, &key))
        tt_line_skip(l);
    g->has_ended = tt_line_end(l);
}

static void read_unknown(struct tt_reading *g, struct tt_line *l)
{
    struct tt_line_text key;

    tt_line_skip(l);
    while (tt_line_key(l, &key))
        tt_line_skip(l);
    g->d->nskipped += tt_line_end(l);
}

/* ---- lines of a dump ---- */

static void read_line(struct tt_reading *g, const char *text, size_t bytes)
{
    struct tt_line l;
    struct tt_line_text key;

    g->line++;
    if (g->has_ended) {
        tt_reading_broken(g, "data after the last line");
        return;
    }
    if (!tt_line_begin(&l, text, bytes)) {
        if (g->rank)
            tt_reading_broken(g, l.error);
        else
            tt_reading_reject(
                g, "not a trace dump: the first line must begin with {\"tutti_trace\":1");
        return;
    }
    if (!g->rank) {
        tt_read_head(g, &l);
        return;
    }
    if (!tt_line_key(&l, &key))
        tt_line_end(&l);
    else if (tt_line_is(&key, "op"))
        tt_read_op(g, &l);
    else if (tt_line_is(&key, "comm"))
        tt_read_comm(g, &l);
    else if (tt_line_is(&key, "note"))
        tt_read_note(g, &l);
    else if (tt_line_is(&key, "peer"))
        tt_read_peer(g, &l);
    else if (tt_line_is(&key, "lane"))
        tt_read_lane(g, &l);
    else if (tt_line_is(&key, "departed"))
        tt_read_departure(g, &l);
    else if (tt_line_is(&key, "end"))
        read_end(g, &l);
    else
        read_unknown(g, &l);
    if (l.error && !g->status && !g->is_broken)
        tt_reading_broken(g, l.error);
}

static bool reading_goes_on(const struct tt_reading *g)
{
    return !g->status && !g->is_broken;
}

/* Returns the text of a note; the last notes are kept. */
static uint32_t note_text(const struct tt_reading *g, uint32_t number)
{
    const uint32_t n = g->nnotes < TT_READING_NOTES ? g->nnotes : TT_READING_NOTES;

    for (uint32_t i = 0; i < n; i++)
        if (g->notes[i].number == number)
            return g->notes[i].text;
    return TT_INTERN_EMPTY;
}

/* Replaces note numbers by texts, at the end: notes follow the operations that refer to them. */
static void resolve_notes(struct tt_reading *g)
{
    for (uint32_t i = 0; i < g->rank->nops; i++) {
        struct tt_dumps_op *op = &g->d->ops[g->rank->ops_first + i];

        op->note = op->note == TT_DUMPS_NONE ? TT_INTERN_EMPTY : note_text(g, op->note);
    }
}

/* Marks reports about members that have left as expected: their connections are closed, too. */
static void find_expected(struct tt_reading *g)
{
    for (size_t i = g->reports_first; i < g->d->nreports; i++) {
        struct tt_dumps_report *p = &g->d->reports[i];

        p->is_expected = g->d->ranks[p->about].away_by == g->number + 1;
    }
}

static tutti_status finish(struct tt_reading *g)
{
    struct tt_dumps *d = g->d;

    if (g->rank) {
        g->rank->nops = (uint32_t)(d->nops - g->rank->ops_first);
        resolve_notes(g);
        find_expected(g);
        g->rank->is_complete = g->has_ended && !g->is_broken;
        d->ncomplete += g->rank->is_complete;
        if (!g->rank->is_complete && !g->is_broken)
            tt_reading_problem(d,
                               "%s:%llu: the dump has no last line {\"end\":...}: it is incomplete",
                               g->name, (unsigned long long)g->line);
    } else if (!g->status) {
        g->line = 1;
        tt_reading_reject(g, "not a trace dump: no complete line");
    }
    d->nrejected += g->status == TUTTI_ERR_INVALID;
    return g->status;
}

/* Reads the complete lines of text[bytes] and returns their size in bytes. */
static size_t read_lines(struct tt_reading *g, const char *text, size_t bytes)
{
    size_t at = 0;

    while (at < bytes && reading_goes_on(g)) {
        const char *end = memchr(text + at, '\n', bytes - at);

        if (!end)
            break;
        read_line(g, text + at, (size_t)(end - text) - at);
        at = (size_t)(end - text) + 1;
    }
    return at;
}

tutti_status tt_dumps_read_text(struct tt_dumps *d, const char *name, const char *text,
                                size_t bytes)
{
    struct tt_reading g = { .d = d, .name = name };

    read_lines(&g, text, bytes);
    return finish(&g);
}

/* Reads the file in pieces; an incomplete line is moved to the beginning of the buffer. */
static void read_file(struct tt_reading *g, int fd, char **buffer, size_t *capacity)
{
    size_t kept = 0, used;
    ssize_t n;

    while (reading_goes_on(g)) {
        if (kept == *capacity) {
            char *bigger = kept < TT_DUMPS_LINE_BYTES_MAX ? realloc(*buffer, 2 * kept) : NULL;

            if (!bigger) {
                g->line++;
                tt_reading_broken(g, "a line is longer than 16 MiB");
                return;
            }
            *buffer = bigger;
            *capacity = 2 * kept;
        }
        do
            n = read(fd, *buffer + kept, *capacity - kept);
        while (n < 0 && errno == EINTR);
        if (n < 0) {
            g->line++;
            tt_reading_broken(g, strerror(errno));
        }
        if (n <= 0)
            return;
        kept += (size_t)n;
        used = read_lines(g, *buffer, kept);
        memmove(*buffer, *buffer + used, kept - used);
        kept -= used;
    }
}

/* Opens a file. Rejects all but regular files: a pipe could block. Returns -1 after recording the
 * problem. */
static int open_dump(struct tt_dumps *d, const char *path)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    const char *slash = strrchr(path, '/');
    const int fd = d->has_folder ? openat(d->folder, slash ? slash + 1 : path, flags | O_NOFOLLOW)
                                 : open(path, flags);
    struct stat info;

    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        return fd;
    tt_reading_problem(d, "%s: cannot read the dump: %s", path,
                       fd < 0 ? strerror(errno) : "not a regular file");
    d->nrejected++;
    if (fd >= 0)
        close(fd);
    return -1;
}

tutti_status tt_dumps_read(struct tt_dumps *d, const char *path)
{
    struct tt_reading g = { .d = d, .name = path };
    size_t capacity = READ_BYTES;
    const int fd = open_dump(d, path);
    char *buffer;

    if (fd < 0)
        return TUTTI_ERR_SYSTEM;
    buffer = malloc(capacity);
    if (buffer)
        read_file(&g, fd, &buffer, &capacity);
    else
        tt_reading_no_memory(&g);
    free(buffer);
    close(fd);
    return finish(&g);
}
