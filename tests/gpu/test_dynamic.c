/* All-to-alls whose lists and sizes are in device memory: they are read when the stream has reached
 * the operation, received pieces are at their offsets, and everything else is unchanged. */
#include "graphs.h"

#include <stdlib.h>
#include <string.h>

#define assert_says(part) assert_non_null(strstr(tutti_last_error(), part))

enum { RANKS = 3, SPLITS = 7, LENGTH = 3000, TOTAL = SPLITS * LENGTH };
#define UNTOUCHED 0xeeeeeeeeu

/* The lists of a rank. */
struct lists {
    size_t lengths[SPLITS], block_lens[RANKS], nindices, indices[RANKS * SPLITS];
};

/* What a rank passes: everything is in device memory. */
struct member {
    tutti_dynamic what;
    void *recv[RANKS];
    struct lists lists;         /* in host memory */
    char *on_device;            /* struct lists */
    void *send;
    size_t *all;
};

static uint32_t value_of(int rank, unsigned round, size_t at)
{
    return (uint32_t)(at * 2654435761u + (size_t)rank * 40503u + round);
}

/* Draws lists with empty pieces, and pieces for none, some or all ranks; an index occurs twice. */
static void draw_lists(struct lists *l, unsigned *seed)
{
    size_t n = 0;

    for (int i = 0; i < SPLITS; i++)
        l->lengths[i] = rand_r(seed) % 4 ? (size_t)rand_r(seed) % (LENGTH + 1) : 0;
    for (int r = 0; r < RANKS; r++) {
        l->block_lens[r] = (size_t)rand_r(seed) % (SPLITS + 1);
        for (size_t i = 0; i < l->block_lens[r]; i++)
            l->indices[n++] = (size_t)rand_r(seed) % SPLITS;
    }
    l->nindices = n;
}

static void write_lists(struct world *w, int r, struct member *m)
{
    world_write(w, r, m->on_device, &m->lists, sizeof m->lists);
}

static void member_open(struct world *w, int r, struct member *m)
{
    const size_t bytes = TOTAL * sizeof(uint32_t);

    m->on_device = world_alloc(w, r, sizeof m->lists, 0xff);
    m->send = world_alloc(w, r, bytes, 0);
    m->all = world_alloc(w, r, RANKS * SPLITS * sizeof *m->all, 0);
    for (int p = 0; p < RANKS; p++)
        m->recv[p] = world_alloc(w, r, bytes, 0xee);
#define AT(field) ((const size_t *)(const void *)(m->on_device + offsetof(struct lists, field)))
    m->what = (tutti_dynamic){ .size = sizeof m->what,
                               .sendbuff = m->send,
                               .split_lengths = AT(lengths),
                               .nsplits = SPLITS,
                               .indices = AT(indices),
                               .index_block_lens = AT(block_lens),
                               .nindices = AT(nindices),
                               .recvbuffs = m->recv,
                               .recv_all_split_lengths = m->all,
                               .max_length = LENGTH };
#undef AT
}

static void member_close(struct world *w, int r, struct member *m)
{
    world_free(w, r, m->on_device);
    world_free(w, r, m->send);
    world_free(w, r, m->all);
    for (int p = 0; p < RANKS; p++)
        world_free(w, r, m->recv[p]);
}

/* Draws lists, fills the send buffers and resets the receive buffers of all ranks. */
static void draw_round(struct world *w, struct member *m, unsigned round, unsigned *seed)
{
    uint32_t *data = malloc(TOTAL * sizeof *data);

    for (int r = 0; r < RANKS; r++) {
        draw_lists(&m[r].lists, seed);
        for (size_t i = 0; i < TOTAL; i++)
            data[i] = value_of(r, round, i);
        world_write(w, r, m[r].send, data, TOTAL * sizeof *data);
        memset(data, 0xee, TOTAL * sizeof *data);
        for (int p = 0; p < RANKS; p++)
            world_write(w, r, m[r].recv[p], data, TOTAL * sizeof *data);
    }
    free(data);
}

static bool is_listed(const struct lists *l, int to, size_t piece)
{
    size_t at = 0;
    bool listed = false;

    for (int r = 0; r < to; r++)
        at += l->block_lens[r];
    for (size_t i = 0; i < l->block_lens[to]; i++)
        listed |= l->indices[at + i] == piece;
    return listed;
}

