/* The verbs transport: when lanes and rails fail, no byte is lost or duplicated, messages keep
 * their order, and a peer is lost only when no rail remains; and the number of doorbells per post.
 * Needs real devices, as in scripts/rdma-vm. Skipped without devices; tests of rails are skipped if
 * no interface can be taken down.
 *
 * TUTTI_TEST_SEED replays the random choices of a run. */
#include "nodes.h"
#include "support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

#define SKIPPED 77

#if TUTTI_HAVE_VERBS

#include "wire/verbs/verbs.h"

#define KIB 1024ull
#define SLOTS 8u
#define SLOT_BYTES (640 * KIB)      /* several segments */
#define LANES 4

static struct setting setting = { .ops = &tt_wire_verbs, .lanes = LANES };
static struct setting one_lane = { .ops = &tt_wire_verbs, .lanes = 1 };

/* ---- rounds of puts around a ring of ranks ---- */

enum { ARRIVED, CHECKED };      /* words of the links */

static uint64_t slot_bytes(const struct node *n, uint32_t sender, uint32_t round, uint32_t slot)
{
    struct tt_prng p;

    tt_prng_init(&p, n->setting->seed + 1000ull * sender + 100ull * round + slot);
    switch (tt_prng_below(&p, 4)) {
    case 0:
        return tt_prng_below(&p, 100);
    case 1:
        return tt_prng_below(&p, 64 * KIB);
    default:
        return tt_prng_below(&p, SLOT_BYTES);
    }
}

static uint64_t salt(uint32_t sender, uint32_t round, uint32_t slot)
{
    return 31ull * sender + 1000ull * round + slot;
}

/* Sends the messages of a round to the right neighbour, each with its number as signal. Calls
 * fault() after each message. */
static void round_send(struct node *n, uint32_t right, const struct tt_rkey *there, uint8_t *source,
                       uint32_t round, void (*fault)(struct node *, uint32_t round, uint32_t slot))
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct tt_desc d = node_signal(n, right, ARRIVED, TT_SIGNAL_SET, round * SLOTS + i + 1);

        d.bytes = slot_bytes(n, n->rank, round, i);
        d.local = source + i * SLOT_BYTES;
        d.key = there;
        d.offset = i * SLOT_BYTES;
        d.flags = d.bytes < 32 * KIB && i % 2 ? TT_DESC_INLINE : 0;
        pattern_fill(d.local, d.bytes, salt(n->rank, round, i));
        node_post(n, &d);
        fault(n, round, i);
    }
}

/* Signals arrive in order; when the last one has arrived, all bytes have. */
static void round_check(struct node *n, uint32_t left, const uint8_t *mem, uint32_t round)
{
    const uint64_t last = (round + 1) * SLOTS;

    for (uint64_t seen = round * SLOTS; seen < last;) {
        const uint64_t now = node_word(n, left, ARRIVED);

        CHECK(n, now >= seen && now <= last);
        seen = now;
        UNTIL(n, seen == last || node_word(n, left, ARRIVED) != seen);
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        const uint64_t bytes = slot_bytes(n, left, round, i);

        CHECK(n, pattern_differs(mem + i * SLOT_BYTES, bytes, salt(left, round, i)) == bytes);
    }
    node_post_signal(n, left, CHECKED, TT_SIGNAL_SET, round + 1);
}

static void rounds(struct node *n, uint32_t nrounds,
                   void (*fault)(struct node *, uint32_t round, uint32_t slot))
{
    const uint32_t right = (n->rank + 1) % n->nranks, left = (n->rank + n->nranks - 1) % n->nranks;
    struct tt_region *mine, *source;
    struct tt_rkey there;

    node_open(n);
    node_connect_all(n);
    CHECK(n, n->ops->reg(n->w, NULL, SLOTS * SLOT_BYTES, &mine) == TUTTI_OK);
    CHECK(n, n->ops->reg(n->w, NULL, SLOTS * SLOT_BYTES, &source) == TUTTI_OK);
    node_share(n, 0, mine);
    node_barrier(n);
    there = node_import(n, right, 0);
    for (uint32_t round = 0; round < nrounds; round++) {
        round_send(n, right, &there, source->mem, round, fault);
        round_check(n, left, mine->mem, round);
        UNTIL(n, node_word(n, right, CHECKED) == round + 1);
    }
    for (uint32_t peer = 0; peer < n->nranks; peer++)
        CHECK(n, n->losses[peer] == 0);
    node_barrier(n);
}

