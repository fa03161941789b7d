/* A wire carries bytes between processes: put, then signal. One file implements one wire, and ends in a tt_wire_ops.
 *
 * Who calls: every call on one wire comes from whoever holds the progress baton, one at a time. No call blocks (connect and
 * its handshake go on inside poll). `peer` is a rank of the job (the world), not of a communicator.
 *
 * What a put means, exactly (docs/one-sided.md):
 *  - A put promises no order. Its source is reusable at local completion.
 *  - A put with a signal: whoever observes the signal's value at the target with an acquire load sees this put's bytes.
 *    A zero-length put still signals. A signal is a 64-bit word in a region of the target, SET or ADD, and a value.
 *  - FENCE is constant time and never waits. Signals posted to that peer later become visible only after all puts posted
 *    to it before the fence have landed, and gets posted to it later read after that. Fences of different peers are
 *    independent of each other.
 *  - A put with TT_DESC_REMOTE also reports remote completion (it has landed); draining is waiting for those.
 * What arrives is seen in memory: the owner of a region polls its own signal words. For wires that the CPU itself carries
 * (tcp), poll is what applies arrivals, so a waiter calls poll between looks. */
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
    TT_WIRE_CAP_INSTANT = 1u << 0,  /* a taken put to a mapped key is locally complete when post returns, and has no LOCAL entry in
                                       poll (tt_put_is_instant) */
    TT_WIRE_CAP_ORDERED = 1u << 1,  /* signals and gets always take effect in post order, after earlier puts: no fence is needed */
    TT_WIRE_CAP_MAPPED = 1u << 2,   /* imported keys of wire-allocated memory carry a pointer (tt_rkey.mapped): the caller
                                       may write there itself and then post a zero-length put with the signal */
    TT_WIRE_CAP_GET = 1u << 3,
    TT_WIRE_CAP_ATOMIC = 1u << 4,
    TT_WIRE_CAP_ANYMEM = 1u << 5,   /* reg takes the caller's own memory; which peers' puts may target it, each link says
                                       (tt_link.anymem) */
    TT_WIRE_CAP_DEVICE = 1u << 7,   /* puts with TT_DESC_DIRECT: from and to memory of devices that the registry was told of (registry.h) */
    TT_WIRE_CAP_PINS = 1u << 6      /* registering takes long and pins memory: the registry keeps what was registered (registry.h) */
};

/* Where a process can be reached, if not at any port of its own addresses. */
struct tt_outside {
    bool near;                      /* on 127.0.0.1 alone, by processes of its host */
    uint16_t port_first, port_last; /* the only ones that it may listen at; 0: any */
    uint8_t family;                 /* 4 or 6: of an address at which the same ports are forwarded to it; 0: there is none */
    uint8_t ip[16];                 /* network order */
};

/* What a wire needs to know. Strings are the caller's, alive until close. */
struct tt_wire_conf {
    uint32_t rank, nranks;          /* in the job */
    const uint8_t *secret;          /* [16], of the job, alive until close and set before the first connect or poll (the address is
                                       needed before it is known): connections that do not know it are dropped */
    uint64_t link_bytes;            /* size of the link region that each end of a connection exposes to the other */
    const char *interfaces;         /* NULL or as in tutti_conf */
    uint32_t lanes;                 /* connections per peer, 0: the wire chooses */
    const struct tt_rails *rails;   /* of this host, alive until close; NULL: not known */
    const struct tt_layout *layout; /* of the job, alive until close and filled, as the secret, before the first connect or poll; NULL or
                                       nranks 0: not known */
    const struct tt_topo_link *links;   /* [TT_DISTANCES] what lies between ranks, alive until close and filled as the layout; NULL: not known */
    const struct tt_lane_limits *lane_limits;   /* outstanding bytes per lane, copied by open; NULL: the default */
    uint32_t silence_s;             /* tcp: a peer whose host answers nothing for so long is lost; 0: when the kernel says so */
    const struct tt_outside *outside;   /* tcp: copied by open; NULL or all 0: any port, its own addresses. verbs and ofi are UNSUPPORTED with any other */
    struct tt_secure *secure;       /* tcp: how connections between peers are secured, alive until close; NULL: not */
    bool cma;                       /* shm: process_vm_readv allowed, in either direction */
    const char *rdma_devices;       /* verbs, ofi: which devices may be used, by a rule as that of interfaces, alive during open; NULL: those near */
    const char *rdma_gid;           /* verbs: the GID to use on RoCE ports, as TUTTI_RDMA_GID has it, alive during open; NULL: the best */
    bool ofi_hmem;                  /* ofi: its provider is to know memory of devices (FI_HMEM) */
    const char *ofi_provider;       /* ofi: libfabric's provider, by name, alive during open; NULL or "": the first that serves */
};

