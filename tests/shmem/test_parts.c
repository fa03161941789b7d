/* Parts of the OpenSHMEM library that need no job: the allocator of its heap, the parser of sizes,
 * and its own reductions. */
#include <complex.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "fold.h"
#include "pieces.h"
#include "size.h"
#include "support/unit.h"

#define HEAP 4096u
#define STEPS (UNIT_SHARE > 1 ? 2000u : 20000u)

/* A heap of bytes, each with the number of its piece: random allocations and frees; pieces never
 * overlap, leave the heap, or change their size. */
static void pieces_do_not_overlap(void **state)
{
    uint8_t owner[HEAP] = { 0 };
    size_t at[256] = { 0 }, bytes[256] = { 0 };
    struct sh_pieces p;
    struct tt_prng prng;

    (void)state;
    tt_prng_init(&prng, 20261122);
    sh_pieces_init(&p, HEAP);
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t i = 1 + (uint32_t)tt_prng_below(&prng, 255);
        const size_t alignment = (size_t)1 << tt_prng_below(&prng, 8),
                     wanted = 1 + tt_prng_below(&prng, 200);

        if (!bytes[i]) {
            const size_t offset = sh_pieces_take(&p, wanted, alignment);

            if (offset == SH_PIECES_NONE)
                continue;
            assert_true(offset % alignment == 0 && offset + wanted <= HEAP);
            for (size_t k = 0; k < wanted; k++)
                assert_int_equal(owner[offset + k], 0);
            at[i] = offset;
            bytes[i] = wanted;
        } else if (tt_prng_below(&prng, 3) == 0) {
            if (!sh_pieces_resize(&p, at[i], wanted))
                continue;
            memset(owner + at[i], 0, bytes[i]);
            for (size_t k = 0; k < wanted; k++)
                assert_int_equal(owner[at[i] + k], 0);
            bytes[i] = wanted;
        } else {
            assert_int_equal(sh_pieces_bytes(&p, at[i]), bytes[i]);
            assert_true(sh_pieces_give(&p, at[i]));
            memset(owner + at[i], 0, bytes[i]);
            bytes[i] = 0;
        }
        memset(owner + at[i], bytes[i] ? (int)i : 0, bytes[i]);
    }
    for (uint32_t i = 1; i < 256; i++)
        assert_true(!bytes[i] || sh_pieces_give(&p, at[i]));
    assert_int_equal(sh_pieces_take(&p, 100, 64), 0);
    assert_int_equal(sh_pieces_take(&p, 8, 1024), 1024);
    assert_int_equal(sh_pieces_free(&p, at), HEAP - 108);
    assert_int_equal(at[0], HEAP - 1032);                   /* the largest */
    assert_true(sh_pieces_give(&p, 0) && sh_pieces_give(&p, 1024));
    assert_int_equal(sh_pieces_take(&p, HEAP, 64), 0);      /* nothing was lost */
    assert_int_equal(sh_pieces_free(&p, at), 0);
    assert_int_equal(sh_pieces_take(&p, 1, 1), SH_PIECES_NONE);
    assert_false(sh_pieces_give(&p, 8));
    assert_false(sh_pieces_resize(&p, 8, 1));
    assert_int_equal(sh_pieces_bytes(&p, 8), 0);
    sh_pieces_fini(&p);
}

static void sizes_are_numbers_with_units(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;           /* SIZE_MAX: invalid */
    } cases[] = {
        { "0", 0 },
        { "512", 512 },
        { "64m", 64 << 20 },
        { "1.5K", 1536 },
        { "2g", (size_t)2 << 30 },
        { "1T", (size_t)1 << 40 },
        { ".5k", 512 },
        { "", SIZE_MAX },
        { "m", SIZE_MAX },
        { "-1", SIZE_MAX },
        { "+1", SIZE_MAX },
        { "1e3", SIZE_MAX },
        { "inf", SIZE_MAX },
        { "nan", SIZE_MAX },
        { "0x10", SIZE_MAX },
        { " 1", SIZE_MAX },
        { "1 ", SIZE_MAX },
        { "1KB", SIZE_MAX },
        { "1..5", SIZE_MAX },
        { "99999999999999999999", SIZE_MAX },
        { "9999999999T", SIZE_MAX },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = 77;
        const bool good = sh_size_parse(cases[i].text, &bytes);

        if (good != (cases[i].bytes != SIZE_MAX) || bytes != (good ? cases[i].bytes : 77))
            fail_msg("\"%s\": %d, %zu", cases[i].text, good, bytes);
    }
}

static void local_reductions_match_c(void **state)
{
    int16_t a[2] = { 30000, -7 };
    const int16_t b[2] = { 10000, 9 };
    long double x = 0.1L;
    const long double y = 0.2L;
    double _Complex z = 1 + 2 * I;
    const double _Complex w = 3 - I;
    uint8_t bits = 0xcc;
    const uint8_t mask = 0xaa;

    (void)state;
    sh_fold_of(SH_I16, SH_SUM)(a, b, 2);
    assert_int_equal(a[0], (int16_t)40000);
    assert_int_equal(a[1], 2);
    sh_fold_of(SH_I16, SH_MIN)(a, b, 2);
    assert_int_equal(a[0], (int16_t)40000);
    assert_int_equal(a[1], 2);
    sh_fold_of(SH_I16, SH_MAX)(a, b, 2);
    assert_int_equal(a[0], 10000);
    sh_fold_of(SH_LONG_DOUBLE, SH_PROD)(&x, &y, 1);
    assert_true(x == 0.1L * 0.2L);
    sh_fold_of(SH_COMPLEX_DOUBLE, SH_PROD)(&z, &w, 1);
    assert_true(z == 5 + 5 * I);
    sh_fold_of(SH_U8, SH_XOR)(&bits, &mask, 1);
    assert_int_equal(bits, 0x66);
    assert_null(sh_fold_of(SH_COMPLEX_FLOAT, SH_MAX));
    assert_null(sh_fold_of(SH_F32, SH_AND));
    for (int type = 0; type < SH_TYPES; type++)
        for (int op = SH_SUM; op <= SH_PROD; op++)
            assert_true(sh_fold_of((enum sh_type)type, (enum sh_op)op) &&
                        sh_type_bytes((enum sh_type)type));
}

static void c_types_map_correctly(void **state)
{
    (void)state;
    assert_int_equal(SH_TYPE(long), SH_I64);
    assert_int_equal(SH_TYPE(unsigned long long), SH_U64);
    assert_int_equal(SH_TYPE(signed char), SH_I8);
    assert_int_equal(SH_TYPE(char), (char)-1 < 0 ? SH_I8 : SH_U8);
    assert_int_equal(SH_TYPE(unsigned short), SH_U16);
    assert_int_equal(SH_TYPE(float), SH_F32);
    assert_int_equal(SH_TYPE(long double), SH_LONG_DOUBLE);
    assert_int_equal(SH_TYPE(double _Complex), SH_COMPLEX_DOUBLE);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_do_not_overlap),
        cmocka_unit_test(sizes_are_numbers_with_units),
        cmocka_unit_test(local_reductions_match_c),
        cmocka_unit_test(c_types_map_correctly),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
