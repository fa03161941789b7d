#include "comm/comm.h"
#include "wire/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/options.h"
#include "base/param.h"
#include "base/prng.h"
#include "base/status.h"
#include "comm/comm_trace.h"
#include "comm/cores.h"
#include "comm/roll_call.h"
#include "comm/surroundings.h"
#include "comm/tuner.h"
#include "comm/world_status.h"
#include "reduce/float_env.h"
#include "secure/ending.h"
#include "secure/security.h"
#include "trace/comms.h"
#include "trace/dump.h"

/* time for which a rank that cannot start tries to notify the others */
#define REFUSE_NS (10 * TT_SECOND)

/* Frames of the control overlay, sent to all ranks. A byte of kind, then
 *   FAILED   context u32, status u32, message
 *   PROBE    queried rank u32, subject: context u32, operation u64; number u64
 *   ANSWER   querying rank u32, subject: context u32, operation u64; number u64;
 *            count u8 of operations in progress or failed, and for each of them
 *            context u32, operation u64, waited-for rank u32, failed u8
 *   PAIR     u32: latency between hosts in nanoseconds, as measured by rank 0 */
enum frame_kind { FRAME_FAILED = 1, FRAME_QUERY, FRAME_RESPONSE, FRAME_PAIR };

/* interval between checks of the job's status while waiting for a frame */
#define STATUS_CHECK_NS (50 * TT_MS)

tutti_status tt_comm_check(const tutti_comm *comm, const char *call)
{
    if (!comm)
        return tt_fail(TUTTI_ERR_INVALID, "%s: the communicator is NULL", call);
    if (tt_engine_is_inherited(comm->world->engine))
        return tt_fail(TUTTI_ERR_FORKED,
                       "%s: this process is a forked child: communicators belong to the parent",
                       call);
    return TUTTI_OK;
}

/* ---- the overlay: failures ------------------------------------------------------------------- */

static void send_to_all(struct tt_world *w, const void *frame, size_t bytes)
{
    if (!w->overlay)
        return;
    pthread_mutex_lock(&w->overlay_lock);
    tt_overlay_flood(w->overlay, frame, (uint16_t)bytes);
    pthread_mutex_unlock(&w->overlay_lock);
}

/* Notifies the other ranks first when a context has failed on this rank. The caller holds the
 * progress lock. */
static void notify_failure(void *arg, uint32_t id, tutti_status st, const char *sentence)
{
    uint8_t frame[TT_OVERLAY_BYTES];
    char cut[TT_OVERLAY_BYTES - 32];
    struct tt_writer wr;

    snprintf(cut, sizeof cut, "%s", sentence);
    tt_writer_init(&wr, frame, sizeof frame);
    tt_write_u8(&wr, FRAME_FAILED);
    tt_write_u32(&wr, id);
    tt_write_u32(&wr, (uint32_t)st);
    tt_write_string(&wr, cut);
    send_to_all(arg, frame, tt_writer_bytes(&wr));
}

/* ---- probes ---- */

#define QUERY_BYTES 25
#define RESPONSE_BYTES (26 + 17 * TT_WAITINGS)

/* now_ns serves as the number of the query; its response repeats it. */
static void write_query(uint8_t frame[QUERY_BYTES], const struct tt_waiting *about, uint64_t now_ns)
{
    struct tt_writer wr;

    tt_writer_init(&wr, frame, QUERY_BYTES);
    tt_write_u8(&wr, FRAME_QUERY);
    tt_write_u32(&wr, about->rank);
    tt_write_u32(&wr, about->context);
    tt_write_u64(&wr, about->op);
    tt_write_u64(&wr, now_ns);
}

static size_t write_response(uint8_t frame[RESPONSE_BYTES], uint32_t to,
                             const struct tt_waiting *about, uint64_t number,
                             const struct tt_waiting *waits, uint32_t n)
{
    struct tt_writer wr;

    tt_writer_init(&wr, frame, RESPONSE_BYTES);
    tt_write_u8(&wr, FRAME_RESPONSE);
    tt_write_u32(&wr, to);
    tt_write_u32(&wr, about->context);
    tt_write_u64(&wr, about->op);
    tt_write_u64(&wr, number);
    tt_write_u8(&wr, (uint8_t)n);
    for (uint32_t i = 0; i < n; i++) {
        tt_write_u32(&wr, waits[i].context);
        tt_write_u64(&wr, waits[i].op);
        tt_write_u32(&wr, waits[i].rank);
        tt_write_u8(&wr, waits[i].ended);
    }
    return tt_writer_bytes(&wr);
}

