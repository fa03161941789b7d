/* The inside of the tcp wire: what its files share.
 *
 *   tcp.c         the wire: opening, polling, sleeping, the table of operations
 *   tcp_greet.c   the listener, and connections until they are lanes
 *   tcp_rail.c    which NIC a lane goes over
 *   tcp_link.c    links and lanes: what they consist of, how they end
 *   tcp_send.c    descriptors to frames to the kernel
 *   tcp_far.c     lanes with a long round trip
 *   tcp_recv.c    the kernel's bytes to frames to memory and signals
 *   tcp_length.c  lengths of segments, by which the kernel decides when to acknowledge
 *   tcp_peek.c    short messages, which are read without having the kernel acknowledge each
 *   tcp_secure.c  the same bytes through TLS, where that is asked for
 *   tcp_region.c  registered memory
 *   tcp_frame.c   the formats (pure)
 *
 * One thread at a time is in here (the baton), so nothing is locked. Each link has one or more lanes, each a TCP connection.
 * Everything that queues has a fixed depth, and post refuses what does not fit. */
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
#include "wire/tcp_frame.h"
#include "wire/wire.h"

#define TT_TCP_LANES_MAX TT_DQPLB_LANES_MAX
#define TT_TCP_QUEUE_DEPTH 256          /* frames queued per lane and class */
#define TT_TCP_RESERVED 64              /* of them for inline frames alone, where one queue serves all */
#define TT_TCP_INLINE_BYTES (256u << 10)    /* queued inline bytes per link */
#define TT_TCP_BUFFER_BYTES (48u << 10) /* of a lane's receive buffer: the longest read, behind what was known */
#define TT_TCP_READ_BYTES 20480u        /* by one read into it: 16 KiB with their frames come in one call; more would copy large payloads twice … */
#define TT_TCP_READ_MORE 45056u         /* … but where payloads of 16 to 40 KiB come, they cost two calls, and that is dearer */
#define TT_TCP_READ_LESS 5120u          /* where longer ones come; more than what is brief */
#define TT_TCP_BRIEF_BYTES 4096u        /* that have come at once, at most, where the next ones are peeked at */
#define TT_TCP_FEW_LANES 4              /* up to so many, trying each is no dearer than asking epoll */
#define TT_TCP_TRASH_BYTES (64u << 10)
#define TT_TCP_LONG_BYTES (24u << 10)   /* of the first segment of a connection on loopback: more than a message of 16 KiB with its frames, and another */
#define TT_TCP_REQUESTS 32              /* gets and atomics under way per link */
#define TT_TCP_REPLIES 64               /* more than the other end's requests plus one acknowledgement */
#define TT_TCP_REMOTES 1024             /* puts per link whose remote completion is awaited */
#define TT_TCP_WINDOW 1024              /* messages per link that may overtake each other; several lanes only */
#define TT_TCP_AHEAD (1u << 20)         /* messages of one lane that are not acknowledged: far below half of the numbers */
#define TT_TCP_DONES 4096               /* completions that wait for poll, at first; a power of two */

struct tt_tcp;
struct tt_tcp_link;

/* What an epoll entry points at: the first member of each such struct. */
enum tt_tcp_watched { TT_TCP_LISTENER, TT_TCP_TIMER, TT_TCP_GREETING, TT_TCP_LANE };

/* ---- memory ---- */

struct tt_tcp_region {
    struct tt_region public;
    uint32_t id, generation;
    bool owned;                 /* the wire mapped the memory */
};

struct tt_tcp_slot {
    struct tt_tcp_region *region;   /* NULL: free */
    uint32_t generation;            /* of the region, or of the next one */
    uint32_t next_free;
};

/* ---- sending ---- */

enum tt_tcp_class {
    TT_TCP_URGENT,              /* inline frames, where several lanes make order a matter of sequence numbers */
    TT_TCP_REPLY,               /* acknowledgements, answers */
    TT_TCP_BULK,                /* everything else; with one lane inline frames too, so that nothing overtakes */
    TT_TCP_CLASSES
};

