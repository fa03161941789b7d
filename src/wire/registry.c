#include "wire/registry.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "base/status.h"
#include "wire/memwatch.h"
#include "wire/planted.h"

#define NAME_BYTES 64       /* maximum length of a registrar's name in errors */

enum mode { MODE_NONE, MODE_LAZY, MODE_EAGER, MODE_ASYNC, MODES };

static const char *const mode_names[MODES] = { "none", "lazy", "eager", "async" };

/* A user range: memory that the application has registered (tutti_mem_register,
 * tutti_mem_alloc). */
struct user_range {
    struct tt_span span;        /* whole pages; must be the first member */
    uint64_t mem;               /* first byte */
    size_t bytes;               /* as passed by the caller */
    struct user_range *next;          /* list of all, newest first; or of removed ones */
    struct user_range *next_awaited;  /* list of those to register in the background */
    struct tt_device_memory device;     /* valid if is_device; we own its descriptor */
    bool is_device;
};

struct tt_domain {
    struct tt_registrar registrar;
    struct tt_domain *next;
    uint32_t busy;              /* number of other threads that use it */
};

/* Reason for a registration. */
enum made_for {
    FOR_CALL,                   /* memory outside of user ranges */
    FOR_PART,                   /* part of a user range */
    FOR_TOLD,                   /* a whole user range: not evicted */
    FOR_SEVERAL                 /* the union of several user ranges, in place of their own
                                   registrations: not evicted */
};

struct settings {
    enum mode mode;
    int64_t bytes_max, count_max, dynamic;
};

/* The lock is a leaf: while it is held, nothing is allocated, freed or waited for. A thread that
 * frees watched memory waits for the watcher, which waits for the lock; that thread may hold an
 * allocator's lock. */
static struct registry {
    pthread_mutex_t lock;
    pthread_cond_t work;        /* wakes the worker: a registration has ended, or is requested */
    pthread_cond_t calm;        /* a domain is less busy, or fewer registrations are being undone */
    bool started, works, watches;   /* works: the worker runs; watches: memory is watched, and
                                       the watcher runs */
    struct settings set;
    struct tt_memwatch watch;
    struct tt_regcache cache;
    struct tt_domain *domains;
    struct user_range *user_ranges;
    struct tt_span *user_range_tree;
    struct user_range *awaited;
    struct user_range *ranges_gone;     /* to free */
    uint32_t undoing;           /* ended registrations being undone, plus those that the worker
                                   makes */
    uint32_t unpinning;         /* of these, registrations in a call of unpin */
    struct tt_registry_counts counts;
    atomic_uint ndevices;       /* user ranges of device memory; changed under the lock */
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER,
               .work = PTHREAD_COND_INITIALIZER,
               .calm = PTHREAD_COND_INITIALIZER };

static void lock(void)
{
    pthread_mutex_lock(&registry.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&registry.lock);
}

/* The pages that overlap mem[bytes]. */
static void pages_of(const void *mem, size_t bytes, uint64_t *begin, uint64_t *end)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    *begin = (uintptr_t)mem / page * page;
    *end = ((uintptr_t)mem + bytes + page - 1) / page * page;
}

/* ---- user ranges; under the lock ---- */

static void remove_user_range(struct user_range *t)
{
    struct user_range **at = &registry.user_ranges;

    tt_spans_remove(&registry.user_range_tree, &t->span);
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    for (at = &registry.awaited; *at && *at != t;)
        at = &(*at)->next_awaited;
    if (*at)
        *at = t->next_awaited;
    if (t->is_device)
        atomic_fetch_sub(&registry.ndevices, 1);
    t->next = registry.ranges_gone;
    registry.ranges_gone = t;
}

static bool range_is_device(const struct tt_span *s, const void *arg)
{
    (void)arg;
    return ((const struct user_range *)s)->is_device;
}

static bool is_of_host(const struct tt_span *s, const void *arg)
{
    (void)arg;
    return !((const struct user_range *)s)->is_device;
}

/* Returns whether one user range covers [begin, end), or several of host memory together do. *from
 * and *till: the union of these ranges. */
