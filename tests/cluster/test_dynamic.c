/* The all-to-all with dynamic sizes, and its persistent form: random lists compared with their
 * definition over all transports, and all possible errors in them. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/status.h"
#include "device_kernels.h"
#include "job.h"
#include "support/pattern.h"
#include "support/unit.h"
#include "tutti/moe.h"

#define SEED 20261125
#define SPLITS_MAX 40
#define INDICES_MAX (JOB_RANKS_MAX * (SPLITS_MAX + 3))
#define LONG 12000          /* elements of the longest pieces */
#define HOLE 0xee           /* initial contents of receive buffers */

/* Configuration of transports and copies. */
struct mode {
    const char *name, *wires, *cma, *lanes, *eager;
};

static const struct mode modes[] = {
    { "memory", "shm", "0", "1", "4096" },
    { "single copies", "shm", "2", "1", "4096" },
    { "memory, no eager messages", "shm", "0", "1", "0" },
    { "tcp", "tcp", "0", "1", "32768" },
    { "tcp, 4 lanes, short eager messages", "tcp", "0", "4", "256" },
};
#define NMODES (sizeof modes / sizeof *modes)

static void open_as(struct rank *r)
{
    const struct mode *m = r->job->arg;

    setenv("TUTTI_CMA", m->cma, 1);
    setenv("TUTTI_LANES", m->lanes, 1);
    setenv("TUTTI_EAGER_BYTES", m->eager, 1);
    setenv("TUTTI_TCP_EAGER_BYTES", m->eager, 1);
    job_open(r);
}

static void over_all_modes(void (*role)(struct rank *), uint32_t nranks)
{
    for (uint32_t i = 0; i < NMODES; i++) {
        const struct job job = {
            .wires = modes[i].wires, .nranks = nranks, .seed = job_seed(SEED) + i, .arg = &modes[i],
        };

        print_message("%s\n", modes[i].name);
        if (unit_has_turn(i, 2))
            job_run(&job, role);
    }
}

/* ---- random exchanges ---- */

/* Parameters declared equally by all ranks. */
struct shape {
    uint64_t seed;
    size_t nsplits, max_length, max_total, elem;
    tutti_dtype type;
    bool long_ones;
};

static void draw_shape(struct rank *r, struct shape *s)
{
    static const tutti_dtype types[] = { TUTTI_U8, TUTTI_BF16, TUTTI_F32, TUTTI_F64 };
    struct tt_prng *p = &r->common;

    *s = (struct shape){
        .seed = tt_prng_u64(p),
        .nsplits = 1 + tt_prng_below(p, SPLITS_MAX),
        .type = types[tt_prng_below(p, 4)],
        .long_ones = tt_prng_below(p, 2),
    };
    s->elem = tutti_dtype_bytes(s->type);
    s->max_length = s->long_ones ? LONG : 200;
    s->max_total = s->nsplits * s->max_length / (1 + tt_prng_below(p, 2));
}

/* Lists of one rank; every rank can generate those of any rank. */
struct lists {
    size_t lengths[SPLITS_MAX], indices[INDICES_MAX], block_lens[JOB_RANKS_MAX], nindices;
};

static size_t draw_length(const struct shape *s, struct tt_prng *p)
{
    switch (tt_prng_below(p, 4)) {
    case 0:
        return 0;
    case 1:
        return tt_prng_below(p, 4);
    default:
        return tt_prng_below(p, s->long_ones && tt_prng_below(p, 3) ? 300 : s->max_length + 1);
    }
}

/* Pieces in any order, some for several ranks, some for none, some twice; ranks that receive
 * nothing, and ranks that receive all. */
static void draw_lists(const struct shape *s, uint32_t rank, uint32_t nranks, struct lists *out)
{
    struct tt_prng p;
    size_t total = 0;

    tt_prng_init(&p, s->seed + rank);
    *out = (struct lists){ .nindices = 0 };
    for (size_t i = 0; i < s->nsplits; i++) {
        out->lengths[i] = draw_length(s, &p);
        if (total + out->lengths[i] > s->max_total)
            out->lengths[i] = 0;
        total += out->lengths[i];
    }
    for (uint32_t to = 0; to < nranks; to++) {
        const uint64_t way = tt_prng_below(&p, 5);
        const size_t n = way == 0 ? 0 : way == 1 ? s->nsplits : tt_prng_below(&p, s->nsplits + 3);

        out->block_lens[to] = n;
        for (size_t k = 0; k < n; k++)
            out->indices[out->nindices++] = way == 1 ? n - 1 - k : tt_prng_below(&p, s->nsplits);
    }
}

static uint64_t salt_of(const struct shape *s, uint32_t rank) { return s->seed * 31 + rank; }

static bool goes_to(const struct lists *l, uint32_t to, size_t piece)
{
    size_t at = 0;

    for (uint32_t r = 0; r < to; r++)
        at += l->block_lens[r];
    for (size_t k = 0; k < l->block_lens[to]; k++)
        if (l->indices[at + k] == piece)
            return true;
    return false;
}

static void check_hole(struct rank *r, const uint8_t *mem, size_t bytes)
{
    if (bytes)
        job_check_all(r, mem, bytes, HOLE);
}

