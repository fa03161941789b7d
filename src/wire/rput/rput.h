/* Links of network transports ("reliable put"): what verbs and ofi share, below their queues.
 *
 *  rput.c          the wire: what open, close, address and arm have in common
 *  rput_link.c     links: set-up, steps, loss, teardown, statistics
 *  rput_session.c  hellos, incarnations and readiness: how both ends replace an object
 *  rput_queue.c    messages of a stream at their sender (rput_queue.h)
 *  rput_news.c     events of links for poll
 *  rput_region.c   registered memory; how arrivals find it
 *  rput_frame.c    formats of records and keys (pure)
 *
 * An inner tcp wire finds peers, authenticates them by the job's secret, and detects the end of
 * their processes. Its link region is a *mailbox*, through which the two ends of a link exchange
 * hellos. All data uses the transport's own queues. A transport begins its structs with those
 * declared here, and fills a struct tt_rput_ops.
 *
 * All code runs under the progress lock. */
#ifndef TT_WIRE_RPUT_RPUT_H
#define TT_WIRE_RPUT_RPUT_H

#include "base/sparse.h"
#include "wire/rput/rput_frame.h"
#include "wire/rput/rput_news.h"
#include "wire/rput/rput_region.h"
#include "wire/wire.h"

#define TT_RPUT_MAILBOX_BYTES 4096      /* link region of the inner tcp wire */
#define TT_RPUT_HELLO_MAX 2048

struct tt_rput;
struct tt_rput_link;

/* An object that both ends of a link replace together, e.g. a queue pair. Its n-th *incarnation* at
 * one end is connected to the n-th at the other end. Each end announces its incarnation with a
 * *hello*. With *ready* it announces that it can receive from the peer's incarnation. An end that
 * is ready and has received the peer's ready may send. */
struct tt_rput_session {
    uint32_t index;                 /* in the mailbox */
    uint32_t incarnation;           /* from 1; equal at both ends when it works */
    bool hello_received;            /* the peer's hello of this incarnation was processed */
    bool hello_pending, ready_pending;      /* to send as soon as the tcp wire has space */
};

enum tt_rput_state {
    TT_RPUT_HANDSHAKE,              /* not usable at both ends yet */
    TT_RPUT_UP,
    TT_RPUT_LOST
};

struct tt_rput_link {
    struct tt_rput *rput;
    uint32_t peer;
    enum tt_rput_state state;
    bool was_up;
    tutti_status status;            /* cause of the loss; set earlier by a transport that loses the
                                       link in the next poll */
    struct tt_rput_news news;
    struct tt_link tcp;             /* link of the inner wire */
    void *mine;                     /* [rput->mine_bytes], first the link region */
    uint8_t *local;                 /* [rput->local_bytes], zeroed */
};

/* Functions of a transport. Only `bytes` is called for a lost link. */
struct tt_rput_ops {
    size_t link_bytes;              /* size of the transport's link struct, which is allocated
                                       zeroed */
    size_t hello_bytes;             /* maximum bytes of a hello */
    uint32_t nsessions;             /* of a link */
    const char *purpose;            /* "verbs: links", for memory statistics */
    /* The tcp wire has connected the peer, and mine and local are mapped: allocates the rest, and
     * sends the first hello. On failure `end` cleans up. */
    tutti_status (*begin)(struct tt_rput_link *link);
    /* Frees everything but mine and local. Afterwards nothing accesses these two. Also called if
     * `begin` was not called. */
    void (*end)(struct tt_rput_link *link);
    /* Processes hellos and readiness of the peer. May lose the link. */
    void (*step)(struct tt_rput_link *link);
    /* Applies everything that has arrived, as the peer has ended. */
    void (*drain)(struct tt_rput_link *link);
    /* Writes the hello of a session's incarnation to out[hello_bytes]; returns its length. */
    size_t (*hello)(struct tt_rput_link *link, const struct tt_rput_session *s, uint8_t *out);
    /* While closing: sends posted messages; returns whether some have not arrived yet. first: the
     * first call for this link. */
    bool (*linger)(struct tt_rput_link *link, bool first);
    uint64_t (*bytes)(const struct tt_rput_link *link);     /* memory, excluding mine and local */
    /* Counters of the link's lanes, as tt_wire_ops.lanes. */
    void (*lanes)(struct tt_rput_link *link, bool next, tt_wire_lane_fn *add, void *arg);
};

