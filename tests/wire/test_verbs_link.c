/* The end of a link of the verbs transport, as far as it involves no RDMA device. */
#include "support/unit.h"

#if __has_include(<infiniband/verbs.h>)

#include "nodes.h"
#include "wire/verbs/verbs.h"

static int take_nothing(struct tt_wire *w, const struct tt_desc *desc, int n)
{
    (void)w, (void)desc, (void)n;
    return 0;
}

/* Rank 0 drops its link to rank 1 when the connection to report it has no space: rank 1 is notified
 * nevertheless. */
static void refusal_role(struct node *n)
{
    static struct tt_wire_ops full;
    static struct tt_verbs verbs;
    static struct tt_verbs_link link;

    node_open(n);
    node_connect_all(n);
    if (n->rank == 0) {
        full = *n->ops;
        full.post = take_nothing;
        n->w->ops = &full;
        verbs.tcp = n->w;
        verbs.news_end = &verbs.news;
        link = (struct tt_verbs_link){ .verbs = &verbs, .peer = 1, .tcp = n->link[1] };
        tt_verbs_link_lose(&link, TUTTI_ERR_NOMEM, "the test gives it up");
        CHECK(n, link.state == TT_VERBS_LOST && link.status == TUTTI_ERR_NOMEM && link.report_lost);
        n->w->ops = n->ops;
    }
    UNTIL(n, n->losses[!n->rank] == 1);
    CHECK(n, n->why[!n->rank] == TUTTI_ERR_PEER_LOST);
    node_barrier(n);
}

static void dropped_peer_is_notified_without_space(void **state)
{
    const struct setting one = { .ops = &tt_wire_tcp, .lanes = 1, .seed = 1 };

    (void)state;
    nodes_run(&one, 2, refusal_role);
}

/* The limits of a link's lanes: the layout gives the distance, the links give latency and rate. */
static void near_lanes_have_tighter_limits(void **state)
{
    static struct tt_verbs v;
    struct tt_topo_link links[TT_DISTANCES] = { 0 };
    struct tt_layout l = { 0 };
    const struct tt_verbs_link link = { .verbs = &v, .peer = 2, .nrails = 1 };
    uint64_t before = 0, bytes[TT_DISTANCES];

    (void)state;
    v.limits = tt_lane_limits_default;
    v.conf = (struct tt_wire_conf){ .rank = 0, .layout = &l, .links = links };
    bytes[TT_NEAR_RACK] = tt_verbs_limits(&link, 2).lane_bytes; /* nothing is known yet: a rack */
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
        2000000; /* and for 4 ms: 400 MB on 16 lanes are too many, 40 MB on them are less than
                    recommended */
    links[TT_NEAR_WAN].bytes_per_s = 5e9;
    assert_int_equal(tt_verbs_limits(&link, 16).lane_bytes, 8u << 20);
    v.limits.bytes[TT_NEAR_WAN] = 3000000;
    v.limits.user_set[TT_NEAR_WAN] = true;
    assert_int_equal(tt_verbs_limits(&link, 16).lane_bytes, 3000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_lanes_have_tighter_limits),
        cmocka_unit_test(dropped_peer_is_notified_without_space),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77;                  /* no libibverbs here, and no verbs transport in the library */
}

#endif
