/* The ranks of a host share the data that one of them, the first, has received from a server: rank
 * 0's address from a key, or the id of the start-up. The other ranks receive it over a local
 * socket, so that the load of the server grows with the number of hosts, not of ranks. Only
 * processes of one user share. One thread at a time. */
#ifndef TT_BOOT_HOST_SHARE_H
#define TT_BOOT_HOST_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/auth.h"

#define TT_SHARE_BYTES_MAX 640u         /* maximum size of the shared data, and of a reason */

struct tt_host_share {
    uint8_t name[TT_MAC_BYTES];         /* of the socket of the first rank */
    int listener;                       /* of the first rank; readable when others wait; or -1 */
    bool alone;                         /* this rank does not share (any more) */
    uint64_t asked_ns;                  /* time of the first query without a response; 0: none */
};

enum tt_share_answer {
    TT_SHARE_FOUND,
    TT_SHARE_NOT_YET,           /* the first rank has nothing yet, or has just ended */
    TT_SHARE_ALONE              /* the first rank does not respond, or no longer shares: this rank
                                   uses the server itself from now on */
};

/* The work of a rank while it waits for the first one: it responds to ranks that wait for it, e.g.
 * for another purpose. Otherwise two ranks could wait for each other. */
struct tt_share_meanwhile {
    int (*fd)(void *arg);           /* returns a descriptor, or -1 for now */
    void (*serve)(void *arg);       /* called when it is readable */
    void *arg;
};

/* purpose and url: equal on all ranks that share; host: for tests, emulates several hosts on one.
 * Opens nothing yet. */
void tt_host_share_init(struct tt_host_share *s, const char *token, const char *purpose,
                        const char *url, const char *host);
void tt_host_share_fini(struct tt_host_share *s);
/* Returns whether this rank uses the server: it is the first of its host, or alone. Binds the
 * socket if no other process has. */
bool tt_host_share_is_first(struct tt_host_share *s);
/* On the other ranks: waits for the next response of the first rank, until the deadline or a
 * signal, but at most 5 s. FOUND: found[bytes] is set. NOT_YET: the reason is in
 * why[TT_SHARE_BYTES_MAX], "" at first; it is unchanged if there was no response. ALONE: no
 * response for 5 s. meanwhile may be NULL. */
enum tt_share_answer tt_host_share_ask(struct tt_host_share *s, uint64_t deadline_ns, void *found,
                                       size_t bytes, char *why,
                                       const struct tt_share_meanwhile *meanwhile);
/* On the first rank: responds to all waiting ranks. FOUND: with data[bytes]; NOT_YET: with a
 * reason. No effect on a rank without a listener. */
void tt_host_share_answer(struct tt_host_share *s, enum tt_share_answer answer, const void *data,
                          size_t bytes);
void tt_host_share_not_yet(struct tt_host_share *s, const char *why);

#endif
