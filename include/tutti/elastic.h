/* Tutti for runs whose members come, fail and leave.
 *
 * A run has a coordinator (`tutti coordinator`) that decides who is in it, and members that join it. The members of the *view* do what all
 * members of a communicator do, by the same calls, in the same order; when one is lost, nothing is lost with it: each operation of this file
 * ends alike on all that are left, either FINAL (TUTTI_OK: all have the result, and nothing takes it back) or restored (an error: it did not
 * happen, and the input is what it was, bit for bit). After a loss the *epoch* is over: operations return TUTTI_ERR_PEER_LOST until
 * tutti_run_epoch has brought the next view, unless they are to be retried by themselves (TUTTI_RETRY).
 *
 *     join -> epoch -> sync -> operations, poll, agree, commit ... -> epoch -> ... -> leave
 *
 * Threads: operations of different tags may run at once, from different threads, in any order; of one tag there is one at a time. The calls that
 * all members make in one order (epoch, shrink, agree, commit, sync, optimize) are made by one thread at a time, and while no operation runs (an
 * optimize in the background may begin then, too): else TUTTI_ERR_INVALID, and nothing has happened. Where one member makes such a call, and another is in an operation that the first has not begun, so that neither could
 * go on, all get TUTTI_ERR_MISMATCH, which names both, after half a lease: the call did not happen, the operation is restored (and not retried), the epoch is over. Those that may change the view (epoch, shrink, optimize) are INVALID, too, while a call on the
 * view's communicator is under way or a request of it is not over, and such a call is while one of these is, until the view has changed: from
 * then on no call begins on that communicator (tutti_run_comm). tutti_run_poll, _revoke, _leave and _stats may be called by any thread at any time.
 * A run is used by the process that joined it: in the child of a fork all calls are TUTTI_ERR_FORKED.
 *
 * Who is put out of the run (it was silent for longer than the lease, or could not be reached) gets TUTTI_ERR_ABORTED from the call that it is in
 * and each later one, with the reason; it may destroy the run and join again, as another member.
 *
 * Deadlines: every call ends by timeout_ms (0: the run's; negative: none) with TUTTI_ERR_TIMEOUT, and has then done nothing; of an operation that is
 * retried, and of a batch, all attempts together. To the other members an operation's deadline is a loss (TUTTI_ERR_PEER_LOST) while their own has time left. Where that takes a coordinator's word (agree, commit, epoch, sync, optimize, what a loss interrupted: whether an
 * operation is FINAL or restored is the same for all, and may have been decided already) and none is there, it is waited for, at most for the run's
 * timeout_ms from then on; then this member has left the run, and the sentence says so. A time during which the process stands still does not count, nor does what
 * the verdict on an operation took beyond its deadline: if it is tried again then, it has its time anew.
 *
 * docs/elastic.md tells how to program with this, and what happens when something fails. After PCCL (technical report, 2025), NCCLX
 * (arXiv 2510.20171, section 5.3) and ULFM (revoke, shrink, agree). */
#ifndef TUTTI_ELASTIC_H
#define TUTTI_ELASTIC_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a member's life --------------------------------------------------------------------------- */

/* A member of a run. */
typedef struct tutti_run tutti_run;

