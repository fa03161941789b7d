/* Settings of a joining member: its listening address, its ports for data, its external address,
 * and their environment variables. Two members of one process, over TCP for data. */
#include "session/party.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "session/run.h"

/* ---- ports ---- */

/* Opens a listener at a free port of this host. Returns -1 if there is none. */
static int take_port(int family, uint16_t *port)
{
    const struct sockaddr_in v4 = { .sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    struct sockaddr_in6 got = { 0 };
    socklen_t bytes = sizeof got;
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 &&
        (bind(fd, family == AF_INET ? (const struct sockaddr *)&v4 : (const struct sockaddr *)&v6,
              family == AF_INET ? sizeof v4 : sizeof v6) != 0 ||
         listen(fd, 1) != 0 || getsockname(fd, (struct sockaddr *)&got, &bytes) != 0)) {
        close(fd);
        return -1;
    }
    *port = ntohs(got.sin6_port); /* the same offset in both address families */
    return fd;
}

/* Returns whether the port has a listener on loopback. */
static bool is_open(int family, uint16_t port)
{
    const struct sockaddr_in v4 = { .sin_family = AF_INET,
                                    .sin_port = htons(port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
                                     .sin6_port = htons(port),
                                     .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    const bool six = family == AF_INET6;
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool open =
        fd >= 0 && connect(fd, six ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4,
                           six ? sizeof v6 : sizeof v4) == 0;

    close(fd);
    return open;
}

/* ---- two members ---- */

struct pair_member {
    tutti_run_conf conf;
    pthread_t thread;
    void (*look)(tutti_run *run, uint32_t index);   /* called after both have reduced; may be
                                                       NULL */
    uint32_t index;
};

static void *live(void *arg)
{
    struct pair_member *m = arg;
    tutti_view view = { .size = sizeof view };
    int64_t v[1000];
    uint64_t flags;
    tutti_run *run;

    MUST(tutti_run_join(&run, &m->conf));
    MUST(tutti_run_epoch(run, TUTTI_ADMIT, 2, 0, 0, &view));
    for (int i = 0; i < 1000; i++)
        v[i] = i + view.rank;
    MUST(tutti_run_allreduce(run, v, v, 1000, TUTTI_I64, TUTTI_SUM, 0));
    for (int i = 0; i < 1000; i++)
        CHECK(v[i] == 2 * i + 1);
    if (m->look)
        m->look(run, m->index);
    MUST(tutti_run_agree(run, 1, 0, &flags)); /* no member leaves before both have checked */
    tutti_run_destroy(run);
    return NULL;
}

/* Runs both members with these settings, in addition to the party's. */
static void run_pair(const struct party *p, tutti_run_conf one, tutti_run_conf other,
                     void (*look)(tutti_run *run, uint32_t index))
{
    struct pair_member m[2] = { { .conf = one, .look = look },
                                { .conf = other, .look = look, .index = 1 } };

    for (uint32_t i = 0; i < 2; i++) {
        m[i].conf.size = sizeof m[i].conf;
        m[i].conf.run = "test";
        m[i].conf.timeout_ms = 20000;
        if (!m[i].conf.coordinators)
            m[i].conf.coordinators = p->address;
        assert_int_equal(pthread_create(&m[i].thread, NULL, live, &m[i]), 0);
    }
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(m[i].thread, NULL);
}

/* ---- addresses of a member ---- */

static uint16_t own_port[2], data_first[2];

static void check_addresses(tutti_run *run, uint32_t index)
{
    const struct tt_endpoint *e = &run->card.inside;

    CHECK(e->port == own_port[index] && is_open(index ? AF_INET6 : AF_INET, own_port[index]));
    CHECK(e->naddrs == 1 && e->addrs[0].family == (index ? 6 : 4));
    CHECK(is_open(AF_INET, data_first[index]) ||
          is_open(AF_INET, (uint16_t)(data_first[index] + 1)));
}

static void member_listens_at_given_addresses(void **state)
{
    char listen[2][64], ports[2][32];
    uint16_t port;
    struct party p;
    const int six = take_port(AF_INET6, &port);

    (void)state;
    if (six < 0)
        skip(); /* a kernel without IPv6 */
    close(six);
    own_port[1] = port;
    own_port[0] = unit_free_port();
    snprintf(listen[0], sizeof listen[0], "127.0.0.1:%u", own_port[0]);
    snprintf(listen[1], sizeof listen[1], "[::1]:%u", own_port[1]);
    for (int i = 0; i < 2; i++) { /* one of two ports may be in use by chance */
        do
            data_first[i] = unit_free_port();
        while (data_first[i] == UINT16_MAX);
        snprintf(ports[i], sizeof ports[i], "%u-%u", data_first[i], data_first[i] + 1);
    }
    party_begin(&p, 1000, 100, NULL);
    run_pair(&p, (tutti_run_conf){ .listen = listen[0], .data_ports = ports[0], .wires = "tcp" },
             (tutti_run_conf){ .listen = listen[1], .data_ports = ports[1], .wires = "tcp" },
             check_addresses);
    party_end(&p);
}

static void listens_everywhere(tutti_run *run, uint32_t index)
{
    const struct tt_endpoint *e = &run->card.inside;

    CHECK(e->port == own_port[index] && e->naddrs > 0);
    for (uint32_t i = 0; i < e->naddrs; i++) /* 0.0.0.0 cannot be announced */
        CHECK(memcmp(e->addrs[i].bytes, (const uint8_t[16]){ 0 }, 16) != 0);
}

static void wildcard_address_has_three_forms(void **state)
{
    static const char *const words[] = { ":%u", "0.0.0.0:%u", "[::]:%u" };
    struct party p;
    char listen[2][64];

    (void)state;
    party_begin(&p, 1000, 100, NULL);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            own_port[k] = unit_free_port();
            snprintf(listen[k], sizeof listen[k], words[i], own_port[k]);
        }
        run_pair(&p, (tutti_run_conf){ .listen = listen[0], .insecure = 1 },
                 (tutti_run_conf){ .listen = listen[1], .insecure = 1 }, listens_everywhere);
    }
    party_end(&p);
}

