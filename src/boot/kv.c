#include "boot/kv.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/endpoint.h"
#include "boot/id.h"
#include "boot/pmi1.h"
#include "boot/pmix.h"

#define COUNT_NS (3 * TT_SECOND)    /* those who wait for one that does not come give up within that time of each other, and meet */

/* A launcher's space can be used once per process, so what it told us is kept: a second communicator meets at the same address. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char told[TT_ID_TEXT_BYTES];

/* ---- PMI-1 over PMI_FD ---- */

/* Reads one line, without its newline; waits until the deadline. barrier: it comes when all ranks are there. */
static tutti_status read_line(int fd, char *line, size_t cap, uint64_t deadline_ns, bool barrier)
{
    size_t n = 0;

    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const uint64_t now_ns = tt_now_ns();
        ssize_t got;

        if (now_ns >= deadline_ns)
            return barrier ? tt_fail(TUTTI_ERR_TIMEOUT,
                                     "start-up through PMI: not every rank came within the deadline; who did "
                                     "not, PMI does not tell (TUTTI_RENDEZVOUS would)")
                           : tt_fail(TUTTI_ERR_TIMEOUT,
                                     "start-up through PMI: the launcher did not answer within the deadline");
        if (poll(&p, 1, 100) <= 0)
            continue;
        got = read(fd, line + n, 1);    /* byte by byte: what follows the line may be for somebody else */
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return tt_fail(TUTTI_ERR_SYSTEM, "start-up through PMI: the launcher closed PMI_FD");
        if (line[n] == '\n') {
            line[n] = '\0';
            return TUTTI_OK;
        }
        if (++n == cap)
            return tt_fail(TUTTI_ERR_PROTOCOL, "start-up through PMI: the launcher sent a line of more than %zu bytes", cap);
    }
}

static tutti_status write_line(int fd, const char *line)
{
    size_t bytes = strlen(line);

    while (bytes > 0) {
        const ssize_t n = write(fd, line, bytes);

        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return tt_fail_errno(errno, "start-up through PMI: write to PMI_FD");
        if (n > 0) {
            line += n;
            bytes -= (size_t)n;
        }
    }
    return TUTTI_OK;
}

/* MPI uses the same descriptor, and PMI cannot be begun twice. */
static bool mpi_is_linked(void)
{
    return dlsym(RTLD_DEFAULT, "MPI_Initialized") != NULL;
}

static tutti_status tell_by_pmi1(int fd, uint32_t rank, char *value, size_t cap, uint64_t deadline_ns)
{
    char out[TT_PMI1_LINE_BYTES], in[TT_PMI1_LINE_BYTES];
    struct tt_pmi1 p;
    tutti_status st;

    if (mpi_is_linked())
        return tt_fail(
            TUTTI_ERR_UNSUPPORTED,
            "this program uses MPI, which needs the launcher's PMI for itself: make the communicator from an id "
            "(tutti_id_create, then MPI_Bcast), or set TUTTI_RENDEZVOUS");
    tt_pmi1_begin(&p, rank == 0 ? value : NULL, out);
    while (p.state != TT_PMI1_DONE) {
        st = write_line(fd, out);
        if (!st)
            st = read_line(fd, in, sizeof in, deadline_ns, p.state == TT_PMI1_BARRIER);
        if (st)
            return st;
        tt_pmi1_step(&p, in, out);
        if (p.state == TT_PMI1_FAILED)
            return tt_fail(TUTTI_ERR_PROTOCOL, "start-up through PMI: the launcher's answer does not help: %s", p.why);
    }
    if (strlen(p.value) >= cap)
        return tt_fail(TUTTI_ERR_PROTOCOL, "start-up through PMI: what rank 0 published is no address");
    memcpy(value, p.value, strlen(p.value) + 1);
    return TUTTI_OK;
}

static int pmi_fd(void)
{
    const char *text = getenv("PMI_FD");

    return text && *text ? atoi(text) : -1;
}

/* ---- all of them ---- */

static unsigned seconds_left(uint64_t deadline_ns)
{
    const uint64_t now_ns = tt_now_ns();

    if (deadline_ns == TT_NEVER)
        return 0;
    return deadline_ns > now_ns ? (unsigned)((deadline_ns - now_ns) / TT_SECOND) + 1 : 1;
}