static struct tt_verbs_link *link_to_right(struct node *n)
{
    return tt_sparse_get(&tt_verbs_of(n->w)->base.links, (n->rank + 1) % n->nranks);
}

/* ---- lanes ---- */

static void leave_alone(struct node *n, uint32_t round, uint32_t slot)
{
    (void)n;
    (void)round;
    (void)slot;
}

/* All lanes carry data, over all rails. */
static void spread_role(struct node *n)
{
    bool rails[TT_VERBS_RAILS] = { false };
    struct tt_verbs_link *link;

    rounds(n, 4, leave_alone);
    link = link_to_right(n);
    CHECK(n, link->nlanes == 1 + LANES);
    for (uint32_t i = 0; i < link->nlanes; i++) {
        CHECK(n, link->lanes[i].posts.n > 0 || i == 0);
        CHECK(n, link->lanes[i].session.incarnation == 1);
        rails[link->lanes[i].rail] = true;
    }
    for (uint32_t i = 0; i < link->verbs->nrails; i++)
        CHECK(n, rails[i]);
}

static void segments_use_all_lanes_and_rails(void **state)
{
    nodes_run(*state, 2, spread_role);
}

/* Puts a queue pair to the neighbour, possibly that of control messages, into the error state, as
 * the device does after an error. Its next completion reports the error; if nothing is posted on it
 * any more, the neighbour detects it. */
static void break_a_lane(struct node *n, uint32_t round, uint32_t slot)
{
    struct tt_verbs_link *link = link_to_right(n);
    struct tt_verbs_lane *lane = &link->lanes[tt_prng_below(&n->prng, link->nlanes)];

    const bool silently = n->rank == 0 && round == 8 && slot == 0;

    if ((!silently && (round + slot + n->rank) % 5) || lane->state != TT_VERBS_LANE_UP)
        return;
    tt_verbs_qp_stop(lane);
    if (!silently)
        tt_verbs_lane_probe(lane);
}

static void broken_role(struct node *n)
{
    uint32_t incarnations = 0;

    rounds(n, 16, break_a_lane);
    for (uint32_t i = 0; i < link_to_right(n)->nlanes; i++)
        incarnations += link_to_right(n)->lanes[i].session.incarnation;
    CHECK(n, incarnations > 1 + LANES);     /* some queue pairs have failed */
}

static void broken_lane_loses_nothing(void **state)
{
    nodes_run(*state, 3, broken_role);
}

static bool all_lanes_up(struct node *n)
{
    for (uint32_t i = 0; i < link_to_right(n)->nlanes; i++)
        if (link_to_right(n)->lanes[i].state != TT_VERBS_LANE_UP)
            return false;
    return true;
}

/* As if the network had lost all data of both ends: each end has already retried its lanes, and one
 * of them fails now. */
static void failed_before_role(struct node *n)
{
    struct tt_verbs_link *link;

    node_open(n);
    node_connect_all(n);
    link = link_to_right(n);
    UNTIL(n, all_lanes_up(n));
    node_barrier(n);
    for (uint32_t i = 0; i < link->nlanes; i++)
        link->lanes[i].setbacks = 2;
    node_barrier_idle(n);
    if (n->rank == 0)
        tt_verbs_lane_mark(&link->lanes[LANES]);
    UNTIL(n, link->lanes[LANES].session.incarnation > 1);
    UNTIL(n, all_lanes_up(n));
    node_barrier(n);
}

static void lane_failed_at_both_ends_recovers(void **state)
{
    nodes_run(*state, 2, failed_before_role);
}

