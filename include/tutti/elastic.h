/* Elastic runs: collectives among members that join, fail and leave.
 *
 * A run has a coordinator (`tutti coordinator`), which decides its membership, and members, which
 * join it. The *view* is the set of current members. They make the same calls in the same order,
 * like the ranks of a communicator. Each operation of this file has one verdict for all surviving
 * members:
 *  - FINAL: TUTTI_OK. All of them have the result, and it is never undone.
 *  - restored: an error. The operation did not happen, and its input is unchanged, bit for bit.
 * A loss ends the *epoch*: operations return TUTTI_ERR_PEER_LOST until tutti_run_epoch has made the
 * next view, unless they retry automatically (TUTTI_RETRY).
 *
 *     join -> epoch -> sync -> operations, poll, agree, commit ... -> epoch -> ... -> leave
 *
 * Threads
 *  - Operations of different tags may run concurrently, from different threads, in any order. There
 *    is at most one operation per tag at a time.
 *  - epoch, shrink, agree, commit, sync and optimize are *group calls*: all members make them in
 *    one order, from one thread at a time, while no operation runs. An optimize in the background
 *    may start while operations run. Otherwise TUTTI_ERR_INVALID, without any effect.
 *  - If one member makes a group call while another is in an operation that the first one has not
 *    started, neither could continue. After half a lease all members get TUTTI_ERR_MISMATCH, which
 *    names both calls. The group call had no effect, the operation is restored and not retried, and
 *    the epoch is over.
 *  - epoch, shrink and optimize may change the view. They are INVALID while a call on the view's
 *    communicator runs or one of its requests is open. A call on that communicator is INVALID while
 *    one of them runs. After a change of view, no call begins on the old
 *    communicator (tutti_run_comm).
 *  - tutti_run_poll, _revoke, _leave and _stats may be called by any thread at any time.
 *  - A run belongs to the process that joined it. In the child of a fork all calls return
 *    TUTTI_ERR_FORKED.
 *
 * Removal: a member that was silent for longer than the lease, or unreachable, is removed. Its
 * current call and all later ones return TUTTI_ERR_ABORTED with the reason. It may destroy the run
 * and join again as a new member.
 *
 * Deadlines (timeout_ms; 0: the run's default; negative: none)
 *  - At its deadline a call returns TUTTI_ERR_TIMEOUT and has had no effect. The deadline covers
 *    all attempts of a retried operation, and a whole batch.
 *  - To the other members, whose own deadline has not passed, an operation's timeout is a loss
 *    (TUTTI_ERR_PEER_LOST).
 *  - agree, commit, epoch, sync, optimize and an interrupted operation need the coordinator's
 *    decision, which may already exist and is the same for all members. Without a coordinator the
 *    call waits for one, at most for the run's timeout_ms more. Then this member has left the run,
 *    and the message states it.
 *  - Time during which the process is stopped does not count. Time that the verdict takes beyond
 *    the deadline does not count either: an operation that is then retried has its full time.
 *
 * docs/elastic.md explains programming and failures. Sources: PCCL (technical report, 2025), NCCLX
 * (arXiv 2510.20171, section 5.3), ULFM (revoke, shrink, agree). */
#ifndef TUTTI_ELASTIC_H
#define TUTTI_ELASTIC_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- life of a member ------------------------------------------------------------------------ */

/* One member's handle of a run. */
typedef struct tutti_run tutti_run;

