/* Messages between the coordinator and a member, and journal records of the coordinator. Each is
 * one message of some kind, with fixed fields in a fixed order, then at most one list. The table
 * in message.c defines the fields of each kind; docs/elastic-protocol.md uses the same names.
 * The sender may be unauthenticated: a message is accepted completely or not at all. */
#ifndef TT_ELASTIC_MESSAGE_H
#define TT_ELASTIC_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "ringorder/ring_predict.h"
#include "elastic/sync.h"

#define TT_ELASTIC_VERSION 11           /* version of all messages and of the journal */
#define TT_ELASTIC_MEMBERS_MAX 4096u    /* maximum members of a run, including newcomers */
#define TT_ELASTIC_TAGS 256u            /* limit of tags in one view */
#define TT_ELASTIC_TEXT_BYTES 200       /* a message text, or the name of a run, with NUL */
#define TT_COOKIE_BYTES 16
#define TT_SETTLED_BYTES 1024u          /* maximum size of a result that may be SETTLED */
/* Maximum size of a message: all members with the longest cards. */
#define TT_ELMSG_BYTES_MAX (512u + TT_ELASTIC_MEMBERS_MAX * (TT_BLOB_BYTES + 18u))
/* Maximum size of a message with a list of operations: all tags with the longest results. No
 * other message of a member is as long. */
#define TT_ELMSG_OPS_BYTES_MAX (512u + TT_ELASTIC_TAGS * (TT_SETTLED_BYTES + 48u))
_Static_assert(TT_ELMSG_OPS_BYTES_MAX <= TT_ELMSG_BYTES_MAX,
               "a list of operations must fit in a message");