/* How to join. Zero (or NULL) means default everywhere; set `size` to sizeof. */
typedef struct tutti_run_conf {
    size_t size;
    const char *coordinators;   /* "host:port,host:port,[v6]:port": tried in turn; NULL: TUTTI_COORDINATOR. Names are looked up once */
    const char *run;            /* the run's name; NULL: TUTTI_RUN, else "tutti" */
    /* Who may take part. One of: a token that all share; certificates of one authority; or nothing, which must be asked for unless all
     * coordinators are on loopback. The same on all members and on the coordinator. Where all of these are NULL and 0, the environment says it:
     * TUTTI_SECURITY ("plain", "token" or "certificate") with TUTTI_TOKEN, or TUTTI_CERTIFICATE, TUTTI_KEY and TUTTI_AUTHORITY; or TUTTI_TOKEN alone.
     * Where nobody says anything connections are plain, and this member is reached on loopback alone (127.0.0.1, whatever `interfaces` says), for data,
     * too: a `listen` or `announce` that is not on loopback is INVALID. */
    const char *token;
    const char *certificate, *key, *authority;  /* PEM files */
    int32_t insecure;           /* 1: plain connections, also over the network */
    uint32_t group, role, nroles;   /* replica groups: this is member `role` of the nroles of `group`; nroles 0 or 1: no groups. A group is in the view
                                       as a whole or not at all: it is admitted when it is complete, and when it loses a member the next view is without
                                       it; who is left of it then waits in tutti_run_epoch, as newcomers do, for whoever takes the empty place */
    const char *listen;         /* "address:port", "[v6]:port" or ":port" where other members connect; NULL: TUTTI_LISTEN, else all
                                   addresses (where nobody asked for plain connections: loopback), any port */
    const char *announce;       /* "address:port" or "[v6]:port" by which they reach it from outside (a forwarded port); NULL: TUTTI_ANNOUNCE, else none */
    const char *wires, *interfaces; /* as in tutti_conf. INVALID: a wire that there is not */
    int32_t lanes;
    int32_t tags;               /* operations use tags 0..tags-1, at most 256 (with replica groups 128), the same on all members (which is not checked:
                                       who has fewer is INVALID in a tag that the others have, and these wait to their deadlines); 0: 8. Each
                                       costs some 20 KiB, with replica groups 60 KiB */
    int64_t timeout_ms;         /* of this call (looking names up counts, but takes as long as the system does), and default of all others;
                                   0: TUTTI_TIMEOUT_MS (default 300000); negative: none */
    const char *data_ports;     /* "first-last": the ports at which it listens for data over TCP: two where newcomers are admitted, and one more for each view
                                   of which the program keeps a communicator; where none is free tutti_run_epoch fails. Those that are announced must be
                                   forwarded under the same numbers. NULL: TUTTI_DATA_PORTS, else any */
} tutti_run_conf;

/* Joins a run: returns once the coordinator has taken this process as a newcomer, which it stays until the members vote it in at an epoch.
 * Caller owns *out and ends it with tutti_run_destroy. conf may be NULL. PROTOCOL: a wrong token or certificate; TIMEOUT says
 * which coordinators were tried, and why the last was not reached; else what the coordinator refused it for. While no coordinator answers, here and
 * later, the log warns after a second, and again ever more seldom. */
TUTTI_API tutti_status tutti_run_join(tutti_run **out, const tutti_run_conf *conf);
/* Gives notice: all see it by poll, and the next epoch, in which this one takes part, is without it. Any thread; does not wait. */
TUTTI_API tutti_status tutti_run_leave(tutti_run *run);
/* Leaves now if it has not left, and frees the run and its communicators: operations of others that need it are restored, and those that are FINAL here
 * are FINAL there, too. For that it waits until the coordinator has heard which these are, a lease at most; nothing waits where all have called
 * tutti_run_agree, tutti_run_commit or tutti_run_epoch since. Nothing may be running in it; what is tentative is others' to restore. NULL is fine. */
TUTTI_API void tutti_run_destroy(tutti_run *run);

/* ---- what is new -------------------------------------------------------------------------------- */

typedef struct tutti_news {
    size_t size;
    uint64_t number;        /* rises with each; 0: nothing has been heard in this epoch */
    uint64_t epoch;
    uint32_t newcomers;     /* that an epoch could admit */
    uint32_t lost, leaving; /* members of the view; lost: and who destroyed their runs, as their operations end alike */
    int32_t revoked;
    int32_t better;         /* 1: a better order of the ring was found, which the next epoch adopts */
    /* With which operation it came: the how-manieth of `tag` in this epoch, from 1 (of calls that were INVALID none counts). Where several that
     * this program has waited for brought it, as later ones do again, the one of the lowest number, and of these the one of the lowest tag. The
     * same on all members at the same point of the program, as all the rest. 0: nothing has been heard in this epoch. */
    uint64_t operation;
    uint32_t tag;
} tutti_news;

/* What came with the operations that this program has waited for, and that came to OK: the same on all members at the same point of the
 * program. Of small operations (tutti_run_collective) only some bring news: the first operation of a tag in an epoch, and such a one that is the eighth or later after one that did. (Of a loss that fails an operation its status tells, and of one that a retry survives, `attempts` and tutti_run_view.) Never blocks; legal while operations run. INVALID: out->size is not that of tutti_news. */
