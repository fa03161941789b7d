/* Requirements on every transport: put and signal, fences, zero length, back-pressure, death, and
 * registration. Each property is tested in real processes over every registered transport, over
 * several lanes where supported, and over shared memory with unshared regions.
 *
 * The ofi transport is tested over the provider that it selects, and with some of the properties
 * over every other provider that needs no hardware.
 *
 * TUTTI_TEST_SEED replays a run. TUTTI_TEST_ONLY names a property or a transport.
 * TUTTI_TEST_HALVES, for emulated machines, tests half of the properties in each turn (unit.h), and
 * each property with one of a transport's two settings. TUTTI_TEST_OFI names libfabric providers,
 * like "tcp sockets", over which the ofi transport is tested with all properties, instead of the
 * above. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "nodes.h"
#include "support/unit.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

static bool has(const struct node *n, uint32_t cap)
{
    return n->w->caps & cap;
}

/* mem NULL: the memory is allocated by the transport, or by the test, depending on the setting. */
static struct tt_region *region(struct node *n, void *mem, uint64_t bytes)
{
    struct tt_region *r;

    if (!mem && n->setting->cma)
        mem = node_memory(n, bytes);
    CHECK(n, n->ops->reg(n->w, mem, bytes, &r) == TUTTI_OK);
    CHECK(n, r->bytes >= bytes && r->mem);
    return r;
}

/* Every rank registers `bytes` and shares them in slot 0. */
static struct tt_region *region_shared(struct node *n, uint64_t bytes)
{
    struct tt_region *r = region(n, NULL, bytes);

    node_share(n, 0, r);
    node_barrier(n);
    return r;
}

/* The state of a process in /proc ('S', 'T', ...). */
static char process_state(pid_t pid)
{
    char path[64], line[256] = "";
    FILE *f;
    char *at;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    if (!f)
        return 0;
    at = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    fclose(f);
    return at ? at[2] : 0;
}

/* ---- put, then signal ---- */

static const uint64_t sizes[] = { 0,    1,    7,     8,     63,    64,      65,
                                  4032, 4096, 16383, 16384, 65537, 1 * MIB, 4 * MIB + 3 };
#define NSIZES (sizeof sizes / sizeof *sizes)

/* Rank 0 puts each size to an odd offset, inline where permitted; rank 1 sees the signal, then the
 * bytes, and no byte beyond. */
static void put_role(struct node *n)
{
    const uint64_t offset = 61, room = 5 * MIB;
    struct tt_region *mine;
    struct tt_rkey theirs;

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, room);
    theirs = node_import(n, !n->rank, 0);
    for (uint32_t i = 0; i < 2 * NSIZES; i++) {
        const uint64_t bytes = sizes[i / 2], salt = n->setting->seed + i;
        const bool copied = i % 2 && bytes <= TT_INLINE_BYTES;
        struct tt_desc d = node_signal(n, !n->rank, 0, TT_SIGNAL_SET, i + 1);

        if (n->rank == 1) {
            memset(mine->mem, 0x5a, room);
            node_barrier(n);
            UNTIL(n, node_word(n, 0, 0) == i + 1);
            CHECK(n, pattern_differs((uint8_t *)mine->mem + offset, bytes, salt) == bytes);
            CHECK(n, ((uint8_t *)mine->mem)[offset - 1] == 0x5a &&
                         ((uint8_t *)mine->mem)[offset + bytes] == 0x5a);
            node_barrier(n);
            continue;
        }
        node_barrier(n);
        pattern_fill(mine->mem, bytes, salt);
        d.flags = copied ? TT_DESC_INLINE : 0;
        d.local = mine->mem;
        d.bytes = bytes;
        d.key = &theirs;
        d.offset = offset;
        d.cookie = i;
        node_post(n, &d);
        if (copied)
            memset(mine->mem, 0, bytes);    /* reusable at once */
        node_barrier(n);
        UNTIL(n, copied || tt_put_is_instant(n->w, &theirs) || n->local[i] == 1);
        CHECK(n, !copied || n->local[i] == 0);
    }
    node_barrier(n);
}

static void data_precedes_its_signal(void **state)
{
    nodes_run(*state, 2, put_role);
}

/* Signals of puts without bytes: SET replaces, ADD adds, from two peers to one word each. */
static void zero_role(struct node *n)
{
    node_open(n);
    node_connect_all(n);
    for (uint32_t peer = 0; peer < n->nranks; peer++) {
        struct tt_desc set, add;

        if (peer == n->rank)
            continue;
        set = node_signal(n, peer, 0, TT_SIGNAL_SET, 7 + n->rank);
        add = node_signal(n, peer, 1, TT_SIGNAL_ADD, 3);
        set.flags = 0;      /* inline is optional */
        node_post(n, &set);
        for (int i = 0; i < 100; i++) {
            add.flags = i % 2 ? TT_DESC_INLINE : 0;
            node_post(n, &add);
        }
    }
    for (uint32_t peer = 0; peer < n->nranks; peer++)
        if (peer != n->rank) {
            UNTIL(n, node_word(n, peer, 0) == 7 + peer);
            UNTIL(n, node_word(n, peer, 1) == 300);
        }
    node_barrier(n);
    for (uint32_t peer = 0; peer < n->nranks; peer++)
        CHECK(n, peer == n->rank || node_word(n, peer, 1) == 300);
    node_barrier(n);
}

static void empty_put_still_signals(void **state)
{
    nodes_run(*state, 3, zero_role);
}

/* Both ranks concurrently put random sizes into each other's slots, several descriptors per post,
 * and count arrivals by ADD. */
#define STORM 1500
#define STORM_SLOT (8 * KIB)
static uint64_t storm_bytes(struct tt_prng *p)
{
    const uint64_t scale = 1ull << tt_prng_below(p, 14);

    return tt_prng_below(p, scale + 1);
}

static void storm_role(struct node *n)
{
    struct tt_region *mine, *source;
    struct tt_rkey theirs;
    struct tt_prng sizes_mine, sizes_theirs;
    struct tt_desc batch[8];
    uint32_t posted = 0, expected = 0;

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, STORM * STORM_SLOT);
    source = region(n, NULL, STORM * STORM_SLOT);
    theirs = node_import(n, !n->rank, 0);
    tt_prng_init(&sizes_mine, n->setting->seed + 100 + n->rank);
    tt_prng_init(&sizes_theirs, n->setting->seed + 100 + !n->rank);
    while (posted < STORM) {
        uint32_t in_batch = 1 + (uint32_t)tt_prng_below(&n->prng, 8), taken = 0;

        for (uint32_t i = 0; i < in_batch && posted + i < STORM; i++) {
            const uint64_t slot = (posted + i) * STORM_SLOT;
            struct tt_desc d = node_signal(n, !n->rank, 0, TT_SIGNAL_ADD, 1);

            d.bytes = storm_bytes(&sizes_mine);
            d.local = (uint8_t *)source->mem + slot;
            d.key = &theirs;
            d.offset = slot;
            d.cookie = posted + i;
            d.flags = tt_prng_below(&n->prng, 2) ? TT_DESC_INLINE : 0;
            pattern_fill(d.local, d.bytes, posted + i + 1000 * n->rank);
            batch[i] = d;
        }
        if (posted + in_batch > STORM)
            in_batch = STORM - posted;
        for (posted += in_batch; taken < in_batch;) {
            const int now = n->ops->post(n->w, batch + taken, (int)(in_batch - taken));

            CHECK(n, now >= 0 && now <= (int)(in_batch - taken));
            taken += (uint32_t)now;
            node_poll(n);
        }
    }
    UNTIL(n, node_word(n, !n->rank, 0) == STORM);
    for (; expected < STORM; expected++) {
        const uint64_t bytes = storm_bytes(&sizes_theirs);

        CHECK(n, pattern_differs((uint8_t *)mine->mem + expected * STORM_SLOT, bytes,
                                 expected + 1000 * !n->rank) == bytes);
    }
    node_barrier(n);
}

