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
#include "coordinator/etcd.h"
#include "etcd_server.h"

#define PATIENCE_NS (60 * TT_SECOND)

bool etcd_server_is_here(void)
{
    return access("/usr/bin/etcd", X_OK) == 0;
}

static void run(const struct etcd_server *s)
{
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    char client[64], peer[64], cluster[80];

    snprintf(client, sizeof client, "http://127.0.0.1:%u", s->port);
    snprintf(peer, sizeof peer, "http://127.0.0.1:%u", s->peer_port);
    snprintf(cluster, sizeof cluster, "default=%s", peer);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(nothing, 0);
    dup2(nothing, 1);
    dup2(nothing, 2);
    execl("/usr/bin/etcd", "etcd", "--data-dir", s->directory, "--listen-client-urls", client,
          "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
          "--initial-cluster", cluster, "--heartbeat-interval", "50", "--election-timeout", "500", (char *)NULL);
    _exit(127);
}

void etcd_server_start(struct etcd_server *s)
{
    const uint64_t deadline_ns = tt_now_ns() + PATIENCE_NS;
    struct json_object *answer, *request;
    struct tt_etcd *e;

    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0)
        run(s);
    assert_int_equal(tt_etcd_create(&e, s->address), TUTTI_OK);
    request = json_object_new_object();
    tt_etcd_add_text(request, "key", "/none");      /* is answered once the server leads itself */
    assert_int_equal(tt_etcd_call(e, "kv/range", request, deadline_ns, &answer), TUTTI_OK);
    json_object_put(answer);
    tt_etcd_destroy(e);
}

void etcd_server_create(struct etcd_server *s)
{
    *s = (struct etcd_server){ .directory = "/tmp/tutti-etcd-XXXXXX" };
    assert_non_null(mkdtemp(s->directory));
    s->port = unit_free_port();
    do
        s->peer_port = unit_free_port();
    while (s->peer_port == s->port);
    snprintf(s->address, sizeof s->address, "127.0.0.1:%u", s->port);
    etcd_server_start(s);
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