TUTTI_API tutti_status tutti_run_poll(tutti_run *run, tutti_news *out);

/* ---- views ---------------------------------------------------------------------------------------- */

typedef struct tutti_member {
    uint64_t id;            /* never given twice in a run */
    uint32_t group, role;
} tutti_member;

typedef struct tutti_view {
    size_t size;
    uint64_t epoch;             /* 0: this one is in no view (it has left, or is out of the run) */
    int32_t rank, nranks;       /* in this epoch; -1 and 0 */
    int32_t changed;            /* 1: it is another view than before this call; operations that were retried may have made it smaller before */
    const tutti_member *members;    /* [nranks] by rank; the run's, until the next call that changes the view */
} tutti_view;

enum tutti_epoch_flags {
    TUTTI_ADMIT = 1         /* newcomers are admitted; else the view only shrinks */
};

/* Agrees on the next view: who lives, less who gave notice, and with TUTTI_ADMIT as many newcomers as `most` (0: any number) leaves room
 * for. Waits for newcomers if there are fewer than `least` (0: 1) and they are admitted. If nobody came or went and nobody was lost, the view
 * stays. Called by all members of the view alike, and by newcomers, who wait here until they are voted in. *out is written on success.
 * What a newcomer asks for is its own: it is admitted to no view of more than its `most`. Its `least` is for a first view, which newcomers form while
 * nobody is in one: with how few a run goes on its members say. One that wants more or fewer than there would be waits, and holds up nobody.
 * PEER_LOST: fewer than `least` are left, and newcomers are not admitted (the sentence says so), or somebody was lost while the members met and they did different things: call
 * again. MISMATCH: members called other things, or this with other arguments (who was a newcomer passes from now on what the others do): names two, and what
 * each passed. TIMEOUT: names one that had not called; or newcomers were waited for, and it says how many members are left and newcomers wait (so does the log, after a second);
 * or a newcomer is told that its own `most`, or its group that is not complete, kept it out.
 * Who gave notice gets a view of nobody, once the others have gone on. */
TUTTI_API tutti_status tutti_run_epoch(tutti_run *run, uint32_t flags, uint32_t least, uint32_t most,
                                       int64_t timeout_ms, tutti_view *out);
/* tutti_run_epoch without newcomers. */
TUTTI_API tutti_status tutti_run_shrink(tutti_run *run, uint32_t least, int64_t timeout_ms, tutti_view *out);
/* The view as it is; smaller than the last epoch returned where operations were retried since; of nobody once this one is out of the run. While this one
 * waits for its replica group to be complete again, the last that it was in. Local. */
TUTTI_API tutti_status tutti_run_view(tutti_run *run, tutti_view *out);
/* Ends this epoch for all, soon: what has not become FINAL is restored, and the sentences of the others' PEER_LOST name this member. Any thread; does not wait. */
TUTTI_API tutti_status tutti_run_revoke(tutti_run *run);
/* The communicator of the view, for every call of tutti.h, with what is promised there: verdicts of its calls are each member's own. It is the
 * run's, until the view changes (by an epoch, or by an operation that is retried), as is the memory that was allocated in it: no call begins on it after
 * that. What is under way then in other threads (collectives, sends and receives, groups, split and dup), which can only be after a loss, ends with an error, and
 * is waited for; open requests are waited for and freed as ever. Other calls on it (tutti_comm_status, tutti_mem_alloc ...) are not waited for. Windows
 * (tutti/rma.h) are made on a tutti_comm_dup of it, which is the program's to destroy after them. NULL: in no view. */
TUTTI_API tutti_comm *tutti_run_comm(tutti_run *run);

/* ---- verdicts on what is not an operation ----------------------------------------------------------- */

/* *out = AND of all members' flags. PEER_LOST: members were lost in this epoch, *out is of those who are left (and written). */
TUTTI_API tutti_status tutti_run_agree(tutti_run *run, uint64_t flags, int64_t timeout_ms, uint64_t *out);
/* One verdict on a step, over all groups: *verdict is 1 if all members say that theirs is good, and the epoch is not over: none was lost in it, and it was
 * not revoked. Tentative operations have their verdicts when it returns, other than with TIMEOUT and MISMATCH: all are FINAL, unless the epoch is over. MISMATCH also
 * where members have not made the same operations in this epoch (one has left out a tentative one among its role, say): nothing has happened, and
 * tutti_run_revoke and tutti_run_epoch take back what is tentative. */