/* Whether a peer is on this host: as the layout has it, or while that is not known, as it seems (`looks_so`: hashes agree). */
static inline bool tt_wire_shares_host(const struct tt_wire_conf *conf, uint32_t peer, bool looks_so)
{
    const struct tt_layout *l = conf->layout;

    return l && l->nranks ? tt_layout_host(l, conf->rank) == tt_layout_host(l, peer) : looks_so;
}

/* Registered memory of this process. key is what a peer imports to reach it. */
struct tt_region {
    struct tt_wire *wire;
    void *mem;
    size_t bytes;
    struct tt_blob key;             /* at most TT_KEY_BYTES */
    bool settled;                   /* its user's to set before dereg: peers have nothing on its way there, and will send nothing. The wire may
                                       keep it registered for the next time */
};
#define TT_KEY_BYTES 32

/* A peer's region, imported. A value: copy it freely; valid until the peer deregisters or the link is lost. */
struct tt_rkey {
    struct tt_wire *wire;
    uint32_t peer;
    void *mapped;                   /* MAPPED: the region's memory in this address space; else NULL */
    const uint8_t *past_cache;      /* MAPPED: whether (1, or 0) long stores there had better bypass the cache just now; NULL: no opinion */
    uint64_t bytes;
    uint64_t handle[4];             /* the wire's own */
};

enum tt_desc_kind { TT_DESC_PUT, TT_DESC_GET, TT_DESC_ATOMIC, TT_DESC_FENCE };
enum tt_signal_op { TT_SIGNAL_NONE, TT_SIGNAL_SET, TT_SIGNAL_ADD };
enum {
    TT_DESC_INLINE = 1u << 0,       /* local is copied by post: reusable at once, no LOCAL entry; bytes <= TT_INLINE_BYTES */
    TT_DESC_REMOTE = 1u << 1,       /* also report remote completion */
    TT_DESC_STREAM = 1u << 2,       /* hint: stores may bypass the cache, as the target is large and not read soon, or that has been found to take less */
    TT_DESC_URGENT = 1u << 3,       /* keeps its order, and its fences, among urgent ones only: it may overtake the others */
    TT_DESC_DIRECT = 1u << 5,       /* its source, or its target, is memory of a device: no processor may touch the bytes on their way. Not with INLINE; only
                                       where the wire has DEVICE */
    TT_DESC_WAKE = 1u << 4,         /* an instant put without a signal, of which its owner shall hear even if it sleeps, as it does of others */
    TT_DESC_HOT = 1u << 7,          /* hint: who posts it is likely to have its source in its cache: where the wire would leave the copy to the peer and may make it
                                       here (admit), it does */
    TT_DESC_FEW_LANES = 1u << 6,    /* of a put: `lane` is a bound, at least 1: over any of the first so many lanes that are up, and no others */
    TT_DESC_KEEP = 1u << 8          /* hint: the opposite of STREAM. Neither of the two: as the wire finds out */
};
#define TT_INLINE_BYTES 32768u

