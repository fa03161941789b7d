/* Numbers in transfer formats, the holders of experts, and the destinations of tokens. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "moe/route.h"
#include "reduce/convert.h"
#include "support/unit.h"
#include "tutti/moe_device.h"

/* ---- numbers ---- */

/* Kernels compute the same as the library, for every code and for floats of every magnitude. */
static void narrow_numbers_match_the_reductions(void **state)
{
    struct tt_prng p;

    (void)state;
    for (uint32_t code = 0; code < 1u << 16; code++)
        assert_int_equal(tutti_moe_bits(tutti_moe_from_bf16((uint16_t)code)),
                         tt_bits_of_float(tt_bf16_widen((uint16_t)code)));
    for (uint32_t code = 0; code < 256; code++)
        assert_int_equal(tutti_moe_bits(tutti_moe_from_e4m3((uint8_t)code)),
                         tt_bits_of_float(tt_e4m3_widen((uint8_t)code)));
    tt_prng_init(&p, 20261127);
    for (uint32_t i = 0; i < 1000000; i++) {
        const uint32_t bits = (uint32_t)tt_prng_u64(&p);
        /* half of them in the range of 8 bits */
        const float x = tutti_moe_float(i % 2 ? bits : (bits & 0x87ffffff) + 0x3a000000);

        assert_int_equal(tutti_moe_to_bf16(x), tt_bf16_narrow(x));
        assert_int_equal(tutti_moe_to_e4m3(x), tt_e4m3_narrow(x));
    }
}

#define ELEMS 100

static float draw_scaled(struct tt_prng *p, int exponent)
{
    return ldexpf((float)((double)tt_prng_below(p, 1u << 24) / (1u << 23) - 1), exponent);
}

/* The bound of tutti/moe.h, for elements of any magnitude, also at the limits of scales; bytes
 * behind the last element are unchanged. */
static void eight_bit_row_keeps_its_bound(void **state)
{
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 8);
    for (uint32_t i = 0; i < 3000; i++) {
        const uint32_t elems = 1 + (uint32_t)tt_prng_below(&p, ELEMS),
                       share = (uint32_t)tt_prng_below(&p, elems + 2);
        const tutti_moe_row row = tutti_moe_row_of(TUTTI_F8E4M3, elems, share);
        const int exponent = (int)tt_prng_below(&p, 268) - 140;
        _Alignas(16) uint8_t bytes[ELEMS * 5 + 64];
        float x[ELEMS], back[ELEMS];

        assert_true(row.bytes % 16 == 0 && row.bytes + 16 <= sizeof bytes);
        memset(bytes, 0xee, sizeof bytes);
        for (uint32_t k = 0; k < elems; k++)
            x[k] = draw_scaled(&p, exponent - (int)tt_prng_below(&p, 12));
        tutti_moe_row_write(&row, bytes, x, TUTTI_F32);
        tutti_moe_row_read(&row, bytes, back);
        for (uint32_t k = 0; k < elems; k++) {
            const double scale = (double)*tutti_moe_scale_at(&row, bytes, k),
                         error = fabs((double)back[k] - (double)x[k]);

            assert_true(error <= fmax(fabs((double)x[k]) * 0x1p-4, scale * 0x1p-10));
        }
        for (size_t k = row.bytes; k < sizeof bytes; k++)
            assert_int_equal(bytes[k], 0xee);
    }
}

static void non_numbers_spoil_only_their_scale(void **state)
{
    const tutti_moe_row row = tutti_moe_row_of(TUTTI_F8E4M3, 8, 4);
    _Alignas(16) uint8_t bytes[64];
    float back[8];

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

        x[i] = i % 2 ? NAN : -INFINITY;
        tutti_moe_row_write(&row, bytes, x, TUTTI_F32);
        tutti_moe_row_read(&row, bytes, back);
        for (uint32_t k = 0; k < 8; k++) {
            if (k / 4 == i / 4)
                assert_true(isnan(back[k]));
            else
                assert_true(back[k] > (float)k && back[k] < (float)k + 2);
        }
    }
}

/* ---- holders of experts, and destinations of tokens ---- */

/* Three ranks: expert 1 is on all, 0 and 2 on one each. */
static void holding_of_three(struct tt_holding *h)
{
    const uint32_t nheld[] = { 2, 1, 2 }, held[] = { 0, 1, 1, 2, 1 };

    assert_int_equal(tt_holding_init(h, 3, 3, nheld, held, "test"), TUTTI_OK);
}

