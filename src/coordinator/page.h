/* The page for operators, with the content of a snapshot (coordinator/page_frame.h). It is complete
 * without scripts. Pure. */
#ifndef TT_COORDINATOR_PAGE_H
#define TT_COORDINATOR_PAGE_H

#include <stdio.h>
#include "coordinator/snapshot.h"

#define TT_PAGE_MEMBERS 1024u       /* listed members; the JSON has all */
/* Maximum members of a ring shown in the page; for a larger ring, it links to the picture. */
#define TT_PAGE_RING_MEMBERS 32u

void tt_page_write(const struct tt_snapshot *s, FILE *to);
void tt_page_write_standby(const struct tt_standby *s, FILE *to);

#endif
