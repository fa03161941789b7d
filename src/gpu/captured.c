/* The table of captured units. */
#include "gpu/captured.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "gpu/check.h"
#include "gpu/direct.h"
#include "gpu/exchange.h"
#include "gpu/pinned.h"
#include "gpu/rma.h"

#define BLOCK_WORDS 1024u
#define NONE UINT32_MAX
#define SLOT_BITS 26u           /* of a handle; the stream's index has the 6 bits above */
_Static_assert(TT_GPU_STREAMS_MAX <= 1u << (32 - SLOT_BITS), "a handle contains the stream");

/* Slots whose words were registered in one context. A device reset affects only its own words. */
struct pool {
    struct pool *next;
    tt_cuda_context context;
    uint32_t first_free;
};

/* An entry of the table. A later unit has a larger generation, so a graph of an earlier unit never
 * waits for the later one. */
struct slot {
    struct tt_gpu_captured *unit;       /* NULL: free */
    uint32_t generation;                /* of the unit; free: of the previous one */
    uint32_t next_free;                 /* of the pool */
    struct pool *pool;
    struct tt_gpu_pinned *block;        /* memory of the word */
    uint32_t offset;                    /* of the word, in bytes */
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot *slots;              /* protected by table_lock, like the next */
static struct pool *pools;
static uint32_t nslots;
static char orphan[TT_ERROR_BYTES];     /* error of a launch without tutti_gpu; empty: none */

/* Returns the pool of a context, or NULL. With the table's lock held. */
static struct pool *pool_of(tt_cuda_context context)
{
    struct pool *p = pools;

    while (p && p->context != context)
        p = p->next;
    return p;
}

/* Adds the words of a block to the context's pool; returns whether there was memory. With the
 * table's lock held. */
static bool add_block(tt_cuda_context context, struct tt_gpu_pinned *block)
{
    struct pool *pool = pool_of(context);
    struct slot *more;

    if (nslots > (1u << SLOT_BITS) - BLOCK_WORDS)
        return false;
    more = realloc(slots, (nslots + BLOCK_WORDS) * sizeof *slots);
    if (!more)
        return false;
    slots = more;
    if (!pool) {
        pool = malloc(sizeof *pool);
        if (!pool)
            return false;
        *pool = (struct pool){ .next = pools, .context = context, .first_free = NONE };
        pools = pool;
    }
    for (uint32_t i = 0; i < BLOCK_WORDS; i++) {
        slots[nslots] = (struct slot){ .next_free = pool->first_free, .pool = pool, .block = block,
                                       .offset = i * (uint32_t)sizeof(uint32_t) };
        pool->first_free = nslots++;
    }
    return true;
}

/* Adds slots with words in pinned memory, which is never freed: a stream may still read it. */
static tutti_status add_slots(const tutti_gpu *gpu)
{
    struct tt_gpu_pinned *block = NULL;
    tutti_status st =
        tt_gpu_pinned_take(&block, gpu->cu, gpu->context, BLOCK_WORDS * sizeof(uint32_t));
    bool added;

    if (st)
        return st;
    memset(block->mem, 0, block->bytes);
    pthread_mutex_lock(&table_lock);
    added = add_block(gpu->context, block);
    pthread_mutex_unlock(&table_lock);
    if (added)
        return TUTTI_OK;
    tt_gpu_pinned_put(block);
    return tt_fail(TUTTI_ERR_NOMEM, "gpu: out of memory");
}

/* Takes a slot of the context, and sets *block to the memory of its word. */
static bool take_slot(struct tt_gpu_captured *c, tt_cuda_context context,
                      struct tt_gpu_pinned **block)
{
    struct pool *pool;
    struct slot *s;
    bool found;

