/* Registered memory of a process: it is never stale after any change of the memory; the settings
 * decide what is cached; and threads use it concurrently. The device is a pipe, which pins pages
 * like a NIC's registrations. Each test is a process, because settings are per process. */
#include "support/unit.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "pipe_device.h"

#define PAGE 4096u
#define BYTES (16 * PAGE)
#define THREADS 3
#define TRIES 20
#define DEADLINE_NS (120 * TT_SECOND)

/* In the process of a test: reports the failed condition, and exits. */
#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            _exit(1); \
        } \
    } while (0)

/* Runs role in a process with up to two settings ("NAME=value"; NULL: none). */
static void in_process(void (*role)(void), const char *setting, const char *another)
{
    const pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        mallopt(M_MMAP_THRESHOLD, 64 << 10);
        if (setting)
            putenv((char *)(uintptr_t)setting);
        if (another)
            putenv((char *)(uintptr_t)another);
        role();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static uint8_t *mapped(size_t bytes)
{
    uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(p != MAP_FAILED);
    memset(p, 1, bytes);
    return p;
}

static struct tt_reg *get(struct pipe_device *d, void *mem, size_t bytes, bool expose)
{
    struct tt_reg *r;

    CHECK(tt_registry_get(d->domain, mem, bytes, expose, &r) == TUTTI_OK);
    return r;
}

static void use(struct pipe_device *d, void *mem, size_t bytes)
{
    tt_registry_put(d->domain, get(d, mem, bytes, false), false);
}

static bool watches(void)
{
    struct tt_registry_setting s;

    CHECK(tt_registry_setting(&s) == TUTTI_OK);
    if (!s.watches)
        fprintf(stderr, "memory cannot be watched here: %s\n", s.why_not);
    return s.watches;
}

/* ---- caching ---- */

static void lazy_role(void)
{
    struct pipe_device d = { .readonly = false };
    struct tt_registry_counts c;
    uint8_t *mem = mapped(BYTES);
    struct tt_reg *one, *other;

    CHECK(pipe_device_open(&d));
    for (int i = 0; i < 10; i++)
        use(&d, mem + 10, BYTES - 100);
    use(&d, mem + 3 * PAGE, PAGE);
    one = get(&d, mem, BYTES, true);
    other = get(&d, mem, BYTES, false);
    CHECK(!watches() || one == other);
    tt_registry_put(d.domain, one, true);
    tt_registry_put(d.domain, other, false);
    tt_registry_counts(&c);
    CHECK(d.pins == (watches() ? 1 : 13) && c.misses == d.pins && c.dynamic == d.pins &&
          c.hits == 13 - d.pins);
    CHECK(c.registered_bytes == (watches() ? BYTES : 0) && c.registrations == (watches() ? 1 : 0));
    CHECK(c.registered_bytes_most >= BYTES && c.explicit_bytes == 0);
    pipe_device_close(&d);
    CHECK(d.unpins == d.pins);
}

static void registration_is_found_again(void **state)
{
    (void)state;
    in_process(lazy_role, NULL, NULL);
}

static void none_role(void)
{
    struct pipe_device d = { .readonly = false };
    uint8_t *mem = mapped(BYTES);

    CHECK(pipe_device_open(&d));
    for (unsigned i = 1; i <= 5; i++) {
        use(&d, mem, BYTES);
        CHECK(d.pins == i && d.unpins == i);
    }
    pipe_device_close(&d);
}

static void without_a_cache_nothing_is_kept(void **state)
{
    (void)state;
    in_process(none_role, "TUTTI_REGISTER=none", NULL);
}

static void readonly_role(void)
{
    struct pipe_device d = { .readonly = true };
    uint8_t *mem = mapped(BYTES);

    CHECK(pipe_device_open(&d));
    for (unsigned i = 1; i <= 5; i++) {
        use(&d, mem, BYTES);
        CHECK(d.unpins == i);       /* the registration may become writable, and then be exposed */
    }
    pipe_device_close(&d);
}

static void read_only_memory_is_not_cached(void **state)
{
    (void)state;
    in_process(readonly_role, NULL, NULL);
}

/* Memory mapped from a file may change under its mapping. */
static void file_role(void)
{
    struct pipe_device d = { .readonly = false };
    const int fd = memfd_create("test", 0);
    uint8_t *mem;

    CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
    mem = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mem != MAP_FAILED && pipe_device_open(&d));
    memset(mem, 1, BYTES);
    use(&d, mem, BYTES);
    CHECK(d.pins == 1 && d.unpins == 1);
    CHECK(tt_registry_add(mem, BYTES) == TUTTI_OK);    /* an explicit registration guarantees that
                                                           it does not change */
    use(&d, mem, BYTES);
    use(&d, mem, BYTES);
    CHECK(d.pins == 2 && d.unpins == 1);
    CHECK(tt_registry_remove(mem) && d.unpins == 2);
    pipe_device_close(&d);
}

