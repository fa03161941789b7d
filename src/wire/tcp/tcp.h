/* Private declarations of the tcp transport.
 *
 *  tcp.c         the wire: open, poll, sleep, the table of operations
 *  tcp_handshake.c   the listener, and connections until they are lanes
 *  tcp_rail.c    selection of the NIC of a lane
 *  tcp_offer.c   the number of lanes of a link
 *  tcp_demand.c  lanes to far peers, by the data in flight
 *  tcp_link.c    links and lanes: set-up and teardown
 *  tcp_send.c    descriptors to frames
 *  tcp_write.c   frames to the kernel; quotas of writes, and segment lengths
 *  tcp_pacing.c     lanes with a long round trip
 *  tcp_recv.c    bytes from the kernel to frames to memory and signals
 *  tcp_secure.c  lanes over TLS
 *  tcp_lanes.c   counters of lanes, for dumps
 *  tcp_frame.c   the formats (pure)
 *
 * All code runs under the progress lock, so there are no other locks. Each link has one or more
 * lanes, each a TCP connection. Every queue has a fixed depth, and post refuses what does not
 * fit. */
#ifndef TT_WIRE_TCP_H
#define TT_WIRE_TCP_H

#include <sys/uio.h>

#include "base/acceptor.h"
#include "base/sparse.h"
#include "secure/stream.h"
#include "trace/trace.h"
#include "wire/dqplb.h"
#include "wire/ifaddr.h"
#include "wire/lane_pace.h"
#include "wire/rput/rput_news.h"
#include "wire/rput/rput_region.h"
#include "wire/tcp/tcp_frame.h"
#include "wire/wire.h"

#define TT_TCP_LANES_MAX TT_DQPLB_LANES_MAX
#define TT_TCP_QUEUE_DEPTH 256          /* frames queued per lane and class */
/* of these, reserved for inline frames if one queue serves all classes */
#define TT_TCP_RESERVED 64
#define TT_TCP_INLINE_BYTES (256u << 10)    /* maximum queued inline bytes of a link */
/* receive buffer of a lane: the longest read, plus data already read */
#define TT_TCP_BUFFER_BYTES (48u << 10)
/* Bytes of one read: 16 KiB with frames fit in one call; more would copy large payloads twice. */
#define TT_TCP_READ_BYTES 20480u
/* For payloads of 16 to 40 KiB, which would need two calls with READ_BYTES, and thus more time. */
#define TT_TCP_READ_MORE 45056u
#define TT_TCP_READ_LESS 5120u          /* for longer payloads; more than TT_TCP_BRIEF_BYTES */
#define TT_TCP_BRIEF_BYTES 4096u        /* maximum bytes of a read after which the next one peeks */
/* up to this number, reading each lane is no slower than epoll */
#define TT_TCP_FEW_LANES 4
#define TT_TCP_TRASH_BYTES (64u << 10)
/* first segment of a connection on loopback: more than a message of 16 KiB with frames */
#define TT_TCP_LONG_BYTES (24u << 10)
#define TT_TCP_REQUESTS 32              /* gets and atomics in flight per link */
#define TT_TCP_REPLIES 64               /* more than the peer's requests plus one acknowledgement */
#define TT_TCP_REMOTES 1024             /* puts per link with pending remote completion */
/* unacknowledged messages per link with several lanes, which may overtake each other */
#define TT_TCP_WINDOW 4096
/* unacknowledged messages of a single lane: far below half of the number space */
#define TT_TCP_AHEAD (1u << 20)
/* attempts in a row to open a lane after which it counts as failed; it is tried again, but later */
#define TT_TCP_TRIES 3
/* initial capacity of completions queued for poll; a power of two */
#define TT_TCP_DONES 4096

struct tt_tcp;
struct tt_tcp_link;

/* First member of each struct that an epoll entry points to. */
enum tt_tcp_watched { TT_TCP_LISTENER, TT_TCP_TIMER, TT_TCP_HANDSHAKE, TT_TCP_LANE };

/* ---- sending ---- */

