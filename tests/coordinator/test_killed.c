/* A real coordinator process, killed at random times and restarted with its journal: the run
 * continues, and no member is lost. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/prng.h"
#include "support/hive.h"
#include "support/unit.h"

#define WAIT_MS 60000
#define MEMBERS 6
#define KILLS 60u

/* `tutti coordinator`, and its output. */
struct process {
    pid_t pid;
    char journal[64];
    char address[64];       /* unchanged after the first start */
};

static const char token[] = "3c9f1d77a05b4e2288aa";

static void start(struct process *p)
{
    char tool[512], line[256] = "";
    int out[2];
    FILE *f;

    snprintf(tool, sizeof tool, "%s/tutti", getenv("TUTTI_BUILD_DIR"));
    assert_int_equal(pipe(out), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* no process remains after a failed test */
        dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        close(out[1]);
        setenv("TUTTI_TOKEN", token, 1);
        execl(tool, tool, "coordinator", "--run", "test", "--listen", p->address, "--journal",
              p->journal, "--lease", "20000", "--grace", "20000", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    f = fdopen(out[0], "r");
    assert_non_null(f);
    if (!fgets(line, sizeof line, f) || sscanf(line, "listening on %63s", p->address) != 1)
        fail_msg("the coordinator says \"%s\", not where it listens", line);
    fclose(f);
}

static void end(struct process *p, int how)
{
    int status;

    assert_int_equal(kill(p->pid, how), 0);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    if (how == SIGTERM) {
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void remove_journal(const struct process *p)
{
    char beside[80];

    unlink(p->journal);
    snprintf(beside, sizeof beside, "%s-wal", p->journal);
    unlink(beside);
}

static bool are_idle(const struct hive *h, uint64_t unused)
{
    (void)unused;
    for (uint32_t i = 0; i < h->n; i++)
        if (h->lights[i].m.calling)
            return false;
    return true;
}

/* The periodic calls of members: `commit`, which requires all, and sometimes `epoch`, which may
 * change nothing. */
static void call_all(struct hive *h, bool epoch)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (epoch)
            hive_epoch(h, i, 0);
        else
            hive_call(h, i, &(struct tt_elmsg){ .what = TT_CALL_COMMIT, .value = 1 });
}

static void assert_good(const struct hive *h, bool epoch, uint32_t kills)
{
    for (uint32_t i = 0; i < h->n; i++) {
        const struct light *l = &h->lights[i];

        if (l->over)
            fail_msg("after %u kills member %u is out: %s", kills, i, l->text);
        if (l->m.epoch != h->lights[0].m.epoch || l->m.round != h->lights[0].m.round ||
            l->m.nranks != MEMBERS)
            fail_msg("after %u kills member %u is in epoch %llu, round %llu, with %u", kills, i,
                     (unsigned long long)l->m.epoch, (unsigned long long)l->m.round, l->m.nranks);
        assert_int_equal(l->what, epoch ? TT_ROUND_SAME : TT_ROUND_OK);
        if (!epoch)
            assert_int_equal(l->value, 1);
    }
}

static void kills_never_lose_the_run(void **state)
{
    const struct tt_secure_conf secure = { .mode = TT_SECURE_TOKEN, .token = token };
    struct process p = { .address = "127.0.0.1:0" };
    struct hive *h;
    struct tt_prng prng;
    uint64_t rounds = 0;
    bool epoch = false; /* whether the last call of all members was `epoch` */

    (void)state;
    if (!getenv("TUTTI_BUILD_DIR"))
        skip();
    snprintf(p.journal, sizeof p.journal, "/tmp/tutti-killed-%d", (int)getpid());
    remove_journal(&p);
    tt_prng_init(&prng, 4711);
    start(&p);
    h = hive_create("test", MEMBERS, 1, MEMBERS, false, &secure);
    hive_add_address(h, p.address);
    for (uint32_t i = 0; i < MEMBERS; i++) { /* the first kills occur while they join */
        hive_start(h, i);
        hive_epoch(h, i, MEMBERS);
    }
    for (uint32_t kills = 0; kills < KILLS; kills++) {
        const uint64_t until_ns = tt_now_ns() + tt_prng_below(&prng, 40 * TT_MS);

        while (tt_now_ns() < until_ns) {
            hive_turn(h, 1);
            if (h->lights[0].m.epoch == 0 || !are_idle(h, 0))
                continue;
            if (rounds > 0)
                assert_good(h, epoch, kills);
            epoch = ++rounds % 5 == 0;
            call_all(h, epoch);
        }
        end(&p, SIGKILL);
        for (uint64_t n = tt_prng_below(&prng, 3); n > 0; n--)
            hive_turn(h, 2);
        start(&p);
        if (kills == 2)
            assert_true(hive_until(h, hive_all_in_epoch, 1, WAIT_MS));
        if (kills > 2) {
            assert_true(hive_until(h, are_idle, 0, WAIT_MS));
            if (rounds > 0)
                assert_good(h, epoch, kills);
            epoch = false;
            call_all(h, epoch);
            assert_true(hive_until(h, are_idle, 0, WAIT_MS));
            assert_good(h, epoch, kills);
            rounds++;
        }
    }
    assert_true(rounds >= KILLS - 3);
    assert_int_equal(h->lights[0].m.epoch, 1);
    end(&p, SIGTERM);
    hive_destroy(h);
    remove_journal(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kills_never_lose_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
