/* Where this process is: its socket, its host's rails and labels. What start-up tells the other ranks, for the layout that all derive. */
#ifndef TT_COMM_SEAT_H
#define TT_COMM_SEAT_H

#include "topo/told.h"
#include "topo/topo.h"
#include "tutti/tutti.h"

/* What is found. */
struct tt_surroundings {
    struct tt_rails rails;                      /* of this host */
    struct tt_labels labels;                    /* of this host, as they are told */
    struct tt_topo_link links[TT_DISTANCES];    /* as the description tells them */
};

/* This process among the sockets, rails and GPUs of its host. */
struct tt_seat_found {
    int socket;                     /* or TT_UNKNOWN */
    struct tt_rails_near near;
    char gpu[16];                   /* the bus of the GPU that it was given; "": nobody says */
};

/* Of a process that may use the processors of own, and was given a GPU as the environment tells (TUTTI_GPU, CUDA_VISIBLE_DEVICES and the like). */
void tt_seat_of(const struct tt_machine *m, const struct tt_rails *rails, const cpu_set_t *own,
                struct tt_seat_found *out);

/* Finds out, with TUTTI_TOPO and TUTTI_TOPO_LABELS, and the interfaces that the rule lets through (NULL: as tt_rails_find has it). INVALID
 * (logged) where these are wrong. What cannot be found out stays unknown. */
tutti_status tt_seat_find(const char *interfaces, struct tt_surroundings *out, struct tt_told *place);

#endif