static void file_memory_needs_explicit_registration(void **state)
{
    (void)state;
    in_process(file_role, NULL, NULL);
}

static void bounds_role(void)
{
    struct pipe_device d = { .readonly = false };
    uint8_t *mem[10];
    struct tt_registry_counts c;

    CHECK(pipe_device_open(&d));
    for (unsigned i = 0; i < 10; i++) {
        mem[i] = mapped(BYTES);
        use(&d, mem[i], BYTES);
        if (i > 0)
            use(&d, mem[0], BYTES);     /* used all the time */
        CHECK(d.pins - d.unpins <= 4);
    }
    tt_registry_counts(&c);
    CHECK(!watches() || (d.pins == 10 && c.evicted == 6 && c.registrations == 4 &&
                         c.registered_bytes == 4 * BYTES));
    pipe_device_close(&d);
    CHECK(d.unpins == d.pins);
}

static void cache_is_bounded_and_lru(void **state)
{
    (void)state;
    in_process(bounds_role, "TUTTI_REGISTER_COUNT=4", NULL);
    in_process(bounds_role, "TUTTI_REGISTER_BYTES=262144", NULL);
}

static void full_role(void)
{
    struct pipe_device d = { .bytes_max = 3 * BYTES };
    uint8_t *mem[6];
    struct tt_reg *held, *r;

    CHECK(pipe_device_open(&d));
    for (int i = 0; i < 6; i++) {
        mem[i] = mapped(BYTES);
        use(&d, mem[i], BYTES);
    }
    held = get(&d, mem[0], BYTES, false);
    CHECK(tt_registry_get(d.domain, mapped(3 * BYTES), 3 * BYTES, false, &r) == TUTTI_ERR_NOMEM);
    CHECK(strstr(tutti_last_error(), "pipe: cannot register 196608 bytes"));
    use(&d, mem[1], BYTES);
    tt_registry_put(d.domain, held, false);
    pipe_device_close(&d);
    CHECK(d.bytes == 0);
}

static void full_device_drops_unused_registrations(void **state)
{
    (void)state;
    in_process(full_role, NULL, NULL);
}

/* Closes the descriptor that watches memory, as closefrom would. */
static bool close_watch(void)
{
    char path[64], what[64] = "";

    for (int fd = 3; fd < 1024; fd++) {
        ssize_t n;

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        n = readlink(path, what, sizeof what - 1);
        if (n > 0 && strncmp(what, "anon_inode:[userfaultfd]", (size_t)n) == 0)
            return close(fd) == 0;
    }
    return false;
}

/* Watched memory changes after the descriptor was closed, which ends the watcher's wait. */
static void closed_role(void)
{
    struct pipe_device d = { .readonly = false };
    const uint64_t until_ns = tt_now_ns() + DEADLINE_NS;
    uint8_t *mem = mapped(BYTES), *other = mapped(BYTES);
    uint32_t pins;

    CHECK(pipe_device_open(&d));
    if (!watches())
        return;
    use(&d, mem, BYTES);
    use(&d, other, BYTES);
    use(&d, other, BYTES);
    CHECK(d.pins == 2);
    CHECK(close_watch());
    munmap(mem, BYTES);
    do {
        pins = d.pins;
        use(&d, other, BYTES);
        usleep(1000);
        CHECK(tt_now_ns() < until_ns);
    } while (d.pins == pins);
    use(&d, other, BYTES);
    CHECK(d.pins == pins + 2);
    pipe_device_close(&d);
}

static void closed_watch_disables_caching(void **state)
{
    (void)state;
    in_process(closed_role, NULL, NULL);
}

struct user {
    struct pipe_device device;
    struct tt_reg *r;
};

