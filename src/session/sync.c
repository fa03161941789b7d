/* Shared state: this member's offer, the transfer of arrays, and the result. The program's thread
 * first hashes the arrays, then waits for the result, and finally copies received arrays. While it
 * waits, the service thread exchanges requests and data with other members (elastic/transfer.h)
 * over their control connections. This also continues in an epoch that is over. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/log.h"
#include "base/options.h"
#include "session/run.h"

/* timeout for a holder that is alive, but sends nothing. Lost holders are detected otherwise:
 * broken connections are re-established, and the coordinator detects silent members */
#define HOLDER_TIMEOUT_NS (30 * TT_SECOND)

static const char name[] = "tutti_run_sync";

/* ---- arguments ---- */

static tutti_status check_array(const tutti_array *a, size_t i)
{
    const size_t bytes = tutti_dtype_bytes(a->type);
    uintptr_t end;

    if (a->size != sizeof *a)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: arrays[%zu].size is %zu: must be sizeof(tutti_array), %zu", name, i,
                       a->size, sizeof *a);
    if (!a->name || !*a->name)
        return tt_fail(TUTTI_ERR_INVALID, "%s: arrays[%zu] has no name", name, i);
    if (bytes == 0)
        return tt_fail(TUTTI_ERR_INVALID, "%s: invalid type %d of array \"%s\"", name, (int)a->type,
                       a->name);
    if (a->count > 0 && !a->data)
        return tt_fail(TUTTI_ERR_INVALID, "%s: data of array \"%s\" is NULL", name, a->name);
    if (a->memory &&
        (a->memory->size != sizeof *a->memory || !a->memory->to_host || !a->memory->from_host))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: memory of array \"%s\" must have size %zu "
                       "(sizeof(tutti_array_memory)), to_host and from_host",
                       name, a->name, sizeof *a->memory);
    if (a->may_differ != 0 && a->may_differ != 1)
        return tt_fail(TUTTI_ERR_INVALID, "%s: arrays[%zu].may_differ is %d: must be 0 or 1", name,
                       i, a->may_differ);
    if (!tt_array_can_be(a->memory ? NULL : a->data, a->count, bytes) ||
        __builtin_add_overflow((uintptr_t)a->data, a->count * bytes, &end))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: array \"%s\" of %zu elements does not fit in the address space", name,
                       a->name, a->count);
    return TUTTI_OK;
}

/* The location of an array. For device memory: arrays with the same `memory` are in the same
 * device memory. */
struct place {
    uintptr_t memory, begin, end;
    const tutti_array *array;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *p = a, *q = b;

    if (p->memory != q->memory)
        return p->memory < q->memory ? -1 : 1;
    return (p->begin > q->begin) - (p->begin < q->begin);
}

/* Returns whether a sync may overwrite the array on this member. */
static bool is_written(const tutti_state *s, const tutti_array *a)
{
    return s->strategy != TUTTI_SYNC_SEND && !a->may_differ;
}

/* Checks that arrays overlap only if neither is written. Of the earlier arrays, sorted by address,
 * only the one with the highest end must be compared: among all, or among the written ones. */
static tutti_status check_overlaps(const tutti_state *s, struct place *places, size_t n)
{
    const struct place *all = NULL, *written = NULL;

    qsort(places, n, sizeof *places, compare_places);
    for (size_t i = 0; i < n; i++) {
        const struct place *p = &places[i], *other;

        if (i > 0 && places[i - 1].memory != p->memory)
            all = written = NULL;
        other = is_written(s, p->array) ? all : written;
        if (other && other->end > p->begin)
            return tt_fail(TUTTI_ERR_INVALID, "%s: arrays \"%s\" and \"%s\" overlap", name,
                           other->array->name, p->array->name);
        if (!all || p->end > all->end)
            all = p;
        if (is_written(s, p->array) && (!written || p->end > written->end))
            written = p;
    }
    return TUTTI_OK;
}

