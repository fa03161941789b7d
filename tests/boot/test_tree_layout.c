/* Layouts: encoding, reading rank by rank, and invalid ones. */
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "boot/tree_layout.h"
#include "support/unit.h"
#include "support/world.h"

#define RANKS_MAX 64u

/* Runs of a job, with their places. */
struct job {
    uint32_t nranks, nruns;
    struct tt_tree_run runs[RANKS_MAX];
    uint8_t place_bytes[RANKS_MAX], places[RANKS_MAX][TT_TREE_PLACE_MAX];
    uint8_t packed[RANKS_MAX * (TT_RECORD_OVERHEAD + TT_TREE_PLACE_MAX)];
    struct tt_writer w;
};

static void job_begin(struct job *j)
{
    memset(j, 0, sizeof *j);
    tt_writer_init(&j->w, j->packed, sizeof j->packed);
}

static void add_rank(struct job *j, const void *place, uint8_t bytes)
{
    j->place_bytes[j->nranks] = bytes;
    if (bytes)
        memcpy(j->places[j->nranks], place, bytes);
    j->nranks++;
}

/* Adds a run of the last `count` ranks, with or without their places. */
static void add_run(struct job *j, uint32_t host, uint32_t count, bool places)
{
    struct tt_tree_run *run = &j->runs[j->nruns++];
    struct tt_record_stream out = { .n = 0 };

    *run = (struct tt_tree_run){ .first = j->nranks - count, .count = count, .host = host };
    if (!places)
        return;
    run->places = j->w.at;
    for (uint32_t r = run->first; r < j->nranks; r++)
        tt_record_write(&out, &j->w, 0, j->places[r], j->place_bytes[r]);
    assert_false(j->w.bad);
    run->places_bytes = (size_t)(j->w.at - run->places);
}

/* Encodes the layout, and compares each rank's host and place. Returns the layout. */
static uint8_t *encode(const struct job *j, size_t *bytes)
{
    uint32_t index[RANKS_MAX] = { 0 }, nhosts = 0;
    uint8_t *layout = tt_tree_encode_layout(j->runs, j->nruns, j->nranks, bytes);
    struct tt_tree_walk w;

    assert_non_null(layout);
    assert_true(tt_tree_layout_is_valid(layout, *bytes, j->nranks));
    assert_false(tt_tree_layout_is_valid(layout, *bytes, j->nranks + 1));
    assert_false(tt_tree_layout_is_valid(layout, *bytes, j->nranks - 1));
    assert_int_equal(tt_tree_walk_init(&w, layout, *bytes), TUTTI_OK);
    for (uint32_t i = 0; i < j->nruns; i++)
        for (uint32_t r = j->runs[i].first; r < j->runs[i].first + j->runs[i].count; r++) {
            const uint8_t *place;
            uint8_t n;
            const uint32_t host = tt_tree_walk_next(&w, &place, &n);

            if (!index[j->runs[i].host])
                index[j->runs[i].host] = ++nhosts;
            assert_int_equal(host, index[j->runs[i].host] - 1);
            assert_int_equal(n, j->place_bytes[r]);
            if (n)
                assert_memory_equal(place, j->places[r], n);
        }
    tt_tree_walk_fini(&w);
    return layout;
}

static uint32_t nsequences(const uint8_t *layout, size_t bytes)
{
    struct tt_tree_layout l;

    tt_tree_layout_open(&l, layout, bytes);
    return l.nsequences;
}

static void equal_hosts_share_a_sequence(void **state)
{
    size_t bytes, more;
    struct job j;

    (void)state;
    job_begin(&j);
    for (uint32_t host = 0; host < 16; host++) {
        for (uint8_t i = 0; i < 4; i++)
            add_rank(&j, &i, 1);
        add_run(&j, 3 * host, 4, true);
        if (host == 0)
            free(encode(&j, &bytes));
    }
    {
        uint8_t *layout = encode(&j, &more);

        assert_int_equal(nsequences(layout, more), 1);
        assert_int_equal(more, bytes);      /* only the number of hosts differs */
        free(layout);
    }
}

/* Consecutive runs of one host form one sequence with the places of both, also if one run has no
 * places. */
static void runs_of_a_host_have_one_sequence(void **state)
{
    uint8_t *layout;
    size_t bytes;
    struct job j;

    (void)state;
    job_begin(&j);
    add_rank(&j, "ab", 2);
    add_run(&j, 4, 1, true);
    add_rank(&j, NULL, 0);
    add_run(&j, 4, 1, false);
    add_rank(&j, "abc", 3);
    add_run(&j, 2, 1, true);
    add_rank(&j, "ab", 2);
    add_rank(&j, NULL, 0);
    add_run(&j, 4, 2, true);
    layout = encode(&j, &bytes);
    assert_int_equal(nsequences(layout, bytes), 2);
    free(layout);
}

static void layout_without_places_has_no_sequences(void **state)
{
    uint8_t *layout;
    size_t bytes;
    struct job j;

    (void)state;
    job_begin(&j);
    for (uint32_t host = 0; host < 8; host++) {
        add_rank(&j, NULL, 0);
        add_rank(&j, NULL, 0);
        add_run(&j, host, 2, false);
    }
    layout = encode(&j, &bytes);
    assert_int_equal(nsequences(layout, bytes), 0);
    assert_int_equal(bytes, TT_TREE_LAYOUT_HEAD_BYTES + 3);
    free(layout);
}

