/* Inside the shm wire: what its files share. Everything runs under the baton, as every call on a wire. */
#ifndef TT_WIRE_SHM_H
#define TT_WIRE_SHM_H

#include <stdalign.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "base/acceptor.h"
#include "base/chooser.h"
#include "base/slab.h"
#include "base/sparse.h"
#include "wire/shm_segment.h"
#include "wire/wires.h"

#define TT_SHM_MAGIC 0x314d4853u        /* "SHM1" */
#define TT_SHM_SEGMENTS_MAX 4096        /* segments one process may share at a time */
#define TT_SHM_STRANGERS_MAX 16         /* connections that have not said hello yet; the oldest make room */

/* One page per process, mapped by all its peers. */
struct tt_shm_bell {
    _Atomic uint32_t asleep;
};

/* A segment of ours or of a peer, or memory of our caller. */
struct tt_shm_shared {
    struct tt_segment seg;          /* base NULL: the caller's memory */
    uint64_t id;                    /* as keys and asks name it: segments count from 1, also where they take
                                       the place of one that is gone; memory of the caller is generation << 32 | slot,
                                       generations count from 1; 0 is the link region */
    struct tt_region region;        /* ours only */
    uint64_t *private;              /* bitmap of pages that were taken back from peers; NULL: none */
    bool used;
    bool permitted;                 /* peers may write into it (shm_push.c) */
    uint64_t change;                /* of our segments: which change the last of this slot was */
    struct tt_shm_shared *next_free;
};

/* ---- single copy: see shm_cma.c ---- */

#define TT_SHM_ASKS 128u            /* per link and direction */

/* "Fetch these bytes from my memory into yours, then raise this signal." Regions and offsets are the receiver's. */
struct tt_shm_ask {
    uint64_t from, bytes;
    uint64_t region, offset;
    uint64_t signal_region, signal; /* offset, a multiple of 8, plus enum tt_signal_op */
    uint64_t signal_value;
};

enum tt_shm_ask_state { TT_SHM_DONE, TT_SHM_POSTED, TT_SHM_REVOKED, TT_SHM_TAKEN };

struct tt_shm_ask_line {
    _Atomic uint64_t state;         /* number << 2 | enum tt_shm_ask_state */
    struct tt_shm_ask ask;
};
_Static_assert(sizeof(struct tt_shm_ask_line) == 64, "a request is a cache line");

/* A struct iovec that another process may change. */
struct tt_shm_vector {
    _Atomic uint64_t iov_base, iov_len;
};
_Static_assert(sizeof(struct tt_shm_vector) == sizeof(struct iovec) && sizeof(size_t) == 8, "the kernel reads it");

/* Who writes into another process: its thread, and what it writes to, a page that shows whose it is, and the bytes: see shm_writer.c. */
struct tt_shm_writer {
    _Atomic uint32_t tid;
    struct tt_shm_vector there[2];
};

/* The ask that its receiver and its sender move together, each from its end: see shm_share.c. Of a word: the ask's tag (16 bits), then two numbers of
 * 24 bits. */
struct tt_shm_share {
    alignas(64) _Atomic uint64_t claim;     /* what is left: [front, back), in units of 4 KiB; 0: closed */
    uint64_t to;                            /* where the receiver has it */
    alignas(64) _Atomic uint64_t written;   /* the sender's: failed or not, and from where on what it took is there */
    struct tt_shm_writer writer;
};

#define TT_SHM_PERMITS 4u           /* per link and direction */

/* A region that the sender may write into: see shm_push.c. */
struct tt_shm_permit {
    alignas(64) _Atomic uint64_t region;    /* 0: none */
    _Atomic uint64_t to;                    /* where the receiver has it */
    _Atomic uint64_t writing;               /* the sender's: the region that it is just writing into */
    struct tt_shm_writer writer;
};
_Static_assert(sizeof(struct tt_shm_permit) == 64, "a permit is a cache line");

/* In the receiver's link segment, behind the link region. */
struct tt_shm_asks {
    alignas(64) _Atomic uint32_t readable;  /* 1: the owner of this memory has read the other's */
    struct tt_shm_share share;
    struct tt_shm_permit permit[TT_SHM_PERMITS];
    struct tt_shm_ask_line line[TT_SHM_ASKS];
};

struct tt_shm_asker;

/* ---- the rest ---- */

enum tt_shm_state { TT_SHM_NONE, TT_SHM_WANTED, TT_SHM_GREETING, TT_SHM_UP, TT_SHM_LOST };

