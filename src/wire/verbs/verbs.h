/* Private declarations of the verbs transport.
 *
 *  verbs.c         the wire: open, poll, sleep, the table of operations
 *  verbs_device.c  selection of devices, ports and GIDs
 *  verbs_choice.c  settings of the user (pure)
 *  verbs_queue.c   shared queues, and queue pairs
 *  verbs_link.c    links: set-up and teardown
 *  verbs_lane.c    lanes: set-up, failure and recovery
 *  verbs_send.c    descriptors to work requests, and their completions
 *  verbs_recv.c    immediates to signals, acknowledgements, receives
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

#include "base/sparse.h"
#include "trace/trace.h"
#include "wire/dqplb.h"
#include "wire/registry.h"
#include "wire/verbs/verbs_choice.h"
#include "wire/verbs/verbs_frame.h"
#include "wire/wire.h"

#define TT_VERBS_SLOTS 128          /* messages of a stream that the receiver has not applied */
#define TT_VERBS_DEPTH 256          /* messages of a stream, queued or in flight */
#define TT_VERBS_RESERVED 64        /* reserved of these for inline messages */
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

enum { TT_VERBS_CONTROL, TT_VERBS_DATA };

/* ---- memory ---- */

/* A registration with the devices of all rails. */
struct tt_verbs_mrs {
    struct ibv_mr *rail[TT_VERBS_RAILS];    /* NULL: no such rail */
};

struct tt_verbs_region {
    struct tt_region public;
    struct tt_verbs_mrs *mrs;       /* NULL: no bytes */
    struct tt_reg *pin;             /* registration whose handle is mrs; NULL: the region owns
                                       mrs */
    uint32_t id, generation;
    bool owned;                     /* the wire has allocated the memory */
    bool exposed;                   /* peers may have its key */
    bool device;                    /* memory of another device: the CPU must not access it */
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
    uint32_t incarnation;           /* of the lane, from 1; equal at both ends when it is up */
    bool hello_received;                     /* the peer's hello of this incarnation has arrived */
    bool hello_pending, ready_pending;    /* to send as soon as the tcp wire has space */
    bool broken;                    /* is taken down in the next poll */
    uint32_t setbacks;              /* number of its own failures since it last sent */
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
    uint64_t segments, bytes;       /* totals, for statistics */
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
    const uint8_t *data;            /* data to write by RDMA; NULL: none */
    uint64_t bytes;                 /* of the data; kept if the message becomes void, since
                                       segments depend on it */
    uint64_t target;                /* remote address */
    uint32_t lkey[TT_VERBS_RAILS], rkey[TT_VERBS_RAILS];
    uint64_t cookie;
    uint64_t end;                   /* of a sent message: number of the segment after its last */
    uint64_t bounce_end;            /* the bounce ring is free up to here once it is sent; 0: not
                                       in the ring */
    uint32_t slot_bytes;            /* of the record and its payload, in the stream's staging
                                       slot */
    bool report_local, report_remote;
    bool watched;                   /* the message's work requests are signaled */
    bool direct;                    /* the CPU must not access its bytes */
    uint8_t lane;                   /* as in tt_desc */
    bool few_lanes;                 /* `lane` is a limit */
};

struct tt_verbs_stream {
    struct tt_verbs_link *link;
    uint32_t index;
    struct tt_verbs_lane *lane;     /* [nlanes], lanes of the link */
    uint32_t nlanes;
    struct tt_verbs_stream *next_noted;
    bool noted;                     /* is in tt_verbs.noted: it may have completions to report,
                                       or may continue */

    /* ---- send side ----
     * Message numbers: retired <= reported <= done <= sent <= tail. */
    struct tt_verbs_out *out;       /* [TT_VERBS_DEPTH] */
    uint64_t retired, reported, done, sent, tail;
    uint64_t acked;                 /* the receiver has applied all messages before it */
    uint64_t acked_segments;        /* and all segments before it */
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

enum tt_verbs_state {
    TT_VERBS_HANDSHAKE,              /* not usable at both ends yet */
    TT_VERBS_UP,
    TT_VERBS_LOST
};

struct tt_verbs_link {
    struct tt_verbs *verbs;
    struct tt_verbs_group *group[TT_VERBS_RAILS];   /* NULL: not in a group */
    uint32_t peer;
    enum tt_verbs_state state;
    bool link_hello_pending, refusal_pending;   /* to send as soon as the tcp wire has space */
    bool link_hello_received;                   /* the peer's link hello has arrived: nrails,
                                                   nlanes and theirs are valid, and the lanes
                                                   exist */
    uint32_t nrails;                /* number that both ends have */
    uint32_t nlanes;
    struct tt_verbs_link_hello theirs;
    uint64_t portless_ns;           /* time since when none of our rails is up; 0: one is up */
    tutti_status status;            /* cause of the loss, also if it is lost in the next poll */
    bool report_up, report_lost;
    struct tt_verbs_link *next_reported;

