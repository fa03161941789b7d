#include "team.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct shmemi_ctx {
    struct sh_team *team;
    struct shmemi_ctx *next;    /* in the team's list */
};

static struct sh_team world, shared;
static struct sh_team *first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* protects the lists */

/* ---- handles ---- */

struct sh_team *sh_team_find(shmem_team_t team)
{
    if (team == SHMEM_TEAM_WORLD)
        return &world;
    if (team == SHMEM_TEAM_SHARED)
        return &shared;
    return (struct sh_team *)(void *)team;
}

static shmem_team_t handle_of(struct sh_team *t)
{
    if (t == &world)
        return SHMEM_TEAM_WORLD;
    return t == &shared ? SHMEM_TEAM_SHARED : (shmem_team_t)(void *)t;
}

struct sh_team *sh_team_of(const char *call, shmem_team_t team)
{
    struct sh_team *t = sh_team_find(team);

    sh_need(call);
    if (!t)
        sh_die(call, "the team is SHMEM_TEAM_INVALID");
    return t;
}

int sh_pe(const char *call, shmem_ctx_t ctx, int pe)
{
    const struct sh_team *t = ctx == SHMEM_CTX_DEFAULT ? &world : ctx ? ctx->team : NULL;

    if (!t)
        sh_die(call, "the context is SHMEM_CTX_INVALID");
    if (pe < 0 || pe >= t->n)
        sh_die(call, "pe = %d is out of range: the team has %d PEs", pe, t->n);
    return t->pes[pe];
}

/* ---- creation and destruction ---- */

/* Initializes the team of a communicator; gathers the job's PE numbers of its ranks. */
static void team_init(struct sh_team *t, const char *call, tutti_comm *comm)
{
    *t = (struct sh_team){ .comm = comm, .me = tutti_comm_rank(comm), .n = tutti_comm_size(comm) };
    t->pes = sh_alloc(call, (size_t)t->n * sizeof *t->pes);
    sh_check(call, tutti_allgather(&sh_job.me, t->pes, 1, TUTTI_I32, comm, NULL));
}

/* Returns the lowest PE whose heap is mapped here. It is the same on all PEs that share memory. */
static int shared_colour(void)
{
    int pe = 0;

    while (!sh_job.heap_at[pe])
        pe++;
    return pe;
}

void sh_teams_init(void)
{
    tutti_comm *comm;

    team_init(&world, "shmem_init", sh_job.comm);
    sh_check("shmem_init", tutti_comm_split(sh_job.comm, shared_colour(), sh_job.me, &comm));
    team_init(&shared, "shmem_init", comm);
}

/* Frees the team's contexts, and its communicator if `owned`. */
static void team_fini(struct sh_team *t, bool owned)
{
    while (t->contexts) {
        struct shmemi_ctx *gone = t->contexts;

        t->contexts = gone->next;
        free(gone);
    }
    if (owned)
        tutti_comm_destroy(t->comm);
    free(t->pes);
}

void sh_teams_fini(void)
{
    while (first) {
        struct sh_team *gone = first;

        first = gone->next;
        team_fini(gone, true);
        free(gone);
    }
    team_fini(&shared, true);
    team_fini(&world, false);
}

/* Creates one team per colour, with PEs ordered by key. A negative colour joins no team. Collective
 * over the parent. */
static void team_split(const char *call, struct sh_team *parent, int colour, int key,
                       const shmem_team_config_t *config, long mask, shmem_team_t *out)
{
    struct sh_team *t;
    tutti_comm *comm = NULL;

    *out = SHMEM_TEAM_INVALID;
    sh_check(call, tutti_comm_split(parent->comm, colour, key, &comm));
    if (!comm)
        return;
    t = sh_alloc(call, sizeof *t);
    team_init(t, call, comm);
    if (config && mask & SHMEM_TEAM_NUM_CONTEXTS)
        t->config = *config;
    pthread_mutex_lock(&lock);
    t->next = first;
    first = t;
    pthread_mutex_unlock(&lock);
    *out = handle_of(t);
}

int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size,
                             const shmem_team_config_t *config, long config_mask,
                             shmem_team_t *new_team)
{
    struct sh_team *parent = sh_team_find(parent_team);
    int64_t last;
    int key = -1;

    sh_need(__func__);
    *new_team = SHMEM_TEAM_INVALID;
    if (!parent || size < 1 || start < 0 || start >= parent->n || (stride == 0 && size > 1))
        return 1;
    last = start + (int64_t)stride * (size - 1);
    if (last < 0 || last >= parent->n)
        return 1;
    for (int i = 0; i < size && key < 0; i++)
        if (start + i * stride == parent->me)
            key = i;
    team_split(__func__, parent, key < 0 ? -1 : 0, key < 0 ? 0 : key, config, config_mask,
               new_team);
    return 0;
}