struct tt_shm_peer {
    uint32_t rank;
    enum tt_shm_state state;
    struct tt_chooser stores;       /* of long copies; 1: past the cache */
    bool bye, fence;
    bool first;                     /* nothing was heard of it yet: a refusal says that it is elsewhere, or gone */
    int fd;                         /* the socket; -1 none */
    int bell_fd;
    uint64_t told;                  /* the newest change of our segments that it has been told of */
    uint64_t retry_ns;
    struct sockaddr_un addr;
    socklen_t addr_len;
    struct tt_segment mine, theirs, bell;
    struct tt_shm_shared *segments; /* theirs, [nsegments], by slot; base NULL: none */
    uint32_t nsegments;

    bool readable;                  /* its memory can be read from here: it may ask */
    pid_t pid;
    uint64_t nonce_at, nonce;       /* a number of its own, and where it has it */
    uint64_t served;                /* its asks that are over */
    struct tt_shm_ask ask;          /* the one that is being served: a copy that the peer cannot change … */
    uint64_t fetched;               /* … and how much of it has been fetched */
    bool begun;                     /* it has been looked at */
    bool sharing;                   /* and may be written by the peer as well */
    bool unwritable;                /* its memory cannot be written from here */
    bool threads_seen;              /* its threads' states can be seen from here */
    uint8_t alone;                  /* shares in a row that the peer had no part in */
    uint32_t taken;                 /* of the one that is shared, pages from the front on that we took */
    uint64_t permitted[TT_SHM_PERMITS];     /* regions of ours that it may write into; 0: none */
    uint32_t nasked;                /* ours that are not over */
    struct tt_shm_asker *asker;     /* ours; made at the first */
};

/* An accepted connection that has not said hello. */
struct tt_shm_stranger {
    int fd;
    uint64_t until_ns;
    bool other_user;
};

struct tt_shm {
    struct tt_wire base;
    struct tt_wire_conf conf;
    int epoll, bell_fd;
    struct tt_acceptor acceptor;
    uint8_t name[16];
    uint64_t host;
    struct tt_segment bell;
    bool fence;                     /* no expedited membarrier here */
    bool armed;
    uint32_t polls, put_off;        /* put_off: polls in a row that left asks to a later one */
    struct tt_shm_stranger strangers[TT_SHM_STRANGERS_MAX];
    struct tt_sparse peers;         /* struct tt_shm_peer, by rank; made at first use, from the slab */
    struct tt_slab peer_slab;
    uint32_t nwanted;               /* peers in TT_SHM_WANTED */
    struct tt_shm_shared *shared;   /* ours, by slot; [nshared] of TT_SHM_SEGMENTS_MAX, never moved */
    struct tt_shm_shared *free_shared;
    uint32_t nshared;
    uint64_t newest;                /* id of the last segment that was registered */
    uint64_t changes;               /* segments registered and deregistered */
    struct tt_segment *gone;        /* [ngone] of gone_cap: where segments of peers were mapped that are no more */
    uint32_t ngone, gone_cap;
    struct tt_shm_shared **own;     /* memory of our caller, by slot, [nown] of own_cap; records are never freed before close */
    struct tt_shm_shared *free_own;
    uint32_t nown, own_cap;
    struct tt_shm_peer **links;     /* those whose links came up, [nlinks]; room for all peers */
    uint32_t nlinks, first;         /* first: whose asks are looked at first */
    uint64_t nonce;                 /* what peers that can read us find; 0: single copy is off */
    uint64_t *guard;                /* a page at a random address: its first word is the nonce, peers write the second */
    uint32_t nasked;                /* of all peers */
    struct tt_done *done;           /* ring of [done_cap], which grows with the number of peers: each may come and go at once */
    uint32_t done_head, done_tail, done_cap;
};

/* Bytes of a link segment, and the asks in it. */
static inline uint64_t tt_shm_asks_offset(const struct tt_shm *w) { return (w->conf.link_bytes + 63) / 64 * 64; }
static inline uint64_t tt_shm_link_bytes(const struct tt_shm *w)
{
    return tt_shm_asks_offset(w) + sizeof(struct tt_shm_asks);
}
static inline struct tt_shm_asks *tt_shm_asks_in(const struct tt_shm *w, const struct tt_segment *link)
{
    return (struct tt_shm_asks *)(void *)((char *)link->base + tt_shm_asks_offset(w));
}