/* Announced addresses are in the member's card; also for data, if the data ports are known. Nearby
 * members do not use them. */
static void announces(tutti_run *run, uint32_t index)
{
    char text[TT_ADDRESS_TEXT_BYTES];

    CHECK(run->card.has_outside);
    tt_address_text(&run->card.outside, text);
    CHECK(strcmp(text, index ? "[2001:db8::7]:4711" : "192.0.2.7:4711") == 0);
    CHECK(run->outside.family == (index ? 6 : 0));
}

static void announced_address_spares_neighbours(void **state)
{
    struct party p;
    char ports[32];
    uint16_t first;

    (void)state;
    do
        first = unit_free_port();
    while (first > UINT16_MAX - 3);
    snprintf(ports, sizeof ports, "%u-%u", first, first + 3);
    party_begin(&p, 1000, 100, NULL);
    run_pair(
        &p, (tutti_run_conf){ .announce = "192.0.2.7:4711", .wires = "tcp", .insecure = 1 },
        (tutti_run_conf){
            .announce = "[2001:db8::7]:4711", .data_ports = ports, .wires = "tcp", .insecure = 1 },
        announces);
    party_end(&p);
}

/* ---- plain connections ---- */

static bool is_near(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->ss_family != AF_INET6 ||
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* Returns how many sockets of this process listen for other hosts: those of the coordinator, and of
 * members for control and data. */
static int listeners_of_the_network(void)
{
    int n = 0;

    for (int fd = 0; fd < 4096; fd++) {
        struct sockaddr_storage at = { 0 };
        socklen_t bytes = sizeof at, int_bytes = sizeof(int);
        int listens = 0;

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_bytes) == 0 && listens &&
            getsockname(fd, (struct sockaddr *)&at, &bytes) == 0)
            n += !is_near(&at);
    }
    return n;
}

