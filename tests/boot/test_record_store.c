/* Records are read as they were added, in any order, from the store's memory or from a table. */
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/prng.h"
#include "boot/record_store.h"
#include "support/unit.h"

#define RANKS 200u
#define SEEDS 100

static struct tt_record_entry all[RANKS];

/* Makes a record that may be similar to the previous rank's, and of the same size. */
static void draw_record(struct tt_prng *prng, uint32_t rank)
{
    struct tt_record_entry *e = &all[rank];
    const uint64_t kind = tt_prng_below(prng, 8);

    *e = all[rank ? rank - 1 : 0];
    e->holder = (uint32_t)tt_prng_below(prng, RANKS);
    if (kind == 0 || rank == 0)
        e->bytes = (uint16_t)tt_prng_below(prng, TT_TREE_CARD_MAX + 1);
    for (size_t i = 0; kind == 1 && i < e->bytes; i++)
        e->record[i] = (uint8_t)tt_prng_u64(prng);
    for (uint64_t n = tt_prng_below(prng, 20); kind > 1 && e->bytes > 0 && n > 0; n--)
        e->record[tt_prng_below(prng, e->bytes)] = (uint8_t)tt_prng_u64(prng);
    memset(e->record + e->bytes, 0, sizeof e->record - e->bytes);
}

static void check_rank(struct tt_record_store *s, uint32_t rank)
{
    const struct tt_record_entry *e = tt_record_store_get(s, rank);

    assert_non_null(e);
    assert_int_equal(e->holder, all[rank].holder);
    assert_int_equal(e->bytes, all[rank].bytes);
    assert_memory_equal(e->record, all[rank].record, sizeof e->record);
}

/* Reads all records backwards, in order and at random. */
static void check_store(struct tt_record_store *s, struct tt_prng *prng, uint32_t n)
{
    for (uint32_t rank = n; rank-- > 0;)
        check_rank(s, rank);
    for (uint32_t rank = 0; rank < n; rank++)
        check_rank(s, rank);
    for (uint32_t i = 0; n > 0 && i < 2 * RANKS; i++)
        check_rank(s, (uint32_t)tt_prng_below(prng, n));
    assert_null(tt_record_store_get(s, n));
}

/* Reads the records from a mapping of the packed bytes, as from another rank's memory file. */
static void check_mapping(const struct tt_record_store *s, struct tt_prng *prng)
{
    struct tt_record_store other;
    void *mapping = mmap(NULL, s->used, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(mapping, MAP_FAILED);
    memcpy(mapping, s->bytes, s->used);
    assert_int_equal(mprotect(mapping, s->used, PROT_READ), 0);
    assert_int_equal(tt_record_store_use(&other, RANKS, mapping, s->used, true), TUTTI_OK);
    check_store(&other, prng, RANKS);
    assert_true(tt_record_store_bytes(&other, 8) <=
                s->used / 8 + 4 * (RANKS / TT_RECORD_GROUP + 1));
    tt_record_store_fini(&other);
}

static void records_are_read_as_added(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct tt_record_store s;
        struct tt_prng prng;
        uint32_t half;

        if (!unit_draw())
            continue;
        tt_prng_init(&prng, seed);
        half = (uint32_t)tt_prng_below(&prng, RANKS);
        assert_int_equal(tt_record_store_init(&s, RANKS), TUTTI_OK);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            if (rank == half)
                check_store(&s, &prng, half);
            draw_record(&prng, rank);
            assert_int_equal(
                tt_record_store_add(&s, all[rank].holder, all[rank].record, all[rank].bytes),
                TUTTI_OK);
        }
        tt_record_store_settle(&s);
        check_store(&s, &prng, RANKS);
        check_mapping(&s, &prng);
        tt_record_store_fini(&s);
    }
}

/* 1,024 hosts, whose records differ in a hash, an address and a port at several offsets. */
static void similar_records_take_little_memory(void **state)
{
    struct tt_record_store s;
    struct tt_prng prng;
    uint8_t record[150];

    (void)state;
    tt_prng_init(&prng, 1);
    for (size_t i = 0; i < sizeof record; i++)
        record[i] = (uint8_t)tt_prng_u64(&prng);
    assert_int_equal(tt_record_store_init(&s, 1024), TUTTI_OK);
    for (uint32_t rank = 0; rank < 1024; rank++) {
        for (size_t i = 0; i < sizeof record; i++)
            if (i < 8 || i == 60 || i == 61 || (i >= 64 && i < 68))
                record[i] = (uint8_t)tt_prng_u64(&prng);
        assert_int_equal(tt_record_store_add(&s, 0, record, sizeof record), TUTTI_OK);
    }
    tt_record_store_settle(&s);
    assert_true(tt_record_store_bytes(&s, 1) <= 1024 * 32);
    tt_record_store_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_read_as_added),
        cmocka_unit_test(similar_records_take_little_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
