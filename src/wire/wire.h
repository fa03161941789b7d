/* A wire is a transport: it transfers bytes between processes by put, then signal. A folder
 * implements one wire, and defines its tt_wire_ops.
 *
 * Threads: only the holder of the progress lock calls a wire, so calls are serialized. No call
 * blocks: connect and its handshake continue inside poll. `peer` is a rank of the job, not of a
 * communicator.
 *
 * Semantics of a put (docs/one-sided.md):
 *  - Puts are unordered. The source is reusable at local completion.
 *  - A put with a signal: a reader that observes the signal's value at the target with an acquire
 *    load sees the bytes of this put. A zero-length put still signals. A signal is a 64-bit word in
 *    a region of the target, an operation SET or ADD, and a value.
 *  - FENCE takes constant time and never waits. Signals posted to that peer later become visible
 *    only after all puts posted to it before the fence have arrived. Gets posted to it later read
 *    only after these arrivals. Fences of different peers are independent.
 *  - A put with TT_DESC_REMOTE also reports remote completion. Draining means waiting for these.
 * Arrivals are observed in memory: the owner of a region polls its own signal words. For transports
 * that use the CPU for transfers (tcp), poll applies arrivals, so a waiting thread calls poll
 * between checks. */
#ifndef TT_WIRE_WIRE_H
#define TT_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "secure/secure.h"
#include "topo/layout.h"
#include "topo/rails.h"
#include "tutti/tutti.h"
#include "wire/lane_limits.h"

struct tt_wire;

enum {
    TT_WIRE_CAP_INSTANT = 1u << 0,  /* an accepted put to a mapped key is locally complete when
                                       post returns, and poll reports no LOCAL for it
                                       (tt_put_is_instant) */
    TT_WIRE_CAP_ORDERED = 1u << 1,  /* signals and gets take effect in post order, after earlier
                                       puts: no fence is needed */
    TT_WIRE_CAP_MAPPED = 1u << 2,   /* imported keys of memory that the wire allocated carry a
                                       pointer (tt_rkey.mapped): the caller may write there
                                       directly and then post a zero-length put with the signal */
    TT_WIRE_CAP_GET = 1u << 3,
    TT_WIRE_CAP_ATOMIC = 1u << 4,
    TT_WIRE_CAP_ANYMEM = 1u << 5,   /* reg accepts the caller's memory; each link reports whether
                                       this peer's puts may target it (tt_link.anymem) */
    TT_WIRE_CAP_DEVICE = 1u << 7,   /* puts with TT_DESC_DIRECT, from and to device memory
                                       registered with the registry (registry.h) */
    TT_WIRE_CAP_AWAITS = 1u << 8,   /* ORDERED, but the network is not: a signal is sent only after
                                       earlier puts have completed at the peer */
    TT_WIRE_CAP_PINS = 1u << 6      /* registration is slow and pins memory: the registry caches
                                       registrations (registry.h) */
};

/* External address of a process, if it is not reachable at any port of its own addresses. */
struct tt_outside {
    bool near;                      /* reachable only by processes of its host, on 127.0.0.1 */
    uint16_t port_first, port_last; /* range of listening ports; 0: any */
    uint8_t family;                 /* 4 or 6: family of an address that forwards the same ports
                                       to this process; 0: none */
    uint8_t ip[16];                 /* network order */
};

