/* Contexts and the state that they keep per peer. All functions require the progress lock,
 * unless stated otherwise. */
#ifndef TT_ENGINE_CONTEXT_H
#define TT_ENGINE_CONTEXT_H

#include <string.h>

#include "engine/state.h"

/* Returns the context `id`, or NULL if it was closed on this rank. No rank uses a context before
 * all ranks have opened it. */
struct tt_context *tt_context_find(struct tt_engine *e, uint32_t id);
/* Returns the state of context c for job rank `rank`, which is created on first use. NULL: out
 * of memory. */
struct tt_context_peer *tt_context_peer_of(struct tt_context *c, uint32_t rank);
/* Returns the peer's rank in the context, or UINT32_MAX if it is not a member. */
uint32_t tt_context_index_of(const struct tt_context *c, struct tt_context_peer *cp);
/* Returns the counter of the sends or receives with `tag`, which determines the next key. Creates
 * it on first use; NULL: out of memory (logged). Valid until the next call. tt_context_counter_find
 * does not create it, and returns NULL if there is none. */
const struct tt_tag_counter *tt_context_counter_find(const struct tt_context_peer *cp, uint32_t tag,
                                                     bool is_recv);
struct tt_tag_counter *tt_context_counter(struct tt_context_peer *cp, uint32_t tag, bool is_recv);
static inline uint64_t tt_tag_key(const struct tt_tag_counter *t)
{
    return (uint64_t)t->tag << 32 | t->next;
}

/* Stores an unexpected message; copies the payload. PROTOCOL: the peer exceeded its credit. */
tutti_status tt_unexpected_keep(struct tt_context_peer *cp, const struct tt_mail *mail,
                                bool claimed);
/* Returns the next unexpected message of the operation at or after *at, or NULL. p2p: the
 * message belongs to a send or receive. */
struct tt_unexpected *tt_unexpected_find(struct tt_context_peer *cp, uint32_t *at, uint64_t opseq,
                                         bool p2p, uint8_t kind, uint8_t type);
/* Frees an unexpected message. Does not return the credit of an eager message. The record is
 * unchanged until the next message is stored. */
void tt_unexpected_drop(struct tt_context_peer *cp, struct tt_unexpected *m);
/* Frees the memory of unexpected messages. Called when the engine is destroyed, after its
 * contexts. */
void tt_unexpected_free_all(struct tt_engine *e);
/* Records that an eager message of this peer was consumed. Its credit is returned with the next
 * message to the peer, or in a separate message. */
void tt_context_add_credit(struct tt_context *c, struct tt_context_peer *cp);
/* Sends pending credit in separate messages, to peers with at least `least` credits to return. */
void tt_context_send_credits(struct tt_context *c, uint32_t least);

static inline bool tt_is_p2p(uint8_t kind) { return kind == TT_SEND || kind == TT_RECV; }

static inline bool tt_is_byte(uint8_t dtype) { return dtype == TUTTI_U8 || dtype == TUTTI_I8; }

/* Returns whether two descriptors belong to matching calls. A send matches its receive if the sizes
 * are equal, and the types are equal or one of them is bytes (tutti.h). */
static inline bool tt_same_desc(const struct tt_opdesc *a, const struct tt_opdesc *b)
{
    if (tt_is_p2p(a->kind))
        return tt_is_p2p(b->kind) && a->count == b->count &&
               (a->dtype == b->dtype || tt_is_byte(a->dtype) || tt_is_byte(b->dtype));
    return memcmp(a, b, sizeof *a) == 0;
}

/* Returns whether a thread is in a call on c, or uses one of its requests. Only for a guarded
 * context. Any thread. */
static inline bool tt_context_is_used(const struct tt_context *c)
{
    return (atomic_load(&c->inside) & ~TT_CONTEXT_SEALED) != 0 || atomic_load(&c->pins) != 0;
}
/* Frees a context without requests (context_life.c). */
void tt_context_free(struct tt_context *c);
/* Frees the state of a context for a peer. */
void tt_context_free_peer(struct tt_context_peer *cp);

#endif
