/* The inside of the ofi wire: what its files share.
 *
 *   ofi.c            the wire: opening, polling, sleeping, the table of operations
 *   ofi_library.c    libfabric, loaded when it is wanted
 *   ofi_provider.c   which of its providers, and why not the others
 *   ofi_trial.c      whether it does what it says it does
 *   ofi_end.c        a link's endpoints, what is given to them, and completions
 *   ofi_link.c       links: how they come to be, break and mend, and end
 *   ofi_send.c       descriptors to records and RMA writes
 *   ofi_recv.c       records to memory, signals and answers
 *   ofi_region.c     registered memory
 *   ofi_frame.c      the formats (pure)
 *
 * A tcp wire is inside: it finds peers, knows who is of this job, tells endpoints' names, and sees a peer's process end. All data goes over
 * libfabric.
 *
 * A link has two lanes, each a reliable-datagram (RDM) endpoint that talks with one other and has a numbering of messages of its own: one for
 * urgent messages (control), one for all others (data). A message ends with a *record*, which says what to signal, and has the payload if that
 * is short; a longer one is written to its place before, by RMA. The receiver's poll takes records in order and raises the signals.
 *
 * The data lane may have more endpoints, over which writes are dealt out (dqplb_lanes.h). Records all go over the first, and endpoints keep no order
 * among each other: a record waits until the writes that went over others are reported as delivered (FI_DELIVERY_COMPLETE).
 *
 * libfabric cannot call back what it was given: a provider may read a source, or write to a target, as long as the endpoint is open and
 * an operation is not over. So
 *  - an endpoint is one peer's. Memory that is taken back while an endpoint may touch it closes the link's endpoints, at this end first; both ends then make new
 *    ones, tell each other how many messages they have applied, and send the rest again (the link *mends*);
 *  - memory of the caller's is written only after asking: the receiver's answer says where, and from then on until the message's record has come it knows that
 *    the memory may be written. Link regions live as long as the link, and are written without asking. A message asks while those before it are on their way.
 * Nothing depends on what a provider does with a key that is gone. */
#ifndef TT_WIRE_OFI_H
#define TT_WIRE_OFI_H

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/sparse.h"
#include "trace/trace.h"
#include "wire/ofi_frame.h"
#include "wire/registry.h"
#include "wire/wire.h"

#define TT_OFI_SLOTS 64             /* messages per lane that the receiver has not applied */
#define TT_OFI_DEPTH 128            /* messages per lane, queued or under way */
#define TT_OFI_RESERVED 48          /* of them for inline ones alone */
#define TT_OFI_RECEIVES 160         /* posted per endpoint */
#define TT_OFI_SENDS 128            /* operations under way per endpoint */
#define TT_OFI_SENDS_RESERVED 8     /* of them for acknowledgements and answers alone */
#define TT_OFI_NOTES 16             /* acknowledgements and answers under way */
#define TT_OFI_CHUNK_BYTES TT_INLINE_BYTES
#define TT_OFI_CHUNKS 32            /* per lane, of payloads that are copied and longer than a slot; where the provider has copies only, half of them for writes */
#define TT_OFI_SEGMENT_BYTES (256u << 10)   /* of one RMA write */

#define TT_OFI_TCP_LINK_BYTES 4096          /* of the wire that greets peers */
#define TT_OFI_MEET_BYTES (TT_OFI_SLOT_BYTES + TT_OFI_RECORD_BYTES)     /* of a further endpoint: what it receives, once, and what it sends */

struct tt_ofi;
struct tt_ofi_link;
struct tt_ofi_lane;

enum { TT_OFI_CONTROL, TT_OFI_DATA };

/* ---- memory ---- */

/* A registration for one endpoint, where the provider wants such. */
struct tt_ofi_grant {
    struct tt_ofi_grant *next;
    const struct tt_ofi_lane *lane;
    struct fid_mr *mr;
};