/* One frame on its way out. */
struct tt_tcp_out {
    const uint8_t *data;        /* what follows header[head]; the caller's memory, or in the link's inline ring with the header */
    uint64_t bytes;
    uint64_t cookie;
    uint64_t inline_end;        /* the inline ring is free up to here once this frame is gone; 0: not in it */
    void *copy;                 /* owned: data was copied because its source went away */
    uint8_t *room;              /* in the inline ring, for data that is still the caller's while post runs; NULL: it is not */
    uint32_t head;              /* bytes of header[] that are sent: all or none */
    bool report;                /* as locally complete */
    bool ack;
    uint8_t header[TT_FRAME_BYTES];
};

struct tt_tcp_queue {
    struct tt_tcp_out *ring;    /* [depth], a power of two; NULL: none */
    uint32_t depth, head, tail;
};

/* ---- a lane: one connection ---- */

struct tt_tcp_lane {
    enum tt_tcp_watched watch;
    int fd;                     /* -1: not up */
    struct tt_stream *stream;   /* TLS over fd, which it then owns; NULL: plain */
    bool more;                  /* TLS may hold bytes that have come: the socket does not tell */
    struct tt_tcp_link *link;
    uint32_t number;            /* of the link's lanes */
    bool dirty;                 /* marked: on tt_tcp.dirty */
    bool blocked;               /* the kernel took less than it was offered: wait for EPOLLOUT */
    uint32_t watching;          /* what epoll tells of it but its end: EPOLLIN, EPOLLOUT */
    bool deaf;                  /* the peer takes no more */
    uint64_t far_ns;            /* its peer is far away: so often it is tried while blocked; 0: it is near */
    uint64_t try_ns;            /* far and blocked: when it is tried next */
    bool paced;                 /* its bytes leave this machine: pace holds */
    uint64_t last_bytes;        /* that were sent at once, if they were not few */
    bool bye, ended;            /* the peer said that it will close; it has */
    struct tt_tcp_lane *next_dirty;

    struct tt_tcp_queue queues[TT_TCP_CLASSES];
    struct tt_lane_pace pace;
    bool begun;                 /* the front of queues[current] has left in part: the first `sent` bytes of it */
    uint8_t current;
    uint64_t sent;

    uint8_t *buffer;            /* [TT_TCP_BUFFER_BYTES]; bytes at .. have wait to be parsed */
    uint32_t at, have;
    uint32_t read_bytes;        /* of the next read between frames, without TLS */
    bool bulky;                 /* what came last was more than a few short messages */
    bool peeks;                 /* all that the buffer holds is in the socket, too */
    uint8_t vain, unanswered;   /* looks that found nothing new, in a row, while it peeks; reads that did, since bytes of ours went the other way */
    bool goes_on;               /* its last turn was too short */
    uint8_t turns;              /* that are short ones, as the peer sends, too */
    uint64_t turn, turn_left;   /* the poll (of tt_tcp.npolls) that its turn began with, and how many bytes it may still give the kernel in it */
    uint64_t sent_bytes;        /* since the other end's kernel was known to have all */
    struct tt_frame frame;      /* whose payload is arriving */
    uint64_t left;              /* bytes of it still to come */
    uint8_t *target;            /* where they go; NULL: nowhere */
    bool dropped;               /* part of it went nowhere, so its signal must not be raised */
    struct tt_tcp_region *region;   /* that target lies in; NULL for the link region and answers */
};

/* ---- a link: all lanes to one peer ---- */

struct tt_tcp_request {
    bool busy, remote;
    uint8_t kind;               /* the frame that will answer */
    uint32_t token;
    uint8_t *local;             /* NULL: deregistered meanwhile, or not wanted */
    uint64_t bytes, cookie;
};

struct tt_tcp_remote {
    uint64_t number, cookie;
};

/* A way to connect: from a rail or, with TT_TCP_NO_RAIL, wherever the route leads; to an endpoint of the peer's address. */
struct tt_tcp_way {
    uint8_t rail, endpoint;
};
#define TT_TCP_NO_RAIL 255

/* A signal that waits for what lies before it: at the place of its message in the window, between the landed prefix and the newest that may have
 * been sent. */
struct tt_tcp_parked {
    uint32_t next;              /* the one with the next higher number */
    struct tt_frame frame;
};

