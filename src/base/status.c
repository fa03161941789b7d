#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"

static _Thread_local char last_error[TT_ERROR_BYTES];

const char *tutti_last_error(void)
{
    return last_error;
}

/* Formats into a buffer of its own first: an argument may be the last error itself. */
static void record(const char *fmt, va_list ap, const char *why)
{
    char sentence[TT_ERROR_BYTES];
    int n = vsnprintf(sentence, sizeof sentence, fmt, ap);

    if (n < 0)
        n = 0;
    if (why && (size_t)n < sizeof sentence)
        snprintf(sentence + n, sizeof sentence - (size_t)n, ": %s", why);
    memcpy(last_error, sentence, sizeof sentence);
    tt_log(TT_LOG_ERROR, "%s", last_error);
}

tutti_status tt_fail(tutti_status status, const char *fmt, ...)
{
    const int saved = errno;
    va_list ap;

    va_start(ap, fmt);
    record(fmt, ap, NULL);
    va_end(ap);
    errno = saved;
    return status;
}

tutti_status tt_fail_errno(int err, const char *fmt, ...)
{
    const int saved = errno;
    char text[128];
    va_list ap;

    va_start(ap, fmt);
    record(fmt, ap, strerror_r(err, text, sizeof text));
    va_end(ap);
    errno = saved;
    return err == ENOMEM || err == EMFILE || err == ENFILE ? TUTTI_ERR_NOMEM : TUTTI_ERR_SYSTEM;
}

tutti_status tt_fail_again(tutti_status status, const char *sentence)
{
    size_t n = strlen(sentence);

    if (n >= sizeof last_error)
        n = sizeof last_error - 1;
    memmove(last_error, sentence, n); /* it may be the last error itself */
    last_error[n] = '\0';
    return status;
}

/* Printed whatever TUTTI_LOG says: it is the process's last word. */
_Noreturn void tt_assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "tutti: bug: %s does not hold (%s:%d)\n", cond, file, line);
    abort();
}