/* Options of tutti_run_join. Zero (or NULL) means default; set `size` to sizeof. */
typedef struct tutti_run_conf {
    size_t size;
    const char *coordinators;   /* "host:port,host:port,[v6]:port", tried in turn; names are
                                   resolved once; NULL: TUTTI_COORDINATOR */
    const char *run;            /* name of the run; NULL: TUTTI_RUN, else "tutti" */
    /* Access: a shared token, or certificates of one authority, or none. The same on all members
     * and on the coordinator. If all of these fields are NULL and 0, the environment decides:
     * TUTTI_SECURITY ("plain", "token" or "certificate") with TUTTI_TOKEN, or with
     * TUTTI_CERTIFICATE, TUTTI_KEY and TUTTI_AUTHORITY; or TUTTI_TOKEN alone.
     * Without any of these, connections are plain. All coordinators must then be on loopback, and
     * other members reach this one on 127.0.0.1 only, for data too, whatever `interfaces` is.
     * `listen` or `announce` outside loopback is then INVALID. */
    const char *token;
    const char *certificate, *key, *authority;  /* PEM files */
    int32_t insecure;           /* 1: plain connections, also over the network */
    uint32_t group, role, nroles;   /* replica groups: this is member `role` of the `nroles` members
                                       of `group`; nroles 0 or 1: no groups. A view has a group
                                       completely or not at all. A group is admitted when it is
                                       complete. After the loss of a member the next view is without
                                       the group. Its other members wait for a replacement in
                                       tutti_run_epoch, like newcomers */
    const char *listen;         /* "address:port", "[v6]:port" or ":port" for connections of other
                                   members; NULL: TUTTI_LISTEN, else any port on all addresses
                                   (without any access setting: on loopback) */
    const char *announce;       /* external "address:port" or "[v6]:port" of a forwarded port;
                                   NULL: TUTTI_ANNOUNCE, else none */
    const char *wires, *interfaces; /* as in tutti_conf; INVALID: an unknown transport */
    int32_t lanes;              /* as in tutti_conf */
    int32_t tags;               /* operations use tags 0..tags-1, at most 256 (128 with replica
                                   groups); 0: 8. Must be the same on all members, which is not
                                   checked: with fewer, a tag of the others is INVALID here, and the
                                   others wait until their deadlines. A tag costs about 20 KiB, or
                                   60 KiB with replica groups */
    int64_t timeout_ms;         /* deadline of this call, and default of all others; 0:
                                   TUTTI_TIMEOUT_MS (default 300000); negative: none. Includes name
                                   resolution, which may overrun it */
    const char *data_ports;     /* "first-last": listening ports for data over TCP. Two, if
                                   newcomers are admitted, and one more per view of which the
                                   program keeps a communicator. If none is free, tutti_run_epoch
                                   fails. Announced ports must be forwarded under the same numbers.
                                   NULL: TUTTI_DATA_PORTS, else any */
} tutti_run_conf;

/* Joins a run. Returns when the coordinator has accepted this process as a newcomer. It stays a
 * newcomer until the members admit it at an epoch. The caller owns *out and frees it with
 * tutti_run_destroy. conf may be NULL.
 * PROTOCOL: wrong token or certificate. TIMEOUT: names the coordinators that were tried, and the
 * last error. Other errors: the coordinator's reason for the refusal.
 * While no coordinator responds, here and later, a warning is logged after one second and then at
 * growing intervals. */
TUTTI_API tutti_status tutti_run_join(tutti_run **out, const tutti_run_conf *conf);
/* Announces that this member leaves. All members see it by tutti_run_poll. This member takes part
 * in the next epoch, whose view is without it. Does not wait. Any thread. */
TUTTI_API tutti_status tutti_run_leave(tutti_run *run);
/* Leaves if necessary, and frees the run and its communicators. Nothing may run in it. Operations
 * of others that need this member are restored. An operation that is FINAL here is FINAL on the
 * other members too; the call waits until the coordinator has that information, at most one lease.
 * It does not wait if all members have called agree, commit or epoch since. The other members
 * restore tentative operations. run may be NULL. */
TUTTI_API void tutti_run_destroy(tutti_run *run);

/* ---- news ------------------------------------------------------------------------------------ */

