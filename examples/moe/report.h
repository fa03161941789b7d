/* Report of the program, printed by rank 0. */
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
    uint64_t put_bytes;                     /* bytes put by the proxy per round, on the rank with
                                               the most puts */
    const double *ms;                       /* [FORMS + 1][rounds], on the slowest rank: each
                                               form, then the computation of the collective form */
    const tutti_device_counters *proxy;     /* [FORMS]: counters of rank 0 in the last round;
                                               unused for the collective form */
};

/* Prints a table: the parameters, and one line per form. */
void report_table(const struct report *r);
/* Prints one line of JSON with the times of every round. */
void report_json(const struct report *r);

#ifdef __cplusplus
}
#endif

#endif