    pthread_mutex_lock(&table_lock);
    pool = pool_of(context);
    found = pool && pool->first_free != NONE;
    if (found) {
        c->slot = pool->first_free;
        s = &slots[c->slot];
        pool->first_free = s->next_free;
        s->unit = c;
        c->generation = ++s->generation;
        c->word = (uint32_t *)(void *)(s->block->mem + s->offset);
        *block = s->block;
    }
    pthread_mutex_unlock(&table_lock);
    return found;
}

static void free_slot(uint32_t slot)
{
    struct slot *s = &slots[slot];

    s->unit = NULL;
    s->next_free = s->pool->first_free;
    s->pool->first_free = slot;
}

/* Takes a slot, and registers its word again if a device reset has ended the registration. */
static tutti_status take_usable_slot(struct tt_gpu_captured *c, const tutti_gpu *gpu)
{
    struct tt_gpu_pinned *block = NULL;
    tutti_status st = TUTTI_OK;
    bool again;

    while (!st && !take_slot(c, gpu->context, &block))
        st = add_slots(gpu);
    if (st)
        return st;
    st = tt_gpu_pinned_check(block, gpu->cu, &again);
    if (st) {
        pthread_mutex_lock(&table_lock);
        free_slot(c->slot);
        pthread_mutex_unlock(&table_lock);
        return st;
    }
    c->word_address = block->address + (tt_cuda_address)((char *)c->word - block->mem);
    return TUTTI_OK;
}

tutti_status tt_gpu_captured_create(struct tt_gpu_captured **out, tutti_gpu *gpu,
                                    struct tt_gpu_unit *u)
{
    struct tt_gpu_captured *c = calloc(1, sizeof *c);
    tutti_status st = TUTTI_OK;

    if (!c)
        return tt_fail(TUTTI_ERR_NOMEM, "gpu: out of memory");
    c->references = 1;
    c->chain = calloc(1, sizeof *c->chain);
    if (!c->chain)
        st = tt_fail(TUTTI_ERR_NOMEM, "gpu: out of memory");
    if (!st)
        st = take_usable_slot(c, gpu);
    if (st) {
        free(c->chain);
        free(c);
        return st;
    }
    c->unit = u;
    *out = c;
    return TUTTI_OK;
}

void *tt_gpu_captured_handle(const struct tt_gpu_captured *c, uint32_t stream)
{
    return (void *)(uintptr_t)((uint64_t)c->generation << 32 | stream << SLOT_BITS | c->slot);
}

/* Returns the unit of a handle, or NULL. With the table's lock held. */
static struct tt_gpu_captured *find(void *handle)
{
    const uint32_t slot = (uint32_t)(uintptr_t)handle & ((1u << SLOT_BITS) - 1);
    const uint32_t generation = (uint32_t)((uint64_t)(uintptr_t)handle >> 32);

    if (slot >= nslots || !slots[slot].unit || slots[slot].generation != generation)
        return NULL;
    return slots[slot].unit;
}

static uint32_t stream_of(void *handle)
{
    return (uint32_t)(uintptr_t)handle >> SLOT_BITS;
}

/* ---- words ---- */

static bool has_failed(const tutti_gpu *gpu)
{
    return atomic_load(&gpu->status) || atomic_load(&gpu->aborted);
}

/* Queues a unit that all its streams have reached. With both locks held. */
static void queue(tutti_gpu *gpu, struct tt_gpu_captured *c)
{
    c->arrived = 0;
    c->is_queued = true;
    c->references++;
    *gpu->last_arrived = c;
    gpu->last_arrived = &c->next_arrived;
    c->next_arrived = NULL;
    atomic_store(&gpu->has_arrived, true);
    tt_gpu_wake(gpu);
}

/* Begins an exchange. Wakes the worker if it does not watch exchanges yet. With both locks held. */
static struct tt_gpu_exchange *begin_exchange(tutti_gpu *gpu, struct tt_gpu_captured *c)
{
    c->began_ns = tt_now_ns();
    atomic_store(&c->is_exchanging, true);
    gpu->nexchanged++;
    if (!gpu->is_watched) {
        gpu->is_watched = true;
        gpu->watch_ns = c->began_ns + TT_GPU_WATCH_NS;
        tt_gpu_wake(gpu);
    }
    return tt_gpu_exchange_get(c->exchange);
}

/* Returns false if a stream of another launch has already reached the unit, which has not ended.
 * Sets *x, with a reference, if the unit is part of an exchange. Both locks are held. */
static bool arrive(tutti_gpu *gpu, struct tt_gpu_captured *c, uint32_t stream,
                   struct tt_gpu_exchange **x)
{
    const uint32_t n = c->unit->nstreams;
    const uint64_t one = (uint64_t)1 << stream;
    const uint64_t all = n < 64 ? ((uint64_t)1 << n) - 1 : UINT64_MAX;

