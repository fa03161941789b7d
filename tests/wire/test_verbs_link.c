/* Links of the verbs transport, as far as they involve no RDMA device. */
#include "support/unit.h"

#if __has_include(<infiniband/verbs.h>)

#include "wire/verbs/verbs.h"

/* The limits of a link's lanes: the layout gives the distance, the links give latency and rate. */
static void near_lanes_have_tighter_limits(void **state)
{
    static struct tt_verbs v;
    struct tt_topo_link links[TT_DISTANCES] = { 0 };
    struct tt_layout l = { 0 };
    const struct tt_verbs_link link = { .base.peer = 2, .verbs = &v, .nrails = 1 };
    uint64_t before = 0, bytes[TT_DISTANCES];

    (void)state;
    v.base.limits = tt_lane_limits_default;
    v.base.conf = (struct tt_wire_conf){ .rank = 0, .layout = &l, .links = links };
    bytes[TT_NEAR_RACK] = tt_verbs_limits(&link, 2).lane_bytes; /* nothing is known yet: the default
                                                                   is a rack */
    assert_int_equal(bytes[TT_NEAR_RACK], 512u << 10);
    tt_layout_regular(&l, 4, 4, 1, 1, TT_NODE_MESH);
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        const uint32_t lanes = tt_dqplb_lane_count(d);
        struct tt_dqplb_limits now;

        for (int nearer = TT_NEAR_SOCKET; nearer < TT_NEAR_WAN; nearer++)
            l.group_ranks[nearer] = nearer < d ? 2 : 4;
        now = tt_verbs_limits(&link, lanes);
        bytes[d] = lanes * now.lane_bytes;
        assert_true(bytes[d] >= before);
        assert_int_equal(now.window, TT_VERBS_WINDOW);
        before = bytes[d];
    }
    assert_int_equal(bytes[TT_NEAR_SOCKET], 256u << 10);
    assert_int_equal(bytes[TT_NEAR_RACK], 1u << 20);
    assert_int_equal(bytes[TT_NEAR_WAN], 128u << 20);

    links[TT_NEAR_RACK].bytes_per_s =
        50e9; /* the peer is far: twice 50 GB/s for 40 ms are more than any window holds */
    links[TT_NEAR_WAN].latency_ns = 20000000;
    assert_int_equal(tt_verbs_limits(&link, 16).lane_bytes, 16u << 20);
    links[TT_NEAR_WAN].latency_ns =
        2000000; /* with 4 ms: 400 MB are too many for 16 lanes; 40 MB are less than recommended */
    links[TT_NEAR_WAN].bytes_per_s = 5e9;
    assert_int_equal(tt_verbs_limits(&link, 16).lane_bytes, 8u << 20);
    v.base.limits.bytes[TT_NEAR_WAN] = 3000000;
    v.base.limits.user_set[TT_NEAR_WAN] = true;
    assert_int_equal(tt_verbs_limits(&link, 16).lane_bytes, 3000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_lanes_have_tighter_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77;                  /* no libibverbs here, and no verbs transport in the library */
}

#endif
