/* The rendezvous state machines in a simulated world: bytes arrive late and in pieces, connections
 * break, ranks die, come twice or never, and unauthenticated peers send anything. A failure prints
 * its seed; TUTTI_TEST_SEED replays it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/rendezvous.h"
#include "support/unit.h"
#include "support/world.h"

#define MEMBERS_MAX 20
#define CONNS_MAX 4000
#define PATIENCE_NS (5 * TT_SECOND)

enum { CALL, TO_SERVER, TO_MEMBER, END_AT_SERVER, END_AT_MEMBER, STRANGER, DIE, TICK };

struct member {
    struct tt_rdv_member machine;
    struct tt_framer in;
    bool dead;
    int conn;               /* -1: none */
    uint64_t ended_ns;      /* time of its result */
};

struct conn {
    struct tt_rdv_conn machine;
    struct tt_framer in;
    int member;             /* -1: an unauthenticated peer */
    bool here, there;       /* open at the server, at the member */
    uint64_t arrives_ns[2]; /* no overtaking on a stream */
};

struct sim {
    struct world w;
    struct tt_rdv_server server;
    uint8_t secret[TT_SECRET_BYTES];
    struct member members[MEMBERS_MAX];
    struct conn conns[CONNS_MAX];
    int nmembers, nconns;
    uint64_t breaks_in;     /* one in this number of deliveries breaks the connection; 0: none
                               does */
};

/* 1 us to 30 ms, mostly short. */
static uint64_t delay_ns(struct sim *s)
{
    return 1000 + tt_prng_below(&s->w.prng, tt_prng_below(&s->w.prng, 8) ? 100000 : 30000000);
}

static uint64_t later(struct sim *s, struct conn *c, int direction)
{
    const uint64_t at = s->w.now_ns + delay_ns(s);

    if (at > c->arrives_ns[direction])
        c->arrives_ns[direction] = at;
    return c->arrives_ns[direction];
}

/* Sends bytes on a stream, split randomly. */
static void put(struct sim *s, int conn, int direction, const uint8_t *data, size_t bytes)
{
    struct conn *c = &s->conns[conn];

    while (bytes > 0) {
        const size_t n =
            tt_prng_below(&s->w.prng, 3) ? bytes : 1 + tt_prng_below(&s->w.prng, bytes);

        world_plan(&s->w, later(s, c, direction), direction ? TO_MEMBER : TO_SERVER, conn, 0, data,
                   n);
        data += n;
        bytes -= n;
    }
}

static void on_server_act(void *context, const struct tt_rdv_act *act)
{
    struct sim *s = context;
    struct conn *c = (struct conn *)act->conn;
    const int conn = (int)(c - s->conns);

    assert_true(c->here);
    if (act->kind == TT_RDV_ACT_CLOSE) {
        c->here = false;
        world_plan(&s->w, later(s, c, 1), END_AT_MEMBER, conn, 0, NULL, 0);
    } else {
        put(s, conn, 1, act->data, act->bytes);
    }
}

struct member_context {
    struct sim *sim;
    int member;
};
static struct member_context contexts[MEMBERS_MAX];

static void on_member_act(void *context, const struct tt_rdv_act *act)
{
    struct member_context *m = context;

    assert_int_equal(act->kind, TT_RDV_ACT_SEND);
    put(m->sim, m->sim->members[m->member].conn, 0, act->data, act->bytes);
}

static void fill_nonce(struct sim *s, struct tt_rdv_event *ev)
{
    for (size_t i = 0; i < sizeof ev->nonce; i++)
        ev->nonce[i] = (uint8_t)tt_prng_u64(&s->w.prng);
}

static int open_conn(struct sim *s, int member)
{
    struct tt_rdv_event ev = { .kind = TT_RDV_EV_OPEN };
    struct conn *c = &s->conns[s->nconns];

    tt_assert(s->nconns < CONNS_MAX);
    *c = (struct conn){ .member = member, .here = true, .there = true };
    tt_framer_init(&c->in, TT_RDV_HELLO_BYTES);
    fill_nonce(s, &ev);
    ev.conn = &c->machine;
    s->nconns++;
    tt_rdv_server_step(&s->server, &ev, s->w.now_ns);
    return s->nconns - 1;
}

