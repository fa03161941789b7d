/* The order of the ring, which the coordinator finds from the members' measurements: the next epoch
 * adopts it, restarts and later views keep it, and it stays unchanged if a change has no
 * advantage. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "elastic/coord.h"

#define MEMBERS 40u
#define LEASE_NS (100 * TT_MS)
#define BYTES (64ull << 20)
#define FAST 50000000ull
#define SLOW 1000000ull

static struct fixture {
    struct tt_coord c;
    struct tt_coord_member members[MEMBERS];
    uint32_t order[MEMBERS];
    uint8_t *scratch;
    void *ring;
    struct tt_coord_conn conns[MEMBERS];
    uint32_t n, nroles;
    uint32_t seat[MEMBERS];         /* group * nroles + role of each member, in join order */
    struct tt_elmsg result;         /* the last result sent to any member */
    uint32_t nresults;
    struct tt_elmsg view;           /* the last view */
    uint64_t ids[MEMBERS];          /* in the order of the view */
    struct tt_membership news;            /* the last news */
    uint8_t records[1 << 15];
    size_t nrecords;
    uint64_t now_ns;
} f;

/* Planted rates from member to member, in join order. */
static uint64_t rate[MEMBERS][MEMBERS];
static uint64_t latency = TT_MS;

static void on_act(void *context, const struct tt_coord_act *act)
{
    const uint32_t bytes = (uint32_t)act->bytes;
    struct tt_elmsg m;

    (void)context;
    if (act->kind == TT_COORD_ACT_LOG) {
        assert_true(f.nrecords + 4 + bytes <= sizeof f.records);
        memcpy(f.records + f.nrecords, &bytes, 4);
        memcpy(f.records + f.nrecords + 4, act->data, bytes);
        f.nrecords += 4 + bytes;
    }
    if (act->kind != TT_COORD_ACT_SEND)
        return;
    assert_true(tt_elmsg_read(&m, act->data, act->bytes));
    if (m.kind == TT_ELMSG_RESULT) {
        f.result = m;
        f.nresults++;
    } else if (m.kind == TT_ELMSG_UPDATE) {
        f.news = m.news;
    } else if (m.kind == TT_ELMSG_VIEW) {
        struct tt_surroundings_seat seat;

        f.view = m;
        for (uint32_t i = 0; i < m.nlist; i++) {
            tt_elmsg_next_seat(&m, &seat);
            f.ids[i] = seat.id;
        }
    }
}

static void send_bytes(uint32_t i, const void *data, size_t bytes)
{
    tt_coord_step(
        &f.c,
        &(struct tt_coord_event){
            .kind = TT_COORD_EV_FRAME, .conn = &f.conns[i], .data = data, .bytes = bytes },
        f.now_ns);
}

static void send_message(uint32_t i, const struct tt_elmsg *m)
{
    uint8_t data[512];

    send_bytes(i, data, tt_elmsg_write(data, sizeof data, m));
}

/* Member i joins, or reconnects while it waits in that call. */
static void come(uint32_t i, uint8_t waits)
{
    struct tt_elmsg m = { .kind = TT_ELMSG_JOIN,
                          .what = waits,
                          .epoch = f.c.epoch,
                          .number = f.c.round,
                          .nroles = f.nroles,
                          .text = "run" };

    m.group = f.seat[i] / f.nroles;
    m.role = f.seat[i] % f.nroles;

    m.cookie[0] = (uint8_t)(i + 1);
    tt_coord_step(&f.c, &(struct tt_coord_event){ .kind = TT_COORD_EV_OPEN, .conn = &f.conns[i] },
                  f.now_ns);
    send_message(i, &m);
}

static void start(void)
{
    const struct tt_coord_conf conf = { .run = "run",
                                        .lease_ns = LEASE_NS,
                                        .grace_ns = LEASE_NS / 4,
                                        .members = f.members,
                                        .members_max = MEMBERS,
                                        .order = f.order,
                                        .scratch = f.scratch,
                                        .ring_memory = f.ring,
                                        .ring_peers_max = MEMBERS,
                                        .emit = on_act };

    tt_coord_init(&f.c, &conf, f.now_ns);
    for (size_t at = 0; at < f.nrecords;) {
        uint32_t bytes;

        memcpy(&bytes, f.records + at, 4);
        assert_true(tt_coord_replay(&f.c, f.records + at + 4, bytes));
        at += 4 + bytes;
    }
    tt_coord_start(&f.c, f.now_ns);
}

