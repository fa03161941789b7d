/* The proxy: takes what blocks have written into the FIFO, and gives it to a sink, in an order in which no signal is seen before its bytes. It
 * has no thread, clock, lock or wire: who runs it brings them (thread.c, and tests). One thread at a time.
 *
 * Commands to one peer are in the order in which they were taken; each peer has a queue, so that one that takes nothing holds up no other. Queues
 * are bounded by credits: blocks enter a command only while fewer than conf.pending of that peer are not done (tutti_device_admit), and `given` counts
 * those that are. So what is in the FIFO always has room, and a stopped peer blocks only its own senders. Modes
 * (tutti_device_mode) differ in two places: in what comes between the bytes and the signal of a put_signal, and in what a fence is. Both are a drain, which
 * nothing passes, or a mark of the peer's, which goes with its next signal. */
#ifndef TT_DEVICE_PROXY_H
#define TT_DEVICE_PROXY_H

#include <stdatomic.h>
#include "device/trigger.h"

/* What commands come to. All return OK, PENDING (not yet: call again with the same) or what ended the peer, with a sentence. */
struct tt_proxy_sink {
    void *arg;
    /* The bytes, if there are any, and then the signal, if there is one. ordered: the signal goes behind all that was put to the peer before. OK when taken;
     * 1 is added to *done (atomically) when c->src may be used again. */
    tutti_status (*put)(void *arg, const struct tt_command *c, bool ordered, uint64_t *done);
    /* OK when all that was put to the peer has landed. */
    tutti_status (*quiet)(void *arg, uint32_t peer);
    /* Host threads of the peer look at their memory. */
    tutti_status (*wake)(void *arg, uint32_t peer);
};

struct tt_proxy_conf {
    struct tt_proxy_sink sink;
    tutti_device_mode mode;
    uint32_t rank, nranks;
    uint64_t timeout_ns;        /* a peer that takes nothing, or lets nothing land, for so long ends the device; TT_NEVER: none does */
    uint32_t pending;           /* commands of one peer that blocks may have entered and that are not done */
    /* Memory that blocks see, as tutti_device_view has it. */
    tutti_device_trigger *fifo;
    uint32_t fifo_slots;
    uint64_t *taken, *answers, *given;
    uint64_t *told;
    const uint64_t *bytes;
    const uint8_t *words;
};

/* As in tutti_device_counters; read by any thread. */
struct tt_proxy_counters {
    _Atomic uint64_t triggers, puts, put_bytes, signals, drains, fences, quiets, stalls;
};

struct tt_proxy_peer {
    uint32_t rank;
    bool busy;                  /* on the list of those with commands */
    struct tt_proxy_peer *next_busy;
    bool drained;               /* of the drain that is under way: all of it has landed */
    bool marked;                /* a fence was called: the next signal goes behind what is before */
    bool wakes;                 /* a wake is in its queue: another one adds nothing */
    uint64_t given, done;       /* puts that the sink has taken; of these, those whose source may be used again */
    uint64_t stuck_ns;          /* since when its first command waits; 0: it does not */
    struct tt_command *ring;    /* [depth], a power of two; NULL: none yet */
    uint32_t depth, head, tail;
};

struct tt_proxy {
    struct tt_proxy_conf conf;
    struct tt_proxy_counters counters;
    uint64_t at;                /* the position of the next trigger */
    struct tt_trigger_reader reader;
    bool holds;                 /* a command that has no room, or waits for the drain, before all that is still in the FIFO */
    struct tt_command held;
    bool drains;
    uint64_t drain_ns;          /* since when; 0: not looked at yet */
    struct tt_command behind;   /* the signal that waits for the drain; what NONE: there is none */
    struct tt_proxy_peer **peers;   /* [nranks]; NULL: not used yet */
    struct tt_proxy_peer *busy;
    uint32_t parts[2][TUTTI_DEVICE_TICKETS];    /* quiets and flushes of all peers, by number: peers that have not answered; 0: answered */
    uint32_t next_ticket[2];
    tutti_status failed;        /* everything is dropped */
};

/* Memory of conf stays the caller's, until fini. NOMEM (logged). */
tutti_status tt_proxy_init(struct tt_proxy *p, const struct tt_proxy_conf *conf);
/* Counters of puts that the sink has not completed must not be used any more. */
void tt_proxy_fini(struct tt_proxy *p);

/* Takes triggers from the FIFO until it is empty or there is no room; returns how many. No sink is called. A trigger that is none: what ended the proxy in *st,
 * else OK. */
uint32_t tt_proxy_take(struct tt_proxy *p, tutti_status *st);
/* Gives the sink what it takes. *any: something moved. An error (with a sentence) is to be told to tt_proxy_fail. */
tutti_status tt_proxy_step(struct tt_proxy *p, uint64_t now_ns, bool *any);
/* Nothing is left but what may be in the FIFO. */
bool tt_proxy_is_idle(const struct tt_proxy *p);
/* Whether the next trigger is there. */
bool tt_proxy_has_trigger(const struct tt_proxy *p);
/* From here on all commands are dropped, and tickets answered. */
void tt_proxy_fail(struct tt_proxy *p, tutti_status status);

#endif