static void *put_it(void *arg)
{
    struct user *u = arg;

    tt_registry_put(u->device.domain, u->r, false);
    return NULL;
}

/* Another thread's release of all of the device's capacity is still in progress when the device
 * refuses this thread. */
static void ending_role(void)
{
    struct user u = { .device = { .bytes_max = BYTES, .unpin_after = 2 } };
    uint8_t *mem = mapped(BYTES);
    pthread_t thread;
    struct tt_reg *r;

    CHECK(pipe_device_open(&u.device));
    u.r = get(&u.device, mem, BYTES, false);
    tt_registry_revoke(u.r);
    CHECK(pthread_create(&thread, NULL, put_it, &u) == 0);
    while (u.device.unpinning == 0)
        usleep(1000);
    r = get(&u.device, mem, BYTES, false);
    CHECK(pthread_join(thread, NULL) == 0 && u.device.pins == 3);
    tt_registry_put(u.device.domain, r, false);
    pipe_device_close(&u.device);
}

static void full_device_is_retried_after_releases(void **state)
{
    (void)state;
    in_process(ending_role, NULL, NULL);
}

static void revoke_role(void)
{
    struct pipe_device d = { .readonly = false };
    uint8_t *mem = mapped(BYTES);
    struct tt_reg *exposed, *source, *again;
    unsigned unpins;

    CHECK(pipe_device_open(&d));
    exposed = get(&d, mem, BYTES, true);
    source = get(&d, mem, BYTES, false);
    again = get(&d, mem, BYTES, true);
    CHECK(again != exposed);            /* each user has a separate registration, which can be
                                           revoked alone */
    tt_registry_revoke(exposed);
    if (source == exposed) {
        tt_registry_put(d.domain, source, false);
        source = get(&d, mem, BYTES, false);
        CHECK(source != exposed);
    }
    unpins = d.unpins;
    tt_registry_put(d.domain, exposed, true);
    CHECK(d.unpins == unpins + 1);      /* at once */
    tt_registry_put(d.domain, source, false);
    tt_registry_put(d.domain, again, true);
    pipe_device_close(&d);
    CHECK(d.unpins == d.pins);
}

static void revoked_registration_ends_with_last_user(void **state)
{
    (void)state;
    in_process(revoke_role, NULL, NULL);
}

static void domains_role(void)
{
    struct pipe_device one = { .readonly = false }, other = { .readonly = false };
    uint8_t *mem = mapped(BYTES);

    CHECK(pipe_device_open(&one) && pipe_device_open(&other));
    for (int i = 0; i < 4; i++) {
        use(&one, mem, BYTES);
        use(&other, mem, BYTES);
    }
    CHECK(!watches() || (one.pins == 1 && other.pins == 1));
    pipe_device_close(&one);
    CHECK(one.unpins == one.pins && (!watches() || other.unpins == 0));
    use(&other, mem, BYTES);
    CHECK(!watches() || other.pins == 1);
    munmap(mem, BYTES);
    pipe_device_close(&other);
    CHECK(other.unpins == other.pins);
}

static void each_device_registers_separately(void **state)
{
    (void)state;
    in_process(domains_role, NULL, NULL);
}

/* ---- explicit registrations ---- */

static void wait_for_pins(struct pipe_device *d, unsigned n)
{
    const uint64_t until_ns = tt_now_ns() + DEADLINE_NS;

    while (d->pins < n) {
        CHECK(tt_now_ns() < until_ns);
        usleep(1000);
    }
}

/* The whole memory is registered once, for sources and for one exposing user; a second exposing
 * user gets a separate registration of its part. */