static void many_puts_arrive_in_both_directions(void **state)
{
    nodes_run(*state, 2, storm_role);
}

/* An inline source is reusable at once, up to the maximum size. */
static void inline_role(struct node *n)
{
    struct tt_region *mine;
    struct tt_rkey theirs;
    uint8_t *source = malloc(TT_INLINE_BYTES);      /* inline sources need not be registered */

    CHECK(n, source);
    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, 64 * TT_INLINE_BYTES);
    theirs = node_import(n, !n->rank, 0);
    for (uint32_t i = 0; i < 64 && n->rank == 0; i++) {
        struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_ADD, 1);

        pattern_fill(source, TT_INLINE_BYTES, i);
        d.local = source;
        d.bytes = TT_INLINE_BYTES;
        d.key = &theirs;
        d.offset = i * (uint64_t)TT_INLINE_BYTES;
        node_post(n, &d);
    }
    if (n->rank == 1) {
        UNTIL(n, node_word(n, 0, 0) == 64);
        for (uint32_t i = 0; i < 64; i++)
            CHECK(n, pattern_differs((uint8_t *)mine->mem + i * TT_INLINE_BYTES, TT_INLINE_BYTES,
                                     i) == TT_INLINE_BYTES);
    }
    node_barrier(n);
    CHECK(n, n->nlocal == 0);
    free(source);
}

static void inline_sources_are_reusable_at_once(void **state)
{
    nodes_run(*state, 2, inline_role);
}

/* Short copied puts directly after a long put, posted without polls while they are accepted: they
 * must not use the space that the long put needs. */
static void behind_role(struct node *n)
{
    enum { COUNT = 40 };
    const uint64_t bytes = 4 * KIB;
    struct tt_region *mine;
    struct tt_rkey theirs;
    uint8_t *source = malloc(bytes), *at;

    CHECK(n, source);
    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, MIB + COUNT * bytes);
    theirs = node_import(n, !n->rank, 0);
    at = mine->mem;
    if (n->rank == 0) {
        const struct tt_desc first = node_put(&theirs, 0, at, MIB);

        pattern_fill(at, MIB, COUNT);
        node_post(n, &first);
    }
    for (uint32_t i = 0; i < COUNT && n->rank == 0; i++) {
        struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_ADD, 1);

        pattern_fill(source, bytes, i);
        d.local = source;
        d.bytes = bytes;
        d.key = &theirs;
        d.offset = MIB + i * bytes;
        node_post(n, &d);
    }
    if (n->rank == 1) {
        UNTIL(n, node_word(n, 0, 0) == COUNT);
        for (uint32_t i = 0; i < COUNT; i++)
            CHECK(n, pattern_differs(at + MIB + i * bytes, bytes, i) == bytes);
        UNTIL(n, pattern_differs(at, MIB, COUNT) == MIB);
    }
    node_barrier(n);
    free(source);
}

static void short_puts_leave_space_for_long(void **state)
{
    nodes_run(*state, 2, behind_role);
}

/* ---- fences ---- */

/* Large and small puts without signals, a fence, then a signal: when it is visible, so are all
 * puts. */
#define FENCE_LARGE (24 * MIB)      /* more than a single poll reads */
#define FENCE_SMALL 1000ull

static void fence_put_all(struct node *n, const struct tt_rkey *key, uint8_t *source,
                          uint64_t bytes, uint64_t few, uint64_t salt)
{
    const uint64_t pieces = 5;
    struct tt_desc d;

    pattern_fill(source, bytes, salt);
    for (uint64_t i = 0; i < pieces; i++) {
        const uint64_t at = bytes * i / pieces;

        d = node_put(key, at, source + at, bytes * (i + 1) / pieces - at);
        node_post(n, &d);
    }
    for (uint64_t i = 0; i < few; i++) {
        const uint64_t at = FENCE_LARGE + i * FENCE_SMALL;

        pattern_fill(source + at, FENCE_SMALL, salt + i);
        d = node_put(key, at, source + at, FENCE_SMALL);
        d.flags = TT_DESC_INLINE;
        node_post(n, &d);
    }
}

static void fence_role(struct node *n)
{
    const uint64_t rounds = 12, room = FENCE_LARGE + 64 * FENCE_SMALL;
    struct tt_region *mine, *source;
    struct tt_rkey theirs;

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, room);
    source = region(n, NULL, room);
    theirs = node_import(n, !n->rank, 0);
    for (uint64_t round = 1; round <= rounds; round++) {
        struct tt_prng p;
        uint64_t bytes, few;

        tt_prng_init(&p, n->setting->seed + round);
        bytes = tt_prng_below(&p, FENCE_LARGE);
        few = tt_prng_below(&p, 64);
        if (n->rank == 0) {
            fence_put_all(n, &theirs, source->mem, bytes, few, round);
            node_fence(n, 1);
            node_post_signal(n, 1, 0, TT_SIGNAL_SET, round);
        } else {
            UNTIL(n, node_word(n, 0, 0) == round);
            CHECK(n, pattern_differs(mine->mem, bytes, round) == bytes);
            for (uint64_t i = 0; i < few; i++) {
                const uint8_t *at = (uint8_t *)mine->mem + FENCE_LARGE + i * FENCE_SMALL;

                CHECK(n, pattern_differs(at, FENCE_SMALL, round + i) == FENCE_SMALL);
            }
        }
        node_barrier(n);    /* all of the round has landed, so its source is free */
    }
}

static void fenced_signal_follows_earlier_puts(void **state)
{
    nodes_run(*state, 2, fence_role);
}

/* Each of many bulk puts sets the same word after a fence: the word never decreases. */
static void grow_role(struct node *n)
{
    const uint64_t bytes = 64 * KIB, count = 400;
    struct tt_region *mine;
    struct tt_rkey theirs;
    uint64_t seen = 0;

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, bytes);
    theirs = node_import(n, !n->rank, 0);
    for (uint64_t i = 1; i <= count && n->rank == 0; i++) {
        struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_SET, i);

        d.flags = i % 5 ? 0 : TT_DESC_INLINE;
        d.local = mine->mem;
        d.bytes = i % 5 ? tt_prng_below(&n->prng, bytes) : 8;
        d.key = &theirs;
        node_fence(n, 1);
        node_post(n, &d);
    }
    while (n->rank == 1 && seen < count) {
        const uint64_t now = node_word(n, 0, 0);

        CHECK(n, now >= seen);
        seen = now;
        UNTIL(n, seen == count || node_word(n, 0, 0) != seen);
    }
    node_barrier(n);
}

static void fenced_signals_keep_their_order(void **state)
{
    nodes_run(*state, 2, grow_role);
}

