/* Private declarations of the verbs transport.
 *
 *  verbs.c         the wire: open, poll, sleep, the table of operations
 *  verbs_device.c  selection of devices, ports and GIDs
 *  verbs_filter.c  settings of the user (pure)
 *  verbs_queue.c   shared queues and their receives, and queue pairs
 *  verbs_link.c    links: set-up and teardown
 *  verbs_lane.c    lanes: set-up, failure and recovery
 *  verbs_send.c    descriptors to work requests, and their completions
 *  verbs_recv.c    completions; immediates to signals and acknowledgements
 *  verbs_region.c  registered memory
 *  verbs_frame.c   the formats (pure)
 *
 * An inner tcp wire finds peers, authenticates the job, exchanges queue pair numbers, and detects
 * the end of a peer's process. All data uses queue pairs.
 *
 * A link has two *streams* of messages, each ordered: control for urgent messages, data for all
 * others. A stream uses one or more *lanes*, each a reliable connected queue pair. Control has one
 * lane; data has a number that depends on the distance, distributed over the *rails* (ports of
 * devices) that both ends have. dqplb.h selects the lane of each segment.
 *
 * A message ends with a *record* in a slot at the receiver, which carries the signal, and the
 * payload if that is short. A longer payload is first written to its destination by RDMA writes,
 * one per segment. Each segment is a write with immediate. The last one is two writes: the rest of
 * the payload, then the record, whose immediate counts. The receiver finds the immediates in its
 * completion queues, in any order among lanes, and applies records in message order.
 *
 * Credits: in a stream, at most TT_VERBS_SLOTS messages and TT_VERBS_WINDOW segments are not
 * acknowledged as applied. The shared receive queues always hold a receive for each of them, and
 * for each acknowledgement. Therefore no write finds the receiver not ready.
 *
 * A lane failure does not affect other lanes. Both ends close their queue pairs of the lane, and
 * exchange what has arrived in its stream. Missing segments are retransmitted over the stream's
 * other lanes, or over this one after recovery. */
#ifndef TT_WIRE_VERBS_H
#define TT_WIRE_VERBS_H

#include <infiniband/verbs.h>

#include "trace/trace.h"
#include "wire/dqplb.h"
#include "wire/rput/rput.h"
#include "wire/rput/rput_queue.h"
#include "wire/verbs/verbs_filter.h"
#include "wire/verbs/verbs_frame.h"
#include "wire/wire.h"

/* maximum messages of a stream that the receiver has not applied */
#define TT_VERBS_SLOTS 128
#define TT_VERBS_DEPTH 256          /* maximum messages of a stream, queued or in flight */
#define TT_VERBS_RESERVED 64        /* of these, reserved for inline messages */
#define TT_VERBS_WRS 256            /* work requests of a control queue pair */
/* bounce buffer of a stream, for copied payloads longer than a slot */
#define TT_VERBS_BOUNCE_BYTES (128u << 10)
/* Control messages are segments, too. There are at most as many acknowledgements as segments. */
#define TT_VERBS_LINK_RECEIVES (2 * (TT_VERBS_SLOTS + TT_VERBS_WINDOW))
#define TT_VERBS_CHAIN 32           /* work requests posted to a queue pair with one doorbell */
/* work requests of a data lane that probe whether it works, in addition to segments */
#define TT_VERBS_WRS_TO_ASK 8
/* Maximum number of send completions of a link: its data lanes together have half a window of
 * segments outstanding, of two work requests each. */
#define TT_VERBS_LINK_SENDS \
    (TT_VERBS_WINDOW + TT_VERBS_WRS + TT_VERBS_WRS_TO_ASK * TT_VERBS_DATA_LANES)
#define TT_VERBS_GROUP_LINKS 16     /* maximum number of links that share queues */
#define TT_VERBS_BUCKETS 256

struct tt_verbs;
struct tt_verbs_link;
struct tt_verbs_stream;

/* ---- memory ---- */

/* A registration with the devices of all rails: the handle of a region. */
struct tt_verbs_mrs {
    struct ibv_mr *rail[TT_VERBS_RAILS];    /* NULL: no such rail */
};

/* ---- lanes ---- */

/* Context of a work request. */
struct tt_verbs_wr {
    uint64_t message;
    uint32_t number;                /* number of the segment */
    bool payload;                   /* this work request reads the message's source */
    bool segment;                   /* last or only work request of a segment */
};
#define TT_VERBS_NO_MESSAGE UINT64_MAX

enum tt_verbs_lane_state {
    TT_VERBS_LANE_DOWN,             /* our hello of this incarnation is sent or pending */
    TT_VERBS_LANE_CONNECTED,        /* our queue pair can receive from the peer's */
    TT_VERBS_LANE_PROBING,          /* both can receive; a probe is in flight */
    TT_VERBS_LANE_UP
};

