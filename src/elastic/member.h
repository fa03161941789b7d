/* A member of an elastic run as a pure state machine: its connection to the coordinator, its view,
 * the calls that all members make, and the state of each operation. It has no socket, clock, thread
 * or allocation. Inputs are the calls below, each with the time; outputs are actions, emitted in
 * order.
 *
 * An operation whose members all live does not involve the coordinator. When its part is done
 * (tt_member_complete), a member notifies the others in ceil(log2 nranks) rounds, as in a
 * dissemination barrier: in round k, rank r sends to r + 2^k and waits for r - 2^k. After the last
 * round all members' parts are done, and the operation is FINAL: its result is never undone. The
 * messages also carry the latest update of any member, so that all members get the same update with
 * the same operation, and `poll` returns the same on all of them.
 *
 * A tentative operation (tt_member_complete_tentative) saves these messages and stays COMPLETE. It
 * becomes FINAL when this member completes the next operation of its tag, if no member can complete
 * that one before all have begun it: each begins it only after completing this one. It also becomes
 * FINAL with a `commit` by all members, after the same operations. Up to two operations of a tag
 * are open at once: the last one, and a tentative one before it.
 *
 * A small operation (tt_member_may_settle) needs no messages either. A member whose part is done
 * has the result, with the input of every member, and SETTLES it. Its program continues, and the
 * result is never undone: if a member is lost, or the epoch ends otherwise, members without the
 * result get it with the outcome, from any member with it. Again two operations may be open; the
 * result of the one before the last is kept until the last one is complete. coord_loss.c
 * describes how all members reach the same outcome after a loss. */
#ifndef TT_ELASTIC_MEMBER_H
#define TT_ELASTIC_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elastic/message.h"
#include "elastic/sync.h"
#include "tutti/tutti.h"

#define TT_PEERMSG_BYTES 48     /* message between members about an operation */

enum tt_member_act_kind {
    TT_MEMBER_ACT_CONNECT,      /* connect to a coordinator after delay_ns; then
                                   tt_member_connected or tt_member_disconnected */
    TT_MEMBER_ACT_DISCONNECT,   /* close the connection at once */
    TT_MEMBER_ACT_SEND,         /* send data[bytes] to the coordinator; copied */
    TT_MEMBER_ACT_SEND_PEER,    /* send data[bytes] to `rank` of the view; copied */
    TT_MEMBER_ACT_REACH,        /* connect to all members in m->proposed, then tt_member_reached */
    TT_MEMBER_ACT_VIEW,         /* m->view is the current view */
    TT_MEMBER_ACT_LOST,         /* id was lost or left; what: enum tt_loss. Repeated for each query
                                   of the coordinator */
    TT_MEMBER_ACT_STOP,         /* no operation of this epoch may continue or begin; outcomes
                                   follow. n: number of members that were lost or left, id: one
                                   of them; what: enum tt_revocation; other: the member that
                                   revoked it, 0: unknown; also: for CUT, the member that it
                                   could not reach, 0: unknown; for APART, the calling member,
                                   value: its call, and also: the member in op. Or (m->epoch is
                                   0) this member's group is incomplete */
    TT_MEMBER_ACT_OP_DONE,      /* operation n of `tag` ended: FINAL, with the common update;
                                   RESTORED, without an update; or SETTLED, final for its program,
                                   without an update. data[bytes], if not NULL: its result from the
                                   outcome */
    TT_MEMBER_ACT_CALL_DONE,    /* the call ended: what: enum tt_round_status, value, id, other,
                                   differs (RESULT's flags), also. After a sync with OK or SAME,
                                   value is the common revision */
    TT_MEMBER_ACT_SYNC_PLAN,    /* the current sync has a plan: m->sync.part, content and holders
                                   are the arguments of tt_transfer_plan */
    TT_MEMBER_ACT_OVER          /* this member has left the run; status and text give the reason */
};

struct tt_member_act {
    uint8_t kind, what, state;
    uint8_t differs;            /* for MISMATCH, enum tt_difference and bits; for TIMEOUT, enum
                                   tt_kept_out */
    uint16_t tag;
    uint32_t rank;
    uint64_t delay_ns, n, value, also, id, other;
    const void *data;
    size_t bytes;
    struct tt_membership news;
    struct tt_op_name op;               /* for a MISMATCH with TT_DIFFERS_INSIDE */
    tutti_status status;
    const char *text;
};