/* Configuration of a wire. Strings are the caller's and valid until close. */
struct tt_wire_conf {
    uint32_t rank, nranks;          /* in the job */
    const uint8_t *secret;          /* [16], secret of the job, valid until close and set before the
                                       first connect or poll (the wire's address is needed before
                                       the secret is known). Connections without it are dropped */
    uint64_t link_bytes;            /* size of the link region that each end of a connection
                                       exposes to the other */
    const char *interfaces;         /* NULL or as in tutti_conf */
    uint32_t lanes;                 /* connections per peer; 0: automatic */
    const struct tt_rails *rails;   /* of this host, valid until close; NULL: unknown */
    const struct tt_layout *layout; /* of the job, valid until close and filled before the first
                                       connect or poll, like the secret; NULL or nranks 0:
                                       unknown */
    const struct tt_topo_link *links;   /* [TT_DISTANCES], links between ranks; lifetime as
                                           layout; NULL: unknown */
    const struct tt_lane_limits *lane_limits;   /* outstanding bytes per lane, copied by open;
                                                   NULL: the default */
    uint32_t silence_s;             /* tcp: silence after which a peer is lost; 0: the kernel's
                                       default */
    const struct tt_outside *outside;   /* tcp: copied by open; NULL or all 0: any port of its
                                           own addresses. With other values verbs and ofi are
                                           UNSUPPORTED */
    struct tt_secure *secure;       /* tcp: security of connections, valid until close; NULL:
                                       unencrypted */
    bool cma;                       /* shm: process_vm_readv is allowed, in either direction */
    const char *rdma_devices;       /* verbs, ofi: allowed devices, in the syntax of
                                       `interfaces`, valid during open; NULL: those near the
                                       process */
    const char *rdma_gid;           /* verbs: GID for RoCE ports, as in TUTTI_RDMA_GID, valid
                                       during open; NULL: the best */
    bool ofi_hmem;                  /* ofi: the provider must support device memory (FI_HMEM) */
    const char *ofi_provider;       /* ofi: name of the libfabric provider, valid during open;
                                       NULL or "": the first usable one */
};

/* Returns whether a peer is on this host, by the layout. If that is unknown, returns `looks_so`
 * (whether the host hashes are equal). */
static inline bool tt_wire_shares_host(const struct tt_wire_conf *conf, uint32_t peer,
                                       bool looks_so)
{
    const struct tt_layout *l = conf->layout;

    return l && l->nranks ? tt_layout_host(l, conf->rank) == tt_layout_host(l, peer) : looks_so;
}

/* Registered memory of this process. Peers import the key to access it. */
struct tt_region {
    struct tt_wire *wire;
    void *mem;
    size_t bytes;
    struct tt_blob key;             /* at most TT_KEY_BYTES */
    bool settled;                   /* set by the owner before dereg: peers have no transfer to
                                       it in flight and will start none. The wire may then keep
                                       the registration for reuse */
};
#define TT_KEY_BYTES 32

/* An imported region of a peer. A value that may be copied; valid until the peer deregisters it or
 * the link is lost. */
struct tt_rkey {
    struct tt_wire *wire;
    uint32_t peer;
    void *mapped;                   /* MAPPED: the region in this address space; else NULL */
    const uint8_t *past_cache;      /* MAPPED: whether (1 or 0) long stores should bypass the
                                       cache now; NULL: no preference */
    uint64_t bytes;
    uint64_t handle[4];             /* private to the wire */
};

enum tt_desc_kind { TT_DESC_PUT, TT_DESC_GET, TT_DESC_ATOMIC, TT_DESC_FENCE };
enum tt_signal_op { TT_SIGNAL_NONE, TT_SIGNAL_SET, TT_SIGNAL_ADD };
enum {
    TT_DESC_INLINE = 1u << 0,       /* post copies the source, which is reusable at once; no
                                       LOCAL is reported; bytes <= TT_INLINE_BYTES */
    TT_DESC_REMOTE = 1u << 1,       /* also report remote completion */
    TT_DESC_URGENT = 1u << 3,       /* ordered, also by fences, only among urgent descriptors: it
                                       may overtake all others */
    TT_DESC_DIRECT = 1u << 5,       /* source or target is device memory, which the CPU must not
                                       access. Not with INLINE; only if the wire has DEVICE */
    TT_DESC_WAKE = 1u << 4,         /* an instant put without a signal that wakes the sleeping
                                       owner, as other puts do */
    TT_DESC_FEW_LANES = 1u << 6         /* of a put: `lane` is a limit, at least 1: only the first
                                       `lane` lanes that are up may be used */
};
#define TT_INLINE_BYTES 32768u