static inline struct tt_shm *tt_shm_of(struct tt_wire *w) { return (struct tt_shm *)w; }
static inline struct tt_shm_shared *tt_shm_shared_of(struct tt_region *region)
{
    return (struct tt_shm_shared *)((char *)region - offsetof(struct tt_shm_shared, region));
}
static inline struct tt_shm_bell *tt_shm_bell_of(const struct tt_segment *seg) { return seg->base; }

/* ---- shm.c ---- */

/* Queues an event for poll. */
void tt_shm_tell(struct tt_shm *w, const struct tt_done *d);
/* What there is of a rank; NULL: nothing was exchanged with it yet. */
static inline struct tt_shm_peer *tt_shm_peer_of(const struct tt_shm *w, uint32_t rank)
{
    return tt_sparse_get(&w->peers, rank);
}
/* The same, made if it is not there. NULL: no memory. */
struct tt_shm_peer *tt_shm_peer_make(struct tt_shm *w, uint32_t rank);
/* Wakes the peer if it sleeps: after something was stored that it should see. */
void tt_shm_ring(struct tt_shm_peer *peer);

/* ---- shm_link.c ---- */

tutti_status tt_shm_connect(struct tt_wire *base, uint32_t rank, const struct tt_blob *address);
/* Opens the listener, and watches it and the bell. */
tutti_status tt_shm_listen(struct tt_shm *w);
/* Looks at all sockets, and at the clock. */
void tt_shm_look(struct tt_shm *w);
/* Reads what the peer's socket holds. */
void tt_shm_hear(struct tt_shm *w, struct tt_shm_peer *peer);
/* Tells the peer which segments there are that it does not know, and which are no more; stops when its socket is full and goes on in a later
 * look. */
void tt_shm_send_changes(struct tt_shm *w, struct tt_shm_peer *peer);
void tt_shm_link_lost(struct tt_shm *w, struct tt_shm_peer *peer, tutti_status why);
/* Says goodbye where that can be heard, and unmaps what belongs to links. */
void tt_shm_links_close(struct tt_shm *w);
void tt_shm_memory(const struct tt_wire *base, tutti_memory *m);

/* ---- shm_region.c ---- */

tutti_status tt_shm_reg(struct tt_wire *base, void *mem, size_t bytes, struct tt_region **out);
void tt_shm_dereg(struct tt_region *region);
tutti_status tt_shm_withdraw(struct tt_region *region, uint64_t offset, uint64_t bytes);
tutti_status tt_shm_import(struct tt_wire *base, uint32_t rank, const struct tt_blob *key, struct tt_rkey *out);
/* The peer has registered a segment: maps it. What was in its slot before is no more. The descriptor is taken over. */
tutti_status tt_shm_segment_add(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t id, uint32_t slot, int fd,
                                uint64_t bytes);
/* The peer has deregistered what was in that slot, if there was something. */
void tt_shm_segment_forget(struct tt_shm *w, struct tt_shm_peer *peer, uint32_t slot);
/* The `bytes` at `offset` of our region `id`, or of the link region that `peer` may write. NULL: it is gone, or was never so large. */
uint8_t *tt_shm_memory_of(struct tt_shm *w, const struct tt_shm_peer *peer, uint64_t id, uint64_t offset,
                          uint64_t bytes);
/* Whether these bytes lie in a registered region. */
bool tt_shm_is_registered(const struct tt_shm *w, const void *mem, uint64_t bytes);
void tt_shm_regions_close(struct tt_shm *w);

/* ---- shm_cma.c ---- */

/* Turns single copy on, if the system lets a process read memory at all. */
void tt_shm_cma_open(struct tt_shm *w);
/* Finds out whether the peer, which has `nonce` at `nonce_at` (0: it does not want to be read), can be read, and lets it know. */
void tt_shm_cma_meet(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t nonce_at, uint64_t nonce);
/* The put as an ask. False: there is no room now. */
bool tt_shm_ask(struct tt_shm *w, struct tt_shm_peer *peer, const struct tt_desc *d);
/* Serves what peers ask, for a bounded time. False: there was nothing to serve. */
bool tt_shm_serve(struct tt_shm *w);
/* Of our asks to the peer the one with that tag, if it is still to be fetched, from where and how much. */
bool tt_shm_ask_of_tag(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t tag, uint64_t *number, const uint8_t **from,
                       uint64_t *bytes);
