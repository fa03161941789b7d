#include "both_isas.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "reduce/reduce.h"

static int in_a_process(int (*tests)(void), const char *simd)
{
    int status;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        if (simd)
            setenv("TUTTI_SIMD", simd, 1);
        printf("# kernels: %s\n", tt_reduce_isa());
        exit(tests() != 0);
    }
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

int both_isas(int (*tests)(void))
{
    return in_a_process(tests, "portable") + in_a_process(tests, NULL);
}