struct tt_desc {
    uint8_t kind : 4;               /* enum tt_desc_kind */
    uint8_t signal_op : 4;          /* enum tt_signal_op */
    uint8_t lane;                   /* of a put. 0: the wire selects; 1 + n: a hint for lane n
                                       modulo the number of lanes. With FEW_LANES: a limit */
    uint8_t flags;
    uint8_t copy;                   /* hint within a host: enum tt_copy_way (copy_policy.h) */
    uint32_t peer;                  /* FENCE; else key->peer */
    void *local;                    /* put: read; get: written; atomic: old value (uint64_t) or
                                       NULL */
    uint64_t bytes;
    const struct tt_rkey *key;      /* target (put, also of zero bytes, and atomic) or source
                                       (get); valid during post only */
    uint64_t offset;                /* into that region */
    const struct tt_rkey *signal_key;   /* region of the signal word; valid during post only */
    uint64_t signal_offset;         /* 8-byte aligned */
    uint64_t signal_value;
    uint64_t operand;               /* atomic: fetch-and-add operand. Put without bytes: bytes that
                                       the caller wrote to mapped memory, for counters */
    uint64_t cookie;                /* returned in tt_done */
};

enum tt_done_kind {
    TT_DONE_LOCAL,                  /* the source is reusable, or the result of the get or atomic
                                       is available */
    TT_DONE_REMOTE,                 /* the data has arrived at the target */
    TT_DONE_LINK_UP,                /* the link to `peer` is usable; `link` is set */
    TT_DONE_LINK_LOST               /* the peer's process has ended, or it cannot be
                                       (re)connected; `status` is the cause (OK: it closed in
                                       order). Its outstanding descriptors are dropped and not
                                       reported */
};

/* Each connection has two link regions of link_bytes: `mine`, of this process, zeroed and writable
 * by the peer, and `theirs`, the peer's. The upper layer defines their layout. They exist until the
 * link is lost or the wire is closed. */
struct tt_link {
    void *mine;
    struct tt_rkey theirs;
    bool anymem;                    /* this peer accepts keys of memory that the wire did not
                                       allocate. The two ends may differ */
    uint64_t round_trip_ns;         /* measured while connecting; 0: unknown */
};

struct tt_done {
    uint8_t kind;                   /* enum tt_done_kind */
    uint32_t peer;
    uint64_t cookie;
    tutti_status status;
    struct tt_link link;
};

/* Counters of one lane, for dumps and the live view. In `completions` a segment counts as complete
 * unless its completion is overdue (on a connection: unless the kernel retransmits it). Times in
 * ns; 0: none, or not measured by the transport. */
struct tt_wire_lane {
    uint32_t peer, lane;
    bool is_up;
    bool posted;                    /* something was posted in the interval; only if the transport
                                       measures no times */
    uint32_t depth;                 /* out-of-order depth: maximum distance of a received segment
                                       from the oldest missing one in the interval. If several lanes
                                       share a sequence, set on the first one */
    uint64_t posts, completions, posted_bytes, completed_bytes;
    uint64_t outstanding, outstanding_bytes;    /* posted but incomplete, overdue or not */
    uint64_t last_post_ns, last_completion_ns;
};

typedef void tt_wire_lane_fn(void *arg, const struct tt_wire_lane *lane);

/* Posts on a lane whose transport measures no times. */
struct tt_wire_posts {
    uint64_t n, bytes, n_begin;     /* n_begin: when the interval began */
};

static inline void tt_wire_posts_add(struct tt_wire_posts *p, uint64_t bytes)
{
    p->n++;
    p->bytes += bytes;
}

/* Returns the counters of a lane whose segments count as complete when posted. next: this ends the
 * interval, and the next one begins. */