/* Compares the receive buffers of all ranks with the definition of the operation. */
static void check_round(struct world *w, struct member *m, unsigned round)
{
    uint32_t *got = malloc(TOTAL * sizeof *got);
    size_t all[RANKS][SPLITS];

    for (int r = 0; r < RANKS; r++) {
        world_read(w, r, all, m[r].all, sizeof all);
        for (int p = 0; p < RANKS; p++) {
            const struct lists *l = &m[p].lists;
            size_t at = 0;

            assert_memory_equal(all[p], l->lengths, sizeof l->lengths);
            world_read(w, r, got, m[r].recv[p], TOTAL * sizeof *got);
            for (size_t i = 0; i < SPLITS; i++) {
                const bool comes = is_listed(l, r, i);

                for (const size_t end = at + l->lengths[i]; at < end; at++)
                    assert_int_equal(got[at], comes ? value_of(p, round, at) : UNTOUCHED);
            }
            for (; at < TOTAL; at++)
                assert_int_equal(got[at], UNTOUCHED);
        }
        assert_ok(tutti_gpu_status(w->gpu[r]));
    }
    free(got);
}

/* The lists are written after the calls, while gates hold the streams. */
static void lists_are_read_in_stream_order(void **state)
{
    struct member m[RANKS];
    unsigned seed = 7;
    struct world w;

    (void)state;
    world_open(&w, RANKS, NULL);
    for (int r = 0; r < RANKS; r++)
        member_open(&w, r, &m[r]);
    for (unsigned round = 0; round < 6; round++) {
        struct gate gate;

        draw_round(&w, m, round, &seed);
        gate_open(&gate, &w);
        for (int r = 0; r < RANKS; r++) {
            gate_hold(&gate, r);
            assert_ok(tutti_gpu_alltoallv_dynamic(&m[r].what, TUTTI_U32, w.gpu[r], w.stream[r]));
        }
        for (int r = 0; r < RANKS; r++) {
            tt_cuda_stream held = w.stream[r];

            w.cu->context_push(w.context[r]);
            assert_int_equal(w.cu->stream_create(&w.stream[r], TT_CUDA_STREAM_NON_BLOCKING), 0);
            write_lists(&w, r, &m[r]);
            assert_int_equal(w.cu->stream_destroy(w.stream[r]), 0);
            w.cu->context_pop(&(tt_cuda_context){ 0 });
            w.stream[r] = held;
        }
        gate_lift(&gate);
        check_round(&w, m, round);
        gate_close(&gate);
    }
    for (int r = 0; r < RANKS; r++)
        member_close(&w, r, &m[r]);
    world_close(&w);
}

/* Each launch uses different lists. */
static void exchanges_are_captured(void **state)
{
    struct member m[RANKS];
    exec_t exec[RANKS];
    unsigned seed = 11;
    struct world w;

    (void)state;
    world_open(&w, RANKS, NULL);
    for (int r = 0; r < RANKS; r++) {
        member_open(&w, r, &m[r]);
        m[r].what.nindices = NULL;
        capture_begin(&w, r, CAPTURE_THREAD);
        assert_ok(tutti_gpu_alltoallv_dynamic(&m[r].what, TUTTI_U32, w.gpu[r], w.stream[r]));
        exec[r] = capture_end_exec(&w, r);
    }
    for (unsigned round = 0; round < 4; round++) {
        draw_round(&w, m, round, &seed);
        for (int r = 0; r < RANKS; r++) {
            write_lists(&w, r, &m[r]);
            exec_launch(&w, r, exec[r]);
        }
        check_round(&w, m, round);
    }
    for (int r = 0; r < RANKS; r++) {
        exec_destroy(exec[r]);
        member_close(&w, r, &m[r]);
    }
    world_close(&w);
}

/* The caller may overwrite the operation and its strings after the call has returned. */
static void the_algorithm_is_copied(void **state)
{
    static const char *const names[] = { "heads_direct", "heads_gathered" };
    struct member m[RANKS];
    unsigned seed = 5;
    struct world w;

    (void)state;
    world_open(&w, RANKS, NULL);
    for (int r = 0; r < RANKS; r++)
        member_open(&w, r, &m[r]);
    for (unsigned round = 0; round < 2; round++) {
        char algo[32];
        struct gate gate;

        draw_round(&w, m, round, &seed);
        for (int r = 0; r < RANKS; r++)
            write_lists(&w, r, &m[r]);
        gate_open(&gate, &w);
        for (int r = 0; r < RANKS; r++) {
            const tutti_gpu_op op = { .size = sizeof op,
                                      .kind = TUTTI_GPU_ALLTOALLV_DYNAMIC,
                                      .gpu = w.gpu[r],
                                      .stream = w.stream[r],
                                      .type = TUTTI_U32,
                                      .algo = algo,
                                      .dynamic = &m[r].what };

            strcpy(algo, names[round]);
            gate_hold(&gate, r);
            assert_ok(tutti_gpu_group(&op, 1));
            memset(algo, 'x', sizeof algo - 1);
        }
        gate_lift(&gate);
        check_round(&w, m, round);
        gate_close(&gate);
    }
    for (int r = 0; r < RANKS; r++)
        member_close(&w, r, &m[r]);
    world_close(&w);
}

