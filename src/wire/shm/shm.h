/* Private declarations of the shm transport. All code runs under the progress lock, like every call
 * of a wire. */
#ifndef TT_WIRE_SHM_H
#define TT_WIRE_SHM_H

#include <stdalign.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "base/acceptor.h"
#include "base/autotune.h"
#include "base/slab.h"
#include "base/sparse.h"
#include "wire/shm/shm_segment.h"
#include "wire/wires.h"

#define TT_SHM_MAGIC 0x314d4853u        /* "SHM1" */
/* maximum number of segments that a process shares at a time */
#define TT_SHM_SEGMENTS_MAX 4096
/* maximum number of connections before their HELLO; the oldest are dropped */
#define TT_SHM_PENDING_MAX 16

/* A link needs a socket, an eventfd and three segments. */
#define TT_SHM_LINK_DESCRIPTORS 5u
/* Descriptors that links leave free: for control connections, other transports and the program. */
#define TT_SHM_RESERVE 24u
/* Completions queued for poll, besides one connect and one loss per peer. */
#define TT_SHM_DONES 64
#define TT_SHM_ID_OF_CALLER (1ull << 32)    /* ids from here on: generation << 32 | slot */
#define TT_SHM_LINKS_COUNTED 1024u  /* links_max of this value or more: unlimited */

/* One page per process, mapped by all its peers. */
struct tt_shm_bell {
    _Atomic uint32_t asleep;
};

/* A segment of this process or a peer, or memory of the caller. */
struct tt_shm_shared {
    struct tt_segment seg;          /* base NULL: memory of the caller */
    uint64_t id;                    /* as in keys and pull requests: segments count from 1, also
                                       when a slot is reused; memory of the caller is generation
                                       << 32 | slot, with generations from 1; 0 is the link
                                       region */
    struct tt_region region;        /* of this process only */
    uint64_t *private;              /* bitmap of pages withdrawn from peers; NULL: none */
    bool used;
    bool permitted;                 /* a peer may write into it (shm_push.c) */
    uint64_t change;                /* number of the last change of this slot, for segments of
                                       this process */
    struct tt_shm_shared *next_free;
};

/* ---- single copy: see shm_cma.c ---- */

#define TT_SHM_PULLS 128u            /* pull requests per link and direction */

/* A pull request: the receiver copies these bytes from the sender's memory into its own, then
 * raises the signal. Regions and offsets are the receiver's. */
struct tt_shm_pull {
    uint64_t from, bytes;
    uint64_t region, offset;
    uint64_t signal_region, signal; /* offset, a multiple of 8, plus enum tt_signal_op */
    uint64_t signal_value;
};

enum tt_shm_pull_state { TT_SHM_DONE, TT_SHM_POSTED, TT_SHM_REVOKED, TT_SHM_TAKEN };

struct tt_shm_pull_line {
    _Atomic uint64_t state;         /* number << 2 | enum tt_shm_pull_state */
    struct tt_shm_pull request;
};
_Static_assert(sizeof(struct tt_shm_pull_line) == 64, "a request is a cache line");

/* A struct iovec that another process may change. */
struct tt_shm_vector {
    _Atomic uint64_t iov_base, iov_len;
};
_Static_assert(sizeof(struct tt_shm_vector) == sizeof(struct iovec) && sizeof(size_t) == 8,
               "the kernel reads it");

/* State of a write into another process: the writing thread, and the two targets (guard page and
 * data). See shm_writer.c. */
struct tt_shm_writer {
    _Atomic uint32_t tid;
    struct tt_shm_vector there[2];
};

/* A pull request that receiver and sender copy together, each from its end: see shm_share.c. Each
 * word has the request's tag (16 bits) and two 24-bit numbers. */
struct tt_shm_share {
    alignas(64) _Atomic uint64_t claim;     /* remaining range [front, back), in units of 4 KiB;
                                               0: closed */
    uint64_t to;                            /* destination in the receiver */
    alignas(64) _Atomic uint64_t written;   /* written by the sender: whether it failed, and the
                                               start of its written part */
    struct tt_shm_writer writer;
};

#define TT_SHM_PERMITS 4u           /* permits per link and direction */

