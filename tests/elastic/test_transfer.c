/* The transfer of arrays: several state machines in one process. Messages arrive in any order, are
 * corrupted or false, or are lost with their sender. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/prng.h"
#include "elastic/transfer.h"

#define NODES 5u
#define ARRAYS 6u
#define MESSAGES 1024u
#define PATIENCE_NS TT_SECOND
#define FULL (TT_TRANSFER_HEAD_BYTES + TT_HASH_BLOCK_BYTES)

static const uint64_t sizes[ARRAYS] = { 100, 5 * TT_HASH_BLOCK_BYTES + 7, 0,
                                        1,   3 * TT_HASH_BLOCK_BYTES,     40 };

struct node {
    struct tt_transfer t;
    struct tt_transfer_item items[ARRAYS];
    struct tt_hash hashes[ARRAYS];
    uint8_t list[16 * ARRAYS], coming[16 * ARRAYS];
    uint8_t *data[ARRAYS], *stages[ARRAYS];
    uint8_t vote;
    uint32_t votes;
    bool dead, mute, no_memory;
    uint64_t staged;
};

struct message {
    uint32_t from, to;
    size_t bytes;
    uint8_t data[FULL];
};

static struct fixture {
    struct node nodes[NODES];
    struct message *messages;
    uint32_t n;
    struct tt_prng prng;
    uint64_t spoil_one_in, spoilt, now_ns;
} f;

static void *stage(void *context, uint32_t array, uint64_t bytes)
{
    struct node *node = context;

    assert_int_equal(bytes, sizes[array]);
    node->staged += bytes;
    return node->no_memory ? NULL : node->stages[array];
}

static void on_act(void *context, const struct tt_transfer_act *act)
{
    struct node *node = context;
    struct message *m = &f.messages[f.n];

    if (act->kind == TT_TRANSFER_ACT_VOTE) {
        node->vote = act->vote;
        node->votes++;
        assert_true((act->text == NULL) == (act->vote == TT_SYNC_GOT));
        return;
    }
    assert_true(f.n < MESSAGES && act->head_bytes + act->body_bytes <= FULL);
    m->from = (uint32_t)(node - f.nodes);
    m->to = act->rank;
    m->bytes = act->head_bytes + act->body_bytes;
    memcpy(m->data, act->head, act->head_bytes);
    if (act->body_bytes > 0)
        memcpy(m->data + act->head_bytes, act->body, act->body_bytes);
    if (act->body_bytes > 0 && f.spoil_one_in && tt_prng_below(&f.prng, f.spoil_one_in) == 0) {
        m->data[act->head_bytes + tt_prng_below(&f.prng, act->body_bytes)] ^= 1;
        f.spoilt++;
    }
    if (!node->mute)
        f.n++;
}

static void list_of(struct node *node)
{
    struct tt_sync_array arrays[ARRAYS] = { { .bytes = 0 } };

    arrays[5].may_differ = true;
    for (uint32_t a = 0; a < ARRAYS; a++)
        node->hashes[a] = tt_hash_of(node->data[a], sizes[a]);
    tt_sync_list(node->list, arrays, node->hashes, ARRAYS);
}

/* Nodes 0..2 have the same data; the other nodes have other data, except in arrays 2 and 3. Array 5
 * differs on each node. */
static void begin(uint64_t seed)
{
    struct message *messages = f.messages ? f.messages : malloc(MESSAGES * sizeof *messages);

    assert_non_null(messages);
    for (uint32_t i = 0; i < NODES; i++)
        for (uint32_t a = 0; a < ARRAYS; a++) {
            free(f.nodes[i].data[a]);
            free(f.nodes[i].stages[a]);
        }
    f = (struct fixture){ .messages = messages, .now_ns = 1 };
    tt_prng_init(&f.prng, seed);
    for (uint32_t i = 0; i < NODES; i++) {
        struct node *node = &f.nodes[i];
        struct tt_transfer_conf conf = { .scope = 1,
                                         .epoch = 3,
                                         .number = 2,
                                         .narrays = ARRAYS,
                                         .items = node->items,
                                         .list = node->list,
                                         .coming = node->coming,
                                         .piece_bytes = TT_HASH_BLOCK_BYTES,
                                         .patience_ns = PATIENCE_NS,
                                         .stage = stage,
                                         .emit = on_act,
                                         .context = node };

        for (uint32_t a = 0; a < ARRAYS; a++) {
            node->data[a] = malloc(sizes[a] + 1);
            node->stages[a] = malloc(sizes[a] + 1);
            assert_true(node->data[a] && node->stages[a]);
            for (uint64_t k = 0; k < sizes[a]; k++)
                node->data[a][k] = (uint8_t)(k * 7 + a + (a == 5 ? i : a == 3 ? 0 : i > 2));
            node->items[a] = (struct tt_transfer_item){ .bytes = sizes[a], .data = node->data[a] };
        }
        list_of(node);
        tt_transfer_init(&node->t, &conf, f.now_ns);
    }
}