int shmem_team_split_2d(shmem_team_t parent_team, int xrange,
                        const shmem_team_config_t *xaxis_config, long xaxis_mask,
                        shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config,
                        long yaxis_mask, shmem_team_t *yaxis_team)
{
    struct sh_team *parent = sh_team_find(parent_team);

    sh_need(__func__);
    *xaxis_team = *yaxis_team = SHMEM_TEAM_INVALID;
    if (!parent || xrange < 1)
        return 1;
    if (xrange > parent->n)
        xrange = parent->n;
    team_split(__func__, parent, parent->me / xrange, parent->me, xaxis_config, xaxis_mask,
               xaxis_team);
    team_split(__func__, parent, parent->me % xrange, parent->me, yaxis_config, yaxis_mask,
               yaxis_team);
    return 0;
}

void shmem_team_destroy(shmem_team_t team)
{
    struct sh_team *t = sh_team_find(team), **at = &first;

    sh_need(__func__);
    if (!t)
        return;
    if (t == &world || t == &shared)
        sh_die(__func__,
               "predefined teams (SHMEM_TEAM_WORLD, SHMEM_TEAM_SHARED) cannot be destroyed");
    /* completes operations of its contexts */
    sh_check(__func__, tutti_window_quiet(sh_job.heap.window, TUTTI_ALL_RANKS, 0));
    sh_check(__func__, tutti_barrier(t->comm, NULL));
    pthread_mutex_lock(&lock);
    while (*at && *at != t)
        at = &(*at)->next;
    if (*at)
        *at = t->next;
    pthread_mutex_unlock(&lock);
    team_fini(t, true);
    free(t);
}

/* ---- queries ---- */

int shmem_team_my_pe(shmem_team_t team)
{
    const struct sh_team *t = sh_team_find(team);

    sh_need(__func__);
    return t ? t->me : -1;
}

int shmem_team_n_pes(shmem_team_t team)
{
    const struct sh_team *t = sh_team_find(team);

    sh_need(__func__);
    return t ? t->n : -1;
}

int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t *config)
{
    const struct sh_team *t = sh_team_find(team);

    sh_need(__func__);
    if (!t)
        return 1;
    if (config && config_mask & SHMEM_TEAM_NUM_CONTEXTS)
        config->num_contexts = t->config.num_contexts;
    return 0;
}

int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team)
{
    const struct sh_team *from = sh_team_find(src_team), *to = sh_team_find(dest_team);

    sh_need(__func__);
    if (!from || !to || src_pe < 0 || src_pe >= from->n)
        return -1;
    for (int i = 0; i < to->n; i++)
        if (to->pes[i] == from->pes[src_pe])
            return i;
    return -1;
}

int shmem_team_sync(shmem_team_t team)
{
    const struct sh_team *t = sh_team_of(__func__, team);

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    sh_check(__func__, tutti_barrier(t->comm, NULL));
    return 0;
}

/* ---- contexts ---- */

int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx)
{
    struct sh_team *t = sh_team_find(team);
    struct shmemi_ctx *made;

    sh_need(__func__);
    *ctx = SHMEM_CTX_INVALID;
    if (!t || options & ~(SHMEM_CTX_SERIALIZED | SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE))
        return 1;
    made = malloc(sizeof *made);
    if (!made)
        return 1;
    pthread_mutex_lock(&lock);
    *made = (struct shmemi_ctx){ .team = t, .next = t->contexts };
    t->contexts = made;
    pthread_mutex_unlock(&lock);
    *ctx = made;
    return 0;
}

int shmem_ctx_create(long options, shmem_ctx_t *ctx)
{
    return shmem_team_create_ctx(SHMEM_TEAM_WORLD, options, ctx);
}

int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team)
{
    sh_need(__func__);
    *team = SHMEM_TEAM_INVALID;
    if (!ctx)
        return 1;
    *team = ctx == SHMEM_CTX_DEFAULT ? SHMEM_TEAM_WORLD : handle_of(ctx->team);
    return 0;
}

void shmem_ctx_destroy(shmem_ctx_t ctx)
{
    struct shmemi_ctx **at;

    sh_need(__func__);
    if (!ctx)
        return;
    if (ctx == SHMEM_CTX_DEFAULT)
        sh_die(__func__, "SHMEM_CTX_DEFAULT cannot be destroyed");
    shmem_quiet();
    pthread_mutex_lock(&lock);
    at = &ctx->team->contexts;
    while (*at && *at != ctx)
        at = &(*at)->next;
    if (*at)
        *at = ctx->next;
    pthread_mutex_unlock(&lock);
    free(ctx);
}
