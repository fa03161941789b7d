#include "comm/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "base/status.h"
#include "boot/tree_layout.h"
#include "comm/comm_trace.h"
#include "comm/control.h"
#include "comm/cores.h"
#include "comm/rank_place.h"
#include "comm/tuner.h"
#include "comm/world_status.h"
#include "reduce/float_env.h"
#include "secure/security.h"

/* time for which a rank that cannot start tries to notify the others */
#define REFUSE_NS (10 * TT_SECOND)

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
    free(w->shares);
    tt_record_store_fini(&w->records);
    pthread_mutex_destroy(&w->cards_lock);
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

/* Writes the values of rank 0 that all ranks use: the cost constants, sizes, bounds, lanes, what
 * start-up measures, links, cores and their cache, whether it simulates, and the size of its tune
 * files. */
static size_t write_constants(const struct tt_world *w, uint8_t measures,
                              uint8_t out[TT_BOOT_CONSTANTS_BYTES])
{
    struct tt_writer wr;

    tt_writer_init(&wr, out, TT_BOOT_CONSTANTS_BYTES);
    tt_constants_write(&w->constants, &wr);
    write_sizes(&w->shm_sizes, &wr);
    write_sizes(&w->tcp_sizes, &wr);
    tt_chunks_write(&w->chunks, &wr);
    tt_lane_facts_write(&w->lanes, &wr);
    tt_write_u8(&wr, measures);
    tt_links_write(w->here.links, &wr);
    tt_write_u32(&wr, tt_engine_cores());
    write_cache(w->cache_mine, &wr);
    tt_write_u8(&wr, w->simulates);
    tt_write_u32(&wr, w->tunes.told_bytes);
    tt_assert(!wr.bad);
    return tt_writer_bytes(&wr);
}

tutti_status tt_world_set_constants(struct tt_world *w, const uint8_t *constants, size_t bytes)
{
    struct tt_topo_link links[TT_DISTANCES];
    const tt_float_env kept = tt_float_env_enter();
    struct tt_constants costs;
    struct tt_lane_facts lanes;
    struct tt_sizes shm, tcp;
    struct tt_chunks chunks;
    struct tt_cache cache;
    uint32_t told_bytes, cores;
    uint8_t measures, simulates;
    struct tt_reader r;

    tt_reader_init(&r, constants, bytes);
    tt_constants_read(&costs, &r);
    read_sizes(&shm, &r, TT_PARAM_SEGMENT_BYTES, TT_PARAM_EAGER_BYTES);
    read_sizes(&tcp, &r, TT_PARAM_TCP_SEGMENT_BYTES, TT_PARAM_TCP_EAGER_BYTES);
    tt_chunks_read(&chunks, &r);
    tt_lane_facts_read(&lanes, &r);
    measures = tt_read_u8(&r);
    tt_links_read(links, &r);
    cores = tt_read_u32(&r);
    cache = read_cache(&r);
    simulates = tt_read_u8(&r);
    told_bytes = tt_read_u32(&r);
    tt_float_env_leave(kept);
    if (r.bad || r.at != r.end || measures > TT_MEASURE_PAIR || !cores || simulates > 1 ||
        told_bytes > TT_TUNES_SHARED_MAX)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "protocol error: invalid settings of rank 0, %zu bytes (another version of "
                       "Tutti?)",
                       bytes);
    w->constants = costs;
    w->shm_sizes = shm;
    w->tcp_sizes = tcp;
    w->chunks = chunks;
    w->lanes = lanes;
    w->measures = (enum tt_measure_what)measures;
    memcpy(w->here.links, links, sizeof links);
    w->cores = cores;
    w->cache = cache;
    w->simulates = simulates;
    w->tunes.told_bytes = told_bytes;
    return TUTTI_OK;
}

