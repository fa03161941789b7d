/* Private declarations of the ofi transport.
 *
 *  ofi.c           the wire: open, poll, sleep, the table of operations
 *  ofi_library.c   loading of libfabric
 *  ofi_provider.c  selection of the provider, and reasons against others
 *  ofi_trial.c     self-test of a provider
 *  ofi_end.c       endpoints of a link, and their operations
 *  ofi_link.c      links: set-up, recovery and teardown
 *  ofi_send.c      descriptors to records and RMA writes; responses
 *  ofi_recv.c      completions; records to memory and signals
 *  ofi_region.c    registered memory
 *  ofi_frame.c     the formats (pure)
 *
 * An inner tcp wire finds peers, authenticates the job, exchanges endpoint names, and detects the
 * end of a peer's process. All data uses libfabric.
 *
 * A link has two lanes, each a reliable-datagram (RDM) endpoint with one peer endpoint and its own
 * message numbers: control for urgent messages, data for all others. A message ends with a
 * *record*, which carries the signal, and the payload if that is short. A longer payload is first
 * written to its destination by RMA. The receiver's poll processes records in order and raises the
 * signals.
 *
 * The data lane may have further endpoints, over which writes are distributed (dqplb_lanes.h). All
 * records use the first one, and there is no order among endpoints. A record therefore waits until
 * the writes over other endpoints are reported as delivered (FI_DELIVERY_COMPLETE).
 *
 * libfabric operations cannot be cancelled: while the endpoint is open and an operation is
 * incomplete, the provider may read its source or write its target. Therefore
 *  - an endpoint serves one peer. If memory that an endpoint may access is revoked, the link's
 *    endpoints are closed, first at this end. Both ends then open new ones, exchange the number of
 *    messages that they have applied, and retransmit the rest (*recovery*);
 *  - memory of the caller is written only after RTS/CTS. The receiver's CTS has the address. Until
 *    the message's record arrives, the receiver treats this memory as writable by the peer. Link
 *    regions live as long as the link and need no RTS. A message sends its RTS while earlier
 *    messages are in flight.
 * Nothing depends on a provider's behaviour for an invalid key. */
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

#include "trace/trace.h"
#include "wire/ofi/ofi_frame.h"
#include "wire/rput/rput.h"
#include "wire/rput/rput_queue.h"
#include "wire/wire.h"

/* maximum messages per lane that the receiver has not applied */
#define TT_OFI_SLOTS 64
#define TT_OFI_DEPTH 128            /* maximum messages per lane, queued or in flight */
#define TT_OFI_RESERVED 48          /* of these, reserved for inline messages */
#define TT_OFI_RECEIVES 160         /* receives posted per endpoint */
#define TT_OFI_SENDS 128            /* operations in flight per endpoint */
#define TT_OFI_SENDS_RESERVED 8     /* of these, reserved for acknowledgements and CTS */
#define TT_OFI_NOTES 16             /* acknowledgements and CTS in flight */
#define TT_OFI_CHUNK_BYTES TT_INLINE_BYTES
#define TT_OFI_CHUNKS 32            /* buffers per lane for copied payloads longer than a slot */
#define TT_OFI_SEGMENT_BYTES (256u << 10)   /* maximum bytes of one RMA write */

/* buffers of a further endpoint: for one receive and one send */
#define TT_OFI_PROBE_BYTES (TT_OFI_SLOT_BYTES + TT_OFI_RECORD_BYTES)

struct tt_ofi;
struct tt_ofi_link;
struct tt_ofi_lane;

/* ---- memory ---- */

/* A registration for one endpoint, for providers that need that. */
struct tt_ofi_grant {
    struct tt_ofi_grant *next;
    const struct tt_ofi_lane *lane;
    struct fid_mr *mr;
};

struct tt_ofi_region {
    struct tt_rput_region base;     /* its handle is a struct fid_mr; NULL: no bytes, or registered
                                       per endpoint */
    struct tt_ofi_grant *grants;
};

/* ---- lanes ---- */

