/* A coordinator in a thread, and members over real connections. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "coordinator/coordinator.h"
#include "support/hive.h"
#include "support/unit.h"

#define WAIT_MS 60000   /* timeout of waits, longer than all times under test */
/* Lease in tests that depend on it; long enough that a running member always sends within it. */
#define LEASE_NS (2 * TT_SECOND)

static const struct tt_secure_conf plain = { .mode = TT_SECURE_PLAIN };
static const struct tt_secure_conf token = { .mode = TT_SECURE_TOKEN,
                                             .token = "f3a94c0d1b2e5f67a8b9" };
static const struct tt_secure_conf other_token = { .mode = TT_SECURE_TOKEN,
                                                   .token = "00000000000000000000" };
static char path[64];

static void remove_files(void)
{
    char beside[80];

    unlink(path);
    snprintf(beside, sizeof beside, "%s-wal", path);
    unlink(beside);
}

static struct tt_coordinator *begin_at(const char *address, bool journaled, uint64_t lease_ns,
                                       const struct tt_secure_conf *secure)
{
    const struct tt_coordinator_conf conf = {
        .run = "test", .listen = &address, .nlisten = 1, .secure = *secure, .lease_ns = lease_ns
    };
    struct tt_coordinator *c = NULL;
    struct tt_journal *j = NULL;

    assert_int_equal(journaled ? tt_journal_sqlite_open(&j, path) : tt_journal_none_open(&j),
                     TUTTI_OK);
    assert_int_equal(tt_coordinator_create(&c, &conf, j), TUTTI_OK);
    return c;
}

static struct tt_coordinator *begin(uint64_t lease_ns)
{
    return begin_at("127.0.0.1:0", false, lease_ns, &plain);
}

static struct hive *hive_at(const struct tt_coordinator *c, uint32_t n,
                            const struct tt_secure_conf *secure)
{
    struct hive *h = hive_create("test", n, 1, n, false, secure);

    hive_add_address(h, tt_coordinator_address(c, 0));
    return h;
}

static struct tt_snapshot_counters counters(struct tt_coordinator *c)
{
    struct tt_snapshot_counters out;
    const struct tt_snapshot *s;

    usleep(TT_SNAPSHOT_EVERY_NS / 1000 + 1000); /* until then, older counters are shown */
    s = tt_board_get(tt_coordinator_board(c), WAIT_MS * TT_MS);
    assert_non_null(s);
    out = s->counters;
    tt_board_put(tt_coordinator_board(c), s);
    return out;
}

/* ---- members ---- */

static void members_join_agree_and_leave(void **state)
{
    struct tt_coordinator *c = begin(10 * TT_SECOND);
    struct hive *h = hive_at(c, 5, &plain);

    (void)state;
    assert_true(hive_gather(h, WAIT_MS));
    for (uint32_t i = 0; i < h->n; i++) {
        assert_int_equal(h->lights[i].m.epoch, 1);
        assert_memory_equal(h->lights[i].m.secret, h->lights[0].m.secret, TT_COOKIE_BYTES);
        hive_call(h, i, &(struct tt_elmsg){ .what = TT_CALL_AGREE, .value = ~(1ull << i) });
    }
    assert_true(hive_until(h, hive_all_called, 2, WAIT_MS));
    for (uint32_t i = 0; i < h->n; i++)
        assert_int_equal(h->lights[i].value, ~0x1full);
    tt_member_leave(&h->lights[4].m, TT_LEAVE_NOTICE, tt_now_ns());
    for (uint32_t i = 0; i < h->n; i++)
        hive_epoch(h, i, 0);
    assert_true(hive_until(h, hive_light_over, 4, WAIT_MS));
    assert_int_equal(h->lights[4].status, TUTTI_OK);
    assert_true(hive_until(h, hive_all_in_epoch, 2, WAIT_MS));
    hive_destroy(h);
    tt_coordinator_destroy(c);
}

