/* Combination of events of several ranks. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/prng.h"
#include "trace/json.h"
#include "trace/svg.h"
#include "trace/timeline.h"

#define RANKS 3u
#define EVENTS_MAX 4096u

/* Artificial events of ranks. */
struct kept {
    struct tt_trace_event events[RANKS][EVENTS_MAX];
    struct tt_timeline_rank ranks[RANKS];
};

static struct kept *kept_create(void)
{
    struct kept *k = calloc(1, sizeof *k);

    assert_non_null(k);
    for (uint32_t r = 0; r < RANKS; r++)
        k->ranks[r].events = k->events[r];
    return k;
}

static void keep(struct kept *k, uint32_t rank, enum tt_trace_kind kind, uint32_t peer,
                 uint8_t lane, uint32_t number, uint64_t at_ns)
{
    struct tt_timeline_rank *r = &k->ranks[rank];

    assert_true(r->nevents < EVENTS_MAX);
    k->events[rank][r->nevents++] =
        (struct tt_trace_event){ .at_ns = at_ns + (uint64_t)r->ahead_ns,
                                 .wire = "tcp",
                                 .bytes = kind == TT_TRACE_POSTED ? 100 + number : 0,
                                 .peer = peer,
                                 .number = number,
                                 .kind = (uint8_t)kind,
                                 .lane = lane,
                                 .rail = TT_TRACE_NO_RAIL };
}

static void check_segment(const struct tt_timeline_segment *g, uint32_t number, uint64_t posted_ns,
                          uint64_t completed_ns, uint64_t arrived_ns)
{
    assert_int_equal(g->number, number);
    assert_true(g->posted_ns == posted_ns);
    assert_true(g->completed_ns == completed_ns);
    assert_true(g->arrived_ns == arrived_ns);
    assert_int_equal(g->bytes, posted_ns == TT_NEVER ? 0 : 100 + number);
}

static void segment_has_times_of_both_ends(void **state)
{
    struct kept *k = kept_create();
    struct tt_timeline t;

    (void)state;
    k->ranks[1].ahead_ns = 5000;        /* its clock */
    keep(k, 0, TT_TRACE_POSTED, 1, 0, 4, 1000);
    keep(k, 0, TT_TRACE_POSTED, 1, 1, 5, 1010);
    keep(k, 0, TT_TRACE_COMPLETED, 1, 1, 5, 1020);
    keep(k, 0, TT_TRACE_COMPLETED, 1, 0, 4, 1030);
    keep(k, 1, TT_TRACE_ARRIVED, 0, 0, 4, 1050);
    keep(k, 1, TT_TRACE_ARRIVED, 0, 1, 5, 1040);
    keep(k, 1, TT_TRACE_POSTED, 0, 0, 4, 1060);     /* the opposite direction has the same
                                                       numbers */
    assert_int_equal(tt_timeline_init(&t, k->ranks, RANKS), TUTTI_OK);
    assert_int_equal(t.nrows, 3);
    assert_int_equal(t.nsegments, 3);
    assert_int_equal(t.length_ns, 60);
    assert_true(t.rows[0].from == 0 && t.rows[0].to == 1 && t.rows[0].lane == 0 &&
                t.rows[1].lane == 1 && t.rows[2].from == 1);
    check_segment(&t.segments[0], 4, 0, 30, 50);
    check_segment(&t.segments[1], 5, 10, 20, 40);
    check_segment(&t.segments[2], 4, 60, TT_NEVER, TT_NEVER);
    for (size_t i = 0; i < 3; i++)
        assert_true(t.rows[i].first == i && t.rows[i].end == i + 1 && t.segments[i].row == i);
    tt_timeline_fini(&t);
    free(k);
}

static void resent_data_is_another_segment(void **state)
{
    struct kept *k = kept_create();
    struct tt_timeline t;

    (void)state;
    keep(k, 0, TT_TRACE_POSTED, 2, 0, 9, 100);      /* the lane fails */
    keep(k, 0, TT_TRACE_POSTED, 2, 1, 9, 200);
    keep(k, 2, TT_TRACE_ARRIVED, 0, 1, 9, 250);
    keep(k, 0, TT_TRACE_COMPLETED, 2, 1, 9, 300);
    keep(k, 0, TT_TRACE_POSTED, 2, 1, 9, 400);      /* the same lane after its recovery */
    assert_int_equal(tt_timeline_init(&t, k->ranks, RANKS), TUTTI_OK);
    assert_int_equal(t.nsegments, 3);
    check_segment(&t.segments[0], 9, 0, TT_NEVER, TT_NEVER);
    check_segment(&t.segments[1], 9, 100, 200, 150);
    check_segment(&t.segments[2], 9, 300, TT_NEVER, TT_NEVER);
    tt_timeline_fini(&t);
    free(k);
}

