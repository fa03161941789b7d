/* The start-up tree over real sockets: the root, and up to 64 ranks on several hosts, in one
 * thread. The test controls the time: a deadline passes when all ranks that can join have joined.
 * Ranks die, processes have another token, and unauthenticated peers send garbage. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "boot/samehost.h"
#include "boot/tree_conn.h"
#include "boot/tree_node.h"
#include "support/unit.h"

#define RANKS_MAX 64u
#define PATIENCE_NS (120 * TT_SECOND)
#define TIMEOUT_NS (1000 * TT_SECOND)
#define CARD_BYTES 700u
#define NONE UINT32_MAX

struct rank {
    struct tt_tree_node *node;          /* NULL: closed */
    struct tt_samehost samehost;
    char host[16];
    uint8_t card[CARD_BYTES];
};

struct job {
    uint32_t nranks, per_host, children_max;
    uint8_t gathering[TT_NONCE_BYTES], secret[TT_TREE_SECRET_BYTES];
    struct tt_tree_node *root;
    struct tt_address address;
    struct tt_endpoint own;
    struct rank ranks[RANKS_MAX];
    uint64_t skew_ns;
};

static uint64_t job_now_ns(const struct job *j)
{
    return tt_now_ns() + j->skew_ns;
}

static int listen_anywhere(struct tt_endpoint *out, struct tt_address *address)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    uint16_t port;
    const int fd = tt_listen(NULL, 0, &port);

    assert_true(fd >= 0);
    assert_int_equal(tt_endpoint_init(out, port, ""), TUTTI_OK);
    at.sin_port = htons(port);
    address->bytes = sizeof at;
    memcpy(&address->storage, &at, sizeof at);
    return fd;
}

static void open_root(struct job *j)
{
    struct tt_tree_node_conf conf = { .tree = { .token = "token",
                                                .root = true,
                                                .children_max = j->children_max,
                                                .began_ns = job_now_ns(j),
                                                .deadline_ns = TT_NEVER },
                                      .local = -1,
                                      .up = -1 };

    memcpy(conf.tree.secret, j->secret, sizeof j->secret);
    memcpy(conf.tree.gathering, j->gathering, sizeof j->gathering);
    conf.listener = listen_anywhere(&j->own, &j->address);
    assert_int_equal(tt_tree_node_open(&j->root, &conf), TUTTI_OK);
}

static void find_host(struct job *j, uint32_t rank, const char *token)
{
    struct rank *r = &j->ranks[rank];
    struct tt_samehost_conf conf = { .token = token,
                                     .gathering = j->gathering,
                                     .host = r->host,
                                     .rank = rank,
                                     .nranks = j->nranks,
                                     .deadline_ns = TT_NEVER };

    snprintf(r->host, sizeof r->host, "host %u", rank / j->per_host);
    tt_samehost_find(&r->samehost, &conf);
}

static void open_rank(struct job *j, uint32_t rank, const char *token)
{
    struct rank *r = &j->ranks[rank];
    struct tt_tree_node_conf conf = { .tree = { .token = token,
                                                .rank = rank,
                                                .nranks = j->nranks,
                                                .process = 77 + rank,
                                                .card = r->card,
                                                .card_bytes = (uint16_t)(CARD_BYTES - rank),
                                                .token_is_final = true,
                                                .children_max = j->children_max,
                                                .began_ns = job_now_ns(j),
                                                .deadline_ns = job_now_ns(j) + TIMEOUT_NS },
                                      .listener = -1,
                                      .local = -1,
                                      .up = -1,
                                      .own = &j->own,
                                      .root = &j->address,
                                      .nroot = 1 };
    struct tt_endpoint served, neighbours;
    struct tt_address address;
    struct sockaddr_un leader;
    struct tt_writer w;

    memset(r->card, (int)rank + 1, sizeof r->card);
    find_host(j, rank, token);
    memcpy(conf.tree.gathering, j->gathering, sizeof j->gathering);
    conf.tree.leader = r->samehost.holder;
    if (conf.tree.leader == rank) {
        conf.local = dup(r->samehost.listener);
        conf.listener = listen_anywhere(&served, &address);
        neighbours = served;
        neighbours.port = 1;        /* another listener's */
        tt_writer_init(&w, conf.tree.address.data, sizeof conf.tree.address.data);
        tt_endpoint_write(&w, &neighbours);
        conf.tree.address.bytes = (uint8_t)tt_writer_bytes(&w);
        conf.tree.serve_port = served.port;
    } else {
        conf.leader_bytes = tt_samehost_address(&r->samehost, &leader);
        conf.leader = &leader;
    }
    assert_int_equal(tt_tree_node_open(&r->node, &conf), TUTTI_OK);
}

static void close_rank(struct job *j, uint32_t rank)
{
    tt_tree_node_close(j->ranks[rank].node);
    tt_samehost_fini(&j->ranks[rank].samehost);
    j->ranks[rank].node = NULL;
}

static struct job *job_open(uint32_t nranks, uint32_t per_host, uint32_t children_max)
{
    struct job *j = calloc(1, sizeof *j);