static void killed_member_is_lost_after_grace(void **state)
{
    struct tt_coordinator *c = begin(20 * TT_SECOND);
    struct hive *h = hive_at(c, 4, &plain);

    (void)state;
    assert_true(hive_gather(h, WAIT_MS));
    hive_cut(h, 1, false);
    hive_cut(h, 3, true);
    for (uint32_t i = 0; i < 3; i++)
        hive_epoch(h, i, 0);
    assert_true(hive_until(h, hive_all_in_epoch, 2, WAIT_MS));
    assert_int_equal(h->lights[0].m.nranks, 3);
    assert_int_equal(h->lights[1].connections, 2);
    assert_int_equal(h->lights[1].m.rank, 1);
    hive_destroy(h);
    tt_coordinator_destroy(c);
}

static void stopped_member_is_lost_after_lease(void **state)
{
    const uint64_t lease_ns = LEASE_NS;
    struct tt_coordinator *c = begin(lease_ns);
    struct hive *h = hive_at(c, 3, &plain);
    uint64_t begin_ns, took_ns;

    (void)state;
    assert_true(hive_gather(h, WAIT_MS));
    h->lights[2].deaf = true;
    begin_ns = tt_now_ns();
    hive_epoch(h, 0, 0);
    hive_epoch(h, 1, 0);
    assert_true(hive_until(h, hive_all_in_epoch, 2, WAIT_MS));
    took_ns = tt_now_ns() - begin_ns;
    assert_true(took_ns > lease_ns / 2); /* the member's last message was at most a quarter of a
                                            lease ago, or slightly more */
    h->lights[2].deaf = false;
    hive_until(h, hive_light_over, 2, WAIT_MS);
    assert_true(h->lights[2].over);
    assert_int_equal(h->lights[2].status, TUTTI_ERR_ABORTED);
    hive_destroy(h);
    tt_coordinator_destroy(c);
}

static void unreachable_newcomer_is_refused(void **state)
{
    struct tt_coordinator *c = begin(10 * TT_SECOND);
    struct hive *h = hive_at(c, 4, &plain);

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        hive_start(h, i);
        hive_epoch(h, i, 3);
    }
    assert_true(hive_until(h, hive_all_in_epoch, 1, WAIT_MS));
    h->lights[3].unreachable = true;
    hive_start(h, 3);
    hive_epoch(h, 3, 0);
    while (!h->lights[3].m.welcome)
        hive_turn(h, 20);
    for (uint32_t i = 0; i < 3; i++)
        hive_epoch(h, i, 0);
    assert_true(hive_until(h, hive_light_over, 3, WAIT_MS));
    assert_non_null(strstr(h->lights[3].text, "could not reach this member"));
    assert_true(hive_until(h, hive_all_called, 2, WAIT_MS));
    assert_int_equal(h->lights[0].what, TT_ROUND_SAME);
    hive_destroy(h);
    tt_coordinator_destroy(c);
}

static void members_need_the_token(void **state)
{
    struct tt_coordinator *c = begin_at("127.0.0.1:0", false, 10 * TT_SECOND, &token);
    struct hive *h = hive_at(c, 3, &token), *stranger = hive_at(c, 1, &other_token),
                *bare = hive_at(c, 1, &plain);
    const uint64_t end_ns = tt_now_ns() + WAIT_MS * TT_MS;

    (void)state;
    assert_true(hive_gather(h, WAIT_MS));
    hive_start(stranger, 0);
    hive_start(bare, 0);
    while ((stranger->lights[0].m.failures < 3 || bare->lights[0].m.failures < 3) &&
           tt_now_ns() < end_ns) {
        hive_turn(stranger, 5);
        hive_turn(bare, 5);
    }
    assert_true(stranger->lights[0].m.failures >= 3 && bare->lights[0].m.failures >= 3);
    assert_int_equal(stranger->lights[0].m.id + bare->lights[0].m.id, 0);
    assert_true(counters(c).refused[TT_REFUSAL_HANDSHAKE] >= 4);
    for (uint32_t i = 0; i < 3; i++)
        hive_epoch(h, i, 0);
    assert_true(hive_until(h, hive_all_called, 2, WAIT_MS));
    hive_destroy(bare);
    hive_destroy(stranger);
    hive_destroy(h);
    tt_coordinator_destroy(c);
}

