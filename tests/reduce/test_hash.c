#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "both_isas.h"
#include "guarded.h"
#include "reduce/hash.h"
#include "support/hash_vectors.h"
#include "support/unit.h"

enum { BLOCK = TT_HASH_BLOCK_BYTES, ROW = TT_HASH_ROW_BYTES, LANES = TT_HASH_LANES };

/* ---- the definition of docs/hash.md, step by step ---- */

static uint32_t rotated(uint32_t x, int k)
{
    return x << k | x >> (32 - k);
}

static void mix(uint32_t x[4])
{
    for (int step = 0; step < 12; step++) {
        uint32_t *now = &x[step % 4];

        *now = (*now ^ x[(step + 3) % 4]) * 0x9cf4f3c7;
        *now ^= *now >> 15;
    }
}

/* Byte `at` of block[bytes], which is zero-padded. */
static uint32_t byte_of(const uint8_t *block, size_t bytes, size_t at)
{
    return at < bytes ? block[at] : 0;
}

static uint32_t word_of(const uint8_t *block, size_t bytes, size_t at)
{
    return byte_of(block, bytes, at) | byte_of(block, bytes, at + 1) << 8 |
           byte_of(block, bytes, at + 2) << 16 | byte_of(block, bytes, at + 3) << 24;
}

static void add_lane(uint32_t sum[4], const uint8_t *block, size_t bytes, uint32_t lane)
{
    uint32_t x[4] = { lane, 0, 0x243f6a88, 0x13198a2e };
    uint32_t a, b;

    mix(x);
    a = x[0];
    b = x[1];
    for (size_t row = 0; row * 128 < bytes; row++) {
        a = rotated(a ^ word_of(block, bytes, row * 128 + lane * 4), 16) * 0x85a308d3;
        b = rotated(b + a, 13) * 0xec4e6c89;
    }
    x[0] = a;
    x[1] = b;
    x[2] = 0x243f6a88;
    x[3] = 0x13198a2e;
    mix(x);
    for (int i = 0; i < 4; i++)
        sum[i] += x[i];
}

static struct tt_hash reference(const uint8_t *data, size_t bytes)
{
    uint32_t sum[4] = { 0 };

    for (uint64_t block = 0; block * 16384 < bytes; block++) {
        const size_t left = bytes - block * 16384;
        uint32_t x[4] = { 0 };

        for (uint32_t lane = 0; lane < 32; lane++)
            add_lane(x, data + block * 16384, left < 16384 ? left : 16384, lane);
        x[0] ^= (uint32_t)block;
        x[1] ^= (uint32_t)(block >> 32);
        mix(x);
        for (int i = 0; i < 4; i++)
            sum[i] += x[i];
    }
    sum[0] ^= (uint32_t)bytes;
    sum[1] ^= (uint32_t)((uint64_t)bytes >> 32);
    sum[2] ^= 0xb7e15162;
    sum[3] ^= 0xbf715880;
    mix(sum);
    return (struct tt_hash){ { sum[0], sum[1], sum[2], sum[3] } };
}

/* ---- helpers ---- */

static void check_equal(struct tt_hash got, struct tt_hash want, const char *what, size_t bytes,
                        uint64_t seed)
{
    char got_text[TT_HASH_TEXT_BYTES], want_text[TT_HASH_TEXT_BYTES];

    if (tt_hash_equal(&got, &want))
        return;
    tt_hash_text(&got, got_text);
    tt_hash_text(&want, want_text);
    fail_msg("%s: %s, not %s; %zu bytes, seed %llu", what, got_text, want_text, bytes,
             (unsigned long long)seed);
}

static void fill_random(uint8_t *data, size_t bytes, uint64_t seed)
{
    struct tt_prng p;

    tt_prng_init(&p, seed);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)tt_prng_u64(&p);
}

/* A set of values that must all differ, in their first and in their second half: 64 bits each, for
 * which a collision among some hundred thousand is improbable. */
struct values {
    size_t count, room;
    uint64_t *first, *second;
};

static void values_init(struct values *v, size_t room)
{
    *v = (struct values){ 0, room, malloc(room * 8), malloc(room * 8) };
    assert_true(v->first && v->second);
}

