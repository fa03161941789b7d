/* A sender and a receiver of DQPLB with lanes between them, executed one event at a time: in random
 * order, or in all orders. */
#ifndef TESTS_WIRE_DQPLB_WALK_H
#define TESTS_WIRE_DQPLB_WALK_H

#include "wire/dqplb.h"

#define WALK_WINDOW_MAX 64
#define WALK_OUTSTANDING_MAX 6
#define WALK_MESSAGES_MAX 64
#define WALK_SEGMENTS_MAX 16            /* per message */

/* Parameters of a walk. Messages have `segments` segments each; fast[i]: message i is started as
 * fast; keeps_to[i]: 1 + its only lane, or 0. */
struct walk_case {
    struct tt_dqplb_limits limits;
    enum tt_dqplb_choice choice;
    uint32_t lane_bytes;                        /* 0: unlimited */
    uint32_t first, nmessages, failures;        /* failures: maximum number of lane failures */
    uint8_t segments[WALK_MESSAGES_MAX];
    bool fast[WALK_MESSAGES_MAX];
    uint8_t keeps_to[WALK_MESSAGES_MAX];
};

/* State of a lane: posted[0 .. nposted), of which `narrived` have arrived and `ncompleted` have
 * completed, oldest first. */
struct walk_lane {
    struct tt_dqplb_segment posted[WALK_OUTSTANDING_MAX + 1];
    uint8_t nposted, narrived, ncompleted;
    bool down, resolved;
    uint8_t report[TT_DQPLB_REPORT_BYTES(WALK_WINDOW_MAX)];
};

struct walk {
    const struct walk_case *of;
    struct tt_dqplb_sender sender;
    struct tt_dqplb_segment segment[WALK_WINDOW_MAX];
    struct tt_dqplb_receiver receiver;
    uint64_t words[2];
    struct walk_lane lane[TT_DQPLB_LANES_MAX];
    uint32_t begun, told, over, failures;       /* counts of messages and failures so far */
    uint8_t arrived[WALK_MESSAGES_MAX];         /* segments per message */
    bool here[WALK_MESSAGES_MAX][WALK_SEGMENTS_MAX];
    const char *wrong;                          /* error message, or NULL */
};

enum walk_kind {
    WALK_BEGIN,
    WALK_POST,
    WALK_ARRIVE,
    WALK_COMPLETE,
    WALK_FAIL,
    WALK_RESOLVE,
    WALK_UP,
    WALK_KINDS
};

struct walk_move {
    enum walk_kind kind;
    uint32_t lane;
};

#define WALK_MOVES_MAX (2 + 5 * TT_DQPLB_LANES_MAX)

void walk_init(struct walk *w, const struct walk_case *of);
/* Copies a walk, so that both continue independently. */
void walk_copy(struct walk *to, const struct walk *from);
/* Lists the possible events. */
uint32_t walk_moves(const struct walk *w, struct walk_move *out);
/* Executes an event, and checks the state; an error is in w->wrong. */
void walk_do(struct walk *w, struct walk_move m);
/* Returns whether all messages were notified and completed. This must hold when no event except
 * failures is possible. */
bool walk_is_done(const struct walk *w);

/* Completes a walk of a case drawn from the seed. Returns NULL, or an error message. */
const char *walk_drawn(uint64_t seed);
/* Walks all paths of a case; equal states are visited once. *states: number of different states. */
const char *walk_all(const struct walk_case *of, uint64_t *states);

#endif
