/* A journal in etcd, written by the leading coordinator (coordinator/etcd_lead.h). Keys under
 * the prefix:
 *
 *   PREFIX/leader             the leader; removed when its lease expires
 *   PREFIX/journal            "tutti 1 GENERATION PIECES HASH": the valid pieces of the journal
 *   PREFIX/records/G/N        piece N of generation G: records, each preceded by its length
 *
 * A commit writes its records to new pieces. The last one is written together with PREFIX/journal;
 * until then they are ignored. Each transaction has two conditions: this process leads, and
 * PREFIX/journal has not changed since its last commit. Therefore requests of a deposed leader
 * change nothing, whenever they arrive, and neither do repeated requests. A shorter journal is a
 * new generation; the old one is deleted in the transaction that updates PREFIX/journal. */
#include "coordinator/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/prng.h"
#include "base/status.h"
#include "coordinator/etcd_lead.h"

#define SCHEME "etcd://"
#define GIVEN "--store; tutti_coordinator_conf.store"
#define SERVERS_BYTES 1024
#define PREFIX_BYTES 256
#define KEY_BYTES (PREFIX_BYTES + 64)
#define META_BYTES 96
#define PIECE_BYTES (512u * 1024)       /* etcd accepts requests of up to 1.5 MiB */
#define PIECES_AT_ONCE 16
#define JOURNAL_BYTES_MAX (1u << 30)
#define READ_NS (5 * TT_SECOND)
#define SEED 0x6a6f75726e616cull

struct etcd_journal {
    struct tt_journal base;
    struct tt_etcd_lead *lead;
    struct tt_etcd *etcd;
    char prefix[PREFIX_BYTES];
    int64_t meta_revision;              /* revision of PREFIX/journal as last written; 0: does not
                                           exist */
    uint64_t term;                      /* of the generation: term of the leader that began it, and
                                           its number in that term */
    uint32_t turn, next_turn;
    uint32_t npieces;
    uint64_t hash;                      /* hash of all pieces in sequence */
    bool replacing;                     /* the next commit begins a generation */
    uint8_t *pending;                   /* data of the next commit */
    size_t bytes, room;
};

static struct etcd_journal *etcd_journal_of(struct tt_journal *j)
{
    return (struct etcd_journal *)j;
}

/* ---- keys and values ---- */

static void journal_key(const struct etcd_journal *j, const char *what, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "%s/%s", j->prefix, what);
}

static void journal_piece_key(const struct etcd_journal *j, uint32_t piece, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "%s/records/%016" PRIx64 ".%08" PRIx32 "/%08" PRIx32, j->prefix,
             j->term, j->turn, piece);
}

static void write_meta(const struct etcd_journal *j, uint32_t npieces, uint64_t hash,
                       char out[META_BYTES])
{
    snprintf(out, META_BYTES, "tutti 1 %016" PRIx64 ".%08" PRIx32 " %" PRIu32 " %016" PRIx64,
             j->term, j->turn, npieces, hash);
}

static bool read_meta(struct etcd_journal *j, const char *text)
{
    char again[META_BYTES];

    if (sscanf(text, "tutti 1 %16" SCNx64 ".%8" SCNx32 " %10" SCNu32 " %16" SCNx64, &j->term,
               &j->turn, &j->npieces, &j->hash) != 4)
        return false;
    write_meta(j, j->npieces, j->hash, again);
    return strcmp(text, again) == 0;
}

static tutti_status etcd_damaged(const struct etcd_journal *j, const char *what)
{
    return tt_fail(TUTTI_ERR_INVALID, "journal in etcd, %s: %s", j->prefix, what);
}

static tutti_status unreached(const struct etcd_journal *j, const char *what)
{
    return tt_fail(TUTTI_ERR_SYSTEM, "journal in etcd, %s: cannot %s: %s", j->prefix, what,
                   tt_etcd_error(j->etcd));
}

/* ---- reading ---- */

/* Returns kvs[at] of a response. */
static struct json_object *pair_at(struct json_object *answer, size_t at)
{
    struct json_object *kvs = tt_etcd_at(answer, "kvs");

    if (!json_object_is_type(kvs, json_type_array) || at >= json_object_array_length(kvs))
        return NULL;
    return json_object_array_get_idx(kvs, at);
}

