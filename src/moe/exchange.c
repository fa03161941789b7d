#include "moe/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "comm/tuner.h"
#include "reduce/float_env.h"

/* Divides one memory block into parts, or only adds up their sizes if there is no block yet. */
struct parts {
    uint8_t *begin;
    size_t at;
};

static void *next_part(struct parts *p, size_t n, size_t bytes)
{
    void *here = p->begin ? p->begin + p->at : NULL;

    p->at += (n * bytes + 63) / 64 * 64;
    return here;
}

static void exchange_layout(struct tt_exchange *x, struct parts *p)
{
    const size_t n = x->shape.nranks;

    p->at = 0;
    next_part(p, 1, sizeof *x);
    x->out = next_part(p, x->shape.to_all ? 1 : n, x->slot_bytes);
    x->in = next_part(p, n, x->slot_bytes);
    x->wanted = next_part(p, n, tt_pieces_requested_bytes(&x->shape));
    x->packed = next_part(p, n, sizeof *x->packed);
    x->lengths = next_part(p, n, x->shape.nsplits * sizeof *x->lengths);
    x->heads = next_part(p, n, sizeof *x->heads);
    x->wanted_in = next_part(p, n, sizeof *x->wanted_in);
    x->pieces_in = next_part(p, n, sizeof *x->pieces_in);
    x->recvbuffs = next_part(p, n, sizeof *x->recvbuffs);
    x->send_bytes = next_part(p, n, sizeof(uint64_t));
    x->send_displs = next_part(p, n, sizeof(uint64_t));
    x->recv_bytes = next_part(p, n, sizeof(uint64_t));
    x->recv_displs = next_part(p, n, sizeof(uint64_t));
    x->send_first = next_part(p, n + 1, sizeof(uint64_t));
    x->recv_first = next_part(p, n + 1, sizeof(uint64_t));
}

static void exchange_free(struct tt_exchange *x)
{
    free(x->list);
    free(x);
}

bool tt_exchange_need(struct tt_exchange *x, uint64_t n)
{
    struct tt_stretch *more;

    if (n <= x->list_cap)
        return true;
    more = realloc(x->list, n * sizeof *more);
    if (!more)
        return false;
    pthread_mutex_lock(&x->of->lock);
    x->bytes += (n - x->list_cap) * sizeof *more;
    pthread_mutex_unlock(&x->of->lock);
    x->list = more;
    x->list_cap = n;
    return true;
}

static struct tt_exchange *exchange_make(struct tt_exchanges *of,
                                         const struct tt_pieces_shape *shape, uint64_t slot_bytes)
{
    struct tt_exchange plan = { .shape = *shape, .slot_bytes = slot_bytes };
    struct parts parts = { .begin = NULL };
    struct tt_exchange *x = NULL;

    exchange_layout(&plan, &parts);
    x = calloc(1, parts.at);
    if (!x)
        return NULL;
    *x = (struct tt_exchange){
        .of = of, .shape = *shape, .slot_bytes = slot_bytes, .bytes = parts.at
    };
    parts.begin = (uint8_t *)x;
    exchange_layout(x, &parts);
    if (tt_exchange_need(x, 2 * (uint64_t)shape->nranks))
        return x;
    exchange_free(x);
    return NULL;
}

static bool is_alike(const struct tt_exchange *x, const struct tt_pieces_shape *s,
                     uint64_t slot_bytes)
{
    return x->slot_bytes == slot_bytes && x->shape.nranks == s->nranks &&
           x->shape.nsplits == s->nsplits && x->shape.elem_bytes == s->elem_bytes &&
           x->shape.max_length == s->max_length && x->shape.max_total == s->max_total &&
           x->shape.to_all == s->to_all;
}

struct tt_exchange *tt_exchange_get(struct tt_exchanges *of, const struct tt_pieces_shape *shape,
                                    uint64_t slot_bytes)
{
    struct tt_exchange **at, *x = NULL;

    pthread_mutex_lock(&of->lock);
    for (at = &of->first; *at && !x;) {
        if ((*at)->busy) {
            at = &(*at)->next;
        } else {
            x = *at;
            *at = x->next;
            if (!is_alike(x, shape, slot_bytes)) {
                exchange_free(x);
                x = NULL;
            }
        }
    }
    pthread_mutex_unlock(&of->lock);
    if (!x)
        x = exchange_make(of, shape, slot_bytes);
    if (!x)
        return NULL;
    pthread_mutex_lock(&of->lock);
    x->busy = true;
    x->next = of->first;
    of->first = x;
    pthread_mutex_unlock(&of->lock);
    return x;
}

