/* Shared state in the members' programs: its contents, offers, transfers and invariants.
 *
 * The arrays: the state after the steps; two that change with the state, the second of which
 * consists of blocks in some histories; and one whose content may differ. Some members have
 * diverged (one byte differs), some report a revision that is too high, some have other keys, some
 * have the content of a checkpoint; liars report wrong contents, or have changed them since. */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/prng.h"
#include "base/status.h"
#include "elastic/sync.h"
#include "run_state.h"

#define MAY_DIFFER (ARRAYS - 1)

static uint32_t part_of_state(const struct run *r, const struct peer *p)
{
    return r->by_role ? p->role : 0;
}

static uint64_t below(struct run *r, uint64_t bound)
{
    return tt_prng_below(&r->w.prng, bound);
}

static bool goes_wrong(struct run *r, uint64_t one_in)
{
    return r->w.now_ns < r->quiet_ns && below(r, one_in) == 0;
}

void sync_begin(struct run *r)
{
    static const uint64_t bytes[ARRAYS] = { 16, 100, 300, 24 };

    memcpy(r->bytes, bytes, sizeof bytes);
    if (below(r, 8) == 0)
        r->bytes[2] = 2 * TT_HASH_BLOCK_BYTES + 4321;
    for (uint32_t i = 0; i < ARRAYS; i++)
        r->total += r->bytes[i];
    r->by_role = below(r, r->nroles > 1 ? 2 : 4) == 0;
    r->blocks = calloc(2 * PEERS_MAX + 2, r->total);
    tt_assert(r->blocks);
    for (uint32_t i = 0; i < 2; i++)
        r->last[i].data = r->blocks + (2 * PEERS_MAX + i) * r->total;
}

void sync_spawn(struct run *r, struct peer *p)
{
    uint8_t *at = r->blocks + (uint64_t)index_of(r, p) * 2 * r->total;
    const uint32_t part = part_of_state(r, p);

    memset(at, index_of(r, p) + 1, r->total);
    if (r->last[part].is && below(r, 3) == 0) {
        memcpy(at, r->last[part].data, r->total - r->bytes[MAY_DIFFER]);
        p->revision = r->last[part].revision;
    }
    for (uint32_t i = 0; i < ARRAYS; i++, at += r->bytes[i - 1]) {
        p->arrays[i] = at;
        p->stages[i] = at + r->total;
    }
}

void sync_apply(struct run *r, struct peer *p, uint64_t change)
{
    p->arrays[1][change % r->bytes[1]] ^= (uint8_t)(change >> 8);
    if (change % 4 == 0)
        p->arrays[2][change / 4 % r->bytes[2]] ^= (uint8_t)(change >> 16);
    memcpy(p->arrays[0], &p->state, sizeof p->state);
}

static void describe(const struct run *r, const struct peer *p, struct tt_sync_array *arrays)
{
    static const char *const names[ARRAYS] = { "state", "weights", "moments", "generator" };

    for (uint32_t i = 0; i < ARRAYS; i++)
        arrays[i] = (struct tt_sync_array){ .name = names[i],
                                            .dtype = p->odd ? 2 : 1,
                                            .ndims = 1,
                                            .dims = &r->bytes[i],
                                            .bytes = r->bytes[i],
                                            .may_differ = i == MAY_DIFFER };
}

/* Returns the hash of the member's current content. */
static struct tt_hash content_of(const struct run *r, const struct peer *p, uint8_t *list)
{
    struct tt_sync_array arrays[ARRAYS];
    struct tt_hash hashes[ARRAYS];

    describe(r, p, arrays);
    for (uint32_t i = 0; i < ARRAYS; i++)
        hashes[i] = tt_hash_of(p->arrays[i], r->bytes[i]);
    tt_sync_list(list, arrays, hashes, ARRAYS);
    return tt_sync_content(list, ARRAYS);
}

/* ---- transfer ---- */

static void plan_tick(struct run *r, struct peer *p)
{
    const uint64_t next_ns = tt_transfer_next_ns(&p->transfer);

    if (next_ns == TT_NEVER ||
        (p->transfer_tick_ns > r->w.now_ns && p->transfer_tick_ns <= next_ns))
        return;
    p->transfer_tick_ns = next_ns > r->w.now_ns ? next_ns : r->w.now_ns + 1;
    world_plan(&r->w, p->transfer_tick_ns, TRANSFER_TICK, index_of(r, p), 0, NULL, 0);
}

static void *stage(void *context, uint32_t array, uint64_t bytes)
{
    struct peer *p = context;

    tt_assert(bytes == p->run->bytes[array] && array != MAY_DIFFER);
    return goes_wrong(p->run, 100) ? NULL : p->stages[array];
}

