/* Lane settings sent by rank 0 are transferred completely, and determine the number of lanes to a
 * peer. */
#include <stdlib.h>
#include <string.h>

#include "comm/lanes.h"
#include "support/unit.h"
#include "wire/lane_limits.h"
#include "wire/verbs/verbs_frame.h"

static void partial_facts_are_refused(void **state)
{
    struct tt_lane_facts f = { .asked = 7, .by_link = 1 << TT_NEAR_WAN }, got;
    struct tt_writer w;
    struct tt_reader r;
    uint8_t bytes[128];

    (void)state;
    for (int d = TT_NEAR_RACK; d < TT_DISTANCES; d++)
        f.bytes[d] = 100000u * (unsigned)d;
    tt_writer_init(&w, bytes, sizeof bytes);
    tt_lane_facts_write(&f, &w);
    tt_reader_init(&r, bytes, tt_writer_bytes(&w));
    tt_lane_facts_read(&got, &r);
    assert_false(r.bad);
    assert_true(r.at == r.end);
    assert_memory_equal(&f, &got, sizeof f);
    for (size_t n = 0; n < tt_writer_bytes(&w); n++) {
        tt_reader_init(&r, bytes, n);
        tt_lane_facts_read(&got, &r);
        assert_true(r.bad);
    }
    f.asked = TT_LANES_FREE; /* connections do not depend on the links */
    tt_writer_init(&w, bytes, sizeof bytes);
    tt_lane_facts_write(&f, &w);
    tt_reader_init(&r, bytes, sizeof bytes);
    tt_lane_facts_read(&got, &r);
    assert_true(r.bad);
    bytes[0] = 17; /* above the maximum, and not TT_LANES_BY_DISTANCE */
    tt_reader_init(&r, bytes, sizeof bytes);
    tt_lane_facts_read(&got, &r);
    assert_true(r.bad);
}

static void each_transport_has_its_own_lanes(void **state)
{
    static const struct {
        uint32_t nranks, host_ranks, rails, asked, lanes;
    } cases[] = {
        { 8, 4, 4, TT_LANES_FREE, 1 },
        { 8, 1, 4, TT_LANES_FREE, 4 },
        { 8, 1, 1, TT_LANES_FREE, 1 },
        { 3, 2, 4, TT_LANES_FREE, 1 },
        { 1, 1, 4, TT_LANES_FREE, 1 },
        { 8, 1, 4, 3, 3 },
        { 8, 4, 1, 16, 16 },
        { 8, 1, 4, 1, 1 },
        { 8, 4, 1, TT_LANES_BY_DISTANCE, 2 },
        { 8, 1, 4, TT_LANES_BY_DISTANCE, 4 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_lane_facts f = { .asked = (uint8_t)cases[i].asked };
        struct tt_layout l;

        tt_layout_regular(&l, cases[i].nranks, cases[i].host_ranks, 1, cases[i].rails,
                          TT_NODE_MESH);
        if (tt_lane_facts_count(&f, &l) != cases[i].lanes)
            fail_msg("case %zu: %u lanes", i, tt_lane_facts_count(&f, &l));
    }
}

/* Bytes in flight are limited by the kernel on a connection, and by lane limits on a queue pair. */
static void facts_describe_the_inter_host_transport(void **state)
{
    struct tt_topo_link links[TT_DISTANCES] = { 0 };
    struct tt_lane_facts tcp, verbs, before;

    (void)state;
    unsetenv("TUTTI_LANE_BYTES");
    assert_int_equal(tt_lane_facts_get(&tcp, 0, NULL), TUTTI_OK);
    assert_int_equal(tcp.asked, TT_LANES_FREE);
    assert_int_equal(tt_lane_facts_get(&verbs, 0, "shm,verbs,tcp"), TUTTI_OK);
    assert_int_equal(verbs.asked, TT_LANES_BY_DISTANCE);
    for (int d = TT_NEAR_RACK; d < TT_DISTANCES; d++) {
        assert_int_equal(
            verbs.bytes[d],
            tt_dqplb_limits_of(d, tt_dqplb_lane_count(d), TT_VERBS_WINDOW, 0, 0).lane_bytes);
        assert_in_range(tcp.bytes[d], 1, tt_lane_limits_default.bytes[d]);
    }
    links[TT_NEAR_RACK] = (struct tt_topo_link){ .latency_ns = 20000, .bytes_per_s = 50e9 };
    before = tcp;
    tt_lane_facts_set_links(&tcp, links, 1);
    assert_memory_equal(&tcp, &before, sizeof tcp);
    tt_lane_facts_set_links(&verbs, links, 1);
    assert_in_range(2 * verbs.bytes[TT_NEAR_RACK], 4000000, 4000000 + (256 << 10));
    assert_int_equal(tt_lane_facts_get(&verbs, 5, "verbs"), TUTTI_OK);
    assert_int_equal(verbs.asked, 5);
    setenv("TUTTI_LANE_BYTES", "65536,wan=131072", 1);
    assert_int_equal(tt_lane_facts_get(&verbs, 0, "verbs"), TUTTI_OK);
    assert_int_equal(verbs.bytes[TT_NEAR_RACK], 65536);
    assert_int_equal(verbs.bytes[TT_NEAR_WAN], 131072);
    tt_lane_facts_set_links(&verbs, links, 1); /* the user's settings stay */
    assert_int_equal(verbs.bytes[TT_NEAR_RACK], 65536);
    setenv("TUTTI_LANE_BYTES", "65536,moon=131072", 1);
    assert_int_equal(tt_lane_facts_get(&verbs, 0, "verbs"), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "moon"));
    unsetenv("TUTTI_LANE_BYTES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_facts_are_refused),
        cmocka_unit_test(each_transport_has_its_own_lanes),
        cmocka_unit_test(facts_describe_the_inter_host_transport),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
