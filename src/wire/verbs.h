/* The inside of the verbs wire: what its files share.
 *
 *   verbs.c          the wire: opening, polling, sleeping, the table of operations
 *   verbs_device.c   which devices, ports and GIDs
 *   verbs_choice.c   which of these the user wants (pure)
 *   verbs_queue.c    queues that links share, and queue pairs
 *   verbs_link.c     links: how they come to be and end
 *   verbs_lane.c     lanes: how they come up, break and mend
 *   verbs_send.c     descriptors to work requests, and their completions
 *   verbs_recv.c     immediates to signals, acknowledgements, receives
 *   verbs_region.c   registered memory
 *   verbs_frame.c    the formats (pure)
 *
 * A tcp wire is inside: it finds peers, knows who is of this job, tells queue pairs' numbers, and sees a peer's process end. All data goes
 * over queue pairs.
 *
 * A link has two *streams* of messages, each in order: one of urgent messages (control), one of all others (data). A stream goes over one or
 * more *lanes*, each a reliable connected queue pair: control has one, data as many as suit the distance, dealt out over the *rails* (ports of
 * devices) that both ends have. dqplb.h says which lane carries what.
 *
 * A message is a *record* in a slot at the receiver, which says what to signal and has the payload if that is short; and else the RDMA
 * writes of the payload from where it is to where it shall be, a segment each. Each segment is a write with immediate, and the last one two:
 * the rest of the payload, then the record, whose immediate counts. The receiver finds the immediates in its completion queues, in any
 * order among lanes, and applies records in the order of messages.
 *
 * Credit: the sender has at most TT_VERBS_SLOTS messages and TT_VERBS_WINDOW segments in a stream that the receiver has not told to be
 * applied, and the shared receive queues always hold a receive for each, and for each acknowledgement. So no write ever finds the receiver
 * not ready.
 *
 * A lane that fails takes down itself alone: both ends end their queue pairs of it, and tell each other what has come in its stream; what has
 * not goes over the stream's other lanes, or this one when it is mended. */
#ifndef TT_WIRE_VERBS_H
#define TT_WIRE_VERBS_H

#include <infiniband/verbs.h>

#include "base/sparse.h"
#include "trace/trace.h"
#include "wire/dqplb.h"
#include "wire/registry.h"
#include "wire/verbs_choice.h"
#include "wire/verbs_frame.h"
#include "wire/wire.h"

#define TT_VERBS_SLOTS 128          /* messages of a stream that the receiver has not applied */
#define TT_VERBS_DEPTH 256          /* messages of a stream, queued or under way */
#define TT_VERBS_RESERVED 64        /* of them for inline ones alone */
#define TT_VERBS_WRS 256            /* work requests of a control queue pair; data ones have room for their segments */
#define TT_VERBS_BOUNCE_BYTES (128u << 10)  /* per stream, of payloads that are copied and longer than a slot */
/* Messages of control are segments, too. As many acknowledgements as segments. */
#define TT_VERBS_LINK_RECEIVES (2 * (TT_VERBS_SLOTS + TT_VERBS_WINDOW))
#define TT_VERBS_CHAIN 32           /* work requests given to a queue pair with one doorbell */
#define TT_VERBS_WRS_TO_ASK 8       /* work requests of a data lane beside those of segments, that ask whether it works */
/* Completions of sends of a link, at most: data lanes together have half a window of segments outstanding, of two work requests each. */
#define TT_VERBS_LINK_SENDS (TT_VERBS_WINDOW + TT_VERBS_WRS + TT_VERBS_WRS_TO_ASK * TT_VERBS_DATA_LANES)
#define TT_VERBS_GROUP_LINKS 16     /* that share queues, at most */
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
    struct tt_verbs_mrs *mrs;       /* NULL: of no bytes */
    struct tt_reg *pin;             /* whose handle they are; NULL: the region has some of its own */
    uint32_t id, generation;
    bool owned;                     /* the wire mapped the memory */
    bool exposed;                   /* peers may have its key */
    bool device;                    /* memory of another device: no processor may touch it */
};

/* ---- lanes ---- */