TUTTI_API tutti_status tutti_run_commit(tutti_run *run, int good, int64_t timeout_ms, int *verdict);

/* ---- operations ---------------------------------------------------------------------------------------- */

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
    TUTTI_ABORT = 0,        /* a loss ends it: restored, PEER_LOST */
    TUTTI_RETRY,            /* after a loss it makes the next view without newcomers, and runs again with who is left, until it succeeds or
                               fewer than `least` are. All members use it alike, or get MISMATCH, restored. A TUTTI_AVG is over those who contributed. Only where what is left
                               of the result means the same with fewer: allreduce, reduce, broadcast, barrier; allgatherv and gatherv, in which
                               blocks of the lost are not written; and everything in the scope of a group, which is whole or gone. Of the others
                               part of the input is for the lost, or the buffers' shapes change: INVALID. Who is left of a replica group that lost a
                               member gets PEER_LOST: it is in no view, until tutti_run_epoch has brought it back into one */
    TUTTI_PARTIAL           /* as TUTTI_RETRY, for an allreduce with SUM or AVG in which some may withhold their part: the result is of those
                               who contribute, whose number comes back. It costs one more exchange of a few bytes */
} tutti_mode;

/* Among whom an operation is. Its shapes, root and counts are by rank there: the scope's members in the order of their ranks in the view. Whatever
 * the scope, all members of the view call it, each among its own, and there is one verdict: FINAL for all or restored for all. So the scopes of
 * one operation may have other counts and types, but not another tag or mode. */
typedef enum tutti_scope {
    TUTTI_SCOPE_ALL = 0,    /* all members of the view */
    TUTTI_SCOPE_ROLE,       /* those of this one's role: rank k is the member of the k-th group of the view. Without groups, all */
    TUTTI_SCOPE_GROUP       /* those of this one's replica group: rank k is role k */
} tutti_scope;

/* One operation. Zero means default. All members of a scope pass the same coll, count, type, op, root, quant, divisor, tag and mode, and counts
 * as in tutti.h, which is checked: MISMATCH (but for the tag: members in operations of different tags wait, to the deadline, whose sentence says which these were); and the same scope. */
typedef struct tutti_elastic {
    size_t size;
    tutti_coll coll;
    const void *src;        /* shapes as in tutti.h; in place as there */
    void *dst;              /* undefined after an error; what was in place of the input there is as before the call */
    size_t count;
    tutti_dtype type;
    tutti_redop op;
    /* Of v collectives, as in tutti.h: elements of each rank's block, and where it begins (NULL: packed). Alltoallv: of what is sent. These, and root,
     * are by rank (in the scope) of the view that the last tutti_run_epoch returned, also where operations that were retried have shrunk it
     * since. Then the blocks of the lost have no part in an allgatherv or gatherv; the others are PEER_LOST. */
    const size_t *counts, *displs;
    const size_t *recv_counts, *recv_displs;    /* alltoallv: of what is received */
    int32_t root;
    uint32_t tag;
    tutti_mode mode;
    tutti_scope scope;
    uint32_t least;         /* RETRY, PARTIAL: with fewer members left after a loss it is not tried again; 0: 1. In a batch the largest of what is not
                               FINAL then is that of all of it */
    int32_t withholds;      /* PARTIAL, 1: this one has nothing to contribute (it has just come, or its numbers are bad). src is not read;
                               dst gets the result, as at all */
    const char *algo;       /* as in tutti_call */
    double scale;           /* likewise */
    uint64_t divisor;       /* likewise. TUTTI_AVG divides by this, however many contribute (an average over a fixed world size); 0: by those who do */
    tutti_quant quant;      /* likewise */
    float *error_feedback;  /* likewise; where the operation is restored, so is this, bit for bit */
    int64_t timeout_ms;     /* of the call, all its attempts, on this member (in a batch the longest of all is that of the whole); who does not
                               come by then ends the epoch, not the run */
    int32_t tentative;      /* 1: its verdict may come later, see below */
    /* What came of it: */
    tutti_status status;    /* TUTTI_PENDING: tentative, without a verdict so far */
    uint32_t contributors;  /* members of the scope whose input is in the result; OK only */
    uint32_t attempts;
    uint64_t epoch;         /* in which it ended */
} tutti_elastic;

