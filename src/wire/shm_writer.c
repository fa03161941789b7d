/* Writing into another process needs care that reading does not:
 *  - Its owner may want the memory back while it is being written. It says so where the writer looks before each call, and
 *    zeroes the length that the system call will be given: that vector lies in memory of both, and the kernel reads it when the call begins. So
 *    a call that has not begun writes nothing, however late it comes; and one that has begun is over as soon as its thread does anything else. The
 *    owner waits for that, as long as a copy of a piece takes: until the writer says so, or its thread is stopped, or sleeps, but not in that
 *    call, or is gone (so nobody waits for a process that was stopped). A thread that keeps running and does not come to say so (as it handles a
 *    signal), or is frozen in the middle, is waited for: whether it is in the call, the system does not tell.
 *  - The pid may be another process's by then. The call writes first to a page that the owner has at a random address; where that is not
 *    there, or not to be written to, the call ends before it has changed anything. */
#include "wire/shm.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"

#define GUARD_WRITE 1               /* which word of the guard page peers write */
#define LOOKS_PER_STATE 64u         /* looks at memory between two looks at a thread's state */

/* ---- the owner's side ---------------------------------------------------------------------------------------- */

bool tt_shm_guard_open(struct tt_shm *w)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t at;

    tt_random_bytes(&at, sizeof at);
    at = (at >> 18 | 1ull << 32) / page * page;     /* below 2^46: a wish, which the kernel grants where nothing is */
    w->guard = mmap((void *)(uintptr_t)at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (w->guard == MAP_FAILED)
        w->guard = NULL;
    return w->guard;
}

void tt_shm_guard_close(struct tt_shm *w)
{
    if (w->guard)
        munmap(w->guard, (size_t)sysconf(_SC_PAGESIZE));
}

void tt_shm_writer_meet(struct tt_shm_peer *peer)
{
    char path[64];
    struct stat here, there;

    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)peer->pid);
    peer->threads_seen = stat("/proc/self/ns/pid", &here) == 0 && stat(path, &there) == 0 &&
                         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* Whether a thread that sleeps may do so in the middle of a copy, for a page of a file of its own. */
static bool is_writing(pid_t pid, uint32_t tid)
{
    char path[64];
    long call = SYS_process_vm_writev;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/task/%u/syscall", (int)pid, tid);
    f = fopen(path, "re");
    if (!f)
        return true;
    if (fscanf(f, "%ld", &call) != 1)
        call = SYS_process_vm_writev;   /* "running", by now */
    fclose(f);
    return call == SYS_process_vm_writev;
}

/* Whether the thread that writes is anything but in the middle of a copy: stopped, asleep elsewhere, or gone. */
static bool is_elsewhere(pid_t pid, uint32_t tid)
{
    char path[64], line[128] = "";
    const char *at;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/task/%u/stat", (int)pid, tid);
    f = fopen(path, "re");
    if (!f)
        return errno == ENOENT;
    if (!fgets(line, sizeof line, f))
        line[0] = 0;
    fclose(f);
    at = strrchr(line, ')');    /* of its name, which may hold anything */
    if (!at || at[1] != ' ')
        return false;
    return at[2] == 'S' ? !is_writing(pid, tid) : at[2] && !strchr("RD", at[2]);
}

void tt_shm_writer_stop(struct tt_shm_writer *r)
{
    atomic_store(&r->there[1].iov_len, 0);
    atomic_store(&r->there[0].iov_len, 0);      /* last: without the page's word, what is written would be shifted by it */
}

bool tt_shm_writer_may_be_in(const struct tt_shm_writer *r, const struct tt_shm_peer *peer, struct tt_shm_writing *wait)
{
    const uint32_t tid = atomic_load(&r->tid);

    if (wait->looks == 0)
        wait->began_ns = tt_now_ns();
    if (++wait->looks % LOOKS_PER_STATE == 0) {
        if (is_elsewhere(peer->pid, tid) || tt_shm_is_another(peer))
            return false;
        if (!wait->told && tt_now_ns() - wait->began_ns > TT_SECOND) {
            tt_log(TT_LOG_WARN,
                   "shm: waiting for thread %u of process %d, which has stopped during a write "
                   "into this process",
                   tid, (int)peer->pid);
            wait->told = true;
        }
    }
    sched_yield();
    return true;
}

/* ---- the writer's side ---------------------------------------------------------------------------------------- */

void tt_shm_writer_aim(struct tt_shm_writer *r, const struct tt_shm_peer *peer, uint64_t to, uint64_t bytes)
{
    atomic_store_explicit(&r->tid, (uint32_t)syscall(SYS_gettid), memory_order_relaxed);    /* each time: the child of a fork has another one */
    atomic_store_explicit(&r->there[0].iov_base, peer->nonce_at + GUARD_WRITE * sizeof(uint64_t), memory_order_relaxed);
    atomic_store_explicit(&r->there[1].iov_base, to, memory_order_relaxed);
    atomic_store_explicit(&r->there[0].iov_len, sizeof(uint64_t), memory_order_relaxed);
    atomic_store(&r->there[1].iov_len, bytes);
}

bool tt_shm_writer_go(const struct tt_shm_writer *r, const struct tt_shm *w, const struct tt_shm_peer *peer,
                      const uint8_t *from, uint64_t bytes)
{
    uint64_t greeting = w->nonce;
    struct iovec here[2] = { { &greeting, sizeof greeting }, { (void *)(uintptr_t)from, bytes } };

    return process_vm_writev(peer->pid, here, 2, (const struct iovec *)(const void *)r->there, 2, 0) ==
           (ssize_t)(sizeof greeting + bytes);
}