static bool is_in_user_ranges(uint64_t begin, uint64_t end, uint64_t *from, uint64_t *till)
{
    const struct tt_span *s = tt_spans_covering(registry.user_range_tree, begin, end, NULL, NULL);

    if (!s)
        return tt_spans_cover(registry.user_range_tree, begin, end, is_of_host, NULL, from, till);
    *from = s->begin;
    *till = s->end;
    return true;
}

/* If pages [begin, end) are in one user range of device memory, describes them in *out. Its
 * descriptor is valid while the range exists. */
static bool device_of(uint64_t begin, uint64_t end, struct tt_device_memory *out)
{
    const struct tt_span *s =
        atomic_load(&registry.ndevices)
            ? tt_spans_covering(registry.user_range_tree, begin, end, range_is_device, NULL)
            : NULL;

    if (!s)
        return false;
    *out = ((const struct user_range *)s)->device;
    out->dmabuf_offset += begin - s->begin;
    return true;
}

/* ---- changes of memory; under the lock ---- */

static void memory_changed(void *arg, uint64_t begin, uint64_t end, bool unmapped)
{
    struct tt_span *s;

    (void)arg;
    if (TT_PLANTED(TT_REGISTRY_BUG_NOT_WATCHED))
        return;
    registry.counts.invalidated += tt_regcache_invalidate(&registry.cache, NULL, begin, end);
    while (unmapped && (s = tt_spans_touching(registry.user_range_tree, begin, end, NULL, NULL)))
        remove_user_range((struct user_range *)s);
    if (registry.cache.over || registry.ranges_gone)
        pthread_cond_signal(&registry.work);
}

/* Processes all changes of watched memory that have already happened. */
static void process_memory_events(void)
{
    if (!registry.watches)
        return;
    tt_memwatch_read(&registry.watch, memory_changed, NULL);
    while (tt_memwatch_is_changing(&registry.watch)) {
        unlock();
        sched_yield();          /* the changing thread needs the CPU */
        lock();
        tt_memwatch_read(&registry.watch, memory_changed, NULL);
    }
}

static bool is_watched(const struct tt_span *s, const void *arg)
{
    (void)arg;
    return ((const struct tt_reg *)s)->watched;
}

/* Stops watching pages that no registration needs. */
static void unwatch(uint64_t begin, uint64_t end)
{
    while (begin < end) {
        const struct tt_span *s =
            tt_spans_touching(registry.cache.tree, begin, end, is_watched, NULL);
        const uint64_t till = s ? s->begin : end;

        if (till > begin)
            tt_memwatch_remove(&registry.watch, begin, till);
        begin = s ? s->end : end;
    }
}

/* ---- undoing ---- */

/* Undoes a registration that has ended and is in no list. Called with the lock, which is released
 * meanwhile. */
static void registration_undo(struct tt_reg *r)
{
    struct tt_domain *d = (struct tt_domain *)(uintptr_t)r->domain;
    uint64_t began_ns, took_ns;

    if (r->watched)
        unwatch(r->span.begin, r->span.end);
    d->busy++;
    registry.undoing++;
    registry.unpinning++;
    unlock();
    began_ns = tt_now_ns();
    d->registrar.unpin(d->registrar.arg, r->handle);
    took_ns = tt_now_ns() - began_ns;
    free(r);
    lock();
    registry.counts.undoing_ns += took_ns;
    registry.unpinning--;
    registry.undoing--;
    d->busy--;
    pthread_cond_broadcast(&registry.calm);
}

/* Undoes all ended registrations. Called with the lock, which is released meanwhile. */
static void reap_ended(void)
{
    struct tt_reg *r;
    struct user_range *t;

    while ((r = tt_regcache_over(&registry.cache)))
        registration_undo(r);
    while ((t = registry.ranges_gone)) {
        registry.ranges_gone = t->next;
        unlock();
        if (t->is_device && t->device.dmabuf >= 0)
            close(t->device.dmabuf);
        free(t);
        lock();
    }
}

/* ---- making ---- */

static void count_made(enum made_for why, uint64_t took_ns)
{
    registry.counts.registering_ns += took_ns;
    registry.counts.misses++;
    registry.counts.dynamic += why == FOR_CALL;
    if (registry.cache.bytes > registry.counts.registered_bytes_most)
        registry.counts.registered_bytes_most = registry.cache.bytes;
}

