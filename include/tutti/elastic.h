/* Elastic runs: collectives among members that join, fail and leave.
 *
 * A run consists of members, and of a coordinator (`tutti coordinator`) that decides the
 * membership. The *view* is the set of current members. The members make the same calls in the same
 * order, like the ranks of a communicator. Each operation of this header has one outcome for all
 * surviving members:
 *  - FINAL (TUTTI_OK): all surviving members have the result, which is never undone.
 *  - restored: the call returns an error, and the operation has no effect. The input is unchanged,
 *    bit for bit.
 * The *epoch* is the time during which a view is valid. The loss of a member ends the epoch:
 * operations return TUTTI_ERR_PEER_LOST until tutti_run_epoch has formed the next view, unless they
 * retry automatically (TUTTI_RETRY).
 *
 *     join -> epoch -> sync -> operations, poll, agree, commit ... -> epoch -> ... -> leave
 *
 * Threads
 *  - Operations with different tags may run concurrently, from different threads, in any order. At
 *    most one operation per tag may be in progress.
 *  - epoch, shrink, agree, commit, sync and optimize are *group calls*: all members make them in
 *    the same order. A group call returns TUTTI_ERR_INVALID, without any effect, while another
 *    group call or an operation of the same member is in progress. Exception: a background optimize
 *    may start while operations run.
 *  - If member A makes a group call, while member B waits in an operation that A has not started,
 *    neither call can complete. After half the lease time (see Removal) all members get
 *    TUTTI_ERR_MISMATCH; the message names both calls. The group call has no effect, the operation
 *    is restored and not retried, and the epoch ends.
 *  - epoch, shrink and optimize may change the view. They return TUTTI_ERR_INVALID while a call on
 *    the view's communicator (tutti_run_comm) is in progress, or while a request of that
 *    communicator has not been freed. While one of these three calls is in progress, calls on that
 *    communicator return TUTTI_ERR_INVALID. After a change of view, no call may be made on the old
 *    communicator.
 *  - Any thread may call tutti_run_poll, tutti_run_revoke, tutti_run_leave and tutti_run_stats at
 *    any time.
 *  - A run belongs to the process that joined it. In a forked child all calls return
 *    TUTTI_ERR_FORKED.
 *
 * Removal: a member that sends nothing for longer than the lease (distant ones have more time:
 * docs/coordinator.md), or that cannot be reached, is removed from the run. Its current call and
 * all later ones return TUTTI_ERR_ABORTED; the message gives the reason. The process may destroy
 * its handle of the run and join again as a new member.
 *
 * Deadlines (timeout_ms; 0: the run's default; negative: none)
 *  - At its deadline a call returns TUTTI_ERR_TIMEOUT, without any effect. One deadline covers all
 *    attempts of a retried operation, and all operations of a batch.
 *  - If an operation times out on one member before the deadlines of the other members, the others
 *    get TUTTI_ERR_PEER_LOST.
 *  - The deadline of an operation in mode TUTTI_RETRY or TUTTI_PARTIAL may pass while the operation
 *    waits for its outcome. The operation is then not retried, and returns TUTTI_OK if the outcome
 *    is FINAL, else TUTTI_ERR_TIMEOUT.
 *  - The coordinator decides the outcome of group calls and of interrupted operations, identically
 *    for all members. If no coordinator is reachable, the call waits for one, for up to the run's
 *    timeout_ms. This time begins at the deadline of a group call, and at the interruption of an
 *    operation. After that, this member leaves the run, and the call returns TUTTI_ERR_TIMEOUT; the
 *    message states that no coordinator was reachable.
 *  - Time during which the process is suspended (e.g. by SIGSTOP) is excluded from deadlines.
 *
 * docs/elastic.md describes how to program elastic runs, and the effects of failures. Sources: PCCL
 * (technical report, 2025), NCCLX (arXiv 2510.20171, section 5.3), ULFM (revoke, shrink, agree). */
#ifndef TUTTI_ELASTIC_H
#define TUTTI_ELASTIC_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- members --------------------------------------------------------------------------------- */

/* A member's handle to a run. */
typedef struct tutti_run tutti_run;

/* Options of tutti_run_join. Set `size` to sizeof(tutti_run_conf). A field that is zero (or NULL)
 * takes its default value. */
