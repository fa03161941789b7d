/* Members of a run in one process sync their state: the selected content, the receivers, the
 * excluded members, and members that leave meanwhile. */
#include "session/party.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "session/run.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define FEW 5000u
#define MANY (6u << 20)                 /* 24 MiB of weights */
/* No lease expires in these tests. With the thread sanitizer, on a busy machine, a transfer of
 * VERY_MANY elements may delay a member for seconds. */
#define SYNC_LEASE_MS 30000
/* 64 MiB: the transfer is long enough for a polling thread to observe it */
#define VERY_MANY (16u << 20)
#define QUEUED_MAX (640u << 10)         /* a piece, and other messages */

/* ---- a state ---- */

struct model {
    float *weights;
    size_t n;
    int64_t step;
    uint32_t seed;                      /* different on each member */
    tutti_array arrays[3];
    tutti_state state;
};

static void fill(struct model *m, int64_t content)
{
    m->step = content;
    for (size_t i = 0; i < m->n; i++)
        m->weights[i] = (float)((i * 31 + (size_t)content * 7) % 8191);
}

static bool is(const struct model *m, int64_t content)
{
    if (m->step != content)
        return false;
    for (size_t i = 0; i < m->n; i++)
        if (m->weights[i] != (float)((i * 31 + (size_t)content * 7) % 8191))
            return false;
    return true;
}

static void begin(struct model *m, const struct guest *g, size_t n, int64_t content)
{
    *m = (struct model){ .weights = malloc(n * sizeof *m->weights), .n = n, .seed = g->index };
    CHECK(m->weights != NULL);
    fill(m, content);
    m->arrays[0] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "weights",
                                  .data = m->weights,
                                  .count = n,
                                  .type = TUTTI_F32 };
    m->arrays[1] = (tutti_array){
        .size = sizeof(tutti_array), .name = "step", .data = &m->step, .count = 1, .type = TUTTI_I64
    };
    m->arrays[2] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "seed",
                                  .data = &m->seed,
                                  .count = 1,
                                  .type = TUTTI_U32,
                                  .may_differ = 1 };
    m->state = (tutti_state){ .size = sizeof m->state, .arrays = m->arrays, .narrays = 3 };
}

static void end(struct model *m, const struct guest *g)
{
    CHECK(m->seed == g->index);
    free(m->weights);
}

static void view_of(struct guest *g, uint32_t n)
{
    tutti_view view = { .size = sizeof view };

    MUST(tutti_run_epoch(g->run, TUTTI_ADMIT, n, 0, 0, &view));
    CHECK(view.nranks == (int)n);
}

/* No member leaves before all have finished. */
static void part(struct guest *g, int32_t left)
{
    tutti_view view = { .size = sizeof view };
    uint64_t flags;

    MUST(tutti_run_shrink(g->run, (uint32_t)left, 0, &view));
    CHECK(view.nranks == left);
    MUST(tutti_run_agree(g->run, 1, 0, &flags));
}

static void party(uint32_t n, void (*program)(struct guest *g), const char *token)
{
    struct party p;

    party_begin(&p, SYNC_LEASE_MS, PARTY_GRACE_MS, token);
    party_run(&p, n, program, token);
    party_end(&p);
}

/* ---- the winner ---- */

static void popular(struct guest *g)
{
    struct model m;

    view_of(g, 3);
    begin(&m, g, FEW, 7);
    MUST(tutti_run_sync(g->run, &m.state, 0));
    CHECK(m.state.revision == 0 && !m.state.received && m.state.bytes_received == 0 && is(&m, 7));

    fill(&m, g->index == 1 ? 9 : 8);
    MUST(tutti_run_sync(g->run, &m.state, 0));
    CHECK(m.state.revision == 1 && m.state.received == (g->index == 1) && is(&m, 8));
    if (g->index == 1)
        CHECK(m.state.bytes_received == sizeof m.step + FEW * sizeof(float) + 16 * m.state.narrays);

    m.step = g->index == 2 ? 10 : 8; /* only the step differs, and is transferred */
    MUST(tutti_run_sync(g->run, &m.state, 0));
    CHECK(m.state.revision == 2 && m.state.received == (g->index == 2) && is(&m, 8));
    if (g->index == 2)
        CHECK(m.state.bytes_received == sizeof m.step + 16 * m.state.narrays);

    fill(&m, g->index == 0 ? 11 : 12);
    if (g->index != 1)
        fill(&m, 11); /* most common, but of an older revision */
    m.state.revision -= g->index != 1;
    MUST(tutti_run_sync(g->run, &m.state, 0));
    CHECK(m.state.revision == 3 && m.state.received == (g->index != 1) && is(&m, 12));
    part(g, 3);
    end(&m, g);
}