static tutti_status read_journal_meta(struct etcd_journal *j)
{
    struct json_object *request = json_object_new_object(), *answer, *kv;
    char key[KEY_BYTES], *text;
    tutti_status st = TUTTI_OK;
    size_t bytes;

    journal_key(j, "journal", key);
    tt_etcd_add_text(request, "key", key);
    if (tt_etcd_call(j->etcd, "kv/range", request, tt_now_ns() + READ_NS, &answer))
        return unreached(j, "read it");
    kv = pair_at(answer, 0);
    if (kv) {
        text = tt_etcd_bytes(kv, "value", &bytes);
        j->meta_revision = tt_etcd_number(kv, "mod_revision");
        if (!text || !read_meta(j, text))
            st = etcd_damaged(j, "not a coordinator's journal, or from another version");
        free(text);
    }
    json_object_put(answer);
    return st;
}

static tutti_status keep_piece(struct etcd_journal *j, struct json_object *kv, uint32_t piece,
                               uint64_t *hash)
{
    char expected[KEY_BYTES], *key, *data;
    size_t key_bytes = 0, bytes = 0;
    tutti_status st = TUTTI_OK;
    uint8_t *more;

    journal_piece_key(j, piece, expected);
    key = tt_etcd_bytes(kv, "key", &key_bytes);
    data = tt_etcd_bytes(kv, "value", &bytes);
    if (!key || !data || strcmp(key, expected) != 0)
        st = etcd_damaged(j, "pieces are missing");
    else if (bytes > JOURNAL_BYTES_MAX - j->bytes)
        st = etcd_damaged(j, "its length exceeds the limit");
    if (!st) {
        more = realloc(j->pending, j->bytes + bytes + 1);
        if (more) {
            memcpy(more + j->bytes, data, bytes);
            j->pending = more;
            j->room = j->bytes + bytes + 1;
            j->bytes += bytes;
            *hash = tt_hash_bytes(data, bytes, *hash);
        } else {
            st = tt_fail(TUTTI_ERR_NOMEM, "journal in etcd, %s: out of memory for reading",
                         j->prefix);
        }
    }
    free(key);
    free(data);
    return st;
}

/* Reads some pieces, beginning with *next. */
static tutti_status read_pieces(struct etcd_journal *j, uint32_t *next, uint64_t *hash)
{
    struct json_object *request = json_object_new_object(), *answer, *kv;
    char first[KEY_BYTES], end[KEY_BYTES];
    tutti_status st = TUTTI_OK;
    uint32_t begin = *next;

    journal_piece_key(j, *next, first);
    journal_piece_key(j, j->npieces + 1, end);
    tt_etcd_add_text(request, "key", first);
    tt_etcd_add_text(request, "range_end", end);
    tt_etcd_add_number(request, "limit", PIECES_AT_ONCE);
    if (tt_etcd_call(j->etcd, "kv/range", request, tt_now_ns() + READ_NS, &answer))
        return unreached(j, "read it");
    while (!st && (kv = pair_at(answer, *next - begin)) && *next <= j->npieces)
        st = keep_piece(j, kv, (*next)++, hash);
    if (!st && *next == begin)
        st = etcd_damaged(j, "pieces are missing");
    json_object_put(answer);
    return st;
}

static tutti_status pass_records(struct etcd_journal *j,
                                 bool (*take)(void *context, const void *data, size_t bytes),
                                 void *context)
{
    struct tt_reader r;
    bool more = true;

    tt_reader_init(&r, j->pending, j->bytes);
    while (r.at < r.end) {
        const uint32_t bytes = tt_read_u32(&r);

        if (r.bad || bytes > (size_t)(r.end - r.at))
            return etcd_damaged(j, "the last record is truncated");
        if (more)
            more = take(context, r.at, bytes);
        r.at += bytes;
    }
    return TUTTI_OK;
}

static tutti_status etcd_read(struct tt_journal *journal,
                              bool (*take)(void *context, const void *data, size_t bytes),
                              void *context)
{
    struct etcd_journal *j = etcd_journal_of(journal);
    tutti_status st = read_journal_meta(j);
    uint64_t hash = SEED;

    for (uint32_t next = 1; !st && next <= j->npieces;)
        st = read_pieces(j, &next, &hash);
    if (!st && j->meta_revision && hash != j->hash)
        st = etcd_damaged(j, "pieces were modified");
    if (!st)
        st = pass_records(j, take, context);
    j->bytes = 0;
    return st;
}

