/* A network for proxies: posted items arrive at a random time, in any order, unless a signal is
 * ordered after earlier ones. Sources are read late. The seed determines all random choices. */
#ifndef TESTS_DEVICE_NET_H
#define TESTS_DEVICE_NET_H

#include "base/prng.h"
#include "device/proxy.h"

#define NET_RANKS 4             /* rank 0 puts */
#define NET_BYTES 16384         /* size of each rank's part */
#define NET_ITEMS 4096          /* maximum in total per peer */

struct net_item {
    struct tt_command c;
    bool ordered, sent, landed, raised;
    uint64_t *done;
    uint8_t copy[64];           /* the bytes of a put, as read when it was sent */
};

struct net_peer {
    uint8_t mem[NET_BYTES];
    struct net_item items[NET_ITEMS];
    uint32_t nitems;
    uint32_t takes;             /* number of items that will still be accepted; UINT32_MAX:
                                   unlimited */
    bool stopped;               /* nothing arrives */
    bool deaf;                  /* there is no space for wakes */
    uint32_t wakes;
};

struct net {
    struct tt_prng prng;
    struct net_peer peers[NET_RANKS];
    bool choosy;                /* sometimes has no space */
    uint32_t wrong;             /* number of puts larger than supported */
    /* Called when a signal is raised, after its word in mem was set. */
    void (*raised)(void *arg, uint32_t peer, uint64_t word);
    void *arg;
};

/* Supports puts of at most 64 bytes. */
struct net *net_create(uint64_t seed);
struct tt_proxy_putter net_sink(struct net *n);
/* Processes some items. */
void net_turn(struct net *n);
/* Returns whether all data of peers that are not stopped has arrived. */
bool net_is_empty(const struct net *n);
uint64_t net_word(const struct net *n, uint32_t peer, uint64_t offset);

/* ---- a device without a window, whose proxy puts to a net ---- */

struct bench {
    struct net *net;
    tutti_device_view view;
    struct tt_proxy proxy;
    uint64_t now_ns;
    /* memory referenced by the view */
    tutti_device_trigger *fifo;
    uint64_t reserved, taken_seen, taken, full_waits, room_waits, status, clock_ms, pulse;
    uint64_t tickets[2 * (NET_RANKS + 1)], answers[2 * (NET_RANKS + 1)];
    uint64_t entered[NET_RANKS], given_seen[NET_RANKS], given[NET_RANKS];
    uint64_t groups[8 * NET_RANKS];
    uint64_t wake_sent[NET_RANKS];
    uint64_t bytes[NET_RANKS];
    uint8_t words[NET_RANKS], *direct[NET_RANKS];
};

/* `pending` commands per peer; 0: default. Asserts success. Undone by bench_destroy. */
struct bench *bench_create(uint64_t seed, tutti_device_mode mode, uint32_t slots, uint32_t pending,
                           uint64_t timeout_ns);
void bench_destroy(struct bench *b);
/* Lets the proxy process the FIFO and make one step, a millisecond after the last one. Returns its
 * status. */
tutti_status bench_turn(struct bench *b);
/* Returns whether n triggers fit into the FIFO, and n commands for the peer are permitted. For
 * TUTTI_DEVICE_ALL, only the FIFO counts. */
bool bench_has_room(const struct bench *b, uint32_t peer, uint32_t n);
/* bench_post_question posts a question without waiting, and returns its ticket. bench_is_answered
 * returns whether it was answered. */
uint64_t bench_post_question(struct bench *b, uint32_t what, uint32_t peer);
bool bench_is_answered(const struct bench *b, uint64_t ticket);

#endif
