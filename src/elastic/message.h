/* What the coordinator and a member say to each other, and what the coordinator writes into its journal: one kind of message each,
 * with fixed fields in a fixed order, then at most one list. The table in message.c says which kind has which; docs/elastic-protocol.md
 * is drawn from the same names. Everything that is read here may come from a stranger: a message is taken whole or not at all. */
#ifndef TT_ELASTIC_MESSAGE_H
#define TT_ELASTIC_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "elastic/ring_predict.h"
#include "elastic/sync.h"

#define TT_ELASTIC_VERSION 10           /* of all that is said, and of the journal */
#define TT_ELASTIC_MEMBERS_MAX 4096u    /* of a run, newcomers counted in */
#define TT_ELASTIC_TAGS 256u            /* tags of operations of one view are below this */
#define TT_ELASTIC_TEXT_BYTES 200       /* a sentence, or the name of a run, with its NUL */
#define TT_COOKIE_BYTES 16
#define TT_SETTLED_BYTES 1024u          /* the longest result that may be SETTLED */
/* An upper bound of a message's bytes: all members with the longest cards. */
#define TT_ELMSG_BYTES_MAX (512u + TT_ELASTIC_MEMBERS_MAX * (TT_BLOB_BYTES + 18u))
/* Of one with a list of operations: all tags with the longest results. Nothing else that a member says is as long. */
#define TT_ELMSG_OPS_BYTES_MAX (512u + TT_ELASTIC_TAGS * (TT_SETTLED_BYTES + 48u))
_Static_assert(TT_ELMSG_OPS_BYTES_MAX <= TT_ELMSG_BYTES_MAX, "it is a message");

enum tt_elmsg_kind {
    /* member to coordinator */
    TT_ELMSG_JOIN = 1,      /* the first on a connection; with a cookie that is known it takes up where the member was: number: of the round
                             * that it calls next or waits in, of which epoch; what: the call it waits in, 0: none */
    TT_ELMSG_HEARTBEAT,
    TT_ELMSG_LEAVE,         /* what: enum tt_leave; NOW: epoch; the list: which operations I know to be FINAL, as others may not yet, or have SETTLED */
    TT_ELMSG_CALL,          /* a call that all members make: what: enum tt_call_kind; also: how many calls, this one and offers counted in, it has made: so it is
                             * known where it comes again */
    TT_ELMSG_CANCEL,        /* number: the round; the caller's deadline passed */
    TT_ELMSG_READY,         /* number: the proposal; the list: whom I could not reach */
    TT_ELMSG_ANSWER,        /* number: the question; the list: where I stand in each operation */
    TT_ELMSG_SUSPECT,       /* id does not answer me; what: enum tt_suspicion */
    TT_ELMSG_REVOKE,        /* epoch: nothing more may begin in it; what: enum tt_revocation; id: of CUT: the member that was lost to it, 0: it cannot say */
    TT_ELMSG_OFFER,         /* a call as well: what I have of the scope's state; what: enum tt_sync_strategy; flags: enum tt_offer_flags;
                             * number: of the sync in this epoch and scope; value: my revision; also: CALL's */
    TT_ELMSG_WITHDRAW,      /* of sync number: the caller's deadline passed */
    TT_ELMSG_VOTE,          /* of sync number; what: enum tt_sync_vote; other: the plan */
    TT_ELMSG_LINKS,         /* of measurement number; value: bytes of an all-reduce; other: how many are to come; least: gain in percent;
                             * the list: what comes to me from each rank */
    /* coordinator to member */
    TT_ELMSG_WELCOME,       /* id: yours; epoch: of the view you are in, or 0; value: the lease in ns; cookie: the run's secret */
    TT_ELMSG_REFUSED,       /* what: a tutti_status; text: why; the connection ends. The same bytes in all versions */
    TT_ELMSG_ALIVE,         /* answers a heartbeat, and asks for one (number 1) */
    TT_ELMSG_NEWS,
    TT_ELMSG_PROPOSE,       /* number: the proposal; the list: the members of the view to be, with cards */
    TT_ELMSG_VIEW,          /* a view is decided, in round number; what: enum tt_ring_plan; the list: its members in the order of their ranks */
    TT_ELMSG_DROPPED,       /* you are in no view any longer, and wait with the newcomers: your group is not complete */
    TT_ELMSG_RESULT,        /* of round number: what: enum tt_round_status; op: of a MISMATCH with TT_DIFFERS_INSIDE */
    TT_ELMSG_LOST,          /* number: the question; the list: who is lost in this epoch; what: enum tt_revocation, id: who revoked it first, 0: nobody,
                             * or it is not known; other: REVOKE's id; of APART as a RESULT's mismatch: id, value, other, op. Stop, and answer */
    TT_ELMSG_VERDICTS,      /* number: the question; the list: operations, FINAL, SETTLED or RESTORED */
    TT_ELMSG_PLAN,          /* of sync number; what: enum tt_sync_part, yours; other: the plan's number; value: the revision that it
                             * leads to; hash: what won; the list: whom to fetch from */
    TT_ELMSG_SYNCED,        /* of sync number: what: enum tt_round_status; value: the revision that all have; op: as RESULT's */
    /* whether some wait in an operation that others, who wait in a call that all make, have not begun */
    TT_ELMSG_INSIDE,        /* member to coordinator: op: I have waited in it for a while */
    TT_ELMSG_BEGUN,         /* coordinator to one that calls: id is in this op; if you have not begun it, say so */
    TT_ELMSG_NOT_BEGUN,     /* member to coordinator: the same back: I have not, and wait in a call */
    /* journal */
    TT_ELMSG_LOG_START,     /* number: which start of the coordinator this is; id: the last that was given; cookie: the run's secret; text: the run */
    TT_ELMSG_LOG_MEMBER,    /* a newcomer */
    TT_ELMSG_LOG_GONE,      /* id is forgotten */
    TT_ELMSG_LOG_LOST,      /* id is lost; what: enum tt_loss; the list: what is FINAL, or SETTLED, by the words of those who left */
    TT_ELMSG_LOG_VIEW,      /* epoch, number: the round; what: enum tt_ring_plan; the list: ids in the order of ranks */
    TT_ELMSG_LOG_RESULT,    /* of round number */
    TT_ELMSG_LOG_PLAN,      /* of sync number, value, keys, hash; the list: `most` that hold, then those that receive */
    TT_ELMSG_LOG_SYNC,      /* sync number ended: what, id, other; flags 1: there is a state: value, keys, hash; the list: who has it */
    TT_ELMSG_LOG_BACK,      /* calls are taken back with a MISMATCH: flags, id, value, other, also, op: as RESULT's; the list: whose, and CALL's `also` */
    TT_ELMSG_KINDS
};
_Static_assert(TT_ELMSG_JOIN == 1 && TT_ELMSG_REFUSED == 15, "who has another version is recognised, and told, by these");

