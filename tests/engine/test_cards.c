/* Cards are read as they were written, whatever their contents, and similar cards take little
 * memory. */
#include "support/unit.h"

#include <string.h>
#include "base/prng.h"
#include "engine/cards.h"
#include "engine/state.h"
#include "wire/ofi/ofi_frame.h"
#include "wire/tcp/tcp_frame.h"
#include "wire/verbs/verbs_frame.h"
#include "wire/wires.h"

#define RANKS 64u
#define SEEDS 200

/* Draws a card: similar to the previous one or not, and of the same length or not. */
static size_t draw(struct tt_prng *prng, uint8_t *card, size_t bytes)
{
    const uint64_t kind = tt_prng_below(prng, 8);

    if (kind == 0)
        bytes = tt_prng_below(prng, TT_ENGINE_CARD_BYTES + 1);
    for (size_t i = 0; kind == 1 && i < bytes; i++)
        card[i] = (uint8_t)tt_prng_u64(prng);
    for (uint64_t n = tt_prng_below(prng, 20); kind > 1 && bytes > 0 && n > 0; n--)
        card[tt_prng_below(prng, bytes)] = (uint8_t)tt_prng_u64(prng);
    if (kind > 5 && bytes > 0) {        /* repeats a part, which may overlap itself */
        const size_t from = tt_prng_below(prng, bytes),
                     to = from + tt_prng_below(prng, bytes - from);

        for (size_t i = 0; i < 200 && to + i < bytes; i++)
            card[to + i] = card[from + i];
    }
    return bytes;
}

