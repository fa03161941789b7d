/* Creation and destruction of devices, and the hosts' calls. */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/options.h"
#include "window/handle.h"

#define COUNTERS_BYTES_FIRST offsetof(tutti_device_counters, room_waits)
#define SLOTS_DEFAULT 4096u
#define SLOTS_MIN 8u
_Static_assert(SLOTS_MIN >= TUTTI_DEVICE_AT_ONCE, "the FIFO must hold the triggers of one call");
#define SLOTS_MAX (1u << 20)
#define GROUPS_MAX (1u << 20)
#define FLAGS_MAX (1u << 16)
#define PENDING_MAX (1u << 20)
#define GROUP_WORDS 8u          /* each counter and each flag has its own cache line */
/* maximum size of a window with signals: limited by the offset field of tutti_trigger_head */
#define WORDS_BYTES_MAX (1ull << 36)

/* ---- options ---- */

static tutti_status check_mode(tutti_device_mode mode, tutti_device_lanes lanes, const char *call)
{
    const tutti_status st = tt_options_enum(call, "mode", (int)mode, TUTTI_DEVICE_MODES - 1);

    return st ? st : tt_options_enum(call, "lanes", (int)lanes, TUTTI_DEVICE_LANES - 1);
}

static tutti_status device_check_conf(const tutti_device_conf *c)
{
    static const char call[] = "tutti_device_create";
    tutti_status st = tt_options_enum(call, "conf.mode", (int)c->mode, TUTTI_DEVICE_MODES - 1);

    if (!st)
        st = tt_options_enum(call, "conf.lanes", (int)c->lanes, TUTTI_DEVICE_LANES - 1);
    if (!st)
        st = tt_options_flag(call, "conf.no_direct", c->no_direct);
    if (!st)
        st = tt_options_flag(call, "conf.wakes_hosts", c->wakes_hosts);
    if (!st)
        st = tt_options_flag(call, "conf.polls", c->polls);
    if (st)
        return st;
    if (c->fifo_slots < SLOTS_MIN || c->fifo_slots > SLOTS_MAX ||
        (c->fifo_slots & (c->fifo_slots - 1)))
        return tt_fail(
            TUTTI_ERR_INVALID,
            "tutti_device_create: conf.fifo_slots is %u: must be a power of two from %u to %u",
            c->fifo_slots, SLOTS_MIN, SLOTS_MAX);
    if (c->pending == 0 || c->pending > PENDING_MAX)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_device_create: conf.pending is %u: must be 1 to %u", c->pending,
                       PENDING_MAX);
    if (c->groups > GROUPS_MAX)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_device_create: conf.groups is %u: the maximum is %u", c->groups,
                       GROUPS_MAX);
    if (c->flags > FLAGS_MAX)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_device_create: conf.flags is %u: the maximum is %u", c->flags,
                       FLAGS_MAX);
    if (!c->alloc != !c->free)
        return tt_fail(
            TUTTI_ERR_INVALID,
            "tutti_device_create: conf.alloc and conf.free must both be set or both be NULL");
    return TUTTI_OK;
}

static tutti_status device_copy_conf(tutti_device *d, const tutti_device_conf *given)
{
    tutti_device_conf *c = &d->conf;
    tutti_status st = TUTTI_OK;

    *c = (tutti_device_conf){ .size = sizeof *c };
    if (given)
        st = tt_options_take(c, sizeof *c, TT_DEVICE_CONF_BYTES_FIRST, given, "tutti_device_create",
                             "conf", "tutti_device_conf");
    if (st)
        return st;
    if (c->fifo_slots == 0)
        c->fifo_slots = SLOTS_DEFAULT;
    if (c->pending == 0)
        c->pending = TUTTI_DEVICE_PENDING;
    if (c->timeout_ms == 0)
        c->timeout_ms = d->window->comm->timeout_ms;
    st = device_check_conf(c);
    if (c->alloc)
        c->polls = 1;
    return st;
}

/* Returns the mode for DEFAULT: ORDERED if marks cost nothing on the transport to every rank,
 * otherwise FULL. Other modes are returned unchanged. */
static tutti_device_mode resolve_mode(const tutti_device *d, tutti_device_mode mode)
{
    const tutti_comm *comm = d->window->comm;

    if (mode != TUTTI_DEVICE_DEFAULT)
        return mode;
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (r != comm->rank && !tt_engine_wire_is_ordered(d->window->home->engine, comm->ranks[r]))
            return TUTTI_DEVICE_FULL;
    return TUTTI_DEVICE_ORDERED;
}

/* ---- memory visible to blocks ---------------------------------------------------------------- */