/* Rank 1 is stopped with a full channel; a fence to it must not delay rank 2's signal. */
static void apart_role(struct node *n)
{
    const uint64_t bytes = MIB;
    struct tt_region *mine;
    struct tt_rkey stopped, running;
    struct tt_desc d;
    uint64_t posted = 0;

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, bytes);
    if (n->rank == 1) {
        raise(SIGSTOP);
        UNTIL(n, node_word(n, 0, 0) == 1);
    } else if (n->rank == 2) {
        UNTIL(n, node_word(n, 0, 0) == 1);
        CHECK(n, n->board->flag[0] == 0);
        n->board->flag[1] = 1;
    } else {
        stopped = node_import(n, 1, 0);
        running = node_import(n, 2, 0);
        UNTIL(n, process_state(n->board->pid[1]) == 'T');
        d = node_put(&stopped, 0, mine->mem, bytes);
        while (posted < 64 && n->ops->post(n->w, &d, 1) == 1)
            posted++;
        d = node_put(&running, 0, mine->mem, bytes);
        node_post(n, &d);
        node_fence(n, 1);
        node_fence(n, 2);
        node_post_signal(n, 2, 0, TT_SIGNAL_SET, 1);
        node_post_signal(n, 1, 0, TT_SIGNAL_SET, 1);
        UNTIL(n, n->board->flag[1]);
        n->board->flag[0] = 1;
        kill(n->board->pid[1], SIGCONT);
    }
    node_barrier(n);
}

static void fences_of_peers_are_independent(void **state)
{
    nodes_run(*state, 3, apart_role);
}

/* ---- back-pressure ---- */

static uint64_t memory_kib(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %lu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

/* Maximum of freed memory that ASan keeps (TLS allocates with each write). */
#ifdef __SANITIZE_ADDRESS__
#define KEPT_KIB (256 * KIB)
#else
#define KEPT_KIB 0
#endif

/* Rank 1 does not poll. Rank 0 posts until it is refused, for bulk and then for inline puts; its
 * memory stays bounded. Accepted puts arrive when rank 1 polls, and then posting continues. */
static void pressure_role(struct node *n)
{
    const uint64_t bytes = 256 * KIB;
    struct tt_region *mine;
    struct tt_rkey theirs;
    uint64_t taken = 0, before;

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, bytes);
    memset(mine->mem, 1, bytes);
    if (n->rank == 1) {
        node_barrier_idle(n);
        UNTIL(n, node_word(n, 0, 0) == n->board->flag[0]);
        node_barrier(n);
        UNTIL(n, node_word(n, 0, 0) == n->board->flag[0] + 100);
        node_barrier(n);
        return;
    }
    theirs = node_import(n, 1, 0);
    before = memory_kib();
    for (int kind = 0; kind < 2; kind++)
        for (int refused = 0; refused < 1000 && taken < 100000;) {
            struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_ADD, 1);

            d.local = mine->mem;
            d.bytes = kind == 0 ? bytes : 100;
            d.flags = kind == 0 ? 0 : TT_DESC_INLINE;
            d.key = &theirs;
            if (kind == 0 && taken >= 2000)
                break;      /* a transport may accept any number of bulk puts that need no space */
            if (n->ops->post(n->w, &d, 1) == 1) {
                taken++;
                n->local[0] = 0;
            } else {
                refused++;
            }
            node_poll(n);
        }
    CHECK(n, memory_kib() < before + 32 * KIB + KEPT_KIB);
    n->board->flag[0] = (uint32_t)taken;
    node_barrier_idle(n);
    node_barrier(n);
    for (int i = 0; i < 100; i++)
        node_post_signal(n, 1, 0, TT_SIGNAL_ADD, 1);
    node_barrier(n);
}

static void non_polling_receiver_bounds_memory(void **state)
{
    nodes_run(*state, 2, pressure_role);
}

/* Bulk puts are queued to a receiver that does not poll: large ones up to the limit of bytes, then
 * small ones up to the limit of their number. Control messages still have space. */
static void control_role(struct node *n)
{
    struct tt_region *mine;
    struct tt_rkey theirs;

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, MIB);
    if (n->rank == 0) {
        theirs = node_import(n, 1, 0);
        for (uint64_t bytes = MIB; bytes > 1; bytes /= 1024)
            for (int i = 0, refused = 0; i < 2000 && refused < 100; i++) {
                const struct tt_desc d = node_put(&theirs, 0, mine->mem, bytes);

                refused += n->ops->post(n->w, &d, 1) == 0;
                node_poll(n);
            }
        for (int i = 0; i < 32; i++) {
            const struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_ADD, 1);

            CHECK(n, n->ops->post(n->w, &d, 1) == 1);
        }
    }
    node_barrier_idle(n);
    UNTIL(n, n->rank == 0 || node_word(n, 0, 0) == 32);
    node_barrier(n);
}

static void control_has_space_beside_full_bulk(void **state)
{
    nodes_run(*state, 2, control_role);
}

/* ---- completion ---- */

/* Every descriptor is reported exactly as often as requested, and its remote completion after its
 * data has arrived. */
static void remote_role(struct node *n)
{
    enum { COUNT = 600 };
    struct tt_region *mine;
    struct tt_rkey theirs;

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, COUNT * KIB);
    theirs = node_import(n, !n->rank, 0);
    if (n->rank == 0) {
        memset(mine->mem, 9, mine->bytes);
        for (uint32_t i = 0; i < COUNT; i++) {
            struct tt_desc d = node_put(&theirs, i * KIB, (uint8_t *)mine->mem + i * KIB, KIB);

            d.flags = (uint8_t)((i % 2 ? TT_DESC_INLINE : 0) | (i % 3 ? TT_DESC_REMOTE : 0));
            d.cookie = i;
            node_post(n, &d);
        }
        UNTIL(n, n->nremote == COUNT - COUNT / 3);
        n->board->flag[0] = 1;
        UNTIL(n, tt_put_is_instant(n->w, &theirs) || n->nlocal == COUNT / 2);
        for (uint32_t i = 0; i < COUNT; i++) {
            CHECK(n, n->remote[i] == (i % 3 ? 1 : 0));
            CHECK(n, n->local[i] == (i % 2 || tt_put_is_instant(n->w, &theirs) ? 0 : 1));
        }
    } else {
        UNTIL(n, n->board->flag[0]);
        for (uint32_t i = 0; i < COUNT; i++)
            for (uint64_t k = 0; k < KIB && i % 3; k++)
                CHECK(n, ((uint8_t *)mine->mem)[i * KIB + k] == 9);
    }
    node_barrier(n);
}

static void remote_completion_means_landed(void **state)
{
    nodes_run(*state, 2, remote_role);
}

/* Gets read, atomics fetch and add; both report local completion when the result is available. */
static void get_role(struct node *n)
{
    const uint64_t bytes = MIB + 13;
    struct tt_region *mine;
    struct tt_rkey zero = { 0 };

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, bytes + 64);
    if (n->rank == 0)
        pattern_fill((uint8_t *)mine->mem + 64, bytes, 5);
    node_barrier(n);
    if (n->rank > 0)
        zero = node_import(n, 0, 0);
    if (n->rank > 0 && has(n, TT_WIRE_CAP_GET)) {
        for (uint32_t i = 0; i < 50; i++) {
            struct tt_desc d = { .kind = TT_DESC_GET,
                                 .local = (uint8_t *)mine->mem + 64,
                                 .bytes = bytes,
                                 .key = &zero,
                                 .offset = 64,
                                 .cookie = i };

            memset(d.local, 0, bytes);
            node_post(n, &d);
            UNTIL(n, n->local[i] == 1);
            CHECK(n, pattern_differs(d.local, bytes, 5) == bytes);
        }
    }
    if (n->rank > 0 && has(n, TT_WIRE_CAP_ATOMIC)) {
        uint64_t *old = (uint64_t *)mine->mem + 1, last = 0;

        for (uint32_t i = 100; i < 600; i++) {
            struct tt_desc d = {
                .kind = TT_DESC_ATOMIC, .local = old, .key = &zero, .operand = 2, .cookie = i
            };

            node_post(n, &d);
            if (i % 10)
                continue;
            UNTIL(n, n->local[i] == 1);
            CHECK(n, *old % 2 == 0 && (last == 0 || *old > last));
            last = *old;
        }
        UNTIL(n, n->local[599] == 1);
    }
    node_barrier(n);
    CHECK(n, n->rank > 0 || !has(n, TT_WIRE_CAP_ATOMIC) ||
                 *(uint64_t *)mine->mem == (n->nranks - 1) * 1000);
    node_barrier(n);
}