/* ---- writing ---- */

static tutti_status etcd_append(struct tt_journal *journal, const void *data, size_t bytes)
{
    struct etcd_journal *j = etcd_journal_of(journal);
    const size_t needed = j->bytes + bytes + 4;
    struct tt_writer w;

    if (needed > j->room) {
        const size_t room = needed < 4096 ? 4096 : 2 * needed;
        uint8_t *more = realloc(j->pending, room);

        if (!more)
            return tt_fail(TUTTI_ERR_NOMEM, "journal in etcd, %s: out of memory for a record",
                           j->prefix);
        j->pending = more;
        j->room = room;
    }
    tt_writer_init(&w, j->pending + j->bytes, bytes + 4);
    tt_write_u32(&w, (uint32_t)bytes);
    tt_write_bytes(&w, data, bytes);
    j->bytes = needed;
    return TUTTI_OK;
}

static tutti_status etcd_replace(struct tt_journal *journal)
{
    struct etcd_journal *j = etcd_journal_of(journal);

    j->replacing = true;
    j->bytes = 0;
    return TUTTI_OK;
}

static struct json_object *txn_op(const char *kind, struct json_object *what)
{
    struct json_object *op = json_object_new_object();

    json_object_object_add(op, kind, what);
    return op;
}

static struct json_object *txn_put(const char *key, const void *data, size_t bytes)
{
    struct json_object *put = json_object_new_object();

    tt_etcd_add_text(put, "key", key);
    tt_etcd_add_bytes(put, "value", data, bytes);
    return txn_op("request_put", put);
}

static struct json_object *txn_get(const char *key)
{
    struct json_object *get = json_object_new_object();

    tt_etcd_add_text(get, "key", key);
    return txn_op("request_range", get);
}

/* Returns a deletion of the keys from `first` up to `end`, exclusive. */
static struct json_object *txn_delete(const char *first, const char *end)
{
    struct json_object *range = json_object_new_object();

    tt_etcd_add_text(range, "key", first);
    tt_etcd_add_text(range, "range_end", end);
    return txn_op("request_delete_range", range);
}

static struct json_object *conditions(const struct etcd_journal *j, const char *meta_key)
{
    struct json_object *list = json_object_new_array(), *same = json_object_new_object();

    tt_etcd_add_text(same, "key", meta_key);
    json_object_object_add(same, "target", json_object_new_string("MOD"));
    json_object_object_add(same, "result", json_object_new_string("EQUAL"));
    tt_etcd_add_number(same, "mod_revision", j->meta_revision);
    json_object_array_add(list, tt_etcd_lead_condition(j->lead));
    json_object_array_add(list, same);
    return list;
}

/* Deletes other generations: all keys before the first piece of the current one, and after its last
 * possible piece. */
static void delete_others(const struct etcd_journal *j, struct json_object *ops)
{
    char first[KEY_BYTES], own[KEY_BYTES], behind[KEY_BYTES], end[KEY_BYTES];

    journal_key(j, "records/", first);
    journal_key(j, "records0", end);         /* '0' follows '/' */
    journal_piece_key(j, 0, own);
    journal_piece_key(j, UINT32_MAX, behind);
    json_object_array_add(ops, txn_delete(first, own));
    json_object_array_add(ops, txn_delete(behind, end));
}

/* Returns the request that writes a piece. meta: for the last piece of a commit, the new value of
 * PREFIX/journal; else NULL. */
static struct json_object *txn_request(const struct etcd_journal *j, uint32_t piece,
                                       const uint8_t *data, size_t bytes, const char *meta)
{
    struct json_object *request = json_object_new_object(), *success = json_object_new_array(),
                       *failure = json_object_new_array();
    char meta_key[KEY_BYTES], leader_key[KEY_BYTES], key[KEY_BYTES];

    journal_key(j, "journal", meta_key);
    journal_key(j, "leader", leader_key);
    journal_piece_key(j, piece, key);
    json_object_array_add(success, txn_put(key, data, bytes));
    if (meta)
        json_object_array_add(success, txn_put(meta_key, meta, strlen(meta)));
    if (meta && j->replacing)
        delete_others(j, success);
    json_object_array_add(failure, txn_get(leader_key));
    json_object_array_add(failure, txn_get(meta_key));
    json_object_object_add(request, "compare", conditions(j, meta_key));
    json_object_object_add(request, "success", success);
    json_object_object_add(request, "failure", failure);
    return request;
}