struct tt_ofi_region {
    struct tt_region public;
    struct tt_reg *pin;             /* the caller's memory, in the registry; NULL: the wire's own, of no bytes, or registered per endpoint */
    struct fid_mr *mr;              /* the registry's, or the region's own; NULL: of no bytes, or registered per endpoint */
    struct tt_ofi_grant *grants;
    uint32_t id, generation;
    bool owned;                     /* the wire mapped the memory */
    bool exposed;                   /* peers may get its key */
    bool device;                    /* memory of a device: no processor may touch it */
};

/* ---- lanes ---- */

/* What an operation was for. */
struct tt_ofi_op {
    struct fi_context2 context;     /* the provider's, while it is under way */
    struct tt_ofi_lane *lane;
    uint8_t kind;                   /* enum tt_ofi_op_kind */
    uint8_t end;                    /* WRITE, MEET: over which endpoint of the lane */
    uint8_t buffer_index;           /* WRITE: 1 + the chunk that it reads, which is free then; 0: none. ASK, NOTE: which buffer */
    uint16_t next_free;
    uint32_t bytes;                 /* WRITE */
    bool more;                      /* another operation follows at once over the same endpoint */
    uint64_t message;               /* WRITE, RECORD */
    uint32_t part;                  /* of the message, for who wants a trace: 0, its record; from 1 on, its writes */
    uint8_t *buffer;                /* RECEIVE */
};
enum tt_ofi_op_kind {
    TT_OFI_OP_RECEIVE,
    TT_OFI_OP_MET,                  /* a receive of a further endpoint */
    TT_OFI_OP_WRITE,
    TT_OFI_OP_RECORD,
    TT_OFI_OP_ASK,
    TT_OFI_OP_NOTE,
    TT_OFI_OP_MEET
};
#define TT_OFI_NO_OP UINT16_MAX

struct tt_ofi_out {
    const uint8_t *data;            /* what goes by RMA; NULL: nothing does */
    uint64_t bytes, posted;         /* of it; of them to the endpoint */
    struct tt_ofi_region *source;   /* where data lies; NULL: in the link's own memory */
    uint64_t target, key;           /* by which to write: of the answer; else target: offset into the link region */
    uint64_t cookie;
    uint32_t slot_bytes;            /* of the record and the payload behind it, in the lane's staging slot */
    uint16_t writes, records;       /* operations under way */
    uint16_t away;                  /* of the writes, those over further endpoints */
    uint8_t lane;                   /* as tt_desc has it */
    bool few_lanes;                 /* it is a bound */
    uint8_t chunk;                  /* 1 + the one that it holds; 0: none */
    bool report_local, report_remote;
    bool asks, answered;            /* it needs an answer; has one */
    bool orphan;                    /* its source was taken back after its record had gone: it cannot be sent again */
};

/* Of a message that comes: memory that may be written until its record has come. */
struct tt_ofi_asked {
    enum { TT_OFI_NOT_ASKED, TT_OFI_UNANSWERED, TT_OFI_ALLOWED, TT_OFI_DENIED } state;
    uint32_t number, region, generation;
    uint64_t offset, bytes;
};

struct tt_ofi_end {
    struct fid_ep *ep;              /* NULL: none */
    fi_addr_t to;
    struct tt_ofi_op met;           /* of a further one: the receive of what shows that both ends can talk */
    bool unposted;                  /* which the endpoint did not take yet */
    uint8_t *meeting;               /* [TT_OFI_MEET_BYTES] */
    uint64_t writes, bytes;         /* carried, in all */
};

struct tt_ofi_lane {
    struct tt_ofi_link *link;
    uint32_t index;
    struct tt_ofi_end *end;         /* [nends] the first has all but writes */
    uint32_t nends;                 /* that there may be; those after `nopen` could not be had */
    uint32_t nopen, nboth;          /* at this end; at both, which are used */
    struct tt_dqplb_lanes load;     /* of the endpoints: those that have not met are down */
    struct fid_mr *mine_mr;         /* the link region, where registrations are per endpoint */
    struct tt_ofi_op *receives;     /* [TT_OFI_RECEIVES] */
    uint32_t nunposted;             /* receives that the endpoint did not take yet: a stack of their indices */
    uint16_t unposted[TT_OFI_RECEIVES];
    struct tt_ofi_op *sends;        /* [TT_OFI_SENDS] */
    uint16_t free_send;
    uint32_t nfree_sends;
    bool stuck;                     /* the provider takes nothing just now */
    bool met;                       /* something has come from the other end: they are connected, if the provider connects */

