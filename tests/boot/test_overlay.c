/* The control overlay over real sockets, with all ranks in one thread, so that each test decides
 * which rank makes progress. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "boot/flood.h"
#include "boot/loss_cause.h"
#include "boot/overlay.h"
#include "support/unit.h"

#define RANKS_MAX 12
#define PATIENCE_NS (20 * TT_SECOND)

struct net {
    uint32_t n;
    bool doubles;                   /* the overlays connect their links by doubling */
    uint64_t records_until_ns;
    bool absent[RANKS_MAX];         /* never opened: the rank died between the start-up table and
                                       the overlay */
    int silent[RANKS_MAX];          /* never opened, but its listener is: its descriptor; 0: not
                                       silent */
    uint32_t nrecords, nfallbacks;  /* endpoints from records, and from the table as a fallback */
    uint8_t secrets[RANKS_MAX][16];
    struct tt_endpoint endpoints[RANKS_MAX];
    struct tt_overlay *overlays[RANKS_MAX];
    uint32_t heard[RANKS_MAX][RANKS_MAX];   /* [by][origin] */
    uint32_t lost[RANKS_MAX][RANKS_MAX];
};

#define RECORD_BYTES 700            /* more than a flooded frame */

static void endpoint_of(void *arg, uint32_t peer, const void *record, size_t bytes,
                        struct tt_endpoint *out)
{
    struct net *net = arg;
    struct tt_reader r;

    *out = net->endpoints[peer];
    if (!record) {
        net->nfallbacks++;
        return;
    }
    net->nrecords++;
    assert_int_equal(bytes, RECORD_BYTES);
    tt_reader_init(&r, record, bytes);
    tt_endpoint_read(&r, out);
    assert_false(r.bad);
    assert_int_equal(out->port, net->endpoints[peer].port);
}

static void write_record(const struct net *net, uint32_t rank, uint8_t record[RECORD_BYTES])
{
    struct tt_writer w;

    memset(record, (int)rank, RECORD_BYTES);
    tt_writer_init(&w, record, RECORD_BYTES);
    tt_endpoint_write(&w, &net->endpoints[rank]);
}

/* Sets the endpoints of the neighbours; with doubling, only those of the adjacent ranks. */
static void set_neighbours(struct net *net, uint32_t r)
{
    for (uint32_t p = 0; p < net->n; p++)
        if (!net->doubles || (p + 1) % net->n == r || (r + 1) % net->n == p)
            tt_overlay_neighbour(net->overlays[r], p, &net->endpoints[p]);
}

/* Opens listeners, and overlays on all ranks except the absent ones, whose ports refuse
 * connections. No links are connected yet. */
static void net_open(struct net *net)
{
    int listeners[RANKS_MAX];

    for (uint32_t r = 0; r < net->n; r++) {
        uint16_t port = 0;

        listeners[r] = tt_listen(NULL, 0, &port);
        assert_true(listeners[r] >= 0);
        assert_int_equal(tt_endpoint_init(&net->endpoints[r], port, ""), TUTTI_OK);
    }
    for (uint32_t r = 0; r < net->n; r++) {
        uint8_t record[RECORD_BYTES];
        const struct tt_overlay_conf conf = {
            .rank = r,
            .nranks = net->n,
            .secret = net->secrets[r],
            .listener = listeners[r],
            .near = -1,
            .own = &net->endpoints[r],
            .record = net->doubles ? record : NULL,
            .record_bytes = RECORD_BYTES,
            .records_until_ns = net->records_until_ns,
            .endpoint = endpoint_of,
            .arg = net,
        };

        write_record(net, r, record);
        if (net->silent[r]) {
            net->silent[r] = listeners[r];
            continue;
        }
        if (net->absent[r]) {
            close(listeners[r]);
            continue;
        }
        assert_int_equal(tt_overlay_open(&net->overlays[r], &conf), TUTTI_OK);
        set_neighbours(net, r);
    }
}

