/* The minimum time of a message of 32 KiB to 2 MiB from one process to another on the same host,
 * through slots in shared memory, by slot size and kind of copy. The receiver copies a slot while
 * the sender fills the next ones; there is no handshake and no system call.
 *
 *   micro_slots     By hand: gcc -O3 -march=native -D_GNU_SOURCE -Ibench bench/micro_slots.c
 *
 * Microseconds in one direction: half of a ping-pong's round trip, median of ROUNDS; one column per
 * kind of copy.
 *   vector     loads and stores of 32 bytes: as in src/reduce/avx2.c
 *   moves      rep movsb: as in src/reduce/copy.c on AMD's processors with fast string moves */
#include <immintrin.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "micro.h"
#include "micro_pair.h"

#define SLOTS 8u
#define SLOT_BYTES_MAX (64u << 10)
#define MESSAGE_BYTES_MAX (2u << 20)
#define ROUNDS 200              /* round trips of each case; the first ones are not counted */
#define WARM 20

enum way { VECTOR, MOVES, WAYS };

/* One direction. */
struct ring {
    struct word full, empty;    /* slots filled and read so far */
    _Alignas(4096) uint8_t slots[SLOTS * SLOT_BYTES_MAX];
};

struct side {
    int me;
    enum way way;
    size_t slot_bytes, bytes;
    uint64_t sent, got;
    uint8_t *src, *dst;         /* [MESSAGE_BYTES_MAX] */
};

static void copy(enum way way, uint8_t *dst, const uint8_t *src, size_t bytes)
{
    if (way == MOVES) {
        __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
        return;
    }
    for (size_t at = 0; at < bytes; at += 32)
        _mm256_storeu_si256((__m256i *)(void *)(dst + at),
                            _mm256_loadu_si256((const __m256i *)(const void *)(src + at)));
}

static uint8_t *slot_of(struct ring *r, const struct side *s, uint64_t n)
{
    return r->slots + n % SLOTS * s->slot_bytes;
}

static void put(struct side *s, struct ring *r)
{
    for (size_t at = 0; at < s->bytes; at += s->slot_bytes) {
        if (s->sent >= SLOTS)
            await(&r->empty, s->sent - SLOTS + 1);
        copy(s->way, slot_of(r, s, s->sent), s->src + at, s->slot_bytes);
        say(&r->full, ++s->sent);
    }
}

static void get(struct side *s, struct ring *r)
{
    for (size_t at = 0; at < s->bytes; at += s->slot_bytes) {
        await(&r->full, s->got + 1);
        copy(s->way, s->dst + at, slot_of(r, s, s->got), s->slot_bytes);
        say(&r->empty, ++s->got);
    }
}

/* Returns the median in microseconds. */
static double one_way_us(struct side *s, struct ring rings[2])
{
    double us[ROUNDS];

    for (int i = -WARM; i < ROUNDS; i++) {
        const uint64_t began_ns = clock_ns();

        if (s->me == 0)
            put(s, &rings[0]);
        get(s, &rings[!s->me]);
        if (s->me == 1)
            put(s, &rings[1]);
        if (i >= 0)
            us[i] = (double)(clock_ns() - began_ns) * 1e-3 / 2;
    }
    return median(us, ROUNDS);
}

static void measure(struct side *s, struct ring rings[2])
{
    static const size_t bytes[] = { 32u << 10, 64u << 10, 256u << 10, 2u << 20 },
                        slots[] = { 8u << 10, 16u << 10, 32u << 10, 64u << 10 };

    for (size_t b = 0; b < sizeof bytes / sizeof *bytes; b++)
        for (size_t k = 0; k < sizeof slots / sizeof *slots && slots[k] <= bytes[b]; k++) {
            double us[WAYS];

            s->bytes = bytes[b];
            s->slot_bytes = slots[k];
            for (int way = 0; way < WAYS; way++) {
                s->way = (enum way)way;
                us[way] = one_way_us(s, rings);
            }
            if (s->me == 0)
                printf("%5zu KiB, slots of %2zu KiB  %8.2f %8.2f\n", bytes[b] >> 10, slots[k] >> 10,
                       us[VECTOR], us[MOVES]);
            fflush(stdout);
        }
}

int main(void)
{
    struct ring *rings =
        mmap(NULL, 2 * sizeof *rings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct side s = { .src = aligned_alloc(4096, MESSAGE_BYTES_MAX),
                      .dst = aligned_alloc(4096, MESSAGE_BYTES_MAX) };
    int status = 0;
    cpu_set_t core;
    pid_t child;

    if (rings == MAP_FAILED || !s.src || !s.dst) {
        perror("micro_slots");
        return 1;
    }
    for (size_t i = 0; i < MESSAGE_BYTES_MAX; i++)
        s.src[i] = s.dst[i] = (uint8_t)i;
    child = fork();
    if (child < 0) {
        perror("micro_slots: fork");
        return 1;
    }
    s.me = child != 0;
    if (s.me == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    CPU_ZERO(&core);
    CPU_SET(s.me, &core);
    if (sched_setaffinity(0, sizeof core, &core))
        perror("micro_slots: cannot use a core of its own");
    if (s.me == 0)
        printf("message                      vector    moves\n");
    measure(&s, rings);
    if (s.me == 1)
        waitpid(child, &status, 0);
    return s.me == 1 && status != 0;
}
