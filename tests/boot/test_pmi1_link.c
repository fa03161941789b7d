/* PMI-1's descriptor and port, with launchers that close, do not read or do not reply. The test
 * controls the clock: only waits advance it. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/resolve.h"
#include "boot/endpoint.h"

static uint64_t fake_now_ns(void);
static int fake_poll(struct pollfd *p, nfds_t n, int timeout_ms);
static int fake_connect_begin(const struct tt_address *a);
static tutti_status fake_resolve(const char *host, const char *port, int flags, bool retry,
                                 uint64_t deadline_ns, struct addrinfo **list, const char **why);
static void fake_freeaddrinfo(struct addrinfo *list);
#define tt_now_ns fake_now_ns
#define poll fake_poll
#define tt_connect_begin fake_connect_begin
#define tt_resolve fake_resolve
#define freeaddrinfo fake_freeaddrinfo
#include "boot/pmi1_link.c"
#undef tt_now_ns
#undef poll
#undef tt_connect_begin
#undef tt_resolve
#undef freeaddrinfo

#include "support/unit.h"

#define PATIENCE_NS (60 * TT_SECOND)

static uint64_t clock_ns;
static unsigned npolls;
static unsigned holes_left;     /* number of next addresses that do not reply */
static bool has_hole;           /* the name has an unresponsive address before its real address */
static uint16_t server_port;
static int ends[2];             /* ends[0] has no space to send */

static uint64_t fake_now_ns(void)
{
    return clock_ns;
}

/* Waits on the full descriptor use the clock of the test; other waits use the real clock. */
static int fake_poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
    int ready;
    struct sockaddr_storage name = { .ss_family = AF_UNSPEC };
    socklen_t bytes = sizeof name;

    assert_int_equal(n, 1);
    npolls++;
    getsockname(p->fd, (struct sockaddr *)&name, &bytes);
    ready = poll(p, n, name.ss_family == AF_UNIX ? 0 : timeout_ms);
    if (ready == 0 && name.ss_family == AF_UNIX)
        clock_ns += (uint64_t)timeout_ms * TT_MS;
    return ready;
}

static bool is_hole(const struct tt_address *a)
{
    return ntohl(((const struct sockaddr_in *)&a->storage)->sin_addr.s_addr) != INADDR_LOOPBACK;
}

static int fake_connect_begin(const struct tt_address *a)
{
    if (!is_hole(a) && holes_left == 0)
        return tt_connect_begin(a);
    holes_left -= !is_hole(a);
    return dup(ends[0]);
}

static tutti_status fake_resolve(const char *host, const char *port, int flags, bool retry,
                                 uint64_t deadline_ns, struct addrinfo **list, const char **why)
{
    static struct sockaddr_in hole, server;
    static struct addrinfo second = { .ai_addr = (struct sockaddr *)&server,
                                      .ai_addrlen = sizeof server };
    static struct addrinfo first = { .ai_addr = (struct sockaddr *)&hole,
                                     .ai_addrlen = sizeof hole,
                                     .ai_next = &second };

    (void)host, (void)port, (void)flags, (void)retry, (void)deadline_ns, (void)why;
    hole = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(0xc0000207) } };
    server = (struct sockaddr_in){ .sin_family = AF_INET,
                                   .sin_port = htons(server_port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    *list = has_hole ? &first : &second;
    return TUTTI_OK;
}

static void fake_freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

static int begin(void **state)
{
    char text[16];

    (void)state;
    clock_ns = TT_SECOND;
    npolls = holes_left = 0;
    has_hole = false;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    snprintf(text, sizeof text, "%d", ends[0]);
    return setenv("PMI_FD", text, 1);
}

static int end(void **state)
{
    (void)state;
    close(ends[0]);
    if (ends[1] >= 0)
        close(ends[1]);
    return unsetenv("PMI_FD");
}

static void fill(int fd)
{
    static const char zeros[4096];

    while (send(fd, zeros, sizeof zeros, MSG_DONTWAIT) > 0)
        ;
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
}

static void closed_descriptor_is_reported(void **state)
{
    char value[TT_PMI1_VALUE_BYTES] = "";

    (void)state;
    close(ends[1]);
    ends[1] = -1;
    assert_int_equal(tt_pmi1_broadcast(1, value, sizeof value, clock_ns + PATIENCE_NS),
                     TUTTI_ERR_SYSTEM);
    assert_string_equal(tutti_last_error(),
                        "start-up through PMI: cannot write to the launcher: Broken pipe");
}

static void unread_descriptor_times_out(void **state)
{
    char value[TT_PMI1_VALUE_BYTES] = "";

    (void)state;
    fill(ends[0]);
    assert_int_equal(tt_pmi1_broadcast(1, value, sizeof value, clock_ns + PATIENCE_NS),
                     TUTTI_ERR_TIMEOUT);
    assert_non_null(strstr(tutti_last_error(),
                           "write to the launcher: the launcher did not read before the deadline"));
    assert_in_range(npolls, 1, 1000);
}

static void pmi_port_retries_lost_requests(void **state)
{
    int fd = -1, listener;

    (void)state;
    fill(ends[0]);
    listener = tt_listen(NULL, 0, &server_port);
    assert_true(listener >= 0);
    has_hole = true;
    for (unsigned nlost = 0; nlost < 3; nlost++) {
        const uint64_t began_ns = clock_ns;

        holes_left = nlost;
        assert_int_equal(connect_to_port("host:4711", clock_ns + PATIENCE_NS, &fd), TUTTI_OK);
        assert_true(fd >= 0);
        assert_true(clock_ns - began_ns <= (2 * nlost + 1) * CONNECT_NS + TT_SECOND);
        close(fd);
    }
    close(listener);
}

static void unresponsive_pmi_port_times_out(void **state)
{
    const uint64_t deadline_ns = clock_ns + PATIENCE_NS;
    int fd = -1;

    (void)state;
    fill(ends[0]);
    holes_left = 1000;
    assert_int_equal(connect_to_port("host:4711", deadline_ns, &fd), TUTTI_ERR_SYSTEM);
    assert_string_equal(
        tutti_last_error(),
        "start-up through PMI: cannot connect to PMI_PORT (host:4711): Connection timed out");
    assert_true(clock_ns >= deadline_ns && clock_ns < deadline_ns + TT_SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(closed_descriptor_is_reported, begin, end),
        cmocka_unit_test_setup_teardown(unread_descriptor_times_out, begin, end),
        cmocka_unit_test_setup_teardown(pmi_port_retries_lost_requests, begin, end),
        cmocka_unit_test_setup_teardown(unresponsive_pmi_port_times_out, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