static void is_near_its_host(tutti_run *run, uint32_t index)
{
    const struct tt_endpoint *e = &run->card.inside;

    (void)index;
    CHECK(listeners_of_the_network() == 0);
    CHECK(e->naddrs == 1 && e->addrs[0].family == 4 && e->addrs[0].bytes[0] == 127);
}

static void can_be_reached(tutti_run *run, uint32_t index)
{
    (void)run;
    (void)index;
    CHECK(listeners_of_the_network() >= 2); /* a member's control and data sockets */
}

/* The coordinator is on loopback, without security settings. */
static void plain_connections_default_to_loopback(void **state)
{
    static const char token[] = "a token of the run, long enough";
    char listen[64], ports[32];
    struct party p;
    uint16_t first;

    (void)state;
    own_port[0] = unit_free_port();
    do
        first = unit_free_port();
    while (first > UINT16_MAX - 7);
    snprintf(listen, sizeof listen, ":%u", own_port[0]);
    snprintf(ports, sizeof ports, "%u-%u", first, first + 7);
    party_begin(&p, 1000, 100, NULL);
    run_pair(&p, (tutti_run_conf){ .wires = "tcp" }, (tutti_run_conf){ .wires = "tcp" },
             is_near_its_host);
    run_pair(&p, (tutti_run_conf){ .listen = listen, .data_ports = ports },
             (tutti_run_conf){ .wires = "tcp", .data_ports = ports }, is_near_its_host);
    run_pair(&p, (tutti_run_conf){ .wires = "tcp", .insecure = 1 },
             (tutti_run_conf){ .wires = "tcp" }, NULL);
    run_pair(&p, (tutti_run_conf){ .wires = "tcp", .insecure = 1 },
             (tutti_run_conf){ .wires = "tcp", .insecure = 1 }, can_be_reached);
    setenv("TUTTI_SECURITY", "plain", 1);
    run_pair(&p, (tutti_run_conf){ .wires = "tcp" }, (tutti_run_conf){ .wires = "tcp" },
             can_be_reached);
    unsetenv("TUTTI_SECURITY");
    party_end(&p);
    party_begin(&p, 1000, 100, token);
    run_pair(&p, (tutti_run_conf){ .wires = "tcp", .token = token },
             (tutti_run_conf){ .wires = "tcp", .token = token }, can_be_reached);
    party_end(&p);
}

static void plain_network_needs_explicit_request(void **state)
{
    static const char told[] =
        "is not on loopback, and neither a token (conf.token, TUTTI_TOKEN) nor a certificate is "
        "set "
        "(conf.insecure or TUTTI_SECURITY=plain allows unencrypted connections)";
    const tutti_run_conf cases[] = { { .listen = "0.0.0.0:0" },
                                     { .listen = "[::]:0" },
                                     { .listen = "192.0.2.7:0" },
                                     { .announce = "192.0.2.7:4711" },
                                     { .listen = "127.0.0.1:0",
                                       .announce = "[2001:db8::7]:4711" } };
    struct party p;
    tutti_run *run;

    (void)state;
    party_begin(&p, 1000, 100, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tutti_run_conf conf = cases[i];

        conf.size = sizeof conf;
        conf.coordinators = p.address;
        assert_int_equal(tutti_run_join(&run, &conf), TUTTI_ERR_INVALID);
        if (!strstr(tutti_last_error(), told))
            fail_msg("case %zu: \"%s\" is not in \"%s\"", i, told, tutti_last_error());
    }
    party_end(&p);
    assert_int_equal(
        tutti_run_join(&run, &(tutti_run_conf){ .size = sizeof(tutti_run_conf),
                                                .coordinators = "127.0.0.1:9,192.0.2.7:9" }),
        TUTTI_ERR_INVALID);
    assert_non_null(strstr(
        tutti_last_error(),
        "\"127.0.0.1:9,192.0.2.7:9\" (conf.coordinators, TUTTI_COORDINATOR) is not on loopback"));
}