/* Allocates zeroed memory for `what`; NULL (logged). The device frees it. */
static void *device_alloc(tutti_device *d, size_t bytes, tutti_device_memory memory,
                          const char *what)
{
    const size_t rounded = (bytes / 64 + 1) * 64;
    void *mem;

    tt_assert(d->npieces < TT_DEVICE_PIECES);
    if (d->conf.alloc) {
        mem = d->conf.alloc(rounded, memory, d->conf.arg);
    } else {
        mem = aligned_alloc(64, rounded);
        if (mem)
            memset(mem, 0, rounded);
    }
    if (!mem) {
        tt_fail(TUTTI_ERR_NOMEM, "tutti_device_create: out of memory for %s: %zu bytes", what,
                rounded);
        return NULL;
    }
    d->pieces[d->npieces++] = (struct tt_device_piece){ mem, memory };
    return mem;
}

static void free_pieces(tutti_device *d)
{
    while (d->npieces > 0) {
        const struct tt_device_piece *p = &d->pieces[--d->npieces];

        if (d->conf.free)
            d->conf.free(p->mem, p->memory, d->conf.arg);
        else
            free(p->mem);
    }
}

/* Sets *out to that rank's memory if blocks can store to it directly, otherwise to NULL. */
static tutti_status find_mapped(const tutti_device *d, uint32_t rank, uint8_t **out)
{
    const tutti_comm *comm = d->window->comm;
    const struct tt_layout *l = &comm->layout;
    void *mapped = NULL;
    tutti_status st = TUTTI_OK;

    if (rank == comm->rank)
        mapped = d->window->mem;
    else if (!d->conf.no_direct && l->nranks &&
             tt_layout_host(l, rank) == tt_layout_host(l, comm->rank))
        st = tutti_window_pointer(d->window->handle, (int)rank, &mapped);
    if (!st)
        *out = mapped;
    return st;
}

/* Fills the blocks' tables of the window's parts. */
static tutti_status fill_part_tables(tutti_device *d)
{
    tutti_device_view *v = &d->view;
    uint8_t **direct =
        device_alloc(d, v->nranks * sizeof *direct, TUTTI_DEVICE_SHARED, "peer addresses");
    uint64_t *bytes =
        device_alloc(d, v->nranks * sizeof *bytes, TUTTI_DEVICE_SHARED, "peer window sizes");
    uint8_t *words = device_alloc(d, v->nranks, TUTTI_DEVICE_SHARED, "peer alignment flags");
    tutti_status st = direct && bytes && words ? TUTTI_OK : TUTTI_ERR_NOMEM;

    for (uint32_t r = 0; r < v->nranks && !st; r++) {
        bytes[r] = d->window->cards[r].bytes;
        words[r] = d->window->cards[r].aligned && !d->window->cards[r].device;
        if (bytes[r] > WORDS_BYTES_MAX)
            st = tt_fail(
                TUTTI_ERR_UNSUPPORTED,
                "tutti_device_create: the window of rank %u has %llu bytes: the maximum is %llu", r,
                (unsigned long long)bytes[r], WORDS_BYTES_MAX);
        else
            st = find_mapped(d, r, &direct[r]);
    }
    v->mine = d->window->mem;
    v->direct = direct;
    v->bytes = bytes;
    v->words = words;
    return st;
}

