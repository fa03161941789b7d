/* The state while a dump is read, and functions for all kinds of lines. Used by the dump_* files
 * only. Each tt_read_* reads one line whose first key was read before; it records an error in the
 * line in *g or in *l. */
#ifndef TT_ANALYZE_DUMP_READING_H
#define TT_ANALYZE_DUMP_READING_H

#include "analyze/dumps.h"
#include "analyze/line.h"
#include "base/status.h"

#define TT_READING_NOTES 64u            /* maximum number of kept annotations */
#define TT_READING_TEXT_BYTES 256

struct tt_reading {
    struct tt_dumps *d;
    const char *name;
    struct tt_dumps_rank *rank;         /* NULL before the head */
    uint32_t number;                    /* rank number */
    uint64_t line;
    int64_t offset_ns;
    uint32_t ndone, nopen;              /* kept operations of this dump */
    size_t peers_first, reports_first, lanes_first;
    bool has_ended, is_broken;
    struct {
        uint64_t number;
        uint32_t text;
    } notes[TT_READING_NOTES];
    uint32_t nnotes;
    tutti_status status;
};

/* ---- problems: dump_reading.c ---- */

void tt_reading_problem(struct tt_dumps *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Stops reading the dump at this line. What was read before is kept. */
void tt_reading_broken(struct tt_reading *g, const char *why);
/* Rejects the whole file. */
void tt_reading_reject(struct tt_reading *g, const char *why);
void tt_reading_no_memory(struct tt_reading *g);

/* ---- values: dump_reading.c ---- */

/* Reads a text of which at most cap - 4 bytes are kept; cap is at most TT_READING_TEXT_BYTES. */
uint32_t tt_reading_text_of(struct tt_reading *g, struct tt_line *l, size_t cap);
uint32_t tt_reading_text(struct tt_reading *g, struct tt_line *l);
/* Reads a time and converts it to job time. */
int64_t tt_reading_time(const struct tt_reading *g, struct tt_line *l);
/* Reads a rank of the job. NONE: null, or not a rank of the job. */
uint32_t tt_reading_rank_number(struct tt_reading *g, struct tt_line *l);
/* Returns the entry of a rank below tt_dumps.nranks, which is initialized on its first use. */
struct tt_dumps_rank *tt_reading_rank(struct tt_reading *g, uint32_t rank);
/* Reads a number below `end`. TT_DUMPS_NONE: another value. */
uint32_t tt_reading_below(struct tt_line *l, uint32_t end);
/* Reads a number; null: 0. tt_reading_u32: larger numbers become UINT32_MAX. */
uint64_t tt_reading_u64(struct tt_line *l);
uint32_t tt_reading_u32(struct tt_line *l);

/* ---- lines ---- */

/* The first line: dump_head.c. */
void tt_read_head(struct tt_reading *g, struct tt_line *l);
/* Communicators: dump_comm.c. */
void tt_read_comm(struct tt_reading *g, struct tt_line *l);
/* Returns the hash of a communicator as written in a dump. */
uint64_t tt_reading_hash_of(const struct tt_line_text *t);
/* Returns the communicator with this hash, and adds it if it is new. NONE: out of memory. */
uint32_t tt_reading_comm_of(struct tt_reading *g, uint64_t hash);
/* Returns the entry of this rank in a communicator, and adds it if it is new. NULL: reading stops
 * here. */
struct tt_dumps_local *tt_reading_local_of(struct tt_reading *g, uint32_t comm);
/* Operations: dump_op.c. */
void tt_read_op(struct tt_reading *g, struct tt_line *l);
/* dump_rows.c */
void tt_read_note(struct tt_reading *g, struct tt_line *l);
void tt_read_peer(struct tt_reading *g, struct tt_line *l);
void tt_read_lane(struct tt_reading *g, struct tt_line *l);
void tt_read_departure(struct tt_reading *g, struct tt_line *l);

#endif
