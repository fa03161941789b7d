/* What one rank sends another, told by the head of its message: who has how long pieces, which of them come, and, where they are short, the pieces
 * themselves. Pure.
 *
 *     flaw, packed (1 byte each), lengths' width (1), 0   what is wrong at the sender; whether pieces follow; bytes of a length
 *     most (4)                                            most stretches that the sender has for some rank, of those that do not follow a head
 *     at (8), value (8)                                   of a flaw: where, and what
 *     lengths [nsplits][width]                            only without a flaw
 *     wanted [(nsplits + 7) / 8]                          bit i: piece i comes here; if heads go to all alike, so much for each rank
 *     pieces, ascending, one behind the other             if packed
 * All little-endian. A head without packed pieces and with a flaw is filled with zeros to its full length. */
#ifndef TT_MOE_PIECES_H
#define TT_MOE_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/sched.h"
#include "tutti/moe.h"

#define TT_PIECES_MAX 65536u
#define TT_PIECE_LENGTH_MAX (1ull << 40)

/* What all ranks have declared alike, but for `rank`. */
struct tt_pieces_shape {
    uint32_t nranks, nsplits, elem_bytes;
    uint64_t max_length, max_total;
    bool to_all;                /* a head is one for all ranks, and has what each of them gets; nothing is packed */
    uint32_t rank;              /* whose bitmap is read, of those of such a head */
};

/* What can be wrong with a rank's lists. */
enum tt_flaw {
    TT_FLAW_NONE,
    TT_FLAW_LENGTH,             /* at: the piece, value: its length */
    TT_FLAW_TOTAL,              /* value: the sum of lengths */
    TT_FLAW_SUM,                /* at: the sum of index_block_lens, value: nindices */
    TT_FLAW_INDEX,              /* at: which of the indices, value: what it is */
    TT_FLAW_OVERLAP,            /* at: the rank whose receive buffer it is */
    TT_FLAW_NULL,               /* value: elements that sendbuff should have */
    TT_FLAW_SPACE,              /* at: which list, value: elements, which have no room at its address */
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

/* Fills *out from what the caller declares. INVALID (logged) with the name of the call. */
tutti_status tt_pieces_shape_take(struct tt_pieces_shape *out, uint32_t nranks, tutti_dtype type, size_t nsplits,
                                  size_t max_length, size_t max_total, const char *call);
/* Bytes of a length, of a bitmap of wanted pieces, and of a whole head without pieces. */
uint32_t tt_pieces_width(const struct tt_pieces_shape *s);
size_t tt_pieces_wanted_bytes(const struct tt_pieces_shape *s);
size_t tt_pieces_head_bytes(const struct tt_pieces_shape *s);

/* Reads the caller's lists: lengths[nsplits], and wanted[nranks][tt_pieces_wanted_bytes] of what goes to each rank. *head gets the flaw, if there is one
 * (the first by the order of enum tt_flaw); what it looked at then means nothing. */
void tt_pieces_read(const struct tt_pieces_shape *s, const tutti_dynamic *what, uint64_t *lengths, uint8_t *wanted,
                    struct tt_head *head);

/* The same of sendbuff, once the lists have no flaw and its length is known. */
void tt_pieces_read_src(const struct tt_pieces_shape *s, const tutti_dynamic *what, const uint64_t *lengths,
                        struct tt_head *head);

/* Elements of the pieces of a bitmap (NULL: of all). */
uint64_t tt_pieces_total(const struct tt_pieces_shape *s, const uint64_t *lengths, const uint8_t *wanted);
/* The stretches of a bitmap, in bytes: pieces that lie side by side are one, empty ones none. Returns how many there are; out (NULL: they are only
 * counted) has room for (nsplits + 1) / 2. */
uint64_t tt_pieces_stretches(const struct tt_pieces_shape *s, const uint64_t *lengths, const uint8_t *wanted,
                             struct tt_stretch *out);

/* Writes a head, and behind it, if it is packed, the wanted pieces of src; out has room for them. Returns its bytes. wanted: one bitmap, or for a head to all
 * [nranks]. */
size_t tt_head_write(const struct tt_pieces_shape *s, const struct tt_head *h, const uint64_t *lengths,
                     const uint8_t *wanted, const void *src, uint8_t *out);
/* Reads what a peer wrote in data[bytes], of which it looks at the head alone. lengths[nsplits] gets its lengths (zeros if it has a flaw), *wanted and *pieces point into data. False: no honest
 * peer writes this. data may go on behind what was written. */
bool tt_head_read(const struct tt_pieces_shape *s, const uint8_t *data, size_t bytes, struct tt_head *h,
                  uint64_t *lengths, const uint8_t **wanted, const uint8_t **pieces);
/* Copies packed pieces to where they belong in dst. */
void tt_pieces_unpack(const struct tt_pieces_shape *s, const uint64_t *lengths, const uint8_t *wanted,
                      const uint8_t *pieces, void *dst);

/* What a rank's flaw makes of the call, logged; OK: it has none. */
tutti_status tt_head_status(const struct tt_pieces_shape *s, const struct tt_head *h, uint32_t rank, const char *call);

#endif
