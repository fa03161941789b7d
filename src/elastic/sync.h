/* Shared state: named arrays that are equal on all members of a scope, and their synchronization
 * (`sync`). Definitions for messages between coordinator and members, and the two hashes that
 * represent a state. docs/shared-state.md describes the whole protocol.
 *
 * A scope is a set of members of the view that share a state: all of them, or those of one role
 * (one of each replica group: if a group shards the state over its roles, each role has its
 * own). Scopes sync independently.
 *
 * One sync, for a member (member.h): it offers its state (tt_member_sync). When all live members of
 * the scope have offered, the coordinator selects one of the contents at the legal revision. The
 * coordinator also determines the holders and receivers. If all members have the state already, the
 * sync is over. Receivers fetch the differences into their own memory (transfer.h), and vote when
 * they have them. When all live receivers have voted, the sync is final. Only then may a receiver's
 * arrays be overwritten. */
#ifndef TT_ELASTIC_SYNC_H
#define TT_ELASTIC_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "reduce/hash.h"

#define TT_SYNC_SCOPES 513u         /* the view's (0), and one per role below 512 (1 + role) */
#define TT_SYNC_ARRAYS_MAX 65536u   /* maximum arrays of a state */
#define TT_SYNC_HOLDERS_MAX 8u      /* sources of a receiver at a time */

enum tt_sync_scope { TT_SYNC_OF_VIEW, TT_SYNC_OF_ROLE };

enum tt_sync_strategy {
    TT_SYNC_POPULAR = 1,    /* the most common content at the legal revision wins; all members of
                               the sync must use this strategy */
    TT_SYNC_RECEIVE,        /* never a candidate */
    TT_SYNC_SEND,           /* the member's state must win, otherwise the member is excluded */
    TT_SYNC_STRATEGIES
};

/* A member's offer. The first sync of a scope may have any revision; afterwards each has the
 * last one plus 1. A member that is behind receives. A member that is ahead, or has other keys
 * than the scope agreed on, is excluded. */
struct tt_sync_offer {
    uint8_t scope;          /* enum tt_sync_scope */
    uint8_t strategy;
    bool instead;           /* ignore the scope's previous state, if all willing members set
                               this: like a first sync */
    uint64_t revision;
    struct tt_hash keys;    /* tt_sync_keys */
    struct tt_hash content; /* tt_sync_content */
};

/* A member's part in a decided sync. */
enum tt_sync_part {
    TT_SYNC_PART_NONE,
    TT_SYNC_KEEPS,          /* has the content, and is no source */
    TT_SYNC_HOLDS,          /* has it, and is a source */
    TT_SYNC_RECEIVES,
    TT_SYNC_PARTS
};

/* A receiver's vote. */
enum tt_sync_vote {
    TT_SYNC_NOT_YET,
    TT_SYNC_GOT,            /* all differences were received, and match the hash */
    TT_SYNC_UNABLE,         /* out of memory, or no source responds: no member is at fault, but the
                               sync fails for all */
    TT_SYNC_BAD,            /* the data of all holders differs from their offer: either they or
                               this member are wrong */
    TT_SYNC_VOTES
};

/* One array of the state. The caller handles host and device memory. */
struct tt_sync_array {
    const char *name;
    uint32_t dtype, ndims;
    const uint64_t *dims;   /* [ndims] */
    uint64_t bytes;
    bool may_differ;        /* the array's data may differ between members: it is neither compared
                               nor transferred */
};

/* Returns the hash of the names, types and shapes of arrays[n] in their order, and of
 * may_differ. */
struct tt_hash tt_sync_keys(const struct tt_sync_array *arrays, uint32_t n);
/* Writes the transferred list of the arrays' hashes: list[16 * n]. Entry i is hashes[i], or
 * zeros if array i may differ. */
void tt_sync_list(uint8_t *list, const struct tt_sync_array *arrays, const struct tt_hash *hashes,
                  uint32_t n);
/* Returns the hash of the list, which represents the content of the arrays. */
struct tt_hash tt_sync_content(const uint8_t *list, uint32_t n);
struct tt_hash tt_sync_entry(const uint8_t *list, uint32_t i);

#endif