static bool all_settled(struct net *net, bool give_up)
{
    bool all = true;

    for (uint32_t r = 0; r < net->n; r++)
        if (net->overlays[r]) {
            assert_int_equal(tt_overlay_settle(net->overlays[r], give_up), TUTTI_OK);
            all &= tt_overlay_is_settled(net->overlays[r]);
        }
    return all;
}

/* Sleeps until an overlay has an event, at most 20 ms. */
static void wait_for_any(struct net *net)
{
    struct pollfd p[RANKS_MAX];

    for (uint32_t r = 0; r < net->n; r++)
        p[r] = (struct pollfd){ .fd = net->overlays[r] ? tt_overlay_fd(net->overlays[r]) : -1,
                                .events = POLLIN };
    poll(p, net->n, 20);
}

static void net_settle(struct net *net)
{
    const uint64_t end_ns = tt_now_ns() + PATIENCE_NS;

    while (!all_settled(net, false)) {
        assert_true(tt_now_ns() < end_ns);
        wait_for_any(net);
    }
}

static void take_events(struct net *net, uint32_t r)
{
    struct tt_overlay_event ev;

    while (net->overlays[r] && tt_overlay_next(net->overlays[r], &ev)) {
        assert_true(ev.origin < net->n);
        if (ev.kind == TT_OVERLAY_LOST) {
            net->lost[r][ev.origin]++;
        } else {
            uint32_t number;

            assert_true(ev.bytes >= sizeof number);
            memcpy(&number, ev.data, sizeof number);
            assert_int_equal(number, net->heard[r][ev.origin]);
            net->heard[r][ev.origin]++;
        }
    }
}

/* All ranks except `still` make progress until `done`. */
static void progress_until(struct net *net, uint32_t still, bool (*done)(const struct net *net))
{
    const uint64_t end_ns = tt_now_ns() + PATIENCE_NS;

    while (!done(net)) {
        assert_true(tt_now_ns() < end_ns);
        for (uint32_t r = 0; r < net->n; r++)
            if (r != still)
                take_events(net, r);
        wait_for_any(net);
    }
}

static void flood_number(struct net *net, uint32_t r, uint32_t number, uint16_t bytes)
{
    uint8_t payload[TT_OVERLAY_BYTES] = { 0 };

    memcpy(payload, &number, sizeof number);
    tt_overlay_flood(net->overlays[r], payload, bytes);
}

static void net_close(struct net *net)
{
    for (uint32_t r = 0; r < net->n; r++)
        tt_overlay_close(net->overlays[r]);
}

#define WORDS 5

static bool everybody_heard_everybody(const struct net *net)
{
    for (uint32_t r = 0; r < net->n; r++)
        for (uint32_t o = 0; o < net->n; o++)
            if (net->overlays[r] && net->overlays[o] && o != r && net->heard[r][o] != WORDS)
                return false;
    return true;
}

static bool the_absent_are_lost_everywhere(const struct net *net)
{
    for (uint32_t r = 0; r < net->n; r++)
        for (uint32_t o = 0; o < net->n; o++)
            if (net->overlays[r] && net->absent[o] && net->lost[r][o] == 0)
                return false;
    return true;
}

static bool nobody_lost_anybody_living(const struct net *net)
{
    for (uint32_t r = 0; r < net->n; r++)
        for (uint32_t o = 0; o < net->n; o++)
            if (net->lost[r][o] > (net->absent[o] ? 1u : 0u))
                return false;
    return true;
}

/* ---- tests ---- */

static void exchange_words(struct net *net)
{
    for (uint32_t i = 0; i < WORDS; i++)
        for (uint32_t r = 0; r < net->n; r++)
            if (net->overlays[r])
                flood_number(net, r, i, 4 + (uint16_t)(i * 127));
    progress_until(net, net->n, everybody_heard_everybody);
    assert_true(nobody_lost_anybody_living(net));
}

static void words_arrive_once_in_order(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= RANKS_MAX; n++) {
        struct net net = { .n = n };

        net_open(&net);
        net_settle(&net);
        assert_int_equal(net.nrecords + net.nfallbacks, 0);
        exchange_words(&net);
        net_close(&net);
    }
}

