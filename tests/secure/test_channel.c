#include "secure/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "secure/ends.h"
#include "support/pattern.h"
#include "support/unit.h"
#include "support/world.h"

#define FRAME_MAX 70000u
#define QUEUE_MAX 200000u
#define MESSAGES 40u

static struct tt_channel *channel_on(int fd, struct tt_secure *secure, enum tt_stream_end end,
                                     size_t queue_max)
{
    const struct tt_channel_conf conf = { .frame_max = FRAME_MAX, .queue_max = queue_max };
    struct tt_stream *stream;
    struct tt_channel *c;

    assert_int_equal(tt_stream_create(&stream, secure, fd, end), TUTTI_OK);
    assert_int_equal(tt_channel_create(&c, stream, &conf), TUTTI_OK);
    return c;
}

struct pair {
    struct tt_channel *c[2];
};

static void pair_open(struct pair *p, struct tt_secure *secure, bool tight)
{
    int fd[2];

    ends_sockets(fd, tight);
    p->c[CONNECTS] = channel_on(fd[CONNECTS], secure, TT_STREAM_CONNECTS, QUEUE_MAX);
    p->c[ACCEPTS] = channel_on(fd[ACCEPTS], secure, TT_STREAM_ACCEPTS, QUEUE_MAX);
}

static void pair_close(struct pair *p)
{
    tt_channel_destroy(p->c[0]);
    tt_channel_destroy(p->c[1]);
}

/* Reads the next message or the end at p->c[end], while the other end sends its queue. */
static int pair_next(struct pair *p, int end, const void **data, size_t *bytes)
{
    for (int i = 0; i < ENDS_STEPS; i++) {
        const int n = tt_channel_next(p->c[end], data, bytes);

        if (n != 0)
            return n;
        tt_channel_flush(p->c[!end]);
    }
    fail_msg("nothing comes");
    return 0;
}

/* The length of message `i` of a direction; length and contents depend on the seed. */
static size_t message_bytes(uint64_t seed, int end, uint32_t i)
{
    const uint64_t drawn = tt_mix64(seed * 2 + (uint64_t)end + 1000003ull * i);

    return (size_t)(drawn % (FRAME_MAX + 1) >> (drawn >> 40) % 18);
}

static void send_message(struct tt_channel *c, uint64_t seed, int end, uint32_t i)
{
    const size_t bytes = message_bytes(seed, end, i);
    uint8_t *data = malloc(bytes + 1);

    assert_non_null(data);
    pattern_fill(data, bytes, seed + i);
    assert_int_equal(tt_channel_send(c, data, bytes), 0);
    free(data);
}

static void exchange(struct tt_secure *secure, uint64_t seed)
{
    uint32_t sent[2] = { 0 }, got[2] = { 0 };
    struct tt_prng prng;
    struct pair p;
    int steps = 0;

    tt_prng_init(&prng, seed);
    pair_open(&p, secure, tt_prng_below(&prng, 4) > 0);
    while (got[0] < MESSAGES || got[1] < MESSAGES) {
        const int end = (int)tt_prng_below(&prng, 2);
        const void *data;
        size_t bytes;

        if (sent[end] < MESSAGES && tt_channel_queued(p.c[end]) < FRAME_MAX)
            send_message(p.c[end], seed, end, sent[end]++);
        assert_int_equal(tt_channel_flush(p.c[end]), 0);
        if (tt_channel_next(p.c[end], &data, &bytes) == 1) {
            assert_int_equal(bytes, message_bytes(seed, !end, got[end]));
            if (pattern_differs(data, bytes, seed + got[end]) != bytes)
                fail_msg("message %u has other bytes, seed=%llu", got[end],
                         (unsigned long long)seed);
            got[end]++;
        }
        assert_true(++steps < ENDS_STEPS);
    }
    pair_close(&p);
}

static void messages_arrive_complete_and_in_order(void **state)
{
    struct tt_secure *plain = ends_secure(NULL), *token = ends_secure(ENDS_TOKEN);

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, 60)) > 0;)
        if (unit_draw()) {
            exchange(plain, seed);
            exchange(token, seed);
        }
    tt_secure_destroy(plain);
    tt_secure_destroy(token);
}

