/* Inside the shm wire: what its files share. Everything runs under the baton, as every call on a wire. */
#ifndef TT_WIRE_SHM_H
#define TT_WIRE_SHM_H

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "wire/shm_segment.h"
#include "wire/wires.h"

#define TT_SHM_MAGIC 0x314d4853u        /* "SHM1" */
#define TT_SHM_SEGMENTS_MAX 4096        /* segments one process may share */
#define TT_SHM_STRANGERS_MAX 16         /* connections that have not said hello yet */

/* One page per process, mapped by all its peers. */
struct tt_shm_bell {
    _Atomic uint32_t asleep;
};

/* A segment of ours or of a peer. */
struct tt_shm_shared {
    struct tt_segment seg;
    uint64_t id;
    struct tt_region region;        /* ours only */
    bool used;
};

enum tt_shm_state { TT_SHM_NONE, TT_SHM_WANTED, TT_SHM_GREETING, TT_SHM_UP, TT_SHM_LOST };

struct tt_shm_peer {
    enum tt_shm_state state;
    bool bye, fence;
    int fd;                         /* the socket; -1 none */
    int bell_fd;
    uint32_t segments_sent;         /* how many of w->shared it has been told of */
    uint64_t retry_ns;
    struct sockaddr_un addr;
    socklen_t addr_len;
    struct tt_segment mine, theirs, bell;
    struct tt_shm_shared *segments; /* theirs, [nsegments] */
    uint32_t nsegments, segments_cap;
};

/* An accepted connection that has not said hello. */
struct tt_shm_stranger {
    int fd;
    uint64_t until_ns;
};

struct tt_shm {
    struct tt_wire base;
    struct tt_wire_conf conf;
    int listener, epoll, bell_fd;
    uint8_t name[16];
    uint64_t host;
    struct tt_segment bell;
    bool fence;                     /* no expedited membarrier here */
    bool armed;
    uint32_t polls;
    struct tt_shm_stranger strangers[TT_SHM_STRANGERS_MAX];
    struct tt_shm_peer *peers;      /* [nranks] */
    uint32_t nwanted;               /* peers in TT_SHM_WANTED */
    struct tt_shm_shared *shared;   /* ours, in order of registration; [nshared] of TT_SHM_SEGMENTS_MAX, never moved */
    uint32_t nshared;
    struct tt_done *done;           /* ring of [2 * nranks + 2] */
    uint32_t done_head, done_tail, done_cap;
};

static inline struct tt_shm *tt_shm_of(struct tt_wire *w) { return (struct tt_shm *)w; }
static inline struct tt_shm_bell *tt_shm_bell_of(const struct tt_segment *seg) { return seg->base; }

/* ---- shm.c ---- */

/* Queues an event for poll. */
void tt_shm_tell(struct tt_shm *w, const struct tt_done *d);
/* Wakes the peer if it sleeps: after something was stored that it should see. */
void tt_shm_ring(struct tt_shm_peer *peer);

/* ---- shm_link.c ---- */

tutti_status tt_shm_connect(struct tt_wire *base, uint32_t rank, const struct tt_blob *address);
/* Opens the listener, and watches it and the bell. */
tutti_status tt_shm_listen(struct tt_shm *w);
/* Looks at all sockets, and at the clock. */
void tt_shm_look(struct tt_shm *w);
/* Reads what the peer's socket holds. */
void tt_shm_hear(struct tt_shm *w, uint32_t rank);
/* Tells the peer of the segments that it does not know yet; stops when its socket is full and goes on in a later look. */
void tt_shm_send_segments(struct tt_shm *w, struct tt_shm_peer *peer);
/* Tells the peer that the segment is no more. */
void tt_shm_send_forget(struct tt_shm *w, struct tt_shm_peer *peer, uint64_t id);
void tt_shm_link_lost(struct tt_shm *w, uint32_t rank, tutti_status why);
/* Says goodbye where that can be heard, and unmaps what belongs to links. */
void tt_shm_links_close(struct tt_shm *w);

/* ---- shm_region.c ---- */

tutti_status tt_shm_reg(struct tt_wire *base, void *mem, size_t bytes, struct tt_region **out);
void tt_shm_dereg(struct tt_region *region);
tutti_status tt_shm_import(struct tt_wire *base, uint32_t rank, const struct tt_blob *key, struct tt_rkey *out);
/* The peer has registered a segment: maps it. The descriptor is taken over. */
tutti_status tt_shm_segment_add(struct tt_shm_peer *peer, uint32_t rank, uint64_t id, int fd, uint64_t bytes);
/* The peer has deregistered it. */
void tt_shm_segment_forget(struct tt_shm_peer *peer, uint64_t id);
void tt_shm_regions_close(struct tt_shm *w);

#endif
