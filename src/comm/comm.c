#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptors.h"
#include "base/log.h"
#include "base/options.h"
#include "base/param.h"
#include "base/status.h"
#include "comm/comm_trace.h"
#include "comm/control.h"
#include "comm/rank_place.h"
#include "comm/roll_call.h"
#include "comm/tuner.h"
#include "comm/world.h"
#include "reduce/float_env.h"
#include "secure/ending.h"
#include "trace/comms.h"
#include "trace/dump.h"

/* interval between checks of the job's status while waiting for a frame */
#define STATUS_CHECK_NS (50 * TT_MS)

/* Sets the constants of the closed forms from all available information. Runs in the default
 * floating-point environment, because all ranks must compute the same bits: they determine the
 * choice of algorithms. */
static void make_model(tutti_comm *c)
{
    const enum tt_distance farthest = tt_layout_farthest(&c->layout);
    struct tt_ends ends;

    tt_constants_model(&c->world->constants, c->all_local, farthest, &c->model);
    tt_constants_ends(&c->world->constants, c->near_is_shm, &ends);
    tt_links_model(c->links, farthest, &ends, &c->model);
}

tutti_status tt_comm_open(tutti_comm **out, struct tt_world *w, uint32_t id, const uint32_t *ranks,
                          uint32_t nranks, uint32_t rank, int64_t timeout_ms, bool restore)
{
    tutti_comm *c = calloc(1, sizeof *c);
    tt_float_env kept;
    tutti_status st;

    if (!c)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a communicator");
    *c = (tutti_comm){
        .world = w, .rank = rank, .nranks = nranks, .timeout_ms = timeout_ms, .restore = restore
    };
    c->all_local = tt_world_all_local(w, ranks, nranks);
    c->sizes = c->all_local ? w->shm_sizes : w->tcp_sizes;
    c->links = w->here.links;
    if (!tt_layout_part(&c->layout, &w->layout, ranks, nranks))
        st = tt_fail(TUTTI_ERR_NOMEM, "out of memory for the layout of %u ranks", nranks);
    else
        st = tt_context_open(w->engine, id, ranks, nranks, rank, &c->context);
    if (st) {
        tt_layout_fini(&c->layout);
        free(c);
        return st;
    }
    c->ranks = tt_context_ranks(c->context);
    c->near_is_shm = tt_comm_near_is_shm(c);
    c->shares_memory = c->near_is_shm && c->layout.nhosts < nranks;
    kept = tt_float_env_enter();
    make_model(c);
    tt_tunes_choose(c);
    tt_float_env_leave(kept);
    atomic_fetch_add(&w->users, 1);
    *out = c;
    return TUTTI_OK;
}

/* Rebuilds the layout from the measured levels. */
static tutti_status relabel(tutti_comm *comm)
{
    struct tt_world *w = comm->world;
    struct tt_layout part, whole;
    struct tt_labels labels;

    for (uint32_t r = 0; r < w->nranks; r++) {
        const uint32_t host = tt_layout_host(&w->layout, r);

        tt_levels_label(&w->between.levels, &w->between.groups[host], host, &labels);
        tt_rank_location_label(&w->places[r], &labels);
        if (r == w->rank)
            w->here.labels = labels;
    }
    if (!tt_layout_derive(&whole, w->places, w->nranks))
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the layout of %u ranks", w->nranks);
    if (!tt_layout_part(&part, &whole, comm->ranks, comm->nranks)) {
        tt_layout_fini(&whole);
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the layout of %u ranks", comm->nranks);
    }
    tt_engine_exchange_layout(w->engine, &w->layout, &whole);
    tt_layout_fini(&whole);
    tt_layout_fini(&comm->layout);
    comm->layout = part;
    return TUTTI_OK;
}

/* Measures levels (if no host has labels) and links between ranks. `comm` is the job's first
 * communicator, before its first use. */
