#include "support/unit.h"

#include <string.h>

#include "topo/rails.h"

#define U TT_UNKNOWN

static bool all(const char *rule, const char *name) { return (void)rule, (void)name, true; }

static bool not_eth1(const char *rule, const char *name) { return (void)rule, strcmp(name, "eth1") != 0; }

static struct tt_nic nic(const char *name, int64_t gbit_s, int socket)
{
    struct tt_nic n = { .up = true, .addressed = true, .bit_s = gbit_s * 1000000000, .socket = socket, .numa = U };

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

static void the_fastest_real_nics_are_rails_in_order_of_name(void **state)
{
    struct tt_nic nics[] = { nic("eth10", 100, 1), nic("eth2", 100, 0), nic("eno1", 1, 0), nic("docker0", 100, U),
                             nic("lo", 100, U),    nic("eth1", 100, 0), nic("eth3", 100, 0), nic("eth4", 100, 0) };
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
    tt_rails_find(&r, nics, 8, not_eth1, "^=eth1");     /* who names rails gets them, slow and virtual ones too */
    names_of(&r, names);
    assert_string_equal(names, "docker0 eno1 eth2 eth10 ");
    tt_rails_find(&r, nics, 0, all, NULL);
    assert_int_equal(r.n, 0);
}

static void nics_of_unknown_speed_are_rails_where_none_is_known(void **state)
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

static void no_more_rails_than_there_is_room_for(void **state)
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

static void a_rank_uses_its_nearest_rail_and_says_why(void **state)
{
    static const struct {
        int16_t rails[4], sockets[4];
        uint32_t nrails, nlocal, rail[4];
        enum tt_rail_why why;
    } cases[] = {
        { { U }, { 0, 0 }, 0, 2, { 0, 0 }, TT_RAIL_NONE },
        { { 1 }, { 0, 0 }, 1, 2, { 0, 0 }, TT_RAIL_ONLY },
        { { 1, 0 }, { 0, 1, 1, 0 }, 2, 4, { 1, 0, 0, 1 }, TT_RAIL_NEAREST },
        { { 0, 0, 1, 1 }, { 0, 0, 1, 1 }, 4, 4, { 0, 1, 2, 3 }, TT_RAIL_NEAREST },
        { { 0, 0, 1, 1 }, { 1, 0, 1, 1 }, 4, 4, { 2, 0, 3, 2 }, TT_RAIL_NEAREST },
        { { U, U }, { 0, 1, 0 }, 2, 3, { 0, 1, 0 }, TT_RAIL_IN_TURN },
        { { 0, 1 }, { U, U, U }, 2, 3, { 0, 1, 0 }, TT_RAIL_IN_TURN },
        { { 3, 3 }, { 0, 1 }, 2, 2, { 0, 1 }, TT_RAIL_IN_TURN },
        { { 0, 1 }, { 1 }, 2, 1, { 1 }, TT_RAIL_ALL },
        { { 0, 1 }, { U }, 2, 1, { 0 }, TT_RAIL_ALL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t k = 0; k < cases[i].nlocal; k++) {
            enum tt_rail_why why;
            const uint32_t rail =
                tt_rail_choose(cases[i].rails, cases[i].nrails, cases[i].sockets, cases[i].nlocal, k, &why);

            if (rail != cases[i].rail[k] || why != cases[i].why)
                fail_msg("case %zu, rank %u: rail %u, %s", i, k, rail, tt_rail_why_text(why));
        }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_real_nics_are_rails_in_order_of_name),
        cmocka_unit_test(nics_of_unknown_speed_are_rails_where_none_is_known),
        cmocka_unit_test(no_more_rails_than_there_is_room_for),
        cmocka_unit_test(a_rank_uses_its_nearest_rail_and_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