/* A rank without indices passes NULL for them and for its send buffer. */
static void empty_lists_may_be_null(void **state)
{
    struct member m[RANKS];
    unsigned seed = 3;
    struct world w;

    (void)state;
    world_open(&w, RANKS, NULL);
    for (int r = 0; r < RANKS; r++)
        member_open(&w, r, &m[r]);
    draw_round(&w, m, 1, &seed);
    m[1].lists = (struct lists){ .nindices = 0 };
    m[1].what.indices = NULL;
    m[1].what.sendbuff = NULL;
    for (int r = 0; r < RANKS; r++) {
        write_lists(&w, r, &m[r]);
        assert_ok(tutti_gpu_alltoallv_dynamic(&m[r].what, TUTTI_U32, w.gpu[r], w.stream[r]));
    }
    check_round(&w, m, 1);
    for (int r = 0; r < RANKS; r++)
        member_close(&w, r, &m[r]);
    world_close(&w);
}

/* ---- failures ---- */

/* Rank 1 lists pieces, but has no indices, or no send buffer. */
static void missing_buffers_fail_all_ranks(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct member m[RANKS];
        struct world w;

        world_open(&w, RANKS, NULL);
        for (int r = 0; r < RANKS; r++) {
            member_open(&w, r, &m[r]);
            m[r].lists = (struct lists){ .lengths = { 5, 5, 5 }, .block_lens = { 1, 1, 1 },
                                         .nindices = RANKS };
            write_lists(&w, r, &m[r]);
        }
        if (i)
            m[1].what.indices = NULL;
        else
            m[1].what.sendbuff = NULL;
        for (int r = 0; r < RANKS; r++)
            assert_ok(tutti_gpu_alltoallv_dynamic(&m[r].what, TUTTI_U32, w.gpu[r], w.stream[r]));
        for (int r = 0; r < RANKS; r++) {
            world_sync(&w, r);
            assert_status(tutti_gpu_status(w.gpu[r]), TUTTI_ERR_INVALID);
            assert_says("rank 1");
            assert_ok(tutti_comm_status(w.comm[r]));
            member_close(&w, r, &m[r]);
        }
        world_close(&w);
    }
}

/* Rank 1 declares another maximum: the communicator fails, and no rank hangs. */
static void different_declarations_end_all_ranks(void **state)
{
    struct member m[RANKS];
    struct world w;

    (void)state;
    world_open(&w, RANKS, NULL);
    for (int r = 0; r < RANKS; r++) {
        member_open(&w, r, &m[r]);
        m[r].lists = (struct lists){ .nindices = 0 };
        write_lists(&w, r, &m[r]);
        m[r].what.max_length = r == 1 ? LENGTH - 1 : LENGTH;
        assert_ok(tutti_gpu_alltoallv_dynamic(&m[r].what, TUTTI_U32, w.gpu[r], w.stream[r]));
    }
    for (int r = 0; r < RANKS; r++) {
        world_sync(&w, r);
        assert_int_not_equal(tutti_gpu_status(w.gpu[r]), TUTTI_OK);
        assert_int_not_equal(tutti_comm_status(w.comm[r]), TUTTI_OK);
        member_close(&w, r, &m[r]);
    }
    world_close(&w);
}

