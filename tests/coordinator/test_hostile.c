/* Hostile and broken peers do not affect others: three members continue their rounds. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/prng.h"
#include "coordinator/coordinator.h"
#include "support/hive.h"
#include "support/unit.h"

#define WAIT_MS 60000
#define MEMBERS 3

/* A coordinator and unaffected members. */
struct scene {
    struct tt_coordinator *c;
    struct hive *h;
    uint64_t rounds;
    char address[TT_SNAPSHOT_ADDRESS_BYTES];
};

static struct scene open_scene(uint64_t join_ns, uint64_t lease_ns)
{
    const char *address = "127.0.0.1:0";
    const struct tt_secure_conf plain = { .mode = TT_SECURE_PLAIN };
    const struct tt_coordinator_conf conf = {
        .run = "test", .listen = &address, .nlisten = 1, .lease_ns = lease_ns, .join_ns = join_ns
    };
    struct scene s = { .rounds = 1 };
    struct tt_journal *j = NULL;

    assert_int_equal(tt_journal_none_open(&j), TUTTI_OK);
    assert_int_equal(tt_coordinator_create(&s.c, &conf, j), TUTTI_OK);
    snprintf(s.address, sizeof s.address, "%s", tt_coordinator_address(s.c, 0));
    s.h = hive_create("test", MEMBERS, 1, 64, false, &plain);
    hive_add_address(s.h, s.address);
    assert_true(hive_gather(s.h, WAIT_MS));
    return s;
}

/* Runs one round of all three members, without losses. */
static void round_goes_well(struct scene *s)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        hive_call(s->h, i, &(struct tt_elmsg){ .what = TT_CALL_COMMIT, .value = 1 });
    assert_true(hive_until(s->h, hive_all_called, ++s->rounds, WAIT_MS));
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(s->h->lights[i].value, 1);
}

static void close_scene(struct scene *s)
{
    round_goes_well(s);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(s->h->lights[i].connections, 1);
    hive_destroy(s->h);
    tt_coordinator_destroy(s->c);
}

static struct tt_snapshot_counters counters(struct scene *s, uint32_t *connections)
{
    struct tt_snapshot_counters out;
    const struct tt_snapshot *snapshot;

    usleep(TT_SNAPSHOT_EVERY_NS / 1000 + 1000);
    snapshot = tt_board_get(tt_coordinator_board(s->c), WAIT_MS * TT_MS);
    assert_non_null(snapshot);
    out = snapshot->counters;
    if (connections)
        *connections = snapshot->connections;
    tt_board_put(tt_coordinator_board(s->c), snapshot);
    return out;
}

/* Runs rounds until `refused` connections of that kind have been refused. */
static void rounds_until_refused(struct scene *s, enum tt_snapshot_refusal kind, uint64_t refused)
{
    const uint64_t end_ns = tt_now_ns() + WAIT_MS * TT_MS;

    while (counters(s, NULL).refused[kind] < refused) {
        round_goes_well(s);
        assert_true(tt_now_ns() < end_ns);
    }
}

/* ---- unauthenticated peers ---- */

/* Connects from 127.0.0.`host`; the connected socket is non-blocking. */
static int call_on(const struct scene *s, uint8_t host)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct sockaddr_in from = { .sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(0x7f000000u | host) };

    to.sin_port = htons((uint16_t)atoi(strchr(s->address, ':') + 1));
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* Writes as much as possible. Returns true until the other end has closed. */
static bool put(int fd, const void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL) >= 0 || errno == EAGAIN;
}

static void put_in(int fd, uint8_t version, const struct tt_elmsg *m)
{
    uint8_t data[1024];
    const size_t bytes = tt_elmsg_write(data + 4, sizeof data - 4, m);
    struct tt_writer w;

    assert_true(bytes > 0);
    data[4] = version;
    tt_writer_init(&w, data, 4);
    tt_write_u32(&w, (uint32_t)bytes);
    assert_true(put(fd, data, bytes + 4));
}

static void put_message(int fd, const struct tt_elmsg *m)
{
    put_in(fd, TT_ELASTIC_VERSION, m);
}