/* ---- the journal ---- */

static void restart_keeps_all_members(void **state)
{
    struct tt_coordinator *c;
    struct hive *h;
    char address[TT_SNAPSHOT_ADDRESS_BYTES];
    const struct tt_snapshot *s;
    uint64_t ids[5];

    (void)state;
    snprintf(path, sizeof path, "/tmp/tutti-coordinator-%d", (int)getpid());
    remove_files();
    c = begin_at("127.0.0.1:0", true, 5 * TT_SECOND, &token);
    snprintf(address, sizeof address, "%s", tt_coordinator_address(c, 0));
    h = hive_at(c, 5, &token);
    h->addresses[0] = address;
    assert_true(hive_gather(h, WAIT_MS));
    for (uint32_t i = 0; i < h->n; i++)
        ids[i] = h->lights[i].m.id;
    for (uint32_t restart = 1; restart <= 3; restart++) {
        tt_coordinator_destroy(c);
        for (int i = 0; i < 3; i++)
            hive_turn(h, 5);
        c = begin_at(address, true, 5 * TT_SECOND, &token);
        for (uint32_t i = 0; i < h->n; i++)
            hive_call(h, i, &(struct tt_elmsg){ .what = TT_CALL_AGREE, .value = 0xff00ull + i });
        assert_true(hive_until(h, hive_all_called, 1 + restart, WAIT_MS));
        for (uint32_t i = 0; i < h->n; i++) {
            assert_int_equal(h->lights[i].what, TT_ROUND_OK);
            assert_int_equal(h->lights[i].value, 0xff00);
            assert_int_equal(h->lights[i].m.epoch, 1);
            assert_int_equal(h->lights[i].m.id, ids[i]);
        }
    }
    s = tt_board_get(tt_coordinator_board(c), WAIT_MS * TT_MS);
    assert_non_null(s);
    assert_int_equal(s->starts, 4);
    assert_int_equal(s->nmembers, 5);
    tt_board_put(tt_coordinator_board(c), s);
    hive_destroy(h);
    tt_coordinator_destroy(c);
    remove_files();
}

/* A journal whose commits fail after `left` successful ones. */
struct failing {
    struct tt_journal base;
    atomic_int left;
};

static tutti_status failing_read(struct tt_journal *j,
                                 bool (*take)(void *context, const void *data, size_t bytes),
                                 void *context)
{
    (void)j;
    (void)take;
    (void)context;
    return TUTTI_OK;
}

static tutti_status failing_append(struct tt_journal *j, const void *data, size_t bytes)
{
    (void)j;
    (void)data;
    (void)bytes;
    return TUTTI_OK;
}

static tutti_status failing_good(struct tt_journal *j)
{
    (void)j;
    return TUTTI_OK;
}

static tutti_status failing_commit(struct tt_journal *j)
{
    return atomic_fetch_sub(&((struct failing *)j)->left, 1) > 0 ? TUTTI_OK : TUTTI_ERR_SYSTEM;
}

static void failing_close(struct tt_journal *j)
{
    (void)j;
}

static const struct tt_journal_ops failing_ops = { .name = "failing",
                                                   .read = failing_read,
                                                   .append = failing_append,
                                                   .replace = failing_good,
                                                   .commit = failing_commit,
                                                   .check = failing_good,
                                                   .close = failing_close };

/* Whichever commit fails, members are notified only of durable records. */
static void failed_journal_reveals_nothing_uncommitted(void **state)
{
    const char *address = "127.0.0.1:0";
    const struct tt_coordinator_conf conf = { .run = "test", .listen = &address, .nlisten = 1 };

    (void)state;
    for (int left = 1; left <= 3; left++) {
        struct failing j = { .base.ops = &failing_ops, .left = left };
        struct tt_coordinator *c = NULL;
        struct hive *h;
        char why[256];

        assert_int_equal(tt_coordinator_create(&c, &conf, &j.base), TUTTI_OK);
        h = hive_at(c, 1, &plain);
        hive_start(h, 0);
        hive_epoch(h, 0, 1);
        while (left < 3 && tt_coordinator_error(c, why, sizeof why) == TUTTI_OK)
            hive_turn(h, 5);
        if (left < 3)
            assert_int_equal(tt_coordinator_error(c, why, sizeof why), TUTTI_ERR_SYSTEM);
        else
            assert_true(hive_until(h, hive_all_in_epoch, 1, WAIT_MS));
        /* commit 1: the start; 2: the member; 3: the view */
        assert_int_equal(h->lights[0].m.id, left >= 2);
        assert_int_equal(h->lights[0].m.epoch, left >= 3);
        hive_destroy(h);
        tt_coordinator_destroy(c);
    }
}

