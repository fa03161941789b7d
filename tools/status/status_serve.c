/* The status over HTTP: a page, JSON and metrics. All of them show one answer, which is renewed at
 * most once per interval, and only for a request: many clients cause no more queries than one. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "coordinator/http.h"
#include "coordinator/listen.h"
#include "coordinator/page_frame.h"
#include "tools/failed.h"
#include "tools/status/status.h"

#define GIVEN "--serve"
#define NOTHING "default-src 'none'; frame-ancestors 'none'"
#define NPAGES 4u

/* Used only by the thread of the server. */
struct server {
    struct status_serve_conf conf;
    char policy[TT_PAGE_POLICY_BYTES];
    bool has_answer;
    struct status_answer answer;
    char why[STATUS_WHY_BYTES];         /* without an answer: the cause */
    uint64_t next_ns;                   /* earliest time of the next query */
    int64_t unix_ms;                    /* of the answer, or of the failed query */
};

static int64_t now_unix_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Queries the job if the last answer is old. Returns whether there is an answer. */
static bool refresh(struct server *s)
{
    const struct tt_collect_query q = { .what = TT_COLLECT_RATES,
                                        .timeout_ms = s->conf.timeout_ms };
    struct status_link l;

    if (tt_now_ns() < s->next_ns)
        return s->has_answer;
    if (s->has_answer)
        status_answer_fini(&s->answer);
    s->has_answer = status_connect(&s->conf.where, s->conf.timeout_ms, &l, s->why);
    if (s->has_answer) {
        s->has_answer = status_ask(&s->conf.where, &l, &q, &s->answer, s->why);
        status_disconnect(&l);
    }
    if (s->has_answer)          /* unknown before over TCP; shown after the job has ended */
        s->conf.where.job = s->answer.hello.job;
    s->unix_ms = now_unix_ms();
    s->next_ns = tt_now_ns() + s->conf.interval_ns;
    return s->has_answer;
}

/* ---- pages ---- */

static unsigned serve_page(void *context, FILE *to)
{
    struct server *s = context;

    if (refresh(s)) {
        status_page_write(&s->answer, s->conf.rows, s->unix_ms, to);
        return 200;
    }
    status_page_write_error(s->conf.where.job, s->why, s->unix_ms, to);
    return 503;
}

static unsigned serve_json(void *context, FILE *to)
{
    struct server *s = context;

    if (!refresh(s)) {
        status_print_json_error(s->why, to);
        return 503;
    }
    return status_print_json(&s->answer, to) ? 200 : 500;
}

static unsigned serve_metrics(void *context, FILE *to)
{
    struct server *s = context;

    if (!refresh(s)) {
        fprintf(to, "# %s\n", s->why);
        return 503;
    }
    status_print_metrics(&s->answer, s->conf.rows, to);
    return 200;
}

/* Reports the job as healthy if one of its processes responds. */
static unsigned serve_health(void *context, FILE *to)
{
    struct server *s = context;
    const bool good = refresh(s);

    fprintf(to, "%s\n", good ? "ok" : s->why);
    return good ? 200 : 503;
}

/* ---- the server ---- */

/* Browsers cannot open a wildcard address; loopback replaces it. Returns false if standard output
 * cannot be written, which main.c reports. */
static bool announce(const char *at)
{
    static const char four[] = "0.0.0.0:", six[] = "[::]:";

    if (strncmp(at, four, strlen(four)) == 0)
        printf("status page: http://127.0.0.1:%s/\n", at + strlen(four));
    else if (strncmp(at, six, strlen(six)) == 0)
        printf("status page: http://[::1]:%s/\n", at + strlen(six));
    else
        printf("status page: http://%s/\n", at);
    return fflush(stdout) == 0 && !ferror(stdout);
}

static tutti_status check_address(const char *address)
{
    bool loopback = true;
    const tutti_status st = tt_listen_check(address, GIVEN, &loopback);

    if (!st && !loopback)
        fprintf(stderr,
                "tutti status: warning: %s can be reached from other hosts: anyone there can read "
                "the page (use a loopback address)\n",
                address);
    return st;
}

int status_serve(const struct status_serve_conf *conf)
{
    static struct server s;
    static atomic_bool stop;
    char address[TT_LISTEN_TEXT_BYTES + 16];
    const bool is_port = strspn(conf->address, "0123456789") == strlen(conf->address);
    const struct tt_http_page pages[NPAGES] = {
        { "/", "text/html; charset=utf-8", s.policy, serve_page },
        { "/json", "application/json", NOTHING, serve_json },
        { "/metrics", "text/plain; version=0.0.4; charset=utf-8", NOTHING, serve_metrics },
        { "/healthz", "text/plain; charset=utf-8", NOTHING, serve_health },
    };
    struct tt_http *http = NULL;
    sigset_t ends;
    tutti_status st;
    bool announced;
    int got;

    s = (struct server){ .conf = *conf };
    s.conf.where.stop = &stop;
    tt_page_policy(s.policy);
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    snprintf(address, sizeof address, "%s%s", is_port ? "127.0.0.1:" : "", conf->address);
    st = check_address(address);
    st = st ? st
            : tt_http_create(&http, &(struct tt_http_conf){ .address = address,
                                                            .given = GIVEN,
                                                            .pages = pages,
                                                            .npages = NPAGES,
                                                            .context = &s });
    if (st) {
        tool_failed("tutti status", NULL, st);
        return st == TUTTI_ERR_INVALID ? 2 : EXIT_FAILURE;
    }
    announced = announce(tt_http_address(http));
    if (announced)
        sigwait(&ends, &got);
    atomic_store(&stop, true);      /* ends a query */
    tt_http_destroy(http);
    if (s.has_answer)
        status_answer_fini(&s.answer);
    return announced ? EXIT_SUCCESS : EXIT_FAILURE;
}
