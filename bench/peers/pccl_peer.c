/* PCCL (pypccl on PyPI) as a contestant: all-reduce over TCP, its only collective.
 *
 *   pccl_peer DIR RANK RANKS ADDRESS:PORT LIBRARY
 *
 * The library is loaded at run time, because its package has no header; the declarations below
 * follow its Python binding. Rank 0 starts the master as a separate process, as PCCL's users do.
 *
 * one        one all-reduce, which uses one connection of the pool
 * N_at_once  N parts, all concurrently (peer.h): PCCL's method to use several connections
 * N_in_row   N parts, one after the other
 * eight      8_at_once
 * optimize   of a barrier: pcclOptimizeTopology first, which measures all links and changes the
 *            ring
 *
 * Its pool has PCCL_PEER_POOL connections, 8 by default.
 *
 * PCCL has no barrier and no other collectives, so the barriers and maxima of the benchmark itself
 * use memory shared by the ranks. */
#define _DEFAULT_SOURCE
#include "meeting.h"
#include "peer.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define POOL "8"

/* ---- declarations of its library ---- */

enum { PCCL_SUCCESS, PCCL_FLOAT = 10, PCCL_SUM = 0, PCCL_GLOBAL_WORLD_SIZE = 1 };

struct pccl_address {
    int protocol;               /* 0: IPv4 */
    uint8_t v4[4], v6[16];
    uint16_t port;
};

/* In the library, the address without the port is a separate struct. */
_Static_assert(sizeof(struct pccl_address) == 28, "as its library lays it out");

struct pccl_conf {
    struct pccl_address master;
    uint32_t group, pool;
};

struct pccl_info {
    uint32_t world;
    uint64_t sent, received;
};

struct pccl_reduce {
    size_t count;
    int op;
    uint64_t tag;
    struct {
        int type, distribution;
    } operand;
    struct {
        int type, algorithm;    /* 0: not quantized */
    } quantized;
};

struct pccl_async {
    void *comm;
    uint64_t tag;
};

static struct {
    int (*init)(void);
    int (*create)(const struct pccl_conf *conf, void **out);
    int (*connect)(void *comm);
    int (*destroy)(void *comm);
    int (*attribute)(const void *comm, int which, int *out);
    int (*pending)(const void *comm, bool *out);
    int (*update)(void *comm);
    int (*optimize)(void *comm);
    int (*allreduce)(const void *src, void *dst, const struct pccl_reduce *how, const void *comm,
                     struct pccl_info *info);
    int (*start)(const void *src, void *dst, const struct pccl_reduce *how, const void *comm,
                 struct pccl_async *out);
    int (*await)(const struct pccl_async *op, struct pccl_info *info);
    int (*create_master)(struct pccl_address at, void **out);
    int (*run_master)(void *master);
    int (*await_master)(void *master);
} pccl;

static void *find(void *library, const char *name)
{
    void *f = dlsym(library, name);

    if (!f) {
        fprintf(stderr, "pccl_peer: %s\n", dlerror());
        exit(1);
    }
    return f;
}

static void open_library(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

    if (!library) {
        fprintf(stderr, "pccl_peer: %s\n", dlerror());
        exit(1);
    }
    *(void **)&pccl.init = find(library, "pcclInit");
    *(void **)&pccl.create = find(library, "pcclCreateCommunicator");
    *(void **)&pccl.connect = find(library, "pcclConnect");
    *(void **)&pccl.destroy = find(library, "pcclDestroyCommunicator");
    *(void **)&pccl.attribute = find(library, "pcclGetAttribute");
    *(void **)&pccl.pending = find(library, "pcclArePeersPending");
    *(void **)&pccl.update = find(library, "pcclUpdateTopology");
    *(void **)&pccl.optimize = find(library, "pcclOptimizeTopology");
    *(void **)&pccl.allreduce = find(library, "pcclAllReduce");
    *(void **)&pccl.start = find(library, "pcclAllReduceAsync");
    *(void **)&pccl.await = find(library, "pcclAwaitAsyncReduce");
    *(void **)&pccl.create_master = find(library, "pcclCreateMaster");
    *(void **)&pccl.run_master = find(library, "pcclRunMaster");
    *(void **)&pccl.await_master = find(library, "pcclMasterAwaitTermination");
}

static void check(int result, const char *call)
{
    if (result == PCCL_SUCCESS)
        return;
    fprintf(stderr, "pccl_peer: %s failed with %d\n", call, result);
    exit(1);
}

/* ---- the contestant ---- */

struct peer {
    struct meeting meeting;     /* must be first: functions of meeting.h get this pointer */
    void *comm;
    int parts, at_once;         /* parts 0: one all-reduce */
};

/* PCCL's documentation recommends a retry on failure. Its examples update the topology
 * afterwards. */
static void optimize(struct peer *p)
{
    int result = pccl.optimize(p->comm);

    for (int attempt = 0; attempt < 10 && result != PCCL_SUCCESS; attempt++) {
        usleep(100000);
        result = pccl.optimize(p->comm);
    }
    check(result, "pcclOptimizeTopology");
    check(pccl.update(p->comm), "pcclUpdateTopology");
}