static void growing_journal_is_replaced(void **state)
{
    struct tt_coordinator *c;
    struct hive *h;

    (void)state;
    snprintf(path, sizeof path, "/tmp/tutti-coordinator-%d", (int)getpid());
    remove_files();
    c = begin_at("127.0.0.1:0", true, 5 * TT_SECOND, &plain);
    h = hive_at(c, 2, &plain);
    assert_true(hive_gather(h, WAIT_MS));
    for (uint32_t n = 1; n <= 300; n++) {
        for (uint32_t i = 0; i < h->n; i++)
            hive_call(h, i, &(struct tt_elmsg){ .what = TT_CALL_COMMIT, .value = 1 });
        assert_true(hive_until(h, hive_all_called, 1 + n, WAIT_MS));
    }
    assert_true(counters(c).replaced >= 1);
    tt_coordinator_destroy(c);
    c = begin_at("127.0.0.1:0", true, 5 * TT_SECOND, &plain);
    h->addresses[0] = tt_coordinator_address(c, 0);
    for (uint32_t i = 0; i < h->n; i++)
        hive_call(h, i, &(struct tt_elmsg){ .what = TT_CALL_COMMIT, .value = 1 });
    assert_true(hive_until(h, hive_all_called, 302, WAIT_MS));
    assert_int_equal(h->lights[0].m.round, h->lights[1].m.round);
    hive_destroy(h);
    tt_coordinator_destroy(c);
    remove_files();
}

/* ---- delays of the coordinator itself ---- */

/* A commit that takes longer than a lease, so that messages of that time are unread. */
static tutti_status slow_commit(struct tt_journal *j)
{
    struct failing *f = (struct failing *)j;

    if (atomic_fetch_add(&f->left, 1) == 3)
        usleep(LEASE_NS / 1000 * 2);
    return TUTTI_OK;
}

static void stalled_coordinator_blames_no_member(void **state)
{
    const struct tt_journal_ops slow_ops = { .name = "slow",
                                             .read = failing_read,
                                             .append = failing_append,
                                             .replace = failing_good,
                                             .commit = slow_commit,
                                             .check = failing_good,
                                             .close = failing_close };
    const char *address = "127.0.0.1:0";
    const struct tt_coordinator_conf conf = {
        .run = "test", .listen = &address, .nlisten = 1, .lease_ns = LEASE_NS
    };
    struct failing j = { .base.ops = &slow_ops };
    struct tt_coordinator *c = NULL;
    struct hive *h;

    (void)state;
    assert_int_equal(tt_coordinator_create(&c, &conf, &j.base), TUTTI_OK);
    h = hive_at(c, 8, &plain);
    assert_true(hive_gather(h, WAIT_MS));
    for (uint32_t n = 2; n < 6; n++) {
        for (uint32_t i = 0; i < h->n; i++)
            hive_call(h, i, &(struct tt_elmsg){ .what = TT_CALL_COMMIT, .value = 1 });
        assert_true(hive_until(h, hive_all_called, n, WAIT_MS));
        for (uint32_t i = 0; i < h->n; i++)
            assert_int_equal(h->lights[i].value, 1); /* 0 if any member had been lost */
    }
    assert_true(counters(c).stalls >= 1);
    hive_destroy(h);
    tt_coordinator_destroy(c);
}

/* ---- statistics ---- */

