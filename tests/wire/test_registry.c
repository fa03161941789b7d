/* Registered memory of a process: never stale, whatever becomes of the memory; what is kept and what is not, by the settings; and under threads.
 * The device is a pipe, which holds pages as a network card's registrations do. Each test is a process: settings are a process's. */
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

/* In the process of a test: says what is wrong, and ends it. */
#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            _exit(1); \
        } \
    } while (0)

/* Runs role in a process with that setting ("NAME=value", up to two; NULL: none). */
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

/* ---- what is kept ---- */

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
    CHECK(d.pins == (watches() ? 1 : 13) && c.misses == d.pins && c.dynamic == d.pins && c.hits == 13 - d.pins);
    CHECK(c.registered_bytes == (watches() ? BYTES : 0) && c.registrations == (watches() ? 1 : 0));
    CHECK(c.registered_bytes_most >= BYTES && c.told_bytes == 0);
    pipe_device_close(&d);
    CHECK(d.unpins == d.pins);
}

static void what_was_registered_is_found_the_next_time(void **state)
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
        CHECK(d.unpins == i);       /* it may become writable, and then be exposed */
    }
    pipe_device_close(&d);
}

static void what_may_only_be_read_is_not_kept(void **state)
{
    (void)state;
    in_process(readonly_role, NULL, NULL);
}

/* What lies in a file may change under its mapping. */
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
    CHECK(tt_registry_tell(mem, BYTES) == TUTTI_OK);    /* but who tells of it vouches for it */
    use(&d, mem, BYTES);
    use(&d, mem, BYTES);
    CHECK(d.pins == 2 && d.unpins == 1);
    CHECK(tt_registry_untell(mem) && d.unpins == 2);
    pipe_device_close(&d);
}

static void memory_in_files_is_kept_only_if_the_application_vouches_for_it(void **state)
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
            use(&d, mem[0], BYTES);     /* that is used all the time */
        CHECK(d.pins - d.unpins <= 4);
    }
    tt_registry_counts(&c);
    CHECK(!watches() || (d.pins == 10 && c.evicted == 6 && c.registrations == 4 && c.registered_bytes == 4 * BYTES));
    pipe_device_close(&d);
    CHECK(d.unpins == d.pins);
}

static void what_is_kept_is_bounded_and_the_least_recently_used_ends_first(void **state)
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

static void a_device_that_takes_no_more_loses_what_is_not_in_use(void **state)
{
    (void)state;
    in_process(full_role, NULL, NULL);
}

/* Closes the descriptor by which memory is watched, as closefrom does among others. */
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

/* Memory that was watched changes then: that ends the watcher's wait. */
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

static void a_watch_whose_descriptor_the_program_closes_keeps_nothing(void **state)
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

/* Another thread takes back all that the device can hold, and is not through with it when this one is refused. */
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

static void a_device_that_takes_no_more_is_asked_again_when_others_have_given_back(void **state)
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
    CHECK(again != exposed);            /* each has its own, to be revoked alone */
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

static void what_is_revoked_ends_with_its_last_user(void **state)
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

static void each_device_has_its_own_and_takes_them_along(void **state)
{
    (void)state;
    in_process(domains_role, NULL, NULL);
}

/* ---- what the application tells of ---- */

static void wait_for_pins(struct pipe_device *d, unsigned n)
{
    const uint64_t until_ns = tt_now_ns() + DEADLINE_NS;

    while (d->pins < n) {
        CHECK(tt_now_ns() < until_ns);
        usleep(1000);
    }
}