typedef struct tutti_run_conf {
    size_t size;
    const char *coordinators;   /* "host:port,host:port,[v6]:port": addresses to try in turn; names
                                   are resolved once; NULL: TUTTI_COORDINATOR */
    const char *run;            /* name of the run; NULL: TUTTI_RUN, else "tutti" */
    /* Access control: a shared token, or certificates of one certificate authority, or none. Must
     * be the same on all members and on the coordinator. If the fields from token to insecure are
     * all NULL or 0, environment variables apply. These are TUTTI_TOKEN alone, or TUTTI_SECURITY
     * ("plain", "token" or "certificate") with TUTTI_TOKEN, or with TUTTI_CERTIFICATE, TUTTI_KEY
     * and TUTTI_AUTHORITY. If these variables are not set either, connections are plain
     * (unencrypted and unauthenticated) and limited to this host. All coordinators must then be on
     * loopback, and a `listen` or `announce` address outside loopback is INVALID. This member then
     * listens on 127.0.0.1 only, also for data, and ignores `interfaces`. */
    const char *token;
    const char *certificate, *key, *authority;  /* PEM files */
    int32_t insecure;           /* 1: plain connections, even to other hosts */
    uint32_t group, role, nroles;   /* replica groups: this process has role `role` (0 to nroles -
                                       1) in `group`; nroles 0 or 1: no groups. A view contains
                                       either all members of a group or none of them, and a group is
                                       admitted only if it is complete. After the loss of a member
                                       the next view excludes its group. The group's other members
                                       then wait in tutti_run_epoch for a replacement, like
                                       newcomers */
    const char *listen;         /* "address:port", "[v6]:port" or ":port" to listen on for
                                   connections of other members; NULL: TUTTI_LISTEN, else any port
                                   on all addresses (on loopback if no access control is set) */
    const char *announce;       /* "address:port" or "[v6]:port" at which other members reach this
                                   member, if its port is forwarded; NULL: TUTTI_ANNOUNCE, else
                                   none */
    const char *wires, *interfaces; /* as in tutti_conf; an unknown transport is INVALID */
    int32_t lanes;              /* as in tutti_conf */
    int32_t tags;               /* number of tags; operations use tags 0 to tags - 1. At most 256
                                   (128 with replica groups); 0: 8. Must be the same on all members.
                                   A difference is not detected: a member with fewer tags rejects
                                   higher tags as INVALID, and the other members time out. Each tag
                                   costs about 20 KiB (60 KiB with replica groups) */
    int64_t timeout_ms;         /* timeout of tutti_run_join, and default timeout of all other
                                   calls; 0: TUTTI_TIMEOUT_MS (default 300000); negative: none. The
                                   timeout also applies to name resolution */
    const char *data_ports;     /* "first-last": range of ports to listen on for data over TCP;
                                   NULL: TUTTI_DATA_PORTS, else any port. One port is sufficient if
                                   views only shrink. Two ports are needed to admit newcomers or to
                                   reconnect, plus one for each older view whose communicator is
                                   still in use. If no port is free, tutti_run_epoch fails. If
                                   `announce` is set, the ports must be forwarded under the same
                                   numbers */
} tutti_run_conf;

/* Joins a run. Returns when the coordinator has accepted this process as a newcomer. The process
 * remains a newcomer until tutti_run_epoch admits it to a view. The caller owns *out and frees it
 * with tutti_run_destroy. conf may be NULL.
 * PROTOCOL: wrong token or certificate. TIMEOUT: no coordinator accepted this process in time; the
 * message lists the coordinators that were tried, and the last error. Other errors: the coordinator
 * rejected this process; the message gives the reason.
 * While no coordinator responds, in this call or later, a warning is logged after one second and
 * then at growing intervals. */
TUTTI_API tutti_status tutti_run_join(tutti_run **out, const tutti_run_conf *conf);
/* Announces that this member leaves; tutti_run_poll reports this on all members. The next
 * tutti_run_epoch, which this member must also call, excludes this member. Does not wait. Any
 * thread. */
TUTTI_API tutti_status tutti_run_leave(tutti_run *run);
/* Leaves the run if necessary, and frees it with its communicators. No call or operation of the run
 * may be in progress. Operations of other members that need this member are restored. Operations
 * that are FINAL on this member are FINAL on all members. To ensure this, the call waits until the
 * coordinator has received their outcomes, for at most one lease. The call does not wait if all
 * members have called agree, commit or epoch after the last operation. The other members restore
 * tentative operations. run may be NULL. */
TUTTI_API void tutti_run_destroy(tutti_run *run);