enum tt_leave { TT_LEAVE_NOTICE, TT_LEAVE_NOW };
enum tt_suspicion {
    TT_SUSPECT_SILENT,
    TT_SUSPECT_CUT,         /* I tried to connect again, for a whole lease */
    TT_SUSPECT_GONE         /* my connection to it ended, and the system it ran on says that nobody listens where it did */
};
enum tt_loss {
    TT_LOSS_DIED,
    TT_LOSS_SILENT,
    TT_LOSS_CUT,
    TT_LOSS_LEFT,
    TT_LOSS_ILLEGAL,
    TT_LOSS_AHEAD,          /* of a sync: its revision is ahead of the scope's */
    TT_LOSS_KEYS,           /* its arrays are not those that the scope agreed on */
    TT_LOSS_NOT_TAKEN,      /* it would only send, and something else won */
    TT_LOSS_FALSE,          /* what it said of its state was not so */
    TT_LOSSES
};

enum tt_call_kind {
    TT_CALL_EPOCH = 1,      /* flags: enum tt_epoch_flags; least, most: members */
    TT_CALL_AGREE,          /* value: flags, all members' are ANDed */
    TT_CALL_COMMIT,         /* value: 1 if the step is good here; the bits above: a hash of the operations that were begun here, which is the same on all unless
                             * the epoch is over. RESULT: 1 if all were good */
    TT_CALL_OPTIMIZE,       /* other: the measurement of which LINKS tells, before it or later, 0: of none; value: bytes; least: gain in percent. RESULT:
                             * value 1: a better order waits for an epoch; id, other: ns of an all-reduce in the order that is, and in the best */
    TT_CALL_SYNC,           /* of one scope; said by OFFER */
    TT_CALL_KINDS
};

enum tt_epoch_flags { TT_EPOCH_ADMIT = 1 };     /* else the view only shrinks */
enum tt_offer_flags { TT_OFFER_INSTEAD = 1 };   /* if all who are willing say so, it is as a first sync */

/* Why an epoch was revoked, by who did. */
enum tt_revocation {
    TT_REVOKED_UNSAID,   /* by nobody; or it says only that it has heard of it: of another's deadline, or to a coordinator that restarted */
    TT_REVOKED_ASKED,    /* its program did */
    TT_REVOKED_CUT,      /* another member was lost to it, or the connection to that */
    TT_REVOKED_LATE,     /* a deadline passed there */
    TT_REVOKED_MISMATCH, /* it found that members called different operations */
    TT_REVOKED_FAILED,   /* something else failed there */
    TT_REVOKED_APART,    /* by no member: some wait in an operation, and others in a call that all make */
    TT_REVOCATIONS
};