/* Checks the receive buffer of a sender: its pieces, and unchanged holes. */
static void check_buffer(struct rank *r, const struct shape *s, const struct lists *l,
                         uint32_t sender, const uint8_t *got, bool holes)
{
    uint8_t *whole = job_have(r, malloc(s->max_total * s->elem + 1));
    size_t at = 0;

    pattern_fill(whole, s->max_total * s->elem, salt_of(s, sender));
    for (size_t i = 0; i < s->nsplits; at += l->lengths[i] * s->elem, i++) {
        const size_t bytes = l->lengths[i] * s->elem;

        if (goes_to(l, r->rank, i)) {
            if (memcmp(got + at, whole + at, bytes) != 0)
                job_fail(r, __FILE__, __LINE__, "piece %zu of rank %u (%zu bytes) is wrong", i,
                         sender, bytes);
        } else if (holes) {
            check_hole(r, got + at, bytes);
        }
    }
    if (holes)
        check_hole(r, got + at, s->max_total * s->elem - at);
    free(whole);
}

/* Memory of one rank for an exchange. */
struct side {
    struct shape shape;
    struct lists lists;
    uint8_t *send;
    uint8_t *memory;
    void *recvbuffs[JOB_RANKS_MAX];
    size_t *all;
    uint64_t start;
    tutti_dynamic what;
};

static void side_init(struct rank *r, struct side *e)
{
    const size_t bytes = e->shape.max_total * e->shape.elem;

    draw_lists(&e->shape, r->rank, r->nranks, &e->lists);
    e->send = job_have(r, malloc(bytes + 1));
    pattern_fill(e->send, bytes, salt_of(&e->shape, r->rank));
    e->memory = job_have(r, malloc(r->nranks * (bytes + 64)));
    memset(e->memory, HOLE, r->nranks * (bytes + 64));
    for (uint32_t k = 0; k < r->nranks; k++)        /* not in the order of ranks */
        e->recvbuffs[(k + 1) % r->nranks] = e->memory + k * (bytes + 64);
    e->all = job_have(r, calloc(r->nranks * e->shape.nsplits, sizeof *e->all));
    e->start = 0;
    e->what = (tutti_dynamic){
        .size = sizeof e->what,
        .sendbuff = e->send,
        .split_lengths = e->lists.lengths,
        .nsplits = e->shape.nsplits,
        .indices = e->lists.indices,
        .index_block_lens = e->lists.block_lens,
        .recvbuffs = e->recvbuffs,
        .recv_all_split_lengths = e->all,
        .max_length = e->shape.max_length,
        .max_total = e->shape.max_total,
    };
}

static void side_fini(struct side *e)
{
    free(e->send);
    free(e->memory);
    free(e->all);
}

static void check_side(struct rank *r, const struct side *e)
{
    for (uint32_t s = 0; s < r->nranks; s++) {
        struct lists theirs;

        draw_lists(&e->shape, s, r->nranks, &theirs);
        check_buffer(r, &e->shape, &theirs, s, e->recvbuffs[s], true);
        CHECK(r, memcmp(e->all + s * e->shape.nsplits, theirs.lengths,
                        e->shape.nsplits * sizeof *e->all) == 0);
    }
}

static void check_untouched(struct rank *r, const struct side *e)
{
    job_check_all(r, e->memory, r->nranks * (e->shape.max_total * e->shape.elem + 64), HOLE);
    for (size_t i = 0; i < r->nranks * e->shape.nsplits; i++)
        CHECK(r, e->all[i] == 0);
}

/* Algorithm for the headers: selected by the library, or by name. */
static const char *heads_of(uint32_t i)
{
    static const char *const names[] = { NULL, "heads_gathered", "heads_direct", "heads_gathered" };

    return names[i / 2 % 4];
}

#define EXCHANGES (job_tries_few() ? 8u : 20u)

/* Exchanges are blocking, or have a request and overlap with another collective. With a request,
 * the lists are written long after the call has returned. */
static void drawn_role(struct rank *r)
{
    size_t bytes = 1;

    open_as(r);
    CHECK_OK(r, tutti_alltoallv_dynamic_bytes(r->comm, &bytes));
    CHECK(r, bytes == 0);
    for (uint32_t i = 0; i < EXCHANGES; i++) {
        const bool late = i % 2;
        tutti_request *request = NULL;
        const tutti_call call = { .size = sizeof call,
                                  .request = late ? &request : NULL,
                                  .algo = heads_of(i) };
        uint32_t sum = 0, one = 1;
        struct lists lists;
        struct side e;

        draw_shape(r, &e.shape);
        job_step(r, "exchange %u of %zu pieces of %s, at most %zu, %s", i, e.shape.nsplits,
                 tutti_dtype_name(e.shape.type), e.shape.max_length,
                 call.algo ? call.algo : "as it is chosen");
        side_init(r, &e);
        e.what.nindices = i % 4 < 2 ? &e.lists.nindices : NULL;
        if (late) {
            lists = e.lists;
            memset(&e.lists, 0xff, sizeof e.lists);
            e.what.start = &e.start;
            e.what.start_value = i;
            CHECK_OK(r, tutti_alltoallv_dynamic(&e.what, e.shape.type, r->comm, &call));
            for (int k = 0; k < 20; k++)
                CHECK_STATUS(r, tutti_test(request), TUTTI_PENDING);
            check_untouched(r, &e);
            e.lists = lists;
            __atomic_store_n(&e.start, i, __ATOMIC_RELEASE);
            CHECK_OK(r, tutti_allreduce(&one, &sum, 1, TUTTI_U32, TUTTI_SUM, r->comm, NULL));
            CHECK(r, sum == r->nranks);
            CHECK_OK(r, tutti_wait(request));
        } else {
            CHECK_OK(r, tutti_alltoallv_dynamic(&e.what, e.shape.type, r->comm, &call));
        }
        check_side(r, &e);
        side_fini(&e);
    }
    CHECK_OK(r, tutti_alltoallv_dynamic_bytes(r->comm, &bytes));
    CHECK(r, bytes > 0);
}