static void call(struct sim *s, int member)
{
    struct tt_rdv_event ev = { .kind = TT_RDV_EV_OPEN };
    struct member *m = &s->members[member];

    if (m->dead || m->conn >= 0 || m->machine.state >= TT_RDV_HAVE_TABLE ||
        s->w.now_ns >= m->machine.deadline_ns)
        return;
    tt_framer_fini(&m->in);
    tt_framer_init(&m->in, tt_rdv_table_bytes_max(m->machine.nranks));
    fill_nonce(s, &ev);
    tt_rdv_member_step(&m->machine, &ev, s->w.now_ns);
    m->conn = open_conn(s, member);
}

static void end_at_server(struct sim *s, int conn)
{
    struct conn *c = &s->conns[conn];

    if (c->here) {
        c->here = false;
        tt_rdv_server_step(&s->server,
                           &(struct tt_rdv_event){ .kind = TT_RDV_EV_CLOSED, .conn = &c->machine },
                           s->w.now_ns);
    }
}

static void end_at_member(struct sim *s, int conn)
{
    struct conn *c = &s->conns[conn];
    struct member *m = c->member >= 0 ? &s->members[c->member] : NULL;

    if (!c->there)
        return;
    c->there = false;
    if (!m || m->conn != conn)
        return;
    m->conn = -1;
    tt_rdv_member_step(&m->machine, &(struct tt_rdv_event){ .kind = TT_RDV_EV_CLOSED },
                       s->w.now_ns);
    world_plan(&s->w, s->w.now_ns + 50 * TT_MS + delay_ns(s), CALL, c->member, 0, NULL, 0);
}

static void break_conn(struct sim *s, int conn)
{
    struct conn *c = &s->conns[conn];

    world_plan(&s->w, later(s, c, 0), END_AT_SERVER, conn, 0, NULL, 0);
    end_at_member(s, conn);
}

/* Feeds bytes to a framer. */
static void take(struct tt_framer *in, const uint8_t *data, size_t bytes)
{
    size_t room;

    while (bytes > 0) {
        uint8_t *at = tt_framer_space(in, &room);
        const size_t n = bytes < room ? bytes : room;

        memcpy(at, data, n);
        tt_framer_added(in, n);
        data += n;
        bytes -= n;
    }
}

static void to_server(struct sim *s, const struct happening *h)
{
    struct conn *c = &s->conns[h->a];
    struct tt_rdv_event ev = { .kind = TT_RDV_EV_FRAME, .conn = &c->machine };
    size_t at = 0;

    while (c->here && !c->in.bad && at < h->bytes) {    /* in pieces, like a socket: a frame,
                                                           then space for more */
        size_t room, n;

        tt_framer_space(&c->in, &room);
        n = h->bytes - at < room ? h->bytes - at : room;
        take(&c->in, h->data + at, n);
        at += n;
        while (c->here && tt_framer_next(&c->in, &ev.frame))
            tt_rdv_server_step(&s->server, &ev, s->w.now_ns);
    }
    if (c->here && c->in.bad) {
        end_at_server(s, h->a);
        world_plan(&s->w, later(s, c, 1), END_AT_MEMBER, h->a, 0, NULL, 0);
    }
}

static void to_member(struct sim *s, const struct happening *h)
{
    struct conn *c = &s->conns[h->a];
    struct member *m = c->member >= 0 ? &s->members[c->member] : NULL;
    struct tt_rdv_event ev = { .kind = TT_RDV_EV_FRAME };

    if (!m || m->dead || m->conn != h->a || m->machine.state >= TT_RDV_HAVE_TABLE)
        return;
    if (s->breaks_in && tt_prng_below(&s->w.prng, s->breaks_in) == 0) {
        break_conn(s, h->a);
        return;
    }
    take(&m->in, h->data, h->bytes);
    while (m->machine.state < TT_RDV_HAVE_TABLE && tt_framer_next(&m->in, &ev.frame))
        tt_rdv_member_step(&m->machine, &ev, s->w.now_ns);
    assert_false(m->in.bad);
    if (m->machine.state >= TT_RDV_HAVE_TABLE)
        m->ended_ns = s->w.now_ns;
}

/* An unauthenticated peer: connects and sends anything, or a hello without the token, or
 * nothing. */
