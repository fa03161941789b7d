/* For the programs that run many ranks in a few processes, each of which includes this once: the
 * bytes of the ranks, and the processes. */
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

/* Of the calling thread. A program whose threads run several ranks resets them. */
static _Thread_local uint64_t packed_sent, packed_received, packed_accepted;
static _Thread_local uint64_t packed_reads;     /* calls that received data */

/* These replace the functions of the C library in this program, and count the bytes and
 * connections of the calling thread. src/boot uses no other calls for data; memory files are not
 * counted. */
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

/* Returns zeroed memory that all processes forked from now on share. */
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

/* If one process fails, the others would wait for its ranks: they are ended. */
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
