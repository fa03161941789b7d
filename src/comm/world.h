/* Worlds: the engine of a process in a job, and what the job's ranks have in common. comm.h has the
 * steps that elastic runs use as well. */
#ifndef TT_COMM_WORLD_H
#define TT_COMM_WORLD_H

#include "comm/comm.h"

/* Does not start the engine: no messages are received before the first communicator exists. */
tutti_status tt_world_create(struct tt_world **out, const struct tt_launch *launch, int32_t lanes,
                             const char *tune_files);
/* Called when this rank cannot start, with its error logged. Joins the start-up nevertheless to
 * notify the others, which would wait for it. Returns st. */
tutti_status tt_world_send_refusal(const struct tt_launch *launch, tutti_status st);
/* Logs the layout of the job. */
void tt_world_log_layout(const struct tt_world *w);

#endif
