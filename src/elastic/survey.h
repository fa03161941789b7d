/* Measurement of the links between members, as a pure state machine: one for each participating
 * member of a view. First all members ping each other. No burst is sent before all have finished,
 * so that round trips include no queueing delay. Then nranks - 1 rounds follow
 * (ringorder/ring_measure.h). In each round a member sends a burst to one member and receives one
 * from another. There is no common clock. A receiver requests the burst of its round (GO) when the
 * previous one is over. A sender sends a burst when it was requested, and the receiver of the
 * previous burst has confirmed its end (GOT). Therefore no member sends or receives two bursts at
 * once.
 *
 * A burst consists of chunks sent as fast as possible. The receiver records the amount over time.
 * It stops the burst (STOP) when its rate no longer changes, at the latest after `burst_ns`. On a
 * long link this is extended to 12 round trips, at most `far_burst_ns`: TCP's window doubles with
 * each round trip from 14,600 bytes, and only the second half is used for the rate. The sender also
 * ends at that time, and marks the end (END). A lost connection invalidates only the pair's
 * measurement. If a member does not continue, the others end at their deadline with partial
 * results.
 *
 * No socket, clock, thread or allocation. Invalid messages affect only the measured rate of their
 * sender. */
#ifndef TT_ELASTIC_SURVEY_H
#define TT_ELASTIC_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elastic/message.h"
#include "ringorder/ring_measure.h"

#define TT_SURVEY_PINGS 3u
/* Header of each message; the header of a chunk is followed by data. */
#define TT_SURVEY_HEAD_BYTES 26u
#define TT_SURVEY_CHUNK_BYTES (16u << 10)    /* maximum data of a chunk */
#define TT_SURVEY_SAMPLES 1024u
#define TT_SURVEY_UNSENT_MIN (32u << 10)
#define TT_SURVEY_UNSENT_MAX (1u << 20)

struct tt_survey_act {
    uint32_t rank;              /* receiver of head[head_bytes], then body[body_bytes] */
    const void *head, *body;
    size_t head_bytes, body_bytes;
};

/* State of a peer. */
struct tt_survey_peer {
    uint32_t token;             /* of the last ping; its PONG is expected while pinging */
    uint64_t pinged_ns;
    uint32_t npongs;
    uint64_t round_trip_ns;     /* the shortest */
    bool ready;                 /* the peer has measured its round trips to all */
    bool go_received;                 /* GO received, for the round in which this member sends to
                                         it */
};

struct tt_survey_conf {
    uint64_t epoch;             /* of the view */
    uint32_t rank, nranks;      /* at least 2, at most TT_RING_PEERS_MAX */
    uint64_t burst_ns, far_burst_ns;    /* far_burst_ns must not be less */
    struct tt_survey_peer *peers;        /* [nranks], owned by the caller, must outlive this */
    struct tt_ring_link *links;         /* [nranks], owned as `peers`: the results, from each
                                           rank */
    struct tt_ring_sample *samples;     /* [TT_SURVEY_SAMPLES], owned as `peers` */
    const void *filler;         /* [TT_SURVEY_CHUNK_BYTES] data of chunks, owned as `peers`; must be
                                   incompressible */
    void (*emit)(void *context, const struct tt_survey_act *act);
    void *context;
};

enum tt_survey_state { TT_SURVEY_PINGS_GO, TT_SURVEY_WAITS, TT_SURVEY_BURSTS, TT_SURVEY_DONE };

struct tt_survey {
    struct tt_survey_conf conf;
    uint64_t number, now_ns;
    uint64_t highest_seen;                 /* highest number in messages of others */
    enum tt_survey_state state;
    uint64_t give_up_ns;            /* set when all have answered the pings */
    uint32_t tokens;                /* number of tokens */
    /* sending */
    uint32_t out;                   /* round; nranks - 1: all were sent */
    bool sending, ended;            /* burst begun; END sent, GOT expected */
    uint64_t sent_ns, sent_bytes;   /* beginning of the burst */
    /* receiving */
    uint32_t in;                    /* round; nranks - 1: all were received */
    bool began, stopped;            /* some of it was received; STOP sent */
    uint64_t bytes;
    uint64_t check_ns;              /* time of the next check of the rate */
    uint32_t nsamples, stride, skipped;     /* each stride-th chunk is a sample */
};

/* Returns whether this is a message for tt_survey_receive: other messages between members
 * begin differently. */
bool tt_survey_is_mine(const void *data, size_t bytes);

/* Begins measurement `number` of the epoch, from 1. Numbers are equal on all members, because
 * all make the same calls. If a member has skipped one, the highest number is used by all
 * participants. */
void tt_survey_begin(struct tt_survey *p, const struct tt_survey_conf *conf, uint64_t number,
                     uint64_t now_ns);
/* Handles data[bytes] from `rank`. False: not a valid message. */
bool tt_survey_receive(struct tt_survey *p, uint32_t rank, const void *data, size_t bytes,
                       uint64_t now_ns);
/* Called when all messages to `rank` were passed to the kernel, so that there is room for a chunk.
 * Returns whether one was sent. */
bool tt_survey_room(struct tt_survey *p, uint32_t rank, uint64_t now_ns);
/* Returns the limit on unsent bytes in the kernel for `rank`, a power of two: about as many as the
 * burst has sent so far. They still arrive after the burst ends. With a lower limit, the kernel
 * would run out of data, and TCP's window would not grow, whenever this process is not
 * scheduled. */
uint32_t tt_survey_unsent(const struct tt_survey *p, uint32_t rank);
/* A new connection to `rank` was made: messages in flight were lost. */
void tt_survey_again(struct tt_survey *p, uint32_t rank, uint64_t now_ns);
/* Ends the measurement. */
void tt_survey_end(struct tt_survey *p);
void tt_survey_tick(struct tt_survey *p, uint64_t now_ns);
uint64_t tt_survey_next_ns(const struct tt_survey *p);

#endif
