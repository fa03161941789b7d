/* A timeline as a picture. */
#ifndef TT_TRACE_SVG_H
#define TT_TRACE_SVG_H

#include <stdio.h>
#include "trace/timeline.h"

#define TT_TIMELINE_DRAWN_MAX 4000u     /* segments in a picture */

/* SVG: a line for each lane, with a bar from post to completion for each segment, and a mark below it where it arrived. The newest
 * TT_TIMELINE_DRAWN_MAX segments. title: a sentence for the head. NOMEM: nothing was written. Who calls looks at ferror when all is written. */
tutti_status tt_timeline_write_svg(const struct tt_timeline *t, const char *title, FILE *to);

#endif
