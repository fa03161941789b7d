/* Real coordinators of one run, with its journal in a real etcd: one is the leader. When it is
 * killed or stopped another one takes over, no member is lost, and the first one writes nothing
 * when it continues. */
#include "support/unit.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/etcd.h"
#include "etcd_server.h"
#include "shown.h"
#include "support/hive.h"
#include "tutti/coordinator.h"

#define WAIT_MS 60000
/* time limit for a takeover, also on a busy machine: the lease is 3 s */
#define SECONDS_MS 15000
#define MEMBERS 4
#define LINES_BYTES 512

static struct etcd_server server;
static char servers[128];       /* address of etcd, for the started coordinators */
static const char token[] = "3c9f1d77a05b4e2288aa";

/* `tutti coordinator`, and its output. */
struct process {
    pid_t pid;
    int out;
    char store[160];
    char address[64];
    char said[LINES_BYTES];
};

/* http: address of its page; NULL: none. */
static void start_showing(struct process *p, unsigned run, const char *address, const char *http)
{
    char tool[512];
    int out[2];

    *p = (struct process){ 0 };
    snprintf(tool, sizeof tool, "%s/tutti", getenv("TUTTI_BUILD_DIR"));
    snprintf(p->store, sizeof p->store, "etcd://%s/run%u", servers, run);
    assert_int_equal(pipe(out), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        close(out[1]);
        setenv("TUTTI_TOKEN", token, 1);
        setenv("TUTTI_LOG", "none", 1);
        execl(tool, tool, "coordinator", "--run", "test", "--listen", address, "--store", p->store,
              "--lease", "20000", "--grace", "20000", http ? "--http" : (char *)NULL, http,
              (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    p->out = out[0];
}

static void start(struct process *p, unsigned run, const char *address)
{
    start_showing(p, run, address, NULL);
}

/* Returns whether the process reports within timeout_ms that it is the leader, and its address. */
static bool leads(struct process *p, int timeout_ms)
{
    const uint64_t deadline_ns = tt_deadline_ns(tt_now_ns(), timeout_ms);
    struct pollfd fd = { .fd = p->out, .events = POLLIN };

    while (!strchr(p->said, '\n')) {
        const uint64_t now_ns = tt_now_ns();
        const size_t at = strlen(p->said);
        ssize_t n;

        if (poll(&fd, 1, now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / TT_MS) + 1 : 0) <= 0)
            return false;
        n = read(p->out, p->said + at, sizeof p->said - 1 - at);
        if (n <= 0)
            fail_msg("the coordinator ended, and said \"%s\"", p->said);
    }
    assert_int_equal(sscanf(p->said, "listening on %63s", p->address), 1);
    p->said[0] = '\0';
    return true;
}

static int end(struct process *p, int how)
{
    int status;

    kill(p->pid, SIGCONT);
    assert_int_equal(kill(p->pid, how), 0);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    close(p->out);
    return status;
}

static void end_well(struct process *p)
{
    const int status = end(p, SIGTERM);

    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- members ---- */

static struct hive *gather(const struct process *leader)
{
    struct hive *h =
        hive_create("test", MEMBERS, 1, MEMBERS, false,
                    &(struct tt_secure_conf){ .mode = TT_SECURE_TOKEN, .token = token });

    hive_add_address(h, leader->address);
    assert_true(hive_gather(h, WAIT_MS));
    return h;
}

static uint32_t calls_of(const struct hive *h)
{
    return h->lights[0].calls;
}

/* All members commit a step; afterwards, members and view are unchanged. */
static void commit(struct hive *h)
{
    const uint32_t calls = calls_of(h) + 1;

    for (uint32_t i = 0; i < h->n; i++)
        hive_call(h, i, &(struct tt_elmsg){ .what = TT_CALL_COMMIT, .value = 1 });
    if (!hive_until(h, hive_all_called, calls, WAIT_MS))
        fail_msg("members cannot commit; member 0: connected %d, over %d, %s",
                 h->lights[0].channel != NULL, h->lights[0].over, h->lights[0].why);
    for (uint32_t i = 0; i < h->n; i++) {
        const struct light *l = &h->lights[i];

        assert_false(l->over);
        assert_int_equal(l->what, TT_ROUND_OK);
        assert_int_equal(l->value, 1);
        assert_int_equal(l->m.epoch, h->lights[0].m.epoch);
        assert_int_equal(l->m.nranks, MEMBERS);
    }
}

/* ---- contents of etcd ---- */

/* mod_revision of the list of records: changes with each commit. */
static int64_t revision(const struct process *p)
{
    struct json_object *request = json_object_new_object(), *answer;
    int64_t found;
    struct tt_etcd *e;
    char key[128];

    snprintf(key, sizeof key, "%s/journal", strchr(p->store + 7, '/'));
    tt_etcd_add_text(request, "key", key);
    assert_int_equal(tt_etcd_create(&e, server.address), TUTTI_OK);
    assert_int_equal(tt_etcd_call(e, "kv/range", request, tt_now_ns() + WAIT_MS * TT_MS, &answer),
                     TUTTI_OK);
    found = tt_etcd_number(json_object_array_get_idx(tt_etcd_at(answer, "kvs"), 0), "mod_revision");
    json_object_put(answer);
    tt_etcd_destroy(e);
    return found;
}

/* ---- tests ---- */

static void standby_replaces_an_ended_leader(void **state)
{
    struct process a, b, c;
    struct hive *h;
    uint64_t begin_ns;

    (void)state;
    start(&a, 1, "127.0.0.1:0");
    assert_true(leads(&a, WAIT_MS));
    h = gather(&a);
    start(&b, 1, "127.0.0.1:0");
    commit(h);
    assert_false(leads(&b, 700));
    begin_ns = tt_now_ns();
    end(&a, SIGKILL);
    assert_true(leads(&b, SECONDS_MS));
    printf("the standby leads %llu ms after the leader was killed\n",
           (unsigned long long)((tt_now_ns() - begin_ns) / TT_MS));
    hive_add_address(h, b.address);
    commit(h);
    commit(h);
    start(&c, 1, "127.0.0.1:0");
    assert_false(leads(&c, 700));
    begin_ns = tt_now_ns();
    end_well(&b);       /* after a regular exit, the standbys need not wait for its lease */
    assert_true(leads(&c, WAIT_MS));
    printf("the standby leads %llu ms after the leader was told to end\n",
           (unsigned long long)((tt_now_ns() - begin_ns) / TT_MS));
    hive_add_address(h, c.address);
    commit(h);
    hive_destroy(h);
    end_well(&c);
}

/* Reads the next line of its output. */
static void await_line(struct process *p, const char *format, char word[64])
{
    struct pollfd fd = { .fd = p->out, .events = POLLIN };
    size_t at = 0;

    do {
        assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
        assert_int_equal(read(p->out, p->said + at, 1), 1);
        assert_true(++at < sizeof p->said);
    } while (p->said[at - 1] != '\n');
    p->said[at] = '\0';
    if (sscanf(p->said, format, word) != 1)
        fail_msg("\"%s\" is not like \"%s\"", p->said, format);
    p->said[0] = '\0';
}

static void standby_page_names_the_leader(void **state)
{
    char leader[64], page[64], where[64];
    struct process a, b;

    (void)state;
    start(&a, 5, "127.0.0.1:0");
    assert_true(leads(&a, WAIT_MS));
    start_showing(&b, 5, "127.0.0.1:0", "127.0.0.1:0");
    await_line(&b, "status page: http://%63[^/]/", page);
    snprintf(leader, sizeof leader, "\"leader\":\"process %d on ", (int)a.pid);
    shown_await(page, "/status.json", leader);
    shown_await(page, "/status.json", "\"standing_by\":true");
    snprintf(leader, sizeof leader, "process %d on ", (int)a.pid);
    shown_await(page, "/", leader);
    shown_await(page, "/metrics", "\ntutti_coordinator_standing_by 1\n");
    shown_await(page, "/healthz", "ok, standing by");
    end(&a, SIGKILL);
    await_line(&b, "listening on %63s", where);
    shown_await(page, "/status.json", "\"standing_by\":false");
    shown_await(page, "/metrics", "\ntutti_coordinator_standing_by 0\n");
    shown_await(page, "/healthz", "ok");
    shown_await(page, "/", "No member has joined yet.");
    end_well(&b);
}

static void *create(void *arg)
{
    tutti_coordinator_conf conf = { .size = sizeof conf,
                                    .run = "test",
                                    .token = token,
                                    .store = arg,
                                    .http = "127.0.0.1:0",
                                    .lease_ms = 20000,
                                    .grace_ms = 20000,
                                    .stand_by_ms = -1 };
    tutti_coordinator *c = NULL;

    return tutti_coordinator_create(&c, &conf) == TUTTI_OK ? c : NULL;
}

/* The same within this process, by the public API. */
static void embedded_standby_takes_over(void **state)
{
    tutti_coordinator_conf conf = {
        .size = sizeof conf, .run = "test", .token = token, .stand_by_ms = 300
    };
    tutti_coordinator *c = NULL;
    struct process a, b;
    pthread_t thread;
    void *created;
    struct hive *h;

    (void)state;
    start(&a, 6, "127.0.0.1:0");
    assert_true(leads(&a, WAIT_MS));
    h = gather(&a);
    commit(h);
    conf.store = a.store;
    assert_int_equal(tutti_coordinator_create(&c, &conf), TUTTI_ERR_TIMEOUT);
    assert_non_null(strstr(tutti_last_error(), "another coordinator still leads"));
    assert_null(c);
    assert_int_equal(pthread_create(&thread, NULL, create, a.store), 0);
    end(&a, SIGKILL);
    assert_int_equal(pthread_join(thread, &created), 0);
    assert_non_null(created);
    c = created;
    shown_await(tutti_coordinator_http(c), "/status.json", "\"standing_by\":false");
    hive_add_address(h, tutti_coordinator_address(c, 0));
    commit(h);
    assert_int_equal(tutti_coordinator_check(c), TUTTI_OK);
    tutti_coordinator_destroy(c);       /* its lease is released, so the next one does not wait */
    start(&b, 6, "127.0.0.1:0");
    assert_true(leads(&b, WAIT_MS));
    hive_add_address(h, b.address);
    commit(h);
    hive_destroy(h);
    end_well(&b);
}

static void stopped_leader_writes_nothing_afterwards(void **state)
{
    struct process a, b;
    struct hive *h;
    int64_t was;

    (void)state;
    start(&a, 2, "127.0.0.1:0");
    assert_true(leads(&a, WAIT_MS));
    h = gather(&a);
    start(&b, 2, "127.0.0.1:0");
    kill(a.pid, SIGSTOP);
    for (uint32_t i = 0; i < h->n; i++)     /* messages that process a reads when it continues */
        hive_call(h, i, &(struct tt_elmsg){ .what = TT_CALL_COMMIT, .value = 1 });
    hive_turn(h, 100);
    assert_true(leads(&b, WAIT_MS));
    was = revision(&b);
    kill(a.pid, SIGCONT);
    assert_false(leads(&a, 1500));          /* process a is on standby now */
    assert_int_equal(waitpid(a.pid, NULL, WNOHANG), 0);
    assert_int_equal(revision(&b), was);
    hive_add_address(h, b.address);
    for (uint32_t i = 0; i < h->n; i++)
        if (h->lights[i].channel)
            hive_cut(h, i, false);          /* as if the host had failed */
    assert_true(hive_until(h, hive_all_called, 2, WAIT_MS));
    commit(h);
    end_well(&b);
    assert_true(leads(&a, WAIT_MS));
    hive_add_address(h, a.address);
    commit(h);
    hive_destroy(h);
    end_well(&a);
}

static void run_survives_a_long_etcd_outage(void **state)
{
    struct process a;
    struct hive *h;

    (void)state;
    start(&a, 3, "127.0.0.1:0");
    assert_true(leads(&a, WAIT_MS));
    h = gather(&a);
    commit(h);
    etcd_server_kill(&server);
    assert_false(leads(&a, 5000));          /* process a is not the leader any more, and waits */
    assert_int_equal(waitpid(a.pid, NULL, WNOHANG), 0);
    etcd_server_start(&server);
    assert_true(leads(&a, WAIT_MS));
    hive_add_address(h, a.address);
    commit(h);
    hive_destroy(h);
    end_well(&a);
}

static void start_at(struct process *p, unsigned run)
{
    char address[32];

    snprintf(address, sizeof address, "127.0.0.1:%u", unit_free_port());
    start(p, run, address);
}

/* First the leader of the etcd cluster, then the server that is queried first is killed: two of
 * three continue. If that takes longer than the coordinator's lease, it comes back at its address.
 * Then the coordinator is killed, too. */
static void run_survives_killed_etcd_servers(void **state)
{
    struct etcd_server cluster[3];
    struct process a, b;
    struct hive *h;

    (void)state;
    etcd_cluster_create(cluster, 3);
    snprintf(servers, sizeof servers, "%s,%s,%s", cluster[0].address, cluster[1].address,
             cluster[2].address);
    start_at(&a, 7);
    assert_true(leads(&a, WAIT_MS));
    h = gather(&a);
    commit(h);
    for (int times = 0; times < 2; times++) {
        struct etcd_server *one = &cluster[times ? 0 : etcd_cluster_leader(cluster, 3)];

        etcd_server_kill(one);
        commit(h);
        commit(h);
        if (times == 0)
            etcd_server_start(one);
    }
    start_at(&b, 7);
    end(&a, SIGKILL);
    assert_true(leads(&b, WAIT_MS));
    hive_add_address(h, b.address);
    commit(h);
    hive_destroy(h);
    end_well(&b);
    for (uint32_t i = 0; i < 3; i++)
        etcd_server_destroy(&cluster[i]);
    snprintf(servers, sizeof servers, "%s", server.address);
}

static void runs_do_not_share_a_store(void **state)
{
    struct process a;
    char command[700], said[300] = "";
    FILE *f;
    int status;

    (void)state;
    start(&a, 4, "127.0.0.1:0");
    assert_true(leads(&a, WAIT_MS));
    end_well(&a);
    snprintf(command, sizeof command,
             "%s/tutti coordinator --run other --listen 127.0.0.1:0 --store %s 2>&1",
             getenv("TUTTI_BUILD_DIR"), a.store);
    f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(said, sizeof said, f));
    status = pclose(f);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    assert_non_null(strstr(said, "belongs to run \"test\", not \"other\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(standby_replaces_an_ended_leader),
        cmocka_unit_test(standby_page_names_the_leader),
        cmocka_unit_test(embedded_standby_takes_over),
        cmocka_unit_test(stopped_leader_writes_nothing_afterwards),
        cmocka_unit_test(run_survives_a_long_etcd_outage),
        cmocka_unit_test(run_survives_killed_etcd_servers),
        cmocka_unit_test(runs_do_not_share_a_store),
    };
    int failed;

    if (!etcd_server_is_here()) {
        printf("skipped: there is no /usr/bin/etcd (Debian: etcd-server)\n");
        return 77;
    }
    etcd_server_create(&server);
    snprintf(servers, sizeof servers, "%s", server.address);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    etcd_server_destroy(&server);
    return failed;
}