static void query_slow_rank(void *arg, const struct tt_waiting *about)
{
    struct tt_world *w = arg;
    const uint64_t now_ns = tt_now_ns();
    uint8_t frame[QUERY_BYTES];
    bool ask;

    pthread_mutex_lock(&w->probe_lock);
    ask = tt_liveness_should_query(&w->probe, about->rank, now_ns);
    pthread_mutex_unlock(&w->probe_lock);
    write_query(frame, about, now_ns);
    if (ask)
        send_to_all(w, frame, sizeof frame);
    tt_roll_call_query(w);
}

static enum tt_blame find_silent_rank(void *arg, const struct tt_waiting *of, uint64_t since_ns,
                                      struct tt_blamed *out)
{
    struct tt_world *w = arg;
    uint8_t frame[QUERY_BYTES];
    struct tt_waiting ask;
    enum tt_blame blame;
    uint64_t now_ns;

    do {
        now_ns = tt_now_ns();
        pthread_mutex_lock(&w->probe_lock);
        blame = tt_liveness_blame(&w->probe, of, since_ns, now_ns, out, &ask);
        pthread_mutex_unlock(&w->probe_lock);
        write_query(frame, &ask, now_ns);
        if (ask.rank != UINT32_MAX)
            send_to_all(w, frame, sizeof frame);
    } while (ask.rank != UINT32_MAX && blame != TT_BLAME_RANK);
    return blame;
}

/* Responds to a query at once, in the progress thread, also while the application computes. The
 * caller holds the overlay's lock. */
static void handle_query(struct tt_world *w, uint32_t from, struct tt_reader *r)
{
    struct tt_waiting about = { .context = tt_read_u32(r), .rank = w->rank }, waits[TT_WAITINGS];
    uint8_t frame[RESPONSE_BYTES];
    uint64_t number;
    uint32_t n;

    about.op = tt_read_u64(r);
    number = tt_read_u64(r);
    if (r->bad)
        return;
    n = tt_engine_list_waits(w->engine, about.context, about.op, waits);
    tt_overlay_flood(w->overlay, frame,
                     (uint16_t)write_response(frame, from, &about, number, waits, n));
}

/* Handles a response. An entry that waits for this rank is cleared, since this rank responds. */
static void handle_response(struct tt_world *w, uint32_t from, struct tt_reader *r)
{
    struct tt_waiting about = { .context = tt_read_u32(r), .rank = from }, waits[TT_WAITINGS],
                      ask[TT_WAITINGS];
    const uint64_t now_ns = tt_now_ns();
    uint8_t frame[QUERY_BYTES];
    uint64_t number;
    uint32_t n, nask;

    about.op = tt_read_u64(r);
    number = tt_read_u64(r);
    n = tt_read_u8(r);
    if (n > TT_WAITINGS)
        r->bad = true;
    for (uint32_t i = 0; i < n && !r->bad; i++) {
        waits[i].context = tt_read_u32(r);
        waits[i].op = tt_read_u64(r);
        waits[i].rank = tt_read_u32(r);
        waits[i].ended = tt_read_u8(r) != 0;
        if (waits[i].rank == w->rank)
            waits[i].rank = UINT32_MAX;
    }
    if (r->bad)
        return;
    pthread_mutex_lock(&w->probe_lock);
    nask = tt_liveness_answer(&w->probe, from, &about, waits, n, number, now_ns, ask);
    pthread_mutex_unlock(&w->probe_lock);
    for (uint32_t i = 0; i < nask; i++) {
        write_query(frame, &ask[i], now_ns);
        tt_overlay_flood(w->overlay, frame, sizeof frame);
    }
}

/* Handles another rank's report of a failed context. */
static void world_handle_failure(struct tt_world *w, uint32_t from, uint32_t id,
                                 struct tt_reader *r)
{
    char sentence[TT_OVERLAY_BYTES] = "";
    const uint32_t status = tt_read_u32(r);

    tt_read_string(r, sentence, sizeof sentence);
    if (status <= TUTTI_PENDING || status >= TUTTI_STATUS_COUNT)
        r->bad = true;
    if (r->bad)
        return;
    pthread_mutex_lock(&w->probe_lock);
    tt_liveness_failed(&w->probe, from);
    pthread_mutex_unlock(&w->probe_lock);
    tt_engine_fail_context(w->engine, from, id, (tutti_status)status, sentence);
}

/* Handles a frame; the caller holds the overlay's lock. */
static void handle_frame(struct tt_world *w, const struct tt_overlay_event *ev)
{
    struct tt_reader r;
    uint8_t kind;
    uint32_t to;

    tt_reader_init(&r, ev->data, ev->bytes);
    kind = tt_read_u8(&r);
    to = tt_read_u32(&r);
    if (r.bad)
        kind = 0;
    if (kind == FRAME_FAILED)
        world_handle_failure(w, ev->origin, to, &r);
    else if (kind == FRAME_QUERY && to == w->rank)
        handle_query(w, ev->origin, &r);
    else if (kind == FRAME_RESPONSE && to == w->rank)
        handle_response(w, ev->origin, &r);
    else if (kind == FRAME_PAIR && ev->origin == 0)
        w->pair_ns = to;
    if (r.bad)
        tt_log(TT_LOG_WARN, "protocol error: rank %u sent an invalid control frame", ev->origin);
}

