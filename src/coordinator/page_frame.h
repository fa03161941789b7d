/* The frame of a page for operators: src/coordinator/page.html, which is compiled in, around the
 * content of a page. Its script fetches the page again every two seconds and replaces the element
 * with the id "live". Pure. */
#ifndef TT_COORDINATOR_PAGE_FRAME_H
#define TT_COORDINATOR_PAGE_FRAME_H

#include <stdint.h>
#include <stdio.h>

#define TT_PAGE_POLICY_BYTES 512

/* Writes the page up to its content, and returns the rest, which the caller writes after it.
 * Appends ": Tutti" to the title, and escapes it: it may come from an unauthenticated peer. */
const char *tt_page_frame_begin(const char *title, FILE *to);
/* Writes escaped text, which may come from an unauthenticated peer. */
void tt_page_frame_text(const char *text, FILE *to);
/* Writes the UTC time in a <time> element. */
void tt_page_frame_time(int64_t unix_ms, FILE *to);
/* Returns the page's Content-Security-Policy: it permits only its own script and style sheet
 * (identified by hashes), and requests to its own server. */
void tt_page_policy(char out[TT_PAGE_POLICY_BYTES]);

#endif