static void most_common_current_content_wins(void **state)
{
    (void)state;
    party(3, popular, NULL);
    party(3, popular, TOKEN);
}

/* Two members with equal states sync with three newcomers that have none. */
static void newcomers(struct guest *g)
{
    const bool comes = g->index >= 2;
    struct model m;

    begin(&m, g, FEW, comes ? 0 : 50);
    if (comes) {
        party_await(g->party, 2);
    } else {
        view_of(g, 2);
        m.state.revision = 100;
        MUST(tutti_run_sync(g->run, &m.state, 0));
        CHECK(m.state.revision == 100 && !m.state.received);
        atomic_fetch_add(&g->party->step, 1);
    }
    view_of(g, 5);
    MUST(tutti_run_sync(g->run, &m.state, 0));
    CHECK(m.state.revision == 101 && m.state.received == comes && is(&m, 50));
    if (!comes)
        fill(&m, 51);
    m.state.strategy = comes ? TUTTI_SYNC_RECEIVE : TUTTI_SYNC_SEND;
    MUST(tutti_run_sync(g->run, &m.state, 0));
    CHECK(m.state.revision == 102 && m.state.received == comes && is(&m, 51));
    part(g, 5);
    end(&m, g);
}

/* An array of each type, with an uneven count at an unaligned address; none ends where the next one
 * begins. */
#define TYPED_COUNT(type) (1001 + 2 * (size_t)(type))
#define TYPED_ROOM ((1001 + 2 * TUTTI_DTYPE_COUNT) * 8 + 64)

static uint8_t typed_byte(size_t at) { return (uint8_t)(at * 167 + (at >> 8) * 59 + 13); }

static void arrays_of_all_types(struct guest *g)
{
    static const char *const names[TUTTI_DTYPE_COUNT] = { "i8",  "u8",  "i16",  "u16", "i32",
                                                          "u32", "i64", "u64",  "f16", "bf16",
                                                          "f32", "f64", "e4m3", "e5m2" };
    const size_t bytes = TUTTI_DTYPE_COUNT * TYPED_ROOM + 64;
    const bool comes = g->index == 1;
    uint8_t *all = malloc(bytes);
    tutti_array arrays[TUTTI_DTYPE_COUNT];
    tutti_state state = { .size = sizeof state, .arrays = arrays, .narrays = TUTTI_DTYPE_COUNT };

    CHECK(all != NULL);
    for (size_t at = 0; at < bytes; at++)
        all[at] = comes ? 0xa5 : typed_byte(at);
    for (int t = 0; t < TUTTI_DTYPE_COUNT; t++) {
        uint8_t *data = all + (size_t)t * TYPED_ROOM;

        data += (uintptr_t)data % 2 ? 2 * t : 2 * t + 1;
        arrays[t] = (tutti_array){ .size = sizeof arrays[t],
                                   .name = names[t],
                                   .data = data,
                                   .count = TYPED_COUNT(t),
                                   .type = (tutti_dtype)t };
    }
    if (comes) {
        party_await(g->party, 1);
    } else {
        view_of(g, 1);
        state.revision = 5;
        MUST(tutti_run_sync(g->run, &state, 0));
        party_reach(g->party, 1);
    }
    view_of(g, 2);
    MUST(tutti_run_sync(g->run, &state, 0));
    CHECK(state.revision == 6 && state.received == comes);
    for (size_t at = 0, t = 0; at < bytes; at++) {
        const uint8_t *begin_at = t < TUTTI_DTYPE_COUNT ? arrays[t].data : NULL;
        const size_t n = begin_at ? arrays[t].count * tutti_dtype_bytes(arrays[t].type) : 0;
        const bool is_in = begin_at && all + at >= begin_at && all + at < begin_at + n;

        CHECK(all[at] == (comes && !is_in ? 0xa5 : typed_byte(at)));
        t += begin_at && all + at + 1 == begin_at + n;
    }
    part(g, 2);
    free(all);
}

