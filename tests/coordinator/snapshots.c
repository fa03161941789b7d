#include "snapshots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char snapshots_hostile[] =
    "</title></main><script>document.title='taken'</script><img src=x onerror=alert(1)>\"'&amp;\\\n"
    "tutti_epoch 666\n\x1b[2J\xff\xc0\xaf\xe2\x80\xae\x01 \xc3\xa4";

static int64_t unix_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void seat(struct tt_snapshot_member *m, uint32_t i, uint32_t *rank)
{
    *m = (struct tt_snapshot_member){ .id = 100 + i,
                                      .state = i % 5 == 4 ? TT_COORD_WAITING
                                               : i == 1 || i == 3 ? TT_COORD_LOST
                                                          : TT_COORD_IN_VIEW,
                                      .left = i == 3,
                                      .connected = i != 1 && i != 3,
                                      .leaving = i == 2,
                                      .called = i % 2 == 0,
                                      .what = TT_CALL_EPOCH,
                                      .group = i / 2,
                                      .role = i % 2,
                                      .rank = TT_COORD_NO_RANK,
                                      .silent_ns = i * 100000000ull };
    if (m->state != TT_COORD_WAITING)
        m->rank = (*rank)++;
    snprintf(m->address, sizeof m->address, i % 2 ? "[2001:db8::%x]:%u" : "192.0.2.%u:%u",
             i % 200 + 1, 40000 + i % 20000);
}

static void count(struct tt_snapshot_counters *c)
{
    c->taken[0] = 2;
    c->taken[TT_ELMSG_JOIN] = 11;
    c->taken[TT_ELMSG_HEARTBEAT] = 3000000000000ull;
    c->sent[TT_ELMSG_VIEW] = 7;
    c->taken_bytes = 123456789;
    c->sent_bytes = 987654;
    c->lost[TT_LOSS_LEFT] = 5;
    c->lost[TT_LOSS_SILENT] = 4;
    c->accepted = 21;
    c->refused[TT_REFUSAL_GARBAGE] = 3;
    c->records = 40;
    c->record_bytes = 4000;
    c->commits = 6;
    c->commit_ns = 12345678;
    c->commit_most_ns = 9000000;
    c->commit_buckets[0] = 1;
    c->commit_buckets[3] = 3;
    c->commit_buckets[TT_SNAPSHOT_BUCKETS] = 2;
}

struct tt_snapshot *snapshots_run(const char *name, uint32_t n)
{
    struct tt_snapshot *s = tt_snapshot_create(n, 3);
    uint32_t rank = 0;

    if (!s)
        abort();
    snprintf(s->run, sizeof s->run, "%s", name);
    s->unix_ms = unix_ms();
    s->started_unix_ms = s->unix_ms - 3725000;
    s->starts = 2;
    s->epoch = 7;
    s->round = 12;
    s->lease_ns = 1000000000;
    s->grace_ns = 250000000;
    s->nroles = 2;
    s->members_max = 4096;
    s->last = (struct tt_coord_result){ .what = TT_ROUND_MISMATCH,
                                        .round = 11,
                                        .epoch = 7,
                                        .differs = TT_DIFFERS_LEAST,
                                        .id = 100,
                                        .value = 2,
                                        .other = 102,
                                        .also = 3 };
    s->news = (struct tt_membership){ .number = 4, .lost = 2, .leaving = 1 };
    s->cause =
        (struct tt_coord_cause){ .came = 1, .lost = 2, .left = 1, .revoked = true, .revoker = 102 };
    s->connections = n + 1;
    s->strangers = 1;
    count(&s->counters);
    for (uint32_t i = 0; i < n; i++)
        seat(&s->members[i], i, &rank);
    for (uint32_t i = 0; i < 3; i++) {
        s->events[i] =
            (struct tt_snapshot_event){ .number = i + 1,
                                        .unix_ms = s->unix_ms - 1000 * (3 - (int64_t)i) };
        if (i < 2)
            snprintf(s->events[i].text, sizeof s->events[i].text, "member %u joined", 100 + i);
        else
            snprintf(s->events[i].text, sizeof s->events[i].text, "somebody asked for %s", name);
    }
    return s;
}

void snapshots_sync(struct tt_snapshot *s)
{
    s->nstates = 2;
    s->states[0] =
        (struct tt_snapshot_state){ .revision = 41, .hash = "00112233445566778899aabbccddeeff" };
    s->states[1] =
        (struct tt_snapshot_state){ .scope = 2, .revision = 7, .moving = true, .hash = "<b>ff" };
}

void snapshots_measure(struct tt_snapshot *s)
{
    const uint32_t n = s->nmembers;
    struct tt_snapshot_links *l = &s->links;

    l->ids = malloc((n + 1) * sizeof *l->ids);
    l->order = malloc((n + 1) * sizeof *l->order);
    l->bytes_per_s = malloc(((size_t)n * n + 1) * sizeof *l->bytes_per_s);
    l->latency_s = malloc(((size_t)n * n + 1) * sizeof *l->latency_s);
    if (!l->ids || !l->order || !l->bytes_per_s || !l->latency_s)
        abort();
    l->n = n;
    l->was_s = 3.5;
    l->now_s = 1.25;
    l->waits = true;
    l->shape = "two rings";
    for (uint32_t i = 0; i < n; i++) {
        l->ids[i] = s->members[i].id;
        l->order[i] = i * 7 % n;
        for (uint32_t k = 0; k < n; k++)
            l->latency_s[(size_t)i * n + k] = 0.0025;
        for (uint32_t k = 0; k < n; k++)
            l->bytes_per_s[(size_t)i * n + k] = i == 0 && k == 1   ? 0
                                                : k == (i + 7) % n ? 10e6 + (i + 1) * 1e6
                                                                   : 1e6;
    }
}