/* What a work request was for. */
struct tt_verbs_wr {
    uint64_t message;
    uint32_t number;                /* of a segment */
    bool payload;                   /* it reads the message's source */
    bool segment;                   /* the last one, or the only one, of a segment */
};
#define TT_VERBS_NO_MESSAGE UINT64_MAX

enum tt_verbs_lane_state {
    TT_VERBS_LANE_DOWN,             /* our hello of this incarnation is told or owed */
    TT_VERBS_LANE_CONNECTED,        /* our queue pair can receive from the peer's */
    TT_VERBS_LANE_PROBING,          /* and the peer's from ours: whether it works is being tried */
    TT_VERBS_LANE_UP
};

struct tt_verbs_lane {
    struct tt_verbs_link *link;
    struct tt_verbs_stream *stream;
    uint32_t number, index;         /* in the link; in the stream */
    uint32_t rail;
    enum tt_verbs_lane_state state;
    uint32_t incarnation;           /* of the lane, from 1; both ends have the same when it is up */
    bool heard;                     /* the peer's hello of this incarnation */
    bool owes_hello, owes_ready;    /* the tcp wire had no room for it */
    bool broken;                    /* to be taken down in the next poll */
    uint32_t setbacks;              /* times that it failed by itself, since anything was sent on it */
    uint32_t walks;                 /* to a rail that was down, since it was up */
    uint64_t again_ns;              /* not tried again before */

    struct ibv_qp *qp;              /* NULL: none */
    uint32_t qpn, psn;
    uint32_t inline_bytes;          /* that a work request can carry */
    struct tt_verbs_lane *next;     /* in the same bucket */
    struct tt_verbs_wr *wrs;        /* [wr_depth] */
    uint32_t wr_depth;
    uint64_t wr_head, wr_tail;
    uint32_t unwatched;             /* work requests since the last that reports its completion */
    uint64_t culprit;               /* the message that broke the queue pair; TT_VERBS_NO_MESSAGE: none did */
    uint64_t segments, bytes;       /* carried, in all */
};

/* Work requests for one lane, linked, on their way to its queue pair. */
struct tt_verbs_chain {
    struct tt_verbs_lane *lane;
    struct ibv_send_wr wr[TT_VERBS_CHAIN];
    struct ibv_sge sge[TT_VERBS_CHAIN];
    uint32_t n;
};

/* ---- streams ---- */

struct tt_verbs_out {
    const uint8_t *data;            /* what goes by RDMA write; NULL: nothing */
    uint64_t bytes;                 /* of it; stays when the message becomes void, as it is cut by them */
    uint64_t target;                /* address there */
    uint32_t lkey[TT_VERBS_RAILS], rkey[TT_VERBS_RAILS];
    uint64_t cookie;
    uint64_t end;                   /* of one that is sent: the number of the segment after its last */
    uint64_t bounce_end;            /* the bounce ring is free up to here when this has been sent; 0: not in it */
    uint32_t slot_bytes;            /* of the record and the payload behind it, in the stream's staging slot */
    bool report_local, report_remote;
    bool watched;                   /* its sending is to be noticed soon */
    bool direct;                    /* no processor may touch its bytes */
    uint8_t lane;                   /* as tt_desc has it */
    bool few_lanes;                 /* it is a bound */
};

struct tt_verbs_stream {
    struct tt_verbs_link *link;
    uint32_t index;
    struct tt_verbs_lane *lane;     /* [nlanes], the link's */
    uint32_t nlanes;
    struct tt_verbs_stream *next_noted;
    bool noted;                     /* on tt_verbs.noted: it may have something to report, or may go on */

    /* out: numbers of messages, each behind the one before it: retired <= told <= done <= sent <= tail */
    struct tt_verbs_out *out;       /* [TT_VERBS_DEPTH] */
    uint64_t retired, told, done, sent, tail;
    uint64_t acked;                 /* messages: the receiver has applied all before it */
    uint64_t acked_segments;        /* and all segments before this */
    struct tt_dqplb_sender sender;
    struct tt_dqplb_segment *segments;  /* [TT_VERBS_WINDOW], the sender's */
    uint32_t watch_every;           /* work requests of a lane, of which one at least reports its completion */
    uint8_t *staging;               /* [TT_VERBS_DEPTH][TT_VERBS_SLOT_BYTES] */
    uint8_t *bounce;                /* [TT_VERBS_BOUNCE_BYTES] */
    uint64_t bounce_head, bounce_tail;
    uint64_t peer_ring;             /* slots for our records */