    struct tt_link tcp;             /* link of the inner wire */
    void *mine;                     /* link region, then the streams' rings */
    uint8_t *local;                 /* staging and bounce buffers of the streams */
    struct ibv_mr *mine_mr[TT_VERBS_RAILS], *local_mr[TT_VERBS_RAILS];
    struct tt_verbs_stream streams[TT_VERBS_STREAMS];
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
    struct tt_verbs_choice choice;
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
    struct tt_wire wire;
    struct tt_wire_conf conf;
    struct tt_wire *tcp;            /* the inner wire */
    struct tt_lane_limits limits;
    struct tt_verbs_rail rail[TT_VERBS_RAILS];
    uint32_t nrails;
    int epoll_fd, timer_fd;
    bool armed, tcp_watched;
    uint32_t tick;
    bool mending;                   /* a lane or link is coming up: poll often */
    bool waiting;                   /* a lane waits for a port or for its retry time: poll
                                       periodically */

    struct tt_sparse links;         /* struct tt_verbs_link, by rank */
    struct tt_verbs_link **active;  /* [nactive], links that are not lost */
    uint32_t nactive, active_depth;
    struct tt_verbs_link *news, **news_end;
    struct tt_verbs_stream *noted, **noted_end;
    struct tt_verbs_chain chain[TT_VERBS_DATA_LANES];   /* indexed by the lane's index in the
                                                           stream that currently sends; too large
                                                           for a stack */
    struct tt_verbs_lane *lanes[TT_VERBS_RAILS][TT_VERBS_BUCKETS];  /* by queue pair number */
    bool any_broken;

    struct tt_verbs_region **regions;   /* [nregions], by id; the first is never used: 0 is the
                                           link region */
    uint32_t nregions, next_generation;
    struct tt_verbs_region *last_source;
    struct tt_domain *domain;       /* of the registry, for the caller's memory */
};

static inline struct tt_verbs *tt_verbs_of(struct tt_wire *w)
{
    return (struct tt_verbs *)w;
}

static inline struct tt_verbs_out *tt_verbs_out_of(struct tt_verbs_stream *s, uint64_t message)
{
    return &s->out[message % TT_VERBS_DEPTH];
}

static inline uint8_t *tt_verbs_staging(struct tt_verbs_stream *s, uint64_t message)
{
    return s->staging + message % TT_VERBS_DEPTH * TT_VERBS_SLOT_BYTES;
}

/* ---- verbs.c ---- */
/* Marks the stream for a later part of poll. */
void tt_verbs_note(struct tt_verbs_stream *s);

/* ---- verbs_device.c ---- */
/* Opens ports of the devices that the rule allows (in the syntax of `interfaces`), or without a
 * rule of those near this process: the first port of each, then others. gid: as in
 * tt_verbs_choice_read; unless given by index, it must be an address of this network namespace.
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
/* Creates a queue pair for the lane on its rail, which cannot send or receive yet. */
tutti_status tt_verbs_qp_create(struct tt_verbs_lane *lane);
/* Connects it to the peer's queue pair. */
tutti_status tt_verbs_qp_connect(struct tt_verbs_lane *lane, const struct tt_verbs_hello *theirs);
/* Stops the queue pair: it does not access memory any more, and posted work requests complete with
 * errors. */
void tt_verbs_qp_stop(struct tt_verbs_lane *lane);
/* Frees it after everything it received has been processed. */
void tt_verbs_qp_destroy(struct tt_verbs_lane *lane);

/* ---- verbs_link.c ---- */
/* Contents of the inner wire's link region: the mailbox, written by the peer. */
struct tt_verbs_mailbox {
    uint64_t link_hello_received;       /* 1: the link hello is complete */
    uint64_t refusal;       /* 1: the peer gives the link up */
    uint64_t hello[TT_VERBS_LANES];     /* newest incarnation of the lane whose hello is complete */
    uint64_t ready[TT_VERBS_LANES];     /* newest incarnation in which the peer can receive */
    uint8_t greeting[TT_VERBS_LINK_HELLO_BYTES];
    /* indexed by incarnation modulo 2; older ones are not needed */
    uint8_t hellos[TT_VERBS_LANES][2][TT_VERBS_HELLO_BYTES];
};

/* Returns the limits of nlanes lanes of one stream, by the current layout and links. */
struct tt_dqplb_limits tt_verbs_limits(const struct tt_verbs_link *link, uint32_t nlanes);
tutti_status tt_verbs_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address);
/* Processes events of the inner wire, messages of peers received through it, and port events of
 * devices. */
