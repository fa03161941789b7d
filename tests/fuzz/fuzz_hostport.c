/* Arbitrary addresses and ranges of ports; the first byte selects which. An accepted address equals
 * its host and port when formatted again, and an IPv6 one needs brackets. An accepted range is
 * ascending, and equals its formatted ends. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hostport.h"
#include "base/status.h"

#define TEXT_BYTES_MAX 1024

static void check_address(const char *text, size_t bytes)
{
    struct tt_hostport at, before;
    char again[TT_HOST_BYTES + 16];
    const char *why;
    bool six;

    memset(&at, 0x5a, sizeof at);
    before = at;
    why = tt_hostport_parse(&at, text, bytes);
    if (why) {
        tt_assert(*why && memcmp(&at, &before, sizeof at) == 0);
        return;
    }
    tt_assert(memchr(at.host, 0, sizeof at.host) && memchr(at.port, 0, sizeof at.port));
    tt_assert(*at.port && strspn(at.port, "0123456789") == strlen(at.port) &&
              atoi(at.port) == at.number);
    six = strchr(at.host, ':');
    snprintf(again, sizeof again, six ? "[%s]:%s" : "%s:%s", at.host, at.port);
    tt_assert(strlen(again) == bytes && memcmp(again, text, bytes) == 0);
    snprintf(again, sizeof again, six ? "%s:%s" : "[%s]:%s", at.host, at.port);
    tt_assert(tt_hostport_parse(&at, again, strlen(again)));
}

static void check_ports(const char *text)
{
    uint16_t first = 0, last = 0, first_again, last_again;
    char again[16];

    if (!tt_ports_parse(&first, &last, text)) {
        tt_assert(first == 0 && last == 0);
        return;
    }
    tt_assert(first >= 1 && first <= last && strspn(text, "0123456789-") == strlen(text));
    snprintf(again, sizeof again, "%u-%u", first, last);
    tt_assert(tt_ports_parse(&first_again, &last_again, again) && first_again == first &&
              last_again == last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[TEXT_BYTES_MAX + 1];

    if (bytes < 1 || bytes > TEXT_BYTES_MAX)
        return 0;
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = 0;
    if (data[0] & 1)
        check_ports(text);
    else
        check_address(text, bytes - 1);
    return 0;
}
