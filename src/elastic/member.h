/* A member of an elastic run as a pure state machine: its session with the coordinator, its view, the calls that all members make, and
 * where it stands in each operation. No socket, clock, thread or allocation: what happens comes in by the calls below, each with the
 * time; what is to be done goes out through `emit`, in order.
 *
 * An operation whose members all live never meets the coordinator. When its own part is done (tt_member_complete), a member tells the
 * others in ceil(log2 nranks) rounds, as a dissemination barrier does: in round k rank r tells r + 2^k, and waits for r - 2^k. After the
 * last round it knows that everybody's part is done, and the operation is FINAL: nothing can take its result back. The messages also
 * carry the latest news that any member had, so that all learn the same with the same operation: `poll` has one answer on all.
 *
 * A tentative operation (tt_member_complete_tentative) saves these messages: it stays COMPLETE, and who has completed the next one of its tag
 * knows that all had completed this one before they began the next, if none can complete that before all have begun it. So it is FINAL then; or
 * with a `commit` that all have called, after the same operations. Up to two operations of a tag are open at once: the last that was begun, and the tentative one before it.
 *
 * A small operation (tt_member_may_settle) needs none of them either: who has done its part has its result, with everybody's contribution, and SETTLEs it. Its program
 * goes on, and nothing takes that back: where somebody is lost, or the epoch ends otherwise, who lacks the result gets it with the verdict, of anybody who has it. The same two operations may be
 * open at once; of the one before the last the result is kept until the last one is complete.
 * When somebody is lost, coord_loss.c tells how all come to one verdict. */
#ifndef TT_ELASTIC_MEMBER_H
#define TT_ELASTIC_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elastic/message.h"
#include "elastic/sync.h"
#include "tutti/tutti.h"

#define TT_PEERMSG_BYTES 48     /* what members say to each other about an operation */

enum tt_member_act_kind {
    TT_MEMBER_ACT_CONNECT,      /* to a coordinator, after delay_ns; then tt_member_connected or tt_member_disconnected */
    TT_MEMBER_ACT_DISCONNECT,   /* drop the connection without a word */
    TT_MEMBER_ACT_SEND,         /* data[bytes] to the coordinator; copied */
    TT_MEMBER_ACT_SEND_PEER,    /* data[bytes] to `rank` of the view; copied */
    TT_MEMBER_ACT_REACH,        /* connect to everybody in m->proposed, then tt_member_reached */
    TT_MEMBER_ACT_VIEW,         /* m->view is the view now */
    TT_MEMBER_ACT_STOP,         /* nothing of this epoch may go on or begin; verdicts follow. n: so many are lost or have left, id: one of them; what: enum
                                 * tt_revocation, other: who revoked it, 0: not known; also: of CUT: whom that one could not reach, 0: not known; of APART: who
                                 * called, value: what, and also: who is in op; or (m->epoch is 0) our
                                 * group is not complete any longer */
    TT_MEMBER_ACT_OP_DONE,      /* operation n of `tag` ended: state FINAL, with the news that all got with it, or RESTORED, with none; or SETTLED: likewise final for its
                                 * program, with none; data[bytes], if not NULL: its result, which was told with the verdict */
    TT_MEMBER_ACT_CALL_DONE,    /* the call that was made ended: what: enum tt_round_status, value, id, other, differs (RESULT's flags), also; of a sync that is OK or SAME:
                                 * value is the revision that all have now */
    TT_MEMBER_ACT_SYNC_PLAN,    /* of the sync that is under way: m->sync.part, content, holders: for tt_transfer_plan */
    TT_MEMBER_ACT_OVER          /* this member is none any longer; status and text say why */
};

struct tt_member_act {
    uint8_t kind, what, state;
    uint8_t differs;            /* of a MISMATCH: enum tt_difference and bits; of a TIMEOUT: enum tt_kept_out */
    uint16_t tag;
    uint32_t rank;
    uint64_t delay_ns, n, value, also, id, other;
    const void *data;
    size_t bytes;
    struct tt_news news;
    struct tt_op_name op;       /* of a MISMATCH with TT_DIFFERS_INSIDE */
    tutti_status status;
    const char *text;
};

