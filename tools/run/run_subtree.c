#include "tools/run/run_subtree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/run/run_place.h"

/* ---- encoding ---- */

__attribute__((format(printf, 2, 3))) static void add(FILE *f, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vfprintf(f, fmt, ap);
    va_end(ap);
    fputc('\0', f);
}

bool subtree_encode(const struct subtree *s, uint32_t first, uint32_t n, char **out, size_t *bytes)
{
    char *text = NULL;
    size_t ntext;
    FILE *f = open_memstream(&text, &ntext);
    bool ok;

    if (!f)
        return false;
    add(f, "nranks=%u", s->nranks);
    add(f, "fanout=%u", s->fanout);
    add(f, "bind=%u", (unsigned)s->bind);
    add(f, "rsh=%s", s->rsh);
    for (size_t i = 0; i < s->nenv; i++)
        add(f, "env=%s", s->env[i]);
    for (size_t i = 0; i < s->argc; i++)
        add(f, "arg=%s", s->argv[i]);
    for (uint32_t i = first; i < first + n; i++) {
        const struct subtree_host *h = &s->hosts[i];

        add(f, "host=%u %u %u %s", h->index, h->first, h->nlocal, h->name);
    }
    ok = !ferror(f);
    if (fclose(f) != 0 || !ok) {
        free(text);
        return false;
    }
    *out = text;
    *bytes = ntext;
    return true;
}

/* ---- decoding ---- */

static char sentence[320];

__attribute__((format(printf, 1, 2))) static const char *invalid(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    return sentence;
}

/* Reads a decimal number of lo..hi that ends with `end`. Returns the position after it, or NULL. */
static const char *number(const char *text, char end, uint32_t lo, uint32_t hi, uint32_t *out)
{
    uint64_t v = 0;

    if (*text < '0' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++) {
        v = v * 10 + (uint64_t)(*text - '0');
        if (v > hi)
            return NULL;
    }
    if (*text != end || v < lo)
        return NULL;
    *out = (uint32_t)v;
    return text + (end != '\0');
}

/* "index first nlocal name". Indices must ascend, and the ranks must belong to the job. */
static const char *decode_host(struct subtree *s, const char *text)
{
    const struct subtree_host *before = s->nhosts ? &s->hosts[s->nhosts - 1] : NULL;
    struct subtree_host h, *more;
    const char *at = text;

    if (!(at = number(at, ' ', 0, HOSTS_MAX - 1, &h.index)) ||
        !(at = number(at, ' ', 0, RANKS_MAX - 1, &h.first)) ||
        !(at = number(at, ' ', 1, RANKS_MAX, &h.nlocal)))
        return invalid("invalid host \"%.200s\": must be \"INDEX FIRST NLOCAL NAME\"", text);
    if (!*at || strlen(at) >= HOST_BYTES)
        return invalid("invalid host name \"%.200s\": must be 1 to %d characters long", at,
                       HOST_BYTES - 1);
    if (h.first + h.nlocal > s->nranks)
        return invalid("invalid host \"%.100s\": its ranks are %u to %u, but the job has %u ranks",
                       at, h.first, h.first + h.nlocal - 1, s->nranks);
    if (before && (h.index <= before->index || h.first < before->first + before->nlocal))
        return invalid("invalid host \"%.100s\": it must follow \"%.100s\"", at, before->name);
    more = realloc(s->hosts, (s->nhosts + 1) * sizeof *more);
    if (!more)
        return invalid("out of memory for %u hosts", s->nhosts + 1);
    h.name = at;
    s->hosts = more;
    s->hosts[s->nhosts++] = h;
    return NULL;
}

static const char *decode_arg(struct subtree *s, const char *text)
{
    char **more = realloc(s->argv, (s->argc + 2) * sizeof *more);

    if (!more)
        return invalid("out of memory for %zu arguments", s->argc + 1);
    s->argv = more;
    s->argv[s->argc++] = (char *)text;
    s->argv[s->argc] = NULL;
    return NULL;
}

static const char *decode_env(struct subtree *s, const char *text)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text)
        return invalid("invalid variable \"%.200s\": must be NAME=VALUE", text);
    if (s->nenv == SUBTREE_ENV_MAX)
        return invalid("too many variables: the maximum is %d", SUBTREE_ENV_MAX);
    s->env[s->nenv++] = text;
    return NULL;
}

static const char *decode_one(struct subtree *s, const char *text)
{
    const char *value = strchr(text, '=');
    const size_t n = value ? (size_t)(value++ - text) : 0;
    uint32_t v = 0;

    if (n == 6 && memcmp(text, "nranks", n) == 0)
        return number(value, '\0', 1, RANKS_MAX, &s->nranks)
                   ? NULL
                   : invalid("invalid \"%.200s\": must be 1 to %u", text, RANKS_MAX);
    if (n == 6 && memcmp(text, "fanout", n) == 0)
        return number(value, '\0', 1, FANOUT_MAX, &s->fanout)
                   ? NULL
                   : invalid("invalid \"%.200s\": must be 1 to %u", text, FANOUT_MAX);
    if (n == 4 && memcmp(text, "bind", n) == 0) {
        if (!number(value, '\0', 0, BIND_NONE, &v))
            return invalid("invalid \"%.200s\": must be 0 to %u", text, (unsigned)BIND_NONE);
        s->bind = (enum bind_mode)v;
        return NULL;
    }
    if (n == 3 && memcmp(text, "rsh", n) == 0) {
        s->rsh = value;
        return NULL;
    }
    if (n == 3 && memcmp(text, "env", n) == 0)
        return decode_env(s, value);
    if (n == 3 && memcmp(text, "arg", n) == 0)
        return decode_arg(s, value);
    if (n == 4 && memcmp(text, "host", n) == 0)
        return decode_host(s, value);
    return invalid("unknown entry \"%.200s\"", text);
}

const char *subtree_decode(struct subtree *out, const char *data, size_t bytes)
{
    struct subtree s = { .nranks = 0 };
    const char *error = NULL;

    if (bytes == 0 || data[bytes - 1] != '\0')
        error = invalid("the list of %zu bytes is empty or truncated", bytes);
    for (size_t at = 0; !error && at < bytes; at += strlen(data + at) + 1)
        error = decode_one(&s, data + at);
    if (!error && (!s.nranks || !s.fanout || !s.rsh || !s.argv || !s.hosts))
        error = invalid("missing entry: %s", !s.nranks   ? "nranks"
                                             : !s.fanout ? "fanout"
                                             : !s.rsh    ? "rsh"
                                             : !s.argv   ? "arg"
                                                         : "host");
    if (error) {
        subtree_fini(&s);
        return error;
    }
    *out = s;
    return NULL;
}

void subtree_fini(struct subtree *s)
{
    free(s->hosts);
    free(s->argv);
}

/* ---- division ---- */

uint32_t subtree_ngroups(uint32_t n, uint32_t fanout)
{
    return n < fanout ? n : fanout;
}

void subtree_group(uint32_t n, uint32_t ngroups, uint32_t i, uint32_t *begin, uint32_t *size)
{
    const uint32_t each = n / ngroups, more = n % ngroups;

    *begin = i * each + (i < more ? i : more);
    *size = each + (i < more);
}
