/* News sent between members arrive unchanged, for any previous state of the receiver. */
#include "support/unit.h"

#include <string.h>

#include "base/prng.h"
#include "session/membership_updates.h"

#define START (1ull << 32)

static void check(const struct tt_membership *n, uint64_t near)
{
    uint64_t words[TT_MEMBERSHIP_WORDS];
    struct tt_membership got;

    tt_membership_write(n, words);
    got = tt_membership_read(words, near);
    if (!tt_membership_are_same(n, &got))
        fail_msg("number %llu (near %llu), %u %u %u %u %u became %llu, %u %u %u %u %u",
                 (unsigned long long)n->number, (unsigned long long)near, n->newcomers, n->lost,
                 n->leaving, n->revoked, n->better, (unsigned long long)got.number, got.newcomers,
                 got.lost, got.leaving, got.revoked, got.better);
}

static void news_arrive_unchanged(void **state)
{
    static const uint32_t counts[] = { 0, 1, 255, 256, TT_ELASTIC_MEMBERS_MAX };
    struct tt_membership n = { .number = START + 7 };

    (void)state;
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            n.revoked = flags & 1;
            n.better = flags >> 1;
            n.newcomers = n.lost = n.leaving = 0;
            check(&n, n.number);
            n.newcomers = counts[i];
            check(&n, n.number);
            n.lost = counts[i];
            check(&n, n.number);
            n.leaving = counts[i];
            check(&n, n.number);
        }
}

static void old_and_new_numbers_are_distinguished(void **state)
{
    static const uint64_t known[] = { 0,
                                      START + 1,
                                      START + UINT32_MAX,
                                      3 * START,
                                      (START - 1) * START + 5,
                                      0xffffull * START + UINT32_MAX,
                                      0x10000ull * START,
                                      0x12345ull * START + 9 };
    static const uint64_t apart[] = {
        0, 1, 1000, START - 1, START, 5 * START + 3, 0x7ffeull * START
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof known / sizeof *known; i++)
        for (uint32_t k = 0; k < sizeof apart / sizeof *apart; k++) {
            if (known[i] <= UINT64_MAX - apart[k])
                check(&(struct tt_membership){ .number = known[i] + apart[k] }, known[i]);
            if (known[i] >= apart[k])
                check(&(struct tt_membership){ .number = known[i] - apart[k] }, known[i]);
        }
}

/* The all-reduce of an outcome combines the words of several members. */
static void greatest_words_are_newest(void **state)
{
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 2);
    for (int times = 0; times < 10000; times++) {
        const uint64_t base = (tt_prng_below(&p, 1000) + 1) * START + tt_prng_below(&p, 1000);
        uint64_t newest[TT_MEMBERSHIP_WORDS] = { 0 };
        struct tt_membership best = { .number = 0 }, got;

        for (int member = 0; member < 5; member++) {
            const struct tt_membership n = { .number = base + tt_prng_below(&p, 2) * START +
                                                       (uint64_t)member,
                                             .newcomers = (uint32_t)tt_prng_below(&p, 9),
                                             .lost = (uint32_t)tt_prng_below(&p, 9),
                                             .leaving = (uint32_t)tt_prng_below(&p, 9),
                                             .revoked = tt_prng_below(&p, 2),
                                             .better = tt_prng_below(&p, 2) };
            uint64_t words[TT_MEMBERSHIP_WORDS];

            tt_membership_write(&n, words);
            for (int i = 0; i < TT_MEMBERSHIP_WORDS; i++)
                newest[i] = words[i] > newest[i] ? words[i] : newest[i];
            best = n.number > best.number ? n : best;
        }
        got = tt_membership_read(newest, base);
        assert_true(tt_membership_are_same(&got, &best));
    }
}

/* A member may send anything: the resulting news have at most the maximum number of members. */
static void any_words_give_valid_news(void **state)
{
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 1);
    for (int times = 0; times < 10000; times++) {
        uint64_t words[TT_MEMBERSHIP_WORDS], again[TT_MEMBERSHIP_WORDS];
        struct tt_membership n;

        for (int i = 0; i < TT_MEMBERSHIP_WORDS; i++)
            words[i] = tt_prng_u64(&p);
        n = tt_membership_read(words, tt_prng_u64(&p));
        assert_true(n.newcomers < 1u << 15 && n.lost < 1u << 15 && n.leaving < 1u << 15);
        tt_membership_write(&n, again);
        assert_true(again[0] == words[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(news_arrive_unchanged),
        cmocka_unit_test(old_and_new_numbers_are_distinguished),
        cmocka_unit_test(greatest_words_are_newest),
        cmocka_unit_test(any_words_give_valid_news),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