typedef struct tutti_news {
    size_t size;
    uint64_t number;        /* grows with each change; 0: no news in this epoch */
    uint64_t epoch;
    uint32_t newcomers;     /* processes that an epoch could admit */
    uint32_t lost, leaving; /* members of the view; lost includes destroyed runs */
    int32_t revoked;
    int32_t better;         /* 1: the next epoch adopts a better order of the ring */
    /* The operation that carried the news: 1-based sequence number within the tag and epoch, not
     * counting INVALID calls. Of several completed operations that carried it, the lowest number,
     * and of these the lowest tag. The same on all members at the same point of the program. 0: no
     * news in this epoch. */
    uint64_t operation;
    uint32_t tag;
} tutti_news;

/* Returns the news carried by this program's completed operations that returned TUTTI_OK. It is the
 * same on all members at the same point of the program. Never blocks; may be called while
 * operations run.
 * Small operations (see tutti_run_collective) carry news only sometimes: the first one of a tag in
 * an epoch, and one that is at least the eighth after the last one that did. A failed operation
 * reports a loss by its status; a retried one by `attempts` and tutti_run_view.
 * INVALID: out->size is wrong. */
TUTTI_API tutti_status tutti_run_poll(tutti_run *run, tutti_news *out);

/* ---- views ----------------------------------------------------------------------------------- */

typedef struct tutti_member {
    uint64_t id;            /* unique within the run, never reused */
    uint32_t group, role;
} tutti_member;

typedef struct tutti_view {
    size_t size;
    uint64_t epoch;             /* 0: this member is in no view (it left or was removed) */
    int32_t rank, nranks;       /* in this epoch; -1 and 0 in no view */
    int32_t changed;            /* 1: the view differs from the one before this call; retried
                                   operations may already have shrunk that one */
    const tutti_member *members;    /* [nranks], by rank; owned by the run and valid until the next
                                       call that changes the view */
} tutti_view;

enum tutti_epoch_flags {
    TUTTI_ADMIT = 1         /* admit newcomers; without it, the view only shrinks */
};

/* Makes the next view: all live members, without those that announced leaving. With TUTTI_ADMIT it
 * also has newcomers, up to `most` members in total (0: unlimited). Called by all members of the
 * view with the same arguments, and by newcomers, who wait here until they are admitted. If the
 * membership is unchanged, the view stays. *out is written on success.
 * least  with TUTTI_ADMIT, waits for newcomers until there are this many members (0: 1)
 * A newcomer's own `most` and `least` restrict its admission: it joins no view of more than `most`
 * members. Its `least` counts only for the first view, which newcomers form among themselves.
 * A newcomer that does not fit waits, without delaying others.
 * A member that announced leaving gets an empty view after the other members have continued.
 * PEER_LOST: fewer than `least` members are left and no newcomers are admitted; or a member was
 *            lost during the call, and the others made different calls: call again.
 * MISMATCH:  members made different calls or passed different arguments; names two of them and
 *            their arguments. A newcomer passes, once admitted, what the others pass.
 * TIMEOUT:   names a member that has not called; or, while waiting for newcomers, the numbers of
 *            members and of waiting newcomers (logged after one second, too). For a newcomer: that
 *            its `most`, or its incomplete group, prevented its admission. */
TUTTI_API tutti_status tutti_run_epoch(tutti_run *run, uint32_t flags, uint32_t least,
                                       uint32_t most, int64_t timeout_ms, tutti_view *out);
/* tutti_run_epoch without TUTTI_ADMIT. */
TUTTI_API tutti_status tutti_run_shrink(tutti_run *run, uint32_t least, int64_t timeout_ms,
                                        tutti_view *out);
/* Returns the current view. It is smaller than that of the last epoch if operations were retried
 * since, and empty if this member has left or was removed. While this member waits for its replica
 * group to be completed, it is the last view that it was in. Local. */
TUTTI_API tutti_status tutti_run_view(tutti_run *run, tutti_view *out);
/* Ends this epoch for all members soon: operations that are not FINAL are restored. The other
 * members get PEER_LOST, with this member's name in the message. Does not wait. Any thread. */
