/* The data that a proven plan transfers between ranks, step by step, and the congestion among its
 * transfers. Pure, but allocates. */
#ifndef TT_SCHED_TRAFFIC_H
#define TT_SCHED_TRAFFIC_H

#include <stddef.h>
#include "sched/verify.h"

/* Congestion of a transfer on the links of a host; the first that applies:
 *  - serialized: its sender has two or more transfers over links of one class in that step;
 *  - incast: it crosses sockets of a host, and so does another transfer to the same rank in that
 *    step;
 *  - duplicate: data that it carries into a socket has entered that socket in an earlier step, or
 *    enters it twice in this one;
 *  - congestion-free.
 * A *step* is the round in which puts are emitted; the class of a link is the distance of its
 * ranks. */
enum tt_congestion { TT_FREE, TT_SERIALIZED, TT_INCAST, TT_DUPLICATE, TT_CONGESTIONS };

/* Returns "congestion-free", "serialized", "incast" or "duplicate"; "?" for an invalid value. */
const char *tt_congestion_name(enum tt_congestion c);

/* Bytes that a transfer carries: from `offset` of the input of the ranks in the set. */
struct tt_load {
    uint64_t offset, bytes;
    uint32_t set;               /* index into tt_traffic.set */
};

struct tt_transfer {
    uint32_t round, from, to;
    uint32_t place;             /* index among the puts of that rank in that round */
    uint32_t tag;
    uint64_t bytes;             /* never 0: signals are not transfers */
    uint8_t over;               /* enum tt_distance */
    uint8_t congestion;         /* enum tt_congestion */
    uint32_t first, nloads;     /* load[first .. first + nloads) */
};

struct tt_traffic {
    uint32_t nranks, nrounds;
    struct tt_transfer *transfer;       /* ordered by round, sender, place */
    uint32_t ntransfers;
    struct tt_load *load;
    uint32_t nloads;
    uint64_t *set;              /* [nloads][words] */
    size_t words;
};

/* Proves the program and determines its traffic over a layout of all its ranks. TUTTI_ERR_INVALID
 * with the verifier's finding in why[why_bytes] if it is not proven. On any error *out is
 * unchanged. Release with tt_traffic_fini. */
tutti_status tt_traffic_init(struct tt_traffic *out, const struct tt_program *p,
                             const struct tt_layout *l, char *why, size_t why_bytes);
void tt_traffic_fini(struct tt_traffic *t);

/* Writes the ranks whose input a transfer carries, as "0-2, 5", to text[bytes], truncated with
 * "..."; returns text. *reduced: whether it carries sums of several ranks' inputs. */
const char *tt_traffic_origins(const struct tt_traffic *t, const struct tt_transfer *transfer,
                               char *text, size_t bytes, bool *reduced);

#endif
