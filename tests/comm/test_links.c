/* Links between ranks: transferred unchanged in cards, they complete the given description, and
 * become constants of the cost model. */
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "base/prng.h"
#include "comm/links.h"

static void draw_links(struct tt_topo_link *links, struct tt_prng *p)
{
    for (int d = 0; d < TT_DISTANCES; d++) {
        links[d] = (struct tt_topo_link){ .oversubscription = 1 };
        if (d < TT_NEAR_SOCKET || tt_prng_below(p, 3) == 0)
            continue;
        links[d].latency_ns = tt_prng_below(p, 2) * (1 + tt_prng_below(p, 100000000000ull));
        links[d].bytes_per_s = (double)(tt_prng_below(p, 2) * tt_prng_below(p, 1ull << 50));
        links[d].oversubscription =
            d > TT_NEAR_RACK ? 1 + (double)tt_prng_below(p, 5000) / 1000 : 1;
    }
}

static void partial_links_are_refused(void **state)
{
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 3);
    for (int i = 0; i < 500; i++) {
        struct tt_topo_link in[TT_DISTANCES], out[TT_DISTANCES];
        uint8_t card[160];
        struct tt_writer w;
        struct tt_reader r;

        draw_links(in, &p);
        tt_writer_init(&w, card, sizeof card);
        tt_links_write(in, &w);
        assert_false(w.bad);
        tt_reader_init(&r, card, tt_writer_bytes(&w));
        tt_links_read(out, &r);
        assert_false(r.bad);
        assert_ptr_equal(r.at, r.end);
        for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
            assert_int_equal(out[d].latency_ns, in[d].latency_ns);
            assert_true(out[d].bytes_per_s == in[d].bytes_per_s);
            assert_true(fabs(out[d].oversubscription - in[d].oversubscription) < 0.0006);
        }
        for (size_t n = 0; n < tt_writer_bytes(&w); n++) {
            tt_reader_init(&r, card, n);
            tt_links_read(out, &r);
            assert_true(r.bad);
        }
    }
}