/* ---- membership events ----------------------------------------------------------------------- */

/* Membership events of an epoch, from tutti_run_poll. Set `size` to sizeof(tutti_news). */
typedef struct tutti_news {
    size_t size;
    uint64_t number;        /* sequence number of the latest event; 0: no event in this epoch */
    uint64_t epoch;
    uint32_t newcomers;     /* number of processes that an epoch could admit */
    uint32_t lost, leaving; /* numbers of members of the view that were lost (including members that
                               destroyed their runs), and that announced leaving */
    int32_t revoked;        /* 1: the epoch was revoked */
    int32_t better;         /* 1: the next epoch adopts a better ring order */
    /* The operation that carried the latest event: its 1-based sequence number within its tag and
     * epoch (INVALID calls are not counted), and its tag. If several completed operations carried
     * the event, these are the lowest number and, among equal numbers, the lowest tag. Both are the
     * same on all members at the same point of the program. 0: no event in this epoch. */
    uint64_t operation;
    uint32_t tag;
} tutti_news;

/* Writes the membership events of the current epoch to *out. Events are sent with the results of
 * operations, and become visible when an operation returns TUTTI_OK. Therefore the result is the
 * same on all members at the same point of the program. Never blocks; may be called while
 * operations run. A small operation (see tutti_run_collective) carries events only in two cases: it
 * is the first operation of its tag in the epoch, or the previous seven operations of its tag
 * carried none. A loss is also visible in the status of a failed operation, and in
 * tutti_elastic.attempts of a retried operation (see tutti_run_view).
 * INVALID: out->size is wrong. */
TUTTI_API tutti_status tutti_run_poll(tutti_run *run, tutti_news *out);

/* ---- views ----------------------------------------------------------------------------------- */

/* A member of a view. */
typedef struct tutti_member {
    uint64_t id;            /* unique within the run, never reused */
    uint32_t group, role;
} tutti_member;

/* A view, as seen by this member. Set `size` to sizeof(tutti_view). */
typedef struct tutti_view {
    size_t size;
    uint64_t epoch;             /* 0: this member is in no view (it is a newcomer, has left or
                                   was removed) */
    int32_t rank, nranks;       /* this member's rank, and the number of members, in this epoch; -1
                                   and 0 if this member is in no view */
    int32_t changed;            /* 1: the view differs from the view immediately before this call.
                                   Because of retried operations, that view may be smaller than the
                                   view of the last epoch */
    const tutti_member *members;    /* [nranks], by rank; owned by the run and valid until the next
                                       call that changes the view */
} tutti_view;

/* Flags of tutti_run_epoch. */
enum tutti_epoch_flags {
    TUTTI_ADMIT = 1         /* admit newcomers; without this flag, views only shrink */
};

/* Forms the next view from all live members except those that announced leaving, and with
 * TUTTI_ADMIT also from newcomers. All members of the view make this call with the same arguments.
 * Newcomers also make this call, and wait until they are admitted. If the membership is unchanged,
 * the view stays the same. *out is written on success.
 * least  minimum number of members; 0 means 1. With TUTTI_ADMIT, the call waits for newcomers until
 *        there are enough members
 * most   maximum number of members when newcomers are admitted; 0: unlimited
 * A newcomer's own `most` also applies: the newcomer joins no view with more members. A newcomer's
 * own `least` applies only to the first view, which newcomers form among themselves. A newcomer
 * that cannot be admitted waits, without delaying other members. A member that announced leaving
 * gets an empty view after the other members have continued.
 * PEER_LOST: fewer than `least` members remain, and newcomers are not admitted. Or a member was
 *            lost during the call, and the other members made different calls: repeat the call.
 * MISMATCH:  members made different calls or passed different arguments; the message names two
 *            members and their arguments. After its admission, a newcomer must pass the same
 *            arguments as the other members.
 * TIMEOUT:   the message names a member that has not made the call. If the call waited for
 *            newcomers, the message gives the numbers of members and of waiting newcomers (also
 *            logged after one second). On a newcomer, the message states whether `most` or an
 *            incomplete group prevented the admission. */
TUTTI_API tutti_status tutti_run_epoch(tutti_run *run, uint32_t flags, uint32_t least,
                                       uint32_t most, int64_t timeout_ms, tutti_view *out);
