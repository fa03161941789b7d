#include "base/resolve.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/hostport.h"

/* time until another helper sends the query again; then doubled */
#define AGAIN_FIRST_NS TT_SECOND
#define AGAIN_LAST_NS (16 * TT_SECOND)
#define BLIND_NS (10 * TT_MS)           /* polling interval without a descriptor */
/* pause between temporary failures, and until a helper may be free */
#define PAUSE_NS (250 * TT_MS)

/* Shared by the caller and its helpers; the last owner frees it. */
struct tt_lookup {
    atomic_uint owners;
    int wake_fd;
    bool has_host;
    char host[TT_HOST_BYTES], port[6];
    struct addrinfo hints;

    atomic_bool answered;               /* a helper has claimed the right to write the result */
    int err, err_system;
    struct addrinfo *found;
    atomic_bool ready;                  /* the result is written */

    uint64_t again_ns, pause_ns;        /* caller only: time of the next query */
};

/* Number of running helper threads; in the upper half, the tt_forks() of this count. A forked child
 * inherits the number, but no threads. One atomic word, so a thread of the child cannot reset a
 * count made by another. */
static atomic_uint_least64_t helpers;

static void lookup_put(struct tt_lookup *l)
{
    if (atomic_fetch_sub(&l->owners, 1) != 1)
        return;
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    if (l->found)
        freeaddrinfo(l->found);
    free(l);
}

/* Stores the result; only the first one counts. found: freed with the lookup, unless the caller
 * takes it. */
static void lookup_set_result(struct tt_lookup *l, int err, int err_system, struct addrinfo *found)
{
    if (atomic_exchange(&l->answered, true)) {
        if (!err)
            freeaddrinfo(found);
        return;
    }
    l->err = err;
    l->err_system = err_system;
    l->found = err ? NULL : found;
    atomic_store(&l->ready, true);
    if (l->wake_fd >= 0)
        eventfd_write(l->wake_fd, 1);
}

static int call_getaddrinfo(const struct tt_lookup *l, int more_flags, struct addrinfo **found)
{
    struct addrinfo hints = l->hints;

    hints.ai_flags |= more_flags;
    return getaddrinfo(l->has_host ? l->host : NULL, l->port, &hints, found);
}

static void resolve_and_store(struct tt_lookup *l)
{
    struct addrinfo *found = NULL;
    int err;

    errno = 0;
    err = call_getaddrinfo(l, 0, &found);
    lookup_set_result(l, err, errno, found);
}

static void *helper_thread(void *arg)
{
    struct tt_lookup *l = arg;

    resolve_and_store(l);
    lookup_put(l);
    atomic_fetch_sub(&helpers, 1);
    return NULL;
}