static void explicit_role(void)
{
    const char *mode = getenv("TUTTI_REGISTER");
    const bool eager = strcmp(mode, "eager") == 0, async = strcmp(mode, "async") == 0;
    struct pipe_device d = { .readonly = false };
    uint8_t *mem = mapped(BYTES);
    struct tt_registry_counts c;
    struct tt_reg *one, *other;

    CHECK(pipe_device_open(&d));
    CHECK(tt_registry_add(mem, BYTES) == TUTTI_OK);
    CHECK(async || d.pins == (eager ? 1 : 0));
    if (async)
        wait_for_pins(&d, 1);
    for (uint32_t i = 0; i < 16; i++)
        use(&d, mem + i * PAGE, PAGE);
    CHECK(async || d.pins == 1);        /* async: it may not be ready yet; then a part is
                                           registered separately */
    one = get(&d, mem, PAGE, true);
    other = get(&d, mem + PAGE, PAGE, true);
    CHECK(one != other);
    tt_registry_put(d.domain, one, true);
    tt_registry_put(d.domain, other, true);
    tt_registry_counts(&c);
    CHECK(c.dynamic == 0 && c.explicit_bytes == BYTES && d.unpins == 0);
    CHECK(tt_registry_remove(mem) && !tt_registry_remove(mem));
    CHECK(d.unpins == d.pins);
    tt_registry_counts(&c);
    CHECK(c.registered_bytes == 0 && c.explicit_bytes == 0);
    pipe_device_close(&d);
}

static void explicit_registration_happens_once(void **state)
{
    (void)state;
    in_process(explicit_role, "TUTTI_REGISTER=lazy", NULL);
    in_process(explicit_role, "TUTTI_REGISTER=eager", NULL);
    in_process(explicit_role, "TUTTI_REGISTER=async", NULL);
}

/* Uses of two adjacent registrations, and across both. */
static void adjacent_role(void)
{
    const char *mode = getenv("TUTTI_REGISTER");
    const bool eager = strcmp(mode, "eager") == 0;
    struct pipe_device d = { .readonly = false };
    uint8_t *mem = mapped(BYTES), *second = mem + BYTES / 2;
    struct tt_registry_counts c;
    unsigned pins;
    struct tt_reg *one;

    CHECK(pipe_device_open(&d));
    CHECK(tt_registry_add(mem, BYTES / 2) == TUTTI_OK &&
          tt_registry_add(second, BYTES / 2) == TUTTI_OK);
    use(&d, mem, PAGE);
    use(&d, second, PAGE);
    CHECK(d.pins == 2);
    use(&d, second - PAGE, 2 * PAGE);
    CHECK(d.pins == 3 && d.unpins == 2 && d.bytes == BYTES);    /* one registration of both halves
                                                                   replaces the two */
    for (uint32_t i = 0; i < 16; i++)
        use(&d, mem + i * PAGE, PAGE);
    use(&d, mem, BYTES);
    CHECK(d.pins == 3);
    tt_registry_counts(&c);
    CHECK(c.dynamic == 0 && c.registrations == 1 && c.registered_bytes == BYTES);
    one = get(&d, second, PAGE, true);          /* uses the registration of both halves: the first
                                                   half may be removed */
    CHECK(tt_registry_remove(mem));
    tt_registry_put(d.domain, one, true);
    if (eager)
        wait_for_pins(&d, 4);   /* registers the second half again, in the background */
    pins = d.pins;
    use(&d, second, BYTES / 2);
    CHECK(d.pins <= pins + 1);
    CHECK(tt_registry_remove(second));
    CHECK(d.bytes == 0 && d.pins == d.unpins);
    pipe_device_close(&d);
}

static void adjacent_registrations_are_merged_once(void **state)
{
    (void)state;
    in_process(adjacent_role, "TUTTI_REGISTER=lazy", NULL);
    in_process(adjacent_role, "TUTTI_REGISTER=eager", NULL);
}

static void untold_role(void)
{
    struct pipe_device d = { .readonly = false };
    uint8_t *mem = mapped(BYTES);
    struct tt_reg *one;

    CHECK(tt_registry_add(mem, BYTES) == TUTTI_OK);    /* before there is a device */
    CHECK(tt_registry_user_bytes(mem) == BYTES && tt_registry_user_bytes(mem + PAGE) == 0);
    CHECK(pipe_device_open(&d));
    CHECK(!tt_registry_remove(mem + PAGE));
    one = get(&d, mem + PAGE, PAGE, false);
    CHECK(tt_registry_remove(mem) && !tt_registry_remove(mem));
    CHECK(tt_registry_user_bytes(mem) == 0 && d.unpins == 0);   /* the user keeps its
                                                                   registration */
    tt_registry_put(d.domain, one, false);
    CHECK(d.unpins == d.pins);
    pipe_device_close(&d);
}

static void registration_outlives_its_explicit_end(void **state)
{
    (void)state;
    in_process(untold_role, NULL, NULL);
}

