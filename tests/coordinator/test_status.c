#include "support/unit.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/metrics.h"
#include "coordinator/page.h"
#include "coordinator/ring_svg.h"
#include "coordinator/status.h"
#include "coordinator/text.h"
#include "snapshots.h"

/* Formats of the output, which the caller must free. */
enum format { JSON, METRICS, PAGE, PICTURE };

static char *written(enum format format, const struct tt_snapshot *s)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    assert_non_null(to);
    if (format == JSON)
        assert_true(tt_status_json(s, to));
    else if (format == METRICS)
        tt_metrics_write(s, to);
    else if (format == PAGE)
        tt_page_write(s, to);
    else
        assert_int_equal(tt_ring_svg_ring(&s->links, to), s->links.n > 0);
    assert_int_equal(fclose(to), 0);
    assert_int_equal(strlen(text), bytes);
    return text;
}

static uint32_t count(const char *text, const char *what)
{
    uint32_t n = 0;

    for (; (text = strstr(text, what)); text += strlen(what))
        n++;
    return n;
}

static struct json_object *json_of(const struct tt_snapshot *s)
{
    char *text = written(JSON, s);
    struct json_tokener *t = json_tokener_new();
    struct json_object *o;

    json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    o = json_tokener_parse_ex(t, text, (int)strlen(text) + 1);
    assert_int_equal(json_tokener_get_error(t), json_tokener_success);
    json_tokener_free(t);
    free(text);
    return o;
}

static struct json_object *at(struct json_object *o, const char *key)
{
    struct json_object *found;

    assert_true(json_object_object_get_ex(o, key, &found));
    return found;
}

static uint64_t number_at(struct json_object *o, const char *key)
{
    return json_object_get_uint64(at(o, key));
}

static void json_has_members_events_and_counters(void **state)
{
    struct tt_snapshot *s = snapshots_run("a run", 10);
    struct json_object *o = json_of(s), *m = at(o, "members"), *first, *waiting;

    (void)state;
    assert_string_equal(json_object_get_string(at(o, "run")), "a run");
    assert_int_equal(number_at(o, "epoch"), 7);
    assert_int_equal(number_at(o, "starts"), 2);
    assert_true(json_object_get_double(at(o, "lease_s")) == 1.0);
    assert_int_equal(json_object_array_length(m), 10);
    first = json_object_array_get_idx(m, 0);
    waiting = json_object_array_get_idx(m, 4);
    assert_int_equal(number_at(first, "id"), 100);
    assert_int_equal(number_at(first, "rank"), 0);
    assert_string_equal(json_object_get_string(at(first, "call")), "epoch");
    for (uint8_t call = TT_CALL_EPOCH; call < TT_CALL_KINDS; call++)
        assert_string_not_equal(tt_call_name(call), "?");
    for (uint8_t loss = 0; loss < TT_LOSSES; loss++)
        assert_string_not_equal(tt_status_loss(loss), "?");
    assert_string_equal(json_object_get_string(at(json_object_array_get_idx(m, 1), "state")),
                        "lost");
    assert_string_equal(json_object_get_string(at(json_object_array_get_idx(m, 3), "state")),
                        "left");
    assert_int_equal(number_at(at(o, "news"), "lost"), 1);
    assert_int_equal(number_at(at(o, "news"), "left"), 1);
    assert_int_equal(number_at(at(o, "counters"), "left"), 5);
    assert_int_equal(number_at(at(at(o, "counters"), "lost"), "silent"), 4);
    assert_int_equal(json_object_object_length(at(at(o, "counters"), "lost")), TT_LOSSES - 1);
    assert_string_equal(json_object_get_string(at(waiting, "state")), "waiting");
    assert_null(at(waiting, "rank"));
    assert_true(json_object_get_double(at(waiting, "silent_s")) == 0.4);
    assert_null(at(o, "links"));
    assert_string_equal(json_object_get_string(at(at(o, "last"), "outcome")), "mismatch");
    assert_string_equal(
        json_object_get_string(at(at(o, "last"), "why")),
        "member 100 called epoch with least 2 where member 102 called it with least 3");
    assert_string_equal(json_object_get_string(at(at(o, "began"), "why")),
                        "1 joined, 2 were lost, 1 left, member 102 revoked the previous epoch");
    assert_int_equal(number_at(at(o, "began"), "lost"), 2);
    assert_int_equal(number_at(at(o, "began"), "revoked_by"), 102);
    assert_null(at(o, "revoked_by"));
    assert_int_equal(number_at(at(at(o, "counters"), "taken"), "HEARTBEAT"), 3000000000000ull);
    assert_int_equal(number_at(at(at(o, "counters"), "refused"), "garbage"), 3);
    assert_int_equal(json_object_array_length(at(o, "events")), 3);
    json_object_put(o);
    tt_snapshot_destroy(s);
}