static inline struct tt_wire_lane tt_wire_posts_read(struct tt_wire_posts *p, uint32_t peer,
                                                     uint32_t lane, bool next)
{
    const struct tt_wire_lane out = { .peer = peer,
                                      .lane = lane,
                                      .posted = p->n != p->n_begin,
                                      .posts = p->n,
                                      .completions = p->n,
                                      .posted_bytes = p->bytes,
                                      .completed_bytes = p->bytes };

    if (next)
        p->n_begin = p->n;
    return out;
}

/* First member of every wire's struct. */
struct tt_wire {
    const struct tt_wire_ops *ops;
    uint32_t caps;                  /* TT_WIRE_CAP_*: only what every post supports on this
                                       machine */
    uint32_t whole_bytes;           /* up to this length, sending a put that is not instant as a
                                       whole is cheaper than in segments; 0: no difference */
    const char *about;              /* description of the devices found, for display; NULL: none.
                                       Owned by the wire until close */
    const char *unreached;          /* why the last connect returned UNSUPPORTED, for display;
                                       NULL: unknown. Owned by the wire until the next connect */
    bool crowded;                   /* oversubscribed: poll skips work that peers can do alone. Set
                                       by the user of the wire */
    bool sleepy;                    /* so many ranks share a core that they mostly sleep: arm must
                                       be cheap, at the cost of posts. Set by the user of the wire,
                                       before the first connection */
    bool unheard;                   /* arrivals do not wake a sleeping thread until arm is called
                                       again. Set by the wire */
    bool together;                  /* the caller posts in batches and ends each with an empty
                                       post (n = 0): puts that are not inline may be delayed
                                       until then. Set by the user of the wire */
    bool gathers;                   /* with `together`: short inline puts may be delayed too,
                                       once the wire has copied them. Set by the user of the wire */
    bool busy;                      /* the caller of poll has urgent work (arrivals may need a
                                       reply): long work may be deferred by a few polls */
};

struct tt_wire_ops {
    const char *name;               /* unique; also the file's name, e.g. "tcp" */
    const char *summary;
    bool by_name;                   /* used only if the list of transports (TUTTI_WIRES) names it */

    /* Opens the wire, including its listeners. On success the caller owns *out and releases it with
     * close. UNSUPPORTED, with a message that is not logged, if this machine cannot run it. */
    tutti_status (*open)(struct tt_wire **out, const struct tt_wire_conf *conf);
    /* Closes all links and unmaps its regions' and links' memory. Nothing accesses user memory
     * afterwards. */
    void (*close)(struct tt_wire *w);
    /* Returns the address to which peers connect. */
    tutti_status (*address)(struct tt_wire *w, struct tt_blob *out);
    /* Starts a link to `peer` at `address`; poll reports LINK_UP or LINK_LOST. A second call for a
     * peer does nothing. Both ends may call it concurrently; one link results. The passive end also
     * gets LINK_UP. UNSUPPORTED (not logged): this wire cannot reach that address (see
     * tt_wire.unreached); the caller tries the next wire. LINK_LOST with status OK: the peer closed
     * its wire in order. Data that it sent before is still in `mine`, which stays readable until
     * this wire is closed. */
    tutti_status (*connect)(struct tt_wire *w, uint32_t peer, const struct tt_blob *address);

