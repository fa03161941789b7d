/* Parts of a node of the start-up tree, upper layers first: tree.c (the node and its parent),
 * tree_child.c (frames, and children), tree_place.c (places), tree_root.c (the root's table of
 * ranks). */
#ifndef TT_BOOT_TREE_STATE_H
#define TT_BOOT_TREE_STATE_H

#include "base/clock.h"
#include "boot/tree.h"

enum tt_tree_frame {
    TT_TREE_CHALLENGE = 1,      /* earlier versions of the protocol have this type, too */
    TT_TREE_JOIN = 33,
    TT_TREE_WELCOME,
    TT_TREE_REDIRECT,
    TT_TREE_UP,
    TT_TREE_DOWN,
    TT_TREE_REJECT,
    TT_TREE_REFUSED,
    TT_TREE_DONE
};

enum {                          /* flags of JOIN */
    TT_TREE_JOIN_SERVES = 1,
    TT_TREE_JOIN_CARD = 2,
    TT_TREE_JOIN_REFUSES = 4,
    TT_TREE_JOIN_CONSTANTS = 8,
    TT_TREE_JOIN_PLACE = 16
};
enum tt_tree_kind { TT_TREE_LOCAL, TT_TREE_LEADER };        /* of a child */
enum tt_tree_scope { TT_TREE_OF_RANK, TT_TREE_OF_JOB };     /* of REFUSED */

enum tt_tree_stage {
    TT_TREE_STRANGER,           /* no proof yet */
    TT_TREE_CHILD,
    TT_TREE_ENDED               /* CLOSE is emitted; to be removed from the list */
};

#define TT_TREE_CLAIMS 4

/* A report as received; encoded[bytes] is forwarded unchanged. When a server moves to another
 * parent, its old path and its new one report the same ranks for a while, in any order. Therefore
 * each child that sends a report has a claim on it, and the report is released with its last
 * claim. */
struct tt_tree_report {
    uint32_t reporter, generation;
    uint64_t process;
    struct tt_tree_conn *claims[TT_TREE_CLAIMS];    /* oldest first; none: this node's own host */
    uint32_t nclaims;
    bool gone;
    bool changed;               /* to be forwarded */
    bool undone;                /* the child was lost without DONE */
    uint8_t *encoded;
    size_t bytes;
};

/* The root's state of all ranks. */
struct tt_tree_ranks {
    uint32_t nranks, njoined;
    uint32_t *owner;            /* [nranks] reporter plus 1; 0: missing */
    uint32_t *tag;              /* [nranks] of the owner's process */
    uint8_t *left;              /* [nranks] the rank had joined, but was lost */
    struct tt_tree_run *runs;   /* complete: [nruns], sorted */
    uint32_t nruns;
    uint8_t *layout;
    size_t layout_bytes;
    uint8_t *constants;
    uint16_t constants_bytes;
    uint8_t *table;             /* complete: of all ranks; NULL if no rank has an address record */
    size_t table_bytes;
};

/* State of the connection to the parent. */
enum tt_tree_up_stage {
    TT_TREE_UP_NONE,
    TT_TREE_UP_CONNECTING,
    TT_TREE_UP_OPEN,
    TT_TREE_UP_JOINING,
    TT_TREE_UP_JOINED
};

/* Routes a rejection of one rank towards it. */
typedef void tt_tree_reject_fn(struct tt_tree *t, uint32_t reporter, uint32_t rank,
                               tutti_status status, const char *sentence);

/* ---- tree_child.c ---- */

/* Sends a frame with its proof. c is &t->up for the parent. Closes the connection if out of
 * memory. */
void tt_tree_send(struct tt_tree *t, struct tt_tree_conn *c, uint8_t type, const void *said,
                  size_t bytes);
/* Checks the proof of a frame, and sets *said to its contents. */
bool tt_tree_check(const struct tt_tree *t, struct tt_tree_conn *c, const struct tt_frame *f,
                   struct tt_reader *said);
/* Returns the input of the proof of the connection's next frame, sent or received. */
struct tt_tree_proof tt_tree_proof_of(const struct tt_tree *t, const struct tt_tree_conn *c,
                                      bool sends, uint8_t type);
