/* Ranks as processes, for tests of transports. Each rank is a fork of the test that runs the same
 * role. They share a board for the data that start-up exchanges in a real job. A rank that finds an
 * error reports it and exits; then the test fails. */
#ifndef TESTS_WIRE_NODES_H
#define TESTS_WIRE_NODES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/prng.h"
#include "support/pattern.h"
#include "wire/wires.h"

#define NODES_MAX 4
#define NODE_COOKIES 8192
#define NODE_LINK_BYTES 65536
#define NODE_KEYS 4
#define NODE_MEMORIES 8

/* Parameters of a test. */
struct setting {
    const struct tt_wire_ops *ops;
    uint32_t lanes;
    bool cma;                   /* conf.cma, with regions in memory that the test allocates */
    bool secure;                /* connections use TLS with a token */
    const char *provider;       /* conf.ofi_provider */
    bool sampled;               /* only some properties are tested */
    uint64_t seed;
};

/* Writes the name of a setting: "shm cma", "tcp tls", "ofi sockets". */
#define SETTING_NAME_BYTES 64
void setting_name(const struct setting *s, char out[SETTING_NAME_BYTES]);

/* Shared by all ranks of one run. */
struct board {
    _Atomic uint32_t arrived, flag[8];
    _Atomic uint32_t dies[NODES_MAX];       /* this rank is expected to be killed */
    pid_t pid[NODES_MAX];
    struct tt_blob address[NODES_MAX], key[NODES_MAX][NODE_KEYS];
};

/* One rank. */
struct node {
    uint32_t rank, nranks, barriers;
    const struct setting *setting;
    const struct tt_wire_ops *ops;
    struct tt_wire *w;
    struct tt_secure *secure;               /* NULL: without TLS */
    const char *token;                      /* for TLS; NULL: NODE_TOKEN */
    const char *interfaces;
    struct board *board;
    bool no_cma;                            /* this rank is opened without CMA, whatever the
                                               setting */
    void *memory[NODE_MEMORIES];            /* allocations of node_memory; freed at the end of
                                               the rank */
    uint32_t nmemories;
    struct tt_prng prng;
    struct tt_link link[NODES_MAX];
    uint32_t ups[NODES_MAX], losses[NODES_MAX];     /* number of events */
    tutti_status why[NODES_MAX];
    uint8_t local[NODE_COOKIES], remote[NODE_COOKIES];  /* number of completions, by cookie */
    uint64_t nlocal, nremote;
};

extern const uint8_t node_secret[16];
#define NODE_TOKEN "the token of these tests of wires"

/* Runs role in nranks processes and fails the test unless all exit with success (or die as
 * expected). */
void nodes_run(const struct setting *s, uint32_t nranks, void (*role)(struct node *));

void node_open(struct node *n);         /* opens the transport, and gets all addresses */
void node_close(struct node *n);
void node_connect(struct node *n, uint32_t peer);   /* starts to connect */
void node_connect_all(struct node *n);  /* lower ranks connect to higher ones; waits for all
                                           links */
void node_poll(struct node *n);
void node_post(struct node *n, const struct tt_desc *d);    /* polls until it is accepted */
void node_barrier(struct node *n);      /* over the board; polls the transport while waiting */
void node_barrier_idle(struct node *n); /* without polling */
/* Allocates zeroed memory. */
void *node_memory(struct node *n, uint64_t bytes);
void node_share(struct node *n, uint32_t slot, const struct tt_region *r);
/* Imports a key. If the test allocates the memory of regions, the target is in it. */
struct tt_rkey node_import(struct node *n, uint32_t peer, uint32_t slot);

/* The value of a word of this rank's link region, which is a signal target of the peer. */
uint64_t node_word(struct node *n, uint32_t peer, uint32_t i);
/* Returns a zero-length inline put with that signal; node_post_signal posts one. */
struct tt_desc node_signal(struct node *n, uint32_t peer, uint32_t word, enum tt_signal_op op,
                           uint64_t value);
void node_post_signal(struct node *n, uint32_t peer, uint32_t word, enum tt_signal_op op,
                      uint64_t value);
/* Returns a put without flags and signal. */
struct tt_desc node_put(const struct tt_rkey *key, uint64_t offset, void *local, uint64_t bytes);
void node_fence(struct node *n, uint32_t peer);

/* Exits the rank's process, and fails the test. */
_Noreturn void node_fail(const struct node *n, const char *file, int line, const char *what);

#define CHECK(n, cond) \
    do { \
        if (!(cond)) \
            node_fail(n, __FILE__, __LINE__, #cond); \
    } while (0)

/* Polls until cond holds; fails after a deadline. */
uint64_t node_deadline(void);
void node_wait(struct node *n, uint64_t deadline_ns, const char *file, int line, const char *what);
#define UNTIL(n, cond) \
    do { \
        const uint64_t until_ns = node_deadline(); \
        while (!(cond)) \
            node_wait(n, until_ns, __FILE__, __LINE__, #cond); \
    } while (0)

/* For ranks 0 and 1 of 3: they open, connect and communicate without errors, while rank 2 acts as
 * an unauthenticated peer from setting flag 0 to setting flag 1. Ends with a barrier of all
 * ranks. */
void node_connect_beside_intruder(struct node *n);

#endif
