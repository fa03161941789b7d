/* Processes of a simulated start-up, and their configuration. */
#include "sim/start.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "sim/start_state.h"

#define PLACE_BYTES 60u
#define CONSTANTS_BYTES 600u

const char *tt_start_step_name(enum tt_start_step step)
{
    static const char *const names[TT_START_STEPS] = {
        [TT_START_ACCEPT] = "accept",     [TT_START_CONNECT] = "connect",
        [TT_START_CHALLENGE] = "CHALLENGE", [TT_START_JOIN] = "JOIN",
        [TT_START_WELCOME] = "WELCOME",   [TT_START_REDIRECT] = "REDIRECT",
        [TT_START_UP] = "UP",             [TT_START_DOWN] = "DOWN",
        [TT_START_DONE] = "DONE",         [TT_START_REFUSED] = "REFUSED",
        [TT_START_CLOSED] = "close",      [TT_START_TICK] = "timer",
    };

    return (unsigned)step < TT_START_STEPS ? names[step] : "?";
}

uint16_t tt_start_card_bytes(uint32_t rank)
{
    return (uint16_t)(rank % (TT_START_CARD_BYTES + 1));
}

static uint32_t nhosts_of(const struct tt_start_conf *conf)
{
    return (conf->nranks + conf->per_host - 1) / conf->per_host;
}

/* Number of ranks on the rank's host. The last host, or hosts, may have fewer than the others. */
static uint32_t nlocal_of(const struct tt_start *s, uint32_t rank)
{
    const uint32_t nhosts = nhosts_of(&s->conf), first = rank - rank % s->conf.per_host;

    if (s->conf.cyclic)
        return (s->nranks - rank % nhosts + nhosts - 1) / nhosts;
    return s->nranks - first < s->conf.per_host ? s->nranks - first : s->conf.per_host;
}

struct tt_tree_conf tt_start_conf_of(const struct tt_start *s, uint32_t rank)
{
    struct tt_tree_conf conf = { .token = "token",
                                 .rank = rank,
                                 .nranks = s->nranks,
                                 .leader = s->leader[rank],
                                 .nlocal = s->conf.hinted ? nlocal_of(s, rank) : 0,
                                 .process = 1000 + rank,
                                 .address = { .bytes = 23 },
                                 .settings = "equal on all",
                                 .children_max = s->conf.children_max,
                                 .serve_port = (uint16_t)(1 + rank % 65535),
                                 .began_ns = s->now_ns,
                                 .deadline_ns = s->now_ns + s->conf.timeout_ns };

    memcpy(conf.address.data, &rank, sizeof rank);
    if (s->cards) {
        conf.card = s->cards[rank];
        conf.card_bytes = tt_start_card_bytes(rank);
    }
    if (s->places) {
        conf.place = s->places[rank].data;
        conf.place_bytes = s->places[rank].bytes;
    }
    if (rank == 0) {
        conf.constants = s->constants;
        conf.constants_bytes = (uint16_t)s->conf.constants_bytes;
    }
    return conf;
}

/* Returns the first rank of a host to start: not its lowest, if the host has another one at the
 * configured position. */
static uint32_t leader_of(const struct tt_start_conf *conf, uint32_t nhosts, uint32_t rank)
{
    const uint32_t lowest = conf->cyclic ? rank % nhosts : rank - rank % conf->per_host;
    const uint32_t other = lowest + conf->leader * (conf->cyclic ? nhosts : 1);

    return conf->leader < conf->per_host && other < conf->nranks ? other : lowest;
}

static void make_place(const struct tt_start_conf *conf, uint32_t nhosts, uint32_t rank,
                       struct tt_start_place *out)
{
    const uint32_t host = conf->cyclic ? rank % nhosts : rank / conf->per_host,
                   position = conf->cyclic ? rank / nhosts : rank % conf->per_host;
    const uint64_t rack = tt_mix64(host / TT_START_RACK_HOSTS), any = tt_mix64(rank + 1000);

    *out = (struct tt_start_place){ .bytes = (uint8_t)conf->place_bytes };
    memset(out->data, 7, 20);
    out->data[20] = (uint8_t)(position / 4);
    out->data[30] = (uint8_t)(1 << position % 8);
    if (conf->places != TT_START_PLACES_ALIKE)
        memcpy(out->data + 40, &rack, sizeof rack);
    if (conf->places != TT_START_PLACES_ANY)
        return;
    memcpy(out->data, &any, sizeof any);
    out->bytes = any % 3 ? (uint8_t)(any / 3 % (TT_TREE_PLACE_MAX + 1)) : 0;
}

