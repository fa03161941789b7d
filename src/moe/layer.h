/* A layer of experts: definitions shared by its two forms. */
#ifndef TT_MOE_LAYER_H
#define TT_MOE_LAYER_H

#include "comm/comm.h"
#include "moe/route.h"
#include "tutti/moe_device.h"

#define TT_MOE_UNKNOWN 0xffffffffu

enum tt_moe_state {
    TT_MOE_IDLE,                /* between runs */
    TT_MOE_RUNS,                /* begun by tutti_moe_dispatch */
    TT_MOE_KERNEL               /* begun by tutti_moe_begin */
};

/* Progress of tutti_moe_next on the tiles of one rank. */
struct tt_moe_source {
    uint32_t ntiles;            /* in this run; or TT_MOE_UNKNOWN */
    uint32_t low;               /* all tiles with a smaller index were taken */
    uint32_t nrows;             /* COLLECTIVE: number of received rows */
};

enum tt_moe_tile_state { TT_TILE_OUT, TT_TILE_TAKEN, TT_TILE_GIVEN };

/* The operations of a form. The arguments were checked. */
struct tt_moe_ops {
    /* Allocates the form's memory, beginning with m->view. It is freed by fini, also after an
     * error. Collective. */
    tutti_status (*init)(tutti_moe *m);
    tutti_status (*fini)(tutti_moe *m);
    /* Sends the rows in m->route, or the error in the routing. */
    tutti_status (*dispatch)(tutti_moe *m, const struct tt_route_flaw *flaw, int64_t timeout_ms);
    /* Checks whether a tile has arrived; the first one of a rank sets m->sources[source].ntiles.
     * OK, PENDING, or INVALID: some rank's routing is invalid. */
    tutti_status (*look)(tutti_moe *m, uint32_t source, uint32_t tile);
    void (*show)(const tutti_moe *m, tutti_moe_tile *tile);
    /* Called after the results of a tile were written. */
    tutti_status (*give)(tutti_moe *m, const tutti_moe_tile *tile);
    /* Ends a run with an invalid routing of some rank. Returns INVALID, with the message, or
     * another error. */
    tutti_status (*refuse)(tutti_moe *m, int64_t timeout_ms);
    /* Waits until all results are in m->view.results. */
    tutti_status (*collect)(tutti_moe *m, int64_t timeout_ms);
};

extern const struct tt_moe_ops tt_moe_tiles, tt_moe_collective;

struct tutti_moe {
    tutti_comm *comm;
    const struct tt_moe_ops *ops;
    struct tt_holding holding;
    struct tt_route route;
    tutti_moe_view view;        /* of the run; constant fields are always valid */
    enum tt_moe_state state;
    tutti_status broken;        /* error after which the layer can only be destroyed */
    uint32_t max_tokens;
    uint32_t group_experts;     /* TILES: experts per group of the device; 0: a group per rank */
    uint32_t stride;            /* number of rows in tiles_max tiles */
    float *weights;             /* arrays of the view that this rank writes */
    uint32_t *rows, *row_experts, *places, *held_at;
    float *sum;                 /* [hidden] */
    struct tt_moe_source *sources;  /* [nranks] */
    uint8_t *tiles;             /* source to check first */
    uint32_t turn;              /* source rank that is checked first: round-robin */
    void *pieces[24];           /* memory from tt_moe_alloc */
    uint32_t npieces;
    tutti_device_conf device;   /* TILES: allocates the layer's memory, if it has `alloc` */
    void *own;                  /* data of the form */
};

/* ---- layer_state.c ---- */

/* Allocates zeroed memory that kernels can access, freed with the layer: n times `bytes`. NULL
 * (logged). */
void *tt_moe_alloc(tutti_moe *m, uint64_t n, uint64_t bytes, const char *what);
/* If st is an error, marks the layer as unusable. Returns st. */
tutti_status tt_moe_set_broken(tutti_moe *m, tutti_status st);
/* Checks that the layer is valid, usable, and in the state that the call requires. */
tutti_status tt_moe_check(const tutti_moe *m, enum tt_moe_state state, const char *call);
/* Checks a routing. *flaw describes its error; otherwise the run's rows are set. Other errors
 * (logged): the call is not possible now. */
tutti_status tt_moe_take(tutti_moe *m, const tutti_moe_routing *given, struct tt_route_flaw *flaw,
                         const char *call);
/* Returns the deadline of a call with this timeout. */
uint64_t tt_moe_deadline_ns(const tutti_moe *m, int64_t timeout_ms);

#endif
