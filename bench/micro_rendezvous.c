/* Lower bounds for a long message between two processes of one host, fetched in one copy
 * (process_vm_readv), and the cost of its parts.
 *
 *   micro_rendezvous       By hand: gcc -O2 -D_GNU_SOURCE -Ibench bench/micro_rendezvous.c
 *
 * One column per method, microseconds. An iteration is a barrier, then the message; its time is
 * that of the slower side. Values are medians of ROUNDS medians of alternating methods.
 *   ready      the receiver sends its address, the sender requests the fetch, the receiver fetches
 *              and acknowledges
 *   announce   the sender requests the fetch at once
 *   checked    the same two methods, but the receiver also fetches the word in the sender's memory
 *              that shows that it is still the same process
 *   halves     announce, and the sender writes the second half (process_vm_writev) while the
 *              receiver fetches the first; one direction only */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "micro.h"
#include "micro_pair.h"

#define BYTES_MAX (16u << 20)
#define ROUNDS 5
#define ITERATIONS 4000
#define ITERATIONS_BYTES (400u << 20)
#define WAYS 5
#define HALVES 4

/* Shared by both sides; each word is written by the side of its index. */
struct shared {
    struct word barrier[2], ready[2], ask[2], done[2], took[2], memory[2], target[2], nonce[2];
    pid_t parent;
};

struct side {
    struct shared *s;
    int me;
    pid_t peer;
    uint8_t *src, *dst;
    uint64_t nonce, n;
};

static void fetch(struct side *e, size_t bytes, bool checked)
{
    struct shared *s = e->s;
    uint64_t seen;
    struct iovec here[2] = { { e->dst, bytes }, { &seen, sizeof seen } };
    struct iovec there[2] = { { (void *)(uintptr_t)atomic_load(&s->memory[!e->me].v), bytes },
                              { (void *)(uintptr_t)atomic_load(&s->nonce[!e->me].v),
                                sizeof seen } };
    const unsigned long parts = checked ? 2 : 1;
    const ssize_t want = (ssize_t)(bytes + (checked ? sizeof seen : 0));

    if (process_vm_readv(e->peer, here, parts, there, parts, 0) != want) {
        perror("process_vm_readv");
        kill(e->peer, SIGTERM); /* the peer would wait forever */
        _exit(1);
    }
}

/* Writes the sender's half, from `at` on. */
static void write_half(struct side *e, size_t at, size_t bytes)
{
    struct iovec here = { e->src + at, bytes };
    struct iovec there = { (uint8_t *)(uintptr_t)atomic_load(&e->s->target[!e->me].v) + at, bytes };

    if (process_vm_writev(e->peer, &here, 1, &there, 1, 0) != (ssize_t)bytes) {
        perror("process_vm_writev");
        kill(e->peer, SIGTERM);
        _exit(1);
    }
}

/* Sends one message from side 0 to side 1, or one in each direction. Returns the time of the slower
 * side in microseconds. */
static double exchange(struct side *e, size_t bytes, bool both, bool announce, bool checked,
                       bool halves)
{
    struct shared *s = e->s;
    const int me = e->me, peer = !me;
    const bool sends = both || me == 0, receives = both || me == 1;
    const uint64_t n = ++e->n, half = halves ? bytes / 2 : 0;
    uint64_t begin, mine, theirs;

    say(&s->barrier[me], n);
    await(&s->barrier[peer], n);
    begin = clock_ns();
    if (receives && !announce)
        say(&s->ready[me], n);
    if (sends && !announce)
        await(&s->ready[peer], n);
    if (sends)
        say(&s->ask[me], n);
    if (sends && halves)
        write_half(e, bytes - half, half);
    if (receives) {
        await(&s->ask[peer], n);
        fetch(e, bytes - half, checked);
        say(&s->done[me], n);
    }
    if (sends)
        await(&s->done[peer], n);
    if (sends && halves)
        say(&s->done[me], n);
    if (receives && halves)
        await(&s->done[peer], n);
    mine = clock_ns() - begin;
    say(&s->took[me], n << 32 | (mine & UINT32_MAX));
    await(&s->took[peer], n << 32);
    theirs = atomic_load(&s->took[peer].v) & UINT32_MAX;
    return (double)(mine > theirs ? mine : theirs) / 1000;
}

static void measure(struct side *e, size_t bytes, bool both)
{
    static double us[ITERATIONS];
    double rounds[WAYS][ROUNDS];
    const int ways = both ? HALVES : WAYS, fit = (int)(ITERATIONS_BYTES / bytes),
              n = fit < ITERATIONS ? fit : ITERATIONS;

    for (int round = 0; round < ROUNDS; round++)
        for (int way = 0; way < ways; way++) {
            for (int i = 0; i < n; i++)
                us[i] = exchange(e, bytes, both, way & 1 || way == HALVES, way & 2, way == HALVES);
            rounds[way][round] = median(us, (size_t)n);
        }
    if (e->me)
        return;
    printf("%8zu B %s", bytes, both ? "both ways" : "one way  ");
    for (int way = 0; way < ways; way++)
        printf(" %9.2f", median(rounds[way], ROUNDS));
    printf("\n");
    fflush(stdout);
}

int main(void)
{
    struct shared *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct side e = { .s = s, .nonce = 42 };
    cpu_set_t set;
    pid_t child;
    int status;

    if (s == MAP_FAILED)
        return 1;
    s->parent = getpid();
    child = fork();
    if (child < 0)
        return 1;
    e.me = child == 0;
    if (e.me)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    e.peer = e.me ? s->parent : child;
    CPU_ZERO(&set);
    CPU_SET(e.me, &set);
    sched_setaffinity(0, sizeof set, &set);
    e.src = aligned_alloc(4096, BYTES_MAX);
    e.dst = aligned_alloc(4096, BYTES_MAX);
    if (!e.src || !e.dst)
        return 1;
    memset(e.src, 1, BYTES_MAX);
    memset(e.dst, 2, BYTES_MAX);
    say(&s->memory[e.me], (uintptr_t)e.src);
    say(&s->target[e.me], (uintptr_t)e.dst);
    say(&s->nonce[e.me], (uintptr_t)&e.nonce);
    await(&s->nonce[!e.me], 1);
    if (e.me == 0)
        printf("%20s %9s %9s %19s %9s\n", "", "ready", "announce", "checked: both", "halves");
    for (size_t bytes = 16 << 10; bytes <= BYTES_MAX; bytes *= 4)
        for (int both = 0; both < 2; both++)
            measure(&e, bytes, both);
    if (e.me)
        _exit(0);
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