    /* out: numbers of messages, each behind the one before it: retired <= told <= acked <= sent <= written <= asked <= tail */
    struct tt_ofi_out *out;         /* [TT_OFI_DEPTH] */
    uint64_t retired, told, acked, sent, written, asked, tail;
    uint8_t *staging;               /* [TT_OFI_DEPTH][TT_OFI_SLOT_BYTES] */
    uint8_t *asking;                /* [TT_OFI_ASKS][TT_OFI_RECORD_BYTES] */
    uint8_t *notes;                 /* [TT_OFI_NOTES][TT_OFI_RECORD_BYTES] */
    uint8_t *chunks;                /* [TT_OFI_CHUNKS][TT_OFI_CHUNK_BYTES] */
    uint32_t chunks_used, chunks_lent;  /* bits; lent: to writes, not to messages */
    uint32_t notes_used, asking_used;   /* bits */
    uint32_t nasking;               /* messages that have asked and are not acknowledged */

    /* in */
    uint64_t applied, applied_told;
    struct tt_ofi_asked in[TT_OFI_ASKS];
    uint32_t nunanswered;
    bool ack_due;
};

/* ---- links ---- */

enum tt_ofi_state {
    TT_OFI_GREETING,                /* endpoints are there, not yet known to both ends */
    TT_OFI_UP,
    TT_OFI_LOST
};

struct tt_ofi_link {
    struct tt_ofi *ofi;
    uint32_t peer;
    enum tt_ofi_state state;
    bool was_up;
    bool connected;                 /* our endpoints know the other end's */
    bool owes_hello, owes_ready, owes_refusal;  /* the tcp wire had no room for it */
    bool broken;                    /* to be broken in the next poll */
    uint32_t incarnation;
    uint32_t setbacks;              /* errors since anything was acknowledged */
    tutti_status status;
    bool tell_up, tell_lost;
    struct tt_ofi_link *next_news;

    struct tt_link tcp;             /* of the inner wire */
    void *mine;                     /* link region */
    uint8_t *local;                 /* staging, notes, chunks and receives of the lanes */
    struct fid_mr *mine_mr, *local_mr;
    uint64_t token, theirs_token;
    uint64_t theirs_bytes, theirs_address, theirs_key[TT_OFI_LANES];

    struct fid_cq *cq;
    int cq_fd;                      /* -1: none */
    struct tt_ofi_lane lanes[TT_OFI_LANES];
};

/* ---- the wire ---- */

struct tt_ofi_provider {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    char name[48], device[64];      /* "tcp;ofi_rxm", "eth0" */
    bool local;                     /* processes of this host only */
    bool per_endpoint;              /* memory is registered for an endpoint (FI_MR_ENDPOINT) */
    bool ordered;                   /* a record comes after the writes that were posted before it; else: when they are over at the target, a record is sent */
    bool copies;                    /* it may read a source after the endpoint is closed: what it is given are copies */
    bool hmem;                      /* it knows memory of devices */
    bool delivers;                  /* asked about only where several lanes are wanted: it tells of a write when that has landed */
    const char *unwoken;            /* why who sleeps on the descriptor of a completion queue cannot rely on it; NULL: it wakes him */
    const char *one_lane;           /* why there is one, where several are wanted; NULL: they are had, or not wanted */
    uint64_t segment_bytes;
    char about[1152];               /* which, how, and why not the others */
};