static void pieces_arrive_and_holes_are_unchanged(void **state)
{
    (void)state;
    over_all_modes(drawn_role, 4);
}

#define EXAMPLE_SPLITS 4
#define EXAMPLE_ELEMS 768
#define EXAMPLE_HOLE UINT32_C(0xeeeeeeee)

/* Two ranks. Rank 0 has pieces of 128, 256, 256 and 128 elements: 0 and 1 stay; 0, 2 and 3 go to
 * rank 1, to [0, 128), [384, 640) and [640, 768), with a hole between them. Rank 1 sends nothing,
 * but its lengths are sent. */
static void example_role(struct rank *r)
{
    static const size_t lengths[2][EXAMPLE_SPLITS] = { { 128, 256, 256, 128 }, { 7, 0, 5, 1 } };
    static const size_t indices[] = { 0, 1, 0, 2, 3 }, block_lens[2][2] = { { 2, 3 }, { 0, 0 } };
    static const struct {
        uint32_t from, end; /* elements from rank 0; the others are a hole */
    } comes[2][2] = { { { 0, 384 }, { 0, 0 } }, { { 0, 128 }, { 384, 768 } } };
    uint32_t send[EXAMPLE_ELEMS], recv[2][EXAMPLE_ELEMS];
    size_t all[2 * EXAMPLE_SPLITS];
    const tutti_dynamic what = {
        .size = sizeof what,
        .sendbuff = send,
        .split_lengths = lengths[r->rank],
        .nsplits = EXAMPLE_SPLITS,
        .indices = indices,
        .index_block_lens = block_lens[r->rank],
        .recvbuffs = (void *[]){ recv[0], recv[1] },
        .recv_all_split_lengths = all,
        .max_length = 256,
        .max_total = EXAMPLE_ELEMS,
    };

    open_as(r);
    for (uint32_t turn = 0; turn < 2; turn++) {
        const tutti_call call = { .size = sizeof call,
                                  .algo = turn ? "heads_gathered" : "heads_direct" };

        for (uint32_t i = 0; i < EXAMPLE_ELEMS; i++)
            send[i] = 1000 * (r->rank + 1) + i;
        memset(recv, HOLE, sizeof recv);
        memset(all, 0, sizeof all);
        CHECK_OK(r, tutti_alltoallv_dynamic(&what, TUTTI_U32, r->comm, &call));
        for (uint32_t i = 0; i < EXAMPLE_ELEMS; i++) {
            const bool here = (i >= comes[r->rank][0].from && i < comes[r->rank][0].end) ||
                              (i >= comes[r->rank][1].from && i < comes[r->rank][1].end);

            CHECK(r, recv[0][i] == (here ? 1000 + i : EXAMPLE_HOLE));
            CHECK(r, recv[1][i] == EXAMPLE_HOLE);
        }
        CHECK(r, memcmp(all, lengths, sizeof lengths) == 0);
    }
}

static void documented_example_is_correct(void **state)
{
    (void)state;
    over_all_modes(example_role, 2);
}

static void alone_role(struct rank *r)
{
    open_as(r);
    for (uint32_t i = 0; i < 10; i++) {
        const tutti_call call = { .size = sizeof call, .algo = heads_of(i) };
        struct side e;

        draw_shape(r, &e.shape);
        side_init(r, &e);
        CHECK_OK(r, tutti_alltoallv_dynamic(&e.what, e.shape.type, r->comm, &call));
        check_side(r, &e);
        side_fini(&e);
    }
}

static void a_rank_alone_sends_to_itself(void **state)
{
    const struct job job = {
        .wires = "shm", .nranks = 1, .seed = job_seed(SEED), .arg = &modes[0]
    };

    (void)state;
    job_run(&job, alone_role);
}

#define AT_ONCE 5u

