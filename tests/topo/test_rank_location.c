#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "topo/rank_location.h"

#define NRANKS_MAX 40

static struct tt_rank_location place(uint64_t host, int socket, const char *labels)
{
    const struct tt_rails rails = {
        .n = 2, .rail = { { "eth0", 0, TT_UNKNOWN, { 0 } }, { "eth1", 1, TT_UNKNOWN, { 0 } } }
    };
    struct tt_labels l = { 0 };
    struct tt_rank_location p;
    size_t bad_at;

    assert_true(tt_labels_parse(&l, labels, &bad_at));
    tt_rank_location_init(&p, host, socket, rails.n,
                          tt_rails_nearest(&rails, socket, TT_UNKNOWN, NULL), &l, TT_NODE_MESH);
    return p;
}

static void places_travel_whole(void **state)
{
    const struct tt_rank_location p = place(77, 1, "rack=r1,fabric=f");
    struct tt_rank_location q;
    struct tt_writer w;
    struct tt_reader r;
    uint8_t bytes[128];

    (void)state;
    tt_writer_init(&w, bytes, sizeof bytes);
    tt_rank_location_write(&p, &w);
    tt_reader_init(&r, bytes, tt_writer_bytes(&w));
    tt_rank_location_read(&q, &r);
    assert_false(r.bad);
    assert_true(r.at == r.end);
    assert_memory_equal(&p, &q, sizeof p);
    for (size_t n = 0; n < tt_writer_bytes(&w); n++) {
        tt_reader_init(&r, bytes, n);
        tt_rank_location_read(&q, &r);
        assert_true(r.bad);
    }
    for (int i = 10; i < 15; i++) {     /* an unknown kind of node; too many rails; near rails
                                           that do not exist; no reason */
        const uint8_t was = bytes[i];

        bytes[i] = 200;
        tt_reader_init(&r, bytes, sizeof bytes);
        tt_rank_location_read(&q, &r);
        assert_true(r.bad);
        bytes[i] = was;
    }
}

/* Labels of each host, with one rank per host, and the distance of each pair in the order 01 02
 * 12. */
