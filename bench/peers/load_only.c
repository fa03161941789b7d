/* load_only: loads the libraries of a Tutti program, and exits.
 * load_only N: starts N processes of load_only at once, and waits for them. This is the lower bound
 * of the time to start N processes on this machine. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tutti/tutti.h>

static int start_all(const char *self, unsigned long n)
{
    int status, failed = 0;

    for (unsigned long i = 0; i < n; i++) {
        const pid_t pid = fork();

        if (pid < 0) {
            perror("load_only: fork");
            return 1;
        }
        if (pid == 0) {
            execl(self, self, (char *)NULL);
            _exit(127);
        }
    }
    while (wait(&status) > 0)
        failed |= status != 0;
    if (failed)
        fprintf(stderr, "load_only: a process failed\n");
    return failed;
}

int main(int argc, char **argv)
{
    char self[4096];
    ssize_t bytes;
    unsigned long n;
    char *end;

    if (argc < 2)
        return tutti_version() == NULL;
    n = strtoul(argv[1], &end, 10);
    bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    if (*end != '\0' || n < 1 || n > 100000 || bytes < 0) {
        fprintf(stderr, "usage: load_only [number of processes]\n");
        return 2;
    }
    self[bytes] = '\0';
    return start_all(self, n);
}