/* tutti_run_epoch without TUTTI_ADMIT. */
TUTTI_API tutti_status tutti_run_shrink(tutti_run *run, uint32_t least, int64_t timeout_ms,
                                        tutti_view *out);
/* Writes the current view to *out. If operations have been retried after a loss, the view is
 * smaller than that of the last epoch. If this member has left or was removed, the view is empty.
 * While this member waits for a replacement in its replica group, *out is the last view that
 * contained this member. Local. */
TUTTI_API tutti_status tutti_run_view(tutti_run *run, tutti_view *out);
/* Ends the epoch on all members, asynchronously: operations that are not FINAL are restored. The
 * other members get PEER_LOST with this member's id in the message. Does not wait. Any thread. */
TUTTI_API tutti_status tutti_run_revoke(tutti_run *run);
/* Returns the communicator of the view, for all calls of tutti.h, or NULL if this member is in no
 * view. Calls on this communicator have no common outcome: after a failure, a call may succeed on
 * one member and fail on another. The run owns the communicator and the memory allocated in it
 * until the view changes, by an epoch or by a retried operation.
 * A view may change after a loss while other threads are in collectives, sends, receives, groups,
 * split or dup on the communicator. These calls then fail, and the change waits until they have
 * returned. The program must still free their requests with a wait. The change does not wait for
 * other calls (tutti_comm_status, tutti_mem_alloc ...): no other thread may be in such a call. For
 * windows (tutti/rma.h), use a tutti_comm_dup of this communicator, and destroy it after the
 * windows. */
TUTTI_API tutti_comm *tutti_run_comm(tutti_run *run);

/* ---- agreement ------------------------------------------------------------------------------- */

/* Sets *out to the bitwise AND of all members' flags.
 * PEER_LOST: members were lost in this epoch; *out is then the AND of the remaining members'
 * flags. */
TUTTI_API tutti_status tutti_run_agree(tutti_run *run, uint64_t flags, int64_t timeout_ms,
                                       uint64_t *out);
/* Decides whether a step of the program, e.g. a training step, is valid. The outcome is the same
 * for all members and groups. *outcome is 1 if all members passed good != 0 and the epoch has not
 * ended (no member lost, not revoked). Unless the call returns TIMEOUT or MISMATCH, it also decides
 * tentative operations: they become FINAL, or are restored if the epoch has ended.
 * MISMATCH: members made different calls, or have not called the same operations in this epoch. For
 * example, one member has omitted a tentative operation of its role. The call then has no effect;
 * tutti_run_revoke followed by tutti_run_epoch undoes the tentative operations. */
TUTTI_API tutti_status tutti_run_commit(tutti_run *run, int good, int64_t timeout_ms, int *outcome);

/* ---- operations ------------------------------------------------------------------------------ */

/* Collectives of elastic runs, defined as in tutti.h. */
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

/* Effect of a loss of members on an operation. */
typedef enum tutti_mode {
    TUTTI_ABORT = 0,        /* after a loss the operation is restored and returns PEER_LOST */
    TUTTI_RETRY,            /* after a loss, the operation forms the next view without newcomers and
                               runs again in it, until it succeeds or fewer than tutti_elastic.least
                               members remain. TUTTI_AVG averages over the contributors. All members
                               must use the same mode; otherwise the operation is restored and
                               returns MISMATCH. Valid for allreduce, reduce, broadcast, barrier,
                               allgatherv and gatherv (without the blocks of lost members), and for
                               any operation in the scope of a group. Other operations return
                               INVALID, because a loss would change their shapes. If a replica group
                               loses a member, its other members get PEER_LOST and are in no view
                               until tutti_run_epoch readmits them */
    TUTTI_PARTIAL           /* like TUTTI_RETRY, but members may withhold their input
                               (tutti_elastic.withholds). The result is computed from the inputs of
                               the other members; tutti_elastic.contributors is set to their number.
                               Valid for allreduce with SUM or AVG. Costs one more exchange of a few
                               bytes */
} tutti_mode;

/* The scope (set of participants) of an operation. Ranks are numbered within the scope, in the
 * order of the ranks in the view. Root, counts and the sizes of buffers refer to these ranks. All
 * members of the view call the operation, each in its own scope. The operation succeeds or fails in
 * all scopes together. Counts and types may differ between scopes; tag and mode must be the same in
 * all scopes. */