TUTTI_API tutti_status tutti_run_revoke(tutti_run *run);
/* Returns the communicator of the view, for all calls of tutti.h, or NULL if this member is in no
 * view. The verdicts of these calls are local to each member, as in tutti.h. The run owns the
 * communicator and the memory allocated in it until the view changes, by an epoch or by a retried
 * operation.
 * A change of view ends calls in progress in other threads with an error, and waits for them. This
 * covers collectives, sends and receives, groups, split and dup, and can only happen after a loss.
 * Open requests must still be waited for. Other calls (tutti_comm_status, tutti_mem_alloc ...) are
 * not waited for. Windows (tutti/rma.h) need a tutti_comm_dup of it, which the program destroys
 * after the windows. */
TUTTI_API tutti_comm *tutti_run_comm(tutti_run *run);

/* ---- agreement ------------------------------------------------------------------------------- */

/* *out = bitwise AND of all members' flags. PEER_LOST: members were lost in this epoch; *out is
 * written nevertheless, with the AND of the remaining members' flags. */
TUTTI_API tutti_status tutti_run_agree(tutti_run *run, uint64_t flags, int64_t timeout_ms,
                                       uint64_t *out);
/* Decides one verdict on a step, over all groups. *verdict is 1 if all members passed good != 0
 * and the epoch is not over (no member lost, not revoked). Unless it returns TIMEOUT or MISMATCH,
 * tentative operations then have their verdicts: FINAL, unless the epoch is over.
 * MISMATCH: also if members did not make the same operations in this epoch, e.g. one omitted a
 * tentative operation of its role. Nothing has changed; tutti_run_revoke and tutti_run_epoch undo
 * the tentative operations. */
TUTTI_API tutti_status tutti_run_commit(tutti_run *run, int good, int64_t timeout_ms, int *verdict);

/* ---- operations ------------------------------------------------------------------------------ */

typedef enum tutti_coll {
    TUTTI_ALLREDUCE = 0,
    TUTTI_REDUCE,
    TUTTI_REDUCE_SCATTER,
    TUTTI_ALLGATHER,
    TUTTI_BROADCAST,
    TUTTI_GATHER,
    TUTTI_SCATTER,
    TUTTI_ALLTOALL,
    TUTTI_BARRIER,
    TUTTI_REDUCE_SCATTERV,
    TUTTI_ALLGATHERV,
    TUTTI_GATHERV,
    TUTTI_SCATTERV,
    TUTTI_ALLTOALLV,
    TUTTI_COLL_COUNT
} tutti_coll;

typedef enum tutti_mode {
    TUTTI_ABORT = 0,        /* a loss ends the operation: restored, PEER_LOST */
    TUTTI_RETRY,            /* after a loss, makes the next view without newcomers and runs again
                               among its members, until it succeeds or fewer than `least` are left.
                               All members must use it, or get MISMATCH, restored. TUTTI_AVG
                               averages over the contributors.
                               Valid for allreduce, reduce, broadcast, barrier, allgatherv and
                               gatherv (without the blocks of lost members), and for any operation
                               in the scope of a group. Others are INVALID, because a loss would
                               change their shapes. If a replica group loses a member, its other
                               members get PEER_LOST: they are in no view until tutti_run_epoch
                               readmits them */
    TUTTI_PARTIAL           /* like TUTTI_RETRY, for an allreduce with SUM or AVG in which members
                               may withhold their input. The result covers the contributors, whose
                               number is returned. Costs one more exchange of a few bytes */
} tutti_mode;

/* The scope (set of participants) of an operation. Its shapes, root and counts use ranks within the
 * scope, in the order of the ranks in the view. All members of the view call the operation, each in
 * its own scope, and all scopes share one verdict. Counts and types may differ between scopes; tag
 * and mode may not. */