static void explicit_bounds_role(void)
{
    struct pipe_device d = { .bytes_max = 2 * BYTES };
    uint8_t *mem = mapped(BYTES), *more = mapped(2 * BYTES);

    CHECK(pipe_device_open(&d));
    CHECK(tt_registry_add(mem, BYTES) == TUTTI_OK && d.pins == 1);
    for (int i = 0; i < 8; i++) {
        uint8_t *other = mapped(PAGE);

        use(&d, other, PAGE);
        munmap(other, PAGE);
    }
    use(&d, mem, BYTES);
    CHECK(d.pins == 9);
    CHECK(tt_registry_add(more, 2 * BYTES) == TUTTI_ERR_NOMEM && !tt_registry_remove(more));
    use(&d, mem, BYTES);
    pipe_device_close(&d);
}

static void explicit_registrations_exceed_cache_bounds(void **state)
{
    (void)state;
    in_process(explicit_bounds_role, "TUTTI_REGISTER=eager", "TUTTI_REGISTER_COUNT=1");
}

static void unmapped_role(void)
{
    struct pipe_device d = { .readonly = false };
    uint8_t *mem = mapped(BYTES);

    CHECK(pipe_device_open(&d));
    CHECK(tt_registry_add(mem, BYTES) == TUTTI_OK);
    use(&d, mem, BYTES);
    munmap(mem, BYTES);
    if (watches()) {        /* the explicit registration ended with its memory */
        use(&d, mapped(PAGE), PAGE);
        CHECK(!tt_registry_remove(mem));
    }
    pipe_device_close(&d);
}

static void unmapping_ends_explicit_registration(void **state)
{
    (void)state;
    in_process(unmapped_role, NULL, NULL);
}

static void dynamic_role(void)
{
    struct pipe_device d = { .readonly = false };
    uint8_t *mem = mapped(BYTES);

    CHECK(pipe_device_open(&d));
    CHECK(tt_registry_add(mem, BYTES / 2) == TUTTI_OK);
    CHECK(tt_registry_check_use(mem, BYTES / 2) == TUTTI_OK);
    CHECK(tt_registry_check_use(mem, BYTES) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "65536 bytes") &&
          strstr(tutti_last_error(), "TUTTI_REGISTER_DYNAMIC"));
    /* register the next page too: a use may span both registrations */
    CHECK(tt_registry_add(mem + BYTES / 2, PAGE) == TUTTI_OK);
    CHECK(tt_registry_check_use(mem, BYTES / 2 + PAGE) == TUTTI_OK);
    CHECK(tt_registry_check_use(mem + BYTES / 2 - 1, 2) == TUTTI_OK);
    CHECK(tt_registry_check_use(mem, BYTES / 2 + PAGE + 1) == TUTTI_ERR_INVALID);
    CHECK(tt_registry_add(mem + BYTES / 2 + 2 * PAGE, PAGE) == TUTTI_OK);
    /* a page between them is not registered */
    CHECK(tt_registry_check_use(mem, BYTES / 2 + 3 * PAGE) == TUTTI_ERR_INVALID);
    CHECK(tt_registry_remove(mem + BYTES / 2) && tt_registry_remove(mem + BYTES / 2 + 2 * PAGE));
    tt_registry_remove(mem);
    CHECK(tt_registry_check_use(mem, BYTES / 2) == TUTTI_ERR_INVALID);
    pipe_device_close(&d);
}

static void implicit_registration_can_be_an_error(void **state)
{
    (void)state;
    in_process(dynamic_role, "TUTTI_REGISTER_DYNAMIC=0", NULL);
}

static unsigned open_descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Device memory is registered with a dma-buf descriptor, which the device receives with the offset
 * of a part; and by address. */
