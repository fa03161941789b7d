#include "comm/plugin_trampolines.h"

#include "base/status.h"

static struct slot {
    struct tt_algo algo;
    const struct tt_slot_ops *ops;
    void *self;
} slots[TT_SLOTS];
static uint32_t taken;

/* Complete functions, which is why these macros contain return: they differ only in the index of
 * their slot. */
#define FUNCTIONS(n) \
    static bool fits_##n(const struct tt_coll *c)                                  \
    {                                                                              \
        return slots[n].ops->fits(slots[n].self, c);                               \
    }                                                                              \
    static uint64_t nrounds_##n(const struct tt_coll *c)                           \
    {                                                                              \
        return slots[n].ops->nrounds(slots[n].self, c);                            \
    }                                                                              \
    static void round_##n(struct tt_sched *s, const struct tt_coll *c, uint64_t k) \
    {                                                                              \
        slots[n].ops->round(slots[n].self, s, c, k);                               \
    }                                                                              \
    static uint64_t work_##n(const struct tt_coll *c)                              \
    {                                                                              \
        return slots[n].ops->work_bytes(slots[n].self, c);                         \
    }                                                                              \
    static uint32_t npeers_##n(const struct tt_coll *c)                            \
    {                                                                              \
        return slots[n].ops->npeers(slots[n].self, c);                             \
    }                                                                              \
    static struct tt_cost cost_##n(const struct tt_coll *c)                        \
    {                                                                              \
        return slots[n].ops->cost(slots[n].self, c);                               \
    }
#define TABLE(n) \
    { .fits = fits_##n,       \
      .nrounds = nrounds_##n, \
      .round = round_##n,     \
      .work_bytes = work_##n, \
      .npeers = npeers_##n,   \
      .cost = cost_##n },
/* clang-format off */
#define EACH(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) \
    X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
/* clang-format on */

EACH(FUNCTIONS)

static const struct tt_algo functions[] = { EACH(TABLE) };
_Static_assert(sizeof functions / sizeof *functions == TT_SLOTS, "each slot has its functions");

const struct tt_algo *tt_slot_take(const struct tt_algo *like, const struct tt_slot_ops *ops,
                                   void *self)
{
    struct slot *slot = &slots[taken];

    if (taken == TT_SLOTS)
        return NULL;
    *slot = (struct slot){ .algo = functions[taken], .ops = ops, .self = self };
    slot->algo.name = like->name;
    slot->algo.summary = like->summary;
    slot->algo.needs = like->needs;
    slot->algo.kind = like->kind;
    slot->algo.by_name = like->by_name;
    slot->algo.direct_unsafe = like->direct_unsafe;
    taken++;
    return &slot->algo;
}

const void *tt_slot_self(const struct tt_algo *algo, const struct tt_slot_ops *ops)
{
    for (uint32_t i = 0; i < taken; i++)
        if (&slots[i].algo == algo && slots[i].ops == ops)
            return slots[i].self;
    return NULL;
}

void tt_trampolines_free(uint32_t n)
{
    tt_assert(n <= taken);
    for (; taken > n; taken--)
        slots[taken - 1].ops->free(slots[taken - 1].self);
}

void tt_trampolines_drop(uint32_t n)
{
    tt_assert(n <= taken);
    taken = n;
}

uint32_t tt_trampolines_used(void)
{
    return taken;
}