typedef enum tutti_scope {
    TUTTI_SCOPE_ALL = 0,    /* all members of the view */
    TUTTI_SCOPE_ROLE,       /* members with this member's role: rank k is in the k-th group of the
                               view. Without replica groups: all members */
    TUTTI_SCOPE_GROUP       /* this member's replica group: rank k has role k */
} tutti_scope;

/* One operation. Zero means default; set `size` to sizeof. All members of a scope pass the same
 * scope, and the same coll, count, type, op, root, quant, divisor, tag, mode and (as in tutti.h)
 * counts. Otherwise they get MISMATCH. Exception: members in operations of different tags wait
 * until the deadline, whose message names these tags. */
typedef struct tutti_elastic {
    size_t size;
    tutti_coll coll;
    const void *src;        /* shapes and in-place rules as in tutti.h */
    void *dst;              /* undefined after an error, except in-place input, which is restored */
    size_t count;
    tutti_dtype type;
    tutti_redop op;
    /* v collectives, as in tutti.h: elements of each rank's block, and displacements (NULL:
     * packed); for alltoallv of the sent blocks. These arrays and root use the ranks (in the scope)
     * of the view that tutti_run_epoch last returned, even if retries have shrunk it since. Then
     * allgatherv and gatherv omit the blocks of lost members, and others return PEER_LOST. */
    const size_t *counts, *displs;
    const size_t *recv_counts, *recv_displs;    /* alltoallv: of the received blocks */
    int32_t root;
    uint32_t tag;
    tutti_mode mode;
    tutti_scope scope;
    uint32_t least;         /* RETRY, PARTIAL: minimum number of remaining members for a retry;
                               0: 1. A batch uses the maximum over its unfinished operations */
    int32_t withholds;      /* PARTIAL, 1: this member contributes nothing (it is new, or its data
                               is bad). src is not read; dst gets the result */
    const char *algo;       /* as in tutti_call */
    double scale;           /* as in tutti_call */
    uint64_t divisor;       /* as in tutti_call: TUTTI_AVG divides by this, whatever the number of
                               contributors (fixed world size); 0: by the number of contributors */
    tutti_quant quant;      /* as in tutti_call */
    float *error_feedback;  /* as in tutti_call; restored with the operation, bit for bit */
    int64_t timeout_ms;     /* of the call with all its attempts, on this member; a batch uses the
                               longest one. A member that is late ends the epoch, not the run */
    int32_t tentative;      /* 1: the verdict may come later, see below */
    /* Results: */
    tutti_status status;    /* TUTTI_PENDING: tentative, without a verdict yet */
    uint32_t contributors;  /* members of the scope whose input is in the result; TUTTI_OK only */
    uint32_t attempts;
    uint64_t epoch;         /* in which the operation ended */
} tutti_elastic;