static void handle_loss(struct tt_world *w, const struct tt_overlay_event *ev)
{
    char how[160];

    if (!ev->unmet)
        snprintf(how, sizeof how, "its process ended");
    else if (!ev->error)
        snprintf(how, sizeof how,
                 "no control connection to it was established before the deadline");
    else if (ev->error == EADDRNOTAVAIL)
        snprintf(how, sizeof how,
                 "none of its addresses is reachable from this host (set conf.interfaces or "
                 "TUTTI_INTERFACES)");
    else
        snprintf(how, sizeof how,
                 "the control connection to each of its addresses failed (last error: %s)",
                 strerror(ev->error));
    tt_engine_lost(w->engine, ev->origin, how);
    if (w->service)
        tt_service_lose(w->service, ev->origin);
}

static void handle_event(struct tt_world *w, const struct tt_overlay_event *ev)
{
    if (ev->kind == TT_OVERLAY_LOST)
        handle_loss(w, ev);
    else if (ev->kind == TT_OVERLAY_DIRECT && ev->topic == TT_OVERLAY_STATUS)
        tt_world_handle_status(w, ev);
    else if (ev->kind == TT_OVERLAY_DIRECT)
        tt_roll_call_handle(w, ev);
    else
        handle_frame(w, ev);
}

/* Called by the progress thread when the overlay has data. */
static void read_overlay(void *arg)
{
    struct tt_world *w = arg;
    struct tt_overlay_event ev;

    pthread_mutex_lock(&w->overlay_lock);
    while (w->overlay && tt_overlay_next(w->overlay, &ev))
        handle_event(w, &ev);
    if (w->service)
        tt_service_serve(w->service);
    pthread_cond_broadcast(&w->frame_signal);
    pthread_mutex_unlock(&w->overlay_lock);
}

/* ---- worlds ---------------------------------------------------------------------------------- */

void tt_world_discard(struct tt_world *w)
{
    if (w->engine)
        tt_engine_destroy(w->engine);
    tt_service_close(w->service);
    tt_secure_destroy(w->secure);
    tt_overlay_close(w->overlay);
    tt_layout_fini(&w->layout);
    tt_tunes_fini(&w->tunes);
    tt_link_probe_fini(&w->between);
    free(w->places);
    pthread_cond_destroy(&w->frame_signal);
    pthread_mutex_destroy(&w->overlay_lock);
    pthread_mutex_destroy(&w->probe_lock);
    pthread_mutex_destroy(&w->group_lock);
    tt_pages_hot_fini(&w->hot);
    free(w->probe.rank);
    free(w->neighbours);
    free(w);
}

static tutti_status get_sizes(struct tt_sizes *out, enum tt_param_id segment,
                              enum tt_param_id eager)
{
    int64_t segment_bytes = 0, eager_bytes = 0;
    tutti_status st = tt_param_get(segment, &segment_bytes);

    if (!st)
        st = tt_param_get(eager, &eager_bytes);
    *out = (struct tt_sizes){ .segment_bytes = (uint64_t)segment_bytes,
                              .eager_bytes = (uint64_t)eager_bytes };
    return st;
}

static void write_sizes(const struct tt_sizes *s, struct tt_writer *w)
{
    tt_write_u64(w, s->segment_bytes);
    tt_write_u64(w, s->eager_bytes);
}

static bool sizes_in_range(uint64_t v, enum tt_param_id id)
{
    return v >= (uint64_t)tt_params[id].value_min && v <= (uint64_t)tt_params[id].value_max;
}

static void read_sizes(struct tt_sizes *s, struct tt_reader *r, enum tt_param_id segment,
                       enum tt_param_id eager)
{
    s->segment_bytes = tt_read_u64(r);
    s->eager_bytes = tt_read_u64(r);
    if (!sizes_in_range(s->segment_bytes, segment) || !sizes_in_range(s->eager_bytes, eager))
        r->bad = true;
}

static void write_cache(struct tt_cache c, struct tt_writer *w)
{
    tt_write_u64(w, c.bytes);
    tt_write_u32(w, c.cpus);
}

static struct tt_cache read_cache(struct tt_reader *r)
{
    struct tt_cache c = { .bytes = tt_read_u64(r) };

    c.cpus = tt_read_u32(r);
    return c;
}

/* Writes a card: a zero (else it is a refusal), the cost constants, sizes, bounds, and lanes.
 * Then follow links, cores and their cache (values of this rank; only rank 0 measures). The rest
 * is whether it simulates, security, its place, its plug-ins, the size of rank 0's tune files,
 * and the engine's part. */
