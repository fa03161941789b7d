/* Requests to etcd (v3), over the JSON gateway of its servers. One thread at a time per client;
 * a call blocks, at most until its deadline. */
#ifndef TT_BASE_ETCD_H
#define TT_BASE_ETCD_H

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

#define TT_ETCD_SERVERS_MAX 16u
#define TT_ETCD_ANSWER_BYTES_MAX (64u << 20)

struct tt_etcd;

/* servers: "host:port[,host:port...]". Sends nothing yet. INVALID (logged): an address is
 * invalid; UNSUPPORTED (logged): built without libcurl. On success *out belongs to the caller. */
tutti_status tt_etcd_create(struct tt_etcd **out, const char *servers);
/* e may be NULL. */
void tt_etcd_destroy(struct tt_etcd *e);

/* Sets the maximum size of a response, instead of TT_ETCD_ANSWER_BYTES_MAX. */
void tt_etcd_limit_answer(struct tt_etcd *e, size_t bytes_max);

/* Posts `request`, which it takes over, to /v3/<method> ("kv/txn") of one server after another
 * until one responds. OK: *out is the response; the caller frees it (json_object_put). TIMEOUT:
 * no response by deadline_ns (tt_now_ns); the request may have been executed. INVALID: etcd
 * refused it. Logs nothing; tt_etcd_error returns the message. */
tutti_status tt_etcd_call(struct tt_etcd *e, const char *method, struct json_object *request,
                          uint64_t deadline_ns, struct json_object **out);
const char *tt_etcd_error(const struct tt_etcd *e);

/* ---- fields of requests and responses -------------------------------------------------------- */

/* Adds data[bytes] in base64, as the gateway requires. */
void tt_etcd_add_bytes(struct json_object *to, const char *key, const void *data, size_t bytes);
void tt_etcd_add_text(struct json_object *to, const char *key, const char *text);
/* Adds a 64-bit number, which is a string for the gateway. */
void tt_etcd_add_number(struct json_object *to, const char *key, int64_t n);

/* Returns the member of an object, or NULL if either does not exist. */
struct json_object *tt_etcd_at(struct json_object *o, const char *key);
/* 0 if absent, because the gateway omits zeros. */
int64_t tt_etcd_number(struct json_object *o, const char *key);
/* Returns a malloc'ed copy of *bytes bytes, with a final NUL; NULL: invalid base64, or out of
 * memory. Absent: 0 bytes. */
char *tt_etcd_bytes(struct json_object *o, const char *key, size_t *bytes);

#endif