static int (*true_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static uint32_t refusals;

/* The device refuses one post. */
static int refuse(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    qp->context->ops.post_send = true_post;
    refusals++;
    *bad = wr;
    return ENOMEM;
}

static void refuse_a_post(struct node *n, uint32_t round, uint32_t slot)
{
    struct ibv_context *device = tt_verbs_of(n->w)->rail[round % tt_verbs_of(n->w)->nrails].context;

    if ((round + slot) % 5 || device->ops.post_send == refuse)
        return;
    true_post = device->ops.post_send;
    device->ops.post_send = refuse;
}

static void refused_role(struct node *n)
{
    rounds(n, 16, refuse_a_post);
    CHECK(n, refusals > 0);
}

static void refused_post_loses_nothing(void **state)
{
    nodes_run(*state, 2, refused_role);
}

/* ---- doorbells ---- */

#define ROWS_TRIES 20

/* Contents of one post. */
struct rows {
    uint32_t n, bytes;      /* each */
    uint32_t doorbells;     /* expected number */
};
#define ROWS_MAX 31
#define SHORT_BYTES (TT_VERBS_SLOT_BYTES - TT_RPUT_RECORD_BYTES)   /* sent with the record */

static struct rows rows;

static uint32_t doorbells;

static int count_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    doorbells++;
    return true_post(qp, wr, bad);
}

/* Posts n descriptors in one call, which accepts all. Returns the number of lists of work requests
 * that it passes to devices. */
static uint32_t doorbells_of(struct node *n, const struct tt_desc *d, int ndesc)
{
    const struct tt_verbs *v = tt_verbs_of(n->w);

    doorbells = 0;
    for (uint32_t i = 0; i < v->nrails; i++) {
        true_post = v->rail[i].context->ops.post_send;
        v->rail[i].context->ops.post_send = count_post;
    }
    CHECK(n, n->ops->post(n->w, d, ndesc) == ndesc);
    for (uint32_t i = 0; i < v->nrails; i++)
        v->rail[i].context->ops.post_send = true_post;
    return doorbells;
}

/* Rank 0 posts rows, with a signal after the last one. Some tries may differ: an additional list
 * acknowledges received data, and a full lane, e.g. while its peer waits for a core, gets its rows
 * later. */
static void doorbell_role(struct node *n)
{
    uint32_t told[2 * ROWS_MAX] = { 0 }, usual = 0;
    struct tt_region *mine, *from;
    struct tt_rkey there;
    uint8_t *source;

    node_open(n);
    node_connect_all(n);
    CHECK(n, n->ops->reg(n->w, NULL, rows.n * rows.bytes, &mine) == TUTTI_OK);
    CHECK(n, n->ops->reg(n->w, NULL, rows.n * rows.bytes, &from) == TUTTI_OK);
    source = from->mem;
    node_share(n, 0, mine);
    node_barrier(n);
    there = node_import(n, !n->rank, 0);
    for (uint64_t k = 1; k <= ROWS_TRIES; k++) {
        struct tt_desc d[ROWS_MAX];

        if (n->rank == 1) {
            UNTIL(n, node_word(n, 0, ARRIVED) == k);
            CHECK(n, pattern_differs(mine->mem, rows.n * rows.bytes, k) == rows.n * rows.bytes);
            node_post_signal(n, 0, CHECKED, TT_SIGNAL_SET, k);
            continue;
        }
        pattern_fill(source, rows.n * rows.bytes, k);
        for (uint32_t i = 0; i < rows.n; i++) {
            d[i] = node_signal(n, 1, ARRIVED, i == rows.n - 1 ? TT_SIGNAL_SET : TT_SIGNAL_NONE, k);
            d[i].flags = rows.bytes > SHORT_BYTES ? 0 : TT_DESC_INLINE;
            d[i].bytes = rows.bytes;
            d[i].local = source + (size_t)i * rows.bytes;
            d[i].key = &there;
            d[i].offset = (size_t)i * rows.bytes;
        }
        CHECK(n, doorbells_of(n, d, (int)rows.n) < 2 * ROWS_MAX);
        told[doorbells]++;
        usual = told[doorbells] > told[usual] ? doorbells : usual;
        UNTIL(n, node_word(n, 1, CHECKED) == k);
    }
    if (n->rank == 0)
        CHECK(n, usual == rows.doorbells);
    node_barrier(n);
}

