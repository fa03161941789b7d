/* A start-up tree of many ranks over real sockets, thousands of ranks in each process:
 * prog_tree RANKS PROCESSES [RANKS_PER_HOST [LEADERS_PER_SERVER]]. Each rank runs the code of
 * src/boot: its node, with a place as long as those of jobs, without address records. Each rank
 * gets the id of the start-up and the first rank of its host: all hosts share the names of local
 * sockets here, so the search for the first rank would take longer than in a job. Each host has its
 * own address, of the network 127.0.0.0/8, so that hosts do not share their ports. Ranks of a
 * process are stepped in turn; each rank checks its result. Prints, as JSON:
 *   seconds            from the common start until the last rank has its result
 *   received_max/mean  bytes that a rank receives
 *   busiest_bytes      bytes that the busiest rank, or the root, sends and receives
 *   root_bytes         of the root
 *   root_message_us    processor time of the root per message: an accepted connection, or a call
 *                      that received data
 *   restarts           how often a rank started again because the root was unreachable
 *   memory_mb          sum of the peak memory of all processes */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "boot/tree_node.h"
#include "packed.h"
#include "support/unit.h"

#define TIMEOUT_NS (550 * TT_SECOND)
#define TOKEN "a token of this start-up"
#define CONSTANTS_BYTES 600
#define PLACE_BYTES 60
#define RESTART_NS (50 * TT_MS)
#define SWEEP_NS (10 * TT_MS)
#define EVENTS 64

struct result {
    uint64_t sent, received, end_ns;
    uint32_t restarts;
};

/* Shared by all processes. */
struct shared {
    pthread_barrier_t started;
    atomic_ullong begin_ns;
    uint32_t nranks, nprocesses, per_host, children_max;
    int pid;                            /* in the names of sockets */
    uint8_t gathering[TT_NONCE_BYTES], secret[TT_TREE_SECRET_BYTES];
    uint8_t constants[CONSTANTS_BYTES];
    uint16_t root_port, port;           /* port: of the servers */
    uint64_t memory_kb[PACKED_PROCESSES_MAX + 1];
    struct result root_result;
    double root_message_us;
    struct result results[];
};

struct rank {
    struct tt_tree_node *node;          /* NULL: done, or to be opened again */
    uint64_t wake_ns;
    bool opened, placed, done;
    uint8_t place[PLACE_BYTES];
};

/* The ranks of a process. */
struct worker {
    struct shared *shared;
    uint32_t first, n, ndone;
    struct tt_address root;             /* address of the root for this process, since an address
                                           has too few ports for all ranks */
    int epoll;
    uint64_t swept_ns, deadline_ns;
    struct rank *ranks;                 /* [n] */
};

static uint32_t leader_of(const struct shared *s, uint32_t rank)
{
    return rank - rank % s->per_host;
}

/* Returns the endpoint of a rank: its host's server, or another port of the host. */
static struct tt_endpoint endpoint_of(const struct shared *s, uint32_t rank)
{
    const uint32_t host = rank / s->per_host, port = s->port + rank % s->per_host;
    struct tt_endpoint e = { .host = tt_mix64(host + 1), .port = (uint16_t)port, .naddrs = 1 };

    e.addrs[0].family = 4;
    e.addrs[0].prefix_bits = 8;
    e.addrs[0].bytes[0] = 127;
    e.addrs[0].bytes[1] = (uint8_t)(1 + (host >> 16));
    e.addrs[0].bytes[2] = (uint8_t)(host >> 8);
    e.addrs[0].bytes[3] = (uint8_t)host;
    return e;
}

static struct tt_tree_address address_of(const struct shared *s, uint32_t rank)
{
    const struct tt_endpoint e = endpoint_of(s, rank);
    struct tt_tree_address out = { .bytes = 0 };
    struct tt_writer w;

    tt_writer_init(&w, out.data, sizeof out.data);
    tt_endpoint_write(&w, &e);
    tt_assert(!w.bad);
    out.bytes = (uint8_t)tt_writer_bytes(&w);
    return out;
}