static struct tt_hash won(void)
{
    return tt_sync_content(f.nodes[0].list, ARRAYS);
}

/* Delivers the pending messages one by one, in random order; at most `most`. */
static void deliver(uint32_t most)
{
    while (f.n > 0 && most-- > 0) {
        const uint32_t at = (uint32_t)tt_prng_below(&f.prng, f.n);
        struct message *m = malloc(sizeof *m);

        assert_non_null(m);
        *m = f.messages[at];
        f.messages[at] = f.messages[--f.n];
        if (!f.nodes[m->to].dead && !f.nodes[m->from].dead)
            assert_true(tt_transfer_peer(&f.nodes[m->to].t, m->from, m->data, m->bytes, f.now_ns));
        free(m);
    }
}

static void plan(uint32_t receiver, const uint32_t *holders, uint32_t n)
{
    const struct tt_hash content = won();

    for (uint32_t i = 0; i < 3; i++)
        if (f.nodes[i].t.part == TT_SYNC_PART_NONE)
            tt_transfer_plan(&f.nodes[i].t, TT_SYNC_HOLDS, &content, NULL, 0, f.now_ns);
    tt_transfer_plan(&f.nodes[receiver].t, TT_SYNC_RECEIVES, &content, holders, n, f.now_ns);
}

static void assert_got(uint32_t i)
{
    assert_int_equal(f.nodes[i].vote, TT_SYNC_GOT);
    for (uint32_t a = 0; a < ARRAYS; a++) {
        assert_true(f.nodes[i].items[a].here);
        if (f.nodes[i].items[a].stage)
            assert_memory_equal(f.nodes[i].stages[a], f.nodes[0].data[a], sizes[a]);
    }
    /* only the differing arrays */
    assert_int_equal(f.nodes[i].staged, sizes[0] + sizes[1] + sizes[4]);
}

static const uint32_t all[] = { 0, 1, 2, 3 };

static void only_differences_are_transferred(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        begin(seed);
        plan(4, all, 3);
        deliver(UINT32_MAX);
        assert_got(4);
        assert_int_equal(f.nodes[4].t.bytes_received, 16 * ARRAYS + f.nodes[4].staged);
        for (uint32_t i = 0; i < 3; i++)
            assert_true(f.nodes[i].t.bytes_sent > 0);
        for (uint64_t k = 0; k < sizes[0]; k++)
            /* the original is unchanged */
            assert_int_equal(f.nodes[4].data[0][k], (uint8_t)(k * 7 + 1));
    }
}

static void corrupted_piece_is_requested_again(void **state)
{
    uint64_t spoilt = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        begin(seed);
        f.spoil_one_in = 12;
        plan(4, all, 3);
        deliver(UINT32_MAX);
        spoilt += f.spoilt;
        assert_got(4);
    }
    assert_true(spoilt > 20);
}

static void dead_holder_is_replaced(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        begin(seed);
        plan(4, (uint32_t[]){ 0, 1 }, 2);
        deliver((uint32_t)(seed % 20));
        f.nodes[seed % 2].dead = true;
        deliver(UINT32_MAX);
        if (f.nodes[4].vote != TT_SYNC_GOT)
            plan(4, (uint32_t[]){ 1 - (uint32_t)(seed % 2), 2 }, 2);
        deliver(UINT32_MAX);
        assert_got(4);
    }
}

static void silent_holder_is_not_queried_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        begin(seed);
        f.nodes[seed % 3].mute = true;
        plan(4, all, 3);
        for (int i = 0; i < 4 && f.nodes[4].votes == 0; i++) {
            deliver(UINT32_MAX);
            if (f.nodes[4].votes == 0) {
                assert_true(tt_transfer_next_ns(&f.nodes[4].t) <= f.now_ns + PATIENCE_NS);
                f.now_ns = tt_transfer_next_ns(&f.nodes[4].t);
                tt_transfer_tick(&f.nodes[4].t, f.now_ns);
            }
        }
        assert_got(4);
    }
    begin(1);
    f.nodes[0].mute = true;
    plan(4, all, 1);
    f.now_ns += PATIENCE_NS;
    tt_transfer_tick(&f.nodes[4].t, f.now_ns);
    assert_int_equal(f.nodes[4].vote, TT_SYNC_UNABLE);
    f.nodes[0].mute = false;
    plan(4, all, 3);        /* with the new plan, the transfer is tried again */
    deliver(UINT32_MAX);
    assert_got(4);
}

/* The connection between two live nodes is lost repeatedly, with its messages in flight; both nodes
 * repeat their requests over the next connection. */
static void data_of_cut_connection_is_resent(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        begin(seed);
        plan(4, all, 1 + (uint32_t)seed % 3);
        for (int cut = 0; cut < 5; cut++) {
            deliver((uint32_t)(seed % 7));
            f.n = 0;
            for (uint32_t rank = 0; rank < 3; rank++)
                tt_transfer_again(&f.nodes[4].t, rank, f.now_ns);
        }
        deliver(UINT32_MAX);
        assert_got(4);
    }
}

