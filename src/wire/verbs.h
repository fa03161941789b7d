/* The inside of the verbs wire: what its files share.
 *
 *   verbs.c          the wire: opening, polling, sleeping, the table of operations
 *   verbs_device.c   which device, port and GID; queue pairs
 *   verbs_link.c     links: how they come to be, break and mend, and end
 *   verbs_send.c     descriptors to work requests, and their completions
 *   verbs_recv.c     immediates to signals, acknowledgements, receives
 *   verbs_region.c   registered memory
 *   verbs_frame.c    the formats (pure)
 *
 * A tcp wire is inside: it finds peers, knows who is of this job, tells queue pairs' numbers, and sees a peer's process end. All data goes
 * over queue pairs.
 *
 * A link has two lanes, each a reliable connected queue pair with a numbering of messages of its own: one for urgent messages (control), one
 * for all others (data). A message is the RDMA writes of its payload, if that is long, from where it is to where it shall be; and a write
 * with immediate of a *record* into a slot at the receiver, which says what to signal, and has the payload if that is short. The
 * receiver finds the immediate in its completion queue and applies the record. So a lane is in order, signals included.
 *
 * The immediate is laid out for many data queue pairs, among which a message's segments are dealt out; with one, only the last segment needs
 * to have one. That is to be changed in two places: lane_pump, which would choose among queue pairs, and the receiver's count
 * of what has been applied (tt_verbs_lane.applied).
 *
 * Credit: the sender has at most TT_VERBS_SLOTS records at the receiver that are not applied, and the shared receive queue always holds a
 * receive for each and for each acknowledgement. So no write ever finds the receiver not ready. */
#ifndef TT_WIRE_VERBS_H
#define TT_WIRE_VERBS_H

#include <infiniband/verbs.h>

#include "wire/registry.h"
#include "wire/verbs_frame.h"
#include "wire/wire.h"

#define TT_VERBS_SLOTS 128          /* records per lane that the receiver has not applied */
#define TT_VERBS_DEPTH 256          /* messages per lane, queued or under way */
#define TT_VERBS_RESERVED 64        /* of them for inline ones alone */
#define TT_VERBS_WRS 256            /* work requests per queue pair */
#define TT_VERBS_WRS_RESERVED 8     /* of them for acknowledgements alone */
#define TT_VERBS_BOUNCE_BYTES (128u << 10)  /* per lane, of payloads that are copied and longer than a slot */
#define TT_VERBS_SEGMENT_BYTES (256u << 10) /* of one RDMA write: a device that ends a registration waits for writes that have begun */
#define TT_VERBS_LINK_RECEIVES (2 * TT_VERBS_LANES * TT_VERBS_SLOTS)    /* records, and as many acknowledgements */
#define TT_VERBS_GROUP_LINKS 16     /* that share queues, at most */
#define TT_VERBS_BUCKETS 256

struct tt_verbs;
struct tt_verbs_link;

enum { TT_VERBS_CONTROL, TT_VERBS_DATA };

/* ---- memory ---- */

struct tt_verbs_region {
    struct tt_region public;
    struct ibv_mr *mr;              /* NULL: of no bytes */
    struct tt_reg *pin;             /* whose mr is; NULL: the region has one of its own */
    uint32_t id, generation;
    bool owned;                     /* the wire mapped the memory */
    bool exposed;                   /* peers may have its key */
};

/* ---- lanes ---- */

struct tt_verbs_out {
    const uint8_t *data;            /* what goes by RDMA write */
    uint64_t bytes, posted;         /* of it; of them to the queue pair */
    uint64_t target;                /* address there */
    uint32_t lkey, rkey;
    uint64_t cookie;
    uint64_t bounce_end;            /* the bounce ring is free up to here when this has been sent; 0: not in it */
    uint32_t slot_bytes;            /* of the record and the payload behind it, in the lane's staging slot */
    bool report_local, report_remote;
    bool watched;                   /* its sending is to be noticed soon */
};

/* What a work request was for. */
struct tt_verbs_wr {
    uint64_t message;
    uint32_t bytes;                 /* of payload */
    bool record;                    /* the message's last */
};
#define TT_VERBS_NO_MESSAGE UINT64_MAX

struct tt_verbs_lane {
    struct tt_verbs_link *link;
    struct ibv_qp *qp;              /* NULL: none */
    uint32_t qpn, psn, index;
    uint32_t inline_bytes;          /* that a work request can carry */
    struct tt_verbs_lane *next;     /* in the same bucket */
    struct tt_verbs_lane *next_noted;
    bool noted;                     /* on tt_verbs.noted: it may have something to report, or may go on */