/* Context of an operation. */
struct tt_ofi_op {
    struct fi_context2 context;     /* used by the provider while in flight */
    struct tt_ofi_lane *lane;
    uint8_t kind;                   /* enum tt_ofi_op_kind */
    uint8_t end;                    /* WRITE, MEET: index of the lane's endpoint */
    uint8_t buffer_index;           /* WRITE: 1 + the chunk that it reads and then frees; 0:
                                       none. ASK, NOTE: index of the buffer */
    uint16_t next_free;
    uint32_t bytes;                 /* WRITE */
    bool more;                      /* another operation follows at once over the same endpoint */
    uint64_t message;               /* WRITE, RECORD */
    uint32_t part;                  /* part of the message, for traces: 0: its record; from 1 on:
                                       its writes */
    uint8_t *buffer;                /* RECEIVE */
};
enum tt_ofi_op_kind {
    TT_OFI_OP_RECEIVE,
    TT_OFI_OP_PROBE_RECEIVE,                  /* receive of a further endpoint */
    TT_OFI_OP_WRITE,
    TT_OFI_OP_RECORD,
    TT_OFI_OP_RTS,
    TT_OFI_OP_NOTE,
    TT_OFI_OP_PROBE
};
#define TT_OFI_NO_OP UINT16_MAX

struct tt_ofi_out {
    struct tt_rput_out base;        /* data: to write by RMA */
    uint64_t posted;                /* bytes posted to endpoints */
    struct tt_rput_region *source;  /* region of data; NULL: the link's memory */
    uint64_t target, key;           /* address and key of the CTS; without RTS: target is an
                                       offset into the link region */
    uint16_t writes, records;       /* operations in flight */
    uint16_t away;                  /* of these writes, those over further endpoints */
    uint8_t chunk;                  /* 1 + the chunk that it holds; 0: none */
    bool needs_cts, has_cts;            /* whether the message needs a CTS, and has received one */
    bool orphan;                    /* its source was revoked after its record was sent: it
                                       cannot be retransmitted */
};

/* An RTS of the peer: memory that may be written until the message's record arrives. */
struct tt_ofi_rts {
    enum { TT_OFI_RTS_NONE, TT_OFI_RTS_RECEIVED, TT_OFI_RTS_GRANTED, TT_OFI_RTS_REFUSED } state;
    uint32_t number;
    struct tt_rput_target data;
};

struct tt_ofi_end {
    struct fid_ep *ep;              /* NULL: not open */
    fi_addr_t to;
    struct tt_ofi_op met;           /* of a further endpoint: the receive that proves that both
                                       ends can communicate */
    bool unposted;                  /* this receive is not posted yet */
    uint8_t *meeting;               /* [TT_OFI_PROBE_BYTES] */
    struct tt_wire_posts posts;     /* writes and records */
};

struct tt_ofi_lane {
    struct tt_ofi_link *link;
    uint32_t index;
    struct tt_ofi_end *end;         /* [nends]; the first carries everything but some writes */
    uint32_t nends;                 /* maximum number; those from `nopen` on could not be opened */
    uint32_t nopen, nboth;          /* nopen: open at this end; nboth: open at both ends and in
                                       use */
    struct tt_dqplb_lanes load;     /* load of the endpoints; those not proven usable are down */
    struct fid_mr *mine_mr;         /* of the link region, if registrations are per endpoint */
    struct tt_ofi_op *receives;     /* [TT_OFI_RECEIVES] */
    uint32_t nunposted;             /* receives not posted yet: a stack of their indices */
    uint16_t unposted[TT_OFI_RECEIVES];
    struct tt_ofi_op *sends;        /* [TT_OFI_SENDS] */
    uint16_t free_send;
    uint32_t nfree_sends;
    bool stuck;                     /* the provider accepts no operation now */
    bool met;                       /* a message was received: the endpoints are connected, if the
                                       provider uses connections */

    /* ---- send side ----
     * Message numbers: retired <= remote, and acked <= sent <= written <= rts_sent <= tail. */
    struct tt_rput_queue q;         /* of struct tt_ofi_out [TT_OFI_DEPTH]; done: as acked */
    uint64_t retired;               /* reported, and without operations in flight */
    uint64_t sent, written, rts_sent;
    uint8_t *staging;               /* [TT_OFI_DEPTH][TT_OFI_SLOT_BYTES] */
    uint8_t *rts_records;                /* [TT_OFI_RTS_MAX][TT_OFI_RECORD_BYTES] */
    uint8_t *notes;                 /* [TT_OFI_NOTES][TT_OFI_RECORD_BYTES] */
    uint8_t *chunks;                /* [TT_OFI_CHUNKS][TT_OFI_CHUNK_BYTES] */
    uint32_t chunks_used, chunks_lent;  /* bitmaps; lent: to writes, not to messages */
    uint32_t notes_used, asking_used;   /* bitmaps */
    uint32_t nrts;               /* messages with RTS that are not acknowledged */

