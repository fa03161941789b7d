#include "tune/program_features.h"

#define ROUNDS_MAX 512u /* maximum number of rounds examined */
#define PRIME 0x100000001b3ull

static void hash_add(struct tt_program_features *g, uint64_t x) { g->hash = (g->hash ^ x) * PRIME; }

static void hash_add_ref(struct tt_program_features *g, const struct tt_ref *ref)
{
    hash_add(g, ref->offset);
    hash_add(g, ref->block);
    hash_add(g, ref->stride);
    hash_add(g, ref->buf);
}

static void hash_add_step(struct tt_program_features *g, const struct tt_step *t,
                          uint64_t segment_bytes)
{
    hash_add(g, t->opcode);
    hash_add(g, t->finish);
    hash_add(g, t->peer);
    hash_add(g, t->tag);
    hash_add(g, t->bytes);
    hash_add_ref(g, &t->out);
    hash_add_ref(g, &t->a);
    hash_add_ref(g, &t->b);
    if (t->opcode == TT_PUT)
        g->messages += t->bytes / segment_bytes + 1;
}

void tt_program_features(struct tt_program_features *g, const struct tt_algo *algo,
                         const struct tt_coll *c, uint64_t segment_bytes)
{
    struct tt_step steps[TT_ROUND_STEPS_MAX];
    struct tt_coll there = *c;

    *g = (struct tt_program_features){ .whole = true };
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t n;

        there.rank = (c->root + i) % c->nranks;
        n = algo->nrounds(&there);
        g->rounds += n;
        g->whole &= n <= ROUNDS_MAX;
        for (uint64_t k = 0; k < n && k < ROUNDS_MAX; k++) {
            struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };

            algo->round(&s, &there, k);
            for (uint32_t j = 0; j < s.n; j++)
                hash_add_step(g, &steps[j], segment_bytes);
        }
    }
}

bool tt_program_features_same(const struct tt_program_features *a,
                              const struct tt_program_features *b)
{
    return a->whole && b->whole && a->rounds == b->rounds && a->messages == b->messages &&
           a->hash == b->hash;
}
