/* The start-up tree in a simulated world. Every message has a latency, and each process handles one
 * message at a time. Listeners have a backlog of 128. Connections break, processes die, come late,
 * or have a wrong token or a rank that another process has. A failure prints its seed;
 * TUTTI_TEST_SEED replays it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/rank_names.h"
#include "boot/tree.h"
#include "support/unit.h"
#include "support/world.h"

#define SERVICE_NS 20000ull             /* time of a process for one message */
#define BACKLOG 128u
#define DROPPED_NS TT_SECOND            /* a full backlog drops a connection: TCP retransmits */
#define TIMEOUT_NS (20 * TT_SECOND)
#define RESETS_NS (10 * TT_SECOND)      /* the network is reliable afterwards */
#define FOREVER_NS (60 * TT_SECOND)
#define NONE UINT32_MAX
#define CARD_BYTES 32u

enum { START, DELIVER, PROCESS, TICK, KILL, RESET, STRANGER };
enum { PARENT_OPEN, PARENT_FRAME, PARENT_END, CHILD_OPEN, CHILD_FRAME, CHILD_END };

struct conn {
    struct tt_tree_conn machine;        /* first: the pointer of the state machine is also ours */
    uint32_t id, child, parent;         /* child NONE: a process that is no rank */
    bool here, there;                   /* open at the parent, at the child */
    uint64_t arrives_ns[2];             /* no overtaking on a stream */
};

/* What a rank reports of its place in its host. */
struct place {
    uint8_t bytes, data[TT_TREE_PLACE_MAX];
};

struct message {
    int what;
    struct conn *conn;
    uint8_t *data;
    size_t bytes;
    struct message *next;
};

struct process {
    struct tt_tree tree;
    struct sim *sim;
    uint32_t index;
    bool started, dead;
    struct conn *up;
    uint32_t nopening;
    uint64_t start_ns, busy_ns, tick_ns, ended_ns;
    uint64_t received, sent, nconns;
    struct message *first, **last;      /* received, to be handled */
};

struct sim {
    struct world w;
    uint32_t nranks, nprocesses, root;  /* the ranks, then the root, then extra processes */
    struct process *processes;
    struct conn **conns;
    uint32_t nconns, conns_cap;
    uint32_t *leader;                   /* [nranks] */
    uint8_t secret[TT_TREE_SECRET_BYTES], constants[600];
    uint64_t latency_ns;                /* maximum */
    uint64_t resets_in;                 /* one in this number of messages breaks its connection */
    uint64_t ndropped, nmessages;
    uint8_t (*cards)[CARD_BYTES];       /* [nranks]: address records, or NULL */
    struct place *places;               /* [nranks], or NULL */
};

/* ---- network ---- */

static void post(struct sim *s, int what, struct conn *c, const void *data, size_t bytes,
                 uint64_t extra_ns)
{
    uint64_t *arrives_ns = &c->arrives_ns[what >= CHILD_OPEN];
    const uint64_t at_ns = s->w.now_ns + 5000 + tt_prng_below(&s->w.prng, s->latency_ns) + extra_ns;

    if (at_ns > *arrives_ns)
        *arrives_ns = at_ns;
    s->nmessages++;
    world_plan(&s->w, *arrives_ns, DELIVER, what, (int)c->id, data, bytes);
}

static struct conn *conn_create(struct sim *s, uint32_t child, uint32_t parent)
{
    struct conn *c = calloc(1, sizeof *c);

    if (s->nconns == s->conns_cap) {
        s->conns_cap = s->conns_cap ? 2 * s->conns_cap : 1024;
        s->conns = realloc(s->conns, s->conns_cap * sizeof *s->conns);
    }
    tt_assert(c && s->conns);
    *c = (struct conn){ .id = s->nconns, .child = child, .parent = parent, .there = true };
    s->conns[s->nconns++] = c;
    s->processes[parent].nconns++;
    post(s, PARENT_OPEN, c, NULL, 0, 0);
    return c;
}

static uint16_t port_of(uint32_t rank)
{
    return (uint16_t)(1 + rank % 65535);
}

static void on_act(void *context, const struct tt_tree_act *act)
{
    struct process *p = context;
    struct sim *s = p->sim;
    struct conn *c = (struct conn *)act->conn;
    uint32_t to = s->root;

    switch ((enum tt_tree_act_kind)act->kind) {
    case TT_TREE_ACT_CONNECT:
        if (act->where == TT_TREE_TO_LEADER)
            to = p->tree.conf.leader;
        else if (act->where == TT_TREE_TO_SERVER) {
            memcpy(&to, act->address->data, sizeof to);
            tt_assert(act->port == port_of(to));
        }
        tt_assert(!p->up && to < s->nprocesses);
        p->up = conn_create(s, p->index, to);
        break;
    case TT_TREE_ACT_SEND:
        tt_assert(c ? c->here : p->up && p->up->there);
        p->sent += act->bytes;
        post(s, c ? CHILD_FRAME : PARENT_FRAME, c ? c : p->up, act->data, act->bytes, 0);
        break;
    case TT_TREE_ACT_CLOSE:
        tt_assert(c || p->up);
        *(c ? &c->here : &p->up->there) = false;
        post(s, c ? CHILD_END : PARENT_END, c ? c : p->up, NULL, 0, 0);
        if (!c)
            p->up = NULL;
        break;
    }
}

/* ---- processes ---- */