static void all_types_arrive_at_any_address(void **state)
{
    (void)state;
    party(2, arrays_of_all_types, NULL);
}

static void any_number_of_newcomers_receives(void **state)
{
    (void)state;
    party(5, newcomers, NULL);
}

/* ---- excluded members ---- */

static void strays(struct guest *g)
{
    static const char *const why[] = {
        [2] = "another state was selected",
        [3] = "the arrays of this member's shared state differ",
        [4] = "revision of this member's shared state, 4, is ahead of that of the other members, 0"
    };
    struct model m;

    view_of(g, 5);
    begin(&m, g, FEW, 1);
    MUST(tutti_run_sync(g->run, &m.state, 0));
    m.state.strategy = g->index < 3 ? TUTTI_SYNC_SEND : TUTTI_SYNC_RECEIVE;
    fill(&m, g->index < 2 ? 2 : 3);
    m.arrays[0].count -= g->index == 3;
    m.state.revision += 4 * (g->index == 4);
    if (g->index < 2) {
        MUST(tutti_run_sync(g->run, &m.state, 0));
        CHECK(m.state.revision == 1 && !m.state.received && is(&m, 2));
        part(g, 2);
    } else {
        CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_ABORTED);
        CHECK(strstr(tutti_last_error(), why[g->index]) != NULL);
        CHECK(is(&m, 3));
        CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_ABORTED);
    }
    end(&m, g);
}

static void incompatible_member_is_excluded_with_reason(void **state)
{
    (void)state;
    party(5, strays, NULL);
}

/* ---- during the transfer ---- */

struct watcher {
    tutti_run *run;
    pthread_t thread;
    bool leaves;                /* leave during the transfer; otherwise cut all connections, several
                                   times */
    atomic_bool looks, over;    /* the thread has started; it must return */
    int done;
};

static void cut(tutti_run *run)
{
    for (struct tt_peer_conn *c = run->conns; c; c = c->next)
        c->dead = true;
    tt_run_wake(run);
}

static void *watch(void *arg)
{
    struct watcher *w = arg;
    tutti_run *run = w->run;
    uint64_t next = 1u << 20;
    bool ended = false, began = false;

    while (!ended) {
        tt_run_lock(run);
        began |= run->sync != NULL;
        ended = run->over || (began && !run->sync) || atomic_load(&w->over);
        for (const struct tt_peer_conn *c = run->conns; c; c = c->next)
            CHECK(!c->channel || tt_channel_queued(c->channel) <= QUEUED_MAX);
        if (!ended && run->sync &&
            run->sync->transfer.bytes_sent + run->sync->transfer.bytes_received >= next) {
            w->done++;
            next += 5u << 20;
            if (w->leaves)
                tt_member_leave(&run->m, TT_LEAVE_NOW, tt_now_ns());
            else
                cut(run);
        }
        tt_run_unlock(run);
        atomic_store(&w->looks, true);
    }
    return NULL;
}

static void watch_begin(struct watcher *w, tutti_run *run, bool leaves)
{
    *w = (struct watcher){ .run = run, .leaves = leaves };
    CHECK(pthread_create(&w->thread, NULL, watch, w) == 0);
    while (!atomic_load(&w->looks)) /* on a busy machine, the sync may otherwise end before the
                                       thread starts */
        nanosleep(&(struct timespec){ .tv_nsec = TT_MS / 10 }, NULL);
}

static void watch_end(struct watcher *w)
{
    atomic_store(&w->over, true);
    pthread_join(w->thread, NULL);
}

static void one_holder_goes(struct guest *g)
{
    struct watcher w;
    struct model m;

    view_of(g, 3);
    begin(&m, g, VERY_MANY, g->index < 2 ? 5 : 6);
    m.state.strategy = g->index < 2 ? TUTTI_SYNC_SEND : TUTTI_SYNC_RECEIVE;
    if (g->index == 0) {
        watch_begin(&w, g->run, true);
        CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
        watch_end(&w);
        CHECK(w.done == 1 && is(&m, 5));
    } else {
        MUST(tutti_run_sync(g->run, &m.state, 0));
        CHECK(m.state.received == (g->index == 2) && is(&m, 5));
        CHECK(g->index == 1 || m.state.bytes_received >= VERY_MANY * sizeof(float));
        part(g, 2);
    }
    end(&m, g);
}

