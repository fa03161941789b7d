/* Writes the trace dumps of a simulated job to a directory:
 *
 *     prog_job DIRECTORY SEED FAULT TENSOR DATA EXPERT STAGES
 *
 * FAULT is a name as in job_fault_name. Prints the rank at fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/job_state.h"

static enum job_fault fault_of(const char *name)
{
    for (int f = 0; f < JOB_FAULTS; f++)
        if (strcmp(name, job_fault_name((enum job_fault)f)) == 0)
            return (enum job_fault)f;
    fprintf(stderr, "prog_job: unknown fault \"%s\"\n", name);
    exit(2);
}

static int write_dump(const struct job *j, const char *folder, uint32_t rank)
{
    char path[4096];
    size_t bytes;
    char *text = job_dump(j, rank, &bytes);
    FILE *f;
    int failed;

    if (!text)
        return 0;
    snprintf(path, sizeof path, "%s/tutti-trace.9f3c.%u.jsonl", folder, rank);
    f = fopen(path, "w");
    failed = !f || fwrite(text, 1, bytes, f) != bytes;
    failed |= f && fclose(f) != 0;
    free(text);
    if (failed)
        perror(path);
    return failed;
}

int main(int argc, char **argv)
{
    struct job_conf c = { .iterations = 2, .microbatches = 1 };
    struct job *j;
    int failed = 0;

    if (argc != 8) {
        fprintf(stderr, "usage: prog_job DIRECTORY SEED FAULT TENSOR DATA EXPERT STAGES\n");
        return 2;
    }
    c.seed = strtoull(argv[2], NULL, 10);
    c.fault = fault_of(argv[3]);
    c.tensor = (uint32_t)atoi(argv[4]);
    c.data = (uint32_t)atoi(argv[5]);
    c.expert = (uint32_t)atoi(argv[6]);
    c.stages = (uint32_t)atoi(argv[7]);
    if (c.tensor == 0 || c.data == 0 || c.expert == 0 || c.data % c.expert != 0 || c.stages == 0 ||
        c.stages > STAGES_MAX) {
        fprintf(stderr,
                "prog_job: invalid shape %s, %s, %s, %s (EXPERT must divide DATA, and STAGES be 1 "
                "to %d)\n",
                argv[4], argv[5], argv[6], argv[7], STAGES_MAX);
        return 2;
    }
    j = job_create(&c);
    if (!j)
        return 1;
    printf("rank %u\n", job_culprit(j));
    for (uint32_t rank = 0; rank < job_nranks(j) && !failed; rank++)
        failed = write_dump(j, argv[1], rank);
    job_destroy(j);
    return failed;
}
