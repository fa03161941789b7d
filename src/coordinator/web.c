#include "coordinator/web.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/status.h"
#include "coordinator/event_log.h"
#include "coordinator/http.h"
#include "coordinator/metrics.h"
#include "coordinator/page.h"
#include "coordinator/page_frame.h"
#include "coordinator/ring_svg.h"
#include "coordinator/status.h"

#define SNAPSHOT_TIMEOUT_NS (500 * TT_MS)   /* maximum wait for a newer snapshot */
#define STALE_MS 5000               /* age of the snapshot above which a coordinator is unhealthy */

#define NOTHING "default-src 'none'; frame-ancestors 'none'"
#define NPAGES 5u

struct tt_web {
    pthread_mutex_t lock;               /* protects the next two fields */
    struct tt_board *board;             /* NULL: this coordinator stands by */
    struct tt_standby standby;
    struct tt_http *http;
    char policy[TT_PAGE_POLICY_BYTES];
    struct tt_http_page pages[NPAGES];
};

/* ---- pages of a leader ----------------------------------------------------------------------- */

static unsigned page_of(const struct tt_snapshot *s, FILE *to)
{
    tt_page_write(s, to);
    return 200;
}

static unsigned json_of(const struct tt_snapshot *s, FILE *to)
{
    return tt_status_json(s, to) ? 200 : 500;
}

static unsigned metrics_of(const struct tt_snapshot *s, FILE *to)
{
    tt_metrics_write(s, to);
    return 200;
}

static unsigned ring_of(const struct tt_snapshot *s, FILE *to)
{
    if (!tt_ring_svg_ring(&s->links, to))
        fputs("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 300 40'><text x='10' y='25' "
              "font-size='13'>not measured yet</text></svg>\n",
              to);
    return 200;
}

/* Healthy if the coordinator's thread still publishes snapshots. */
static unsigned health_of(const struct tt_snapshot *s, FILE *to)
{
    const int64_t age_ms = tt_event_log_unix_ms() - s->unix_ms;

    if (age_ms > STALE_MS)
        fprintf(to, "the coordinator has not updated its status for %.0f s\n",
                (double)age_ms / 1e3);
    else
        fputs("ok\n", to);
    return age_ms > STALE_MS ? 503 : 200;
}

/* ---- pages of a standby ---------------------------------------------------------------------- */

static unsigned page_of_standby(const struct tt_standby *s, FILE *to)
{
    tt_page_write_standby(s, to);
    return 200;
}

static unsigned json_of_standby(const struct tt_standby *s, FILE *to)
{
    return tt_status_standby_json(s, to) ? 200 : 500;
}

static unsigned metrics_of_standby(const struct tt_standby *s, FILE *to)
{
    tt_metrics_write_standby(s, to);
    return 200;
}

static unsigned ring_of_standby(const struct tt_standby *s, FILE *to)
{
    (void)s;
    fputs("this coordinator stands by; the leading coordinator shows the ring\n", to);
    return 503;
}

/* Healthy if the leader is known, since the store is then reachable. */
static unsigned health_of_standby(const struct tt_standby *s, FILE *to)
{
    fputs(*s->leader ? "ok, standing by\n" : "standing by; the leader is unknown\n", to);
    return *s->leader ? 200 : 503;
}

/* ---- pages ---- */

static unsigned write_one(struct tt_web *w, FILE *to,
                          unsigned (*of_leader)(const struct tt_snapshot *s, FILE *to),
                          unsigned (*of_standby)(const struct tt_standby *s, FILE *to))
{
    const struct tt_snapshot *s;
    unsigned status;

    pthread_mutex_lock(&w->lock);
    if (!w->board) {
        w->standby.unix_ms = tt_event_log_unix_ms();
        status = of_standby(&w->standby, to);
    } else if ((s = tt_board_get(w->board, SNAPSHOT_TIMEOUT_NS))) {
        status = of_leader(s, to);
        tt_board_put(w->board, s);
    } else {
        fputs("the coordinator has no status yet\n", to);
        status = 503;
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

static unsigned serve_page(void *web, FILE *to)
{
    return write_one(web, to, page_of, page_of_standby);
}

static unsigned write_json(void *web, FILE *to)
{
    return write_one(web, to, json_of, json_of_standby);
}

static unsigned write_metrics(void *web, FILE *to)
{
    return write_one(web, to, metrics_of, metrics_of_standby);
}

static unsigned serve_ring(void *web, FILE *to)
{
    return write_one(web, to, ring_of, ring_of_standby);
}

static unsigned write_health(void *web, FILE *to)
{
    return write_one(web, to, health_of, health_of_standby);
}

tutti_status tt_web_create(struct tt_web **out, const char *address, struct tt_board *board,
                           const char *run)
{
    struct tt_web *w = calloc(1, sizeof *w);
    tutti_status st;

    if (!w)
        return tt_fail(TUTTI_ERR_NOMEM, "http: out of memory for the status page");
    pthread_mutex_init(&w->lock, NULL);
    w->board = board;
    w->standby.since_unix_ms = tt_event_log_unix_ms();
    snprintf(w->standby.run, sizeof w->standby.run, "%s", run);
    tt_page_policy(w->policy);
    w->pages[0] = (struct tt_http_page){ "/", "text/html; charset=utf-8", w->policy, serve_page };
    w->pages[1] = (struct tt_http_page){ "/status.json", "application/json", NOTHING, write_json };
    w->pages[2] = (struct tt_http_page){ "/metrics", "text/plain; version=0.0.4; charset=utf-8",
                                         NOTHING, write_metrics };
    w->pages[3] = (struct tt_http_page){ "/ring.svg", "image/svg+xml", NOTHING, serve_ring };
    w->pages[4] =
        (struct tt_http_page){ "/healthz", "text/plain; charset=utf-8", NOTHING, write_health };
    st = tt_http_create(
        &w->http, &(struct tt_http_conf){
                      .address = address, .pages = w->pages, .npages = NPAGES, .context = w });
    if (st) {
        pthread_mutex_destroy(&w->lock);
        free(w);
        return st;
    }
    *out = w;
    return TUTTI_OK;
}

void tt_web_show(struct tt_web *w, struct tt_board *board)
{
    pthread_mutex_lock(&w->lock);
    w->board = board;
    pthread_mutex_unlock(&w->lock);
}

void tt_web_stand_by(struct tt_web *w, const char *leader)
{
    pthread_mutex_lock(&w->lock);
    if (w->board)
        w->standby.since_unix_ms = tt_event_log_unix_ms();
    w->board = NULL;
    snprintf(w->standby.leader, sizeof w->standby.leader, "%s", leader);
    pthread_mutex_unlock(&w->lock);
}

const char *tt_web_address(const struct tt_web *w)
{
    return tt_http_address(w->http);
}

void tt_web_destroy(struct tt_web *w)
{
    if (!w)
        return;
    tt_http_destroy(w->http);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
