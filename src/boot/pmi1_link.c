#include "boot/pmi1_link.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hostport.h"
#include "base/resolve.h"
#include "base/status.h"
#include "boot/endpoint.h"
#include "boot/pmi1.h"

#define CONNECT_NS (3 * TT_SECOND)  /* per address of PMI_PORT and attempt */

static int joined_fd = -1;      /* the connection to PMI_PORT */

/* Returns a descriptor or id from the environment; -1: missing or not a number. */
static int environment_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long v;

    if (!text || *text < '0' || *text > '9')
        return -1;
    v = strtol(text, &end, 10);
    return *end == '\0' && v >= 0 && v <= INT_MAX ? (int)v : -1;
}

static const char *pmi_port(void)
{
    const char *text = getenv("PMI_PORT");

    return text && *text && environment_number("PMI_ID") >= 0 ? text : NULL;
}

bool tt_pmi1_is_offered(void)
{
    return environment_number("PMI_FD") >= 0 || pmi_port();
}

/* ---- lines ---- */

/* Reads one line, without its newline, until the deadline. barrier: the line arrives when all ranks
 * have reached the barrier. */
static tutti_status pmi1_read_line(int fd, char *line, size_t cap, uint64_t deadline_ns,
                                   bool barrier)
{
    size_t n = 0;

    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const uint64_t now_ns = tt_now_ns();
        ssize_t got;

        if (now_ns >= deadline_ns)
            return barrier
                       ? tt_fail(TUTTI_ERR_TIMEOUT, "start-up through PMI: not every rank joined "
                                                    "before the deadline, and PMI does not "
                                                    "report the missing ones (Tutti does if "
                                                    "TUTTI_RENDEZVOUS=tcp://host:port is set)")
                       : tt_fail(TUTTI_ERR_TIMEOUT, "start-up through PMI: no answer from the "
                                                    "launcher before the deadline");
        if (poll(&p, 1, 100) <= 0)
            continue;
        got = read(fd, line + n, 1);    /* byte by byte: data after the line may belong to
                                           another reader */
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return tt_fail(TUTTI_ERR_SYSTEM,
                           "start-up through PMI: the launcher closed the connection");
        if (line[n] == '\n') {
            line[n] = '\0';
            return TUTTI_OK;
        }
        if (++n == cap)
            return tt_fail(TUTTI_ERR_PROTOCOL,
                           "start-up through PMI: the launcher sent a line of more than %zu bytes",
                           cap);
    }
}

/* Causes no SIGPIPE if the launcher has closed its end, and does not block if it does not read. */
static ssize_t write_some(int fd, const char *line, size_t bytes)
{
    const ssize_t n = send(fd, line, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

    return n < 0 && errno == ENOTSOCK ? write(fd, line, bytes) : n;
}

/* Writes a line; waits for space until the deadline. */
static tutti_status pmi1_write_line(int fd, const char *line, uint64_t deadline_ns)
{
    size_t bytes = strlen(line);

    while (bytes > 0) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        const ssize_t n = write_some(fd, line, bytes);

        if (n > 0) {
            line += n;
            bytes -= (size_t)n;
        } else if (n < 0 && errno != EINTR && errno != EAGAIN) {
            return tt_fail_errno(errno, "start-up through PMI: cannot write to the launcher");
        } else if (tt_now_ns() >= deadline_ns) {
            return tt_fail(TUTTI_ERR_TIMEOUT, "start-up through PMI: cannot write to the launcher: "
                                              "the launcher did not read before the deadline");
        } else {
            poll(&p, 1, 100);
        }
    }
    return TUTTI_OK;
}

/* Sends `out` and later requests, until the state machine is done. */
static tutti_status pmi1_exchange(int fd, struct tt_pmi1 *p, char out[TT_PMI1_LINE_BYTES],
                                  uint64_t deadline_ns)
{
    char in[TT_PMI1_LINE_BYTES];
    tutti_status st;

    while (p->state != TT_PMI1_DONE) {
        st = pmi1_write_line(fd, out, deadline_ns);
        if (!st)
            st = pmi1_read_line(fd, in, sizeof in, deadline_ns, p->state == TT_PMI1_BARRIER);
        if (st)
            return st;
        tt_pmi1_step(p, in, out);
        if (p->state == TT_PMI1_FAILED)
            return tt_fail(TUTTI_ERR_PROTOCOL,
                           "start-up through PMI: invalid answer from the launcher: %s", p->why);
    }
    return TUTTI_OK;
}

/* ---- PMI_PORT ---- */

/* MPI uses the same server, and PMI cannot be initialized twice in a process. */
static tutti_status refuse_mpi(void)
{
    if (!dlsym(RTLD_DEFAULT, "MPI_Initialized"))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_UNSUPPORTED, "start-up through PMI: this program uses MPI, which "
                                          "requires the launcher's PMI connection (create the "
                                          "communicator from an id: tutti_id_create, then "
                                          "MPI_Bcast; or set TUTTI_RENDEZVOUS=tcp://host:port)");
}

