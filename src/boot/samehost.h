/* Which ranks of a start-up share a host: proven, as boot ids and namespace numbers can be the same on two machines. */
#ifndef TT_BOOT_SAMEHOST_H
#define TT_BOOT_SAMEHOST_H

#include <stddef.h>
#include <stdint.h>

struct tt_samehost {
    int first, mark;                    /* sockets that hold names, or -1 */
    uint32_t holder;                    /* the rank that stands for this host: equal for two ranks exactly if they share it */
};

struct tt_samehost_conf {
    const char *token;
    const uint8_t *gathering;           /* [TT_NONCE_BYTES]; the same on all ranks, and in no other start-up */
    uint32_t rank, nranks;
    uint64_t deadline_ns;
};

/* Finds the rank that stands for this host; the caller ends *out with tt_samehost_fini. Never fails: a rank that can prove
 * nothing stands for itself, as if it were alone on its host. */
void tt_samehost_find(struct tt_samehost *out, const struct tt_samehost_conf *conf);
/* To be called once every rank of the job has found its own, which the table of all cards shows. */
void tt_samehost_fini(struct tt_samehost *s);

#endif
