#include "coordinator/web.h"

#include <stdlib.h>
#include <time.h>
#include "base/clock.h"
#include "base/status.h"
#include "coordinator/http.h"
#include "coordinator/metrics.h"
#include "coordinator/page.h"
#include "coordinator/picture.h"
#include "coordinator/status.h"

#define PATIENCE_NS (500 * TT_MS)   /* for a newer snapshot; then the one there is must do */
#define STALE_MS 5000               /* a coordinator that has shown nothing new for so long is not well */

#define NOTHING "default-src 'none'; frame-ancestors 'none'"
#define NPAGES 5u

struct tt_web {
    struct tt_board *board;
    struct tt_http *http;
    char policy[TT_PAGE_POLICY_BYTES];
    struct tt_http_page pages[NPAGES];
};

/* The latest; if there is none, says so and returns NULL. */
static const struct tt_snapshot *look(struct tt_web *w, FILE *to)
{
    const struct tt_snapshot *s = tt_board_get(w->board, PATIENCE_NS);

    if (!s)
        fputs("the coordinator has shown nothing yet\n", to);
    return s;
}

static unsigned write_page(void *web, FILE *to)
{
    struct tt_web *w = web;
    const struct tt_snapshot *s = look(w, to);

    if (!s)
        return 503;
    tt_page_write(s, to);
    tt_board_put(w->board, s);
    return 200;
}

static unsigned write_json(void *web, FILE *to)
{
    struct tt_web *w = web;
    const struct tt_snapshot *s = look(w, to);
    bool ok;

    if (!s)
        return 503;
    ok = tt_status_json(s, to);
    tt_board_put(w->board, s);
    return ok ? 200 : 500;
}

static unsigned write_metrics(void *web, FILE *to)
{
    struct tt_web *w = web;
    const struct tt_snapshot *s = look(w, to);

    if (!s)
        return 503;
    tt_metrics_write(s, to);
    tt_board_put(w->board, s);
    return 200;
}

static unsigned write_ring(void *web, FILE *to)
{
    struct tt_web *w = web;
    const struct tt_snapshot *s = look(w, to);
    bool drawn;

    if (!s)
        return 503;
    drawn = tt_picture_ring(&s->links, to);
    if (!drawn)
        fputs("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 300 40'><text x='10' y='25' font-size='13'>not measured yet</text></svg>\n", to);
    tt_board_put(w->board, s);
    return 200;
}

/* Well, if the coordinator's own thread still shows what it does. */
static unsigned write_health(void *web, FILE *to)
{
    struct tt_web *w = web;
    const struct tt_snapshot *s = look(w, to);
    struct timespec now;
    int64_t age_ms;

    if (!s)
        return 503;
    clock_gettime(CLOCK_REALTIME, &now);
    age_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - s->unix_ms;
    tt_board_put(w->board, s);
    if (age_ms > STALE_MS)
        fprintf(to, "the coordinator has shown nothing new for %.0f s\n", (double)age_ms / 1e3);
    else
        fputs("ok\n", to);
    return age_ms > STALE_MS ? 503 : 200;
}

tutti_status tt_web_create(struct tt_web **out, const char *address, struct tt_board *board)
{
    struct tt_web *w = calloc(1, sizeof *w);
    tutti_status st;

    if (!w)
        return tt_fail(TUTTI_ERR_NOMEM, "http: no memory for the status page");
    w->board = board;
    tt_page_policy(w->policy);
    w->pages[0] = (struct tt_http_page){ "/", "text/html; charset=utf-8", w->policy, write_page };
    w->pages[1] = (struct tt_http_page){ "/status.json", "application/json", NOTHING, write_json };
    w->pages[2] = (struct tt_http_page){ "/metrics", "text/plain; version=0.0.4; charset=utf-8", NOTHING, write_metrics };
    w->pages[3] = (struct tt_http_page){ "/ring.svg", "image/svg+xml", NOTHING, write_ring };
    w->pages[4] = (struct tt_http_page){ "/healthz", "text/plain; charset=utf-8", NOTHING, write_health };
    st = tt_http_create(
        &w->http, &(struct tt_http_conf){ .address = address, .pages = w->pages, .npages = NPAGES, .context = w });
    if (st) {
        free(w);
        return st;
    }
    *out = w;
    return TUTTI_OK;
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
    free(w);
}