static void gets_and_atomics_return_remote_values(void **state)
{
    nodes_run(*state, 3, get_role);
}

/* A get after a fence reads the data of earlier puts, on any number of lanes. */
static void get_behind_role(struct node *n)
{
    const uint64_t rounds = 20;
    struct tt_region *source, *back;
    struct tt_rkey theirs;
    uint32_t cookie = 0;

    node_open(n);
    node_connect_all(n);
    region_shared(n, FENCE_LARGE);
    source = region(n, NULL, FENCE_LARGE);
    back = region(n, NULL, FENCE_LARGE);
    theirs = node_import(n, !n->rank, 0);
    for (uint64_t round = 1; has(n, TT_WIRE_CAP_GET) && n->rank == 0 && round <= rounds; round++) {
        const uint64_t bytes = 1 + tt_prng_below(&n->prng, round % 2 ? FENCE_LARGE : 100000);
        struct tt_desc d = {
            .kind = TT_DESC_GET,
            .local = back->mem,
            .bytes = bytes,
            .key = &theirs,
            .cookie = 1000 + cookie,
        };

        fence_put_all(n, &theirs, source->mem, bytes, 0, round);
        node_fence(n, 1);
        node_post(n, &d);
        UNTIL(n, n->local[1000 + cookie] == 1);
        CHECK(n, pattern_differs(back->mem, bytes, round) == bytes);
        cookie++;
        node_fence(n, 1);
        d = node_put(&theirs, 0, source->mem, 0);   /* all of the round has landed, so its source
                                                       is free */
        d.flags = TT_DESC_REMOTE | TT_DESC_INLINE;
        d.cookie = 2000 + cookie;
        node_post(n, &d);
        UNTIL(n, n->remote[2000 + cookie] == 1);
    }
    node_barrier(n);
}

static void fenced_get_sees_earlier_puts(void **state)
{
    nodes_run(*state, 2, get_behind_role);
}

/* ---- registration ---- */

/* A put that arrives after dereg is dropped, and the link stays up. */
static void late_role(struct node *n)
{
    const uint64_t bytes = 100 * KIB;
    uint8_t *mem = malloc(bytes), *source = malloc(bytes);
    struct tt_region *r, *from;
    struct tt_rkey key;
    bool any;

    CHECK(n, mem && source);
    node_open(n);
    node_connect_all(n);
    any = has(n, TT_WIRE_CAP_ANYMEM);
    r = region(n, any ? mem : NULL, bytes);
    from = region(n, any ? source : NULL, bytes);
    memset(from->mem, 1, bytes);
    node_share(n, 0, r);
    node_barrier(n);
    key = node_import(n, !n->rank, 0);
    node_barrier(n);
    if (n->rank == 1) {
        n->ops->dereg(r);
        pattern_fill(mem, bytes, 3);
        node_barrier(n);
        UNTIL(n, node_word(n, 0, 1) == 1);
        CHECK(n, pattern_differs(mem, bytes, 3) == bytes);
        CHECK(n, !any || node_word(n, 0, 0) == 0);  /* its bytes were dropped, and therefore its
                                                       signal, too */
    } else {
        struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_ADD, 1);

        node_barrier(n);
        d.key = &key;
        d.local = from->mem;
        for (uint32_t i = 0; i < 20; i++) {
            d.bytes = i % 2 ? 100 : bytes;
            d.flags = i % 2 ? TT_DESC_INLINE : 0;
            node_post(n, &d);
        }
        node_fence(n, 1);
        node_post_signal(n, 1, 1, TT_SIGNAL_SET, 1);
        UNTIL(n, tt_put_is_instant(n->w, &key) || n->nlocal == 10);
    }
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
    free(mem);      /* may still be registered: close does not access user memory */
    node_close(n);
    free(source);
}

static void put_after_dereg_is_dropped(void **state)
{
    nodes_run(*state, 2, late_role);
}

/* Dereg during an arriving put: after its return no byte changes. */
static void midway_role(struct node *n)
{
    const uint64_t bytes = 32 * MIB;
    uint8_t *mem = malloc(bytes), *copy = malloc(bytes);
    struct tt_region *r;
    struct tt_rkey key;

    CHECK(n, mem && copy);
    memset(mem, 1 + (int)n->rank, bytes);
    node_open(n);
    node_connect_all(n);
    if (!has(n, TT_WIRE_CAP_ANYMEM)) {
        node_barrier(n);
        goto out;
    }
    r = region(n, mem, bytes);
    node_share(n, 0, r);
    node_barrier(n);
    key = node_import(n, !n->rank, 0);
    if (n->rank == 0) {
        struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_SET, 1);

        d.flags = 0;
        d.local = mem;
        d.bytes = bytes;
        d.key = &key;
        node_post(n, &d);
        node_fence(n, 1);
        node_post_signal(n, 1, 1, TT_SIGNAL_SET, 1);
        UNTIL(n, n->nlocal == 1);
    } else {
        UNTIL(n, *(volatile uint8_t *)mem == 1);
        n->ops->dereg(r);
        memcpy(copy, mem, bytes);
        if (node_word(n, 0, 0) == 0) {      /* otherwise it had landed completely */
            UNTIL(n, node_word(n, 0, 1) == 1);
            CHECK(n, node_word(n, 0, 0) == 0);
        }
        CHECK(n, memcmp(copy, mem, bytes) == 0);
    }
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
out:
    node_close(n);
    free(mem);
    free(copy);
}

static void dereg_ends_an_arriving_put(void **state)
{
    nodes_run(*state, 2, midway_role);
}

/* Dereg of a source with queued puts: its memory is not read afterwards, and the link stays
 * consistent. */
static void source_role(struct node *n)
{
    const uint64_t bytes = 8 * MIB;
    struct tt_region *mine, *from;
    struct tt_rkey key;
    uint64_t taken = 0;
    uint8_t *mem = malloc(bytes);

    CHECK(n, mem);
    pattern_fill(mem, bytes, 4);
    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, bytes);
    key = node_import(n, !n->rank, 0);
    if (n->rank == 0 && has(n, TT_WIRE_CAP_ANYMEM)) {
        from = region(n, mem, bytes);
        for (; taken < 200; taken++) {
            struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_ADD, 1);

            d.flags = TT_DESC_REMOTE;
            d.local = mem;
            d.bytes = bytes;
            d.key = &key;
            d.cookie = taken;
            if (n->ops->post(n->w, &d, 1) == 0)
                break;
        }
        CHECK(n, taken > 0 && taken < 200);
        n->ops->dereg(from);
        memset(mem, 0xee, bytes);
    }
    node_barrier_idle(n);
    if (n->rank == 0) {
        node_fence(n, 1);
        node_post_signal(n, 1, 1, TT_SIGNAL_SET, 1);
        UNTIL(n, n->nremote == taken && (n->nlocal == taken || tt_put_is_instant(n->w, &key)));
    } else {
        UNTIL(n, node_word(n, 0, 1) == 1);
        /* Signalled data was sent before or copied at dereg; nothing was sent from the memory after
         * it. */
        CHECK(n, node_word(n, 0, 0) == 0 || memcmp(mine->mem, mem, bytes) == 0);
        for (uint64_t i = 0; i < bytes; i++)
            CHECK(n, ((uint8_t *)mine->mem)[i] == 0 || ((uint8_t *)mine->mem)[i] == mem[i]);
    }
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
    node_close(n);
    free(mem);
}

