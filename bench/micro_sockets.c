/* Lower bounds for a short message over TCP within a host: two processes on one core each, one
 * connection, and only read and write.
 *
 *   micro_sockets
 *
 *   By hand: gcc -O2 -D_GNU_SOURCE -I. -Ibench bench/micro_sockets.c tools/perf/perf_start.c
 *
 * Microseconds: medians of ROUNDS medians of alternating methods. An iteration is a barrier (a byte
 * in each direction), a common start time (tools/perf/perf_start.h), then the message. Its time is
 * that of the receiver, as in bench/run peers. TCP_CONGESTION is reno, as in the tcp transport.
 *   alone      the reader reads all available data in one call. The message is then the second
 *              short segment in a row that it consumes
 *   peeked     the reader peeks first (MSG_PEEK), and reads the data after the clock
 *   polled     the same, and the reader waits with poll, so that it does not hold the socket's lock
 *   answered   as alone, but the barrier ends with one more byte from the reader. All earlier data
 *              is then acknowledged on both sides, as in MPICH
 *   both ways  each side sends to the other */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "micro.h"
#include "micro_pair.h"
#include "tools/perf/perf_start.h"

#define ROUNDS 7
#define ITERATIONS 4000
#define BYTES_MAX 4096

enum way { ALONE, PEEKED, POLLED, ANSWERED, BOTH, WAYS };

static struct perf_start start;

static void fail(const char *what)
{
    perror(what);
    _exit(1);
}

static void put(int fd, const void *bytes, size_t n)
{
    if (send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        fail("send");
}

static void wait_readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    while (poll(&p, 1, 0) == 0)
        continue;
}

/* Reads n bytes, in as few calls as possible. */
static void get(int fd, void *to, size_t n, int flags)
{
    size_t have = 0;

    while (have < n) {
        const ssize_t got = recv(fd, (uint8_t *)to + have, n - have, flags | MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN))
            fail("recv");
        if (got > 0)
            have = flags & MSG_PEEK ? ((size_t)got == n ? n : 0) : have + (size_t)got;
    }
}

static double once_us(int fd, int me, enum way way, size_t bytes)
{
    static uint8_t out[BYTES_MAX], in[BYTES_MAX];
    const bool peeks = way == PEEKED || way == POLLED;
    uint64_t began_ns, took_ns;

    put(fd, out, 1);
    get(fd, in, 1, 0);
    if (way == ANSWERED && me == 0)
        put(fd, out, 1);
    else if (way == ANSWERED)
        get(fd, in, 1, 0);
    began_ns = perf_start_wait(&start);
    if (me == 1 || way == BOTH)
        put(fd, out, bytes);
    if (me == 0 && way == POLLED)
        wait_readable(fd);
    if (me == 0 || way == BOTH)
        get(fd, in, bytes, peeks ? MSG_PEEK : 0);
    took_ns = clock_ns() - began_ns;
    if (peeks && me == 0)
        get(fd, in, bytes, 0);
    return (double)took_ns / 1000;
}

static void measure(int fd, int me, size_t bytes)
{
    static double us[ITERATIONS];
    double rounds[WAYS][ROUNDS];

    for (int round = 0; round < ROUNDS; round++)
        for (int way = 0; way < WAYS; way++) {
            for (int i = 0; i < ITERATIONS; i++)
                us[i] = once_us(fd, me, (enum way)way, bytes);
            rounds[way][round] = median(us, ITERATIONS);
        }
    if (me)
        return;
    printf("%5zu bytes", bytes);
    for (int way = 0; way < WAYS; way++)
        printf(" %10.2f", median(rounds[way], ROUNDS));
    printf("\n");
    fflush(stdout);
}

/* Creates a loopback connection; returns its two ends. */
static void connect_pair(int fd[2])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    socklen_t n = sizeof at;

    fd[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || fd[1] < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) ||
        listen(listener, 1) || getsockname(listener, (struct sockaddr *)&at, &n) ||
        connect(fd[1], (struct sockaddr *)&at, sizeof at))
        fail("connect");
    fd[0] = accept(listener, NULL, NULL);
    if (fd[0] < 0)
        fail("accept");
    close(listener);
    for (int i = 0; i < 2; i++)
        if (setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) ||
            setsockopt(fd[i], IPPROTO_TCP, TCP_CONGESTION, "reno", 4))
            fail("setsockopt");
}

/* Creates the file for perf_start.h; it is deleted after it is mapped. */
static void open_start(void)
{
    char dir[] = "/tmp/micro_sockets.XXXXXX", path[64];
    int file;

    if (!mkdtemp(dir))
        fail("mkdtemp");
    snprintf(path, sizeof path, "%s/start", dir);
    file = open(path, O_CREAT | O_RDWR, 0600);
    if (file < 0 || ftruncate(file, 4096) || perf_start_open(&start, dir, 2))
        fail(path);
    close(file);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    static const size_t sizes[] = { 8, 128, 1024 };
    int fd[2], me, status = 0;
    cpu_set_t core;
    pid_t child;

    connect_pair(fd);
    open_start();
    child = fork();
    if (child < 0)
        fail("fork");
    me = child == 0;
    if (me)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(fd[!me]);
    CPU_ZERO(&core);
    CPU_SET(me, &core);
    sched_setaffinity(0, sizeof core, &core);
    if (me == 0)
        printf("%11s %10s %10s %10s %10s %10s\n", "", "alone", "peeked", "polled", "answered",
               "both ways");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        measure(fd[me], me, sizes[i]);
    if (me)
        _exit(0);
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