static struct tt_address loopback(uint32_t address, uint16_t port)
{
    const struct sockaddr_in in = { .sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(address),
                                    .sin_port = htons(port) };
    struct tt_address out = { .bytes = sizeof in };

    memcpy(&out.storage, &in, sizeof in);
    return out;
}

/* Places are equal for ranks at the same position of their hosts. */
static void make_place(const struct shared *s, uint32_t rank, uint8_t out[PLACE_BYTES])
{
    memset(out, 7, PLACE_BYTES);
    out[20] = (uint8_t)(rank % s->per_host / 4);
    out[30] = (uint8_t)(1 << rank % s->per_host % 8);
}

/* Opens the server of the rank's host. */
static int listen_for(const struct shared *s, uint32_t rank)
{
    const uint32_t host = rank / s->per_host;
    const struct tt_address at = loopback((127u << 24) + (1u << 16) + host, s->port);
    uint16_t port;

    return tt_listen(&at, s->port, &port);
}

/* ---- a rank ---- */

/* The name of the leader's local socket. */
static socklen_t leader_name(const struct shared *s, uint32_t rank, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
           (socklen_t)snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "tutti-tree-%d-%u",
                               s->pid, leader_of(s, rank));
}

/* Opens the local socket of a leader. */
static int listen_locally(const struct shared *s, uint32_t rank)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un name;
    const socklen_t bytes = leader_name(s, rank, &name);

    if (fd < 0 ||
        (bind(fd, (const struct sockaddr *)&name, bytes) == 0 && listen(fd, SOMAXCONN) == 0))
        return fd;
    close(fd);
    return -1;
}

/* Returns false if the rank could not be opened. */
static bool rank_open(struct worker *w, uint32_t rank)
{
    struct shared *s = w->shared;
    struct rank *r = &w->ranks[rank - w->first];
    const uint32_t left = s->nranks - leader_of(s, rank);
    const struct tt_endpoint own = endpoint_of(s, rank);
    struct tt_tree_node_conf conf = {
        .tree = { .token = TOKEN,
                  .rank = rank,
                  .nranks = s->nranks,
                  .leader = leader_of(s, rank),
                  .nlocal = left < s->per_host ? left : s->per_host,
                  .process = 77 + rank,
                  .place = r->place,
                  .place_bytes = PLACE_BYTES,
                  .constants = rank == 0 ? s->constants : NULL,
                  .constants_bytes = rank == 0 ? CONSTANTS_BYTES : 0,
                  .token_is_final = true,
                  .children_max = s->children_max,
                  .began_ns = tt_now_ns(),
                  .deadline_ns = w->deadline_ns },
        .listener = -1,
        .local = -1,
        .up = -1,
        .own = &own,
        .root = &w->root,
        .nroot = 1,
    };
    struct epoll_event ev = { .events = EPOLLIN, .data.u32 = rank - w->first };
    struct sockaddr_un leader;

    memcpy(conf.tree.gathering, s->gathering, sizeof s->gathering);
    if (conf.tree.leader == rank) {
        conf.local = listen_locally(s, rank);
        conf.listener = listen_for(s, rank);
        conf.tree.serve_port = endpoint_of(s, rank).port;
        if (conf.local < 0 || conf.listener < 0) {
            fprintf(stderr, "prog_tree: rank %u: cannot listen: %s\n", rank, strerror(errno));
            return false;
        }
    } else {
        conf.leader_bytes = leader_name(s, rank, &leader);
        conf.leader = &leader;
    }
    conf.tree.address = address_of(s, rank);
    make_place(s, rank, r->place);
    if (tt_tree_node_open(&r->node, &conf) != TUTTI_OK) {
        fprintf(stderr, "prog_tree: rank %u: %s\n", rank, tutti_last_error());
        return false;
    }
    r->wake_ns = 0;
    r->opened = true;
    return epoll_ctl(w->epoll, EPOLL_CTL_ADD, tt_tree_node_fd(r->node), &ev) == 0;
}