/* Several concurrent exchanges of different shapes, finished in the opposite order. */
static void several_role(struct rank *r)
{
    tutti_request *request[AT_ONCE] = { NULL };
    struct side e[AT_ONCE];
    size_t before, after;

    open_as(r);
    for (uint32_t k = 0; k < 2 * AT_ONCE; k++) {
        const uint32_t i = k % AT_ONCE;
        const tutti_call call = { .size = sizeof call,
                                  .request = &request[i],
                                  .algo = heads_of(k) };

        if (request[i]) {
            CHECK_OK(r, tutti_wait(request[i]));
            check_side(r, &e[i]);
            side_fini(&e[i]);
        }
        draw_shape(r, &e[i].shape);
        side_init(r, &e[i]);
        CHECK_OK(r, tutti_alltoallv_dynamic(&e[i].what, e[i].shape.type, r->comm, &call));
    }
    for (uint32_t i = AT_ONCE; i-- > 0;) {
        CHECK_OK(r, tutti_wait(request[i]));
        check_side(r, &e[i]);
    }
    CHECK_OK(r, tutti_alltoallv_dynamic(&e[0].what, e[0].shape.type, r->comm, NULL));
    CHECK_OK(r, tutti_alltoallv_dynamic_bytes(r->comm, &before));
    for (uint32_t i = 0; i < 5; i++)
        CHECK_OK(r, tutti_alltoallv_dynamic(&e[0].what, e[0].shape.type, r->comm, NULL));
    CHECK_OK(r, tutti_alltoallv_dynamic_bytes(r->comm, &after));
    CHECK(r, after == before);      /* memory is reused */
    for (uint32_t i = 0; i < AT_ONCE; i++)
        side_fini(&e[i]);
}

static void several_may_run_at_once(void **state)
{
    (void)state;
    over_all_modes(several_role, 3);
}

/* ---- invalid lists ---- */

enum wrong { LENGTH, TOTAL, SUM, INDEX, OVERLAP, NULL_BUFFER, WRONGS };

static const struct {
    tutti_status status;
    const char *says;
} wrongs[WRONGS] = {
    [LENGTH] = { TUTTI_ERR_RANGE, "max_length" },
    [TOTAL] = { TUTTI_ERR_RANGE, "max_total" },
    [SUM] = { TUTTI_ERR_INVALID, "add up" },
    [INDEX] = { TUTTI_ERR_INVALID, "indices[" },
    [OVERLAP] = { TUTTI_ERR_INVALID, "recvbuffs[1] and sendbuff of rank" },
    [NULL_BUFFER] = { TUTTI_ERR_INVALID, "sendbuff is NULL" },
};

static const size_t none;

static void spoil(struct side *e, enum wrong w)
{
    struct lists *l = &e->lists;

    switch (w) {
    case LENGTH:
        l->lengths[e->shape.nsplits - 1] = e->shape.max_length + 1;
        break;
    case TOTAL:
        for (size_t i = 0; i < e->shape.nsplits; i++)
            l->lengths[i] = e->shape.max_length;
        break;
    case SUM:
        l->nindices++;
        e->what.nindices = &l->nindices;
        break;
    case INDEX:
        l->block_lens[0]++;
        memmove(l->indices + 1, l->indices, l->nindices * sizeof *l->indices);
        l->indices[0] = e->shape.nsplits;
        break;
    case OVERLAP:
        l->lengths[0] = 1;
        e->what.sendbuff = e->recvbuffs[1];
        break;
    default:
        l->lengths[0] = 1;
        e->what.sendbuff = NULL;
    }
}

static void wrong_role(struct rank *r)
{
    open_as(r);
    for (uint32_t i = 0; i < 2 * WRONGS; i++) {
        const uint32_t guilty = tt_prng_below(&r->common, r->nranks);
        const enum wrong w = i % WRONGS;
        const tutti_call call = { .size = sizeof call,
                                  .algo = i < WRONGS ? "heads_direct" : "heads_gathered" };
        char by[16];
        struct side e;

        do
            draw_shape(r, &e.shape);
        while (e.shape.nsplits < 2);
        e.shape.max_total = e.shape.nsplits * e.shape.max_length - 1;
        job_step(r, "rank %u is wrong in way %d", guilty, w);
        side_init(r, &e);
        if (r->rank == guilty)
            spoil(&e, w);
        snprintf(by, sizeof by, "rank %u ", guilty);
        CHECK_SAYS(r, tutti_alltoallv_dynamic(&e.what, e.shape.type, r->comm, &call),
                   wrongs[w].status, wrongs[w].says);
        CHECK(r, strstr(tutti_last_error(), by));
        check_untouched(r, &e);
        side_fini(&e);
        side_init(r, &e);
        e.what.nindices = i % 2 ? &none : NULL;
        if (e.what.nindices && e.lists.nindices != 0)
            e.what.nindices = &e.lists.nindices;
        /* valid again */
        CHECK_OK(r, tutti_alltoallv_dynamic(&e.what, e.shape.type, r->comm, &call));
        check_side(r, &e);
        side_fini(&e);
    }
    CHECK_OK(r, tutti_comm_status(r->comm));
}

static void invalid_list_fails_on_all_ranks(void **state)
{
    (void)state;
    over_all_modes(wrong_role, 3);
}

