/* The proxy over a random network: order, marks and drains, tickets, space, wraps, and many
 * concurrent blocks. */
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "histories.h"
#include "net.h"

#define HISTORIES 400

static void no_signal_precedes_its_bytes(void **state)
{
    char why[300];

    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++)
        for (uint32_t mode = TUTTI_DEVICE_COUPLED; mode < TUTTI_DEVICE_MODES; mode++)
            if (unit_draw() && !history_play(seed, (tutti_device_mode)mode, why, sizeof why))
                fail_msg("seed %llu, %s: %s", (unsigned long long)seed,
                         tutti_device_mode_name((tutti_device_mode)mode), why);
}

static void fence_does_not_delay_other_ranks(void **state)
{
    char why[300];

    (void)state;
    if (!history_delayed(TUTTI_DEVICE_FULL, why, sizeof why) ||
        !history_delayed(TUTTI_DEVICE_ORDERED, why, sizeof why))
        fail_msg("%s", why);
}

/* Counts the operations for a group of n tiles to each of two ranks. */
static void count_group(tutti_device_mode mode, uint32_t n, uint64_t *drains, uint64_t *fences)
{
    static const uint8_t tile[16] = { 1 };
    struct bench *b = bench_create(1, mode, 1024, 0, TT_NEVER);
    tutti_device_signal_to signals[2][32];

    for (uint32_t peer = 1; peer <= 2; peer++)
        for (uint32_t i = 0; i < n; i++) {
            signals[peer - 1][i] =
                (tutti_device_signal_to){ peer, TUTTI_SIGNAL_SET, 8192 + 8 * i, 1 };
            assert_int_equal(
                tutti_device_group_put(&b->view, 16 * i, tile, sizeof tile, &signals[peer - 1][i]),
                TUTTI_OK);
            assert_int_equal(tutti_device_group_publish(&b->view, peer), TUTTI_OK);
        }
    for (uint32_t peer = 1; peer <= 2; peer++)
        assert_int_equal(tutti_device_group_signal(&b->view, peer, n, signals[peer - 1], n),
                         TUTTI_OK);
    for (int i = 0; i < 100000 && !(tt_proxy_is_idle(&b->proxy) && b->taken == b->reserved &&
                                    net_is_empty(b->net));
         i++) {
        assert_int_equal(bench_turn(b), TUTTI_OK);
        net_turn(b->net);
    }
    assert_int_equal(b->proxy.counters.signals, 2 * n);
    assert_int_equal(b->proxy.counters.puts, 2 * n);
    *drains = b->proxy.counters.drains;
    *fences = b->proxy.counters.fences;
    bench_destroy(b);
}

static void drains_and_marks_match_the_mode(void **state)
{
    const uint32_t n = 20;
    uint64_t drains, fences;

    (void)state;
    count_group(TUTTI_DEVICE_COUPLED, n, &drains, &fences);
    assert_true(drains == 2 * n && fences == 0);
    count_group(TUTTI_DEVICE_DECOUPLED, n, &drains, &fences);
    assert_true(drains == 2 && fences == 0);
    count_group(TUTTI_DEVICE_ORDERED, n, &drains, &fences);
    assert_true(drains == 0 && fences == 2 * n);
    count_group(TUTTI_DEVICE_FULL, n, &drains, &fences);
    assert_true(drains == 0 && fences == 2);
}

/* FULL is the mode with the fewest drains, and among the modes with as few drains, with the fewest
 * marks, for groups of any size. It is therefore the default where marks have a cost
 * (docs/one-sided.md). */
static void full_needs_fewest_drains_and_marks(void **state)
{
    uint64_t best[2], other[2];

    (void)state;
    for (uint32_t n = 1; n <= 32; n += 13) {
        count_group(TUTTI_DEVICE_FULL, n, &best[0], &best[1]);
        assert_int_equal(best[0], 0);
        for (int mode = TUTTI_DEVICE_COUPLED; mode < TUTTI_DEVICE_MODES; mode++) {
            count_group((tutti_device_mode)mode, n, &other[0], &other[1]);
            assert_true(other[0] > best[0] || other[1] >= best[1]);
        }
        if (n > 1) {
            count_group(TUTTI_DEVICE_ORDERED, n, &other[0], &other[1]);
            assert_true(other[1] > best[1]);
        }
    }
}

/* A quiet is answered when all data has arrived, a flush when sources may be reused; for all ranks,
 * when this is true for each rank. */