/* Registers pages [begin, end). Returns 0 and *out with one user (out NULL: without users), or an
 * errno. This and the next two functions are called without the lock. */
static int try_register(struct tt_domain *d, uint64_t begin, uint64_t end, bool expose,
                        enum made_for why, struct tt_reg **out)
{
    struct tt_reg *r = calloc(1, sizeof *r);
    struct tt_device_memory what;
    uint64_t began_ns, took_ns, from, till;
    void *handle = NULL;
    bool writable = false, watched, device;
    int err;

    if (!r)
        return ENOMEM;
    lock();
    tt_regcache_enter(&registry.cache, r, d, begin, end, expose);
    r->lasting = why >= FOR_TOLD;
    device = device_of(begin, end, &what);
    watched = r->watched = registry.watches && !device;     /* set before, so that no other
                                                               thread stops the watch of its
                                                               pages */
    unlock();
    if (watched)
        watched = tt_memwatch_add(&registry.watch, begin, end);
    began_ns = tt_now_ns();
    err = d->registrar.pin(d->registrar.arg, (void *)(uintptr_t)begin, end - begin,
                           device ? &what : NULL, &handle, &writable);
    took_ns = tt_now_ns() - began_ns;
    lock();
    r->watched = watched;
    if (err) {
        tt_regcache_abandon(&registry.cache, r);
        if (watched)
            unwatch(begin, end);
        unlock();
        free(r);
        return err;
    }
    if (why != FOR_CALL && !is_in_user_ranges(begin, end, &from, &till) &&
        r->state == TT_REG_MAKING)
        tt_regcache_revoke(&registry.cache, r);     /* the user range was removed meanwhile */
    tt_regcache_ready(&registry.cache, r, handle, writable,
                      writable && (registry.set.mode != MODE_NONE || device) &&
                          (watched || why != FOR_CALL));
    if (why == FOR_SEVERAL && r->state == TT_REG_LIVE && r->kept)
        tt_regcache_supersede(&registry.cache, r);
    count_made(why, took_ns);
    if (out)
        *out = r;
    else if (tt_regcache_put(&registry.cache, r, expose))
        registration_undo(r);
    unlock();
    return 0;
}

/* Registers the pages. On ENOMEM it evicts the idle registrations and retries, since the limit of
 * locked memory may be below the cache's limit. */
static int register_pages(struct tt_domain *d, uint64_t begin, uint64_t end, bool expose,
                          enum made_for why, struct tt_reg **out)
{
    const int err = try_register(d, begin, end, expose, why, out);

    if (err != ENOMEM)
        return err;
    lock();
    tt_regcache_trim(&registry.cache, 0, 0);
    for (reap_ended(); registry.unpinning > 0; reap_ended())        /* other threads still lock
                                                                       memory */
        pthread_cond_wait(&registry.calm, &registry.lock);
    unlock();
    return try_register(d, begin, end, expose, why, out);
}

/* Registers the whole user range, or the union of several, that contains the pages, unless that is
 * registered; otherwise these pages. */
static int register_for_use(struct tt_domain *d, uint64_t begin, uint64_t end, bool expose,
                            struct tt_reg **out)
{
    struct tt_device_memory what;
    const struct tt_span *user;
    uint64_t user_begin = 0, user_end = 0;
    enum made_for why, as = FOR_TOLD;
    bool whole, device;

    lock();
    device = device_of(begin, end, &what);
    user = tt_spans_covering(registry.user_range_tree, begin, end, device ? range_is_device : NULL,
                             NULL);
    why = user ? FOR_PART : FOR_CALL;
    whole = user && (registry.set.mode != MODE_NONE || device);
    if (whole) {
        user_begin = user->begin;
        user_end = user->end;
    } else if (!user && !device && is_in_user_ranges(begin, end, &user_begin, &user_end)) {
        why = FOR_PART;
        as = FOR_SEVERAL;
        whole = registry.set.mode != MODE_NONE;
    }
    whole = whole && !tt_regcache_has(&registry.cache, d, user_begin, user_end);
    unlock();
    if (whole && try_register(d, user_begin, user_end, expose, as, out) == 0)
        return 0;
    return register_pages(d, begin, end, expose, why, out);
}

