#include "boot/kv.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/endpoint.h"
#include "boot/id.h"
#include "boot/pmi1_link.h"
#include "boot/pmix.h"

#define COUNT_NS \
    (3 * TT_SECOND) /* after a timeout: enough for all present ranks to connect
                                       and be counted */

/* A launcher's key-value space can be used only once per process. The result is kept, and a second
 * communicator uses the same address. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* protects only busy */
static pthread_cond_t freed;
static bool busy;               /* a thread is using the variables below */
static char told[TT_ID_TEXT_BYTES];
static uint32_t queried_rank, queried_nranks;   /* nranks 0: not queried yet */

static void init_freed(void)
{
    pthread_condattr_t clock;

    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&freed, &clock);
    pthread_condattr_destroy(&clock);
}

/* Waits until the deadline for a concurrent exchange, which has its own deadline or none. A
 * mutex with a timeout would suffice, but the thread sanitizer does not support
 * pthread_mutex_clocklock. */
static tutti_status kv_lock(uint64_t deadline_ns)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct timespec end = { .tv_sec = (time_t)(deadline_ns / TT_SECOND),
                                  .tv_nsec = (long)(deadline_ns % TT_SECOND) };
    bool entered;
    int err = 0;

    pthread_once(&once, init_freed);
    pthread_mutex_lock(&lock);
    while (busy && !err)
        err = deadline_ns == TT_NEVER ? pthread_cond_wait(&freed, &lock)
                                      : pthread_cond_timedwait(&freed, &lock, &end);
    entered = !busy;
    busy = true;
    pthread_mutex_unlock(&lock);
    if (entered)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_TIMEOUT, "start-up: an exchange with the launcher is already in "
                                      "progress in another thread, and did not end "
                                      "before the deadline");
}

static void kv_unlock(void)
{
    pthread_mutex_lock(&lock);
    busy = false;
    pthread_cond_broadcast(&freed);
    pthread_mutex_unlock(&lock);
}

static unsigned seconds_left(uint64_t deadline_ns)
{
    const uint64_t now_ns = tt_now_ns();

    if (deadline_ns == TT_NEVER)
        return 0;
    return deadline_ns > now_ns ? (unsigned)((deadline_ns - now_ns) / TT_SECOND) + 1 : 1;
}

/* Returns whether PMI-1 provided the rank, and must do the exchange. PMIx may belong to an outer
 * launcher, and a connection to PMI_PORT that ends without an exchange counts as a crash. */
static bool is_of_pmi1(const struct tt_launch *launch)
{
    return strcmp(launch->launcher, "mpich") == 0 && tt_pmi1_is_offered();
}

/* Publishes or reads the value. UNSUPPORTED, not logged, if there is no such key-value space. */
static tutti_status kv_publish(const struct tt_launch *launch, char *value, size_t cap,
                               uint64_t *deadline_ns)
{
    const uint32_t rank = launch->rank;
    tutti_status st = TUTTI_ERR_UNSUPPORTED;
    bool not_all = false;

    if (getenv("PMIX_NAMESPACE") && !is_of_pmi1(launch))
        st = tt_pmix_broadcast(rank, value, cap, seconds_left(*deadline_ns), &not_all);
    if (not_all && !st)
        *deadline_ns = tt_now_ns() + COUNT_NS;
    if (st == TUTTI_ERR_UNSUPPORTED && tt_pmi1_is_offered())
        st = tt_pmi1_broadcast(rank, value, cap, *deadline_ns);
    return st;
}

/* Open MPI 4 without PMIx, with all ranks on one host: uses a file in the job's temporary
 * directory, which mpirun removes. The key for network transports is a secret of the job: the
 * token. */
static bool use_session_directory(struct tt_launch *launch)
{
    const char *dir = getenv("OMPI_MCA_orte_jobfam_session_dir"),
               *job = getenv("OMPI_MCA_ess_base_jobid");
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"),
               *key = getenv("OMPI_MCA_orte_precondition_transports");
    int n;

    if (!dir || !local || (uint32_t)atoi(local) != launch->nranks)
        return false;
    n = snprintf(launch->rendezvous, sizeof launch->rendezvous, "file://%s/tutti.%s", dir,
                 job ? job : "0");
    if (n < 0 || (size_t)n >= sizeof launch->rendezvous)
        return false;
    if (!*launch->token && key)
        snprintf(launch->token, sizeof launch->token, "%.80s", key);
    return true;
}

/* First use: rank 0 opens a listener and publishes its address; the others read it. */
static tutti_status kv_exchange(struct tt_launch *launch, int *listener, uint64_t *deadline_ns)
{
    char value[TT_ID_TEXT_BYTES] = "";
    struct tt_endpoint endpoint;
    uint16_t port = 0;
    int fd = -1;
    tutti_status st = TUTTI_OK;
    tutti_id id;

    if (launch->rank == 0) {
        fd = tt_listen(NULL, 0, &port);
        if (fd < 0)
            return tt_fail_errno(errno, "rendezvous: cannot listen");
        st = tt_endpoint_init(&endpoint, port, launch->interfaces);
        if (st)
            goto close_fd;
        tt_id_init(&id, &endpoint);
        tt_id_text(&id, value);
    }
    st = kv_publish(launch, value, sizeof value, deadline_ns);
    if (st)
        goto close_fd;
    memcpy(told, value, sizeof told);
    *listener = fd;
    return TUTTI_OK;

close_fd:
    if (fd >= 0)
        close(fd);
    return st;
}