enum tt_elmsg_kind {
    /* member to coordinator */
    TT_ELMSG_JOIN = 1,      /* first message on a connection; a known cookie resumes the membership.
                               number: the next round, or the one in which the member waits; epoch:
                               of that round; what: the call in which it waits, 0: none */
    TT_ELMSG_HEARTBEAT,
    TT_ELMSG_LEAVE,         /* what: enum tt_leave; NOW: epoch; list: operations FINAL or SETTLED
                               here, which others may not have yet */
    TT_ELMSG_CALL,          /* a call that all members make: what: enum tt_call_kind; also: count of
                               the member's calls, including offers, which identifies a
                               repetition */
    TT_ELMSG_CANCEL,        /* number: the round; the caller's deadline passed */
    TT_ELMSG_READY,         /* number: the proposal; list: unreachable members */
    TT_ELMSG_ANSWER,        /* number: the question; list: state of each operation */
    TT_ELMSG_SUSPECT,       /* id does not respond; what: enum tt_suspicion */
    TT_ELMSG_REVOKE,        /* epoch: nothing may begin in it any more; what: enum tt_revocation;
                               id: for CUT, the lost member, 0: unknown */
    TT_ELMSG_OFFER,         /* also a call: the sender's state in the scope; what: enum
                               tt_sync_strategy; flags: enum tt_offer_flags; number: of the sync
                               in this epoch and scope; value: its revision; also: as in CALL */
    TT_ELMSG_WITHDRAW,      /* number: the sync; the caller's deadline passed */
    TT_ELMSG_VOTE,          /* number: the sync; what: enum tt_sync_vote; other: the plan */
    TT_ELMSG_LINKS,         /* number: the measurement; value: bytes of an all-reduce; other:
                               expected number of them; least: gain in percent; list: incoming
                               link from each rank */
    /* coordinator to member */
    TT_ELMSG_WELCOME,       /* id: the receiver's; epoch: of its view, or 0; value: the lease in
                               ns; cookie: the run's secret */
    TT_ELMSG_REFUSED,       /* what: a tutti_status; text: the reason; the connection ends. Same
                               format in all versions */
    TT_ELMSG_ALIVE,         /* response to a heartbeat, or request for one (number 1) */
    TT_ELMSG_UPDATE,
    TT_ELMSG_PROPOSE,       /* number: the proposal; list: members of the proposed view, with
                               cards */
    TT_ELMSG_VIEW,          /* a view was decided in round `number`; what: enum tt_ring_plan;
                               list: its members by rank */
    TT_ELMSG_DROPPED,       /* the receiver is in no view any more, and waits like a newcomer:
                               its group is incomplete */
    TT_ELMSG_RESULT,        /* number: the round; what: enum tt_round_status; op: for a MISMATCH
                               with TT_DIFFERS_INSIDE */
    TT_ELMSG_LOST,          /* number: the question; list: members lost in this epoch, with reasons;
                               what: enum tt_revocation; id: the member that revoked it first, 0:
                               none or unknown; other: REVOKE's id; for APART, a RESULT's mismatch:
                               id, value, other, op. The receiver stops, and answers */
    TT_ELMSG_OUTCOMES,      /* number: the question; list: operations, FINAL, SETTLED or RESTORED */
    TT_ELMSG_PLAN,          /* number: the sync; what: enum tt_sync_part of the receiver; other:
                               number of the plan; value: resulting revision; hash: selected
                               content; list: sources */
    TT_ELMSG_SYNCED,        /* number: the sync; what: enum tt_round_status; value: the common
                               revision; op: as in RESULT */
    /* detection of a member in an operation that another one, in a call of all members, has not
     * begun */
    TT_ELMSG_INSIDE,        /* member to coordinator: op: the operation in which the sender has
                               waited for some time */
    TT_ELMSG_BEGUN,         /* coordinator to a calling member: id is in this op; respond if it
                               was not begun */
    TT_ELMSG_NOT_BEGUN,     /* member to coordinator: response: not begun, and waiting in a call */
    /* journal */
    TT_ELMSG_LOG_START,     /* number: of the coordinator's start; id: the last assigned one;
                               cookie: the run's secret; text: the run */
    TT_ELMSG_LOG_MEMBER,    /* a newcomer */
    TT_ELMSG_LOG_GONE,      /* id was removed */
    TT_ELMSG_LOG_LOST,      /* id is lost; what: enum tt_loss; list: operations FINAL or SETTLED
                               by reports of members that left */
    TT_ELMSG_LOG_VIEW,      /* epoch, number: the round; what: enum tt_ring_plan; list: ids by
                               rank */
    TT_ELMSG_LOG_RESULT,    /* number: the round */
    TT_ELMSG_LOG_PLAN,      /* number: the sync, value, keys, hash; list: `most` holders, then
                               the receivers */
    TT_ELMSG_LOG_SYNC,      /* sync `number` ended: what, id, other; flags 1: there is a state:
                               value, keys, hash; list: members that have it */
    TT_ELMSG_LOG_BACK,      /* calls were taken back with a MISMATCH: flags, id, value, other,
                               also, op: as in RESULT; list: their members, and CALL's `also` */
    TT_ELMSG_KINDS
};
_Static_assert(TT_ELMSG_JOIN == 1 && TT_ELMSG_REFUSED == 15,
               "these numbers are equal in all versions");

enum tt_leave { TT_LEAVE_NOTICE, TT_LEAVE_NOW };
enum tt_suspicion {
    TT_SUSPECT_SILENT,
    TT_SUSPECT_CUT,         /* reconnecting failed for a whole lease */
    TT_SUSPECT_GONE         /* the connection ended, and the member's host refuses connections */
};
enum tt_loss {
    TT_LOSS_DIED,
    TT_LOSS_SILENT,
    TT_LOSS_CUT,
    TT_LOSS_LEFT,
    TT_LOSS_ILLEGAL,
    TT_LOSS_AHEAD,          /* in a sync: the member's revision is ahead of the scope's */
    TT_LOSS_KEYS,           /* in a sync: the member's arrays differ from those that the scope
                               agreed on */
    TT_LOSS_NOT_TAKEN,      /* in a sync: the member was willing only to send, and another state was
                               selected */
    TT_LOSS_FALSE,          /* in a sync: the member's state differs from its report */
    TT_LOSSES
};

