/* Memory of the emulation itself, and its messages to stderr. */
#ifndef TT_EMU_FAIL_H
#define TT_EMU_FAIL_H

#include <stddef.h>

/* Zeroed memory; ends the process with a message if there is none. Release with free(). */
void *tt_emu_alloc(size_t bytes);

/* Prints "tutti emulation: <text>" to stderr, unless TUTTI_EMU_QUIET is set. */
void tt_emu_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The value of an environment variable as a number of bytes or units: digits, then K, M, G or T
 * (powers of 1024). `otherwise` if it is unset; a note and `otherwise` if it is malformed or not in
 * [min, max]. */
unsigned long long tt_emu_setting(const char *name, unsigned long long otherwise,
                                  unsigned long long min, unsigned long long max);

#endif
