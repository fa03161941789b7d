/* A user's program that uses only the installed files: a single-rank job. */
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

int main(void)
{
    const tutti_conf conf = { .size = sizeof conf,
                              .rendezvous = "file:///nowhere/needed",
                              .nranks = 1 };
    float mine = 42, sum = 0;
    tutti_comm *comm;
    char header[32];

    snprintf(header, sizeof header, "%d.%d.%d", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
             TUTTI_VERSION_PATCH);
    if (strcmp(header, tutti_version()) != 0 || tutti_comm_create(&comm, &conf) ||
        tutti_allreduce(&mine, &sum, 1, TUTTI_F32, TUTTI_SUM, comm, NULL)) {
        fprintf(stderr, "header %s, library %s: %s\n", header, tutti_version(), tutti_last_error());
        return 1;
    }
    printf("tutti %s: %s of %s over %d rank is %g\n", tutti_version(), tutti_redop_name(TUTTI_SUM),
           tutti_dtype_name(TUTTI_F32), tutti_comm_size(comm), (double)sum);
    tutti_comm_destroy(comm);
    return sum != mine;
}