typedef enum tutti_scope {
    TUTTI_SCOPE_ALL = 0,    /* all members of the view */
    TUTTI_SCOPE_ROLE,       /* members with the same role as this member; rank k is in the k-th
                               group of the view. Without replica groups: all members */
    TUTTI_SCOPE_GROUP       /* this member's replica group: rank k has role k */
} tutti_scope;

/* One operation. Set `size` to sizeof(tutti_elastic). A field that is zero (or NULL) takes its
 * default value. All members of the scope must pass the same scope, coll, count, type, op, root,
 * quant, divisor, tag and mode. `counts` must also be equal where tutti.h requires this. Otherwise
 * the members get MISMATCH. Exception: if members call operations with different tags, they wait
 * until the deadline and get TIMEOUT; the message names the tags. */
typedef struct tutti_elastic {
    size_t size;
    tutti_coll coll;
    const void *src;        /* shapes and in-place rules as in tutti.h */
    void *dst;              /* undefined after an error, except in-place input, which is restored */
    size_t count;
    tutti_dtype type;
    tutti_redop op;
    /* v collectives, as in tutti.h: number of elements and displacement of each rank's block
     * (displs NULL: packed). For alltoallv, these are the sent blocks. `root` and the indices of
     * these arrays are ranks within the scope, in the view that tutti_run_epoch last returned. This
     * applies even if retries have shrunk the view since. In a shrunk view, allgatherv and gatherv
     * omit the blocks of lost members. The other v collectives, and operations with a lost root,
     * then return PEER_LOST. */
    const size_t *counts, *displs;
    const size_t *recv_counts, *recv_displs;    /* alltoallv: the received blocks */
    int32_t root;
    uint32_t tag;
    tutti_mode mode;
    tutti_scope scope;
    uint32_t least;         /* RETRY, PARTIAL: minimum number of remaining members for a retry; 0
                               means 1. In a batch, the largest value of all unfinished operations
                               applies */
    int32_t withholds;      /* PARTIAL only; 1: this member contributes nothing, e.g. because it is
                               new or its data is invalid. src is not read; dst receives the
                               result */
    const char *algo;       /* as in tutti_call */
    double scale;           /* as in tutti_call */
    uint64_t divisor;       /* as in tutti_call: divisor of TUTTI_AVG, e.g. a fixed world size; 0:
                               the number of contributors */
    tutti_quant quant;      /* as in tutti_call */
    float *error_feedback;  /* as in tutti_call; restored with the operation, bit for bit */
    int64_t timeout_ms;     /* timeout of the call on this member, including all attempts; in a
                               batch, the longest timeout applies. A timeout ends the epoch, but
                               this member stays in the run */
    int32_t tentative;      /* 1: the call may return before the outcome (tutti_run_collective) */
    /* Results: */
    tutti_status status;    /* TUTTI_PENDING: a tentative operation without an outcome yet */
    uint32_t contributors;  /* number of members of the scope whose input is in the result; set on
                               TUTTI_OK only */
    uint32_t attempts;      /* number of attempts */
    uint64_t epoch;         /* the epoch in which the operation ended */
} tutti_elastic;

/* Runs one operation and returns its outcome, which is the same on all live members. op->status
 * receives the same value.
 * The outcome costs one more exchange of a few bytes. Only *small operations* have no such cost:
 * barriers, and allreduces and allgathers with a result of up to 1 KiB. Operations in mode
 * TUTTI_PARTIAL, quantized operations, tentative operations, and all operations of a run with
 * replica groups are never small. A small operation returns TUTTI_OK as soon as this member has the
 * result. If the epoch ends, members without the result get it from members that have it
 * (docs/elastic-protocol.md).
 * INVALID, without any effect: an argument is wrong, the tag is in use, this member is in no view,
 * or a group call is in progress.
 *
 * Tentative operations (op->tentative) postpone the outcome. This is valid for allreduce,
 * reduce_scatter, allgather, alltoall and barrier, in any scope, in mode TUTTI_ABORT, and not in a
 * batch. The call returns TUTTI_OK as soon as this member has the result, and sets op->status to
 * TUTTI_PENDING. The result may be used, but the operation may still be undone. Its outcome,
 * TUTTI_OK or TUTTI_ERR_PEER_LOST, is the same on all live members. One of these calls writes the
 * outcome to op->status:
 *   - the next operation of the same tag, tentative or not. If that operation succeeds, the
 *     tentative operation is FINAL. Otherwise the tentative operation is FINAL, or both are
 *     restored.
 *   - tutti_run_commit. The outcome of the commit is 0 if the tentative operation is not FINAL.
 *   - tutti_run_epoch or tutti_run_shrink, which first make a commit with good = 0.
 * Until then, *op must stay valid. The buffers of an in-place operation must stay valid, too,
 * because the run may restore the input in them. Other buffers are reusable when the call returns,
 * but to repeat the operation after a loss, the program needs the contents of src.
 * With replica groups, completion in one role or group implies nothing about other roles or groups.
 * Therefore, in the scope of a role or group, a tentative operation must not follow another
 * tentative operation with the same tag. Such a call returns TUTTI_ERR_INVALID, without any effect.
 * Use different tags, and commit the step. An operation that is rejected before it begins has no
 * effect, and a commit reports it as omitted (MISMATCH). If the collective of the operation has
 * begun, and returns an error about its arguments, the epoch ends, and results of other scopes are
 * undone.
 * An error of a tentative operation is local: other members may have returned TUTTI_OK from the
 * same call. These members detect the loss in their next operation, commit or epoch, which may be a
 * different call on each member.
 * A tentative operation is pending until the next commit, epoch or non-tentative operation of its
 * tag. Meanwhile, tutti_run_agree, tutti_run_sync, tutti_run_optimize (unless in the background)
 * and operations that retry return TUTTI_ERR_INVALID, on any thread. Tentative operations carry no
 * membership events. */