static const struct tt_coord_member *member(uint32_t i)
{
    return tt_coord_find(&f.c, f.conns[i].member);
}

static bool is_live(uint32_t i)
{
    return member(i) && member(i)->state == TT_COORD_IN_VIEW;
}

/* All members call `epoch`, newcomers first, and reach each other. */
static void epoch(void)
{
    for (uint32_t k = 0; k < 2 * f.n; k++) {
        const uint32_t i = k % f.n;
        struct tt_elmsg call = { .kind = TT_ELMSG_CALL,
                                 .what = TT_CALL_EPOCH,
                                 .flags = TT_EPOCH_ADMIT,
                                 .least = is_live(i) ? 0 : f.n };

        if (!member(i) || member(i)->state == TT_COORD_LOST || is_live(i) != (k >= f.n))
            continue;
        if (is_live(i)) {
            call.epoch = f.c.epoch;
            call.number = f.c.round;
        }
        send_message(i, &call);
    }
    for (uint32_t i = 0; i < f.n && tt_coord_is_proposing(&f.c); i++)
        if (member(i))
            send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_READY, .number = f.c.proposal });
}

static void begin_groups(uint32_t n, uint32_t nroles)
{
    uint8_t *scratch = f.scratch ? f.scratch : malloc(TT_ELMSG_BYTES_MAX);
    void *ring = f.ring ? f.ring : malloc(tt_coord_ring_bytes(MEMBERS));

    assert_true(scratch && ring);
    f = (struct fixture){ .scratch = scratch, .ring = ring, .now_ns = 1, .n = n, .nroles = nroles };
    for (uint32_t i = 0; i < MEMBERS; i++)
        f.seat[i] = i;
    start();
    for (uint32_t i = 0; i < n; i++)
        come(i, 0);
    epoch();
    assert_int_equal(f.view.nlist, n);
}

static void begin(uint32_t n)
{
    begin_groups(n, 1);
}

/* Returns the member (in join order) with that rank. */
static uint32_t of_rank(uint32_t rank)
{
    uint32_t i = 0;

    while (f.conns[i].member != f.ids[rank])
        i++;
    return i;
}

static void send_links_as(uint32_t i, uint64_t number, uint64_t expected, uint32_t gain_percent)
{
    const struct tt_elmsg m = { .kind = TT_ELMSG_LINKS,
                                .epoch = f.c.epoch,
                                .number = number,
                                .value = BYTES,
                                .other = expected,
                                .least = gain_percent };
    uint8_t data[16 * MEMBERS + 512];
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, data, sizeof data, &m);
    for (uint32_t rank = f.seat[i] % f.nroles; rank < f.view.nlist; rank += f.nroles)
        tt_elmsg_add_link(
            &w, &(struct tt_ring_link){ .rate = rate[of_rank(rank)][i], .latency = latency });
    send_bytes(i, data, tt_elmsg_end(&w));
}

static void send_links(uint32_t i, uint64_t number)
{
    send_links_as(i, number, 1000, 5);
}

/* Member i calls `optimize` and waits for measurement `number`; 0: for earlier reports. */
static void call_optimize_of(uint32_t i, uint64_t number)
{
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_CALL,
                                        .what = TT_CALL_OPTIMIZE,
                                        .other = number,
                                        .epoch = f.c.epoch,
                                        .number = f.c.round,
                                        .value = BYTES });
}

static void call_optimize(uint32_t i)
{
    call_optimize_of(i, 0);
}

/* Advances the time during the search, while all members send messages. */
static void search(void)
{
    for (uint32_t turns = 0; f.c.ring.waited_for; turns++) {
        assert_true(turns < 1000000 && tt_coord_next_ns(&f.c) != TT_NEVER);
        f.now_ns += 1000;
        tt_coord_step(&f.c, &(struct tt_coord_event){ .kind = TT_COORD_EV_TICK }, f.now_ns);
        for (uint32_t i = 0; i < f.n && turns % 100 == 0; i++)
            if (member(i) && member(i)->conn)
                send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_HEARTBEAT });
    }
}