static void questions_are_answered_in_time(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct bench *b =
            bench_create(seed, (tutti_device_mode)(1 + seed % TUTTI_DEVICE_FULL), 64, 0, TT_NEVER);
        uint8_t bytes[8] = { 9, 9, 9, 9, 9, 9, 9, 9 };
        const uint32_t of = seed % 3 ? 1 + (uint32_t)(seed % 2) : TUTTI_DEVICE_ALL;
        uint64_t ticket, empty;

        empty = bench_post_question(b, TUTTI_TRIGGER_QUIET, TUTTI_DEVICE_ALL);
        bench_turn(b);
        assert_true(bench_is_answered(b, empty));       /* there were no puts */
        for (uint32_t i = 0; i < 10; i++)
            for (uint32_t peer = 1; peer <= 2; peer++)
                tutti_device_put(&b->view, peer, 8 * i, bytes, sizeof bytes);
        ticket = bench_post_question(b, seed % 2 ? TUTTI_TRIGGER_QUIET : TUTTI_TRIGGER_FLUSH, of);
        for (uint32_t i = 0; i < 100000 && !bench_is_answered(b, ticket); i++) {
            bench_turn(b);
            net_turn(b->net);
        }
        assert_true(bench_is_answered(b, ticket));
        for (uint32_t peer = 1; peer <= 2; peer++)
            for (uint32_t i = 0; i < 10 && (of == peer || of == TUTTI_DEVICE_ALL); i++) {
                const struct net_item *it = &b->net->peers[peer].items[i];

                assert_true(seed % 2 ? it->landed : it->sent);
            }
        bench_destroy(b);
    }
}

static void stopped_rank_stops_only_its_senders(void **state)
{
    char why[300];

    (void)state;
    if (!history_stopped(TUTTI_DEVICE_FULL, why, sizeof why) ||
        !history_stopped(TUTTI_DEVICE_ORDERED, why, sizeof why))
        fail_msg("%s", why);
}

/* A block that sends to a stopped rank. */
static void *send_beyond_the_bound(void *arg)
{
    static const uint8_t bytes[4] = { 1, 2, 3, 4 };
    struct bench *b = arg;

    for (uint32_t i = 0; i < 12; i++)
        tutti_device_put_signal(&b->view, 1, 0, bytes, sizeof bytes, TUTTI_SIGNAL_ADD, 8192, 1);
    return NULL;
}

/* Of 12 commands, 4 enter the FIFO. The block waits outside it, and continues when the rank does,
 * or when the device fails. */
static void full_peer_blocks_outside_the_fifo(void **state)
{
    (void)state;
    for (uint32_t ends = 0; ends < 2; ends++) {
        struct bench *b = bench_create(1, TUTTI_DEVICE_FULL, 64, 4, TT_NEVER);
        pthread_t thread;

        b->net->peers[1].takes = 0;
        assert_int_equal(pthread_create(&thread, NULL, send_beyond_the_bound, b), 0);
        while (!__atomic_load_n(&b->room_waits, __ATOMIC_RELAXED))
            bench_turn(b);
        bench_turn(b);
        assert_int_equal(b->taken, 4 * 3);
        assert_int_equal(__atomic_load_n(&b->reserved, __ATOMIC_RELAXED), 4 * 3);
        if (ends) {
            __atomic_store_n(&b->status, TUTTI_ERR_ABORTED, __ATOMIC_RELEASE);
            tt_proxy_fail(&b->proxy, TUTTI_ERR_ABORTED);
        }
        b->net->peers[1].takes = UINT32_MAX;
        while (!ends && net_word(b->net, 1, 8192) < 12) {
            bench_turn(b);
            net_turn(b->net);
        }
        pthread_join(thread, NULL);
        bench_turn(b);
        assert_int_equal(b->taken, b->reserved);
        assert_int_equal(b->net->peers[1].nitems, ends ? 0 : 12);
        assert_true(tutti_device_has_room(&b->view, 1, 4) &&
                    !tutti_device_has_room(&b->view, 1, 5));
        bench_destroy(b);
    }
}

/* A wake without space is queued once, however many blocks request one. */
static void wakes_of_stopped_rank_are_merged(void **state)
{
    struct bench *b = bench_create(4, TUTTI_DEVICE_FULL, 8, 4, TT_NEVER);

    (void)state;
    b->net->peers[1].deaf = true;
    for (uint32_t i = 0; i < 1000; i++) {
        tutti_device_push(&b->view, tutti_trigger_head(TUTTI_TRIGGER_WAKE, 0, 1, 0), 0);
        bench_turn(b);
    }
    assert_int_equal(b->taken, b->reserved);
    b->net->peers[1].deaf = false;
    bench_turn(b);
    bench_turn(b);
    assert_int_equal(b->net->peers[1].wakes, 1);
    bench_destroy(b);
}