static void leaving_holder_is_replaced(void **state)
{
    (void)state;
    party(3, one_holder_goes, NULL);
    party(3, one_holder_goes, TOKEN);
}

/* All holders exit during the transfer. Only the receivers remain, with unchanged states. */
static void the_only_holder_goes(struct guest *g)
{
    struct watcher w;
    struct model m;

    view_of(g, 3);
    begin(&m, g, VERY_MANY, g->index < 1 ? 5 : 6);
    m.state.strategy = g->index < 1 ? TUTTI_SYNC_SEND : TUTTI_SYNC_RECEIVE;
    if (g->index == 0) {
        watch_begin(&w, g->run, true);
        CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
        watch_end(&w);
    } else {
        CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_PEER_LOST);
        CHECK(is(&m, 6));
        m.state.strategy = TUTTI_SYNC_POPULAR; /* this sync is still in the epoch that is over */
        MUST(tutti_run_sync(g->run, &m.state, 0));
        CHECK(m.state.revision == 0);
        part(g, 2);
    }
    end(&m, g);
}

static void without_holders_nothing_has_changed(void **state)
{
    (void)state;
    party(3, the_only_holder_goes, NULL);
}

static void connections_are_cut(struct guest *g)
{
    tutti_run_stats_t stats = { .size = sizeof stats };
    struct watcher w;
    struct model m;

    view_of(g, 3);
    begin(&m, g, MANY, g->index < 2 ? 5 : 6);
    m.state.strategy = g->index < 2 ? TUTTI_SYNC_SEND : TUTTI_SYNC_RECEIVE;
    watch_begin(&w, g->run, false);
    MUST(tutti_run_sync(g->run, &m.state, 25000)); /* earlier than the timeout of a silent holder */
    watch_end(&w);
    CHECK(is(&m, 5));
    MUST(tutti_run_stats(g->run, &stats));
    CHECK(w.done >= 1 && stats.cuts >= 1);
    part(g, 3);
    end(&m, g);
}

static void lost_data_is_sent_again(void **state)
{
    (void)state;
    party(3, connections_are_cut, NULL);
}

/* ---- errors ---- */

static void *sync_alone(void *arg)
{
    struct model *m = ((void **)arg)[1];

    MUST(tutti_run_sync(((void **)arg)[0], &m->state, 0));
    return NULL;
}

static int copy_nothing(void *context, void *host, const void *at, size_t bytes)
{
    (void)context, (void)host, (void)at, (void)bytes;
    return 0;
}

static int copy(void *context, void *to, const void *from, size_t bytes)
{
    (void)context;
    memcpy(to, from, bytes);
    return 0;
}

static bool error_contains(const char *what)
{
    return strstr(tutti_last_error(), what) != NULL;
}

/* One member syncs, and the others make another call, or vice versa: all errors name two members
 * and their calls. */
static void others_call_otherwise(struct guest *g)
{
    static const char *const calls[] = { "agree", "epoch", "commit" };
    tutti_view view = { .size = sizeof view };
    struct model m;
    uint64_t flags;
    int outcome;
    char what[40];

    begin(&m, g, FEW, 3);
    view_of(g, 3);
    for (size_t i = 0; i < 2 * sizeof calls / sizeof *calls; i++) {
        const bool syncs = (g->index == 1) == (i % 2 == 0);
        const tutti_status st = syncs        ? tutti_run_sync(g->run, &m.state, 0)
                                : i / 2 == 0 ? tutti_run_agree(g->run, 1, 0, &flags)
                                : i / 2 == 1 ? tutti_run_epoch(g->run, TUTTI_ADMIT, 0, 0, 0, &view)
                                             : tutti_run_commit(g->run, 1, 0, &outcome);

        snprintf(what, sizeof what, "called %s", calls[i / 2]);
        CHECK(st == TUTTI_ERR_MISMATCH && error_contains("called sync") && error_contains(what) &&
              error_contains("this is member"));
    }
    MUST(tutti_run_sync(g->run, &m.state, 0));
    CHECK(m.state.revision == 0 && is(&m, 3));
    part(g, 3);
    end(&m, g);
}

