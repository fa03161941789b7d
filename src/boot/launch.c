/* Reads rank, number of ranks and rendezvous from the conf and from the launcher's environment.
 * Pure over `get`. docs/launchers.md has the table for users; keep both consistent.
 *
 * Rank and number of ranks come from the first of these that is complete:
 *   conf                 nranks > 0
 *   tutti, or by hand    TUTTI_RANK, TUTTI_SIZE
 *   torchrun             RANK, WORLD_SIZE, with TORCHELASTIC_RUN_ID (may be under srun or mpirun)
 *   Open MPI's mpirun    OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
 *   PMI (MPICH's hydra)  PMI_RANK, PMI_SIZE
 *   PMI over a port      PMI_ID, with PMI_PORT; the server has rank and size
 *   PRRTE's prterun      PMIX_RANK, with PRTE_LAUNCHED; the PMIx server has the size
 *   Slurm's srun         SLURM_PROCID, SLURM_STEP_NUM_TASKS, with SLURM_STEP_ID
 *   another PMIx server  PMIX_RANK, with PMIX_NAMESPACE; the server has the size
 *   torch's variables    RANK, WORLD_SIZE
 * Otherwise the process is a single-rank job, unless a variable shows that a launcher started it.
 * Such a process fails: each rank would silently run as a separate job.
 *
 * The rendezvous comes from conf, then TUTTI_RENDEZVOUS, then the launcher:
 *   Open MPI, PMI, PMIx  its key-value space (rendezvous is then "")
 *   Slurm                the same if srun offers PMIx or PMI; else the first node of the step, with
 *                        a port and a token derived from the ids of job and step
 *   torchrun             MASTER_ADDR, with a port derived from MASTER_PORT, run id and restart
 *                        count. torch's own store listens at MASTER_PORT, and other jobs' stores
 *                        at ports near it. */
#include "boot/boot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/param.h"
#include "base/prng.h"
#include "base/status.h"

#define NRANKS_MAX (1u << 20)
#define DERIVED_PORT_FIRST \
    10240u /* above common service ports, below the kernel's
                                           ephemeral ports (32768) */
#define DERIVED_PORT_COUNT 22528u

typedef const char *(*getter)(const char *name);

/* Returns a variable, or NULL if it is missing or empty. */
static const char *var(getter get, const char *name)
{
    const char *text = get(name);

    return text && *text ? text : NULL;
}

/* A hint with the required form; an address without tcp:// is refused. */
#define SET_RENDEZVOUS "set TUTTI_RENDEZVOUS=tcp://host:port, where rank 0 listens"
#define SET_BOTH \
    "set TUTTI_RANK and TUTTI_SIZE, and TUTTI_RENDEZVOUS=tcp://host:port, where rank 0 listens"
#define SET_ALONE "for a single process set TUTTI_RANK=0 and TUTTI_SIZE=1"

/* Variables with rank, number of ranks, and number of ranks on this host. nranks NULL: the
 * launcher's server provides the number. `needs`: a variable that must also be set, or the row does
 * not apply. */
struct who {
    const char *launcher, *rank, *nranks, *nlocal, *needs;
    enum tt_launch_query query;
};