struct tt_ofi {
    struct tt_wire wire;
    struct tt_wire_conf conf;
    struct tt_wire *tcp;            /* the inner one */
    struct tt_lane_limits limits;
    struct tt_ofi_provider provider;
    struct tt_domain *domain;       /* of the registry; NULL where memory is registered per endpoint */
    pthread_mutex_t lock;           /* what the provider's domain has is one thread's at a time (FI_THREAD_DOMAIN): the baton's holder's, or that which makes
                                       or undoes a registration. Not held while the registry is called, which takes it */
    int epoll_fd, timer_fd;
    bool armed, tcp_watched;
    uint32_t tick, turn;
    uint32_t ngreeting;             /* links in that state */
    uint32_t nends;                 /* of a link's data lane */

    struct tt_sparse links;         /* struct tt_ofi_link, by rank */
    struct tt_ofi_link **active;    /* [nactive] those that are not lost */
    uint32_t nactive, active_depth;
    struct tt_ofi_link *news, **news_end;

    struct tt_ofi_region **regions; /* [nregions], by id; the first is never used: 0 names the link region */
    uint32_t nregions, next_generation;
    struct tt_ofi_region *last_source;
    char unreached[192];            /* wire.unreached */
};

static inline struct tt_ofi *tt_ofi_of(struct tt_wire *w)
{
    return (struct tt_ofi *)w;
}

static inline struct tt_ofi_out *tt_ofi_out_of(struct tt_ofi_lane *lane, uint64_t message)
{
    return &lane->out[message % TT_OFI_DEPTH];
}

/* Takes a free one of n buffers, whose bits are in *used. False: none is. */
static inline bool tt_ofi_buffer_take(uint32_t *used, uint32_t n, uint8_t *index)
{
    const int at = __builtin_ffs((int)~*used);      /* from 1; 0: all are used */

    if (at == 0 || (uint32_t)at > n)
        return false;
    *index = (uint8_t)(at - 1);
    *used |= 1u << *index;
    return true;
}

/* ofi_library.c */
struct tt_ofi_library {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);     /* NULL: an empty one */
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    uint32_t (*version)(void);
    const char *(*strerror)(int err);
};
/* Loads it at the first call. Any thread. */
const struct tt_ofi_library *tt_ofi_library(void);
/* Why it cannot be used; NULL: it can. */
const char *tt_ofi_library_why_not(void);
/* Of what its functions return, or what completions have. */
const char *tt_ofi_strerror(ssize_t err);

/* ofi_provider.c */
/* Opens the best provider that the name (NULL: any), the rules for interfaces and devices, and its trial allow. UNSUPPORTED says why there is
 * none. */
tutti_status tt_ofi_provider_open(struct tt_ofi_provider *out, const struct tt_wire_conf *conf);
void tt_ofi_provider_close(struct tt_ofi_provider *p);
/* What peers are told of it: all of an address but where the tcp wire greets. */
void tt_ofi_provider_address(const struct tt_ofi_provider *p, struct tt_ofi_address *out);

/* ofi_trial.c */
/* Tries the provider with two endpoints in this process, and sets what it can: copies, unwoken. What it says of itself (ordered, delivers) must hold. Once
 * per process and provider; False, and *why, if it does not serve. */
bool tt_ofi_trial(struct tt_ofi_provider *p, const char **why);

/* ofi_end.c */
struct tt_ofi_write {
    const void *data;
    size_t bytes;
    uint64_t target, key;           /* where to */
};
/* Parts of an endpoint, for links and for the trial. NULL and a log entry: it cannot be had. */
struct fid_cq *tt_ofi_cq_open(const struct tt_ofi_provider *p, int *fd);
struct fid_ep *tt_ofi_ep_open(const struct tt_ofi_provider *p, struct fid_cq *cq);
/* Posts a write or a message to a peer, with a registration of what it reads. flags: FI_MORE where another one to that endpoint follows at once, and
 * FI_DELIVERY_COMPLETE where the write is to be told when it has landed. What libfabric says. */
ssize_t tt_ofi_ep_write(const struct tt_ofi_provider *p, struct fid_ep *ep, fi_addr_t to, const struct tt_ofi_write *w,
                        struct fid_mr *mr, uint64_t flags, void *context);
