#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/host.h"
#include "base/log.h"
#include "base/param.h"
#include "base/prng.h"
#include "engine/context.h"
#include "engine/connect.h"
#include "engine/context_end.h"
#include "engine/engines.h"
#include "engine/op_end.h"
#include "engine/op_lists.h"
#include "engine/progress.h"
#include "engine/quantized.h"
#include "engine/state.h"
#include "engine/failure.h"
#include "trace/dump.h"
#include "wire/registry.h"
#include "wire/verbs/verbs_filter.h"

/* Records that the last opened wire is unusable, with the last error as the reason. The reason is
 * logged later, when the rank that logs for this host is determined. */
static void add_unusable(struct tt_engine *e)
{
    size_t n;

    if (!e->unusable)
        e->unusable = calloc(1, TT_ERROR_BYTES);
    if (!e->unusable)
        return;
    n = strlen(e->unusable);
    snprintf(e->unusable + n, TT_ERROR_BYTES - n, "%s%s", n ? "; " : "", tutti_last_error());
}

static tutti_status open_wires(struct tt_engine *e, const struct tt_engine_conf *conf)
{
    struct tt_wire_conf wc = {
        .rank = conf->rank,
        .nranks = conf->nranks,
        .link_bytes = TT_LINK_BYTES,
        .interfaces = conf->interfaces,
        .lanes = conf->lanes,
        .rails = conf->rails,
        .layout = conf->layout,
        .links = conf->links,
        .outside = conf->outside,
        .secure = conf->secure,
        .rdma_devices = getenv("TUTTI_RDMA_DEVICES"),
        .rdma_gid = getenv("TUTTI_RDMA_GID"),
        .ofi_provider = getenv("TUTTI_OFI_PROVIDER"),
    };
    struct tt_lane_limits limits;
    struct tt_verbs_filter rdma;
    int64_t cma = 0, silence_s = 0, hmem = 0;
    tutti_status st = tt_wire_check_list(conf->wires);

    if (!st)
        st = tt_lane_limits_get(&limits);
    if (st || (st = tt_param_get(TT_PARAM_CMA, &cma)) ||
        (st = tt_param_get(TT_PARAM_TCP_SILENCE_S, &silence_s)) ||
        (st = tt_param_get(TT_PARAM_OFI_HMEM, &hmem)))
        return st;
    wc.ofi_hmem = hmem;
    st = tt_registry_check();       /* an error is reported even if no wire registers memory */
    if (!st)
        st = tt_verbs_filter_read(&rdma, wc.rdma_gid);      /* reported likewise */
    if (st)
        return st;
    wc.secret = e->secret;
    wc.lane_limits = &limits;
    wc.silence_s = (uint32_t)silence_s;
    wc.cma = cma != 0;
    e->single_copies = cma == 2;
    for (size_t i = 0; i < tt_nwires && e->nwires < TT_ENGINE_WIRES_MAX; i++) {
        if (!tt_wire_is_listed(conf->wires, tt_wires[i]))
            continue;
        st = tt_wires[i]->open(&e->wire[e->nwires], &wc);
        if (st == TUTTI_ERR_UNSUPPORTED) {
            add_unusable(e);
            continue;
        }
        if (st)
            return st;
        tt_log(TT_LOG_INFO, "transport %s is open", tt_wires[i]->name);
        e->pool[e->nwires] = tt_bounce_pool_create(e->wire[e->nwires]);
        e->nwires++;
    }
    if (!e->nwires)
        return tt_fail(TUTTI_ERR_UNSUPPORTED,
                       "no transport is available on this host (requested: %s): %s",
                       conf->wires && *conf->wires ? conf->wires : "any",
                       e->unusable ? e->unusable : tutti_last_error());
    return TUTTI_OK;
}

/* ---- forks ----------------------------------------------------------------------------------- */

bool tt_engine_is_inherited(const struct tt_engine *e)
{
    return e->forks != tt_forks();
}

bool tt_op_is_inherited(const struct tt_op *op)
{
    return op->context && tt_engine_is_inherited(op->context->engine);
}