struct tt_verbs_lane {
    struct tt_verbs_link *link;
    struct tt_verbs_stream *stream;
    uint32_t number, index;         /* number: index in the link; index: in the stream */
    uint32_t rail;
    enum tt_verbs_lane_state state;
    struct tt_rput_session session;
    bool broken;                    /* is taken down in the next poll */
    uint32_t setbacks;              /* number of the lane's own failures since a send last
                                       completed */
    uint32_t walks;                 /* number of changes to a rail that was down, since it was
                                       last up */
    uint64_t again_ns;              /* not retried before this time */

    struct ibv_qp *qp;              /* NULL: none */
    uint32_t qpn, psn;
    uint32_t inline_bytes;          /* maximum inline data of a work request */
    struct tt_verbs_lane *next;     /* next in the same bucket */
    struct tt_verbs_wr *wrs;        /* [wr_depth] */
    uint32_t wr_depth;
    uint64_t wr_head, wr_tail;
    uint32_t unwatched;             /* unsignaled work requests since the last signaled one */
    uint64_t culprit;               /* the message that broke the queue pair, or
                                       TT_VERBS_NO_MESSAGE */
    struct tt_wire_posts posts;     /* segments, and bytes of their payload */
};

/* Linked work requests for one lane, to post with one doorbell. */
struct tt_verbs_chain {
    struct tt_verbs_lane *lane;
    struct ibv_send_wr wr[TT_VERBS_CHAIN];
    struct ibv_sge sge[TT_VERBS_CHAIN];
    uint32_t n;
};

/* ---- streams ---- */

struct tt_verbs_out {
    struct tt_rput_out base;        /* data: to write by RDMA. bytes: kept if the message becomes
                                       void, since segments depend on it */
    uint64_t target;                /* remote address */
    uint32_t lkey[TT_VERBS_RAILS], rkey[TT_VERBS_RAILS];
    uint64_t end;                   /* of a sent message: number of the segment after its last */
    uint64_t bounce_end;            /* the bounce ring is free up to here once it is sent; 0: not
                                       in the ring */
    bool watched;                   /* the message's work requests are signaled */
    bool direct;                    /* the CPU must not access its bytes */
};

struct tt_verbs_stream {
    struct tt_verbs_link *link;
    uint32_t index;
    struct tt_verbs_lane *lane;     /* [nlanes], lanes of the link */
    uint32_t nlanes;
    struct tt_verbs_stream *next_noted;
    bool noted;                     /* is in tt_verbs.noted: it may have completions to report,
                                       or may continue */

    /* ---- send side ---- */
    struct tt_rput_queue q;         /* of struct tt_verbs_out [TT_VERBS_DEPTH]; done <= sent */
    uint64_t sent;
    uint64_t acked_segments;        /* the receiver has applied all segments before it */
    struct tt_dqplb_sender sender;
    struct tt_dqplb_segment *segments;  /* [TT_VERBS_WINDOW], of the sender */
    uint32_t watch_every;           /* at least one of this number of work requests of a lane is
                                       signaled */
    uint8_t *staging;               /* [TT_VERBS_DEPTH][TT_VERBS_SLOT_BYTES] */
    uint8_t *bounce;                /* [TT_VERBS_BOUNCE_BYTES] */
    uint64_t bounce_head, bounce_tail;
    uint64_t peer_ring;             /* remote address of the slots for our records */

    /* ---- receive side ---- */
    uint8_t *ring;                  /* [TT_VERBS_SLOTS][TT_VERBS_SLOT_BYTES] */
    struct tt_dqplb_receiver receiver;
    uint64_t marks[2 * TT_DQPLB_WORDS(TT_VERBS_WINDOW)];    /* memory of the receiver */
    uint64_t applied;               /* number of applied messages */
    uint64_t acked_segments_sent;         /* value of receiver.expected last sent to the peer */
    bool ack_due;
};

/* ---- links ---- */

struct tt_verbs_link {
    struct tt_rput_link base;       /* mine: the link region, then the streams' rings; local:
                                       staging and bounce buffers of the streams */
    struct tt_verbs *verbs;
    struct tt_verbs_group *group[TT_VERBS_RAILS];   /* NULL: not in a group */
    struct tt_rput_session session; /* of the link hello: a single incarnation. Once it is received,
                                       nrails, nlanes and theirs are valid, and the lanes exist */
    uint32_t nrails;                /* number that both ends have */
    uint32_t nlanes;
    struct tt_verbs_link_hello theirs;
    uint64_t portless_ns;           /* start of the time in which none of our rails is up; 0: one is
                                       up */