/* Writes the settings that must be equal on all ranks and differ from their defaults. */
static void write_settings(struct tt_world *w)
{
    char plugins[TT_PLUGINS_TEXT_BYTES];
    const bool doubling = w->overlay_doubling;
    const char *security = w->security == TT_SECURE_PLAIN ? "" : tt_security_name(w->security);

    tt_plugins_text(plugins);
    snprintf(w->settings, sizeof w->settings, "%s%s%s%s%s%s%s", *security ? "TUTTI_SECURITY=" : "",
             security, *security && (doubling || *plugins) ? "; " : "",
             doubling ? "TUTTI_OVERLAY_DOUBLING=1" : "", doubling && *plugins ? "; " : "",
             *plugins ? "TUTTI_ALGORITHMS=" : "", plugins);
}

/* Reads the parameters, and measures on rank 0. */
static tutti_status world_set_values(struct tt_world *w, const struct tt_constants *constants,
                                     int64_t *measures)
{
    int64_t huge_pages = 0, unused, doubling = 0;
    tutti_status st;

    st = get_sizes(&w->shm_sizes, TT_PARAM_SEGMENT_BYTES, TT_PARAM_EAGER_BYTES);
    if (!st)
        st = get_sizes(&w->tcp_sizes, TT_PARAM_TCP_SEGMENT_BYTES, TT_PARAM_TCP_EAGER_BYTES);
    if (!st)
        st = tt_chunks_get(&w->chunks);
    if (!st)
        st = tt_param_get(TT_PARAM_TOPO_MEASURE, measures);
    if (!st)
        st = tt_param_get(TT_PARAM_HUGE_PAGES, &huge_pages);
    if (!st)        /* read by tutti_gpu_create; an invalid value is an error in every program */
        st = tt_param_get(TT_PARAM_GPU_PEER_COPIES, &unused);
    if (!st)        /* read by the transport tcp */
        st = tt_param_get(TT_PARAM_FAR_LANES, &unused);
    if (!st)
        st = tt_param_get(TT_PARAM_OVERLAY_DOUBLING, &doubling);
    if (!st)
        st = tt_tune_mode(&w->simulates);
    if (st)
        return st;
    w->overlay_doubling = doubling;
    w->hot.page_bytes = huge_pages ? w->hot.page_bytes : 0;
    w->constants = constants ? *constants : tt_constants_default;
    if (w->rank == 0 && w->nranks > 1 && !constants)
        tt_constants_measure(&w->constants);
    w->constants.hosts.rail_byte_ns = w->here.rails.bit_s ? 8e9 / (double)w->here.rails.bit_s : 0;
    return TUTTI_OK;
}

/* Makes the offer of this rank. */
static tutti_status make_offer(struct tt_world *w, const struct tt_constants *constants,
                               struct tt_world_offer *offer)
{
    struct tt_rank_place place = { .location = w->places[w->rank] };
    struct tt_writer wr;
    int64_t measures = 0;
    size_t rest;
    tutti_status st = world_set_values(w, constants, &measures);

    if (st)
        return st;
    tt_cores_own(&place.cores);
    w->cache_mine = tt_last_cache_of(&place.cores, &w->cache_cores);
    write_settings(w);
    memcpy(offer->settings, w->settings, sizeof offer->settings);
    offer->constants_bytes =
        w->rank == 0 ? write_constants(w, (uint8_t)measures, offer->constants) : 0;
    tt_writer_init(&wr, offer->card, sizeof offer->card);
    tt_cores_write(&place.cores, &wr);
    tt_rank_location_write(&place.location, &wr);
    offer->engine_at = tt_writer_bytes(&wr);
    st = tt_engine_card(w->engine, wr.at, (size_t)(wr.end - wr.at), &rest);
    if (st)
        return st;
    offer->card_bytes = offer->engine_at + rest;
    place.shares = tt_engine_card_shares(wr.at, rest);
    offer->place_bytes = tt_rank_place_write(&place, offer->place);
    return TUTTI_OK;
}

/* The parts of a card. `rest` is the engine's. */
struct card_parts {
    struct tt_rank_place place;
    const uint8_t *rest;
    size_t rest_bytes;
};

