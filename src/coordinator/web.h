/* What a coordinator shows over HTTP: "/" (a page for people), "/status.json", "/metrics" (Prometheus), "/ring.svg" and "/healthz", all from the
 * latest snapshot on its board; or that it stands by, and who leads. */
#ifndef TT_COORDINATOR_WEB_H
#define TT_COORDINATOR_WEB_H

#include "coordinator/snapshot.h"

struct tt_web;

/* Serves at `address` (coordinator/http.h) until it is destroyed: what hangs on the board; NULL: that the coordinator of `run` stands by. On success
 * *out is the caller's. */
tutti_status tt_web_create(struct tt_web **out, const char *address, struct tt_board *board, const char *run);
/* From here on it shows what hangs on the board, which must be there until it shows something else. */
void tt_web_show(struct tt_web *w, struct tt_board *board);
/* From here on it shows that `leader` leads ("": that is not known). The board that it showed may go now. Any thread. */
void tt_web_stand_by(struct tt_web *w, const char *leader);
/* "127.0.0.1:9090": where it listens. */
const char *tt_web_address(const struct tt_web *w);
/* NULL is fine. */
void tt_web_destroy(struct tt_web *w);

#endif
