/* Contexts and what they keep of their peers. Under the baton unless said otherwise. */
#ifndef TT_ENGINE_CONTEXT_H
#define TT_ENGINE_CONTEXT_H

#include <string.h>

#include "engine/state.h"

/* The context `id`; NULL: it was closed here. No rank uses one before all have opened it. */
struct tt_context *tt_context_find(struct tt_engine *e, uint32_t id);
/* What context c keeps of job rank `rank`, made at first use; NULL without memory. */
struct tt_context_peer *tt_context_peer_of(struct tt_context *c, uint32_t rank);
/* The peer's rank in the context; UINT32_MAX if it is not in it. */
uint32_t tt_context_index_of(const struct tt_context *c, struct tt_context_peer *cp);
/* The counter of the sends or receives with `tag`, from which the next one's key is made; NULL (logged) without memory.
 * Valid until the next call. find: NULL if there was none of that tag yet. */
const struct tt_tag_counter *tt_context_counter_find(const struct tt_context_peer *cp, uint32_t tag, bool is_recv);
struct tt_tag_counter *tt_context_counter(struct tt_context_peer *cp, uint32_t tag, bool is_recv);
static inline uint64_t tt_tag_key(const struct tt_tag_counter *t) { return (uint64_t)t->tag << 32 | t->next; }

/* Keeps a message that no operation can take yet; copies the payload. PROTOCOL if the peer sent more than it may. */
tutti_status tt_early_keep(struct tt_context_peer *cp, const struct tt_mail *mail, bool claimed);
/* The next kept message at or after *at for the operation; NULL: none. p2p: its desc is of a send or receive. */
struct tt_early *tt_early_find(struct tt_context_peer *cp, uint32_t *at, uint64_t opseq, bool p2p, uint8_t kind,
                               uint8_t type);
/* Frees it; an eager one gives its credit back to the peer. */
void tt_early_drop(struct tt_context_peer *cp, struct tt_early *m);
/* One eager message of this peer was consumed: its credit goes back with the next message, or one of its own. */
void tt_context_owe(struct tt_context *c, struct tt_context_peer *cp);
/* Sends credit that has found no message to go with, to peers that are owed at least `least`. */
void tt_context_pay(struct tt_context *c, uint32_t least);

static inline bool tt_is_p2p(uint8_t kind) { return kind == TT_SEND || kind == TT_RECV; }

static inline bool tt_is_byte(uint8_t dtype) { return dtype == TUTTI_U8 || dtype == TUTTI_I8; }

/* Whether two ranks have called the same; a send and its receive are, if they agree on the bytes, and on the type unless one of them says that it
 * is bytes (tutti.h). */
static inline bool tt_same_desc(const struct tt_opdesc *a, const struct tt_opdesc *b)
{
    if (tt_is_p2p(a->kind))
        return tt_is_p2p(b->kind) && a->count == b->count &&
               (a->dtype == b->dtype || tt_is_byte(a->dtype) || tt_is_byte(b->dtype));
    return memcmp(a, b, sizeof *a) == 0;
}

/* Whether somebody is in a call on c, or with a request of it; of a guarded one, any thread. */
bool tt_context_is_used(const struct tt_context *c);
/* Fails c under the baton; `tell`: others shall hear of it. */
void tt_context_fail_here(struct tt_context *c, tutti_status status, const char *sentence, bool tell);

#endif