static void source_dereg_keeps_link_consistent(void **state)
{
    nodes_run(*state, 2, source_role);
}

/* A source that is registered twice, then once: data in flight from it arrives completely. */
static void twice_role(struct node *n)
{
    const uint64_t bytes = 8 * MIB, puts = 4;
    struct tt_region *mine, *from[2];
    struct tt_rkey key;
    uint8_t *mem = malloc(bytes);

    CHECK(n, mem);
    node_open(n);
    node_connect_all(n);
    mine = region(n, has(n, TT_WIRE_CAP_ANYMEM) ? node_memory(n, bytes) : NULL, bytes);
    node_share(n, 0, mine);
    node_barrier(n);
    key = node_import(n, !n->rank, 0);
    for (uint32_t round = 0; round < 4 && has(n, TT_WIRE_CAP_ANYMEM); round++) {
        pattern_fill(mem, bytes, 4 + round);
        if (n->rank == 0) {
            for (uint32_t i = 0; i < 2; i++)
                from[i] = region(n, mem, bytes);
            for (uint64_t i = 0; i < puts; i++) {
                struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_ADD, 1);

                d.flags = 0;
                d.local = mem;
                d.bytes = bytes;
                d.key = &key;
                node_post(n, &d);
            }
            n->ops->dereg(from[round % 2]);
            node_fence(n, 1);
            node_post_signal(n, 1, 1, TT_SIGNAL_SET, round + 1);
            node_barrier(n);
            n->ops->dereg(from[!(round % 2)]);
        } else {
            UNTIL(n, node_word(n, 0, 1) == round + 1);
            CHECK(n,
                  node_word(n, 0, 0) == (round + 1) * puts && memcmp(mine->mem, mem, bytes) == 0);
            node_barrier(n);
        }
        CHECK(n, n->losses[!n->rank] == 0);
    }
    node_barrier(n);
    node_close(n);
    free(mem);
}

static void second_registration_keeps_the_source(void **state)
{
    nodes_run(*state, 2, twice_role);
}

/* A read-only source works like any other. */
static void constant_role(struct node *n)
{
    const uint64_t bytes = MIB;
    struct tt_region *mine;
    struct tt_rkey key;
    uint8_t *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(n, mem != MAP_FAILED);
    pattern_fill(mem, bytes, 7);
    CHECK(n, mprotect(mem, bytes, PROT_READ) == 0);
    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, bytes);
    key = node_import(n, !n->rank, 0);
    if (n->rank == 0 && has(n, TT_WIRE_CAP_ANYMEM)) {
        struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_SET, 1);

        region(n, mem, bytes);
        d.flags = 0;
        d.local = mem;
        d.bytes = bytes;
        d.key = &key;
        node_post(n, &d);
    } else if (has(n, TT_WIRE_CAP_ANYMEM)) {
        UNTIL(n, node_word(n, 0, 0) == 1);
        CHECK(n, pattern_differs(mine->mem, bytes, 7) == bytes);
    }
    node_barrier(n);
    node_close(n);
    munmap(mem, bytes);
}

static void source_may_be_read_only(void **state)
{
    nodes_run(*state, 2, constant_role);
}

/* Puts from and to memory that was unmapped and mapped again at the same address after an earlier
 * registration: the new contents are transferred. Half of the regions are released without
 * notifying peers. */
static void remapped_role(struct node *n)
{
    const uint64_t bytes = 256 * KIB;
    uint8_t *mem = NULL;

    node_open(n);
    node_connect_all(n);
    for (uint32_t round = 1; round <= 8 && has(n, TT_WIRE_CAP_ANYMEM); round++) {
        struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_SET, round);
        struct tt_region *r;

        if (mem)
            CHECK(n, munmap(mem, bytes) == 0);
        mem = mmap(mem, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(n, mem != MAP_FAILED);
        if (n->rank == 0) {
            struct tt_rkey key;

            pattern_fill(mem, bytes, round);
            CHECK(n, tt_wire_source(n->w, mem, bytes, &r) == TUTTI_OK);
            node_barrier(n);
            key = node_import(n, 1, 0);
            d.flags = 0;
            d.local = mem;
            d.bytes = bytes;
            d.key = &key;
            d.cookie = round;
            node_post(n, &d);
            UNTIL(n, n->local[round] || tt_put_is_instant(n->w, &key));
        } else {
            r = region(n, mem, bytes);
            node_share(n, 0, r);
            node_barrier(n);
            UNTIL(n, node_word(n, 0, 0) == round);
            CHECK(n, pattern_differs(mem, bytes, round) == bytes);
            r->settled = round % 2;
        }
        n->ops->dereg(r);
        CHECK(n, n->losses[!n->rank] == 0);
        node_barrier(n);
    }
    node_barrier(n);
    node_close(n);
}

static void remapped_memory_is_registered_again(void **state)
{
    nodes_run(*state, 2, remapped_role);
}

/* Keys that do not belong to the transport. */
static void key_role(struct node *n)
{
    struct tt_region *r;

    node_open(n);
    r = region(n, NULL, 4096);
    for (uint32_t i = 0; i < 500; i++) {
        struct tt_blob b = r->key;
        struct tt_rkey out = { .peer = 77 };

        switch (i % 3) {
        case 0:
            b.bytes = (uint16_t)(i % (b.bytes + 1u));     /* truncated */
            if (b.bytes == r->key.bytes)
                b.bytes = 0;
            break;
        case 1:
            b.bytes = (uint16_t)tt_prng_below(&n->prng, TT_BLOB_BYTES + 1);
            for (uint32_t k = 0; k < b.bytes; k++)
                b.data[k] = (uint8_t)tt_prng_u64(&n->prng);
            break;
        default:
            b.bytes = 60000;
            break;
        }
        if (n->ops->import(n->w, !n->rank, &b, &out) == TUTTI_OK)
            CHECK(n, i % 3 == 1);   /* random data may be a valid key: some transports check one
                                       byte and the length */
        else
            CHECK(n, out.peer == 77);
    }
    n->ops->dereg(r);
    node_barrier(n);
}

static void invalid_key_is_refused(void **state)
{
    nodes_run(*state, 2, key_role);
}

/* ---- connections and death ---- */

static void both_role(struct node *n)
{
    /* Opening endpoints, with megabytes of buffers each, or devices, takes a second in an emulated
     * machine. */
    const bool slow = strcmp(n->ops->name, "ofi") == 0 || strcmp(n->ops->name, "verbs") == 0;
    const uint32_t rounds = !slow ? 50 : UNIT_SHARE > 1 ? 3 : 10;

    for (uint32_t round = 1; round <= rounds; round++) {
        node_open(n);
        for (uint32_t peer = 0; peer < n->nranks; peer++) {
            if (peer == n->rank)
                continue;
            for (uint64_t polls = tt_prng_below(&n->prng, 100); polls > 0; polls--)
                node_poll(n);   /* so that the two attempts overlap at every stage */
            node_connect(n, peer);
        }
        for (uint32_t peer = 0; peer < n->nranks; peer++)
            if (peer != n->rank) {
                UNTIL(n, n->ups[peer]);
                node_connect(n, peer);      /* no effect */
                node_post_signal(n, peer, 2, TT_SIGNAL_SET, round);
            }
        for (uint32_t peer = 0; peer < n->nranks; peer++)
            if (peer != n->rank)
                UNTIL(n, node_word(n, peer, 2) == round);
        node_barrier(n);
        for (uint32_t peer = 0; peer < n->nranks; peer++)
            CHECK(n, n->ups[peer] == (peer != n->rank) && n->losses[peer] == 0);
        node_barrier(n);
        node_close(n);
        node_barrier(n);
    }
}