/* The whole of it is registered once, for sources and for one who exposes it; a second one at the same time gets his part anew. */
static void told_role(void)
{
    const char *mode = getenv("TUTTI_REGISTER");
    const bool eager = strcmp(mode, "eager") == 0, async = strcmp(mode, "async") == 0;
    struct pipe_device d = { .readonly = false };
    uint8_t *mem = mapped(BYTES);
    struct tt_registry_counts c;
    struct tt_reg *one, *other;

    CHECK(pipe_device_open(&d));
    CHECK(tt_registry_tell(mem, BYTES) == TUTTI_OK);
    CHECK(async || d.pins == (eager ? 1 : 0));
    if (async)
        wait_for_pins(&d, 1);
    for (uint32_t i = 0; i < 16; i++)
        use(&d, mem + i * PAGE, PAGE);
    CHECK(async || d.pins == 1);        /* async: it may not be ready yet, and then a part is registered for itself */
    one = get(&d, mem, PAGE, true);
    other = get(&d, mem + PAGE, PAGE, true);
    CHECK(one != other);
    tt_registry_put(d.domain, one, true);
    tt_registry_put(d.domain, other, true);
    tt_registry_counts(&c);
    CHECK(c.dynamic == 0 && c.told_bytes == BYTES && d.unpins == 0);
    CHECK(tt_registry_untell(mem) && !tt_registry_untell(mem));
    CHECK(d.unpins == d.pins);
    tt_registry_counts(&c);
    CHECK(c.registered_bytes == 0 && c.told_bytes == 0);
    pipe_device_close(&d);
}

static void what_is_told_of_is_registered_once(void **state)
{
    (void)state;
    in_process(told_role, "TUTTI_REGISTER=lazy", NULL);
    in_process(told_role, "TUTTI_REGISTER=eager", NULL);
    in_process(told_role, "TUTTI_REGISTER=async", NULL);
}

/* Of two tells side by side. */
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
    CHECK(tt_registry_tell(mem, BYTES / 2) == TUTTI_OK && tt_registry_tell(second, BYTES / 2) == TUTTI_OK);
    use(&d, mem, PAGE);
    use(&d, second, PAGE);
    CHECK(d.pins == 2);
    use(&d, second - PAGE, 2 * PAGE);
    CHECK(d.pins == 3 && d.unpins == 2 && d.bytes == BYTES);    /* both as one, in place of them */
    for (uint32_t i = 0; i < 16; i++)
        use(&d, mem + i * PAGE, PAGE);
    use(&d, mem, BYTES);
    CHECK(d.pins == 3);
    tt_registry_counts(&c);
    CHECK(c.dynamic == 0 && c.registrations == 1 && c.registered_bytes == BYTES);
    one = get(&d, second, PAGE, true);          /* uses the registration of both: the first tell may go */
    CHECK(tt_registry_untell(mem));
    tt_registry_put(d.domain, one, true);
    if (eager)
        wait_for_pins(&d, 4);   /* the second one again, in the background */
    pins = d.pins;
    use(&d, second, BYTES / 2);
    CHECK(d.pins <= pins + 1);
    CHECK(tt_registry_untell(second));
    CHECK(d.bytes == 0 && d.pins == d.unpins);
    pipe_device_close(&d);
}

static void a_buffer_in_two_adjacent_tells_is_registered_with_both_and_once(void **state)
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

    CHECK(tt_registry_tell(mem, BYTES) == TUTTI_OK);    /* before there is a device */
    CHECK(tt_registry_told_bytes(mem) == BYTES && tt_registry_told_bytes(mem + PAGE) == 0);
    CHECK(pipe_device_open(&d));
    CHECK(!tt_registry_untell(mem + PAGE));
    one = get(&d, mem + PAGE, PAGE, false);
    CHECK(tt_registry_untell(mem) && !tt_registry_untell(mem));
    CHECK(tt_registry_told_bytes(mem) == 0 && d.unpins == 0);   /* the user keeps its registration */
    tt_registry_put(d.domain, one, false);
    CHECK(d.unpins == d.pins);
    pipe_device_close(&d);
}

static void a_tell_ends_once_and_its_registration_with_the_last_user(void **state)
{
    (void)state;
    in_process(untold_role, NULL, NULL);
}