    struct ibv_mr *mine_mr[TT_VERBS_RAILS], *local_mr[TT_VERBS_RAILS];
    struct tt_verbs_stream streams[TT_RPUT_STREAMS];
    struct tt_verbs_lane *lanes;    /* [nlanes]: control's, then data's */
};

/* Links that share a receive queue and completion queues, on one rail. */
struct tt_verbs_group {
    struct tt_verbs_group *next;
    struct ibv_srq *srq;
    struct ibv_cq *send_cq, *recv_cq;
    uint32_t nlinks;
    uint32_t wanted, posted;        /* receives: required and posted */
};

/* ---- the wire ---- */

/* A port of a device, and this process's objects on it. */
struct tt_verbs_rail {
    struct ibv_context *context;
    char name[64], interface[16];   /* name of the device; network interface of the port, "" if
                                       none */
    bool up;
    bool dead;                      /* the device has failed permanently */
    struct tt_verbs_filter choice;
    uint8_t port, gid_index;
    uint16_t pkey_index;
    uint8_t mtu;                    /* enum ibv_mtu */
    bool infiniband;
    uint16_t lid;
    union ibv_gid gid;
    struct ibv_device_attr attr;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct tt_verbs_group *groups;
    uint32_t group_links;           /* maximum links of a group, by the device's limits */
};

struct tt_verbs {
    struct tt_rput base;            /* mending: also if a lane is coming up */
    struct tt_verbs_rail rail[TT_VERBS_RAILS];
    uint32_t nrails;
    bool waiting;                   /* a lane waits for a port or for its retry time: poll
                                       periodically */
    struct tt_verbs_stream *noted, **noted_end;
    struct tt_verbs_chain chain[TT_VERBS_DATA_LANES];   /* indexed by the lane's index in the
                                                           stream that currently sends; too large
                                                           for a stack */
    struct tt_verbs_lane *lanes[TT_VERBS_RAILS][TT_VERBS_BUCKETS];  /* by queue pair number */
    bool any_broken;
};

static inline struct tt_verbs *tt_verbs_of(struct tt_wire *w)
{
    return (struct tt_verbs *)w;
}

static inline struct tt_verbs_link *tt_verbs_link_at(const struct tt_verbs *v, uint32_t i)
{
    return (struct tt_verbs_link *)v->base.active[i];
}

static inline struct tt_verbs_out *tt_verbs_out_of(struct tt_verbs_stream *s, uint64_t message)
{
    return &((struct tt_verbs_out *)s->q.out)[message % TT_VERBS_DEPTH];
}

static inline uint8_t *tt_verbs_staging(struct tt_verbs_stream *s, uint64_t message)
{
    return s->staging + message % TT_VERBS_DEPTH * TT_VERBS_SLOT_BYTES;
}

/* ---- verbs_device.c ---- */
/* Opens ports of the devices that the rule allows (in the syntax of `interfaces`), or without a
 * rule of those near this process: the first port of each, then others. gid: as in
 * tt_verbs_filter_read; unless given by index, it must be an address of this network namespace.
 * UNSUPPORTED states the reason. */
tutti_status tt_verbs_rails_open(struct tt_verbs_rail rail[TT_VERBS_RAILS], uint32_t *nrails,
                                 const char *rule, const char *gid);
void tt_verbs_rail_close(struct tt_verbs_rail *rail);
/* Processes asynchronous events of the device. Returns true if `up` has changed. *doubtful: a queue
 * pair may have failed. */
bool tt_verbs_rail_events(struct tt_verbs_rail *rail, bool *doubtful);

/* ---- verbs_queue.c ---- */
/* Adds the link to a group on that rail. */
tutti_status tt_verbs_group_join(struct tt_verbs_link *link, uint32_t rail);
void tt_verbs_groups_leave(struct tt_verbs_link *link);
void tt_verbs_groups_close(struct tt_verbs_rail *rail);
/* Posts the missing receives of the group. Returns false if the device does not accept all. */
bool tt_verbs_receives(struct tt_verbs_group *g);
/* Creates a queue pair for the lane on its rail, which cannot send or receive yet. */
tutti_status tt_verbs_qp_create(struct tt_verbs_lane *lane);
/* Connects it to the peer's queue pair. */
tutti_status tt_verbs_qp_connect(struct tt_verbs_lane *lane, const struct tt_verbs_hello *theirs);
/* Stops the queue pair: it does not access memory any more, and posted work requests complete with
 * errors. */
void tt_verbs_qp_stop(struct tt_verbs_lane *lane);

/* ---- verbs_link.c ---- */
extern const struct tt_rput_ops tt_verbs_link_ops;
/* Sizes of the base's mine and local memory. */
size_t tt_verbs_mine_bytes(const struct tt_verbs *v);
size_t tt_verbs_local_bytes(void);
/* Returns the limits of nlanes lanes of one stream, by the current layout and links. */
struct tt_dqplb_limits tt_verbs_limits(const struct tt_verbs_link *link, uint32_t nlanes);
tutti_status tt_verbs_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address);
/* Processes events of the inner wire, messages of peers received through it, and port events of
 * devices. */