static struct tt_elmsg join_of(uint8_t cookie)
{
    struct tt_elmsg join = { .kind = TT_ELMSG_JOIN, .nroles = 1, .cookie = { cookie } };

    snprintf(join.text, sizeof join.text, "test");
    return join;
}

static void put_join(int fd, uint8_t cookie)
{
    const struct tt_elmsg join = join_of(cookie);

    put_message(fd, &join);
}

static void wait_for_end(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char data[4096];

    for (;;) {
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        if (recv(fd, data, sizeof data, 0) <= 0)
            return;
    }
}

static void garbage_costs_its_connection(void **state)
{
    struct scene s = open_scene(0, 10 * TT_SECOND);
    struct tt_prng p;
    uint32_t connections;

    (void)state;
    tt_prng_init(&p, 11);
    for (uint32_t i = 0; i < 60; i++) {
        uint8_t data[2000];
        const size_t bytes = 8 + tt_prng_below(&p, sizeof data - 8);
        const int fd = call_on(&s, 2);

        for (size_t k = 0; k < bytes; k++)
            data[k] = (uint8_t)tt_prng_u64(&p);
        if (i % 3 == 0)
            /* a length above the limit before joining */
            memcpy(data, i % 2 ? "\x01\0\x01\0" : "\xff\xff\xff\xff", 4);
        else if (i % 3 == 1)
            memcpy(data, "\x04\0\0\0", 4); /* a message of an unknown kind */
        put(fd, data, bytes);
        if (i % 3 != 2)
            wait_for_end(fd);
        if (i % 10 == 0)
            round_goes_well(&s);
        close(fd);
    }
    assert_true(counters(&s, NULL).refused[TT_REFUSAL_GARBAGE] >= 20);
    assert_true(counters(&s, NULL).refused[TT_REFUSAL_PROTOCOL] >= 20);
    do
        counters(&s, &connections);
    while (connections > MEMBERS);
    close_scene(&s);
}

static void join_has_a_time_limit(void **state)
{
    struct scene s = open_scene(300 * TT_MS, 10 * TT_SECOND);
    int fds[50];

    (void)state;
    for (int i = 0; i < 50; i++) {
        fds[i] = call_on(&s, 2);
        if (i % 2) /* half of a message */
            put(fds[i], "\x20\0\0\0\x01\x01", 6);
    }
    rounds_until_refused(&s, TT_REFUSAL_SLOW, 50);
    for (int i = 0; i < 50; i++) {
        wait_for_end(fds[i]);
        close(fds[i]);
    }
    close_scene(&s);
}

/* More connections than the limit of unauthenticated ones, all from one address: newcomers from
 * others are still admitted. */
static void one_address_cannot_exhaust_connections(void **state)
{
    enum { CROWD = 1500 };
    const struct rlimit many = { .rlim_cur = 8192, .rlim_max = 8192 };
    const struct tt_secure_conf plain = { .mode = TT_SECURE_PLAIN };
    struct scene s;
    struct hive *late;
    int *fds = calloc(CROWD, sizeof *fds);
    uint32_t connections;

    (void)state;
    assert_non_null(fds);
    if (setrlimit(RLIMIT_NOFILE, &many) != 0) {
        free(fds);
        skip();
    }
    s = open_scene(60 * TT_SECOND, 10 * TT_SECOND);
    for (int i = 0; i < CROWD; i++) {
        fds[i] = call_on(&s, 2);
        if (i % 100 == 0)
            round_goes_well(&s);
    }
    counters(&s, &connections);
    assert_true(connections <= 1024 + MEMBERS + 1);
    late = hive_create("test", 20, 1, 64, false, &plain);
    hive_add_address(late, s.address);
    for (uint32_t i = 0; i < late->n; i++)
        hive_start(late, i);
    assert_true(hive_until(late, hive_all_welcome, 0, WAIT_MS));
    assert_true(counters(&s, NULL).refused[TT_REFUSAL_TOO_MANY] >= CROWD - 1024);
    round_goes_well(&s);
    hive_destroy(late);
    for (int i = 0; i < CROWD; i++)
        close(fds[i]);
    free(fds);
    close_scene(&s);
}