enum tt_tcp_state { TT_TCP_OPENING, TT_TCP_UP, TT_TCP_LOST };

struct tt_tcp_link {
    struct tt_tcp *tcp;
    uint32_t peer;
    enum tt_tcp_state state;
    tutti_status status;        /* why it was lost */
    bool tell_up, tell_lost;    /* news for poll */
    bool asked;                 /* connect was called: failing to connect is news */
    struct tt_tcp_link *next_news;
    uint32_t owed;              /* completions reserved for it in tt_tcp.dones that are not in there yet */

    void *mine;                 /* link region, conf.link_bytes */
    uint64_t theirs_bytes;
    struct tt_tcp_lane *lanes;  /* [nlanes] */
    uint32_t nlanes;            /* agreed; 0 before it is up */
    uint32_t beside;            /* a lane that goes over the same rail as the first; 0: none does */

    /* out */
    struct tt_dqplb_lanes load;         /* of its lanes: frames in their bulk queues, and all bytes that are not yet the kernel's */
    uint64_t next_number, acked;        /* everything before acked has landed there */
    uint64_t fence;                     /* everything before it lands before any later signal or get takes effect */
    bool fenced;
    struct tt_tcp_remote *remotes;      /* [TT_TCP_REMOTES] */
    uint32_t remote_head, remote_tail;
    struct tt_tcp_request requests[TT_TCP_REQUESTS];
    uint32_t next_token;
    uint8_t *inline_ring;               /* [TT_TCP_INLINE_BYTES] */
    bool borrows;                       /* frames in its inline queue have data that is the caller's */
    uint64_t inline_head, inline_tail;

    /* in */
    struct tt_dqplb_receiver receiver;  /* everything before `expected` has landed */
    uint64_t came[2 * TT_DQPLB_WORDS(TT_TCP_WINDOW)];   /* the receiver's */
    uint64_t ack_sent, ack_want;
    bool ack_queued;
    struct tt_tcp_parked *window;       /* [TT_TCP_WINDOW]; NULL with one lane */
    uint32_t parked;                    /* the one with the lowest number, or TT_TCP_NOBODY */
    struct tt_frame *held_gets;         /* [TT_TCP_REQUESTS] ring of gets that wait for puts before a fence; NULL with one lane */
    uint32_t held_head, held_tail;

    /* while opening */
    struct tt_tcp_address address;
    struct tt_tcp_way order[1 + TT_TCP_ENDPOINTS];  /* candidates, best first */
    uint8_t ncandidates, candidate;
    uint32_t failures, patience;
    uint64_t starved_ns;                /* since when no descriptor has been free to connect with; 0: there is one */
    bool refused;               /* it was said that TLS does not come about */
    uint64_t nonce;
    uint32_t offer;             /* how many lanes this end can have, as it says in the handshake; 0: not said yet */
    uint32_t promised;          /* further lanes that are agreed, or at most, and not there yet */
};
#define TT_TCP_NOBODY UINT32_MAX

/* ---- the wire ---- */

struct tt_tcp_done {
    uint8_t kind;
    uint32_t peer;
    uint64_t cookie;
    tutti_status status;
};

struct tt_tcp_greeting;

struct tt_tcp {
    struct tt_wire wire;
    struct tt_wire_conf conf;
    enum tt_tcp_watched listener, timer;  /* what epoll entries point at */
    int epoll_fd, timer_fd;
    struct tt_acceptor acceptor;
    uint16_t port;
    struct tt_outside outside;          /* all 0: there is none */
    int listen_family;
    uint64_t host;
    struct tt_lane_limits limits;
    bool settled;                       /* the layout is known: the next three hold, and conf.lanes is final */
    bool alone;                         /* on its host, which has several rails: lanes go over all of them */
    uint8_t rail;                       /* ours, or TT_TCP_NO_RAIL */
    bool lanes_free;                    /* nobody said how many */
    struct tt_ifaddr ifaddrs[64];
    size_t nifaddrs;