    tt_assert(j);
    *j = (struct job){ .nranks = nranks, .per_host = per_host, .children_max = children_max };
    tt_random_bytes(j->gathering, sizeof j->gathering);
    tt_random_bytes(j->secret, sizeof j->secret);
    open_root(j);
    return j;
}

static void open_ranks_except(struct job *j, uint32_t absent)
{
    for (uint32_t r = 0; r < j->nranks; r++)
        if (r != absent)
            open_rank(j, r, "token");
}

static void job_close(struct job *j)
{
    for (uint32_t r = 0; r < j->nranks; r++)
        if (j->ranks[r].node)
            close_rank(j, r);
    tt_tree_node_close(j->root);
    free(j);
}

/* ---- running ---- */

static void job_step(struct job *j)
{
    struct pollfd p[RANKS_MAX + 1] = { { .fd = tt_tree_node_fd(j->root), .events = POLLIN } };

    for (uint32_t r = 0; r < j->nranks; r++)
        p[1 + r] = (struct pollfd){ .fd = j->ranks[r].node ? tt_tree_node_fd(j->ranks[r].node) : -1,
                                    .events = POLLIN };
    poll(p, 1 + j->nranks, 2);
    tt_tree_node_step(j->root, job_now_ns(j));
    for (uint32_t r = 0; r < j->nranks; r++)
        if (j->ranks[r].node)
            tt_tree_node_step(j->ranks[r].node, job_now_ns(j));
}

static bool all_have_results(const struct job *j)
{
    for (uint32_t r = 0; r < j->nranks; r++)
        if (j->ranks[r].node && tt_tree_node_tree(j->ranks[r].node)->state == TT_TREE_GATHERING)
            return false;
    return true;
}

static bool all_are_done(const struct job *j)
{
    for (uint32_t r = 0; r < j->nranks; r++)
        if (j->ranks[r].node && !tt_tree_node_is_done(j->ranks[r].node))
            return false;
    return tt_tree_node_is_done(j->root);
}

static void run_until_joined(struct job *j, uint32_t n)
{
    const uint64_t end_ns = tt_now_ns() + PATIENCE_NS;

    while (tt_tree_njoined(tt_tree_node_tree(j->root)) != n) {
        assert_true(tt_now_ns() < end_ns);
        job_step(j);
    }
}

static void run_until_true(struct job *j, bool (*until)(const struct job *j))
{
    const uint64_t end_ns = tt_now_ns() + PATIENCE_NS;

    while (!until(j)) {
        assert_true(tt_now_ns() < end_ns);
        job_step(j);
    }
}

static void check_table(const struct job *j, const struct tt_tree_place *place)
{
    struct tt_record_stream records = { .n = 0 };
    struct tt_reader r;

    tt_reader_init(&r, place->table, place->table_bytes);
    for (uint32_t rank = 0; rank < j->nranks; rank++) {
        tt_record_read(&records, &r);
        assert_int_equal(records.entry.holder / j->per_host, rank / j->per_host);
        assert_int_equal(records.entry.bytes, CARD_BYTES - rank);
        assert_memory_equal(records.entry.record, j->ranks[rank].card, records.entry.bytes);
    }
    assert_true(!r.bad && r.at == r.end);
}

static void check_placed(const struct job *j)
{
    for (uint32_t r = 0; r < j->nranks; r++) {
        const struct tt_tree *t = tt_tree_node_tree(j->ranks[r].node);

        if (t->state != TT_TREE_PLACED || !t->place.table)
            fail_msg("rank %u: %s", r, t->sentence ? t->sentence : "no table");
        assert_memory_equal(t->place.secret, j->secret, sizeof j->secret);
        check_table(j, &t->place);
    }
}

static void check_failed(const struct job *j, const char *sentence)
{
    for (uint32_t r = 0; r < j->nranks; r++) {
        const struct tt_tree *t;

        if (!j->ranks[r].node)
            continue;
        t = tt_tree_node_tree(j->ranks[r].node);
        assert_int_equal(t->state, TT_TREE_FAILED);
        assert_int_equal(t->status, TUTTI_ERR_TIMEOUT);
        if (!strstr(t->sentence, sentence))
            fail_msg("rank %u: \"%s\" does not contain \"%s\"", r, t->sentence, sentence);
    }
}

/* ---- tests ---- */