/* ---- life cycle ------------------------------------------------------------------------------ */

static tutti_status copy_members(struct tt_engine *e, const uint64_t *members)
{
    if (!members)
        return TUTTI_OK;
    e->members = malloc(e->nranks * sizeof *e->members);
    if (!e->members)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the member numbers of %u ranks",
                       e->nranks);
    memcpy(e->members, members, e->nranks * sizeof *members);
    return TUTTI_OK;
}

tutti_status tt_engine_create(struct tt_engine **out, const struct tt_engine_conf *conf)
{
    struct tt_engine *e = calloc(1, sizeof *e);
    tutti_status st = TUTTI_ERR_NOMEM;

    if (!e)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the engine");
    tt_random_bytes(&e->trace_id, sizeof e->trace_id);
    e->kick_fd = e->summon_fd = e->all_epoll = e->control_epoll = -1;
    e->forks = tt_forks();
    e->rank = conf->rank;
    e->nranks = conf->nranks;
    e->cards.first_here = UINT32_MAX;
    e->host = tt_host_hash();
    e->cache_share = tt_copy_cache_share(0, 0, 0, 0);
    e->ops_cap = TT_OPS_MAX;
    e->end_operations = tt_ops_fail;
    pthread_mutex_init(&e->waiting_lock, NULL);
    pthread_mutex_init(&e->trouble_lock, NULL);
    tt_lane_board_init(&e->lane_board);
    e->peer_slab.bytes = sizeof(struct tt_peer);
    e->ops = calloc(e->ops_cap, sizeof *e->ops);
    if (!e->ops) {
        tt_fail(st, "out of memory for the operations of %u ranks", e->nranks);
        goto destroy;
    }
    st = tt_oplog_start();
    if (!st)
        st = tt_dump_start();
    if (!st)
        st = copy_members(e, conf->members);
    if (!st)
        st = tt_progress_init(e);
    if (st)
        goto destroy;
    st = open_wires(e, conf);
    if (st)
        goto destroy;
    tt_engines_add(e);
    *out = e;
    return TUTTI_OK;

destroy:
    tt_engine_destroy(e);
    return st;
}

void tt_engine_destroy(struct tt_engine *e)
{
    struct tt_peer *p;
    uint32_t at = 0;

    tt_engines_remove(e);
    tt_progress_fini(e);
    tt_take_failures(e);         /* processes the last reports */
    if (e->guest)
        e->guest->close(e->guest->arg);
    while (e->contexts)
        tt_context_free(e->contexts);
    for (uint32_t i = 0; i < e->nallocated; i++)
        tt_registry_remove(e->allocated[i]->mem);
    for (uint32_t i = 0; i < e->nwires; i++) {
        e->wire[i]->ops->close(e->wire[i]);
        tt_bounce_pool_destroy(e->pool[i]);
    }
    tt_ops_free_all(e);
    tt_unexpected_free_all(e);
    tt_oplog_leave(&e->oplog);
    while ((p = tt_sparse_next(&e->peers, &at)))
        tt_peer_free_ended(p);
    tt_lane_board_fini(&e->lane_board);
    pthread_mutex_destroy(&e->trouble_lock);
    pthread_mutex_destroy(&e->waiting_lock);
    free(e->members);
    free(e->reports);
    free(e->ops);
    tt_sparse_fini(&e->peers);
    tt_slab_fini(&e->peer_slab);
    free(e->unusable);
    free(e);
}

void tt_engine_set_secret(struct tt_engine *e, const uint8_t *secret)
{
    memcpy(e->secret, secret, sizeof e->secret);
}

void tt_engine_set_trace_id(struct tt_engine *e, uint64_t id)
{
    e->trace_id = id;
}

uint64_t tt_engine_trace_id(const struct tt_engine *e)
{
    return e->trace_id;
}

