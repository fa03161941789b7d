/* Tune files: what is written is read again; errors are refused with the line; the nearest size
 * whose algorithm supports the call is used, and nothing for other placements of ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algos.h"
#include "base/log.h"
#include "comm/tunefile.h"
#include "support/unit.h"

#define HEAD_OF(host, wires, ranks, hosts)                               \
    "{\n\"format\": \"tutti-tune-1\",\n\"tutti\": \"0.1.0\", \"date\": \"2026-11-21\", \"host\": \"" host \
    "\",\n"                                                              \
    "\"wires\": \"" wires "\", \"ranks\": " ranks ", \"hosts\": [" hosts \
    "], \"complete\": true,\n"
#define HEAD HEAD_OF("lab", "shm", "4", "0, 0, 1, 1")
#define ROW_OF(coll, bytes, algo, segment, streams, depth, median, more) \
    "{\"coll\": \"" coll "\", \"bytes\": " bytes ", \"algo\": \"" algo   \
    "\", \"segment_bytes\": " segment ", \"streams\": " streams ", "     \
    "\"depth\": " depth ", \"median_us\": " median                       \
    ", \"min_us\": 5, \"max_us\": 6.25, \"rounds\": 5" more "}"
#define ROW(coll, bytes, algo, more) ROW_OF(coll, bytes, algo, "16384", "2", "4", "5.5", more)

static const struct tt_segment_limits limits = { .segment_bytes = 65536,
                                                 .eager_bytes = 4096,
                                                 .all_local = true };

static struct tt_tunefile *read_text(const char *text)
{
    struct tt_tunefile *f;

    if (tt_tunefile_read(&f, text, strlen(text), "here.json"))
        fail_msg("%s", tutti_last_error());
    return f;
}

static const char example[] = HEAD
    "\"rows\": [\n" ROW("allreduce", "65536", "allreduce_ring", ", \"untuned\": true") ",\n" ROW(
        "allreduce", "1024", "allreduce_onestep",
        ", \"lanes\": 3") ",\n" ROW("reduce", "65536", "reduce_binomial",
                                    "") ",\n" ROW("reduce", "65536", "chain",
                                                  ", \"dropped\": true") "\n]}\n";

static void file_is_read_as_written(void **state)
{
    struct tt_tunefile *f = read_text(example), *again;
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    (void)state;
    assert_non_null(to);
    assert_int_equal(tt_tunefile_write(f, to, "memory"), TUTTI_OK);
    fclose(to);
    again = read_text(text);
    assert_int_equal(again->nrows, 4);
    assert_string_equal(again->host, "lab");
    assert_memory_equal(again->host_of, ((uint32_t[]){ 0, 0, 1, 1 }), 4 * sizeof(uint32_t));
    for (uint32_t i = 0; i < 4; i++) {
        const struct tt_tune_row *a = &f->row[i], *b = &again->row[i];

        assert_string_equal(a->name, b->name);
        assert_ptr_equal(a->algo, b->algo);
        assert_non_null(a->algo);
        assert_int_equal(a->bytes, b->bytes);
        assert_int_equal(a->segments.segment_bytes, b->segments.segment_bytes);
        assert_int_equal(a->segments.lanes, a->bytes == 1024 ? 3 : 0);
        assert_int_equal(a->segments.lanes, b->segments.lanes);
        assert_int_equal(a->untuned, b->untuned);
        assert_int_equal(a->dropped, b->dropped);
        assert_true(a->median_us == b->median_us && a->min_us == b->min_us &&
                    a->max_us == b->max_us);
    }
    tt_tunefile_free(f);
    tt_tunefile_free(again);
    free(text);
}

static void errors_are_refused_with_their_line(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        { "", "invalid JSON" },
        { "{\n\n\"format\": tutti}", "here.json:3:" },
        { "{\n\"rows\": [", "unexpected end" },
        { "[]", "the document must be an object" },
        { "{\"format\": \"tutti-tune-9\"}", "\"format\" must be \"tutti-tune-1\"" },
        { "{\"formats\": 1}", "member \"formats\"" },
        { HEAD "\"rows\": [\n" ROW("allreduce", "8", "ring", ", \"depth\": 4") "]}",
          "here.json:6: duplicate key \"depth\"" },
        { HEAD "\"rows\": 7}", "\"rows\" must be an array" },
        { HEAD "\"rows\": [7]}", "a row must be an object" },
        { HEAD "\"rows\": [" ROW("allreduce", "64", "allreduce_ring",
                                 "") ",\n\n" ROW("alltoallv", "64", "alltoallv_direct", "") "]}",
          "here.json:7: rows[1]: \"coll\" is \"alltoallv\"" },
        { HEAD "\"rows\": [\n" ROW("allreduce", "0", "allreduce_ring", "") "]}",
          "here.json:6: rows[0]: \"bytes\"" },
        { HEAD "\"rows\": [\n" ROW("allreduce", "-5", "allreduce_ring", "") "]}",
          "here.json:6: rows[0]: \"bytes\"" },
        { HEAD "\"rows\": [\n" ROW("allreduce", "8", "", "") "]}",
          "here.json:6: rows[0]: \"algo\"" },
        { HEAD "\"rows\": [\n" ROW("allreduce", "8", "ring", ", \"fast\": 1") "]}",
          "member \"fast\"" },
        { HEAD "\"rows\": [\n" ROW("allreduce", "8", "ring", ", \"untuned\": 1") "]}",
          "must be true or false" },
        { HEAD "\"rows\": [\n" ROW_OF("allreduce", "8", "ring", "10000", "2", "4", "5.5", "") "]}",
          "must be a power of two" },
        { HEAD "\"rows\": [\n" ROW_OF("allreduce", "8", "ring", "16384", "5", "4", "5.5", "") "]}",
          "\"streams\"" },
        { HEAD "\"rows\": [\n" ROW_OF("allreduce", "8", "ring", "16384", "2", "0", "5.5", "") "]}",
          "\"depth\"" },
        { HEAD "\"rows\": [\n" ROW("allreduce", "8", "ring", ", \"lanes\": 0") "]}", "\"lanes\"" },
        { HEAD
          "\"rows\": [\n" ROW_OF("allreduce", "8", "ring", "16384", "2", "4", "\"fast\"", "") "]}",
          "\"median_us\" must be a time" },
        { HEAD_OF("lab", "shm", "4", "0, 0, 2, 1") "\"rows\": []}", "\"hosts\"[2]" },
        { HEAD_OF("lab", "shm", "4", "0, 0, 0") "\"rows\": []}", "4 host numbers" },
        { HEAD_OF("lab", "shm", "1", "0") "\"rows\": []}",
          "\"ranks\" must be a whole number from 2" },
        { HEAD_OF("lab", "string", "4", "0, 0, 1, 1") "\"rows\": []}", "\"wires\"" },
        { HEAD_OF("a\\nb", "shm", "4", "0, 0, 1, 1") "\"rows\": []}",
          "\"host\" contains unprintable characters" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_tunefile *f = NULL;

        if (tt_tunefile_read(&f, cases[i].text, strlen(cases[i].text), "here.json") !=
            TUTTI_ERR_INVALID)
            fail_msg("case %zu was not refused", i);
        assert_null(f);
        if (!strstr(tutti_last_error(), cases[i].said) || !strstr(tutti_last_error(), "here.json"))
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, tutti_last_error(), cases[i].said);
    }
}

static const char *found(const struct tt_tunefile *f, enum tt_coll_kind kind, uint32_t nranks,
                         uint64_t bytes)
{
    const struct tt_coll c = { .kind = kind, .nranks = nranks, .elem_bytes = 4, .bytes = bytes };
    struct tt_tuned choice;

    return tt_tunefile_find(f, &c, &limits, &choice) ? choice.algo->name : "nothing";
}

static void nearest_size_applies_beyond_the_ends(void **state)
{
    struct tt_tunefile *f = read_text(example);
    static const struct {
        uint64_t bytes;
        const char *algo;
    } cases[] = {
        { 0, "allreduce_onestep" },
        { 4, "allreduce_onestep" },
        { 1024, "allreduce_onestep" },
        /* the middle: the smaller size */
        { 8188, "allreduce_onestep" },
        { 8192, "allreduce_onestep" },
        { 8196, "allreduce_ring" },
        { 65536, "allreduce_ring" },
        { 1ull << 40, "allreduce_ring" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(found(f, TT_ALLREDUCE, 4, cases[i].bytes), cases[i].algo) != 0)
            fail_msg("%llu bytes: %s", (unsigned long long)cases[i].bytes,
                     found(f, TT_ALLREDUCE, 4, cases[i].bytes));
    assert_string_equal(found(f, TT_BROADCAST, 4, 8), "nothing");
    assert_string_equal(found(NULL, TT_ALLREDUCE, 4, 8), "nothing");
    tt_tunefile_free(f);
}

