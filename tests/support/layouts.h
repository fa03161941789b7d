/* Layouts of ranks on hosts and sockets, for tests that range over them. */
#ifndef TESTS_SUPPORT_LAYOUTS_H
#define TESTS_SUPPORT_LAYOUTS_H

#include "topo/layout.h"

/* How many there are. */
extern const uint32_t layout_kinds;

/* Layout `kind` of nranks ranks; what it leaves open is drawn by seed. Ends with tt_layout_fini. */
void layout_make(struct tt_layout *l, uint32_t kind, uint32_t nranks, uint64_t seed);

/* Numbers the groups of each level, which may have any names, in order of first appearance, as struct tt_layout_seat wants them. */
void layout_number(struct tt_layout_seat *seats, uint32_t nranks);

/* "hosts of 4 in 2 sockets". */
const char *layout_text(uint32_t kind);

#endif
