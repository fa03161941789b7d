#include "boot/pmi1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"

#define KEY "tutti-rendezvous"

/* The response expected in each state, and whether it has a result code. */
static const struct {
    const char *answer;
    bool has_rc;
} expected[] = {
    [TT_PMI1_INIT] = { "response_to_init", true },   [TT_PMI1_MAXES] = { "maxes", false },
    [TT_PMI1_NAME] = { "my_kvsname", false },        [TT_PMI1_PUT] = { "put_result", true },
    [TT_PMI1_BARRIER] = { "barrier_out", false },    [TT_PMI1_GET] = { "get_result", true },
    [TT_PMI1_FINALIZE] = { "finalize_ack", false },
};

/* Finds name=VALUE among the words of a line and copies VALUE to out[cap]. Returns false if it is
 * missing or too long. */
static bool read_field(const char *line, const char *name, char *out, size_t cap)
{
    const size_t name_bytes = strlen(name);

    while (*line) {
        const size_t word = strcspn(line, " ");

        if (word > name_bytes && strncmp(line, name, name_bytes) == 0 && line[name_bytes] == '=') {
            const size_t bytes = word - name_bytes - 1;

            if (bytes >= cap)
                return false;
            memcpy(out, line + name_bytes + 1, bytes);
            out[bytes] = '\0';
            return true;
        }
        line += word;
        line += strspn(line, " ");
    }
    return false;
}

static void pmi1_fail(struct tt_pmi1 *p, const char *what, const char *answer)
{
    p->state = TT_PMI1_FAILED;
    snprintf(p->why, sizeof p->why, "%s: \"%.100s\"", what, answer);
}

static bool is_success(const char *answer)
{
    char rc[16];

    return read_field(answer, "rc", rc, sizeof rc) && strcmp(rc, "0") == 0;
}

/* Returns whether our key and value are within the server's limits. */
static bool pmi1_fits_limits(const struct tt_pmi1 *p, const char *answer)
{
    char keylen[16], vallen[16];

    return read_field(answer, "keylen_max", keylen, sizeof keylen) &&
           read_field(answer, "vallen_max", vallen, sizeof vallen) &&
           strtoul(keylen, NULL, 10) > strlen(KEY) && strtoul(vallen, NULL, 10) > strlen(p->value);
}

/* Enters a state and writes its request line. */
static void pmi1_request(struct tt_pmi1 *p, enum tt_pmi1_state state, char *line)
{
    int n = 0;

    p->state = (uint8_t)state;
    switch (state) {
    case TT_PMI1_INIT:
        n = snprintf(line, TT_PMI1_LINE_BYTES, "cmd=init pmi_version=1 pmi_subversion=1\n");
        break;
    case TT_PMI1_MAXES:
        n = snprintf(line, TT_PMI1_LINE_BYTES, "cmd=get_maxes\n");
        break;
    case TT_PMI1_NAME:
        n = snprintf(line, TT_PMI1_LINE_BYTES, "cmd=get_my_kvsname\n");
        break;
    case TT_PMI1_PUT:
        n = snprintf(line, TT_PMI1_LINE_BYTES, "cmd=put kvsname=%s key=%s value=%s\n", p->name, KEY,
                     p->value);
        break;
    case TT_PMI1_BARRIER:
        n = snprintf(line, TT_PMI1_LINE_BYTES, "cmd=barrier_in\n");
        break;
    case TT_PMI1_GET:
        n = snprintf(line, TT_PMI1_LINE_BYTES, "cmd=get kvsname=%s key=%s\n", p->name, KEY);
        break;
    case TT_PMI1_FINALIZE:
        n = snprintf(line, TT_PMI1_LINE_BYTES, "cmd=finalize\n");
        break;
    case TT_PMI1_DONE:
    case TT_PMI1_FAILED:
        line[0] = '\0';
        break;
    }
    tt_assert(n >= 0 && n < TT_PMI1_LINE_BYTES);
}

void tt_pmi1_begin(struct tt_pmi1 *p, const char *value, char *line)
{
    *p = (struct tt_pmi1){ .publishes = value };
    tt_assert(!value || (strlen(value) < sizeof p->value && !strpbrk(value, " \n=")));
    if (value)
        memcpy(p->value, value, strlen(value) + 1);
    pmi1_request(p, TT_PMI1_INIT, line);
}

void tt_pmi1_begin_leave(struct tt_pmi1 *p, char *line)
{
    *p = (struct tt_pmi1){ .leaves = true };
    pmi1_request(p, TT_PMI1_INIT, line);
}

