/* The place of this process: its socket, and its host's rails and labels. Start-up distributes
 * it, for the layout that all ranks derive. */
#ifndef TT_COMM_SURROUNDINGS_H
#define TT_COMM_SURROUNDINGS_H

#include "topo/rank_location.h"
#include "topo/topo.h"
#include "tutti/tutti.h"

/* Properties of the host. */
struct tt_surroundings {
    struct tt_rails rails;                      /* of this host */
    struct tt_labels labels;                    /* labels of this host, as given */
    struct tt_topo_link links[TT_DISTANCES];    /* as given by the description */
};

/* The place of this process among the sockets, rails and GPUs of its host. */
struct tt_surroundings_seat_found {
    int socket;                                 /* or TT_UNKNOWN */
    struct tt_rails_near near;
    char gpu[16];                               /* bus of the assigned GPU; "": unknown */
};

/* Finds the place of a process with the processors `own`, and a GPU from the environment
 * (TUTTI_GPU, CUDA_VISIBLE_DEVICES and similar). */
void tt_surroundings_seat_of(const struct tt_machine *m, const struct tt_rails *rails,
                             const cpu_set_t *own, struct tt_surroundings_seat_found *out);

/* Finds the surroundings and the place. Uses TUTTI_TOPO and TUTTI_TOPO_LABELS, and the
 * interfaces that the rule permits (NULL: default of tt_rails_find). INVALID (logged) if these
 * are invalid. Values that cannot be determined stay unknown. */
tutti_status tt_surroundings_seat_find(const char *interfaces, struct tt_surroundings *out,
                                       struct tt_rank_location *place);

#endif
