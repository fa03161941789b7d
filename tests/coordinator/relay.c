#include "support/unit.h"

#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "relay.h"

#define PAIRS 16
#define TURN_MS 50      /* interval at which it checks whether to stop */

/* fd[2 i] is the connection of a client, fd[2 i + 1] its connection to the server; -1: none. */
struct pairs {
    struct pollfd fd[2 * PAIRS + 1];
};

static void drop(struct pairs *p, int pair)
{
    for (int i = 2 * pair; i < 2 * pair + 2; i++) {
        close(p->fd[i].fd);
        p->fd[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
    }
}

static int connect_to(unsigned port)
{
    const struct sockaddr_in at = { .sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                    .sin_port = htons((uint16_t)port) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    close(fd);
    return -1;
}

static void take(const struct relay *r, struct pairs *p)
{
    const int client = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC), server = connect_to(r->to);

    for (int pair = 0; client >= 0 && server >= 0 && pair < PAIRS; pair++)
        if (p->fd[2 * pair].fd < 0) {
            p->fd[2 * pair].fd = client;
            p->fd[2 * pair + 1].fd = server;
            return;
        }
    close(client);
    close(server);
}

/* Forwards data from fd[i] to the other connection of its pair. Drops the pair to lose a reply. */
static void pass_on(struct relay *r, struct pairs *p, int i)
{
    char data[65537];
    const ssize_t n = read(p->fd[i].fd, data, sizeof data - 1);

    if (n > 0)
        data[n] = '\0';
    if (n > 0 && i % 2 == 1 && atomic_load(&r->lose) > 0 && strstr(data, r->word)) {
        atomic_fetch_sub(&r->lose, 1);
        drop(p, i / 2);
    } else if (n <= 0 || send(p->fd[i ^ 1].fd, data, (size_t)n, MSG_NOSIGNAL) != n) {
        drop(p, i / 2);
    }
}

static void *run(void *relay)
{
    struct relay *r = relay;
    struct pairs p;

    for (int i = 0; i < 2 * PAIRS; i++)
        p.fd[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
    p.fd[2 * PAIRS] = (struct pollfd){ .fd = r->listener, .events = POLLIN };
    while (!atomic_load(&r->ends)) {
        if (poll(p.fd, 2 * PAIRS + 1, TURN_MS) <= 0)
            continue;
        for (int i = 0; i < 2 * PAIRS; i++)
            if (p.fd[i].fd >= 0 && p.fd[i].revents)
                pass_on(r, &p, i);
        if (p.fd[2 * PAIRS].revents)
            take(r, &p);
    }
    for (int pair = 0; pair < PAIRS; pair++)
        if (p.fd[2 * pair].fd >= 0)
            drop(&p, pair);
    return NULL;
}

void relay_begin(struct relay *r, unsigned to, const char *word)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof at;

    memset(r, 0, sizeof *r);
    r->to = to;
    r->word = word;
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(bind(r->listener, (struct sockaddr *)&at, sizeof at) == 0 &&
                listen(r->listener, 16) == 0 &&
                getsockname(r->listener, (struct sockaddr *)&at, &bytes) == 0);
    r->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&r->thread, NULL, run, r), 0);
}

void relay_end(struct relay *r)
{
    atomic_store(&r->ends, true);
    pthread_join(r->thread, NULL);
    close(r->listener);
}
