/* Bounce buffers: allocations never overlap, and are released. */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "engine/bounce_buffer.h"
#include "support/unit.h"

#define REGIONS_MAX 64

/* A transport that registers memory but does not allocate any. */
static struct {
    struct tt_wire wire;
    struct tt_region region[REGIONS_MAX];
    uint32_t n;
    tutti_status fails;
    bool own;                   /* the next request is for memory of the process itself */
} fake;

static tutti_status reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    assert_int_equal(mem != NULL, fake.own); /* otherwise the transport must allocate it */
    if (mem)
        ((volatile uint8_t *)mem)[bytes - 1] = 1;
    if (fake.fails)
        return fake.fails;
    assert_in_range(fake.n, 0, REGIONS_MAX - 1);
    fake.region[fake.n] = (struct tt_region){ .wire = w, .bytes = bytes };
    fake.region[fake.n].mem = mem;
    *out = &fake.region[fake.n++];
    return TUTTI_OK;
}

static struct tt_bounce_pool *pool_create(void)
{
    static const struct tt_wire_ops ops = { .name = "fake", .reg = reg };
    struct tt_bounce_pool *p;

    fake.wire.ops = &ops;
    fake.n = 0;
    fake.fails = TUTTI_OK;
    fake.own = false;
    p = tt_bounce_pool_create(&fake.wire);
    assert_non_null(p);
    return p;
}

static void check(const struct tt_bounce *l, uint64_t asked)
{
    assert_true(l->bytes >= asked);
    assert_true((l->bytes & (l->bytes - 1)) == 0);
    assert_true(l->bytes == 4096 || l->bytes < 2 * asked);
    assert_int_equal(l->offset % 4096, 0);
    assert_true(l->offset <= l->region->bytes && l->bytes <= l->region->bytes - l->offset);
}

static void sizes_are_powers_of_two(void **state)
{
    struct tt_bounce_pool *p = pool_create();
    struct tt_bounce l;

    (void)state;
    for (uint64_t bytes = 0; bytes < 70000; bytes = bytes * 3 / 2 + 1) {
        assert_int_equal(tt_bounce_get(p, bytes, false, &l), TUTTI_OK);
        check(&l, bytes);
    }
    assert_int_equal(tt_bounce_get(p, 1ull << 33, false, &l), TUTTI_OK);
    check(&l, 1ull << 33);
    assert_int_equal(tt_bounce_get(p, (1ull << 33) + 1, false, &l), TUTTI_OK);
    check(&l, (1ull << 33) + 1);
    tt_bounce_pool_destroy(p);
}

/* Peers map only one of the two kinds: neither replaces the other, in any order of release. */
static void own_and_transport_memory_are_separate(void **state)
{
    struct tt_bounce_pool *p = pool_create();
    struct tt_bounce own, wires, again;

    (void)state;
    assert_int_equal(tt_bounce_get(p, 10000, false, &wires), TUTTI_OK);
    fake.own = true;
    fake.fails = TUTTI_ERR_NOMEM;
    assert_int_equal(tt_bounce_get(p, 10000, true, &own), TUTTI_ERR_NOMEM);
    fake.fails = TUTTI_OK;
    assert_int_equal(tt_bounce_get(p, 10000, true, &own), TUTTI_OK);
    assert_true(own.own && !wires.own && own.region != wires.region);
    memset((uint8_t *)own.region->mem + own.offset, 1, own.bytes);
    tt_bounce_put(p, &own);
    tt_bounce_put(p, &wires);
    assert_int_equal(tt_bounce_get(p, 10000, true, &again), TUTTI_OK);
    assert_true(again.region == own.region && again.offset == own.offset);
    assert_int_equal(tt_bounce_get(p, 10000, false, &again), TUTTI_OK);
    assert_true(again.region == wires.region && again.offset == wires.offset);
    assert_int_equal(tt_bounce_pool_bytes(p), own.region->bytes + wires.region->bytes);
    tt_bounce_pool_destroy(p);
}

