/* The start-up tree with arbitrary peers. The first byte selects the target:
 *   the root, or the first rank of a host, with several children
 *   a rank, with a parent that sends anything
 *   the parsers of reports and layouts, or the encoder of layouts
 * Peers send any frames, with the proof of the token or without. No read goes past an end
 * (sanitizers), and accepted layouts are valid. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "boot/tree.h"

#define TOKEN "token"
#define NCONNS 4u
#define NRANKS 6u
#define CHALLENGE 1u
#define FRAME_FIRST 32u         /* here: CHALLENGE; the next type is JOIN */
#define JOIN 33u
#define SAID_MAX 4096u

struct conn {
    struct tt_tree_conn machine;
    bool open;
};

struct target {
    struct tt_tree tree;
    struct conn conns[NCONNS];
    bool up;
};

static void on_act(void *context, const struct tt_tree_act *act)
{
    struct target *t = context;
    volatile uint8_t sum = 0;

    for (size_t i = 0; i < act->bytes; i++)     /* all of it is readable */
        sum = (uint8_t)(sum + ((const uint8_t *)act->data)[i]);
    if (act->kind == TT_TREE_ACT_CLOSE && act->conn)
        ((struct conn *)act->conn)->open = false;
    else if (act->kind == TT_TREE_ACT_CLOSE)
        t->up = false;
}

/* Writes a body with the proof of a peer that has the token. */
static size_t prove(uint8_t *body, struct tt_tree_conn *c, bool up, uint8_t type,
                    const uint8_t *said, size_t bytes)
{
    struct tt_tree_proof p = { .token = TOKEN,
                               .server_nonce = c->server_nonce,
                               .client_nonce = c->client_nonce,
                               .up = up,
                               .number = c->nreceived,
                               .type = type };
    size_t n = 0;

    if (type == JOIN) {
        memset(body, 0x33, TT_NONCE_BYTES);
        p.client_nonce = body;
        n = TT_NONCE_BYTES;
    }
    tt_tree_prove(body + n, &p, said, bytes);
    if (bytes)
        memcpy(body + n + TT_MAC_BYTES, said, bytes);
    return n + TT_MAC_BYTES + bytes;
}

static void check(const struct tt_tree *t)
{
    if (t->state == TT_TREE_PLACED && !t->conf.root)
        tt_assert(tt_tree_layout_is_valid(t->place.layout, t->place.layout_bytes, NRANKS));
    if (t->state == TT_TREE_FAILED)
        tt_assert(t->sentence && t->status >= TUTTI_ERR_INVALID);
}

/* Passes one frame to the target: from connection c, or from its parent if c is NULL. */
static void give(struct target *t, struct conn *c, uint8_t what, uint8_t type, const uint8_t *said,
                 size_t bytes, uint64_t now_ns)
{
    struct tt_tree_event ev = { .kind = TT_TREE_EV_FRAME, .conn = c ? &c->machine : NULL };
    bool *open = c ? &c->open : &t->up;
    uint8_t body[SAID_MAX + TT_NONCE_BYTES + TT_MAC_BYTES];

    if (!*open) {
        ev.kind = TT_TREE_EV_OPEN;
        memset(ev.nonce, what, sizeof ev.nonce);
        *open = true;
    } else if (what & 0x10) {
        ev.frame.type = type;
        ev.frame.body = body;
        ev.frame.bytes = prove(body, c ? &c->machine : &t->tree.up, c, type, said, bytes);
    } else {
        ev.kind = what & 0x08 ? TT_TREE_EV_CLOSED : TT_TREE_EV_FRAME;
        ev.frame = (struct tt_frame){ .type = type, .body = said, .bytes = bytes };
        *open = ev.kind == TT_TREE_EV_FRAME;
    }
    if (c && ev.kind == TT_TREE_EV_FRAME && ev.frame.bytes > c->machine.body_max)
        return;
    if (!c && t->tree.conf.root)        /* the root has no parent */
        return;
    tt_tree_step(&t->tree, &ev, now_ns);
    check(&t->tree);
}

/* {what u8, type u8, bytes u16, data}: what's lower bits select the connection. */
static void attack(const struct tt_tree_conf *conf, const uint8_t *data, size_t bytes)
{
    static struct target t;
    uint64_t now_ns = 1;
    struct tt_reader r;

    memset(&t, 0, sizeof t);
    tt_tree_init(&t.tree, conf, 1);
    t.tree.emit = on_act;
    t.tree.context = &t;
    tt_reader_init(&r, data, bytes);
    while (r.at < r.end) {
        const uint8_t what = tt_read_u8(&r), kind = tt_read_u8(&r) % 10;
        const uint8_t type = (uint8_t)(kind ? FRAME_FIRST + kind : CHALLENGE);
        const size_t n = tt_read_u16(&r), left = (size_t)(r.end - r.at);
        const size_t said = n < left ? n : left, most = said < SAID_MAX ? said : SAID_MAX;

        if (r.bad)
            break;
        now_ns += (what >> 5) * 50 * TT_MS;
        give(&t, (what & 7) < NCONNS ? &t.conns[what & 7] : NULL, what, type, r.at, most, now_ns);
        r.at += said;
    }
    tt_tree_step(&t.tree, &(struct tt_tree_event){ .kind = TT_TREE_EV_TICK },
                 now_ns + 100 * TT_SECOND);
    check(&t.tree);
    tt_assert(t.tree.state != TT_TREE_GATHERING);
    tt_tree_fini(&t.tree);
}

