/* Cards come out as they went in, whatever they are, and those that differ in little take little. */
#include "support/unit.h"

#include <string.h>
#include "base/prng.h"
#include "engine/cards.h"

#define RANKS 64u
#define SEEDS 200

/* Alike to the one before, or not, and as long, or not. */
static size_t draw(struct tt_prng *prng, uint8_t *card, size_t bytes)
{
    const uint64_t kind = tt_prng_below(prng, 8);

    if (kind == 0)
        bytes = tt_prng_below(prng, TT_ENGINE_CARD_BYTES + 1);
    for (size_t i = 0; kind == 1 && i < bytes; i++)
        card[i] = (uint8_t)tt_prng_u64(prng);
    for (uint64_t n = tt_prng_below(prng, 20); kind > 1 && bytes > 0 && n > 0; n--)
        card[tt_prng_below(prng, bytes)] = (uint8_t)tt_prng_u64(prng);
    return bytes;
}

static void cards_come_out_as_they_went_in(void **state)
{
    static uint8_t all[RANKS][TT_ENGINE_CARD_BYTES];

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint8_t card[TT_ENGINE_CARD_BYTES] = { 0 }, out[TT_ENGINE_CARD_BYTES];
        size_t bytes[RANKS] = { 0 }, n = 200;
        struct tt_cards c;
        struct tt_prng prng;

        if (!unit_draw())
            continue;
        tt_prng_init(&prng, seed);
        assert_int_equal(tt_cards_init(&c, RANKS), TUTTI_OK);
        for (uint32_t i = 0; i < 2 * RANKS; i++) {      /* most come twice, otherwise */
            const uint32_t rank = (uint32_t)tt_prng_below(&prng, RANKS);

            n = draw(&prng, card, n);
            memset(all[rank], 0, sizeof all[rank]);
            memcpy(all[rank], card, n);
            bytes[rank] = n;
            assert_int_equal(tt_cards_put(&c, rank, card, n), TUTTI_OK);
        }
        tt_cards_settle(&c);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            if (bytes[rank] == 0)
                memset(all[rank], 0, sizeof all[rank]);
            assert_int_equal(tt_cards_get(&c, rank, out), bytes[rank]);
            assert_memory_equal(out, all[rank], sizeof out);
        }
        tt_cards_fini(&c);
    }
}

/* 1,024 hosts, whose cards differ in a hash, an address and a port at several places. */
static void cards_of_one_job_take_little(void **state)
{
    uint8_t card[150];
    struct tt_cards c;
    struct tt_prng prng;

    (void)state;
    tt_prng_init(&prng, 1);
    for (size_t i = 0; i < sizeof card; i++)
        card[i] = (uint8_t)tt_prng_u64(&prng);
    assert_int_equal(tt_cards_init(&c, 1024), TUTTI_OK);
    for (uint32_t rank = 0; rank < 1024; rank++) {
        tt_random_bytes(card, 8);
        tt_random_bytes(card + 60, 2);
        tt_random_bytes(card + 64, 4);
        assert_int_equal(tt_cards_put(&c, rank, card, sizeof card), TUTTI_OK);
    }
    tt_cards_settle(&c);
    assert_true(tt_cards_bytes(&c) <= 1024 * 32);
    tt_cards_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_come_out_as_they_went_in),
        cmocka_unit_test(cards_of_one_job_take_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