/* The callee of a link needs no record if the caller connects first. */
static void doubling_connects_all_neighbours(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= RANKS_MAX; n++) {
        struct net net = { .n = n, .doubles = true, .records_until_ns = TT_NEVER };
        uint32_t ncallers = 0;

        net_open(&net);
        net_settle(&net);
        for (uint32_t r = 0; r < n; r++) {
            const uint32_t *peers, npeers = tt_overlay_neighbours(net.overlays[r], &peers);

            for (uint32_t i = 0; i < npeers; i++) {
                assert_true(tt_overlay_is_connected(net.overlays[r], peers[i]));
                ncallers += r < peers[i] && peers[i] - r != 1 && peers[i] - r != n - 1;
            }
        }
        print_message("%u ranks: %u records for %u connections\n", n, net.nrecords, ncallers);
        assert_int_equal(net.nfallbacks, 0);
        assert_in_range(net.nrecords, ncallers, 2 * ncallers);
        exchange_words(&net);
        net_close(&net);
    }
}

/* One rank does nothing. All other pairs of neighbours are still connected, although the path to
 * some of them leads through that rank. At the deadline only this rank is lost. */
static void silent_rank_delays_no_other_link(void **state)
{
    (void)state;
    for (uint32_t silent = 0; silent < 2; silent++) {
        struct net net = { .n = RANKS_MAX,
                           .doubles = true,
                           .records_until_ns = tt_now_ns() + 500 * TT_MS };
        const uint64_t end_ns = tt_now_ns() + PATIENCE_NS;
        uint32_t nmissing;

        net.silent[5 * silent] = 1;
        net_open(&net);
        do {
            assert_true(tt_now_ns() < end_ns);
            nmissing = 0;
            all_settled(&net, false);
            wait_for_any(&net);
            for (uint32_t r = 0; r < net.n; r++) {
                const uint32_t *peers,
                    npeers = net.overlays[r] ? tt_overlay_neighbours(net.overlays[r], &peers) : 0;

                for (uint32_t i = 0; i < npeers; i++)
                    nmissing += net.overlays[peers[i]] &&
                                !tt_overlay_is_connected(net.overlays[r], peers[i]);
            }
        } while (nmissing > 0);
        while (!all_settled(&net, true))
            wait_for_any(&net);
        net.absent[5 * silent] = true;
        exchange_words(&net);
        progress_until(&net, net.n, the_absent_are_lost_everywhere);
        assert_true(nobody_lost_anybody_living(&net));
        assert_true(net.nfallbacks > 0);
        close(net.silent[5 * silent]);
        net_close(&net);
    }
}

/* A neighbour dies early, also rank 0, to which no rank connects: its neighbours, which it would
 * connect to, detect its death by probing. */
static void early_dead_neighbour_is_lost_soon(void **state)
{
    (void)state;
    for (uint32_t one = 0; one < 12; one++) {
        const uint64_t begin_ns = tt_now_ns();
        struct net net = { .n = 7,
                           .doubles = one >= 6,
                           .records_until_ns = begin_ns + 500 * TT_MS };

        net.absent[one % 6] = true;
        net_open(&net);
        net_settle(&net);
        assert_true(tt_now_ns() - begin_ns < 10 * TT_SECOND);
        for (uint32_t i = 0; i < WORDS; i++)
            for (uint32_t r = 0; r < net.n; r++)
                if (net.overlays[r])
                    flood_number(&net, r, i, 8);
        progress_until(&net, net.n, everybody_heard_everybody);
        progress_until(&net, net.n, the_absent_are_lost_everywhere);
        assert_true(nobody_lost_anybody_living(&net));
        net_close(&net);
    }
}

static int knock(uint16_t port)
{
    struct sockaddr_in in = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&in, sizeof in), 0);
    return fd;
}

/* More connections than the limit for unauthenticated peers: some are silent, some send garbage,
 * and some start like a neighbour and then violate the protocol. */
