#include <string.h>
#include "sched/sched.h"
#include "support/unit.h"

static void kinds_are_called_by_name(void **state)
{
    enum tt_coll_kind kind;

    (void)state;
    for (unsigned k = 0; k < TT_COLL_KINDS; k++) {
        assert_true(tt_coll_parse(tt_coll_name((enum tt_coll_kind)k), &kind));
        assert_int_equal(kind, k);
    }
    assert_string_equal(tt_coll_name(TT_COLL_KINDS), "?");
    kind = TT_BARRIER;
    assert_false(tt_coll_parse("allfoo", &kind));
    assert_false(tt_coll_parse("", &kind));
    assert_int_equal(kind, TT_BARRIER);
}

static void blocks_cover_the_vector_evenly(void **state)
{
    static const uint64_t counts[] = { 0, 1, 6, 7, 8, 4096, 65537 };

    (void)state;
    for (uint32_t elem = 1; elem <= 8; elem *= 2)
        for (uint32_t n = 1; n <= 17; n++)
            for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
                const uint64_t bytes = counts[k] * elem, shortest = counts[k] / n * elem;
                uint64_t at = 0, before = UINT64_MAX;

                for (uint32_t i = 0; i < n; i++) {
                    const uint64_t block = tt_block_bytes(bytes, elem, n, i);

                    assert_true(tt_block_offset(bytes, elem, n, i) == at);
                    assert_true(block == shortest || block == shortest + elem);
                    assert_true(block <= before);
                    before = block;
                    at += block;
                }
                assert_true(at == bytes && tt_block_offset(bytes, elem, n, n) == bytes);
            }
}

