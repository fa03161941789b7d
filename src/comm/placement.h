/* The relations between src and dst in a call. External algorithms are verified for all of them. */
#ifndef TT_COMM_PLACEMENT_H
#define TT_COMM_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

enum tt_placement { TT_OUT_OF_PLACE, TT_IN_PLACE, TT_ODD_IN_PLACE, TT_PLACEMENTS };

static inline bool tt_placement_of(enum tt_placement placement, uint32_t rank)
{
    return placement == TT_IN_PLACE || (placement == TT_ODD_IN_PLACE && rank % 2 == 1);
}

/* Returns the prefix of the verifier's finding. */
static inline const char *tt_placement_text(enum tt_placement placement)
{
    return placement == TT_IN_PLACE       ? "in place, "
           : placement == TT_ODD_IN_PLACE ? "odd ranks in place, "
                                          : "";
}

#endif
