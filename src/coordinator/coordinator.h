/* The process of a coordinator around its state machine (elastic/coord.h): a thread that listens,
 * reads members' messages, and performs the machine's actions in order. State that must survive a
 * crash is in the journal before any member receives it. A failure of the journal stops the
 * coordinator, like a crash. The run continues when it is restarted on the same journal.
 *
 * Resources used by peers and members are bounded: the number and duration of connections that have
 * not joined, and the connection rate of an address. For a member, the message rate and the queue
 * of unread messages are bounded. */
#ifndef TT_COORDINATOR_COORDINATOR_H
#define TT_COORDINATOR_COORDINATOR_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/journal.h"
#include "coordinator/snapshot.h"
#include "secure/secure.h"

#define TT_COORDINATOR_LEASE_NS 1000000000ull
#define TT_COORDINATOR_GRACE_NS 250000000ull
#define TT_COORDINATOR_JOIN_NS 5000000000ull
#define TT_COORDINATOR_CALLED_BYTES 192u    /* enough for tt_coordinator_call_it */

struct tt_coordinator;

struct tt_coordinator_conf {
    const char *run;                /* the run's name; copied */
    const char *const *listen;      /* [nlisten] see coordinator/listen.h */
    uint32_t nlisten;
    bool insecure;                  /* PLAIN is intended, even on an address that is not loopback */
    struct tt_secure_conf secure;
    uint64_t lease_ns, grace_ns;    /* 0: the defaults above */
    uint64_t join_ns;               /* time until a connection must have joined; 0: the default
                                       above */
    uint32_t members_max;           /* 0: TT_ELASTIC_MEMBERS_MAX */
};

/* Checks the configuration without binding an address or creating anything. INVALID names the
 * setting, or the certificate file, and the cause. SYSTEM: a name cannot be resolved now. */
tutti_status tt_coordinator_check(const struct tt_coordinator_conf *conf);
/* Reads the journal, listens, and starts the thread. On success the journal belongs to *out,
 * which closes it; on error it still belongs to the caller. INVALID: the journal is damaged or
 * of another run, or an address or setting is invalid; the message names it. */
tutti_status tt_coordinator_create(struct tt_coordinator **out,
                                   const struct tt_coordinator_conf *conf,
                                   struct tt_journal *journal);
/* Stops the coordinator. Connections are closed without a message, so members wait for the next
 * coordinator on the same journal. c may be NULL. */
void tt_coordinator_destroy(struct tt_coordinator *c);

/* Prints this process's name for other coordinators of the run. listen: its first address. */
void tt_coordinator_call_it(char *out, size_t bytes, const char *listen);
/* Returns the i-th address on which it listens, e.g. "127.0.0.1:4711"; NULL after the last one. */
const char *tt_coordinator_address(const struct tt_coordinator *c, uint32_t i);
/* Returns its state for other threads, valid as long as the coordinator. Any thread. */
struct tt_board *tt_coordinator_board(struct tt_coordinator *c);
/* Return a descriptor that becomes readable if the coordinator stops because of an error, and this
 * error; OK while it runs. Any thread. */
int tt_coordinator_ended_fd(const struct tt_coordinator *c);
tutti_status tt_coordinator_error(struct tt_coordinator *c, char *text, size_t bytes);

#endif