struct tt_member_conf {
    char run[TT_ELASTIC_TEXT_BYTES];
    uint32_t group, role, nroles;       /* nroles 1: no replica groups */
    uint8_t cookie[TT_COOKIE_BYTES];    /* random; identifies this member */
    struct tt_blob card;
    struct tt_surroundings_seat *view, *proposed;    /* [members_max] each, owned by the caller;
                                                        must outlive the member */
    uint32_t members_max;               /* maximum size of a view; at most TT_ELASTIC_MEMBERS_MAX */
    uint8_t *scratch;                   /* [TT_ELMSG_BYTES_MAX], owned as `view` */
    uint8_t (*results)[TT_SETTLED_BYTES];   /* [TT_ELASTIC_TAGS], owned as `view`; NULL: no
                                               operation may be settled here */
    void (*emit)(void *context, const struct tt_member_act *act);
    void *context;
};

/* Operations of one tag: the last one begun, and messages about it and the next one (other
 * members may be one ahead). */
struct tt_member_op {
    uint64_t n;
    uint8_t state;              /* enum tt_op_state */
    bool tentative;             /* while COMPLETE: waits for no member; the next operation may
                                   begin */
    bool before;                /* operation n - 1 is tentative and open, like this one; or it
                                   was, and both are RESTORED */
    uint16_t may_settle;        /* size of the operation's result if it may be SETTLED; else 0 */
    uint8_t round;              /* round of the dissemination, while COMPLETE */
    uint16_t arrived[2];          /* [n & 1]: bit k: round k's message has arrived */
    struct tt_membership news[2];     /* [n & 1]: the latest update in these messages */
    struct tt_membership final_news;  /* update of the last FINAL or SETTLED operation: n, n - 1 or
                                         n - 2; none if that operation was tentative or settled */
    uint64_t settled;           /* the SETTLED operation: n, or n - 1 while n is open or
                                   RESTORED; 0: none */
    uint16_t nresult;           /* size of the settled operation's result in conf.results */
};

/* The sync in progress. */
struct tt_member_sync {
    uint64_t number[2];         /* by enum tt_sync_scope: number of the next sync in this epoch,
                                   from 1 */
    uint8_t scope;              /* enum tt_sync_scope of the call */
    uint8_t vote;               /* enum tt_sync_vote: the vote that this member has sent */
    uint8_t part;               /* enum tt_sync_part; NONE until there is a plan */
    uint64_t plan;
    uint64_t revision;          /* resulting revision */
    struct tt_hash content;     /* hash of the selected state */
    uint32_t nholders;
    uint32_t holders[TT_SYNC_HOLDERS_MAX];  /* ranks of the holders; for a receiver: its sources */
};

/* This member's measurements in this epoch, as reported to the coordinator. */
struct tt_member_links {
    struct tt_elmsg head;       /* number 0: none yet */
    const struct tt_ring_link *links;   /* [tt_member_nlinks] */
};

struct tt_member {
    struct tt_member_conf conf;
    uint64_t now_ns;
    bool over, connected, welcome;      /* welcome: the coordinator has accepted this member on
                                           this connection */
    bool leaving, parting;              /* parting: reports its FINAL operations until the
                                           coordinator has received them, or until part_ns */
    uint64_t part_ns;
    uint32_t failures;                  /* consecutive failed connections */
    uint8_t secret[TT_COOKIE_BYTES];    /* secret of the run, from the first WELCOME */
    uint64_t id, lease_ns, heard_ns, beat_ns;
    uint64_t round_trip_ns;     /* of its connections to coordinators (patience.h) */
    uint64_t epoch;                     /* 0: in no view */
    uint32_t rank, nranks;
    uint8_t plan;                       /* enum tt_ring_plan: origin of the order of ranks */
    struct tt_member_links links;
    struct tt_surroundings_seat *view, *proposed;    /* [nranks], [nproposed] */
    uint32_t nproposed;
    uint64_t proposal, round;           /* round: number of the next call; 0: a newcomer, whose call
                                           waits for admission */
    bool calling, cancelling;           /* cancelling: the call's deadline passed */
    uint64_t attempts;                  /* number of calls, including syncs */
    struct tt_elmsg call;
    struct tt_member_sync sync;
    bool stopped, revoking;             /* this epoch's operations are over; this member requests
                                           their end: */
    uint8_t revocation;                 /* enum tt_revocation: the reason; */
    uint64_t unreached;                 /* for CUT: the lost member, 0: unknown */
    uint64_t question;
    bool unheard;                       /* an operation became FINAL here, and no round of all
                                           members has followed */
    struct tt_membership news;                /* the latest from the coordinator */
    struct tt_member_op ops[TT_ELASTIC_TAGS];
    uint64_t covered;                   /* bit i: tt_op_states.changes[i] has occurred; for tests */
};

