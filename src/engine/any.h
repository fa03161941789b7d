/* Receives from any rank (TUTTI_ANY_RANK). Under the baton, but for what engine.h declares.
 *
 * Messages are numbered per pair of ranks, direction and tag. A receive from a named rank takes its number when it starts. A receive from
 * any rank has none until it is matched with a message: until then it is `unmatched`, and peers do not see it. Receives with the same tag
 * that start later are unmatched too, also those from a named rank: else they would take a message that the earlier receive may still get.
 * So only the oldest unmatched receive of a tag has to be considered, and it is always one from any rank.
 *
 * It can be matched with the next message of a rank as soon as this rank knows that the message was started there. Each message of the rank
 * shows that, as messages of one tag are started in the order of their numbers. An eager message arrives by itself. A longer one waits for
 * its receiver, so its sender announces it (TT_CELL_STARTED), but only to ranks that have sent TT_CELL_RECEIVES_ANY for the communicator:
 * each rank does so once, to all connected ranks, with its first receive from any rank, and later to each rank that connects. Without such
 * receives nothing is sent that was not sent before. */
#ifndef TT_ENGINE_ANY_H
#define TT_ENGINE_ANY_H

#include "engine/state.h"

/* Whether a receive is from any rank, and not matched yet. */
static inline bool tt_op_is_from_any(const struct tt_op *op) { return op->conf.coll.root == TT_ROOT_ANY; }

/* Before the first receive from any rank of c: notes which messages were started, and from here on keeps doing so. NOMEM (logged). */
tutti_status tt_any_begin(struct tt_context *c);
/* Whether a receive from any rank with this tag is unmatched. */
bool tt_any_awaits(const struct tt_context *c, uint32_t tag);
/* Whether an operation that starts now has to be an unmatched receive. */
static inline bool tt_any_defers(const struct tt_context *c, const struct tt_op_conf *conf)
{
    return conf->coll.kind == TT_RECV &&
           (conf->coll.root == TT_ROOT_ANY || (c->nunmatched > 0 && tt_any_awaits(c, conf->tag)));
}
/* Matches the unmatched receives with this tag, oldest first, as far as there are messages: of `from`, or, if NULL, of any rank. The context may
 * have failed afterwards. */
void tt_any_match(struct tt_context *c, uint32_t tag, struct tt_context_peer *from);
/* The peer has started the send with this key, for which no receive was found: matches. NOMEM (logged). */
tutti_status tt_any_started(struct tt_context *c, struct tt_context_peer *cp, uint64_t opseq);

/* The peer receives from any rank: announces the sends to it that wait. */
void tt_any_peer_receives(struct tt_context *c, struct tt_context_peer *cp);
/* The send has begun and is not over: announces it, if its receiver receives from any rank. */
void tt_any_announce(struct tt_op *send);
/* A peer has connected. */
void tt_any_connected(struct tt_engine *e);
/* Sends what could not be sent before. */
void tt_any_send_due(struct tt_engine *e);

/* Whether all other ranks have closed the communicator, so that nothing comes any more. */
bool tt_any_is_deserted(const struct tt_op *op);
/* Describes an unmatched receive. call: "recv(4 bytes, type u32)". */
void tt_any_describe(const struct tt_op *op, const char *call, char *out, size_t cap);

#endif