void tt_start_init_process(struct tt_start *s, uint32_t index, const struct tt_tree_conf *conf,
                           uint64_t start_ns)
{
    struct tt_start_process *p = &s->processes[index];
    struct tt_tree_conf shifted = *conf;

    if (conf->deadline_ns != TT_NEVER) {
        shifted.began_ns += start_ns;
        shifted.deadline_ns += start_ns;
    }
    *p = (struct tt_start_process){
        .sim = s, .index = index, .parent = TT_START_NONE, .start_ns = s->now_ns + start_ns
    };
    p->last = &p->first;
    tt_tree_init(&p->tree, &shifted, tt_prng_u64(&s->prng));
    p->tree.emit = tt_start_on_act;
    p->tree.context = p;
    tt_start_schedule(s, p->start_ns, TT_START_EV_START, (int)index, 0, NULL, 0);
}

static void set_defaults(struct tt_start_conf *conf)
{
    conf->place_bytes = conf->place_bytes ? conf->place_bytes : PLACE_BYTES;
    conf->constants_bytes = conf->constants_bytes ? conf->constants_bytes : CONSTANTS_BYTES;
    conf->backlog = conf->backlog ? conf->backlog : TT_START_BACKLOG;
    conf->message_ns = conf->message_ns ? conf->message_ns : TT_START_MESSAGE_NS;
    conf->timeout_ns = conf->timeout_ns ? conf->timeout_ns : 20 * TT_SECOND;
    conf->end_ns = conf->end_ns ? conf->end_ns : 60 * TT_SECOND;
    conf->latency_ns = conf->latency_ns ? conf->latency_ns : 1;
    conf->start_ns = conf->start_ns ? conf->start_ns : 1;
}

static void fill_random(struct tt_start *s, uint8_t *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)tt_prng_u64(&s->prng);
}

static void make_ranks(struct tt_start *s, uint32_t nhosts)
{
    if (s->conf.cards) {
        s->cards = calloc(s->nranks, sizeof *s->cards);
        tt_assert(s->cards);
        for (uint32_t r = 0; r < s->nranks; r++)
            memset(s->cards[r], (int)(r + 1), TT_START_CARD_BYTES);
    }
    if (s->conf.places) {
        s->places = calloc(s->nranks, sizeof *s->places);
        tt_assert(s->places);
        for (uint32_t r = 0; r < s->nranks; r++)
            make_place(&s->conf, nhosts, r, &s->places[r]);
    }
}

struct tt_start *tt_start_create(const struct tt_start_conf *conf)
{
    const uint32_t nhosts = nhosts_of(conf);
    struct tt_start *s = calloc(1, sizeof *s);
    struct tt_tree_conf root = { .token = "token", .root = true, .deadline_ns = TT_NEVER };

    tt_assert(s);
    *s = (struct tt_start){ .conf = *conf,
                            .now_ns = 1,
                            .events_free = TT_START_NONE,
                            .nranks = conf->nranks,
                            .root = conf->nranks,
                            .nprocesses = conf->nranks + 1 + conf->nextra };
    set_defaults(&s->conf);
    tt_prng_init(&s->prng, conf->seed);
    tt_queue_init(&s->queue);
    s->processes = calloc(s->nprocesses, sizeof *s->processes);
    s->leader = calloc(s->nranks, sizeof *s->leader);
    tt_assert(s->processes && s->leader);
    fill_random(s, s->secret, sizeof s->secret);
    fill_random(s, s->constants, s->conf.constants_bytes);
    make_ranks(s, nhosts);
    memcpy(root.secret, s->secret, sizeof root.secret);
    root.children_max = conf->children_max;
    tt_start_init_process(s, s->root, &root, 0);
    for (uint32_t r = 0; r < s->nranks; r++) {
        struct tt_tree_conf rank;

        s->leader[r] = leader_of(&s->conf, nhosts, r);
        rank = tt_start_conf_of(s, r);
        tt_start_init_process(s, r, &rank, tt_prng_below(&s->prng, s->conf.start_ns));
    }
    return s;
}

static void process_fini(struct tt_start_process *p)
{
    while (p->first) {
        struct tt_start_message *m = p->first;

        p->first = m->next;
        free(m->data);
        free(m);
    }
    if (p->sim)
        tt_tree_fini(&p->tree);
}

void tt_start_destroy(struct tt_start *s)
{
    struct tt_queue_item item;

    for (uint32_t i = 0; i < s->nprocesses; i++)
        process_fini(&s->processes[i]);
    while (tt_queue_pop(&s->queue, &item))
        free(s->events[item.what].data);
    tt_queue_fini(&s->queue);
    for (uint32_t i = 0; i < s->nconns; i++)
        free(s->conns[i]);
    free(s->events);
    free(s->conns);
    free(s->processes);
    free(s->leader);
    free(s->cards);
    free(s->places);
    free(s);
}

void tt_start_run(struct tt_start *s)
{
    while (tt_start_next(s))
        continue;
}
