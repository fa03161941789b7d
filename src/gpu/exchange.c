/* Exchanges between the ranks of this process. */
#include "gpu/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "gpu/staged.h"
#include "trace/comms.h"

#define RANKS_MAX 64u                       /* a set of ranks is a word */
#define BYTES_MAX ((size_t)128 << 10)       /* received by a rank: longer copies delay the stream */
#define LINE 64u

/* The fields that are equal if two ranks run the same operation. */
struct key {
    uint64_t group, number, count;
    uint32_t kind, type;
};

/* State of a rank. */
struct seat {
    _Alignas(LINE) void *handle;    /* NULL: has not joined */
    _Atomic uint64_t started;       /* launches of this rank */
    atomic_bool has_left;
    _Atomic uint64_t arrived[2];    /* blocks put into each of its buffers */
    char *buffers;                  /* [2][nranks][pitch] */
};

struct tt_gpu_exchange {
    struct tt_gpu_exchange *next;   /* in `forming`, until all ranks have joined */
    struct key key;
    uint32_t nranks, joined;        /* protected by `lock` */
    atomic_uint references;
    size_t block, pitch;            /* bytes */
    bool is_personal;               /* each rank receives a different block */
    char *memory;
    struct seat *seats;             /* [nranks] */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tt_gpu_exchange *forming;     /* protected by lock, like the next */
static tutti_gpu *gpus;

/* ---- ranks of this process ---- */

void tt_gpu_exchange_enter(tutti_gpu *gpu)
{
    struct tt_comms_entry entry = { 0 };

    if (tt_comms_get(tt_context_trace(gpu->comm->context), false, &entry))
        gpu->group = entry.hash;
    pthread_mutex_lock(&lock);
    gpu->next_here = gpus;
    gpus = gpu;
    pthread_mutex_unlock(&lock);
}

void tt_gpu_exchange_exit(tutti_gpu *gpu)
{
    tutti_gpu **at = &gpus;

    pthread_mutex_lock(&lock);
    while (*at && *at != gpu)
        at = &(*at)->next_here;
    if (*at)
        *at = gpu->next_here;
    pthread_mutex_unlock(&lock);
}

static bool all_are_here(const tutti_gpu *gpu)
{
    uint32_t n = 0;

    pthread_mutex_lock(&lock);
    for (const tutti_gpu *g = gpus; g; g = g->next_here)
        n += g->group == gpu->group;
    pthread_mutex_unlock(&lock);
    return gpu->group && n == gpu->comm->nranks;
}

bool tt_gpu_exchange_fits(const tutti_gpu *gpu, const struct tt_gpu_unit *u)
{
    const tutti_gpu_op *op = &u->items[0].op;
    const size_t bytes = op->count * tutti_dtype_bytes(op->type) * gpu->comm->nranks;

    if (!u->memory || u->nitems != 1 || u->items[0].algo[0] || op->quant ||
        gpu->comm->nranks > RANKS_MAX)
        return false;
    if (op->kind != TUTTI_GPU_BARRIER &&
        ((op->kind != TUTTI_GPU_ALLTOALL && op->kind != TUTTI_GPU_ALLGATHER) || !bytes ||
         bytes > BYTES_MAX))
        return false;
    return all_are_here(gpu);
}

/* ---- members ---- */

static void free_exchange(struct tt_gpu_exchange *x)
{
    free(x->memory);
    free(x->seats);
    free(x);
}

static struct tt_gpu_exchange *create(const tutti_gpu *gpu, const tutti_gpu_op *op,
                                      const struct key *key)
{
    const uint32_t n = gpu->comm->nranks;
    struct tt_gpu_exchange *x = calloc(1, sizeof *x);
    size_t own;

    if (!x)
        return NULL;
    x->key = *key;
    x->nranks = n;
    x->block = op->count * tutti_dtype_bytes(op->type);
    x->pitch = (x->block + LINE - 1) / LINE * LINE;
    x->is_personal = op->kind == TUTTI_GPU_ALLTOALL;
    own = 2 * n * x->pitch;
    x->seats = aligned_alloc(LINE, n * sizeof *x->seats);
    x->memory = own ? aligned_alloc(LINE, n * own) : NULL;
    if (!x->seats || (own && !x->memory)) {
        free_exchange(x);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        x->seats[i] = (struct seat){ .buffers = own ? x->memory + i * own : NULL };
    return x;
}

/* Returns the link to the exchange with this key, or the end of the list. With the lock held. */
static struct tt_gpu_exchange **find(const struct key *key)
{
    struct tt_gpu_exchange **at = &forming;

    while (*at && memcmp(&(*at)->key, key, sizeof *key) != 0)
        at = &(*at)->next;
    return at;
}

struct tt_gpu_exchange *tt_gpu_exchange_join(const tutti_gpu *gpu, const tutti_gpu_op *op,
                                             void *handle)
{
    const struct key key = { gpu->group, tt_context_next_seq(gpu->comm->context), op->count,
                             (uint32_t)op->kind, (uint32_t)op->type };
    struct tt_gpu_exchange **at, *x;

    pthread_mutex_lock(&lock);
    at = find(&key);
    if (!*at)
        *at = create(gpu, op, &key);
    x = *at;
    if (x && x->seats[gpu->comm->rank].handle)
        x = NULL;
    if (x) {
        x->seats[gpu->comm->rank].handle = handle;
        x->references++;
        if (++x->joined == x->nranks)
            *at = x->next;
    }
    pthread_mutex_unlock(&lock);
    return x;
}

bool tt_gpu_exchange_is_complete(const struct tt_gpu_exchange *x)
{
    bool complete;

    pthread_mutex_lock(&lock);
    complete = x->joined == x->nranks;
    pthread_mutex_unlock(&lock);
    return complete;
}

struct tt_gpu_exchange *tt_gpu_exchange_get(struct tt_gpu_exchange *x)
{
    x->references++;
    return x;
}

void tt_gpu_exchange_put(struct tt_gpu_exchange *x)
{
    struct tt_gpu_exchange **at;

    pthread_mutex_lock(&lock);
    if (--x->references) {
        pthread_mutex_unlock(&lock);
        return;
    }
    at = find(&x->key);
    if (*at == x)
        *at = x->next;
    pthread_mutex_unlock(&lock);
    free_exchange(x);
}

void tt_gpu_exchange_leave(struct tt_gpu_exchange *x, uint32_t rank)
{
    atomic_store(&x->seats[rank].has_left, true);
    tt_gpu_exchange_put(x);
}

void *tt_gpu_exchange_handle(const struct tt_gpu_exchange *x, uint32_t rank)
{
    return x->seats[rank].handle;
}

/* ---- launches ---- */

/* The place of a block from rank `from` in buffer `set` of a rank. */
static char *place_of(const struct tt_gpu_exchange *x, uint32_t rank, uint64_t set, uint32_t from)
{
    return x->seats[rank].buffers + (set * x->nranks + from) * x->pitch;
}

uint64_t tt_gpu_exchange_send(struct tt_gpu_exchange *x, uint32_t rank, const char *src)
{
    const uint64_t launch = atomic_fetch_add(&x->seats[rank].started, 1);
    const uint64_t set = launch % 2, all = (launch / 2 + 1) * x->nranks;
    uint64_t complete = 0;

    for (uint32_t i = 1; i <= x->nranks; i++) {
        const uint32_t to = (rank + i) % x->nranks;

        if (x->block)
            memcpy(place_of(x, to, set, rank), src + (x->is_personal ? to * x->block : 0),
                   x->block);
        if (atomic_fetch_add(&x->seats[to].arrived[set], 1) + 1 == all)
            complete |= (uint64_t)1 << to;
    }
    return complete;
}

void tt_gpu_exchange_receive(struct tt_gpu_exchange *x, uint32_t rank, char *dst)
{
    const uint64_t set = (atomic_load(&x->seats[rank].started) - 1) % 2;

    for (uint32_t from = 0; from < x->nranks && x->block; from++)
        memcpy(dst + from * x->block, place_of(x, rank, set, from), x->block);
}

uint32_t tt_gpu_exchange_missing(const struct tt_gpu_exchange *x, uint32_t rank, bool *has_left)
{
    const uint64_t launches = atomic_load(&x->seats[rank].started);
    uint32_t missing = x->nranks;

    *has_left = false;
    for (uint32_t i = 0; i < x->nranks && !*has_left; i++) {
        const bool left = atomic_load(&x->seats[i].has_left);

        /* read after has_left: a rank that has left starts nothing more */
        if (atomic_load(&x->seats[i].started) >= launches)
            continue;
        *has_left = left;
        if (left || missing == x->nranks)
            missing = i;
    }
    return missing;
}