static tutti_status measure_between(tutti_comm *comm)
{
    struct tt_topo_link measured[TT_DISTANCES], links[TT_DISTANCES];
    struct tt_world *w = comm->world;
    tutti_status st = tt_link_probe_hosts(comm, &w->between);

    if (!st && !w->labelled)
        st = relabel(comm);
    if (!st)
        st = tt_link_probe_links(comm, &w->between, measured);
    if (st)
        return st;
    memcpy(links, w->here.links, sizeof links);
    tt_links_complete(links, measured);
    tt_engine_set_links(w->engine, w->here.links, links);
    tt_lane_facts_set_links(&w->lanes, links, w->layout.nrails);
    make_model(comm);
    tt_plans_discard(comm);      /* made without this measurement */
    return TUTTI_OK;
}

/* Waits for rank 0's measurement. */
static tutti_status wait_for_pair(tutti_comm *comm, uint32_t *ns)
{
    const uint64_t deadline_ns = tt_deadline_ns(tt_now_ns(), comm->timeout_ms);
    struct tt_world *w = comm->world;
    tutti_status st = TUTTI_OK;
    char why[TT_ERROR_BYTES];

    pthread_mutex_lock(&w->overlay_lock);
    while (!w->pair_ns && !st && tt_now_ns() < deadline_ns) {
        const uint64_t look_ns = tt_now_ns() + STATUS_CHECK_NS,
                       at_ns = look_ns < deadline_ns ? look_ns : deadline_ns;
        const struct timespec at = { (time_t)(at_ns / TT_SECOND), (long)(at_ns % TT_SECOND) };

        pthread_cond_timedwait(&w->frame_signal, &w->overlay_lock, &at);
        st = tt_context_status(comm->context, why, sizeof why);
    }
    *ns = w->pair_ns;
    pthread_mutex_unlock(&w->overlay_lock);
    if (*ns)
        return TUTTI_OK;
    return st ? tt_fail_again(st, why)
              : tt_fail(TUTTI_ERR_TIMEOUT,
                        "no latency between hosts: rank 0 did not send it before the deadline");
}

/* One pair of ranks measures the latency between hosts. Rank 0 distributes it over the overlay,
 * so that no other connection is needed. */
static tutti_status measure_hosts_latency(tutti_comm *comm)
{
    struct tt_world *w = comm->world;
    uint32_t pair[2], ns = 0;
    tutti_status st = TUTTI_OK;
    struct tt_writer wr;
    uint8_t frame[5];

    if (!tt_link_probe_pair(comm, pair))
        return TUTTI_OK;
    if (comm->rank == pair[0] || comm->rank == pair[1])
        st = tt_link_probe_measure(comm, pair, &ns);
    if (st) {
        tt_context_fail(comm->context, st, tutti_last_error());
        return st;
    }
    if (comm->rank == 0) {
        tt_writer_init(&wr, frame, sizeof frame);
        tt_write_u8(&wr, TT_FRAME_PAIR);
        tt_write_u32(&wr, ns);
        tt_control_flood(w, frame, sizeof frame);
    } else {
        st = wait_for_pair(comm, &ns);
    }
    w->constants.hosts.way_ns = ns;
    make_model(comm);
    tt_plans_discard(comm);      /* made without this measurement */
    return st;
}

static tutti_status measure_links(tutti_comm *comm)
{
    const tt_float_env kept = tt_float_env_enter();
    tutti_status st = TUTTI_OK;

    if (comm->world->measures == TT_MEASURE_ALL)
        st = measure_between(comm);
    else if (comm->world->measures == TT_MEASURE_PAIR)
        st = measure_hosts_latency(comm);
    tt_float_env_leave(kept);
    return st;
}