static bool is_address(const struct tt_tree_address *a, const struct tt_tree_address *expected)
{
    return a->bytes == expected->bytes && memcmp(a->data, expected->data, a->bytes) == 0;
}

/* Checks the layout: each rank the first group, and one rank all groups. */
static bool is_layout(const struct shared *s, uint32_t rank, const struct tt_tree_place *p)
{
    const uint32_t whole = s->nranks / s->per_host;
    uint8_t expected[PLACE_BYTES], bytes;
    struct tt_tree_layout layout;
    struct tt_tree_group g;
    struct tt_tree_walk w;
    const uint8_t *place;
    bool good;

    tt_tree_layout_open(&layout, p->layout, p->layout_bytes);
    good = tt_tree_layout_is_valid(p->layout, p->layout_bytes, s->nranks) &&
           tt_tree_layout_next(&layout, &g) && g.host == 0 && g.nhosts == (whole ? whole : 1) &&
           g.count == (whole ? s->per_host : s->nranks);
    if (!good || rank != s->nranks / 2)
        return good;
    good = tt_tree_walk_init(&w, p->layout, p->layout_bytes) == TUTTI_OK;
    for (uint32_t r = 0; r < s->nranks && good; r++) {
        make_place(s, r, expected);
        good = tt_tree_walk_next(&w, &place, &bytes) == r / s->per_host && bytes == PLACE_BYTES &&
               memcmp(place, expected, PLACE_BYTES) == 0;
    }
    tt_tree_walk_fini(&w);
    return good;
}

/* Returns NULL, or the error in the place of a rank. */
static const char *check_place(const struct shared *s, uint32_t rank, const struct tt_tree_place *p)
{
    const struct tt_tree_address before = address_of(s, (rank + s->nranks - 1) % s->nranks),
                                 after = address_of(s, (rank + 1) % s->nranks);

    if (memcmp(p->secret, s->secret, sizeof s->secret) != 0)
        return "another secret";
    if (p->constants_bytes != CONSTANTS_BYTES ||
        memcmp(p->constants, s->constants, CONSTANTS_BYTES) != 0)
        return "other constants";
    if (!is_layout(s, rank, p))
        return "another layout";
    return is_address(&p->before, &before) && is_address(&p->after, &after)
               ? NULL
               : "other addresses of the ranks before and after it";
}

static void rank_end(struct worker *w, uint32_t i)
{
    tt_tree_node_close(w->ranks[i].node);
    w->ranks[i].node = NULL;
}

/* Steps a rank. Returns false if it has failed. */
static bool rank_step(struct worker *w, uint32_t i)
{
    struct shared *s = w->shared;
    struct result *out = &s->results[w->first + i];
    struct rank *r = &w->ranks[i];
    struct tt_tree *t = tt_tree_node_tree(r->node);
    const char *wrong = NULL;

    packed_sent = packed_received = 0;
    tt_tree_node_step(r->node, tt_now_ns());
    out->sent += packed_sent;
    out->received += packed_received;
    r->wake_ns = tt_tree_node_wake_ns(r->node);
    if (t->state == TT_TREE_PLACED && !r->placed) {
        wrong = check_place(s, w->first + i, &t->place);
        r->placed = true;
        out->end_ns = tt_now_ns();
    }
    if (t->state == TT_TREE_FAILED)
        wrong = t->sentence ? t->sentence : "out of memory";
    if (wrong) {
        fprintf(stderr, "prog_tree: rank %u: %s\n", w->first + i, wrong);
        return false;
    }
    if (tt_tree_node_is_done(r->node)) {
        rank_end(w, i);
        r->done = true;
        w->ndone++;
    } else if (tt_tree_node_lost(r->node)) {
        rank_end(w, i);
        out->restarts++;
        r->placed = false;
        r->wake_ns = tt_now_ns() + RESTART_NS;
    }
    return true;
}