static void on_transfer_act(void *context, const struct tt_transfer_act *act)
{
    struct peer *p = context;
    struct run *r = p->run;
    const uint32_t from = (uint32_t)index_of(r, p);
    uint8_t data[4 + TT_TRANSFER_HEAD_BYTES + TT_HASH_BLOCK_BYTES];
    struct peer *to;
    uint64_t at_ns;

    if (act->kind == TT_TRANSFER_ACT_VOTE) {
        const bool lies = p->liar && below(r, 2);

        tt_member_vote(&p->m, lies ? (uint8_t)(TT_SYNC_GOT + below(r, 3)) : act->vote, r->w.now_ns);
        return;
    }
    to = peer_of_id(r, p->m.view[act->rank].id);
    tt_assert(act->head_bytes <= TT_TRANSFER_HEAD_BYTES && act->body_bytes <= TT_HASH_BLOCK_BYTES);
    memcpy(data, &from, 4);
    memcpy(data + 4, act->head, act->head_bytes);
    if (act->body_bytes > 0)
        memcpy(data + 4 + act->head_bytes, act->body, act->body_bytes);
    if (act->body_bytes > 0 && goes_wrong(r, 50)) {
        data[4 + act->head_bytes + below(r, act->body_bytes)] ^= 4;
        r->bad_pieces++;
    }
    if (!to || !to->alive)
        return;
    at_ns = past_parting(p, to, r->w.now_ns + delay(r, p, 3 * MS));
    if (is_killed_before(r, p))
        return;
    send_along(r, at_ns, TRANSFER, index_of(r, to), data, 4 + act->head_bytes + act->body_bytes);
    picture_message(r, index_of(r, p), index_of(r, to), at_ns,
                    act->body_bytes > 0 ? "a piece of the state" : "asks for state");
}

void on_transfer(struct run *r, struct peer *p, const uint8_t *data, size_t bytes)
{
    const struct peer *from;
    uint32_t index, rank = 0;

    memcpy(&index, data, 4);
    from = &r->peers[index];
    while (rank < p->m.nranks && p->m.view[rank].id != from->m.id)
        rank++;
    if (!p->transferring || rank == p->m.nranks)
        return;
    tt_assert(tt_transfer_is_mine(data + 4, bytes - 4));
    if (!tt_transfer_peer(&p->transfer, rank, data + 4, bytes - 4, r->w.now_ns))
        broken(r, "member %llu finds a piece of member %llu bad", (unsigned long long)p->m.id,
               (unsigned long long)from->m.id);
    plan_tick(r, p);
}

void on_transfer_tick(struct run *r, struct peer *p)
{
    if (!p->transferring)
        return;
    tt_transfer_tick(&p->transfer, r->w.now_ns);
    plan_tick(r, p);
}

void on_sync_plan(struct run *r, struct peer *p)
{
    const struct tt_member_sync *sync = &p->m.sync;

    tt_assert(p->transferring);
    if (goes_wrong(r, 40))
        world_plan(&r->w, r->w.now_ns + below(r, 10 * MS), KILL, index_of(r, p), 0, NULL, 0);
    r->received += sync->part == TT_SYNC_RECEIVES && p->transfer.part == TT_SYNC_PART_NONE;
    tt_transfer_plan(&p->transfer, sync->part, &sync->content, sync->holders, sync->nholders,
                     r->w.now_ns);
    plan_tick(r, p);
}

/* ---- calls ---- */

/* All members choose POPULAR, or all choose between SEND and RECEIVE: a member with a state may
 * receive, too. */
static uint8_t strategy_of(const struct peer *p)
{
    const uint64_t plan = tt_mix64(p->m.epoch * 31 + p->sync_number);

    if (plan % 2)
        return TT_SYNC_POPULAR;
    return p->known && tt_mix64(plan + p->m.id) % 4 ? TT_SYNC_SEND : TT_SYNC_RECEIVE;
}

/* A liar offers anything, or changes its content after the offer. */
static void lie_about(struct run *r, struct peer *p, struct tt_sync_offer *offer)
{
    const uint64_t how = below(r, 4);

    if (how == 0)
        offer->content.word[below(r, 4)] ^= 1;
    else if (how == 1)
        p->arrays[1 + below(r, 2)][below(r, 100)] ^= 16;
    else if (how == 2)
        offer->revision = below(r, offer->revision + 2);
}

/* Makes a member diverge. */
static void stray(struct run *r, struct peer *p)
{
    p->jumps = false;
    p->odd = goes_wrong(r, 80);
    if (!p->known)
        return;
    if (goes_wrong(r, 40)) {
        p->arrays[1 + below(r, 2)][below(r, 100)] ^= 32;
        p->diverged = true;
    }
    p->jumps = goes_wrong(r, 80);
}

