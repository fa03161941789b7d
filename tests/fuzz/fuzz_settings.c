/* Arbitrary text as addresses and ports of a joining member; the first byte selects whether
 * connections must stay on this host. No name is resolved. Accepted values are an address or a
 * range; others are reported; and local ones stay local. */
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
#include "session/settings.c"
#undef tt_resolve

#include "base/log.h"
#include "base/status.h"

#define TEXT_BYTES_MAX 1024

static tutti_run run;

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void check_told(void)
{
    tt_assert(has_prefix(tutti_last_error(), "tutti_run_join: "));
}

/* Formatted as in the log, it is accepted again, with the same value. */
static void check_address(const struct tt_address *a)
{
    char text[TT_ADDRESS_TEXT_BYTES];
    struct tt_address again;

    tt_assert(a->storage.ss_family == AF_INET
                  ? a->bytes == sizeof(struct sockaddr_in)
                  : a->storage.ss_family == AF_INET6 && a->bytes == sizeof(struct sockaddr_in6));
    tt_address_text(a, text);
    tt_assert(parse_address(text, "conf.announce (TUTTI_ANNOUNCE)", 0, TT_NEVER, &again) ==
              TUTTI_OK);
    tt_assert(again.storage.ss_family == a->storage.ss_family &&
              address_port(&again) == address_port(a) && is_any(&again) == is_any(a) &&
              address_is_loopback(&again) == address_is_loopback(a));
}

static void check_coordinators(const char *text)
{
    run.ncoordinators = 0;
    if (take_coordinators(&run, text, TT_NEVER)) {
        check_told();
        return;
    }
    tt_assert(run.ncoordinators > 0 && run.ncoordinators <= TT_RUN_COORDINATORS);
    for (uint32_t i = 0; i < run.ncoordinators; i++)
        check_address(&run.coordinators[i]);
}

static void check_listen(const char *text)
{
    struct tt_member_card card = { .has_outside = false };
    char where[TT_ADDRESS_TEXT_BYTES];
    struct tt_address at;
    bool one;

    if (choose_address(&run, text, TT_NEVER, &at, &one)) {
        check_told();
        return;
    }
    check_address(&at);
    tt_address_text(&at, where);
    if (run.outside.near)
        tt_assert(has_prefix(where, "127.") || has_prefix(where, "[::1]:") ||
                  has_prefix(where, "[::ffff:127."));
    tt_assert(one == !is_any(&at));
    card_of_one(&card, &at, address_port(&at));
    tt_assert(card.inside.naddrs == 1 && card.inside.port == address_port(&at));
}

static void check_announce(const char *text)
{
    struct tt_address at;

    if (parse_address(text, "conf.announce (TUTTI_ANNOUNCE)", 0, TT_NEVER, &at))
        check_told();
    else
        check_address(&at);
}

static void check_ports(const char *text)
{
    struct tt_outside outside = { .port_first = 0 };

    if (parse_ports(text, &outside))
        check_told();
    else
        tt_assert(outside.port_first > 0 && outside.port_first <= outside.port_last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[TEXT_BYTES_MAX + 1];

    if (bytes < 1 || bytes > TEXT_BYTES_MAX)
        return 0;
    tt_log_set(TT_LOG_NONE);
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = 0;
    run.outside.near = data[0] & 1;
    check_coordinators(text);
    check_listen(text);
    check_announce(text);
    check_ports(text);
    return 0;
}
