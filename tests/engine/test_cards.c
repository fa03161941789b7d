/* Cards come out as they went in, whatever they are, and those that differ in little take little. */
#include "support/unit.h"

#include <string.h>
#include "base/prng.h"
#include "engine/cards.h"
#include "wire/tcp_frame.h"
#include "wire/verbs_frame.h"

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

/* The cards of 1,024 ranks as engines make them: the host, then the wires' addresses, of which that of verbs holds that of the tcp wire inside. Hosts differ
 * in a hash and in addresses, ranks in ports. */
static size_t card_of(struct tt_prng *prng, uint32_t rank, uint32_t per_host, bool tcp,
                      uint8_t card[TT_ENGINE_CARD_BYTES])
{
    const uint32_t host = rank / per_host;
    struct tt_writer w;

    tt_writer_init(&w, card, TT_ENGINE_CARD_BYTES);
    tt_write_u64(&w, tt_mix64(host + 1));
    tt_write_u8(&w, tcp ? 2 : 1);
    for (int i = 0; i <= tcp; i++) {
        struct tt_tcp_address inner = { .host = tt_mix64(host + 1),
                                        .port = (uint16_t)(32768 + tt_prng_below(prng, 28232)) };
        struct tt_verbs_address verbs = { .infiniband = true, .subnet = 0xfe80ull << 48 };
        struct tt_blob address;

        for (uint8_t k = 0; k < 3; k++) {       /* a network for management, and two rails */
            const uint8_t ip[16] = { 10, k, (uint8_t)(host >> 8), (uint8_t)host };

            tt_tcp_address_add(&inner, 4, ip);
        }
        tt_tcp_address_write(&inner, &address);
        if (i == 0) {
            verbs.tcp = address;
            tt_verbs_address_write(&verbs, &address);
        }
        tt_write_string(&w, i ? "tcp" : "verbs");
        tt_write_u16(&w, address.bytes);
        tt_write_bytes(&w, address.data, address.bytes);
    }
    assert_false(w.bad);
    return tt_writer_bytes(&w);
}

/* What is left of 64 bytes for an idle rank's card, beside the overlay's 9 and the communicator's 4. */
static void cards_of_ranks_with_verbs_leave_an_idle_rank_its_64_bytes(void **state)
{
    static const struct {
        uint32_t per_host;
        bool tcp;
    } jobs[] = { { 1, false }, { 8, false }, { 2, true }, { 8, true } };

    (void)state;
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        uint8_t card[TT_ENGINE_CARD_BYTES], out[TT_ENGINE_CARD_BYTES];
        struct tt_prng prng, again;
        struct tt_cards c;

        tt_prng_init(&prng, 1);
        again = prng;
        assert_int_equal(tt_cards_init(&c, 1024), TUTTI_OK);
        for (uint32_t rank = 0; rank < 1024; rank++) {
            const size_t bytes = card_of(&prng, rank, jobs[j].per_host, jobs[j].tcp, card);

            assert_int_equal(tt_cards_put(&c, rank, card, bytes), TUTTI_OK);
        }
        tt_cards_settle(&c);
        print_message("%u ranks a host, verbs%s: %.1f bytes a card\n", jobs[j].per_host, jobs[j].tcp ? " and tcp" : "", (double)tt_cards_bytes(&c) / 1024);
        assert_true(tt_cards_bytes(&c) <= 1024 * (64 - 9 - 4));
        for (uint32_t rank = 0; rank < 1024; rank++) {
            const size_t bytes = card_of(&again, rank, jobs[j].per_host, jobs[j].tcp, card);

            assert_int_equal(tt_cards_get(&c, rank, out), bytes);
            assert_memory_equal(out, card, bytes);
        }
        tt_cards_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_come_out_as_they_went_in),
        cmocka_unit_test(cards_of_one_job_take_little),
        cmocka_unit_test(cards_of_ranks_with_verbs_leave_an_idle_rank_its_64_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
