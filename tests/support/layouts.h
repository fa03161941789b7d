/* Layouts of ranks on hosts and sockets, for tests that run with all of them. */
#ifndef TESTS_SUPPORT_LAYOUTS_H
#define TESTS_SUPPORT_LAYOUTS_H

#include "topo/layout.h"

/* number of layouts */
extern const uint32_t layout_kinds;

/* Creates layout `kind` of nranks ranks; the seed selects its free parameters. Destroyed by
 * tt_layout_fini. */
void layout_make(struct tt_layout *l, uint32_t kind, uint32_t nranks, uint64_t seed);

/* Renumbers the groups of each level, which may have arbitrary numbers, in order of first
 * appearance, as struct tt_layout_seat requires. */
void layout_number(struct tt_layout_seat *seats, uint32_t nranks);

/* Returns e.g. "hosts of 4 in 2 sockets". */
const char *layout_text(uint32_t kind);

#endif
