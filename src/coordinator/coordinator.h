/* A coordinator's process around its state machine (elastic/coord.h): a thread that listens, reads what members say, and carries out what the
 * machine decides, in its order; what must survive a crash is in the journal before anybody hears of it. A journal that fails ends the
 * coordinator, as a crash would; started anew on the same journal, the run goes on.
 *
 * What strangers and members can cost it is bounded: how many may be connected without having joined and for how long, how often an
 * address may connect, how much a member may say, how much may wait for one that does not read. */
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
    const char *const *listen;      /* [nlisten] as coordinator/listen.h says */
    uint32_t nlisten;
    bool insecure;                  /* PLAIN is meant, also where an address is not loopback */
    struct tt_secure_conf secure;
    uint64_t lease_ns, grace_ns;    /* 0: the defaults above */
    uint64_t join_ns;               /* in which a connection has to have joined; 0: the default above */
    uint32_t members_max;           /* 0: TT_ELASTIC_MEMBERS_MAX */
};

/* Whether a coordinator could be told to be so; INVALID names the setting, or the file of the certificates, and what is wrong. No address is
 * taken, and nothing is made. SYSTEM: a name to listen on cannot be looked up now. */
tutti_status tt_coordinator_check(const struct tt_coordinator_conf *conf);
/* Reads the journal, listens, and begins. On success the journal is *out's, which closes it; on error it is the caller's still. INVALID: a
 * journal of another run or a damaged one, an address or a setting that makes no sense; the sentence says which. */
tutti_status tt_coordinator_create(struct tt_coordinator **out, const struct tt_coordinator_conf *conf,
                                   struct tt_journal *journal);
/* Ends it: connections are dropped without a word, so members wait for the next one on the same journal. NULL is fine. */
void tt_coordinator_destroy(struct tt_coordinator *c);

/* What other coordinators of the run are told of this process, which listens on `listen` (the first of its addresses). */
void tt_coordinator_call_it(char *out, size_t bytes, const char *listen);
/* Address i it listens on, "127.0.0.1:4711"; NULL from the last on. */
const char *tt_coordinator_address(const struct tt_coordinator *c, uint32_t i);
/* Its state for others to read; as long as it lives. Any thread. */
struct tt_board *tt_coordinator_board(struct tt_coordinator *c);
/* A descriptor that is readable once it ended by itself, and why it did: OK as long as it has not. Any thread. */
int tt_coordinator_ended_fd(const struct tt_coordinator *c);
tutti_status tt_coordinator_why(struct tt_coordinator *c, char *text, size_t bytes);

#endif