static void trees_of_all_forms_give_all_ranks_the_table(void **state)
{
    static const uint32_t forms[][3] = {
        /* ranks, ranks per host, maximum children of a server */
        { 1, 1, 128 }, { 2, 1, 128 }, { 2, 2, 128 },  { 3, 1, 1 },  { 8, 4, 128 },
        { 17, 3, 2 },  { 24, 1, 2 },  { 33, 8, 128 }, { 64, 8, 3 }, { 64, 64, 1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct job *j = job_open(forms[i][0], forms[i][1], forms[i][2]);

        print_message("%u ranks, %u per host, %u children\n", j->nranks, j->per_host,
                      j->children_max);
        open_ranks_except(j, NONE);
        run_until_true(j, all_have_results);
        check_placed(j);
        run_until_true(j, all_are_done);
        job_close(j);
    }
}

static void absent_rank_is_named_to_all(void **state)
{
    struct job *j = job_open(12, 4, 1);

    (void)state;
    open_ranks_except(j, 6);
    run_until_joined(j, 11);
    j->skew_ns += TIMEOUT_NS;
    run_until_true(j, all_have_results);
    check_failed(j, "11 of 12 ranks joined within 1000");
    check_failed(j, "missing: 6");
    run_until_true(j, all_are_done);
    job_close(j);
}

/* Rank 4 dies, a leader that serves another host, or rank 5 of the same host. All ranks that were
 * connected to it join the root. */
static void ranks_below_a_dead_rank_join_elsewhere(void **state)
{
    (void)state;
    for (uint32_t dead = 4; dead < 6; dead++) {
        struct job *j = job_open(16, 4, 1);
        char left[64];

        snprintf(left, sizeof left, "missing: %u (joined, but left again: %u)", dead, dead);
        open_ranks_except(j, 15);       /* rank 15 starts after the death, so that the start-up
                                           cannot complete before */
        run_until_joined(j, 15);
        close_rank(j, dead);
        run_until_joined(j, 14);
        open_rank(j, 15, "token");
        run_until_joined(j, 15);
        j->skew_ns += TIMEOUT_NS;
        run_until_true(j, all_have_results);
        check_failed(j, left);
        run_until_true(j, all_are_done);
        job_close(j);
    }
}

static void other_token_is_refused_and_no_other_rank_is_affected(void **state)
{
    struct job *j = job_open(9, 3, 2);
    const struct tt_tree *t;

    (void)state;
    open_ranks_except(j, 4);
    open_rank(j, 4, "tokem");       /* with another token, it finds no leader */
    run_until_joined(j, 8);
    while (tt_tree_node_tree(j->ranks[4].node)->state == TT_TREE_GATHERING)
        job_step(j);
    t = tt_tree_node_tree(j->ranks[4].node);
    assert_int_equal(t->state, TT_TREE_FAILED);
    assert_int_equal(t->status, TUTTI_ERR_INVALID);
    assert_true(t->token_rejected);
    assert_string_equal(t->sentence, "the server rejected this rank's token");
    close_rank(j, 4);
    open_rank(j, 4, "token");
    run_until_true(j, all_have_results);
    check_placed(j);
    job_close(j);
}

static int dial_root(const struct job *j)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&j->address.storage, j->address.bytes),
                     0);
    return fd;
}

static int dial_leader(const struct job *j, uint32_t rank)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un at;
    const socklen_t bytes = tt_samehost_address(&j->ranks[rank].samehost, &at);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, bytes), 0);
    return fd;
}

static void strangers_are_dropped_at_the_root_and_at_leaders(void **state)
{
    struct job *j = job_open(8, 4, 1);
    char garbage[4096];
    int fds[12];

    (void)state;
    memset(garbage, 'g', sizeof garbage);
    open_ranks_except(j, 7);
    for (uint32_t i = 0; i < 12; i++) {
        fds[i] = i % 2 ? dial_root(j) : dial_leader(j, i % 4 ? 0 : 4);
        if (i % 3)
            assert_int_equal(send(fds[i], garbage, sizeof garbage, MSG_NOSIGNAL), sizeof garbage);
    }
    run_until_joined(j, 7);
    open_rank(j, 7, "token");
    run_until_true(j, all_have_results);
    check_placed(j);
    run_until_true(j, all_are_done);    /* silent connections do not prevent this */
    for (uint32_t i = 0; i < 12; i++)
        close(fds[i]);
    job_close(j);
}

/* The first rank of a host may pass any file, so the receiver checks it. */
static void only_a_sealed_file_of_the_right_size_is_mapped(void **state)
{
    const char data[] = "address records";
    const int sealed = tt_tree_file_create(1 << 20);
    const int open = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const uint8_t *at;

    (void)state;
    assert_true(sealed >= 0 && open >= 0);
    assert_true(tt_tree_file_fill(sealed, data, sizeof data));
    assert_int_equal(write(open, data, sizeof data), sizeof data);
    assert_null(tt_tree_file_map(open, sizeof data));
    assert_null(tt_tree_file_map(-1, sizeof data));
    assert_null(tt_tree_file_map(sealed, sizeof data + 1));
    assert_null(tt_tree_file_map(sealed, sizeof data - 1));
    assert_true(write(sealed, data, sizeof data) < 0);
    at = tt_tree_file_map(sealed, sizeof data);
    assert_non_null(at);
    assert_memory_equal(at, data, sizeof data);
    assert_int_equal(munmap((void *)at, sizeof data), 0);
    close(sealed);
    close(open);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_of_all_forms_give_all_ranks_the_table),
        cmocka_unit_test(absent_rank_is_named_to_all),
        cmocka_unit_test(ranks_below_a_dead_rank_join_elsewhere),
        cmocka_unit_test(other_token_is_refused_and_no_other_rank_is_affected),
        cmocka_unit_test(strangers_are_dropped_at_the_root_and_at_leaders),
        cmocka_unit_test(only_a_sealed_file_of_the_right_size_is_mapped),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
