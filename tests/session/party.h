/* A coordinator and the members of a run, each in a separate thread of this process. */
#ifndef TESTS_SESSION_PARTY_H
#define TESTS_SESSION_PARTY_H

#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "coordinator/coordinator.h"
#include "tutti/elastic.h"

#define PARTY_MAX 8

struct party {
    struct tt_coordinator *coordinator;
    char address[128];
    uint32_t nroles;                /* group i / nroles, role i % nroles; 0: no groups */
    int32_t tags;                   /* number of tags of each member; 0: 4 */
    atomic_int step;                /* progress of the test; see party_reach */
};

struct guest {
    struct party *party;
    uint32_t index;
    void (*program)(struct guest *g);
    pthread_t thread;
    tutti_run *run;                 /* joined before the program starts, destroyed after it */
    const char *token;
};

/* long enough that a running member always sends within it, also on a busy machine */
#define PARTY_LEASE_MS 4000
#define PARTY_GRACE_MS 100

/* Starts the coordinator. Times in ms. token NULL: without authentication. */
void party_begin(struct party *p, uint64_t lease_ms, uint64_t grace_ms, const char *token);
void party_end(struct party *p);
/* Joins the run as guest `index`; the test fails if that fails. */
tutti_run *party_join(struct party *p, uint32_t index, const char *token);
/* Runs the program in n members, and waits until all have returned. */
void party_run(struct party *p, uint32_t n, void (*program)(struct guest *g), const char *token);
/* Wait until `step` is reached, or set it. A wait of more than a minute fails the test. */
void party_await(struct party *p, int step);
void party_reach(struct party *p, int step);

/* Fails the test with this message. Threads cannot use cmocka's functions. */
void party_check(bool good, const char *what, const char *file, int line);
#define CHECK(what) party_check(what, #what, __FILE__, __LINE__)
/* The call must return OK. */
#define MUST(call) CHECK((call) == TUTTI_OK)

#endif
