/* How members measure what lies between them, as a pure state machine: one for each member of a view that takes part. First all ping each
 * other: nobody sends a burst before all have done that, so the round trips meet empty queues. Then come nranks - 1 rounds
 * (elastic/ring_measure.h), in each of which a member sends a burst to one other and receives one from another. There is no common clock: a
 * receiver asks for the burst of its round (GO) when the one before it is over, and a sender sends the burst of its round when it was asked for
 * it and the receiver of the one before has said that all of that is there (GOT). So no member sends or receives two bursts at once.
 *
 * A burst is chunks of data as fast as they go. The receiver notes how much is there when, ends it (STOP) once its rate no longer changes, and after
 * `burst_ns` in any case, or, where that is longer, after 12 round trips, but not more than `far_burst_ns`: a window doubles with each round trip from 14,600 bytes on, and
 * the rate is that of the second half. The sender ends it then, too, and says where (END). What is lost with a connection costs the pair's
 * measurement, nothing else; where a member does not go on, the others end at their deadline with what they have.
 *
 * No socket, clock, thread or allocation. What comes may be anything: it costs a wrong rate of its sender's. */
#ifndef TT_ELASTIC_SURVEY_H
#define TT_ELASTIC_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elastic/message.h"
#include "elastic/ring_measure.h"

#define TT_SURVEY_PINGS 3u
#define TT_SURVEY_HEAD_BYTES 26u             /* of each message; a chunk has data after it */
#define TT_SURVEY_CHUNK_BYTES (16u << 10)    /* most of a chunk's data */
#define TT_SURVEY_SAMPLES 1024u
#define TT_SURVEY_UNSENT_MIN (32u << 10)
#define TT_SURVEY_UNSENT_MAX (1u << 20)

struct tt_survey_act {
    uint32_t rank;              /* to whom: head[head_bytes], then body[body_bytes] */
    const void *head, *body;
    size_t head_bytes, body_bytes;
};

/* What is known of a peer. */
struct tt_survey_peer {
    uint32_t token;             /* of the last ping; it is waited for while pinging */
    uint64_t pinged_ns;
    uint32_t npongs;
    uint64_t round_trip_ns;     /* the shortest */
    bool ready;                 /* it has the round trips to all */
    bool asked;                 /* GO came, for the round in which we send to it */
};

struct tt_survey_conf {
    uint64_t epoch;             /* of the view */
    uint32_t rank, nranks;      /* at least 2, at most TT_RING_PEERS_MAX */
    uint64_t burst_ns, far_burst_ns;    /* at most; far_burst_ns is no less */
    struct tt_survey_peer *peers;        /* [nranks], the caller's, as long as this lives */
    struct tt_ring_link *links;         /* [nranks] likewise: what comes of it, from each rank */
    struct tt_ring_sample *samples;     /* [TT_SURVEY_SAMPLES] likewise */
    const void *filler;         /* [TT_SURVEY_CHUNK_BYTES] of chunks' data, likewise; what cannot be compressed */
    void (*emit)(void *context, const struct tt_survey_act *act);
    void *context;
};

enum tt_survey_state { TT_SURVEY_PINGS_GO, TT_SURVEY_WAITS, TT_SURVEY_BURSTS, TT_SURVEY_DONE };

struct tt_survey {
    struct tt_survey_conf conf;
    uint64_t number, now_ns;
    uint64_t heard;                 /* the highest number that others have said */
    enum tt_survey_state state;
    uint64_t give_up_ns;            /* once all have answered our pings */
    uint32_t tokens;                /* given */
    /* the burst that we send */
    uint32_t out;                   /* round; nranks - 1: all are sent */
    bool sending, ended;            /* it has begun; END is said, and GOT is waited for */
    uint64_t sent_ns, sent_bytes;   /* when it began */
    /* the burst that we receive */
    uint32_t in;                    /* round; nranks - 1: all have come */
    bool began, stopped;            /* something of it is here; STOP is said */
    uint64_t bytes;
    uint64_t check_ns;              /* when its rate is looked at next */
    uint32_t nsamples, stride, skipped;     /* each stride-th chunk is a sample */
};

/* Whether this is for tt_survey_peer_says: other messages between members begin otherwise. */
bool tt_survey_is_mine(const void *data, size_t bytes);

/* Begins measurement `number` of the epoch, from 1. Members say the same numbers, as all call alike; where they do not, since somebody has left one out,
 * the highest holds for all that are at it. */
void tt_survey_begin(struct tt_survey *p, const struct tt_survey_conf *conf, uint64_t number, uint64_t now_ns);
/* data[bytes] from `rank`. False: it is none of the messages that there are. */
bool tt_survey_peer_says(struct tt_survey *p, uint32_t rank, const void *data, size_t bytes, uint64_t now_ns);
/* What was said to `rank` has all gone to the system: there is room for a chunk. Whether there was something to say. */
bool tt_survey_room(struct tt_survey *p, uint32_t rank, uint64_t now_ns);
/* How many bytes the system shall hold for `rank` beyond what is on its way, a power of two: as many as were sent of a burst. They are still to come
 * when the burst ends; with fewer the system would have nothing to send, and TCP's window would not grow, each time that others have the processor. */
uint32_t tt_survey_unsent(const struct tt_survey *p, uint32_t rank);
/* There is another connection to it: what was on its way is lost. */
void tt_survey_again(struct tt_survey *p, uint32_t rank, uint64_t now_ns);
/* No measurement is under way any longer. */
void tt_survey_end(struct tt_survey *p);
void tt_survey_tick(struct tt_survey *p, uint64_t now_ns);
uint64_t tt_survey_next_ns(const struct tt_survey *p);

#endif