enum tt_tcp_class {
    TT_TCP_URGENT,              /* inline frames, if several lanes are ordered by sequence
                                   numbers */
    TT_TCP_REPLY,               /* acknowledgements and responses */
    TT_TCP_BULK,                /* everything else; with one lane also inline frames, to keep the
                                   order */
    TT_TCP_CLASSES
};

/* One outgoing frame. */
struct tt_tcp_out {
    const uint8_t *data;        /* bytes after header[head]; in the caller's memory, or with the
                                   header in the link's inline ring */
    uint64_t bytes;
    uint64_t cookie;
    uint64_t inline_end;        /* the inline ring is free up to here once this frame is sent; 0:
                                   not in the ring */
    void *copy;                 /* owned: copy of the data after its source was deregistered */
    uint8_t *room;              /* space in the inline ring for data that is the caller's until
                                   post returns; NULL: none */
    uint32_t head;              /* bytes of header[] to send: all or none */
    bool report;                /* report local completion */
    bool ack;
    uint8_t header[TT_FRAME_BYTES];
};

struct tt_tcp_queue {
    struct tt_tcp_out *ring;    /* [depth], a power of two; NULL: no queue */
    uint32_t depth, head, tail;
};

/* ---- a lane: one connection ---- */

struct tt_tcp_lane {
    enum tt_tcp_watched watch;
    int fd;                     /* -1: not connected */
    struct tt_stream *stream;   /* TLS over fd, which it owns; NULL: unencrypted */
    bool more;                  /* TLS may hold received bytes that the socket does not report */
    struct tt_tcp_link *link;
    uint32_t number;            /* index among the link's lanes */
    bool unready;               /* opened by this end, without the peer's READY yet: nothing is sent
                                   on it, so its end does not affect the link */
    uint8_t failures;           /* attempts to open it that failed in a row */
    bool dirty;                 /* is in tt_tcp.dirty */
    bool blocked;               /* the kernel accepted less than offered: wait for EPOLLOUT */
    uint32_t watching;          /* epoll events EPOLLIN, EPOLLOUT; the connection's end is always
                                   reported */
    bool send_closed;                  /* the peer accepts no more data */
    uint64_t far_ns;            /* retry interval while blocked, for a far peer; 0: near */
    uint64_t try_ns;            /* far and blocked: time of the next retry */
    bool paced;                 /* leaves this machine: pace applies */
    uint64_t last_bytes;        /* bytes of the last write, unless short */
    bool bye, ended;            /* bye: the peer has sent BYE; ended: the peer has closed the
                                   connection */
    struct tt_tcp_lane *next_dirty;

    struct tt_tcp_queue queues[TT_TCP_CLASSES];
    struct tt_lane_pace pace;
    bool begun;                 /* the front of queues[current] is partly sent: its first `sent`
                                   bytes */
    uint8_t current;
    uint64_t sent;

    uint8_t *buffer;            /* [TT_TCP_BUFFER_BYTES]; bytes at .. have are unparsed */
    uint32_t at, have;
    uint32_t read_bytes;        /* size of the next read between frames, without TLS */
    bool last_read_long;                 /* the last read returned more than a few short messages */
    bool peeks;                 /* the buffer's contents are also still in the socket */
    uint8_t empty_peeks, unanswered_reads;    /* consecutive peeks without new data; reads
                                   with data since this end last sent */
    /* the write quota of a poll (tcp_write.c) */
    bool quota_exhausted;       /* the last quota did not suffice for all queued frames */
    uint8_t short_quotas;       /* remaining polls with a short quota: the peer is sending, too */
    uint64_t quota_poll;        /* poll (tt_tcp.npolls) to which the current quota applies */
    uint64_t quota_left;        /* bytes that may still be written in this poll */
    uint64_t sent_bytes;        /* bytes sent since the peer's kernel was last known to have
                                   everything */
    struct tt_frame frame;      /* frame whose payload is arriving */
    uint64_t left;              /* bytes of the payload still missing */
    uint8_t *target;            /* destination of the next bytes; NULL: they are discarded */
    bool dropped;               /* part of the payload was discarded, so its signal must not be
                                   raised */
    struct tt_rput_region *region;  /* region of target; NULL for the link region and responses */
};

