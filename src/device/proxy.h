/* The proxy: takes the triggers that blocks have written into the FIFO, and passes commands to a
 * sink, such that no signal is visible before its data. It has no thread, clock, lock or wire:
 * the caller provides them (thread.c, and tests). One thread at a time.
 *
 * Commands to one peer stay in order. Each peer has its own queue, so that a blocked peer does
 * not block others. Queues are bounded by credits: blocks enter a command only while fewer than
 * conf.pending of that peer are incomplete (tutti_device_admit). `given` counts the completed
 * conf.pending of that peer are incomplete (tutti_device_admit). `given` counts the completed
 * ones. Therefore commands in the FIFO always have room, and a stopped peer blocks only its own
 * senders. Modes (tutti_device_mode) determine how the data and the signal of a put_signal are
 * separated, and how a fence works: by a drain, which no command passes, or by a mark of the peer,
 * which applies to its next signal. */
#ifndef TT_DEVICE_PROXY_H
#define TT_DEVICE_PROXY_H

#include <stdatomic.h>
#include "device/trigger.h"

/* The target of commands. All functions return OK, PENDING (call again with the same arguments),
 * or the error that ended the peer, with a message. */
struct tt_proxy_putter {
    void *arg;
    /* Sends the data, if any, then the signal, if any. ordered: the signal follows everything
     * that was put to the peer earlier. Returns OK when accepted; *done is incremented (atomically)
     * when c->src may be reused. */
    tutti_status (*put)(void *arg, const struct tt_command *c, bool ordered, uint64_t *done);
    /* Returns OK when everything put to the peer has landed. */
    tutti_status (*quiet)(void *arg, uint32_t peer);
    /* Wakes the host threads of the peer. */
    tutti_status (*wake)(void *arg, uint32_t peer);
};

struct tt_proxy_conf {
    struct tt_proxy_putter sink;
    tutti_device_mode mode;
    uint32_t rank, nranks;
    uint64_t timeout_ns;        /* a peer without progress for this time ends the device; TT_NEVER:
                                   no limit */
    uint32_t pending;           /* maximum incomplete commands of one peer that blocks may enter */
    /* Memory visible to blocks, as in tutti_device_view. */
    tutti_device_trigger *fifo;
    uint32_t fifo_slots;
    uint64_t *taken, *answers, *given;
    uint64_t *wake_sent;
    const uint64_t *bytes;
    const uint8_t *words;
};

/* As in tutti_device_counters; read by any thread. */
struct tt_proxy_counters {
    _Atomic uint64_t triggers, puts, put_bytes, signals, drains, fences, quiets, stalls;
};

struct tt_proxy_peer {
    uint32_t rank;
    bool busy;                  /* in the list of peers with commands */
    struct tt_proxy_peer *next_busy;
    bool drained;               /* drained by the drain in progress */
    bool marked;                /* a fence was called: the next signal is ordered after all earlier
                                   commands */
    bool wakes;                 /* a wake is in its queue: another one is redundant */
    uint64_t given, done;       /* puts accepted by the sink; of these, those whose source may be
                                   reused */
    uint64_t stuck_ns;          /* its first command is blocked since then; 0: not blocked */
    struct tt_command *ring;    /* [depth], a power of two; NULL: none yet */
    uint32_t depth, head, tail;
};

struct tt_proxy {
    struct tt_proxy_conf conf;
    struct tt_proxy_counters counters;
    uint64_t at;                /* position of the next trigger */
    struct tt_trigger_reader reader;
    bool holds;                 /* `held` waits for room or for the drain; it precedes everything in
                                   the FIFO */
    struct tt_command held;
    bool drains;
    uint64_t drain_ns;          /* beginning of the drain; 0: not started yet */
    struct tt_command behind;   /* the signal after the drain; what NONE: none */
    struct tt_proxy_peer **peers;   /* [nranks]; NULL: not used yet */
    struct tt_proxy_peer *busy;
    uint32_t parts[2][TUTTI_DEVICE_TICKETS];    /* quiets and flushes of all peers, by ticket:
                                                   remaining peers; 0: complete */
    uint32_t next_ticket[2];
    tutti_status failed;        /* all commands are dropped */
};

/* Initializes a proxy. The memory in conf belongs to the caller, and must stay valid until fini.
 * NOMEM (logged). */
tutti_status tt_proxy_init(struct tt_proxy *p, const struct tt_proxy_conf *conf);
/* Frees the proxy. Incomplete puts must not use its counters any more. */
void tt_proxy_fini(struct tt_proxy *p);

/* Takes triggers from the FIFO until it is empty or there is no room; returns their number. Does
 * not call the sink. *st: OK, or the error that ends the proxy (invalid trigger). */
uint32_t tt_proxy_take(struct tt_proxy *p, tutti_status *st);
/* Passes commands to the sink. Sets *any if there was progress. The caller passes an error (with a
 * message) to tt_proxy_fail. */
tutti_status tt_proxy_step(struct tt_proxy *p, uint64_t now_ns, bool *any);
/* Returns whether there are no commands, except in the FIFO. */
bool tt_proxy_is_idle(const struct tt_proxy *p);
/* Returns whether the next trigger is available. */
bool tt_proxy_has_trigger(const struct tt_proxy *p);
/* Drops all commands from now on, and answers their tickets. */
void tt_proxy_fail(struct tt_proxy *p, tutti_status status);

#endif
