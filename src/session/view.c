/* Epochs: the members agree on a view, and connect to each other.
 *
 * A view can be used when its members' engines are connected. Each member sends an offer to all
 * others over the control connections. The offer is either "keep the world of epoch w" (it contains
 * all members, and no connection was lost), or "new world", with its card. If all offer to keep the
 * same world, it is kept; otherwise each creates a new world from all cards. A member that offered
 * to keep it and receives a different offer sends a new offer. Before a member offers to keep the
 * world, it has opened its communicators there. Thus, when all have offered, no message is sent to
 * an unopened communicator. A new world receives no messages before it is complete. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/offer.h"
#include "session/run.h"

/* ---- exchange of offers ---------------------------------------------------------------------- */

/* State while a member connects to the others of a view; freed by view_setup_fini. */
struct view_setup {
    uint64_t epoch;
    uint32_t n, rank;
    uint64_t *ids;              /* [n] */
    tutti_member *members;      /* [n] */
    bool keeps;                 /* this member offers to keep the old world */
    struct tt_world *world;     /* the new world, while owned by this struct */
    struct tt_view_comms space;      /* opened, but not in use by the run yet */
    uint8_t card[TT_CARD_BYTES];
    size_t card_bytes;
};

static tutti_status view_setup_init(struct view_setup *g, const tutti_run *run)
{
    *g = (struct view_setup){ .epoch = run->m.epoch, .n = run->m.nranks, .rank = run->m.rank };
    g->ids = malloc(g->n * sizeof *g->ids);
    g->members = malloc(g->n * sizeof *g->members);
    if (!g->ids || !g->members) {
        free(g->ids);
        free(g->members);
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a view of %u members", g->n);
    }
    for (uint32_t i = 0; i < g->n; i++) {
        const struct tt_surroundings_seat *seat = &run->m.view[i];

        g->ids[i] = seat->id;
        g->members[i] = (tutti_member){ .id = seat->id, .group = seat->group, .role = seat->role };
    }
    return TUTTI_OK;
}

/* Releases the lock meanwhile: closing the last communicator of a world destroys it. That takes up
 * to a second if data is in flight to a hung member, and heartbeats to the coordinator must
 * continue. */
static void close_space(tutti_run *run, struct tt_view_comms *s)
{
    tt_run_unlock(run);
    tt_view_comms_close(s, run->ntags);
    tt_run_lock(run);
}

static void view_setup_fini(struct view_setup *g, tutti_run *run)
{
    close_space(run, &g->space);
    if (g->world)
        tt_world_discard(g->world);
    free(g->ids);
    free(g->members);
}

/* Returns whether the view is already over because a member was lost. */
static bool view_is_over(const tutti_run *run, const struct view_setup *g)
{
    return run->over || run->m.epoch != g->epoch || run->m.stopped;
}

static tutti_status view_over(tutti_run *run, const char *name)
{
    const tutti_status st = tt_run_check(run);

    return st ? st : tt_run_epoch_over(run, name, "; not all of its members were connected");
}

static void send_offer(tutti_run *run, const struct view_setup *g)
{
    struct tt_message *s = &run->offer;

    *s = (struct tt_message){ .kind = TT_MESSAGE_OFFER, .epoch = g->epoch, .keep = g->keeps };
    if (g->keeps) {
        s->world = run->home.epoch;
    } else {
        s->card_bytes = (uint16_t)g->card_bytes;
        memcpy(s->card, g->card, g->card_bytes);
    }
    run->offered = true;
    tt_peers_broadcast(run, s);
}

/* Creates this member's part of a new world. Releases the lock, because it takes milliseconds. */
static tutti_status prepare_world(tutti_run *run, struct view_setup *g)
{
    const struct tt_world_conf conf = { .rank = g->rank,
                                  .nranks = g->n,
                                  .wires = run->wires,
                                  .interfaces = run->interfaces,
                                  .lanes = run->lanes,
                                  .outside = &run->outside,
                                  .secure = run->secure,
                                        .constants = tt_view_comms_constants(),
                                  .host = tt_peers_host(run),
                                        .members = g->ids };
    struct tt_world_offer offer;
    tutti_status st;

    tt_run_unlock(run);
    st = tt_world_prepare(&g->world, &conf, &offer);
    if (!st)
        st = tt_world_offer_write(&offer, g->card, &g->card_bytes);
    tt_run_lock(run);
    g->keeps = false;
    return st;
}