    struct tt_sparse links;             /* struct tt_tcp_link, by rank */
    uint32_t noffers;                   /* of them those that have made an offer */
    uint32_t promised;                  /* of all links */
    struct tt_tcp_lane **active;        /* [nactive] lanes that are up */
    uint32_t nactive, active_depth;
    uint32_t nblocked, nmore;           /* of them */
    uint32_t nfar_blocked;              /* of those that are blocked */
    struct tt_tcp_lane *dirty;
    struct tt_tcp_link *news, **news_end;

    struct tt_tcp_greeting *greetings;  /* connections that are not lanes yet */
    uint32_t nstrangers;                /* of them those that have not shown the secret */
    uint32_t nopening;                  /* of them our own */
    uint64_t npolls;
    uint32_t tick;
    uint32_t polls;                     /* since somebody wanted to sleep, while epoll watches lanes (not wire.unheard) */
    uint64_t silence_ns;                /* when lanes are next asked whether their peer is silent */
    bool armed;
    bool starved;                       /* it was said that no descriptor is left to connect with */

    struct tt_tcp_done *dones;          /* [ndones], a power of two, which grows: what links may owe is bounded by link, so that none takes others' room */
    uint32_t ndones, done_head, done_tail;
    uint32_t reserved;                  /* entries that are in dones, or will be */

    struct tt_tcp_slot *slots;          /* [nslots]; the first is never used: 0 names the link region */
    uint32_t nslots, free_slot;
    uint8_t *trash;                     /* [TT_TCP_TRASH_BYTES] */
};

static inline struct tt_tcp *tt_tcp_of(struct tt_wire *w)
{
    return (struct tt_tcp *)w;
}

/* Bytes that are in the lane's queues and not yet the kernel's. */
static inline uint64_t tt_tcp_queued(const struct tt_tcp_lane *lane)
{
    return lane->link->load.lane[lane->number].bytes;
}

/* How many messages of a link may be under way that are not acknowledged. */
static inline uint32_t tt_tcp_ahead(const struct tt_tcp_link *link)
{
    return link->nlanes > 1 ? TT_TCP_WINDOW : TT_TCP_AHEAD;
}

/* tcp.c */
/* Room for n more completions. False: there is no memory. */
bool tt_tcp_dones_reserve(struct tt_tcp *t, uint32_t n);
/* Puts a completion where poll finds it. Room was reserved in link->owed when the descriptor was taken. */
void tt_tcp_tell(struct tt_tcp_link *link, uint8_t kind, uint64_t cookie, tutti_status status);

/* Whether epoll shall tell of what lanes bring; where it does not (wire.unheard), all of them are read at each poll. */
void tt_tcp_lanes_watch(struct tt_tcp *t, bool on);

/* tcp_link.c */
/* What epoll shall tell of a lane. */
void tt_tcp_lane_watch(struct tt_tcp_lane *lane, bool in, bool out);
/* A link that is opening, entered in the wire's table. NULL: no memory. */
struct tt_tcp_link *tt_tcp_link_create(struct tt_tcp *t, uint32_t peer);
/* How many bytes may be queued on one of its lanes: by how far the peer is, as far as the layout is known; else as within a rack. */
uint64_t tt_tcp_lane_bytes(const struct tt_tcp_link *link);
/* Gives it what it needs once it is up. False: no memory, lose it. */
bool tt_tcp_link_furnish(struct tt_tcp_link *link, uint32_t nlanes);
/* The connection becomes the lane, which then owns it. False: nothing changed. */
bool tt_tcp_lane_open(struct tt_tcp_lane *lane, int fd, struct tt_stream *stream);
void tt_tcp_link_up(struct tt_tcp_link *link);
/* A lane has ended after the peer said goodbye. The link ends, with status OK, when its last lane has. */
void tt_tcp_lane_ended(struct tt_tcp_lane *lane);
/* Ends the link for good: closes its lanes, forgets its descriptors, tells poll. Its memory stays until the wire closes, so
 * callers further up may still look at it. Nothing if it was lost before. */
