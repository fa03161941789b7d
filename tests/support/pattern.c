#include "support/pattern.h"

#include <string.h>
#include "base/prng.h"

#define WORDS 512       /* computed at a time, in thread-private memory */

/* Computes the words of the message from byte `at` on. */
static void compute(uint64_t words[WORDS], uint64_t at, uint64_t salt)
{
    for (uint64_t i = 0; i < WORDS; i++)
        words[i] = tt_mix64(salt * 0x9e3779b97f4a7c15ull + at / 8 + i);
}

void pattern_fill(void *mem, uint64_t bytes, uint64_t salt)
{
    uint64_t words[WORDS];

    for (uint64_t at = 0; at < bytes; at += sizeof words) {
        compute(words, at, salt);
        memcpy((uint8_t *)mem + at, words, bytes - at < sizeof words ? bytes - at : sizeof words);
    }
}

uint64_t pattern_differs(const void *mem, uint64_t bytes, uint64_t salt)
{
    uint64_t words[WORDS];

    for (uint64_t at = 0; at < bytes; at += sizeof words) {
        const uint64_t n = bytes - at < sizeof words ? bytes - at : sizeof words;
        const uint8_t *there = (const uint8_t *)mem + at;
        uint64_t i = 0;

        compute(words, at, salt);
        if (memcmp(there, words, n) == 0)
            continue;
        while (there[i] == ((const uint8_t *)words)[i])
            i++;
        return at + i;
    }
    return bytes;
}