static void sync_against_call_is_a_mismatch(void **state)
{
    (void)state;
    party(3, others_call_otherwise, NULL);
}

/* A sync that may write overlapping arrays is refused. It is allowed if both arrays may differ, or
 * if this member only sends, because neither is written then. */
static void overlap(struct guest *g)
{
    static const tutti_array_memory elsewhere = { .size = sizeof elsewhere,
                                                  .to_host = copy,
                                                  .from_host = copy };
    struct model m;
    struct {
        const char *name;
        size_t first, count;
    } parts[3] = { { "front", 0, FEW }, { "inside", 1, 1 }, { "back", FEW - 1, 1 } };

    view_of(g, 1);
    begin(&m, g, FEW, 3);
    for (size_t i = 0; i < 3; i++)
        m.arrays[i] = (tutti_array){ .size = sizeof(tutti_array),
                                     .name = parts[i].name,
                                     .data = m.weights + parts[i].first,
                                     .count = parts[i].count,
                                     .type = TUTTI_F32 };
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "\"front\" and \"inside\" overlap") != NULL);
    m.arrays[1].count = 0; /* an empty array overlaps nothing; "back" must still be found */
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "\"front\" and \"back\" overlap") != NULL);
    m.arrays[1].count = 1;
    m.arrays[0].may_differ = 1;
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
    m.arrays[1].may_differ = m.arrays[2].may_differ = 1;
    MUST(tutti_run_sync(g->run, &m.state, 0));
    for (size_t i = 0; i < 3; i++)
        m.arrays[i].may_differ = 0;
    m.state.instead = 1; /* accepts arrays that differ from the previous ones */
    m.arrays[0].count = FEW - 1;
    m.arrays[1].memory = &elsewhere; /* the address is in another memory, so there is no overlap */
    MUST(tutti_run_sync(g->run, &m.state, 0));
    m.arrays[1].memory = NULL;
    m.arrays[0].count = FEW;
    m.state.strategy = TUTTI_SYNC_SEND;
    MUST(tutti_run_sync(g->run, &m.state, 0));
    end(&m, g);
}

static void written_overlapping_arrays_are_refused(void **state)
{
    (void)state;
    party(1, overlap, NULL);
}

static void wrong_calls(struct guest *g)
{
    static const tutti_array_memory one_way = { .size = sizeof one_way, .to_host = copy_nothing };
    static const size_t sizes[] = { SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 8 + 1, PTRDIFF_MAX / 8,
                                    (size_t)1 << 55 };
    tutti_elastic op = { .size = sizeof op };
    void *data;
    tutti_view view = { .size = sizeof view };
    struct model m;
    uint64_t flags;
    float one = 1;

    begin(&m, g, FEW, 3);
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID); /* not in a view */
    view_of(g, 2);
    m.arrays[1].type = 99;
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
    m.arrays[1].type = TUTTI_I64;
    m.arrays[1].memory = &one_way;
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "memory of array \"step\" must have") != NULL);
    m.arrays[1].memory = NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        m.arrays[1].count = sizes[i];
        CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
        CHECK(strstr(tutti_last_error(), "does not fit in the address space") != NULL);
    }
    m.arrays[1].count = 1;
    data = m.arrays[1].data;
    m.arrays[1].data = (void *)(UINTPTR_MAX - 7);
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "\"step\" of 1 elements does not fit in the address space") !=
          NULL);
    m.arrays[1].data = data;
    m.state.arrays = (void *)(UINTPTR_MAX - 7);
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "state.arrays: 3 arrays at") != NULL);
    m.state.arrays = m.arrays;
    m.state.narrays = SIZE_MAX;
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
    m.state.narrays = 3;
    CHECK(tutti_run_batch(g->run, &op, SIZE_MAX / 8, 0, 1) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "operations do not fit in the address space") != NULL);
    m.state.strategy = 9;
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "state.strategy is 9: must be 0 to 2") != NULL);
    m.state.strategy = TUTTI_SYNC_POPULAR;
    m.state.narrays = 0;
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
    m.state.narrays = 3;
    m.state.strategy = TUTTI_SYNC_RECEIVE;
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "no member offers") != NULL);
    m.state.strategy = g->index ? TUTTI_SYNC_POPULAR : TUTTI_SYNC_SEND;
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_MISMATCH);
    m.state.strategy = TUTTI_SYNC_POPULAR;
    if (g->index == 0) {
        void *arg[2] = { g->run, &m };
        pthread_t thread;
        bool syncs = false;

        CHECK(tutti_run_sync(g->run, &m.state, 50) == TUTTI_ERR_TIMEOUT);
        CHECK(strstr(tutti_last_error(), "did not make this call") != NULL);
        CHECK(pthread_create(&thread, NULL, sync_alone, arg) == 0);
        while (!syncs) {
            tt_run_lock(g->run);
            syncs = g->run->sync != NULL;
            tt_run_unlock(g->run);
        }
        CHECK(tutti_run_allreduce(g->run, &one, &one, 1, TUTTI_F32, TUTTI_SUM, 0) ==
              TUTTI_ERR_INVALID);
        CHECK(tutti_run_agree(g->run, 1, 0, &flags) == TUTTI_ERR_INVALID);
        CHECK(tutti_run_epoch(g->run, 0, 0, 0, 0, &view) == TUTTI_ERR_INVALID);
        party_reach(g->party, 1);
        pthread_join(thread, NULL);
    } else {
        party_await(g->party, 1);
        MUST(tutti_run_sync(g->run, &m.state, 0));
    }
    CHECK(m.state.revision == 0 && is(&m, 3));
    MUST(tutti_run_allreduce(g->run, &one, &one, 1, TUTTI_F32, TUTTI_SUM, 0));
    CHECK(one == 2);
    part(g, 2);
    end(&m, g);
}

