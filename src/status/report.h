/* The content of the live view: the positions of ranks in their communicators, and the ranks that
 * do not respond. Reports of several ranks are merged on their path to the queried rank. Bounded:
 * rows beyond the maxima are counted in left_out. No locks; one thread at a time.
 *
 * A position is an operation in progress, or the last one that has ended. Members of a communicator
 * in the same position form a group: the ranks missing from an operation are in the groups with
 * earlier positions. A group lists only its first ranks, which is enough for a small group of
 * missing ranks. */
#ifndef TT_STATUS_REPORT_H
#define TT_STATUS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"

#define TT_STATUS_COMMS_MAX 8192u       /* communicators of a report */
#define TT_STATUS_GROUPS_MAX 6u         /* positions of a communicator */
#define TT_STATUS_LISTED_MAX 8u         /* listed ranks of a group */
#define TT_STATUS_OPS_MAX 256u          /* single operations; the oldest ones are kept */
#define TT_STATUS_RANKS_MAX 256u        /* ranks of a list */
#define TT_STATUS_SLOW_MAX 8u           /* listed ranks with the lowest shares */
#define TT_STATUS_WIRES_MAX 8u          /* transports */
#define TT_STATUS_WIRE_BYTES 16u        /* name of a transport */
#define TT_STATUS_NAME_BYTES 64u
#define TT_STATUS_MEMBERS_BYTES 120u
#define TT_STATUS_TEXT_BYTES 128u
#define TT_STATUS_WHOLE 1000u           /* the largest share */
#define TT_STATUS_NO_RANK UINT32_MAX
#define TT_STATUS_NO_SEQ UINT64_MAX
#define TT_STATUS_ROWS_MIN 400u         /* minimum buffer of tt_status_write */

enum tt_status_state {
    TT_STATUS_IN,               /* the operation is in progress */
    TT_STATUS_OUT               /* it has ended, and no later one has begun */
};

/* Description of an operation; values as in trace/oplog.h. */
struct tt_status_op_key {
    uint64_t seq;               /* TT_STATUS_NO_SEQ: no operation yet */
    uint64_t count;             /* elements per rank; 0: it differs between ranks */
    uint32_t root;              /* or TT_STATUS_NO_RANK */
    uint8_t kind, type, redop;
    uint8_t state;              /* enum tt_status_state */
    uint8_t status;             /* tutti_status of the operation, if it has ended */
};

struct tt_status_group {
    struct tt_status_op_key key;
    uint64_t age_max_ns, age_min_ns;        /* since the call or the end, of its members */
    uint32_t nranks, nlisted;
    uint32_t ranks[TT_STATUS_LISTED_MAX];   /* job ranks, ascending */
    uint32_t waits[TT_STATUS_LISTED_MAX];   /* ranks that they await; or TT_STATUS_NO_RANK */
};

/* Stages of long operations. The sum of their times is the time from call to end. */
enum tt_status_stage {
    TT_STATUS_STAGE_QUEUE,      /* waiting for earlier operations, before the start */
    TT_STATUS_STAGE_PEER,       /* then waiting for the first message of the peer with which the
                                   first data was exchanged: that peer had not called */
    TT_STATUS_STAGE_CONTROL,    /* then control messages, until the first data was sent or
                                   received */
    TT_STATUS_STAGE_REGISTER,   /* as in trace/stages.h, from here on */
    TT_STATUS_STAGE_SEND,
    TT_STATUS_STAGE_REDUCE,
    TT_STATUS_STAGE_COPY,
    TT_STATUS_STAGE_WIRE,       /* the rest */
    TT_STATUS_STAGES
};

/* Operations of a communicator in the last second. A share is the part of that time, in
 * thousandths, that a rank spent in its collectives. A rank with a lower share than other ranks
 * calls late: these wait for it. */
struct tt_status_rates {
    uint64_t calls, bytes;      /* of all reporting members */
    uint64_t nstaged;           /* number of these calls with known stages: long ones */
    uint64_t staged_ns[TT_STATUS_STAGES];       /* times of these */
    uint32_t nranks;            /* number of reporting members */
    uint32_t least_rank, least; /* the lowest share, and its rank */
    uint32_t most_rank, most;
};

struct tt_status_comm {
    uint64_t hash;
    uint32_t nranks;            /* members */
    uint32_t nreported;
    uint32_t nothers;           /* reported members beyond TT_STATUS_GROUPS_MAX positions */
    uint8_t of;                 /* enum tt_comms_of */
    uint8_t ngroups;
    char name[TT_STATUS_NAME_BYTES];
    bool has_rates;
    struct tt_status_rates rates;
    char members[TT_STATUS_MEMBERS_BYTES];  /* job ranks, "0-14:2,16"; "": unknown or too long */
    struct tt_status_group groups[TT_STATUS_GROUPS_MAX];
};

/* An operation of one rank: a send, receive or one-sided call in progress; in details, any. */
struct tt_status_op {
    uint64_t comm;              /* hash; 0: none */
    uint64_t age_ns, ended_ns;  /* since its call; since its end, while state is OUT */
    uint32_t rank, peer, tag;   /* peer and tag: or TT_STATUS_NO_RANK */
    uint32_t waits;             /* awaited job rank, or TT_STATUS_NO_RANK */
    struct tt_status_op_key key;
};

