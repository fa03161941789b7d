#include "support/unit.h"

#include "base/prng.h"
#include "support/layouts.h"
#include "topo/layout.h"

static void level_names_are_parsable(void **state)
{
    enum tt_distance d;

    (void)state;
    for (int i = 0; i < TT_DISTANCES; i++) {
        assert_true(tt_distance_parse(tt_distance_name((enum tt_distance)i), &d));
        assert_int_equal(d, i);
    }
    assert_false(tt_distance_parse("?", &d));
    assert_false(tt_distance_parse("", &d));
    assert_string_equal(tt_distance_name(TT_DISTANCES), "?");
}

/* 10 ranks in hosts of 4, with 2 per socket, 2 rails; racks of 8. */
static void regular_layout_counts_host_by_host(void **state)
{
    struct tt_layout l;
    uint32_t g;

    (void)state;
    tt_layout_regular(&l, 10, 4, 2, 2, TT_NODE_SOCKETS);
    l.group_ranks[TT_NEAR_RACK] = 8;
    assert_int_equal(l.nhosts, 3);
    assert_int_equal(tt_layout_host(&l, 7), 1);
    assert_int_equal(tt_layout_socket(&l, 7), 3);
    assert_int_equal(tt_layout_local(&l, 7), 3);
    assert_int_equal(tt_layout_rail(&l, 7), 1);
    assert_int_equal(tt_layout_host_ranks(&l, 1), 4);
    assert_int_equal(tt_layout_host_ranks(&l, 2), 2);
    assert_int_equal(tt_layout_rank(&l, 2, 1), 9);
    assert_int_equal(tt_layout_distance(&l, 5, 5), TT_NEAR_SELF);
    assert_int_equal(tt_layout_distance(&l, 0, 1), TT_NEAR_SOCKET);
    assert_int_equal(tt_layout_distance(&l, 1, 2), TT_NEAR_HOST);
    assert_int_equal(tt_layout_distance(&l, 3, 4), TT_NEAR_RACK);
    assert_int_equal(tt_layout_distance(&l, 7, 8), TT_NEAR_ZONE);
    assert_false(tt_layout_is_even(&l, &g));
    tt_layout_regular(&l, 12, 4, 1, 1, TT_NODE_MESH);
    assert_true(tt_layout_is_even(&l, &g));
    assert_int_equal(g, 4);
    assert_int_equal(tt_layout_distance(&l, 0, 3), TT_NEAR_SOCKET);
}

/* ---- many kinds of seats ---- */

#define NRANKS_MAX 64

struct seating {
    uint32_t n, nrails;
    struct tt_layout_seat seat[NRANKS_MAX];
};

enum seats { IN_ORDER, SPREAD, UNEVEN, DEALT, DRAWN, SEATS };

/* The seat of rank r: in hosts of `each` with sockets of two; the same with ranks alternating
 * between the sockets and rails of their host in different orders; in hosts of 1, 2, 3, ... ranks;
 * alternating between hosts; random. */
static struct tt_layout_seat draw_seat(enum seats kind, uint32_t r, uint32_t each, uint32_t nrails,
                                       struct tt_prng *p)
{
    uint32_t host = r / each, socket = r % each / 2, rail = r % each % nrails;
    struct tt_layout_seat seat = { .rail = 0 };

    if (kind == SPREAD) {
        socket = r % each % 3;
        rail = r % each / 2 % nrails;
    } else if (kind == UNEVEN) {
        for (host = 0; r > host; host++)
            r -= host + 1;
    } else if (kind == DEALT) {
        host = r % each;
    } else if (kind == DRAWN) {
        host = (uint32_t)tt_prng_below(p, each);
        socket = (uint32_t)tt_prng_below(p, 2);
        rail = (uint32_t)tt_prng_below(p, nrails);
    }
    seat.group[TT_NEAR_HOST] = host;
    seat.group[TT_NEAR_SOCKET] = host * NRANKS_MAX + socket;
    seat.rail = rail;
    return seat;
}

static void draw_seating(struct seating *s, enum seats kind, uint64_t seed)
{
    struct tt_prng p;
    uint32_t each;

    tt_prng_init(&p, seed);
    s->n = 1 + (uint32_t)tt_prng_below(&p, NRANKS_MAX);
    s->nrails = 1 + (uint32_t)tt_prng_below(&p, 4);
    each = 2 * (1 + (uint32_t)tt_prng_below(&p, 5));
    for (uint32_t r = 0; r < s->n; r++)
        s->seat[r] = draw_seat(kind, r, each, s->nrails, &p);
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++) {
        const uint32_t joins = 1 + (uint32_t)tt_prng_below(&p, 3);
        const bool mixed = kind != IN_ORDER && tt_prng_below(&p, 2);

        for (uint32_t r = 0; r < s->n; r++) {
            const uint32_t below = s->seat[r].group[d - 1];

            s->seat[r].group[d] = mixed ? (uint32_t)tt_mix64(seed + below) % joins : below / joins;
        }
    }
    layout_number(s->seat, s->n);
}