static void ref_ends_with_last_piece(void **state)
{
    static const struct {
        uint64_t offset, block, stride, bytes, begin, end;
    } cases[] = {
        { 10, 0, 0, 5, 10, 15 },  { 10, 0, 0, 0, 10, 10 },  { 10, 4, 16, 0, 10, 10 },
        { 10, 4, 16, 3, 10, 13 }, { 10, 4, 16, 4, 10, 14 }, { 10, 4, 16, 5, 10, 27 },
        { 0, 4, 16, 12, 0, 36 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_ref ref =
            tt_strided(tt_work(cases[i].offset), cases[i].block, cases[i].stride);
        uint64_t begin, end;

        tt_ref_extent(&ref, cases[i].bytes, &begin, &end);
        assert_true(begin == cases[i].begin && end == cases[i].end);
    }
}

static void in_place_buffers_are_identical(void **state)
{
    static const struct {
        enum tt_coll_kind kind;
        bool on_root_only;
        struct tt_ref ref, is;
    } cases[] = {
        /* rank 2 of 4, 100 B */
        { TT_ALLREDUCE,
          false,
          { .buf = TT_BUF_SRC, .offset = 7 },
          { .buf = TT_BUF_DST, .offset = 7 } },
        { TT_ALLREDUCE,
          false,
          { .buf = TT_BUF_DST, .offset = 7 },
          { .buf = TT_BUF_DST, .offset = 7 } },
        { TT_ALLTOALL,
          false,
          { .buf = TT_BUF_SRC, .offset = 107 },
          { .buf = TT_BUF_DST, .offset = 107 } },
        { TT_ALLTOALLV,
          false,
          { .buf = TT_BUF_SRC, .offset = 107 },
          { .buf = TT_BUF_DST, .offset = 107 } },
        { TT_ALLGATHER,
          false,
          { .buf = TT_BUF_SRC, .offset = 7 },
          { .buf = TT_BUF_DST, .offset = 207 } },
        { TT_GATHER,
          true,
          { .buf = TT_BUF_SRC, .offset = 7 },
          { .buf = TT_BUF_DST, .offset = 207 } },
        { TT_REDUCE, true, { .buf = TT_BUF_SRC, .offset = 7 }, { .buf = TT_BUF_DST, .offset = 7 } },
        { TT_BROADCAST,
          true,
          { .buf = TT_BUF_SRC, .offset = 7 },
          { .buf = TT_BUF_DST, .offset = 7 } },
        { TT_REDUCE_SCATTER,
          false,
          { .buf = TT_BUF_DST, .offset = 7 },
          { .buf = TT_BUF_SRC, .offset = 207 } },
        { TT_REDUCE_SCATTER,
          false,
          { .buf = TT_BUF_SRC, .offset = 7 },
          { .buf = TT_BUF_SRC, .offset = 7 } },
        { TT_SCATTER,
          true,
          { .buf = TT_BUF_DST, .offset = 7 },
          { .buf = TT_BUF_SRC, .offset = 207 } },
        { TT_ALLREDUCE,
          false,
          { .buf = TT_BUF_PIPE, .offset = 7 },
          { .buf = TT_BUF_PIPE, .offset = 7 } },
        { TT_ALLREDUCE,
          false,
          { .buf = TT_BUF_WORK, .offset = 7 },
          { .buf = TT_BUF_WORK, .offset = 7 } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_coll c = {
            .kind = cases[i].kind,
            .rank = 2,
            .nranks = 4,
            .root = 2,
            .elem_bytes = 1,
            .bytes = 100,
            .in_place = true,
        };
        struct tt_ref is = tt_coll_canonical(&c, cases[i].ref);

        assert_true(is.buf == cases[i].is.buf && is.offset == cases[i].is.offset);
        c.root = 1;
        is = tt_coll_canonical(&c, cases[i].ref);
        assert_true((is.buf == cases[i].ref.buf && is.offset == cases[i].ref.offset) ==
                    (cases[i].on_root_only || (cases[i].is.buf == cases[i].ref.buf &&
                                               cases[i].is.offset == cases[i].ref.offset)));
        c.root = 2;
        c.in_place = false;
        is = tt_coll_canonical(&c, cases[i].ref);
        assert_true(is.buf == cases[i].ref.buf && is.offset == cases[i].ref.offset);
    }
}

static void strided_ref_keeps_its_shape(void **state)
{
    const struct tt_coll c = { .kind = TT_ALLGATHER,
                               .rank = 2,
                               .nranks = 4,
                               .elem_bytes = 1,
                               .bytes = 100,
                               .in_place = true };
    const struct tt_ref is = tt_coll_canonical(&c, tt_strided(tt_src(1), 2, 3));

    (void)state;
    assert_true(is.buf == TT_BUF_DST && is.offset == 201 && is.block == 2 && is.stride == 3);
}

static void buffers_end_with_their_last_block(void **state)
{
    const uint64_t bytes[] = { 10, 0, 30 }, displs[] = { 50, 900, 0 };
    struct tt_coll c = { .kind = TT_GATHERV,
                         .nranks = 3,
                         .root = 0,
                         .elem_bytes = 1,
                         .recv_bytes = bytes,
                         .recv_displs = displs };

    (void)state;
    assert_int_equal(tt_coll_src_bytes(&c), 10);
    assert_int_equal(tt_coll_dst_bytes(&c), 60);        /* an empty block at 900 does not count */
    c.rank = 2;
    assert_int_equal(tt_coll_src_bytes(&c), 30);
    assert_int_equal(tt_coll_dst_bytes(&c), 0);         /* ignored on other ranks than the root */
    c = (struct tt_coll){ .kind = TT_SCATTER, .rank = 1, .nranks = 3, .elem_bytes = 1, .bytes = 5 };
    assert_int_equal(tt_coll_src_bytes(&c), 0);
    assert_int_equal(tt_coll_dst_bytes(&c), 5);
    c.rank = 0;
    assert_int_equal(tt_coll_src_bytes(&c), 15);
    c.kind = TT_BARRIER;
    assert_int_equal(tt_coll_src_bytes(&c) + tt_coll_dst_bytes(&c), 0);
}

/* More than 4 GiB, on more ranks than 16 bits can hold. */
static void sizes_do_not_overflow_32_bits(void **state)
{
    const struct tt_coll c = {
        .kind = TT_ALLGATHER, .rank = 131071, .nranks = 131072, .elem_bytes = 8, .bytes = 1ull << 33
    };

    (void)state;
    assert_true(tt_coll_dst_bytes(&c) == 1ull << 50);
    assert_true(tt_block_offset(1ull << 50, 8, 131072, 131071) == 131071ull << 33);
}

static void empty_steps_name_no_memory(void **state)
{
    struct tt_step steps[4];
    struct tt_sched s = { .steps = steps, .cap = 4 };

    (void)state;
    tt_sched_copy(&s, tt_dst(0), tt_src(0), 0);
    tt_sched_reduce(&s, tt_dst(0), tt_src(0), tt_pipe(1), 0, true);
    assert_int_equal(s.n, 0);
    tt_sched_put(&s, 1, tt_pipe(3), tt_pipe(4), 0, 9);
    tt_sched_put(&s, 1, tt_src(3), tt_there(), 0, 9);
    tt_sched_wait(&s, 1, tt_pipe(4), 0, 9);
    assert_int_equal(s.n, 3);
    assert_int_equal(steps[0].a.buf, TT_BUF_DST);
    assert_int_equal(steps[0].out.buf, TT_BUF_DST);
    assert_int_equal(steps[1].out.buf, TT_BUF_THERE);
    assert_int_equal(steps[2].out.buf, TT_BUF_DST);
    assert_int_equal(steps[2].out.offset, 0);
}

static void step_has_the_given_fields(void **state)
{
    struct tt_step steps[2];
    struct tt_sched s = { .steps = steps, .cap = 2 };

    (void)state;
    tt_sched_put(&s, 5, tt_src(8), tt_dst(16), 24, 7);
    tt_sched_reduce(&s, tt_work(8), tt_src(16), tt_pipe(2), 24, true);
    assert_int_equal(s.n, 2);
    assert_true(steps[0].opcode == TT_PUT && steps[0].peer == 5 && steps[0].tag == 7 &&
                steps[0].bytes == 24);
    assert_true(steps[0].a.buf == TT_BUF_SRC && steps[0].a.offset == 8 &&
                steps[0].out.buf == TT_BUF_DST);
    assert_true(steps[1].opcode == TT_REDUCE_STEP && steps[1].finish &&
                steps[1].out.buf == TT_BUF_WORK);
    assert_true(steps[1].a.buf == TT_BUF_SRC && steps[1].b.buf == TT_BUF_PIPE &&
                steps[1].b.offset == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_called_by_name),
        cmocka_unit_test(blocks_cover_the_vector_evenly),
        cmocka_unit_test(ref_ends_with_last_piece),
        cmocka_unit_test(in_place_buffers_are_identical),
        cmocka_unit_test(strided_ref_keeps_its_shape),
        cmocka_unit_test(buffers_end_with_their_last_block),
        cmocka_unit_test(sizes_do_not_overflow_32_bits),
        cmocka_unit_test(empty_steps_name_no_memory),
        cmocka_unit_test(step_has_the_given_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
