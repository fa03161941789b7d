/* Text of strangers, before it is shown. */
#ifndef TT_COORDINATOR_TEXT_H
#define TT_COORDINATOR_TEXT_H

#include <stddef.h>

/* Bytes that suffice for whatever a snapshot has: each byte may become three. */
#define TT_TEXT_CLEAN_BYTES 640

/* `in` as UTF-8 into out[cap], cut at a whole character where it does not fit; returns out. What is no UTF-8, a control character, or turns the
 * direction of what follows, becomes U+FFFD. Quotes and angle brackets stay: escaping them is the business of whoever writes HTML or JSON. */
const char *tt_text_clean(char *out, size_t cap, const char *in);

#endif