/* Runs one operation to its verdict, which is the same on all members that live, and returns it (op->status, too). An all-reduce or allgather whose result has up to 1 KiB, and a barrier, in mode
 * TUTTI_ABORT or TUTTI_RETRY, not quantized, not tentative, in a run without replica groups, has its verdict where its result is: whoever has that returns TUTTI_OK, and who is still in it as the
 * epoch ends gets the result from those (docs/elastic-protocol.md). Any other takes one more exchange of a few bytes. INVALID: an
 * argument is wrong, the tag is in use, this one is in no view, or a call that all members make is under way; nothing has happened.
 *
 * Tentative (op->tentative: allreduce, reduce_scatter, allgather, alltoall, barrier, in any scope, in mode TUTTI_ABORT, not in a batch): it returns TUTTI_OK as soon as
 * this member has the result, with op->status TUTTI_PENDING, and saves the exchange that a verdict takes. The result may be used, and what comes of it may be
 * taken back. The verdict is told in op->status, TUTTI_OK or TUTTI_ERR_PEER_LOST, the same on all members that live, by
 *   - the next operation of the same tag, when it returns: that one has its result, so this one is FINAL, be the next one tentative or not;
 *     or the next one fails, and then this one is FINAL, or both are restored;
 *   - tutti_run_commit, whose verdict is 0 if it is not FINAL; or tutti_run_epoch and tutti_run_shrink, which commit first (with good 0).
 * Until then *op is the run's, and so are src and dst where dst overwrites input: they stay allocated; what is written there may be overwritten with
 * the input. Where dst is elsewhere the run touches neither any more; who wants to run it again after a loss keeps src as it is.
 * Among a role or a group, where there are replica groups, the end of an operation tells nothing of other roles and groups. So after a tentative operation the next of its tag
 * is none of these that is tentative, too (INVALID, nothing has happened): a step uses a tag for each, and commits. Where the collective
 * itself refuses the arguments of such an operation this ends the epoch, as other scopes may have their results, which are then taken back; what is refused before it begins changes nothing, and a commit
 * tells that it was left out (MISMATCH).
 * An error is this member's alone: others may have returned TUTTI_OK from the same call, and hear of the loss from what they call next. Whatever that is
 * will do, another operation, tutti_run_commit or tutti_run_epoch, also if it is not the same on all. tutti_run_agree, tutti_run_sync, tutti_run_optimize (unless in the background) and operations of mode
 * TUTTI_RETRY are INVALID from a tentative operation to its verdict (of commit or epoch, or of an operation of its tag that is not tentative), on
 * whatever thread. A tentative operation brings no news to tutti_run_poll. */
TUTTI_API tutti_status tutti_run_collective(tutti_run *run, tutti_elastic *op);
/* The same, in short, in mode TUTTI_RETRY. */
TUTTI_API tutti_status tutti_run_allreduce(tutti_run *run, const void *src, void *dst, size_t count, tutti_dtype type,
                                           tutti_redop op, uint32_t tag);
/* Runs ops[n], at most `most` (0: 4) at once, on the tags first_tag..first_tag + most - 1 in turn (their own are ignored). All members
 * pass the same list, of one mode, in which nothing is tentative (else INVALID). OK: every one is FINAL. Else the first error by index; ops[i].status tells of each. */
TUTTI_API tutti_status tutti_run_batch(tutti_run *run, tutti_elastic *ops, size_t n, uint32_t first_tag, uint32_t most);

/* ---- shared state ------------------------------------------------------------------------------------ */

/* Memory of arrays that the processor does not read and write itself, as that of a GPU: the program copies for the library, which knows of no
 * device. (Where CUDA is, <tutti/elastic_cuda.h> has such functions.) One can serve many arrays. Zero means default; set `size` to sizeof. The functions return
 * 0, or the program's own number for what went wrong, which the sentence then has. All are called while tutti_run_sync is, one at a time: by the thread that called that,
 * and `to_host` also by the run's own thread, which must not wait for long there (it says to the others that this member lives). They call nothing of Tutti. */