static tutti_status comm_create_here(tutti_comm **out, const struct tt_launch *launch,
                                     const tutti_conf *conf)
{
    struct tt_world *w = NULL;
    tutti_comm *comm;
    int64_t lanes = conf ? conf->lanes : 0;
    uint32_t *ranks;
    tutti_status st;

    tt_log_rank((int)launch->rank);
    tt_descriptors_raise();
    if (launch->rank == 0)      /* the other ranks usually have the same environment */
        tt_param_warn_unknown();
    tt_log(TT_LOG_INFO, "rank %u of %u, started by: %s", launch->rank, launch->nranks,
           launch->launcher);
    st = lanes ? TUTTI_OK : tt_param_get(TT_PARAM_LANES, &lanes);
    if (!st)
        st = tt_plugins_load();
    if (st)
        return tt_world_send_refusal(launch, st);
    st = tt_world_create(&w, launch, (int32_t)lanes,
                         conf && conf->tune_files ? conf->tune_files : getenv("TUTTI_TUNE_FILE"));
    if (st)
        return st;
    ranks = malloc(w->nranks * sizeof *ranks);
    if (!ranks) {
        tt_world_discard(w);
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u ranks", launch->nranks);
    }
    for (uint32_t r = 0; r < w->nranks; r++)
        ranks[r] = r;
    w->leads_dumps = tt_dump_set_job(tt_engine_trace_id(w->engine), w->rank, w->nranks);
    st = tt_comm_open(&comm, w, 0, ranks, w->nranks, w->rank, launch->timeout_ms,
                      conf && conf->restore);
    free(ranks);
    if (st) {
        tt_world_discard(w);
        return st;
    }
    st = tt_world_start(w, &(struct tt_engine_hooks){ .arg = w,
                                                      .failed = tt_control_notify_failure,
                                                      .slow = tt_control_query,
                                                      .blame = tt_control_find_silent,
                                                      .call_roll = tt_roll_call_step,
                                                      .add_roll = tt_roll_call_add });
    if (!st && w->nranks > 1)
        st = measure_links(comm);
    free(w->places);
    w->places = NULL;
    if (!st)
        st = tt_tunes_share(comm);
    if (st) {
        tutti_comm_destroy(comm);
        return st;
    }
    tt_world_log_layout(w);
    if (conf && conf->name)
        tt_comms_set_name(tt_context_trace(comm->context), conf->name);
    *out = comm;
    return TUTTI_OK;
}

/* Records the call in the trace. If the trace's parameters are invalid, the call fails, and
 * notifies the other ranks. */
static tutti_status comm_create(tutti_comm **out, const struct tt_launch *launch,
                                const tutti_conf *conf)
{
    tutti_comm *comm = NULL;
    uint64_t record;
    tutti_status st = tt_oplog_start();

    if (st)
        return tt_world_send_refusal(launch, st);
    record = tt_comm_trace_begin(TT_OPLOG_COMM_CREATE, NULL, 0);
    st = comm_create_here(&comm, launch, conf);
    tt_comm_trace_created(record, comm, st);
    if (!st)
        *out = comm;
    return st;
}

/* size in release 0.1 */
#define CONF_BYTES_FIRST (offsetof(tutti_conf, restore) + sizeof(int32_t))

/* Copies the fields of this release from the caller's conf (if given) to *mine, and sets
 * *of_caller to it. */
static tutti_status copy_conf(const tutti_conf **of_caller, tutti_conf *mine, const char *call)
{
    const tutti_conf *conf = *of_caller ? mine : NULL;
    const tutti_status st = conf ? tt_options_take(mine, sizeof *mine, CONF_BYTES_FIRST, *of_caller,
                                                   call, "conf", "tutti_conf")
                                 : TUTTI_OK;

    if (st)
        return st;
    if (conf && (conf->lanes < 0 || conf->lanes > 16))
        return tt_fail(TUTTI_ERR_INVALID, "%s: conf.lanes is %d: must be 0 to 16", call,
                       conf->lanes);
    *of_caller = conf;
    return conf ? tt_options_flag(call, "conf.restore", conf->restore) : TUTTI_OK;
}

