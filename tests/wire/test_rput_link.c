/* Links that network transports share, over two processes with the inner tcp wire only. */
#include "support/unit.h"

#include <string.h>
#include "nodes.h"
#include "wire/rput/rput.h"

#define HELLO_BYTES 48
#define NSESSIONS 2

static int take_nothing(struct tt_wire *w, const struct tt_desc *desc, int n)
{
    (void)w, (void)desc, (void)n;
    return 0;
}

static void end_nothing(struct tt_rput_link *link)
{
    (void)link;
}

/* The hello of a session's incarnation: these two numbers. */
static size_t hello_of(struct tt_rput_link *link, const struct tt_rput_session *s, uint8_t *out)
{
    (void)link;
    memset(out, 0, HELLO_BYTES);
    out[0] = (uint8_t)s->index;
    out[1] = (uint8_t)s->incarnation;
    return HELLO_BYTES;
}

static const struct tt_rput_ops ops = {
    .link_bytes = sizeof(struct tt_rput_link),
    .hello_bytes = HELLO_BYTES,
    .nsessions = NSESSIONS,
    .end = end_nothing,
    .hello = hello_of,
};

/* Creates a link to the other rank, over the existing tcp link. */
static void link_make(struct node *n, struct tt_rput *r, struct tt_rput_link *link)
{
    *r = (struct tt_rput){ .wire.ops = n->ops, .ops = &ops, .tcp = n->w };
    *link = (struct tt_rput_link){ .rput = r, .peer = !n->rank, .tcp = n->link[!n->rank] };
}

/* Rank 0 drops its link to rank 1 while the connection has no space for the notification: rank 1 is
 * notified later. */
static void refusal_role(struct node *n)
{
    static struct tt_wire_ops full;
    static struct tt_rput r;
    static struct tt_rput_link link;

    node_open(n);
    node_connect_all(n);
    if (n->rank == 0) {
        link_make(n, &r, &link);
        full = *n->ops;
        full.post = take_nothing;
        n->w->ops = &full;
        tt_rput_link_lose(&link, TUTTI_ERR_NOMEM, "the test gives it up");
        CHECK(n, link.state == TT_RPUT_LOST && link.status == TUTTI_ERR_NOMEM && link.news.lost);
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

/* Both ranks replace each session several times. Neither sees a hello of another incarnation or
 * session, nor readiness before it was sent. */
static void sessions_role(struct node *n)
{
    static struct tt_rput r;
    static struct tt_rput_link link;
    struct tt_rput_session s[NSESSIONS] = { { .index = 0 }, { .index = 1 } };
    uint8_t in[HELLO_BYTES];

    node_open(n);
    node_connect_all(n);
    link_make(n, &r, &link);
    for (uint32_t round = 1; round <= 5; round++)
        for (uint32_t i = 0; i < NSESSIONS; i++) {
            tt_rput_session_next(&s[i]);
            CHECK(n, s[i].incarnation == round && s[i].hello_pending && !s[i].ready_pending);
            CHECK(n, tt_rput_session_ready(&link, &s[i]) < round);
            UNTIL(n, (tt_rput_session_send(&link, &s[i]), !s[i].hello_pending));
            UNTIL(n, tt_rput_session_hello(&link, &s[i]) == round);
            tt_rput_session_read(&link, &s[i], in);
            CHECK(n, in[0] == i && in[1] == round);
            s[i].ready_pending = true;
            UNTIL(n, (tt_rput_session_send(&link, &s[i]), !s[i].ready_pending));
            UNTIL(n, tt_rput_session_ready(&link, &s[i]) == round);
        }
    CHECK(n, !tt_rput_is_refused(&link));
    node_barrier(n);
    CHECK(n, n->rank == 1 || tt_rput_refuse(&link));
    if (n->rank == 1)
        UNTIL(n, tt_rput_is_refused(&link));
    node_barrier(n);
}

static void both_ends_reach_each_incarnation(void **state)
{
    const struct setting one = { .ops = &tt_wire_tcp, .lanes = 1, .seed = 1 };

    (void)state;
    nodes_run(&one, 2, sessions_role);
}

/* Events are reported in order, also those of a link that is lost before it was reported as up. */
static void events_are_reported_in_order(void **state)
{
    struct tt_rput_news_list list = { 0 };
    struct tt_rput_news news[2] = { { .peer = 5 }, { .peer = 6 } };
    const struct tt_link link = { .anymem = true };
    struct tt_done done[4];

    (void)state;
    for (int round = 0; round < 2; round++) {
        tt_rput_news_up(&list, &news[0], &link);
        tt_rput_news_lost(&list, &news[1], TUTTI_ERR_PROTOCOL);
        tt_rput_news_lost(&list, &news[0], TUTTI_ERR_PEER_LOST);
        assert_int_equal(tt_rput_news_report(&list, done, 1), 1);
        assert_int_equal(tt_rput_news_report(&list, done + 1, 3), 2);
        assert_true(done[0].kind == TT_DONE_LINK_UP && done[0].peer == 5 && done[0].link.anymem);
        assert_int_equal(done[0].status, TUTTI_OK);
        assert_true(done[1].kind == TT_DONE_LINK_LOST && done[1].peer == 5);
        assert_int_equal(done[1].status, TUTTI_ERR_PEER_LOST);
        assert_true(done[2].kind == TT_DONE_LINK_LOST && done[2].peer == 6);
        assert_int_equal(done[2].status, TUTTI_ERR_PROTOCOL);
        assert_int_equal(tt_rput_news_report(&list, done, 4), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropped_peer_is_notified_without_space),
        cmocka_unit_test(both_ends_reach_each_incarnation),
        cmocka_unit_test(events_are_reported_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
