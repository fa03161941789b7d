/* Chooses how data is copied within a host: with ordinary or non-temporal stores, fetched by its
 * receiver in a single copy, or written by its sender to its destination. The engine and the
 * shared-memory transport describe each copy (struct tt_copy_case) and get its method (enum
 * tt_copy_way).
 *
 * The fastest method depends on the processors, on the caches that they share, and on both ends. In
 * a virtual machine it changes within seconds. Therefore methods are tried and timed
 * (base/autotune.h). What is timed depends on the operation:
 *  - If all ranks wait for each other, the time of the operation covers both ends of each copy, and
 *    is measured. Ranks call collectives in the same order, so they try the same method at the same
 *    time.
 *  - Otherwise a rank can time only its own stores (tt_copy_to_peer, tt_copy_to_mailbox).
 *
 * Methods for long messages are tried for each kind of operation and size class, and the ranks that
 * exchange data agree on the method in use: mixed methods would falsify the measurement. Each rank
 * announces in its CTS the method for the next operation of the same kind and class. A rank adopts
 * the announcement of the lowest rank on its host from which it receives one. (In a unidirectional
 * ring a rank receives CTS only from the next rank; there each rank decides alone.)
 *
 * Requires the progress lock of the engine whose state is passed. */
#ifndef TT_WIRE_COPY_POLICY_H
#define TT_WIRE_COPY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/autotune.h"
#include "reduce/reduce.h"
#include "sched/sched.h"

/* The method of a copy. Peers announce ORDINARY to NONTEMPORAL, so these values are part of the
 * protocol. */
enum tt_copy_way {
    TT_COPY_UNDECIDED,      /* the copying rank decides, by measurements or by default */
    TT_COPY_ORDINARY,       /* ordinary stores; of a message: into slots */
    TT_COPY_SINGLE,         /* of a message: its receiver fetches it in a single copy */
    TT_COPY_NONTEMPORAL,    /* non-temporal stores; of a message: into slots */
    TT_COPY_PUSH            /* the sender writes the data to its destination if the receiver permits
                               that; otherwise SINGLE */
};
#define TT_COPY_WAYS 3u             /* number of methods that are tried: ORDINARY to NONTEMPORAL */
#define TT_COPY_CLASSES 12u         /* size classes of messages: powers of two */

/* Thresholds in bytes that other files also use. copy_policy.c has the remaining ones and the
 * measurements. */
#define TT_COPY_EAGER_MIN 8192u     /* minimum eager message whose stores are chosen */
#define TT_COPY_MESSAGE_MIN (16u << 10)     /* minimum message whose method is tried */
#define TT_COPY_CROWDED_MIN (2u << 20)      /* minimum single copy if ranks are oversubscribed */

/* Measurements of one kind of operation and size class, on one rank. Zero: none. */
struct tt_copy_tuner {
    struct tt_autotune_runs runs;
    uint8_t in_use;             /* method of the next operation, minus TT_COPY_ORDINARY */
    bool follows;               /* in_use was announced by another rank */
};
struct tt_copy_tuners {
    struct tt_copy_tuner of[TT_COLL_KINDS][TT_COPY_CLASSES];
};

/* Use of these measurements by the messages of one operation. Zero: nothing is decided yet. */
struct tt_copy_trial {
    struct tt_copy_tuner *tuner;    /* NULL: no long message yet */
    uint8_t way;                    /* enum tt_copy_way of its messages */
    uint8_t stores;                 /* the same for its segments in slots */
    bool timed;                     /* its time is recorded */
    uint8_t announced;              /* in its CTS, for the next operation: TT_COPY_WAYS * size class
                                       + method; 0: nothing */
    uint8_t received;               /* announcement of the lowest rank below this one; 0: none */
    uint32_t received_from;         /* the rank that sent it */
    uint64_t begin_ns, bytes;
};

/* Kind of stores for the long eager messages of a repeated operation, whose calls are otherwise
 * identical. Zero: not tried. */
struct tt_copy_eager {
    bool tried;
    uint8_t stores;                 /* enum tt_copy_way of this call */
    uint64_t begin_ns;
    struct tt_autotune tuner;
};