    /* in */
    uint8_t *ring;                  /* [TT_VERBS_SLOTS][TT_VERBS_SLOT_BYTES] */
    struct tt_dqplb_receiver receiver;
    uint64_t marks[2 * TT_DQPLB_WORDS(TT_VERBS_WINDOW)];    /* the receiver's */
    uint64_t applied;               /* messages */
    uint64_t told_segments;         /* of receiver.expected, to the peer */
    bool ack_due;
};

/* ---- links ---- */

enum tt_verbs_state {
    TT_VERBS_GREETING,              /* not usable yet at both ends */
    TT_VERBS_UP,
    TT_VERBS_LOST
};

struct tt_verbs_link {
    struct tt_verbs *verbs;
    struct tt_verbs_group *group[TT_VERBS_RAILS];   /* NULL: none (any more) */
    uint32_t peer;
    enum tt_verbs_state state;
    bool owes_greeting, owes_refusal;   /* the tcp wire had no room for it */
    bool greeted;                   /* the peer's greeting has come: the next three hold, and the lanes are there */
    uint32_t nrails;                /* that both have */
    uint32_t nlanes;
    struct tt_verbs_greeting theirs;
    uint64_t portless_ns;           /* since when no rail of ours is up; 0: some is */
    tutti_status status;            /* why it is lost, or is to be lost in the next poll */
    bool tell_up, tell_lost;
    struct tt_verbs_link *next_news;

    struct tt_link tcp;             /* of the inner wire */
    void *mine;                     /* link region, then the streams' rings */
    uint8_t *local;                 /* staging and bounce of the streams */
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
    uint32_t wanted, posted;        /* receives */
};

/* ---- the wire ---- */

/* A port of a device, and what this process has there. */
struct tt_verbs_rail {
    struct ibv_context *context;
    char name[64], interface[16];   /* of the device; of the port's network, "" if it has none */
    bool up;
    bool dead;                      /* the device failed for good */
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
    uint32_t group_links;           /* so many in one, by what the device can */
};

struct tt_verbs {
    struct tt_wire wire;
    struct tt_wire_conf conf;
    struct tt_wire *tcp;            /* the inner one */
    struct tt_lane_limits limits;
    struct tt_verbs_rail rail[TT_VERBS_RAILS];
    uint32_t nrails;
    int epoll_fd, timer_fd;
    bool armed, tcp_watched;
    uint32_t tick;
    bool mending;                   /* a lane or link is coming up: look often */
    bool waiting;                   /* a lane waits for a port, or until it may be tried again: look now and then */

    struct tt_sparse links;         /* struct tt_verbs_link, by rank */
    struct tt_verbs_link **active;  /* [nactive] those that are not lost */
    uint32_t nactive, active_depth;
    struct tt_verbs_link *news, **news_end;
    struct tt_verbs_stream *noted, **noted_end;
    struct tt_verbs_chain chain[TT_VERBS_DATA_LANES];   /* by a lane's index in the stream that sends just now; too much for a stack */
    struct tt_verbs_lane *lanes[TT_VERBS_RAILS][TT_VERBS_BUCKETS];  /* by number of queue pair */
    bool any_broken;

