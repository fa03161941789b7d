/* The programs of all ranks, split so that every piece of a step reads and writes whole cells,
 * which do not overlap: a straight-line program over variables. Messages and pipes have their own
 * cells. */
#ifndef TT_SCHED_PIECES_H
#define TT_SCHED_PIECES_H

#include "sched/rules.h"

#define TT_NO_CELL UINT32_MAX
#define TT_NO_PIECE UINT32_MAX

/* Kind of memory of a cell. */
enum tt_cell_of {
    TT_CELL_SRC,
    TT_CELL_DST,
    TT_CELL_WORK,
    TT_CELL_PIPE,
    TT_CELL_MESSAGE,
    TT_CELL_NOTHING
};

struct tt_cell {
    uint64_t offset, bytes;     /* offset: within its buffer */
    uint32_t rank;
    uint8_t of;                 /* enum tt_cell_of */
};

struct tt_piece {
    uint32_t rank, step;
    uint32_t out, a, b;         /* cells; out of a put is the message that its wait reads as a */
};

struct tt_pieces {
    struct tt_piece *piece;     /* ordered by rank, step, offset */
    uint32_t npieces;
    struct tt_cell *cell;
    uint32_t ncells;
    uint64_t *cuts;             /* [ncells + 1], starts of cells in one address space */
    uint64_t *base;             /* [nranks][3], starts of SRC, DST and WORK in it */
};

/* Splits a program. Release with tt_pieces_fini; on error *out is unchanged. */
tutti_status tt_pieces_init(struct tt_pieces *out, const struct tt_program *p,
                            const struct tt_links *links, const struct tt_finding *f);
void tt_pieces_fini(struct tt_pieces *s);

/* Returns the cells [*first, *end) of `bytes` bytes at the contiguous ref of SRC or DST, mapped as
 * for an in-place call. */
void tt_pieces_cells(const struct tt_pieces *s, const struct tt_coll *c, struct tt_ref ref,
                     uint64_t bytes, uint32_t *first, uint32_t *end);

#endif