static tutti_status fail_device(const char *name, int err, const void *mem, uint64_t bytes,
                                const struct tt_device_memory *what)
{
    const tutti_status st = err == ENOMEM                   ? TUTTI_ERR_NOMEM
                            : err == EBADF || err == EINVAL ? TUTTI_ERR_INVALID
                                                            : TUTTI_ERR_UNSUPPORTED;

    return tt_fail(st, "%s: cannot register %" PRIu64 " bytes of device memory at %p by %s: %s%s",
                   name, bytes, mem, what->dmabuf >= 0 ? "its dma-buf" : "its address",
                   strerror(err),
                   what->dmabuf < 0 && err == EFAULT ? " (a kernel module like nvidia-peermem "
                                                       "is required)"
                                                     : "");
}

static tutti_status fail_to_register(const char *name, int err, const void *mem, uint64_t bytes)
{
    struct tt_device_memory what;
    uint64_t begin, end;
    bool device;

    pages_of(mem, bytes, &begin, &end);
    lock();
    device = device_of(begin, end, &what);
    unlock();
    if (device)
        return fail_device(name, err, mem, bytes, &what);
    if (err == ENOMEM)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "%s: cannot register %" PRIu64
                       " bytes: out of memory, or above the limit of "
                       "locked memory (ulimit -l)",
                       name, bytes);
    return tt_fail_errno(err, "%s: cannot register %" PRIu64 " bytes at %p", name, bytes, mem);
}

/* ---- threads ---- */

/* The program has closed the descriptor (closefrom), which ends the watch: no existing registration
 * may be found any more. */
static void watch_lost(void)
{
    lock();
    registry.watches = false;
    registry.counts.invalidated += tt_regcache_invalidate(&registry.cache, NULL, 0, UINT64_MAX);
    pthread_cond_signal(&registry.work);
    unlock();
    tt_log(TT_LOG_WARN, "the registration cache is disabled for memory without "
                        "tutti_mem_register: the program has closed the userfaultfd descriptor "
                        "that detects changes of memory");
}

/* Reads the kernel's events, which unblocks threads that change watched memory. */
static void *watcher(void *arg)
{
    struct pollfd p = { .fd = registry.watch.fd, .events = POLLIN };

    (void)arg;
    for (;;) {
        if (poll(&p, 1, -1) < 0)
            continue;
        if (p.revents & POLLNVAL)
            break;
        lock();
        tt_memwatch_read(&registry.watch, memory_changed, NULL);
        unlock();
    }
    watch_lost();
    return NULL;
}

/* Registers a user range with all domains. Called with the lock, which is released meanwhile.
 * Returns the first error, and in failed[] the name of its registrar, since the domain may be freed
 * meanwhile. any: success with one domain is enough. */
static int register_user_range(uint64_t begin, uint64_t end, bool any, char failed[NAME_BYTES])
{
    struct tt_domain *next;
    bool made = false;
    int first = 0;

    for (struct tt_domain *d = registry.domains; d; d = next) {
        int err = 0;

        d->busy++;              /* keeps it in the list */
        if (!tt_regcache_has(&registry.cache, d, begin, end)) {
            unlock();
            err = register_pages(d, begin, end, false, FOR_TOLD, NULL);
            lock();
        }
        if (err && !first) {
            first = err;
            snprintf(failed, NAME_BYTES, "%s", d->registrar.name);
        }
        made |= !err;
        next = d->next;
        d->busy--;
        pthread_cond_broadcast(&registry.calm);
    }
    return any && made ? 0 : first;
}

static void *worker(void *arg)
{
    (void)arg;
    lock();
    for (;;) {
        struct user_range *t = registry.awaited;
        char failed[NAME_BYTES];

        reap_ended();
        if (t && t == registry.awaited) {
            const uint64_t begin = t->span.begin, end = t->span.end;

            registry.awaited = t->next_awaited;
            registry.undoing++;     /* tt_registry_remove also waits for this */
            register_user_range(begin, end, false, failed);   /* a later use of the range reports
                                                                 the error */
            registry.undoing--;
            pthread_cond_broadcast(&registry.calm);
        } else if (!registry.cache.over && !registry.ranges_gone && !registry.awaited) {
            pthread_cond_wait(&registry.work, &registry.lock);
        }
    }
    return NULL;
}

