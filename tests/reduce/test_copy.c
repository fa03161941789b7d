#include <stdio.h>
#include <string.h>
#include "base/prng.h"
#include "guarded.h"
#include "reduce/kernels.h"
#include "reduce/reduce.h"
#include "support/unit.h"

enum { ROOM_BYTES = 256 * 1024, MARGIN_BYTES = 64 };

struct copy_case {
    const char *isa;
    void (*copy)(void *dst, void *dst2, const void *src, size_t bytes, uint32_t stream);
    size_t bytes, dst_shift, dst2_shift, src_shift;
    uint32_t stream;
    bool two;
};

struct room {
    uint8_t *dst, *dst2, *src;      /* [ROOM_BYTES] each */
};

static void check(const struct room *room, const struct copy_case *c)
{
    uint8_t *dst = room->dst + MARGIN_BYTES + c->dst_shift,
            *dst2 = room->dst2 + MARGIN_BYTES + c->dst2_shift;
    const uint8_t *src = room->src + c->src_shift;
    static const uint8_t margin[MARGIN_BYTES] = { 0 };

    memset(dst - MARGIN_BYTES, 0, c->bytes + 2 * MARGIN_BYTES);
    memset(dst2 - MARGIN_BYTES, 0, c->bytes + 2 * MARGIN_BYTES);
    c->copy(dst, c->two ? dst2 : NULL, src, c->bytes, c->stream);

    if (memcmp(dst, src, c->bytes) != 0 || (c->two && memcmp(dst2, src, c->bytes) != 0) ||
        memcmp(dst - MARGIN_BYTES, margin, MARGIN_BYTES) != 0 ||
        memcmp(dst + c->bytes, margin, MARGIN_BYTES) != 0 ||
        memcmp(dst2 - MARGIN_BYTES, margin, MARGIN_BYTES) != 0 ||
        memcmp(dst2 + c->bytes, margin, MARGIN_BYTES) != 0)
        fail_msg("%s: %zu bytes, shifts dst %zu dst2 %zu src %zu, stream %u, dst2 %d", c->isa,
                 c->bytes, c->dst_shift, c->dst2_shift, c->src_shift, c->stream, c->two);
}

static void check_sizes(const struct room *room, struct copy_case c, struct tt_prng *p)
{
    static const size_t large[] = {
        4095, 8191, 8192, 8193, 8255, 8256, 12345, 65536, 65599, 200000
    };

    for (size_t bytes = 0; bytes < 400; bytes++) {
        c.bytes = bytes;
        c.dst_shift = tt_prng_below(p, 64);
        c.dst2_shift = tt_prng_below(p, 64);
        c.src_shift = tt_prng_below(p, 64);
        check(room, &c);
    }
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        for (size_t shift = 0; shift < 64; shift++) {
            if (!unit_has_turn(shift, 4))
                continue;
            c.bytes = large[i];
            c.dst_shift = shift;
            c.dst2_shift = tt_prng_below(p, 64);
            c.src_shift = tt_prng_below(p, 64);
            check(room, &c);
        }
}

static void copies_are_exact_at_all_alignments(void **state)
{
    static uint8_t memory[3][ROOM_BYTES];
    const struct room room = { memory[0], memory[1], memory[2] };
    const uint64_t seed = 11;
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, seed);
    for (size_t i = 0; i < ROOM_BYTES; i++)
        /* never the zero of the margin */
        room.src[i] = (uint8_t)(1 + tt_prng_below(&p, 255));

    for (uint32_t how = 0; how < 16; how++) {
        struct copy_case c = {
            .isa = "tt_copy", .copy = tt_copy, .stream = how & 7, .two = how & 8
        };

        check_sizes(&room, c, &p);
        c.isa = tt_kernels_get()->name;         /* tt_copy may be memcpy */
        c.copy = tt_kernels_get()->copy;
        check_sizes(&room, c, &p);
        c.isa = tt_kernels_portable.name;
        c.copy = tt_kernels_portable.copy;
        check_sizes(&room, c, &p);
    }
}

static void copy_stays_within_its_buffers(void **state)
{
    struct guarded src, dst, dst2;
    static const size_t large[] = { 8192, 10007, 16383, 16384, 32767 };

    (void)state;
    guarded_init(&src, 32768);
    guarded_init(&dst, 32768);
    guarded_init(&dst2, 32768);
    for (size_t i = 0; i < 200 + sizeof large / sizeof large[0]; i++) {
        const size_t n = i < 200 ? i : large[i - 200];

        for (uint32_t stream = 0; stream < 4; stream++) {
            tt_copy(dst.at, dst2.at, src.at, n, stream);
            tt_copy(dst.at + dst.bytes - n, dst2.at + dst2.bytes - n, src.at + src.bytes - n, n,
                    stream);
            tt_copy(dst.at, NULL, src.at, n, stream | TT_FROM_OTHER_CORE);
            tt_copy(dst.at + dst.bytes - n, NULL, src.at + src.bytes - n, n,
                    stream | TT_FROM_OTHER_CORE);
        }
    }
    guarded_fini(&src);
    guarded_fini(&dst);
    guarded_fini(&dst2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_exact_at_all_alignments),
        cmocka_unit_test(copy_stays_within_its_buffers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
