/* The contents of headers, and the positions that follow from lists of pieces. */
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "moe/pieces.h"
#include "support/unit.h"

/* The example of tutti/moe.h: pieces 0, 2 and 3 are one piece and a stretch of two. */
static void adjacent_pieces_form_a_stretch(void **state)
{
    const struct tt_pieces_shape s = {
        .nranks = 2, .nsplits = 4, .elem_bytes = 2, .max_length = 256, .max_total = 768
    };
    const size_t splits[] = { 128, 256, 256, 128 }, indices[] = { 0, 1, 0, 2, 3 },
                 lens[] = { 2, 3 };
    const tutti_dynamic what = { .split_lengths = splits,
                                 .indices = indices,
                                 .index_block_lens = lens };
    struct tt_stretch out[2] = { { 0 } };
    uint64_t lengths[4];
    uint8_t wanted[2];
    struct tt_head h;

    (void)state;
    tt_pieces_read(&s, &what, lengths, wanted, &h);
    assert_int_equal(h.flaw, TT_FLAW_NONE);
    assert_int_equal(wanted[0], 3);
    assert_int_equal(wanted[1], 13);
    assert_int_equal(tt_pieces_total(&s, lengths, &wanted[1]), 512);
    assert_int_equal(tt_pieces_stretches(&s, lengths, &wanted[1], out), 2);
    assert_int_equal(out[0].offset, 0);
    assert_int_equal(out[0].bytes, 256);
    assert_int_equal(out[1].offset, 768);
    assert_int_equal(out[1].bytes, 768);
}

static void an_empty_piece_ends_no_stretch(void **state)
{
    const struct tt_pieces_shape s = {
        .nranks = 1, .nsplits = 4, .elem_bytes = 1, .max_length = 9, .max_total = 36
    };
    const uint64_t lengths[] = { 0, 5, 0, 6 };
    const uint8_t ends = 2 | 8, all = 15, empty = 1 | 4;

    (void)state;
    assert_int_equal(tt_pieces_stretches(&s, lengths, &ends, NULL), 1);
    assert_int_equal(tt_pieces_stretches(&s, lengths, &all, NULL), 1);
    assert_int_equal(tt_pieces_stretches(&s, lengths, &empty, NULL), 0);
}

#define HEADS 2000

static void draw(struct tt_prng *p, struct tt_pieces_shape *s, uint64_t *lengths, uint8_t *wanted)
{
    static const uint64_t longest[] = { 3, 255, 256, 65536, 1ull << 33 };

    *s = (struct tt_pieces_shape){
        .nranks = 3,
        .nsplits = 1 + (uint32_t)tt_prng_below(p, 70),
        .elem_bytes = 1u << tt_prng_below(p, 4),
        .max_length = longest[tt_prng_below(p, 5)],
    };
    s->max_total = s->nsplits * s->max_length;
    memset(wanted, 0, tt_pieces_requested_bytes(s));
    for (uint32_t i = 0; i < s->nsplits; i++) {
        lengths[i] = tt_prng_below(p, s->max_length < 20 ? s->max_length + 1 : 20);
        wanted[i / 8] |= (uint8_t)(tt_prng_below(p, 2) << i % 8);
    }
}

/* A header is read as written, packed pieces are placed and holes stay unchanged; truncated or
 * changed headers cause no reads beyond their end. */
