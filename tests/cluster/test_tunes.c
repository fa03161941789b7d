/* Tune files in a job: all ranks select by rank 0's file, also in split communicators with the
 * placement of the file. For other calls they select as without a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "comm/comm.h"
#include "job.h"
#include "support/unit.h"

#define SEED 20261121
#define NRANKS 4u
#define COUNT 4096u

/* Writes one row: an algorithm and segments that are never selected by default. */
static void write_file(const struct rank *r, char path[64], uint32_t nranks, const char *wires)
{
    FILE *f;
    int fd;

    strcpy(path, "/tmp/tutti-tune-XXXXXX");
    fd = mkstemp(path);
    f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f)
        job_fail(r, __FILE__, __LINE__, "cannot write %s", path);
    fprintf(f,
            "{\"format\": \"tutti-tune-1\", \"tutti\": \"0.1.0\", \"date\": \"today\", \"host\": "
            "\"here\", \"wires\": \"%s\",\n"
            "\"ranks\": %u, \"hosts\": [0",
            wires, nranks);
    for (uint32_t i = 1; i < nranks; i++)
        fputs(", 0", f);
    fputs("], \"complete\": true, \"rows\": [{\"coll\": \"allreduce\", \"bytes\": 1024, \"algo\": "
          "\"allreduce_dtree\", "
          "\"segment_bytes\": 32768, \"streams\": 3, \"depth\": 2, \"lanes\": 2, \"median_us\": 1, "
          "\"min_us\": 1, \"max_us\": 1, \"rounds\": 1}]}\n",
          f);
    fclose(f);
}

/* Returns the plan of an all-reduce, after checking its result. */
static const struct tt_plan *plan_of(struct rank *r, tutti_comm *comm)
{
    const struct tt_coll c = { .kind = TT_ALLREDUCE,
                               .rank = comm->rank,
                               .nranks = comm->nranks,
                               .elem_bytes = 4,
                               .bytes = 4 * COUNT,
                               .layout = &comm->layout };
    static float mine[COUNT], sum[COUNT];
    struct tt_plan *plan = NULL;

    for (uint32_t i = 0; i < COUNT; i++)
        mine[i] = (float)(comm->rank + i);
    CHECK_OK(r, tutti_allreduce(mine, sum, COUNT, TUTTI_F32, TUTTI_SUM, comm, NULL));
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK(r, sum[i] == (float)(comm->nranks * i + comm->nranks * (comm->nranks - 1) / 2));
    CHECK_OK(r, tt_plan_of(comm, &c, NULL, &plan));
    return plan;
}

static void check_tuned(struct rank *r, tutti_comm *comm)
{
    const struct tt_plan *plan = plan_of(r, comm);

    CHECK(r, comm->tune && plan->tuned);
    CHECK(r, strcmp(plan->algo->name, "allreduce_dtree") == 0);
    CHECK(r, plan->segment_bytes == 32768 && plan->streams == 3 && plan->depth == 2 &&
                 plan->lanes == 2);
}

static void check_untuned(struct rank *r, tutti_comm *comm)
{
    CHECK(r, !comm->tune && !plan_of(r, comm)->tuned);
}

struct expectation {
    uint32_t nranks;        /* of the file */
    bool whole, halves;     /* which of these communicators are tuned */
};

static void choose_as_rank_0_was_told(struct rank *r)
{
    const struct expectation *e = r->job->arg;
    tutti_comm *half = NULL;
    char path[64] = "";

    if (r->rank == 0) {     /* other ranks have no file */
        write_file(r, path, e->nranks, r->job->wires);
        setenv("TUTTI_TUNE_FILE", path, 1);
    }
    job_open(r);
    if (r->rank == 0)
        unlink(path);
    (e->whole ? check_tuned : check_untuned)(r, r->comm);
    CHECK_OK(r, tutti_comm_split(r->comm, (int)(r->rank % 2), 0, &half));
    (e->halves ? check_tuned : check_untuned)(r, half);
    tutti_comm_destroy(half);
}

static void run(const struct expectation *e)
{
    static const char *const wires[] = { "shm", "tcp" };

    for (size_t w = 0; w < 2; w++) {
        const struct job job = {
            .wires = wires[w], .nranks = NRANKS, .seed = job_seed(SEED), .arg = e
        };

        job_run(&job, choose_as_rank_0_was_told);
    }
}

static void all_ranks_use_rank_0s_file(void **state)
{
    (void)state;
    run(&(struct expectation){ .nranks = NRANKS, .whole = true });
}

static void part_with_matching_placement_is_tuned(void **state)
{
    (void)state;
    run(&(struct expectation){ .nranks = NRANKS / 2, .halves = true });
}

static void file_for_other_ranks_is_ignored(void **state)
{
    (void)state;
    run(&(struct expectation){ .nranks = NRANKS + 1 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_use_rank_0s_file),
        cmocka_unit_test(part_with_matching_placement_is_tuned),
        cmocka_unit_test(file_for_other_ranks_is_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