enum tt_call_kind {
    TT_CALL_EPOCH = 1,      /* flags: enum tt_epoch_flags; least, most: members */
    TT_CALL_AGREE,          /* value: flags; the result is the AND of all members' */
    TT_CALL_COMMIT,         /* value: 1 if the step is good here; higher bits: a hash of the
                               operations begun here, equal on all members unless the epoch is
                               over. RESULT: 1 if all were good */
    TT_CALL_OPTIMIZE,       /* other: number of the measurement in LINKS, sent before or later, 0:
                               none; value: bytes; least: gain in percent. RESULT: value 1: a better
                               order is pending until the next epoch; id, other: ns of an all-reduce
                               in the current and the best order */
    TT_CALL_SYNC,           /* of one scope; sent as OFFER */
    TT_CALL_KINDS
};

enum tt_epoch_flags { TT_EPOCH_ADMIT = 1 };     /* else the view can only shrink */
/* if all willing members set it, this is treated as a first sync */
enum tt_offer_flags { TT_OFFER_INSTEAD = 1 };

/* Reason for which a member revoked the epoch. */
enum tt_revocation {
    TT_REVOKED_NO_REASON,   /* not revoked; or repeated, after another member's deadline or for a
                               restarted coordinator */
    TT_REVOKED_BY_CALL,    /* requested by its program */
    TT_REVOKED_CUT,      /* the member lost another one, or the connection to it */
    TT_REVOKED_LATE,     /* a deadline of the member passed */
    TT_REVOKED_MISMATCH, /* the member found that members called different operations */
    TT_REVOKED_FAILED,   /* another failure of the member */
    TT_REVOKED_APART,    /* revoked by the coordinator: some members wait in an operation, and
                            others in a call of all members */
    TT_REVOCATIONS
};

/* Reason why a newcomer cannot join a view, whatever its members call. */
enum tt_kept_out {
    TT_KEPT_OUT_NOT,
    TT_KEPT_OUT_MOST, /* the newcomer's own limit `most` */
    TT_KEPT_OUT_GROUP /* the newcomer's replica group is incomplete */
};

enum tt_round_status {
    TT_ROUND_OK,
    TT_ROUND_SAME,          /* of epoch: unchanged view; of sync: all had the state, none
                               received */
    TT_ROUND_TIMEOUT,       /* the caller's deadline passed: its call was taken back without effect.
                               id: a member that had not called, or 0. If 0, for epoch: value:
                               members in the view; other: waiting newcomers, including the caller
                               if it is one; flags: for a newcomer, enum tt_kept_out; for optimize:
                               other: a member that had not reported its measurement, or 0 */
    TT_ROUND_MISMATCH,      /* members made different calls: flags: enum tt_difference and bits;
                               id: a member, value: its call; other: another member, also: its
                               call. In a round with TT_DIFFERS_BACK, and in a sync, the call is
                               taken back, as after a deadline */
    TT_ROUND_TOO_FEW,       /* fewer than `least` would be left */
    TT_ROUND_LOST,          /* of agree and commit: the value is that of the remaining members
                               (of commit: 0, also if the epoch was revoked); of sync: all
                               holders are lost */
    /* results of a sync; nothing has changed, as with all results except OK and SAME */
    TT_ROUND_NOBODY,        /* no member is willing to send a state of the legal revision; value:
                               the last revision */
    TT_ROUND_OTHER_STATE,   /* no member has the agreed arrays; or, in a new cohort, none has the
                               state of the last sync; value: its revision */
    TT_ROUND_ABANDONED,     /* the deadline of id passed while others received */
    TT_ROUND_NOT_RECEIVED,  /* id could not receive it */
    TT_ROUND_STATUSES
};

/* The members that an operation waits for. */
enum tt_op_needs {
    TT_OP_NEEDS_ALL,
    TT_OP_NEEDS_ROLE,       /* for a tentative operation: the members of the role */
    TT_OP_NEEDS_GROUP,      /* for a tentative operation: the members of the group */
    TT_OP_NEEDS
};

