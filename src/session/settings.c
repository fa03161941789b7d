/* Settings of a member when it joins: from its caller, or else from the environment. */
#include "session/run.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hostport.h"
#include "base/param.h"
#include "base/prng.h"
#include "base/resolve.h"
#include "secure/security.h"
#include "wire/wires.h"

#define TAGS_DEFAULT 8
/* with three communicators per tag, and two views while the view changes: an engine has at most
 * 1024 */
#define TAGS_OF_GROUPS_MAX 128

/* Returns the caller's value, or else that of the environment, or NULL. */
static const char *setting_or_env(const char *of_caller, const char *name)
{
    const char *text = of_caller && *of_caller ? of_caller : getenv(name);

    return text && *text ? text : NULL;
}

/* Resolves an address (see base/hostport.h); with AI_PASSIVE in flags, the host may be missing:
 * ":29401". The caller frees *found with freeaddrinfo. Errors are not logged: *why is their
 * cause. */
static tutti_status resolve_address(const char *text, size_t bytes, int flags, uint64_t deadline_ns,
                                    struct addrinfo **found, const char **why)
{
    struct tt_hostport at;

    *why = tt_hostport_parse(&at, text, bytes);
    if (!*why && !*at.host && !(flags & AI_PASSIVE))
        *why = "it must contain a host, like host:29401";
    if (*why)
        return TUTTI_ERR_INVALID;
    return tt_resolve(*at.host ? at.host : NULL, at.port, flags, true, deadline_ns, found, why);
}

static void take_address(struct tt_address *out, const struct addrinfo *a)
{
    memset(out, 0, sizeof *out);
    memcpy(&out->storage, a->ai_addr, a->ai_addrlen);
    out->bytes = a->ai_addrlen;
}

/* ---- coordinators ---- */

/* Adds a coordinator of the list; its name may have several addresses. */
static tutti_status add_coordinator(tutti_run *run, const char *text, size_t bytes,
                                    uint64_t deadline_ns)
{
    struct addrinfo *found;
    const char *why;
    const tutti_status st = resolve_address(text, bytes, 0, deadline_ns, &found, &why);

    if (st)
        return tt_fail(st,
                       "tutti_run_join: coordinator address \"%.*s\" (conf.coordinators, "
                       "TUTTI_COORDINATOR): %s",
                       (int)bytes, text, why);
    for (const struct addrinfo *a = found; a && run->ncoordinators < TT_RUN_COORDINATORS;
         a = a->ai_next)
        take_address(&run->coordinators[run->ncoordinators++], a);
    freeaddrinfo(found);
    return TUTTI_OK;
}

static tutti_status take_coordinators(tutti_run *run, const char *list, uint64_t deadline_ns)
{
    tutti_status st = TUTTI_OK;

    if (!list || !*list)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_run_join: no coordinator address (set conf.coordinators or "
                       "TUTTI_COORDINATOR to host:port)");
    while (!st && *list) {
        const size_t bytes = strcspn(list, ",");

        st = add_coordinator(run, list, bytes, deadline_ns);
        list += bytes + (list[bytes] == ',');
    }
    return st;
}

static bool address_is_loopback(const struct tt_address *a)
{
    static const uint8_t one[16] = { [15] = 1 },
                         mapped[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };

    if (a->storage.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&a->storage)->sin_addr.s_addr) >> 24 == 127;
    return memcmp(&((const struct sockaddr_in6 *)&a->storage)->sin6_addr, one, 16) == 0 ||
           memcmp(&((const struct sockaddr_in6 *)&a->storage)->sin6_addr, mapped, 13) == 0;
}

/* ---- security ---- */

/* Selects the security; the caller's setting takes precedence. far: the coordinators, if one is not
 * on loopback; else NULL. *near: nothing is set, so connections are unencrypted and limited to this
 * host. */
static tutti_status session_choose_security(const tutti_run_conf *conf, const char *far,
                                            struct tt_secure_conf *out, bool *near)
{
    bool asked = true;
    tutti_status st;

    *out = (struct tt_secure_conf){ .token = conf->token,
                                    .certificate = conf->certificate,
                                    .key = conf->key,
                                    .authority = conf->authority };
    if (conf->insecure) {
        out->mode = TT_SECURE_PLAIN;
    } else if (conf->certificate || conf->key || conf->authority) {
        out->mode = TT_SECURE_CERTIFICATE;
    } else if (conf->token && *conf->token) {
        out->mode = TT_SECURE_TOKEN;
    } else {
        st = tt_security_of_run(out, &asked);
        if (st)
            return st;
        if (!asked && far)
            return tt_fail(
                TUTTI_ERR_INVALID,
                "tutti_run_join: coordinator \"%s\" (conf.coordinators, "
                "TUTTI_COORDINATOR) is not on loopback, and neither a token (conf.token, "
                "TUTTI_TOKEN) nor a certificate is set (conf.insecure or "
                "TUTTI_SECURITY=plain allows unencrypted connections)",
                far);
    }
    *near = !asked;
    return TUTTI_OK;
}