static void short_rows_need_one_doorbell(void **state)
{
    rows = (struct rows){ .n = ROWS_MAX, .bytes = SHORT_BYTES, .doorbells = 1 };
    nodes_run(*state, 2, doorbell_role);
}

/* Each row needs a write and a record; one list has space for all rows of a lane. */
static void each_lane_needs_one_doorbell(void **state)
{
    const struct setting *s = *state;

    rows = (struct rows){ .n = 15, .bytes = 1024, .doorbells = s->lanes };
    nodes_run(s, 2, doorbell_role);
}

/* ---- sources ---- */

/* Returns whether only the lane `held` has outstanding segments. */
static bool all_but_one_have_come(const struct tt_verbs_stream *s, uint32_t held)
{
    for (uint32_t i = 0; i < s->nlanes; i++)
        if (s->sender.lanes.lane[i].outstanding != (i == held))
            return false;
    return s->sent == s->q.tail;
}

/* Sends messages that use every slot twice: first with a payload that starts like a void marker,
 * then without payload. */
static void fill_the_slots(struct node *n, const struct tt_rkey *there, uint8_t *source)
{
    memset(source, TT_RPUT_VOID, SLOT_BYTES);
    for (uint32_t i = 0; i < 2 * TT_VERBS_SLOTS; i++) {
        struct tt_desc d = node_signal(n, 1, ARRIVED, TT_SIGNAL_ADD, 1);

        d.flags = i < TT_VERBS_SLOTS ? TT_DESC_INLINE : 0;
        d.bytes = i < TT_VERBS_SLOTS ? 8 : SLOT_BYTES / 16;
        d.local = source;
        d.key = there;
        node_post(n, &d);
    }
}

/* A message has a segment on each lane. Rank 1 drops the first one, receives the others, with the
 * record in the last one, and polls only when the source is revoked. */
static void void_role(struct node *n)
{
    const uint64_t marker = 1000;
    struct tt_verbs_stream *s;
    struct tt_region *mine, *source, *other;
    struct tt_rkey there;
    uint32_t held;

    node_open(n);
    node_connect_all(n);
    s = &link_to_right(n)->streams[TT_RPUT_DATA];
    CHECK(n, n->ops->reg(n->w, NULL, SLOT_BYTES, &mine) == TUTTI_OK);
    CHECK(n, n->ops->reg(n->w, NULL, SLOT_BYTES, &source) == TUTTI_OK);
    CHECK(n, n->ops->reg(n->w, NULL, SLOT_BYTES, &other) == TUTTI_OK);
    node_share(n, 0, mine);
    for (uint32_t i = 0; i < s->nlanes; i++)
        UNTIL(n, s->lane[i].state == TT_VERBS_LANE_UP);
    n->board->flag[n->rank] = s->sender.lanes.turn[s->nlanes - 1];
    node_barrier(n);
    there = node_import(n, !n->rank, 0);
    held = n->board->flag[0];
    if (n->rank == 1)
        tt_verbs_qp_stop(&s->lane[held]);
    node_barrier_idle(n);
    if (n->rank == 0) {
        struct tt_desc d = node_signal(n, 1, ARRIVED, TT_SIGNAL_ADD, 1);

        d.flags = 0;
        d.bytes = LANES * s->sender.limits.segment_bytes;
        d.local = source->mem;
        d.key = &there;
        CHECK(n, s->nlanes == LANES && d.bytes <= SLOT_BYTES);
        node_post(n, &d);
        UNTIL(n, all_but_one_have_come(s, held));
        n->ops->dereg(source);
        node_post_signal(n, 1, ARRIVED, TT_SIGNAL_ADD, marker);
    }
    node_barrier_idle(n);
    if (n->rank == 1) {
        UNTIL(n, node_word(n, 0, ARRIVED) >= marker);
        CHECK(n, node_word(n, 0, ARRIVED) == marker);
    }
    node_barrier(n);
    if (n->rank == 0)
        fill_the_slots(n, &there, other->mem);
    else
        UNTIL(n, node_word(n, 0, ARRIVED) == marker + 2 * TT_VERBS_SLOTS);
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
}

static void revoked_source_is_not_signalled(void **state)
{
    nodes_run(*state, 2, void_role);
}