struct tt_member_conf {
    char run[TT_ELASTIC_TEXT_BYTES];
    uint32_t group, role, nroles;       /* nroles 1: no replica groups */
    uint8_t cookie[TT_COOKIE_BYTES];    /* fresh and unpredictable: who has it is this member */
    struct tt_blob card;
    struct tt_seat *view, *proposed;    /* [members_max] each, the caller's, as long as the member lives */
    uint32_t members_max;               /* of a view; at most TT_ELASTIC_MEMBERS_MAX */
    uint8_t *scratch;                   /* [TT_ELMSG_BYTES_MAX], likewise */
    uint8_t (*results)[TT_SETTLED_BYTES];   /* [TT_ELASTIC_TAGS], likewise; NULL: nothing may be settled here */
    void (*emit)(void *context, const struct tt_member_act *act);
    void *context;
};

/* One tag's operations: the last that was begun, and what was heard of it and of the next one (others may be one ahead). */
struct tt_member_op {
    uint64_t n;
    uint8_t state;              /* enum tt_op_state */
    bool tentative;             /* of one that is COMPLETE: it waits for nobody; the next may begin */
    bool before;                /* operation n - 1 is tentative, and open as this one is; or it was, and both are RESTORED */
    uint16_t may_settle;        /* bytes of its result, where it may be SETTLED; else 0 */
    uint8_t round;              /* of the dissemination, while COMPLETE */
    uint16_t heard[2];          /* by n & 1: bit k: round k's message is here */
    struct tt_news news[2];     /* likewise */
    struct tt_news final_news;  /* what the last FINAL or SETTLED one ended with: operation n, n - 1 or n - 2; nothing if it was tentative, or settled */
    uint64_t settled;           /* which one is SETTLED: n, or n - 1 while n is open, or RESTORED; 0: none */
    uint16_t nresult;           /* of its result, which is in conf.results */
};

/* The sync that is under way. */
struct tt_member_sync {
    uint64_t number[2];         /* by enum tt_sync_scope: of the next one in this epoch, from 1 */
    uint8_t scope;              /* enum tt_sync_scope, of the one that is called */
    uint8_t vote;               /* enum tt_sync_vote: ours, once said */
    uint8_t part;               /* enum tt_sync_part; NONE until there is a plan */
    uint64_t plan;
    uint64_t revision;          /* that it leads to */
    struct tt_hash content;     /* that won */
    uint32_t nholders;
    uint32_t holders[TT_SYNC_HOLDERS_MAX];  /* ranks; of a receiver: whom to fetch from */
};

/* What this member measured in this epoch, as the coordinator is told it. */
struct tt_member_links {
    struct tt_elmsg head;       /* number 0: nothing yet */
    const struct tt_ring_link *links;   /* [tt_member_nlinks] */
};

struct tt_member {
    struct tt_member_conf conf;
    uint64_t now_ns;
    bool over, connected, welcome;      /* welcome: the coordinator knows us on this connection */
    bool leaving, parting;              /* parting: it says what is FINAL here until the coordinator has heard it, or part_ns */
    uint64_t part_ns;
    uint32_t failures;                  /* to connect, in a row */
    uint8_t secret[TT_COOKIE_BYTES];    /* the run's, from the first WELCOME on */
    uint64_t id, lease_ns, heard_ns, beat_ns;
    uint64_t epoch;                     /* 0: in no view */
    uint32_t rank, nranks;
    uint8_t plan;                       /* enum tt_ring_plan: what the order of ranks comes from */
    struct tt_member_links links;
    struct tt_seat *view, *proposed;    /* [nranks], [nproposed] */
    uint32_t nproposed;
    uint64_t proposal, round;           /* round: of the next call; 0: a newcomer, whose call waits for admission */
    bool calling, cancelling;           /* cancelling: the call's deadline passed */
    uint64_t attempts;                  /* calls, syncs counted in, that were made */
    struct tt_elmsg call;
    struct tt_member_sync sync;
    bool stopped, revoking;             /* this epoch's operations are over; we want them to be: */
    uint8_t revocation;                 /* enum tt_revocation: why; */
    uint64_t unreached;                 /* of CUT: who was lost to us, 0: it is not known */
    uint64_t question;
    bool unheard;                       /* something became FINAL here, and no round has had the word of all since */
    struct tt_news news;                /* the latest from the coordinator */
    struct tt_member_op ops[TT_ELASTIC_TAGS];
    uint64_t covered;                   /* bit i: tt_op_states.changes[i] was taken; for tests */
};