/* Description of an operation in progress, in messages. */
struct tt_op_name {
    uint64_t n, count;      /* n: sequence number within the tag and epoch; 0: none. count: 0:
                               none, or several */
    uint16_t tag;
    uint8_t needs;          /* enum tt_op_needs */
    uint8_t coll, type;     /* tutti_coll, tutti_dtype */
};

/* Identifies one of a member's calls. */
struct tt_call_name {
    uint64_t id, attempt;   /* attempt: CALL's `also` */
};

/* A lost member. */
struct tt_loss_name {
    uint64_t id;
    uint8_t why;            /* enum tt_loss */
};

/* State of an operation at a member. */
enum tt_op_state {
    TT_OP_NONE,
    TT_OP_PENDING,          /* begun */
    TT_OP_COMPLETE,         /* this member's part is done; the others' parts are unknown */
    TT_OP_SETTLED,          /* this member's part is done, and its small result is kept: members
                               without it receive it */
    TT_OP_FINAL,            /* all have completed it: its result is never undone */
    TT_OP_RESTORED,         /* the operation had no effect: its input is unchanged */
    TT_OP_STATES
};

/* A membership update: the result of `poll`. Numbered, so that the latest of several is
 * identified. */
struct tt_membership {
    uint64_t number;
    uint32_t newcomers;     /* newcomers that an epoch would admit */
    uint32_t lost, leaving;
    uint32_t revoked;
    uint32_t better;        /* a better ring order is pending until the next epoch */
};

static inline bool tt_membership_are_same(const struct tt_membership *a,
                                          const struct tt_membership *b)
{
    return a->number == b->number && a->newcomers == b->newcomers && a->lost == b->lost &&
           a->leaving == b->leaving && a->revoked == b->revoked && a->better == b->better;
}

/* Origin and purpose of the order of a view's ranks: values from AS_RING as in enum
 * tt_ring_shape. */
enum tt_ring_plan {
    TT_RING_UNMEASURED,     /* not optimized */
    TT_RING_AS_RING,        /* predicted to be fastest as a ring */
    TT_RING_AS_TWO_RINGS,   /* as two rings in opposite directions */
    TT_RING_AS_TREES,       /* as two trees */
    TT_RING_PLANS
};

/* An incoming link, as measured. */
struct tt_ring_link {
    uint64_t rate;          /* bytes/s; 0: could not be measured */
    uint64_t latency;       /* ns, one way */
};

/* A member in a list. */
struct tt_surroundings_seat {
    uint64_t id;
    uint32_t group, role;
    struct tt_blob card;    /* opaque here: its addresses */
};

/* In an answer that is neither FINAL nor SETTLED, with n of at least 2: the state of the
 * previous operation, if not FINAL. */
enum tt_op_before {
    TT_BEFORE_FINAL,        /* FINAL, or there is none */
    TT_BEFORE_TENTATIVE,    /* the previous operation's outcome depends on this one's: COMPLETE, or
                               RESTORED with this one */
    TT_BEFORE_SETTLED,
    TT_BEFORES
};

/* In an outcome, FINAL or SETTLED applies to all operations of the tag up to this one; later ones
 * are RESTORED. */
struct tt_op_entry {
    uint8_t state;          /* enum tt_op_state */
    uint8_t before;         /* enum tt_op_before */
    uint16_t tag;
    uint64_t n;             /* 1-based sequence number within the tag and epoch */
    struct tt_membership news;    /* common update of the last FINAL operation: this one, or one of
                                     the two before */
    uint16_t nresult;       /* size of the result of the SETTLED operation, which is this or the
                               previous one: */
    const uint8_t *result;  /* [nresult], in the message being read, or the writer's */
};

/* Returns the last operation of the tag that is complete on all members, according to this
 * entry; 0: none. */
