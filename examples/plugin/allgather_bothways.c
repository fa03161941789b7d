/* A plug-in with an all-gather algorithm that Tutti does not have: a ring in both directions at
 * once. Each rank passes blocks to its right and to its left neighbour, so that each block goes
 * half way round in either direction. This takes n / 2 steps instead of n - 1 if links are full
 * duplex.
 *
 *     cc -shared -fPIC -o allgather_bothways.so allgather_bothways.c $(pkg-config --cflags tutti)
 *     TUTTI_ALGORITHMS=./allgather_bothways.so tutti perf -n 4 allgather --algo bothways
 *
 * allgather_sockets4.json in this directory is an algorithm as data: for four ranks, two on each of
 * two sockets. Every block crosses between the sockets once in each direction, and no two blocks
 * share a path. */
#include <tutti/algorithm.h>

static uint64_t to_the_right(const tutti_algorithm_call *c) { return c->nranks / 2; }
static uint64_t to_the_left(const tutti_algorithm_call *c) { return (c->nranks - 1) / 2; }

static uint64_t nrounds(const tutti_algorithm_call *c)
{
    return c->nranks > 1 ? to_the_right(c) : 1;
}

static tutti_ref block(const tutti_algorithm_call *c, uint64_t i)
{
    return tutti_ref_of(TUTTI_BUFFER_DST, i % c->nranks * c->bytes);
}

/* Round k forwards the blocks received in round k - 1: block rank - k to the right, and block rank
 * + k to the left. */
static void round_k(tutti_schedule *s, const tutti_algorithm_call *c, uint64_t k)
{
    const uint32_t n = c->nranks, r = c->rank, right = (r + 1) % n, left = (r + n - 1) % n;
    const uint32_t tag = 2 * (uint32_t)k;
    const tutti_ref own = tutti_ref_of(TUTTI_BUFFER_SRC, 0);

    if (k < to_the_right(c))
        tutti_step_put(s, right, k == 0 ? own : block(c, r + n - k), block(c, r + n - k), c->bytes,
                       tag);
    if (k < to_the_left(c))
        tutti_step_put(s, left, k == 0 ? own : block(c, r + k), block(c, r + k), c->bytes, tag + 1);
    if (k < to_the_right(c))
        tutti_step_wait(s, left, block(c, r + n - k - 1), c->bytes, tag);
    if (k < to_the_left(c))
        tutti_step_wait(s, right, block(c, r + k + 1), c->bytes, tag + 1);
    if (k == 0 && !c->in_place)
        tutti_step_copy(s, block(c, r), own, c->bytes);
}

static uint32_t npeers(const tutti_algorithm_call *c)
{
    return c->nranks > 2 ? 2 : c->nranks - 1;
}

/* The latencies of a step's two messages partly overlap. Each direction carries half of all
 * blocks. */
static void cost(const tutti_algorithm_call *c, tutti_algorithm_cost *out)
{
    const double bytes = (double)c->bytes;

    out->messages = 1.4 * (double)to_the_right(c);
    out->bytes = bytes * (c->nranks - 1);       /* sent by one rank, both directions together */
    out->reduced = 0;
    out->copied = bytes;
}

static const tutti_algorithm bothways = {
    .size = sizeof bothways,
    .version = TUTTI_ALGORITHM_VERSION,
    .collective = TUTTI_COLL_ALLGATHER,
    .name = "allgather_bothways",
    .summary = "long blocks, where links carry both ways at once",
    .revision = 1,
    .nrounds = nrounds,
    .round = round_k,
    .npeers = npeers,
    .cost = cost,
};

const tutti_algorithm *tutti_algorithm_at(size_t index)
{
    return index == 0 ? &bothways : NULL;
}