static void unsupported_algorithm_is_skipped(void **state)
{
    static const char strangers[] =
        HEAD "\"rows\": [" ROW("allgather", "8", "allgather_nowhere", "") "," ROW(
            "allgather", "8", "ring", "") "," ROW("allgather", "4096", "nowhere", "") "]}";
    const struct tt_coll longer = {
        .kind = TT_REDUCE, .nranks = 4, .elem_bytes = 4, .bytes = 1 << 20
    };
    struct tt_tunefile *f = read_text(example);

    (void)state;
    /* otherwise this test is meaningless */
    assert_false(tt_algo_named(TT_REDUCE, "binomial")->fits(&longer));
    assert_string_equal(found(f, TT_REDUCE, 4, 1 << 16), "reduce_binomial");
    assert_string_equal(found(f, TT_REDUCE, 4, 1 << 20), "reduce_chain");
    tt_tunefile_free(f);
    f = read_text(strangers);
    assert_string_equal(found(f, TT_ALLGATHER, 4, 8), "allgather_ring");
    assert_string_equal(found(f, TT_ALLGATHER, 4, 4096), "nothing");
    tt_tunefile_free(f);
}

static void segments_are_at_least_eager_size(void **state)
{
    const struct tt_segment_limits eager = { .segment_bytes = 65536, .eager_bytes = 32768 };
    const struct tt_coll c = {
        .kind = TT_ALLREDUCE, .nranks = 4, .elem_bytes = 4, .bytes = 1 << 20
    };
    struct tt_tunefile *f = read_text(example);
    struct tt_tuned choice;

    (void)state;
    assert_true(tt_tunefile_find(f, &c, &limits, &choice));
    assert_int_equal(choice.segments.segment_bytes, 16384);
    assert_int_equal(choice.segments.streams, 2);
    assert_ptr_equal(choice.row->algo, choice.algo);
    assert_true(tt_tunefile_find(f, &c, &eager, &choice));
    assert_int_equal(choice.segments.segment_bytes, 32768);
    tt_tunefile_free(f);
}