static void draw_job(struct job *j, struct tt_prng *prng)
{
    const uint32_t nranks = 1 + (uint32_t)tt_prng_below(prng, RANKS_MAX);
    const uint64_t nhosts = 1 + tt_prng_below(prng, nranks), kinds = 1 + tt_prng_below(prng, 5);

    job_begin(j);
    while (j->nranks < nranks) {
        const uint32_t left = nranks - j->nranks,
                       count = 1 + (uint32_t)tt_prng_below(prng, left < 5 ? left : 5);

        for (uint32_t i = 0; i < count; i++) {
            const uint64_t kind = tt_prng_below(prng, kinds);
            uint8_t place[TT_TREE_PLACE_MAX];

            memset(place, (int)kind, sizeof place);
            add_rank(j, place, (uint8_t)(kind * 60));
        }
        add_run(j, (uint32_t)tt_prng_below(prng, nhosts), count, true);
    }
}

/* If any byte is changed, the layout is invalid, or all ranks can still be read. */
static void walk_if_valid(const uint8_t *layout, size_t bytes, uint32_t nranks)
{
    struct tt_tree_walk w;

    if (!tt_tree_layout_is_valid(layout, bytes, nranks))
        return;
    assert_int_equal(tt_tree_walk_init(&w, layout, bytes), TUTTI_OK);
    for (uint32_t r = 0; r < nranks; r++) {
        const uint8_t *place;
        uint8_t n;

        assert_true(tt_tree_walk_next(&w, &place, &n) < nranks);
        assert_true(n <= TT_TREE_PLACE_MAX);
    }
    tt_tree_walk_fini(&w);
}

static void any_job_is_encoded_and_any_layout_is_read(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, 300));) {
        struct tt_prng prng;
        uint8_t *layout;
        struct job j;
        size_t bytes;

        tt_prng_init(&prng, seed);
        draw_job(&j, &prng);
        print_message("seed %llu, %u ranks\n", (unsigned long long)seed, j.nranks);
        layout = encode(&j, &bytes);
        for (size_t cut = 0; cut < bytes; cut++)
            walk_if_valid(layout, cut, j.nranks);
        for (int i = 0; i < 200; i++) {
            uint8_t *at = &layout[tt_prng_below(&prng, bytes)];
            const uint8_t before = *at;

            *at = (uint8_t)tt_prng_u64(&prng);
            walk_if_valid(layout, bytes, j.nranks);
            *at = before;
        }
        free(layout);
    }
}

struct invalid {
    const char *what;
    size_t bytes;
    const uint8_t layout[64];
};

/* All layouts are for 2 ranks. A place: flags (2: its size follows; 4: its bytes follow), size,
 * bytes. */
static void invalid_layouts_are_refused(void **state)
{
    static const struct invalid cases[] = {
        { "too short for its head", 7, { 0 } },
        { "no groups", 8, { 0 } },
        { "host 1 first", 11, { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2 } },
        { "no hosts", 11, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2 } },
        { "no ranks", 11, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0 } },
        { "places without a sequence", 12, { 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2 } },
        { "more sequences than bytes", 11, { 255, 255, 255, 255, 0, 0, 0, 0, 0, 1, 0 } },
        { "an empty sequence", 15, { 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0 } },
        { "no such sequence",
          23,
          { 1, 0, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0, 6, 1, 0, 'a', 6, 1, 0, 'b', 0, 1, 1 } },
        { "more places than ranks",
          27,
          { 1, 0, 0, 0, 12,  0, 0, 0, 3,   0, 0, 0, 6,  1,
            0, 'a', 6, 1, 0, 'b', 6, 1, 0, 'c', 0, 1, 0 } },
        { "fewer places than the sequence has",
          19,
          { 1, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 6, 1, 0, 'a', 0, 1, 0 } },
        { "more bytes than places",
          24,
          { 1, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 6, 1, 0, 'a', 6, 1, 0, 'b', 0, 0, 1, 0 } },
    };
    static const uint8_t valid[] = { 1, 0, 0, 0,   8, 0, 0, 0,   2, 0, 0, 0,
                                     6, 1, 0, 'a', 6, 1, 0, 'b', 0, 1, 0 };
    uint8_t large[8 + 4 + 3 + TT_TREE_PLACE_MAX + 1 + 3] = {
        1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 6
    };

    (void)state;
    assert_true(tt_tree_layout_is_valid(valid, sizeof valid, 2));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("%s\n", cases[i].what);
        assert_false(tt_tree_layout_is_valid(cases[i].layout, cases[i].bytes, 2));
    }
    large[4] = 3 + TT_TREE_PLACE_MAX;
    large[13] = TT_TREE_PLACE_MAX;
    large[sizeof large - 4 + 1] = 2;
    assert_true(tt_tree_layout_is_valid(large, sizeof large - 1, 2));
    large[4]++;
    large[13]++;
    large[sizeof large - 4 + 1] = 0;
    large[sizeof large - 4 + 2] = 2;
    assert_false(tt_tree_layout_is_valid(large, sizeof large, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_hosts_share_a_sequence),
        cmocka_unit_test(runs_of_a_host_have_one_sequence),
        cmocka_unit_test(layout_without_places_has_no_sequences),
        cmocka_unit_test(any_job_is_encoded_and_any_layout_is_read),
        cmocka_unit_test(invalid_layouts_are_refused),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
