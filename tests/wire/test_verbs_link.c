/* What ends a link of the verbs wire, as far as no RDMA device takes part. */
#include "support/unit.h"

#if __has_include(<infiniband/verbs.h>)

#include "nodes.h"
#include "wire/verbs.h"

static int take_nothing(struct tt_wire *w, const struct tt_desc *desc, int n)
{
    (void)w, (void)desc, (void)n;
    return 0;
}

/* Rank 0 gives up its link to rank 1, when the connection by which it would say so has no room: rank 1 hears of it all the same. */
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
        CHECK(n, link.state == TT_VERBS_LOST && link.status == TUTTI_ERR_NOMEM && link.tell_lost);
        n->w->ops = n->ops;
    }
    UNTIL(n, n->losses[!n->rank] == 1);
    CHECK(n, n->why[!n->rank] == TUTTI_ERR_PEER_LOST);
    node_barrier(n);
}

static void who_is_given_up_hears_of_it_even_if_there_is_no_room_to_say_so(void **state)
{
    const struct setting one = { .ops = &tt_wire_tcp, .lanes = 1, .seed = 1 };

    (void)state;
    nodes_run(&one, 2, refusal_role);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_given_up_hears_of_it_even_if_there_is_no_room_to_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77;                  /* there is no libibverbs here, and no verbs wire in the library */
}

#endif
