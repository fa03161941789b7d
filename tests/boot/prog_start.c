/* Start-up of many ranks, as threads of a few processes, over real loopback sockets:
 * prog_start RANKS PROCESSES [CARD_BYTES [RANKS_PER_HOST]]. Consecutive ranks are on one host;
 * without the last argument, all are. Runs the code of src/boot that every job runs: the
 * rendezvous and the connection of the control overlay. Prints, as JSON:
 *   seconds            from the common start until the last rank has its result
 *   received_max/mean  bytes that a rank receives
 *   busiest_bytes      bytes that the busiest rank sends and receives; a job has a process per rank
 *   busiest_rank
 *   memory_mb          sum of the peak memory of all processes */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "boot/boot.h"
#include "support/unit.h"

#define TIMEOUT_MS 240000
#define STACK_BYTES (512u << 10)
#define CARD_BYTES_DEFAULT 512u
#define PROCESSES_MAX 64

struct result {
    uint64_t sent, received, end_ns;
    tutti_status status;
    char error[TT_ERROR_BYTES];
};

/* Shared by all processes. */
struct shared {
    pthread_barrier_t started, ended;
    atomic_ullong begin_ns;
    uint32_t nranks, nprocesses, card_bytes, per_host;
    char rendezvous[64];
    uint64_t memory_kb[PROCESSES_MAX];
    struct result results[];
};

struct rank {
    pthread_t thread;
    struct shared *shared;
    uint32_t rank;
};

static _Thread_local uint64_t bytes_sent, bytes_received;

/* These replace the functions of the C library in this program, and count the bytes of the calling
 * thread. src/boot uses no other calls for data; memory files are not counted. */
ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    const ssize_t n = sendto(fd, data, bytes, flags, NULL, 0);

    if (n > 0)
        bytes_sent += (uint64_t)n;
    return n;
}

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
    const ssize_t n = recvfrom(fd, data, bytes, flags, NULL, NULL);

    if (n > 0)
        bytes_received += (uint64_t)n;
    return n;
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    const ssize_t n = syscall(SYS_sendmsg, fd, m, flags);

    if (n > 0)
        bytes_sent += (uint64_t)n;
    return n;
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    const ssize_t n = syscall(SYS_recvmsg, fd, m, flags);

    if (n > 0)
        bytes_received += (uint64_t)n;
    return n;
}

/* As similar as those of real jobs: 28 bytes differ between ranks, in five places. */
static void make_card(uint8_t *card, uint32_t bytes, uint32_t rank)
{
    for (uint32_t i = 0; i < bytes; i++)
        card[i] = (uint8_t)(i * 131 >> 3);
    for (uint32_t place = 1; place < 5; place++)
        for (uint32_t k = 0; k < 6 && place * bytes / 5 + k < bytes; k++)
            card[place * bytes / 5 + k] = (uint8_t)tt_hash_bytes(&rank, sizeof rank, place * 8 + k);
    memcpy(card, &rank, sizeof rank);
}

static void check_table(const struct shared *s, const struct tt_table *t, struct result *out)
{
    uint8_t card[TT_CARD_BYTES];

    for (uint32_t r = 0; r < s->nranks && !out->status; r++) {
        make_card(card, s->card_bytes, r);
        if (t->card_bytes[r] != s->card_bytes || memcmp(t->cards[r], card, s->card_bytes) != 0) {
            out->status = TUTTI_ERR_PROTOCOL;
            snprintf(out->error, sizeof out->error, "rank %u has a wrong record of rank %u",
                     t->rank, r);
        }
    }
}

static void *rank_start(void *arg)
{
    const struct rank *me = arg;
    struct shared *s = me->shared;
    struct result *out = &s->results[me->rank];
    struct tt_launch launch = {
        .rank = me->rank, .nranks = s->nranks, .timeout_ms = TIMEOUT_MS, .launcher = "conf"
    };
    uint8_t card[TT_CARD_BYTES] = { 0 };
    struct tt_overlay *overlay = NULL;
    struct tt_table table;

    memcpy(launch.rendezvous, s->rendezvous, sizeof s->rendezvous);
    snprintf(launch.token, sizeof launch.token, "a token of this start-up");
    snprintf(launch.host, sizeof launch.host, "host %u", me->rank / s->per_host);
    launch.nlocal =
        me->rank / s->per_host < s->nranks / s->per_host ? s->per_host : s->nranks % s->per_host;
    make_card(card, s->card_bytes, me->rank);
    pthread_barrier_wait(&s->started);
    if (me->rank == 0)
        atomic_store(&s->begin_ns, tt_now_ns());
    out->status = tt_boot_rendezvous(&launch, card, s->card_bytes,
                                     tt_deadline_ns(tt_now_ns(), TIMEOUT_MS), &table, &overlay);
    out->end_ns = tt_now_ns();
    out->sent = bytes_sent;
    out->received = bytes_received;
    if (out->status)
        snprintf(out->error, sizeof out->error, "%s", tutti_last_error());
    else
        check_table(s, &table, out);
    pthread_barrier_wait(&s->ended);
    if (overlay) {
        tt_overlay_close(overlay);
        tt_table_fini(&table);
    }
    return NULL;
}

