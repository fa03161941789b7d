#include "tools/run/run_place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_here(const char *name)
{
    char own[HOST_BYTES] = "";

    gethostname(own, sizeof own - 1);
    return strcmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 ||
           strcmp(name, own) == 0;
}

static bool add_host(struct hosts *h, const char *name, size_t bytes, uint32_t slots)
{
    struct host *at;

    if (bytes == 0 || bytes >= HOST_BYTES) {
        fprintf(stderr, "%s: invalid host name \"%.*s\": must be 1 to %d characters long\n",
                h->tool, (int)bytes, name, HOST_BYTES - 1);
        return false;
    }
    if (*name == '-') {     /* the remote shell would take it for an option */
        fprintf(stderr, "%s: invalid host name \"%.*s\": must not begin with \"-\"\n", h->tool,
                (int)bytes, name);
        return false;
    }
    if (h->n == HOSTS_MAX) {
        fprintf(stderr, "%s: too many hosts: \"%s\" (the maximum is %u)\n", h->tool, name,
                HOSTS_MAX);
        return false;
    }
    at = realloc(h->at, (h->n + 1) * sizeof *at);
    if (!at) {
        fprintf(stderr, "%s: out of memory for the list of hosts\n", h->tool);
        return false;
    }
    h->at = at;
    at = &h->at[h->n++];
    memset(at, 0, sizeof *at);
    memcpy(at->name, name, bytes);
    at->slots = slots;
    at->here = is_here(at->name);
    return true;
}

static bool parse_slots(const struct hosts *h, const char *text, uint32_t *out)
{
    char *end;
    const unsigned long v = strtoul(text, &end, 10);

    if (end == text || *end || v == 0 || v > RANKS_MAX) {
        fprintf(stderr, "%s: invalid number of slots \"%s\": must be 1 to %u\n", h->tool, text,
                RANKS_MAX);
        return false;
    }
    *out = (uint32_t)v;
    return true;
}

/* Parses "host", "host:slots", "[v6]" or "[v6]:slots". */
static bool parse_host(struct hosts *h, char *text)
{
    char *end = *text == '[' ? strchr(text, ']') : strchr(text, ':');
    uint32_t slots = 0;

    if (*text == '[') {
        if (!end || (end[1] != '\0' && end[1] != ':')) {
            fprintf(stderr, "%s: invalid host \"%s\": must be like [ADDRESS] or [ADDRESS]:SLOTS\n",
                    h->tool, text);
            return false;
        }
        *end++ = '\0';
        text++;
    }
    if (end && *end == ':') {
        *end++ = '\0';
        if (!parse_slots(h, end, &slots))
            return false;
    }
    return add_host(h, text, strlen(text), slots);
}

bool hosts_parse(struct hosts *out, const char *tool, const char *text)
{
    char *copy = strdup(text), *rest = copy, *one;
    bool ok = copy;

    *out = (struct hosts){ .tool = tool };
    while (ok && (one = strsep(&rest, ",")))
        ok = parse_host(out, one);
    free(copy);
    return ok;
}

static bool parse_line(struct hosts *h, char *line)
{
    char *save, *name, *more;
    uint32_t slots;

    line[strcspn(line, "#\n")] = '\0';
    name = strtok_r(line, " \t\r", &save);
    if (!name)
        return true;
    if (!parse_host(h, name))
        return false;
    more = strtok_r(NULL, " \t\r", &save);
    if (!more)
        return true;
    if (strncmp(more, "slots=", 6) == 0) {
        if (!parse_slots(h, more + 6, &slots))
            return false;
        h->at[h->n - 1].slots = slots;
        more = strtok_r(NULL, " \t\r", &save);
    }
    if (more)
        fprintf(stderr, "%s: invalid line \"%s\": must be \"host\" or \"host slots=N\"\n", h->tool,
                more);
    return !more;
}

bool hosts_read(struct hosts *out, const char *tool, const char *path)
{
    FILE *f = fopen(path, "re");
    uint32_t number = 0;
    char line[1024];
    bool ok = true;

    *out = (struct hosts){ .tool = tool };
    if (!f) {
        fprintf(stderr, "%s: cannot read the host file %s: %s\n", tool, path, strerror(errno));
        return false;
    }
    while (ok && fgets(line, sizeof line, f)) {
        ok = parse_line(out, line);
        number++;
    }
    if (!ok)
        fprintf(stderr, "%s: the error is in line %u of the host file %s\n", tool, number, path);
    if (ferror(f)) {
        fprintf(stderr, "%s: cannot read the host file %s: %s\n", tool, path, strerror(errno));
        ok = false;
    }
    fclose(f);
    if (ok && out->n == 0) {
        fprintf(stderr, "%s: the host file %s contains no host\n", tool, path);
        ok = false;
    }
    return ok;
}

bool hosts_here(struct hosts *out, const char *tool)
{
    char own[HOST_BYTES] = "localhost";

    gethostname(own, sizeof own - 1);
    *out = (struct hosts){ .tool = tool };
    if (!add_host(out, own, strlen(own), 0))
        return false;
    out->at[0].here = true;
    return true;
}

bool hosts_place(struct hosts *h, uint32_t nranks, uint32_t *host_of, uint32_t *local_of)
{
    uint64_t slots = 0;
    uint32_t rank = 0, unsaid = 0;

    for (uint32_t i = 0; i < h->n; i++) {
        slots += h->at[i].slots;
        unsaid += h->at[i].slots == 0;
    }
    if (unsaid == 0 && slots < nranks) {
        fprintf(stderr, "%s: too many ranks: %u (the hosts have %llu slot%s)\n", h->tool, nranks,
                (unsigned long long)slots, slots == 1 ? "" : "s");
        return false;
    }
    for (uint32_t i = 0; i < h->n; i++) {
        struct host *at = &h->at[i];
        uint32_t take = at->slots;

        if (take == 0) {    /* an equal share of the ranks beyond the given slots */
            take = slots < nranks ? (uint32_t)((nranks - slots + unsaid - 1) / unsaid) : 0;
        }
        for (; at->nlocal < take && rank < nranks; rank++) {
            host_of[rank] = i;
            local_of[rank] = at->nlocal++;
        }
    }
    return true;
}