TUTTI_API tutti_status tutti_run_collective(tutti_run *run, tutti_elastic *op);
/* Runs an allreduce in mode TUTTI_RETRY: a short form of tutti_run_collective. */
TUTTI_API tutti_status tutti_run_allreduce(tutti_run *run, const void *src, void *dst, size_t count,
                                           tutti_dtype type, tutti_redop op, uint32_t tag);
/* Runs the operations ops[n], at most `most` (0: 4) at a time. The tags first_tag to first_tag +
 * most - 1 are assigned to the operations round-robin; ops[i].tag is ignored. All members must pass
 * the same list. All operations must have the same mode, and none may be tentative (otherwise
 * INVALID). Returns TUTTI_OK if all operations are FINAL, else the error of the operation with the
 * lowest index. ops[i].status receives the outcome of each operation. */
TUTTI_API tutti_status tutti_run_batch(tutti_run *run, tutti_elastic *ops, size_t n,
                                       uint32_t first_tag, uint32_t most);

/* ---- shared state ---------------------------------------------------------------------------- */

/* Callbacks by which tutti_run_sync accesses arrays that the CPU cannot access directly, e.g.
 * arrays in GPU memory. <tutti/elastic_cuda.h> provides such callbacks for CUDA. Several arrays can
 * share one tutti_array_memory. Set `size` to sizeof(tutti_array_memory). A field that is zero (or
 * NULL) takes its default value. A callback returns 0, or an error number of the program, which is
 * included in the error message. Callbacks run only during tutti_run_sync, one at a time, in the
 * thread that calls it. `to_host` may also run in the run's internal thread, which sends this
 * member's heartbeats and must not be blocked for long. Callbacks must not call Tutti. */
typedef struct tutti_array_memory {
    size_t size;
    /* Copies at[bytes], a part of an array, to host[bytes]. Returns after completion. Required. */
    int (*to_host)(void *context, void *host, const void *at, size_t bytes);
    /* Copies host[bytes] to at[bytes], a part of an array. Returns after completion. Required. */
    int (*from_host)(void *context, void *at, const void *host, size_t bytes);
    /* Hashes at[bytes], a whole array, as defined in <tutti/hash.h>. NULL: the CPU hashes the data
     * that to_host returns. */
    int (*hash)(void *context, const void *at, size_t bytes, uint32_t value[4]);
    void *context;
} tutti_array_memory;

/* One array of the state. Set `size` to sizeof(tutti_array). A field that is zero (or NULL) takes
 * its default value. Name, type and count, and the order of the arrays, must be the same on all
 * members. */
typedef struct tutti_array {
    size_t size;
    const char *name;
    void *data;             /* [count], any alignment. Two arrays must not overlap, unless both have
                               may_differ or this member only sends: the sync then writes neither.
                               Overlap is checked among arrays with the same `memory` */
    size_t count;
    tutti_dtype type;
    int32_t may_differ;     /* 1: the array is local to each member (e.g. a random seed), and is
                               neither compared nor sent */
    const tutti_array_memory *memory;   /* callbacks that access `data`, valid until the call
                                           returns; NULL: host memory. May differ between members */
} tutti_array;

