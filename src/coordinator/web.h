/* HTTP pages of a coordinator: "/" (a page for people), "/status.json", "/metrics" (Prometheus),
 * "/ring.svg" and "/healthz". They show the latest snapshot on its board, or that it stands by,
 * and the leader. */
#ifndef TT_COORDINATOR_WEB_H
#define TT_COORDINATOR_WEB_H

#include "coordinator/snapshot.h"

struct tt_web;

/* Serves at `address` (coordinator/http.h) until destroyed. Shows the snapshot on the board;
 * NULL: that the coordinator of `run` stands by. On success *out belongs to the caller. */
tutti_status tt_web_create(struct tt_web **out, const char *address, struct tt_board *board,
                           const char *run);
/* From here on shows the snapshots of this board, which must exist until something else is
 * shown. */
void tt_web_show(struct tt_web *w, struct tt_board *board);
/* From here on shows that `leader` leads ("": unknown). The previous board may be destroyed now.
 * Any thread. */
void tt_web_stand_by(struct tt_web *w, const char *leader);
/* Returns its address, e.g. "127.0.0.1:9090". */
const char *tt_web_address(const struct tt_web *w);
/* w may be NULL. */
void tt_web_destroy(struct tt_web *w);

#endif