static tutti_status make_card(struct tt_world *w, const struct tt_constants *constants,
                              uint8_t card[TT_CARD_BYTES], size_t *bytes)
{
    struct tt_plugin_set plugins;
    struct tt_writer wr;
    int64_t measures = 0, huge_pages = 0;
    cpu_set_t own;
    size_t rest;
    tutti_status st;

    st = get_sizes(&w->shm_sizes, TT_PARAM_SEGMENT_BYTES, TT_PARAM_EAGER_BYTES);
    if (!st)
        st = get_sizes(&w->tcp_sizes, TT_PARAM_TCP_SEGMENT_BYTES, TT_PARAM_TCP_EAGER_BYTES);
    if (!st)
        st = tt_chunks_get(&w->chunks);
    if (!st)
        st = tt_param_get(TT_PARAM_TOPO_MEASURE, &measures);
    if (!st)
        st = tt_param_get(TT_PARAM_HUGE_PAGES, &huge_pages);
    if (!st)
        st = tt_tune_mode(&w->simulates);
    if (st)
        return st;
    w->hot.page_bytes = huge_pages ? w->hot.page_bytes : 0;
    w->constants = constants ? *constants : tt_constants_default;
    if (w->rank == 0 && w->nranks > 1 && !constants)
        tt_constants_measure(&w->constants);
    w->constants.hosts.rail_byte_ns = w->here.rails.bit_s ? 8e9 / (double)w->here.rails.bit_s : 0;
    tt_writer_init(&wr, card, TT_CARD_BYTES);
    tt_write_u8(&wr, 0);
    tt_constants_write(&w->constants, &wr);
    write_sizes(&w->shm_sizes, &wr);
    write_sizes(&w->tcp_sizes, &wr);
    tt_chunks_write(&w->chunks, &wr);
    tt_lane_facts_write(&w->lanes, &wr);
    tt_write_u8(&wr, (uint8_t)measures);
    tt_links_write(w->here.links, &wr);
    tt_write_u32(&wr, tt_engine_cores());
    tt_cores_own(&own);
    tt_cores_write(&own, &wr);
    w->cache_mine = tt_last_cache_of(&own, &w->cache_cores);
    write_cache(w->cache_mine, &wr);
    tt_write_u8(&wr, w->simulates);
    tt_write_u8(&wr, (uint8_t)w->security);
    tt_rank_location_write(&w->places[w->rank], &wr);
    tt_plugins_set(&plugins);
    tt_plugin_set_write(&plugins, &wr);
    tt_write_u32(&wr, w->tunes.told_bytes);
    st = tt_engine_card(w->engine, wr.at, (size_t)(wr.end - wr.at), &rest);
    *bytes = tt_writer_bytes(&wr) + rest;
    return st;
}

/* Fails with the error in the card of a rank that cannot start. */
static tutti_status fail_refused(uint32_t rank, uint8_t status, struct tt_reader *r)
{
    char sentence[TT_CARD_BYTES];

    tt_read_string(r, sentence, sizeof sentence);
    if (r->bad || status <= TUTTI_PENDING || status >= TUTTI_STATUS_COUNT)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "protocol error: invalid address record of rank %u (another version of "
                       "Tutti?)",
                       rank);
    return tt_fail((tutti_status)status, "rank %u cannot start: %s", rank, sentence);
}

/* Adds a rank's processors to those of its host. */
static void add_cores(struct tt_world *w, uint32_t rank, const cpu_set_t *own)
{
    const uint64_t host = w->places[rank].host;

    if (host == w->places[w->rank].host)
        CPU_OR(&w->cores_here, &w->cores_here, own);
    if (host == w->places[0].host)
        CPU_OR(&w->cores_first, &w->cores_first, own);
}

