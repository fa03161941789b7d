/* HTTP pages of a coordinator: "/" (for operators), "/status.json", "/metrics" (Prometheus),
 * "/ring.svg" and "/healthz". They show the latest snapshot on its board; on a standby, they show
 * the leader. */
#ifndef TT_COORDINATOR_WEB_H
#define TT_COORDINATOR_WEB_H

#include "coordinator/snapshot.h"

struct tt_web;

/* Serves at `address` (coordinator/http.h) until destroyed. Shows the snapshot on the board;
 * NULL: that the coordinator of `run` stands by. On success *out belongs to the caller. */
tutti_status tt_web_create(struct tt_web **out, const char *address, struct tt_board *board,
                           const char *run);
/* Shows the snapshots of this board from now on. The board must exist until the pages show
 * something else. */
void tt_web_show(struct tt_web *w, struct tt_board *board);
/* Shows from now on that `leader` leads ("": unknown). Afterwards the previous board may be
 * destroyed. Any thread. */
void tt_web_stand_by(struct tt_web *w, const char *leader);
/* Returns its address, e.g. "127.0.0.1:9090". */
const char *tt_web_address(const struct tt_web *w);
/* w may be NULL. */
void tt_web_destroy(struct tt_web *w);

#endif