/* Errors that are detected on the calling rank before anything starts. */
static void mistakes_role(struct rank *r)
{
    const tutti_call forced = { .size = sizeof forced, .algo = "direct" };
    const tutti_call scaled = { .size = sizeof scaled, .scale = 2 };
    tutti_replay_conf conf = {
        .size = sizeof conf, .nsplits = 2, .max_length = 4, .type = TUTTI_F32
    };
    tutti_arrived arrived = { .size = sizeof arrived };
    tutti_replay *replay = NULL;
    tutti_dynamic bad;
    struct side e;

    open_as(r);
    e.shape = (struct shape){
        .seed = 1, .nsplits = 2, .max_length = 4, .max_total = 8, .elem = 4, .type = TUTTI_F32
    };
    side_init(r, &e);
    CHECK_SAYS(r, tutti_alltoallv_dynamic(NULL, TUTTI_F32, r->comm, NULL), TUTTI_ERR_INVALID,
               "what is NULL");
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&e.what, TUTTI_F32, NULL, NULL), TUTTI_ERR_INVALID,
               "communicator is NULL");
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&e.what, (tutti_dtype)99, r->comm, NULL),
               TUTTI_ERR_INVALID, "99");
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&e.what, TUTTI_F32, r->comm, &forced), TUTTI_ERR_INVALID,
               "unknown algorithm \"direct\" (use heads_direct or heads_gathered)");
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&e.what, TUTTI_F32, r->comm, &scaled), TUTTI_ERR_INVALID,
               "call.scale");
    bad = e.what;
    bad.size = 8;
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&bad, TUTTI_F32, r->comm, NULL), TUTTI_ERR_INVALID,
               "size");
    bad = e.what;
    bad.nsplits = 0;
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&bad, TUTTI_F32, r->comm, NULL), TUTTI_ERR_INVALID,
               "nsplits is 0");
    bad.nsplits = 65537;
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&bad, TUTTI_F32, r->comm, NULL), TUTTI_ERR_INVALID,
               "65537");
    bad = e.what;
    bad.max_length = (size_t)1 << 41;
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&bad, TUTTI_F32, r->comm, NULL), TUTTI_ERR_INVALID,
               "max_length");
    bad = e.what;
    bad.max_total = SIZE_MAX / 2;
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&bad, TUTTI_F32, r->comm, NULL), TUTTI_ERR_INVALID,
               "address space");
    bad = e.what;
    bad.split_lengths = NULL;
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&bad, TUTTI_F32, r->comm, NULL), TUTTI_ERR_INVALID,
               "split_lengths is NULL");
    bad = e.what;
    bad.start = (const uint64_t *)((uintptr_t)&e.start + 4);
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&bad, TUTTI_F32, r->comm, NULL), TUTTI_ERR_INVALID,
               "8-byte aligned");
    e.recvbuffs[0] = NULL;
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&e.what, TUTTI_F32, r->comm, NULL), TUTTI_ERR_INVALID,
               "recvbuffs[0] is NULL");
    e.recvbuffs[0] = (uint8_t *)e.recvbuffs[1] + 31;
    CHECK_SAYS(r, tutti_alltoallv_dynamic(&e.what, TUTTI_F32, r->comm, NULL), TUTTI_ERR_INVALID,
               "overlap");
    CHECK_SAYS(r, tutti_replay_create(r->comm, NULL, &replay), TUTTI_ERR_INVALID, "conf is NULL");
    conf.depth = 1;
    CHECK_SAYS(r, tutti_replay_create(r->comm, &conf, &replay), TUTTI_ERR_INVALID, "depth is 1");
    conf.depth = 0;
    conf.without = 8;
    CHECK_SAYS(r, tutti_replay_create(r->comm, &conf, &replay), TUTTI_ERR_INVALID,
               "unknown bits in conf.without = 8");
    conf.without = 0;
    conf.max_length = 4 + r->rank;
    CHECK_SAYS(r, tutti_replay_create(r->comm, &conf, &replay), TUTTI_ERR_INVALID,
               r->rank ? "conf.max_length differs between ranks: 4 on rank 0"
                       : "conf.max_length differs between ranks: 5 on rank 1, 4 on rank 0");
    conf.max_length = 4;
    CHECK_OK(r, tutti_replay_create(r->comm, &conf, &replay));
    CHECK_SAYS(r, tutti_replay_wait(replay, &arrived, 0), TUTTI_ERR_INVALID, "no run");
    CHECK_SAYS(r, tutti_replay_start(replay, &e.what, 0), TUTTI_ERR_INVALID,
               "nsplits must be zero: the replay defines it");
    CHECK_SAYS(r, tutti_replay_start(NULL, &e.what, 0), TUTTI_ERR_INVALID, "NULL");
    CHECK_OK(r, tutti_replay_free(replay));
    CHECK_OK(r, tutti_replay_free(NULL));
    side_fini(&e);
}

static void invalid_calls_are_refused(void **state)
{
    const struct job job = {
        .wires = "shm", .nranks = 2, .seed = job_seed(SEED), .arg = &modes[0]
    };

    (void)state;
    job_run(&job, mistakes_role);
}

/* Different maxima on ranks are a mismatch. */
static void differing_role(struct rank *r)
{
    struct side e;

    open_as(r);
    draw_shape(r, &e.shape);
    side_init(r, &e);
    e.what.max_total = e.shape.max_total - r->rank % 2;
    CHECK_STATUS(r, tutti_alltoallv_dynamic(&e.what, e.shape.type, r->comm, NULL),
                 TUTTI_ERR_MISMATCH);
    CHECK(r, strstr(tutti_last_error(), "alltoallv_dynamic"));
    for (size_t i = 0; i < 2; i++) {
        char said[64];

        snprintf(said, sizeof said, "max_length %zu, max_total %zu,", e.what.max_length,
                 e.shape.max_total - i);
        CHECK(r, strstr(tutti_last_error(), said));
    }
    side_fini(&e);
    job_close(r);
}