tutti_status tt_world_add_card(struct tt_world *w, uint32_t rank, const uint8_t *card, size_t bytes)
{
    struct tt_topo_link links[TT_DISTANCES];
    struct tt_constants constants;
    struct tt_plugin_set plugins;
    struct tt_sizes shm, tcp;
    struct tt_rank_location place;
    struct tt_reader r;
    uint32_t told_bytes;
    struct tt_chunks chunks;
    struct tt_lane_facts lanes;
    struct tt_cache cache;
    uint8_t refuses, measures;
    uint32_t cores;
    uint8_t simulates, security;
    cpu_set_t own;
    tt_float_env kept;

    tt_reader_init(&r, card, bytes);
    refuses = tt_read_u8(&r);
    if (refuses)
        return fail_refused(rank, refuses, &r);
    kept = tt_float_env_enter();
    tt_constants_read(&constants, &r);
    read_sizes(&shm, &r, TT_PARAM_SEGMENT_BYTES, TT_PARAM_EAGER_BYTES);
    read_sizes(&tcp, &r, TT_PARAM_TCP_SEGMENT_BYTES, TT_PARAM_TCP_EAGER_BYTES);
    tt_chunks_read(&chunks, &r);
    tt_lane_facts_read(&lanes, &r);
    measures = tt_read_u8(&r);
    tt_links_read(links, &r);
    tt_float_env_leave(kept);
    cores = tt_read_u32(&r);
    tt_cores_read(&own, &r);
    cache = read_cache(&r);
    simulates = tt_read_u8(&r);
    security = tt_read_u8(&r);
    tt_rank_location_read(&place, &r);
    tt_plugin_set_read(&plugins, &r);
    told_bytes = tt_read_u32(&r);
    if (r.bad || measures > TT_MEASURE_PAIR || !cores || simulates > 1 ||
        security > TT_SECURE_CERTIFICATE || told_bytes > TT_TUNES_SHARED_MAX)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "protocol error: invalid address record of rank %u, %zu bytes (another "
                       "version of Tutti?)",
                       rank, bytes);
    if (security != w->security)
        return tt_fail(TUTTI_ERR_INVALID,
                       "TUTTI_SECURITY (or conf.security) is \"%s\" on rank %u and \"%s\" on rank "
                       "%u: it must be the "
                       "same on all ranks",
                       tt_security_name(security), rank, tt_security_name(w->security), w->rank);
    if (w->proven)
        place.host = w->proven[rank];
    w->places[rank] = place;
    if (rank == 0) {
        w->constants = constants;
        w->shm_sizes = shm;
        w->tcp_sizes = tcp;
        w->chunks = chunks;
        w->lanes = lanes;
        w->tunes.told_bytes = told_bytes;
        w->measures = (enum tt_measure_what)measures;
        memcpy(w->here.links, links, sizeof links);
        w->cores = cores;
        w->cache = cache;
        w->simulates = simulates;
    }
    add_cores(w, rank, &own);
    tt_plugin_judge_add(&w->plugins, rank, &plugins);
    return tt_engine_add_card(w->engine, rank, w->proven ? &place.host : NULL, r.at,
                              (size_t)(r.end - r.at));
}

/* Derives the layout, equal on all ranks, from all places and processors. */
static tutti_status derive_layout(struct tt_world *w)
{
    if (CPU_COUNT(&w->cores_first) > 0)
        w->cores = (uint32_t)CPU_COUNT(&w->cores_first);
    tt_engine_set_cores(w->engine, (uint32_t)CPU_COUNT(&w->cores_here));
    CPU_AND(&w->cache_cores, &w->cache_cores, &w->cores_here);
    tt_engine_set_cache(w->engine, w->cache_mine.bytes, (uint32_t)CPU_COUNT(&w->cache_cores));
    if (!tt_layout_derive(&w->layout, w->places, w->nranks))
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the layout of %u ranks", w->nranks);
    tt_lane_facts_set_links(&w->lanes, w->here.links, w->layout.nrails);
    for (uint32_t r = 0; r < w->nranks; r++)
        w->labelled |= tt_rank_location_is_labelled(&w->places[r]);
    return TUTTI_OK;
}

tutti_status tt_world_complete(struct tt_world *w, const uint8_t *secret)
{
    tutti_status st = tt_plugin_judge_end(&w->plugins);
    tt_float_env kept;

    if (st)
        return st;
    tt_engine_set_secret(w->engine, secret);
    tt_engine_set_trace_id(w->engine, tt_comm_trace_job(secret));
    kept = tt_float_env_enter();
    st = derive_layout(w);
    tt_float_env_leave(kept);
    return st;
}

static tutti_status exchange_cards(struct tt_world *w, const struct tt_launch *launch,
                                   const uint8_t *card, size_t bytes, uint64_t deadline_ns)
{
    struct tt_table table;
    tutti_status st;

    if (launch->nranks == 1 && strncmp(launch->rendezvous, "id:", 3) != 0) {
        /* no other rank waits for this one, except the server of an id */
        st = tt_world_add_card(w, 0, card, bytes);
        return st ? st : derive_layout(w);
    }
    st = tt_boot_rendezvous(launch, card, bytes, deadline_ns, &table, &w->overlay);
    if (st)
        return st;
    w->proven = table.holders;
    w->places[w->rank].host = table.holders[w->rank];
    tt_engine_set_host(w->engine, table.holders[w->rank]);
    for (uint32_t r = 0; r < table.nranks && !st; r++)
        st = tt_world_add_card(w, r, table.cards[r], table.card_bytes[r]);
    w->proven = NULL;
    if (!st)
        st = tt_world_complete(w, table.secret);
    tt_table_fini(&table);
    return st;
}