/* ---- a link: all lanes to one peer ---- */

struct tt_tcp_request {
    bool busy, remote;
    uint8_t kind;               /* kind of the response frame */
    uint32_t token;
    uint8_t *local;             /* NULL: deregistered meanwhile, or not needed */
    uint64_t bytes, cookie;
};

struct tt_tcp_remote {
    uint64_t number, cookie;
};

/* A route for a connection: from a rail (TT_TCP_NO_RAIL: by the routing table) to an endpoint of
 * the peer. */
struct tt_tcp_way {
    uint8_t rail, endpoint;
};
#define TT_TCP_NO_RAIL 255

/* A signal that waits for earlier messages, stored at its message's place in the window, between
 * the arrived prefix and the newest message. */
struct tt_tcp_parked {
    uint32_t next;              /* next in the order of numbers */
    struct tt_frame frame;
};

enum tt_tcp_state { TT_TCP_OPENING, TT_TCP_UP, TT_TCP_LOST };

struct tt_tcp_link {
    struct tt_tcp *tcp;
    uint32_t peer;
    enum tt_tcp_state state;
    struct tt_rput_news news;
    bool connect_called;        /* a failure must be reported */
    uint32_t reserved_dones;    /* reserved completions that are not yet in tt_tcp.dones */

    void *mine;                 /* link region, conf.link_bytes */
    uint64_t theirs_bytes;
    struct tt_tcp_lane *lanes;  /* [nlanes] */
    uint32_t nlanes;            /* agreed maximum; 0 before the link is up */
    bool initiator;             /* this end opens the lanes */
    bool on_demand;             /* not all lanes are opened at once (tcp_demand.c) */
    uint32_t requested;         /* lanes with a lower index exist, are being opened, or were
                                   requested from the initiator; others do not exist */
    uint32_t wanted;            /* number of lanes that the data needs; if it exceeds `requested`,
                                   poll requests them */
    bool untried;               /* initiator: memory was short, so a requested lane may be neither
                                   open nor being opened; tried again when all lanes are full */
    uint32_t beside;            /* a lane over the same rail as the first; 0: none */

    /* ---- send side ---- */
    struct tt_dqplb_lanes load;         /* load of the link's lanes: frames in their bulk queues,
                                           and all bytes not yet accepted by the kernel */
    uint64_t next_number, acked;        /* acked: all messages before it have arrived */
    uint64_t fence;                     /* messages before it must arrive before any later signal
                                           or get takes effect */
    bool fenced;
    struct tt_tcp_remote *remotes;      /* [TT_TCP_REMOTES] */
    uint32_t remote_head, remote_tail;
    struct tt_tcp_request requests[TT_TCP_REQUESTS];
    uint32_t next_token;
    uint8_t *inline_ring;               /* [TT_TCP_INLINE_BYTES] */
    bool has_borrowed;                       /* frames in its inline queue refer to the caller's
                                                data */
    uint64_t inline_head, inline_tail;

    /* ---- receive side ---- */
    struct tt_dqplb_receiver receiver;  /* all messages before receiver.expected have arrived */
    uint64_t came[2 * TT_DQPLB_WORDS(TT_TCP_WINDOW)];   /* memory of receiver */
    uint64_t ack_sent, ack_want;
    bool ack_queued;
    struct tt_tcp_parked *window;       /* [TT_TCP_WINDOW], parked signals; NULL with one lane */
    uint32_t parked;                    /* lowest parked number, or TT_TCP_NOBODY */
    struct tt_frame *held_gets;         /* [TT_TCP_REQUESTS] ring of gets that wait for puts
                                           before a fence; NULL with one lane */
    uint32_t held_head, held_tail;

