#include "boot/etcd_key.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/etcd.h"
#include "base/status.h"
#include "boot/id.h"
#include "boot/host_share.h"

#define ANSWER_BYTES_MAX (64u << 10)    /* an address has at most 256 bytes */
#define PUBLISH_NS (30 * TT_SECOND)
#define READ_NS TT_SECOND
#define FRESH_NS TT_SECOND              /* a later query of this host is a new request to etcd */
#define ASK_AGAIN_MS 5
#define REMOVE_NS TT_SECOND
#define LEASE_S_MIN 10u
#define LEASE_S_MAX 3600u               /* also used without a deadline */
#define KEY_BYTES 256

struct tt_etcd_key {
    struct tt_etcd *etcd;
    char servers[KEY_BYTES], key[KEY_BYTES];
    int64_t lease;                      /* 0: not published */
    struct tt_host_share share;          /* with the other ranks of this host */
    bool known;                         /* the last request, at read_ns, found the id */
    tutti_id id;
    uint64_t read_ns;
};

static bool is_prefix(const char *text)
{
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at > '~')
            return false;
    return *text;
}

tutti_status tt_etcd_key_open(struct tt_etcd_key **out, const char *url, const char *from,
                              const char *token, const char *host)
{
    const char *servers = url + strlen(TT_ETCD_KEY_URL), *slash = strchr(servers, '/');
    struct tt_etcd_key *k;
    tutti_status st;

    if (!slash || slash == servers || !is_prefix(slash + 1) || strlen(url) >= KEY_BYTES - 8)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s is \"%s\": must be etcd://host:port[,host:port...]/prefix, with at most "
                       "%d characters",
                       from, url, KEY_BYTES - 9);
    k = calloc(1, sizeof *k);
    if (!k)
        return tt_fail(TUTTI_ERR_NOMEM, "rendezvous: out of memory for a client of etcd");
    snprintf(k->servers, sizeof k->servers, "%.*s", (int)(slash - servers), servers);
    snprintf(k->key, sizeof k->key, "%.240s/root", slash + 1);
    st = tt_etcd_create(&k->etcd, k->servers);
    if (st) {
        free(k);
        return st;
    }
    tt_etcd_limit_answer(k->etcd, ANSWER_BYTES_MAX);
    tt_host_share_init(&k->share, token, "tutti key", url, host);
    *out = k;
    return TUTTI_OK;
}

/* ---- rank 0 ---- */

/* The lease expires a little after the deadline, after which no rank reads the key. */
static int64_t lease_s(uint64_t deadline_ns)
{
    const uint64_t now_ns = tt_now_ns();
    const uint64_t left_s = deadline_ns > now_ns ? (deadline_ns - now_ns) / TT_SECOND : 0;

    return left_s + LEASE_S_MIN > LEASE_S_MAX ? LEASE_S_MAX : (int64_t)(left_s + LEASE_S_MIN);
}

static tutti_status fail_publish(const struct tt_etcd_key *k, tutti_status st, const char *why)
{
    return tt_fail(st, "rendezvous: cannot publish the address of rank 0 in etcd, key \"%s\": %s",
                   k->key, why);
}

tutti_status tt_etcd_key_publish(struct tt_etcd_key *k, const tutti_id *id, uint64_t deadline_ns)
{
    const uint64_t end_ns = tt_now_ns() + PUBLISH_NS,
                   until_ns = deadline_ns < end_ns ? deadline_ns : end_ns;
    struct json_object *request = json_object_new_object(), *answer;
    char text[TT_ID_TEXT_BYTES];
    tutti_status st;

    tt_etcd_add_number(request, "TTL", lease_s(deadline_ns));
    st = tt_etcd_call(k->etcd, "lease/grant", request, until_ns, &answer);
    if (st)
        return fail_publish(k, st, tt_etcd_error(k->etcd));
    k->lease = tt_etcd_number(answer, "ID");
    json_object_put(answer);
    if (!k->lease)
        return fail_publish(k, TUTTI_ERR_PROTOCOL, "the server granted a lease without a number");

    tt_id_text(id, text);
    request = json_object_new_object();
    tt_etcd_add_text(request, "key", k->key);
    tt_etcd_add_text(request, "value", text);
    tt_etcd_add_number(request, "lease", k->lease);
    st = tt_etcd_call(k->etcd, "kv/put", request, until_ns, &answer);
    if (st)
        return fail_publish(k, st, tt_etcd_error(k->etcd));
    json_object_put(answer);
    k->known = true;
    k->id = *id;
    (void)tt_host_share_is_first(&k->share);    /* binds the socket, if no other rank has */
    return TUTTI_OK;
}

/* Revoking the lease removes the key, unless a later run has replaced it: then the key has another
 * lease. */
