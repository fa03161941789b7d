#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tools/perf/perf_start.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define AHEAD_NS 1000       /* time for all ranks to read the start time */
#define LOOKS 100000        /* polls before yielding: a missing rank may be waiting for this core */
#define GIVE_UP_NS 30000000000U     /* the missing rank has failed; the next call reports it */

struct perf_start_memory {
    _Atomic uint64_t arrived;       /* ranks, summed over all rounds */
    _Atomic uint64_t instant_ns;    /* start time of the last round */
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

int perf_start_open(struct perf_start *s, const char *dir, uint32_t nranks)
{
    char path[4096];
    struct stat st;
    int fd, error = 0;

    *s = (struct perf_start){ .nranks = nranks };
    snprintf(path, sizeof path, "%s/start", dir);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    if (fstat(fd, &st) != 0)
        error = errno;
    else if ((uint64_t)st.st_size < sizeof *s->memory)
        error = EINVAL;
    else {
        s->memory = mmap(NULL, sizeof *s->memory, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (s->memory == MAP_FAILED) {
            error = errno;
            s->memory = NULL;
        }
    }
    close(fd);
    errno = error;
    return error ? -1 : 0;
}

void perf_start_close(struct perf_start *s)
{
    if (s->memory)
        munmap(s->memory, sizeof *s->memory);
    s->memory = NULL;
}

uint64_t perf_start_wait(struct perf_start *s)
{
    uint64_t before, instant, until_ns;

    if (!s || !s->memory)
        return now_ns();
    before = atomic_load(&s->memory->instant_ns);   /* not set again before this rank has
                                                       arrived */
    if (atomic_fetch_add(&s->memory->arrived, 1) + 1 == ++s->rounds * s->nranks)
        atomic_store(&s->memory->instant_ns, now_ns() + AHEAD_NS);
    until_ns = now_ns() + GIVE_UP_NS;
    for (uint64_t looks = 0; (instant = atomic_load(&s->memory->instant_ns)) == before; looks++) {
        if (looks > LOOKS)
            sched_yield();
        if (looks > LOOKS && now_ns() > until_ns)
            return now_ns();
    }
    while (now_ns() < instant)
        ;
    return instant;
}
