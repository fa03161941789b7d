/* Rates of the lanes of each transport, for the live view. The holder of the progress lock samples
 * the counters of the lanes only while there is a reader, to save the cost otherwise. Readers take
 * no progress lock. */
#ifndef TT_ENGINE_LANE_BOARD_H
#define TT_ENGINE_LANE_BOARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_engine;

#define TT_LANE_KINDS 4u                        /* transports */
#define TT_LANE_SAMPLE_NS 500000000ull          /* minimum interval between samples */
#define TT_LANE_WANTED_NS 150000000000ull       /* sampling period after a reading */
#define TT_LANE_VALID_NS 3000000000ull          /* lifetime of a sample */

struct tt_lane_kind {
    const char *wire;           /* name of the transport */
    uint32_t lanes, up;
    bool has_rates;             /* two samples exist; else the fields of an interval are 0: */
    uint32_t idle;              /* up, and nothing was posted in the interval */
    uint32_t depth;             /* largest out-of-order depth of a link in the interval */
    uint64_t posts_per_s, bytes_per_s;          /* posted */
    uint64_t outstanding, outstanding_bytes;    /* posted, not yet complete */
};

struct tt_lane_board {
    _Atomic uint64_t wanted_ns;         /* time until which samples are taken; 0: none */
    uint64_t sampled_ns;                /* last sample; under the progress lock */
    uint64_t posts[TT_LANE_KINDS], posted_bytes[TT_LANE_KINDS];     /* counters at that time */
    pthread_mutex_t lock;               /* protects the fields below */
    uint64_t shown_ns;                  /* 0: there is no sample yet */
    uint32_t nkinds;
    struct tt_lane_kind kind[TT_LANE_KINDS];
};

void tt_lane_board_init(struct tt_lane_board *b);
void tt_lane_board_fini(struct tt_lane_board *b);
/* Takes a sample. Under the progress lock; use tt_lane_board_is_due before. */
void tt_lane_board_sample(struct tt_engine *e, uint64_t now_ns);
/* Copies the last sample to out[TT_LANE_KINDS], and returns the number of its entries. 0: there is
 * no sample yet; the holder of the progress lock is then notified to take one. Any thread. */
uint32_t tt_engine_lanes(struct tt_engine *e, struct tt_lane_kind *out);

static inline bool tt_lane_board_is_due(const struct tt_lane_board *b, uint64_t now_ns)
{
    return __builtin_expect(atomic_load_explicit(&b->wanted_ns, memory_order_relaxed) > now_ns,
                            0) &&
           now_ns - b->sampled_ns >= TT_LANE_SAMPLE_NS;
}

#endif