static tutti_status check_places(const tutti_state *s)
{
    struct place *places = malloc(s->narrays * sizeof *places);
    tutti_status st;
    size_t n = 0;

    if (!places)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for the list of %zu arrays", name,
                       s->narrays);
    for (size_t i = 0; i < s->narrays; i++) {
        const tutti_array *a = &s->arrays[i];
        const size_t bytes = a->count * tutti_dtype_bytes(a->type);

        if (bytes > 0)
            places[n++] = (struct place){ .memory = (uintptr_t)a->memory,
                                          .begin = (uintptr_t)a->data,
                                          .end = (uintptr_t)a->data + bytes,
                                          .array = a };
    }
    st = check_overlaps(s, places, n);
    free(places);
    return st;
}

static tutti_status sync_check(const tutti_run *run, const tutti_state *s)
{
    tutti_status st = tt_run_check_call(run, s, "state", name);

    if (st)
        return st;
    if (s->size != sizeof *s)
        return tt_fail(TUTTI_ERR_INVALID, "%s: state.size is %zu: must be sizeof(tutti_state), %zu",
                       name, s->size, sizeof *s);
    if (s->narrays == 0 || s->narrays > TT_SYNC_ARRAYS_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "%s: state.narrays is %zu: must be 1 to %u", name,
                       s->narrays, TT_SYNC_ARRAYS_MAX);
    if (!s->arrays)
        return tt_fail(TUTTI_ERR_INVALID, "%s: state.arrays is NULL", name);
    if (!tt_array_can_be(s->arrays, s->narrays, sizeof *s->arrays))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: state.arrays: %zu arrays at %p do not fit in the address space", name,
                       s->narrays, (void *)s->arrays);
    if (s->revision >= UINT64_MAX - 1)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: state.revision is %" PRIu64 ": the maximum is %" PRIu64, name,
                       s->revision, UINT64_MAX - 2);
    st = tt_options_enum(name, "state.strategy", (int)s->strategy, TUTTI_SYNC_SEND);
    if (!st)
        st = tt_options_enum(name, "state.scope", (int)s->scope, TUTTI_SYNC_ROLE);
    if (!st)
        st = tt_options_flag(name, "state.instead", s->instead);
    for (size_t i = 0; i < s->narrays && !st; i++)
        st = check_array(&s->arrays[i], i);
    return st ? st : check_places(s);
}

/* ---- offered data ---------------------------------------------------------------------------- */

static void sync_fini(struct tt_run_sync *s)
{
    for (size_t i = 0; s->items && i < s->state->narrays; i++)
        free(s->items[i].stage);
    free(s->arrays);
    free(s->dims);
    free(s->hashes);
    free(s->items);
    free(s->list);
    free(s->coming);
    free(s->piece);
}

static tutti_status memory_failed(const tutti_array *a, const char *what, int error)
{
    return tt_fail(TUTTI_ERR_SYSTEM,
                   "%s: array \"%s\" cannot be %s: its memory callbacks returned %d", name, a->name,
                   what, error);
}

/* Hashes an array outside of host memory. */
static tutti_status hash_elsewhere(struct tt_run_sync *s, const tutti_array *a, size_t bytes,
                                   struct tt_hash *out)
{
    const tutti_array_memory *m = a->memory;
    struct tt_hash_stream stream;
    struct tt_hash_sum sum;
    int error = 0;

    if (m->hash) {
        error = m->hash(m->context, a->data, bytes, out->word);
        return error ? memory_failed(a, "hashed", error) : TUTTI_OK;
    }
    tt_hash_begin(&stream, 0);
    for (size_t at = 0, some; at < bytes && !error; at += some) {
        some = bytes - at < TT_TRANSFER_PIECE_BYTES ? bytes - at : TT_TRANSFER_PIECE_BYTES;
        error = m->to_host(m->context, s->piece, (const uint8_t *)a->data + at, some);
        if (!error)
            tt_hash_add(&stream, s->piece, some);
    }
    if (error)
        return memory_failed(a, "read", error);
    sum = tt_hash_end(&stream);
    *out = tt_hash_value(&sum, bytes);
    return TUTTI_OK;
}

static tutti_status hash(struct tt_run_sync *s, const tutti_array *a, size_t bytes,
                         struct tt_hash *out)
{
    if (a->memory && bytes > 0)
        return hash_elsewhere(s, a, bytes, out);
    *out = tt_hash_of(a->data, bytes);
    return TUTTI_OK;
}

