/* Trace dumps of a job (docs/trace-format.md) in memory. Dumps may be missing, incomplete or
 * hostile: what was read stays usable, and each problem is recorded. Memory is bounded by kept_max
 * completed operations per rank (at most twice as many), all incomplete ones, and one entry per
 * communicator and rank. Not for concurrent use. */
#ifndef TT_ANALYZE_DUMPS_H
#define TT_ANALYZE_DUMPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "analyze/intern.h"
#include "analyze/members.h"
#include "tutti/tutti.h"

#define TT_DUMPS_RANKS_MAX (1u << 20)
#define TT_DUMPS_KEPT 64u               /* completed operations kept per rank: the newest ones */
#define TT_DUMPS_KEPT_MAX (1u << 20)
#define TT_DUMPS_OPEN_MAX 65536u        /* incomplete operations kept per rank */
#define TT_DUMPS_LINE_BYTES_MAX (16u << 20)
#define TT_DUMPS_PROBLEMS_MAX 32u       /* problems kept as text */
#define TT_DUMPS_NONE UINT32_MAX        /* no rank, communicator or index */
#define TT_DUMPS_NEVER INT64_MIN        /* unknown time, or no such event */

/* SETUP: calls of comm_*, window_* and run_*, which have their own sequence numbers. The
 * collectives inside them are separate operations. */
enum tt_op_class { TT_OP_COLLECTIVE, TT_OP_P2P, TT_OP_ONE_SIDED, TT_OP_SETUP };
enum tt_op_wait {
    TT_WAIT_NONE,
    TT_WAIT_START,
    TT_WAIT_DATA,
    TT_WAIT_CREDIT,
    TT_WAIT_CTS,
    TT_WAIT_COMPLETION,
    TT_WAIT_MATCH,
    TT_WAIT_OTHER
};
enum tt_op_stage { TT_OP_REGISTER, TT_OP_SENDING, TT_OP_REDUCE, TT_OP_COPY, TT_OP_STAGES };
/* Why a member is no longer in an elastic run, as its coordinator reported (trace/departures.h). */
enum tt_departed {
    TT_DEPARTED_NOT,
    TT_DEPARTED_DIED,
    TT_DEPARTED_SILENT,
    TT_DEPARTED_UNREACHABLE,
    TT_DEPARTED_PROTOCOL,
    TT_DEPARTED_STATE,
    TT_DEPARTED_OTHER           /* unknown word, or the dumps contradict each other */
};
enum tt_peer_state { TT_PEER_ALIVE, TT_PEER_SILENT, TT_PEER_LOST, TT_PEER_UNKNOWN };

/* All times: ns of job time. Texts: indices in tt_dumps.texts. */
struct tt_dumps_op {
    uint64_t number, seq, count, bytes;
    int64_t called, started, ended;     /* or TT_DUMPS_NEVER */
    int64_t waited;                     /* start of the application's wait for it; NEVER: it does
                                           not wait */
    int64_t tag;
    int64_t first_data;                 /* first data sent or received; NEVER: unknown */
    float stages[TT_OP_STAGES];         /* ns in each stage; negative: unknown */
    size_t peers_first;                 /* in tt_dumps.peers */
    uint32_t npeers;
    uint32_t rank, comm;
    uint32_t kind, algo, type, redop, status, note;
    uint32_t root, peer;                /* or TT_DUMPS_NONE */
    uint32_t step, steps;
    uint32_t waits_rank;                /* or TT_DUMPS_NONE */
    uint8_t waits_for;                  /* enum tt_op_wait */
    uint8_t class;                      /* enum tt_op_class */
    bool is_send;                       /* point-to-point */
    bool is_open;                       /* it has no end, or it failed */
};

/* Bytes between the rank of an incomplete operation and one peer. */
struct tt_dumps_peer {
    uint32_t rank;
    uint64_t sent, received;
    int64_t first_out, last_out, first_in, last_in;
};

/* Report of a rank about a peer that is silent or lost. */
struct tt_dumps_report {
    uint32_t by, about;
    uint32_t wire;
    uint8_t state;                      /* enum tt_peer_state */
    bool is_expected;                   /* the same dump shows that the peer has left the run */
    int64_t last_heard, last_progress;
};

/* A lane of `rank` to `peer` that is not up, or has incomplete posts. */
struct tt_dumps_lane {
    uint32_t rank, peer, lane;
    uint32_t wire, state;
    uint64_t posts, completions, posted_bytes, completed_bytes;
    int64_t last_post, last_completion;
};

/* Calls of one rank on one communicator. */
struct tt_dumps_local {
    uint32_t rank, comm;
    uint64_t ncalled;                   /* 1 + the highest seq of a collective call; 0: none */
};

struct tt_dumps_comm {
    uint64_t hash;
    uint32_t name, of;
    uint64_t members_hash;              /* of the text of the members; 0: members unknown */
    struct tt_members members;
    size_t locals_first;                /* in tt_dumps.by_comm: sorted by rank */
    uint32_t nlocals;
    size_t marked_local;                /* used while a dump is read */
    uint32_t marked_rank;
    bool is_open;                       /* in a dump */
};