static enum tt_distance distance_of(const struct seating *s, uint32_t a, uint32_t b)
{
    int d = TT_NEAR_SOCKET;

    if (a == b)
        return TT_NEAR_SELF;
    while (d < TT_NEAR_WAN && s->seat[a].group[d] != s->seat[b].group[d])
        d++;
    return (enum tt_distance)d;
}

/* Checks the results for one rank. */
static void check_rank(const struct tt_layout *l, const struct seating *s, uint32_t r,
                       enum tt_distance *farthest)
{
    const uint32_t host = s->seat[r].group[TT_NEAR_HOST];
    uint32_t local = 0;

    for (int d = TT_NEAR_SOCKET; d < TT_NEAR_WAN; d++) {
        assert_int_equal(tt_layout_group(l, r, (enum tt_distance)d), s->seat[r].group[d]);
        assert_true(s->seat[r].group[d] < tt_layout_groups(l, (enum tt_distance)d));
    }
    assert_int_equal(tt_layout_host(l, r), host);
    assert_int_equal(tt_layout_socket(l, r), s->seat[r].group[TT_NEAR_SOCKET]);
    assert_int_equal(tt_layout_rail(l, r), s->seat[r].rail);
    for (uint32_t q = 0; q < r; q++)
        local += s->seat[q].group[TT_NEAR_HOST] == host;
    assert_int_equal(tt_layout_local(l, r), local);
    assert_int_equal(tt_layout_rank(l, host, local), r);
    for (uint32_t q = 0; q < s->n; q++) {
        assert_int_equal(tt_layout_distance(l, r, q), distance_of(s, r, q));
        *farthest = distance_of(s, r, q) > *farthest ? distance_of(s, r, q) : *farthest;
    }
}

static void check_layout(const struct tt_layout *l, const struct seating *s)
{
    uint32_t ranks[NRANKS_MAX] = { 0 }, widest = 0, narrowest = s->n, g = 0;
    enum tt_distance farthest = TT_NEAR_SELF;
    bool fills = true;

    for (uint32_t r = 0; r < s->n; r++) {
        check_rank(l, s, r, &farthest);
        ranks[s->seat[r].group[TT_NEAR_HOST]]++;
    }
    assert_int_equal(l->nranks, s->n);
    assert_int_equal(l->nhosts, tt_layout_groups(l, TT_NEAR_HOST));
    for (uint32_t h = 0; h < l->nhosts; h++) {
        assert_int_equal(tt_layout_host_ranks(l, h), ranks[h]);
        widest = ranks[h] > widest ? ranks[h] : widest;
        narrowest = ranks[h] < narrowest ? ranks[h] : narrowest;
    }
    for (uint32_t r = 0; r < s->n; r++)
        fills = fills && s->seat[r].group[TT_NEAR_HOST] == r / ranks[0];
    assert_int_equal(tt_layout_widest(l), widest);
    assert_int_equal(tt_layout_narrowest(l), narrowest);
    assert_int_equal(tt_layout_farthest(l), farthest);
    assert_int_equal(tt_layout_fills(l), fills);
    assert_int_equal(tt_layout_is_even(l, &g), fills && widest == narrowest);
    if (fills && widest == narrowest)
        assert_int_equal(g, widest);
}

/* Also for a shared layout after its first reference was released. Regular layouts take no
 * memory. */
static void layout_matches_its_seats(void **state)
{
    uint32_t tables[SEATS] = { 0 }, full[SEATS] = { 0 };

    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        const enum seats kind = (enum seats)(seed % SEATS);
        struct tt_layout l, other;
        struct seating s;

        if (!unit_draw())
            continue;
        draw_seating(&s, kind, seed);
        assert_true(tt_layout_init(&l, s.seat, s.n, TT_NODE_SOCKETS, s.nrails));
        check_layout(&l, &s);
        assert_int_equal(l.nrails, s.nrails);
        assert_int_equal(tt_layout_bytes(&l) == 0, tt_layout_is_regular(&l));
        tables[kind] += !tt_layout_is_regular(&l);
        full[kind] += tt_layout_fills(&l);
        tt_layout_share(&other, &l);
        assert_int_equal(tt_layout_is_shared(&l, &other), !tt_layout_is_regular(&l));
        tt_layout_fini(&l);
        check_layout(&other, &s);
        tt_layout_fini(&other);
    }
    assert_int_equal(tables[IN_ORDER], 0);
    assert_true(tables[SPREAD] > 0 && tables[UNEVEN] > 0 && tables[DEALT] > 0 &&
                tables[DRAWN] > 0 && full[SPREAD] > 0);
}

