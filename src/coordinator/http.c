/* libmicrohttpd reads requests and writes responses. A separate listener accepts connections, so
 * that they can be counted and timed out, and do not cause a busy loop when descriptors run out.
 * Everything runs in one thread, with one epoll. */
#include "coordinator/http.h"

#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/acceptor.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "coordinator/listen.h"
#include "reduce/float_env.h"

/* memory of a connection: for the request, and for the headers of the response */
#define REQUEST_BYTES_MAX 16384u
#define LISTENERS 4u                /* maximum addresses of one text: "localhost" has two */

enum { WHO_LIBRARY, WHO_STOP, WHO_LISTENER };   /* from WHO_LISTENER: the listeners */

/* A response shared by all requests within a short time. */
struct kept {
    struct MHD_Response *response;
    unsigned status;
    uint64_t until_ns;
};

struct tt_http {
    const struct tt_http_page *pages;
    uint32_t npages;
    void *context;
    struct kept *kept;              /* [npages] */
    struct MHD_Daemon *library;
    struct tt_acceptor acceptors[LISTENERS];
    uint32_t nlisteners;
    int epoll, stop;
    bool is_loopback;
    struct {
        int fd;                     /* -1: none */
        uint64_t since_ns;
    } open[TT_HTTP_CONNECTIONS];
    char address[TT_LISTEN_TEXT_BYTES];
    pthread_t thread;
};

/* ---- responses ---- */

static bool add_headers(struct MHD_Response *r, const char *type, const char *policy)
{
    const char *const headers[][2] = {
        { "Content-Type", type },
        { "Content-Security-Policy", policy },
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
        { "Cross-Origin-Resource-Policy", "same-origin" },
        { "Cache-Control", "no-store" },
        { "Connection", "close" },
    };

    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        if (MHD_add_response_header(r, headers[i][0], headers[i][1]) != MHD_YES)
            return false;
    return true;
}

static enum MHD_Result respond_text(struct MHD_Connection *c, unsigned status, const char *text)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
                                                             MHD_RESPMEM_PERSISTENT);
    enum MHD_Result done = MHD_NO;

    if (!r)
        return MHD_NO;
    if (add_headers(r, "text/plain; charset=utf-8", "default-src 'none'") &&
        (status != MHD_HTTP_METHOD_NOT_ALLOWED ||
         MHD_add_response_header(r, "Allow", "GET, HEAD") == MHD_YES))
        done = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return done;
}

/* Writes the page again if the stored one is old. False: out of memory. */
static bool refresh_page(struct tt_http *h, uint32_t page)
{
    struct kept *k = &h->kept[page];
    struct MHD_Response *r;
    char *body = NULL;
    size_t bytes = 0;
    unsigned status;
    FILE *to;
    bool ok;

    if (k->response && tt_now_ns() < k->until_ns)
        return true;
    to = open_memstream(&body, &bytes);
    if (!to)
        return false;
    status = h->pages[page].write(h->context, to);
    ok = !ferror(to);
    ok = fclose(to) == 0 && ok;
    r = ok ? MHD_create_response_from_buffer(bytes, body, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!r) {
        free(body);
        return false;
    }
    if (!add_headers(r, h->pages[page].type, h->pages[page].policy)) {
        MHD_destroy_response(r);
        return false;
    }
    if (k->response)
        MHD_destroy_response(k->response);
    *k =
        (struct kept){ .response = r, .status = status, .until_ns = tt_now_ns() + TT_HTTP_KEPT_NS };
    return true;
}

/* Returns whether the Host header is missing, an address or "localhost": a foreign page may have
 * redirected any other name to this host. */
static bool is_for_loopback(struct MHD_Connection *c)
{
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);

    if (!host || *host == '[' || strspn(host, "0123456789.:") == strlen(host))
        return true;
    return strncasecmp(host, "localhost", 9) == 0 && (host[9] == '\0' || host[9] == ':');
}

static enum MHD_Result request_handle(void *server, struct MHD_Connection *c, const char *path,
                                      const char *method, const char *version, const char *upload,
                                      size_t *upload_bytes, void **request)
{
    struct tt_http *h = server;

    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)request;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return respond_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are supported\n");
    if (h->is_loopback && !is_for_loopback(c))
        return respond_text(c, MHD_HTTP_MISDIRECTED_REQUEST,
                            "invalid Host header: use localhost or an IP address\n");
    for (uint32_t i = 0; i < h->npages; i++)
        if (strcmp(path, h->pages[i].path) == 0)
            return refresh_page(h, i)
                       ? MHD_queue_response(c, h->kept[i].status, h->kept[i].response)
                       : MHD_NO;
    return respond_text(c, MHD_HTTP_NOT_FOUND, "page not found\n");
}

