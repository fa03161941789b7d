/* The page that an operator looks at: src/coordinator/page.html, which is compiled in, around what a snapshot says. It is whole without scripts;
 * the one in it fetches the page again and puts the new content in place of the old. Pure. */
#ifndef TT_COORDINATOR_PAGE_H
#define TT_COORDINATOR_PAGE_H

#include <stdio.h>
#include "coordinator/snapshot.h"

#define TT_PAGE_POLICY_BYTES 512
#define TT_PAGE_MEMBERS 1024u       /* that it lists; the JSON has all */
#define TT_PAGE_RING_MEMBERS 32u    /* of a larger ring the page only has a link to the picture */

void tt_page_write(const struct tt_snapshot *s, FILE *to);
void tt_page_write_standby(const struct tt_standby *s, FILE *to);

/* What a browser may do with the page: run its own script and use its own style sheet (told by their hashes), and fetch it again. */
void tt_page_policy(char out[TT_PAGE_POLICY_BYTES]);

#endif
