#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"

bool unit_part(uint64_t n)
{
    static uint32_t part, parts;
    const char *text = getenv("TUTTI_TEST_PART");

    if (parts == 0 &&
        (!text || sscanf(text, "%u/%u", &part, &parts) != 2 || part < 1 || part > parts)) {
        if (text)
            fail_msg("TUTTI_TEST_PART=%s: it must be like 3/20, for the third of twenty parts",
                     text);
        part = parts = 1;
    }
    return tt_mix64(n) % parts == part - 1;
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end;
    uint64_t n = text ? strtoull(text, &end, 10) : otherwise;

    if (text && (*text < '0' || *text > '9' || *end))
        fail_msg("%s=%s: it must be a number", name, text);
    return n;
}

uint64_t unit_turn(void)
{
    return number_of("TUTTI_TEST_TURN", 0);
}

uint32_t unit_share(void)
{
    const uint64_t n = UNIT_SHARE > 1 ? UNIT_SHARE : number_of("TUTTI_TEST_SHARE", 1);

    if (n < 1 || n > UINT32_MAX)
        fail_msg("TUTTI_TEST_SHARE=%llu: it must be at least 1", (unsigned long long)n);
    return (uint32_t)n;
}

bool unit_draw(void)
{
    static uint64_t asked;
    const uint64_t n = asked++, share = unit_share();

    return n % share == (tt_mix64(n / share) + unit_turn()) % share;
}

bool unit_has_turn(uint64_t i, uint32_t in)
{
    const uint32_t share = unit_share();

    return (i + unit_turn()) % (share < in ? share : in) == 0;
}

void unit_stderr_catch(struct unit_stderr *c)
{
    fflush(stderr);
    c->saved = dup(STDERR_FILENO);
    c->file = memfd_create("stderr", MFD_CLOEXEC);
    assert_true(c->saved >= 0 && c->file >= 0);
    assert_int_equal(dup2(c->file, STDERR_FILENO), STDERR_FILENO);
}

void unit_stderr_release(struct unit_stderr *c, char *text, size_t bytes)
{
    ssize_t n;

    fflush(stderr);
    dup2(c->saved, STDERR_FILENO);
    n = pread(c->file, text, bytes - 1, 0);
    close(c->saved);
    close(c->file);
    assert_true(n >= 0);
    text[n] = '\0';
}

uint16_t unit_free_port(void)
{
    for (uint32_t i = 0; i < 1000; i++) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        uint16_t port, noise;
        int err;

        tt_random_bytes(&noise, sizeof noise);
        port = (uint16_t)(20000 + noise % 12000);
        address.sin_port = htons(port);
        err = bind(fd, (struct sockaddr *)&address, sizeof address);
        close(fd);
        if (!err)
            return port;
    }
    fail_msg("there is no free port");
    return 0;
}

struct rlimit unit_descriptors_end(void)
{
    const int lowest_free = dup(STDERR_FILENO);
    struct rlimit before, none;

    assert_true(lowest_free >= 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    close(lowest_free);
    none = (struct rlimit){ .rlim_cur = (rlim_t)lowest_free, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_true(dup(STDERR_FILENO) < 0 && errno == EMFILE);
    return before;
}

void unit_descriptors_again(const struct rlimit *before)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, before), 0);
}