static void ranks_that_declare_differently_mismatch(void **state)
{
    (void)state;
    over_all_modes(differing_role, 2);
}

/* ---- failures and aborts ---- */

/* Rank 2 dies while the others exchange with it and wait. */
static void death_role(struct rank *r)
{
    struct side e;

    open_as(r);
    draw_shape(r, &e.shape);
    side_init(r, &e);
    CHECK_OK(r, tutti_alltoallv_dynamic(&e.what, e.shape.type, r->comm, NULL));
    job_meet(r);
    job_step(r, "rank 2 dies");
    if (r->rank == 2) {
        r->board->dies[2] = 1;
        kill(getpid(), SIGKILL);
    }
    CHECK_STATUS(r, tutti_alltoallv_dynamic(&e.what, e.shape.type, r->comm, NULL),
                 TUTTI_ERR_PEER_LOST);
    CHECK(r, job_names(tutti_last_error(), 2));
    side_fini(&e);
    job_close(r);
}

static void a_lost_rank_ends_the_exchange(void **state)
{
    (void)state;
    over_all_modes(death_role, 3);
}

/* Rank 0 never sets its start flag. An abort, a deadline, or the destruction of the communicator
 * ends the call on all ranks. */
static void end_role(struct rank *r)
{
    for (uint32_t way = 0; way < 3; way++) {
        tutti_request *request = NULL;
        const tutti_call call = { .size = sizeof call,
                                  .request = &request,
                                  .timeout_ms = way == 1 ? 300 : 0 };
        tutti_status st;
        struct side e;

        job_step(r, "end %u", way);
        open_as(r);
        draw_shape(r, &e.shape);
        side_init(r, &e);
        e.what.start = r->rank == 0 ? &e.start : NULL;
        e.what.start_value = 1;
        job_meet(r);
        st = tutti_alltoallv_dynamic(&e.what, e.shape.type, r->comm, &call);
        /* fails at once if the other ranks have already reached their deadlines */
        CHECK(r, st == TUTTI_OK || (way == 1 && st > TUTTI_PENDING));
        job_meet(r);
        if (way == 0 && r->rank == 0)
            CHECK_OK(r, tutti_comm_abort(r->comm));
        if (way == 2 && r->rank == 0) {
            tutti_comm_destroy(r->comm);
            r->comm = NULL;
        }
        if (st == TUTTI_OK)
            CHECK(r, tutti_wait(request) > TUTTI_PENDING);
        check_untouched(r, &e);
        if (r->comm)
            job_close(r);
        side_fini(&e);
        job_meet(r);
    }
}

static void exchange_without_start_still_ends(void **state)
{
    const struct job job = {
        .wires = "shm,tcp", .nranks = 3, .seed = job_seed(SEED), .arg = &modes[0]
    };

    (void)state;
    job_run(&job, end_role);
}

/* ---- from devices ---- */

#define TURNS (job_tries_few() ? 6u : 30u)
#define START 0
#define OVER 1

struct kernel_run {
    tutti_device *device;
    struct route *route;
    tutti_status status;
    char why[TT_ERROR_BYTES];
};

/* The last error is per thread. */
static void *run_kernel(void *arg)
{
    struct kernel_run *k = arg;

    k->status = tutti_device_run(k->device, 2, route_kernel, k->route);
    snprintf(k->why, sizeof k->why, "%s", tutti_last_error());
    return NULL;
}

/* A rank's device, and the lists that its kernels write. */
struct router {
    tutti_window *window;
    tutti_device *device;
    uint64_t *start, *over;
    size_t lengths[ROUTE_SPLITS], indices[JOB_RANKS_MAX * ROUTE_SPLITS], block_lens[JOB_RANKS_MAX];
    uint8_t *send, *memory;
    void *recv[JOB_RANKS_MAX];
    struct route route;
};

static void router_init(struct rank *r, struct router *x)
{
    const size_t bytes = ROUTE_SPLITS * ROUTE_LENGTH_MAX;
    const tutti_device_conf conf = { .size = sizeof conf, .flags = 2, .polls = r->job->seed % 2 };

    *x = (struct router){ .send = job_have(r, malloc(bytes)),
                          .memory = job_have(r, calloc(r->nranks, bytes)) };
    for (uint32_t k = 0; k < r->nranks; k++)
        x->recv[k] = x->memory + k * bytes;
    x->route = (struct route){
        .start = START,
        .over = OVER,
        .lengths = x->lengths,
        .indices = x->indices,
        .block_lens = x->block_lens,
        .send = x->send,
        .recv = x->recv,
    };
    CHECK_OK(r, tutti_window_create(r->comm, NULL, 64, &x->window));
    CHECK_OK(r, tutti_device_create(x->window, &conf, &x->device));
    CHECK_OK(r, tutti_device_flag(x->device, START, &x->start));
    CHECK_OK(r, tutti_device_flag(x->device, OVER, &x->over));
    CHECK_SAYS(r, tutti_device_flag(x->device, 2, &x->over), TUTTI_ERR_INVALID, "invalid flag 2");
    CHECK(r, *x->start == 0 && *x->over == 0);
}

