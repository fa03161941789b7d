#include "tools/perf/putsignal_burst.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/prng.h"
#include "base/status.h"
#include "comm/comm.h"
#include "tools/perf/perf_rooms.h"

#define CACHE_LINE 64u
/* number of offsets in the source buffer at which transfers begin, one word apart */
#define SRC_STEPS 4096u

/* ---- transfers ---- */

/* Lists the ranks that a source sends to, from source + 1 on, cyclically. Returns their number. */
static uint32_t list_peers(const tutti_comm *comm, uint32_t source, uint32_t *peers)
{
    const uint32_t host = tt_layout_host(&comm->layout, source);
    const bool one_host = comm->layout.nhosts == 1;
    uint32_t n = 0;

    for (uint32_t i = 1; i < comm->nranks; i++) {
        const uint32_t r = (source + i) % comm->nranks;

        if (one_host || tt_layout_host(&comm->layout, r) != host)
            peers[n++] = r;
    }
    return n;
}

static uint32_t destinations_of(const struct putsignal_burst *b, uint32_t npeers)
{
    return b->c.transfers < npeers ? b->c.transfers : npeers;
}

/* The number of transfers to destination d: transfers d, d + ndestinations, ... */
static uint32_t tiles_of(const struct putsignal_burst *b, uint32_t ndestinations, uint32_t d)
{
    return (b->c.transfers - d + ndestinations - 1) / ndestinations;
}

/* Index of the first transfer to destination d if transfers are ordered by destination. */
static uint32_t first_of(const struct putsignal_burst *b, uint32_t ndestinations, uint32_t d)
{
    const uint32_t more = b->c.transfers % ndestinations;

    return d * (b->c.transfers / ndestinations) + (d < more ? d : more);
}

static uint32_t ngroups_of(const struct putsignal_burst *b, uint32_t ndestinations)
{
    return b->c.group ? b->c.transfers / b->c.group : ndestinations;
}

static size_t word_of(const struct putsignal_burst *b, uint32_t source, uint32_t transfer)
{
    return ((size_t)source * b->c.transfers + transfer) * sizeof(uint64_t);
}

static size_t slot_of(const struct putsignal_burst *b, uint32_t source, uint32_t ndestinations,
                      uint32_t transfer)
{
    return b->slots_at +
           ((size_t)source * b->source_slots + transfer / ndestinations) * b->slot_bytes;
}

/* Returns the data that a transfer of burst `number` sends. */
static const uint8_t *src_of(const struct putsignal_burst *b, uint32_t transfer, uint64_t number)
{
    return b->src + (transfer + 97 * number) % SRC_STEPS * sizeof(uint64_t);
}

/* ---- creation and destruction ---- */