static void closed_connections_leave_no_state(void **state)
{
    struct scene s = open_scene(0, 10 * TT_SECOND);
    uint32_t connections;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        const int fd = call_on(&s, (uint8_t)(2 + i % 200));
        const struct linger reset = { .l_onoff = i % 2, .l_linger = 0 };

        if (i % 3 == 0)
            put(fd, "\x20\0\0\0\x01", 5);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
        if (i % 300 == 0)
            round_goes_well(&s);
    }
    do
        counters(&s, &connections);
    while (connections > MEMBERS);
    close_scene(&s);
}

/* ---- authenticated peers ---- */

static void flooding_member_is_throttled(void **state)
{
    struct scene s = open_scene(0, 10 * TT_SECOND);
    const struct tt_elmsg beat = { .kind = TT_ELMSG_HEARTBEAT };
    const int fd = call_on(&s, 2);
    uint8_t beats[6000], sink[65536];
    struct tt_writer w;
    const uint64_t begin_ns = tt_now_ns();
    uint64_t heard;
    uint32_t rounds = 0;
    size_t bytes = 0;
    ssize_t sent;

    (void)state;
    tt_writer_init(&w, beats, sizeof beats);
    for (uint32_t i = 0; i < 1000; i++) {
        uint8_t one[16];

        assert_int_equal(tt_elmsg_write(one, sizeof one, &beat), 2);
        tt_write_u32(&w, 2);
        tt_write_bytes(&w, one, 2);
    }
    assert_false(w.bad);
    put_join(fd, 7);
    while (rounds < 10 || counters(&s, NULL).slowed == 0) {
        while ((sent = send(fd, beats + bytes % sizeof beats, sizeof beats - bytes % sizeof beats,
                            MSG_NOSIGNAL)) > 0)
            bytes += (size_t)sent;
        while (recv(fd, sink, sizeof sink, 0) > 0)
            ;
        round_goes_well(&s);
        rounds++;
        assert_true(tt_now_ns() - begin_ns < WAIT_MS * TT_MS);
    }
    heard = counters(&s, NULL).taken[TT_ELMSG_HEARTBEAT];
    if (heard > 2000 + 3 * MEMBERS + (tt_now_ns() - begin_ns) / (TT_SECOND / 10000))
        fail_msg("%llu were heard in %llu ms", (unsigned long long)heard,
                 (unsigned long long)((tt_now_ns() - begin_ns) / TT_MS));
    close(fd);
    close_scene(&s);
}

/* A member repeatedly makes a call that cannot succeed, cancels it, and reads no reply. The queue
 * of its replies is bounded. When that is full, the coordinator no longer reads the member's
 * messages, so the member is lost. */