tutti_status tt_engine_card(struct tt_engine *e, void *card, size_t cap, size_t *bytes)
{
    struct tt_writer w;

    tt_writer_init(&w, card, cap);
    tt_write_u64(&w, e->host);
    tt_write_u8(&w, (uint8_t)e->nwires);
    for (uint32_t i = 0; i < e->nwires; i++) {
        struct tt_blob address = { 0 };
        const tutti_status st = e->wire[i]->ops->address(e->wire[i], &address);

        if (st)
            return st;
        tt_write_string(&w, e->wire[i]->ops->name);
        tt_write_u16(&w, address.bytes);
        tt_write_bytes(&w, address.data, address.bytes);
    }
    if (w.bad)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "cannot publish the addresses of %u transports: they exceed %zu bytes",
                       e->nwires, cap);
    *bytes = tt_writer_bytes(&w);
    return TUTTI_OK;
}

void tt_engine_set_host(struct tt_engine *e, uint64_t host)
{
    e->host = host;
}

void tt_engine_set_cards(struct tt_engine *e, const struct tt_engine_cards *cards)
{
    e->cards = *cards;
}

void tt_engine_card_set_host(uint8_t *card, size_t bytes, uint64_t host)
{
    struct tt_writer w;

    tt_writer_init(&w, card, bytes);
    tt_write_u64(&w, host);
}

bool tt_engine_card_shares(const uint8_t *card, size_t bytes)
{
    struct tt_reader r;
    char wire[16];

    tt_reader_init(&r, card, bytes);
    tt_read_u64(&r);            /* skip the host, and the number of wires */
    tt_read_u8(&r);
    tt_read_string(&r, wire, sizeof wire);
    return !r.bad && strcmp(wire, "shm") == 0;
}

/* Returns the wire that a link to the peer will use: the first one in the peer's card that this
 * process has, or NULL. Shared memory is used only within a host. */
static const struct tt_wire *expected_wire(const struct tt_engine *e, uint32_t peer)
{
    uint8_t card[TT_ENGINE_CARD_BYTES], address[TT_BLOB_BYTES];
    struct tt_reader r;
    char name[16];
    uint16_t bytes;
    bool local;

    tt_reader_init(&r, card, tt_engine_read_card(e, peer, card));
    local = tt_read_u64(&r) == e->host;
    for (uint32_t n = tt_read_u8(&r); n > 0; n--) {
        tt_read_string(&r, name, sizeof name);
        bytes = tt_read_u16(&r);
        if (r.bad || bytes > sizeof address)
            break;
        tt_read_bytes(&r, address, bytes);
        for (uint32_t i = 0; i < e->nwires; i++)
            if (strcmp(e->wire[i]->ops->name, name) == 0 && (local || strcmp(name, "shm") != 0))
                return e->wire[i];
    }
    return NULL;
}

/* Returns the wire of the link to the peer, or the one that a link would use, or NULL. *caps: its
 * current capabilities, which may change when a link comes up. */
static const struct tt_wire *wire_to(struct tt_engine *e, uint32_t peer, uint32_t *caps)
{
    const struct tt_peer *p;
    const struct tt_wire *w;

    tt_progress_lock(e);
    p = tt_peer_get(e, peer);
    w = p && p->wire ? p->wire : expected_wire(e, peer);
    *caps = w ? w->caps : 0;
    tt_progress_unlock(e);
    return w;
}

const char *tt_engine_wire_of(struct tt_engine *e, uint32_t peer)
{
    uint32_t caps;
    const struct tt_wire *w = wire_to(e, peer, &caps);

    return w ? w->ops->name : "none";
}

bool tt_engine_wire_is_ordered(struct tt_engine *e, uint32_t peer)
{
    uint32_t caps;

    wire_to(e, peer, &caps);
    return (caps & (TT_WIRE_CAP_ORDERED | TT_WIRE_CAP_AWAITS)) == TT_WIRE_CAP_ORDERED;
}

void tt_engine_exchange_layout(struct tt_engine *e, struct tt_layout *of_job,
                               struct tt_layout *other)
{
    const struct tt_layout kept = *other;

    tt_progress_lock(e);
    *other = *of_job;
    *of_job = kept;
    tt_progress_unlock(e);
}

