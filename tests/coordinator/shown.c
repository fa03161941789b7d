#include "shown.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/unit.h"

#define WAIT_MS 60000
#define SHOWN_BYTES 65536

/* Requests path; the reply is in text[SHOWN_BYTES]. */
static void http_get(const char *address, const char *path, char *text)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned port;
    size_t at = 0;
    ssize_t n;

    assert_true(fd >= 0);
    assert_int_equal(sscanf(address, "127.0.0.1:%u", &port), 1);
    to.sin_port = htons((uint16_t)port);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_true(dprintf(fd, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, address) > 0);
    while (at < SHOWN_BYTES - 1 && (n = read(fd, text + at, SHOWN_BYTES - 1 - at)) > 0)
        at += (size_t)n;
    text[at] = '\0';
    close(fd);
}

void shown_await(const char *address, const char *path, const char *what)
{
    const uint64_t deadline_ns = tt_now_ns() + WAIT_MS * TT_MS;
    char text[SHOWN_BYTES];

    do {
        if (tt_now_ns() > deadline_ns)
            fail_msg("%s%s does not show \"%s\", but \"%s\"", address, path, what, text);
        http_get(address, path, text);
        usleep(20000);
    } while (!strstr(text, what));
}
