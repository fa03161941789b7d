/* Where this process is: its socket, its host's rails and labels. What start-up tells the other ranks, for the layout that all derive. */
#ifndef TT_COMM_SEAT_H
#define TT_COMM_SEAT_H

#include "topo/told.h"
#include "tutti/tutti.h"

/* Finds out, with TUTTI_TOPO and TUTTI_TOPO_LABELS, and the interfaces that the rule lets through (NULL: as tt_rails_find has it). INVALID
 * (logged) where these are wrong. What cannot be found out stays unknown. */
tutti_status tt_seat_find(const char *interfaces, struct tt_rails *rails, struct tt_told *place);

#endif
