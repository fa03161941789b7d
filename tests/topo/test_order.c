#include "support/unit.h"

#include <string.h>

#include "base/log.h"
#include "base/prng.h"
#include "topo/order.h"

#define HOSTS_MAX 12

static struct tt_order_host host(const char *name, uint32_t slots, uint32_t number, uint32_t rack,
                                 uint32_t zone)
{
    return (struct tt_order_host){
        .name = name,
        .slots = slots,
        .group = { [TT_NEAR_HOST] = number, [TT_NEAR_RACK] = rack, [TT_NEAR_ZONE] = zone }
    };
}

static void valid_order_is_unchanged(void **state)
{
    const struct tt_order_host hosts[] = { host("a", 4, 0, 0, 0), host("b", 4, 1, 0, 0),
                                           host("c", 8, 2, 1, 0) };
    const struct tt_order_rule rule = { 8, TT_NEAR_RACK };
    uint32_t order[3], take[3], used;

    (void)state;
    for (int reorder = 0; reorder < 2; reorder++) {
        assert_int_equal(tt_order_ranks(hosts, 3, 16, &rule, 1, reorder, order, take, &used),
                         TUTTI_OK);
        assert_int_equal(used, 3);
        assert_int_equal(order[0], 0);
        assert_int_equal(order[2], 2);
        assert_int_equal(take[2], 8);
        assert_int_equal(tt_order_ranks(hosts, 3, 5, NULL, 0, reorder, order, take, &used),
                         TUTTI_OK);
        assert_int_equal(used, 2);
        assert_int_equal(take[1], 1);
    }
}

static void torn_group_is_fixed_on_request(void **state)
{
    const struct tt_order_host hosts[] = { host("a", 4, 0, 0, 0), host("b", 4, 1, 1, 0),
                                           host("c", 4, 2, 0, 0), host("d", 4, 3, 1, 0) };
    const struct tt_order_rule rule = { 8, TT_NEAR_RACK };
    static const uint32_t mended[] = { 0, 2, 1, 3 };
    uint32_t order[4], take[4], used = 99;

    (void)state;
    assert_int_equal(tt_order_ranks(hosts, 4, 16, &rule, 1, false, order, take, &used),
                     TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "ranks 0 to 7"));
    assert_non_null(strstr(tutti_last_error(), "on hosts a and b"));
    assert_int_equal(used, 99);
    assert_int_equal(tt_order_ranks(hosts, 4, 16, &rule, 1, true, order, take, &used), TUTTI_OK);
    assert_int_equal(used, 4);
    assert_memory_equal(order, mended, sizeof mended);
}

static void impossible_order_names_available_slots(void **state)
{
    const struct tt_order_host hosts[] = { host("a", 7, 0, 0, 0), host("b", 7, 1, 1, 0),
                                           host("c", 9, 2, 2, 0) };
    const struct tt_order_rule rule = { 8, TT_NEAR_RACK },
                               odd[] = { { 8, TT_NEAR_HOST }, { 12, TT_NEAR_RACK } };
    uint32_t order[3], take[3], used;

    (void)state;
    assert_int_equal(tt_order_ranks(hosts, 3, 16, &rule, 1, true, order, take, &used),
                     TUTTI_ERR_INVALID);
    assert_non_null(
        strstr(tutti_last_error(),
               "2 groups of 8 ranks, each within one rack, do not fit: there is room for 1"));
    assert_non_null(strstr(tutti_last_error(), "the rack of b holds 0, with 7 slots on 1 host"));
    assert_int_equal(tt_order_ranks(hosts, 3, 24, &rule, 1, true, order, take, &used),
                     TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "have 23 slots"));
    assert_int_equal(tt_order_ranks(hosts, 3, 12, &rule, 1, true, order, take, &used),
                     TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "12 ranks are not a multiple of the group size 8"));
    assert_int_equal(tt_order_ranks(hosts, 1, 8, &rule, 1, true, order, take, &used),
                     TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "8 ranks do not fit: the 1 host has 7 slots"));
    assert_int_equal(tt_order_ranks(hosts, 2, 8, &rule, 1, true, order, take, &used),
                     TUTTI_ERR_INVALID);
    assert_non_null(
        strstr(tutti_last_error(),
               "1 group of 8 ranks, each within one rack, does not fit: there is room for 0"));
    assert_int_equal(tt_order_ranks(hosts, 3, 1, &rule, 1, true, order, take, &used),
                     TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "1 rank is not a multiple of the group size 8"));
    assert_int_equal(tt_order_ranks(hosts, 3, 12, odd, 2, true, order, take, &used),
                     TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "groups of 8 ranks within groups of 12"));
}