/* The threads run code of this library, so it must not be unloaded. */
static void pin_registry_library(void)
{
    Dl_info here;

    if (dladdr(&registry, &here) && here.dli_fname)
        dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static bool start_registry_thread(void *(*run)(void *arg))
{
    pthread_t thread;
    sigset_t all, before;
    int err;

    sigfillset(&all);           /* signals are handled by the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err == 0)
        pthread_detach(thread);
    return err == 0;
}

/* A forked child has neither the threads nor the watch, and none of the parent's registrations. */
static void registry_reset_after_fork(void)
{
    registry = (struct registry){ .lock = PTHREAD_MUTEX_INITIALIZER,
                                  .work = PTHREAD_COND_INITIALIZER,
                                  .calm = PTHREAD_COND_INITIALIZER };
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, registry_reset_after_fork);
}

/* Once per process, before the first registration. */
static void register_fork_handler(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
}

/* ---- settings ---- */

static tutti_status read_settings(struct settings *out)
{
    const char *text = getenv("TUTTI_REGISTER");
    struct settings s = { .mode = MODE_LAZY };
    tutti_status st;

    if (text && *text) {
        for (s.mode = MODE_NONE; s.mode < MODES && strcmp(text, mode_names[s.mode]) != 0;)
            s.mode++;
        if (s.mode == MODES)
            return tt_fail(TUTTI_ERR_INVALID,
                           "TUTTI_REGISTER is \"%s\": must be none, lazy, eager or async", text);
    }
    st = tt_param_get(TT_PARAM_REGISTER_BYTES, &s.bytes_max);
    if (!st)
        st = tt_param_get(TT_PARAM_REGISTER_COUNT, &s.count_max);
    if (!st)
        st = tt_param_get(TT_PARAM_REGISTER_DYNAMIC, &s.dynamic);
    if (!st)
        *out = s;
    return st;
}

tutti_status tt_registry_check(void)
{
    struct settings s;

    return read_settings(&s);
}

/* Starts watching memory, and the threads for it. */
static void start_watch(void)
{
    struct tt_memwatch watch;
    const char *why = "cannot start the threads";
    bool works, watches = tt_memwatch_open(&watch, &why);

    if (watches)
        registry.watch = watch;
    works = start_registry_thread(worker);
    if (watches && !(works && start_registry_thread(watcher))) {
        tt_memwatch_close(&watch);
        watches = false;
    }
    if (!watches)
        tt_log(TT_LOG_INFO,
               "the registration cache is disabled for memory without tutti_mem_register: %s", why);
    lock();
    registry.works = works;
    registry.watches = watches;
    unlock();
}

/* Set-up for the first domain. The settings are read once. */
static tutti_status registry_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct settings set;
    tutti_status st;
    bool started;

    lock();
    started = registry.started;
    unlock();
    if (started)
        return TUTTI_OK;
    st = read_settings(&set);
    if (st)
        return st;
    pthread_once(&once, pin_registry_library);
    lock();
    started = registry.started;     /* a concurrent thread may have started it */
    if (!started) {
        registry.started = true;
        registry.set = set;
        tt_regcache_init(&registry.cache, (uint64_t)set.bytes_max, (uint64_t)set.count_max);
    }
    unlock();
    if (!started && set.mode != MODE_NONE)
        start_watch();
    return TUTTI_OK;
}

tutti_status tt_registry_setting(struct tt_registry_setting *out)
{
    struct settings s;
    struct tt_memwatch w;
    const char *why = "";
    const tutti_status st = read_settings(&s);
    bool watches;

    if (st)
        return st;
    watches = tt_memwatch_open(&w, &why);
    if (watches)
        tt_memwatch_close(&w);
    *out = (struct tt_registry_setting){
        .mode = mode_names[s.mode],
        .bytes_max = (uint64_t)s.bytes_max,
        .count_max = (uint64_t)s.count_max,
        .dynamic = s.dynamic,
        .watches = watches,
        .why_not = watches ? "" : why,
    };
    return TUTTI_OK;
}

/* ---- domains ---- */