static void router_fini(struct rank *r, struct router *x)
{
    CHECK_OK(r, tutti_device_destroy(x->device));
    CHECK_OK(r, tutti_window_free(x->window));
    free(x->send);
    free(x->memory);
}

/* Reads of unwritten lists would be detected. */
static void spoil_lists(struct router *x)
{
    memset(x->lengths, 0xff, sizeof x->lengths);
    memset(x->indices, 0xff, sizeof x->indices);
    memset(x->block_lens, 0xff, sizeof x->block_lens);
}

/* The host makes the call first. Then a kernel writes the lists, starts the exchange, waits for its
 * end and checks the received data. */
static void kernel_role(struct rank *r)
{
    struct router x;

    open_as(r);
    router_init(r, &x);
    for (uint64_t turn = 1; turn <= TURNS; turn++) {
        tutti_request *request = NULL;
        const tutti_call call = { .size = sizeof call, .request = &request };
        const tutti_dynamic what = {
            .size = sizeof what,
            .sendbuff = x.send,
            .split_lengths = x.lengths,
            .nsplits = ROUTE_SPLITS,
            .indices = x.indices,
            .index_block_lens = x.block_lens,
            .recvbuffs = x.recv,
            .max_length = ROUTE_LENGTH_MAX,
            .start = x.start,
            .start_value = turn,
            .over = x.over,
            .over_value = turn,
        };

        job_step(r, "turn %llu", (unsigned long long)turn);
        x.route.turn = turn;
        spoil_lists(&x);
        CHECK_OK(r, tutti_alltoallv_dynamic(&what, TUTTI_U8, r->comm, &call));
        CHECK_STATUS(r, tutti_test(request), TUTTI_PENDING);
        CHECK_OK(r, tutti_device_run(x.device, 2, route_kernel, &x.route));
        CHECK(r, x.route.wrong == 0);
        CHECK_OK(r, tutti_wait(request));
    }
    router_fini(r, &x);
}

static void kernel_starts_exchange_with_its_lists(void **state)
{
    (void)state;
    over_all_modes(kernel_role, 3);
}