static void unauthenticated_peer(struct sim *s)
{
    const int conn = open_conn(s, -1);
    uint8_t junk[600];
    const size_t bytes = tt_prng_below(&s->w.prng, sizeof junk);

    for (size_t i = 0; i < bytes; i++)
        junk[i] = (uint8_t)tt_prng_u64(&s->w.prng);
    if (bytes >= TT_FRAME_HEADER_BYTES && tt_prng_below(&s->w.prng, 2))
        tt_frame_header(junk, TT_RDV_HELLO, bytes - TT_FRAME_HEADER_BYTES);
    put(s, conn, 0, junk, bytes);
    if (tt_prng_below(&s->w.prng, 2))
        world_plan(&s->w, later(s, &s->conns[conn], 0), END_AT_SERVER, conn, 0, NULL, 0);
}

static void die(struct sim *s, int member)
{
    struct member *m = &s->members[member];

    if (m->machine.state >= TT_RDV_HAVE_TABLE)
        return;
    m->dead = true;
    if (m->conn >= 0)
        world_plan(&s->w, later(s, &s->conns[m->conn], 0), END_AT_SERVER, m->conn, 0, NULL, 0);
}

static void happen(struct sim *s, const struct happening *h)
{
    switch (h->kind) {
    case CALL:
        call(s, h->a);
        break;
    case TO_SERVER:
        to_server(s, h);
        break;
    case TO_MEMBER:
        to_member(s, h);
        break;
    case END_AT_SERVER:
        end_at_server(s, h->a);
        break;
    case END_AT_MEMBER:
        end_at_member(s, h->a);
        break;
    case STRANGER:
        unauthenticated_peer(s);
        break;
    case DIE:
        die(s, h->a);
        break;
    case TICK:
        tt_rdv_server_step(&s->server, &(struct tt_rdv_event){ .kind = TT_RDV_EV_TICK },
                           s->w.now_ns);
        break;
    }
}

static void run(struct sim *s)
{
    struct happening h;

    for (uint64_t t = 0; t < PATIENCE_NS + 2 * TT_SECOND; t += 50 * TT_MS)
        world_plan(&s->w, s->w.now_ns + t, TICK, 0, 0, NULL, 0);
    while (world_next(&s->w, &h))
        happen(s, &h);
}

/* ---- worlds ---- */

/* Creates a card with its rank, and a length that depends on the rank. */
static size_t make_card(uint8_t *card, uint32_t rank)
{
    const size_t bytes = 8 + rank * 37 % 400;

    for (size_t i = 0; i < bytes; i++)
        card[i] = (uint8_t)(rank * 31 + i);
    return bytes;
}

static int add_member(struct sim *s, uint32_t rank, uint32_t nranks, const char *token,
                      uint64_t call_ns)
{
    const int m = s->nmembers++;
    uint8_t card[512];

    tt_assert(m < MEMBERS_MAX);
    s->members[m] = (struct member){ .conn = -1 };
    tt_rdv_member_init(&s->members[m].machine, token, rank, nranks, tt_prng_u64(&s->w.prng), card,
                       make_card(card, rank), s->w.now_ns + call_ns, s->w.now_ns + PATIENCE_NS);
    contexts[m] = (struct member_context){ s, m };
    s->members[m].machine.emit = on_member_act;
    s->members[m].machine.context = &contexts[m];
    world_plan(&s->w, s->w.now_ns + call_ns, CALL, m, 0, NULL, 0);
    return m;
}

static struct sim *sim_create(uint64_t seed, uint32_t nranks)
{
    struct sim *s = calloc(1, sizeof *s);

    tt_assert(s);
    world_init(&s->w, seed);
    for (size_t i = 0; i < sizeof s->secret; i++)
        s->secret[i] = (uint8_t)tt_prng_u64(&s->w.prng);
    tt_rdv_server_init(&s->server, "token", s->secret, nranks, s->w.now_ns, TT_NEVER);
    s->server.emit = on_server_act;
    s->server.context = s;
    return s;
}

static void sim_destroy(struct sim *s)
{
    for (int i = 0; i < s->nmembers; i++)
        tt_framer_fini(&s->members[i].in);
    for (int i = 0; i < s->nconns; i++)
        tt_framer_fini(&s->conns[i].in);
    tt_rdv_server_fini(&s->server);
    world_fini(&s->w);
    free(s);
}

