/* What happened, for people: counters, and the latest events as sentences. Events are read off the records that the state machine writes into
 * its journal, so that nothing is told that was not decided; but for revoked epochs, which are no decision of its. One thread. */
#ifndef TT_COORDINATOR_CHRONICLE_H
#define TT_COORDINATOR_CHRONICLE_H

#include "coordinator/snapshot.h"

struct tt_chronicle {
    struct tt_snapshot_counters counters;
    uint64_t nevents;                                       /* that ever happened; the latest are in the ring */
    struct tt_snapshot_event ring[TT_SNAPSHOT_EVENTS];      /* event number n at n % TT_SNAPSHOT_EVENTS */
};

/* A sentence of now; longer ones are cut. Also logged, at level info. */
void tt_chronicle_tell(struct tt_chronicle *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A record that goes into the journal; from: the address of who caused it, or ""; cause: of the epoch, if it is one that begins. */
void tt_chronicle_record(struct tt_chronicle *c, const void *data, size_t bytes, const char *from,
                         const struct tt_coord_cause *cause);
/* The epoch is revoked, which is in no record. */
void tt_chronicle_revoked(struct tt_chronicle *c, uint64_t epoch, uint64_t revoker);
/* Likewise, as some call what all do, and others are in an operation. */
void tt_chronicle_apart(struct tt_chronicle *c, const struct tt_coord_result *apart);
/* A message that came, or that goes to somebody. */
void tt_chronicle_taken(struct tt_chronicle *c, const void *data, size_t bytes);
void tt_chronicle_sent(struct tt_chronicle *c, const void *data, size_t bytes);
/* The journal was made durable, which took so long. */
void tt_chronicle_commit(struct tt_chronicle *c, uint64_t took_ns);
/* The events that are kept, the oldest first, into out[TT_SNAPSHOT_EVENTS]; returns how many. */
uint32_t tt_chronicle_events(const struct tt_chronicle *c, struct tt_snapshot_event *out);

int64_t tt_chronicle_unix_ms(void);

#endif
