#include "base/etcd.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/hostport.h"
#include "base/resolve.h"
#include "base/status.h"

#ifdef TUTTI_HAVE_CURL
#include <curl/curl.h>

#define URL_BYTES 320
#define WHY_BYTES 320
#define REFUSAL_BYTES 200
#define ADDRESSES_BYTES 512     /* for eight of a name */
#define TRY_NS TT_SECOND        /* timeout of one server, if there are others */
#define TRY_LAST_NS (3600 * TT_SECOND)
#define PAUSE_NS (50 * TT_MS)   /* pause after all have failed */

struct tt_etcd {
    CURL *curl;
    struct curl_slist *headers;
    char *servers[TT_ETCD_SERVERS_MAX];
    struct tt_lookup *lookups[TT_ETCD_SERVERS_MAX];     /* unfinished, or NULL */
    bool resolved[TT_ETCD_SERVERS_MAX];                 /* libcurl has the addresses of the name */
    struct curl_slist *addresses;                       /* those last passed to libcurl */
    uint32_t nservers, at;      /* at: the last one that responded */
    char *answer;               /* NUL-terminated */
    size_t bytes, room, bytes_max;
    bool too_long;              /* the response exceeded bytes_max */
    char why[WHY_BYTES], error[CURL_ERROR_SIZE];
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void start_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- names of servers ----
 *
 * libcurl gets the addresses of a name instead of resolving it. Otherwise the end of a transfer
 * would wait for libcurl's resolver thread, and exceed the deadline if name servers do not
 * respond. */

/* tt_hostport_parse allows a colon in IPv6 addresses only. */
static bool is_literal(const char *host)
{
    struct in_addr any;

    return strchr(host, ':') || inet_pton(AF_INET, host, &any) == 1;
}

/* Sets libcurl's addresses of the name `at`, in the order of the list, in place of earlier ones.
 * Link-local addresses are omitted, because libcurl's list has no scopes. Returns false if no
 * address is left. */
static bool set_addresses(struct tt_etcd *e, const struct tt_hostport *at,
                          const struct addrinfo *list)
{
    char entry[TT_HOST_BYTES + ADDRESSES_BYTES], host[NI_MAXHOST];
    size_t n = (size_t)snprintf(entry, sizeof entry, "%s:%u", at->host, at->number);
    struct curl_slist *addresses;
    uint32_t count = 0;

    for (const struct addrinfo *i = list; i; i = i->ai_next) {
        const bool v6 = i->ai_family == AF_INET6;

        if (getnameinfo(i->ai_addr, i->ai_addrlen, host, sizeof host, NULL, 0, NI_NUMERICHOST) ||
            strchr(host, '%') || n + strlen(host) + 4 > sizeof entry)
            continue;
        n += (size_t)snprintf(entry + n, sizeof entry - n, "%s%s%s%s", count++ ? "," : ":",
                              v6 ? "[" : "", host, v6 ? "]" : "");
    }
    addresses = count ? curl_slist_append(NULL, entry) : NULL;
    if (!addresses)
        return false;
    curl_easy_setopt(e->curl, CURLOPT_RESOLVE, addresses);
    curl_slist_free_all(e->addresses);
    e->addresses = addresses;
    return true;
}

/* Resolves the name of the current server, unless libcurl has its addresses. At until_ns, leaves
 * an unfinished lookup to the next try. OK or TIMEOUT. */
static tutti_status resolve_server(struct tt_etcd *e, uint64_t until_ns)
{
    struct tt_lookup **lookup = &e->lookups[e->at];
    const char *server = e->servers[e->at], *why = "out of memory";
    struct addrinfo *list = NULL;
    struct tt_hostport at;

    tt_assert(!tt_hostport_parse(&at, server, strlen(server)));
    if (e->resolved[e->at] || is_literal(at.host))
        return TUTTI_OK;
    if (!*lookup)
        *lookup = tt_lookup_begin(at.host, at.port, 0, tt_now_ns());
    if (*lookup && !tt_lookup_await(*lookup, until_ns)) {
        why = "no answer before the deadline";
    } else if (*lookup) {
        if (tt_lookup_take(*lookup, &list, &why) == 0) {
            e->resolved[e->at] = set_addresses(e, &at, list);
            why = "it has only link-local addresses";
            freeaddrinfo(list);
        }
        tt_lookup_end(*lookup);
        *lookup = NULL;
    }
    if (e->resolved[e->at])
        return TUTTI_OK;
    snprintf(e->why, sizeof e->why, "etcd at %s does not respond: cannot resolve its name: %s",
             server, why);
    return TUTTI_ERR_TIMEOUT;
}

/* ---- one request ---- */

static size_t response_append(char *data, size_t one, size_t bytes, void *client)
{
    struct tt_etcd *e = client;
    size_t room = e->room;
    char *more;

    (void)one;
    e->too_long = bytes > e->bytes_max - e->bytes;
    if (e->too_long)
        return 0;
    while (room < e->bytes + bytes + 1)
        room = room ? 2 * room : 4096;
    if (room > e->room) {
        more = realloc(e->answer, room);
        if (!more)
            return 0;
        e->answer = more;
        e->room = room;
    }
    memcpy(e->answer + e->bytes, data, bytes);
    e->bytes += bytes;
    e->answer[e->bytes] = '\0';
    return bytes;
}

/* Returns whether etcd's error is temporary. Its codes are gRPC's: 4 and 14 mean that a server
 * is not available now. */
static bool is_temporary(struct json_object *answer)
{
    const int64_t code = tt_etcd_number(answer, "code");

    return code == 4 || code == 14;
}

static tutti_status request_refused(struct tt_etcd *e, const char *method,
                                    struct json_object *answer, long http)
{
    struct json_object *value = tt_etcd_at(answer, "error");
    const char *text =
        json_object_get_string(json_object_is_type(value, json_type_string) ? value : NULL);