    /* ---- set-up ---- */
    struct tt_tcp_address address;
    struct tt_tcp_way order[1 + TT_TCP_ENDPOINTS];  /* candidates, best first */
    uint8_t ncandidates, candidate;
    uint32_t failures, silent_attempts;     /* of the first lane */
    uint64_t starved_ns;                /* start of the time without a free descriptor to connect;
                                           0: one is free */
    bool refused;               /* the failure of TLS was logged */
    uint64_t nonce;
    uint32_t offer;             /* number of lanes that this end offers in the handshake; 0: not
                                   sent yet */
    uint32_t promised;          /* further lanes, agreed or still offered, that do not exist yet */
};
#define TT_TCP_NOBODY UINT32_MAX

/* ---- the wire ---- */

struct tt_tcp_done {
    uint8_t kind;
    uint32_t peer;
    uint64_t cookie;
    tutti_status status;
};

struct tt_tcp_handshake;

struct tt_tcp {
    struct tt_wire wire;
    struct tt_wire_conf conf;
    enum tt_tcp_watched listener, timer;  /* targets of epoll entries */
    int epoll_fd, timer_fd;
    struct tt_acceptor acceptor;
    uint16_t port;
    struct tt_outside outside;          /* all 0: none */
    int listen_family;
    uint64_t host;
    struct tt_lane_limits limits;
    bool settled;                       /* the layout is known: alone, rail and conf.lanes are
                                           final */
    bool alone;                         /* the only rank of a host with several rails: lanes use
                                           all of them */
    uint8_t rail;                       /* our rail, or TT_TCP_NO_RAIL */
    bool lanes_free;                    /* the user did not set the number of lanes */
    uint32_t far_lanes;                 /* TUTTI_FAR_LANES */
    uint64_t far_ns;                    /* minimum round trip of a link that gets more than
                                           conf.lanes lanes on demand, if lanes_free; 0: every link,
                                           also on this machine */
    bool lost;                          /* a link was lost since the last poll */
    bool lanes_wanted;                  /* a link may have wanted > requested */
    struct tt_ifaddr ifaddrs[64];
    size_t nifaddrs;

    struct tt_sparse links;             /* struct tt_tcp_link, by rank */
    uint32_t noffers;                   /* links that have made an offer */
    uint32_t promised;                  /* sum over all links */
    struct tt_tcp_lane **active;        /* [nactive], connected lanes */
    uint32_t nactive, active_depth;
    uint32_t nblocked, nmore;           /* number of blocked lanes, and of lanes with `more` */
    uint32_t nfar_blocked;              /* number of far lanes that are blocked */
    struct tt_tcp_lane *dirty;
    struct tt_rput_news_list news;
    void (*link_lost)(struct tt_tcp_link *link);    /* aborts connection attempts of a lost link */
    void (*lane_lost)(struct tt_tcp_lane *lane);    /* schedules another attempt for a lane that has
                                                       ended before it was ready */

    struct tt_tcp_handshake *greetings;  /* connections that are not lanes yet */
    uint32_t nunauthenticated;                /* connections that have not proved the secret */
    uint32_t nopening;                  /* connections that we have started, without further
                                           lanes that wait for WELCOME or a retry */
    uint64_t npolls;
    uint32_t tick;
    uint32_t polls;                     /* since the last arm, while epoll watches lanes (not
                                           wire.unheard) */
    uint64_t silence_ns;                /* next check of lanes for silent peers */
    bool armed;
    bool starved;                       /* the lack of descriptors was logged */

    struct tt_tcp_done *dones;          /* [ndones], a power of two that grows. The completions
                                           of each link are bounded, so no link takes the space
                                           of others */
    uint32_t ndones, done_head, done_tail;
    uint32_t reserved;                  /* entries in dones, or reserved */

    struct tt_rput_regions regions;
    uint8_t *trash;                     /* [TT_TCP_TRASH_BYTES] */
};

static inline struct tt_tcp *tt_tcp_of(struct tt_wire *w)
{
    return (struct tt_tcp *)w;
}

/* Bytes in the lane's queues that the kernel has not accepted. */
static inline uint64_t tt_tcp_queued(const struct tt_tcp_lane *lane)
{
    return lane->link->load.lane[lane->number].bytes;
}