static inline uint64_t tt_shm_tag_of(uint64_t number)
{
    return number % 65535 + 1;
} /* never 0 */
/* Whether the process of that pid is surely not the peer any more. */
bool tt_shm_is_another(const struct tt_shm_peer *peer);
/* Reports asks of ours that are over; returns how many entries of done[max] it took. */
int tt_shm_asks_over(struct tt_shm *w, struct tt_done *done, int max);
/* Whether serve or over would find something. */
bool tt_shm_cma_has_news(const struct tt_shm *w);
/* Memory is no longer registered: asks to fetch from it are revoked. */
void tt_shm_source_gone(struct tt_shm *w, const void *mem, uint64_t bytes);
/* Asks whose cookie has these bits under mask are revoked. */
void tt_shm_take_back_of(struct tt_shm *w, uint64_t cookie, uint64_t mask);
/* The link is lost: what was done is still reported, the rest is revoked and forgotten. */
void tt_shm_asks_lost(struct tt_shm *w, struct tt_shm_peer *peer);
/* Gives peers time to fetch what they were asked to; then revokes it. */
void tt_shm_cma_close(struct tt_shm *w);
/* That our asks to the peer take here. */
uint64_t tt_shm_asks_bytes(const struct tt_shm_peer *peer);

/* ---- shm_writer.c ---- */

/* Makes w->guard. False: no memory. */
bool tt_shm_guard_open(struct tt_shm *w);
void tt_shm_guard_close(struct tt_shm *w);
/* Finds out whether the threads of the peer, whose pid is known, can be seen, under the numbers that it knows them by. Else it must not write here. */
void tt_shm_writer_meet(struct tt_shm_peer *peer);
/* From now on no call begins to write; one may be on its way. */
void tt_shm_writer_stop(struct tt_shm_writer *r);
/* How a wait for the end of a call goes. */
struct tt_shm_writing {
    uint64_t looks, began_ns;
    bool told;
};
/* Between two looks at whether a writer that was stopped has ended its call: yields. False: it is not in a call. */
bool tt_shm_writer_may_be_in(const struct tt_shm_writer *r, const struct tt_shm_peer *peer,
                             struct tt_shm_writing *wait);
/* What a call is to write to. The caller looks once more whether it may before it goes. */
void tt_shm_writer_aim(struct tt_shm_writer *r, const struct tt_shm_peer *peer, uint64_t to, uint64_t bytes);
/* Writes. False if not all got there. */
bool tt_shm_writer_go(const struct tt_shm_writer *r, const struct tt_shm *w, const struct tt_shm_peer *peer,
                      const uint8_t *from, uint64_t bytes);

/* ---- shm_push.c ---- */

/* The peer may write into the region from now on. False: it must not, or has as many permits as there are. */
bool tt_shm_admit(struct tt_region *region, uint32_t rank);
/* It writes nowhere any more when these return: into no region, and into that one, nobody. */
void tt_shm_permits_close(struct tt_shm *w, struct tt_shm_peer *peer);
void tt_shm_permits_close_of(struct tt_shm *w, uint64_t region);
/* Writes the put's bytes to where they belong, if that may be. False: it may not. */
bool tt_shm_push(struct tt_shm *w, struct tt_shm_peer *peer, const struct tt_desc *d);

/* ---- shm_share.c ---- */

#define TT_SHM_SHARE_BYTES 65536u   /* asks from here on are shared */

/* The ask that is being served, whose place here is `to`, may be written by its sender, too, if it is of a kind that pays. */
bool tt_shm_share_open(struct tt_shm *w, struct tt_shm_peer *peer, uint8_t *to);
/* Takes up to `most` bytes of the shared ask to fetch. False: `most` is too little, or nothing is left to take. */
bool tt_shm_share_take(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t most, uint64_t *at, uint64_t *bytes);
enum tt_shm_rest {
    TT_SHM_REST_MORE,               /* there is something to take */
    TT_SHM_REST_LATER,              /* the sender is writing */
    TT_SHM_REST_FAILED,             /* it could not: [at, at + bytes) is to be fetched, and then the ask is here; it is not shared any more */
    TT_SHM_REST_NONE                /* the ask is here, and not shared any more */
};
enum tt_shm_rest tt_shm_share_rest(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t *at, uint64_t *bytes);
/* Whether the sender is writing, and nothing is left to take: it rings when it has written. */
bool tt_shm_share_waits(const struct tt_shm *w, const struct tt_shm_peer *peer);
/* Nobody writes here any more when it returns. Does nothing where the peer's ask is not shared. */
void tt_shm_share_close(struct tt_shm *w, struct tt_shm_peer *peer);
/* The same for all asks whose target is in that region of ours. */
void tt_shm_share_close_of(struct tt_shm *w, uint64_t region);

/* Writes a piece of an ask of ours whose receiver shares it. False: there is none. */
bool tt_shm_share_help(struct tt_shm *w);

#endif