static void wrong_calls_change_nothing(void **state)
{
    (void)state;
    party(2, wrong_calls, NULL);
}

/* ---- after the loss of all members ---- */

static void first_cohort(struct guest *g)
{
    struct model m;

    view_of(g, 2);
    begin(&m, g, FEW, 3);
    m.state.revision = 17;
    MUST(tutti_run_sync(g->run, &m.state, 0));
    part(g, 2);
    end(&m, g);
}

static void other_cohort(struct guest *g)
{
    struct model m;

    view_of(g, 2);
    begin(&m, g, FEW, 4);
    CHECK(tutti_run_sync(g->run, &m.state, 0) == TUTTI_ERR_UNSUPPORTED);
    fill(&m, g->index ? 3 : 4);
    m.state.revision = g->index ? 17 : 0; /* one member has a checkpoint */
    MUST(tutti_run_sync(g->run, &m.state, 0));
    CHECK(m.state.revision == 17 && m.state.received == (g->index == 0) && is(&m, 3));
    MUST(tutti_run_sync(g->run, &m.state, 0));
    CHECK(m.state.revision == 18);
    fill(&m, 5);
    m.state.revision = 2; /* back to an older checkpoint */
    m.state.instead = 1;
    MUST(tutti_run_sync(g->run, &m.state, 0));
    CHECK(m.state.revision == 3 && is(&m, 5));
    part(g, 2);
    end(&m, g);
}

static void new_cohort_continues_or_replaces(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, SYNC_LEASE_MS, PARTY_GRACE_MS, NULL);
    party_run(&p, 2, first_cohort, NULL);
    party_run(&p, 2, other_cohort, NULL);
    party_end(&p);
}

/* ---- roles ---- */

/* Two groups of two. Each role has its own state and its own syncs; role 1 syncs more often. */
static void sharded(struct guest *g)
{
    struct model m;

    view_of(g, 4);
    begin(&m, g, FEW + g->index % 2, g->index < 2 ? 6 : 7);
    m.state.scope = TUTTI_SYNC_ROLE;
    for (uint32_t i = 0; i <= g->index % 2; i++) {
        fill(&m, g->index % 2 * 10 + (g->index < 2));
        m.state.strategy = g->index < 2 ? TUTTI_SYNC_SEND : TUTTI_SYNC_RECEIVE;
        MUST(tutti_run_sync(g->run, &m.state, 0));
        CHECK(m.state.revision == i && m.state.received == (g->index >= 2) &&
              is(&m, g->index % 2 * 10 + 1));
    }
    part(g, 4);
    end(&m, g);
}

