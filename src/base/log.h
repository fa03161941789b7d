/* Diagnostics on stderr, one line each: "tutti[rank] level: sentence". Level from TUTTI_LOG
 * (none, error, warn, info, debug; default warn). Never called on the data path. */
#ifndef TT_BASE_LOG_H
#define TT_BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>

enum tt_log_level { TT_LOG_NONE, TT_LOG_ERROR, TT_LOG_WARN, TT_LOG_INFO, TT_LOG_DEBUG };

/* Whether a line of this level would be printed. */
bool tt_log_on(enum tt_log_level level);
void tt_log(enum tt_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tt_log_v(enum tt_log_level level, const char *fmt, va_list ap);
/* Names this process's rank in later lines (-1: none). */
void tt_log_rank(int rank);
/* Overrides TUTTI_LOG; tests and tools. */
void tt_log_set(enum tt_log_level level);
/* Errors of the calling thread are not printed until it is called with false. For tools, where others say the same. */
void tt_log_hush_errors(bool on);

#endif
