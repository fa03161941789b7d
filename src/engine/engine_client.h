/* Interface for a client of the engine: a room above that exchanges data with other processes
 * outside of operations, e.g. windows. It posts puts to the wires itself, over the engine's
 * links, and has its own message type in the mailboxes. There is at most one client.
 *
 * Unless stated otherwise, the caller holds the progress lock, and callbacks are called under
 * it. */
#ifndef TT_ENGINE_ENGINE_CLIENT_H
#define TT_ENGINE_ENGINE_CLIENT_H

#include "engine/engine.h"
#include "trace/oplog.h"
#include "wire/wire.h"

/* Completions of descriptors whose cookie has these bits set belong to the client; it uses the
 * other bits. */
#define TT_CLIENT_COOKIE_BITS 51
#define TT_CLIENT_COOKIE (8191ull << TT_CLIENT_COOKIE_BITS)

#define TT_CLIENT_MAIL_BYTES 32768u  /* maximum size of one message */

struct tt_engine_client {
    void *arg;
    /* Called in each progress pass. Retries messages and puts that had no room before. Returns
     * whether anything happened. */
    bool (*run)(void *arg);
    /* Returns whether memory contains an event for `run` or a waiter. Called often. */
    bool (*has_news)(void *arg);
    /* Returns whether a message waits for room, which may become free without a wake-up. */
    bool (*is_stuck)(void *arg);
    /* Handles a message of job rank `from`. The payload is valid during the call, and the peer
     * can modify it meanwhile. Returns false (logged) for a protocol violation. */
    bool (*mail)(void *arg, uint32_t from, const void *payload, uint32_t bytes);
    void (*done)(void *arg, const struct tt_done *done);
    /* Returns whether some of mem[bytes] is exposed to peers, or used by transfers in progress. */
    bool (*uses)(void *arg, const void *mem, size_t bytes);
    /* Called when the context is being closed. Frees the client's state of the context; returns
     * whether there was any. */
    bool (*close_context)(void *arg, const struct tt_context *c);
    /* Called when the engine is being destroyed. No other call is in progress, and the wires are
     * still open. */
    void (*close)(void *arg);
};

/* Addresses of a peer. */
struct tt_engine_client_link {
    struct tt_wire *wire;
    const struct tt_rkey *theirs;   /* its link region */
    uint64_t word;                  /* offset of a 64-bit word in that region. A signal that adds 0
                                       to the word only wakes the owner */
};

/* Registers the client `g` if there is none, and returns the registered one. *g belongs to the
 * caller and stays unchanged until `close`. Any thread. */
const struct tt_engine_client *tt_engine_register_client(struct tt_engine *e,
                                                         const struct tt_engine_client *g);
/* Returns the client, or NULL. Any thread. */
const struct tt_engine_client *tt_engine_client_of(struct tt_engine *e);
/* Begins (or ends, with the last call) a phase in which peers may send at any time. The progress
 * thread then polls whenever no other thread does. */
void tt_engine_client_expects(struct tt_engine *e, bool begins);

/* Acquire and release the progress lock. Any thread. */
void tt_engine_client_enter(struct tt_engine *e);
void tt_engine_client_leave(struct tt_engine *e);
/* Wakes threads that wait for changes of this process's memory. The caller must not hold the
 * progress lock. Any thread. */
void tt_engine_client_touch(struct tt_engine *e);
/* Makes progress until attempt(arg), called under the progress lock, returns true. The caller
 * must not hold the lock. Any thread. */
void tt_engine_client_until(struct tt_engine *e, bool (*attempt)(void *arg), void *arg);
/* Like tt_engine_client_until, but is_over is called without the lock and reads only atomic data.
 * Threads that wait like this do not wake each other. */
void tt_engine_client_wait(struct tt_engine *e, bool (*is_over)(void *arg), void *arg);
/* `attempt` and `is_over` must call this on each evaluation if their wait has a deadline, so that
 * no thread sleeps beyond it. Any thread, with or without the lock. */
void tt_engine_client_due(struct tt_engine *e, uint64_t deadline_ns);
/* Makes some progress, if no other thread does. The caller must not hold the progress lock. */
void tt_engine_client_progress(struct tt_engine *e);

/* Declares that some transfer will not be complete when the caller returns. Its completion may not
 * wake a sleeper; therefore the progress thread is woken when the progress lock is released. */
void tt_engine_client_left_unfinished(struct tt_engine *e);
/* Wakes all waiting threads. */
void tt_engine_client_wake(struct tt_engine *e);
/* Returns the engine's trace writer. Its records must be written under the progress lock. */
struct tt_oplog_writer *tt_engine_client_trace_writer(struct tt_engine *e);
/* Returns the number of a job rank in traces: in an elastic run, its member id. Any thread. */
uint32_t tt_engine_client_trace_rank(const struct tt_engine *e, uint32_t rank);
/* Returns wire i in order of preference, or NULL after the last one. */
struct tt_wire *tt_engine_client_wire(struct tt_engine *e, uint32_t i);
/* Returns the region of tutti_mem_alloc, which belongs to the first wire, that contains mem[bytes],
 * and stores their offset in it to *offset; NULL: none. */
const struct tt_region *tt_engine_client_allocated(const struct tt_engine *e, const void *mem,
                                                   uint64_t bytes, uint64_t *offset);
/* begins: from now on, posted puts may be delayed, so that one system call sends several short
 * puts. Otherwise posts them. */
void tt_engine_client_gather(struct tt_engine *e, bool begins);
/* OK: *out has the addresses of job rank `rank` (not this one). PENDING: a connection is being
 * established; or the rank has left, and its reason may still arrive. PEER_LOST (not logged): it
 * has left or was lost. */
tutti_status tt_engine_client_reach(struct tt_engine *e, uint32_t rank,
                                    struct tt_engine_client_link *out);
/* Returns whether a link to job rank `rank` is up. */
bool tt_engine_client_is_linked(const struct tt_engine *e, uint32_t rank);
/* Sends a message to a connected rank. False: no room now. */
bool tt_engine_client_send(struct tt_engine *e, uint32_t rank, const void *payload, uint32_t bytes);
/* Orders messages after puts, which they may otherwise overtake. Later messages to that rank are
 * delivered after all earlier puts to it have landed. Does not wait. False: no room now. */
bool tt_engine_client_fence(struct tt_engine *e, uint32_t rank);

#endif