    /* Registers mem[bytes]. mem remains the caller's, and must not be freed before dereg. mem NULL:
     * the wire allocates and owns it (zeroed, page aligned, mappable by peers if supported). *out
     * is the caller's and is released by dereg. UNSUPPORTED without ANYMEM. */
    tutti_status (*reg)(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
    /* Registers the caller's memory as a source only; peers must not get its key. NULL: same as reg
     * (tt_wire_source). */
    tutti_status (*source)(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
    /* After it returns, nothing can change the region's memory through this wire: late arrivals are
     * dropped. A peer that is reading a source in it discards the data. Does not wait for peers,
     * except for a copy that a running peer is making into this memory. */
    void (*dereg)(struct tt_region *r);
    /* Revokes the sources of puts whose cookie equals `cookie` under `mask`, even if other regions
     * contain the same memory. Peers do not begin to read them, and a peer that is reading discards
     * the data. Their signals are not sent, but their completions are reported. Never waits for a
     * peer. NULL: not needed, since post reads the sources, or dereg alone stops the puts. */
    void (*take_back)(struct tt_wire *w, uint64_t cookie, uint64_t mask);
    /* Like dereg, for part of the memory that the wire allocated and peers have mapped. The pages
     * of bytes [offset, offset + bytes) keep their addresses and contents, but become private to
     * this process. NULL on wires without MAPPED. */
    tutti_status (*withdraw)(struct tt_region *r, uint64_t offset, uint64_t bytes);
    /* Allows `peer`, which gets the region's key, to write into it directly until dereg, for puts
     * with TT_COPY_PUSH. False, or NULL: not allowed; such puts are treated like others. */
    bool (*admit)(struct tt_region *r, uint32_t peer);
    /* Makes a peer's key usable here. PROTOCOL (logged): not a key of this wire. PENDING: the
     * memory's descriptor is in transit; poll, and call again. UNSUPPORTED (not logged): the wire
     * did not allocate the memory, and this peer's link does not accept such keys (tt_link.anymem,
     * as the peer sees it). */
    tutti_status (*import)(struct tt_wire *w, uint32_t peer, const struct tt_blob *key,
                           struct tt_rkey *out);

    /* Posts up to n descriptors with one doorbell. Returns how many were accepted, in order. If
     * fewer than n, poll and post the rest again. Descriptors to a lost peer are accepted and
     * dropped. Without TT_DESC_INLINE, sources and destinations must lie in a registered region of
     * this wire or in a link region, so that dereg can stop the transfer. If the source of a put is
     * deregistered, the put may still arrive whole, from a copy of the remaining bytes. Otherwise
     * its signal is not sent and its target's contents are undefined. Both are reported. If the
     * target is deregistered, the put and its signal are dropped. Instant puts (tt_put_is_instant)
     * do not need registered sources. n 0 (desc may be NULL): flushes delayed puts
     * (tt_wire.together). */
    int (*post)(struct tt_wire *w, const struct tt_desc *desc, int n);
    /* Makes progress and fills done[max]. Returns the number of entries. */
    int (*poll)(struct tt_wire *w, struct tt_done *done, int max);
    /* Prepares to sleep. Returns a descriptor (always the same) that becomes readable when poll has
     * work, or -1 if it has work already. After arming, the caller checks its signal words once
     * more before it sleeps. The next poll disarms. */
    int (*arm)(struct tt_wire *w);
    /* Adds the wire's memory by purpose ("tcp: links"; base/memory.h), excluding its regions. */
    void (*memory)(const struct tt_wire *w, tutti_memory *m);
    /* Passes the counters of each lane of usable links to `add`. next: the interval of the live
     * view ends, and the next one begins; other readers, such as dumps, do not end it. NULL: the
     * counters are not available. */
    void (*lanes)(struct tt_wire *w, bool next, tt_wire_lane_fn *add, void *arg);
};

/* Registers mem[bytes] of the caller as a source; otherwise like reg. */
static inline tutti_status tt_wire_source(struct tt_wire *w, void *mem, size_t bytes,
                                          struct tt_region **out)
{
    return (w->ops->source ? w->ops->source : w->ops->reg)(w, mem, bytes, out);
}

/* Returns whether a put to that key is locally complete when post returns. */
static inline bool tt_put_is_instant(const struct tt_wire *w, const struct tt_rkey *key)
{
    return w->caps & TT_WIRE_CAP_INSTANT && key->mapped;
}

#endif
