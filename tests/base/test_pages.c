/* Long buffers that are reused are moved to huge pages, and keep their contents. */
#include "base/pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/unit.h"

#define MIB ((size_t)1 << 20)
#define BUFFER_BYTES (26 * MIB)
#define PIECE_BYTES (8 * MIB)
#define USES 40             /* then the buffer is moved, or was tried often enough */

/* Returns the KiB of this process's memory at [first, first + bytes) on huge pages. */
static size_t huge_kib(const uint8_t *first, size_t bytes)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    const uintptr_t begin = (uintptr_t)first, end = begin + bytes;
    uintptr_t from = 0, to = 0;
    size_t kib, sum = 0;
    char line[400];

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        uintptr_t a, b;

        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &a, &b) == 2) {
            from = a;
            to = b;
        } else if (sscanf(line, "AnonHugePages: %zu kB", &kib) == 1 && from < end && to > begin) {
            sum += kib;
        }
    }
    fclose(f);
    return sum;
}

static uint8_t *buffer(void)
{
    uint8_t *p =
        mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    for (size_t i = 0; i < BUFFER_BYTES; i += 4096)
        p[i] = (uint8_t)(i >> 12);
    return p;
}

static void remap(uint8_t *p, size_t bytes)
{
    assert_ptr_equal(
        mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), p);
    for (size_t i = 0; i < bytes; i += 4096)
        p[i] = 1;
}

static void mapped_memory_is_size_aligned(void **state)
{
    static const size_t sizes[] = {
        1, 4096, 4097, 12288, MIB - 1, MIB, 3 * MIB + 5, 64 * MIB + 4096
    };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);
        size_t alignment = page;
        uint8_t *p = tt_pages_map_aligned(sizes[i], MAP_PRIVATE | MAP_ANONYMOUS, -1);

        while (alignment <= sizes[i] / 2)
            alignment *= 2;
        assert_ptr_not_equal(p, MAP_FAILED);
        if ((uintptr_t)p % alignment)
            fail_msg("%zu bytes at %p", sizes[i], (void *)p);
        p[0] = p[sizes[i] - 1] = 1;
        assert_int_equal(munmap(p, sizes[i]), 0);
    }
    assert_ptr_equal(tt_pages_map_aligned(SIZE_MAX / 2, MAP_PRIVATE | MAP_ANONYMOUS, -1),
                     MAP_FAILED);
}

static void reused_memory_moves_and_keeps_contents(void **state)
{
    struct tt_pages_hot h;
    uint8_t *p = buffer();
    size_t moved[USES];

    (void)state;
    tt_pages_hot_init(&h);
    if (!h.page_bytes) {
        print_message("this system gives huge pages to all, or to none: nothing to do\n");
        tt_pages_hot_fini(&h);
        munmap(p, BUFFER_BYTES);
        skip();
    }
    for (int use = 0; use < USES; use++) {
        tt_pages_hot_use(&h, p + 100, BUFFER_BYTES - 100);
        moved[use] = h.ranges[0].done - h.ranges[0].first;
        if (use < 3) {
            assert_int_equal(moved[use], 0);
            assert_int_equal(huge_kib(p, BUFFER_BYTES), 0);
        }
    }
    if (huge_kib(p, BUFFER_BYTES) == 0) {
        print_message("this system has no huge pages left\n");
        tt_pages_hot_fini(&h);
        munmap(p, BUFFER_BYTES);
        skip();
    }
    /* the kernel moves additional memory in the background, so more may be on huge pages than this
     * test moved */
    for (int use = 3; use < USES; use++)
        assert_in_range(moved[use], moved[use - 1], moved[use - 1] + PIECE_BYTES);
    assert_int_equal(h.ranges[0].done, h.ranges[0].end);
    for (size_t i = 0; i < BUFFER_BYTES; i += 4096)
        assert_int_equal(p[i], (uint8_t)(i >> 12));
    tt_pages_hot_fini(&h);
    munmap(p, BUFFER_BYTES);
}