struct tt_rput {
    struct tt_wire wire;
    struct tt_wire_conf conf;
    const struct tt_rput_ops *ops;
    struct tt_wire *tcp;            /* the inner wire */
    struct tt_lane_limits limits;
    struct tt_rput_regions regions;
    size_t mine_bytes, local_bytes; /* of each link; set by the transport after open */
    int epoll_fd, timer_fd;
    bool armed, tcp_watched;
    bool mending;                   /* a link is coming up: call tt_rput_links_step often */
    uint32_t tick;

    struct tt_sparse links;         /* the transport's struct of a link, by rank */
    struct tt_rput_link **active;   /* [nactive], links that are not lost */
    uint32_t nactive, active_depth;
    struct tt_rput_news_list news;
};

static inline struct tt_rput *tt_rput_of(struct tt_wire *w)
{
    return (struct tt_rput *)w;
}

/* ---- rput.c ---- */
/* Returns UNSUPPORTED, with the reason, if the configuration needs encryption or forwarded ports,
 * which `what` ("RDMA devices") cannot provide. */
tutti_status tt_rput_check(const char *name, const char *what, const struct tt_wire_conf *conf);
/* Fills the fields of a zeroed wire. */
void tt_rput_init(struct tt_rput *r, const struct tt_wire_ops *wire_ops,
                  const struct tt_rput_ops *ops, const struct tt_wire_conf *conf);
/* Opens the epoll set, its timer, and the inner tcp wire, which listens at its own port. On failure
 * the closing functions clean up. */
tutti_status tt_rput_open(struct tt_rput *r);
/* Closing, in this order: waits up to a second until posted puts have arrived, and closes the inner
 * wire; then tt_rput_links_free; then deregisters memory and closes descriptors. */
void tt_rput_close_tcp(struct tt_rput *r);
void tt_rput_close(struct tt_rput *r);
/* Returns the address of the inner wire, with as many endpoints as fit, best first. */
tutti_status tt_rput_address(const struct tt_rput *r, size_t bytes_max, struct tt_blob *out);
/* Adds a descriptor to the epoll set of a sleeper. */
bool tt_rput_watch(struct tt_rput *r, int fd);
/* The common part of arm: returns epoll_fd, or -1 if there is work. */
int tt_rput_arm(struct tt_rput *r);
/* tt_wire_ops.connect, for the address of the inner wire in a valid address. */
tutti_status tt_rput_connect(struct tt_rput *r, uint32_t peer, const struct tt_blob *tcp);
/* tt_wire_ops.reg and source. */
tutti_status tt_rput_wire_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
tutti_status tt_rput_wire_source(struct tt_wire *w, void *mem, size_t bytes,
                                 struct tt_region **out);

/* ---- rput_link.c ---- */
/* Processes events of the inner wire: begins and loses links. */
void tt_rput_tcp_step(struct tt_rput *r);
/* One step of each link. Sets `mending`. */
void tt_rput_links_step(struct tt_rput *r);
/* The link is usable at both ends; theirs: key of the peer's link region. The first time, poll
 * reports it. */
void tt_rput_link_up(struct tt_rput_link *link, const struct tt_rkey *theirs);
/* Ends the link permanently, notifies the peer unless status is OK, and reports it by poll. Its
 * link region remains until the wire closes. why: in static storage. No effect on a lost link. */
void tt_rput_link_lose(struct tt_rput_link *link, tutti_status status, const char *why);
void tt_rput_links_free(struct tt_rput *r);
/* Memory of the links and the inner tcp wire. */
void tt_rput_links_memory(const struct tt_rput *r, tutti_memory *m);
/* tt_wire_ops.lanes, without the connections of the inner tcp wire. */
void tt_rput_lanes(struct tt_wire *w, bool next, tt_wire_lane_fn *add, void *arg);

/* ---- rput_session.c ---- */
/* Starts the next incarnation, whose hello is pending. */
void tt_rput_session_next(struct tt_rput_session *s);
/* Sends the pending hello and ready, as far as there is space. */
void tt_rput_session_send(struct tt_rput_link *link, struct tt_rput_session *s);
/* Return the newest incarnation whose hello, or ready, the peer has sent; 0: none. */
uint64_t tt_rput_session_hello(const struct tt_rput_link *link, const struct tt_rput_session *s);
uint64_t tt_rput_session_ready(const struct tt_rput_link *link, const struct tt_rput_session *s);
/* Copies the peer's hello of the current incarnation, which has arrived, to out[hello_bytes]. */
void tt_rput_session_read(const struct tt_rput_link *link, const struct tt_rput_session *s,
                          uint8_t *out);
/* Notifies the peer that this end abandons the link. Returns false if there is no space. */
bool tt_rput_refuse(struct tt_rput_link *link);
/* Returns whether the peer has abandoned the link. */
bool tt_rput_is_refused(const struct tt_rput_link *link);

#endif