/* Creates the view. Words that change have their own cache lines. */
static tutti_status make_view(tutti_device *d)
{
    tutti_device_view *v = &d->view;
    const tutti_device_conf *c = &d->conf;
    tutti_status st;

    *v = (tutti_device_view){
        .rank = d->window->comm->rank,
        .nranks = d->window->comm->nranks,
        .wakes_hosts = c->wakes_hosts,
        .fifo_slots = c->fifo_slots,
        .pending = c->pending,
        .ngroups = c->groups,
        .nflags = c->flags,
        .by_proxy = c->polls,
        .device = d,
        .timeout_ms = c->timeout_ms < 0 ? UINT64_MAX : (uint64_t)c->timeout_ms,
        .asleep = c->polls ? NULL : &d->asleep,
    };
    v->fifo = device_alloc(d, c->fifo_slots * sizeof *v->fifo, TUTTI_DEVICE_SHARED, "the FIFO");
    v->taken = device_alloc(d, sizeof *v->taken, TUTTI_DEVICE_SHARED, "a counter");
    v->full_waits = device_alloc(d, sizeof *v->full_waits, TUTTI_DEVICE_SHARED, "a counter");
    v->pulse = device_alloc(d, sizeof *v->pulse, TUTTI_DEVICE_SHARED, "the heartbeat");
    v->answers =
        device_alloc(d, 2 * (v->nranks + 1ul) * sizeof *v->answers, TUTTI_DEVICE_SHARED, "answers");
    v->given = device_alloc(d, v->nranks * sizeof *v->given, TUTTI_DEVICE_SHARED, "credits");
    v->room_waits = device_alloc(d, sizeof *v->room_waits, TUTTI_DEVICE_SHARED, "a counter");
    v->wake_sent =
        device_alloc(d, v->nranks * sizeof *v->wake_sent, TUTTI_DEVICE_SHARED, "wake-up flags");
    v->flags = device_alloc(d, (size_t)c->flags * GROUP_WORDS * sizeof *v->flags,
                            TUTTI_DEVICE_SHARED, "flags");
    d->status = device_alloc(d, sizeof *d->status, TUTTI_DEVICE_SHARED, "the status");
    d->clock_ms = device_alloc(d, sizeof *d->clock_ms, TUTTI_DEVICE_SHARED, "the clock");
    v->status_seen =
        device_alloc(d, sizeof *v->status_seen, TUTTI_DEVICE_LOCAL, "the cached status");
    v->reserved = device_alloc(d, sizeof *v->reserved, TUTTI_DEVICE_LOCAL, "a counter");
    v->taken_seen = device_alloc(d, sizeof *v->taken_seen, TUTTI_DEVICE_LOCAL, "a counter");
    v->tickets =
        device_alloc(d, 2 * (v->nranks + 1ul) * sizeof *v->tickets, TUTTI_DEVICE_LOCAL, "queries");
    v->entered = device_alloc(d, v->nranks * sizeof *v->entered, TUTTI_DEVICE_LOCAL, "credits");
    v->given_seen =
        device_alloc(d, v->nranks * sizeof *v->given_seen, TUTTI_DEVICE_LOCAL, "credits");
    v->groups = device_alloc(d, (size_t)c->groups * GROUP_WORDS * sizeof *v->groups,
                             TUTTI_DEVICE_LOCAL, "groups");
    v->status = d->status;
    v->clock_ms = d->clock_ms;
    if (d->npieces < 18)        /* an allocation failed */
        return TUTTI_ERR_NOMEM;
    st = fill_part_tables(d);
    if (!st)
        v->mode = (uint32_t)resolve_mode(d, c->mode);
    return st;
}

/* ---- creation and destruction ---------------------------------------------------------------- */

static void destroy(tutti_device *d)
{
    tt_device_stop(d);
    if (d->sink.peers) {
        tt_engine_client_enter(d->window->home->engine);
        tt_proxy_put_fini(&d->sink, &d->proxy);
        tt_engine_client_leave(d->window->home->engine);
    }
    tt_proxy_fini(&d->proxy);
    free_pieces(d);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static tutti_status make_proxy(tutti_device *d)
{
    const tutti_device_view *v = &d->view;
    const struct tt_proxy_conf conf = {
        .sink = tt_proxy_put_of(&d->sink),
        .mode = (tutti_device_mode)v->mode,
        .rank = v->rank,
        .nranks = v->nranks,
        .timeout_ns = d->conf.timeout_ms < 0 ? TT_NEVER : tt_deadline_ns(0, d->conf.timeout_ms),
        .fifo = v->fifo,
        .fifo_slots = v->fifo_slots,
        .taken = (uint64_t *)(uintptr_t)v->taken,
        .answers = (uint64_t *)(uintptr_t)v->answers,
        .given = (uint64_t *)(uintptr_t)v->given,
        .pending = v->pending,
        .wake_sent = v->wake_sent,
        .bytes = v->bytes,
        .words = v->words,
    };
    const tutti_status st = tt_proxy_put_init(&d->sink, d->window, d->conf.lanes);

    return st ? st : tt_proxy_init(&d->proxy, &conf);
}

tutti_status tutti_device_create(tutti_window *window, const tutti_device_conf *conf,
                                 tutti_device **out)
{
    struct tt_window *w = NULL;
    tutti_device *d;
    tutti_status st = tt_window_take(window, "tutti_device_create", &w);

    if (!st && !out)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_device_create: out is NULL");
    if (st)
        return st;
    d = calloc(1, sizeof *d);
    if (!d)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "tutti_device_create: out of memory: cannot allocate %zu bytes", sizeof *d);
    d->window = w;
    atomic_store(&w->signals_itself, true);     /* blocks store directly to this rank's words */
    pthread_mutex_init(&d->lock, NULL);
    st = device_copy_conf(d, conf);
    if (!st)
        st = make_view(d);
    if (!st)
        st = make_proxy(d);
    if (!st)
        st = tt_device_start(d);
    if (st) {
        destroy(d);
        return st;
    }
    tt_engine_client_enter(w->home->engine);
    w->ndevices++;
    tt_engine_client_leave(w->home->engine);
    *out = d;
    return TUTTI_OK;
}