/* Creates the offer; reads every array once. */
static tutti_status sync_init(struct tt_run_sync *s, tutti_run *run, tutti_state *state)
{
    const size_t n = state->narrays;
    tutti_status st = TUTTI_OK;
    bool elsewhere = false;

    for (size_t i = 0; i < n; i++)
        elsewhere |= state->arrays[i].memory != NULL;
    *s = (struct tt_run_sync){ .run = run, .state = state };
    s->arrays = calloc(n, sizeof *s->arrays);
    s->dims = calloc(n, sizeof *s->dims);
    s->hashes = calloc(n, sizeof *s->hashes);
    s->items = calloc(n, sizeof *s->items);
    s->list = malloc(16 * n);
    s->coming = malloc(16 * n);
    s->piece = elsewhere ? malloc(TT_TRANSFER_PIECE_BYTES) : NULL;
    if (!s->arrays || !s->dims || !s->hashes || !s->items || !s->list || !s->coming ||
        (elsewhere && !s->piece)) {
        sync_fini(s);
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for the list of %zu arrays", name, n);
    }
    for (size_t i = 0; i < n && !st; i++) {
        const tutti_array *a = &state->arrays[i];
        const size_t bytes = a->count * tutti_dtype_bytes(a->type);

        s->dims[i] = a->count;
        s->arrays[i] = (struct tt_sync_array){ .name = a->name,
                                               .dtype = (uint32_t)a->type,
                                               .ndims = 1,
                                               .dims = &s->dims[i],
                                               .bytes = bytes,
                                               .may_differ = a->may_differ != 0 };
        s->items[i] = (struct tt_transfer_item){ .bytes = bytes, .data = a->data };
        if (!a->may_differ)
            st = hash(s, a, bytes, &s->hashes[i]);
    }
    if (st) {
        sync_fini(s);
        return st;
    }
    tt_sync_list(s->list, s->arrays, s->hashes, (uint32_t)n);
    return TUTTI_OK;
}

/* ---- transfer -------------------------------------------------------------------------------- */

static void *stage(void *context, uint32_t array, uint64_t bytes)
{
    (void)context;
    (void)array;
    return malloc(bytes); /* owned by the item; sync_fini frees it */
}

/* Returns this member's data for others. Data outside of host memory is copied to a buffer; sending
 * copies it again. */
static const void *read_ours(void *context, uint32_t array, uint64_t offset, uint32_t bytes)
{
    struct tt_run_sync *s = context;
    const tutti_array *a = &s->state->arrays[array];
    const uint8_t *at = (const uint8_t *)a->data + offset;
    int error;

    if (!a->memory)
        return at;
    if (s->run->over)
        return NULL; /* an earlier piece failed */
    error = a->memory->to_host(a->memory->context, s->piece, at, bytes);
    if (!error)
        return s->piece;
    tt_run_break(s->run, TUTTI_ERR_ABORTED,
                 "%s: array \"%s\" cannot be read for other members: its memory callbacks returned "
                 "%d; this member "
                 "left the run",
                 name, a->name, error);
    return NULL;
}

static void perform_act(void *context, const struct tt_transfer_act *act)
{
    struct tt_run_sync *s = context;
    tutti_run *run = s->run;

    if (act->kind == TT_TRANSFER_ACT_VOTE) {
        s->unable = act->text;
        tt_member_vote(&run->m, act->vote, tt_now_ns());
    } else if (act->rank < run->m.nranks) {
        tt_peers_send(run, run->m.view[act->rank].id, act->head, act->head_bytes, act->body,
                      act->body_bytes);
    }
}

void tt_state_plan(tutti_run *run)
{
    const struct tt_member_sync *plan = &run->m.sync;

    if (run->sync)
        tt_transfer_plan(&run->sync->transfer, plan->part, &plan->content, plan->holders,
                         plan->nholders, tt_now_ns());
}

bool tt_state_receive(tutti_run *run, uint64_t id, const void *data, size_t bytes)
{
    const uint32_t rank = tt_run_rank_of(run, id);

    if (!run->sync || rank == UINT32_MAX)
        return true; /* belongs to an ended transfer */
    return tt_transfer_peer(&run->sync->transfer, rank, data, bytes, tt_now_ns());
}