/* Reads all ranks of a valid layout. runs[NRANKS]: their places; NULL: any. */
static void walk(const uint8_t *layout, size_t bytes, const struct tt_tree_run *runs)
{
    struct tt_tree_walk w;

    tt_assert(tt_tree_walk_init(&w, layout, bytes) == TUTTI_OK);
    for (uint32_t i = 0; i < NRANKS; i++) {
        struct tt_record_stream stream = { .n = 0 };
        struct tt_reader r;
        const uint8_t *place;
        uint8_t size;
        const uint32_t host = tt_tree_walk_next(&w, &place, &size);

        tt_assert(host < NRANKS && size <= TT_TREE_PLACE_MAX);
        if (!runs)
            continue;
        tt_reader_init(&r, runs[i].places, runs[i].places_bytes);
        tt_record_read(&stream, &r);
        tt_assert(host == (runs[i].host != runs[0].host) && size == stream.entry.bytes);
        tt_assert(size == 0 || memcmp(place, stream.entry.record, size) == 0);
    }
    tt_tree_walk_fini(&w);
}

static void attack_parsers(const uint8_t *data, size_t bytes)
{
    struct tt_tree_report_head head;
    struct tt_tree_layout layout;
    struct tt_tree_group g;
    struct tt_tree_run run;
    uint64_t nranks = 0;
    struct tt_reader r;

    tt_reader_init(&r, data, bytes);
    tt_tree_read_report(&r, NRANKS, &head);
    for (uint32_t i = 0; i < head.nruns && !r.bad; i++) {
        tt_tree_read_run(&r, NRANKS, &head, &run);
        tt_assert(r.bad || (run.count > 0 && run.first + run.count <= NRANKS));
    }
    if (!tt_tree_layout_is_valid(data, bytes, NRANKS))
        return;
    tt_tree_layout_open(&layout, data, bytes);
    while (tt_tree_layout_next(&layout, &g))
        nranks += (uint64_t)g.nhosts * g.count;
    tt_assert(nranks == NRANKS);
    walk(data, bytes, NULL);
}

/* Encodes arbitrary places of all ranks, each on one of two hosts: the layout has the same places.
 * Input: for each rank {host and size of the place u8, value u8}. */
static void encode(const uint8_t *data, size_t bytes)
{
    uint8_t places[NRANKS][TT_TREE_PLACE_MAX], packed[NRANKS][TT_RECORD_OVERHEAD + sizeof *places];
    struct tt_tree_run runs[NRANKS] = { { 0 } };
    struct tt_reader r;
    uint8_t *layout;
    size_t n;

    tt_reader_init(&r, data, bytes);
    for (uint32_t i = 0; i < NRANKS; i++) {
        const uint8_t what = tt_read_u8(&r), size = what / 2;
        struct tt_record_stream stream = { .n = 0 };
        struct tt_writer w;

        memset(places[i], tt_read_u8(&r), sizeof *places);
        tt_writer_init(&w, packed[i], sizeof *packed);
        tt_record_write(&stream, &w, 0, places[i], size);
        runs[i] = (struct tt_tree_run){ .first = i,
                                        .count = 1,
                                        .host = what % 2,
                                        .places = packed[i],
                                        .places_bytes = tt_writer_bytes(&w) };
    }
    layout = tt_tree_encode_layout(runs, NRANKS, NRANKS, &n);
    tt_assert(layout && tt_tree_layout_is_valid(layout, n, NRANKS));
    walk(layout, n, runs);
    free(layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_tree_conf conf = { .token = TOKEN,
                                 .rank = 2,
                                 .leader = 2,
                                 .nranks = NRANKS,
                                 .process = 9,
                                 .address = { .bytes = 4 },
                                 .settings = "a=b",
                                 .serve_port = 4711,
                                 .children_max = 2,
                                 .began_ns = 1,
                                 .deadline_ns = 60 * TT_SECOND };

    if (bytes == 0)
        return 0;
    if (data[0] % 4 == 0) {
        conf.root = true;
        conf.nranks = data[0] & 4 ? 0 : NRANKS;
    }
    if (data[0] % 4 == 2)
        conf.leader = 1;
    if (data[0] & 8) {
        conf.refuses = TUTTI_ERR_INVALID;
        conf.cause = "a cause";
    }
    if (data[0] & 16) {
        conf.place = "a place";
        conf.place_bytes = 7;
    }
    if (data[0] % 8 == 7)
        encode(data + 1, bytes - 1);
    else if (data[0] % 4 == 3)
        attack_parsers(data + 1, bytes - 1);
    else
        attack(&conf, data + 1, bytes - 1);
    return 0;
}