static void experts_are_found_at_holders(void **state)
{
    struct tt_holding h;

    (void)state;
    holding_of_three(&h);
    assert_int_equal(h.nslots, 5);
    assert_int_equal(h.most, 2);
    assert_int_equal(h.of_first[0], 0);
    assert_int_equal(h.of_first[1], 1);
    assert_int_equal(h.of_first[2], 4);
    assert_int_equal(h.of_first[3], 5);
    assert_int_equal(h.of[0], 0);
    assert_int_equal(h.of[1], 1);       /* expert 1: slots 1, 2 and 4, on ranks 0, 1 and 2 */
    assert_int_equal(h.of[2], 2);
    assert_int_equal(h.of[3], 4);
    assert_int_equal(h.of[4], 3);
    assert_int_equal(h.rank[2], 1);
    assert_int_equal(h.rank[4], 2);
    tt_holding_fini(&h);
}

/* Tokens of rank 1 for an expert held by three ranks: to ranks 1, 2, 0, 1; rows of a rank are
 * adjacent, sorted by slot. */
static void rows_alternate_between_holders(void **state)
{
    const uint32_t experts[] = { 1, 2, 1, TUTTI_MOE_NONE, 1, 0, 1, 2 };
    const float weights[8] = { 0 };
    const tutti_moe_routing routing = {
        .tokens = weights, .ntokens = 4, .experts = experts, .weights = weights
    };
    const uint32_t rows_expected[] = { 5, 4, 0, 6, 1, 7, 2 };
    uint32_t rows[8], row_experts[8], places[8];
    struct tt_holding h;
    struct tt_route t;

    (void)state;
    holding_of_three(&h);
    assert_int_equal(tt_route_check(&routing, 3, 2, 4).kind, TT_ROUTE_GOOD);
    assert_true(tt_route_init(&t, &h, 8));
    tt_route_make(&t, &h, &routing, 2, 1, 100, rows, row_experts, places);
    assert_int_equal(t.nrows, 7);
    assert_int_equal(t.first[1], 2);
    assert_int_equal(t.first[2], 4);
    assert_int_equal(t.first[3], 7);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(rows[i], rows_expected[i]);
        assert_int_equal(row_experts[i], experts[rows[i]]);
    }
    assert_int_equal(places[5], 0);
    assert_int_equal(places[4], 1);
    assert_int_equal(places[0], 100);
    assert_int_equal(places[1], 200);
    assert_int_equal(places[2], 202);
    assert_int_equal(places[3], TUTTI_MOE_NONE);
    tt_route_fini(&t);
    tt_holding_fini(&h);
}

static struct tt_route_flaw flaw_of(size_t ntokens, const void *tokens, const uint32_t *experts,
                                    const float *weights)
{
    const tutti_moe_routing routing = {
        .tokens = tokens, .ntokens = ntokens, .experts = experts, .weights = weights
    };

    return tt_route_check(&routing, 3, 2, 2);
}

static void first_error_is_reported(void **state)
{
    const uint32_t good[] = { 0, 1, 2, 1 }, far[] = { 0, 1, 2, 3 }, twice[] = { 0, 1, 2, 2 };
    const float weights[] = { 1, -1, 0, 2 }, bad[] = { 1, NAN, 0, INFINITY };
    struct tt_route_flaw f;

    (void)state;
    assert_int_equal(flaw_of(2, good, good, weights).kind, TT_ROUTE_GOOD);
    assert_int_equal(flaw_of(0, NULL, NULL, NULL).kind, TT_ROUTE_GOOD);
    assert_int_equal(flaw_of(3, good, good, weights).kind, TT_ROUTE_MANY);
    assert_int_equal(flaw_of(2, NULL, good, weights).kind, TT_ROUTE_NULL);
    assert_int_equal(flaw_of(2, good, good, NULL).value, 2);
    f = flaw_of(2, good, far, weights);
    assert_true(f.kind == TT_ROUTE_EXPERT && f.token == 1 && f.choice == 1 && f.value == 3);
    f = flaw_of(2, good, twice, weights);
    assert_true(f.kind == TT_ROUTE_TWICE && f.token == 1 && f.choice == 1 && f.value == 2);
    f = flaw_of(2, good, far, bad);
    assert_true(f.kind == TT_ROUTE_WEIGHT && f.token == 0 && f.choice == 1);
    assert_true(tt_route_flaw_sound(&f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow_numbers_match_the_reductions),
        cmocka_unit_test(eight_bit_row_keeps_its_bound),
        cmocka_unit_test(non_numbers_spoil_only_their_scale),
        cmocka_unit_test(experts_are_found_at_holders),
        cmocka_unit_test(rows_alternate_between_holders),
        cmocka_unit_test(first_error_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