/* 1,024 ranks on 128 hosts: the memory depends on their order. */
static void table_memory_excludes_repetitions(void **state)
{
    static const struct {
        const char *order;
        uint32_t bytes;
    } cases[] = { { "filled", 0 }, { "spread", 1024 }, { "dealt", 1024 }, { "drawn", 8 * 1024 } };
    static struct tt_layout_seat seats[1024];
    struct tt_layout l;
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 1);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (uint32_t r = 0; r < 1024; r++) {
            const uint32_t host = i < 2    ? r / 8
                                  : i == 2 ? r % 128
                                           : (uint32_t)tt_prng_below(&p, 128);

            seats[r] =
                (struct tt_layout_seat){ .rail = i < 3 ? r % 8 : (uint32_t)tt_prng_below(&p, 8) };
            seats[r].group[TT_NEAR_HOST] = host;
            seats[r].group[TT_NEAR_SOCKET] = 2 * host + (i ? r % 2 : r / 4 % 2);
            seats[r].group[TT_NEAR_RACK] = host / 4;
        }
        layout_number(seats, 1024);
        assert_true(tt_layout_init(&l, seats, 1024, TT_NODE_SOCKETS, 8));
        if (tt_layout_bytes(&l) > cases[i].bytes)
            fail_msg("1024 ranks, %s, take %llu bytes", cases[i].order,
                     (unsigned long long)tt_layout_bytes(&l));
        tt_layout_fini(&l);
    }
}

/* Ranks distributed to hosts in turn, unevenly. */
static void table_lists_scattered_host_ranks(void **state)
{
    static const uint32_t host[] = { 0, 1, 2, 0, 1, 0 };
    struct tt_layout_seat seats[6] = { 0 };
    struct tt_layout l;
    uint32_t g;

    (void)state;
    for (uint32_t r = 0; r < 6; r++) {
        seats[r].group[TT_NEAR_SOCKET] = r;
        seats[r].group[TT_NEAR_HOST] = host[r];
    }
    assert_true(tt_layout_init(&l, seats, 6, TT_NODE_MESH, 1));
    assert_int_equal(l.nhosts, 3);
    assert_int_equal(tt_layout_host_ranks(&l, 0), 3);
    assert_int_equal(tt_layout_host_ranks(&l, 1), 2);
    assert_int_equal(tt_layout_rank(&l, 0, 1), 3);
    assert_int_equal(tt_layout_rank(&l, 0, 2), 5);
    assert_int_equal(tt_layout_rank(&l, 1, 1), 4);
    assert_int_equal(tt_layout_local(&l, 5), 2);
    assert_int_equal(tt_layout_distance(&l, 0, 5), TT_NEAR_HOST);
    assert_int_equal(tt_layout_distance(&l, 0, 1), TT_NEAR_RACK);
    assert_false(tt_layout_is_even(&l, &g));
    assert_false(tt_layout_fills(&l));
    tt_layout_fini(&l);
}

/* Nested groups in which the last rank is not the farthest from the first. */
static void farthest_distance_is_the_maximum(void **state)
{
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 5);
    for (int i = 0; i < 300; i++) {
        const uint32_t n = 1 + (uint32_t)tt_prng_below(&p, 12);
        enum tt_distance farthest = TT_NEAR_SELF;
        struct tt_layout_seat seats[12] = { 0 };
        struct tt_layout l;

        for (uint32_t r = 0; r < n; r++)
            for (int d = TT_NEAR_WAN - 1; d >= TT_NEAR_SOCKET; d--)
                seats[r].group[d] = (d < TT_NEAR_WAN - 1 ? 2 * seats[r].group[d + 1] : 0) +
                                    (uint32_t)(tt_prng_below(&p, 4) == 0);
        layout_number(seats, n);
        assert_true(tt_layout_init(&l, seats, n, TT_NODE_MESH, 1));
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++)
                farthest = tt_layout_distance(&l, a, b) > farthest ? tt_layout_distance(&l, a, b)
                                                                   : farthest;
        assert_int_equal(tt_layout_farthest(&l), farthest);
        tt_layout_fini(&l);
        tt_layout_regular(&l, n, 4, 2, 1, TT_NODE_MESH);
        l.group_ranks[TT_NEAR_RACK] = 8;
        assert_int_equal(tt_layout_farthest(&l), tt_layout_distance(&l, 0, n - 1));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(level_names_are_parsable),
        cmocka_unit_test(regular_layout_counts_host_by_host),
        cmocka_unit_test(layout_matches_its_seats),
        cmocka_unit_test(table_memory_excludes_repetitions),
        cmocka_unit_test(table_lists_scattered_host_ranks),
        cmocka_unit_test(farthest_distance_is_the_maximum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