static void optimize(uint64_t number)
{
    for (uint32_t i = 0; i < f.n; i++)
        if (is_live(i))
            send_links(i, number);
    for (uint32_t i = 0; i < f.n; i++)
        if (is_live(i))
            call_optimize(i);
    search();
}

/* Member i sends fast to the member `stride` after it, and slowly to others; n and stride are
 * coprime. */
static void plant(uint32_t n, uint32_t stride)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            rate[i][k] = k == (i + stride) % n ? FAST : SLOW;
}

static void check_planted(uint32_t n, uint32_t stride)
{
    for (uint32_t rank = 0; rank < n; rank++)
        assert_int_equal(of_rank(rank), rank * stride % n);
}

static void planted_ring_is_found_and_adopted(void **state)
{
    static const uint32_t cases[][2] = { { 3, 2 },  { 5, 3 },  { 8, 5 },
                                         { 12, 7 }, { 13, 5 }, { 40, 17 } };

    (void)state;
    for (uint32_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const uint32_t n = cases[k][0], stride = cases[k][1];
        uint64_t before;

        begin(n);
        before = f.c.epoch;
        plant(n, stride);
        optimize(1);
        assert_int_equal(f.result.what, TT_ROUND_OK);
        assert_int_equal(f.result.value, 1);
        assert_true(f.result.other < f.result.id);
        assert_int_equal(f.nresults, n);
        assert_int_equal(f.news.better, 1);
        epoch();
        assert_int_equal(f.c.epoch, before + 1);
        assert_int_equal(f.view.what, TT_RING_AS_RING);
        check_planted(n, stride);
        assert_int_equal(f.view.news.better, 0);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(f.conns[i].member, i + 1); /* ids do not change */
        optimize(1); /* now the order is optimal */
        assert_int_equal(f.result.value, 0);
        assert_true(f.result.id == f.result.other);
        epoch();
        assert_int_equal(f.c.epoch, before + 1);
    }
}

/* Calls of `optimize` precede the measurement, so differences between calls are reported at once.
 * The result waits for all measurements, also if one member reports another number. */
static void call_waits_for_all_measurements(void **state)
{
    (void)state;
    begin(5);
    plant(5, 3);
    for (uint32_t i = 0; i < 4; i++)
        call_optimize_of(i, 1);
    assert_int_equal(f.nresults, 0);
    send_message(4, &(struct tt_elmsg){ .kind = TT_ELMSG_CALL,
                                        .what = TT_CALL_AGREE,
                                        .epoch = f.c.epoch,
                                        .number = f.c.round });
    assert_int_equal(f.nresults, 5);
    assert_int_equal(f.result.what, TT_ROUND_MISMATCH);
    for (uint32_t i = 0; i < 5; i++)
        call_optimize_of(i, 1);
    for (uint32_t i = 0; i < 4; i++)
        send_links(i, 1);
    assert_int_equal(f.nresults, 5);
    send_message(0, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL, .number = f.c.round });
    assert_int_equal(f.result.what, TT_ROUND_TIMEOUT);
    assert_int_equal(f.result.id, 0);
    assert_int_equal(f.result.other, f.conns[4].member);
    call_optimize_of(0, 1);
    send_links(4, 1);
    search();
    assert_int_equal(f.result.what, TT_ROUND_OK);
    assert_int_equal(f.result.value, 1);
    epoch();
    check_planted(5, 3);
    send_links(2, 1ull << 50); /* compared with this, other counts are negligible */
    for (uint32_t i = 0; i < 5; i++)
        call_optimize_of(i, 1);
    for (uint32_t i = 0; i < 5; i++)
        send_links(i, 1);
    assert_int_equal(f.result.what, TT_ROUND_OK);
    assert_int_equal(f.result.value, 0);
}

static void background_measures_only_links(void **state)
{
    (void)state;
    begin(5);
    plant(5, 2);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(f.news.better, 0);
        send_links(i, 1);
    }
    search();
    assert_int_equal(f.nresults, 0);
    assert_int_equal(f.news.better, 1);
    epoch();
    check_planted(5, 2);
}