static void a_channel_ends_between_messages(void **state)
{
    struct tt_secure *secure[] = { ends_secure(NULL), ends_secure(ENDS_TOKEN) };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const void *data;
        size_t bytes;
        struct pair p;

        pair_open(&p, secure[i], false);
        tt_channel_send(p.c[CONNECTS], "last", 4);
        assert_int_equal(pair_next(&p, ACCEPTS, &data, &bytes), 1);
        assert_memory_equal(data, "last", 4);
        tt_channel_destroy(p.c[CONNECTS]);
        assert_int_equal(tt_channel_next(p.c[ACCEPTS], &data, &bytes), -EPIPE);
        assert_int_equal(tt_channel_next(p.c[ACCEPTS], &data, &bytes), -EPIPE);
        tt_channel_destroy(p.c[ACCEPTS]);
        tt_secure_destroy(secure[i]);
    }
}

/* Creates the end of a plain channel, and a raw socket at the other end. */
static struct tt_channel *hearer(struct tt_secure *plain, int *mouth)
{
    int fd[2];

    ends_sockets(fd, false);
    *mouth = fd[1];
    return channel_on(fd[0], plain, TT_STREAM_ACCEPTS, QUEUE_MAX);
}

static void violation_ends_the_channel_with_reason(void **state)
{
    static const struct {
        const char *name, *said, *why;
        size_t bytes;
        int error;
        bool ends;
    } cases[] = {
        { "a byte longer than allowed", "\x71\x11\1\0", "longer than allowed", 4, -EMSGSIZE,
          false },
        { "as long as there are numbers", "\xff\xff\xff\xff", "longer than allowed", 4, -EMSGSIZE,
          false },
        { "TLS", "\x16\3\1\2\0", "uses TLS", 5, -EPROTO, false },
        { "an end in a length", "\1\0", "within a message", 2, -EPROTO, true },
        { "an end in a message", "\2\0\0\0a", "within a message", 5, -EPROTO, true },
        { "half a length", "\1\0", "", 2, 0, false },
        { "half of the longest message", "\x70\x11\1\0a", "", 5, 0, false },
    };
    struct tt_secure *plain = ends_secure(NULL);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const void *data;
        size_t bytes;
        int mouth, n;
        struct tt_channel *c = hearer(plain, &mouth);

        assert_int_equal(send(mouth, cases[i].said, cases[i].bytes, MSG_NOSIGNAL), cases[i].bytes);
        if (cases[i].ends)
            shutdown(mouth, SHUT_WR);
        n = tt_channel_next(c, &data, &bytes);
        if (n != cases[i].error || !strstr(tt_stream_why(tt_channel_stream(c)), cases[i].why))
            fail_msg("%s: %d, \"%s\"", cases[i].name, n, tt_stream_why(tt_channel_stream(c)));
        assert_int_equal(tt_channel_next(c, &data, &bytes), n);
        if (n < 0)
            assert_int_equal(tt_channel_send(c, "x", 1), n);
        tt_channel_destroy(c);
        close(mouth);
    }
    tt_secure_destroy(plain);
}

/* One end has a token and the other does not: both can report it, whichever connects, also if the
 * maximum message size permits the other protocol's bytes as a length. */
static void plain_and_tls_report_each_other(void **state)
{
    static const char *const why[] = { "does not use TLS", "uses TLS, but this process does not" };
    struct tt_secure *token = ends_secure(ENDS_TOKEN), *plain = ends_secure(NULL);

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct tt_channel_conf conf = { .frame_max = 1u << 30, .queue_max = 1 << 20 };
        int fd[2], end[2] = { 0 };
        struct tt_channel *c[2];

        ends_sockets(fd, false);
        for (int k = 0; k < 2; k++) {
            struct tt_stream *stream;

            assert_int_equal(
                tt_stream_create(&stream, k == i ? token : plain, fd[k],
                                 k == CONNECTS ? TT_STREAM_CONNECTS : TT_STREAM_ACCEPTS),
                TUTTI_OK);
            assert_int_equal(tt_channel_create(&c[k], stream, &conf), TUTTI_OK);
        }
        tt_channel_send(c[CONNECTS], "hello", 5);
        for (int step = 0; step < ENDS_STEPS && (!end[0] || !end[1]); step++)
            for (int k = 0; k < 2; k++) {
                const void *data;
                size_t bytes;

                if (!end[k])
                    end[k] = tt_channel_next(c[k], &data, &bytes);
                assert_true(end[k] <= 0);
            }
        for (int k = 0; k < 2; k++) {
            const char *said = tt_stream_why(tt_channel_stream(c[k]));

            if (end[k] != -EPROTO || !strstr(said, why[k != i]))
                fail_msg("case %d, end %d: %d, \"%s\"", i, k, end[k], said);
            tt_channel_destroy(c[k]);
        }
    }
    tt_secure_destroy(plain);
    tt_secure_destroy(token);
}

