#include "secure/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "secure/ends.h"
#include "secure/inside.h"
#include "support/pattern.h"
#include "support/unit.h"
#include "support/world.h"

#define BYTES_MAX 100000u

/* One direction of a conversation: bytes of a pattern, written and read in pieces of any size. */
struct flow {
    uint8_t *data, *got;
    size_t bytes, written, read;
};

static void flow_init(struct flow *f, struct tt_prng *prng)
{
    f->bytes = tt_prng_below(prng, BYTES_MAX);
    f->data = malloc(BYTES_MAX);
    f->got = malloc(BYTES_MAX);
    assert_true(f->data && f->got);
    pattern_fill(f->data, f->bytes, tt_prng_u64(prng));
    f->written = f->read = 0;
}

static void flow_fini(struct flow *f)
{
    free(f->data);
    free(f->got);
}

/* Writes up to four parts of any length, of which some are empty. */
static ssize_t flow_write(struct flow *f, struct tt_stream *s, struct tt_prng *prng)
{
    struct iovec parts[4];
    size_t at = f->written;

    for (int i = 0; i < 4; i++) {
        const size_t n = tt_prng_below(prng, f->bytes - at + 1) >> tt_prng_below(prng, 16);

        parts[i] = (struct iovec){ .iov_base = f->data + at, .iov_len = n };
        at += n;
    }
    return at == f->written ? 0 : tt_stream_write(s, parts, 4);
}

static void step(struct flow *out, struct flow *in, struct tt_stream *s, struct tt_prng *prng, uint64_t seed)
{
    const size_t room = in->bytes - in->read;
    ssize_t n = out->written < out->bytes ? flow_write(out, s, prng) : tt_stream_flush(s);

    if (n < 0 && n != -EAGAIN)
        fail_msg("writing: %s (%s), seed=%llu", strerror((int)-n), tt_stream_why(s), (unsigned long long)seed);
    if (n > 0)
        out->written += (size_t)n;
    if (room == 0)
        return;
    n = tt_stream_read(s, in->got + in->read, 1 + tt_prng_below(prng, room));
    if (n == 0 || (n < 0 && n != -EAGAIN))
        fail_msg("reading: %zd (%s), seed=%llu", n, tt_stream_why(s), (unsigned long long)seed);
    if (n > 0)
        in->read += (size_t)n;
}

static void talk(struct tt_secure *secure, uint64_t seed)
{
    struct tt_prng prng;
    struct flow flow[2];
    struct ends e;
    int steps = 0;

    tt_prng_init(&prng, seed);
    ends_open(&e, secure, secure, tt_prng_below(&prng, 4) > 0);
    flow_init(&flow[0], &prng);
    flow_init(&flow[1], &prng);
    while (flow[0].read < flow[0].bytes || flow[1].read < flow[1].bytes) {
        const int end = (int)tt_prng_below(&prng, 2);

        step(&flow[end], &flow[!end], e.stream[end], &prng, seed);
        assert_true(++steps < ENDS_STEPS);
    }
    for (int i = 0; i < 2; i++) {
        if (memcmp(flow[i].data, flow[i].got, flow[i].bytes) != 0)
            fail_msg("other bytes arrived than were sent, seed=%llu", (unsigned long long)seed);
        flow_fini(&flow[i]);
    }
    ends_close(&e);
}

static void what_is_written_in_any_pieces_is_read_in_any_pieces(void **state)
{
    struct tt_secure *plain = ends_secure(NULL), *token = ends_secure(ENDS_TOKEN);

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, 200)) > 0;)
        if (unit_draw()) {
            talk(plain, seed);
            talk(token, seed);
        }
    tt_secure_destroy(plain);
    tt_secure_destroy(token);
}

static void another_token_is_told_at_both_ends(void **state)
{
    struct tt_secure *one = ends_secure(ENDS_TOKEN), *other = ends_secure("another token of 32 characters..");
    struct ends e;

    (void)state;
    ends_open(&e, one, other, false);
    assert_int_equal(ends_shake(&e), -EPROTO);
    assert_string_equal(tt_stream_why(e.stream[ACCEPTS]), "the other end has another token, or none");
    assert_int_equal(ends_hear(&e, CONNECTS), -EPROTO);
    assert_string_equal(tt_stream_why(e.stream[CONNECTS]), "the other end has another token, or none");
    ends_close(&e);
    tt_secure_destroy(one);
    tt_secure_destroy(other);
}