/* Runs one operation until its verdict, which is the same on all live members, and returns it. The
 * verdict is also in op->status.
 * The verdict costs one more exchange of a few bytes, except for *small operations*. These are an
 * all-reduce or allgather with a result of up to 1 KiB, or a barrier. Their mode is TUTTI_ABORT or
 * TUTTI_RETRY, they are neither quantized nor tentative, and the run has no replica groups. A
 * member with the result then returns TUTTI_OK. If the epoch ends, members without it get it from
 * those that have it (docs/elastic-protocol.md).
 * INVALID, without any effect: an argument is wrong, the tag is in use, this member is in no view,
 * or a group call is in progress.
 *
 * Tentative operations (op->tentative) save that exchange. Allowed for allreduce, reduce_scatter,
 * allgather, alltoall and barrier, in any scope, in mode TUTTI_ABORT, not in a batch. The call
 * returns TUTTI_OK as soon as this member has the result, with op->status TUTTI_PENDING. The result
 * may be used, but may still be undone. op->status becomes TUTTI_OK or TUTTI_ERR_PEER_LOST, the
 * same on all live members, by
 *   - the next operation of the same tag, tentative or not. If it succeeds, this one is FINAL. If
 *     it fails, this one is FINAL or both are restored.
 *   - tutti_run_commit, whose verdict is 0 if this operation is not FINAL.
 *   - tutti_run_epoch or tutti_run_shrink, which commit first (with good 0).
 * Until then the run owns *op, and src and dst if dst overwrites input. They stay allocated, and
 * may be overwritten with the original input. If dst is separate, the run uses neither any more. To
 * repeat the operation after a loss, the program must keep src.
 * With replica groups, completion in one role or group implies nothing about the others. Therefore
 * a tentative operation in the scope of a role or group must not follow another tentative one with
 * the same tag (INVALID, without any effect): use one tag for each, and commit the step. If the
 * collective itself rejects the arguments of such an operation, the epoch ends, and results of
 * other scopes are undone. An operation that is rejected before it begins changes nothing; a commit
 * then reports that it was omitted (MISMATCH).
 * An error is local: other members may have returned TUTTI_OK from the same call. They get the loss
 * from their next call, an operation, commit or epoch, which may differ between members.
 * From a tentative operation to its verdict, tutti_run_agree, tutti_run_sync, tutti_run_optimize
 * (unless in the background) and operations of mode TUTTI_RETRY are INVALID, on any thread; the
 * verdict must come from commit, from epoch or from a non-tentative operation of its tag. A
 * tentative operation carries no news. */
TUTTI_API tutti_status tutti_run_collective(tutti_run *run, tutti_elastic *op);
/* Short form of an all-reduce in mode TUTTI_RETRY. */
TUTTI_API tutti_status tutti_run_allreduce(tutti_run *run, const void *src, void *dst, size_t count,
                                           tutti_dtype type, tutti_redop op, uint32_t tag);
/* Runs ops[n], at most `most` (0: 4) at a time, on tags first_tag..first_tag + most - 1 in turn;
 * ops[i].tag is ignored. All members pass the same list, with one mode and no tentative operation
 * (otherwise INVALID). TUTTI_OK: all operations are FINAL. Otherwise returns the first error by
 * index; ops[i].status has each verdict. */
TUTTI_API tutti_status tutti_run_batch(tutti_run *run, tutti_elastic *ops, size_t n,
                                       uint32_t first_tag, uint32_t most);

/* ---- shared state ---------------------------------------------------------------------------- */

/* Access to arrays that the CPU cannot read and write directly, e.g. in GPU memory: callbacks of
 * the program. <tutti/elastic_cuda.h> has them for CUDA. One object can serve several arrays. Zero
 * means default; set `size` to sizeof. A callback returns 0, or an error number of the program,
 * which appears in the message. Callbacks run during tutti_run_sync only, one at a time, in its
 * calling thread. `to_host` also runs in the run's own thread, which reports this member's liveness
 * and must not block for long. Callbacks must not call Tutti. */
typedef struct tutti_array_memory {
    size_t size;
    /* Copies at[bytes], a part of an array, to host[bytes]; complete on return. Required. */
    int (*to_host)(void *context, void *host, const void *at, size_t bytes);
    /* Copies host[bytes] to at[bytes]; complete on return. Required. */
    int (*from_host)(void *context, void *at, const void *host, size_t bytes);
    /* Hashes at[bytes], a whole array, as defined in <tutti/hash.h>. NULL: the CPU hashes the data
     * that to_host returns. */
    int (*hash)(void *context, const void *at, size_t bytes, uint32_t value[4]);
    void *context;
} tutti_array_memory;

/* One array of the state. Zero means default; set `size` to sizeof. Name, type and count, and the
 * order of the arrays, are the same on all members. */