void tt_member_init(struct tt_member *m, const struct tt_member_conf *conf, uint64_t now_ns);
/* ---- the connection to the coordinator ---- */
void tt_member_connected(struct tt_member *m, uint64_t now_ns);
void tt_member_disconnected(struct tt_member *m, uint64_t now_ns);
void tt_member_frame(struct tt_member *m, const void *data, size_t bytes, uint64_t now_ns);
/* Time passed; to be called at tt_member_next_ns at the latest. */
void tt_member_tick(struct tt_member *m, uint64_t now_ns);
uint64_t tt_member_next_ns(const struct tt_member *m);

/* ---- what all members do ---- */
/* A call of enum tt_call_kind; CALL_DONE follows. INVALID: another call or an operation is under way, or (agree, commit) there is no
 * view; nothing happened then. `commit` alone may be called while tentative operations are open: where it comes to OK they are FINAL before
 * CALL_DONE; where members were lost, the verdict decides, which may follow; else they stay as they are. */
tutti_status tt_member_call(struct tt_member *m, const struct tt_elmsg *call, uint64_t now_ns);
/* Its deadline passed: CALL_DONE follows, perhaps with an outcome that was faster. */
void tt_member_cancel(struct tt_member *m, uint64_t now_ns);
/* The answer to REACH: failed[n], ids that could not be reached. To be given within a lease, whatever happens: who gives none within two is
 * not admitted, or lost. */
void tt_member_reached(struct tt_member *m, uint64_t proposal, const uint64_t *failed, uint32_t n, uint64_t now_ns);
/* NOTICE: the next epoch is to be without this one. NOW: it is out at once (OVER), and says so if the coordinator is there. */
void tt_member_leave(struct tt_member *m, uint8_t how, uint64_t now_ns);
/* NOW in order, while nothing is under way: OVER once the coordinator has heard which operations are FINAL here, so that those who
 * are left take none of them back; a lease later at the latest, then with TIMEOUT. At once where there is nothing that others may not know. */
void tt_member_part(struct tt_member *m, uint64_t now_ns);
/* A member of the view could not be reached again for a whole lease; to be said again each lease while that lasts. Of two that suspect
 * each other one is lost, a quarter of a lease later. Also the vote by which members put one out that lives, but does not call: TIMEOUT
 * names it; whom most of them suspect within that quarter is lost. */
void tt_member_suspect(struct tt_member *m, uint64_t id, uint64_t now_ns);
/* Our connection to a member of the view ended, and wherever it listened the system says that nobody does. If the coordinator has lost it too,
 * it does not wait for it to come back. */
void tt_member_gone(struct tt_member *m, uint64_t id, uint64_t now_ns);
/* The epoch is to be over, as the program asks for it. */
void tt_member_revoke(struct tt_member *m, uint64_t now_ns);
/* Likewise, as something failed here: enum tt_revocation; of CUT: which member was lost to us, 0: it is not known. Of several the first reason counts. */
void tt_member_revoke_as(struct tt_member *m, uint8_t why, uint64_t unreached, uint64_t now_ns);

/* ---- the order of the ring ---- */
/* From how many it is told what comes to us: all of the view, or with replica groups those of our role, one in each group. Of these the k-th is in the group whose ranks are
 * k * nroles and those that follow. */
static inline uint32_t tt_member_nlinks(const struct tt_member *m)
{
    return m->conf.nroles > 1 ? m->nranks / m->conf.nroles : m->nranks;
}
/* Tells what comes to us from each of these in the order of their ranks, in measurement `number`, for which head has what LINKS has beside the list.
 * links[tt_member_nlinks] is the caller's, and stays as it is until the next view or the next of these. Also while the program does other things, or
 * waits in TT_CALL_OPTIMIZE for what comes of this measurement (the call's `other`). Ignored outside of a view. */
void tt_member_say_links(struct tt_member *m, const struct tt_elmsg *head, const struct tt_ring_link *links,
                         uint64_t now_ns);

