/* The table of captured units. */
#include "gpu/captured.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/check.h"

#define BLOCK_WORDS 1024u
#define NONE UINT32_MAX

/* A place in the table. The number of a later unit is larger, so that a graph of an earlier one
 * never waits for the later one. */
struct slot {
    struct tt_gpu_captured *unit;       /* NULL: free */
    uint32_t generation;                /* of the unit, or of the last one */
    uint32_t next_free;
    uint32_t *word;
    tt_cuda_address address;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot *slots;              /* protected by table_lock, like the next */
static uint32_t nslots, first_free = NONE;
static char orphan[TT_ERROR_BYTES];     /* a launch without tutti_gpu; empty: none */

/* Adds slots with words in pinned memory, which is never freed: a stream may still read it. */
static tutti_status add_slots(const struct tt_cuda *cu)
{
    tt_cuda_address address = 0;
    uint32_t *words = NULL;
    struct slot *more;
    tt_cuda_result error = cu->host_alloc((void **)&words, BLOCK_WORDS * sizeof *words,
                                          TT_CUDA_HOST_PORTABLE | TT_CUDA_HOST_DEVICE_MAP);

    if (!error)
        error = cu->host_address(&address, words, 0);
    if (error) {
        if (words)
            cu->host_free(words);
        return tt_cuda_fail(cu, error, "gpu: cannot allocate flags in pinned memory");
    }
    memset(words, 0, BLOCK_WORDS * sizeof *words);
    pthread_mutex_lock(&table_lock);
    more = realloc(slots, (nslots + BLOCK_WORDS) * sizeof *slots);
    for (uint32_t i = 0; more && i < BLOCK_WORDS; i++) {
        more[nslots] = (struct slot){ .next_free = first_free, .word = &words[i],
                                      .address = address + i * sizeof *words };
        first_free = nslots++;
    }
    slots = more ? more : slots;
    pthread_mutex_unlock(&table_lock);
    if (more)
        return TUTTI_OK;
    cu->host_free(words);
    return tt_fail(TUTTI_ERR_NOMEM, "gpu: out of memory");
}

static bool take_slot(struct tt_gpu_captured *c)
{
    struct slot *s;
    bool found;

    pthread_mutex_lock(&table_lock);
    found = first_free != NONE;
    if (found) {
        c->slot = first_free;
        s = &slots[c->slot];
        first_free = s->next_free;
        s->unit = c;
        c->generation = ++s->generation;
        c->word = s->word;
        c->word_address = s->address;
    }
    pthread_mutex_unlock(&table_lock);
    return found;
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
    if (!st && u->direct_bytes)
        st = tt_gpu_pinned_take(&c->memory, gpu->cu, gpu->context, u->direct_bytes);
    while (!st && !take_slot(c))
        st = add_slots(gpu->cu);
    if (st) {
        tt_gpu_pinned_put(c->memory);
        free(c->chain);
        free(c);
        return st;
    }
    c->unit = u;
    *out = c;
    return TUTTI_OK;
}

void *tt_gpu_captured_handle(const struct tt_gpu_captured *c)
{
    return (void *)(uintptr_t)((uint64_t)c->generation << 32 | c->slot);
}

/* Returns the unit of a handle, or NULL. With the table's lock held. */
static struct tt_gpu_captured *find(void *handle)
{
    const uint32_t slot = (uint32_t)(uintptr_t)handle;
    const uint32_t generation = (uint32_t)((uint64_t)(uintptr_t)handle >> 32);

    if (slot >= nslots || !slots[slot].unit || slots[slot].generation != generation)
        return NULL;
    return slots[slot].unit;
}

/* ---- words ---- */

static void set_ended(const struct tt_gpu_captured *c, bool ended)
{
    __atomic_store_n(c->word, ended ? c->generation : c->generation - 1, __ATOMIC_RELEASE);
}

/* With gpu->lock held. */
static void arrive(tutti_gpu *gpu, struct tt_gpu_captured *c)
{
    const bool failed = atomic_load(&gpu->status) || atomic_load(&gpu->aborted);

    set_ended(c, failed);
    if (failed || ++c->arrived < c->unit->nstreams)
        return;
    c->arrived = 0;
    c->references++;
    *gpu->last_arrived = c;
    gpu->last_arrived = &c->next_arrived;
    c->next_arrived = NULL;
    atomic_store(&gpu->has_arrived, true);
    pthread_cond_broadcast(&gpu->changed);
}

void tt_gpu_captured_arrive(void *handle)
{
    struct tt_gpu_captured *c;

    pthread_mutex_lock(&table_lock);
    c = find(handle);
    if (c && c->gpu) {
        pthread_mutex_lock(&c->gpu->lock);
        arrive(c->gpu, c);
        pthread_mutex_unlock(&c->gpu->lock);
    } else {
        if (c)
            set_ended(c, true);
        snprintf(orphan, sizeof orphan,
                 "%s: a CUDA graph was launched after tutti_gpu_destroy, so its operation did not "
                 "run (destroy the graph first)",
                 c ? tt_gpu_kind_name(c->unit->items[0].op.kind) : "tutti_gpu_group");
    }
    pthread_mutex_unlock(&table_lock);
}

void tt_gpu_captured_release(tutti_gpu *gpu)
{
    for (const struct tt_gpu_captured *c = gpu->captured; c; c = c->next)
        set_ended(c, true);
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

/* Returns the chain of a capture; c's own chain is used if it is the first. With gpu->lock held. */
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
    c->gpu = NULL;
    c->chain = NULL;
    set_ended(c, true);
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
    slots[c->slot].unit = NULL;
    slots[c->slot].next_free = first_free;
    first_free = c->slot;
    tt_gpu_pinned_put(c->memory);
    free(c->chain);         /* of a unit that was never attached */
    free(c->unit->items);
    free(c->unit);
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
        put(c);
    }
    while (gpu->captured)
        detach(gpu->captured);
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
    c->chain->turn = (c->position + 1) % c->chain->count;
    atomic_store(&gpu->has_arrived, gpu->first_arrived != NULL);
    return c;
}

void tt_gpu_captured_end(struct tt_gpu_captured *c)
{
    set_ended(c, true);
    pthread_mutex_lock(&table_lock);
    put(c);
    pthread_mutex_unlock(&table_lock);
}
