/* A rendezvous address that rank 0 publishes in etcd, under the key PREFIX/root. The key has a
 * lease, so that etcd removes it if rank 0 cannot. One rank of each host reads it, and shares the
 * id with the others (host_share.h). One thread at a time; calls block. */
#ifndef TT_BOOT_ETCD_KEY_H
#define TT_BOOT_ETCD_KEY_H

#include <stdint.h>
#include "tutti/tutti.h"

#define TT_ETCD_KEY_URL "etcd://"

struct tt_etcd_key;

/* url: "etcd://host:port[,host:port...]/prefix"; `from` is its source, for messages; token and
 * host: as in host_share.h. Sends nothing yet. INVALID, or UNSUPPORTED without libcurl (logged). On
 * success the caller owns *out. */
tutti_status tt_etcd_key_open(struct tt_etcd_key **out, const char *url, const char *from,
                              const char *token, const char *host);
/* Rank 0: stores the id. The lease ends some time after the deadline. Fails (logged) if etcd
 * refuses it, or does not respond for 30 s. */
tutti_status tt_etcd_key_publish(struct tt_etcd_key *k, const tutti_id *id, uint64_t deadline_ns);
/* Ranks other than 0: reads the id, from etcd or from the rank of this host that reads etcd.
 * TIMEOUT: there is no id yet, or no server responds; the reason is in why[TT_SHARE_BYTES_MAX], ""
 * at first. INVALID (logged): etcd refuses the request. */
tutti_status tt_etcd_key_read(struct tt_etcd_key *k, tutti_id *out, uint64_t deadline_ns,
                              char *why);
/* Returns a descriptor that is readable when other ranks of this host wait for the id; -1: there is
 * no such descriptor now. k may be NULL. */
int tt_etcd_key_fd(const struct tt_etcd_key *k);
/* Sends the id to the waiting ranks. If this rank read it more than a second ago, it reads it
 * again: those ranks may belong to a later job, or to this one after a restart of rank 0. */
void tt_etcd_key_serve(struct tt_etcd_key *k, uint64_t deadline_ns);
/* Removes the key, if this process has published it, and frees all. k may be NULL. */
void tt_etcd_key_close(struct tt_etcd_key *k);

#endif