/* ---- shared state ---- */
/* Offers what we have: a call like others (one at a time, no operation open, a view; in each scope all call in the same order); CALL_DONE
 * follows, after SYNC_PLAN where some must receive. To be said again in a view whose epoch is over (some were lost) is fine. The arrays
 * must stay as they are until CALL_DONE. tt_member_cancel takes it back; once there is a plan, that ends the sync for all (ABANDONED). */
tutti_status tt_member_sync(struct tt_member *m, const struct tt_sync_offer *offer, uint64_t now_ns);
/* A receiver's word (TT_TRANSFER_ACT_VOTE). */
void tt_member_vote(struct tt_member *m, uint8_t vote, uint64_t now_ns);
/* As messages between members have the scope of the sync that is under way. */
uint16_t tt_member_scope(const struct tt_member *m);

/* ---- operations ---- */
/* INVALID: the tag is out of range or in use (a tentative operation that is COMPLETE does not count), a call is under way, or there is no view;
 * PEER_LOST: this epoch is over. */
tutti_status tt_member_begin(struct tt_member *m, uint32_t tag, uint64_t now_ns);
/* Our part of the tag's operation is done. Ignored once the epoch is over: the verdict decides. */
void tt_member_complete(struct tt_member *m, uint32_t tag, uint64_t now_ns);
/* The same in two steps, for a shell that itself brings word of all parts together (an all-reduce of `mine` that succeeds tells as much as
 * the rounds of messages do): our part is done, and nobody is told. False: the epoch is over, the verdict decides. */
bool tt_member_complete_alone(struct tt_member *m, uint32_t tag, struct tt_news *mine, uint64_t now_ns);
/* Every member of the view has done the first step for this operation; latest: of all their news. Ignored once the epoch is over. */
void tt_member_all_complete(struct tt_member *m, uint32_t tag, const struct tt_news *latest, uint64_t now_ns);
/* Our part of the tag's operation is done, and it is tentative: nobody is told. Where the one before it is tentative and open, no member may be able to complete
 * this one before all have begun it: so that one is FINAL, without news. False: the epoch is over, the verdict decides. Alone in the view it is FINAL at once. */
bool tt_member_complete_tentative(struct tt_member *m, uint32_t tag, uint64_t now_ns);
/* The tag's operation, which has just begun, may be SETTLED: its result has `bytes` bytes, up to TT_SETTLED_BYTES, no member can complete it before all have begun it, and it is
 * among all of the view, where there are no replica groups. All members must take it alike. */
void tt_member_may_settle(struct tt_member *m, uint32_t tag, uint32_t bytes);
/* Our part of such an operation is done, and this is its result; OP_DONE follows: SETTLED. False: the epoch is over, the verdict decides. */
bool tt_member_settle(struct tt_member *m, uint32_t tag, const void *result, uint64_t now_ns);
/* Nothing of what was begun has happened, and nobody heard of it: as if it had not been begun. Ignored once the epoch is over. */
void tt_member_take_back(struct tt_member *m, uint32_t tag, uint64_t now_ns);

/* We have waited in the operation of op->tag for a while, and it is one that nobody takes back; to be said again while that lasts, each half of a lease, say. needs, coll, type and
 * count are the caller's. If one that it needs waits in a call that all make, and has not begun it, then all such calls come to a MISMATCH, and the epoch
 * is over. Ignored where the operation is over, or waits for nobody. */
void tt_member_inside(struct tt_member *m, const struct tt_op_name *op, uint64_t now_ns);

enum tt_peermsg { TT_PEERMSG_TAKEN, TT_PEERMSG_EARLY, TT_PEERMSG_STALE, TT_PEERMSG_BAD };
/* data[bytes] from `rank` of the view. EARLY: it is of the next view; keep it until VIEW (at most a few per tag and peer), and say it
 * again. STALE: of an epoch that is over, or said before: messages must not be lost between two that live, but may come in any order and
 * twice. BAD: no message, or one that this rank cannot send. */
enum tt_peermsg tt_member_peer(struct tt_member *m, uint32_t rank, const void *data, size_t bytes, uint64_t now_ns);

#endif