typedef struct tutti_array {
    size_t size;
    const char *name;
    void *data;             /* [count], any alignment. Arrays must not overlap, unless neither is
                               written (both may_differ, or this member only sends). Overlap is
                               checked among arrays with the same `memory` */
    size_t count;
    tutti_dtype type;
    int32_t may_differ;     /* 1: local to each member (e.g. a random seed): neither compared nor
                               sent */
    const tutti_array_memory *memory;   /* access to data; the program's, until the call returns;
                                           NULL: host memory. May differ between members */
} tutti_array;

/* Either all callers of a sync use POPULAR, or all use RECEIVE or SEND. */
typedef enum tutti_sync_strategy {
    TUTTI_SYNC_POPULAR = 0, /* the most common content wins; on a tie, that of the oldest member */
    TUTTI_SYNC_RECEIVE,     /* receives the winning content */
    TUTTI_SYNC_SEND         /* its content wins (of several senders, the most common content), or it
                               is removed from the run */
} tutti_sync_strategy;

typedef enum tutti_sync_scope {
    TUTTI_SYNC_ALL = 0,     /* all members of the view share one state */
    TUTTI_SYNC_ROLE         /* the members of each role (below 512) share a state and sync apart
                               from other roles: for states sharded over the roles of a group */
} tutti_sync_scope;

typedef struct tutti_state {
    size_t size;
    tutti_array *arrays;    /* [narrays] */
    size_t narrays;         /* 1 to 65536 */
    /* Version of the state. Before this member's first successful sync: 0, the value from a
     * checkpoint, or any number that grows with the program's progress. A successful sync writes
     * the current value, which the program must not change: the first one keeps the number, each
     * later one adds 1. Members behind the others receive; members ahead of them are removed. */
    uint64_t revision;
    tutti_sync_strategy strategy;
    tutti_sync_scope scope;
    int32_t instead;        /* 1 on all members willing to send: replace the run's state by this
                               one, as in a first sync */
    /* Results, written on TUTTI_OK: */
    int32_t received;       /* 1: arrays of this member were overwritten */
    uint64_t bytes_received, bytes_sent;    /* by this member: arrays and lists of hashes */
} tutti_state;

/* Makes the arrays of all members of the scope identical, bit for bit. Arrays that differ from the
 * winning content are received, from up to eight members at a time, and verified. All members of
 * the scope call it, as a group call; the epoch may be over. The run owns the arrays until it
 * returns. A receiver temporarily needs as much memory as it receives.
 * TUTTI_OK: all live members have the same content. Otherwise no member's arrays have changed.
 * After INVALID, TIMEOUT, MISMATCH and NOMEM the call may be repeated unchanged.
 * A member is removed (ABORTED, with the reason) in three cases:
 *   - its arrays (names, types, counts) differ from those of the first sync,
 *   - its revision is ahead of the others,
 *   - it only sends, and its content did not win.
 * The other members' call continues; as after any loss, their epoch is over.
 * INVALID:     an argument is wrong (overlap: names both arrays); a call or operation is in
 *              progress; or no member is willing to send the successor of the last sync.
 * MISMATCH:    members made different calls, or only some use POPULAR.
 * PEER_LOST:   all members with the winning content are lost, or the others have continued with the
 *              next epoch: call tutti_run_epoch.
 * UNSUPPORTED: all members of the last successful sync are lost, and no member has its content: see
 *              `instead`.
 * NOMEM:       a member, named in the message, has no memory to receive.
 * TIMEOUT:     names the members that had not called, or whose deadline passed.
 * SYSTEM:      an array could not be hashed or read before it was offered; no effect.
 * ABORTED:     also if an array cannot be read later, or written at the end. This member has then
 *              left the run, and the arrays to write are undefined.
 * Source: PCCL (technical report, 2025), synchronizeSharedState. */
TUTTI_API tutti_status tutti_run_sync(tutti_run *run, tutti_state *state, int64_t timeout_ms);

/* ---- ring order ------------------------------------------------------------------------------ */