/* Called when this rank cannot start, with its error logged. Joins the start-up nevertheless to
 * notify the others, which would wait for it. Returns st. */
static tutti_status send_refusal(const struct tt_launch *launch, tutti_status st)
{
    const uint64_t soon_ns = tt_now_ns() + REFUSE_NS,
                   deadline_ns = tt_deadline_ns(tt_now_ns(), launch->timeout_ms);
    char sentence[TT_CARD_BYTES - 8];
    uint8_t card[TT_CARD_BYTES];
    struct tt_overlay *overlay;
    struct tt_table table;
    struct tt_writer wr;

    if (launch->nranks == 1)
        return st;
    snprintf(sentence, sizeof sentence, "%s", tutti_last_error());
    tt_writer_init(&wr, card, sizeof card);
    tt_write_u8(&wr, (uint8_t)st);
    tt_write_string(&wr, sentence);
    if (tt_boot_rendezvous(launch, card, tt_writer_bytes(&wr),
                           soon_ns < deadline_ns ? soon_ns : deadline_ns, &table,
                           &overlay) == TUTTI_OK) {
        tt_overlay_close(overlay);
        tt_table_fini(&table);
    }
    return tt_fail_again(st, sentence);
}

/* Takes the security of connections from the session, or else from the settings. */
static tutti_status world_set_security(struct tt_world *w, const struct tt_world_conf *conf,
                                       struct tt_engine_conf *engine)
{
    tutti_status st;

    if (conf->secure) {
        engine->secure = w->secure = tt_secure_get(conf->secure);
        return TUTTI_OK;
    }
    st = tt_security_parse(&w->security, conf->security);
    if (!st)
        st = tt_security_create(&w->secure, w->security, conf->token);
    engine->secure = w->secure;
    return st;
}

/* Uses the monotonic clock for waits. */
static void init_frame_signal(struct tt_world *w)
{
    pthread_condattr_t clock;

    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&w->frame_signal, &clock);
    pthread_condattr_destroy(&clock);
}

tutti_status tt_world_prepare(struct tt_world **out, const struct tt_world_conf *conf,
                              uint8_t card[TT_CARD_BYTES], size_t *bytes)
{
    struct tt_world *w = calloc(1, sizeof *w);
    struct tt_liveness_rank *asked;
    struct tt_engine_conf engine = {
        .rank = conf->rank,
        .nranks = conf->nranks,
        .wires = conf->wires,
        .interfaces = conf->interfaces,
        .lanes = conf->lanes,
        .outside = conf->outside,
        .members = conf->members,
        .rails = w ? &w->here.rails : NULL,
        .layout = w ? &w->layout : NULL,
        .links = w ? w->here.links : NULL,
    };
    tutti_status st;

    if (!w)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a communicator");
    pthread_mutex_init(&w->overlay_lock, NULL);
    init_frame_signal(w);
    pthread_mutex_init(&w->probe_lock, NULL);
    pthread_mutex_init(&w->group_lock, NULL);
    tt_pages_hot_init(&w->hot);
    asked = calloc(conf->nranks, sizeof *asked);
    w->places = calloc(conf->nranks, sizeof *w->places);
    if (!asked || !w->places) {
        free(asked);
        st = tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u ranks", conf->nranks);
        goto destroy;
    }
    tt_liveness_init(&w->probe, asked, conf->nranks);
    w->rank = conf->rank;
    w->nranks = conf->nranks;
    st = tt_surroundings_seat_find(engine.interfaces, &w->here, &w->places[w->rank]);
    if (!st)
        st = world_set_security(w, conf, &engine);
    if (!st)
        st = tt_engine_create(&w->engine, &engine);
    if (!st && conf->host) {
        w->places[w->rank].host = conf->host;
        tt_engine_set_host(w->engine, conf->host);
    }
    if (!st && w->rank == 0 && conf->tune_files)
        st = tt_tunes_load(&w->tunes, conf->tune_files);
    if (!st)
        st = tt_lane_facts_get(&w->lanes, conf->lanes, conf->wires);
    if (!st) {
        const tt_float_env kept = tt_float_env_enter();

        st = make_card(w, conf->constants, card, bytes);
        tt_float_env_leave(kept);
    }
    if (st)
        goto destroy;
    *out = w;
    return TUTTI_OK;

destroy:
    tt_world_discard(w);
    return st;
}