static void told_bounds_role(void)
{
    struct pipe_device d = { .bytes_max = 2 * BYTES };
    uint8_t *mem = mapped(BYTES), *more = mapped(2 * BYTES);

    CHECK(pipe_device_open(&d));
    CHECK(tt_registry_tell(mem, BYTES) == TUTTI_OK && d.pins == 1);
    for (int i = 0; i < 8; i++) {
        uint8_t *other = mapped(PAGE);

        use(&d, other, PAGE);
        munmap(other, PAGE);
    }
    use(&d, mem, BYTES);
    CHECK(d.pins == 9);
    CHECK(tt_registry_tell(more, 2 * BYTES) == TUTTI_ERR_NOMEM && !tt_registry_untell(more));
    use(&d, mem, BYTES);
    pipe_device_close(&d);
}

static void what_is_told_of_outlasts_the_bounds_and_too_much_is_an_error(void **state)
{
    (void)state;
    in_process(told_bounds_role, "TUTTI_REGISTER=eager", "TUTTI_REGISTER_COUNT=1");
}

static void unmapped_role(void)
{
    struct pipe_device d = { .readonly = false };
    uint8_t *mem = mapped(BYTES);

    CHECK(pipe_device_open(&d));
    CHECK(tt_registry_tell(mem, BYTES) == TUTTI_OK);
    use(&d, mem, BYTES);
    munmap(mem, BYTES);
    if (watches()) {        /* the tell went with its memory */
        use(&d, mapped(PAGE), PAGE);
        CHECK(!tt_registry_untell(mem));
    }
    pipe_device_close(&d);
}

static void a_tell_goes_with_its_memory(void **state)
{
    (void)state;
    in_process(unmapped_role, NULL, NULL);
}

static void dynamic_role(void)
{
    struct pipe_device d = { .readonly = false };
    uint8_t *mem = mapped(BYTES);

    CHECK(pipe_device_open(&d));
    CHECK(tt_registry_tell(mem, BYTES / 2) == TUTTI_OK);
    CHECK(tt_registry_admits(mem, BYTES / 2) == TUTTI_OK);
    CHECK(tt_registry_admits(mem, BYTES) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "65536 bytes") && strstr(tutti_last_error(), "TUTTI_REGISTER_DYNAMIC"));
    CHECK(tt_registry_tell(mem + BYTES / 2, PAGE) == TUTTI_OK);     /* the next pages: together they have it */
    CHECK(tt_registry_admits(mem, BYTES / 2 + PAGE) == TUTTI_OK);
    CHECK(tt_registry_admits(mem + BYTES / 2 - 1, 2) == TUTTI_OK);
    CHECK(tt_registry_admits(mem, BYTES / 2 + PAGE + 1) == TUTTI_ERR_INVALID);
    CHECK(tt_registry_tell(mem + BYTES / 2 + 2 * PAGE, PAGE) == TUTTI_OK);
    CHECK(tt_registry_admits(mem, BYTES / 2 + 3 * PAGE) == TUTTI_ERR_INVALID);      /* a page between is not told of */
    CHECK(tt_registry_untell(mem + BYTES / 2) && tt_registry_untell(mem + BYTES / 2 + 2 * PAGE));
    tt_registry_untell(mem);
    CHECK(tt_registry_admits(mem, BYTES / 2) == TUTTI_ERR_INVALID);
    pipe_device_close(&d);
}

static void registering_for_a_call_can_be_made_an_error(void **state)
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