static void non_reading_member_is_not_read(void **state)
{
    struct scene s = open_scene(0, 4 * TT_SECOND);
    const struct tt_elmsg call = { .kind = TT_ELMSG_CALL,
                                   .what = TT_CALL_EPOCH,
                                   .flags = TT_EPOCH_ADMIT,
                                   .most = 1 },
                          cancel = { .kind = TT_ELMSG_CANCEL };
    const uint64_t end_ns = tt_now_ns() + WAIT_MS * TT_MS;
    const int fd = call_on(&s, 2);
    uint8_t asked[100 * 100], one[100];
    struct tt_writer w;
    uint64_t bytes = 0;
    size_t n;
    ssize_t sent;

    (void)state;
    tt_writer_init(&w, asked, sizeof asked);
    for (int i = 0; i < 200; i++) {
        const size_t one_bytes = tt_elmsg_write(one, sizeof one, i % 2 ? &cancel : &call);

        tt_write_u32(&w, (uint32_t)one_bytes);
        tt_write_bytes(&w, one, one_bytes);
    }
    n = tt_writer_bytes(&w);
    assert_false(w.bad);
    put_join(fd, 7);
    for (;;) {
        sent = send(fd, asked + bytes % n, n - bytes % n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            break;
        bytes += sent > 0 ? (uint64_t)sent : 0;
        if (sent < 0)
            round_goes_well(&s);
        assert_true(tt_now_ns() < end_ns);
    }
    assert_int_equal(counters(&s, NULL).refused[TT_REFUSAL_GARBAGE], 0);
    assert_true(bytes < 8u << 20);
    close(fd);
    close_scene(&s);
}

static void forbidden_messages_end_the_connection(void **state)
{
    struct scene s = open_scene(0, 10 * TT_SECOND);

    (void)state;
    for (uint8_t kind = TT_ELMSG_WELCOME; kind < TT_ELMSG_KINDS; kind++) {
        const int fd = call_on(&s, 2);
        struct pollfd p = { .fd = fd, .events = POLLIN };
        struct tt_elmsg told = { 0 };
        uint8_t data[4096];
        size_t got = 0, at = 0, bytes = 0;
        ssize_t more;

        if (kind == TT_ELMSG_INSIDE || kind == TT_ELMSG_NOT_BEGUN) { /* these are valid */
            close(fd);
            continue;
        }
        put_join(fd, (uint8_t)(kind + 1));
        put_message(fd, &(struct tt_elmsg){ .kind = kind, .number = 1, .epoch = 1, .nroles = 1 });
        while (poll(&p, 1, WAIT_MS) == 1 && (more = recv(fd, data + got, sizeof data - got, 0)) > 0)
            got += (size_t)more;
        while (at + 4 <= got) {
            struct tt_reader r;

            tt_reader_init(&r, data + at, 4);
            bytes = tt_read_u32(&r);
            assert_true(at + 4 + bytes <= got);
            assert_true(tt_elmsg_read(&told, data + at + 4, bytes));
            at += 4 + bytes;
        }
        if (told.kind != TT_ELMSG_REFUSED)
            fail_msg("after a %s the last word was %s", tt_elmsg_name(kind),
                     tt_elmsg_name(told.kind));
        close(fd);
        round_goes_well(&s);
    }
    close_scene(&s);
}

static void other_version_is_refused_in_kind(void **state)
{
    struct scene s = open_scene(0, 10 * TT_SECOND);
    const struct tt_elmsg join = join_of(9);
    const int fd = call_on(&s, 2);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    struct tt_elmsg told;
    uint8_t data[512];
    size_t got = 0;
    ssize_t more;

    (void)state;
    put_in(fd, 1, &join);
    while (poll(&p, 1, WAIT_MS) == 1 && (more = recv(fd, data + got, sizeof data - got, 0)) > 0)
        got += (size_t)more;
    assert_true(got > 5);
    assert_int_equal(tt_elmsg_version(data + 4, got - 4), 1);
    assert_true(tt_elmsg_read_refusal(&told, data + 4, got - 4));
    assert_non_null(strstr(told.text, "the member has version 1,"));
    close(fd);
    close_scene(&s);
}

/* One byte at a time is slow, but valid. */
static void slow_valid_messages_are_accepted(void **state)
{
    struct scene s = open_scene(0, 10 * TT_SECOND);
    const int fd = call_on(&s, 2);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    const struct tt_elmsg join = join_of(9);
    uint8_t data[512];
    struct tt_writer w;
    size_t bytes;

    (void)state;
    bytes = tt_elmsg_write(data + 4, sizeof data - 4, &join);
    tt_writer_init(&w, data, 4);
    tt_write_u32(&w, (uint32_t)bytes);
    for (size_t i = 0; i < bytes + 4; i++) {
        assert_true(put(fd, data + i, 1));
        hive_turn(s.h, 1);
    }
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    assert_true(recv(fd, data, 6, MSG_WAITALL) == 6);
    assert_int_equal(data[5], TT_ELMSG_WELCOME);
    close(fd);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_costs_its_connection),
        cmocka_unit_test(join_has_a_time_limit),
        cmocka_unit_test(one_address_cannot_exhaust_connections),
        cmocka_unit_test(closed_connections_leave_no_state),
        cmocka_unit_test(flooding_member_is_throttled),
        cmocka_unit_test(non_reading_member_is_not_read),
        cmocka_unit_test(forbidden_messages_end_the_connection),
        cmocka_unit_test(other_version_is_refused_in_kind),
        cmocka_unit_test(slow_valid_messages_are_accepted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