static void step(struct process *p, struct tt_tree_event ev)
{
    struct sim *s = p->sim;
    uint64_t wake_ns;

    tt_tree_step(&p->tree, &ev, s->w.now_ns);
    if (p->tree.state != TT_TREE_GATHERING && !p->ended_ns)
        p->ended_ns = s->w.now_ns;
    wake_ns = tt_tree_wake_ns(&p->tree);
    if (wake_ns != TT_NEVER && (p->tick_ns <= s->w.now_ns || wake_ns < p->tick_ns)) {
        p->tick_ns = wake_ns > s->w.now_ns ? wake_ns : s->w.now_ns + 1;
        world_plan(&s->w, p->tick_ns, TICK, (int)p->index, 0, NULL, 0);
    }
}

static void fill_nonce(struct sim *s, struct tt_tree_event *ev)
{
    for (size_t i = 0; i < sizeof ev->nonce; i += 8) {
        const uint64_t v = tt_prng_u64(&s->w.prng);

        memcpy(ev->nonce + i, &v, 8);
    }
}

static bool read_frame(const struct message *m, size_t body_max, struct tt_frame *out)
{
    if (m->bytes < TT_FRAME_HEADER_BYTES)
        return false;
    *out = (struct tt_frame){ .type = m->data[2],
                              .body = m->data + TT_FRAME_HEADER_BYTES,
                              .bytes = m->bytes - TT_FRAME_HEADER_BYTES };
    return out->bytes <= body_max;
}

static void end_at_parent(struct conn *c, struct process *p)
{
    if (!c->here)
        return;
    c->here = false;
    step(p, (struct tt_tree_event){ .kind = TT_TREE_EV_CLOSED, .conn = &c->machine });
}

static void end_at_child(struct conn *c, struct process *p)
{
    if (!c->there)
        return;
    c->there = false;
    p->up = NULL;
    step(p, (struct tt_tree_event){ .kind = TT_TREE_EV_CLOSED });
}

static void break_conn(struct sim *s, struct conn *c)
{
    post(s, PARENT_END, c, NULL, 0, 0);
    post(s, CHILD_END, c, NULL, 0, 0);
}

/* The process handles one message. */
static void handle(struct process *p, const struct message *m)
{
    struct tt_tree_event ev = { .kind = TT_TREE_EV_OPEN };
    struct conn *c = m->conn;

    switch (m->what) {
    case PARENT_OPEN:
        p->nopening--;
        c->here = true;
        fill_nonce(p->sim, &ev);
        ev.conn = &c->machine;
        step(p, ev);
        break;
    case CHILD_OPEN:
        fill_nonce(p->sim, &ev);
        if (c->there)
            step(p, ev);
        break;
    case PARENT_FRAME:
    case CHILD_FRAME:
        p->received += m->bytes;
        ev.kind = TT_TREE_EV_FRAME;
        ev.conn = m->what == PARENT_FRAME ? &c->machine : NULL;
        if (!(ev.conn ? c->here : c->there))
            break;
        if (read_frame(m, ev.conn ? c->machine.body_max : tt_tree_body_max(p->tree.conf.nranks),
                       &ev.frame)) {
            step(p, ev);
        } else {
            tt_assert(ev.conn);     /* no parent sends such a frame */
            end_at_parent(c, p);
            post(p->sim, CHILD_END, c, NULL, 0, 0);
        }
        break;
    case PARENT_END:
        end_at_parent(c, p);
        break;
    case CHILD_END:
        end_at_child(c, p);
        break;
    }
}

/* Handles the first message, and plans the next one. */
static void process_next(struct process *p)
{
    struct message *m = p->first;

    if (!m)
        return;
    p->first = m->next;
    if (!p->first)
        p->last = &p->first;
    p->busy_ns = p->sim->w.now_ns + SERVICE_NS;
    if (!p->dead)
        handle(p, m);
    free(m->data);
    free(m);
    if (p->first)
        world_plan(&p->sim->w, p->busy_ns, PROCESS, (int)p->index, 0, NULL, 0);
}

static void enqueue(struct process *p, int what, struct conn *c, const struct happening *h)
{
    struct message *m = calloc(1, sizeof *m);
    const uint64_t now_ns = p->sim->w.now_ns;
    const bool idle = !p->first;

    tt_assert(m);
    *m = (struct message){ .what = what, .conn = c, .bytes = h->bytes };
    m->data = malloc(h->bytes ? h->bytes : 1);
    tt_assert(m->data);
    if (h->bytes)
        memcpy(m->data, h->data, h->bytes);
    *p->last = m;
    p->last = &m->next;
    if (idle && now_ns >= p->busy_ns)
        process_next(p);
    else if (idle)
        world_plan(&p->sim->w, p->busy_ns, PROCESS, (int)p->index, 0, NULL, 0);
}

/* A connection attempt reaches the parent's listener. */
static void arrive(struct sim *s, struct conn *c, const struct happening *h)
{
    struct process *p = &s->processes[c->parent];

    if (!p->started || p->dead || tt_tree_is_over(&p->tree)) {
        post(s, CHILD_END, c, NULL, 0, 0);
        return;
    }
    if (p->nopening >= BACKLOG) {
        s->ndropped++;
        post(s, CHILD_END, c, NULL, 0, DROPPED_NS);
        return;
    }
    p->nopening++;
    post(s, CHILD_OPEN, c, NULL, 0, 0);
    enqueue(p, PARENT_OPEN, c, h);
}