static bool read_parts(const uint8_t *card, size_t bytes, struct card_parts *out)
{
    struct tt_reader r;

    tt_reader_init(&r, card, bytes);
    tt_cores_read(&out->place.cores, &r);
    tt_rank_location_read(&out->place.location, &r);
    out->rest = r.at;
    out->rest_bytes = (size_t)(r.end - r.at);
    out->place.shares = tt_engine_card_shares(out->rest, out->rest_bytes);
    return !r.bad && out->rest_bytes <= TT_ENGINE_CARD_BYTES;
}

static tutti_status fail_card(uint32_t rank, size_t bytes)
{
    return tt_fail(TUTTI_ERR_PROTOCOL,
                   "protocol error: invalid address record of rank %u, %zu bytes (another version "
                   "of Tutti?)",
                   rank, bytes);
}

tutti_status tt_world_add_card(struct tt_world *w, uint32_t rank, const uint8_t *card, size_t bytes)
{
    uint8_t trimmed[TT_CARD_BYTES];
    struct card_parts c;
    size_t rest_at;

    tt_assert(rank == w->records.n);
    if (bytes > sizeof trimmed || !read_parts(card, bytes, &c))
        return fail_card(rank, bytes);
    tt_world_add_place(w, rank, &c.place);
    rest_at = bytes - c.rest_bytes;
    memcpy(trimmed, card, bytes);
    tt_engine_trim_card(w->engine, trimmed + rest_at, c.rest_bytes);
    return tt_record_store_add(&w->records, 0, trimmed, (uint16_t)bytes);
}

/* Sets the host of this rank, as numbered in the layout of start-up. */
static void set_own_host(struct tt_world *w, struct tt_tree_walk walk)
{
    const uint8_t *place;
    uint8_t bytes;

    for (uint32_t r = 0; r <= w->rank; r++)
        w->places[w->rank].host = tt_tree_walk_next(&walk, &place, &bytes);
}

/* Adds the locations and the processors of all ranks from the layout of start-up. */
static tutti_status add_places(struct tt_world *w, const struct tt_table *table)
{
    struct tt_tree_walk walk;
    tutti_status st = tt_tree_walk_init(&walk, table->layout, table->layout_bytes);

    if (!st)
        set_own_host(w, walk);
    for (uint32_t r = 0; r < w->nranks && !st; r++) {
        struct tt_rank_place place;
        const uint8_t *packed;
        uint8_t bytes;
        const uint32_t host = tt_tree_walk_next(&walk, &packed, &bytes);

        if (!tt_rank_place_read(&place, packed, bytes))
            st = tt_fail(TUTTI_ERR_PROTOCOL,
                         "protocol error: invalid location of rank %u, %u bytes (another version "
                         "of Tutti?)",
                         r, bytes);
        place.location.host = host;
        if (!st)
            tt_world_add_place(w, r, &place);
    }
    tt_tree_walk_fini(&walk);
    return st;
}

/* Copies the engine's part of a card of start-up, with the proven host. Returns 0 if it is too
 * long. The caller holds cards_lock. */
static size_t copy_proven_card(struct tt_world *w, uint32_t rank, uint8_t *out)
{
    const uint8_t *card;
    uint32_t holder;
    const size_t bytes = tt_boot_card(&w->records, rank, &card, &holder);

    if (bytes > TT_ENGINE_CARD_BYTES)
        return 0;
    memcpy(out, card, bytes);
    tt_engine_card_set_host(out, bytes, holder);
    return bytes;
}

/* As copy_proven_card, for a card that has all parts. Returns 0 if there is none. */
static size_t copy_card(struct tt_world *w, uint32_t rank, uint8_t *out)
{
    const struct tt_record_entry *entry = tt_record_store_get(&w->records, rank);
    struct card_parts c;

    if (!entry || !read_parts(entry->record, entry->bytes, &c))
        return 0;
    memcpy(out, c.rest, c.rest_bytes);
    return c.rest_bytes;
}