static tutti_status find_shape(struct putsignal_burst *b, const struct putsignal_conf *conf)
{
    b->c = conf->c;
    b->c.nranks = b->comm->nranks;
    b->c.nhosts = b->comm->layout.nhosts;
    b->slot_bytes = (b->c.bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    b->slots_at = word_of(b, b->c.nsources, 0) / CACHE_LINE * CACHE_LINE + CACHE_LINE;
    for (uint32_t s = 0; s < b->c.nsources; s++) {
        const uint32_t npeers = list_peers(b->comm, s, b->peers);
        const uint32_t ndestinations = destinations_of(b, npeers);

        if (npeers == 0)
            return tt_fail(TUTTI_ERR_INVALID,
                           "cannot select destinations: rank %u has no peer on another host", s);
        if (s == 0)
            b->c.ndestinations = ndestinations;
        if (tiles_of(b, ndestinations, 0) > b->source_slots)
            b->source_slots = tiles_of(b, ndestinations, 0);
    }
    return TUTTI_OK;
}

/* Fills src with the same data on all ranks, so that receivers can check it. */
static void fill(uint8_t *src, size_t bytes)
{
    for (size_t i = 0; i + sizeof(uint64_t) <= bytes; i += sizeof(uint64_t)) {
        const uint64_t word = tt_mix64(i + 1);

        memcpy(src + i, &word, sizeof word);
    }
}

/* Creates the device of a source, and the signals of its bursts. */
static tutti_status make_device(struct putsignal_burst *b)
{
    const uint32_t npeers = list_peers(b->comm, b->rank, b->peers),
                   ndestinations = destinations_of(b, npeers);
    const tutti_device_conf conf = {
        .size = sizeof conf,
        .lanes = b->lanes,
        .groups = ngroups_of(b, ndestinations),
        .wakes_hosts = 1,
    };
    uint32_t at = 0;

    for (uint32_t d = 0; d < ndestinations; d++)
        for (uint32_t i = d; i < b->c.transfers; i += ndestinations)
            b->signals[at++] = (tutti_device_signal_to){ b->peers[d], TUTTI_SIGNAL_ADD,
                                                         word_of(b, b->rank, i), 1 };
    return tutti_device_create(b->window, &conf, &b->device);
}

/* Returns the size of a rank's part of the window; UINT64_MAX on overflow. */
static uint64_t window_bytes(const struct putsignal_burst *b)
{
    uint64_t slots, bytes;

    if (__builtin_mul_overflow((uint64_t)b->c.nsources * b->source_slots, (uint64_t)b->slot_bytes,
                               &slots) ||
        __builtin_add_overflow(slots, (uint64_t)b->slots_at, &bytes))
        return UINT64_MAX;
    return bytes;
}

/* Allocates the window and the source buffer. Fails on all ranks if memory is insufficient on one
 * of them. */
static tutti_status make_buffers(struct putsignal_burst *b)
{
    const uint64_t src_bytes = b->c.bytes + SRC_STEPS * sizeof(uint64_t);
    uint64_t needed;
    tutti_status st;

    if (__builtin_add_overflow(window_bytes(b), src_bytes, &needed))
        needed = UINT64_MAX;
    st = perf_rooms_check(b->comm, needed, 0);
    if (st)
        return st;
    b->src = malloc(src_bytes);
    if (!b->src)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u transfers of %llu bytes",
                       b->c.transfers, (unsigned long long)b->c.bytes);
    fill(b->src, src_bytes);
    return tutti_window_create(b->comm, NULL, window_bytes(b), &b->window);
}

tutti_status putsignal_burst_init(struct putsignal_burst *b, tutti_comm *comm,
                                  const struct putsignal_conf *conf)
{
    tutti_status st;

    *b = (struct putsignal_burst){ .comm = comm, .rank = comm->rank, .lanes = conf->lanes };
    b->nblocks = conf->nblocks < conf->c.transfers ? conf->nblocks : conf->c.transfers;
    b->peers = calloc(comm->nranks, sizeof *b->peers);
    b->signals = calloc(conf->c.transfers, sizeof *b->signals);
    if (!b->peers || !b->signals)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u transfers of %llu bytes",
                       conf->c.transfers, (unsigned long long)conf->c.bytes);
    st = find_shape(b, conf);
    if (!st)
        st = make_buffers(b);
    if (!st && b->rank < b->c.nsources)
        st = make_device(b);
    return st;
}

void putsignal_burst_fini(struct putsignal_burst *b)
{
    tutti_device_destroy(b->device);
    tutti_window_free(b->window);
    free(b->src);
    free(b->signals);
    free(b->peers);
}

const char *putsignal_wire(const struct putsignal_burst *b)
{
    return b->device ? tt_engine_wire_of(b->comm->world->engine, b->comm->ranks[b->signals[0].peer])
                     : "?";
}

/* ---- the kernel ---- */

/* A barrier of blocks. Waiting blocks sleep, to leave the cores to the proxy. With
 * pthread_barrier_t they would hang if a block failed to start. */
struct block_barrier {
    pthread_mutex_t lock;
    pthread_cond_t over;
    uint32_t there;
    uint64_t round;
};

struct run {
    struct putsignal_burst *b;
    enum tt_putsignal_mode mode;
    uint32_t ndestinations, n;  /* n: number of bursts; us[n] */
    struct block_barrier all;
    double *us;
};