static void values_add(struct values *v, struct tt_hash h)
{
    assert_true(v->count < v->room);
    v->first[v->count] = (uint64_t)h.word[1] << 32 | h.word[0];
    v->second[v->count++] = (uint64_t)h.word[3] << 32 | h.word[2];
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void check_distinct(uint64_t *half, size_t count, const char *what)
{
    qsort(half, count, sizeof half[0], by_value);
    for (size_t i = 1; i < count; i++)
        if (half[i] == half[i - 1])
            fail_msg("%s: two of %zu values share 64 bits: %016llx", what, count,
                     (unsigned long long)half[i]);
}

static void values_end_distinct(struct values *v, const char *what)
{
    assert_true(v->count > 1);
    check_distinct(v->first, v->count, what);
    check_distinct(v->second, v->count, what);
    free(v->first);
    free(v->second);
}

/* ---- the value ---- */

/* At the end of accessible memory, and at every alignment. */
static void value_matches_the_definition(void **state)
{
    static const size_t borders[] = { ROW, 2 * ROW, BLOCK, 2 * BLOCK, 3 * BLOCK, 5 * BLOCK };
    const uint64_t seed = 11;
    struct guarded g;
    uint8_t *data;

    (void)state;
    guarded_init(&g, 6 * BLOCK);
    fill_random(g.at, g.bytes, seed);
    for (size_t bytes = 0; bytes < 5 * ROW; bytes++) {
        data = g.at + g.bytes - bytes;
        check_equal(tt_hash_of(data, bytes), reference(data, bytes), "every size", bytes, seed);
    }
    for (size_t i = 0; i < sizeof borders / sizeof borders[0]; i++)
        for (size_t bytes = borders[i] - 3; bytes <= borders[i] + 3; bytes++) {
            data = g.at + g.bytes - bytes;
            check_equal(tt_hash_of(data, bytes), reference(data, bytes), "at a border", bytes,
                        seed);
        }
    for (size_t shift = 0; shift < 64; shift++) {
        data = g.at + 2 * BLOCK + shift;
        memcpy(data, g.at, BLOCK + 77);
        check_equal(tt_hash_of(data, BLOCK + 77), reference(g.at, BLOCK + 77), "shifted",
                    BLOCK + 77, seed);
    }
    guarded_fini(&g);
}

static bool try_vector(const uint8_t *data, size_t bytes, const char want[TT_HASH_TEXT_BYTES],
                       void *arg)
{
    const struct tt_hash h = tt_hash_of(data, bytes);
    char got[TT_HASH_TEXT_BYTES];

    (void)arg;
    tt_hash_text(&h, got);
    if (strcmp(got, want) == 0)
        return true;
    print_error("%zu bytes: %s, but docs/hash.md says %s\n", bytes, got, want);
    return false;
}

static void the_vectors_of_the_documentation_hold(void **state)
{
    (void)state;
    assert_int_equal(hash_vectors_each(SIZE_MAX, try_vector, NULL), (size_t)64 << 20);
}

/* ---- hashing in parts ---- */

static void pieces_give_the_whole_value(void **state)
{
    enum { BYTES = 3 * BLOCK + 1001 };
    static uint8_t data[BYTES];
    const uint64_t seed = 5;
    const struct tt_hash whole = (fill_random(data, BYTES, seed), reference(data, BYTES));
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, seed);
    for (int run = 0; run < 400; run++) {
        const size_t most = run % 4 == 0 ? 7 : run % 4 == 1 ? 300 : run % 4 == 2 ? 5000 : 40000;
        struct tt_hash_stream s;
        struct tt_hash_sum sum;

        if (!unit_draw())
            continue;
        tt_hash_begin(&s, 0);
        for (size_t at = 0; at < BYTES;) {
            const size_t piece = tt_prng_below(&p, most),
                         some = piece < BYTES - at ? piece : BYTES - at;

            tt_hash_add(&s, data + at, some);
            at += some;
        }
        sum = tt_hash_end(&s);
        check_equal(tt_hash_value(&sum, BYTES), whole, "in pieces", BYTES, seed);
    }
}

struct range {
    const uint8_t *data;
    uint64_t first_block;
    size_t bytes;
    struct tt_hash_sum sum;
};

static void *hash_range(void *arg)
{
    struct range *r = arg;
    struct tt_hash_stream s;

    tt_hash_begin(&s, r->first_block);
    tt_hash_add(&s, r->data, r->bytes);
    r->sum = tt_hash_end(&s);
    return NULL;
}

static void threads_give_the_whole_value(void **state)
{
    enum { BYTES = 37 * BLOCK + 4321, THREADS_MAX = 9 };
    uint8_t *data = malloc(BYTES);
    const uint64_t seed = 21;

    (void)state;
    assert_non_null(data);
    fill_random(data, BYTES, seed);
    for (size_t nthreads = 1; nthreads <= THREADS_MAX; nthreads++) {
        struct range ranges[THREADS_MAX];
        pthread_t threads[THREADS_MAX];
        struct tt_hash_sum sum = { { 0 } };

        for (size_t t = 0; t < nthreads; t++) {
            const size_t from = 38 * t / nthreads * BLOCK, to = 38 * (t + 1) / nthreads * BLOCK;

            ranges[t] = (struct range){
                data + from, from / BLOCK, (to < BYTES ? to : BYTES) - from, { { 0 } }
            };
            assert_int_equal(pthread_create(&threads[t], NULL, hash_range, &ranges[t]), 0);
        }
        for (size_t t = nthreads; t-- > 0;) {
            pthread_join(threads[t], NULL);
            tt_hash_combine(&sum, &ranges[t].sum);
        }
        check_equal(tt_hash_value(&sum, BYTES), reference(data, BYTES), "by threads", nthreads,
                    seed);
    }
    free(data);
}

