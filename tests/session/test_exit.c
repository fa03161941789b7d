/* exit() while a run's members are in operations, with a coordinator in the process. OpenSSL, which
 * code outside the library has initialized first, is then freed, and no thread may be inside it. */
#include "session/party.h"

#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/prng.h"
#include "session/run.h"

#define ROUNDS 20               /* default; TUTTI_TEST_EXITS replaces it */
#define MEMBERS 2
#define AFTER_US 20000          /* maximum time from the first operation to exit() */
#define HANDLERS_US 5000
#define PATIENCE_S 120
#define TOKEN "0123456789abcdef0123456789abcdef"

static struct party party;
static struct guest guests[MEMBERS];
static bool lives;              /* this process runs the members */
static bool destroys;           /* it also destroys the members and the coordinator, after OpenSSL
                                   was freed */
static bool cuts;               /* it first cuts the members' connections */

/* Without a token, a run works without OpenSSL, except that members cannot authenticate again. */
static void cut_all(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        tt_run_lock(guests[i].run);
        for (struct tt_peer_conn *c = guests[i].run->conns; c; c = c->next)
            shutdown(c->fd, SHUT_RDWR);
        tt_run_unlock(guests[i].run);
    }
}

/* Waits first, as other exit handlers take time during which all threads continue. */
static void end_all(void)
{
    if (cuts)
        cut_all();
    if (lives)
        usleep(HANDLERS_US);
    if (!destroys)
        return;
    for (int i = 0; i < MEMBERS; i++) {
        tutti_run_leave(guests[i].run);
        tutti_run_destroy(guests[i].run);
    }
    party_end(&party);
}

/* Runs before the library's constructors, as another library would whose use of OpenSSL frees it at
 * exit(). Handlers registered earlier run after it. */
__attribute__((constructor(101))) static void use_openssl_first(void)
{
    atexit(end_all);
    OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL);
}

static void reduce_on_and_on(struct guest *g)
{
    static _Thread_local int64_t v[20000];
    tutti_view view = { .size = sizeof view };

    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, MEMBERS, 0, 0, &view));
    while (tutti_run_allreduce(g->run, v, v, 20000, TUTTI_I64, TUTTI_SUM, 0) == TUTTI_OK)
        party_reach(g->party, 1);
    for (;;)    /* OpenSSL was freed, so an operation may fail */
        pause();
}

/* Joins repeatedly: handshakes use most of OpenSSL. */
static void *come_and_go(void *arg)
{
    const tutti_run_conf conf = { .size = sizeof conf,
                                  .coordinators = party.address,
                                  .run = "test",
                                  .token = TOKEN,
                                  .timeout_ms = 20000 };
    tutti_run *run;

    while (tutti_run_join(&run, &conf) == TUTTI_OK)
        tutti_run_destroy(run);
    for (;;)
        pause();
    return arg;
}

static void *be_a_guest(void *arg)
{
    struct guest *g = arg;

    g->run = party_join(g->party, g->index, g->token);
    g->program(g);
    return NULL;
}

/* Starts the coordinator and the members in this child process. */
static void live(const char *token, void (*program)(struct guest *g))
{
    lives = true;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(PATIENCE_S);
    tt_log_set(TT_LOG_NONE);    /* errors during exit are intended */
    setenv("TUTTI_WIRES", "tcp", 1);
    party_begin(&party, 20000, 20000, token);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        guests[i] =
            (struct guest){ .party = &party, .index = i, .program = program, .token = token };
        CHECK(pthread_create(&guests[i].thread, NULL, be_a_guest, &guests[i]) == 0);
    }
}

static void live_and_exit(uint64_t seed, bool with_handler)
{
    pthread_t other;

    destroys = with_handler;
    live(TOKEN, reduce_on_and_on);
    party_await(&party, 1);
    CHECK(pthread_create(&other, NULL, come_and_go, NULL) == 0);
    usleep((useconds_t)(tt_mix64(seed) % AFTER_US));
    exit(0);
}

static void reduce_once(struct guest *g)
{
    tutti_view view = { .size = sizeof view };
    int64_t v = 1;

    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, MEMBERS, 0, 0, &view));
    MUST(tutti_run_allreduce(g->run, &v, &v, 1, TUTTI_I64, TUTTI_SUM, 0));
}

static void live_plainly_and_exit(uint64_t seed, bool with_handler)
{
    (void)seed;
    cuts = true;
    destroys = with_handler;
    live(NULL, reduce_once);
    for (uint32_t i = 0; i < MEMBERS; i++)
        pthread_join(guests[i].thread, NULL);
    exit(0);
}

static void exit_again_and_again(void (*exits)(uint64_t seed, bool with_handler), int rounds)
{
    assert_true(rounds > 0);
    tt_view_comms_constants();   /* measured once, for all children */
    for (int i = 0; i < rounds; i++) {
        const uint64_t seed = unit_turn() * 1000 + (uint64_t)i;
        pid_t child;
        int status;

        fflush(NULL);
        child = fork();
        assert_true(child >= 0);
        if (child == 0)
            exits(seed, i % 2);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("round %d, seed %llu: status %#x (signal %d)", i, (unsigned long long)seed,
                     status, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
}

static int rounds_of(int rounds)
{
    const char *many = getenv("TUTTI_TEST_EXITS");

    return many ? atoi(many) : rounds / UNIT_SHARE + 1;
}

static void exit_during_operations_works(void **state)
{
    (void)state;
    exit_again_and_again(live_and_exit, rounds_of(ROUNDS));
}

static void exit_during_plain_authentication_works(void **state)
{
    (void)state;
    exit_again_and_again(live_plainly_and_exit, rounds_of(3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_during_operations_works),
        cmocka_unit_test(exit_during_plain_authentication_works),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
