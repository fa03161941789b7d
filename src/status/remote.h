/* The TCP port of a process for status clients of other hosts: TUTTI_STATUS_LISTEN. Connections
 * that do not prove the token (seal.h) within TT_REMOTE_PROOF_NS are dropped. With more than
 * TT_REMOTE_GUESTS of them, the oldest one is dropped. */
#ifndef TT_STATUS_REMOTE_H
#define TT_STATUS_REMOTE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/acceptor.h"
#include "base/clock.h"
#include "status/seal.h"
#include "tutti/tutti.h"

#define TT_REMOTE_PROOF_NS (5 * TT_SECOND)
#define TT_REMOTE_WARN_NS (60 * TT_SECOND)      /* minimum time between two warnings */
#define TT_REMOTE_GUESTS 8u
#define TT_REMOTE_LISTENERS 4u          /* maximum addresses of a name */
#define TT_REMOTE_TOKEN_MIN 16u         /* minimum characters of the token */
#define TT_REMOTE_TOKEN_BYTES 128u

struct tt_remote_conf {
    const char *address;                /* borrowed; NULL: none */
    char token[TT_REMOTE_TOKEN_BYTES];
};

struct tt_remote_guest {
    int fd;                             /* -1: free */
    uint64_t since_ns;
    struct tt_framer in;
    struct tt_seal_nonces nonces;
};

struct tt_remote {
    char token[TT_REMOTE_TOKEN_BYTES];
    int epoll;
    uint32_t about;
    uint64_t warned_ns;                 /* of the last warning; 0: none */
    uint32_t nrefused;                  /* refused clients since then */
    struct tt_acceptor acceptor[TT_REMOTE_LISTENERS];
    uint32_t n;                         /* number of listeners; 0: no port */
    struct tt_remote_guest guest[TT_REMOTE_GUESTS];
};

/* Reads TUTTI_STATUS_LISTEN and TUTTI_STATUS_TOKEN (default: the token of the job). INVALID
 * (logged): one of them is invalid. */
tutti_status tt_remote_settings(struct tt_remote_conf *out, const char *job_token);

/* Opens the port. Events of `epoll` are `about` + an index below TT_REMOTE_EVENTS; pass this index
 * to tt_remote_serve. False: it cannot listen, and a warning was logged; *r is then closed. */
bool tt_remote_open(struct tt_remote *r, const struct tt_remote_conf *conf, int epoll,
                    uint32_t about);
void tt_remote_close(struct tt_remote *r);
#define TT_REMOTE_EVENTS (TT_REMOTE_LISTENERS + TT_REMOTE_GUESTS)
/* Handles an event. Returns a connection whose client has proved the token, with its end of the
 * seal, or -1. The caller must first send ACCEPT: accept[TT_SEAL_FRAME_MAX], *accept_bytes. */
int tt_remote_serve(struct tt_remote *r, uint32_t event, uint64_t now_ns, struct tt_seal *seal,
                    uint8_t *accept, size_t *accept_bytes);
/* Returns the time of the next tt_remote_tick; UINT64_MAX: none. */
uint64_t tt_remote_due(const struct tt_remote *r);
void tt_remote_tick(struct tt_remote *r, uint64_t now_ns);

#endif