static inline uint32_t tt_tcp_queue_room(const struct tt_tcp_queue *q)
{
    return q->depth - (q->tail - q->head);
}

static inline struct tt_tcp_out *tt_tcp_queue_at(const struct tt_tcp_queue *q, uint32_t i)
{
    return &q->ring[i & (q->depth - 1)];
}

/* Appends a cleared entry; the caller has checked for space. */
static inline struct tt_tcp_out *tt_tcp_queue_push(struct tt_tcp_lane *lane,
                                                   enum tt_tcp_class class)
{
    struct tt_tcp_queue *q = &lane->queues[class];
    struct tt_tcp_out *out = tt_tcp_queue_at(q, q->tail++);

    out->data = NULL;
    out->bytes = out->inline_end = 0;
    out->copy = NULL;
    out->room = NULL;
    out->head = 0;
    out->report = out->ack = false;
    return out;
}

/* Maximum number of unacknowledged messages of a link. */
static inline uint32_t tt_tcp_ahead(const struct tt_tcp_link *link)
{
    return link->nlanes > 1 ? TT_TCP_WINDOW : TT_TCP_AHEAD;
}

/* ---- tcp_link.c ---- */
/* Creates a link in state OPENING and enters it in the wire's table. NULL: out of memory. */
struct tt_tcp_link *tt_tcp_link_create(struct tt_tcp *t, uint32_t peer);
/* Allocates what a connected link needs. Returns false if out of memory; the caller must lose the
 * link. */
bool tt_tcp_link_furnish(struct tt_tcp_link *link, uint32_t nlanes);
/* Allocates what opening the lane needs. False: out of memory. */
bool tt_tcp_lane_reserve(struct tt_tcp_lane *lane);
/* Makes the connection a lane, which then owns it. False: out of memory, which is excluded if the
 * lane was just reserved and fd is watched. */
bool tt_tcp_lane_open(struct tt_tcp_lane *lane, int fd, struct tt_stream *stream);
/* The peer also has the lane: data may be sent on it from now on. */
void tt_tcp_lane_ready(struct tt_tcp_lane *lane);
/* Sends READY to the peer, which has opened the lane. */
void tt_tcp_lane_welcome(struct tt_tcp_lane *lane);
/* Closes a lane that has ended before anything was sent on it. If it was the last one, the link
 * ends with status OK. */
void tt_tcp_lane_drop(struct tt_tcp_lane *lane);
void tt_tcp_link_up(struct tt_tcp_link *link);
/* Closes a lane that has ended after the peer's BYE. If it was the last one, the link ends with
 * status OK. */
void tt_tcp_lane_ended(struct tt_tcp_lane *lane);
/* Ends the link permanently: closes its lanes, drops its descriptors, and reports the loss by poll.
 * Its memory remains until the next poll, so callers may still access it; its structs and region
 * until the wire closes. No effect on a lost link. */
void tt_tcp_link_lose(struct tt_tcp_link *link, tutti_status status, const char *why);
/* Frees the queues, buffers and windows of lost links. No caller may be using a link. */
void tt_tcp_links_strip(struct tt_tcp *t);
/* Sends BYE on all lanes, waits up to a second until the peers' kernels have all data, and
 * closes. */
void tt_tcp_links_close(struct tt_tcp *t);
void tt_tcp_memory(const struct tt_wire *w, tutti_memory *m);
/* tcp_lanes.c: tt_wire_ops.lanes. */
void tt_tcp_lanes(struct tt_wire *w, bool next, tt_wire_lane_fn *add, void *arg);
/* Sets the options of a lane's socket. Returns whether both ends are on this machine. */
bool tt_tcp_tune(const struct tt_tcp *t, int fd, bool one_of_many);
/* Loses links whose peer's host has been silent for too long. */
void tt_tcp_links_expire(struct tt_tcp *t, uint64_t now_ns);
/* Adds fd to epoll. what: a struct that begins with an enum tt_tcp_watched. */
bool tt_tcp_watch(struct tt_tcp *t, int fd, uint32_t events, void *what);