typedef struct tutti_array_memory {
    size_t size;
    /* Copies at[bytes], a part of an array, to host[bytes]; done when it returns. Must be there. */
    int (*to_host)(void *context, void *host, const void *at, size_t bytes);
    /* Copies host[bytes] to at[bytes]; likewise. */
    int (*from_host)(void *context, void *at, const void *host, size_t bytes);
    /* The hash of at[bytes], a whole array, as <tutti/hash.h> defines it. NULL: the processor computes it of what to_host brings. */
    int (*hash)(void *context, const void *at, size_t bytes, uint32_t value[4]);
    void *context;
} tutti_array_memory;

/* One array of the state. Zero means default; set `size` to sizeof. */
typedef struct tutti_array {
    size_t size;
    const char *name;       /* with its type and count it is the same on all members, as is the arrays' order */
    void *data;             /* [count], of any alignment. No two arrays overlap, unless neither is written: both may differ, or this member
                               only sends. (Of arrays in other memory those are compared that have one `memory`) */
    size_t count;
    tutti_dtype type;
    int32_t may_differ;     /* 1: each has its own here (a generator's seed): it is not compared, and does not travel */
    const tutti_array_memory *memory;   /* where data is: the program's, until the call returns; NULL: host memory. Each member's own choice */
} tutti_array;

/* All who call a sync are popular, or all are receivers and senders. */
typedef enum tutti_sync_strategy {
    TUTTI_SYNC_POPULAR = 0, /* the most common content wins; of equally common ones that of the oldest member */
    TUTTI_SYNC_RECEIVE,     /* takes what wins */
    TUTTI_SYNC_SEND         /* its content wins, or it is put out of the run: of several senders' the most common */
} tutti_sync_strategy;

typedef enum tutti_sync_scope {
    TUTTI_SYNC_ALL = 0,     /* all members of the view have one state */
    TUTTI_SYNC_ROLE         /* those of each role have one, and sync apart from other roles: where groups shard it over their roles (below 512) */
} tutti_sync_scope;

typedef struct tutti_state {
    size_t size;
    tutti_array *arrays;    /* [narrays] */
    size_t narrays;         /* 1 to 65536 */
    /* Which state this is. Before this member's first good sync: 0, or what a checkpoint says, or any number that is higher the farther
     * the program has come. Each good sync writes what it is now, and that is to be left as it is: the run's first one keeps the number,
     * each later one adds one. Who is behind the others
     * receives; who is ahead of them is put out of the run. */
    uint64_t revision;
    tutti_sync_strategy strategy;
    tutti_sync_scope scope;
    int32_t instead;        /* 1 on all who are willing to send: whatever state the run had, this one takes its place, as in a first sync */
    /* What came of it; written on TUTTI_OK: */
    int32_t received;       /* 1: arrays of this member were overwritten */
    uint64_t bytes_received, bytes_sent;    /* by this member, of arrays and lists of hashes */
} tutti_state;

/* Makes the arrays of all members of the scope alike, bit for bit: those that differ from what wins are received, from up to eight members at once,
 * and checked. All members of the scope call it, as they call epoch and agree; an epoch that is over will do, too. OK: all that live have
 * the same; else nobody's arrays have changed, and after INVALID, TIMEOUT, MISMATCH and NOMEM it may be called again as it was. The arrays are the run's
 * until it returns; it costs a receiver as much memory as it receives, until then.
 * Who has other arrays (names, types, counts) than the members agreed on in the first sync, is ahead of them, or would only send what did not win,
 * is put out (ABORTED, with the reason), and the others' call goes on. As after any loss their epoch is over then.
 * INVALID: an argument is wrong (of two arrays that overlap it names both); a call or an operation is under way; or nobody is willing to send what comes after the last sync. MISMATCH:
 * members called other things, or some are popular and some not. PEER_LOST: all who had what won are lost, or who was left went on to the
 * next epoch: call tutti_run_epoch. UNSUPPORTED: the members of the last good sync are all gone, and nobody here has what they had: see
 * `instead`. NOMEM: a member, which the sentence names, could not receive. TIMEOUT names who had not called, or whose deadline it was.
 * SYSTEM: an array's memory could not be hashed or read before anything was offered; nothing has happened. Where it cannot be read for others later, or written at the
 * end, this member has left the run (ABORTED, with the reason), and of its arrays those are undefined that were to be written. Sources:
 * PCCL (technical report, 2025), synchronizeSharedState. */
