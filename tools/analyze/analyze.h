/* Parts of `tutti analyze`. */
#ifndef TUTTI_TOOLS_ANALYZE_H
#define TUTTI_TOOLS_ANALYZE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "analyze/diagnosis.h"

struct analysis {
    struct tt_dumps dumps;
    struct tt_waits waits;
    struct tt_diagnoses found;
    uint32_t *rows;         /* [nrows] ranks to show: those of the diagnosis first */
    uint32_t nrows;
};

/* Chooses at most `most` ranks to show. Returns false if out of memory. */
bool analyze_choose_rows(struct analysis *a, uint32_t most);
/* Writes the first diagnosis, or why there is none, in words to out[cap]. Returns out. */
const char *analyze_words(const struct analysis *a, char *out, size_t cap);
/* Returns the bytes of the first sentence, without its full stop. */
size_t analyze_first_sentence(const char *words);
/* The cells of a rank in the table of ranks. */
struct analyze_row {
    char what[96];          /* its operation */
    char step[24], since[24], waits[40];
};
void analyze_row_of(const struct analysis *a, uint32_t rank, struct analyze_row *out);
/* Prints the diagnosis in words, then tables. */
void analyze_print(const struct analysis *a);
/* Prints one JSON document. */
void analyze_print_json(const struct analysis *a);
/* Writes a timeline of the last operations of the chosen ranks. Returns false after reporting an
 * error. */
bool analyze_write_svg(const struct analysis *a, const char *path);
void analyze_put_svg(const struct analysis *a, FILE *to);
/* Writes a page: the diagnosis in words, tables, and the timeline. Returns false after reporting an
 * error. */
bool analyze_write_html(const struct analysis *a, const char *path);

/* Returns the record that a rank waits in, else another open one, or TT_DUMPS_NONE. */
uint32_t analyze_record_of(const struct analysis *a, uint32_t rank);
/* Returns whether the first diagnosis names the rank, or a link of it. */
bool analyze_is_culprit(const struct analysis *a, uint32_t rank);
const char *analyze_wait_name(uint8_t wait);
/* Returns the state of a rank in words, e.g. "no dump". */
const char *analyze_state(const struct analysis *a, uint32_t rank);

#endif