/* What keeps a newcomer out of a view, whatever its members call. */
enum tt_kept_out {
    TT_KEPT_OUT_NOT,
    TT_KEPT_OUT_MOST, /* by its own wish to be one of `most` */
    TT_KEPT_OUT_GROUP /* its replica group is not complete */
};

enum tt_round_status {
    TT_ROUND_OK,
    TT_ROUND_SAME,          /* of epoch: the view stays as it was; of sync: all had the state, nobody received */
    TT_ROUND_TIMEOUT,       /* the caller's deadline passed: its call is taken back, and nothing happened; id: one that had not called, or 0; then, of
                             * epoch: value: members in the view; other: newcomers that wait in it, the caller counted in if it is one; flags: of a newcomer:
                             * enum tt_kept_out; of optimize: other: one that had not told what it measured, or 0 */
    TT_ROUND_MISMATCH,      /* members called different things: flags: enum tt_difference and bits; id: one, value: of it; other: another one, also: of
                             * that. Of a round with TT_DIFFERS_BACK, and of a sync: the call is taken back, as by a deadline */
    TT_ROUND_TOO_FEW,       /* fewer would be left than `least` */
    TT_ROUND_LOST,          /* of agree and commit: the value is of those who are left (of commit: 0, also where the epoch was revoked); of sync: all
                             * who held the state are lost */
    /* of sync; like those above other than OK and SAME: nothing has changed */
    TT_ROUND_NOBODY,        /* nobody is willing to send a state of the legal revision; value: the last one's */
    TT_ROUND_OTHER_STATE,   /* nobody has the arrays that were agreed on; or, of a new cohort, nobody the state of the last sync; value: its
                             * revision */
    TT_ROUND_ABANDONED,     /* the deadline of id passed while others received */
    TT_ROUND_NOT_RECEIVED,  /* id could not receive it */
    TT_ROUND_STATUSES
};

/* Whom an operation waits for. */
enum tt_op_needs {
    TT_OP_NEEDS_ALL,
    TT_OP_NEEDS_ROLE,       /* of a tentative one: those of the role */
    TT_OP_NEEDS_GROUP,      /* likewise */
    TT_OP_NEEDS
};

/* An operation that a member is in, as others are told of it. */
struct tt_op_name {
    uint64_t n, count;      /* n: the how-manieth of its tag in this epoch; 0: none. count: 0: it has none, or several */
    uint16_t tag;
    uint8_t needs;          /* enum tt_op_needs */
    uint8_t coll, type;     /* tutti_coll, tutti_dtype */
};

/* One of a member's calls. */
struct tt_call_name {
    uint64_t id, attempt;   /* attempt: CALL's `also` */
};

/* Where a member stands in an operation. */
enum tt_op_state {
    TT_OP_NONE,
    TT_OP_PENDING,          /* begun */
    TT_OP_COMPLETE,         /* its own part is done; whether the others' is, is not known */
    TT_OP_SETTLED,          /* likewise, and its small result stands: who lacks it gets it */
    TT_OP_FINAL,            /* all have completed it: its result stands */
    TT_OP_RESTORED,         /* it did not happen: its input is as before */
    TT_OP_STATES
};

/* What `poll` tells; numbered, so that the latest of several is known. */
struct tt_news {
    uint64_t number;
    uint32_t newcomers;     /* that an epoch would admit */
    uint32_t lost, leaving;
    uint32_t revoked;
    uint32_t better;        /* a better order of the ring waits for an epoch */
};

static inline bool tt_news_are_same(const struct tt_news *a, const struct tt_news *b)
{
    return a->number == b->number && a->newcomers == b->newcomers && a->lost == b->lost && a->leaving == b->leaving &&
           a->revoked == b->revoked && a->better == b->better;
}

/* What the order of a view's ranks comes from, and what it is for: from AS_RING on as enum tt_ring_shape. */
enum tt_ring_plan {
    TT_RING_UNMEASURED,     /* it just is so */
    TT_RING_AS_RING,        /* predicted to be fastest as a ring */
    TT_RING_AS_TWO_RINGS,   /* as two rings at once, one each way round */
    TT_RING_AS_TREES,       /* as two trees */
    TT_RING_PLANS
};

