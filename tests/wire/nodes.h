/* Ranks as processes, for tests of wires. Each rank is a fork of the test that runs the same role; they share a board for what
 * a real job's start-up would tell them. A rank that finds something wrong says so and exits; the test fails then. */
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

/* What is under test. */
struct setting {
    const struct tt_wire_ops *ops;
    uint32_t lanes;
    bool cma;                   /* conf.cma, and regions are the test's own memory */
    bool secure;                /* connections go through TLS, by a token */
    const char *provider;       /* conf.ofi_provider */
    bool sampled;               /* some properties will do */
    uint64_t seed;
};

/* "shm cma", "tcp tls", "ofi sockets". */
#define SETTING_NAME_BYTES 64
void setting_name(const struct setting *s, char out[SETTING_NAME_BYTES]);

/* Shared by all ranks of one run. */
struct board {
    _Atomic uint32_t arrived, flag[8];
    _Atomic uint32_t dies[NODES_MAX];       /* this rank will be killed, and that is right */
    pid_t pid[NODES_MAX];
    struct tt_blob address[NODES_MAX], key[NODES_MAX][NODE_KEYS];
};

/* One rank. */
struct node {
    uint32_t rank, nranks, barriers;
    const struct setting *setting;
    const struct tt_wire_ops *ops;
    struct tt_wire *w;
    struct tt_secure *secure;               /* NULL: plain */
    const char *token;                      /* for TLS; NULL: NODE_TOKEN */
    const char *interfaces;
    struct board *board;
    bool no_cma;                            /* this rank is opened without, whatever the setting says */
    void *memory[NODE_MEMORIES];            /* that node_memory gave out; lives as long as the rank */
    uint32_t nmemories;
    struct tt_prng prng;
    struct tt_link link[NODES_MAX];
    uint32_t ups[NODES_MAX], losses[NODES_MAX];     /* events seen */
    tutti_status why[NODES_MAX];
    uint8_t local[NODE_COOKIES], remote[NODE_COOKIES];  /* completions seen, by cookie */
    uint64_t nlocal, nremote;
};

extern const uint8_t node_secret[16];
#define NODE_TOKEN "the token of these tests of wires"

/* Runs role in nranks processes and fails the test unless all end well (or die as announced). */
void nodes_run(const struct setting *s, uint32_t nranks, void (*role)(struct node *));

void node_open(struct node *n);         /* opens the wire, and learns all addresses */
void node_close(struct node *n);
void node_connect(struct node *n, uint32_t peer);   /* begins */
void node_connect_all(struct node *n);  /* lower ranks connect to higher ones; waits for all links */
void node_poll(struct node *n);
void node_post(struct node *n, const struct tt_desc *d);    /* polls until it is taken */
void node_barrier(struct node *n);      /* over the board; polls the wire while it waits */
void node_barrier_idle(struct node *n); /* does not */
/* Zeroed. */
void *node_memory(struct node *n, uint64_t bytes);
void node_share(struct node *n, uint32_t slot, const struct tt_region *r);
/* Where regions are the test's own memory, such is what comes. */
struct tt_rkey node_import(struct node *n, uint32_t peer, uint32_t slot);

/* A word of the link region: ours, and as a signal target of the peer's. */
uint64_t node_word(struct node *n, uint32_t peer, uint32_t i);
/* A zero-length inline put with that signal; tell posts one. */
struct tt_desc node_signal(struct node *n, uint32_t peer, uint32_t word, enum tt_signal_op op, uint64_t value);
void node_tell(struct node *n, uint32_t peer, uint32_t word, enum tt_signal_op op, uint64_t value);
/* A put without flags and signal. */
struct tt_desc node_put(const struct tt_rkey *key, uint64_t offset, void *local, uint64_t bytes);
void node_fence(struct node *n, uint32_t peer);

/* Ends the rank, and with it the test. */
_Noreturn void node_fail(const struct node *n, const char *file, int line, const char *what);

#define CHECK(n, cond) \
    do { \
        if (!(cond)) \
            node_fail(n, __FILE__, __LINE__, #cond); \
    } while (0)

/* Polls until cond holds; nobody waits longer than the deadline. */
uint64_t node_deadline(void);
void node_wait(struct node *n, uint64_t deadline_ns, const char *file, int line, const char *what);
#define UNTIL(n, cond) \
    do { \
        const uint64_t until_ns = node_deadline(); \
        while (!(cond)) \
            node_wait(n, until_ns, __FILE__, __LINE__, #cond); \
    } while (0)

/* Ranks 0 and 1 of 3, while rank 2 acts as strangers do, from when it sets flag 0 to when it sets flag 1: they open, meet and talk, and see
 * nothing of it. Ends with the barrier of all. */
void node_meet_undisturbed(struct node *n);

#endif