static void empty_run_is_shown(void **state)
{
    struct tt_snapshot *s = tt_snapshot_create(0, 0);
    struct json_object *o = json_of(s);
    char *metrics = written(METRICS, s), *page = written(PAGE, s);

    (void)state;
    assert_int_equal(json_object_array_length(at(o, "members")), 0);
    assert_null(at(o, "last"));
    assert_null(at(o, "began"));
    assert_null(strstr(page, " began; cause: "));
    assert_non_null(strstr(metrics, "\ntutti_members{state=\"in the view\"} 0\n"));
    assert_non_null(strstr(metrics, "tutti_journal_commit_seconds_count 0\n"));
    assert_non_null(strstr(page, "No member has joined yet."));
    assert_non_null(strstr(page, "not been measured yet"));
    json_object_put(o);
    free(metrics);
    free(page);
    tt_snapshot_destroy(s);
}

static void revoking_member_is_shown(void **state)
{
    struct tt_snapshot *s = snapshots_run("a", 1);
    struct json_object *o;
    char *page;

    (void)state;
    s->revoked = true;
    s->revoker = 104;
    for (int querying = 0; querying < 2; querying++) {
        s->querying = querying;
        page = written(PAGE, s);
        assert_non_null(strstr(page, "Member 104 revoked the epoch"));
        assert_non_null(strstr(page, "Epoch 7 began; cause: 1 joined, 2 were lost, 1 left, member "
                                     "102 revoked the previous epoch."));
        free(page);
    }
    o = json_of(s);
    assert_int_equal(number_at(o, "revoked_by"), 104);
    json_object_put(o);
    tt_snapshot_destroy(s);
}

/* The text of an event has a prefix, but must not be truncated at the relevant part. */
static void the_longest_cause_has_room(void **state)
{
    const struct tt_coord_cause cause = { .came = 4096,
                                          .lost = 4096,
                                          .left = 4096,
                                          .out = 4096,
                                          .revoked = true,
                                          .revoker = UINT32_MAX,
                                          .ordered = true };
    char text[TT_STATUS_CAUSE_BYTES];

    (void)state;
    assert_string_equal(
        tt_status_cause(text, &(struct tt_coord_cause){ .lost = 1, .out = 1, .ordered = true }),
        "1 was lost, 1 was in an incomplete group, a better order of the ring");
    assert_true(strlen(tt_status_cause(text, &cause)) < sizeof text - 1);
    assert_true(strlen("epoch 18446744073709551615 begins with 4096 members: ") + sizeof text <=
                TT_SNAPSHOT_EVENT_BYTES);
    assert_non_null(strstr(text, ", a better order of the ring"));
}

static void number_of_metrics_is_constant(void **state)
{
    struct tt_snapshot *few = snapshots_run("a", 1), *many = snapshots_run("a", 4096);
    char *a = written(METRICS, few), *b = written(METRICS, many);

    (void)state;
    assert_int_equal(count(a, "\n"), count(b, "\n"));
    assert_non_null(strstr(b, "\ntutti_members{state=\"lost\"} 1\n"));
    assert_non_null(strstr(b, "\ntutti_members{state=\"waiting\"} 819\n"));
    assert_non_null(strstr(b, "\ntutti_members{state=\"in the view\"} 3275\n"));
    assert_non_null(strstr(b, "\ntutti_members{state=\"left\"} 1\n"));
    assert_non_null(strstr(b, "\ntutti_members_lost_total{reason=\"silent\"} 4\n"));
    assert_null(strstr(b, "reason=\"left\""));
    assert_non_null(strstr(b, "\ntutti_members_left_total 5\n"));
    free(a);
    free(b);
    tt_snapshot_destroy(few);
    tt_snapshot_destroy(many);
}