void tt_tcp_link_lose(struct tt_tcp_link *link, tutti_status status, const char *why);
/* Says goodbye on all lanes, waits (at most a second) until the peers' kernels have it all, and closes. */
void tt_tcp_links_close(struct tt_tcp *t);
void tt_tcp_memory(const struct tt_wire *w, tutti_memory *m);
/* Sets a lane's socket up. Returns whether both ends are this machine's. */
bool tt_tcp_tune(const struct tt_tcp *t, int fd, bool one_of_many);
/* Loses links whose peer's host has been silent for too long. */
void tt_tcp_links_expire(struct tt_tcp *t, uint64_t now_ns);
/* Makes epoll watch fd for events; what: one of the structs that begin with an enum tt_tcp_watched. */
bool tt_tcp_watch(struct tt_tcp *t, int fd, uint32_t events, void *what);

/* tcp_rail.c */
/* Takes from the layout, once it is filled, which rail is ours and how many lanes there shall be. Before the first connect and accept. */
void tt_tcp_settle(struct tt_tcp *t);
/* Adds the addresses of our rails to an empty address. */
void tt_tcp_rails_address(const struct tt_tcp *t, struct tt_tcp_address *a);
/* The rail that our lane to a peer shall go over; TT_TCP_NO_RAIL: there is no choice. */
uint8_t tt_tcp_rail_of(const struct tt_tcp *t, uint32_t peer, uint32_t lane);
/* The peer's endpoint that a lane over this rail goes to; -1: none suits. */
int tt_tcp_rail_endpoint(const struct tt_tcp *t, uint32_t peer, const struct tt_tcp_address *a, uint8_t rail);
/* Makes a socket start from the rail. False: it cannot. */
bool tt_tcp_rail_bind(const struct tt_tcp *t, int fd, uint8_t rail);

/* tcp_offer.c */
/* How many lanes we offer a peer: fewer than conf.lanes where few descriptors are free. The same for a link, whenever it is called. */
uint32_t tt_tcp_offer(struct tt_tcp_link *link);
/* So many lanes of the link are still to come. */
void tt_tcp_promise(struct tt_tcp_link *link, uint32_t lanes);
/* Whether another lane leaves the reserve of descriptors. */
bool tt_tcp_may_have_lane(void);

/* tcp_greet.c */
tutti_status tt_tcp_listen(struct tt_tcp *t);
void tt_tcp_accept(struct tt_tcp *t);
tutti_status tt_tcp_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address);
void tt_tcp_greeting_step(struct tt_tcp_greeting *g);       /* its connection became readable or writable */
void tt_tcp_greetings_expire(struct tt_tcp *t, uint64_t now_ns);    /* acts on deadlines, frees what is over */
uint64_t tt_tcp_greetings_deadline(const struct tt_tcp *t);
void tt_tcp_greetings_end(struct tt_tcp_link *link);
void tt_tcp_greetings_close(struct tt_tcp *t);

/* tcp_turn.c */
/* Gives the kernel what it had better have of the lane's queues before the next poll. May lose the link. */
void tt_tcp_lane_turn(struct tt_tcp_lane *lane);
/* So many bytes have come over the lane at once. */
void tt_tcp_lane_takes(struct tt_tcp_lane *lane, uint64_t bytes);

/* tcp_send.c */
int tt_tcp_post(struct tt_wire *w, const struct tt_desc *desc, int n);
/* Notes a frame of the lane, by its DQPLB word, for who wants a trace. */
void tt_tcp_trace(const struct tt_tcp_lane *lane, enum tt_trace_kind kind, uint32_t word, uint64_t bytes);
/* Gives the kernel what it takes of the lane's queues, `most` bytes at most; returns how many of these are left. May lose the link. */
uint64_t tt_tcp_lane_flush(struct tt_tcp_lane *lane, uint64_t most);
/* The lane's turn comes before post returns, or once what follows is posted, or in the next poll; a blocked one's when it is not any more. */
void tt_tcp_mark(struct tt_tcp_lane *lane);
/* Queues an answer, whose data[bytes] lies in a region. False: the other end asks more than it may. */
bool tt_tcp_reply(struct tt_tcp_link *link, const struct tt_frame *f, const void *data, uint64_t bytes);
/* A turn of every lane that is marked. */
void tt_tcp_flush(struct tt_tcp *t);
/* Queues an acknowledgement of the prefix, and says so, if one is due and none is queued. */
bool tt_tcp_acknowledge(struct tt_tcp_link *link);
/* Queues one that says nothing new, and `more` of them behind it, which are put into frames: memory of malloc's, that is freed when they have left. */
void tt_tcp_acknowledge_again(struct tt_tcp_link *link, uint8_t *frames, uint32_t more);
/* The other end has everything before the number with these 24 bits. False if it cannot. */
bool tt_tcp_acknowledged(struct tt_tcp_link *link, uint32_t prefix);
/* mem[bytes] is about to go away: what is queued from there is copied (if it has begun) or made void. */
void tt_tcp_sources_gone(struct tt_tcp *t, const void *mem, size_t bytes);

