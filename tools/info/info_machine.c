#include "tools/info/info_machine.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/prng.h"

/* The first line of a file without its newline, or "?". */
static void read_line(const char *path, char out[INFO_TEXT_BYTES])
{
    FILE *f = fopen(path, "re");

    if (!f || !fgets(out, INFO_TEXT_BYTES, f))
        strcpy(out, "?");
    out[strcspn(out, "\n")] = '\0';
    if (f)
        fclose(f);
}

static int64_t read_number(const char *path)
{
    char text[INFO_TEXT_BYTES], *end;
    long long v;

    read_line(path, text);
    v = strtoll(text, &end, 10);
    return end == text ? -1 : v;
}

static int64_t soft_limit(__rlimit_resource_t what)
{
    struct rlimit limit;

    if (getrlimit(what, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return -1;
    return (int64_t)limit.rlim_cur;
}

static int count_allowed(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

/* ---- reading another process's memory ---- */

static volatile uint64_t place;     /* has the same address in all children */

/* Starts a child that keeps `nonce` at `place` until the writing end of the pipe is closed. */
static pid_t start_holder(uint64_t nonce, const int until[2])
{
    const pid_t pid = fork();
    char byte;

    if (pid != 0)
        return pid;
    close(until[1]);
    place = nonce;
    if (read(until[0], &byte, 1) < 0)
        _exit(1);
    _exit(0);
}

/* Starts another child, which reads `place` of the first as a rank reads memory of another rank. A
 * test in the parent would prove nothing: the kernel may allow a parent to read its children, but
 * not siblings to read each other. Exit status: 0, or the errno. */
static pid_t start_reader(pid_t holder, uint64_t nonce)
{
    const pid_t pid = fork();
    uint64_t got = 0;
    struct iovec mine = { &got, sizeof got }, theirs = { (void *)(uintptr_t)&place, sizeof got };

    if (pid != 0)
        return pid;
    for (int tries = 0; tries < 1000; tries++) {
        if (process_vm_readv(holder, &mine, 1, &theirs, 1, 0) != (ssize_t)sizeof got)
            _exit(errno ? errno : EIO);
        if (got == nonce)
            _exit(0);
        usleep(1000);       /* the holder has not written it yet */
    }
    _exit(ESRCH);
}

static void try_cma(struct info_machine *m)
{
    uint64_t nonce = 0;
    pid_t holder, reader;
    int until[2], status = 0;

    snprintf(m->cma_why, sizeof m->cma_why, "cannot create a pipe or processes for the test");
    if (pipe(until) != 0)
        return;
    tt_random_bytes(&nonce, sizeof nonce);
    holder = start_holder(nonce, until);
    reader = holder > 0 ? start_reader(holder, nonce) : -1;
    if (reader > 0 && waitpid(reader, &status, 0) == reader && WIFEXITED(status)) {
        m->cma = WEXITSTATUS(status) == 0;
        snprintf(m->cma_why, sizeof m->cma_why, "%s", m->cma ? "" : strerror(WEXITSTATUS(status)));
    }
    close(until[0]);
    close(until[1]);
    if (holder > 0)
        waitpid(holder, &status, 0);
}

void info_machine_read(struct info_machine *m)
{
    struct utsname u = { .sysname = "?" };

    *m = (struct info_machine){ .cores_allowed = count_allowed(),
                                .cores_online = (int)sysconf(_SC_NPROCESSORS_ONLN) };
    uname(&u);
    snprintf(m->host, sizeof m->host, "%s", u.nodename);
    snprintf(m->kernel, sizeof m->kernel, "%s %s %s", u.sysname, u.release, u.machine);
    m->memlock_bytes = soft_limit(RLIMIT_MEMLOCK);
    m->nofile = soft_limit(RLIMIT_NOFILE);
    read_line("/sys/kernel/mm/transparent_hugepage/enabled", m->huge_pages);
    read_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", m->huge_pages_shm);
    m->huge_pages_reserved = read_number("/proc/sys/vm/nr_hugepages");
    read_line("/proc/sys/net/ipv4/tcp_congestion_control", m->congestion);
    read_line("/proc/sys/net/ipv4/tcp_allowed_congestion_control", m->congestion_allowed);
    try_cma(m);
}
