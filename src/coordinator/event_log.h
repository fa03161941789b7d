/* Event log for operators: counters, and the latest events as text. Events are derived from the
 * journal records of the state machine, so only decisions are reported. Exceptions are revoked
 * epochs, which the state machine does not decide. One thread. */
#ifndef TT_COORDINATOR_EVENT_LOG_H
#define TT_COORDINATOR_EVENT_LOG_H

#include "coordinator/snapshot.h"

struct tt_event_log {
    struct tt_snapshot_counters counters;
    uint64_t nevents;                                       /* total number; the latest are in
                                                               the ring buffer */
    struct tt_snapshot_event ring[TT_SNAPSHOT_EVENTS];      /* event number n is at n %
                                                               TT_SNAPSHOT_EVENTS */
};

/* Adds an event at the current time; long texts are truncated. Also logs it, at level info. */
void tt_event_log_add(struct tt_event_log *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds the event of a journal record. from: the address of the member that caused it, or ""; cause:
 * if it begins an epoch, the cause. */
void tt_event_log_record(struct tt_event_log *c, const void *data, size_t bytes, const char *from,
                         const struct tt_coord_cause *cause);
/* Adds the revocation of the epoch, which has no record. */
void tt_event_log_revoked(struct tt_event_log *c, uint64_t epoch, uint64_t revoker);
/* Adds the revocation of an epoch in which some members are in a call of all members, and others in
 * an operation. */
void tt_event_log_mismatch(struct tt_event_log *c, const struct tt_coord_result *apart);
/* Count a received or sent message. */
void tt_event_log_taken(struct tt_event_log *c, const void *data, size_t bytes);
void tt_event_log_sent(struct tt_event_log *c, const void *data, size_t bytes);
/* Counts a commit of the journal, and its duration. */
void tt_event_log_commit(struct tt_event_log *c, uint64_t took_ns);
/* Copies the stored events, the oldest first, to out[TT_SNAPSHOT_EVENTS]; returns their number. */
uint32_t tt_event_log_events(const struct tt_event_log *c, struct tt_snapshot_event *out);

int64_t tt_event_log_unix_ms(void);

#endif
