/* Copies. Short copies use memcpy, and on Intel CPUs long ones, too. memcpy has no non-temporal
 * option, and cannot write two destinations with one read. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include "base/clock.h"
#include "reduce/kernels.h"
#include "reduce/reduce.h"

/* `rep movsb` acquires whole cache lines without reading them. This helps if another core had them:
 * on Intel's Sapphire Rapids, long messages take a sixth less time, and on an AMD EPYC of family 26
 * half of the time of vector stores. glibc uses it for long copies. On AMD's Zen 3 its speed falls
 * to a fifteenth if the destination's offset in its page is a few bytes larger than the source's; a
 * copy from a page-aligned slot to malloc's memory always has this. Therefore long copies on AMD do
 * not use memcpy, and a measurement determines whether such offsets are slow. */
#define OWN_BYTES_MIN 2048
#define MOVES_BYTES_MIN 8192    /* below, the start of `rep movsb` costs more than it saves */
#define PAGE 4096u
#define SLOW_OFFSETS 63u        /* the offsets from 1 on that are slow on some processors */
#define TRIAL_BYTES 16384u
#define TRIALS 8

static bool is_memcpys(size_t bytes)
{
#ifdef __x86_64__
    return bytes < OWN_BYTES_MIN || __builtin_cpu_is("intel");
#else
    return bytes < OWN_BYTES_MIN;
#endif
}

/* Sanitizers do not check assembly. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MAY_MOVE 1
#endif
#if defined(MAY_MOVE) && defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef MAY_MOVE
#endif
#endif

#ifdef MAY_MOVE
enum moves { MOVES_UNKNOWN, MOVES_NONE, MOVES_SOME_OFFSETS, MOVES_ALL };

static void move_bytes(void *dst, const void *src, size_t bytes)
{
    __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
}

/* Returns the time of the fastest trial. */
static uint64_t trial_ns(uint8_t *dst, const uint8_t *src)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < TRIALS; i++) {
        const uint64_t began_ns = tt_now_ns();
        uint64_t took;

        move_bytes(dst, src, TRIAL_BYTES);
        took = tt_now_ns() - began_ns;
        best = took < best ? took : best;
    }
    return best;
}

/* Compares an offset of 16 bytes with none. A disturbed trial can only select a slower method. */
static enum moves measure_moves(void)
{
    uint8_t *room = calloc(2, TRIAL_BYTES + PAGE);
    uint8_t *src = room, *dst = room + TRIAL_BYTES + PAGE;
    enum moves moves;

    if (!room)
        return MOVES_SOME_OFFSETS;
    moves = trial_ns(dst + 16, src) > 3 * trial_ns(dst, src) ? MOVES_SOME_OFFSETS : MOVES_ALL;
    free(room);
    return moves;
}

/* Returns the offsets for which `rep movsb` is used: on AMD's processors with fast string moves
 * (FSRM, from Zen 3 on). Several threads may measure at the same time. */
static enum moves moves_in_use(void)
{
    static atomic_int known;
    unsigned eax, ebx, ecx, edx = 0;
    int moves = atomic_load_explicit(&known, memory_order_relaxed);

    if (moves != MOVES_UNKNOWN)
        return (enum moves)moves;
    moves =
        __builtin_cpu_is("amd") && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx >> 4 & 1)
            ? (int)measure_moves()
            : MOVES_NONE;
    atomic_store_explicit(&known, moves, memory_order_relaxed);
    return (enum moves)moves;
}

/* Copies with `rep movsb`, if that is fast. False: not done. Not inlined: short copies need no stack
 * frame. */
static __attribute__((noinline)) bool copy_by_moves(void *dst, const void *src, size_t bytes)
{
    const uint32_t offset = (uint32_t)((uintptr_t)dst - (uintptr_t)src) & (PAGE - 1);
    const enum moves moves = moves_in_use();

    if (moves == MOVES_NONE || (moves == MOVES_SOME_OFFSETS && offset - 1 < SLOW_OFFSETS))
        return false;
    move_bytes(dst, src, bytes);
    return true;
}
#else
static bool copy_by_moves(void *dst, const void *src, size_t bytes)
{
    (void)dst, (void)src, (void)bytes;
    return false;
}
#endif

uint32_t tt_other_core_flag(void)
{
#ifdef __x86_64__
    return __builtin_cpu_is("amd") ? TT_FROM_OTHER_CORE : 0;
#else
    return 0;
#endif
}

void tt_copy(void *dst, void *dst2, const void *src, size_t bytes, uint32_t stream)
{
    if (bytes == 0)
        return;
    if (!(stream & (TT_STREAM_DST | TT_STREAM_DST2)) && !dst2) {
        if (is_memcpys(bytes)) {
            memcpy(dst, src, bytes);
            return;
        }
        if (bytes >= MOVES_BYTES_MIN && copy_by_moves(dst, src, bytes))
            return;
    }
    tt_kernels_get()->copy(dst, dst2, src, bytes, stream);
}