static void useless_change_is_not_made(void **state)
{
    (void)state;
    latency = 50 * TT_MS;
    for (uint32_t k = 0; k < 3; k++) {
        begin(6);
        plant(6, 5);
        for (uint32_t i = 0; i < 6; i++)
            for (uint32_t other = 0; other < 6; other++)
                if (k < 2 && rate[i][other] == SLOW)
                    rate[i][other] = FAST / 100 * 97;
        /* a gain of 3 % counts as noise, unless the noise is known to be lower; and for a single
         * step, it does not outweigh a reconnection */
        for (uint32_t i = 0; i < 6; i++)
            send_links_as(i, 1, k == 1 ? 1 : 1000, k == 0 ? 5 : 1);
        search();
        assert_int_equal(f.news.better, k == 2);
    }
    latency = TT_MS;
}

static void restarted_coordinator_finds_the_same(void **state)
{
    (void)state;
    for (uint32_t after = 0; after < 3; after++) { /* restart: before all have reported; before the
                                                      result is sent; before the epoch */
        begin(7);
        plant(7, 3);
        for (uint32_t i = 0; i < (after ? 7u : 4u); i++)
            send_links(i, 1);
        for (uint32_t i = 0; i < 7 && after == 2; i++)
            call_optimize(i);
        if (after == 2)
            search();
        start();
        for (uint32_t i = 0; i < 7; i++)
            come(i, after == 2 ? TT_CALL_EPOCH : TT_CALL_OPTIMIZE);
        for (uint32_t i = 0; i < 7; i++)
            send_links(i, 1);
        for (uint32_t i = 0; i < 7 && after < 2; i++)
            call_optimize(i);
        search();
        assert_int_equal(f.result.value, 1);
        epoch();
        check_planted(7, 3);
        start(); /* after a restart, the view is unchanged */
        for (uint32_t rank = 0; rank < 7; rank++)
            assert_int_equal(tt_coord_find(&f.c, f.ids[rank])->rank, rank);
        assert_int_equal(f.c.plan, TT_RING_AS_RING);
    }
}