void tt_engine_set_links(struct tt_engine *e, struct tt_topo_link *of_job,
                         const struct tt_topo_link *links)
{
    tt_progress_lock(e);
    memcpy(of_job, links, TT_DISTANCES * sizeof *links);
    tt_progress_unlock(e);
}

void tt_engine_set_hooks(struct tt_engine *e, const struct tt_engine_hooks *hooks)
{
    tt_progress_lock(e);
    e->hooks = *hooks;
    tt_progress_unlock(e);
}

/* ---- memory ---------------------------------------------------------------------------------- */

tutti_status tt_engine_declare(struct tt_engine *e, void *mem, size_t bytes)
{
    (void)e;
    return tt_registry_add(mem, bytes);
}

tutti_status tt_engine_declare_device(struct tt_engine *e, void *mem, size_t bytes,
                                      const struct tt_device_memory *what)
{
    char names[64] = "";
    uint32_t caps = 0;

    tt_progress_lock(e);    /* the first poll of tcp may change its capabilities */
    for (uint32_t i = 0; i < e->nwires; i++) {
        const size_t at = strlen(names);

        caps |= e->wire[i]->caps;
        snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", e->wire[i]->ops->name);
    }
    tt_progress_unlock(e);
    if (caps & TT_WIRE_CAP_DEVICE)
        return tt_registry_add_device(mem, bytes, what);
    return tt_fail(TUTTI_ERR_UNSUPPORTED,
                   "device memory requires an RDMA transport: this job uses %s (set "
                   "TUTTI_WIRES=verbs or ofi)",
                   names);
}

tutti_status tt_engine_undeclare(const void *mem)
{
    const size_t bytes = tt_registry_user_bytes(mem);

    if (bytes && tt_engines_use(mem, bytes))
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_mem_deregister: an operation or a window uses part of the %zu bytes "
                       "at %p (wait for the operation, or free the window, first)",
                       bytes, mem);
    if (!tt_registry_remove(mem))
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_mem_deregister: no registered memory begins at %p (it was not "
                       "registered, was deregistered "
                       "before, or has been unmapped)",
                       mem);
    return TUTTI_OK;
}

tutti_status tt_engine_alloc(struct tt_engine *e, size_t bytes, void **out)
{
    struct tt_region *r;
    tutti_status st;

    if (!tt_memory_can_be(NULL, bytes))
        return tt_fail(TUTTI_ERR_NOMEM,
                       "tutti_mem_alloc: %zu bytes do not fit in the address space", bytes);
    tt_progress_lock(e);
    if (e->nallocated == TT_ENGINE_ALLOCATED_MAX) {
        st = tt_fail(TUTTI_ERR_NOMEM, "tutti_mem_alloc: too many allocations: the maximum is %u",
                     TT_ENGINE_ALLOCATED_MAX);
        goto give;
    }
    st = e->wire[0]->ops->reg(e->wire[0], NULL, bytes ? bytes : 1, &r);
    if (st)
        goto give;
    st = tt_engine_declare(e, r->mem, r->bytes);
    if (st) {
        e->wire[0]->ops->dereg(r);
        goto give;
    }
    e->allocated[e->nallocated++] = r;
    *out = r->mem;
give:
    tt_progress_unlock(e);
    return st;
}

tutti_status tt_engine_free(struct tt_engine *e, void *mem)
{
    tutti_status st = TUTTI_ERR_INVALID;

    tt_progress_lock(e);
    for (uint32_t i = 0; i < e->nallocated && st; i++)
        if (e->allocated[i]->mem == mem) {
            tt_registry_remove(mem);
            e->wire[0]->ops->dereg(e->allocated[i]);
            e->allocated[i] = e->allocated[--e->nallocated];
            st = TUTTI_OK;
        }
    tt_progress_unlock(e);
    return st ? tt_fail(st, "tutti_mem_free: %p was not allocated by tutti_mem_alloc of this job",
                        mem)
              : TUTTI_OK;
}