void tt_member_init(struct tt_member *m, const struct tt_member_conf *conf, uint64_t now_ns);
/* ---- the connection to the coordinator ---- */
void tt_member_connected(struct tt_member *m, uint64_t now_ns);
void tt_member_disconnected(struct tt_member *m, uint64_t now_ns);
void tt_member_frame(struct tt_member *m, const void *data, size_t bytes, uint64_t now_ns);
/* The round trip of the connection was measured. 0: unknown. */
void tt_member_round_trip(struct tt_member *m, uint64_t round_trip_ns);
/* Time has passed; call at tt_member_next_ns at the latest. */
void tt_member_tick(struct tt_member *m, uint64_t now_ns);
uint64_t tt_member_next_ns(const struct tt_member *m);

/* ---- calls of all members -------------------------------------------------------------------- */
/* Starts a call of enum tt_call_kind; CALL_DONE follows. INVALID, without effect: another call or
 * an operation is in progress, or (agree, commit) there is no view. Only `commit` may be called
 * while tentative operations are open. If its result is OK, they are FINAL before CALL_DONE. If
 * members were lost, they get an outcome, possibly later. Otherwise they stay open. */
tutti_status tt_member_call(struct tt_member *m, const struct tt_elmsg *call, uint64_t now_ns);
/* The call's deadline has passed: CALL_DONE follows, possibly with a result that arrived first. */
void tt_member_cancel(struct tt_member *m, uint64_t now_ns);
/* The answer to REACH: failed[n], ids that could not be reached. Required within a lease: without
 * an answer within two leases, a newcomer is not admitted, and a member of the view is lost. */
void tt_member_reached(struct tt_member *m, uint64_t proposal, const uint64_t *failed, uint32_t n,
                       uint64_t now_ns);
/* NOTICE: the next epoch will exclude this member. NOW: it leaves at once (OVER), and notifies the
 * coordinator if connected. */
void tt_member_leave(struct tt_member *m, uint8_t how, uint64_t now_ns);
/* Leaves in order, while nothing is in progress. OVER follows when the coordinator has received
 * the FINAL operations, so that the others do not undo them; a lease later at the latest, then
 * with TIMEOUT. OVER at once if there is nothing to report. */
void tt_member_part(struct tt_member *m, uint64_t now_ns);
/* Reports that reconnecting to a member of the view has failed for a whole lease; repeat every
 * lease while that lasts. Of two members that suspect each other, one is lost a quarter of a lease
 * later. Also used to exclude a live member that does not call (a TIMEOUT contains its ID): the
 * member that is suspected by most within that quarter is lost. */
void tt_member_suspect(struct tt_member *m, uint64_t id, uint64_t now_ns);
/* Reports that the connection to a member of the view ended, and that all its addresses refuse
 * connections. If the coordinator has also lost its connection, it does not wait for a
 * reconnect. */
void tt_member_unreachable(struct tt_member *m, uint64_t id, uint64_t now_ns);
/* Ends the epoch at the request of the program. */
void tt_member_revoke(struct tt_member *m, uint64_t now_ns);
/* Ends the epoch because of a failure here: enum tt_revocation; for CUT, the lost member, 0:
 * unknown. The first of several reasons counts. */
void tt_member_revoke_as(struct tt_member *m, uint8_t why, uint64_t unreached, uint64_t now_ns);

/* ---- ring order ------------------------------------------------------------------------------ */
/* Returns the number of members whose links to this one are reported: all of the view, or with
 * replica groups those of this role, one per group. The k-th of these is in the group that
 * begins at rank k * nroles. */
static inline uint32_t tt_member_nlinks(const struct tt_member *m)
{
    return m->conf.nroles > 1 ? m->nranks / m->conf.nroles : m->nranks;
}
/* Reports the links from each of these members, in the order of ranks. head: the other fields of
 * LINKS. links[tt_member_nlinks] belongs to the caller, and must not change until the next view or
 * report. May be called at any time outside of calls, or during TT_CALL_OPTIMIZE, which waits for
 * the result of this measurement (the call's `other`). Ignored without a view. */
void tt_member_send_links(struct tt_member *m, const struct tt_elmsg *head,
                          const struct tt_ring_link *links, uint64_t now_ns);