static void buckets_of_commits_add_up(void **state)
{
    struct tt_snapshot *s = snapshots_run("a", 1);
    char *m = written(METRICS, s), line[120];

    (void)state;
    for (uint32_t i = 0; i < TT_SNAPSHOT_BUCKETS; i++) {
        snprintf(line, sizeof line, "\ntutti_journal_commit_seconds_bucket{le=\"%g\"} %d\n",
                 (double)tt_snapshot_bucket_ns[i] / 1e9, i < 3 ? 1 : 4);
        assert_non_null(strstr(m, line));
    }
    assert_non_null(strstr(m, "\ntutti_journal_commit_seconds_bucket{le=\"+Inf\"} 6\n"));
    assert_non_null(strstr(m, "\ntutti_journal_commit_seconds_count 6\n"));
    free(m);
    tt_snapshot_destroy(s);
}

static void untrusted_text_stays_text(void **state)
{
    struct tt_snapshot *s = snapshots_run(snapshots_hostile, 3), *plain = snapshots_run("a", 3);
    char *page = written(PAGE, s), *same = written(PAGE, plain), *metrics = written(METRICS, s);
    struct json_object *o;
    char clean[TT_TEXT_CLEAN_BYTES];

    (void)state;
    snprintf(s->members[0].address, sizeof s->members[0].address, "<script>\xff");
    free(page);
    page = written(PAGE, s);
    assert_int_equal(count(page, "<script"), count(same, "<script"));
    assert_int_equal(count(page, "<"), count(same, "<"));
    assert_int_equal(count(page, "<img"), 0);
    assert_non_null(strstr(page, "&lt;script&gt;\xef\xbf\xbd"));
    assert_int_equal(count(metrics, "\ntutti_epoch "), 1);
    assert_non_null(strstr(metrics, "onerror=alert(1)>\\\"'&amp;\\\\\xef\xbf\xbd"));
    assert_null(strchr(metrics, '\x1b'));
    o = json_of(s);
    assert_string_equal(json_object_get_string(at(o, "run")),
                        tt_text_clean(clean, sizeof clean, snapshots_hostile));
    json_object_put(o);
    free(page);
    free(same);
    free(metrics);
    tt_snapshot_destroy(s);
    tt_snapshot_destroy(plain);
}

static void page_limits_its_list(void **state)
{
    struct tt_snapshot *s = snapshots_run("a", TT_PAGE_MEMBERS + 76);
    char *page = written(PAGE, s);

    (void)state;
    assert_int_equal(count(page, "<td>192.0.2.") + count(page, "<td>[2001:db8::"), TT_PAGE_MEMBERS);
    assert_non_null(strstr(page, "and 76 more"));
    free(page);
    tt_snapshot_destroy(s);
}

static void ring_drawing_names_slowest_link(void **state)
{
    struct tt_snapshot *s = snapshots_run("a", 10);
    char *page, *metrics, *picture;
    struct json_object *o, *rows;

    (void)state;
    snapshots_measure(s);
    page = written(PAGE, s);
    metrics = written(METRICS, s);
    picture = written(PICTURE, s);
    assert_true(tt_status_slowest(&s->links) == 11e6);
    assert_non_null(strstr(page, "10 members, slowest link 88 Mbit/s"));
    assert_non_null(strstr(page, picture));
    assert_non_null(strstr(picture, "#100 to #107: 88 Mbit/s</title>"));
    assert_non_null(strstr(picture, "#100 to #101: no link</title>"));
    assert_int_equal(count(picture, "stroke='#d55e00'"), 10);
    assert_non_null(strstr(metrics, "\ntutti_ring_slowest_link_bytes_per_second 11000000\n"));
    o = json_of(s);
    rows = at(at(o, "links"), "bytes_per_s");
    assert_int_equal(
        json_object_get_uint64(json_object_array_get_idx(json_object_array_get_idx(rows, 2), 9)),
        13000000);
    assert_null(json_object_array_get_idx(json_object_array_get_idx(rows, 2), 2));
    rows = at(at(o, "links"), "latency_s");
    assert_true(json_object_get_double(
                    json_object_array_get_idx(json_object_array_get_idx(rows, 2), 9)) == 0.0025);
    assert_null(json_object_array_get_idx(json_object_array_get_idx(rows, 2), 2));
    assert_true(json_object_get_boolean(at(at(o, "links"), "waits")));
    assert_string_equal(json_object_get_string(at(at(o, "links"), "shape")), "two rings");
    assert_true(json_object_get_double(at(at(o, "links"), "was_s")) == 3.5);
    assert_non_null(strstr(page, "predicted to take 1.25 s in this order, as two rings, and 3.5 s "
                                 "in the previous one. The next epoch adopts it."));
    assert_non_null(strstr(metrics, "\ntutti_ring_predicted_seconds{order=\"was\"} 3.5\n"));
    assert_non_null(strstr(metrics, "\ntutti_ring_predicted_seconds{order=\"ring\"} 1.25\n"));
    assert_non_null(strstr(metrics, "\ntutti_ring_waits 1\n"));
    json_object_put(o);
    free(page);
    free(metrics);
    free(picture);
    tt_snapshot_destroy(s);
}