static const struct who launchers[] = {
    { "tutti", "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LOCAL_SIZE", NULL, TT_QUERY_NONE },
    { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", TT_QUERY_NONE },
    { "openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, TT_QUERY_NONE },
    { "mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", NULL, TT_QUERY_NONE },
    { "mpich", "PMI_ID", NULL, "MPI_LOCALNRANKS", "PMI_PORT", TT_QUERY_PMI_PORT },
    { "prrte", "PMIX_RANK", NULL, NULL, "PRTE_LAUNCHED", TT_QUERY_PMIX },
    { "slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, "SLURM_STEP_ID", TT_QUERY_NONE },
    { "pmix", "PMIX_RANK", NULL, NULL, "PMIX_NAMESPACE", TT_QUERY_PMIX },
    { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", NULL, TT_QUERY_NONE },
    { "kubernetes", "JOB_COMPLETION_INDEX", "TUTTI_SIZE", NULL, NULL, TT_QUERY_NONE },
    { "kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", NULL, NULL, TT_QUERY_NONE },
};

/* Values of a variable that show that a launcher started this process. SHOWS_SET: any value, even
 * an empty one. */
enum shows { SHOWS_SET, SHOWS_ANY, SHOWS_NUMBER, SHOWS_NOT_ONE, SHOWS_NOT_ZERO };

/* A launcher's variable that is not sufficient for start-up. Checked only if no row of `launchers`
 * is complete: then `lacks` is the missing variable. NULL: this launcher never provides the number
 * of ranks.
 *
 * Slurm: the script of a batch job has SLURM_PROCID=0 and SLURM_NTASKS, but no step; only srun
 * starts steps. Such a script is a single process, whatever the number of tasks of its job. The
 * same holds for the shell of salloc. Other programs use the short names RANK and WORLD_SIZE, too;
 * so only numeric values count. */
static const struct sign {
    const char *launcher, *set, *lacks;
    enum shows shows;
} signs[] = {
    { "tutti run", "TUTTI_RANK", "TUTTI_SIZE", SHOWS_ANY },
    { "tutti run", "TUTTI_SIZE", "TUTTI_RANK", SHOWS_ANY },
    { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", SHOWS_SET },
    { "Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", SHOWS_SET },
    { "Open MPI", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK", SHOWS_SET },
    { "a PMI launcher", "PMI_RANK", "PMI_SIZE", SHOWS_SET },
    { "a PMI launcher", "PMI_SIZE", "PMI_RANK", SHOWS_SET },
    { "a PMI launcher", "PMI_ID", "PMI_PORT", SHOWS_SET },
    { "a PMI launcher", "PMI_PORT", "PMI_ID", SHOWS_SET },
    { "a PMI launcher", "PMI_FD", "PMI_RANK", SHOWS_SET },
    { "a PMIx launcher", "PMIX_RANK", "PMIX_NAMESPACE", SHOWS_SET },
    { "a PMIx launcher", "PMIX_NAMESPACE", "PMIX_RANK", SHOWS_SET },
    { "a PMIx launcher", "PMIX_SERVER_URI", "PMIX_RANK", SHOWS_SET },
    { "a PMIx launcher", "PMIX_SERVER_URI2", "PMIX_RANK", SHOWS_SET },
    { "a PMIx launcher", "PMIX_SERVER_URI21", "PMIX_RANK", SHOWS_SET },
    { "a PMIx launcher", "PMIX_SERVER_URI3", "PMIX_RANK", SHOWS_SET },
    { "a PMIx launcher", "PMIX_SERVER_URI4", "PMIX_RANK", SHOWS_SET },
    { "a PMIx launcher", "PMIX_SERVER_URI41", "PMIX_RANK", SHOWS_SET },
    { "srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", SHOWS_NOT_ONE },
    { "srun", "SLURM_PROCID", "SLURM_STEP_ID", SHOWS_NOT_ZERO },
    { "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", SHOWS_NOT_ZERO },
    { "torchrun", "TORCHELASTIC_RUN_ID", "RANK", SHOWS_ANY },
    { "torchrun", "RANK", "WORLD_SIZE", SHOWS_NUMBER },
    { "torchrun", "WORLD_SIZE", "RANK", SHOWS_NOT_ONE },
    { "Cray PALS", "PALS_RANKID", NULL, SHOWS_SET },
    { "Cray PALS", "PALS_SIZE", NULL, SHOWS_SET },
    { "Cray ALPS", "ALPS_APP_PE", NULL, SHOWS_SET },
    { "mpirun_rsh of MVAPICH", "MV2_COMM_WORLD_RANK", NULL, SHOWS_SET },
    { "mpirun_rsh of MVAPICH", "MV2_COMM_WORLD_SIZE", NULL, SHOWS_SET },
    { "mpirun_rsh of MVAPICH", "MPIRUN_RANK", NULL, SHOWS_SET },
    { "jsrun", "JSM_NAMESPACE_RANK", NULL, SHOWS_SET },
    { "jsrun", "JSM_NAMESPACE_SIZE", NULL, SHOWS_SET },
    { "Flux", "FLUX_TASK_RANK", NULL, SHOWS_SET },
    { "horovodrun", "HOROVOD_RANK", NULL, SHOWS_SET },
    { "horovodrun", "HOROVOD_SIZE", NULL, SHOWS_SET },
    { "MPICH's hydra", "MPI_LOCALRANKID", NULL, SHOWS_SET },
    { "MPICH's hydra", "MPI_LOCALNRANKS", NULL, SHOWS_SET },
    { "an indexed Job of Kubernetes", "JOB_COMPLETION_INDEX", "TUTTI_SIZE", SHOWS_ANY },
};

static tutti_status read_number_variable(getter get, const char *name, int64_t min, int64_t max,
                                         int64_t *out)
{
    const char *text = get(name);
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || v < min || v > max)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s is \"%s\": must be a number from %" PRId64 " to %" PRId64, name, text,
                       min, max);
    *out = v;
    return TUTTI_OK;
}

/* Only a hint: invalid values are ignored. nranks 0: unknown. */
static uint32_t read_nlocal(const char *text, uint32_t nranks)
{
    char *end;
    unsigned long n;

    if (!text)
        return 0;
    n = strtoul(text, &end, 10);
    return *end == '\0' && n <= (nranks ? nranks : NRANKS_MAX) ? (uint32_t)n : 0;
}

/* Reads a complete row. With a query, nranks stays 0, and so does rank if only the server provides
 * it. */
static tutti_status read_launcher_row(struct tt_launch *out, const struct who *who, getter get)
{
    int64_t rank = 0, nranks = 0;
    tutti_status st = TUTTI_OK;

    if (who->nranks)
        st = read_number_variable(get, who->nranks, 1, NRANKS_MAX, &nranks);
    if (!st)
        st = read_number_variable(get, who->rank, 0, NRANKS_MAX - 1, &rank);
    if (st)
        return st;
    if (who->nranks && rank >= nranks)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s is %" PRId64 ", but %s is %" PRId64 ": must be 0 to %" PRId64, who->rank,
                       rank, who->nranks, nranks, nranks - 1);
    out->rank = (uint32_t)rank;
    out->nranks = (uint32_t)nranks;
    out->nlocal = who->nlocal ? read_nlocal(var(get, who->nlocal), out->nranks) : 0;
    out->launcher = who->launcher;
    out->query = who->query;
    return TUTTI_OK;
}

static bool is_complete(const struct who *who, getter get)
{
    return var(get, who->rank) && (!who->nranks || var(get, who->nranks)) &&
           (!who->needs || var(get, who->needs));
}

static bool shows(enum shows what, const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    const bool number = digits > 0 && text[digits] == '\0';

    switch (what) {
    case SHOWS_NUMBER:
        return number;
    case SHOWS_NOT_ONE:
        return number && strcmp(text, "1") != 0;
    case SHOWS_NOT_ZERO:
        return strcmp(text, "0") != 0;
    case SHOWS_SET:
    case SHOWS_ANY:
        break;
    }
    return true;
}

/* Slurm's first rank: a step ID shows that srun started the process, so SLURM_PROCID=0 is its
 * rank. */
static bool is_first_of_step(const struct sign *sign, getter get)
{
    return sign->lacks && strcmp(sign->lacks, "SLURM_STEP_NUM_TASKS") == 0 &&
           var(get, "SLURM_STEP_ID");
}

static tutti_status check_sign(const struct sign *sign, getter get)
{
    const char *text = sign->shows == SHOWS_SET ? get(sign->set) : var(get, sign->set);

    if (!text || (sign->lacks && var(get, sign->lacks)))
        return TUTTI_OK;
    if (!shows(sign->shows, text) && !is_first_of_step(sign, get))
        return TUTTI_OK;
    if (sign->lacks)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s is \"%s\", but %s is not set: %s started this process, and both are "
                       "needed (" SET_BOTH "; " SET_ALONE ")",
                       sign->set, text, sign->lacks, sign->launcher);
    return tt_fail(TUTTI_ERR_INVALID,
                   "%s is \"%s\": %s started this process, and no variable contains the rank and "
                   "the number of ranks (" SET_BOTH "; " SET_ALONE ")",
                   sign->set, text, sign->launcher);
}

static tutti_status read_rank_and_size(struct tt_launch *out, const tutti_conf *conf, getter get)
{
    tutti_status st = TUTTI_OK;

    if (conf && conf->nranks != 0) {
        if (conf->nranks < 0 || (uint32_t)conf->nranks > NRANKS_MAX || conf->rank < 0 ||
            conf->rank >= conf->nranks)
            return tt_fail(TUTTI_ERR_INVALID,
                           "conf.rank is %d and conf.nranks is %d: nranks must be 1 to %u, rank 0 "
                           "to nranks - 1",
                           conf->rank, conf->nranks, NRANKS_MAX);
        out->rank = (uint32_t)conf->rank;
        out->nranks = (uint32_t)conf->nranks;
        out->launcher = "conf";
        return TUTTI_OK;
    }
    /* Only one of Tutti's own pair of variables is an error under every launcher. Exception: in an
     * indexed Job of Kubernetes, the index is the rank, and TUTTI_SIZE alone is correct. */
    for (size_t i = 0; i < 2; i++)
        if (i == 0 || !var(get, "JOB_COMPLETION_INDEX"))
            st = st ? st : check_sign(&signs[i], get);
    if (st)
        return st;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (is_complete(&launchers[i], get))
            return read_launcher_row(out, &launchers[i], get);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        st = st ? st : check_sign(&signs[i], get);
    if (st)
        return st;
    out->rank = 0;
    out->nranks = 1;
    out->launcher = "single";
    return TUTTI_OK;
}

/* Copies the first of the two that is set, or "". `what` is its name in errors. */
static tutti_status read_text_setting(char *out, size_t cap, const char *from_conf,
                                      const char *from_env, const char *what)
{
    const char *text = from_conf ? from_conf : from_env ? from_env : "";

    if (strlen(text) >= cap)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s is too long: %zu characters (the maximum is %zu)",
                       what, strlen(text), cap - 1);
    memcpy(out, text, strlen(text) + 1);
    return TUTTI_OK;
}

static unsigned derived_port(const char *text)
{
    return DERIVED_PORT_FIRST +
           (unsigned)(tt_hash_bytes(text, strlen(text), 0) % DERIVED_PORT_COUNT);
}

/* Writes the first name of Slurm's compressed list: "node[03-07,09],other" gives node03. Returns
 * false if it is not such a list. */
static bool first_node(const char *list, char *out, size_t cap)
{
    const size_t stem = strcspn(list, "[,");
    const char *digits = list + stem + 1;
    const size_t n = list[stem] == '[' ? strcspn(digits, "-,]") : 0;

    if (stem + n == 0 || stem + n >= cap)
        return false;
    snprintf(out, cap, "%.*s%.*s", (int)stem, list, (int)n, n ? digits : "");
    return true;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* Writes tcp://host:port; an IPv6 address gets brackets. */
static tutti_status put_tcp(struct tt_launch *out, const char *host, unsigned port)
{
    const bool v6 = strchr(host, ':') && *host != '[';
    const int n = snprintf(out->rendezvous, sizeof out->rendezvous,
                           v6 ? "tcp://[%s]:%u" : "tcp://%s:%u", host, port);

    if (n < 0 || (size_t)n >= sizeof out->rendezvous)
        return tt_fail(TUTTI_ERR_INVALID,
                       "the host name \"%s\" is too long: the maximum is %zu characters", host,
                       sizeof out->rendezvous - sizeof "tcp://[]:65535");
    return TUTTI_OK;
}

/* This token is not a secret; it separates jobs that use the same port. */
static void default_token(struct tt_launch *out, const char *text)
{
    if (!*out->token)
        snprintf(out->token, sizeof out->token, "%016" PRIx64,
                 tt_hash_bytes(text, strlen(text), 1));
}

static tutti_status derive_slurm(struct tt_launch *out, getter get)
{
    const char *nodes = var(get, "SLURM_STEP_NODELIST");
    char text[256], node[200];

    if (var(get, "PMI_FD") || var(get, "PMI_PORT") || var(get, "PMIX_NAMESPACE"))
        return TUTTI_OK;
    if (!nodes || !first_node(nodes, node, sizeof node))
        return tt_fail(
            TUTTI_ERR_INVALID,
            "no rendezvous address: srun provides neither PMIx nor PMI, and SLURM_STEP_NODELIST is "
            "\"%s\" (" SET_RENDEZVOUS ")",
            or_empty(nodes));
    snprintf(text, sizeof text, "slurm %s %s", or_empty(var(get, "SLURM_JOB_ID")),
             var(get, "SLURM_STEP_ID"));
    default_token(out, text);
    snprintf(out->rendezvous_from, sizeof out->rendezvous_from,
             "SLURM_STEP_NODELIST with a port derived from job and step");
    return put_tcp(out, node, derived_port(text));
}

/* Also used in an indexed Job of Kubernetes, whose manifests set the same variables. */
static tutti_status derive_torchrun(struct tt_launch *out, getter get)
{
    const char *host = var(get, "MASTER_ADDR"), *run_id = or_empty(var(get, "TORCHELASTIC_RUN_ID"));
    int64_t port = 0;
    tutti_status st;
    char text[256];

    if (!host || !var(get, "MASTER_PORT"))
        return tt_fail(TUTTI_ERR_INVALID,
                       "no rendezvous address: %s is set, but %s is not (set it, or " SET_RENDEZVOUS
                       ")",
                       strcmp(out->launcher, "torchrun") == 0 ? "RANK" : "JOB_COMPLETION_INDEX",
                       host ? "MASTER_PORT" : "MASTER_ADDR");
    st = read_number_variable(get, "MASTER_PORT", 1, 65535, &port);
    if (st)
        return st;
    snprintf(text, sizeof text, "torch %" PRId64 " %s %s", port, run_id,
             or_empty(var(get, "TORCHELASTIC_RESTART_COUNT")));
    if (*run_id)
        default_token(out, text);
    snprintf(out->rendezvous_from, sizeof out->rendezvous_from,
             "MASTER_ADDR with a port derived from MASTER_PORT=%" PRId64, port);
    return put_tcp(out, host, derived_port(text));
}

static bool text_has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static tutti_status read_rendezvous(struct tt_launch *out, const tutti_conf *conf, getter get)
{
    static const char *const with_space[] = { "openmpi", "mpich", "prrte", "pmix" };
    const char *asked = conf ? conf->rendezvous : NULL;
    tutti_status st;

    st = read_text_setting(out->rendezvous, sizeof out->rendezvous, asked,
                           var(get, "TUTTI_RENDEZVOUS"), "the rendezvous address");
    if (st)
        return st;
    if (*out->rendezvous) {
        snprintf(out->rendezvous_from, sizeof out->rendezvous_from, "%s",
                 asked ? "conf.rendezvous" : "TUTTI_RENDEZVOUS");
        if (!text_has_prefix(out->rendezvous, "tcp://") &&
            !text_has_prefix(out->rendezvous, "file://") &&
            !text_has_prefix(out->rendezvous, "etcd://") &&
            !text_has_prefix(out->rendezvous, "id:"))
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s is \"%s\": must be tcp://host:port, file:///path, "
                           "etcd://host:port/prefix or id:HEX",
                           out->rendezvous_from, out->rendezvous);
        if (strcmp(out->launcher, "single") == 0)
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s is \"%s\": this process has no rank, because TUTTI_RANK and "
                           "TUTTI_SIZE are not set",
                           out->rendezvous_from, out->rendezvous);
        return TUTTI_OK;
    }
    if (out->nranks == 1)
        return TUTTI_OK;
    if (strcmp(out->launcher, "slurm") == 0)
        return derive_slurm(out, get);
    if (strcmp(out->launcher, "torchrun") == 0 || strcmp(out->launcher, "kubernetes") == 0)
        return derive_torchrun(out, get);
    for (size_t i = 0; i < sizeof with_space / sizeof *with_space; i++)
        if (strcmp(out->launcher, with_space[i]) == 0)
            return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID, "rank %u of %u: no rendezvous address (" SET_RENDEZVOUS ")",
                   out->rank, out->nranks);
}

