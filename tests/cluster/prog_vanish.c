/* Two ranks whose hosts lose their connection. Rank 0 waits for a message of rank 1, which computes
 * forever:
 *   prog_vanish          as above
 *   prog_vanish busy     rank 0 sends, and rank 1 receives
 * Each prints "ready" after start-up, and the status and its message on an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tutti/tutti.h"

#define BYTES ((size_t)1 << 20)

static tutti_status transfer(tutti_comm *comm, void *mem, int busy)
{
    const int rank = tutti_comm_rank(comm);

    if (!busy && rank == 1) {
        usleep(100000);
        return tutti_comm_status(comm);
    }
    return (rank == 0) == !!busy ? tutti_send(mem, BYTES, TUTTI_U8, !rank, comm, NULL)
                                 : tutti_recv(mem, BYTES, TUTTI_U8, !rank, comm, NULL);
}

int main(int argc, char **argv)
{
    const int busy = argc > 1 && strcmp(argv[1], "busy") == 0;
    void *mem = calloc(1, BYTES);
    tutti_comm *comm;
    tutti_status st;

    if (!mem || tutti_comm_create(&comm, NULL) || tutti_barrier(comm, NULL)) {
        printf("failed: %s\n", tutti_last_error());
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    do
        st = transfer(comm, mem, busy);
    while (st == TUTTI_OK);
    printf("%s: %s\n", tutti_status_name(st), tutti_last_error());
    tutti_comm_destroy(comm);
    free(mem);
    return 0;
}
