/* Storage of the state that a coordinator needs after a crash: records in order (contents:
 * elastic/coord.h). One writer at a time: opening a journal in use by another coordinator fails
 * or waits, depending on its kind. One thread at a time. */
#ifndef TT_COORDINATOR_JOURNAL_H
#define TT_COORDINATOR_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct tt_journal;

struct tt_journal_ops {
    const char *name;       /* unique; also the file's name: "sqlite" */

    /* Passes each record to `take`, the oldest first, until it returns false, which is not an
     * error. Call before the first append. On error, the message describes the damage, and nothing
     * was changed. */
    tutti_status (*read)(struct tt_journal *j,
                         bool (*take)(void *context, const void *data, size_t bytes),
                         void *context);
    /* Adds a record to the next commit. */
    tutti_status (*append)(struct tt_journal *j, const void *data, size_t bytes);
    /* With the next commit, all existing records are atomically replaced by those appended from
     * here on. */
    tutti_status (*replace)(struct tt_journal *j);
    /* Returns when all appended records are durable. After an error in commit, append or replace,
     * nothing that depends on these records may be sent, and only close may follow. A later reader
     * finds either the previous records or all of them. */
    tutti_status (*commit)(struct tt_journal *j);
    /* Returns an error if another coordinator has taken over, or may have done so. Never blocks;
     * called often. */
    tutti_status (*check)(struct tt_journal *j);
    /* Closes the journal, so that other coordinators can open it. */
    void (*close)(struct tt_journal *j);
};

/* First field in each kind's own struct. */
struct tt_journal {
    const struct tt_journal_ops *ops;
};

/* Opens a journal that stores nothing: the run cannot continue without its coordinator. On success
 * *out belongs to the caller, until close. */
tutti_status tt_journal_none_open(struct tt_journal **out);
/* Opens a journal in a file, which is created if necessary. INVALID: not a journal, damaged, or in
 * use by another coordinator. Ownership as above. */
tutti_status tt_journal_sqlite_open(struct tt_journal **out, const char *path);

struct tt_journal_etcd_conf {
    const char *store;      /* "etcd://host:port[,host:port...]/prefix": servers of one etcd, and
                               the prefix of all keys of this run */
    const char *who;        /* name of this coordinator, as displayed by others */
    uint32_t lease_s;       /* time without a message after which another coordinator may lead; 0:
                               TT_ETCD_LEASE_S */
    int stop_fd;            /* readable: stop waiting; -1 */
    bool patient;           /* also waits for an unreachable etcd */
    bool plain;             /* permits servers on other hosts, although the connection is
                               unencrypted */
    void (*stands_by)(void *context, const char *leader);   /* see tt_etcd_lead_conf; NULL: not
                                                               called */
    void *context;
};
/* Checks conf's store without a request. INVALID: the message contains the store and the cause;
 * UNSUPPORTED: built without libcurl. */
tutti_status tt_journal_etcd_check(const struct tt_journal_etcd_conf *conf);
/* Opens a journal in etcd, for several coordinators of one run: waits until there is no other
 * leader. Only the leader can write. INVALID: the store's text is invalid, or its content is
 * damaged; SYSTEM: etcd is unreachable; ABORTED: stop_fd. */
tutti_status tt_journal_etcd_open(struct tt_journal **out, const struct tt_journal_etcd_conf *conf);

#endif