/* Paths are compared as received. */
static size_t keep_escapes(void *server, struct MHD_Connection *c, char *text)
{
    (void)server;
    (void)c;
    return strlen(text);
}

/* ---- connections ---- */

static void count_connection(void *server, struct MHD_Connection *c, void **own,
                             enum MHD_ConnectionNotificationCode what)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct tt_http *h = server;
    const int was = what == MHD_CONNECTION_NOTIFY_STARTED ? -1 : info->connect_fd;

    (void)own;
    for (uint32_t i = 0; i < TT_HTTP_CONNECTIONS; i++)
        if (h->open[i].fd == was) {
            h->open[i].fd = was < 0 ? info->connect_fd : -1;
            h->open[i].since_ns = tt_now_ns();
            return;
        }
}

/* Returns the oldest connection, or TT_HTTP_CONNECTIONS if there is none. *nopen: their number. */
static uint32_t oldest(const struct tt_http *h, uint32_t *nopen)
{
    uint32_t found = TT_HTTP_CONNECTIONS;

    *nopen = 0;
    for (uint32_t i = 0; i < TT_HTTP_CONNECTIONS; i++) {
        if (h->open[i].fd < 0)
            continue;
        (*nopen)++;
        if (found == TT_HTTP_CONNECTIONS || h->open[i].since_ns < h->open[found].since_ns)
            found = i;
    }
    return found;
}

/* Shuts down the connection; the library detects this, and closes it. */
static void http_end_connection(struct tt_http *h, uint32_t at)
{
    shutdown(h->open[at].fd, SHUT_RDWR);
    h->open[at].since_ns = tt_now_ns();
    MHD_run(h->library);
}

/* Closes connections that took too long; returns the time until the next deadline in ms, or -1. */
static int end_overdue(struct tt_http *h)
{
    uint32_t nopen;

    for (;;) {
        const uint32_t at = oldest(h, &nopen);
        uint64_t end_ns, now_ns;

        if (at == TT_HTTP_CONNECTIONS)
            return -1;
        end_ns = h->open[at].since_ns + TT_HTTP_CONNECTION_NS;
        now_ns = tt_now_ns();
        if (now_ns < end_ns)
            return (int)((end_ns - now_ns) / TT_MS) + 1;
        http_end_connection(h, at);
    }
}

static void take_connections(struct tt_http *h, struct tt_acceptor *a)
{
    struct sockaddr_storage from;
    socklen_t bytes;
    uint32_t nopen;
    int fd;

    for (uint32_t i = 0; i < TT_HTTP_CONNECTIONS && (fd = tt_acceptor_take(a)) >= 0; i++) {
        const uint32_t at = oldest(h, &nopen);

        if (nopen == TT_HTTP_CONNECTIONS)
            http_end_connection(h, at);
        bytes = sizeof from;
        if (getpeername(fd, (struct sockaddr *)&from, &bytes) != 0)
            close(fd);
        else
            /* closes fd on failure */
            MHD_add_connection(h->library, fd, (struct sockaddr *)&from, bytes);
    }
}

static int wait_ms(struct tt_http *h)
{
    const int overdue_ms = end_overdue(h);
    MHD_UNSIGNED_LONG_LONG library_ms;

    if (MHD_get_timeout(h->library, &library_ms) != MHD_YES || library_ms > INT_MAX)
        return overdue_ms;
    return overdue_ms < 0 || (int)library_ms < overdue_ms ? (int)library_ms : overdue_ms;
}

static void *http_thread(void *server)
{
    struct tt_http *h = server;
    struct epoll_event ev[LISTENERS + 2];

    (void)tt_float_env_enter();     /* not the floating-point environment of the creating thread */
    for (;;) {
        const int n = epoll_wait(h->epoll, ev, LISTENERS + 2, wait_ms(h));

        for (int i = 0; i < n; i++) {
            if (ev[i].data.u32 == WHO_STOP)
                return NULL;
            if (ev[i].data.u32 >= WHO_LISTENER)
                take_connections(h, &h->acceptors[ev[i].data.u32 - WHO_LISTENER]);
        }
        MHD_run(h->library);
    }
}

/* ---- creation and destruction ---------------------------------------------------------------- */