/* A region that the sender may write into: see shm_push.c. */
struct tt_shm_permit {
    alignas(64) _Atomic uint64_t region;    /* 0: none */
    _Atomic uint64_t to;                    /* address of the region in the receiver */
    _Atomic uint64_t writing;               /* written by the sender: the region into which it is
                                               writing */
    struct tt_shm_writer writer;
};
_Static_assert(sizeof(struct tt_shm_permit) == 64, "a permit is a cache line");

/* In the receiver's link segment, after the link region. */
struct tt_shm_pulls {
    alignas(64) _Atomic uint32_t readable;  /* 1: the owner of this memory can read the other
                                               process's memory */
    struct tt_shm_share share;
    struct tt_shm_permit permit[TT_SHM_PERMITS];
    struct tt_shm_pull_line line[TT_SHM_PULLS];
};

struct tt_shm_pull_queue;

/* ---- the rest ---- */

enum tt_shm_state { TT_SHM_NONE, TT_SHM_WANTED, TT_SHM_HANDSHAKE, TT_SHM_UP, TT_SHM_LOST };

struct tt_shm_peer {
    uint32_t rank;
    enum tt_shm_state state;
    struct tt_wire_posts posts;
    struct tt_autotune stores;      /* tt_copy_to_peer */
    bool bye, fence;
    bool first;                     /* no packet received yet: a refused connection means that
                                       the peer is on another host, or has ended */
    int fd;                         /* the socket; -1: none */
    int bell_fd;
    uint64_t changes_sent;                  /* newest change of our segments that was sent to the
                                               peer */
    uint64_t retry_ns;
    struct sockaddr_un addr;
    socklen_t addr_len;
    struct tt_segment mine, theirs, bell;
    struct tt_shm_shared *segments; /* segments of the peer, [nsegments], by slot; base NULL:
                                       none */
    uint32_t nsegments;

    bool readable;                  /* this process can read the peer's memory: the peer may send
                                       pull requests */
    pid_t pid;
    uint64_t nonce_at, nonce;       /* nonce: a random number in the peer's memory; nonce_at: its
                                       address there */
    uint64_t served;                /* number of the peer's completed pull requests */
    struct tt_shm_pull request;          /* current pull request: a copy that the peer cannot
                                            change */
    uint64_t fetched;               /* bytes of it that have been copied */
    bool begun;                     /* the current request has been read */
    bool sharing;                   /* the current request may also be written by the peer */
    bool unwritable;                /* this process cannot write the peer's memory */
    bool threads_seen;              /* this process can read the states of the peer's threads */
    uint8_t alone;                  /* number of consecutive shared requests of which the peer
                                       copied nothing */
    uint32_t taken;                 /* pages of the shared request that this process took, from its
                                       front */
    uint64_t permitted[TT_SHM_PERMITS];     /* regions of this process that the peer may write into;
                                               0: none */
    uint32_t npulls;                /* our incomplete pull requests to the peer */
    struct tt_shm_pull_queue *asker;     /* our pull requests; allocated at the first */
};

/* An accepted connection before its HELLO. */
struct tt_shm_pending {
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
    uint32_t descriptors_free;      /* number of free descriptors when the transport was opened */
    uint32_t links_max;             /* links for which descriptors are free; part of the address */
    bool scarce;                    /* a peer was not connected for lack of descriptors */
    char why_scarce[192];
    bool fence;                     /* expedited membarrier is not available */
    bool armed;
    uint32_t polls, put_off;        /* put_off: polls in a row that served no pull requests */
    struct tt_shm_pending pending[TT_SHM_PENDING_MAX];
    struct tt_sparse peers;         /* struct tt_shm_peer, by rank; made at first use, from the
                                       slab */
    struct tt_slab peer_slab;
    uint32_t nwanted;               /* peers in TT_SHM_WANTED */
    struct tt_shm_shared *shared;   /* segments of this process, by slot: [nshared] of
                                       TT_SHM_SEGMENTS_MAX, never moved */
    struct tt_shm_shared *free_shared;
    uint32_t nshared;
    uint64_t newest;                /* id of the last registered segment */
    uint64_t changes;               /* number of registrations and deregistrations of segments */
    struct tt_segment *gone;        /* [ngone] of gone_cap: former address ranges of removed peer
                                       segments */
    uint32_t ngone, gone_cap;
    struct tt_shm_shared **own;     /* memory of the caller, by slot, [nown] of own_cap; records
                                       are freed only by close */
    struct tt_shm_shared *free_own;
    uint32_t nown, own_cap;
    struct tt_shm_peer **links;     /* peers whose links came up, [nlinks], with space for all
                                       peers */
    uint32_t nlinks, first;         /* first: index of the link to serve first */
    uint64_t nonce;                 /* value by which peers verify reads of this process; 0:
                                       single copy is disabled */
    uint64_t *guard;                /* a page at a random address: its first word is the nonce,
                                       peers write the second */
    uint32_t npulls;                /* number of outstanding pull requests of all peers */
    struct tt_done *done;           /* ring of [done_cap], which grows with the number of peers:
                                       each peer may connect and fail at once */
    uint32_t done_head, done_tail, done_cap;
};

