/* An etcd with arbitrary replies. The first byte selects the request: reading a journal, a write,
 * or a query for the leader; then come the replies, each up to a zero. With the byte's highest bit
 * the rest are records instead. No read goes outside a reply, a reported leader has a name, and
 * returned records are within the data read. */
#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Without a server: requests are answered from the input. */
#define tt_etcd_call answer_from_input
#define tt_etcd_error why_from_input
#include "../../src/coordinator/etcd_lead.c"
#include "../../src/coordinator/journal_etcd.c"
#include "etcd_answers.h"

struct taken {
    const uint8_t *begin, *end;
};

static bool take(void *context, const void *data, size_t bytes)
{
    struct taken *t = context;
    const uint8_t *first = data;

    tt_assert(first >= t->begin && bytes <= (size_t)(t->end - first));
    t->begin = first + bytes;
    return true;
}

static bool take_none(void *context, const void *data, size_t bytes)
{
    (void)context;
    (void)data;
    (void)bytes;
    return true;
}

/* On the heap, where sanitizers detect overruns. */
static void read_records(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);
    struct etcd_journal j = { .prefix = "p", .pending = copy, .bytes = bytes };
    struct taken all = { copy, copy + bytes };

    tt_assert(copy);
    memcpy(copy, data, bytes);
    if (pass_records(&j, take, &all) == TUTTI_OK)
        tt_assert(all.begin == all.end);
    free(copy);
}

static void ask(uint8_t what)
{
    static const struct tt_etcd_lead_conf conf = { .who = "me" };
    struct tt_etcd_lead lead = { .conf = &conf,
                                 .key = (char[]){ "p/leader" },
                                 .term = 3,
                                 .lock = PTHREAD_MUTEX_INITIALIZER,
                                 .ends = PTHREAD_COND_INITIALIZER };
    struct etcd_journal j = { .prefix = "p", .lead = &lead };
    struct leader leader = { .who = "" };
    int64_t term = 0;

    switch (what % 3) {
    case 0:
        etcd_read(&j.base, take_none, NULL);
        break;
    case 1:
        commit_piece(&j, 1, (const uint8_t *)"x", 1, "meta");
        break;
    default:
        if (get_leader(&lead, 0, &leader) == TUTTI_OK)
            tt_assert(memchr(leader.who, 0, sizeof leader.who));
        claim(&lead, &term);
        if (grant(&lead) == TUTTI_OK)
            lease_extend(&lead);
    }
    free(j.pending);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text;

    if (bytes < 1)
        return 0;
    tt_log_set(TT_LOG_NONE);
    if (data[0] & 128) {
        read_records(data + 1, bytes - 1);
        return 0;
    }
    text = malloc(bytes);
    tt_assert(text);
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = 0;
    at = text;
    end = text + bytes - 1;
    ask(data[0]);
    free(text);
    return 0;
}
