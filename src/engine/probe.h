/* Probes of ranks that an operation waits for. The caller holds the progress lock. */
#ifndef TT_ENGINE_PROBE_H
#define TT_ENGINE_PROBE_H

#include "engine/state.h"

/* The message of a send or receive uses streams instead of eager. */
void tt_op_choose_nontemporal(struct tt_op *op);
/* Sends a probe to the rank that it waits for. */
void tt_op_send_probe(struct tt_op *op);

#endif