enum tt_copy_what {
    TT_COPY_MESSAGE,        /* all data of a long message from a peer, before its CTS */
    TT_COPY_EAGER,          /* an eager message: UNDECIDED, unless its operation tries both stores
                               (tt_copy_eager_settle) */
    TT_COPY_SEGMENT,        /* a put into a slot of a peer */
    TT_COPY_FUSED,          /* the result of a local step, written into a mapped slot of a peer */
    TT_COPY_PUT,            /* a put to its destination at a peer */
    TT_COPY_OUTPUT          /* a local step that writes into the caller's buffer */
};

/* A copy. */
struct tt_copy_case {
    enum tt_copy_what what;
    bool crowded;               /* ranks outnumber cores */
    bool single_only;           /* TUTTI_CMA=2 */
    bool fetchable;             /* MESSAGE: its destination can be the target of a single copy */
    bool mapped;                /* PUT: the destination is mapped here; EAGER: all mailboxes are */
    bool beyond_cache;          /* tt_copy_exceeds_cache */
    uint64_t bytes;             /* EAGER: the longest one */
    const struct tt_coll *coll;
    struct tt_copy_trial *trial;
    struct tt_copy_tuners **tuners;     /* MESSAGE: allocated here at first use, by calloc */
    const uint8_t *past_cache;  /* FUSED: tt_rkey.past_cache */
};

/* Returns the method of a copy. */
enum tt_copy_way tt_copy_choose(const struct tt_copy_case *c);
static inline bool tt_copy_is_single(enum tt_copy_way way)
{
    return way == TT_COPY_SINGLE || way == TT_COPY_PUSH;
}
/* Returns the flag by which tt_copy and kernels select this method. */
static inline uint32_t tt_copy_flag(enum tt_copy_way way)
{
    return way == TT_COPY_NONTEMPORAL ? TT_STREAM_DST : 0;
}
/* Returns whether the data of a put is in the sender's cache: a sum that an all-reduce forwards.
 * Fetching it from there would be slowest. Therefore it is written into the peer's slot when it is
 * produced, and copied from the slot; or the sender writes it to its destination. */
static inline bool tt_copy_is_hot(const struct tt_coll *c) { return c->kind == TT_ALLREDUCE; }

/* Returns the size of input and output per rank beyond which outputs would leave the cache before
 * they are used. `ranks` ranks of this host run on `cores` cores, of which `sharing` share this
 * rank's last-level cache of cache_bytes. 0: unknown. */
uint64_t tt_copy_cache_share(uint64_t cache_bytes, uint32_t sharing, uint32_t cores,
                             uint32_t ranks);
/* Returns whether the input and output of an operation exceed that share. */
bool tt_copy_exceeds_cache(const struct tt_coll *c, uint64_t share);

/* Handles an announcement of another rank. self and rank are ranks in the operation. */
void tt_copy_trial_receive(struct tt_copy_trial *t, uint32_t self, uint32_t rank,
                           uint8_t announced);
/* The operation, or one of its parts, is over. well: its time is a valid measurement. */
void tt_copy_trial_end(struct tt_copy_trial *t, bool well);

/* The operation will be repeated: decides whether its calls try both kinds of stores. c: EAGER */
void tt_copy_eager_settle(struct tt_copy_eager *e, const struct tt_copy_case *c);
/* If its calls try both kinds: a call begins; a call has succeeded. */
void tt_copy_eager_begin(struct tt_copy_eager *e);
void tt_copy_eager_record(struct tt_copy_eager *e);

/* Copies into memory of a peer that is mapped here. Undecided: measures which stores are faster. */
void tt_copy_to_peer(struct tt_autotune *stores, enum tt_copy_way way, void *dst, const void *src,
                     uint64_t bytes);
/* The same for an eager message of at least TT_COPY_EAGER_MIN bytes. */
void tt_copy_to_mailbox(struct tt_autotune_limit *stores, enum tt_copy_way way, void *dst,
                        const void *src, uint32_t bytes);

#endif
