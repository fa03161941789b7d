#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

struct tt_tcp_address address_of(struct node *n, uint32_t peer)
{
    struct tt_tcp_address a;

    CHECK(n, tt_tcp_address_read(&a, &n->board->address[peer]));
    return a;
}

int raw_connect(struct node *n, uint32_t peer)
{
    const struct sockaddr_in to = { .sin_family = AF_INET,
                                    .sin_port = htons(address_of(n, peer).port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct timeval limit = { .tv_sec = 20 };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(n, fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return fd;
}

bool hangs_up(int fd)
{
    char bytes[4096];
    ssize_t n;

    do
        n = recv(fd, bytes, sizeof bytes, 0);
    while (n > 0);
    return n == 0 || errno == ECONNRESET;
}

struct tt_hello hello_to(struct node *n, uint32_t peer)
{
    return (struct tt_hello){ .kind = TT_HELLO,
                              .lanes = 1,
                              .from = n->rank,
                              .to = peer,
                              .nranks = n->nranks,
                              .nonce = 4711,
                              .link_bytes = NODE_LINK_BYTES };
}

void say(int fd, const struct tt_hello *h, const uint8_t key[16], size_t bytes)
{
    uint8_t out[TT_HELLO_BYTES];

    tt_hello_write(h, key, out);
    if (send(fd, out, bytes, MSG_NOSIGNAL) < 0)
        return;     /* the connection was closed already */
}
