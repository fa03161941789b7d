/* Rank and rendezvous from an arbitrary environment: lines NAME=value. Accepted results are valid,
 * with terminated strings. Then the text and the bytes of an id: a valid one can be written and
 * read again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/status.h"
#include "boot/id.h"

#define VARS_MAX 32
#define TEXT_BYTES_MAX 4096

static char text[TEXT_BYTES_MAX + 1];
static char *vars[VARS_MAX];
static size_t nvars;

static const char *get(const char *name)
{
    const size_t n = strlen(name);

    for (size_t i = 0; i < nvars; i++)
        if (strncmp(vars[i], name, n) == 0 && vars[i][n] == '=')
            return vars[i] + n + 1;
    return NULL;
}

static void split_lines(const uint8_t *data, size_t bytes)
{
    char *rest = text;

    memcpy(text, data, bytes);
    text[bytes] = 0;
    for (nvars = 0; nvars < VARS_MAX && rest;)
        vars[nvars++] = strsep(&rest, "\n");
}

static bool begins(const char *what, const char *with)
{
    return strncmp(what, with, strlen(with)) == 0;
}

static void check_launch(const struct tt_launch *l)
{
    const char *where = l->rendezvous;

    if (l->query == TT_QUERY_NONE)
        tt_assert(l->rank < l->nranks && l->nranks <= 1u << 20);
    else
        tt_assert(l->nranks == 0 && l->rank < 1u << 20);
    tt_assert(l->launcher);
    tt_assert(memchr(l->rendezvous, 0, sizeof l->rendezvous) &&
              memchr(l->token, 0, sizeof l->token));
    tt_assert(memchr(l->interfaces, 0, sizeof l->interfaces) &&
              memchr(l->wires, 0, sizeof l->wires));
    tt_assert(!*where || begins(where, "tcp://") || begins(where, "file://") ||
              begins(where, "etcd://") || begins(where, "id:"));
}

/* A rendezvous may be an id, and the id a rendezvous. */
static void check_id(const tutti_id *id)
{
    char id_text[TT_ID_TEXT_BYTES];
    uint8_t token[TT_ID_TOKEN_BYTES];
    struct tt_endpoint endpoint;
    struct tt_launch l = { .rank = 0 };
    tutti_id again;

    if (tt_id_parse(id, &endpoint, token) != TUTTI_OK)
        return;
    tt_assert(tt_id_read(id, &l) == TUTTI_OK && begins(l.rendezvous, "id:"));
    tt_id_text(id, id_text);
    tt_assert(tt_id_from_text(&again, id_text) && memcmp(&again, id, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const tutti_conf conf = { .size = sizeof conf, .nranks = 3, .rank = 1 };
    struct tt_launch l;
    const char *said;
    tutti_id id = { .bytes = { 0 } };

    if (bytes > TEXT_BYTES_MAX)
        return 0;
    tt_log_set(TT_LOG_NONE);
    split_lines(data, bytes);
    if (tt_launch_read(&l, NULL, get) == TUTTI_OK)
        check_launch(&l);
    if (tt_launch_read(&l, &conf, get) == TUTTI_OK)
        check_launch(&l);
    said = get("TUTTI_RENDEZVOUS");
    if (said && tt_id_from_text(&id, said))
        check_id(&id);
    memcpy(id.bytes, data, bytes < sizeof id.bytes ? bytes : sizeof id.bytes);
    check_id(&id);
    return 0;
}