    /* ---- receive side ---- */
    uint64_t applied, applied_sent;
    struct tt_ofi_rts in[TT_OFI_RTS_MAX];
    uint32_t nrts_unanswered;
    bool ack_due;
};

/* ---- links ---- */

struct tt_ofi_link {
    struct tt_rput_link base;       /* mine: the link region; local: staging, notes, chunks and
                                       receive buffers of the lanes. In state HANDSHAKE endpoints
                                       exist, but are not yet known to both ends */
    struct tt_ofi *ofi;
    struct tt_rput_session session; /* of the endpoints. Once the peer's hello is received, our
                                       endpoints have the peer's addresses */
    bool broken;                    /* recovery starts in the next poll */
    uint32_t setbacks;              /* errors since the last acknowledgement */

    struct fid_mr *mine_mr, *local_mr;
    uint64_t token, theirs_token;
    uint64_t theirs_address, theirs_key[TT_RPUT_STREAMS];
    struct tt_rkey theirs;          /* the peer's link region */

    struct fid_cq *cq;
    int cq_fd;                      /* -1: none */
    struct tt_ofi_lane lanes[TT_RPUT_STREAMS];
};

/* ---- the wire ---- */

struct tt_ofi_provider {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    char name[48], device[64];      /* "tcp;ofi_rxm", "eth0" */
    bool local;                     /* reaches only processes of this host */
    bool per_endpoint;              /* memory is registered per endpoint (FI_MR_ENDPOINT) */
    bool ordered;                   /* a record arrives after the writes posted before it;
                                       otherwise it is sent when these are complete at the target */
    bool copies;                    /* the provider may read a source after its endpoint is
                                       closed: it gets only copies */
    bool hmem;                      /* supports device memory */
    bool delivers;                  /* reports a write when its data has arrived; determined only
                                       if several lanes are configured */
    const char *unwoken;            /* reason why a completion queue's descriptor does not
                                       reliably wake a sleeper; NULL: it does */
    const char *one_lane;           /* reason for a single lane if several are configured; NULL
                                       otherwise */
    uint64_t segment_bytes;
    char about[1152];               /* description: provider, its properties, and reasons against
                                       others */
};

struct tt_ofi {
    struct tt_rput base;
    struct tt_ofi_provider provider;
    pthread_mutex_t lock;           /* objects of the provider's domain are for one thread at a time
                                       (FI_THREAD_DOMAIN): the holder of the progress lock, or a
                                       thread that makes or undoes a registration. Not held during
                                       calls of the registry, which acquires it */
    uint32_t turn;
    uint32_t nends;                 /* endpoints of a link's data lane */
    char unreached[192];            /* wire.unreached */
};

static inline struct tt_ofi *tt_ofi_of(struct tt_wire *w)
{
    return (struct tt_ofi *)w;
}

static inline struct tt_ofi_link *tt_ofi_link_at(const struct tt_ofi *o, uint32_t i)
{
    return (struct tt_ofi_link *)o->base.active[i];
}

static inline struct tt_ofi_out *tt_ofi_out_of(struct tt_ofi_lane *lane, uint64_t message)
{
    return &((struct tt_ofi_out *)lane->q.out)[message % TT_OFI_DEPTH];
}

/* ---- ofi_library.c ---- */
struct tt_ofi_library {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);     /* NULL: returns an empty one */
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    uint32_t (*version)(void);
    const char *(*strerror)(int err);
};
/* Returns the library, loaded at the first call. Any thread. */
const struct tt_ofi_library *tt_ofi_library(void);
/* Returns why it cannot be used, or NULL. */
const char *tt_ofi_library_why_not(void);
/* Describes an error code of a function or a completion. */
const char *tt_ofi_strerror(ssize_t err);
/* Closes an object of libfabric, or none if fid is NULL. */
void tt_ofi_close(struct fid *fid);

/* ---- ofi_provider.c ---- */
/* Opens the best provider allowed by name (NULL: any), by the rules for interfaces and devices, and
 * by its self-test. UNSUPPORTED states the reasons. */