/* Returns the number of received offers, and whether any requires a new world. */
static uint32_t count_offers(tutti_run *run, const struct view_setup *g, bool *new_world)
{
    uint32_t n = 0;

    *new_world = !g->keeps;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct tt_peer_link *p = i == g->rank ? NULL : tt_peers_find(run, g->ids[i]);

        if (!p || !p->has_offer || p->offer.epoch != g->epoch)
            continue;
        n++;
        *new_world |= !p->offer.keep || p->offer.world != run->home.epoch;
    }
    return n;
}

static uint32_t count_cards(tutti_run *run, const struct view_setup *g)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->n; i++) {
        const struct tt_peer_link *p = i == g->rank ? NULL : tt_peers_find(run, g->ids[i]);

        n += p && p->has_offer && p->offer.epoch == g->epoch && !p->offer.keep;
    }
    return n;
}

static tutti_status late(tutti_run *run, const struct view_setup *g, const char *name)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const struct tt_peer_link *p = i == g->rank ? NULL : tt_peers_find(run, g->ids[i]);

        if (i != g->rank && (!p || !p->has_offer || p->offer.epoch != g->epoch))
            return tt_fail(TUTTI_ERR_TIMEOUT,
                           "%s: member %" PRIu64 " did not join epoch %" PRIu64
                           " before the deadline",
                           name, g->ids[i], g->epoch);
    }
    return tt_fail(TUTTI_ERR_TIMEOUT,
                   "%s: the members of epoch %" PRIu64 " did not all connect before the deadline",
                   name, g->epoch);
}

/* Opens all communicators of the view. */
static tutti_status open_space(const tutti_run *run, struct view_setup *g, struct tt_world *world,
                               const struct tt_run_home *home)
{
    const tutti_status st = tt_view_comms_open(&g->space, world, home, g->ids, g->n, g->rank,
                                               g->epoch, run->ntags, run->timeout_ms);

    if (st || run->m.conf.nroles <= 1)
        return st;
    return tt_view_comms_open_scopes(&g->space, world, home, g->members, run->ntags,
                                     run->timeout_ms);
}

/* ---- a new world ---- */

static tutti_status add_cards(tutti_run *run, struct view_setup *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const struct tt_peer_link *p = i == g->rank ? NULL : tt_peers_find(run, g->ids[i]);
        const tutti_status st =
            i == g->rank ? tt_world_add_offer(g->world, i, g->card, g->card_bytes)
                         : tt_world_add_offer(g->world, i, p->offer.card, p->offer.card_bytes);

        if (st)
            return st;
    }
    return TUTTI_OK;
}

/* Derives the secret of this world's data connections, which only members of the run can
 * compute. */
static void secret_of(const tutti_run *run, uint64_t epoch, uint8_t out[16])
{
    uint8_t mac[TT_MAC_BYTES], name[8];
    struct tt_writer w;

    tt_writer_init(&w, name, sizeof name);
    tt_write_u64(&w, epoch);
    tt_mac(mac, run->m.secret, TT_COOKIE_BYTES, "tutti world", name, sizeof name);
    memcpy(out, mac, 16);
}

/* All cards have arrived: completes and starts the world. On success it belongs to run->home. */
static tutti_status complete_world(tutti_run *run, struct view_setup *g)
{
    const struct tt_engine_hooks hooks = tt_view_comms_hooks(run);
    struct tt_run_home home = { .world = g->world, .epoch = g->epoch, .n = g->n };
    uint8_t secret[16];
    tutti_status st;

    home.ids = malloc(g->n * sizeof *home.ids);
    if (!home.ids)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a view of %u members", g->n);
    memcpy(home.ids, g->ids, g->n * sizeof *home.ids);
    st = add_cards(run, g);
    secret_of(run, g->epoch, secret);
    if (!st)
        st = tt_world_complete(g->world, secret);
    if (!st)
        st = open_space(run, g, g->world, &home);
    if (g->space.comm)
        g->world = NULL; /* owned by its communicators from here on */
    if (st) {
        free(home.ids);
        return st;
    }
    st = tt_world_start(home.world, &hooks);
    if (st) {
        free(home.ids);
        return st;
    }
    tt_run_home_leave(&run->home);
    run->home = home;
    run->stats.worlds++;
    return TUTTI_OK;
}