/* ---- processes ---- */

/* Steps the ranks whose wake-up time has passed. Returns false if one has failed. */
static bool worker_sweep(struct worker *w)
{
    const uint64_t now_ns = tt_now_ns();

    if (now_ns - w->swept_ns < SWEEP_NS)
        return true;
    w->swept_ns = now_ns;
    for (uint32_t i = 0; i < w->n; i++) {
        struct rank *r = &w->ranks[i];

        if (r->done || r->wake_ns > now_ns)
            continue;
        if (r->node ? !rank_step(w, i) : r->opened && !rank_open(w, w->first + i))
            return false;
    }
    return true;
}

/* Handles events for at most wait_ms. Returns false if a rank has failed. */
static bool worker_step(struct worker *w, int wait_ms)
{
    struct epoll_event evs[EVENTS];
    const int n = epoll_wait(w->epoll, evs, EVENTS, wait_ms);

    for (int k = 0; k < n; k++)
        if (w->ranks[evs[k].data.u32].node && !rank_step(w, evs[k].data.u32))
            return false;
    return worker_sweep(w);
}

static void note_memory(struct shared *s, uint32_t index)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    s->memory_kb[index] = (uint64_t)usage.ru_maxrss;
}

/* Runs the ranks [first, end) in this process. */
static int worker_run(struct shared *s, uint32_t index, uint32_t first, uint32_t end)
{
    struct worker w = { .shared = s,
                        .first = first,
                        .n = end - first,
                        .root = loopback(INADDR_LOOPBACK + index, s->root_port),
                        .epoll = epoll_create1(EPOLL_CLOEXEC),
                        .deadline_ns = tt_now_ns() + TIMEOUT_NS };
    bool good;

    (void)setpriority(PRIO_PROCESS, 0, 10);     /* in a job, the root has processors of its own */
    w.ranks = calloc(w.n, sizeof *w.ranks);
    tt_assert(w.ranks && w.epoll >= 0);
    pthread_barrier_wait(&s->started);
    if (index == 0)
        atomic_store(&s->begin_ns, tt_now_ns());
    good = true;
    for (uint32_t rank = first; rank < end && good; rank++)
        good = rank_open(&w, rank) && worker_step(&w, 0);
    while (good && w.ndone < w.n)
        good = worker_step(&w, SWEEP_NS / TT_MS);
    note_memory(s, index);
    return !good;
}

static double processor_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int root_run(struct shared *s, int listener)
{
    struct tt_tree_node_conf conf = { .tree = { .token = TOKEN,
                                                .root = true,
                                                .children_max = s->children_max,
                                                .began_ns = tt_now_ns(),
                                                .deadline_ns = TT_NEVER },
                                      .listener = listener,
                                      .local = -1,
                                      .up = -1 };
    struct tt_tree_node *root;
    double began_us;

    memcpy(conf.tree.secret, s->secret, sizeof s->secret);
    memcpy(conf.tree.gathering, s->gathering, sizeof s->gathering);
    if (tt_tree_node_open(&root, &conf) != TUTTI_OK)
        return 1;
    pthread_barrier_wait(&s->started);
    began_us = processor_us();
    while (!tt_tree_node_is_done(root)) {
        struct pollfd p = { .fd = tt_tree_node_fd(root), .events = POLLIN };

        poll(&p, 1, SWEEP_NS / TT_MS);
        tt_tree_node_step(root, tt_now_ns());
    }
    s->root_message_us = (processor_us() - began_us) / (double)(packed_accepted + packed_reads);
    s->root_result.sent = packed_sent;
    s->root_result.received = packed_received;
    tt_tree_node_close(root);
    note_memory(s, s->nprocesses);
    return 0;
}

