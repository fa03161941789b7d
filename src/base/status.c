#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "base/log.h"

static _Thread_local char last_error[TT_ERROR_BYTES];

const char *tutti_last_error(void)
{
    return last_error;
}

/* Writes a hint on how to resolve a system error, or "" if there is none. */
static void hint_of(int err, char *out, size_t cap)
{
    unsigned first = 0, last = 0;
    struct rlimit limit;
    FILE *f;

    *out = '\0';
    if (err == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        snprintf(out, cap, " (RLIMIT_NOFILE is %llu: raise it with ulimit -n)",
                 (unsigned long long)limit.rlim_cur);
    if (err == ENFILE)
        snprintf(
            out, cap,
            " (the system-wide limit on open files is reached: raise it with sysctl fs.file-max)");
    if (err == ENOSYS)
        snprintf(out, cap, " (the kernel is too old, or the sandbox must allow this system call)");
    if (err != EADDRINUSE && err != EADDRNOTAVAIL)
        return;
    f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (f && fscanf(f, "%u %u", &first, &last) == 2)
        snprintf(out, cap,
                 " (the port is in use, or no port from %u to %u is free: see "
                 "net.ipv4.ip_local_port_range)",
                 first, last);
    if (f)
        fclose(f);
}

/* Formats into a separate buffer first, because an argument may be the last error itself. */
static void record_error(const char *fmt, va_list ap, const char *why)
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
    record_error(fmt, ap, NULL);
    va_end(ap);
    errno = saved;
    return status;
}

tutti_status tt_fail_errno(int err, const char *fmt, ...)
{
    const int saved = errno;
    char text[128], hint[128], why[256];
    va_list ap;

    hint_of(err, hint, sizeof hint);
    snprintf(why, sizeof why, "%s%s", strerror_r(err, text, sizeof text), hint);
    va_start(ap, fmt);
    record_error(fmt, ap, why);
    va_end(ap);
    errno = saved;
    return err == ENOMEM || err == EMFILE || err == ENFILE ? TUTTI_ERR_NOMEM : TUTTI_ERR_SYSTEM;
}

tutti_status tt_fail_descriptors(const char *what, uint32_t missing)
{
    struct rlimit limit;
    unsigned long long n;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "%s: not enough file descriptors (raise the system-wide limit with sysctl "
                       "fs.file-max)",
                       what);
    n = limit.rlim_cur;
    return tt_fail(TUTTI_ERR_NOMEM,
                   "%s: not enough file descriptors: RLIMIT_NOFILE is %llu, at least %llu needed "
                   "(raise it with ulimit -n)",
                   what, n, n + missing);
}

tutti_status tt_fail_call(int err, const char *what, const char *call)
{
    char text[128];

    if (err != EPERM && err != EACCES)
        return tt_fail_errno(err, "%s: %s failed", what, call);
    return tt_fail(TUTTI_ERR_SYSTEM, "%s: %s failed: %s (the sandbox must allow this system call)",
                   what, call, strerror_r(err, text, sizeof text));
}

tutti_status tt_fail_again(tutti_status status, const char *sentence)
{
    size_t n = strlen(sentence);

    if (n >= sizeof last_error)
        n = sizeof last_error - 1;
    memmove(last_error, sentence, n); /* may be the last error itself */
    last_error[n] = '\0';
    return status;
}

/* Printed regardless of TUTTI_LOG: the process ends. */
_Noreturn void tt_assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "tutti: bug: assertion failed: %s (%s:%d)\n", cond, file, line);
    abort();
}
