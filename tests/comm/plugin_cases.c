/* A plug-in whose behaviour is set by TUTTI_TEST_PLUGIN: correct, or with one error. */
#include <stdlib.h>
#include <string.h>
#include <tutti/algorithm.h>

static int is(const char *what)
{
    const char *said = getenv("TUTTI_TEST_PLUGIN");

    return said && strcmp(said, what) == 0;
}

static uint64_t one(const tutti_algorithm_call *c)
{
    (void)c;
    return 1;
}

static uint64_t many(const tutti_algorithm_call *c)
{
    (void)c;
    return 1ull << 40;
}

static tutti_ref dst(uint64_t offset) { return tutti_ref_of(TUTTI_BUFFER_DST, offset); }
static tutti_ref src(uint64_t offset) { return tutti_ref_of(TUTTI_BUFFER_SRC, offset); }

/* Sends the root's vector to all ranks, with the selected error. */
static void round_k(tutti_schedule *s, const tutti_algorithm_call *c, uint64_t k)
{
    const uint64_t bytes = c->bytes;
    const uint32_t tag = is("own tag in place") && c->in_place ? 5 : 0;

    (void)k;
    if (c->rank != c->root) {
        if (is("wait first"))
            tutti_step_wait(s, (c->rank + 1) % c->nranks, dst(0), 0, 9);
        if (is("wait first"))
            tutti_step_put(s, (c->rank + c->nranks - 1) % c->nranks, dst(0), dst(0), 0, 9);
        tutti_step_wait(s, is("no peer") ? c->nranks : c->root, dst(0),
                        is("short") ? bytes / 2 : bytes, tag);
        if (is("writes input"))
            tutti_step_copy(s, src(0), dst(0), bytes);
        return;
    }
    if (is("wait first")) {
        tutti_step_wait(s, (c->rank + 1) % c->nranks, dst(0), 0, 9);
        tutti_step_put(s, (c->rank + c->nranks - 1) % c->nranks, src(0), dst(0), 0, 9);
    }
    for (uint32_t r = 0; r < c->nranks; r++)
        if (r != c->rank)
            tutti_step_put(
                s, r,
                src(is("out of bounds") || (is("out of bounds in place") && c->in_place) ? 1 : 0),
                dst(0), bytes, tag);
    for (uint32_t i = 0; i < 20 && is("too many"); i++)
        tutti_step_copy(s, dst(0), src(0), bytes);
    if (is("no buffer"))
        tutti_step_copy(s, tutti_ref_of((tutti_buffer)77, 0), src(0), bytes);
    if (!c->in_place && !is("forgets its own"))
        tutti_step_copy(s, dst(0), src(0), bytes);
}

static int even(const tutti_algorithm_call *c) { return c->nranks % 2 == 0; }
static uint32_t none(const tutti_algorithm_call *c) { return c->nranks * 0; }
static uint64_t huge(const tutti_algorithm_call *c) { return c->bytes + (1ull << 30); }

/* As in a plug-in that does not support in-place calls: data received in the first round overwrites
 * data sent in the second. */
static void turn(tutti_schedule *s, const tutti_algorithm_call *c, uint64_t k)
{
    const uint32_t to = (uint32_t)((c->rank + k) % c->nranks),
                   from = (uint32_t)((c->rank + c->nranks - k) % c->nranks);

    if (k == 0) {
        tutti_step_copy(s, dst(c->recv_displs[c->rank]), src(c->send_displs[c->rank]),
                        c->send_bytes[c->rank]);
        return;
    }
    tutti_step_put(s, to, src(c->send_displs[to]), tutti_ref_of(TUTTI_BUFFER_THERE, 0),
                   c->send_bytes[to], 0);
    tutti_step_wait(s, from, dst(c->recv_displs[from]), c->recv_bytes[from], 0);
}

static uint64_t as_ranks(const tutti_algorithm_call *c) { return c->nranks; }

static void no_cost(const tutti_algorithm_call *c, tutti_algorithm_cost *out)
{
    (void)c;
    *out = (tutti_algorithm_cost){ .messages = 0 };
}

static tutti_algorithm alltoallv(void)
{
    return (tutti_algorithm){
        .size = sizeof(tutti_algorithm),
        .version = TUTTI_ALGORITHM_VERSION,
        .collective = TUTTI_COLL_ALLTOALLV,
        .name = "alltoallv_turn",
        .summary = "for tests",
        .needs = is("alltoallv, even") ? "an even number of ranks" : NULL,
        .fits = is("alltoallv, even") ? even : NULL,
        .nrounds = as_ranks,
        .round = turn,
        .cost = no_cost,
    };
}

const tutti_algorithm *tutti_algorithm_at(size_t index)
{
    static tutti_algorithm a;

    a = (tutti_algorithm){
        .size = is("short struct") ? 24 : sizeof a,
        .version = is("version") ? 7 : TUTTI_ALGORITHM_VERSION,
        .collective = is("collective") ? 99 : TUTTI_COLL_BROADCAST,
        .name = is("duplicate")    ? "broadcast_flat"
                : is("other name") ? "reduce_star"
                : is("bad name")   ? "broadcast star"
                                   : "broadcast_star",
        .summary = "for tests",
        .needs = "an even number of ranks",
        .revision = is("revision") ? 2 : 1,
        .fits = even,
        .nrounds = is("rounds") ? many : one,
        .round = is("no round") ? NULL : round_k,
        .npeers = is("peers") ? none : NULL,
        .work_bytes = is("work") ? huge : NULL,
    };
    if (is("alltoallv") || is("alltoallv, even"))
        a = alltoallv();
    return index == 0 && !is("empty") ? &a : NULL;
}
