#include "support/unit.h"

#include <string.h>

#include "topo/rails.h"

#define U TT_UNKNOWN

static bool all(const char *rule, const char *name) { return (void)rule, (void)name, true; }

static bool not_eth1(const char *rule, const char *name)
{
    return (void)rule, strcmp(name, "eth1") != 0;
}

static struct tt_nic nic(const char *name, int64_t gbit_s, int socket)
{
    struct tt_nic n = {
        .up = true, .addressed = true, .bit_s = gbit_s * 1000000000, .socket = socket, .numa = U
    };

    strcpy(n.name, name);
    return n;
}

static void names_of(const struct tt_rails *r, char out[512])
{
    *out = '\0';
    for (uint32_t i = 0; i < r->n; i++) {
        strcat(out, r->rail[i].name);
        strcat(out, " ");
    }
}

static void fastest_real_nics_are_rails(void **state)
{
    struct tt_nic nics[] = { nic("eth10", 100, 1),   nic("eth2", 100, 0), nic("eno1", 1, 0),
                             nic("docker0", 100, U), nic("lo", 100, U),   nic("eth1", 100, 0),
                             nic("eth3", 100, 0),    nic("eth4", 100, 0) };
    struct tt_rails r;
    char names[512];

    (void)state;
    nics[4].loopback = true;
    nics[6].up = false;
    nics[7].addressed = false;
    tt_rails_find(&r, nics, 8, all, NULL);
    names_of(&r, names);
    assert_string_equal(names, "eth1 eth2 eth10 ");
    assert_int_equal(r.rail[2].socket, 1);
    tt_rails_find(&r, nics, 8, not_eth1, "^=eth1");     /* named rails are used, also slow and
                                                           virtual ones */
    names_of(&r, names);
    assert_string_equal(names, "docker0 eno1 eth2 eth10 ");
    tt_rails_find(&r, nics, 0, all, NULL);
    assert_int_equal(r.n, 0);
}

static void slowest_wire_limits_the_rails(void **state)
{
    struct tt_nic nics[] = { nic("eth0", 100, U), nic("eth1", 100, U), nic("eth2", 25, U) };
    struct tt_rails r;

    (void)state;
    tt_rails_find(&r, nics, 3, all, NULL);
    assert_true(r.n == 2 && r.bit_s == 0);
    nics[0].wired = nics[1].wired = nics[2].wired = true;
    tt_rails_find(&r, nics, 3, all, NULL);
    assert_true(r.n == 2 && r.bit_s == 100000000000);
    tt_rails_find(&r, nics, 3, all, "eth");
    assert_true(r.n == 3 && r.bit_s == 25000000000);
    nics[1].wired = false;
    tt_rails_find(&r, nics, 3, all, "eth");
    assert_true(r.n == 3 && r.bit_s == 0);
    tt_rails_find(&r, nics, 0, all, "eth");
    assert_true(r.n == 0 && r.bit_s == 0);
}

static void unknown_speeds_qualify_without_known_ones(void **state)
{
    const struct tt_nic nics[] = { nic("eth0", 0, U), nic("eth1", 0, U), nic("eth2", 25, U) };
    struct tt_rails r;

    (void)state;
    tt_rails_find(&r, nics, 2, all, "");
    assert_int_equal(r.n, 2);
    tt_rails_find(&r, nics, 3, all, "");
    assert_int_equal(r.n, 1);
    assert_string_equal(r.rail[0].name, "eth2");
}

static void number_of_rails_is_limited(void **state)
{
    struct tt_nic nics[TT_NICS_MAX];
    struct tt_rails r;

    (void)state;
    for (int i = 0; i < TT_NICS_MAX; i++) {
        const char name[] = { 'e', (char)('a' + i / 26), (char)('a' + i % 26), 0 };

        nics[i] = nic(name, 10, U);
    }
    tt_rails_find(&r, nics, TT_NICS_MAX, all, NULL);
    assert_int_equal(r.n, TT_RAILS_MAX);
}

