/* The layout of a job: which ranks share a host, and the place of each rank in its host. It is the
 * part of DOWN that is equal for all ranks.
 *
 * A place is a byte string of a rank, opaque here: its processors, socket, NICs and labels. It does
 * not contain the host, so that ranks in the same position of equal hosts have equal places. The
 * layout contains each distinct sequence of the places of consecutive ranks of a host once:
 *   nsequences        32 bits
 *   places_bytes      32 bits: size of `places`
 *   length            32 bits for each sequence: the number of its places
 *   places            those of all sequences, packed as in record_table.h
 *   groups            of hosts, to the end: host, nhosts, and the index of a sequence (without
 *                     sequences: the number of ranks of each host), each encoded in up to five
 *                     bytes of 7 bits
 * All parsers accept any bytes. */
#ifndef TT_BOOT_TREE_LAYOUT_H
#define TT_BOOT_TREE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "boot/tree_report.h"
#include "tutti/tutti.h"

#define TT_TREE_LAYOUT_HEAD_BYTES 8u
/* Maximum bytes of a layout for each of its ranks. */
#define TT_TREE_LAYOUT_RANK_BYTES (15u + 4 + TT_RECORD_OVERHEAD + TT_TREE_PLACE_MAX)

/* A part of the layout: `nhosts` hosts with the indices from `host` on, each of which has the next
 * `count` ranks. Hosts are numbered in the order of their first ranks. */
struct tt_tree_group {
    uint32_t host, nhosts, count;
    uint32_t sequence;              /* of the places of the ranks of each host; 0 without places */
};

struct tt_tree_layout {
    uint32_t nsequences;
    const uint8_t *lengths;         /* [nsequences], little-endian 32 bits each */
    struct tt_reader places, groups;
};

/* Encodes the layout of runs[n], sorted by rank, which cover all ranks; `host` of a run is any
 * number below nranks that is equal for runs of one host. Returns malloc'd memory; NULL if out of
 * memory. */
uint8_t *tt_tree_encode_layout(const struct tt_tree_run *runs, uint32_t n, uint32_t nranks,
                               size_t *bytes);
/* Starts reading; groups.bad is set if the layout is too short for its sequences. */
void tt_tree_layout_open(struct tt_tree_layout *out, const uint8_t *layout, size_t bytes);
/* Reads the next group. Returns false at the end, or if it is invalid: then groups.bad is set. */
bool tt_tree_layout_next(struct tt_tree_layout *l, struct tt_tree_group *out);
/* Returns whether the layout covers exactly nranks ranks, with hosts numbered as stated above, and
 * no more than nranks places. */
bool tt_tree_layout_is_valid(const uint8_t *layout, size_t bytes, uint32_t nranks);

/* Reads a valid layout rank by rank. */
struct tt_tree_walk {
    struct tt_tree_layout layout;
    struct tt_tree_group group;
    uint32_t at;                    /* number of ranks of the group that were read */
    uint8_t *places;                /* of all sequences: size, 8 bits, and bytes of each; owned */
    size_t *starts;                 /* [nsequences]: position of the first place; owned */
    size_t next;                    /* position of the next place */
};

/* NOMEM (logged). Call tt_tree_walk_fini afterwards, even on failure. `layout` must outlive the
 * walk. */
tutti_status tt_tree_walk_init(struct tt_tree_walk *w, const uint8_t *layout, size_t bytes);
void tt_tree_walk_fini(struct tt_tree_walk *w);
/* Returns the index of the next rank's host, and sets *place, valid until the walk ends, and its
 * size. Must not be called after the last rank. */
uint32_t tt_tree_walk_next(struct tt_tree_walk *w, const uint8_t **place, uint8_t *bytes);

#endif