ssize_t tt_ofi_ep_send(const struct tt_ofi_provider *p, struct fid_ep *ep, fi_addr_t to, const void *data, size_t bytes,
                       struct fid_mr *mr, uint64_t flags, void *context);
/* The name by which others reach it. 0: it has none of at most TT_OFI_NAME_BYTES. */
uint16_t tt_ofi_ep_name(struct fid_ep *ep, uint8_t name[TT_OFI_NAME_BYTES]);
/* Registers memory, with a key that others cannot guess where the provider lets us choose; ep: for which, if it wants to know. NULL: it
 * refuses, and that is logged. */
struct fid_mr *tt_ofi_mr_open(const struct tt_ofi_provider *p, void *mem, size_t bytes, uint64_t access,
                              struct fid_ep *ep);
/* The same for the registry, for sources and targets: 0, or what libfabric says, of which it does not tell. *writable: peers may write to it. */
int tt_ofi_mr_pin(const struct tt_ofi_provider *p, void *mem, size_t bytes, const struct tt_device_memory *device,
                  struct fid_mr **out, bool *writable);
/* The address of mem by that registration of memory that begins at `begin`. */
uint64_t tt_ofi_mr_address(const struct tt_ofi_provider *p, const void *begin, uint64_t offset);
/* What operations are given of it; NULL: it is NULL, or nothing. */
void *tt_ofi_mr_desc(struct fid_mr *mr);
void tt_ofi_close(struct fid *fid);
/* Makes the link's endpoints, and ends them: afterwards no provider touches what they were given. */
tutti_status tt_ofi_ends_open(struct tt_ofi_link *link);
void tt_ofi_ends_close(struct tt_ofi_link *link);
/* Makes them known to each other. */
bool tt_ofi_ends_connect(struct tt_ofi_link *link, const struct tt_ofi_hello *theirs);
/* Takes completions; returns how many. Breaks and loses no link but marks it. */
uint32_t tt_ofi_collect(struct tt_ofi_link *link);
/* An operation's record, to be filled. NULL: none is free; reserved: so many are left. */
struct tt_ofi_op *tt_ofi_op_take(struct tt_ofi_lane *lane, uint32_t reserved);
void tt_ofi_op_give(struct tt_ofi_op *op);
/* Posts; false: not now (the lane is stuck), or never (the link is broken). The operation is free again then. */
bool tt_ofi_post_record(struct tt_ofi_op *op, const uint8_t *record, uint32_t bytes);
bool tt_ofi_post_write(struct tt_ofi_op *op, const void *data, struct fid_mr *mr, uint64_t target, uint64_t key);
/* Has the lane's further endpoints meet the peer's, as far as they take it: from then on they are used. */
void tt_ofi_ends_meet(struct tt_ofi_lane *lane);
/* Whether one of them has not met. */
bool tt_ofi_ends_wait(const struct tt_ofi_lane *lane);
/* Gives the lane's endpoints the receives that they have not. */
void tt_ofi_post_receives(struct tt_ofi_lane *lane);

/* ofi_link.c */
tutti_status tt_ofi_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address);
/* Takes what the inner wire has, and what peers have told through it. */
void tt_ofi_links_step(struct tt_ofi *o);
/* Ends the link's endpoints and begins new ones. What the peer has not applied is sent again. Not twice before the peer has followed: it
 * would miss one. */
void tt_ofi_link_break(struct tt_ofi_link *link);
/* Breaks it if it is broken, or else has it send. */
void tt_ofi_link_tend(struct tt_ofi_link *link);
/* Waits (at most a second) until what was posted has been applied. */
void tt_ofi_links_linger(struct tt_ofi *o);
void tt_ofi_links_close(struct tt_ofi *o);
/* What its links, and the tcp wire inside, take. */
void tt_ofi_links_memory(const struct tt_ofi *o, tutti_memory *m);