static tutti_status http_listen(struct tt_http *h, const struct tt_http_conf *conf)
{
    struct tt_listener opened[LISTENERS];
    tutti_status st = tt_listen_open(opened, LISTENERS, &h->nlisteners, conf->address,
                                     conf->given ? conf->given : TT_LISTEN_FOR_HTTP);

    if (st) {
        h->nlisteners = 0;
        return st;
    }
    h->is_loopback = true;
    snprintf(h->address, sizeof h->address, "%s", opened[0].text);
    for (uint32_t i = 0; i < h->nlisteners; i++) {
        h->is_loopback &= opened[i].loopback;
        if (!st)
            st = tt_acceptor_init(&h->acceptors[i], "http", opened[i].fd, h->epoll,
                                  (epoll_data_t){ .u32 = WHO_LISTENER + i });
        if (st)
            close(opened[i].fd);
    }
    return st;
}

static tutti_status start_library(struct tt_http *h)
{
    const union MHD_DaemonInfo *info;
    struct epoll_event ev = { .events = EPOLLIN, .data.u32 = WHO_LIBRARY };

    h->library = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL,
                                  request_handle, h, MHD_OPTION_CONNECTION_LIMIT,
                                  TT_HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                  (size_t)REQUEST_BYTES_MAX, MHD_OPTION_NOTIFY_CONNECTION,
                                  count_connection, h, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                                  MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_END);
    info = h->library ? MHD_get_daemon_info(h->library, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!info || epoll_ctl(h->epoll, EPOLL_CTL_ADD, info->epoll_fd, &ev) != 0)
        return tt_fail(TUTTI_ERR_SYSTEM, "http: cannot start libmicrohttpd: %s", strerror(errno));
    return TUTTI_OK;
}

/* Frees everything except the thread. */
static void http_release(struct tt_http *h)
{
    if (h->library)
        MHD_stop_daemon(h->library);
    for (uint32_t i = 0; h->kept && i < h->npages; i++)
        if (h->kept[i].response)
            MHD_destroy_response(h->kept[i].response);
    for (uint32_t i = 0; i < LISTENERS; i++)
        tt_acceptor_fini(&h->acceptors[i]);
    if (h->epoll >= 0)
        close(h->epoll);
    if (h->stop >= 0)
        close(h->stop);
    free(h->kept);
    free(h);
}

static tutti_status http_start(struct tt_http *h, const struct tt_http_conf *conf)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.u32 = WHO_STOP };
    sigset_t all, before;
    tutti_status st;
    int err;

    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->epoll < 0 || h->stop < 0 || epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->stop, &ev) != 0)
        return tt_fail_call(errno, "http", h->epoll < 0 ? "epoll_create1" : "eventfd");
    st = http_listen(h, conf);
    st = st ? st : start_library(h);
    if (st)
        return st;
    sigfillset(&all);   /* signals belong to the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&h->thread, NULL, http_thread, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err ? tt_fail_errno(err, "http: cannot start a thread") : TUTTI_OK;
}

tutti_status tt_http_create(struct tt_http **out, const struct tt_http_conf *conf)
{
    struct tt_http *h = calloc(1, sizeof *h);
    tutti_status st;

    if (!h)
        return tt_fail(TUTTI_ERR_NOMEM, "http: out of memory for a server");
    h->epoll = h->stop = -1;
    for (uint32_t i = 0; i < LISTENERS; i++)
        h->acceptors[i].listener = -1;
    h->pages = conf->pages;
    h->npages = conf->npages;
    h->context = conf->context;
    h->kept = calloc(conf->npages + 1u, sizeof *h->kept);
    for (uint32_t i = 0; i < TT_HTTP_CONNECTIONS; i++)
        h->open[i].fd = -1;
    st = h->kept ? http_start(h, conf)
                 : tt_fail(TUTTI_ERR_NOMEM, "http: out of memory for the contents of %u web pages",
                           conf->npages);
    if (st) {
        http_release(h);
        return st;
    }
    *out = h;
    return TUTTI_OK;
}

const char *tt_http_address(const struct tt_http *h)
{
    return h->address;
}

void tt_http_destroy(struct tt_http *h)
{
    const uint64_t one = 1;

    if (!h)
        return;
    if (write(h->stop, &one, sizeof one) != sizeof one)
        tt_log(TT_LOG_WARN, "http: cannot signal the server's thread to stop: %s", strerror(errno));
    pthread_join(h->thread, NULL);
    http_release(h);
}
