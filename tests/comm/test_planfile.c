/* Plans read from JSON: the example is read, verified and run at several sizes; invalid documents
 * are refused with the location; invalid plans are refused with the verifier's result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algos.h"
#include "base/prng.h"
#include "base/status.h"
#include "comm/planfile.h"
#include "comm/plugin_trampolines.h"
#include "support/sim.h"
#include "support/unit.h"

#define RANKS 4u
#define TEXT_BYTES 16384

static char example[TEXT_BYTES];

static int read_example(void **state)
{
    const char *dir = getenv("TUTTI_SOURCE_DIR");
    char path[4096];
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s/examples/plugin/allgather_sockets4.json", dir ? dir : ".");
    f = fopen(path, "r");
    if (!f)
        return -1;
    example[fread(example, 1, sizeof example - 1, f)] = 0;
    fclose(f);
    return 0;
}

static tutti_status take(const char *text)
{
    struct tt_plan_file *p;
    tutti_status st = tt_plan_file_read(&p, text, strlen(text), "here");

    if (st)
        return st;
    st = tt_plan_file_add(p, "here");
    if (st)
        tt_plan_file_free(p);
    return st;
}

/* Returns the example with the first `from` after `after` replaced by `to`. */
static const char *altered(const char *after, const char *from, const char *to)
{
    static char text[TEXT_BYTES + 256];
    const char *at = strstr(example, after);

    assert_non_null(at);
    at = strstr(at, from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - example), example, to, at + strlen(from));
    return text;
}

static void run(const struct tt_algo *algo, uint64_t block, bool in_place, uint64_t seed)
{
    struct tt_coll coll[RANKS];
    uint8_t *all[RANKS], *expected = malloc(RANKS * block + 1);
    void *src[RANKS], *dst[RANKS];
    struct tt_sim_result result;
    struct tt_prng p;
    char why[256] = "";

    tt_prng_init(&p, seed);
    for (uint64_t i = 0; i < RANKS * block; i++)
        expected[i] = (uint8_t)tt_prng_u64(&p);
    for (uint32_t r = 0; r < RANKS; r++) {
        coll[r] = (struct tt_coll){
            .kind = TT_ALLGATHER,
            .rank = r,
            .nranks = RANKS,
            .elem_bytes = 4,
            .bytes = block,
            .in_place = in_place,
        };
        all[r] = calloc(1, (RANKS + 1) * block + 1);
        dst[r] = all[r];
        src[r] = all[r] + (in_place ? r : RANKS) * block;
        memcpy(src[r], expected + r * block, block);
    }
    const struct tt_sim_conf conf = {
        .algo = algo,
        .coll = coll,
        .nranks = RANKS,
        .segment_bytes = 64,
        .eager_bytes = 32,
        .streams = 2,
        .depth = 2,
        .seed = seed,
        .latency_ns = 1000,
        .jitter_ns = 5000,
        .byte_ns = 1,
        .direct = seed % 2,
        .mapped = seed / 2 % 2,
    };
    assert_true(algo->fits(&coll[0]));
    if (tt_sim_run(&conf, src, dst, &result, why, sizeof why))
        fail_msg("%s (seed %llu)", why, (unsigned long long)seed);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_memory_equal(dst[r], expected, RANKS * block);
        free(all[r]);
    }
    free(expected);
}

static void example_gathers_at_every_size(void **state)
{
    static const uint64_t blocks[] = { 0, 4, 28, 1000, 4096 };
    const struct tt_coll five = { .kind = TT_ALLGATHER, .nranks = 5, .elem_bytes = 4, .bytes = 64 };
    const size_t nalgos = tt_nalgos;

    (void)state;
    if (take(example))
        fail_msg("%s", tutti_last_error());
    assert_null(tt_algo_find(&five, "sockets4"));
    assert_non_null(strstr(tt_algo_named(TT_ALLGATHER, "sockets4")->needs, "4 ranks"));
    for (uint32_t i = 0; i < 5 * 2 * 4; i++)
        run(tt_algo_named(TT_ALLGATHER, "sockets4"), blocks[i % 5], i / 5 % 2, i / 10);
    tt_algo_remove_from(nalgos);
    tt_trampolines_free(0);
}

static void plan_fits_only_multiples_of_bytes(void **state)
{
    static const char plan[] = "{\"format\":\"tutti-plan-1\",\"name\":\"broadcast_one\",\"coll\":"
                               "\"broadcast\",\"nranks\":1,\"bytes\":12,\"elem_bytes\":4,"
                               "\"ranks\":[{\"rank\":0,\"rounds\":[[{\"op\":\"copy\",\"bytes\":12,"
                               "\"from\":{\"buf\":\"SRC\",\"offset\":0},"
                               "\"to\":{\"buf\":\"DST\",\"offset\":0}}]]}]}";
    struct tt_coll c = { .kind = TT_BROADCAST, .nranks = 1, .elem_bytes = 4, .bytes = 24 };
    const size_t nalgos = tt_nalgos;

    (void)state;
    if (take(plan))
        fail_msg("%s", tutti_last_error());
    assert_non_null(tt_algo_find(&c, "one"));
    c.bytes = 20;
    assert_null(tt_algo_find(&c, "one"));
    c.bytes = 24;
    c.elem_bytes = 8;
    assert_non_null(tt_algo_find(&c, "one"));
    c.bytes = 12;
    assert_null(tt_algo_find(&c, "one"));
    tt_algo_remove_from(nalgos);
    tt_trampolines_free(0);
}

struct wrong {
    const char *after, *from, *to, *said;
};

