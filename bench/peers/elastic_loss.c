/* The cost of a loss: a member that repeats an all-reduce in mode TUTTI_RETRY, and prints the
 * duration of each.
 *
 *   elastic_loss COORDINATOR MEMBERS BYTES
 *
 * Prints one line per operation: contributors, attempts, microseconds. Exits at the end of its
 * standard input. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <tutti/elastic.h>

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void check(tutti_status status, const char *call)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "elastic_loss: %s: %s\n", call, tutti_last_error());
    exit(1);
}

static int is_over(void)
{
    char byte;

    return read(STDIN_FILENO, &byte, 1) == 0;
}

int main(int argc, char **argv)
{
    const tutti_run_conf conf = { .size = sizeof(conf),
                                  .coordinators = argc > 1 ? argv[1] : NULL,
                                  .wires = "tcp" };
    const size_t count = argc > 3 ? (size_t)atoll(argv[3]) / sizeof(float) : 0;
    const int members = argc > 2 ? atoi(argv[2]) : 0;
    float *src = malloc(count * sizeof(*src)), *dst = malloc(count * sizeof(*dst));
    tutti_elastic op = { .size = sizeof(op),
                         .coll = TUTTI_ALLREDUCE,
                         .src = src,
                         .dst = dst,
                         .count = count,
                         .type = TUTTI_F32,
                         .op = TUTTI_SUM,
                         .mode = TUTTI_RETRY };
    tutti_view view = { .size = sizeof(view) };
    tutti_run *run;
    int over = 0;

    if (argc != 4 || members < 1 || !count || !src || !dst) {
        fprintf(stderr, "usage: elastic_loss COORDINATOR MEMBERS BYTES\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
    for (size_t i = 0; i < count; i++)
        src[i] = 1;
    check(tutti_run_join(&run, &conf), "tutti_run_join");
    check(tutti_run_epoch(run, TUTTI_ADMIT, (uint32_t)members, 0, 0, &view), "tutti_run_epoch");
    while (!over) {
        const double t0 = now_us();

        src[0] = is_over() ? 0 : 1;     /* the sum shows all members that the run is over */
        check(tutti_run_collective(run, &op), "tutti_run_collective");
        printf("%u %u %.1f\n", op.contributors, op.attempts, now_us() - t0);
        for (size_t i = 1; i < count; i++)
            if (dst[i] != (float)op.contributors) {
                fprintf(stderr, "elastic_loss: element %zu is %g of %u members\n", i, dst[i],
                        op.contributors);
                return 1;
            }
        over = dst[0] < (float)op.contributors;
    }
    tutti_run_destroy(run);
    return 0;
}