/* Returns whether all possible senders may have set `instead` in this member's sync. */
static bool may_restart(const struct run *r, const struct peer *p)
{
    for (uint32_t i = 0; i < RESTARTS_MAX; i++)
        if (r->restarts[i].epoch == p->m.epoch && r->restarts[i].number == p->sync_number &&
            r->restarts[i].part == part_of_state(r, p))
            return true;
    return false;
}

/* Records that the peer has set `instead`. */
static void note_restart(struct run *r, const struct peer *p)
{
    if (may_restart(r, p))
        return;
    r->restarts[r->nrestarts % RESTARTS_MAX].epoch = p->m.epoch;
    r->restarts[r->nrestarts % RESTARTS_MAX].number = p->sync_number;
    r->restarts[r->nrestarts++ % RESTARTS_MAX].part = part_of_state(r, p);
}

void call_sync(struct run *r, struct peer *p)
{
    const uint8_t scope = r->by_role ? TT_SYNC_OF_ROLE : TT_SYNC_OF_VIEW;
    struct tt_sync_array arrays[ARRAYS];
    struct tt_sync_offer offer = { .scope = scope };
    struct tt_transfer_conf conf = { .epoch = p->m.epoch,
                                     .number = p->m.sync.number[scope],
                                     .narrays = ARRAYS,
                                     .items = p->items,
                                     .list = p->list,
                                     .coming = p->coming,
                                     .piece_bytes = TT_HASH_BLOCK_BYTES,
                                     .patience_ns = LEASE_NS,
                                     .stage = stage,
                                     .emit = on_transfer_act,
                                     .context = p };
    tutti_status status;

    p->sync_number = conf.number;
    stray(r, p);
    describe(r, p, arrays);
    offer.keys = tt_sync_keys(arrays, ARRAYS);
    offer.content = p->had = content_of(r, p, p->list);
    offer.revision = p->known ? p->revision + 1 + p->jumps : p->revision;
    offer.strategy = strategy_of(p);
    offer.instead = p->instead = p->last_sync == TT_ROUND_OTHER_STATE;
    if (p->instead)
        note_restart(r, p);
    r->tainted |= p->diverged || p->odd || p->liar || p->jumps;
    if (p->liar)
        lie_about(r, p, &offer);
    status = tt_member_sync(&p->m, &offer, r->w.now_ns);
    if (status != TUTTI_OK)
        broken(r, "member %llu may not sync: status %d", (unsigned long long)p->m.id, (int)status);
    for (uint32_t i = 0; i < ARRAYS; i++)
        p->items[i] = (struct tt_transfer_item){ .bytes = r->bytes[i], .data = p->arrays[i] };
    conf.scope = tt_member_scope(&p->m);
    tt_transfer_init(&p->transfer, &conf, r->w.now_ns);
    p->transferring = true;
    if (goes_wrong(r, 30))
        world_plan(&r->w, r->w.now_ns + delay(r, p, 20 * MS), CANCEL, index_of(r, p), 0, NULL, 0);
}

/* ---- invariants ---- */

bool may_be_out(const struct run *r, const struct peer *p, const char *text)
{
    if (p->liar)
        return true;
    if (strstr(text, "ahead"))
        return p->jumps || r->reset; /* the peer's state may have been replaced by another one */
    return r->tainted; /* other members' keys or content were more common; otherwise all have the
                          same */
}

static void check_raised(struct run *r, const struct peer *p, uint64_t value)
{
    const uint32_t part = part_of_state(r, p);
    const uint64_t last = r->last[part].revision;

    if (!r->last[part].is || may_restart(r, p))
        r->reset |= r->last[part].is;
    else if (p->known && !p->diverged && p->revision == last && value != last + 1)
        broken(r, "a sync raised revision %llu to %llu", (unsigned long long)last,
               (unsigned long long)value);
    else if (value < last)
        broken(r, "a sync took revision %llu back to %llu", (unsigned long long)last,
               (unsigned long long)value);
}

/* Checks that all members with a successful result have the same content. *first: no other member
 * has received the result yet. */
