/* Data of some ranks: a table that stores only these, and a slab for small objects. */
#include "support/unit.h"

#include <string.h>
#include "base/prng.h"
#include "base/slab.h"
#include "base/sparse.h"

#define RANKS 500u
#define STEPS 2000

static void table_holds_only_set_entries(void **state)
{
    static char things[RANKS];
    bool set[RANKS] = { false };
    struct tt_sparse s = { .n = 0 };
    struct tt_prng prng;
    uint32_t n = 0, nmax = 0;

    (void)state;
    tt_prng_init(&prng, 1);
    for (int step = 0; step < STEPS; step++) {
        const uint32_t rank = (uint32_t)tt_prng_below(&prng, RANKS);
        uint32_t at = 0, found = 0;
        char *what;

        if (step % 4 == 0) {
            assert_true(tt_sparse_set(&s, rank * 131072, &things[rank]));
            n += !set[rank];
            set[rank] = true;
            nmax = n > nmax ? n : nmax;
        }
        if (step % 7 == 0) {
            tt_sparse_remove(&s, rank * 131072);
            n -= set[rank];
            set[rank] = false;
        }
        assert_ptr_equal(tt_sparse_get(&s, rank * 131072), set[rank] ? &things[rank] : NULL);
        assert_null(tt_sparse_get(&s, rank * 131072 + 1));
        if (step % 100)
            continue;
        while ((what = tt_sparse_next(&s, &at))) {
            assert_true(set[what - things]);
            found++;
        }
        assert_int_equal(found, n);
        assert_true(tt_sparse_bytes(&s) <= 16 + 4 * nmax * sizeof(struct tt_sparse_slot) +
                                               8 * sizeof(struct tt_sparse_slot));
    }
    tt_sparse_fini(&s);
    assert_null(tt_sparse_get(&s, 0));
    assert_int_equal(tt_sparse_bytes(&s), 0);
}

static void objects_share_pages_without_overlap(void **state)
{
    struct tt_slab s = { .bytes = 100 };
    uint8_t *things[200];

    (void)state;
    for (int i = 0; i < 200; i++) {
        things[i] = tt_slab_take(&s);
        assert_non_null(things[i]);
        assert_int_equal((uintptr_t)things[i] % _Alignof(max_align_t), 0);
        for (int k = 0; k < 100; k++)
            assert_int_equal(things[i][k], 0);
        memset(things[i], i, 100);
    }
    for (int i = 0; i < 200; i++)
        for (int k = 0; k < 100; k++)
            assert_int_equal(things[i][k], (uint8_t)i);
    assert_true(s.npages <= 200 * 112 / TT_SLAB_PAGE_BYTES + 1);
    tt_slab_fini(&s);
    assert_int_equal(s.npages, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_holds_only_set_entries),
        cmocka_unit_test(objects_share_pages_without_overlap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