static tutti_status read_timeout(struct tt_launch *out, const tutti_conf *conf, getter get)
{
    const struct tt_param *p = &tt_params[TT_PARAM_TIMEOUT_MS];
    const char *text = var(get, p->name);

    out->timeout_ms = p->value_default;
    if (conf && conf->timeout_ms != 0) {
        out->timeout_ms = conf->timeout_ms < 0 ? -1 : conf->timeout_ms;
        return TUTTI_OK;
    }
    return text ? tt_param_read(TT_PARAM_TIMEOUT_MS, text, &out->timeout_ms) : TUTTI_OK;
}

tutti_status tt_launch_read(struct tt_launch *out, const tutti_conf *conf,
                            const char *(*get)(const char *name))
{
    struct tt_launch l = { .rank = 0 };
    tutti_status st;

    st = read_rank_and_size(&l, conf, get);
    if (!st)
        st = read_text_setting(l.token, sizeof l.token, conf ? conf->token : NULL,
                               var(get, "TUTTI_TOKEN"), "the token");
    if (!st)
        st = read_rendezvous(&l, conf, get);
    if (!st)
        st = read_text_setting(l.interfaces, sizeof l.interfaces, conf ? conf->interfaces : NULL,
                               var(get, "TUTTI_INTERFACES"), "the list of interfaces");
    if (!st)
        st = read_text_setting(l.wires, sizeof l.wires, conf ? conf->wires : NULL,
                               var(get, "TUTTI_WIRES"), "the list of transports");
    if (!st)
        st = read_text_setting(l.security, sizeof l.security, conf ? conf->security : NULL,
                               var(get, "TUTTI_SECURITY"), "the security mode");
    if (!st)
        st = read_timeout(&l, conf, get);
    if (st)
        return st;
    *out = l;
    return TUTTI_OK;
}