/* Told by a descriptor, of which the device gets the part that is its own; and by address. */
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
    CHECK(tt_registry_tell_device(device, BYTES, &by_dmabuf) == TUTTI_OK);
    CHECK(d.device_pins == 1 && d.pins == 1);       /* now, and as a whole */
    CHECK(d.device.kind == TUTTI_MEM_CUDA && d.device.device == 3 && d.device.dmabuf_offset == 7 * PAGE);
    CHECK(d.device.dmabuf >= 0 && d.device.dmabuf != fd);
    CHECK(tt_registry_is_device(device, 1) && tt_registry_is_device(device - 1, 2) &&
          tt_registry_is_device(mem, 3 * BYTES));
    CHECK(!tt_registry_is_device(mem, BYTES) && !tt_registry_is_device(device + BYTES, BYTES) &&
          !tt_registry_is_device(device, 0));
    whole = get(&d, device, BYTES, true);
    CHECK(d.pins == 1);
    part = get(&d, device + 2 * PAGE, PAGE, true);  /* nobody else exposes it */
    CHECK(d.device_pins == 2 && d.device.dmabuf_offset == 9 * PAGE);
    tt_registry_put(d.domain, part, true);
    tt_registry_put(d.domain, whole, true);
    CHECK(tt_registry_untell(device) && d.unpins == d.pins && !tt_registry_is_device(device, BYTES));
    CHECK(tt_registry_tell_device(device, BYTES, &by_address) == TUTTI_OK && d.device.dmabuf == -1);
    CHECK(tt_registry_untell(device));
    CHECK(open_descriptors() <= before + 2);        /* both tells' own are closed; a pipe may wait for its end */
    CHECK(tt_registry_tell_device(device, BYTES, &by_nothing) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "invalid dma-buf descriptor: 250"));
    d.hosts_only = true;
    CHECK(tt_registry_tell_device(device, BYTES, &by_dmabuf) == TUTTI_ERR_UNSUPPORTED);
    CHECK(strstr(tutti_last_error(), "65536 bytes of device memory") && strstr(tutti_last_error(), "by its dma-buf"));
    CHECK(!tt_registry_is_device(device, BYTES) && !tt_registry_untell(device));
    pipe_device_close(&d);
}

static void memory_of_a_device_is_registered_as_such_and_known(void **state)
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

static void a_wrong_setting_is_told(void **state)
{
    (void)state;
    in_process(wrong_role, "TUTTI_REGISTER=always", NULL);
}

/* ---- memory that changes ---- */

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

static void memory_that_changes_between_two_uses_is_never_stale(void **state)
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
        uint8_t *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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

static void under_threads_nothing_is_stale_or_lost(void **state)
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

        munmap(mem, BYTES);         /* that nobody watches here */
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

static void the_child_of_a_fork_begins_anew(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();         /* it allows no threads in the child of a process that had some */
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
        cmocka_unit_test(what_was_registered_is_found_the_next_time),
        cmocka_unit_test(without_a_cache_nothing_is_kept),
        cmocka_unit_test(what_may_only_be_read_is_not_kept),
        cmocka_unit_test(memory_in_files_is_kept_only_if_the_application_vouches_for_it),
        cmocka_unit_test(what_is_kept_is_bounded_and_the_least_recently_used_ends_first),
        cmocka_unit_test(a_device_that_takes_no_more_loses_what_is_not_in_use),
        cmocka_unit_test(a_device_that_takes_no_more_is_asked_again_when_others_have_given_back),
        cmocka_unit_test(a_watch_whose_descriptor_the_program_closes_keeps_nothing),
        cmocka_unit_test(what_is_revoked_ends_with_its_last_user),
        cmocka_unit_test(each_device_has_its_own_and_takes_them_along),
        cmocka_unit_test(what_is_told_of_is_registered_once),
        cmocka_unit_test(a_buffer_in_two_adjacent_tells_is_registered_with_both_and_once),
        cmocka_unit_test(a_tell_ends_once_and_its_registration_with_the_last_user),
        cmocka_unit_test(what_is_told_of_outlasts_the_bounds_and_too_much_is_an_error),
        cmocka_unit_test(a_tell_goes_with_its_memory),
        cmocka_unit_test(registering_for_a_call_can_be_made_an_error),
        cmocka_unit_test(memory_of_a_device_is_registered_as_such_and_known),
        cmocka_unit_test(a_wrong_setting_is_told),
        cmocka_unit_test(memory_that_changes_between_two_uses_is_never_stale),
        cmocka_unit_test(under_threads_nothing_is_stale_or_lost),
        cmocka_unit_test(the_child_of_a_fork_begins_anew),
    };

    return cmocka_run_group_tests(tests, quiet, NULL);
}
