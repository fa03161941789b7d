#include "secure/ends.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/unit.h"

struct tt_secure *ends_secure(const char *token)
{
    const struct tt_secure_conf conf = { .mode = token ? TT_SECURE_TOKEN : TT_SECURE_PLAIN,
                                         .token = token };
    struct tt_secure *s = NULL;

    assert_int_equal(tt_secure_create(&s, &conf), TUTTI_OK);
    return s;
}

void ends_sockets(int fd[2], bool tight)
{
    const int bytes = 1;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    for (int i = 0; tight && i < 2; i++)
        assert_int_equal(setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
}

void ends_open(struct ends *e, struct tt_secure *connects, struct tt_secure *accepts, bool tight)
{
    int fd[2];

    ends_sockets(fd, tight);
    assert_int_equal(
        tt_stream_create(&e->stream[CONNECTS], connects, fd[CONNECTS], TT_STREAM_CONNECTS),
        TUTTI_OK);
    assert_int_equal(tt_stream_create(&e->stream[ACCEPTS], accepts, fd[ACCEPTS], TT_STREAM_ACCEPTS),
                     TUTTI_OK);
}

void ends_close(struct ends *e)
{
    tt_stream_destroy(e->stream[CONNECTS]);
    tt_stream_destroy(e->stream[ACCEPTS]);
}

int ends_shake(struct ends *e)
{
    for (int i = 0; i < ENDS_STEPS; i++) {
        const int n = tt_stream_flush(e->stream[i % 2]);

        if (n < 0 && n != -EAGAIN)
            return n;
        if (tt_stream_ready(e->stream[0]) && tt_stream_ready(e->stream[1]))
            return 0;
    }
    fail_msg("the handshake does not end");
    return 0;
}

ssize_t ends_read(struct ends *e, int end)
{
    uint8_t byte;

    for (int i = 0; i < ENDS_STEPS; i++) {
        const ssize_t n = tt_stream_read(e->stream[end], &byte, 1);

        if (n != -EAGAIN)
            return n;
        tt_stream_flush(e->stream[!end]);
    }
    fail_msg("nothing is to be heard");
    return 0;
}