static void cards_are_read_as_written(void **state)
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
        for (uint32_t i = 0; i < 2 * RANKS; i++) {      /* most occur twice */
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

/* 1,024 hosts, whose cards differ in a hash, an address and a port at several offsets. */
static void similar_cards_take_little_memory(void **state)
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

/* ---- memory per idle rank ---- */

#define MANY 1024u

/* A job: ranks per host, and its transports. */
struct job {
    uint32_t per_host;
    const char *wires[4];
};

/* The address that transport `name` writes for a rank on the `host`th host. Those of verbs and ofi
 * contain the address of their inner tcp transport. */
static void address_of(struct tt_prng *prng, const char *name, uint32_t host, struct tt_blob *out)
{
    struct tt_tcp_address tcp = { .host = tt_mix64(host + 1),
                                  .port = (uint16_t)(32768 + tt_prng_below(prng, 28232)) };
    struct tt_verbs_address verbs = { .infiniband = true, .subnet = 0xfe80ull << 48 };
    struct tt_ofi_address ofi = { .format = 10, .provider = "efa" };

    if (strcmp(name, "shm") == 0) {
        out->bytes = 28;
        memset(out->data, 0, out->bytes);
        for (size_t i = 0; host == 0 && i < out->bytes; i++)        /* engines store none of it for
                                                                ranks of other hosts */
            out->data[i] = i < 12 ? (uint8_t)i : (uint8_t)tt_prng_u64(prng);
        return;
    }
    for (uint8_t k = 0; k < 3; k++) {       /* a management network, and two rails */
        const uint8_t ip[16] = { 10, k, (uint8_t)(host >> 8), (uint8_t)host };

        tt_tcp_address_add(&tcp, 4, ip);
    }
    tt_tcp_address_write(&tcp, out);
    if (strcmp(name, "verbs") == 0) {
        verbs.tcp = *out;
        tt_verbs_address_write(&verbs, out);
    } else if (strcmp(name, "ofi") == 0) {
        ofi.tcp = *out;
        tt_ofi_address_write(&ofi, out);
    }
}

/* The card of a rank as engines write it: the host, then the transports' addresses. Hosts differ in
 * a hash and in addresses, ranks in ports. */
static size_t card_of(struct tt_prng *prng, const struct job *job, uint32_t rank,
                      uint8_t card[TT_ENGINE_CARD_BYTES])
{
    const uint32_t host = rank / job->per_host;
    struct tt_writer w;
    uint8_t n = 0;

    while (job->wires[n])
        n++;
    tt_writer_init(&w, card, TT_ENGINE_CARD_BYTES);
    tt_write_u64(&w, tt_mix64(host + 1));
    tt_write_u8(&w, n);
    for (uint8_t i = 0; i < n; i++) {
        struct tt_blob address;

        address_of(prng, job->wires[i], host, &address);
        tt_write_string(&w, job->wires[i]);
        tt_write_u16(&w, address.bytes);
        tt_write_bytes(&w, address.data, address.bytes);
    }
    assert_false(w.bad);
    return tt_writer_bytes(&w);
}

/* Including the state of the overlay and of a communicator per rank. Transports have none
 * (below). */
static double idle_bytes(const struct tt_cards *c)
{
    const size_t overlay = sizeof(uint64_t) + sizeof(bool);     /* per rank in tt_flood, whose header
                                                               depends on frames of transports */
    const size_t communicator = sizeof *((struct tt_context *)0)->ranks;

    return (double)tt_cards_bytes(c) / c->nranks + (double)(overlay + communicator);
}

static void idle_rank_takes_64_bytes(void **state)
{
    static const struct job jobs[] = {
        { MANY, { "shm", "tcp" } },
        { 32, { "shm", "tcp" } },
        { 8, { "shm", "tcp" } },
        { 2, { "shm", "tcp" } },
        { 1, { "shm", "tcp" } },
        { 1, { "tcp" } },
        { MANY, { "shm", "verbs", "tcp" } },
        { 8, { "shm", "verbs", "tcp" } },
        { 2, { "shm", "verbs", "tcp" } },
        { 1, { "shm", "verbs", "tcp" } },
        { 8, { "verbs" } },
        { 1, { "verbs" } },
        { MANY, { "shm", "ofi", "tcp" } },
        { 8, { "shm", "ofi", "tcp" } },
        { 2, { "shm", "ofi", "tcp" } },
        { 1, { "shm", "ofi", "tcp" } },
        { 1, { "ofi" } },
    };

    (void)state;
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        uint8_t card[TT_ENGINE_CARD_BYTES], out[TT_ENGINE_CARD_BYTES];
        struct tt_prng prng, again;
        struct tt_cards c;

        tt_prng_init(&prng, 1);
        again = prng;
        assert_int_equal(tt_cards_init(&c, MANY), TUTTI_OK);
        for (uint32_t rank = 0; rank < MANY; rank++) {
            const size_t bytes = card_of(&prng, &jobs[j], rank, card);

            assert_int_equal(tt_cards_put(&c, rank, card, bytes), TUTTI_OK);
        }
        tt_cards_settle(&c);
        print_message("%4u x %4u:", MANY / jobs[j].per_host, jobs[j].per_host);
        for (size_t i = 0; jobs[j].wires[i]; i++)
            print_message(" %s", jobs[j].wires[i]);
        print_message(": %.1f bytes a card, %.1f an idle rank\n", (double)tt_cards_bytes(&c) / MANY,
                      idle_bytes(&c));
        assert_true(idle_bytes(&c) <= 64);
        for (uint32_t rank = 0; rank < MANY; rank++) {
            const size_t bytes = card_of(&again, &jobs[j], rank, card);

            assert_int_equal(tt_cards_get(&c, rank, out), bytes);
            assert_memory_equal(out, card, bytes);
        }
        tt_cards_fini(&c);
    }
}

/* Ranks without any exchange, for the transports that can be opened here. */
static void wires_have_nothing_for_idle_ranks(void **state)
{
    static const uint8_t secret[16];
    struct tt_wire_conf conf = {
        .nranks = MANY, .secret = secret, .link_bytes = 4096, .interfaces = "lo", .cma = true
    };
    size_t opened = 0;

    (void)state;
    for (size_t i = 0; i < tt_nwires; i++) {
        tutti_memory m = { 0 };
        struct tt_wire *w;

        if (tt_wires[i]->open(&w, &conf))
            continue;
        opened++;
        tt_wires[i]->memory(w, &m);
        assert_true(m.nparts > 0);
        for (uint32_t k = 0; k < m.nparts; k++)
            assert_int_equal(m.parts[k].rank_bytes, 0);
        tt_wires[i]->close(w);
    }
    assert_true(opened >= 2);       /* shm and tcp */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_are_read_as_written),
        cmocka_unit_test(similar_cards_take_little_memory),
        cmocka_unit_test(idle_rank_takes_64_bytes),
        cmocka_unit_test(wires_have_nothing_for_idle_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