/* ---- the environment ---- */

static void environment_provides_missing_settings(void **state)
{
    char listen[64];
    struct party p;
    tutti_run *run;
    uint16_t first;
    char ports[32];

    (void)state;
    own_port[0] = unit_free_port();
    do
        first = unit_free_port();
    while (first > UINT16_MAX - 1);
    snprintf(listen, sizeof listen, "127.0.0.1:%u", own_port[0]);
    snprintf(ports, sizeof ports, "%u-%u", first, first + 1);
    party_begin(&p, 1000, 100, NULL);
    setenv("TUTTI_LISTEN", listen, 1);
    setenv("TUTTI_ANNOUNCE", "192.0.2.7:4711", 1);
    setenv("TUTTI_DATA_PORTS", ports, 1);
    setenv("TUTTI_SECURITY", "plain", 1);
    run = party_join(&p, 0, NULL);
    unsetenv("TUTTI_LISTEN");
    unsetenv("TUTTI_ANNOUNCE");
    unsetenv("TUTTI_DATA_PORTS");
    unsetenv("TUTTI_SECURITY");
    assert_int_equal(run->card.inside.port, own_port[0]);
    assert_true(run->card.has_outside);
    assert_int_equal(run->outside.family, 4);
    assert_int_equal(run->outside.port_first, first);
    assert_int_equal(run->outside.port_last, first + 1);
    tutti_run_destroy(run);
    party_end(&p);
}

static void invalid_addresses_and_transports_are_reported(void **state)
{
    const struct {
        tutti_run_conf conf;
        const char *told;
    } cases[] = {
        { { .listen = "nowhere" },
          "conf.listen (TUTTI_LISTEN) \"nowhere\": must be like host:29401" },
        { { .listen = "127.0.0.1:" }, "conf.listen (TUTTI_LISTEN)" },
        { { .listen = "192.0.2.7:1" }, "listen for members on \"192.0.2.7:1\"" },
        { { .announce = "203.0.113.1" },
          "conf.announce (TUTTI_ANNOUNCE) \"203.0.113.1\": must be like host:29401" },
        { { .announce = ":4711" },
          "conf.announce (TUTTI_ANNOUNCE) \":4711\": it must contain a host, like host:29401" },
        { { .listen = "::1:4" },
          "conf.listen (TUTTI_LISTEN) \"::1:4\": an IPv6 address must be in brackets" },
        { { .announce = "2001:db8::7:4711" },
          "\"2001:db8::7:4711\": an IPv6 address must be in brackets" },
        { { .coordinators = "127.0.0.1:1,::1:4" },
          "coordinator address \"::1:4\" (conf.coordinators, TUTTI_COORDINATOR): an IPv6 address "
          "must be in brackets" },
        { { .coordinators = "[127.0.0.1]:1" }, "only an IPv6 address can be in brackets" },
        { { .coordinators = "127.0.0.1:1,,127.0.0.1:2" }, "coordinator address \"\"" },
        { { .announce = "0.0.0.0:4711" }, "is not reachable from other hosts" },
        { { .announce = "203.0.113.1:0" }, "is not reachable from other hosts" },
        { { .data_ports = "40000" },
          "invalid conf.data_ports (TUTTI_DATA_PORTS) \"40000\": must be a range like "
          "\"40000-40007\"" },
        { { .data_ports = "40007-40000" }, "conf.data_ports" },
        { { .data_ports = "0-7" }, "conf.data_ports" },
        { { .data_ports = "40000-70000" }, "conf.data_ports" },
        { { .data_ports = "40000-40007 " }, "conf.data_ports" },
        { { .data_ports = " 40000-40007" }, "conf.data_ports" },
        { { .data_ports = "40000-+40007" }, "conf.data_ports" },
        { { .wires = "shm,smoke" },
          "unknown transport \"smoke\" in the list \"shm,smoke\" (TUTTI_WIRES and conf.wires "
          "accept: shm, " },
        { { .interfaces = "no0" }, "no interface that matches \"no0\" is up and has an address" },
    };
    struct party p;
    tutti_run *run;

    (void)state;
    party_begin(&p, 1000, 100, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tutti_run_conf conf = cases[i].conf;

        conf.size = sizeof conf;
        conf.coordinators = conf.coordinators ? conf.coordinators : p.address;
        conf.insecure = 1;
        assert_int_not_equal(tutti_run_join(&run, &conf), TUTTI_OK);
        if (!strstr(tutti_last_error(), cases[i].told))
            fail_msg("case %zu: \"%s\" is not in \"%s\"", i, cases[i].told, tutti_last_error());
    }
    party_end(&p);
}

