/* A random collective call: its buffers, the call itself, and the expected contents of the buffers.
 *
 * Elements are functions of (salt, rank, index), so every rank knows the input of all ranks.
 * Reductions have small integers, whose results are exact in every type (a third of the averages
 * use a divisor other than the number of ranks); or, if `rough`, random values of one sign, whose
 * sum has the error bound of tutti.h. Calls that only move data carry arbitrary bits. Buffers begin
 * `skew` bytes after an aligned address. The bytes around them, and the gaps between blocks of v
 * calls, must not change. */
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
    size_t count;               /* v kinds: maximum of a block */
    uint32_t root, nranks;
    bool in_place, rough;
    uint32_t src_skew, dst_skew;
    const char *algo;           /* NULL: selected by the library */
    int64_t timeout_ms;
    uint64_t salt;
};

/* One rank's side of a call. */
struct call_side {
    struct call call;
    uint32_t rank;
    uint8_t *src_mem, *dst_mem; /* with the guard bytes; equal in place */
    uint8_t *src, *dst;         /* the passed pointers; NULL or invalid where the call ignores
                                   them */
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
/* Returns whether the kind supports the call's type and operation, and in-place buffers if used. */
bool call_exists(const struct call *c);
/* Draws type, op, root, in place, skews and salt for a call of this kind; equal for equal
 * generators. */
struct call call_draw(struct tt_prng *p, enum tt_coll_kind kind, size_t count, uint32_t nranks);
void call_print(const struct call *c, char out[CALL_TEXT_BYTES]);
/* Returns the call of this rank as seen by algorithms; its arrays are stored in *bytes[4 *
 * CALL_RANKS_MAX]. */
struct tt_coll call_coll(const struct call_side *s, uint64_t *bytes);

/* Allocates and fills the buffers. Undone by call_fini. */
void call_init(struct call_side *s, const struct call *c, uint32_t rank);
void call_fini(struct call_side *s);
/* Makes the call; with_request: s->request must be waited for. */
tutti_status call_go(struct call_side *s, tutti_comm *comm, bool with_request);
/* Returns whether every byte is correct; if not, why[CALL_TEXT_BYTES] has the first wrong one. */
bool call_is_right(const struct call_side *s, char *why);
/* Returns whether every byte of the input is unchanged. */
bool call_is_restored(const struct call_side *s, char *why);
/* Returns a hash of this rank's output. */
uint64_t call_result_hash(const struct call_side *s);

#endif
