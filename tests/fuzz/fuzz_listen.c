/* Arbitrary text as the address on which a coordinator listens. No name is resolved, and no socket
 * is opened. An error contains the text. Each accepted address can be formatted. If and only if all
 * of them are local, no other host can connect. */
#include <netdb.h>
#include <stddef.h>
#include <stdint.h>

#include "base/resolve.h"

static tutti_status look_up_numbers(const char *host, const char *port, int flags, bool retry,
                                    uint64_t deadline_ns, struct addrinfo **list, const char **why)
{
    return tt_resolve(host, port, flags | AI_NUMERICHOST, retry, deadline_ns, list, why);
}
#define tt_resolve look_up_numbers
#include "coordinator/listen.c"
#undef tt_resolve

#include "base/log.h"

#define TEXT_BYTES_MAX 400  /* the error contains all of it */

static bool is_near(const char *where)
{
    return strncmp(where, "127.", 4) == 0 || strncmp(where, "[::1]:", 6) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[TEXT_BYTES_MAX + 1], where[TT_LISTEN_TEXT_BYTES];
    bool loopback = false, near = true;
    struct addrinfo *list;
    struct sockaddr_storage at;
    uint16_t port;

    if (bytes > TEXT_BYTES_MAX)
        return 0;
    tt_log_set(TT_LOG_NONE);
    memcpy(text, data, bytes);
    text[bytes] = 0;
    if (tt_listen_check(text, TT_LISTEN_FOR_MEMBERS, &loopback)) {
        tt_assert(strstr(tutti_last_error(), text) &&
                  strstr(tutti_last_error(), TT_LISTEN_FOR_MEMBERS));
        return 0;
    }
    tt_assert(resolve_text(text, TT_LISTEN_FOR_MEMBERS, &list, &port) == TUTTI_OK && list);
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        memcpy(&at, a->ai_addr, a->ai_addrlen);
        tt_assert(bound_port(&at) == port);
        tt_listen_text(&at, where);
        near &= is_near(where);
    }
    tt_assert(near == loopback);
    freeaddrinfo(list);
    return 0;
}
