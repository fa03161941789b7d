/* Proves which ranks of a start-up share a host, since boot ids and namespace numbers can be equal
 * on two machines. */
#ifndef TT_BOOT_SAMEHOST_H
#define TT_BOOT_SAMEHOST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "boot/auth.h"

#define TT_SAMEHOST_BITS 32             /* of a rank */

struct tt_samehost {
    int first, mark;                    /* sockets bound to the names, or -1 */
    int bits[TT_SAMEHOST_BITS];         /* of the representative: bound to the names of the bits
                                           of its rank, or -1 */
    int listener;                       /* of the representative: other ranks of this host connect
                                           to it; non-blocking; or -1 */
    uint8_t key[TT_MAC_BYTES];          /* of the names */
    uint32_t holder;                    /* representative of this host: equal for two ranks
                                           exactly if they share it */
};

struct tt_samehost_conf {
    const char *token;
    const uint8_t *gathering;           /* [TT_NONCE_BYTES]; equal on all ranks, and unique to
                                           this start-up */
    const char *host;                   /* for tests, emulates several hosts on one; or NULL */
    uint32_t rank, nranks;
    uint64_t deadline_ns;
};

/* Sets an empty state, which tt_samehost_fini accepts. */
void tt_samehost_init(struct tt_samehost *out);
/* Finds the representative of this host. *out must have no sockets. The caller releases it with
 * tt_samehost_fini. Never fails: a rank without a proof represents itself, as if it were alone on
 * its host. */
void tt_samehost_find(struct tt_samehost *out, const struct tt_samehost_conf *conf);
/* Writes the address of the representative's listener; returns its size. */
socklen_t tt_samehost_address(const struct tt_samehost *s, struct sockaddr_un *out);
/* Call it only after every rank has found its representative, i.e. once the table is complete. */
void tt_samehost_fini(struct tt_samehost *s);

#endif