/* Callback of the engine: copies its part of a rank's card. */
static size_t read_engine_card(void *arg, uint32_t rank, uint8_t *out)
{
    struct tt_world *w = arg;
    size_t bytes;

    pthread_mutex_lock(&w->cards_lock);
    bytes = w->proven ? copy_proven_card(w, rank, out) : copy_card(w, rank, out);
    pthread_mutex_unlock(&w->cards_lock);
    return bytes;
}

/* Derives the layout, equal on all ranks, from all places and processors. */
static tutti_status derive_layout(struct tt_world *w)
{
    const struct tt_engine_cards cards = {
        .read = read_engine_card, .arg = w, .nlocal = w->nlocal, .first_here = w->first_here
    };

    tt_record_store_settle(&w->records);
    tt_engine_set_cards(w->engine, &cards);
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
    tt_float_env kept;
    tutti_status st;

    tt_engine_set_secret(w->engine, secret);
    tt_engine_set_trace_id(w->engine, tt_comm_trace_job(secret));
    kept = tt_float_env_enter();
    st = derive_layout(w);
    tt_float_env_leave(kept);
    return st;
}

/* Moves the records of start-up out of the table, and sets the host in the engine's own card. */
static void take_records(struct tt_world *w, struct tt_table *table)
{
    const uint8_t *card;
    uint32_t holder;

    tt_record_store_fini(&w->records);
    w->records = table->records;
    table->records = (struct tt_record_store){ .n = 0 };
    w->proven = true;
    tt_boot_card(&w->records, w->rank, &card, &holder);
    tt_engine_set_host(w->engine, holder);
}

/* Packs the records again without the parts that this rank does not use, if they are not in shared
 * memory. */
static tutti_status repack_records(struct tt_world *w)
{
    struct tt_record_store packed;
    tutti_status st;

    if (w->records.shared)
        return TUTTI_OK;
    st = tt_record_store_init(&packed, w->nranks);
    for (uint32_t r = 0; r < w->nranks && !st; r++) {
        const struct tt_record_entry *entry = tt_record_store_get(&w->records, r);
        uint8_t record[TT_TREE_CARD_MAX];
        const uint8_t *card;
        uint8_t *own_part;
        uint32_t holder;
        const size_t bytes = tt_boot_card(&w->records, r, &card, &holder);

        memcpy(record, entry->record, entry->bytes);
        own_part = record + (card - entry->record);
        tt_engine_card_set_host(own_part, bytes, holder);   /* compared by tt_engine_trim_card */
        tt_engine_trim_card(w->engine, own_part, bytes);
        st = tt_record_store_add(&packed, holder, record, entry->bytes);
    }
    if (st) {
        tt_record_store_fini(&packed);
        return st;
    }
    tt_record_store_fini(&w->records);
    w->records = packed;
    return TUTTI_OK;
}

static tutti_status exchange_cards(struct tt_world *w, const struct tt_launch *launch,
                                   const struct tt_world_offer *own, uint64_t deadline_ns)
{
    const struct tt_boot_offer offer = { .card = own->card + own->engine_at,
                                         .card_bytes = own->card_bytes - own->engine_at,
                                         .place = own->place,
                                         .place_bytes = own->place_bytes,
                                         .constants = own->constants,
                                         .constants_bytes = own->constants_bytes,
                                         .settings = own->settings,
                                         .overlay_doubling = w->overlay_doubling };
    struct tt_table table;
    tutti_status st;

    if (launch->nranks == 1 && strncmp(launch->rendezvous, "id:", 3) != 0) {
        /* no other rank waits for this one, except the server of an id */
        st = tt_world_set_constants(w, own->constants, own->constants_bytes);
        if (!st)
            st = tt_world_add_card(w, 0, own->card, own->card_bytes);
        return st ? st : derive_layout(w);
    }
    st = tt_boot_rendezvous(launch, &offer, deadline_ns, &table, &w->overlay);
    if (st)
        return st;
    take_records(w, &table);
    st = tt_world_set_constants(w, table.constants, table.constants_bytes);
    if (!st)
        st = add_places(w, &table);
    if (!st)
        st = repack_records(w);
    if (!st)
        st = tt_world_complete(w, table.secret);
    tt_table_fini(&table);
    return st;
}