/* New memory at the same address, as an allocator may return it, is moved, too. If memory is
 * replaced repeatedly, it is moved less and less often. */
static void remapped_memory_is_moved_too(void **state)
{
    struct tt_pages_hot h;
    uint8_t *p = buffer();
    uint32_t moves[2] = { 0 };

    (void)state;
    tt_pages_hot_init(&h);
    for (int use = 0; use < USES; use++)
        tt_pages_hot_use(&h, p, BUFFER_BYTES);
    if (h.pagemap < 0 || huge_kib(p, BUFFER_BYTES) < 2048) {
        print_message("this system does not tell, or has no huge pages left\n");
        tt_pages_hot_fini(&h);
        munmap(p, BUFFER_BYTES);
        skip();
    }
    remap(p, BUFFER_BYTES);
    assert_int_equal(huge_kib(p, BUFFER_BYTES), 0);
    for (int use = 0; use < USES; use++)
        tt_pages_hot_use(&h, p, BUFFER_BYTES);
    assert_int_not_equal(huge_kib(p, BUFFER_BYTES), 0);
    tt_pages_hot_fini(&h);
    tt_pages_hot_init(&h);
    for (int use = 0; use < 400; use++) {
        remap(p, 4 * MIB);
        tt_pages_hot_use(&h, p, 4 * MIB);
        moves[use >= 200] += h.ranges[0].done > h.ranges[0].first && !h.ranges[0].failed;
    }
    assert_in_range(moves[0], 0, 8);        /* none if the kernel finds no space */
    assert_in_range(moves[1], 0, 2);
    tt_pages_hot_fini(&h);
    munmap(p, BUFFER_BYTES);
}

static void short_or_unused_memory_stays(void **state)
{
    struct tt_pages_hot h;
    uint8_t *p = buffer();

    (void)state;
    tt_pages_hot_init(&h);
    for (int use = 0; use < 10; use++) {
        tt_pages_hot_use(&h, p, 3 * MIB);
        tt_pages_hot_use(&h, NULL, BUFFER_BYTES);
    }
    h.page_bytes = 0;
    for (int use = 0; use < 10; use++)
        tt_pages_hot_use(&h, p, BUFFER_BYTES);
    assert_int_equal(huge_kib(p, BUFFER_BYTES), 0);
    tt_pages_hot_fini(&h);
    munmap(p, BUFFER_BYTES);
}

/* More buffers than are recorded, unmapped memory, memory of a file: no effect. */
static void unmovable_memory_is_left_alone(void **state)
{
    struct tt_pages_hot h;
    uint8_t *p = buffer();
    FILE *f = tmpfile();
    uint8_t *q;

    (void)state;
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), 16 * MIB), 0);
    q = mmap(NULL, 16 * MIB, PROT_READ, MAP_SHARED, fileno(f), 0);
    assert_ptr_not_equal(q, MAP_FAILED);
    tt_pages_hot_init(&h);
    for (int use = 0; use < 100; use++) {
        for (size_t at = 0; at + 8 * MIB <= BUFFER_BYTES; at += 8 * MIB)
            tt_pages_hot_use(&h, p + at, 8 * MIB);
        tt_pages_hot_use(&h, q, 16 * MIB);
    }
    for (size_t i = 0; i < BUFFER_BYTES; i += 4096)
        assert_int_equal(p[i], (uint8_t)(i >> 12));
    munmap(p, BUFFER_BYTES);
    for (int use = 0; use < 3; use++)
        tt_pages_hot_use(&h, p, BUFFER_BYTES);
    tt_pages_hot_fini(&h);
    munmap(q, 16 * MIB);
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapped_memory_is_size_aligned),
        cmocka_unit_test(reused_memory_moves_and_keeps_contents),
        cmocka_unit_test(remapped_memory_is_moved_too),
        cmocka_unit_test(short_or_unused_memory_stays),
        cmocka_unit_test(unmovable_memory_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
