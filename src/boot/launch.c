/* Who am I, and where do we meet: read from the conf and from the environment of whatever started us. Pure over `get`.
 *
 * Who (rank and nranks), the first that says it:
 *   conf                 nranks > 0
 *   tutti, or by hand    TUTTI_RANK, TUTTI_SIZE
 *   Open MPI             OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
 *   torchrun             RANK, WORLD_SIZE, and TORCHELASTIC_RUN_ID (torchrun may itself run under srun)
 *   PMI (MPICH's hydra)  PMI_RANK, PMI_SIZE
 *   Slurm's srun         SLURM_PROCID, SLURM_STEP_NUM_TASKS, and SLURM_STEP_ID (a batch script has no step)
 *   torch's variables    RANK, WORLD_SIZE
 *   nobody               a single rank
 *
 * Where: conf, then TUTTI_RENDEZVOUS, then what the launcher gives:
 *   Open MPI, PMI        its key-value space (rendezvous is then "")
 *   Slurm                the same if srun offers PMIx or PMI; else the first node of the step, at a port and with a token made
 *                        from the ids of job and step
 *   torchrun             MASTER_ADDR, at a port made from MASTER_PORT, the run id and the restart count: torch's own store is
 *                        listening at MASTER_PORT, and at the ports around it other jobs' stores are */
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
#define DERIVED_PORT_FIRST 10240u       /* above what services use, below what the kernel hands out (32768) */
#define DERIVED_PORT_COUNT 22528u

typedef const char *(*getter)(const char *name);

/* A variable, or NULL where it is missing or empty. */
static const char *var(getter get, const char *name)
{
    const char *text = get(name);

    return text && *text ? text : NULL;
}

/* A pair of variables that says who we are, and a third that must be there too for the pair to count. */
struct who {
    const char *launcher, *rank, *nranks, *needs;
};

