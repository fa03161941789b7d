/* Sanitizes text of unauthenticated peers for display. */
#ifndef TT_COORDINATOR_TEXT_H
#define TT_COORDINATOR_TEXT_H

#include <stddef.h>

/* Size for any text in a snapshot: each byte may be replaced by three. */
#define TT_TEXT_CLEAN_BYTES 640

/* Copies `in` as UTF-8 to out[cap], truncated at a whole character; returns out. Invalid UTF-8,
 * control characters, and characters that change the text direction become U+FFFD. Quotes and
 * angle brackets are kept: writers of HTML or JSON must escape them. */
const char *tt_text_clean(char *out, size_t cap, const char *in);

#endif