static void deliver(struct sim *s, const struct happening *h)
{
    struct conn *c = s->conns[h->b];
    const bool to_parent = h->a < CHILD_OPEN;
    const uint32_t to = to_parent ? c->parent : c->child;

    if (to == NONE)
        return;
    if (h->a == PARENT_OPEN) {
        arrive(s, c, h);
        return;
    }
    if (s->resets_in && s->w.now_ns < RESETS_NS && (h->a == PARENT_FRAME || h->a == CHILD_FRAME) &&
        tt_prng_below(&s->w.prng, s->resets_in) == 0) {
        break_conn(s, c);
        return;
    }
    if (!s->processes[to].dead)
        enqueue(&s->processes[to], h->a, c, h);
}

static void process_kill(struct sim *s, uint32_t index)
{
    struct process *p = &s->processes[index];

    p->dead = true;
    for (uint32_t i = 0; i < s->nconns; i++) {
        struct conn *c = s->conns[i];

        if (c->child == index && c->there)
            post(s, PARENT_END, c, NULL, 0, 0);
        if (c->parent == index && (c->here || !c->machine.opened_ns))
            post(s, CHILD_END, c, NULL, 0, 0);
    }
}

/* A process without the token connects, and sends anything or nothing. */
static void unauthenticated_peer(struct sim *s, uint32_t parent)
{
    struct conn *c = conn_create(s, NONE, parent);
    uint8_t junk[900];
    const size_t bytes = tt_prng_below(&s->w.prng, sizeof junk);

    for (size_t i = 0; i < bytes; i++)
        junk[i] = (uint8_t)tt_prng_u64(&s->w.prng);
    if (bytes > 2 && tt_prng_below(&s->w.prng, 2))
        junk[2] = 33;           /* JOIN */
    post(s, PARENT_FRAME, c, junk, bytes, 0);
    if (tt_prng_below(&s->w.prng, 2))
        post(s, PARENT_END, c, NULL, 0, tt_prng_below(&s->w.prng, TT_SECOND));
}

static void happen(struct sim *s, const struct happening *h)
{
    struct process *p = &s->processes[h->a];

    switch (h->kind) {
    case START:
        if (s->w.now_ns < p->start_ns)      /* a test has postponed it */
            break;
        p->started = true;
        if (!p->dead)
            step(p, (struct tt_tree_event){ .kind = TT_TREE_EV_TICK });
        break;
    case DELIVER:
        deliver(s, h);
        break;
    case PROCESS:
        process_next(p);
        break;
    case TICK:
        if (!p->dead && p->tick_ns == s->w.now_ns)
            step(p, (struct tt_tree_event){ .kind = TT_TREE_EV_TICK });
        break;
    case KILL:
        process_kill(s, (uint32_t)h->a);
        break;
    case RESET:
        if (s->nconns > 0)
            break_conn(s, s->conns[tt_prng_below(&s->w.prng, s->nconns)]);
        break;
    case STRANGER:
        unauthenticated_peer(s, (uint32_t)h->a);
        break;
    }
}

static void run(struct sim *s)
{
    struct happening h;

    while (world_next(&s->w, &h) && h.at_ns < FOREVER_NS)
        happen(s, &h);
}

/* ---- worlds ---- */

enum places {
    PLACES_NONE,
    PLACES_ALIKE,               /* equal on ranks at the same position of all hosts */
    PLACES_IN_RACKS,            /* likewise, of the hosts of one rack */
    PLACES_ANY                  /* those of most ranks differ, and some have none */
};
#define RACK_HOSTS 4u

struct plan {
    uint32_t nranks, nextra, per_host, children_max;
    uint32_t leader;            /* position of the leader among the ranks of its host */
    bool cards;                 /* ranks have address records */
    enum places places;
    bool hinted;                /* the launcher provides the number of ranks per host */
    bool cyclic;                /* rank r is on host r mod nhosts; else consecutive ranks */
    uint64_t latency_ns, start_ns;
};

static uint16_t card_bytes(uint32_t rank)
{
    return (uint16_t)(rank % (CARD_BYTES + 1));
}

static struct tt_tree_conf conf_of(const struct sim *s, const struct plan *plan, uint32_t rank)
{
    struct tt_tree_conf conf = { .token = "token",
                                 .rank = rank,
                                 .nranks = s->nranks,
                                 .leader = s->leader[rank],
                                 .nlocal = plan->hinted ? plan->per_host : 0,
                                 .process = 1000 + rank,
                                 .address = { .bytes = 23 },
                                 .settings = "equal on all",
                                 .children_max = plan->children_max,
                                 .serve_port = port_of(rank),
                                 .began_ns = s->w.now_ns,
                                 .deadline_ns = s->w.now_ns + TIMEOUT_NS };

    memcpy(conf.address.data, &rank, sizeof rank);
    if (s->cards) {
        conf.card = s->cards[rank];
        conf.card_bytes = card_bytes(rank);
    }
    if (s->places) {
        conf.place = s->places[rank].data;
        conf.place_bytes = s->places[rank].bytes;
    }
    if (rank == 0) {
        conf.constants = s->constants;
        conf.constants_bytes = sizeof s->constants;
    }
    return conf;
}

/* Returns the first rank of a host to start: not its lowest, if the host has another one at the
 * plan's position. */