static void state_revisions_are_shown(void **state)
{
    struct tt_snapshot *s = snapshots_run("a", 2);
    char *page = written(PAGE, s), *metrics = written(METRICS, s);
    struct json_object *o = json_of(s), *states;

    (void)state;
    assert_null(strstr(page, "Shared state"));
    assert_null(strstr(metrics, "tutti_shared_state"));
    assert_int_equal(json_object_array_length(at(o, "shared_state")), 0);
    json_object_put(o);
    free(page);
    free(metrics);
    snapshots_sync(s);
    page = written(PAGE, s);
    metrics = written(METRICS, s);
    o = json_of(s);
    states = at(o, "shared_state");
    assert_non_null(
        strstr(page, "<td>role 1</td><td class=\"n\">7</td><td><code>&lt;b&gt;ff</code></td><td>is "
                     "being sent</td>"));
    assert_non_null(strstr(metrics, "\ntutti_shared_state_revision{role=\"all\"} 41\n"));
    assert_non_null(strstr(metrics, "\ntutti_shared_state_revision{role=\"1\"} 7\n"));
    assert_int_equal(number_at(json_object_array_get_idx(states, 1), "role"), 1);
    assert_int_equal(number_at(json_object_array_get_idx(states, 0), "revision"), 41);
    assert_true(json_object_get_boolean(at(json_object_array_get_idx(states, 1), "moving")));
    json_object_put(o);
    free(page);
    free(metrics);
    tt_snapshot_destroy(s);
}

static void untrusted_text_becomes_printable(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "", "" },
        { "plain <&>\"'\\", "plain <&>\"'\\" },
        { "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" },
        { "a\tb\nc\x7f", "a\xef\xbf\xbd" "b\xef\xbf\xbd" "c\xef\xbf\xbd" },
        { "\x80 \xc3", "\xef\xbf\xbd \xef\xbf\xbd" },
        /* '/' in two bytes */
        { "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },
        { "\xe0\x80\xaf!", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd!" },            /* in three */
        { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },              /* a surrogate */
        /* beyond the last one */
        { "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
        { "a\xe2\x80\xae" "b\xc2\x9b", "a\xef\xbf\xbd" "b\xef\xbf\xbd" },
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(tt_text_clean(out, sizeof out, cases[i].in), cases[i].out);
    assert_string_equal(tt_text_clean(out, 4, "ab\xc3\xa4"), "ab");
    assert_string_equal(tt_text_clean(out, 5, "ab\xc3\xa4"), "ab\xc3\xa4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_members_events_and_counters),
        cmocka_unit_test(empty_run_is_shown),
        cmocka_unit_test(revoking_member_is_shown),
        cmocka_unit_test(the_longest_cause_has_room),
        cmocka_unit_test(number_of_metrics_is_constant),
        cmocka_unit_test(buckets_of_commits_add_up),
        cmocka_unit_test(untrusted_text_stays_text),
        cmocka_unit_test(page_limits_its_list),
        cmocka_unit_test(ring_drawing_names_slowest_link),
        cmocka_unit_test(state_revisions_are_shown),
        cmocka_unit_test(untrusted_text_becomes_printable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