static const char *prepare(void *ctx, const struct peer_job *job, int fresh)
{
    const int optimizes = job->coll == PEER_BARRIER && !strcmp(job->algo, "optimize");
    struct peer *p = ctx;

    (void)fresh;
    if (job->coll != PEER_ALLREDUCE && job->coll != PEER_BARRIER)
        return "PCCL has no such collective";
    p->parts = peer_parts(strcmp(job->algo, "eight") ? job->algo : "8_at_once", &p->at_once);
    if (job->algo[0] && !optimizes && !p->parts && strcmp(job->algo, "one"))
        return "this peer has no algorithm of that name";
    if (optimizes)
        optimize(p);
    return NULL;
}

static struct pccl_reduce sum_of(size_t count, uint64_t tag)
{
    return (struct pccl_reduce){ .count = count,
                                 .op = PCCL_SUM,
                                 .tag = tag,
                                 .operand = { .type = PCCL_FLOAT },
                                 .quantized = { .type = PCCL_FLOAT } };
}

static void run(void *ctx, const struct peer_job *job)
{
    struct peer *p = ctx;
    struct pccl_info info;
    struct pccl_async ops[PEER_PARTS_MAX];
    const int n = p->parts ? p->parts : 1;
    int nstarted = 0;
    size_t at;

    if (job->coll == PEER_BARRIER) {
        meeting_barrier(&p->meeting);
        return;
    }
    for (int i = 0; i < n; i++) {
        const struct pccl_reduce some = sum_of(peer_part(job, i, n, &at), (uint64_t)i);

        if (some.count == 0)
            break;          /* all further parts are empty, too */
        nstarted++;
        if (n > 1 && p->at_once)
            check(pccl.start(job->src + at, job->dst + at, &some, p->comm, &ops[i]),
                  "pcclAllReduceAsync");
        else
            check(pccl.allreduce(job->src + at, job->dst + at, &some, p->comm, &info),
                  "pcclAllReduce");
    }
    for (int i = 0; i < nstarted && n > 1 && p->at_once; i++)
        check(pccl.await(&ops[i], &info), "pcclAwaitAsyncReduce");
}

static struct pccl_address address_of(const char *text)
{
    struct pccl_address a = { 0 };
    const char *colon = strrchr(text, ':');
    char host[64];

    snprintf(host, sizeof(host), "%.*s", colon ? (int)(colon - text) : 0, text);
    if (!colon || inet_pton(AF_INET, host, a.v4) != 1) {
        fprintf(stderr, "pccl_peer: %s is no IPv4 address with a port\n", text);
        exit(1);
    }
    a.port = (uint16_t)atoi(colon + 1);
    return a;
}

static bool answers(const struct pccl_address *at)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(at->port) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_there;

    memcpy(&address.sin_addr, at->v4, sizeof(at->v4));
    is_there = fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return is_there;
}

/* Starts the master in a separate process, which ends with this one. Returns when it listens. */
static void start_master(struct pccl_address at)
{
    const pid_t child = fork();
    void *master;

    if (child) {
        for (int i = 0; i < 1000 && !answers(&at); i++)
            usleep(10000);
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    check(pccl.create_master(at, &master), "pcclCreateMaster");
    check(pccl.run_master(master), "pcclRunMaster");
    pccl.await_master(master);
    _exit(0);
}

/* Waits until all ranks have joined. */
static void join(struct peer *p, struct pccl_address master)
{
    const char *pool = getenv("PCCL_PEER_POOL");
    struct pccl_conf conf = { .master = master, .pool = (size_t)atoi(pool ? pool : POOL) };
    int result = 1, world = 0;

    check(pccl.create(&conf, &p->comm), "pcclCreateCommunicator");
    for (int attempt = 0; attempt < 50 && result != PCCL_SUCCESS; attempt++) {
        if (attempt)
            usleep(100000);
        result = pccl.connect(p->comm);
    }
    check(result, "pcclConnect");
    while (world < p->meeting.nranks) {
        bool pending = false;

        check(pccl.attribute(p->comm, PCCL_GLOBAL_WORLD_SIZE, &world), "pcclGetAttribute");
        if (world == p->meeting.nranks)
            break;
        check(pccl.pending(p->comm, &pending), "pcclArePeersPending");
        if (pending)
            check(pccl.update(p->comm), "pcclUpdateTopology");
        else
            usleep(10000);
    }
}

int main(int argc, char **argv)
{
    struct peer p = { 0 };
    const struct peer_ops ops = { .name = "PCCL",
                                  .version = "1.0.0",
                                  .rank = argc > 2 ? atoi(argv[2]) : 0,
                                  .nranks = argc > 3 ? atoi(argv[3]) : 0,
                                  .prepare = prepare,
                                  .run = run,
                                  .barrier = meeting_barrier,
                                  .max = meeting_max };
    int status;

    if (argc != 6 || ops.nranks < 1 || ops.nranks > MEETING_RANKS_MAX) {
        fprintf(stderr, "usage: pccl_peer DIR RANK RANKS ADDRESS:PORT LIBRARY\n");
        return 2;
    }
    meeting_open(&p.meeting, argv[1], ops.rank, ops.nranks);
    open_library(argv[5]);
    check(pccl.init(), "pcclInit");
    if (ops.rank == 0)
        start_master(address_of(argv[4]));
    meeting_barrier(&p.meeting);
    join(&p, address_of(argv[4]));
    meeting_barrier(&p.meeting);
    status = peer_serve(argv[1], &ops, &p);
    pccl.destroy(p.comm);
    return status;
}