void tt_exchange_put(struct tt_exchange *x)
{
    pthread_mutex_lock(&x->of->lock);
    x->busy = false;
    pthread_mutex_unlock(&x->of->lock);
}

static void tt_exchanges_free(void *arg)
{
    struct tt_exchanges *of = arg;

    while (of->first) {
        struct tt_exchange *x = of->first;

        of->first = x->next;
        exchange_free(x);
    }
    pthread_mutex_destroy(&of->lock);
    free(of);
}

/* Chooses the segment size of an alltoallv on this communicator, equal on all ranks. */
static tutti_status choose_segments(tutti_comm *comm, struct tt_exchanges *of)
{
    uint64_t *none = calloc(comm->nranks, sizeof *none);
    const struct tt_coll c = {
        .kind = TT_ALLTOALLV,
        .rank = comm->rank,
        .nranks = comm->nranks,
        .elem_bytes = 1,
        .layout = &comm->layout,
        .send_bytes = none,
        .send_displs = none,
        .recv_bytes = none,
        .recv_displs = none,
    };
    struct tt_plan *plan = NULL;
    tutti_status st;

    if (!none)
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_alltoallv_dynamic: out of memory for %u ranks",
                       comm->nranks);
    st = tt_plan_of(comm, &c, NULL, &plan);
    if (!st) {
        of->segment_bytes = plan->segment_bytes;
        of->streams = plan->streams;
        of->depth = plan->depth;
    }
    free(none);
    return st;
}

/* A variant of a call, and its times: by its closed form, and by the simulation (0: too slow to
 * simulate, or not requested). */
struct way {
    struct tt_coll coll;
    const struct tt_algo *algo;
    struct tt_segments segments;
    double model_ns, simulated_ns;
};

static void way_predict(tutti_comm *comm, struct way *w)
{
    const tt_float_env kept = tt_float_env_enter();     /* all ranks must compute the same times */
    const struct tt_cost cost = w->algo->cost(&w->coll);
    struct tt_prediction prediction;
    struct tt_tune_conf conf;

    tt_comm_tune_conf(comm, &conf);
    w->model_ns = tt_cost_ns(&cost, &conf.model);
    w->simulated_ns = 0;
    if (comm->world->simulates && w->coll.nranks <= TT_TUNE_RANKS_MAX &&
        tt_predict(&conf, &w->coll, w->algo, &w->segments, TT_TUNE_EVENTS_MAX, 0, &prediction) ==
            TUTTI_OK &&
        !prediction.cut)
        w->simulated_ns = prediction.time_ns;
    tt_float_env_leave(kept);
}

static uint64_t gathered_bytes(const struct tt_pieces_shape *shape)
{
    struct tt_pieces_shape s = *shape;

    s.to_all = true;
    return tt_pieces_head_bytes(&s);
}

/* Plans the allgather of common heads. */
static tutti_status plan_gathering(tutti_comm *comm, const struct tt_pieces_shape *shape,
                                   struct tt_coll *c, struct tt_plan **out)
{
    *c = (struct tt_coll){
        .kind = TT_ALLGATHER,
        .rank = comm->rank,
        .nranks = comm->nranks,
        .elem_bytes = 1,
        .layout = &comm->layout,
        .bytes = gathered_bytes(shape),
    };
    return tt_plan_of(comm, c, NULL, out);
}

/* Sets *out to whether gathering the heads takes less time than sending them separately. */
static tutti_status gathering_pays(tutti_comm *comm, const struct tt_pieces_shape *shape, bool *out)
{
    struct way gathered = { .simulated_ns = 0 }, direct;
    struct tt_plan *plan = NULL;
    bool simulated;
    tutti_status st = plan_gathering(comm, shape, &gathered.coll, &plan);

    if (st)
        return st;
    gathered.algo = plan->algo;
    gathered.segments = (struct tt_segments){
        .segment_bytes = plan->segment_bytes,
        .streams = plan->streams,
        .depth = plan->depth,
        .lanes = plan->lanes,
    };
    direct = gathered;
    direct.coll.kind = TT_ALLTOALL;
    direct.coll.bytes = tt_pieces_head_bytes(shape);
    direct.algo = tt_algo_find(&direct.coll, "alltoall_direct");
    way_predict(comm, &gathered);
    way_predict(comm, &direct);
    simulated = gathered.simulated_ns > 0 && direct.simulated_ns > 0;
    *out = simulated ? gathered.simulated_ns < direct.simulated_ns
                     : gathered.model_ns < direct.model_ns;
    tt_log(TT_LOG_INFO,
           "alltoallv_dynamic of %u pieces on %u ranks: headers %s "
           "(gathered by %s: %.1f us, direct: %.1f us, predicted by %s)",
           shape->nsplits, shape->nranks, *out ? "gathered" : "direct", gathered.algo->name,
           (simulated ? gathered.simulated_ns : gathered.model_ns) / 1000,
           (simulated ? direct.simulated_ns : direct.model_ns) / 1000,
           simulated ? "the simulator" : "closed forms");
    return TUTTI_OK;
}

