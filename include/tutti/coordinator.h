/* The coordinator of an elastic run, in a thread of the calling process: what `tutti coordinator` is as a program of its own. It decides who is in
 * the run, and is asked when members come, fail and leave. For tests, notebooks and launchers; where the run has to survive this
 * process, give it a journal, and begin again on that. docs/coordinator.md tells more. */
#ifndef TUTTI_COORDINATOR_H
#define TUTTI_COORDINATOR_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_coordinator tutti_coordinator;

/* Zero (or NULL) means default everywhere; set `size` to sizeof. Nothing of it is used after the call. */
typedef struct tutti_coordinator_conf {
    size_t size;
    const char *run;            /* the run's name; NULL: TUTTI_RUN, else "tutti" */
    const char *listen;         /* "host:port,[v6]:port,:port"; port 0: any that is free; NULL: "127.0.0.1:0" */
    const char *journal;        /* a file for what must survive; NULL: nothing is kept, and the run ends with its coordinator */
    /* Who may join; one of these, or what the environment says (TUTTI_SECURITY with TUTTI_TOKEN or TUTTI_CERTIFICATE, TUTTI_KEY and TUTTI_AUTHORITY;
     * or TUTTI_TOKEN alone), or nothing where only this host can connect. */
    const char *token;          /* whoever has it */
    const char *certificate, *key, *authority;  /* PEM files: whoever has a certificate of the authority */
    int32_t insecure;           /* 1: anybody, over plain connections, whatever the environment says */
    uint32_t members_max;       /* 0: 4096 */
    int64_t lease_ms, grace_ms; /* a member that is silent, or whose connection has ended, for so long is lost; 0: 1000, and a quarter of the lease
                                   but at most 250 */
    /* Instead of `journal`: "etcd://host:port[,host:port...]/prefix". Of several coordinators of one run with the same store, in programs or as `tutti
     * coordinator`, one leads, and tutti_coordinator_create of the others waits until that one fails (docs/coordinator-store.md). */
    const char *store;
    const char *http;           /* "host:port": shows how the run is, to whoever reaches it (docs/coordinator-status.md), also while it waits to lead; port 0:
                                   any that is free; NULL: nowhere */
    int64_t stand_by_ms;        /* with a store: waits so long at most; 0: TUTTI_TIMEOUT_MS (default 300000); negative: until it leads */
    int32_t store_plain;        /* 1: servers of the store on other hosts are meant, though what is written there travels in plain */
} tutti_coordinator_conf;

/* Begins; members can connect when it returns. Caller owns *out. conf may be NULL. INVALID: a setting, an address, a store or a journal makes no sense, is
 * another run's, or is in use; the sentence says which. SYSTEM: an address is taken, a name cannot be looked up now, the store cannot be reached. TIMEOUT: another
 * coordinator still leads. UNSUPPORTED: a store, and this was built without libcurl. */
TUTTI_API tutti_status tutti_coordinator_create(tutti_coordinator **out, const tutti_coordinator_conf *conf);
/* Address i that it listens on, "127.0.0.1:4711", as long as it lives; NULL from the last on. Any thread. */
TUTTI_API const char *tutti_coordinator_address(const tutti_coordinator *c, uint32_t i);
/* Where it shows how the run is, "127.0.0.1:9090", as long as it lives; NULL: nowhere. Any thread. */
TUTTI_API const char *tutti_coordinator_http(const tutti_coordinator *c);
/* OK while it works; else why it ended by itself (its journal could not be written, or another coordinator leads: ABORTED), also as the thread's
 * last error: destroy it, and create the next. Any thread. */
TUTTI_API tutti_status tutti_coordinator_check(tutti_coordinator *c);
/* Ends it without a word to members: they wait for the next one on the same journal. NULL is fine. */
TUTTI_API void tutti_coordinator_destroy(tutti_coordinator *c);

#ifdef __cplusplus
}
#endif
#endif