static uint32_t leader_of(const struct plan *plan, uint32_t nhosts, uint32_t rank)
{
    const uint32_t lowest = plan->cyclic ? rank % nhosts : rank - rank % plan->per_host;
    const uint32_t other = lowest + plan->leader * (plan->cyclic ? nhosts : 1);

    return plan->leader < plan->per_host && other < plan->nranks ? other : lowest;
}

static void make_place(const struct plan *plan, uint32_t nhosts, uint32_t rank, struct place *out)
{
    const uint32_t host = plan->cyclic ? rank % nhosts : rank / plan->per_host,
                   position = plan->cyclic ? rank / nhosts : rank % plan->per_host;
    const uint64_t rack = tt_mix64(host / RACK_HOSTS), any = tt_mix64(rank + 1000);

    *out = (struct place){ .bytes = 60 };
    memset(out->data, 7, 20);
    out->data[20] = (uint8_t)(position / 4);
    out->data[30] = (uint8_t)(1 << position % 8);
    if (plan->places != PLACES_ALIKE)
        memcpy(out->data + 40, &rack, sizeof rack);
    if (plan->places != PLACES_ANY)
        return;
    memcpy(out->data, &any, sizeof any);
    out->bytes = any % 3 ? (uint8_t)(any / 3 % (TT_TREE_PLACE_MAX + 1)) : 0;
}

static void process_init(struct sim *s, uint32_t index, const struct tt_tree_conf *conf,
                         uint64_t start_ns)
{
    struct process *p = &s->processes[index];

    *p = (struct process){ .sim = s, .index = index, .start_ns = s->w.now_ns + start_ns };
    p->last = &p->first;
    tt_tree_init(&p->tree, conf, tt_prng_u64(&s->w.prng));
    p->tree.emit = on_act;
    p->tree.context = p;
    world_plan(&s->w, p->start_ns, START, (int)index, 0, NULL, 0);
}

static struct sim *sim_create(uint64_t seed, const struct plan *plan)
{
    const uint32_t nhosts = (plan->nranks + plan->per_host - 1) / plan->per_host;
    struct sim *s = calloc(1, sizeof *s);
    struct tt_tree_conf root = { .token = "token", .root = true, .deadline_ns = TT_NEVER };

    tt_assert(s);
    world_init(&s->w, seed);
    s->nranks = s->root = plan->nranks;
    s->nprocesses = plan->nranks + 1 + plan->nextra;
    s->latency_ns = plan->latency_ns;
    s->processes = calloc(s->nprocesses, sizeof *s->processes);
    s->leader = calloc(s->nranks, sizeof *s->leader);
    tt_assert(s->processes && s->leader);
    for (size_t i = 0; i < sizeof s->secret; i++)
        s->secret[i] = (uint8_t)tt_prng_u64(&s->w.prng);
    for (size_t i = 0; i < sizeof s->constants; i++)
        s->constants[i] = (uint8_t)tt_prng_u64(&s->w.prng);
    if (plan->cards) {
        s->cards = calloc(s->nranks, sizeof *s->cards);
        tt_assert(s->cards);
        for (uint32_t r = 0; r < s->nranks; r++)
            memset(s->cards[r], (int)(r + 1), CARD_BYTES);
    }
    if (plan->places) {
        s->places = calloc(s->nranks, sizeof *s->places);
        tt_assert(s->places);
        for (uint32_t r = 0; r < s->nranks; r++)
            make_place(plan, nhosts, r, &s->places[r]);
    }
    memcpy(root.secret, s->secret, sizeof root.secret);
    root.children_max = plan->children_max;
    process_init(s, s->root, &root, 0);
    for (uint32_t r = 0; r < s->nranks; r++) {
        struct tt_tree_conf conf;

        s->leader[r] = leader_of(plan, nhosts, r);
        conf = conf_of(s, plan, r);
        process_init(s, r, &conf, tt_prng_below(&s->w.prng, plan->start_ns));
    }
    return s;
}

static void sim_destroy(struct sim *s)
{
    for (uint32_t i = 0; i < s->nprocesses; i++) {
        struct process *p = &s->processes[i];

        while (p->first) {
            struct message *m = p->first;

            p->first = m->next;
            free(m->data);
            free(m);
        }
        if (p->sim)
            tt_tree_fini(&p->tree);
    }
    for (uint32_t i = 0; i < s->nconns; i++)
        free(s->conns[i]);
    free(s->conns);
    free(s->processes);
    free(s->leader);
    free(s->cards);
    free(s->places);
    world_fini(&s->w);
    free(s);
}

/* ---- checks ---- */

/* Decodes the layout, and compares it with the hosts, numbered by their first ranks, and with the
 * places. */
static void check_layout(const struct sim *s, const struct tt_tree_place *place)
{
    uint32_t *index = calloc(s->nranks, sizeof *index), nhosts = 0;
    struct tt_tree_walk w;

    tt_assert(index);
    assert_true(tt_tree_layout_is_valid(place->layout, place->layout_bytes, s->nranks));
    assert_int_equal(tt_tree_walk_init(&w, place->layout, place->layout_bytes), TUTTI_OK);
    for (uint32_t rank = 0; rank < s->nranks; rank++) {
        const uint8_t *found;
        uint8_t bytes;
        const uint32_t host = tt_tree_walk_next(&w, &found, &bytes);

        if (!index[s->leader[rank]])
            index[s->leader[rank]] = ++nhosts;
        assert_int_equal(index[s->leader[rank]] - 1, host);
        assert_int_equal(bytes, s->places ? s->places[rank].bytes : 0);
        if (bytes)
            assert_memory_equal(found, s->places[rank].data, bytes);
    }
    tt_tree_walk_fini(&w);
    free(index);
}