/* Sets the state of a source whose registration ended with that of another region, when there was
 * no memory for a separate one. */
static void registration_end(struct node *n, struct tt_region *public)
{
    struct tt_rput_region *r = (struct tt_rput_region *)public;

    tt_registry_put(tt_verbs_of(n->w)->base.regions.domain, r->pin, r->exposed);
    tt_verbs_of(n->w)->base.regions.last_source = NULL;
    r->pin = NULL;
    r->handle = NULL;
}

static void unregistered_role(struct node *n)
{
    const uint32_t peer = !n->rank;
    struct tt_region *mine, *source;
    struct tt_rkey there;

    node_open(n);
    node_connect_all(n);
    CHECK(n, n->ops->reg(n->w, NULL, SLOT_BYTES, &mine) == TUTTI_OK);
    node_share(n, 0, mine);
    node_barrier(n);
    there = node_import(n, peer, 0);
    if (n->rank == 0) {
        struct tt_desc d = node_signal(n, peer, ARRIVED, TT_SIGNAL_SET, 1);

        CHECK(n, n->ops->source(n->w, node_memory(n, SLOT_BYTES), SLOT_BYTES, &source) == TUTTI_OK);
        registration_end(n, source);
        d.flags = 0;
        d.bytes = SLOT_BYTES;
        d.local = source->mem;
        d.key = &there;
        node_post(n, &d);
    }
    UNTIL(n, n->losses[peer] == 1);
    CHECK(n, n->why[peer] == (n->rank == 0 ? TUTTI_ERR_NOMEM : TUTTI_ERR_PEER_LOST));
    CHECK(n, node_word(n, peer, ARRIVED) == 0);
    node_barrier(n);
}

static void unregistrable_source_loses_its_peers(void **state)
{
    nodes_run(*state, 2, unregistered_role);
}

/* ---- rails ---- */

/* Takes the interface of that rail down or up; every process is notified of the change of its
 * device's port. */
static bool interface_set(const char *interface, const char *what)
{
    char command[96];

    snprintf(command, sizeof command, "ip link set %s %s >/dev/null 2>&1", interface, what);
    return system(command) == 0;
}

static const char *interface_of(struct node *n, uint32_t rail)
{
    return tt_verbs_of(n->w)->rail[rail].interface;
}

#define ROUNDS_PER_RAIL 4

/* Rank 0 takes each rail down in turn, in the middle of a round, and up again a round later; the
 * rounds in between use the other rail. */
static void pull_the_rails(struct node *n, uint32_t round, uint32_t slot)
{
    const uint32_t rail = round / ROUNDS_PER_RAIL % tt_verbs_of(n->w)->nrails;

    if (n->rank != 0 || slot != SLOTS / 2)
        return;
    if (round % ROUNDS_PER_RAIL == 0)
        CHECK(n, interface_set(interface_of(n, rail), "down"));
    else if (round % ROUNDS_PER_RAIL == 1)
        CHECK(n, interface_set(interface_of(n, rail), "up"));
}

static void rails_role(struct node *n)
{
    rounds(n, 4 * ROUNDS_PER_RAIL, pull_the_rails);
    UNTIL(n, all_lanes_up(n));      /* all lanes are up again */
    for (uint32_t i = 1; i < link_to_right(n)->nlanes; i++)
        CHECK(n, link_to_right(n)->lanes[i].session.incarnation > 1);
    node_barrier(n);
}

static void failed_rail_loses_nothing_and_recovers(void **state)
{
    nodes_run(*state, 2, rails_role);
    nodes_run(*state, 4, rails_role);
}

/* When no rail remains, the peer is lost; when rails are up again, new connections work. */
static void none_role(struct node *n)
{
    const uint32_t peer = !n->rank;

    node_open(n);
    node_connect_all(n);
    node_post_signal(n, peer, ARRIVED, TT_SIGNAL_SET, 1);
    UNTIL(n, node_word(n, peer, ARRIVED) == 1);
    node_barrier(n);
    for (uint32_t i = 0; n->rank == 0 && i < tt_verbs_of(n->w)->nrails; i++)
        CHECK(n, interface_set(interface_of(n, i), "down"));
    UNTIL(n, n->losses[peer] == 1);
    CHECK(n, n->why[peer] == TUTTI_ERR_PEER_LOST);
    node_barrier(n);
    for (uint32_t i = 0; n->rank == 0 && i < tt_verbs_of(n->w)->nrails; i++)
        CHECK(n, interface_set(interface_of(n, i), "up"));
    node_barrier(n);
}