/* Handles the expected response: reads its values and writes the next request. */
static void pmi1_next_request(struct tt_pmi1 *p, const char *answer, char *line)
{
    switch ((enum tt_pmi1_state)p->state) {
    case TT_PMI1_INIT:
        pmi1_request(p, p->leaves ? TT_PMI1_FINALIZE : TT_PMI1_MAXES, line);
        break;
    case TT_PMI1_MAXES:
        if (pmi1_fits_limits(p, answer))
            pmi1_request(p, TT_PMI1_NAME, line);
        else
            pmi1_fail(p, "its length limits are too small for an address", answer);
        break;
    case TT_PMI1_NAME:
        if (read_field(answer, "kvsname", p->name, sizeof p->name))
            pmi1_request(p, p->publishes ? TT_PMI1_PUT : TT_PMI1_BARRIER, line);
        else
            pmi1_fail(p, "the name of the key-value space is missing", answer);
        break;
    case TT_PMI1_PUT:
        pmi1_request(p, TT_PMI1_BARRIER, line);
        break;
    case TT_PMI1_BARRIER:
        pmi1_request(p, p->publishes ? TT_PMI1_FINALIZE : TT_PMI1_GET, line);
        break;
    case TT_PMI1_GET:
        if (read_field(answer, "value", p->value, sizeof p->value))
            pmi1_request(p, TT_PMI1_FINALIZE, line);
        else
            pmi1_fail(p, "rank 0 published no value", answer);
        break;
    default:
        p->state = TT_PMI1_DONE;
        break;
    }
}

void tt_pmi1_step(struct tt_pmi1 *p, const char *answer, char *line)
{
    char cmd[32];

    line[0] = '\0';
    if (p->state >= TT_PMI1_DONE)
        return;
    if (!read_field(answer, "cmd", cmd, sizeof cmd) || strcmp(cmd, expected[p->state].answer) != 0)
        pmi1_fail(p, "unexpected answer", answer);
    else if (expected[p->state].has_rc && !is_success(answer))
        pmi1_fail(p, "request rejected", answer);
    else
        pmi1_next_request(p, answer, line);
}

/* ---- PMI_PORT ---- */

#define JOIN_LINES_MAX 16   /* a server sends rank and size in fewer lines */
#define NRANKS_MAX (1u << 20)

void tt_pmi1_join_begin(struct tt_pmi1_join *j, uint32_t id, char *line)
{
    *j = (struct tt_pmi1_join){ .done = false };
    snprintf(line, TT_PMI1_LINE_BYTES, "cmd=initack pmiid=%u\n", id);
}

static void fail_join(struct tt_pmi1_join *j, const char *what, const char *answer)
{
    j->failed = true;
    snprintf(j->why, sizeof j->why, "%s: \"%.100s\"", what, answer);
}

/* Reads the number `name` of a line, if present. Returns false if it is present but not a number up
 * to max. */
static bool take_number(const char *answer, const char *name, uint32_t max, uint32_t *out,
                        bool *has)
{
    char text[16], *end;
    unsigned long v;

    if (!read_field(answer, name, text, sizeof text))
        return true;
    v = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || v > max)
        return false;
    *out = (uint32_t)v;
    *has = true;
    return true;
}

void tt_pmi1_join_step(struct tt_pmi1_join *j, const char *answer)
{
    char cmd[32], word[16];

    if (j->done || j->failed)
        return;
    if (!read_field(answer, "cmd", cmd, sizeof cmd) ||
        strcmp(cmd, j->greeted ? "set" : "initack") != 0)
        fail_join(j, "unexpected answer", answer);
    else if (read_field(answer, "rc", word, sizeof word) && !is_success(answer))
        fail_join(j, "request rejected", answer);
    else if (j->greeted && (!take_number(answer, "size", NRANKS_MAX, &j->nranks, &j->has_nranks) ||
                            !take_number(answer, "rank", NRANKS_MAX, &j->rank, &j->has_rank)))
        fail_join(j, "invalid rank or number of ranks", answer);
    else if (j->greeted && read_field(answer, "debug", word, sizeof word)) { /* the last line */
        if (!j->has_rank || !j->has_nranks || j->rank >= j->nranks)
            fail_join(j, "the rank is missing, or not below the number of ranks", answer);
        else
            j->done = true;
    } else if (++j->nlines == JOIN_LINES_MAX) {
        fail_join(j, "the handshake has too many messages", answer);
    }
    j->greeted = true;
}