static void early_arrival_belongs_to_its_post(void **state)
{
    struct kept *k = kept_create();
    struct tt_timeline t;

    (void)state;
    keep(k, 1, TT_TRACE_ARRIVED, 0, 0, 7, 1000);
    keep(k, 0, TT_TRACE_POSTED, 1, 0, 7, 1200);
    keep(k, 0, TT_TRACE_COMPLETED, 1, 0, 7, 1300);
    keep(k, 0, TT_TRACE_COMPLETED, 1, 0, 2, 1000);  /* posted before the ring begins */
    keep(k, 1, TT_TRACE_ARRIVED, 0, 0, 3, 1000);    /* and this one long before its number is
                                                       reused */
    keep(k, 0, TT_TRACE_POSTED, 1, 0, 3, 1000 + 2 * TT_SECOND);
    assert_int_equal(tt_timeline_init(&t, k->ranks, RANKS), TUTTI_OK);
    assert_int_equal(t.nsegments, 4);
    check_segment(&t.segments[0], 2, TT_NEVER, 0, TT_NEVER);
    check_segment(&t.segments[1], 3, TT_NEVER, TT_NEVER, 0);
    check_segment(&t.segments[2], 3, 2 * TT_SECOND, TT_NEVER, TT_NEVER);
    check_segment(&t.segments[3], 7, 200, 300, 0);
    tt_timeline_fini(&t);
    free(k);
}

/* Each event belongs to one segment. */
static void no_event_is_lost_or_duplicated(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct kept *k = kept_create();
        struct tt_prng p;
        struct tt_timeline t;
        uint64_t in_segments = 0, n;

        tt_prng_init(&p, seed);
        n = tt_prng_below(&p, 300);
        for (uint64_t i = 0; i < n; i++)
            keep(k, (uint32_t)tt_prng_below(&p, RANKS),
                 (enum tt_trace_kind)tt_prng_below(&p, TT_TRACE_KINDS),
                 (uint32_t)tt_prng_below(&p, RANKS), (uint8_t)tt_prng_below(&p, 2),
                 (uint32_t)tt_prng_below(&p, 4), tt_prng_below(&p, 3 * TT_SECOND));
        assert_int_equal(tt_timeline_init(&t, k->ranks, RANKS), TUTTI_OK);
        for (size_t i = 0; i < t.nsegments; i++) {
            const struct tt_timeline_segment *g = &t.segments[i];

            in_segments += (g->posted_ns != TT_NEVER) + (g->completed_ns != TT_NEVER) +
                           (g->arrived_ns != TT_NEVER);
            assert_true(g->row < t.nrows && t.rows[g->row].first <= i && i < t.rows[g->row].end);
        }
        if (in_segments != n)
            fail_msg("seed %llu: %llu of %llu events", (unsigned long long)seed,
                     (unsigned long long)in_segments, (unsigned long long)n);
        tt_timeline_fini(&t);
        free(k);
    }
}

/* An empty timeline, and one with only unknown values, is written with a beginning and an end, and
 * without invalid numbers. */
static void every_timeline_can_be_written(void **state)
{
    static const uint64_t lost[RANKS] = { 0, 3, 0 };

    (void)state;
    for (uint32_t n = 0; n < 3; n++) {
        struct kept *k = kept_create();
        struct tt_timeline t;
        char *text = NULL;
        size_t bytes = 0;
        FILE *to;

        if (n > 0)
            keep(k, 1, TT_TRACE_ARRIVED, 0, 0, 1, 10);
        if (n > 1)
            keep(k, 0, TT_TRACE_COMPLETED, 2, 0, 1, 20);
        assert_int_equal(tt_timeline_init(&t, k->ranks, RANKS), TUTTI_OK);
        to = open_memstream(&text, &bytes);
        assert_non_null(to);
        tt_timeline_write_json(&t, lost, RANKS, to);
        assert_int_equal(tt_timeline_write_svg(&t, "nothing & <all>", to), TUTTI_OK);
        assert_int_equal(fclose(to), 0);
        assert_non_null(strstr(text, "\"lost\":[0,3,0]"));
        assert_non_null(strstr(text, "nothing &amp; &lt;all&gt;"));
        assert_non_null(strstr(text, "</svg>"));
        assert_null(strstr(text, "nan"));
        assert_null(strstr(text, "18446744073"));       /* TT_NEVER, as a number */
        free(text);
        tt_timeline_fini(&t);
        free(k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segment_has_times_of_both_ends),
        cmocka_unit_test(resent_data_is_another_segment),
        cmocka_unit_test(early_arrival_belongs_to_its_post),
        cmocka_unit_test(no_event_is_lost_or_duplicated),
        cmocka_unit_test(every_timeline_can_be_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
