/* A snapshot as JSON, and the words for what is in it. Pure. docs/coordinator-status.md lists the fields. */
#ifndef TT_COORDINATOR_STATUS_H
#define TT_COORDINATOR_STATUS_H

#include <stdbool.h>
#include <stdio.h>
#include "coordinator/snapshot.h"

/* "in the view"; "?" for none. */
const char *tt_status_state(uint8_t coord_state);
/* "epoch". */
const char *tt_status_call(uint8_t call_kind);
/* "too few". */
const char *tt_status_outcome(uint8_t round_status);
/* "not joined in time". */
const char *tt_status_refusal(uint8_t refusal);

uint32_t tt_status_count(const struct tt_snapshot *s, uint8_t coord_state);

/* The slowest link of the measured ring in bytes/s; 0 if nothing was measured, or there is no such link. */
double tt_status_slowest(const struct tt_snapshot_links *l);

/* One JSON object and a newline. False: no memory. */
bool tt_status_json(const struct tt_snapshot *s, FILE *to);
bool tt_status_standby_json(const struct tt_standby *s, FILE *to);

#endif