static tutti_status device_check(const tutti_device *d, const char *call)
{
    return d ? TUTTI_OK : tt_fail(TUTTI_ERR_INVALID, "%s: device is NULL", call);
}

tutti_status tutti_device_status(tutti_device *device)
{
    tutti_status st = device_check(device, "tutti_device_status");

    if (st)
        return st;
    pthread_mutex_lock(&device->lock);
    st = (tutti_status)__atomic_load_n(device->status, __ATOMIC_ACQUIRE);
    if (st)
        tt_fail_again(st, device->why);
    pthread_mutex_unlock(&device->lock);
    return st;
}

tutti_status tutti_device_destroy(tutti_device *device)
{
    tutti_status st;

    if (!device)
        return TUTTI_OK;
    tt_device_stop(device);
    st = tutti_device_status(device);
    tt_engine_client_enter(device->window->home->engine);
    device->window->ndevices--;
    tt_engine_client_leave(device->window->home->engine);
    destroy(device);
    return st;
}

tutti_status tutti_device_abort(tutti_device *device)
{
    const tutti_status st = device_check(device, "tutti_device_abort");

    if (st)
        return st;
    atomic_store(&device->aborted, true);
    tutti_device_wake(device);
    return TUTTI_OK;
}

/* ---- calls of hosts -------------------------------------------------------------------------- */

tutti_status tutti_device_view_of(tutti_device *device, tutti_device_view *out)
{
    const tutti_status st = device_check(device, "tutti_device_view_of");

    if (st)
        return st;
    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_device_view_of: out is NULL");
    *out = device->view;
    return TUTTI_OK;
}

/* Waits until the thread has applied the change. Returns false if the deadline has passed; the
 * change was then withdrawn. */
static bool wait_for_change(tutti_device *d, uint32_t change)
{
    const uint64_t deadline_ns = tt_deadline_ns(tt_now_ns(), d->conf.timeout_ms);
    const struct timespec moment = { .tv_sec = 0, .tv_nsec = 50000 };

    while (atomic_load_explicit(&d->change, memory_order_acquire)) {
        if (tt_now_ns() >= deadline_ns)
            return !atomic_compare_exchange_strong(&d->change, &change, 0);
        nanosleep(&moment, NULL);
    }
    return true;
}

tutti_status tutti_device_flag(tutti_device *device, uint32_t flag, uint64_t **out)
{
    const tutti_status st = device_check(device, "tutti_device_flag");

    if (st)
        return st;
    if (flag >= device->conf.flags)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_device_flag: invalid flag %u: the device has %u flags", flag,
                       device->conf.flags);
    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_device_flag: out is NULL");
    *out = &device->view.flags[flag * GROUP_WORDS];
    return TUTTI_OK;
}

tutti_status tutti_device_set_mode(tutti_device *device, tutti_device_mode mode,
                                   tutti_device_lanes lanes)
{
    uint32_t change;
    tutti_status st = device_check(device, "tutti_device_set_mode");

    if (!st)
        st = check_mode(mode, lanes, "tutti_device_set_mode");
    if (st)
        return st;
    mode = resolve_mode(device, mode);
    change = tt_device_change(mode, lanes);
    atomic_store(&device->change, change);
    tutti_device_wake(device);
    if (!wait_for_change(device, change)) {
        st = tutti_device_status(device);
        return st ? st
                  : tt_fail(TUTTI_ERR_TIMEOUT,
                            "tutti_device_set_mode: timed out after %lld ms: earlier puts are "
                            "still queued (mode remains %s)",
                            (long long)device->conf.timeout_ms,
                            tutti_device_mode_name((tutti_device_mode)device->view.mode));
    }
    device->conf.lanes = lanes;
    device->view.mode = (uint32_t)mode;
    return tutti_device_status(device);
}

