/* The tickets of a split: parts in the order of keys, then ranks. */
#include "support/unit.h"

#include <string.h>
#include "base/prng.h"
#include "comm/ticket.h"

#define MANY 300u

static void parts_are_in_order_of_keys_and_ranks(void **state)
{
    struct tt_ticket tickets[MANY], before[MANY];
    struct tt_prng prng;
    uint32_t total = 0;

    (void)state;
    tt_prng_init(&prng, 1);
    for (uint32_t r = 0; r < MANY; r++)
        tickets[r] = (struct tt_ticket){ .colour = (int32_t)tt_prng_below(&prng, 5) - 1,
                                         .key = (int32_t)tt_prng_below(&prng, 7) - 3,
                                         .id = 1000 + r,
                                         .index = r };
    memcpy(before, tickets, sizeof before);
    tt_tickets_sort(tickets, MANY);
    for (int32_t colour = -1; colour < 5; colour++) {
        uint32_t members[MANY], rank, id, n, mine = MANY;

        for (uint32_t r = 0; r < MANY; r++)
            mine = before[r].colour == colour ? r : mine;
        n = tt_tickets_part(tickets, MANY, colour, mine, members, &rank, &id);
        total += n;
        if (!n) {
            assert_int_equal(id, 0);
            continue;
        }
        assert_int_equal(members[rank], mine);
        assert_int_equal(id, before[members[0]].id);
        for (uint32_t i = 0; i < n; i++) {
            const struct tt_ticket *t = &before[members[i]];
            const struct tt_ticket *last = i ? &before[members[i - 1]] : NULL;

            assert_int_equal(t->colour, colour);
            assert_true(!last || last->key < t->key ||
                        (last->key == t->key && last->index < t->index));
        }
    }
    assert_int_equal(total, MANY);
}

static void absent_colour_has_no_members(void **state)
{
    struct tt_ticket one = { .colour = 3, .id = 7 };
    uint32_t members[1], rank = 9, id = 9;

    (void)state;
    tt_tickets_sort(&one, 1);
    assert_int_equal(tt_tickets_part(&one, 1, 2, 0, members, &rank, &id), 0);
    assert_int_equal(id, 0);
    assert_int_equal(tt_tickets_part(&one, 1, 3, 0, members, &rank, &id), 1);
    assert_int_equal(id, 7);
    assert_int_equal(rank, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_in_order_of_keys_and_ranks),
        cmocka_unit_test(absent_colour_has_no_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
