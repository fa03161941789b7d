#include "support/layouts.h"

#include <stdlib.h>
#include "base/prng.h"
#include "support/unit.h"

enum shape {
    REGULAR,        /* consecutive ranks fill hosts; the last may have fewer */
    SPREAD,         /* consecutive ranks fill hosts, and alternate between their sockets */
    DEALT,          /* ranks are dealt to hosts in turn, as few as possible; sockets alternate
                       likewise */
    DRAWN,          /* random hosts of 1 to `ranks` ranks, and random sockets */
    LOPSIDED        /* one host of `ranks` ranks, all others with one rank */
};

struct kind {
    const char *text;
    enum shape shape;
    uint32_t ranks, sockets, rails;     /* per host */
    enum tt_node_kind node;
};

static const struct kind kinds[] = {
    { "hosts of 1", REGULAR, 1, 1, 1, TT_NODE_MESH },
    { "hosts of 2", REGULAR, 2, 1, 2, TT_NODE_MESH },
    { "hosts of 3 on 1 rail", REGULAR, 3, 1, 1, TT_NODE_MESH },
    { "hosts of 4", REGULAR, 4, 1, 4, TT_NODE_MESH },
    { "hosts of 8 on 4 rails", REGULAR, 8, 1, 4, TT_NODE_MESH },
    { "hosts of 16", REGULAR, 16, 1, 8, TT_NODE_MESH },
    { "hosts of 2 in 2 sockets", REGULAR, 2, 2, 2, TT_NODE_SOCKETS },
    { "hosts of 4 in 1 socket", REGULAR, 4, 1, 4, TT_NODE_SOCKETS },
    { "hosts of 4 in 2 sockets", REGULAR, 4, 2, 4, TT_NODE_SOCKETS },
    { "hosts of 6 in 3 sockets", REGULAR, 6, 3, 2, TT_NODE_SOCKETS },
    { "hosts of 8 in 2 sockets", REGULAR, 8, 2, 8, TT_NODE_SOCKETS },
    { "hosts of 8 in 4 sockets", REGULAR, 8, 4, 8, TT_NODE_SOCKETS },
    { "hosts of 4, ranks dealt to 2 sockets", SPREAD, 4, 2, 4, TT_NODE_SOCKETS },
    { "ranks dealt to hosts of 4", DEALT, 4, 1, 4, TT_NODE_MESH },
    { "ranks dealt to hosts of 4 in 2 sockets", DEALT, 4, 2, 4, TT_NODE_SOCKETS },
    { "drawn hosts of up to 5", DRAWN, 5, 1, 2, TT_NODE_MESH },
    { "drawn hosts of up to 8 in 2 drawn sockets", DRAWN, 8, 2, 1, TT_NODE_SOCKETS },
    { "one host of 7, others of 1", LOPSIDED, 7, 1, 1, TT_NODE_MESH },
    { "one host of 4 in 2 sockets, others of 1", LOPSIDED, 4, 2, 1, TT_NODE_SOCKETS },
};

const uint32_t layout_kinds = sizeof kinds / sizeof kinds[0];

const char *layout_text(uint32_t kind)
{
    return kinds[kind].text;
}

struct label {
    uint32_t host, socket;      /* host: arbitrary number; socket: index within the host */
};

static void draw_labels(const struct kind *k, struct label *label, uint32_t nranks, uint64_t seed)
{
    const uint32_t hosts = (nranks + k->ranks - 1) / k->ranks;
    uint32_t host = 0, left = 0;
    struct tt_prng p;

    tt_prng_init(&p, seed);
    for (uint32_t r = 0; r < nranks; r++)
        if (k->shape == SPREAD) {
            label[r] = (struct label){ r / k->ranks, r % k->ranks % k->sockets };
        } else if (k->shape == DEALT) {
            label[r] = (struct label){ r % hosts, r / hosts % k->sockets };
        } else if (k->shape == LOPSIDED) {
            label[r] = (struct label){ r < k->ranks ? 0 : r, r % k->sockets };
        } else {
            if (left == 0) {
                left = 1 + (uint32_t)tt_prng_below(&p, k->ranks);
                host++;
            }
            left--;
            label[r] = (struct label){ host, (uint32_t)tt_prng_below(&p, k->sockets) };
        }
    for (uint32_t r = nranks - 1; k->shape == DRAWN && r > 0; r--) {
        const uint32_t other = (uint32_t)tt_prng_below(&p, r + 1);
        const struct label mine = label[r];

        label[r] = label[other];
        label[other] = mine;
    }
}

void layout_number(struct tt_layout_seat *seats, uint32_t nranks)
{
    uint32_t *name = calloc(nranks, sizeof *name);

    assert_non_null(name);
    for (int level = TT_NEAR_SOCKET; level < TT_NEAR_WAN; level++) {
        uint32_t n = 0;

        for (uint32_t r = 0; r < nranks; r++) {
            uint32_t *group = &seats[r].group[level], i = 0;

            while (i < n && name[i] != *group)
                i++;
            if (i == n)
                name[n++] = *group;
            *group = i;
        }
    }
    free(name);
}

static void seat(struct tt_layout_seat *seats, const struct label *label, uint32_t nranks,
                 const struct kind *k)
{
    for (uint32_t r = 0; r < nranks; r++) {
        seats[r] = (struct tt_layout_seat){ .rail = r % k->rails };
        seats[r].group[TT_NEAR_HOST] = label[r].host;
        seats[r].group[TT_NEAR_SOCKET] = label[r].host * k->sockets + label[r].socket;
    }
    layout_number(seats, nranks);
}

void layout_make(struct tt_layout *l, uint32_t kind, uint32_t nranks, uint64_t seed)
{
    const struct kind *k = &kinds[kind];
    struct label *label;
    struct tt_layout_seat *seats;

    if (k->shape == REGULAR) {
        tt_layout_regular(l, nranks, k->ranks, k->sockets, k->rails, k->node);
        return;
    }
    label = calloc(nranks, sizeof *label);
    seats = calloc(nranks, sizeof *seats);
    draw_labels(k, label, nranks, seed);
    seat(seats, label, nranks, k);
    assert_true(tt_layout_init(l, seats, nranks, k->node, k->rails));
    free(label);
    free(seats);
}