    /* out: numbers of messages, each behind the one before it: retired <= told <= done <= sent <= tail */
    struct tt_verbs_out *out;       /* [TT_VERBS_DEPTH] */
    uint64_t retired, told, done, sent, tail;
    uint64_t acked;                 /* the receiver has applied all before it */
    uint8_t *staging;               /* [TT_VERBS_DEPTH][TT_VERBS_SLOT_BYTES] */
    uint8_t *bounce;                /* [TT_VERBS_BOUNCE_BYTES] */
    uint64_t bounce_head, bounce_tail;
    struct tt_verbs_wr *wrs;        /* [TT_VERBS_WRS] */
    uint64_t wr_head, wr_tail;
    uint64_t outstanding_bytes;
    uint32_t unwatched;             /* work requests since the last that reports its completion */
    uint64_t culprit;               /* the message that broke the queue pair; TT_VERBS_NO_MESSAGE: none did */
    uint64_t peer_ring;             /* slots for our records */

    /* in */
    uint8_t *ring;                  /* [TT_VERBS_SLOTS][TT_VERBS_SLOT_BYTES] */
    uint64_t applied, applied_told;
    bool ack_due;
};

/* ---- links ---- */

enum tt_verbs_state {
    TT_VERBS_GREETING,              /* queue pairs are made, not yet usable at both ends */
    TT_VERBS_UP,
    TT_VERBS_LOST
};

struct tt_verbs_link {
    struct tt_verbs *verbs;
    struct tt_verbs_group *group;   /* NULL: none any more */
    uint32_t peer;
    enum tt_verbs_state state;
    bool was_up;
    bool connected;                 /* our queue pairs can receive from this incarnation's */
    bool owes_hello, owes_ready, owes_refusal;  /* the tcp wire had no room for it */
    bool broken;                    /* to be broken in the next poll */
    uint32_t incarnation;
    uint32_t setbacks;              /* times that the peer's device answered nothing, since anything was sent */
    tutti_status status;
    const char *why;
    bool tell_up, tell_lost;
    struct tt_verbs_link *next_news;

    struct tt_link tcp;             /* of the inner wire */
    void *mine;                     /* link region, then the lanes' rings */
    uint8_t *local;                 /* staging and bounce of the lanes */
    struct ibv_mr *mine_mr, *local_mr;
    uint64_t theirs_bytes;
    uint32_t theirs_rkey;
    uint64_t theirs_address;
    struct tt_verbs_lane lanes[TT_VERBS_LANES];
};

/* Links that share a receive queue and completion queues. */
struct tt_verbs_group {
    struct tt_verbs_group *next;
    struct ibv_srq *srq;
    struct ibv_cq *send_cq, *recv_cq;
    uint32_t nlinks;
    uint32_t wanted, posted;        /* receives */
};

/* ---- the wire ---- */

struct tt_verbs_device {
    struct ibv_context *context;
    char name[64], interface[16];   /* interface: of its network, "" if it has none */
    uint8_t port, gid_index;
    uint8_t mtu;                    /* enum ibv_mtu */
    bool infiniband;
    uint16_t lid;
    union ibv_gid gid;
    struct ibv_device_attr attr;
};

struct tt_verbs {
    struct tt_wire wire;
    struct tt_wire_conf conf;
    struct tt_wire *tcp;            /* the inner one */
    struct tt_lane_limits limits;
    struct tt_verbs_device device;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct tt_verbs_group *groups;
    uint32_t group_links;           /* so many in one, by what the device can */
    int epoll_fd;
    bool armed, tcp_watched;
    uint32_t tick;
    uint32_t ngreeting;             /* links in that state */