/* How a sync chooses the winning content. Either all members use POPULAR, or each member uses
 * RECEIVE or SEND. */
typedef enum tutti_sync_strategy {
    TUTTI_SYNC_POPULAR = 0, /* the most common content wins; on a tie, the content of the oldest
                               member wins */
    TUTTI_SYNC_RECEIVE,     /* this member receives the winning content */
    TUTTI_SYNC_SEND         /* this member only sends. Among all senders, the most common content
                               wins; a sender with other content is removed from the run */
} tutti_sync_strategy;

/* The members that share one state. */
typedef enum tutti_sync_scope {
    TUTTI_SYNC_ALL = 0,     /* all members of the view share one state */
    TUTTI_SYNC_ROLE         /* the members of each role share one state, independently of other
                               roles. Use this for states that are sharded over the roles of a
                               group. Role numbers must be below 512 */
} tutti_sync_scope;

/* The state that a sync compares and transfers. Set `size` to sizeof(tutti_state). A field that is
 * zero takes its default value. */
typedef struct tutti_state {
    size_t size;
    tutti_array *arrays;    /* [narrays] */
    size_t narrays;         /* 1 to 65536 */
    /* Version number of the state. Before this member's first successful sync, the program sets
     * this number to 0, or to the value from a checkpoint. Any number that grows with the progress
     * of the program is also valid. The run's first sync keeps the number, and each later sync
     * increments the number. A successful sync writes the current number here; the program must not
     * change it. Members with a lower revision than the others receive; members with a higher
     * revision are removed. */
    uint64_t revision;
    tutti_sync_strategy strategy;
    tutti_sync_scope scope;
    int32_t instead;        /* 1: replace the state of the run with the content of the members that
                               set this field, as in a first sync */
    /* Results, written on TUTTI_OK: */
    int32_t received;       /* 1: arrays of this member were overwritten */
    uint64_t bytes_received, bytes_sent;    /* bytes of arrays and hash lists that this member
                                               received and sent */
} tutti_state;

/* Makes the arrays of all members of the scope identical, bit for bit. First, the members agree on
 * the content that all will have (the *selected* content). Then each member receives those of its
 * arrays that differ from the selected content, and verifies them. A member receives from up to
 * eight members at a time. This is a group call, also allowed after the epoch has ended. The
 * program must not access the arrays until the call returns. A receiver temporarily needs as much
 * additional memory as it receives.
 * TUTTI_OK: all live members have the same content. After an error the arrays of all members are
 * unchanged (see ABORTED for an exception). After INVALID, TIMEOUT, MISMATCH or NOMEM, the call may
 * be repeated with the same arguments.
 * A member is removed (ABORTED, with the reason) in three cases:
 *   - its arrays (names, types, counts) differ from those of the first sync,
 *   - its revision is higher than the revision of the other members,
 *   - it only sends, and its content was not selected.
 * The calls of the other members continue. The epoch ends, as after any loss of a member.
 * INVALID:     an argument is wrong (if arrays overlap, the message names both); a call or
 *              operation is in progress; or no member can send. A member can send if it does not
 *              use RECEIVE, and its tutti_state.revision is the number that the last sync wrote.
 * MISMATCH:    members made different calls, or only some members use POPULAR.
 * PEER_LOST:   all members with the selected content are lost, this member's replica group is
 *              incomplete, or the other members have begun the next epoch. Call tutti_run_epoch.
 * UNSUPPORTED: all members of the last successful sync are lost, and no other member has the
 *              content of that sync. Set tutti_state.instead to accept other content.
 * NOMEM:       a member, named in the message, has too little memory to receive.
 * TIMEOUT:     the message names a member that has not made the call, or a member whose deadline
 *              passed.
 * SYSTEM:      an array could not be read or hashed at the start; no effect.
 * ABORTED:     this member was removed (see above); or an array could not be read during the
 *              transfer, or could not be written afterwards. After such a write error the member
 *              has left the run, and the contents of the arrays that it received are undefined.
 * Source: PCCL (technical report, 2025), synchronizeSharedState. */
TUTTI_API tutti_status tutti_run_sync(tutti_run *run, tutti_state *state, int64_t timeout_ms);

/* ---- ring order ------------------------------------------------------------------------------ */

/* Arguments and results of tutti_run_optimize. Set `size` to sizeof(tutti_ring). A field that is
 * zero takes its default value. */