void tt_verbs_links_step(struct tt_verbs *v);
/* Takes down the lanes that are marked broken, and loses links without a lane. */
void tt_verbs_links_break(struct tt_verbs *v);

/* ---- verbs_lane.c ---- */
/* Creates the first queue pair of a lane, after the link hello. The lane is zero except for link,
 * stream, number and index. */
tutti_status tt_verbs_lane_begin(struct tt_verbs_lane *lane);
/* Writes the hello of its incarnation to out[TT_VERBS_HELLO_BYTES]. */
void tt_verbs_lane_hello(const struct tt_verbs_lane *lane, uint8_t *out);
void tt_verbs_lane_end(struct tt_verbs_lane *lane);
/* One step of a lane of a link that is not lost. */
void tt_verbs_lane_step(struct tt_verbs_lane *lane);
/* Closes its queue pair, whose state is unknown after an error, and starts the next incarnation.
 * Segments in doubt are retransmitted after the peer's report; a message that broke the queue pair
 * becomes void. */
void tt_verbs_lane_break(struct tt_verbs_lane *lane);

/* ---- verbs_send.c ---- */
/* Marks the stream for a later part of poll. */
void tt_verbs_note(struct tt_verbs_stream *s);
/* Marks the lane as broken, for the next poll. */
void tt_verbs_lane_mark(struct tt_verbs_lane *lane);
int tt_verbs_post(struct tt_wire *w, const struct tt_desc *desc, int n);
/* Posts the stream's messages as far as its lanes accept them, and a pending acknowledgement on the
 * control lane. */
void tt_verbs_stream_pump(struct tt_verbs_stream *s);
/* Makes the completion of all posted work requests visible in the completion queue. */
void tt_verbs_lane_watch(struct tt_verbs_lane *lane);
/* Posts an empty write, whose completion shows whether the lane works. */
void tt_verbs_lane_probe(struct tt_verbs_lane *lane);
/* Makes posted work requests, if any, report completion, which shows whether the lane works. */
void tt_verbs_lane_check(struct tt_verbs_lane *lane);
/* Records a segment of the lane, by its number modulo 2^24, in the trace. */
void tt_verbs_trace(const struct tt_verbs_lane *lane, enum tt_trace_kind kind, uint32_t number,
                    uint64_t bytes);
/* Processes the completion of a work request. */
void tt_verbs_sent(struct tt_verbs_lane *lane, const struct ibv_wc *wc);
/* Processes an acknowledgement of all segments before `acked`. Returns false if it is invalid. */
bool tt_verbs_acked(struct tt_verbs_stream *s, uint64_t acked);
/* Determines the messages whose segments have all completed. */
void tt_verbs_settle(struct tt_verbs_stream *s);
/* A region with this key on the first rail is deregistered. Unfinished messages whose bytes are in
 * no other region with that key continue with another region, or become void. Lanes whose queue
 * pairs may be reading by the key are marked broken. */
void tt_verbs_source_gone(struct tt_verbs_stream *s, uint32_t lkey);
void tt_verbs_message_void(struct tt_verbs_stream *s, uint64_t message);

/* ---- verbs_recv.c ---- */
/* Processes completions of all queues, a fair share of each; returns their number. Links and lanes
 * that fail are only marked. */
uint32_t tt_verbs_collect(struct tt_verbs *v);
/* Frees the lane's queue pair after everything it received has been processed. */
void tt_verbs_qp_destroy(struct tt_verbs_lane *lane);

/* ---- verbs_region.c ---- */
/* Fills the table of regions, except withdraw, and opens it. */
tutti_status tt_verbs_regions_open(struct tt_verbs *v);
tutti_status tt_verbs_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key,
                             struct tt_rkey *out);
/* Registers memory with a rail's device, and deregisters it. NULL (logged) on failure. */
struct ibv_mr *tt_verbs_pin(struct tt_verbs_rail *rail, void *mem, size_t bytes, int access);
void tt_verbs_unpin(struct ibv_mr *mr);
/* Returns the devices' local keys for mem[bytes]. False: it is in no registered region and no link
 * region. */
bool tt_verbs_lkey(struct tt_verbs *v, const void *mem, uint64_t bytes,
                   uint32_t lkey[TT_VERBS_RAILS]);
/* Returns whether that is the first device's key of a registered region that covers mem[bytes]. */
bool tt_verbs_has_lkey(const struct tt_verbs *v, const void *mem, uint64_t bytes, uint32_t lkey);

#endif