/* ---- one view ---- */

/* Waits for all offers. Sends a new one if another member needs a new world. */
static tutti_status exchange_offers(tutti_run *run, struct view_setup *g, uint64_t deadline_ns,
                                    const char *name)
{
    bool new_world;

    for (;;) {
        const uint32_t n = count_offers(run, g, &new_world);

        if (view_is_over(run, g))
            return view_over(run, name);
        if (new_world && g->keeps) {
            tutti_status st;

            tt_view_comms_close(&g->space, run->ntags);
            st = prepare_world(run, g);
            if (st)
                return st;
            send_offer(run, g);
            continue;
        }
        if (n == g->n - 1 && (!new_world || count_cards(run, g) == n))
            return TUTTI_OK;
        if (!tt_run_wait_awake(run, &deadline_ns))
            return late(run, g, name);
    }
}

/* Declares the members that are not in the new view lost, for communicators that the program has
 * split from old ones. */
static void drop_departed(const tutti_run *run, const struct view_setup *g)
{
    for (uint32_t r = 0; r < run->home.n; r++) {
        uint32_t i = 0;

        while (i < g->n && g->ids[i] != run->home.ids[r])
            i++;
        if (i == g->n)
            tt_engine_lost(run->home.world->engine, r, "it is no longer a member of the view");
    }
}

static bool was_there(const tutti_run *run, uint64_t id)
{
    uint32_t r = 0;

    while (r < run->space.nranks && run->members[r].id != id)
        r++;
    return r < run->space.nranks;
}

/* Returns whether a complete replica group of the last view is in this one. It has then advanced
 * while this member's group was incomplete. The members of a group have consecutive ranks, in
 * the order of their roles. */
static bool others_went_on(const tutti_run *run, const struct view_setup *g)
{
    uint32_t stayed = 0;

    for (uint32_t i = 0; i < g->n; i++) {
        stayed = (g->members[i].role > 0 ? stayed : 0) + was_there(run, g->members[i].id);
        if (stayed == run->m.conf.nroles)
            return true;
    }
    return false;
}

/* Connects to the other members of the machine's view. On success run->space contains the
 * communicators of this view. */
static tutti_status connect_view(tutti_run *run, uint64_t deadline_ns, const char *name)
{
    struct view_setup g;
    struct tt_view_comms old;
    tutti_status st = view_setup_init(&g, run);

    if (st)
        return st;
    g.keeps = tt_run_home_fits(run);
    if (g.keeps)
        st = open_space(run, &g, run->home.world, &run->home);
    else
        st = prepare_world(run, &g);
    if (!st) {
        send_offer(run, &g);
        st = exchange_offers(run, &g, deadline_ns, name);
    }
    if (!st && !g.keeps)
        st = complete_world(run, &g);
    if (!st && view_is_over(run, &g))
        st = view_over(run, name);
    if (st) {
        /* others may be connected already; this member can join them only in another epoch */
        if (!view_is_over(run, &g))
            tt_run_end_epoch(run, st);
        view_setup_fini(&g, run);
        return st;
    }
    if (g.keeps)
        drop_departed(run, &g);
    /* this member's shared state is outdated: it must not be offered as the next revision */
    if (run->put_out && others_went_on(run, &g))
        run->synced[0] = run->synced[1] = false;
    run->put_out = false;
    tt_run_trace_view(run, g.ids, g.n, g.rank);
    old = run->space;
    run->space = g.space;
    g.space = (struct tt_view_comms){ .epoch = 0 };
    free(run->members);
    run->members = g.members;
    g.members = NULL;
    run->stats.views++;
    close_space(run, &old);
    view_setup_fini(&g, run);
    return TUTTI_OK;
}

static tutti_status too_few_are_left(uint64_t n, uint32_t least, const char *name)
{
    return tt_fail(TUTTI_ERR_PEER_LOST, "%s: only %" PRIu64 " member%s, but least is %u", name, n,
                   n == 1 ? " remains" : "s remain", least);
}

/* Returns TUTTI_OK if the coordinator's decision was an epoch, else the error. */
static tutti_status view_outcome(tutti_run *run, const struct tt_member_act *r, uint32_t least,
                                 const char *name, bool *too_few)
{
    *too_few = r->what == TT_ROUND_TOO_FEW;
    if (*too_few)
        return too_few_are_left(r->value, least, name);
    if (r->what != TT_ROUND_OK && r->what != TT_ROUND_SAME)
        return tt_fail(TUTTI_ERR_PROTOCOL, "%s: protocol error: invalid coordinator response %u",
                       name, r->what);
    return tt_run_check(run);
}

