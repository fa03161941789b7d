#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "boot/boot.h"
#include "support/unit.h"

#define VARS_MAX 12

/* The environment returned by `get`: "NAME=value". */
static const char *const *environment;

static const char *get(const char *name)
{
    const size_t n = strlen(name);

    for (size_t i = 0; i < VARS_MAX && environment[i]; i++)
        if (strncmp(environment[i], name, n) == 0 && environment[i][n] == '=')
            return environment[i] + n + 1;
    return NULL;
}

static tutti_status read_in(const char *const *vars, const tutti_conf *conf, struct tt_launch *out)
{
    environment = vars;
    return tt_launch_read(out, conf, get);
}

static void launcher_variables_define_the_rank(void **state)
{
    static const struct {
        const char *vars[VARS_MAX];
        const char *launcher;
        uint32_t rank, nranks;
        const char *rendezvous;     /* NULL: not checked */
    } cases[] = {
        { { NULL }, "single", 0, 1, "" },
        { { "TUTTI_RANK=2", "TUTTI_SIZE=3", "TUTTI_RENDEZVOUS=tcp://h:1" }, "tutti", 2, 3, "tcp://h:1" },
        { { "TUTTI_RANK=0", "TUTTI_SIZE=1" }, "tutti", 0, 1, "" },
        { { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4" }, "openmpi", 1, 4, "" },
        { { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "TUTTI_RENDEZVOUS=file:///x" }, "openmpi", 1, 4, "file:///x" },
        { { "PMI_RANK=3", "PMI_SIZE=4" }, "mpich", 3, 4, "" },
        { { "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_ID=0", "PMI_FD=7" }, "slurm", 1, 2, "" },
        /* a batch script without a step */
        { { "SLURM_PROCID=0", "SLURM_NTASKS=2" }, "single", 0, 1, "" },
        { { "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=10.0.0.7", "MASTER_PORT=29500" }, "torchrun", 1, 2, NULL },
        { { "RANK=captain" }, "single", 0, 1, "" },                          /* a common name */
        { { "WORLD_SIZE=1" }, "single", 0, 1, "" },
        /* the shell of salloc */
        { { "SLURM_NTASKS=4", "SLURM_JOB_ID=7" }, "single", 0, 1, "" },
        { { "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_ID=4294967290", "SLURM_NTASKS=8" }, "slurm", 0, 1, "" },
        { { "MASTER_ADDR=h", "MASTER_PORT=29500" }, "single", 0, 1, "" },
        { { "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "RANK=5", "WORLD_SIZE=8", "TORCHELASTIC_RUN_ID=x",
            "MASTER_ADDR=h", "MASTER_PORT=29500" },
          "torchrun", 5, 8, NULL },                                           /* torchrun under mpirun */
        { { "JOB_COMPLETION_INDEX=3", "TUTTI_RANK=0", "TUTTI_SIZE=1" }, "tutti", 0, 1, "" },
        { { "JOB_COMPLETION_INDEX=3", "TUTTI_SIZE=4", "TUTTI_RENDEZVOUS=tcp://job-0.svc:29401" },
          "kubernetes", 3, 4, "tcp://job-0.svc:29401" },
        { { "JOB_COMPLETION_INDEX=0", "TUTTI_SIZE=1" }, "kubernetes", 0, 1, "" },
        { { "JOB_COMPLETION_INDEX=1", "WORLD_SIZE=2", "MASTER_ADDR=set-workers-0-0.set", "MASTER_PORT=3389" },
          "kubernetes", 1, 2, NULL },
        { { "JOB_COMPLETION_INDEX=1", "TUTTI_SIZE=2", "RANK=5", "WORLD_SIZE=8", "TORCHELASTIC_RUN_ID=x",
            "MASTER_ADDR=h", "MASTER_PORT=29500" },
          "torchrun", 5, 8, NULL },                                           /* torchrun in each pod */
        { { "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_ID=0", "RANK=5", "WORLD_SIZE=8",
            "TORCHELASTIC_RUN_ID=x", "MASTER_ADDR=h", "MASTER_PORT=29500" },
          "torchrun", 5, 8, NULL },                                           /* torchrun under srun */
        { { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "TUTTI_RANK=0", "TUTTI_SIZE=2", "TUTTI_RENDEZVOUS=tcp://h:1" },
          "tutti", 0, 2, "tcp://h:1" },
    };
    struct tt_launch l;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("case %zu\n", i);
        assert_int_equal(read_in(cases[i].vars, NULL, &l), TUTTI_OK);
        assert_string_equal(l.launcher, cases[i].launcher);
        assert_int_equal(l.rank, cases[i].rank);
        assert_int_equal(l.nranks, cases[i].nranks);
        assert_int_equal(l.query, TT_QUERY_NONE);
        assert_int_equal(l.timeout_ms, 300000);
        if (cases[i].rendezvous)
            assert_string_equal(l.rendezvous, cases[i].rendezvous);
    }
}

/* Ranks per host are only a hint: a wrong value is not an error. */
static void launchers_provide_ranks_per_host(void **state)
{
    static const struct {
        const char *vars[VARS_MAX];
        uint32_t nlocal;
    } cases[] = {
        { { "TUTTI_RANK=1", "TUTTI_SIZE=8", "TUTTI_LOCAL_SIZE=4", "TUTTI_RENDEZVOUS=tcp://h:1" }, 4 },
        { { "TUTTI_RANK=1", "TUTTI_SIZE=8", "TUTTI_RENDEZVOUS=tcp://h:1" }, 0 },
        { { "TUTTI_RANK=1", "TUTTI_SIZE=8", "TUTTI_LOCAL_SIZE=9", "TUTTI_RENDEZVOUS=tcp://h:1" }, 0 },
        { { "TUTTI_RANK=1", "TUTTI_SIZE=8", "TUTTI_LOCAL_SIZE=-1", "TUTTI_RENDEZVOUS=tcp://h:1" }, 0 },
        { { "TUTTI_RANK=1", "TUTTI_SIZE=8", "TUTTI_LOCAL_SIZE=4x", "TUTTI_RENDEZVOUS=tcp://h:1" }, 0 },
        { { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2" }, 2 },
        { { "PMI_RANK=3", "PMI_SIZE=4", "MPI_LOCALNRANKS=4" }, 4 },
        { { "PMI_PORT=h:4711", "PMI_ID=2", "MPI_LOCALNRANKS=4" }, 4 },
        { { "RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=29500" }, 2 },
        /* torchrun under mpirun: ranks per host of torchrun, whose rank is used */
        { { "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=1", "RANK=5",
            "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4", "TORCHELASTIC_RUN_ID=x", "MASTER_ADDR=h", "MASTER_PORT=29500" },
          4 },
    };
    struct tt_launch l;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("case %zu\n", i);
        assert_int_equal(read_in(cases[i].vars, NULL, &l), TUTTI_OK);
        assert_int_equal(l.nlocal, cases[i].nlocal);
    }
}

static void server_may_define_the_size(void **state)
{
    static const struct {
        const char *vars[VARS_MAX];
        const char *launcher;
        uint32_t rank;
        enum tt_launch_query query;
        const char *rendezvous;
    } cases[] = {
        { { "PMIX_NAMESPACE=p@1", "PMIX_RANK=3", "PRTE_LAUNCHED=1" }, "prrte", 3, TT_QUERY_PMIX, "" },
        { { "PMIX_NAMESPACE=p@1", "PMIX_RANK=3" }, "pmix", 3, TT_QUERY_PMIX, "" },
        { { "PMIX_NAMESPACE=p@1", "PMIX_RANK=3", "TUTTI_RENDEZVOUS=tcp://h:1" }, "pmix", 3, TT_QUERY_PMIX, "tcp://h:1" },
        { { "PMI_PORT=h:4711", "PMI_ID=2" }, "mpich", 2, TT_QUERY_PMI_PORT, "" },
        /* prterun starts its daemons by srun: the Slurm variables describe these daemons */
        { { "PMIX_NAMESPACE=p@1", "PMIX_RANK=3", "PRTE_LAUNCHED=1", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2",
            "SLURM_STEP_ID=0" },
          "prrte", 3, TT_QUERY_PMIX, "" },
    };
    struct tt_launch l;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("case %zu\n", i);
        assert_int_equal(read_in(cases[i].vars, NULL, &l), TUTTI_OK);
        assert_string_equal(l.launcher, cases[i].launcher);
        assert_int_equal(l.rank, cases[i].rank);
        assert_int_equal(l.nranks, 0);
        assert_int_equal(l.query, cases[i].query);
        assert_string_equal(l.rendezvous, cases[i].rendezvous);
    }
}

/* The worst result would be that each rank silently runs as a single-rank job. */
static void incomplete_launcher_variables_are_refused(void **state)
{
    static const struct {
        const char *vars[VARS_MAX];
        const char *says[3];
    } cases[] = {
        { { "OMPI_COMM_WORLD_RANK=0" }, { "OMPI_COMM_WORLD_RANK is \"0\"", "OMPI_COMM_WORLD_SIZE is not set", "Open MPI" } },
        { { "OMPI_COMM_WORLD_SIZE=2" }, { "OMPI_COMM_WORLD_SIZE is \"2\"", "OMPI_COMM_WORLD_RANK is not set", "Open MPI" } },
        { { "PMI_RANK=0", "PMI_FD=7" }, { "PMI_RANK is \"0\"", "PMI_SIZE is not set", "PMI" } },
        { { "PMI_SIZE=4" }, { "PMI_SIZE is \"4\"", "PMI_RANK is not set", "PMI" } },
        { { "PMI_FD=7" }, { "PMI_FD is \"7\"", "PMI_RANK is not set", "PMI" } },
        { { "PMI_ID=0" }, { "PMI_ID is \"0\"", "PMI_PORT is not set", "PMI" } },
        { { "PMI_PORT=h:1" }, { "PMI_PORT is \"h:1\"", "PMI_ID is not set", "PMI" } },
        { { "PMIX_RANK=0", }, { "PMIX_RANK is \"0\"", "PMIX_NAMESPACE is not set", "PMIx" } },
        { { "PMIX_NAMESPACE=n" }, { "PMIX_NAMESPACE is \"n\"", "PMIX_RANK is not set", "PMIx" } },
        { { "PMIX_SERVER_URI=u" }, { "PMIX_SERVER_URI is \"u\"", "PMIX_RANK is not set", "PMIx" } },
        { { "PMIX_SERVER_URI2=u" }, { "PMIX_SERVER_URI2 is \"u\"", "PMIX_RANK is not set", "PMIx" } },
        { { "PMIX_SERVER_URI21=u" }, { "PMIX_SERVER_URI21 is \"u\"", "PMIX_RANK is not set", "PMIx" } },
        { { "PMIX_SERVER_URI3=u" }, { "PMIX_SERVER_URI3 is \"u\"", "PMIX_RANK is not set", "PMIx" } },
        { { "PMIX_SERVER_URI4=u" }, { "PMIX_SERVER_URI4 is \"u\"", "PMIX_RANK is not set", "PMIx" } },
        { { "PMIX_SERVER_URI41=u" }, { "PMIX_SERVER_URI41 is \"u\"", "PMIX_RANK is not set", "PMIx" } },
        { { "PMIX_SERVER_URI4=u", "PMIX_RANK=0" }, { "PMIX_RANK is \"0\"", "PMIX_NAMESPACE is not set", "PMIx" } },
        { { "PMIX_RANK=" }, { "PMIX_RANK is \"\"", "PMIX_NAMESPACE is not set", "PMIx" } },
        { { "OMPI_COMM_WORLD_RANK=" }, { "OMPI_COMM_WORLD_RANK is \"\"", "OMPI_COMM_WORLD_SIZE is not set", "Open MPI" } },
        { { "PALS_SIZE=" }, { "PALS_SIZE is \"\"", "Cray PALS", "TUTTI_SIZE" } },
        { { "SLURM_PROCID=3", "SLURM_NTASKS=4" }, { "SLURM_PROCID is \"3\"", "SLURM_STEP_ID is not set", "srun" } },
        { { "SLURM_PROCID=0", "SLURM_STEP_ID=0" }, { "SLURM_PROCID is \"0\"", "SLURM_STEP_NUM_TASKS is not set", "srun" } },
        { { "SLURM_STEP_NUM_TASKS=4" }, { "SLURM_STEP_NUM_TASKS is \"4\"", "SLURM_PROCID is not set", "srun" } },
        { { "RANK=0" }, { "RANK is \"0\"", "WORLD_SIZE is not set", "torchrun" } },
        { { "WORLD_SIZE=2" }, { "WORLD_SIZE is \"2\"", "RANK is not set", "torchrun" } },
        { { "TORCHELASTIC_RUN_ID=x" }, { "TORCHELASTIC_RUN_ID is \"x\"", "RANK is not set", "torchrun" } },
        { { "PALS_RANKID=0" }, { "PALS_RANKID is \"0\"", "Cray PALS", "TUTTI_SIZE" } },
        { { "PALS_SIZE=4" }, { "PALS_SIZE is \"4\"", "Cray PALS", "TUTTI_SIZE" } },
        { { "ALPS_APP_PE=0" }, { "ALPS_APP_PE is \"0\"", "Cray ALPS", "TUTTI_SIZE" } },
        { { "MV2_COMM_WORLD_RANK=0" }, { "MV2_COMM_WORLD_RANK is \"0\"", "mpirun_rsh", "TUTTI_SIZE" } },
        { { "OMPI_COMM_WORLD_LOCAL_RANK=0" },
          { "OMPI_COMM_WORLD_LOCAL_RANK is \"0\"", "OMPI_COMM_WORLD_RANK is not set",
            "Open MPI" } },
        { { "MV2_COMM_WORLD_SIZE=2" },
          { "MV2_COMM_WORLD_SIZE is \"2\"", "mpirun_rsh", "TUTTI_SIZE" } },
        { { "JSM_NAMESPACE_SIZE=2" }, { "JSM_NAMESPACE_SIZE is \"2\"", "jsrun", "TUTTI_SIZE" } },
        { { "HOROVOD_SIZE=2" }, { "HOROVOD_SIZE is \"2\"", "horovodrun", "TUTTI_SIZE" } },
        { { "MPI_LOCALNRANKS=2" }, { "MPI_LOCALNRANKS is \"2\"", "hydra", "TUTTI_SIZE" } },
        { { "MPIRUN_RANK=0" }, { "MPIRUN_RANK is \"0\"", "mpirun_rsh", "TUTTI_SIZE" } },
        { { "JSM_NAMESPACE_RANK=0" }, { "JSM_NAMESPACE_RANK is \"0\"", "jsrun", "TUTTI_SIZE" } },
        { { "FLUX_TASK_RANK=0" }, { "FLUX_TASK_RANK is \"0\"", "Flux", "TUTTI_SIZE" } },
        { { "HOROVOD_RANK=0" }, { "HOROVOD_RANK is \"0\"", "horovodrun", "TUTTI_SIZE" } },
        { { "MPI_LOCALRANKID=0" }, { "MPI_LOCALRANKID is \"0\"", "hydra", "TUTTI_SIZE" } },
        { { "JOB_COMPLETION_INDEX=0" }, { "JOB_COMPLETION_INDEX is \"0\"", "Kubernetes", "TUTTI_SIZE" } },
    };
    struct tt_launch l;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("%s\n", cases[i].vars[0]);
        assert_int_equal(read_in(cases[i].vars, NULL, &l), TUTTI_ERR_INVALID);
        for (size_t k = 0; k < 3; k++)
            if (!strstr(tutti_last_error(), cases[i].says[k]))
                fail_msg("\"%s\" does not say \"%s\"", tutti_last_error(), cases[i].says[k]);
        assert_non_null(strstr(tutti_last_error(), "TUTTI_RENDEZVOUS=tcp://host:port"));
    }
}

