/* Clients over TCP: only holders of the token accept each other, and only frames that the other end
 * has sent, each once and in order. */
#include "support/unit.h"

#include <string.h>

#include "base/prng.h"
#include "status/seal.h"
#include "status/talk.h"

#define TOKEN "a token of 24 characters"

/* Reads a frame from bytes. */
static struct tt_frame frame_of(const uint8_t *data, size_t bytes)
{
    assert_true(bytes >= TT_FRAME_HEADER_BYTES);
    return (struct tt_frame){ .type = data[2],
                              .body = data + TT_FRAME_HEADER_BYTES,
                              .bytes = bytes - TT_FRAME_HEADER_BYTES };
}

struct ends {
    struct tt_seal_nonces process, client;
    struct tt_seal to, from;            /* the process's end, and the client's */
};

/* Returns the number of steps that succeed, of 3. */
static int shake(struct ends *e, const char *process_token, const char *client_token)
{
    uint8_t data[TT_SEAL_FRAME_MAX];
    struct tt_frame f;

    *e = (struct ends){ .process = { .process = { 0 } } };
    tt_random_bytes(e->process.process, TT_NONCE_BYTES);
    tt_random_bytes(e->client.client, TT_NONCE_BYTES);
    f = frame_of(data, tt_seal_challenge_write(&e->process, data));
    if (!tt_seal_challenge_read(&f, &e->client))
        return 0;
    f = frame_of(data, tt_seal_proof_write(&e->client, client_token, data));
    if (!tt_seal_proof_read(&f, process_token, &e->process))
        return 1;
    f = frame_of(data, tt_seal_accept_write(&e->process, process_token, data));
    if (!tt_seal_accept_read(&f, client_token, &e->client))
        return 2;
    tt_seal_begin(&e->to, &e->process, process_token, true);
    tt_seal_begin(&e->from, &e->client, client_token, false);
    return 3;
}

static void holders_of_the_token_accept_each_other(void **state)
{
    struct ends e;

    (void)state;
    assert_int_equal(shake(&e, TOKEN, TOKEN), 3);
    assert_int_equal(shake(&e, TOKEN, TOKEN "x"), 1);
    assert_int_equal(shake(&e, TOKEN, ""), 1);
}

/* A process without the token cannot answer the client, also not with what the client sent. */
static void clients_check_the_process(void **state)
{
    struct tt_seal_nonces n = { .process = { 1 }, .client = { 2 } };
    uint8_t data[TT_SEAL_FRAME_MAX];
    struct tt_frame f;

    (void)state;
    f = frame_of(data, tt_seal_accept_write(&n, "another token of 24 characters", data));
    assert_false(tt_seal_accept_read(&f, TOKEN, &n));
    f = frame_of(data, tt_seal_proof_write(&n, TOKEN, data));
    f.type = TT_SEAL_ACCEPT;
    f.body += TT_NONCE_BYTES;
    f.bytes = TT_MAC_BYTES;
    assert_false(tt_seal_accept_read(&f, TOKEN, &n));
}

static size_t write_frame(struct tt_seal *s, uint8_t *data, const char *text)
{
    return tt_seal_add(s, data, tt_talk_refused_write(text, data));
}

static bool check(struct tt_seal *s, const uint8_t *data, size_t bytes, char why[TT_TALK_BODY_MAX])
{
    struct tt_frame f = frame_of(data, bytes);

    return tt_seal_check(s, &f) && tt_talk_refused_read(&f, why);
}

static void frames_arrive_once_and_in_order(void **state)
{
    uint8_t first[TT_TALK_FRAME_MAX + TT_SEAL_BYTES], second[sizeof first];
    char why[TT_TALK_BODY_MAX];
    struct tt_seal seal;
    struct ends e;
    size_t n, m;

    (void)state;
    assert_int_equal(shake(&e, TOKEN, TOKEN), 3);
    n = write_frame(&e.to, first, "first");
    m = write_frame(&e.to, second, "second");
    seal = e.from;
    assert_true(check(&e.from, first, n, why));
    assert_string_equal(why, "first");
    assert_true(check(&e.from, second, m, why));
    assert_string_equal(why, "second");
    e.from = seal;
    assert_false(check(&e.from, second, m, why));        /* too early */
    e.from = seal;
    assert_true(check(&e.from, first, n, why));
    assert_false(check(&e.from, first, n, why));         /* again */
    seal = e.to;
    assert_false(check(&e.to, first, n, why));           /* its own */
    e.to = seal;
    n = write_frame(&e.from, first, "answer");
    assert_true(check(&e.to, first, n, why));
}

static void changed_frames_are_found(void **state)
{
    uint8_t data[TT_TALK_FRAME_MAX + TT_SEAL_BYTES];
    char why[TT_TALK_BODY_MAX];
    struct ends e;
    size_t n;

    (void)state;
    assert_int_equal(shake(&e, TOKEN, TOKEN), 3);
    n = write_frame(&e.to, data, "text");
    for (size_t i = 0; i < n; i++) {
        struct tt_seal seal = e.from;

        if (i != 2 && i < TT_FRAME_HEADER_BYTES)
            continue;                           /* the framer's */
        data[i] ^= 1;
        assert_false(check(&seal, data, n, why));
        data[i] ^= 1;
    }
    for (size_t cut = TT_FRAME_HEADER_BYTES; cut < n; cut++) {
        struct tt_seal seal = e.from;

        assert_false(check(&seal, data, cut, why));
    }
    assert_true(check(&e.from, data, n, why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holders_of_the_token_accept_each_other),
        cmocka_unit_test(clients_check_the_process),
        cmocka_unit_test(frames_arrive_once_and_in_order),
        cmocka_unit_test(changed_frames_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