void tt_verbs_links_step(struct tt_verbs *v);
/* One of its lanes has come up. */
void tt_verbs_link_gained(struct tt_verbs_link *link);
/* Ends the link permanently, and reports it by poll. Its link region remains until the wire closes.
 * why: in static storage. */
void tt_verbs_link_lose(struct tt_verbs_link *link, tutti_status status, const char *why);
/* Takes down the lanes that are marked broken, and loses links without a lane. */
void tt_verbs_links_break(struct tt_verbs *v);
/* Writes data[bytes] at `at` of the peer's mailbox, then `word` at `word_at`. Returns false if the
 * tcp wire has no space now. */
bool tt_verbs_mailbox_write(struct tt_verbs_link *link, size_t word_at, uint64_t word, size_t at,
                            const void *data, size_t bytes);
/* Reads a word of our mailbox. */
uint64_t tt_verbs_mailbox_read(const struct tt_verbs_link *link, size_t word_at);
/* Waits up to a second until posted data has arrived. */
void tt_verbs_links_linger(struct tt_verbs *v);
void tt_verbs_links_close(struct tt_verbs *v);
/* Memory of the links and the inner tcp wire. */
void tt_verbs_links_memory(const struct tt_verbs *v, tutti_memory *m);

/* ---- verbs_lane.c ---- */
/* Creates the first queue pair of a lane, after the link hello. The lane is zero except for link,
 * stream, number and index. */
tutti_status tt_verbs_lane_begin(struct tt_verbs_lane *lane);
void tt_verbs_lane_end(struct tt_verbs_lane *lane);
/* One step of a lane of a link that is not lost. */
void tt_verbs_lane_step(struct tt_verbs_lane *lane);
/* Closes its queue pair, whose state is unknown after an error, and starts the next incarnation.
 * Segments in doubt are retransmitted after the peer's report; a message that broke the queue pair
 * becomes void. */
void tt_verbs_lane_break(struct tt_verbs_lane *lane);
/* Marks the lane as broken, for the next poll. */
void tt_verbs_lane_mark(struct tt_verbs_lane *lane);

/* ---- verbs_send.c ---- */
int tt_verbs_post(struct tt_wire *w, const struct tt_desc *desc, int n);
/* Posts the stream's messages as far as its lanes accept them, and a pending acknowledgement on the
 * control lane. */
void tt_verbs_stream_pump(struct tt_verbs_stream *s);
/* Makes the completion of all posted work requests visible in the completion queue. */
void tt_verbs_lane_watch(struct tt_verbs_lane *lane);
/* Posts an empty write, whose completion shows whether the lane works. */
void tt_verbs_lane_probe(struct tt_verbs_lane *lane);
/* Makes posted work requests, if any, show whether the lane works. */
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
/* Processes completions of all queues, a fair share of each; returns their number. Only marks links
 * and lanes that fail. */
uint32_t tt_verbs_collect(struct tt_verbs *v);
/* Posts the missing receives of the group. Returns false if the device does not accept all. */
bool tt_verbs_receives(struct tt_verbs_group *g);

/* ---- verbs_region.c ---- */
/* Joins the registry, which caches registrations of the caller's memory; the wire's own memory is
 * registered directly. */
tutti_status tt_verbs_regions_open(struct tt_verbs *v);
tutti_status tt_verbs_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
tutti_status tt_verbs_source(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
void tt_verbs_dereg(struct tt_region *r);
tutti_status tt_verbs_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key,
                             struct tt_rkey *out);
/* Registers memory with a rail's device, and deregisters it. NULL (logged) on failure. */
struct ibv_mr *tt_verbs_pin(struct tt_verbs_rail *rail, void *mem, size_t bytes, int access);
void tt_verbs_unpin(struct ibv_mr *mr);
/* Returns the live region of that id and generation, or NULL. */
struct tt_verbs_region *tt_verbs_region_find(const struct tt_verbs *v, uint32_t id,
                                             uint32_t generation);
/* Returns the devices' local keys for mem[bytes]. False: it is in no registered region and no link
 * region. */
bool tt_verbs_lkey(struct tt_verbs *v, const void *mem, uint64_t bytes,
                   uint32_t lkey[TT_VERBS_RAILS]);
/* Returns whether mem[bytes] is in a region, registered or not. */
bool tt_verbs_is_source(const struct tt_verbs *v, const void *mem, uint64_t bytes);
/* Returns whether that is the first device's key of a registered region that covers mem[bytes]. */
bool tt_verbs_has_lkey(const struct tt_verbs *v, const void *mem, uint64_t bytes, uint32_t lkey);
void tt_verbs_regions_close(struct tt_verbs *v);

#endif