/* Later uses: rank 0 listens at the same port again. */
static tutti_status listen_again(int *listener)
{
    uint8_t token[TT_ID_TOKEN_BYTES];
    struct tt_endpoint endpoint;
    uint16_t port;
    tutti_id id;
    int fd;

    if (!tt_id_from_text(&id, told) || tt_id_parse(&id, &endpoint, token) != TUTTI_OK)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "start-up: the value that rank 0 published is not an address");
    fd = tt_listen(NULL, endpoint.port, &port);
    if (fd < 0)
        return tt_fail_errno(errno, "rendezvous: cannot listen again at port %u", endpoint.port);
    *listener = fd;
    return TUTTI_OK;
}

tutti_status tt_kv_rendezvous(struct tt_launch *launch, int *listener, uint64_t *deadline_ns)
{
    tutti_status st = kv_lock(*deadline_ns);

    *listener = -1;
    if (st)
        return st;
    if (!*told)
        st = kv_exchange(launch, listener, deadline_ns);
    else if (launch->rank == 0)
        st = listen_again(listener);
    if (!st)
        snprintf(launch->rendezvous, sizeof launch->rendezvous, "%s", told);
    kv_unlock();

    if (st != TUTTI_ERR_UNSUPPORTED || use_session_directory(launch))
        return st == TUTTI_ERR_UNSUPPORTED ? TUTTI_OK : st;
    return tt_fail(st,
                   "rank %u of %u has no rendezvous address: its launcher (%s) provides neither "
                   "PMIx nor PMI here%s%s (set "
                   "TUTTI_RENDEZVOUS=tcp://host:port, where rank 0 listens)",
                   launch->rank, launch->nranks, launch->launcher,
                   getenv("PMIX_NAMESPACE") ? ": " : "",
                   getenv("PMIX_NAMESPACE") ? tt_pmix_why() : "");
}

/* ---- queries of the launcher's server ---- */

static tutti_status query_pmix(const struct tt_launch *launch)
{
    uint32_t nranks = 0;
    tutti_status st = tt_pmix_size(&nranks);

    if (st == TUTTI_ERR_UNSUPPORTED)
        return tt_fail(st,
                       "PMIX_RANK is %u, but the number of ranks cannot be queried from the PMIx "
                       "launcher: %s (or set "
                       "TUTTI_RANK and TUTTI_SIZE, and TUTTI_RENDEZVOUS=tcp://host:port, where "
                       "rank 0 listens)",
                       launch->rank, tt_pmix_why());
    if (!st && launch->rank >= nranks)
        st = tt_fail(TUTTI_ERR_INVALID,
                     "PMIX_RANK is %u: must be below %u, the number of ranks of the PMIx server",
                     launch->rank, nranks);
    if (st)
        return st;
    queried_rank = launch->rank;
    queried_nranks = nranks;
    return TUTTI_OK;
}

/* Closes the connection if no address will be exchanged. */
static tutti_status query_pmi_port(const struct tt_launch *launch, uint64_t deadline_ns)
{
    uint32_t rank = 0, nranks = 0;
    tutti_status st = tt_pmi1_join(&rank, &nranks, deadline_ns);

    if (!st && (nranks == 1 || *launch->rendezvous))
        st = tt_pmi1_leave(deadline_ns);
    if (st)
        return st;
    queried_rank = rank;
    queried_nranks = nranks;
    return TUTTI_OK;
}

/* Fills rank and nranks; the first result is kept. */
static tutti_status kv_query(struct tt_launch *launch)
{
    const uint64_t deadline_ns = tt_deadline_ns(tt_now_ns(), launch->timeout_ms);
    tutti_status st = kv_lock(deadline_ns);

    if (st)
        return st;
    if (!queried_nranks)
        st = launch->query == TT_QUERY_PMIX ? query_pmix(launch)
                                            : query_pmi_port(launch, deadline_ns);
    launch->rank = queried_rank;
    launch->nranks = queried_nranks;
    kv_unlock();
    return st;
}

static const char *launch_getenv(const char *name)
{
    return getenv(name);
}

tutti_status tt_boot_launch(struct tt_launch *out, const tutti_conf *conf)
{
    struct tt_launch launch;
    tutti_status st = tt_launch_read(&launch, conf, launch_getenv);

    if (!st && launch.query != TT_QUERY_NONE)
        st = kv_query(&launch);
    if (!st)
        *out = launch;
    return st;
}

void tt_kv_reset(void)
{
    (void)kv_lock(TT_NEVER);
    *told = '\0';
    kv_unlock();
}