static void links_outside_the_range_are_refused(void **state)
{
    static const struct tt_topo_link wrong[] = {
        { .latency_ns = 100000000001ull, .oversubscription = 1 },
        { .latency_ns = 5, .bytes_per_s = 2e18, .oversubscription = 1 },
        { .latency_ns = 5, .oversubscription = 0.5 },
        { .latency_ns = 5, .oversubscription = 2e6 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tt_topo_link links[TT_DISTANCES] = { [TT_NEAR_ZONE] = wrong[i] };
        struct tt_writer w;
        struct tt_reader r;
        uint8_t card[160];

        tt_writer_init(&w, card, sizeof card);
        tt_links_write(links, &w);
        tt_reader_init(&r, card, tt_writer_bytes(&w));
        tt_links_read(links, &r);
        assert_true(r.bad);
    }
}

static void given_links_override_measured_ones(void **state)
{
    struct tt_topo_link links[TT_DISTANCES] = {
        [TT_NEAR_RACK] = { 2000, 0, 1 }, [TT_NEAR_ZONE] = { 0, 5e8, 2.5 }
    };
    const struct tt_topo_link measured[TT_DISTANCES] = {
        [TT_NEAR_RACK] = { 3000, 1e9, 1 }, [TT_NEAR_ZONE] = { 9000, 7e8, 1 }
    };

    (void)state;
    tt_links_complete(links, measured);
    assert_int_equal(links[TT_NEAR_RACK].latency_ns, 2000);
    assert_true(links[TT_NEAR_RACK].bytes_per_s == 1e9);
    assert_int_equal(links[TT_NEAR_ZONE].latency_ns, 9000);
    assert_true(links[TT_NEAR_ZONE].bytes_per_s == 5e8);
    assert_true(links[TT_NEAR_ZONE].oversubscription == 2.5);
    assert_int_equal(links[TT_NEAR_WAN].latency_ns, 0);
}

static void farthest_distance_sets_inter_host_cost(void **state)
{
    const struct tt_topo_link links[TT_DISTANCES] = { [TT_NEAR_HOST] = { 500, 9e9, 1 },
                                                      [TT_NEAR_RACK] = { 2000, 1e9, 1 },
                                                      [TT_NEAR_ZONE] = { 9000, 0, 2 },
                                                      [TT_NEAR_WAN] = { 40000000, 1e8, 1 } };
    const struct tt_cost_model before = { 8000, 0.35, 0.1, 0.08, 250, 0.12 };
    const struct tt_ends ends = { 7000, 100 };
    const struct {
        enum tt_distance farthest;
        double message_ns, byte_ns;
    } cases[] = { { TT_NEAR_SELF, 8000, 0.35 },  { TT_NEAR_HOST, 8000, 0.35 },
                  { TT_NEAR_RACK, 9000, 1 },     { TT_NEAR_ZONE, 16000, 1 },
                  { TT_NEAR_BUILDING, 8000, 1 }, { TT_NEAR_WAN, 40007000, 10 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_cost_model m = before;

        tt_links_model(links, cases[i].farthest, &ends, &m);
        assert_true(m.message_ns == cases[i].message_ns);
        assert_true(fabs(m.byte_ns - cases[i].byte_ns) < 1e-9);
        assert_true(m.near_message_ns == (cases[i].farthest < TT_NEAR_RACK ? 250 : 600) &&
                    m.near_byte_ns == 0.12);
        assert_true(m.reduce_byte_ns == before.reduce_byte_ns &&
                    m.copy_byte_ns == before.copy_byte_ns);
    }
}

/* A given link inside a host is used if it is slower than the measured one. */
static void intra_host_links_slow_local_messages(void **state)
{
    const struct tt_topo_link links[TT_DISTANCES] = {
        [TT_NEAR_SOCKET] = { 100, 1e11, 1 }, [TT_NEAR_HOST] = { 900, 5e9, 1 }
    };
    struct tt_cost_model on_host = { 200, 0.1, 0.1, 0.08, 250, 0.12 }, between = on_host,
                         on_socket = on_host;
    const struct tt_ends ends = { 7000, 100 };

    (void)state;
    tt_links_model(links, TT_NEAR_SOCKET, &ends, &on_socket);
    assert_true(on_socket.message_ns == 200 && on_socket.byte_ns == 0.1);
    tt_links_model(links, TT_NEAR_HOST, &ends, &on_host);
    assert_true(on_host.message_ns == 1000 && fabs(on_host.byte_ns - 0.2) < 1e-9);
    tt_links_model(links, TT_NEAR_RACK, &ends, &between);
    assert_true(between.message_ns == 200 && between.near_message_ns == 1000 &&
                fabs(between.near_byte_ns - 0.2) < 1e-9);
}

static void links_have_a_short_description(void **state)
{
    const struct tt_topo_link links[TT_DISTANCES] = {
        [TT_NEAR_RACK] = { 2000, 12.5e9, 1 }, [TT_NEAR_FABRIC] = { 30000, 0, 2.8 }
    };
    const struct tt_topo_link none[TT_DISTANCES] = { 0 };
    char text[200], small[9];

    (void)state;
    tt_links_describe(links, text, sizeof text);
    assert_string_equal(text, "rack 2 us 100 Gbit/s, fabric 30 us 1:2.8");
    tt_links_describe(links, small, sizeof small);
    assert_string_equal(small, "rack 2 u");
    tt_links_describe(none, text, sizeof text);
    assert_string_equal(text, "");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_links_are_refused),
        cmocka_unit_test(links_outside_the_range_are_refused),
        cmocka_unit_test(given_links_override_measured_ones),
        cmocka_unit_test(farthest_distance_sets_inter_host_cost),
        cmocka_unit_test(intra_host_links_slow_local_messages),
        cmocka_unit_test(links_have_a_short_description),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
