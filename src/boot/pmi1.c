#include "boot/pmi1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"

#define KEY "tutti-rendezvous"

/* What each state expects, and asks to be there. */
static const struct {
    const char *answer;
    bool has_rc;
} expected[] = {
    [TT_PMI1_INIT] = { "response_to_init", true },   [TT_PMI1_MAXES] = { "maxes", false },
    [TT_PMI1_NAME] = { "my_kvsname", false },        [TT_PMI1_PUT] = { "put_result", true },
    [TT_PMI1_BARRIER] = { "barrier_out", false },    [TT_PMI1_GET] = { "get_result", true },
    [TT_PMI1_FINALIZE] = { "finalize_ack", false },
};

bool tt_pmi1_field(const char *line, const char *name, char *out, size_t cap)
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

static void fail(struct tt_pmi1 *p, const char *what, const char *answer)
{
    p->state = TT_PMI1_FAILED;
    snprintf(p->why, sizeof p->why, "%s: \"%.100s\"", what, answer);
}

static bool is_success(const char *answer)
{
    char rc[16];

    return tt_pmi1_field(answer, "rc", rc, sizeof rc) && strcmp(rc, "0") == 0;
}

/* Whether a value of ours fits into what the server allows. */
static bool fits(const struct tt_pmi1 *p, const char *answer)
{
    char keylen[16], vallen[16];

    return tt_pmi1_field(answer, "keylen_max", keylen, sizeof keylen) &&
           tt_pmi1_field(answer, "vallen_max", vallen, sizeof vallen) && strtoul(keylen, NULL, 10) > strlen(KEY) &&
           strtoul(vallen, NULL, 10) > strlen(p->value);
}

/* Goes to a state and writes what is said to get its answer. */
static void ask(struct tt_pmi1 *p, enum tt_pmi1_state state, char *line)
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
        n = snprintf(line, TT_PMI1_LINE_BYTES, "cmd=put kvsname=%s key=%s value=%s\n", p->name, KEY, p->value);
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
    ask(p, TT_PMI1_INIT, line);
}

/* The answer is the expected one: takes what is in it and asks the next question. */
static void go_on(struct tt_pmi1 *p, const char *answer, char *line)
{
    switch ((enum tt_pmi1_state)p->state) {
    case TT_PMI1_INIT:
        ask(p, TT_PMI1_MAXES, line);
        break;
    case TT_PMI1_MAXES:
        if (fits(p, answer))
            ask(p, TT_PMI1_NAME, line);
        else
            fail(p, "its values are too short for an address", answer);
        break;
    case TT_PMI1_NAME:
        if (tt_pmi1_field(answer, "kvsname", p->name, sizeof p->name))
            ask(p, p->publishes ? TT_PMI1_PUT : TT_PMI1_BARRIER, line);
        else
            fail(p, "it names no key-value space", answer);
        break;
    case TT_PMI1_PUT:
        ask(p, TT_PMI1_BARRIER, line);
        break;
    case TT_PMI1_BARRIER:
        ask(p, p->publishes ? TT_PMI1_FINALIZE : TT_PMI1_GET, line);
        break;
    case TT_PMI1_GET:
        if (tt_pmi1_field(answer, "value", p->value, sizeof p->value))
            ask(p, TT_PMI1_FINALIZE, line);
        else
            fail(p, "it has no value of rank 0", answer);
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
    if (!tt_pmi1_field(answer, "cmd", cmd, sizeof cmd) || strcmp(cmd, expected[p->state].answer) != 0)
        fail(p, "an unexpected answer", answer);
    else if (expected[p->state].has_rc && !is_success(answer))
        fail(p, "it refused", answer);
    else
        go_on(p, answer, line);
}