typedef struct tutti_ring {
    size_t size;
    /* The same on all members: */
    uint64_t bytes;         /* size of one allreduce; 0: 64 MiB */
    uint64_t steps;         /* expected number of allreduces in the new order, over which the cost
                               of reconnection is amortized; 0: 1000 */
    uint32_t gain_percent;  /* smallest gain for which the order is changed, at most 99; 0: 5 */
    uint32_t burst_ms;      /* maximum duration of a burst (see below), 10 to 10000; 0: 12 round
                               trips (to open the TCP window), but at least 400 ms and at most 2000
                               ms */
    int32_t background;     /* 1: measure in the background, and return at once (see below) */
    /* Results of a blocking call, written on TUTTI_OK: */
    int32_t adopted;        /* 1: the order of the ranks, or the algorithm used in this order, was
                               changed */
    uint64_t was_ns, now_ns;    /* predicted time of one allreduce in the old and in the current
                                   order; 0: unknown, because links could not be measured */
} tutti_ring;

/* Measures bandwidth and latency between all ordered pairs of members. Then searches for the order
 * of ranks in which the predicted time of a ring allreduce is shortest. If the gain is large
 * enough, the call adopts this order. The call then also acts as tutti_run_epoch without
 * TUTTI_ADMIT, and renumbers the ranks: in the ring, rank r sends to rank r + 1. Member ids do not
 * change.
 * After that, until newcomers join the view, elastic allreduces of at least 1 MiB without an
 * explicit algorithm use the ring. If "two_rings" (opposite directions) or "dtree" (two trees) is
 * predicted to be faster, they use that algorithm instead.
 *
 * With replica groups, only connections between members with equal roles are measured, for all
 * roles at the same time, and whole groups are reordered. The order is optimized for operations of
 * `bytes` bytes in TUTTI_SCOPE_ROLE on the slowest role. Within a group, members stay in the order
 * of their roles. The algorithms of other scopes do not change.
 *
 * A measurement has nranks - 1 rounds, or with g replica groups g - 1 rounds. In each round a
 * member sends a burst to one peer and receives a burst from another peer. The bursts use separate
 * connections, not the connections for data. A burst ends when its rate is stable, at the latest
 * after burst_ms. A round takes about three round trips plus the time of the longest burst.
 *
 * All members of the view make this call with the same arguments; out is as in tutti_run_epoch.
 * With ring->background set, out must be NULL, and the call returns before the measurement. When a
 * better order is found, tutti_run_poll sets `better` at the same point on all members, and the
 * next tutti_run_epoch adopts the order. If the first search finds no better order, the search
 * continues for some time.
 *
 * UNSUPPORTED: more than 512 members (with replica groups: more than 512 groups).
 * PEER_LOST:   a member was lost during the call or earlier in the epoch: call tutti_run_epoch.
 * TIMEOUT:     the message names a member that has not made the call, or has not completed its
 *              measurements.
 * MISMATCH:    members made different calls, or passed a different size or gain. The message names
 *              two members and their calls. If a member measures in the background, the message
 *              names its next call.
 * INVALID:     an argument is wrong, another call is in progress, or (unless in the background) an
 *              operation is in progress.
 * docs/ring-order.md explains the search. Source: PCCL (technical report, 2025),
 * optimizeTopology. */
TUTTI_API tutti_status tutti_run_optimize(tutti_run *run, tutti_ring *ring, int64_t timeout_ms,
                                          tutti_view *out);

/* ---- statistics ------------------------------------------------------------------------------ */

/* Statistics of this member since it joined. Set `size` to sizeof(tutti_run_stats_t). */
typedef struct tutti_run_stats_t {
    size_t size;
    uint64_t id;                    /* id of this member; 0: none yet */
    uint64_t final, restored;       /* operations by outcome */
    uint64_t retries;               /* total number of retries of operations */
    uint64_t views;                 /* views that contained this member */
    uint64_t worlds;                /* number of times the members established new data
                                       connections for a view */
    uint64_t connects;              /* successful connections to a coordinator */
    uint64_t cuts;                  /* lost connections to members that were re-established */
} tutti_run_stats_t;

/* Writes this member's statistics to *out. Local; any thread. */
TUTTI_API tutti_status tutti_run_stats(tutti_run *run, tutti_run_stats_t *out);

#ifdef __cplusplus
}
#endif
#endif