/* Rank 1 has an invalid list: all ranks return the same status, and no buffer changes. */
static void an_invalid_list_fails_all_ranks(void **state)
{
    static const struct {
        size_t at;              /* offset in struct lists */
        size_t value;
        tutti_status expected;
        const char *part;
    } cases[] = {
        { offsetof(struct lists, lengths[2]), LENGTH + 1, TUTTI_ERR_RANGE, "rank 1" },
        { offsetof(struct lists, lengths[2]), SIZE_MAX, TUTTI_ERR_RANGE, "rank 1" },
        { offsetof(struct lists, indices[0]), SPLITS, TUTTI_ERR_INVALID, "rank 1" },
        { offsetof(struct lists, nindices), RANKS + 1, TUTTI_ERR_INVALID, "rank 1" },
        { offsetof(struct lists, block_lens[1]), RANKS * SPLITS, TUTTI_ERR_INVALID, "rank 1" },
        { offsetof(struct lists, block_lens[1]), SIZE_MAX, TUTTI_ERR_INVALID, "rank 1" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct member m[RANKS];
        uint32_t *got = malloc(TOTAL * sizeof *got);
        struct world w;

        world_open(&w, RANKS, NULL);
        for (int r = 0; r < RANKS; r++) {
            member_open(&w, r, &m[r]);
            m[r].lists = (struct lists){ .lengths = { 5, 5, 5 }, .block_lens = { 1, 1, 1 },
                                         .nindices = RANKS };
            if (r == 1)
                memcpy((char *)&m[r].lists + cases[i].at, &cases[i].value, sizeof(size_t));
            write_lists(&w, r, &m[r]);
        }
        for (int r = 0; r < RANKS; r++)
            assert_ok(tutti_gpu_alltoallv_dynamic(&m[r].what, TUTTI_U32, w.gpu[r], w.stream[r]));
        for (int r = 0; r < RANKS; r++) {
            world_read(&w, r, got, m[r].recv[1], TOTAL * sizeof *got);
            for (size_t k = 0; k < TOTAL; k++)
                assert_int_equal(got[k], UNTOUCHED);
            assert_status(tutti_gpu_status(w.gpu[r]), cases[i].expected);
            assert_says(cases[i].part);
            member_close(&w, r, &m[r]);
        }
        world_close(&w);
        free(got);
    }
}

static void bad_arguments_are_refused(void **state)
{
    uint64_t word = 0;
    size_t host[SPLITS] = { 0 };
    struct member m;
    struct world w;
    tutti_gpu_op op;
    void *was;

    (void)state;
    world_open(&w, RANKS, NULL);
    member_open(&w, 0, &m);
    op = (tutti_gpu_op){ .size = sizeof op,
                         .kind = TUTTI_GPU_ALLTOALLV_DYNAMIC,
                         .gpu = w.gpu[0],
                         .stream = w.stream[0],
                         .type = TUTTI_U32,
                         .dynamic = &m.what };
#define REFUSED(part)                                                                              \
    do {                                                                                           \
        assert_status(tutti_gpu_alltoallv_dynamic(&m.what, TUTTI_U32, w.gpu[0], w.stream[0]),      \
                      TUTTI_ERR_INVALID);                                                          \
        assert_says("tutti_gpu_alltoallv_dynamic: " part);                                         \
    } while (0)
    m.what.start = &word;
    REFUSED("start is");
    m.what.start = NULL;
    m.what.nsplits = 65537;
    REFUSED("nsplits is 65537: must be 1 to 65536");
    m.what.nsplits = SPLITS;
    m.what.max_total = SIZE_MAX / 2;
    REFUSED("max_total");
    m.what.max_total = 0;
    m.what.split_lengths = host;
    REFUSED("split_lengths");
    m.what.split_lengths = NULL;
    REFUSED("split_lengths is NULL");
    m.what.split_lengths = (const size_t *)(const void *)m.on_device;
    was = m.recv[2];
    m.recv[2] = m.recv[1];
    REFUSED("the receive buffers at");
    m.recv[2] = m.send;
    REFUSED("sendbuff");
    m.recv[2] = host;
    REFUSED("recvbuffs");
    m.recv[2] = was;
    m.what.indices = host;
    REFUSED("indices");
    m.what.indices = NULL;
    m.what.sendbuff = host;
    REFUSED("sendbuff");
    m.what.sendbuff = m.send;
    op.algo = "heads_indirect";
    assert_status(tutti_gpu_group(&op, 1), TUTTI_ERR_INVALID);
    assert_says("unknown algorithm \"heads_indirect\" (use heads_direct or heads_gathered)");
#undef REFUSED
    assert_status(tutti_gpu_alltoallv_dynamic(NULL, TUTTI_U32, w.gpu[0], w.stream[0]),
                  TUTTI_ERR_INVALID);
    assert_ok(tutti_gpu_status(w.gpu[0]));
    member_close(&w, 0, &m);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read_in_stream_order),
        cmocka_unit_test(exchanges_are_captured),
        cmocka_unit_test(the_algorithm_is_copied),
        cmocka_unit_test(empty_lists_may_be_null),
        cmocka_unit_test(missing_buffers_fail_all_ranks),
        cmocka_unit_test(different_declarations_end_all_ranks),
        cmocka_unit_test(an_invalid_list_fails_all_ranks),
        cmocka_unit_test(bad_arguments_are_refused),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
