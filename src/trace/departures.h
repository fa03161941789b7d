/* Members that have left the elastic runs of this process, and why, as their coordinators report
 * it: evidence for dumps. The newest TT_DEPARTURES_MAX are kept. */
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
    TT_DEPARTURE_LEFT,          /* it left in order */
    TT_DEPARTURE_VIEW,          /* not known: the next view is without it */
    TT_DEPARTURE_WHYS
};

struct tt_departure {
    uint64_t run;               /* hash, as in trace/comms.h */
    uint64_t member;            /* its id */
    uint64_t epoch;             /* of the last view with it */
    uint64_t at_ns;             /* this process was notified then */
    uint64_t replaced_ns;       /* the next view was in use then; 0: not yet */
    enum tt_departure_why why;
};

/* Adds a departure. One of the same member that is kept already stays as it is, unless its epoch is
 * older. Any thread. */
void tt_departure_add(uint64_t run, uint64_t member, uint64_t epoch, enum tt_departure_why why);
/* The view of an epoch of the run is in use: it is without the members added so far, except for those
 * that have returned and are among ids[n]. Any thread. */
void tt_departures_replace(uint64_t run, uint64_t epoch, const uint64_t *ids, uint32_t n);
/* Copies the kept ones, oldest first. Returns their number. */
uint32_t tt_departures_read(struct tt_departure out[TT_DEPARTURES_MAX]);
/* Returns e.g. "died". */
const char *tt_departure_why_name(enum tt_departure_why why);

#endif