/* ofi_send.c */
int tt_ofi_post(struct tt_wire *w, const struct tt_desc *desc, int n);
/* Gives the endpoints what they take of the link's messages, and acknowledgements and answers that are due. */
void tt_ofi_link_pump(struct tt_ofi_link *link);
/* Completes a record that is about to go: whom it is for, and what was applied. */
void tt_ofi_stamp(struct tt_ofi_link *link, uint8_t *record);
/* Notes a part of a message, on an endpoint of the lane, for who wants a trace; at_ns 0: now. */
void tt_ofi_trace(const struct tt_ofi_lane *lane, uint32_t end, enum tt_trace_kind kind, uint64_t message,
                  uint32_t part, uint64_t bytes, uint64_t at_ns);
/* Completions of what was sent. */
void tt_ofi_wrote(struct tt_ofi_op *op);
void tt_ofi_sent(struct tt_ofi_op *op);
/* All before `acked` has been applied there. False if that cannot be. */
bool tt_ofi_acked(struct tt_ofi_lane *lane, uint64_t acked);
/* The answer to an ask. */
bool tt_ofi_answered(struct tt_ofi_lane *lane, const struct tt_ofi_record *r);
/* The endpoints are closed: nothing is under way. */
void tt_ofi_lane_halt(struct tt_ofi_lane *lane);
/* There are new ones: what the peer has not applied is sent again. False if the number cannot be. */
bool tt_ofi_lane_again(struct tt_ofi_lane *lane, uint64_t applied);
/* The region is about to go: unfinished messages from it go on with another one that covers their bytes, or become void. True if the provider may
 * be reading it. */
bool tt_ofi_source_gone(struct tt_ofi_lane *lane, const struct tt_ofi_region *r);
/* Adds a message of nothing that is to be acknowledged, and with it all before. Not if there is no room. */
void tt_ofi_lane_flush(struct tt_ofi_lane *lane);
/* What is over of the lane's messages. Returns how many entries it made. */
int tt_ofi_lane_report(struct tt_ofi_lane *lane, struct tt_done *done, int max);

/* ofi_recv.c */
/* Whether what has come in a receive begins with the token that only the peer knows. */
bool tt_ofi_is_ours(const struct tt_ofi_link *link, const uint8_t *record, size_t bytes);
/* bytes[] have come in a receive. */
void tt_ofi_arrived(struct tt_ofi_lane *lane, const uint8_t *record, size_t bytes);
/* Whether a message that is coming may be written to the region. */
bool tt_ofi_target_is_open(const struct tt_ofi_lane *lane, const struct tt_ofi_region *r);
/* Sends acknowledgements and answers that are due. */
void tt_ofi_notes_pump(struct tt_ofi_link *link);

/* ofi_region.c */
/* Joins the registry, if the provider's registrations serve all endpoints. */
tutti_status tt_ofi_regions_open(struct tt_ofi *o);
tutti_status tt_ofi_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
tutti_status tt_ofi_source(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
void tt_ofi_dereg(struct tt_region *r);
tutti_status tt_ofi_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key, struct tt_rkey *out);
/* The live region of that id and generation; NULL if there is none (any more). */
struct tt_ofi_region *tt_ofi_region_find(const struct tt_ofi *o, uint32_t id, uint32_t generation);
/* The region in which mem[bytes] lies; NULL: none, and so it must be a link region. */
struct tt_ofi_region *tt_ofi_region_covering(struct tt_ofi *o, const void *mem, uint64_t bytes);
/* The registration by which the lane's peer may write to the region; NULL: it cannot be had. */
struct fid_mr *tt_ofi_region_grant(const struct tt_ofi_lane *lane, struct tt_ofi_region *r);
/* What peers write to, by that registration, to reach the region's bytes from offset on. */
uint64_t tt_ofi_region_address(const struct tt_ofi *o, const struct tt_ofi_region *r, uint64_t offset);
/* The lane's endpoint is about to close. */
void tt_ofi_grants_end(const struct tt_ofi_lane *lane);
void tt_ofi_regions_close(struct tt_ofi *o);

#endif