static void remove_key(struct tt_etcd_key *k)
{
    struct json_object *request = json_object_new_object(), *answer;

    tt_etcd_add_number(request, "ID", k->lease);
    if (tt_etcd_call(k->etcd, "lease/revoke", request, tt_now_ns() + REMOVE_NS, &answer) ==
        TUTTI_OK)
        json_object_put(answer);
    k->lease = 0;
}

void tt_etcd_key_close(struct tt_etcd_key *k)
{
    if (!k)
        return;
    if (k->lease)
        remove_key(k);
    tt_host_share_fini(&k->share);
    tt_etcd_destroy(k->etcd);
    free(k);
}

/* ---- the other ranks ---- */

/* Reads the id from the response to a range request. Returns NULL, or the reason why there is no
 * id. */
static const char *id_of_answer(struct json_object *answer, tutti_id *out)
{
    struct json_object *kvs = tt_etcd_at(answer, "kvs"), *first;
    const char *why = NULL;
    size_t bytes = 0;
    char *value;

    if (!json_object_is_type(kvs, json_type_array) || json_object_array_length(kvs) == 0)
        return "rank 0 has not published its address yet";
    first = json_object_array_get_idx(kvs, 0);
    value = tt_etcd_bytes(first, "value", &bytes);
    if (!value || strlen(value) != bytes || !tt_id_from_text(out, value))
        why = "its value is not the address of a rank 0";
    free(value);
    return why;
}

static void share_id(struct tt_etcd_key *k)
{
    tt_host_share_answer(&k->share, TT_SHARE_FOUND, &k->id, sizeof k->id);
}

/* Reads the id once, and responds to the ranks of this host that wait for it. TIMEOUT: there is no
 * id yet, or no server responds. INVALID: etcd refuses the request. The reason is in
 * why[TT_SHARE_BYTES_MAX], which is unchanged if the deadline ends the request. */
static tutti_status request_id(struct tt_etcd_key *k, uint64_t deadline_ns, char *why)
{
    const uint64_t end_ns = tt_now_ns() + READ_NS;
    struct json_object *request = json_object_new_object(), *answer;
    const char *none;
    tutti_status st;

    tt_etcd_add_text(request, "key", k->key);
    st = tt_etcd_call(k->etcd, "kv/range", request, deadline_ns < end_ns ? deadline_ns : end_ns,
                      &answer);
    if (st && (st != TUTTI_ERR_TIMEOUT || deadline_ns >= end_ns || !*why)) {
        snprintf(why, TT_SHARE_BYTES_MAX, "%s", tt_etcd_error(k->etcd));
    } else if (!st) {
        none = id_of_answer(answer, &k->id);
        json_object_put(answer);
        if (none)
            snprintf(why, TT_SHARE_BYTES_MAX, "etcd at %s, key \"%s\": %s", k->servers, k->key,
                     none);
        st = none ? TUTTI_ERR_TIMEOUT : TUTTI_OK;
    }
    k->known = !st;
    k->read_ns = tt_now_ns();
    if (k->known)
        share_id(k);
    else
        tt_host_share_not_yet(&k->share, why);
    return st;
}

tutti_status tt_etcd_key_read(struct tt_etcd_key *k, tutti_id *out, uint64_t deadline_ns, char *why)
{
    const uint64_t end_ns = tt_now_ns() + READ_NS,
                   until_ns = deadline_ns < end_ns ? deadline_ns : end_ns;
    tutti_status st;

    while (!tt_host_share_is_first(&k->share)) {
        const enum tt_share_answer a =
            tt_host_share_ask(&k->share, deadline_ns, out, sizeof *out, why, NULL);

        if (a == TT_SHARE_FOUND)
            return TUTTI_OK;
        if (a == TT_SHARE_NOT_YET && tt_now_ns() >= until_ns)
            return TUTTI_ERR_TIMEOUT;
        if (a == TT_SHARE_NOT_YET)
            poll(NULL, 0, ASK_AGAIN_MS);
    }
    st = request_id(k, deadline_ns, why);
    if (!st)
        *out = k->id;
    else if (st != TUTTI_ERR_TIMEOUT)
        return tt_fail(st,
                       "rendezvous: cannot read the address of rank 0 from etcd, key \"%s\": %s",
                       k->key, why);
    return st;
}

/* ---- the other ranks of this host ---- */

static bool is_fresh(const struct tt_etcd_key *k)
{
    return k->lease || tt_now_ns() - k->read_ns < FRESH_NS;
}

int tt_etcd_key_fd(const struct tt_etcd_key *k)
{
    return k && (k->known || !is_fresh(k)) ? k->share.listener : -1;
}

void tt_etcd_key_serve(struct tt_etcd_key *k, uint64_t deadline_ns)
{
    char why[TT_SHARE_BYTES_MAX] = "";

    if (!is_fresh(k))
        (void)request_id(k, deadline_ns, why);
    else if (k->known)
        share_id(k);
}