static void blocked_peer_ends_the_device(void **state)
{
    static const uint8_t bytes[4] = { 1, 2, 3, 4 };

    (void)state;
    for (uint32_t what = 0; what < 3; what++) {         /* a put; a quiet; a drain */
        struct bench *b = bench_create(4, what == 2 ? TUTTI_DEVICE_COUPLED : TUTTI_DEVICE_FULL, 64,
                                       0, 50 * TT_MS);
        tutti_status st = TUTTI_OK;
        uint64_t quiet, later;
        uint32_t turns = 0;

        b->net->peers[2].stopped = true;
        if (what == 0)
            b->net->peers[2].takes = 0;
        tutti_device_put_signal(&b->view, 2, 0, bytes, sizeof bytes, TUTTI_SIGNAL_SET, 8192, 1);
        quiet = bench_post_question(b, TUTTI_TRIGGER_QUIET, 2);
        while (!st && turns++ < 1000)
            st = bench_turn(b);
        assert_int_equal(st, TUTTI_ERR_TIMEOUT);
        assert_in_range(turns, 50, 60);                 /* a step of the simulated proxy is a
                                                           millisecond */
        assert_non_null(strstr(tutti_last_error(), "rank 2"));
        assert_true(bench_is_answered(b, quiet) || !tt_proxy_is_idle(&b->proxy));
        bench_turn(b);
        assert_true(bench_is_answered(b, quiet));       /* the waiting block must check the
                                                           status */
        assert_int_equal(tutti_device_put(&b->view, 1, 0, bytes, sizeof bytes), TUTTI_ERR_TIMEOUT);
        later = bench_post_question(b, TUTTI_TRIGGER_FLUSH, 1);
        bench_turn(b);
        assert_true(bench_is_answered(b, later) && b->taken == b->reserved);
        bench_destroy(b);
    }
}

static void invalid_trigger_ends_the_device(void **state)
{
    struct bench *b = bench_create(4, TUTTI_DEVICE_FULL, 64, 0, TT_NEVER);

    (void)state;
    tutti_device_push(&b->view, tutti_trigger_head(TUTTI_TRIGGER_FENCE, 0, 99, 0), 0);
    assert_int_equal(bench_turn(b), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "rank 99"));
    bench_destroy(b);
    b = bench_create(4, TUTTI_DEVICE_FULL, 64, 0, TT_NEVER);
    tutti_device_push(&b->view, tutti_trigger_head(TUTTI_TRIGGER_SOURCE, 0, 1, 0), 7);
    assert_int_equal(bench_turn(b), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "position 0"));
    bench_destroy(b);
}

/* Calls on a GPU cannot report an invalid command: the proxy returns an error once, and then drops
 * the rest. */
static void put_without_source_ends_the_device_once(void **state)
{
    struct bench *b = bench_create(4, TUTTI_DEVICE_FULL, 64, 0, TT_NEVER);

    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        tutti_device_push_put(&b->view, 1, 16, NULL, 64, TUTTI_SIGNAL_NONE, 0, 0);
    tutti_device_push(&b->view, tutti_trigger_head(TUTTI_TRIGGER_FENCE, 0, 99, 0), 0);
    assert_int_equal(bench_turn(b), TUTTI_ERR_INVALID);
    assert_non_null(
        strstr(tutti_last_error(), "its source is NULL (rank 1, 64 bytes at offset 16)"));
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(bench_turn(b), TUTTI_OK);
    assert_int_equal(b->taken, b->reserved);
    assert_int_equal(b->net->peers[1].nitems, 0);
    bench_destroy(b);
}

/* Blocks store the signals themselves, and one trigger announces many of them. */
static void many_signals_cause_one_wake(void **state)
{
    struct bench *b = bench_create(4, TUTTI_DEVICE_FULL, 8, 0, TT_NEVER);

    (void)state;
    b->direct[1] = b->net->peers[1].mem;
    b->view.wakes_hosts = 1;
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(tutti_device_signal(&b->view, 1, TUTTI_SIGNAL_ADD, 64, 1), TUTTI_OK);
        if (i % 50 == 49)
            bench_turn(b);
    }
    assert_int_equal(net_word(b->net, 1, 64), 100);
    assert_int_equal(b->net->peers[1].wakes, 2);
    assert_int_equal(b->proxy.counters.triggers, 2);
    bench_destroy(b);
}

/* ---- many blocks ---- */

#define PRODUCERS 64
#define EACH (UNIT_SHARE > 1 ? 40u : 200u)

struct producer {
    struct bench *b;
    uint32_t number;
    pthread_t thread;
};

/* Commands of one, two and three triggers; their values contain the block and the index. */
static void *produce(void *arg)
{
    const struct producer *p = arg;
    const tutti_device_view *v = &p->b->view;

    for (uint32_t i = 0; i < EACH; i++) {
        const uint64_t value = (uint64_t)p->number << 32 | i;

        if (i % 3 == 0)
            tutti_device_push(
                v, tutti_trigger_head(TUTTI_TRIGGER_SIGNAL, TUTTI_SIGNAL_SET, 1, p->number), value);
        else
            tutti_device_push_put(v, 1, 0, p, 0, i % 3 == 1 ? TUTTI_SIGNAL_NONE : TUTTI_SIGNAL_SET,
                                  p->number * 8ull, value);
        if (i % 3 == 1)         /* the offset of a put does not identify the block: its next
                                   signal does */
            tutti_device_push(
                v, tutti_trigger_head(TUTTI_TRIGGER_SIGNAL, TUTTI_SIGNAL_SET, 1, p->number), value);
    }
    return NULL;
}