tutti_status tutti_device_read_counters(tutti_device *device, tutti_device_counters *out)
{
    const struct tt_proxy_counters *c;
    tutti_device_counters mine;
    size_t bytes;
    tutti_status st = device_check(device, "tutti_device_read_counters");

    if (st)
        return st;
    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_device_read_counters: out is NULL");
    if (out->size < COUNTERS_BYTES_FIRST)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_device_read_counters: out.size is %zu: must be "
                       "sizeof(tutti_device_counters), %zu",
                       out->size, sizeof mine);
    c = &device->proxy.counters;
    bytes = out->size < sizeof mine ? out->size : sizeof mine;
    mine = (tutti_device_counters){
        .size = bytes,
        .triggers = c->triggers,
        .puts = c->puts,
        .put_bytes = c->put_bytes,
        .signals = c->signals,
        .drains = c->drains,
        .fences = c->fences,
        .quiets = c->quiets,
        .stalls = c->stalls,
        .full_waits = __atomic_load_n(device->view.full_waits, __ATOMIC_RELAXED),
        .room_waits = __atomic_load_n(device->view.room_waits, __ATOMIC_RELAXED),
    };
    memcpy(out, &mine, bytes);
    return TUTTI_OK;
}

tutti_status tutti_device_counters_reset(tutti_device *device)
{
    struct tt_proxy_counters *c;
    const tutti_status st = device_check(device, "tutti_device_counters_reset");

    if (st)
        return st;
    c = &device->proxy.counters;
    c->triggers = c->puts = c->put_bytes = c->signals = 0;
    c->drains = c->fences = c->quiets = c->stalls = 0;
    __atomic_store_n(device->view.full_waits, 0, __ATOMIC_RELAXED);
    __atomic_store_n(device->view.room_waits, 0, __ATOMIC_RELAXED);
    return TUTTI_OK;
}

const char *tutti_device_mode_name(tutti_device_mode mode)
{
    static const char *const names[TUTTI_DEVICE_MODES] = { "default", "coupled", "decoupled",
                                                           "ordered", "full" };

    return (uint32_t)mode < TUTTI_DEVICE_MODES ? names[mode] : "?";
}

const char *tutti_device_lanes_name(tutti_device_lanes lanes)
{
    static const char *const names[TUTTI_DEVICE_LANES] = { "sequenced", "pinned", "round-robin" };

    return (uint32_t)lanes < TUTTI_DEVICE_LANES ? names[lanes] : "?";
}

tutti_status tutti_device_refuse(tutti_device *device, const char *call, uint32_t peer,
                                 uint64_t offset, uint64_t bytes, int what)
{
    const struct tt_window *w = device->window;
    tutti_status st;

    if (what == 2)
        return tt_fail(TUTTI_ERR_INVALID, "%s: invalid group %u: the device has %u groups", call,
                       peer, device->conf.groups);
    if (what == 3)
        return tt_fail(TUTTI_ERR_INVALID, "%s: invalid flag %u: the device has %u flags", call,
                       peer, device->conf.flags);
    if (peer >= device->view.nranks)
        return tt_fail(TUTTI_ERR_INVALID, "%s: invalid rank %u: the window has %u ranks", call,
                       peer, device->view.nranks);
    if (what == 4)
        return tt_fail(TUTTI_ERR_INVALID, "%s: src is NULL, but bytes is %llu", call,
                       (unsigned long long)bytes);
    st = what == 1 ? tt_window_check_word(w, peer, offset, 8, call)
                   : tt_window_check(w, peer, offset, bytes, call);
    return st ? st
              : tt_fail(TUTTI_ERR_INVALID,
                        "%s: invalid signal operation: must be TUTTI_SIGNAL_SET or "
                        "TUTTI_SIGNAL_ADD",
                        call);
}

tutti_status tutti_device_late(int what, uint64_t which, tutti_compare compare, uint64_t value,
                               uint64_t seen)
{
    static const struct {
        const char *call, *whose;
    } words[] = {
        [TUTTI_DEVICE_LATE_WORD] = { "tutti_device_wait", "word at offset" },
        [TUTTI_DEVICE_LATE_GROUP] = { "tutti_device_group_signal", "counter of group" },
        [TUTTI_DEVICE_LATE_FLAG] = { "tutti_device_await_flag", "flag" },
    };
    char rank[32] = "other ranks";

    if (what >= 0 && what <= TUTTI_DEVICE_LATE_FLAG)
        return tt_fail(
            TUTTI_ERR_TIMEOUT, "%s: timed out: the %s %llu has the value %llu, expected %s%llu",
            words[what].call, words[what].whose, (unsigned long long)which,
            (unsigned long long)seen, tt_compare_prefix(compare), (unsigned long long)value);
    if (which != TUTTI_DEVICE_ALL)
        snprintf(rank, sizeof rank, "rank %llu", (unsigned long long)which);
    return tt_fail(
        TUTTI_ERR_TIMEOUT, "%s: timed out: puts to %s %s",
        what == TUTTI_DEVICE_LATE_QUIET ? "tutti_device_quiet" : "tutti_device_flush", rank,
        what == TUTTI_DEVICE_LATE_QUIET ? "have not completed" : "still use their source buffers");
}
