/* Messages over a stream from a peer that sends anything. First byte: bit 0, whether the stream is
 * TLS (then the input precedes any handshake), bits 1..7 how the rest is split into pieces. No
 * message is longer than permitted, one without TLS equals its bytes, and a channel that has ended
 * stays ended. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "secure/channel.h"

#define FRAME_MAX 300u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct tt_secure *secure_of(enum tt_secure_mode mode)
{
    static struct tt_secure *all[2];
    const struct tt_secure_conf conf = { .mode = mode, .token = "the token of a fuzzer" };

    if (!all[mode])
        tt_assert(tt_secure_create(&all[mode], &conf) == TUTTI_OK);
    return all[mode];
}

/* The sent bytes, and how many of them were delivered as messages. */
struct said {
    const uint8_t *data;
    size_t at;
    bool plain;
};

static void check(struct said *s, const uint8_t *message, size_t bytes)
{
    tt_assert(s->plain && bytes <= FRAME_MAX);
    tt_assert(s->data[s->at] == (bytes & 255) && s->data[s->at + 1] == bytes >> 8 &&
              s->data[s->at + 2] == 0);
    tt_assert(memcmp(s->data + s->at + 4, message, bytes) == 0);
    s->at += 4 + bytes;
}

/* Reads the available messages; returns whether the channel continues. */
static bool take(struct tt_channel *c, struct said *s)
{
    const void *message;
    size_t bytes;
    int n;

    while ((n = tt_channel_next(c, &message, &bytes)) == 1)
        check(s, message, bytes);
    if (n < 0)
        tt_assert(tt_channel_next(c, &message, &bytes) == n);
    return n == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct tt_channel_conf conf = { .frame_max = FRAME_MAX, .queue_max = 1000 };
    struct said said = { .data = data + 1 };
    struct tt_stream *stream;
    struct tt_channel *c;
    size_t piece, at = 0;
    bool on = true;
    int fd[2];

    if (bytes < 2 || bytes > 20000)
        return 0;
    said.plain = !(data[0] & 1);
    piece = 1 + (size_t)(data[0] >> 1) * 3;
    tt_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) == 0);
    tt_assert(tt_stream_create(&stream, secure_of(said.plain ? TT_SECURE_PLAIN : TT_SECURE_TOKEN),
                               fd[0], TT_STREAM_ACCEPTS) == TUTTI_OK);
    tt_assert(tt_channel_create(&c, stream, &conf) == TUTTI_OK);
    while (on && at < bytes - 1) {
        const size_t n = bytes - 1 - at < piece ? bytes - 1 - at : piece;
        const ssize_t sent = send(fd[1], said.data + at, n, MSG_NOSIGNAL);

        tt_assert(sent > 0);
        at += (size_t)sent;
        on = take(c, &said);
    }
    close(fd[1]);
    tt_assert(!take(c, &said));
    tt_channel_destroy(c);
    return 0;
}
