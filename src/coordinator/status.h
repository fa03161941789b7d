/* A snapshot as JSON, and the texts of its values. Pure. docs/coordinator-status.md lists the
 * fields. */
#ifndef TT_COORDINATOR_STATUS_H
#define TT_COORDINATOR_STATUS_H

#include <stdbool.h>
#include <stdio.h>
#include "coordinator/snapshot.h"

/* Returns the text of a state, e.g. "in the view"; "?" for unknown values. */
const char *tt_status_state(uint8_t coord_state);
#define TT_STATUS_LEFT "left"
/* As tt_status_state, for a member: "left" instead of "lost" if the member left. */
const char *tt_status_of(const struct tt_snapshot_member *m);
/* Returns the text of an enum tt_loss, e.g. "silent". */
const char *tt_status_loss(uint8_t loss);
/* Returns the text of an enum tt_snapshot_refusal, e.g. "slow". */
const char *tt_status_refusal(uint8_t refusal);

#define TT_STATUS_CAUSE_BYTES 160
/* Prints the reason for the beginning of an epoch, e.g. "1 joined, 2 were lost"; "" if it began
 * before this coordinator started. Returns out. */
const char *tt_status_cause(char out[TT_STATUS_CAUSE_BYTES], const struct tt_coord_cause *cause);

/* Returns the number of members in a state; LOST excludes members that left. */
uint32_t tt_status_count(const struct tt_snapshot *s, uint8_t coord_state);
uint32_t tt_status_left(const struct tt_snapshot *s);

/* Returns the rate of the slowest link of the measured ring in bytes/s; 0 if nothing was
 * measured, or a link does not exist. */
double tt_status_slowest(const struct tt_snapshot_links *l);

/* Writes one JSON object and a newline. False: out of memory. */
bool tt_status_json(const struct tt_snapshot *s, FILE *to);
bool tt_status_standby_json(const struct tt_standby *s, FILE *to);

#endif
