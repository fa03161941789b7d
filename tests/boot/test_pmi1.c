#include <stdio.h>
#include <string.h>
#include "boot/pmi1.h"
#include "support/unit.h"

/* A complete dialogue: the expected commands of the client, and the server's replies. */
struct turn {
    const char *say, *answer;
};

static void play(const char *value, const struct turn *turns, size_t n, struct tt_pmi1 *p)
{
    char line[TT_PMI1_LINE_BYTES];

    tt_pmi1_begin(p, value, line);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(line, turns[i].say);
        tt_pmi1_step(p, turns[i].answer, line);
    }
    assert_string_equal(line, "");
}

static void rank_0_puts_before_the_barrier(void **state)
{
    static const struct turn turns[] = {
        { "cmd=init pmi_version=1 pmi_subversion=1\n",
          "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0" },
        { "cmd=get_maxes\n", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024" },
        { "cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=kvs_1_0" },
        { "cmd=put kvsname=kvs_1_0 key=tutti-rendezvous value=id:ab\n",
          "cmd=put_result rc=0 msg=success" },
        { "cmd=barrier_in\n", "cmd=barrier_out" },
        { "cmd=finalize\n", "cmd=finalize_ack" },
    };
    struct tt_pmi1 p;

    (void)state;
    play("id:ab", turns, sizeof turns / sizeof *turns, &p);
    assert_int_equal(p.state, TT_PMI1_DONE);
}

static void others_get_after_the_barrier(void **state)
{
    static const struct turn turns[] = {
        { "cmd=init pmi_version=1 pmi_subversion=1\n",
          "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0" },
        { "cmd=get_maxes\n", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024" },
        { "cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=kvs_1_0" },
        { "cmd=barrier_in\n", "cmd=barrier_out" },
        { "cmd=get kvsname=kvs_1_0 key=tutti-rendezvous\n",
          "cmd=get_result rc=0 msg=success value=id:ab" },
        { "cmd=finalize\n", "cmd=finalize_ack" },
    };
    struct tt_pmi1 p;

    (void)state;
    play(NULL, turns, sizeof turns / sizeof *turns, &p);
    assert_int_equal(p.state, TT_PMI1_DONE);
    assert_string_equal(p.value, "id:ab");
}

static void unexpected_reply_ends_with_reason(void **state)
{
    static const char *const answers[] = {
        "",
        " ",
        "=",
        "cmd",
        "cmd=",
        "cmd=maxes",
        "cmd=response_to_init",
        "cmd=response_to_init rc=1",
        "cmd=response_to_init rc=",
        "xcmd=response_to_init rc=0",
        "rc=0",
        "cmd=response_to_initx rc=0",
    };
    char line[TT_PMI1_LINE_BYTES];
    struct tt_pmi1 p;

    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        tt_pmi1_begin(&p, NULL, line);
        tt_pmi1_step(&p, answers[i], line);
        assert_int_equal(p.state, TT_PMI1_FAILED);
        assert_string_not_equal(p.why, "");
        assert_string_equal(line, "");
    }
}

static void too_short_values_are_refused(void **state)
{
    char line[TT_PMI1_LINE_BYTES];
    struct tt_pmi1 p;

    (void)state;
    tt_pmi1_begin(&p, "id:abcdef", line);
    tt_pmi1_step(&p, "cmd=response_to_init rc=0", line);
    tt_pmi1_step(&p, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=9", line);
    assert_int_equal(p.state, TT_PMI1_FAILED);
}

static void trivial_exchange_sends_init_and_finalize(void **state)
{
    char line[TT_PMI1_LINE_BYTES];
    struct tt_pmi1 p;

    (void)state;
    tt_pmi1_begin_leave(&p, line);
    assert_string_equal(line, "cmd=init pmi_version=1 pmi_subversion=1\n");
    tt_pmi1_step(&p, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2", line);
    assert_string_equal(line, "cmd=finalize\n");
    tt_pmi1_step(&p, "cmd=finalize_ack rc=0", line);
    assert_int_equal(p.state, TT_PMI1_DONE);
}

/* Passes the server's lines, up to NULL, to the client. */
static void play_join(const char *const *answers, struct tt_pmi1_join *j)
{
    char line[TT_PMI1_LINE_BYTES];

    tt_pmi1_join_begin(j, 7, line);
    assert_string_equal(line, "cmd=initack pmiid=7\n");
    for (; *answers; answers++)
        tt_pmi1_join_step(j, *answers);
}

static void port_handshake_gives_rank_and_size(void **state)
{
    static const char *const servers[][5] = {
        { "cmd=initack", "cmd=set size=4", "cmd=set rank=2", "cmd=set debug=0" },
        { "cmd=initack rc=0 rank=2 size=4 appnum=0 debug=0", "cmd=set size=4", "cmd=set rank=2",
          "cmd=set debug=0" },
    };
    struct tt_pmi1_join j;

    (void)state;
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
        play_join(servers[i], &j);
        assert_true(j.done && !j.failed);
        assert_int_equal(j.rank, 2);
        assert_int_equal(j.nranks, 4);
    }
}

static void bad_port_handshake_has_a_reason(void **state)
{
    static const char *const servers[][5] = {
        { "cmd=initack rc=1" },
        { "cmd=set size=4" },
        { "cmd=initack", "cmd=initack" },
        { "cmd=initack", "cmd=set size=x" },
        { "cmd=initack", "cmd=set size=-4" },
        { "cmd=initack", "cmd=set size=1048577" },
        { "cmd=initack", "cmd=set size=4", "cmd=set debug=0" },
        { "cmd=initack", "cmd=set rank=0", "cmd=set debug=0" },
        { "cmd=initack", "cmd=set size=4", "cmd=set rank=4", "cmd=set debug=0" },
        { "cmd=initack", "cmd=set size=0", "cmd=set rank=0", "cmd=set debug=0" },
        { "" },
    };
    struct tt_pmi1_join j;

    (void)state;
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
        print_message("case %zu\n", i);
        play_join(servers[i], &j);
        assert_true(j.failed && !j.done);
        assert_string_not_equal(j.why, "");
    }
}

static void endless_port_handshake_is_refused(void **state)
{
    char line[TT_PMI1_LINE_BYTES];
    struct tt_pmi1_join j;

    (void)state;
    tt_pmi1_join_begin(&j, 0, line);
    tt_pmi1_join_step(&j, "cmd=initack");
    for (int i = 0; i < 100 && !j.failed; i++)
        tt_pmi1_join_step(&j, "cmd=set size=4");
    assert_true(j.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_0_puts_before_the_barrier),
        cmocka_unit_test(others_get_after_the_barrier),
        cmocka_unit_test(unexpected_reply_ends_with_reason),
        cmocka_unit_test(too_short_values_are_refused),
        cmocka_unit_test(trivial_exchange_sends_init_and_finalize),
        cmocka_unit_test(port_handshake_gives_rank_and_size),
        cmocka_unit_test(bad_port_handshake_has_a_reason),
        cmocka_unit_test(endless_port_handshake_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