/* Offset of the pull requests in a link segment, and its total bytes. */
static inline uint64_t tt_shm_pulls_offset(const struct tt_shm *w)
{
    return (w->conf.link_bytes + 63) / 64 * 64;
}
static inline uint64_t tt_shm_link_bytes(const struct tt_shm *w)
{
    return tt_shm_pulls_offset(w) + sizeof(struct tt_shm_pulls);
}
static inline struct tt_shm_pulls *tt_shm_pulls_in(const struct tt_shm *w,
                                                   const struct tt_segment *link)
{
    return (struct tt_shm_pulls *)(void *)((char *)link->base + tt_shm_pulls_offset(w));
}

/* Value of a request's state, and the line of a request. */
static inline uint64_t tt_shm_pull_state(uint64_t number, enum tt_shm_pull_state s)
{
    return number << 2 | s;
}
static inline struct tt_shm_pull_line *tt_shm_pull_line(struct tt_shm_pulls *pulls, uint64_t number)
{
    return &pulls->line[number % TT_SHM_PULLS];
}

static inline struct tt_shm *tt_shm_of(struct tt_wire *w) { return (struct tt_shm *)w; }
static inline struct tt_shm_shared *tt_shm_shared_of(struct tt_region *region)
{
    return (struct tt_shm_shared *)((char *)region - offsetof(struct tt_shm_shared, region));
}
/* Returns whether posters issue a fence, instead of the sleeper's membarrier. Constant after the
 * first connection. */
static inline bool tt_shm_posters_fence(const struct tt_shm *w)
{
    return w->fence || w->base.sleepy;
}

static inline struct tt_shm_bell *tt_shm_bell_of(const struct tt_segment *seg) { return seg->base; }

/* ---- shm_peer.c ---- */

/* Queues an event for poll. */
void tt_shm_complete(struct tt_shm *w, const struct tt_done *d);
/* Returns the state of a rank, or NULL if it has none. */
static inline struct tt_shm_peer *tt_shm_peer_of(const struct tt_shm *w, uint32_t rank)
{
    return tt_sparse_get(&w->peers, rank);
}
/* As tt_shm_peer_of, but creates the state if needed. NULL: out of memory. */
struct tt_shm_peer *tt_shm_peer_make(struct tt_shm *w, uint32_t rank);
/* Wakes the peer if it sleeps, after a store that it should observe. */
void tt_shm_ring(struct tt_shm_peer *peer);
/* Reads `bytes` at `from` of that process to `to`. Returns 0, ESRCH if it is not the process with
 * `nonce` at `nonce_at`, or another errno. */
int tt_shm_read(pid_t pid, uint64_t nonce_at, uint64_t nonce, void *to, uint64_t from,
                uint64_t bytes);
/* Returns whether the process of that pid is certainly no longer the peer. */
bool tt_shm_is_another(const struct tt_shm_peer *peer);

/* ---- shm_link.c ---- */

tutti_status tt_shm_connect(struct tt_wire *base, uint32_t rank, const struct tt_blob *address);
/* Opens the listener, and watches it and the bell. */
tutti_status tt_shm_listen(struct tt_shm *w);
/* Handles all sockets and timeouts. */
void tt_shm_poll_sockets(struct tt_shm *w);
/* Receives the packets of the peer's socket. */
void tt_shm_receive_packets(struct tt_shm *w, struct tt_shm_peer *peer);
/* Sends the pending segment changes to the peer. If its socket is full, tt_shm_poll_sockets
 * continues later. */