    struct tt_verbs_link **links;   /* [nranks]; NULL: none */
    struct tt_verbs_link **active;  /* [nactive] those that are not lost */
    uint32_t nactive, active_depth;
    struct tt_verbs_link *news, **news_end;
    struct tt_verbs_lane *noted, **noted_end;
    struct tt_verbs_lane *lanes[TT_VERBS_BUCKETS];  /* by number of queue pair */
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

static inline struct tt_verbs_out *tt_verbs_out_of(struct tt_verbs_lane *lane, uint64_t message)
{
    return &lane->out[message % TT_VERBS_DEPTH];
}

static inline uint8_t *tt_verbs_staging(struct tt_verbs_lane *lane, uint64_t message)
{
    return lane->staging + message % TT_VERBS_DEPTH * TT_VERBS_SLOT_BYTES;
}

/* verbs.c */
/* The lane has news: a later part of poll looks at it. */
void tt_verbs_note(struct tt_verbs_lane *lane);

/* verbs_device.c */
/* Opens the best port of all devices that the rule (as of interfaces; NULL: all) allows. UNSUPPORTED says why there is none. */
tutti_status tt_verbs_device_open(struct tt_verbs_device *out, const char *rule);
void tt_verbs_device_close(struct tt_verbs_device *d);
/* Gives the link a seat in a group. */
tutti_status tt_verbs_group_join(struct tt_verbs_link *link);
void tt_verbs_group_leave(struct tt_verbs_link *link);
void tt_verbs_groups_close(struct tt_verbs *v);
/* A queue pair for the lane, which cannot send or receive yet. */
tutti_status tt_verbs_qp_create(struct tt_verbs_lane *lane);
/* Joins it to the other end's. */
tutti_status tt_verbs_qp_connect(struct tt_verbs_lane *lane, const struct tt_verbs_hello *theirs);
/* It touches no memory any more, and what was posted comes back. */
void tt_verbs_qp_stop(struct tt_verbs_lane *lane);
/* What came for it until then is collected. */
void tt_verbs_qp_destroy(struct tt_verbs_lane *lane);

/* verbs_link.c */
tutti_status tt_verbs_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address);
/* Takes what the inner wire has, and what peers have told through it. */
void tt_verbs_links_step(struct tt_verbs *v);
/* Ends the link's queue pairs, whose state is unknown after an error, and begins new ones. What the peer has not applied is sent again; a
 * message that broke them is void. */
void tt_verbs_link_break(struct tt_verbs_link *link);
/* Ends the link for good, and tells poll. Its link region stays until the wire closes. why: in static storage. */
void tt_verbs_link_lose(struct tt_verbs_link *link, tutti_status status, const char *why);
/* Waits (at most a second) until what was posted has landed. */
void tt_verbs_links_linger(struct tt_verbs *v);
void tt_verbs_links_close(struct tt_verbs *v);

/* verbs_send.c */
int tt_verbs_post(struct tt_wire *w, const struct tt_desc *desc, int n);
/* Gives the queue pair what it takes of the lane's messages, and an acknowledgement that is due. */
void tt_verbs_lane_pump(struct tt_verbs_lane *lane);
/* Has the completion of all that was posted show in the completion queue. */
void tt_verbs_lane_watch(struct tt_verbs_lane *lane);
/* A work request has completed. */
void tt_verbs_sent(struct tt_verbs_lane *lane, const struct ibv_wc *wc);
/* All before `acked` has been applied there. False if that cannot be. */
bool tt_verbs_acked(struct tt_verbs_lane *lane, uint64_t acked);
/* After new queue pairs: what the peer has not applied is sent again. False if the number cannot be. */
bool tt_verbs_lane_again(struct tt_verbs_lane *lane, uint64_t applied);
/* A region whose key that is, or was, is not registered any more: unfinished messages of bytes that no other region has under that key go on with another
 * key for them, or become void. True if a queue pair may be reading by the key. */
bool tt_verbs_source_gone(struct tt_verbs_lane *lane, uint32_t lkey);
void tt_verbs_message_void(struct tt_verbs_lane *lane, uint64_t message);

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
/* Registers memory with the device for as long as it is not unpinned, and ends that. NULL and a logged error: it refuses. */
struct ibv_mr *tt_verbs_pin(struct tt_verbs *v, void *mem, size_t bytes, int access);
void tt_verbs_unpin(struct ibv_mr *mr);
/* The live region of that id and generation; NULL if there is none (any more). */
struct tt_verbs_region *tt_verbs_region_find(const struct tt_verbs *v, uint32_t id, uint32_t generation);
/* The device's key for mem[bytes]. False if it lies in no registered region and no link region. */
bool tt_verbs_lkey(struct tt_verbs *v, const void *mem, uint64_t bytes, uint32_t *lkey);
/* Whether that key is the device's for a registered region that has mem[bytes]. */
bool tt_verbs_has_lkey(const struct tt_verbs *v, const void *mem, uint64_t bytes, uint32_t lkey);
void tt_verbs_regions_close(struct tt_verbs *v);

#endif