/* Forms one epoch, up to the connected view. The caller holds the lock; it is released while
 * waiting. */
static tutti_status form_epoch(tutti_run *run, uint32_t flags, uint32_t least, uint32_t most,
                               uint64_t deadline_ns, const char *name, struct tt_view_result *out)
{
    const struct tt_elmsg call = { .what = TT_CALL_EPOCH,
                                   .flags = flags & TUTTI_ADMIT ? TT_EPOCH_ADMIT : 0,
                                   .least = least,
                                   .most = most };
    struct tt_member_act result;
    tutti_status st = tt_round_call(run, &call, deadline_ns, name, &result);

    if (!st)
        st = view_outcome(run, &result, least, name, &out->too_few);
    /* cancelled too late: the program's next call joins the others, which wait in that epoch */
    if (!st && run->dropped) {
        run->expected = run->m.epoch;
        st = tt_run_lost("%s: this member's replica group became incomplete (call tutti_run_epoch "
                         "to rejoin)",
                         name);
    }
    if (st)
        return st;
    out->changed = run->space.epoch != run->m.epoch;
    return out->changed ? connect_view(run, deadline_ns, name) : TUTTI_OK;
}

tutti_status tt_view_suffices(const tutti_run *run, uint32_t least, const char *name)
{
    if (run->space.nranks >= least)
        return TUTTI_OK;
    return too_few_are_left((uint64_t)run->space.nranks, least, name);
}

tutti_status tt_view_again(tutti_run *run, uint32_t least, uint64_t deadline_ns, const char *name,
                           struct tt_view_result *out)
{
    tutti_status st;

    do {
        *out = (struct tt_view_result){ .changed = false };
        st = form_epoch(run, 0, 0, 0, deadline_ns, name, out);
    } while (st == TUTTI_ERR_PEER_LOST && !run->over && !run->dropped);
    if (st)
        return st;
    st = tt_view_suffices(run, least, name);
    out->too_few = st != TUTTI_OK;
    return st;
}

/* ---- the calls ---- */

void tt_view_show(const tutti_run *run, tutti_view *out, bool changed)
{
    const size_t size = out->size;

    *out = (tutti_view){ .size = size, .rank = -1, .changed = changed };
    if (run->space.epoch == 0)
        return;
    out->epoch = run->space.epoch;
    out->rank = (int32_t)run->space.rank;
    out->nranks = (int32_t)run->space.nranks;
    out->members = run->members;
}

static tutti_status keep_program_view(tutti_run *run)
{
    tutti_member *asked = malloc(run->space.nranks * sizeof *asked);

    if (!asked)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a view of %u members",
                       run->space.nranks);
    memcpy(asked, run->members, run->space.nranks * sizeof *asked);
    free(run->asked);
    run->asked = asked;
    run->nasked = run->space.nranks;
    return TUTTI_OK;
}

/* This member has given notice, and the others have continued without it. */
static bool member_has_left(const tutti_run *run)
{
    return run->over && run->over_status == TUTTI_OK;
}

/* Runs the round for the next view. Another member may still be in the call that formed the
 * ended view: it lost a peer before all were connected, and called for the next view there, with
 * default arguments. Both then get MISMATCH. The other returns PEER_LOST to its program, which
 * makes the same call as this one. Therefore one MISMATCH after a loss does not prove that the
 * programs differ; a second one does. Without a loss the first one does. */
static tutti_status call_for_view(tutti_run *run, uint32_t flags, uint32_t least, uint32_t most,
                                  uint64_t deadline_ns, const char *name,
                                  struct tt_view_result *out)
{
    const tutti_status st = form_epoch(run, flags, least, most, deadline_ns, name, out);

    if (st != TUTTI_ERR_MISMATCH || !run->result_over || run->over)
        return st;
    return form_epoch(run, flags, least, most, deadline_ns, name, out);
}

static tutti_status next_view(tutti_run *run, uint32_t flags, uint32_t least, uint32_t most,
                              uint64_t deadline_ns, const char *name, struct tt_view_result *out)
{
    const bool expected = run->expected != 0 && run->expected == run->m.epoch;

    run->expected = 0;
    if (!expected)
        return call_for_view(run, flags, least, most, deadline_ns, name, out);
    out->changed = true;
    return connect_view(run, deadline_ns, name);
}

