/* A connection of a node of the start-up tree: frames in, queued bytes out, and descriptors passed
 * over local sockets. Nothing here blocks. One thread at a time. */
#ifndef TT_BOOT_TREE_CONN_H
#define TT_BOOT_TREE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/frame.h"
#include "boot/tree.h"

struct tt_tree_stream {
    struct tt_tree_conn machine;    /* must be first: both have the same address */
    struct tt_tree_stream *newer, *older;   /* list of a node's children, newest first */
    struct tt_framer in;
    int fd, epoll;
    bool stranger;                  /* a child without a proof */
    bool closing;                   /* to be closed when everything is sent */
    bool dead;                      /* broken, or closing and everything is sent */
    bool writing;                   /* watched for writing */
    uint8_t *out;                   /* [out_bytes]; the first `sent` are sent */
    size_t out_cap, out_bytes, sent;
    int passed_fd;                  /* to be passed with the next bytes; not owned; or -1 */
    int received_fd;                /* passed by the peer; owned; or -1 */
};

/* Returns a stream of the connected or connecting, non-blocking fd, which it owns; events carry it
 * as data.ptr. NULL and errno on failure; then the caller keeps fd. */
struct tt_tree_stream *tt_tree_stream_create(int fd, int epoll, size_t body_max, bool connecting);
void tt_tree_stream_destroy(struct tt_tree_stream *c);
/* Sends data[bytes], or queues it. */
void tt_tree_stream_send(struct tt_tree_stream *c, const void *data, size_t bytes);
/* Sends queued data; sets dead. */
void tt_tree_stream_flush(struct tt_tree_stream *c);
/* Watches for reading, and for writing while data is queued. */
void tt_tree_stream_watch(struct tt_tree_stream *c);
/* Reads once into the framer. Returns false if the connection has ended. */
bool tt_tree_stream_receive(struct tt_tree_stream *c);

/* Returns an empty memory file that can grow to `bytes`, or -1 and errno. */
int tt_tree_file_create(size_t bytes);
/* Writes data[bytes] to a memory file, and seals it. Returns false and errno on failure. */
bool tt_tree_file_fill(int fd, const void *data, size_t bytes);
/* Maps a sealed memory file of exactly `bytes` bytes for reading; NULL if it is another file. The
 * caller unmaps it. */
const uint8_t *tt_tree_file_map(int fd, size_t bytes);

#endif