static void check_table(struct sim *s, const struct tt_rdv_member *m, uint32_t nranks)
{
    struct tt_reader r = m->cards;
    uint8_t card[512];

    assert_int_equal(m->state, TT_RDV_HAVE_TABLE);
    assert_memory_equal(m->secret, s->secret, sizeof s->secret);
    for (uint32_t rank = 0; rank < nranks; rank++) {
        const uint16_t bytes = tt_read_u16(&r);

        assert_int_equal(bytes, make_card(card, rank));
        assert_memory_equal(r.at, card, bytes);
        r.at += bytes;
    }
}

static void add_strangers(struct sim *s, uint64_t n)
{
    for (uint64_t i = tt_prng_below(&s->w.prng, n); i > 0; i--)
        world_plan(&s->w, s->w.now_ns + tt_prng_below(&s->w.prng, TT_SECOND), STRANGER, 0, 0, NULL,
                   0);
}

static void all_get_one_table_despite_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, 300));) {
        struct sim *s = sim_create(seed, 0);
        const uint32_t nranks = 1 + (uint32_t)tt_prng_below(&s->w.prng, 16);

        print_message("seed %llu, %u ranks\n", (unsigned long long)seed, nranks);
        s->breaks_in = tt_prng_below(&s->w.prng, 2) * 10;
        for (uint32_t r = 0; r < nranks; r++)
            add_member(s, r, nranks, "token", tt_prng_below(&s->w.prng, TT_SECOND));
        add_strangers(s, 20);
        run(s);
        if (s->breaks_in == 0) {
            for (uint32_t r = 0; r < nranks; r++)
                check_table(s, &s->members[r].machine, nranks);
        } else {
            for (uint32_t r = 0; r < nranks; r++)   /* the table may be lost; then the rank has
                                                       none */
                if (s->members[r].machine.state == TT_RDV_HAVE_TABLE)
                    check_table(s, &s->members[r].machine, nranks);
            assert_int_equal(s->server.state, TT_RDV_COMPLETE);
        }
        sim_destroy(s);
    }
}

/* Checks "k of n ranks came", with the list of missing ranks, computed independently. */
static void expect_sentence(uint32_t nranks, const bool *gone, const char *sentence)
{
    char expected[300], list[256] = "";
    uint32_t came = 0;
    size_t n = 0;

    for (uint32_t r = 0; r < nranks; r++) {
        came += !gone[r];
        if (gone[r] && (r == 0 || !gone[r - 1])) {
            uint32_t last = r;

            while (last + 1 < nranks && gone[last + 1])
                last++;
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%u", n ? ", " : "", r);
            if (last > r)
                n += (size_t)snprintf(list + n, sizeof list - n, "-%u", last);
        }
    }
    snprintf(expected, sizeof expected, "%u of %u ranks joined within ", came, nranks);
    assert_non_null(strstr(sentence, expected));
    snprintf(expected, sizeof expected, "missing: %s", list);
    assert_non_null(strstr(sentence, expected));
}

static void deadline_reports_all_missing_ranks(void **state)
{
    int heard = 0;

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, 300));) {
        struct sim *s = sim_create(seed, 0);
        const uint32_t nranks = 2 + (uint32_t)tt_prng_below(&s->w.prng, 15);
        bool gone[MEMBERS_MAX] = { false };

        print_message("seed %llu, %u ranks\n", (unsigned long long)seed, nranks);
        gone[tt_prng_below(&s->w.prng, nranks)] = true;
        for (uint32_t r = 0; r < nranks; r++)
            gone[r] |= tt_prng_below(&s->w.prng, 4) == 0;
        gone[tt_prng_below(&s->w.prng, nranks)] = true;
        for (uint32_t r = 0; r < nranks; r++) {
            const bool never = gone[r] && tt_prng_below(&s->w.prng, 2);
            int m;

            if (never)
                continue;
            m = add_member(s, r, nranks, "token", tt_prng_below(&s->w.prng, TT_SECOND));
            if (gone[r])    /* comes, or is connecting, and dies before all could have come */
                world_plan(&s->w, tt_prng_below(&s->w.prng, TT_SECOND), DIE, m, 0, NULL, 0);
        }
        add_strangers(s, 10);
        /* If all had connected before one died, there is a table, which is correct. */
        run(s);
        for (int i = 0; i < s->nmembers; i++) {
            const struct member *m = &s->members[i];

            if (m->dead || s->server.state == TT_RDV_COMPLETE)
                continue;
            assert_int_equal(m->machine.state, TT_RDV_MEMBER_REFUSED);
            assert_int_equal(m->machine.status, TUTTI_ERR_TIMEOUT);
            assert_true(m->ended_ns >= PATIENCE_NS && m->ended_ns < PATIENCE_NS + TT_SECOND);
            expect_sentence(nranks, gone, m->machine.sentence);
            heard++;
        }
        sim_destroy(s);
    }
    assert_true(heard > 0);
}