/* Waits until all blocks have arrived, or the device has failed. */
static void barrier_wait(struct block_barrier *m, const tutti_device_view *view, uint32_t nblocks)
{
    uint64_t round;

    pthread_mutex_lock(&m->lock);
    round = m->round;
    if (++m->there == nblocks) {
        m->there = 0;
        m->round++;
        pthread_cond_broadcast(&m->over);
    }
    while (m->round == round && tutti_device_failure(view) == TUTTI_OK) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&m->over, &m->lock, &until);
    }
    pthread_mutex_unlock(&m->lock);
}

/* Sets the range of a group: transfers [*first, *first + *n) ordered by destination. */
static void group_at(const struct run *run, uint32_t group, uint32_t *first, uint32_t *n)
{
    const struct putsignal_burst *b = run->b;

    *first = b->c.group ? group * b->c.group : first_of(b, run->ndestinations, group);
    *n = b->c.group ? b->c.group : tiles_of(b, run->ndestinations, group);
}

/* Issues the transfers of this block, then the signals of the groups that it leads. Does not wait
 * for completion. */
static tutti_status publish(const tutti_device_view *view, const struct run *run, uint32_t block,
                            uint32_t nblocks, uint32_t round)
{
    const struct putsignal_burst *b = run->b;
    const uint64_t number = b->nbursts + round + 1, complete = b->nsignalled + round + 1;
    const bool signals = run->mode != TT_PUTSIGNAL_PUT_ONLY;
    tutti_status st = TUTTI_OK;

    for (uint32_t i = block; i < b->c.transfers && !st; i += nblocks) {
        const uint32_t d = i % run->ndestinations;
        const uint32_t place = first_of(b, run->ndestinations, d) + i / run->ndestinations;
        const tutti_device_signal_to *s = &b->signals[place];
        const size_t to = slot_of(b, b->rank, run->ndestinations, i);

        if (!signals)
            st = tutti_device_put(view, s->peer, to, src_of(b, i, number), b->c.bytes);
        else
            st = tutti_device_group_put(view, to, src_of(b, i, number), b->c.bytes, s);
        if (!st && signals)
            st = tutti_device_group_publish(view, b->c.group ? place / b->c.group : d);
    }
    for (uint32_t group = block; group < ngroups_of(b, run->ndestinations) && signals && !st;
         group += nblocks) {
        uint32_t first, n;

        group_at(run, group, &first, &n);
        st = tutti_device_group_signal(view, group, complete * n, &b->signals[first], n);
    }
    return st;
}

/* Blocks whose calls fail still take part in the barriers. */
static tutti_status kernel(const tutti_device_view *view, uint32_t block, uint32_t nblocks,
                           void *arg)
{
    struct run *run = arg;
    tutti_status st = TUTTI_OK;

    for (uint32_t round = 0; round < run->n; round++) {
        uint64_t began_ns;

        barrier_wait(&run->all, view, nblocks);
        began_ns = tt_now_ns();
        if (!st)
            st = publish(view, run, block, nblocks, round);
        barrier_wait(&run->all, view, nblocks);
        if (block == 0 && !st)
            st = tutti_device_quiet(view, TUTTI_DEVICE_ALL);
        if (block == 0)
            run->us[round] = (double)(tt_now_ns() - began_ns) * 1e-3;
    }
    return st;
}

static tutti_device_mode device_mode(enum tt_putsignal_mode mode)
{
    switch (mode) {
    case TT_PUTSIGNAL_COUPLED: return TUTTI_DEVICE_COUPLED;
    case TT_PUTSIGNAL_DECOUPLED: return TUTTI_DEVICE_DECOUPLED;
    case TT_PUTSIGNAL_ORDERED: return TUTTI_DEVICE_ORDERED;
    default: return TUTTI_DEVICE_FULL;
    }
}

/* Runs n bursts of this source. */
static tutti_status send(struct putsignal_burst *b, enum tt_putsignal_mode mode, uint32_t n,
                         double *us)
{
    struct run run = {
        .b = b,
        .mode = mode,
        .ndestinations = destinations_of(b, list_peers(b->comm, b->rank, b->peers)),
        .n = n,
        .all = { .lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER },
        .us = us,
    };
    tutti_status st = tutti_device_set_mode(b->device, device_mode(mode), b->lanes);

    if (!st)
        st = tutti_device_counters_reset(b->device);
    return st ? st : tutti_device_run(b->device, b->nblocks, kernel, &run);
}