static void announced_message_takes_no_memory(void **state)
{
    const struct tt_channel_conf conf = { .frame_max = 1u << 30, .queue_max = 1 };
    struct tt_secure *plain = ends_secure(NULL);
    struct tt_stream *stream;
    struct tt_channel *c;
    struct rlimit before, tight;
    const void *data;
    size_t bytes;
    int fd[2];

    (void)state;
    ends_sockets(fd, false);
    assert_int_equal(tt_stream_create(&stream, plain, fd[0], TT_STREAM_ACCEPTS), TUTTI_OK);
    assert_int_equal(tt_channel_create(&c, stream, &conf), TUTTI_OK);
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    tight = before;
    if (UNIT_SHARE == 1)                /* a sanitizer's own memory counts, too */
        tight.rlim_cur = 256u << 20;    /* allocating a GiB would fail */
    assert_int_equal(setrlimit(RLIMIT_DATA, &tight), 0);
    assert_int_equal(send(fd[1], "\0\0\0\x40word", 8, MSG_NOSIGNAL), 8);
    assert_int_equal(tt_channel_next(c, &data, &bytes), 0);
    assert_int_equal(tt_channel_next(c, &data, &bytes), 0);
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
    tt_channel_destroy(c);
    close(fd[1]);
    tt_secure_destroy(plain);
}

static void queue_is_bounded_for_empty_messages(void **state)
{
    struct tt_secure *plain = ends_secure(NULL);
    const size_t lengths[] = { 0, 1, 1000, QUEUE_MAX / 3 };
    uint8_t *data = calloc(1, QUEUE_MAX + 1);

    (void)state;
    assert_non_null(data);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t taken = 0;
        struct pair p;
        int n;

        pair_open(&p, plain, true);     /* without a reader */
        while ((n = tt_channel_send(p.c[CONNECTS], data, lengths[i])) == 0)
            assert_true(++taken < QUEUE_MAX);
        assert_int_equal(n, -ENOBUFS);
        assert_true(tt_channel_queued(p.c[CONNECTS]) <= QUEUE_MAX);
        assert_int_equal(tt_channel_send(p.c[CONNECTS], data, 1), -ENOBUFS);
        pair_close(&p);
    }
    for (size_t over = 0; over < 2; over++) {
        struct pair p;

        pair_open(&p, plain, true);
        assert_int_equal(tt_channel_send(p.c[CONNECTS], data, QUEUE_MAX + over),
                         over ? -ENOBUFS : 0);
        pair_close(&p);
    }
    free(data);
    tt_secure_destroy(plain);
}

#define SHARERS 20u

static void many_channels_share_a_parcel(void **state)
{
    struct tt_secure *secure[] = { ends_secure(NULL), ends_secure(ENDS_TOKEN) };
    uint8_t text[30000];
    struct pair p[SHARERS];
    struct tt_parcel *parcel;

    (void)state;
    pattern_fill(text, sizeof text, 3);
    parcel = tt_parcel_new(text, sizeof text);
    assert_non_null(parcel);
    for (uint32_t i = 0; i < SHARERS; i++) {
        pair_open(&p[i], secure[i % 2], true);
        assert_int_equal(tt_channel_send_parcel(p[i].c[CONNECTS], parcel), 0);
        assert_int_equal(tt_channel_send_parcel(p[i].c[CONNECTS], parcel), 0);
    }
    tt_parcel_drop(parcel);
    for (uint32_t i = 0; i < SHARERS; i++) {
        const void *data;
        size_t bytes;

        for (int k = 0; k < (i % 3 ? 2 : 1); k++) {     /* some end with one still in the queue */
            assert_int_equal(pair_next(&p[i], ACCEPTS, &data, &bytes), 1);
            assert_int_equal(bytes, sizeof text);
            assert_int_equal(pattern_differs(data, bytes, 3), bytes);
        }
        pair_close(&p[i]);
    }
    tt_secure_destroy(secure[0]);
    tt_secure_destroy(secure[1]);
}