static uint32_t rank_at(const struct tt_tree_address *a)
{
    uint32_t rank;

    assert_int_equal(a->bytes, 23);
    memcpy(&rank, a->data, sizeof rank);
    return rank;
}

static void check_place(const struct sim *s, uint32_t rank)
{
    const struct process *p = &s->processes[rank];
    const struct tt_tree_place *place = &p->tree.place;

    if (p->tree.state == TT_TREE_FAILED)
        print_message("rank %u: %s\n", rank, p->tree.sentence);
    assert_int_equal(p->tree.state, TT_TREE_PLACED);
    assert_memory_equal(place->secret, s->secret, sizeof s->secret);
    assert_int_equal(place->constants_bytes, sizeof s->constants);
    assert_memory_equal(place->constants, s->constants, sizeof s->constants);
    assert_int_equal(rank_at(&place->before), (rank + s->nranks - 1) % s->nranks);
    assert_int_equal(rank_at(&place->after), (rank + 1) % s->nranks);
}

/* The table has the first rank of the host, and the record, of each rank. */
static void check_table(const struct sim *s, const struct tt_tree_place *place)
{
    struct tt_record_stream records = { .n = 0 };
    struct tt_reader r;

    tt_reader_init(&r, place->table, place->table_bytes);
    for (uint32_t rank = 0; s->cards && rank < s->nranks; rank++) {
        tt_record_read(&records, &r);
        assert_int_equal(records.entry.holder, s->leader[rank]);
        assert_int_equal(records.entry.bytes, card_bytes(rank));
        assert_memory_equal(records.entry.record, s->cards[rank], records.entry.bytes);
    }
    assert_true(!r.bad && r.at == r.end);
}

static void check_all_placed(const struct sim *s)
{
    const struct tt_tree_place *first = &s->processes[0].tree.place;

    for (uint32_t r = 0; r < s->nranks; r++) {
        const struct tt_tree_place *place = &s->processes[r].tree.place;

        check_place(s, r);
        if (r == 0)
            check_layout(s, place);
        check_table(s, place);
        assert_int_equal(place->layout_bytes, first->layout_bytes);
        assert_memory_equal(place->layout, first->layout, first->layout_bytes);
    }
}

static struct plan draw_plan(uint64_t seed)
{
    struct tt_prng prng;
    struct plan plan;

    tt_prng_init(&prng, ~seed);
    plan = (struct plan){ .nranks = 64 + (uint32_t)tt_prng_below(&prng, seed % 10 ? 64 : 961),
                          .per_host = 1 + (uint32_t)tt_prng_below(&prng, 16),
                          .children_max = 1 + (uint32_t)tt_prng_below(&prng, 12),
                          .cyclic = tt_prng_below(&prng, 2),
                          .hinted = tt_prng_below(&prng, 2),
                          .cards = seed % 2,
                          .leader = (uint32_t)(seed / 2 % 4),
                          .places = (enum places)(seed / 8 % 4),
                          .latency_ns = 1000 + tt_prng_below(&prng, 2) * 20 * TT_MS,
                          .start_ns = 1 + tt_prng_below(&prng, 2 * TT_SECOND) };
    return plan;
}

static void add_strangers(struct sim *s)
{
    for (uint64_t i = tt_prng_below(&s->w.prng, 40); i > 0; i--)
        world_plan(&s->w, tt_prng_below(&s->w.prng, 3 * TT_SECOND), STRANGER,
                   (int)tt_prng_below(&s->w.prng, s->nranks + 1), 0, NULL, 0);
}

static void add_resets(struct sim *s)
{
    s->resets_in = tt_prng_below(&s->w.prng, 2) * (20 + tt_prng_below(&s->w.prng, 200));
    for (uint64_t i = tt_prng_below(&s->w.prng, 20); i > 0; i--)
        world_plan(&s->w, tt_prng_below(&s->w.prng, 3 * TT_SECOND), RESET, 0, 0, NULL, 0);
}

/* ---- tests ---- */

static void print_case(uint64_t seed, const struct plan *plan)
{
    print_message("seed %llu, %u ranks, %u per host%s, %u children, places %d\n",
                  (unsigned long long)seed, plan->nranks, plan->per_host,
                  plan->cyclic ? " in turn" : "", plan->children_max, plan->places);
}

static uint64_t ncases(uint64_t n)
{
    return n / unit_share() > 0 ? n / unit_share() : 1;
}

static void all_get_one_place_despite_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, ncases(1000)));) {
        const struct plan plan = draw_plan(seed);
        struct sim *s = sim_create(seed, &plan);

        print_case(seed, &plan);
        add_strangers(s);
        add_resets(s);
        run(s);
        check_all_placed(s);
        assert_true(tt_tree_is_over(&s->processes[s->root].tree));
        sim_destroy(s);
    }
}

/* A process with a wrong token, and one with the rank of another process, on its host or on one of
 * its own. Only these are refused. */
