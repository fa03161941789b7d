#include "session/party.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define PATIENCE_NS (60 * TT_SECOND)

void party_check(bool good, const char *what, const char *file, int line)
{
    if (good)
        return;
    fprintf(stderr, "%s:%d: not so: %s\n  last error: %s\n", file, line, what, tutti_last_error());
    abort();
}

void party_begin(struct party *p, uint64_t lease_ms, uint64_t grace_ms, const char *token)
{
    static const char *const listen[] = { "127.0.0.1:0" };
    const struct tt_coordinator_conf conf = {
        .run = "test",
        .listen = listen,
        .nlisten = 1,
        .secure = { .mode = token ? TT_SECURE_TOKEN : TT_SECURE_PLAIN, .token = token },
        .lease_ns = lease_ms * TT_MS,
        .grace_ns = grace_ms * TT_MS
    };
    struct tt_journal *journal;

    memset(p, 0, sizeof *p);
    MUST(tt_journal_none_open(&journal));
    MUST(tt_coordinator_create(&p->coordinator, &conf, journal));
    snprintf(p->address, sizeof p->address, "%s", tt_coordinator_address(p->coordinator, 0));
}

void party_end(struct party *p)
{
    tt_coordinator_destroy(p->coordinator);
}

tutti_run *party_join(struct party *p, uint32_t index, const char *token)
{
    const tutti_run_conf conf = { .size = sizeof conf,
                                  .coordinators = p->address,
                                  .run = "test",
                                  .token = token,
                                  .group = p->nroles ? index / p->nroles : 0,
                                  .role = p->nroles ? index % p->nroles : 0,
                                  .nroles = p->nroles,
                                  .tags = p->tags ? p->tags : 4,
                                  .timeout_ms = 60000 };
    tutti_run *run;

    MUST(tutti_run_join(&run, &conf));
    return run;
}

static void *live(void *arg)
{
    struct guest *g = arg;

    g->run = party_join(g->party, g->index, g->token);
    g->program(g);
    tutti_run_destroy(g->run);
    return NULL;
}

void party_run(struct party *p, uint32_t n, void (*program)(struct guest *g), const char *token)
{
    struct guest guests[PARTY_MAX];

    assert_true(n <= PARTY_MAX);
    for (uint32_t i = 0; i < n; i++) {
        guests[i] = (struct guest){ .party = p, .index = i, .program = program, .token = token };
        assert_int_equal(pthread_create(&guests[i].thread, NULL, live, &guests[i]), 0);
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(guests[i].thread, NULL);
}

void party_await(struct party *p, int step)
{
    const uint64_t deadline_ns = tt_now_ns() + PATIENCE_NS;

    while (atomic_load(&p->step) < step) {
        CHECK(tt_now_ns() < deadline_ns);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

void party_reach(struct party *p, int step)
{
    atomic_store(&p->step, step);
}