tutti_status tt_ofi_provider_open(struct tt_ofi_provider *out, const struct tt_wire_conf *conf);
void tt_ofi_provider_close(struct tt_ofi_provider *p);
/* Writes the provider's part of an address: everything but the tcp endpoints. */
void tt_ofi_provider_address(const struct tt_ofi_provider *p, struct tt_ofi_address *out);

/* ---- ofi_trial.c ---- */
/* Tests the provider with two endpoints in this process, and sets `copies` and `unwoken`. Its
 * claims (ordered, delivers) must hold. Runs once per process and provider. Returns false, and
 * *why, if it is unusable. */
bool tt_ofi_trial(struct tt_ofi_provider *p, const char **why);

/* ---- ofi_end.c ---- */
struct tt_ofi_write {
    const void *data;
    size_t bytes;
    uint64_t target, key;           /* destination */
};
/* Open parts of an endpoint, for links and the self-test. NULL (logged) on failure. */
struct fid_cq *tt_ofi_cq_open(const struct tt_ofi_provider *p, int *fd);
struct fid_ep *tt_ofi_ep_open(const struct tt_ofi_provider *p, struct fid_cq *cq);
/* Post a write or a message to a peer; mr is the registration of its source. flags: FI_MORE if
 * another operation on that endpoint follows at once, and FI_DELIVERY_COMPLETE to report a write
 * when its data has arrived. Return libfabric's result. */
ssize_t tt_ofi_ep_write(const struct tt_ofi_provider *p, struct fid_ep *ep, fi_addr_t to,
                        const struct tt_ofi_write *w, struct fid_mr *mr, uint64_t flags,
                        void *context);
ssize_t tt_ofi_ep_send(const struct tt_ofi_provider *p, struct fid_ep *ep, fi_addr_t to,
                       const void *data, size_t bytes, struct fid_mr *mr, uint64_t flags,
                       void *context);
/* Writes the endpoint's name and returns its length, or 0 if it has no name of at most
 * TT_OFI_NAME_BYTES. */
uint16_t tt_ofi_ep_name(struct fid_ep *ep, uint8_t name[TT_OFI_NAME_BYTES]);
/* Open and close the link's endpoints. After closing, the provider does not access their memory. */
tutti_status tt_ofi_ends_open(struct tt_ofi_link *link);
void tt_ofi_ends_close(struct tt_ofi_link *link);
/* Adds the peer's endpoints to ours. */
bool tt_ofi_ends_connect(struct tt_ofi_link *link, const struct tt_ofi_hello *theirs);
/* Returns a free operation to fill in, or NULL if at most `reserved` are free. */
struct tt_ofi_op *tt_ofi_op_take(struct tt_ofi_lane *lane, uint32_t reserved);
void tt_ofi_op_give(struct tt_ofi_op *op);
/* Post an operation. False: not now (the lane is stuck), or never (the link is broken); the
 * operation is then freed. */
bool tt_ofi_post_record(struct tt_ofi_op *op, const uint8_t *record, uint32_t bytes);
bool tt_ofi_post_write(struct tt_ofi_op *op, const void *data, struct fid_mr *mr, uint64_t target,
                       uint64_t key);
/* Connects the lane's further endpoints to the peer's, if they accept operations now. Connected
 * endpoints are used. */
void tt_ofi_connect_endpoints(struct tt_ofi_lane *lane);
/* Returns whether a further endpoint of the lane is not connected yet. */
bool tt_ofi_ends_wait(const struct tt_ofi_lane *lane);
/* Posts the single receive of a further endpoint, which proves that it is reachable. If it is not
 * accepted now, tt_ofi_post_receives retries. Returns false if it never will be. */
bool tt_ofi_connect_receive(struct tt_ofi_lane *lane, struct tt_ofi_end *end);
/* Posts missing receives on the lane's endpoints. */
void tt_ofi_post_receives(struct tt_ofi_lane *lane);

/* ---- ofi_link.c ---- */
extern const struct tt_rput_ops tt_ofi_link_ops;
/* Bytes of the base's local memory. */
size_t tt_ofi_local_bytes(const struct tt_ofi *o);
tutti_status tt_ofi_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address);
/* Closes the link's endpoints and opens new ones, then retransmits what the peer has not applied.
 * Must not be called twice before the peer has followed, since the peer would miss one
 * incarnation. */
