#include "trace/dump_state.h"

#include <stdlib.h>
#include <string.h>

/* Returns whether an array has room for one more element, after growing it if needed. */
static bool array_grow(void **array, uint32_t n, uint32_t *cap, uint32_t most, size_t element)
{
    void *more;
    uint32_t want;

    if (n < *cap)
        return true;
    if (n >= most)
        return false;
    want = *cap ? 2 * *cap : 16;
    more = realloc(*array, want * element);
    if (!more)
        return false;
    *array = more;
    *cap = want;
    return true;
}

const struct tt_dump_op *tt_dump_find_op(const struct tt_dump_state *s, uint64_t record)
{
    for (uint32_t i = 0; i < s->nops; i++)
        if (s->ops[i].record == record)
            return &s->ops[i];
    return NULL;
}

bool tt_dump_add_op(struct tt_dump_state *s, const struct tt_dump_op *op)
{
    if (tt_dump_find_op(s, op->record))
        return false;
    if (!array_grow((void **)&s->ops, s->nops, &s->ops_cap, TT_DUMP_OPS_MAX, sizeof *s->ops)) {
        s->left_out++;
        return false;
    }
    s->ops[s->nops] = *op;
    s->ops[s->nops].first_flow = s->nflows;
    s->ops[s->nops].nflows = 0;
    s->nops++;
    return true;
}

void tt_dump_add_flow(struct tt_dump_state *s, const struct tt_dump_flow *flow)
{
    if (!array_grow((void **)&s->flows, s->nflows, &s->flows_cap, TT_DUMP_ROWS_MAX,
                    sizeof *s->flows)) {
        s->left_out++;
        return;
    }
    s->flows[s->nflows++] = *flow;
    s->ops[s->nops - 1].nflows++;
}

void tt_dump_add_peer(struct tt_dump_state *s, const struct tt_dump_peer *peer)
{
    for (uint32_t i = 0; i < s->npeers; i++)
        if (s->peers[i].rank == peer->rank && strcmp(s->peers[i].wire, peer->wire) == 0)
            return;
    if (!array_grow((void **)&s->peers, s->npeers, &s->peers_cap, TT_DUMP_ROWS_MAX,
                    sizeof *s->peers)) {
        s->left_out++;
        return;
    }
    s->peers[s->npeers++] = *peer;
}

void tt_dump_add_lane(struct tt_dump_state *s, const struct tt_dump_lane *lane)
{
    for (uint32_t i = 0; i < s->nlanes; i++)
        if (s->lanes[i].rank == lane->rank && s->lanes[i].lane == lane->lane &&
            strcmp(s->lanes[i].wire, lane->wire) == 0) {
            s->lanes[i] = *lane;    /* newer */
            return;
        }
    if (!array_grow((void **)&s->lanes, s->nlanes, &s->lanes_cap, TT_DUMP_ROWS_MAX,
                    sizeof *s->lanes)) {
        s->left_out++;
        return;
    }
    s->lanes[s->nlanes++] = *lane;
}

void tt_dump_add_life(struct tt_dump_state *s, const struct tt_dump_life *life)
{
    if (!array_grow((void **)&s->lives, s->nlives, &s->lives_cap, TT_DUMP_ROWS_MAX,
                    sizeof *s->lives)) {
        s->left_out++;
        return;
    }
    s->lives[s->nlives++] = *life;
}

const struct tt_dump_life *tt_dump_find_life(const struct tt_dump_state *s, uint32_t rank)
{
    for (uint32_t i = 0; i < s->nlives; i++)
        if (s->lives[i].rank == rank)
            return &s->lives[i];
    return NULL;
}

void tt_dump_state_fini(struct tt_dump_state *s)
{
    free(s->ops);
    free(s->flows);
    free(s->peers);
    free(s->lives);
    free(s->lanes);
    *s = (struct tt_dump_state){ .ops = NULL };
}
