/* The place of a rank, which all ranks have even without its card: it is read as written, and
 * determines which ranks share memory. */
#include <stdlib.h>
#include <string.h>

#include "comm/rank_place.h"
#include "support/unit.h"

#define NRANKS 20u

static struct tt_rank_place place_of(uint32_t rank, uint64_t host, bool shares)
{
    static const struct tt_labels labels = { .label = { [TT_NEAR_RACK] = "a rack" } };
    struct tt_rank_place p = { .shares = shares };

    CPU_ZERO(&p.cores);
    CPU_SET(rank % CPU_SETSIZE, &p.cores);
    tt_rank_location_init(&p.location, host, (int)(rank % 2), 2,
                          (struct tt_rails_near){ .set = 1, .by = TT_RAIL_SOCKET }, &labels,
                          TT_NODE_AUTOMATIC);
    return p;
}

static void places_are_read_as_written_without_the_host(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * CPU_SETSIZE; i++) {
        const struct tt_rank_place p = place_of(i, 77, i >= CPU_SETSIZE);
        struct tt_rank_place again;
        uint8_t bytes[TT_BOOT_PLACE_BYTES];
        const size_t n = tt_rank_place_write(&p, bytes);

        assert_true(tt_rank_place_read(&again, bytes, n));
        assert_true(CPU_EQUAL(&again.cores, &p.cores));
        assert_int_equal(again.location.host, 0);
        assert_int_equal(again.location.socket, p.location.socket);
        assert_int_equal(again.location.nrails, 2);
        assert_int_equal(again.location.label[TT_NEAR_RACK], p.location.label[TT_NEAR_RACK]);
        assert_int_equal(again.shares, p.shares);
    }
}

static void places_of_any_host_are_equal(void **state)
{
    const struct tt_rank_place a = place_of(3, 1, true), b = place_of(3, 2, true);
    uint8_t one[TT_BOOT_PLACE_BYTES], other[TT_BOOT_PLACE_BYTES];
    const size_t n = tt_rank_place_write(&a, one);

    (void)state;
    assert_int_equal(tt_rank_place_write(&b, other), n);
    assert_memory_equal(one, other, n);
}

static void other_bytes_are_no_place(void **state)
{
    const struct tt_rank_place p = place_of(3, 1, true);
    uint8_t bytes[TT_BOOT_PLACE_BYTES + 1] = { 0 };
    const size_t n = tt_rank_place_write(&p, bytes);
    struct tt_rank_place again;

    (void)state;
    for (size_t cut = 0; cut < n; cut++)
        assert_false(tt_rank_place_read(&again, bytes, cut));
    assert_false(tt_rank_place_read(&again, bytes, n + 1));
    bytes[n - 1] = 2;
    assert_false(tt_rank_place_read(&again, bytes, n));     /* shares memory: 0 or 1 */
    bytes[n - 1] = 1;
    bytes[1 + bytes[0]] = 5;
    assert_false(tt_rank_place_read(&again, bytes, n));     /* a host */
}

/* Two hosts, with the even and the odd ranks. Ranks 6 and 9 do not offer shared memory. */
static void ranks_share_memory_if_all_offer_it_on_one_host(void **state)
{
    struct tt_world *w = calloc(1, sizeof *w);

    (void)state;
    assert_non_null(w);
    w->nranks = NRANKS;
    w->rank = 1;
    w->places = calloc(NRANKS, sizeof *w->places);
    w->shares = calloc(NRANKS / 8 + 1, 1);
    assert_true(w->places && w->shares);
    w->places[w->rank].host = 11;
    for (uint32_t r = 0; r < NRANKS; r++) {
        const struct tt_rank_place p = place_of(r, 10 + r % 2, r != 6 && r != 9);

        tt_world_add_place(w, r, &p);
    }
    assert_true(tt_layout_derive(&w->layout, w->places, NRANKS));
    assert_int_equal(w->nlocal, NRANKS / 2);
    assert_int_equal(w->first_here, 1);
    assert_int_equal(CPU_COUNT(&w->cores_here), NRANKS / 2);
    assert_true(CPU_ISSET(1, &w->cores_here) && !CPU_ISSET(0, &w->cores_here));
    assert_true(CPU_ISSET(0, &w->cores_first) && !CPU_ISSET(1, &w->cores_first));

    assert_true(tt_world_all_local(w, (const uint32_t[]){ 0, 2, 4, 18 }, 4));
    assert_true(tt_world_all_local(w, (const uint32_t[]){ 19, 1 }, 2));
    assert_false(tt_world_all_local(w, (const uint32_t[]){ 0, 2, 3 }, 3));
    assert_false(tt_world_all_local(w, (const uint32_t[]){ 4, 6 }, 2));
    assert_false(tt_world_all_local(w, (const uint32_t[]){ 9 }, 1));
    tt_layout_fini(&w->layout);
    free(w->shares);
    free(w->places);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_read_as_written_without_the_host),
        cmocka_unit_test(places_of_any_host_are_equal),
        cmocka_unit_test(other_bytes_are_no_place),
        cmocka_unit_test(ranks_share_memory_if_all_offer_it_on_one_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