static void order_survives_losses_and_newcomers(void **state)
{
    (void)state;
    begin(5);
    plant(5, 2);
    optimize(1);
    epoch();
    check_planted(5, 2); /* 0 2 4 1 3 */
    send_message(4, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
    for (uint32_t i = 0; i < 4; i++)
        send_message(i, &(struct tt_elmsg){
                            .kind = TT_ELMSG_ANSWER, .epoch = f.c.epoch, .number = f.c.question });
    epoch();
    assert_int_equal(f.view.nlist, 4);
    assert_int_equal(f.view.what, TT_RING_AS_RING);
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(of_rank(rank), ((const uint32_t[]){ 0, 2, 1, 3 })[rank]);
    f.n = 6;
    f.conns[4].member = UINT64_MAX; /* that member is gone */
    come(5, 0);
    epoch();
    assert_int_equal(f.view.nlist, 5);
    assert_int_equal(f.view.what, TT_RING_UNMEASURED);
    for (uint32_t rank = 0; rank < 5; rank++)
        assert_int_equal(of_rank(rank), ((const uint32_t[]){ 0, 2, 1, 3, 5 })[rank]);
}

static void loss_ends_call_but_keeps_order(void **state)
{
    (void)state;
    begin(5);
    plant(5, 3);
    for (uint32_t i = 0; i < 5; i++)
        send_links(i, 1);
    for (uint32_t i = 1; i < 5; i++)
        call_optimize(i);
    search();
    assert_int_equal(f.nresults, 0);
    send_message(0, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
    assert_int_equal(f.nresults, 4);
    assert_int_equal(f.result.what, TT_ROUND_LOST);
    for (uint32_t i = 1; i < 5; i++)
        send_message(i, &(struct tt_elmsg){
                            .kind = TT_ELMSG_ANSWER, .epoch = f.c.epoch, .number = f.c.question });
    f.conns[0].member = UINT64_MAX;
    epoch();
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(of_rank(rank), ((const uint32_t[]){ 3, 1, 4, 2 })[rank]);
}

static void invalid_reports_exclude_the_member(void **state)
{
    const struct tt_elmsg few = { .kind = TT_ELMSG_LINKS, .number = 1, .value = BYTES };

    (void)state;
    begin(4);
    send_message(1, &few);
    assert_true(is_live(1)); /* measured in another epoch */
    send_links(1, 1);
    send_links(1, 1);
    send_links(1, 2);
    send_links(1, 1); /* a repeated report, and an earlier measurement */
    assert_true(is_live(1));
    assert_int_equal(f.c.ring.have, 1);
    send_message(1, &(struct tt_elmsg){
                        .kind = TT_ELMSG_LINKS, .epoch = f.c.epoch, .number = 3, .value = BYTES });
    assert_false(is_live(1));
    assert_true(is_live(2));
}

static void unreachable_members_change_nothing(void **state)
{
    (void)state;
    begin(4);
    memset(rate, 0, sizeof rate);
    optimize(1);
    assert_int_equal(f.result.what, TT_ROUND_OK);
    assert_int_equal(f.result.value, 0);
    assert_int_equal(f.result.id, 0);
    begin(4);
    for (uint32_t i = 0; i < 4; i++) /* no reports of measurements */
        call_optimize(i);
    assert_int_equal(f.result.what, TT_ROUND_OK);
    assert_int_equal(f.result.value, 0);
}

/* The members of a pair are near each other. Links between pairs are slower than a member can send,
 * and slightly slower in the opposite direction. Then each half of the bytes uses a different
 * ring. */
static void slow_links_get_two_rings(void **state)
{
    const uint32_t n = 8, stride = 5;

    (void)state;
    begin(n);
    plant(n, stride);
    for (uint32_t place = 0; place < n; place++) {
        const uint32_t a = place * stride % n, b = (place + 1) * stride % n;

        rate[a][b] = place % 2 ? FAST / 4 : FAST;
        rate[b][a] = place % 2 ? FAST / 5 : FAST;
    }
    optimize(1);
    assert_int_equal(f.result.value, 1);
    epoch();
    assert_int_equal(f.view.what, TT_RING_AS_TWO_RINGS);
    check_planted(n, stride);
    optimize(1);
    assert_int_equal(f.result.value, 0);
    assert_true(f.result.id == f.result.other);
    start();
    assert_int_equal(f.c.plan, TT_RING_AS_TWO_RINGS);
}

/* For few bytes and many members, a tree is faster than a ring. */
static void fast_trees_are_selected(void **state)
{
    uint8_t data[16 * MEMBERS + 512];

    (void)state;
    begin(32);
    for (uint32_t i = 0; i < 32; i++) {
        const struct tt_elmsg m = { .kind = TT_ELMSG_LINKS,
                                    .epoch = f.c.epoch,
                                    .number = 1,
                                    .value = 4096,
                                    .other = 1000,
                                    .least = 5 };
        struct tt_elmsg_writer w;

        tt_elmsg_begin(&w, data, sizeof data, &m);
        for (uint32_t rank = 0; rank < 32; rank++)
            tt_elmsg_add_link(&w, &(struct tt_ring_link){ .rate = FAST, .latency = 20 * TT_MS });
        send_bytes(i, data, tt_elmsg_end(&w));
    }
    search();
    assert_int_equal(f.news.better, 1);
    epoch();
    assert_int_equal(f.view.what, TT_RING_AS_TREES);
}

/* ---- replica groups ---- */

#define GROUPS 5u
#define ROLES 2u

/* Checks the positions of groups, whose members have consecutive ranks in the order of their
 * roles. */
static void check_groups(const uint32_t *groups, uint32_t n)
{
    assert_int_equal(f.view.nlist, n * ROLES);
    for (uint32_t rank = 0; rank < n * ROLES; rank++)
        assert_int_equal(f.seat[of_rank(rank)], groups[rank / ROLES] * ROLES + rank % ROLES);
}

/* The fastest ring of role 0 has a stride of 3 groups, that of role 1 a stride of 4, and each is
 * slow for the other role. With a stride of 2, both roles have half of the rate. Links between
 * different roles are not measured. */
static void plant_groups(void)
{
    for (uint32_t from = 0; from < GROUPS * ROLES; from++)
        for (uint32_t to = 0; to < GROUPS * ROLES; to++) {
            const uint32_t role = from % ROLES,
                           stride = (to / ROLES + GROUPS - from / ROLES) % GROUPS;

            rate[from][to] = to % ROLES != role   ? 10 * FAST
                             : stride == 2        ? FAST / 2
                             : stride == 3 + role ? FAST
                                                  : SLOW;
        }
}

static void slowest_role_orders_the_groups(void **state)
{
    static const uint32_t before[] = { 0, 1, 2, 3, 4 }, after[] = { 0, 2, 4, 1, 3 },
                          left[] = { 0, 4, 1, 3 }, again[] = { 0, 4, 1, 3, 2 };

    (void)state;
    begin_groups(GROUPS * ROLES, ROLES);
    check_groups(before, GROUPS);
    plant_groups();
    optimize(1);
    assert_int_equal(f.result.what, TT_ROUND_OK);
    assert_int_equal(f.result.value, 1);
    assert_int_equal(f.c.ring.n, GROUPS);
    assert_int_equal(f.c.ring.rate[0 * GROUPS + 3], SLOW); /* of role 1 */
    assert_int_equal(f.c.ring.ids[3], f.conns[3 * ROLES].member);
    epoch();
    assert_int_equal(f.view.what, TT_RING_AS_RING);
    check_groups(after, GROUPS);
    optimize(1);
    assert_int_equal(f.result.value, 0);
    start(); /* the journal has the order */
    for (uint32_t rank = 0; rank < GROUPS * ROLES; rank++)
        assert_int_equal(tt_coord_find(&f.c, f.ids[rank])->rank, rank);
    for (uint32_t i = 0; i < GROUPS * ROLES; i++)
        come(i, 0);
    /* the second group leaves with one of its members, and returns as the last */
    send_message(2 * ROLES, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
    for (uint32_t i = 0; i < GROUPS * ROLES; i++)
        if (is_live(i))
            send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_ANSWER,
                                                .epoch = f.c.epoch,
                                                .number = f.c.question });
    f.conns[2 * ROLES].member = UINT64_MAX;
    epoch();
    assert_int_equal(f.view.what, TT_RING_AS_RING);
    check_groups(left, GROUPS - 1);
    f.seat[f.n] = 2 * ROLES;
    come(f.n, 0);
    f.n++;
    epoch();
    assert_int_equal(f.view.what, TT_RING_UNMEASURED);
    check_groups(again, GROUPS);
}

/* One member is replaced before the others have changed the view: its group is treated like a
 * newcomer, and is ordered last. */
static void mended_group_goes_last(void **state)
{
    static const uint32_t mended[] = { 1, 2, 0 };

    (void)state;
    begin_groups(3 * ROLES, ROLES);
    send_message(1, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
    for (uint32_t i = 0; i < 3 * ROLES; i++)
        if (is_live(i))
            send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_ANSWER,
                                                .epoch = f.c.epoch,
                                                .number = f.c.question });
    f.conns[1].member = UINT64_MAX;
    f.seat[f.n] = 1;
    come(f.n, 0);
    f.n++;
    epoch();
    check_groups(mended, 3);
}