static void most_recently_freed_is_reused_first(void **state)
{
    struct tt_bounce_pool *p = pool_create();
    struct tt_bounce a, b, c;

    (void)state;
    assert_int_equal(tt_bounce_get(p, 10000, false, &a), TUTTI_OK);
    assert_int_equal(tt_bounce_get(p, 10000, false, &b), TUTTI_OK);
    tt_bounce_put(p, &a);
    tt_bounce_put(p, &b);
    assert_int_equal(tt_bounce_get(p, 9000, false, &c), TUTTI_OK);
    assert_int_equal(c.offset, b.offset);
    assert_int_equal(tt_bounce_get(p, 16384, false, &c), TUTTI_OK);
    assert_int_equal(c.offset, a.offset);
    assert_int_equal(tt_bounce_get(p, 16384, false, &c), TUTTI_OK);
    assert_int_not_equal(c.offset, a.offset);
    assert_int_not_equal(c.offset, b.offset);
    tt_bounce_pool_destroy(p);
}

static void only_small_pieces_share_a_region(void **state)
{
    struct tt_bounce_pool *p = pool_create();
    struct tt_bounce l;

    (void)state;
    for (uint32_t i = 0; i < 128; i++)
        assert_int_equal(tt_bounce_get(p, 65536, false, &l), TUTTI_OK);
    assert_int_equal(fake.n, 1);
    assert_int_equal(tt_bounce_get(p, 65536, false, &l), TUTTI_OK);
    assert_int_equal(fake.n, 2);
    assert_int_equal(tt_bounce_get(p, 20 << 20, false, &l), TUTTI_OK);
    assert_int_equal(fake.n, 3);
    assert_int_equal(l.offset, 0);
    assert_int_equal(l.region->bytes, 32 << 20);
    tt_bounce_pool_destroy(p);
}

/* Random sizes, allocated and released: no two allocations overlap, and the registered memory stays
 * bounded. */
static void pieces_never_overlap_and_are_reused(void **state)
{
    struct tt_bounce_pool *p = pool_create();
    struct tt_bounce out[40];
    uint32_t n = 0, after_warm_up = 0;
    struct tt_prng prng;

    (void)state;
    tt_prng_init(&prng, 11);
    for (uint32_t step = 0; step < 20000; step++) {
        if (n == 40 || (n > 0 && tt_prng_below(&prng, 2))) {
            const uint32_t i = (uint32_t)tt_prng_below(&prng, n);

            tt_bounce_put(p, &out[i]);
            out[i] = out[--n];
            continue;
        }
        const uint64_t bytes = tt_prng_below(&prng, 1ull << (10 + tt_prng_below(&prng, 10)));

        assert_int_equal(tt_bounce_get(p, bytes, false, &out[n]), TUTTI_OK);
        check(&out[n], bytes);
        for (uint32_t i = 0; i < n; i++)
            assert_true(out[i].region != out[n].region ||
                        out[i].offset + out[i].bytes <= out[n].offset ||
                        out[n].offset + out[n].bytes <= out[i].offset);
        n++;
        if (step == 10000)
            after_warm_up = fake.n;
    }
    assert_in_range(fake.n, 1, after_warm_up + 2);
    tt_bounce_pool_destroy(p);
}

static void refused_memory_leaves_nothing_behind(void **state)
{
    struct tt_bounce_pool *p = pool_create();
    struct tt_bounce l = { .offset = 77 };

    (void)state;
    fake.fails = TUTTI_ERR_NOMEM;
    assert_int_equal(tt_bounce_get(p, 100, false, &l), TUTTI_ERR_NOMEM);
    assert_int_equal(l.offset, 77);
    fake.fails = TUTTI_OK;
    assert_int_equal(tt_bounce_get(p, 100, false, &l), TUTTI_OK);
    check(&l, 100);
    tt_bounce_pool_destroy(p);
    tt_bounce_pool_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_powers_of_two),
        cmocka_unit_test(own_and_transport_memory_are_separate),
        cmocka_unit_test(most_recently_freed_is_reused_first),
        cmocka_unit_test(only_small_pieces_share_a_region),
        cmocka_unit_test(pieces_never_overlap_and_are_reused),
        cmocka_unit_test(refused_memory_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