static void labels_decide_how_far_hosts_are(void **state)
{
    static const struct {
        const char *labels[3];
        enum tt_distance far[3];
    } cases[] = {
        { { "", "", "" }, { TT_NEAR_RACK, TT_NEAR_RACK, TT_NEAR_RACK } },
        { { "rack=1", "rack=1", "rack=2" }, { TT_NEAR_RACK, TT_NEAR_ZONE, TT_NEAR_ZONE } },
        { { "rack=1,zone=a", "rack=1,zone=b", "rack=1,zone=a" },
          { TT_NEAR_BUILDING, TT_NEAR_RACK, TT_NEAR_BUILDING } },
        { { "zone=a", "zone=a", "zone=b" }, { TT_NEAR_ZONE, TT_NEAR_BUILDING, TT_NEAR_BUILDING } },
        { { "rack=1,building=x", "rack=2,building=x", "rack=2,building=y" },
          { TT_NEAR_BUILDING, TT_NEAR_FABRIC, TT_NEAR_FABRIC } },
        { { "fabric=f", "fabric=g", "fabric=f" }, { TT_NEAR_WAN, TT_NEAR_FABRIC, TT_NEAR_WAN } },
        { { "rack=1", "", "" }, { TT_NEAR_ZONE, TT_NEAR_ZONE, TT_NEAR_ZONE } },
        { { "rack=1,zone=a", "rack=1", "rack=1" },
          { TT_NEAR_BUILDING, TT_NEAR_BUILDING, TT_NEAR_BUILDING } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_rank_location places[3];
        struct tt_layout l;

        for (uint64_t h = 0; h < 3; h++)
            places[h] = place(100 + h, 0, cases[i].labels[h]);
        assert_true(tt_layout_derive(&l, places, 3));
        for (uint32_t k = 0; k < 3; k++)
            if (tt_layout_distance(&l, k / 2, 1 + (k + 1) / 2) != cases[i].far[k])
                fail_msg("case %zu, pair %u: %s", i, k,
                         tt_distance_name(tt_layout_distance(&l, k / 2, 1 + (k + 1) / 2)));
        tt_layout_fini(&l);
    }
}

static void places_give_sockets_and_rails(void **state)
{
    const struct tt_rank_location places[] = { place(1, 0, ""), place(1, 1, ""),
                                               place(2, 0, ""), place(2, TT_UNKNOWN, ""),
                                               place(1, 1, ""), place(2, 1, "") };
    struct tt_layout l;
    char text[128];

    (void)state;
    assert_true(tt_layout_derive(&l, places, 6));
    assert_int_equal(tt_layout_distance(&l, 1, 4), TT_NEAR_SOCKET);
    assert_int_equal(tt_layout_distance(&l, 0, 1), TT_NEAR_HOST);
    /* one rank of their host has no socket: sockets are not distinguished */
    assert_int_equal(tt_layout_distance(&l, 2, 5), TT_NEAR_SOCKET);
    assert_int_equal(tt_layout_rail(&l, 0), 0);
    assert_int_equal(tt_layout_rail(&l, 1), 1);
    assert_int_equal(tt_layout_rail(&l, 3), 1);                         /* in turn */
    assert_int_equal(tt_layout_rail(&l, 5), 1);
    assert_int_equal(l.nrails, 2);
    tt_layout_describe(&l, text, sizeof text);
    assert_string_equal(text, "6 ranks on 2 hosts, 2 rails each");
    tt_layout_fini(&l);
}

static struct tt_rank_location drawn_place(struct tt_prng *p)
{
    char labels[96] = "";
    const char *comma = "";

    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
        if (tt_prng_below(p, 3)) {
            snprintf(labels + strlen(labels), sizeof labels - strlen(labels), "%s%s=%u", comma,
                     tt_distance_name((enum tt_distance)d), (unsigned)tt_prng_below(p, 2));
            comma = ",";
        }
    return place(tt_prng_below(p, 6), (int)tt_prng_below(p, 3) - 1, labels);
}

static bool together(const struct tt_layout *l, uint32_t a, uint32_t b, int level)
{
    return tt_layout_group(l, a, (enum tt_distance)level) ==
           tt_layout_group(l, b, (enum tt_distance)level);
}

/* Groups nest, are numbered in order of first appearance, and a part has the distances of the
 * whole. */
static void layouts_nest_and_parts_agree(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct tt_rank_location places[NRANKS_MAX];
        struct tt_layout l, part;
        struct tt_prng p;
        uint32_t n, m = 0, ranks[NRANKS_MAX];

        tt_prng_init(&p, seed);
        n = 1 + (uint32_t)tt_prng_below(&p, NRANKS_MAX);
        for (uint32_t r = 0; r < n; r++) {
            places[r] = drawn_place(&p);
            if (tt_prng_below(&p, 2))
                ranks[m++] = r;
        }
        assert_true(tt_layout_derive(&l, places, n));
        for (int d = TT_NEAR_SOCKET; d < TT_NEAR_WAN; d++) {
            uint32_t groups = 0;

            for (uint32_t r = 0; r < n; r++) {
                const uint32_t group = tt_layout_group(&l, r, (enum tt_distance)d);

                if (group > groups)
                    fail_msg("seed %llu: group %u before %u", (unsigned long long)seed, group,
                             groups);
                groups += group == groups;
                for (uint32_t q = 0; d > TT_NEAR_SOCKET && q < r; q++)
                    if (together(&l, q, r, d - 1) && !together(&l, q, r, d))
                        fail_msg("seed %llu: ranks %u and %u are together below %s only",
                                 (unsigned long long)seed, q, r,
                                 tt_distance_name((enum tt_distance)d));
            }
        }
        if (m > 0) {
            assert_true(tt_layout_part(&part, &l, ranks, m));
            for (uint32_t a = 0; a < m; a++)
                for (uint32_t b = 0; b < m; b++)
                    assert_int_equal(tt_layout_distance(&part, a, b),
                                     tt_layout_distance(&l, ranks[a], ranks[b]));
            tt_layout_fini(&part);
        }
        tt_layout_fini(&l);
    }
}

static void part_of_regular_layout_is_ordered(void **state)
{
    static const uint32_t ranks[] = { 9, 3, 2 }, whole_hosts[] = { 4, 5, 6, 7, 0, 1, 2, 3 };
    struct tt_layout whole, part;

    (void)state;
    tt_layout_regular(&whole, 12, 4, 2, 2, TT_NODE_SOCKETS);
    assert_true(tt_layout_part(&part, &whole, ranks, 3));
    assert_int_equal(tt_layout_distance(&part, 1, 2), TT_NEAR_SOCKET);
    assert_int_equal(tt_layout_distance(&part, 0, 1), TT_NEAR_RACK);
    assert_int_equal(tt_layout_host(&part, 0), 0);
    assert_int_equal(tt_layout_rail(&part, 1), 1);
    assert_int_equal(part.node, TT_NODE_SOCKETS);
    assert_false(tt_layout_is_regular(&part));
    tt_layout_fini(&part);
    assert_true(tt_layout_part(&part, &whole, whole_hosts, 8));
    assert_true(tt_layout_is_regular(&part));
    assert_int_equal(part.nhosts, 2);
    tt_layout_fini(&part);
}