/* A message of two parts arrives as one; the maximum size is set between two messages, and applies
 * from the next one on. */
static void limit_may_change_between_messages(void **state)
{
    struct tt_secure *plain = ends_secure(NULL);
    uint8_t text[FRAME_MAX + 1000];
    struct tt_parcel *parcel;
    const void *data;
    struct pair p;
    size_t bytes;

    (void)state;
    pattern_fill(text, sizeof text, 5);
    parcel = tt_parcel_join(text, 50, text + 50, sizeof text - 50);
    assert_non_null(parcel);
    pair_open(&p, plain, false);
    assert_int_equal(tt_channel_send(p.c[CONNECTS], "first", 5), 0);
    assert_int_equal(tt_channel_send_parcel(p.c[CONNECTS], parcel), 0);
    assert_int_equal(tt_channel_send_parcel(p.c[CONNECTS], parcel), 0);
    tt_parcel_drop(parcel);
    assert_int_equal(pair_next(&p, ACCEPTS, &data, &bytes), 1);
    assert_int_equal(bytes, 5);
    tt_channel_allow(p.c[ACCEPTS], sizeof text);
    assert_int_equal(pair_next(&p, ACCEPTS, &data, &bytes), 1);
    assert_int_equal(bytes, sizeof text);
    assert_int_equal(pattern_differs(data, bytes, 5), bytes);
    tt_channel_allow(p.c[ACCEPTS], FRAME_MAX);
    assert_int_equal(pair_next(&p, ACCEPTS, &data, &bytes), -EMSGSIZE);
    pair_close(&p);
    tt_secure_destroy(plain);
}

/* The refusing end sends the reason and closes. This end may be writing at that time. */
static void last_message_survives_a_write_failure(void **state)
{
    struct tt_secure *secure[] = { ends_secure(NULL), ends_secure(ENDS_TOKEN) };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const void *data;
        size_t bytes;
        struct pair p;
        int n;

        pair_open(&p, secure[i], false);
        assert_int_equal(tt_channel_send(p.c[CONNECTS], "may I?", 6), 0);
        assert_int_equal(pair_next(&p, ACCEPTS, &data, &bytes), 1);
        assert_int_equal(tt_channel_send(p.c[ACCEPTS], "no", 2), 0);
        tt_channel_destroy(p.c[ACCEPTS]);
        n = tt_channel_send(p.c[CONNECTS], "why?", 4);
        assert_true(n == -EPIPE || n == -ECONNRESET);
        assert_int_equal(tt_channel_events(p.c[CONNECTS]), EPOLLIN);
        assert_int_equal(tt_channel_next(p.c[CONNECTS], &data, &bytes), 1);
        assert_true(bytes == 2 && memcmp(data, "no", 2) == 0);
        assert_int_equal(tt_channel_next(p.c[CONNECTS], &data, &bytes), -EPIPE);
        tt_channel_destroy(p.c[CONNECTS]);
        tt_secure_destroy(secure[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_complete_and_in_order),
        cmocka_unit_test(a_channel_ends_between_messages),
        cmocka_unit_test(violation_ends_the_channel_with_reason),
        cmocka_unit_test(plain_and_tls_report_each_other),
        cmocka_unit_test(announced_message_takes_no_memory),
        cmocka_unit_test(queue_is_bounded_for_empty_messages),
        cmocka_unit_test(many_channels_share_a_parcel),
        cmocka_unit_test(limit_may_change_between_messages),
        cmocka_unit_test(last_message_survives_a_write_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
