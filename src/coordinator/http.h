/* A few pages over HTTP (libmicrohttpd), from a thread of its own. Who asks may be anybody: connections, memory, a request's size and the time a
 * connection may take are bounded; whoever holds its connection longest goes when another one comes. GET and HEAD alone; each connection
 * carries one request. On a loopback address only requests to an address or "localhost" are answered: so a page from elsewhere cannot read
 * these through a name of its own that it points here. */
#ifndef TT_COORDINATOR_HTTP_H
#define TT_COORDINATOR_HTTP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "tutti/tutti.h"

#define TT_HTTP_CONNECTIONS 64u
#define TT_HTTP_CONNECTION_NS 10000000000ull    /* until a connection is ended, done or not */
#define TT_HTTP_KEPT_NS 200000000ull            /* a page is made at most so often */

struct tt_http_page {
    const char *path;       /* "/metrics" */
    const char *type;       /* "text/plain; charset=utf-8" */
    const char *policy;     /* what a browser may load for it: its Content-Security-Policy */
    /* Writes the page, in the server's thread; returns the status (200). */
    unsigned (*write)(void *context, FILE *to);
};

struct tt_http_conf {
    const char *address;    /* as coordinator/listen.h says, of at most four addresses */
    const struct tt_http_page *pages;   /* [npages], the caller's, until the server is destroyed */
    uint32_t npages;
    void *context;
};

struct tt_http;

/* Listens, and serves from then on. INVALID or SYSTEM (logged) names the address and what is wrong. On success *out is the caller's. */
tutti_status tt_http_create(struct tt_http **out, const struct tt_http_conf *conf);
/* "127.0.0.1:43215": where it listens, as long as it does. */
const char *tt_http_address(const struct tt_http *h);
/* Ends all connections. NULL is fine. */
void tt_http_destroy(struct tt_http *h);

#endif