tutti_status tt_view_call(tutti_run *run, uint32_t flags, uint32_t least, uint32_t most,
                          uint64_t deadline_ns, const char *name, tutti_view *out)
{
    struct tt_view_result result = { .changed = false };
    tutti_status st = next_view(run, flags, least, most, deadline_ns, name, &result);

    if (st == TUTTI_ERR_PEER_LOST && !result.too_few && !run->over) {
        st = tt_view_again(run, least, deadline_ns, name, &result);
        if (st == TUTTI_ERR_MISMATCH)
            st = tt_run_epoch_over(
                run, name,
                "; not all of its members were connected, and they have made other calls since "
                "(repeat the call)");
    }
    if (st && member_has_left(run)) {
        *out = (tutti_view){ .size = sizeof *out, .rank = -1, .changed = 1 };
        st = TUTTI_OK;
    } else if (!st && !(st = keep_program_view(run))) {
        tt_view_show(run, out, result.changed);
    }
    return st;
}

static tutti_status epoch(tutti_run *run, uint32_t flags, uint32_t least, uint32_t most,
                          int64_t timeout_ms, tutti_view *out, const char *name)
{
    tutti_status st = tt_run_check_out(run, out, "tutti_view", sizeof *out, name);
    const uint32_t unknown = flags & ~(uint32_t)TUTTI_ADMIT;
    uint64_t deadline_ns;

    if (st)
        return st;
    if (unknown)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: flags %#x contain unknown bits %#x: only TUTTI_ADMIT (%#x) is "
                       "defined",
                       name, flags, unknown, TUTTI_ADMIT);
    if (most && least > most)
        return tt_fail(TUTTI_ERR_INVALID, "%s: least (%u members) exceeds most (%u)", name, least,
                       most);
    tt_run_lock(run);
    if (run->calling || run->noperations > 0 || !tt_view_comms_seal(run)) {
        st = tt_round_collides(run, name);
        tt_run_unlock(run);
        return st;
    }
    deadline_ns = tt_run_deadline(run, timeout_ms);
    run->calling = true;
    if (run->nowing > 0)
        st = tt_deferred_close(run, deadline_ns, name);
    if (!st)
        st = tt_view_call(run, flags, least, most, deadline_ns, name, out);
    tt_view_comms_unseal(run);
    run->calling = false;
    tt_run_unlock(run);
    return st;
}

static tutti_status traced_epoch(tutti_run *run, uint32_t flags, uint32_t least, uint32_t most,
                                 int64_t timeout_ms, tutti_view *out, const char *name)
{
    const uint64_t record = run ? tt_run_trace_begin(run, TT_OPLOG_RUN_EPOCH, 0) : 0;
    const tutti_status st = epoch(run, flags, least, most, timeout_ms, out, name);

    tt_run_trace_end(record, st);
    return st;
}

tutti_status tutti_run_epoch(tutti_run *run, uint32_t flags, uint32_t least, uint32_t most,
                             int64_t timeout_ms, tutti_view *out)
{
    return traced_epoch(run, flags, least, most, timeout_ms, out, "tutti_run_epoch");
}

tutti_status tutti_run_shrink(tutti_run *run, uint32_t least, int64_t timeout_ms, tutti_view *out)
{
    return traced_epoch(run, 0, least, 0, timeout_ms, out, "tutti_run_shrink");
}

tutti_status tutti_run_view(tutti_run *run, tutti_view *out)
{
    const tutti_status st = tt_run_check_out(run, out, "tutti_view", sizeof *out, "tutti_run_view");

    if (st)
        return st;
    tt_run_lock(run);
    if (run->over)
        *out = (tutti_view){ .size = sizeof *out, .rank = -1 };
    else
        tt_view_show(run, out, false);
    tt_run_unlock(run);
    return TUTTI_OK;
}

tutti_comm *tutti_run_comm(tutti_run *run)
{
    tutti_comm *comm;

    if (tt_run_check_call(run, run, "run", "tutti_run_comm"))
        return NULL;
    tt_run_lock(run);
    comm = run->space.epoch && !run->over ? run->space.comm : NULL;
    tt_run_unlock(run);
    return comm;
}
