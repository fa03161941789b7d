/* Sockets of a node of the start-up tree (tree.h): of the root, and of every rank. The owner polls
 * tt_tree_node_fd and calls tt_tree_node_step. Nothing here blocks. One thread at a time.
 *
 *   the root      accepts leaders at its TCP listener
 *   a leader      accepts the ranks of its host at a local socket, leaders of other hosts at its
 *                 TCP listener if it is a server, and is connected to the root or to a server
 *   other ranks   are connected to their leader
 *
 * Connections without a proof are limited to 1024 (the oldest is dropped) and to 10 s each. A
 * leader passes the table to its host as a sealed memory file. */
#ifndef TT_BOOT_TREE_NODE_H
#define TT_BOOT_TREE_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "boot/endpoint.h"
#include "boot/tree.h"

struct tt_tree_node;

struct tt_tree_node_conf {
    struct tt_tree_conf tree;           /* the node sets shares_table and refuses_late; the token
                                           must outlive the node */
    int listener;                       /* TCP; or -1; taken over on success only */
    int local;                          /* of a leader: its local stream listener; or -1; taken
                                           over */
    int up;                             /* a connection to the root, for the first attempt; or -1;
                                           taken over */
    const struct tt_frame *challenge;   /* received from `up` already; NULL: none */
    const struct sockaddr_un *leader;   /* address of the leader; copied; NULL: this rank */
    socklen_t leader_bytes;
    const struct tt_endpoint *own;      /* of this rank, for connections to servers; copied */
    const struct tt_address *root;      /* [nroot]; copied; the root itself has none */
    size_t nroot;
};

#define TT_TREE_ROOTS_MAX 8

/* On success the caller owns *out, and closes it with tt_tree_node_close. */
tutti_status tt_tree_node_open(struct tt_tree_node **out, const struct tt_tree_node_conf *conf);
void tt_tree_node_close(struct tt_tree_node *n);
/* The root, when it is done: begins another start-up at the same listener. */
void tt_tree_node_restart(struct tt_tree_node *n, const struct tt_tree_conf *tree);
/* Returns an epoll descriptor that is readable when tt_tree_node_step has work. */
int tt_tree_node_fd(const struct tt_tree_node *n);
/* Returns the time at which tt_tree_node_step must be called even without events. */
uint64_t tt_tree_node_wake_ns(const struct tt_tree_node *n);
void tt_tree_node_step(struct tt_tree_node *n, uint64_t now_ns);
/* Returns a connection of this process to the node, which needs no network; or -1 and errno. The
 * caller owns the descriptor. */
int tt_tree_node_connect(struct tt_tree_node *n, uint64_t now_ns);
/* The state machine: its state and its result. */
struct tt_tree *tt_tree_node_tree(struct tt_tree_node *n);
/* Returns the table, which the node must have, and which the caller then owns: a mapping of the
 * memory file that the ranks of this host share (*shared), or a copy from malloc. NULL: out of
 * memory. */
void *tt_tree_node_take_table(struct tt_tree_node *n, size_t *bytes, bool *shared);
/* Returns whether the node and all nodes below it have their results, and no connection is open. */
bool tt_tree_node_is_done(const struct tt_tree_node *n);
/* Returns the cause if the root is unreachable, or another start-up has begun at its address: then
 * the caller closes this node and retries. NULL: neither. */
const char *tt_tree_node_lost(const struct tt_tree_node *n);

#endif