static const struct who launchers[] = {
    { "tutti", "TUTTI_RANK", "TUTTI_SIZE", NULL },
    { "openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL },
    { "torchrun", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID" },
    { "mpich", "PMI_RANK", "PMI_SIZE", NULL },
    { "slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID" },
    { "torchrun", "RANK", "WORLD_SIZE", NULL },
};

static tutti_status read_number(getter get, const char *name, int64_t min, int64_t max, int64_t *out)
{
    const char *text = get(name);
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || v < min || v > max)
        return tt_fail(TUTTI_ERR_INVALID, "%s is \"%s\", but must be a number from %" PRId64 " to %" PRId64, name, text,
                       min, max);
    *out = v;
    return TUTTI_OK;
}

static tutti_status read_pair(struct tt_launch *out, const struct who *who, getter get)
{
    const char *rank_text = var(get, who->rank), *nranks_text = var(get, who->nranks);
    int64_t rank = 0, nranks = 0;
    tutti_status st;

    if (!rank_text || !nranks_text)
        return tt_fail(TUTTI_ERR_INVALID, "%s is \"%s\", but %s is not set: both are needed",
                       rank_text ? who->rank : who->nranks, rank_text ? rank_text : nranks_text,
                       rank_text ? who->nranks : who->rank);
    st = read_number(get, who->nranks, 1, NRANKS_MAX, &nranks);
    if (st)
        return st;
    st = read_number(get, who->rank, 0, NRANKS_MAX - 1, &rank);
    if (st)
        return st;
    if (rank >= nranks)
        return tt_fail(TUTTI_ERR_INVALID, "%s is %" PRId64 ", but %s is %" PRId64 ": ranks go from 0 to %" PRId64,
                       who->rank, rank, who->nranks, nranks, nranks - 1);
    out->rank = (uint32_t)rank;
    out->nranks = (uint32_t)nranks;
    out->launcher = who->launcher;
    return TUTTI_OK;
}

/* Half a pair of ours is a mistake worth telling; half a pair of another launcher may be anybody's variable (RANK). */
static bool is_said(const struct who *who, getter get)
{
    const bool rank = var(get, who->rank), nranks = var(get, who->nranks);

    if (who->needs && !var(get, who->needs))
        return false;
    return who == &launchers[0] ? rank || nranks : rank && nranks;
}

static tutti_status read_who(struct tt_launch *out, const tutti_conf *conf, getter get)
{
    if (conf && conf->nranks != 0) {
        if (conf->nranks < 0 || (uint32_t)conf->nranks > NRANKS_MAX || conf->rank < 0 || conf->rank >= conf->nranks)
            return tt_fail(TUTTI_ERR_INVALID, "rank %d of %d rank%s: there must be 1 to %u ranks, counted from 0",
                           conf->rank, conf->nranks, TT_PLURAL(conf->nranks), NRANKS_MAX);
        out->rank = (uint32_t)conf->rank;
        out->nranks = (uint32_t)conf->nranks;
        out->launcher = "conf";
        return TUTTI_OK;
    }
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (is_said(&launchers[i], get))
            return read_pair(out, &launchers[i], get);
    out->rank = 0;
    out->nranks = 1;
    out->launcher = "single";
    return TUTTI_OK;
}

/* Copies the first of the two that is there, or "". `what` is how a user calls it. */
static tutti_status read_text(char *out, size_t cap, const char *from_conf, const char *from_env, const char *what)
{
    const char *text = from_conf ? from_conf : from_env ? from_env : "";

    if (strlen(text) >= cap)
        return tt_fail(TUTTI_ERR_INVALID, "%s has %zu characters, but may have at most %zu", what, strlen(text), cap - 1);
    memcpy(out, text, strlen(text) + 1);
    return TUTTI_OK;
}

static unsigned derived_port(const char *text)
{
    return DERIVED_PORT_FIRST + (unsigned)(tt_hash_bytes(text, strlen(text), 0) % DERIVED_PORT_COUNT);
}

/* The first name of Slurm's compressed list: "node[03-07,09],other" is node03. False if it is none that we understand. */
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

/* Writes tcp://host:port; an IPv6 address gets its brackets. */
static tutti_status put_tcp(struct tt_launch *out, const char *host, unsigned port)
{
    const bool v6 = strchr(host, ':') && *host != '[';
    const int n = snprintf(out->rendezvous, sizeof out->rendezvous, v6 ? "tcp://[%s]:%u" : "tcp://%s:%u", host, port);

    if (n < 0 || (size_t)n >= sizeof out->rendezvous)
        return tt_fail(TUTTI_ERR_INVALID, "the host name \"%s\" is too long", host);
    return TUTTI_OK;
}

/* Not a secret, but keeps apart two jobs that meet at one port. */
static void default_token(struct tt_launch *out, const char *text)
{
    if (!*out->token)
        snprintf(out->token, sizeof out->token, "%016" PRIx64, tt_hash_bytes(text, strlen(text), 1));
}

static tutti_status derive_slurm(struct tt_launch *out, getter get)
{
    const char *nodes = var(get, "SLURM_STEP_NODELIST");
    char text[256], node[200];

    if (var(get, "PMI_FD") || var(get, "PMIX_NAMESPACE"))
        return TUTTI_OK;
    if (!nodes || !first_node(nodes, node, sizeof node))
        return tt_fail(TUTTI_ERR_INVALID,
                       "srun gives neither PMIx nor PMI, and SLURM_STEP_NODELIST is \"%s\": set TUTTI_RENDEZVOUS",
                       or_empty(nodes));
    snprintf(text, sizeof text, "slurm %s %s", or_empty(var(get, "SLURM_JOB_ID")), var(get, "SLURM_STEP_ID"));
    default_token(out, text);
    out->rendezvous_from = "SLURM_STEP_NODELIST";
    return put_tcp(out, node, derived_port(text));
}

static tutti_status derive_torchrun(struct tt_launch *out, getter get)
{
    const char *host = var(get, "MASTER_ADDR"), *run_id = or_empty(var(get, "TORCHELASTIC_RUN_ID"));
    int64_t port = 0;
    tutti_status st;
    char text[256];

    if (!host || !var(get, "MASTER_PORT"))
        return tt_fail(TUTTI_ERR_INVALID, "RANK and WORLD_SIZE are set, but %s is not: set it, or TUTTI_RENDEZVOUS",
                       host ? "MASTER_PORT" : "MASTER_ADDR");
    st = read_number(get, "MASTER_PORT", 1, 65535, &port);
    if (st)
        return st;
    snprintf(text, sizeof text, "torch %" PRId64 " %s %s", port, run_id, or_empty(var(get, "TORCHELASTIC_RESTART_COUNT")));
    if (*run_id)
        default_token(out, text);
    out->rendezvous_from = "MASTER_ADDR";
    return put_tcp(out, host, derived_port(text));
}

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static tutti_status read_where(struct tt_launch *out, const tutti_conf *conf, getter get)
{
    const char *asked = conf ? conf->rendezvous : NULL;
    tutti_status st;

    st = read_text(out->rendezvous, sizeof out->rendezvous, asked, var(get, "TUTTI_RENDEZVOUS"), "the rendezvous address");
    if (st)
        return st;
    if (*out->rendezvous) {
        out->rendezvous_from = asked ? "conf.rendezvous" : "TUTTI_RENDEZVOUS";
        if (!has_prefix(out->rendezvous, "tcp://") && !has_prefix(out->rendezvous, "file://") &&
            !has_prefix(out->rendezvous, "id:"))
            return tt_fail(TUTTI_ERR_INVALID, "%s is \"%s\", which is neither tcp://host:port nor file:///path",
                           out->rendezvous_from, out->rendezvous);
        if (strcmp(out->launcher, "single") == 0)
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s is \"%s\", but nothing says the rank: set TUTTI_RANK and TUTTI_SIZE",
                           out->rendezvous_from, out->rendezvous);
        return TUTTI_OK;
    }
    if (out->nranks == 1)
        return TUTTI_OK;
    if (strcmp(out->launcher, "slurm") == 0)
        return derive_slurm(out, get);
    if (strcmp(out->launcher, "torchrun") == 0)
        return derive_torchrun(out, get);
    if (strcmp(out->launcher, "openmpi") == 0 || strcmp(out->launcher, "mpich") == 0)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID, "rank %u of %u does not know where to meet the others: set TUTTI_RENDEZVOUS",
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

tutti_status tt_launch_read(struct tt_launch *out, const tutti_conf *conf, const char *(*get)(const char *name))
{
    struct tt_launch l = { .rank = 0 };
    tutti_status st;

    st = read_who(&l, conf, get);
    if (!st)
        st = read_text(l.token, sizeof l.token, conf ? conf->token : NULL, var(get, "TUTTI_TOKEN"), "the token");
    if (!st)
        st = read_where(&l, conf, get);
    if (!st)
        st = read_text(l.interfaces, sizeof l.interfaces, conf ? conf->interfaces : NULL, var(get, "TUTTI_INTERFACES"),
                       "the choice of interfaces");
    if (!st)
        st = read_text(l.wires, sizeof l.wires, conf ? conf->wires : NULL, var(get, "TUTTI_WIRES"), "the list of wires");
    if (!st)
        st = read_text(l.security, sizeof l.security, conf ? conf->security : NULL, var(get, "TUTTI_SECURITY"), "the kind of security");
    if (!st)
        st = read_timeout(&l, conf, get);
    if (st)
        return st;
    *out = l;
    return TUTTI_OK;
}
