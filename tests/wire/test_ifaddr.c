#include "wire/ifaddr.h"

#include <arpa/inet.h>
#include <string.h>
#include "support/unit.h"

static void rules_let_names_through(void **state)
{
    static const struct {
        const char *rule, *name;
        bool allowed;
    } rows[] = {
        { NULL, "eth0", true },
        { "", "lo", true },
        { "eth", "eth0", true },
        { "eth", "eth", true },
        { "eth", "weth0", false },
        { "eth", "lo", false },
        { "ib,eth", "eth1", true },
        { "ib,eth", "ib0", true },
        { "=eth0", "eth0", true },
        { "=eth0", "eth01", false },
        { "=eth0", "eth", false },
        { "=eth0,eth1", "eth1", true },
        { "=eth0,eth1", "eth10", false },       /* a leading = applies to all, as in NCCL */
        { "ib,=eth1", "eth10", false },
        { "ib,=eth1", "ib7", true },
        { "^docker,lo", "docker0", false },
        { "^docker,lo", "lo", false },
        { "^docker,lo", "eth0", true },
        { "^=eth0", "eth0", false },
        { "^=eth0", "eth01", true },
        { "^", "eth0", true },
        { ",", "eth0", false },
        { "eth,", "lo", false },
        { "=", "eth0", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (tt_ifaddr_allows(rows[i].rule, rows[i].name) != rows[i].allowed)
            fail_msg("\"%s\" and %s", rows[i].rule ? rows[i].rule : "(none)", rows[i].name);
}

static void loopback_is_first_and_rule_applies(void **state)
{
    struct tt_ifaddr found[16];
    size_t n, none;

    (void)state;
    assert_int_equal(tt_ifaddr_list(NULL, found, 16, &n), TUTTI_OK);
    assert_true(n > 0 && found[0].loopback);
    assert_int_equal(tt_ifaddr_list("=no-such-name", found, 16, &none), TUTTI_OK);
    assert_int_equal(none, 0);
    assert_int_equal(tt_ifaddr_list("^lo", found, 16, &n), TUTTI_OK);
    for (size_t i = 0; i < n; i++)
        assert_true(strncmp(found[i].name, "lo", 2) != 0);
    assert_int_equal(tt_ifaddr_list(NULL, found, 1, &n), TUTTI_OK);
    assert_int_equal(n, 1);
}

static void near_means_in_the_same_network(void **state)
{
    struct tt_ifaddr a = { .family = AF_INET, .prefix_bits = 20 };
    uint8_t ip[16] = { 0 };

    (void)state;
    inet_pton(AF_INET, "10.1.16.9", a.ip);
    inet_pton(AF_INET, "10.1.31.255", ip);
    assert_true(tt_ifaddr_near(&a, AF_INET, ip));
    assert_false(tt_ifaddr_near(&a, AF_INET6, ip));
    inet_pton(AF_INET, "10.1.32.0", ip);
    assert_false(tt_ifaddr_near(&a, AF_INET, ip));
    a.prefix_bits = 0;
    assert_false(tt_ifaddr_near(&a, AF_INET, ip));      /* an unknown address is not near */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_let_names_through),
        cmocka_unit_test(loopback_is_first_and_rule_applies),
        cmocka_unit_test(near_means_in_the_same_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
