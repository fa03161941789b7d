/* The program that bench/run start compares with examples/hello: one all-reduce of a float. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    float mine, sum;
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    mine = (float)rank;
    MPI_Allreduce(&mine, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d: the sum is %g\n", rank, size, (double)sum);
    MPI_Finalize();
    return 0;
}