/* Arguments and results of tutti_run_optimize. Zero means default; set `size` to sizeof. */
typedef struct tutti_ring {
    size_t size;
    /* The same on all members: */
    uint64_t bytes;         /* of one all-reduce; 0: 64 MiB */
    uint64_t steps;         /* expected all-reduces in the new order, which must pay for the
                               reconnection; 0: 1000 */
    uint32_t gain_percent;  /* smallest gain that changes the order, at most 99; 0: 5 */
    uint32_t burst_ms;      /* longest measurement of a pair, 10 to 10000; 0: the larger of 400 and
                               12 round trips (to open the TCP window), at most 2000 */
    int32_t background;     /* 1: returns at once, see below */
    /* Results of a blocking call, written on TUTTI_OK: */
    int32_t adopted;        /* 1: the members have new ranks, or the target of the order changed */
    uint64_t was_ns, now_ns;    /* predicted time of one all-reduce in the old and in the current
                                   order; 0: unknown, because links could not be measured */
} tutti_ring;

/* Measures bandwidth and latency between all ordered pairs of members, and finds the order of ranks
 * with the fastest predicted ring all-reduce. If the gain is large enough, it adopts the order.
 * Then this call is also an epoch without newcomers, after which rank r sends to rank r + 1. Member
 * ids stay.
 * Elastic all-reduces from 1 MiB on that name no algorithm then use the ring, until newcomers join
 * the view. If predicted to be faster, they use "two_rings" (opposite directions) or "dtree" (two
 * trees) instead.
 *
 * Replica groups: pairs of equal role are measured, all roles at the same time, and whole groups
 * change places. The order is that of TUTTI_SCOPE_ROLE, with `bytes` per role, and is the best one
 * for the slowest role. Members keep the order of their roles within a group, and other scopes keep
 * their algorithms.
 *
 * A measurement has nranks - 1 rounds (number of groups - 1). In each round a member sends to one
 * peer and receives from another, over connections separate from its data. A round takes about
 * three round trips and a burst. The burst ends when its rate is stable or after burst_ms; the
 * slowest pair determines the length of the round.
 *
 * All members of the view call it with the same arguments; out as in tutti_run_epoch. In the
 * background, out is NULL and the program continues. When a better order is found, tutti_run_poll
 * sets `better` at the same point on all members, and the next tutti_run_epoch adopts the order.
 * The search continues for some time after a first search without success.
 *
 * UNSUPPORTED: more than 512 members (with replica groups: more than 512 groups).
 * PEER_LOST:   a member was lost during the call or earlier in the epoch: call tutti_run_epoch.
 * TIMEOUT:     names the members that had not called, or else not finished their measurements.
 * MISMATCH:    members made different calls or passed another size or gain: names two, with their
 *              calls (for members that measure in the background: their next calls).
 * INVALID:     an argument is wrong; a call is in progress, or an operation (unless in the
 *              background).
 * docs/ring-order.md explains the search. Source: PCCL (technical report, 2025),
 * optimizeTopology. */
TUTTI_API tutti_status tutti_run_optimize(tutti_run *run, tutti_ring *ring, int64_t timeout_ms,
                                          tutti_view *out);

/* ---- statistics ------------------------------------------------------------------------------ */

typedef struct tutti_run_stats_t {
    size_t size;
    uint64_t id;                    /* of this member; 0: none yet */
    uint64_t final, restored;       /* operations by verdict */
    uint64_t retries;
    uint64_t views;                 /* views that this member was in */
    uint64_t worlds;                /* of these, views for which the members reconnected */
    uint64_t connects;              /* successful connections to a coordinator */
    uint64_t cuts;                  /* lost and re-established connections to members */
} tutti_run_stats_t;

/* Writes this member's statistics to *out. Local; any thread. */
TUTTI_API tutti_status tutti_run_stats(tutti_run *run, tutti_run_stats_t *out);

#ifdef __cplusplus
}
#endif
#endif
