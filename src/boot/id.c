#include "boot/id.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/prng.h"
#include "base/status.h"
#include "boot/serve.h"

static const char magic[4] = { 'T', 'i', 'd', '1' };

_Static_assert(sizeof magic + TT_ID_TOKEN_BYTES + TT_ENDPOINT_BYTES <= sizeof(tutti_id),
               "an id holds its parts");
_Static_assert(3 + 2 * (sizeof magic + TT_ID_TOKEN_BYTES + TT_ENDPOINT_BYTES) < TT_ID_TEXT_BYTES,
               "so does its text");
_Static_assert(TT_ID_TEXT_BYTES == sizeof((struct tt_launch *)0)->rendezvous,
               "an id's text is a rendezvous");

void tt_id_init(tutti_id *out, const struct tt_endpoint *endpoint)
{
    uint8_t token[TT_ID_TOKEN_BYTES];
    struct tt_writer w;

    memset(out, 0, sizeof *out);
    tt_random_bytes(token, sizeof token);
    tt_writer_init(&w, out->bytes, sizeof out->bytes);
    tt_write_bytes(&w, magic, sizeof magic);
    tt_write_bytes(&w, token, sizeof token);
    tt_endpoint_write(&w, endpoint);
    tt_assert(!w.bad);
}

static bool parse(const tutti_id *id, struct tt_endpoint *endpoint,
                  uint8_t token[TT_ID_TOKEN_BYTES])
{
    struct tt_reader r;
    char found[sizeof magic];
    bool ours;

    tt_reader_init(&r, id->bytes, sizeof id->bytes);
    tt_read_bytes(&r, found, sizeof found);
    tt_read_bytes(&r, token, TT_ID_TOKEN_BYTES);
    tt_endpoint_read(&r, endpoint);
    ours = !r.bad && memcmp(found, magic, sizeof magic) == 0 && endpoint->port != 0;
    for (; ours && r.at < r.end; r.at++)
        ours = *r.at == 0;
    return ours;
}

tutti_status tt_id_parse(const tutti_id *id, struct tt_endpoint *endpoint,
                         uint8_t token[TT_ID_TOKEN_BYTES])
{
    static const tutti_id zeros;

    if (memcmp(id, &zeros, sizeof zeros) == 0)
        return tt_fail(TUTTI_ERR_INVALID, "invalid id: all zeros (call tutti_id_create on one "
                                          "rank, and send the id to all others)");
    if (!parse(id, endpoint, token))
        return tt_fail(TUTTI_ERR_INVALID,
                       "invalid id: pass the bytes returned by tutti_id_create unmodified");
    return TUTTI_OK;
}

/* Omits trailing zero bytes. */
void tt_id_text(const tutti_id *id, char out[TT_ID_TEXT_BYTES])
{
    size_t n = sizeof id->bytes, at = 3;

    while (n > 0 && id->bytes[n - 1] == 0)
        n--;
    memcpy(out, "id:", 4);
    tt_assert(at + 2 * n < TT_ID_TEXT_BYTES);   /* the caller's id is valid: created here, or
                                                   parsed */
    for (size_t i = 0; i < n; i++, at += 2)
        snprintf(out + at, 3, "%02x", (uint8_t)id->bytes[i]);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool tt_id_from_text(tutti_id *out, const char *text)
{
    struct tt_endpoint endpoint;
    uint8_t token[TT_ID_TOKEN_BYTES];
    const size_t n = strnlen(text, TT_ID_TEXT_BYTES);
    tutti_id id = { .bytes = { 0 } };

    if (n < 3 || n >= TT_ID_TEXT_BYTES || n % 2 != 1 || strncmp(text, "id:", 3) != 0)
        return false;
    for (size_t i = 3; i < n; i += 2) {
        if (digit(text[i]) < 0 || digit(text[i + 1]) < 0)
            return false;
        id.bytes[(i - 3) / 2] = (char)(digit(text[i]) << 4 | digit(text[i + 1]));
    }
    if (!parse(&id, &endpoint, token))
        return false;
    *out = id;
    return true;
}

tutti_status tt_id_join_token(char out[TT_TOKEN_BYTES], const char *users,
                              const uint8_t token[TT_ID_TOKEN_BYTES])
{
    size_t n = strlen(users);

    if (n + 2 * TT_ID_TOKEN_BYTES >= TT_TOKEN_BYTES)
        return tt_fail(TUTTI_ERR_INVALID,
                       "the token is too long: %zu characters (with an id, the maximum is %d)", n,
                       TT_TOKEN_BYTES - 1 - 2 * TT_ID_TOKEN_BYTES);
    memcpy(out, users, n + 1);
    for (size_t i = 0; i < TT_ID_TOKEN_BYTES; i++, n += 2)
        snprintf(out + n, 3, "%02x", token[i]);
    return TUTTI_OK;
}

tutti_status tt_id_read(const tutti_id *id, struct tt_launch *launch)
{
    struct tt_endpoint endpoint;
    uint8_t token[TT_ID_TOKEN_BYTES];
    char text[TT_ID_TEXT_BYTES];
    tutti_status st;

    st = tt_id_parse(id, &endpoint, token);
    if (st)
        return st;
    tt_id_text(id, text);
    memcpy(launch->rendezvous, text, strlen(text) + 1);
    return TUTTI_OK;
}

tutti_status tt_id_serve(tutti_id *out, const struct tt_launch *launch, uint64_t deadline_ns)
{
    char token[TT_TOKEN_BYTES];
    struct tt_serve_conf conf = { .token = token,
                                  .began_ns = tt_now_ns(),
                                  .deadline_ns = deadline_ns };
    uint8_t id_token[TT_ID_TOKEN_BYTES];
    struct tt_endpoint endpoint;
    struct tt_serve *serve;
    uint16_t port = 0;
    tutti_status st;
    tutti_id id;

    conf.listener = tt_listen(NULL, 0, &port);
    if (conf.listener < 0)
        return tt_fail_errno(errno, "rendezvous: cannot listen");
    st = tt_endpoint_init(&endpoint, port, launch->interfaces);
    if (st)
        goto close_listener;
    tt_id_init(&id, &endpoint);
    tt_assert(tt_id_parse(&id, &endpoint, id_token) == TUTTI_OK);
    st = tt_id_join_token(token, launch->token, id_token);
    if (st)
        goto close_listener;
    st = tt_serve_open(&serve, &conf);
    if (st)
        goto close_listener;
    st = tt_serve_in_background(serve);
    if (st) {
        tt_serve_close(serve);
        return st;
    }
    *out = id;
    return TUTTI_OK;

close_listener:
    close(conf.listener);
    return st;
}
