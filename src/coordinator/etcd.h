/* Requests to etcd (v3), over the JSON gateway that each of its servers has. One thread at a time per client; a call blocks, for as long as its
 * deadline lets it. */
#ifndef TT_COORDINATOR_ETCD_H
#define TT_COORDINATOR_ETCD_H

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

#define TT_ETCD_SERVERS_MAX 16u
#define TT_ETCD_ANSWER_BYTES_MAX (64u << 20)

struct tt_etcd;

/* servers: "host:port[,host:port...]". Nothing is sent yet. INVALID (logged): there is a part that is no address; UNSUPPORTED (logged): built
 * without libcurl. On success *out is the caller's. */
tutti_status tt_etcd_create(struct tt_etcd **out, const char *servers);
/* NULL is fine. */
void tt_etcd_destroy(struct tt_etcd *e);

/* Posts `request`, which it takes, to /v3/<method> ("kv/txn") of one server after the other until one answers. OK: *out is what it said, the
 * caller's (json_object_put). TIMEOUT: until deadline_ns (tt_now_ns) none did; whether the request was carried out is not known. INVALID: etcd
 * refused it. Nothing is logged; tt_etcd_why has the sentence. */
tutti_status tt_etcd_call(struct tt_etcd *e, const char *method, struct json_object *request, uint64_t deadline_ns,
                          struct json_object **out);
const char *tt_etcd_why(const struct tt_etcd *e);

/* ---- what requests and answers are made of ---- */

/* Adds data[bytes] as the gateway has bytes, in base64. */
void tt_etcd_add_bytes(struct json_object *to, const char *key, const void *data, size_t bytes);
void tt_etcd_add_text(struct json_object *to, const char *key, const char *text);
/* A 64-bit number, which the gateway has as a string. */
void tt_etcd_add_number(struct json_object *to, const char *key, int64_t n);

/* The member of an object, NULL if it or the object is none. */
struct json_object *tt_etcd_at(struct json_object *o, const char *key);
/* 0 where it is absent, as the gateway leaves zeros out. */
int64_t tt_etcd_number(struct json_object *o, const char *key);
/* malloc'ed, NUL-terminated behind its *bytes; NULL: it is no base64, or no memory. Absent: 0 bytes. */
char *tt_etcd_bytes(struct json_object *o, const char *key, size_t *bytes);

#endif