/* Two hosts; if the connections of their ranks are unknown, two known sockets of one host are
 * sufficient. */
static void sockets_count_with_several_ranks(void **state)
{
    static const struct {
        int socket[4];
        uint8_t node;
        enum tt_node_kind is;
    } cases[] = {
        { { 0, 1, 0, 1 }, TT_NODE_AUTOMATIC, TT_NODE_SOCKETS },
        { { 1, 1, 0, 1 }, TT_NODE_AUTOMATIC, TT_NODE_SOCKETS },
        { { 0, 0, 1, 1 }, TT_NODE_AUTOMATIC, TT_NODE_MESH },
        { { 0, 0, 0, TT_UNKNOWN }, TT_NODE_AUTOMATIC, TT_NODE_MESH },
        { { 0, 1, 0, 1 }, TT_NODE_MESH, TT_NODE_MESH },
        { { 0, 0, 0, 0 }, TT_NODE_SOCKETS, TT_NODE_SOCKETS },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_rank_location places[4];
        struct tt_layout l;

        for (uint32_t r = 0; r < 4; r++)
            places[r] = place(r / 2, cases[i].socket[r], "");
        places[0].node = cases[i].node;
        assert_true(tt_layout_derive(&l, places, 4));
        assert_int_equal(l.node, cases[i].is);
        tt_layout_fini(&l);
    }
}

/* Hosts 0, 1, 0, 1, ...: a table. All ranks in order are the whole, in any other order they are
 * not. */
static void ordered_ranks_share_the_layout(void **state)
{
    struct tt_layout whole, part;
    struct tt_rank_location places[6];
    uint32_t ranks[6];

    (void)state;
    for (uint32_t r = 0; r < 6; r++) {
        places[r] = place(r % 2, 0, "");
        ranks[r] = r;
    }
    assert_true(tt_layout_derive(&whole, places, 6));
    assert_false(tt_layout_is_regular(&whole));
    assert_true(tt_layout_part(&part, &whole, ranks, 6));
    assert_true(tt_layout_is_shared(&part, &whole));
    tt_layout_fini(&part);
    assert_true(tt_layout_part(&part, &whole, ranks, 5));
    assert_false(tt_layout_is_shared(&part, &whole));
    tt_layout_fini(&part);
    ranks[0] = 2;
    ranks[2] = 0;
    assert_true(tt_layout_part(&part, &whole, ranks, 6));
    assert_false(tt_layout_is_shared(&part, &whole));
    tt_layout_fini(&part);
    tt_layout_fini(&whole);
}

/* Equal hosts with ranks in order take no memory; with one additional rank on one host they do. */
static void equal_hosts_take_no_memory(void **state)
{
    static struct tt_rank_location places[1024];
    struct tt_layout l;

    (void)state;
    for (uint32_t r = 0; r < 1024; r++)
        places[r] = place(r / 8, (int)(r / 4 % 2), r / 128 % 2 ? "rack=a" : "rack=b");
    assert_true(tt_layout_derive(&l, places, 1024));
    assert_int_equal(l.nhosts, 128);
    assert_false(tt_layout_is_regular(&l));     /* racks occur twice */
    assert_true(tt_layout_fills(&l) && tt_layout_bytes(&l) < 1024);
    tt_layout_fini(&l);
    for (uint32_t r = 0; r < 1024; r++)
        places[r] = place(r / 8, (int)(r % 2), "");
    assert_true(tt_layout_derive(&l, places, 1024));
    assert_true(tt_layout_fills(&l) && tt_layout_bytes(&l) < 1024);
    tt_layout_fini(&l);
    for (uint32_t r = 0; r < 1024; r++)
        places[r] = place(r / 8, TT_UNKNOWN, "");
    assert_true(tt_layout_derive(&l, places, 1024));
    assert_true(tt_layout_is_regular(&l));
    assert_int_equal(tt_layout_bytes(&l), 0);
    tt_layout_fini(&l);
    places[8] = place(0, TT_UNKNOWN, "");
    assert_true(tt_layout_derive(&l, places, 1024));
    assert_false(tt_layout_fills(&l));
    assert_true(tt_layout_bytes(&l) < 8 * 1024);
    tt_layout_fini(&l);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_travel_whole),
        cmocka_unit_test(labels_decide_how_far_hosts_are),
        cmocka_unit_test(places_give_sockets_and_rails),
        cmocka_unit_test(layouts_nest_and_parts_agree),
        cmocka_unit_test(part_of_regular_layout_is_ordered),
        cmocka_unit_test(sockets_count_with_several_ranks),
        cmocka_unit_test(ordered_ranks_share_the_layout),
        cmocka_unit_test(equal_hosts_take_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