    if (http == 200)
        snprintf(e->why, sizeof e->why,
                 "etcd at %s responded to %s with %zu bytes that are not a JSON object (check that "
                 "it is an etcd server)",
                 e->servers[e->at], method, e->bytes);
    else
        snprintf(e->why, sizeof e->why, "etcd at %s rejected %s: %.*s (HTTP status %ld)",
                 e->servers[e->at], method, REFUSAL_BYTES, text ? text : "no reason given", http);
    return TUTTI_ERR_INVALID;
}

/* Sends a request to one server, once. OK, INVALID (a permanent refusal), or TIMEOUT: another
 * server may succeed. */
static tutti_status ask_server(struct tt_etcd *e, const char *method, const char *body,
                               uint64_t until_ns, struct json_object **out)
{
    const uint64_t now_ns = tt_now_ns();
    const uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / TT_MS : 0;
    struct json_object *answer;
    char url[URL_BYTES];
    tutti_status st;
    long http = 0;
    CURLcode code;

    snprintf(url, sizeof url, "http://%s/v3/%s", e->servers[e->at], method);
    e->bytes = 0;
    e->too_long = false;
    e->error[0] = '\0';
    curl_easy_setopt(e->curl, CURLOPT_URL, url);
    curl_easy_setopt(e->curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(e->curl, CURLOPT_TIMEOUT_MS, (long)left_ms + 1);
    code = curl_easy_perform(e->curl);
    if (e->too_long) {
        snprintf(e->why, sizeof e->why,
                 "etcd at %s responded to %s with too many bytes: the maximum is %zu",
                 e->servers[e->at], method, e->bytes_max);
        return TUTTI_ERR_INVALID;
    }
    if (code != CURLE_OK) {
        e->resolved[e->at] = false;     /* the name may have another address now */
        snprintf(e->why, sizeof e->why, "etcd at %s does not respond: %.*s", e->servers[e->at],
                 REFUSAL_BYTES, e->error[0] ? e->error : curl_easy_strerror(code));
        return TUTTI_ERR_TIMEOUT;
    }
    curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, &http);
    answer = e->bytes ? json_tokener_parse(e->answer) : NULL;
    if (http == 200 && json_object_is_type(answer, json_type_object)) {
        *out = answer;
        return TUTTI_OK;
    }
    st = request_refused(e, method, answer, http);
    if (is_temporary(answer) || http >= 500)
        st = TUTTI_ERR_TIMEOUT;
    json_object_put(answer);
    return st;
}

tutti_status tt_etcd_call(struct tt_etcd *e, const char *method, struct json_object *request,
                          uint64_t deadline_ns, struct json_object **out)
{
    const char *body = json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN);
    tutti_status st = TUTTI_ERR_TIMEOUT;
    uint64_t now_ns = tt_now_ns();