/* An alarm for lost members must not count members that leave, with notice or immediately. */
static void leaving_is_counted_apart_from_loss(void **state)
{
    struct tt_coordinator *c = begin(20 * TT_SECOND);
    struct hive *h = hive_at(c, 5, &plain);
    struct tt_snapshot_counters n;
    const struct tt_snapshot *s;
    uint32_t left = 0;

    (void)state;
    assert_true(hive_gather(h, WAIT_MS));
    tt_member_leave(&h->lights[3].m, TT_LEAVE_NOW, tt_now_ns());
    do {
        hive_turn(h, 5);
        n = counters(c);
    } while (n.lost[TT_LOSS_LEFT] == 0);
    s = tt_board_get(tt_coordinator_board(c), WAIT_MS * TT_MS);
    for (uint32_t i = 0; i < s->nmembers; i++)
        left += s->members[i].left && s->members[i].state == TT_COORD_LOST;
    tt_board_put(tt_coordinator_board(c), s);
    assert_int_equal(left, 1);
    tt_member_leave(&h->lights[4].m, TT_LEAVE_NOTICE, tt_now_ns());
    hive_cut(h, 2, true);
    for (uint32_t i = 0; i < h->n; i++)
        if (i != 2 && i != 3)
            hive_epoch(h, i, 0);
    assert_true(hive_until(h, hive_light_over, 4, WAIT_MS));
    assert_true(hive_until(h, hive_all_in_epoch, 2, WAIT_MS));
    n = counters(c);
    assert_int_equal(n.lost[TT_LOSS_LEFT], 2);
    assert_int_equal(n.lost[TT_LOSS_DIED], 1);
    for (uint8_t loss = 0; loss < TT_LOSSES; loss++)
        assert_true(n.lost[loss] == 0 || loss == TT_LOSS_LEFT || loss == TT_LOSS_DIED);
    hive_destroy(h);
    tt_coordinator_destroy(c);
}

static void snapshot_has_members_and_events(void **state)
{
    struct tt_coordinator *c = begin(10 * TT_SECOND);
    struct hive *h = hive_at(c, 3, &plain);
    const struct tt_snapshot *s;
    bool joined = false, viewed = false;

    (void)state;
    assert_true(hive_gather(h, WAIT_MS));
    counters(c);
    s = tt_board_get(tt_coordinator_board(c), WAIT_MS * TT_MS);
    assert_non_null(s);
    assert_string_equal(s->run, "test");
    assert_int_equal(s->epoch, 1);
    assert_int_equal(s->nmembers, 3);
    assert_int_equal(s->connections, 3);
    assert_int_equal(s->strangers, 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(s->members[i].state, TT_COORD_IN_VIEW);
        assert_int_equal(s->members[i].rank, i);
        assert_true(s->members[i].connected);
        assert_memory_equal(s->members[i].address, "127.0.0.1:", 10);
    }
    assert_non_null(strstr(s->events[0].text, "started; start number 1"));
    for (uint32_t i = 0; i < s->nevents; i++) {
        joined |= strstr(s->events[i].text, "member 2 joined from 127.0.0.1:") != NULL;
        viewed |= strstr(s->events[i].text, "epoch 1 begins with 3 members") != NULL;
        assert_int_equal(s->events[i].number, i + 1);
    }
    assert_true(joined && viewed);
    assert_int_equal(s->counters.taken[TT_ELMSG_JOIN], 3);
    assert_int_equal(s->counters.sent[TT_ELMSG_VIEW], 3);
    assert_int_equal(s->counters.accepted, 3);
    tt_board_put(tt_coordinator_board(c), s);
    hive_destroy(h);
    tt_coordinator_destroy(c);
}

/* Waits for a snapshot with this event; the caller must release it. */
static const struct tt_snapshot *snapshot_with(struct tt_coordinator *c, struct hive *h,
                                               const char *event)
{
    const uint64_t end_ns = tt_now_ns() + WAIT_MS * TT_MS;
    const struct tt_snapshot *s;

    while (tt_now_ns() < end_ns) {
        hive_turn(h, 5);
        s = tt_board_get(tt_coordinator_board(c), WAIT_MS * TT_MS);
        assert_non_null(s);
        for (uint32_t i = 0; i < s->nevents; i++)
            if (strstr(s->events[i].text, event))
                return s;
        tt_board_put(tt_coordinator_board(c), s);
    }
    fail_msg("there is no event like \"%s\"", event);
    return NULL;
}

