/* A layer of experts, as its two forms share it. */
#ifndef TT_MOE_LAYER_H
#define TT_MOE_LAYER_H

#include "comm/comm.h"
#include "moe/route.h"
#include "tutti/moe_device.h"

#define TT_MOE_UNKNOWN 0xffffffffu

enum tt_moe_state {
    TT_MOE_IDLE,                /* between runs */
    TT_MOE_RUNS,                /* dispatched by tutti_moe_dispatch */
    TT_MOE_KERNEL               /* begun by tutti_moe_begin */
};

/* What tutti_moe_next has seen of the tiles of one rank. */
struct tt_moe_source {
    uint32_t ntiles;            /* in this run; TT_MOE_UNKNOWN */
    uint32_t low;               /* all tiles below have been taken */
    uint32_t nrows;             /* COLLECTIVE: rows that came */
};

enum tt_moe_tile_state { TT_TILE_OUT, TT_TILE_TAKEN, TT_TILE_GIVEN };

/* How a form does what the calls ask for. Arguments have been checked. */
struct tt_moe_ops {
    /* The form's memory, from m->view on. What it has made is ended by fini, also after an error. Collective. */
    tutti_status (*init)(tutti_moe *m);
    tutti_status (*fini)(tutti_moe *m);
    /* Sends what m->route says, or that the routing has a flaw. */
    tutti_status (*dispatch)(tutti_moe *m, const struct tt_route_flaw *flaw, int64_t timeout_ms);
    /* Whether that tile is there, and with the first of its rank m->sources[source].ntiles. OK, or PENDING, or INVALID: the run has a flaw. */
    tutti_status (*look)(tutti_moe *m, uint32_t source, uint32_t tile);
    void (*show)(const tutti_moe *m, tutti_moe_tile *tile);
    /* Results of a tile have been written. */
    tutti_status (*give)(tutti_moe *m, const tutti_moe_tile *tile);
    /* Ends a run that has a flaw, the routing of some rank: INVALID, with the sentence, if nothing else goes wrong. */
    tutti_status (*refuse)(tutti_moe *m, int64_t timeout_ms);
    /* Until all results are in m->view.results. */
    tutti_status (*collect)(tutti_moe *m, int64_t timeout_ms);
};

extern const struct tt_moe_ops tt_moe_tiles, tt_moe_collective;

struct tutti_moe {
    tutti_comm *comm;
    const struct tt_moe_ops *ops;
    struct tt_holding holding;
    struct tt_route route;
    tutti_moe_view view;        /* of the run; what does not change is always there */
    enum tt_moe_state state;
    tutti_status broken;        /* why it is good for nothing but its end */
    uint32_t max_tokens;
    uint32_t group_experts;     /* TILES: of a group of the device; 0: those of each rank */
    uint32_t stride;            /* rows of tiles_max tiles */
    float *weights;             /* the arrays of view that this rank writes */
    uint32_t *rows, *row_experts, *places, *held_at;
    float *sum;                 /* [hidden] */
    struct tt_moe_source *sources;  /* [nranks] */
    uint8_t *tiles;             /* [nranks][tiles_max] enum tt_moe_tile_state */
    uint32_t turn;              /* the source that is looked at first */
    void *pieces[24];           /* memory from tt_moe_have */
    uint32_t npieces;
    tutti_device_conf device;   /* TILES: whose memory the layer's is, where it has alloc */
    void *own;                  /* the form's */
};

/* ---- layer.c ---- */

/* Zeroed memory that kernels can reach, until the layer ends: n times `bytes`. NULL (logged). */
void *tt_moe_have(tutti_moe *m, uint64_t n, uint64_t bytes, const char *what);

/* ---- run.c ---- */

/* It is good for nothing but its end, if st is not OK. Returns st. */
tutti_status tt_moe_broke(tutti_moe *m, tutti_status st);
/* Takes a routing: what is wrong with it is in *flaw, else the run's rows are there. Other errors, logged: the call is not possible now. */
tutti_status tt_moe_take(tutti_moe *m, const tutti_moe_routing *given, struct tt_route_flaw *flaw, const char *call);
/* When a call ends that may take so long. */
uint64_t tt_moe_deadline_ns(const tutti_moe *m, int64_t timeout_ms);

#endif