void tt_shm_send_changes(struct tt_shm *w, struct tt_shm_peer *peer);
void tt_shm_link_lost(struct tt_shm *w, struct tt_shm_peer *peer, tutti_status why);
/* Sends BYE to connected peers, and unmaps the memory of links. */
void tt_shm_links_close(struct tt_shm *w);
void tt_shm_memory(const struct tt_wire *base, tutti_memory *m);

/* ---- shm_region.c ---- */

/* Maps a segment that the peer has registered, in place of an earlier one in its slot. Takes
 * ownership of the descriptor. */
tutti_status tt_shm_segment_add(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t id,
                                uint32_t slot, int fd, uint64_t bytes);
/* Removes the segment in that slot, if any, which the peer has deregistered. */
void tt_shm_segment_remove(struct tt_shm *w, struct tt_shm_peer *peer, uint32_t slot);
/* Returns the address of `bytes` bytes at `offset` of region `id`, or of the link region that
 * `peer` may write. NULL: deregistered or out of range. */
uint8_t *tt_shm_memory_of(struct tt_shm *w, const struct tt_shm_peer *peer, uint64_t id,
                          uint64_t offset, uint64_t bytes);
/* Returns whether these bytes lie in a registered region. */
bool tt_shm_is_registered(const struct tt_shm *w, const void *mem, uint64_t bytes);
void tt_shm_regions_close(struct tt_shm *w);

/* ---- shm_cma.c ---- */

/* Enables single copy if the kernel allows a process to read another's memory. */
void tt_shm_cma_open(struct tt_shm *w);
/* Checks whether this process can read the peer, which has `nonce` at `nonce_at` (0: the peer
 * disallows reads), and sends it the result. */
void tt_shm_cma_check_peer(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t nonce_at,
                           uint64_t nonce);
/* Posts the put as a pull request. Returns false if there is no space now. */
bool tt_shm_pull(struct tt_shm *w, struct tt_shm_peer *peer, const struct tt_desc *d);
/* Finds our pull request to the peer with that tag, if its data is still needed, and returns its
 * source. */
bool tt_shm_pull_of_tag(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t tag, uint64_t *number,
                        const uint8_t **from, uint64_t *bytes);
static inline uint64_t tt_shm_tag_of(uint64_t number)
{
    return number % 65535 + 1;
} /* never 0 */
/* Reports completed pull requests of this process. Returns the number of entries written to
 * done[max]. */
int tt_shm_pulls_poll(struct tt_shm *w, struct tt_done *done, int max);
/* Returns whether tt_shm_pulls_poll has a completed request to the peer. */
bool tt_shm_pulls_have_news(const struct tt_shm *w, const struct tt_shm_peer *peer);
/* Returns whether a peer has yet to read data or raise a signal. */
bool tt_shm_pulls_pending(struct tt_shm *w);
/* Revokes our pull requests to the peer, and frees their memory. */
void tt_shm_pulls_close(struct tt_shm *w, struct tt_shm_peer *peer);
/* The memory is not registered any more: revokes the pull requests that read it. */
void tt_shm_revoke_source(struct tt_shm *w, const void *mem, uint64_t bytes);
/* Revokes the pull requests whose cookie equals `cookie` under `mask`. */
void tt_shm_revoke_cookies(struct tt_shm *w, uint64_t cookie, uint64_t mask);
/* The link is lost: keeps completed pull requests for reporting, and revokes and drops the
 * others. */
void tt_shm_pulls_lost(struct tt_shm *w, struct tt_shm_peer *peer);
/* Returns the bytes of our incomplete pull requests to the peer. */
uint64_t tt_shm_pulls_pending_bytes(const struct tt_shm_peer *peer);
/* Memory used by our pull requests to the peer. */
uint64_t tt_shm_pulls_bytes(const struct tt_shm_peer *peer);

/* ---- shm_writer.c ---- */

/* Allocates w->guard. Returns false if out of memory. */
bool tt_shm_guard_open(struct tt_shm *w);
void tt_shm_guard_close(struct tt_shm *w);
/* Checks whether the threads of the peer, whose pid is known, are visible under the thread IDs that
 * the peer uses. Otherwise the peer must not write here. */
