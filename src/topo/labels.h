/* Labels of a host: its group's name at each level above it, from a description's patterns of host
 * names, or from the host's environment. Pure. */
#ifndef TT_TOPO_LABELS_H
#define TT_TOPO_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include "topo/topo.h"

/* "" if not set; RACK to FABRIC are used. */
struct tt_labels {
    char label[TT_NEAR_WAN][TT_TOPO_LABEL_BYTES];
};

/* Parses "rack=r1,zone=a" and overrides labels in *out. Returns false, with *out unchanged and
 * *bad_at at the error, unless each entry is a level (rack, zone, building, fabric), '=' and a
 * label of at most TT_TOPO_LABEL_BYTES - 1 bytes. */
bool tt_labels_parse(struct tt_labels *out, const char *text, size_t *bad_at);
/* Writes the description's labels of the host of that name. */
void tt_labels_of(struct tt_labels *out, const struct tt_topo *t, const char *host);

#define TT_PATTERN_STARS 9

struct tt_pattern_star {
    const char *at;         /* points into the name */
    size_t bytes;
};

struct tt_pattern_stars {
    unsigned n;
    struct tt_pattern_star star[TT_PATTERN_STARS];
};

/* Returns whether the pattern matches the whole name: '*' matches any text, '?' one character.
 * False for more than TT_PATTERN_STARS stars. */
bool tt_pattern_match(const char *pattern, const char *name, struct tt_pattern_stars *out);
/* Copies text to out[cap] and replaces "$1" to "$9" by the text of the stars; truncates. */
void tt_pattern_fill(const char *text, const struct tt_pattern_stars *stars, char *out, size_t cap);

#endif