/* tcp_length.c */
/* Begins the connection with a long segment, if its lengths matter. Once it is there. */
void tt_tcp_length_open(struct tt_tcp_lane *lane);
/* Whether a segment of so many bytes should have another length, and may. */
bool tt_tcp_length_is_again(const struct tt_tcp_lane *lane, uint64_t bytes);
/* The kernel has taken so many bytes at once. */
void tt_tcp_length_sent(struct tt_tcp_lane *lane, uint64_t bytes);

/* tcp_far.c */
/* The shortest round trip of its first lane so far; 0: not known. */
uint64_t tt_tcp_round_trip_ns(const struct tt_tcp_link *link);
/* Finds out whether a lane's peer is far, and if so has the kernel send without bursts. Once its connection is there. */
void tt_tcp_far_open(struct tt_tcp_lane *lane);
/* A far lane is blocked after a try. */
void tt_tcp_far_blocked(struct tt_tcp_lane *lane);
/* Tries again those whose time has come. May lose links. */
void tt_tcp_far_try(struct tt_tcp *t, uint64_t now_ns);
/* When the next is to be tried; TT_NEVER: none is blocked. */
uint64_t tt_tcp_far_deadline(const struct tt_tcp *t);

/* tcp_recv.c */
/* Reads and applies what has come, up to a fair share. May lose the link. */
void tt_tcp_lane_receive(struct tt_tcp_lane *lane);
/* Makes room in the lane's buffer. */
void tt_tcp_forget_digested(struct tt_tcp_lane *lane);
/* The memory is about to go away: what is arriving there goes nowhere from now on. */
void tt_tcp_targets_gone(struct tt_tcp *t, const struct tt_tcp_region *r);

/* tcp_peek.c */
/* As recv, between frames, to behind what the buffer holds; `have` does not count it yet. *room: what would have fitted. */
ssize_t tt_tcp_read_between(struct tt_tcp_lane *lane, size_t *room);
/* Takes what was peeked at out of the socket. Before any other read, and before epoll is asked to wait. False: the connection has failed. */
bool tt_tcp_peeked_take(struct tt_tcp_lane *lane);

/* tcp_secure.c */
/* As recv and sendmsg that do not wait, with errno: through the stream, or to fd where that is NULL. What sending took may stay in the stream:
 * tt_stream_flush. apart: the kernel does not join it with what follows in one packet. */
ssize_t tt_tcp_hear(int fd, struct tt_stream *stream, void *data, size_t bytes);
ssize_t tt_tcp_say(int fd, struct tt_stream *stream, const struct iovec *parts, int nparts, bool apart);
/* Reads once, into the payload's place or else the buffer. *room: what came, as only the next read tells whether there is more. */
ssize_t tt_tcp_secure_read(struct tt_tcp_lane *lane, size_t *room);
/* Whether the stream still holds bytes that the lane has given it. */
bool tt_tcp_secure_holds(struct tt_tcp_lane *lane);
void tt_tcp_secure_more(struct tt_tcp_lane *lane, bool more);
/* Reads lanes whose stream may hold something. */
void tt_tcp_secure_receive(struct tt_tcp *t);

/* tcp_region.c */
tutti_status tt_tcp_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
void tt_tcp_dereg(struct tt_region *r);
/* The live region of that id and generation; NULL if there is none (any more). */
struct tt_tcp_region *tt_tcp_region_find(const struct tt_tcp *t, uint32_t id, uint32_t generation);
/* Whether some live region holds all of mem[bytes]. */
bool tt_tcp_region_covers(const struct tt_tcp *t, const void *mem, uint64_t bytes);
void tt_tcp_regions_close(struct tt_tcp *t);

#endif
