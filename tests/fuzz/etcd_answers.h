/* Replaces the client of etcd in a fuzzer: requests are answered from the input. The fuzzer defines
 * tt_etcd_call and tt_etcd_error as the functions below, then includes the sources that make
 * requests, then this file. */
#ifndef TUTTI_TESTS_ETCD_ANSWERS_H
#define TUTTI_TESTS_ETCD_ANSWERS_H

#include <json-c/json.h>
#include <string.h>

#include "base/etcd.h"
#include "base/status.h"

static const char *at, *end;    /* remaining replies, followed by a zero */

/* As in the client: only an object is a reply. */
tutti_status answer_from_input(struct tt_etcd *e, const char *method, struct json_object *request,
                               uint64_t deadline_ns, struct json_object **out)
{
    struct json_object *answer;

    (void)e;
    (void)deadline_ns;
    tt_assert(*method && json_object_is_type(request, json_type_object));
    json_object_put(request);
    if (at >= end)
        return TUTTI_ERR_TIMEOUT;
    answer = json_tokener_parse(at);
    at += strlen(at) + 1;
    if (!json_object_is_type(answer, json_type_object)) {
        json_object_put(answer);
        return TUTTI_ERR_INVALID;
    }
    *out = answer;
    return TUTTI_OK;
}

const char *why_from_input(const struct tt_etcd *e)
{
    (void)e;
    return "the input is over";
}

#endif
