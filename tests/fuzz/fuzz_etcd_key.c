/* An etcd with arbitrary responses to the ranks of a start-up. The input is a rendezvous address, a
 * zero, and responses, each up to a zero. An address is accepted only with servers and a prefix; an
 * id that was read is one that tt_id_from_text accepts; and a failed read has a reason. */
#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Without a server: requests are answered from the input. */
#define tt_etcd_call answer_from_input
#define tt_etcd_error why_from_input
#include "../../src/boot/etcd_key.c"
#include "base/log.h"
#include "etcd_answers.h"

static void use(struct tt_etcd_key *k)
{
    char why[TT_SHARE_BYTES_MAX] = "", text[TT_ID_TEXT_BYTES];
    tutti_id id = { .bytes = { 0 } }, again;
    const tutti_status st = tt_etcd_key_read(k, &id, TT_NEVER, why);

    tt_assert(*k->servers && strlen(k->key) > strlen("/root"));
    if (st == TUTTI_OK) {
        tt_id_text(&id, text);
        tt_assert(tt_id_from_text(&again, text) && memcmp(&id, &again, sizeof id) == 0);
        if (tt_etcd_key_publish(k, &id, TT_NEVER) == TUTTI_OK)
            tt_assert(k->lease);
    }
    tt_assert(st != TUTTI_ERR_TIMEOUT || *why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + sizeof TT_ETCD_KEY_URL + 1);
    struct tt_etcd_key *k;
    char host[32];

    snprintf(host, sizeof host, "%ld", (long)getpid());     /* shared with no other fuzzer */
    tt_log_set(TT_LOG_NONE);
    tt_assert(text);
    memcpy(text, TT_ETCD_KEY_URL, strlen(TT_ETCD_KEY_URL));
    memcpy(text + strlen(TT_ETCD_KEY_URL), data, bytes);
    end = text + strlen(TT_ETCD_KEY_URL) + bytes;
    text[end - text] = '\0';
    at = text + strlen(text) + 1;
    if (tt_etcd_key_open(&k, text, "the input", "", host) == TUTTI_OK) {
        use(k);
        tt_etcd_key_close(k);
    }
    free(text);
    return 0;
}