/* Does not start the engine: no messages are received before the first communicator exists. */
static tutti_status world_create(struct tt_world **out, const struct tt_launch *launch,
                                 int32_t lanes, const char *tune_files)
{
    const struct tt_world_conf conf = {
        .rank = launch->rank, .nranks = launch->nranks, .wires = launch->wires,
        .interfaces = launch->interfaces[0] ? launch->interfaces : NULL, .lanes = (uint32_t)lanes,
        .security = launch->security, .token = launch->token, .tune_files = tune_files,
    };
    uint8_t card[TT_CARD_BYTES];
    struct tt_world *w;
    size_t bytes;
    tutti_status st = tt_world_prepare(&w, &conf, card, &bytes);

    if (st)
        return send_refusal(launch, st);
    st = exchange_cards(w, launch, card, bytes, tt_deadline_ns(tt_now_ns(), launch->timeout_ms));
    if (st) {
        tt_world_discard(w);
        return st;
    }
    *out = w;
    return TUTTI_OK;
}

static void log_layout(const struct tt_world *w)
{
    char text[400];
    tt_float_env kept;

    if (w->rank != 0 || !tt_log_on(TT_LOG_INFO))
        return;
    kept = tt_float_env_enter();
    tt_layout_describe(&w->layout, text, sizeof text);
    tt_log(TT_LOG_INFO, "%s", text);
    tt_links_describe(w->here.links, text, sizeof text);
    if (*text)
        tt_log(TT_LOG_INFO, "links between ranks (%s): %s",
               w->measures == TT_MEASURE_ALL ? "described, otherwise measured" : "described", text);
    if (w->constants.hosts.way_ns > 0)
        tt_log(TT_LOG_INFO, "the latency of a short message between two hosts is %.4g us",
               w->constants.hosts.way_ns / 1e3);
    if (w->constants.hosts.rail_byte_ns > 0)
        tt_log(TT_LOG_INFO, "the NICs of rank 0's host report %.4g Gbit/s",
               8 / w->constants.hosts.rail_byte_ns);
    tt_float_env_leave(kept);
}

tutti_status tt_world_start(struct tt_world *w, const struct tt_engine_hooks *hooks)
{
    tutti_status st;

    if (!w->overlay && w->nranks > 1)     /* a session; start-up logs it later */
        log_layout(w);
    tt_engine_set_hooks(w->engine, hooks);
    st = tt_world_open_status(w);
    if (st)
        return st;
    return tt_engine_start(w->engine,
                           w->overlay ? tt_overlay_fd(w->overlay) : tt_service_fd(w->service),
                           read_overlay, w);
}

/* ---- communicators --------------------------------------------------------------------------- */

/* Sets the constants of the closed forms from all available information. Runs in the default
 * floating-point environment, because every rank must get the same bits: they determine its
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
    c->all_local = tt_engine_all_local(w->engine, ranks, nranks);
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
    tt_plans_discard(comm);      /* made with less information */
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
                        "rank 0 did not send the latency between hosts before the deadline");
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
        tt_write_u8(&wr, FRAME_PAIR);
        tt_write_u32(&wr, ns);
        send_to_all(w, frame, sizeof frame);
    } else {
        st = wait_for_pair(comm, &ns);
    }
    w->constants.hosts.way_ns = ns;
    make_model(comm);
    tt_plans_discard(comm);      /* made with less information */
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
        return send_refusal(launch, st);
    st = world_create(&w, launch, (int32_t)lanes,
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
                                                      .failed = notify_failure,
                                                      .slow = query_slow_rank,
                                                      .blame = find_silent_rank,
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
    log_layout(w);
    if (conf && conf->name)
        tt_comms_set_name(tt_context_trace(comm->context), conf->name);
    *out = comm;
    return TUTTI_OK;
}