/* Like gathering_pays, with cached results. */
static tutti_status look_up_gathering(tutti_comm *comm, struct tt_exchanges *of,
                                      const struct tt_pieces_shape *shape, bool *out)
{
    const uint32_t n = of->nheads < TT_EXCHANGE_HEADS ? of->nheads : TT_EXCHANGE_HEADS,
                   width = tt_pieces_width(shape);
    struct tt_exchange_heads *h;
    tutti_status st;

    for (h = of->heads; h < of->heads + n; h++)
        if (h->nsplits == shape->nsplits && h->width == width) {
            *out = h->gathered;
            return TUTTI_OK;
        }
    st = gathering_pays(comm, shape, out);
    if (!st)
        of->heads[of->nheads++ % TT_EXCHANGE_HEADS] = (struct tt_exchange_heads){
            .nsplits = shape->nsplits, .width = width, .gathered = *out
        };
    return st;
}

tutti_status tt_exchange_choose_heads(tutti_comm *comm, struct tt_exchanges *of, const char *algo,
                                      struct tt_pieces_shape *shape, struct tt_plan *plan)
{
    const uint64_t head_bytes = tt_pieces_head_bytes(shape), eager_bytes = comm->sizes.eager_bytes;
    const uint64_t share = shape->max_total / shape->nranks * shape->elem_bytes;
    const bool packs = head_bytes + share <= eager_bytes;
    const bool fits =
        gathered_bytes(shape) <= (head_bytes > eager_bytes ? head_bytes : eager_bytes);
    struct tt_plan *made = NULL;
    struct tt_coll c;
    bool to_all = false;
    tutti_status st = TUTTI_OK;

    if (!algo)
        st = packs || !fits || shape->nranks < 3 ? TUTTI_OK
                                                 : look_up_gathering(comm, of, shape, &to_all);
    else if (strcmp(algo, "heads_gathered") == 0)
        to_all = true;
    else if (strcmp(algo, "heads_direct") != 0)
        st = tt_fail(TUTTI_ERR_INVALID,
                     "tutti_alltoallv_dynamic: unknown algorithm \"%s\" (use heads_direct or "
                     "heads_gathered)",
                     algo);
    if (!st && to_all)
        st = plan_gathering(comm, shape, &c, &made);
    if (st)
        return st;
    shape->to_all = to_all;
    shape->rank = comm->rank;
    if (made)
        *plan = *made;
    return TUTTI_OK;
}

tutti_status tt_exchanges_of(tutti_comm *comm, struct tt_exchanges **out)
{
    struct tt_exchanges *of = comm->exchanges;
    tutti_status st;

    if (!of) {
        of = calloc(1, sizeof *of);
        if (!of)
            return tt_fail(TUTTI_ERR_NOMEM, "tutti_alltoallv_dynamic: out of memory for exchanges");
        st = choose_segments(comm, of);
        if (st) {
            free(of);
            return st;
        }
        pthread_mutex_init(&of->lock, NULL);
        comm->exchanges_free = tt_exchanges_free;
        __atomic_store_n(&comm->exchanges, of, __ATOMIC_RELEASE);
    }
    *out = of;
    return TUTTI_OK;
}

tutti_status tutti_alltoallv_dynamic_bytes(tutti_comm *comm, size_t *bytes)
{
    struct tt_exchanges *of = NULL;
    tutti_status st = tt_comm_check(comm, "tutti_alltoallv_dynamic_bytes");

    if (!st && !bytes)
        st = tt_fail(TUTTI_ERR_INVALID, "tutti_alltoallv_dynamic_bytes: bytes is NULL");
    if (st)
        return st;
    of = __atomic_load_n(&comm->exchanges, __ATOMIC_ACQUIRE);
    *bytes = of ? sizeof *of : 0;
    if (!of)
        return TUTTI_OK;
    pthread_mutex_lock(&of->lock);
    for (const struct tt_exchange *x = of->first; x; x = x->next)
        *bytes += x->bytes;
    pthread_mutex_unlock(&of->lock);
    return TUTTI_OK;
}
