/* Prints "R:N" after start-up: this is rank R, with connections to N others. Then calls a barrier
 * and ends. */
#include <stdio.h>
#include "tutti/tutti.h"

int main(void)
{
    tutti_memory memory = { .size = sizeof memory };
    tutti_comm *comm;

    if (tutti_comm_create(&comm, NULL) || tutti_comm_memory(comm, &memory)) {
        printf("failed: %s\n", tutti_last_error());
        return 1;
    }
    printf("%d:%u\n", tutti_comm_rank(comm), memory.connected);
    if (tutti_barrier(comm, NULL))
        return 1;
    tutti_comm_destroy(comm);
    return 0;
}