/* Blocks from 2^32 on differ from those from 0 on. */
static void blocks_count_beyond_32_bits(void **state)
{
    static const uint64_t blocks[] = { 0,          1,           2,           0x7fffffff,
                                       0xffffffff, 0x100000000, 0x100000001, (uint64_t)1 << 49 };
    static uint8_t data[BLOCK];
    struct values v;

    (void)state;
    values_init(&v, 2 * sizeof blocks / sizeof blocks[0]);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        struct range r = { data, blocks[i], BLOCK, { { 0 } } };

        hash_range(&r);
        values_add(&v, tt_hash_value(&r.sum, 0));
        values_add(&v, tt_hash_value(&(struct tt_hash_sum){ { 1 } }, blocks[i]));
    }
    values_end_distinct(&v, "blocks and lengths");
}

/* ---- distinct contents ---- */

static void single_bit_flips_are_distinct(void **state)
{
    enum { BYTES = BLOCK + 500 };
    static uint8_t data[BYTES];
    struct values v;

    (void)state;
    for (int zeros = 0; zeros < 2; zeros++) {
        if (zeros)
            memset(data, 0, BYTES);
        else
            fill_random(data, BYTES, 3);
        values_init(&v, 8 * BYTES + 1);
        values_add(&v, tt_hash_of(data, BYTES));
        for (size_t bit = 0; bit < 8 * BYTES; bit++) {
            if (!unit_draw())
                continue;
            data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            values_add(&v, tt_hash_of(data, BYTES));
            data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        values_end_distinct(&v, zeros ? "one bit among zeros" : "one flipped bit");
    }
}

/* A lane has 64 bits, so two or three changes in one lane are the most difficult to distinguish.
 * `stride` 1: all in one row; 32: eight rows of one lane. */
static void flip_pairs(struct values *v, uint32_t *words, size_t bytes, size_t nbits, size_t stride)
{
    for (size_t i = 0; i < nbits; i++)
        for (size_t j = 0; j < i; j++) {
            if (!unit_draw())
                continue;
            words[i / 32 * stride] ^= 1u << i % 32;
            words[j / 32 * stride] ^= 1u << j % 32;
            values_add(v, tt_hash_of(words, bytes));
            words[i / 32 * stride] ^= 1u << i % 32;
            words[j / 32 * stride] ^= 1u << j % 32;
        }
}

static void double_bit_flips_are_distinct(void **state)
{
    uint32_t words[8 * LANES];
    struct values v;

    (void)state;
    for (int zeros = 0; zeros < 2; zeros++) {
        memset(words, 0, sizeof words);
        if (!zeros)
            fill_random((uint8_t *)words, sizeof words, 17);
        values_init(&v, 512 * 1024);
        flip_pairs(&v, words, ROW, 8 * ROW, 1);
        values_end_distinct(&v, "two flipped bits of a row");
        values_init(&v, 512 * 1024);
        flip_pairs(&v, words, sizeof words, 8 * 32, LANES);
        values_end_distinct(&v, "two flipped bits of a lane");
    }
}

/* Three changes that cancel in the first word of a lane: the second word must differ. */
static void small_changes_of_lanes_are_distinct(void **state)
{
    uint32_t words[4 * LANES] = { 0 };
    struct values v;

    (void)state;
    values_init(&v, 16 * 16 * 16 * 16);
    for (uint32_t i = 0; i < 16 * 16 * 16 * 16; i++) {
        if (!unit_draw())
            continue;
        for (int w = 0; w < 4; w++) {
            const uint32_t digit = i >> 4 * w & 15;

            words[w * LANES] = digit < 8 ? digit : 1u << (digit * 3 - 14);
        }
        values_add(&v, tt_hash_of(words, sizeof words));
    }
    values_end_distinct(&v, "four small words of a lane");
}

static void swap(uint8_t *data, size_t x, size_t y, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t kept = data[x + i];

        data[x + i] = data[y + i];
        data[y + i] = kept;
    }
}