/* ---- compared with every order of hosts, and every number of ranks on each ---- */

struct search {
    const struct tt_order_host *hosts;
    const struct tt_order_rule *rules;
    uint32_t n, nrules, nranks;
    uint32_t where[32];         /* host of each rank */
    bool used[HOSTS_MAX];
};

static bool keeps(const struct search *s, uint32_t nranks)
{
    for (uint32_t i = 0; i < s->nrules; i++)
        for (uint32_t r = 0; r < nranks; r++) {
            const uint32_t first = r / s->rules[i].ranks * s->rules[i].ranks;

            if (s->hosts[s->where[r]].group[s->rules[i].within] !=
                s->hosts[s->where[first]].group[s->rules[i].within])
                return false;
        }
    return true;
}

static bool exists(struct search *s, uint32_t placed)
{
    if (placed == s->nranks)
        return true;
    for (uint32_t h = 0; h < s->n; h++) {
        if (s->used[h])
            continue;
        s->used[h] = true;
        for (uint32_t k = 1; k <= s->hosts[h].slots && placed + k <= s->nranks; k++) {
            s->where[placed + k - 1] = h;
            if (!keeps(s, placed + k))
                break;
            if (exists(s, placed + k)) {
                s->used[h] = false;
                return true;
            }
        }
        s->used[h] = false;
    }
    return false;
}

static void existing_orders_are_found(void **state)
{
    uint32_t possible = 0, impossible = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 10000; seed++) {
        struct tt_order_host hosts[HOSTS_MAX];
        struct tt_order_rule rules[2];
        struct search s = { .hosts = hosts, .rules = rules };
        uint32_t order[HOSTS_MAX], take[HOSTS_MAX], used = 0, slots = 0, placed = 0;
        struct tt_prng p;
        tutti_status st;

        tt_prng_init(&p, seed);
        s.n = 1 + (uint32_t)tt_prng_below(&p, 5);
        for (uint32_t h = 0; h < s.n; h++) {
            const uint32_t rack = (uint32_t)tt_prng_below(&p, 3);

            hosts[h] = host("h", 1 + (uint32_t)tt_prng_below(&p, 4), h, rack, rack / 2);
            slots += hosts[h].slots;
        }
        rules[0] = (struct tt_order_rule){ 1 + (uint32_t)tt_prng_below(&p, 3),
                                           tt_prng_below(&p, 2) ? TT_NEAR_HOST : TT_NEAR_RACK };
        rules[1] = (struct tt_order_rule){ rules[0].ranks * (1 + (uint32_t)tt_prng_below(&p, 3)),
                                           TT_NEAR_ZONE };
        if (slots < rules[1].ranks)
            continue;
        s.nrules = (uint32_t)tt_prng_below(&p, 3);
        s.nranks = (1 + (uint32_t)tt_prng_below(&p, slots / rules[1].ranks)) * rules[1].ranks;
        st = tt_order_ranks(hosts, s.n, s.nranks, rules, s.nrules, true, order, take, &used);
        if ((st == TUTTI_OK) != exists(&s, 0))
            fail_msg("seed %llu: %s", (unsigned long long)seed,
                     st ? tutti_last_error() : "an order was found where there is none");
        possible += st == TUTTI_OK;
        impossible += st != TUTTI_OK;
        if (st)
            continue;
        for (uint32_t i = 0; i < used; i++) {
            assert_true(take[i] >= 1 && take[i] <= hosts[order[i]].slots);
            for (uint32_t k = 0; k < take[i]; k++)
                s.where[placed++] = order[i];
            for (uint32_t k = 0; k < i; k++)
                assert_true(order[k] != order[i]);
        }
        assert_int_equal(placed, s.nranks);
        if (!keeps(&s, placed))
            fail_msg("seed %llu: the order that was found tears a group", (unsigned long long)seed);
    }
    assert_true(possible > 300 && impossible > 100);
}

static int quiet(void **state)
{
    (void)state;
    tt_log_set(TT_LOG_NONE);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_order_is_unchanged),
        cmocka_unit_test(torn_group_is_fixed_on_request),
        cmocka_unit_test(impossible_order_names_available_slots),
        cmocka_unit_test(existing_orders_are_found),
    };

    return cmocka_run_group_tests(tests, quiet, NULL);
}