struct tt_dumps_rank {
    bool is_used;                       /* while dumps are read: the entry is initialized */
    bool is_member;                     /* of the job. In an elastic run: it has a dump, or is in an
                                           open communicator */
    bool has_dump;
    bool is_complete;                   /* its whole dump was read */
    bool has_clock;                     /* its times are comparable with those of other ranks */
    uint32_t host, reason, message, path, note;
    uint32_t pid;
    uint64_t lost;                      /* records that were overwritten in the ring */
    int64_t now, note_at, error_ns;
    int64_t failed;                     /* time of the failure that caused the dump; NEVER: another
                                           cause */
    size_t ops_first, locals_first;
    uint32_t nops, nlocals;
    uint32_t nalive, nsilent, nlost;    /* reports of other ranks about this rank,
                                           except expected ones */
    int64_t heard;                      /* latest time at which another rank received from it */
    int64_t gone;                       /* earliest last_heard in reports of silence or loss */
    bool has_left;                      /* left the elastic run in an orderly way */
    bool is_away;                       /* missing from a view of the elastic run; unknown cause */
    uint32_t away_by;                   /* rank of the last dump that shows either, + 1 */
    uint64_t away_epoch;                /* of the last view with it, in these dumps */
    uint64_t lost_epoch;                /* the same, in dumps that report another departure */
    uint8_t departed;                   /* enum tt_departed: its departure, if that came before the
                                           failure of another rank, and no later view replaced it */
    uint32_t ndeparted;                 /* dumps that report it */
    uint64_t departed_epoch;
};

/* Initial values of a rank. */
#define TT_DUMPS_RANK_UNUSED \
    .gone = TT_DUMPS_NEVER, .heard = TT_DUMPS_NEVER, .now = TT_DUMPS_NEVER, \
    .note_at = TT_DUMPS_NEVER, .failed = TT_DUMPS_NEVER

/* Last sequence number of sends or receives of a rank, per peer and tag. */
struct tt_dumps_p2p {
    uint32_t rank, comm, peer;
    int64_t tag;
    bool is_send, is_used;
    uint64_t ncalled;
};

struct tt_dumps {
    char job[64], version[32];
    uint32_t nranks;                    /* 0: no dump was read. Elastic: an upper bound; after
                                           indexing, the highest member ID + 1 */
    uint32_t nmembers;                  /* of the job, after indexing */
    uint32_t nmentioned;                /* highest rank in any line + 1; used while dumps are
                                           read */
    bool is_elastic;                    /* ranks are member ids, with gaps */
    uint32_t host;                      /* of the first dump, if no dump has a clock offset: times
                                           of this host are comparable; otherwise 0 */
    uint32_t kept_max;                  /* TT_DUMPS_KEPT; the caller may set 1 to
                                           TT_DUMPS_KEPT_MAX before the first dump */
    int64_t hung_ns;                    /* waits of at least this time can have a cause; the caller
                                           may set it before tt_waits_init. 0: any wait */
    bool has_folder;                    /* set by the caller: of each path, only the last component
                                           is used, in the directory `folder`; symbolic links are
                                           rejected */
    int folder;
    uint32_t ndumps, ncomplete, nrejected;
    uint64_t nskipped;                  /* lines of unknown kinds */
    uint64_t nrecords;                  /* operations in the dumps */
    struct tt_dumps_rank *ranks;        /* [nranks] */
    struct tt_dumps_op *ops;            /* grouped by rank, in the order of its calls */
    struct tt_dumps_peer *peers;
    struct tt_dumps_report *reports;
    struct tt_dumps_lane *lanes;
    struct tt_dumps_local *locals;
    struct tt_dumps_comm *comms;
    struct tt_dumps_p2p *p2p;           /* hash table */
    uint32_t *comm_slots, *by_comm;
    size_t nops, npeers, nreports, nlanes, nlocals, np2p;
    uint32_t ncomms;
    size_t cap_ops, cap_peers, cap_reports, cap_lanes, cap_locals, cap_comms, cap_p2p, cap_slots;
    struct tt_intern texts;
    char problems[TT_DUMPS_PROBLEMS_MAX][256];
    uint32_t nproblems;                 /* of all; only the first ones are kept as text */
};

/* NOMEM (logged): *d is not initialized. Otherwise the caller must call tt_dumps_fini. */
tutti_status tt_dumps_init(struct tt_dumps *d);
void tt_dumps_fini(struct tt_dumps *d);

/* Reads one dump. INVALID or SYSTEM: the file is no dump of this job, or unreadable; it is recorded
 * as a problem and in nrejected, and the other dumps are not affected. Of a dump with an incomplete
 * or invalid line, the lines before it are used. NOMEM: memory is exhausted; the caller must stop.
 * Errors are not logged. */
tutti_status tt_dumps_read(struct tt_dumps *d, const char *path);
/* As tt_dumps_read, from text[bytes]; `name` identifies it in problems. */
tutti_status tt_dumps_read_text(struct tt_dumps *d, const char *name, const char *text,
                                size_t bytes);
/* Builds the index. Call it once, after the last dump and before the functions below. */
tutti_status tt_dumps_index(struct tt_dumps *d);

/* Returns the calls of a rank on a communicator, or NULL if its dump does not contain it. */
const struct tt_dumps_local *tt_dumps_local_of(const struct tt_dumps *d, uint32_t comm,
                                               uint32_t rank);
const char *tt_dumps_text(const struct tt_dumps *d, uint32_t text);
/* Returns the word for a departure in dumps, e.g. "died", or "unknown". */
const char *tt_dumps_departed_word(enum tt_departed departed);
/* Returns the name of a communicator: its given name, or the beginning of its hash in hex. */
const char *tt_dumps_comm_name(const struct tt_dumps *d, uint32_t comm, char out[32]);
bool tt_dumps_failed(const struct tt_dumps *d, const struct tt_dumps_op *op);

#endif