static void contradiction_is_refused_with_names(void **state)
{
    static const struct {
        const char *vars[VARS_MAX];
        const char *says[3];
    } cases[] = {
        { { "TUTTI_RANK=1" }, { "TUTTI_RANK", "\"1\"", "TUTTI_SIZE" } },
        { { "TUTTI_SIZE=4" }, { "TUTTI_SIZE", "\"4\"", "TUTTI_RANK" } },
        { { "TUTTI_RANK=4", "TUTTI_SIZE=4" }, { "TUTTI_RANK is 4", "TUTTI_SIZE is 4", "0 to 3" } },
        { { "TUTTI_RANK=one", "TUTTI_SIZE=4" }, { "TUTTI_RANK", "\"one\"", "number" } },
        { { "TUTTI_RANK=-1", "TUTTI_SIZE=4" }, { "TUTTI_RANK", "\"-1\"", "number" } },
        { { "TUTTI_RANK=0", "TUTTI_SIZE=0" }, { "TUTTI_SIZE", "\"0\"", "number" } },
        { { "TUTTI_RANK=0", "TUTTI_SIZE=99999999999999999999" }, { "TUTTI_SIZE", "9999", "number" } },
        { { "TUTTI_RANK=0", "TUTTI_SIZE=2" }, { "rank 0 of 2", "TUTTI_RENDEZVOUS=tcp://host:port", "no rendezvous address" } },
        { { "TUTTI_RANK=0", "TUTTI_SIZE=2", "TUTTI_RENDEZVOUS=h:1" }, { "\"h:1\"", "tcp://host:port", "file:///path" } },
        { { "TUTTI_RENDEZVOUS=tcp://h:1" }, { "tcp://h:1", "TUTTI_RANK", "TUTTI_SIZE" } },
        { { "TUTTI_RANK=0", "TUTTI_SIZE=2", "TUTTI_RENDEZVOUS=http://h" }, { "http://h", "tcp://", "file://" } },
        { { "TUTTI_RANK=0", "TUTTI_SIZE=1", "TUTTI_TIMEOUT_MS=soon" }, { "TUTTI_TIMEOUT_MS", "\"soon\"", "must be" } },
        { { "TUTTI_RANK=0", "TUTTI_SIZE=1", "TUTTI_TIMEOUT_MS=0" }, { "TUTTI_TIMEOUT_MS", "\"0\"", "-1 (none)" } },
        { { "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h" }, { "RANK", "MASTER_PORT", "TUTTI_RENDEZVOUS" } },
        { { "JOB_COMPLETION_INDEX=0", "TUTTI_SIZE=2" }, { "JOB_COMPLETION_INDEX", "MASTER_ADDR", "TUTTI_RENDEZVOUS" } },
        { { "JOB_COMPLETION_INDEX=4", "TUTTI_SIZE=4" }, { "JOB_COMPLETION_INDEX is 4", "TUTTI_SIZE is 4", "0 to 3" } },
        { { "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_ID=0" }, { "srun", "SLURM_STEP_NODELIST", "TUTTI_RENDEZVOUS" } },
    };
    struct tt_launch l;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("case %zu\n", i);
        assert_int_equal(read_in(cases[i].vars, NULL, &l), TUTTI_ERR_INVALID);
        for (size_t k = 0; k < 3; k++)
            if (!strstr(tutti_last_error(), cases[i].says[k]))
                fail_msg("\"%s\" does not say \"%s\"", tutti_last_error(), cases[i].says[k]);
    }
}