/* ---- tcp_rail.c ---- */
/* Derives our rail and the number of lanes from the layout, once that is filled. Called before the
 * first connect and accept. */
void tt_tcp_settle(struct tt_tcp *t);
/* Adds the addresses of our rails to an empty address. */
void tt_tcp_rails_address(const struct tt_tcp *t, struct tt_tcp_address *a);
/* Returns the rail of our lane to a peer, or TT_TCP_NO_RAIL. */
uint8_t tt_tcp_rail_of(const struct tt_tcp *t, uint32_t peer, uint32_t lane);
/* Returns the peer's endpoint for a lane over this rail, or -1. */
int tt_tcp_rail_endpoint(const struct tt_tcp *t, uint32_t peer, const struct tt_tcp_address *a,
                         uint8_t rail);
/* Binds a socket to the rail. Returns false on failure. */
bool tt_tcp_rail_bind(const struct tt_tcp *t, int fd, uint8_t rail);

/* ---- tcp_offer.c ---- */
/* Returns how many lanes we offer a peer, to which fd is the first connection: fewer than desired
 * if few descriptors are free. Constant for a link. */
uint32_t tt_tcp_offer(struct tt_tcp_link *link, int fd);
/* Lowers the offer of the initiator, before its CONFIRM, if fd has a shorter round trip by now. */
void tt_tcp_offer_confirm(struct tt_tcp_link *link, int fd);
/* Sets the number of lanes of the link that do not exist yet. */
void tt_tcp_set_pending_lanes(struct tt_tcp_link *link, uint32_t lanes);
/* Returns whether another lane leaves the reserve of descriptors untouched. */
bool tt_tcp_may_have_lane(void);

/* ---- tcp_demand.c ---- */
/* Sets how lanes are selected on a link whose lanes are opened on demand. */
void tt_tcp_fill_lanes(struct tt_tcp_link *link);
/* Returns the limit of bytes queued on one of its lanes, by the distance of the peer; as within a
 * rack while the layout is unknown. */
uint64_t tt_tcp_lane_bytes(const struct tt_tcp_link *link);
/* All lanes are full. Raises link->wanted, if its lanes are opened on demand. */
void tt_tcp_want_lanes(struct tt_tcp_link *link);

/* ---- tcp_handshake.c ---- */
tutti_status tt_tcp_listen(struct tt_tcp *t);
void tt_tcp_accept(struct tt_tcp *t);
tutti_status tt_tcp_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address);
/* Opens the lanes that links want, or requests them from the initiators. */
void tt_tcp_request_lanes(struct tt_tcp *t);
void tt_tcp_handshake_step(struct tt_tcp_handshake *g);       /* the connection is readable or
                                                               writable */
/* Handles deadlines, and frees completed handshakes. */
void tt_tcp_handshakes_expire(struct tt_tcp *t, uint64_t now_ns);
uint64_t tt_tcp_handshakes_deadline(const struct tt_tcp *t);
void tt_tcp_handshakes_end(struct tt_tcp_link *link);
/* Schedules another attempt for a lane that has ended before it was ready. */
void tt_tcp_lane_retry(struct tt_tcp_lane *lane);
void tt_tcp_handshakes_close(struct tt_tcp *t);

/* ---- tcp_send.c ---- */
int tt_tcp_post(struct tt_wire *w, const struct tt_desc *desc, int n);
/* mem[bytes] is being deregistered: queued frames with data there are copied if they are partly
 * sent, and otherwise made void. */
void tt_tcp_sources_gone(struct tt_tcp *t, const void *mem, size_t bytes);

/* ---- tcp_write.c ---- */
/* Sets whether epoll reports data on lanes; if not (wire.unheard), each poll reads all lanes. */
void tt_tcp_lanes_watch(struct tt_tcp *t, bool on);
/* Queues a completion for poll. It was reserved in link->reserved_dones when the descriptor was
 * accepted. */