static void offenders_alone_are_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, ncases(200)));) {
        struct plan plan = draw_plan(seed);
        const uint32_t last = plan.nranks - 1;
        const struct process *token, *twice;
        struct tt_tree_conf conf;
        struct sim *s;

        plan.nextra = 2;
        print_case(seed, &plan);
        s = sim_create(seed, &plan);
        token = &s->processes[s->root + 1];
        twice = &s->processes[s->root + 2];
        conf = conf_of(s, &plan, 1);
        conf.token = "tokem";
        conf.process = 1;
        process_init(s, s->root + 1, &conf, tt_prng_below(&s->w.prng, plan.start_ns));
        conf = conf_of(s, &plan, last / 2);
        conf.process = 2;
        conf.serve_port = 0;
        if (tt_prng_below(&s->w.prng, 2))
            conf.leader = conf.rank;
        process_init(s, s->root + 2, &conf, 5 * TT_SECOND);     /* its rank has joined */
        tt_tree_fini(&s->processes[last].tree);
        conf = conf_of(s, &plan, last);
        process_init(s, last, &conf, 7 * TT_SECOND);            /* and all wait for the last */
        run(s);
        check_all_placed(s);
        assert_int_equal(token->tree.state, TT_TREE_FAILED);
        assert_int_equal(twice->tree.state, TT_TREE_FAILED);
        assert_non_null(strstr(token->tree.sentence, "token"));
        assert_non_null(strstr(twice->tree.sentence, "joined twice"));
        sim_destroy(s);
    }
}

struct missing {
    const struct sim *s;
};

static bool rank_is_dead(const void *context, uint32_t rank)
{
    const struct missing *m = context;

    return m->s->processes[rank].dead;
}

/* Ranks that never come, or die at any time. All others end within two seconds of the deadline, and
 * the error of the root has exactly the missing ranks. If all had joined before, they end earlier,
 * with their places. */
static void deadline_reports_all_missing_ranks(void **state)
{
    uint64_t nnamed = 0, nlocal = 0;

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, ncases(1000)));) {
        const struct plan plan = draw_plan(seed);
        struct sim *s = sim_create(seed, &plan);
        char list[160], expected[200];

        print_case(seed, &plan);
        add_strangers(s);
        add_resets(s);
        for (uint64_t n = 1 + tt_prng_below(&s->w.prng, 6); n > 0; n--)
            world_plan(&s->w,
                       tt_prng_below(&s->w.prng, 2) ? 0 : tt_prng_below(&s->w.prng, 3 * TT_SECOND),
                       KILL, (int)tt_prng_below(&s->w.prng, s->nranks), 0, NULL, 0);
        run(s);
        tt_ranks_name(list, sizeof list, s->nranks, rank_is_dead, &(struct missing){ s });
        snprintf(expected, sizeof expected, "missing: %s", list);
        for (uint32_t r = 0; r < s->nranks; r++) {
            const struct process *p = &s->processes[r];

            if (p->dead || s->processes[s->root].tree.state == TT_TREE_PLACED)
                continue;
            assert_int_equal(p->tree.state, TT_TREE_FAILED);
            assert_int_equal(p->tree.status, TUTTI_ERR_TIMEOUT);
            assert_true(p->ended_ns <= TIMEOUT_NS + plan.start_ns + 2 * TT_SECOND);
            if (strstr(p->tree.sentence, expected))
                nnamed++;
            else
                nlocal++;
        }
        sim_destroy(s);
    }
    print_message("%llu ranks have the list, %llu were not connected at the deadline\n",
                  (unsigned long long)nnamed, (unsigned long long)nlocal);
    assert_true(nnamed > 20 * nlocal);
}

/* A server dies after the result, and before it has passed it on: its children get it from the
 * root, or fail with the cause. */
static void nobody_hangs_if_a_rank_dies_at_the_end(void **state)
{
    uint64_t nplaced = 0, nfailed = 0;

    (void)state;
    for (uint64_t seed = 0; (seed = next_seed(seed, ncases(300)));) {
        const struct plan plan = draw_plan(seed);
        struct sim *s = sim_create(seed, &plan);
        struct happening h;
        bool killed = false;

        print_case(seed, &plan);
        while (world_next(&s->w, &h) && h.at_ns < FOREVER_NS) {
            happen(s, &h);
            if (!killed && s->processes[s->root].tree.state == TT_TREE_PLACED) {
                killed = true;
                world_plan(&s->w, s->w.now_ns + tt_prng_below(&s->w.prng, TT_MS), KILL,
                           (int)tt_prng_below(&s->w.prng, s->nranks), 0, NULL, 0);
            }
        }
        for (uint32_t r = 0; r < s->nranks; r++) {
            const struct process *p = &s->processes[r];

            if (p->dead)
                continue;
            assert_int_not_equal(p->tree.state, TT_TREE_GATHERING);
            if (p->tree.state == TT_TREE_PLACED)
                check_place(s, r);
            nplaced += p->tree.state == TT_TREE_PLACED;
            nfailed += p->tree.state == TT_TREE_FAILED;
        }
        sim_destroy(s);
    }
    assert_true(nplaced > 20 * nfailed);
}