static void the_conf_wins_over_the_environment(void **state)
{
    static const char *const vars[VARS_MAX] = {
        "TUTTI_RANK=0",       "TUTTI_SIZE=2",    "TUTTI_RENDEZVOUS=tcp://h:1", "TUTTI_TOKEN=e",
        "TUTTI_TIMEOUT_MS=7", "TUTTI_WIRES=shm", "TUTTI_INTERFACES=eth"
    };
    const tutti_conf conf = { .size = sizeof conf,
                              .rendezvous = "file:///y",
                              .nranks = 5,
                              .rank = 4,
                              .token = "c",
                              .timeout_ms = -3,
                              .wires = "tcp",
                              .interfaces = "=lo" };
    struct tt_launch l;

    (void)state;
    assert_int_equal(read_in(vars, &conf, &l), TUTTI_OK);
    assert_string_equal(l.launcher, "conf");
    assert_int_equal(l.rank, 4);
    assert_int_equal(l.nranks, 5);
    assert_string_equal(l.rendezvous, "file:///y");
    assert_string_equal(l.token, "c");
    assert_int_equal(l.timeout_ms, -1);
    assert_string_equal(l.wires, "tcp");
    assert_string_equal(l.interfaces, "=lo");

    assert_int_equal(read_in(vars, NULL, &l), TUTTI_OK);
    assert_string_equal(l.token, "e");
    assert_int_equal(l.timeout_ms, 7);
    assert_string_equal(l.wires, "shm");
    assert_string_equal(l.interfaces, "eth");
}