/* Called on all ranks, including those that do not send. */
static tutti_status bursts(struct putsignal_burst *b, enum tt_putsignal_mode mode, uint32_t n,
                           double *us)
{
    tutti_status st = tutti_barrier(b->comm, NULL);

    if (!st && b->device)
        st = send(b, mode, n, us);
    b->nbursts += n;
    b->nsignalled += mode == TT_PUTSIGNAL_PUT_ONLY ? 0 : n;
    return st;
}

/* ---- measurement ---- */

tutti_status putsignal_turn(struct putsignal_burst *b, enum tt_putsignal_mode mode, uint32_t n,
                            struct putsignal_turn *out)
{
    tutti_device_counters counters = { .size = sizeof counters };
    double values[4] = { 0 };     /* the time and the three counts */
    tutti_status st;
    double *us;

    tt_assert(n >= 1 && n <= PUTSIGNAL_ROUNDS_MAX);
    us = calloc(n + 1, sizeof *us);
    if (!us)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u samples", n);
    st = bursts(b, mode, n + 1, us);
    if (!st && b->device) {
        st = tutti_device_read_counters(b->device, &counters);
        values[0] = putsignal_median(us + 1, n);
    }
    free(us);
    if (!st && b->rank == 0) {
        values[1] = (double)counters.drains / (n + 1);
        values[2] = (double)counters.fences / (n + 1);
        values[3] = (double)counters.signals / (n + 1);
    }
    if (!st)
        st = tutti_allreduce(values, values, 4, TUTTI_F64, TUTTI_MAX, b->comm, NULL);
    if (!st)
        *out = (struct putsignal_turn){
            .us = values[0], .drains = values[1], .fences = values[2], .signals = values[3]
        };
    return st;
}

/* ---- checks ---- */

/* Checks one transfer to this rank: waits for its signal, then compares its data at once. */
static tutti_status check_one(struct putsignal_burst *b, enum tt_putsignal_mode mode,
                              uint32_t source, uint32_t ndestinations, uint32_t transfer,
                              uint64_t *wrong, uint32_t *spoil)
{
    const uint8_t *want = src_of(b, transfer, b->nbursts);
    uint64_t seen = b->nsignalled;
    tutti_status st = TUTTI_OK;
    void *mem = NULL;
    uint8_t *got;

    if (mode != TT_PUTSIGNAL_PUT_ONLY)
        st = tutti_window_wait(b->window, word_of(b, source, transfer), TUTTI_AT_LEAST,
                               b->nsignalled, 0, &seen);
    if (!st)
        st = tutti_window_memory(b->window, &mem, NULL);
    if (st)
        return st;
    got = (uint8_t *)mem + slot_of(b, source, ndestinations, transfer);
    *wrong += seen != b->nsignalled;
    for (uint64_t i = 0; i < b->c.bytes && *spoil; i++, (*spoil)--)
        got[i] ^= 1;
    for (uint64_t i = 0; i < b->c.bytes; i++)
        *wrong += got[i] != want[i];
    return TUTTI_OK;
}

tutti_status putsignal_check(struct putsignal_burst *b, enum tt_putsignal_mode mode, uint32_t spoil,
                             uint64_t *wrong)
{
    double us[1];
    tutti_status st = bursts(b, mode, 1, us);

    *wrong = 0;
    if (!st && mode == TT_PUTSIGNAL_PUT_ONLY)
        st = tutti_barrier(b->comm, NULL);      /* the puts of all sources are complete */
    for (uint32_t s = 0; s < b->c.nsources && !st; s++) {
        const uint32_t ndestinations = destinations_of(b, list_peers(b->comm, s, b->peers));

        for (uint32_t i = 0; i < b->c.transfers && !st; i++)
            if (b->peers[i % ndestinations] == b->rank)
                st = check_one(b, mode, s, ndestinations, i, wrong, &spoil);
    }
    return st ? st : tutti_allreduce(wrong, wrong, 1, TUTTI_U64, TUTTI_SUM, b->comm, NULL);
}