static void different_settings_fail_everywhere(void **state)
{
    const struct plan plan = {
        .nranks = 60, .per_host = 4, .children_max = 3, .latency_ns = TT_MS, .start_ns = TT_SECOND
    };
    struct sim *s = sim_create(1, &plan);

    (void)state;
    s->processes[17].tree.conf.settings = "TUTTI_SECURITY=secret";
    s->processes[40].tree.conf.settings = NULL;
    run(s);
    for (uint32_t r = 0; r < s->nranks; r++) {
        assert_int_equal(s->processes[r].tree.state, TT_TREE_FAILED);
        assert_int_equal(s->processes[r].tree.status, TUTTI_ERR_MISMATCH);
        assert_non_null(strstr(s->processes[r].tree.sentence,
                               "rank 17 differ from those of rank 0 (2 of 60 ranks differ): "
                               "rank 0 has equal on all; rank 17 has TUTTI_SECURITY=secret"));
    }
    sim_destroy(s);
}

/* Of the ranks that cannot start, which are first ranks of their hosts and others, the lowest is
 * reported, when all have joined. */
static void rank_that_cannot_start_is_reported_to_all(void **state)
{
    (void)state;
    for (uint32_t lowest = 0; lowest < 20; lowest++) {
        const struct plan plan = { .nranks = 60,
                                   .per_host = 4,
                                   .children_max = 3,
                                   .cyclic = lowest % 2,
                                   .latency_ns = TT_MS,
                                   .start_ns = TT_SECOND };
        struct sim *s = sim_create(lowest + 1, &plan);
        char expected[80], longest[2 * TT_TREE_CAUSE_MAX];

        memset(longest, 'x', sizeof longest);
        longest[sizeof longest - 1] = 0;
        s->processes[lowest].tree.conf.refuses = TUTTI_ERR_NOMEM;
        s->processes[lowest].tree.conf.cause = lowest % 3 ? "out of memory" : longest;
        s->processes[lowest].tree.conf.settings = NULL;
        s->processes[57].tree.conf.refuses = TUTTI_ERR_INVALID;
        s->processes[57].tree.conf.cause = "something else";
        add_strangers(s);
        run(s);
        snprintf(expected, sizeof expected, "rank %u cannot start: %s", lowest,
                 lowest % 3 ? "out of memory" : "xxxx");
        for (uint32_t r = 0; r < s->nranks; r++) {
            const struct tt_tree *t = &s->processes[r].tree;

            assert_int_equal(t->state, TT_TREE_FAILED);
            assert_int_equal(t->status, TUTTI_ERR_NOMEM);
            assert_memory_equal(t->sentence, expected, strlen(expected));
        }
        sim_destroy(s);
    }
}

/* With a missing rank, the deadline's message has the cause, too. */
static void deadline_reports_a_rank_that_cannot_start(void **state)
{
    const struct plan plan = {
        .nranks = 6, .per_host = 2, .children_max = 3, .latency_ns = TT_MS, .start_ns = TT_SECOND
    };
    struct sim *s = sim_create(1, &plan);

    (void)state;
    s->processes[3].tree.conf.refuses = TUTTI_ERR_INVALID;
    s->processes[3].tree.conf.cause = "no such plan";
    process_kill(s, 5);
    run(s);
    for (uint32_t r = 0; r < 5; r++) {
        assert_int_equal(s->processes[r].tree.state, TT_TREE_FAILED);
        assert_int_equal(s->processes[r].tree.status, TUTTI_ERR_TIMEOUT);
        assert_non_null(
            strstr(s->processes[r].tree.sentence, "missing: 5; rank 3 cannot start: no such plan"));
    }
    sim_destroy(s);
}

static void different_size_is_refused(void **state)
{
    const struct plan plan = { .nranks = 8,
                               .per_host = 2,
                               .children_max = 2,
                               .nextra = 1,
                               .latency_ns = TT_MS,
                               .start_ns = TT_SECOND };
    struct sim *s = sim_create(1, &plan);
    struct tt_tree_conf conf = conf_of(s, &plan, 3);

    (void)state;
    tt_tree_fini(&s->processes[6].tree);
    conf.nranks = 9;
    conf.leader = 3;
    process_init(s, s->root + 1, &conf, 2 * TT_SECOND);
    conf = conf_of(s, &plan, 6);
    process_init(s, 6, &conf, 4 * TT_SECOND);
    run(s);
    check_all_placed(s);
    assert_non_null(strstr(s->processes[s->root + 1].tree.sentence,
                           "rank 3 expects 9 ranks, but the job has 8"));
    sim_destroy(s);
}

static void ignore_act(void *context, const struct tt_tree_act *act)
{
    int *kinds = context;

    *kinds |= 1 << act->kind;
}

static void different_version_is_reported(void **state)
{
    const uint8_t challenge[18] = { TT_TREE_VERSION + 1 };
    const struct tt_tree_conf conf = { .token = "token", .nranks = 2, .deadline_ns = TT_NEVER };
    struct tt_tree_event ev = { .kind = TT_TREE_EV_TICK };
    char versions[80];
    struct tt_tree t;
    int kinds = 0;

    (void)state;
    snprintf(versions, sizeof versions, "the server has version %u, this rank has version %u",
             TT_TREE_VERSION + 1, TT_TREE_VERSION);
    tt_tree_init(&t, &conf, 1);
    t.emit = ignore_act;
    t.context = &kinds;
    tt_tree_step(&t, &ev, 1);
    assert_int_equal(kinds, 1 << TT_TREE_ACT_CONNECT);
    ev.kind = TT_TREE_EV_OPEN;
    tt_tree_step(&t, &ev, 2);
    ev.kind = TT_TREE_EV_FRAME;
    ev.frame = (struct tt_frame){ .type = 1, .body = challenge, .bytes = sizeof challenge };
    tt_tree_step(&t, &ev, 3);
    assert_int_equal(t.state, TT_TREE_FAILED);
    assert_int_equal(t.status, TUTTI_ERR_PROTOCOL);
    assert_non_null(strstr(t.sentence, versions));
    tt_tree_fini(&t);
}