static void strangers_at_listener_are_harmless(void **state)
{
    struct net net = { .n = 5 };
    struct tt_prng prng;
    int fds[5 * 100];
    size_t nfds = 0;

    (void)state;
    tt_prng_init(&prng, 1);
    net_open(&net);
    for (uint32_t r = 0; r < net.n; r++)
        for (int i = 0; i < 100; i++) {
            const int fd = fds[nfds++] = knock(net.endpoints[r].port);
            uint8_t junk[80];

            for (size_t k = 0; k < sizeof junk; k++)
                junk[k] = (uint8_t)tt_prng_u64(&prng);
            if (i % 3 == 1) {
                tt_frame_header(junk, 16, 20);      /* a HELLO of rank 0, and a CONFIRM with an
                                                       invalid MAC */
                memset(junk + TT_FRAME_HEADER_BYTES, 0, 4);
                tt_frame_header(junk + 28, 18, 32);
            }
            if (i % 3)
                assert_int_equal(send(fd, junk, sizeof junk, MSG_NOSIGNAL), sizeof junk);
        }
    net_settle(&net);
    for (uint32_t i = 0; i < WORDS; i++)
        for (uint32_t r = 0; r < net.n; r++)
            flood_number(&net, r, i, 8);
    progress_until(&net, net.n, everybody_heard_everybody);
    assert_true(nobody_lost_anybody_living(&net));
    while (nfds > 0)
        close(fds[--nfds]);
    net_close(&net);
}

static void missing_secret_is_refused(void **state)
{
    struct net net = { .n = 3 };
    const uint64_t end_ns = tt_now_ns() + TT_SECOND;

    (void)state;
    net.secrets[2][0] = 1;
    net_open(&net);
    while (tt_now_ns() < end_ns) {      /* long enough for all connection attempts */
        all_settled(&net, false);
        wait_for_any(&net);
    }
    while (!all_settled(&net, true))
        wait_for_any(&net);
    for (uint32_t r = 0; r < 3; r++)
        take_events(&net, r);
    assert_int_equal(net.lost[0][2], 1);
    assert_int_equal(net.lost[1][2], 1);
    assert_int_equal(net.lost[0][1] + net.lost[1][0], 0);
    net_close(&net);
}

static bool is_1_lost(const struct net *net)
{
    return net->lost[0][1] == 1 && net->lost[2][1] == 1;
}

/* Rank 1 makes no progress. Data for it is queued up to a limit; beyond that it is declared
 * lost. */
static void blocked_neighbour_is_dropped_at_limit(void **state)
{
    struct net net = { .n = 3 };
    uint32_t said = 0;

    (void)state;
    net_open(&net);
    net_settle(&net);
    while (!is_1_lost(&net) && said < 100000) {
        flood_number(&net, 0, said++, TT_OVERLAY_BYTES);
        take_events(&net, 0);
        take_events(&net, 2);
    }
    progress_until(&net, 1, is_1_lost);
    print_message("dropped after %u frames\n", said);
    assert_true(said > 1000 && said < 100000);
    net_close(&net);
}

static void goodbye_is_no_loss(void **state)
{
    struct net net = { .n = 4 };

    (void)state;
    net_open(&net);
    net_settle(&net);
    for (uint32_t i = 0; i < WORDS; i++)
        for (uint32_t r = 0; r < net.n; r++)
            flood_number(&net, r, i, 8);
    progress_until(&net, net.n, everybody_heard_everybody);
    tt_overlay_close(net.overlays[3]);
    net.overlays[3] = NULL;
    for (uint32_t i = 0; i < WORDS; i++)
        flood_number(&net, 0, WORDS + i, 8);
    for (uint64_t end_ns = tt_now_ns() + PATIENCE_NS;
         net.heard[1][0] < 2 * WORDS || net.heard[2][0] < 2 * WORDS;) {
        assert_true(tt_now_ns() < end_ns);
        for (uint32_t r = 0; r < 3; r++)
            take_events(&net, r);
        wait_for_any(&net);
    }
    assert_true(nobody_lost_anybody_living(&net));
    net_close(&net);
}

/* ---- causes in messages ---- */