/* Ranks of a host, and its rails, by their socket or NUMA node. */
static void rank_uses_nearest_rail_with_reason(void **state)
{
    static const struct {
        int rails[4], ranks[4];
        uint32_t nrails, nlocal, rail[4];
        enum tt_rail_why why;
    } cases[] = {
        { { U }, { 0, 0 }, 0, 2, { 0, 0 }, TT_RAIL_NONE },
        { { 1 }, { 0, 0 }, 1, 2, { 0, 0 }, TT_RAIL_ONLY },
        { { 1, 0 }, { 0, 1, 1, 0 }, 2, 4, { 1, 0, 0, 1 }, TT_RAIL_SOCKET },
        { { 0, 0, 1, 1 }, { 0, 0, 1, 1 }, 4, 4, { 0, 1, 2, 3 }, TT_RAIL_SOCKET },
        { { 0, 0, 1, 1 }, { 1, 0, 1, 1 }, 4, 4, { 2, 0, 3, 2 }, TT_RAIL_SOCKET },
        { { U, U }, { 0, 1, 0 }, 2, 3, { 0, 1, 0 }, TT_RAIL_IN_TURN },
        { { 0, 1 }, { U, U, U }, 2, 3, { 0, 1, 0 }, TT_RAIL_IN_TURN },
        { { 3, 3 }, { 0, 1 }, 2, 2, { 0, 1 }, TT_RAIL_IN_TURN },
        /* all are near: no information */
        { { 3, 3 }, { 3, 1, 3 }, 2, 3, { 0, 1, 0 }, TT_RAIL_IN_TURN },
        { { 0, 1 }, { 1 }, 2, 1, { 1 }, TT_RAIL_ALL },
        { { 0, 1 }, { U }, 2, 1, { 0 }, TT_RAIL_ALL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int numa = 0; numa < 2; numa++) {
            const enum tt_rail_why want =
                cases[i].why == TT_RAIL_SOCKET && numa ? TT_RAIL_NUMA : cases[i].why;
            struct tt_rails rails = { .n = cases[i].nrails };
            struct tt_rails_near near[4];
            uint32_t rail[4];

            for (uint32_t k = 0; k < rails.n; k++) {
                rails.rail[k].socket = numa ? 5 : cases[i].rails[k];
                rails.rail[k].numa = numa ? cases[i].rails[k] : U;
            }
            for (uint32_t k = 0; k < cases[i].nlocal; k++)
                near[k] = tt_rails_nearest(&rails, numa ? 5 : cases[i].ranks[k],
                                           numa ? cases[i].ranks[k] : 2, NULL);
            tt_rails_deal(near, cases[i].nlocal, rails.n, rail);
            for (uint32_t k = 0; k < cases[i].nlocal; k++) {
                const enum tt_rail_why why = tt_rail_why(near[k], cases[i].nlocal, rails.n);

                if (rail[k] != cases[i].rail[k] || why != want)
                    fail_msg("case %zu, rank %u: rail %u, %s", i, k, rail[k],
                             tt_rail_why_text(why));
            }
        }
}

/* Two root complexes, 1 on socket 0 and 2 on socket 1. Below the first a switch, 10, with a port
 * for each device; and another, 11. */
static void nearest_bridge_precedes_numa_and_socket(void **state)
{
    static const struct tt_pci_path paths[] = {
        { 3, { 1, 10, 100 } }, { 3, { 1, 10, 101 } }, { 3, { 1, 11, 110 } }, { 1, { 2 } },
    };
    static const struct {
        struct tt_gpu gpu;
        int socket, numa;
        uint16_t set;
        enum tt_rail_why by;
    } cases[] = {
        /* the switch */
        { { .socket = 0, .numa = 0, .pci = { 3, { 1, 10, 102 } } }, 1, 1, 0x3, TT_RAIL_PCI },
        { { .socket = 0, .numa = 0, .pci = { 3, { 1, 11, 111 } } }, 1, 1, 0x4, TT_RAIL_PCI },
        /* one port */
        { { .socket = 0, .numa = 0, .pci = { 4, { 1, 10, 101, 7 } } }, 0, 0, 0x2, TT_RAIL_PCI },
        /* the root complex */
        { { .socket = 0, .numa = 0, .pci = { 2, { 1, 12 } } }, 1, 1, 0x7, TT_RAIL_PCI },
        { { .socket = 1, .numa = 1, .pci = { 1, { 2 } } }, 0, 0, 0x8, TT_RAIL_PCI },
        /* the GPU's node, not the processors' */
        { { .socket = 1, .numa = 1, .pci = { 2, { 3, 30 } } }, 0, 0, 0x8, TT_RAIL_NUMA },
        { { .socket = 1, .numa = 2, .pci = { 0 } }, 0, 0, 0x8, TT_RAIL_SOCKET },
        /* the GPU's location is unknown */
        { { .socket = U, .numa = U, .pci = { 0 } }, 0, 0, 0x7, TT_RAIL_NUMA },
        { { .socket = 7, .numa = 7, .pci = { 0 } }, 0, 0, 0, TT_RAIL_IN_TURN },
    };
    struct tt_rails rails = { .n = 4 };

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        rails.rail[i].socket = rails.rail[i].numa = i == 3;
        rails.rail[i].pci = paths[i];
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_rails_near near =
            tt_rails_nearest(&rails, cases[i].socket, cases[i].numa, &cases[i].gpu);

        if (near.set != cases[i].set || near.by != cases[i].by)
            fail_msg("case %zu: rails %#x, %s", i, near.set,
                     tt_rail_why_text((enum tt_rail_why)near.by));
    }
}

/* Overlapping sets: ranks without a choice may come first or last, and no rail is unused while
 * another is used twice. */
static void least_used_near_rail_is_taken(void **state)
{
    static const struct tt_rails_near near[] = {
        { 0x1, TT_RAIL_PCI }, { 0x3, TT_RAIL_NUMA }, { 0, TT_RAIL_IN_TURN }, { 0x3, TT_RAIL_NUMA },
        { 0x2, TT_RAIL_PCI }, { 0xfff8, TT_RAIL_PCI },      /* of rails that the host's first
                                                               rank does not have */
    };
    static const uint32_t want[] = { 0, 1, 2, 0, 1, 2 };
    uint32_t rail[6];

    (void)state;
    tt_rails_deal(near, 6, 3, rail);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(rail[i], want[i]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(fastest_real_nics_are_rails),
        cmocka_unit_test(slowest_wire_limits_the_rails),
        cmocka_unit_test(unknown_speeds_qualify_without_known_ones),
        cmocka_unit_test(number_of_rails_is_limited),
        cmocka_unit_test(rank_uses_nearest_rail_with_reason),
        cmocka_unit_test(nearest_bridge_precedes_numa_and_socket),
        cmocka_unit_test(least_used_near_rail_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
