#include "support/unit.h"

#include <fcntl.h>
#include <ftw.h>
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

#define PATIENCE_NS (60 * TT_SECOND)

bool etcd_server_is_here(void)
{
    return access("/usr/bin/etcd", X_OK) == 0;
}

static void run(const struct etcd_server *s)
{
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    char client[64], peer[64];

    snprintf(client, sizeof client, "http://127.0.0.1:%u", s->port);
    snprintf(peer, sizeof peer, "http://127.0.0.1:%u", s->peer_port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(nothing, 0);
    dup2(nothing, 1);
    dup2(nothing, 2);
    execl("/usr/bin/etcd", "etcd", "--name", s->name, "--data-dir", s->directory,
          "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls",
          peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", s->cluster,
          "--heartbeat-interval", "50", "--election-timeout", "500", (char *)NULL);
    _exit(127);
}

static void begin(struct etcd_server *s)
{
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0)
        run(s);
}

/* Sends a request to this server, and waits until it replies. */
static struct json_object *request_until_answered(const struct etcd_server *s, const char *method,
                                                  struct json_object *request)
{
    struct json_object *answer;
    struct tt_etcd *e;

    assert_int_equal(tt_etcd_create(&e, s->address), TUTTI_OK);
    assert_int_equal(tt_etcd_call(e, method, request, tt_now_ns() + PATIENCE_NS, &answer),
                     TUTTI_OK);
    tt_etcd_destroy(e);
    return answer;
}

static void await(const struct etcd_server *s)
{
    struct json_object *request = json_object_new_object();

    tt_etcd_add_text(request, "key", "/none");      /* etcd replies only if there is a leader */
    json_object_put(request_until_answered(s, "kv/range", request));
}

void etcd_server_start(struct etcd_server *s)
{
    begin(s);
    await(s);
}

void etcd_cluster_create(struct etcd_server *s, uint32_t n)
{
    unsigned ports[2 * ETCD_CLUSTER_MAX];
    char cluster[sizeof s->cluster] = "";

    assert_in_range(n, 1, ETCD_CLUSTER_MAX);
    for (uint32_t i = 0; i < 2 * n; i++) {
        ports[i] = unit_free_port();
        for (uint32_t k = 0; k < i; k++)
            if (ports[k] == ports[i]) {
                i--;
                break;
            }
    }
    for (uint32_t i = 0; i < n; i++) {
        const size_t at = strlen(cluster);

        s[i] = (struct etcd_server){ .port = ports[2 * i],
                                     .peer_port = ports[2 * i + 1],
                                     .directory = "/tmp/tutti-etcd-XXXXXX" };
        assert_non_null(mkdtemp(s[i].directory));
        snprintf(s[i].address, sizeof s[i].address, "127.0.0.1:%u", s[i].port);
        snprintf(s[i].name, sizeof s[i].name, "etcd%u", i);
        snprintf(cluster + at, sizeof cluster - at, "%s%s=http://127.0.0.1:%u", i ? "," : "",
                 s[i].name, s[i].peer_port);
    }
    for (uint32_t i = 0; i < n; i++) {
        memcpy(s[i].cluster, cluster, sizeof cluster);
        begin(&s[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        await(&s[i]);
}

void etcd_server_create(struct etcd_server *s)
{
    etcd_cluster_create(s, 1);
}

uint32_t etcd_cluster_leader(const struct etcd_server *s, uint32_t n)
{
    const uint64_t deadline_ns = tt_now_ns() + PATIENCE_NS;

    for (uint32_t i = 0; tt_now_ns() < deadline_ns; i = (i + 1) % n) {
        struct json_object *answer;
        const char *leader, *own;
        bool leads;

        if (s[i].pid == 0)
            continue;
        answer = request_until_answered(&s[i], "maintenance/status", json_object_new_object());
        leader = json_object_get_string(tt_etcd_at(answer, "leader"));
        own = json_object_get_string(tt_etcd_at(tt_etcd_at(answer, "header"), "member_id"));
        leads = leader && own && strcmp(leader, own) == 0;
        json_object_put(answer);
        if (leads)
            return i;
    }
    fail_msg("no server of the cluster leads");
    return 0;
}

void etcd_server_kill(struct etcd_server *s)
{
    if (s->pid == 0)
        return;
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

static int remove_one(const char *path, const struct stat *st, int what, struct FTW *at)
{
    (void)st;
    (void)what;
    (void)at;
    return remove(path);
}

void etcd_server_destroy(struct etcd_server *s)
{
    etcd_server_kill(s);
    nftw(s->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