    if (has_failed(gpu)) {
        if (!c->is_running)
            tt_gpu_captured_set_ended(c, true);
        return true;
    }
    if (c->is_queued || c->is_running || c->arrived & one || atomic_load(&c->is_exchanging))
        return false;
    tt_gpu_captured_set_ended(c, false);
    if (c->exchange) {
        *x = begin_exchange(gpu, c);
        return true;
    }
    c->arrived |= one;
    if (c->arrived == all)
        queue(gpu, c);
    return true;
}

/* Overlapping launches fail the tutti_gpu, whose streams are released. With the table's lock held,
 * so that gpu is not freed. */
static void fail_overlap(tutti_gpu *gpu, const struct tt_gpu_captured *c)
{
    tt_gpu_set_failed(gpu, tt_fail(TUTTI_ERR_INVALID,
                                   "%s: overlapping launches of CUDA graphs from the same capture "
                                   "(capture the operation separately for each graph)",
                                   tt_gpu_kind_name(c->unit->items[0].op.kind)));
    tutti_comm_abort(gpu->comm);
    tt_gpu_rma_abort(gpu);
}

/* c NULL: the graph's unit no longer exists. */
static void set_orphan(const struct tt_gpu_captured *c)
{
    snprintf(orphan, sizeof orphan,
             "%s: a CUDA graph was launched after tutti_gpu_destroy, so its operation did not "
             "run (destroy the graph first)",
             c ? tt_gpu_kind_name(c->unit->items[0].op.kind) : "tutti_gpu_group");
}

/* Sends the blocks of c, and releases the streams of the ranks that have all blocks. The graph
 * keeps a unit in an exchange while a launch runs. */
static void send_blocks(const struct tt_gpu_captured *c, struct tt_gpu_exchange *x)
{
    uint64_t complete = tt_gpu_exchange_send(x, c->rank, c->src);

    if (complete)
        pthread_mutex_lock(&table_lock);
    for (uint64_t left = complete; left; left &= left - 1) {
        const struct tt_gpu_captured *other =
            find(tt_gpu_exchange_handle(x, (uint32_t)__builtin_ctzll(left)));

        if (other)
            tt_gpu_captured_set_ended(other, true);
    }
    if (complete)
        pthread_mutex_unlock(&table_lock);
    tt_gpu_exchange_put(x);
}

void tt_gpu_captured_arrive(void *handle)
{
    struct tt_gpu_exchange *x = NULL;
    struct tt_gpu_captured *c;

    pthread_mutex_lock(&table_lock);
    c = find(handle);
    if (c && c->gpu) {
        bool in_order;

        pthread_mutex_lock(&c->gpu->lock);
        in_order = arrive(c->gpu, c, stream_of(handle), &x);
        pthread_mutex_unlock(&c->gpu->lock);
        if (!in_order)
            fail_overlap(c->gpu, c);
    } else {
        if (c)
            tt_gpu_captured_set_ended(c, true);
        set_orphan(c);
    }
    pthread_mutex_unlock(&table_lock);
    if (x)
        send_blocks(c, x);
}

/* After a failure or the end of the tutti_gpu, the outputs are undefined. */
void tt_gpu_captured_depart(void *handle)
{
    struct tt_gpu_exchange *x = NULL;
    struct tt_gpu_captured *c;

    pthread_mutex_lock(&table_lock);
    c = find(handle);
    if (c && atomic_load(&c->is_exchanging) && c->gpu && !has_failed(c->gpu))
        x = tt_gpu_exchange_get(c->exchange);
    pthread_mutex_unlock(&table_lock);
    if (x) {
        tt_gpu_exchange_receive(x, c->rank, c->dst);
        tt_gpu_exchange_put(x);
    }
    if (c)
        atomic_store(&c->is_exchanging, false);
}

tutti_status tutti_gpu_graph_status(void)
{
    char why[TT_ERROR_BYTES];

    pthread_mutex_lock(&table_lock);
    memcpy(why, orphan, sizeof why);
    orphan[0] = 0;
    pthread_mutex_unlock(&table_lock);
    return why[0] ? tt_fail(TUTTI_ERR_INVALID, "%s", why) : TUTTI_OK;
}

/* ---- life ---- */

/* Returns the chain of the unit's capture: c->chain becomes the chain if there is none yet.
 * With gpu->lock held. */
static struct tt_gpu_chain *chain_of(tutti_gpu *gpu, struct tt_gpu_captured *c)
{
    struct tt_gpu_chain *chain = gpu->chains;