    snprintf(e->why, sizeof e->why, "etcd at %s: the deadline passed before the request",
             e->servers[e->at]);
    for (uint32_t tries = 1; body && st == TUTTI_ERR_TIMEOUT && now_ns < deadline_ns; tries++) {
        const uint64_t try_ns = e->nservers > 1 ? TRY_NS : TRY_LAST_NS;
        const uint64_t until_ns = deadline_ns - now_ns < try_ns ? deadline_ns : now_ns + try_ns;

        st = resolve_server(e, until_ns);
        st = st ? st : ask_server(e, method, body, until_ns, out);
        if (st == TUTTI_ERR_TIMEOUT) {
            e->at = (e->at + 1) % e->nservers;
            if (tries % e->nservers == 0)
                nanosleep(&(struct timespec){ .tv_nsec = (long)PAUSE_NS }, NULL);
        }
        now_ns = tt_now_ns();
    }
    json_object_put(request);
    return st;
}

const char *tt_etcd_error(const struct tt_etcd *e)
{
    return e->why;
}

/* ---- client ---------------------------------------------------------------------------------- */

/* "host:port": only characters that have no other meaning in a URL. */
static bool is_server_address(const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";
    struct tt_hostport at;

    return strspn(text, allowed) == strlen(text) && !tt_hostport_parse(&at, text, strlen(text)) &&
           *at.host;
}

static tutti_status take_servers(struct tt_etcd *e, const char *servers)
{
    char *copy = strdup(servers), *rest = copy, *one;
    tutti_status st =
        copy ? TUTTI_OK : tt_fail(TUTTI_ERR_NOMEM, "etcd: out of memory for the server list");

    while (!st && (one = strsep(&rest, ","))) {
        if (!is_server_address(one))
            st = tt_fail(TUTTI_ERR_INVALID,
                         "etcd: invalid server address \"%s\" in \"%s\": must be host:port", one,
                         servers);
        else if (e->nservers == TT_ETCD_SERVERS_MAX)
            st = tt_fail(TUTTI_ERR_INVALID, "etcd: too many servers in \"%s\": the maximum is %u",
                         servers, TT_ETCD_SERVERS_MAX);
        else if (!(e->servers[e->nservers] = strdup(one)))
            st = tt_fail(TUTTI_ERR_NOMEM, "etcd: out of memory for the server list");
        else
            e->nservers++;
    }
    free(copy);
    return st;
}