static inline uint64_t tt_op_last_complete(const struct tt_op_entry *e)
{
    return e->state == TT_OP_FINAL ? e->n : e->n - 1 - (e->before != TT_BEFORE_FINAL);
}

/* Returns the operation that is SETTLED at the sender; 0: none. */
static inline uint64_t tt_op_settled(const struct tt_op_entry *e)
{
    return e->state == TT_OP_SETTLED ? e->n : e->before == TT_BEFORE_SETTLED ? e->n - 1 : 0;
}

struct tt_elmsg {
    uint8_t kind;
    uint8_t what, flags;
    uint64_t id, other, epoch, number, value, also;
    uint32_t least, most;
    uint32_t group, role, nroles;
    uint16_t scope;             /* 0: of the view; 1 + role */
    struct tt_hash keys, hash;
    uint8_t cookie[TT_COOKIE_BYTES];
    struct tt_membership news;
    struct tt_op_name op;
    struct tt_blob card;
    char text[TT_ELASTIC_TEXT_BYTES];
    uint32_t nlist;
    struct tt_reader list;      /* the list of a received message, checked; read nlist entries
                                   with the calls below */
};

/* Reads data[bytes]; false if it is not exactly one message of a known kind with valid values.
 * The list stays in data. */
bool tt_elmsg_read(struct tt_elmsg *m, const void *data, size_t bytes);
/* Read the next entry of a list of members, ids, operations, links, calls, or losses, depending on
 * the message's kind. */
void tt_elmsg_next_seat(struct tt_elmsg *m, struct tt_surroundings_seat *out);
uint64_t tt_elmsg_next_id(struct tt_elmsg *m);
void tt_elmsg_next_op(struct tt_elmsg *m, struct tt_op_entry *out);
void tt_elmsg_next_link(struct tt_elmsg *m, struct tt_ring_link *out);
void tt_elmsg_next_call(struct tt_elmsg *m, struct tt_call_name *out);
void tt_elmsg_next_loss(struct tt_elmsg *m, struct tt_loss_name *out);

/* Writing: begin with the fixed fields of m, add the list's entries, then end, which returns the
 * size, or 0 if the message did not fit. */
struct tt_elmsg_writer {
    struct tt_writer w;
    uint8_t *count_at;          /* NULL: this kind has no list */
    uint32_t n;
};
void tt_elmsg_begin(struct tt_elmsg_writer *w, void *data, size_t cap, const struct tt_elmsg *m);
void tt_elmsg_add_seat(struct tt_elmsg_writer *w, const struct tt_surroundings_seat *seat);
void tt_elmsg_add_id(struct tt_elmsg_writer *w, uint64_t id);
void tt_elmsg_add_op(struct tt_elmsg_writer *w, const struct tt_op_entry *op);
void tt_elmsg_add_link(struct tt_elmsg_writer *w, const struct tt_ring_link *link);
void tt_elmsg_add_call(struct tt_elmsg_writer *w, const struct tt_call_name *call);
void tt_elmsg_add_loss(struct tt_elmsg_writer *w, const struct tt_loss_name *loss);
size_t tt_elmsg_end(struct tt_elmsg_writer *w);
/* Writes a message without entries. */
size_t tt_elmsg_write(void *data, size_t cap, const struct tt_elmsg *m);

/* ---- other versions ---- */
/* Returns the version of a message or record; 0: too short. */
uint8_t tt_elmsg_version(const void *data, size_t bytes);
/* Writes a REFUSED for a receiver of that version. Result as tt_elmsg_write; a text that is too
 * long is truncated. */
size_t tt_elmsg_write_refusal(void *data, size_t cap, uint8_t version, uint8_t status,
                              const char *text);
/* Reads a REFUSED of any version. */
bool tt_elmsg_read_refusal(struct tt_elmsg *m, const void *data, size_t bytes);

/* Returns "JOIN" etc.; "?" for an unknown kind. */
const char *tt_elmsg_name(uint8_t kind);

#endif