static void device_memory_role(void)
{
    struct pipe_device d = { .readonly = false };
    const int fd = memfd_create("dma-buf", 0);
    const struct tt_device_memory by_dmabuf = {
        .kind = TUTTI_MEM_CUDA, .device = 3, .dmabuf = fd, .dmabuf_offset = 7 * PAGE
    };
    const struct tt_device_memory by_address = { .dmabuf = -1 }, by_nothing = { .dmabuf = 250 };
    uint8_t *mem = mapped(3 * BYTES), *device = mem + BYTES;
    struct tt_reg *whole, *part;
    unsigned before;

    CHECK(fd >= 0 && pipe_device_open(&d));
    before = open_descriptors();
    CHECK(!tt_registry_is_device(device, BYTES));
    CHECK(tt_registry_add_device(device, BYTES, &by_dmabuf) == TUTTI_OK);
    CHECK(d.device_pins == 1 && d.pins == 1);       /* at once, and as a whole */
    CHECK(d.device.kind == TUTTI_MEM_CUDA && d.device.device == 3 &&
          d.device.dmabuf_offset == 7 * PAGE);
    CHECK(d.device.dmabuf >= 0 && d.device.dmabuf != fd);
    CHECK(tt_registry_is_device(device, 1) && tt_registry_is_device(device - 1, 2) &&
          tt_registry_is_device(mem, 3 * BYTES));
    CHECK(!tt_registry_is_device(mem, BYTES) && !tt_registry_is_device(device + BYTES, BYTES) &&
          !tt_registry_is_device(device, 0));
    whole = get(&d, device, BYTES, true);
    CHECK(d.pins == 1);
    part = get(&d, device + 2 * PAGE, PAGE, true);  /* no other user exposes it */
    CHECK(d.device_pins == 2 && d.device.dmabuf_offset == 9 * PAGE);
    tt_registry_put(d.domain, part, true);
    tt_registry_put(d.domain, whole, true);
    CHECK(tt_registry_remove(device) && d.unpins == d.pins &&
          !tt_registry_is_device(device, BYTES));
    CHECK(tt_registry_add_device(device, BYTES, &by_address) == TUTTI_OK && d.device.dmabuf == -1);
    CHECK(tt_registry_remove(device));
    CHECK(open_descriptors() <= before + 2);        /* both copies of the descriptor are closed; a
                                                       pipe may still be open */
    CHECK(tt_registry_add_device(device, BYTES, &by_nothing) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "invalid dma-buf descriptor: 250"));
    d.hosts_only = true;
    CHECK(tt_registry_add_device(device, BYTES, &by_dmabuf) == TUTTI_ERR_UNSUPPORTED);
    CHECK(strstr(tutti_last_error(), "65536 bytes of device memory") &&
          strstr(tutti_last_error(), "by its dma-buf"));
    CHECK(!tt_registry_is_device(device, BYTES) && !tt_registry_remove(device));
    pipe_device_close(&d);
}

static void device_memory_is_registered_as_such(void **state)
{
    (void)state;
    in_process(device_memory_role, NULL, NULL);
    in_process(device_memory_role, "TUTTI_REGISTER=none", NULL);
}

static void wrong_role(void)
{
    struct pipe_device d = { .readonly = false };

    CHECK(!pipe_device_open(&d) && strstr(tutti_last_error(), "TUTTI_REGISTER is \"always\""));
}

static void invalid_setting_is_reported(void **state)
{
    (void)state;
    in_process(wrong_role, "TUTTI_REGISTER=always", NULL);
}

/* ---- changing memory ---- */

static void remaps_role(void)
{
    struct pipe_device d = { .readonly = false };

    CHECK(pipe_device_open(&d));
    for (size_t way = 0; remap_ways[way]; way++) {
        bool seen = false;

        for (int i = 0; i < TRIES && !seen; i++) {
            const char *wrong = remap_between_uses(&d, way, &seen);

            if (wrong)
                fprintf(stderr, "%s: %s\n", remap_ways[way], wrong);
            CHECK(!wrong);
        }
        if (!seen)
            fprintf(stderr, "%s: nothing came to lie at the same address\n", remap_ways[way]);
        CHECK(seen || strstr(remap_ways[way], "free") || strstr(remap_ways[way], "sbrk"));
    }
    pipe_device_close(&d);
    CHECK(d.unpins == d.pins);
}

static void changed_memory_is_never_stale(void **state)
{
    (void)state;
    in_process(remaps_role, NULL, NULL);
    in_process(remaps_role, "TUTTI_REGISTER=async", NULL);
    in_process(remaps_role, "TUTTI_REGISTER=none", NULL);
}

/* Threads map, use and unmap buffers, and get each other's addresses. */
static struct pipe_device shared;