/* Rank `by` connects to a listener that never replies, in place of rank `of`. Returns the
 * listener. */
static int make_silent(struct net *net, uint32_t by, uint32_t of)
{
    struct tt_endpoint silent;
    uint16_t port = 0;
    const int fd = tt_listen(NULL, 0, &port);

    assert_true(fd >= 0);
    assert_int_equal(tt_endpoint_init(&silent, port, ""), TUTTI_OK);
    tt_overlay_neighbour(net->overlays[by], of, &silent);
    return fd;
}

/* Stores the event by which rank `by` reports the loss of rank `of`. Returns false if there is none
 * yet. */
static bool take_loss(struct net *net, uint32_t by, uint32_t of, struct tt_overlay_event *ev)
{
    while (tt_overlay_next(net->overlays[by], ev))
        if (ev->kind == TT_OVERLAY_LOST && ev->origin == of)
            return true;
    return false;
}

/* Rank 2 refuses rank 1, which reports the loss while rank 0 still tries to connect to rank 2. */
static void loss_before_deadline_does_not_mention_it(void **state)
{
    struct net net = { .n = 3, .absent = { false, false, true } };
    const uint64_t end_ns = tt_now_ns() + PATIENCE_NS;
    struct tt_overlay_event ev;
    char cause[200];
    int silent;

    (void)state;
    net_open(&net);
    silent = make_silent(&net, 0, 2);
    do {
        assert_true(tt_now_ns() < end_ns);
        all_settled(&net, false);
        wait_for_any(&net);
    } while (!take_loss(&net, 0, 2, &ev));
    assert_true(ev.unmet);
    tt_loss_cause(&ev, cause, sizeof cause);
    assert_null(strstr(cause, "deadline"));
    assert_non_null(strstr(cause, "another rank"));
    close(silent);
    net_close(&net);
}

static void loss_at_deadline_mentions_it(void **state)
{
    struct net net = { .n = 2, .absent = { false, true } };
    struct tt_overlay_event ev;
    char cause[200];
    int silent;

    (void)state;
    net_open(&net);
    silent = make_silent(&net, 0, 1);
    assert_false(all_settled(&net, false));
    assert_true(all_settled(&net, true));
    assert_true(take_loss(&net, 0, 1, &ev));
    tt_loss_cause(&ev, cause, sizeof cause);
    assert_non_null(strstr(cause, "before the deadline"));
    close(silent);
    net_close(&net);
}

/* Each cause has its own text, and only one mentions the deadline. */
static void causes_of_losses_are_distinct(void **state)
{
    static const struct tt_overlay_event events[] = {
        { .kind = TT_OVERLAY_LOST },
        { .kind = TT_OVERLAY_LOST, .unmet = true },
        { .kind = TT_OVERLAY_LOST, .unmet = true, .error = ETIMEDOUT },
        { .kind = TT_OVERLAY_LOST, .unmet = true, .error = EADDRNOTAVAIL },
        { .kind = TT_OVERLAY_LOST, .unmet = true, .error = ECONNREFUSED },
    };
    char text[sizeof events / sizeof *events][200];

    (void)state;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        tt_loss_cause(&events[i], text[i], sizeof text[i]);
        assert_int_equal(strstr(text[i], "deadline") != NULL, events[i].error == ETIMEDOUT);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(text[i], text[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_arrive_once_in_order),
        cmocka_unit_test(doubling_connects_all_neighbours),
        cmocka_unit_test(silent_rank_delays_no_other_link),
        cmocka_unit_test(early_dead_neighbour_is_lost_soon),
        cmocka_unit_test(strangers_at_listener_are_harmless),
        cmocka_unit_test(missing_secret_is_refused),
        cmocka_unit_test(blocked_neighbour_is_dropped_at_limit),
        cmocka_unit_test(goodbye_is_no_loss),
        cmocka_unit_test(loss_before_deadline_does_not_mention_it),
        cmocka_unit_test(loss_at_deadline_mentions_it),
        cmocka_unit_test(causes_of_losses_are_distinct),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