/* Records the call, if the parameters of the trace are valid; else the call fails later. */
static tutti_status comm_create(tutti_comm **out, const struct tt_launch *launch,
                                const tutti_conf *conf)
{
    tutti_comm *comm = NULL;
    uint64_t record;
    tutti_status st = tt_oplog_start();

    if (st)
        return send_refusal(launch, st);
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

/* ---- split ----------------------------------------------------------------------------------- */

struct ticket {
    int32_t colour, key;
    uint32_t id, index;         /* id: of a new context, used if this is the first rank of its
                                   part; index: rank in the parent */
};

static int ticket_compare(const void *a, const void *b)
{
    const struct ticket *x = a, *y = b;

    if (x->colour != y->colour)
        return x->colour < y->colour ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Opens this rank's part of a split, from the tickets of all ranks, sorted. The id is that of
 * the part's first rank. */
static tutti_status open_part(tutti_comm *parent, const struct ticket *tickets, int32_t colour,
                              tutti_comm **out)
{
    uint32_t id = 0, n = 0, rank = 0, *ranks = malloc(parent->nranks * sizeof *ranks);
    tutti_status st;

    if (!ranks)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a communicator of %u ranks",
                       parent->nranks);
    for (uint32_t i = 0; i < parent->nranks; i++) {
        if (tickets[i].colour != colour)
            continue;
        if (n == 0)
            id = tickets[i].id;
        if (tickets[i].index == parent->rank)
            rank = n;
        ranks[n++] = parent->ranks[tickets[i].index];
    }
    if (id)
        st = tt_comm_open(out, parent->world, id, ranks, n, rank, parent->timeout_ms,
                          parent->restore);
    else
        st =
            tt_fail(TUTTI_ERR_NOMEM, "too many communicators: all communicator numbers are in use");
    free(ranks);
    return st;
}

/* No rank uses a part before all ranks have opened theirs. If one failed (`mine` is its status),
 * all ranks get its error. */
static tutti_status comm_agree(tutti_comm *parent, tutti_status mine, const char *call)
{
    const uint64_t outcome = (uint64_t)mine << 32 | parent->rank;
    uint64_t worst = 0;
    const tutti_status st =
        tutti_allreduce(&outcome, &worst, 1, TUTTI_U64, TUTTI_MAX, parent, NULL);
    const tutti_status failed = (tutti_status)(worst >> 32);

    if (st || mine)
        return st ? st : mine;
    return failed ? tt_fail(failed, "%s: rank %u failed to create its communicator", call,
                            (uint32_t)worst)
                  : TUTTI_OK;
}

static tutti_status comm_split(tutti_comm *parent, int32_t colour, int32_t key, tutti_comm **out,
                               const char *call)
{
    struct ticket mine = { .colour = colour, .key = key }, *tickets;
    tutti_comm *part = NULL;
    tutti_status st = tt_comm_check(parent, call);

    if (st)
        return st;
    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "%s: out is NULL", call);
    tickets = malloc(parent->nranks * sizeof *tickets);
    if (!tickets)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for %u ranks", call, parent->nranks);
    mine.id = tt_engine_new_context(parent->world->engine);
    mine.index = parent->rank;
    st = tutti_allgather(&mine, tickets, sizeof mine, TUTTI_U8, parent, NULL);
    if (!st) {
        qsort(tickets, parent->nranks, sizeof *tickets, ticket_compare);
        st = colour < 0 ? TUTTI_OK : open_part(parent, tickets, colour, &part);
        st = comm_agree(parent, st, call);
    }
    free(tickets);
    if (!st) {
        *out = part;
    } else if (part) {          /* others may not have received the result yet */
        tt_context_fail(part->context, st, tutti_last_error());
        tutti_comm_destroy(part);
    }
    return st;
}

static tutti_status split_guarded(tutti_comm *parent, int32_t colour, int32_t key, tutti_comm **out,
                                  enum tt_comm_creation how, const char *call)
{
    tutti_status st = tt_comm_enter(parent, call);
    uint64_t record;

    if (st)
        return st;
    record = tt_comm_trace_creation(parent, how);
    st = comm_split(parent, colour, key, out, call);
    tt_oplog_end(record, st);
    tt_comm_leave(parent);
    return st;
}

tutti_status tutti_comm_split(tutti_comm *parent, int colour, int key, tutti_comm **out)
{
    return split_guarded(parent, colour < 0 ? -1 : colour, key, out, TT_COMM_SPLIT,
                         "tutti_comm_split");
}

tutti_status tutti_comm_dup(tutti_comm *parent, tutti_comm **out)
{
    return split_guarded(parent, 0, 0, out, TT_COMM_DUP, "tutti_comm_dup");
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

void tt_comm_guard(tutti_comm *comm)
{
    comm->guarded = true;
    tt_context_guard(comm->context);
}

/* In the child of a fork, a thread of the parent may seem to be in a call; then the fork is
 * reported. */
static tutti_status refuse_second(const tutti_comm *comm, const char *call, const char *other)
{
    const tutti_status st = tt_comm_check(comm, call);

    return st ? st
              : tt_fail(TUTTI_ERR_INVALID,
                        "%s: another thread is in %s on this communicator, which only one thread "
                        "can use at a time "
                        "(duplicate it with tutti_comm_dup)",
                        call, other);
}

tutti_status tt_comm_hold(tutti_comm *comm, const char *call)
{
    return comm && comm->guarded ? tt_context_enter(comm->context, call) : TUTTI_OK;
}

void tt_comm_unhold(tutti_comm *comm)
{
    if (comm && comm->guarded)
        tt_context_leave(comm->context);
}

tutti_status tt_comm_enter(tutti_comm *comm, const char *call)
{
    const char *other;
    tutti_status st;

    if (!comm)
        return TUTTI_OK;
    st = tt_comm_hold(comm, call);
    if (st)
        return st;
    other = tt_entry_take(&comm->entry, call);
    if (!other)
        return TUTTI_OK;
    st = refuse_second(comm, call, other);
    tt_comm_unhold(comm);
    return st;
}

void tt_comm_leave(tutti_comm *comm)
{
    if (!comm)
        return;
    tt_entry_leave(&comm->entry);
    tt_comm_unhold(comm);
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
