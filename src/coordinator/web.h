/* What a coordinator shows over HTTP: "/" (a page for people), "/status.json", "/metrics" (Prometheus), "/ring.svg" and "/healthz", all from the
 * latest snapshot on its board. */
#ifndef TT_COORDINATOR_WEB_H
#define TT_COORDINATOR_WEB_H

#include "coordinator/snapshot.h"

struct tt_web;

/* Serves at `address` (coordinator/http.h) until it is destroyed; the board must outlive it. On success *out is the caller's. */
tutti_status tt_web_create(struct tt_web **out, const char *address, struct tt_board *board);
/* "127.0.0.1:9090": where it listens. */
const char *tt_web_address(const struct tt_web *w);
/* NULL is fine. */
void tt_web_destroy(struct tt_web *w);

#endif