static void *churn(void *arg)
{
    const uint64_t turns = 3000 / UNIT_SHARE;
    struct tt_prng prng;
    uint8_t out[2 * PAGE];

    tt_prng_init(&prng, (uintptr_t)arg);
    for (uint64_t i = 0; i < turns; i++) {
        const size_t bytes = (1 + tt_prng_below(&prng, 2)) * PAGE;
        uint8_t *mem =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        const uint64_t uses = 1 + tt_prng_below(&prng, 3);

        CHECK(mem != MAP_FAILED);
        memset(mem, (int)(i % 251), bytes);
        mem[0] = (uint8_t)(uintptr_t)arg;
        for (uint64_t k = 0; k < uses; k++) {
            struct tt_reg *r;

            if (k > 0 && tt_prng_below(&prng, 2)) {
                madvise(mem, bytes, MADV_DONTNEED);
                memset(mem, (int)(i + k) % 250, bytes);
            }
            r = get(&shared, mem, bytes, k == 1);
            pipe_device_read(r, mem, bytes, out);
            tt_registry_put(shared.domain, r, k == 1);
            CHECK(memcmp(out, mem, bytes) == 0);
        }
        munmap(mem, bytes);
    }
    return NULL;
}

static void threads_role(void)
{
    pthread_t thread[THREADS];
    struct tt_registry_counts c;

    CHECK(pipe_device_open(&shared));
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    tt_registry_counts(&c);
    CHECK(!watches() || getenv("TUTTI_REGISTER_COUNT") || (c.hits > 0 && c.invalidated > 0));
    pipe_device_close(&shared);
    CHECK(shared.unpins == shared.pins);
}

static void threads_never_see_stale_memory(void **state)
{
    (void)state;
    in_process(threads_role, NULL, NULL);
    in_process(threads_role, "TUTTI_REGISTER_COUNT=2", NULL);
}

/* ---- forks ---- */

static void fork_role(void)
{
    struct pipe_device d = { .readonly = false };
    uint8_t *mem = mapped(BYTES);
    int status;
    pid_t pid;

    CHECK(pipe_device_open(&d));
    use(&d, mem, BYTES);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct pipe_device mine = { .readonly = false };

        munmap(mem, BYTES);         /* memory is not watched in this process */
        mem = mapped(BYTES);
        CHECK(pipe_device_open(&mine));
        use(&mine, mem, BYTES);
        use(&mine, mem, BYTES);
        CHECK(mine.pins == (watches() ? 1 : 2));
        pipe_device_close(&mine);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    use(&d, mem, BYTES);
    CHECK(!watches() || d.pins == 1);
    munmap(mem, BYTES);
    pipe_device_close(&d);
    CHECK(d.unpins == d.pins);
}

static void forked_child_starts_empty(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();         /* TSan does not support threads in the child of a process with threads */
#endif
    in_process(fork_role, NULL, NULL);
}

static int quiet(void **state)
{
    (void)state;
    tt_log_set(TT_LOG_NONE);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registration_is_found_again),
        cmocka_unit_test(without_a_cache_nothing_is_kept),
        cmocka_unit_test(read_only_memory_is_not_cached),
        cmocka_unit_test(file_memory_needs_explicit_registration),
        cmocka_unit_test(cache_is_bounded_and_lru),
        cmocka_unit_test(full_device_drops_unused_registrations),
        cmocka_unit_test(full_device_is_retried_after_releases),
        cmocka_unit_test(closed_watch_disables_caching),
        cmocka_unit_test(revoked_registration_ends_with_last_user),
        cmocka_unit_test(each_device_registers_separately),
        cmocka_unit_test(explicit_registration_happens_once),
        cmocka_unit_test(adjacent_registrations_are_merged_once),
        cmocka_unit_test(registration_outlives_its_explicit_end),
        cmocka_unit_test(explicit_registrations_exceed_cache_bounds),
        cmocka_unit_test(unmapping_ends_explicit_registration),
        cmocka_unit_test(implicit_registration_can_be_an_error),
        cmocka_unit_test(device_memory_is_registered_as_such),
        cmocka_unit_test(invalid_setting_is_reported),
        cmocka_unit_test(changed_memory_is_never_stale),
        cmocka_unit_test(threads_never_see_stale_memory),
        cmocka_unit_test(forked_child_starts_empty),
    };

    return cmocka_run_group_tests(tests, quiet, NULL);
}