void tt_state_connected(tutti_run *run, uint64_t id)
{
    const uint32_t rank = tt_run_rank_of(run, id);

    if (run->sync && rank != UINT32_MAX)
        tt_transfer_again(&run->sync->transfer, rank, tt_now_ns());
}

void tt_state_tick(tutti_run *run)
{
    if (run->sync && tt_transfer_next_ns(&run->sync->transfer) <= tt_now_ns())
        tt_transfer_tick(&run->sync->transfer, tt_now_ns());
}

uint64_t tt_state_next_ns(const tutti_run *run)
{
    return run->sync ? tt_transfer_next_ns(&run->sync->transfer) : TT_NEVER;
}

/* ---- result ---------------------------------------------------------------------------------- */

/* Returns the status that corresponds to the coordinator's decision. */
static tutti_status sync_outcome(tutti_run *run, const struct tt_run_sync *s,
                                 const struct tt_member_act *r)
{
    const bool received = s->transfer.part == TT_SYNC_RECEIVES;

    switch (r->what) {
    case TT_ROUND_OK:
    case TT_ROUND_SAME:
        return !received || s->transfer.vote == TT_SYNC_GOT
                   ? TUTTI_OK
                   : tt_fail(TUTTI_ERR_PROTOCOL,
                             "%s: protocol error: the coordinator reported the sync as complete, "
                             "but this member has "
                             "not received the state",
                             name);
    case TT_ROUND_NOBODY:
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: no member offers a state with a higher revision than %" PRIu64, name,
                       r->value);
    case TT_ROUND_OTHER_STATE:
        return tt_fail(TUTTI_ERR_UNSUPPORTED,
                       "%s: no current member has the state of this run, which is at revision "
                       "%" PRIu64 " (set state.instead to replace it)",
                       name, r->value);
    case TT_ROUND_LOST:
        return tt_run_lost("%s: %s", name,
                           run->m.epoch == 0
                               ? "this member is no longer in the view: its replica group is "
                                 "incomplete (call tutti_run_epoch)"
                               : "all members that held the state are lost");
    case TT_ROUND_ABANDONED:
        return tt_fail(TUTTI_ERR_TIMEOUT,
                       "%s: the deadline of member %" PRIu64 " passed during the state transfer",
                       name, r->id);
    case TT_ROUND_NOT_RECEIVED:
        return tt_fail(TUTTI_ERR_NOMEM, "%s: member %" PRIu64 " could not receive the state%s%s",
                       name, r->id, r->id == run->m.id && s->unable ? ": " : "",
                       r->id == run->m.id && s->unable ? s->unable : "");
    default:
        return tt_fail(TUTTI_ERR_PROTOCOL, "%s: protocol error: invalid coordinator response %u",
                       name, r->what);
    }
}

/* Performs the sync, from the offer to the result. The caller holds the lock; it is released while
 * waiting. */