/* The store of torch listens on MASTER_PORT, and the stores of other jobs on adjacent ports. */
static void torchrun_port_is_derived_per_restart(void **state)
{
    static const char *const first[VARS_MAX] = { "RANK=0",
                                                 "WORLD_SIZE=2",
                                                 "MASTER_ADDR=fd00::7",
                                                 "MASTER_PORT=29500",
                                                 "TORCHELASTIC_RUN_ID=a",
                                                 "TORCHELASTIC_RESTART_COUNT=0" };
    static const char *const again[VARS_MAX] = { "RANK=1",
                                                 "WORLD_SIZE=2",
                                                 "MASTER_ADDR=fd00::7",
                                                 "MASTER_PORT=29500",
                                                 "TORCHELASTIC_RUN_ID=a",
                                                 "TORCHELASTIC_RESTART_COUNT=1" };
    struct tt_launch a, b;
    unsigned port;
    char rest;

    (void)state;
    assert_int_equal(read_in(first, NULL, &a), TUTTI_OK);
    assert_int_equal(read_in(again, NULL, &b), TUTTI_OK);
    assert_int_equal(sscanf(a.rendezvous, "tcp://[fd00::7]:%u%c", &port, &rest), 1);
    assert_in_range(port, 10240, 32767);
    assert_int_not_equal(port, 29500);
    assert_string_equal(a.rendezvous_from,
                        "MASTER_ADDR with a port derived from MASTER_PORT=29500");
    assert_string_not_equal(a.rendezvous, b.rendezvous);
    assert_string_not_equal(a.token, b.token);
    assert_string_not_equal(a.token, "");
}

