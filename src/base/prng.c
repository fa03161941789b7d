/* xoshiro256** 1.0 and splitmix64, after Blackman and Vigna, "Scrambled Linear Pseudorandom Number
 * Generators" (2018); bounded numbers after Lemire, "Fast Random Integer Generation in an Interval"
 * (2019). */
#include "base/prng.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "base/status.h"

/* maximum interruptions of one request; a sandbox may return EINTR every time */
#define INTERRUPTS_MAX 1000u
#define GOLDEN 0x9e3779b97f4a7c15ull
#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x00000100000001b3ull

static uint64_t rotate_left(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

uint64_t tt_mix64(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

void tt_prng_init(struct tt_prng *p, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        p->s[i] = tt_mix64(seed += GOLDEN);
}

uint64_t tt_prng_u64(struct tt_prng *p)
{
    uint64_t *s = p->s;
    const uint64_t out = rotate_left(s[1] * 5, 7) * 9;
    const uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return out;
}

uint64_t tt_prng_below(struct tt_prng *p, uint64_t bound)
{
    unsigned __int128 m;
    uint64_t biased;

    tt_assert(bound > 0);
    biased = -bound % bound;    /* 2^64 mod bound: accepting these low products would bias the
                                   result */
    do
        m = (unsigned __int128)tt_prng_u64(p) * bound;
    while ((uint64_t)m < biased);
    return (uint64_t)(m >> 64);
}

uint64_t tt_hash_bytes(const void *data, uint64_t bytes, uint64_t seed)
{
    const uint8_t *at = data;
    uint64_t h = FNV_BASIS ^ tt_mix64(seed);

    for (uint64_t i = 0; i < bytes; i++)
        h = (h ^ at[i]) * FNV_PRIME;
    return tt_mix64(h);
}

/* Fallback if getrandom is refused. Without random bytes no secret is safe, so the process
 * aborts. */
static void read_urandom(uint8_t *at, uint64_t bytes)
{
    const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

    while (bytes > 0) {
        const ssize_t n = fd >= 0 ? read(fd, at, bytes) : -1;

        if (n > 0) {
            at += n;
            bytes -= (uint64_t)n;
        } else if (fd < 0 || n == 0 || errno != EINTR) {
            fprintf(stderr,
                    "tutti error: cannot get random bytes: getrandom failed, and /dev/urandom "
                    "cannot be read: %s "
                    "(allow one of them in the sandbox)\n",
                    strerror(errno));
            abort();
        }
    }
    close(fd);
}

void tt_random_bytes(void *out, uint64_t bytes)
{
    uint32_t interrupts = 0;
    uint8_t *at = out;

    while (bytes > 0) {
        const ssize_t n = getrandom(at, bytes, 0);

        if (n < 0 && (errno != EINTR || ++interrupts == INTERRUPTS_MAX))
            break;              /* refused by a sandbox */
        if (n > 0) {
            at += n;
            bytes -= (uint64_t)n;
        }
    }
    if (bytes > 0)
        read_urandom(at, bytes);
}
