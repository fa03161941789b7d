/* Transfer of the arrays of a sync, as a pure state machine: one for each member in the sync,
 * whatever its part. A receiver requests the list of the arrays' hashes from a holder; its hash
 * must match the selected content. It then requests the arrays with different hashes in pieces,
 * from all its holders at once, limited by a window for each. A piece contains the sum of its
 * blocks (reduce/hash.h), which is checked on arrival. The sums of all pieces give the array's
 * hash, so no data is read twice. Received data is stored in memory from the caller (stage), not in
 * the arrays. The memory used is the size of the differences, and a failed sync leaves nothing to
 * undo.
 *
 * An array whose pieces came from several holders, and whose hash is wrong, is fetched again
 * from a single holder. A holder that alone sent a wrong array or list is bad, and not used any
 * more. A holder that is silent for `patience_ns`, or sends three pieces with wrong sums, is not
 * used until the next plan. The next plan also handles lost and new holders; pieces requested
 * from a lost one are requested from others.
 *
 * No socket, clock, thread or allocation. The caller passes the time with each call, and performs
 * the actions passed to `emit`. */
#ifndef TT_ELASTIC_TRANSFER_H
#define TT_ELASTIC_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elastic/sync.h"

/* maximum size; pieces consist of whole blocks */
#define TT_TRANSFER_PIECE_BYTES (32u * TT_HASH_BLOCK_BYTES)
/* pieces requested from one holder at a time */
#define TT_TRANSFER_WINDOW 8u
#define TT_TRANSFER_SLOTS (TT_SYNC_HOLDERS_MAX * TT_TRANSFER_WINDOW)
/* holders of one sync in all its plans; further ones are not used */
#define TT_TRANSFER_SOURCES 64u
#define TT_TRANSFER_HEAD_BYTES 52u      /* maximum size of a message before its piece */
#define TT_TRANSFER_LIST UINT32_MAX     /* array index that denotes the list of hashes */

enum tt_transfer_act_kind {
    TT_TRANSFER_ACT_SEND,       /* send head[head_bytes], then body[body_bytes], to `rank` of the
                                   view. body stays valid until the sync is over; if it came from
                                   `read`, until the next call of `read` */
    TT_TRANSFER_ACT_VOTE        /* tt_member_vote(vote); text gives the reason if it is not GOT */
};

struct tt_transfer_act {
    uint8_t kind, vote;
    uint32_t rank;
    const void *head, *body;
    size_t head_bytes, body_bytes;
    const char *text;
};

/* An array while it is fetched. */
struct tt_transfer_item {
    uint64_t bytes;
    const void *data;           /* this member's [bytes]; read for others' requests, unless
                                   `read` is set */
    void *stage;                /* destination: NULL unless it is fetched. The caller copies it
                                   to `data` when the sync is OK */
    struct tt_hash_sum sum;     /* of the received pieces */
    uint64_t got, next;         /* bytes received, and requested */
    uint64_t from, mixed;       /* bitmaps of sources: of the received pieces; of an attempt with
                                   a wrong hash */
    uint32_t alone;             /* the only source used for it; TT_TRANSFER_NONE: any */
    bool here;                  /* complete: no difference, or received with the right hash */
};
#define TT_TRANSFER_NONE UINT32_MAX

struct tt_transfer_conf {
    uint16_t scope;             /* as in messages: tt_member_scope() */
    uint64_t epoch, number;     /* of the sync: m->epoch, m->sync.number at its offer */
    uint32_t narrays;
    struct tt_transfer_item *items;     /* [narrays] with bytes and data set, owned by the
                                           caller, must outlive this */
    const uint8_t *list;        /* [16 * narrays]: of this member's state (tt_sync_list) */
    uint8_t *coming;            /* [16 * narrays]: receives the selected list; owned as `items` */
    uint32_t piece_bytes;       /* of whole blocks; 0: TT_TRANSFER_PIECE_BYTES */
    uint64_t patience_ns;       /* a holder that has sent nothing for this time is not used any
                                   more */
    /* returns memory for an array; NULL: out of memory. The caller frees it */
    void *(*stage)(void *context, uint32_t array, uint64_t bytes);
    /* Returns this member's [bytes] from offset, at most TT_TRANSFER_PIECE_BYTES, valid until
     * the next call. NULL: cannot be read, so no member gets it. If the function is NULL, items
     * have their `data`. */
    const void *(*read)(void *context, uint32_t array, uint64_t offset, uint32_t bytes);
    void (*emit)(void *context, const struct tt_transfer_act *act);
    void *context;
};

struct tt_transfer_source {
    uint32_t rank;
    bool now;                   /* in the last plan */
    bool bad, silent;           /* not used any more */
    uint32_t requested, wrong;      /* currently requested pieces; pieces with wrong sums */
    uint64_t heard_ns;
};

struct tt_transfer_slot {
    uint32_t source;            /* source of the request; NONE: none yet */
    uint32_t array;
    uint32_t bytes;             /* 0: the slot is free */
    uint64_t offset;
};

struct tt_transfer {
    struct tt_transfer_conf conf;
    uint64_t now_ns;
    uint8_t part;               /* enum tt_sync_part; NONE until there is a plan */
    uint8_t vote;
    struct tt_hash content;     /* the selected content */
    struct tt_transfer_item list;       /* the list, while it is fetched */
    struct tt_transfer_source sources[TT_TRANSFER_SOURCES];
    uint32_t nsources;
    struct tt_transfer_slot slots[TT_TRANSFER_SLOTS];
    bool impossible;            /* no content of these arrays matches the hash: an array without
                                   bytes would have to differ */
    uint32_t first;             /* arrays before this one are complete or requested */
    uint32_t missing;           /* incomplete arrays; valid when the list is complete */
    uint64_t bytes_received, bytes_sent;    /* of pieces, for statistics */
};

void tt_transfer_init(struct tt_transfer *t, const struct tt_transfer_conf *conf, uint64_t now_ns);
/* Handles a plan (TT_MEMBER_ACT_SYNC_PLAN): this member's part, the selected content, and the
 * ranks of sources. A later plan only changes these ranks. May vote at once. */
void tt_transfer_plan(struct tt_transfer *t, uint8_t part, const struct tt_hash *content,
                      const uint32_t *holders, uint32_t nholders, uint64_t now_ns);
/* Handles data[bytes] from `rank` of the view; false: protocol violation. Messages of another
 * sync, and repetitions, are dropped. */
bool tt_transfer_peer(struct tt_transfer *t, uint32_t rank, const void *data, size_t bytes,
                      uint64_t now_ns);
/* Returns whether data[bytes] is a message for tt_transfer_peer (not for tt_member_peer). */
bool tt_transfer_is_mine(const void *data, size_t bytes);
/* Returns whether data[bytes] is a request, to which tt_transfer_peer responds with a piece. The
 * caller may delay the request until there is room for the response. */
bool tt_transfer_is_request(const void *data, size_t bytes);
/* Messages to and from `rank` may be lost, because the connection is new: unanswered requests
 * are repeated. */
void tt_transfer_again(struct tt_transfer *t, uint32_t rank, uint64_t now_ns);
/* Time has passed; call at tt_transfer_next_ns at the latest. */
void tt_transfer_tick(struct tt_transfer *t, uint64_t now_ns);
uint64_t tt_transfer_next_ns(const struct tt_transfer *t);

#endif