static uint32_t updates;

/* Counts messages of the handshake that say KeyUpdate. */
static void on_message(int sent, int version, int type, const void *data, size_t bytes, SSL *ssl, void *context)
{
    (void)version, (void)ssl, (void)context;
    updates += sent && type == SSL3_RT_HANDSHAKE && bytes > 0 && *(const uint8_t *)data == SSL3_MT_KEY_UPDATE;
}

static void a_key_is_used_for_so_many_bytes_and_no_more(void **state)
{
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);

    (void)state;
    secure->rekey_bytes = 4096;
    SSL_CTX_set_msg_callback(secure->tls, on_message);
    for (uint64_t seed = 0; (seed = next_seed(seed, 20)) > 0;)
        talk(secure, seed);
    assert_true(updates > 20);
    tt_secure_destroy(secure);
}

static void the_handshake_asks_for_what_it_waits_for(void **state)
{
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);
    const struct iovec part = { .iov_base = (void *)(uintptr_t) "x", .iov_len = 1 };
    struct ends e;

    (void)state;
    ends_open(&e, secure, secure, false);
    assert_int_equal(tt_stream_wants(e.stream[CONNECTS]), EPOLLIN | EPOLLOUT);
    assert_int_equal(tt_stream_wants(e.stream[ACCEPTS]), EPOLLIN);
    assert_int_equal(tt_stream_write(e.stream[CONNECTS], &part, 1), -EAGAIN);
    assert_int_equal(tt_stream_wants(e.stream[CONNECTS]), EPOLLIN);     /* an answer, and nothing else */
    assert_int_equal(ends_shake(&e), 0);
    assert_int_equal(tt_stream_write(e.stream[CONNECTS], &part, 1), 1);
    assert_int_equal(tt_stream_wants(e.stream[CONNECTS]), EPOLLIN);
    ends_close(&e);
    tt_secure_destroy(secure);
}

/* What write has taken counts as sent, so the stream itself must ask for room for it. */
static void what_the_socket_does_not_take_is_held_and_asked_room_for(void **state)
{
    struct tt_secure *secure = ends_secure(ENDS_TOKEN);
    uint8_t data[16384] = { 0 }, got[sizeof data];
    const struct iovec part = { .iov_base = data, .iov_len = sizeof data };
    size_t written = 0, read = 0;
    struct ends e;
    ssize_t n;

    (void)state;
    ends_open(&e, secure, secure, true);
    assert_int_equal(ends_shake(&e), 0);
    while ((n = tt_stream_write(e.stream[CONNECTS], &part, 1)) > 0)
        written += (size_t)n;
    assert_int_equal(n, -EAGAIN);
    assert_int_equal(tt_stream_wants(e.stream[CONNECTS]), EPOLLIN | EPOLLOUT);
    assert_int_equal(tt_stream_flush(e.stream[CONNECTS]), -EAGAIN);
    while (read < written) {
        n = tt_stream_read(e.stream[ACCEPTS], got, sizeof got);
        assert_true(n > 0 || n == -EAGAIN);
        read += n > 0 ? (size_t)n : 0;
        tt_stream_flush(e.stream[CONNECTS]);
    }
    assert_int_equal(tt_stream_flush(e.stream[CONNECTS]), 0);
    assert_int_equal(tt_stream_wants(e.stream[CONNECTS]), EPOLLIN);
    ends_close(&e);
    tt_secure_destroy(secure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_in_any_pieces_is_read_in_any_pieces),
        cmocka_unit_test(another_token_is_told_at_both_ends),
        cmocka_unit_test(a_key_is_used_for_so_many_bytes_and_no_more),
        cmocka_unit_test(the_handshake_asks_for_what_it_waits_for),
        cmocka_unit_test(what_the_socket_does_not_take_is_held_and_asked_room_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