static void crossing_connections_give_one_link(void **state)
{
    nodes_run(*state, 3, both_role);
}

/* Returns the memory for peers that the transport reports. */
static uint64_t peers_bytes(const struct node *n)
{
    tutti_memory m = { .size = sizeof m };
    uint64_t bytes = 0;

    n->ops->memory(n->w, &m);
    for (uint32_t i = 0; i < m.nparts; i++)
        bytes += m.parts[i].peer_bytes;
    return bytes;
}

/* Rank 0 connects to one rank, then to another: each connection needs at least a link region, and
 * about the same amount of memory; tables may grow. */
static void memory_role(struct node *n)
{
    uint64_t bytes[3] = { 0 };

    node_open(n);
    bytes[0] = peers_bytes(n);
    for (uint32_t peer = 1; peer < n->nranks && n->rank == 0; peer++) {
        node_connect(n, peer);
        UNTIL(n, n->ups[peer]);
        bytes[peer] = peers_bytes(n);
        CHECK(n, bytes[peer] >= bytes[peer - 1] + NODE_LINK_BYTES);
    }
    CHECK(n, bytes[2] - bytes[1] <= 2 * (bytes[1] - bytes[0]));
    node_barrier(n);
}

static void memory_of_links_is_counted(void **state)
{
    nodes_run(*state, 3, memory_role);
}

/* Sums of the counters of the lanes to a peer. */
struct lane_sums {
    uint32_t peer, nup, nposted;
    struct tt_wire_lane all;
};

static void sum_lane(void *arg, const struct tt_wire_lane *l)
{
    struct lane_sums *s = arg;

    if (l->peer != s->peer)
        return;
    s->nup += l->is_up;
    s->nposted += l->posted;
    s->all.posts += l->posts;
    s->all.completions += l->completions;
    s->all.posted_bytes += l->posted_bytes;
    s->all.completed_bytes += l->completed_bytes;
    s->all.outstanding += l->outstanding;
    s->all.outstanding_bytes += l->outstanding_bytes;
    s->all.last_post_ns |= l->last_post_ns;
}

/* next: as tt_wire_ops.lanes. */
static struct lane_sums lanes_to(const struct node *n, uint32_t peer, bool next)
{
    struct lane_sums s = { .peer = peer };

    n->ops->lanes(n->w, next, sum_lane, &s);
    return s;
}

/* Rank 0 puts to rank 1: the lanes count the puts and their bytes, and nothing is outstanding in
 * the end. Lanes to rank 2 count nothing. */
static void lanes_role(struct node *n)
{
    enum { COUNT = 20 };
    const uint64_t bytes = 100 * KIB;
    struct tt_region *mine;
    struct tt_rkey theirs;

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, COUNT * bytes);
    if (n->rank == 0 && n->ops->lanes) {      /* optional */
        const struct lane_sums before = lanes_to(n, 1, true), other = lanes_to(n, 2, true);
        struct lane_sums s;

        CHECK(n, before.nup >= 1 && other.nup >= 1);
        theirs = node_import(n, 1, 0);
        for (uint32_t i = 0; i < COUNT; i++) {
            struct tt_desc d = node_put(&theirs, i * bytes, (uint8_t *)mine->mem, bytes);

            d.flags = TT_DESC_REMOTE;
            d.cookie = i;
            node_post(n, &d);
        }
        UNTIL(n, n->nremote == COUNT);
        UNTIL(n, (s = lanes_to(n, 1, true)).all.outstanding == 0 || s.all.last_post_ns);
        CHECK(n, s.all.posts >= before.all.posts + COUNT);
        CHECK(n, s.all.posted_bytes >= before.all.posted_bytes + COUNT * bytes);
        CHECK(n, s.all.outstanding_bytes == 0 || s.all.last_post_ns);
        CHECK(n, s.all.completions == s.all.posts || s.all.last_post_ns);
        node_post_signal(n, 1, 0, TT_SIGNAL_SET, 1);
        for (int i = 0; i < 3; i++) {           /* only the last call ends the interval */
            s = lanes_to(n, 1, i == 2);
            CHECK(n, s.all.last_post_ns || s.nposted >= 1);
        }
        CHECK(n, s.all.last_post_ns || lanes_to(n, 1, false).nposted == 0);
        CHECK(n, lanes_to(n, 2, false).all.posted_bytes < before.all.posted_bytes + bytes);
    }
    node_barrier(n);
}

static void posts_of_lanes_are_counted(void **state)
{
    nodes_run(*state, 3, lanes_role);
}

/* Rank 1 is killed while rank 0 streams to it; rank 0 is notified within a second, once, and
 * continues with rank 2. */
static void death_role(struct node *n)
{
    struct tt_region *mine;
    struct tt_rkey one;
    struct tt_desc d;
    uint64_t posted = 0;

    n->board->dies[1] = 1;
    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, 4 * MIB);
    if (n->rank == 1)
        for (;;)
            node_poll(n);
    if (n->rank == 2) {
        UNTIL(n, n->losses[1] == 1);
        UNTIL(n, node_word(n, 0, 0) == 1);
        n->board->flag[1] = 1;
        UNTIL(n, n->board->flag[2]);
        return;
    }
    one = node_import(n, 1, 0);
    d = node_put(&one, 0, mine->mem, mine->bytes);
    d.flags = TT_DESC_REMOTE;
    for (; posted < 20; posted++) {
        d.cookie = posted;
        node_post(n, &d);
    }
    kill(n->board->pid[1], SIGKILL);
    UNTIL(n, n->losses[1] == 1);    /* a silent host would be detected only after a minute */
    CHECK(n, n->why[1] == TUTTI_ERR_PEER_LOST);
    for (int i = 0; i < 100; i++) {     /* accepted and dropped */
        CHECK(n, n->ops->post(n->w, &d, 1) == 1);
        node_poll(n);
    }
    node_post_signal(n, 2, 0, TT_SIGNAL_SET, 1);
    UNTIL(n, n->board->flag[1]);
    CHECK(n, n->losses[1] == 1 && n->losses[2] == 0);
    n->board->flag[2] = 1;
}

static void death_is_reported_once_and_soon(void **state)
{
    nodes_run(*state, 3, death_role);
}

/* When a rank closes its transport, its peers lose it, and all data that it had sent arrives, even
 * if the rank has not read received data. */
static void close_role(struct node *n)
{
    const uint64_t bytes = 16 * KIB, sent = 50;
    struct tt_region *mine;
    struct tt_rkey theirs;

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, bytes);
    theirs = node_import(n, !n->rank, 0);
    if (n->rank == 1) {
        const struct tt_desc d = node_put(&theirs, 0, mine->mem, bytes);

        node_post(n, &d);
    }
    node_barrier_idle(n);
    if (n->rank == 0) {
        for (uint64_t i = 0; i < sent; i++) {
            struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_ADD, 1);

            d.local = mine->mem;
            d.bytes = bytes;
            d.key = &theirs;
            node_post(n, &d);
        }
        node_barrier_idle(n);
        node_barrier_idle(n);
        node_close(n);
    } else {
        struct tt_region *late;

        node_barrier(n);
        /* shm notifies the peer of the region */
        CHECK(n, n->ops->reg(n->w, NULL, bytes, &late) == TUTTI_OK);
        node_barrier_idle(n);
        UNTIL(n, n->losses[0] == 1);
        CHECK(n, node_word(n, 0, 0) == sent);
        CHECK(n, n->why[0] == TUTTI_OK);
    }
    node_barrier(n);
}