tutti_status tt_world_send_refusal(const struct tt_launch *launch, tutti_status st)
{
    const uint64_t soon_ns = tt_now_ns() + REFUSE_NS,
                   deadline_ns = tt_deadline_ns(tt_now_ns(), launch->timeout_ms);
    char sentence[TT_ERROR_BYTES];
    const struct tt_boot_offer offer = { .refuses = st, .cause = sentence };
    struct tt_overlay *overlay;
    struct tt_table table;
    tutti_status sent;

    if (launch->nranks == 1)
        return st;
    snprintf(sentence, sizeof sentence, "%s", tutti_last_error());
    sent = tt_boot_rendezvous(launch, &offer, soon_ns < deadline_ns ? soon_ns : deadline_ns, &table,
                              &overlay);
    tt_assert(sent != TUTTI_OK);
    return tt_fail_again(st, sentence);
}

/* Sets the security of connections: that of the elastic run, or else of the settings. */
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
                              struct tt_world_offer *offer)
{
    struct tt_world *w = calloc(1, sizeof *w);
    struct tt_blame_search_rank *asked;
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
    w->is_elastic = conf->members;
    snprintf(w->token, sizeof w->token, "%s", conf->token ? conf->token : "");
    pthread_mutex_init(&w->overlay_lock, NULL);
    init_frame_signal(w);
    pthread_mutex_init(&w->probe_lock, NULL);
    pthread_mutex_init(&w->group_lock, NULL);
    pthread_mutex_init(&w->cards_lock, NULL);
    tt_pages_hot_init(&w->hot);
    asked = calloc(conf->nranks, sizeof *asked);
    w->places = calloc(conf->nranks, sizeof *w->places);
    w->shares = calloc(conf->nranks / 8 + 1u, 1);
    if (!asked || !w->places || !w->shares) {
        free(asked);
        st = tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u ranks", conf->nranks);
        goto destroy;
    }
    tt_blame_search_init(&w->probe, asked, conf->nranks);
    st = tt_record_store_init(&w->records, conf->nranks);
    if (st)
        goto destroy;
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

        st = make_offer(w, conf->constants, offer);
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

tutti_status tt_world_create(struct tt_world **out, const struct tt_launch *launch, int32_t lanes,
                             const char *tune_files)
{
    const struct tt_world_conf conf = {
        .rank = launch->rank, .nranks = launch->nranks, .wires = launch->wires,
        .interfaces = launch->interfaces[0] ? launch->interfaces : NULL, .lanes = (uint32_t)lanes,
        .security = launch->security, .token = launch->token, .tune_files = tune_files,
    };
    struct tt_world_offer offer;
    struct tt_world *w;
    tutti_status st = tt_world_prepare(&w, &conf, &offer);

    if (st)
        return tt_world_send_refusal(launch, st);
    st = exchange_cards(w, launch, &offer, tt_deadline_ns(tt_now_ns(), launch->timeout_ms));
    if (st) {
        tt_world_discard(w);
        return st;
    }
    *out = w;
    return TUTTI_OK;
}

void tt_world_log_layout(const struct tt_world *w)
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

    if (!w->overlay && w->nranks > 1)     /* an elastic run; start-up logs it later */
        tt_world_log_layout(w);
    tt_engine_set_hooks(w->engine, hooks);
    st = tt_world_open_status(w);
    if (st)
        return st;
    return tt_engine_start(w->engine,
                           w->overlay ? tt_overlay_fd(w->overlay) : tt_service_fd(w->service),
                           tt_control_read, w);
}