tutti_status tt_registry_join(struct tt_domain **out, const struct tt_registrar *registrar)
{
    struct tt_domain *d = calloc(1, sizeof *d);
    tutti_status st;

    register_fork_handler();
    if (!d)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for a registration domain",
                       registrar->name);
    st = registry_start();
    if (st) {
        free(d);
        return st;
    }
    d->registrar = *registrar;
    lock();
    d->next = registry.domains;
    registry.domains = d;
    unlock();
    *out = d;
    return TUTTI_OK;
}

void tt_registry_leave(struct tt_domain *d)
{
    struct tt_domain **at = &registry.domains;

    if (!d)
        return;
    lock();
    while (d->busy > 0)
        pthread_cond_wait(&registry.calm, &registry.lock);
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    tt_regcache_invalidate(&registry.cache, d, 0, UINT64_MAX);
    reap_ended();
    while (d->busy > 0)         /* another thread is undoing one of its registrations */
        pthread_cond_wait(&registry.calm, &registry.lock);
    unlock();
    free(d);
}

/* ---- use ---- */

tutti_status tt_registry_get(struct tt_domain *d, void *mem, size_t bytes, bool expose,
                             struct tt_reg **out)
{
    struct tt_reg *r;
    uint64_t begin, end;
    int err;

    tt_assert(bytes > 0);
    pages_of(mem, bytes, &begin, &end);
    lock();
    process_memory_events();
    r = tt_regcache_find(&registry.cache, d, begin, end, expose);
    unlock();
    if (r) {
        *out = r;
        return TUTTI_OK;
    }
    err = register_for_use(d, begin, end, expose, out);
    lock();
    reap_ended();                     /* evicted registrations */
    unlock();
    return err ? fail_to_register(d->registrar.name, err, mem, bytes) : TUTTI_OK;
}

void tt_registry_put(struct tt_domain *d, struct tt_reg *r, bool exposed)
{
    tt_assert(r->domain == d);
    lock();
    if (tt_regcache_put(&registry.cache, r, exposed))
        registration_undo(r);
    reap_ended();
    unlock();
}

void tt_registry_revoke(struct tt_reg *r)
{
    lock();
    tt_regcache_revoke(&registry.cache, r);
    unlock();
}

/* ---- user ranges ---- */

/* Takes ownership of the device's descriptor. */
static tutti_status add_user_range(void *mem, size_t bytes, const struct tt_device_memory *device)
{
    struct user_range *t = calloc(1, sizeof *t);
    char failed[NAME_BYTES];
    tutti_status st;
    int err = 0;

    register_fork_handler();
    if (!t) {
        if (device && device->dmabuf >= 0)
            close(device->dmabuf);
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the registration of %zu bytes at %p",
                       bytes, mem);
    }
    t->mem = (uintptr_t)mem;
    t->bytes = bytes;
    t->is_device = device;
    if (device)
        t->device = *device;
    pages_of(mem, bytes, &t->span.begin, &t->span.end);
    lock();
    process_memory_events();                 /* earlier unmappings there must not remove the new
                                                range */
    tt_spans_add(&registry.user_range_tree, &t->span);
    t->next = registry.user_ranges;
    registry.user_ranges = t;
    if (device)
        atomic_fetch_add(&registry.ndevices, 1);
    if (device || registry.set.mode == MODE_EAGER) {
        err = register_user_range(t->span.begin, t->span.end, device, failed);
        reap_ended();                 /* evicted registrations */
    } else if (registry.set.mode == MODE_ASYNC && registry.works) {
        t->next_awaited = registry.awaited;
        registry.awaited = t;
        pthread_cond_signal(&registry.work);
    }
    unlock();
    if (!err)
        return TUTTI_OK;
    st = fail_to_register(failed, err, mem, bytes);     /* checks whether it is device memory */
    tt_registry_remove(mem);
    return st;
}

tutti_status tt_registry_add(void *mem, size_t bytes)
{
    return add_user_range(mem, bytes, NULL);
}

tutti_status tt_registry_add_device(void *mem, size_t bytes, const struct tt_device_memory *what)
{
    struct tt_device_memory mine = *what;

    if (mine.dmabuf >= 0) {
        mine.dmabuf = fcntl(what->dmabuf, F_DUPFD_CLOEXEC, 0); /* the caller may close its own */
        if (mine.dmabuf < 0 && errno == EBADF)
            return tt_fail(TUTTI_ERR_INVALID, "invalid dma-buf descriptor: %d", what->dmabuf);
        if (mine.dmabuf < 0)
            return tt_fail_errno(errno, "cannot duplicate the dma-buf descriptor %d", what->dmabuf);
    }
    return add_user_range(mem, bytes, &mine);
}

