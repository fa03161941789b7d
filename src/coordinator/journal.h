/* Where a coordinator keeps what it must still know after a crash: records in their order (elastic/coord.h says what is in them). One
 * writer at a time: whoever opens a journal that another coordinator holds gets an error, or waits, as its kind says. One thread at a time. */
#ifndef TT_COORDINATOR_JOURNAL_H
#define TT_COORDINATOR_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct tt_journal;

struct tt_journal_ops {
    const char *name;       /* unique; also the file's name: "sqlite" */

    /* Gives `take` each record, the oldest first, until it returns false; that is no error here. Before anything is appended. An error says
     * what is damaged, and nothing was changed. */
    tutti_status (*read)(struct tt_journal *j, bool (*take)(void *context, const void *data, size_t bytes),
                         void *context);
    /* Adds a record to those of the next commit. */
    tutti_status (*append)(struct tt_journal *j, const void *data, size_t bytes);
    /* With the next commit all records go that are there now; what is appended from here on takes their place, all at once. */
    tutti_status (*replace)(struct tt_journal *j);
    /* Returns once everything that was appended is durable. After an error here or in append or replace nothing of this commit may be told
     * to anybody, and only close may follow; what a later reader finds is what was there before, or all of it. */
    tutti_status (*commit)(struct tt_journal *j);
    /* Whether it still is this coordinator's alone: an error if somebody else has taken it over, or may have. Never waits; often asked. */
    tutti_status (*check)(struct tt_journal *j);
    /* Ends it, and lets others open it. */
    void (*close)(struct tt_journal *j);
};

/* First in each kind's own struct. */
struct tt_journal {
    const struct tt_journal_ops *ops;
};

/* Keeps nothing: the run ends with its coordinator. On success *out is the caller's, until close. */
tutti_status tt_journal_none_open(struct tt_journal **out);
/* In a file, which is made if there is none. INVALID: it is no journal, damaged, or in use by another coordinator. Likewise. */
tutti_status tt_journal_sqlite_open(struct tt_journal **out, const char *path);

struct tt_journal_etcd_conf {
    const char *store;      /* "etcd://host:port[,host:port...]/prefix": servers of one etcd, and what all keys of this run begin with */
    const char *who;        /* what other coordinators are told of this one */
    uint32_t lease_s;       /* after so long without a word from this one another one leads; 0: TT_ETCD_LEASE_S */
    int stop_fd;            /* readable: give up waiting; -1 */
    bool patient;           /* waits for an etcd that cannot be reached, too */
    bool plain;             /* servers on other hosts are meant, though what is written to them travels in plain */
    void (*stands_by)(void *context, const char *leader);   /* as tt_etcd_lead_conf has it; NULL: nobody is told */
    void *context;
};
/* Whether conf's store is one, without asking it. INVALID names it and what is wrong; UNSUPPORTED: built without libcurl. */
tutti_status tt_journal_etcd_check(const struct tt_journal_etcd_conf *conf);
/* In etcd, for several coordinators of one run: waits until no other one leads. While it leads nobody else can write, and once it does not it
 * cannot. INVALID: the store's text is none, or what is in it is damaged; SYSTEM: etcd cannot be reached; ABORTED: stop_fd. */
tutti_status tt_journal_etcd_open(struct tt_journal **out, const struct tt_journal_etcd_conf *conf);

#endif
