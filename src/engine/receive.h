/* Messages that an operation receives from its peers, and the probes that it sends. The caller
 * holds the progress lock. */
#ifndef TT_ENGINE_RECEIVE_H
#define TT_ENGINE_RECEIVE_H

#include "engine/state.h"

/* Handles a CTS: the peer has opened a flow to this rank. The operation may be over afterwards.
 * PENDING: the memory it refers to cannot be imported yet. PROTOCOL: the message is invalid. */
tutti_status tt_op_handle_cts(struct tt_op *op, uint16_t i, const uint8_t *payload, uint32_t bytes);
/* Handles a probe: the peer waits for this rank in this operation. After probing, a send must use
 * rendezvous. A probed send without credit responds at once that it uses rendezvous. */
void tt_op_handle_probe(struct tt_op *op, struct tt_flow *f);
/* Returns false if the sizes in a probe differ; then the context has failed. */
bool tt_op_check_probe_sizes(struct tt_op *op, uint32_t peer, const void *payload, uint32_t bytes);
/* Schedules another scan, because a message could not be used yet. */
void tt_op_scan_again(struct tt_op *op);
/* Scans the unexpected messages for those that this operation can use now. */
void tt_op_take_unexpected(struct tt_op *op);
/* Reads the flow words: segments that arrived here, and segments consumed by the peers. */
void tt_op_read_flows(struct tt_op *op);
/* Returns whether flow words have changed; does not process them. */
bool tt_op_has_flow_updates(const struct tt_op *op);
/* Returns whether an eager message contains exactly the data that the sender has for the
 * receiver. */
static inline bool tt_op_is_whole_row(const struct tt_op *op, uint32_t tag)
{
    return !op->conf.algo->pads || tag != 0;
}
/* Checks the size that a peer sends to this rank in an alltoallv. False: this rank expects another
 * size, and the context has failed. */
bool tt_op_check_receive_size(struct tt_op *op, uint32_t peer, uint64_t sent);
/* Returns whether an unexpected message shows that another rank made a different call. Then the
 * context has failed. */
bool tt_op_find_mismatch(struct tt_op *op);

/* Switches the message of a send or receive from eager to streams. */
void tt_op_use_streams(struct tt_op *op);
/* Sends a probe to the rank that the operation waits for. */
void tt_op_send_probe(struct tt_op *op);

/* Row lengths of a padded alltoallv are sent with the rows (tt_algo.length_at): the engine writes
 * and compares them. */

/* Writes the lengths of this rank's rows. Call before the first round. */
void tt_op_write_lengths(struct tt_op *op);
/* Compares the lengths that peers send with those that this rank expects, once they have
 * arrived. False: they differ, and the context has failed. */
bool tt_op_check_lengths(struct tt_op *op);

#endif