static void peer_is_lost_without_rails(void **state)
{
    nodes_run(*state, 2, none_role);
    nodes_run(*state, 2, spread_role);
}

/* ---- available devices ---- */

/* Returns whether there are two rails whose interfaces may be taken down: only dummy interfaces, so
 * that no real network is affected. */
static bool has_rails_to_pull(void)
{
    const struct tt_wire_conf conf = { .nranks = 1, .secret = node_secret, .link_bytes = 4096 };
    struct tt_wire *w;
    bool good = false;

    if (tt_wire_verbs.open(&w, &conf) != TUTTI_OK)
        return false;
    if (tt_verbs_of(w)->nrails == 2)
        good = strncmp(tt_verbs_of(w)->rail[0].interface, "dummy", 5) == 0 &&
               strncmp(tt_verbs_of(w)->rail[1].interface, "dummy", 5) == 0 &&
               interface_set(tt_verbs_of(w)->rail[0].interface, "up");
    tt_wire_verbs.close(w);
    return good;
}

static bool has_device(void)
{
    const struct tt_wire_conf conf = { .nranks = 1, .secret = node_secret, .link_bytes = 4096 };
    struct tt_wire *w;

    if (tt_wire_verbs.open(&w, &conf) != TUTTI_OK)
        return false;
    tt_wire_verbs.close(w);
    return true;
}

static bool has(const struct CMUnitTest *tests, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(tests[i].name, name) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest of_lanes[] = {
        cmocka_unit_test_prestate(segments_use_all_lanes_and_rails, &setting),
        cmocka_unit_test_prestate(broken_lane_loses_nothing, &setting),
        cmocka_unit_test_prestate(lane_failed_at_both_ends_recovers, &setting),
        cmocka_unit_test_prestate(refused_post_loses_nothing, &setting),
        { "short_rows_need_one_doorbell: one lane", short_rows_need_one_doorbell, NULL,
          NULL, &one_lane },
        { "short_rows_need_one_doorbell: lanes", short_rows_need_one_doorbell, NULL,
          NULL, &setting },
        { "each_lane_needs_one_doorbell: one lane",
          each_lane_needs_one_doorbell, NULL, NULL, &one_lane },
        { "each_lane_needs_one_doorbell: lanes",
          each_lane_needs_one_doorbell, NULL, NULL, &setting },
        cmocka_unit_test_prestate(revoked_source_is_not_signalled, &setting),
        cmocka_unit_test_prestate(unregistrable_source_loses_its_peers, &setting),
    };
    const struct CMUnitTest of_rails[] = {
        cmocka_unit_test_prestate(failed_rail_loses_nothing_and_recovers, &setting),
        cmocka_unit_test_prestate(peer_is_lost_without_rails, &setting),
    };
    const char *seed = getenv("TUTTI_TEST_SEED");
    int failed;

    if (argc > 1) {
        if (!has(of_lanes, sizeof of_lanes / sizeof *of_lanes, argv[1]) &&
            !has(of_rails, sizeof of_rails / sizeof *of_rails, argv[1])) {
            fprintf(stderr, "there is no test %s\n", argv[1]);
            return 2;
        }
        cmocka_set_test_filter(argv[1]);
    }
    one_lane.seed = setting.seed = seed ? strtoull(seed, NULL, 0) : tt_now_ns();
    if (!has_device()) {
        printf("%s\n", tutti_last_error());
        return SKIPPED;
    }
    failed = cmocka_run_group_tests(of_lanes, NULL, NULL);
    if (has_rails_to_pull())
        failed += cmocka_run_group_tests(of_rails, NULL, NULL);
    else
        printf("rails are left out: there are no two of them on dummy interfaces that this process "
               "may take down\n");
    return failed;
}

#else

int main(void)
{
    printf("this build is without libibverbs\n");
    return SKIPPED;
}

#endif
