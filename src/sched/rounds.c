#include "sched/rounds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sched/print.h"

/* One round of one rank, and how far it has run. */
struct turn {
    struct tt_step step[TT_ROUND_STEPS_MAX];
    uint32_t n, at;
};

struct check {
    const struct tt_algo *algo;
    const struct tt_coll *coll;
    uint32_t nranks;
    struct turn *turn;          /* [nranks] */
    uint8_t *peers;             /* [nranks][nranks] bits: whom each rank has met */
    char *why;
    size_t why_bytes;
};

static tutti_status flaw(const struct check *c, uint32_t rank, uint64_t k, uint32_t step, const char *what)
{
    char text[TT_STEP_TEXT_BYTES];

    snprintf(c->why, c->why_bytes, "rank %u, round %" PRIu64 ", step %u (%s): %s", rank, k, step,
             tt_step_text(&c->turn[rank].step[step], text, sizeof text), what);
    return TUTTI_ERR_INVALID;
}

/* The other end of a put or wait of `rank` in the same round; UINT32_MAX: none. */
static uint32_t mate_of(const struct check *c, uint32_t rank, const struct tt_step *s)
{
    const struct turn *t = &c->turn[s->peer];

    for (uint32_t i = 0; i < t->n; i++)
        if (t->step[i].opcode == (s->opcode == TT_PUT ? TT_WAIT : TT_PUT) && t->step[i].peer == rank &&
            t->step[i].tag == s->tag && t->step[i].bytes == s->bytes)
            return i;
    return UINT32_MAX;
}

static bool reads_pipe(const struct tt_step *s, uint64_t name)
{
    if (s->opcode != TT_WAIT && s->a.buf == TT_BUF_PIPE && s->a.offset == name)
        return true;
    return s->opcode == TT_REDUCE_STEP && s->b.buf == TT_BUF_PIPE && s->b.offset == name;
}

static tutti_status check_ends(const struct check *c, uint32_t rank, uint64_t k)
{
    const struct turn *t = &c->turn[rank];

    for (uint32_t i = 0; i < t->n; i++) {
        const struct tt_step *s = &t->step[i];
        bool read = s->opcode == TT_PUT || s->out.buf != TT_BUF_PIPE || s->bytes == 0;

        if (s->opcode == TT_PUT || s->opcode == TT_WAIT) {
            if (s->peer >= c->nranks || s->peer == rank)
                return flaw(c, rank, k, i, "no such peer");
            if (mate_of(c, rank, s) == UINT32_MAX)
                return flaw(c, rank, k, i, "the peer has no other end for it in that round");
            c->peers[(size_t)rank * c->nranks + s->peer] = 1;
        }
        for (uint32_t j = i + 1; j < t->n && !read; j++)
            read = reads_pipe(&t->step[j], s->out.offset);
        if (!read)
            return flaw(c, rank, k, i, "nobody reads that pipe later in the round");
    }
    return TUTTI_OK;
}

/* Runs the round of all ranks step by step: a wait runs once its put has. */
static tutti_status check_order(const struct check *c, uint64_t k)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint32_t r = 0; r < c->nranks; r++)
            for (struct turn *t = &c->turn[r]; t->at < t->n; t->at++, moved = true) {
                const struct tt_step *s = &t->step[t->at];

                if (s->opcode == TT_WAIT && mate_of(c, r, s) >= c->turn[s->peer].at)
                    break;
            }
    }
    for (uint32_t r = 0; r < c->nranks; r++)
        if (c->turn[r].at < c->turn[r].n)
            return flaw(c, r, k, c->turn[r].at, "step by step it waits, in a circle, for itself: put before you wait");
    return TUTTI_OK;
}

static tutti_status check_round(const struct check *c, uint64_t k)
{
    tutti_status st = TUTTI_OK;

    for (uint32_t r = 0; r < c->nranks; r++) {
        struct tt_sched s = { .steps = c->turn[r].step, .cap = TT_ROUND_STEPS_MAX };

        c->algo->round(&s, &c->coll[r], k);
        c->turn[r].n = s.n;
        c->turn[r].at = 0;
    }
    for (uint32_t r = 0; r < c->nranks && st == TUTTI_OK; r++)
        st = check_ends(c, r, k);
    return st == TUTTI_OK ? check_order(c, k) : st;
}

static tutti_status check_peers(const struct check *c)
{
    for (uint32_t r = 0; r < c->nranks; r++) {
        const uint32_t said = c->algo->npeers(&c->coll[r]);
        uint32_t n = 0;

        for (uint32_t i = 0; i < c->nranks; i++)
            n += c->peers[(size_t)r * c->nranks + i];
        if (n > said) {
            snprintf(c->why, c->why_bytes, "rank %u exchanges with %u ranks, and says at most %u", r, n, said);
            return TUTTI_ERR_INVALID;
        }
    }
    return TUTTI_OK;
}

tutti_status tt_rounds_check(const struct tt_algo *algo, const struct tt_coll *coll, uint32_t nranks, char *why,
                             size_t why_bytes)
{
    struct check c = {
        .algo = algo, .coll = coll, .nranks = nranks, .turn = calloc(nranks, sizeof *c.turn),
        .peers = calloc((size_t)nranks * nranks, 1), .why = why, .why_bytes = why_bytes,
    };
    const uint64_t nrounds = algo->nrounds(&coll[0]);
    tutti_status st = TUTTI_OK;

    if (!c.turn || !c.peers) {
        snprintf(why, why_bytes, "no memory to check %u ranks", nranks);
        st = TUTTI_ERR_NOMEM;
    }
    for (uint32_t r = 1; r < nranks && st == TUTTI_OK; r++)
        if (algo->nrounds(&coll[r]) != nrounds) {
            snprintf(why, why_bytes, "rank 0 has %" PRIu64 " rounds, rank %u %" PRIu64, nrounds, r, algo->nrounds(&coll[r]));
            st = TUTTI_ERR_INVALID;
        }
    for (uint64_t k = 0; k < nrounds && st == TUTTI_OK; k++)
        st = check_round(&c, k);
    if (st == TUTTI_OK)
        st = check_peers(&c);
    free(c.turn);
    free(c.peers);
    return st;
}