/* What comes from a member, as it was measured. */
struct tt_ring_link {
    uint64_t rate;          /* bytes/s; 0: it could not be measured */
    uint64_t latency;       /* ns, one way */
};

/* One member as lists carry it. */
struct tt_seat {
    uint64_t id;
    uint32_t group, role;
    struct tt_blob card;    /* opaque here: its addresses */
};

/* Of an answer that is neither FINAL nor SETTLED: what the operation before it is, if it is not FINAL. n is 2 or more then. */
enum tt_op_before {
    TT_BEFORE_FINAL,        /* or it is, or there is none */
    TT_BEFORE_TENTATIVE,    /* it has this one's verdict to come, too: it is COMPLETE, or RESTORED with this one */
    TT_BEFORE_SETTLED,
    TT_BEFORES
};

/* Of a verdict: FINAL or SETTLED: all operations of the tag up to this one; those after it are RESTORED. */
struct tt_op_entry {
    uint8_t state;          /* enum tt_op_state */
    uint8_t before;         /* enum tt_op_before */
    uint16_t tag;
    uint64_t n;             /* the how-manieth operation of this tag in its epoch, from 1 */
    struct tt_news news;    /* what all got with the last that is FINAL: with this one if it is, else with the one before, or before that */
    uint16_t nresult;       /* of the SETTLED one, this or the one before it: */
    const uint8_t *result;  /* [nresult], in the message that this is read from, or the writer's */
};

/* The last operation of the tag that who says this knows to be complete at all; 0: none. */
static inline uint64_t tt_op_known(const struct tt_op_entry *e)
{
    return e->state == TT_OP_FINAL ? e->n : e->n - 1 - (e->before != TT_BEFORE_FINAL);
}

/* The one that is SETTLED where this is said; 0: none is. */
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
    uint16_t scope;             /* 0: the view's; 1 + role */
    struct tt_hash keys, hash;
    uint8_t cookie[TT_COOKIE_BYTES];
    struct tt_news news;
    struct tt_op_name op;
    struct tt_blob card;
    char text[TT_ELASTIC_TEXT_BYTES];
    uint32_t nlist;
    struct tt_reader list;      /* of a message that was read: its list, checked; read nlist entries with the calls below */
};

/* Reads data[bytes]; false if it is not exactly one message of a known kind with values in range. The list stays in data. */
bool tt_elmsg_read(struct tt_elmsg *m, const void *data, size_t bytes);
/* The next entry of a list of members, ids, operations, links, or calls; the message's kind says which it is. */
void tt_elmsg_next_seat(struct tt_elmsg *m, struct tt_seat *out);
uint64_t tt_elmsg_next_id(struct tt_elmsg *m);
void tt_elmsg_next_op(struct tt_elmsg *m, struct tt_op_entry *out);
void tt_elmsg_next_link(struct tt_elmsg *m, struct tt_ring_link *out);
void tt_elmsg_next_call(struct tt_elmsg *m, struct tt_call_name *out);

/* Writing: begin with the fixed fields of m, add the list's entries, end. end returns the bytes, or 0 if it did not fit. */
struct tt_elmsg_writer {
    struct tt_writer w;
    uint8_t *count_at;          /* NULL: this kind has no list */
    uint32_t n;
};
void tt_elmsg_begin(struct tt_elmsg_writer *w, void *data, size_t cap, const struct tt_elmsg *m);
void tt_elmsg_add_seat(struct tt_elmsg_writer *w, const struct tt_seat *seat);
void tt_elmsg_add_id(struct tt_elmsg_writer *w, uint64_t id);
void tt_elmsg_add_op(struct tt_elmsg_writer *w, const struct tt_op_entry *op);
void tt_elmsg_add_link(struct tt_elmsg_writer *w, const struct tt_ring_link *link);
void tt_elmsg_add_call(struct tt_elmsg_writer *w, const struct tt_call_name *call);
size_t tt_elmsg_end(struct tt_elmsg_writer *w);
/* Both, of a message without entries. */
size_t tt_elmsg_write(void *data, size_t cap, const struct tt_elmsg *m);

/* ---- other versions ---- */
/* The version of a message or record; 0: too short to have one. */
uint8_t tt_elmsg_version(const void *data, size_t bytes);
/* A REFUSED as who has that version reads it. As tt_elmsg_write; a text that is too long is cut. */
size_t tt_elmsg_write_refusal(void *data, size_t cap, uint8_t version, uint8_t status, const char *text);
/* The same as it is read, of whatever version. */
bool tt_elmsg_read_refusal(struct tt_elmsg *m, const void *data, size_t bytes);

/* "JOIN"; "?" for no kind. */
const char *tt_elmsg_name(uint8_t kind);

#endif
