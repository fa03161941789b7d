/* Labels of a host: what it is called at each level above it. From a description's patterns of host names, or from one host's own
 * environment. Pure. */
#ifndef TT_TOPO_LABELS_H
#define TT_TOPO_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include "topo/topo.h"

/* "" where nothing is told; RACK to FABRIC are read. */
struct tt_labels {
    char label[TT_NEAR_WAN][TT_TOPO_LABEL_BYTES];
};

/* Reads "rack=r1,zone=a" over what *out holds. False, *out untouched and *bad_at where it stopped making sense: a word is no level
 * (rack, zone, building, fabric), '=' and a label of at most TT_TOPO_LABEL_BYTES - 1 bytes. */
bool tt_labels_parse(struct tt_labels *out, const char *text, size_t *bad_at);
/* What the description tells of a host of that name. */
void tt_labels_of(struct tt_labels *out, const struct tt_topo *t, const char *host);

#define TT_PATTERN_STARS 9

struct tt_pattern_star {
    const char *at;         /* into the name */
    size_t bytes;
};

struct tt_pattern_stars {
    unsigned n;
    struct tt_pattern_star star[TT_PATTERN_STARS];
};

/* Whether the whole name is of the pattern: '*' any text, '?' one character. False for more than TT_PATTERN_STARS stars. */
bool tt_pattern_match(const char *pattern, const char *name, struct tt_pattern_stars *out);
/* text with "$1" to "$9" replaced by what the stars stood for, into out[cap]; what does not fit is cut. */
void tt_pattern_fill(const char *text, const struct tt_pattern_stars *stars, char *out, size_t cap);

#endif