static tutti_status take_security(tutti_run *run, const tutti_run_conf *conf)
{
    struct tt_secure_conf secure;
    const char *far = NULL;
    tutti_status st;

    for (uint32_t i = 0; i < run->ncoordinators; i++)
        if (!address_is_loopback(&run->coordinators[i]))
            far = setting_or_env(conf->coordinators, "TUTTI_COORDINATOR");
    st = session_choose_security(conf, far, &secure, &run->outside.near);
    return st ? st : tt_secure_create(&run->secure, &secure);
}

/* ---- addresses ---- */

/* what: the name of the setting, for messages. */
static tutti_status parse_address(const char *text, const char *what, int flags,
                                  uint64_t deadline_ns, struct tt_address *out)
{
    struct addrinfo *found;
    const char *why;
    const tutti_status st = resolve_address(text, strlen(text), flags, deadline_ns, &found, &why);

    if (st)
        return tt_fail(st, "tutti_run_join: %s \"%s\": %s", what, text, why);
    take_address(out, found);
    freeaddrinfo(found);
    return TUTTI_OK;
}

static void card_of_one(struct tt_member_card *c, const struct tt_address *a, uint16_t port)
{
    struct tt_endpoint *e = &c->inside;

    *e = (struct tt_endpoint){ .port = port, .naddrs = 1 };
    /* unique: this single address is used even by members of the same host */
    tt_random_bytes(&e->host, sizeof e->host);
    if (a->storage.ss_family == AF_INET) {
        e->addrs[0].family = 4;
        e->addrs[0].prefix_bits = 32;
        memcpy(e->addrs[0].bytes, &((const struct sockaddr_in *)&a->storage)->sin_addr, 4);
    } else {
        e->addrs[0].family = 6;
        e->addrs[0].prefix_bits = 128;
        memcpy(e->addrs[0].bytes, &((const struct sockaddr_in6 *)&a->storage)->sin6_addr, 16);
    }
}

static uint16_t address_port(const struct tt_address *a)
{
    if (a->storage.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&a->storage)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&a->storage)->sin_port);
}

/* Returns whether it is a wildcard (0.0.0.0 or ::), which cannot be announced to others. */
static bool is_any(const struct tt_address *a)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->storage;

    if (a->storage.ss_family == AF_INET)
        return ((const struct sockaddr_in *)&a->storage)->sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

/* Returns INVALID if other hosts could reach this member at the address, although unencrypted
 * connections were not requested. */
static tutti_status check_near(const tutti_run *run, const struct tt_address *a, const char *text,
                               const char *what)
{
    if (!run->outside.near || address_is_loopback(a))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID,
                   "tutti_run_join: %s \"%s\" is not on loopback, and neither a token "
                   "(conf.token, TUTTI_TOKEN) nor a certificate is set (conf.insecure or "
                   "TUTTI_SECURITY=plain allows unencrypted connections)",
                   what, text);
}

/* Selects the listening address: one of this host's addresses, or all. */
static tutti_status choose_address(const tutti_run *run, const char *listen, uint64_t deadline_ns,
                                   struct tt_address *at, bool *one)
{
    static const char what[] = "conf.listen (TUTTI_LISTEN)";
    struct sockaddr_in *in = (struct sockaddr_in *)&at->storage;
    tutti_status st = TUTTI_OK;

    *at = (struct tt_address){ .storage.ss_family = AF_INET, .bytes = sizeof *in };
    if (listen)
        st = parse_address(listen, what, AI_PASSIVE, deadline_ns, at);
    if (!st && run->outside.near && (!listen || *listen == ':')) {
        *in = (struct sockaddr_in){ .sin_family = AF_INET,
                                    .sin_port = htons(address_port(at)),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        at->bytes = sizeof *in;
    }
    *one = !st && !is_any(at);
    return st || (!*one && !run->outside.near) ? st : check_near(run, at, listen, what);
}

/* Listens for connections of other members. */
static tutti_status listen_for_members(tutti_run *run, const char *listen, const char *interfaces,
                                       uint64_t deadline_ns)
{
    struct tt_address at;
    uint16_t port;
    bool one;
    tutti_status st = choose_address(run, listen, deadline_ns, &at, &one);
    int fd;

    if (st)
        return st;
    port = address_port(&at);
    fd = tt_listen(one ? &at : NULL, port, &port);
    if (fd < 0)
        return tt_fail_errno(errno, "tutti_run_join: cannot listen for members on \"%s\"",
                             listen ? listen : "any port");
    st = tt_acceptor_init(&run->acceptor, "session", fd, run->epoll,
                          (epoll_data_t){ .ptr = &run->acceptor });
    if (st) {
        close(fd);
        return st;
    }
    st = run->outside.near ? TUTTI_OK : tt_endpoint_init(&run->card.inside, port, interfaces);
    if (!st && one)
        card_of_one(&run->card, &at, port);
    return st;
}

static tutti_status parse_ports(const char *text, struct tt_outside *out)
{
    if (tt_ports_parse(&out->port_first, &out->port_last, text))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID,
                   "tutti_run_join: invalid conf.data_ports (TUTTI_DATA_PORTS) \"%s\": must "
                   "be a range like \"40000-40007\"",
                   text);
}

