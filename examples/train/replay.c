#include "replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STEP_MAX 10000000

static int bad(const struct replay *r, const char *what)
{
    fprintf(stderr, "%s, line %" PRIu64 ": %s\n", r->name, r->line, what);
    return -1;
}

/* Returns the next word of the line, NUL-terminated in place, or NULL. */
static char *word(char **at)
{
    char *begin = *at + strspn(*at, " \t\n");
    const size_t n = strcspn(begin, " \t\n");

    if (n == 0)
        return NULL;
    *at = begin + n;
    if (**at)
        *(*at)++ = 0;
    return begin;
}

static int whole(const char *w, uint64_t *out)
{
    char *end;

    if (!w || *w < '0' || *w > '9')
        return 0;
    errno = 0;
    *out = strtoull(w, &end, 10);
    return !*end && !errno;
}

static int is_number(const char *w)
{
    char *end;

    if (!w)
        return 0;
    strtod(w, &end);
    return !*end;
}

static int parse(struct replay *r, char *line, struct exchange *e)
{
    if (!whole(word(&line), &e->step) || e->step <= r->step || e->step > STEP_MAX)
        return bad(r, "must begin with a step that exceeds the last one, at most 10000000");
    if (!is_number(word(&line)))
        return bad(r, "the loss after the step is missing or invalid");
    e->n = 0;
    for (const char *w = word(&line); w; w = word(&line)) {
        if (e->n == WORKERS_MAX)
            return bad(r, "too many members: the maximum is 1024");
        if (!whole(w, &e->worker[e->n]))
            return bad(r, "invalid member number after the loss");
        for (size_t i = 0; i < e->n; i++)
            if (e->worker[i] == e->worker[e->n])
                return bad(r, "a member is listed twice");
        e->n++;
    }
    if (e->n == 0)
        return bad(r, "no member is listed");
    r->step = e->step;
    return 1;
}

/* Returns 1, 0 or -1, as replay_next. */
static int read_line(struct replay *r, char *line, int room)
{
    if (!fgets(line, room, r->file)) {
        if (!ferror(r->file))
            return 0;
        fprintf(stderr, "%s: %s\n", r->name, strerror(errno));
        return -1;
    }
    r->line++;
    if (!strchr(line, '\n') && !feof(r->file))
        return bad(r, "longer than 16384 bytes, or contains a zero byte");
    return 1;
}

int replay_next(struct replay *r, struct exchange *e)
{
    char line[REPLAY_LINE_MAX + 2];
    int more;

    do
        more = read_line(r, line, sizeof line);
    while (more > 0 && *line == '#');
    return more > 0 ? parse(r, line, e) : more;
}
