#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1280 /* space for a complete error message and its prefix */
#define LEVEL_UNREAD (-1)

static const char *const level_names[] = {
    [TT_LOG_NONE] = "none", [TT_LOG_ERROR] = "error", [TT_LOG_WARN] = "warn",
    [TT_LOG_INFO] = "info", [TT_LOG_DEBUG] = "debug",
};
#define NLEVELS (int)(sizeof level_names / sizeof *level_names)

static atomic_int shown = LEVEL_UNREAD;
static atomic_int own_rank = -1;
static _Thread_local bool hushed;

/* Returns the level of TUTTI_LOG. An unknown word means the default level and is stored in
 * *unknown: a misspelt log level must not stop a job. */
static int level_from_environment(const char **unknown)
{
    const char *word = getenv("TUTTI_LOG");

    for (int i = 0; word && i < NLEVELS; i++)
        if (strcmp(word, level_names[i]) == 0)
            return i;
    *unknown = word && *word ? word : NULL;
    return TT_LOG_WARN;
}

bool tt_log_on(enum tt_log_level level)
{
    int now = atomic_load_explicit(&shown, memory_order_relaxed);

    if (now == LEVEL_UNREAD) {
        const char *unknown = NULL;
        int expected = LEVEL_UNREAD;

        now = level_from_environment(&unknown);
        if (!atomic_compare_exchange_strong(&shown, &expected, now))
            now = expected;     /* tt_log_set ran first */
        else if (unknown)
            tt_log(TT_LOG_WARN,
                   "TUTTI_LOG=%.32s: unknown log level; using warn (set none, error, warn, info or "
                   "debug)",
                   unknown);
    }
    return level != TT_LOG_NONE && (int)level <= now && !(hushed && level == TT_LOG_ERROR);
}

void tt_log_hush_errors(bool on)
{
    hushed = on;
}

void tt_log_set(enum tt_log_level level)
{
    atomic_store(&shown, (int)level);
}

void tt_log_rank(int rank)
{
    atomic_store(&own_rank, rank);
}

/* Converts a result of snprintf to the number of bytes in a buffer of `cap`. */
static size_t printed(int n, size_t cap)
{
    return n < 0 ? 0 : (size_t)n < cap ? (size_t)n : cap - 1;
}

/* One write per line: lines of several ranks on one terminal do not mix. */
static void log_line(enum tt_log_level level, const char *fmt, va_list ap)
{
    const int saved = errno;
    const int rank = atomic_load_explicit(&own_rank, memory_order_relaxed);
    char line[LINE_BYTES], who[16] = "";
    size_t begin, n;

    if (!tt_log_on(level))
        return;
    if (rank >= 0)
        snprintf(who, sizeof who, "[%d]", rank);
    begin = n =
        printed(snprintf(line, sizeof line, "tutti%s %s: ", who, level_names[level]), sizeof line);
    n += printed(vsnprintf(line + n, sizeof line - n, fmt, ap), sizeof line - n);

    for (size_t i = begin; i < n; i++) /* untrusted bytes must not forge lines or move the cursor */
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = ' ';
    line[n++] = '\n';   /* replaces the terminating NUL */
    if (write(STDERR_FILENO, line, n) < 0)
        n = 0;          /* stderr is not writable: ignore */
    errno = saved;
}

void tt_log(enum tt_log_level level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_line(level, fmt, ap);
    va_end(ap);
}