static void file_needs_same_placement_and_transports(void **state)
{
    struct tt_tunefile *f = read_text(example);
    struct tt_layout layout;
    char why[160] = "";

    (void)state;
    tt_layout_regular(&layout, 4, 2, 1, 1, TT_NODE_MESH);
    assert_true(tt_tunefile_is_for(f, &layout, "shm", why, sizeof why));
    assert_false(tt_tunefile_is_for(f, &layout, "tcp", why, sizeof why));
    assert_non_null(strstr(why, "over shm, not tcp"));
    tt_layout_regular(&layout, 4, 4, 1, 1, TT_NODE_MESH);
    assert_false(tt_tunefile_is_for(f, &layout, "shm", why, sizeof why));
    assert_non_null(strstr(why, "rank 2 on host 1"));
    tt_layout_regular(&layout, 6, 2, 1, 1, TT_NODE_MESH);
    assert_false(tt_tunefile_is_for(f, &layout, "shm", why, sizeof why));
    assert_non_null(strstr(why, "4 ranks, not 6"));
    tt_tunefile_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_is_read_as_written),
        cmocka_unit_test(errors_are_refused_with_their_line),
        cmocka_unit_test(nearest_size_applies_beyond_the_ends),
        cmocka_unit_test(unsupported_algorithm_is_skipped),
        cmocka_unit_test(segments_are_at_least_eager_size),
        cmocka_unit_test(file_needs_same_placement_and_transports),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