/* Sizes of one fault-free start-up. */
struct sizes {
    double virtual_s;
    uint64_t received_max, busiest, layout_bytes, root_conns, conns_max, ndropped;
};

static struct sizes measure(uint32_t nranks, uint32_t per_host, bool cyclic, enum places places)
{
    const struct plan plan = { .nranks = nranks, .per_host = per_host, .cyclic = cyclic,
                               .hinted = true, .places = places,
                               .latency_ns = 100000,
                               .start_ns = TT_SECOND / 2 };
    struct sim *s = sim_create(7, &plan);
    struct sizes out = { .root_conns = 0 };
    uint64_t end_ns = 0;

    run(s);
    for (uint32_t i = 0; i <= s->nranks; i++) {
        const struct process *p = &s->processes[i];
        const uint64_t bytes = p->received + p->sent;

        end_ns = p->ended_ns > end_ns ? p->ended_ns : end_ns;
        out.busiest = bytes > out.busiest ? bytes : out.busiest;
        if (i == s->root)
            continue;
        out.conns_max = p->nconns > out.conns_max ? p->nconns : out.conns_max;
        out.received_max = p->received > out.received_max ? p->received : out.received_max;
    }
    out.virtual_s = (double)end_ns / 1e9;
    out.root_conns = s->processes[s->root].nconns;
    out.ndropped = s->ndropped;
    out.layout_bytes = s->processes[0].tree.place.layout_bytes;
    print_message("%6u ranks, %2u per host%s: %.3f s, a rank receives %llu B, the layout has %llu "
                  "B, the busiest process moves %llu B, connections: root %llu, server %llu, "
                  "dropped %llu\n",
                  nranks, per_host, cyclic ? " in turn" : "", out.virtual_s,
                  (unsigned long long)out.received_max, (unsigned long long)out.layout_bytes,
                  (unsigned long long)out.busiest, (unsigned long long)out.root_conns,
                  (unsigned long long)out.conns_max, (unsigned long long)out.ndropped);
    check_all_placed(s);
    sim_destroy(s);
    return out;
}

/* docs/start-up.md has these numbers. */
static void cost_is_bounded_at_98304_ranks(void **state)
{
    const uint32_t nranks = UNIT_SHARE > 1 ? 6144 : 98304;
    struct sizes half, whole;

    (void)state;
    half = measure(nranks / 2, 8, false, PLACES_ALIKE);
    whole = measure(nranks, 8, false, PLACES_ALIKE);
    assert_true(whole.virtual_s < 23);
    assert_true(whole.received_max <= 65536);
    assert_true((double)whole.busiest <= 2.1 * (double)half.busiest);
    assert_int_equal(whole.layout_bytes, half.layout_bytes);
    measure(nranks / 4, 8, true, PLACES_ALIKE);
}

/* The layout grows with the racks, not with the hosts or ranks. */
static void places_of_equal_hosts_are_sent_once(void **state)
{
    const uint32_t nracks = 16, per_rack = RACK_HOSTS * 8;
    struct sizes none, alike, racks;

    (void)state;
    none = measure(nracks * per_rack, 8, false, PLACES_NONE);
    alike = measure(nracks * per_rack, 8, false, PLACES_ALIKE);
    racks = measure(nracks * per_rack, 8, false, PLACES_IN_RACKS);
    assert_true(alike.layout_bytes <= none.layout_bytes + 4 + TT_TREE_PLACE_MAX);
    assert_true(racks.layout_bytes <= alike.layout_bytes + (nracks - 1) * 80);
}

static bool is_odd_or_above_20(const void *context, uint32_t rank)
{
    (void)context;
    return rank % 2 == 1 || rank > 20;
}

static void rank_list_has_ranges_and_end(void **state)
{
    char list[160];

    (void)state;
    tt_ranks_name(list, sizeof list, 8, is_odd_or_above_20, NULL);
    assert_string_equal(list, "1, 3, 5, 7");
    tt_ranks_name(list, sizeof list, 100, is_odd_or_above_20, NULL);
    assert_string_equal(list, "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21-99");
    tt_ranks_name(list, 60, 21, is_odd_or_above_20, NULL);
    assert_string_equal(list, "1, 3, 5, 7, 9 and 5 more");
    tt_ranks_name(list, sizeof list, 1, is_odd_or_above_20, NULL);
    assert_string_equal(list, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_one_place_despite_faults),
        cmocka_unit_test(offenders_alone_are_refused),
        cmocka_unit_test(deadline_reports_all_missing_ranks),
        cmocka_unit_test(nobody_hangs_if_a_rank_dies_at_the_end),
        cmocka_unit_test(different_settings_fail_everywhere),
        cmocka_unit_test(rank_that_cannot_start_is_reported_to_all),
        cmocka_unit_test(deadline_reports_a_rank_that_cannot_start),
        cmocka_unit_test(different_size_is_refused),
        cmocka_unit_test(different_version_is_reported),
        cmocka_unit_test(rank_list_has_ranges_and_end),
        cmocka_unit_test(places_of_equal_hosts_are_sent_once),
        cmocka_unit_test(cost_is_bounded_at_98304_ranks),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
