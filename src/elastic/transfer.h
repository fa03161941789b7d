/* How the arrays of a sync travel, as a pure state machine: one for each member that is in the sync, whatever its part. A receiver asks a
 * holder for the list of its arrays' hashes, which must hash to what won; the arrays whose hash differs from ours it then asks for in
 * pieces, of all its holders at once, so many each as the window says. A piece comes with the sum of its blocks (reduce/hash.h), so it
 * is checked as it comes, and the sums of all pieces are the array's hash: nothing is read twice. What comes goes into memory that the
 * shell gives for it (stage), never into the arrays: it costs as much memory as differs, and nothing is to be undone if the sync fails.
 *
 * An array whose pieces came from several holders and whose hash is wrong is fetched again from one of them alone; who alone sent an
 * array or a list that is wrong is bad, and asked no more. Who is silent for `patience_ns`, or sends three pieces whose sums are wrong, is not
 * asked until the next plan. A holder that is lost or new comes
 * in with the next plan; what was asked of the lost one is asked of others.
 *
 * No socket, clock, thread or allocation; the shell calls, each with the time, and carries out what comes through the two functions. */
#ifndef TT_ELASTIC_TRANSFER_H
#define TT_ELASTIC_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elastic/sync.h"

#define TT_TRANSFER_PIECE_BYTES (32u * TT_HASH_BLOCK_BYTES) /* most of a piece's; pieces are of whole blocks */
#define TT_TRANSFER_WINDOW 8u                               /* pieces asked of one holder at once */
#define TT_TRANSFER_SLOTS (TT_SYNC_HOLDERS_MAX * TT_TRANSFER_WINDOW)
#define TT_TRANSFER_SOURCES 64u         /* holders of one sync in all its plans; beyond, new ones are not asked */
#define TT_TRANSFER_HEAD_BYTES 52u      /* at most, of a message before its piece */
#define TT_TRANSFER_LIST UINT32_MAX     /* the "array" that is the list of hashes */

enum tt_transfer_act_kind {
    TT_TRANSFER_ACT_SEND,       /* head[head_bytes], then body[body_bytes], to `rank` of the view; body stays as it is until the sync is over, or, where
                                 * `read` gave it, until that is called again */
    TT_TRANSFER_ACT_VOTE        /* tt_member_vote(vote); text says why it is not GOT */
};

struct tt_transfer_act {
    uint8_t kind, vote;
    uint32_t rank;
    const void *head, *body;
    size_t head_bytes, body_bytes;
    const char *text;
};

/* One array while it is fetched. */
struct tt_transfer_item {
    uint64_t bytes;
    const void *data;           /* ours, [bytes]; read while others ask for it, unless there is a function for that */
    void *stage;                /* where what comes goes: NULL unless it is fetched. The shell copies it to `data` when the sync is OK */
    struct tt_hash_sum sum;     /* of the pieces that came */
    uint64_t got, next;         /* bytes that came, that were asked for */
    uint64_t from, mixed;       /* bits of sources: who sent some of it; who did when it came out wrong */
    uint32_t alone;             /* source that alone is asked for it; TT_TRANSFER_NONE */
    bool here;                  /* we have it: it did not differ, or all came and its hash is right */
};
#define TT_TRANSFER_NONE UINT32_MAX

struct tt_transfer_conf {
    uint16_t scope;             /* as messages have it: tt_member_scope() */
    uint64_t epoch, number;     /* which sync: of m->epoch, m->sync.number when it was offered */
    uint32_t narrays;
    struct tt_transfer_item *items;     /* [narrays] with bytes and data set, the caller's, as long as this lives */
    const uint8_t *list;        /* [16 * narrays]: of what we have (tt_sync_list) */
    uint8_t *coming;            /* [16 * narrays]: room for what won, likewise */
    uint32_t piece_bytes;       /* of whole blocks; 0: TT_TRANSFER_PIECE_BYTES */
    uint64_t patience_ns;       /* a holder from which nothing came for so long is asked no more */
    void *(*stage)(void *context, uint32_t array, uint64_t bytes);  /* memory for an array; NULL: there is none. The shell frees it */
    /* Ours from offset on, [bytes], at most TT_TRANSFER_PIECE_BYTES, as it stays until the next call; NULL: it cannot be read, and nobody gets it. Where the
     * function is NULL items have their `data`. */
    const void *(*read)(void *context, uint32_t array, uint64_t offset, uint32_t bytes);
    void (*emit)(void *context, const struct tt_transfer_act *act);
    void *context;
};

struct tt_transfer_source {
    uint32_t rank;
    bool now;                   /* in the last plan */
    bool bad, silent;           /* asked no more */
    uint32_t asked, wrong;      /* pieces that are asked for now; that were wrong */
    uint64_t heard_ns;
};

struct tt_transfer_slot {
    uint32_t source;            /* whom it is asked of; NONE: nobody yet */
    uint32_t array;
    uint32_t bytes;             /* 0: the slot is free */
    uint64_t offset;
};

struct tt_transfer {
    struct tt_transfer_conf conf;
    uint64_t now_ns;
    uint8_t part;               /* enum tt_sync_part; NONE until there is a plan */
    uint8_t vote;
    struct tt_hash content;     /* what won */
    struct tt_transfer_item list;       /* the list, while it is fetched */
    struct tt_transfer_source sources[TT_TRANSFER_SOURCES];
    uint32_t nsources;
    struct tt_transfer_slot slots[TT_TRANSFER_SLOTS];
    bool impossible;            /* no content of these arrays hashes to what won: an array without bytes would have to differ */
    uint32_t first;             /* arrays before this one are here or asked for */
    uint32_t missing;           /* arrays that are not here yet; valid once the list is */
    uint64_t bytes_received, bytes_sent;    /* of pieces, for statistics */
};

void tt_transfer_init(struct tt_transfer *t, const struct tt_transfer_conf *conf, uint64_t now_ns);
/* A plan (TT_MEMBER_ACT_SYNC_PLAN): our part, what won, and ranks of whom to fetch from. A later one only changes these ranks. May vote at
 * once. */
void tt_transfer_plan(struct tt_transfer *t, uint8_t part, const struct tt_hash *content, const uint32_t *holders,
                      uint32_t nholders, uint64_t now_ns);
/* data[bytes] from `rank` of the view; false if that is no message, or one that it cannot have sent: it breaks the protocol. What is of another
 * sync, or came before, is dropped. */
bool tt_transfer_peer(struct tt_transfer *t, uint32_t rank, const void *data, size_t bytes, uint64_t now_ns);
/* Whether data[bytes] is a message for tt_transfer_peer (and not for tt_member_peer). */
bool tt_transfer_is_mine(const void *data, size_t bytes);
/* Whether it asks for something: tt_transfer_peer answers with a piece. The shell may keep it until there is room for that. */
bool tt_transfer_is_request(const void *data, size_t bytes);
/* What was said between us and `rank` may be lost, as the connection is a new one: what it is asked for and has not sent is asked again. */
void tt_transfer_again(struct tt_transfer *t, uint32_t rank, uint64_t now_ns);
/* Time passed; to be called at tt_transfer_next_ns at the latest. */
void tt_transfer_tick(struct tt_transfer *t, uint64_t now_ns);
uint64_t tt_transfer_next_ns(const struct tt_transfer *t);

#endif