/* Lists of ranks. */
enum tt_status_list {
    TT_STATUS_SILENT,           /* a neighbour in the control overlay receives no sign of life */
    TT_STATUS_LATE,             /* alive, but its complete report did not arrive in time */
    TT_STATUS_LEFT,             /* it has left the job */
    TT_STATUS_LOST,             /* its process has ended */
    TT_STATUS_LISTS
};

struct tt_status_ranks {
    uint32_t n;
    bool more;                  /* further ranks were left out */
    uint32_t rank[TT_STATUS_RANKS_MAX];     /* ascending */
    uint8_t reports[TT_STATUS_RANKS_MAX];   /* neighbours that report it */
};

/* The lanes of a transport, of all ranks that have sampled them. */
struct tt_status_lanes {
    char wire[TT_STATUS_WIRE_BYTES];
    uint32_t nranks;
    uint32_t nrated;            /* number of these ranks with rates and interval fields */
    uint32_t lanes, up;
    uint32_t down_rank, down_most;      /* the rank with most lanes down, and their number */
    uint32_t idle;              /* lanes that are up, without posts in the last interval */
    uint32_t depth;             /* maximum out-of-order depth of a link in the interval */
    uint64_t posts_per_s, bytes_per_s;
    uint64_t outstanding, outstanding_bytes;    /* posted, but incomplete segments and bytes */
    uint32_t most_rank;         /* the rank with the most outstanding bytes */
    uint64_t most_bytes;
};

/* Shares of ranks: the part of the last second, in thousandths, that a rank spent in collectives.
 * Ranks with low shares are late callers or slow in other work: ranks with high shares wait. */
struct tt_status_shares {
    uint32_t nranks;            /* ranks with a share */
    uint32_t most;              /* the largest share */
    uint32_t n;                 /* entries of the arrays: the lowest shares, in ascending order */
    uint32_t rank[TT_STATUS_SLOW_MAX], share[TT_STATUS_SLOW_MAX];
};

/* Details of one queried rank. */
struct tt_status_detail {
    bool present;
    uint32_t rank, pid;
    uint64_t records;           /* in its trace */
    char host[TT_STATUS_NAME_BYTES];
    char note[TT_STATUS_TEXT_BYTES];        /* its last annotation */
};

struct tt_status_report {
    uint32_t nreported;         /* number of ranks that have reported */
    uint32_t nactive;           /* number of these with an operation in progress */
    uint32_t nuntraced;         /* number of these without a trace of operations */
    uint32_t ndumping;          /* number of these in a process that writes a trace dump */
    uint32_t ndumps;            /* number of such processes, and thus of files */
    uint32_t left_out;          /* rows beyond a maximum, or without memory */
    uint64_t ops_per_s, bytes_per_s;        /* ended in the last second, of all ranks */
    uint32_t ncomms, comms_cap;
    struct tt_status_comm *comms;
    uint32_t *index;            /* [2 * comms_cap] by hash: index of the entry + 1; 0: free */
    uint32_t nops, ops_cap;
    struct tt_status_op *ops;
    struct tt_status_ranks lists[TT_STATUS_LISTS];
    uint32_t nlanes;
    struct tt_status_lanes lanes[TT_STATUS_WIRES_MAX];
    struct tt_status_shares shares;
    struct tt_status_detail detail;
};

/* Returns a + b, or the maximum: numbers from other processes are not trusted. */
static inline uint32_t tt_status_sum(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

void tt_status_report_init(struct tt_status_report *r);
void tt_status_report_fini(struct tt_status_report *r);
/* Returns the size of the report, including *r, in bytes. */
size_t tt_status_report_bytes(const struct tt_status_report *r);

/* Adds a communicator without groups, or adds the reported members to an existing one. Returns its
 * entry, valid until the next call; NULL: left out. */
struct tt_status_comm *tt_status_add_comm(struct tt_status_report *r,
                                          const struct tt_status_comm *c);
/* Adds members to the group with the same position. */
void tt_status_add_group(struct tt_status_comm *c, const struct tt_status_group *g);
/* Adds rates of other members. */
void tt_status_add_rates(struct tt_status_comm *c, const struct tt_status_rates *rates);
void tt_status_add_op(struct tt_status_report *r, const struct tt_status_op *op);
/* Adds lanes of other ranks. */
void tt_status_add_lanes(struct tt_status_report *r, const struct tt_status_lanes *l);
/* Adds the shares of other ranks. */
void tt_status_add_shares(struct tt_status_report *r, const struct tt_status_shares *s);
/* Adds a rank to a list, or `reports` to its entry. */
void tt_status_add_rank(struct tt_status_report *r, enum tt_status_list list, uint32_t rank,
                        uint32_t reports);
/* Returns whether a list contains the rank. */
bool tt_status_has_rank(const struct tt_status_report *r, enum tt_status_list list, uint32_t rank);
/* Returns the entry of a communicator, or NULL. */
struct tt_status_comm *tt_status_find_comm(const struct tt_status_report *r, uint64_t hash);

/* Position in the rows of a report; all zero: the first. */
struct tt_status_cursor {
    uint32_t stage, at, group;
};

/* Writes the next rows to out[cap], cap at least TT_STATUS_ROWS_MIN. Returns their bytes; 0: there
 * are no more rows. The report must not change between calls. report_rows.c. */
size_t tt_status_write(const struct tt_status_report *r, struct tt_status_cursor *at, void *out,
                       size_t cap);
/* Merges rows written by tt_status_write. False: a row is invalid; the rows before it are merged.
 * report_rows.c. */
bool tt_status_merge(struct tt_status_report *r, const void *rows, size_t bytes);

#endif