    struct tt_verbs_region **regions;   /* [nregions], by id; the first is never used: 0 names the link region */
    uint32_t nregions, next_generation;
    struct tt_verbs_region *last_source;
    struct tt_domain *domain;       /* of the caller's memory that it has registered */
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

/* verbs.c */
/* The stream has news: a later part of poll looks at it. */
void tt_verbs_note(struct tt_verbs_stream *s);

/* verbs_device.c */
/* Opens ports of the devices that the rule (as of interfaces) allows, or, where there is none, of those near this process: the first port of each, then
 * others. gid: as tt_verbs_choice_read has it; by no index, it is an address of this network namespace. UNSUPPORTED says why there is none. */
tutti_status tt_verbs_rails_open(struct tt_verbs_rail rail[TT_VERBS_RAILS], uint32_t *nrails, const char *rule,
                                 const char *gid);
void tt_verbs_rail_close(struct tt_verbs_rail *rail);
/* Takes what the device tells. True: `up` has changed. *doubtful: some queue pair has failed. */
bool tt_verbs_rail_events(struct tt_verbs_rail *rail, bool *doubtful);

/* verbs_queue.c */
/* Gives the link a seat in a group of that rail. */
tutti_status tt_verbs_group_join(struct tt_verbs_link *link, uint32_t rail);
void tt_verbs_groups_leave(struct tt_verbs_link *link);
void tt_verbs_groups_close(struct tt_verbs_rail *rail);
/* A queue pair for the lane on its rail, which cannot send or receive yet. */
tutti_status tt_verbs_qp_create(struct tt_verbs_lane *lane);
/* Joins it to the other end's. */
tutti_status tt_verbs_qp_connect(struct tt_verbs_lane *lane, const struct tt_verbs_hello *theirs);
/* It touches no memory any more, and what was posted comes back. */
void tt_verbs_qp_stop(struct tt_verbs_lane *lane);
/* What came for it until then is collected. */
void tt_verbs_qp_destroy(struct tt_verbs_lane *lane);

/* verbs_link.c */
/* What the inner wire's link regions hold: the mailbox that the peer writes. */
struct tt_verbs_mailbox {
    uint64_t greeted;       /* 1: the greeting is there */
    uint64_t refusal;       /* 1: the peer gives the link up */
    uint64_t hello[TT_VERBS_LANES];     /* newest incarnation of the lane of which the hello is there */
    uint64_t ready[TT_VERBS_LANES];     /* newest incarnation from which the peer can receive */
    uint8_t greeting[TT_VERBS_GREETING_BYTES];
    uint8_t hellos[TT_VERBS_LANES][2][TT_VERBS_HELLO_BYTES];    /* by incarnation; the one before the last is not needed any more */
};

/* Of nlanes lanes of one stream, as far as layout and links of now tell. */
struct tt_dqplb_limits tt_verbs_limits(const struct tt_verbs_link *link, uint32_t nlanes);
tutti_status tt_verbs_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address);
/* Takes what the inner wire has, what peers have told through it, and what devices say of their ports. */
void tt_verbs_links_step(struct tt_verbs *v);
/* A lane of it has come up. */
void tt_verbs_link_gained(struct tt_verbs_link *link);
/* Ends the link for good, and tells poll. Its link region stays until the wire closes. why: in static storage. */
void tt_verbs_link_lose(struct tt_verbs_link *link, tutti_status status, const char *why);
/* Takes down the lanes that are marked broken, and loses the links that are left without any. */
void tt_verbs_links_break(struct tt_verbs *v);
/* Puts `word` at `word_at` of the peer's mailbox, after data[bytes] at `at`. False: the tcp wire has no room now. */
bool tt_verbs_tell(struct tt_verbs_link *link, size_t word_at, uint64_t word, size_t at, const void *data,
                   size_t bytes);
/* The word there of our mailbox. */
uint64_t tt_verbs_heard(const struct tt_verbs_link *link, size_t word_at);
/* Waits (at most a second) until what was posted has landed. */
void tt_verbs_links_linger(struct tt_verbs *v);
void tt_verbs_links_close(struct tt_verbs *v);
/* What its links, and the tcp wire inside, take. */
void tt_verbs_links_memory(const struct tt_verbs *v, tutti_memory *m);

/* verbs_lane.c */
/* After the greeting: the first queue pair of a lane that is all zero but for link, stream, number and index. */
tutti_status tt_verbs_lane_begin(struct tt_verbs_lane *lane);
void tt_verbs_lane_end(struct tt_verbs_lane *lane);
/* One step of a lane of a link that is not lost. */
void tt_verbs_lane_step(struct tt_verbs_lane *lane);
/* Ends its queue pair, whose state is unknown after an error, and begins the next incarnation. What is in doubt goes elsewhere when the peer has told
 * what it has; a message that broke the queue pair is void. */