void tt_tree_close(struct tt_tree *t, struct tt_tree_conn *c);
/* Returns whether this node reports the ranks of its host. */
bool tt_tree_reports(const struct tt_tree *t);
/* Waits for a lost part of this node, which may reconnect for its place. */
void tt_tree_wait_for(struct tt_tree *t, bool *undone);
void tt_tree_child_open(struct tt_tree *t, struct tt_tree_conn *c,
                        const uint8_t nonce[TT_NONCE_BYTES], uint64_t now_ns);
void tt_tree_child_frame(struct tt_tree *t, struct tt_tree_conn *c, const struct tt_frame *f,
                         uint64_t now_ns);
/* The child is disconnected: its ranks are missing until they join again. */
void tt_tree_child_lost(struct tt_tree *t, struct tt_tree_conn *c);
void tt_tree_refuse(struct tt_tree *t, struct tt_tree_conn *c, tutti_status status,
                    const char *sentence, uint8_t scope);
tt_tree_reject_fn tt_tree_reject;
/* Adds the rank to this host, or replaces its seat. Copies *seat, and all that it refers to.
 * Returns false if out of memory. */
bool tt_tree_take_seat(struct tt_tree *t, const struct tt_tree_seat *seat);
void tt_tree_seat_fini(struct tt_tree_seat *seat);
/* The place is available: sends it to all children. */
void tt_tree_distribute(struct tt_tree *t);
/* Removes connections that have ended from the list. */
void tt_tree_sweep(struct tt_tree *t);

/* ---- tree_place.c ---- */

/* Returns the seat of a rank of this host, or NULL. */
struct tt_tree_seat *tt_tree_find_seat(const struct tt_tree *t, uint32_t rank);
/* Returns whether child c claims this report. */
bool tt_tree_has_claim(const struct tt_tree_report *report, const struct tt_tree_conn *c);
/* Returns whether this node has the place of this leader. */
bool tt_tree_has_place(const struct tt_tree *t, const struct tt_tree_conn *c);
/* Returns whether the table is passed to this child by the caller. */
bool tt_tree_shares_with(const struct tt_tree *t, const struct tt_tree_conn *c);
/* PLACED: sets the addresses of the ranks before and after a rank of this host. Returns false if
 * they are unknown. */
bool tt_tree_around(const struct tt_tree *t, uint32_t rank, struct tt_tree_address *before,
                    struct tt_tree_address *after);
/* Returns the contents of DOWN for a child: malloc'd, NULL if out of memory. *bytes is 0 if none of
 * its ranks has a place. */
uint8_t *tt_tree_encode_place(const struct tt_tree *t, const struct tt_tree_conn *c, size_t *bytes);
/* Reads this node's place from t->down, where it stays. Returns false if it is invalid. */
bool tt_tree_read_place(struct tt_tree *t);

/* ---- tree_root.c ---- */

/* Allocates the table when the number of ranks is known. Returns false if out of memory. */
bool tt_tree_root_begin(struct tt_tree *t, uint32_t nranks);
void tt_tree_root_fini(struct tt_tree *t);
/* Adds or removes the ranks of a report. reject is called for ranks that another process already
 * has. */
void tt_tree_root_add(struct tt_tree *t, const struct tt_tree_report *report,
                      tt_tree_reject_fn *reject);
void tt_tree_root_remove(struct tt_tree *t, const struct tt_tree_report *report);
/* Counts a refusal, and keeps its cause for later reports. */
void tt_tree_note_refusal(struct tt_tree *t, const char *sentence);
/* If all ranks have joined: compares their settings, makes the layout, and sets state to PLACED. An
 * error of the job, e.g. of a rank that cannot start, is described in sentence. */
tutti_status tt_tree_root_check(struct tt_tree *t, char sentence[TT_TREE_SENTENCE_BYTES]);
/* The earliest deadline has passed: describes the missing ranks. */
void tt_tree_root_describe(const struct tt_tree *t, uint64_t now_ns,
                           char sentence[TT_TREE_SENTENCE_BYTES]);
/* Writes the entry of DOWN for a report: the ranks before and after each run. */
void tt_tree_root_write_entry(const struct tt_tree *t, const struct tt_tree_report *report,
                              struct tt_writer *w);

#endif
