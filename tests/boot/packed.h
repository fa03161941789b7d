/* For programs that run many ranks in a few processes; each includes this once. Counts the bytes of
 * ranks, and waits for the processes. */
#ifndef TESTS_BOOT_PACKED_H
#define TESTS_BOOT_PACKED_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"

#define PACKED_PROCESSES_MAX 64

/* Counters of the calling thread. A program whose threads run several ranks resets them. */
static _Thread_local uint64_t packed_sent, packed_received, packed_accepted;
static _Thread_local uint64_t packed_reads;     /* calls that received data */

/* These replace the functions of the C library in this program, and count the bytes and connections
 * of the calling thread. src/boot uses no other calls for data. Memory files are not counted. */
ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    const ssize_t n = sendto(fd, data, bytes, flags, NULL, 0);

    if (n > 0)
        packed_sent += (uint64_t)n;
    return n;
}

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
    const ssize_t n = recvfrom(fd, data, bytes, flags, NULL, NULL);

    packed_reads += n > 0;
    if (n > 0)
        packed_received += (uint64_t)n;
    return n;
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    const ssize_t n = syscall(SYS_sendmsg, fd, m, flags);

    if (n > 0)
        packed_sent += (uint64_t)n;
    return n;
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    const ssize_t n = syscall(SYS_recvmsg, fd, m, flags);

    packed_reads += n > 0;
    if (n > 0)
        packed_received += (uint64_t)n;
    return n;
}

int accept4(int fd, struct sockaddr *from, socklen_t *bytes, int flags)
{
    const int accepted = (int)syscall(SYS_accept4, fd, from, bytes, flags);

    packed_accepted += accepted >= 0;
    return accepted;
}

static void packed_raise_descriptor_limit(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

/* Returns zeroed memory that is shared with all processes that are forked later. */
static void *packed_shared(size_t bytes)
{
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    tt_assert(shared != MAP_FAILED);
    return shared;
}

/* Initializes a barrier in shared memory. */
static void packed_barrier(pthread_barrier_t *barrier, uint32_t n)
{
    pthread_barrierattr_t attr;

    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier, &attr, n);
    pthread_barrierattr_destroy(&attr);
}

/* Waits for all processes. If one fails, kills the others, which would wait for its ranks. */
static bool packed_wait(const pid_t *pids, uint32_t n)
{
    bool good = true;

    for (uint32_t i = 0; i < n; i++) {
        int status = 1;

        if (wait(&status) > 0 && status == 0)
            continue;
        for (uint32_t k = 0; good && k < n; k++)
            kill(pids[k], SIGKILL);
        good = false;
    }
    return good;
}

#endif