struct tt_desc {
    uint8_t kind : 4;               /* enum tt_desc_kind */
    uint8_t signal_op : 4;          /* enum tt_signal_op */
    uint8_t lane;                   /* of a put, a hint: 0, the wire chooses; else 1 + n: lane n modulo how many it has to the peer; or as FEW_LANES has it */
    uint16_t flags;
    uint32_t peer;                  /* FENCE; else key->peer */
    void *local;                    /* put: read; get: written; atomic: old value (uint64_t) or NULL */
    uint64_t bytes;
    const struct tt_rkey *key;      /* target (put, also one of zero bytes, and atomic) or source (get); alive during post only */
    uint64_t offset;                /* into it */
    const struct tt_rkey *signal_key;   /* the region of the signal word; alive during post only */
    uint64_t signal_offset;         /* 8-byte aligned */
    uint64_t signal_value;
    uint64_t operand;               /* atomic: fetch-and-add operand */
    uint64_t cookie;                /* comes back in tt_done */
};

enum tt_done_kind {
    TT_DONE_LOCAL,                  /* the source of `cookie` is reusable (or the get's or atomic's result is there) */
    TT_DONE_REMOTE,                 /* it has landed */
    TT_DONE_LINK_UP,                /* the link to `peer` is usable: `link` is set */
    TT_DONE_LINK_LOST               /* the peer's process is gone, or the connection cannot be (re)made; `status` says why (OK: it
                                       closed in order). All its outstanding descriptors are over: no further entries for them */
};

/* Each connection comes with two link regions of link_bytes: `mine` (this process's, zeroed, the peer may write it) and
 * `theirs` (its). The upper layer lays them out. They live until the link is lost or the wire is closed. */
struct tt_link {
    void *mine;
    struct tt_rkey theirs;
    bool anymem;                    /* this peer may be given keys of memory that the wire did not allocate. The two ends need not
                                       say the same */
    uint64_t round_trip_ns;         /* to the peer and back, as seen while connecting; 0: not known */
};

struct tt_done {
    uint8_t kind;                   /* enum tt_done_kind */
    uint32_t peer;
    uint64_t cookie;
    tutti_status status;
    struct tt_link link;
};

/* The first member of every wire's own struct. */
struct tt_wire {
    const struct tt_wire_ops *ops;
    uint32_t caps;                  /* TT_WIRE_CAP_*: only what every post honours on this machine */
    uint32_t whole_bytes;           /* up to so many bytes a put that is not instant costs less as a whole than in segments; 0: it makes no difference */
    const char *about;              /* what it found here, for people; NULL: nothing to tell. The wire's, until close */
    const char *unreached;          /* why its last connect was UNSUPPORTED, for people; NULL: nothing to tell. The wire's, until
                                       the next connect */
    bool crowded;                   /* ranks outnumber cores: poll does not do what peers can do alone. Its user's to set */
    bool unheard;                   /* what comes wakes nobody who sleeps, before arm has been called again. The wire's to set */
    bool together;                  /* who posts goes on posting, and then posts nothing (n = 0): puts that are not inline may wait for that. Its user's to set */
    bool gathers;                   /* with `together`: short puts that are inline may wait, too, once the wire has a copy of them.
                                       Its user's to set */
    bool busy;                      /* who polls has other things to do at once (what came may want an answer): long work of poll may wait a few polls */
};

struct tt_wire_ops {
    const char *name;               /* unique; also the file's name, e.g. "tcp" */
    const char *summary;
    bool by_name;                   /* used only where the list of wires (TUTTI_WIRES) names it */

    /* Starts the wire (listeners included). On success the caller owns *out and ends it with close. UNSUPPORTED, with a
     * sentence that is not logged, where this machine cannot. */
    tutti_status (*open)(struct tt_wire **out, const struct tt_wire_conf *conf);
    /* Ends it: links close, memory of its regions and links is unmapped; nothing touches anybody's memory afterwards. */
    void (*close)(struct tt_wire *w);
    /* What peers need to connect here. */
    tutti_status (*address)(struct tt_wire *w, struct tt_blob *out);
    /* Begins a link to `peer` at `address`; poll says LINK_UP or LINK_LOST. A second call for a peer does nothing. Both
     * ends may call at once: one link results. A peer that was connected to gets LINK_UP too. UNSUPPORTED (not logged)
     * if this wire cannot reach that address at all (tt_wire.unreached may say why): try the next wire. LINK_LOST with
     * status OK means that the peer closed its wire in order: what it sent before is still in `mine`, which stays readable
     * until this wire is closed. */
    tutti_status (*connect)(struct tt_wire *w, uint32_t peer, const struct tt_blob *address);