bool tt_registry_is_device(const void *mem, size_t bytes)
{
    uint64_t begin, end;
    bool is;

    if (!mem || !bytes || !atomic_load_explicit(&registry.ndevices, memory_order_relaxed))
        return false;
    pages_of(mem, bytes, &begin, &end);
    lock();
    is = tt_spans_touching(registry.user_range_tree, begin, end, range_is_device, NULL);
    unlock();
    return is;
}

static struct user_range *newest_at(const void *mem)
{
    struct user_range *t = registry.user_ranges;

    while (t && t->mem != (uintptr_t)mem)
        t = t->next;
    return t;
}

static bool reaches_beyond(const struct tt_span *s, const void *arg)
{
    const struct tt_span *of = arg;

    return s->begin < of->begin || s->end > of->end;
}

static bool is_awaited(const struct user_range *t)
{
    const struct user_range *at = registry.awaited;

    while (at && at != t)
        at = at->next_awaited;
    return at;
}

/* Removing a user range also ends a registration of its union with others. With
 * TUTTI_REGISTER=eager or async, the remaining ranges are registered again in the background. */
static void requeue_user_ranges(void)
{
    if (!registry.works || (registry.set.mode != MODE_EAGER && registry.set.mode != MODE_ASYNC))
        return;
    for (struct user_range *t = registry.user_ranges; t; t = t->next) {
        if (t->is_device || is_awaited(t) ||
            tt_spans_covering(registry.cache.tree, t->span.begin, t->span.end, NULL, NULL))
            continue;
        t->next_awaited = registry.awaited;
        registry.awaited = t;
        pthread_cond_signal(&registry.work);
    }
}

/* Ends the registrations of a removed user range, unless other user ranges cover it. */
static void unregister_range(const struct tt_span *of)
{
    uint64_t from, till;
    bool beyond;

    if (is_in_user_ranges(of->begin, of->end, &from, &till))
        return;
    beyond = tt_spans_touching(registry.cache.tree, of->begin, of->end, reaches_beyond, of);
    tt_regcache_invalidate(&registry.cache, NULL, of->begin, of->end);
    if (beyond)
        requeue_user_ranges();
}

bool tt_registry_remove(const void *mem)
{
    struct tt_span of;
    struct user_range *t;

    lock();
    t = newest_at(mem);
    if (!t) {
        unlock();
        return false;
    }
    of = t->span;
    remove_user_range(t);
    unregister_range(&of);
    for (reap_ended(); registry.undoing > 0; reap_ended())      /* by other threads */
        pthread_cond_wait(&registry.calm, &registry.lock);
    unlock();
    return true;
}

size_t tt_registry_user_bytes(const void *mem)
{
    const struct user_range *t;
    size_t bytes;

    lock();
    t = newest_at(mem);
    bytes = t ? t->bytes : 0;
    unlock();
    return bytes;
}

tutti_status tt_registry_check_use(const void *mem, size_t bytes)
{
    uint64_t begin, end, from, till;
    bool good;

    pages_of(mem, bytes, &begin, &end);
    lock();
    good = !registry.started || registry.set.dynamic || is_in_user_ranges(begin, end, &from, &till);
    unlock();
    if (good)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID,
                   "cannot use %zu bytes at %p: not registered (use tutti_mem_register or "
                   "tutti_mem_alloc, or set TUTTI_REGISTER_DYNAMIC=1)",
                   bytes, mem);
}

void tt_registry_counts(struct tt_registry_counts *out)
{
    lock();
    *out = registry.counts;
    out->hits = registry.cache.hits;
    out->evicted = registry.cache.evicted;
    out->registered_bytes = registry.cache.bytes;
    out->registrations = registry.cache.count;
    out->explicit_bytes = 0;
    for (const struct user_range *t = registry.user_ranges; t; t = t->next)
        out->explicit_bytes += t->span.end - t->span.begin;
    unlock();
}
