/* Receives from any rank (TUTTI_ANY_RANK). All functions require the progress lock, except those
 * that engine.h declares.
 *
 * Messages are numbered per pair of ranks, direction and tag. A receive from a named rank is
 * numbered when it starts. A receive from any rank is numbered when it is matched with a message.
 * Until then it is `unmatched`, and not visible to peers. Later receives with the same tag are also
 * unmatched, including receives from a named rank. Otherwise they could take a message that the
 * earlier receive may still get. Therefore only the oldest unmatched receive of a tag is
 * considered, and it is always a receive from any rank.
 *
 * A receive can be matched with the next message of a rank when the receiver has been notified that
 * the message was started. Each message is such a notification for all earlier ones, because
 * messages of one tag are started in numerical order. An eager message is sent at once. The sender
 * of a longer message waits for its receiver, so it announces the message (TT_CELL_STARTED).
 * Announcements are sent only to ranks that have sent TT_CELL_RECEIVES_ANY for the communicator. A
 * rank sends that once to all connected ranks, with its first receive from any rank, and later to
 * each rank that connects. Programs without such receives send no additional messages. */
#ifndef TT_ENGINE_ANY_H
#define TT_ENGINE_ANY_H

#include "engine/state.h"

/* Returns whether this is a receive from any rank that is not matched yet. */
static inline bool tt_op_is_from_any(const struct tt_op *op)
{
    return op->conf.coll.root == TT_ROOT_ANY;
}

/* Called before the first receive from any rank of c. Records the messages that were started
 * before, and enables the recording of later ones. NOMEM (logged). */
tutti_status tt_any_begin(struct tt_context *c);
/* Returns whether a receive from any rank with this tag is unmatched. */
bool tt_any_awaits(const struct tt_context *c, uint32_t tag);
/* Returns whether an operation that starts now must be an unmatched receive. */
static inline bool tt_any_defers(const struct tt_context *c, const struct tt_op_conf *conf)
{
    return conf->coll.kind == TT_RECV &&
           (conf->coll.root == TT_ROOT_ANY || (c->nunmatched > 0 && tt_any_awaits(c, conf->tag)));
}
/* Returns the oldest unmatched receive with this tag, or NULL if no started message can be matched
 * with it. Considers only messages of `from`, or those of all ranks if `from` is NULL. *rank: the
 * sender of the message. */
struct tt_op *tt_any_next(struct tt_context *c, uint32_t tag, struct tt_context_peer *from,
                          uint32_t *rank);
/* Records that the peer has started the send with this key. NOMEM (logged). */
tutti_status tt_any_record_started(struct tt_context_peer *cp, uint64_t opseq);

/* Called when the peer receives from any rank. Announces the waiting sends to it. */
void tt_any_peer_receives(struct tt_context *c, struct tt_context_peer *cp);
/* Announces a send in progress, if its receiver receives from any rank. */
void tt_any_announce(struct tt_op *send);
/* Called when a peer has connected. Notifies it of receives from any rank. */
void tt_any_connected(struct tt_engine *e);
/* Retries the notifications for which there was no room. */
void tt_any_send_due(struct tt_engine *e);

#endif
