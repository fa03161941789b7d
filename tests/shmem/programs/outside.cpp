// The header in C++: typed names, symmetric globals of a class, and a reduction of complex numbers.
#include <shmem.h>
#include <cstdio>

struct Counter {
    long value;
    void add(long n, int pe)
    {
        shmem_long_atomic_add(&value, n, pe);
    }
};

static Counter counter;
static double part[2] = { 1, 2 }, whole[2];

int main()
{
    shmem_init();
    const int npes = shmem_n_pes();

    counter.add(3, 0);
    shmem_barrier_all();
    if (shmem_double_sum_reduce(SHMEM_TEAM_WORLD, whole, part, 2) != 0 || whole[1] != 2 * npes)
        shmem_global_exit(3);
    if (shmem_long_g(&counter.value, 0) != 3 * npes)
        shmem_global_exit(4);
    if (shmem_my_pe() == 0)
        std::printf("%ld from C++\n", counter.value);
    shmem_finalize();
    return 0;
}