/* Data ports that are not fixed cannot be forwarded; then only the member's own port is
 * announced. */
static void announce_data(const struct tt_address *a, struct tt_outside *out)
{
    const bool six = a->storage.ss_family == AF_INET6;

    if (out->port_first == 0)
        return;
    out->family = six ? 6 : 4;
    if (six)
        memcpy(out->ip, &((const struct sockaddr_in6 *)&a->storage)->sin6_addr, 16);
    else
        memcpy(out->ip, &((const struct sockaddr_in *)&a->storage)->sin_addr, 4);
}

static tutti_status take_addresses(tutti_run *run, const tutti_run_conf *conf, uint64_t deadline_ns)
{
    const char *ports = setting_or_env(conf->data_ports, "TUTTI_DATA_PORTS"),
               *announce = setting_or_env(conf->announce, "TUTTI_ANNOUNCE");
    tutti_status st = listen_for_members(run, setting_or_env(conf->listen, "TUTTI_LISTEN"),
                                         run->interfaces, deadline_ns);

    if (!st && ports)
        st = parse_ports(ports, &run->outside);
    if (st || !announce)
        return st;
    st = parse_address(announce, "conf.announce (TUTTI_ANNOUNCE)", 0, deadline_ns,
                       &run->card.outside);
    if (st)
        return st;
    if (is_any(&run->card.outside) || address_port(&run->card.outside) == 0)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_run_join: conf.announce (TUTTI_ANNOUNCE) \"%s\" is not reachable "
                       "from other hosts: the address must not be a wildcard, nor the port 0",
                       announce);
    st = check_near(run, &run->card.outside, announce, "conf.announce (TUTTI_ANNOUNCE)");
    if (st)
        return st;
    run->card.has_outside = true;
    announce_data(&run->card.outside, &run->outside);
    return TUTTI_OK;
}

/* ---- all settings ---------------------------------------------------------------------------- */

static tutti_status copy_settings(char **out, const char *text)
{
    *out = text ? strdup(text) : NULL;
    return text && !*out ? tt_fail(TUTTI_ERR_NOMEM, "out of memory for a run") : TUTTI_OK;
}

tutti_status tt_run_take_conf(tutti_run *run, const tutti_run_conf *conf)
{
    int64_t timeout_ms = conf->timeout_ms, lanes = conf->lanes;
    uint64_t deadline_ns;
    tutti_status st = TUTTI_OK;

    if (conf->tags < 0 || conf->tags > (int)TT_ELASTIC_TAGS)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_join: conf.tags is %d: must be 0 to %u",
                       conf->tags, TT_ELASTIC_TAGS);
    if (lanes < 0 || lanes > 16)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_join: conf.lanes is %d: must be 0 to 16",
                       conf->lanes);
    if (conf->nroles > 1 && conf->tags > TAGS_OF_GROUPS_MAX)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_run_join: conf.tags is %d: the maximum with replica groups "
"(conf.nroles) is %d",
                       conf->tags, TAGS_OF_GROUPS_MAX);
    if (conf->nroles > TT_ELASTIC_MEMBERS_MAX || conf->role >= (conf->nroles ? conf->nroles : 1))
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_run_join: conf.role %u is out of range: conf.nroles is %u",
                       conf->role, conf->nroles);
    if (!timeout_ms)
        st = tt_param_get(TT_PARAM_TIMEOUT_MS, &timeout_ms);
    if (!st && !lanes)
        st = tt_param_get(TT_PARAM_LANES, &lanes);
    if (st)
        return st;
    run->timeout_ms = timeout_ms;
    deadline_ns = tt_deadline_ns(tt_now_ns(), timeout_ms);
    run->lanes = (uint32_t)lanes;
    run->ntags = conf->tags ? (uint32_t)conf->tags : TAGS_DEFAULT;
    st = copy_settings(&run->wires, setting_or_env(conf->wires, "TUTTI_WIRES"));
    if (!st)
        st = tt_wire_check_list(run->wires); /* checked now, not when connecting to other members */
    if (!st)
        st = copy_settings(&run->interfaces, setting_or_env(conf->interfaces, "TUTTI_INTERFACES"));
    if (!st)
        st = take_coordinators(run, setting_or_env(conf->coordinators, "TUTTI_COORDINATOR"),
                               deadline_ns);
    if (!st)
        st = take_security(run, conf);
    if (!st)
        st = take_addresses(run, conf, deadline_ns);
    return st;
}