/* A condition failed. Returns OK if the same request was executed before, and its response was
 * lost. */
static tutti_status explain_loss(struct etcd_journal *j, struct json_object *answer,
                                 const char *meta)
{
    struct json_object *responses = tt_etcd_at(answer, "responses"), *leader = NULL, *there = NULL;
    bool same = false;
    size_t bytes;
    char *text;

    if (json_object_is_type(responses, json_type_array) &&
        json_object_array_length(responses) == 2) {
        leader = pair_at(tt_etcd_at(json_object_array_get_idx(responses, 0), "response_range"), 0);
        there = pair_at(tt_etcd_at(json_object_array_get_idx(responses, 1), "response_range"), 0);
    }
    if (!leader || tt_etcd_number(leader, "create_revision") != tt_etcd_lead_term(j->lead))
        return tt_etcd_lead_lose(j->lead, "another coordinator has taken over");
    text = there && meta ? tt_etcd_bytes(there, "value", &bytes) : NULL;
    same = text && strcmp(text, meta) == 0;
    free(text);
    if (!same)
        return tt_fail(TUTTI_ERR_SYSTEM,
                       "journal in etcd (prefix %s): modified by a client other than a coordinator",
                       j->prefix);
    j->meta_revision = tt_etcd_number(there, "mod_revision");
    return TUTTI_OK;
}

static tutti_status commit_piece(struct etcd_journal *j, uint32_t piece, const uint8_t *data,
                                 size_t bytes, const char *meta)
{
    struct json_object *answer;
    tutti_status st;

    if (tt_etcd_call(j->etcd, "kv/txn", txn_request(j, piece, data, bytes, meta),
                     tt_etcd_lead_until_ns(j->lead), &answer))
        return unreached(j, "write to it");
    if (!json_object_get_boolean(tt_etcd_at(answer, "succeeded"))) {
        st = explain_loss(j, answer, meta);
    } else {
        if (meta)
            j->meta_revision = tt_etcd_number(tt_etcd_at(answer, "header"), "revision");
        st = TUTTI_OK;
    }
    json_object_put(answer);
    return st;
}

/* Returns the size of pending piece i. */
static size_t next_piece_bytes(const struct etcd_journal *j, uint32_t i)
{
    const size_t left = j->bytes - (size_t)i * PIECE_BYTES;

    return left < PIECE_BYTES ? left : PIECE_BYTES;
}

static tutti_status write_pieces(struct etcd_journal *j)
{
    const uint32_t n = j->bytes ? (uint32_t)((j->bytes + PIECE_BYTES - 1) / PIECE_BYTES) : 1,
                   before = j->npieces;
    tutti_status st = TUTTI_OK;
    char meta[META_BYTES];

    for (uint32_t i = 0; i < n; i++)
        j->hash =
            tt_hash_bytes(j->pending + (size_t)i * PIECE_BYTES, next_piece_bytes(j, i), j->hash);
    write_meta(j, before + n, j->hash, meta);
    for (uint32_t i = 0; i < n && !st; i++)
        st = commit_piece(j, before + i + 1, j->pending + (size_t)i * PIECE_BYTES,
                          next_piece_bytes(j, i), i + 1 == n ? meta : NULL);
    j->npieces += n;
    return st;
}

static tutti_status etcd_commit(struct tt_journal *journal)
{
    struct etcd_journal *j = etcd_journal_of(journal);
    tutti_status st;

    if (j->bytes == 0 && !j->replacing)
        return TUTTI_OK;
    if (j->replacing || j->meta_revision == 0) {
        j->term = (uint64_t)tt_etcd_lead_term(j->lead);
        j->turn = j->next_turn++;
        j->npieces = 0;
        j->hash = SEED;
    }
    st = write_pieces(j);
    j->bytes = 0;
    j->replacing = false;
    return st;
}

static tutti_status etcd_check(struct tt_journal *journal)
{
    return tt_etcd_lead_check(etcd_journal_of(journal)->lead);
}

static void etcd_close(struct tt_journal *journal)
{
    struct etcd_journal *j = etcd_journal_of(journal);

    if (j->lead)
        tt_etcd_lead_end(j->lead);
    tt_etcd_destroy(j->etcd);
    free(j->pending);
    free(j);
}