static void exhausted_ports_are_reported(void **state)
{
    tutti_view view = { .size = sizeof view };
    struct party p;
    tutti_run_conf conf = {
        .size = sizeof conf, .run = "test", .timeout_ms = 20000, .wires = "tcp"
    };
    char ports[32];
    uint16_t port;
    tutti_run *run;
    const int fd = take_port(AF_INET, &port);

    (void)state;
    assert_true(fd >= 0);
    party_begin(&p, 1000, 100, NULL);
    snprintf(ports, sizeof ports, "%u-%u", port, port);
    conf.coordinators = p.address;
    conf.data_ports = ports;
    MUST(tutti_run_join(&run, &conf));
    assert_int_not_equal(tutti_run_epoch(run, TUTTI_ADMIT, 1, 0, 0, &view), TUTTI_OK);
    if (!strstr(tutti_last_error(), "cannot listen for peers on any port"))
        fail_msg("\"%s\" does not tell of the ports", tutti_last_error());
    tutti_run_destroy(run);
    party_end(&p);
    close(fd);
}

/* ---- order of addresses ---- */

static void add(struct tt_member_card *c, const char *ip)
{
    const size_t i = c->inside.naddrs++;

    c->inside.addrs[i].family = 4;
    c->inside.addrs[i].prefix_bits = 24;
    assert_int_equal(inet_pton(AF_INET, ip, c->inside.addrs[i].bytes), 1);
}

static void announce(struct tt_member_card *c, const char *ip)
{
    struct sockaddr_in *in = (struct sockaddr_in *)&c->outside.storage;

    memset(&c->outside, 0, sizeof c->outside);
    in->sin_family = AF_INET;
    in->sin_port = htons(4711);
    assert_int_equal(inet_pton(AF_INET, ip, &in->sin_addr), 1);
    c->outside.bytes = sizeof *in;
    c->has_outside = true;
}

static void in_order(const struct tt_member_card *own, const struct tt_member_card *peer,
                     enum tt_mark_place place, const char *expected)
{
    struct tt_address at[TT_CARD_ADDRESSES];
    const size_t n = tt_member_card_candidates(own, peer, place, at);
    char all[TT_CARD_ADDRESSES * TT_ADDRESS_TEXT_BYTES] = "", one[TT_ADDRESS_TEXT_BYTES];

    for (size_t i = 0; i < n; i++) {
        tt_address_text(&at[i], one);
        strcat(strcat(all, one), " ");
    }
    assert_string_equal(all, expected);
}