static void invalid_documents_name_file_and_line(void **state)
{
    static const struct wrong cases[] = {
        { "", "tutti-plan-1", "tutti-plan-2", "here:2: \"format\" must be" },
        { "", "\"coll\": \"allgather\"", "\"coll\": \"allgatherv\"",
          "here:2: \"coll\" must be a collective" },
        { "", "allgather_sockets4", "broadcast_x", "here:2: \"name\" must be \"allgather_\"" },
        { "", "allgather_sockets4", "allgather_ring",
          "here: duplicate name of algorithm \"allgather_ring\"" },
        { "", "\"nranks\": 4", "\"nranks\": 5", "here:3: \"ranks\" must be an array of 5 ranks" },
        { "", "\"nranks\": 4", "\"nranks\": 4000000000",
          "here:2: \"nranks\" must be a whole number from 0 to 1024" },
        { "", "\"bytes\": 1", "\"bytes\": 1, \"bytes\": 2", "here:2: duplicate key \"bytes\"" },
        { "", "\"bytes\": 1", "\"bytes\": -1", "here:2: \"bytes\" must be a whole number" },
        { "", "\"bytes\": 1", "\"bytes\": 0.5", "here:2: \"bytes\" must be a whole number" },
        { "", "\"bytes\": 1", "\"bytes\": 0",
          "here:2: \"bytes\" must be a positive multiple of \"elem_bytes\"" },
        { "", "\"bytes\": 1", "\"bytes\": 1, \"colour\": 3",
          "here:2: the plan has an unknown member \"colour\"" },
        { "\"rank\": 2", "\"op\": \"put\"", "\"op\": \"push\"",
          "here:21: ranks[2].rounds[0][0]: \"op\" must be" },
        { "\"rank\": 2", "\"peer\": 3", "\"peer\": 4", "here:21: ranks[2].rounds[0][0]: \"peer\"" },
        { "\"rank\": 2", "\"peer\": 3", "\"peer\": 2",
          "here:21: ranks[2].rounds[0][0]: \"peer\" is the rank itself" },
        { "\"rank\": 3", "\"SRC\"", "\"HEAP\"",
          "here:29: ranks[3].rounds[0][0]: \"from\" has an invalid buffer" },
        { "\"rank\": 3", "\"offset\": 0", "\"offset\": 0, \"block\": 2, \"stride\": 1",
          "here:29: ranks[3].rounds[0][0]: \"from\" has an invalid block of 2 bytes with stride "
          "1" },
        { "\"rank\": 3", "\"op\": \"wait\"", "\"op\": \"wait\", \"from\": 1",
          "here:30: ranks[3].rounds[0][1]: the step has an unknown member \"from\"" },
        { "\"rank\": 1", "\"rank\": 1", "\"rank\": 2",
          "here:12: ranks[1]: invalid \"rank\" 2: ranks must be in ascending order" },
        { "", "]\n}", "]", "here:37:1: invalid JSON: unexpected end" },
        { "", "]\n}", "]\n} x", "here:37:3: invalid JSON" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct wrong *w = &cases[i];

        if (take(altered(w->after, w->from, w->to)) == TUTTI_OK ||
            !strstr(tutti_last_error(), w->said))
            fail_msg("%s instead of %s: %s", w->to, w->from, tutti_last_error());
        assert_int_equal(tt_trampolines_used(), 0);
    }
}

static void invalid_plans_are_refused_with_finding(void **state)
{
    static const struct wrong cases[] = {
        { "\"rank\": 2", "\"offset\": 2", "\"offset\": 1", "another destination" },
        { "\"rank\": 0", "\"tag\": 2", "\"tag\": 5", "tag" },
        { "\"rank\": 1", "\"offset\": 3", "\"offset\": 9", "out of bounds" },
        { "\"rank\": 0", "\"op\": \"copy\", \"bytes\": 1", "\"op\": \"copy\", \"bytes\": 0",
          "rank 0" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct wrong *w = &cases[i];

        if (take(altered(w->after, w->from, w->to)) != TUTTI_ERR_INVALID ||
            !strstr(tutti_last_error(), w->said) ||
            !strstr(tutti_last_error(), "plan here is invalid: "))
            fail_msg("%s instead of %s: %s", w->to, w->from, tutti_last_error());
        assert_int_equal(tt_trampolines_used(), 0);
    }
}

/* 2^32 pieces of a byte: overflows a 32-bit counter to 0. */
static void plan_with_excessive_pieces_is_refused(void **state)
{
    (void)state;
    assert_int_equal(
        take(
            "{\"format\":\"tutti-plan-1\",\"name\":\"allgather_big\",\"coll\":\"allgather\","
            "\"nranks\":1,"
            "\"elem_bytes\":1,\"bytes\":4294967298,\"ranks\":[{\"rank\":0,\"rounds\":[[{\"op\":"
            "\"copy\","
            "\"bytes\":4294967298,\"from\":{\"buf\":\"SRC\",\"offset\":0,\"block\":1,\"stride\":1},"
            "\"to\":{\"buf\":\"DST\",\"offset\":0}}]]}]}"),
        TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "too many pieces"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_gathers_at_every_size),
        cmocka_unit_test(plan_fits_only_multiples_of_bytes),
        cmocka_unit_test(invalid_documents_name_file_and_line),
        cmocka_unit_test(invalid_plans_are_refused_with_finding),
        cmocka_unit_test(plan_with_excessive_pieces_is_refused),
    };

    return cmocka_run_group_tests(tests, read_example, NULL);
}
