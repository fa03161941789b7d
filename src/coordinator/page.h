/* The page for operators: src/coordinator/page.html, which is compiled in, with the content of a
 * snapshot. It is complete without scripts; its script fetches the page again and replaces the
 * content. Pure. */
#ifndef TT_COORDINATOR_PAGE_H
#define TT_COORDINATOR_PAGE_H

#include <stdio.h>
#include "coordinator/snapshot.h"

#define TT_PAGE_POLICY_BYTES 512
#define TT_PAGE_MEMBERS 1024u       /* listed members; the JSON has all */
/* Maximum members of a ring shown in the page; for a larger ring, it links to the picture. */
#define TT_PAGE_RING_MEMBERS 32u

void tt_page_write(const struct tt_snapshot *s, FILE *to);
void tt_page_write_standby(const struct tt_standby *s, FILE *to);

/* Returns the page's Content-Security-Policy: its own script and style sheet (identified by
 * hashes), and fetching itself. */
void tt_page_policy(char out[TT_PAGE_POLICY_BYTES]);

#endif