void tt_shm_writer_check_peer(struct tt_shm_peer *peer);
/* Prevents further writes; one may still be in progress. */
void tt_shm_writer_stop(struct tt_shm_writer *r);
/* State of a wait for the end of a write. */
struct tt_shm_writing {
    uint64_t looks, began_ns;
    bool logged;
};
/* Yields between two checks for the end of a stopped writer's call. Returns false if it is not in a
 * call. */
bool tt_shm_writer_may_be_in(const struct tt_shm_writer *r, const struct tt_shm_peer *peer,
                             struct tt_shm_writing *wait);
/* Sets the target of the next write. The caller must check once more that it may write before
 * tt_shm_writer_go. */
void tt_shm_writer_aim(struct tt_shm_writer *r, const struct tt_shm_peer *peer, uint64_t to,
                       uint64_t bytes);
/* Writes. Returns false unless all bytes were written. */
bool tt_shm_writer_go(const struct tt_shm_writer *r, const struct tt_shm *w,
                      const struct tt_shm_peer *peer, const uint8_t *from, uint64_t bytes);

/* ---- shm_push.c ---- */

/* Permits the peer to write into the region from now on. Returns false if it cannot, or has the
 * maximum number of permits. */
bool tt_shm_admit(struct tt_region *region, uint32_t rank);
/* Revoke permits: all of the peer, or those of the region. When they return, no write is in
 * progress. */
void tt_shm_permits_close(struct tt_shm *w, struct tt_shm_peer *peer);
void tt_shm_permits_close_of(struct tt_shm *w, uint64_t region);
/* Writes the put's bytes directly to their destination if permitted; otherwise returns false. */
bool tt_shm_push(struct tt_shm *w, struct tt_shm_peer *peer, const struct tt_desc *d);

/* ---- shm_serve.c ---- */

/* Serves pull requests of peers, for a bounded time. Returns false if there were none. */
bool tt_shm_serve(struct tt_shm *w);
/* Returns whether tt_shm_serve or tt_shm_pulls_poll has work. */
bool tt_shm_serve_has_news(const struct tt_shm *w);
/* Waits for peers to serve pending pull requests, for a bounded time; then revokes them. */
void tt_shm_serve_close(struct tt_shm *w);

/* ---- shm_register.c ---- */

tutti_status tt_shm_reg(struct tt_wire *base, void *mem, size_t bytes, struct tt_region **out);
void tt_shm_dereg(struct tt_region *region);
tutti_status tt_shm_withdraw(struct tt_region *region, uint64_t offset, uint64_t bytes);
tutti_status tt_shm_import(struct tt_wire *base, uint32_t rank, const struct tt_blob *key,
                           struct tt_rkey *out);

/* ---- shm_share.c ---- */

#define TT_SHM_SHARE_BYTES 65536u   /* minimum bytes of a shared pull request */

/* Shares the current pull request, whose destination is `to`, with its sender if that is expected
 * to be faster. */
bool tt_shm_share_open(struct tt_shm *w, struct tt_shm_peer *peer, uint8_t *to);
/* Takes up to `most` bytes of the shared request to copy. Returns false if `most` is too small, or
 * nothing remains. */
bool tt_shm_share_take(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t most, uint64_t *at,
                       uint64_t *bytes);
enum tt_shm_rest {
    TT_SHM_REST_MORE,               /* more bytes can be taken */
    TT_SHM_REST_LATER,              /* the sender is still writing */
    TT_SHM_REST_FAILED,             /* the sender failed: copying [at, at + bytes) completes the
                                       request, which is not shared any more */
    TT_SHM_REST_NONE                /* the request is complete, and not shared any more */
};
enum tt_shm_rest tt_shm_share_rest(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t *at,
                                   uint64_t *bytes);
/* Returns whether nothing remains to take while the sender is still writing; the sender rings the
 * bell when done. */
bool tt_shm_share_waits(const struct tt_shm *w, const struct tt_shm_peer *peer);
/* When it returns, the peer does not write here any more. Does nothing if the peer's request is not
 * shared. */
void tt_shm_share_close(struct tt_shm *w, struct tt_shm_peer *peer);
/* As tt_shm_share_close, for all requests whose target is in that region. */
void tt_shm_share_close_of(struct tt_shm *w, uint64_t region);

/* Writes a piece of one of our shared pull requests. Returns false if there is none. */
bool tt_shm_share_help(struct tt_shm *w);

#endif
