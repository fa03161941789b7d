/* Creates two communicators in sequence, with connections between all ranks. In between each rank
 * waits until it has argv[1] connections, and prints the number of free descriptors. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <tutti/tutti.h>
#include <unistd.h>

#define COUNT 65536
#define FDS 4096

static int count_free(void)
{
    int fds[FDS], n = 0;

    while (n < FDS && (fds[n] = dup(STDERR_FILENO)) >= 0)
        n++;
    for (int i = 0; i < n; i++)
        close(fds[i]);
    return n;
}

/* Counts connections to other processes. */
static int count_connections(void)
{
    int n = 0;

    for (int fd = 3; fd < FDS; fd++) {
        struct sockaddr_storage peer;
        socklen_t bytes = sizeof peer;

        n += getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.ss_family != AF_UNIX;
    }
    return n;
}

static tutti_status talk(tutti_comm *comm)
{
    const size_t n = COUNT * (size_t)tutti_comm_size(comm);
    float *src = calloc(n, sizeof *src), *dst = calloc(n, sizeof *dst);
    tutti_status st = src && dst ? TUTTI_OK : TUTTI_ERR_NOMEM;

    if (!st)
        st = tutti_alltoall(src, dst, COUNT, TUTTI_F32, comm, NULL);
    if (!st)
        st = tutti_barrier(comm, NULL);
    free(src);
    free(dst);
    return st;
}

int main(int argc, char **argv)
{
    const int wanted = argc > 1 ? atoi(argv[1]) : 0;
    tutti_comm *first, *second;

    if (tutti_comm_create(&first, NULL) || talk(first))
        return 1;
    while (count_connections() < wanted)
        usleep(1000);
    printf("free %d\n", count_free());
    fflush(stdout);
    if (tutti_barrier(first, NULL) || tutti_comm_create(&second, NULL) || talk(second) ||
        talk(first))
        return 1;
    printf("both\n");
    tutti_comm_destroy(second);
    tutti_comm_destroy(first);
    return 0;
}