tutti_status tutti_comm_create(tutti_comm **out, const tutti_conf *conf)
{
    struct tt_launch launch;
    tutti_conf mine;
    tutti_status st;

    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_comm_create: out is NULL");
    st = copy_conf(&conf, &mine, "tutti_comm_create");
    if (!st)
        st = tt_boot_launch(&launch, conf);
    return st ? st : comm_create(out, &launch, conf);
}

tutti_status tutti_id_create(tutti_id *out, const tutti_conf *conf)
{
    tutti_conf alone = { .size = sizeof alone }, mine;
    struct tt_launch launch;
    tutti_status st;

    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_id_create: out is NULL");
    st = copy_conf(&conf, &mine, "tutti_id_create");
    if (st)
        return st;
    if (conf)
        alone = *conf;
    alone.nranks = 1;
    alone.rank = 0;
    st = tt_boot_launch(&launch, &alone);
    if (st)
        return st;
    return tt_id_serve(out, &launch, tt_deadline_ns(tt_now_ns(), launch.timeout_ms));
}

tutti_status tutti_comm_create_id(tutti_comm **out, const tutti_id *id, int nranks, int rank,
                                  const tutti_conf *conf)
{
    tutti_conf full = { .size = sizeof full }, mine;
    struct tt_launch launch, place;
    tutti_status st;

    if (!out || !id)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_comm_create_id: %s is NULL", out ? "id" : "out");
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_comm_create_id: rank %d is out of range: nranks is %d", rank, nranks);
    st = copy_conf(&conf, &mine, "tutti_comm_create_id");
    if (st)
        return st;
    if (conf)
        full = *conf;
    st = tt_id_read(id, &place);
    if (st)
        return st;
    full.nranks = nranks;
    full.rank = rank;
    full.rendezvous = place.rendezvous;     /* the id replaces any other rendezvous setting */
    st = tt_boot_launch(&launch, &full);
    return st ? st : comm_create(out, &launch, conf);
}

/* ---- accessors and teardown ------------------------------------------------------------------ */

int tutti_comm_rank(const tutti_comm *comm)
{
    return comm ? (int)comm->rank : -1;
}

int tutti_comm_size(const tutti_comm *comm)
{
    return comm ? (int)comm->nranks : -1;
}

tutti_status tutti_comm_status(const tutti_comm *comm)
{
    char why[TT_ERROR_BYTES];
    tutti_status st = tt_comm_check(comm, "tutti_comm_status");

    if (st)
        return st;
    st = tt_context_status(comm->context, why, sizeof why);
    return st ? tt_fail_again(st, why) : TUTTI_OK;
}

tutti_status tutti_comm_abort(tutti_comm *comm)
{
    char why[96];
    const tutti_status st = tt_comm_check(comm, "tutti_comm_abort");

    if (st)
        return st;
    snprintf(why, sizeof why, "rank %u aborted the communicator", comm->rank);
    tt_context_fail(comm->context, TUTTI_ERR_ABORTED, why);
    return TUTTI_OK;
}

void tutti_comm_destroy(tutti_comm *comm)
{
    uint64_t record;

    if (!comm || tt_engine_is_inherited(comm->world->engine) ||
        (tt_openssl_is_over() && !tt_secure_is_plain(comm->world->secure)))
        return;
    record = tt_comm_trace_begin(TT_OPLOG_COMM_DESTROY, comm, 0);
    if (comm->guarded)
        tt_context_clear(comm->context);
    tt_plans_discard(comm);
    tt_context_close(comm->context);
    if (comm->exchanges)
        comm->exchanges_free(comm->exchanges);
    if (atomic_fetch_sub(&comm->world->users, 1) == 1)
        tt_world_discard(comm->world);
    tt_layout_fini(&comm->layout);
    free(comm);
    tt_oplog_end(record, TUTTI_OK);
}