    while (chain && chain->capture != c->unit->capture)
        chain = chain->next;
    if (chain) {
        free(c->chain);
        return chain;
    }
    c->chain->capture = c->unit->capture;
    c->chain->next = gpu->chains;
    gpu->chains = c->chain;
    return c->chain;
}

void tt_gpu_captured_attach(struct tt_gpu_captured *c, tutti_gpu *gpu)
{
    pthread_mutex_lock(&table_lock);
    pthread_mutex_lock(&gpu->lock);
    c->chain = chain_of(gpu, c);
    c->position = c->chain->count++;
    c->chain->references++;
    c->gpu = gpu;
    c->next = gpu->captured;
    gpu->captured = c;
    if (c->unit->memory)
        gpu->captured_bytes += c->unit->memory->bytes;
    pthread_mutex_unlock(&gpu->lock);
    pthread_mutex_unlock(&table_lock);
}

/* Removes the unit from its tutti_gpu. With both locks held, or after the end of the worker. */
static void detach(struct tt_gpu_captured *c)
{
    struct tt_gpu_chain *chain = c->chain, **link = &c->gpu->chains;
    struct tt_gpu_captured **at = &c->gpu->captured;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (c->unit->memory)
        c->gpu->captured_bytes -= c->unit->memory->bytes;
    if (c->exchange)
        tt_gpu_exchange_leave(c->exchange, c->rank);
    c->exchange = NULL;
    c->gpu = NULL;
    c->chain = NULL;
    tt_gpu_captured_set_ended(c, true);
    if (--chain->references)
        return;
    while (*link != chain)
        link = &(*link)->next;
    *link = chain->next;
    free(chain);
}

/* Drops a reference. With the table's lock held. */
static void put(struct tt_gpu_captured *c)
{
    tutti_gpu *const gpu = c->gpu;

    if (--c->references)
        return;
    if (gpu) {
        pthread_mutex_lock(&gpu->lock);
        detach(c);
        pthread_mutex_unlock(&gpu->lock);
    }
    free_slot(c->slot);
    tt_gpu_pinned_put(c->unit->memory);
    free(c->chain);         /* of a unit that was never attached */
    tt_gpu_unit_free(c->unit);
    free(c);
}

void tt_gpu_captured_drop(void *handle)
{
    struct tt_gpu_captured *c;

    pthread_mutex_lock(&table_lock);
    c = find(handle);
    if (c)
        put(c);
    pthread_mutex_unlock(&table_lock);
}

void tt_gpu_captured_detach(tutti_gpu *gpu)
{
    struct tt_gpu_captured *c;

    pthread_mutex_lock(&table_lock);
    while ((c = gpu->first_arrived)) {
        gpu->first_arrived = c->next_arrived;
        if (!has_failed(gpu))
            set_orphan(c);
        put(c);
    }
    while ((c = gpu->captured)) {
        if ((c->arrived || atomic_load(&c->is_exchanging)) && !has_failed(gpu))
            set_orphan(c);
        detach(c);
    }
    pthread_mutex_unlock(&table_lock);
}

/* ---- the worker ---- */

/* Returns the link to the first unit whose turn it is. */
static struct tt_gpu_captured **find_next(tutti_gpu *gpu)
{
    struct tt_gpu_captured **at = &gpu->first_arrived;

    while (*at && (*at)->position != (*at)->chain->turn)
        at = &(*at)->next_arrived;
    return at;
}

bool tt_gpu_captured_is_next(const tutti_gpu *gpu)
{
    return *find_next((tutti_gpu *)gpu) != NULL;
}

struct tt_gpu_captured *tt_gpu_captured_next(tutti_gpu *gpu)
{
    struct tt_gpu_captured **at = find_next(gpu), *c = *at;