static void roles_sync_apart(void **state)
{
    struct party p;

    (void)state;
    party_begin(&p, SYNC_LEASE_MS, PARTY_GRACE_MS, NULL);
    p.nroles = 2;
    party_run(&p, 4, sharded, NULL);
    party_end(&p);
}

/* ---- arrays outside host memory ---- */

/* Emulated device memory: only its functions can access it, at another address. */
struct far {
    uint8_t *mem, *inside;              /* the same pages; mem is inaccessible */
    size_t bytes;
    atomic_uint reads, writes, hashes;
    atomic_int reads_fail, writes_fail, hashes_fail;
    tutti_array_memory memory;
};

static uint8_t *inside_of(const struct far *f, const void *at, size_t bytes)
{
    const size_t from = (size_t)((const uint8_t *)at - f->mem);

    CHECK(from <= f->bytes && bytes <= f->bytes - from);
    return f->inside + from;
}

static int far_to_host(void *context, void *host, const void *at, size_t bytes)
{
    struct far *f = context;

    f->reads++;
    memcpy(host, inside_of(f, at, bytes), bytes);
    return f->reads_fail;
}

static int far_from_host(void *context, void *at, const void *host, size_t bytes)
{
    struct far *f = context;

    f->writes++;
    if (!f->writes_fail)
        memcpy(inside_of(f, at, bytes), host, bytes);
    return f->writes_fail;
}

static int far_hash(void *context, const void *at, size_t bytes, uint32_t value[4])
{
    struct far *f = context;
    const struct tt_hash h = tt_hash_of(inside_of(f, at, bytes), bytes);

    f->hashes++;
    memcpy(value, h.word, sizeof h.word);
    return f->hashes_fail;
}

static void far_init(struct far *f, size_t bytes, bool hashes)
{
    const int fd = memfd_create("far", MFD_CLOEXEC);

    *f = (struct far){ .bytes = bytes };
    CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    f->mem = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
    f->inside = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(f->mem != MAP_FAILED && f->inside != MAP_FAILED);
    close(fd);
    f->memory = (tutti_array_memory){ .size = sizeof f->memory,
                                      .to_host = far_to_host,
                                      .from_host = far_from_host,
                                      .hash = hashes ? far_hash : NULL,
                                      .context = f };
}

static void far_fini(struct far *f)
{
    munmap(f->mem, f->bytes);
    munmap(f->inside, f->bytes);
}

/* Weights in device memory, at an address that is not a multiple of 4, and a step in host
 * memory. */
#define FAR_SHIFT 3
#define FAR_COUNT 400001u               /* four pieces; the last is not a multiple of a block */

struct far_model {
    struct far far;
    struct model m;                     /* m.weights: the expected values, in host memory */
};

static void far_begin(struct far_model *f, const struct guest *g, bool hashes)
{
    begin(&f->m, g, FAR_COUNT, 0);
    far_init(&f->far, FAR_SHIFT + FAR_COUNT * sizeof(float), hashes);
    f->m.arrays[0].data = f->far.mem + FAR_SHIFT;
    f->m.arrays[0].memory = &f->far.memory;
}

static void far_fill(struct far_model *f, int64_t content)
{
    fill(&f->m, content);
    memcpy(f->far.inside + FAR_SHIFT, f->m.weights, FAR_COUNT * sizeof(float));
}

static bool far_is(struct far_model *f, int64_t content)
{
    memcpy(f->m.weights, f->far.inside + FAR_SHIFT, FAR_COUNT * sizeof(float));
    return is(&f->m, content);
}

static void far_end(struct far_model *f, const struct guest *g)
{
    far_fini(&f->far);
    end(&f->m, g);
}

/* Members 0 and 1 have their weights in device memory, 0 with its own hash function. Members 2 and
 * 3 have them in host memory. */