static tutti_status sync_exchange(tutti_run *run, struct tt_run_sync *s, uint64_t deadline_ns,
                                  uint64_t *revision)
{
    const uint8_t scope = s->state->scope == TUTTI_SYNC_ROLE ? TT_SYNC_OF_ROLE : TT_SYNC_OF_VIEW;
    static const uint8_t strategies[] = { [TUTTI_SYNC_POPULAR] = TT_SYNC_POPULAR,
                                          [TUTTI_SYNC_RECEIVE] = TT_SYNC_RECEIVE,
                                          [TUTTI_SYNC_SEND] = TT_SYNC_SEND };
    const struct tt_sync_offer offer = {
        .scope = scope,
        .strategy = strategies[s->state->strategy],
        .instead = s->state->instead != 0,
        .revision = s->state->revision + run->synced[scope],
        .keys = tt_sync_keys(s->arrays, (uint32_t)s->state->narrays),
        .content = tt_sync_content(s->list, (uint32_t)s->state->narrays)
    };
    struct tt_transfer_conf conf = { .epoch = run->m.epoch,
                                     .number = run->m.sync.number[scope],
                                     .narrays = (uint32_t)s->state->narrays,
                                     .items = s->items,
                                     .list = s->list,
                                     .coming = s->coming,
                                     .patience_ns = HOLDER_TIMEOUT_NS,
                                     .stage = stage,
                                     .read = read_ours,
                                     .emit = perform_act,
                                     .context = s };
    struct tt_member_act result;
    tutti_status st = tt_member_sync(&run->m, &offer, tt_now_ns());

    if (st == TUTTI_ERR_UNSUPPORTED)
        return tt_fail(st, "%s: role %u cannot have its own state: the role must be below %u", name,
                       run->m.conf.role, TT_SYNC_SCOPES - 1);
    if (st)
        return tt_round_refuse(run, name);
    run->call_done = false;
    conf.scope = tt_member_scope(&run->m);
    tt_transfer_init(&s->transfer, &conf, tt_now_ns());
    run->sync = s;
    st = tt_round_finish(run, deadline_ns, name, &result);
    run->sync = NULL;
    /* the other members have continued with the next view */
    if (st == TUTTI_ERR_MISMATCH && run->result_over && !run->over)
        return tt_run_epoch_over(run, name, "; other members have left this epoch");
    if (!st)
        st = sync_outcome(run, s, &result);
    if (st)
        return st;
    run->synced[scope] = true;
    *revision = result.value;
    return TUTTI_OK;
}

/* Replaces the arrays by the received ones, in the program's thread. If this member fails to
 * store the agreed state, it leaves the run. */
static tutti_status store_received(struct tt_run_sync *s)
{
    tutti_run *run = s->run;

    for (size_t i = 0; i < s->state->narrays; i++) {
        const struct tt_transfer_item *item = &s->items[i];
        const tutti_array *a = &s->state->arrays[i];
        tutti_status st;
        int error = 0;

        if (!item->stage || !item->here)
            continue;
        if (a->memory)
            error = a->memory->from_host(a->memory->context, a->data, item->stage, item->bytes);
        else
            memcpy(a->data, item->stage, item->bytes);
        if (!error)
            continue;
        tt_run_lock(run);
        tt_run_break(run, TUTTI_ERR_ABORTED,
                     "%s: array \"%s\" cannot be written: its memory callbacks returned %d; this "
                     "member left the run",
                     name, a->name, error);
        st = tt_run_check(run);
        tt_run_unlock(run);
        return st;
    }
    return TUTTI_OK;
}

static tutti_status sync_begin(tutti_run *run, int64_t timeout_ms, uint64_t *deadline_ns)
{
    tutti_status st = TUTTI_OK;

    tt_run_lock(run);
    *deadline_ns = tt_run_deadline(run, timeout_ms);
    if (run->over || run->m.epoch == 0 || run->calling || run->noperations > 0)
        st = tt_round_refuse(run, name);
    else
        st = tt_deferred_refuse(run, NULL, name);
    if (!st)
        run->calling = true;
    tt_run_unlock(run);
    return st;
}

tutti_status tutti_run_sync(tutti_run *run, tutti_state *state, int64_t timeout_ms)
{
    uint64_t deadline_ns, revision = 0;
    struct tt_run_sync s;
    uint64_t record;
    tutti_status st = sync_check(run, state);

    if (!st)
        st = sync_begin(run, timeout_ms, &deadline_ns);
    if (st)
        return st;
    record = tt_run_trace_begin(run, TT_OPLOG_RUN_SYNC, 0);
    st = sync_init(&s, run, state); /* run->calling: no other call begins meanwhile */
    tt_run_lock(run);
    if (!st) {
        st = sync_exchange(run, &s, deadline_ns, &revision);
        tt_run_unlock(run);
        if (!st)
            st = store_received(&s);
        if (!st) {
            state->revision = revision;
            state->received = s.transfer.part == TT_SYNC_RECEIVES;
            state->bytes_received = s.transfer.bytes_received;
            state->bytes_sent = s.transfer.bytes_sent;
        }
        sync_fini(&s);
        tt_run_lock(run);
    }
    run->calling = false;
    tt_run_unlock(run);
    tt_run_trace_end(record, st);
    return st;
}
