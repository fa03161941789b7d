/* The coordinator of an elastic run, as a thread of the calling process. `tutti coordinator` is the
 * same as a program. It decides the membership: members contact it when one of them joins, fails or
 * leaves. For tests, notebooks and launchers. To let the run survive this process, use a journal
 * and restart the coordinator on it. See docs/coordinator.md. */
#ifndef TUTTI_COORDINATOR_H
#define TUTTI_COORDINATOR_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_coordinator tutti_coordinator;

/* Options. Zero (or NULL) means default; set `size` to sizeof. Copied: the caller may free all of
 * it after the call. */
typedef struct tutti_coordinator_conf {
    size_t size;
    const char *run;            /* name of the run; NULL: TUTTI_RUN, else "tutti" */
    const char *listen;         /* "host:port,[v6]:port,:port"; port 0: any free one;
                                   NULL: "127.0.0.1:0" */
    const char *journal;        /* file for the state that must survive; NULL: none, and the run
                                   ends with its coordinator */
    /* Access: one of these. Default: the environment (TUTTI_SECURITY with TUTTI_TOKEN, or with
     * TUTTI_CERTIFICATE, TUTTI_KEY and TUTTI_AUTHORITY; or TUTTI_TOKEN alone). None is needed if
     * only this host can connect. */
    const char *token;          /* accept members with this token */
    const char *certificate, *key, *authority;  /* PEM files: accept members with a certificate of
                                                   the authority */
    int32_t insecure;           /* 1: accept any process, over plain connections; overrides the
                                   environment */
    uint32_t members_max;       /* 0: 4096 */
    int64_t lease_ms, grace_ms; /* a member is lost after this silence, or this long after its
                                   connection ended; 0: 1000, and a quarter of the lease but at most
                                   250 */
    /* Instead of `journal`: "etcd://host:port[,host:port...]/prefix". Of several coordinators of
     * one run with the same store, in programs or as `tutti coordinator`, one leads. In the others
     * tutti_coordinator_create waits until it fails (docs/coordinator-store.md). */
    const char *store;
    const char *http;           /* "host:port" of the status page, without access control, also
                                   while waiting to lead (docs/coordinator-status.md); port 0: any
                                   free one; NULL: none */
    int64_t stand_by_ms;        /* with a store: longest wait to lead; 0: TUTTI_TIMEOUT_MS (default
                                   300000); negative: unlimited */
    int32_t store_plain;        /* 1: allow unencrypted connections to store servers on other
                                   hosts */
} tutti_coordinator_conf;

/* Starts a coordinator; members can connect when the call returns. The caller owns *out and frees
 * it with tutti_coordinator_destroy. conf may be NULL.
 * INVALID:     a setting, address, store or journal is invalid, of another run, or in use.
 * SYSTEM:      an address is in use, a name cannot be resolved, or the store is unreachable.
 * TIMEOUT:     another coordinator still leads.
 * UNSUPPORTED: a store is given, but this build has no libcurl. */
TUTTI_API tutti_status tutti_coordinator_create(tutti_coordinator **out,
                                                const tutti_coordinator_conf *conf);
/* Returns listening address i, e.g. "127.0.0.1:4711", or NULL behind the last one. Valid until the
 * coordinator is destroyed. Any thread. */
TUTTI_API const char *tutti_coordinator_address(const tutti_coordinator *c, uint32_t i);
/* Returns the address of the status page, e.g. "127.0.0.1:9090", or NULL if there is none. Valid
 * until the coordinator is destroyed. Any thread. */
TUTTI_API const char *tutti_coordinator_http(const tutti_coordinator *c);
/* Returns TUTTI_OK while the coordinator runs, else the error that ended it, with a message in
 * tutti_last_error(): its journal could not be written, or another coordinator leads (ABORTED).
 * Destroy it and create a new one. Any thread. */
TUTTI_API tutti_status tutti_coordinator_check(tutti_coordinator *c);
/* Ends the coordinator without notifying the members. They wait for the next one on the same
 * journal. c may be NULL. */
TUTTI_API void tutti_coordinator_destroy(tutti_coordinator *c);

#ifdef __cplusplus
}
#endif
#endif