void tt_verbs_lane_break(struct tt_verbs_lane *lane);
/* To be taken down in the next poll. */
void tt_verbs_lane_mark(struct tt_verbs_lane *lane);

/* verbs_send.c */
int tt_verbs_post(struct tt_wire *w, const struct tt_desc *desc, int n);
/* Gives the lanes what they take of the stream's messages, and the control lane an acknowledgement that is due. */
void tt_verbs_stream_pump(struct tt_verbs_stream *s);
/* Has the completion of all that was posted show in the completion queue. */
void tt_verbs_lane_watch(struct tt_verbs_lane *lane);
/* Posts a write of nothing, whose completion shows whether the lane works. */
void tt_verbs_lane_probe(struct tt_verbs_lane *lane);
/* Has it show whether it works, by what is posted already, if there is anything. */
void tt_verbs_lane_check(struct tt_verbs_lane *lane);
/* Notes a segment of the lane, by its number modulo 2^24, for who wants a trace. */
void tt_verbs_trace(const struct tt_verbs_lane *lane, enum tt_trace_kind kind, uint32_t number, uint64_t bytes);
/* A work request has completed. */
void tt_verbs_sent(struct tt_verbs_lane *lane, const struct ibv_wc *wc);
/* All segments before `acked` have been applied there. False if that cannot be. */
bool tt_verbs_acked(struct tt_verbs_stream *s, uint64_t acked);
/* Takes note of the messages whose segments have all completed. */
void tt_verbs_settle(struct tt_verbs_stream *s);
/* A region is not registered any more whose key that is, or was, on the first rail: unfinished messages of bytes that no other region has under that key go
 * on with another one for them, or become void. Lanes whose queue pairs may be reading by the key are marked broken. */
void tt_verbs_source_gone(struct tt_verbs_stream *s, uint32_t lkey);
void tt_verbs_message_void(struct tt_verbs_stream *s, uint64_t message);

/* verbs_recv.c */
/* Takes completions from all queues, a fair share of each; returns how many. Breaks and loses no link but marks them. */
uint32_t tt_verbs_collect(struct tt_verbs *v);
/* Posts the receives that the group wants. False: the device does not take them all. */
bool tt_verbs_receives(struct tt_verbs_group *g);

/* verbs_region.c */
/* The caller's memory is registered through the registry, which keeps it for the next time; the wire's own is not. */
tutti_status tt_verbs_regions_open(struct tt_verbs *v);
tutti_status tt_verbs_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
tutti_status tt_verbs_source(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
void tt_verbs_dereg(struct tt_region *r);
tutti_status tt_verbs_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key, struct tt_rkey *out);
/* Registers memory with a rail's device for as long as it is not unpinned, and ends that. NULL and a logged error: it refuses. */
struct ibv_mr *tt_verbs_pin(struct tt_verbs_rail *rail, void *mem, size_t bytes, int access);
void tt_verbs_unpin(struct ibv_mr *mr);
/* The live region of that id and generation; NULL if there is none (any more). */
struct tt_verbs_region *tt_verbs_region_find(const struct tt_verbs *v, uint32_t id, uint32_t generation);
/* The devices' keys for mem[bytes]. False if it lies in no registered region and no link region. */
bool tt_verbs_lkey(struct tt_verbs *v, const void *mem, uint64_t bytes, uint32_t lkey[TT_VERBS_RAILS]);
/* Whether mem[bytes] lies in a region, be its memory registered or not. */
bool tt_verbs_is_source(const struct tt_verbs *v, const void *mem, uint64_t bytes);
/* Whether that key is the first device's for a registered region that has mem[bytes]. */
bool tt_verbs_has_lkey(const struct tt_verbs *v, const void *mem, uint64_t bytes, uint32_t lkey);
void tt_verbs_regions_close(struct tt_verbs *v);

#endif