TUTTI_API tutti_status tutti_run_sync(tutti_run *run, tutti_state *state, int64_t timeout_ms);

/* ---- the order of the ring --------------------------------------------------------------------------- */

/* What the order of the ring is for, and what came of it. Zero means default; set `size` to sizeof. */
typedef struct tutti_ring {
    size_t size;
    /* The same on all members: */
    uint64_t bytes;         /* of one all-reduce; 0: 64 MiB */
    uint64_t steps;         /* all-reduces that are to come in this order, which have to win back what reconnecting takes; 0: 1000 */
    uint32_t gain_percent;  /* a smaller gain is noise, and nothing changes; at most 99; 0: 5 */
    uint32_t burst_ms;      /* a pair is measured for so long at most; 10 to 10000; 0: 400, or 12 of its round trips if that is
                               longer (the window of a connection has to grow first), but 2000 at most */
    int32_t background;     /* 1: returns at once; see below */
    /* What came of it, where it is waited for; written on TUTTI_OK: */
    int32_t adopted;        /* 1: the members have other ranks now, or what the order is for has changed */
    uint64_t was_ns, now_ns;    /* predicted of one all-reduce: in the order that was, and in the one that the view has now; 0: not
                                   known, as links could not be measured */
} tutti_ring;

/* Measures bandwidth and latency of every ordered pair of members (with replica groups: of those of one role, all roles at the same time), finds the
 * order of ranks in which a ring all-reduce is predicted to be fastest, and adopts it if the gain is worth it: then this is also an epoch without
 * newcomers, after which ranks follow the ring (rank r sends to r + 1). Ids stay. From 1 MiB on, elastic all-reduces that name no algorithm then use the ring; or, where one of those is predicted to be
 * faster, two rings at once in opposite directions ("two_rings"), or the two trees of "dtree"; until newcomers join the view.
 *
 * With replica groups whole groups change places, and the order is that in which TUTTI_SCOPE_ROLE has them: that of the ring of each role, whose operations
 * use what was found, `bytes` being those of one role. It is the best for the role that is slowest. Within a group members keep the order of their roles,
 * and operations of other scopes the algorithms that they have.
 *
 * Measuring takes nranks - 1 rounds (groups - 1), in each of which a member sends to one other and receives from one other, over the connections that
 * members have beside their data. A round takes about 3 round trips and a burst, which ends as soon as its rate no longer changes, or
 * after burst_ms; as long as that of the pair that takes longest.
 *
 * Called by all members of the view alike, with an out as in tutti_run_epoch. With `background` out is NULL, and it is measured while the
 * program goes on; when a better order is found, tutti_run_poll says so (`better`, the same on all at the same point), and the next
 * tutti_run_epoch adopts it. Also where nothing better was found at first, the search goes on for a while, with the same end.
 *
 * At most 512 members, or replica groups: else UNSUPPORTED. PEER_LOST: a member was lost meanwhile, or had been in this epoch: call tutti_run_epoch.
 * TIMEOUT names who had not called, else who had not measured. MISMATCH: members called other things, or this for another size or gain: names two, and what each
 * called; in the background nothing is called, so who waits for those who measure there is told of what they call next. INVALID: an argument is wrong; a call is under way, or an operation, unless in the background. docs/ring-order.md tells how the order is found. After PCCL
 * (technical report, 2025), optimizeTopology. */
TUTTI_API tutti_status tutti_run_optimize(tutti_run *run, tutti_ring *ring, int64_t timeout_ms, tutti_view *out);

/* ---- numbers ------------------------------------------------------------------------------------------- */

typedef struct tutti_run_stats_t {
    size_t size;
    uint64_t id;                    /* this member's; 0: none yet */
    uint64_t final, restored;       /* operations */
    uint64_t retries;
    uint64_t views;                 /* that it was in */
    uint64_t worlds;                /* of these, for how many the members connected anew */
    uint64_t connects;              /* to the coordinator, that succeeded */
    uint64_t cuts;                  /* connections to other members that ended and were made again */
} tutti_run_stats_t;

/* Local; any thread. */
TUTTI_API tutti_status tutti_run_stats(tutti_run *run, tutti_run_stats_t *out);

#ifdef __cplusplus
}
#endif
#endif
