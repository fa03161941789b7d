/* Runs the coordinator of an elastic run in a thread of the calling process, e.g. a test, a
 * notebook or a launcher. The command `tutti coordinator` runs a coordinator as a separate process.
 * The coordinator decides the membership of the run when members join, fail or leave. If the run
 * must survive this process, set a journal, and start the next coordinator with the same journal.
 * See docs/coordinator.md. */
#ifndef TUTTI_COORDINATOR_H
#define TUTTI_COORDINATOR_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A coordinator in a thread of this process. */
typedef struct tutti_coordinator tutti_coordinator;

/* Options of a coordinator. Set `size` to sizeof(tutti_coordinator_conf). A field that is zero (or
 * NULL) takes its default value. The library copies the options; the caller may free the struct and
 * its strings after the call. */
typedef struct tutti_coordinator_conf {
    size_t size;
    const char *run;            /* name of the run; NULL: TUTTI_RUN, else "tutti" */
    const char *listen;         /* addresses to listen on, "host:port,[v6]:port,:port"; port 0: any
                                   free port; NULL: "127.0.0.1:0" */
    const char *journal;        /* file that stores the state for a restart; NULL: no file, and the
                                   run cannot continue after this coordinator has ended */
    /* Access control: set a token, or certificates, or insecure. If none is set, environment
     * variables apply: TUTTI_TOKEN alone, or TUTTI_SECURITY with TUTTI_CERTIFICATE, TUTTI_KEY and
     * TUTTI_AUTHORITY. Access control is required if other hosts can connect. */
    const char *token;          /* accept members that present this token */
    const char *certificate, *key, *authority;  /* PEM files: certificate and key of this
                                                   coordinator, and certificate of the authority
                                                   that signs the members' certificates */
    int32_t insecure;           /* 1: accept any process, over unencrypted connections; overrides
                                   the environment */
    uint32_t members_max;       /* maximum number of members; 0: 4096 */
    int64_t lease_ms, grace_ms; /* a member is declared lost if it sends nothing for lease_ms, or if
                                   its connection ends and it does not reconnect within grace_ms.
                                   Defaults (0): lease_ms 1000; grace_ms a quarter of lease_ms, at
                                   most 250 */
    /* "etcd://host:port[,host:port...]/prefix": store to use instead of `journal`. Several
     * coordinators of a run may use the same store. One of them is the leader; the others are
     * standbys until the leader fails. A standby waits in tutti_coordinator_create for up to
     * stand_by_ms. The command `tutti coordinator` waits without a limit
     * (docs/coordinator-store.md). */
    const char *store;
    const char *http;           /* "host:port" of the status page; port 0: any free port; NULL:
                                   none. The page has no access control. A standby also serves the
                                   page (docs/coordinator-status.md) */
    int64_t stand_by_ms;        /* timeout for becoming the leader, if `store` is set; 0:
                                   TUTTI_TIMEOUT_MS (default 300000); negative: none */
    int32_t store_plain;        /* 1: allow unencrypted connections to store servers on other
                                   hosts */
} tutti_coordinator_conf;

/* Starts a coordinator. Members can connect when the call returns. The caller owns *out and frees
 * it with tutti_coordinator_destroy. conf may be NULL.
 * INVALID:     a setting or address is invalid, or the journal or store is invalid, in use, or
 *              belongs to another run.
 * SYSTEM:      an address is in use, a name cannot be resolved, or the store is unreachable.
 * TIMEOUT:     after stand_by_ms another coordinator is still the leader, or the store does not
 *              respond.
 * UNSUPPORTED: a store is given, but this build has no libcurl. */
TUTTI_API tutti_status tutti_coordinator_create(tutti_coordinator **out,
                                                const tutti_coordinator_conf *conf);
/* Returns listening address i (from 0), e.g. "127.0.0.1:4711", or NULL if there are no more. The
 * string is valid until the coordinator is destroyed. Any thread. */
TUTTI_API const char *tutti_coordinator_address(const tutti_coordinator *c, uint32_t i);
/* Returns the address of the status page, e.g. "127.0.0.1:9090", or NULL if there is none. The
 * string is valid until the coordinator is destroyed. Any thread. */
TUTTI_API const char *tutti_coordinator_http(const tutti_coordinator *c);
/* Returns TUTTI_OK while the coordinator runs, else the error that stopped it. tutti_last_error()
 * then gives the cause, e.g. that the journal cannot be written, or that another coordinator has
 * become the leader (ABORTED). A stopped coordinator can only be destroyed. Any thread. */
TUTTI_API tutti_status tutti_coordinator_check(tutti_coordinator *c);
/* Stops the coordinator and frees it. The members are not notified: they wait for another
 * coordinator with the same journal. c may be NULL. */
TUTTI_API void tutti_coordinator_destroy(tutti_coordinator *c);

#ifdef __cplusplus
}
#endif
#endif
