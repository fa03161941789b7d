/* A guest of the engine: a room above that exchanges bytes with its like in other processes beside operations, as windows do. It puts through the
 * wires itself, over the links that the engine keeps, and has a kind of message of its own in the mailboxes. There is at most one.
 *
 * Everything here is under the baton, and what the engine calls is called under it, unless it says otherwise. */
#ifndef TT_ENGINE_GUEST_H
#define TT_ENGINE_GUEST_H

#include "engine/engine.h"
#include "wire/wire.h"

/* Completions of descriptors whose cookie has these bits are the guest's; the others are its own. */
#define TT_GUEST_COOKIE_BITS 51
#define TT_GUEST_COOKIE (8191ull << TT_GUEST_COOKIE_BITS)

#define TT_GUEST_MAIL_BYTES 32768u  /* of one message, at most */

struct tt_guest {
    void *arg;
    /* In each pass of progress: what had no room before. True: something happened. */
    bool (*run)(void *arg);
    /* Whether memory holds what run, or a waiter, would find. Often called. */
    bool (*has_news)(void *arg);
    /* Whether something waits for room that comes without a sign. */
    bool (*is_stuck)(void *arg);
    /* A message of job rank `from`; the payload is valid during the call, and the peer may go on writing it. False (logged): it is none
     * that an honest peer sends. */
    bool (*mail)(void *arg, uint32_t from, const void *payload, uint32_t bytes);
    void (*done)(void *arg, const struct tt_done *done);
    /* Whether it uses some of mem[bytes]: exposed to peers, or read or written by what is under way. */
    bool (*uses)(void *arg, const void *mem, size_t bytes);
    /* The context is being closed. True: the guest still had something of it, which is gone now. */
    bool (*close_context)(void *arg, const struct tt_context *c);
    /* The engine is being destroyed; nothing else runs any more, and the wires are still open. */
    void (*close)(void *arg);
};

/* How a peer is reached. */
struct tt_guest_link {
    struct tt_wire *wire;
    const struct tt_rkey *theirs;   /* its link region */
    uint64_t word;                  /* offset of a 64-bit word there to which 0 may be added by a signal: that changes nothing, and wakes its owner */
};

/* The guest that is there, or `g` from now on; *g is the caller's and stays as it is until close. Any thread. */
const struct tt_guest *tt_engine_invite(struct tt_engine *e, const struct tt_guest *g);
/* The guest that is there; NULL: none. Any thread. */
const struct tt_guest *tt_engine_guest(struct tt_engine *e);
/* Peers may call at any time from here on (or, with the last of them, no longer): the progress thread listens whenever nobody else does. */
void tt_guest_expects(struct tt_engine *e, bool begins);

/* Without the baton, any thread: takes it, and gives it back. */
void tt_guest_enter(struct tt_engine *e);
void tt_guest_leave(struct tt_engine *e);
/* Without the baton, any thread: this process' own memory was changed; who waits for that looks. */
void tt_guest_touch(struct tt_engine *e);
/* Without the baton, any thread: makes progress until attempt(arg), which is called under the baton, is true. */
void tt_guest_until(struct tt_engine *e, bool (*attempt)(void *arg), void *arg);
/* The same where looking needs no baton: is_over only reads what is atomic. Threads that wait like this do not wake each other. */
void tt_guest_wait(struct tt_engine *e, bool (*is_over)(void *arg), void *arg);
/* For attempt and is_over, each time: the wait ends at that time at the latest, so nobody sleeps beyond it. */
void tt_guest_due(struct tt_engine *e, uint64_t deadline_ns);
/* A little progress, if nobody else makes some. Without the baton. */
void tt_guest_progress(struct tt_engine *e);

/* Something was left under way, or waits for room, and the caller goes on: what ends it may wake no sleeper, so a sleeping progress thread
 * is woken when the baton is given back. */
void tt_guest_left_unfinished(struct tt_engine *e);
/* Whoever waits shall look. */
void tt_guest_wake(struct tt_engine *e);
/* The wires, preferred first; NULL: there are no more. */
struct tt_wire *tt_guest_wire(struct tt_engine *e, uint32_t i);
/* Until it ends with false, what is posted may wait for what is posted next, so that one system call takes several short puts. */
void tt_guest_gather(struct tt_engine *e, bool begins);
/* OK: *out says how job rank `rank` (not this one) is reached. PENDING: not yet, a connection has begun; or it has left, and may yet have told why. PEER_LOST (not
 * logged): it has left or was lost. */
tutti_status tt_guest_reach(struct tt_engine *e, uint32_t rank, struct tt_guest_link *out);
/* Whether job rank `rank` is reached already. */
bool tt_guest_is_linked(const struct tt_engine *e, uint32_t rank);
/* Sends a message to a rank that is reached. False: there is no room now. */
bool tt_guest_send(struct tt_engine *e, uint32_t rank, const void *payload, uint32_t bytes);
/* Messages may overtake puts. Those to that rank from here on are heard there after all puts that were posted to it before have landed. Waits for nobody. False: there is no
 * room now. */
bool tt_guest_fence(struct tt_engine *e, uint32_t rank);

#endif