/* LINKS of members that are not a whole number of groups are invalid. */
static void links_of_partial_groups_are_refused(void **state)
{
    (void)state;
    begin_groups(3 * ROLES, ROLES);
    plant_groups();
    f.nroles = 1; /* so that it counts members, not groups */
    send_links(1, 1);
    assert_false(is_live(1));
    f.nroles = ROLES;
    assert_true(is_live(2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slowest_role_orders_the_groups),
        cmocka_unit_test(mended_group_goes_last),
        cmocka_unit_test(links_of_partial_groups_are_refused),
        cmocka_unit_test(planted_ring_is_found_and_adopted),
        cmocka_unit_test(call_waits_for_all_measurements),
        cmocka_unit_test(background_measures_only_links),
        cmocka_unit_test(useless_change_is_not_made),
        cmocka_unit_test(restarted_coordinator_finds_the_same),
        cmocka_unit_test(order_survives_losses_and_newcomers),
        cmocka_unit_test(loss_ends_call_but_keeps_order),
        cmocka_unit_test(invalid_reports_exclude_the_member),
        cmocka_unit_test(unreachable_members_change_nothing),
        cmocka_unit_test(slow_links_get_two_rings),
        cmocka_unit_test(fast_trees_are_selected),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);

    free(f.scratch);
    free(f.ring);
    return failed;
}
