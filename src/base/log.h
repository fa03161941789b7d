/* Diagnostics on stderr, one line each: "tutti[rank] level: message". The level is TUTTI_LOG (none,
 * error, warn, info, debug; default warn). Not used on the data path. */
#ifndef TT_BASE_LOG_H
#define TT_BASE_LOG_H

#include <stdbool.h>

enum tt_log_level { TT_LOG_NONE, TT_LOG_ERROR, TT_LOG_WARN, TT_LOG_INFO, TT_LOG_DEBUG };

/* Returns whether messages of this level are printed. */
bool tt_log_on(enum tt_log_level level);
void tt_log(enum tt_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Sets the rank shown in later messages (-1: none). */
void tt_log_rank(int rank);
/* Overrides TUTTI_LOG; tests and tools. */
void tt_log_set(enum tt_log_level level);
/* Suppresses printed errors of the calling thread (true) until called with false. For tools that
 * print the same error themselves. */
void tt_log_hush_errors(bool on);

#endif
