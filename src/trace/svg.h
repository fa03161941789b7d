/* A timeline as an SVG picture. */
#ifndef TT_TRACE_SVG_H
#define TT_TRACE_SVG_H

#include <stdio.h>
#include "trace/timeline.h"

#define TT_TIMELINE_DRAWN_MAX 4000u     /* segments in a picture */

/* Writes SVG: a row for each lane. Each segment has a bar from post to completion, and a mark below
 * it at its arrival. Only the newest TT_TIMELINE_DRAWN_MAX segments are drawn. title: text of the
 * heading. NOMEM: nothing was written. The caller must check ferror() afterwards. */
tutti_status tt_timeline_write_svg(const struct tt_timeline *t, const char *title, FILE *to);

#endif