static void epoch_reason_and_revoker_are_reported(void **state)
{
    struct tt_coordinator *c = begin(10 * TT_SECOND);
    struct hive *h = hive_at(c, 4, &plain);
    const struct tt_snapshot *s;
    char event[64];

    (void)state;
    assert_true(hive_gather(h, WAIT_MS));
    tt_board_put(tt_coordinator_board(c),
                 snapshot_with(c, h, "epoch 1 begins with 4 members: 4 joined"));
    tt_member_revoke(&h->lights[2].m, tt_now_ns());
    snprintf(event, sizeof event, "member %llu revoked epoch 1",
             (unsigned long long)h->lights[2].m.id);
    s = snapshot_with(c, h, event);
    assert_true(s->revoked);
    assert_int_equal(s->revoker, h->lights[2].m.id);
    tt_board_put(tt_coordinator_board(c), s);
    hive_epoch(h, 3, 0);
    tt_member_leave(&h->lights[3].m, TT_LEAVE_NOW, tt_now_ns());
    assert_true(hive_until(h, hive_light_over, 3, WAIT_MS));
    s = snapshot_with(c, h, " left");
    for (uint32_t i = 0; i < s->nmembers; i++)
        assert_false(s->members[i].left && s->members[i].called);
    tt_board_put(tt_coordinator_board(c), s);
    for (uint32_t i = 0; i < 3; i++)
        hive_epoch(h, i, 0);
    assert_true(hive_until(h, hive_all_in_epoch, 2, WAIT_MS));
    snprintf(event, sizeof event, "epoch 2 begins with 3 members: 1 left, member %llu revoked",
             (unsigned long long)h->lights[2].m.id);
    s = snapshot_with(c, h, event);
    assert_false(s->revoked);
    assert_int_equal(s->cause.left, 1);
    assert_int_equal(s->cause.revoker, h->lights[2].m.id);
    tt_board_put(tt_coordinator_board(c), s);
    hive_destroy(h);
    tt_coordinator_destroy(c);
}

static void journal_beyond_limit_is_reported(void **state)
{
    static const char *const address = "127.0.0.1:0";
    struct tt_coordinator_conf conf = { .run = "test", .listen = &address, .nlisten = 1 };
    struct tt_coordinator *c;
    struct tt_journal *j = NULL;
    struct hive *h;

    (void)state;
    remove_files();
    c = begin_at("127.0.0.1:0", true, 10 * TT_SECOND, &plain);
    h = hive_at(c, 3, &plain);
    assert_true(hive_gather(h, WAIT_MS));
    hive_destroy(h);
    tt_coordinator_destroy(c);
    for (conf.members_max = 2; conf.members_max <= 3; conf.members_max++) {
        const bool fits = conf.members_max == 3;

        assert_int_equal(tt_journal_sqlite_open(&j, path), TUTTI_OK);
        tt_log_set(TT_LOG_NONE);
        assert_int_equal(tt_coordinator_create(&c, &conf, j), fits ? TUTTI_OK : TUTTI_ERR_INVALID);
        tt_log_set(TT_LOG_WARN);
        if (fits)
            tt_coordinator_destroy(c);
        else
            j->ops->close(j);
        if (!fits &&
            !strstr(tutti_last_error(),
                    "the journal holds 3 members, but the limit of the run is 2 (--members"))
            fail_msg("%s", tutti_last_error());
    }
    remove_files();
}

