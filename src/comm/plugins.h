/* The algorithms added by TUTTI_ALGORITHMS. All ranks must have the same. */
#ifndef TT_COMM_PLUGINS_H
#define TT_COMM_PLUGINS_H

#include "base/status.h"

#define TT_PLUGINS_TEXT_BYTES 152

/* Loads the files in TUTTI_ALGORITHMS on the first call. After an error nothing was added, and
 * the next call tries again. INVALID (logged). Any thread. */
tutti_status tt_plugins_load(void);
/* Writes the names of the loaded algorithms, and a hash of names, revisions and plans, in order:
 * "allgather_mine, broadcast_other (0123456789abcdef)". Names are cut if they are too long. "":
 * there are none. */
void tt_plugins_text(char out[TT_PLUGINS_TEXT_BYTES]);

#endif