static void here_and_there(struct guest *g)
{
    const bool is_far = g->index < 2;
    struct far_model f;

    view_of(g, 4);
    far_begin(&f, g, g->index == 0);
    if (!is_far) {
        f.m.arrays[0].data = f.m.weights;
        f.m.arrays[0].memory = NULL;
    }
    far_fill(&f, 7);
    MUST(tutti_run_sync(g->run, &f.m.state, 0));    /* hashes are equal, whether computed in device
                                                       or in host memory */
    CHECK(f.m.state.revision == 0 && !f.m.state.received);
    CHECK(f.far.hashes == (g->index == 0) && (f.far.reads > 1) == (g->index == 1) &&
          f.far.writes == 0);

    far_fill(&f, is_far ? 8 : 9);
    f.m.state.strategy = is_far ? TUTTI_SYNC_SEND : TUTTI_SYNC_RECEIVE;
    MUST(tutti_run_sync(g->run, &f.m.state, 0));
    CHECK(f.m.state.received == !is_far && (is_far ? far_is(&f, 8) : is(&f.m, 8)));

    far_fill(&f, is_far ? 9 : 10);
    f.m.state.strategy = is_far ? TUTTI_SYNC_RECEIVE : TUTTI_SYNC_SEND;
    MUST(tutti_run_sync(g->run, &f.m.state, 0));
    CHECK(f.m.state.received == is_far && (is_far ? far_is(&f, 10) : is(&f.m, 10)));
    CHECK(f.far.writes == is_far);
    part(g, 4);
    far_end(&f, g);
}

static void device_memory_uses_given_functions_only(void **state)
{
    (void)state;
    party(4, here_and_there, NULL);
    party(4, here_and_there, TOKEN);
}

/* Device memory of member 0 cannot be read when others request data, and that of 3 cannot be
 * written at the end. Both are excluded, and the others get the state of 1. */
static void memory_fails(struct guest *g)
{
    static const char *const why[] = {
        "\"weights\" cannot be read for other members: its memory callbacks returned 5", NULL, NULL,
        "\"weights\" cannot be written: its memory callbacks returned 6"
    };
    struct far_model f;

    view_of(g, 4);
    far_begin(&f, g, true);
    far_fill(&f, g->index < 2 ? 1 : 2);
    f.m.state.strategy = g->index < 2 ? TUTTI_SYNC_SEND : TUTTI_SYNC_RECEIVE;
    if (g->index == 2) {                /* fails before the sync begins, without effect on it */
        f.far.hashes_fail = 4;
        CHECK(tutti_run_sync(g->run, &f.m.state, 0) == TUTTI_ERR_SYSTEM);
        CHECK(strstr(tutti_last_error(),
                     "\"weights\" cannot be hashed: its memory callbacks returned 4") != NULL);
        f.far.hashes_fail = 0;
    }
    f.far.reads_fail = g->index == 0 ? 5 : 0;
    f.far.writes_fail = g->index == 3 ? 6 : 0;
    if (why[g->index]) {
        CHECK(tutti_run_sync(g->run, &f.m.state, 0) == TUTTI_ERR_ABORTED);
        CHECK(strstr(tutti_last_error(), why[g->index]) != NULL);
        CHECK(tutti_run_sync(g->run, &f.m.state, 0) == TUTTI_ERR_ABORTED);
    } else {
        MUST(tutti_run_sync(g->run, &f.m.state, 0));
        CHECK(far_is(&f, 1));
        part(g, 2);
    }
    far_end(&f, g);
}

static void member_with_failing_memory_is_excluded(void **state)
{
    (void)state;
    tt_log_set(TT_LOG_NONE);
    party(4, memory_fails, NULL);
    tt_log_set(TT_LOG_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(most_common_current_content_wins),
        cmocka_unit_test(any_number_of_newcomers_receives),
        cmocka_unit_test(all_types_arrive_at_any_address),
        cmocka_unit_test(incompatible_member_is_excluded_with_reason),
        cmocka_unit_test(leaving_holder_is_replaced),
        cmocka_unit_test(without_holders_nothing_has_changed),
        cmocka_unit_test(lost_data_is_sent_again),
        cmocka_unit_test(sync_against_call_is_a_mismatch),
        cmocka_unit_test(written_overlapping_arrays_are_refused),
        cmocka_unit_test(wrong_calls_change_nothing),
        cmocka_unit_test(new_cohort_continues_or_replaces),
        cmocka_unit_test(roles_sync_apart),
        cmocka_unit_test(device_memory_uses_given_functions_only),
        cmocka_unit_test(member_with_failing_memory_is_excluded),
    };

    return cmocka_run_group_tests_name("sync", tests, NULL, NULL);
}
