/* The data from one rank to another. The head of the message contains the lengths of all pieces,
 * and a bitmap of the pieces for the receiver. Short pieces are included. Pure.
 *
 *     flaw (1), packed (1)          error at the sender; whether pieces follow
 *     width (1), 0                  size of a length
 *     most (4)                      maximum number of the sender's stretches to one rank, without
 *                                   packed pieces
 *     at (8), value (8)             of a flaw: position and value
 *     lengths [nsplits][width]      only without a flaw
 *     wanted [(nsplits + 7) / 8]    bit i: piece i is for the receiver; in a common head, one
 *                                   bitmap per rank
 *     pieces, ascending, adjacent   if packed
 * All numbers are little-endian. A head with a flaw is padded with zeros to its full length. */
#ifndef TT_MOE_PIECES_H
#define TT_MOE_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/sched.h"
#include "tutti/moe.h"

#define TT_PIECES_MAX 65536u
#define TT_PIECE_LENGTH_MAX (1ull << 40)

/* Values declared equally by all ranks, except `rank`. */
struct tt_pieces_shape {
    uint32_t nranks, nsplits, elem_bytes;
    uint64_t max_length, max_total;
    bool to_all;                /* a common head for all ranks contains all bitmaps; nothing is
                                   packed */
    uint32_t rank;              /* rank whose bitmap is read from a common head */
};

/* Errors in a rank's lists. */
enum tt_flaw {
    TT_FLAW_NONE,
    TT_FLAW_LENGTH,             /* at: index of the piece, value: its length */
    TT_FLAW_TOTAL,              /* value: the sum of the lengths */
    TT_FLAW_SUM,                /* at: the sum of index_block_lens, value: nindices */
    TT_FLAW_INDEX,              /* at: position in indices, value: the index */
    TT_FLAW_OVERLAP,            /* at: rank of the receive buffer */
    TT_FLAW_NULL,               /* value: required elements of sendbuff */
    TT_FLAW_SPACE,              /* at: which list, value: number of elements, which exceeds the
                                   address space */
    TT_FLAWS
};

enum { TT_SPACE_INDICES, TT_SPACE_SENDBUFF };    /* lists of TT_FLAW_SPACE */

struct tt_head {
    uint8_t flaw;               /* enum tt_flaw */
    bool packed;
    uint32_t most;
    uint64_t at, value;
};

#define TT_HEAD_BYTES 24u       /* without lists */

/* Fills *out from the caller's values. INVALID (logged) with the name of the call. */
tutti_status tt_pieces_shape_take(struct tt_pieces_shape *out, uint32_t nranks, tutti_dtype type,
                                  size_t nsplits, size_t max_length, size_t max_total,
                                  const char *call);
/* Return the sizes in bytes of a length, of a bitmap, and of a complete head without pieces. */
uint32_t tt_pieces_width(const struct tt_pieces_shape *s);
size_t tt_pieces_requested_bytes(const struct tt_pieces_shape *s);
size_t tt_pieces_head_bytes(const struct tt_pieces_shape *s);

/* Reads the caller's lists: lengths[nsplits], and the bitmaps
 * wanted[nranks][tt_pieces_requested_bytes] of the pieces for each rank. *head gets the first flaw
 * in the order of enum tt_flaw; the lists are then invalid. */
void tt_pieces_read(const struct tt_pieces_shape *s, const tutti_dynamic *what, uint64_t *lengths,
                    uint8_t *wanted, struct tt_head *head);

/* Checks that sendbuff can have the total of the checked lengths; *head gets the flaw, if any. */
void tt_pieces_read_src(const struct tt_pieces_shape *s, const tutti_dynamic *what,
                        const uint64_t *lengths, struct tt_head *head);

/* Returns the number of elements of the pieces in a bitmap (NULL: all). */
uint64_t tt_pieces_total(const struct tt_pieces_shape *s, const uint64_t *lengths,
                         const uint8_t *wanted);
/* Lists the stretches of a bitmap, in bytes: adjacent pieces form one stretch, empty ones none.
 * Returns their number; out (NULL: only count) has room for (nsplits + 1) / 2. */
uint64_t tt_pieces_stretches(const struct tt_pieces_shape *s, const uint64_t *lengths,
                             const uint8_t *wanted, struct tt_stretch *out);

/* Writes a head, followed by the pieces of src for the receiver if it is packed; out must have
 * room. Returns the size. wanted: one bitmap, or [nranks] for a common head. */
size_t tt_head_write(const struct tt_pieces_shape *s, const struct tt_head *h,
                     const uint64_t *lengths, const uint8_t *wanted, const void *src, uint8_t *out);
/* Reads a peer's head in data[bytes]. lengths[nsplits] gets its lengths (zeros with a flaw);
 * *wanted and *pieces point into data. data may be longer than the message. False: protocol
 * violation. */
bool tt_head_read(const struct tt_pieces_shape *s, const uint8_t *data, size_t bytes,
                  struct tt_head *h, uint64_t *lengths, const uint8_t **wanted,
                  const uint8_t **pieces);
/* Copies packed pieces to their places in dst. */
void tt_pieces_unpack(const struct tt_pieces_shape *s, const uint64_t *lengths,
                      const uint8_t *wanted, const uint8_t *pieces, void *dst);

/* Returns the status for a rank's flaw, logged; OK: no flaw. */
tutti_status tt_head_status(const struct tt_pieces_shape *s, const struct tt_head *h, uint32_t rank,
                            const char *call);

#endif