static void neighbours_precede_announced_addresses(void **state)
{
    struct tt_member_card own = { .inside = { .host = 1, .port = 1 } },
                          peer = { .inside = { .host = 2, .port = 2 } };

    (void)state;
    add(&own, "192.168.1.2");
    add(&peer, "10.9.9.9");
    add(&peer, "192.168.1.3");
    in_order(&own, &peer, TT_MARK_ELSEWHERE, "192.168.1.3:2 10.9.9.9:2 ");
    announce(&peer, "203.0.113.1");
    in_order(&own, &peer, TT_MARK_ELSEWHERE, "192.168.1.3:2 203.0.113.1:4711 10.9.9.9:2 ");
    announce(&own, "203.0.113.1"); /* behind the same address translation */
    in_order(&own, &peer, TT_MARK_ELSEWHERE, "192.168.1.3:2 203.0.113.1:4711 10.9.9.9:2 ");
    announce(&own, "203.0.113.2"); /* behind another one, with the same internal addresses */
    in_order(&own, &peer, TT_MARK_ELSEWHERE, "203.0.113.1:4711 192.168.1.3:2 10.9.9.9:2 ");
    peer.inside.host = 1;
    in_order(&own, &peer, TT_MARK_HERE, "127.0.0.1:2 203.0.113.1:4711 ");
}

static void look_alike_host_gets_further_tries(void **state)
{
    struct tt_member_card own = { .inside = { .host = 1, .port = 1 } },
                          peer = { .inside = { .host = 1, .port = 2 } };

    (void)state;
    add(&own, "192.168.1.2");
    add(&peer, "192.168.1.3");
    in_order(&own, &peer, TT_MARK_HERE, "127.0.0.1:2 ");
    in_order(&own, &peer, TT_MARK_UNKNOWN, "127.0.0.1:2 192.168.1.3:2 ");
    in_order(&own, &peer, TT_MARK_ELSEWHERE, "192.168.1.3:2 ");
    announce(&peer, "203.0.113.1");
    in_order(&own, &peer, TT_MARK_UNKNOWN, "127.0.0.1:2 203.0.113.1:4711 192.168.1.3:2 ");
    assert_true(tt_member_card_is_here(&own, &peer, TT_MARK_HERE));
    assert_true(tt_member_card_is_here(&own, &peer, TT_MARK_UNKNOWN));
    assert_false(tt_member_card_is_here(&own, &peer, TT_MARK_ELSEWHERE));
    peer.inside.host = 3;
    assert_false(tt_member_card_is_here(&own, &peer, TT_MARK_UNKNOWN));
}

/* ---- the coordinator's address families ---- */

static void members_connect_by_ipv4_and_ipv6(void **state)
{
    static const char *const listen[] = { "127.0.0.1:0", "[::1]:0" };
    const struct tt_coordinator_conf conf = { .run = "test", .listen = listen, .nlisten = 2 };
    struct tt_journal *journal;
    struct party p = { .nroles = 0 };
    char address[2][64];

    (void)state;
    MUST(tt_journal_none_open(&journal));
    if (tt_coordinator_create(&p.coordinator, &conf, journal) != TUTTI_OK) {
        journal->ops->close(journal);
        skip(); /* a kernel without IPv6 */
    }
    for (uint32_t i = 0; i < 2; i++)
        snprintf(address[i], sizeof address[i], "%s", tt_coordinator_address(p.coordinator, i));
    assert_int_equal(address[0][0], '1');
    assert_int_equal(address[1][0], '[');
    run_pair(&p, (tutti_run_conf){ .coordinators = address[0] },
             (tutti_run_conf){ .coordinators = address[1] }, NULL);
    party_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(member_listens_at_given_addresses),
        cmocka_unit_test(wildcard_address_has_three_forms),
        cmocka_unit_test(announced_address_spares_neighbours),
        cmocka_unit_test(plain_connections_default_to_loopback),
        cmocka_unit_test(plain_network_needs_explicit_request),
        cmocka_unit_test(environment_provides_missing_settings),
        cmocka_unit_test(invalid_addresses_and_transports_are_reported),
        cmocka_unit_test(exhausted_ports_are_reported),
        cmocka_unit_test(neighbours_precede_announced_addresses),
        cmocka_unit_test(look_alike_host_gets_further_tries),
        cmocka_unit_test(members_connect_by_ipv4_and_ipv6),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