static const struct tt_journal_ops etcd_ops = {
    .name = "etcd",
    .read = etcd_read,
    .append = etcd_append,
    .replace = etcd_replace,
    .commit = etcd_commit,
    .check = etcd_check,
    .close = etcd_close,
};

/* ---- opening ---- */

/* Returns whether the text of each server denotes this host: a loopback address, or "localhost",
 * the only name that is reliable. */
static bool is_loopback_server(const char *servers)
{
    for (const char *at = servers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if ((strncmp(at, "127.", 4) != 0 || at[strspn(at, "0123456789.")] != ':') &&
            strncmp(at, "localhost:", 10) != 0 && strncmp(at, "[::1]:", 6) != 0)
            return false;
    return true;
}

static tutti_status split_url(const struct tt_journal_etcd_conf *conf, char servers[SERVERS_BYTES],
                              char prefix[PREFIX_BYTES])
{
    const char *rest = conf->store + strlen(SCHEME), *slash;

    if (strncmp(conf->store, SCHEME, strlen(SCHEME)) != 0 || !(slash = strchr(rest, '/')) ||
        slash == rest || !slash[1])
        return tt_fail(TUTTI_ERR_INVALID,
                       "invalid store \"%s\" (" GIVEN
                       "): must be etcd://host:port[,host:port...]/prefix",
                       conf->store);
    if (slash - rest >= SERVERS_BYTES || strlen(slash) >= PREFIX_BYTES)
        return tt_fail(TUTTI_ERR_INVALID,
                       "invalid store \"%.60s...\" (" GIVEN
                       "): at most %d characters of servers and %d of prefix",
                       conf->store, SERVERS_BYTES - 1, PREFIX_BYTES - 2);
    snprintf(servers, SERVERS_BYTES, "%.*s", (int)(slash - rest), rest);
    snprintf(prefix, PREFIX_BYTES, "%s", slash);
    return TUTTI_OK;
}

/* Creates a client of the servers in conf->store; sends nothing yet. */
static tutti_status make_client(struct tt_etcd **out, const struct tt_journal_etcd_conf *conf,
                                char servers[SERVERS_BYTES], char prefix[PREFIX_BYTES])
{
    struct tt_etcd *etcd;
    tutti_status st = split_url(conf, servers, prefix);

    if (!st)
        st = tt_etcd_create(&etcd, servers);
    if (st)
        return st;
    if (!conf->plain && !is_loopback_server(servers)) {
        tt_etcd_destroy(etcd);
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: the journal holds secrets and would cross the network unencrypted "
                       "(--store-plain or tutti_coordinator_conf.store_plain allows it)",
                       conf->store);
    }
    *out = etcd;
    return TUTTI_OK;
}

tutti_status tt_journal_etcd_check(const struct tt_journal_etcd_conf *conf)
{
    char servers[SERVERS_BYTES], prefix[PREFIX_BYTES];
    struct tt_etcd *etcd = NULL;
    const tutti_status st = make_client(&etcd, conf, servers, prefix);

    tt_etcd_destroy(etcd);
    return st;
}

static void tell_nobody(void *context, const char *leader)
{
    (void)context;
    (void)leader;
}

tutti_status tt_journal_etcd_open(struct tt_journal **out, const struct tt_journal_etcd_conf *conf)
{
    struct etcd_journal *j = calloc(1, sizeof *j);
    char servers[SERVERS_BYTES], key[KEY_BYTES];
    tutti_status st;

    if (!j)
        return tt_fail(TUTTI_ERR_NOMEM, "coordinator: out of memory for a journal");
    j->base.ops = &etcd_ops;
    st = make_client(&j->etcd, conf, servers, j->prefix);
    if (!st) {
        journal_key(j, "leader", key);
        st = tt_etcd_lead_begin(&j->lead,
                                &(struct tt_etcd_lead_conf){
                                    .servers = servers,
                                    .key = key,
                                    .who = conf->who,
                                    .lease_s = conf->lease_s,
                                    .stop_fd = conf->stop_fd,
                                    .patient = conf->patient,
                                    .stands_by = conf->stands_by ? conf->stands_by : tell_nobody,
                                    .context = conf->context });
    }
    if (st) {
        etcd_close(&j->base);
        return st;
    }
    *out = &j->base;
    return TUTTI_OK;
}
