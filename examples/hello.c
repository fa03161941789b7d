/* All ranks compute the sum of their rank numbers. Run it: tutti run -n 4 -- ./hello */
#include <stdio.h>
#include <tutti/tutti.h>

int main(void)
{
    tutti_comm *comm;
    float mine, sum;

    if (tutti_comm_create(&comm, NULL))     /* rank and addresses are read from the launcher's
                                               environment */
        return 1;                           /* Tutti has logged the error to stderr;
                                               tutti_last_error() returns it */
    mine = (float)tutti_comm_rank(comm);
    if (tutti_allreduce(&mine, &sum, 1, TUTTI_F32, TUTTI_SUM, comm, NULL))
        return 1;
    printf("rank %d of %d: the sum is %g\n", tutti_comm_rank(comm), tutti_comm_size(comm), sum);
    tutti_comm_destroy(comm);
    return 0;
}