static void header_is_read_as_written(void **state)
{
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 5);
    for (int k = 0; k < HEADS; k++) {
        uint64_t lengths[70], again[70];
        uint8_t wanted[9], *data, *src, *dst;
        const uint8_t *theirs, *pieces;
        struct tt_pieces_shape s;
        struct tt_head h = { .packed = tt_prng_below(&p, 2) }, got;
        size_t total, room, bytes;

        draw(&p, &s, lengths, wanted);
        if (!unit_draw())
            continue;
        total = tt_pieces_total(&s, lengths, NULL) * s.elem_bytes;
        h.most = h.packed ? 0 : (uint32_t)tt_pieces_stretches(&s, lengths, wanted, NULL);
        room = tt_pieces_head_bytes(&s) +
               (h.packed ? tt_pieces_total(&s, lengths, wanted) * s.elem_bytes : 0);
        data = malloc(room);
        src = malloc(total + 1);
        dst = calloc(1, total + 1);
        assert_true(data && src && dst);
        for (size_t i = 0; i < total; i++)
            src[i] = (uint8_t)(1 + i % 255);
        bytes = tt_head_write(&s, &h, lengths, wanted, src, data);
        assert_int_equal(bytes, room);
        assert_true(tt_head_read(&s, data, bytes, &got, again, &theirs, &pieces));
        assert_int_equal(got.packed, h.packed);
        assert_int_equal(got.most, h.most);
        assert_memory_equal(again, lengths, s.nsplits * sizeof *again);
        assert_memory_equal(theirs, wanted, tt_pieces_requested_bytes(&s));
        if (h.packed) {
            tt_pieces_unpack(&s, again, theirs, pieces, dst);
            for (size_t i = 0, at = 0; i < s.nsplits; at += lengths[i] * s.elem_bytes, i++)
                for (size_t b = at; b < at + lengths[i] * s.elem_bytes; b++)
                    assert_int_equal(dst[b], wanted[i / 8] >> i % 8 & 1 ? src[b] : 0);
        }
        assert_false(
            tt_head_read(&s, data, tt_pieces_head_bytes(&s) - 1, &got, again, &theirs, &pieces));
        if (h.packed && room > tt_pieces_head_bytes(&s))
            assert_false(tt_head_read(&s, data, room - 1, &got, again, &theirs, &pieces));
        free(data);
        free(src);
        free(dst);
    }
}

/* From a header that is sent to all ranks, each rank reads its own part. Such a header cannot
 * announce packed pieces. */
static void common_header_serves_each_rank(void **state)
{
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 6);
    for (int k = 0; k < HEADS; k++) {
        uint64_t lengths[70], again[70];
        uint8_t wanted[3 * 9], data[TT_HEAD_BYTES + 70 * 8 + 3 * 9];
        const uint8_t *theirs, *pieces;
        struct tt_pieces_shape s, each;
        struct tt_head h = { .most = 35 }, got;
        size_t map_bytes, bytes;

        draw(&p, &s, lengths, wanted);
        if (!unit_draw())
            continue;
        each = s;
        s.to_all = true;
        map_bytes = tt_pieces_requested_bytes(&s);
        h.most = (s.nsplits + 1) / 2;
        for (uint32_t r = 1; r < s.nranks; r++)
            for (size_t b = 0; b < map_bytes; b++)
                wanted[r * map_bytes + b] =
                    (uint8_t)(tt_prng_u64(&p) & (b + 1 < map_bytes || s.nsplits % 8 == 0
                                                     ? 255
                                                     : (1u << s.nsplits % 8) - 1));
        bytes = tt_head_write(&s, &h, lengths, wanted, NULL, data);
        assert_int_equal(bytes, tt_pieces_head_bytes(&each) + 2 * map_bytes);
        for (s.rank = 0; s.rank < s.nranks; s.rank++) {
            assert_true(tt_head_read(&s, data, bytes, &got, again, &theirs, &pieces));
            assert_memory_equal(theirs, wanted + s.rank * map_bytes, map_bytes);
            assert_memory_equal(again, lengths, s.nsplits * sizeof *again);
            assert_false(tt_head_read(&s, data, bytes - 1, &got, again, &theirs, &pieces));
        }
        s.rank = 0;
        data[1] = 1;            /* packed */
        assert_false(tt_head_read(&s, data, bytes, &got, again, &theirs, &pieces));
    }
}

