/* The ofi wire with several endpoints for bulk data to a peer: which of them carries what, and that no order depends on it. */
#include "support/unit.h"

#ifdef TUTTI_HAVE_OFI

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "nodes.h"
#include "wire/ofi.h"

#define KIB 1024ull
#define LANES 4
#define SLOTS 8u
#define SLOT_BYTES (1200 * KIB)     /* several writes, and a rest */
#define ROUNDS (UNIT_SHARE > 1 ? 2u : 10u)
#define SKIPPED 77

enum { ARRIVED, CHECKED };          /* words of the links */

static struct setting setting = { .ops = &tt_wire_ofi, .lanes = LANES };

/* What rank 0 puts to rank 1: each message says its number when it has come. */
struct flow {
    struct tt_rkey there;
    struct tt_region *mine, *source;
    struct tt_ofi_lane *data;
};

/* Links are up, and all endpoints have met. */
static void begin(struct node *n, struct flow *f)
{
    node_open(n);
    node_connect_all(n);
    f->data = &((struct tt_ofi_link *)tt_sparse_get(&tt_ofi_of(n->w)->links, !n->rank))->lanes[TT_OFI_DATA];
    CHECK(n, f->data->nboth == LANES);
    UNTIL(n, !tt_ofi_ends_wait(f->data));
    CHECK(n, n->ops->reg(n->w, NULL, SLOTS * SLOT_BYTES, &f->mine) == TUTTI_OK);
    CHECK(n, n->ops->reg(n->w, NULL, SLOTS * SLOT_BYTES, &f->source) == TUTTI_OK);
    node_share(n, 0, f->mine);
    node_barrier(n);
    f->there = node_import(n, !n->rank, 0);
}

static uint64_t salt(uint32_t round, uint32_t slot)
{
    return 100ull * round + slot;
}

/* lane: as tt_desc has it, with its flags. Short ones are among them. */
static void send_round(struct node *n, struct flow *f, uint32_t round, uint8_t lane, uint32_t flags)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct tt_desc d = node_signal(n, 1, ARRIVED, TT_SIGNAL_SET, round * SLOTS + i + 1);

        d.local = (uint8_t *)f->source->mem + i * SLOT_BYTES;
        d.bytes = i % 4 == 3 ? 100 * i : SLOT_BYTES - 1000 * i;
        d.key = &f->there;
        d.offset = i * SLOT_BYTES;
        d.flags = flags;
        d.lane = lane;
        pattern_fill(d.local, d.bytes, salt(round, i));
        node_post(n, &d);
    }
}

/* Numbers come in order, each with its bytes. */
static void check_round(struct node *n, struct flow *f, uint32_t round)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        const uint64_t bytes = i % 4 == 3 ? 100 * i : SLOT_BYTES - 1000 * i, number = round * SLOTS + i + 1;

        UNTIL(n, node_word(n, 0, ARRIVED) >= number);
        CHECK(n, pattern_differs((uint8_t *)f->mine->mem + i * SLOT_BYTES, bytes, salt(round, i)) == bytes);
    }
    CHECK(n, node_word(n, 0, ARRIVED) == (round + 1) * SLOTS);
    node_tell(n, 0, CHECKED, TT_SIGNAL_SET, round + 1);
}

static void one_round(struct node *n, struct flow *f, uint32_t round, uint8_t lane, uint32_t flags)
{
    if (n->rank == 1) {
        check_round(n, f, round);
        return;
    }
    send_round(n, f, round, lane, flags);
    UNTIL(n, node_word(n, 1, CHECKED) == round + 1);
}

static void spread_role(struct node *n)
{
    struct flow f;

    begin(n, &f);
    for (uint32_t round = 0; round < ROUNDS; round++)
        one_round(n, &f, round, 0, 0);
    for (uint32_t i = 0; i < LANES && n->rank == 0; i++)
        CHECK(n, f.data->end[i].writes > 0 && f.data->end[i].bytes > 0);
    node_barrier(n);
}

static void writes_are_dealt_out_over_all_lanes_and_messages_keep_their_order(void **state)
{
    (void)state;
    nodes_run(&setting, 2, spread_role);
}

static void named_role(struct node *n)
{
    uint64_t before[LANES];
    struct flow f;

    begin(n, &f);
    for (uint32_t round = 0; round < LANES; round++) {
        for (uint32_t i = 0; i < LANES; i++)
            before[i] = f.data->end[i].writes;
        one_round(n, &f, round, (uint8_t)(1 + round), 0);
        for (uint32_t i = 0; i < LANES && n->rank == 0; i++)
            CHECK(n, (f.data->end[i].writes > before[i]) == (i == round));
    }
    for (uint32_t i = 0; i < LANES; i++)
        before[i] = f.data->end[i].writes;
    one_round(n, &f, LANES, 2, TT_DESC_FEW_LANES);
    for (uint32_t i = 0; i < LANES && n->rank == 0; i++)
        CHECK(n, (f.data->end[i].writes > before[i]) == (i < 2));
    node_barrier(n);
}

static void a_put_keeps_to_the_lane_or_the_first_few_that_it_names(void **state)
{
    (void)state;
    nodes_run(&setting, 2, named_role);
}

/* Rank 0's endpoints end in the middle of a round, as if one had failed. */
static void mend_role(struct node *n)
{
    struct flow f;

    begin(n, &f);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (n->rank == 1) {
            check_round(n, &f, round);
            continue;
        }
        send_round(n, &f, round, 0, 0);
        f.data->link->broken = true;
        UNTIL(n, node_word(n, 1, CHECKED) == round + 1);
    }
    CHECK(n, f.data->link->incarnation > 1);
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
}

static void endpoints_that_fail_lose_and_double_nothing(void **state)
{
    (void)state;
    nodes_run(&setting, 2, mend_role);
}

/* In a process of its own: what a provider leaves running stays there. */
static bool has_lanes(void)
{
    const struct tt_wire_conf conf = { .nranks = 1, .secret = node_secret, .link_bytes = 4096, .lanes = LANES };
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        struct tt_wire *w;
        bool good;

        if (tt_wire_ofi.open(&w, &conf) != TUTTI_OK)
            _exit(1);
        good = tt_ofi_of(w)->nends == LANES;
        printf("%s\n", w->about);
        fflush(stdout);
        tt_wire_ofi.close(w);
        _exit(good ? 0 : 2);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_are_dealt_out_over_all_lanes_and_messages_keep_their_order),
        cmocka_unit_test(a_put_keeps_to_the_lane_or_the_first_few_that_it_names),
        cmocka_unit_test(endpoints_that_fail_lose_and_double_nothing),
    };

    if (!has_lanes()) {
        puts("no provider of libfabric here has several lanes");
        return SKIPPED;
    }
    setting.seed = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77;                  /* no libfabric here, and no ofi wire in the library */
}

#endif