static void srun_uses_the_first_step_node(void **state)
{
    static const char *const lists[][2] = {
        { "node7", "tcp://node7:" }, { "node[03-07,09],x", "tcp://node03:" }, { "a,b", "tcp://a:" }, { "n[12]", "tcp://n12:" },
    };
    struct tt_launch l;

    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char nodes[64];
        const char *const vars[VARS_MAX] = { "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2",
                                             "SLURM_STEP_ID=0", "SLURM_JOB_ID=9", nodes };

        snprintf(nodes, sizeof nodes, "SLURM_STEP_NODELIST=%s", lists[i][0]);
        assert_int_equal(read_in(vars, NULL, &l), TUTTI_OK);
        assert_memory_equal(l.rendezvous, lists[i][1], strlen(lists[i][1]));
    }
}

static void failure_writes_no_output(void **state)
{
    static const char *const vars[VARS_MAX] = { "TUTTI_RANK=1" };
    struct tt_launch l, before;

    (void)state;
    memset(&l, 0x5a, sizeof l);
    before = l;
    assert_int_equal(read_in(vars, NULL, &l), TUTTI_ERR_INVALID);
    assert_memory_equal(&l, &before, sizeof l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launcher_variables_define_the_rank),
        cmocka_unit_test(launchers_provide_ranks_per_host),
        cmocka_unit_test(server_may_define_the_size),
        cmocka_unit_test(incomplete_launcher_variables_are_refused),
        cmocka_unit_test(contradiction_is_refused_with_names),
        cmocka_unit_test(the_conf_wins_over_the_environment),
        cmocka_unit_test(torchrun_port_is_derived_per_restart),
        cmocka_unit_test(srun_uses_the_first_step_node),
        cmocka_unit_test(failure_writes_no_output),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