static void invalid_headers_are_refused(void **state)
{
    const struct tt_pieces_shape s = {
        .nranks = 2, .nsplits = 3, .elem_bytes = 1, .max_length = 10, .max_total = 20
    };
    static const struct {
        struct tt_head head;
        uint64_t lengths[3];
        uint8_t wanted;
    } wrong[] = {
        { { .flaw = TT_FLAWS }, { 0 }, 0 },
        { { .flaw = TT_FLAW_LENGTH, .at = 3, .value = 11 }, { 0 }, 0 },
        { { .flaw = TT_FLAW_LENGTH, .at = 1, .value = 10 }, { 0 }, 0 },
        { { .flaw = TT_FLAW_TOTAL, .value = 20 }, { 0 }, 0 },
        { { .flaw = TT_FLAW_SUM, .at = 4, .value = 4 }, { 0 }, 0 },
        { { .flaw = TT_FLAW_INDEX, .value = 2 }, { 0 }, 0 },
        { { .flaw = TT_FLAW_OVERLAP, .at = 2 }, { 0 }, 0 },
        { { .flaw = TT_FLAW_NULL }, { 0 }, 0 },
        { { .flaw = TT_FLAW_SPACE, .at = 2, .value = 1 }, { 0 }, 0 },
        { { .flaw = TT_FLAW_SPACE }, { 0 }, 0 },
        { { .most = 3 }, { 0 }, 0 },
        { { .most = 1 }, { 11, 0, 0 }, 1 },
        { { .most = 1 }, { 10, 10, 1 }, 7 },
        { { .most = 1 }, { 1, 1, 1 }, 5 },
        { { .most = 1 }, { 1, 1, 1 }, 8 },
    };
    uint8_t data[64] = { 0 };
    const uint8_t *wanted, *pieces;
    uint64_t lengths[3];
    struct tt_head h;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tt_head_write(&s, &wrong[i].head, wrong[i].lengths, &wrong[i].wanted, NULL, data);
        assert_false(tt_head_read(&s, data, sizeof data, &h, lengths, &wanted, &pieces));
    }
}

/* The first error is reported, with its position and kind. */
static void error_has_kind_and_position(void **state)
{
    const struct tt_pieces_shape s = {
        .nranks = 2, .nsplits = 3, .elem_bytes = 4, .max_length = 10, .max_total = 25
    };
    static const struct {
        size_t splits[3], indices[2], lens[2], nindices;
        struct tt_head is;
    } cases[] = {
        { { 10, 10, 5 }, { 0, 2 }, { 1, 1 }, 2, { .flaw = TT_FLAW_NONE } },
        { { 1, 11, 12 }, { 9, 2 }, { 1, 1 }, 7, { .flaw = TT_FLAW_LENGTH, .at = 1, .value = 11 } },
        { { 10, 10, 6 }, { 9, 2 }, { 1, 1 }, 7, { .flaw = TT_FLAW_TOTAL, .value = 26 } },
        { { 1, 1, 1 }, { 9, 2 }, { 1, 1 }, 3, { .flaw = TT_FLAW_SUM, .at = 2, .value = 3 } },
        { { 1, 1, 1 }, { 9, 2 }, { SIZE_MAX, 1 }, 0, { .flaw = TT_FLAW_SUM, .at = UINT64_MAX } },
        { { 1, 1, 1 }, { 2, 3 }, { SIZE_MAX / 2, 1 }, SIZE_MAX / 2 + 1,
          { .flaw = TT_FLAW_SPACE, .at = TT_SPACE_INDICES, .value = SIZE_MAX / 2 + 1 } },
        { { 1, 1, 1 }, { 2, 3 }, { 1, 1 }, 2, { .flaw = TT_FLAW_INDEX, .at = 1, .value = 3 } },
    };
    uint64_t lengths[3];
    uint8_t wanted[2];
    struct tt_head h;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tutti_dynamic what = {
            .split_lengths = cases[i].splits,
            .indices = cases[i].indices,
            .index_block_lens = cases[i].lens,
            .nindices = &cases[i].nindices,
        };

        tt_pieces_read(&s, &what, lengths, wanted, &h);
        assert_int_equal(h.flaw, cases[i].is.flaw);
        assert_int_equal(h.at, cases[i].is.at);
        assert_int_equal(h.value, cases[i].is.value);
        assert_int_equal(tt_head_status(&s, &h, 1, "test") != TUTTI_OK, h.flaw != TT_FLAW_NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adjacent_pieces_form_a_stretch),
        cmocka_unit_test(an_empty_piece_ends_no_stretch),
        cmocka_unit_test(header_is_read_as_written),
        cmocka_unit_test(common_header_serves_each_rank),
        cmocka_unit_test(invalid_headers_are_refused),
        cmocka_unit_test(error_has_kind_and_position),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