void tt_tcp_complete(struct tt_tcp_link *link, uint8_t kind, uint64_t cookie, tutti_status status);
/* Records a frame of the lane, by its DQPLB word, in the trace. */
void tt_tcp_trace(const struct tt_tcp_lane *lane, enum tt_trace_kind kind, uint32_t word,
                  uint64_t bytes);
/* Marks the lane for a write: before post returns, after a following post, or in the next poll. A
 * blocked lane is written once it is writable. */
void tt_tcp_mark(struct tt_tcp_lane *lane);
/* Queues a response whose data[bytes] is in a region. Returns false if the peer has exceeded its
 * number of requests. */
bool tt_tcp_reply(struct tt_tcp_link *link, const struct tt_frame *f, const void *data,
                  uint64_t bytes);
/* Queues an acknowledgement of the prefix if one is due and none is queued; returns whether it
 * did. */
bool tt_tcp_acknowledge(struct tt_tcp_link *link);
/* Writes the lane's queues to the kernel, up to `most` bytes. Returns how many of `most` remain. */
uint64_t tt_tcp_lane_flush(struct tt_tcp_lane *lane, uint64_t most);
/* Starts the connection with a long segment, if segment lengths matter. Called once it is
 * established. */
void tt_tcp_length_open(struct tt_tcp_lane *lane);
/* Writes to the kernel what the lane should send before the next poll. */
void tt_tcp_lane_write(struct tt_tcp_lane *lane);
/* Records that a read of the lane returned this many bytes. */
void tt_tcp_lane_takes(struct tt_tcp_lane *lane, uint64_t bytes);
/* Writes every marked lane's queues; up to its quota, or all. Lanes marked meanwhile wait for the
 * next flush. */
void tt_tcp_flush(struct tt_tcp *t, bool all);

/* ---- tcp_pacing.c ---- */
/* Returns whether both ends of a connection are on this machine. */
bool tt_tcp_socket_is_loopback(int fd);
/* Returns the minimum round trip measured on a connection; 0: unknown. */
uint64_t tt_tcp_socket_round_trip_ns(int fd);
/* The same of the first lane. */
uint64_t tt_tcp_round_trip_ns(const struct tt_tcp_link *link);
/* Determines whether the peer is far, and if so enables pacing in the kernel. Called once the lane
 * is connected. */
void tt_tcp_pacing_open(struct tt_tcp_lane *lane);
/* Retries the blocked far lanes that are due. May lose links. */
void tt_tcp_pacing_try(struct tt_tcp *t, uint64_t now_ns);
/* Returns the time of the next retry, or TT_NEVER. */
uint64_t tt_tcp_pacing_deadline(const struct tt_tcp *t);

/* ---- tcp_recv.c ---- */
/* Reads and applies received data, up to a fair share. May lose the link. */
void tt_tcp_lane_receive(struct tt_tcp_lane *lane);
/* Removes peeked data from the socket. Must precede any other read, and waiting by epoll. Returns
 * false if the connection has failed. */
bool tt_tcp_peeked_take(struct tt_tcp_lane *lane);
/* The region is being deregistered: data that is arriving there is discarded from now on. */
void tt_tcp_targets_gone(struct tt_tcp *t, const struct tt_rput_region *r);

/* ---- tcp_secure.c ---- */
/* Non-blocking recv and sendmsg, with errno, through the stream, or on fd if that is NULL. Sent
 * data may remain in the stream: call tt_stream_flush. apart: the kernel must not join it with
 * later data in one packet. */
ssize_t tt_tcp_recv(int fd, struct tt_stream *stream, void *data, size_t bytes);
ssize_t tt_tcp_send(int fd, struct tt_stream *stream, const struct iovec *parts, int nparts,
                    bool apart);
/* Reads once, into the payload's destination or the buffer. Sets *room to the bytes read, since
 * only the next read shows whether there are more. */
ssize_t tt_tcp_secure_read(struct tt_tcp_lane *lane, size_t *room);
/* Returns whether the stream holds unsent bytes of the lane. */
bool tt_tcp_secure_holds(struct tt_tcp_lane *lane);
void tt_tcp_secure_more(struct tt_tcp_lane *lane, bool more);

#endif
