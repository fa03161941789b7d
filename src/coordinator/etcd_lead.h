/* Leader election among several coordinators: the leader has created the key PREFIX/leader, which
 * etcd removes when its lease expires. A thread keeps the lease alive; the leader can check at any
 * time, without a request, whether it still leads. Each write to the journal also has the condition
 * that this leader's key exists. Therefore a deposed or suspended leader cannot change anything. */
#ifndef TT_COORDINATOR_ETCD_LEAD_H
#define TT_COORDINATOR_ETCD_LEAD_H

#include <stdbool.h>
#include "base/etcd.h"

/* time without a message from the leader after which another one takes over */
#define TT_ETCD_LEASE_S 3

struct tt_etcd_lead;

struct tt_etcd_lead_conf {
    const char *servers;        /* see tt_etcd_create */
    const char *key;            /* "PREFIX/leader" */
    const char *who;            /* name of this coordinator, as displayed by others */
    uint32_t lease_s;           /* replaces TT_ETCD_LEASE_S; 0: default */
    int stop_fd;                /* readable: stop waiting; -1 */
    bool patient;               /* also waits for an unreachable etcd */
    void (*stands_by)(void *context, const char *leader);   /* called while waiting, when the
                                                               leader has changed; "": unknown */
    void *context;
};

/* Waits without limit until there is no other leader (logged once, at level warn, with the leader's
 * name), and then leads. SYSTEM (logged): etcd is unreachable, or refuses the request. ABORTED:
 * stop_fd. On success *out belongs to the caller. */
tutti_status tt_etcd_lead_begin(struct tt_etcd_lead **out, const struct tt_etcd_lead_conf *conf);
/* Returns the time (tt_now_ns) until which this process is certain to lead. Any thread. */
uint64_t tt_etcd_lead_until_ns(struct tt_etcd_lead *l);
/* Returns OK, or ABORTED (logged once) if another process leads, or may lead. Any thread. */
tutti_status tt_etcd_lead_check(struct tt_etcd_lead *l);
/* Ends the leadership because a condition failed. `why` is logged. Returns ABORTED. */
tutti_status tt_etcd_lead_lose(struct tt_etcd_lead *l, const char *why);
/* Returns the condition "the leader's key is the one created here", for the `compare` of a
 * transaction. */
struct json_object *tt_etcd_lead_condition(const struct tt_etcd_lead *l);
/* Returns the term, which is higher for each later leader. */
int64_t tt_etcd_lead_term(const struct tt_etcd_lead *l);
/* Ends the leadership: another process may lead at once. */
void tt_etcd_lead_end(struct tt_etcd_lead *l);

#endif