/* ---- shared state ---- */
/* Offers this member's state. A call like others: one at a time, without open operations, in a
 * view, in the same order by all members of the scope. CALL_DONE follows, after SYNC_PLAN if some
 * must receive. A sync is also possible in an ended epoch (members were lost). The arrays must not
 * change until CALL_DONE. tt_member_cancel takes it back; after the plan, that ends the sync for
 * all (ABANDONED). */
tutti_status tt_member_sync(struct tt_member *m, const struct tt_sync_offer *offer,
                            uint64_t now_ns);
/* A receiver's vote (TT_TRANSFER_ACT_VOTE). */
void tt_member_vote(struct tt_member *m, uint8_t vote, uint64_t now_ns);
/* Returns the scope of the current sync, as encoded in messages between members. */
uint16_t tt_member_scope(const struct tt_member *m);

/* ---- operations ---- */
/* INVALID: the tag is out of range or in use, a call is in progress, or there is no view. The tag
 * of a tentative COMPLETE operation is not in use. PEER_LOST: this epoch is over. */
tutti_status tt_member_begin(struct tt_member *m, uint32_t tag, uint64_t now_ns);
/* This member's part of the tag's operation is done. Ignored in an ended epoch: the coordinator
 * decides the outcome. */
void tt_member_complete(struct tt_member *m, uint32_t tag, uint64_t now_ns);
/* Two-step variant of tt_member_complete, for callers that agree on the completion by an all-reduce
 * of `mine` instead of rounds of messages. First step: this member's part is done; no message is
 * sent. Returns false if the epoch is over: then the coordinator decides the outcome. */
bool tt_member_complete_alone(struct tt_member *m, uint32_t tag, struct tt_membership *mine,
                              uint64_t now_ns);
/* Second step: call it after the all-reduce has succeeded, i.e. all members of the view have done
 * the first step for this operation. latest: the latest of all updates. Ignored in an ended
 * epoch. */
void tt_member_all_complete(struct tt_member *m, uint32_t tag, const struct tt_membership *latest,
                            uint64_t now_ns);
/* This member's part of a tentative operation is done; no message is sent. If the previous one is
 * tentative and open, no member may be able to complete this one before all have begun it. Then the
 * previous one is FINAL, without an update. False: the epoch is over, and the coordinator decides
 * the outcome. With a single member it is FINAL at once. */
bool tt_member_complete_tentative(struct tt_member *m, uint32_t tag, uint64_t now_ns);
/* The tag's operation, which has just begun, may be SETTLED. Its result has `bytes` bytes, up to
 * TT_SETTLED_BYTES. No member can complete it before all have begun it. It includes all members of
 * the view, without replica groups. All members must call this with the same arguments. */
void tt_member_may_settle(struct tt_member *m, uint32_t tag, uint32_t bytes);
/* This member's part of such an operation is done, with this result; OP_DONE follows: SETTLED.
 * False: the epoch is over, and the coordinator decides the outcome. */
bool tt_member_settle(struct tt_member *m, uint32_t tag, const void *result, uint64_t now_ns);
/* The operation had no effect, and no member was notified: treat it as not begun. Ignored in an
 * ended epoch. */
void tt_member_take_back(struct tt_member *m, uint32_t tag, uint64_t now_ns);

/* Reports that this member has waited for some time in the operation of op->tag, which cannot be
 * cancelled; repeat while that lasts, e.g. every half lease. needs, coll, type and count are set by
 * the caller. If a required member waits in a call of all members instead of beginning the
 * operation, all such calls get a MISMATCH. The epoch is then over. Ignored if the operation is
 * over, or waits for no member. */
void tt_member_report_wait(struct tt_member *m, const struct tt_op_name *op, uint64_t now_ns);

enum tt_peermsg { TT_PEERMSG_TAKEN, TT_PEERMSG_BEFORE_VIEW, TT_PEERMSG_STALE, TT_PEERMSG_BAD };
/* Handles data[bytes] from `rank` of the view. BEFORE_VIEW: it belongs to the next view; keep it
 * until VIEW (at most a few per tag and peer), then pass it again. STALE: it belongs to an ended
 * epoch, or is a repetition. Messages between live members must not be lost, but may be reordered
 * and repeated. BAD: invalid, or impossible for this rank. */
enum tt_peermsg tt_member_peer(struct tt_member *m, uint32_t rank, const void *data, size_t bytes,
                               uint64_t now_ns);

#endif
