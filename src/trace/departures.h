/* Members that have left the elastic runs of this process, and the reasons that their coordinators
 * report: evidence for dumps. The newest TT_DEPARTURES_MAX are kept. */
#ifndef TT_TRACE_DEPARTURES_H
#define TT_TRACE_DEPARTURES_H

#include <stdint.h>

#define TT_DEPARTURES_MAX 1024u

enum tt_departure_why {
    TT_DEPARTURE_DIED,          /* its connection to the coordinator has closed */
    TT_DEPARTURE_SILENT,        /* it sent nothing for longer than the lease */
    TT_DEPARTURE_UNREACHABLE,   /* other members could not reach it */
    TT_DEPARTURE_PROTOCOL,      /* it violated the protocol */
    TT_DEPARTURE_STATE,         /* its shared state did not match */
    TT_DEPARTURE_LEFT,          /* it left in an orderly way */
    TT_DEPARTURE_VIEW,          /* unknown: the next view is without it */
    TT_DEPARTURE_WHYS
};

struct tt_departure {
    uint64_t run;               /* hash, as in trace/comms.h */
    uint64_t member;            /* its id */
    uint64_t epoch;             /* of the last view with it */
    uint64_t at_ns;             /* time at which this process was notified */
    uint64_t replaced_ns;       /* time at which the next view was in use; 0: not yet */
    enum tt_departure_why why;
};

/* Adds a departure. Has no effect if one of the same member is stored already, unless that one has
 * an older epoch. Any thread. */
void tt_departure_add(uint64_t run, uint64_t member, uint64_t epoch, enum tt_departure_why why);
/* Notifies that the view of an epoch of the run is in use. It is without the members added so far,
 * except those that have returned and are in ids[n]. Any thread. */
void tt_departures_replace(uint64_t run, uint64_t epoch, const uint64_t *ids, uint32_t n);
/* Copies the stored departures, oldest first. Returns their number. */
uint32_t tt_departures_read(struct tt_departure out[TT_DEPARTURES_MAX]);
/* Returns e.g. "died". */
const char *tt_departure_why_name(enum tt_departure_why why);

#endif