/* The host waits in the replay for the start flag of a kernel, and notifies it of the end. */
static void kernel_replay_role(struct rank *r)
{
    const tutti_replay_conf conf = {
        .size = sizeof conf,
        .nsplits = ROUTE_SPLITS,
        .max_length = ROUTE_LENGTH_MAX,
        .type = TUTTI_U8,
    };
    tutti_replay *replay;
    struct router x;

    open_as(r);
    router_init(r, &x);
    CHECK_OK(r, tutti_replay_create(r->comm, &conf, &replay));
    for (uint64_t turn = 1; turn <= TURNS; turn++) {
        const tutti_dynamic what = {
            .size = sizeof what,
            .sendbuff = x.send,
            .split_lengths = x.lengths,
            .indices = x.indices,
            .index_block_lens = x.block_lens,
            .start = x.start,
            .start_value = turn,
        };
        struct kernel_run k = { .device = x.device, .route = &x.route };
        tutti_arrived arrived = { .size = sizeof arrived };
        pthread_t thread;

        job_step(r, "run %llu", (unsigned long long)turn);
        x.route.turn = turn;
        spoil_lists(&x);
        CHECK(r, pthread_create(&thread, NULL, run_kernel, &k) == 0);
        CHECK_OK(r, tutti_replay_start(replay, &what, 0));
        CHECK_OK(r, tutti_replay_wait(replay, &arrived, 0));
        x.route.recv = arrived.recvbuffs;
        __atomic_store_n(x.over, turn, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        if (k.status)
            job_fail(r, __FILE__, __LINE__, "the kernel ended with %s: %s",
                     tutti_status_name(k.status), k.why);
        CHECK(r, x.route.wrong == 0);
    }
    CHECK_OK(r, tutti_replay_free(replay));
    router_fini(r, &x);
}

static void kernel_starts_runs_of_a_replay(void **state)
{
    (void)state;
    over_all_modes(kernel_replay_role, 3);
}

/* ---- the persistent form ---- */

static tutti_dynamic for_replay(const struct side *e)
{
    tutti_dynamic w = e->what;

    w.nsplits = w.max_length = w.max_total = 0;
    w.recvbuffs = NULL;
    w.recv_all_split_lengths = NULL;
    return w;
}

static void check_arrived(struct rank *r, const struct shape *s, const tutti_arrived *a)
{
    for (uint32_t from = 0; from < r->nranks; from++) {
        struct lists theirs;

        draw_lists(s, from, r->nranks, &theirs);
        check_buffer(r, s, &theirs, from, a->recvbuffs[from], false);
        CHECK(r, memcmp(a->recv_all_split_lengths + from * s->nsplits, theirs.lengths,
                        s->nsplits * sizeof(size_t)) == 0);
    }
}

static const uint32_t withouts[] = {
    0, TUTTI_REPLAY_NO_HANDLES, TUTTI_REPLAY_NO_BYPASS, TUTTI_REPLAY_NO_CHAIN,
    TUTTI_REPLAY_NO_HANDLES | TUTTI_REPLAY_NO_BYPASS | TUTTI_REPLAY_NO_CHAIN,
};
#define NWITHOUTS (sizeof withouts / sizeof *withouts)
#define RUNS 8u

/* Ranks run ahead of each other as far as possible; received data stays until it is released. In
 * run 5, rank 1 has invalid lists. */
static void replay_role(struct rank *r)
{
    open_as(r);
    for (uint32_t i = 0; i < NWITHOUTS; i++) {
        struct shape shape, run[RUNS];
        tutti_arrived before = { .size = sizeof before };
        tutti_replay *replay;
        tutti_replay_conf conf;

        draw_shape(r, &shape);
        shape.long_ones = i % 2;
        shape.max_length = shape.long_ones ? LONG : 200;
        shape.max_total = shape.nsplits * shape.max_length;
        conf = (tutti_replay_conf){
            .size = sizeof conf,
            .nsplits = shape.nsplits,
            .max_length = shape.max_length,
            .type = shape.type,
            .depth = i % 2 ? 3 : 0,
            .without = withouts[i],
        };
        CHECK_OK(r, tutti_replay_create(r->comm, &conf, &replay));
        for (uint32_t k = 0; k < RUNS; k++) {
            tutti_arrived a = { .size = sizeof a };
            tutti_dynamic w;
            struct side e;

            run[k] = shape;
            run[k].seed = shape.seed + 1000 * k;
            e.shape = run[k];
            job_step(r, "replay %u, run %u", i, k);
            side_init(r, &e);
            if (k == 5 && r->rank == 1)
                spoil(&e, INDEX);
            w = for_replay(&e);
            w.start = k % 2 ? &e.start : NULL;
            CHECK_OK(r, tutti_replay_start(replay, &w, 0));
            /* the buffer belongs to this rank again */
            memset(e.send, 0xff, e.shape.max_total * e.shape.elem);
            CHECK_SAYS(r, tutti_replay_start(replay, &w, 0), TUTTI_ERR_INVALID,
                       "is not complete (call tutti_replay_wait first)");
            if (conf.depth == 3 && k > 0 && k != 6)
                check_arrived(r, &run[k - 1], &before);
            if (k == 5)
                CHECK_SAYS(r, tutti_replay_wait(replay, &a, 0), TUTTI_ERR_INVALID,
                           "] of rank 1 is ");
            else
                CHECK_OK(r, tutti_replay_wait(replay, &a, 0));
            if (k != 5)
                check_arrived(r, &run[k], &a);
            before = a;
            side_fini(&e);
        }
        CHECK_OK(r, tutti_replay_free(replay));
    }
}

static void a_replay_brings_every_run(void **state)
{
    (void)state;
    over_all_modes(replay_role, 4);
}

/* Rank 1 dies while others wait for its run. */
static void replay_death_role(struct rank *r)
{
    tutti_arrived a = { .size = sizeof a };
    tutti_replay *replay;
    tutti_replay_conf conf;
    tutti_dynamic w;
    struct side e;

    open_as(r);
    draw_shape(r, &e.shape);
    side_init(r, &e);
    conf = (tutti_replay_conf){
        .size = sizeof conf, .nsplits = e.shape.nsplits, .max_length = e.shape.max_length,
        .max_total = e.shape.max_total, .type = e.shape.type,
    };
    CHECK_OK(r, tutti_replay_create(r->comm, &conf, &replay));
    w = for_replay(&e);
    job_meet(r);
    if (r->rank == 1) {
        r->board->dies[1] = 1;
        kill(getpid(), SIGKILL);
    }
    if (tutti_replay_start(replay, &w, 0) == TUTTI_OK)
        CHECK_STATUS(r, tutti_replay_wait(replay, &a, 0), TUTTI_ERR_PEER_LOST);
    CHECK(r, job_names(tutti_last_error(), 1));
    CHECK_STATUS(r, tutti_replay_start(replay, &w, 0), TUTTI_ERR_PEER_LOST);
    CHECK_STATUS(r, tutti_replay_free(replay), TUTTI_ERR_PEER_LOST);
    side_fini(&e);
    job_close(r);
}

static void a_lost_rank_ends_a_replay(void **state)
{
    (void)state;
    over_all_modes(replay_death_role, 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_arrive_and_holes_are_unchanged),
        cmocka_unit_test(documented_example_is_correct),
        cmocka_unit_test(a_rank_alone_sends_to_itself),
        cmocka_unit_test(several_may_run_at_once),
        cmocka_unit_test(invalid_list_fails_on_all_ranks),
        cmocka_unit_test(invalid_calls_are_refused),
        cmocka_unit_test(ranks_that_declare_differently_mismatch),
        cmocka_unit_test(a_lost_rank_ends_the_exchange),
        cmocka_unit_test(exchange_without_start_still_ends),
        cmocka_unit_test(kernel_starts_exchange_with_its_lists),
        cmocka_unit_test(kernel_starts_runs_of_a_replay),
        cmocka_unit_test(a_replay_brings_every_run),
        cmocka_unit_test(a_lost_rank_ends_a_replay),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
