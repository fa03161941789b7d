/* Writing into another process needs more care than reading:
 *  - The owner may revoke the memory during a write. It sets a flag that the writer checks before
 *    each call, and zeroes the length in the iovec. The iovec is in shared memory, and the kernel
 *    reads it when the call starts. A call that starts later therefore writes nothing. A started
 *    call completes before its thread does anything else. The owner waits for that, at most for the
 *    copy of a piece. The wait ends when the writer reports completion, or when its thread is
 *    stopped, sleeps outside that call, or has exited. Thus the owner does not wait for a stopped
 *    process. It does wait for a thread that runs without reporting (e.g. in a signal handler), or
 *    that is frozen in the call: the kernel does not show whether it is in the call.
 *  - The pid may have been reused. The call first writes to a guard page that the owner has at a
 *    random address. If that page is missing or not writable, the call fails before it changes
 *    anything. */
#include "wire/shm/shm.h"

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

#define GUARD_WRITE 1               /* word of the guard page that peers write */
#define LOOKS_PER_STATE 64u         /* checks of memory between two checks of the thread's state */

/* ---- owner ---- */

bool tt_shm_guard_open(struct tt_shm *w)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t at;

    tt_random_bytes(&at, sizeof at);
    at = (at >> 18 | 1ull << 32) / page * page;     /* below 2^46; a hint that the kernel follows
                                                       if the range is free */
    w->guard = mmap((void *)(uintptr_t)at, page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (w->guard == MAP_FAILED)
        w->guard = NULL;
    return w->guard;
}

void tt_shm_guard_close(struct tt_shm *w)
{
    if (w->guard)
        munmap(w->guard, (size_t)sysconf(_SC_PAGESIZE));
}

void tt_shm_writer_check_peer(struct tt_shm_peer *peer)
{
    char path[64];
    struct stat here, there;

    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)peer->pid);
    peer->threads_seen = stat("/proc/self/ns/pid", &here) == 0 && stat(path, &there) == 0 &&
                         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* A sleeping thread may be in the middle of a copy, waiting for a page of a file. */
static bool thread_is_writing(pid_t pid, uint32_t tid)
{
    char path[64];
    long call = SYS_process_vm_writev;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/task/%u/syscall", (int)pid, tid);
    f = fopen(path, "re");
    if (!f)
        return true;
    if (fscanf(f, "%ld", &call) != 1)
        call = SYS_process_vm_writev;   /* "running" by now */
    fclose(f);
    return call == SYS_process_vm_writev;
}

/* Returns whether the writing thread is certainly not in a copy: stopped, asleep elsewhere, or
 * gone. */
static bool thread_is_elsewhere(pid_t pid, uint32_t tid)
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
    at = strrchr(line, ')');    /* end of the thread's name, which may contain any character */
    if (!at || at[1] != ' ')
        return false;
    return at[2] == 'S' ? !thread_is_writing(pid, tid) : at[2] && !strchr("RD", at[2]);
}

void tt_shm_writer_stop(struct tt_shm_writer *r)
{
    atomic_store(&r->there[1].iov_len, 0);
    atomic_store(&r->there[0].iov_len, 0);      /* last: without the guard word, the data would
                                                   be written to wrong addresses */
}

bool tt_shm_writer_may_be_in(const struct tt_shm_writer *r, const struct tt_shm_peer *peer,
                             struct tt_shm_writing *wait)
{
    const uint32_t tid = atomic_load(&r->tid);

    if (wait->looks == 0)
        wait->began_ns = tt_now_ns();
    if (++wait->looks % LOOKS_PER_STATE == 0) {
        if (thread_is_elsewhere(peer->pid, tid) || tt_shm_is_another(peer))
            return false;
        if (!wait->logged && tt_now_ns() - wait->began_ns > TT_SECOND) {
            tt_log(TT_LOG_WARN,
                   "shm: waiting for thread %u of process %d, which has stopped during a write "
                   "into this process",
                   tid, (int)peer->pid);
            wait->logged = true;
        }
    }
    sched_yield();
    return true;
}

/* ---- writer ---- */

void tt_shm_writer_aim(struct tt_shm_writer *r, const struct tt_shm_peer *peer, uint64_t to,
                       uint64_t bytes)
{
    /* at each write: a forked child has another one */
    atomic_store_explicit(&r->tid, (uint32_t)syscall(SYS_gettid), memory_order_relaxed);
    atomic_store_explicit(&r->there[0].iov_base, peer->nonce_at + GUARD_WRITE * sizeof(uint64_t),
                          memory_order_relaxed);
    atomic_store_explicit(&r->there[1].iov_base, to, memory_order_relaxed);
    atomic_store_explicit(&r->there[0].iov_len, sizeof(uint64_t), memory_order_relaxed);
    atomic_store(&r->there[1].iov_len, bytes);
}

bool tt_shm_writer_go(const struct tt_shm_writer *r, const struct tt_shm *w,
                      const struct tt_shm_peer *peer, const uint8_t *from, uint64_t bytes)
{
    uint64_t greeting = w->nonce;
    struct iovec here[2] = { { &greeting, sizeof greeting }, { (void *)(uintptr_t)from, bytes } };

    return process_vm_writev(peer->pid, here, 2, (const struct iovec *)(const void *)r->there, 2,
                             0) == (ssize_t)(sizeof greeting + bytes);
}