/* Commands received from each block. */
struct heard {
    uint32_t next[PRODUCERS];
    bool wrong;
};

static tutti_status hear(void *arg, const struct tt_command *c, bool ordered, uint64_t *done)
{
    struct heard *h = arg;
    const uint32_t number = (uint32_t)(c->word / 8);

    (void)ordered;
    *done += 1;
    if (!c->op)
        return TUTTI_OK;
    h->wrong |=
        number >= PRODUCERS || c->value != ((uint64_t)number << 32 | h->next[number % PRODUCERS]);
    h->next[number % PRODUCERS]++;
    return TUTTI_OK;
}

static void sixty_four_blocks_fill_eight_slots(void **state)
{
    struct bench *b = bench_create(1, TUTTI_DEVICE_FULL, 8, 0, TT_NEVER);
    struct producer producers[PRODUCERS];
    struct heard h = { 0 };
    uint64_t total = 0, found = 0;

    (void)state;
    for (uint32_t i = 0; i < EACH; i++)
        total += i % 3 == 0 ? 1 : 3;
    total *= PRODUCERS;
    b->proxy.conf.sink.arg = &h;
    b->proxy.conf.sink.put = hear;
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ .b = b, .number = i };
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    /* the proxy has processed nothing yet, so the blocks must wait */
    while (!__atomic_load_n(&b->full_waits, __ATOMIC_RELAXED))
        sched_yield();
    while (found < total && !b->status) {
        const uint64_t before = b->proxy.at;

        bench_turn(b);
        assert_true(b->proxy.at - before <= 8);         /* never more than the FIFO holds */
        found = b->proxy.at;
        if (b->proxy.at == before)
            sched_yield();
    }
    for (uint32_t i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i].thread, NULL);
    assert_int_equal(b->status, TUTTI_OK);
    assert_int_equal(found, total);
    assert_false(h.wrong);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        assert_int_equal(h.next[i], EACH);
    assert_false(tt_proxy_has_trigger(&b->proxy));
    bench_destroy(b);
}

/* Without a proxy a block fills the free slots, and not one more. */
static void full_fifo_blocks_the_device_block(void **state)
{
    struct bench *b = bench_create(1, TUTTI_DEVICE_FULL, 8, 0, TT_NEVER);
    struct producer p = { .b = b, .number = 5 };
    struct heard h = { 0 };
    uint64_t head[8];

    (void)state;
    b->proxy.conf.sink.arg = &h;
    b->proxy.conf.sink.put = hear;
    h.next[5] = 0;
    assert_int_equal(pthread_create(&p.thread, NULL, produce, &p), 0);
    while (!__atomic_load_n(&b->full_waits, __ATOMIC_ACQUIRE))
        sched_yield();
    for (int i = 0; i < 8; i++) {
        head[i] = tutti_device_load_acquire(&b->fifo[i].head);
        assert_int_equal(head[i] & 1, 1);               /* all slots are from the first cycle */
    }
    for (int i = 0; i < 1000; i++)
        sched_yield();
    for (int i = 0; i < 8; i++)
        assert_int_equal(tutti_device_load_acquire(&b->fifo[i].head), head[i]);
    while (h.next[5] < EACH && !h.wrong && !b->status)
        bench_turn(b);
    pthread_join(p.thread, NULL);
    assert_false(h.wrong);
    assert_int_equal(b->taken, b->reserved);
    bench_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_signal_precedes_its_bytes),
        cmocka_unit_test(fence_does_not_delay_other_ranks),
        cmocka_unit_test(drains_and_marks_match_the_mode),
        cmocka_unit_test(full_needs_fewest_drains_and_marks),
        cmocka_unit_test(questions_are_answered_in_time),
        cmocka_unit_test(stopped_rank_stops_only_its_senders),
        cmocka_unit_test(full_peer_blocks_outside_the_fifo),
        cmocka_unit_test(wakes_of_stopped_rank_are_merged),
        cmocka_unit_test(blocked_peer_ends_the_device),
        cmocka_unit_test(invalid_trigger_ends_the_device),
        cmocka_unit_test(put_without_source_ends_the_device_once),
        cmocka_unit_test(many_signals_cause_one_wake),
        cmocka_unit_test(sixty_four_blocks_fill_eight_slots),
        cmocka_unit_test(full_fifo_blocks_the_device_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