    if (!c)
        return NULL;
    *at = c->next_arrived;
    if (!*at)
        gpu->last_arrived = at;
    c->is_queued = false;
    c->is_running = true;
    c->chain->turn = (c->position + 1) % c->chain->count;
    atomic_store(&gpu->has_arrived, gpu->first_arrived != NULL);
    return c;
}

void tt_gpu_captured_end(struct tt_gpu_captured *c)
{
    pthread_mutex_lock(&table_lock);
    pthread_mutex_lock(&c->gpu->lock);
    c->is_running = false;
    tt_gpu_captured_set_ended(c, true);             /* the stream may launch it again */
    pthread_mutex_unlock(&c->gpu->lock);
    put(c);
    pthread_mutex_unlock(&table_lock);
}

/* ---- exchanges ---- */

/* Removes the unit, whose turn has just ended, from its chain. */
static void leave_chain(const tutti_gpu *gpu, const struct tt_gpu_captured *c)
{
    for (struct tt_gpu_captured *d = gpu->captured; d; d = d->next)
        if (d->chain == c->chain && !d->exchange && d->position > c->position)
            d->position--;
    c->chain->count--;
    if (c->chain->turn > c->position)
        c->chain->turn--;
}

void tt_gpu_captured_exchange(struct tt_gpu_captured *c, struct tt_gpu_exchange *x)
{
    pthread_mutex_lock(&table_lock);
    pthread_mutex_lock(&c->gpu->lock);
    leave_chain(c->gpu, c);
    c->rank = (uint32_t)tutti_comm_rank(c->gpu->comm);
    tt_gpu_direct_place(c->gpu, c->unit, &c->src, &c->dst);
    c->exchange = x;
    pthread_mutex_unlock(&c->gpu->lock);
    pthread_mutex_unlock(&table_lock);
}

bool tt_gpu_captured_is_exchanging(const tutti_gpu *gpu)
{
    const struct tt_gpu_captured *c = gpu->captured;

    while (c && !atomic_load(&c->is_exchanging))
        c = c->next;
    return c != NULL;
}

/* Checks an exchange in progress. With gpu->lock held. */
static tutti_status check_exchange(const tutti_gpu *gpu, const struct tt_gpu_captured *c)
{
    const int64_t timeout_ms = gpu->conf.timeout_ms ? gpu->conf.timeout_ms : gpu->comm->timeout_ms;
    const char *name = tt_gpu_kind_name(c->unit->items[0].op.kind);
    bool has_left;
    const uint32_t missing = tt_gpu_exchange_missing(c->exchange, c->rank, &has_left);

    if (missing == gpu->comm->nranks)
        return TUTTI_OK;
    if (has_left)
        return tt_fail(TUTTI_ERR_PEER_LOST,
                       "%s: rank %u has destroyed the CUDA graph with its part of the operation, "
                       "or its tutti_gpu",
                       name, missing);
    if (tt_now_ns() < tt_deadline_ns(c->began_ns, timeout_ms))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_TIMEOUT,
                   "%s: rank %u has not reached the operation in its CUDA graph at the deadline "
                   "(graphs that match at their first launch must match at all later ones)",
                   name, missing);
}

tutti_status tt_gpu_captured_watch(tutti_gpu *gpu)
{
    tutti_status st = TUTTI_OK;

    pthread_mutex_lock(&gpu->lock);
    for (const struct tt_gpu_captured *c = gpu->captured; c && !st; c = c->next)
        if (atomic_load(&c->is_exchanging) && !has_failed(gpu))
            st = check_exchange(gpu, c);
    gpu->is_watched = !has_failed(gpu) &&
                      (tt_gpu_captured_is_exchanging(gpu) || gpu->nexchanged != gpu->nwatched);
    gpu->nwatched = gpu->nexchanged;
    gpu->watch_ns = tt_now_ns() + TT_GPU_WATCH_NS;
    pthread_mutex_unlock(&gpu->lock);
    return st;
}