static void duplicate_rank_is_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, 100));) {
        struct sim *s = sim_create(seed, 0);
        const uint32_t nranks = 2 + (uint32_t)tt_prng_below(&s->w.prng, 8);
        const uint32_t twice = (uint32_t)tt_prng_below(&s->w.prng, nranks);
        int refused = 0, met = 0;

        print_message("seed %llu\n", (unsigned long long)seed);
        add_member(s, twice, nranks, "token", tt_prng_below(&s->w.prng, TT_SECOND));
        for (uint32_t r = 0; r < nranks; r++)   /* the last rank waits until both have certainly
                                                   connected */
            add_member(s, r, nranks, "token",
                       r == (twice + 1) % nranks ? 2 * TT_SECOND
                                                 : tt_prng_below(&s->w.prng, TT_SECOND));
        run(s);
        for (int i = 0; i < s->nmembers; i++) {
            const struct tt_rdv_member *m = &s->members[i].machine;

            met += m->state == TT_RDV_HAVE_TABLE;
            if (m->state == TT_RDV_MEMBER_REFUSED) {
                assert_non_null(strstr(m->sentence, "joined twice"));
                assert_int_equal(m->rank, twice);
                refused++;
            }
        }
        assert_int_equal(met, nranks);
        assert_int_equal(refused, 1);
        sim_destroy(s);
    }
}

static void wrong_token_or_size_is_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, 100));) {
        struct sim *s = sim_create(seed, 3);
        int token, number;

        print_message("seed %llu\n", (unsigned long long)seed);
        token = add_member(s, 2, 3, "tokem", 0);
        number = add_member(s, 2, 4, "token", 0);
        for (uint32_t r = 0; r < 3; r++)
            add_member(s, r, 3, "token", tt_prng_below(&s->w.prng, TT_SECOND) + 100 * TT_MS);
        run(s);
        assert_int_equal(s->members[token].machine.state, TT_RDV_MEMBER_REFUSED);
        assert_false(s->members[token].machine.final);
        assert_int_equal(s->members[number].machine.state, TT_RDV_MEMBER_REFUSED);
        assert_non_null(strstr(s->members[number].machine.sentence, "4 ranks, but the job has 3"));
        for (int i = 2; i < 5; i++)
            check_table(s, &s->members[i].machine, 3);
        sim_destroy(s);
    }
}

static bool is_odd_or_above_20(const void *context, uint32_t rank)
{
    (void)context;
    return rank % 2 == 1 || rank > 20;
}

static void rank_list_has_ranges_and_end(void **state)
{
    char list[160];

    (void)state;
    tt_rdv_name_ranks(list, sizeof list, 8, is_odd_or_above_20, NULL);
    assert_string_equal(list, "1, 3, 5, 7");
    tt_rdv_name_ranks(list, sizeof list, 100, is_odd_or_above_20, NULL);
    assert_string_equal(list, "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21-99");
    tt_rdv_name_ranks(list, 60, 21, is_odd_or_above_20, NULL);
    assert_string_equal(list, "1, 3, 5, 7, 9 and 5 more");
    tt_rdv_name_ranks(list, sizeof list, 1, is_odd_or_above_20, NULL);
    assert_string_equal(list, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_one_table_despite_faults),
        cmocka_unit_test(deadline_reports_all_missing_ranks),
        cmocka_unit_test(duplicate_rank_is_refused),
        cmocka_unit_test(wrong_token_or_size_is_refused),
        cmocka_unit_test(rank_list_has_ranges_and_end),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