static void journal_of_another_version_is_reported(void **state)
{
    static const char *const address = "127.0.0.1:0";
    const struct tt_coordinator_conf conf = { .run = "test", .listen = &address, .nlisten = 1 };
    const uint8_t record[] = { TT_ELASTIC_VERSION - 1, TT_ELMSG_LOG_START, 0, 0, 0 };
    struct tt_coordinator *c = NULL;
    struct tt_journal *j = NULL;

    (void)state;
    remove_files();
    assert_int_equal(tt_journal_sqlite_open(&j, path), TUTTI_OK);
    assert_int_equal(j->ops->append(j, record, sizeof record), TUTTI_OK);
    assert_int_equal(j->ops->commit(j), TUTTI_OK);
    j->ops->close(j);
    assert_int_equal(tt_journal_sqlite_open(&j, path), TUTTI_OK);
    tt_log_set(TT_LOG_NONE);
    assert_int_equal(tt_coordinator_create(&c, &conf, j), TUTTI_ERR_INVALID);
    tt_log_set(TT_LOG_WARN);
    if (!strstr(tutti_last_error(),
                "the journal has protocol version 10, but this coordinator has version 11"))
        fail_msg("%s", tutti_last_error());
    j->ops->close(j);
    remove_files();
}

static void invalid_settings_are_reported(void **state)
{
    static const char *const loopback = "127.0.0.1:0", *const everywhere = ":0",
                             *const nowhere = "192.0.2.1:1", *const noport = "127.0.0.1",
                             *const bare = "::1:80", *const highport = "127.0.0.1:99999";
    const struct {
        struct tt_coordinator_conf conf;
        const char *why;
    } cases[] = {
        { { .run = "", .listen = &loopback, .nlisten = 1 }, "the run's name" },
        { { .run = "test" }, "no listen address" },
        { { .run = "test", .listen = &loopback, .nlisten = 1, .lease_ns = 5 }, "lease" },
        { { .run = "test", .listen = &loopback, .nlisten = 1, .grace_ns = 2 * TT_SECOND },
          "grace" },
        { { .run = "test", .listen = &loopback, .nlisten = 1, .members_max = 5000 },
          "the maximum is 4096" },
        { { .run = "test", .listen = &everywhere, .nlisten = 1 }, "without authentication" },
        { { .run = "test", .listen = &nowhere, .nlisten = 1, .insecure = true }, "192.0.2.1:1" },
        { { .run = "test", .listen = &noport, .nlisten = 1 }, "must be like host:29401" },
        { { .run = "test", .listen = &bare, .nlisten = 1 }, "brackets" },
        { { .run = "test", .listen = &highport, .nlisten = 1 }, "\"127.0.0.1:99999\" (--listen; " },
        { { .run = "test",
            .listen = &loopback,
            .nlisten = 1,
            .secure = { .mode = TT_SECURE_TOKEN, .token = "abc" } },
          "TUTTI_TOKEN" },
    };
    struct tt_coordinator *c = NULL;
    struct tt_journal *j;

    (void)state;
    assert_int_equal(tt_journal_none_open(&j), TUTTI_OK);
    tt_log_set(TT_LOG_NONE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (tt_coordinator_create(&c, &cases[i].conf, j) == TUTTI_OK)
            fail_msg("case %zu works", i);
        if (!strstr(tutti_last_error(), cases[i].why))
            fail_msg("case %zu: \"%s\" was expected in \"%s\"", i, cases[i].why,
                     tutti_last_error());
        assert_null(c);
    }
    tt_log_set(TT_LOG_WARN);
    j->ops->close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_join_agree_and_leave),
        cmocka_unit_test(killed_member_is_lost_after_grace),
        cmocka_unit_test(stopped_member_is_lost_after_lease),
        cmocka_unit_test(unreachable_newcomer_is_refused),
        cmocka_unit_test(members_need_the_token),
        cmocka_unit_test(restart_keeps_all_members),
        cmocka_unit_test(failed_journal_reveals_nothing_uncommitted),
        cmocka_unit_test(growing_journal_is_replaced),
        cmocka_unit_test(stalled_coordinator_blames_no_member),
        cmocka_unit_test(leaving_is_counted_apart_from_loss),
        cmocka_unit_test(snapshot_has_members_and_events),
        cmocka_unit_test(epoch_reason_and_revoker_are_reported),
        cmocka_unit_test(journal_beyond_limit_is_reported),
        cmocka_unit_test(journal_of_another_version_is_reported),
        cmocka_unit_test(invalid_settings_are_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
