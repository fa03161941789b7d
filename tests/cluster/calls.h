/* One collective call as a test draws it: its buffers, the call itself, and what must be in the buffers afterwards by definition.
 *
 * Elements are functions of (salt, rank, index), so every rank knows everybody's input. Reductions get small integers, whose
 * results are exact in every type (a third of the averages are over another number than that of the ranks); or, if `rough`, random values of one sign whose sum has the error that tutti.h allows. Calls
 * that only move data carry arbitrary bits. Buffers begin `skew` bytes after an aligned address, with bytes around them that
 * must not change; blocks of the v calls have gaps between them, which must not change either. */
#ifndef TESTS_CLUSTER_CALLS_H
#define TESTS_CLUSTER_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/prng.h"
#include "sched/sched.h"
#include "tutti/tutti.h"

#define CALL_RANKS_MAX 6
#define CALL_TEXT_BYTES 192
#define CALL_KINDS (TT_BARRIER + 1)     /* all but send and recv */

struct call {
    enum tt_coll_kind kind;
    tutti_dtype type;
    tutti_redop op;
    size_t count;               /* v kinds: no block is longer */
    uint32_t root, nranks;
    bool in_place, rough;
    uint32_t src_skew, dst_skew;
    const char *algo;           /* NULL: the library's choice */
    int64_t timeout_ms;
    uint64_t salt;
};

/* One rank's side of a call. */
struct call_side {
    struct call call;
    uint32_t rank;
    uint8_t *src_mem, *dst_mem; /* with the bytes around; the same in place */
    uint8_t *src, *dst;         /* what is passed; NULL or no address at all where the call ignores it */
    uint64_t src_bytes, dst_bytes, src_mem_bytes, dst_mem_bytes;
    size_t send_count[CALL_RANKS_MAX], send_displ[CALL_RANKS_MAX], recv_count[CALL_RANKS_MAX],
        recv_displ[CALL_RANKS_MAX];
    bool packed;                /* displacements are passed as NULL */
    double scale;
    tutti_request *request;
};

bool call_reduces(enum tt_coll_kind kind);
bool call_has_root(enum tt_coll_kind kind);
bool call_is_v(enum tt_coll_kind kind);
/* Whether (type, op) and in place exist for the kind. */
bool call_exists(const struct call *c);
/* Draws type, op, root, in place, skews and salt for a call of this kind; the same from equal prngs. */
struct call call_draw(struct tt_prng *p, enum tt_coll_kind kind, size_t count, uint32_t nranks);
void call_print(const struct call *c, char out[CALL_TEXT_BYTES]);
/* As the algorithms see the call from this rank; its arrays live in *bytes[4 * CALL_RANKS_MAX]. */
struct tt_coll call_coll(const struct call_side *s, uint64_t *bytes);

/* Allocates and fills; call_fini frees. */
void call_init(struct call_side *s, const struct call *c, uint32_t rank);
void call_fini(struct call_side *s);
/* Calls it; with_request leaves s->request to be waited for. */
tutti_status call_go(struct call_side *s, tutti_comm *comm, bool with_request);
/* Whether every byte is what the definition says; if not, why[CALL_TEXT_BYTES] says which. */
bool call_is_right(const struct call_side *s, char *why);
/* Whether every byte of the input is what it was before the call. */
bool call_is_restored(const struct call_side *s, char *why);
/* Of the output of this rank. */
uint64_t call_result_hash(const struct call_side *s);

#endif
