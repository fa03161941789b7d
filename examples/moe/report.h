/* What the program says in the end, by rank 0. */
#ifndef REPORT_H
#define REPORT_H

#include <tutti/device.h>
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

struct report {
    const struct options *o;
    const struct shape *shape;              /* as computed */
    uint32_t nranks, nblocks;
    uint64_t put_bytes;                     /* that the proxy of the rank which puts most has put in a round */
    const double *ms;                       /* [FORMS + 1][rounds], of the slowest rank: each form, then the computation of the collective one */
    const tutti_device_counters *proxy;     /* [FORMS]: rank 0's, in the last round; none of the collective form */
};

/* For people: what was computed, and a line for each form. */
void report_table(const struct report *r);
/* For programs: one line of JSON, with the times of every round. */
void report_json(const struct report *r);

#ifdef __cplusplus
}
#endif

#endif
