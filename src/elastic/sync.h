/* Shared state: named arrays that all members of a scope hold alike, and how they come to hold them alike again (`sync`). What the
 * coordinator and members say to each other of it, and the two hashes that stand for a state. docs/shared-state.md tells the whole story.
 *
 * A scope is a set of members of the view that share one state: all of them, or those of one role (of each replica group one: where a
 * group shards the state over its roles, each role has its own). Scopes sync independently of each other.
 *
 * One sync, from a member's side (member.h): it offers what it has (tt_member_sync). Once all that live in the scope have offered, the
 * coordinator chooses a winner among the contents that are offered at the legal revision, and says who holds it and who receives it; where
 * all hold it already, it is done. Receivers fetch what differs into memory of their own (transfer.h), and vote when they have it; once
 * all that live have, the sync is final: the result, and only then may a receiver's arrays be overwritten. */
#ifndef TT_ELASTIC_SYNC_H
#define TT_ELASTIC_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "reduce/hash.h"

#define TT_SYNC_SCOPES 513u         /* the view's (0), and one of each role below 512 (1 + role) */
#define TT_SYNC_ARRAYS_MAX 65536u   /* of one state */
#define TT_SYNC_HOLDERS_MAX 8u      /* that one receiver fetches from at once */

enum tt_sync_scope { TT_SYNC_OF_VIEW, TT_SYNC_OF_ROLE };

enum tt_sync_strategy {
    TT_SYNC_POPULAR = 1,    /* the most common content at the legal revision wins; all members of the sync must choose this */
    TT_SYNC_RECEIVE,        /* never a candidate */
    TT_SYNC_SEND,           /* must win, else evicted */
    TT_SYNC_STRATEGIES
};

/* What a member has. The first sync of a scope may carry any revision; afterwards each carries exactly one more than the last. Who is
 * behind receives. Who is ahead, or has other keys than the scope agreed on, is evicted. */
struct tt_sync_offer {
    uint8_t scope;          /* enum tt_sync_scope */
    uint8_t strategy;
    bool instead;           /* whatever the scope had: if all who are willing to send say so, this is as a first sync */
    uint64_t revision;
    struct tt_hash keys;    /* tt_sync_keys */
    struct tt_hash content; /* tt_sync_content */
};

/* What a member does in a sync that is decided. */
enum tt_sync_part {
    TT_SYNC_PART_NONE,
    TT_SYNC_KEEPS,          /* has the content, and is not asked for it */
    TT_SYNC_HOLDS,          /* has it, and is */
    TT_SYNC_RECEIVES,
    TT_SYNC_PARTS
};

/* A receiver's word. */
enum tt_sync_vote {
    TT_SYNC_NOT_YET,
    TT_SYNC_GOT,            /* all that differed is here, and hashes to what won */
    TT_SYNC_UNABLE,         /* no memory, or nobody answered: nobody's fault; the sync fails for all */
    TT_SYNC_BAD,            /* what all holders sent is not what was offered: they lie, or this one does */
    TT_SYNC_VOTES
};

/* One array of the state. Host or device memory is the shell's matter. */
struct tt_sync_array {
    const char *name;
    uint32_t dtype, ndims;
    const uint64_t *dims;   /* [ndims] */
    uint64_t bytes;
    bool may_differ;        /* its content is nobody's business: it is not compared and does not travel */
};

/* What stands for the names, types and shapes of arrays[n] in their order, and which may differ. */
struct tt_hash tt_sync_keys(const struct tt_sync_array *arrays, uint32_t n);
/* The list of the arrays' hashes as it travels: list[16 * n]. Entry i is hashes[i], or zeros where array i may differ. */
void tt_sync_list(uint8_t *list, const struct tt_sync_array *arrays, const struct tt_hash *hashes, uint32_t n);
/* What stands for their content. */
struct tt_hash tt_sync_content(const uint8_t *list, uint32_t n);
struct tt_hash tt_sync_entry(const uint8_t *list, uint32_t i);

#endif
