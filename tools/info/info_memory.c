#include "tools/info/info_memory.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/status.h"
#include "tools/failed.h"
#include "tutti/tutti.h"

#define FLOATS (256u << 10)

static void print_json(const tutti_memory *m)
{
    struct json_object *o = json_object_new_object(), *parts = json_object_new_array();

    json_object_object_add(o, "nranks", json_object_new_int64(m->nranks));
    json_object_object_add(o, "connected", json_object_new_int64(m->connected));
    json_object_object_add(o, "idle_bytes", json_object_new_double(m->idle_bytes));
    json_object_object_add(o, "bytes", json_object_new_int64((int64_t)m->bytes));
    for (uint32_t i = 0; i < m->nparts; i++) {
        const tutti_memory_part *p = &m->parts[i];
        struct json_object *part = json_object_new_object();

        json_object_object_add(part, "purpose", json_object_new_string(p->purpose));
        json_object_object_add(part, "shared", json_object_new_boolean(p->shared));
        json_object_object_add(part, "fixed_bytes", json_object_new_int64((int64_t)p->fixed_bytes));
        json_object_object_add(part, "rank_bytes", json_object_new_int64((int64_t)p->rank_bytes));
        json_object_object_add(part, "peer_bytes", json_object_new_int64((int64_t)p->peer_bytes));
        json_object_array_add(parts, part);
    }
    json_object_object_add(o, "parts", parts);
    printf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
                                                         JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(o);
}

static void print_text(const tutti_memory *m)
{
    printf("memory of rank 0 of %u after one ring all-reduce, in bytes; connected peers: %u\n\n",
           m->nranks, m->connected);
    printf("  %-32s %12s %12s %12s %12s\n", "purpose", "fixed", "all ranks", "per rank",
           "connected");
    for (uint32_t i = 0; i < m->nparts; i++) {
        const tutti_memory_part *p = &m->parts[i];

        printf("  %-32s %12llu %12llu %12.1f %12llu\n", p->purpose,
               (unsigned long long)p->fixed_bytes, (unsigned long long)p->rank_bytes,
               (double)p->rank_bytes / (p->shared ? m->job_ranks : m->nranks),
               (unsigned long long)p->peer_bytes);
    }
    printf("\n  each idle rank uses %.1f bytes; in total %.1f KiB are used\n", m->idle_bytes,
           (double)m->bytes / 1024);
}

static tutti_status go_round(tutti_comm *comm, float *buf)
{
    const tutti_call call = { .size = sizeof call,
                              .algo = tutti_comm_size(comm) > 1 ? "ring" : NULL };

    return tutti_allreduce(buf, buf, FLOATS, TUTTI_F32, TUTTI_SUM, comm, &call);
}

/* Runs one ring all-reduce and reads the memory. A second all-reduce keeps all ranks and their
 * connections open until all ranks have read it. */
static tutti_status use(tutti_comm *comm, tutti_memory *m)
{
    float *buf = calloc(FLOATS, sizeof *buf);
    tutti_status st;

    if (!buf)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u floats", FLOATS);
    st = go_round(comm, buf);
    if (!st)
        st = tutti_comm_memory(comm, m);
    if (!st)
        st = go_round(comm, buf);
    free(buf);
    return st;
}

int info_memory(bool json)
{
    tutti_memory m = { .size = sizeof m };
    tutti_comm *comm;
    tutti_status st = tutti_comm_create(&comm, NULL);

    if (st) {
        tool_failed("tutti info", NULL, st);
        return 1;
    }
    st = use(comm, &m);
    if (st)
        tool_failed("tutti info", NULL, st);
    else if (tutti_comm_rank(comm) == 0)
        (json ? print_json : print_text)(&m);
    tutti_comm_destroy(comm);
    return st ? 1 : 0;
}