/* Runs the ranks [first, end) in this process. */
static int process_run(struct shared *s, uint32_t index, uint32_t first, uint32_t end)
{
    struct rank *ranks = calloc(end - first, sizeof *ranks);
    struct rusage usage;
    pthread_attr_t attr;

    tt_assert(ranks);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    for (uint32_t i = 0; i < end - first; i++) {
        ranks[i] = (struct rank){ .shared = s, .rank = first + i };
        if (pthread_create(&ranks[i].thread, &attr, rank_start, &ranks[i]) != 0) {
            fprintf(stderr, "prog_start: cannot start a thread\n");
            return 1;
        }
    }
    for (uint32_t i = 0; i < end - first; i++)
        pthread_join(ranks[i].thread, NULL);
    getrusage(RUSAGE_SELF, &usage);
    s->memory_kb[index] = (uint64_t)usage.ru_maxrss;
    return 0;
}

static void raise_descriptor_limit(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

static int print_results(const struct shared *s)
{
    uint64_t end_ns = 0, received = 0, received_max = 0, busiest = 0, memory_kb = 0;
    uint32_t busiest_rank = 0;

    for (uint32_t r = 0; r < s->nranks; r++) {
        const struct result *one = &s->results[r];

        if (one->status) {
            fprintf(stderr, "prog_start: rank %u: %s\n", r, one->error);
            return 1;
        }
        end_ns = one->end_ns > end_ns ? one->end_ns : end_ns;
        received += one->received;
        received_max = one->received > received_max ? one->received : received_max;
        if (one->sent + one->received > busiest) {
            busiest = one->sent + one->received;
            busiest_rank = r;
        }
    }
    for (uint32_t i = 0; i < s->nprocesses; i++)
        memory_kb += s->memory_kb[i];
    printf("{\"ranks\": %u, \"processes\": %u, \"card_bytes\": %u, \"seconds\": %.6f, "
           "\"received_max\": %llu, \"received_mean\": %.1f, \"busiest_bytes\": %llu, "
           "\"busiest_rank\": %u, \"memory_mb\": %.1f}\n",
           s->nranks, s->nprocesses, s->card_bytes,
           (double)(end_ns - (uint64_t)atomic_load(&s->begin_ns)) / 1e9,
           (unsigned long long)received_max, (double)received / s->nranks,
           (unsigned long long)busiest, busiest_rank, (double)memory_kb / 1e3);
    return 0;
}

static struct shared *shared_create(uint32_t nranks, uint32_t nprocesses, uint32_t card_bytes,
                                    uint32_t per_host)
{
    const size_t bytes = sizeof(struct shared) + nranks * sizeof(struct result);
    struct shared *s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attr;

    tt_assert(s != MAP_FAILED);
    s->nranks = nranks;
    s->nprocesses = nprocesses;
    s->card_bytes = card_bytes;
    s->per_host = per_host;
    snprintf(s->rendezvous, sizeof s->rendezvous, "tcp://127.0.0.1:%u", unit_free_port());
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&s->started, &attr, nranks);
    pthread_barrier_init(&s->ended, &attr, nranks);
    return s;
}

/* If one process fails, the others would wait for its ranks: they are ended. */
static bool wait_for_all(const pid_t *pids, uint32_t n)
{
    bool good = true;

    for (uint32_t i = 0; i < n; i++) {
        int status = 1;

        if (wait(&status) > 0 && status == 0)
            continue;
        for (uint32_t k = 0; good && k < n; k++)
            kill(pids[k], SIGKILL);
        good = false;
    }
    return good;
}

int main(int argc, char **argv)
{
    const uint32_t nranks = argc > 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    const uint32_t nprocesses = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    const uint32_t card_bytes =
        argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : CARD_BYTES_DEFAULT;
    const uint32_t per_host = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : nranks;
    pid_t pids[PROCESSES_MAX];
    struct shared *s;

    if (nranks < 2 || nprocesses < 1 || nprocesses > PROCESSES_MAX || nprocesses > nranks ||
        card_bytes < sizeof(uint32_t) || card_bytes > TT_CARD_BYTES || per_host < 1) {
        fprintf(stderr,
                "usage: prog_start RANKS PROCESSES [CARD_BYTES [RANKS_PER_HOST]], with 2 ranks at "
                "least, 1 to 64 processes, and records of 4 to %u bytes\n",
                TT_CARD_BYTES);
        return 2;
    }
    tt_log_set(TT_LOG_ERROR);
    raise_descriptor_limit();
    s = shared_create(nranks, nprocesses, card_bytes, per_host);
    for (uint32_t i = 0; i < nprocesses; i++) {
        pids[i] = fork();
        tt_assert(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(process_run(s, i, (uint32_t)((uint64_t)nranks * i / nprocesses),
                              (uint32_t)((uint64_t)nranks * (i + 1) / nprocesses)));
    }
    return wait_for_all(pids, nprocesses) ? print_results(s) : 1;
}
