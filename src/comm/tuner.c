#include "comm/tuner.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/rank_place.h"

bool tt_comm_near_is_shm(const tutti_comm *comm)
{
    const struct tt_layout *l = &comm->layout;
    uint32_t first, second;

    if (comm->all_local)
        return true;
    for (uint32_t h = 0; h < l->nhosts; h++) {
        if (tt_layout_host_ranks(l, h) < 2)
            continue;
        first = tt_layout_rank(l, h, 0);
        second = tt_layout_rank(l, h, 1);
        return tt_world_all_local(comm->world,
                                  (uint32_t[]){ comm->ranks[first], comm->ranks[second] }, 2);
    }
    return true;
}

bool tt_comm_shares_cores(const tutti_comm *comm)
{
    return comm->layout.nhosts == 1 && !comm->near_is_shm && comm->world->cores < comm->nranks;
}

void tt_comm_tune_conf(const tutti_comm *comm, struct tt_tune_conf *out)
{
    *out = (struct tt_tune_conf){
        .layout = &comm->layout, .model = comm->model, .links = comm->links,
        .limits = {
            .segment_bytes = comm->sizes.segment_bytes,
            .eager_bytes = comm->sizes.eager_bytes,
            .all_local = comm->all_local,
            .cache_bytes = comm->world->cache.bytes,
            .cache_cpus = comm->world->cache.cpus,
        },
    };
    out->lanes = comm->all_local ? 1 : tt_lane_facts_count(&comm->world->lanes, &comm->layout);
    out->lane_bytes = comm->world->lanes.bytes;
    tt_constants_costs(&comm->world->constants, comm->near_is_shm, comm->world->cores, &out->costs);
    tt_tune_set_limits(out);
}

tutti_status tt_tune_mode(bool *simulates)
{
    const char *text = getenv("TUTTI_TUNE");

    if (text && *text && strcmp(text, "sim") != 0 && strcmp(text, "model") != 0)
        return tt_fail(TUTTI_ERR_INVALID, "invalid TUTTI_TUNE \"%s\": must be \"sim\" or \"model\"",
                       text);
    *simulates = !text || strcmp(text, "model") != 0;
    return TUTTI_OK;
}