static void print_results(const struct shared *s)
{
    const uint64_t root = s->root_result.sent + s->root_result.received;
    uint64_t end_ns = 0, received = 0, received_max = 0, busiest = root, memory_kb = 0,
             restarts = 0;

    for (uint32_t r = 0; r < s->nranks; r++) {
        const struct result *one = &s->results[r];

        end_ns = one->end_ns > end_ns ? one->end_ns : end_ns;
        received += one->received;
        received_max = one->received > received_max ? one->received : received_max;
        busiest = one->sent + one->received > busiest ? one->sent + one->received : busiest;
        restarts += one->restarts;
    }
    for (uint32_t i = 0; i <= s->nprocesses; i++)
        memory_kb += s->memory_kb[i];
    printf("{\"ranks\": %u, \"processes\": %u, \"seconds\": %.6f, \"received_max\": %llu, "
           "\"received_mean\": %.1f, \"busiest_bytes\": %llu, \"root_bytes\": %llu, "
           "\"root_message_us\": %.2f, \"restarts\": %llu, \"memory_mb\": %.1f}\n",
           s->nranks, s->nprocesses, (double)(end_ns - (uint64_t)atomic_load(&s->begin_ns)) / 1e9,
           (unsigned long long)received_max, (double)received / s->nranks,
           (unsigned long long)busiest, (unsigned long long)root, s->root_message_us,
           (unsigned long long)restarts, (double)memory_kb / 1e3);
}

static struct shared *shared_create(uint32_t nranks, uint32_t nprocesses, uint32_t per_host,
                                    uint32_t children_max, int *listener)
{
    struct shared *s = packed_shared(sizeof *s + nranks * sizeof *s->results);

    s->nranks = nranks;
    s->nprocesses = nprocesses;
    s->per_host = per_host;
    s->children_max = children_max;
    s->pid = getpid();
    tt_random_bytes(s->gathering, sizeof s->gathering);
    tt_random_bytes(s->secret, sizeof s->secret);
    tt_random_bytes(s->constants, sizeof s->constants);
    *listener = tt_listen(NULL, 0, &s->root_port);
    tt_assert(*listener >= 0);
    s->port = unit_free_port();
    packed_barrier(&s->started, nprocesses + 1);
    return s;
}

/* Returns the first rank of process i. Each process has complete hosts. */
static uint32_t first_of(const struct shared *s, uint32_t i)
{
    const uint32_t nhosts = (s->nranks + s->per_host - 1) / s->per_host;
    const uint64_t rank = (uint64_t)nhosts * i / s->nprocesses * s->per_host;

    return rank < s->nranks ? (uint32_t)rank : s->nranks;
}

static uint32_t number(int argc, char **argv, int i, uint32_t otherwise)
{
    return argc > i ? (uint32_t)strtoul(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const uint32_t nranks = number(argc, argv, 1, 0), nprocesses = number(argc, argv, 2, 0),
                   per_host = number(argc, argv, 3, 8),
                   children_max = number(argc, argv, 4, TT_TREE_CHILDREN);
    pid_t pids[PACKED_PROCESSES_MAX + 1];
    struct shared *s;
    int listener;

    if (nranks < 2 || nprocesses < 1 || nprocesses > PACKED_PROCESSES_MAX || per_host < 1 ||
        children_max < 2) {
        fprintf(stderr, "usage: prog_tree RANKS PROCESSES [RANKS_PER_HOST [LEADERS_PER_SERVER]], "
                        "with 2 ranks at least, 1 to 64 processes, and 2 leaders per server\n");
        return 2;
    }
    tt_log_set(TT_LOG_ERROR);
    packed_raise_descriptor_limit();
    s = shared_create(nranks, nprocesses, per_host, children_max, &listener);
    for (uint32_t i = 0; i <= nprocesses; i++) {
        pids[i] = fork();
        tt_assert(pids[i] >= 0);
        if (pids[i] == 0 && i == nprocesses)
            _exit(root_run(s, listener));
        if (pids[i] == 0) {
            close(listener);
            _exit(worker_run(s, i, first_of(s, i), first_of(s, i + 1)));
        }
    }
    if (!packed_wait(pids, nprocesses + 1))
        return 1;
    print_results(s);
    return 0;
}