/* Node 3 has another content, but is listed as a holder; or node 1 has changed an array
 * afterwards. */
static void lying_sender_is_found(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        begin(seed);
        if (seed % 2)
            f.nodes[1].data[1 + 3 * (seed % 4 == 1)][seed % 1000] ^= 1;
        else
            tt_transfer_plan(&f.nodes[3].t, TT_SYNC_HOLDS, &(struct tt_hash){ { 0 } }, NULL, 0,
                             f.now_ns);
        plan(4, seed % 2 ? all : (uint32_t[]){ 3, 1, 2 }, 3);
        deliver(UINT32_MAX);
        assert_got(4);
        for (uint32_t i = 0; i < f.nodes[4].t.nsources; i++)
            if (f.nodes[4].t.sources[i].bad)
                assert_int_equal(f.nodes[4].t.sources[i].rank, seed % 2 ? 1 : 3);
    }
}

static void false_holders_fail_only_the_vote(void **state)
{
    (void)state;
    begin(1);
    f.nodes[1].data[1][3] ^= 1;
    f.nodes[2].data[1][4] ^= 1;
    plan(4, (uint32_t[]){ 1, 2 }, 2);
    deliver(UINT32_MAX);
    assert_int_equal(f.nodes[4].vote, TT_SYNC_BAD);
    plan(4, all, 3);
    deliver(UINT32_MAX);
    assert_got(4);
}

static void missing_memory_votes_unable(void **state)
{
    (void)state;
    begin(1);
    f.nodes[4].no_memory = true;
    plan(4, all, 3);
    deliver(UINT32_MAX);
    assert_int_equal(f.nodes[4].vote, TT_SYNC_UNABLE);
    assert_int_equal(f.nodes[4].votes, 1);
}

static void receivers_become_senders(void **state)
{
    struct tt_hash content;

    (void)state;
    begin(1);
    content = won();
    plan(4, all, 3);
    deliver(UINT32_MAX);
    assert_got(4);
    for (uint32_t i = 0; i < 3; i++)
        f.nodes[i].dead = true;
    tt_transfer_plan(&f.nodes[3].t, TT_SYNC_RECEIVES, &content, (uint32_t[]){ 4 }, 1, f.now_ns);
    deliver(UINT32_MAX);
    assert_got(3);
    plan(4, all, 1);        /* after a repeated plan, it votes the same again */
    assert_int_equal(f.nodes[4].votes, 2);
    assert_int_equal(f.nodes[4].vote, TT_SYNC_GOT);
}

/* Messages with any header byte at its limits, or truncated anywhere, are refused or dropped,
 * without reads past their end (sanitizers). */
static void invalid_messages_are_refused(void **state)
{
    static uint8_t data[FULL];
    uint32_t refused = 0;
    struct message m;

    (void)state;
    begin(1);
    plan(4, all, 1);
    assert_true(f.n > 0 && tt_transfer_is_mine(f.messages[0].data, f.messages[0].bytes));
    assert_true(tt_transfer_is_request(f.messages[0].data, f.messages[0].bytes));
    assert_false(tt_transfer_is_request("\1\xc2", 2));
    m = f.messages[0];
    assert_false(tt_transfer_is_mine("\1\0", 2));
    for (size_t cut = 0; cut < m.bytes; cut++)
        assert_false(tt_transfer_peer(&f.nodes[0].t, 4, m.data, cut, f.now_ns));
    memcpy(data, m.data, m.bytes);
    assert_false(tt_transfer_peer(&f.nodes[0].t, 4, data, m.bytes + 1, f.now_ns));
    for (size_t at = 20; at < m.bytes; at++) /* array, offset, bytes */
        for (int value = 0; value < 256; value += 51) {
            memcpy(data, m.data, m.bytes);
            data[at] = (uint8_t)value;
            f.n = 0;
            refused += !tt_transfer_peer(&f.nodes[0].t, 4, data, m.bytes, f.now_ns);
        }
    assert_true(refused > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_differences_are_transferred),
        cmocka_unit_test(corrupted_piece_is_requested_again),
        cmocka_unit_test(dead_holder_is_replaced),
        cmocka_unit_test(silent_holder_is_not_queried_again),
        cmocka_unit_test(data_of_cut_connection_is_resent),
        cmocka_unit_test(lying_sender_is_found),
        cmocka_unit_test(false_holders_fail_only_the_vote),
        cmocka_unit_test(missing_memory_votes_unable),
        cmocka_unit_test(receivers_become_senders),
        cmocka_unit_test(invalid_messages_are_refused),
    };
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);

    for (uint32_t i = 0; i < NODES; i++)
        for (uint32_t a = 0; a < ARRAYS; a++) {
            free(f.nodes[i].data[a]);
            free(f.nodes[i].stages[a]);
        }
    free(f.messages);
    return failures;
}