    /* Registers mem[bytes]; the caller keeps owning mem, and keeps it until dereg. mem NULL: the wire allocates (zeroed, page
     * aligned, mappable by peers if it can) and owns it. *out is the caller's, ended by dereg. UNSUPPORTED without ANYMEM. */
    tutti_status (*reg)(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
    /* Registers memory of the caller's that is only sent from; peers must not get its key. NULL: as reg (tt_wire_source). */
    tutti_status (*source)(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out);
    /* When it returns, nothing can change the region's memory through this wire any more: late arrivals are dropped. A peer that is
     * reading a source there drops what it reads from then on. Waits for no peer, but for the copy that each running peer may be
     * making into this memory. */
    void (*dereg)(struct tt_region *r);
    /* Peers do not begin to read the sources of puts whose cookie has these bits under `mask`; one that is reading drops what it reads: their signals
     * do not come, and they are reported. Also where other regions hold the same memory. Never waits for a peer. NULL: what is posted has been
     * read, or is stopped by dereg alone. */
    void (*take_back)(struct tt_wire *w, uint64_t cookie, uint64_t mask);
    /* As dereg for a part of memory that the wire allocated and peers have mapped: the pages that hold bytes [offset, offset + bytes) stay at
     * their addresses with what they hold, for this process alone. NULL on wires without MAPPED. */
    tutti_status (*withdraw)(struct tt_region *r, uint64_t offset, uint64_t bytes);
    /* `peer`, which gets the region's key, may write into it itself until dereg, if it posts puts that are HOT. False, or NULL: it may not, and such
     * puts are as any others. */
    bool (*admit)(struct tt_region *r, uint32_t peer);
    /* Makes a peer's key usable here. PROTOCOL (logged) if the blob is none of this wire's; PENDING if the memory's
     * descriptor is still on its way: poll, and call again; UNSUPPORTED (not logged) if it is of no use here: the wire had not
     * allocated it, and this peer cannot be given such (tt_link.anymem, as the peer sees it). */
    tutti_status (*import)(struct tt_wire *w, uint32_t peer, const struct tt_blob *key, struct tt_rkey *out);

    /* Posts up to n descriptors with one doorbell. Returns how many were taken, in order; the rest did not fit: poll and post
     * again. A descriptor to a lost peer is taken and forgotten. What is read or written without TT_DESC_INLINE lies in a
     * registered region of this wire or in a link region, so that dereg can stop it: a put whose source goes then
     * arrives whole (with a copy of what was left), or its signal does not come, and what it may have written of its target means
     * nothing. Either way it is reported. A put whose target is gone is dropped, and its signal with it. An instant one
     * (tt_put_is_instant) has no such needs. n 0 (desc may be NULL): what waits for more (tt_wire.together) goes now. */
    int (*post)(struct tt_wire *w, const struct tt_desc *desc, int n);
    /* Makes progress and fills done[max]; returns how many. */
    int (*poll)(struct tt_wire *w, struct tt_done *done, int max);
    /* Prepares to sleep: returns a descriptor (always the same) that becomes readable when poll would find something, or -1
     * if there is something already. After arming, the caller looks at its signal words once more before it
     * sleeps. The next poll disarms. */
    int (*arm)(struct tt_wire *w);
    /* Adds the wire's own memory, by purpose ("tcp: links"; base/memory.h), without that of its regions. */
    void (*memory)(const struct tt_wire *w, tutti_memory *m);
};

/* Registers mem[bytes], of the caller's, to send from. As reg in all else. */
static inline tutti_status tt_wire_source(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    return (w->ops->source ? w->ops->source : w->ops->reg)(w, mem, bytes, out);
}

/* Whether a put to that key is locally complete when post returns. */
static inline bool tt_put_is_instant(const struct tt_wire *w, const struct tt_rkey *key)
{
    return w->caps & TT_WIRE_CAP_INSTANT && key->mapped;
}

#endif