static void close_delivers_all_sent_data(void **state)
{
    nodes_run(*state, 2, close_role);
}

/* ---- sleeping ---- */

/* Sleeps and polls until the word has the value; a missing wake-up fails the test. */
static void sleep_until(struct node *n, uint32_t word, uint64_t value)
{
    while (node_word(n, 0, word) != value) {
        struct pollfd p = { .fd = n->ops->arm(n->w), .events = POLLIN };

        if (p.fd >= 0 && node_word(n, 0, word) != value) {
            const int woken = poll(&p, 1, 60000);

            CHECK(n, woken == 1 || (woken < 0 && errno == EINTR));
        }
        node_poll(n);
    }
}

/* Rank 1 sleeps before each put of rank 0, which for every second put waits until rank 1 is
 * asleep. */
static void wake_role(struct node *n)
{
    struct tt_region *mine;
    struct tt_rkey theirs;

    node_open(n);
    node_connect_all(n);
    mine = region_shared(n, MIB);
    theirs = node_import(n, !n->rank, 0);
    for (uint32_t i = 1; i <= 200; i++) {
        struct tt_desc d = node_signal(n, !n->rank, 0, TT_SIGNAL_SET, i);
        uint64_t word = i;

        if (n->rank == 1) {
            n->board->flag[0] = i;
            sleep_until(n, 0, i);
            continue;
        }
        UNTIL(n, n->board->flag[0] == i);
        if (i % 2)
            UNTIL(n, process_state(n->board->pid[1]) == 'S');
        if (i % 3 == 0) {
            d.flags = 0;
            d.local = mine->mem;
            d.bytes = tt_prng_below(&n->prng, MIB);
            d.key = &theirs;
        }
        if (i % 5 == 0)         /* without a signal: the data is the word itself */
            d = (struct tt_desc){
                .kind = TT_DESC_PUT,
                .flags = TT_DESC_INLINE | TT_DESC_WAKE,
                .local = &word,
                .bytes = sizeof word,
                .key = &n->link[!n->rank].theirs,
            };
        node_post(n, &d);
    }
    node_barrier(n);
}

static void put_wakes_a_sleeping_rank(void **state)
{
    nodes_run(*state, 2, wake_role);
}

/* A rank that only sleeps on its descriptor sees a peer connect, and then die. */
static void doze_role(struct node *n)
{
    n->board->dies[0] = 1;
    node_open(n);
    if (n->rank == 0) {
        node_connect(n, 1);
        UNTIL(n, n->ups[1]);
        UNTIL(n, n->board->flag[0]);
        raise(SIGKILL);
    }
    while (n->losses[0] == 0) {
        struct pollfd p = { .fd = n->ops->arm(n->w), .events = POLLIN };

        CHECK(n, p.fd < 0 || poll(&p, 1, 60000) == 1);
        node_poll(n);
        n->board->flag[0] = n->ups[0];
    }
    CHECK(n, n->ups[0] == 1);
}

static void sleeping_rank_sees_connects_and_deaths(void **state)
{
    nodes_run(*state, 2, doze_role);
}

/* ---- without free descriptors ---- */

/* Returns whether an armed rank would sleep now; polls if not. */
static bool falls_asleep(struct node *n)
{
    struct pollfd p = { .fd = n->ops->arm(n->w), .events = POLLIN };
    const bool asleep = p.fd >= 0 && poll(&p, 1, 0) == 0;

    node_poll(n);
    return asleep;
}

/* Rank 1 connects while rank 0 has no free descriptors: rank 0 is not woken continuously, and
 * accepts the connection when it has a descriptor. */
static void poor_role(struct node *n)
{
    struct rlimit before;

    node_open(n);
    if (n->rank == 1) {
        UNTIL(n, n->board->flag[0]);
        node_connect(n, 0);
        node_barrier(n);
        UNTIL(n, n->ups[0] == 1);
        node_barrier(n);
        return;
    }
    before = unit_descriptors_end();
    n->board->flag[0] = 1;
    for (uint32_t woken = 0; woken < 3; woken++) {      /* first by the connection, then to retry */
        struct pollfd p = { .fd = n->ops->arm(n->w), .events = POLLIN };

        CHECK(n, p.fd >= 0 && poll(&p, 1, 60000) == 1);
        node_poll(n);
        UNTIL(n, falls_asleep(n));
    }
    CHECK(n, n->ups[1] == 0 && n->losses[1] == 0);
    unit_descriptors_again(&before);
    node_barrier(n);
    UNTIL(n, n->ups[1] == 1);
    node_barrier(n);
}

static void pending_connection_waits_without_spinning(void **state)
{
    nodes_run(*state, 2, poor_role);
}

/* ---- all properties over all transports ---- */

static const struct {
    const char *name;
    void (*run)(void **state);
} properties[] = {
#define PROPERTY(f) { #f, f }
    PROPERTY(data_precedes_its_signal),
    PROPERTY(empty_put_still_signals),
    PROPERTY(many_puts_arrive_in_both_directions),
    PROPERTY(inline_sources_are_reusable_at_once),
    PROPERTY(short_puts_leave_space_for_long),
    PROPERTY(fenced_signal_follows_earlier_puts),
    PROPERTY(fenced_signals_keep_their_order),
    PROPERTY(fences_of_peers_are_independent),
    PROPERTY(non_polling_receiver_bounds_memory),
    PROPERTY(control_has_space_beside_full_bulk),
    PROPERTY(remote_completion_means_landed),
    PROPERTY(gets_and_atomics_return_remote_values),
    PROPERTY(fenced_get_sees_earlier_puts),
    PROPERTY(put_after_dereg_is_dropped),
    PROPERTY(dereg_ends_an_arriving_put),
    PROPERTY(source_dereg_keeps_link_consistent),
    PROPERTY(second_registration_keeps_the_source),
    PROPERTY(source_may_be_read_only),
    PROPERTY(remapped_memory_is_registered_again),
    PROPERTY(invalid_key_is_refused),
    PROPERTY(crossing_connections_give_one_link),
    PROPERTY(memory_of_links_is_counted),
    PROPERTY(posts_of_lanes_are_counted),
    PROPERTY(death_is_reported_once_and_soon),
    PROPERTY(close_delivers_all_sent_data),
    PROPERTY(put_wakes_a_sleeping_rank),
    PROPERTY(sleeping_rank_sees_connects_and_deaths),
    PROPERTY(pending_connection_waits_without_spinning),
};
#define NPROPERTIES (sizeof properties / sizeof *properties)

/* Also tested over libfabric providers that are not selected by default. */
static void (*const sample[])(void **state) = {
    data_precedes_its_signal,
    many_puts_arrive_in_both_directions,
    fenced_signal_follows_earlier_puts,
    dereg_ends_an_arriving_put,
    posts_of_lanes_are_counted,
    put_wakes_a_sleeping_rank,
};

static bool is_sampled(void (*property)(void **state))
{
    for (size_t i = 0; i < sizeof sample / sizeof *sample; i++)
        if (sample[i] == property)
            return true;
    return false;
}

#define NSETTINGS_MAX 16

/* Providers for machines without a fabric; not all libfabric builds have them. sockets has its own
 * threads, whose synchronization is only partly visible to TSan. */