static void swapped_parts_are_distinct(void **state)
{
    enum { NBLOCKS = 5, BYTES = NBLOCKS * BLOCK };
    static uint8_t data[BYTES];
    struct values v;

    (void)state;
    fill_random(data, BYTES, 9);
    values_init(&v, 20000);
    values_add(&v, tt_hash_of(data, BYTES));
    for (size_t i = 0; i < NBLOCKS; i++)
        for (size_t j = 0; j < i; j++) {
            swap(data, i * BLOCK, j * BLOCK, BLOCK);
            values_add(&v, tt_hash_of(data, BYTES));
            swap(data, i * BLOCK, j * BLOCK, BLOCK);
        }
    for (size_t i = 0; i < BLOCK / ROW; i++)
        for (size_t j = 0; j < i; j++) {
            if (!unit_draw())
                continue;
            swap(data, i * ROW, j * ROW, ROW);
            values_add(&v, tt_hash_of(data, BLOCK));
            swap(data, i * ROW, j * ROW, ROW);
        }
    for (size_t i = 0; i < LANES; i++)
        for (size_t j = 0; j < i; j++)
            for (size_t rows = 1; rows <= 128; rows *= 2) {     /* the first rows; finally all */
                for (size_t r = 0; r < rows; r++)
                    swap(data, r * ROW + 4 * i, r * ROW + 4 * j, 4);
                values_add(&v, tt_hash_of(data, BLOCK));
                for (size_t r = 0; r < rows; r++)
                    swap(data, r * ROW + 4 * i, r * ROW + 4 * j, 4);
            }
    values_end_distinct(&v, "swapped");
}

static void runs_of_equal_bytes_are_distinct(void **state)
{
    static const uint8_t fills[] = { 0, 1, 0x7f, 0x80, 0xff };
    static uint8_t data[9 * BLOCK];
    struct values v;

    (void)state;
    values_init(&v, 60000);
    values_add(&v, tt_hash_of(NULL, 0));
    for (size_t f = 0; f < sizeof fills; f++) {
        memset(data, fills[f], sizeof data);
        for (size_t bytes = 1; bytes <= sizeof data;
             bytes += bytes % BLOCK < 300 || bytes % BLOCK > BLOCK - 40 ? 1 : 31)
            if (unit_draw())
                values_add(&v, tt_hash_of(data, bytes));
    }
    values_end_distinct(&v, "runs");
}

/* For each flipped input bit, each bit of the value flips in half of the cases: none deviates by
 * more than five standard deviations (probability one in 1.7 million) for `trials` random
 * contents. */
static void bit_flips_spread_evenly(void **state)
{
    static const size_t sizes[] = { 4, 8, 12, ROW, 3 * ROW + 5, BLOCK + 4 };
    const int trials = 4096 / UNIT_SHARE;
    static uint8_t data[2 * BLOCK];
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 77);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int place = 0; place < 8; place++) {
            const size_t bit = tt_prng_below(&p, 8 * sizes[s]);
            int flips[128] = { 0 };

            for (int t = 0; t < trials; t++) {
                struct tt_hash x, y;

                fill_random(data, sizes[s] < 64 ? sizes[s] : 64, tt_prng_u64(&p));
                data[bit / 8] ^= (uint8_t)tt_prng_u64(&p);
                x = tt_hash_of(data, sizes[s]);
                data[bit / 8] ^= (uint8_t)(1 << bit % 8);
                y = tt_hash_of(data, sizes[s]);
                for (int i = 0; i < 128; i++)
                    flips[i] += (x.word[i / 32] ^ y.word[i / 32]) >> i % 32 & 1;
            }
            for (int i = 0; i < 128; i++)
                if (4 * (flips[i] - trials / 2) * (flips[i] - trials / 2) > 25 * trials)
                    fail_msg("%zu bytes: bit %zu flips bit %d in %d of %d cases, seed 77", sizes[s],
                             bit, i, flips[i], trials);
        }
}

static void text_matches_the_byte_order(void **state)
{
    const struct tt_hash h = { { 0x03020100, 0x07060504, 0x0b0a0908, 0xff0e0d0c } },
                         other = { { 0x03020100 } };
    char text[TT_HASH_TEXT_BYTES];

    (void)state;
    tt_hash_text(&h, text);
    assert_string_equal(text, "000102030405060708090a0b0c0d0eff");
    assert_true(tt_hash_equal(&h, &h));
    assert_false(tt_hash_equal(&h, &other));
}

static int tests(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(value_matches_the_definition),
        cmocka_unit_test(the_vectors_of_the_documentation_hold),
        cmocka_unit_test(pieces_give_the_whole_value),
        cmocka_unit_test(threads_give_the_whole_value),
        cmocka_unit_test(blocks_count_beyond_32_bits),
        cmocka_unit_test(single_bit_flips_are_distinct),
        cmocka_unit_test(double_bit_flips_are_distinct),
        cmocka_unit_test(small_changes_of_lanes_are_distinct),
        cmocka_unit_test(swapped_parts_are_distinct),
        cmocka_unit_test(runs_of_equal_bytes_are_distinct),
        cmocka_unit_test(bit_flips_spread_evenly),
        cmocka_unit_test(text_matches_the_byte_order),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(void)
{
    return both_isas(tests);
}
