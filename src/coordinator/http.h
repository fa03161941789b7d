/* A few pages over HTTP (libmicrohttpd), from a separate thread. Clients are unauthenticated:
 * connections, memory, the size of a request and the duration of a connection are bounded. If there
 * are too many connections, the oldest is closed. Only GET and HEAD are supported, with one request
 * per connection. On a loopback address, only requests to an address or "localhost" are answered.
 * Thus a foreign web page cannot read the pages by a name that resolves to this host. */
#ifndef TT_COORDINATOR_HTTP_H
#define TT_COORDINATOR_HTTP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "tutti/tutti.h"

#define TT_HTTP_CONNECTIONS 64u
#define TT_HTTP_CONNECTION_NS 10000000000ull    /* maximum duration of a connection */
#define TT_HTTP_KEPT_NS 200000000ull            /* time for which a written page is reused */

struct tt_http_page {
    const char *path;       /* "/metrics" */
    const char *type;       /* "text/plain; charset=utf-8" */
    const char *policy;     /* its Content-Security-Policy: what a browser may load for it */
    /* Writes the page, in the server's thread; returns the status (200). */
    unsigned (*write)(void *context, FILE *to);
};

struct tt_http_conf {
    const char *address;    /* see coordinator/listen.h; at most four addresses */
    const char *given;      /* the option that sets the address, for messages; NULL:
                               TT_LISTEN_FOR_HTTP */
    const struct tt_http_page *pages;   /* [npages], owned by the caller, must outlive the server */
    uint32_t npages;
    void *context;
};

struct tt_http;

/* Listens and starts serving. INVALID or SYSTEM (logged) names the address and the cause. On
 * success *out belongs to the caller. */
tutti_status tt_http_create(struct tt_http **out, const struct tt_http_conf *conf);
/* Returns the server's address, e.g. "127.0.0.1:43215"; valid as long as the server. */
const char *tt_http_address(const struct tt_http *h);
/* Closes all connections. h may be NULL. */
void tt_http_destroy(struct tt_http *h);

#endif
