#include "base/hostport.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define PORT_DIGITS 5

/* Returns the port in the first `bytes` of text, or -1 if they are not a port. */
static int32_t parse_port(const char *text, size_t bytes)
{
    uint32_t number = 0;

    if (bytes == 0 || bytes > PORT_DIGITS)
        return -1;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = 10 * number + (uint32_t)(text[i] - '0');
    }
    return number <= UINT16_MAX ? (int32_t)number : -1;
}

/* An IPv6 address, optionally with an interface after % (link-local). */
static bool is_ipv6(const char *host)
{
    const size_t bytes = strcspn(host, "%");
    char address[INET6_ADDRSTRLEN];
    struct in6_addr in6;

    if (bytes >= sizeof address || (host[bytes] == '%' && host[bytes + 1] == '\0'))
        return false;
    memcpy(address, host, bytes);
    address[bytes] = '\0';
    return inet_pton(AF_INET6, address, &in6) == 1;
}

const char *tt_hostport_parse(struct tt_hostport *out, const char *text, size_t bytes)
{
    static const char example[] = "must be like host:29401, 192.0.2.7:29401 or [2001:db8::7]:29401";
    const char *colon = memrchr(text, ':', bytes);
    size_t host_bytes = colon ? (size_t)(colon - text) : 0;
    const size_t port_bytes = colon ? bytes - host_bytes - 1 : 0;
    const int32_t number = colon ? parse_port(colon + 1, port_bytes) : -1;
    const bool in_brackets = host_bytes >= 2 && text[0] == '[' && colon[-1] == ']';
    struct tt_hostport parsed = { .number = (uint16_t)number };

    if (port_bytes == 0 || memchr(text, '\0', bytes))
        return example;
    if (in_brackets) {
        text++;
        host_bytes -= 2;
    } else if (memchr(text, ':', host_bytes) && !memchr(text, ']', bytes)) {
        return "an IPv6 address must be in brackets, like [2001:db8::7]:29401";
    }
    if (host_bytes >= TT_HOST_BYTES)
        return "the host name is too long";
    memcpy(parsed.host, text, host_bytes);
    if (in_brackets != is_ipv6(parsed.host) || strpbrk(parsed.host, "[]"))
        return "only an IPv6 address can be in brackets, followed by its port, like "
               "[2001:db8::7]:29401";
    if (number < 0)
        return "the port must be 0 to 65535";
    memcpy(parsed.port, colon + 1, port_bytes);
    *out = parsed;
    return NULL;
}

bool tt_ports_parse(uint16_t *first, uint16_t *last, const char *text)
{
    const size_t bytes = strcspn(text, "-");
    const int32_t low = parse_port(text, bytes),
                  high = text[bytes] ? parse_port(text + bytes + 1, strlen(text + bytes + 1)) : -1;

    if (low < 1 || high < low)
        return false;
    *first = (uint16_t)low;
    *last = (uint16_t)high;
    return true;
}
