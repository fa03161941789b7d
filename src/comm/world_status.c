#include "comm/world_status.h"

#include <stdio.h>
#include "base/log.h"
#include "base/status.h"
#include "engine/lane_board.h"

_Static_assert(TT_SNAPSHOT_WAITS_MAX >= TT_WAITINGS && TT_STATUS_WIRES_MAX >= TT_LANE_KINDS,
               "room for all entries");

/* Lists the ranks that collectives of this process wait for. */
static uint32_t world_waits(void *arg, struct tt_snapshot_wait *out)
{
    struct tt_world *w = arg;
    struct tt_waiting waits[TT_WAITINGS];
    const uint32_t n = tt_engine_list_waits(w->engine, 0, UINT64_MAX, waits);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++)
        if (!waits[i].ended)
            out[kept++] = (struct tt_snapshot_wait){
                .comm = tt_engine_trace_hash(w->engine, waits[i].context),
                .seq = waits[i].op,
                .rank = waits[i].rank,
            };
    return kept;
}

/* Lists the lanes of this process. */
static uint32_t world_lanes(void *arg, struct tt_status_lanes *out)
{
    struct tt_world *w = arg;
    struct tt_lane_kind kinds[TT_LANE_KINDS];
    const uint32_t n = tt_engine_lanes(w->engine, kinds);

    for (uint32_t i = 0; i < n; i++) {
        out[i] = (struct tt_status_lanes){ .nrated = kinds[i].has_rates,
                                           .lanes = kinds[i].lanes,
                                           .up = kinds[i].up,
                                           .idle = kinds[i].idle,
                                           .depth = kinds[i].depth,
                                           .posts_per_s = kinds[i].posts_per_s,
                                           .bytes_per_s = kinds[i].bytes_per_s,
                                           .outstanding = kinds[i].outstanding,
                                           .outstanding_bytes = kinds[i].outstanding_bytes };
        snprintf(out[i].wire, sizeof out[i].wire, "%s", kinds[i].wire);
    }
    return n;
}

/* Returns whether this rank is the first one of its host. */
static bool is_first_here(const struct tt_world *w)
{
    const uint32_t host = tt_layout_host(&w->layout, w->rank);

    for (uint32_t r = 0; r < w->rank; r++)
        if (tt_layout_host(&w->layout, r) == host)
            return false;
    return true;
}

tutti_status tt_world_open_status(struct tt_world *w)
{
    const struct tt_service_conf conf = {
        .job = tt_engine_trace_id(w->engine),
        .rank = w->rank,
        .nranks = w->nranks,
        .nhosts = w->layout.nhosts,
        .tidies = is_first_here(w),
        .is_elastic = w->is_elastic,
        .listens = is_first_here(w) && !w->is_elastic,
        .token = w->token,
        .overlay = w->overlay,
        .source = { .waits = world_waits, .lanes = world_lanes, .arg = w },
    };

    return tt_service_open(&w->service, &conf);
}

void tt_world_handle_status(struct tt_world *w, const struct tt_overlay_event *ev)
{
    if (w->service && !tt_service_receive(w->service, ev->origin, ev->data, ev->bytes))
        tt_log(TT_LOG_WARN, "protocol error: rank %u sent an invalid status frame", ev->origin);
}
