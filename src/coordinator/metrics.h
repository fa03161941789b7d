/* A snapshot for Prometheus: the text format, version 0.0.4. Pure. The number of lines does not
 * depend on the number of members; data of single members is in the JSON. */
#ifndef TT_COORDINATOR_METRICS_H
#define TT_COORDINATOR_METRICS_H

#include <stdio.h>
#include "coordinator/snapshot.h"

void tt_metrics_write(const struct tt_snapshot *s, FILE *to);
void tt_metrics_write_standby(const struct tt_standby *s, FILE *to);

#endif