static tutti_status curl_start(struct tt_etcd *e)
{
    e->curl = curl_easy_init();
    e->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!e->curl || !e->headers)
        return tt_fail(TUTTI_ERR_NOMEM, "etcd: out of memory for a client");
    curl_easy_setopt(e->curl, CURLOPT_HTTPHEADER, e->headers);
    curl_easy_setopt(e->curl, CURLOPT_WRITEFUNCTION, response_append);
    curl_easy_setopt(e->curl, CURLOPT_WRITEDATA, e);
    curl_easy_setopt(e->curl, CURLOPT_ERRORBUFFER, e->error);
    curl_easy_setopt(e->curl, CURLOPT_NOSIGNAL, 1L);
    /* never use the environment's proxy: the store is part of the installation */
    curl_easy_setopt(e->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(e->curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(e->curl, CURLOPT_TCP_NODELAY, 1L);
    return TUTTI_OK;
}

tutti_status tt_etcd_create(struct tt_etcd **out, const char *servers)
{
    struct tt_etcd *e = calloc(1, sizeof *e);
    tutti_status st;

    if (!e)
        return tt_fail(TUTTI_ERR_NOMEM, "etcd: out of memory for a client");
    e->bytes_max = TT_ETCD_ANSWER_BYTES_MAX;
    pthread_once(&curl_once, start_curl);
    st = take_servers(e, servers);
    st = st ? st : curl_start(e);
    if (st) {
        tt_etcd_destroy(e);
        return st;
    }
    *out = e;
    return TUTTI_OK;
}

void tt_etcd_limit_answer(struct tt_etcd *e, size_t bytes_max)
{
    e->bytes_max = bytes_max;
}

void tt_etcd_destroy(struct tt_etcd *e)
{
    if (!e)
        return;
    curl_easy_cleanup(e->curl);
    curl_slist_free_all(e->headers);
    curl_slist_free_all(e->addresses);
    for (uint32_t i = 0; i < e->nservers; i++) {
        tt_lookup_end(e->lookups[i]);
        free(e->servers[i]);
    }
    free(e->answer);
    free(e);
}

#else /* without libcurl there is no client */

tutti_status tt_etcd_create(struct tt_etcd **out, const char *servers)
{
    (void)out;
    return tt_fail(TUTTI_ERR_UNSUPPORTED,
                   "etcd at %s: this build has no libcurl, which the etcd client needs", servers);
}

void tt_etcd_destroy(struct tt_etcd *e)
{
    tt_assert(!e);
}

void tt_etcd_limit_answer(struct tt_etcd *e, size_t bytes_max)
{
    (void)bytes_max;
    tt_assert(!e);
}

tutti_status tt_etcd_call(struct tt_etcd *e, const char *method, struct json_object *request,
                          uint64_t deadline_ns, struct json_object **out)
{
    (void)method;
    (void)deadline_ns;
    (void)out;
    tt_assert(!e);
    json_object_put(request);
    return TUTTI_ERR_UNSUPPORTED;
}

const char *tt_etcd_error(const struct tt_etcd *e)
{
    (void)e;
    return "this build has no libcurl";
}

#endif

/* ---- fields of requests and responses -------------------------------------------------------- */

void tt_etcd_add_bytes(struct json_object *to, const char *key, const void *data, size_t bytes)
{
    char *text = malloc(bytes / 3 * 4 + 5);

    tt_assert(text && bytes < INT32_MAX / 2);
    json_object_object_add(
        to, key,
        json_object_new_string_len(text, EVP_EncodeBlock((unsigned char *)text, data, (int)bytes)));
    free(text);
}

void tt_etcd_add_text(struct json_object *to, const char *key, const char *text)
{
    tt_etcd_add_bytes(to, key, text, strlen(text));
}

void tt_etcd_add_number(struct json_object *to, const char *key, int64_t n)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)n);
    json_object_object_add(to, key, json_object_new_string(text));
}

struct json_object *tt_etcd_at(struct json_object *o, const char *key)
{
    struct json_object *found = NULL;

    if (json_object_is_type(o, json_type_object))
        json_object_object_get_ex(o, key, &found);
    return found;
}

int64_t tt_etcd_number(struct json_object *o, const char *key)
{
    return json_object_get_int64(tt_etcd_at(o, key));
}

char *tt_etcd_bytes(struct json_object *o, const char *key, size_t *bytes)
{
    struct json_object *value = tt_etcd_at(o, key);
    const char *text = value ? json_object_get_string(value) : "";
    const size_t length = strlen(text);
    char *out;
    int n;

    if (length % 4 || length > TT_ETCD_ANSWER_BYTES_MAX)
        return NULL;
    out = malloc(length / 4 * 3 + 1);
    n = out ? EVP_DecodeBlock((unsigned char *)out, (const unsigned char *)text, (int)length) : -1;
    if (n < 0) {
        free(out);
        return NULL;
    }
    for (size_t i = 0; i < 2 && i < length && text[length - 1 - i] == '='; i++)
        n--;
    out[n] = '\0';
    *bytes = (size_t)n;
    return out;
}