/* The threads run code of this library, so it must not be unloaded. */
static void pin_library(void)
{
    Dl_info here;

    if (dladdr(&helpers, &here) && here.dli_fname)
        dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Counts one more thread unless the maximum is reached. */
static bool reserve_helper(void)
{
    const uint64_t none = (uint64_t)tt_forks() << 32;
    uint64_t before = atomic_load(&helpers), n;

    do {
        n = before >> 32 == none >> 32 ? before & UINT32_MAX : 0;
        if (n >= TT_LOOKUP_HELPERS_MAX)
            return false;
    } while (!atomic_compare_exchange_weak(&helpers, &before, none | (n + 1)));
    return true;
}

/* Starts a helper, or resolves in this thread if no thread can be started. Returns false if all
 * helpers are busy. */
static bool start_helper(struct tt_lookup *l)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigset_t all, before;
    pthread_t thread;
    int err;

    if (!reserve_helper())
        return false;
    pthread_once(&once, pin_library);
    atomic_fetch_add(&l->owners, 1);
    sigfillset(&all);           /* signals are handled by the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&thread, NULL, helper_thread, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!err) {
        pthread_detach(thread);
        return true;
    }
    resolve_and_store(l);
    lookup_put(l);
    atomic_fetch_sub(&helpers, 1);
    return true;
}

/* Sends another query and sets the time of the next. */
static void start_next_query(struct tt_lookup *l, uint64_t now_ns)
{
    if (!start_helper(l)) {
        l->again_ns = now_ns + PAUSE_NS;
        return;
    }
    l->again_ns = now_ns + l->pause_ns;
    l->pause_ns = 2 * l->pause_ns < AGAIN_LAST_NS ? 2 * l->pause_ns : AGAIN_LAST_NS;
}

struct tt_lookup *tt_lookup_begin(const char *host, const char *port, int flags, uint64_t now_ns)
{
    struct tt_lookup *l = calloc(1, sizeof *l);
    struct addrinfo *found = NULL;
    int err;

    if (!l)
        return NULL;
    atomic_init(&l->owners, 1);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->has_host = host != NULL;
    snprintf(l->host, sizeof l->host, "%s", host ? host : "");
    snprintf(l->port, sizeof l->port, "%s", port);
    l->hints = (struct addrinfo){ .ai_family = AF_UNSPEC,
                                  .ai_socktype = SOCK_STREAM,
                                  .ai_flags = flags | AI_NUMERICSERV };
    l->pause_ns = AGAIN_FIRST_NS;
    l->again_ns = now_ns + l->pause_ns;
    errno = 0;
    err = call_getaddrinfo(l, host ? AI_NUMERICHOST : 0, &found);
    if (!err || !host || (flags & AI_NUMERICHOST))
        lookup_set_result(l, err, errno, found);
    else
        start_next_query(l, now_ns);
    return l;
}

bool tt_lookup_step(struct tt_lookup *l, uint64_t now_ns)
{
    if (!atomic_load(&l->ready) && now_ns >= l->again_ns)
        start_next_query(l, now_ns);
    return atomic_load(&l->ready);
}

uint64_t tt_lookup_wake_ns(const struct tt_lookup *l)
{
    const uint64_t soon_ns = l->wake_fd < 0 ? tt_now_ns() + BLIND_NS : TT_NEVER;

    return soon_ns < l->again_ns ? soon_ns : l->again_ns;
}

int tt_lookup_fd(const struct tt_lookup *l)
{
    return l->wake_fd;
}

int tt_lookup_take(struct tt_lookup *l, struct addrinfo **list, const char **why)
{
    if (l->err) {
        *why = l->err == EAI_SYSTEM ? strerror(l->err_system) : gai_strerror(l->err);
        return l->err;
    }
    *list = l->found;
    l->found = NULL;
    return 0;
}

void tt_lookup_end(struct tt_lookup *l)
{
    if (l)
        lookup_put(l);
}

bool tt_lookup_await(struct tt_lookup *l, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd p = { .fd = l->wake_fd, .events = POLLIN };
        uint64_t now_ns = tt_now_ns(), wake_ns;

        if (tt_lookup_step(l, now_ns))
            return true;
        if (now_ns >= deadline_ns)
            return false;
        wake_ns = tt_lookup_wake_ns(l);
        if (deadline_ns < wake_ns)
            wake_ns = deadline_ns;
        poll(&p, 1, wake_ns > now_ns ? (int)((wake_ns - now_ns + TT_MS - 1) / TT_MS) : 0);
    }
}

tutti_status tt_resolve(const char *host, const char *port, int flags, bool retry,
                        uint64_t deadline_ns, struct addrinfo **list, const char **why)
{
    for (;;) {
        struct tt_lookup *l = tt_lookup_begin(host, port, flags, tt_now_ns());
        uint64_t now_ns;
        int err;

        *why = l ? "no answer before the deadline" : "out of memory";
        if (!l)
            return TUTTI_ERR_NOMEM;
        if (!tt_lookup_await(l, deadline_ns)) {
            tt_lookup_end(l);
            return TUTTI_ERR_TIMEOUT;
        }
        err = tt_lookup_take(l, list, why);
        tt_lookup_end(l);
        if (!err)
            return TUTTI_OK;
        now_ns = tt_now_ns();
        if (err == EAI_AGAIN && retry && now_ns >= deadline_ns)
            return TUTTI_ERR_TIMEOUT;
        if (err != EAI_AGAIN || !retry)
            return err == EAI_AGAIN || err == EAI_SYSTEM || err == EAI_MEMORY ? TUTTI_ERR_SYSTEM
                                                                              : TUTTI_ERR_INVALID;
        poll(NULL, 0,
             (int)((deadline_ns - now_ns < PAUSE_NS ? deadline_ns - now_ns : PAUSE_NS) / TT_MS));
    }
}
