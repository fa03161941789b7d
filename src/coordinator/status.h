/* A snapshot as JSON, and the words for what is in it. Pure. docs/coordinator-status.md lists the fields. */
#ifndef TT_COORDINATOR_STATUS_H
#define TT_COORDINATOR_STATUS_H

#include <stdbool.h>
#include <stdio.h>
#include "coordinator/snapshot.h"

/* "in the view"; "?" for none. */
const char *tt_status_state(uint8_t coord_state);
#define TT_STATUS_LEFT "left"
/* The same of a member: "left", and not "lost", where it left. */
const char *tt_status_of(const struct tt_snapshot_member *m);
/* "silent"; of enum tt_loss. */
const char *tt_status_loss(uint8_t loss);
/* "too few". */
const char *tt_status_outcome(uint8_t round_status);
/* "not joined in time". */
const char *tt_status_refusal(uint8_t refusal);

#define TT_STATUS_CAUSE_BYTES 160
/* "1 came, 2 were lost": why an epoch began; "" where this coordinator has not seen it begin. Returns out. */
const char *tt_status_cause(char out[TT_STATUS_CAUSE_BYTES], const struct tt_coord_cause *cause);

/* Members in a state; LOST: those that left are counted apart. */
uint32_t tt_status_count(const struct tt_snapshot *s, uint8_t coord_state);
uint32_t tt_status_left(const struct tt_snapshot *s);

/* The slowest link of the measured ring in bytes/s; 0 if nothing was measured, or there is no such link. */
double tt_status_slowest(const struct tt_snapshot_links *l);

/* One JSON object and a newline. False: no memory. */
bool tt_status_json(const struct tt_snapshot *s, FILE *to);
bool tt_status_standby_json(const struct tt_standby *s, FILE *to);

#endif
