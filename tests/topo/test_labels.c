#include "support/unit.h"

#include <string.h>

#include "base/prng.h"
#include "topo/labels.h"

static void patterns_match_whole_names(void **state)
{
    static const struct {
        const char *pattern, *name, *stars;     /* the text matched by the stars, separated by
                                                   slashes; NULL: no match */
    } cases[] = {
        { "a", "a", "" },
        { "a", "b", NULL },
        { "", "", "" },
        { "", "a", NULL },
        { "*", "", "/" },
        { "*", "abc", "abc/" },
        { "a*c", "abbc", "bb/" },
        { "a*c", "abbd", NULL },
        { "?", "a", "" },
        { "?", "", NULL },
        { "n*-*", "n1-2-3", "1/2-3/" },
        { "*-*", "a-b-c", "a/b-c/" },
        { "*a*b", "aab", "/a/" },
        { "*ab", "aab", "a/" },
        { "*aab", "aaab", "a/" },
        { "*.*.", "1.2.3.", "1/2.3/" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_pattern_stars stars;
        char text[128] = "";

        if (tt_pattern_match(cases[i].pattern, cases[i].name, &stars) != (cases[i].stars != NULL))
            fail_msg("\"%s\" and \"%s\"", cases[i].pattern, cases[i].name);
        for (unsigned s = 0; cases[i].stars && s < stars.n; s++) {
            strncat(text, stars.star[s].at, stars.star[s].bytes);
            strcat(text, "/");
        }
        if (cases[i].stars)
            assert_string_equal(text, cases[i].stars);
    }
}

/* A name made from a pattern by replacing its stars matches the pattern. */
static void filled_pattern_matches_itself(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5000; seed++) {
        struct tt_pattern_stars stars;
        struct tt_prng p;
        char pattern[16] = "", name[64] = "";
        size_t n = 0;

        tt_prng_init(&p, seed);
        for (uint64_t i = tt_prng_below(&p, 10); i-- > 0;) {
            const char c = "ab*?*"[tt_prng_below(&p, 5)];

            pattern[n++] = c;
            for (uint64_t k = c == '*' ? tt_prng_below(&p, 4) : 1; k-- > 0;)
                strncat(name, c == '*' || c == '?' ? &"ab"[tt_prng_below(&p, 2)] : &c, 1);
        }
        if (!tt_pattern_match(pattern, name, &stars))
            fail_msg("seed %llu: \"%s\" and \"%s\"", (unsigned long long)seed, pattern, name);
    }
}

static void labels_are_filled_from_stars(void **state)
{
    struct tt_pattern_stars stars;
    char out[12];

    (void)state;
    assert_true(tt_pattern_match("r*n*", "r12n3", &stars));
    tt_pattern_fill("rack$1/$2", &stars, out, sizeof out);
    assert_string_equal(out, "rack12/3");
    tt_pattern_fill("$3$x$", &stars, out, sizeof out);
    assert_string_equal(out, "$3$x$");
    tt_pattern_fill("a long label $1", &stars, out, sizeof out);
    assert_string_equal(out, "a long labe");
}

static void environment_labels_this_host(void **state)
{
    static const char *const bad[] = {
        "rack",    "rack=",  "=a",
        "shelf=3", "host=a", "zone=a,rack",
        "wan=a",   "a=b=c",  "rack=0123456789012345678901234567890123456789012345678"
    };
    struct tt_labels l = { 0 };
    size_t at = 99;

    (void)state;
    strcpy(l.label[TT_NEAR_ZONE], "of the file");
    strcpy(l.label[TT_NEAR_FABRIC], "f");
    assert_true(tt_labels_parse(&l, "rack=r1,zone=a", &at));
    assert_string_equal(l.label[TT_NEAR_RACK], "r1");
    assert_string_equal(l.label[TT_NEAR_ZONE], "a");
    assert_string_equal(l.label[TT_NEAR_BUILDING], "");
    assert_string_equal(l.label[TT_NEAR_FABRIC], "f");
    assert_true(tt_labels_parse(&l, "", &at));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (tt_labels_parse(&l, bad[i], &at))
            fail_msg("\"%s\" was taken", bad[i]);
        assert_int_equal(at, strcmp(bad[i], "zone=a,rack") == 0 ? 7 : 0);
        assert_string_equal(l.label[TT_NEAR_RACK], "r1");
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_whole_names),
        cmocka_unit_test(filled_pattern_matches_itself),
        cmocka_unit_test(labels_are_filled_from_stars),
        cmocka_unit_test(environment_labels_this_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