static const char *const providers_of_software[] = {
    "tcp;ofi_rxm", "shm", "udp;ofi_rxd", "net",
#ifndef __SANITIZE_THREAD__
    "sockets",
#endif
};
#define NSOFTWARE (sizeof providers_of_software / sizeof *providers_of_software)

#define BROKEN 2        /* exit status for a broken provider */

/* Prints why a transport is skipped. A listed provider that does not work is never skipped. */
static bool leave_out(const struct tt_wire_ops *ops, const char *provider)
{
    printf("%s%s%s is left out: %s\n", ops->name, provider ? " " : "", provider ? provider : "",
           tutti_last_error());
    fflush(stdout);
    if (strstr(tutti_last_error(), "failed its trial"))
        _exit(BROKEN);
    return false;
}

/* Returns whether that provider exists and is not the default. */
static bool is_another(const struct tt_wire_ops *ops, const char *provider)
{
    struct tt_wire_conf conf = { .nranks = 1, .secret = node_secret, .link_bytes = 4096 };
    char named[64];
    struct tt_wire *w;
    bool chosen;

    snprintf(named, sizeof named, " %s on ", provider);
    if (ops->open(&w, &conf) != TUTTI_OK)
        return leave_out(ops, NULL);
    chosen = strstr(w->about, named);
    ops->close(w);
    conf.ofi_provider = provider;
    if (chosen)
        return false;
    if (ops->open(&w, &conf) != TUTTI_OK)
        return leave_out(ops, provider);
    ops->close(w);
    return true;
}

/* A transport that cannot run here reports it, and is skipped with its reason; a requested one must
 * run. */
static bool is_usable(const struct tt_wire_ops *ops, const char *provider)
{
    const struct tt_wire_conf conf = {
        .nranks = 1, .secret = node_secret, .link_bytes = 4096, .ofi_provider = provider
    };
    struct tt_wire *w;
    const tutti_status st = ops->open(&w, &conf);

    if (st == TUTTI_OK) {
        ops->close(w);
        return true;
    }
    leave_out(ops, provider);
    if (st != TUTTI_ERR_UNSUPPORTED || provider)
        _exit(BROKEN);
    return false;
}

/* Calls `what` in a separate process: the transports' threads stay there, and this process can
 * fork. */
static bool ask(bool (*what)(const struct tt_wire_ops *, const char *),
                const struct tt_wire_ops *ops, const char *provider)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const bool yes = what(ops, provider);

        fflush(stdout);
        _exit(!yes);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < BROKEN);
    return WEXITSTATUS(status) == 0;
}

/* Number of ranks that may read another rank's memory here. */
static _Atomic uint32_t *readable;

static void read_role(struct node *n)
{
    node_open(n);
    node_connect_all(n);
    *readable += n->link[!n->rank].anymem;
    node_barrier(n);
}

static bool cma_works(const struct tt_wire_ops *ops)
{
    const struct setting s = { .ops = ops, .lanes = 1, .cma = true };

    readable =
        mmap(NULL, sizeof *readable, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(readable, MAP_FAILED);
    nodes_run(&s, 2, read_role);
    if (*readable < 2)
        printf("%s cma is left out: a process may not read another's memory here\n", ops->name);
    return *readable == 2;
}

/* i: sum of the indices of the setting and of the property. */
static bool is_tried(uint64_t i, const char *only)
{
    if (!only)
        return unit_has_turn(i, 2);
    return !getenv("TUTTI_TEST_HALVES") || (i + unit_turn()) % 2 == 0;
}

/* The tested transports: those of the library, or a single one that is linked with this program. */
#ifdef TUTTI_TEST_WIRE
extern const struct tt_wire_ops TUTTI_TEST_WIRE;
static const struct tt_wire_ops *const tested[] = { &TUTTI_TEST_WIRE };
static const size_t ntested = 1;
#else
#define tested tt_wires
#define ntested tt_nwires
#endif

int main(void)
{
    static struct setting settings[NSETTINGS_MAX];
    static struct CMUnitTest tests[NSETTINGS_MAX * NPROPERTIES];
    static char names[NSETTINGS_MAX * NPROPERTIES][192];
    const char *seed = getenv("TUTTI_TEST_SEED"), *only = getenv("TUTTI_TEST_ONLY");
    const char *of_ofi = getenv("TUTTI_TEST_OFI");
    char providers[256], setting[SETTING_NAME_BYTES];
    size_t nsettings = 0, nalways = 0, n = 0;

    snprintf(providers, sizeof providers, "%s", of_ofi ? of_ofi : "");
    for (size_t i = 0; i < ntested; i++) {
        if (of_ofi && strcmp(tested[i]->name, "ofi") == 0) {
            for (char *p = strtok(providers, " "); p && nsettings + 2 <= NSETTINGS_MAX / 2;
                 p = strtok(NULL, " "))
                for (uint32_t lanes = 1; lanes <= 4 && ask(is_usable, tested[i], p); lanes += 3)
                    settings[nsettings++] =
                        (struct setting){ .ops = tested[i], .lanes = lanes, .provider = p };
            continue;
        }
        if (!ask(is_usable, tested[i], NULL))
            continue;
        settings[nsettings++] = (struct setting){ .ops = tested[i], .lanes = 1 };
        if (strcmp(tested[i]->name, "ofi") == 0)
            for (uint32_t k = 0; k <= NSOFTWARE; k++)   /* other providers, and the default with 4
                                                           lanes; under a sanitizer, in turn */
                if (unit_has_turn(k, NSOFTWARE + 1) &&
                    (k == NSOFTWARE || ask(is_another, tested[i], providers_of_software[k])))
                    settings[nsettings++] = (struct setting){
                        .ops = tested[i],
                        .lanes = k == NSOFTWARE ? 4 : 1,
                        .provider = k == NSOFTWARE ? NULL : providers_of_software[k],
                        .sampled = true,
                    };
        if (strcmp(tested[i]->name, "tcp") == 0)
            for (uint32_t k = 1; k < 4; k++)    /* 3 lanes; TLS over one lane and over 3, under a
                                                   sanitizer in turn */
                if (k == 1 || unit_has_turn(k, 2))
                    settings[nsettings++] = (struct setting){ .ops = tested[i],
                                                              .lanes = k == 2 ? 1 : 3,
                                                              .secure = k > 1 };
        if (strcmp(tested[i]->name, "verbs") == 0)
            settings[nsettings++] = (struct setting){ .ops = tested[i], .lanes = 4 };
        if (strcmp(tested[i]->name, "shm") == 0 && cma_works(tested[i]))
            settings[nsettings++] = (struct setting){ .ops = tested[i], .lanes = 1, .cma = true };
    }
    for (size_t s = 0; s < nsettings; s++) {
        /* the other settings were already selected in turn */
        const bool always = !settings[s].sampled && !settings[s].secure;

        settings[s].seed = seed ? strtoull(seed, NULL, 0) : tt_now_ns();
        nalways += always;
        for (size_t p = 0; p < NPROPERTIES; p++) {
            setting_name(&settings[s], setting);
            snprintf(names[n], sizeof names[n], "%s x%u: %s", setting, settings[s].lanes,
                     properties[p].name);
            if ((only && !strstr(names[n], only)) ||
                (settings[s].sampled && !is_sampled(properties[p].run)))
                continue;
            if (always && !is_tried(nalways + p, only))
                continue;
            tests[n] = (struct CMUnitTest){ .name = names[n],
                                            .test_func = properties[p].run,
                                            .initial_state = &settings[s] };
            n++;
        }
    }
    if (n == 0) {
        fprintf(stderr, "nothing to test\n");
        return 1;
    }
    return _cmocka_run_group_tests("conformance", tests, n, NULL, NULL);
}
