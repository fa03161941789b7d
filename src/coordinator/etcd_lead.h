/* Who of several coordinators leads: whoever made the key PREFIX/leader, which etcd removes when its lease ends. A thread keeps the lease alive;
 * whoever leads knows at any time, without asking, whether it still may. That it made the key, and no other is there now, is also a condition of
 * each of its writes (the journal's), so whoever was deposed, or slept for an hour, can change nothing. */
#ifndef TT_COORDINATOR_ETCD_LEAD_H
#define TT_COORDINATOR_ETCD_LEAD_H

#include <stdbool.h>
#include "coordinator/etcd.h"

#define TT_ETCD_LEASE_S 3       /* after so long without a word from the leader another one takes over */

struct tt_etcd_lead;

struct tt_etcd_lead_conf {
    const char *servers;        /* as tt_etcd_create has it */
    const char *key;            /* "PREFIX/leader" */
    const char *who;            /* what others are told of us */
    uint32_t lease_s;           /* instead of TT_ETCD_LEASE_S; 0: that */
    int stop_fd;                /* readable: give up waiting; -1 */
    bool patient;               /* waits for an etcd that cannot be reached, too */
    void (*stands_by)(void *context, const char *leader);   /* while it waits, whenever another one leads than before; "": nobody is known to */
    void *context;
};

/* Waits until nobody else leads, for as long as that takes (it says so once, at level warn, and whom it waits for), and leads from then on.
 * SYSTEM (logged): etcd could not be reached, or refuses. ABORTED: stop_fd. On success *out is the caller's. */
tutti_status tt_etcd_lead_begin(struct tt_etcd_lead **out, const struct tt_etcd_lead_conf *conf);
/* Until when (tt_now_ns) it surely leads, as far as is known now. Any thread. */
uint64_t tt_etcd_lead_until_ns(struct tt_etcd_lead *l);
/* OK, or ABORTED (logged, once) when another one leads or may. Any thread. */
tutti_status tt_etcd_lead_check(struct tt_etcd_lead *l);
/* It does not lead any more: a condition failed. `why` is logged. Returns ABORTED. */
tutti_status tt_etcd_lead_lose(struct tt_etcd_lead *l, const char *why);
/* "The leader's key is the one that we made", for the `compare` of a transaction. */
struct json_object *tt_etcd_lead_condition(const struct tt_etcd_lead *l);
/* Rises from leader to leader. */
int64_t tt_etcd_lead_term(const struct tt_etcd_lead *l);
/* Another one may lead at once. */
void tt_etcd_lead_end(struct tt_etcd_lead *l);

#endif