void tt_ofi_link_break(struct tt_ofi_link *link);
/* Recovers the link if it is marked broken; otherwise sends. */
void tt_ofi_link_progress(struct tt_ofi_link *link);

/* ---- ofi_send.c ---- */
int tt_ofi_post(struct tt_wire *w, const struct tt_desc *desc, int n);
/* Posts the link's messages, acknowledgements and CTS as far as the endpoints accept them. */
void tt_ofi_link_pump(struct tt_ofi_link *link);
/* Records a part of a message, on an endpoint of the lane, in the trace; at_ns 0: now. */
void tt_ofi_trace(const struct tt_ofi_lane *lane, uint32_t end, enum tt_trace_kind kind,
                  uint64_t message, uint32_t part, uint64_t bytes, uint64_t at_ns);
/* Completions of sends. */
void tt_ofi_wrote(struct tt_ofi_op *op);
void tt_ofi_sent(struct tt_ofi_op *op);
/* Processes an acknowledgement of all messages before `acked`. Returns false if it is invalid. */
bool tt_ofi_acked(struct tt_ofi_lane *lane, uint64_t acked);
/* Processes a CTS. */
bool tt_ofi_cts_received(struct tt_ofi_lane *lane, const struct tt_ofi_record *r);
/* The endpoints are closed: nothing is in flight. */
void tt_ofi_lane_halt(struct tt_ofi_lane *lane);
/* New endpoints exist: retransmits what the peer has not applied. Returns false if `applied` is
 * invalid. */
bool tt_ofi_lane_again(struct tt_ofi_lane *lane, uint64_t applied);
/* The region is being deregistered: unfinished messages from it continue with another region that
 * covers their bytes, or become void. Returns true if the provider may be reading it. */
bool tt_ofi_source_gone(struct tt_ofi_lane *lane, const struct tt_rput_region *r);
/* Adds an empty message with an acknowledgement request, which also covers all earlier messages. No
 * effect if there is no space. */
void tt_ofi_lane_flush(struct tt_ofi_lane *lane);
/* Reports completed messages of the lane. Returns the number of entries. */
int tt_ofi_lane_report(struct tt_ofi_lane *lane, struct tt_done *done, int max);

/* ---- ofi_recv.c ---- */
/* Processes completions and returns their number. Only marks links that must be recovered or
 * lost. */
uint32_t tt_ofi_collect(struct tt_ofi_link *link);
/* Returns whether an incoming message may be written to the region. */
bool tt_ofi_target_is_open(const struct tt_ofi_lane *lane, const struct tt_rput_region *r);

/* ---- ofi_region.c ---- */
/* Registers memory, with an unpredictable key if the provider allows a choice; ep: the endpoint, if
 * the provider needs it. NULL (logged) on failure. */
struct fid_mr *tt_ofi_mr_open(const struct tt_ofi_provider *p, void *mem, size_t bytes,
                              uint64_t access, struct fid_ep *ep);
/* Returns the remote address of `offset` in the registered memory that starts at `begin`. */
uint64_t tt_ofi_mr_address(const struct tt_ofi_provider *p, const void *begin, uint64_t offset);
/* Returns the local descriptor of a registration for operations, or NULL. */
void *tt_ofi_mr_desc(struct fid_mr *mr);
/* Fills the table of regions, except withdraw. Joins the registry, if a registration serves all
 * endpoints of the provider. */
tutti_status tt_ofi_regions_open(struct tt_ofi *o);
tutti_status tt_ofi_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key,
                           struct tt_rkey *out);
/* Returns the registration by which the lane's peer may write to the region, or NULL on failure. */
struct fid_mr *tt_ofi_region_grant(const struct tt_ofi_lane *lane, struct tt_ofi_region *r);
/* Returns the address at which peers reach the region's bytes from offset on, by that
 * registration. */
uint64_t tt_ofi_region_address(const struct tt_ofi *o, const struct tt_rput_region *r,
                               uint64_t offset);
/* Closes the region's registration for the lane's endpoint, if any. */
void tt_ofi_grant_end(struct tt_ofi_region *r, const struct tt_ofi_lane *lane);
/* The lane's endpoint is about to close: closes its registrations. */
void tt_ofi_grants_end(const struct tt_ofi_lane *lane);

#endif
