/* Runs a command with failing system calls, as with a container's filter or an old kernel:
 *
 *     prog_without NAME[=ERROR]... -- COMMAND [ARGUMENT]...
 *
 * NAME is a system call and ERROR an errno of the tables below; the default is ENOSYS. The filter
 * applies to all processes started by the command. Exit status: the command's; 2 for an invalid
 * argument; 77 if the kernel supports no filter. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NAMES_MAX = 32, FILTER_MAX = 3 + 2 * NAMES_MAX };

#define CALL(name) { #name, SYS_##name }
static const struct {
    const char *name;
    int number;
} calls[] = {
    CALL(accept4),
    CALL(epoll_create1),
    CALL(eventfd2),
    CALL(fallocate),
    CALL(ftruncate),
    CALL(getrandom),
    CALL(madvise),
    CALL(membarrier),
    CALL(memfd_create),
    CALL(pidfd_open),
    CALL(pipe2),
    CALL(prctl),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(sched_getaffinity),
    CALL(sched_setaffinity),
    CALL(setpgid),
    CALL(setsid),
    CALL(signalfd4),
    CALL(timerfd_create),
    CALL(userfaultfd),
    CALL(kcmp),
    CALL(getcpu),
    CALL(clone3),
    CALL(rseq),
    CALL(prlimit64),
    CALL(statx),
};

#define ERROR(name) { #name, name }
static const struct {
    const char *name;
    unsigned number;
} errors[] = {
    ERROR(EACCES), ERROR(EINTR), ERROR(EINVAL), ERROR(EMFILE),
    ERROR(ENOMEM), ERROR(ENOSPC), ERROR(ENOSYS), ERROR(EPERM),
};

/* Returns 0 if unknown. */
static unsigned error_of(const char *name)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(errors[i].name, name) == 0)
            return errors[i].number;
    return 0;
}

static int number_of(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strlen(calls[i].name) == bytes && memcmp(calls[i].name, name, bytes) == 0)
            return calls[i].number;
    return -1;
}

int main(int argc, char **argv)
{
    struct sock_filter filter[FILTER_MAX] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    struct sock_fprog program = { .filter = filter };
    unsigned short n = 1;
    int at;

    for (at = 1; at < argc && strcmp(argv[at], "--") != 0; at++) {
        const char *end = strchr(argv[at], '=');
        const int number = number_of(argv[at], end ? (size_t)(end - argv[at]) : strlen(argv[at]));
        const unsigned error = end ? error_of(end + 1) : ENOSYS;

        if (number < 0 || !error || n + 3 > FILTER_MAX) {
            fprintf(
                stderr,
                "prog_without: \"%s\": not NAME or NAME=ERROR of a known system call and errno\n",
                argv[at]);
            return 2;
        }
        filter[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
    }
    if (at + 1 >= argc) {
        fprintf(stderr, "usage: prog_without NAME[=ERROR]... -- COMMAND [ARGUMENT]...\n");
        return 2;
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program.len = n;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("prog_without: the filter");
        return 77;
    }
    execvp(argv[at + 1], argv + at + 1);
    perror(argv[at + 1]);
    return 127;
}
