/* The live view of a process: a Unix socket for `tutti status`, a TCP port for clients of other
 * hosts (remote.h), and this rank's part in collections over the control overlay. The progress
 * thread serves it, even while application threads hang or compute. The caller serializes its calls
 * and those of the overlay. */
#ifndef TT_STATUS_SERVICE_H
#define TT_STATUS_SERVICE_H

#include "boot/boot.h"
#include "status/snapshot.h"

#define TT_SERVICE_CLIENTS_MAX 4u
#define TT_SERVICE_STALL_NS (10 * TT_SECOND)    /* timeout of a client that does not read */

struct tt_service_conf {
    uint64_t job;
    uint32_t rank, nranks, nhosts;
    bool tidies;                /* removes sockets of killed processes: one rank of each host */
    bool is_elastic;            /* TUTTI_STATUS_LISTEN and its token are not read */
    bool listens;               /* on TUTTI_STATUS_LISTEN, if it is set: one rank of each host */
    const char *token;          /* of the job; NULL: none. Copied */
    struct tt_overlay *overlay; /* NULL: this process reports only itself. Borrowed */
    struct tt_snapshot_source source;
};

struct tt_service;

/* Opens the service. Without a socket (TUTTI_STATUS=0, or it cannot be created, which is logged) it
 * still takes part in collections. INVALID (logged): TUTTI_STATUS, TUTTI_STATUS_LISTEN or the token
 * is invalid. */
tutti_status tt_service_open(struct tt_service **out, const struct tt_service_conf *conf);
/* s may be NULL. */
void tt_service_close(struct tt_service *s);
/* Returns a descriptor that is readable when tt_service_serve has work, or -1. The overlay watches
 * it if there is one. */
int tt_service_fd(const struct tt_service *s);
/* Makes progress. Never waits. */
void tt_service_serve(struct tt_service *s);
/* Handles a payload of tt_overlay_send. False: it is invalid. */
bool tt_service_receive(struct tt_service *s, uint32_t from, const void *data, size_t bytes);
/* Handles the loss of a rank. */
void tt_service_lose(struct tt_service *s, uint32_t rank);

#endif