static struct sync_record *check_record(struct run *r, const struct peer *p,
                                        const struct tt_member_act *act,
                                        const struct tt_hash *content, bool *first)
{
    const uint32_t scope = r->by_role ? 1 + p->role : 0;
    struct sync_record *s = NULL;

    *first = false;
    for (uint32_t i = r->nsyncs; i > 0 && !s; i--)
        if (r->syncs[i - 1].epoch == p->m.epoch && r->syncs[i - 1].scope == scope &&
            r->syncs[i - 1].number == p->sync_number)
            s = &r->syncs[i - 1];
    if (!s) {
        if (r->nsyncs == SYNCS_MAX) {
            memmove(r->syncs, r->syncs + 1, (SYNCS_MAX - 1) * sizeof *r->syncs);
            r->nsyncs--;
        }
        s = &r->syncs[r->nsyncs++];
        *s = (struct sync_record){ p->m.epoch, p->sync_number, act->value,
                                   scope,      act->what,      *content };
        *first = true;
        return s;
    }
    if (s->what != act->what || s->value != act->value)
        broken(r, "sync %llu ended as %u with revision %llu, at member %llu as %u with %llu",
               (unsigned long long)p->sync_number, s->what, (unsigned long long)s->value,
               (unsigned long long)p->m.id, act->what, (unsigned long long)act->value);
    return s;
}

/* Replaces the peer's content by the received data. */
static void take(struct run *r, struct peer *p)
{
    if (p->transfer.part != TT_SYNC_RECEIVES)
        return;
    if (p->transfer.vote != TT_SYNC_GOT && !p->liar)
        broken(r, "member %llu is told of a sync that is good, but has not received all of it",
               (unsigned long long)p->m.id);
    for (uint32_t i = 0; i < ARRAYS; i++)
        if (p->items[i].stage && p->items[i].here)
            memcpy(p->arrays[i], p->items[i].stage, r->bytes[i]);
}

/* Returns whether this sync is later than all known ones; some members receive a result with a long
 * delay. */
static bool is_later(const struct run *r, const struct peer *p)
{
    const uint32_t part = part_of_state(r, p);

    return p->m.epoch > r->last[part].epoch ||
           (p->m.epoch == r->last[part].epoch && p->sync_number > r->last[part].number);
}

static void on_good(struct run *r, struct peer *p, const struct tt_member_act *act)
{
    const uint32_t part = part_of_state(r, p);
    struct tt_hash content;
    struct sync_record *s;
    uint8_t list[16 * ARRAYS];
    bool first;

    take(r, p);
    if (p->liar) {
        r->reset |= p->instead;
        r->last[part].is &= !p->instead; /* the content of the other members is no longer the last
                                            one */
        p->known = true;
        p->revision = act->value;
        return;
    }
    content = content_of(r, p, list);
    s = check_record(r, p, act, &content, &first);
    first &= is_later(r, p);
    if (first)
        check_raised(r, p, act->value);
    if (!tt_hash_equal(&s->content, &content))
        broken(r, "member %llu has another state than others after a sync that was good",
               (unsigned long long)p->m.id);
    if (first && r->last[part].is && !may_restart(r, p) && act->value == r->last[part].revision &&
        memcmp(p->arrays[0], r->last[part].data, r->total - r->bytes[MAY_DIFFER]) != 0)
        broken(r, "a new cohort goes on with a state that is not the last one");
    if (p->arrays[MAY_DIFFER][0] != (uint8_t)(index_of(r, p) + 1))
        broken(r, "an array of member %llu that may differ was overwritten",
               (unsigned long long)p->m.id);
    p->known = true;
    p->diverged = false;
    p->revision = act->value;
    memcpy(&p->state, p->arrays[0], sizeof p->state);
    if (!first)
        return;
    r->last[part].is = true;
    r->last[part].revision = act->value;
    r->last[part].epoch = p->m.epoch;
    r->last[part].number = p->sync_number;
    memcpy(r->last[part].data, p->arrays[0], r->total);
}

static void on_bad(struct run *r, struct peer *p, const struct tt_member_act *act)
{
    struct tt_hash content;
    uint8_t list[16 * ARRAYS];
    bool first;

    if (p->liar)
        return;
    content = content_of(r, p, list);
    if (act->what != TT_ROUND_TIMEOUT && act->what != TT_ROUND_MISMATCH)
        check_record(r, p, act, &content, &first);
    if (!tt_hash_equal(&content, &p->had))
        broken(r, "a sync that was not good has changed the state of member %llu",
               (unsigned long long)p->m.id);
    if (act->what == TT_ROUND_MISMATCH)
        check_mismatch(r, p, act);
}

void on_synced(struct run *r, struct peer *p, const struct tt_member_act *act)
{
    const bool good = act->what == TT_ROUND_OK || act->what == TT_ROUND_SAME;

    p->transferring = false;
    r->outcomes |= 1ull << act->what;
    if (p->m.epoch == 0) {
        p->phase = EPOCH; /* the members are newcomers again */
    } else {
        if (good)
            on_good(r, p, act);
        else
            on_bad(r, p, act);
        p->last_sync = act->what;
        p->phase = good ? STEP : act->what == TT_ROUND_MISMATCH ? EPOCH : SYNC;
    }
    plan_program(r, p, 20 * MS);
}