/* Returns 0 and the connection, set to blocking; or an errno. */
static int connect_until(const struct tt_address *a, uint64_t deadline_ns, int *out)
{
    const int fd = tt_connect_begin(a);
    int err = fd < 0 ? errno : 0;

    while (!err) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };

        if (tt_now_ns() >= deadline_ns)
            err = ETIMEDOUT;
        else if (poll(&p, 1, 100) > 0)
            break;
    }
    if (!err)
        err = tt_connect_result(fd);
    if (!err && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0)
        err = errno;
    if (err && fd >= 0)
        close(fd);
    *out = err ? -1 : fd;
    return err;
}

/* Tries each address, and unresponsive ones repeatedly until the deadline, as a connection request
 * may be lost. Returns 0 and the connection, or an errno. */
static int connect_to_any(const struct addrinfo *list, uint64_t deadline_ns, int *fd)
{
    bool again;
    int err;

    do {
        again = false;
        err = EADDRNOTAVAIL;
        for (const struct addrinfo *a = list; a; a = a->ai_next) {
            struct tt_address address = { .bytes = a->ai_addrlen };
            const uint64_t until_ns = tt_now_ns() + CONNECT_NS;

            memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
            err = connect_until(&address, until_ns < deadline_ns ? until_ns : deadline_ns, fd);
            if (!err)
                return 0;
            again |= err == ETIMEDOUT;
        }
    } while (again && tt_now_ns() < deadline_ns);
    return err;
}

static tutti_status connect_to_port(const char *text, uint64_t deadline_ns, int *fd)
{
    struct addrinfo *list;
    struct tt_hostport at;
    const char *why = tt_hostport_parse(&at, text, strlen(text));
    tutti_status st;
    int err;

    if (why)
        return tt_fail(TUTTI_ERR_INVALID, "start-up through PMI: PMI_PORT is \"%s\": %s", text,
                       why);
    st = tt_resolve(*at.host ? at.host : NULL, at.port, 0, true, deadline_ns, &list, &why);
    if (st)
        return tt_fail(st, "start-up through PMI: PMI_PORT is \"%s\": %s", text, why);
    err = connect_to_any(list, deadline_ns, fd);
    freeaddrinfo(list);
    return err ? tt_fail_errno(err, "start-up through PMI: cannot connect to PMI_PORT (%s)", text)
               : TUTTI_OK;
}

tutti_status tt_pmi1_join(uint32_t *rank, uint32_t *nranks, uint64_t deadline_ns)
{
    char line[TT_PMI1_LINE_BYTES];
    const char *port = pmi_port();
    struct tt_pmi1_join j;
    tutti_status st = refuse_mpi();
    int fd = -1;

    if (!st && !port)
        st = tt_fail(TUTTI_ERR_INVALID, "start-up through PMI: PMI_ID is \"%s\": must be a number",
                     getenv("PMI_ID"));
    if (!st)
        st = connect_to_port(port, deadline_ns, &fd);
    if (st)
        return st;
    tt_pmi1_join_begin(&j, (uint32_t)environment_number("PMI_ID"), line);
    st = pmi1_write_line(fd, line, deadline_ns);
    while (!st && !j.done && !j.failed) {
        st = pmi1_read_line(fd, line, sizeof line, deadline_ns, false);
        if (!st)
            tt_pmi1_join_step(&j, line);
    }
    if (!st && j.failed)
        st = tt_fail(TUTTI_ERR_PROTOCOL,
                     "start-up through PMI: invalid answer from the launcher at PMI_PORT (%s): %s",
                     port, j.why);
    if (st) {
        close(fd);
        return st;
    }
    joined_fd = fd;
    *rank = j.rank;
    *nranks = j.nranks;
    return TUTTI_OK;
}

static void leave_port(void)
{
    if (joined_fd >= 0)
        close(joined_fd);
    joined_fd = -1;
}

/* ---- the exchange ---- */

tutti_status tt_pmi1_broadcast(uint32_t rank, char *value, size_t cap, uint64_t deadline_ns)
{
    char out[TT_PMI1_LINE_BYTES];
    uint32_t own, nranks;
    struct tt_pmi1 p;
    tutti_status st = refuse_mpi();

    if (!st && joined_fd < 0 && environment_number("PMI_FD") < 0)
        st = tt_pmi1_join(&own, &nranks, deadline_ns);
    if (st)
        return st;
    tt_pmi1_begin(&p, rank == 0 ? value : NULL, out);
    st = pmi1_exchange(joined_fd >= 0 ? joined_fd : environment_number("PMI_FD"), &p, out,
                       deadline_ns);
    leave_port();
    if (!st && strlen(p.value) >= cap)
        st = tt_fail(TUTTI_ERR_PROTOCOL,
                     "start-up through PMI: the value that rank 0 published is not an address");
    if (!st)
        memcpy(value, p.value, strlen(p.value) + 1);
    return st;
}

tutti_status tt_pmi1_leave(uint64_t deadline_ns)
{
    char out[TT_PMI1_LINE_BYTES];
    struct tt_pmi1 p;
    tutti_status st;

    tt_pmi1_begin_leave(&p, out);
    st = pmi1_exchange(joined_fd, &p, out, deadline_ns);
    leave_port();
    return st;
}