/* UNSUPPORTED, not logged, if there is no such space here. */
static tutti_status tell(uint32_t rank, char *value, size_t cap, uint64_t *deadline_ns)
{
    tutti_status st = TUTTI_ERR_UNSUPPORTED;
    bool not_all = false;

    if (getenv("PMIX_NAMESPACE"))
        st = tt_pmix_tell(rank, value, cap, seconds_left(*deadline_ns), &not_all);
    if (not_all && !st)
        *deadline_ns = tt_now_ns() + COUNT_NS;
    if (st == TUTTI_ERR_UNSUPPORTED && pmi_fd() >= 0)
        st = tell_by_pmi1(pmi_fd(), rank, value, cap, *deadline_ns);
    return st;
}

/* Open MPI without PMIx, all ranks on one host: its session directory is a place that all of them know and that it removes, and
 * its key for network transports is a secret of the job. */
static bool use_session_directory(struct tt_launch *launch)
{
    const char *dir = getenv("OMPI_MCA_orte_jobfam_session_dir"), *job = getenv("OMPI_MCA_ess_base_jobid");
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *key = getenv("OMPI_MCA_orte_precondition_transports");
    int n;

    if (!dir || !local || (uint32_t)atoi(local) != launch->nranks)
        return false;
    n = snprintf(launch->rendezvous, sizeof launch->rendezvous, "file://%s/tutti.%s", dir, job ? job : "0");
    if (n < 0 || (size_t)n >= sizeof launch->rendezvous)
        return false;
    if (!*launch->token && key)
        snprintf(launch->token, sizeof launch->token, "%.80s", key);
    return true;
}

/* The first meeting: rank 0 opens a listener, and everybody learns where. */
static tutti_status exchange(struct tt_launch *launch, int *listener, uint64_t *deadline_ns)
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
            return tt_fail_errno(errno, "rendezvous: listen");
        st = tt_endpoint_init(&endpoint, port, launch->interfaces);
        if (st)
            goto close_fd;
        tt_id_init(&id, &endpoint);
        tt_id_text(&id, value);
    }
    st = tell(launch->rank, value, sizeof value, deadline_ns);
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

/* A later meeting: rank 0 listens at the same port again. */
static tutti_status listen_again(int *listener)
{
    uint8_t token[TT_ID_TOKEN_BYTES];
    struct tt_endpoint endpoint;
    uint16_t port;
    tutti_id id;
    int fd;

    if (!tt_id_from_text(&id, told) || tt_id_parse(&id, &endpoint, token) != TUTTI_OK)
        return tt_fail(TUTTI_ERR_PROTOCOL, "start-up: what rank 0 published is no address");
    fd = tt_listen(NULL, endpoint.port, &port);
    if (fd < 0)
        return tt_fail_errno(errno, "rendezvous: listen again at port %u", endpoint.port);
    *listener = fd;
    return TUTTI_OK;
}

tutti_status tt_kv_meet(struct tt_launch *launch, int *listener, uint64_t *deadline_ns)
{
    tutti_status st = TUTTI_OK;

    *listener = -1;
    pthread_mutex_lock(&lock);
    if (!*told)
        st = exchange(launch, listener, deadline_ns);
    else if (launch->rank == 0)
        st = listen_again(listener);
    if (!st)
        snprintf(launch->rendezvous, sizeof launch->rendezvous, "%s", told);
    pthread_mutex_unlock(&lock);

    if (st != TUTTI_ERR_UNSUPPORTED || use_session_directory(launch))
        return st == TUTTI_ERR_UNSUPPORTED ? TUTTI_OK : st;
    return tt_fail(
        st,
        "rank %u of %u was started by %s, which offers neither PMIx nor PMI here: set TUTTI_RENDEZVOUS to an "
        "address at which rank 0 can listen",
        launch->rank, launch->nranks, launch->launcher);
}

void tt_kv_forget(void)
{
    pthread_mutex_lock(&lock);
    *told = '\0';
    pthread_mutex_unlock(&lock);
}
